//! Bytes to records. Nothing in a capture is believed: lengths are held against the file, counts against lengths,
//! and what does not fit costs an entry, not the report.

mod tables;

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use gpushim_abi::effect::{Record, state};
use gpushim_abi::layout::{self, Counter, Region, Text, header, region, slot};

use crate::error::{Damage, Error};
pub use tables::{Context, Device, InFlight, Module, Note, Tables, Thread, symbol};

/// Slots that are read at a time.
const CHUNK_SLOTS: u64 = 16 * 1024;
/// A table larger than this is no table of ours (the shim's largest is 256 MiB).
const TABLE_MAX: u64 = 512 << 20;

/// Who and what was recorded.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Process id, in its own pid namespace.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// User id.
    pub user: u32,
    /// Driver version, 1000 × major + 10 × minor; 0 unknown.
    pub driver_version: i32,
    /// Start time of the process, clock ticks since boot.
    pub start_ticks: u64,
    /// Inode of its pid namespace.
    pub pid_namespace: u64,
    /// Boot id.
    pub boot_id: [u8; 16],
    /// CLOCK_MONOTONIC, ns, when the capture was opened.
    pub opened_monotonic_ns: u64,
    /// CLOCK_REALTIME, ns, at the same moment.
    pub opened_realtime_ns: u64,
    /// CLOCK_MONOTONIC, ns, of a clean exit.
    pub clean_exit_ns: Option<u64>,
    /// Path of the executable.
    pub executable: String,
    /// Arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub directory: String,
    /// Name of the host.
    pub host: String,
    /// Version of the shim.
    pub shim_version: String,
    /// Path of the driver library.
    pub driver_file: String,
    /// Session of `gpushim run`, empty without one.
    pub session: String,
    /// Chosen environment variables, `KEY=VALUE`.
    pub environment: Vec<String>,
}

/// Where the records are.
#[derive(Clone, Copy, Debug)]
struct Ring {
    offset: u64,
    ready_slots: u64,
    /// Modulus of sequence numbers.
    slots: u64,
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

/// What became of the sequence numbers that the ring still has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers given out in all.
    pub total: u64,
    /// Overwritten, as the ring came round.
    pub overwritten: u64,
    /// Read.
    pub read: u64,
    /// Claimed and never committed: a thread died, or is, between the two.
    pub holes: u64,
    /// Given up by the shim; the counters say why.
    pub dropped: u64,
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

/// A guess at what a foreign file is, for a better message.
fn looks_like(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => "it is an ELF program or library",
        [b'{' | b'[', ..] => "it looks like JSON",
        [0x1f, 0x8b, ..] | [b'P', b'K', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            "it is compressed; unpack it first"
        }
        [0x80, ..] => "it looks like a pickle, perhaps a PyTorch memory snapshot",
        _ if bytes.iter().all(|&b| b == 0) => {
            "it holds only zeros: the process died before it wrote the header"
        }
        _ => "it does not begin with \"gpushim\"",
    }
}

struct Place {
    offset: u64,
    ready: u64,
    reserved: u64,
    count: u64,
}

impl Capture {
    /// Opens a capture, of a process that is dead or still running.
    ///
    /// # Errors
    /// When the file cannot be read, is no capture, is cut off within its tables, or is of a later version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|e| Error::file(path, "open", e))?;
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
                    let len = place.ready.min(TABLE_MAX);
                    let entries = len / which.entry_len() as u64;
                    let count = match which {
                        // These two are used entry by entry, whatever was counted.
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
        let frozen = u64_at(&head, header::FROZEN.start);
        // A ring that is cut off is read as far as it goes.
        let there = length.saturating_sub(ring.1.offset);
        let ready_slots = ring.1.ready.min(there) / slot::LEN as u64;
        let slots = if frozen == 0 {
            ring.1.reserved / slot::LEN as u64
        } else {
            frozen
        };
        if !slots.is_power_of_two() {
            return Err(damaged(Damage::Field {
                field: "the number of slots",
                offset: (header::REGIONS + Region::Ring.index() * region::LEN) as u64,
                value: slots,
            }));
        }
        let identity = identity(&head, &tables);
        Ok(Self {
            path: path.to_owned(),
            length,
            identity,
            tables,
            counters: Counter::ALL.map(|counter| u64_at(&head, counter.at().start)),
            frozen: frozen != 0,
            head: u64_at(&head, header::HEAD.start),
            ring: Ring {
                offset: ring.1.offset,
                ready_slots,
                slots,
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
        let mut taken_back = HashSet::new();
        self.walk(&mut |record| {
            if let Some(sequence) = record.takes_back() {
                taken_back.insert(sequence);
            }
        })?;
        self.walk(&mut |record| {
            if !(record.is_pending() && taken_back.contains(&record.sequence)) {
                visit(record);
            }
        })
    }

    fn walk(&self, visit: &mut dyn FnMut(&Record)) -> Result<Tally, Error> {
        let ring = self.ring;
        let mut tally = Tally {
            total: self.head,
            overwritten: self.oldest(),
            ..Tally::default()
        };
        let mut sequence = self.oldest();
        while sequence < self.head {
            let at = sequence % ring.slots;
            let rest = (self.head - sequence).min(ring.slots - at);
            let there = ring.ready_slots.saturating_sub(at).min(rest);
            if there == 0 {
                // Slots beyond what is allocated were never written.
                tally.dropped += rest;
                sequence += rest;
                continue;
            }
            let run = there.min(CHUNK_SLOTS);
            let len = slot::LEN as u64;
            let bytes = read_some(&self.file, &self.path, ring.offset + at * len, run * len)?;
            // A slot that another lap's writer may have been in while it was copied is torn: its number plus the
            // ring's length is below what has been given out by now.
            let torn_below = self.head_now()?.saturating_sub(ring.slots);
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
                    tally.dropped += 1;
                }
            }
            tally.dropped += run - (bytes.len() / slot::LEN) as u64;
            sequence += run;
        }
        Ok(tally)
    }

    fn head_now(&self) -> Result<u64, Error> {
        let bytes = read_some(&self.file, &self.path, header::HEAD.start as u64, 8)?;
        Ok(u64_at(&bytes, 0).max(self.head))
    }
}

/// Checks what the header says of itself; whether all of it is there.
fn check_header(head: &[u8], length: u64) -> Result<bool, Damage> {
    if length == 0 {
        return Err(Damage::Empty);
    }
    let magic = head.get(header::MAGIC).unwrap_or(head);
    if !layout::MAGIC.starts_with(magic) {
        return Err(Damage::Foreign(looks_like(head)));
    }
    if head.len() < header::LEN {
        return Ok(false);
    }
    let version = u16_at(head, header::VERSION.start);
    if version > layout::VERSION {
        return Err(Damage::Newer(version));
    }
    if version == 0 {
        return Err(Damage::Field {
            field: "the format version",
            offset: header::VERSION.start as u64,
            value: 0,
        });
    }
    if u32_at(head, header::COMPLETE.start) != 1 {
        return Err(Damage::Incomplete);
    }
    Ok(true)
}

/// The regions that this version knows, each held against the length of the file.
fn region_places(head: &[u8], length: u64) -> Result<Vec<(Region, Place)>, Damage> {
    let mut places: Vec<(Region, Place)> = Vec::new();
    for index in 0..header::REGION_SLOTS {
        let at = header::REGIONS + index * region::LEN;
        let kind = u32_at(head, at + region::KIND.start);
        // A later shim's regions are skipped.
        let Some(which) = Region::ALL.into_iter().find(|r| *r as u32 == kind) else {
            continue;
        };
        let place = Place {
            offset: u64_at(head, at + region::OFFSET.start),
            reserved: u64_at(head, at + region::RESERVED.start),
            ready: u64_at(head, at + region::READY.start),
            count: u64_at(head, at + region::COUNT.start),
        };
        let field = |field, range: std::ops::Range<usize>, value| Damage::Field {
            field,
            offset: (at + range.start) as u64,
            value,
        };
        let entry_len = u32_at(head, at + region::ENTRY_LEN.start);
        if entry_len as usize != which.entry_len() {
            let value = u64::from(entry_len);
            return Err(field(
                "the length of a region's entries",
                region::ENTRY_LEN,
                value,
            ));
        }
        if place.ready > place.reserved {
            return Err(field(
                "the ready length of a region",
                region::READY,
                place.ready,
            ));
        }
        if place.offset < header::LEN as u64 {
            return Err(field(
                "the offset of a region",
                region::OFFSET,
                place.offset,
            ));
        }
        let needs = place
            .offset
            .checked_add(place.ready)
            .ok_or_else(|| field("the offset of a region", region::OFFSET, place.offset))?;
        // The ring may be cut off: the rest of it is still worth reading.
        if needs > length && which != Region::Ring {
            return Err(Damage::Truncated {
                part: "a table",
                needs,
                has: length,
            });
        }
        if places.iter().all(|(known, _)| *known != which) {
            places.push((which, place));
        }
    }
    Ok(places)
}

fn identity(head: &[u8], tables: &Tables) -> Identity {
    let text = |which: Text| tables.text(&head[which.at()]);
    let list = |which: Text| -> Vec<String> {
        let whole = text(which);
        if whole.is_empty() {
            Vec::new()
        } else {
            whole.split('\0').map(str::to_owned).collect()
        }
    };
    let exit = u64_at(head, header::CLEAN_EXIT.start);
    Identity {
        pid: u32_at(head, header::PID.start),
        parent: u32_at(head, header::PPID.start),
        group: u32_at(head, header::PGID.start),
        user: u32_at(head, header::UID.start),
        driver_version: u32_at(head, header::DRIVER_VERSION.start) as i32,
        start_ticks: u64_at(head, header::START_TICKS.start),
        pid_namespace: u64_at(head, header::PID_NAMESPACE.start),
        boot_id: head[header::BOOT_ID].try_into().unwrap_or_default(),
        opened_monotonic_ns: u64_at(head, header::OPENED_MONOTONIC.start),
        opened_realtime_ns: u64_at(head, header::OPENED_REALTIME.start),
        clean_exit_ns: (exit != 0).then_some(exit),
        executable: text(Text::Executable),
        command: list(Text::CommandLine),
        directory: text(Text::WorkingDirectory),
        host: text(Text::Host),
        shim_version: text(Text::ShimVersion),
        driver_file: text(Text::DriverFile),
        session: text(Text::Session),
        environment: list(Text::Environment),
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
