//! What can go wrong with a trace? Reading one, and writing one.

use std::path::PathBuf;

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The text is not a trace.
    #[error("not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// The trace has a form this program does not know.
    #[error("the trace has version {found}, this program reads version {known}")]
    Version {
        /// What the trace says.
        found: u64,
        /// [`VERSION`](crate::VERSION).
        known: u32,
    },
    /// A span, counter or gauge refers to a name or track that is not there.
    #[error("the trace refers to {what} {position}, but has only {length}")]
    Position {
        /// `name` or `track`.
        what: &'static str,
        /// The position it gives.
        position: u32,
        /// How many there are.
        length: usize,
    },
    /// The file could not be read or written.
    #[error("trace file {path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
