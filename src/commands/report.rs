//! `gpushim report`: who holds the memory.

use std::process::ExitCode;

use serde::Serialize;

use super::{csv_error, say_losses, say_skipped, write_json};
use crate::capture::Capture;
use crate::cli::{self, Format};
use crate::error::Error;
use crate::report::views::{self, Cell, Table, View};
use crate::report::{self, Options, Process, Reading, SCHEMA, Together};
use crate::{render, session};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    processes: &'a [Process],
    together: Vec<Together>,
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
        at: arguments.at.clone(),
    };
    let readings = report::session(&captures, &options)?;
    if let Some(device) = &options.device
        && readings.iter().all(|r| r.process.devices.is_empty())
    {
        return Err(Error::Usage(format!(
            "no capture has anything on a device {device}"
        )));
    }
    if let Some(view) = arguments.view {
        return show(view, &captures, &readings, arguments);
    }
    let processes: Vec<Process> = readings.into_iter().map(|r| r.process).collect();
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

/// Shows the objects of one kind.
fn show(
    view: View,
    captures: &[Capture],
    readings: &[Reading],
    arguments: &cli::Report,
) -> Result<ExitCode, Error> {
    let mut tables: Vec<Table> = captures
        .iter()
        .zip(readings)
        .map(|(capture, reading)| views::table(view, capture, reading, arguments.all))
        .collect();
    if arguments.input.device.is_some() {
        for (table, reading) in tables.iter_mut().zip(readings) {
            let wanted: Vec<String> = reading
                .process
                .devices
                .iter()
                .map(|device| report::text::gpu(device.ordinal))
                .collect();
            table.keep_devices(&wanted);
        }
    }
    match arguments.input.format {
        Format::Text => {
            let mut out = render::output();
            for (table, reading) in tables.iter().zip(readings) {
                views::write(&mut out, view, table, &reading.process, render::width())?;
            }
            out.flush()?;
        }
        Format::Json => write_json(&views::document(view, &tables))?,
        Format::Csv => {
            let mut out = csv::Writer::from_writer(std::io::stdout().lock());
            for (index, (table, reading)) in tables.iter().zip(readings).enumerate() {
                say_losses(table.pid, &reading.process.losses);
                if index == 0 {
                    let columns = ["pid"].iter().chain(table.columns);
                    out.write_record(columns).map_err(csv_error)?;
                }
                for row in &table.rows {
                    let cells = row.iter().map(Cell::raw);
                    out.write_record([table.pid.to_string()].into_iter().chain(cells))
                        .map_err(csv_error)?;
                }
            }
            out.flush()?;
        }
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
