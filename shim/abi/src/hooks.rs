//! The table of hooked driver calls, as data.
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
//! the table stays free of code and each word is written once per consumer. Read before the call, since the caller may
//! reuse what it points to:
//!
//! | word | value |
//! |---|---|
//! | `none` | 0 |
//! | `arg(x)` | the argument itself |
//! | `field(x, n)`, `field32(x, n)` | 8 or 4 bytes at offset `n` of the struct that `x` points to, 0 when it is null |
//! | `destination(dev)` | a device, or -1 for the host, as a location |
//! | `first(list, n)`, `sum(list, n)` | the first of `n` words, all of them added up |
//! | `extent(desc, s)`, `texel(desc, s)` | width and height; depth, format, channels and flags of an array descriptor of shape `s`, see [`ArrayShape`](crate::effect::ArrayShape) |
//! | `digest(x)` | [`digest`](crate::effect::digest) of 64 bytes, by value or behind a pointer |
//! | `foreign(h, type)` | a shareable handle that is handed in: the descriptor, or the digest of a fabric handle |
//! | `setting(attr, p)` | a pool attribute that is set: 4 or 8 bytes |
//! | `node_size(p)` | bytes of an allocating node's parameters |
//! | `capture_now(s)` | id of the capture that stream `s` is in |
//!
//! Read after success:
//!
//! | word | value |
//! |---|---|
//! | `out(p)` | `*p`, 0 when the call failed or `p` is null |
//! | `pitched(p, rows)` | `*p * rows` |
//! | `later(x, n)` | 8 bytes at offset `n` of the struct that `x` points to |
//! | `node_address(p)` | of a node's parameters: the address that it allocates or frees, or the graph that it holds |
//! | `reading(attr, p)`, `reading64(p)` | what was answered: 4 or 8 bytes |
//! | `digest_out(p)` | digest of the 64 bytes that the driver wrote |
//! | `shareable(p, type)` | what was handed out: the descriptor, or the digest of a fabric handle |
//! | `range(p)` | size of the allocation at `*p`, as the driver says |
//! | `properties(p)` | location of the physical memory `*p`, as the driver says |
//! | `local(p)`, `local_of(x)` | a kernel's local memory, bytes, as the driver says where it is loaded |
//! | `capture(s)` | id of the capture that stream `s` is in now |
//!
//! Words for the device: `current` (of the calling thread's context), `arg(dev)`, `location(prop)` (type and id at offset 8 of
//! a struct), `place(loc)` (a `CUmemLocation`), `node(p)` (of an allocating node), `owner` (only the reader can tell, from the
//! address), `none`.
//!
//! Words for `record` are explained at [`When`].

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
/// Handle of physical memory made by `cuMemCreate`.
pub type CUmemGenericAllocationHandle = u64;
/// A type and an id, 32 bits each: a struct of eight bytes, which travels by value in one register.
pub type CUmemLocation = u64;
/// Structs of the driver's are only passed on, or read by offset.
pub type Opaque = c_void;
/// Text handed to the driver.
pub type Text = c_char;

/// `CUipcMemHandle` and `CUipcEventHandle`: 64 bytes that travel by value, on the stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUipcMemHandle(pub [u8; 64]);

macro_rules! handles {
    ($($name:ident: $what:literal,)*) => { $( #[doc = $what] pub type $name = *mut c_void; )* };
}
handles! {
    CUcontext: "Context handle.",
    CUgreenCtx: "Green context handle.",
    CUdevResourceDesc: "Description of device resources.",
    CUstream: "Stream handle.",
    CUevent: "Event handle.",
    CUmemoryPool: "Memory pool handle.",
    CUarray: "Array handle.",
    CUmipmappedArray: "Mipmapped array handle.",
    CUexternalMemory: "Handle of another interface's memory.",
    CUexternalSemaphore: "Handle of another interface's semaphore.",
    CUgraph: "Graph handle.",
    CUgraphExec: "Executable graph handle.",
    CUgraphNode: "Graph node handle.",
    CUgraphicsResource: "Graphics resource handle.",
    CUmodule: "Module handle.",
    CUlibrary: "Library handle.",
    CUfunction: "Kernel handle in a context.",
    CUkernel: "Kernel handle of a library.",
    CUcheckpointOperationHandle: "Handle of a checkpoint under way.",
}

/// `CUDA_SUCCESS`.
pub const CUDA_SUCCESS: CUresult = 0;
/// `CUDA_ERROR_NOT_SUPPORTED`: what the shim answers for a symbol that the real driver lacks.
pub const CUDA_ERROR_NOT_SUPPORTED: CUresult = 801;

/// What a thing is. Bytes of different classes are never summed, but for those that a device is charged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Linear memory of a context (`cuMemAlloc`, `cuMemAllocPitch`).
    Linear,
    /// Physical memory behind a handle (`cuMemCreate`).
    Physical,
    /// Stream-ordered memory handed out by a pool; the pool, not the block, is what the driver charges.
    PoolBlock,
    /// Managed memory; where its pages are is not visible through the API.
    Managed,
    /// Page-locked host memory.
    Pinned,
    /// Host memory of the program's own, page-locked by registration.
    Registered,
    /// Reserved virtual addresses; no memory at all.
    Reserved,
    /// A CUDA array.
    Array,
    /// A CUDA array at several sizes.
    MipmappedArray,
    /// An address that a graph's node allocates at each launch; its memory is that of the device's graphs.
    GraphBlock,
    /// Another process's allocation, mapped here.
    IpcMapping,
    /// Memory of another interface.
    ExternalMemory,
    /// A part of external memory, mapped.
    ExternalBuffer,
    /// A multicast object; physical memory is bound to it, and it is given back like physical memory.
    Multicast,
    /// A logical endpoint.
    Endpoint,
    /// A stream-ordered pool.
    Pool,
    /// A graph.
    Graph,
    /// An executable graph.
    GraphExec,
    /// A module.
    Module,
    /// A library.
    Library,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A texture object.
    Texture,
    /// A surface object.
    Surface,
    /// A semaphore of another interface.
    ExternalSemaphore,
    /// A resource of a graphics interface.
    GraphicsResource,
    /// A green context.
    GreenContext,
}

/// What a hooked call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Initialises the driver.
    Init,
    /// Something comes into being.
    Alloc(Class),
    /// Something of another process or interface comes to be held here.
    Import(Class),
    /// Something goes away. [`Class::Linear`] stands for any class with device addresses.
    Free(Class),
    /// One more reference to physical memory, by a mapped address.
    Retain,
    /// Something is made visible to other processes.
    Export(Class),
    /// A handle is mapped into reserved addresses.
    Map,
    /// Mappings are taken out of reserved addresses.
    Unmap,
    /// Parts of sparse arrays are mapped and unmapped.
    Tiles,
    /// A location is let into a mapping or a pool.
    Access,
    /// Physical memory is bound to a multicast object or an endpoint, by its handle.
    Bind,
    /// The same, by an address at which it is mapped.
    BindAddress,
    /// Memory is unbound.
    Unbind,
    /// A device joins a multicast team or an endpoint.
    AddDevice,
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
    /// A green context is created; it holds the primary one.
    GreenCreate,
    /// A green context is destroyed.
    GreenDestroy,
    /// The context handle of a green context is handed out.
    GreenView,
    /// A limit of the current context is set.
    Limit,
    /// A peer's memory is mapped or unmapped.
    Peer,
    /// The program learns which pool a device or location has.
    PoolKnown,
    /// A pool becomes the one in use.
    PoolCurrent,
    /// A pool's policy is set.
    PoolSetting,
    /// A pool says something about itself.
    PoolAnswer,
    /// A pool gives idle memory back.
    PoolTrim,
    /// A node of any kind joins a graph.
    GraphNode,
    /// A node that frees joins a graph.
    GraphFree,
    /// A copy of a graph joins another one.
    GraphChild,
    /// An executable graph takes over another graph's parameters.
    GraphUpdate,
    /// An executable graph takes its memory.
    GraphUpload,
    /// An executable graph runs.
    GraphLaunch,
    /// A device's graphs give idle memory back.
    GraphTrim,
    /// A device says something about its graphs' memory.
    GraphAnswer,
    /// A stream begins to be captured.
    CaptureBegin,
    /// A stream's capture ends.
    CaptureEnd,
    /// A device says how much memory is free.
    DeviceAnswer,
    /// A kernel is looked up, or loaded.
    Function,
    /// A variable of a module is looked up.
    Global,
    /// Pages of managed memory are moved, dropped or advised about.
    Residency,
    /// Graphics resources are mapped or unmapped, or their address is asked for.
    Interop,
    /// A process is stopped, emptied or filled again.
    Checkpoint,
    /// A wait, after which pools may have given memory back.
    Sync,
    /// Driver entry points are handed out; such calls leave notes, not records.
    Door,
}

/// When a call is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// `init`: opens the capture, then recorded like [`When::After`].
    Init,
    /// `after`: once the driver gave what was asked for, or refused.
    After,
    /// `before`: before the driver takes something back; a refusal adds a second record, since another thread may be handed
    /// the same address at once.
    Before,
    /// `answer`: once the driver answered; a refusal says nothing and is not recorded.
    Answer,
    /// `switch`: after the call, when the thread's current context changed.
    Switch,
    /// `node`: after the call, when the node allocates, frees, or holds another graph.
    Node,
    /// `launch`: after the call, once the process has made a graph node that allocates.
    Launch,
    /// `capture_end`: after the call, whatever its result.
    CaptureEnd,
    /// `tiles`: after success, a record for each part.
    Tiles,
    /// `sync`: never; but what a pool answers afterwards may be.
    Sync,
    /// `door`: never.
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
    (answer) => {
        When::Answer
    };
    (switch) => {
        When::Switch
    };
    (node) => {
        When::Node
    };
    (launch) => {
        When::Launch
    };
    (capture_end) => {
        When::CaptureEnd
    };
    (tiles) => {
        When::Tiles
    };
    (sync) => {
        When::Sync
    };
    (door) => {
        When::Door
    };
}

macro_rules! describe {
    ($( #[doc = $doc:literal] $id:literal => $sym:ident ($($arg:ident: $ty:ty),*) {
        asked: $asked:literal since $since:literal $flavor:ident,
        kind: $kind:ident $(($class:ident))?, record: $when:ident, $($rest:tt)*
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

            /// What the call does.
            pub const fn kind(self) -> Kind {
                match self { $( Self::$sym => Kind::$kind $((Class::$class))?, )* }
            }
        }

        /// Every row, in id order.
        pub const HOOKS: &[Hook] = &[ $( Hook {
            id: HookId::$sym, symbol: stringify!($sym), asked: $asked, since: $since,
            flavor: Flavor::$flavor, kind: Kind::$kind $((Class::$class))?, when: when!($when),
            arguments: &[$(stringify!($arg)),*], doc: $doc,
        } ),* ];
    };
}

crate::for_each_hook!(describe);

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
                    | Kind::Unbind
                    | Kind::GreenDestroy
                    | Kind::PrimaryRelease
                    | Kind::PrimaryReset
                    | Kind::ContextDestroy
                    | Kind::ContextDetach
            );
            assert_eq!(ends, hook.when == When::Before, "{}", hook.symbol);
        }
    }
}
