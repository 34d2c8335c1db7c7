//! `gpushim report --view`: the objects of one kind, each with its state.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, presets};
use gpushim_abi::effect::Place;
use gpushim_abi::hooks::Class;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Process, Reading, class_name};
use crate::capture::{self, Capture};
use crate::ledger::{self, Object, Physical, Pool};
use crate::render::{FAINT, WARNING, names, units};

/// Name and version of the JSON form.
pub const SCHEMA: &str = "gpushim.view/1";

/// Which objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Streams, events, modules, arrays, textures, graphs and their like, by who made them
    Handles,
    /// Stream-ordered pools: what they hold, and what of it is handed out
    Pools,
    /// Physical memory behind handles: released? mapped where? exported?
    Vmm,
    /// Pinned, registered and managed memory
    Host,
    /// What is shared with other processes: who owns it, who holds it
    Ipc,
    /// Graphs whose nodes allocate, and what their launches left
    Graphs,
    /// Modules and libraries, with their kernels and variables
    Modules,
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing is known, or nothing applies.
    Empty,
    /// Text.
    Text(String),
    /// A number.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Seconds since the capture was opened.
    Seconds(f64),
}

impl Cell {
    /// As people read it.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => crate::render::plain(text),
            Self::Count(n) => units::thousands(*n),
            Self::Bytes(bytes) => units::bytes(*bytes),
            Self::Seconds(seconds) => units::seconds(*seconds),
        }
    }

    /// As a table for machines has it.
    pub fn raw(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.clone(),
            Self::Count(n) | Self::Bytes(n) => n.to_string(),
            Self::Seconds(seconds) => format!("{seconds:.9}"),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Text(text) => json!(text),
            Self::Count(n) | Self::Bytes(n) => json!(n),
            Self::Seconds(seconds) => json!(seconds),
        }
    }

    /// Whether it belongs to the right of its column.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Count(_) | Self::Bytes(_) | Self::Seconds(_))
    }
}

/// The objects of one process.
#[derive(Clone, Debug)]
pub struct Table {
    /// Process id.
    pub pid: u32,
    /// Names of the columns; those of bytes and seconds end in their unit.
    pub columns: &'static [&'static str],
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// What the rows do not say.
    pub notes: Vec<String>,
}

impl Table {
    /// Leaves out what is on other devices than these, by their short names.
    pub fn keep_devices(&mut self, wanted: &[String]) {
        let Some(at) = self.columns.iter().position(|name| *name == "device") else {
            return;
        };
        self.rows.retain(|row| match row.get(at) {
            Some(Cell::Text(device)) => wanted.contains(device),
            _ => false,
        });
    }
}

/// Writes a table for people: columns without any value are left out.
///
/// # Errors
/// When the output cannot be written.
pub fn write(
    out: &mut dyn Write,
    view: View,
    table: &Table,
    process: &Process,
    width: usize,
) -> io::Result<()> {
    let what = format!(
        "{}, pid {}, {}",
        units::count(table.rows.len() as u64, "row", "rows"),
        process.pid,
        process.fate
    );
    super::text::headline(
        out,
        &format!("report, {}", view.name()),
        &process.command,
        &what,
        width,
    )?;
    for loss in &process.losses {
        super::text::wrap(out, width, WARNING, &format!("not exact: {loss}"))?;
    }
    rows(out, table, width)?;
    for note in &table.notes {
        super::text::wrap(out, width, FAINT, note)?;
    }
    Ok(())
}

/// Columns that may be long: where a row does not fit, they have a line of their own below it.
const LONG: [&str; 4] = ["mapped_at", "finding", "call", "caller"];

fn rows(out: &mut dyn Write, table: &Table, width: usize) -> io::Result<()> {
    if table.rows.is_empty() {
        return Ok(());
    }
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|at| table.rows.iter().any(|row| row[*at] != Cell::Empty))
        .collect();
    let beside = grid(table, &shown);
    if beside.iter().all(|line| line.chars().count() <= width) {
        for line in beside {
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let (long, short): (Vec<usize>, Vec<usize>) = shown
        .iter()
        .partition(|at| LONG.contains(&table.columns[**at]));
    let lines = grid(table, &short);
    for (index, line) in lines.iter().enumerate() {
        writeln!(out, "{line}")?;
        let Some(row) = index.checked_sub(1).and_then(|n| table.rows.get(n)) else {
            continue;
        };
        let below: Vec<String> = long
            .iter()
            .map(|at| row[*at].text())
            .filter(|text| !text.is_empty())
            .collect();
        if !below.is_empty() {
            let shape = textwrap::Options::new(width)
                .initial_indent("     ")
                .subsequent_indent("       ");
            for line in textwrap::wrap(&below.join(", "), shape) {
                writeln!(out, "{FAINT}{line}{FAINT:#}")?;
            }
        }
    }
    Ok(())
}

/// The header and a line for each row.
fn grid(table: &Table, columns: &[usize]) -> Vec<String> {
    let mut grid = comfy_table::Table::new();
    grid.load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.iter().map(|at| title(table.columns[*at])));
    for row in &table.rows {
        grid.add_row(columns.iter().map(|at| row[*at].text()));
    }
    for (column, at) in columns.iter().enumerate() {
        if table.rows.iter().any(|row| row[*at].is_number())
            && let Some(column) = grid.column_mut(column)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// A column's name for people.
fn title(name: &str) -> String {
    name.trim_end_matches("_bytes")
        .trim_end_matches("_seconds")
        .replace('_', " ")
}

impl View {
    /// As it is asked for.
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The JSON form of several tables.
#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    view: String,
    processes: Vec<Value>,
}

/// Makes the JSON form.
pub fn document(view: View, tables: &[Table]) -> Document {
    let processes = tables
        .iter()
        .map(|table| {
            let rows: Vec<Map<String, Value>> = table
                .rows
                .iter()
                .map(|row| {
                    let names = table.columns.iter().map(|name| (*name).to_owned());
                    names.zip(row.iter().map(Cell::json)).collect()
                })
                .collect();
            json!({ "pid": table.pid, "rows": rows, "notes": table.notes })
        })
        .collect();
    Document {
        schema: SCHEMA,
        view: view.name(),
        processes,
    }
}

/// The objects that a view shows; each one by itself where `all` is set, else alike ones together where there may be many.
pub fn table(view: View, capture: &Capture, reading: &Reading, all: bool) -> Table {
    let maker = Maker { capture, reading };
    let (columns, rows) = match view {
        View::Handles if all => maker.each_handle(),
        View::Handles => maker.handles(),
        View::Pools => maker.pools(),
        View::Vmm => maker.vmm(),
        View::Host => maker.host(),
        View::Ipc => maker.ipc(),
        View::Graphs => maker.graphs(),
        View::Modules => maker.modules(),
    };
    Table {
        pid: reading.process.pid,
        columns,
        rows,
        notes: maker.notes(view),
    }
}

type Rows = (&'static [&'static str], Vec<Vec<Cell>>);

struct Maker<'r> {
    capture: &'r Capture,
    reading: &'r Reading,
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

fn handle(value: u64) -> Cell {
    text(names::handle(value))
}

impl Maker<'_> {
    fn at(&self, ns: u64) -> Cell {
        let opened = self.capture.identity.opened_monotonic_ns;
        Cell::Seconds(units::seconds_since(ns, opened))
    }

    fn device(device: Option<u8>) -> Cell {
        device.map_or(Cell::Empty, |d| text(super::text::gpu(d)))
    }

    fn caller(&self, stack: u32) -> Cell {
        text(self.capture.tables.caller(stack))
    }

    fn context(&self, object: &Object) -> Cell {
        let life = object.life.and_then(|life| {
            let lives = self.reading.state.lives();
            lives.get(life as usize)
        });
        life.map_or(Cell::Empty, |life| handle(life.handle))
    }

    fn alive(&self) -> Vec<&Object> {
        self.reading.state.alive()
    }

    /// Handles of one kind, device, call and caller together.
    fn handles(&self) -> Rows {
        struct Alike {
            count: u64,
            bytes: u64,
            first_ns: u64,
            last_ns: u64,
        }
        let mut groups: BTreeMap<(&str, Option<u8>, u16, String), Alike> = BTreeMap::new();
        for object in self.alive().into_iter().filter(|o| is_handle(o)) {
            let key = (
                class_name(object.class),
                object.device,
                object.call,
                self.capture.tables.caller(object.stack),
            );
            let alike = groups.entry(key).or_insert(Alike {
                count: 0,
                bytes: 0,
                first_ns: object.born_ns,
                last_ns: object.born_ns,
            });
            alike.count += 1;
            alike.bytes = alike.bytes.saturating_add(object.size);
            alike.last_ns = alike.last_ns.max(object.born_ns);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, alike)| std::cmp::Reverse(alike.count));
        let rows = groups
            .into_iter()
            .map(|((kind, device, call, caller), alike)| {
                vec![
                    text(kind),
                    Cell::Count(alike.count),
                    if alike.bytes == 0 {
                        Cell::Empty
                    } else {
                        Cell::Bytes(alike.bytes)
                    },
                    Self::device(device),
                    text(capture::symbol(call)),
                    text(caller),
                    self.at(alike.first_ns),
                    self.at(alike.last_ns),
                ]
            })
            .collect();
        (
            &[
                "kind",
                "count",
                "bytes",
                "device",
                "call",
                "caller",
                "first_seconds",
                "last_seconds",
            ],
            rows,
        )
    }

    fn each_handle(&self) -> Rows {
        let rows = self
            .alive()
            .into_iter()
            .filter(|object| is_handle(object))
            .map(|object| {
                vec![
                    text(class_name(object.class)),
                    handle(object.address),
                    if object.size == 0 {
                        Cell::Empty
                    } else {
                        Cell::Bytes(object.size)
                    },
                    Self::device(object.device),
                    self.context(object),
                    text(capture::symbol(object.call)),
                    self.caller(object.stack),
                    self.at(object.born_ns),
                ]
            })
            .collect();
        (
            &[
                "kind",
                "handle",
                "bytes",
                "device",
                "context",
                "call",
                "caller",
                "born_seconds",
            ],
            rows,
        )
    }

    fn pools(&self) -> Rows {
        let origin = |pool: &Pool| match pool {
            _ if pool.is_imported => "imported",
            _ if pool.created.is_some() => "created",
            _ if pool.is_default => "default",
            _ => "the device's",
        };
        let rows = self
            .reading
            .state
            .pools()
            .iter()
            .filter(|pool| pool.destroyed_ns.is_none() || pool.blocks > 0)
            .map(|pool| {
                vec![
                    if pool.handle == 0 {
                        Cell::Empty
                    } else {
                        handle(pool.handle)
                    },
                    Self::device(pool.device),
                    text(origin(pool)),
                    text(match pool.destroyed_ns {
                        Some(_) => "destroyed, blocks are out",
                        None => "alive",
                    }),
                    Cell::Bytes(pool.reserved),
                    Cell::Bytes(pool.reserved_peak),
                    Cell::Bytes(pool.requested),
                    Cell::Count(pool.blocks),
                    match pool.threshold {
                        None => Cell::Empty,
                        Some(u64::MAX) => text("all"),
                        Some(bytes) => text(units::bytes(bytes)),
                    },
                    pool.said_ns.map_or(Cell::Empty, |ns| self.at(ns)),
                    pool.created
                        .map_or(Cell::Empty, |(_, stack, _)| self.caller(stack)),
                ]
            })
            .collect();
        (
            &[
                "pool",
                "device",
                "origin",
                "state",
                "reserved_bytes",
                "reserved_peak_bytes",
                "requested_bytes",
                "blocks",
                "keeps_at_a_wait",
                "said_seconds",
                "caller",
            ],
            rows,
        )
    }

    fn vmm(&self) -> Rows {
        let state = &self.reading.state;
        let mappings = state.mappings();
        let at = |physical: &Physical| {
            let places = mappings.get(&physical.object.sequence);
            places.map_or(&[][..], Vec::as_slice)
        };
        let mut rows: Vec<Vec<Cell>> = state
            .physical()
            .into_iter()
            .map(|physical| self.physical(physical, at(physical), false))
            .collect();
        let adrift = state.adrift().iter();
        rows.extend(adrift.map(|physical| self.physical(physical, &[], true)));
        rows.extend(
            self.alive()
                .into_iter()
                .filter(|object| object.class == Class::Reserved)
                .map(|object| {
                    vec![
                        text("addresses"),
                        handle(object.address),
                        Cell::Bytes(object.size),
                        Cell::Empty,
                        text("reserved, no memory"),
                        Cell::Empty,
                        Cell::Empty,
                        Cell::Empty,
                        Cell::Empty,
                        text(capture::symbol(object.call)),
                        self.caller(object.stack),
                        self.at(object.born_ns),
                    ]
                }),
        );
        (
            &[
                "kind",
                "handle",
                "bytes",
                "device",
                "state",
                "references",
                "mappings",
                "mapped_at",
                "descriptors",
                "call",
                "caller",
                "born_seconds",
            ],
            rows,
        )
    }

    fn physical(&self, physical: &Physical, mappings: &[u64], adrift: bool) -> Vec<Cell> {
        let object = &physical.object;
        let state = match (physical.references > 0, physical.mappings > 0) {
            _ if adrift => "released and unmapped; descriptors of it may be open",
            (true, true) => "held and mapped",
            (true, false) => "not released, not mapped",
            (false, true) => "released, still mapped",
            (false, false) => "released, still bound",
        };
        let shown: Vec<String> = mappings
            .iter()
            .take(4)
            .map(|address| names::handle(*address))
            .collect();
        let more = if mappings.len() > 4 { " …" } else { "" };
        vec![
            text(match (object.class, object.is_imported, object.device) {
                (Class::Multicast, ..) => "multicast",
                (_, true, _) => "imported",
                (_, _, None) => "host",
                _ => "physical",
            }),
            handle(object.address),
            Cell::Bytes(object.size),
            Self::device(object.device),
            text(state),
            Cell::Count(physical.references.into()),
            Cell::Count(physical.mappings.into()),
            text(format!("{}{more}", shown.join(" "))),
            Cell::Count(physical.descriptors.len() as u64),
            text(capture::symbol(object.call)),
            self.caller(object.stack),
            self.at(object.born_ns),
        ]
    }

    fn host(&self) -> Rows {
        let of_host = |object: &Object| {
            matches!(
                object.class,
                Class::Pinned | Class::Registered | Class::Managed
            ) || (object.class == Class::Physical && object.device.is_none())
        };
        let rows = self
            .alive()
            .into_iter()
            .filter(|object| of_host(object))
            .map(|object| {
                let sent = self.reading.state.residency(object.address);
                let sent = sent.filter(|_| object.class == Class::Managed);
                vec![
                    text(class_name(object.class)),
                    handle(object.address),
                    Cell::Bytes(object.size),
                    sent.map_or(Cell::Empty, |sent| {
                        text(match sent.place {
                            Place::Device(device) => super::text::gpu(device),
                            Place::Host => "host".to_owned(),
                            Place::Unknown => "?".to_owned(),
                        })
                    }),
                    sent.map_or(Cell::Empty, |sent| Cell::Bytes(sent.bytes)),
                    text(capture::symbol(object.call)),
                    self.caller(object.stack),
                    self.at(object.born_ns),
                ]
            })
            .collect();
        (
            &[
                "kind",
                "address",
                "bytes",
                "prefetched_to",
                "prefetched_bytes",
                "call",
                "caller",
                "born_seconds",
            ],
            rows,
        )
    }

    fn ipc(&self) -> Rows {
        let rows = self
            .reading
            .process
            .shared
            .iter()
            .map(|shared| {
                let pids: Vec<String> = shared.with_pids.iter().map(u32::to_string).collect();
                vec![
                    text(shared.role),
                    text(shared.kind),
                    text(shared.address.clone()),
                    Cell::Bytes(shared.bytes),
                    Self::device(shared.device),
                    text(pids.join(" ")),
                    text(shared.joined_by),
                    text(shared.finding.clone()),
                    text(shared.call.clone()),
                    text(shared.caller.clone()),
                    Cell::Seconds(shared.since_seconds),
                ]
            })
            .collect();
        (
            &[
                "role",
                "kind",
                "address",
                "bytes",
                "device",
                "with_pids",
                "joined_by",
                "finding",
                "call",
                "caller",
                "since_seconds",
            ],
            rows,
        )
    }

    fn graphs(&self) -> Rows {
        let state = &self.reading.state;
        let alive = self.alive();
        let mut blocks: BTreeMap<u64, Vec<&Object>> = BTreeMap::new();
        for object in alive.iter().filter(|o| o.class == Class::GraphBlock) {
            blocks.entry(object.owner).or_default().push(object);
        }
        let sum = |blocks: &[&Object]| {
            blocks
                .iter()
                .fold(0_u64, |sum, block| sum.saturating_add(block.size))
        };
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for object in alive.iter().filter(|o| o.class == Class::GraphExec) {
            let facts = state.exec_facts(object.address);
            let left = blocks.remove(&object.address).unwrap_or_default();
            rows.push(vec![
                text("executable"),
                handle(object.address),
                text("alive"),
                Cell::Count(facts.nodes),
                Cell::Bytes(facts.node_bytes),
                Cell::Count(facts.launches),
                Cell::Count(left.len() as u64),
                Cell::Bytes(sum(&left)),
                text(capture::symbol(object.call)),
                self.caller(object.stack),
                self.at(object.born_ns),
            ]);
        }
        // What launches left of executables that are gone, by the node that allocated it.
        let mut left: BTreeMap<(u16, String), (u64, u64, u64)> = BTreeMap::new();
        for block in blocks.into_values().flatten() {
            let caller = self.capture.tables.caller(block.stack);
            let (count, bytes, first) =
                left.entry((block.call, caller))
                    .or_insert((0, 0, block.born_ns));
            *count += 1;
            *bytes = bytes.saturating_add(block.size);
            *first = (*first).min(block.born_ns);
        }
        for ((call, caller), (count, bytes, first)) in left {
            rows.push(vec![
                text("blocks"),
                Cell::Empty,
                text("their executable was destroyed"),
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                Cell::Count(count),
                Cell::Bytes(bytes),
                text(capture::symbol(call)),
                text(caller),
                self.at(first),
            ]);
        }
        for object in alive.iter().filter(|o| o.class == Class::Graph) {
            rows.push(vec![
                text("graph"),
                handle(object.address),
                text("alive"),
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                text(capture::symbol(object.call)),
                self.caller(object.stack),
                self.at(object.born_ns),
            ]);
        }
        (
            &[
                "kind",
                "handle",
                "state",
                "allocating_nodes",
                "node_bytes",
                "launches",
                "live_blocks",
                "live_bytes",
                "call",
                "caller",
                "born_seconds",
            ],
            rows,
        )
    }

    fn modules(&self) -> Rows {
        let state = &self.reading.state;
        let rows = self
            .alive()
            .into_iter()
            .filter(|object| matches!(object.class, Class::Module | Class::Library))
            .map(|object| {
                let facts = state.module_facts(object.address);
                vec![
                    text(class_name(object.class)),
                    handle(object.address),
                    Self::device(object.device),
                    Cell::Count(facts.kernels),
                    Cell::Bytes(facts.local_bytes),
                    Cell::Count(facts.globals),
                    Cell::Bytes(facts.global_bytes),
                    text(capture::symbol(object.call)),
                    self.caller(object.stack),
                    self.at(object.born_ns),
                ]
            })
            .collect();
        (
            &[
                "kind",
                "handle",
                "device",
                "kernel_lookups",
                "local_bytes",
                "variables_seen",
                "variable_bytes",
                "call",
                "caller",
                "born_seconds",
            ],
            rows,
        )
    }

    /// What a view cannot show.
    fn notes(&self, view: View) -> Vec<String> {
        let records = &self.reading.process.records;
        let mut notes = Vec::new();
        match view {
            View::Pools => notes.push(
                "a pool says what it holds when it is asked: at a growth, at most every 10 ms, and after a wait that follows a free"
                    .to_owned(),
            ),
            View::Modules => notes.push(
                "what a module's code takes is in no call; only variables and local memory that were looked up are here".to_owned(),
            ),
            View::Vmm if !self.reading.state.adrift().is_empty() => notes.push(
                "nobody sees a descriptor closed: memory that only descriptors can hold may be gone, and is in no sum".to_owned(),
            ),
            View::Graphs => {
                notes.extend(super::text::graph_troubles(records));
            }
            _ => {}
        }
        notes
    }
}

/// Whether an object is something that is made and destroyed, and not memory alone.
fn is_handle(object: &Object) -> bool {
    !ledger::is_memory(object.class)
        || matches!(
            object.class,
            Class::Array | Class::MipmappedArray | Class::ExternalMemory
        )
}
