//! Programs that make one mistake each with the driver, on the stand-in driver: the report says what they print as true.

use std::process::Command;

#[allow(dead_code, reason = "each test uses its part")]
mod native;
#[allow(dead_code, reason = "each test uses its part")]
mod support;

use native::Driver;
use support::Folder;

/// The C programs need `cuda.h`, which `scripts/test` fetches (`GPUSHIM_CUDA_INCLUDE`); without it only those in Python are run.
#[test]
fn the_report_says_what_the_programs_know() {
    let work = Folder::new();
    let cases = native::root().join("tests/programs/cases");
    let library = Driver::Standin.folder().join("libcuda.so.1");
    let include = std::env::var_os("GPUSHIM_CUDA_INCLUDE");
    let mut command = Command::new("python3");
    command
        .arg(native::root().join("scripts/lib/driver-cases"))
        .arg(env!("CARGO_BIN_EXE_gpushim"))
        .arg(cases)
        .arg(work.path())
        .env("GPUSHIM_LIB", native::shim())
        .env("LD_LIBRARY_PATH", Driver::Standin.folder());
    if let Some(include) = &include {
        command
            .arg("--include")
            .arg(include)
            .arg("--link")
            .arg(library);
    }
    let output = command.output().expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Those of the runtime need a card.
    let wanted = if include.is_some() { 10 } else { 6 };
    assert_eq!(text.matches("right     ").count(), wanted, "{text}");
}

/// Every kind of memory a step at a time: what the reader says the driver takes is what it took.
#[test]
fn every_kind_costs_what_the_driver_takes() {
    let work = Folder::new();
    let program = native::program("kinds", "kinds.c", &[]);
    let captures = work.path().join("captures");
    let output = Command::new(&program)
        .arg("costs")
        .env("LD_PRELOAD", native::shim())
        .env("LD_LIBRARY_PATH", Driver::Standin.folder())
        .env("GPUSHIM_DIR", &captures)
        .output()
        .expect("kinds runs");
    assert!(output.status.success(), "{output:?}");
    let steps = work.path().join("steps");
    std::fs::write(&steps, &output.stdout).expect("writable");
    // Of its two processes the one that does not only borrow.
    let capture = std::fs::read_dir(&captures)
        .expect("there are captures")
        .map(|entry| entry.expect("readable").path())
        .find(|path| {
            let capture = gpushim_reader::capture::Capture::open(path).expect("it can be read");
            capture.identity.command.iter().any(|word| word == "costs")
        })
        .expect("the first process's capture");
    let output = Command::new("python3")
        .arg(native::root().join("scripts/lib/compare-costs"))
        .arg(&steps)
        .arg(&capture)
        .arg(env!("CARGO_BIN_EXE_gpushim"))
        .output()
        .expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("0 of 79 steps differ"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
