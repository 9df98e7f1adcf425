//! Finding of a doctor check: status (severity), evidence, and fix steps.

use serde::{Deserialize, Serialize};

use super::fix::EnvVarChange;

/// Status of a check; later is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does not apply to this machine.
    Skipped,
    /// No problem found.
    Healthy,
    /// It could not be determined.
    Unknown,
    /// Worth a look; nothing is broken.
    Warning,
    /// Something is broken.
    Error,
    /// The GPU is unusable until this is fixed.
    Critical,
}

impl Status {
    /// Display name.
    pub fn word(self) -> &'static str {
        match self {
            Status::Skipped => "skipped",
            Status::Healthy => "healthy",
            Status::Unknown => "unknown",
            Status::Warning => "warning",
            Status::Error => "error",
            Status::Critical => "critical",
        }
    }
}

/// Finding of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Status.
    pub status: Status,
    /// Evidence, one fact per entry.
    pub evidence: Vec<String>,
    /// Fix, one step per entry.
    pub steps: Vec<String>,
    /// Environment variable changes that `--fix` can make.
    pub changes: Vec<EnvVarChange>,
}

impl Finding {
    /// A status with its evidence.
    pub fn new(status: Status, evidence: impl Into<String>) -> Self {
        Finding { status, evidence: vec![evidence.into()], steps: Vec::new(), changes: Vec::new() }
    }

    /// The check does not apply.
    pub fn skipped(why: impl Into<String>) -> Self {
        Finding::new(Status::Skipped, why)
    }

    /// No problem, with evidence.
    pub fn healthy(evidence: impl Into<String>) -> Self {
        Finding::new(Status::Healthy, evidence)
    }

    /// Adds a step, without duplicates.
    pub fn step(mut self, step: impl Into<String>) -> Self {
        let step = step.into();
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
        self
    }

    /// Adds an environment variable change; `None` unsets it.
    pub fn change(mut self, variable: &str, value: Option<String>) -> Self {
        self.changes.push(EnvVarChange { variable: variable.to_owned(), value });
        self
    }

    /// Merges two findings: the worse status, all evidence.
    pub fn and(mut self, other: Finding) -> Self {
        self.status = self.status.max(other.status);
        self.evidence.extend(other.evidence);
        self.changes.extend(other.changes);
        other.steps.into_iter().fold(self, Finding::step)
    }

    /// Merges all findings; `none` where there are none.
    pub fn all(findings: impl IntoIterator<Item = Finding>, none: impl FnOnce() -> Finding) -> Self {
        findings.into_iter().reduce(Finding::and).unwrap_or_else(none)
    }
}
