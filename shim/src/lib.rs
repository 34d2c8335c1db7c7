//! The library that is preloaded: `LD_PRELOAD=libgpushim.so`.
//!
//! It runs inside other people's jobs, so the rules of this place are strict: no panic, no allocation from the
//! application's heap, no lock held across a driver call, no output (but one line when `GPUSHIM_LOG=1`), no wait on the path
//! of a hooked call, `errno` kept. When anything fails the library becomes transparent and counts what it loses.
//!
//! Read the modules in the order in which a call meets them:
//!
//! 1. [`exports`]: one function per row of the hook table; [`words`]: how a row's values are taken from the arguments;
//! 2. [`doors`]: `dlsym`, `dlvsym` and `cuGetProcAddress`, through which programs get at the driver;
//! 3. [`driver`]: the real driver: which library it is, where its functions are, telling its answers apart;
//! 4. [`recorder`]: before and after a call;
//!    [`watch`]: what pools and graphs hold, which no call says;
//! 5. [`process`]: the state of this process, which a forked child does not inherit;
//! 6. [`ring`]: claim and commit;
//! 7. [`tables`]: what records refer to: stacks, contexts, threads, modules, devices, texts, notes;
//! 8. [`capture`]: the file: where, how large, how it grows;
//! 9. [`stacks`]: which frames a record has; [`python`]: those of Python, read by the thread itself; [`safe`]: how a pointer is asked
//!    before it is followed;
//! 10. [`torch`]: what PyTorch tells of its blocks; [`autograd`]: who a backward pass works for; [`forward`]: which line
//!     made a node of it;
//!     [`phases`]: what the program tells of itself, by NVTX or `gpushim_mark`.
//!
//! [`thread`] holds the per-thread state, [`elf`] reads loaded libraries without the dynamic linker's help,
//! [`sys`] is the operating system.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    test,
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "unit tests export nothing, so most of the library has no caller in them"
    )
)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!(
    "the shim interposes glibc's dynamic linker on x86-64 Linux; other targets are not supported"
);

mod autograd;
mod capture;
mod doors;
mod driver;
mod elf;
mod exports;
mod forward;
mod phases;
mod process;
mod python;
mod recorder;
mod ring;
mod safe;
mod stacks;
mod sync;
mod sys;
mod tables;
mod thread;
mod torch;
mod watch;
mod words;

/// Unreachable by intent: nothing in this library panics, and the release build is checked for it
/// (`tests/gates.rs`). If a panic were ever reached, stopping one thread is the least that can be done to the host.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
