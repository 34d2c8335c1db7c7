//! What lies around every program: the library that is preloaded, the place for captures, the environment.

use std::fs::{DirBuilder, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::{env, fs, io};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::Check;
use super::driver::{exports, is_driver_function};
use super::program::{Kind, program_kind};
use crate::commands::run;
use crate::render::units;
use crate::session;

pub(super) fn check_library() -> Check {
    const WHAT: &str = "library";
    let path = match run::library() {
        Ok(path) => path,
        Err(error) => return Check::bad(WHAT, error.to_string()),
    };
    match program_kind(&path) {
        Ok(Kind::Elf(facts)) if facts.is_library && facts.is_native => {
            match run::preload_path(&path) {
                Ok(link) if link == path => Check::good(WHAT, path.display().to_string()),
                Ok(link) => Check::good(
                    WHAT,
                    format!(
                        "{}, preloaded through {} since LD_PRELOAD cannot hold blanks and colons",
                        path.display(),
                        link.display()
                    ),
                ),
                Err(error) => Check::bad(WHAT, error.to_string()),
            }
        }
        Ok(_) => Check::bad(WHAT, format!("{} is no x86-64 library", path.display())),
        Err(error) => Check::bad(WHAT, format!("{}: {error}", path.display())),
    }
}

/// Space that the default capture can take, bytes.
const SPACE: u64 = 64 << 20;
/// The smallest capture that the recorder makes, bytes.
const SMALLEST: u64 = 1 << 20;

pub(super) fn check_directory() -> Check {
    const WHAT: &str = "captures";
    const REMEDY: &str =
        "GPUSHIM_DIR, or `gpushim run --dir`, can name another directory on a local disk.";
    let directory = session::directory();
    let shown = directory.display();
    // As the recorder would make it; what was only made for this question goes again.
    let made = !directory.exists();
    if let Err(error) = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
    {
        return Check::bad(WHAT, format!("{shown} cannot be made: {error}")).remedy(REMEDY);
    }
    let answer = check_place(WHAT, REMEDY, &directory);
    if made {
        // A directory that something else is in by now stays.
        let _ = fs::remove_dir(&directory);
    }
    answer
}

fn check_place(what: &'static str, remedy: &str, directory: &Path) -> Check {
    let shown = directory.display();
    // In /tmp anyone could have put a directory or a link of that name: the recorder uses only its user's own.
    if directory.starts_with("/tmp")
        && env::var_os("GPUSHIM_DIR").is_none_or(|asked| asked.is_empty())
        && let Ok(held) = fs::symlink_metadata(directory)
        && (!held.is_dir()
            || held.uid() != rustix::process::geteuid().as_raw()
            || held.mode() & 0o077 != 0)
    {
        return Check::bad(
            what,
            format!("{shown} belongs to somebody else or is open to others"),
        )
        .remedy("`chmod 700` makes an own directory private. Or: GPUSHIM_DIR names another one.");
    }
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    if limit < SMALLEST {
        return Check::bad(
            what,
            format!(
                "files may be at most {} long here (`ulimit -f`), a capture takes {} at least",
                units::bytes(limit),
                units::bytes(SMALLEST)
            ),
        );
    }
    let probe = directory.join(format!(".doctor-{}", std::process::id()));
    let space =
        File::create(&probe).map(|file| fallocate(&file, FallocateFlags::empty(), 0, SMALLEST));
    // A probe that cannot be removed could not be made.
    let _ = fs::remove_file(&probe);
    match space {
        Err(error) => {
            return Check::bad(what, format!("{shown} cannot be written: {error}")).remedy(remedy);
        }
        Ok(Err(error)) if error != Errno::OPNOTSUPP => {
            let error = io::Error::from(error);
            return Check::bad(what, format!("{shown} gives no space: {error}")).remedy(remedy);
        }
        Ok(_) => {}
    }
    let free =
        rustix::fs::statvfs(directory).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize));
    let kind = rustix::fs::statfs(directory).map_or("unknown", |s| file_system(s.f_type));
    let finding = format!("{shown}, {} free, {kind}", units::bytes(free));
    let doubt = match kind {
        "NFS" | "SMB" | "FUSE" | "Lustre" => "a mapped file there can stall the program",
        "tmpfs" => "captures there take memory, and go with the next boot",
        _ if free < SPACE => "a capture takes up to 64 MiB",
        _ => return Check::good(what, finding),
    };
    Check::warning(what, format!("{finding}: {doubt}")).remedy(remedy)
}

/// Names of file systems, by the numbers of statfs(2).
fn file_system(kind: i64) -> &'static str {
    match kind {
        0xef53 => "ext4",
        0x5846_5342 => "XFS",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlayfs",
        0x2fc1_2fc1 => "ZFS",
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x6573_5546 => "FUSE",
        0x0bd0_0bd0 => "Lustre",
        _ => "another file system",
    }
}

pub(super) fn check_environment() -> Vec<Check> {
    let mut checks = Vec::new();
    let preload = env::var_os("LD_PRELOAD").unwrap_or_default();
    for entry in preload
        .as_bytes()
        .split(|b| b.is_ascii_whitespace() || *b == b':')
    {
        let path = Path::new(std::ffi::OsStr::from_bytes(entry));
        if entry.is_empty() || path.file_name().is_some_and(|name| name == run::LIBRARY) {
            continue;
        }
        let exported = exports(path);
        let driver_names = exported.iter().filter(|n| is_driver_function(n)).count();
        let has_dlsym = exported.contains("dlsym");
        checks.push(if driver_names > 0 || has_dlsym {
            Check::warning(
                "preload",
                format!(
                    "{} is preloaded too and interposes {}: gpushim records what it hands on",
                    path.display(),
                    match (driver_names, has_dlsym) {
                        (0, _) => "dlsym".to_owned(),
                        (n, true) => format!("dlsym and {n} driver functions"),
                        (n, false) => format!("{n} driver functions"),
                    }
                ),
            )
        } else {
            Check::good("preload", format!("{} is preloaded too", path.display()))
        });
    }
    checks.extend(check_variables());
    checks
}

/// The variables that the recorder and this program read, with what they do.
const VARIABLES: [(&str, &str); 6] = [
    ("GPUSHIM_DIR", "is where captures go"),
    ("GPUSHIM_SIZE", "is the greatest length of a capture"),
    ("GPUSHIM_SESSION", "names the session of captures"),
    (
        "GPUSHIM_LOG",
        "lets the recorder say why it records nothing",
    ),
    ("GPUSHIM_DISABLE", "switches the recorder off"),
    ("GPUSHIM_LIB", "is the library that is preloaded"),
];

fn check_variables() -> Vec<Check> {
    const WHAT: &str = "variable";
    let mut checks = Vec::new();
    let mut set: Vec<(String, String)> = env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .filter(|(name, value)| name.starts_with("GPUSHIM_") && !value.is_empty())
        .collect();
    set.sort();
    for (name, value) in set {
        let Some((_, does)) = VARIABLES.iter().find(|(known, _)| *known == name) else {
            let known = VARIABLES.map(|(known, _)| known).join(", ");
            checks.push(
                Check::warning(WHAT, format!("{name} means nothing to gpushim"))
                    .remedy(&format!("It knows {known}.")),
            );
            continue;
        };
        let finding = format!("{name}={value} {does}");
        checks.push(match name.as_str() {
            "GPUSHIM_SIZE" if run::check_size(&value).is_err() => Check::warning(
                WHAT,
                format!("{name}={value} is not a size such as 64M: the default is taken"),
            ),
            "GPUSHIM_DISABLE" if value != "0" => Check::bad(WHAT, finding),
            "GPUSHIM_DIR" if !value.starts_with('/') => Check::warning(
                WHAT,
                format!("{finding}, but is relative: each program takes it from where it stands"),
            ),
            _ => Check::good(WHAT, finding),
        });
    }
    checks
}
