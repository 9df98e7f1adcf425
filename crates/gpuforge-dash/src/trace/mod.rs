//! What is in a trace file? Spans, threads, devices, memory, decisions and events of one run.
//!
//! Reading is [`gpuforge_profile`]'s; what is here says which file it was, what is wrong with it and what to do, and takes the
//! conventions apart by which gpuforge puts decisions, memory and events into a trace ([`known`]).

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

pub use gpuforge_profile::Trace;
use gpuforge_profile::{TraceError, VERSION};

pub mod known;

/// Larger files are refused before they are read: a trace holds at most some millions of spans.
pub const MOST_BYTES: u64 = 4 << 30;

/// Why a file is no trace that can be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is larger than any trace.
    #[error("{}: {bytes} bytes are too many for a trace, {MOST_BYTES} may be", path.display())]
    Large {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It begins like a trace and ends too early.
    #[error("{}: the trace ends in the middle, after {bytes} bytes", path.display())]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is something else.
    #[error("{}: not a trace of gpuforge: {what}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it looks like.
        what: String,
    },
    /// It is a trace of another version.
    #[error("{}: the trace has version {found}, this program reads version {VERSION}", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: u64,
    },
    /// It is a trace that contradicts itself.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
}

impl TraceFileError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            TraceFileError::Io { .. } => "give the file that `gpuforge profile run` or GPUFORGE_TRACE wrote",
            TraceFileError::Large { .. } => "record a shorter run",
            TraceFileError::Truncated { .. } => "copy it again, or record it again: a trace is written whole",
            TraceFileError::Foreign { .. } => {
                "record one with `gpuforge profile run -o trace.json -- COMMAND`, or with GPUFORGE_TRACE=trace.json"
            }
            TraceFileError::Version { .. } => "read it with the gpuforge that wrote it",
            TraceFileError::Damaged { .. } => "record it again",
        }
    }
}

/// Reads a trace that [`Trace::write_file`] wrote in its own form. What it refers to is there, or it is an error.
pub fn read(path: &Path) -> Result<Trace, TraceFileError> {
    let io = |source| TraceFileError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    let size = file.metadata().map_or(0, |m| m.len());
    if size > MOST_BYTES {
        return Err(TraceFileError::Large { path: path.to_owned(), bytes: size });
    }
    bytes.try_reserve(usize::try_from(size).unwrap_or(0)).map_err(|e| io(e.into()))?;
    // A pipe tells no size: one byte more than allowed tells that there is more.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(TraceFileError::Large { path: path.to_owned(), bytes: bytes.len() as u64 });
    }
    parse(bytes, path)
}

/// A trace from what was in a file; `path` is for errors.
pub fn parse(bytes: Vec<u8>, path: &Path) -> Result<Trace, TraceFileError> {
    let owned = || path.to_owned();
    let foreign = |what: &str| TraceFileError::Foreign { path: owned(), what: what.to_owned() };
    let length = bytes.len() as u64;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(foreign("it is empty"));
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // A file that was cut inside a character is cut, not foreign.
        Err(error) if error.utf8_error().error_len().is_none() && starts_right(error.as_bytes()) => {
            return Err(TraceFileError::Truncated { path: owned(), bytes: length });
        }
        Err(_) => return Err(foreign("it is not text")),
    };
    Trace::from_json(&text).map_err(|error| match error {
        TraceError::Version { found, .. } => TraceFileError::Version { path: owned(), found },
        TraceError::Json(error) if is_at_end(&error, &text) && starts_right(text.as_bytes()) => {
            TraceFileError::Truncated { path: owned(), bytes: length }
        }
        TraceError::Json(error) => match other_kind(&text) {
            Some(kind) => foreign(kind),
            None => foreign(&error.to_string()),
        },
        error => TraceFileError::Damaged { path: owned(), what: error.to_string() },
    })
}

/// Does it break off rather than go wrong? Half a number is an error of its own kind, at the very end.
fn is_at_end(error: &serde_json::Error, text: &str) -> bool {
    let last = text.rsplit('\n').next().unwrap_or("");
    error.is_eof() || (error.line(), error.column()) == (text.matches('\n').count() + 1, last.len())
}

/// What every trace begins with.
fn starts_right(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{\"version\":")
}

/// Files that are easily taken for a trace, by what is near their beginning.
const OTHERS: [(&str, &str); 4] = [
    (
        "\"traceEvents\"",
        "it is a Chrome or Perfetto trace, which is for viewers; a name that ends in .trace.json asks for it",
    ),
    ("<!doctype html", "it is a page, perhaps the report of a trace"),
    ("<svg", "it is a picture"),
    ("\"inventory\"", "it is an inventory of `gpuforge detect`"),
];

fn other_kind(text: &str) -> Option<&'static str> {
    let head: String = text.chars().take(2000).collect::<String>().to_ascii_lowercase();
    OTHERS.iter().find(|(mark, _)| head.contains(&mark.to_ascii_lowercase())).map(|(_, what)| *what)
}
