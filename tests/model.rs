//! A model and a ledger: random programs of driver calls on the stand-in driver. After each call the reader's picture, made from the
//! records up to then, equals the driver's own books, which share no code with it; also when both processes are killed.
//!
//! `GPUSHIM_PROGRAMS=100000 cargo test --release --test model` is the long mode (`scripts/model`).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::Class;
use gpushim_reader::capture::Capture;
use gpushim_reader::ledger::{Ledger, Object};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::Value;

#[allow(dead_code, reason = "each test uses its part")]
mod native;
#[allow(dead_code, reason = "each test uses its part")]
mod support;

use native::Driver;
use support::Folder;

/// Programs in a usual run.
const PROGRAMS: u32 = 2000;

/// A line of a program: which call, by which thread, and two numbers that choose its arguments.
type Line = (u8, u8, u16, u16);

/// What a thing is called in both pictures.
fn kind(class: Class) -> &'static str {
    match class {
        Class::Linear => "linear",
        Class::Managed => "managed",
        Class::PoolBlock => "pool",
        Class::Pinned => "host",
        Class::Registered => "registered",
        Class::Array => "array",
        Class::MipmappedArray => "mipmapped",
        Class::IpcMapping => "ipc",
        Class::ExternalMemory => "external",
        Class::ExternalBuffer => "external_buffer",
        Class::GraphBlock => "graph_block",
        Class::Stream => "stream",
        Class::Event => "event",
        Class::Module => "module",
        Class::Library => "library",
        Class::Texture => "texture",
        Class::Surface => "surface",
        Class::ExternalSemaphore => "semaphore",
        Class::GraphicsResource => "graphics",
        Class::GreenContext => "green",
        Class::Endpoint => "endpoint",
        Class::Physical
        | Class::Reserved
        | Class::Multicast
        | Class::Pool
        | Class::Graph
        | Class::GraphExec => "",
    }
}

fn has_size(kind: &str) -> bool {
    matches!(
        kind,
        "linear"
            | "managed"
            | "pool"
            | "host"
            | "registered"
            | "array"
            | "mipmapped"
            | "ipc"
            | "external"
            | "external_buffer"
            | "graph_block"
    )
}

/// Kinds whose device is in both pictures.
fn has_device(kind: &str) -> bool {
    has_size(kind) && !matches!(kind, "host" | "registered" | "external_buffer")
}

fn has_context(kind: &str) -> bool {
    !matches!(
        kind,
        "pool" | "graph_block" | "library" | "green" | "endpoint" | "external_buffer"
    )
}

type Picture = BTreeSet<String>;

/// What the reader says is alive.
fn read(ledger: &Ledger) -> Picture {
    let mut picture = Picture::new();
    let lives = ledger.lives();
    let context = |object: &Object| {
        object.life.map_or_else(String::new, |life| {
            let life = &lives[life as usize];
            match (life.origin, life.device) {
                (gpushim_reader::ledger::Origin::Primary, Some(device)) => {
                    format!("primary {device}")
                }
                _ => format!("{:#x}", life.handle),
            }
        })
    };
    for object in ledger.alive() {
        let mut name = kind(object.class);
        if name == "pool" && object.is_imported {
            name = "external_buffer";
        }
        if name.is_empty() {
            continue;
        }
        let mut line = format!("{name} {:#x}", object.address);
        if has_size(name) {
            let size = match object.class {
                Class::Array | Class::MipmappedArray => object.array_bytes,
                _ => object.size,
            };
            line += &format!(" size {size}");
        }
        if has_device(name) {
            line += &format!(" device {:?}", object.device.unwrap_or(255));
        }
        if has_context(name) {
            line += &format!(" context {}", context(object));
        }
        if name == "ipc" {
            line += &format!(" held {}", object.held);
        }
        picture.insert(line);
    }
    for class in [Class::Graph, Class::GraphExec] {
        for object in ledger.alive().iter().filter(|o| o.class == class) {
            picture.insert(format!("{class:?} {:#x}", object.address));
        }
    }
    for object in ledger.alive().iter().filter(|o| o.class == Class::Reserved) {
        picture.insert(format!("reserved {:#x} {}", object.address, object.size));
    }
    for life in lives.iter().filter(|life| life.ended.is_none()) {
        let name = match (life.origin, life.device) {
            (gpushim_reader::ledger::Origin::Primary, Some(device)) => format!("primary {device}"),
            _ => format!("{:#x}", life.handle),
        };
        let stack = life.stack_limit.unwrap_or(1024);
        picture.insert(format!(
            "context {name} references {} stack {stack}",
            life.references
        ));
    }
    for pool in ledger.pools() {
        let is_over = pool.destroyed_ns.is_some();
        if pool.handle == 0 || (is_over && pool.blocks == 0) {
            continue;
        }
        let mut line = format!("pool of blocks {:#x} used {}", pool.handle, pool.used);
        // Of a pool that is destroyed nobody can ask any more.
        if !is_over && !pool.is_imported {
            line += &format!(" reserved {}", pool.reserved);
        }
        picture.insert(line);
    }
    for physical in ledger.physical() {
        let object = &physical.object;
        let what = match (object.class, object.is_imported) {
            (Class::Multicast, _) => "multicast".to_owned(),
            (_, true) => "imported".to_owned(),
            (_, false) => format!("{} on {:?}", object.size, object.device),
        };
        picture.insert(format!(
            "physical {:#x} {what} references {} mappings {} bindings {}",
            object.address, physical.references, physical.mappings, physical.bindings
        ));
    }
    for (birth, addresses) in ledger.mappings() {
        assert!(birth < u64::MAX);
        for address in addresses {
            picture.insert(format!("mapping {address:#x}"));
        }
    }
    for (device, books) in ledger.devices() {
        if books.graphs_reserved > 0 {
            picture.insert(format!("graphs {device} {}", books.graphs_reserved));
        }
    }
    picture
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().expect("text")
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().expect("a number")
}

fn list<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    value[name].as_array().expect("a list")
}

/// What the driver says is alive; pools that the reader has not met are left out.
fn books(snapshot: &Value, ledger: &Ledger) -> Picture {
    let mut picture = Picture::new();
    let mut primaries: Vec<(String, u64)> = Vec::new();
    for device in list(snapshot, "devices") {
        let ordinal = number(device, "ordinal");
        for context in list(device, "contexts") {
            let handle = text(context, "handle");
            let name = if context["primary"] == true {
                primaries.push((handle.to_owned(), ordinal));
                format!("primary {ordinal}")
            } else {
                handle.to_owned()
            };
            picture.insert(format!(
                "context {name} references {} stack {}",
                number(context, "references"),
                number(context, "stack")
            ));
        }
    }
    for device in list(snapshot, "devices") {
        let ordinal = number(device, "ordinal");
        for object in list(device, "objects") {
            let name = text(object, "kind");
            let mut line = format!("{name} {}", text(object, "address"));
            if has_size(name) {
                line += &format!(" size {}", number(object, "size"));
            }
            if has_device(name) {
                line += &format!(" device {ordinal}");
            }
            if has_context(name) {
                let handle = text(object, "context");
                let primary = primaries.iter().find(|(primary, _)| primary == handle);
                let name =
                    primary.map_or_else(|| handle.to_owned(), |(_, d)| format!("primary {d}"));
                line += &format!(" context {name}");
            }
            if name == "ipc" {
                line += &format!(" held {}", number(object, "held"));
            }
            picture.insert(line);
        }
        for pool in list(device, "pools") {
            let handle = text(pool, "handle");
            let known = ledger
                .pools()
                .iter()
                .any(|pool| format!("{:#x}", pool.handle) == handle);
            if !known {
                continue;
            }
            let mut line = format!("pool of blocks {handle} used {}", number(pool, "used"));
            if pool["destroyed"] == false && pool["imported"] == false {
                line += &format!(" reserved {}", number(pool, "reserved"));
            }
            picture.insert(line);
        }
        let reserved = number(device, "graphs_reserved");
        if reserved > 0 {
            picture.insert(format!("graphs {ordinal} {reserved}"));
        }
    }
    let physical = list(snapshot, "physical");
    for one in physical {
        if text(one, "alias_of") != "0x0" {
            continue;
        }
        let handle = text(one, "handle");
        // Another handle of the same memory counts with it.
        let mut sums = [0; 3];
        for other in physical {
            if text(other, "handle") == handle || text(other, "alias_of") == handle {
                for (sum, name) in sums.iter_mut().zip(["references", "mappings", "bindings"]) {
                    *sum += number(other, name);
                }
            }
        }
        let what = match (&one["multicast"], &one["imported"]) {
            (Value::Bool(true), _) => "multicast".to_owned(),
            (_, Value::Bool(true)) => "imported".to_owned(),
            _ => format!(
                "{} on {:?}",
                number(one, "size"),
                one["device"].as_u64().map(|device| device as u8)
            ),
        };
        let [references, mappings, bindings] = sums;
        // What only a descriptor holds is adrift for the reader.
        if references + mappings + bindings > 0 {
            picture.insert(format!(
                "physical {handle} {what} references {references} mappings {mappings} bindings {bindings}"
            ));
        }
    }
    for mapping in list(snapshot, "mappings") {
        picture.insert(format!("mapping {}", text(mapping, "address")));
    }
    for range in list(snapshot, "reservations") {
        picture.insert(format!(
            "reserved {} {}",
            text(range, "address"),
            number(range, "size")
        ));
    }
    for (name, class) in [("graphs", "Graph"), ("execs", "GraphExec")] {
        for handle in list(snapshot, name) {
            picture.insert(format!("{class} {}", handle.as_str().expect("text")));
        }
    }
    picture
}

/// Holds a capture against the books that were written beside it, call by call.
fn compare(capture: &Path, books_file: &Path) -> Result<usize, String> {
    let capture = Capture::open(capture).map_err(|error| error.to_string())?;
    let mut records: Vec<Record> = Vec::new();
    let tally = capture
        .records(|record| records.push(*record))
        .map_err(|error| error.to_string())?;
    if tally.dropped + tally.overwritten + tally.holes > 0 {
        return Err(format!("records are missing: {tally:?}"));
    }
    let mut ledger = Ledger::default();
    let mut next = 0;
    let written = fs::read_to_string(books_file).map_err(|error| error.to_string())?;
    let mut steps = 0;
    for (step, line) in written.lines().enumerate() {
        let Some((at, snapshot)) = line.split_once('\t') else {
            continue;
        };
        // The last line of a process that was killed may be cut.
        let Ok(snapshot) = serde_json::from_str::<Value>(snapshot) else {
            continue;
        };
        let at: u64 = at.parse().map_err(|_| "no time")?;
        let first = next;
        while next < records.len() && records[next].at_ns <= at {
            ledger.take(&records[next], &capture.tables);
            next += 1;
        }
        let (ours, theirs) = (read(&ledger), books(&snapshot, &ledger));
        if ours != theirs {
            let only = |one: &Picture, other: &Picture| {
                one.difference(other)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("\n  ")
            };
            let calls: Vec<String> = records[first..next]
                .iter()
                .map(|record| {
                    format!(
                        "{} {record:?}",
                        gpushim_reader::capture::symbol(record.call)
                    )
                })
                .collect();
            return Err(format!(
                "after step {step} ({})\n only the reader says\n  {}\n only the driver says\n  {}",
                calls.join("; "),
                only(&ours, &theirs),
                only(&theirs, &ours)
            ));
        }
        steps += 1;
    }
    Ok(steps)
}

/// Runs a program, and holds both processes against their books.
fn run(puppet: &Path, lines: &[Line], kill: bool) -> Result<usize, String> {
    let folder = Folder::new();
    let place = |name: &str| folder.path().join(name);
    let captures = place("captures");
    fs::create_dir(&captures).map_err(|error| error.to_string())?;
    let mut command = Command::new(puppet);
    command
        .arg(place("first"))
        .arg(place("second"))
        .args(kill.then_some("kill"))
        .env("LD_LIBRARY_PATH", Driver::Standin.folder())
        .env("LD_PRELOAD", native::shim())
        .env("GPUSHIM_DIR", &captures)
        .env("GPUSHIM_SIZE", "4M")
        .env("STANDIN_DEVICES", "2")
        .env("STANDIN_MEMORY", "4G")
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let text: String = lines
        .iter()
        .map(|(code, thread, x, y)| format!("{code} {thread} {x} {y}\n"))
        .collect();
    let written = child
        .stdin
        .take()
        .expect("piped")
        .write_all(text.as_bytes());
    let status = child.wait().map_err(|error| error.to_string())?;
    written.map_err(|error| error.to_string())?;
    if status.success() == kill {
        return Err(format!("the puppet ended with {status}"));
    }
    let mut steps = 0;
    let mut seen = 0;
    for entry in fs::read_dir(&captures).map_err(|error| error.to_string())? {
        let path: PathBuf = entry.map_err(|error| error.to_string())?.path();
        let capture = Capture::open(&path).map_err(|error| error.to_string())?;
        let second = capture.identity.command.iter().any(|word| word == "second");
        let books = place(if second { "second" } else { "first" });
        steps += compare(&path, &books)?;
        seen += 1;
    }
    if seen == 0 || steps < lines.len() {
        return Err(format!("{seen} captures, {steps} steps compared"));
    }
    Ok(steps)
}

/// Calls by how often they are wanted: what makes things and joins them more than what ends them.
fn line() -> impl Strategy<Value = Line> {
    let often = prop::sample::select(vec![
        0_u8, 2, 4, 12, 14, 16, 20, 26, 30, 35, 39, 48, 49, 50, 51, 52, 57, 70, 72, 74,
    ]);
    let code = prop_oneof![2 => often, 3 => 0..80_u8];
    (code, 0..3_u8, any::<u16>(), any::<u16>())
}

/// Programs that came out wrong once, as they were found; what was forgotten is beside each.
const FOUND: &[&[Line]] = &[
    // A pool's device waits in another thread than the one that allocated from it, whose device is another one.
    &[
        (0, 0, 0, 1562),
        (0, 0, 0, 3069),
        (26, 0, 0, 0),
        (20, 0, 1289, 0),
        (2, 0, 0, 99),
        (39, 2, 17905, 0),
        (4, 0, 0, 6765),
        (1, 0, 15279, 0),
        (5, 2, 0, 0),
    ],
];

#[test]
fn programs_that_once_came_out_wrong() {
    let puppet = native::program("puppet", "puppet.c", &[]);
    for lines in FOUND {
        run(&puppet, lines, false).unwrap();
    }
}

#[test]
fn the_readers_picture_is_the_drivers_books() {
    let programs = std::env::var("GPUSHIM_PROGRAMS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(PROGRAMS);
    let puppet = native::program("puppet", "puppet.c", &[]);
    native::shim();
    Driver::Standin.folder();
    // As many workers as the machine has processors: the programs are processes.
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut runner = TestRunner::new(Config {
                        cases: programs.div_ceil(workers),
                        max_shrink_iters: 2000,
                        failure_persistence: None,
                        ..Config::default()
                    });
                    let program = (prop::collection::vec(line(), 1..60), any::<bool>());
                    runner
                        .run(&program, |(lines, kill)| {
                            run(&puppet, &lines, kill)
                                .map(drop)
                                .map_err(TestCaseError::fail)
                        })
                        .map_err(|error| error.to_string())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    for result in results {
        if let Err(error) = result {
            panic!("{error}");
        }
    }
}
