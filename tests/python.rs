//! Stacks of real interpreters: what the recorder read without the interpreter's help is what the interpreter says.
//!
//! Every interpreter that is installed is tried: `python3` and `python3.N` of `PATH`, and those of pyenv.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[allow(dead_code, reason = "each test uses its part")]
mod native;
#[allow(dead_code, reason = "each test uses its part")]
mod support;

use gpushim_abi::layout::Absent;
use gpushim_reader::capture::{Capture, Stack};
use native::Driver;
use serde_json::Value;
use support::Folder;

/// Interpreters from 3.8 on, by version; one of each.
fn interpreters() -> BTreeMap<(u64, u64), PathBuf> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        candidates.push(folder.join("python3"));
        candidates.extend((8..=14).map(|minor| folder.join(format!("python3.{minor}"))));
    }
    let pyenv = env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    if let Some(versions) = pyenv.and_then(|root| root.join("versions").read_dir().ok()) {
        candidates.extend(versions.flatten().map(|at| at.path().join("bin/python3")));
    }
    let mut found = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_file()) {
        let asked = Command::new(candidate)
            .args(["-c", "import ctypes, sys; print(*sys.version_info[:2])"])
            .output();
        let Ok(Output { stdout, .. }) = asked else {
            continue;
        };
        let text = String::from_utf8_lossy(&stdout);
        let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        if let [major, minor] = numbers[..]
            && (major, minor) >= (3, 8)
        {
            found.entry((major, minor)).or_insert(candidate.clone());
        }
    }
    assert!(!found.is_empty(), "no Python of 3.8 or newer is installed");
    found
}

/// Runs a script of `tests/programs/python` under the recorder: what it printed, and the stack of each `cuMemAlloc` by its size.
fn stacks(
    python: &Path,
    script: &str,
    arguments: &[&Path],
    variables: &[(&str, &str)],
) -> (String, HashMap<u64, Stack>) {
    let folder = Folder::new();
    let output = Command::new(python)
        .arg(native::root().join("tests/programs/python").join(script))
        .args(arguments)
        .env("LD_PRELOAD", native::shim())
        .env("LD_LIBRARY_PATH", Driver::Standin.folder())
        .env("GPUSHIM_DIR", folder.path())
        .envs(variables.iter().copied())
        .output()
        .expect("python3 runs");
    assert!(
        output.status.success(),
        "{}: {}\n{}",
        python.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let path = std::fs::read_dir(folder.path())
        .expect("it is there")
        .map(|entry| entry.expect("readable").path())
        .find(|path| path.extension().is_some_and(|end| end == "gpushim"))
        .expect("a capture was made");
    let capture = Capture::open(&path).expect("it can be read");
    let mut stacks = HashMap::new();
    capture
        .records(|record| {
            if gpushim_reader::capture::symbol(record.call) == "cuMemAlloc_v2" {
                stacks.insert(record.size, capture.tables.stack(record.stack));
            }
        })
        .expect("it can be read");
    let text = String::from_utf8(output.stdout).expect("the scripts print UTF-8");
    (text, stacks)
}

#[test]
fn each_stack_is_what_the_interpreter_says() {
    for (version, python) in interpreters() {
        let (truth, stacks) = stacks(&python, "stacks.py", &[], &[]);
        let mut whole = 0;
        let mut cut = 0;
        for line in truth.lines() {
            let taken: Value = serde_json::from_str(line).expect("a line of JSON");
            let size = taken["size"].as_u64().expect("a size");
            let frames: Vec<(String, u64, String)> =
                serde_json::from_value(taken["stack"].clone()).expect("[file, line, function]");
            let stack = stacks
                .get(&size)
                .unwrap_or_else(|| panic!("{version:?}: no record of {size} bytes"));
            let read: Vec<(String, u64, String)> = stack
                .python
                .iter()
                .map(|frame| {
                    (
                        frame.file.clone(),
                        u64::from(frame.line),
                        frame.function.clone(),
                    )
                })
                .collect();
            let wanted = if stack.cut {
                assert!(
                    read.len() >= 64 && read.len() < frames.len(),
                    "{version:?}: cut at {} of {}",
                    read.len(),
                    frames.len()
                );
                cut += 1;
                &frames[..read.len()]
            } else {
                whole += 1;
                &frames[..]
            };
            assert_eq!(read, wanted, "{version:?}, {size} bytes");
            assert_eq!(stack.absent, None, "{version:?}, {size} bytes");
        }
        // The recursions of 128 and 900 are deeper than what is kept; what is kept is said to be cut.
        assert!(whole > 90, "{version:?}: {whole} stacks");
        assert!((1..=3).contains(&cut), "{version:?}: {cut} stacks were cut");
    }
}

/// Broken structures end in a reason, never in a crash: pages are asked before they are read.
#[test]
fn a_broken_list_of_frames_harms_nobody() {
    let breaker = native::program("wild_frames.so", "wild_frames.c", &["-shared", "-fPIC"]);
    for (version, python) in interpreters() {
        let (said, stacks) = stacks(&python, "wild.py", &[&breaker], &[]);
        let mut reasons = 0;
        for line in said.lines() {
            let (size, name) = line.split_once(' ').expect("size and name");
            let stack = &stacks[&size.parse().expect("a size")];
            reasons += usize::from(stack.absent.is_some() || stack.cut);
            assert!(
                stack.absent.is_some() || stack.cut || stack.python.len() <= 2,
                "{version:?}, {name}: {stack:?}"
            );
        }
        assert_eq!(said.lines().count(), 17, "{said}");
        assert!(reasons >= 8, "{version:?}: {reasons} reasons");
        let after = &stacks[&6000];
        assert!(
            after.absent.is_none() && !after.python.is_empty(),
            "{version:?}: the list is whole again, and read as before: {after:?}"
        );
    }
}

#[test]
fn stacks_are_recorded_as_the_variable_says() {
    let (_, python) = interpreters().pop_last().expect("there is one");
    let breaker = native::program("wild_frames.so", "wild_frames.c", &["-shared", "-fPIC"]);
    for (value, wants_python) in [
        ("python,native", true),
        ("python", true),
        ("native", false),
        ("off", false),
        ("everything", true),
    ] {
        let (_, stacks) = stacks(
            &python,
            "wild.py",
            &[&breaker],
            &[("GPUSHIM_STACKS", value)],
        );
        let stack = &stacks[&6000];
        assert_eq!(!stack.python.is_empty(), wants_python, "{value}: {stack:?}");
        assert_eq!(
            stack.absent == Some(Absent::Off),
            !wants_python,
            "{value}: {stack:?}"
        );
        // The caller itself is always kept: it costs nothing and says which library asked.
        assert!(!stack.native.is_empty(), "{value}: {stack:?}");
    }
}
