//! What is a running process doing right now? Snapshots on a socket, and views of them: terminal, page, metrics.
//!
//! ```text
//! monitored process                           │ monitor process
//! feed (decisions, events) ─┐                 │
//! Profiler::recent ─────────┼─► Snapshot ─────┼─► Follower ─► Watch ─► View ─┬─► screen (terminal)
//! sources (devices, memory)─┘   one thread,   │               rates,         ├─► web (page, events)
//!                               non-blocking  │               anomalies,     ├─► prom (metrics)
//!                                             │               time to full   └─► text (`--once`)
//! ```
//! The monitored side makes nothing while nobody looks: its thread sleeps in `accept`. While somebody does, it makes a
//! bounded snapshot twice a second, or less often where that would take more than half a percent of a core. A viewer that
//! does not read is skipped and then dropped. Everything that needs history is computed by the viewer.

pub mod feed;
pub mod figures;
pub mod follow;
mod link;
pub mod machine;
pub mod place;
pub mod process;
pub mod prom;
pub mod publish;
pub mod robust;
pub mod screen;
pub mod snapshot;
pub mod text;
pub mod view;
pub mod watch;
pub mod web;

use std::path::PathBuf;

/// What can go wrong between a process and its viewer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is no way to reach another process yet.
    #[error("monitoring needs Unix sockets, which this system does not offer to gpuforge")]
    Unsupported,
    /// The folder of sockets cannot be trusted.
    #[error("{path} is not safe for sockets: {why}")]
    Folder {
        /// The folder.
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
        /// The system's answer.
        #[source]
        error: std::io::Error,
    },
    /// The page cannot be served.
    #[error("cannot serve on {address}: {error}")]
    Serve {
        /// Where it was to be.
        address: String,
        /// The system's answer.
        #[source]
        error: std::io::Error,
    },
    /// The system gives no random bytes.
    #[error("no token can be made: {0}")]
    Token(String),
}

impl LiveError {
    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            LiveError::Unsupported => "GPUFORGE_TRACE=FILE keeps a profile of a run on every system",
            LiveError::Folder { .. } => {
                "set XDG_RUNTIME_DIR to a folder that belongs to you alone (mode 0700)"
            }
            LiveError::Io { .. } => "is the folder writable, and its path shorter than 90 bytes?",
            LiveError::Serve { .. } => "--port 0 takes any free port",
            LiveError::Token(_) => "is the system's random source there?",
        }
    }
}
