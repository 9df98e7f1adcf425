//! Doctor checks: diagnose drivers, device nodes, containers, environment variables, Python and frameworks.
//!
//! ```text
//!  root directory, variables, ┐               ┌─► check ─► Finding ─┐
//!  clock, disk, network       ┴─► SystemView ─┼─► check ─► Finding ─┼─► DoctorReport ─► text, JSON, bundle, fix script
//!                                             └─► …      (threads)  ┘
//! ```
//! A check is a row of [`CHECKS`]: an id, a question and a function of a [`SystemView`]. Checks run in parallel under one
//! deadline; no GPU library is loaded into this process. What can be fixed without privileges and without loss is an
//! [`EnvVarChange`]; everything else is a step for the user.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//! use gpuforge_env::doctor::{self, Status, SystemView};
//!
//! let empty = std::env::temp_dir().join("no-such-machine");
//! let view = SystemView::rooted_at(empty, BTreeMap::new()).without_tools().offline(true);
//! let report = doctor::run(&Arc::new(view));
//! assert_eq!(report.checks.len(), doctor::CHECKS.len());
//! assert_eq!(report.get("kernel-module").map(|c| c.status), Some(Status::Skipped));
//! ```

use serde::Serialize;

mod bundle;
mod check;
mod finding;
mod fix;
pub mod host_facts;
mod redact;
mod run;
pub mod system;
mod tool;
mod view;

pub use bundle::bundle;
pub use check::{CHECKS, Check};
pub use finding::{Finding, Status};
pub use fix::{EnvVarChange, FixScripts, Shell};
pub use redact::Redactor;
pub use run::{run, run_check};
pub use tool::ToolOutput;
pub use view::{SystemView, TOOL_LIMIT, ViewOs};

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Id of the check; stable.
    pub id: &'static str,
    /// Status.
    pub status: Status,
    /// Evidence.
    pub evidence: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// What the check asks.
    pub asks: &'static str,
    /// How long it took.
    pub ms: f64,
    /// Environment variable changes that `--fix` can make.
    #[serde(skip)]
    pub changes: Vec<EnvVarChange>,
}

/// Results of all checks, and the worst status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoctorReport {
    /// In the order of the table.
    pub checks: Vec<CheckResult>,
    /// The worst status.
    pub worst: Status,
}

impl DoctorReport {
    /// The result of a check by id.
    pub fn get(&self, id: &str) -> Option<&CheckResult> {
        self.checks.iter().find(|c| c.id == id)
    }

    /// Is the worst status an error?
    pub fn is_broken(&self) -> bool {
        self.worst >= Status::Error
    }

    /// Environment variable changes that the checks propose, each variable once.
    pub fn changes(&self) -> Vec<EnvVarChange> {
        let mut changes: Vec<EnvVarChange> = Vec::new();
        for change in self.checks.iter().flat_map(|c| &c.changes) {
            if changes.iter().all(|c| c.variable != change.variable) {
                changes.push(change.clone());
            }
        }
        changes
    }
}
