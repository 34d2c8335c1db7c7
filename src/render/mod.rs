//! Values as people read them: sizes, times, names, charts.

pub mod chart;
pub mod names;
pub mod units;

use std::io::Write;

use anstyle::{AnsiColor, Style};

/// Headings.
pub const HEADING: Style = Style::new().bold();
/// What needs a look.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// What is fine.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default();
/// What may be skipped.
pub const FAINT: Style = Style::new().dimmed();

/// Where text goes: standard output, with colours only where a terminal shows them.
pub fn output() -> Box<dyn Write> {
    Box::new(anstream::AutoStream::auto(std::io::stdout()))
}

/// Columns that may be filled: the terminal's, at least 60, at most 160; 100 where there is no terminal.
pub fn width() -> usize {
    let asked = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    let terminal = || {
        rustix::termios::tcgetwinsize(std::io::stdout())
            .ok()
            .map(|size| size.ws_col.into())
    };
    asked
        .or_else(terminal)
        .filter(|&columns: &usize| columns > 0)
        .unwrap_or(100)
        .clamp(60, 160)
}

/// Cuts a text to a width, from the left where the end says more.
pub fn keep_end(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(len - width.saturating_sub(1)).collect();
    format!("…{kept}")
}

/// Cuts a text to a width from the right.
pub fn keep_start(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Text from a capture, made harmless for a terminal.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
