//! Owner and borrower: memory that processes share, joined across the captures of a session.
//!
//! IPC handles, fabric handles and the names of pool blocks are 64 bytes that both sides pass to the driver: the same name is the same
//! memory. A descriptor has no name, since the kernel gives the importer a number of its own, and every descriptor of the driver is
//! the same file (`/dev/nvidiactl`). It is joined where exactly one export fits by device, size and time, and said to be so.

use std::collections::HashMap;

use gpushim_abi::hooks::Class;
use serde::Serialize;

use super::{Reading, class_name};
use crate::capture::Capture;
use crate::ledger::{Export, Object};
use crate::render::{names, units};

/// Memory that is shared with other processes, as the process that is reported on sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Shared {
    /// "owner" or "borrower".
    pub role: &'static str,
    /// What it is: "linear", "physical", "pool", "memory pool", "ipc", ….
    pub kind: &'static str,
    /// Address or handle here.
    pub address: String,
    /// Bytes, 0 where no call says.
    pub bytes: u64,
    /// Device ordinal here.
    pub device: Option<u8>,
    /// When it was exported or imported, seconds.
    pub since_seconds: f64,
    /// The call that exported or imported it.
    pub call: String,
    /// Who made that call.
    pub caller: String,
    /// For an owner: when it was given back here, seconds.
    pub freed_seconds: Option<f64>,
    /// The other processes: borrowers of an owner, the owner of a borrower.
    pub with_pids: Vec<u32>,
    /// "name", "device, size and time", or "unknown".
    pub joined_by: &'static str,
    /// What is to be known, in a sentence; empty where everything is as it should be.
    pub finding: String,
}

/// Something of another process, held here.
fn imports(reading: &Reading) -> Vec<Object> {
    let physical = reading.state.physical().into_iter().map(|p| &p.object);
    let mut all: Vec<Object> = reading
        .state
        .alive()
        .into_iter()
        .filter(|object| {
            object.is_imported && matches!(object.class, Class::IpcMapping | Class::PoolBlock)
        })
        .chain(physical.filter(|object| object.is_imported))
        .copied()
        .collect();
    all.sort_unstable_by_key(|object| object.sequence);
    all
}

/// An export with the process that made it.
struct Offer<'r> {
    process: usize,
    export: &'r Export,
    uuid: Option<[u8; 16]>,
}

fn uuid(capture: &Capture, device: Option<u8>) -> Option<[u8; 16]> {
    capture.tables.device(device?).map(|device| device.uuid)
}

/// Whether two captures have one clock.
fn same_machine(one: &Capture, other: &Capture) -> bool {
    one.identity.boot_id == other.identity.boot_id && one.identity.host == other.identity.host
}

/// Whether an export can be what was imported.
fn fits(
    captures: &[Capture],
    offer: &Offer<'_>,
    importer: usize,
    import: &Object,
    by_name: bool,
) -> bool {
    let pair = matches!(
        (offer.export.object.class, import.class),
        (Class::Linear | Class::Managed, Class::IpcMapping)
            | (Class::PoolBlock, Class::PoolBlock)
            | (Class::Physical, Class::Physical)
    );
    if !pair || offer.process == importer || offer.export.is_descriptor == by_name {
        return false;
    }
    if by_name {
        return import.name != 0 && offer.export.name == import.name;
    }
    let (owner, borrower) = (&captures[offer.process], &captures[importer]);
    same_machine(owner, borrower)
        && offer.uuid.is_some()
        && offer.uuid == uuid(borrower, import.device)
        && offer.export.first_ns <= import.born_ns
        && (import.size == 0 || import.size == offer.export.object.size)
}

/// Tells every process what it shares with which other.
pub(super) fn join(captures: &[Capture], readings: &mut [Reading]) {
    let mut offers: Vec<Offer<'_>> = Vec::new();
    for (process, reading) in readings.iter().enumerate() {
        for export in reading.state.exports() {
            offers.push(Offer {
                process,
                export,
                uuid: uuid(&captures[process], export.object.device),
            });
        }
    }
    let mut by_names: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut descriptors: Vec<usize> = Vec::new();
    for (n, offer) in offers.iter().enumerate() {
        if offer.export.is_descriptor {
            descriptors.push(n);
        } else {
            by_names.entry(offer.export.name).or_default().push(n);
        }
    }
    let mut borrowers: Vec<Vec<(usize, Object, &'static str)>> = vec![Vec::new(); offers.len()];
    let mut found: Vec<Vec<Shared>> = readings.iter().map(|_| Vec::new()).collect();
    for (process, reading) in readings.iter().enumerate() {
        for import in imports(reading) {
            let by_name = import.class != Class::Physical || import.name > u64::from(u32::MAX);
            let likely = if by_name {
                by_names.get(&import.name).map_or(&[][..], Vec::as_slice)
            } else {
                &descriptors
            };
            let mut fitting: Vec<usize> = likely
                .iter()
                .copied()
                .filter(|n| fits(captures, &offers[*n], process, &import, by_name))
                .collect();
            // A descriptor outlives what it was made for, but seldom: what its owner still had comes first.
            let had = |n: &usize| {
                let ended = offers[*n].export.ended_ns;
                ended.is_none_or(|at| at > import.born_ns)
            };
            if !by_name && fitting.iter().any(had) {
                fitting.retain(had);
            }
            // The same memory may have been made several descriptors.
            fitting.dedup_by_key(|n| (offers[*n].process, offers[*n].export.object.sequence));
            let joined_by = match (fitting.len(), by_name) {
                (1, true) => "name",
                (1, false) => "device, size and time",
                _ => "unknown",
            };
            let owner = (fitting.len() == 1).then(|| fitting[0]);
            if let Some(owner) = owner {
                borrowers[owner].push((process, import, joined_by));
            }
            let finding = match owner.map(|n| &offers[n]) {
                Some(offer) => lent(
                    &captures[offer.process],
                    &readings[offer.process],
                    offer,
                    reading.process.over,
                ),
                None if fitting.len() > 1 => {
                    format!("{} exports fit; whose it is cannot be told", fitting.len())
                }
                None => "no capture here exported it".to_owned(),
            };
            found[process].push(Shared {
                role: "borrower",
                with_pids: owner
                    .map(|n| captures[offers[n].process].identity.pid)
                    .into_iter()
                    .collect(),
                joined_by,
                finding,
                freed_seconds: None,
                ..seen(
                    &captures[process],
                    &import,
                    import.born_ns,
                    import.call,
                    import.stack,
                )
            });
        }
    }
    for (n, offer) in offers.iter().enumerate() {
        let capture = &captures[offer.process];
        let held: Vec<&(usize, Object, &str)> = borrowers[n].iter().collect();
        let mut pids: Vec<u32> = held
            .iter()
            .map(|(process, ..)| captures[*process].identity.pid)
            .collect();
        pids.sort_unstable();
        pids.dedup();
        let export = offer.export;
        found[offer.process].push(Shared {
            role: "owner",
            finding: match export.ended_ns {
                Some(at) if !held.is_empty() => still_held(capture, at, &held, captures, readings),
                _ => String::new(),
            },
            freed_seconds: export
                .ended_ns
                .map(|at| units::seconds_since(at, capture.identity.opened_monotonic_ns)),
            joined_by: held.first().map_or("unknown", |(_, _, by)| by),
            with_pids: pids,
            ..seen(
                capture,
                &export.object,
                export.first_ns,
                export.call,
                export.stack,
            )
        });
    }
    for (reading, shared) in readings.iter_mut().zip(found) {
        reading.process.shared = shared;
    }
}

/// What both roles have in common.
fn seen(capture: &Capture, object: &Object, at_ns: u64, call: u16, stack: u32) -> Shared {
    Shared {
        role: "",
        kind: class_name(object.class),
        address: names::handle(object.address),
        bytes: object.size,
        device: object.device,
        since_seconds: units::seconds_since(at_ns, capture.identity.opened_monotonic_ns),
        call: crate::capture::symbol(call),
        caller: capture.tables.caller(stack),
        freed_seconds: None,
        with_pids: Vec::new(),
        joined_by: "unknown",
        finding: String::new(),
    }
}

/// For a borrower: whether its owner still has it.
fn lent(capture: &Capture, reading: &Reading, offer: &Offer<'_>, over: bool) -> String {
    let pid = capture.identity.pid;
    let held = if over {
        "it was held here to the end"
    } else {
        "it is held here"
    };
    match offer.export.ended_ns {
        Some(at) => format!(
            "process {pid} freed it at {}; {held}",
            units::seconds(units::seconds_since(
                at,
                capture.identity.opened_monotonic_ns
            ))
        ),
        None if reading.process.over && !over => {
            format!("process {pid}, its owner, is over; {held}")
        }
        None => String::new(),
    }
}

/// For an owner that gave it back: who still holds it.
fn still_held(
    owner: &Capture,
    freed_ns: u64,
    held: &[&(usize, Object, &str)],
    captures: &[Capture],
    readings: &[Reading],
) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (process, ..) in held {
        let (capture, reading) = (&captures[*process], &readings[*process]);
        let pid = capture.identity.pid;
        if !reading.process.over {
            parts.push(format!("process {pid} still holds it"));
        } else if same_machine(owner, capture) && reading.end_ns > freed_ns {
            let after = units::span(reading.end_ns - freed_ns);
            parts.push(format!("process {pid} held it to its end, {after} longer"));
        }
    }
    parts.dedup();
    if parts.is_empty() {
        return String::new();
    }
    let opened = owner.identity.opened_monotonic_ns;
    format!(
        "freed here at {}, but {}",
        units::seconds(units::seconds_since(freed_ns, opened)),
        parts.join("; ")
    )
}
