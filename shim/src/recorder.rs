//! Before and after a hooked call.
//!
//! [`begin`] and [`Call::leave`] bracket the driver's own function; between them the thread's entry in the capture names
//! the call, so that a crash inside the driver does too. What gives something is recorded [`after`](Call::after) the driver gave
//! it, what takes something back [`before`](Call::before), with a second record if the driver refuses.

use core::sync::atomic::{AtomicU16, Ordering};

use gpushim_abi::hooks::{CUDA_SUCCESS, CUresult, HookId, Kind};
use gpushim_abi::layout::{Counter, slot, thread};

use crate::process::{OPENING, Process, UNOPENED};
use crate::ring::{self, Payload};
use crate::thread::Thread;
use crate::{capture, sys, tables};

/// Which device a call is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Device {
    /// That of the calling thread's context.
    Current,
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

/// What a call says of itself, as the row's words extract it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) hook: HookId,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) device: Device,
}

/// A hooked call that is under way in a recorded process.
#[derive(Debug)]
pub(crate) struct Call {
    process: &'static Process,
    thread: *mut Thread,
    return_address: u64,
}

/// Begins a call; `None` where nothing is recorded. `entry` is the stack pointer at the hook's first instruction.
#[inline]
pub(crate) fn begin(hook: HookId, address: u64, size: u64, entry: *const usize) -> Option<Call> {
    let process = Process::recording()?;
    Some(enter(process, hook, address, size, entry))
}

fn enter(
    process: &'static Process,
    hook: HookId,
    address: u64,
    size: u64,
    entry: *const usize,
) -> Call {
    let at = Thread::here();
    // SAFETY: the block is this thread's own; a signal handler that runs hooks meanwhile leaves it as it was.
    let here = unsafe { &mut *at };
    if here.owner != process.id.load(Ordering::Relaxed) {
        tables::meet_thread(process, here);
    }
    if here.depth == 0 && !here.entry.is_null() {
        show(process, here.entry, hook, address, size);
    }
    here.depth += 1;
    Call {
        process,
        thread: at,
        // SAFETY: the hook's entry code passed the address of its own return address.
        return_address: unsafe { *entry } as u64,
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
pub(crate) fn first(hook: HookId, status: CUresult, entry: *const usize) -> Option<Call> {
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

/// Counts a call that came while another thread was opening the capture.
#[cold]
pub(crate) fn missed() {
    if Process::state() == OPENING
        && let Some(process) = Process::get()
    {
        process.missed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Call {
    /// Records a call once the driver has answered.
    #[inline]
    pub(crate) fn after(&self, facts: &Facts, status: CUresult) {
        if moves_contexts(facts.hook) {
            self.process.context_epoch.fetch_add(1, Ordering::Relaxed);
        }
        let result = u16::try_from(status).unwrap_or(slot::RESULT_PENDING - 1);
        self.record(facts, result, facts.a, 0);
    }

    /// Records a call that is about to take something back; what [`refused`](Self::refused) needs.
    #[inline]
    pub(crate) fn before(&self, facts: &Facts) -> Option<u64> {
        self.record(facts, slot::RESULT_PENDING, facts.a, 0)
    }

    /// After a call recorded by [`before`](Self::before): takes the record back if the driver refused.
    #[inline]
    pub(crate) fn settle(&self, facts: &Facts, pending: Option<u64>, status: CUresult) {
        if moves_contexts(facts.hook) {
            self.process.context_epoch.fetch_add(1, Ordering::Relaxed);
        }
        if status != CUDA_SUCCESS {
            self.refused(facts, pending, status);
        }
    }

    #[cold]
    fn refused(&self, facts: &Facts, pending: Option<u64>, status: CUresult) {
        let result = u16::try_from(status).unwrap_or(slot::RESULT_PENDING - 1);
        // 0 where the first record was dropped: there is nothing to take back.
        let takes_back = pending.map_or(0, |sequence| sequence + 1);
        self.record(facts, result, takes_back, slot::REFUSED);
    }

    /// Records `cuCtxSetCurrent` when it changes what this thread last made current, or fails. Programs make this
    /// call by the million; the unchanged ones are counted.
    pub(crate) fn switched(&self, facts: &Facts, status: CUresult) {
        // SAFETY: the block is this thread's own.
        let here = unsafe { &mut *self.thread };
        if status == CUDA_SUCCESS {
            if here.has_switched && here.switched_to == facts.address {
                self.process.count(Counter::UnchangedContext, 1);
                return;
            }
            here.has_switched = true;
            here.switched_to = facts.address;
        }
        self.after(facts, status);
    }

    fn record(&self, facts: &Facts, result: u16, a: u64, flags: u8) -> Option<u64> {
        // SAFETY: the block is this thread's own.
        let here = unsafe { &mut *self.thread };
        let (context, current) = tables::current_context(self.process, here);
        let device = match facts.device {
            Device::Current => current,
            Device::Ordinal(ordinal) => ordinal,
            Device::Unknown => slot::DEVICE_UNKNOWN,
        };
        let nested = if here.depth > 1 { slot::NESTED } else { 0 };
        ring::record(
            self.process,
            &Payload {
                call: facts.hook as u16,
                result,
                at_ns: sys::monotonic_ns(),
                address: facts.address,
                size: facts.size,
                a,
                b: facts.b,
                thread: here.id,
                stack: tables::native_stack(self.process, self.return_address),
                context,
                phase: 0,
                device,
                flags: flags | nested,
            },
        )
    }

    /// Ends the call.
    #[inline]
    pub(crate) fn leave(self) {
        // SAFETY: the block is this thread's own.
        let here = unsafe { &mut *self.thread };
        here.depth -= 1;
        if here.depth == 0 && !here.entry.is_null() {
            flight(here.entry).store(0, Ordering::Release);
        }
    }
}

/// Whether a call can begin or end a context, so that a handle may come to mean another one.
const fn moves_contexts(hook: HookId) -> bool {
    matches!(
        hook.hook().kind,
        Kind::PrimaryRetain
            | Kind::PrimaryRelease
            | Kind::PrimaryReset
            | Kind::ContextCreate
            | Kind::ContextDestroy
            | Kind::ContextAttach
            | Kind::ContextDetach
    )
}
