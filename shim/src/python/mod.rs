//! Python frames, read by the thread that runs them, without the GIL, without a lock, and without running Python.
//!
//! A thread that is in a hook is stopped in C: its chain of frames does not move, holds its code objects alive, and nobody else
//! edits it. So the walk reads the interpreter's structures in place. It trusts none of them: each page is known to be readable before it
//! is touched ([`safe`](crate::safe)), the thread's state must name this very thread, a code object must be of the interpreter's own
//! type, and an interpreter that does not look like a known version ([`layout`]) is not read at all. Where there are no frames, the stack
//! says why.
//!
//! A walk costs a few nanoseconds a frame, since a thread keeps its last stack: what is the same from the outermost frame on has
//! its node already. A frame that was never seen is decoded once (file, function, line) and interned.

mod layout;
mod lines;

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;

use gpushim_abi::layout::{Absent, stack};

use crate::elf::Object;
use crate::process::Process;
use crate::safe::{Plain, Reader};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::tables::{self, TextRef};
use crate::thread::Thread;
use crate::{elf, sys};
use layout::{
    BYTES_DATA, BYTES_LEN, LAYOUTS, Layout, OBJECT_TYPE, TEXT_LEN, TEXT_STATE, TYPE_NAME, TYPE_SIZE,
};

/// Frames of one stack that are recorded, from the innermost on.
pub(crate) const DEPTH: usize = 128;
/// Frames that are passed over between two that count.
const SHIMS: usize = 64;
/// Places for frames that were decoded; a power of two.
const KNOWN: usize = 1 << 14;
/// Threads that keep their last stack.
pub(crate) const STACKS: usize = 512;
/// Longest file and function name that is kept, bytes.
const NAME_MAX: usize = 1024;
/// Longest table of lines that is read.
const TABLE_MAX: usize = 64 << 10;

/// No look was taken yet.
const UNKNOWN: u32 = 0;
/// A thread is looking.
const LOOKING: u32 = 1;
/// There is an interpreter that can be read.
const READY: u32 = 2;
/// There is one that cannot; `absent` says why.
const UNREADABLE: u32 = 3;
/// There is none, or none yet.
const NONE: u32 = 4;

/// The interpreter of this process. All zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Python {
    state: AtomicU32,
    absent: AtomicU32,
    /// Stacks asked for while there was none, and at which of them to look again.
    misses: AtomicU32,
    /// Index into [`LAYOUTS`].
    layout: AtomicU32,
    /// `PyGILState_GetThisThreadState`.
    this_thread: AtomicUsize,
    /// `Py_IsFinalizing`.
    is_finalizing: AtomicUsize,
    /// `PyCode_Type`.
    code_type: AtomicUsize,
    known: [Known; KNOWN],
    last: [Last; STACKS],
}

/// A frame that was decoded: a mixture of what it was recognised by, and its number with part of the same.
#[derive(Debug)]
#[repr(C)]
struct Known {
    mixed: AtomicU64,
    number: AtomicU64,
}

/// A thread's last stack, outermost frame first. A place belongs to the thread whose entry of the capture has its index.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Last(UnsafeCell<Stack>);

// SAFETY: only the thread that owns the entry touches the place, and not while a signal handler of it does (`Thread::is_walking`).
unsafe impl Sync for Last {}

#[derive(Debug)]
#[repr(C)]
struct Stack {
    cut: u32,
    len: u32,
    steps: [(Step, u32); DEPTH],
    /// The walk that is under way, innermost frame first.
    fresh: [MaybeUninit<Step>; DEPTH],
}

/// What a frame is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Step {
    code: u64,
    /// Address of the instruction, or its offset where the version counts so.
    instruction: u64,
    /// Of the code object: addresses are used again.
    print: u64,
}

impl Step {
    /// Never 0.
    fn mixed(self) -> u64 {
        let mut mixed = 0_u64;
        for word in [self.code, self.instruction, self.print] {
            mixed = (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 29;
        }
        mixed | 1
    }
}

impl Python {
    /// Forgets what a parent process knew, where the kernel does not.
    pub(crate) fn begin(&self) {
        self.state.store(UNKNOWN, Ordering::Relaxed);
        for known in &self.known {
            known.mixed.store(0, Ordering::Relaxed);
        }
        for last in &self.last {
            // SAFETY: the process is a fresh child with one thread.
            unsafe { (*last.0.get()).len = 0 };
        }
    }
}

/// The node of the calling thread's innermost Python frame; 0 in a process without Python, and where the tables are full.
#[inline]
pub(crate) fn stack(process: &Process, here: &mut Thread, at_ns: u64) -> u32 {
    let python = &process.python;
    match python.state.load(Ordering::Acquire) {
        READY => walk(process, here, at_ns),
        UNREADABLE => absent(process, python.absent.load(Ordering::Relaxed).into()),
        _ => look(process, here, at_ns),
    }
}

/// The node that says why there are no frames.
#[inline]
fn absent(process: &Process, reason: u64) -> u32 {
    tables::node(process, reason, 0, stack::ABSENT)
}

/// Looks for an interpreter, the first time and then ever more seldom: a program may load one later.
#[cold]
fn look(process: &Process, here: &mut Thread, at_ns: u64) -> u32 {
    let python = &process.python;
    let state = python.state.load(Ordering::Relaxed);
    let misses = python.misses.fetch_add(1, Ordering::Relaxed);
    if state == LOOKING
        || (state == NONE && !misses.is_power_of_two())
        || python
            .state
            .compare_exchange(state, LOOKING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
    {
        return 0;
    }
    let _errno = sys::ErrnoGuard::new();
    let reader = Reader::new(process, at_ns);
    let (found, reason) = match find(python, reader) {
        Ok(()) => (READY, 0),
        Err(None) => (NONE, 0),
        Err(Some(reason)) => (UNREADABLE, reason as u32),
    };
    python.absent.store(reason, Ordering::Relaxed);
    python.state.store(found, Ordering::Release);
    match found {
        NONE => 0,
        _ => stack(process, here, at_ns),
    }
}

/// Finds the interpreter among the loaded libraries, and makes sure that it is one of those that are known.
fn find(python: &Python, reader: Reader<'_>) -> Result<(), Option<Absent>> {
    let (object, this_thread) = elf::find(|entry| {
        let object = entry.object()?;
        let function = object.function(c"PyGILState_GetThisThreadState");
        (function != 0).then_some((object, function))
    })
    .ok_or(None)?;
    let unknown = Some(Absent::UnknownVersion);
    let minor = minor_version(object, reader).ok_or(unknown)?;
    let code_type = object.data(c"PyCode_Type") as u64;
    let (index, layout) = LAYOUTS
        .iter()
        .enumerate()
        .find(|(_, layout)| layout.minor == minor)
        .ok_or(unknown)?;
    described(object, layout, reader)?;
    // Builds with other object heads, and versions that only call themselves the same.
    let name = reader.value::<u64>(code_type + TYPE_NAME).ok_or(unknown)?;
    let mut text = [0; 5];
    reader.bytes(name, &mut text).ok_or(unknown)?;
    let size = reader.value::<u64>(code_type + TYPE_SIZE).ok_or(unknown)?;
    if text != *b"code\0" || size != u64::from(layout.code_len) {
        return Err(unknown);
    }
    let is_finalizing = match object.function(c"Py_IsFinalizing") {
        0 => object.function(c"_Py_IsFinalizing"),
        found => found,
    };
    if is_finalizing == 0 {
        return Err(unknown);
    }
    python.layout.store(index as u32, Ordering::Relaxed);
    python.this_thread.store(this_thread, Ordering::Relaxed);
    python.is_finalizing.store(is_finalizing, Ordering::Relaxed);
    python
        .code_type
        .store(code_type as usize, Ordering::Relaxed);
    Ok(())
}

/// Minor version of a Python 3.
fn minor_version(object: Object, reader: Reader<'_>) -> Option<u8> {
    match object.data(c"Py_Version") {
        0 => {}
        at => {
            let version = reader.value::<u64>(at as u64)?;
            return (version >> 24 == 3).then_some((version >> 16) as u8);
        }
    }
    let function = object.function(c"Py_GetVersion");
    if function == 0 {
        return None;
    }
    type GetVersion = unsafe extern "C" fn() -> *const c_char;
    // SAFETY: the address of the interpreter's function of that name, whose type this is.
    let version = unsafe { core::mem::transmute::<usize, GetVersion>(function) };
    // SAFETY: it takes nothing, and writes the same text to the same place whenever it is called.
    let text = unsafe { version() };
    // SAFETY: it answers with that text, which ends in a zero and stays.
    let text = unsafe { CStr::from_ptr(text) };
    let minor = text.to_bytes().strip_prefix(b"3.")?;
    let digits = minor.iter().take_while(|b| b.is_ascii_digit());
    Some(digits.fold(0_u8, |value, digit| {
        value.saturating_mul(10).saturating_add(digit - b'0')
    }))
}

/// Holds a version's offsets against what the interpreter says of itself, where it does.
fn described(object: Object, layout: &Layout, reader: Reader<'_>) -> Result<(), Option<Absent>> {
    let Some(described) = layout.described else {
        return Ok(());
    };
    let unknown = Some(Absent::UnknownVersion);
    let at = object.data(c"_PyRuntime") as u64;
    let word = |offset: u16| reader.value::<u64>(at + u64::from(offset)).ok_or(unknown);
    if word(0)? != u64::from_le_bytes(*b"xdebugpy") {
        return Err(unknown);
    }
    const FREE_THREADED: u16 = 16;
    if word(FREE_THREADED)? != 0 {
        return Err(Some(Absent::FreeThreaded));
    }
    // In the order in which they stand there; what is between the name and the qualified name, and the like, is not used.
    let at_frame = described.frame_previous;
    let at_code = described.code_file;
    let owner = layout.frame_owner.map_or(0, |(at, _)| at);
    let same = word(described.thread_frame)? == u64::from(layout.thread_frame)
        && word(at_frame)? == u64::from(layout.frame_previous)
        && word(at_frame + 8)? == u64::from(layout.frame_code)
        && word(at_frame + 16)? == u64::from(layout.frame_instruction)
        && word(at_frame + 32)? == u64::from(owner)
        && word(at_code)? == u64::from(layout.code_file)
        && word(at_code + 16)? == u64::from(layout.code_name)
        && word(at_code + 24)? == u64::from(layout.code_lines)
        && word(at_code + 32)? == u64::from(layout.code_first_line)
        && word(described.code_start)? == u64::from(layout.code_start.unwrap_or(0));
    if same { Ok(()) } else { Err(unknown) }
}

/// A function of the interpreter's that takes nothing.
fn call(function: &AtomicUsize) -> u64 {
    type Takes = unsafe extern "C" fn() -> u64;
    let at = function.load(Ordering::Relaxed);
    // SAFETY: `find` stored the address of a function of this kind before READY was published.
    let function = unsafe { core::mem::transmute::<usize, Takes>(at) };
    // SAFETY: each of them reads one word of the interpreter's, and needs no lock for it.
    unsafe { function() }
}

fn walk(process: &Process, here: &mut Thread, at_ns: u64) -> u32 {
    let python = &process.python;
    let Some(layout) = LAYOUTS.get(python.layout.load(Ordering::Relaxed) as usize) else {
        return 0;
    };
    if call(&python.is_finalizing) as u32 != 0 {
        return absent(process, Absent::Finalizing as u64);
    }
    let state = call(&python.this_thread);
    if state == 0 {
        return absent(process, Absent::ForeignThread as u64);
    }
    let reader = Reader::new(process, at_ns);
    if !here.is_walking
        && let Some(last) = python.last.get(here.place as usize)
    {
        here.is_walking = true;
        // SAFETY: the place is this thread's, and `is_walking` keeps its signal handlers away.
        let last = unsafe { &mut *last.0.get() };
        let found = frames(python, layout, reader, state, &mut last.fresh);
        let node = found.map(|(len, cut)| {
            // SAFETY: `frames` has filled this many.
            let fresh =
                unsafe { core::slice::from_raw_parts(last.fresh.as_ptr().cast::<Step>(), len) };
            let known = if last.cut == u32::from(cut) {
                last.len
            } else {
                0
            };
            let node = intern(process, layout, reader, fresh, cut, &mut last.steps, known);
            last.cut = cut.into();
            last.len = if node == 0 { 0 } else { len as u32 };
            (len, node)
        });
        here.is_walking = false;
        return outcome(process, node);
    }
    alone(process, layout, reader, state)
}

/// A walk without a place of the thread's own: the process has too many threads, or a signal handler came into another walk.
#[cold]
#[inline(never)]
fn alone(process: &Process, layout: &Layout, reader: Reader<'_>, state: u64) -> u32 {
    let mut fresh = [MaybeUninit::<Step>::uninit(); DEPTH];
    let found = frames(&process.python, layout, reader, state, &mut fresh);
    let node = found.map(|(len, cut)| {
        // SAFETY: `frames` has filled this many.
        let fresh = unsafe { core::slice::from_raw_parts(fresh.as_ptr().cast::<Step>(), len) };
        (len, intern(process, layout, reader, fresh, cut, &mut [], 0))
    });
    outcome(process, node)
}

/// The node of a walk that found frames, or that of the reason why it found none.
#[inline]
fn outcome(process: &Process, walked: Option<(usize, u32)>) -> u32 {
    match walked {
        None => absent(process, Absent::Unreadable as u64),
        Some((0, _)) => absent(process, Absent::NoFrames as u64),
        Some((_, node)) => node,
    }
}

/// Walks a thread's frames from the innermost on; how many, and whether there are more. `None` where something is not what it should be.
#[inline(always)]
fn frames(
    python: &Python,
    layout: &Layout,
    reader: Reader<'_>,
    state: u64,
    steps: &mut [MaybeUninit<Step>; DEPTH],
) -> Option<(usize, bool)> {
    if reader.value::<u64>(state + u64::from(layout.thread_id))? != sys::thread_pointer() {
        return None;
    }
    let code_type = python.code_type.load(Ordering::Relaxed) as u64;
    let mut frame = reader.value::<u64>(state + u64::from(layout.thread_frame))?;
    if let Some(at) = layout.holder_frame {
        frame = reader.value::<u64>(frame + u64::from(at))?;
    }
    let mut len = 0;
    let mut passed = 0;
    while frame != 0 {
        if !reader.holds(frame, layout.frame_len.into()) {
            return None;
        }
        let at = |offset: u16| (frame + u64::from(offset)) as *const u64;
        // SAFETY: the reader holds the whole frame.
        let previous = unsafe { at(layout.frame_previous).read_unaligned() };
        let is_shim = layout.frame_owner.is_some_and(|(offset, last)| {
            // SAFETY: as above.
            let owner = unsafe { at(offset).cast::<u8>().read() };
            owner > last
        });
        if is_shim {
            passed += 1;
            if passed > SHIMS {
                return None;
            }
            frame = previous;
            continue;
        }
        passed = 0;
        let Some(step) = steps.get_mut(len) else {
            return Some((len, true));
        };
        // SAFETY: as above.
        let code = unsafe { at(layout.frame_code).read_unaligned() };
        let instruction = if layout.code_start.is_some() {
            // SAFETY: as above.
            unsafe { at(layout.frame_instruction).read_unaligned() }
        } else {
            // SAFETY: as above.
            u64::from(unsafe { at(layout.frame_instruction).cast::<u32>().read_unaligned() })
        };
        // The lowest bits are marks from 3.14 on, and objects are aligned to more.
        let code = code & !3;
        if !reader.holds(code, layout.code_len.into()) {
            return None;
        }
        // SAFETY: the reader holds the whole object.
        let ty = unsafe { ((code + OBJECT_TYPE) as *const u64).read() };
        if ty != code_type {
            return None;
        }
        step.write(Step {
            code,
            instruction,
            print: print(layout, reader, code)?,
        });
        len += 1;
        frame = previous;
    }
    Some((len, false))
}

/// What tells a code object from others that had its place before. The reader holds the object.
#[inline(always)]
fn print(layout: &Layout, reader: Reader<'_>, code: u64) -> Option<u64> {
    let word = |offset: u16| {
        // SAFETY: the caller's promise.
        unsafe { ((code + u64::from(offset)) as *const u64).read_unaligned() }
    };
    let file = word(layout.code_file);
    let first_line = word(layout.code_first_line) & 0xffff_ffff;
    if let Some(at) = layout.code_version {
        let version = word(at) & 0xffff_ffff;
        if version != 0 {
            return Some((version << 32 | first_line) ^ file.rotate_left(20));
        }
    }
    let table = word(layout.code_lines);
    let (name, table_len) = (
        word(layout.code_name),
        reader.value::<u64>(table + BYTES_LEN)?,
    );
    let file_len = reader.value::<u64>(file + TEXT_LEN)?;
    let data = file + u64::from(layout.text_ascii);
    let last = reader.value::<u64>(data.wrapping_add(file_len.saturating_sub(8)))?;
    let mut print = first_line;
    for word in [
        file,
        name,
        table,
        table_len,
        file_len,
        last,
        reader.value::<u64>(table + BYTES_DATA)?,
    ] {
        print = (print ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        print ^= print >> 32;
    }
    Some(print)
}

/// The node of the innermost of these frames, which come innermost first. `last` are those of the thread's last stack, outermost first, of which
/// `known` are still what they were; it becomes this stack.
#[inline(always)]
fn intern(
    process: &Process,
    layout: &Layout,
    reader: Reader<'_>,
    fresh: &[Step],
    cut: bool,
    last: &mut [(Step, u32)],
    known: u32,
) -> u32 {
    let mut node = if cut {
        tables::node(process, 0, 0, stack::CUT)
    } else {
        0
    };
    let mut known = known as usize;
    for (depth, step) in fresh.iter().rev().enumerate() {
        let place = last.get_mut(depth);
        if depth < known
            && let Some((there, number)) = &place
            && there == step
        {
            node = *number;
            continue;
        }
        known = 0;
        node = match frame(process, layout, reader, *step) {
            0 => 0,
            frame => tables::node(process, frame.into(), node, stack::PYTHON),
        };
        if node == 0 {
            break;
        }
        if let Some(place) = place {
            *place = (*step, node);
        }
    }
    node
}

/// The number of a frame, decoded if it was never seen; 0 when the table is full.
fn frame(process: &Process, layout: &Layout, reader: Reader<'_>, step: Step) -> u32 {
    let mixed = step.mixed();
    let part = mixed & 0xffff_ffff;
    let known = &process.python.known[(mixed >> 40) as usize % KNOWN];
    let number = known.number.load(Ordering::Relaxed);
    // Two threads may have written the two words: they must be of the same frame.
    if known.mixed.load(Ordering::Relaxed) == mixed && number & 0xffff_ffff == part {
        return (number >> 32) as u32;
    }
    let _errno = sys::ErrnoGuard::new();
    let number = decode(process, layout, reader, step);
    if number != 0 {
        known.mixed.store(mixed, Ordering::Relaxed);
        known
            .number
            .store(u64::from(number) << 32 | part, Ordering::Relaxed);
    }
    number
}

/// Reads a frame's file, function and line, and interns them.
#[cold]
#[inline(never)]
fn decode(process: &Process, layout: &Layout, reader: Reader<'_>, step: Step) -> u32 {
    let word = |offset: u16| {
        reader
            .value::<u64>(step.code + u64::from(offset))
            .unwrap_or(0)
    };
    let first = reader
        .value::<i32>(step.code + u64::from(layout.code_first_line))
        .unwrap_or(0);
    let file = text(process, layout, reader, word(layout.code_file));
    let function = text(process, layout, reader, word(layout.code_name));
    let at = match layout.code_start {
        Some(start) => step
            .instruction
            .wrapping_sub(step.code + u64::from(start))
            .cast_signed(),
        // 3.10 counts units of two bytes.
        None => {
            let unit = if layout.lines == layout::Lines::Ranges {
                2
            } else {
                1
            };
            i64::from((step.instruction as u32).cast_signed()) * unit
        }
    };
    let line = line_of(layout, reader, word(layout.code_lines), first.into(), at);
    tables::frame(
        process,
        file,
        function,
        line.unwrap_or(0),
        u32::try_from(first).unwrap_or(0),
    )
}

/// The line of an instruction, by the table in a bytes object.
fn line_of(layout: &Layout, reader: Reader<'_>, table: u64, first: i64, at: i64) -> Option<u32> {
    let len = reader.value::<u64>(table + BYTES_LEN)?;
    let len = usize::try_from(len).ok().filter(|len| *len <= TABLE_MAX)?;
    let data = table + BYTES_DATA;
    // In place: the table may be longer than a thread's stack has room for.
    for page in (0..len as u64).step_by(4096) {
        if !reader.holds(data + page, (len as u64 - page).min(4096)) {
            return None;
        }
    }
    // SAFETY: the reader holds every page of it, and a bytes object does not change.
    let table = unsafe { core::slice::from_raw_parts(data as *const u8, len) };
    lines::line(layout.lines, table, first, at)
}

/// Interns a text of the interpreter's as UTF-8. Bytes that were no characters, and stand as lone surrogates, become those bytes again.
fn text(process: &Process, layout: &Layout, reader: Reader<'_>, object: u64) -> TextRef {
    let mut out = [0; NAME_MAX];
    let len = utf8(layout, reader, object, &mut out).unwrap_or(0);
    tables::interned(process, out.get(..len).unwrap_or_default())
}

fn utf8(layout: &Layout, reader: Reader<'_>, object: u64, out: &mut [u8]) -> Option<usize> {
    let len = usize::try_from(reader.value::<u64>(object + TEXT_LEN)?).ok()?;
    let state = reader.value::<u32>(object + TEXT_STATE)?;
    let (width, is_compact, is_ascii) = (state >> 2 & 7, state & 1 << 5 != 0, state & 1 << 6 != 0);
    if !is_compact {
        return None;
    }
    let data = object
        + u64::from(if is_ascii {
            layout.text_ascii
        } else {
            layout.text_other
        });
    let mut used = 0;
    for index in 0..len {
        let code = match width {
            1 => reader.value::<u8>(data + index as u64)?.widen(),
            2 => reader.value::<u16>(data + index as u64 * 2)?.widen(),
            4 => reader.value::<u32>(data + index as u64 * 4)?,
            _ => return None,
        };
        let (mut bytes, byte) = ([0; 4], [code as u8]);
        let encoded: &[u8] = match char::from_u32(code) {
            Some(char) => char.encode_utf8(&mut bytes).as_bytes(),
            None => &byte,
        };
        let Some(place) = out.get_mut(used..used + encoded.len()) else {
            break;
        };
        for (to, from) in place.iter_mut().zip(encoded) {
            *to = *from;
        }
        used += encoded.len();
    }
    Some(used)
}

/// Characters of less than 32 bits.
trait Widen: Plain {
    fn widen(self) -> u32;
}

impl Widen for u8 {
    fn widen(self) -> u32 {
        self.into()
    }
}

impl Widen for u16 {
    fn widen(self) -> u32 {
        self.into()
    }
}
