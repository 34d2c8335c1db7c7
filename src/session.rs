//! Finding captures: where they are, which belong together, whether their process lives.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

use gpushim_abi::layout::EXTENSION;
use serde::{Deserialize, Serialize};

use crate::capture::{Capture, Identity};
use crate::error::Error;

/// Extension of the file in which `gpushim run` keeps how the command ended.
const RUN_EXTENSION: &str = "run.json";

/// Where the shim puts captures, by the same rule as the shim's.
pub fn directory() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = set("GPUSHIM_DIR") {
        return directory.into();
    }
    if let Some(state) = set("XDG_STATE_HOME").map(PathBuf::from)
        && state.is_absolute()
    {
        return state.join("gpushim");
    }
    let user = rustix::process::geteuid().as_raw();
    PathBuf::from(format!("/tmp/gpushim-{user}"))
}

/// How a command that `gpushim run` started has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signal(i32),
}

/// What `gpushim run` knows of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The session's id.
    pub session: String,
    /// Process id of the command.
    pub pid: u32,
    /// The command.
    pub command: Vec<String>,
    /// When it was started, CLOCK_REALTIME ns.
    #[serde(default)]
    pub started_realtime_ns: u64,
    /// When it had ended, CLOCK_REALTIME ns.
    #[serde(default)]
    pub ended_realtime_ns: u64,
    /// How it ended.
    pub ending: Ending,
}

impl Run {
    /// Keeps it beside the session's captures.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(format!("{}.{RUN_EXTENSION}", self.session));
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        fs::write(&path, text).map_err(|e| Error::file(&path, "write", e))
    }

    /// Reads what was kept about a session; `None` without it, or when it is not readable as such.
    fn load(directory: &Path, session: &str) -> Option<Self> {
        // The session comes out of a capture: it must not lead to another place.
        if session.is_empty() || session.contains('/') {
            return None;
        }
        let path = directory.join(format!("{session}.{RUN_EXTENSION}"));
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }
}

/// Whether a recorded process is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Running,
    /// It went through its exit handlers.
    Exited,
    /// It ended with this signal, as `gpushim run` saw.
    Signal(i32),
    /// It ended with this status, as `gpushim run` saw, without exit handlers.
    Status(i32),
    /// It is gone and never said goodbye: killed, crashed, or `_exit`.
    Gone,
    /// It ran on another host, or before the last boot.
    Elsewhere,
    /// Its pid namespace is not ours, so that it cannot be looked up.
    OtherNamespace,
}

impl Fate {
    /// Whether the process can no longer hold anything, as far as can be told from here.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            Self::Exited | Self::Signal(_) | Self::Status(_) | Self::Gone
        )
    }
}

/// What is known about the end of a recorded process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether and how it ended.
    pub fate: Fate,
    /// Until when it lived, or lives, CLOCK_MONOTONIC ns; `None` where only its last record is known.
    pub until_ns: Option<u64>,
}

impl Standing {
    /// Finds out.
    pub fn of(capture: &Capture) -> Self {
        let identity = &capture.identity;
        let directory = capture.path.parent().unwrap_or(Path::new("."));
        if let Some(run) = Run::load(directory, &identity.session)
            && run.pid == identity.pid
        {
            let lived = run
                .ended_realtime_ns
                .checked_sub(identity.opened_realtime_ns);
            let seen = lived.and_then(|ns| identity.opened_monotonic_ns.checked_add(ns));
            return Self {
                fate: match (run.ending, identity.clean_exit_ns) {
                    (Ending::Signal(signal), _) => Fate::Signal(signal),
                    (Ending::Exited(0), Some(_)) => Fate::Exited,
                    (Ending::Exited(status), _) => Fate::Status(status),
                },
                until_ns: identity.clean_exit_ns.or(seen),
            };
        }
        // A process that has gone through its exit handlers may still be on its way out.
        if let Some(exit) = identity.clean_exit_ns {
            return Self {
                fate: Fate::Exited,
                until_ns: Some(exit),
            };
        }
        let mut until_ns = None;
        let fate = if boot_id() != Some(identity.boot_id) {
            Fate::Elsewhere
        } else if pid_namespace().is_some_and(|ours| ours != identity.pid_namespace) {
            Fate::OtherNamespace
        } else if start_ticks(identity.pid) == Some(identity.start_ticks) {
            until_ns = monotonic_ns();
            Fate::Running
        } else {
            Fate::Gone
        };
        Self { fate, until_ns }
    }
}

/// CLOCK_MONOTONIC, ns.
fn monotonic_ns() -> Option<u64> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(u64::try_from(now.tv_nsec).ok()?)
}

fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(id)
}

fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// Start time of a running process, clock ticks since boot.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace();
    // A zombie holds nothing any more.
    if fields.clone().next() == Some("Z") {
        return None;
    }
    fields.nth(19)?.parse().ok()
}

/// Whether two captures descend from one start.
fn belong_together(a: &Identity, b: &Identity) -> bool {
    if a.session.is_empty() && b.session.is_empty() {
        a.boot_id == b.boot_id && a.group == b.group && a.pid_namespace == b.pid_namespace
    } else {
        a.session == b.session
    }
}

/// Names of captures in a directory, oldest first by their files' time of birth in the name.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(|e| Error::file(directory, "read", e))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some(OsStr::new(EXTENSION)))
        .collect();
    found.sort();
    Ok(found)
}

/// A capture that could not be opened, with the reason, for the views that go on without it.
pub type Skipped = Vec<Error>;

/// Opens what the arguments name: captures as they are, directories with every capture in them, nothing at all
/// meaning the newest session.
///
/// # Errors
/// When an argument cannot be read, or there is nothing to read.
pub fn open(arguments: &[PathBuf]) -> Result<(Vec<Capture>, Skipped), Error> {
    if arguments.is_empty() {
        return newest();
    }
    let mut captures = Vec::new();
    let mut skipped = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let (mut found, mut bad) = open_all(argument)?;
            captures.append(&mut found);
            skipped.append(&mut bad);
        } else {
            captures.push(Capture::open(argument)?);
        }
    }
    // A capture that is named twice holds its memory once.
    let mut seen = HashSet::new();
    captures.retain(|capture| {
        seen.insert(fs::canonicalize(&capture.path).unwrap_or_else(|_| capture.path.clone()))
    });
    captures.sort_by_key(|capture| capture.identity.opened_realtime_ns);
    Ok((captures, skipped))
}

/// Every capture of the usual directory.
///
/// # Errors
/// When there is none that can be read.
pub fn everything() -> Result<(Vec<Capture>, Skipped), Error> {
    let directory = directory();
    if !directory.is_dir() {
        return Err(nothing_in(&directory));
    }
    open_all(&directory)
}

/// Every capture of a directory; an error only when there is none that can be read.
///
/// # Errors
/// When the directory cannot be read or holds no readable capture.
pub fn open_all(directory: &Path) -> Result<(Vec<Capture>, Skipped), Error> {
    let mut captures = Vec::new();
    let mut skipped = Vec::new();
    for path in list(directory)? {
        match Capture::open(&path) {
            Ok(capture) => captures.push(capture),
            Err(error) => skipped.push(error),
        }
    }
    if captures.is_empty() {
        return Err(match skipped.pop() {
            Some(error) => error,
            None => nothing_in(directory),
        });
    }
    captures.sort_by_key(|capture| capture.identity.opened_realtime_ns);
    Ok((captures, skipped))
}

fn nothing_in(directory: &Path) -> Error {
    let instead = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "there is no such directory, nothing was recorded yet".to_owned()
        }
        Err(error) => format!("it cannot be read ({error})"),
        Ok(entries) => match entries.count() {
            0 => "it is empty".to_owned(),
            1 => format!("it holds one other file, none that ends in .{EXTENSION}"),
            n => format!("it holds {n} other files, none that ends in .{EXTENSION}"),
        },
    };
    Error::NothingFound {
        looked_in: directory.to_owned(),
        instead,
    }
}

fn newest() -> Result<(Vec<Capture>, Skipped), Error> {
    let directory = directory();
    if !directory.is_dir() {
        return Err(nothing_in(&directory));
    }
    // A directory can hold thousands of captures: only their identities are kept until it is known which are wanted.
    let mut found = Vec::new();
    let mut skipped = Vec::new();
    for path in list(&directory)? {
        match Capture::open(&path) {
            Ok(capture) => found.push((path, capture.identity)),
            Err(error) => skipped.push(error),
        }
    }
    found.sort_by_key(|(_, identity)| identity.opened_realtime_ns);
    let Some((_, newest)) = found.last() else {
        return Err(skipped.pop().unwrap_or_else(|| nothing_in(&directory)));
    };
    let mut captures = Vec::new();
    for (path, identity) in &found {
        if belong_together(identity, newest) {
            match Capture::open(path) {
                Ok(capture) => captures.push(capture),
                Err(error) => skipped.push(error),
            }
        }
    }
    if captures.is_empty() {
        return Err(skipped.pop().unwrap_or_else(|| nothing_in(&directory)));
    }
    Ok((captures, skipped))
}
