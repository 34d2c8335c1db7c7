//! Which line an instruction belongs to, from the tables that CPython's compiler leaves in code objects.
//!
//! The bytes are the interpreter's and may be anything: every step is bounded by the table's end.

use super::layout::Lines;

/// The line of the instruction at `at` bytes; `None` where the table says that there is none, or ends before it.
pub(crate) fn line(kind: Lines, table: &[u8], first: i64, at: i64) -> Option<u32> {
    // Before the first instruction a function is at its first line.
    if at < 0 {
        return u32::try_from(first).ok();
    }
    let line = match kind {
        Lines::Lnotab => lnotab(table, first, at),
        Lines::Ranges => ranges(table, first, at)?,
        Lines::Locations => locations(table, first, at)?,
    };
    u32::try_from(line).ok()
}

/// Up to 3.9: pairs of an unsigned step in bytes and a signed step in lines.
fn lnotab(table: &[u8], first: i64, at: i64) -> i64 {
    let (mut address, mut line) = (0, first);
    for &[step, lines] in table.as_chunks::<2>().0 {
        address += i64::from(step);
        if address > at {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    line
}

/// 3.10: pairs of a range's length in bytes and a signed step in lines, -128 for a range without a line.
fn ranges(table: &[u8], first: i64, at: i64) -> Option<i64> {
    let (mut end, mut line) = (0, first);
    for &[length, lines] in table.as_chunks::<2>().0 {
        end += i64::from(length);
        let lines = lines.cast_signed();
        if lines != -128 {
            line += i64::from(lines);
        }
        if at < end {
            return (lines != -128).then_some(line);
        }
    }
    None
}

/// From 3.11 on: entries of one byte, 1 | kind:4 | units - 1:3, and what the kind carries.
fn locations(table: &[u8], first: i64, at: i64) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let (mut end, mut line) = (0, first);
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        let has_line = match kind {
            // Same line, columns in one more byte.
            0..=9 => {
                bytes.next();
                true
            }
            // One line further at most, columns in two more bytes.
            10..=12 => {
                line += i64::from(kind - 10);
                bytes.next();
                bytes.next();
                true
            }
            13 => {
                line += signed(&mut bytes)?;
                true
            }
            14 => {
                line += signed(&mut bytes)?;
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
                true
            }
            _ => false,
        };
        end += i64::from((head & 7) + 1) * 2;
        if at < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// A number in groups of six bits, the lowest first, of which all but the last are marked.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0_i64;
    for shift in (0..36).step_by(6) {
        let byte = bytes.next()?;
        value |= i64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The same with the sign in the lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = unsigned(bytes)?;
    Some(if value & 1 == 0 {
        value >> 1
    } else {
        -(value >> 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `code.co_lines()` of the interpreters says of the tables that they made; the whole walk is held against real interpreters
    /// in `tests/python.rs`.
    #[test]
    fn tables_of_each_kind() {
        // 3.9: def f(): \n x = 1 \n\n y = 2; lines 2 and 4.
        let table = [0, 1, 4, 2];
        assert_eq!(line(Lines::Lnotab, &table, 1, 0), Some(2));
        assert_eq!(line(Lines::Lnotab, &table, 1, 3), Some(2));
        assert_eq!(line(Lines::Lnotab, &table, 1, 4), Some(4));
        assert_eq!(line(Lines::Lnotab, &table, 1, -1), Some(1));
        // 3.10: the same; then a range without a line.
        let table = [4, 1, 6, 2, 2, 128];
        assert_eq!(line(Lines::Ranges, &table, 1, 2), Some(2));
        assert_eq!(line(Lines::Ranges, &table, 1, 4), Some(4));
        assert_eq!(line(Lines::Ranges, &table, 1, 10), None);
        assert_eq!(line(Lines::Ranges, &table, 1, 12), None);
        // 3.11: one unit on the first line (kind 13, +0), one unit one line further (kind 11), two units back by 70 lines (kind
        // 14), one without (kind 15).
        let table = [
            0x80 | 13 << 3,
            0,
            0x80 | 11 << 3,
            0,
            0,
            0x80 | 14 << 3 | 1,
            64 | (141 & 63),
            141 >> 6,
            0,
            1,
            1,
            0x80 | 15 << 3,
        ];
        assert_eq!(line(Lines::Locations, &table, 100, 0), Some(100));
        assert_eq!(line(Lines::Locations, &table, 100, 2), Some(101));
        assert_eq!(line(Lines::Locations, &table, 100, 6), Some(31));
        assert_eq!(line(Lines::Locations, &table, 100, 8), None);
        assert_eq!(line(Lines::Locations, &table, 100, 10), None);
    }

    /// A table that is cut off, or was never one.
    #[test]
    fn any_bytes_end() {
        let mut bytes = [0_u8; 97];
        let mut seed = 1_u32;
        for _ in 0..2_000 {
            for byte in &mut bytes {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (seed >> 24) as u8;
            }
            for kind in [Lines::Lnotab, Lines::Ranges, Lines::Locations] {
                for at in [-2, 0, 7, 1 << 30] {
                    line(kind, &bytes, i64::from(seed as i32), at);
                }
            }
        }
    }
}
