//! What a capture says, as data: the one model behind the text, JSON and CSV of `gpushim report`.

pub mod text;

use std::collections::{BTreeMap, HashMap};

use gpushim_abi::hooks::Space;
use gpushim_abi::layout::Counter;
use serde::Serialize;

use crate::capture::{Capture, Note, Tally};
use crate::error::Error;
use crate::ledger::{self, End, Ledger, Object, Origin};
use crate::render::{names, units};
use crate::session::Fate;

/// Name and version of the JSON form.
pub const SCHEMA: &str = "gpushim.report/1";
/// Columns of the small chart.
const SPARK_COLUMNS: usize = 60;

/// What to report on.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only this device: an ordinal, or the beginning of a UUID.
    pub device: Option<String>,
    /// The state at this many seconds after the capture was opened, instead of the last one.
    pub at_seconds: Option<f64>,
}

/// Everything about one process.
#[derive(Debug, Serialize)]
pub struct Process {
    /// Path of the capture.
    pub capture: String,
    /// Process id.
    pub pid: u32,
    /// Command line.
    pub command: Vec<String>,
    /// Name of the host.
    pub host: String,
    /// When the capture was opened, RFC 3339 in UTC.
    pub opened: String,
    /// The same, CLOCK_REALTIME ns.
    #[serde(skip)]
    pub opened_realtime_ns: u64,
    /// The same, CLOCK_MONOTONIC ns: what a program's own clock readings can be held against.
    pub opened_monotonic_ns: u64,
    /// Seconds from there to the last record, or to the moment asked about.
    pub seconds: f64,
    /// How the process ended, or that it runs.
    pub fate: String,
    /// Whether the process is known to be over, so that it holds nothing.
    pub over: bool,
    /// Whether the state is that of an earlier moment than the last.
    pub earlier: bool,
    /// Driver version, 1000 × major + 10 × minor.
    pub driver_version: i32,
    /// Path of the driver library.
    pub driver_file: String,
    /// Version of the shim.
    pub shim_version: String,
    /// Chosen environment variables.
    pub environment: Vec<String>,
    /// Whether every record since the first call is there, so that the figures are exact.
    pub exact: bool,
    /// What became of the records.
    pub records: Records,
    /// By ordinal.
    pub devices: Vec<Device>,
    /// Memory of the host and address space.
    pub host_memory: HostMemory,
    /// Everything alive, grouped, largest first.
    pub alive: Vec<Group>,
    /// Calls that the driver refused.
    pub failures: Vec<Failure>,
    /// Calls that had not returned.
    pub in_flight: Vec<InFlight>,
    /// What was noted.
    pub notes: Notes,
}

/// What became of the records.
#[derive(Clone, Debug, Serialize)]
pub struct Records {
    /// Given out in all.
    pub total: u64,
    /// Read.
    pub read: u64,
    /// Overwritten by newer ones.
    pub overwritten: u64,
    /// Begun and never committed.
    pub holes: u64,
    /// Dropped by the recorder.
    pub dropped: u64,
    /// Whether the ring could not grow to its planned length.
    pub frozen: bool,
    /// The recorder's counters, those that are not zero.
    pub counters: BTreeMap<&'static str, u64>,
    /// Things given back that were born before the first record, or unseen.
    pub unknown_frees: u64,
    /// Addresses handed out again without a free that was seen.
    pub reused_addresses: u64,
    /// Calls of a later version.
    pub unknown_calls: u64,
    /// Calls refused since the driver had already shut down, as happens in every exit.
    pub after_shutdown: u64,
    /// Calls made inside other hooked calls, counted once.
    pub nested: u64,
}

/// A device.
#[derive(Debug, Serialize)]
pub struct Device {
    /// Ordinal in the process.
    pub ordinal: u8,
    /// UUID.
    pub uuid: String,
    /// Name.
    pub name: String,
    /// PCI bus id.
    pub pci: String,
    /// Total memory, bytes.
    pub total_bytes: u64,
    /// Linear and physical memory alive, as requested, bytes.
    pub live_bytes: u64,
    /// What the driver takes for it, an estimate by its rounding rules, bytes.
    pub footprint_bytes: u64,
    /// Greatest `live_bytes` of the run (not of the moment asked about).
    pub peak_bytes: u64,
    /// When, seconds.
    pub peak_seconds: f64,
    /// `cuMemAlloc` and `cuMemAllocPitch`, bytes alive.
    pub linear_bytes: u64,
    /// Their number.
    pub linear_count: u64,
    /// `cuMemCreate` on this device, bytes alive.
    pub physical_bytes: u64,
    /// Their number.
    pub physical_count: u64,
    /// Of these mapped somewhere, bytes.
    pub mapped_bytes: u64,
    /// Handed out by stream-ordered pools, bytes alive; what the pools themselves hold is not visible yet.
    pub pool_bytes: u64,
    /// Their number.
    pub pool_count: u64,
    /// Managed memory alive, bytes; where its pages are is not visible.
    pub managed_bytes: u64,
    /// Their number.
    pub managed_count: u64,
    /// Bytes ever allocated.
    pub allocated_bytes: u64,
    /// Allocations ever made.
    pub allocations: u64,
    /// Allocations given back.
    pub frees: u64,
    /// Contexts on this device, in order of beginning.
    pub contexts: Vec<Context>,
    /// Greatest live bytes in equal parts of the run.
    pub course: Vec<u64>,
    #[serde(skip)]
    spark: String,
}

/// A context.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// Handle.
    pub handle: String,
    /// "primary", "created" or "unseen".
    pub origin: &'static str,
    /// References held.
    pub references: u32,
    /// When it began, seconds.
    pub began_seconds: f64,
    /// The call that made it.
    pub call: String,
    /// Who made that call.
    pub caller: String,
    /// Thread.
    pub thread: u32,
    /// When it ended, seconds.
    pub ended_seconds: Option<f64>,
    /// "released", "reset" or "destroyed".
    pub ended_by: Option<&'static str>,
}

/// Host memory and address space.
#[derive(Debug, Default, Serialize)]
pub struct HostMemory {
    /// Page-locked, bytes.
    pub pinned_bytes: u64,
    /// Number.
    pub pinned_count: u64,
    /// Registered, bytes.
    pub registered_bytes: u64,
    /// Number.
    pub registered_count: u64,
    /// `cuMemCreate` on the host, bytes.
    pub physical_bytes: u64,
    /// Number.
    pub physical_count: u64,
    /// Reserved addresses, bytes: no memory.
    pub reserved_bytes: u64,
    /// Number.
    pub reserved_count: u64,
}

/// Allocations of the same call, caller, size and device.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The call.
    pub call: String,
    /// Library and offset of the caller.
    pub caller: String,
    /// "linear", "physical", "pool", "managed", "pinned", "registered" or "reserved".
    pub space: &'static str,
    /// Device ordinal.
    pub device: Option<u8>,
    /// Size of each, bytes.
    pub size: u64,
    /// How many.
    pub count: u64,
    /// All of them, bytes.
    pub bytes: u64,
    /// First birth, seconds.
    pub first_seconds: f64,
    /// Last birth, seconds.
    pub last_seconds: f64,
}

/// Refused calls.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// The call.
    pub call: String,
    /// Result code.
    pub result: u16,
    /// Its name.
    pub name: String,
    /// How many times.
    pub count: u64,
    /// Greatest size asked for, bytes.
    pub largest_bytes: u64,
    /// First time, seconds.
    pub first_seconds: f64,
    /// Last time, seconds.
    pub last_seconds: f64,
    /// Caller of the last.
    pub caller: String,
}

/// A call that had not returned.
#[derive(Debug, Serialize)]
pub struct InFlight {
    /// The call.
    pub call: String,
    /// Its size argument, bytes.
    pub size: u64,
    /// Its address or handle argument.
    pub address: String,
    /// Thread.
    pub thread: u32,
    /// Name of the thread.
    pub thread_name: String,
}

/// What was noted.
#[derive(Debug, Default, Serialize)]
pub struct Notes {
    /// Abilities that the recorder lost.
    pub degraded: Vec<String>,
    /// UUIDs of private driver tables that were asked for.
    pub export_tables: Vec<String>,
    /// Driver entry points handed out that have no hook.
    pub unhooked: Vec<String>,
}

/// A counter's name in machine output.
fn counter_name(counter: Counter) -> &'static str {
    match counter {
        Counter::SlotBusy => "dropped_slot_busy",
        Counter::RingNotReady => "dropped_ring_not_ready",
        Counter::WhileOpening => "missed_while_opening",
        Counter::UnchangedContext => "unchanged_cuCtxSetCurrent",
        Counter::StacksFull => "stacks_full",
        Counter::ContextsFull => "contexts_full",
        Counter::ThreadsFull => "threads_full",
        Counter::ModulesFull => "modules_full",
        Counter::TextsFull => "texts_full",
        Counter::Unhooked => "unhooked_entry_points",
        Counter::Foreign => "foreign_answers",
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Device => "linear",
        Space::Physical => "physical",
        Space::Pool => "pool",
        Space::Managed => "managed",
        Space::Host => "pinned",
        Space::Registered => "registered",
        Space::Virtual => "reserved",
    }
}

/// How a process ended, in words.
pub fn fate_text(fate: Fate) -> String {
    match fate {
        Fate::Running => "running".to_owned(),
        Fate::Exited => "ended by exit".to_owned(),
        Fate::Signal(signal) => format!("ended by {}", names::signal(signal)),
        Fate::Status(status) => format!("ended with status {status}"),
        Fate::Gone => "ended without exit handlers (killed, crashed or _exit)".to_owned(),
        Fate::Elsewhere => "of another host or an earlier boot".to_owned(),
        Fate::OtherNamespace => "of another pid namespace, may still run".to_owned(),
    }
}

/// Reads a capture and says what it holds.
///
/// # Errors
/// When the file cannot be read.
pub fn process(capture: &Capture, options: &Options) -> Result<Process, Error> {
    let opened = capture.identity.opened_monotonic_ns;
    let until = options
        .at_seconds
        .map_or(u64::MAX, |s| opened.saturating_add_signed((s * 1e9) as i64));
    let mut whole = Ledger::default();
    let mut then = None;
    let mut state = Ledger::default();
    let tally = capture.records(|record| {
        if options.at_seconds.is_some() {
            // The peak and the course are the whole run's, whatever moment is asked about.
            if record.at_ns <= until {
                state.take(record, &capture.tables);
            }
            then = then.max((record.at_ns > until).then_some(()));
        }
        whole.take(record, &capture.tables);
    })?;
    let earlier = then.is_some();
    let state = if options.at_seconds.is_some() {
        &state
    } else {
        &whole
    };
    let fate = Fate::of(capture);
    let end = whole.span_ns().map_or(opened, |(_, last)| last);
    let shown_end = end.min(until);
    let surprises = whole.surprises();
    let alive = state.alive();
    let tables = &capture.tables;
    let records = records(capture, tally, surprises);
    let exact = records.overwritten == 0
        && records.dropped == 0
        && records.counters.get("missed_while_opening").is_none()
        && records.unknown_calls == 0;
    let mut devices: Vec<Device> = whole
        .devices()
        .keys()
        .map(|ordinal| device(capture, *ordinal, &whole, state, &alive, end))
        .collect();
    let mut groups = groups(capture, &alive);
    if let Some(wanted) = &options.device {
        let chosen = |device: &Device| {
            device.ordinal.to_string() == *wanted
                || device.uuid.starts_with(wanted.as_str())
                || device
                    .uuid
                    .trim_start_matches("GPU-")
                    .starts_with(wanted.as_str())
        };
        devices.retain(chosen);
        groups.retain(|g| devices.iter().any(|d| Some(d.ordinal) == g.device));
    }
    Ok(Process {
        capture: capture.path.display().to_string(),
        pid: capture.identity.pid,
        command: capture.identity.command.clone(),
        host: capture.identity.host.clone(),
        opened: units::wall_utc(capture.identity.opened_realtime_ns),
        opened_realtime_ns: capture.identity.opened_realtime_ns,
        opened_monotonic_ns: opened,
        seconds: units::seconds_since(shown_end, opened),
        fate: fate_text(fate),
        over: fate.is_over(),
        earlier,
        driver_version: capture.identity.driver_version,
        driver_file: capture.identity.driver_file.clone(),
        shim_version: capture.identity.shim_version.clone(),
        environment: capture.identity.environment.clone(),
        exact,
        records,
        devices,
        host_memory: host_memory(&alive),
        alive: groups,
        failures: state
            .failures()
            .iter()
            .map(|((call, result), failures)| Failure {
                call: crate::capture::symbol(*call),
                result: *result,
                name: names::result(*result),
                count: failures.count,
                largest_bytes: failures.largest,
                first_seconds: units::seconds_since(failures.first_ns, opened),
                last_seconds: units::seconds_since(failures.last_ns, opened),
                caller: tables.caller(failures.stack),
            })
            .collect(),
        in_flight: in_flight(capture, fate),
        notes: notes(capture),
    })
}

fn records(capture: &Capture, tally: Tally, surprises: ledger::Surprises) -> Records {
    Records {
        total: tally.total,
        read: tally.read,
        overwritten: tally.overwritten,
        holes: tally.holes,
        dropped: tally.dropped,
        frozen: capture.frozen(),
        counters: Counter::ALL
            .into_iter()
            .map(|counter| (counter_name(counter), capture.counter(counter)))
            .filter(|(_, value)| *value != 0)
            .collect(),
        unknown_frees: surprises.unknown_frees,
        reused_addresses: surprises.reused,
        unknown_calls: surprises.unknown_calls,
        after_shutdown: surprises.after_shutdown,
        nested: surprises.nested,
    }
}

fn device(
    capture: &Capture,
    ordinal: u8,
    whole: &Ledger,
    state: &Ledger,
    alive: &[Object],
    end_ns: u64,
) -> Device {
    let opened = capture.identity.opened_monotonic_ns;
    let known = capture.tables.device(ordinal);
    let books = &whole.devices()[&ordinal];
    let here: Vec<Object> = alive
        .iter()
        .filter(|object| object.device == Some(ordinal))
        .copied()
        .collect();
    let sum = |space: Space| {
        here.iter()
            .filter(|object| object.space == space)
            .fold((0, 0), |(bytes, count): (u64, u64), object| {
                (bytes.saturating_add(object.size), count + 1)
            })
    };
    let (linear_bytes, linear_count) = sum(Space::Device);
    let (physical_bytes, physical_count) = sum(Space::Physical);
    let (pool_bytes, pool_count) = sum(Space::Pool);
    let (managed_bytes, managed_count) = sum(Space::Managed);
    let columns = books.timeline.columns(opened, end_ns, SPARK_COLUMNS);
    Device {
        ordinal,
        uuid: known.map_or_else(|| "unknown".to_owned(), |d| names::uuid(d.uuid)),
        name: known.map_or_else(|| "unknown device".to_owned(), |d| d.name.clone()),
        pci: known.map_or_else(String::new, |d| d.pci.clone()),
        total_bytes: known.map_or(0, |d| d.total),
        live_bytes: linear_bytes.saturating_add(physical_bytes),
        footprint_bytes: ledger::footprint(&here),
        peak_bytes: books.peak,
        peak_seconds: if books.peak == 0 {
            0.0
        } else {
            units::seconds_since(books.peak_ns, opened)
        },
        linear_bytes,
        linear_count,
        physical_bytes,
        physical_count,
        mapped_bytes: state.mapped_bytes(ordinal),
        pool_bytes,
        pool_count,
        managed_bytes,
        managed_count,
        allocated_bytes: books.allocated,
        allocations: books.allocations,
        frees: books.frees,
        contexts: contexts(capture, ordinal, state),
        course: columns.iter().map(|column| column.greatest).collect(),
        spark: crate::render::chart::sparkline(&columns),
    }
}

fn contexts(capture: &Capture, ordinal: u8, state: &Ledger) -> Vec<Context> {
    let opened = capture.identity.opened_monotonic_ns;
    state
        .lives()
        .iter()
        .filter(|life| life.device == Some(ordinal))
        .map(|life| Context {
            handle: format!("{:#x}", life.handle),
            origin: match life.origin {
                Origin::Primary => "primary",
                Origin::Created => "created",
                Origin::Unseen => "unseen",
            },
            references: life.references,
            began_seconds: units::seconds_since(life.began_ns, opened),
            call: crate::capture::symbol(life.call),
            caller: capture.tables.caller(life.stack),
            thread: life.thread,
            ended_seconds: life.ended.map(|(at, _)| units::seconds_since(at, opened)),
            ended_by: life.ended.map(|(_, how)| match how {
                End::Released => "released",
                End::Reset => "reset",
                End::Destroyed => "destroyed",
            }),
        })
        .collect()
}

fn host_memory(alive: &[Object]) -> HostMemory {
    let mut host = HostMemory::default();
    for object in alive {
        let (bytes, count) = match (object.space, object.device) {
            (Space::Host, _) => (&mut host.pinned_bytes, &mut host.pinned_count),
            (Space::Registered, _) => (&mut host.registered_bytes, &mut host.registered_count),
            (Space::Virtual, _) => (&mut host.reserved_bytes, &mut host.reserved_count),
            (Space::Physical, None) => (&mut host.physical_bytes, &mut host.physical_count),
            _ => continue,
        };
        *bytes = bytes.saturating_add(object.size);
        *count += 1;
    }
    host
}

fn groups(capture: &Capture, alive: &[Object]) -> Vec<Group> {
    let opened = capture.identity.opened_monotonic_ns;
    // By the caller's place in its library: the same site of two loads is one.
    let mut callers: HashMap<u32, String> = HashMap::new();
    let mut groups: BTreeMap<(u16, String, u64, Option<u8>), Group> = BTreeMap::new();
    for object in alive {
        let caller = callers
            .entry(object.stack)
            .or_insert_with(|| capture.tables.caller(object.stack))
            .clone();
        let at = units::seconds_since(object.born_ns, opened);
        let group = groups
            .entry((object.call, caller, object.size, object.device))
            .or_insert_with_key(|(call, caller, size, device)| Group {
                call: crate::capture::symbol(*call),
                caller: caller.clone(),
                space: space_name(object.space),
                device: *device,
                size: *size,
                count: 0,
                bytes: 0,
                first_seconds: at,
                last_seconds: at,
            });
        group.count += 1;
        group.bytes = group.bytes.saturating_add(object.size);
        group.first_seconds = group.first_seconds.min(at);
        group.last_seconds = group.last_seconds.max(at);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    // Address space is not memory: it comes last however large it is.
    groups.sort_by_key(|group| (group.space == "reserved", std::cmp::Reverse(group.bytes)));
    groups
}

fn in_flight(capture: &Capture, fate: Fate) -> Vec<InFlight> {
    // Of a process that exits, the call that ended it is none.
    if fate == Fate::Exited {
        return Vec::new();
    }
    capture
        .tables
        .threads
        .iter()
        .filter_map(|thread| {
            thread.in_flight.map(|call| InFlight {
                call: call.symbol(),
                size: call.size,
                address: format!("{:#x}", call.address),
                thread: thread.id,
                thread_name: thread.name.clone(),
            })
        })
        .collect()
}

fn notes(capture: &Capture) -> Notes {
    let mut notes = Notes::default();
    for note in &capture.tables.notes {
        match note {
            Note::Degraded(text) => notes.degraded.push(text.clone()),
            Note::ExportTable(uuid, _) => notes.export_tables.push(uuid.clone()),
            Note::Unhooked(name, _) => notes.unhooked.push(name.clone()),
            Note::Unknown(kind, _) => notes.degraded.push(format!(
                "a note of kind {kind}, which only a later version knows"
            )),
        }
    }
    notes
}
