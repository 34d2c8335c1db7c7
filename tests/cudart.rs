//! NVIDIA's own runtimes over the stand-in driver: each function that a libcudart asks for ends in the hook of that very function.
//!
//! They are fetched by `scripts/lib/cudart-wheels`, which `scripts/test` does; `GPUSHIM_CUDART` is where they lie. Without it this test
//! has nothing to look at and says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpushim_abi::hooks::{HOOKS, When};

#[allow(dead_code, reason = "each test uses its part")]
mod native;
#[allow(dead_code, reason = "each test uses its part")]
mod support;

use native::Driver;
use support::Folder;

/// What a version asks for, as symbols.
fn requests(version: &str) -> BTreeSet<String> {
    let data = native::root().join("tests/data/driver-api/cudart_requests.tsv");
    let data = fs::read_to_string(data).expect("it is in the checkout");
    data.lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|fields| fields[5].split(',').any(|one| one == version))
        // 12.0 to 12.2 ask for one full name, which no driver knows.
        .filter(|fields| !fields[0].ends_with("_ptsz"))
        .map(|fields| fields[3].to_owned())
        .collect()
}

fn held(program: &Path, runtime: &Path, captures: &Folder) -> BTreeSet<String> {
    let output = Command::new(program)
        .arg(runtime)
        .env("LD_LIBRARY_PATH", Driver::Standin.folder())
        .env("LD_PRELOAD", native::shim())
        .env("GPUSHIM_DIR", captures.path())
        .output()
        .expect("cudart runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn every_request_of_every_runtime_ends_in_its_hook() {
    let Some(folder) = std::env::var_os("GPUSHIM_CUDART") else {
        eprintln!("GPUSHIM_CUDART is not set: no libcudart was tried");
        return;
    };
    let program = native::program("cudart", "cudart.c", &[]);
    let captures = Folder::new();
    let mut tried = 0;
    let mut hooks = 0;
    for entry in fs::read_dir(folder).expect("GPUSHIM_CUDART is a folder") {
        let folder: PathBuf = entry.expect("readable").path();
        let version = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let file = fs::read_dir(&folder).expect("readable").next();
        let runtime = file.expect("a runtime").expect("readable").path();
        let wanted = requests(&version);
        assert!(wanted.len() > 300, "{version} is not in the data");
        let held = held(&program, &runtime, &captures);
        for symbol in &wanted {
            let hook = HOOKS.iter().find(|hook| hook.symbol == symbol);
            let ours = held.contains(&format!("libgpushim.so:{symbol}"));
            let theirs = held.contains(&format!("libcuda.so.1:{symbol}"));
            match hook {
                // The runtime calls these itself and keeps no pointer to them.
                Some(hook) if hook.when == When::Door || hook.when == When::Init => {
                    assert!(!theirs || ours, "{version}: {symbol}");
                }
                Some(_) => {
                    assert!(ours && !theirs, "{version}: {symbol} is not the hook");
                    hooks += 1;
                }
                None => assert!(!ours, "{version}: {symbol}"),
            }
        }
        tried += 1;
    }
    assert!(tried >= 17, "{tried} runtimes");
    assert!(hooks > 2000, "{hooks} hooks");
}
