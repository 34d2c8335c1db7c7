//! Which driver there is, and how much of it is recorded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use gpushim_abi::hooks::HOOKS;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};

use super::{Check, coverage};

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

pub(super) fn check_driver(driver: Option<&Path>) -> Check {
    const WHAT: &str = "driver";
    let Some(path) = driver else {
        return Check::bad(
            WHAT,
            "libcuda.so.1 is neither in LD_LIBRARY_PATH nor where the loader looks: no CUDA program runs here"
                .to_owned(),
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

/// Names that a library exports; none for a file that is no library.
pub(super) fn exports(path: &Path) -> BTreeSet<String> {
    let Ok(bytes) = fs::read(path) else {
        return BTreeSet::new();
    };
    let Ok(file) = ElfFile64::<Endianness>::parse(&*bytes) else {
        return BTreeSet::new();
    };
    file.dynamic_symbols()
        .filter(|symbol| !symbol.is_undefined())
        .filter_map(|symbol| symbol.name().ok())
        .map(str::to_owned)
        .collect()
}

/// Whether a name is that of a driver function.
pub(super) fn is_driver_function(name: &str) -> bool {
    name.starts_with("cu") && name.as_bytes().get(2).is_some_and(u8::is_ascii_uppercase)
}

pub(super) fn check_coverage(rows: &[coverage::Row]) -> Check {
    let (recorded, deliberate, unknown) = coverage::counts(rows);
    let missing = HOOKS.len() - recorded;
    let mut finding = format!(
        "{recorded} of the driver's {} functions are recorded, {deliberate} deliberately not, {unknown} unknown to gpushim",
        rows.len(),
    );
    if missing > 0 {
        finding.push_str(&format!(
            "; {missing} that gpushim knows are not in this driver"
        ));
    }
    let check = if unknown == 0 {
        Check::good("coverage", finding)
    } else {
        Check::warning("coverage", finding)
    };
    check.remedy("--coverage lists each with the reason.")
}
