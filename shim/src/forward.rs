//! Which line made a node of PyTorch's autograd graph.
//!
//! Whoever makes a node asks for a number first, on the thread that runs the forward pass, and the node keeps it. `issued` notes the
//! line for each number. Where the node keeps its number is another matter: it differs between builds of the same version. So the
//! place is looked for in what the passes evaluate, and believed only when it is the only one that fits ([`Proof`]); numbers count
//! per thread, so a line is told only where no other thread can have issued the same.

use crate::process::Process;
use crate::safe::Reader;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::thread::Thread;
use crate::{stacks, sys};

/// Numbers whose line is known at a time; a power of two.
const NUMBERS: usize = 1 << 16;
/// Threads that issue numbers and are told apart.
const ISSUERS: usize = 8;
/// Words of a node that may be its number: those after the first.
const WORDS: usize = 16;
/// Distinct nodes that must agree.
const ENOUGH: usize = 8;
/// Nodes after which a proof that is still open begins anew.
const MOST: usize = 24;
/// The number of nodes that have none (`AccumulateGrad`).
const NO_NUMBER: u64 = u64::MAX;
/// Bits of a key that are the number; the thread's id is above.
const NUMBER_BITS: u32 = 42;

/// Numbers and lines. All zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Forward {
    /// Offset at which nodes keep their number, bytes; 0 unproven.
    offset: AtomicU32,
    /// 1 while a thread works on the proof.
    busy: AtomicU32,
    proof: Proof,
    issuers: [Issuer; ISSUERS],
    /// One more than the greatest number of threads that are not told apart any more.
    others: AtomicU64,
    numbers: [Number; NUMBERS],
}

/// A thread that issues numbers.
#[derive(Debug)]
#[repr(C)]
struct Issuer {
    /// Its id, 0 for nobody.
    thread: AtomicU32,
    /// One more than the greatest number that it issued.
    end: AtomicU64,
}

/// A number, and the stack on which it was issued.
#[derive(Debug)]
#[repr(C)]
struct Number {
    key: AtomicU64,
    /// The stack, above the low half of the key: the two are not written at once.
    stack: AtomicU64,
}

/// What is known about where nodes keep their number, from the nodes of one pass. Only ever touched by the thread that holds `busy`.
///
/// A place is out as soon as it holds something that the pass's caller did not issue since its pass before, or what another node of
/// the pass had there. Of the fields that count something, the depth of a node is the one to be afraid of: in a chain it differs
/// from node to node as numbers do. Its small values are not among those that were issued since the pass before, and equal as
/// soon as two nodes hang on parameters alone; while it cannot be told from the number, there are two places, and no proof.
#[derive(Debug)]
#[repr(C)]
struct Proof {
    /// The pass: how far its caller had counted when it began.
    end: AtomicU64,
    /// Likewise the pass before.
    begin: AtomicU64,
    /// Places that are out, a bit for each word.
    out: AtomicU32,
    /// Nodes that were looked at.
    seen: AtomicU32,
    values: [[AtomicU64; WORDS]; MOST],
}

impl Forward {
    /// Forgets what a parent process knew, where the kernel does not. Keys have the ids of its threads, so nobody finds those.
    pub(crate) fn begin(&self) {
        for issuer in &self.issuers {
            issuer.thread.store(0, Ordering::Relaxed);
        }
        self.others.store(0, Ordering::Relaxed);
        self.busy.store(0, Ordering::Relaxed);
    }

    /// Whether it is not known where nodes keep their number.
    #[inline(always)]
    pub(crate) fn is_unproven(&self) -> bool {
        self.offset.load(Ordering::Relaxed) == 0
    }

    /// How far a thread has counted, 0 where it is not known to.
    fn end(&self, thread: u32) -> u64 {
        self.issuers
            .iter()
            .find(|issuer| issuer.thread.load(Ordering::Relaxed) == thread)
            .map_or(0, |issuer| issuer.end.load(Ordering::Acquire))
    }

    /// Whether no other thread can have issued a number.
    fn is_only_of(&self, number: u64, thread: u32) -> bool {
        number >= self.others.load(Ordering::Acquire)
            && self.issuers.iter().all(|issuer| {
                let other = issuer.thread.load(Ordering::Acquire);
                other == 0 || other == thread || number >= issuer.end.load(Ordering::Acquire)
            })
    }

    /// The stack on which a thread issued a number.
    fn stack(&self, number: u64, thread: u32) -> Option<u32> {
        let (key, place) = self.place(number, thread)?;
        let stack = place.stack.load(Ordering::Acquire);
        (place.key.load(Ordering::Acquire) == key && stack & 0xffff_ffff == key & 0xffff_ffff)
            .then_some((stack >> 32) as u32)
    }

    fn place(&self, number: u64, thread: u32) -> Option<(u64, &Number)> {
        let key = u64::from(thread) << NUMBER_BITS | number;
        // Threads begin at 0 each.
        let at = number.wrapping_add(u64::from(thread).wrapping_mul(0x9e37_79b1)) as usize;
        (number >> NUMBER_BITS == 0).then_some((key, self.numbers.get(at % NUMBERS)?))
    }
}

/// The calling thread is about to be given a number for a node that it makes.
#[inline]
pub(crate) fn issued(process: &Process, here: &mut Thread, number: u64) {
    let forward = &process.autograd.forward;
    let Some((key, place)) = forward.place(number, here.id) else {
        return;
    };
    let stack = stacks::of_event(process, here, sys::coarse_ns());
    place.key.store(0, Ordering::Release);
    place.stack.store(
        u64::from(stack) << 32 | key & 0xffff_ffff,
        Ordering::Release,
    );
    place.key.store(key, Ordering::Release);
    match forward
        .issuers
        .iter()
        .find(|issuer| issuer.thread.load(Ordering::Relaxed) == here.id)
    {
        Some(issuer) => issuer.end.store(number + 1, Ordering::Release),
        None => meet(forward, here.id, number + 1),
    }
}

/// A thread issues its first number.
#[cold]
fn meet(forward: &Forward, thread: u32, end: u64) {
    for issuer in &forward.issuers {
        if issuer
            .thread
            .compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            issuer.end.store(end, Ordering::Release);
            return;
        }
    }
    // It takes another's place, whose numbers nobody can be sure of any more. Meanwhile both are too high, never too low.
    let issuer = &forward.issuers[thread as usize % ISSUERS];
    let before = issuer.end.load(Ordering::Acquire);
    forward.others.fetch_max(before.max(end), Ordering::AcqRel);
    issuer.thread.store(thread, Ordering::Release);
}

/// A thread begins a backward pass.
pub(crate) fn pass(process: &Process, thread: u32) {
    let forward = &process.autograd.forward;
    if !forward.is_unproven() {
        return;
    }
    with(forward, |proof| {
        let end = forward.end(thread);
        if end > proof.end.load(Ordering::Relaxed) {
            proof
                .begin
                .store(proof.end.load(Ordering::Relaxed), Ordering::Relaxed);
            proof.end.store(end, Ordering::Relaxed);
        }
        proof.out.store(0, Ordering::Relaxed);
        proof.seen.store(0, Ordering::Relaxed);
    });
}

/// Looks at a node that is evaluated, for the thread that began the pass, while it is not known where nodes keep their number.
pub(crate) fn look(process: &Process, reader: Reader<'_>, node: u64, thread: u32) {
    let forward = &process.autograd.forward;
    with(forward, |proof| {
        let seen = proof.seen.load(Ordering::Relaxed) as usize;
        let Some(values) = proof.values.get(seen) else {
            return;
        };
        let mut out = proof.out.load(Ordering::Relaxed);
        let before = proof.values.get(..seen).unwrap_or_default();
        let begin = proof.begin.load(Ordering::Relaxed);
        for (word, value) in values.iter().enumerate() {
            let found = reader.value::<u64>(node + 8 * (word as u64 + 1));
            // Nodes that have none hold this, and nothing else does.
            if found == Some(NO_NUMBER) {
                return;
            }
            let found = found.unwrap_or(NO_NUMBER);
            value.store(found, Ordering::Relaxed);
            let was_seen = || {
                before
                    .iter()
                    .any(|values| values[word].load(Ordering::Relaxed) == found)
            };
            if found < begin || forward.stack(found, thread).is_none() || was_seen() {
                out |= 1 << word;
            }
        }
        proof.out.store(out, Ordering::Relaxed);
        proof.seen.store(seen as u32 + 1, Ordering::Relaxed);
        let left = !out & ((1 << WORDS) - 1);
        if seen + 1 >= ENOUGH && left.is_power_of_two() {
            let offset = 8 * (left.trailing_zeros() + 1);
            forward.offset.store(offset, Ordering::Release);
        }
    });
}

/// Does something with the proof, unless another thread is at it.
fn with(forward: &Forward, act: impl FnOnce(&Proof)) {
    if forward.busy.swap(1, Ordering::Acquire) == 0 {
        act(&forward.proof);
        forward.busy.store(0, Ordering::Release);
    }
}

/// The stack on which a node was made, where that is certain; `thread` began the pass that evaluates it.
pub(crate) fn line(process: &Process, reader: Reader<'_>, node: u64, thread: u32) -> Option<u32> {
    let forward = &process.autograd.forward;
    let offset = match forward.offset.load(Ordering::Acquire) {
        0 => return None,
        offset => u64::from(offset),
    };
    let number = reader.value::<u64>(node + offset)?;
    let stack = forward.stack(number, thread)?;
    forward.is_only_of(number, thread).then_some(stack)
}
