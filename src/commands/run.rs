//! `gpushim run`: a command under the recorder.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process, thread};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;

use crate::capture::Capture;
use crate::cli;
use crate::error::Error;
use crate::session::{self, Ending, Run};

/// Name of the library that is preloaded.
pub const LIBRARY: &str = "libgpushim.so";

/// Checks a size as the shim will read it.
///
/// # Errors
/// When it is none; the text says what one looks like.
pub fn check_size(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let one_unit = text.len() - digits.len() <= 1;
    if one_unit && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("a size such as 64M or 1G".to_owned())
    }
}

/// Finds the library: `$GPUSHIM_LIB`, beside this program, or in a `lib` folder next to its own.
///
/// # Errors
/// When it is nowhere; the text says where was looked.
pub fn library() -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os("GPUSHIM_LIB").filter(|path| !path.is_empty()) {
        return fs::canonicalize(&path).map_err(|e| {
            Error::Usage(format!(
                "GPUSHIM_LIB is {}: {e}",
                Path::new(&path).display()
            ))
        });
    }
    let program = env::current_exe()
        .map_err(|e| Error::Usage(format!("cannot find this program's own path: {e}")))?;
    let program = fs::canonicalize(&program).unwrap_or(program);
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [
        folder.join(LIBRARY),
        folder.join("../lib/gpushim").join(LIBRARY),
        folder.join("../lib").join(LIBRARY),
    ];
    places
        .iter()
        .find_map(|place| fs::canonicalize(place).ok())
        .ok_or_else(|| {
            Error::Usage(format!(
                "{LIBRARY} is not in {}, ../lib/gpushim or ../lib; GPUSHIM_LIB can say where it is",
                folder.display()
            ))
        })
}

/// Whether LD_PRELOAD can hold a path: the loader splits it at blanks and colons.
fn fits_preload(path: &Path) -> bool {
    !path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|b| b.is_ascii_whitespace() || *b == b':')
}

/// A path to the library that LD_PRELOAD can hold: its own, or a link to it in a private directory.
///
/// # Errors
/// When there is no place for such a link.
pub fn preload_path(library: &Path) -> Result<PathBuf, Error> {
    if fits_preload(library) {
        return Ok(library.to_owned());
    }
    let base = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.is_dir() && fits_preload(path))
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let user = rustix::process::geteuid().as_raw();
    let folder = base.join(format!("gpushim-lib-{user}"));
    let refuse = |why: String| {
        Error::Usage(format!(
            "LD_PRELOAD cannot hold {} (it has a blank or a colon), and a link to it cannot be made in {}: {why}",
            library.display(),
            folder.display()
        ))
    };
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(refuse(e.to_string())),
        _ => {}
    }
    // In /tmp anyone could have made it first.
    let held = fs::symlink_metadata(&folder).map_err(|e| refuse(e.to_string()))?;
    if !held.is_dir() || held.uid() != user || held.mode() & 0o077 != 0 {
        return Err(refuse(
            "it is not a directory of this user's alone".to_owned(),
        ));
    }
    // Named after the file it leads to, so that two installations do not take turns.
    let target = fs::metadata(library).map_err(|e| refuse(e.to_string()))?;
    let link = folder.join(format!("{}-{}-{LIBRARY}", target.dev(), target.ino()));
    let fresh = folder.join(format!("{}.new", process::id()));
    symlink(library, &fresh)
        .and_then(|()| fs::rename(&fresh, &link))
        .map_err(|e| refuse(e.to_string()))?;
    Ok(link)
}

/// The value of LD_PRELOAD with the library first and once, and everything that was there after it.
fn preload_value(library: &Path, before: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    let before = before.map_or(&b""[..], OsStr::as_bytes);
    for entry in before.split(|b| b.is_ascii_whitespace() || *b == b':') {
        if !entry.is_empty() && entry != library.as_os_str().as_bytes() {
            value.push(":");
            value.push(OsStr::from_bytes(entry));
        }
    }
    value
}

/// CLOCK_REALTIME, ns.
fn realtime_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// A session's id: unique on this machine for as long as clocks do not step back.
fn new_session() -> String {
    format!("run-{}-{:x}", process::id(), realtime_ns())
}

/// The signals that are handed on: all but those that were ignored when we began, as under `nohup`. The command inherits what is ignored, and
/// a handler of ours would take that from it.
fn handed_on() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    [
        SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH,
    ]
    .into_iter()
    .filter(|signal| ignored >> (signal - 1) & 1 == 0)
    .collect()
}

/// Runs the command.
///
/// # Errors
/// When the recorder cannot be set up; what the command itself does is its status.
pub fn main(arguments: &cli::Run) -> Result<ExitCode, Error> {
    let library = preload_path(&library()?)?;
    let session = new_session();
    let directory = match &arguments.dir {
        // Absolute: the command may change its directory.
        Some(directory) => {
            std::path::absolute(directory).map_err(|e| Error::file(directory, "find", e))?
        }
        None => session::directory(),
    };
    let [program, rest @ ..] = arguments.command.as_slice() else {
        return Err(Error::Usage("no command".to_owned()));
    };
    let mut command = Command::new(program);
    command
        .args(rest)
        .env(
            "LD_PRELOAD",
            preload_value(&library, env::var_os("LD_PRELOAD").as_deref()),
        )
        .env("GPUSHIM_SESSION", &session);
    if arguments.dir.is_some() {
        command.env("GPUSHIM_DIR", &directory);
    }
    if let Some(size) = &arguments.size {
        command.env("GPUSHIM_SIZE", size);
    }
    // Before the command exists, so that no signal finds us without a handler.
    let signals = SignalsInfo::<WithOrigin>::new(handed_on())
        .map_err(|e| Error::Usage(format!("cannot forward signals: {e}")))?;
    let started_realtime_ns = realtime_ns();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            anstream::eprintln!(
                "gpushim: cannot run {}: {error}",
                Path::new(program).display()
            );
            let code = if error.kind() == io::ErrorKind::NotFound {
                127
            } else {
                126
            };
            return Ok(ExitCode::from(code));
        }
    };
    let status = wait(&mut child, signals)?;
    let run = Run {
        session,
        pid: child.id(),
        command: arguments
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        started_realtime_ns,
        ended_realtime_ns: realtime_ns(),
        ending: match status.signal() {
            Some(signal) => Ending::Signal(signal),
            None => Ending::Exited(status.code().unwrap_or(0)),
        },
    };
    finish(&run, &directory, arguments.verbose);
    let code = match run.ending {
        Ending::Signal(signal) => 128 + signal,
        Ending::Exited(code) => code,
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Waits for the command and hands signals on to it.
fn wait(child: &mut Child, mut signals: SignalsInfo<WithOrigin>) -> Result<ExitStatus, Error> {
    let target = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let forward = thread::spawn(move || {
        for origin in signals.forever() {
            // What the terminal sends goes to the whole foreground group: the command has it already.
            let by_terminal = origin.process.is_none()
                && matches!(origin.signal, SIGINT | SIGQUIT | SIGWINCH | SIGHUP);
            if let (false, Some(target), Some(signal)) =
                (by_terminal, target, Signal::from_named_raw(origin.signal))
            {
                // The command may be gone: then there is nobody to tell.
                let _ = kill_process(target, signal);
            }
        }
    });
    let status = child
        .wait()
        .map_err(|e| Error::Usage(format!("cannot wait for the command: {e}")));
    handle.close();
    let _ = forward.join();
    status
}

/// Keeps how the command ended beside its captures, and says where they are.
fn finish(run: &Run, directory: &Path, verbose: bool) {
    let captures = session::list(directory)
        .unwrap_or_default()
        .iter()
        .filter_map(|path| Capture::open(path).ok())
        .filter(|capture| capture.identity.session == run.session)
        .count();
    if captures > 0
        && let Err(error) = run.save(directory)
    {
        anstream::eprintln!("gpushim: {error}");
    }
    if verbose || rustix::termios::isatty(io::stderr()) {
        match captures {
            0 => anstream::eprintln!(
                "gpushim: no CUDA call succeeded, nothing was recorded (`gpushim doctor` tells whether the program can be recorded)"
            ),
            1 => anstream::eprintln!(
                "gpushim: 1 capture in {}; see `gpushim report`",
                directory.display()
            ),
            n => anstream::eprintln!(
                "gpushim: {n} captures in {}; see `gpushim report`",
                directory.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays_and_we_are_first_and_once() {
        let ours = Path::new("/opt/libgpushim.so");
        let value = |before: &str| preload_value(ours, Some(OsStr::new(before)));
        assert_eq!(value(""), "/opt/libgpushim.so");
        assert_eq!(value("/a.so /b.so"), "/opt/libgpushim.so:/a.so:/b.so");
        assert_eq!(
            value("/a.so:/opt/libgpushim.so"),
            "/opt/libgpushim.so:/a.so"
        );
    }

    #[test]
    fn sizes_are_checked_as_the_shim_reads_them() {
        for good in ["1", "64M", "2g", "100k"] {
            assert!(check_size(good).is_ok(), "{good}");
        }
        for bad in ["", "M", "64MB", "-1", "1.5G", "6 4"] {
            assert!(check_size(bad).is_err(), "{bad}");
        }
    }
}
