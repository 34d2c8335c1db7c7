//! `gpushim demo`: the main job, on the card or on a stand-in for one.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use super::doctor;
use crate::cli;
use crate::error::Error;
use crate::session;

/// A program that trains two small models in a loop.
const PROGRAM: &str = "two_models";
/// The stand-in driver, beside this program.
const STANDIN: &str = "libcuda.so";

/// Runs the command.
///
/// # Errors
/// When the program or the stand-in driver is missing, or the folder for the captures cannot be made.
pub fn main(arguments: &cli::Demo) -> Result<ExitCode, Error> {
    let this = env::current_exe()
        .map_err(|e| Error::Usage(format!("cannot find this program's own path: {e}")))?;
    let folder = this.parent().unwrap_or(Path::new("/"));
    let program = beside(folder, PROGRAM)?;
    let captures = env::temp_dir().join(format!("gpushim-demo-{}", std::process::id()));
    fs::create_dir_all(&captures).map_err(|e| Error::file(&captures, "create", e))?;
    let mut run = Command::new(&this);
    run.arg("run")
        .arg("--dir")
        .arg(&captures)
        .arg("--")
        .arg(&program);
    if arguments.standin || doctor::driver::driver().is_none() {
        let library = beside(folder, STANDIN)?;
        let drivers = captures.join("standin");
        fs::create_dir_all(&drivers).map_err(|e| Error::file(&drivers, "create", e))?;
        let link = drivers.join("libcuda.so.1");
        symlink(&library, &link).map_err(|e| Error::file(&link, "create", e))?;
        let mut path = drivers.into_os_string();
        if let Some(before) = env::var_os("LD_LIBRARY_PATH").filter(|before| !before.is_empty()) {
            path.push(":");
            path.push(before);
        }
        run.env("LD_LIBRARY_PATH", path).env("STANDIN_DEVICES", "2");
        let why = if arguments.standin {
            "As asked"
        } else {
            "There is no NVIDIA driver here"
        };
        anstream::println!("{why}: this runs on the stand-in driver, with two devices.\n");
    }
    anstream::println!("$ gpushim run -- two_models");
    let status = run.status().map_err(|e| Error::file(&this, "run", e))?;
    if !status.success() {
        return Err(Error::Usage(format!(
            "the demo program ended with {status}"
        )));
    }
    for verb in ["report", "timeline"] {
        anstream::println!("\n$ gpushim {verb}");
        let mut command = Command::new(&this);
        command.arg(verb).args(session::list(&captures)?);
        if verb == "timeline" {
            command.args(["--events", "8"]);
        }
        command.status().map_err(|e| Error::file(&this, "run", e))?;
    }
    anstream::println!("\nThe capture is in {}.", captures.display());
    Ok(ExitCode::SUCCESS)
}

fn beside(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(path);
    }
    Err(Error::Usage(format!(
        "{} is missing; `scripts/demo` builds it",
        path.display()
    )))
}
