//! Writes the version script from the hook table, and says how the library is linked.
//!
//! - Driver names are exported at the hidden version `GPUSHIM_1`, which must be the first in the script. glibc
//!   binds an unversioned reference (a program linked against libcuda) to a hidden symbol of a library's first
//!   version, but an unversioned `dlsym` does not see it. So every `dlsym` finds exactly what it would
//!   find without us, null included, and `doors.rs` decides what to put in its place.
//! - `dlsym` and `dlvsym` are exported at both of glibc's versions, so that a second interposer's
//!   `dlvsym(RTLD_NEXT, "dlsym", …)` finds ours too.
//! - No start files: they bring an initialiser that would run in every process that inherits the preload.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Functions of PyTorch's that the library stands before, hidden like the driver's (`src/torch.rs`).
const TORCH: [&str; 8] = [
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE",
    "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_",
    "_ZN2at15sequence_number17get_and_incrementEv",
    "_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE",
];
/// Functions that programs and NVTX look for by name (`src/phases.rs`).
const OWN: [&str; 2] = ["gpushim_mark", "InitializeInjectionNvtx2"];

fn main() {
    let mut script = String::from("GPUSHIM_1 {\n  global:\n");
    for hook in gpushim_abi::hooks::HOOKS {
        writeln!(script, "    {};", hook.symbol).expect("writing to a string");
    }
    for symbol in TORCH.iter().chain(&OWN) {
        writeln!(script, "    {symbol};").expect("writing to a string");
    }
    script.push_str("};\n");
    for version in ["GLIBC_2.2.5", "GLIBC_2.34"] {
        writeln!(script, "{version} {{ global: dlsym; dlvsym; }};").expect("writing to a string");
    }
    let path = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("exports.map");
    fs::write(&path, script).expect("OUT_DIR is writable");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        path.display()
    );
    println!("cargo::rustc-link-arg-cdylib=-nostartfiles");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libgpushim.so");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,now,-z,relro,-Bsymbolic");
    println!("cargo::rerun-if-changed=build.rs");
}
