//! What the tests of the command line share: a folder that goes away, the `gpushim` of this build in a bare environment, and
//! golden output.

pub(crate) mod capture;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use capture::Synthesis;

/// A folder that goes with the test.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes an empty one.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the target folder is writable");
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Puts bytes into a file.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("the folder is writable");
        path
    }

    /// Puts a capture into a file.
    pub(crate) fn capture(&self, name: &str, made: &Synthesis) -> PathBuf {
        self.put(name, &made.bytes())
    }

    /// `gpushim` standing in this folder, which is also where it looks for captures: 100 columns, UTC, nothing else set.
    pub(crate) fn gpushim(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpushim"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("GPUSHIM_DIR", &self.0)
            .env("COLUMNS", "100")
            .env("TZ", "UTC");
        command
    }

    /// Runs it and expects success; what it printed, with the folder's own path as `FOLDER`.
    pub(crate) fn say(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let answer = Answer::of(&mut self.gpushim(arguments));
        assert_eq!(answer.status, Some(0), "{answer:?}");
        answer.stdout.replace(&*self.0.to_string_lossy(), "FOLDER")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failed removal only leaves a folder in target.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a command did, as far as others can see.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Exit status; `None` when a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().expect("the command starts").into()
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("gpushim writes UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("gpushim writes UTF-8"),
        }
    }
}

/// Holds a text against the file of that name in `tests/data/golden`; `UPDATE_GOLDEN=1` writes the file.
pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/golden")
        .join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().expect("it has one")).expect("the checkout is writable");
        fs::write(&path, text).expect("the checkout is writable");
        return;
    }
    let wanted = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()));
    assert!(
        wanted == text,
        "{} differs; UPDATE_GOLDEN=1 accepts this:\n{text}",
        path.display()
    );
}
