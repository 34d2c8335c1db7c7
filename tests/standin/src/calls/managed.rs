//! Where managed pages are: taken and not used.

use core::ffi::c_uint;

use gpushim_abi::hooks::{CUdevice, CUdeviceptr, CUmemLocation, CUstream, Opaque};

use super::contexts::current;
use crate::entry::{Answer, INVALID_VALUE, driver_calls, ledger};
use crate::ledger::Kind;

/// Whether a range lies in managed memory.
fn managed(ptr: u64, count: usize) -> Answer {
    current()?;
    let ledger = ledger();
    let object = ledger.objects.range(..=ptr).next_back();
    match object {
        Some((start, object))
            if object.kind == Kind::Managed && ptr + count as u64 <= start + object.size =>
        {
            Ok(())
        }
        _ => Err(INVALID_VALUE),
    }
}

/// Whether all ranges of a list do.
fn all_managed(ptrs: *const CUdeviceptr, sizes: *const usize, count: usize) -> Answer {
    if ptrs.is_null() || sizes.is_null() || count == 0 {
        return Err(INVALID_VALUE);
    }
    for n in 0..count {
        // SAFETY: the program gave lists of this many.
        let ptr = unsafe { ptrs.wrapping_add(n).read_unaligned() };
        // SAFETY: as above.
        let size = unsafe { sizes.wrapping_add(n).read_unaligned() };
        managed(ptr, size)?;
    }
    Ok(())
}

driver_calls! {
    /// Moves nothing.
    Init fn cuMemPrefetchAsync(devPtr: CUdeviceptr, count: usize, _dst: CUdevice, _s: CUstream) { managed(devPtr, count) }
    /// Moves nothing.
    Init fn cuMemPrefetchAsync_ptsz(devPtr: CUdeviceptr, count: usize, _dst: CUdevice, _s: CUstream) { managed(devPtr, count) }
    /// Moves nothing.
    Init fn cuMemPrefetchAsync_v2(devPtr: CUdeviceptr, count: usize, _l: CUmemLocation, _f: c_uint, _s: CUstream) { managed(devPtr, count) }
    /// Moves nothing.
    Init fn cuMemPrefetchAsync_v2_ptsz(devPtr: CUdeviceptr, count: usize, _l: CUmemLocation, _f: c_uint, _s: CUstream) { managed(devPtr, count) }
    /// Moves nothing.
    Init fn cuMemPrefetchBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, _l: *mut Opaque, _i: *mut usize, _n: usize, _f: u64, _s: CUstream) {
        all_managed(dptrs, sizes, count)
    }
    /// Moves nothing.
    Init fn cuMemPrefetchBatchAsync_ptsz(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, _l: *mut Opaque, _i: *mut usize, _n: usize, _f: u64, _s: CUstream) {
        all_managed(dptrs, sizes, count)
    }
    /// Drops nothing.
    Init fn cuMemDiscardBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, _f: u64, _s: CUstream) { all_managed(dptrs, sizes, count) }
    /// Drops nothing.
    Init fn cuMemDiscardBatchAsync_ptsz(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, _f: u64, _s: CUstream) { all_managed(dptrs, sizes, count) }
    /// Drops and moves nothing.
    Init fn cuMemDiscardAndPrefetchBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, _l: *mut Opaque, _i: *mut usize, _n: usize, _f: u64, _s: CUstream) {
        all_managed(dptrs, sizes, count)
    }
    /// Drops and moves nothing.
    Init fn cuMemDiscardAndPrefetchBatchAsync_ptsz(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, _l: *mut Opaque, _i: *mut usize, _n: usize, _f: u64, _s: CUstream) {
        all_managed(dptrs, sizes, count)
    }
    /// Advice.
    Init fn cuMemAdvise(devPtr: CUdeviceptr, count: usize, _advice: c_uint, _device: CUdevice) { managed(devPtr, count) }
    /// Advice.
    Init fn cuMemAdvise_v2(devPtr: CUdeviceptr, count: usize, _advice: c_uint, _l: CUmemLocation) { managed(devPtr, count) }
    /// Ties nothing.
    Init fn cuStreamAttachMemAsync(_s: CUstream, dptr: CUdeviceptr, _length: usize, _flags: c_uint) { managed(dptr, 0) }
    /// Ties nothing.
    Init fn cuStreamAttachMemAsync_ptsz(_s: CUstream, dptr: CUdeviceptr, _length: usize, _flags: c_uint) { managed(dptr, 0) }
}
