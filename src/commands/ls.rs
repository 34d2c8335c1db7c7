//! `gpushim ls`: which captures there are.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::{csv_error, say_skipped, write_json};
use crate::capture::Capture;
use crate::cli::{self, Format};
use crate::error::Error;
use crate::render;
use crate::render::{plain, units};
use crate::report::fate_text;
use crate::session::{self, Fate};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.ls/1";

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
    devices: u64,
    records: u64,
    overwritten: u64,
    disk_bytes: u64,
}

fn row(capture: &Capture) -> Row {
    use std::os::unix::fs::MetadataExt as _;
    let identity = &capture.identity;
    Row {
        capture: capture.path.display().to_string(),
        pid: identity.pid,
        command: identity.command.join(" "),
        opened: units::wall_utc(identity.opened_realtime_ns),
        opened_realtime_ns: identity.opened_realtime_ns,
        fate: fate_text(Fate::of(capture)),
        devices: capture.tables.devices.len() as u64,
        records: capture.head(),
        overwritten: capture.oldest(),
        disk_bytes: std::fs::metadata(&capture.path).map_or(0, |m| m.blocks() * 512),
    }
}

/// Runs the command.
///
/// # Errors
/// When nothing can be read, or the answer cannot be written.
pub fn main(arguments: &cli::Ls) -> Result<ExitCode, Error> {
    let places: Vec<PathBuf> = if arguments.captures.is_empty() {
        vec![session::directory()]
    } else {
        arguments.captures.clone()
    };
    // A usual directory that is not there yet is an answer like any other: nothing was recorded.
    let (captures, skipped) = session::open(&places)?;
    say_skipped(&skipped);
    let rows: Vec<Row> = captures.iter().map(row).collect();
    match arguments.format {
        Format::Text => {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING).set_header([
                "opened", "pid", "command", "process", "GPUs", "records", "lost", "disk", "capture",
            ]);
            for row in &rows {
                table.add_row([
                    units::wall(row.opened_realtime_ns),
                    row.pid.to_string(),
                    render::keep_start(&plain(&row.command), 40),
                    row.fate.clone(),
                    row.devices.to_string(),
                    units::thousands(row.records),
                    units::thousands(row.overwritten),
                    units::bytes(row.disk_bytes),
                    row.capture.clone(),
                ]);
            }
            for column in [1, 4, 5, 6, 7] {
                if let Some(column) = table.column_mut(column) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            let mut out = render::output();
            for line in table.lines() {
                writeln!(out, "{}", line.trim_end())?;
            }
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
