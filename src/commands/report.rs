//! `gpushim report`: who holds the memory.

use std::process::ExitCode;

use serde::Serialize;

use super::{csv_error, say_losses, say_skipped, write_json};
use crate::cli::{self, Format};
use crate::error::Error;
use crate::report::{self, Options, Process, SCHEMA, Together};
use crate::{render, session};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    processes: &'a [Process],
    together: Vec<Together>,
}

/// Reads a moment: a number with an optional unit.
///
/// # Errors
/// When it is none; the text says what one looks like.
pub fn moment(text: &str) -> Result<f64, String> {
    let (number, factor) = if let Some(number) = text.strip_suffix("ms") {
        (number, 1e-3)
    } else if let Some(number) = text.strip_suffix("min") {
        (number, 60.0)
    } else {
        (text.strip_suffix('s').unwrap_or(text), 1.0)
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * factor),
        _ => Err("a time since the first call, such as 3.2s, 150ms or 5min".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// When nothing can be read, or the answer cannot be written.
pub fn main(arguments: &cli::Report) -> Result<ExitCode, Error> {
    let (captures, skipped) = session::open(&arguments.input.captures)?;
    say_skipped(&skipped);
    let options = Options {
        device: arguments.input.device.clone(),
        at_seconds: arguments.at,
    };
    let mut processes = Vec::new();
    for capture in &captures {
        processes.push(report::process(capture, &options)?);
    }
    if let Some(device) = &options.device
        && processes.iter().all(|process| process.devices.is_empty())
    {
        return Err(Error::Usage(format!(
            "no capture has anything on a device {device}"
        )));
    }
    match arguments.input.format {
        Format::Text => {
            let mut out = render::output();
            report::text::write(&mut out, &processes, arguments.all, render::width())?;
            out.flush()?;
        }
        Format::Json => write_json(&Document {
            schema: SCHEMA,
            processes: &processes,
            together: report::together(&processes),
        })?,
        Format::Csv => csv(&processes)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The groups as one table.
fn csv(processes: &[Process]) -> Result<(), Error> {
    let mut out = csv::Writer::from_writer(std::io::stdout().lock());
    out.write_record([
        "pid",
        "device",
        "space",
        "call",
        "caller",
        "size_bytes",
        "count",
        "bytes",
        "first_seconds",
        "last_seconds",
    ])
    .map_err(csv_error)?;
    for process in processes {
        say_losses(process.pid, &process.losses);
        for group in &process.alive {
            out.write_record([
                process.pid.to_string(),
                group.device.map_or_else(String::new, |d| d.to_string()),
                group.space.to_owned(),
                group.call.clone(),
                group.caller.clone(),
                group.size.to_string(),
                group.count.to_string(),
                group.bytes.to_string(),
                format!("{:.9}", group.first_seconds),
                format!("{:.9}", group.last_seconds),
            ])
            .map_err(csv_error)?;
        }
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_with_their_unit() {
        assert_eq!(moment("3.2s"), Ok(3.2));
        assert_eq!(moment("150ms"), Ok(0.15));
        assert_eq!(moment("2min"), Ok(120.0));
        assert_eq!(moment("7"), Ok(7.0));
        for bad in ["", "s", "-1s", "soon", "NaN", "inf", "3h"] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
