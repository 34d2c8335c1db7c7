//! How many bytes an array asks for, and what it takes.

use gpushim_abi::effect::ArrayFacts;

/// Bytes of a texel as a fraction, `(bytes, texels)`, by `CUarray_format`; formats of fixed channels have them in it. From NVIDIA's
/// headers; block-compressed formats count 16 texels a block, subsampled video formats their average.
fn texel(format: u16, channels: u8) -> Option<(u64, u64)> {
    let each = |bytes: u64| Some((bytes * u64::from(channels), 1));
    match format {
        0x01 | 0x08 => each(1),
        0x02 | 0x09 | 0x10 => each(2),
        0x03 | 0x0a | 0x20 => each(4),
        // UNORM_INT_101010_2.
        0x50 => Some((4, 1)),
        // 8-bit 4:2:2 packed, 4:4:4 packed.
        0x51 => Some((2, 1)),
        0x52 => Some((4, 1)),
        // 4:2:0, 4:2:2 and 4:4:4, of 8 and 16 bits, semi-planar then planar.
        0x53 | 0x59 => Some((3, 2)),
        0x54 | 0x5a => Some((3, 1)),
        0x55 | 0x5b => Some((2, 1)),
        0x56 | 0x5c => Some((4, 1)),
        0x57 | 0x5d => Some((3, 1)),
        0x58 | 0x5e => Some((6, 1)),
        // BC1 and BC4 have 8 bytes a block of 16 texels, the other BC formats 16.
        0x91 | 0x92 | 0x97 | 0x98 => Some((8, 16)),
        0x93..=0x96 | 0x99..=0x9e => Some((16, 16)),
        // P010, P016; NV16, P210, P216; YUY2, Y210, Y216; AYUV, Y410; NV12, Y416.
        0x9f | 0xa1 => Some((3, 1)),
        0xa2 => Some((2, 1)),
        0xa3 | 0xa4 => Some((4, 1)),
        0xa5 => Some((2, 1)),
        0xa6 | 0xa7 => Some((4, 1)),
        0xa8 | 0xa9 => Some((4, 1)),
        0xb0 => Some((3, 2)),
        0xb1 => Some((8, 1)),
        // Y444 planar 8 and 10 bits, semi-planar 8 and 16 bits.
        0xb2 | 0xb4 => Some((3, 1)),
        0xb3 | 0xb5 => Some((6, 1)),
        // UNORM and SNORM of 8 and 16 bits with 1, 2 and 4 channels.
        0xc0 | 0xc6 => Some((1, 1)),
        0xc1 | 0xc7 | 0xc3 | 0xc9 => Some((2, 1)),
        0xc2 | 0xc8 | 0xc4 | 0xca => Some((4, 1)),
        0xc5 | 0xcb => Some((8, 1)),
        _ => None,
    }
}

fn part(texels: u128, (bytes, of): (u64, u64)) -> u128 {
    texels.saturating_mul(bytes.into()).div_ceil(of.into())
}

/// A level's extents.
fn extents(facts: &ArrayFacts, level: u32) -> (u128, u128, u128) {
    let shrink = |extent: u32| u128::from((extent.max(1) >> level.min(31)).max(1));
    let depth = if facts.flags & ArrayFacts::LAYERED != 0 {
        facts.depth.max(1).into()
    } else {
        shrink(facts.depth)
    };
    (shrink(facts.width), shrink(facts.height), depth)
}

/// Levels that an array of these extents can have, at most as many as asked for.
fn levels(facts: &ArrayFacts, asked: u64) -> u32 {
    let depth = if facts.flags & ArrayFacts::LAYERED != 0 {
        1
    } else {
        facts.depth
    };
    let most = 32
        - facts
            .width
            .max(facts.height)
            .max(depth)
            .max(1)
            .leading_zeros();
    u32::try_from(asked).unwrap_or(u32::MAX).min(most)
}

fn total(facts: &ArrayFacts, asked: u64, each: impl Fn((u128, u128, u128)) -> u128) -> u64 {
    let sum = (0..levels(facts, asked))
        .map(|level| each(extents(facts, level)))
        .fold(0_u128, u128::saturating_add);
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Bytes of the texels of all levels; `None` for a format that only a later version knows.
pub(super) fn requested(facts: &ArrayFacts, levels: u64) -> Option<u64> {
    let texel = texel(facts.format, facts.channels)?;
    Some(total(facts, levels, |(width, height, depth)| {
        // Blocks are whole.
        let whole = |extent: u128| {
            if texel.1 == 16 {
                extent.next_multiple_of(4)
            } else {
                extent
            }
        };
        let texels = whole(width).saturating_mul(whole(height));
        part(texels.saturating_mul(depth), texel)
    }))
}

/// What the driver takes for it: rows of 64 bytes, columns of up to 16 blocks of 8 rows. An estimate that fits what was measured
/// on an H200 with driver 580 for arrays of eleven shapes. 0 for those without memory of their own.
pub(super) fn taken(facts: &ArrayFacts, levels: u64) -> u64 {
    if facts.flags & (ArrayFacts::SPARSE | ArrayFacts::DEFERRED) != 0 {
        return 0;
    }
    let Some(texel) = texel(facts.format, facts.channels) else {
        return 0;
    };
    total(facts, levels, |(width, height, depth)| {
        let row = part(width, texel).next_multiple_of(64);
        let rows = height.next_multiple_of(8 * height.div_ceil(8).next_power_of_two().min(16));
        row.saturating_mul(rows).saturating_mul(depth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(width: u32, height: u32, depth: u32, format: u16, channels: u8) -> ArrayFacts {
        ArrayFacts {
            width,
            height,
            depth,
            format,
            channels,
            flags: 0,
        }
    }

    /// NVIDIA's own table of formats, as data with its origin (`tests/data/driver-api`).
    #[test]
    fn every_format_has_the_size_that_the_headers_say() {
        let table = include_str!("../../tests/data/driver-api/array_formats.tsv");
        let mut seen = 0;
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            let (name, format) = (fields[0], fields[1].parse::<u16>().expect("a number"));
            let bytes: u64 = fields[4].parse().expect("a number");
            let of: u64 = fields[5].parse().expect("a number");
            let scale = if fields[3] == "plain" { 2 } else { 1 };
            let (ours, per) = texel(format, 2).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(ours * of, bytes * scale * per, "{name}");
            seen += 1;
        }
        assert!(seen > 60);
        assert_eq!(texel(0x1234, 1), None);
    }

    #[test]
    fn levels_are_halved_and_layers_are_not() {
        let square = facts(1024, 1024, 0, 0x20, 1);
        assert_eq!(requested(&square, 1), Some(4 << 20));
        // 4 MiB, 1 MiB, …, 4 B: the levels beyond the eleventh are none.
        assert_eq!(requested(&square, 11), requested(&square, 99));
        assert_eq!(requested(&square, 11), Some(((4 << 20) * 4 - 4) / 3));
        let layered = ArrayFacts {
            flags: ArrayFacts::LAYERED,
            ..facts(2, 2, 6, 0x01, 1)
        };
        assert_eq!(requested(&layered, 2), Some(24 + 6));
        let solid = facts(2, 2, 2, 0x01, 1);
        assert_eq!(requested(&solid, 2), Some(8 + 1));
    }

    /// Numbers from a file may be anything.
    #[test]
    fn absurd_extents_are_survived() {
        let absurd = facts(u32::MAX, u32::MAX, u32::MAX, 0xc5, 255);
        assert_eq!(requested(&absurd, u64::MAX), Some(u64::MAX));
        assert_eq!(taken(&absurd, u64::MAX), u64::MAX);
    }
}
