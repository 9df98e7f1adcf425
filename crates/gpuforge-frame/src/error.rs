//! [`FrameError`]: read and write errors, each with the file, what was found, and the next step.

use std::path::PathBuf;

/// Read or write error.
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
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Wrong format, damaged or truncated file.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A required column is missing or has an unusable type.
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
    /// A row cannot be parsed.
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
    /// The memory limit is too low.
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
    /// Invalid request.
    #[error("{0}")]
    Usage(String),
}

/// Next step for an operating system error.
fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::NotFound => "\n  hint: check the path; directories are not created",
        std::io::ErrorKind::PermissionDenied => "\n  hint: check who owns it",
        std::io::ErrorKind::StorageFull => "\n  hint: free some space; nothing half-written was left behind",
        std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::QuotaExceeded => {
            "\n  hint: write less, elsewhere, or raise the limit (ulimit -f, quota); nothing half-written was left behind"
        }
        std::io::ErrorKind::IsADirectory => "\n  hint: name a file in it",
        _ => "",
    }
}
