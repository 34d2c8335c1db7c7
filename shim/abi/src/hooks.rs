//! The table of hooked driver calls.
//!
//! [`for_each_hook!`](crate::for_each_hook) hands every row to a macro of the caller's. A row reads
//!
//! ```text
//! id => exported symbol(signature) {
//!     asked: name that callers hand to cuGetProcAddress, since first CUDA version, default-stream flavour,
//!     kind: what the call does, record: when it is recorded,
//!     address: …, size: …, a: …, b: …, device: …,
//! }
//! ```
//!
//! `id` is on disk and is never reused. The values of a row come from a closed vocabulary, so that
//! the table stays free of code and each word is written once per consumer:
//!
//! | word | value | read |
//! |---|---|---|
//! | `none` | 0 | – |
//! | `arg(x)` | the argument itself | before the call |
//! | `field(x, n)` | 8 bytes at offset `n` of the struct that `x` points to, 0 when it is null | before the call: the caller may reuse the struct |
//! | `out(p)` | `*p`, 0 when the call failed or `p` is null | after success |
//! | `pitched(p, rows)` | `*p * rows` | after success |
//!
//! Words for the device: `current` (of the calling thread's context), `arg(dev)`, `location(prop)`
//! (a `CUmemAllocationProp`), `owner` (only the reader can tell, from the address), `none`.
//!
//! Words for `record`: `init` (opens the capture), `after` (the call gives something: recorded once the
//! driver gave it), `before` (the call takes something back: recorded before the driver does, and taken
//! back by a second record if the driver refuses, since another thread may be handed the same address at
//! once), `switch` (recorded when it changes what the thread last made current), `door` (hands out driver
//! entry points; written by hand in `shim/src/doors.rs`).
//!
//! Signatures follow NVIDIA's `cuda.h`, with its parameter names, so that they can be searched there.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// Driver status; 0 is `CUDA_SUCCESS`.
pub type CUresult = c_int;
/// Device address.
pub type CUdeviceptr = u64;
#[allow(non_camel_case_types, reason = "NVIDIA's own name")]
/// Device address of the 32-bit ABI before CUDA 3.2; writes through it are four bytes wide.
pub type CUdeviceptr_v1 = c_uint;
/// Device ordinal in this process.
pub type CUdevice = c_int;
/// Context handle.
pub type CUcontext = *mut c_void;
/// Stream handle.
pub type CUstream = *mut c_void;
/// Memory pool handle.
pub type CUmemoryPool = *mut c_void;
/// Handle of physical memory made by `cuMemCreate`.
pub type CUmemGenericAllocationHandle = u64;
/// `CUmemAllocationProp`, `CUctxCreateParams` and their like are only passed on, or read by offset.
pub type Opaque = c_void;
/// Text handed to the driver.
pub type Text = c_char;

/// `CUDA_SUCCESS`.
pub const CUDA_SUCCESS: CUresult = 0;
/// `CUDA_ERROR_NOT_SUPPORTED`: what the shim answers for a symbol that the real driver lacks.
pub const CUDA_ERROR_NOT_SUPPORTED: CUresult = 801;

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
            asked: "cuMemAlloc" since 2000 Legacy, kind: Alloc(Device), record: after,
            address: out(dptr), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Linear device memory in the current context.
        3 => cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) {
            asked: "cuMemAlloc" since 3020 Legacy, kind: Alloc(Device), record: after,
            address: out(dptr), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Rows padded to the device's pitch, 32-bit ABI.
        4 => cuMemAllocPitch(dptr: *mut CUdeviceptr_v1, pPitch: *mut c_uint, WidthInBytes: c_uint, Height: c_uint, ElementSizeBytes: c_uint) {
            asked: "cuMemAllocPitch" since 2000 Legacy, kind: Alloc(Device), record: after,
            address: out(dptr), size: pitched(pPitch, Height), a: arg(WidthInBytes), b: arg(Height), device: current,
        }
        /// Rows padded to the device's pitch.
        5 => cuMemAllocPitch_v2(dptr: *mut CUdeviceptr, pPitch: *mut usize, WidthInBytes: usize, Height: usize, ElementSizeBytes: c_uint) {
            asked: "cuMemAllocPitch" since 3020 Legacy, kind: Alloc(Device), record: after,
            address: out(dptr), size: pitched(pPitch, Height), a: arg(WidthInBytes), b: arg(Height), device: current,
        }
        /// Frees any device address that an allocation returned, 32-bit ABI.
        6 => cuMemFree(dptr: CUdeviceptr_v1) {
            asked: "cuMemFree" since 2000 Legacy, kind: Free(Device), record: before,
            address: arg(dptr), size: none, a: none, b: none, device: owner,
        }
        /// Frees any device address that an allocation returned: linear, pitched, managed or from a pool.
        7 => cuMemFree_v2(dptr: CUdeviceptr) {
            asked: "cuMemFree" since 3020 Legacy, kind: Free(Device), record: before,
            address: arg(dptr), size: none, a: none, b: none, device: owner,
        }
        /// Managed memory: pages move between host and devices on use.
        8 => cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) {
            asked: "cuMemAllocManaged" since 6000 Legacy, kind: Alloc(Managed), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(flags), b: none, device: current,
        }
        /// Page-locked host memory, 32-bit size.
        9 => cuMemAllocHost(pp: *mut *mut c_void, bytesize: c_uint) {
            asked: "cuMemAllocHost" since 2000 Legacy, kind: Alloc(Host), record: after,
            address: out(pp), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Page-locked host memory.
        10 => cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) {
            asked: "cuMemAllocHost" since 3020 Legacy, kind: Alloc(Host), record: after,
            address: out(pp), size: arg(bytesize), a: none, b: none, device: current,
        }
        /// Page-locked host memory with flags; what `cudaMallocHost` and `cudaHostAlloc` end in.
        11 => cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: c_uint) {
            asked: "cuMemHostAlloc" since 2020 Legacy, kind: Alloc(Host), record: after,
            address: out(pp), size: arg(bytesize), a: arg(Flags), b: none, device: current,
        }
        /// Frees page-locked host memory.
        12 => cuMemFreeHost(p: *mut c_void) {
            asked: "cuMemFreeHost" since 2000 Legacy, kind: Free(Host), record: before,
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
            asked: "cuMemAllocAsync" since 11020 Legacy, kind: Alloc(Pool), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: none, device: current,
        }
        /// `cuMemAllocAsync` for per-thread default streams.
        17 => cuMemAllocAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) {
            asked: "cuMemAllocAsync" since 11020 PerThread, kind: Alloc(Pool), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: none, device: current,
        }
        /// Stream-ordered memory from a chosen pool.
        18 => cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
            asked: "cuMemAllocFromPoolAsync" since 11020 Legacy, kind: Alloc(Pool), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: arg(pool), device: current,
        }
        /// `cuMemAllocFromPoolAsync` for per-thread default streams.
        19 => cuMemAllocFromPoolAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
            asked: "cuMemAllocFromPoolAsync" since 11020 PerThread, kind: Alloc(Pool), record: after,
            address: out(dptr), size: arg(bytesize), a: arg(hStream), b: arg(pool), device: current,
        }
        /// Returns stream-ordered memory to its pool.
        20 => cuMemFreeAsync(dptr: CUdeviceptr, hStream: CUstream) {
            asked: "cuMemFreeAsync" since 11020 Legacy, kind: Free(Device), record: before,
            address: arg(dptr), size: none, a: arg(hStream), b: none, device: owner,
        }
        /// `cuMemFreeAsync` for per-thread default streams.
        21 => cuMemFreeAsync_ptsz(dptr: CUdeviceptr, hStream: CUstream) {
            asked: "cuMemFreeAsync" since 11020 PerThread, kind: Free(Device), record: before,
            address: arg(dptr), size: none, a: arg(hStream), b: none, device: owner,
        }
        /// Reserves virtual addresses; no memory.
        22 => cuMemAddressReserve(ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: u64) {
            asked: "cuMemAddressReserve" since 10020 Legacy, kind: Alloc(Virtual), record: after,
            address: out(ptr), size: arg(size), a: arg(alignment), b: arg(addr), device: none,
        }
        /// Gives reserved virtual addresses back.
        23 => cuMemAddressFree(ptr: CUdeviceptr, size: usize) {
            asked: "cuMemAddressFree" since 10020 Legacy, kind: Free(Virtual), record: before,
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
    } };
}

/// Where the bytes of an allocation live. Spaces are never summed with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Linear memory of a context (`cuMemAlloc`, `cuMemAllocPitch`).
    Device,
    /// Physical memory behind a handle (`cuMemCreate`).
    Physical,
    /// Stream-ordered memory handed out by a pool; the pool, not the block, is what the driver charges.
    Pool,
    /// Managed memory; where its pages are is not visible through the API.
    Managed,
    /// Page-locked host memory.
    Host,
    /// Host memory of the program's own, page-locked by registration.
    Registered,
    /// Reserved virtual addresses; no memory at all.
    Virtual,
}

/// What a hooked call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Initialises the driver.
    Init,
    /// Something comes into being.
    Alloc(Space),
    /// Something goes away. [`Space::Device`] stands for any space with device addresses.
    Free(Space),
    /// A handle is mapped into reserved addresses.
    Map,
    /// Mappings are taken out of reserved addresses.
    Unmap,
    /// A reference to a primary context is taken.
    PrimaryRetain,
    /// A reference to a primary context is dropped.
    PrimaryRelease,
    /// A primary context is destroyed whatever its references.
    PrimaryReset,
    /// A context is created and made current.
    ContextCreate,
    /// A context is destroyed.
    ContextDestroy,
    /// A usage reference to a context is taken.
    ContextAttach,
    /// A usage reference to a context is dropped.
    ContextDetach,
    /// The calling thread's current context changes.
    ContextSwitch,
    /// Driver entry points are handed out; such calls leave notes, not records.
    Door,
}

/// When a call is recorded; see the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Opens the capture, then recorded like [`When::After`].
    Init,
    /// Once the driver gave what was asked for, or refused.
    After,
    /// Before the driver takes something back; a refusal adds a second record.
    Before,
    /// After the call, when the thread's current context changed.
    Switch,
    /// Never: a door.
    Door,
}

/// Which default stream a symbol serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// The process-wide default stream.
    Legacy,
    /// The `_ptsz` and `_ptds` twins.
    PerThread,
}

/// One row, as data.
#[derive(Debug)]
pub struct Hook {
    /// On-disk id.
    pub id: HookId,
    /// Exported name.
    pub symbol: &'static str,
    /// Name that callers hand to `cuGetProcAddress`.
    pub asked: &'static str,
    /// First CUDA version (1000 × major + 10 × minor) for which the driver answers with `symbol`.
    pub since: i32,
    /// Default stream served.
    pub flavor: Flavor,
    /// What the call does.
    pub kind: Kind,
    /// When it is recorded.
    pub when: When,
    /// Names of the arguments, in order.
    pub arguments: &'static [&'static str],
    /// First line of its documentation.
    pub doc: &'static str,
}

macro_rules! when {
    (init) => {
        When::Init
    };
    (after) => {
        When::After
    };
    (before) => {
        When::Before
    };
    (switch) => {
        When::Switch
    };
    (door) => {
        When::Door
    };
}

macro_rules! describe {
    ($( #[doc = $doc:literal] $id:literal => $sym:ident ($($arg:ident: $ty:ty),*) {
        asked: $asked:literal since $since:literal $flavor:ident,
        kind: $kind:ident $(($space:ident))?, record: $when:ident, $($rest:tt)*
    } )*) => {
        /// On-disk identity of a hooked call; values are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(non_camel_case_types, reason = "variants carry the driver's own names")]
        pub enum HookId { $( #[doc = $doc] $sym = $id ),* }

        impl HookId {
            /// Reads an id from a capture; `None` for one that a later shim wrote.
            pub const fn from_raw(raw: u16) -> Option<Self> {
                match raw { $( $id => Some(Self::$sym), )* _ => None }
            }
        }

        /// Every row, in id order.
        pub const HOOKS: &[Hook] = &[ $( Hook {
            id: HookId::$sym, symbol: stringify!($sym), asked: $asked, since: $since,
            flavor: Flavor::$flavor, kind: Kind::$kind $((Space::$space))?, when: when!($when),
            arguments: &[$(stringify!($arg)),*], doc: $doc,
        } ),* ];
    };
}

for_each_hook!(describe);

impl HookId {
    /// The row of this call.
    pub const fn hook(self) -> &'static Hook {
        &HOOKS[self.index()]
    }

    /// Position in [`HOOKS`], from 0.
    pub const fn index(self) -> usize {
        self as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gap or a swap would make every older capture lie about which call it recorded.
    #[test]
    fn ids_are_dense_and_in_order() {
        for (i, hook) in HOOKS.iter().enumerate() {
            assert_eq!(hook.id as usize, i + 1, "{}", hook.symbol);
            assert_eq!(HookId::from_raw(hook.id as u16), Some(hook.id));
        }
        assert_eq!(HookId::from_raw(0), None);
        assert_eq!(HookId::from_raw(HOOKS.len() as u16 + 1), None);
    }

    /// Whatever is given back is recorded before the driver takes it: afterwards another thread
    /// may already own the address.
    #[test]
    fn everything_that_ends_something_is_recorded_before() {
        for hook in HOOKS {
            let ends = matches!(
                hook.kind,
                Kind::Free(_)
                    | Kind::Unmap
                    | Kind::PrimaryRelease
                    | Kind::PrimaryReset
                    | Kind::ContextDestroy
                    | Kind::ContextDetach
            );
            assert_eq!(ends, hook.when == When::Before, "{}", hook.symbol);
        }
    }
}
