//! The state of this process: whether a capture is open, and where its parts are mapped.
//!
//! It lives in a page that a forked child sees as zeros (MADV_WIPEONFORK), so a child starts with nothing, costs
//! nothing, and opens a capture of its own if it touches CUDA. Where the kernel cannot wipe, every call asks for
//! the process id instead.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ptr::NonNull;

use gpushim_abi::layout::{Counter, Region, header, region};

use crate::autograd::Autograd;
use crate::python::Python;
use crate::safe::Pages;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sys;
use crate::watch::Watch;

/// Nothing was tried yet.
pub(crate) const UNOPENED: u32 = 0;
/// A thread is making the capture; the others pass through.
pub(crate) const OPENING: u32 = 1;
/// Records are being made.
pub(crate) const OPEN: u32 = 2;
/// There will be no capture: switched off, or it could not be made.
pub(crate) const OFF: u32 = 3;

/// Longest path of a capture, bytes with the NUL.
pub(crate) const PATH_MAX: usize = 4096;
/// Slots of the look-up tables of stack nodes, frames and texts; powers of two.
pub(crate) const STACK_SLOTS: usize = 1 << 18;
pub(crate) const FRAME_SLOTS: usize = 1 << 16;
pub(crate) const TEXT_SLOTS: usize = 1 << 16;

/// A region, as this process sees it. The numbers are private: what another process scribbles into the
/// capture cannot lead a write astray.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Part {
    base: AtomicPtr<u8>,
    pub(crate) offset: AtomicU64,
    pub(crate) reserved: AtomicU64,
    pub(crate) ready: AtomicU64,
    pub(crate) count: AtomicU64,
}

/// The state of one process.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Process {
    pub(crate) state: AtomicU32,
    /// Process that the state belongs to.
    pub(crate) id: AtomicU32,
    /// Calls that came while the capture was being opened.
    pub(crate) missed: AtomicU64,
    base: AtomicPtr<u8>,
    /// Binary logarithm of the number of slots, as the ring wraps now.
    pub(crate) ring_shift: AtomicU32,
    /// Raised whenever a context may have begun or ended.
    pub(crate) context_epoch: AtomicU32,
    pub(crate) parts: [Part; Region::ALL.len()],
    /// What pools and graphs held when they were asked last.
    pub(crate) watch: Watch,
    /// How far the facts of `tables::note` were written; odd while a thread is at it.
    pub(crate) notes_done: AtomicU32,
    /// Number of slots by which the ring wraps, once it cannot grow any more.
    frozen: AtomicU64,
    /// Device and inode of the capture, to be sure that its path still names it.
    pub(crate) file: [AtomicU64; 2],
    /// Path of the capture, NUL-terminated; written while opening, read afterwards.
    path: UnsafeCell<[u8; PATH_MAX]>,
    /// Which frames stacks have, as [`Stacks`](crate::stacks) has it.
    pub(crate) stacks: AtomicU32,
    /// Stack nodes, frames and interned texts by hash.
    pub(crate) stack_index: [AtomicU32; STACK_SLOTS],
    pub(crate) frame_index: [AtomicU32; FRAME_SLOTS],
    pub(crate) text_index: [AtomicU64; TEXT_SLOTS],
    /// Pages that can be read.
    pub(crate) pages: Pages,
    /// The interpreter.
    pub(crate) python: Python,
    /// Backward passes.
    pub(crate) autograd: Autograd,
}

// SAFETY: `path` is the only field that is not an atomic; it is written by the one thread that is opening the
// capture, before the release store of OPEN that every reader has acquired.
unsafe impl Sync for Process {}

/// Where the state is; null until the first attempt to open a capture.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());
/// 1 where the kernel does not wipe the state in a forked child.
static ASK_KERNEL: AtomicU32 = AtomicU32::new(0);

impl Process {
    /// The state of this process with an open capture.
    #[inline]
    pub(crate) fn recording() -> Option<&'static Self> {
        let process = Self::existing()?;
        (process.state.load(Ordering::Acquire) == OPEN).then_some(process)
    }

    #[inline]
    fn existing() -> Option<&'static Self> {
        let at = NonNull::new(PROCESS.load(Ordering::Acquire))?;
        // SAFETY: the page is never given back, every field is an atomic or is written while opening only, and
        // zeros are valid for all of them.
        let process = unsafe { at.as_ref() };
        if ASK_KERNEL.load(Ordering::Relaxed) != 0 {
            Self::forget_parent(process);
        }
        Some(process)
    }

    /// A kernel before 4.14 hands the child a copy of its parent's state.
    #[cold]
    fn forget_parent(process: &Self) {
        let here = sys::process_id();
        let owner = process.id.load(Ordering::Relaxed);
        if owner != here && owner != 0 {
            process.state.store(UNOPENED, Ordering::Release);
            process.id.store(here, Ordering::Relaxed);
            process.missed.store(0, Ordering::Relaxed);
            process.watch.begin();
            for slot in process.stack_index.iter().chain(&process.frame_index) {
                slot.store(0, Ordering::Relaxed);
            }
            for slot in &process.text_index {
                slot.store(0, Ordering::Relaxed);
            }
            process.python.begin();
            process.autograd.begin();
        }
    }

    /// The state, made if there is none yet; `None` when the process has no memory for it.
    pub(crate) fn get() -> Option<&'static Self> {
        if let Some(process) = Self::existing() {
            return Some(process);
        }
        let (fresh, wiped) = sys::private_memory(size_of::<Self>())?;
        if !wiped {
            ASK_KERNEL.store(1, Ordering::Relaxed);
        }
        if PROCESS
            .compare_exchange(
                core::ptr::null_mut(),
                fresh.cast(),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_err()
        {
            // SAFETY: the mapping was never published.
            unsafe { sys::unmap(fresh, size_of::<Self>()) };
        }
        Self::existing()
    }

    /// State of the capture, without making anything.
    pub(crate) fn state() -> u32 {
        Self::existing().map_or(UNOPENED, |process| process.state.load(Ordering::Acquire))
    }

    /// Keeps the capture's path. Called once, while opening.
    pub(crate) fn keep_path(&self, path: &CStr) {
        let bytes = path.to_bytes_with_nul();
        let len = bytes.len().min(PATH_MAX - 1);
        // SAFETY: nobody else reads or writes the path while the capture is being opened, and the last byte stays NUL.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.path.get().cast(), len) };
    }

    /// The capture's path.
    pub(crate) fn path(&self) -> &CStr {
        // SAFETY: written before OPEN was published, and its last byte is NUL.
        let bytes = unsafe { &*self.path.get() };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    /// Says where the capture is mapped. Called once, while opening.
    pub(crate) fn attach(&self, base: *mut u8) {
        self.base.store(base, Ordering::Relaxed);
    }

    /// First byte of the capture.
    fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    /// Where an offset of the file is mapped.
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        self.base().wrapping_add(offset as usize)
    }

    /// A word of the header, at one of the layout's offsets.
    pub(crate) fn header64(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= header::LEN);
        // SAFETY: the header is mapped and allocated for the life of the process; the offset is a constant of the
        // layout inside it, aligned to eight bytes.
        unsafe { AtomicU64::from_ptr(self.base().wrapping_add(at).cast()) }
    }

    /// Copies bytes into the header, at one of the layout's offsets.
    pub(crate) fn put_header(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= header::LEN);
        // SAFETY: as in `header64`; only the thread that opens the capture writes so.
        let to = unsafe { self.base().add(at) };
        // SAFETY: source and mapping are different memory, and the length stays in the header.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Adds to one of the capture's counters.
    #[cold]
    pub(crate) fn count(&self, counter: Counter, by: u64) {
        self.header64(counter.at().start)
            .fetch_add(by, Ordering::Relaxed);
    }

    /// The next sequence number.
    pub(crate) fn head(&self) -> &AtomicU64 {
        self.header64(header::HEAD.start)
    }

    /// Whether the ring wraps at its ready length.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed) != 0
    }

    /// Says at which length the ring wraps. Called once, while opening.
    pub(crate) fn wrap_at(&self, shift: u32) {
        self.frozen.store(0, Ordering::Relaxed);
        self.ring_shift.store(shift, Ordering::Relaxed);
    }

    /// Makes the ring wrap at this number of slots, a power of two; the first to say so wins.
    pub(crate) fn freeze(&self, slots: u64) {
        if self
            .frozen
            .compare_exchange(0, slots, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            self.header64(header::FROZEN.start)
                .store(slots, Ordering::Release);
            self.ring_shift
                .store(slots.trailing_zeros(), Ordering::Release);
        }
    }

    /// A region.
    pub(crate) fn part(&self, which: Region) -> &Part {
        &self.parts[which.index()]
    }

    /// Says where a region is. Called once each, while opening.
    pub(crate) fn place(&self, which: Region, offset: u64, reserved: u64, ready: u64) {
        let part = self.part(which);
        // SAFETY: the mapping is as long as the plan, and the offset comes from the plan.
        let base = unsafe { self.base().add(offset as usize) };
        part.base.store(base, Ordering::Relaxed);
        part.offset.store(offset, Ordering::Relaxed);
        part.reserved.store(reserved, Ordering::Relaxed);
        part.ready.store(ready, Ordering::Relaxed);
        part.count.store(0, Ordering::Relaxed);
        let entry = header::REGIONS + which.index() * region::LEN;
        let length = which.entry_len() as u32;
        self.put_header(entry + region::KIND.start, &(which as u32).to_le_bytes());
        self.put_header(entry + region::ENTRY_LEN.start, &length.to_le_bytes());
        self.put_header(entry + region::OFFSET.start, &offset.to_le_bytes());
        self.put_header(entry + region::RESERVED.start, &reserved.to_le_bytes());
        self.put_header(entry + region::READY.start, &ready.to_le_bytes());
    }

    /// Publishes that a region has become longer.
    pub(crate) fn publish_ready(&self, which: Region, ready: u64) {
        let entry = header::REGIONS + which.index() * region::LEN;
        self.header64(entry + region::READY.start)
            .fetch_max(ready, Ordering::Release);
        self.part(which).ready.fetch_max(ready, Ordering::Release);
    }

    /// Publishes how many entries of a region were claimed.
    pub(crate) fn publish_count(&self, which: Region, count: u64) {
        let entry = header::REGIONS + which.index() * region::LEN;
        self.header64(entry + region::COUNT.start)
            .fetch_max(count, Ordering::Relaxed);
    }
}

impl Part {
    /// Address of `len` bytes at `at`, if they lie in what is allocated.
    #[inline]
    pub(crate) fn bytes(&self, at: u64, len: u64) -> Option<NonNull<u8>> {
        if at.checked_add(len)? > self.ready.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: inside the region, which is mapped for the life of the process.
        NonNull::new(unsafe { self.base.load(Ordering::Relaxed).add(at as usize) })
    }
}
