//! Bytes to records. Nothing in a capture is believed: lengths are held against the file, counts against lengths,
//! and what does not fit costs an entry, not the report.

mod head;
mod stacks;
mod tables;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use gpushim_abi::effect::{Record, state};
use gpushim_abi::layout::{Counter, Region, header, region, slot};

use crate::error::{Damage, Error};
pub use head::Identity;
use head::{check_header, identity, region_places};
pub use stacks::{Autograd, Frame, Stack, absent_text};
pub use tables::{Context, Device, InFlight, Module, Note, Tables, Thread, symbol};

/// A ring up to this length is copied whole before it is looked at: 4 MiB.
const COPY_SLOTS: u64 = 64 * 1024;
/// Slots that are read at a time.
const CHUNK_SLOTS: u64 = 16 * 1024;
/// The greatest length of a table that is read, bytes: what the shim's largest capture has, and room. A file that promises
/// more must not cost the reader its memory.
const fn table_max(which: Region) -> u64 {
    match which {
        Region::Devices => 64 << 10,
        // Threads are found by number, contexts by 16 bits.
        Region::Contexts | Region::Threads => 4 << 20,
        Region::Modules | Region::Notes => 8 << 20,
        Region::Stacks | Region::Strings | Region::Frames => 256 << 20,
        Region::Streams => 1 << 20,
        Region::Ring => 0,
    }
}

/// Where the records are.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// Place of its entry in the region table.
    entry: usize,
    offset: u64,
    /// Modulus of sequence numbers.
    slots: u64,
}

/// What of the ring is to be read.
#[derive(Debug)]
struct Span {
    head: u64,
    /// Slots that the header says are allocated, and those of them that the file has.
    promised: u64,
    there: u64,
    /// The ring's bytes, and what the header said after they were copied.
    copy: Option<(Vec<u8>, Now)>,
}

/// What the header of a capture that is being written says by now.
#[derive(Clone, Copy, Debug)]
struct Now {
    head: u64,
    slots: u64,
    ready_slots: u64,
}

/// An opened capture.
#[derive(Debug)]
pub struct Capture {
    /// Its file.
    pub path: PathBuf,
    /// Length of the file, bytes.
    pub length: u64,
    /// Who was recorded.
    pub identity: Identity,
    /// Everything that records refer to.
    pub tables: Tables,
    counters: [u64; Counter::ALL.len()],
    frozen: bool,
    head: u64,
    ring: Ring,
    file: File,
}

/// What became of the sequence numbers. Each is in one class: `total` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers given out in all.
    pub total: u64,
    /// Overwritten, as the ring came round; dropped ones and holes among them.
    pub overwritten: u64,
    /// Read.
    pub read: u64,
    /// Given out and never committed: a thread died, or is, between the two.
    pub holes: u64,
    /// Given up by the shim, as its counters say; their slots hold an older record or nothing.
    pub dropped: u64,
    /// In a part of the ring that the file, cut off, no longer has.
    pub cut_off: u64,
}

/// Reads little-endian integers out of bytes whose length was checked.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// Likewise four bytes.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// Likewise two bytes.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u16::from_le_bytes)
}

impl Capture {
    /// Opens a capture, of a process that is dead or still running.
    ///
    /// # Errors
    /// When the file cannot be read, is no capture, is cut off within its tables, or is of a later version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // Never waits: a pipe without a writer would hold the command for ever.
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        let file = File::options()
            .read(true)
            .custom_flags(flags.cast_signed())
            .open(path)
            .map_err(|e| Error::file(path, "open", e))?;
        let metadata = file
            .metadata()
            .map_err(|e| Error::file(path, "examine", e))?;
        if !metadata.is_file() {
            return Err(Error::Usage(format!("{} is not a file", path.display())));
        }
        let length = metadata.len();
        let damaged = |why| Error::Capture {
            path: path.to_owned(),
            why,
        };
        let head = read(&file, path, 0, length.min(header::LEN as u64))?;
        let whole = check_header(&head, length).map_err(damaged)?;
        if !whole {
            return Err(damaged(Damage::Truncated {
                part: "the header",
                needs: header::LEN as u64,
                has: length,
            }));
        }
        let places = region_places(&head, length).map_err(damaged)?;
        let load = |which: Region| -> Result<(Vec<u8>, u64), Error> {
            match places.iter().find(|(kind, _)| *kind == which) {
                Some((_, place)) => {
                    let len = place.ready.min(table_max(which));
                    let entries = len / which.entry_len() as u64;
                    let count = match which {
                        // Used entry by entry, whatever was counted.
                        Region::Threads => entries,
                        _ => place.count.min(entries),
                    };
                    let bytes = read(&file, path, place.offset, count * which.entry_len() as u64)?;
                    Ok((bytes, count))
                }
                None => Ok((Vec::new(), 0)),
            }
        };
        let tables = Tables::load(load)?;
        let ring = places
            .iter()
            .find(|(kind, _)| *kind == Region::Ring)
            .ok_or_else(|| {
                damaged(Damage::Field {
                    field: "the region table, which has no ring,",
                    offset: header::REGIONS as u64,
                    value: 0,
                })
            })?;
        let entry = ring.1.entry;
        let now = now(&head, entry);
        if !now.slots.is_power_of_two() {
            let frozen = u64_at(&head, header::FROZEN.start) != 0;
            return Err(damaged(Damage::Field {
                field: if frozen {
                    "the number of slots by which the ring wraps"
                } else {
                    "the number of slots of the ring"
                },
                offset: if frozen {
                    header::FROZEN.start
                } else {
                    entry + region::RESERVED.start
                } as u64,
                value: now.slots,
            }));
        }
        let identity = identity(&head, &tables);
        Ok(Self {
            path: path.to_owned(),
            length,
            identity,
            tables,
            counters: Counter::ALL.map(|counter| u64_at(&head, counter.at().start)),
            frozen: u64_at(&head, header::FROZEN.start) != 0,
            head: now.head,
            ring: Ring {
                entry,
                offset: ring.1.offset,
                slots: now.slots,
            },
            file,
        })
    }

    /// One of the loss counters.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Whether the ring could not grow to its planned length.
    pub fn frozen(&self) -> bool {
        self.frozen
    }

    /// Sequence numbers given out when the capture was opened for reading.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Sequence number of the oldest record that the ring has room for.
    pub fn oldest(&self) -> u64 {
        self.head.saturating_sub(self.ring.slots)
    }

    /// Hands every record to `visit`, in order of sequence numbers; what became of the rest. A record that a later one
    /// takes back is not handed out, the later one is.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn records(&self, mut visit: impl FnMut(&Record)) -> Result<Tally, Error> {
        let span = self.span()?;
        let mut taken_back = HashSet::new();
        self.walk(&span, &mut |record| {
            if let Some(sequence) = record.takes_back() {
                taken_back.insert(sequence);
            }
        })?;
        self.walk(&span, &mut |record| {
            if !(record.is_pending() && taken_back.contains(&record.sequence)) {
                visit(record);
            }
        })
    }

    /// What is to be read. A short ring that is being written comes round faster than it can be read twice: it is copied.
    fn span(&self) -> Result<Span, Error> {
        let ring = self.ring;
        // Asked anew: the ring of a living process may have grown, and its head moved on, since the capture was opened.
        let now = self.now()?;
        let promised = now.ready_slots.min(ring.slots);
        let length = self
            .file
            .metadata()
            .map_err(|e| Error::file(&self.path, "examine", e))?
            .len();
        // A ring that is cut off is read as far as it goes.
        let there = promised.min(length.saturating_sub(ring.offset) / slot::LEN as u64);
        let copy = if there <= COPY_SLOTS {
            let bytes = read_some(
                &self.file,
                &self.path,
                ring.offset,
                there * slot::LEN as u64,
            )?;
            Some((bytes, self.now()?))
        } else {
            None
        };
        Ok(Span {
            head: now.head,
            promised,
            there,
            copy,
        })
    }

    /// Bytes of some slots, and what the header said after they were copied.
    fn slots<'s>(&self, span: &'s Span, at: u64, run: u64) -> Result<(Cow<'s, [u8]>, Now), Error> {
        const LEN: u64 = slot::LEN as u64;
        if let Some((bytes, now)) = &span.copy {
            let end = bytes.len().min(((at + run) * LEN) as usize);
            let bytes = bytes.get((at * LEN) as usize..end).unwrap_or_default();
            return Ok((Cow::Borrowed(bytes), *now));
        }
        let bytes = read_some(
            &self.file,
            &self.path,
            self.ring.offset + at * LEN,
            run * LEN,
        )?;
        Ok((Cow::Owned(bytes), self.now()?))
    }

    fn walk(&self, span: &Span, visit: &mut dyn FnMut(&Record)) -> Result<Tally, Error> {
        let ring = self.ring;
        let mut missing = 0;
        let mut sequence = span.head.saturating_sub(ring.slots);
        let mut tally = Tally {
            total: span.head,
            overwritten: sequence,
            ..Tally::default()
        };
        while sequence < span.head {
            let at = sequence % ring.slots;
            let rest = (span.head - sequence).min(ring.slots - at);
            let run = span.there.saturating_sub(at).min(rest).min(CHUNK_SLOTS);
            if run == 0 {
                let cut_off = span.promised.saturating_sub(at).min(rest);
                tally.cut_off += cut_off;
                // Slots beyond what is allocated were never written.
                missing += rest - cut_off;
                sequence += rest;
                continue;
            }
            let (bytes, now) = self.slots(span, at, run)?;
            // A slot that another lap's writer may have been in while it was copied is torn: its number plus the
            // ring's length is below what has been given out by now.
            let torn_below = now.head.saturating_sub(now.slots);
            for (index, bytes) in bytes.chunks_exact(slot::LEN).enumerate() {
                let number = sequence + index as u64;
                let Ok(bytes) = <&[u8; slot::LEN]>::try_from(bytes) else {
                    continue;
                };
                let lap = u32::try_from(number / ring.slots)
                    .ok()
                    .filter(|lap| u64::from(*lap) < slot::LAPS);
                let state = state(bytes);
                if number < torn_below {
                    tally.overwritten += 1;
                } else if slot::committed_lap(state).is_some_and(|l| Some(l) == lap) {
                    tally.read += 1;
                    visit(&Record::decode(number, bytes));
                } else if lap.is_some_and(|lap| state == slot::claimed(lap)) {
                    tally.holes += 1;
                } else {
                    missing += 1;
                }
            }
            // The file was cut while it was read.
            tally.cut_off += run - (bytes.len() / slot::LEN) as u64;
            sequence += run;
        }
        // A slot that holds nothing of its number was given up, which is counted, or its writer died between the
        // number and the claim. What the counters have beyond that was dropped among the overwritten.
        let dropped = self
            .counter(Counter::SlotBusy)
            .saturating_add(self.counter(Counter::RingNotReady));
        tally.dropped = missing.min(dropped);
        tally.holes += missing - tally.dropped;
        Ok(tally)
    }

    fn now(&self) -> Result<Now, Error> {
        let head = read_some(&self.file, &self.path, 0, header::LEN as u64)?;
        let now = now(&head, self.ring.entry);
        Ok(Now {
            head: now.head.max(self.head),
            // `frozen` is set once, and never makes a ring longer.
            slots: if now.slots == 0 {
                self.ring.slots
            } else {
                now.slots.min(self.ring.slots)
            },
            ready_slots: now.ready_slots,
        })
    }
}

/// Reads what moves in a header.
fn now(head: &[u8], entry: usize) -> Now {
    let frozen = u64_at(head, header::FROZEN.start);
    Now {
        head: u64_at(head, header::HEAD.start),
        slots: if frozen == 0 {
            u64_at(head, entry + region::RESERVED.start) / slot::LEN as u64
        } else {
            frozen
        },
        ready_slots: u64_at(head, entry + region::READY.start) / slot::LEN as u64,
    }
}

/// Reads bytes that must be there.
fn read(file: &File, path: &Path, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    let bytes = read_some(file, path, offset, len)?;
    if (bytes.len() as u64) < len {
        return Err(Error::Capture {
            path: path.to_owned(),
            why: Damage::Truncated {
                part: "a table",
                needs: offset + len,
                has: offset + bytes.len() as u64,
            },
        });
    }
    Ok(bytes)
}

/// Reads as much as there is.
fn read_some(file: &File, path: &Path, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut have = 0;
    while have < bytes.len() {
        match file.read_at(&mut bytes[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(got) => have += got,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::file(path, "read", e)),
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}
