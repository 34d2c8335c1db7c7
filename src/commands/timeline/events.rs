//! Calls as rows: for a table, and for machines.

use std::collections::HashMap;
use std::io::{self, Write};

use gpushim_abi::effect::{Effect, Record};
use gpushim_abi::layout::slot;
use serde::Serialize;

use crate::capture::{Capture, Tables, symbol};
use crate::ledger::Subject;
use crate::render::{BAD, FAINT, HEADING, keep_end, names, plain, units};
use crate::report::{self, Frame};

/// Columns of a caller that are kept however narrow the terminal is.
const CALLER_MIN: usize = 12;

/// One call, as the JSON and CSV forms have it.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    pid: u32,
    sequence: u64,
    /// Since the capture was opened.
    seconds: f64,
    thread: u32,
    call: String,
    /// Name of the result; "pending" for a call recorded before the driver's answer, which was success unless a later record
    /// takes it back.
    result: String,
    /// The record's own, or that of what was freed.
    device: Option<u8>,
    context: Option<String>,
    address: String,
    /// The call's size argument.
    size: u64,
    /// Bytes that the call gave back, of whatever was born there.
    freed_bytes: u64,
    a: String,
    b: String,
    caller: String,
    /// The program's own line, where there was Python: `FILE:LINE FUNCTION`.
    site: Option<String>,
    /// For a refusal of a call that was recorded before: the sequence number of that record, which is not listed.
    takes_back: Option<u64>,
    nested: bool,
    /// Whether the recorder itself asked the driver.
    observed: bool,
    /// Whether the call is a node of the graph that its stream was captured into.
    captured: bool,
}

/// Makes events of a capture's records.
pub(super) struct Events<'c> {
    capture: &'c Capture,
    /// Callers by stack node: a million calls come from a few hundred places.
    callers: HashMap<u32, Caller>,
}

/// Who made a call.
struct Caller {
    /// Library and offset.
    place: String,
    /// The library alone.
    library: Option<String>,
    /// The program's own line.
    site: Option<Frame>,
    /// Why no line is known.
    note: Option<&'static str>,
}

impl Caller {
    fn of(tables: &Tables, node: u32) -> Self {
        let stack = tables.stack(node);
        Self {
            place: tables.caller(node),
            library: tables.caller_library(node),
            site: stack.site().map(Frame::from),
            note: report::stack_note(&stack),
        }
    }

    /// In a few words, for people.
    fn short(&self) -> String {
        match (&self.site, &self.library, self.note) {
            (Some(site), Some(library), _) => format!("{} · {library}", site.short()),
            (Some(site), None, _) => site.short(),
            (None, Some(_), _) | (None, None, None) => self.place.clone(),
            (None, None, Some(note)) => format!("no line: {note}"),
        }
    }
}

impl<'c> Events<'c> {
    pub(super) fn new(capture: &'c Capture) -> Self {
        Self {
            capture,
            callers: HashMap::new(),
        }
    }

    pub(super) fn event(&mut self, record: &Record, subject: Subject) -> Event {
        let tables = &self.capture.tables;
        let result = if record.is_pending() {
            "pending".to_owned()
        } else {
            names::result(record.result)
        };
        let caller = self.caller(record.stack);
        let (place, site) = (caller.place.clone(), caller.site.as_ref().map(Frame::long));
        Event {
            pid: self.capture.identity.pid,
            sequence: record.sequence,
            seconds: units::seconds_since(record.at_ns, self.capture.identity.opened_monotonic_ns),
            thread: record.thread,
            call: symbol(record.call),
            result,
            device: subject.device,
            context: tables
                .context(record.context)
                .map(|c| format!("{:#x}", c.handle)),
            address: format!("{:#x}", record.address),
            size: record.size,
            freed_bytes: subject.freed,
            a: format!("{:#x}", record.a),
            b: format!("{:#x}", record.b),
            caller: place,
            site,
            takes_back: record.takes_back(),
            nested: record.flags & slot::NESTED != 0,
            observed: record.is_observation(),
            captured: record.flags & slot::CAPTURED != 0,
        }
    }

    fn caller(&mut self, node: u32) -> &Caller {
        self.callers
            .entry(node)
            .or_insert_with(|| Caller::of(&self.capture.tables, node))
    }

    /// The same for people.
    pub(super) fn row(&mut self, record: &Record, subject: Subject) -> Row {
        let event = self.event(record, subject);
        let refused = match (event.takes_back, record.failed()) {
            (Some(_), _) => Some(format!("{}, nothing was done", event.result)),
            (None, true) => Some(event.result),
            (None, false) => None,
        };
        let size = bytes(record, subject).map_or_else(String::new, units::bytes);
        let call = match (record.effect(), event.observed, event.captured) {
            (Effect::PoolAnswered { .. }, true, _) => "(the pool holds)".to_owned(),
            (Effect::GraphAnswered { .. }, true, _) => "(graphs hold)".to_owned(),
            (_, _, true) => format!("{} (captured)", event.call),
            _ => event.call,
        };
        Row {
            cells: [
                format!("{:.6}", event.seconds),
                event.thread.to_string(),
                call,
                event.device.map_or_else(String::new, |d| d.to_string()),
                event.address,
                size,
                plain(&self.caller(record.stack).short()),
            ],
            refused,
        }
    }
}

/// The bytes that a call is about: what was asked for, given back, or answered.
fn bytes(record: &Record, subject: Subject) -> Option<u64> {
    /// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`: this one and the next four are bytes.
    const THRESHOLD: u32 = 4;
    let some = |bytes: u64| (bytes != 0).then_some(bytes);
    match record.effect() {
        Effect::PoolAnswered { attribute, value } | Effect::PoolSet { attribute, value }
            if attribute >= THRESHOLD =>
        {
            Some(value)
        }
        Effect::GraphAnswered { value, .. } => Some(value),
        Effect::DeviceAnswered { free, .. } => Some(free),
        // Here the word is no size.
        Effect::CaptureEnded { .. } => None,
        _ => some(record.size).or(some(subject.freed)),
    }
}

const COLUMNS: usize = 7;
const HEADER: [&str; COLUMNS] = [
    "seconds", "thread", "call", "GPU", "address", "size", "caller",
];
/// Columns of numbers.
const RIGHT: [bool; COLUMNS] = [true, true, false, true, false, true, false];
const THREAD: usize = 1;
const CALLER: usize = COLUMNS - 1;

/// A call's cells.
pub(super) struct Row {
    cells: [String; COLUMNS],
    /// Why the driver refused it: on a line below, since it is rare and long.
    refused: Option<String>,
}

/// Widths that every row measured so far fits in; 0 is no column.
#[derive(Default)]
pub(super) struct Widths([usize; COLUMNS]);

impl Widths {
    pub(super) fn measure(&mut self, row: &Row) {
        for (width, cell) in self.0.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }

    /// Makes rows fit: first without the thread, then with callers that are cut.
    pub(super) fn fit(&mut self, width: usize) {
        for (column, name) in self.0.iter_mut().zip(HEADER) {
            if *column > 0 {
                *column = (*column).max(name.len());
            }
        }
        if self.room(width) < self.0[CALLER] {
            self.0[THREAD] = 0;
        }
        self.0[CALLER] = self.0[CALLER].min(self.room(width).max(CALLER_MIN));
    }

    /// What is left for callers.
    fn room(&self, width: usize) -> usize {
        let others = self.0[..CALLER].iter().filter(|w| **w > 0);
        width.saturating_sub(others.map(|w| w + 2).sum())
    }

    pub(super) fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{FAINT}")?;
        self.line(out, HEADER)?;
        writeln!(out, "{FAINT:#}")
    }

    pub(super) fn row(&self, out: &mut dyn Write, row: &Row) -> io::Result<()> {
        self.line(out, row.cells.each_ref().map(String::as_str))?;
        writeln!(out)?;
        if let Some(why) = &row.refused {
            let indent = self.0[0] + 2;
            writeln!(out, "{:indent$}{BAD}refused: {why}{BAD:#}", "")?;
        }
        Ok(())
    }

    fn line(&self, out: &mut dyn Write, cells: [&str; COLUMNS]) -> io::Result<()> {
        // Blanks are written before the next cell, never at the end of a line.
        let mut blanks = 0;
        let mut first = true;
        for ((cell, width), right) in cells.into_iter().zip(self.0).zip(RIGHT) {
            if width == 0 {
                continue;
            }
            let cell = keep_end(cell, width);
            let room = width - cell.chars().count();
            blanks += if first { 0 } else { 2 } + if right { room } else { 0 };
            first = false;
            if !cell.is_empty() {
                write!(out, "{:blanks$}{cell}", "")?;
                blanks = 0;
            }
            blanks += if right { 0 } else { room };
        }
        Ok(())
    }
}

/// The line above the table.
pub(super) fn heading(out: &mut dyn Write, listed: u64, all: u64) -> io::Result<()> {
    let which = if listed == all {
        format!("all {}", units::thousands(all))
    } else {
        format!(
            "the last {} of {}",
            units::thousands(listed),
            units::thousands(all)
        )
    };
    writeln!(out, "\n{HEADING}Calls{HEADING:#}  {which}")
}
