//! What the shim costs: one recorded event, one look-up of a name that is not ours, one process that never uses CUDA.
//!
//! Every figure is a difference of two runs of the same program, with and without the preload, alternating; medians
//! of many. Floors that no recorder can beat stand beside them. Usage: `cargo bench -p gpushim-benches`.

use std::ffi::{c_char, c_int, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs, io};

use gpushim_benches::{Built, median};
use libloading::os::unix::{Library, RTLD_NOW};

/// Calls in one measurement.
const CALLS: u32 = 1_000_000;
/// Pairs of measurements.
const ROUNDS: usize = 31;
/// Starts of `/bin/true` with and without.
const STARTS: usize = 1_000;

type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_int;
type AllocAsync = unsafe extern "C" fn(*mut u64, usize, *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(u64) -> c_int;
type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type Handle = unsafe extern "C" fn(*mut c_void) -> c_int;
type Launch = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

fn main() -> io::Result<()> {
    match env::var("GPUSHIM_BENCH") {
        Ok(what) => {
            println!("{}", child(&what));
            Ok(())
        }
        Err(_) => report(),
    }
}

fn report() -> io::Result<()> {
    let built = Built::new()?;
    let captures = env::temp_dir().join(format!("gpushim-bench-{}", std::process::id()));
    fs::create_dir_all(&captures)?;
    println!("medians of {ROUNDS} alternating pairs, {CALLS} calls each; ns a call");
    println!("{:44} {:>8} {:>8} {:>8}", "", "without", "with", "cost");
    for (what, name, events) in [
        ("alloc", "cuMemAlloc (1 event)", 1.0),
        ("pair", "cuMemAlloc + cuMemFree (2 events)", 2.0),
        ("async", "cuMemAllocAsync (1 event)", 1.0),
        ("current", "cuCtxSetCurrent that changes nothing", 0.0),
        ("wait", "cuStreamSynchronize", 0.0),
        ("launch", "cuGraphLaunch without memory nodes", 0.0),
        ("lookup", "dlsym of a libc name", 0.0),
        ("lookup_cu", "dlsym of a driver name without a hook", 0.0),
    ] {
        let mut without = Vec::new();
        let mut with = Vec::new();
        let mut cost = Vec::new();
        for _ in 0..ROUNDS {
            let base = built.measure(what, false, &captures)?;
            let full = built.measure(what, true, &captures)?;
            without.push(base);
            with.push(full);
            cost.push(full - base);
            for capture in fs::read_dir(&captures)? {
                fs::remove_file(capture?.path())?;
            }
        }
        let cost = median(cost);
        let each = if events > 1.0 {
            format!("  ({:.1} an event)", cost / events)
        } else {
            String::new()
        };
        println!(
            "{name:44} {:8.1} {:8.1} {cost:8.1}{each}",
            median(without),
            median(with)
        );
    }
    let clock = median((0..ROUNDS).map(|_| clock_only()).collect());
    let store = median(
        (0..ROUNDS)
            .map(|_| store_only(&captures))
            .collect::<io::Result<_>>()?,
    );
    println!(
        "{:44} {:>8} {:>8} {clock:8.1}",
        "floor: clock_gettime(CLOCK_MONOTONIC)", "", ""
    );
    println!(
        "{:44} {:>8} {:>8} {store:8.1}",
        "floor: clock and 64 bytes into a mapped file", "", ""
    );
    idle(&built, &captures)?;
    fs::remove_dir_all(&captures)
}

/// A process that never touches CUDA: `/bin/true`, with and without, alternating.
fn idle(built: &Built, captures: &Path) -> io::Result<()> {
    let start = |preload: bool| -> io::Result<f64> {
        let mut command = Command::new("/bin/true");
        command.env("GPUSHIM_DIR", captures).stdin(Stdio::null());
        if preload {
            command.env("LD_PRELOAD", &built.shim);
        }
        let at = Instant::now();
        command.status()?;
        Ok(at.elapsed().as_nanos() as f64 / 1000.0)
    };
    let mut without = Vec::new();
    let mut with = Vec::new();
    let mut cost = Vec::new();
    for _ in 0..STARTS {
        let base = start(false)?;
        let full = start(true)?;
        without.push(base);
        with.push(full);
        cost.push(full - base);
    }
    println!(
        "{:44} {:8.1} {:8.1} {:8.1}  µs, medians of {STARTS} pairs; files made: {}",
        "/bin/true",
        median(without),
        median(with),
        median(cost),
        fs::read_dir(captures)?.count()
    );
    Ok(())
}

/// Runs in the child: the time of one call, ns.
fn child(what: &str) -> f64 {
    // SAFETY: loading the stand-in driver runs nothing of consequence.
    let driver =
        unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW) }.expect("the stand-in driver");
    if what.starts_with("lookup") {
        let name = if what == "lookup" {
            c"qsort"
        } else {
            c"cuLaunchKernel"
        };
        let handle = driver.into_raw();
        return per_call(|| {
            // SAFETY: a look-up of a NUL-terminated name.
            black_box(unsafe { libc::dlsym(handle, name.as_ptr().cast::<c_char>()) });
        });
    }
    // SAFETY: the signatures are those of cuda.h.
    let init =
        unsafe { driver.get::<unsafe extern "C" fn(u32) -> c_int>(b"cuInit\0") }.expect("cuInit");
    // SAFETY: as above.
    let alloc = *unsafe { driver.get::<Alloc>(b"cuMemAlloc_v2\0") }.expect("cuMemAlloc_v2");
    // SAFETY: as above.
    let alloc_async =
        *unsafe { driver.get::<AllocAsync>(b"cuMemAllocAsync\0") }.expect("cuMemAllocAsync");
    // SAFETY: as above.
    let free = *unsafe { driver.get::<Free>(b"cuMemFree_v2\0") }.expect("cuMemFree_v2");
    // SAFETY: the driver takes any flags.
    unsafe { init(0) };
    // SAFETY: as above.
    let retain = *unsafe { driver.get::<Retain>(b"cuDevicePrimaryCtxRetain\0") }
        .expect("cuDevicePrimaryCtxRetain");
    // SAFETY: as above.
    let set = *unsafe { driver.get::<Handle>(b"cuCtxSetCurrent\0") }.expect("cuCtxSetCurrent");
    // SAFETY: as above.
    let wait =
        *unsafe { driver.get::<Handle>(b"cuStreamSynchronize\0") }.expect("cuStreamSynchronize");
    // SAFETY: as above.
    let launch = *unsafe { driver.get::<Launch>(b"cuGraphLaunch\0") }.expect("cuGraphLaunch");
    let mut context = std::ptr::null_mut();
    // SAFETY: the place is a local.
    unsafe { retain(&raw mut context, 0) };
    // SAFETY: the driver has just given this context.
    unsafe { set(context) };
    let mut address = 0_u64;
    let at = &raw mut address;
    let take = || {
        // SAFETY: `at` is writable for the whole measurement.
        black_box(unsafe { alloc(at, 512) });
    };
    let give = || {
        // SAFETY: the stand-in takes any address.
        black_box(unsafe { free(0x7f00_0000_0200) });
    };
    let take_async = || {
        // SAFETY: as for `take`; a null stream is the default stream.
        black_box(unsafe { alloc_async(at, 512, std::ptr::null_mut()) });
    };
    match what {
        "alloc" => per_call(take),
        "pair" => per_call(|| {
            take();
            give();
        }),
        "async" => per_call(take_async),
        "current" => per_call(|| {
            // SAFETY: the context is alive.
            black_box(unsafe { set(context) });
        }),
        "wait" => per_call(|| {
            // SAFETY: the default stream.
            black_box(unsafe { wait(std::ptr::null_mut()) });
        }),
        "launch" => per_call(|| {
            // SAFETY: the stand-in takes any graph when nothing but time is measured.
            black_box(unsafe { launch(std::ptr::null_mut(), std::ptr::null_mut()) });
        }),
        _ => f64::NAN,
    }
}

/// Time of one call, ns, after a warm-up that makes the ring's pages present for one lap.
fn per_call(mut call: impl FnMut()) -> f64 {
    for _ in 0..CALLS {
        call();
    }
    let at = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    at.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn clock_only() -> f64 {
    per_call(|| {
        black_box(now());
    })
}

fn now() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The least that a recorder does: the clock, and a cache line into a mapped file as large as the default ring.
fn store_only(captures: &Path) -> io::Result<f64> {
    use std::os::fd::AsRawFd as _;
    const LEN: usize = 32 << 20;
    let path = captures.join("floor");
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    // SAFETY: the descriptor is open.
    unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, LEN as libc::off_t) };
    // SAFETY: a fresh mapping of a file of that length.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    let mut at = 0;
    let time = per_call(|| {
        let slot = base.cast::<u8>().wrapping_add(at).cast::<[i64; 8]>();
        // SAFETY: inside the mapping.
        unsafe { slot.write_volatile([now(); 8]) };
        at = (at + 64) % LEN;
    });
    // SAFETY: the mapping just made, not used any more.
    unsafe { libc::munmap(base, LEN) };
    fs::remove_file(&path)?;
    Ok(time)
}
