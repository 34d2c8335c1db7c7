//! Before and after a hooked call.
//!
//! [`begin`] and [`Call::leave`] bracket the driver's own function; between them the thread's entry in the capture names
//! the call, so that a crash inside the driver does too. What gives something is recorded [`after`](Call::after) the driver gave
//! it, what takes something back [`before`](Call::before), with a second record if the driver refuses.

use core::sync::atomic::{AtomicU16, Ordering};

use gpushim_abi::effect::{digest, node, tile};
use gpushim_abi::events::Event;
use gpushim_abi::hooks::{CUDA_SUCCESS, CUresult, Class, Flavor, HookId, Kind, Opaque};
use gpushim_abi::layout::{Counter, slot, thread};

use crate::process::{OPENING, Process, UNOPENED};
use crate::ring::{self, Payload};
use crate::thread::Thread;
use crate::watch::Observation;
use crate::words::{self, Node};
use crate::{capture, driver, stacks, sys, tables};

/// Which device a call is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Device {
    /// That of the calling thread's context.
    Current,
    /// The same, which was asked a moment ago.
    Asked,
    /// This ordinal.
    Ordinal(u8),
    /// Not known here.
    Unknown,
}

impl Device {
    /// An ordinal as programs pass it.
    pub(crate) fn ordinal(device: core::ffi::c_int) -> Self {
        match u8::try_from(device) {
            Ok(ordinal) if ordinal != slot::DEVICE_UNKNOWN => Self::Ordinal(ordinal),
            _ => Self::Unknown,
        }
    }
}

impl Device {
    /// The ordinal, where the call says it.
    fn known(self) -> u8 {
        match self {
            Self::Ordinal(ordinal) => ordinal,
            Self::Current | Self::Asked | Self::Unknown => slot::DEVICE_UNKNOWN,
        }
    }
}

/// What a call says of itself, as the row's words extract it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) hook: HookId,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) device: Device,
    /// [`slot::CAPTURED`], [`slot::OBSERVED`].
    pub(crate) flags: u8,
}

/// A hooked call that is under way in a recorded process.
#[derive(Debug)]
pub(crate) struct Call {
    process: &'static Process,
    thread: *mut Thread,
    return_address: u64,
}

/// Begins a call; `None` where nothing is recorded. The bits of `entry` are the stack pointer at the hook's first instruction.
#[inline]
pub(crate) fn begin(hook: HookId, address: u64, size: u64, entry: f64) -> Option<Call> {
    let process = Process::recording()?;
    Some(enter(process, hook, address, size, entry))
}

fn enter(process: &'static Process, hook: HookId, address: u64, size: u64, entry: f64) -> Call {
    let at = Thread::here();
    // SAFETY: the block is this thread's own; a signal handler that runs hooks meanwhile leaves it as it was.
    let here = unsafe { &mut *at };
    if here.owner != process.id.load(Ordering::Relaxed) {
        tables::meet_thread(process, here);
    }
    // A call that began further down this stack is over: the program jumped out of it, as from a signal handler.
    if here.depth != 0 && entry.to_bits() > here.stack_pointer {
        here.depth = 0;
    }
    if here.depth == 0 {
        here.stack_pointer = entry.to_bits();
        if !here.entry.is_null() {
            show(process, here.entry, hook, address, size);
        }
    }
    here.depth += 1;
    Call {
        process,
        thread: at,
        // SAFETY: the hook's entry code passed the address of its own return address.
        return_address: unsafe { *(entry.to_bits() as *const u64) },
    }
}

/// Names the call in the thread's entry of the capture.
fn show(process: &Process, entry: *mut u8, hook: HookId, address: u64, size: u64) {
    let put = |at: usize, value: u64| {
        // SAFETY: the entry is this thread's own, mapped, and the layout places the word inside it.
        unsafe { entry.wrapping_add(at).cast::<u64>().write(value) };
    };
    put(thread::ADDRESS.start, address);
    put(thread::SIZE.start, size);
    put(thread::HEAD.start, process.head().load(Ordering::Relaxed));
    flight(entry).store(hook as u16, Ordering::Release);
}

fn flight<'e>(entry: *mut u8) -> &'e AtomicU16 {
    // SAFETY: as above; the word is aligned to its size.
    unsafe { AtomicU16::from_ptr(entry.wrapping_add(thread::CALL.start).cast()) }
}

/// A call that succeeded while nothing was recorded may be the first: open the capture, and record this one.
#[cold]
pub(crate) fn first(hook: HookId, status: CUresult, entry: f64) -> Option<Call> {
    match Process::state() {
        UNOPENED if status == CUDA_SUCCESS => {
            let _errno = sys::ErrnoGuard::new();
            capture::open();
            begin(hook, 0, 0, entry)
        }
        OPENING => {
            missed();
            None
        }
        _ => None,
    }
}

/// Whether this thread last made this very context current. Programs make the call again and again, by the million.
#[inline]
pub(crate) fn is_unchanged(context: u64) -> bool {
    let Some(process) = Process::recording() else {
        return false;
    };
    // SAFETY: the block is this thread's own.
    let here = unsafe { &*Thread::here() };
    here.owner == process.id.load(Ordering::Relaxed)
        && here.has_switched
        && here.switched_to == context
}

/// Counts a call of `cuCtxSetCurrent` that changed nothing; it is not recorded.
#[inline]
pub(crate) fn unchanged() {
    // SAFETY: the block is this thread's own.
    let entry = unsafe { (*Thread::here()).entry };
    if entry.is_null() {
        if let Some(process) = Process::recording() {
            process.count(Counter::UnchangedContext, 1);
        }
        return;
    }
    let place = entry.wrapping_add(thread::UNCHANGED.start).cast::<u64>();
    // SAFETY: the entry is this thread's own, mapped, and the layout places the word inside it.
    let counted = unsafe { place.read() };
    // SAFETY: as above.
    unsafe { place.write(counted.wrapping_add(1)) };
}

/// Counts a call that came while another thread was opening the capture.
#[cold]
pub(crate) fn missed() {
    if Process::state() == OPENING
        && let Some(process) = Process::get()
    {
        process.missed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Id of the capture that a stream is in, 0 outside of any and where nothing is recorded.
pub(crate) fn capture(stream: u64) -> u64 {
    if Process::recording().is_none() {
        return 0;
    }
    driver::capture(stream).unwrap_or(0)
}

/// Whether a launched graph may hold memory.
#[inline]
pub(crate) fn has_memory_nodes() -> bool {
    Process::recording().is_some_and(|process| process.watch.has_memory_nodes())
}

/// After a wait: pools may have given memory back.
#[inline]
pub(crate) fn waited(entry: f64) {
    if let Some(process) = Process::recording()
        && process.watch.is_due()
    {
        look_at_pools(process, entry);
    }
}

#[cold]
fn look_at_pools(process: &'static Process, entry: f64) {
    let call = enter(process, HookId::cuMemPoolGetAttribute, 0, 0, entry);
    process
        .watch
        .look_at_all(call.device(), |seen| call.observed(seen));
    call.leave();
}

impl Call {
    /// Records a call once the driver has answered. What the row needs beside its record is decided when this is compiled: most need
    /// nothing.
    #[inline(always)]
    pub(crate) fn after<const CALL: u16>(
        &self,
        facts: &mut Facts,
        flavor: Flavor,
        status: CUresult,
    ) {
        if const { moves_contexts(CALL) } {
            self.process.context_epoch.fetch_add(1, Ordering::Relaxed);
        }
        if const { makes_current(CALL) } {
            // SAFETY: the block is this thread's own.
            unsafe { (*self.thread).has_switched = false };
        }
        if const { concerns_pools_or_graphs(CALL) } && status == CUDA_SUCCESS {
            self.watched(facts, flavor);
            return;
        }
        let result = u16::try_from(status).unwrap_or(slot::RESULT_PENDING - 1);
        self.record(facts, result, facts.a, 0);
    }

    /// Records a successful call that a pool or a graph is part of, and what these say of themselves afterwards, if it is new.
    fn watched(&self, facts: &mut Facts, flavor: Flavor) {
        let watch = &self.process.watch;
        let hook = facts.hook;
        match hook.kind() {
            Kind::Alloc(Class::PoolBlock) => {
                let device = self.device();
                facts.device = Device::Asked;
                if self.was_captured(facts, flavor) {
                    watch.memory_node(device);
                    self.record(facts, 0, facts.a, 0);
                    return;
                }
                let given = matches!(
                    hook,
                    HookId::cuMemAllocFromPoolAsync | HookId::cuMemAllocFromPoolAsync_ptsz
                );
                if !given {
                    facts.b = watch.current_pool(device);
                }
                let at_ns = self.record(facts, 0, facts.a, 0);
                let known = if given { slot::DEVICE_UNKNOWN } else { device };
                watch.allocated(facts.b, known, device, facts.size, at_ns, |seen| {
                    self.observed(seen);
                });
            }
            Kind::Alloc(Class::GraphBlock) => {
                watch.memory_node(facts.device.known());
                self.record(facts, 0, facts.a, 0);
            }
            Kind::CaptureBegin => {
                watch.capture_began();
                self.record(facts, 0, facts.a, 0);
            }
            Kind::PoolCurrent => {
                watch.forget_current();
                self.record(facts, 0, facts.a, 0);
            }
            Kind::PoolTrim => {
                self.record(facts, 0, facts.a, 0);
                watch.look_at(facts.address, |seen| self.observed(seen));
            }
            _ => {
                self.record(facts, 0, facts.a, 0);
                watch.look_at_graphs(|seen| self.observed(seen));
            }
        }
    }

    /// Whether a stream-ordered call was made on a stream that is being captured; then the record says so.
    fn was_captured(&self, facts: &mut Facts, flavor: Flavor) -> bool {
        if !self.process.watch.has_captures() {
            return false;
        }
        match driver::capture(words::stream(facts.a, flavor)) {
            Some(id) => {
                facts.flags |= slot::CAPTURED;
                facts.b = id;
                true
            }
            None => false,
        }
    }

    /// The calling thread's device.
    fn device(&self) -> u8 {
        // SAFETY: the block is this thread's own.
        let here = unsafe { &mut *self.thread };
        tables::current_context(self.process, here).1
    }

    /// Records what a pool or a device's graphs said when the recorder asked.
    fn observed(&self, seen: Observation) {
        let (hook, attribute) = match seen.pool {
            0 => (HookId::cuDeviceGetGraphMemAttribute, GRAPHS_RESERVED),
            _ => (HookId::cuMemPoolGetAttribute, POOL_RESERVED),
        };
        let facts = Facts {
            hook,
            address: seen.pool,
            size: 0,
            a: attribute,
            b: seen.reserved,
            device: Device::ordinal(seen.device.into()),
            flags: slot::OBSERVED,
        };
        self.record(&facts, 0, facts.a, 0);
    }

    /// Records a node that matters to memory.
    pub(crate) fn node(&self, facts: &mut Facts, node: Node) {
        if !node.matters() {
            return;
        }
        facts.address = node.address;
        facts.size = node.size;
        facts.b = node.kind.into();
        facts.device = words::on(node.location);
        if node.kind == node::ALLOCATES {
            self.process.watch.memory_node(facts.device.known());
        }
        self.record(facts, 0, facts.a, 0);
    }

    /// Records the parts of sparse arrays that were mapped and unmapped.
    ///
    /// # Safety
    /// The driver has read `count` entries of `CUarrayMapInfo` at `list`.
    pub(crate) unsafe fn tiles(&self, facts: &Facts, list: *const Opaque, count: u32) {
        /// `CU_MEM_OPERATION_TYPE_MAP` and `CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL`.
        const MAP: u32 = 1;
        const MIP_TAIL: u32 = 1;
        for n in 0..count as usize {
            let entry = list.cast::<u8>().wrapping_add(n * tile::LEN);
            let word = |offset| {
                // SAFETY: the caller's promise.
                unsafe { words::field::<u64, u8>(entry, offset) }
            };
            // SAFETY: likewise.
            let part = digest(&unsafe { entry.cast::<[u8; tile::OPERATION]>().read_unaligned() });
            let maps = word(tile::OPERATION) as u32 == MAP;
            let facts = Facts {
                address: word(tile::RESOURCE),
                // Of other parts there are extents, which are no bytes.
                size: if word(tile::PART_TYPE) as u32 == MIP_TAIL {
                    word(tile::TAIL_SIZE)
                } else {
                    0
                },
                a: if maps { word(tile::HANDLE) } else { 0 },
                b: part,
                ..*facts
            };
            self.record(&facts, 0, facts.a, 0);
        }
    }

    /// Records the end of a capture. It may fail, for one that was invalidated, and end all the same.
    pub(crate) fn capture_ended(&self, facts: &mut Facts, flavor: Flavor, status: CUresult) {
        if facts.b != 0 && driver::capture(words::stream(facts.a, flavor)).is_none() {
            facts.size = 1;
        }
        let result = u16::try_from(status).unwrap_or(slot::RESULT_PENDING - 1);
        self.record(facts, result, facts.a, 0);
    }

    /// Records a call that is about to take something back; what [`refused`](Self::refused) needs.
    #[inline(always)]
    pub(crate) fn before<const CALL: u16>(&self, facts: &mut Facts, flavor: Flavor) -> Option<u64> {
        let is = |hook: HookId| CALL == hook as u16;
        if is(HookId::cuMemFreeAsync) || is(HookId::cuMemFreeAsync_ptsz) {
            self.was_captured(facts, flavor);
            self.process.watch.freed();
        } else if is(HookId::cuMemFree_v2) {
            self.process.watch.freed();
        } else if is(HookId::cuMemPoolDestroy) {
            self.process.watch.forget(facts.address);
        }
        self.stored(facts, slot::RESULT_PENDING, facts.a, 0)
    }

    /// After a call recorded by [`before`](Self::before): takes the record back if the driver refused.
    #[inline]
    pub(crate) fn settle<const CALL: u16>(
        &self,
        facts: &Facts,
        pending: Option<u64>,
        status: CUresult,
    ) {
        if const { moves_contexts(CALL) } {
            self.process.context_epoch.fetch_add(1, Ordering::Relaxed);
        }
        if status != CUDA_SUCCESS {
            self.refused(facts, pending, status);
        }
    }

    #[cold]
    fn refused(&self, facts: &Facts, pending: Option<u64>, status: CUresult) {
        if facts.hook == HookId::cuMemPoolDestroy {
            self.process.watch.remember(facts.address);
        }
        let result = u16::try_from(status).unwrap_or(slot::RESULT_PENDING - 1);
        // 0 where the first record was dropped: there is nothing to take back.
        let takes_back = pending.map_or(0, |sequence| sequence + 1);
        self.record(facts, result, takes_back, slot::REFUSED);
    }

    /// Records a call of `cuCtxSetCurrent` that [`is_unchanged`] did not know, or that failed.
    pub(crate) fn switched(&self, facts: &mut Facts, status: CUresult) {
        const CALL: u16 = HookId::cuCtxSetCurrent as u16;
        self.after::<CALL>(facts, Flavor::Legacy, status);
        if status == CUDA_SUCCESS {
            // SAFETY: the block is this thread's own.
            let here = unsafe { &mut *self.thread };
            here.has_switched = true;
            here.switched_to = facts.address;
        }
    }

    /// Stores a record; its time, CLOCK_MONOTONIC ns.
    fn record(&self, facts: &Facts, result: u16, a: u64, flags: u8) -> u64 {
        let at_ns = sys::monotonic_ns();
        self.store(facts, result, a, flags, at_ns);
        at_ns
    }

    /// Stores a record; its sequence number, `None` when it was dropped.
    fn stored(&self, facts: &Facts, result: u16, a: u64, flags: u8) -> Option<u64> {
        self.store(facts, result, a, flags, sys::monotonic_ns())
    }

    fn store(&self, facts: &Facts, result: u16, a: u64, flags: u8, at_ns: u64) -> Option<u64> {
        // SAFETY: the block is this thread's own.
        let here = unsafe { &mut *self.thread };
        let (context, current) = match facts.device {
            Device::Asked => (here.context_index, here.context_device),
            _ => tables::current_context(self.process, here),
        };
        let device = match facts.device {
            Device::Current | Device::Asked => current,
            Device::Ordinal(ordinal) => ordinal,
            Device::Unknown => slot::DEVICE_UNKNOWN,
        };
        // Not every call inside another is the driver's own: a signal handler's is the program's.
        let nested = if here.depth > 1 && driver::is_inside(self.return_address) {
            slot::NESTED
        } else {
            0
        };
        let stack = stacks::of_call(self.process, here, self.return_address, at_ns);
        ring::record(
            self.process,
            &Payload {
                call: facts.hook as u16,
                result,
                at_ns,
                address: facts.address,
                size: facts.size,
                a,
                b: facts.b,
                thread: here.id,
                stack,
                context,
                stream: 0,
                device,
                flags: flags | facts.flags | nested,
            },
        )
    }

    /// Ends the call.
    #[inline]
    pub(crate) fn leave(self) {
        // SAFETY: the block is this thread's own.
        let here = unsafe { &mut *self.thread };
        here.depth = here.depth.saturating_sub(1);
        if here.depth == 0 && !here.entry.is_null() {
            flight(here.entry).store(0, Ordering::Release);
        }
    }
}

/// What is recorded that is no driver call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// [`slot::DEVICE_UNKNOWN`] for none.
    pub(crate) device: u8,
}

/// Records an event of this thread's that is no driver call.
#[inline]
pub(crate) fn tell(told: &Told) {
    let Some(process) = Process::recording() else {
        return;
    };
    // SAFETY: the block is this thread's own; a signal handler that runs hooks meanwhile leaves it as it was.
    let here = unsafe { &mut *Thread::here() };
    if here.owner != process.id.load(Ordering::Relaxed) {
        tables::meet_thread(process, here);
    }
    tell_at(process, here, told, sys::monotonic_ns());
}

/// Records an event from before there was a capture, without the stack that it had.
pub(crate) fn tell_early(process: &Process, told: &Told, at_ns: u64) {
    let mut payload = told.payload();
    payload.at_ns = at_ns;
    payload.thread = sys::thread_id();
    ring::record(process, &payload);
}

impl Told {
    #[inline]
    fn payload(&self) -> Payload {
        Payload {
            call: self.event as u16,
            address: self.address,
            size: self.size,
            a: self.a,
            b: self.b,
            context: slot::CONTEXT_NONE,
            device: self.device,
            ..Payload::default()
        }
    }
}

#[inline]
fn tell_at(process: &Process, here: &mut Thread, told: &Told, at_ns: u64) {
    let stack = stacks::of_event(process, here, at_ns);
    let stream = here.streams.get(usize::from(told.device)).map_or(0, |n| *n);
    ring::record(
        process,
        &Payload {
            at_ns,
            thread: here.id,
            stack,
            stream,
            ..told.payload()
        },
    );
}

/// Keeps the stream of PyTorch's that this thread has made current on a device.
pub(crate) fn stream(device: u8, id: u64) {
    let Some(process) = Process::recording() else {
        return;
    };
    // SAFETY: as in `tell`.
    let here = unsafe { &mut *Thread::here() };
    if here.owner != process.id.load(Ordering::Relaxed) {
        tables::meet_thread(process, here);
    }
    if let Some(place) = here.streams.get_mut(usize::from(device)) {
        *place = tables::stream(process, device, id);
    }
}

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
const POOL_RESERVED: u64 = 5;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const GRAPHS_RESERVED: u64 = 2;

/// Whether a successful call needs more than its own record.
const fn concerns_pools_or_graphs(call: u16) -> bool {
    matches!(
        kind(call),
        Kind::Alloc(Class::PoolBlock | Class::GraphBlock | Class::GraphExec)
            | Kind::CaptureBegin
            | Kind::PoolCurrent
            | Kind::PoolTrim
            | Kind::GraphUpload
            | Kind::GraphLaunch
            | Kind::GraphTrim
    )
}

/// Whether a call can begin or end a context, so that a handle may come to mean another one.
const fn moves_contexts(call: u16) -> bool {
    matches!(
        kind(call),
        Kind::PrimaryRetain
            | Kind::PrimaryRelease
            | Kind::PrimaryReset
            | Kind::ContextCreate
            | Kind::ContextDestroy
            | Kind::ContextAttach
            | Kind::ContextDetach
            | Kind::GreenCreate
            | Kind::GreenDestroy
    )
}

/// Whether a call makes another context current than `cuCtxSetCurrent` last did.
const fn makes_current(call: u16) -> bool {
    matches!(kind(call), Kind::ContextSwitch | Kind::ContextCreate)
}

/// What a call does.
const fn kind(call: u16) -> Kind {
    match HookId::from_raw(call) {
        Some(hook) => hook.kind(),
        None => Kind::Sync,
    }
}
