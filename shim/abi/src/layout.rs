#![doc = include_str!("../FORMAT.md")]
//!
//! # The same as constants
//!
//! Offsets are ranges of bytes within the structure that the module is named after.

use core::ops::Range;

/// First eight bytes of every capture.
pub const MAGIC: [u8; 8] = *b"gpushim\0";
/// The version that this module describes.
pub const VERSION: u16 = 1;
/// Regions start at multiples of this.
pub const PAGE: u64 = 4096;
/// Extension of capture files, without the dot.
pub const EXTENSION: &str = "gpushim";

const fn after(previous: Range<usize>, len: usize) -> Range<usize> {
    previous.end..previous.end + len
}

/// The header: identity, region table, counters.
pub mod header {
    use super::{Range, after};

    /// Length of the header, bytes.
    pub const LEN: usize = 4096;
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: Range<usize> = 0..8;
    /// Format version, `u16`.
    pub const VERSION: Range<usize> = after(MAGIC, 2);
    /// Length of the header, `u16`.
    pub const HEADER_LEN: Range<usize> = after(VERSION, 2);
    /// 1 once the header is complete, `u32`, stored last.
    pub const COMPLETE: Range<usize> = after(HEADER_LEN, 4);
    /// Feature bits, `u64`.
    pub const FEATURES: Range<usize> = after(COMPLETE, 8);
    /// Greatest length of the file in bytes, `u64`.
    pub const FILE_LEN: Range<usize> = after(FEATURES, 8);
    /// Process id, `u32`.
    pub const PID: Range<usize> = after(FILE_LEN, 4);
    /// Parent's process id, `u32`.
    pub const PPID: Range<usize> = after(PID, 4);
    /// Process group, `u32`.
    pub const PGID: Range<usize> = after(PPID, 4);
    /// Session of the terminal, `u32`.
    pub const SID: Range<usize> = after(PGID, 4);
    /// User id, `u32`.
    pub const UID: Range<usize> = after(SID, 4);
    /// Driver version, `i32`.
    pub const DRIVER_VERSION: Range<usize> = after(UID, 4);
    /// Start time of the process in clock ticks since boot, `u64`.
    pub const START_TICKS: Range<usize> = after(DRIVER_VERSION, 8);
    /// Inode of the pid namespace, `u64`.
    pub const PID_NAMESPACE: Range<usize> = after(START_TICKS, 8);
    /// Boot id, 16 bytes.
    pub const BOOT_ID: Range<usize> = after(PID_NAMESPACE, 16);
    /// CLOCK_MONOTONIC ns when the capture was opened, `u64`.
    pub const OPENED_MONOTONIC: Range<usize> = after(BOOT_ID, 8);
    /// CLOCK_REALTIME ns at the same moment, `u64`.
    pub const OPENED_REALTIME: Range<usize> = after(OPENED_MONOTONIC, 8);
    /// CLOCK_MONOTONIC ns of a clean exit, `u64`, 0 otherwise.
    pub const CLEAN_EXIT: Range<usize> = after(OPENED_REALTIME, 8);
    /// First of the texts; see [`Text`](super::Text).
    pub const TEXTS: usize = CLEAN_EXIT.end;
    /// Offset of the region table.
    pub const REGIONS: usize = 512;
    /// Entries in the region table.
    pub const REGION_SLOTS: usize = 16;
    /// Offset of the counters.
    pub const COUNTERS: usize = REGIONS + REGION_SLOTS * super::region::LEN;
    /// Places for counters.
    pub const COUNTER_SLOTS: usize = 16;
    /// The next sequence number, `u64`.
    pub const HEAD: Range<usize> = 2048..2056;
    /// Number of slots by which the ring wraps, once it could not grow; 0 before, `u64`.
    pub const FROZEN: Range<usize> = 2112..2120;

    const _: () = assert!(CLEAN_EXIT.end == 112);
    const _: () = assert!(TEXTS + super::Text::ALL.len() * 8 <= REGIONS);
    const _: () = assert!(COUNTERS == 1536);
    const _: () = assert!(COUNTERS + COUNTER_SLOTS * 8 <= HEAD.start);
    const _: () = assert!(FROZEN.end <= LEN);
}

/// The texts of the header, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Text {
    /// Path of the executable.
    Executable,
    /// Command line, arguments separated by NUL.
    CommandLine,
    /// Working directory.
    WorkingDirectory,
    /// Name of the host.
    Host,
    /// Version of the shim.
    ShimVersion,
    /// Path of the driver library.
    DriverFile,
    /// Session that `gpushim run` or `GPUSHIM_SESSION` gave.
    Session,
    /// Chosen environment variables, `KEY=VALUE` separated by NUL.
    Environment,
    /// Name of the thread that opened the capture.
    ThreadName,
}

impl Text {
    /// Every text, in order.
    pub const ALL: [Self; 9] = [
        Self::Executable,
        Self::CommandLine,
        Self::WorkingDirectory,
        Self::Host,
        Self::ShimVersion,
        Self::DriverFile,
        Self::Session,
        Self::Environment,
        Self::ThreadName,
    ];

    /// Where the header keeps the reference to this text.
    pub const fn at(self) -> Range<usize> {
        let start = header::TEXTS + self as usize * 8;
        start..start + 8
    }
}

/// What was lost or left out, by reason; each a `u64` that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Records dropped: their slot was being written, or already held a record of a later lap.
    SlotBusy,
    /// Records dropped: the ring was growing or could not grow.
    RingNotReady,
    /// Calls that came while the capture was being opened.
    WhileOpening,
    /// Calls of `cuCtxSetCurrent` that changed nothing, by threads that have no entry, or have it no more.
    UnchangedContext,
    /// Call sites without a stack: the stacks region was full.
    StacksFull,
    /// Contexts not listed: the contexts region was full.
    ContextsFull,
    /// Threads without an in-flight entry.
    ThreadsFull,
    /// Modules not listed: the modules region was full.
    ModulesFull,
    /// Texts or notes lost: their region was full.
    TextsFull,
    /// Driver entry points handed out that have no hook.
    Unhooked,
    /// Answers for hooked names from a library that is not the driver in use.
    Foreign,
    /// Frames not listed: the frames region was full.
    FramesFull,
    /// Marks and ranges that came before there was a capture, and did not fit into what is kept of these.
    EarlyMarks,
}

impl Counter {
    /// Every counter, in order.
    pub const ALL: [Self; 13] = [
        Self::SlotBusy,
        Self::RingNotReady,
        Self::WhileOpening,
        Self::UnchangedContext,
        Self::StacksFull,
        Self::ContextsFull,
        Self::ThreadsFull,
        Self::ModulesFull,
        Self::TextsFull,
        Self::Unhooked,
        Self::Foreign,
        Self::FramesFull,
        Self::EarlyMarks,
    ];

    /// Where the header keeps this counter.
    pub const fn at(self) -> Range<usize> {
        let start = header::COUNTERS + self as usize * 8;
        start..start + 8
    }
}

/// An entry of the region table.
pub mod region {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 64;
    /// Kind, `u32`; see [`Region`](super::Region).
    pub const KIND: Range<usize> = 0..4;
    /// Length of one entry of the region in bytes, `u32`.
    pub const ENTRY_LEN: Range<usize> = after(KIND, 4);
    /// Offset in the file, `u64`.
    pub const OFFSET: Range<usize> = after(ENTRY_LEN, 8);
    /// Reserved length in bytes, `u64`.
    pub const RESERVED: Range<usize> = after(OFFSET, 8);
    /// Allocated length in bytes, `u64`; grows only.
    pub const READY: Range<usize> = after(RESERVED, 8);
    /// Entries claimed so far, `u64`.
    pub const COUNT: Range<usize> = after(READY, 8);
}

/// The regions of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Region {
    /// Devices by ordinal.
    Devices = 1,
    /// Context handles seen.
    Contexts = 2,
    /// Threads and their calls in flight.
    Threads = 3,
    /// Loaded libraries.
    Modules = 4,
    /// Stack nodes.
    Stacks = 5,
    /// Bytes of all texts.
    Strings = 6,
    /// Facts noted once.
    Notes = 7,
    /// The records.
    Ring = 8,
    /// Python frames and the like, which stack nodes refer to.
    Frames = 12,
    /// PyTorch's streams.
    Streams = 13,
}

impl Region {
    /// Every region of this version, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Devices,
        Self::Contexts,
        Self::Threads,
        Self::Modules,
        Self::Stacks,
        Self::Strings,
        Self::Notes,
        Self::Ring,
        Self::Frames,
        Self::Streams,
    ];

    /// Place in the region table that the shim gives this region.
    pub const fn index(self) -> usize {
        match self {
            Self::Devices => 0,
            Self::Contexts => 1,
            Self::Threads => 2,
            Self::Modules => 3,
            Self::Stacks => 4,
            Self::Strings => 5,
            Self::Notes => 6,
            Self::Ring => 7,
            Self::Frames => 8,
            Self::Streams => 9,
        }
    }

    /// Length of one entry, bytes.
    pub const fn entry_len(self) -> usize {
        match self {
            Self::Devices => device::LEN,
            Self::Contexts => context::LEN,
            Self::Threads => thread::LEN,
            Self::Modules => module::LEN,
            Self::Stacks => stack::LEN,
            Self::Strings => 1,
            Self::Notes => note::LEN,
            Self::Ring => slot::LEN,
            Self::Frames => frame::LEN,
            Self::Streams => stream::LEN,
        }
    }
}

/// A device.
pub mod device {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 64;
    /// 1 once complete, `u32`.
    pub const COMPLETE: Range<usize> = 0..4;
    /// Compute capability, major, `u16`.
    pub const MAJOR: Range<usize> = after(COMPLETE, 2);
    /// Compute capability, minor, `u16`.
    pub const MINOR: Range<usize> = after(MAJOR, 2);
    /// UUID, 16 bytes.
    pub const UUID: Range<usize> = after(MINOR, 16);
    /// Total memory in bytes, `u64`.
    pub const TOTAL: Range<usize> = after(UUID, 8);
    /// Text: name.
    pub const NAME: Range<usize> = after(TOTAL, 8);
    /// Text: PCI bus id.
    pub const PCI: Range<usize> = after(NAME, 8);
    /// Multiprocessors, `u32`, 0 unknown.
    pub const PROCESSORS: Range<usize> = after(PCI, 4);
    /// Greatest number of threads on one of them, `u32`, 0 unknown.
    pub const PROCESSOR_THREADS: Range<usize> = after(PROCESSORS, 4);
    const _: () = assert!(PROCESSOR_THREADS.end <= LEN);
}

/// A context handle.
pub mod context {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 32;
    /// 1 once complete, `u32`.
    pub const COMPLETE: Range<usize> = 0..4;
    /// Device ordinal, `u32`.
    pub const DEVICE: Range<usize> = after(COMPLETE, 4);
    /// Handle, `u64`.
    pub const HANDLE: Range<usize> = after(DEVICE, 8);
    /// CLOCK_MONOTONIC ns when first seen, `u64`.
    pub const SEEN: Range<usize> = after(HANDLE, 8);
    /// Thread seen with it first, `u32`.
    pub const THREAD: Range<usize> = after(SEEN, 4);
    /// Ordinal of an unknown device.
    pub const DEVICE_UNKNOWN: u32 = u32::MAX;
    const _: () = assert!(THREAD.end <= LEN);
}

/// A thread and its call in flight.
pub mod thread {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 64;
    /// Thread id, `u32`; 0 is free.
    pub const TID: Range<usize> = 0..4;
    /// Call in flight, `u16`; 0 is none.
    pub const CALL: Range<usize> = after(TID, 2);
    /// Depth of nested hooked calls, `u16`.
    pub const DEPTH: Range<usize> = after(CALL, 2);
    /// Address or handle argument, `u64`.
    pub const ADDRESS: Range<usize> = after(DEPTH, 8);
    /// Size argument, `u64`.
    pub const SIZE: Range<usize> = after(ADDRESS, 8);
    /// Head when the call began, `u64`.
    pub const HEAD: Range<usize> = after(SIZE, 8);
    /// Name, 16 bytes, NUL-padded.
    pub const NAME: Range<usize> = after(HEAD, 16);
    /// CLOCK_MONOTONIC ns when the entry was taken, `u64`.
    pub const TAKEN: Range<usize> = after(NAME, 8);
    /// Calls of `cuCtxSetCurrent` that changed nothing since the entry was taken, `u64`.
    pub const UNCHANGED: Range<usize> = after(TAKEN, 8);
    const _: () = assert!(UNCHANGED.end <= LEN);
}

/// A loaded library.
pub mod module {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 64;
    /// 1 once complete, `u32`.
    pub const COMPLETE: Range<usize> = 0..4;
    /// Length of the build id, `u32`.
    pub const BUILD_ID_LEN: Range<usize> = after(COMPLETE, 4);
    /// Load bias, `u64`.
    pub const BIAS: Range<usize> = after(BUILD_ID_LEN, 8);
    /// First address, `u64`.
    pub const START: Range<usize> = after(BIAS, 8);
    /// First address after it, `u64`.
    pub const END: Range<usize> = after(START, 8);
    /// Text: path.
    pub const PATH: Range<usize> = after(END, 8);
    /// Build id, 20 bytes.
    pub const BUILD_ID: Range<usize> = after(PATH, 20);
    const _: () = assert!(BUILD_ID.end <= LEN);
}

/// A stack node.
pub mod stack {
    use super::{Range, after};

    /// Length of a node, bytes.
    pub const LEN: usize = 16;
    /// Value, `u64`.
    pub const VALUE: Range<usize> = 0..8;
    /// Node of the caller, `u32`.
    pub const PARENT: Range<usize> = after(VALUE, 4);
    /// Kind, `u32`.
    pub const KIND: Range<usize> = after(PARENT, 4);
    /// Kind of a node whose value is a return address.
    pub const NATIVE: u32 = 1;
    /// Kind of a node whose value is the number of a [`frame`](super::frame) of Python.
    pub const PYTHON: u32 = 2;
    /// Kind of a node whose value is the number of a frame that names a node of PyTorch's autograd graph, which is being evaluated.
    pub const AUTOGRAD: u32 = 3;
    /// Kind of a node whose value is the number of another node: the stack at which the autograd node above it was made.
    pub const FORWARD: u32 = 4;
    /// Kind of a first node that stands for outer frames that were not recorded: the stack is deeper than the limit.
    pub const CUT: u32 = 5;
    /// Kind of a first node that says why there are no Python frames; see [`Absent`](super::Absent).
    pub const ABSENT: u32 = 6;
    const _: () = assert!(KIND.end == LEN);
}

/// A frame of source code; frame *n* is entry *n* - 1.
pub mod frame {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 32;
    /// 1 once complete, `u32`.
    pub const COMPLETE: Range<usize> = 0..4;
    /// Line, `u32`, 0 unknown.
    pub const LINE: Range<usize> = after(COMPLETE, 4);
    /// Text: file.
    pub const FILE: Range<usize> = after(LINE, 8);
    /// Text: function, by its qualified name where the interpreter has one.
    pub const FUNCTION: Range<usize> = after(FILE, 8);
    /// First line of the function, `u32`, 0 unknown.
    pub const FIRST_LINE: Range<usize> = after(FUNCTION, 4);
    const _: () = assert!(FIRST_LINE.end <= LEN);
}

/// A stream of PyTorch's.
pub mod stream {
    use super::{Range, after};

    /// Length of an entry, bytes.
    pub const LEN: usize = 16;
    /// 1 once complete, `u32`.
    pub const COMPLETE: Range<usize> = 0..4;
    /// Device ordinal, `u32`.
    pub const DEVICE: Range<usize> = after(COMPLETE, 4);
    /// PyTorch's id of the stream, `u64`; 0 is the default stream.
    pub const ID: Range<usize> = after(DEVICE, 8);
    const _: () = assert!(ID.end == LEN);
}

/// Why a stack has no Python frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Absent {
    /// The thread is none of Python's.
    ForeignThread = 1,
    /// The thread is known to Python and runs no Python code, as PyTorch's autograd workers do.
    NoFrames = 2,
    /// The interpreter's version is not one whose structures are known.
    UnknownVersion = 3,
    /// The interpreter has no GIL, and frees what is read.
    FreeThreaded = 4,
    /// The interpreter is ending.
    Finalizing = 5,
    /// The interpreter's structures could not be read, or were not what they should be.
    Unreadable = 6,
    /// Switched off.
    Off = 7,
}

impl Absent {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::ForeignThread,
        Self::NoFrames,
        Self::UnknownVersion,
        Self::FreeThreaded,
        Self::Finalizing,
        Self::Unreadable,
        Self::Off,
    ];

    /// The reason with this number.
    pub fn from_raw(value: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u64 == value)
    }
}

/// A fact noted once.
pub mod note {
    use super::{Range, after};

    /// Length of a note, bytes.
    pub const LEN: usize = 16;
    /// Kind, `u32`.
    pub const KIND: Range<usize> = 0..4;
    /// Value of the kind's own, `u32`.
    pub const VALUE: Range<usize> = after(KIND, 4);
    /// Text.
    pub const TEXT: Range<usize> = after(VALUE, 8);
    /// A driver entry point was handed out that has no hook.
    pub const UNHOOKED: u32 = 1;
    /// `cuGetExportTable` was asked for a table.
    pub const EXPORT_TABLE: u32 = 2;
    /// The recorder lost an ability.
    pub const DEGRADED: u32 = 3;
    const _: () = assert!(TEXT.end == LEN);
}

/// A slot of the ring.
pub mod slot {
    use super::{Range, after};

    /// Length of a slot, bytes: a cache line.
    pub const LEN: usize = 64;
    /// State word, `u32`.
    pub const STATE: Range<usize> = 0..4;
    /// Row id of the call, `u16`.
    pub const CALL: Range<usize> = after(STATE, 2);
    /// Result, `u16`.
    pub const RESULT: Range<usize> = after(CALL, 2);
    /// CLOCK_MONOTONIC ns, `u64`.
    pub const TIME: Range<usize> = after(RESULT, 8);
    /// Address or handle, `u64`.
    pub const ADDRESS: Range<usize> = after(TIME, 8);
    /// Size in bytes, `u64`.
    pub const SIZE: Range<usize> = after(ADDRESS, 8);
    /// First word of the call's own kind, `u64`.
    pub const A: Range<usize> = after(SIZE, 8);
    /// Second word of the call's own kind, `u64`.
    pub const B: Range<usize> = after(A, 8);
    /// Thread id, `u32`.
    pub const THREAD: Range<usize> = after(B, 4);
    /// Stack node, `u32`.
    pub const STACK: Range<usize> = after(THREAD, 4);
    /// Context index, `u16`.
    pub const CONTEXT: Range<usize> = after(STACK, 2);
    /// Stream of PyTorch's, `u16`: the number of an entry of the streams region, 0 none.
    pub const STREAM: Range<usize> = after(CONTEXT, 2);
    /// Device ordinal, `u8`.
    pub const DEVICE: Range<usize> = after(STREAM, 1);
    /// Flags, `u8`.
    pub const FLAGS: Range<usize> = after(DEVICE, 1);

    /// Result of a record that was made before the call.
    pub const RESULT_PENDING: u16 = u16::MAX;
    /// No context.
    pub const CONTEXT_NONE: u16 = u16::MAX;
    /// Unknown device.
    pub const DEVICE_UNKNOWN: u8 = u8::MAX;
    /// Flag: takes an earlier pending record back.
    pub const REFUSED: u8 = 1;
    /// Flag: made inside another hooked call.
    pub const NESTED: u8 = 2;
    /// Flag: what the recorder itself asked the driver.
    pub const OBSERVED: u8 = 4;
    /// Flag: made on a stream that is being captured, so that it is a node of a graph; `b` is the capture's id.
    pub const CAPTURED: u8 = 8;

    /// State of a slot that a writer of this lap owns.
    pub const fn claimed(lap: u32) -> u32 {
        lap.wrapping_mul(4) + 1
    }

    /// State of a slot that a writer of this lap has published.
    pub const fn committed(lap: u32) -> u32 {
        lap.wrapping_mul(4) + 2
    }

    /// Whether a writer owns the slot.
    pub const fn is_claimed(state: u32) -> bool {
        state & 3 == 1
    }

    /// The lap of a committed slot; `None` for any other state.
    pub const fn committed_lap(state: u32) -> Option<u32> {
        if state & 3 == 2 {
            Some(state / 4)
        } else {
            None
        }
    }

    /// Laps end here: the state word has no room for more (2^30 laps of the smallest ring are 2^40 records).
    pub const LAPS: u64 = 1 << 30;

    const _: () = assert!(FLAGS.end + 2 == LEN);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zero page must read as "nothing here", or an unfinished capture would invent records.
    #[test]
    fn zero_is_nothing() {
        assert!(!slot::is_claimed(0));
        assert_eq!(slot::committed_lap(0), None);
        assert_eq!(slot::committed_lap(slot::committed(0)), Some(0));
        assert_eq!(slot::committed_lap(slot::claimed(0)), None);
        let last = (slot::LAPS - 1) as u32;
        assert_eq!(slot::committed_lap(slot::committed(last)), Some(last));
    }

    /// FORMAT.md is what other readers are written from: its table of slot offsets must be this module's.
    #[test]
    fn the_document_names_the_offsets() {
        let document = include_str!("../FORMAT.md");
        let ring = document.split("### Ring slot").nth(1).expect("section");
        for (range, name) in [
            (slot::CALL, "call"),
            (slot::TIME, "CLOCK_MONOTONIC ns"),
            (slot::ADDRESS, "address or handle"),
            (slot::SIZE, "size"),
            (slot::THREAD, "thread id"),
            (slot::STACK, "stack node"),
            (slot::CONTEXT, "context index"),
            (slot::DEVICE, "device ordinal"),
        ] {
            let row = format_row(range.start, range.len());
            let line = ring.lines().find(|l| l.starts_with(row.as_str()));
            assert!(line.is_some_and(|l| l.contains(name)), "{row} {name}");
        }
    }

    extern crate std;
    fn format_row(offset: usize, len: usize) -> std::string::String {
        std::format!("| {offset} | {len} | ")
    }
}
