//! Memory that processes share: IPC handles, descriptors, fabric handles, memory of other interfaces.
//!
//! A name of 64 bytes, or the datagram that waits in a descriptor's socket, says what is shared; the books of the two processes
//! are two.

use core::ffi::{c_int, c_uint, c_void};
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::process;

use gpushim_abi::hooks::{
    CUdeviceptr, CUexternalMemory, CUexternalSemaphore, CUipcMemHandle,
    CUmemGenericAllocationHandle, Opaque,
};

use super::contexts::current;
use super::graphs::allowed;
use super::streams::{end, make};
use super::virtual_memory::handle_at;
use crate::entry::{
    Answer, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, driver_calls,
    ledger, out,
};
use crate::ledger::{Kind, Physical};

const MAGIC: u64 = 0x6e69_2d64_6e61_7473;
/// Kinds of shareable handles.
const DESCRIPTOR: c_uint = 1;
const FABRIC: c_uint = 8;

/// What is shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) device: Option<usize>,
}

/// The name of something of this process.
pub(super) fn encode(shared: Shared) -> [u8; 64] {
    let mut name = [0; 64];
    let device = shared.device.map_or(0, |device| device as u64 + 1);
    let words = [
        MAGIC,
        shared.address,
        shared.size,
        device,
        process::id().into(),
    ];
    for (place, word) in name.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    name
}

fn read(name: &[u8; 64]) -> Result<(Shared, u64), c_int> {
    let word = |n: usize| {
        name[n * 8..][..8]
            .iter()
            .rev()
            .fold(0_u64, |word, byte| word << 8 | u64::from(*byte))
    };
    if word(0) != MAGIC {
        return Err(INVALID_VALUE);
    }
    let device = usize::try_from(word(3))
        .ok()
        .and_then(|device| device.checked_sub(1));
    Ok((
        Shared {
            address: word(1),
            size: word(2),
            device,
        },
        word(4),
    ))
}

/// Reads a name behind a pointer.
pub(super) fn decode(name: *const u8) -> Result<Shared, c_int> {
    if name.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the program gave 64 bytes.
    let name = unsafe { name.cast::<[u8; 64]>().read_unaligned() };
    read(&name).map(|(shared, _)| shared)
}

/// Hands a descriptor or a name out; the other end of a descriptor is kept with a physical handle.
pub(super) fn export(
    to: *mut c_void,
    handle_type: c_uint,
    shared: Shared,
    keep: Option<u64>,
) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let name = encode(shared);
    match handle_type {
        DESCRIPTOR => {
            let mut ends = [0; 2];
            // SAFETY: two descriptors are written to a local.
            if unsafe {
                libc::socketpair(
                    libc::AF_UNIX,
                    libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
                    0,
                    ends.as_mut_ptr(),
                )
            } != 0
            {
                return Err(OUT_OF_MEMORY);
            }
            // SAFETY: the descriptor is new, and nobody else's.
            let ours = unsafe { OwnedFd::from_raw_fd(ends[0]) };
            // SAFETY: the name is a local of 64 bytes.
            unsafe { libc::send(ends[0], name.as_ptr().cast(), name.len(), 0) };
            let mut ledger = ledger();
            match keep.and_then(|handle| ledger.physical.get_mut(&handle)) {
                Some(physical) => physical.exports.push(ours),
                None => drop(ours.into_raw_fd()),
            }
            // SAFETY: the program gave a place for an int.
            unsafe { to.cast::<c_int>().write_unaligned(ends[1]) };
            Ok(())
        }
        FABRIC => {
            // SAFETY: the program gave a place for 64 bytes.
            unsafe { to.cast::<[u8; 64]>().write_unaligned(name) };
            Ok(())
        }
        _ => Err(INVALID_VALUE),
    }
}

/// What a descriptor or a name that is handed in stands for.
pub(super) fn import(handle: *mut c_void, handle_type: c_uint) -> Result<Shared, c_int> {
    find(handle, handle_type).map(|(shared, _)| shared)
}

/// The same, with the process that shares it.
fn find(handle: *mut c_void, handle_type: c_uint) -> Result<(Shared, u64), c_int> {
    match handle_type {
        DESCRIPTOR => {
            let mut name = [0_u8; 64];
            // SAFETY: the buffer is a local. What waits is looked at, so that it can be looked at again.
            let got = unsafe {
                libc::recv(
                    handle as usize as c_int,
                    name.as_mut_ptr().cast(),
                    name.len(),
                    libc::MSG_PEEK | libc::MSG_DONTWAIT,
                )
            };
            if got != 64 {
                return Err(INVALID_VALUE);
            }
            read(&name)
        }
        FABRIC if handle.is_null() => Err(INVALID_VALUE),
        // SAFETY: the program gave 64 bytes.
        FABRIC => read(&unsafe { handle.cast::<[u8; 64]>().read_unaligned() }),
        _ => Err(INVALID_VALUE),
    }
}

fn open(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle) -> Answer {
    let place = out!(pdptr);
    place.check()?;
    let context = current()?;
    let (shared, owner) = read(&handle.0)?;
    if owner == u64::from(process::id()) {
        return Err(INVALID_CONTEXT);
    }
    let mut ledger = ledger();
    let context = ledger.resolve(context);
    let opened = ledger.objects.iter_mut().find(|(_, object)| {
        object.kind == Kind::Ipc && object.owner == shared.address && object.context == context
    });
    if let Some((address, object)) = opened {
        object.held += 1;
        place.put(*address);
        return Ok(());
    }
    let device = ledger.context(context)?.device;
    let address = ledger.addresses(shared.size)?;
    ledger.add(address, Kind::Ipc, shared.size, device, context);
    if let Some(object) = ledger.objects.get_mut(&address) {
        object.owner = shared.address;
    }
    place.put(address);
    Ok(())
}

driver_calls! {
    /// The name of the allocation that an address is in.
    Init fn cuIpcGetMemHandle(pHandle: *mut Opaque, dptr: CUdeviceptr) {
        let pHandle = pHandle.cast::<[u8; 64]>();
        let place = out!(pHandle);
        place.check()?;
        let ledger = ledger();
        let (address, object) = ledger.objects.range(..=dptr).next_back().ok_or(INVALID_VALUE)?;
        if object.kind != Kind::Linear || dptr >= address + object.size {
            return Err(INVALID_VALUE);
        }
        place.put(encode(Shared { address: *address, size: object.size, device: Some(object.device) }));
        Ok(())
    }
    /// Maps another process's allocation.
    Init fn cuIpcOpenMemHandle(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, _Flags: c_uint) { open(pdptr, handle) }
    /// Maps another process's allocation.
    Init fn cuIpcOpenMemHandle_v2(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, _Flags: c_uint) { open(pdptr, handle) }
    /// Unmaps it with the last closing.
    Init fn cuIpcCloseMemHandle(dptr: CUdeviceptr) {
        let mut ledger = ledger();
        let object = ledger.objects.get_mut(&dptr).filter(|object| object.kind == Kind::Ipc).ok_or(INVALID_VALUE)?;
        object.held -= 1;
        if object.held == 0 {
            ledger.free(dptr);
        }
        Ok(())
    }
    /// Physical memory for other processes.
    Init fn cuMemExportToShareableHandle(shareable: *mut c_void, handle: CUmemGenericAllocationHandle, handleType: c_uint, _flags: u64) {
        let (size, device) = {
            let ledger = ledger();
            let physical = ledger.physical.get(&handle).filter(|physical| physical.references > 0).ok_or(INVALID_VALUE)?;
            (physical.size, physical.device)
        };
        export(shareable, handleType, Shared { address: handle, size, device }, Some(handle))
    }
    /// Another process's physical memory.
    Init fn cuMemImportFromShareableHandle(handle: *mut CUmemGenericAllocationHandle, osHandle: *mut c_void, handleType: c_uint) {
        let place = out!(handle);
        place.check()?;
        let (shared, owner) = find(osHandle, handleType)?;
        let mut ledger = ledger();
        let made = ledger.handle();
        let mut alias_of = 0;
        if owner == u64::from(process::id())
            && let Some(named) = ledger.physical.get(&shared.address)
        {
            // What names another handle's memory is named by that one.
            alias_of = if named.alias_of == 0 { shared.address } else { named.alias_of };
            if let Some(original) = ledger.physical.get_mut(&alias_of) {
                original.aliases += 1;
            }
        }
        ledger.physical.insert(made, Physical { is_imported: true, alias_of, ..Physical::new(shared.size, shared.device) });
        place.put(made);
        Ok(())
    }
    /// A descriptor of a range.
    Init fn cuMemGetHandleForAddressRange(handle: *mut c_void, dptr: CUdeviceptr, size: usize, handleType: c_uint, _flags: u64) {
        let found = handle_at(dptr).ok();
        let device = ledger().objects.get(&dptr).map(|object| object.device);
        if found.is_none() && device.is_none() {
            return Err(INVALID_VALUE);
        }
        export(handle, handleType, Shared { address: dptr, size: size as u64, device }, found)
    }
    /// Type, kinds of handles and location of physical memory.
    Init fn cuMemGetAllocationPropertiesFromHandle(prop: *mut Opaque, handle: CUmemGenericAllocationHandle) {
        allowed()?;
        let prop = prop.cast::<[c_uint; 8]>();
        let place = out!(prop);
        place.check()?;
        let ledger = ledger();
        let physical = ledger.physical.get(&handle).ok_or(INVALID_VALUE)?;
        let (location, id) = physical.device.map_or((2, 0), |device| (1, device as c_uint));
        place.put([1, 0, location, id, 0, 0, 0, 0]);
        Ok(())
    }
    /// The allocation that an address is in.
    Init fn cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) {
        let ledger = ledger();
        let object = ledger.objects.range(..=dptr).next_back();
        let (address, object) = object.filter(|(address, object)| dptr < *address + object.size).ok_or(NOT_FOUND)?;
        out!(pbase).put(*address);
        out!(psize).put(object.size as usize);
        Ok(())
    }
    /// Memory of another interface; its size is at offset 24.
    Init fn cuImportExternalMemory(extMem_out: *mut CUexternalMemory, desc: *const Opaque) {
        if desc.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a CUDA_EXTERNAL_MEMORY_HANDLE_DESC of 104 bytes.
        let size = unsafe { desc.cast::<u64>().wrapping_add(3).read_unaligned() };
        make(extMem_out, Kind::External, 0)?;
        // SAFETY: the handle was just written there.
        let handle = unsafe { extMem_out.read_unaligned() } as u64;
        if let Some(object) = ledger().objects.get_mut(&handle) {
            object.size = size;
        }
        Ok(())
    }
    /// A part of it, mapped: offset and size.
    Init fn cuExternalMemoryGetMappedBuffer(devPtr: *mut CUdeviceptr, extMem: CUexternalMemory, desc: *const Opaque) {
        let place = out!(devPtr);
        place.check()?;
        let context = current()?;
        if desc.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a CUDA_EXTERNAL_MEMORY_BUFFER_DESC of 88 bytes.
        let [offset, size] = unsafe { desc.cast::<[u64; 2]>().read_unaligned() };
        let mut ledger = ledger();
        let whole = ledger.objects.get(&(extMem as u64)).filter(|object| object.kind == Kind::External).ok_or(INVALID_HANDLE)?.size;
        if offset.checked_add(size).is_none_or(|end| end > whole) {
            return Err(INVALID_VALUE);
        }
        let device = ledger.context(context)?.device;
        let context = ledger.resolve(context);
        let address = ledger.addresses(size)?;
        ledger.add(address, Kind::ExternalBuffer, size, device, context);
        if let Some(object) = ledger.objects.get_mut(&address) {
            object.owner = extMem as u64;
        }
        place.put(address);
        Ok(())
    }
    /// Lets it go.
    Init fn cuDestroyExternalMemory(extMem: CUexternalMemory) { end(extMem, Kind::External) }
    /// A semaphore of another interface.
    Init fn cuImportExternalSemaphore(extSem_out: *mut CUexternalSemaphore, desc: *const Opaque) {
        if desc.is_null() { Err(INVALID_VALUE) } else { make(extSem_out, Kind::Semaphore, 0) }
    }
    /// Lets it go.
    Init fn cuDestroyExternalSemaphore(extSem: CUexternalSemaphore) { end(extSem, Kind::Semaphore) }
}
