//! `gpushim ls`: which captures there are.

use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use gpushim_abi::layout::Counter;
use serde::Serialize;

use super::{csv_error, say_skipped, write_json};
use crate::capture::Capture;
use crate::cli::{self, Format};
use crate::error::Error;
use crate::render::{self, HEADING, names, plain, units};
use crate::report::fate_text;
use crate::report::text::command_line;
use crate::session::{self, Fate, Standing};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.ls/1";
/// Columns of a command that are shown.
const COMMAND_MAX: usize = 60;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    captures: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    capture: String,
    pid: u32,
    command: String,
    opened: String,
    #[serde(skip)]
    opened_realtime_ns: u64,
    fate: String,
    #[serde(skip)]
    short_fate: String,
    /// Seconds from the opening of the capture to the end of the process, or to now; empty where it is not known.
    seconds: Option<f64>,
    devices: u64,
    records: u64,
    overwritten: u64,
    dropped: u64,
    /// What the file takes on its disk, less than its length.
    disk_bytes: u64,
}

impl Row {
    /// Records that are not there. What was dropped before the oldest one is among the overwritten.
    fn lost(&self) -> u64 {
        if self.overwritten > 0 {
            self.overwritten
        } else {
            self.dropped
        }
    }
}

fn row(capture: &Capture) -> Row {
    let identity = &capture.identity;
    let standing = Standing::of(capture);
    let dropped = [
        Counter::SlotBusy,
        Counter::RingNotReady,
        Counter::WhileOpening,
    ];
    Row {
        capture: capture.path.display().to_string(),
        pid: identity.pid,
        command: command_line(&identity.command),
        opened: units::wall_utc(identity.opened_realtime_ns),
        opened_realtime_ns: identity.opened_realtime_ns,
        fate: fate_text(standing.fate),
        short_fate: short_fate(standing.fate),
        seconds: standing
            .until_ns
            .map(|until| units::seconds_since(until, identity.opened_monotonic_ns)),
        devices: capture.tables.devices.len() as u64,
        records: capture.head(),
        overwritten: capture.oldest(),
        dropped: dropped.into_iter().fold(0, |sum: u64, which| {
            sum.saturating_add(capture.counter(which))
        }),
        disk_bytes: std::fs::metadata(&capture.path).map_or(0, |m| m.blocks() * 512),
    }
}

/// How a process ended, in a word.
fn short_fate(fate: Fate) -> String {
    match fate {
        Fate::Running => "running".to_owned(),
        Fate::Exited => "exited".to_owned(),
        Fate::Signal(signal) => names::signal(signal),
        Fate::Status(status) => format!("status {status}"),
        Fate::Gone => "no exit".to_owned(),
        Fate::Elsewhere | Fate::OtherNamespace => "unknown".to_owned(),
    }
}

/// Runs the command.
///
/// # Errors
/// When nothing can be read, or the answer cannot be written.
pub fn main(arguments: &cli::Ls) -> Result<ExitCode, Error> {
    let (captures, skipped) = if arguments.captures.is_empty() {
        session::everything()?
    } else {
        session::open(&arguments.captures)?
    };
    say_skipped(&skipped);
    let rows: Vec<Row> = captures.iter().map(row).collect();
    match arguments.format {
        Format::Text => {
            let mut out = render::output();
            text(&mut out, &rows)?;
            out.flush()?;
        }
        Format::Json => write_json(&Document {
            schema: SCHEMA,
            captures: rows,
        })?,
        Format::Csv => {
            let mut out = csv::Writer::from_writer(std::io::stdout().lock());
            for row in rows {
                out.serialize(row).map_err(csv_error)?;
            }
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A table; below each command the file, under its directory's name in the first line where that is one.
fn text(out: &mut dyn Write, rows: &[Row]) -> Result<(), Error> {
    let folder = |row: &Row| Path::new(&row.capture).parent().map(Path::to_owned);
    let one_folder = rows.first().and_then(folder);
    let one_folder =
        one_folder.filter(|one| rows.iter().all(|row| folder(row).as_ref() == Some(one)));
    let disk = rows
        .iter()
        .fold(0, |sum: u64, row| sum.saturating_add(row.disk_bytes));
    writeln!(
        out,
        "{HEADING}{}{HEADING:#}{}, {} on disk",
        units::count(rows.len() as u64, "capture", "captures"),
        one_folder.as_ref().map_or_else(String::new, |one| format!(
            " in {}",
            plain(&one.display().to_string())
        )),
        units::bytes(disk)
    )?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "opened",
        "pid",
        "process",
        "GPUs",
        "records",
        "lost",
        "disk",
        "command, file",
    ]);
    for row in rows {
        let path = Path::new(&row.capture);
        let file = match (&one_folder, path.file_name()) {
            (Some(_), Some(name)) => name.to_string_lossy().into_owned(),
            _ => row.capture.clone(),
        };
        table.add_row([
            units::wall(row.opened_realtime_ns),
            row.pid.to_string(),
            row.short_fate.clone(),
            row.devices.to_string(),
            units::thousands(row.records),
            units::thousands(row.lost()),
            units::bytes(row.disk_bytes),
            format!(
                "{}\n{}",
                render::keep_start(&row.command, COMMAND_MAX),
                plain(&file)
            ),
        ]);
    }
    for column in [1, 3, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
