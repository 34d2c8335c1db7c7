//! Linear, pitched, managed and host memory.

use core::ffi::{c_int, c_uint, c_void};
use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gpushim_abi::hooks::{CUdeviceptr, CUdeviceptr_v1, CUstream};

use super::contexts::current;
use super::graphs::capturing;
use crate::entry::{
    ALREADY_REGISTERED, Answer, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY, driver_calls, ledger,
    out,
};
use crate::ledger::{Kind, Object};

/// Rows are padded to this.
const PITCH: usize = 512;

/// `STANDIN_NULL=1`: the four busiest calls answer at once, so that a recorder's own cost can be measured.
pub(super) fn is_null() -> bool {
    static NULL: OnceLock<bool> = OnceLock::new();
    *NULL.get_or_init(|| env::var_os("STANDIN_NULL").is_some())
}

/// An address that nobody keeps.
pub(super) fn null_address() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.load(Ordering::Relaxed).wrapping_add(512) & 0x0fff_ffff;
    NEXT.store(next, Ordering::Relaxed);
    0x7f00_0000_0000 | next
}

fn linear(size: u64, low: bool) -> Result<u64, c_int> {
    let context = current()?;
    ledger().linear(context, size, low)
}

/// A pitched allocation: address and pitch.
fn pitched(width: usize, height: usize, element: c_uint, low: bool) -> Result<(u64, usize), c_int> {
    if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return Err(INVALID_VALUE);
    }
    let pitch = width.checked_next_multiple_of(PITCH).ok_or(OUT_OF_MEMORY)?;
    let size = pitch.checked_mul(height).ok_or(OUT_OF_MEMORY)?;
    Ok((linear(size as u64, low)?, pitch))
}

/// Frees any address that belongs to a device.
fn free(address: u64) -> Answer {
    if address == 0 {
        return Ok(());
    }
    let mut ledger = ledger();
    match ledger.objects.get(&address).map(|object| object.kind) {
        Some(
            Kind::Linear | Kind::Managed | Kind::Pool | Kind::GraphBlock | Kind::ExternalBuffer,
        ) => {
            ledger.free(address);
            Ok(())
        }
        _ => Err(INVALID_VALUE),
    }
}

fn host(pp: *mut *mut c_void, size: usize) -> Answer {
    let place = out!(pp);
    place.check()?;
    let context = current()?;
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    let mut memory = core::ptr::null_mut();
    // SAFETY: the pointer is to a local; the alignment is a power of two.
    if unsafe { libc::posix_memalign(&raw mut memory, 4096, size) } != 0 {
        return Err(OUT_OF_MEMORY);
    }
    let mut ledger = ledger();
    let device = ledger.context(context)?.device;
    let context = ledger.resolve(context);
    ledger.add(memory as u64, Kind::Host, size as u64, device, context);
    place.put(memory);
    Ok(())
}

fn register(p: *mut c_void, size: usize) -> Answer {
    let context = current()?;
    if p.is_null() || size == 0 {
        return Err(INVALID_VALUE);
    }
    let mut ledger = ledger();
    if ledger.registered.contains_key(&(p as u64)) {
        return Err(ALREADY_REGISTERED);
    }
    let device = ledger.context(context)?.device;
    let context = ledger.resolve(context);
    let object = Object {
        kind: Kind::Registered,
        size: size as u64,
        device,
        context,
        owner: 0,
        held: 1,
    };
    ledger.registered.insert(p as u64, object);
    Ok(())
}

/// Whether an address lies in something that is alive on a device.
fn is_alive(address: u64) -> Answer {
    let ledger = ledger();
    let object = ledger.objects.range(..=address).next_back();
    let inside = object.is_some_and(|(start, object)| address < start + object.size.max(1));
    let mapping = ledger.mappings.range(..=address).next_back();
    let mapped = mapping.is_some_and(|(start, (len, _))| address < start + len);
    if inside || mapped {
        Ok(())
    } else {
        Err(INVALID_VALUE)
    }
}

driver_calls! {
    /// Linear memory, 32-bit interface.
    Init fn cuMemAlloc(dptr: *mut CUdeviceptr_v1, bytesize: c_uint) {
        let place = out!(dptr);
        place.check()?;
        place.put(linear(bytesize.into(), true)? as CUdeviceptr_v1);
        Ok(())
    }
    /// Rows, 32-bit interface.
    Init fn cuMemAllocPitch(dptr: *mut CUdeviceptr_v1, pPitch: *mut c_uint, WidthInBytes: c_uint, Height: c_uint, ElementSizeBytes: c_uint) {
        let (place, pitch) = (out!(dptr), out!(pPitch));
        place.check()?;
        pitch.check()?;
        let (address, bytes) = pitched(WidthInBytes as usize, Height as usize, ElementSizeBytes, true)?;
        place.put(address as CUdeviceptr_v1);
        pitch.put(bytes as c_uint);
        Ok(())
    }
    /// Rows.
    Init fn cuMemAllocPitch_v2(dptr: *mut CUdeviceptr, pPitch: *mut usize, WidthInBytes: usize, Height: usize, ElementSizeBytes: c_uint) {
        let (place, pitch) = (out!(dptr), out!(pPitch));
        place.check()?;
        pitch.check()?;
        let (address, bytes) = pitched(WidthInBytes, Height, ElementSizeBytes, false)?;
        place.put(address);
        pitch.put(bytes);
        Ok(())
    }
    /// Frees, 32-bit interface.
    Init fn cuMemFree(dptr: CUdeviceptr_v1) { free(dptr.into()) }
    /// Managed memory.
    Init fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) {
        let place = out!(dptr);
        place.check()?;
        let context = current()?;
        if bytesize == 0 || !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        place.put(ledger().managed(context, bytesize as u64)?);
        Ok(())
    }
    /// Page-locked host memory, 32-bit size.
    Init fn cuMemAllocHost(pp: *mut *mut c_void, bytesize: c_uint) { host(pp, bytesize as usize) }
    /// Page-locked host memory.
    Init fn cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) { host(pp, bytesize) }
    /// Page-locked host memory with flags.
    Init fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: c_uint) {
        if Flags & !7 != 0 {
            return Err(INVALID_VALUE);
        }
        host(pp, bytesize)
    }
    /// Frees host memory.
    Init fn cuMemFreeHost(p: *mut c_void) {
        let mut ledger = ledger();
        match ledger.objects.get(&(p as u64)).map(|object| object.kind) {
            Some(Kind::Host) => {
                ledger.free(p as u64);
                Ok(())
            }
            _ => Err(INVALID_VALUE),
        }
    }
    /// Registers host memory, before CUDA 6.5.
    Init fn cuMemHostRegister(p: *mut c_void, bytesize: usize, _Flags: c_uint) { register(p, bytesize) }
    /// Registers host memory.
    Init fn cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, _Flags: c_uint) { register(p, bytesize) }
    /// Unregisters host memory.
    Init fn cuMemHostUnregister(p: *mut c_void) {
        ledger().registered.remove(&(p as u64)).map(drop).ok_or(NOT_REGISTERED)
    }
    /// Fills nothing.
    Init fn cuMemsetD8_v2(dptr: CUdeviceptr, _value: u8, _count: usize) { is_alive(dptr) }
    /// Fills nothing.
    Init fn cuMemsetD8Async(dptr: CUdeviceptr, _value: u8, _count: usize, stream: CUstream) {
        // What a captured call is about may come to be at a launch.
        if capturing(stream)?.is_some() { Ok(()) } else { is_alive(dptr) }
    }
    /// Copies nothing.
    Init fn cuMemcpyHtoD_v2(dptr: CUdeviceptr, _host: *const c_void, _count: usize) { is_alive(dptr) }
    /// Copies nothing.
    Init fn cuMemcpyDtoH_v2(_host: *mut c_void, dptr: CUdeviceptr, _count: usize) { is_alive(dptr) }
}

/// Linear memory.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) -> c_int {
    let place = out!(dptr);
    if is_null() {
        place.put(null_address());
        return 0;
    }
    crate::entry::run("cuMemAlloc_v2", crate::entry::Needs::Init, || {
        place.check()?;
        place.put(linear(bytesize as u64, false)?);
        Ok(())
    })
}

/// Frees.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuMemFree_v2(dptr: CUdeviceptr) -> c_int {
    if is_null() {
        return 0;
    }
    crate::entry::run("cuMemFree_v2", crate::entry::Needs::Init, || free(dptr))
}
