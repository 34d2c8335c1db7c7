//! Programs that make one mistake each with the driver, on the stand-in driver: the report says what they print as true.

use std::process::Command;

#[allow(dead_code, reason = "each test uses its part")]
mod native;
#[allow(dead_code, reason = "each test uses its part")]
mod support;

use native::Driver;
use serde_json::Value;
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

/// Two processes that share memory: the owner's free and the borrower's hold are told of each other.
#[test]
fn owner_and_borrower_are_told_of_each_other() {
    let work = Folder::new();
    let program = native::program("kinds", "kinds.c", &[]);
    let captures = work.path().join("captures");
    let output = Command::new(&program)
        .env("LD_PRELOAD", native::shim())
        .env("LD_LIBRARY_PATH", Driver::Standin.folder())
        .env("GPUSHIM_DIR", &captures)
        .output()
        .expect("kinds runs");
    assert!(output.status.success(), "{output:?}");
    let view = |name: &str| -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_gpushim"))
            .args(["report", "--format", "json", "--view", name])
            .arg(&captures)
            .output()
            .expect("gpushim runs");
        let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(json["schema"], "gpushim.view/1");
        json["processes"].as_array().expect("a list").clone()
    };
    let processes = view("ipc");
    let rows = |role: &str| -> Vec<(u64, Value)> {
        processes
            .iter()
            .flat_map(|process| {
                let pid = process["pid"].as_u64().expect("a pid");
                let rows = process["rows"].as_array().expect("a list");
                rows.iter().map(move |row| (pid, row.clone()))
            })
            .filter(|(_, row)| row["role"] == role && row["with_pids"] != "")
            .collect()
    };
    let (owned, borrowed) = (rows("owner"), rows("borrower"));
    for (kind, other, joined, bytes) in [
        ("linear", "ipc", "name", 64 << 20),
        ("physical", "physical", "device, size and time", 32 << 20),
    ] {
        let own = owned.iter().find(|(_, row)| row["kind"] == kind);
        let (owner, own) = own.expect("the owner's row");
        let lent = borrowed.iter().find(|(_, row)| row["kind"] == other);
        let (borrower, lent) = lent.expect("the borrower's row");
        assert_eq!(own["with_pids"], borrower.to_string());
        assert_eq!(lent["with_pids"], owner.to_string());
        assert_eq!(
            (&own["joined_by"], &lent["joined_by"]),
            (&joined.into(), &joined.into())
        );
        assert_eq!(
            (&own["bytes"], &lent["bytes"]),
            (&bytes.into(), &bytes.into())
        );
        let told = |row: &Value, words: &str| {
            let finding = row["finding"].as_str().expect("text");
            assert!(finding.contains(words), "{finding}");
        };
        told(own, &format!("but process {borrower} held it to its end"));
        told(lent, &format!("process {owner} freed it"));
    }
    // The other views of the same run have what the program left.
    let first = |name: &str| {
        let all = view(name);
        let rows = |process: &Value| process["rows"].as_array().expect("a list").clone();
        all.iter()
            .map(rows)
            .max_by_key(Vec::len)
            .expect("a process")
    };
    let pools = first("pools");
    assert_eq!(pools.len(), 1);
    assert_eq!(pools[0]["reserved_bytes"], 32 << 20);
    assert_eq!(pools[0]["requested_bytes"], 5 << 20);
    let lost = first("vmm")
        .into_iter()
        .filter(|row| row["state"] == "not released, not mapped")
        .count();
    assert_eq!(lost, 1);
}
