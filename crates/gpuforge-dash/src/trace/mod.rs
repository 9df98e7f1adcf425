//! Trace file reader with error diagnosis (truncated, foreign, other version), and the naming conventions of a trace.
//!
//! Parsing is [`gpuforge_profile`]'s; this module adds the file name, the cause and a hint to errors, and decodes routing
//! decisions, memory and recovery events from names ([`conventions`]).

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

pub use gpuforge_profile::Trace;
use gpuforge_profile::{TraceError, VERSION};

pub mod conventions;

/// Maximum file size.
pub const MAX_BYTES: u64 = 4 << 30;

/// Why a file cannot be read as a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Too large.
    #[error("{}: {bytes} bytes are too many for a trace, {MAX_BYTES} may be", path.display())]
    Large {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Truncated.
    #[error("{}: the trace ends in the middle, after {bytes} bytes", path.display())]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Another file type.
    #[error("{}: not a trace of gpuforge: {what}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Detected type.
        what: String,
    },
    /// Another version.
    #[error("{}: the trace has version {found}, this program reads version {VERSION}", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// Inconsistent.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The inconsistency.
        what: String,
    },
}

impl TraceFileError {
    /// Next step.
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

/// Reads a trace in the native format of [`Trace::write_file`]; dangling references are errors.
pub fn read(path: &Path) -> Result<Trace, TraceFileError> {
    let io = |source| TraceFileError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    let size = file.metadata().map_or(0, |m| m.len());
    if size > MAX_BYTES {
        return Err(TraceFileError::Large { path: path.to_owned(), bytes: size });
    }
    bytes.try_reserve(usize::try_from(size).unwrap_or(0)).map_err(|e| io(e.into()))?;
    // A pipe has no size: read one byte more than allowed.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TraceFileError::Large { path: path.to_owned(), bytes: bytes.len() as u64 });
    }
    parse(bytes, path)
}

/// Parses a trace; `path` is for errors.
pub fn parse(bytes: Vec<u8>, path: &Path) -> Result<Trace, TraceFileError> {
    let owned = || path.to_owned();
    let foreign = |what: &str| TraceFileError::Foreign { path: owned(), what: what.to_owned() };
    let length = bytes.len() as u64;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(foreign("it is empty"));
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // Cut inside a character: truncated, not foreign.
        Err(error) if error.utf8_error().error_len().is_none() && starts_like_a_trace(error.as_bytes()) => {
            return Err(TraceFileError::Truncated { path: owned(), bytes: length });
        }
        Err(_) => return Err(foreign("it is not text")),
    };
    Trace::from_json(&text).map_err(|error| match error {
        TraceError::Version { found, .. } => TraceFileError::Version { path: owned(), found },
        TraceError::Json(error) if is_at_end(&error, &text) && starts_like_a_trace(text.as_bytes()) => {
            TraceFileError::Truncated { path: owned(), bytes: length }
        }
        TraceError::Json(error) => match other_type(&text) {
            Some(kind) => foreign(kind),
            None => foreign(&error.to_string()),
        },
        error => TraceFileError::Damaged { path: owned(), what: error.to_string() },
    })
}

/// Is the error at the end of the text? Half a number is a syntax error at the very end.
fn is_at_end(error: &serde_json::Error, text: &str) -> bool {
    let last = text.rsplit('\n').next().unwrap_or("");
    error.is_eof() || (error.line(), error.column()) == (text.matches('\n').count() + 1, last.len())
}

/// Does it start like a trace?
fn starts_like_a_trace(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{\"version\":")
}

/// Other file types by a marker near their beginning.
const OTHER_TYPES: [(&str, &str); 4] = [
    (
        "\"traceEvents\"",
        "it is a Chrome or Perfetto trace, which is for viewers; a name that ends in .trace.json asks for it",
    ),
    ("<!doctype html", "it is a page, perhaps the report of a trace"),
    ("<svg", "it is a picture"),
    ("\"inventory\"", "it is an inventory of `gpuforge detect`"),
];

fn other_type(text: &str) -> Option<&'static str> {
    let head: String = text.chars().take(2000).collect::<String>().to_ascii_lowercase();
    OTHER_TYPES.iter().find(|(mark, _)| head.contains(&mark.to_ascii_lowercase())).map(|(_, what)| *what)
}
