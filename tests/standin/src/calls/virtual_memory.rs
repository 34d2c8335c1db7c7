//! Reserved addresses, physical memory, mappings.

use core::ffi::{c_int, c_uint};

use gpushim_abi::hooks::{CUdevice, CUdeviceptr, CUmemGenericAllocationHandle, CUstream, Opaque};

use crate::entry::{Answer, INVALID_DEVICE, INVALID_VALUE, driver_calls, ledger, out};
use crate::ledger::{BLOCK, Binding, Kind, Ledger, Physical};

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

/// The handle that is mapped at an address.
pub(super) fn handle_at(address: u64) -> Result<u64, c_int> {
    ledger()
        .mappings
        .range(..=address)
        .next_back()
        .filter(|(start, (len, _))| address < **start + len)
        .map(|(_, (_, handle))| *handle)
        .ok_or(INVALID_VALUE)
}

/// Binds memory to a multicast object or endpoint.
pub(super) fn bind(to: u64, offset: u64, size: u64, handle: u64) -> Answer {
    let mut ledger = ledger();
    let free = ledger
        .bindings
        .iter()
        .all(|b| b.to != to || b.offset != offset);
    let physical = ledger
        .physical
        .get_mut(&handle)
        .filter(|physical| free && !physical.is_multicast && size <= physical.size)
        .ok_or(INVALID_VALUE)?;
    physical.bindings += 1;
    ledger.bindings.push(Binding { to, offset, handle });
    Ok(())
}

/// The same by a handle, which must be held.
pub(super) fn bind_handle(to: u64, offset: u64, size: u64, handle: u64) -> Answer {
    let is_held = |physical: &Physical| physical.references > 0;
    if !ledger().physical.get(&handle).is_some_and(is_held) {
        return Err(INVALID_VALUE);
    }
    bind(to, offset, size, handle)
}

/// Takes the bindings that begin in a range away; whether there was one.
pub(super) fn unbind(to: u64, offset: u64, size: u64) -> bool {
    let mut ledger = ledger();
    let inside = |b: &Binding| b.to == to && b.offset >= offset && b.offset - offset < size;
    let gone: Vec<u64> = ledger
        .bindings
        .iter()
        .filter(|b| inside(b))
        .map(|b| b.handle)
        .collect();
    ledger.bindings.retain(|b| !inside(b));
    for handle in &gone {
        ledger.unbound(*handle);
    }
    !gone.is_empty()
}

fn multicast(handle: u64) -> Answer {
    match ledger().physical.get(&handle) {
        Some(physical) if physical.is_multicast && physical.references > 0 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

/// Maps and unmaps parts of sparse arrays: entries of 96 bytes, of which the first 56 say which part.
fn tiles(list: *mut Opaque, count: c_uint) -> Answer {
    if list.is_null() || count == 0 {
        return Err(INVALID_VALUE);
    }
    for n in 0..count as usize {
        // SAFETY: the program gave a list of this many.
        let entry = unsafe { list.cast::<[u64; 12]>().wrapping_add(n).read_unaligned() };
        let mut ledger = ledger();
        let array = entry[1];
        let sparse = ledger.objects.get(&array).is_some_and(|object| {
            matches!(object.kind, Kind::Array | Kind::Mipmapped) && object.size == 0
        });
        if !sparse {
            return Err(INVALID_VALUE);
        }
        let part: Vec<u8> = entry[..7]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        ledger.untile((array, part.clone()));
        if entry[7] as u32 == 1 {
            let physical = ledger
                .physical
                .get_mut(&entry[8])
                .filter(|p| p.references > 0)
                .ok_or(INVALID_VALUE)?;
            physical.mappings += 1;
            ledger.tiles.insert((array, part), entry[8]);
        }
    }
    Ok(())
}

driver_calls! {
    /// A multicast object; the number of devices is at offset 0, the size at 8.
    Init fn cuMulticastCreate(mcHandle: *mut CUmemGenericAllocationHandle, prop: *const Opaque) {
        let place = out!(mcHandle);
        place.check()?;
        if prop.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a CUmulticastObjectProp of 32 bytes.
        let size = unsafe { prop.cast::<u64>().wrapping_add(1).read_unaligned() };
        let mut ledger = ledger();
        let made = ledger.handle();
        ledger.physical.insert(made, Physical { is_multicast: true, ..Physical::new(size, None) });
        place.put(made);
        Ok(())
    }
    /// Adds a device.
    Init fn cuMulticastAddDevice(mcHandle: CUmemGenericAllocationHandle, _dev: CUdevice) { multicast(mcHandle) }
    /// Binds memory.
    Init fn cuMulticastBindMem(mcHandle: CUmemGenericAllocationHandle, mcOffset: usize, memHandle: CUmemGenericAllocationHandle, _o: usize, size: usize, _f: u64) {
        multicast(mcHandle)?;
        bind_handle(mcHandle, mcOffset as u64, size as u64, memHandle)
    }
    /// Binds memory.
    Init fn cuMulticastBindMem_v2(mcHandle: CUmemGenericAllocationHandle, _dev: CUdevice, mcOffset: usize, memHandle: CUmemGenericAllocationHandle, _o: usize, size: usize, _f: u64) {
        multicast(mcHandle)?;
        bind_handle(mcHandle, mcOffset as u64, size as u64, memHandle)
    }
    /// Binds mapped memory.
    Init fn cuMulticastBindAddr(mcHandle: CUmemGenericAllocationHandle, mcOffset: usize, memptr: CUdeviceptr, size: usize, _f: u64) {
        multicast(mcHandle)?;
        let handle = handle_at(memptr)?;
        bind(mcHandle, mcOffset as u64, size as u64, handle)
    }
    /// Binds mapped memory.
    Init fn cuMulticastBindAddr_v2(mcHandle: CUmemGenericAllocationHandle, _dev: CUdevice, mcOffset: usize, memptr: CUdeviceptr, size: usize, _f: u64) {
        multicast(mcHandle)?;
        let handle = handle_at(memptr)?;
        bind(mcHandle, mcOffset as u64, size as u64, handle)
    }
    /// Unbinds memory.
    Init fn cuMulticastUnbind(mcHandle: CUmemGenericAllocationHandle, _dev: CUdevice, mcOffset: usize, size: usize) {
        multicast(mcHandle)?;
        if unbind(mcHandle, mcOffset as u64, size as u64) { Ok(()) } else { Err(INVALID_VALUE) }
    }
    /// Maps parts of sparse arrays.
    Init fn cuMemMapArrayAsync(mapInfoList: *mut Opaque, count: c_uint, _s: CUstream) { tiles(mapInfoList, count) }
    /// Maps parts of sparse arrays.
    Init fn cuMemMapArrayAsync_ptsz(mapInfoList: *mut Opaque, count: c_uint, _s: CUstream) { tiles(mapInfoList, count) }
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
        ledger.physical.insert(made, Physical::new(size, device));
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
        let found = handle_at(addr as u64)?;
        let mut ledger = ledger();
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
