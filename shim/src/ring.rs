//! Claim and commit: how a record gets into the ring. `FORMAT.md` has the state word, the races and the table of
//! memory orders; this is the code that it describes.

use core::ptr::NonNull;

use gpushim_abi::layout::{Counter, Region, slot};

use crate::capture;
use crate::process::Process;
use crate::sync::{AtomicU32, Ordering};

/// The payload of a slot: everything but the state word.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Payload {
    pub(crate) call: u16,
    pub(crate) result: u16,
    pub(crate) at_ns: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) thread: u32,
    pub(crate) stack: u32,
    pub(crate) context: u16,
    pub(crate) stream: u16,
    pub(crate) device: u8,
    pub(crate) flags: u8,
}

/// Stores a record; its sequence number, `None` when it was dropped (and counted).
#[inline]
pub(crate) fn record(process: &Process, payload: &Payload) -> Option<u64> {
    // Relaxed: only the number counts, the slot's state word orders the bytes.
    let sequence = process.head().fetch_add(1, Ordering::Relaxed);
    let (at, lap) = match place(process, sequence) {
        Some(found) => found,
        None => lengthen(process, sequence)?,
    };
    // SAFETY: `place` gave a slot inside the allocated ring, aligned to its length; the state word is its first.
    let state = unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) };
    let held = state.load(Ordering::Relaxed);
    // A thread that was stopped between its number and its slot may come a lap too late: what is there now is newer.
    if slot::is_claimed(held)
        || slot::committed_lap(held).is_some_and(|there| there > lap)
        || state
            // Acquire: pairs with the commit of the lap before, whose bytes we are about to overwrite.
            .compare_exchange(
                held,
                slot::claimed(lap),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_err()
    {
        process.count(Counter::SlotBusy, 1);
        return None;
    }
    write(at, payload);
    // Release: pairs with the reader's load and with the next lap's claim.
    state.store(slot::committed(lap), Ordering::Release);
    // Ahead of the need, so that other threads seldom meet the end of what is ready.
    let ready = process.part(Region::Ring).ready.load(Ordering::Relaxed);
    if sequence * slot::LEN as u64 == ready / 4 * 3 {
        capture::grow(process, Region::Ring, ready + 1);
    }
    Some(sequence)
}

/// The slot and the lap of a sequence number; `None` when the ring is not that long yet.
#[inline]
fn place(process: &Process, sequence: u64) -> Option<(NonNull<u8>, u32)> {
    let shift = process.ring_shift.load(Ordering::Relaxed);
    let at = (sequence & ((1 << shift) - 1)) * slot::LEN as u64;
    let found = process.part(Region::Ring).bytes(at, slot::LEN as u64)?;
    let lap = sequence >> shift;
    // The state word has no room for more laps: stop rather than repeat an identity.
    (lap < slot::LAPS).then_some((found, lap as u32))
}

/// Makes the ring long enough for a sequence number, or gives the record up.
#[cold]
fn lengthen(process: &Process, sequence: u64) -> Option<(NonNull<u8>, u32)> {
    let shift = process.ring_shift.load(Ordering::Relaxed);
    let at = (sequence & ((1 << shift) - 1)) * slot::LEN as u64;
    capture::grow(process, Region::Ring, at + slot::LEN as u64);
    let found = place(process, sequence);
    if found.is_none() {
        process.count(Counter::RingNotReady, 1);
    }
    found
}

macro_rules! store {
    ($at:ident, $range:expr, $ty:ty, $value:expr) => {{
        // SAFETY: the slot is this writer's own until it commits, and the layout places the field inside it,
        // aligned to its size.
        let field = unsafe { $at.as_ptr().add($range.start) };
        // SAFETY: as above. Every target of this library is little-endian.
        unsafe { field.cast::<$ty>().write($value) };
    }};
}

#[inline]
fn write(at: NonNull<u8>, payload: &Payload) {
    store!(at, slot::CALL, u16, payload.call);
    store!(at, slot::RESULT, u16, payload.result);
    store!(at, slot::TIME, u64, payload.at_ns);
    store!(at, slot::ADDRESS, u64, payload.address);
    store!(at, slot::SIZE, u64, payload.size);
    store!(at, slot::A, u64, payload.a);
    store!(at, slot::B, u64, payload.b);
    store!(at, slot::THREAD, u32, payload.thread);
    store!(at, slot::STACK, u32, payload.stack);
    store!(at, slot::CONTEXT, u16, payload.context);
    store!(at, slot::STREAM, u16, payload.stream);
    store!(at, slot::DEVICE, u8, payload.device);
    store!(at, slot::FLAGS, u8, payload.flags);
}
