//! Builds what the tests of the recorder run on: the shim as it is shipped (release), the stand-in drivers, and
//! the programs; and runs programs with and without the preload.
//!
//! The libraries are built here and not as dependencies: cargo builds a test's dependencies with unwinding, which
//! the shim has none of, and an outdated library would make every test a lie.

pub(crate) mod records;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of cargo's profile that this test was built into, and its parent.
fn target() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    test.ancestors()
        .find(|folder| folder.join("deps").is_dir())
        .and_then(Path::parent)
        .expect("tests lie in target/PROFILE/deps")
        .to_owned()
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs `build` once per test process, and keeps other test processes out meanwhile; where it put what it built.
fn once(
    cell: &'static OnceLock<PathBuf>,
    name: &str,
    build: impl FnOnce() -> PathBuf,
) -> &'static Path {
    cell.get_or_init(|| {
        fs::create_dir_all(target().join("native")).expect("the target folder is writable");
        let lock = fs::File::create(target().join("native").join(format!("{name}.lock")))
            .expect("the target folder is writable");
        lock.lock().expect("a local file can be locked");
        build()
    })
}

/// `libgpushim.so`, release build.
pub(crate) fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    once(&SHIM, "shim", || {
        cargo(&["build", "--release", "--quiet", "-p", "gpushim-shim"]);
        target().join("release/libgpushim.so")
    })
}

fn cargo(arguments: &[&str]) {
    run(Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--target-dir")
        .arg(target())
        .current_dir(root()));
}

/// A driver without a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The project's own, with a ledger and real costs.
    Standin,
    /// Another one, by another hand.
    Other,
}

impl Driver {
    /// A folder that holds it as `libcuda.so.1`.
    pub(crate) fn folder(self) -> &'static Path {
        static STANDIN: OnceLock<PathBuf> = OnceLock::new();
        static OTHER: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Self::Standin => once(&STANDIN, "standin", || {
                cargo(&["build", "--quiet", "-p", "gpushim-standin"]);
                let folder = target().join("native/standin");
                fs::create_dir_all(&folder).expect("the target folder is writable");
                let library = folder.join("libcuda.so.1");
                fs::copy(target().join("debug/libcuda.so"), &library).expect("cargo built it");
                folder
            }),
            Self::Other => once(&OTHER, "other", || {
                let folder = target().join("native/other");
                fs::create_dir_all(&folder).expect("the target folder is writable");
                run(Command::new("cc")
                    .args([
                        "-w",
                        "-O1",
                        "-shared",
                        "-fPIC",
                        "-Wl,-soname,libcuda.so.1",
                        "-o",
                    ])
                    .arg(folder.join("libcuda.so.1"))
                    .arg(root().join("tests/standin/other/fakecuda.c")));
                folder
            }),
        }
    }
}

/// Builds a C program of `tests/programs/c`; `name` tells builds with different flags apart.
pub(crate) fn program(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = target().join("native/programs");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    // Built under a name of this process's own and renamed: another test may be running the old one.
    let made = folder.join(format!("{name}.{}.{}", std::process::id(), next()));
    run(Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&made)
        .arg(root().join("tests/programs/c").join(source))
        .args(flags)
        .args(["-ldl", "-lpthread"]));
    let program = folder.join(name);
    fs::rename(&made, &program).expect("the target folder is writable");
    program
}

/// A program of `tests/programs/src`.
pub(crate) fn rust_program(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = once(&BUILT, "programs", || {
        cargo(&["build", "--quiet", "-p", "gpushim-programs"]);
        target().join("debug")
    });
    folder.join(name)
}

fn next() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A folder that goes with the test.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes an empty one.
    pub(crate) fn new() -> Self {
        let path = target().join(format!("native/tmp/{}-{}", std::process::id(), next()));
        fs::create_dir_all(&path).expect("the target folder is writable");
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The captures in it, by name.
    pub(crate) fn captures(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(&self.0)
            .expect("the folder exists")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension() == Some(OsStr::new("gpushim")))
            .collect();
        found.sort();
        found
    }

    /// The only capture in it.
    pub(crate) fn capture(&self) -> PathBuf {
        let mut found = self.captures();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failed removal only leaves a folder in target.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A command that finds `driver`, and records into `captures` if there is such a folder.
pub(crate) fn command(
    program: impl AsRef<OsStr>,
    driver: Driver,
    captures: Option<&Folder>,
) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", driver.folder());
    if let Some(folder) = captures {
        command
            .env("LD_PRELOAD", shim())
            .env("GPUSHIM_DIR", folder.path());
    }
    command
}

/// What a program answered, as far as others can see.
pub(crate) fn outcome(output: &Output) -> (Option<i32>, String, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}
