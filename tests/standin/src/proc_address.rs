//! What `cuGetProcAddress` hands out: the table read off driver 580.159.04, and what later headers add.

use std::collections::HashMap;
use std::env;
use std::ffi::c_int;
use std::sync::OnceLock;

/// Rows of name, flags (0 or 2), first version, exported symbol.
const MEASURED: &str = include_str!("../data/proc_address_580.159.04.tsv");

/// The same for what CUDA 13.1 to 13.5 added, by NVIDIA's headers: no driver of these versions was at hand.
const NEWER: &str = include_str!("../data/proc_address_13.1_to_13.5.tsv");

/// What a question is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Symbol(&'static str),
    NoSuchName,
    TooOld,
}

type Versions = HashMap<(&'static str, bool), Vec<(c_int, &'static str)>>;

fn table() -> &'static Versions {
    static TABLE: OnceLock<Versions> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lacks = env::var("STANDIN_LACKS").unwrap_or_default();
        let mut table = Versions::new();
        for line in MEASURED.lines().skip(1).chain(NEWER.lines().skip(1)) {
            let mut fields = line.split('\t');
            let (Some(name), Some(flags), Some(version), Some(symbol)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if lacks.split(',').any(|lacking| lacking == symbol) {
                continue;
            }
            if let Ok(version) = version.parse() {
                table
                    .entry((name, flags == "2"))
                    .or_default()
                    .push((version, symbol));
            }
        }
        table
    })
}

/// The newest symbol whose first version is not above the one asked for.
pub(crate) fn find(name: &str, version: c_int, per_thread: bool) -> Found {
    let rows = |per_thread| {
        table()
            .get(&(name, per_thread))
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    if rows(false).is_empty() && rows(true).is_empty() {
        return Found::NoSuchName;
    }
    rows(per_thread)
        .iter()
        .filter(|(first, _)| *first <= version)
        .max_by_key(|(first, _)| *first)
        .map_or(Found::TooOld, |(_, symbol)| Found::Symbol(symbol))
}

#[cfg(not(test))]
macro_rules! exports {
    ($($name:literal => $symbol:ident,)*) => {
        /// Address of an export.
        pub(crate) fn address(name: &str) -> usize {
            unsafe extern "C" { $( safe fn $symbol(); )* }
            match name {
                $( $name => $symbol as *const () as usize, )*
                _ => 0,
            }
        }
    };
}
#[cfg(not(test))]
#[allow(
    clashing_extern_declarations,
    reason = "only their addresses are taken"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
#[cfg(not(test))]
pub(crate) use generated::address;

/// In unit tests nothing is exported.
#[cfg(test)]
pub(crate) fn address(name: &str) -> usize {
    name.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the measured table is the answer at its own version, and the row before it just below.
    #[test]
    fn answers_as_the_measured_driver_did() {
        let mut rows = 0;
        for line in MEASURED.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            let version: c_int = fields[2].parse().expect("a version");
            let per_thread = fields[1] == "2";
            assert_eq!(
                find(fields[0], version, per_thread),
                Found::Symbol(leak(fields[3]))
            );
            assert_ne!(
                find(fields[0], version - 1, per_thread),
                Found::Symbol(leak(fields[3]))
            );
            rows += 1;
        }
        assert!(rows > 1000);
        assert_eq!(find("cuMemAlloc_v2", 13_000, false), Found::NoSuchName);
        assert_eq!(find("", 13_000, false), Found::NoSuchName);
        assert_eq!(find("cuMemAllocAsync", 11_010, true), Found::TooOld);
    }

    fn leak(text: &str) -> &'static str {
        MEASURED
            .find(text)
            .map(|at| &MEASURED[at..at + text.len()])
            .expect("it is in the table")
    }
}
