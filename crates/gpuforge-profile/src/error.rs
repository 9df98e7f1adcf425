//! Errors of reading and writing traces.

use std::path::PathBuf;

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The text is not a trace.
    #[error("not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// The trace has an unsupported version.
    #[error("the trace has version {found}, this program reads version {known}")]
    Version {
        /// Version of the trace.
        found: u64,
        /// [`VERSION`](crate::VERSION).
        known: u32,
    },
    /// A span, counter or gauge refers to a name or track that does not exist.
    #[error("the trace refers to {what} {position}, but has only {length}")]
    Position {
        /// `name` or `track`.
        what: &'static str,
        /// The index.
        position: u32,
        /// How many there are.
        length: usize,
    },
    /// The file could not be read or written.
    #[error("trace file {path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
}
