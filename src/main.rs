//! The `gpushim` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    gpushim_reader::cli::main()
}
