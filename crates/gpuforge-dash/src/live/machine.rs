//! What is known about the machine itself? Plain rows that the caller fills in: devices, doctor, fit.

use serde::Serialize;

/// The machine, as far as it is known yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Devices and the processor.
    pub devices: Vec<Row>,
    /// What gpuforge would use, and why.
    pub choice: Option<String>,
    /// What the doctor found; `None` while it is looking.
    pub doctor: Option<Vec<Row>>,
    /// How well kinds of work fit, best first; `None` while that is not known.
    pub fit: Option<Vec<Row>>,
}

/// A name, how it stands, and more about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    pub name: String,
    /// A word or a figure.
    pub state: String,
    /// One line more.
    pub detail: String,
}

impl Row {
    /// A row.
    pub fn new(name: impl Into<String>, state: impl Into<String>, detail: impl Into<String>) -> Self {
        Row { name: name.into(), state: state.into(), detail: detail.into() }
    }
}

/// How a process is made to tell about itself.
pub const HOW: [&str; 3] = [
    "No process tells about itself yet. Start one with GPUFORGE_MONITOR=1:",
    "  GPUFORGE_MONITOR=1 gpuforge demo",
    "  GPUFORGE_MONITOR=1 your-program   (any program that uses gpuforge)",
];
