//! PyTorch's part of a report: blocks, segments, cache.

use super::model::{Frame, Pinned, Refusal, Torch};
use super::sites::{self, Order, Site};
use super::{Device, Level};
use crate::capture::Capture;
use crate::ledger::{Ledger, Segment};
use crate::render::units;

/// Segments that a block holds which are given.
const PINNED_MAX: usize = 16;

/// What PyTorch has of a device; `None` where it reported nothing.
pub(super) fn device(
    capture: &Capture,
    state: &Ledger,
    whole: &Ledger,
    ordinal: u8,
) -> Option<Torch> {
    let run = whole.block_books().get(&ordinal)?;
    let books = state
        .block_books()
        .get(&ordinal)
        .copied()
        .unwrap_or_default();
    let opened = capture.identity.opened_monotonic_ns;
    let mine = |segment: &Segment| {
        state
            .range_device(segment.address)
            .is_none_or(|device| device == ordinal)
    };
    let segments: Vec<Segment> = state.segments().into_iter().filter(mine).collect();
    let cached = |segment: &Segment| segment.len.saturating_sub(segment.live);
    let sum = |wanted: &dyn Fn(&Segment) -> u64| {
        segments
            .iter()
            .fold(0_u64, |sum, segment| sum.saturating_add(wanted(segment)))
    };
    let releasable_bytes = sum(&|segment| if segment.count == 0 { segment.len } else { 0 });
    let cached_bytes = sum(&cached);
    let mut pinned: Vec<&Segment> = segments
        .iter()
        .filter(|segment| segment.count > 0 && cached(segment) > 0)
        .collect();
    pinned.sort_by_key(|segment| std::cmp::Reverse(cached(segment)));
    Some(Torch {
        allocated_bytes: books.live,
        block_count: books.count,
        peak_bytes: run.peak,
        peak_seconds: if run.peak == 0 {
            0.0
        } else {
            units::seconds_since(run.peak_ns, opened)
        },
        segment_bytes: sum(&|segment| segment.len),
        segment_count: segments.len() as u64,
        cached_bytes,
        releasable_bytes,
        pinned_bytes: cached_bytes.saturating_sub(releasable_bytes),
        pinned: pinned
            .into_iter()
            .take(PINNED_MAX)
            .map(|segment| Pinned {
                address: format!("{:#x}", segment.address),
                bytes: segment.len,
                cached_bytes: cached(segment),
                block_count: segment.count,
                block_bytes: segment.live,
                site: segment
                    .oldest
                    .and_then(|block| capture.tables.stack(block.stack).site().map(Frame::from)),
            })
            .collect(),
        allocations: books.allocations,
        frees: books.frees,
        unseen_bytes: books.unseen,
        gaps: books.gaps,
    })
}

/// PyTorch's living blocks by line.
pub(super) fn sites(
    capture: &Capture,
    state: &Ledger,
    asked: &Option<String>,
    devices: &[Device],
) -> Vec<Site> {
    let books = state.sites().iter().filter(|(key, book)| {
        key.level == Level::Torch
            && book.count > 0
            && (asked.is_none()
                || devices
                    .iter()
                    .any(|device| Some(device.ordinal) == key.device))
    });
    sites::rows(capture, books, Order::Live)
}

/// Requests that PyTorch could not meet.
pub(super) fn refusals(capture: &Capture, state: &Ledger) -> Vec<Refusal> {
    let opened = capture.identity.opened_monotonic_ns;
    let of = |refusal: &crate::ledger::Refusal| {
        let stack = capture.tables.stack(refusal.stack);
        Refusal {
            device: refusal.device,
            bytes: refusal.size,
            allocated_bytes: refusal.allocated,
            reserved_bytes: refusal.reserved,
            seconds: units::seconds_since(refusal.at_ns, opened),
            site: stack.site().map(Frame::from),
            stack: stack.python.iter().map(Frame::from).collect(),
        }
    };
    state.refusals().0.iter().map(of).collect()
}
