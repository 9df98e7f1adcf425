//! What did a check find? A status, what was seen, and what to do.

use serde::{Deserialize, Serialize};

use super::fix::Change;

/// How a check stands; later is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does not apply to this machine.
    Skipped,
    /// In order.
    Healthy,
    /// It could not be found out.
    Unknown,
    /// Worth a look; work goes on.
    Warning,
    /// Something does not work.
    Error,
    /// Nothing works on the GPU before this is put right.
    Critical,
}

impl Status {
    /// The word that is printed.
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

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it stands.
    pub status: Status,
    /// What was seen, one fact an entry.
    pub evidence: Vec<String>,
    /// What to do, one step an entry.
    pub steps: Vec<String>,
    /// What can be put right in a shell.
    pub changes: Vec<Change>,
}

impl Finding {
    /// A status and what was seen.
    pub fn new(status: Status, evidence: impl Into<String>) -> Self {
        Finding { status, evidence: vec![evidence.into()], steps: Vec::new(), changes: Vec::new() }
    }

    /// Does not apply, because of this.
    pub fn skipped(why: impl Into<String>) -> Self {
        Finding::new(Status::Skipped, why)
    }

    /// In order, by this.
    pub fn healthy(evidence: impl Into<String>) -> Self {
        Finding::new(Status::Healthy, evidence)
    }

    /// With a step; one that is there already is not repeated.
    pub fn step(mut self, step: impl Into<String>) -> Self {
        let step = step.into();
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
        self
    }

    /// With a change of a variable; `None` unsets it.
    pub fn change(mut self, variable: &str, value: Option<String>) -> Self {
        self.changes.push(Change { variable: variable.to_owned(), value });
        self
    }

    /// Both findings: the worse status, everything that was seen.
    pub fn and(mut self, other: Finding) -> Self {
        self.status = self.status.max(other.status);
        self.evidence.extend(other.evidence);
        self.changes.extend(other.changes);
        other.steps.into_iter().fold(self, Finding::step)
    }

    /// All findings as one; `none` where there are none.
    pub fn all(findings: impl IntoIterator<Item = Finding>, none: impl FnOnce() -> Finding) -> Self {
        findings.into_iter().reduce(Finding::and).unwrap_or_else(none)
    }
}
