//! The file: where it is made, how large it may be, how it grows.
//!
//! Space is always taken before it is touched, and no descriptor is kept: a program may close every descriptor that
//! it does not know, and the next file it opens would get our number.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};

use gpushim_abi::layout::{self, Counter, EXTENSION, Region, Text, header, slot};

use crate::process::{self, PATH_MAX, Process};
use crate::sync::Ordering;
use crate::sys::{self, ErrnoGuard, File};
use crate::{driver, phases, stacks, tables};

/// Greatest length of a capture unless `GPUSHIM_SIZE` says otherwise.
const SIZE_DEFAULT: u64 = 64 << 20;
/// The smallest capture that is of use.
const SIZE_MIN: u64 = 1 << 20;
/// The largest: offsets of texts are 32 bits wide.
const SIZE_MAX: u64 = 64 << 30;
/// First length of the ring and of the tables that grow.
const RING_FIRST: u64 = 256 << 10;
const TABLE_FIRST: u64 = 64 << 10;

/// Variables of the environment that tell one rank or job from another, or change what memory is used.
const ENVIRONMENT: &[&CStr] = &[
    c"CUDA_VISIBLE_DEVICES",
    c"CUDA_MODULE_LOADING",
    c"CUDA_DEVICE_ORDER",
    c"CUDA_MPS_PIPE_DIRECTORY",
    c"RANK",
    c"LOCAL_RANK",
    c"WORLD_SIZE",
    c"GROUP_RANK",
    c"TORCHELASTIC_RUN_ID",
    c"SLURM_JOB_ID",
    c"SLURM_PROCID",
    c"OMPI_COMM_WORLD_RANK",
    c"PYTORCH_CUDA_ALLOC_CONF",
    c"PYTORCH_ALLOC_CONF",
    c"PYTORCH_NO_CUDA_MEMORY_CACHING",
    c"XLA_PYTHON_CLIENT_PREALLOCATE",
    c"XLA_PYTHON_CLIENT_MEM_FRACTION",
    c"XLA_PYTHON_CLIENT_ALLOCATOR",
    c"CUBLAS_WORKSPACE_CONFIG",
];

/// Why there is no capture.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    what: &'static [u8],
    errno: c_int,
}

impl Refusal {
    const fn new(what: &'static [u8], errno: c_int) -> Self {
        Self { what, errno }
    }
}

/// Text built in place, NUL-terminated; what does not fit makes the whole unusable, never shorter.
struct Line<'b> {
    bytes: &'b mut [u8],
    len: usize,
    fits: bool,
}

/// Room for paths and the like while the capture is being opened: programs call the driver on stacks of a few KiB.
struct Room([UnsafeCell<[u8; PATH_MAX]>; 4]);

// SAFETY: only the one thread of the process that is opening the capture asks for room, once for each place.
unsafe impl Sync for Room {}

static ROOM: Room = Room([const { UnsafeCell::new([0; PATH_MAX]) }; 4]);

/// What each place of the room is for.
#[derive(Clone, Copy)]
enum For {
    Path,
    Prefix,
    Reading,
    Environment,
}

/// A place of the room. Each is asked for where the one before it with the same purpose is not used any more.
fn room(place: For) -> &'static mut [u8] {
    // SAFETY: as said at `Room`.
    unsafe { &mut *ROOM.0[place as usize].get() }
}

impl<'b> Line<'b> {
    fn new(bytes: &'b mut [u8]) -> Self {
        if let Some(first) = bytes.first_mut() {
            *first = 0;
        }
        Self {
            bytes,
            len: 0,
            fits: true,
        }
    }

    fn push(&mut self, text: &[u8]) -> &mut Self {
        let len = self.len + text.len();
        // One byte stays for the NUL: the room has been used before.
        match self.bytes.get_mut(self.len..=len) {
            Some(place) => {
                for (to, from) in place.iter_mut().zip(text.iter().chain(b"\0")) {
                    *to = *from;
                }
                self.len = len;
            }
            _ => self.fits = false,
        }
        self
    }

    fn number(&mut self, mut value: u64, base: u64) -> &mut Self {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let mut digits = [0; 20];
        let mut used = 0;
        for place in digits.iter_mut().rev() {
            *place = DIGITS.get((value % base) as usize).copied().unwrap_or(b'?');
            used += 1;
            value /= base;
            if value == 0 {
                break;
            }
        }
        self.push(digits.get(20 - used..).unwrap_or_default())
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn path(&self) -> Option<&CStr> {
        if !self.fits {
            return None;
        }
        CStr::from_bytes_until_nul(self.bytes).ok()
    }
}

/// Opens the capture of this process, once; every other thread passes through meanwhile.
#[cold]
pub(crate) fn open() {
    let Some(process) = Process::get() else {
        return;
    };
    if process
        .state
        .compare_exchange(
            process::UNOPENED,
            process::OPENING,
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .is_err()
    {
        return;
    }
    let _errno = ErrnoGuard::new();
    if sys::variable(c"GPUSHIM_DISABLE").is_some_and(|value| value != b"0") {
        process.state.store(process::OFF, Ordering::Release);
        return;
    }
    match make(process) {
        Ok(()) => {
            process.state.store(process::OPEN, Ordering::Release);
            // Facts and calls that came while the file was being made.
            tables::flush(process);
            phases::flush(process);
            process.count(
                Counter::WhileOpening,
                process.missed.load(Ordering::Relaxed),
            );
        }
        Err(refusal) => {
            process.state.store(process::OFF, Ordering::Release);
            complain(refusal);
        }
    }
}

/// One line on standard error, for those who asked for it.
fn complain(refusal: Refusal) {
    if sys::variable(c"GPUSHIM_LOG").is_none_or(|value| value == b"0") {
        return;
    }
    let mut bytes = [0; 256];
    let mut line = Line::new(&mut bytes);
    line.push(b"gpushim: nothing is recorded in process ")
        .number(u64::from(sys::process_id()), 10)
        .push(b": ")
        .push(refusal.what);
    if refusal.errno != 0 {
        line.push(b" (errno ")
            .number(refusal.errno as u64, 10)
            .push(b")");
    }
    line.push(b"; `gpushim doctor` says more\n");
    sys::say(line.text());
}

/// Lengths and places of the regions, from the greatest length of the file.
#[derive(Clone, Copy, Debug)]
struct Plan {
    places: [Place; Region::ALL.len()],
    len: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: u64,
    reserved: u64,
    first: u64,
}

/// The regions in the order in which they lie in the file: those that are complete at once come first.
const ORDER: [Region; Region::ALL.len()] = [
    Region::Devices,
    Region::Contexts,
    Region::Threads,
    Region::Notes,
    Region::Streams,
    Region::Modules,
    Region::Stacks,
    Region::Frames,
    Region::Strings,
    Region::Ring,
];

fn plan(size: u64) -> Plan {
    let page = |len: u64| len.next_multiple_of(layout::PAGE);
    let share = |part: u64, least: u64| page((size / part).max(least));
    let mut plan = Plan {
        places: [Place::default(); Region::ALL.len()],
        len: header::LEN as u64,
    };
    for region in ORDER {
        let reserved = match region {
            Region::Devices => layout::PAGE,
            Region::Contexts | Region::Threads | Region::Notes => 32 << 10,
            Region::Streams => layout::PAGE,
            Region::Modules => share(256, TABLE_FIRST).min(1 << 20),
            Region::Stacks => share(32, TABLE_FIRST).min(256 << 20),
            Region::Frames => share(64, TABLE_FIRST).min(128 << 20),
            Region::Strings => share(32, 2 * TABLE_FIRST).min(256 << 20),
            // The largest power of two in one half: slots are found by masking.
            Region::Ring => 1 << (63 - (size / 2).max(RING_FIRST).leading_zeros()),
        };
        let first = match region {
            Region::Modules | Region::Stacks | Region::Frames | Region::Strings => {
                TABLE_FIRST.min(reserved)
            }
            Region::Ring => RING_FIRST,
            _ => reserved,
        };
        if let Some(place) = plan.places.get_mut(region.index()) {
            *place = Place {
                offset: plan.len,
                reserved,
                first,
            };
        }
        plan.len += reserved;
    }
    plan
}

/// Reads a size: digits and an optional K, M or G.
fn size(text: &[u8]) -> Option<u64> {
    let (digits, unit) = match text {
        [digits @ .., b'k' | b'K'] => (digits, 10),
        [digits @ .., b'm' | b'M'] => (digits, 20),
        [digits @ .., b'g' | b'G'] => (digits, 30),
        digits => (digits, 0),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    value.checked_mul(1 << unit)
}

fn make(process: &Process) -> Result<(), Refusal> {
    let asked = sys::variable(c"GPUSHIM_SIZE");
    let wanted = asked.and_then(size);
    // Making the file longer than the limit would send the program SIGXFSZ.
    let limit = sys::file_size_limit();
    let length = wanted
        .unwrap_or(SIZE_DEFAULT)
        .clamp(SIZE_MIN, SIZE_MAX)
        .min(limit);
    let plan = plan(length);
    if plan.len > limit {
        return Err(Refusal::new(b"the limit on file sizes is below 1 MiB", 0));
    }
    let (directory, mut path) = directory()?;
    let file = create(&directory, &mut path, &plan)?;
    let mapped = || {
        let identity = file.identity().ok_or(Refusal::new(
            b"the capture cannot be examined",
            sys::errno(),
        ))?;
        let base = file
            .map(plan.len as usize)
            .map_err(|e| Refusal::new(b"the capture cannot be mapped", e))?;
        Ok((identity, base))
    };
    let (identity, base) = mapped().inspect_err(|_| {
        // Nothing will ever be in it.
        if let Some(path) = path.path() {
            sys::remove_path(path);
        }
    })?;
    drop(file);
    process.attach(base);
    process.file[0].store(identity.device, Ordering::Relaxed);
    process.file[1].store(identity.inode, Ordering::Relaxed);
    process.keep_path(path.path().unwrap_or_default());
    process.id.store(sys::process_id(), Ordering::Relaxed);
    process.notes_done.store(0, Ordering::Relaxed);
    for region in Region::ALL {
        let Some(place) = plan.places.get(region.index()) else {
            continue;
        };
        process.place(region, place.offset, place.reserved, place.first);
        if region == Region::Ring {
            let slots = place.reserved / slot::LEN as u64;
            process.wrap_at(slots.trailing_zeros());
        }
    }
    write_header(process, plan.len);
    tables::meet_devices(process);
    tables::flush_counts(process);
    if asked.is_some() && wanted.is_none() {
        tables::note(
            layout::note::DEGRADED,
            0,
            b"GPUSHIM_SIZE is not a size such as 64M; the default was taken",
        );
    }
    if !stacks::begin(process) {
        tables::note(
            layout::note::DEGRADED,
            0,
            b"GPUSHIM_STACKS is not \"python,native\", \"python\", \"native\" or \"off\"; the default was taken",
        );
    }
    if length < wanted.unwrap_or(SIZE_DEFAULT) {
        tables::note(
            layout::note::DEGRADED,
            0,
            b"the capture is smaller than asked for: the process's limit on file sizes",
        );
    }
    tables::flush(process);
    process.put_header(header::COMPLETE.start, &1_u32.to_le_bytes());
    Ok(())
}

/// Makes and opens the directory for captures; with it its path, ending in a slash.
fn directory() -> Result<(File, Line<'static>), Refusal> {
    let mut path = Line::new(room(For::Path));
    let shared = if let Some(asked) = sys::variable(c"GPUSHIM_DIR") {
        if !asked.starts_with(b"/") {
            // Kept absolute: the program may change its directory before the capture grows.
            path.push(sys::read_link(c"/proc/self/cwd", room(For::Reading)))
                .push(b"/");
        }
        path.push(asked);
        false
    } else if let Some(state) =
        sys::variable(c"XDG_STATE_HOME").filter(|state| state.starts_with(b"/"))
    {
        path.push(state).push(b"/gpushim");
        false
    } else {
        path.push(b"/tmp/gpushim-")
            .number(u64::from(sys::user_id()), 10);
        true
    };
    let too_long = Refusal::new(b"the path of the capture directory is too long", 0);
    let whole = path.path().ok_or(too_long)?;
    make_directories(whole);
    // In /tmp anyone could have put a link or a directory of that name first.
    let flags = if shared { libc::O_NOFOLLOW } else { 0 };
    let directory = File::open(None, whole, libc::O_RDONLY | libc::O_DIRECTORY | flags, 0)
        .map_err(|e| Refusal::new(b"the capture directory cannot be opened", e))?;
    if shared && !directory.is_private() {
        return Err(Refusal::new(
            b"the capture directory in /tmp belongs to somebody else or is open to others",
            0,
        ));
    }
    path.push(b"/");
    Ok((directory, path))
}

/// Makes a directory and those above it that are missing.
fn make_directories(path: &CStr) {
    let bytes = path.to_bytes();
    let mut prefix = Line::new(room(For::Prefix));
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'/'
            && at > 0
            && let Some(prefix) = prefix.path()
        {
            sys::make_directory(prefix);
        }
        prefix.push(&[byte]);
    }
    sys::make_directory(path);
}

/// Creates the file and takes the space for its first steps.
fn create(directory: &File, path: &mut Line<'_>, plan: &Plan) -> Result<File, Refusal> {
    let mut bytes = [0; 128];
    let mut name = Line::new(&mut bytes);
    let executable = sys::read_link(c"/proc/self/exe", room(For::Reading));
    let program = executable.rsplit(|&b| b == b'/').next().unwrap_or_default();
    if program.is_empty() {
        // No /proc here.
        name.push(b"process");
    }
    for &byte in program.iter().take(40) {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        name.push(&[if plain { byte } else { b'_' }]);
    }
    name.push(b"-")
        .number(u64::from(sys::process_id()), 10)
        .push(b"-")
        .number(sys::realtime_ns(), 16)
        .push(b".")
        .push(EXTENSION.as_bytes());
    path.push(name.text());
    let too_long = Refusal::new(b"the path of the capture is too long", 0);
    let name = name.path().ok_or(too_long)?;
    path.path().ok_or(too_long)?;
    let file = File::open(
        Some(directory),
        name,
        libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
        0o600,
    )
    .map_err(|e| Refusal::new(b"the capture cannot be created", e))?;
    let taken = take_space(&file, plan);
    if let Err(errno) = taken {
        sys::remove(directory, name);
        return Err(Refusal::new(b"there is no space for the capture", errno));
    }
    Ok(file)
}

fn take_space(file: &File, plan: &Plan) -> Result<(), c_int> {
    file.set_len(plan.len)?;
    file.allocate(0, header::LEN as u64)?;
    for place in &plan.places {
        file.allocate(place.offset, place.first)?;
    }
    Ok(())
}

fn write_header(process: &Process, len: u64) {
    let put = |at: usize, bytes: &[u8]| process.put_header(at, bytes);
    let put32 = |at: usize, value: u32| put(at, &value.to_le_bytes());
    let put64 = |at: usize, value: u64| put(at, &value.to_le_bytes());
    put(header::MAGIC.start, &layout::MAGIC);
    put(header::VERSION.start, &layout::VERSION.to_le_bytes());
    put(
        header::HEADER_LEN.start,
        &(header::LEN as u16).to_le_bytes(),
    );
    put64(header::FILE_LEN.start, len);
    let [parent, group, session] = sys::relations();
    put32(header::PID.start, sys::process_id());
    put32(header::PPID.start, parent);
    put32(header::PGID.start, group);
    put32(header::SID.start, session);
    put32(header::UID.start, sys::user_id());
    put32(header::DRIVER_VERSION.start, driver::version() as u32);
    put64(header::START_TICKS.start, start_ticks());
    put64(header::PID_NAMESPACE.start, sys::pid_namespace());
    put(header::BOOT_ID.start, &boot_id());
    put64(header::OPENED_MONOTONIC.start, sys::monotonic_ns());
    put64(header::OPENED_REALTIME.start, sys::realtime_ns());
    let text = |which: Text, bytes: &[u8]| {
        put(which.at().start, &tables::text(process, bytes));
    };
    let buffer = room(For::Reading);
    text(Text::Executable, sys::read_link(c"/proc/self/exe", buffer));
    let line = sys::read_file(c"/proc/self/cmdline", buffer);
    text(Text::CommandLine, line.strip_suffix(b"\0").unwrap_or(line));
    text(
        Text::WorkingDirectory,
        sys::read_link(c"/proc/self/cwd", buffer),
    );
    text(Text::Host, sys::host(&mut [0; 65]));
    text(Text::ShimVersion, env!("CARGO_PKG_VERSION").as_bytes());
    let driver_len = driver::path(buffer);
    text(
        Text::DriverFile,
        buffer.get(..driver_len).unwrap_or_default(),
    );
    text(
        Text::Session,
        sys::variable(c"GPUSHIM_SESSION").unwrap_or_default(),
    );
    let mut environment = Line::new(room(For::Environment));
    for name in ENVIRONMENT {
        if let Some(value) = sys::variable(name) {
            // One value too long for the line must not take the others with it.
            let value = value.get(..512).unwrap_or(value);
            if environment.len > 0 {
                environment.push(b"\0");
            }
            environment.push(name.to_bytes()).push(b"=").push(value);
        }
    }
    text(Text::Environment, environment.text());
    let name = sys::thread_name();
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    text(Text::ThreadName, name);
}

/// Start time of this process in clock ticks since boot; 0 when it cannot be told.
fn start_ticks() -> u64 {
    let mut buffer = [0; 1024];
    let stat = sys::read_file(c"/proc/self/stat", &mut buffer);
    // The program's name stands in parentheses and may itself hold blanks and parentheses.
    let after_name = stat.rsplit(|&b| b == b')').next().unwrap_or_default();
    // Field 22, where the state after the name is field 3 and a blank comes before it.
    after_name
        .split(|&b| b == b' ')
        .nth(20)
        .and_then(size)
        .unwrap_or(0)
}

/// The kernel's boot id as 16 bytes.
fn boot_id() -> [u8; 16] {
    let mut buffer = [0; 64];
    let text = sys::read_file(c"/proc/sys/kernel/random/boot_id", &mut buffer);
    let mut id = [0; 16];
    let mut digits = text.iter().filter_map(|&b| (b as char).to_digit(16));
    for byte in &mut id {
        let (Some(high), Some(low)) = (digits.next(), digits.next()) else {
            break;
        };
        *byte = (high << 4 | low) as u8;
    }
    id
}

/// Makes a region long enough for `needed` bytes, by doubling, if its plan allows it. Threads that need it at the same
/// moment each take the same space, which costs a system call and no waiting for each other.
#[cold]
pub(crate) fn grow(process: &Process, which: Region, needed: u64) {
    let part = process.part(which);
    let reserved = part.reserved.load(Ordering::Relaxed);
    if needed > reserved || (which == Region::Ring && process.is_frozen()) {
        return;
    }
    let _errno = ErrnoGuard::new();
    loop {
        let ready = part.ready.load(Ordering::Acquire);
        if ready >= needed {
            return;
        }
        let next = (ready * 2).min(reserved);
        let offset = part.offset.load(Ordering::Relaxed);
        if let Err(what) = extend(process, offset + ready, next - ready) {
            stop_growing(process, which, what);
            return;
        }
        process.publish_ready(which, next);
    }
}

/// Takes more of the file's space.
fn extend(process: &Process, offset: u64, len: u64) -> Result<(), &'static [u8]> {
    // Through the mapping where the kernel can do that: no descriptor that the program's own might be taken for, no path.
    if sys::populate(process.at(offset), len as usize).is_ok() {
        return Ok(());
    }
    let file = File::open(None, process.path(), libc::O_RDWR | libc::O_NOFOLLOW, 0)
        .map_err(|_| &b"the capture cannot grow: its file is gone or cannot be opened"[..])?;
    let is_ours = file.identity().is_some_and(|identity| {
        identity.device == process.file[0].load(Ordering::Relaxed)
            && identity.inode == process.file[1].load(Ordering::Relaxed)
    });
    if !is_ours {
        return Err(b"the capture cannot grow: its path names another file");
    }
    file.allocate(offset, len)
        .map_err(|_| &b"the capture cannot grow: no space"[..])
}

/// After a failure to grow: the ring wraps at the length that it has. Only while everything written so far is on
/// lap 0, with room to spare for threads that are between claiming and writing: there a sequence number means the
/// same slot and lap either way. A table stays full, and its counter says so.
fn stop_growing(process: &Process, which: Region, what: &'static [u8]) {
    tables::note(layout::note::DEGRADED, which as u32, what);
    if which != Region::Ring {
        return;
    }
    let part = process.part(which);
    let slots = part.reserved.load(Ordering::Relaxed) / slot::LEN as u64;
    if process.head().load(Ordering::Relaxed) < slots / 2 {
        let ready = part.ready.load(Ordering::Acquire) / slot::LEN as u64;
        process.freeze(ready);
    }
}

/// Marks the capture of a process that ends in an orderly way. Nothing depends on it.
extern "C" fn finalise() {
    if let Some(process) = Process::recording() {
        process
            .header64(header::CLEAN_EXIT.start)
            .store(sys::monotonic_ns(), Ordering::Relaxed);
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINALISE: extern "C" fn() = finalise;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, value) in [
            ("4096", Some(4096)),
            ("64M", Some(64 << 20)),
            ("2g", Some(2 << 30)),
            ("1K", Some(1024)),
            ("", None),
            ("M", None),
            ("-1", None),
            ("64MB", None),
            ("0x10", None),
            ("99999999999999999999", None),
            ("18446744073709551615G", None),
        ] {
            assert_eq!(size(text.as_bytes()), value, "{text}");
        }
    }

    /// Regions that overlap, or a ring whose length is no power of two, would corrupt every capture of that size.
    #[test]
    fn plans_fit_at_every_size() {
        for size in [
            SIZE_MIN,
            SIZE_MIN + 1,
            3 << 20,
            SIZE_DEFAULT,
            100_000_001,
            1 << 30,
            SIZE_MAX,
        ] {
            let plan = plan(size);
            let mut end = header::LEN as u64;
            for region in ORDER {
                let place = plan.places[region.index()];
                assert_eq!(place.offset, end, "{size} {region:?}");
                assert_eq!(place.reserved % layout::PAGE, 0);
                assert!(place.first <= place.reserved && place.first > 0);
                end = place.offset + place.reserved;
            }
            assert_eq!(end, plan.len);
            assert!(plan.len <= size, "{size}: {}", plan.len);
            let ring = plan.places[Region::Ring.index()].reserved;
            assert!(ring.is_power_of_two() && ring >= RING_FIRST);
        }
        // A process with a handful of events takes less than this from the disk.
        let first: u64 = plan(SIZE_DEFAULT).places.iter().map(|p| p.first).sum();
        assert!(first < 1 << 20, "{first}");
    }

    #[test]
    fn lines_never_overflow() {
        let mut bytes = [1; 8];
        let mut line = Line::new(&mut bytes);
        line.push(b"abc").number(1234, 10);
        assert_eq!(line.text(), b"abc1234");
        assert_eq!(line.path(), Some(c"abc1234"));
        line.push(b"x");
        assert_eq!(line.path(), None);
        let mut bytes = [1; 64];
        let mut line = Line::new(&mut bytes);
        line.number(u64::MAX, 16).push(b" ").number(0, 10);
        assert_eq!(line.text(), b"ffffffffffffffff 0");
    }
}
