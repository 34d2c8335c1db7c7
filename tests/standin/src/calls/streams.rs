//! Streams, events, modules and launches: enough for programs to run on.

use core::ffi::{c_char, c_int, c_uint, c_void};

use gpushim_abi::hooks::CUstream;

use super::contexts::current;
use crate::entry::{Answer, INVALID_HANDLE, INVALID_VALUE, driver_calls, ledger, out};
use crate::ledger::{Kind, MIB};

/// What a module costs its device: code and the driver's growth.
const MODULE_BYTES: u64 = 2 * MIB;

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
fn make(at: *mut *mut c_void, kind: Kind, size: u64) -> Answer {
    let place = out!(at);
    place.check()?;
    let context = current()?;
    let mut ledger = ledger();
    let device = ledger.context(context)?.device;
    ledger.take(device, size)?;
    let handle = ledger.handle();
    ledger.add(handle, kind, size, device, context);
    place.put(handle as *mut c_void);
    Ok(())
}

fn end(handle: *mut c_void, kind: Kind) -> Answer {
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
    /// Ends a stream.
    Init fn cuStreamDestroy_v2(hStream: CUstream) { end(hStream, Kind::Stream) }
    /// Waits for nothing; idle pool memory goes back.
    Init fn cuStreamSynchronize(hStream: CUstream) { synchronise(hStream) }
    /// Nothing is ever pending.
    Init fn cuStreamQuery(hStream: CUstream) { check_stream(hStream) }
    /// Nothing is ever captured.
    Init fn cuStreamIsCapturing(hStream: CUstream, status: *mut c_uint) {
        check_stream(hStream)?;
        let place = out!(status);
        place.check()?;
        place.put(0);
        Ok(())
    }
    /// Makes an event.
    Init fn cuEventCreate(phEvent: *mut *mut c_void, _Flags: c_uint) { make(phEvent, Kind::Event, 0) }
    /// Ends an event.
    Init fn cuEventDestroy_v2(hEvent: *mut c_void) { end(hEvent, Kind::Event) }
    /// Records nothing.
    Init fn cuEventRecord(_hEvent: *mut c_void, hStream: CUstream) { check_stream(hStream) }
    /// Waits for nothing.
    Init fn cuEventSynchronize(_hEvent: *mut c_void) { current().map(drop) }
    /// Loads a module.
    Init fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) {
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        make(module, Kind::Module, MODULE_BYTES)
    }
    /// Unloads a module.
    Init fn cuModuleUnload(hmod: *mut c_void) { end(hmod, Kind::Module) }
    /// A function of a module, which is the module.
    Init fn cuModuleGetFunction(hfunc: *mut *mut c_void, hmod: *mut c_void, _name: *const c_char) {
        let place = out!(hfunc);
        place.check()?;
        place.put(hmod);
        Ok(())
    }
}
