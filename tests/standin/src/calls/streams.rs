//! Streams, events and waits.

use core::ffi::{c_int, c_uint, c_void};

use gpushim_abi::hooks::{CUevent, CUgreenCtx, CUipcMemHandle, CUstream};

use super::contexts::current;
use super::memory::is_null;
use crate::entry::{Answer, INVALID_HANDLE, driver_calls, ledger, out};
use crate::ledger::Kind;

/// Whether a stream exists; 0, 1 and 2 are the default ones.
pub(super) fn check_stream(stream: CUstream) -> Answer {
    let handle = stream as u64;
    if handle <= 2
        || ledger()
            .objects
            .get(&handle)
            .is_some_and(|o| o.kind == Kind::Stream)
    {
        Ok(())
    } else {
        Err(INVALID_HANDLE)
    }
}

/// Makes a handle of a kind in the current context.
pub(super) fn make(at: *mut *mut c_void, kind: Kind, size: u64) -> Answer {
    let place = out!(at);
    place.check()?;
    let context = current()?;
    let mut ledger = ledger();
    let device = ledger.context(context)?.device;
    ledger.take(device, size)?;
    let handle = ledger.handle();
    let context = ledger.resolve(context);
    ledger.add(handle, kind, size, device, context);
    place.put(handle as *mut c_void);
    Ok(())
}

pub(super) fn end(handle: *mut c_void, kind: Kind) -> Answer {
    let mut ledger = ledger();
    match ledger.objects.get(&(handle as u64)) {
        Some(object) if object.kind == kind => {
            ledger.free(handle as u64);
            Ok(())
        }
        _ => Err(INVALID_HANDLE),
    }
}

fn synchronise(stream: CUstream) -> Answer {
    check_stream(stream)?;
    let context = current()?;
    let mut ledger = ledger();
    let device = ledger.context(context)?.device;
    ledger.synchronised(device);
    Ok(())
}

driver_calls! {
    /// Makes a stream.
    Init fn cuStreamCreate(phStream: *mut CUstream, _Flags: c_uint) { make(phStream, Kind::Stream, 0) }
    /// Makes a stream.
    Init fn cuStreamCreateWithPriority(phStream: *mut CUstream, _flags: c_uint, _priority: c_int) { make(phStream, Kind::Stream, 0) }
    /// Makes a stream in a green context.
    Init fn cuGreenCtxStreamCreate(phStream: *mut CUstream, greenCtx: CUgreenCtx, _flags: c_uint, _priority: c_int) {
        if !ledger().greens.contains_key(&(greenCtx as u64)) {
            return Err(INVALID_HANDLE);
        }
        make(phStream, Kind::Stream, 0)
    }
    /// Ends a stream, before CUDA 4.0.
    Init fn cuStreamDestroy(hStream: CUstream) { end(hStream, Kind::Stream) }
    /// Ends a stream.
    Init fn cuStreamDestroy_v2(hStream: CUstream) { end(hStream, Kind::Stream) }
    /// Waits for nothing, per-thread default stream.
    Init fn cuStreamSynchronize_ptsz(hStream: CUstream) { synchronise(hStream) }
    /// Nothing is ever pending.
    Init fn cuStreamQuery(hStream: CUstream) { check_stream(hStream) }
    /// Makes an event.
    Init fn cuEventCreate(phEvent: *mut *mut c_void, _Flags: c_uint) { make(phEvent, Kind::Event, 0) }
    /// Another process's event.
    Init fn cuIpcOpenEventHandle(phEvent: *mut CUevent, _handle: CUipcMemHandle) { make(phEvent, Kind::Event, 0) }
    /// Ends an event, before CUDA 4.0.
    Init fn cuEventDestroy(hEvent: CUevent) { end(hEvent, Kind::Event) }
    /// Ends an event.
    Init fn cuEventDestroy_v2(hEvent: *mut c_void) { end(hEvent, Kind::Event) }
    /// Records nothing.
    Init fn cuEventRecord(_hEvent: *mut c_void, hStream: CUstream) { check_stream(hStream) }
    /// Waits for nothing; idle pool memory goes back.
    Init fn cuEventSynchronize(_hEvent: CUevent) { synchronise(core::ptr::null_mut()) }
}

/// Waits for nothing, or runs a graph; at once where a recorder's own cost is measured.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuStreamSynchronize(hStream: CUstream) -> c_int {
    if is_null() {
        return 0;
    }
    crate::entry::run("cuStreamSynchronize", crate::entry::Needs::Init, || {
        synchronise(hStream)
    })
}
