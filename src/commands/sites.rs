//! `gpushim sites`: which lines took the memory, and which gave it back.

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use super::{csv_error, say_losses, say_skipped, write_json};
use crate::capture::Capture;
use crate::cli::{self, Format};
use crate::error::Error;
use crate::ledger::{Ledger, Level, SiteBook, SiteKey};
use crate::render::{FAINT, HEADING, keep_end, plain, units};
use crate::report::moment::{self, Moment};
use crate::report::sites::{self, Order, Site};
use crate::report::{self, Frame};
use crate::{render, session};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.sites/1";
/// Rows that are shown unless all are asked for.
const ROWS_SHOWN: usize = 15;
/// Frames of a stack that are shown below a row.
const FRAMES_SHOWN: usize = 6;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    processes: Vec<Process>,
}

#[derive(Serialize)]
struct Process {
    pid: u32,
    command: Vec<String>,
    exact: bool,
    losses: Vec<String>,
    /// What the figures are about.
    about: String,
    sites: Vec<Site>,
}

/// Runs the command.
///
/// # Errors
/// When nothing can be read, a moment is not there, or the answer cannot be written.
pub fn main(arguments: &cli::Sites) -> Result<ExitCode, Error> {
    let (captures, skipped) = session::open(&arguments.input.captures)?;
    say_skipped(&skipped);
    let mut processes = Vec::new();
    for capture in &captures {
        processes.push(process(capture, arguments)?);
    }
    match arguments.input.format {
        Format::Text => {
            let mut out = render::output();
            for (process, capture) in processes.iter().zip(&captures) {
                text(&mut out, process, capture, arguments, render::width())?;
            }
            out.flush()?;
        }
        Format::Json => write_json(&Document {
            schema: SCHEMA,
            processes,
        })?,
        Format::Csv => csv(&processes)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn process(capture: &Capture, arguments: &cli::Sites) -> Result<Process, Error> {
    let named: Vec<&Moment> = [&arguments.from, &arguments.to, &arguments.alive_at]
        .into_iter()
        .flatten()
        .collect();
    let phases = moment::phases(capture, &named)?;
    let resolve = |moment: &Option<Moment>| match moment {
        Some(moment) => moment.at_ns(capture, &phases).map(Some),
        None => Ok(None),
    };
    let (from, to) = (resolve(&arguments.from)?, resolve(&arguments.to)?);
    let until = resolve(&arguments.alive_at)?;
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(Error::Usage("--from is after --to".to_owned()));
    }
    let mut ledger = Ledger::default();
    let mut whole = Ledger::default();
    let mut at_from: Option<HashMap<SiteKey, u64>> = None;
    let mut at_to: Option<HashMap<SiteKey, u64>> = None;
    let live = |ledger: &Ledger| {
        let books = ledger.sites().iter();
        books.map(|(key, book)| (*key, book.live)).collect()
    };
    let tally = capture.records(|record| {
        if from.is_some_and(|from| record.at_ns > from) && at_from.is_none() {
            at_from = Some(live(&ledger));
        }
        if to.is_some_and(|to| record.at_ns > to) && at_to.is_none() {
            at_to = Some(live(&ledger));
        }
        // Of the losses the whole record is asked.
        whole.take(record, &capture.tables);
        if until.is_none_or(|until| record.at_ns <= until) {
            ledger.take(record, &capture.tables);
        }
    })?;
    let now = live(&ledger);
    let at_to: HashMap<SiteKey, u64> = at_to.unwrap_or(now);
    let window = match (from, to) {
        (None, None) => None,
        (from, to) => Some(from.unwrap_or(0)..to.unwrap_or(u64::MAX)),
    };
    let books: HashMap<SiteKey, SiteBook> = match &window {
        None => ledger.sites().clone(),
        Some(window) => born_in(&ledger, window),
    };
    let wanted = |key: &SiteKey| {
        arguments.level.is_none_or(|level| level.is(key.level))
            && is_on(capture, arguments.input.device.as_deref(), key.device)
    };
    let all_keys = at_from.iter().flat_map(HashMap::keys).copied();
    let mut sites = if arguments.sort == Order::Growth {
        // What shrank to nothing is a row too.
        let at_from = at_from.clone().unwrap_or_default();
        let keys: std::collections::HashSet<SiteKey> =
            ledger.sites().keys().copied().chain(all_keys).collect();
        let none = SiteBook::default();
        let mut grown: Vec<Site> = Vec::new();
        for key in keys.iter().filter(|key| wanted(key)) {
            let book = ledger.sites().get(key).unwrap_or(&none);
            let growth = i128::from(at_to.get(key).copied().unwrap_or(0))
                - i128::from(at_from.get(key).copied().unwrap_or(0));
            for mut row in sites::rows(capture, std::iter::once((key, book)), Order::Live) {
                row.growth_bytes = i64::try_from(growth).ok();
                grown.push(row);
            }
        }
        merged(grown)
    } else {
        sites::rows(
            capture,
            books.iter().filter(|(key, _)| wanted(key)),
            arguments.sort,
        )
    };
    sites::sort(&mut sites, arguments.sort);
    if arguments.alive_at.is_some() || window.is_some() && arguments.sort != Order::Growth {
        sites.retain(|site| site.live_count > 0);
    }
    let losses = report::losses(&report::records(capture, tally, &whole));
    Ok(Process {
        pid: capture.identity.pid,
        command: capture.identity.command.clone(),
        exact: losses.is_empty(),
        losses,
        about: about(arguments),
        sites,
    })
}

/// Rows of the same line put together: growth is counted by stack.
fn merged(rows: Vec<Site>) -> Vec<Site> {
    let mut merged: Vec<Site> = Vec::new();
    for row in rows {
        let same = merged.iter_mut().find(|other| {
            (
                other.level,
                other.space,
                other.device,
                &other.site,
                other.in_backward,
            ) == (row.level, row.space, row.device, &row.site, row.in_backward)
                && (row.site.is_some() && other.library == row.library
                    || other.caller == row.caller)
        });
        let Some(other) = same else {
            merged.push(row);
            continue;
        };
        other.live_bytes = other.live_bytes.saturating_add(row.live_bytes);
        other.live_count += row.live_count;
        other.peak_bytes = other.peak_bytes.saturating_add(row.peak_bytes);
        other.total_bytes = other.total_bytes.saturating_add(row.total_bytes);
        other.total_count += row.total_count;
        other.first_seconds = other.first_seconds.min(row.first_seconds);
        other.last_seconds = other.last_seconds.max(row.last_seconds);
        other.growth_bytes = match (other.growth_bytes, row.growth_bytes) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        other.stacks.extend(row.stacks);
        other.released_by.extend(row.released_by);
    }
    merged
}

/// What was born in a window and is alive, by site.
fn born_in(ledger: &Ledger, window: &std::ops::Range<u64>) -> HashMap<SiteKey, SiteBook> {
    let mut books: HashMap<SiteKey, SiteBook> = HashMap::new();
    let mut add = |key: SiteKey, size: u64, born_ns: u64| {
        if !window.contains(&born_ns) {
            return;
        }
        let book = books.entry(key).or_insert_with(|| SiteBook {
            first_ns: born_ns,
            releasers: ledger
                .sites()
                .get(&key)
                .map(|book| book.releasers.clone())
                .unwrap_or_default(),
            ..SiteBook::default()
        });
        book.live = book.live.saturating_add(size);
        book.count += 1;
        book.peak = book.live;
        book.total = book.live;
        book.allocations = book.count;
        book.first_ns = book.first_ns.min(born_ns);
        book.last_ns = book.last_ns.max(born_ns);
    };
    for block in ledger.blocks() {
        add(block.site(), block.size, block.born_ns);
    }
    for object in ledger.alive() {
        if let Some(key) = object.site() {
            add(key, object.size, object.born_ns);
        }
    }
    books
}

/// Whether a site is on the device that was asked for.
fn is_on(capture: &Capture, asked: Option<&str>, device: Option<u8>) -> bool {
    let Some(asked) = asked else {
        return true;
    };
    device.is_some_and(|ordinal| {
        let uuid = capture
            .tables
            .device(ordinal)
            .map_or_else(String::new, |device| render::names::uuid(device.uuid));
        render::names::is_device(asked, ordinal, &uuid)
    })
}

fn about(arguments: &cli::Sites) -> String {
    let mut parts = Vec::new();
    match (&arguments.from, &arguments.to) {
        (None, None) => {}
        (Some(from), None) => parts.push(format!("taken after {from}")),
        (None, Some(to)) => parts.push(format!("taken before {to}")),
        (Some(from), Some(to)) => parts.push(format!("taken between {from} and {to}")),
    }
    if arguments.sort == Order::Growth {
        let name = |moment: &Option<Moment>, without: &str| {
            moment
                .as_ref()
                .map_or_else(|| without.to_owned(), Moment::to_string)
        };
        parts = vec![format!(
            "growth from {} to {}",
            name(&arguments.from, "the beginning"),
            name(&arguments.to, "the end")
        )];
    }
    if let Some(at) = &arguments.alive_at {
        parts.push(format!("alive at {at}"));
    }
    if parts.is_empty() {
        "the whole run".to_owned()
    } else {
        plain(&parts.join(", "))
    }
}

fn text(
    out: &mut dyn Write,
    process: &Process,
    capture: &Capture,
    arguments: &cli::Sites,
    width: usize,
) -> io::Result<()> {
    let what = format!(
        "{} · pid {} · {}",
        units::wall(capture.identity.opened_realtime_ns),
        process.pid,
        process.about
    );
    report::text::headline(out, "sites", &process.command, &what, width)?;
    for loss in &process.losses {
        writeln!(out, "not exact: {loss}")?;
    }
    for (level, title) in [
        ("torch", "PyTorch's blocks, by line"),
        ("driver", "Driver allocations, by line"),
    ] {
        let rows: Vec<&Site> = process.sites.iter().filter(|s| s.level == level).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(out, "\n{HEADING}{title}{HEADING:#}")?;
        let shown = if arguments.all {
            rows.len()
        } else {
            ROWS_SHOWN.min(rows.len())
        };
        table(out, &rows[..shown], arguments, width)?;
        if shown < rows.len() {
            writeln!(
                out,
                "  {} (--all shows them)",
                units::count((rows.len() - shown) as u64, "more line", "more lines")
            )?;
        }
    }
    if process.sites.is_empty() {
        writeln!(out, "\nnothing was taken")?;
    }
    Ok(())
}

/// A signed number of bytes: what grew and what shrank is told apart.
fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "+" };
    format!("{sign}{}", units::bytes(bytes.unsigned_abs()))
}

fn table(
    out: &mut dyn Write,
    rows: &[&Site],
    arguments: &cli::Sites,
    width: usize,
) -> io::Result<()> {
    let grows = arguments.sort == Order::Growth;
    let mut heads = vec!["live", "count", "peak", "taken", "times"];
    if grows {
        heads.insert(0, "growth");
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|site| {
            let mut cells = vec![
                units::bytes(site.live_bytes),
                units::thousands(site.live_count),
                units::bytes(site.peak_bytes),
                units::bytes(site.total_bytes),
                units::thousands(site.total_count),
            ];
            if grows {
                cells.insert(0, signed(site.growth_bytes.unwrap_or(0)));
            }
            cells
        })
        .collect();
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let widest = cells.iter().map(|row| row[at].chars().count()).max();
            widest.unwrap_or(0).max(head.len())
        })
        .collect();
    write!(out, " {FAINT}")?;
    for (head, width) in heads.iter().zip(&widths) {
        write!(out, " {head:>width$} ")?;
    }
    writeln!(out, " line{FAINT:#}")?;
    let left: usize = 2 + widths.iter().map(|width| width + 2).sum::<usize>();
    let room = width.saturating_sub(left).max(12);
    for (site, row) in rows.iter().zip(&cells) {
        write!(out, " ")?;
        for (cell, width) in row.iter().zip(&widths) {
            write!(out, " {cell:>width$} ")?;
        }
        writeln!(out, " {}", keep_end(&plain(&site.who()), room))?;
        if let Some(by) = site.released_by.first() {
            let line = by.site.as_ref().map_or(by.caller.clone(), Frame::short);
            let text = format!(
                "{} released by {}",
                units::thousands(site.released_by.iter().map(|by| by.count).sum()),
                plain(&line)
            );
            writeln!(out, "{:left$}{FAINT}{}{FAINT:#}", "", keep_end(&text, room))?;
        }
        if arguments.stacks {
            stack(out, site, left, room)?;
        }
    }
    Ok(())
}

/// The stack with the most of a row, without the frames that only pass a call on.
fn stack(out: &mut dyn Write, site: &Site, left: usize, room: usize) -> io::Result<()> {
    let Some(share) = site.stacks.first() else {
        return Ok(());
    };
    let mut lines: Vec<String> = share.native.iter().map(|at| format!("in {at}")).collect();
    if let Some(class) = &share.autograd {
        lines.push(format!("backward of {class}"));
        lines.extend(
            share
                .forward
                .iter()
                .map(|f| format!("forward {}", f.long())),
        );
        lines.push("called by".to_owned());
    }
    lines.extend(share.frames.iter().map(Frame::long));
    lines.extend(share.note.map(str::to_owned));
    for line in lines.iter().take(FRAMES_SHOWN) {
        writeln!(
            out,
            "{:left$}{FAINT}{}{FAINT:#}",
            "",
            keep_end(&plain(line), room)
        )?;
    }
    Ok(())
}

fn csv(processes: &[Process]) -> Result<(), Error> {
    let mut out = csv::Writer::from_writer(std::io::stdout().lock());
    out.write_record([
        "pid",
        "level",
        "space",
        "device",
        "file",
        "line",
        "function",
        "caller",
        "in_backward",
        "live_bytes",
        "live_count",
        "peak_bytes",
        "total_bytes",
        "total_count",
        "first_seconds",
        "last_seconds",
        "growth_bytes",
    ])
    .map_err(csv_error)?;
    for process in processes {
        say_losses(process.pid, &process.losses);
        for site in &process.sites {
            let frame = site.site.clone().unwrap_or_default();
            out.write_record([
                process.pid.to_string(),
                site.level.to_owned(),
                site.space.to_owned(),
                site.device
                    .map_or_else(String::new, |device| device.to_string()),
                plain(&frame.file),
                frame.line.to_string(),
                plain(&frame.function),
                plain(&site.caller),
                site.in_backward.to_string(),
                site.live_bytes.to_string(),
                site.live_count.to_string(),
                site.peak_bytes.to_string(),
                site.total_bytes.to_string(),
                site.total_count.to_string(),
                site.first_seconds.to_string(),
                site.last_seconds.to_string(),
                site.growth_bytes
                    .map_or_else(String::new, |growth| growth.to_string()),
            ])
            .map_err(csv_error)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// A level, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Asked {
    /// PyTorch's blocks.
    Torch,
    /// Allocations of the driver's.
    Driver,
}

impl Asked {
    fn is(self, level: Level) -> bool {
        matches!(
            (self, level),
            (Self::Torch, Level::Torch) | (Self::Driver, Level::Driver)
        )
    }
}
