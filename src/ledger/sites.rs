//! Memory by the stack that took it: how much is alive, was at most, was taken in all, and who gave it back.

use std::collections::HashMap;

use gpushim_abi::hooks::Class;

/// Stacks that gave something back which are told apart for each site.
const RELEASERS: usize = 16;

/// Which level of the picture: blocks lie inside the driver's segments, so the two are never added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// PyTorch's blocks.
    Torch,
    /// Allocations of the driver's.
    Driver,
}

/// What tells sites apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey {
    /// Level.
    pub level: Level,
    /// Class of what was taken; `None` for PyTorch's blocks.
    pub class: Option<Class>,
    /// Device; `None` for the host's memory.
    pub device: Option<u8>,
    /// Stack node.
    pub stack: u32,
    /// Id of the call or event.
    pub call: u16,
}

/// The books of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteBook {
    /// Alive, bytes and number.
    pub live: u64,
    /// See `live`.
    pub count: u64,
    /// Greatest `live`, and when, CLOCK_MONOTONIC ns.
    pub peak: u64,
    /// See `peak`.
    pub peak_ns: u64,
    /// Taken in all, bytes and number.
    pub total: u64,
    /// See `total`.
    pub allocations: u64,
    /// First and last time, CLOCK_MONOTONIC ns.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Stack nodes that gave something of it back: how often, how much, and when last, CLOCK_MONOTONIC ns.
    pub releasers: Vec<(u32, u64, u64, u64)>,
    /// Given back by stacks beyond those, or with a context.
    pub others: u64,
}

/// The sites of a process.
#[derive(Debug, Default)]
pub(super) struct Sites {
    books: HashMap<SiteKey, SiteBook>,
    /// Stack of the record that is being taken.
    pub(super) cause: u32,
}

impl Sites {
    /// Something was taken.
    pub(super) fn took(&mut self, key: SiteKey, size: u64, at_ns: u64) {
        let book = self.books.entry(key).or_default();
        if book.allocations == 0 {
            book.first_ns = at_ns;
        }
        book.last_ns = at_ns;
        book.live = book.live.saturating_add(size);
        book.count += 1;
        book.total = book.total.saturating_add(size);
        book.allocations += 1;
        if book.live > book.peak {
            (book.peak, book.peak_ns) = (book.live, at_ns);
        }
    }

    /// It was given back, by the record that is being taken.
    pub(super) fn gave(&mut self, key: SiteKey, size: u64, at_ns: u64) {
        let Some(book) = self.books.get_mut(&key) else {
            return;
        };
        book.live = book.live.saturating_sub(size);
        book.count = book.count.saturating_sub(1);
        let cause = self.cause;
        let known = book
            .releasers
            .iter()
            .position(|(stack, ..)| *stack == cause);
        if known.is_none() && book.releasers.len() == RELEASERS {
            book.others += 1;
            return;
        }
        let place = known.unwrap_or_else(|| {
            book.releasers.push((cause, 0, 0, 0));
            book.releasers.len() - 1
        });
        let (_, count, bytes, last_ns) = &mut book.releasers[place];
        *count += 1;
        *bytes = bytes.saturating_add(size);
        *last_ns = at_ns;
    }
}

impl super::Ledger {
    /// Memory by the stack that took it.
    pub fn sites(&self) -> &HashMap<SiteKey, SiteBook> {
        &self.sites.books
    }
}
