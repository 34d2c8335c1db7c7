//! `gpushim timeline`: the memory of each device over time, and the calls.

mod events;

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use gpushim_abi::effect::Record;
use serde::Serialize;

use self::events::{Events, Widths};
use super::{csv_error, say_losses, say_skipped};
use crate::capture::{Capture, Tally};
use crate::cli::{self, Format};
use crate::error::Error;
use crate::ledger::{Ledger, Subject};
use crate::render::{HEADING, WARNING, chart, names, plain, units};
use crate::report::{self, Records};
use crate::session::{Fate, Standing};
use crate::{render, session};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.timeline/1";
const CHART_ROWS: usize = 8;

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
    live_bytes: u64,
    peak_bytes: u64,
    peak_seconds: f64,
    /// Exact at their moments; between two of them the bytes stay what they last were.
    points: Vec<Point>,
}

/// Runs the command.
///
/// # Errors
/// When nothing can be read, or the answer cannot be written.
pub fn main(arguments: &cli::Timeline) -> Result<ExitCode, Error> {
    let (captures, skipped) = session::open(&arguments.input.captures)?;
    say_skipped(&skipped);
    let asked = arguments.input.device.as_deref();
    let chosen: Vec<(&Capture, Option<u8>)> = match asked {
        None => captures.iter().map(|capture| (capture, None)).collect(),
        // Ordinals are a process's own: a UUID may be another number in each, and absent in some.
        Some(asked) => captures
            .iter()
            .filter_map(|capture| Some((capture, Some(ordinal(capture, asked)?))))
            .collect(),
    };
    if let (Some(asked), true) = (asked, chosen.is_empty()) {
        return Err(Error::Usage(format!("no capture has a device {asked}")));
    }
    match arguments.input.format {
        Format::Text => {
            let mut out = BufWriter::new(render::output());
            for (index, (capture, device)) in chosen.into_iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                text(&mut out, capture, device, arguments)?;
            }
            out.flush()?;
        }
        Format::Json => json(&chosen)?,
        Format::Csv => csv(&chosen)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The ordinal that an argument means in a capture.
fn ordinal(capture: &Capture, asked: &str) -> Option<u8> {
    capture
        .tables
        .devices
        .iter()
        .find(|d| names::is_device(asked, d.ordinal, &names::uuid(d.uuid)))
        .map(|d| d.ordinal)
}

/// Whether a call is about the device asked for. What nobody can place, such as a free of something that was born unseen, is
/// kept with any.
fn concerns(subject: Subject, device: Option<u8>) -> bool {
    device.is_none() || subject.device.is_none() || subject.device == device
}

/// Hands every call that concerns `device` to `visit`, with what it was about; the books, and what became of the records.
fn walk(
    capture: &Capture,
    device: Option<u8>,
    mut visit: impl FnMut(&Record, Subject) -> Result<(), Error>,
) -> Result<(Ledger, Records), Error> {
    let mut ledger = Ledger::default();
    let mut failed = None;
    let tally: Tally = capture.records(|record| {
        let subject = ledger.take(record, &capture.tables);
        if failed.is_none() && concerns(subject, device) {
            failed = visit(record, subject).err();
        }
    })?;
    let records = report::records(capture, tally, &ledger);
    failed.map_or(Ok((ledger, records)), Err)
}

fn text(
    out: &mut dyn Write,
    capture: &Capture,
    device: Option<u8>,
    arguments: &cli::Timeline,
) -> Result<(), Error> {
    let width = render::width();
    let keep = if arguments.all { 0 } else { arguments.events };
    let mut last: VecDeque<(Record, Subject)> = VecDeque::new();
    let mut widths = Widths::default();
    let mut rows = Events::new(capture);
    let mut all = 0_u64;
    let (ledger, records) = walk(capture, device, |record, subject| {
        all += 1;
        if arguments.all {
            widths.measure(&rows.row(record, subject));
        } else if keep > 0 {
            if last.len() == keep {
                last.pop_front();
            }
            last.push_back((*record, subject));
        }
        Ok(())
    })?;
    heads(out, capture, device, &ledger, &records, width)?;
    for (record, subject) in &last {
        widths.measure(&rows.row(record, *subject));
    }
    let listed = if arguments.all {
        all
    } else {
        last.len() as u64
    };
    if listed == 0 {
        return Ok(());
    }
    widths.fit(width);
    events::heading(out, listed, all)?;
    widths.header(out)?;
    for (record, subject) in &last {
        widths.row(out, &rows.row(record, *subject))?;
    }
    if arguments.all {
        // Read a second time rather than kept: there may be millions.
        walk(capture, device, |record, subject| {
            Ok(widths.row(out, &rows.row(record, subject))?)
        })?;
    }
    Ok(())
}

/// The line about the process, what is missing, and the charts.
fn heads(
    out: &mut dyn Write,
    capture: &Capture,
    device: Option<u8>,
    ledger: &Ledger,
    records: &Records,
    width: usize,
) -> Result<(), Error> {
    let identity = &capture.identity;
    let standing = Standing::of(capture);
    let opened = identity.opened_monotonic_ns;
    let end = report::end_ns(capture, ledger, standing.until_ns);
    let what = format!(
        "{} · pid {}, {}",
        units::wall(identity.opened_realtime_ns),
        identity.pid,
        report::fate_text(standing.fate)
    );
    report::text::headline(out, "timeline", &identity.command, &what, width)?;
    for loss in report::losses(records) {
        for line in textwrap::wrap(&format!("not exact: {loss}"), width) {
            writeln!(out, "{WARNING}{line}{WARNING:#}")?;
        }
    }
    let shown = ledger
        .devices()
        .iter()
        .filter(|(ordinal, _)| device.is_none_or(|d| d == **ordinal));
    for (ordinal, books) in shown {
        let name = capture
            .tables
            .device(*ordinal)
            .map_or("unknown device", |d| d.name.as_str());
        let last = if standing.fate == Fate::Running {
            "now"
        } else {
            "at the end"
        };
        let peak = if books.peak == 0 {
            "  ".to_owned()
        } else {
            format!(
                "  peak {} at {}, ",
                units::bytes(books.peak),
                units::seconds(units::seconds_since(books.peak_ns, opened))
            )
        };
        writeln!(
            out,
            "\n{HEADING}{}  {}{HEADING:#}{peak}{} {last}",
            report::text::gpu(*ordinal),
            plain(name),
            units::bytes(books.live)
        )?;
        if books.peak == 0 {
            continue;
        }
        let start = report::start_ns(capture, ledger, records.overwritten > 0);
        let columns = books
            .timeline
            .columns(start, end, width.saturating_sub(chart::AXIS_WIDTH));
        let (from, to) = (
            units::seconds_since(start, opened),
            units::seconds_since(end, opened),
        );
        for line in chart::area(&columns, CHART_ROWS, from, to) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The document, written as the records are read: a capture may hold a million of them.
fn json(chosen: &[(&Capture, Option<u8>)]) -> Result<(), Error> {
    let mut out = BufWriter::new(io::stdout().lock());
    write!(out, "{{\"schema\":\"{SCHEMA}\",\"processes\":[")?;
    for (index, (capture, device)) in chosen.iter().enumerate() {
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
        })
        .to_string();
        write!(
            out,
            "{},\"events\":[",
            head.strip_suffix('}').unwrap_or(&head)
        )?;
        let mut rows = Events::new(capture);
        let mut separator = "\n";
        let (ledger, records) = walk(capture, *device, |record, subject| {
            write!(out, "{separator}")?;
            separator = ",\n";
            serde_json::to_writer(&mut out, &rows.event(record, subject))
                .map_err(|e| Error::Output(e.into()))
        })?;
        let opened = identity.opened_monotonic_ns;
        let courses: Vec<Course> = ledger
            .devices()
            .iter()
            .filter(|(ordinal, _)| device.is_none_or(|d| d == **ordinal))
            .map(|(ordinal, books)| Course {
                ordinal: *ordinal,
                uuid: capture
                    .tables
                    .device(*ordinal)
                    .map_or_else(|| "unknown".to_owned(), |d| names::uuid(d.uuid)),
                live_bytes: books.live,
                peak_bytes: books.peak,
                peak_seconds: if books.peak == 0 {
                    0.0
                } else {
                    units::seconds_since(books.peak_ns, opened)
                },
                points: books
                    .timeline
                    .buckets()
                    .map(|bucket| Point {
                        seconds: units::seconds_since(bucket.first_ns, opened),
                        least_bytes: bucket.least,
                        greatest_bytes: bucket.greatest,
                        last_bytes: bucket.last,
                    })
                    .collect(),
            })
            .collect();
        let losses = report::losses(&records);
        let tail = serde_json::json!({
            "exact": losses.is_empty(),
            "losses": losses,
            "records": records,
            "devices": courses,
        })
        .to_string();
        write!(out, "\n],{}", tail.strip_prefix('{').unwrap_or(&tail))?;
    }
    writeln!(out, "]}}")?;
    out.flush()?;
    Ok(())
}

fn csv(chosen: &[(&Capture, Option<u8>)]) -> Result<(), Error> {
    let mut out = csv::Writer::from_writer(io::stdout().lock());
    for (capture, device) in chosen {
        let mut rows = Events::new(capture);
        let (_, records) = walk(capture, *device, |record, subject| {
            out.serialize(rows.event(record, subject))
                .map_err(csv_error)
        })?;
        say_losses(capture.identity.pid, &report::losses(&records));
    }
    out.flush()?;
    Ok(())
}
