//! What a record does to memory and to contexts.
//!
//! [`Record`] is a slot's bytes with names; [`Record::effect`] says what it means. Everything that follows from
//! an effect (which object dies with which context, what the driver charges) is the business of whoever
//! keeps the tables.

use crate::hooks::{CUDA_SUCCESS, Class, HookId, Kind};
use crate::layout::slot;

/// A committed slot, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Place in the process-wide order.
    pub sequence: u64,
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Row id of the call; unknown ids come from a later shim.
    pub call: u16,
    /// Driver's result, or [`slot::RESULT_PENDING`].
    pub result: u16,
    /// Address or handle.
    pub address: u64,
    /// Size, bytes.
    pub size: u64,
    /// First word of the call's own kind.
    pub a: u64,
    /// Second word of the call's own kind.
    pub b: u64,
    /// Thread id.
    pub thread: u32,
    /// Stack node.
    pub stack: u32,
    /// Context index, or [`slot::CONTEXT_NONE`].
    pub context: u16,
    /// Stream of PyTorch's: a number of the streams table, 0 none.
    pub stream: u16,
    /// Device ordinal, or [`slot::DEVICE_UNKNOWN`].
    pub device: u8,
    /// [`slot::REFUSED`], [`slot::NESTED`], [`slot::OBSERVED`], [`slot::CAPTURED`].
    pub flags: u8,
}

macro_rules! read {
    ($bytes:ident, $range:expr, $ty:ty) => {{
        const AT: usize = $range.start;
        let mut word = [0; size_of::<$ty>()];
        word.copy_from_slice(&$bytes[AT..AT + size_of::<$ty>()]);
        <$ty>::from_le_bytes(word)
    }};
}

/// The state word of a slot.
pub fn state(bytes: &[u8; slot::LEN]) -> u32 {
    read!(bytes, slot::STATE, u32)
}

impl Record {
    /// Decodes the payload of a slot; the caller has checked its state and knows its sequence number.
    pub fn decode(sequence: u64, bytes: &[u8; slot::LEN]) -> Self {
        Self {
            sequence,
            at_ns: read!(bytes, slot::TIME, u64),
            call: read!(bytes, slot::CALL, u16),
            result: read!(bytes, slot::RESULT, u16),
            address: read!(bytes, slot::ADDRESS, u64),
            size: read!(bytes, slot::SIZE, u64),
            a: read!(bytes, slot::A, u64),
            b: read!(bytes, slot::B, u64),
            thread: read!(bytes, slot::THREAD, u32),
            stack: read!(bytes, slot::STACK, u32),
            context: read!(bytes, slot::CONTEXT, u16),
            stream: read!(bytes, slot::STREAM, u16),
            device: bytes[slot::DEVICE.start],
            flags: bytes[slot::FLAGS.start],
        }
    }

    /// The bytes of the slot, as the shim stores them, with this state word.
    pub fn encode(&self, state: u32) -> [u8; slot::LEN] {
        let mut bytes = [0; slot::LEN];
        bytes[slot::STATE].copy_from_slice(&state.to_le_bytes());
        bytes[slot::CALL].copy_from_slice(&self.call.to_le_bytes());
        bytes[slot::RESULT].copy_from_slice(&self.result.to_le_bytes());
        bytes[slot::TIME].copy_from_slice(&self.at_ns.to_le_bytes());
        bytes[slot::ADDRESS].copy_from_slice(&self.address.to_le_bytes());
        bytes[slot::SIZE].copy_from_slice(&self.size.to_le_bytes());
        bytes[slot::A].copy_from_slice(&self.a.to_le_bytes());
        bytes[slot::B].copy_from_slice(&self.b.to_le_bytes());
        bytes[slot::THREAD].copy_from_slice(&self.thread.to_le_bytes());
        bytes[slot::STACK].copy_from_slice(&self.stack.to_le_bytes());
        bytes[slot::CONTEXT].copy_from_slice(&self.context.to_le_bytes());
        bytes[slot::STREAM].copy_from_slice(&self.stream.to_le_bytes());
        bytes[slot::DEVICE.start] = self.device;
        bytes[slot::FLAGS.start] = self.flags;
        bytes
    }

    /// The call, if this version knows it.
    pub fn hook(&self) -> Option<HookId> {
        HookId::from_raw(self.call)
    }

    /// Whether the record was made before the call, so that its result is not in it.
    pub fn is_pending(&self) -> bool {
        self.result == slot::RESULT_PENDING
    }

    /// Whether the driver refused what the record says.
    pub fn failed(&self) -> bool {
        !self.is_pending() && i32::from(self.result) != CUDA_SUCCESS
    }

    /// For a record that takes a pending one back: the sequence number of that one.
    pub fn takes_back(&self) -> Option<u64> {
        if self.flags & slot::REFUSED != 0 {
            self.a.checked_sub(1)
        } else {
            None
        }
    }

    /// The location that an argument word holds, where the call has one.
    fn place(&self, word: u64) -> Option<u8> {
        match Place::of(word) {
            Place::Device(device) => Some(device),
            _ => self.device(),
        }
    }

    /// Device ordinal, if the record has one.
    pub fn device(&self) -> Option<u8> {
        (self.device != slot::DEVICE_UNKNOWN).then_some(self.device)
    }

    /// Whether the recorder asked by itself.
    pub fn is_observation(&self) -> bool {
        self.flags & slot::OBSERVED != 0
    }

    /// What the record does. A pending record is taken at its word; the caller leaves out those that a later
    /// record takes back. Records made inside another hooked call do nothing: the outer call is the one
    /// that the program made.
    pub fn effect(&self) -> Effect {
        let Some(hook) = self.hook() else {
            return Effect::Unknown;
        };
        let kind = hook.kind();
        // A capture that ends badly ends all the same.
        let ended = kind == Kind::CaptureEnd && self.size != 0;
        if (self.failed() && !ended) || self.flags & (slot::NESTED | slot::REFUSED) != 0 {
            return Effect::Nothing;
        }
        let captured = self.flags & slot::CAPTURED != 0;
        let Self {
            address,
            a,
            b,
            device,
            ..
        } = *self;
        match kind {
            Kind::Alloc(Class::PoolBlock) if captured => Effect::Born(Class::GraphBlock),
            Kind::Alloc(class) => Effect::Born(class),
            Kind::Import(class) => Effect::Imported(class),
            // The driver frees nothing at address 0, and says success.
            Kind::Free(_) if address == 0 => Effect::Nothing,
            Kind::Free(Class::Linear) if captured => Effect::NodeFrees,
            Kind::Free(class) => Effect::Ended(class),
            Kind::Retain => Effect::Retained,
            Kind::Export(class) => Effect::Exported(class),
            Kind::Map => Effect::Mapped {
                handle: a,
                offset: b,
            },
            Kind::Unmap => Effect::Unmapped,
            Kind::Tiles => Effect::Tile { handle: a, part: b },
            Kind::Access => Effect::Granted { location: a },
            Kind::Bind => Effect::Bound { handle: a },
            Kind::BindAddress => Effect::BoundAt { address: a },
            Kind::Unbind => Effect::Unbound { offset: b },
            Kind::PrimaryRetain => Effect::PrimaryRetained { device },
            Kind::PrimaryRelease => Effect::PrimaryReleased { device },
            Kind::PrimaryReset => Effect::PrimaryReset { device },
            Kind::ContextCreate => Effect::ContextCreated { device },
            Kind::ContextDestroy => Effect::ContextDestroyed,
            Kind::ContextAttach => Effect::ContextAttached,
            Kind::ContextDetach => Effect::ContextDetached,
            Kind::GreenCreate => Effect::GreenCreated { device },
            Kind::GreenDestroy => Effect::GreenDestroyed,
            Kind::GreenView => Effect::GreenViewed { green: a },
            Kind::Limit => Effect::LimitSet {
                limit: a as u32,
                value: self.size,
            },
            Kind::PoolKnown => Effect::PoolKnown {
                device: self.place(b),
                is_default: matches!(
                    hook,
                    HookId::cuDeviceGetDefaultMemPool | HookId::cuMemGetDefaultMemPool
                ),
            },
            Kind::PoolCurrent => Effect::PoolChosen {
                device: self.place(b),
            },
            Kind::PoolSetting => Effect::PoolSet {
                attribute: a as u32,
                value: b,
            },
            Kind::PoolAnswer => Effect::PoolAnswered {
                attribute: a as u32,
                value: b,
            },
            Kind::PoolTrim => Effect::PoolTrimmed,
            Kind::GraphNode => match b as u32 {
                node::ALLOCATES => Effect::Born(Class::GraphBlock),
                node::FREES => Effect::NodeFrees,
                node::GRAPH => Effect::NodeHolds,
                _ => Effect::Nothing,
            },
            Kind::GraphFree => Effect::NodeFrees,
            Kind::GraphChild => Effect::NodeHolds,
            Kind::GraphUpdate => Effect::GraphUpdated { graph: a },
            Kind::GraphUpload => Effect::GraphUploaded,
            Kind::GraphLaunch => Effect::GraphLaunched,
            Kind::GraphTrim => Effect::GraphTrimmed { device },
            Kind::GraphAnswer => Effect::GraphAnswered {
                device,
                attribute: a as u32,
                value: b,
            },
            Kind::CaptureBegin => Effect::CaptureBegan { id: b, graph: a },
            Kind::CaptureEnd => Effect::CaptureEnded { id: b },
            Kind::DeviceAnswer => Effect::DeviceAnswered { free: a, total: b },
            Kind::Function => Effect::FunctionSeen,
            Kind::Global => Effect::GlobalSeen,
            Kind::Residency => Effect::Moved { location: a },
            Kind::Checkpoint => Effect::Checkpoint { process: a as u32 },
            Kind::Init
            | Kind::ContextSwitch
            | Kind::AddDevice
            | Kind::Peer
            | Kind::Interop
            | Kind::Sync
            | Kind::Door => Effect::Nothing,
        }
    }
}

/// What a record needs of `CUgraphNodeParams`, which has these offsets in every version that has it, and which kinds of nodes matter
/// (`CUgraphNodeType`).
pub mod node {
    /// Offset of the kind, four bytes.
    pub const TYPE: usize = 0;
    /// Offset of an allocating node's location.
    pub const ALLOC_LOCATION: usize = 24;
    /// Offset of its size.
    pub const ALLOC_SIZE: usize = 120;
    /// Offset of its address, which the driver writes.
    pub const ALLOC_ADDRESS: usize = 128;
    /// Offset of a freeing node's address.
    pub const FREE_ADDRESS: usize = 16;
    /// Offset of the graph that a node holds.
    pub const CHILD_GRAPH: usize = 16;
    /// Holds another graph.
    pub const GRAPH: u32 = 4;
    /// Allocates.
    pub const ALLOCATES: u32 = 10;
    /// Frees.
    pub const FREES: u32 = 11;
}

/// Where the fields of a `CUarrayMapInfo` are: a part of a sparse array.
pub mod tile {
    /// Length of an entry.
    pub const LEN: usize = 96;
    /// The array.
    pub const RESOURCE: usize = 8;
    /// Kind of part, four bytes; 1 is a mip tail.
    pub const PART_TYPE: usize = 16;
    /// Bytes of a mip tail.
    pub const TAIL_SIZE: usize = 40;
    /// What is done, four bytes; 1 maps. What is before it says which part.
    pub const OPERATION: usize = 56;
    /// The memory's handle.
    pub const HANDLE: usize = 64;
}

/// What a record does; addresses, sizes and handles are the record's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that is kept.
    Nothing,
    /// A call that only a later version knows.
    Unknown,
    /// Something of this class comes into being at the record's address.
    Born(Class),
    /// Something of another process or interface comes to be held at the record's address.
    Imported(Class),
    /// Something at the record's address goes away; [`Class::Linear`] stands for any class with device addresses.
    Ended(Class),
    /// One more reference to the physical memory behind the record's handle.
    Retained,
    /// What is at the record's address can be held by other processes from now on.
    Exported(Class),
    /// A handle is mapped at the record's address.
    Mapped {
        /// The handle.
        handle: u64,
        /// Offset into it, bytes.
        offset: u64,
    },
    /// Mappings go away between the record's address and address plus size.
    Unmapped,
    /// A part of the sparse array at the record's address gets memory, or loses it.
    Tile {
        /// The handle of the memory; 0 takes it away.
        handle: u64,
        /// Digest of the part.
        part: u64,
    },
    /// A location is let into what is at the record's address.
    Granted {
        /// The location.
        location: u64,
    },
    /// Physical memory is bound to the object at the record's address.
    Bound {
        /// Its handle.
        handle: u64,
    },
    /// Likewise, by an address at which it is mapped.
    BoundAt {
        /// The address.
        address: u64,
    },
    /// What is bound to the object at the record's address, from this offset and the record's size on, is not any more.
    Unbound {
        /// Offset, bytes.
        offset: u64,
    },
    /// A reference to a device's primary context, whose handle is the record's address.
    PrimaryRetained {
        /// Ordinal.
        device: u8,
    },
    /// One reference less.
    PrimaryReleased {
        /// Ordinal.
        device: u8,
    },
    /// The primary context and what it owns are gone; its references are not.
    PrimaryReset {
        /// Ordinal.
        device: u8,
    },
    /// A context, whose handle is the record's address.
    ContextCreated {
        /// Ordinal.
        device: u8,
    },
    /// The context at the record's address and what it owns are gone.
    ContextDestroyed,
    /// One usage reference more.
    ContextAttached,
    /// One usage reference less.
    ContextDetached,
    /// A green context at the record's address, with a reference to the primary one.
    GreenCreated {
        /// Ordinal.
        device: u8,
    },
    /// The green context at the record's address is gone, with its reference.
    GreenDestroyed,
    /// The record's address is the context handle of a green context.
    GreenViewed {
        /// The green context.
        green: u64,
    },
    /// A limit of the record's context.
    LimitSet {
        /// `CUlimit`.
        limit: u32,
        /// Value; bytes, for most.
        value: u64,
    },
    /// The record's address is a pool of this device.
    PoolKnown {
        /// Ordinal.
        device: Option<u8>,
        /// Whether it is the one that the device has from the start, and not just the one in use.
        is_default: bool,
    },
    /// The record's address is the pool in use on this device from now on.
    PoolChosen {
        /// Ordinal.
        device: Option<u8>,
    },
    /// A policy of the pool at the record's address.
    PoolSet {
        /// `CUmemPool_attribute`.
        attribute: u32,
        /// Value.
        value: u64,
    },
    /// What the pool at the record's address said.
    PoolAnswered {
        /// `CUmemPool_attribute`.
        attribute: u32,
        /// Value.
        value: u64,
    },
    /// The pool at the record's address gave idle memory back.
    PoolTrimmed,
    /// A graph's node frees what is at the record's address, when the graph is launched.
    NodeFrees,
    /// A graph's node holds a copy of the graph at the record's address.
    NodeHolds,
    /// The executable graph at the record's address took over another graph's parameters.
    GraphUpdated {
        /// The graph.
        graph: u64,
    },
    /// The executable graph at the record's address took its memory.
    GraphUploaded,
    /// The executable graph at the record's address ran.
    GraphLaunched,
    /// A device's graphs gave idle memory back.
    GraphTrimmed {
        /// Ordinal.
        device: u8,
    },
    /// What a device said about its graphs' memory.
    GraphAnswered {
        /// Ordinal.
        device: u8,
        /// `CUgraphMem_attribute`.
        attribute: u32,
        /// Value, bytes.
        value: u64,
    },
    /// The stream at the record's address is captured.
    CaptureBegan {
        /// Id of the capture, unique in the process.
        id: u64,
        /// The graph that it goes into, 0 for one that its end makes.
        graph: u64,
    },
    /// A capture is over; the record's address is its graph, 0 when there is none.
    CaptureEnded {
        /// Id of the capture.
        id: u64,
    },
    /// What the record's device said about its memory.
    DeviceAnswered {
        /// Free, bytes.
        free: u64,
        /// In all, bytes.
        total: u64,
    },
    /// The record's address is a kernel; its size is a thread's local memory, bytes.
    FunctionSeen,
    /// The record's address is a module's variable.
    GlobalSeen,
    /// Pages between the record's address and address plus size are moved, dropped or advised about.
    Moved {
        /// Where to, as a location.
        location: u64,
    },
    /// A process is stopped, emptied or filled again.
    Checkpoint {
        /// Its id.
        process: u32,
    },
}

/// Whether something of this class belongs to a context and dies with it. Physical handles, pools, graphs, libraries and reserved
/// addresses outlive a context (physical memory and pools: measured on driver 580, and what the manual says).
pub const fn owned_by_context(class: Class) -> bool {
    match class {
        Class::Linear
        | Class::Managed
        | Class::Pinned
        | Class::Registered
        | Class::Array
        | Class::MipmappedArray
        | Class::IpcMapping
        | Class::ExternalMemory
        | Class::ExternalBuffer
        | Class::ExternalSemaphore
        | Class::GraphicsResource
        | Class::Module
        | Class::Stream
        | Class::Event
        | Class::Texture
        | Class::Surface => true,
        Class::Physical
        | Class::PoolBlock
        | Class::Reserved
        | Class::GraphBlock
        | Class::Multicast
        | Class::Endpoint
        | Class::Pool
        | Class::Graph
        | Class::GraphExec
        | Class::Library
        | Class::GreenContext => false,
    }
}

/// Where memory is, by a `CUmemLocation`: type and id, 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this device.
    Device(u8),
    /// On the host.
    Host,
    /// Nothing is said.
    Unknown,
}

impl Place {
    /// Reads a location.
    pub const fn of(word: u64) -> Self {
        const DEVICE: u32 = 1;
        const HOST_NUMA_CURRENT: u32 = 4;
        // A part of a device's memory; the device is the first byte of the union behind it, not the int.
        const DEVICE_LOCALITY_DOMAIN: u32 = 6;
        let id = (word >> 32) as u32;
        match word as u32 {
            DEVICE if id < slot::DEVICE_UNKNOWN as u32 => Self::Device(id as u8),
            DEVICE_LOCALITY_DOMAIN if id as u8 != slot::DEVICE_UNKNOWN => Self::Device(id as u8),
            2..=HOST_NUMA_CURRENT => Self::Host,
            _ => Self::Unknown,
        }
    }

    /// The location that an older call's device number means: -1 is the host.
    pub const fn from_device(device: i32) -> u64 {
        if device < 0 {
            2
        } else {
            1 | (device as u64) << 32
        }
    }
}

/// A name of 64 bytes, for memory that processes share, in eight: equal names have equal digests, and others practically never.
pub fn digest(bytes: &[u8]) -> u64 {
    // FNV-1a, then the finaliser of SplitMix64, so that near names are far apart.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Which descriptor an array is made from, with where its fields are. Unchanged from CUDA 11.7 to 13.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayShape {
    /// `CUDA_ARRAY_DESCRIPTOR_v1`.
    Flat32,
    /// `CUDA_ARRAY_DESCRIPTOR_v2`.
    Flat,
    /// `CUDA_ARRAY3D_DESCRIPTOR_v1`.
    Solid32,
    /// `CUDA_ARRAY3D_DESCRIPTOR_v2`.
    Solid,
    /// The `arrayDesc` of a `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`.
    External,
}

impl ArrayShape {
    /// Offsets of width, height and depth. A 32-bit descriptor's are four bytes long, the others' eight.
    pub const fn extents(self) -> (usize, usize, Option<usize>) {
        match self {
            Self::Flat32 => (0, 4, None),
            Self::Flat => (0, 8, None),
            Self::Solid32 => (0, 4, Some(8)),
            Self::Solid => (0, 8, Some(16)),
            Self::External => (8, 16, Some(24)),
        }
    }

    /// Offsets of format, number of channels and flags, four bytes each.
    pub const fn format(self) -> (usize, usize, Option<usize>) {
        match self {
            Self::Flat32 => (8, 12, None),
            Self::Flat => (16, 20, None),
            Self::Solid32 => (12, 16, Some(20)),
            Self::Solid => (24, 28, Some(32)),
            Self::External => (32, 36, Some(40)),
        }
    }

    /// Whether extents are four bytes long.
    pub const fn is_narrow(self) -> bool {
        matches!(self, Self::Flat32 | Self::Solid32)
    }
}

/// An array's extents and texels, as a record's words `a` and `b` hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayFacts {
    /// Texels in a row.
    pub width: u32,
    /// Rows; 0 in one dimension.
    pub height: u32,
    /// Slices or layers; 0 in one or two dimensions.
    pub depth: u32,
    /// `CUarray_format`.
    pub format: u16,
    /// Channels of a texel.
    pub channels: u8,
    /// `CUDA_ARRAY3D_*`, the low eight bits.
    pub flags: u8,
}

impl ArrayFacts {
    /// Layers instead of slices.
    pub const LAYERED: u8 = 0x01;
    /// No memory of its own: parts are mapped.
    pub const SPARSE: u8 = 0x40;
    /// No memory of its own: all of it is mapped later.
    pub const DEFERRED: u8 = 0x80;

    /// Reads a record's words.
    pub const fn from_words(a: u64, b: u64) -> Self {
        Self {
            width: a as u32,
            height: (a >> 32) as u32,
            depth: b as u32,
            format: (b >> 32) as u16,
            channels: (b >> 48) as u8,
            flags: (b >> 56) as u8,
        }
    }

    /// A record's words.
    pub const fn words(self) -> (u64, u64) {
        (
            self.width as u64 | (self.height as u64) << 32,
            self.depth as u64
                | (self.format as u64) << 32
                | (self.channels as u64) << 48
                | (self.flags as u64) << 56,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(call: HookId) -> Record {
        Record {
            sequence: 7,
            at_ns: 8,
            call: call as u16,
            result: 0,
            address: 0x7f00_0000_1000,
            size: 4096,
            a: 1,
            b: 2,
            thread: 3,
            stack: 4,
            context: 5,
            stream: 6,
            device: 1,
            flags: 0,
        }
    }

    /// The two directions are written by hand; a field left out of one of them would be silently zero.
    #[test]
    fn what_is_encoded_is_decoded() {
        let record = record(HookId::cuMemAlloc_v2);
        let bytes = record.encode(slot::committed(9));
        assert_eq!(state(&bytes), slot::committed(9));
        assert_eq!(Record::decode(7, &bytes), record);
    }

    #[test]
    fn a_refused_allocation_is_no_memory() {
        let refused = Record {
            result: 2,
            ..record(HookId::cuMemAlloc_v2)
        };
        assert_eq!(refused.effect(), Effect::Nothing);
        assert!(refused.failed());
    }

    #[test]
    fn a_nested_allocation_is_not_counted_twice() {
        let nested = Record {
            flags: slot::NESTED,
            ..record(HookId::cuMemAlloc_v2)
        };
        assert_eq!(nested.effect(), Effect::Nothing);
    }

    #[test]
    fn freeing_nothing_ends_nothing() {
        let free = Record {
            address: 0,
            result: slot::RESULT_PENDING,
            ..record(HookId::cuMemFree_v2)
        };
        assert_eq!(free.effect(), Effect::Nothing);
    }

    #[test]
    fn a_call_of_a_later_version_is_unknown() {
        let later = Record {
            call: 60_000,
            ..record(HookId::cuInit)
        };
        assert_eq!(later.effect(), Effect::Unknown);
    }

    /// `CUmemLocation` is a type and an id; for the type of a part of a device the device is one byte of it.
    #[test]
    fn a_location_says_where_memory_is() {
        for (word, place) in [
            (1, Place::Device(0)),
            (1 | 3 << 32, Place::Device(3)),
            (6 | 0x0201 << 32, Place::Device(1)),
            (2, Place::Host),
            (3 | 1 << 32, Place::Host),
            (4, Place::Host),
            (0, Place::Unknown),
            (1 | 0xffff_ffff << 32, Place::Unknown),
        ] {
            assert_eq!(Place::of(word), place, "{word:#x}");
        }
        assert_eq!(Place::of(Place::from_device(-1)), Place::Host);
        assert_eq!(Place::of(Place::from_device(5)), Place::Device(5));
    }

    #[test]
    fn an_array_travels_in_two_words() {
        let facts = ArrayFacts {
            width: 0x8001,
            height: 0x7fff_ffff,
            depth: 6,
            format: 0xb5,
            channels: 4,
            flags: ArrayFacts::SPARSE | ArrayFacts::LAYERED,
        };
        let (a, b) = facts.words();
        assert_eq!(ArrayFacts::from_words(a, b), facts);
    }

    /// Under capture an allocation is a node of a graph, and a free frees nothing yet.
    #[test]
    fn a_captured_call_is_a_node() {
        let captured = |call| {
            Record {
                flags: slot::CAPTURED,
                ..record(call)
            }
            .effect()
        };
        assert_eq!(
            captured(HookId::cuMemAllocAsync),
            Effect::Born(Class::GraphBlock)
        );
        assert_eq!(captured(HookId::cuMemFreeAsync), Effect::NodeFrees);
    }

    /// A capture that was invalidated ends with an error, and the stream is free again.
    #[test]
    fn a_failed_end_ends_a_capture() {
        let end = |size| {
            Record {
                result: 901,
                size,
                address: 0,
                ..record(HookId::cuStreamEndCapture)
            }
            .effect()
        };
        assert_eq!(end(1), Effect::CaptureEnded { id: 2 });
        assert_eq!(end(0), Effect::Nothing);
    }

    /// Names of shared memory differ in single bytes; two that fell together would join strangers.
    #[test]
    fn near_names_have_far_digests() {
        let mut seen = [0_u64; 64 * 3];
        for (n, place) in seen.iter_mut().enumerate() {
            let mut name = [0_u8; 64];
            name[n / 3] = [1, 2, 128][n % 3];
            *place = digest(&name);
        }
        for (n, one) in seen.iter().enumerate() {
            for other in &seen[..n] {
                assert!((one ^ other).count_ones() > 8);
            }
        }
    }
}
