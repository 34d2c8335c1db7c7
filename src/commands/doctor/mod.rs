//! `gpushim doctor`: can this program be recorded here?

mod coverage;
pub(crate) mod driver;
mod program;
mod surroundings;

use std::io::Write as _;
use std::process::ExitCode;

use coverage::State;
use serde::Serialize;

use super::write_json;
use crate::cli::{self, Format};
use crate::error::Error;
use crate::render::{self, BAD, GOOD, HEADING, WARNING, plain};

/// Name and version of the JSON form.
const SCHEMA: &str = "gpushim.doctor/1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn new(what: &'static str, verdict: Verdict, finding: String) -> Self {
        Self {
            what,
            verdict,
            finding,
            remedy: None,
        }
    }

    fn good(what: &'static str, finding: String) -> Self {
        Self::new(what, Verdict::Good, finding)
    }

    fn warning(what: &'static str, finding: String) -> Self {
        Self::new(what, Verdict::Warning, finding)
    }

    fn bad(what: &'static str, finding: String) -> Self {
        Self::new(what, Verdict::Bad, finding)
    }

    fn remedy(mut self, text: &str) -> Self {
        self.remedy = Some(text.to_owned());
        self
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    recordable: bool,
    checks: Vec<Check>,
    hooked: Vec<String>,
    not_hooked: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When the answer cannot be written.
pub fn main(arguments: &cli::Doctor) -> Result<ExitCode, Error> {
    if let Some(library) = &arguments.coverage {
        let found = library.clone().or_else(driver::driver);
        let library = found.ok_or_else(|| {
            Error::Usage("no libcuda.so.1 is found here; name one: --coverage LIBCUDA".to_owned())
        })?;
        return coverage::main(&library, arguments.format);
    }
    let mut checks = vec![
        surroundings::check_library(),
        surroundings::check_directory(),
    ];
    let driver = driver::driver();
    checks.push(driver::check_driver(driver.as_deref()));
    let mut exported = driver.as_deref().map(driver::exports).unwrap_or_default();
    exported.retain(|name| driver::is_driver_function(name));
    let rows = coverage::rows(&exported);
    let names = |wanted: &dyn Fn(State) -> bool| -> Vec<String> {
        let rows = rows.iter().filter(|row| wanted(row.state));
        rows.map(|row| row.symbol.clone()).collect()
    };
    let hooked = names(&|state| state == State::Recorded);
    let not_hooked = names(&|state| state != State::Recorded);
    if !exported.is_empty() {
        checks.push(driver::check_coverage(&rows));
    }
    if let Some(program) = &arguments.program {
        checks.extend(program::check_program(program));
    }
    checks.extend(surroundings::check_environment());
    let recordable = checks.iter().all(|check| check.verdict != Verdict::Bad);
    match arguments.format {
        Format::Json => write_json(&Document {
            schema: SCHEMA,
            recordable,
            checks,
            hooked,
            not_hooked,
        })?,
        Format::Csv => {
            return Err(Error::Usage(
                "doctor has no CSV form; use --format json".to_owned(),
            ));
        }
        Format::Text => text(&checks, &not_hooked, arguments.verbose, recordable)?,
    }
    Ok(if recordable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(
    checks: &[Check],
    not_hooked: &[String],
    verbose: bool,
    recordable: bool,
) -> Result<(), Error> {
    let mut out = render::output();
    let width = render::width();
    for check in checks {
        let (style, mark) = match check.verdict {
            Verdict::Good => (GOOD, "✓"),
            Verdict::Warning => (WARNING, "!"),
            Verdict::Bad => (BAD, "✗"),
        };
        let indent = " ".repeat(14);
        let shape = textwrap::Options::new(width)
            .initial_indent("")
            .subsequent_indent(&indent)
            .break_words(false);
        let head = format!(" {:12} {}", check.what, plain(&check.finding));
        let wrapped = textwrap::fill(&head, shape.clone());
        writeln!(out, "{style}{mark}{style:#}{wrapped}")?;
        if let Some(remedy) = &check.remedy {
            let line = format!("{indent}{remedy}");
            writeln!(out, "{}", textwrap::fill(&line, shape))?;
        }
    }
    if verbose && !not_hooked.is_empty() {
        writeln!(
            out,
            "\n{HEADING}Exported by the driver, not recorded{HEADING:#}"
        )?;
        for line in textwrap::wrap(&not_hooked.join(" "), width) {
            writeln!(out, "{line}")?;
        }
    }
    let (style, verdict) = if recordable {
        (GOOD, "Yes, this can be recorded.")
    } else {
        (BAD, "No, this cannot be recorded as it is.")
    };
    writeln!(out, "\n{style}{verdict}{style:#}")?;
    out.flush()?;
    Ok(())
}
