//! The report as one screen of text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use gpushim_abi::layout::slot::DEVICE_UNKNOWN;

use super::{Device, Process};
use crate::render::{BAD, FAINT, HEADING, WARNING, keep_end, keep_start, plain, units};

/// Groups that are shown unless all are asked for.
const GROUPS_SHOWN: usize = 8;

/// Writes the report of one session.
///
/// # Errors
/// When the output cannot be written.
pub fn write(
    out: &mut dyn Write,
    processes: &[Process],
    all: bool,
    width: usize,
) -> io::Result<()> {
    for (index, process) in processes.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        headline(out, process, processes.len(), width)?;
        losses(out, process, width)?;
        for device in &process.devices {
            writeln!(out)?;
            write_device(out, process, device, width)?;
        }
        if process.devices.is_empty() {
            writeln!(out, "\nNo device memory was touched.")?;
        }
        host(out, process)?;
        alive(out, process, all, width)?;
        failures(out, process, width)?;
        in_flight(out, process)?;
        notes(out, process, all, width)?;
    }
    if processes.len() > 1 {
        together(out, processes)?;
    }
    Ok(())
}

fn headline(out: &mut dyn Write, process: &Process, of: usize, width: usize) -> io::Result<()> {
    let command = plain(&process.command.join(" "));
    let what = format!(
        " · {}, {} · {}pid {}, {}",
        units::wall(process.opened_realtime_ns),
        units::span((process.seconds.max(0.0) * 1e9) as u64),
        if of > 1 {
            format!("one of {of} processes, ")
        } else {
            String::new()
        },
        process.pid,
        process.fate,
    );
    let room = width
        .saturating_sub(what.chars().count() + "gpushim report · ".len())
        .max(24);
    let command = keep_start(&command, room);
    writeln!(out, "{HEADING}gpushim report · {command}{HEADING:#}{what}")
}

/// Says whether the figures can be relied on; nothing is worse than a wrong number without a word.
fn losses(out: &mut dyn Write, process: &Process, width: usize) -> io::Result<()> {
    let records = &process.records;
    if process.exact {
        let held = if records.holes > 0 {
            format!(
                "; {} at the moment of death",
                units::count(
                    records.holes,
                    "record was being written",
                    "records were being written"
                )
            )
        } else {
            String::new()
        };
        return writeln!(
            out,
            "{FAINT}exact: all {} from the first call on are here{held}{FAINT:#}",
            units::count(records.read, "record", "records")
        );
    }
    if records.overwritten > 0 {
        wrap(
            out,
            width,
            WARNING,
            &format!(
                "not exact: the first {} were overwritten. What was born in them and is still alive is not shown, and peaks before {} are not known. GPUSHIM_SIZE makes the record longer.",
                units::count(records.overwritten, "record", "records"),
                "the oldest record"
            ),
        )?;
    }
    if records.dropped > 0 {
        wrap(
            out,
            width,
            WARNING,
            &format!(
                "not exact: {} dropped by the recorder{}.",
                units::count(records.dropped, "record was", "records were"),
                if records.frozen {
                    " while it could not take more disk space"
                } else {
                    " while a slot was busy or the ring grew"
                }
            ),
        )?;
    }
    if let Some(missed) = records.counters.get("missed_while_opening") {
        wrap(
            out,
            width,
            WARNING,
            &format!(
                "not exact: {} while the capture was being opened.",
                units::count(*missed, "call came", "calls came")
            ),
        )?;
    }
    if records.unknown_calls > 0 {
        wrap(
            out,
            width,
            WARNING,
            &format!(
                "not exact: {} of a later version; use a newer gpushim.",
                units::count(records.unknown_calls, "record is", "records are")
            ),
        )?;
    }
    Ok(())
}

fn wrap(out: &mut dyn Write, width: usize, style: anstyle::Style, text: &str) -> io::Result<()> {
    for line in textwrap::wrap(text, width) {
        writeln!(out, "{style}{line}{style:#}")?;
    }
    Ok(())
}

fn write_device(
    out: &mut dyn Write,
    process: &Process,
    device: &Device,
    width: usize,
) -> io::Result<()> {
    let short = device.uuid.get(..12).unwrap_or(&device.uuid);
    let title = format!(
        "{}  {}  {short}  {}",
        gpu(device.ordinal),
        plain(&device.name),
        plain(&device.pci)
    );
    let when = when(process);
    let state = format!(
        "{when} {}   peak {} at {:.2} s",
        units::bytes(device.live_bytes),
        units::bytes(device.peak_bytes),
        device.peak_seconds
    );
    let gap = width
        .saturating_sub(title.chars().count() + state.chars().count())
        .max(3);
    writeln!(
        out,
        "{HEADING}{title}{HEADING:#}{:gap$}{HEADING}{state}{HEADING:#}",
        ""
    )?;
    let living = device
        .contexts
        .iter()
        .filter(|c| c.ended_by.is_none())
        .count();
    for context in &device.contexts {
        let how = match context.origin {
            "primary" => units::count(context.references.into(), "reference", "references"),
            "created" => "created".to_owned(),
            _ => "by no recorded call".to_owned(),
        };
        let end = match (context.ended_by, context.ended_seconds) {
            (Some(by), Some(at)) => format!(", {by} at {at:.2} s"),
            _ => format!(", {how}"),
        };
        let kind = if context.origin == "primary" {
            "primary"
        } else {
            "own"
        };
        let line = format!(
            "{}{end}; made at {:.2} s by {}, {}",
            if context.origin == "unseen" { "" } else { kind },
            context.began_seconds,
            plain(&context.caller),
            context.call,
        );
        field(
            out,
            "context",
            "",
            &keep_start(line.trim_start_matches(", "), width.saturating_sub(28)),
        )?;
    }
    if living > 0 {
        field(
            out,
            "",
            "",
            "its own memory (hundreds of MiB) is not counted here",
        )?;
    }
    let rows = [
        (
            "allocated",
            device.linear_bytes,
            device.linear_count,
            "cuMemAlloc, cuMemAllocPitch",
        ),
        (
            "physical",
            device.physical_bytes,
            device.physical_count,
            "cuMemCreate",
        ),
        (
            "from pools",
            device.pool_bytes,
            device.pool_count,
            "cuMemAllocAsync; not in the sum: a pool may hold more",
        ),
        (
            "managed",
            device.managed_bytes,
            device.managed_count,
            "cuMemAllocManaged; not in the sum: pages move",
        ),
    ];
    for (name, bytes, count, note) in rows {
        if count > 0 {
            let mapped = if name == "physical" && device.mapped_bytes != bytes {
                format!(", {} mapped", units::bytes(device.mapped_bytes))
            } else {
                String::new()
            };
            let text = format!(
                "{} alive{mapped}   {FAINT}{note}{FAINT:#}",
                units::thousands(count)
            );
            field(out, name, &units::bytes(bytes), &text)?;
        }
    }
    if device.footprint_bytes > device.live_bytes {
        let rounding = device.footprint_bytes - device.live_bytes;
        field(
            out,
            "rounding",
            &units::bytes(rounding),
            "estimate: the driver takes 2 MiB blocks",
        )?;
    }
    field(
        out,
        "in all",
        &units::bytes(device.allocated_bytes),
        &format!(
            "in {}, {} given back",
            units::count(device.allocations, "allocation", "allocations"),
            units::thousands(device.frees)
        ),
    )?;
    if !device.spark.trim().is_empty() {
        writeln!(
            out,
            "  {}  {FAINT}0 … {}{FAINT:#}",
            device.spark,
            units::span((process.seconds.max(0.0) * 1e9) as u64)
        )?;
    }
    Ok(())
}

/// A device's short name.
fn gpu(ordinal: u8) -> String {
    if ordinal == DEVICE_UNKNOWN {
        "GPU ?".to_owned()
    } else {
        format!("GPU {ordinal}")
    }
}

fn when(process: &Process) -> &'static str {
    if process.earlier {
        "then"
    } else if process.over {
        "at the end"
    } else {
        "now"
    }
}

fn field(out: &mut dyn Write, name: &str, value: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:12} {value:>10}   {text}")
}

fn host(out: &mut dyn Write, process: &Process) -> io::Result<()> {
    let host = &process.host_memory;
    let rows = [
        (
            "pinned",
            host.pinned_bytes,
            host.pinned_count,
            "page-locked by the driver",
        ),
        (
            "registered",
            host.registered_bytes,
            host.registered_count,
            "the program's own, page-locked",
        ),
        (
            "physical",
            host.physical_bytes,
            host.physical_count,
            "cuMemCreate on the host",
        ),
        (
            "addresses",
            host.reserved_bytes,
            host.reserved_count,
            "reserved, no memory",
        ),
    ];
    if rows.iter().all(|(_, _, count, _)| *count == 0) {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Host{HEADING:#}")?;
    for (name, bytes, count, note) in rows {
        if count > 0 {
            let text = format!("{} alive   {FAINT}{note}{FAINT:#}", units::thousands(count));
            field(out, name, &units::bytes(bytes), &text)?;
        }
    }
    Ok(())
}

fn alive(out: &mut dyn Write, process: &Process, all: bool, width: usize) -> io::Result<()> {
    if process.alive.is_empty() {
        return writeln!(
            out,
            "\n{HEADING}Alive {}{HEADING:#}\n  nothing",
            when(process)
        );
    }
    let note = if process.over && !process.earlier {
        "   reclaimed when the process ended"
    } else {
        ""
    };
    writeln!(
        out,
        "\n{HEADING}Alive {}, by call, caller and size{HEADING:#}{FAINT}{note}{FAINT:#}",
        when(process)
    )?;
    let shown = if all {
        process.alive.len()
    } else {
        GROUPS_SHOWN
    };
    let call_width = process
        .alive
        .iter()
        .take(shown)
        .map(|g| g.call.len())
        .max()
        .unwrap_or(0);
    for group in process.alive.iter().take(shown) {
        let device = group.device.map_or_else(|| "host ".to_owned(), gpu);
        let born = if group.count == 1 {
            format!("{:.2} s", group.first_seconds)
        } else {
            format!("{:.2} … {:.2} s", group.first_seconds, group.last_seconds)
        };
        let left = format!(
            "  {:>10}  {:>6} × {:<10} {device}  {:call_width$}  ",
            units::bytes(group.bytes),
            units::thousands(group.count),
            units::bytes(group.size),
            group.call,
        );
        let room = width
            .saturating_sub(left.chars().count() + born.chars().count() + 2)
            .max(16);
        writeln!(
            out,
            "{left}{:room$}  {FAINT}{born}{FAINT:#}",
            keep_end(&plain(&group.caller), room)
        )?;
    }
    if process.alive.len() > shown {
        let rest = &process.alive[shown..];
        let memory = rest
            .iter()
            .filter(|g| g.space != "reserved")
            .fold(0, |sum: u64, g| sum.saturating_add(g.bytes));
        writeln!(
            out,
            "  {:>10}  in {} (--all shows them)",
            units::bytes(memory),
            units::count(rest.len() as u64, "more group", "more groups")
        )?;
    }
    Ok(())
}

fn failures(out: &mut dyn Write, process: &Process, width: usize) -> io::Result<()> {
    if process.failures.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Refused by the driver{HEADING:#}")?;
    for failure in &process.failures {
        let asked = if failure.largest_bytes > 0 {
            format!(
                ", at most {} asked for",
                units::bytes(failure.largest_bytes)
            )
        } else {
            String::new()
        };
        let line = format!(
            "{} × {} {}{asked}, last at {:.2} s by {}",
            units::thousands(failure.count),
            failure.call,
            failure.name,
            failure.last_seconds,
            plain(&failure.caller)
        );
        writeln!(out, "  {}", keep_start(&line, width.saturating_sub(2)))?;
    }
    Ok(())
}

fn in_flight(out: &mut dyn Write, process: &Process) -> io::Result<()> {
    for call in &process.in_flight {
        let (style, verb) = if process.over {
            (BAD, "died inside")
        } else {
            (FAINT, "is inside")
        };
        let size = if call.size > 0 {
            format!(" of {}", units::bytes(call.size))
        } else {
            String::new()
        };
        writeln!(
            out,
            "\n{style}Thread {} ({}) {verb} {}{size}.{style:#}",
            call.thread,
            plain(&call.thread_name),
            call.call
        )?;
    }
    Ok(())
}

fn notes(out: &mut dyn Write, process: &Process, all: bool, width: usize) -> io::Result<()> {
    let mut lines = Vec::new();
    for text in &process.notes.degraded {
        lines.push(plain(text));
    }
    let records = &process.records;
    if records.unknown_frees > 0 {
        lines.push(format!(
            "{} given back that no record shows being born: {}",
            units::count(records.unknown_frees, "thing was", "things were"),
            if records.overwritten > 0 {
                "before the oldest record, most likely"
            } else {
                "through calls that are not recorded yet"
            }
        ));
    }
    if records.reused_addresses > 0 {
        lines.push(format!(
            "{} handed out again without a free that was seen",
            units::count(records.reused_addresses, "address was", "addresses were")
        ));
    }
    if !process.notes.unhooked.is_empty() {
        let count = units::count(
            process.notes.unhooked.len() as u64,
            "driver entry point",
            "driver entry points",
        );
        let names = if all {
            format!(": {}", process.notes.unhooked.join(" "))
        } else {
            String::new()
        };
        lines.push(format!(
            "{count} handed out that gpushim does not record{}",
            plain(&names)
        ));
    }
    if !process.notes.export_tables.is_empty() {
        let count = units::count(
            process.notes.export_tables.len() as u64,
            "private driver table",
            "private driver tables",
        );
        let names = if all {
            format!(": {}", process.notes.export_tables.join(" "))
        } else {
            String::new()
        };
        lines.push(format!(
            "{count} asked for; calls through them are not seen{}",
            plain(&names)
        ));
    }
    for (name, value) in &records.counters {
        let what = match *name {
            "stacks_full" => "calls without a caller: the table of stacks was full",
            "contexts_full" => "contexts not listed: their table was full",
            "threads_full" => "threads without an in-flight entry: their table was full",
            "modules_full" => "libraries not listed: their table was full",
            "texts_full" => "texts lost: their table was full",
            "foreign_answers" => {
                "look-ups answered by a library that is not the driver in use, not recorded"
            }
            _ => continue,
        };
        lines.push(format!("{} {what}", units::thousands(*value)));
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Not seen, or less than usual{HEADING:#}")?;
    for line in lines {
        let shape = textwrap::Options::new(width)
            .initial_indent("  ")
            .subsequent_indent("    ");
        for part in textwrap::wrap(&line, shape) {
            writeln!(out, "{part}")?;
        }
    }
    Ok(())
}

/// Over several processes: each device's own column added up, by UUID.
fn together(out: &mut dyn Write, processes: &[Process]) -> io::Result<()> {
    let mut devices: BTreeMap<(&str, &str), (u64, u64, Vec<u32>)> = BTreeMap::new();
    for process in processes.iter().filter(|process| !process.over) {
        for device in &process.devices {
            let sum = devices.entry((&device.uuid, &device.name)).or_default();
            sum.0 = sum.0.saturating_add(device.live_bytes);
            sum.1 += device
                .contexts
                .iter()
                .filter(|c| c.ended_by.is_none())
                .count() as u64;
            sum.2.push(process.pid);
        }
    }
    writeln!(
        out,
        "\n{HEADING}Held by these processes together{HEADING:#}"
    )?;
    if devices.is_empty() {
        return writeln!(out, "  nothing: all of them have ended");
    }
    for ((uuid, name), (bytes, contexts, pids)) in devices {
        let short = uuid.get(..12).unwrap_or(uuid);
        writeln!(
            out,
            "  {short}  {}  {} in {}, by {}",
            plain(name),
            units::bytes(bytes),
            units::count(contexts, "context", "contexts"),
            pids.iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        )?;
    }
    Ok(())
}
