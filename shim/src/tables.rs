//! What records refer to: stacks, contexts, threads, modules, devices, and the texts and notes beside them.
//!
//! Every table is append-only. An entry is claimed by counting, filled with plain stores, and completed by one
//! release store of its first (for stacks and notes: its kind) word; the reader takes no notice of incomplete ones.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::NonNull;

use gpushim_abi::layout::{
    Counter, Region, context, device, frame, module, note as note_layout, slot, stack, stream,
    thread,
};

use crate::process::{Process, TEXT_SLOTS};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::thread::Thread;
use crate::{capture, driver, elf, sys};

/// Claims one entry of a table; counts the loss when it is full.
fn claim(process: &Process, which: Region, lost: Counter) -> Option<(u64, NonNull<u8>)> {
    claim_bytes(process, which, 1, lost)
}

fn claim_bytes(
    process: &Process,
    which: Region,
    entries: u64,
    lost: Counter,
) -> Option<(u64, NonNull<u8>)> {
    let part = process.part(which);
    let len = which.entry_len() as u64;
    let index = part.count.fetch_add(entries, Ordering::Relaxed);
    let at = index * len;
    let mut found = part.bytes(at, entries * len);
    if found.is_none() {
        capture::grow(process, which, at + entries * len);
        found = part.bytes(at, entries * len);
    }
    match found {
        Some(at) => {
            process.publish_count(which, index + entries);
            Some((index, at))
        }
        None => {
            process.count(lost, 1);
            None
        }
    }
}

/// A claimed entry being filled.
struct Entry(NonNull<u8>);

impl Entry {
    fn put(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the layout places the field inside the entry, which `claim` found to be allocated.
        let to = unsafe { self.0.as_ptr().add(at) };
        // SAFETY: source and capture are different memory; until it is completed the entry is ours.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    fn complete(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as in `put`; the layout aligns the word.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().wrapping_add(at).cast()) }
    }

    fn word64(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as in `put`; the layout aligns the word.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().wrapping_add(at).cast()) }
    }
}

/// A text's reference: offset and length.
pub(crate) type TextRef = [u8; 8];

/// Stores a text; the empty reference when there is no room (counted).
pub(crate) fn text(process: &Process, bytes: &[u8]) -> TextRef {
    let mut reference = [0; 8];
    if bytes.is_empty() {
        return reference;
    }
    if let Some((offset, at)) = claim_bytes(
        process,
        Region::Strings,
        bytes.len() as u64,
        Counter::TextsFull,
    ) {
        Entry(at).put(0, bytes);
        let (low, high) = reference.split_at_mut(4);
        low.copy_from_slice(&(offset as u32).to_le_bytes());
        high.copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    reference
}

/// Bytes for facts that are learnt before there is a capture: libraries look the driver's functions up first.
const EARLY_LEN: usize = 48 * 1024;
/// Slots for telling facts that were noted before; a power of two.
const SEEN_SLOTS: usize = 4096;

struct Early {
    bytes: UnsafeCell<[u8; EARLY_LEN]>,
    used: AtomicU32,
}

// SAFETY: each writer has the bytes that it claimed from `used` for itself until it publishes them through the first
// byte of its fact, and they do not change afterwards.
unsafe impl Sync for Early {}

static EARLY: Early = Early {
    bytes: UnsafeCell::new([0; EARLY_LEN]),
    used: AtomicU32::new(0),
};
/// Hashes of the facts noted so far.
static SEEN: [AtomicU32; SEEN_SLOTS] = [const { AtomicU32::new(0) }; SEEN_SLOTS];
/// Counters that were raised before there is a capture.
static EARLY_COUNTS: [AtomicU64; Counter::ALL.len()] =
    [const { AtomicU64::new(0) }; Counter::ALL.len()];

/// Raises a counter, whether there is a capture or not.
pub(crate) fn tally(counter: Counter) {
    match Process::recording() {
        Some(process) => process.count(counter, 1),
        None => {
            EARLY_COUNTS[counter as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Notes a fact, the first time that it is seen.
pub(crate) fn note(kind: u32, value: u32, bytes: &[u8]) {
    if seen(kind, bytes) {
        return;
    }
    let _errno = sys::ErrnoGuard::new();
    // Always kept, for a forked child too, which makes a capture of its own from the same facts.
    keep(kind, value, bytes);
    if let Some(process) = Process::recording() {
        flush(process);
    }
}

/// Whether a fact was noted before. Two facts with the same hash count as one; the counters do not depend on it.
fn seen(kind: u32, bytes: &[u8]) -> bool {
    let hash = bytes.iter().fold(0x811c_9dc5 ^ kind, |h, &b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    }) | 1;
    let start = hash as usize >> 1;
    for step in 0..SEEN_SLOTS {
        let Some(slot) = SEEN.get((start + step) % SEEN_SLOTS) else {
            return true;
        };
        match slot.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return false,
            Err(held) if held == hash => return true,
            Err(_) => {}
        }
    }
    true
}

/// Length of a kept fact's head: committed, kind, length, value.
const FACT_HEAD: usize = 8;

fn keep(kind: u32, value: u32, bytes: &[u8]) {
    let bytes = bytes.get(..255).unwrap_or(bytes);
    let len = (FACT_HEAD + bytes.len()).next_multiple_of(4);
    let at = EARLY.used.fetch_add(len as u32, Ordering::Relaxed) as usize;
    if at + len > EARLY_LEN {
        EARLY.used.fetch_sub(len as u32, Ordering::Relaxed);
        tally(Counter::TextsFull);
        return;
    }
    let fact = early(at);
    fact.put(4, &value.to_le_bytes());
    fact.put(FACT_HEAD, bytes);
    fact.complete(0, 1 | kind << 8 | (bytes.len() as u32) << 16);
}

/// The fact at an offset of the early bytes, which is inside them.
fn early(at: usize) -> Entry {
    // SAFETY: callers stay inside the array.
    let at = unsafe { EARLY.bytes.get().cast::<u8>().add(at) };
    // SAFETY: an address inside a static is not null.
    Entry(unsafe { NonNull::new_unchecked(at) })
}

/// Writes the facts kept so far that the capture does not have yet. One thread at a time; a thread that comes
/// meanwhile leaves its fact to the next.
pub(crate) fn flush(process: &Process) {
    let done = &process.notes_done;
    loop {
        let from = done.load(Ordering::Acquire);
        let at = from as usize;
        if from & 1 != 0 || at + FACT_HEAD > EARLY_LEN {
            return;
        }
        let fact = early(at);
        let head = fact.word(0).load(Ordering::Acquire);
        if head & 1 == 0 {
            return;
        }
        // Offsets are multiples of 4; an odd one means that a thread is at work here.
        if done
            .compare_exchange(from, from | 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            continue;
        }
        let len = (head >> 16) as usize;
        let value = fact.word(4).load(Ordering::Relaxed);
        // SAFETY: a committed fact's bytes lie inside the array and do not change any more.
        let bytes =
            unsafe { core::slice::from_raw_parts(fact.0.as_ptr().wrapping_add(FACT_HEAD), len) };
        write_note(process, head >> 8 & 0xff, value, bytes);
        let next = at + (FACT_HEAD + len).next_multiple_of(4);
        done.store(next as u32, Ordering::Release);
    }
}

fn write_note(process: &Process, kind: u32, value: u32, bytes: &[u8]) {
    let text = text(process, bytes);
    if let Some((_, at)) = claim(process, Region::Notes, Counter::TextsFull) {
        let entry = Entry(at);
        entry.put(note_layout::VALUE.start, &value.to_le_bytes());
        entry.put(note_layout::TEXT.start, &text);
        entry.complete(note_layout::KIND.start, kind);
    }
}

/// Moves what was counted before there was a capture into it.
pub(crate) fn flush_counts(process: &Process) {
    for counter in Counter::ALL {
        let early = EARLY_COUNTS[counter as usize].load(Ordering::Relaxed);
        if early != 0 {
            process.count(counter, early);
        }
    }
}

/// The node of a return address that was called from `parent`.
#[inline]
pub(crate) fn native(process: &Process, address: u64, parent: u32) -> u32 {
    node(process, address, parent, stack::NATIVE)
}

/// The node with this value, parent and kind, added if it is new; 0 when the table is full.
#[inline]
pub(crate) fn node(process: &Process, value: u64, parent: u32, kind: u32) -> u32 {
    let mixed = (value ^ u64::from(parent).rotate_left(40) ^ u64::from(kind) << 56)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let is = |number: u32| {
        let at = u64::from(number.wrapping_sub(1)) * stack::LEN as u64;
        process
            .part(Region::Stacks)
            .bytes(at, stack::LEN as u64)
            .is_some_and(|at| {
                let entry = Entry(at);
                entry.word64(stack::VALUE.start).load(Ordering::Relaxed) == value
                    && entry.word(stack::PARENT.start).load(Ordering::Relaxed) == parent
                    && entry.word(stack::KIND.start).load(Ordering::Relaxed) == kind
            })
    };
    let add = || add_node(process, value, parent, kind);
    look_up(
        process,
        &process.stack_index,
        mixed,
        Counter::StacksFull,
        is,
        add,
    )
}

/// Number of the entry that `is` recognises, added if it is new; 0 when the table is full. Two threads that add the same at the same moment
/// may leave it twice.
#[inline(always)]
fn look_up(
    process: &Process,
    index: &[AtomicU32],
    mixed: u64,
    lost: Counter,
    is: impl Fn(u32) -> bool,
    add: impl Fn() -> u32,
) -> u32 {
    let start = (mixed >> 32) as usize;
    // A long run of others means that the table is as good as full.
    for step in 0..64 {
        let Some(place) = index.get((start + step) % index.len()) else {
            break;
        };
        // Acquire: pairs with the release below, so that the entry behind a number is complete.
        let mut held = place.load(Ordering::Acquire);
        if held == 0 {
            let added = add();
            if added == 0 {
                return 0;
            }
            match place.compare_exchange(0, added, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return added,
                Err(other) => held = other,
            }
        }
        if is(held) {
            return held;
        }
    }
    process.count(lost, 1);
    0
}

#[cold]
#[inline(never)]
fn add_node(process: &Process, value: u64, parent: u32, kind: u32) -> u32 {
    let _errno = sys::ErrnoGuard::new();
    let Some((index, at)) = claim(process, Region::Stacks, Counter::StacksFull) else {
        return 0;
    };
    let entry = Entry(at);
    entry.put(stack::VALUE.start, &value.to_le_bytes());
    entry.put(stack::PARENT.start, &parent.to_le_bytes());
    entry.complete(stack::KIND.start, kind);
    if kind == stack::NATIVE {
        meet_module(process, value);
    }
    index as u32 + 1
}

/// Whether a node is a frame of Python.
pub(crate) fn is_python(process: &Process, number: u32) -> bool {
    let at = u64::from(number.wrapping_sub(1)) * stack::LEN as u64;
    process
        .part(Region::Stacks)
        .bytes(at, stack::LEN as u64)
        .is_some_and(|at| {
            Entry(at).word(stack::KIND.start).load(Ordering::Relaxed) == stack::PYTHON
        })
}

/// The number of a frame of source code, added if it is new; 0 when the table is full.
pub(crate) fn frame(
    process: &Process,
    file: TextRef,
    function: TextRef,
    line: u32,
    first_line: u32,
) -> u32 {
    let text = u64::from_le_bytes;
    let mut mixed = u64::from(line) ^ u64::from(first_line) << 32;
    for word in [text(file), text(function)] {
        mixed = (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 31;
    }
    let is = |number: u32| {
        let at = u64::from(number.wrapping_sub(1)) * frame::LEN as u64;
        process
            .part(Region::Frames)
            .bytes(at, frame::LEN as u64)
            .is_some_and(|at| {
                let entry = Entry(at);
                let word = |at: usize| entry.word64(at).load(Ordering::Relaxed);
                word(frame::FILE.start) == text(file)
                    && word(frame::FUNCTION.start) == text(function)
                    && entry.word(frame::LINE.start).load(Ordering::Relaxed) == line
                    && entry.word(frame::FIRST_LINE.start).load(Ordering::Relaxed) == first_line
            })
    };
    let add = || {
        let Some((index, at)) = claim(process, Region::Frames, Counter::FramesFull) else {
            return 0;
        };
        let entry = Entry(at);
        entry.put(frame::LINE.start, &line.to_le_bytes());
        entry.put(frame::FILE.start, &file);
        entry.put(frame::FUNCTION.start, &function);
        entry.put(frame::FIRST_LINE.start, &first_line.to_le_bytes());
        entry.complete(frame::COMPLETE.start, 1);
        index as u32 + 1
    };
    look_up(
        process,
        &process.frame_index,
        mixed,
        Counter::FramesFull,
        is,
        add,
    )
}

/// Stores a text once; the empty reference when there is no room (counted).
pub(crate) fn interned(process: &Process, bytes: &[u8]) -> TextRef {
    if bytes.is_empty() {
        return [0; 8];
    }
    let mixed = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |mixed: u64, &byte| {
            (mixed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    let start = (mixed ^ mixed >> 32) as usize;
    for step in 0..64 {
        let place = &process.text_index[(start + step) % TEXT_SLOTS];
        let mut held = place.load(Ordering::Acquire);
        if held == 0 {
            let added = text(process, bytes);
            if added == [0; 8] {
                return added;
            }
            let number = u64::from_le_bytes(added);
            match place.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return added,
                Err(other) => held = other,
            }
        }
        if is_text(process, held, bytes) {
            return held.to_le_bytes();
        }
    }
    // As good as full: stored once more.
    text(process, bytes)
}

fn is_text(process: &Process, held: u64, bytes: &[u8]) -> bool {
    let (offset, len) = (held & 0xffff_ffff, held >> 32);
    len == bytes.len() as u64
        && process
            .part(Region::Strings)
            .bytes(offset, len)
            .is_some_and(|at| {
                // SAFETY: the text lies in the region, and was complete before its reference was published; it does not change.
                let there = unsafe { core::slice::from_raw_parts(at.as_ptr(), bytes.len()) };
                there == bytes
            })
}

/// The number of a stream of PyTorch's; 0 when it is the default one, or the table is full.
#[cold]
pub(crate) fn stream(process: &Process, device: u8, id: u64) -> u16 {
    if id == 0 {
        return 0;
    }
    let part = process.part(Region::Streams);
    let capacity = part.ready.load(Ordering::Relaxed) / stream::LEN as u64;
    let count = part.count.load(Ordering::Relaxed).min(capacity);
    let known = (0..count).find(|index| {
        part.bytes(index * stream::LEN as u64, stream::LEN as u64)
            .is_some_and(|at| {
                let entry = Entry(at);
                entry.word(stream::COMPLETE.start).load(Ordering::Acquire) != 0
                    && entry.word(stream::DEVICE.start).load(Ordering::Relaxed) == device.into()
                    && entry.word64(stream::ID.start).load(Ordering::Relaxed) == id
            })
    });
    let index = match known {
        Some(index) => index,
        // A program that makes streams without end must not make this look-up any longer.
        None if count == capacity => return 0,
        None => {
            let Some((index, at)) = claim(process, Region::Streams, Counter::TextsFull) else {
                return 0;
            };
            let entry = Entry(at);
            entry.put(stream::DEVICE.start, &u32::from(device).to_le_bytes());
            entry.put(stream::ID.start, &id.to_le_bytes());
            entry.complete(stream::COMPLETE.start, 1);
            index
        }
    };
    index as u16 + 1
}

/// Lists the library that an address belongs to, unless it is listed already.
fn meet_module(process: &Process, address: u64) {
    if let Some(entry) = elf::holding(address as usize) {
        let (start, end) = entry.span();
        if !is_listed(process, start, end, entry.bias()) {
            list_module(process, &entry, start, end);
        }
    }
}

fn is_listed(process: &Process, start: u64, end: u64, bias: u64) -> bool {
    let part = process.part(Region::Modules);
    let count = part.count.load(Ordering::Relaxed);
    (0..count).rev().any(|index| {
        let Some(at) = part.bytes(index * module::LEN as u64, module::LEN as u64) else {
            return false;
        };
        let entry = Entry(at);
        entry.word(module::COMPLETE.start).load(Ordering::Acquire) != 0
            && entry.word64(module::START.start).load(Ordering::Relaxed) == start
            && entry.word64(module::END.start).load(Ordering::Relaxed) == end
            && entry.word64(module::BIAS.start).load(Ordering::Relaxed) == bias
    })
}

fn list_module(process: &Process, loaded: &elf::Entry, start: u64, end: u64) {
    let mut build_id = [0; 20];
    let build_id_len = loaded.build_id(&mut build_id);
    let mut own_path = [0; 1024];
    let path = if loaded.path().is_empty() && loaded.place == 0 {
        sys::read_link(c"/proc/self/exe", &mut own_path)
    } else {
        loaded.path()
    };
    let path = text(process, path);
    let Some((_, at)) = claim(process, Region::Modules, Counter::ModulesFull) else {
        return;
    };
    let entry = Entry(at);
    entry.put(
        module::BUILD_ID_LEN.start,
        &(build_id_len as u32).to_le_bytes(),
    );
    entry.put(module::BIAS.start, &loaded.bias().to_le_bytes());
    entry.put(module::START.start, &start.to_le_bytes());
    entry.put(module::END.start, &end.to_le_bytes());
    entry.put(module::PATH.start, &path);
    entry.put(module::BUILD_ID.start, &build_id);
    entry.complete(module::COMPLETE.start, 1);
}

/// The calling thread's context as records carry it: index and device.
#[inline]
pub(crate) fn current_context(process: &Process, here: &mut Thread) -> (u16, u8) {
    let current = driver::current_context();
    let epoch = process.context_epoch.load(Ordering::Relaxed);
    if current != here.context || epoch != here.context_epoch {
        here.context = current;
        here.context_epoch = epoch;
        (here.context_index, here.context_device) = if current.is_null() {
            (slot::CONTEXT_NONE, slot::DEVICE_UNKNOWN)
        } else {
            meet_context(process, current as u64, here.id)
        };
    }
    (here.context_index, here.context_device)
}

/// Finds or lists a context handle with its device.
#[cold]
fn meet_context(process: &Process, handle: u64, thread: u32) -> (u16, u8) {
    let _errno = sys::ErrnoGuard::new();
    let device = driver::current_device().and_then(|device| u8::try_from(device).ok());
    let ordinal = device.map_or(context::DEVICE_UNKNOWN, u32::from);
    let shown = device.unwrap_or(slot::DEVICE_UNKNOWN);
    let part = process.part(Region::Contexts);
    let count = part.count.load(Ordering::Relaxed);
    let known = (0..count).find(|index| {
        part.bytes(index * context::LEN as u64, context::LEN as u64)
            .is_some_and(|at| {
                let entry = Entry(at);
                entry.word(context::COMPLETE.start).load(Ordering::Acquire) != 0
                    && entry.word64(context::HANDLE.start).load(Ordering::Relaxed) == handle
                    && entry.word(context::DEVICE.start).load(Ordering::Relaxed) == ordinal
            })
    });
    if let Some(index) = known.and_then(|index| u16::try_from(index).ok()) {
        return (index, shown);
    }
    let Some((index, at)) = claim(process, Region::Contexts, Counter::ContextsFull) else {
        return (slot::CONTEXT_NONE, shown);
    };
    let entry = Entry(at);
    entry.put(context::DEVICE.start, &ordinal.to_le_bytes());
    entry.put(context::HANDLE.start, &handle.to_le_bytes());
    entry.put(context::SEEN.start, &sys::monotonic_ns().to_le_bytes());
    entry.put(context::THREAD.start, &thread.to_le_bytes());
    entry.complete(context::COMPLETE.start, 1);
    (u16::try_from(index).unwrap_or(slot::CONTEXT_NONE), shown)
}

/// Fills a thread's block in, and finds it an entry for its calls in flight.
#[cold]
pub(crate) fn meet_thread(process: &Process, here: &mut Thread) {
    let _errno = sys::ErrnoGuard::new();
    let owner = process.id.load(Ordering::Relaxed);
    let id = sys::thread_id();
    let entry = thread_entry(process, owner, id);
    match &entry {
        Some(entry) => {
            entry.put(thread::NAME.start, &sys::thread_name());
            entry.put(thread::TAKEN.start, &sys::monotonic_ns().to_le_bytes());
        }
        None => process.count(Counter::ThreadsFull, 1),
    }
    let (at, place) = match &entry {
        Some(entry) => (entry.0.as_ptr(), place_of(process, entry)),
        None => (core::ptr::null_mut(), u32::MAX),
    };
    here.begin(owner, id, at, place);
}

/// Index of a thread's entry.
fn place_of(process: &Process, entry: &Entry) -> u32 {
    let first = process.part(Region::Threads).bytes(0, thread::LEN as u64);
    let at = entry.0.as_ptr() as usize;
    first.map_or(u32::MAX, |first| {
        ((at - first.as_ptr() as usize) / thread::LEN) as u32
    })
}

/// A free entry, or one whose thread has died.
fn thread_entry(process: &Process, owner: u32, id: u32) -> Option<Entry> {
    let part = process.part(Region::Threads);
    let capacity = part.ready.load(Ordering::Relaxed) / thread::LEN as u64;
    let fresh = part.count.load(Ordering::Relaxed) < capacity;
    // In a program with more threads than entries, not every new one asks after all the others.
    let lost = process.header64(Counter::ThreadsFull.at().start);
    if !fresh && !lost.load(Ordering::Relaxed).is_multiple_of(64) {
        return None;
    }
    let first = if fresh {
        part.count.fetch_add(1, Ordering::Relaxed)
    } else {
        0
    };
    for index in first..capacity {
        let at = part.bytes(index * thread::LEN as u64, thread::LEN as u64)?;
        let entry = Entry(at);
        let tid = entry.word(thread::TID.start);
        let held = tid.load(Ordering::Relaxed);
        if held != 0 && sys::thread_lives(owner, held) {
            continue;
        }
        if tid
            .compare_exchange(held, id, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            // What a dead thread was in is over; what it counted is kept.
            entry.put(thread::CALL.start, &[0; 4]);
            let counted = entry.word64(thread::UNCHANGED.start);
            match counted.swap(0, Ordering::Relaxed) {
                0 => {}
                calls => process.count(Counter::UnchangedContext, calls),
            }
            return Some(entry);
        }
    }
    None
}

/// Lists the devices that this process sees.
pub(crate) fn meet_devices(process: &Process) {
    let part = process.part(Region::Devices);
    let capacity = part.ready.load(Ordering::Relaxed) / device::LEN as u64;
    let count = u64::try_from(driver::device_count())
        .unwrap_or(0)
        .min(capacity);
    for ordinal in 0..count {
        let Some(found) = driver::device(ordinal as c_int) else {
            continue;
        };
        let Some(at) = part.bytes(ordinal * device::LEN as u64, device::LEN as u64) else {
            continue;
        };
        let entry = Entry(at);
        let (major, minor) = found.capability;
        entry.put(device::MAJOR.start, &major.to_le_bytes());
        entry.put(device::MINOR.start, &minor.to_le_bytes());
        entry.put(device::UUID.start, &found.uuid);
        entry.put(device::PROCESSORS.start, &found.processors.to_le_bytes());
        entry.put(
            device::PROCESSOR_THREADS.start,
            &found.processor_threads.to_le_bytes(),
        );
        entry.put(device::TOTAL.start, &found.total.to_le_bytes());
        entry.put(device::NAME.start, &text(process, found.name()));
        entry.put(device::PCI.start, &text(process, found.pci()));
        entry.complete(device::COMPLETE.start, 1);
    }
    process.publish_count(Region::Devices, count);
}
