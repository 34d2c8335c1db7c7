//! What can go wrong while reading, in words for a person: what, where, and what to do.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// An error that ends a command with status 2.
#[derive(Debug)]
pub enum Error {
    /// A file or directory could not be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What was tried, as a verb phrase: "read", "create".
        verb: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A file is not a capture, or not one that this version can read.
    Capture {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: Damage,
    },
    /// There is nothing to report on.
    NothingFound {
        /// Where was looked.
        looked_in: PathBuf,
        /// What was there instead.
        instead: String,
    },
    /// What was asked for cannot be done; the text says why.
    Usage(String),
    /// Writing the answer failed.
    Output(io::Error),
}

/// Why a file cannot be read as a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It has no bytes.
    Empty,
    /// It begins like something else.
    Foreign(&'static str),
    /// It ends before what its header describes.
    Truncated {
        /// What was being read.
        part: &'static str,
        /// Bytes that it needs.
        needs: u64,
        /// Bytes that are there.
        has: u64,
    },
    /// It was written by a later version.
    Newer(u16),
    /// Its header was never completed.
    Incomplete,
    /// A field holds what no writer writes.
    Field {
        /// Which field.
        field: &'static str,
        /// Offset in the file, bytes.
        offset: u64,
        /// Its value.
        value: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty"),
            Self::Foreign(what) => write!(f, "this is not a capture: {what}"),
            Self::Truncated { part, needs, has } => write!(
                f,
                "the file is cut off: {part} needs {needs} bytes and the file has {has}"
            ),
            Self::Newer(version) => write!(
                f,
                "the capture has format version {version}, this gpushim reads up to {}; use a newer gpushim",
                gpushim_abi::layout::VERSION
            ),
            Self::Incomplete => write!(
                f,
                "the header was never completed: the process died, or is still, in the first moments of cuInit"
            ),
            Self::Field {
                field,
                offset,
                value,
            } => write!(
                f,
                "{field} at offset {offset} is {value}, which no writer writes"
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, verb, source } => {
                write!(f, "cannot {verb} {}: {source}", path.display())
            }
            Self::Capture { path, why } => write!(f, "{}: {why}", path.display()),
            Self::NothingFound { looked_in, instead } => write!(
                f,
                "no capture in {}: {instead}\nRecord one with `gpushim run -- COMMAND`, or name a capture or a directory.",
                looked_in.display()
            ),
            Self::Usage(why) => write!(f, "{why}"),
            Self::Output(source) => write!(f, "cannot write the answer: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } | Self::Output(source) => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// An error about a file.
    pub fn file(path: &Path, verb: &'static str, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            verb,
            source,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
