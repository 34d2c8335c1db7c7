//! One module a verb.

pub mod demo;
pub mod doctor;
pub mod ls;
pub mod report;
pub mod run;
pub mod sites;
pub mod timeline;

use std::io::Write;

use crate::error::Error;

/// Says on standard error which captures were left out.
pub(crate) fn say_skipped(skipped: &[Error]) {
    for error in skipped {
        anstream::eprintln!("gpushim: left out: {error}");
    }
}

/// Says on standard error what a capture lacks, where the answer itself has no place for it.
pub(crate) fn say_losses(pid: u32, losses: &[String]) {
    for loss in losses {
        anstream::eprintln!("gpushim: pid {pid}: not exact: {loss}");
    }
}

/// Writes a JSON document.
pub(crate) fn write_json(value: &impl serde::Serialize) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// An error of the CSV writer, which is an error of its output.
pub(crate) fn csv_error(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Error::Output(error),
        other => Error::Output(std::io::Error::other(format!("{other:?}"))),
    }
}
