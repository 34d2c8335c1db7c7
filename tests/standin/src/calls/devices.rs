//! Initialising, and questions about devices.

use core::ffi::{c_char, c_int, c_uint};
use std::ffi::CStr;

use gpushim_abi::hooks::CUdevice;

use crate::entry::{
    self, Answer, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, NOT_INITIALIZED, UNKNOWN, driver_calls,
    ledger, out,
};
use crate::faults::Faults;
use crate::ledger::{PROCESSOR_THREADS, PROCESSORS, uuid};

/// CUDA 13.5.
const VERSION: c_int = 13_050;

/// Copies text with its NUL, as far as it fits.
fn copy(text: &[u8], to: *mut c_char, len: c_int) -> Answer {
    let len = usize::try_from(len).unwrap_or(0);
    if to.is_null() || len == 0 {
        return Err(INVALID_VALUE);
    }
    let fits = text.len().min(len - 1);
    // SAFETY: the program gave a buffer of `len` bytes, and `fits` is less.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), fits) };
    // SAFETY: as above.
    unsafe { *to.wrapping_add(fits) = 0 };
    Ok(())
}

fn bus(physical: usize) -> String {
    format!("0000:{:02X}:00.0", 0x10 + physical)
}

fn write_uuid(at: *mut [u8; 16], dev: CUdevice) -> Answer {
    let place = out!(at);
    place.check()?;
    let ledger = ledger();
    let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
    place.put(uuid(ledger.devices[device].physical));
    Ok(())
}

/// Names of results.
fn name(result: c_int) -> Option<&'static CStr> {
    Some(match result {
        0 => c"CUDA_SUCCESS",
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        3 => c"CUDA_ERROR_NOT_INITIALIZED",
        100 => c"CUDA_ERROR_NO_DEVICE",
        201 => c"CUDA_ERROR_INVALID_CONTEXT",
        801 => c"CUDA_ERROR_NOT_SUPPORTED",
        _ => return None,
    })
}

driver_calls! {
    /// Initialises the driver.
    Nothing fn cuInit(Flags: c_uint) {
        if let Some(why) = &Faults::get().malformed {
            eprintln!("stand-in driver: {why}");
            return Err(UNKNOWN);
        }
        if entry::is_inherited() {
            return Err(NOT_INITIALIZED);
        }
        if Flags != 0 {
            return Err(INVALID_VALUE);
        }
        if ledger().devices.is_empty() {
            return Err(NO_DEVICE);
        }
        entry::initialised();
        Ok(())
    }
    /// Version of the driver.
    Nothing fn cuDriverGetVersion(version: *mut c_int) {
        let place = out!(version);
        place.check()?;
        place.put(VERSION);
        Ok(())
    }
    /// Number of devices.
    Init fn cuDeviceGetCount(count: *mut c_int) {
        let place = out!(count);
        place.check()?;
        place.put(c_int::try_from(ledger().devices.len()).unwrap_or(0));
        Ok(())
    }
    /// A device's handle, which is its ordinal.
    Init fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        let place = out!(device);
        place.check()?;
        ledger().device(ordinal).ok_or(INVALID_DEVICE)?;
        place.put(ordinal);
        Ok(())
    }
    /// A device's name.
    Init fn cuDeviceGetName(text: *mut c_char, len: c_int, dev: CUdevice) {
        ledger().device(dev).ok_or(INVALID_DEVICE)?;
        copy(b"Stand-in GPU", text, len)
    }
    /// A device's total memory.
    Init fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) {
        let place = out!(bytes);
        place.check()?;
        let ledger = ledger();
        let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
        place.put(ledger.devices[device].total as usize);
        Ok(())
    }
    /// A device's UUID.
    Init fn cuDeviceGetUuid(id: *mut [u8; 16], dev: CUdevice) { write_uuid(id, dev) }
    /// A device's UUID.
    Init fn cuDeviceGetUuid_v2(id: *mut [u8; 16], dev: CUdevice) { write_uuid(id, dev) }
    /// A device's PCI bus id.
    Init fn cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, dev: CUdevice) {
        let physical = {
            let ledger = ledger();
            let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
            ledger.devices[device].physical
        };
        copy(bus(physical).as_bytes(), text, len)
    }
    /// A handful of attributes: the chip's capability, PCI ids, unified addressing.
    Init fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, dev: CUdevice) {
        let place = out!(value);
        place.check()?;
        let ledger = ledger();
        let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
        place.put(match attribute {
            75 => 9,
            16 => PROCESSORS as c_int,
            39 => PROCESSOR_THREADS as c_int,
            33 => 0x10 + ledger.devices[device].physical as c_int,
            41 | 102 | 115 => 1,
            _ => 0,
        });
        Ok(())
    }
    /// Name of a result.
    Nothing fn cuGetErrorName(result: c_int, text: *mut *const c_char) {
        let place = out!(text);
        place.check()?;
        let found = name(result).ok_or(INVALID_VALUE)?;
        place.put(found.as_ptr());
        Ok(())
    }
    /// Free and total memory, 32-bit interface.
    Init fn cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) {
        let (free, total) = (out!(free), out!(total));
        free.check()?;
        total.check()?;
        let handle = super::contexts::current()?;
        let ledger = ledger();
        let device = &ledger.devices[ledger.context(handle)?.device];
        let narrow = |bytes: u64| c_uint::try_from(bytes).unwrap_or(c_uint::MAX);
        free.put(narrow(device.total.saturating_sub(device.used)));
        total.put(narrow(device.total));
        Ok(())
    }
    /// Free and total memory of the current context's device.
    Init fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (free, total) = (out!(free), out!(total));
        free.check()?;
        total.check()?;
        let handle = super::contexts::current()?;
        let ledger = ledger();
        let device = &ledger.devices[ledger.context(handle)?.device];
        free.put(device.total.saturating_sub(device.used) as usize);
        total.put(device.total as usize);
        Ok(())
    }
}
