//! What is wrong with this machine? Checks over kernel files, tools and variables.
//!
//! ```text
//!  root directory, variables, ┐            ┌─► check ─► Finding ─┐
//!  clock, space, network   ┴─► View ────┼─► check ─► Finding ─┼─► Report ─► text, JSON, bundle, fix script
//!                                       └─► …       (threads) ┘
//! ```
//! A check is a row of [`CHECKS`]: an id, a question and a function of a [`View`]. Checks run side by side, each under a
//! time-out; no GPU library is loaded into this process. What can be put right without rights and without loss is a
//! [`Change`] of a variable; everything else is a step for the user.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//! use gpuforge_env::doctor::{self, Status, View};
//!
//! let empty = std::env::temp_dir().join("no-such-machine");
//! let view = View::at(empty, BTreeMap::new()).without_tools().offline(true);
//! let report = doctor::run(&Arc::new(view));
//! assert_eq!(report.checks.len(), doctor::CHECKS.len());
//! assert_eq!(report.get("kernel-module").map(|c| c.status), Some(Status::Skipped));
//! ```

use serde::Serialize;

mod bundle;
mod check;
pub mod facts;
mod finding;
mod fix;
pub mod machine;
mod redact;
mod run;
mod tool;
mod view;

pub use bundle::bundle;
pub use check::{CHECKS, Check};
pub use finding::{Finding, Status};
pub use fix::{Change, Scripts};
pub use redact::Redactor;
pub use run::{ask, run};
pub use tool::Answer;
pub use view::{TOOL_LIMIT, View};

/// A check that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// Which check; stable.
    pub id: &'static str,
    /// How it stands.
    pub status: Status,
    /// What was seen.
    pub evidence: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// What the check asks.
    pub asks: &'static str,
    /// How long it took.
    pub ms: f64,
    /// What can be put right in a shell.
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// Every check, and the worst of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// In the order of the table.
    pub checks: Vec<Checked>,
    /// The worst status.
    pub worst: Status,
}

impl Report {
    /// The check of this id.
    pub fn get(&self, id: &str) -> Option<&Checked> {
        self.checks.iter().find(|c| c.id == id)
    }

    /// Is something broken, rather than worth a look?
    pub fn is_broken(&self) -> bool {
        self.worst >= Status::Error
    }

    /// Changes of variables that the checks propose, each variable once.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for change in self.checks.iter().flat_map(|c| &c.changes) {
            if changes.iter().all(|c| c.variable != change.variable) {
                changes.push(change.clone());
            }
        }
        changes
    }
}
