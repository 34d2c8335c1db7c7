//! The operating system: clocks, files, `errno`.
//!
//! Calls here go through libc's oldest symbols or through `syscall`, so that the library needs nothing newer
//! than glibc 2.17. Everything but [`monotonic_ns`] can change `errno`: callers hold an [`ErrnoGuard`].

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;

/// Puts `errno` back to what it was when the guard was made.
#[derive(Debug)]
pub(crate) struct ErrnoGuard(c_int);

impl ErrnoGuard {
    /// Remembers `errno`.
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        // SAFETY: libc gives the address of this thread's errno, valid for the thread's life.
        let at = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *at = self.0 };
    }
}

/// This thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: libc gives the address of this thread's errno, valid for the thread's life.
    let at = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *at }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that the call fills.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// CLOCK_MONOTONIC, ns. Served by the vDSO; leaves `errno` alone.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_MONOTONIC_COARSE, ns: what CLOCK_MONOTONIC was at the latest tick, a few milliseconds ago, without reading the counter.
pub(crate) fn coarse_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// CLOCK_REALTIME, ns.
pub(crate) fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// The calling thread's id. A system call: keep the answer.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: gettid takes nothing and cannot fail.
    (unsafe { libc::syscall(libc::SYS_gettid) }) as u32
}

/// This process's id, asked of the kernel: glibc before 2.25 answers from a cache that `clone` can leave stale.
pub(crate) fn process_id() -> u32 {
    // SAFETY: getpid takes nothing and cannot fail.
    (unsafe { libc::syscall(libc::SYS_getpid) }) as u32
}

/// Whether a thread of this process is alive.
pub(crate) fn thread_lives(process: u32, thread: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody; the call only checks.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            c_long::from(process),
            c_long::from(thread),
            0 as c_long,
        )
    };
    answer == 0 || errno() != libc::ESRCH
}

/// Name of the calling thread, NUL-padded.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// A variable of the environment; `None` also for an empty one.
///
/// Read while the driver initialises, which reads dozens itself. The text is only borrowed until the caller has
/// copied it.
pub(crate) fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name is NUL-terminated.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv answers with NUL-terminated text.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    if value.is_empty() { None } else { Some(value) }
}

/// Whether the eight bytes at an address can be read, asked of the kernel without touching them.
///
/// `rt_sigprocmask` copies the new mask before it looks at what to do with it, and refuses what does not exist: EFAULT or EINVAL tell the
/// two apart, nothing changes, no descriptor is needed, and no sandbox forbids the call. Leaves `errno` alone.
pub(crate) fn is_readable(at: u64) -> bool {
    const NO_SUCH_ACTION: i64 = 0x7fff;
    const MASK_LEN: u64 = 8;
    let answer: i64;
    // SAFETY: the kernel reads the mask or says that it cannot, and changes nothing.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_rt_sigprocmask => answer,
            in("rdi") NO_SUCH_ACTION,
            in("rsi") at,
            in("rdx") 0_u64,
            in("r10") MASK_LEN,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, readonly),
        );
    }
    answer == -i64::from(libc::EINVAL)
}

/// A word of this process's memory, read by the kernel: `None` where there is none, and where a sandbox forbids to ask. Leaves `errno` alone.
pub(crate) fn peek(at: u64) -> Option<u64> {
    let mut word = 0_u64;
    let to = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: 8,
    };
    let from = libc::iovec {
        iov_base: at as *mut c_void,
        iov_len: 8,
    };
    let answer: i64;
    // SAFETY: the kernel writes the one word, or says that it cannot read the other.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_process_vm_readv => answer,
            in("rdi") u64::from(process_id()),
            in("rsi") &raw const to,
            in("rdx") 1_u64,
            in("r10") &raw const from,
            in("r8") 1_u64,
            in("r9") 0_u64,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    (answer == 8).then_some(word)
}

/// What pthread_self says, which is the thread pointer.
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let at: u64;
    // SAFETY: x86-64's ABI keeps the thread pointer's own value at its target.
    unsafe {
        core::arch::asm!("mov {at}, qword ptr fs:[0]", at = out(reg) at, options(pure, readonly, nostack));
    }
    at
}

/// A file descriptor, closed when dropped.
#[derive(Debug)]
pub(crate) struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is not used again. The system call, here and below, since libc's functions are cancellation
        // points, and the program may not be prepared to end in a driver call.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// What identifies a file, and who owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl File {
    /// Opens `path` below `directory` (or the working directory) with these flags; `errno` as the error.
    pub(crate) fn open(
        directory: Option<&File>,
        path: &CStr,
        flags: c_int,
        mode: libc::mode_t,
    ) -> Result<Self, c_int> {
        let at = directory.map_or(libc::AT_FDCWD, |d| d.0);
        // SAFETY: the path is NUL-terminated.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_openat,
                at,
                path.as_ptr(),
                flags | libc::O_CLOEXEC,
                libc::c_uint::from(mode),
            )
        };
        if fd < 0 {
            return Err(errno());
        }
        let file = Self(fd as c_int);
        if file.0 > libc::STDERR_FILENO {
            return Ok(file);
        }
        // The program has closed its standard streams, and may write to them all the same.
        // SAFETY: the descriptor is ours.
        let moved = unsafe {
            libc::syscall(
                libc::SYS_fcntl,
                file.0,
                libc::F_DUPFD_CLOEXEC,
                libc::STDERR_FILENO + 1,
            )
        };
        if moved < 0 {
            Err(errno())
        } else {
            Ok(Self(moved as c_int))
        }
    }

    /// Reads from the start into `buffer`; the bytes read, 0 on any error.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> usize {
        let mut have = 0;
        while let Some(rest) = buffer.get_mut(have..).filter(|rest| !rest.is_empty()) {
            // SAFETY: the kernel writes at most the length of `rest`.
            let got =
                unsafe { libc::syscall(libc::SYS_read, self.0, rest.as_mut_ptr(), rest.len()) };
            match usize::try_from(got) {
                Ok(0) | Err(_) => break,
                Ok(got) => have += got,
            }
        }
        have.min(buffer.len())
    }

    fn status(&self) -> Option<libc::stat> {
        let mut status = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the kernel fills a stat; the system call is used since libc's symbol is newer than 2.17.
        let answer = unsafe { libc::syscall(libc::SYS_fstat, self.0, status.as_mut_ptr()) };
        if answer != 0 {
            return None;
        }
        // SAFETY: every field of a stat is an integer, and it was zeroed before the kernel filled it.
        Some(unsafe { status.assume_init() })
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.status().map(|s| Identity {
            device: s.st_dev,
            inode: s.st_ino,
        })
    }

    /// Whether the file is owned by this user and closed to everybody else.
    pub(crate) fn is_private(&self) -> bool {
        self.status()
            .is_some_and(|s| s.st_uid == user_id() && s.st_mode & 0o077 == 0)
    }

    /// Sets the length without taking space.
    pub(crate) fn set_len(&self, len: u64) -> Result<(), c_int> {
        // SAFETY: the descriptor is ours.
        let answer = unsafe { libc::ftruncate64(self.0, len as libc::off64_t) };
        if answer == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Takes space, so that touching it cannot fail.
    pub(crate) fn allocate(&self, offset: u64, len: u64) -> Result<(), c_int> {
        // SAFETY: the descriptor is ours. posix_fallocate answers with the error itself.
        let error = unsafe {
            libc::posix_fallocate64(self.0, offset as libc::off64_t, len as libc::off64_t)
        };
        if error == 0 { Ok(()) } else { Err(error) }
    }

    /// Maps the file, shared.
    pub(crate) fn map(&self, len: usize) -> Result<*mut u8, c_int> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap64(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.0,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            Err(errno())
        } else {
            Ok(at.cast())
        }
    }
}

/// Takes the space behind a part of a mapping, so that touching it cannot fail; needs no descriptor. `errno` as the error, EINVAL where the
/// kernel is older than 5.14.
pub(crate) fn populate(at: *mut u8, len: usize) -> Result<(), c_int> {
    const MADV_POPULATE_WRITE: c_int = 23;
    // SAFETY: the caller's mapping; pages are made, bytes stay as they are.
    let answer = unsafe { libc::madvise(at.cast(), len, MADV_POPULATE_WRITE) };
    if answer == 0 { Ok(()) } else { Err(errno()) }
}

/// Takes `len` zeroed bytes of this process's own; a forked child sees zeros again where the kernel can do that.
/// The second value says whether it can.
pub(crate) fn private_memory(len: usize) -> Option<(*mut u8, bool)> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap64(
            core::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range is the mapping just made.
    let wiped = unsafe { libc::madvise(at, len, libc::MADV_WIPEONFORK) } == 0;
    Some((at.cast(), wiped))
}

/// Gives a mapping back.
///
/// # Safety
/// `at` and `len` are those of a mapping of ours that nobody uses any more.
pub(crate) unsafe fn unmap(at: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.cast::<c_void>(), len) };
}

/// Makes a directory for this user alone; whether it exists afterwards is for the caller to see.
pub(crate) fn make_directory(path: &CStr) {
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::mkdir(path.as_ptr(), 0o700) };
}

/// Removes a file that this process made.
pub(crate) fn remove(directory: &File, name: &CStr) {
    // SAFETY: the name is NUL-terminated, the descriptor is open.
    unsafe { libc::unlinkat(directory.0, name.as_ptr(), 0) };
}

/// Likewise by its path.
pub(crate) fn remove_path(path: &CStr) {
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::unlinkat(libc::AT_FDCWD, path.as_ptr(), 0) };
}

/// Reads a symbolic link; the bytes of its target.
pub(crate) fn read_link<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    // SAFETY: the kernel writes at most the buffer's length.
    let len = unsafe {
        libc::readlink(
            path.as_ptr(),
            buffer.as_mut_ptr().cast::<c_char>(),
            buffer.len(),
        )
    };
    buffer
        .get(..usize::try_from(len).unwrap_or(0))
        .unwrap_or_default()
}

/// Reads a file from its start; the bytes that fit.
pub(crate) fn read_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    let len = match File::open(None, path, libc::O_RDONLY, 0) {
        Ok(file) => file.read(buffer),
        Err(_) => 0,
    };
    buffer.get(..len).unwrap_or_default()
}

/// Inode of this process's pid namespace; 0 when it cannot be told.
pub(crate) fn pid_namespace() -> u64 {
    File::open(None, c"/proc/self/ns/pid", libc::O_RDONLY, 0)
        .ok()
        .and_then(|file| file.identity())
        .map_or(0, |identity| identity.inode)
}

/// Parent, process group, session.
pub(crate) fn relations() -> [u32; 3] {
    // SAFETY: asks about this process; cannot fail.
    let parent = unsafe { libc::getppid() };
    // SAFETY: as above.
    let group = unsafe { libc::getpgid(0) };
    // SAFETY: as above.
    let session = unsafe { libc::getsid(0) };
    [parent as u32, group as u32, session as u32]
}

/// Effective user id.
pub(crate) fn user_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Name of this host.
pub(crate) fn host(buffer: &mut [u8; 65]) -> &[u8] {
    // SAFETY: at most the buffer's length is written.
    unsafe { libc::gethostname(buffer.as_mut_ptr().cast::<c_char>(), buffer.len()) };
    let len = buffer.iter().position(|&b| b == 0).unwrap_or(buffer.len());
    &buffer[..len]
}

/// The largest file this process may make, bytes. Passing it is a SIGXFSZ in the host.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills `limit`.
    if unsafe { libc::getrlimit64(libc::RLIMIT_FSIZE, &raw mut limit) } == 0 {
        limit.rlim_cur
    } else {
        0
    }
}

/// Writes to standard error, once, as far as it goes.
pub(crate) fn say(text: &[u8]) {
    let mut stream = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one descriptor, no waiting.
    unsafe { libc::syscall(libc::SYS_poll, &raw mut stream, 1, 0) };
    // A pipe that nobody reads any more would be SIGPIPE, and a full one would be waited for.
    if stream.revents != libc::POLLOUT {
        return;
    }
    // SAFETY: the kernel reads at most the text's length.
    unsafe {
        libc::syscall(
            libc::SYS_write,
            libc::STDERR_FILENO,
            text.as_ptr(),
            text.len(),
        )
    };
}
