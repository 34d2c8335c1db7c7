//! Who a backward pass works for.
//!
//! PyTorch evaluates the nodes of a backward pass on threads of its own, one for each device, which run no Python: their blocks, more
//! than half of those of a training step, would have no line. Two functions of libtorch tell more. `Engine::evaluate_function` gets the
//! node, whose class is in its vtable; `Engine::execute` is called by the thread that called `backward()`, with its Python frames. As with the
//! blocks ([`torch`](crate::torch)), ours come first, note it, and jump on, so that exceptions pass where they always passed.
//!
//! Nobody tells when either of them has returned. But a function that has not returned still has its return address where it was
//! called with it, above the stack pointer; once it has, its caller's next call puts another one there. So what was noted is believed only while the
//! word at the noted place is the one that was there.

use gpushim_abi::layout::stack;

use crate::forward::{self, Forward};
use crate::process::Process;
use crate::safe::Reader;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::thread::Thread;
use crate::{stacks, sys, tables};

/// Threads that call `backward()` at the same time and are told apart.
const CALLERS: usize = 16;
/// Places for classes of nodes; a power of two.
const CLASSES: usize = 256;
/// Longest name of a class that is kept, bytes.
const NAME_MAX: usize = 256;
/// A stack pointer is not further from a call that it lies in than this.
const STACK_MAX: u64 = 1 << 30;

/// The backward passes of this process. All zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Autograd {
    callers: [Caller; CALLERS],
    classes: [Class; CLASSES],
    pub(crate) forward: Forward,
}

/// The latest `Engine::execute` of a thread.
#[derive(Debug)]
#[repr(C)]
struct Caller {
    /// Thread id, 0 for nobody.
    thread: AtomicU32,
    /// Its stack's node.
    stack: AtomicU32,
    /// Where its return address is.
    at: AtomicU64,
    /// The return address.
    address: AtomicU64,
}

/// Name of a class by its vtable.
#[derive(Debug)]
#[repr(C)]
struct Class {
    table: AtomicU64,
    /// The frame with its name, and the low half of the table's address.
    frame: AtomicU64,
}

impl Autograd {
    /// Forgets what a parent process knew, where the kernel does not.
    pub(crate) fn begin(&self) {
        for caller in &self.callers {
            caller.thread.store(0, Ordering::Relaxed);
        }
        for class in &self.classes {
            class.table.store(0, Ordering::Relaxed);
        }
        self.forward.begin();
    }
}

/// A call that was noted when it began.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Noted {
    /// What it was called with.
    pub(crate) value: u64,
    /// Where its return address is; 0 for nothing noted.
    at: u64,
    /// The return address.
    address: u64,
}

impl Noted {
    /// Whether the call, one of this thread's, has not returned.
    #[inline]
    fn lasts(self, reader: Reader<'_>) -> bool {
        let here = (&raw const self) as u64;
        self.at > here
            && self.at - here < STACK_MAX
            && reader.value::<u64>(self.at) == Some(self.address)
    }
}

/// The calling thread begins to evaluate a node.
#[inline]
pub(crate) fn evaluate(node: u64, at: u64) {
    let Some((process, here)) = thread() else {
        return;
    };
    here.node = Noted {
        value: node,
        at,
        address: return_address(at),
    };
    if process.autograd.forward.is_unproven() {
        study(process, here, node);
    }
}

#[cold]
#[inline(never)]
fn study(process: &Process, here: &Thread, node: u64) {
    let reader = Reader::new(process, sys::coarse_ns());
    if let Some(asked) = caller(process, here, reader) {
        forward::look(process, reader, node, asked.thread);
    }
}

/// The calling thread is about to be given a number for a node that it makes.
#[inline]
pub(crate) fn number(number: u64) {
    if let Some((process, here)) = thread() {
        forward::issued(process, here, number);
    }
}

/// The calling thread begins a backward pass.
pub(crate) fn execute(at: u64) {
    let Some((process, here)) = thread() else {
        return;
    };
    let stack = stacks::of_event(process, here, sys::monotonic_ns());
    let callers = &process.autograd.callers;
    let of = |thread: u32| {
        callers
            .iter()
            .find(|caller| caller.thread.load(Ordering::Relaxed) == thread)
    };
    let claimed = || {
        callers.iter().find(|caller| {
            caller
                .thread
                .compare_exchange(0, here.id, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        })
    };
    // With more threads than places one of them loses its own, and its passes have no caller.
    let place = of(here.id)
        .or_else(claimed)
        .or_else(|| callers.get(here.id as usize % CALLERS));
    if let Some(caller) = place {
        // Not to be believed while it changes.
        caller.at.store(0, Ordering::Release);
        caller.thread.store(here.id, Ordering::Release);
        caller.stack.store(stack, Ordering::Release);
        caller.address.store(return_address(at), Ordering::Release);
        caller.at.store(at, Ordering::Release);
    }
    forward::pass(process, here.id);
}

/// The node of a stack in a backward pass; `python`, the node of the thread's own Python frames, where there is no such pass.
#[inline]
pub(crate) fn stack(process: &Process, here: &Thread, at_ns: u64, python: u32) -> u32 {
    if !here.node.is_noted() {
        return python;
    }
    within(process, here, at_ns, python)
}

impl Noted {
    #[inline(always)]
    fn is_noted(self) -> bool {
        self.at != 0
    }
}

#[inline(never)]
fn within(process: &Process, here: &Thread, at_ns: u64, python: u32) -> u32 {
    let reader = Reader::new(process, at_ns);
    if !here.node.lasts(reader) {
        return python;
    }
    let class = class(process, reader, here.node.value);
    let below = match caller(process, here, reader) {
        // A thread with frames of its own, as in an operation that is written in Python, is where it says it is. Those of a caller
        // that evaluates the node itself are no such frames.
        Some(asked) if python == asked.stack || !tables::is_python(process, python) => {
            forward::line(process, reader, here.node.value, asked.thread)
                .map(|made| tables::node(process, made.into(), asked.stack, stack::FORWARD))
                .filter(|&node| node != 0)
                .unwrap_or(asked.stack)
        }
        _ => python,
    };
    match tables::node(process, class.into(), below, stack::AUTOGRAD) {
        0 => python,
        node => node,
    }
}

/// Who asked for a backward pass.
#[derive(Clone, Copy)]
struct Asked {
    thread: u32,
    /// Where its thread was.
    stack: u32,
}

/// The thread for which the calling thread evaluates a node; `None` where it could be one of several.
fn caller(process: &Process, here: &Thread, reader: Reader<'_>) -> Option<Asked> {
    let known = |caller: &&Caller| caller.thread.load(Ordering::Acquire) != 0;
    let asked = |caller: &Caller| Asked {
        thread: caller.thread.load(Ordering::Acquire),
        stack: caller.stack.load(Ordering::Acquire),
    };
    let mut all = process.autograd.callers.iter().filter(known);
    let first = all.next()?;
    if all.next().is_none() {
        // Nobody else ever called it, and what is evaluated was asked for by somebody who waits for it.
        return Some(asked(first));
    }
    let mut found = None;
    for caller in process.autograd.callers.iter().filter(known) {
        let noted = Noted {
            value: 0,
            at: caller.at.load(Ordering::Acquire),
            address: caller.address.load(Ordering::Acquire),
        };
        let is_mine = caller.thread.load(Ordering::Acquire) == here.id;
        let lasts = if is_mine {
            noted.lasts(reader)
        } else {
            // That thread's stack may go at any moment: the kernel reads it.
            noted.is_noted() && sys::peek(noted.at) == Some(noted.address)
        };
        if lasts {
            if is_mine {
                return Some(asked(caller));
            }
            if found.is_some() {
                return None;
            }
            found = Some(asked(caller));
        }
    }
    found
}

/// The frame whose function is the name of an object's class, as the compiler mangled it; 0 where it cannot be read.
fn class(process: &Process, reader: Reader<'_>, object: u64) -> u32 {
    let Some(table) = reader.value::<u64>(object) else {
        return 0;
    };
    let low = table & 0xffff_ffff;
    let known = &process.autograd.classes[(table >> 4) as usize % CLASSES];
    let frame = known.frame.load(Ordering::Relaxed);
    if known.table.load(Ordering::Relaxed) == table && frame & 0xffff_ffff == low {
        return (frame >> 32) as u32;
    }
    let frame = named(process, reader, table).unwrap_or(0);
    if frame != 0 {
        known.table.store(table, Ordering::Relaxed);
        known
            .frame
            .store(u64::from(frame) << 32 | low, Ordering::Relaxed);
    }
    frame
}

/// By the Itanium C++ ABI the word before a vtable's first function is the type's description, whose second word is its name.
#[cold]
#[inline(never)]
fn named(process: &Process, reader: Reader<'_>, table: u64) -> Option<u32> {
    let described = reader.value::<u64>(table.wrapping_sub(8))?;
    let name = reader.value::<u64>(described.wrapping_add(8))?;
    let mut text = [0; NAME_MAX];
    let mut len = 0;
    for byte in &mut text {
        *byte = reader.value::<u8>(name + len as u64)?;
        if *byte == 0 {
            break;
        }
        len += 1;
    }
    let text = text.get(..len)?;
    let is_name = !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
    let name = is_name.then(|| tables::interned(process, text))?;
    Some(tables::frame(process, [0; 8], name, 0, 0))
}

/// The return address that a function was called with.
#[inline(always)]
fn return_address(at: u64) -> u64 {
    // SAFETY: `before_real` passes the stack pointer as the function began with it.
    unsafe { (at as *const u64).read() }
}

/// This process and thread, while something is recorded.
#[inline]
fn thread() -> Option<(&'static Process, &'static mut Thread)> {
    let process = Process::recording()?;
    // SAFETY: as in `recorder::tell`: the block is this thread's own.
    let here = unsafe { &mut *Thread::here() };
    if here.owner != process.id.load(Ordering::Relaxed) {
        tables::meet_thread(process, here);
    }
    Some((process, here))
}
