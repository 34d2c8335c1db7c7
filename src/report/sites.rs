//! Memory by the line that took it: one row for each line, level, kind and device, with the stacks behind it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Frame, class_name, stack_note};
use crate::capture::{Capture, Tables};
use crate::ledger::{Level, SiteBook, SiteKey};
use crate::render::units;

/// Stacks of one row that are given.
const STACKS_MAX: usize = 8;

/// A line that took memory.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// "torch" for PyTorch's blocks, "driver" for what the driver was asked for. Blocks lie inside the driver's memory.
    pub level: &'static str,
    /// What was taken: "block", "linear", "physical", …
    pub space: &'static str,
    /// Device ordinal; none for the host's memory.
    pub device: Option<u8>,
    /// The program's own line.
    pub site: Option<Frame>,
    /// Library and offset of the caller, where no line is known.
    pub caller: String,
    /// The library that asked the driver.
    pub library: Option<String>,
    /// Whether it was taken in a backward pass, for an operation of this line.
    pub in_backward: bool,
    /// Alive, bytes and number.
    pub live_bytes: u64,
    /// See `live_bytes`.
    pub live_count: u64,
    /// Greatest live bytes of the run; the sum over the stacks of the line, where they are several, which it cannot have exceeded.
    pub peak_bytes: u64,
    /// Taken in all, bytes and number.
    pub total_bytes: u64,
    /// See `total_bytes`.
    pub total_count: u64,
    /// First time, seconds.
    pub first_seconds: f64,
    /// Last time, seconds.
    pub last_seconds: f64,
    /// Live bytes at the second of two moments less those at the first, where they were asked for.
    pub growth_bytes: Option<i64>,
    /// Lines that gave it back, the most frequent first.
    pub released_by: Vec<Releaser>,
    /// The stacks behind the line, that with the most live bytes first.
    pub stacks: Vec<StackShare>,
}

/// A line that gave memory back.
#[derive(Clone, Debug, Serialize)]
pub struct Releaser {
    /// The program's own line; none where there was no Python.
    pub site: Option<Frame>,
    /// Library and offset of the caller, where no line is known.
    pub caller: String,
    /// How often.
    pub count: u64,
    /// How much, bytes.
    pub bytes: u64,
    /// When last, seconds.
    pub last_seconds: f64,
}

/// One stack of a line.
#[derive(Clone, Debug, Serialize)]
pub struct StackShare {
    /// Python's frames, innermost first.
    pub frames: Vec<Frame>,
    /// Why there are none, or not all.
    pub note: Option<&'static str>,
    /// The node of PyTorch's autograd graph, in a backward pass.
    pub autograd: Option<String>,
    /// Frames of the operation whose backward it is, where that is proven.
    pub forward: Vec<Frame>,
    /// Callers in libraries, innermost first: library and offset.
    pub native: Vec<String>,
    /// Alive, bytes and number.
    pub live_bytes: u64,
    /// See `live_bytes`.
    pub live_count: u64,
    /// Taken in all.
    pub total_count: u64,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Bytes alive.
    #[default]
    Live,
    /// Greatest bytes alive.
    Peak,
    /// Bytes taken in all.
    Total,
    /// How often something was taken.
    Count,
    /// How much more is alive at the second of two moments than at the first.
    Growth,
}

type Key = (Level, &'static str, Option<u8>, Option<Frame>, String, bool);

/// Rows from the books of sites, largest first.
pub fn rows<'b>(
    capture: &Capture,
    books: impl Iterator<Item = (&'b SiteKey, &'b SiteBook)>,
    order: Order,
) -> Vec<Site> {
    let opened = capture.identity.opened_monotonic_ns;
    let tables = &capture.tables;
    let mut rows: BTreeMap<Key, Site> = BTreeMap::new();
    for (key, book) in books {
        let stack = tables.stack(key.stack);
        let site = stack.site().map(Frame::from);
        let caller = tables.caller(key.stack);
        // Where a line is known the offset of the caller only splits the row.
        let shown = match site {
            Some(_) => tables.caller_library(key.stack).unwrap_or_default(),
            None => caller.clone(),
        };
        let space = key.class.map_or("block", class_name);
        let in_backward = stack.autograd.is_some();
        let id = (
            key.level,
            space,
            key.device,
            site.clone(),
            shown,
            in_backward,
        );
        let row = rows.entry(id).or_insert_with(|| Site {
            level: match key.level {
                Level::Torch => "torch",
                Level::Driver => "driver",
            },
            space,
            device: key.device,
            site,
            caller,
            library: tables.caller_library(key.stack),
            in_backward,
            live_bytes: 0,
            live_count: 0,
            peak_bytes: 0,
            total_bytes: 0,
            total_count: 0,
            first_seconds: f64::INFINITY,
            last_seconds: 0.0,
            growth_bytes: None,
            released_by: Vec::new(),
            stacks: Vec::new(),
        });
        row.live_bytes = row.live_bytes.saturating_add(book.live);
        row.live_count += book.count;
        row.peak_bytes = row.peak_bytes.saturating_add(book.peak);
        row.total_bytes = row.total_bytes.saturating_add(book.total);
        row.total_count += book.allocations;
        row.first_seconds = row
            .first_seconds
            .min(units::seconds_since(book.first_ns, opened));
        row.last_seconds = row
            .last_seconds
            .max(units::seconds_since(book.last_ns, opened));
        for &(node, count, bytes, last_ns) in &book.releasers {
            add_releaser(tables, row, node, (count, bytes), last_ns, opened);
        }
        row.stacks.push(StackShare {
            frames: stack.python.iter().map(Frame::from).collect(),
            note: stack_note(&stack),
            autograd: stack.autograd.as_ref().map(|node| node.class.clone()),
            forward: stack
                .autograd
                .iter()
                .flat_map(|node| node.forward.iter().map(Frame::from))
                .collect(),
            native: stack.native.iter().map(|at| tables.place(*at)).collect(),
            live_bytes: book.live,
            live_count: book.count,
            total_count: book.allocations,
        });
    }
    let mut rows: Vec<Site> = rows.into_values().collect();
    for row in &mut rows {
        row.released_by
            .sort_by_key(|by| std::cmp::Reverse(by.count));
        row.stacks
            .sort_by_key(|share| std::cmp::Reverse((share.live_bytes, share.total_count)));
        row.stacks.truncate(STACKS_MAX);
    }
    sort(&mut rows, order);
    rows
}

/// Sorts rows, largest first.
pub fn sort(rows: &mut [Site], order: Order) {
    rows.sort_by_key(|row| {
        let by = match order {
            Order::Live => i128::from(row.live_bytes),
            Order::Peak => i128::from(row.peak_bytes),
            Order::Total => i128::from(row.total_bytes),
            Order::Count => i128::from(row.total_count),
            Order::Growth => i128::from(row.growth_bytes.unwrap_or(i64::MIN)),
        };
        // Address space is not memory: it comes last however large it is.
        (row.space == "reserved", std::cmp::Reverse(by))
    });
}

fn add_releaser(
    tables: &Tables,
    row: &mut Site,
    node: u32,
    (count, bytes): (u64, u64),
    last_ns: u64,
    opened: u64,
) {
    let site = tables.stack(node).site().map(Frame::from);
    let caller = tables.caller(node);
    let last_seconds = units::seconds_since(last_ns, opened);
    let known = row.released_by.iter_mut().find(|by| match &site {
        Some(_) => by.site == site,
        None => by.site.is_none() && by.caller == caller,
    });
    match known {
        Some(by) => {
            by.count += count;
            by.bytes = by.bytes.saturating_add(bytes);
            by.last_seconds = by.last_seconds.max(last_seconds);
        }
        None => row.released_by.push(Releaser {
            site,
            caller,
            count,
            bytes,
            last_seconds,
        }),
    }
}

impl Site {
    /// Who it is, in a few words: the program's own line and the library, or the caller.
    pub fn who(&self) -> String {
        let library = self.library.as_deref().unwrap_or_default();
        let backward = if self.in_backward { " in backward" } else { "" };
        match &self.site {
            None if self.level == "torch" => {
                let note = self.stacks.first().and_then(|share| share.note);
                format!("no line: {}", note.unwrap_or("unknown"))
            }
            None => self.caller.clone(),
            Some(site) if library.is_empty() => format!("{}{backward}", site.short()),
            Some(site) => format!("{}{backward} · {library}", site.short()),
        }
    }
}
