//! The command line: what may be asked, and the exit status of an answer.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::commands::sites::Asked;
use crate::error::Error;
use crate::report::moment::Moment;
use crate::report::sites::Order;
use crate::report::views::View;

/// The flight recorder for GPU memory.
///
/// `gpushim run -- COMMAND` records who takes and gives back GPU memory in a program and in everything that it starts; `gpushim report`
/// then says who holds the memory on each device, also after a crash or a kill, or while the program runs.
#[derive(Debug, Parser)]
#[command(name = "gpushim", version, arg_required_else_help = true)]
#[command(
    after_help = "Captures are found in $GPUSHIM_DIR, else $XDG_STATE_HOME/gpushim, else /tmp/gpushim-UID.\n\
    Exit status: 0 fine, 1 `doctor` found that a program cannot be recorded, 2 usage or unreadable input."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command under the recorder
    #[command(
        after_help = "Examples:\n  gpushim run -- python train.py\n  gpushim run --dir /scratch/captures --size 256M -- torchrun --nproc-per-node 8 train.py\n\n\
        The exit status is the command's own, 128 + N when signal N ended it, 127 when it does not exist, 126 when it cannot be executed."
    )]
    Run(Run),
    /// Say who holds the memory, on one screen
    #[command(
        after_help = "Examples:\n  gpushim report                      the newest session\n  gpushim report --device 1 --all     one device, every group\n  \
        gpushim report --at 3.2s            the state 3.2 s after the first call\n  gpushim report --view vmm          each handle: released? mapped where? exported?\n  gpushim report --format json run/*.gpushim"
    )]
    Report(Report),
    /// Say which lines took the memory, and which gave it back
    #[command(
        after_help = "A MOMENT is a time since the first call (3.2s, 150ms, 5min), a clock reading (@NANOSECONDS since 1970), or a phase that the program named\n\
        by NVTX or gpushim_mark: NAME for its beginning, NAME:end for its end, NAME#2 for the second of that name.\n\n\
        Examples:\n  gpushim sites --sort peak\n  gpushim sites --from 'epoch 1' --to 'epoch 2' --alive-at 'epoch 3'\n  gpushim sites --from 'epoch 1' --to 'epoch 2' --sort growth"
    )]
    Sites(Sites),
    /// Draw the memory of each device over time, and list the calls
    #[command(
        after_help = "Examples:\n  gpushim timeline\n  gpushim timeline --device 0 --events 50\n  gpushim timeline --format csv --all > calls.csv"
    )]
    Timeline(Timeline),
    /// List captures
    Ls(Ls),
    /// Can this program be recorded here?
    #[command(
        after_help = "Examples:\n  gpushim doctor\n  gpushim doctor python\n  gpushim doctor --verbose ./trainer\n  gpushim doctor --coverage /usr/lib/x86_64-linux-gnu/libcuda.so.1"
    )]
    Doctor(Doctor),
    /// Show what gpushim does, on the card or on a stand-in for one
    Demo(Demo),
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document with a versioned schema.
    Json,
    /// One table.
    Csv,
}

/// `gpushim run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Directory for the captures
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Greatest length of each capture, such as 64M or 1G
    #[arg(long, value_name = "SIZE", value_parser = commands::run::check_size)]
    pub size: Option<String>,
    /// Say at the end where the captures are, even where standard error is no terminal
    #[arg(long)]
    pub verbose: bool,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// Which captures.
#[derive(Debug, Args)]
pub struct Input {
    /// Captures, or directories of captures; the newest session when there is none
    #[arg(value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,
    /// Only this device: its ordinal, or the beginning of its UUID
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `gpushim report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Which captures.
    #[command(flatten)]
    pub input: Input,
    /// Show every group and every name
    #[arg(long)]
    pub all: bool,
    /// List the objects of one kind, each with its state, instead of the screen
    #[arg(long, value_enum)]
    pub view: Option<View>,
    /// The state at this moment: a time since the capture was opened, such as 3.2s or 150ms, or a phase that the program named
    #[arg(long, visible_alias = "alive-at", value_name = "MOMENT")]
    pub at: Option<Moment>,
}

/// `gpushim sites`.
#[derive(Debug, Args)]
pub struct Sites {
    /// Which captures.
    #[command(flatten)]
    pub input: Input,
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    pub sort: Order,
    /// Only PyTorch's blocks, or only the driver's allocations
    #[arg(long, value_enum)]
    pub level: Option<Asked>,
    /// Only what was taken from this moment on: a time such as 3.2s, or a phase that the program named
    #[arg(long, value_name = "MOMENT")]
    pub from: Option<Moment>,
    /// Only what was taken before this moment
    #[arg(long, value_name = "MOMENT")]
    pub to: Option<Moment>,
    /// Only what was alive at this moment
    #[arg(long, value_name = "MOMENT")]
    pub alive_at: Option<Moment>,
    /// Show the stack below each line
    #[arg(long)]
    pub stacks: bool,
    /// Show every line
    #[arg(long)]
    pub all: bool,
}

/// `gpushim timeline`.
#[derive(Debug, Args)]
pub struct Timeline {
    /// Which captures.
    #[command(flatten)]
    pub input: Input,
    /// How many of the last calls are listed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub events: usize,
    /// List every call
    #[arg(long)]
    pub all: bool,
}

/// `gpushim ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// Captures or directories; the usual directory when there is none
    #[arg(value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `gpushim doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The program that is to be recorded
    #[arg(value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// Name every driver function that is not recorded
    #[arg(long)]
    pub verbose: bool,
    /// List every function of a driver instead: recorded, deliberately not and why, or unknown
    #[arg(long, value_name = "LIBCUDA", num_args = 0..=1)]
    pub coverage: Option<Option<PathBuf>>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `gpushim demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Use the stand-in driver even where there is a card
    #[arg(long)]
    pub standin: bool,
}

/// Runs the command line; the exit status.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let help = !error.use_stderr();
            // Where even this cannot be printed there is nobody to tell.
            let _ = error.print();
            return if help {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(2)
            };
        }
    };
    let answer = match cli.command {
        Command::Run(run) => commands::run::main(&run),
        Command::Report(report) => commands::report::main(&report),
        Command::Sites(sites) => commands::sites::main(&sites),
        Command::Timeline(timeline) => commands::timeline::main(&timeline),
        Command::Ls(ls) => commands::ls::main(&ls),
        Command::Doctor(doctor) => commands::doctor::main(&doctor),
        Command::Demo(demo) => commands::demo::main(&demo),
    };
    match answer {
        Ok(status) => status,
        // Whoever reads our output has seen enough.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            anstream::eprintln!("gpushim: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
