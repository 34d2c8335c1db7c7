//! Whether a program lets itself be preloaded.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

use super::Check;

/// What a file is, as far as it decides whether it can be recorded.
pub(super) enum Kind {
    Elf(ElfFacts),
    /// A script, with its interpreter.
    Script(PathBuf),
    Other,
}

pub(super) struct ElfFacts {
    /// Built for x86-64.
    pub(super) is_native: bool,
    /// The dynamic linker it asks for.
    interpreter: Option<String>,
    pub(super) is_library: bool,
}

pub(super) fn program_kind(path: &Path) -> std::io::Result<Kind> {
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

pub(super) fn check_program(program: &Path) -> Vec<Check> {
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
