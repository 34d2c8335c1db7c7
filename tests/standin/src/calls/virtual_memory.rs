//! Reserved addresses, physical memory, mappings.

use core::ffi::{c_int, c_uint};

use gpushim_abi::hooks::{CUdeviceptr, CUmemGenericAllocationHandle, Opaque};

use crate::entry::{Answer, INVALID_DEVICE, INVALID_VALUE, driver_calls, ledger, out};
use crate::ledger::{BLOCK, Ledger, Physical};

fn whole_blocks(size: usize) -> Result<u64, c_int> {
    let size = size as u64;
    if size == 0 || !size.is_multiple_of(BLOCK) {
        Err(INVALID_VALUE)
    } else {
        Ok(size)
    }
}

/// Whether a range lies in one reservation.
fn is_reserved(ledger: &Ledger, ptr: u64, size: u64) -> bool {
    ledger
        .reservations
        .range(..=ptr)
        .next_back()
        .is_some_and(|(start, len)| ptr + size <= start + len)
}

fn overlaps(ledger: &Ledger, ptr: u64, size: u64) -> bool {
    ledger
        .mappings
        .range(..ptr + size)
        .next_back()
        .is_some_and(|(start, (len, _))| start + len > ptr)
}

fn unmap(ptr: u64, size: u64) -> Answer {
    let mut ledger = ledger();
    let inside: Vec<(u64, u64, u64)> = ledger
        .mappings
        .range(ptr..ptr.saturating_add(size))
        .map(|(start, (len, handle))| (*start, *len, *handle))
        .collect();
    // Exactly what was mapped, possibly several ranges side by side.
    let covered: u64 = inside.iter().map(|(_, len, _)| len).sum();
    if inside.first().is_none_or(|(start, ..)| *start != ptr) || covered != size {
        return Err(INVALID_VALUE);
    }
    for (start, _, handle) in inside {
        ledger.mappings.remove(&start);
        if let Some(physical) = ledger.physical.get_mut(&handle) {
            physical.mappings -= 1;
        }
        ledger.settle(handle);
    }
    Ok(())
}

driver_calls! {
    /// Reserves addresses.
    Init fn cuMemAddressReserve(ptr: *mut CUdeviceptr, size: usize, alignment: usize, _addr: CUdeviceptr, flags: u64) {
        let place = out!(ptr);
        place.check()?;
        let size = whole_blocks(size)?;
        if flags != 0 || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(INVALID_VALUE);
        }
        let mut ledger = ledger();
        let address = ledger.reserve_addresses(size, alignment as u64);
        ledger.reservations.insert(address, size);
        place.put(address);
        Ok(())
    }
    /// Gives reserved addresses back, all of them and unmapped.
    Init fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) {
        let mut ledger = ledger();
        if ledger.reservations.get(&ptr) != Some(&(size as u64)) || overlaps(&ledger, ptr, size as u64) {
            return Err(INVALID_VALUE);
        }
        ledger.reservations.remove(&ptr);
        ledger.release_addresses(ptr, size as u64);
        Ok(())
    }
    /// Takes physical memory; type at offset 0, location type and id at 8 and 12 of the properties.
    Init fn cuMemCreate(handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const Opaque, flags: u64) {
        let place = out!(handle);
        place.check()?;
        let size = whole_blocks(size)?;
        if prop.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a CUmemAllocationProp of 32 bytes.
        let [kind, _, location, id] = unsafe { prop.cast::<[c_uint; 4]>().read_unaligned() };
        let mut ledger = ledger();
        let device = match (kind, location) {
            (1, 1) => Some(ledger.device(id as c_int).ok_or(INVALID_DEVICE)?),
            (1, 2..=4) => None,
            _ => return Err(INVALID_VALUE),
        };
        if let Some(device) = device {
            ledger.take(device, size)?;
        }
        let made = ledger.handle();
        ledger.physical.insert(made, Physical { size, device, references: 1, mappings: 0 });
        place.put(made);
        Ok(())
    }
    /// Drops a reference.
    Init fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        let mut ledger = ledger();
        let physical = ledger
            .physical
            .get_mut(&handle)
            .filter(|physical| physical.references > 0)
            .ok_or(INVALID_VALUE)?;
        physical.references -= 1;
        ledger.settle(handle);
        Ok(())
    }
    /// Takes another reference through a mapped address.
    Init fn cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, addr: *mut core::ffi::c_void) {
        let place = out!(handle);
        place.check()?;
        let mut ledger = ledger();
        let found = ledger
            .mappings
            .range(..=addr as u64)
            .next_back()
            .filter(|(start, (len, _))| (addr as u64) < **start + len)
            .map(|(_, (_, handle))| *handle)
            .ok_or(INVALID_VALUE)?;
        if let Some(physical) = ledger.physical.get_mut(&found) {
            physical.references += 1;
        }
        place.put(found);
        Ok(())
    }
    /// Maps a handle.
    Init fn cuMemMap(ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: u64) {
        let size = whole_blocks(size)?;
        let mut ledger = ledger();
        if offset != 0 || flags != 0 || !is_reserved(&ledger, ptr, size) || overlaps(&ledger, ptr, size) {
            return Err(INVALID_VALUE);
        }
        let physical = ledger
            .physical
            .get_mut(&handle)
            .filter(|physical| physical.references > 0 && physical.size >= size)
            .ok_or(INVALID_VALUE)?;
        physical.mappings += 1;
        ledger.mappings.insert(ptr, (size, handle));
        Ok(())
    }
    /// Takes mappings away.
    Init fn cuMemUnmap(ptr: CUdeviceptr, size: usize) { unmap(ptr, size as u64) }
    /// Grants access to what is mapped.
    Init fn cuMemSetAccess(ptr: CUdeviceptr, size: usize, _desc: *const Opaque, _count: usize) {
        if overlaps(&ledger(), ptr, size as u64) { Ok(()) } else { Err(INVALID_VALUE) }
    }
}
