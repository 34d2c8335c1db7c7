//! What a program says of its own phases: marks, and ranges of NVTX.
//!
//! A range lasts from its beginning to its end. A mark lasts until the next mark: people write one at the head of each part.

use std::collections::HashMap;

use gpushim_abi::effect::Record;
use gpushim_abi::events::Event;

use crate::capture::Tables;

/// Phases that are kept; a program that marks every step for a month must not cost the reader its memory.
const PHASES_MAX: usize = 1 << 20;

/// A part of the run that the program named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// NVTX domain, empty for the usual one.
    pub domain: String,
    /// Beginning, CLOCK_MONOTONIC ns.
    pub from_ns: u64,
    /// End; `None` while it lasts.
    pub to_ns: Option<u64>,
    /// Thread that said so.
    pub thread: u32,
    /// Whether it is a mark, which the next mark ends.
    pub is_mark: bool,
    /// Ranges of the same thread that it lies in.
    pub depth: u32,
}

/// The phases of a process, in order of beginning.
#[derive(Debug, Default)]
pub(super) struct Phases {
    all: Vec<Phase>,
    lost: u64,
    last_mark: Option<usize>,
    /// By thread and domain, the ranges that are open; `None` for one that was not kept.
    open: HashMap<(u32, u64), Vec<Option<usize>>>,
    /// By id.
    started: HashMap<u64, Option<usize>>,
}

impl Phases {
    pub(super) fn take(&mut self, record: &Record, event: Event, tables: &Tables) {
        let at_ns = record.at_ns;
        match event {
            Event::Mark => {
                let index = self.begin(record, tables, 0, true);
                if let Some(last) = self.last_mark {
                    self.end(Some(last), at_ns);
                }
                self.last_mark = index;
            }
            Event::RangePushed => {
                let open = self.open.entry((record.thread, record.b)).or_default();
                let depth = open.len() as u32;
                let index = self.begin(record, tables, depth, false);
                self.open
                    .entry((record.thread, record.b))
                    .or_default()
                    .push(index);
            }
            Event::RangePopped => {
                let open = self.open.get_mut(&(record.thread, record.b));
                // Pops without a push happen: the range began before the record does.
                if let Some(index) = open.and_then(Vec::pop) {
                    self.end(index, at_ns);
                }
            }
            Event::RangeStarted => {
                let index = self.begin(record, tables, 0, false);
                self.started.insert(record.address, index);
            }
            Event::RangeEnded => {
                if let Some(index) = self.started.remove(&record.address) {
                    self.end(index, at_ns);
                }
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        record: &Record,
        tables: &Tables,
        depth: u32,
        is_mark: bool,
    ) -> Option<usize> {
        if self.all.len() >= PHASES_MAX {
            self.lost += 1;
            return None;
        }
        self.all.push(Phase {
            name: tables.text(&record.a.to_le_bytes()),
            domain: tables.text(&record.b.to_le_bytes()),
            from_ns: record.at_ns,
            to_ns: None,
            thread: record.thread,
            is_mark,
            depth,
        });
        Some(self.all.len() - 1)
    }

    fn end(&mut self, index: Option<usize>, at_ns: u64) {
        if let Some(phase) = index.and_then(|index| self.all.get_mut(index)) {
            phase.to_ns = Some(at_ns);
        }
    }
}

impl super::Ledger {
    /// The phases that the program named, in order of beginning, and how many were not kept.
    pub fn phases(&self) -> (&[Phase], u64) {
        (&self.phases.all, self.phases.lost)
    }
}
