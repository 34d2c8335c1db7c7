//! The records of a capture, read in the plainest way: whole file, slot by slot, for tests that look at what
//! the shim wrote rather than at what the reader makes of it.

use std::fs;
use std::path::Path;

use gpushim_abi::effect::{Record, state};
use gpushim_abi::layout::{Counter, Region, header, region, slot, thread};

/// A capture's bytes.
#[derive(Debug)]
pub(crate) struct Raw(Vec<u8>);

impl Raw {
    /// Reads a capture.
    pub(crate) fn read(path: &Path) -> Self {
        Self(fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    /// The next sequence number.
    pub(crate) fn head(&self) -> u64 {
        self.u64(header::HEAD.start)
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.u32(header::PID.start)
    }

    /// Whether the header is complete.
    pub(crate) fn complete(&self) -> bool {
        self.u32(header::COMPLETE.start) == 1
    }

    /// One of the loss counters.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.u64(counter.at().start)
    }

    /// Whether the ring wraps at its ready length.
    pub(crate) fn frozen(&self) -> bool {
        self.u64(header::FROZEN.start) != 0
    }

    fn region(&self, which: Region, field: std::ops::Range<usize>) -> u64 {
        self.u64(header::REGIONS + which.index() * region::LEN + field.start)
    }

    /// Number of slots by which sequence numbers wrap.
    pub(crate) fn slots(&self) -> u64 {
        match self.u64(header::FROZEN.start) {
            0 => self.region(Region::Ring, region::RESERVED) / slot::LEN as u64,
            frozen => frozen,
        }
    }

    /// Committed records in order, and the number of claimed slots that were never committed.
    pub(crate) fn records(&self) -> (Vec<Record>, usize) {
        let offset = self.region(Region::Ring, region::OFFSET) as usize;
        let ready = self.region(Region::Ring, region::READY) as usize;
        let slots = self.slots();
        let mut records = Vec::new();
        let mut holes = 0;
        for (index, bytes) in self.0[offset..offset + ready]
            .chunks_exact(slot::LEN)
            .enumerate()
        {
            let bytes = bytes.try_into().expect("a slot");
            let state = state(bytes);
            holes += usize::from(slot::is_claimed(state));
            if let Some(lap) = slot::committed_lap(state) {
                let sequence = u64::from(lap) * slots + index as u64;
                records.push(Record::decode(sequence, bytes));
            }
        }
        records.sort_by_key(|record| record.sequence);
        (records, holes)
    }

    /// Calls in flight: thread, row id, size.
    pub(crate) fn in_flight(&self) -> Vec<(u32, u16, u64)> {
        let offset = self.region(Region::Threads, region::OFFSET) as usize;
        let ready = self.region(Region::Threads, region::READY) as usize;
        self.0[offset..offset + ready]
            .chunks_exact(thread::LEN)
            .map(|entry| {
                (
                    u32::from_le_bytes(entry[thread::TID].try_into().expect("four bytes")),
                    u16::from_le_bytes(entry[thread::CALL].try_into().expect("two bytes")),
                    u64::from_le_bytes(entry[thread::SIZE].try_into().expect("eight bytes")),
                )
            })
            .filter(|(_, call, _)| *call != 0)
            .collect()
    }
}
