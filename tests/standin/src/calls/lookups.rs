//! `cuGetProcAddress` and `cuGetExportTable`.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use gpushim_abi::hooks::Opaque;

use crate::entry::{Answer, INVALID_VALUE, driver_calls, out};
use crate::proc_address::{self, Found};

/// The one private table that the stand-in has, `CUDART_INTERFACE`.
const TABLE_ID: [u8; 16] = [
    0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9,
];
static TABLE: [usize; 2] = [16, 0];

fn get(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_uint,
) -> Answer {
    let place = out!(pfn);
    place.check()?;
    if symbol.is_null() || flags & !3 != 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the program gave NUL-terminated text.
    let name = unsafe { CStr::from_ptr(symbol) }
        .to_str()
        .unwrap_or_default();
    let (address, found) = match proc_address::find(name, version, flags & 2 != 0) {
        Found::Symbol(symbol) => (proc_address::address(symbol), 0),
        Found::NoSuchName => (0, 1),
        Found::TooOld => (0, 2),
    };
    place.put(address as *mut c_void);
    out!(status).put(found);
    Ok(())
}

driver_calls! {
    /// Hands out entry points, CUDA 11.3 to 11.8.
    Nothing fn cuGetProcAddress(symbol: *const c_char, pfn: *mut *mut c_void, cudaVersion: c_int, flags: u64) {
        get(symbol, pfn, cudaVersion, flags, core::ptr::null_mut())
    }
    /// Hands out entry points.
    Nothing fn cuGetProcAddress_v2(symbol: *const c_char, pfn: *mut *mut c_void, cudaVersion: c_int, flags: u64, symbolStatus: *mut c_uint) {
        get(symbol, pfn, cudaVersion, flags, symbolStatus)
    }
    /// Hands out private tables.
    Nothing fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const Opaque) {
        let place = out!(ppExportTable);
        place.check()?;
        if pExportTableId.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a UUID of 16 bytes.
        let id = unsafe { pExportTableId.cast::<[u8; 16]>().read_unaligned() };
        if id != TABLE_ID {
            return Err(INVALID_VALUE);
        }
        place.put((&raw const TABLE).cast());
        Ok(())
    }
}
