//! What is alive, grouped, as a table that fits the width.

use std::io::{self, Write};

use super::sites::Site;
use super::text::{gpu, when};
use super::{Group, Process};
use crate::render::{FAINT, HEADING, keep_end, plain, units};

/// Groups that are shown unless all are asked for.
const GROUPS_SHOWN: usize = 8;
/// One moment, or the first and the last.
pub(super) fn births(count: u64, first: f64, last: f64) -> String {
    let (first, last) = (units::seconds(first), units::seconds(last));
    if count == 1 || first == last {
        first
    } else {
        format!("{} … {last}", first.trim_end_matches(" s"))
    }
}

/// Writes PyTorch's blocks by line, the largest or all of them.
pub(super) fn blocks(
    out: &mut dyn Write,
    process: &Process,
    all: bool,
    width: usize,
) -> io::Result<()> {
    if process.blocks.is_empty() {
        return Ok(());
    }
    let when = when(process);
    writeln!(
        out,
        "\n{HEADING}PyTorch's blocks alive {when}, by line{HEADING:#}{FAINT}   inside the memory below{FAINT:#}"
    )?;
    let shown = if all { usize::MAX } else { GROUPS_SHOWN };
    site_rows(out, process.blocks.iter().take(shown), width)?;
    let rest = process.blocks.iter().skip(shown);
    let (count, bytes) = rest.fold((0, 0_u64), |(count, bytes), site| {
        (count + 1, bytes.saturating_add(site.live_bytes))
    });
    if count > 0 {
        writeln!(
            out,
            "  {} (--all shows them): {}",
            units::count(count, "more line", "more lines"),
            units::bytes(bytes)
        )?;
    }
    Ok(())
}

/// Rows of lines: bytes and number alive, who, since when.
fn site_rows<'s>(
    out: &mut dyn Write,
    sites: impl Iterator<Item = &'s Site>,
    width: usize,
) -> io::Result<()> {
    let cells: Vec<[String; 4]> = sites
        .map(|site| {
            [
                units::bytes(site.live_bytes),
                units::count(site.live_count, "block", "blocks"),
                plain(&site.who()),
                births(site.total_count, site.first_seconds, site.last_seconds),
            ]
        })
        .collect();
    let widest = |at: usize| cells.iter().map(|row| row[at].chars().count()).max();
    let [bytes, count, who, born] = [0, 1, 2, 3].map(|at| widest(at).unwrap_or(0));
    let left = 2 + bytes + 2 + count + 2;
    let room = width.saturating_sub(left + 2 + born).max(12);
    let who = who.min(room);
    for [b, n, w, at] in &cells {
        let w = keep_end(w, who);
        writeln!(
            out,
            "  {b:>bytes$}  {n:<count$}  {w:who$}  {FAINT}{at:>born$}{FAINT:#}"
        )?;
    }
    Ok(())
}

/// Writes the largest groups, or all of them.
pub(super) fn write(
    out: &mut dyn Write,
    process: &Process,
    all: bool,
    width: usize,
) -> io::Result<()> {
    let when = when(process);
    if process.alive.is_empty() {
        return writeln!(out, "\n{HEADING}Alive {when}{HEADING:#}\n  nothing");
    }
    let note = if process.over && !process.earlier {
        "   reclaimed when the process ended"
    } else {
        ""
    };
    writeln!(
        out,
        "\n{HEADING}Alive {when}, by call, caller and size{HEADING:#}{FAINT}{note}{FAINT:#}"
    )?;
    let shown = if all {
        process.alive.len()
    } else {
        GROUPS_SHOWN.min(process.alive.len())
    };
    rows(out, &process.alive[..shown], width)?;
    let rest = &process.alive[shown..];
    if rest.is_empty() {
        return Ok(());
    }
    // Unlike things are never summed: the rest is said by space.
    let mut spaces: Vec<(&str, u64)> = Vec::new();
    for group in rest {
        match spaces.iter_mut().find(|(name, _)| *name == group.space) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(group.bytes),
            None => spaces.push((group.space, group.bytes)),
        }
    }
    let spaces: Vec<String> = spaces
        .into_iter()
        .map(|(name, bytes)| format!("{} {name}", units::bytes(bytes)))
        .collect();
    writeln!(
        out,
        "  {} (--all shows them): {}",
        units::count(rest.len() as u64, "more group", "more groups"),
        spaces.join(", ")
    )
}

/// Who made a group's call: the program's own line, and the library that called the driver.
fn who(group: &Group) -> String {
    match &group.site {
        None => group.caller.clone(),
        Some(site) => {
            let library = group.caller.split('+').next().unwrap_or_default();
            format!("{} · {library}", site.short())
        }
    }
}

fn rows(out: &mut dyn Write, groups: &[Group], width: usize) -> io::Result<()> {
    // Bytes, count, size, place, call, caller, births. Where all are in one place it goes without saying.
    let place = |group: &Group| group.device.map_or_else(|| "host".to_owned(), gpu);
    let one_place = groups.iter().all(|g| g.device == groups[0].device);
    let cells: Vec<[String; 7]> = groups
        .iter()
        .map(|group| {
            [
                units::bytes(group.bytes),
                units::thousands(group.count),
                units::bytes(group.size),
                if one_place {
                    String::new()
                } else {
                    place(group)
                },
                group.call.clone(),
                plain(&who(group)),
                births(group.count, group.first_seconds, group.last_seconds),
            ]
        })
        .collect();
    let mut widths = [0; 7];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let [bytes, count, size, place, call, caller, born] = widths;
    let gap = if place == 0 { "" } else { "  " };
    let left = 2 + bytes + 2;
    let others = left + count + 3 + size + gap.len() + place + 2 + call + 2 + 2 + born;
    // A caller without its library says nothing: where it does not fit it has a line of its own.
    let beside = others + caller <= width;
    for [b, n, s, p, c, who, at] in &cells {
        write!(
            out,
            "  {b:>bytes$}  {n:>count$} × {s:<size$}{gap}{p:place$}  {c:call$}  "
        )?;
        if beside {
            writeln!(out, "{who:caller$}  {FAINT}{at:>born$}{FAINT:#}")?;
        } else {
            writeln!(out, "{FAINT}{at:>born$}{FAINT:#}")?;
            writeln!(out, "{:left$}{}", "", keep_end(who, width - left))?;
        }
    }
    Ok(())
}
