//! What a program says of its own phases: `gpushim_mark`, and NVTX.
//!
//! NVTX is a set of functions that do nothing until a tool's library is named by `NVTX_INJECTION64_PATH`; then the program's
//! first call loads that library and hands it a table of places, into which the tool writes its own functions. Ours record the text
//! and then call the function that was there before: that of another tool, where `GPUSHIM_NVTX_NEXT` names its library.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use gpushim_abi::events::Event;
use gpushim_abi::layout::{Counter, slot};

use crate::process::Process;
use crate::recorder::{self, Told};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::{sys, tables};

/// Longest text that is kept, bytes.
const TEXT_MAX: usize = 256;
/// Marks and ranges that are kept from before there is a capture.
const EARLY: usize = 64;

/// A mark from before there is a capture.
#[derive(Debug)]
struct Early {
    /// Stored last, release: the event's id.
    event: AtomicU32,
    fact: UnsafeCell<Fact>,
}

#[derive(Clone, Copy, Debug)]
struct Fact {
    at_ns: u64,
    id: u64,
    lens: [usize; 2],
    texts: [[u8; TEXT_MAX]; 2],
}

// SAFETY: each place is written by the thread that claimed it, before the release store of its event, and does not change afterwards.
unsafe impl Sync for Early {}

static EARLY_USED: AtomicU32 = AtomicU32::new(0);
static EARLY_MARKS: [Early; EARLY] = [const {
    Early {
        event: AtomicU32::new(0),
        fact: UnsafeCell::new(Fact {
            at_ns: 0,
            id: 0,
            lens: [0; 2],
            texts: [[0; TEXT_MAX]; 2],
        }),
    }
}; EARLY];

/// Records an event with its text and its domain's.
fn tell(event: Event, id: u64, text: &[u8], domain: &[u8]) {
    let short = |text: &[u8]| -> usize { text.len().min(TEXT_MAX) };
    let _errno = sys::ErrnoGuard::new();
    let Some(process) = Process::recording() else {
        let at = EARLY_USED.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(place) = EARLY_MARKS.get(at) else {
            EARLY_USED.fetch_sub(1, Ordering::Relaxed);
            tables::tally(Counter::EarlyMarks);
            return;
        };
        let mut fact = Fact {
            at_ns: sys::monotonic_ns(),
            id,
            lens: [short(text), short(domain)],
            texts: [[0; TEXT_MAX]; 2],
        };
        for (to, from) in fact.texts.iter_mut().zip([text, domain]) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
        // SAFETY: the place was claimed by counting and is this thread's until the store below.
        unsafe { *place.fact.get() = fact };
        place
            .event
            .store(u32::from(event as u16), Ordering::Release);
        return;
    };
    let reference = |text: &[u8]| {
        let text = text.get(..short(text)).unwrap_or_default();
        u64::from_le_bytes(tables::interned(process, text))
    };
    recorder::tell(&Told {
        event,
        address: id,
        size: 0,
        a: reference(text),
        b: reference(domain),
        device: slot::DEVICE_UNKNOWN,
    });
}

/// Moves what was marked before there was a capture into it. A forked child begins with its parent's marks.
pub(crate) fn flush(process: &Process) {
    for place in &EARLY_MARKS {
        let event = place.event.load(Ordering::Acquire);
        let Some(event) = u16::try_from(event).ok().and_then(Event::from_raw) else {
            return;
        };
        // SAFETY: complete, since its event was stored, and it does not change any more.
        let fact = unsafe { &*place.fact.get() };
        let [a, b] = [0, 1].map(|at: usize| {
            let text = fact
                .texts
                .get(at)
                .and_then(|text| text.get(..*fact.lens.get(at)?));
            u64::from_le_bytes(tables::interned(process, text.unwrap_or_default()))
        });
        recorder::tell_early(
            process,
            &Told {
                event,
                address: fact.id,
                size: 0,
                a,
                b,
                device: slot::DEVICE_UNKNOWN,
            },
            fact.at_ns,
        );
    }
}

/// Bytes of a text, up to the longest that is kept; empty for null.
///
/// # Safety
/// `text` is null or NUL-terminated.
unsafe fn bytes<'t>(text: *const c_char) -> &'t [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// `void gpushim_mark(const char *text)`: a moment of the program's own.
///
/// # Safety
/// `text` is null or NUL-terminated.
pub(crate) unsafe extern "C" fn gpushim_mark(text: *const c_char) {
    // SAFETY: the caller's promise.
    tell(Event::Mark, 0, unsafe { bytes(text) }, b"");
}

// NVTX's interface, version 3 (nvtxDetail/nvtxTypes.h): callbacks by module and number, in tables of places for pointers. Places that
// are null are functions that the program's NVTX does not have.

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;
/// `NVTX_CB_MODULE_CORE`, `NVTX_CB_MODULE_CORE2`.
const CORE: c_uint = 1;
const CORE2: c_uint = 5;

#[repr(C)]
struct Callbacks {
    struct_size: usize,
    /// Answers 1 with the table of a module and its length.
    table: Option<unsafe extern "C" fn(c_uint, *mut *mut *mut usize, *mut c_uint) -> c_int>,
}

/// The functions that stood in the places before, by module and number.
static BEFORE: [[AtomicUsize; 16]; 2] = [const { [const { AtomicUsize::new(0) }; 16] }; 2];
/// Ids of ranges of the process, where no other tool gives them.
static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);

fn before(module: c_uint, number: usize) -> usize {
    let module = usize::from(module == CORE2);
    BEFORE
        .get(module)
        .and_then(|module| module.get(number))
        .map_or(0, |place| place.load(Ordering::Relaxed))
}

/// Texts that NVTX hands out handles for, each a byte of length and its bytes; a handle is the address of the length.
struct Arena {
    bytes: UnsafeCell<[u8; ARENA_LEN]>,
    used: AtomicU32,
}

const ARENA_LEN: usize = 256 << 10;
/// Places for handles; a power of two.
const HANDLES: usize = 4096;

// SAFETY: each writer has the bytes that it claimed from `used` for itself until it publishes their place in `HANDLE_TEXTS`.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena {
    bytes: UnsafeCell::new([0; ARENA_LEN]),
    used: AtomicU32::new(0),
};
/// Handles of domains and registered strings, ours or another tool's, and where their texts stand in the arena, plus one.
static HANDLE_KEYS: [AtomicU64; HANDLES] = [const { AtomicU64::new(0) }; HANDLES];
static HANDLE_TEXTS: [AtomicU32; HANDLES] = [const { AtomicU32::new(0) }; HANDLES];

/// Keeps a text; its place, `None` when there is no room.
fn keep(text: &[u8]) -> Option<usize> {
    let text = text.get(..text.len().min(255)).unwrap_or_default();
    let at = ARENA
        .used
        .fetch_add(1 + text.len() as u32, Ordering::Relaxed) as usize;
    if at + 1 + text.len() > ARENA_LEN {
        ARENA
            .used
            .fetch_sub(1 + text.len() as u32, Ordering::Relaxed);
        return None;
    }
    let to = ARENA.bytes.get().cast::<u8>().wrapping_add(at);
    // SAFETY: the bytes were claimed by counting, inside the arena.
    unsafe { to.write(text.len() as u8) };
    // SAFETY: as above; the program's text lies elsewhere.
    unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), to.wrapping_add(1), text.len()) };
    Some(at)
}

fn kept(at: usize) -> &'static [u8] {
    let from = ARENA.bytes.get().cast::<u8>().wrapping_add(at).cast_const();
    // SAFETY: `at` is a place that `keep` gave, complete before it was published, and does not change.
    let len = usize::from(unsafe { from.read() });
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(from.wrapping_add(1), len) }
}

/// The address that stands for a kept text where no other tool gives a handle.
fn own_handle(at: usize) -> u64 {
    ARENA.bytes.get() as u64 + at as u64
}

/// Remembers the text of a handle.
fn name(handle: u64, at: usize) {
    let start = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    for step in 0..HANDLES {
        let place = (start + step) % HANDLES;
        let (Some(key), Some(text)) = (HANDLE_KEYS.get(place), HANDLE_TEXTS.get(place)) else {
            return;
        };
        match key.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(held) if held == handle => {}
            Err(_) => continue,
        }
        text.store(at as u32 + 1, Ordering::Release);
        return;
    }
}

/// The text of a handle; empty for one that is not known.
fn named(handle: u64) -> &'static [u8] {
    if handle == 0 {
        return &[];
    }
    let start = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    for step in 0..HANDLES {
        let place = (start + step) % HANDLES;
        let (Some(key), Some(text)) = (HANDLE_KEYS.get(place), HANDLE_TEXTS.get(place)) else {
            break;
        };
        match key.load(Ordering::Acquire) {
            0 => break,
            held if held == handle => {
                return match text.load(Ordering::Acquire) {
                    0 => &[],
                    at => kept(at as usize - 1),
                };
            }
            _ => {}
        }
    }
    &[]
}

/// A wide text as UTF-8.
struct Narrow {
    bytes: [u8; TEXT_MAX],
    len: usize,
}

impl Narrow {
    /// # Safety
    /// `text` is null or ends with a zero character.
    unsafe fn new(text: *const u32) -> Self {
        let mut narrow = Self {
            bytes: [0; TEXT_MAX],
            len: 0,
        };
        if text.is_null() {
            return narrow;
        }
        for at in 0..TEXT_MAX {
            // SAFETY: the caller's promise; the walk ends at the zero.
            let code = unsafe { text.wrapping_add(at).read_unaligned() };
            if code == 0 {
                break;
            }
            let mut bytes = [0; 4];
            let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            let encoded = char.encode_utf8(&mut bytes).as_bytes();
            let end = narrow.len + encoded.len();
            let Some(place) = narrow.bytes.get_mut(narrow.len..end) else {
                break;
            };
            for (to, from) in place.iter_mut().zip(encoded) {
                *to = *from;
            }
            narrow.len = end;
        }
        narrow
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// `nvtxEventAttributes_t`: what is read of it.
type Attributes = c_void;

/// Records an event with the message of its attributes.
///
/// # Safety
/// `attributes` is null or points to an `nvtxEventAttributes_t`.
unsafe fn tell_with(event: Event, id: u64, attributes: *const Attributes, domain: u64) {
    const SIZE: usize = 2;
    const MESSAGE_TYPE: usize = 32;
    const MESSAGE: usize = 40;
    /// `NVTX_MESSAGE_TYPE_ASCII`, `_UNICODE`, `_REGISTERED`.
    const ASCII: u32 = 1;
    const UNICODE: u32 = 2;
    const REGISTERED: u32 = 3;
    let domain = named(domain);
    if attributes.is_null() {
        return tell(event, id, b"", domain);
    }
    let at = attributes.cast::<u8>();
    // SAFETY: the caller's promise: the struct begins with its version and its size.
    let size = unsafe { at.wrapping_add(SIZE).cast::<u16>().read_unaligned() };
    if usize::from(size) < MESSAGE + 8 {
        return tell(event, id, b"", domain);
    }
    // SAFETY: inside the size that the struct says it has.
    let kind = unsafe { at.wrapping_add(MESSAGE_TYPE).cast::<u32>().read_unaligned() };
    // SAFETY: as above.
    let message = unsafe { at.wrapping_add(MESSAGE).cast::<u64>().read_unaligned() };
    match kind {
        // SAFETY: NVTX's contract for messages of this kind.
        ASCII => tell(
            event,
            id,
            unsafe { bytes(message as *const c_char) },
            domain,
        ),
        // SAFETY: likewise.
        UNICODE => tell(
            event,
            id,
            unsafe { Narrow::new(message as *const u32) }.text(),
            domain,
        ),
        REGISTERED => tell(event, id, named(message), domain),
        _ => tell(event, id, b"", domain),
    }
}

/// What NVTX answers to a push or a pop where no tool listens.
const NO_TRACKING: c_int = -2;

macro_rules! before {
    ($module:ident $number:literal ($($arg:expr),*): fn($($ty:ty),*) -> $out:ty, else $otherwise:expr) => {
        match before($module, $number) {
            0 => $otherwise,
            // SAFETY: the other tool put a function of this signature into the place of this number; the program's arguments go on
            // unchanged.
            function => unsafe {
                let function: unsafe extern "C" fn($($ty),*) -> $out = core::mem::transmute::<usize, _>(function);
                function($($arg),*)
            },
        }
    };
}

/// A fresh id for a range of the process.
fn range_id() -> u64 {
    NEXT_RANGE.fetch_add(1, Ordering::Relaxed)
}

macro_rules! functions {
    ($( $module:ident $number:literal $name:ident($($arg:ident: $ty:ty),*) -> $out:ty { $body:expr } )*) => {
        $(
            #[doc = concat!("Stands in the place of callback ", stringify!($number), " of module ", stringify!($module), ".")]
            ///
            /// # Safety
            /// NVTX's own contract for this function.
            unsafe extern "C" fn $name($($arg: $ty),*) -> $out {
                $body
            }
        )*

        /// Our functions, by module and number.
        fn ours(module: c_uint) -> [usize; 16] {
            let mut places = [0; 16];
            $( if module == $module && let Some(place) = places.get_mut($number) {
                *place = $name as *const () as usize;
            } )*
            places
        }
    };
}

type Text = *const c_char;
type Wide = *const u32;

// SAFETY of every body: NVTX's contract says what texts and attributes are, and it is passed on.
functions! {
    CORE 1 mark_ex(with: *const Attributes) -> () {{
        // SAFETY: as said above.
        unsafe { tell_with(Event::Mark, 0, with, 0) };
        before!(CORE 1 (with): fn(*const Attributes) -> (), else ())
    }}
    CORE 2 mark(text: Text) -> () {{
        // SAFETY: as said above.
        tell(Event::Mark, 0, unsafe { bytes(text) }, b"");
        before!(CORE 2 (text): fn(Text) -> (), else ())
    }}
    CORE 3 mark_wide(text: Wide) -> () {{
        // SAFETY: as said above.
        tell(Event::Mark, 0, unsafe { Narrow::new(text) }.text(), b"");
        before!(CORE 3 (text): fn(Wide) -> (), else ())
    }}
    CORE 4 start_ex(with: *const Attributes) -> u64 {{
        let id = before!(CORE 4 (with): fn(*const Attributes) -> u64, else range_id());
        // SAFETY: as said above.
        unsafe { tell_with(Event::RangeStarted, id, with, 0) };
        id
    }}
    CORE 5 start(text: Text) -> u64 {{
        let id = before!(CORE 5 (text): fn(Text) -> u64, else range_id());
        // SAFETY: as said above.
        tell(Event::RangeStarted, id, unsafe { bytes(text) }, b"");
        id
    }}
    CORE 6 start_wide(text: Wide) -> u64 {{
        let id = before!(CORE 6 (text): fn(Wide) -> u64, else range_id());
        // SAFETY: as said above.
        tell(Event::RangeStarted, id, unsafe { Narrow::new(text) }.text(), b"");
        id
    }}
    CORE 7 end(id: u64) -> () {{
        tell(Event::RangeEnded, id, b"", b"");
        before!(CORE 7 (id): fn(u64) -> (), else ())
    }}
    CORE 8 push_ex(with: *const Attributes) -> c_int {{
        // SAFETY: as said above.
        unsafe { tell_with(Event::RangePushed, 0, with, 0) };
        before!(CORE 8 (with): fn(*const Attributes) -> c_int, else NO_TRACKING)
    }}
    CORE 9 push(text: Text) -> c_int {{
        // SAFETY: as said above.
        tell(Event::RangePushed, 0, unsafe { bytes(text) }, b"");
        before!(CORE 9 (text): fn(Text) -> c_int, else NO_TRACKING)
    }}
    CORE 10 push_wide(text: Wide) -> c_int {{
        // SAFETY: as said above.
        tell(Event::RangePushed, 0, unsafe { Narrow::new(text) }.text(), b"");
        before!(CORE 10 (text): fn(Wide) -> c_int, else NO_TRACKING)
    }}
    CORE 11 pop() -> c_int {{
        tell(Event::RangePopped, 0, b"", b"");
        before!(CORE 11 (): fn() -> c_int, else NO_TRACKING)
    }}
    CORE2 1 domain_mark(domain: u64, with: *const Attributes) -> () {{
        // SAFETY: as said above.
        unsafe { tell_with(Event::Mark, 0, with, domain) };
        before!(CORE2 1 (domain, with): fn(u64, *const Attributes) -> (), else ())
    }}
    CORE2 2 domain_start(domain: u64, with: *const Attributes) -> u64 {{
        let id = before!(CORE2 2 (domain, with): fn(u64, *const Attributes) -> u64, else range_id());
        // SAFETY: as said above.
        unsafe { tell_with(Event::RangeStarted, id, with, domain) };
        id
    }}
    CORE2 3 domain_end(domain: u64, id: u64) -> () {{
        tell(Event::RangeEnded, id, b"", named(domain));
        before!(CORE2 3 (domain, id): fn(u64, u64) -> (), else ())
    }}
    CORE2 4 domain_push(domain: u64, with: *const Attributes) -> c_int {{
        // SAFETY: as said above.
        unsafe { tell_with(Event::RangePushed, 0, with, domain) };
        before!(CORE2 4 (domain, with): fn(u64, *const Attributes) -> c_int, else NO_TRACKING)
    }}
    CORE2 5 domain_pop(domain: u64) -> c_int {{
        tell(Event::RangePopped, 0, b"", named(domain));
        before!(CORE2 5 (domain): fn(u64) -> c_int, else NO_TRACKING)
    }}
    CORE2 10 register(domain: u64, text: Text) -> u64 {{
        let other = before!(CORE2 10 (domain, text): fn(u64, Text) -> u64, else 0);
        // SAFETY: as said above.
        handle(other, unsafe { bytes(text) })
    }}
    CORE2 11 register_wide(domain: u64, text: Wide) -> u64 {{
        let other = before!(CORE2 11 (domain, text): fn(u64, Wide) -> u64, else 0);
        // SAFETY: as said above.
        handle(other, unsafe { Narrow::new(text) }.text())
    }}
    CORE2 12 domain(text: Text) -> u64 {{
        let other = before!(CORE2 12 (text): fn(Text) -> u64, else 0);
        // SAFETY: as said above.
        handle(other, unsafe { bytes(text) })
    }}
    CORE2 13 domain_wide(text: Wide) -> u64 {{
        let other = before!(CORE2 13 (text): fn(Wide) -> u64, else 0);
        // SAFETY: as said above.
        handle(other, unsafe { Narrow::new(text) }.text())
    }}
}

/// The handle of a text: another tool's where there is one, else our own; remembered either way.
fn handle(other: u64, text: &[u8]) -> u64 {
    let Some(at) = keep(text) else {
        return other;
    };
    let handle = if other == 0 { own_handle(at) } else { other };
    name(handle, at);
    handle
}

type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(Option<GetExportTable>) -> c_int;

/// What NVTX calls once, with the first of its functions that a program calls: puts our functions into their places.
///
/// NVTX looks for this name among the global symbols first, so a preloaded library is found without `NVTX_INJECTION64_PATH`; a tool
/// that the variable names would then not be loaded any more, so we load it.
///
/// # Safety
/// NVTX's own contract for this function.
#[allow(non_snake_case, reason = "NVIDIA's own name")]
#[cfg_attr(test, allow(dead_code, reason = "only the assembly names it"))]
pub(crate) unsafe extern "C" fn InitializeInjectionNvtx2(get: Option<GetExportTable>) -> c_int {
    let other = other_tool().is_some_and(|initialize| {
        // SAFETY: the other tool's own function, called as NVTX would.
        unsafe { initialize(get) != 0 }
    });
    let Some(get) = get else {
        return 0;
    };
    // SAFETY: NVTX's contract.
    let callbacks = unsafe { get(CALLBACKS) }.cast::<Callbacks>();
    if callbacks.is_null() {
        return other.into();
    }
    // SAFETY: NVTX answers with a table of at least these two words, or says that it is shorter.
    let Callbacks { struct_size, table } = unsafe { callbacks.read() };
    let (Some(table), true) = (table, struct_size >= size_of::<Callbacks>()) else {
        return other.into();
    };
    for module in [CORE, CORE2] {
        let mut places = core::ptr::null_mut();
        let mut count = 0;
        // SAFETY: NVTX's contract; both places are ours.
        if unsafe { table(module, &raw mut places, &raw mut count) } == 0 || places.is_null() {
            continue;
        }
        for (number, ours) in ours(module).into_iter().enumerate() {
            if ours == 0 || number >= count as usize {
                continue;
            }
            // SAFETY: the table has that many entries.
            let place = unsafe { places.wrapping_add(number).read() };
            if place.is_null() {
                continue;
            }
            // Until the other tool is initialised, the places hold NVTX's own functions, which would come back to us.
            if other
                && let Some(kept) = BEFORE
                    .get(usize::from(module == CORE2))
                    .and_then(|module| module.get(number))
            {
                // SAFETY: NVTX's place for a function.
                kept.store(unsafe { place.read() }, Ordering::Relaxed);
            }
            // SAFETY: as above.
            unsafe { place.write(ours) };
        }
    }
    1
}

/// Another tool's initialiser: that of a library that was preloaded after us, or of the one that the environment names.
fn other_tool() -> Option<Initialize> {
    let name = c"InitializeInjectionNvtx2";
    let mut found = crate::doors::next(name);
    for variable in [c"GPUSHIM_NVTX_NEXT", c"NVTX_INJECTION64_PATH"] {
        if found != 0 {
            break;
        }
        if let Some(path) = sys::variable(variable) {
            found = function_of(path, name);
        }
    }
    if found == 0 || found == InitializeInjectionNvtx2 as *const () as usize {
        return None;
    }
    // SAFETY: the address of a function of this name, which has one signature.
    Some(unsafe { core::mem::transmute::<usize, Initialize>(found) })
}

/// Loads a library for good, as NVTX would have, and finds a function in it; 0 when that fails. Not for the path of a hooked call: it waits
/// for the loader. `dlopen` is looked for rather than linked, since its version depends on glibc's.
fn function_of(path: &[u8], name: &CStr) -> usize {
    let dlopen = crate::doors::next(c"dlopen");
    let mut text = [0_u8; 4096];
    let fits = path.len() < text.len();
    for (to, from) in text.iter_mut().zip(path) {
        *to = *from;
    }
    if dlopen == 0 || !fits {
        return 0;
    }
    type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // SAFETY: the C library's function of this name.
    let dlopen = unsafe { core::mem::transmute::<usize, Dlopen>(dlopen) };
    // SAFETY: the path is NUL-terminated by the zeros behind it.
    let library = unsafe { dlopen(text.as_ptr().cast(), libc::RTLD_LAZY) };
    if library.is_null() {
        return 0;
    }
    crate::doors::defined_in(library as usize, name)
}

// The names that programs find, at a version that every look-up sees.
#[cfg(not(test))]
core::arch::global_asm!(
    ".globl gpushim_entry_mark",
    ".type gpushim_entry_mark, @function",
    "gpushim_entry_mark:",
    "    endbr64",
    "    jmp {mark}",
    ".size gpushim_entry_mark, . - gpushim_entry_mark",
    ".symver gpushim_entry_mark, gpushim_mark@@GPUSHIM_1",
    ".globl gpushim_entry_nvtx",
    ".type gpushim_entry_nvtx, @function",
    "gpushim_entry_nvtx:",
    "    endbr64",
    "    jmp {nvtx}",
    ".size gpushim_entry_nvtx, . - gpushim_entry_nvtx",
    ".symver gpushim_entry_nvtx, InitializeInjectionNvtx2@@GPUSHIM_1",
    mark = sym gpushim_mark,
    nvtx = sym InitializeInjectionNvtx2,
);
