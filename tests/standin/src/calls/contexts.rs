//! Primary and created contexts, and each thread's stack of them.

use core::ffi::{c_int, c_uint, c_void};
use std::cell::RefCell;

use gpushim_abi::hooks::{CUcontext, CUdevResourceDesc, CUdevice, CUgreenCtx, Opaque};

use super::memory::is_null;
use crate::entry::{
    Answer, CURRENT, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE,
    UNSUPPORTED_LIMIT, driver_calls, ledger, out,
};
use crate::ledger::{Kind, Ledger, STACKS};

thread_local! {
    /// Contexts below the current one.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread's current context, alive.
pub(super) fn current() -> Result<u64, c_int> {
    let handle = CURRENT.get();
    if handle == 0 {
        return Err(INVALID_CONTEXT);
    }
    ledger().context(handle)?;
    Ok(handle)
}

fn set_current(handle: u64) -> Answer {
    if handle != 0 {
        ledger().context(handle)?;
    }
    CURRENT.set(handle);
    Ok(())
}

fn push(handle: u64) -> Answer {
    if handle == 0 {
        return Err(INVALID_CONTEXT);
    }
    ledger().context(handle)?;
    STACK.with_borrow_mut(|stack| stack.push(CURRENT.get()));
    CURRENT.set(handle);
    Ok(())
}

fn pop() -> Result<u64, c_int> {
    let handle = current()?;
    CURRENT.set(STACK.with_borrow_mut(Vec::pop).unwrap_or(0));
    Ok(handle)
}

fn create(pctx: *mut CUcontext, dev: CUdevice) -> Answer {
    let place = out!(pctx);
    place.check()?;
    let mut ledger = ledger();
    let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
    let handle = ledger.new_context(device, false)?;
    drop(ledger);
    place.put(handle as CUcontext);
    push(handle)
}

fn destroy(ctx: CUcontext) -> Answer {
    let handle = ctx as u64;
    let mut ledger = ledger();
    if ledger.context(handle)?.is_primary {
        return Err(INVALID_CONTEXT);
    }
    ledger.end_context(handle);
    drop(ledger);
    if CURRENT.get() == handle {
        CURRENT.set(STACK.with_borrow_mut(Vec::pop).unwrap_or(0));
    }
    Ok(())
}

fn release(dev: CUdevice) -> Answer {
    let mut ledger = ledger();
    let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
    if ledger.devices[device].primary_references == 0 {
        return Err(INVALID_CONTEXT);
    }
    ledger.devices[device].primary_references -= 1;
    if ledger.devices[device].primary_references == 0 {
        let handle = std::mem::take(&mut ledger.devices[device].primary);
        ledger.end_context(handle);
    }
    Ok(())
}

fn reset(dev: CUdevice) -> Answer {
    let mut ledger = ledger();
    let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
    let handle = std::mem::take(&mut ledger.devices[device].primary);
    // References are kept, as measured: the context comes back with the next one taken.
    ledger.end_context(handle);
    Ok(())
}

/// Takes a reference to a primary context; the first one, or the first after a reset, creates it.
fn retain(ledger: &mut Ledger, device: usize) -> Result<u64, c_int> {
    if ledger.devices[device].primary == 0 {
        let handle = ledger.new_context(device, true)?;
        ledger.devices[device].primary = handle;
    }
    ledger.devices[device].primary_references += 1;
    Ok(ledger.devices[device].primary)
}

/// The device of a green context's primary one.
fn green(handle: CUgreenCtx) -> Result<usize, c_int> {
    let ledger = ledger();
    let green = ledger.objects.get(&(handle as u64));
    green
        .filter(|object| object.kind == Kind::Green)
        .map(|object| object.device)
        .ok_or(INVALID_HANDLE)
}

driver_calls! {
    /// Takes a reference to a primary context; the first one creates it.
    Init fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) {
        let place = out!(pctx);
        place.check()?;
        let mut ledger = ledger();
        let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
        place.put(retain(&mut ledger, device)? as CUcontext);
        Ok(())
    }
    /// A part of the primary context's processors; the handle is a context's too.
    Init fn cuGreenCtxCreate(phCtx: *mut CUgreenCtx, _desc: CUdevResourceDesc, dev: CUdevice, flags: c_uint) {
        let place = out!(phCtx);
        place.check()?;
        if flags != 1 {
            return Err(INVALID_VALUE);
        }
        let mut ledger = ledger();
        let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
        let primary = retain(&mut ledger, device)?;
        let handle = ledger.handle();
        ledger.add(handle, Kind::Green, 0, device, 0);
        ledger.greens.insert(handle, primary);
        place.put(handle as CUgreenCtx);
        Ok(())
    }
    /// Ends a green context and its reference; its memory is the primary context's.
    Init fn cuGreenCtxDestroy(hCtx: CUgreenCtx) {
        let device = green(hCtx)?;
        {
            let mut ledger = ledger();
            ledger.objects.remove(&(hCtx as u64));
            ledger.greens.remove(&(hCtx as u64));
        }
        // Its reference may have been given back by hand.
        let _ = release(device as CUdevice);
        Ok(())
    }
    /// The context handle of a green context, which is its own.
    Init fn cuCtxFromGreenCtx(pContext: *mut CUcontext, hCtx: CUgreenCtx) {
        let place = out!(pContext);
        place.check()?;
        green(hCtx)?;
        place.put(hCtx);
        Ok(())
    }
    /// Maps nothing.
    Init fn cuCtxEnablePeerAccess(peerContext: CUcontext, _Flags: c_uint) { ledger().context(peerContext as u64).map(drop) }
    /// Unmaps nothing.
    Init fn cuCtxDisablePeerAccess(peerContext: CUcontext) { ledger().context(peerContext as u64).map(drop) }
    /// A context for OpenGL, 32-bit interface.
    Init fn cuGLCtxCreate(pCtx: *mut CUcontext, _Flags: c_uint, device: CUdevice) { create(pCtx, device) }
    /// A context for OpenGL.
    Init fn cuGLCtxCreate_v2(pCtx: *mut CUcontext, _Flags: c_uint, device: CUdevice) { create(pCtx, device) }
    /// A context for VDPAU, 32-bit interface.
    Init fn cuVDPAUCtxCreate(pCtx: *mut CUcontext, _flags: c_uint, device: CUdevice, _vdpDevice: c_uint, _get: *mut Opaque) {
        create(pCtx, device)
    }
    /// A context for VDPAU.
    Init fn cuVDPAUCtxCreate_v2(pCtx: *mut CUcontext, _flags: c_uint, device: CUdevice, _vdpDevice: c_uint, _get: *mut Opaque) {
        create(pCtx, device)
    }
    /// Drops a reference, as libcudart asks.
    Init fn cuDevicePrimaryCtxRelease(dev: CUdevice) { release(dev) }
    /// Drops a reference.
    Init fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) { release(dev).and(Ok(())) }
    /// Ends the primary context, as libcudart asks.
    Init fn cuDevicePrimaryCtxReset(dev: CUdevice) { reset(dev) }
    /// Ends the primary context.
    Init fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) { reset(dev).and(Ok(())) }
    /// Whether a primary context is active.
    Init fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        let ledger = ledger();
        let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
        out!(flags).put(0);
        out!(active).put(c_int::from(ledger.devices[device].primary != 0));
        Ok(())
    }
    /// Flags of a primary context: taken and not used.
    Init fn cuDevicePrimaryCtxSetFlags(dev: CUdevice, _flags: c_uint) {
        ledger().device(dev).map(drop).ok_or(INVALID_DEVICE)
    }
    /// Flags of a primary context: taken and not used.
    Init fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, _flags: c_uint) {
        ledger().device(dev).map(drop).ok_or(INVALID_DEVICE)
    }
    /// Creates a context, before CUDA 3.2.
    Init fn cuCtxCreate(pctx: *mut CUcontext, _flags: c_uint, dev: CUdevice) { create(pctx, dev) }
    /// Creates a context.
    Init fn cuCtxCreate_v2(pctx: *mut CUcontext, _flags: c_uint, dev: CUdevice) { create(pctx, dev) }
    /// Creates a context with execution affinity.
    Init fn cuCtxCreate_v3(pctx: *mut CUcontext, _params: *mut Opaque, _count: c_int, _flags: c_uint, dev: CUdevice) {
        create(pctx, dev)
    }
    /// Creates a context from parameters.
    Init fn cuCtxCreate_v4(pctx: *mut CUcontext, _params: *mut Opaque, _flags: c_uint, dev: CUdevice) { create(pctx, dev) }
    /// Destroys a context, before CUDA 4.0.
    Init fn cuCtxDestroy(ctx: CUcontext) { destroy(ctx) }
    /// Destroys a context.
    Init fn cuCtxDestroy_v2(ctx: CUcontext) { destroy(ctx) }
    /// Takes a usage reference to the current context.
    Init fn cuCtxAttach(pctx: *mut CUcontext, flags: c_uint) {
        let place = out!(pctx);
        place.check()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = current()?;
        if let Some(context) = ledger().contexts.get_mut(&handle) {
            context.references += 1;
        }
        place.put(handle as CUcontext);
        Ok(())
    }
    /// Drops a usage reference; the last one ends the context.
    Init fn cuCtxDetach(ctx: CUcontext) {
        let handle = ctx as u64;
        let mut held = ledger();
        let context = held.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)?;
        context.references -= 1;
        let last = context.references == 0;
        drop(held);
        if last { destroy(ctx) } else { Ok(()) }
    }
    /// Pushes a context, before CUDA 4.0.
    Init fn cuCtxPushCurrent(ctx: CUcontext) { push(ctx as u64) }
    /// Pushes a context.
    Init fn cuCtxPushCurrent_v2(ctx: CUcontext) { push(ctx as u64) }
    /// Pops the current context, before CUDA 4.0.
    Init fn cuCtxPopCurrent(pctx: *mut CUcontext) {
        let handle = pop()?;
        out!(pctx).put(handle as CUcontext);
        Ok(())
    }
    /// Pops the current context.
    Init fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) {
        let handle = pop()?;
        out!(pctx).put(handle as CUcontext);
        Ok(())
    }
    /// The device of the current context.
    Init fn cuCtxGetDevice(device: *mut CUdevice) {
        let place = out!(device);
        place.check()?;
        let handle = current()?;
        let ordinal = ledger().context(handle)?.device;
        place.put(c_int::try_from(ordinal).unwrap_or(-1));
        Ok(())
    }
    /// Waits for nothing; idle pool memory goes back.
    Init fn cuCtxSynchronize() {
        let handle = current()?;
        let mut ledger = ledger();
        let device = ledger.context(handle)?.device;
        ledger.synchronised(device);
        Ok(())
    }
    /// Waits for nothing; idle pool memory goes back.
    Init fn cuCtxSynchronize_v2(ctx: CUcontext) {
        let mut ledger = ledger();
        let device = ledger.context(ctx as u64)?.device;
        ledger.synchronised(device);
        Ok(())
    }
    /// A thread's stack, 0, takes memory at once; the others are taken and not used.
    Init fn cuCtxSetLimit(limit: c_uint, value: usize) {
        let handle = current()?;
        if limit > 10 {
            return Err(UNSUPPORTED_LIMIT);
        }
        if limit != 0 {
            return Ok(());
        }
        let mut ledger = ledger();
        let handle = ledger.resolve(handle);
        let context = ledger.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)?;
        let more = (value as i64 - context.stack as i64).saturating_mul(STACKS as i64);
        context.stack = value as u64;
        context.stack_bytes = context.stack_bytes.saturating_add(more);
        let device = context.device;
        ledger.take_signed(device, more);
        Ok(())
    }
}

/// The current context: cheap, since the recorder asks at every call.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuCtxGetCurrent(pctx: *mut *mut c_void) -> c_int {
    let place = out!(pctx);
    if place.check().is_err() {
        return INVALID_VALUE;
    }
    place.put(CURRENT.get() as CUcontext);
    0
}

/// Makes a context current.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuCtxSetCurrent(ctx: CUcontext) -> c_int {
    if is_null() && CURRENT.get() == ctx as u64 {
        return 0;
    }
    crate::entry::run("cuCtxSetCurrent", crate::entry::Needs::Init, || {
        set_current(ctx as u64)
    })
}
