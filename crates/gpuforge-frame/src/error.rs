//! What can be wrong with a file? Each error names the file, what was found, and the next step.

use std::path::PathBuf;

/// Why data could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A file could not be opened, read or written.
    #[error("cannot {doing} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// What was tried: `read`, `write`, `create`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it seems to be, is damaged, or ends too early.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A column that is needed is not there, or is not usable.
    #[error("{}: {message}\n  found: {found}\n  hint: {hint}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// Which, and why.
        message: String,
        /// The columns that are there.
        found: String,
        /// The flag that helps.
        hint: String,
    },
    /// A row cannot be used.
    #[error("{}: row {row}, column `{column}`: {message}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Which row, counted from 1 without a header.
        row: u64,
        /// Which column.
        column: String,
        /// What is wrong, and what to do.
        message: String,
    },
    /// More memory would be needed than may be used.
    #[error("{what} needs {needed} bytes and {limit} may be used\n  hint: {hint}")]
    Memory {
        /// What.
        what: String,
        /// How much.
        needed: u64,
        /// The limit.
        limit: u64,
        /// What to do.
        hint: String,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// What to do about an error of the system.
fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::NotFound => "\n  hint: check the path; folders are not created",
        std::io::ErrorKind::PermissionDenied => "\n  hint: check who owns it",
        std::io::ErrorKind::StorageFull => "\n  hint: free some space; nothing half-written was left behind",
        std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::QuotaExceeded => {
            "\n  hint: write less, elsewhere, or raise the limit (ulimit -f, quota); nothing half-written was left behind"
        }
        std::io::ErrorKind::IsADirectory => "\n  hint: name a file in it",
        _ => "",
    }
}
