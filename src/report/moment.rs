//! Moments of a run, as people name them: a time, a clock's reading, or a phase.

use std::fmt;
use std::str::FromStr;

use crate::capture::Capture;
use crate::error::Error;
use crate::ledger::{Ledger, Phase};

/// A moment of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Moment {
    /// Seconds since the capture was opened.
    Seconds(f64),
    /// CLOCK_REALTIME, ns.
    Wall(u64),
    /// The beginning of a phase: its name, and the how-manieth of that name, from 1 on.
    Phase(String, usize),
    /// The end of a phase.
    PhaseEnd(String, usize),
}

/// What a moment looks like.
const SHAPES: &str = "a time since the first call (3.2s, 150ms, 5min), a clock reading (@NANOSECONDS), or a \
    phase (NAME, NAME#2 for its second, NAME:end for its end)";

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(wall) = text.strip_prefix('@') {
            return wall
                .parse()
                .map(Self::Wall)
                .map_err(|_| format!("{SHAPES}; {text:?} is no clock reading"));
        }
        if let Some(seconds) = seconds(text) {
            return if seconds.is_finite() && seconds >= 0.0 {
                Ok(Self::Seconds(seconds))
            } else {
                Err(SHAPES.to_owned())
            };
        }
        let (name, is_end) = match text.strip_suffix(":end") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let (name, number) = match name.rsplit_once('#') {
            Some((name, number)) => match number.parse() {
                Ok(number) if number > 0 => (name, number),
                _ => return Err(SHAPES.to_owned()),
            },
            None => (name, 1),
        };
        if name.trim().is_empty() {
            return Err(SHAPES.to_owned());
        }
        Ok(if is_end {
            Self::PhaseEnd(name.to_owned(), number)
        } else {
            Self::Phase(name.to_owned(), number)
        })
    }
}

/// A number with an optional unit of time, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let (number, factor) = if let Some(number) = text.strip_suffix("ms") {
        (number, 1e-3)
    } else if let Some(number) = text.strip_suffix("min") {
        (number, 60.0)
    } else {
        (text.strip_suffix('s').unwrap_or(text), 1.0)
    };
    // "nan" and "infinity" are numbers to the parser, and may be names of phases to people.
    let number = number.trim();
    let begins = number.trim_start_matches(['-', '+', '.']);
    if !begins.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    number.parse::<f64>().ok().map(|value| value * factor)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => write!(f, "{seconds} s"),
            Self::Wall(ns) => write!(f, "@{ns}"),
            Self::Phase(name, 1) => write!(f, "{name}"),
            Self::Phase(name, number) => write!(f, "{name}#{number}"),
            Self::PhaseEnd(name, 1) => write!(f, "the end of {name}"),
            Self::PhaseEnd(name, number) => write!(f, "the end of {name}#{number}"),
        }
    }
}

impl Moment {
    /// When it is in a capture, CLOCK_MONOTONIC ns.
    ///
    /// # Errors
    /// When the capture has no such phase, or it has not ended; with the names that there are.
    pub fn at_ns(&self, capture: &Capture, phases: &[Phase]) -> Result<u64, Error> {
        let identity = &capture.identity;
        match self {
            Self::Seconds(seconds) => Ok(identity
                .opened_monotonic_ns
                .saturating_add_signed((seconds * 1e9) as i64)),
            Self::Wall(ns) => {
                let since = i128::from(*ns) - i128::from(identity.opened_realtime_ns);
                let at = i128::from(identity.opened_monotonic_ns) + since;
                Ok(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
            }
            Self::Phase(name, number) | Self::PhaseEnd(name, number) => {
                let mut found = phases.iter().filter(|phase| phase.name == *name);
                let Some(phase) = found.nth(number - 1) else {
                    return Err(unknown(self, phases));
                };
                match self {
                    Self::Phase(..) => Ok(phase.from_ns),
                    // One that lasts ends with the run.
                    _ => Ok(phase.to_ns.unwrap_or(u64::MAX)),
                }
            }
        }
    }

    /// Whether the phases must be known to tell when it is.
    pub fn needs_phases(&self) -> bool {
        matches!(self, Self::Phase(..) | Self::PhaseEnd(..))
    }
}

fn unknown(moment: &Moment, phases: &[Phase]) -> Error {
    let mut names: Vec<&str> = Vec::new();
    for phase in phases {
        if !names.contains(&phase.name.as_str()) && names.len() < 12 {
            names.push(&phase.name);
        }
    }
    let there = if names.is_empty() {
        "the program named no phases (NVTX ranges, or gpushim_mark)".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Error::Usage(format!(
        "there is no moment {}: it is {SHAPES}, and {there}",
        crate::render::plain(&moment.to_string())
    ))
}

/// The phases of a capture, for moments that need them.
///
/// # Errors
/// When the file cannot be read.
pub fn phases(capture: &Capture, moments: &[&Moment]) -> Result<Vec<Phase>, Error> {
    if !moments.iter().any(|moment| moment.needs_phases()) {
        return Ok(Vec::new());
    }
    let mut ledger = Ledger::default();
    capture.records(|record| {
        if gpushim_abi::events::Event::from_raw(record.call).is_some_and(|event| !event.is_block())
        {
            ledger.take(record, &capture.tables);
        }
    })?;
    Ok(ledger.phases().0.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let seconds = |s| Ok(Moment::Seconds(s));
        assert_eq!("3.2s".parse(), seconds(3.2));
        assert_eq!("150ms".parse(), seconds(0.15));
        assert_eq!("2min".parse(), seconds(120.0));
        assert_eq!("7".parse(), seconds(7.0));
        assert_eq!("@17".parse(), Ok(Moment::Wall(17)));
        let phase = |name: &str, n| Ok(Moment::Phase(name.to_owned(), n));
        assert_eq!("step 3".parse(), phase("step 3", 1));
        assert_eq!("loop#4".parse(), phase("loop", 4));
        assert_eq!("nan".parse(), phase("nan", 1));
        assert_eq!(
            "loop:end".parse(),
            Ok(Moment::PhaseEnd("loop".to_owned(), 1))
        );
        for bad in ["", "-1", "-1s", "@", "@x", "#1", "a#0", "a#x", "1e999"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }
}
