//! `gpushim doctor`: can this program be recorded here?

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use gpushim_abi::hooks::HOOKS;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, elf};
use serde::Serialize;

use super::{run, write_json};
use crate::cli::{self, Format};
use crate::error::Error;
use crate::render::{self, BAD, GOOD, HEADING, WARNING, plain, units};
use crate::session;

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.doctor/1";
/// Free space that the default capture can take.
const SPACE: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn new(what: &'static str, verdict: Verdict, finding: String) -> Self {
        Self {
            what,
            verdict,
            finding,
            remedy: None,
        }
    }

    fn good(what: &'static str, finding: String) -> Self {
        Self::new(what, Verdict::Good, finding)
    }

    fn warning(what: &'static str, finding: String) -> Self {
        Self::new(what, Verdict::Warning, finding)
    }

    fn bad(what: &'static str, finding: String) -> Self {
        Self::new(what, Verdict::Bad, finding)
    }

    fn remedy(mut self, text: &str) -> Self {
        self.remedy = Some(text.to_owned());
        self
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    recordable: bool,
    checks: Vec<Check>,
    hooked: Vec<String>,
    not_hooked: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When the answer cannot be written.
pub fn main(arguments: &cli::Doctor) -> Result<ExitCode, Error> {
    let mut checks = vec![check_library(), check_directory()];
    let driver = driver();
    checks.push(check_driver(driver.as_deref()));
    let exported = driver.as_deref().map(exports).unwrap_or_default();
    let (hooked, not_hooked) = split(&exported);
    if !exported.is_empty() {
        checks.push(check_coverage(&hooked, &not_hooked));
    }
    if let Some(program) = &arguments.program {
        checks.extend(check_program(program));
    }
    checks.extend(check_environment());
    let recordable = checks.iter().all(|check| check.verdict != Verdict::Bad);
    match arguments.format {
        Format::Json => write_json(&Document {
            schema: SCHEMA,
            recordable,
            checks,
            hooked,
            not_hooked,
        })?,
        Format::Csv => {
            return Err(Error::Usage(
                "doctor has no CSV form; use --format json".to_owned(),
            ));
        }
        Format::Text => text(&checks, &not_hooked, arguments.verbose, recordable)?,
    }
    Ok(if recordable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(
    checks: &[Check],
    not_hooked: &[String],
    verbose: bool,
    recordable: bool,
) -> Result<(), Error> {
    let mut out = render::output();
    let width = render::width();
    for check in checks {
        let (style, mark) = match check.verdict {
            Verdict::Good => (GOOD, "✓"),
            Verdict::Warning => (WARNING, "!"),
            Verdict::Bad => (BAD, "✗"),
        };
        let indent = " ".repeat(14);
        let shape = textwrap::Options::new(width)
            .initial_indent("")
            .subsequent_indent(&indent)
            .break_words(false);
        let head = format!(" {:12} {}", check.what, plain(&check.finding));
        let wrapped = textwrap::fill(&head, shape.clone());
        writeln!(out, "{style}{mark}{style:#}{wrapped}")?;
        if let Some(remedy) = &check.remedy {
            let line = format!("{indent}{remedy}");
            writeln!(out, "{}", textwrap::fill(&line, shape))?;
        }
    }
    if verbose && !not_hooked.is_empty() {
        writeln!(
            out,
            "\n{HEADING}Exported by the driver, not recorded{HEADING:#}"
        )?;
        for line in textwrap::wrap(&not_hooked.join(" "), width) {
            writeln!(out, "{line}")?;
        }
    }
    let (style, verdict) = if recordable {
        (GOOD, "This can be recorded.")
    } else {
        (BAD, "This cannot be recorded as it is.")
    };
    writeln!(out, "\n{style}{verdict}{style:#}")?;
    out.flush()?;
    Ok(())
}

fn check_library() -> Check {
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

fn check_directory() -> Check {
    const WHAT: &str = "captures";
    const REMEDY: &str =
        "GPUSHIM_DIR, or `gpushim run --dir`, can name another directory on a local disk.";
    let directory = session::directory();
    let shown = directory.display();
    if let Err(error) = fs::create_dir_all(&directory) {
        return Check::bad(WHAT, format!("{shown} cannot be made: {error}")).remedy(REMEDY);
    }
    if directory.starts_with("/tmp") && env::var_os("GPUSHIM_DIR").is_none() {
        // As the shim would have made it.
        if let Ok(held) = fs::symlink_metadata(&directory) {
            let ours = held.uid() == rustix::process::geteuid().as_raw();
            if ours && held.is_dir() && held.mode() & 0o077 != 0 {
                let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o700));
            }
            if !ours || !held.is_dir() {
                return Check::bad(WHAT, format!("{shown} belongs to somebody else"))
                    .remedy(REMEDY);
            }
        }
    }
    let probe = directory.join(format!(".doctor-{}", std::process::id()));
    if let Err(error) = File::create(&probe).and_then(|mut file| file.write_all(&[0])) {
        return Check::bad(WHAT, format!("{shown} cannot be written: {error}")).remedy(REMEDY);
    }
    let _ = fs::remove_file(&probe);
    let free =
        rustix::fs::statvfs(&directory).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize));
    let kind =
        rustix::fs::statfs(&directory).map_or("unknown", |s| file_system(i64::from(s.f_type)));
    let finding = format!("{shown}, {} free, {kind}", units::bytes(free));
    if free < SPACE {
        Check::warning(
            WHAT,
            format!("{finding}: a capture takes up to {}", units::bytes(SPACE)),
        )
        .remedy(REMEDY)
    } else if matches!(kind, "NFS" | "SMB" | "FUSE" | "Lustre") {
        Check::warning(
            WHAT,
            format!("{finding}: a mapped file there can stall the program"),
        )
        .remedy(REMEDY)
    } else {
        Check::good(WHAT, finding)
    }
}

/// Names of file systems, by the numbers of statfs(2).
fn file_system(kind: i64) -> &'static str {
    match kind {
        0xef53 => "ext4",
        0x5846_5342 => "XFS",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs (in memory)",
        0x794c_7630 => "overlayfs",
        0x2fc1_2fc1 => "ZFS",
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x6573_5546 => "FUSE",
        0x0bd0_0bd0 => "Lustre",
        _ => "another file system",
    }
}

/// The driver's library as a program would find it: `LD_LIBRARY_PATH`, the loader's cache, the usual folders.
pub(crate) fn driver() -> Option<PathBuf> {
    const NAME: &str = "libcuda.so.1";
    let asked = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let first = env::split_paths(&asked).map(|folder| folder.join(NAME));
    let cached = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"]
        .into_iter()
        .find_map(|program| Command::new(program).arg("-p").output().ok())
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let cached: Vec<PathBuf> = cached
        .lines()
        .filter(|line| line.trim_start().starts_with(NAME) && line.contains("x86-64"))
        .filter_map(|line| line.rsplit("=> ").next().map(PathBuf::from))
        .collect();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/nvidia/lib64",
        "/usr/lib/wsl/lib",
    ];
    first
        .chain(cached)
        .chain(usual.map(|folder| Path::new(folder).join(NAME)))
        .find(|path| path.is_file())
}

fn check_driver(driver: Option<&Path>) -> Check {
    const WHAT: &str = "driver";
    let Some(path) = driver else {
        return Check::warning(
            WHAT,
            "libcuda.so.1 is not found: there is nothing to record on this machine".to_owned(),
        )
        .remedy("`gpushim demo` shows gpushim on a stand-in for a card.");
    };
    let kernel = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let loaded = kernel
        .split_whitespace()
        .find(|word| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        .map(str::to_owned);
    let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let named = file
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix("libcuda.so."))
        .filter(|version| version.contains('.'))
        .map(str::to_owned);
    let version = match (&named, &loaded) {
        (Some(named), Some(loaded)) if named != loaded => {
            return Check::warning(
                WHAT,
                format!(
                    "{} is version {named}, the kernel's is {loaded}",
                    path.display()
                ),
            );
        }
        (Some(version), _) | (None, Some(version)) => version.as_str(),
        (None, None) => "of unknown version",
    };
    Check::good(WHAT, format!("{}, {version}", path.display()))
}

/// Driver functions that a library exports.
fn exports(path: &Path) -> BTreeSet<String> {
    let Ok(bytes) = fs::read(path) else {
        return BTreeSet::new();
    };
    let Ok(file) = ElfFile64::<Endianness>::parse(&*bytes) else {
        return BTreeSet::new();
    };
    file.dynamic_symbols()
        .filter(|symbol| !symbol.is_undefined())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| {
            name.starts_with("cu") && name.as_bytes().get(2).is_some_and(u8::is_ascii_uppercase)
        })
        .map(str::to_owned)
        .collect()
}

/// Those that are recorded and those that are not, functions that move memory first.
fn split(exported: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    let is_hooked = |name: &&String| HOOKS.iter().any(|hook| hook.symbol == **name);
    let hooked = exported.iter().filter(is_hooked).cloned().collect();
    let mut others: Vec<String> = exported
        .iter()
        .filter(|name| !is_hooked(name))
        .cloned()
        .collect();
    others.sort_by_key(|name| !moves_memory(name));
    (hooked, others)
}

/// Whether a name sounds like memory that comes, goes or is held.
fn moves_memory(name: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "cuMemPool",
        "cuMemRetain",
        "cuMemExport",
        "cuMemImport",
        "cuArrayCreate",
        "cuArray3DCreate",
        "cuArrayDestroy",
        "cuMipmappedArray",
        "cuIpc",
        "cuImportExternal",
        "cuDestroyExternal",
        "cuExternalMemory",
        "cuGraphAddMem",
        "cuGraphInstantiate",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
        "cuDeviceGraphMem",
        "cuModuleLoad",
        "cuModuleUnload",
        "cuLibraryLoad",
        "cuLibraryUnload",
        "cuMulticast",
        "cuGreenCtx",
        "cuCtxSetLimit",
        "cuDeviceSetMemPool",
        "cuStreamCreate",
        "cuStreamDestroy",
        "cuEventCreate",
        "cuEventDestroy",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn check_coverage(hooked: &[String], not_hooked: &[String]) -> Check {
    let memory = not_hooked.iter().filter(|name| moves_memory(name)).count();
    let missing = HOOKS.len() - hooked.len();
    let mut finding = format!(
        "{} of the driver's {} functions are recorded; of the others {memory} can also take, move or hold memory",
        hooked.len(),
        hooked.len() + not_hooked.len()
    );
    if missing > 0 {
        finding.push_str(&format!(
            "; {missing} that gpushim knows are not in this driver"
        ));
    }
    Check::good("coverage", finding)
        .remedy("--verbose names those that are not recorded, memory first.")
}

/// What a file is, as far as it decides whether it can be recorded.
enum Kind {
    Elf(ElfFacts),
    /// A script, with its interpreter.
    Script(PathBuf),
    Other,
}

struct ElfFacts {
    /// Built for x86-64.
    is_native: bool,
    /// The dynamic linker it asks for.
    interpreter: Option<String>,
    is_library: bool,
}

fn program_kind(path: &Path) -> std::io::Result<Kind> {
    let mut file = File::open(path)?;
    let mut head = vec![0; 4096];
    let len = file.read(&mut head)?;
    head.truncate(len);
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        // "#!/usr/bin/env -S python3 -u" names its program further on.
        let interpreter = if first.ends_with("/env") {
            words.find(|word| !word.starts_with('-')).unwrap_or(first)
        } else {
            first
        };
        return Ok(Kind::Script(interpreter.into()));
    }
    if !head.starts_with(b"\x7fELF") {
        return Ok(Kind::Other);
    }
    let bytes = fs::read(path)?;
    let foreign = Kind::Elf(ElfFacts {
        is_native: false,
        interpreter: None,
        is_library: false,
    });
    let Ok(file) = ElfFile64::<Endianness>::parse(&*bytes) else {
        return Ok(foreign);
    };
    let endian = file.endian();
    let header = file.elf_header();
    let mut interpreter = None;
    for segment in file.elf_program_headers() {
        if let Ok(Some(path)) = segment.interpreter(endian, &*bytes) {
            interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    Ok(Kind::Elf(ElfFacts {
        is_native: header.e_machine(endian) == elf::EM_X86_64,
        interpreter,
        is_library: header.e_type(endian) == elf::ET_DYN,
    }))
}

/// Finds a program as a shell would.
fn resolve(program: &Path) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return program.exists().then(|| program.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

fn check_program(program: &Path) -> Vec<Check> {
    const WHAT: &str = "program";
    let mut checks = Vec::new();
    let mut program = program.to_owned();
    // A script's interpreter may itself be a script; the kernel follows a few.
    for _ in 0..5 {
        let Some(path) = resolve(&program) else {
            checks.push(Check::bad(
                WHAT,
                format!("{} does not exist or is not in PATH", program.display()),
            ));
            return checks;
        };
        let kind = match program_kind(&path) {
            Ok(kind) => kind,
            Err(error) => {
                checks.push(Check::bad(
                    WHAT,
                    format!("{} cannot be read: {error}", path.display()),
                ));
                return checks;
            }
        };
        checks.extend(check_privileges(&path));
        match kind {
            Kind::Script(interpreter) => {
                checks.push(Check::good(
                    WHAT,
                    format!(
                        "{} is a script for {}",
                        path.display(),
                        interpreter.display()
                    ),
                ));
                program = interpreter;
            }
            Kind::Other => {
                checks.push(Check::bad(
                    WHAT,
                    format!("{} is neither a program nor a script", path.display()),
                ));
                return checks;
            }
            Kind::Elf(facts) => {
                checks.push(check_elf(&path, &facts));
                return checks;
            }
        }
    }
    checks.push(Check::bad(
        WHAT,
        "scripts that interpret each other".to_owned(),
    ));
    checks
}

fn check_elf(path: &Path, facts: &ElfFacts) -> Check {
    const WHAT: &str = "program";
    let shown = path.display();
    if !facts.is_native {
        return Check::bad(
            WHAT,
            format!("{shown} is not an x86-64 program: the loader ignores the library in it"),
        );
    }
    match facts.interpreter.as_deref() {
        None => Check::bad(
            WHAT,
            format!("{shown} is statically linked: no loader runs in it, nothing can be preloaded"),
        ),
        Some(loader) if loader.contains("musl") => Check::bad(
            WHAT,
            format!("{shown} uses musl ({loader}): the library needs glibc"),
        ),
        Some(loader) if loader.contains("ld-linux") => {
            Check::good(WHAT, format!("{shown}, dynamically linked"))
        }
        Some(loader) => Check::warning(WHAT, format!("{shown} uses an unknown loader, {loader}")),
    }
}

fn check_privileges(path: &Path) -> Option<Check> {
    const WHAT: &str = "privileges";
    let mode = fs::metadata(path).ok()?.mode();
    if mode & 0o6000 != 0 {
        return Some(Check::bad(
            WHAT,
            format!(
                "{} is setuid or setgid: the loader ignores LD_PRELOAD there",
                path.display()
            ),
        ));
    }
    let mut value = [0_u8; 64];
    if rustix::fs::getxattr(path, "security.capability", &mut value).is_ok() {
        return Some(Check::bad(
            WHAT,
            format!(
                "{} has file capabilities: the loader ignores LD_PRELOAD there",
                path.display()
            ),
        ));
    }
    None
}

fn check_environment() -> Vec<Check> {
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
        let driver_names = exports(path).len();
        let has_dlsym = fs::read(path).ok().is_some_and(|bytes| {
            ElfFile64::<Endianness>::parse(&*bytes).is_ok_and(|file| {
                file.dynamic_symbols()
                    .any(|s| !s.is_undefined() && s.name() == Ok("dlsym"))
            })
        });
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
    if let Ok(size) = env::var("GPUSHIM_SIZE")
        && run::check_size(&size).is_err()
    {
        checks.push(Check::warning(
            "GPUSHIM_SIZE",
            format!("{size:?} is not a size such as 64M: the default is taken"),
        ));
    }
    if env::var("GPUSHIM_DISABLE").is_ok_and(|value| !value.is_empty() && value != "0") {
        checks.push(Check::bad(
            "GPUSHIM_DISABLE",
            "is set: nothing is recorded".to_owned(),
        ));
    }
    checks
}
