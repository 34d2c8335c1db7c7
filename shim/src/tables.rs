//! What records refer to: stacks, contexts, threads, modules, devices, and the texts and notes beside them.
//!
//! Every table is append-only. An entry is claimed by counting, filled with plain stores, and completed by one
//! release store of its first (for stacks and notes: its kind) word; the reader takes no notice of incomplete ones.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::NonNull;

use gpushim_abi::layout::{
    Counter, Region, context, device, module, note as note_layout, slot, stack, thread,
};

use crate::process::{Process, STACK_SLOTS};
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

/// The node of the stack that consists of one return address.
#[inline]
pub(crate) fn native_stack(process: &Process, address: u64) -> u32 {
    node(process, address, 0)
}

/// The node with this value and parent, added if it is new; 0 when the table is full.
fn node(process: &Process, value: u64, parent: u32) -> u32 {
    let mixed = (value ^ u64::from(parent).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let start = (mixed >> 32) as usize;
    // A long run of other nodes means that the table is as good as full.
    for step in 0..64 {
        let Some(place) = process.stack_index.get((start + step) % STACK_SLOTS) else {
            break;
        };
        let held = place.load(Ordering::Acquire);
        let held = if held == 0 {
            match add_node(process, place, value, parent) {
                Ok(added) => return added,
                Err(other) => other,
            }
        } else {
            held
        };
        if is_node(process, held, value, parent) {
            return held;
        }
    }
    process.count(Counter::StacksFull, 1);
    0
}

fn is_node(process: &Process, number: u32, value: u64, parent: u32) -> bool {
    let at = u64::from(number.wrapping_sub(1)) * stack::LEN as u64;
    process
        .part(Region::Stacks)
        .bytes(at, stack::LEN as u64)
        .is_some_and(|at| {
            let entry = Entry(at);
            entry.word64(stack::VALUE.start).load(Ordering::Relaxed) == value
                && entry.word(stack::PARENT.start).load(Ordering::Relaxed) == parent
        })
}

/// Adds a node at a free place of the index; the number that stands there instead when another thread was faster.
#[cold]
fn add_node(process: &Process, place: &AtomicU32, value: u64, parent: u32) -> Result<u32, u32> {
    let _errno = sys::ErrnoGuard::new();
    let Some((index, at)) = claim(process, Region::Stacks, Counter::StacksFull) else {
        return Ok(0);
    };
    let entry = Entry(at);
    entry.put(stack::VALUE.start, &value.to_le_bytes());
    entry.put(stack::PARENT.start, &parent.to_le_bytes());
    entry.complete(stack::KIND.start, stack::NATIVE);
    let number = index as u32 + 1;
    // Release: pairs with the acquire load of whoever finds the number.
    place.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire)?;
    meet_module(process, value);
    Ok(number)
}

/// Lists the library that an address belongs to, unless it is listed already.
fn meet_module(process: &Process, address: u64) {
    elf::find(|entry| {
        if !entry.holds(address as usize) {
            return None;
        }
        let (start, end) = entry.span();
        if !is_listed(process, start, end, entry.bias()) {
            list_module(process, entry, start, end);
        }
        Some(())
    });
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

fn list_module(process: &Process, loaded: &elf::Entry<'_>, start: u64, end: u64) {
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
    here.begin(
        owner,
        id,
        entry.map_or(core::ptr::null_mut(), |entry| entry.0.as_ptr()),
    );
}

/// A free entry, or one whose thread has died.
fn thread_entry(process: &Process, owner: u32, id: u32) -> Option<Entry> {
    let part = process.part(Region::Threads);
    let capacity = part.ready.load(Ordering::Relaxed) / thread::LEN as u64;
    let fresh = part.count.load(Ordering::Relaxed) < capacity;
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
