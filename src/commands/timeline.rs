//! `gpushim timeline`: the memory of each device over time, and the calls.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use gpushim_abi::effect::Record;
use gpushim_abi::layout::slot;
use serde::Serialize;

use super::{csv_error, say_skipped};
use crate::capture::{Capture, symbol};
use crate::cli::{self, Format};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::render::chart;
use crate::render::{HEADING, names, plain, units};
use crate::{render, session};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.timeline/1";
const CHART_ROWS: usize = 8;

/// One call, as it is listed.
#[derive(Debug, Serialize)]
struct Event {
    pid: u32,
    sequence: u64,
    seconds: f64,
    thread: u32,
    call: String,
    /// Name of the result; "pending" for a call recorded before the driver's answer, which was success.
    result: String,
    device: Option<u8>,
    context: Option<String>,
    address: String,
    size: u64,
    a: String,
    b: String,
    caller: String,
    /// For a refusal of a call that was recorded before: the sequence number of that record.
    takes_back: Option<u64>,
    nested: bool,
}

#[derive(Serialize)]
struct Point {
    seconds: f64,
    least_bytes: u64,
    greatest_bytes: u64,
    last_bytes: u64,
}

#[derive(Serialize)]
struct Course {
    ordinal: u8,
    uuid: String,
    peak_bytes: u64,
    peak_seconds: f64,
    points: Vec<Point>,
}

fn event(capture: &Capture, record: &Record) -> Event {
    let tables = &capture.tables;
    let result = if record.is_pending() {
        "pending".to_owned()
    } else {
        names::result(record.result)
    };
    Event {
        pid: capture.identity.pid,
        sequence: record.sequence,
        seconds: units::seconds_since(record.at_ns, capture.identity.opened_monotonic_ns),
        thread: record.thread,
        call: symbol(record.call),
        result,
        device: (record.device != slot::DEVICE_UNKNOWN).then_some(record.device),
        context: tables
            .context(record.context)
            .map(|c| format!("{:#x}", c.handle)),
        address: format!("{:#x}", record.address),
        size: record.size,
        a: format!("{:#x}", record.a),
        b: format!("{:#x}", record.b),
        caller: tables.caller(record.stack),
        takes_back: record.takes_back(),
        nested: record.flags & slot::NESTED != 0,
    }
}

/// Whether a record is about the device asked for; frees carry none, and are kept with any.
fn concerns(record: &Record, device: Option<u8>) -> bool {
    device.is_none_or(|d| record.device == d || record.device == slot::DEVICE_UNKNOWN)
}

/// The ordinal that an argument means in a capture.
fn ordinal(capture: &Capture, device: Option<&str>) -> Result<Option<u8>, Error> {
    let Some(text) = device else {
        return Ok(None);
    };
    let by_uuid = |d: &&crate::capture::Device| {
        let uuid = names::uuid(d.uuid);
        uuid.starts_with(text) || uuid.trim_start_matches("GPU-").starts_with(text)
    };
    text.parse()
        .ok()
        .or_else(|| {
            capture
                .tables
                .devices
                .iter()
                .find(by_uuid)
                .map(|d| d.ordinal)
        })
        .map(Some)
        .ok_or_else(|| Error::Usage(format!("no capture has a device {text}")))
}

/// Runs the command.
///
/// # Errors
/// When nothing can be read, or the answer cannot be written.
pub fn main(arguments: &cli::Timeline) -> Result<ExitCode, Error> {
    let (captures, skipped) = session::open(&arguments.input.captures)?;
    say_skipped(&skipped);
    let device = arguments.input.device.as_deref();
    match arguments.input.format {
        Format::Text => {
            let mut out = render::output();
            for (index, capture) in captures.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                text(&mut out, capture, ordinal(capture, device)?, arguments)?;
            }
            out.flush()?;
        }
        Format::Json => json(&captures, device)?,
        Format::Csv => csv(&captures, device)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(
    out: &mut dyn Write,
    capture: &Capture,
    device: Option<u8>,
    arguments: &cli::Timeline,
) -> Result<(), Error> {
    let mut ledger = Ledger::default();
    let mut last: VecDeque<Record> = VecDeque::new();
    let keep = if arguments.all {
        usize::MAX
    } else {
        arguments.events
    };
    let mut concerned = 0_u64;
    let tally = capture.records(|record| {
        ledger.take(record, &capture.tables);
        if concerns(record, device) {
            concerned += 1;
            last.push_back(*record);
            if last.len() > keep {
                last.pop_front();
            }
        }
    })?;
    let width = render::width();
    let opened = capture.identity.opened_monotonic_ns;
    let (_, end) = ledger.span_ns().unwrap_or((opened, opened));
    writeln!(
        out,
        "{HEADING}gpushim timeline · {}{HEADING:#} · pid {}, {}",
        render::keep_start(
            &plain(&capture.identity.command.join(" ")),
            width.saturating_sub(50).max(24)
        ),
        capture.identity.pid,
        units::wall(capture.identity.opened_realtime_ns),
    )?;
    if tally.overwritten > 0 {
        writeln!(
            out,
            "{}the first {} were overwritten: the chart begins with the oldest record, at 0{:#}",
            render::WARNING,
            units::count(tally.overwritten, "record", "records"),
            render::WARNING
        )?;
    }
    for (ordinal, books) in ledger.devices() {
        if device.is_some_and(|d| d != *ordinal) {
            continue;
        }
        let name = capture
            .tables
            .device(*ordinal)
            .map_or("unknown device", |d| d.name.as_str());
        writeln!(
            out,
            "\n{HEADING}GPU {ordinal}  {}{HEADING:#}  peak {} at {}, {} at the end",
            plain(name),
            units::bytes(books.peak),
            if books.peak == 0 {
                "no time".to_owned()
            } else {
                units::moment(books.peak_ns, opened)
            },
            units::bytes(books.live)
        )?;
        let columns = books
            .timeline
            .columns(opened, end, width.saturating_sub(12));
        for line in chart::area(&columns, CHART_ROWS, 0.0, units::seconds_since(end, opened)) {
            writeln!(out, "{line}")?;
        }
    }
    if last.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{HEADING}Calls{HEADING:#}  {} of {}",
        if arguments.all {
            "all".to_owned()
        } else {
            format!("the last {}", last.len())
        },
        units::thousands(concerned)
    )?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "seconds", "thread", "call", "result", "GPU", "address", "size", "caller",
    ]);
    for record in &last {
        let event = event(capture, record);
        table.add_row([
            format!("{:.6}", event.seconds),
            event.thread.to_string(),
            event.call,
            match (event.result.as_str(), event.takes_back) {
                ("pending" | "SUCCESS", None) => String::new(),
                (name, None) => name.to_owned(),
                (name, Some(_)) => format!("{name}, not done"),
            },
            event.device.map_or_else(String::new, |d| d.to_string()),
            event.address,
            if event.size == 0 {
                String::new()
            } else {
                units::bytes(event.size)
            },
            plain(&event.caller),
        ]);
    }
    for column in [0, 1, 4, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The document, written as the records are read: a capture may hold a million of them.
fn json(captures: &[Capture], device: Option<&str>) -> Result<(), Error> {
    let mut out = BufWriter::new(io::stdout().lock());
    write!(out, "{{\"schema\":\"{SCHEMA}\",\"processes\":[")?;
    for (index, capture) in captures.iter().enumerate() {
        let wanted = ordinal(capture, device)?;
        if index > 0 {
            write!(out, ",")?;
        }
        let identity = &capture.identity;
        let head = serde_json::json!({
            "capture": capture.path.display().to_string(),
            "pid": identity.pid,
            "command": identity.command,
            "opened": units::wall_utc(identity.opened_realtime_ns),
            "opened_monotonic_ns": identity.opened_monotonic_ns,
        });
        let head = head.to_string();
        write!(out, "{},\"events\":[", head.trim_end_matches('}'))?;
        let mut ledger = Ledger::default();
        let mut first = true;
        let mut failed = None;
        let tally = capture.records(|record| {
            ledger.take(record, &capture.tables);
            if failed.is_none() && concerns(record, wanted) {
                let written = write!(out, "{}", if first { "\n" } else { ",\n" })
                    .and_then(|()| Ok(serde_json::to_writer(&mut out, &event(capture, record))?));
                failed = written.err();
                first = false;
            }
        })?;
        if let Some(error) = failed {
            return Err(Error::Output(error));
        }
        let opened = identity.opened_monotonic_ns;
        let courses: Vec<Course> = ledger
            .devices()
            .iter()
            .filter(|(ordinal, _)| wanted.is_none_or(|d| d == **ordinal))
            .map(|(ordinal, books)| Course {
                ordinal: *ordinal,
                uuid: capture
                    .tables
                    .device(*ordinal)
                    .map_or_else(String::new, |d| names::uuid(d.uuid)),
                peak_bytes: books.peak,
                peak_seconds: if books.peak == 0 {
                    0.0
                } else {
                    units::seconds_since(books.peak_ns, opened)
                },
                points: books
                    .timeline
                    .buckets()
                    .map(|(at, bucket)| Point {
                        seconds: units::seconds_since(at, opened),
                        least_bytes: bucket.least,
                        greatest_bytes: bucket.greatest,
                        last_bytes: bucket.last,
                    })
                    .collect(),
            })
            .collect();
        write!(
            out,
            "],\n\"overwritten\":{},\"dropped\":{},\"devices\":",
            tally.overwritten, tally.dropped
        )?;
        serde_json::to_writer(&mut out, &courses).map_err(io::Error::from)?;
        write!(out, "}}")?;
    }
    writeln!(out, "]}}")?;
    out.flush()?;
    Ok(())
}

fn csv(captures: &[Capture], device: Option<&str>) -> Result<(), Error> {
    let mut out = csv::Writer::from_writer(io::stdout().lock());
    for capture in captures {
        let wanted = ordinal(capture, device)?;
        let mut failed = None;
        capture.records(|record| {
            if failed.is_none() && concerns(record, wanted) {
                failed = out.serialize(event(capture, record)).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(csv_error(error));
        }
    }
    out.flush()?;
    Ok(())
}
