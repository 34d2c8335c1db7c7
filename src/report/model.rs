//! The data of a report, as its JSON form has it. Sizes are bytes, times seconds since the capture was opened, addresses and
//! handles hexadecimal text.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything about one process.
#[derive(Debug, Serialize)]
pub struct Process {
    /// Path of the capture.
    pub capture: String,
    /// Process id.
    pub pid: u32,
    /// Command line.
    pub command: Vec<String>,
    /// Name of the host.
    pub host: String,
    /// When the capture was opened, RFC 3339 in UTC.
    pub opened: String,
    /// The same, CLOCK_REALTIME ns.
    pub opened_realtime_ns: u64,
    /// The same, CLOCK_MONOTONIC ns: what a program's own clock readings can be held against.
    pub opened_monotonic_ns: u64,
    /// Seconds from there to the end of the process, to now while it runs, to the last record where its end is not known,
    /// or to the moment asked about.
    pub seconds: f64,
    /// Seconds from there to the beginning of what the devices' `course` shows: the oldest record, where older ones were overwritten.
    pub course_from_seconds: f64,
    /// And to its end, which is that of the run whatever moment was asked about.
    pub course_to_seconds: f64,
    /// How the process ended, or that it runs.
    pub fate: String,
    /// Whether the process is known to be over, so that it holds nothing.
    pub over: bool,
    /// Whether the process is known to run: its capture is being written, and the figures are those of now.
    pub running: bool,
    /// Whether the state is that of an earlier moment than the last.
    pub earlier: bool,
    /// Driver version, 1000 × major + 10 × minor.
    pub driver_version: i32,
    /// Path of the driver library.
    pub driver_file: String,
    /// Version of the shim.
    pub shim_version: String,
    /// Chosen environment variables.
    pub environment: Vec<String>,
    /// Whether every record since the first call is there, so that the figures are exact.
    pub exact: bool,
    /// What is missing and what that means, in sentences; empty when `exact`.
    pub losses: Vec<String>,
    /// What became of the records.
    pub records: Records,
    /// By ordinal.
    pub devices: Vec<Device>,
    /// Memory of the host and address space.
    pub host_memory: HostMemory,
    /// PyTorch's blocks that are alive, by the line that took them, largest first; they lie inside the devices' memory.
    pub blocks: Vec<super::sites::Site>,
    /// Requests that PyTorch could not meet.
    pub torch_refused: Vec<Refusal>,
    /// Everything alive, grouped, largest first.
    pub alive: Vec<Group>,
    /// How many things of each class there were until then.
    pub totals: BTreeMap<&'static str, Totals>,
    /// Successful calls that were recorded until then, by name.
    pub calls: BTreeMap<String, u64>,
    /// Calls that the driver refused.
    pub failures: Vec<Failure>,
    /// Calls that had not returned.
    pub in_flight: Vec<InFlight>,
    /// Memory that is shared with other processes.
    pub shared: Vec<super::Shared>,
    /// What was noted.
    pub notes: Notes,
}

/// How many things of a class there were.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Totals {
    /// Made, or imported.
    pub created: u64,
    /// Given back by a call of their own.
    pub freed: u64,
    /// Gone with their context.
    pub reclaimed: u64,
}

/// What became of the records.
#[derive(Clone, Debug, Serialize)]
pub struct Records {
    /// Given out in all.
    pub total: u64,
    /// Read.
    pub read: u64,
    /// Overwritten by newer ones.
    pub overwritten: u64,
    /// Begun and never committed: the process died, or is, in the middle of them.
    pub holes: u64,
    /// Dropped by the recorder. `total` is the sum of `read`, `overwritten`, `holes`, `dropped` and `cut_off`.
    pub dropped: u64,
    /// In a part of the capture that the file no longer has.
    pub cut_off: u64,
    /// Whether the ring could not grow to its planned length.
    pub frozen: bool,
    /// The recorder's counters, those that are not zero.
    pub counters: BTreeMap<&'static str, u64>,
    /// Things given back that were born before the first record, or unseen.
    pub unknown_frees: u64,
    /// Addresses handed out again without a free that was seen.
    pub reused_addresses: u64,
    /// Calls of a later version.
    pub unknown_calls: u64,
    /// Calls refused since the driver had already shut down, as happens in every exit.
    pub after_shutdown: u64,
    /// Calls made inside other hooked calls, counted once.
    pub nested: u64,
    /// Calls through the 32-bit interface from before CUDA 3.2.
    pub narrow_calls: u64,
    /// Arrays of a format that only a later version knows: their size is not known.
    pub unknown_formats: u64,
    /// Stream captures that ended without a graph.
    pub failed_captures: u64,
    /// Executable graphs that ended while something that they allocated was alive.
    pub graphs_ended_alive: u64,
    /// Graph launches that were too many to be followed.
    pub unfollowed_launches: u64,
    /// Checkpoint calls, by name and process id.
    pub checkpoints: BTreeMap<String, u64>,
}

/// A device.
#[derive(Debug, Serialize)]
pub struct Device {
    /// Ordinal in the process.
    pub ordinal: u8,
    /// UUID.
    pub uuid: String,
    /// Name.
    pub name: String,
    /// PCI bus id.
    pub pci: String,
    /// Total memory, bytes.
    pub total_bytes: u64,
    /// Held of the device: linear and physical memory and arrays as requested, pools and graphs as they said last, bytes.
    pub live_bytes: u64,
    /// What the driver takes for all of it and for the limits that the program has set, an estimate by its rounding rules, bytes.
    pub footprint_bytes: u64,
    /// Greatest `live_bytes` of the run (not of the moment asked about).
    pub peak_bytes: u64,
    /// When, seconds.
    pub peak_seconds: f64,
    /// What PyTorch's caching allocator has of it; none where it reported nothing.
    pub torch: Option<Torch>,
    /// `cuMemAlloc` and `cuMemAllocPitch`, bytes alive.
    pub linear_bytes: u64,
    /// Their number.
    pub linear_count: u64,
    /// `cuMemCreate` on this device, bytes alive.
    pub physical_bytes: u64,
    /// Their number.
    pub physical_count: u64,
    /// Of these mapped somewhere, bytes.
    pub mapped_bytes: u64,
    /// Physical memory that nothing holds in this process but descriptors, which nobody sees closed: it may be gone. Bytes, in no
    /// other figure.
    pub adrift_bytes: u64,
    /// Arrays with memory of their own, bytes of their texels.
    pub array_bytes: u64,
    /// Their number.
    pub array_count: u64,
    /// What pools hold of the device, as they said last, bytes.
    pub pool_reserved_bytes: u64,
    /// Of this handed out, as requested, bytes alive.
    pub pool_bytes: u64,
    /// Number of blocks that are out.
    pub pool_count: u64,
    /// What graphs hold of the device, as it said last, bytes.
    pub graph_reserved_bytes: u64,
    /// Of this allocated by launches and not freed, bytes.
    pub graph_bytes: u64,
    /// Number of these.
    pub graph_count: u64,
    /// Memory of other processes and interfaces that is held here, bytes; in no other figure.
    pub imported_bytes: u64,
    /// Number of these.
    pub imported_count: u64,
    /// Managed memory alive, bytes; where its pages are is not visible.
    pub managed_bytes: u64,
    /// Their number.
    pub managed_count: u64,
    /// Of this sent to this device last by a prefetch, bytes.
    pub managed_prefetched_bytes: u64,
    /// What threads' stacks take beyond the usual, where the program has set their limit, bytes; negative for less.
    pub stack_limit_bytes: i64,
    /// Streams, events, modules and their like that are alive on this device, by kind.
    pub handles: BTreeMap<&'static str, u64>,
    /// Bytes allocated until then.
    pub allocated_bytes: u64,
    /// Allocations made until then.
    pub allocations: u64,
    /// Allocations given back until then.
    pub frees: u64,
    /// Contexts on this device, in order of beginning.
    pub contexts: Vec<Context>,
    /// Greatest live bytes in equal parts of the run.
    pub course: Vec<u64>,
    /// The same as a line of characters.
    #[serde(skip)]
    pub spark: String,
}

/// What PyTorch's caching allocator has of a device.
#[derive(Debug, Serialize)]
pub struct Torch {
    /// In blocks, which tensors lie in, bytes: what `torch.cuda.memory_allocated()` says.
    pub allocated_bytes: u64,
    /// Number of these.
    pub block_count: u64,
    /// Greatest `allocated_bytes` of the run (not of the moment asked about).
    pub peak_bytes: u64,
    /// When, seconds.
    pub peak_seconds: f64,
    /// Memory of the driver's in which its blocks lie or lay, bytes.
    pub segment_bytes: u64,
    /// Number of these.
    pub segment_count: u64,
    /// Of this in no block, bytes.
    pub cached_bytes: u64,
    /// Of this in segments without any block, which `torch.cuda.empty_cache()` gives back, bytes.
    pub releasable_bytes: u64,
    /// The rest: in segments that a block holds, bytes.
    pub pinned_bytes: u64,
    /// Segments that a block holds, that with the most cache first.
    pub pinned: Vec<Pinned>,
    /// Blocks handed out and taken back until then.
    pub allocations: u64,
    /// See `allocations`.
    pub frees: u64,
    /// In blocks that were out before the record begins, bytes.
    pub unseen_bytes: u64,
    /// How often PyTorch's own count changed otherwise than by the records.
    pub gaps: u64,
}

/// A segment of PyTorch's that cannot be given back since a block is in it.
#[derive(Debug, Serialize)]
pub struct Pinned {
    /// First address.
    pub address: String,
    /// Length, bytes.
    pub bytes: u64,
    /// Of this in no block, bytes.
    pub cached_bytes: u64,
    /// Blocks in it.
    pub block_count: u64,
    /// Bytes of these in it.
    pub block_bytes: u64,
    /// The line of the oldest of them.
    pub site: Option<Frame>,
}

/// A request that PyTorch could not meet.
#[derive(Debug, Serialize)]
pub struct Refusal {
    /// Device ordinal.
    pub device: u8,
    /// Bytes asked for.
    pub bytes: u64,
    /// In blocks then, bytes.
    pub allocated_bytes: u64,
    /// In segments then, bytes.
    pub reserved_bytes: u64,
    /// When, seconds.
    pub seconds: f64,
    /// The program's own line.
    pub site: Option<Frame>,
    /// Python's frames, innermost first.
    pub stack: Vec<Frame>,
}

/// A context.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// Handle.
    pub handle: String,
    /// "primary", "created" or "unseen".
    pub origin: &'static str,
    /// References held.
    pub references: u32,
    /// When it began, seconds.
    pub began_seconds: f64,
    /// The call that made it.
    pub call: String,
    /// Who made that call.
    pub caller: String,
    /// Thread.
    pub thread: u32,
    /// When it ended, seconds.
    pub ended_seconds: Option<f64>,
    /// "released", "reset" or "destroyed".
    pub ended_by: Option<&'static str>,
    /// Objects that went with it.
    pub reclaimed_count: u64,
    /// Device memory that went with it, bytes.
    pub reclaimed_bytes: u64,
    /// A thread's stack in it, bytes, where the program has set it.
    pub stack_limit_bytes: Option<u64>,
}

/// Host memory and address space.
#[derive(Debug, Default, Serialize)]
pub struct HostMemory {
    /// Page-locked, bytes.
    pub pinned_bytes: u64,
    /// Number.
    pub pinned_count: u64,
    /// Registered, bytes.
    pub registered_bytes: u64,
    /// Number.
    pub registered_count: u64,
    /// `cuMemCreate` on the host, bytes.
    pub physical_bytes: u64,
    /// Number.
    pub physical_count: u64,
    /// Reserved addresses, bytes: no memory.
    pub reserved_bytes: u64,
    /// Number.
    pub reserved_count: u64,
}

/// A line of a function in a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Frame {
    /// File.
    pub file: String,
    /// Line, 0 unknown.
    pub line: u32,
    /// Function.
    pub function: String,
}

impl Frame {
    /// `file.py:12 function`, the file by its last part.
    pub fn short(&self) -> String {
        self.with_file(self.file.rsplit('/').next().unwrap_or_default())
    }

    /// The same with the whole path.
    pub fn long(&self) -> String {
        self.with_file(&self.file)
    }

    fn with_file(&self, file: &str) -> String {
        match (self.line, self.function.is_empty()) {
            (0, true) => file.to_owned(),
            (0, false) => format!("{file} {}", self.function),
            (line, true) => format!("{file}:{line}"),
            (line, false) => format!("{file}:{line} {}", self.function),
        }
    }
}

impl From<&crate::capture::Frame> for Frame {
    fn from(frame: &crate::capture::Frame) -> Self {
        Self {
            file: frame.file.clone(),
            line: frame.line,
            function: frame.function.clone(),
        }
    }
}

/// Allocations of the same call, stack, size and device.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The call.
    pub call: String,
    /// Library and offset of the caller.
    pub caller: String,
    /// The program's own line: the innermost frame that is not an installed library's.
    pub site: Option<Frame>,
    /// Python's frames, innermost first.
    pub stack: Vec<Frame>,
    /// Why there are none, or fewer than there were.
    pub stack_note: Option<&'static str>,
    /// "linear", "physical", "array", "pool", "graph", "managed", "ipc", "external", "pinned", "registered" or "reserved".
    pub space: &'static str,
    /// Device ordinal.
    pub device: Option<u8>,
    /// Size of each, bytes.
    pub size: u64,
    /// How many.
    pub count: u64,
    /// All of them, bytes.
    pub bytes: u64,
    /// First birth, seconds.
    pub first_seconds: f64,
    /// Last birth, seconds.
    pub last_seconds: f64,
}

/// Refused calls.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// The call.
    pub call: String,
    /// Result code.
    pub result: u16,
    /// Its name, `CUDA_ERROR_…`.
    pub name: String,
    /// How many times.
    pub count: u64,
    /// Greatest size asked for, bytes.
    pub largest_bytes: u64,
    /// First time, seconds.
    pub first_seconds: f64,
    /// Last time, seconds.
    pub last_seconds: f64,
    /// Caller of the last.
    pub caller: String,
}

/// A call that had not returned.
#[derive(Debug, Serialize)]
pub struct InFlight {
    /// The call.
    pub call: String,
    /// Its size argument, bytes.
    pub size: u64,
    /// Its address or handle argument.
    pub address: String,
    /// Thread.
    pub thread: u32,
    /// Name of the thread.
    pub thread_name: String,
}

/// What was noted.
#[derive(Debug, Default, Serialize)]
pub struct Notes {
    /// Abilities that the recorder lost.
    pub degraded: Vec<String>,
    /// UUIDs of private driver tables that were asked for.
    pub export_tables: Vec<String>,
    /// Driver entry points handed out that have no hook.
    pub unhooked: Vec<String>,
}

/// One device over several processes: like columns added up, and only those.
#[derive(Debug, Serialize)]
pub struct Together {
    /// UUID: ordinals differ from process to process.
    pub uuid: String,
    /// Name.
    pub name: String,
    /// "now" for processes that run, "end" for what each had when it ended or was last heard of.
    pub moment: &'static str,
    /// The processes.
    pub pids: Vec<u32>,
    /// Living contexts.
    pub contexts: u64,
    /// Device memory, bytes; what is borrowed counts with its owner.
    pub live_bytes: u64,
    /// Blocks from pools, bytes; the pools themselves are in `live_bytes`.
    pub pool_bytes: u64,
    /// Managed memory, bytes.
    pub managed_bytes: u64,
}
