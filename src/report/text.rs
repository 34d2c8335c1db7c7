//! The report as one screen of text.

use std::io::{self, Write};

use gpushim_abi::layout::slot::DEVICE_UNKNOWN;

use super::{Context, Device, Process, Torch, alive};
use crate::render::{BAD, FAINT, HEADING, WARNING, keep_start, plain, units};

/// Contexts that are listed one by one unless all are asked for.
const CONTEXTS_SHOWN: usize = 3;
/// Where the text of a field begins, columns.
const FIELD_INDENT: usize = 28;

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
        let what = about(process, processes.len());
        headline(out, "report", &process.command, &what, width)?;
        whole(out, process, width)?;
        for device in &process.devices {
            writeln!(out)?;
            write_device(out, process, device, all, width)?;
        }
        if process.devices.is_empty() {
            writeln!(out, "\nNo device memory was touched.")?;
        }
        host(out, process, width)?;
        alive::blocks(out, process, all, width)?;
        refused(out, process, width)?;
        alive::write(out, process, all, width)?;
        shared(out, process, all, width)?;
        failures(out, process, width)?;
        in_flight(out, process)?;
        notes(out, process, all, width)?;
    }
    if processes.len() > 1 {
        together(out, processes, width)?;
    }
    Ok(())
}

/// The command as it was typed, more or less: without the folder of its program.
pub(crate) fn command_line(command: &[String]) -> String {
    let mut words = command.iter().map(String::as_str);
    let program = words.next().unwrap_or("unknown command");
    let program = program.rsplit('/').next().unwrap_or(program);
    plain(
        &[program]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// The first line about a process, in two where one is too narrow.
pub(crate) fn headline(
    out: &mut dyn Write,
    verb: &str,
    command: &[String],
    what: &str,
    width: usize,
) -> io::Result<()> {
    let name = format!("gpushim {verb} · ");
    let command = command_line(command);
    let room = width.saturating_sub(name.chars().count());
    if command.chars().count() + 3 + what.chars().count() <= room {
        return writeln!(out, "{HEADING}{name}{command}{HEADING:#} · {what}");
    }
    let command = keep_start(&command, room);
    writeln!(out, "{HEADING}{name}{command}{HEADING:#}")?;
    wrap(out, width, anstyle::Style::new(), what)
}

fn about(process: &Process, of: usize) -> String {
    format!(
        "{}, {} · {}pid {}, {}",
        units::wall(process.opened_realtime_ns),
        units::span((process.seconds.max(0.0) * 1e9) as u64),
        if of > 1 {
            format!("one of {of} processes, ")
        } else {
            String::new()
        },
        process.pid,
        process.fate,
    )
}

/// Says whether the figures can be relied on; nothing is worse than a wrong number without a word.
fn whole(out: &mut dyn Write, process: &Process, width: usize) -> io::Result<()> {
    let records = &process.records;
    let unfinished = match (records.holes, process.running) {
        (0, _) => String::new(),
        (n, true) => format!(
            "; {} being written",
            units::count(n, "record is", "records are")
        ),
        (n, false) => format!(
            "; {} being written when it ended",
            units::count(n, "more was", "more were")
        ),
    };
    if process.exact {
        let text = format!(
            "exact: all {} from the first call on are here{unfinished}",
            units::count(records.read, "record", "records")
        );
        return wrap(out, width, FAINT, &text);
    }
    for loss in &process.losses {
        wrap(out, width, WARNING, &format!("not exact: {loss}"))?;
    }
    let parts: Vec<String> = [
        (records.read, "read"),
        (records.overwritten, "overwritten"),
        (records.dropped, "dropped"),
        (records.holes, "unfinished"),
        (records.cut_off, "cut off"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} {what}", units::thousands(n)))
    .collect();
    let text = format!(
        "{}: {}",
        units::count(records.total, "record", "records"),
        parts.join(", ")
    );
    wrap(out, width, FAINT, &text)
}

pub(super) fn wrap(
    out: &mut dyn Write,
    width: usize,
    style: anstyle::Style,
    text: &str,
) -> io::Result<()> {
    for line in textwrap::wrap(text, width) {
        writeln!(out, "{style}{line}{style:#}")?;
    }
    Ok(())
}

fn write_device(
    out: &mut dyn Write,
    process: &Process,
    device: &Device,
    all: bool,
    width: usize,
) -> io::Result<()> {
    let short = device.uuid.get(..12).unwrap_or(&device.uuid);
    let title = format!(
        "{}  {}  {short}  {}",
        gpu(device.ordinal),
        plain(&device.name),
        plain(&device.pci)
    );
    // What was born unseen can only have been more; what ended unseen makes it less.
    let records = &process.records;
    let least = match (records.overwritten, records.dropped + records.cut_off) {
        (0, 0) => "",
        (_, 0) => "≥ ",
        _ => "≈ ",
    };
    let peak = if device.peak_bytes == 0 {
        String::new()
    } else {
        format!(
            "   peak {least}{} at {}",
            units::bytes(device.peak_bytes),
            units::seconds(device.peak_seconds)
        )
    };
    let state = format!(
        "{} {least}{}{peak}",
        when(process),
        units::bytes(device.live_bytes)
    );
    let used = title.chars().count() + state.chars().count();
    if used + 3 <= width {
        let gap = width - used;
        writeln!(
            out,
            "{HEADING}{title}{HEADING:#}{:gap$}{HEADING}{state}{HEADING:#}",
            ""
        )?;
    } else {
        writeln!(out, "{HEADING}{title}{HEADING:#}")?;
        writeln!(out, "  {HEADING}{state}{HEADING:#}")?;
    }
    contexts(out, device, all, width)?;
    columns(out, device, width)?;
    field(
        out,
        "in all",
        &units::bytes(device.allocated_bytes),
        &format!(
            "in {}, {} given back",
            units::count(device.allocations, "allocation", "allocations"),
            units::thousands(device.frees)
        ),
        width,
    )?;
    if !device.spark.trim().is_empty() {
        let begin = if process.course_from_seconds > 0.0 {
            units::seconds(process.course_from_seconds)
        } else {
            "0".to_owned()
        };
        writeln!(
            out,
            "  {}  {FAINT}{begin} … {}{FAINT:#}",
            device.spark,
            units::seconds(process.course_to_seconds)
        )?;
    }
    Ok(())
}

/// Requests that PyTorch could not meet, the first and the last.
fn refused(out: &mut dyn Write, process: &Process, width: usize) -> io::Result<()> {
    let all = &process.torch_refused;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{BAD}Out of memory, by PyTorch{BAD:#}")?;
    let shown = [all.first(), all.last().filter(|_| all.len() > 1)];
    for refusal in shown.into_iter().flatten() {
        let site = match &refusal.site {
            Some(site) => format!(" by {}", site.short()),
            None => String::new(),
        };
        let text = format!(
            "{} asked for on {} at {}{site}; {} were in blocks, {} reserved",
            units::bytes(refusal.bytes),
            gpu(refusal.device),
            units::seconds(refusal.seconds),
            units::bytes(refusal.allocated_bytes),
            units::bytes(refusal.reserved_bytes),
        );
        item(out, &plain(&text), "      ", width)?;
    }
    if all.len() > 2 {
        writeln!(out, "  {} in all", units::thousands(all.len() as u64))?;
    }
    Ok(())
}

/// What PyTorch has of a device's memory: parts of what is allocated, and no further memory.
fn torch_lines(
    torch: &Torch,
    line: &mut impl FnMut(&str, u64, String) -> io::Result<()>,
) -> io::Result<()> {
    let text = format!(
        "of it in {} of PyTorch's   {FAINT}torch.cuda.memory_allocated(){FAINT:#}",
        units::count(torch.block_count, "block", "blocks"),
    );
    line("  tensors", torch.allocated_bytes, text)?;
    if torch.cached_bytes > 0 {
        let released = match torch.releasable_bytes {
            0 => "none of it can be given back".to_owned(),
            bytes if bytes == torch.cached_bytes => {
                "torch.cuda.empty_cache() would give it back".to_owned()
            }
            bytes => format!(
                "torch.cuda.empty_cache() would give {} back",
                units::bytes(bytes)
            ),
        };
        let pinned = match torch.pinned.first() {
            None => String::new(),
            Some(segment) => {
                let by = match &segment.site {
                    Some(site) => format!(", the most by {}", plain(&site.short())),
                    None => String::new(),
                };
                format!(
                    "; {} is in segments that a block holds{by}",
                    units::bytes(torch.pinned_bytes)
                )
            }
        };
        let text = format!(
            "of it cached, in no block, in {}; {released}{pinned}",
            units::count(torch.segment_count, "segment", "segments"),
        );
        line("  cached", torch.cached_bytes, text)?;
    }
    if torch.unseen_bytes > 0 {
        let text = "of it in blocks of PyTorch's that were out before the record begins";
        line("  unseen", torch.unseen_bytes, text.to_owned())?;
    }
    Ok(())
}

/// What the memory of a device is, a line for each kind; those that are no part of the sum say so.
fn columns(out: &mut dyn Write, device: &Device, width: usize) -> io::Result<()> {
    let alive = |count: u64, more: &str, note: &str| {
        format!(
            "{} alive{more}   {FAINT}{note}{FAINT:#}",
            units::thousands(count)
        )
    };
    let mut line =
        |name: &str, bytes: u64, text: String| field(out, name, &units::bytes(bytes), &text, width);
    if device.linear_count > 0 {
        let text = alive(device.linear_count, "", "cuMemAlloc, cuMemAllocPitch");
        line("allocated", device.linear_bytes, text)?;
    }
    if let Some(torch) = &device.torch {
        torch_lines(torch, &mut line)?;
    }
    if device.physical_count > 0 {
        let mapped = if device.mapped_bytes == device.physical_bytes {
            String::new()
        } else {
            format!(", {} mapped", units::bytes(device.mapped_bytes))
        };
        let text = alive(device.physical_count, &mapped, "cuMemCreate");
        line("physical", device.physical_bytes, text)?;
    }
    if device.array_count > 0 {
        let text = alive(
            device.array_count,
            "",
            "cuArrayCreate, cuMipmappedArrayCreate",
        );
        line("arrays", device.array_bytes, text)?;
    }
    if device.pool_count > 0 || device.pool_reserved_bytes > 0 {
        let text = format!(
            "held by pools; {} of it in {}   {FAINT}cuMemAllocAsync{FAINT:#}",
            units::bytes(device.pool_bytes),
            units::count(device.pool_count, "block", "blocks"),
        );
        line("pools", device.pool_reserved_bytes, text)?;
    }
    if device.graph_count > 0 || device.graph_reserved_bytes > 0 {
        let text = format!(
            "held by graphs; {} of it in {}   {FAINT}cuDeviceGraphMemTrim returns the rest{FAINT:#}",
            units::bytes(device.graph_bytes),
            units::count(device.graph_count, "live block", "live blocks"),
        );
        line("graphs", device.graph_reserved_bytes, text)?;
    }
    let rounding = device
        .footprint_bytes
        .saturating_add_signed(device.stack_limit_bytes.saturating_neg())
        .saturating_sub(device.live_bytes);
    if rounding > 0 {
        let text = "an estimate: the driver takes blocks of 2 MiB".to_owned();
        line("rounding", rounding, text)?;
    }
    if device.stack_limit_bytes != 0 {
        let text = format!(
            "{} than usual, for a stack limit that the program has set; an estimate, not in the sum",
            if device.stack_limit_bytes > 0 {
                "more"
            } else {
                "less"
            }
        );
        line("stacks", device.stack_limit_bytes.unsigned_abs(), text)?;
    }
    if device.managed_count > 0 {
        let sent = match device.managed_prefetched_bytes {
            0 => String::new(),
            bytes => format!(", {} prefetched here", units::bytes(bytes)),
        };
        let note = "cuMemAllocManaged; not in the sum: pages move";
        let text = alive(device.managed_count, &sent, note);
        line("managed", device.managed_bytes, text)?;
    }
    if device.imported_count > 0 {
        let note = "of other processes or interfaces; not in the sum";
        let text = alive(device.imported_count, "", note);
        line("borrowed", device.imported_bytes, text)?;
    }
    if device.adrift_bytes > 0 {
        let text =
            "released, but made descriptors that may still be open; not in the sum".to_owned();
        line("exported", device.adrift_bytes, text)?;
    }
    let handles: Vec<String> = device
        .handles
        .iter()
        .map(|(kind, count)| {
            let many = if kind.ends_with('y') {
                format!("{}ies", kind.trim_end_matches('y'))
            } else {
                format!("{kind}s")
            };
            units::count(*count, kind, &many)
        })
        .collect();
    if !handles.is_empty() {
        field(out, "handles", "", &handles.join(", "), width)?;
    }
    Ok(())
}

/// Memory that is shared with other processes in a way that somebody should know of.
fn shared(out: &mut dyn Write, process: &Process, all: bool, width: usize) -> io::Result<()> {
    const SHOWN: usize = 8;
    let told: Vec<_> = process
        .shared
        .iter()
        .filter(|shared| !shared.finding.is_empty())
        .collect();
    if told.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Shared with other processes{HEADING:#}")?;
    let shown = if all { told.len() } else { SHOWN };
    for shared in told.iter().take(shown) {
        let line = format!(
            "{} {} of {}, {} at {} by {}: {}",
            shared.kind,
            shared.address,
            units::bytes(shared.bytes),
            if shared.role == "owner" {
                "exported"
            } else {
                "imported"
            },
            units::seconds(shared.since_seconds),
            plain(&shared.caller),
            plain(&shared.finding),
        );
        item(out, &line, "      ", width)?;
    }
    if told.len() > shown {
        let more = units::count((told.len() - shown) as u64, "more", "more");
        writeln!(out, "  {more} (--view ipc lists them)")?;
    }
    Ok(())
}

/// Contexts: the living ones with who made them, the ended ones as a number unless all are asked for.
fn contexts(out: &mut dyn Write, device: &Device, all: bool, width: usize) -> io::Result<()> {
    let (ended, living): (Vec<&Context>, Vec<&Context>) =
        device.contexts.iter().partition(|c| c.ended_by.is_some());
    let shown = if all {
        device.contexts.len()
    } else {
        CONTEXTS_SHOWN
    };
    for (index, context) in living.iter().take(shown).enumerate() {
        let mut text = match context.origin {
            "primary" => format!(
                "primary, {}; made at {} by {}, {}",
                units::count(context.references.into(), "reference", "references"),
                units::seconds(context.began_seconds),
                plain(&context.caller),
                context.call
            ),
            "created" => format!(
                "created at {} by {}, {}",
                units::seconds(context.began_seconds),
                plain(&context.caller),
                context.call
            ),
            _ => format!(
                "made by no recorded call; first seen at {} in {} by {}",
                units::seconds(context.began_seconds),
                context.call,
                plain(&context.caller)
            ),
        };
        if index == 0 {
            text.push_str("; its own memory, hundreds of MiB, is not counted here");
        }
        field(out, "context", "", &text, width)?;
    }
    if living.len() > shown {
        let more = units::count(
            (living.len() - shown) as u64,
            "more context",
            "more contexts",
        );
        field(out, "", "", &format!("{more} (--all shows them)"), width)?;
    }
    if ended.is_empty() {
        return Ok(());
    }
    if all || living.len() + ended.len() <= CONTEXTS_SHOWN {
        for context in ended {
            let text = format!(
                "{}, made at {} by {}; {} at {}{}",
                context.origin,
                units::seconds(context.began_seconds),
                plain(&context.caller),
                context.ended_by.unwrap_or_default(),
                units::seconds(context.ended_seconds.unwrap_or_default()),
                took(context),
            );
            field(out, "context", "", &text, width)?;
        }
        return Ok(());
    }
    let last = ended
        .iter()
        .filter_map(|c| c.ended_seconds)
        .fold(0.0, f64::max);
    let text = format!(
        "{} ended, the last at {} (--all shows them)",
        units::count(ended.len() as u64, "context has", "contexts have"),
        units::seconds(last)
    );
    field(out, "", "", &text, width)
}

/// What graphs and captures did that somebody should know of.
pub(super) fn graph_troubles(records: &super::Records) -> Vec<String> {
    [
        (
            records.failed_captures,
            "stream capture ended without a graph",
            "stream captures ended without a graph",
        ),
        (
            records.graphs_ended_alive,
            "executable graph was destroyed while something that it had allocated was alive",
            "executable graphs were destroyed while something that they had allocated was alive",
        ),
        (
            records.unfollowed_launches,
            "graph launch or copy was too much to be followed",
            "graph launches and copies were too much to be followed",
        ),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| units::count(count, one, many))
    .collect()
}

/// What went with a context.
fn took(context: &Context) -> String {
    match (context.reclaimed_count, context.reclaimed_bytes) {
        (0, _) => String::new(),
        (count, 0) => format!(", with {}", units::count(count, "object", "objects")),
        (count, bytes) => format!(
            ", with {} of {} that were alive in it",
            units::bytes(bytes),
            units::count(count, "object", "objects")
        ),
    }
}

/// A device's short name.
pub(crate) fn gpu(ordinal: u8) -> String {
    if ordinal == DEVICE_UNKNOWN {
        "GPU ?".to_owned()
    } else {
        format!("GPU {ordinal}")
    }
}

pub(super) fn when(process: &Process) -> &'static str {
    if process.earlier {
        "then"
    } else if process.over {
        "at the end"
    } else if process.running {
        "now"
    } else {
        "at the last record"
    }
}

fn field(out: &mut dyn Write, name: &str, value: &str, text: &str, width: usize) -> io::Result<()> {
    let head = format!("  {name:12} {value:>10}   ");
    let indent = " ".repeat(FIELD_INDENT);
    let shape = textwrap::Options::new(width)
        .initial_indent(&head)
        .subsequent_indent(&indent)
        .break_words(false);
    for line in textwrap::wrap(text, shape) {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A line of a list; what does not fit goes on below, further in.
fn item(out: &mut dyn Write, text: &str, further: &str, width: usize) -> io::Result<()> {
    let shape = textwrap::Options::new(width)
        .initial_indent("  ")
        .subsequent_indent(further);
    for line in textwrap::wrap(text, shape) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn host(out: &mut dyn Write, process: &Process, width: usize) -> io::Result<()> {
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
            field(out, name, &units::bytes(bytes), &text, width)?;
        }
    }
    Ok(())
}

fn failures(out: &mut dyn Write, process: &Process, width: usize) -> io::Result<()> {
    if process.failures.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Refused by the driver{HEADING:#}")?;
    for failure in &process.failures {
        let asked = match (failure.largest_bytes, failure.count) {
            (0, _) => String::new(),
            (size, 1) => format!(", {} asked for", units::bytes(size)),
            (size, _) => format!(", at most {} asked for", units::bytes(size)),
        };
        let last = if failure.count == 1 { "" } else { ", the last" };
        let line = format!(
            "{} × {} {}{asked}, {}{last} by {}",
            units::thousands(failure.count),
            failure.call,
            failure.name,
            alive::births(failure.count, failure.first_seconds, failure.last_seconds),
            plain(&failure.caller)
        );
        item(out, &line, "      ", width)?;
    }
    Ok(())
}

fn in_flight(out: &mut dyn Write, process: &Process) -> io::Result<()> {
    if process.in_flight.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for call in &process.in_flight {
        let (style, verb) = if process.running {
            (FAINT, "is inside")
        } else if process.over {
            (BAD, "died inside")
        } else {
            (FAINT, "was inside")
        };
        let argument = match (call.size, call.address.as_str()) {
            (0, "0x0") => String::new(),
            (0, address) => format!("({address})"),
            (size, _) => format!("(size {})", units::bytes(size)),
        };
        writeln!(
            out,
            "{style}Thread {} ({}) {verb} {}{argument}.{style:#}",
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
                "through calls that are not recorded"
            }
        ));
    }
    if records.reused_addresses > 0 {
        lines.push(format!(
            "{} handed out again without a free that was seen",
            units::count(records.reused_addresses, "address was", "addresses were")
        ));
    }
    for (count, one, many) in [
        (
            records.narrow_calls,
            "call was made through the 32-bit interface from before CUDA 3.2",
            "calls were made through the 32-bit interface from before CUDA 3.2",
        ),
        (
            records.unknown_formats,
            "array is of a format that this version does not know: its size is not known",
            "arrays are of formats that this version does not know: their sizes are not known",
        ),
    ] {
        if count > 0 {
            lines.push(units::count(count, one, many));
        }
    }
    lines.extend(graph_troubles(records));
    for (call, count) in &records.checkpoints {
        lines.push(format!(
            "{} × {call}: what it moves is not seen",
            units::thousands(*count)
        ));
    }
    let unhooked = (
        &process.notes.unhooked,
        ["driver entry point", "driver entry points"],
        "handed out that gpushim does not record",
    );
    let tables = (
        &process.notes.export_tables,
        ["private driver table", "private driver tables"],
        "asked for; calls through them are not seen",
    );
    for (names, [one, many], what) in [unhooked, tables] {
        if !names.is_empty() {
            let count = units::count(names.len() as u64, one, many);
            let names = if all {
                format!(": {}", plain(&names.join(" ")))
            } else {
                " (--all names them)".to_owned()
            };
            lines.push(format!("{count} {what}{names}"));
        }
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
        item(out, &line, "    ", width)?;
    }
    Ok(())
}

/// Over several processes: like columns added up, by UUID.
fn together(out: &mut dyn Write, processes: &[Process], width: usize) -> io::Result<()> {
    writeln!(out, "\n{HEADING}These processes together{HEADING:#}")?;
    for sum in super::together(processes) {
        let short = sum.uuid.get(..12).unwrap_or(&sum.uuid);
        let moment = if sum.moment == "now" {
            "now"
        } else {
            "each at its end"
        };
        let others: String = [
            (sum.pool_bytes, "from pools"),
            (sum.managed_bytes, "managed"),
        ]
        .into_iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, what)| format!("; {} {what}", units::bytes(bytes)))
        .collect();
        let line = format!(
            "{short}  {}  {} of device memory, {moment}, in {} of {}{others}",
            plain(&sum.name),
            units::bytes(sum.live_bytes),
            units::count(sum.contexts, "context", "contexts"),
            units::count(sum.pids.len() as u64, "process", "processes"),
        );
        item(out, &line, "      ", width)?;
    }
    Ok(())
}
