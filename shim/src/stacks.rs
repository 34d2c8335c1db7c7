//! Which frames a record's stack has: those of Python, those of native code, both or neither, as `GPUSHIM_STACKS` says.

use gpushim_abi::layout::{Absent, stack};

use crate::process::Process;
use crate::sync::Ordering;
use crate::thread::Thread;
use crate::{autograd, python, sys, tables};

/// Python frames.
const PYTHON: u32 = 1;
/// Native frames.
const NATIVE: u32 = 2;

/// Reads the variable; false when it says nothing that is known. Called once, while opening.
pub(crate) fn begin(process: &Process) -> bool {
    let chosen = match sys::variable(c"GPUSHIM_STACKS") {
        None => Some(PYTHON | NATIVE),
        Some(b"python,native" | b"native,python") => Some(PYTHON | NATIVE),
        Some(b"python") => Some(PYTHON),
        Some(b"native") => Some(NATIVE),
        Some(b"off") => Some(0),
        Some(_) => None,
    };
    process
        .stacks
        .store(chosen.unwrap_or(PYTHON | NATIVE), Ordering::Relaxed);
    chosen.is_some()
}

/// The stack of a driver call: the caller's return address, on the Python frames above it.
#[inline]
pub(crate) fn of_call(
    process: &Process,
    here: &mut Thread,
    return_address: u64,
    at_ns: u64,
) -> u32 {
    let frames = python_frames(process, here, at_ns);
    tables::native(process, return_address, frames)
}

/// The stack of an event that is no driver call: Python's frames alone.
#[inline]
pub(crate) fn of_event(process: &Process, here: &mut Thread, at_ns: u64) -> u32 {
    python_frames(process, here, at_ns)
}

#[inline]
fn python_frames(process: &Process, here: &mut Thread, at_ns: u64) -> u32 {
    if process.stacks.load(Ordering::Relaxed) & PYTHON == 0 {
        return tables::node(process, Absent::Off as u64, 0, stack::ABSENT);
    }
    let frames = python::stack(process, here, at_ns);
    autograd::stack(process, here, at_ns, frames)
}
