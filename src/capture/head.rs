//! The header: what a file says of itself, checked, and whose capture it is.

use gpushim_abi::layout::{self, Region, Text, header, region};

use super::{Tables, u16_at, u32_at, u64_at};
use crate::error::Damage;

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

/// A region, as its entry in the table says.
pub(super) struct Place {
    /// Where that entry is.
    pub(super) entry: usize,
    pub(super) offset: u64,
    pub(super) ready: u64,
    pub(super) count: u64,
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

/// Checks what the header says of itself; whether all of it is there.
pub(super) fn check_header(head: &[u8], length: u64) -> Result<bool, Damage> {
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
pub(super) fn region_places(head: &[u8], length: u64) -> Result<Vec<(Region, Place)>, Damage> {
    let mut places: Vec<(Region, Place)> = Vec::new();
    for index in 0..header::REGION_SLOTS {
        let at = header::REGIONS + index * region::LEN;
        let kind = u32_at(head, at + region::KIND.start);
        // A later shim's regions are skipped.
        let Some(which) = Region::ALL.into_iter().find(|r| *r as u32 == kind) else {
            continue;
        };
        let reserved = u64_at(head, at + region::RESERVED.start);
        let place = Place {
            entry: at,
            offset: u64_at(head, at + region::OFFSET.start),
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
        if place.ready > reserved {
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

pub(super) fn identity(head: &[u8], tables: &Tables) -> Identity {
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
