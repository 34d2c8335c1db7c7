//! The rows of the hook table. Their words are explained in [`hooks`](crate::hooks).
//!
//! Rows stand in the order of their ids, which are on disk: new ones are added at the end. Signatures follow NVIDIA's `cuda.h`,
//! with its parameter names, so that they can be searched there; widths, first versions and offsets are checked against
//! what was read off 17 headers and five drivers (`tests/driver_api.rs`).

/// Hands every row of the table to `$cb!`. No other file lists a hooked call.
#[macro_export]
macro_rules! for_each_hook {
    ($cb:ident) => { $cb! {
        /// Initialises the driver; its first success opens the capture.
        1 => cuInit(Flags: c_uint) {
            asked: "cuInit" since 2000 Legacy, kind: Init, record: init,
            address: none, size: none, a: arg(Flags), b: none, device: none,
        }
        /// Linear device memory in the current context, 32-bit ABI.
        2 => cuMemAlloc(dptr: *mut CUdeviceptr_v1, bytesize: c_uint) {
            asked: "cuMemAlloc" since 2000 Legacy, kind: Alloc(Linear), record: after,
            address: out(dptr), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Linear device memory in the current context.
        3 => cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) {
            asked: "cuMemAlloc" since 3020 Legacy, kind: Alloc(Linear), record: after,
            address: out(dptr), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Rows padded to the device's pitch, 32-bit ABI.
        4 => cuMemAllocPitch(dptr: *mut CUdeviceptr_v1, pPitch: *mut c_uint, WidthInBytes: c_uint, Height: c_uint, ElementSizeBytes: c_uint) {
            asked: "cuMemAllocPitch" since 2000 Legacy, kind: Alloc(Linear), record: after,
            address: out(dptr), size: pitched(pPitch, Height), a: arg(WidthInBytes), b: arg(Height), device: current,
        }
        /// Rows padded to the device's pitch.
        5 => cuMemAllocPitch_v2(dptr: *mut CUdeviceptr, pPitch: *mut usize, WidthInBytes: usize, Height: usize, ElementSizeBytes: c_uint) {
            asked: "cuMemAllocPitch" since 3020 Legacy, kind: Alloc(Linear), record: after,
            address: out(dptr), size: pitched(pPitch, Height), a: arg(WidthInBytes), b: arg(Height), device: current,
        }
        /// Frees any device address that an allocation returned, 32-bit ABI.
        6 => cuMemFree(dptr: CUdeviceptr_v1) {
            asked: "cuMemFree" since 2000 Legacy, kind: Free(Linear), record: before,
            address: arg(dptr), size: none, a: none, b: none, device: owner,
        }
        /// Frees any device address that an allocation returned: linear, pitched, managed or from a pool.
        7 => cuMemFree_v2(dptr: CUdeviceptr) {
            asked: "cuMemFree" since 3020 Legacy, kind: Free(Linear), record: before,
            address: arg(dptr), size: none, a: none, b: none, device: owner,
        }
        /// Managed memory: pages move between host and devices on use.
        8 => cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) {
            asked: "cuMemAllocManaged" since 6000 Legacy, kind: Alloc(Managed), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(flags), b: none, device: current,
        }
        /// Page-locked host memory, 32-bit size.
        9 => cuMemAllocHost(pp: *mut *mut c_void, bytesize: c_uint) {
            asked: "cuMemAllocHost" since 2000 Legacy, kind: Alloc(Pinned), record: after,
            address: out(pp), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Page-locked host memory.
        10 => cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) {
            asked: "cuMemAllocHost" since 3020 Legacy, kind: Alloc(Pinned), record: after,
            address: out(pp), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Page-locked host memory with flags; what `cudaMallocHost` and `cudaHostAlloc` end in.
        11 => cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: c_uint) {
            asked: "cuMemHostAlloc" since 2020 Legacy, kind: Alloc(Pinned), record: after,
            address: out(pp), size: arg(bytesize), a: arg(Flags), b: none, device: current,
        }
        /// Frees page-locked host memory.
        12 => cuMemFreeHost(p: *mut c_void) {
            asked: "cuMemFreeHost" since 2000 Legacy, kind: Free(Pinned), record: before,
            address: arg(p), size: none, a: none, b: none, device: owner,
        }
        /// Page-locks memory that the program already has, before CUDA 6.5.
        13 => cuMemHostRegister(p: *mut c_void, bytesize: usize, Flags: c_uint) {
            asked: "cuMemHostRegister" since 4000 Legacy, kind: Alloc(Registered), record: after,
            address: arg(p), size: arg(bytesize), a: arg(Flags), b: none, device: current,
        }
        /// Page-locks memory that the program already has.
        14 => cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, Flags: c_uint) {
            asked: "cuMemHostRegister" since 6050 Legacy, kind: Alloc(Registered), record: after,
            address: arg(p), size: arg(bytesize), a: arg(Flags), b: none, device: current,
        }
        /// Unlocks registered host memory.
        15 => cuMemHostUnregister(p: *mut c_void) {
            asked: "cuMemHostUnregister" since 4000 Legacy, kind: Free(Registered), record: before,
            address: arg(p), size: none, a: none, b: none, device: owner,
        }
        /// Stream-ordered memory from the device's current pool.
        16 => cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) {
            asked: "cuMemAllocAsync" since 11020 Legacy, kind: Alloc(PoolBlock), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: none, device: current,
        }
        /// `cuMemAllocAsync` for per-thread default streams.
        17 => cuMemAllocAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) {
            asked: "cuMemAllocAsync" since 11020 PerThread, kind: Alloc(PoolBlock), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: none, device: current,
        }
        /// Stream-ordered memory from a chosen pool.
        18 => cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
            asked: "cuMemAllocFromPoolAsync" since 11020 Legacy, kind: Alloc(PoolBlock), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: arg(pool), device: current,
        }
        /// `cuMemAllocFromPoolAsync` for per-thread default streams.
        19 => cuMemAllocFromPoolAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
            asked: "cuMemAllocFromPoolAsync" since 11020 PerThread, kind: Alloc(PoolBlock), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: arg(pool), device: current,
        }
        /// Returns stream-ordered memory to its pool.
        20 => cuMemFreeAsync(dptr: CUdeviceptr, hStream: CUstream) {
            asked: "cuMemFreeAsync" since 11020 Legacy, kind: Free(Linear), record: before,
            address: arg(dptr), size: none, a: arg(hStream), b: none, device: owner,
        }
        /// `cuMemFreeAsync` for per-thread default streams.
        21 => cuMemFreeAsync_ptsz(dptr: CUdeviceptr, hStream: CUstream) {
            asked: "cuMemFreeAsync" since 11020 PerThread, kind: Free(Linear), record: before,
            address: arg(dptr), size: none, a: arg(hStream), b: none, device: owner,
        }
        /// Reserves virtual addresses; no memory.
        22 => cuMemAddressReserve(ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: u64) {
            asked: "cuMemAddressReserve" since 10020 Legacy, kind: Alloc(Reserved), record: after,
            address: out(ptr), size: arg(size), a: arg(alignment), b: arg(addr), device: none,
        }
        /// Gives reserved virtual addresses back.
        23 => cuMemAddressFree(ptr: CUdeviceptr, size: usize) {
            asked: "cuMemAddressFree" since 10020 Legacy, kind: Free(Reserved), record: before,
            address: arg(ptr), size: arg(size), a: none, b: none, device: owner,
        }
        /// Physical memory without an address: `a` is type and handle types, `b` the location's type and id.
        24 => cuMemCreate(handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const Opaque, flags: u64) {
            asked: "cuMemCreate" since 10020 Legacy, kind: Alloc(Physical), record: after,
            address: out(handle), size: arg(size), a: field(prop, 0), b: field(prop, 8), device: location(prop),
        }
        /// Drops one reference to a handle; its memory goes when no mapping holds it either.
        25 => cuMemRelease(handle: CUmemGenericAllocationHandle) {
            asked: "cuMemRelease" since 10020 Legacy, kind: Free(Physical), record: before,
            address: arg(handle), size: none, a: none, b: none, device: owner,
        }
        /// Maps a handle into reserved addresses: `a` is the handle, `b` the offset into it.
        26 => cuMemMap(ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: u64) {
            asked: "cuMemMap" since 10020 Legacy, kind: Map, record: after,
            address: arg(ptr), size: arg(size), a: arg(handle), b: arg(offset), device: owner,
        }
        /// Takes mappings out of reserved addresses.
        27 => cuMemUnmap(ptr: CUdeviceptr, size: usize) {
            asked: "cuMemUnmap" since 10020 Legacy, kind: Unmap, record: before,
            address: arg(ptr), size: arg(size), a: none, b: none, device: owner,
        }
        /// Takes a reference to a device's primary context; the first one creates it.
        28 => cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) {
            asked: "cuDevicePrimaryCtxRetain" since 7000 Legacy, kind: PrimaryRetain, record: after,
            address: out(pctx), size: none, a: none, b: none, device: arg(dev),
        }
        /// Drops a reference to a primary context; the last one destroys it. The version libcudart asks for.
        29 => cuDevicePrimaryCtxRelease(dev: CUdevice) {
            asked: "cuDevicePrimaryCtxRelease" since 7000 Legacy, kind: PrimaryRelease, record: before,
            address: none, size: none, a: none, b: none, device: arg(dev),
        }
        /// Drops a reference to a primary context; the last one destroys it.
        30 => cuDevicePrimaryCtxRelease_v2(dev: CUdevice) {
            asked: "cuDevicePrimaryCtxRelease" since 11000 Legacy, kind: PrimaryRelease, record: before,
            address: none, size: none, a: none, b: none, device: arg(dev),
        }
        /// Destroys a primary context's state whatever its references. The version libcudart asks for.
        31 => cuDevicePrimaryCtxReset(dev: CUdevice) {
            asked: "cuDevicePrimaryCtxReset" since 7000 Legacy, kind: PrimaryReset, record: before,
            address: none, size: none, a: none, b: none, device: arg(dev),
        }
        /// Destroys a primary context's state whatever its references.
        32 => cuDevicePrimaryCtxReset_v2(dev: CUdevice) {
            asked: "cuDevicePrimaryCtxReset" since 11000 Legacy, kind: PrimaryReset, record: before,
            address: none, size: none, a: none, b: none, device: arg(dev),
        }
        /// Creates a context and makes it current, before CUDA 3.2.
        33 => cuCtxCreate(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) {
            asked: "cuCtxCreate" since 2000 Legacy, kind: ContextCreate, record: after,
            address: out(pctx), size: none, a: arg(flags), b: none, device: arg(dev),
        }
        /// Creates a context and makes it current.
        34 => cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) {
            asked: "cuCtxCreate" since 3020 Legacy, kind: ContextCreate, record: after,
            address: out(pctx), size: none, a: arg(flags), b: none, device: arg(dev),
        }
        /// Creates a context with execution affinity: `b` is the number of parameters.
        35 => cuCtxCreate_v3(pctx: *mut CUcontext, paramsArray: *mut Opaque, numParams: c_int, flags: c_uint, dev: CUdevice) {
            asked: "cuCtxCreate" since 11040 Legacy, kind: ContextCreate, record: after,
            address: out(pctx), size: none, a: arg(flags), b: arg(numParams), device: arg(dev),
        }
        /// Creates a context from a parameter struct.
        36 => cuCtxCreate_v4(pctx: *mut CUcontext, ctxCreateParams: *mut Opaque, flags: c_uint, dev: CUdevice) {
            asked: "cuCtxCreate" since 12050 Legacy, kind: ContextCreate, record: after,
            address: out(pctx), size: none, a: arg(flags), b: none, device: arg(dev),
        }
        /// Destroys a context with all that it owns, before CUDA 4.0.
        37 => cuCtxDestroy(ctx: CUcontext) {
            asked: "cuCtxDestroy" since 2000 Legacy, kind: ContextDestroy, record: before,
            address: arg(ctx), size: none, a: none, b: none, device: owner,
        }
        /// Destroys a context with all that it owns.
        38 => cuCtxDestroy_v2(ctx: CUcontext) {
            asked: "cuCtxDestroy" since 4000 Legacy, kind: ContextDestroy, record: before,
            address: arg(ctx), size: none, a: none, b: none, device: owner,
        }
        /// Takes a usage reference to the current context (deprecated).
        39 => cuCtxAttach(pctx: *mut CUcontext, flags: c_uint) {
            asked: "cuCtxAttach" since 2000 Legacy, kind: ContextAttach, record: after,
            address: out(pctx), size: none, a: arg(flags), b: none, device: current,
        }
        /// Drops a usage reference; the last one destroys the context (deprecated).
        40 => cuCtxDetach(ctx: CUcontext) {
            asked: "cuCtxDetach" since 2000 Legacy, kind: ContextDetach, record: before,
            address: arg(ctx), size: none, a: none, b: none, device: owner,
        }
        /// Makes a context current on the calling thread.
        41 => cuCtxSetCurrent(ctx: CUcontext) {
            asked: "cuCtxSetCurrent" since 4000 Legacy, kind: ContextSwitch, record: switch,
            address: arg(ctx), size: none, a: none, b: none, device: current,
        }
        /// Pushes a context onto the calling thread's stack, before CUDA 4.0.
        42 => cuCtxPushCurrent(ctx: CUcontext) {
            asked: "cuCtxPushCurrent" since 2000 Legacy, kind: ContextSwitch, record: after,
            address: arg(ctx), size: none, a: none, b: none, device: current,
        }
        /// Pushes a context onto the calling thread's stack.
        43 => cuCtxPushCurrent_v2(ctx: CUcontext) {
            asked: "cuCtxPushCurrent" since 4000 Legacy, kind: ContextSwitch, record: after,
            address: arg(ctx), size: none, a: none, b: none, device: current,
        }
        /// Pops the current context, before CUDA 4.0; the address is the one that was popped.
        44 => cuCtxPopCurrent(pctx: *mut CUcontext) {
            asked: "cuCtxPopCurrent" since 2000 Legacy, kind: ContextSwitch, record: after,
            address: out(pctx), size: none, a: none, b: none, device: current,
        }
        /// Pops the current context; the address is the one that was popped.
        45 => cuCtxPopCurrent_v2(pctx: *mut CUcontext) {
            asked: "cuCtxPopCurrent" since 4000 Legacy, kind: ContextSwitch, record: after,
            address: out(pctx), size: none, a: none, b: none, device: current,
        }
        /// Hands out driver entry points by base name and version, CUDA 11.3 to 11.8.
        46 => cuGetProcAddress(symbol: *const Text, pfn: *mut *mut c_void, cudaVersion: c_int, flags: u64) {
            asked: "cuGetProcAddress" since 11030 Legacy, kind: Door, record: door,
            address: none, size: none, a: none, b: none, device: none,
        }
        /// Hands out driver entry points by base name and version, with the reason for a refusal.
        47 => cuGetProcAddress_v2(symbol: *const Text, pfn: *mut *mut c_void, cudaVersion: c_int, flags: u64, symbolStatus: *mut c_uint) {
            asked: "cuGetProcAddress" since 12000 Legacy, kind: Door, record: door,
            address: none, size: none, a: none, b: none, device: none,
        }
        /// Hands out private tables of driver functions; passed through untouched, its UUID noted once.
        48 => cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const Opaque) {
            asked: "cuGetExportTable" since 3000 Legacy, kind: Door, record: door,
            address: none, size: none, a: none, b: none, device: none,
        }
        /// Moves pages of managed memory: `a` is the destination as a location.
        49 => cuMemPrefetchAsync(devPtr: CUdeviceptr, count: usize, dstDevice: CUdevice, hStream: CUstream) {
            asked: "cuMemPrefetchAsync" since 8000 Legacy, kind: Residency, record: after,
            address: arg(devPtr), size: arg(count), a: destination(dstDevice), b: none, device: none,
        }
        /// `cuMemPrefetchAsync` for per-thread default streams.
        50 => cuMemPrefetchAsync_ptsz(devPtr: CUdeviceptr, count: usize, dstDevice: CUdevice, hStream: CUstream) {
            asked: "cuMemPrefetchAsync" since 8000 PerThread, kind: Residency, record: after,
            address: arg(devPtr), size: arg(count), a: destination(dstDevice), b: none, device: none,
        }
        /// Moves pages of managed memory to a location.
        51 => cuMemPrefetchAsync_v2(devPtr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint, hStream: CUstream) {
            asked: "cuMemPrefetchAsync" since 12020 Legacy, kind: Residency, record: after,
            address: arg(devPtr), size: arg(count), a: arg(location), b: arg(flags), device: none,
        }
        /// `cuMemPrefetchAsync_v2` for per-thread default streams.
        52 => cuMemPrefetchAsync_v2_ptsz(devPtr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint, hStream: CUstream) {
            asked: "cuMemPrefetchAsync" since 12020 PerThread, kind: Residency, record: after,
            address: arg(devPtr), size: arg(count), a: arg(location), b: arg(flags), device: none,
        }
        /// Moves pages of several ranges: the first address, all bytes, the first location.
        53 => cuMemPrefetchBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, prefetchLocs: *mut Opaque, prefetchLocIdxs: *mut usize, numPrefetchLocs: usize, flags: u64, hStream: CUstream) {
            asked: "cuMemPrefetchBatchAsync" since 13000 Legacy, kind: Residency, record: after,
            address: first(dptrs, count), size: sum(sizes, count), a: field(prefetchLocs, 0), b: arg(count), device: none,
        }
        /// `cuMemPrefetchBatchAsync` for per-thread default streams.
        54 => cuMemPrefetchBatchAsync_ptsz(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, prefetchLocs: *mut Opaque, prefetchLocIdxs: *mut usize, numPrefetchLocs: usize, flags: u64, hStream: CUstream) {
            asked: "cuMemPrefetchBatchAsync" since 13000 PerThread, kind: Residency, record: after,
            address: first(dptrs, count), size: sum(sizes, count), a: field(prefetchLocs, 0), b: arg(count), device: none,
        }
        /// Drops the contents of managed ranges, and maybe their pages.
        55 => cuMemDiscardBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: u64, hStream: CUstream) {
            asked: "cuMemDiscardBatchAsync" since 13000 Legacy, kind: Residency, record: after,
            address: first(dptrs, count), size: sum(sizes, count), a: none, b: arg(count), device: none,
        }
        /// `cuMemDiscardBatchAsync` for per-thread default streams.
        56 => cuMemDiscardBatchAsync_ptsz(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: u64, hStream: CUstream) {
            asked: "cuMemDiscardBatchAsync" since 13000 PerThread, kind: Residency, record: after,
            address: first(dptrs, count), size: sum(sizes, count), a: none, b: arg(count), device: none,
        }
        /// Drops contents and moves the pages.
        57 => cuMemDiscardAndPrefetchBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, prefetchLocs: *mut Opaque, prefetchLocIdxs: *mut usize, numPrefetchLocs: usize, flags: u64, hStream: CUstream) {
            asked: "cuMemDiscardAndPrefetchBatchAsync" since 13000 Legacy, kind: Residency, record: after,
            address: first(dptrs, count), size: sum(sizes, count), a: field(prefetchLocs, 0), b: arg(count), device: none,
        }
        /// `cuMemDiscardAndPrefetchBatchAsync` for per-thread default streams.
        58 => cuMemDiscardAndPrefetchBatchAsync_ptsz(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, prefetchLocs: *mut Opaque, prefetchLocIdxs: *mut usize, numPrefetchLocs: usize, flags: u64, hStream: CUstream) {
            asked: "cuMemDiscardAndPrefetchBatchAsync" since 13000 PerThread, kind: Residency, record: after,
            address: first(dptrs, count), size: sum(sizes, count), a: field(prefetchLocs, 0), b: arg(count), device: none,
        }
        /// Advice about managed pages: `b` is the advice.
        59 => cuMemAdvise(devPtr: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice) {
            asked: "cuMemAdvise" since 8000 Legacy, kind: Residency, record: after,
            address: arg(devPtr), size: arg(count), a: destination(device), b: arg(advice), device: none,
        }
        /// Advice about managed pages, with a location.
        60 => cuMemAdvise_v2(devPtr: CUdeviceptr, count: usize, advice: c_uint, location: CUmemLocation) {
            asked: "cuMemAdvise" since 12020 Legacy, kind: Residency, record: after,
            address: arg(devPtr), size: arg(count), a: arg(location), b: arg(advice), device: none,
        }
        /// Ties managed memory to a stream.
        61 => cuStreamAttachMemAsync(hStream: CUstream, dptr: CUdeviceptr, length: usize, flags: c_uint) {
            asked: "cuStreamAttachMemAsync" since 6000 Legacy, kind: Residency, record: after,
            address: arg(dptr), size: arg(length), a: none, b: arg(flags), device: none,
        }
        /// `cuStreamAttachMemAsync` for per-thread default streams.
        62 => cuStreamAttachMemAsync_ptsz(hStream: CUstream, dptr: CUdeviceptr, length: usize, flags: c_uint) {
            asked: "cuStreamAttachMemAsync" since 7000 PerThread, kind: Residency, record: after,
            address: arg(dptr), size: arg(length), a: none, b: arg(flags), device: none,
        }
        /// A stream-ordered pool, empty at first: the size is its greatest, `a` type and handle types, `b` the location.
        63 => cuMemPoolCreate(pool: *mut CUmemoryPool, poolProps: *const Opaque) {
            asked: "cuMemPoolCreate" since 11020 Legacy, kind: Alloc(Pool), record: after,
            address: out(pool), size: field(poolProps, 24), a: field(poolProps, 0), b: field(poolProps, 8), device: location(poolProps),
        }
        /// Ends a pool; blocks that are still out keep their memory until they are freed.
        64 => cuMemPoolDestroy(pool: CUmemoryPool) {
            asked: "cuMemPoolDestroy" since 11020 Legacy, kind: Free(Pool), record: before,
            address: arg(pool), size: none, a: none, b: none, device: owner,
        }
        /// Gives a pool's idle memory back, down to a size.
        65 => cuMemPoolTrimTo(pool: CUmemoryPool, minBytesToKeep: usize) {
            asked: "cuMemPoolTrimTo" since 11020 Legacy, kind: PoolTrim, record: after,
            address: arg(pool), size: arg(minBytesToKeep), a: none, b: none, device: owner,
        }
        /// Sets a pool's policy, such as the release threshold, 4.
        66 => cuMemPoolSetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) {
            asked: "cuMemPoolSetAttribute" since 11020 Legacy, kind: PoolSetting, record: after,
            address: arg(pool), size: none, a: arg(attr), b: setting(attr, value), device: owner,
        }
        /// What a pool answers about itself: 5 reserved, 7 used, bytes. Also what the recorder itself asked.
        67 => cuMemPoolGetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) {
            asked: "cuMemPoolGetAttribute" since 11020 Legacy, kind: PoolAnswer, record: answer,
            address: arg(pool), size: none, a: arg(attr), b: reading(attr, value), device: owner,
        }
        /// Lets other devices into a pool's memory.
        68 => cuMemPoolSetAccess(pool: CUmemoryPool, map: *const Opaque, count: usize) {
            asked: "cuMemPoolSetAccess" since 11020 Legacy, kind: Access, record: after,
            address: arg(pool), size: none, a: field(map, 0), b: arg(count), device: owner,
        }
        /// A pool for other processes.
        69 => cuMemPoolExportToShareableHandle(handle_out: *mut c_void, pool: CUmemoryPool, handleType: c_uint, flags: u64) {
            asked: "cuMemPoolExportToShareableHandle" since 11020 Legacy, kind: Export(Pool), record: after,
            address: arg(pool), size: none, a: shareable(handle_out, handleType), b: arg(handleType), device: owner,
        }
        /// Another process's pool.
        70 => cuMemPoolImportFromShareableHandle(pool_out: *mut CUmemoryPool, handle: *mut c_void, handleType: c_uint, flags: u64) {
            asked: "cuMemPoolImportFromShareableHandle" since 11020 Legacy, kind: Import(Pool), record: after,
            address: out(pool_out), size: none, a: foreign(handle, handleType), b: arg(handleType), device: none,
        }
        /// A block of a shared pool for other processes: `a` is the digest of its 64-byte name.
        71 => cuMemPoolExportPointer(shareData_out: *mut Opaque, ptr: CUdeviceptr) {
            asked: "cuMemPoolExportPointer" since 11020 Legacy, kind: Export(PoolBlock), record: after,
            address: arg(ptr), size: none, a: digest_out(shareData_out), b: none, device: owner,
        }
        /// Another process's block.
        72 => cuMemPoolImportPointer(ptr_out: *mut CUdeviceptr, pool: CUmemoryPool, shareData: *mut Opaque) {
            asked: "cuMemPoolImportPointer" since 11020 Legacy, kind: Import(PoolBlock), record: after,
            address: out(ptr_out), size: range(ptr_out), a: digest(shareData), b: arg(pool), device: current,
        }
        /// Says which pool a device has from the start.
        73 => cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice) {
            asked: "cuDeviceGetDefaultMemPool" since 11020 Legacy, kind: PoolKnown, record: answer,
            address: out(pool_out), size: none, a: none, b: none, device: arg(dev),
        }
        /// Says which pool `cuMemAllocAsync` takes from.
        74 => cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) {
            asked: "cuDeviceGetMemPool" since 11020 Legacy, kind: PoolKnown, record: answer,
            address: out(pool), size: none, a: none, b: none, device: arg(dev),
        }
        /// Makes `cuMemAllocAsync` take from this pool.
        75 => cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
            asked: "cuDeviceSetMemPool" since 11020 Legacy, kind: PoolCurrent, record: after,
            address: arg(pool), size: none, a: none, b: none, device: arg(dev),
        }
        /// Says which pool a location has from the start.
        76 => cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool, location: *mut Opaque, type_: c_uint) {
            asked: "cuMemGetDefaultMemPool" since 13000 Legacy, kind: PoolKnown, record: answer,
            address: out(pool_out), size: none, a: arg(type_), b: field(location, 0), device: place(location),
        }
        /// Says which pool is in use at a location.
        77 => cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut Opaque, type_: c_uint) {
            asked: "cuMemGetMemPool" since 13000 Legacy, kind: PoolKnown, record: answer,
            address: out(pool), size: none, a: arg(type_), b: field(location, 0), device: place(location),
        }
        /// Makes a pool the one in use at a location.
        78 => cuMemSetMemPool(location: *mut Opaque, type_: c_uint, pool: CUmemoryPool) {
            asked: "cuMemSetMemPool" since 13000 Legacy, kind: PoolCurrent, record: after,
            address: arg(pool), size: none, a: arg(type_), b: field(location, 0), device: place(location),
        }
        /// Physical memory for other processes: `a` is the descriptor, or the digest of a fabric handle.
        79 => cuMemExportToShareableHandle(shareableHandle: *mut c_void, handle: CUmemGenericAllocationHandle, handleType: c_uint, flags: u64) {
            asked: "cuMemExportToShareableHandle" since 10020 Legacy, kind: Export(Physical), record: after,
            address: arg(handle), size: none, a: shareable(shareableHandle, handleType), b: arg(handleType), device: owner,
        }
        /// A dma-buf descriptor of a range of addresses.
        80 => cuMemGetHandleForAddressRange(handle: *mut c_void, dptr: CUdeviceptr, size: usize, handleType: c_uint, flags: u64) {
            asked: "cuMemGetHandleForAddressRange" since 11070 Legacy, kind: Export(Linear), record: after,
            address: arg(dptr), size: arg(size), a: shareable(handle, handleType), b: arg(handleType), device: owner,
        }
        /// Another process's physical memory: `b` is its location, as the driver says.
        81 => cuMemImportFromShareableHandle(handle: *mut CUmemGenericAllocationHandle, osHandle: *mut c_void, shHandleType: c_uint) {
            asked: "cuMemImportFromShareableHandle" since 10020 Legacy, kind: Import(Physical), record: after,
            address: out(handle), size: none, a: foreign(osHandle, shHandleType), b: properties(handle), device: none,
        }
        /// One more reference to the handle that is mapped at an address.
        82 => cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, addr: *mut c_void) {
            asked: "cuMemRetainAllocationHandle" since 11000 Legacy, kind: Retain, record: after,
            address: out(handle), size: none, a: arg(addr), b: none, device: owner,
        }
        /// Maps and unmaps parts of sparse arrays, a record for each: the array, bytes of a mip tail, the handle (0 unmaps), the digest of the part.
        83 => cuMemMapArrayAsync(mapInfoList: *mut Opaque, count: c_uint, hStream: CUstream) {
            asked: "cuMemMapArrayAsync" since 11010 Legacy, kind: Tiles, record: tiles,
            address: none, size: none, a: arg(count), b: none, device: none,
        }
        /// `cuMemMapArrayAsync` for per-thread default streams.
        84 => cuMemMapArrayAsync_ptsz(mapInfoList: *mut Opaque, count: c_uint, hStream: CUstream) {
            asked: "cuMemMapArrayAsync" since 11010 PerThread, kind: Tiles, record: tiles,
            address: none, size: none, a: arg(count), b: none, device: none,
        }
        /// Lets a location use a mapping.
        85 => cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const Opaque, count: usize) {
            asked: "cuMemSetAccess" since 10020 Legacy, kind: Access, record: after,
            address: arg(ptr), size: arg(size), a: field(desc, 0), b: arg(count), device: owner,
        }
        /// A multicast object: a handle without memory of its own, given back by `cuMemRelease`.
        86 => cuMulticastCreate(mcHandle: *mut CUmemGenericAllocationHandle, prop: *const Opaque) {
            asked: "cuMulticastCreate" since 12010 Legacy, kind: Alloc(Multicast), record: after,
            address: out(mcHandle), size: field(prop, 8), a: field(prop, 0), b: field(prop, 16), device: none,
        }
        /// Adds a device to a multicast team.
        87 => cuMulticastAddDevice(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice) {
            asked: "cuMulticastAddDevice" since 12010 Legacy, kind: AddDevice, record: after,
            address: arg(mcHandle), size: none, a: none, b: none, device: arg(dev),
        }
        /// Binds physical memory to a multicast object.
        88 => cuMulticastBindMem(mcHandle: CUmemGenericAllocationHandle, mcOffset: usize, memHandle: CUmemGenericAllocationHandle, memOffset: usize, size: usize, flags: u64) {
            asked: "cuMulticastBindMem" since 12010 Legacy, kind: Bind, record: after,
            address: arg(mcHandle), size: arg(size), a: arg(memHandle), b: arg(mcOffset), device: owner,
        }
        /// Binds physical memory to a multicast object, on a device.
        89 => cuMulticastBindMem_v2(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize, memHandle: CUmemGenericAllocationHandle, memOffset: usize, size: usize, flags: u64) {
            asked: "cuMulticastBindMem" since 13010 Legacy, kind: Bind, record: after,
            address: arg(mcHandle), size: arg(size), a: arg(memHandle), b: arg(mcOffset), device: arg(dev),
        }
        /// Binds mapped memory to a multicast object.
        90 => cuMulticastBindAddr(mcHandle: CUmemGenericAllocationHandle, mcOffset: usize, memptr: CUdeviceptr, size: usize, flags: u64) {
            asked: "cuMulticastBindAddr" since 12010 Legacy, kind: BindAddress, record: after,
            address: arg(mcHandle), size: arg(size), a: arg(memptr), b: arg(mcOffset), device: owner,
        }
        /// Binds mapped memory to a multicast object, on a device.
        91 => cuMulticastBindAddr_v2(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize, memptr: CUdeviceptr, size: usize, flags: u64) {
            asked: "cuMulticastBindAddr" since 13010 Legacy, kind: BindAddress, record: after,
            address: arg(mcHandle), size: arg(size), a: arg(memptr), b: arg(mcOffset), device: arg(dev),
        }
        /// Unbinds memory from a multicast object.
        92 => cuMulticastUnbind(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize, size: usize) {
            asked: "cuMulticastUnbind" since 12010 Legacy, kind: Unbind, record: before,
            address: arg(mcHandle), size: arg(size), a: none, b: arg(mcOffset), device: arg(dev),
        }
        /// A window of memory for a fabric; no memory of its own.
        93 => cuLogicalEndpointCreate(leId: c_uint, prop: *const Opaque) {
            asked: "cuLogicalEndpointCreate" since 13030 Legacy, kind: Alloc(Endpoint), record: after,
            address: arg(leId), size: field(prop, 8), a: field(prop, 0), b: none, device: none,
        }
        /// Ends a logical endpoint and unbinds what this process bound.
        94 => cuLogicalEndpointDestroy(leId: c_uint) {
            asked: "cuLogicalEndpointDestroy" since 13030 Legacy, kind: Free(Endpoint), record: before,
            address: arg(leId), size: none, a: none, b: none, device: none,
        }
        /// Adds a device to a logical endpoint.
        95 => cuLogicalEndpointAddDevice(leId: c_uint, dev: CUdevice) {
            asked: "cuLogicalEndpointAddDevice" since 13030 Legacy, kind: AddDevice, record: after,
            address: arg(leId), size: none, a: none, b: none, device: arg(dev),
        }
        /// Binds physical memory to a logical endpoint.
        96 => cuLogicalEndpointBindMem(leId: c_uint, dev: CUdevice, offset: u64, memHandle: CUmemGenericAllocationHandle, memOffset: u64, size: u64, flags: u64) {
            asked: "cuLogicalEndpointBindMem" since 13030 Legacy, kind: Bind, record: after,
            address: arg(leId), size: arg(size), a: arg(memHandle), b: arg(offset), device: arg(dev),
        }
        /// Binds mapped memory to a logical endpoint.
        97 => cuLogicalEndpointBindAddr(leId: c_uint, dev: CUdevice, offset: u64, ptr: *mut c_void, size: u64, flags: u64) {
            asked: "cuLogicalEndpointBindAddr" since 13030 Legacy, kind: BindAddress, record: after,
            address: arg(leId), size: arg(size), a: arg(ptr), b: arg(offset), device: arg(dev),
        }
        /// Unbinds memory from a logical endpoint.
        98 => cuLogicalEndpointUnbind(leId: c_uint, dev: CUdevice, offset: u64, size: u64) {
            asked: "cuLogicalEndpointUnbind" since 13030 Legacy, kind: Unbind, record: before,
            address: arg(leId), size: arg(size), a: none, b: arg(offset), device: arg(dev),
        }
        /// A logical endpoint for other processes.
        99 => cuLogicalEndpointExport(handle: *mut c_void, leId: c_uint, handleType: c_uint) {
            asked: "cuLogicalEndpointExport" since 13030 Legacy, kind: Export(Endpoint), record: after,
            address: arg(leId), size: none, a: none, b: arg(handleType), device: none,
        }
        /// Another process's logical endpoint.
        100 => cuLogicalEndpointImport(leId: c_uint, handle: *const c_void, handleType: c_uint) {
            asked: "cuLogicalEndpointImport" since 13030 Legacy, kind: Import(Endpoint), record: after,
            address: arg(leId), size: none, a: none, b: arg(handleType), device: none,
        }
        /// An array of one or two dimensions, 32-bit descriptor.
        101 => cuArrayCreate(pHandle: *mut CUarray, pAllocateArray: *const Opaque) {
            asked: "cuArrayCreate" since 2000 Legacy, kind: Alloc(Array), record: after,
            address: out(pHandle), size: none, a: extent(pAllocateArray, flat32), b: texel(pAllocateArray, flat32), device: current,
        }
        /// An array of one or two dimensions.
        102 => cuArrayCreate_v2(pHandle: *mut CUarray, pAllocateArray: *const Opaque) {
            asked: "cuArrayCreate" since 3020 Legacy, kind: Alloc(Array), record: after,
            address: out(pHandle), size: none, a: extent(pAllocateArray, flat), b: texel(pAllocateArray, flat), device: current,
        }
        /// An array of up to three dimensions, 32-bit descriptor.
        103 => cuArray3DCreate(pHandle: *mut CUarray, pAllocateArray: *const Opaque) {
            asked: "cuArray3DCreate" since 2000 Legacy, kind: Alloc(Array), record: after,
            address: out(pHandle), size: none, a: extent(pAllocateArray, solid32), b: texel(pAllocateArray, solid32), device: current,
        }
        /// An array of up to three dimensions: `a` is width and height, `b` depth, format, channels and flags.
        104 => cuArray3DCreate_v2(pHandle: *mut CUarray, pAllocateArray: *const Opaque) {
            asked: "cuArray3DCreate" since 3020 Legacy, kind: Alloc(Array), record: after,
            address: out(pHandle), size: none, a: extent(pAllocateArray, solid), b: texel(pAllocateArray, solid), device: current,
        }
        /// Ends an array.
        105 => cuArrayDestroy(hArray: CUarray) {
            asked: "cuArrayDestroy" since 2000 Legacy, kind: Free(Array), record: before,
            address: arg(hArray), size: none, a: none, b: none, device: owner,
        }
        /// An array at several sizes: the size is the number of levels.
        106 => cuMipmappedArrayCreate(pHandle: *mut CUmipmappedArray, pMipmappedArrayDesc: *const Opaque, numMipmapLevels: c_uint) {
            asked: "cuMipmappedArrayCreate" since 5000 Legacy, kind: Alloc(MipmappedArray), record: after,
            address: out(pHandle), size: arg(numMipmapLevels), a: extent(pMipmappedArrayDesc, solid), b: texel(pMipmappedArrayDesc, solid), device: current,
        }
        /// Ends a mipmapped array, also one of external memory.
        107 => cuMipmappedArrayDestroy(hMipmappedArray: CUmipmappedArray) {
            asked: "cuMipmappedArrayDestroy" since 5000 Legacy, kind: Free(MipmappedArray), record: before,
            address: arg(hMipmappedArray), size: none, a: none, b: none, device: owner,
        }
        /// An allocation for other processes: `a` is the digest of its 64-byte handle.
        108 => cuIpcGetMemHandle(pHandle: *mut Opaque, dptr: CUdeviceptr) {
            asked: "cuIpcGetMemHandle" since 4010 Legacy, kind: Export(Linear), record: after,
            address: arg(dptr), size: none, a: digest_out(pHandle), b: none, device: owner,
        }
        /// Maps another process's allocation.
        109 => cuIpcOpenMemHandle(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: c_uint) {
            asked: "cuIpcOpenMemHandle" since 4010 Legacy, kind: Import(IpcMapping), record: after,
            address: out(pdptr), size: range(pdptr), a: digest(handle), b: arg(Flags), device: current,
        }
        /// Maps another process's allocation.
        110 => cuIpcOpenMemHandle_v2(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: c_uint) {
            asked: "cuIpcOpenMemHandle" since 11000 Legacy, kind: Import(IpcMapping), record: after,
            address: out(pdptr), size: range(pdptr), a: digest(handle), b: arg(Flags), device: current,
        }
        /// Unmaps another process's allocation; each opening is closed once.
        111 => cuIpcCloseMemHandle(dptr: CUdeviceptr) {
            asked: "cuIpcCloseMemHandle" since 4010 Legacy, kind: Free(IpcMapping), record: before,
            address: arg(dptr), size: none, a: none, b: none, device: owner,
        }
        /// Another process's event.
        112 => cuIpcOpenEventHandle(phEvent: *mut CUevent, handle: CUipcMemHandle) {
            asked: "cuIpcOpenEventHandle" since 4010 Legacy, kind: Alloc(Event), record: after,
            address: out(phEvent), size: none, a: none, b: none, device: current,
        }
        /// Memory of another interface (Vulkan, a dma-buf): `a` is the kind of its handle.
        113 => cuImportExternalMemory(extMem_out: *mut CUexternalMemory, memHandleDesc: *const Opaque) {
            asked: "cuImportExternalMemory" since 10000 Legacy, kind: Import(ExternalMemory), record: after,
            address: out(extMem_out), size: field(memHandleDesc, 24), a: field32(memHandleDesc, 0), b: field(memHandleDesc, 8), device: current,
        }
        /// Maps a part of external memory; freed by `cuMemFree`.
        114 => cuExternalMemoryGetMappedBuffer(devPtr: *mut CUdeviceptr, extMem: CUexternalMemory, bufferDesc: *const Opaque) {
            asked: "cuExternalMemoryGetMappedBuffer" since 10000 Legacy, kind: Import(ExternalBuffer), record: after,
            address: out(devPtr), size: field(bufferDesc, 8), a: arg(extMem), b: field(bufferDesc, 0), device: current,
        }
        /// Maps a part of external memory as a mipmapped array.
        115 => cuExternalMemoryGetMappedMipmappedArray(mipmap: *mut CUmipmappedArray, extMem: CUexternalMemory, mipmapDesc: *const Opaque) {
            asked: "cuExternalMemoryGetMappedMipmappedArray" since 10000 Legacy, kind: Import(MipmappedArray), record: after,
            address: out(mipmap), size: field32(mipmapDesc, 48), a: extent(mipmapDesc, external), b: texel(mipmapDesc, external), device: current,
        }
        /// Lets external memory go.
        116 => cuDestroyExternalMemory(extMem: CUexternalMemory) {
            asked: "cuDestroyExternalMemory" since 10000 Legacy, kind: Free(ExternalMemory), record: before,
            address: arg(extMem), size: none, a: none, b: none, device: owner,
        }
        /// A semaphore of another interface.
        117 => cuImportExternalSemaphore(extSem_out: *mut CUexternalSemaphore, semHandleDesc: *const Opaque) {
            asked: "cuImportExternalSemaphore" since 10000 Legacy, kind: Import(ExternalSemaphore), record: after,
            address: out(extSem_out), size: none, a: field32(semHandleDesc, 0), b: none, device: current,
        }
        /// Lets an external semaphore go.
        118 => cuDestroyExternalSemaphore(extSem: CUexternalSemaphore) {
            asked: "cuDestroyExternalSemaphore" since 10000 Legacy, kind: Free(ExternalSemaphore), record: before,
            address: arg(extSem), size: none, a: none, b: none, device: owner,
        }
        /// An empty graph.
        119 => cuGraphCreate(phGraph: *mut CUgraph, flags: c_uint) {
            asked: "cuGraphCreate" since 10000 Legacy, kind: Alloc(Graph), record: after,
            address: out(phGraph), size: none, a: none, b: arg(flags), device: none,
        }
        /// A copy of a graph.
        120 => cuGraphClone(phGraphClone: *mut CUgraph, originalGraph: CUgraph) {
            asked: "cuGraphClone" since 10000 Legacy, kind: Alloc(Graph), record: after,
            address: out(phGraphClone), size: none, a: arg(originalGraph), b: none, device: none,
        }
        /// Ends a graph; memory that its nodes allocated lives on.
        121 => cuGraphDestroy(hGraph: CUgraph) {
            asked: "cuGraphDestroy" since 10000 Legacy, kind: Free(Graph), record: before,
            address: arg(hGraph), size: none, a: none, b: none, device: owner,
        }
        /// A node that allocates when its graph is launched: the address is fixed now, the memory comes later.
        122 => cuGraphAddMemAllocNode(phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *mut Opaque) {
            asked: "cuGraphAddMemAllocNode" since 11040 Legacy, kind: Alloc(GraphBlock), record: after,
            address: later(nodeParams, 112), size: field(nodeParams, 104), a: arg(hGraph), b: out(phGraphNode), device: location(nodeParams),
        }
        /// A node that frees when its graph is launched.
        123 => cuGraphAddMemFreeNode(phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, dptr: CUdeviceptr) {
            asked: "cuGraphAddMemFreeNode" since 11040 Legacy, kind: GraphFree, record: after,
            address: arg(dptr), size: none, a: arg(hGraph), b: out(phGraphNode), device: owner,
        }
        /// A node of any kind; those that allocate (10), free (11) or hold another graph (4) are recorded.
        124 => cuGraphAddNode(phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *mut Opaque) {
            asked: "cuGraphAddNode" since 12020 Legacy, kind: GraphNode, record: node,
            address: node_address(nodeParams), size: node_size(nodeParams), a: arg(hGraph), b: field32(nodeParams, 0), device: node(nodeParams),
        }
        /// `cuGraphAddNode` with edge data.
        125 => cuGraphAddNode_v2(phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, dependencyData: *const Opaque, numDependencies: usize, nodeParams: *mut Opaque) {
            asked: "cuGraphAddNode" since 12030 Legacy, kind: GraphNode, record: node,
            address: node_address(nodeParams), size: node_size(nodeParams), a: arg(hGraph), b: field32(nodeParams, 0), device: node(nodeParams),
        }
        /// `cuGraphAddNode` of CUDA 13.4.
        126 => cuGraphAddNode_v3(phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, dependencyData: *const Opaque, numDependencies: usize, nodeParams: *mut Opaque) {
            asked: "cuGraphAddNode" since 13040 Legacy, kind: GraphNode, record: node,
            address: node_address(nodeParams), size: node_size(nodeParams), a: arg(hGraph), b: field32(nodeParams, 0), device: node(nodeParams),
        }
        /// A node that holds a copy of another graph.
        127 => cuGraphAddChildGraphNode(phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, childGraph: CUgraph) {
            asked: "cuGraphAddChildGraphNode" since 10000 Legacy, kind: GraphChild, record: after,
            address: arg(childGraph), size: none, a: arg(hGraph), b: out(phGraphNode), device: none,
        }
        /// An executable graph, before CUDA 11.
        128 => cuGraphInstantiate(phGraphExec: *mut CUgraphExec, hGraph: CUgraph, phErrorNode: *mut CUgraphNode, logBuffer: *mut Text, bufferSize: usize) {
            asked: "cuGraphInstantiate" since 10000 Legacy, kind: Alloc(GraphExec), record: after,
            address: out(phGraphExec), size: none, a: arg(hGraph), b: none, device: none,
        }
        /// An executable graph, CUDA 11.
        129 => cuGraphInstantiate_v2(phGraphExec: *mut CUgraphExec, hGraph: CUgraph, phErrorNode: *mut CUgraphNode, logBuffer: *mut Text, bufferSize: usize) {
            asked: "cuGraphInstantiate" since 11000 Legacy, kind: Alloc(GraphExec), record: after,
            address: out(phGraphExec), size: none, a: arg(hGraph), b: none, device: none,
        }
        /// An executable graph: flag 1 frees what its last launch left when it is launched again.
        130 => cuGraphInstantiateWithFlags(phGraphExec: *mut CUgraphExec, hGraph: CUgraph, flags: u64) {
            asked: "cuGraphInstantiateWithFlags" since 11040 Legacy, kind: Alloc(GraphExec), record: after,
            address: out(phGraphExec), size: none, a: arg(hGraph), b: arg(flags), device: none,
        }
        /// An executable graph: flag 2 uploads it at once.
        131 => cuGraphInstantiateWithParams(phGraphExec: *mut CUgraphExec, hGraph: CUgraph, instantiateParams: *mut Opaque) {
            asked: "cuGraphInstantiateWithParams" since 12000 Legacy, kind: Alloc(GraphExec), record: after,
            address: out(phGraphExec), size: none, a: arg(hGraph), b: field(instantiateParams, 0), device: none,
        }
        /// `cuGraphInstantiateWithParams` for per-thread default streams.
        132 => cuGraphInstantiateWithParams_ptsz(phGraphExec: *mut CUgraphExec, hGraph: CUgraph, instantiateParams: *mut Opaque) {
            asked: "cuGraphInstantiateWithParams" since 12000 PerThread, kind: Alloc(GraphExec), record: after,
            address: out(phGraphExec), size: none, a: arg(hGraph), b: field(instantiateParams, 0), device: none,
        }
        /// Gives an executable graph another graph's parameters.
        133 => cuGraphExecUpdate(hGraphExec: CUgraphExec, hGraph: CUgraph, hErrorNode_out: *mut CUgraphNode, updateResult_out: *mut Opaque) {
            asked: "cuGraphExecUpdate" since 10020 Legacy, kind: GraphUpdate, record: after,
            address: arg(hGraphExec), size: none, a: arg(hGraph), b: none, device: none,
        }
        /// Gives an executable graph another graph's parameters.
        134 => cuGraphExecUpdate_v2(hGraphExec: CUgraphExec, hGraph: CUgraph, resultInfo: *mut Opaque) {
            asked: "cuGraphExecUpdate" since 12000 Legacy, kind: GraphUpdate, record: after,
            address: arg(hGraphExec), size: none, a: arg(hGraph), b: none, device: none,
        }
        /// Ends an executable graph; memory that its launches allocated lives on.
        135 => cuGraphExecDestroy(hGraphExec: CUgraphExec) {
            asked: "cuGraphExecDestroy" since 10000 Legacy, kind: Free(GraphExec), record: before,
            address: arg(hGraphExec), size: none, a: none, b: none, device: owner,
        }
        /// Takes the memory of an executable graph before its launch.
        136 => cuGraphUpload(hGraphExec: CUgraphExec, hStream: CUstream) {
            asked: "cuGraphUpload" since 11010 Legacy, kind: GraphUpload, record: launch,
            address: arg(hGraphExec), size: none, a: arg(hStream), b: none, device: current,
        }
        /// `cuGraphUpload` for per-thread default streams.
        137 => cuGraphUpload_ptsz(hGraphExec: CUgraphExec, hStream: CUstream) {
            asked: "cuGraphUpload" since 11010 PerThread, kind: GraphUpload, record: launch,
            address: arg(hGraphExec), size: none, a: arg(hStream), b: none, device: current,
        }
        /// Runs a graph; recorded once the process has made a memory node.
        138 => cuGraphLaunch(hGraphExec: CUgraphExec, hStream: CUstream) {
            asked: "cuGraphLaunch" since 10000 Legacy, kind: GraphLaunch, record: launch,
            address: arg(hGraphExec), size: none, a: arg(hStream), b: none, device: current,
        }
        /// `cuGraphLaunch` for per-thread default streams.
        139 => cuGraphLaunch_ptsz(hGraphExec: CUgraphExec, hStream: CUstream) {
            asked: "cuGraphLaunch" since 10000 PerThread, kind: GraphLaunch, record: launch,
            address: arg(hGraphExec), size: none, a: arg(hStream), b: none, device: current,
        }
        /// Gives the idle memory of a device's graphs back.
        140 => cuDeviceGraphMemTrim(device: CUdevice) {
            asked: "cuDeviceGraphMemTrim" since 11040 Legacy, kind: GraphTrim, record: after,
            address: none, size: none, a: none, b: none, device: arg(device),
        }
        /// What the device answers about its graphs' memory: 0 used, 2 reserved, bytes. Also what the recorder itself asked.
        141 => cuDeviceGetGraphMemAttribute(device: CUdevice, attr: c_uint, value: *mut c_void) {
            asked: "cuDeviceGetGraphMemAttribute" since 11040 Legacy, kind: GraphAnswer, record: answer,
            address: none, size: none, a: arg(attr), b: reading64(value), device: arg(device),
        }
        /// A stream begins to be captured: until its end, stream-ordered allocations are graph nodes. `b` is the capture's id.
        142 => cuStreamBeginCapture(hStream: CUstream) {
            asked: "cuStreamBeginCapture" since 10000 Legacy, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: none, b: capture(hStream), device: current,
        }
        /// `cuStreamBeginCapture` for per-thread default streams.
        143 => cuStreamBeginCapture_ptsz(hStream: CUstream) {
            asked: "cuStreamBeginCapture" since 10000 PerThread, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: none, b: capture(hStream), device: current,
        }
        /// A stream begins to be captured, in a mode.
        144 => cuStreamBeginCapture_v2(hStream: CUstream, mode: c_uint) {
            asked: "cuStreamBeginCapture" since 10010 Legacy, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: none, b: capture(hStream), device: current,
        }
        /// `cuStreamBeginCapture_v2` for per-thread default streams.
        145 => cuStreamBeginCapture_v2_ptsz(hStream: CUstream, mode: c_uint) {
            asked: "cuStreamBeginCapture" since 10010 PerThread, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: none, b: capture(hStream), device: current,
        }
        /// A stream begins to be captured into a graph that there is: `a`.
        146 => cuStreamBeginCaptureToGraph(hStream: CUstream, hGraph: CUgraph, dependencies: *const CUgraphNode, dependencyData: *const Opaque, numDependencies: usize, mode: c_uint) {
            asked: "cuStreamBeginCaptureToGraph" since 12030 Legacy, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: arg(hGraph), b: capture(hStream), device: current,
        }
        /// `cuStreamBeginCaptureToGraph` for per-thread default streams.
        147 => cuStreamBeginCaptureToGraph_ptsz(hStream: CUstream, hGraph: CUgraph, dependencies: *const CUgraphNode, dependencyData: *const Opaque, numDependencies: usize, mode: c_uint) {
            asked: "cuStreamBeginCaptureToGraph" since 12030 PerThread, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: arg(hGraph), b: capture(hStream), device: current,
        }
        /// A stream begins to be captured again into a graph.
        148 => cuStreamBeginRecaptureToGraph(hStream: CUstream, mode: c_uint, hGraph: CUgraph, callbackFunc: *const c_void, userData: *mut c_void) {
            asked: "cuStreamBeginRecaptureToGraph" since 13030 Legacy, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: arg(hGraph), b: capture(hStream), device: current,
        }
        /// `cuStreamBeginRecaptureToGraph` for per-thread default streams.
        149 => cuStreamBeginRecaptureToGraph_ptsz(hStream: CUstream, mode: c_uint, hGraph: CUgraph, callbackFunc: *const c_void, userData: *mut c_void) {
            asked: "cuStreamBeginRecaptureToGraph" since 13030 PerThread, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: arg(hGraph), b: capture(hStream), device: current,
        }
        /// A stream begins to be captured for a graphics queue.
        150 => cuStreamBeginCaptureToCig(hStream: CUstream, streamCigCaptureParams: *mut Opaque) {
            asked: "cuStreamBeginCaptureToCig" since 13010 Legacy, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: none, b: capture(hStream), device: current,
        }
        /// `cuStreamBeginCaptureToCig` for per-thread default streams.
        151 => cuStreamBeginCaptureToCig_ptsz(hStream: CUstream, streamCigCaptureParams: *mut Opaque) {
            asked: "cuStreamBeginCaptureToCig" since 13010 PerThread, kind: CaptureBegin, record: after,
            address: arg(hStream), size: none, a: none, b: capture(hStream), device: current,
        }
        /// A capture ends: the graph has the allocations. A size of 1 says that the stream is captured no more, whatever the result; `b` is the id, all ones for a capture that was invalidated.
        152 => cuStreamEndCapture(hStream: CUstream, phGraph: *mut CUgraph) {
            asked: "cuStreamEndCapture" since 10000 Legacy, kind: CaptureEnd, record: capture_end,
            address: out(phGraph), size: none, a: arg(hStream), b: capture_now(hStream), device: current,
        }
        /// `cuStreamEndCapture` for per-thread default streams.
        153 => cuStreamEndCapture_ptsz(hStream: CUstream, phGraph: *mut CUgraph) {
            asked: "cuStreamEndCapture" since 10000 PerThread, kind: CaptureEnd, record: capture_end,
            address: out(phGraph), size: none, a: arg(hStream), b: capture_now(hStream), device: current,
        }
        /// A capture for a graphics queue ends.
        154 => cuStreamEndCaptureToCig(hStream: CUstream) {
            asked: "cuStreamEndCaptureToCig" since 13010 Legacy, kind: CaptureEnd, record: capture_end,
            address: none, size: none, a: arg(hStream), b: capture_now(hStream), device: current,
        }
        /// `cuStreamEndCaptureToCig` for per-thread default streams.
        155 => cuStreamEndCaptureToCig_ptsz(hStream: CUstream) {
            asked: "cuStreamEndCaptureToCig" since 13010 PerThread, kind: CaptureEnd, record: capture_end,
            address: none, size: none, a: arg(hStream), b: capture_now(hStream), device: current,
        }
        /// Creates a context for OpenGL, 32-bit ABI.
        156 => cuGLCtxCreate(pCtx: *mut CUcontext, Flags: c_uint, device: CUdevice) {
            asked: "cuGLCtxCreate" since 2000 Legacy, kind: ContextCreate, record: after,
            address: out(pCtx), size: none, a: arg(Flags), b: none, device: arg(device),
        }
        /// Creates a context for OpenGL.
        157 => cuGLCtxCreate_v2(pCtx: *mut CUcontext, Flags: c_uint, device: CUdevice) {
            asked: "cuGLCtxCreate" since 3020 Legacy, kind: ContextCreate, record: after,
            address: out(pCtx), size: none, a: arg(Flags), b: none, device: arg(device),
        }
        /// Creates a context for VDPAU, 32-bit ABI.
        158 => cuVDPAUCtxCreate(pCtx: *mut CUcontext, flags: c_uint, device: CUdevice, vdpDevice: c_uint, vdpGetProcAddress: *mut Opaque) {
            asked: "cuVDPAUCtxCreate" since 3010 Legacy, kind: ContextCreate, record: after,
            address: out(pCtx), size: none, a: arg(flags), b: none, device: arg(device),
        }
        /// Creates a context for VDPAU.
        159 => cuVDPAUCtxCreate_v2(pCtx: *mut CUcontext, flags: c_uint, device: CUdevice, vdpDevice: c_uint, vdpGetProcAddress: *mut Opaque) {
            asked: "cuVDPAUCtxCreate" since 3020 Legacy, kind: ContextCreate, record: after,
            address: out(pCtx), size: none, a: arg(flags), b: none, device: arg(device),
        }
        /// A green context, a part of the primary context's processors; retains the primary context.
        160 => cuGreenCtxCreate(phCtx: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice, flags: c_uint) {
            asked: "cuGreenCtxCreate" since 12040 Legacy, kind: GreenCreate, record: after,
            address: out(phCtx), size: none, a: arg(flags), b: none, device: arg(dev),
        }
        /// Ends a green context and its reference to the primary one; memory that was allocated in it lives on.
        161 => cuGreenCtxDestroy(hCtx: CUgreenCtx) {
            asked: "cuGreenCtxDestroy" since 12040 Legacy, kind: GreenDestroy, record: before,
            address: arg(hCtx), size: none, a: none, b: none, device: owner,
        }
        /// The context handle of a green context.
        162 => cuCtxFromGreenCtx(pContext: *mut CUcontext, hCtx: CUgreenCtx) {
            asked: "cuCtxFromGreenCtx" since 12040 Legacy, kind: GreenView, record: answer,
            address: out(pContext), size: none, a: arg(hCtx), b: none, device: owner,
        }
        /// A stream in a green context.
        163 => cuGreenCtxStreamCreate(phStream: *mut CUstream, greenCtx: CUgreenCtx, flags: c_uint, priority: c_int) {
            asked: "cuGreenCtxStreamCreate" since 12050 Legacy, kind: Alloc(Stream), record: after,
            address: out(phStream), size: none, a: arg(flags), b: arg(greenCtx), device: current,
        }
        /// Sets a limit of the context: 0, the stack of a thread, can take gigabytes.
        164 => cuCtxSetLimit(limit: c_uint, value: usize) {
            asked: "cuCtxSetLimit" since 3010 Legacy, kind: Limit, record: after,
            address: none, size: arg(value), a: arg(limit), b: none, device: current,
        }
        /// Maps a peer device's allocations.
        165 => cuCtxEnablePeerAccess(peerContext: CUcontext, Flags: c_uint) {
            asked: "cuCtxEnablePeerAccess" since 4000 Legacy, kind: Peer, record: after,
            address: arg(peerContext), size: none, a: arg(Flags), b: none, device: current,
        }
        /// Unmaps a peer device's allocations.
        166 => cuCtxDisablePeerAccess(peerContext: CUcontext) {
            asked: "cuCtxDisablePeerAccess" since 4000 Legacy, kind: Peer, record: after,
            address: arg(peerContext), size: none, a: none, b: none, device: current,
        }
        /// Loads a module from a file.
        167 => cuModuleLoad(module: *mut CUmodule, fname: *const Text) {
            asked: "cuModuleLoad" since 2000 Legacy, kind: Alloc(Module), record: after,
            address: out(module), size: none, a: none, b: none, device: current,
        }
        /// Loads a module from memory.
        168 => cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
            asked: "cuModuleLoadData" since 2000 Legacy, kind: Alloc(Module), record: after,
            address: out(module), size: none, a: arg(image), b: none, device: current,
        }
        /// Loads a module from memory, with options.
        169 => cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, numOptions: c_uint, options: *mut Opaque, optionValues: *mut *mut c_void) {
            asked: "cuModuleLoadDataEx" since 2010 Legacy, kind: Alloc(Module), record: after,
            address: out(module), size: none, a: arg(image), b: arg(numOptions), device: current,
        }
        /// Loads a module from a fat binary.
        170 => cuModuleLoadFatBinary(module: *mut CUmodule, fatCubin: *const c_void) {
            asked: "cuModuleLoadFatBinary" since 2000 Legacy, kind: Alloc(Module), record: after,
            address: out(module), size: none, a: arg(fatCubin), b: none, device: current,
        }
        /// Unloads a module with its code and globals.
        171 => cuModuleUnload(hmod: CUmodule) {
            asked: "cuModuleUnload" since 2000 Legacy, kind: Free(Module), record: before,
            address: arg(hmod), size: none, a: none, b: none, device: owner,
        }
        /// Loads a library from memory, for every context.
        172 => cuLibraryLoadData(library: *mut CUlibrary, code: *const c_void, jitOptions: *mut Opaque, jitOptionsValues: *mut *mut c_void, numJitOptions: c_uint, libraryOptions: *mut Opaque, libraryOptionValues: *mut *mut c_void, numLibraryOptions: c_uint) {
            asked: "cuLibraryLoadData" since 12000 Legacy, kind: Alloc(Library), record: after,
            address: out(library), size: none, a: arg(code), b: none, device: none,
        }
        /// Loads a library from a file, for every context.
        173 => cuLibraryLoadFromFile(library: *mut CUlibrary, fileName: *const Text, jitOptions: *mut Opaque, jitOptionsValues: *mut *mut c_void, numJitOptions: c_uint, libraryOptions: *mut Opaque, libraryOptionValues: *mut *mut c_void, numLibraryOptions: c_uint) {
            asked: "cuLibraryLoadFromFile" since 12000 Legacy, kind: Alloc(Library), record: after,
            address: out(library), size: none, a: none, b: none, device: none,
        }
        /// Unloads a library from every context.
        174 => cuLibraryUnload(library: CUlibrary) {
            asked: "cuLibraryUnload" since 12000 Legacy, kind: Free(Library), record: before,
            address: arg(library), size: none, a: none, b: none, device: none,
        }
        /// Where a module's variable is and how large, 32-bit ABI.
        175 => cuModuleGetGlobal(dptr: *mut CUdeviceptr_v1, bytes: *mut c_uint, hmod: CUmodule, name: *const Text) {
            asked: "cuModuleGetGlobal" since 2000 Legacy, kind: Global, record: answer,
            address: out(dptr), size: out(bytes), a: arg(hmod), b: none, device: current,
        }
        /// Where a module's variable is and how large.
        176 => cuModuleGetGlobal_v2(dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, name: *const Text) {
            asked: "cuModuleGetGlobal" since 3020 Legacy, kind: Global, record: answer,
            address: out(dptr), size: out(bytes), a: arg(hmod), b: none, device: current,
        }
        /// Where a library's variable is and how large.
        177 => cuLibraryGetGlobal(dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const Text) {
            asked: "cuLibraryGetGlobal" since 12000 Legacy, kind: Global, record: answer,
            address: out(dptr), size: out(bytes), a: arg(library), b: none, device: current,
        }
        /// Where a library's managed variable is and how large.
        178 => cuLibraryGetManaged(dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const Text) {
            asked: "cuLibraryGetManaged" since 12000 Legacy, kind: Global, record: answer,
            address: out(dptr), size: out(bytes), a: arg(library), b: none, device: none,
        }
        /// A module's kernel: the size is a thread's local memory, bytes, where it is loaded.
        179 => cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, name: *const Text) {
            asked: "cuModuleGetFunction" since 2000 Legacy, kind: Function, record: answer,
            address: out(hfunc), size: local(hfunc), a: arg(hmod), b: none, device: current,
        }
        /// A library's kernel in the current context.
        180 => cuKernelGetFunction(pFunc: *mut CUfunction, kernel: CUkernel) {
            asked: "cuKernelGetFunction" since 12000 Legacy, kind: Function, record: answer,
            address: out(pFunc), size: local(pFunc), a: arg(kernel), b: none, device: current,
        }
        /// Loads a kernel now.
        181 => cuFuncLoad(function: CUfunction) {
            asked: "cuFuncLoad" since 12040 Legacy, kind: Function, record: answer,
            address: arg(function), size: local_of(function), a: none, b: none, device: current,
        }
        /// A stream.
        182 => cuStreamCreate(phStream: *mut CUstream, Flags: c_uint) {
            asked: "cuStreamCreate" since 2000 Legacy, kind: Alloc(Stream), record: after,
            address: out(phStream), size: none, a: arg(Flags), b: none, device: current,
        }
        /// A stream with a priority.
        183 => cuStreamCreateWithPriority(phStream: *mut CUstream, flags: c_uint, priority: c_int) {
            asked: "cuStreamCreateWithPriority" since 5050 Legacy, kind: Alloc(Stream), record: after,
            address: out(phStream), size: none, a: arg(flags), b: none, device: current,
        }
        /// Ends a stream, before CUDA 4.0.
        184 => cuStreamDestroy(hStream: CUstream) {
            asked: "cuStreamDestroy" since 2000 Legacy, kind: Free(Stream), record: before,
            address: arg(hStream), size: none, a: none, b: none, device: owner,
        }
        /// Ends a stream.
        185 => cuStreamDestroy_v2(hStream: CUstream) {
            asked: "cuStreamDestroy" since 4000 Legacy, kind: Free(Stream), record: before,
            address: arg(hStream), size: none, a: none, b: none, device: owner,
        }
        /// An event.
        186 => cuEventCreate(phEvent: *mut CUevent, Flags: c_uint) {
            asked: "cuEventCreate" since 2000 Legacy, kind: Alloc(Event), record: after,
            address: out(phEvent), size: none, a: arg(Flags), b: none, device: current,
        }
        /// Ends an event, before CUDA 4.0.
        187 => cuEventDestroy(hEvent: CUevent) {
            asked: "cuEventDestroy" since 2000 Legacy, kind: Free(Event), record: before,
            address: arg(hEvent), size: none, a: none, b: none, device: owner,
        }
        /// Ends an event.
        188 => cuEventDestroy_v2(hEvent: CUevent) {
            asked: "cuEventDestroy" since 4000 Legacy, kind: Free(Event), record: before,
            address: arg(hEvent), size: none, a: none, b: none, device: owner,
        }
        /// A texture object: `a` is the kind of resource, `b` the array or address.
        189 => cuTexObjectCreate(pTexObject: *mut u64, pResDesc: *const Opaque, pTexDesc: *const Opaque, pResViewDesc: *const Opaque) {
            asked: "cuTexObjectCreate" since 5000 Legacy, kind: Alloc(Texture), record: after,
            address: out(pTexObject), size: none, a: field32(pResDesc, 0), b: field(pResDesc, 8), device: current,
        }
        /// Ends a texture object.
        190 => cuTexObjectDestroy(texObject: u64) {
            asked: "cuTexObjectDestroy" since 5000 Legacy, kind: Free(Texture), record: before,
            address: arg(texObject), size: none, a: none, b: none, device: owner,
        }
        /// A surface object.
        191 => cuSurfObjectCreate(pSurfObject: *mut u64, pResDesc: *const Opaque) {
            asked: "cuSurfObjectCreate" since 5000 Legacy, kind: Alloc(Surface), record: after,
            address: out(pSurfObject), size: none, a: field32(pResDesc, 0), b: field(pResDesc, 8), device: current,
        }
        /// Ends a surface object.
        192 => cuSurfObjectDestroy(surfObject: u64) {
            asked: "cuSurfObjectDestroy" since 5000 Legacy, kind: Free(Surface), record: before,
            address: arg(surfObject), size: none, a: none, b: none, device: owner,
        }
        /// Registers an OpenGL buffer.
        193 => cuGraphicsGLRegisterBuffer(pCudaResource: *mut CUgraphicsResource, buffer: c_uint, Flags: c_uint) {
            asked: "cuGraphicsGLRegisterBuffer" since 3000 Legacy, kind: Alloc(GraphicsResource), record: after,
            address: out(pCudaResource), size: none, a: arg(buffer), b: none, device: current,
        }
        /// Registers an OpenGL image.
        194 => cuGraphicsGLRegisterImage(pCudaResource: *mut CUgraphicsResource, image: c_uint, target: c_uint, Flags: c_uint) {
            asked: "cuGraphicsGLRegisterImage" since 3000 Legacy, kind: Alloc(GraphicsResource), record: after,
            address: out(pCudaResource), size: none, a: arg(image), b: none, device: current,
        }
        /// Registers an EGL image.
        195 => cuGraphicsEGLRegisterImage(pCudaResource: *mut CUgraphicsResource, image: *mut c_void, flags: c_uint) {
            asked: "cuGraphicsEGLRegisterImage" since 7000 Legacy, kind: Alloc(GraphicsResource), record: after,
            address: out(pCudaResource), size: none, a: arg(image), b: none, device: current,
        }
        /// Registers a VDPAU video surface.
        196 => cuGraphicsVDPAURegisterVideoSurface(pCudaResource: *mut CUgraphicsResource, vdpSurface: c_uint, flags: c_uint) {
            asked: "cuGraphicsVDPAURegisterVideoSurface" since 3010 Legacy, kind: Alloc(GraphicsResource), record: after,
            address: out(pCudaResource), size: none, a: arg(vdpSurface), b: none, device: current,
        }
        /// Registers a VDPAU output surface.
        197 => cuGraphicsVDPAURegisterOutputSurface(pCudaResource: *mut CUgraphicsResource, vdpSurface: c_uint, flags: c_uint) {
            asked: "cuGraphicsVDPAURegisterOutputSurface" since 3010 Legacy, kind: Alloc(GraphicsResource), record: after,
            address: out(pCudaResource), size: none, a: arg(vdpSurface), b: none, device: current,
        }
        /// Unregisters a graphics resource.
        198 => cuGraphicsUnregisterResource(resource: CUgraphicsResource) {
            asked: "cuGraphicsUnregisterResource" since 3000 Legacy, kind: Free(GraphicsResource), record: before,
            address: arg(resource), size: none, a: none, b: none, device: owner,
        }
        /// Registers an OpenGL buffer by its name (deprecated).
        199 => cuGLRegisterBufferObject(buffer: c_uint) {
            asked: "cuGLRegisterBufferObject" since 2000 Legacy, kind: Alloc(GraphicsResource), record: after,
            address: arg(buffer), size: none, a: none, b: none, device: current,
        }
        /// Unregisters an OpenGL buffer (deprecated).
        200 => cuGLUnregisterBufferObject(buffer: c_uint) {
            asked: "cuGLUnregisterBufferObject" since 2000 Legacy, kind: Free(GraphicsResource), record: before,
            address: arg(buffer), size: none, a: none, b: none, device: owner,
        }
        /// Maps graphics resources for CUDA.
        201 => cuGraphicsMapResources(count: c_uint, resources: *mut CUgraphicsResource, hStream: CUstream) {
            asked: "cuGraphicsMapResources" since 3000 Legacy, kind: Interop, record: after,
            address: first(resources, count), size: none, a: none, b: arg(count), device: current,
        }
        /// `cuGraphicsMapResources` for per-thread default streams.
        202 => cuGraphicsMapResources_ptsz(count: c_uint, resources: *mut CUgraphicsResource, hStream: CUstream) {
            asked: "cuGraphicsMapResources" since 7000 PerThread, kind: Interop, record: after,
            address: first(resources, count), size: none, a: none, b: arg(count), device: current,
        }
        /// Gives graphics resources back to their interface.
        203 => cuGraphicsUnmapResources(count: c_uint, resources: *mut CUgraphicsResource, hStream: CUstream) {
            asked: "cuGraphicsUnmapResources" since 3000 Legacy, kind: Interop, record: after,
            address: first(resources, count), size: none, a: none, b: arg(count), device: current,
        }
        /// `cuGraphicsUnmapResources` for per-thread default streams.
        204 => cuGraphicsUnmapResources_ptsz(count: c_uint, resources: *mut CUgraphicsResource, hStream: CUstream) {
            asked: "cuGraphicsUnmapResources" since 7000 PerThread, kind: Interop, record: after,
            address: first(resources, count), size: none, a: none, b: arg(count), device: current,
        }
        /// Where a mapped resource is and how large, 32-bit ABI.
        205 => cuGraphicsResourceGetMappedPointer(pDevPtr: *mut CUdeviceptr_v1, pSize: *mut c_uint, resource: CUgraphicsResource) {
            asked: "cuGraphicsResourceGetMappedPointer" since 3000 Legacy, kind: Interop, record: answer,
            address: out(pDevPtr), size: out(pSize), a: arg(resource), b: none, device: current,
        }
        /// Where a mapped resource is and how large.
        206 => cuGraphicsResourceGetMappedPointer_v2(pDevPtr: *mut CUdeviceptr, pSize: *mut usize, resource: CUgraphicsResource) {
            asked: "cuGraphicsResourceGetMappedPointer" since 3020 Legacy, kind: Interop, record: answer,
            address: out(pDevPtr), size: out(pSize), a: arg(resource), b: none, device: current,
        }
        /// Stops a process's CUDA calls.
        207 => cuCheckpointProcessLock(pid: c_int, args: *mut Opaque) {
            asked: "cuCheckpointProcessLock" since 12080 Legacy, kind: Checkpoint, record: after,
            address: none, size: none, a: arg(pid), b: none, device: none,
        }
        /// Moves a process's device memory to the host: it holds none until it is restored.
        208 => cuCheckpointProcessCheckpoint(pid: c_int, args: *mut Opaque) {
            asked: "cuCheckpointProcessCheckpoint" since 12080 Legacy, kind: Checkpoint, record: after,
            address: none, size: none, a: arg(pid), b: none, device: none,
        }
        /// Gives a process its device memory back, maybe on other devices.
        209 => cuCheckpointProcessRestore(pid: c_int, args: *mut Opaque) {
            asked: "cuCheckpointProcessRestore" since 12080 Legacy, kind: Checkpoint, record: after,
            address: none, size: none, a: arg(pid), b: none, device: none,
        }
        /// Lets a process's CUDA calls go on.
        210 => cuCheckpointProcessUnlock(pid: c_int, args: *mut Opaque) {
            asked: "cuCheckpointProcessUnlock" since 12080 Legacy, kind: Checkpoint, record: after,
            address: none, size: none, a: arg(pid), b: none, device: none,
        }
        /// Asks whether a process is checkpointed.
        211 => cuCheckpointProcessGetState(pid: c_int, state: *mut Opaque) {
            asked: "cuCheckpointProcessGetState" since 12080 Legacy, kind: Checkpoint, record: answer,
            address: none, size: none, a: arg(pid), b: none, device: none,
        }
        /// Asks which thread restores a process.
        212 => cuCheckpointProcessGetRestoreThreadId(pid: c_int, tid: *mut c_int) {
            asked: "cuCheckpointProcessGetRestoreThreadId" since 12080 Legacy, kind: Checkpoint, record: answer,
            address: none, size: none, a: arg(pid), b: none, device: none,
        }
        /// Ends a checkpoint into storage of the caller's own.
        213 => cuCheckpointOperationComplete(handle: CUcheckpointOperationHandle) {
            asked: "cuCheckpointOperationComplete" since 13040 Legacy, kind: Checkpoint, record: after,
            address: none, size: none, a: none, b: arg(handle), device: none,
        }
        /// Free and total memory of the device, as the driver answered, 32-bit ABI.
        214 => cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) {
            asked: "cuMemGetInfo" since 2000 Legacy, kind: DeviceAnswer, record: answer,
            address: none, size: none, a: out(free), b: out(total), device: current,
        }
        /// Free and total memory of the device, as the driver answered.
        215 => cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
            asked: "cuMemGetInfo" since 3020 Legacy, kind: DeviceAnswer, record: answer,
            address: none, size: none, a: out(free), b: out(total), device: current,
        }
        /// Waits for a context; idle pool memory may go back to the device.
        216 => cuCtxSynchronize() {
            asked: "cuCtxSynchronize" since 2000 Legacy, kind: Sync, record: sync,
            address: none, size: none, a: none, b: none, device: current,
        }
        /// Waits for a context; idle pool memory may go back to the device.
        217 => cuCtxSynchronize_v2(ctx: CUcontext) {
            asked: "cuCtxSynchronize" since 13000 Legacy, kind: Sync, record: sync,
            address: none, size: none, a: none, b: none, device: current,
        }
        /// Waits for a stream; idle pool memory may go back to the device.
        218 => cuStreamSynchronize(hStream: CUstream) {
            asked: "cuStreamSynchronize" since 2000 Legacy, kind: Sync, record: sync,
            address: none, size: none, a: none, b: none, device: current,
        }
        /// `cuStreamSynchronize` for per-thread default streams.
        219 => cuStreamSynchronize_ptsz(hStream: CUstream) {
            asked: "cuStreamSynchronize" since 7000 PerThread, kind: Sync, record: sync,
            address: none, size: none, a: none, b: none, device: current,
        }
        /// Waits for an event; idle pool memory may go back to the device.
        220 => cuEventSynchronize(hEvent: CUevent) {
            asked: "cuEventSynchronize" since 2000 Legacy, kind: Sync, record: sync,
            address: none, size: none, a: none, b: none, device: current,
        }
    } };
}
