//! Stream-ordered memory and its pools.

use core::ffi::{c_int, c_uint, c_void};

use gpushim_abi::hooks::{CUdevice, CUdeviceptr, CUmemoryPool, CUstream, Opaque};

use super::contexts::current;
use super::graphs::{add_block, add_free, allowed, capturing};
use super::memory::{is_null, null_address};
use super::sharing::{Shared, decode, encode, export, import};
use super::streams::check_stream;
use crate::entry::{Answer, INVALID_DEVICE, INVALID_VALUE, driver_calls, ledger, out};
use crate::ledger::Kind;

fn alloc(dptr: *mut CUdeviceptr, size: usize, pool: Option<u64>, stream: CUstream) -> Answer {
    let place = out!(dptr);
    place.check()?;
    let context = current()?;
    check_stream(stream)?;
    if let Some(graph) = capturing(stream)? {
        place.put(add_block(graph, context, size as u64)?);
        return Ok(());
    }
    let mut ledger = ledger();
    let device = ledger.context(context)?.device;
    let pool = pool.unwrap_or(ledger.devices[device].current_pool);
    place.put(ledger.take_from_pool(pool, context, size as u64)?);
    Ok(())
}

fn free(dptr: CUdeviceptr, stream: CUstream) -> Answer {
    current()?;
    check_stream(stream)?;
    if let Some(graph) = capturing(stream)? {
        return add_free(graph, dptr);
    }
    let mut ledger = ledger();
    match ledger.objects.get(&dptr).map(|object| object.kind) {
        Some(Kind::Pool | Kind::Linear | Kind::Managed | Kind::GraphBlock) => {
            ledger.free(dptr);
            Ok(())
        }
        _ => Err(INVALID_VALUE),
    }
}

/// The pool that an out-pointer asks for.
fn give_pool(
    pool: *mut CUmemoryPool,
    dev: CUdevice,
    of: impl Fn(&crate::ledger::Device) -> u64,
) -> Answer {
    let place = out!(pool);
    place.check()?;
    let ledger = ledger();
    let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
    place.put(of(&ledger.devices[device]) as CUmemoryPool);
    Ok(())
}

fn choose(dev: CUdevice, pool: CUmemoryPool) -> Answer {
    let mut ledger = ledger();
    let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
    ledger
        .pools
        .get(&(pool as u64))
        .filter(|held| held.device == device && !held.is_destroyed && !held.is_imported)
        .ok_or(INVALID_VALUE)?;
    ledger.devices[device].current_pool = pool as u64;
    Ok(())
}

/// The device of a location: type and id.
fn device_at(location: *mut Opaque) -> Result<CUdevice, c_int> {
    if location.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the program gave a CUmemLocation.
    let [kind, id] = unsafe { location.cast::<[c_int; 2]>().read_unaligned() };
    if kind == 1 {
        Ok(id)
    } else {
        Err(INVALID_VALUE)
    }
}

driver_calls! {
    /// Memory from the current pool, per-thread default stream.
    Init fn cuMemAllocAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) { alloc(dptr, bytesize, None, hStream) }
    /// Memory from a chosen pool.
    Init fn cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
        alloc(dptr, bytesize, Some(pool as u64), hStream)
    }
    /// Memory from a chosen pool, per-thread default stream.
    Init fn cuMemAllocFromPoolAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
        alloc(dptr, bytesize, Some(pool as u64), hStream)
    }
    /// Gives memory back to its pool.
    Init fn cuMemFreeAsync(dptr: CUdeviceptr, hStream: CUstream) { free(dptr, hStream) }
    /// Gives memory back to its pool, per-thread default stream.
    Init fn cuMemFreeAsync_ptsz(dptr: CUdeviceptr, hStream: CUstream) { free(dptr, hStream) }
    /// A device's default pool.
    Init fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, dev: CUdevice) { give_pool(pool, dev, |d| d.default_pool) }
    /// A device's current pool.
    Init fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) { give_pool(pool, dev, |d| d.current_pool) }
    /// Makes a pool the current one.
    Init fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        choose(dev, pool)
    }
    /// A pool on a device; location type and id at offsets 8 and 12 of the properties.
    Init fn cuMemPoolCreate(pool: *mut CUmemoryPool, props: *const Opaque) {
        let place = out!(pool);
        place.check()?;
        if props.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a CUmemPoolProps of 88 bytes.
        let [kind, id] = unsafe { props.cast::<u8>().wrapping_add(8).cast::<[c_uint; 2]>().read_unaligned() };
        let mut ledger = ledger();
        let device = ledger.device(id as c_int).filter(|_| kind == 1).ok_or(INVALID_VALUE)?;
        place.put(ledger.add_pool(device) as CUmemoryPool);
        Ok(())
    }
    /// Ends a pool; what it handed out lives on until it is freed.
    Init fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let mut ledger = ledger();
        if ledger.devices.iter().any(|device| device.default_pool == pool as u64) {
            return Err(INVALID_VALUE);
        }
        let held = ledger.pools.get_mut(&(pool as u64)).filter(|pool| !pool.is_destroyed).ok_or(INVALID_VALUE)?;
        held.is_destroyed = true;
        let over = held.used == 0;
        for device in &mut ledger.devices {
            if device.current_pool == pool as u64 {
                device.current_pool = device.default_pool;
            }
        }
        ledger.trim(pool as u64, 0);
        if over {
            ledger.pools.remove(&(pool as u64));
        }
        Ok(())
    }
    /// A pool for other processes.
    Init fn cuMemPoolExportToShareableHandle(handle_out: *mut c_void, pool: CUmemoryPool, handleType: c_uint, _flags: u64) {
        let device = {
            let ledger = ledger();
            ledger.pools.get(&(pool as u64)).filter(|pool| !pool.is_imported && !pool.is_destroyed).ok_or(INVALID_VALUE)?.device
        };
        export(handle_out, handleType, Shared { address: pool as u64, size: 0, device: Some(device) }, None)
    }
    /// Another process's pool.
    Init fn cuMemPoolImportFromShareableHandle(pool_out: *mut CUmemoryPool, handle: *mut c_void, handleType: c_uint, _flags: u64) {
        let place = out!(pool_out);
        place.check()?;
        let shared = import(handle, handleType)?;
        let mut ledger = ledger();
        let made = ledger.add_pool(shared.device.unwrap_or(0));
        if let Some(pool) = ledger.pools.get_mut(&made) {
            pool.is_imported = true;
        }
        place.put(made as CUmemoryPool);
        Ok(())
    }
    /// A block for other processes.
    Init fn cuMemPoolExportPointer(shareData_out: *mut Opaque, ptr: CUdeviceptr) {
        let shareData_out = shareData_out.cast::<[u8; 64]>();
        let place = out!(shareData_out);
        place.check()?;
        let ledger = ledger();
        let object = ledger.objects.get(&ptr).filter(|object| object.kind == Kind::Pool).ok_or(INVALID_VALUE)?;
        place.put(encode(Shared { address: ptr, size: object.size, device: Some(object.device) }));
        Ok(())
    }
    /// Another process's block.
    Init fn cuMemPoolImportPointer(ptr_out: *mut CUdeviceptr, pool: CUmemoryPool, shareData: *mut Opaque) {
        let place = out!(ptr_out);
        place.check()?;
        let shared = decode(shareData.cast())?;
        let context = current()?;
        let mut ledger = ledger();
        if ledger.pools.get(&(pool as u64)).is_none_or(|pool| !pool.is_imported) {
            return Err(INVALID_VALUE);
        }
        let address = ledger.addresses(shared.size)?;
        let device = ledger.context(context)?.device;
        // It costs nothing here and lives like a mapping.
        ledger.add(address, Kind::ExternalBuffer, shared.size, device, 0);
        if let Some(object) = ledger.objects.get_mut(&address) {
            object.owner = pool as u64;
        }
        place.put(address);
        Ok(())
    }
    /// Lets devices in: taken and not used.
    Init fn cuMemPoolSetAccess(pool: CUmemoryPool, _map: *const Opaque, _count: usize) {
        ledger().pools.get(&(pool as u64)).map(drop).ok_or(INVALID_VALUE)
    }
    /// The pool of a location, from the start.
    Init fn cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool, location: *mut Opaque, _ty: c_uint) {
        give_pool(pool_out, device_at(location)?, |d| d.default_pool)
    }
    /// The pool in use at a location.
    Init fn cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut Opaque, _ty: c_uint) {
        give_pool(pool, device_at(location)?, |d| d.current_pool)
    }
    /// Makes a pool the one in use at a location.
    Init fn cuMemSetMemPool(location: *mut Opaque, _ty: c_uint, pool: CUmemoryPool) { choose(device_at(location)?, pool) }
    /// Gives idle memory back.
    Init fn cuMemPoolTrimTo(pool: CUmemoryPool, minBytesToKeep: usize) {
        let mut ledger = ledger();
        ledger
            .pools
            .get(&(pool as u64))
            .filter(|pool| !pool.is_destroyed)
            .ok_or(INVALID_VALUE)?;
        ledger.trim(pool as u64, minBytesToKeep as u64);
        Ok(())
    }
    /// The release threshold, 4, can be set.
    Init fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) {
        let mut ledger = ledger();
        let held = ledger
            .pools
            .get_mut(&(pool as u64))
            .filter(|pool| !pool.is_destroyed)
            .ok_or(INVALID_VALUE)?;
        if value.is_null() {
            return Err(INVALID_VALUE);
        }
        if attribute == 4 {
            // SAFETY: the program gave a value of the attribute's size.
            held.threshold = unsafe { value.cast::<u64>().read_unaligned() };
        }
        Ok(())
    }
    /// Threshold, reserved and used bytes.
    Init fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) {
        let value = value.cast::<u64>();
        let place = out!(value);
        place.check()?;
        allowed()?;
        let ledger = ledger();
        let held = ledger
            .pools
            .get(&(pool as u64))
            .filter(|pool| !pool.is_destroyed)
            .ok_or(INVALID_VALUE)?;
        place.put(match attribute {
            4 => held.threshold,
            5 => held.reserved,
            6 => held.reserved_high,
            7 => held.used,
            8 => held.used_high,
            _ => return Err(INVALID_VALUE),
        });
        Ok(())
    }
}

/// Memory from the current pool.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuMemAllocAsync(
    dptr: *mut CUdeviceptr,
    bytesize: usize,
    hStream: CUstream,
) -> c_int {
    if is_null() {
        out!(dptr).put(null_address());
        return 0;
    }
    crate::entry::run("cuMemAllocAsync", crate::entry::Needs::Init, || {
        alloc(dptr, bytesize, None, hStream)
    })
}
