//! What a capture says, as data: the one model behind the text, JSON and CSV of `gpushim report`.

mod alive;
mod losses;
mod model;
pub mod moment;
mod shared;
pub mod sites;
pub mod text;
mod torch;
pub mod views;

use std::collections::{BTreeMap, HashMap};

use gpushim_abi::effect::Place;
use gpushim_abi::hooks::Class;
use gpushim_abi::layout::Counter;

use crate::capture::{Capture, Note, Stack, Tally, absent_text};
use crate::error::Error;
use crate::ledger::{self, End, Ledger, Level, Object, Origin};
use crate::render::{names, units};
use crate::session::{Fate, Standing};
pub use losses::losses;
pub use model::{
    Context, Device, Failure, Frame, Group, HostMemory, InFlight, Notes, Process, Records,
    Together, Torch, Totals,
};
use moment::Moment;
pub use shared::Shared;

/// Name and version of the JSON form.
pub const SCHEMA: &str = "gpushim.report/1";
/// Columns of the small chart.
const SPARK_COLUMNS: usize = 60;

/// What to report on.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only this device: an ordinal, or the beginning of a UUID.
    pub device: Option<String>,
    /// The state at this moment, instead of the last one.
    pub at: Option<Moment>,
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
        Counter::FramesFull => "frames_full",
        Counter::EarlyMarks => "early_marks_lost",
    }
}

/// A class's name in output.
pub(crate) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Linear => "linear",
        Class::Physical => "physical",
        Class::PoolBlock => "pool",
        Class::Managed => "managed",
        Class::Pinned => "pinned",
        Class::Registered => "registered",
        Class::Reserved => "reserved",
        Class::Array => "array",
        Class::MipmappedArray => "mipmapped array",
        Class::GraphBlock => "graph",
        Class::IpcMapping => "ipc",
        Class::ExternalMemory => "external memory",
        Class::ExternalBuffer => "external",
        Class::Multicast => "multicast",
        Class::Endpoint => "endpoint",
        Class::Pool => "memory pool",
        Class::Graph => "graph template",
        Class::GraphExec => "executable graph",
        Class::Module => "module",
        Class::Library => "library",
        Class::Stream => "stream",
        Class::Event => "event",
        Class::Texture => "texture object",
        Class::Surface => "surface object",
        Class::ExternalSemaphore => "external semaphore",
        Class::GraphicsResource => "graphics resource",
        Class::GreenContext => "green context",
    }
}

/// How a process ended, in words.
pub fn fate_text(fate: Fate) -> String {
    match fate {
        Fate::Running => "running, being written now".to_owned(),
        Fate::Exited => "exited".to_owned(),
        Fate::Signal(signal) => format!("ended by {}", names::signal(signal)),
        Fate::Status(status) => format!("ended with status {status}"),
        Fate::Gone => "ended without an exit (killed, crashed, _exit or exec)".to_owned(),
        Fate::Elsewhere => "of another host or an earlier boot, its end unknown".to_owned(),
        Fate::OtherNamespace => "of another pid namespace, may still be running".to_owned(),
    }
}

/// A capture that was read: what it says, and the books behind it.
#[derive(Debug)]
pub struct Reading {
    /// What it says.
    pub process: Process,
    /// The books at the moment asked about.
    pub state: Ledger,
    /// End of its time, CLOCK_MONOTONIC ns.
    pub end_ns: u64,
}

/// Reads captures and says what they hold, and what they share.
///
/// # Errors
/// When a file cannot be read.
pub fn session(captures: &[Capture], options: &Options) -> Result<Vec<Reading>, Error> {
    let mut readings = Vec::new();
    for capture in captures {
        readings.push(read(capture, options)?);
    }
    shared::join(captures, &mut readings);
    Ok(readings)
}

/// Reads one capture and says what it holds.
///
/// # Errors
/// When the file cannot be read.
pub fn read(capture: &Capture, options: &Options) -> Result<Reading, Error> {
    let opened = capture.identity.opened_monotonic_ns;
    let until = match &options.at {
        None => u64::MAX,
        Some(at) => at.at_ns(capture, &moment::phases(capture, &[at])?)?,
    };
    let mut whole = Ledger::default();
    let mut earlier = false;
    let mut state = Ledger::default();
    let tally = capture.records(|record| {
        if options.at.is_some() {
            // The peak and the course are the whole run's, whatever moment is asked about.
            if record.at_ns <= until {
                state.take(record, &capture.tables);
            }
            earlier |= record.at_ns > until;
        }
        whole.take(record, &capture.tables);
    })?;
    let state_ref = if options.at.is_some() { &state } else { &whole };
    let Standing { fate, until_ns } = Standing::of(capture);
    let end = end_ns(capture, &whole, until_ns);
    let start = start_ns(capture, &whole, tally.overwritten > 0);
    let shown_end = end.min(until);
    let alive = state_ref.alive();
    let tables = &capture.tables;
    let records = records(capture, tally, &whole);
    let losses = losses(&records);
    let mut devices: Vec<Device> = whole
        .devices()
        .keys()
        .map(|ordinal| device(capture, *ordinal, &whole, state_ref, &alive, (start, end)))
        .collect();
    let mut groups = groups(capture, &alive);
    if let Some(wanted) = &options.device {
        devices.retain(|device| names::is_device(wanted, device.ordinal, &device.uuid));
        groups.retain(|g| devices.iter().any(|d| Some(d.ordinal) == g.device));
    }
    let blocks = torch::sites(capture, state_ref, &options.device, &devices);
    let process = Process {
        capture: capture.path.display().to_string(),
        pid: capture.identity.pid,
        command: capture.identity.command.clone(),
        host: capture.identity.host.clone(),
        opened: units::wall_utc(capture.identity.opened_realtime_ns),
        opened_realtime_ns: capture.identity.opened_realtime_ns,
        opened_monotonic_ns: opened,
        seconds: units::seconds_since(shown_end, opened),
        course_from_seconds: units::seconds_since(start, opened),
        course_to_seconds: units::seconds_since(end, opened),
        fate: fate_text(fate),
        over: fate.is_over(),
        running: fate == Fate::Running,
        earlier,
        driver_version: capture.identity.driver_version,
        driver_file: capture.identity.driver_file.clone(),
        shim_version: capture.identity.shim_version.clone(),
        environment: capture.identity.environment.clone(),
        exact: losses.is_empty(),
        losses,
        records,
        devices,
        host_memory: host_memory(&alive),
        blocks,
        torch_refused: torch::refusals(capture, state_ref),
        alive: groups,
        totals: state_ref
            .totals()
            .iter()
            .map(|(class, totals)| {
                let totals = Totals {
                    created: totals.created,
                    freed: totals.ended.saturating_sub(totals.reclaimed),
                    reclaimed: totals.reclaimed,
                };
                (class_name(*class), totals)
            })
            .collect(),
        calls: state_ref
            .calls()
            .iter()
            .map(|(call, count)| (crate::capture::symbol(*call), *count))
            .collect(),
        failures: state_ref
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
        in_flight: if earlier {
            Vec::new()
        } else {
            in_flight(capture, fate)
        },
        shared: Vec::new(),
        notes: notes(capture),
    };
    drop(alive);
    Ok(Reading {
        process,
        state: if options.at.is_some() { state } else { whole },
        end_ns: shown_end,
    })
}

/// The end of a capture's time, CLOCK_MONOTONIC ns: that of the process where it is known, else of the last record.
pub fn end_ns(capture: &Capture, ledger: &Ledger, until_ns: Option<u64>) -> u64 {
    let opened = capture.identity.opened_monotonic_ns;
    let last = ledger.span_ns().map_or(opened, |(_, last)| last);
    last.max(until_ns.unwrap_or(last))
}

/// The beginning of what a chart can show, CLOCK_MONOTONIC ns: the opening of the capture, or the oldest record where those before
/// it were overwritten.
pub fn start_ns(capture: &Capture, ledger: &Ledger, overwritten: bool) -> u64 {
    let opened = capture.identity.opened_monotonic_ns;
    match ledger.span_ns() {
        Some((first, _)) if overwritten => first,
        _ => opened,
    }
}

/// What became of a capture's records.
pub fn records(capture: &Capture, tally: Tally, ledger: &Ledger) -> Records {
    let surprises = ledger.surprises();
    let (failed_captures, graphs_ended_alive, unfollowed_launches) = ledger.graph_troubles();
    Records {
        total: tally.total,
        read: tally.read,
        overwritten: tally.overwritten,
        holes: tally.holes,
        dropped: tally.dropped,
        cut_off: tally.cut_off,
        frozen: capture.frozen(),
        counters: Counter::ALL
            .into_iter()
            .map(|counter| {
                let threads = capture.tables.threads.iter();
                let more = if counter == Counter::UnchangedContext {
                    threads.fold(0_u64, |sum, thread| sum.saturating_add(thread.unchanged))
                } else {
                    0
                };
                let value = capture.counter(counter).saturating_add(more);
                (counter_name(counter), value)
            })
            .filter(|(_, value)| *value != 0)
            .collect(),
        unknown_frees: surprises.unknown_frees,
        reused_addresses: surprises.reused,
        unknown_calls: surprises.unknown_calls,
        after_shutdown: surprises.after_shutdown,
        nested: surprises.nested,
        narrow_calls: surprises.narrow,
        unknown_formats: surprises.unknown_formats,
        failed_captures,
        graphs_ended_alive,
        unfollowed_launches,
        checkpoints: ledger
            .checkpoints()
            .iter()
            .map(|((call, process), count)| {
                let name = format!("{} of process {process}", crate::capture::symbol(*call));
                (name, *count)
            })
            .collect(),
    }
}

fn device(
    capture: &Capture,
    ordinal: u8,
    whole: &Ledger,
    state: &Ledger,
    alive: &[&Object],
    (start_ns, end_ns): (u64, u64),
) -> Device {
    let opened = capture.identity.opened_monotonic_ns;
    let known = capture.tables.device(ordinal);
    let books = &whole.devices()[&ordinal];
    let then = state.devices().get(&ordinal);
    let here: Vec<&Object> = alive
        .iter()
        .filter(|object| object.device == Some(ordinal))
        .copied()
        .collect();
    let sum = |wanted: &dyn Fn(&Object) -> bool| {
        here.iter()
            .filter(|object| wanted(object))
            .fold((0, 0), |(bytes, count): (u64, u64), object| {
                (bytes.saturating_add(object.size), count + 1)
            })
    };
    let own = |class: Class| sum(&|object| object.class == class && !object.is_imported);
    let (linear_bytes, linear_count) = own(Class::Linear);
    let (physical_bytes, physical_count) = own(Class::Physical);
    let (pool_bytes, pool_count) = own(Class::PoolBlock);
    let (managed_bytes, managed_count) = own(Class::Managed);
    let (graph_bytes, graph_count) = own(Class::GraphBlock);
    let (array_bytes, array_count) = sum(&|object| object.array_bytes > 0);
    // A buffer of external memory is a part of what is counted already.
    let (imported_bytes, imported_count) = sum(&|object| {
        object.is_imported
            && ledger::is_memory(object.class)
            && !matches!(object.class, Class::ExternalBuffer | Class::MipmappedArray)
    });
    let managed_prefetched_bytes = here
        .iter()
        .filter(|object| object.class == Class::Managed)
        .filter_map(|object| state.residency(object.address))
        .filter(|sent| sent.place == Place::Device(ordinal))
        .fold(0_u64, |sum, sent| sum.saturating_add(sent.bytes));
    let pools = state.pools();
    let of_device = pools.iter().filter(|pool| pool.device == Some(ordinal));
    let pool_reserved_bytes = of_device.fold(0_u64, |sum, pool| sum.saturating_add(pool.reserved));
    let graph_reserved_bytes = then.map_or(0, |books| books.graphs_reserved);
    let adrift_bytes = state
        .adrift()
        .iter()
        .filter(|physical| physical.object.device == Some(ordinal))
        .fold(0_u64, |sum, physical| {
            sum.saturating_add(physical.object.size)
        });
    let stack_limit_bytes = stack_limits(state, ordinal, known.map(|d| d.processors));
    let mut handles: BTreeMap<&'static str, u64> = BTreeMap::new();
    for object in here.iter().filter(|o| !ledger::is_memory(o.class)) {
        *handles.entry(class_name(object.class)).or_default() += 1;
    }
    let footprint = ledger::footprint(here.iter().copied())
        .saturating_add(pool_reserved_bytes)
        .saturating_add(graph_reserved_bytes)
        .saturating_add_signed(stack_limit_bytes);
    let columns = books.timeline.columns(start_ns, end_ns, SPARK_COLUMNS);
    Device {
        ordinal,
        uuid: known.map_or_else(|| "unknown".to_owned(), |d| names::uuid(d.uuid)),
        name: known.map_or_else(|| "unknown device".to_owned(), |d| d.name.clone()),
        pci: known.map_or_else(String::new, |d| d.pci.clone()),
        total_bytes: known.map_or(0, |d| d.total),
        live_bytes: then.map_or(0, |books| books.live),
        footprint_bytes: footprint,
        peak_bytes: books.peak,
        peak_seconds: if books.peak == 0 {
            0.0
        } else {
            units::seconds_since(books.peak_ns, opened)
        },
        torch: torch::device(capture, state, whole, ordinal),
        linear_bytes,
        linear_count,
        physical_bytes,
        physical_count,
        mapped_bytes: state.mapped_bytes(ordinal),
        adrift_bytes,
        array_bytes,
        array_count,
        pool_reserved_bytes,
        pool_bytes,
        pool_count,
        graph_reserved_bytes,
        graph_bytes,
        graph_count,
        imported_bytes,
        imported_count,
        managed_bytes,
        managed_count,
        managed_prefetched_bytes,
        stack_limit_bytes,
        handles,
        allocated_bytes: then.map_or(0, |books| books.allocated),
        allocations: then.map_or(0, |books| books.allocations),
        frees: then.map_or(0, |books| books.frees),
        contexts: contexts(capture, ordinal, state),
        course: columns.iter().map(|column| column.greatest).collect(),
        spark: crate::render::chart::sparkline(&columns),
    }
}

/// What threads' stacks take beyond the usual in the living contexts of a device: each of its threads has one (measured on driver 580:
/// 16 KiB take 3,960 MiB on an H200 of 132 processors with 2,048 threads).
fn stack_limits(state: &Ledger, ordinal: u8, processors: Option<(u32, u32)>) -> i64 {
    /// What a context begins with, bytes.
    const USUAL: i128 = 1024;
    let (processors, threads) = processors.unwrap_or_default();
    let stacks = i128::from(processors) * i128::from(threads);
    let more: i128 = state
        .lives()
        .iter()
        .filter(|life| life.device == Some(ordinal) && life.ended.is_none())
        .filter_map(|life| life.stack_limit)
        .map(|limit| (i128::from(limit) - USUAL).saturating_mul(stacks))
        .fold(0, i128::saturating_add);
    i64::try_from(more).unwrap_or(i64::MAX)
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
            reclaimed_count: life.reclaimed.0,
            reclaimed_bytes: life.reclaimed.1,
            stack_limit_bytes: life.stack_limit,
        })
        .collect()
}

fn host_memory(alive: &[&Object]) -> HostMemory {
    let mut host = HostMemory::default();
    for object in alive {
        let (bytes, count) = match (object.class, object.device) {
            (Class::Pinned, _) => (&mut host.pinned_bytes, &mut host.pinned_count),
            (Class::Registered, _) => (&mut host.registered_bytes, &mut host.registered_count),
            (Class::Reserved, _) => (&mut host.reserved_bytes, &mut host.reserved_count),
            (Class::Physical, None) if !object.is_imported => {
                (&mut host.physical_bytes, &mut host.physical_count)
            }
            _ => continue,
        };
        *bytes = bytes.saturating_add(object.size);
        *count += 1;
    }
    host
}

/// How often and when something was born.
struct Births {
    class: Class,
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Births {
    fn of(object: &Object) -> Self {
        Self {
            class: object.class,
            count: 0,
            first_ns: object.born_ns,
            last_ns: object.born_ns,
        }
    }

    fn add(&mut self, object: &Object) {
        self.count += 1;
        self.first_ns = self.first_ns.min(object.born_ns);
        self.last_ns = self.last_ns.max(object.born_ns);
    }
}

/// Why a stack has no frames of Python, or not all.
pub(crate) fn stack_note(stack: &Stack) -> Option<&'static str> {
    if stack.cut {
        return Some("outer frames were left out: the stack is too deep");
    }
    stack.absent.map(absent_text)
}

fn groups(capture: &Capture, alive: &[&Object]) -> Vec<Group> {
    let opened = capture.identity.opened_monotonic_ns;
    // First by the stack, which is a number, then by the caller's place in its library, which is text: the same site may have
    // several stacks, and there are many more objects than sites.
    let mut by_stack: HashMap<(u16, u32, u64, Option<u8>), Births> = HashMap::new();
    for object in alive.iter().filter(|o| ledger::is_memory(o.class)) {
        by_stack
            .entry((object.call, object.stack, object.size, object.device))
            .or_insert_with(|| Births::of(object))
            .add(object);
    }
    type Key = (u16, String, Vec<Frame>, u64, Option<u8>);
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    for ((call, stack, size, device), births) in by_stack {
        let first = units::seconds_since(births.first_ns, opened);
        let last = units::seconds_since(births.last_ns, opened);
        let caller = capture.tables.caller(stack);
        let frames = capture.tables.stack(stack);
        let python: Vec<Frame> = frames.python.iter().map(Frame::from).collect();
        let group = groups
            .entry((call, caller.clone(), python.clone(), size, device))
            .or_insert_with(|| Group {
                call: crate::capture::symbol(call),
                caller,
                site: frames.site().map(Frame::from),
                stack: python,
                stack_note: stack_note(&frames),
                space: class_name(births.class),
                device,
                size,
                count: 0,
                bytes: 0,
                first_seconds: first,
                last_seconds: last,
            });
        group.count += births.count;
        group.bytes = group
            .bytes
            .saturating_add(size.saturating_mul(births.count));
        group.first_seconds = group.first_seconds.min(first);
        group.last_seconds = group.last_seconds.max(last);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    // Address space is not memory: it comes last however large it is.
    groups.sort_by_key(|group| (group.space == "reserved", std::cmp::Reverse(group.bytes)));
    groups
}

/// Adds up like columns by device over several processes. Those that run are one sum, those that are over or out of reach
/// another: what ended at different times was never held together, but shows who had how much.
pub fn together(processes: &[Process]) -> Vec<Together> {
    let mut sums: BTreeMap<(bool, &str), Together> = BTreeMap::new();
    for process in processes {
        for device in &process.devices {
            let sum = sums
                .entry((!process.running, &device.uuid))
                .or_insert_with(|| Together {
                    uuid: device.uuid.clone(),
                    name: device.name.clone(),
                    moment: if process.running { "now" } else { "end" },
                    pids: Vec::new(),
                    contexts: 0,
                    live_bytes: 0,
                    pool_bytes: 0,
                    managed_bytes: 0,
                });
            let living = device.contexts.iter().filter(|c| c.ended_by.is_none());
            sum.pids.push(process.pid);
            sum.contexts += living.count() as u64;
            sum.live_bytes = sum.live_bytes.saturating_add(device.live_bytes);
            sum.pool_bytes = sum.pool_bytes.saturating_add(device.pool_bytes);
            sum.managed_bytes = sum.managed_bytes.saturating_add(device.managed_bytes);
        }
    }
    sums.into_values().collect()
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
