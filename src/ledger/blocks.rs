//! PyTorch's blocks: what its caching allocator has handed out, and the segments of the driver's that they lie in.
//!
//! Three levels of one picture: a *block* is a tensor's memory, a *segment* is what the allocator took from the driver, and what of a
//! segment is in no block is its *cache*. Blocks are never added to segments: they are inside.

use std::collections::{BTreeMap, HashMap};

use gpushim_abi::effect::Record;
use gpushim_abi::events::Event;
use gpushim_abi::hooks::Class;

use super::sites::{Level, SiteKey, Sites};

/// A block that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address.
    pub address: u64,
    /// Size, bytes: what the allocator rounded the request to.
    pub size: u64,
    /// Device ordinal.
    pub device: u8,
    /// Stream of PyTorch's, a number of the streams table, 0 the default one.
    pub stream: u16,
    /// CLOCK_MONOTONIC, ns, of its birth.
    pub born_ns: u64,
    /// Sequence number of the record.
    pub sequence: u64,
    /// Stack node.
    pub stack: u32,
    /// Thread.
    pub thread: u32,
}

/// A device's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBooks {
    /// Out, bytes and number.
    pub live: u64,
    /// See `live`.
    pub count: u64,
    /// Greatest `live`, and when, CLOCK_MONOTONIC ns.
    pub peak: u64,
    /// See `peak`.
    pub peak_ns: u64,
    /// Handed out and taken back until then.
    pub allocations: u64,
    /// See `allocations`.
    pub frees: u64,
    /// What the allocator itself said last that it had handed out, bytes.
    pub said: u64,
    /// Blocks that were out before the record begins, as far as the allocator's own count tells, bytes.
    pub unseen: u64,
    /// Times that the allocator's count changed otherwise than by the records.
    pub gaps: u64,
}

/// A request that the allocator could not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Device ordinal.
    pub device: u8,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes in blocks then, and in segments, as the allocator counts.
    pub allocated: u64,
    /// See `allocated`.
    pub reserved: u64,
    /// When, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    /// Stack node.
    pub stack: u32,
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub address: u64,
    /// Length, bytes.
    pub len: u64,
    /// Of this in blocks, bytes.
    pub live: u64,
    /// Number of blocks.
    pub count: u64,
    /// The oldest of them.
    pub oldest: Option<Block>,
}

/// Parts of blocks that are held against segments.
const STEPS_MAX: u64 = 1 << 26;
/// Refusals that are kept.
const REFUSALS: usize = 64;

/// The blocks of a process.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    live: HashMap<(u8, u64), Block>,
    books: BTreeMap<u8, BlockBooks>,
    refusals: Vec<Refusal>,
    refused: u64,
    /// Ranges of device memory in which no block was yet: length by first address.
    others: BTreeMap<u64, u64>,
    /// Those in which one was.
    segments: BTreeMap<u64, u64>,
}

impl Blocks {
    /// Takes a record about a block; the bytes that were given back.
    pub(super) fn take(&mut self, record: &Record, event: Event, sites: &mut Sites) -> u64 {
        let books = self.books.entry(record.device).or_default();
        let (size, said) = (record.size, record.a);
        match event {
            Event::BlockAllocated => {
                books.allocations += 1;
                books.keep_up(said.checked_sub(size), said);
                let block = Block {
                    address: record.address,
                    size,
                    device: record.device,
                    stream: record.stream,
                    born_ns: record.at_ns,
                    sequence: record.sequence,
                    stack: record.stack,
                    thread: record.thread,
                };
                // A block of an expandable segment may lie across several ranges.
                let end = record.address.saturating_add(size);
                while let Some((&start, &len)) = self.others.range(..end).next_back()
                    && start.saturating_add(len) > record.address
                {
                    self.others.remove(&start);
                    self.segments.insert(start, len);
                }
                let old = self.live.insert((record.device, record.address), block);
                if let Some(old) = old {
                    books.left(old.size);
                    sites.gave(old.site(), old.size, record.at_ns);
                }
                sites.took(block.site(), size, record.at_ns);
                books.live = books.live.saturating_add(size);
                books.count += 1;
                if books.live > books.peak {
                    (books.peak, books.peak_ns) = (books.live, record.at_ns);
                }
                0
            }
            Event::BlockFreed => {
                books.frees += 1;
                books.keep_up(said.checked_add(size), said);
                match self.live.remove(&(record.device, record.address)) {
                    Some(block) => {
                        books.left(block.size);
                        sites.gave(block.site(), block.size, record.at_ns);
                    }
                    // One that was out before the record begins.
                    None => books.unseen = books.unseen.saturating_sub(size),
                }
                size
            }
            _ => {
                self.refused += 1;
                if self.refusals.len() < REFUSALS {
                    self.refusals.push(Refusal {
                        device: record.device,
                        size,
                        allocated: record.a,
                        reserved: record.b,
                        at_ns: record.at_ns,
                        stack: record.stack,
                    });
                }
                0
            }
        }
    }

    /// Device memory that blocks may lie in.
    pub(super) fn range_born(&mut self, address: u64, len: u64) {
        self.others.insert(address, len);
    }

    /// It is gone.
    pub(super) fn range_ended(&mut self, address: u64) {
        self.others.remove(&address);
        self.segments.remove(&address);
    }
}

impl Block {
    /// Where it was taken.
    pub fn site(&self) -> SiteKey {
        SiteKey {
            level: Level::Torch,
            class: None,
            device: Some(self.device),
            stack: self.stack,
            call: Event::BlockAllocated as u16,
        }
    }
}

impl BlockBooks {
    /// Holds what the allocator counted before this record against what it said last.
    fn keep_up(&mut self, before: Option<u64>, said: u64) {
        let before = before.unwrap_or(0);
        if self.allocations + self.frees == 1 {
            self.unseen = before;
        } else if before != self.said {
            self.gaps += 1;
        }
        self.said = said;
    }

    fn left(&mut self, size: u64) {
        self.live = self.live.saturating_sub(size);
        self.count = self.count.saturating_sub(1);
    }
}

impl super::Ledger {
    /// PyTorch's blocks that are out, in order of birth.
    pub fn blocks(&self) -> Vec<&Block> {
        let mut blocks: Vec<&Block> = self.blocks.live.values().collect();
        blocks.sort_by_key(|block| block.sequence);
        blocks
    }

    /// What is known of each device's blocks.
    pub fn block_books(&self) -> &BTreeMap<u8, BlockBooks> {
        &self.blocks.books
    }

    /// Requests that PyTorch could not meet, the first ones, and how many there were.
    pub fn refusals(&self) -> (&[Refusal], u64) {
        (&self.blocks.refusals, self.blocks.refused)
    }

    /// The device that the memory at an address is on.
    pub fn range_device(&self, address: u64) -> Option<u8> {
        let linear = self.objects.find(Class::Linear, address);
        let mapped = || Some(self.memory.at(address)?.object);
        linear.copied().or_else(mapped)?.device
    }

    /// Ranges of device memory in which a block ever was, in order of address. Neighbours are parts of one expandable segment as far as PyTorch is
    /// concerned; the driver gave them one by one.
    pub fn segments(&self) -> Vec<Segment> {
        let used = self.blocks.segments.iter();
        let mut segments: Vec<Segment> = used
            .map(|(&address, &len)| Segment {
                address,
                len,
                live: 0,
                count: 0,
                oldest: None,
            })
            .collect();
        let mut steps = 0;
        for block in self.blocks() {
            let (mut at, mut left) = (block.address, block.size);
            let first = segments.partition_point(|segment| segment.address <= at);
            for segment in segments.iter_mut().skip(first.saturating_sub(1)) {
                // A block of an expandable segment may lie across several ranges.
                let end = segment.address.saturating_add(segment.len);
                // No honest record has blocks that lie in one another.
                if left == 0 || at < segment.address || at >= end || steps > STEPS_MAX {
                    break;
                }
                steps += 1;
                let here = left.min(end - at);
                segment.live = segment.live.saturating_add(here);
                segment.count += 1;
                segment.oldest.get_or_insert(*block);
                (at, left) = (at.saturating_add(here), left - here);
            }
        }
        segments
    }
}
