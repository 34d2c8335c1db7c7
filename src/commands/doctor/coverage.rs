//! `gpushim doctor --coverage`: every function that a driver exports: recorded, deliberately not, or unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use gpushim_abi::hooks::HOOKS;
use serde::Serialize;

use super::driver;
use crate::cli::Format;
use crate::commands::{csv_error, write_json};
use crate::error::Error;
use crate::render::{self, HEADING, units};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.coverage/1";
/// Functions that were looked at and are not recorded, with the reason: those of CUDA 11.4 to 13.5.
const NOT_RECORDED: &str = include_str!("not_recorded.tsv");

/// What becomes of a function's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Unknown,
    Recorded,
    Deliberate,
}

impl State {
    fn text(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Recorded => "recorded",
            Self::Deliberate => "not recorded",
        }
    }
}

/// A function.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) symbol: String,
    pub(super) state: State,
    /// What it does, or why it is not recorded.
    pub(super) why: String,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    library: String,
    recorded: usize,
    deliberate: usize,
    unknown: usize,
    symbols: &'a [Row],
}

/// The functions of a driver, those that nobody has looked at first.
pub(super) fn rows(exported: &BTreeSet<String>) -> Vec<Row> {
    let reasons: BTreeMap<&str, &str> = NOT_RECORDED
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut rows: Vec<Row> = exported
        .iter()
        .filter(|name| driver::is_driver_function(name))
        .map(|name| {
            let hook = HOOKS.iter().find(|hook| hook.symbol == name);
            let (state, why) = match (hook, reasons.get(name.as_str())) {
                (Some(hook), _) => (State::Recorded, hook.doc.trim()),
                (None, Some(why)) => (State::Deliberate, *why),
                (None, None) => (
                    State::Unknown,
                    "newer than this version of gpushim, or not in NVIDIA's headers",
                ),
            };
            Row {
                symbol: name.clone(),
                state,
                why: why.to_owned(),
            }
        })
        .collect();
    rows.sort_by(|a, b| (a.state, &a.symbol).cmp(&(b.state, &b.symbol)));
    rows
}

/// How many are in each state: recorded, deliberately not, unknown.
pub(super) fn counts(rows: &[Row]) -> (usize, usize, usize) {
    let count = |state| rows.iter().filter(|row| row.state == state).count();
    (
        count(State::Recorded),
        count(State::Deliberate),
        count(State::Unknown),
    )
}

/// Shows the table of a library.
///
/// # Errors
/// When the file is no driver, or the answer cannot be written.
pub(super) fn main(library: &Path, format: Format) -> Result<ExitCode, Error> {
    let exported = driver::exports(library);
    if !exported.contains("cuInit") {
        return Err(Error::Usage(format!(
            "{} is no CUDA driver: it does not export cuInit",
            library.display()
        )));
    }
    let rows = rows(&exported);
    let (recorded, deliberate, unknown) = counts(&rows);
    match format {
        Format::Json => write_json(&Document {
            schema: SCHEMA,
            library: library.display().to_string(),
            recorded,
            deliberate,
            unknown,
            symbols: &rows,
        })?,
        Format::Csv => {
            let mut out = csv::Writer::from_writer(std::io::stdout().lock());
            for row in &rows {
                out.serialize(row).map_err(csv_error)?;
            }
            out.flush()?;
        }
        Format::Text => {
            let mut out = render::output();
            writeln!(
                out,
                "{HEADING}{}{HEADING:#}: {}, {recorded} recorded, {deliberate} deliberately not, {unknown} unknown",
                render::plain(&library.display().to_string()),
                units::count(rows.len() as u64, "function", "functions"),
            )?;
            let mut table = Table::new();
            table.load_preset(presets::NOTHING);
            for row in &rows {
                table.add_row([row.symbol.as_str(), row.state.text(), row.why.as_str()]);
            }
            for line in table.lines() {
                writeln!(out, "{}", line.trim_end())?;
            }
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every function of the drivers and headers that were read is in one state; a function is never in two.
    #[test]
    fn every_known_function_has_its_state() {
        let known = include_str!("../../../tests/standin/data/exports_580.159.04.txt");
        let newer = include_str!("../../../tests/standin/data/proc_address_13.1_to_13.5.tsv");
        let names: BTreeSet<String> = known
            .lines()
            .chain(
                newer
                    .lines()
                    .skip(1)
                    .filter_map(|line| line.rsplit('\t').next()),
            )
            .map(str::to_owned)
            .collect();
        let rows = rows(&names);
        assert!(rows.len() > 700);
        let (recorded, _, unknown) = counts(&rows);
        assert_eq!((recorded, unknown), (HOOKS.len(), 0));
        for line in NOT_RECORDED.lines() {
            let (name, why) = line.split_once('\t').expect("a name and a reason");
            assert!(!why.is_empty());
            assert!(HOOKS.iter().all(|hook| hook.symbol != name), "{name}");
        }
    }

    #[test]
    fn a_function_of_a_later_driver_is_unknown() {
        let names = BTreeSet::from(["cuMemAllocTomorrow".to_owned(), "cudbgMain".to_owned()]);
        let rows = rows(&names);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].state, State::Unknown);
    }
}
