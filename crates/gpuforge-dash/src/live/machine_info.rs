//! Machine information shown beside a live view: devices, doctor findings, environment fit; filled in by the caller.

use serde::Serialize;

/// Machine information, as far as known yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineInfo {
    /// GPUs and the CPU.
    pub devices: Vec<InfoRow>,
    /// What gpuforge would use, and why.
    pub choice: Option<String>,
    /// Doctor findings; `None` while it runs.
    pub doctor: Option<Vec<InfoRow>>,
    /// Fit of environment profiles, best first; `None` while not known.
    pub fit: Option<Vec<InfoRow>>,
}

/// Name, state and detail.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InfoRow {
    /// Name.
    pub name: String,
    /// State: a word or a number.
    pub state: String,
    /// Detail line.
    pub detail: String,
}

impl InfoRow {
    /// A row.
    pub fn new(name: impl Into<String>, state: impl Into<String>, detail: impl Into<String>) -> Self {
        InfoRow { name: name.into(), state: state.into(), detail: detail.into() }
    }
}

/// How to start a monitored process.
pub const HOW: [&str; 3] = [
    "No process tells about itself yet. Start one with GPUFORGE_MONITOR=1:",
    "  GPUFORGE_MONITOR=1 gpuforge demo",
    "  GPUFORGE_MONITOR=1 your-program   (any program that uses gpuforge)",
];
