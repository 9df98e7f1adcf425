//! Live monitoring: a process publishes snapshots on a local socket; viewers are a terminal UI, a web page (SSE) and
//! Prometheus metrics.
//!
//! ```text
//! monitored process                           │ monitor process
//! feed (decisions, events) ─┐                 │
//! Profiler::recent ─────────┼─► Snapshot ─────┼─► Follower ─► SnapshotTracker ─► LiveView ─┬─► screen (terminal)
//! sources (devices, memory)─┘   one thread,   │               rates,         ├─► web (page, events)
//!                               non-blocking  │               anomalies,     ├─► prom (metrics)
//!                                             │               time to full   └─► text (`--once`)
//! ```
//! The publisher does nothing without viewers: its thread blocks in `accept`. With viewers it takes a bounded snapshot twice
//! a second, or less often where that would cost more than half a percent of a core. A viewer that does not read is
//! skipped, then dropped. Everything that needs history is computed by the viewer.

pub mod feed;
pub mod follower;
pub mod format;
pub mod machine_info;
pub mod plain_text;
pub mod prometheus;
pub mod publisher;
pub mod robust_stats;
pub mod snapshot;
pub mod socket_dir;
pub mod tracker;
pub mod tui;
pub mod view;
pub mod web;

use std::path::PathBuf;

/// Errors of publishing and viewing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No local sockets on this platform.
    #[error("monitoring needs local sockets, which this system does not offer to gpuforge")]
    Unsupported,
    /// The socket directory is not private.
    #[error("{path} is not safe for sockets: {why}")]
    SocketDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file or socket call failed.
    #[error("cannot {what} {path}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        error: std::io::Error,
    },
    /// The web server cannot start.
    #[error("cannot serve on {address}: {error}")]
    Serve {
        /// Listen address.
        address: String,
        /// The operating system's error.
        #[source]
        error: std::io::Error,
    },
    /// No random bytes.
    #[error("no token can be made: {0}")]
    Token(String),
}

impl LiveError {
    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            LiveError::Unsupported => "GPUFORGE_TRACE=FILE keeps a profile of a run on every system",
            LiveError::SocketDir { .. } => {
                "set XDG_RUNTIME_DIR to a directory that belongs to you alone (mode 0700)"
            }
            LiveError::Io { .. } => "is the directory writable, and its path shorter than 90 bytes?",
            LiveError::Serve { .. } => "--port 0 takes any free port",
            LiveError::Token(_) => "is the system's random source there?",
        }
    }
}
