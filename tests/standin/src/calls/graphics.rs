//! Graphics interfaces, checkpoints, logical endpoints: handles alone.

use core::ffi::{c_int, c_uint, c_void};

use gpushim_abi::hooks::{
    CUcheckpointOperationHandle, CUdevice, CUdeviceptr, CUdeviceptr_v1, CUgraphicsResource,
    CUmemGenericAllocationHandle, CUstream, Opaque,
};

use super::contexts::current;
use super::streams::{end, make};
use super::virtual_memory::{bind, bind_handle, handle_at, unbind};
use crate::entry::{
    Answer, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, driver_calls, ledger, out,
};
use crate::ledger::Kind;

/// Size of every mapped resource.
const MAPPED_BYTES: usize = 65536;

fn mapped(count: c_uint, resources: *mut CUgraphicsResource) -> Answer {
    current()?;
    if resources.is_null() || count == 0 {
        return Err(INVALID_VALUE);
    }
    for n in 0..count as usize {
        // SAFETY: the program gave a list of this many.
        let resource = unsafe { resources.wrapping_add(n).read_unaligned() };
        is_resource(resource)?;
    }
    Ok(())
}

fn is_resource(resource: CUgraphicsResource) -> Answer {
    match ledger().objects.get(&(resource as u64)) {
        Some(object) if object.kind == Kind::Graphics => Ok(()),
        _ => Err(INVALID_HANDLE),
    }
}

/// Registers a buffer under its own name.
fn register(buffer: c_uint) -> Answer {
    let context = current()?;
    let mut ledger = ledger();
    if buffer == 0 || ledger.objects.contains_key(&buffer.into()) {
        return Err(INVALID_VALUE);
    }
    let device = ledger.context(context)?.device;
    let context = ledger.resolve(context);
    ledger.add(buffer.into(), Kind::Graphics, 0, device, context);
    Ok(())
}

fn endpoint(id: c_uint) -> Answer {
    match ledger().objects.get(&id.into()) {
        Some(object) if object.kind == Kind::Endpoint => Ok(()),
        _ => Err(INVALID_HANDLE),
    }
}

fn new_endpoint(id: c_uint, size: u64) -> Answer {
    let mut ledger = ledger();
    if id == 0 || ledger.objects.contains_key(&id.into()) {
        return Err(INVALID_VALUE);
    }
    ledger.add(id.into(), Kind::Endpoint, size, 0, 0);
    Ok(())
}

driver_calls! {
    /// Registers an OpenGL buffer.
    Init fn cuGraphicsGLRegisterBuffer(r: *mut CUgraphicsResource, _buffer: c_uint, _Flags: c_uint) { make(r, Kind::Graphics, 0) }
    /// Registers an OpenGL image.
    Init fn cuGraphicsGLRegisterImage(r: *mut CUgraphicsResource, _image: c_uint, _target: c_uint, _Flags: c_uint) { make(r, Kind::Graphics, 0) }
    /// Registers an EGL image.
    Init fn cuGraphicsEGLRegisterImage(r: *mut CUgraphicsResource, _image: *mut c_void, _flags: c_uint) { make(r, Kind::Graphics, 0) }
    /// Registers a VDPAU surface.
    Init fn cuGraphicsVDPAURegisterVideoSurface(r: *mut CUgraphicsResource, _surface: c_uint, _flags: c_uint) { make(r, Kind::Graphics, 0) }
    /// Registers a VDPAU surface.
    Init fn cuGraphicsVDPAURegisterOutputSurface(r: *mut CUgraphicsResource, _surface: c_uint, _flags: c_uint) { make(r, Kind::Graphics, 0) }
    /// Unregisters.
    Init fn cuGraphicsUnregisterResource(resource: CUgraphicsResource) { end(resource, Kind::Graphics) }
    /// Registers an OpenGL buffer by its name.
    Init fn cuGLRegisterBufferObject(buffer: c_uint) { register(buffer) }
    /// Unregisters it.
    Init fn cuGLUnregisterBufferObject(buffer: c_uint) { end(buffer as usize as *mut c_void, Kind::Graphics) }
    /// Maps nothing.
    Init fn cuGraphicsMapResources(count: c_uint, resources: *mut CUgraphicsResource, _s: CUstream) { mapped(count, resources) }
    /// Maps nothing.
    Init fn cuGraphicsMapResources_ptsz(count: c_uint, resources: *mut CUgraphicsResource, _s: CUstream) { mapped(count, resources) }
    /// Unmaps nothing.
    Init fn cuGraphicsUnmapResources(count: c_uint, resources: *mut CUgraphicsResource, _s: CUstream) { mapped(count, resources) }
    /// Unmaps nothing.
    Init fn cuGraphicsUnmapResources_ptsz(count: c_uint, resources: *mut CUgraphicsResource, _s: CUstream) { mapped(count, resources) }
    /// Where a resource is, 32-bit interface.
    Init fn cuGraphicsResourceGetMappedPointer(pDevPtr: *mut CUdeviceptr_v1, pSize: *mut c_uint, resource: CUgraphicsResource) {
        is_resource(resource)?;
        out!(pDevPtr).put(0x7100_0000);
        out!(pSize).put(MAPPED_BYTES as c_uint);
        Ok(())
    }
    /// Where a resource is.
    Init fn cuGraphicsResourceGetMappedPointer_v2(pDevPtr: *mut CUdeviceptr, pSize: *mut usize, resource: CUgraphicsResource) {
        is_resource(resource)?;
        out!(pDevPtr).put(0x7e10_0000_0000);
        out!(pSize).put(MAPPED_BYTES);
        Ok(())
    }
    /// Checkpoints are not to be had here.
    Nothing fn cuCheckpointProcessLock(_pid: c_int, _args: *mut Opaque) { Err(NOT_SUPPORTED) }
    /// Checkpoints are not to be had here.
    Nothing fn cuCheckpointProcessCheckpoint(_pid: c_int, _args: *mut Opaque) { Err(NOT_SUPPORTED) }
    /// Checkpoints are not to be had here.
    Nothing fn cuCheckpointProcessRestore(_pid: c_int, _args: *mut Opaque) { Err(NOT_SUPPORTED) }
    /// Checkpoints are not to be had here.
    Nothing fn cuCheckpointProcessUnlock(_pid: c_int, _args: *mut Opaque) { Err(NOT_SUPPORTED) }
    /// Every process runs.
    Nothing fn cuCheckpointProcessGetState(_pid: c_int, state: *mut Opaque) {
        let state = state.cast::<c_uint>();
        let place = out!(state);
        place.check()?;
        place.put(0);
        Ok(())
    }
    /// Checkpoints are not to be had here.
    Nothing fn cuCheckpointProcessGetRestoreThreadId(_pid: c_int, _tid: *mut c_int) { Err(NOT_SUPPORTED) }
    /// Checkpoints are not to be had here.
    Nothing fn cuCheckpointOperationComplete(_handle: CUcheckpointOperationHandle) { Err(NOT_SUPPORTED) }
    /// A logical endpoint; its size is at offset 8 of the properties.
    Init fn cuLogicalEndpointCreate(leId: c_uint, prop: *const Opaque) {
        if prop.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the program gave a CUlogicalEndpointProp of 24 bytes.
        let size = unsafe { prop.cast::<u8>().wrapping_add(8).cast::<u64>().read_unaligned() };
        new_endpoint(leId, size)
    }
    /// Another process's endpoint.
    Init fn cuLogicalEndpointImport(leId: c_uint, handle: *const c_void, _ty: c_uint) {
        if handle.is_null() { Err(INVALID_VALUE) } else { new_endpoint(leId, 0) }
    }
    /// Ends an endpoint with its bindings.
    Init fn cuLogicalEndpointDestroy(leId: c_uint) {
        endpoint(leId)?;
        unbind(leId.into(), 0, u64::MAX);
        end(leId as usize as *mut c_void, Kind::Endpoint)
    }
    /// Adds a device.
    Init fn cuLogicalEndpointAddDevice(leId: c_uint, _dev: CUdevice) { endpoint(leId) }
    /// Hands nothing out.
    Init fn cuLogicalEndpointExport(_handle: *mut c_void, leId: c_uint, _ty: c_uint) { endpoint(leId) }
    /// Binds memory.
    Init fn cuLogicalEndpointBindMem(leId: c_uint, _dev: CUdevice, offset: u64, memHandle: CUmemGenericAllocationHandle, _memOffset: u64, size: u64, _flags: u64) {
        endpoint(leId)?;
        bind_handle(leId.into(), offset, size, memHandle)
    }
    /// Binds mapped memory.
    Init fn cuLogicalEndpointBindAddr(leId: c_uint, _dev: CUdevice, offset: u64, ptr: *mut c_void, size: u64, _flags: u64) {
        endpoint(leId)?;
        let handle = handle_at(ptr as u64)?;
        bind(leId.into(), offset, size, handle)
    }
    /// Unbinds memory.
    Init fn cuLogicalEndpointUnbind(leId: c_uint, _dev: CUdevice, offset: u64, size: u64) {
        endpoint(leId)?;
        if unbind(leId.into(), offset, size) { Ok(()) } else { Err(INVALID_VALUE) }
    }
}
