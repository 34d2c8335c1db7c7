//! What every call has in common: the state of the driver, faults, counting, `errno`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::faults::Faults;
use crate::ledger::Ledger;

/// Results, as in cuda.h.
pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const NOT_INITIALIZED: c_int = 3;
pub(crate) const DEINITIALIZED: c_int = 4;
pub(crate) const NO_DEVICE: c_int = 100;
pub(crate) const INVALID_DEVICE: c_int = 101;
pub(crate) const INVALID_CONTEXT: c_int = 201;
pub(crate) const UNSUPPORTED_LIMIT: c_int = 215;
pub(crate) const INVALID_HANDLE: c_int = 400;
pub(crate) const NOT_FOUND: c_int = 500;
pub(crate) const ALREADY_REGISTERED: c_int = 712;
pub(crate) const NOT_REGISTERED: c_int = 713;
pub(crate) const NOT_SUPPORTED: c_int = 801;
pub(crate) const CAPTURE_UNSUPPORTED: c_int = 900;
pub(crate) const CAPTURE_INVALIDATED: c_int = 901;
pub(crate) const UNKNOWN: c_int = 999;

/// What a call answers: nothing, or a result that is not success.
pub(crate) type Answer = Result<(), c_int>;

/// Whether a call needs `cuInit`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Init,
}

/// Process that has initialised the driver; 0 none.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Set by the exit handler.
static SHUT_DOWN: AtomicBool = AtomicBool::new(false);
static LEDGER: OnceLock<Mutex<Ledger>> = OnceLock::new();
static COUNTS: Mutex<BTreeMap<&'static str, Count>> = Mutex::new(BTreeMap::new());

/// Calls of one name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
}

thread_local! {
    /// The calling thread's current context; the rest of its stack is in `calls::contexts`.
    pub(crate) static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The ledger, alone.
pub(crate) fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER
        .get_or_init(|| Mutex::new(Ledger::new()))
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Calls by name.
pub(crate) fn counts() -> MutexGuard<'static, BTreeMap<&'static str, Count>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks this process as one whose driver is initialised.
pub(crate) fn initialised() {
    if OWNER.swap(process::id(), Ordering::Relaxed) == 0 {
        extern "C" fn shut_down() {
            crate::report::at_exit();
            SHUT_DOWN.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler only stores a flag and writes a file.
        unsafe { libc::atexit(shut_down) };
    }
}

/// Whether a process has initialised the driver that is not this one: a parent, before it forked.
pub(crate) fn is_inherited() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    owner != 0 && owner != process::id()
}

/// Runs a call: faults first, then the state of the driver, then the body.
pub(crate) fn run(name: &'static str, needs: Needs, body: impl FnOnce() -> Answer) -> c_int {
    if SHUT_DOWN.load(Ordering::Relaxed) {
        return DEINITIALIZED;
    }
    let planned = Faults::get().next(name);
    let answer = if let Some(result) = planned {
        Err(result)
    } else if needs == Needs::Init && (OWNER.load(Ordering::Relaxed) == 0 || is_inherited()) {
        Err(NOT_INITIALIZED)
    } else {
        body()
    };
    {
        let mut counts = counts();
        let count = counts.entry(name).or_default();
        count.calls += 1;
        count.failed += u64::from(answer.is_err());
    }
    match answer {
        Ok(()) => {
            if name.starts_with("cuMemAlloc") || name.ends_with("Create") {
                set_errno(11);
            }
            0
        }
        Err(result) => {
            set_errno(22);
            result
        }
    }
}

/// A real driver leaves all kinds of values in `errno`; whoever stands in between must not add to them.
fn set_errno(value: c_int) {
    // SAFETY: libc gives the address of this thread's errno.
    let at = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *at = value };
}

/// A place that the program wants an answer in.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// The pointer is null or writable: the program's promise to the driver.
    pub(crate) unsafe fn new(at: *mut T) -> Self {
        Self(at)
    }

    /// Whether the program gave a place.
    pub(crate) fn check(&self) -> Answer {
        if self.0.is_null() {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    /// Writes, if there is a place.
    pub(crate) fn put(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the promise of `new`.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

/// Declares driver calls: an exported function each, whose body runs under [`run`].
macro_rules! driver_calls {
    ($( $(#[$attribute:meta])* $needs:ident fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block )*) => { $(
        $(#[$attribute])*
        ///
        /// # Safety
        /// The driver's own contract for this call.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> core::ffi::c_int {
            crate::entry::run(stringify!($name), crate::entry::Needs::$needs, move || $body)
        }
    )* };
}
pub(crate) use driver_calls;

/// A program's out-pointer, inside the body of a driver call.
macro_rules! out {
    ($pointer:ident) => {
        // SAFETY: the program's promise to the driver.
        unsafe { crate::entry::Out::new($pointer) }
    };
}
pub(crate) use out;
