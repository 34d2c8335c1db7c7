//! Charts in characters.

use crate::render::units;
use crate::timeline::Bucket;

/// Columns of the labels and the axis on the left.
pub const AXIS_WIDTH: usize = LABEL_WIDTH + 2;
const LABEL_WIDTH: usize = 9;
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One line: each column as high as its greatest value.
pub fn sparkline(columns: &[Bucket]) -> String {
    let top = columns.iter().map(|c| c.greatest).max().unwrap_or(0);
    columns
        .iter()
        .map(|column| match column.greatest {
            0 => ' ',
            value => EIGHTHS[(u128::from(value) * 7 / u128::from(top)) as usize],
        })
        .collect()
}

/// A chart with axes: `rows` lines of blocks, sizes on the left, seconds below.
pub fn area(columns: &[Bucket], rows: usize, from_s: f64, to_s: f64) -> Vec<String> {
    let top = columns.iter().map(|c| c.greatest).max().unwrap_or(0).max(1);
    let mut lines = Vec::new();
    for row in (0..rows).rev() {
        // Eighths of a row that are filled below this row's top.
        let bar: String = columns
            .iter()
            .map(|column| {
                let eighths = (u128::from(column.greatest) * rows as u128 * 8)
                    .div_ceil(u128::from(top)) as usize;
                match eighths.saturating_sub(row * 8) {
                    0 => ' ',
                    part => EIGHTHS[part.min(8) - 1],
                }
            })
            .collect();
        let label = if row + 1 == rows {
            units::bytes(top)
        } else if row + 1 == rows.div_ceil(2) {
            units::bytes((u128::from(top) * (row as u128 + 1) / rows as u128) as u64)
        } else {
            String::new()
        };
        lines.push(
            format!("{label:>LABEL_WIDTH$} ┤{bar}")
                .trim_end()
                .to_owned(),
        );
    }
    let width = columns.len();
    lines.push(format!("{:>LABEL_WIDTH$} └{}", "0", "─".repeat(width)));
    let (left, middle, right) = (
        units::seconds(from_s),
        units::seconds(f64::midpoint(from_s, to_s)),
        units::seconds(to_s),
    );
    let mut axis: Vec<char> = vec![' '; width.max(right.len())];
    for (text, centre) in [(&left, 0), (&middle, width / 2), (&right, width)] {
        let len = text.chars().count();
        let start = centre
            .saturating_sub(len / 2)
            .min(axis.len().saturating_sub(len));
        let free = axis[start..(start + len).min(axis.len())]
            .iter()
            .all(|c| *c == ' ');
        if free {
            for (place, c) in axis[start..].iter_mut().zip(text.chars()) {
                *place = c;
            }
        }
    }
    let axis: String = axis.into_iter().collect();
    lines.push(format!("{:LABEL_WIDTH$}  {}", "", axis.trim_end()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(greatest: u64) -> Bucket {
        Bucket {
            first_ns: 0,
            least: 0,
            greatest,
            last: greatest,
        }
    }

    #[test]
    fn the_top_row_is_reached_by_the_peak_alone() {
        let columns: Vec<Bucket> = [0, 50, 100, 25].into_iter().map(column).collect();
        let lines = area(&columns, 2, 0.0, 4.0);
        assert_eq!(lines[0], "    100 B ┤  █");
        assert_eq!(lines[1], "     50 B ┤ ██▄");
        assert_eq!(sparkline(&columns), " ▄█▂");
    }

    #[test]
    fn nothing_at_all_is_drawn_flat() {
        let lines = area(&[column(0); 30], 3, 0.0, 1.0);
        assert!(lines[0].ends_with('┤'));
    }
}
