//! Processes in which something stands in the recorder's way: other interposers, forks at bad moments, signal handlers, small stacks.
//! Each of them once came out otherwise with the recorder than without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use gpushim_reader::capture::Capture;
use gpushim_reader::report::{self, Options};

#[allow(dead_code, reason = "each test uses its part")]
mod native;

use native::{Driver, Folder, command, outcome};

fn hostile() -> &'static PathBuf {
    static HOSTILE: OnceLock<PathBuf> = OnceLock::new();
    HOSTILE.get_or_init(|| {
        let library = Driver::Standin.folder().join("libcuda.so.1");
        let library = library.to_str().expect("a plain path");
        native::program(
            "hostile",
            "hostile.c",
            &["-rdynamic", "-Wl,--no-as-needed", library],
        )
    })
}

/// Runs a habit with and without the recorder, which `preload` puts where it wants it; the outcomes must agree.
fn habit(
    name: &str,
    environment: &[(&str, &str)],
    preload: impl Fn(&Path) -> String,
    neighbours: &str,
) -> (Folder, String) {
    let folder = Folder::new();
    let run = |recorded: bool| {
        let mut command = command(hostile(), Driver::Standin, recorded.then_some(&folder));
        command.arg(name).envs(environment.iter().copied());
        if recorded {
            command.env("LD_PRELOAD", preload(native::shim()));
        } else if !neighbours.is_empty() {
            command.env("LD_PRELOAD", neighbours);
        }
        outcome(&command.output().expect("hostile runs"))
    };
    let (without, with) = (run(false), run(true));
    assert_eq!(without, with, "{name}");
    (folder, with.1)
}

fn alone(shim: &Path) -> String {
    shim.display().to_string()
}

/// Bytes of device memory alive at the end.
fn live(folder: &Folder) -> u64 {
    let capture = Capture::open(&folder.capture()).unwrap();
    let reading = report::read(&capture, &Options::default()).unwrap();
    reading
        .process
        .devices
        .iter()
        .map(|device| device.live_bytes)
        .sum()
}

#[test]
fn an_interposed_list_of_libraries() {
    let (_, out) = habit("iterate", &[], alone, "");
    assert_eq!(out, "1 0\n");
}

#[test]
fn a_child_whose_loader_is_locked() {
    let (_, out) = habit("orphan", &[], alone, "");
    assert_eq!(out, "child 0\n");
}

#[test]
fn a_call_that_was_jumped_out_of() {
    let slow = [("STANDIN_SLOW", "cuMemAlloc_v2=200ms")];
    let (folder, _) = habit("jump", &slow, alone, "");
    assert_eq!(live(&folder), 50 << 20);
}

#[test]
fn a_call_in_a_signal_handler() {
    let slow = [("STANDIN_SLOW", "cuMemAlloc_v2=200ms")];
    let (folder, out) = habit("handler", &slow, alone, "");
    assert!(out.contains("in the handler 0"), "{out}");
    assert_eq!(live(&folder), 51 << 20);
}

#[test]
fn a_small_stack() {
    let (folder, out) = habit("small", &[], alone, "");
    assert_eq!(out, "0 0\n");
    assert_eq!(live(&folder), 1 << 20);
}

/// Growing the capture must not be a cancellation point.
#[test]
fn a_thread_that_is_to_be_cancelled() {
    let (_, out) = habit("cancel", &[], alone, "");
    assert_eq!(out, "0\n20000\n");
}

#[test]
fn a_wild_name_of_a_private_table() {
    habit("refused", &[], alone, "");
}

/// A neighbour that stands before one function only must be asked, in whichever order it is preloaded.
#[test]
fn a_quota_shim() {
    let quota = native::program("libquota.so", "quota.c", &["-shared", "-fPIC"]);
    let quota = quota.display().to_string();
    for preload in [
        |shim: &Path, quota: &str| format!("{} {quota}", shim.display()),
        |shim: &Path, quota: &str| format!("{quota} {}", shim.display()),
    ] {
        let (_, out) = habit("allocate", &[], |shim| preload(shim, &quota), &quota);
        assert_eq!(out, "0\n0\n2\n0\n");
    }
}

#[test]
fn a_second_copy_of_the_recorder() {
    let folder = Folder::new();
    let copy = folder.path().join("libcopy.so");
    fs::copy(native::shim(), &copy).unwrap();
    let both = |shim: &Path| format!("{}:{}", shim.display(), copy.display());
    let (_, out) = habit("allocate", &[], both, "");
    assert_eq!(out, "0\n0\n0\n0\n");
}

/// A program under the thread sanitizer, whose run-time interposes nearly everything and starts before anything else.
#[test]
fn a_sanitized_program() {
    let source = "int puts(const char*); int main(void) { puts(\"hello\"); }";
    let folder = Folder::new();
    let (file, program) = (folder.path().join("hello.c"), folder.path().join("hello"));
    fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-fsanitize=thread", "-o"])
        .args([&program, &file])
        .output()
        .unwrap();
    if !built.status.success() {
        eprintln!("left out: this compiler has no thread sanitizer");
        return;
    }
    let run = |preload: Option<PathBuf>| {
        let mut command = Command::new(&program);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        outcome(&command.output().unwrap())
    };
    assert_eq!(run(None), run(Some(native::shim().to_owned())));
}
