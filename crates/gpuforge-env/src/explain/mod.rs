//! What does this log mean? Patterns, ordered by cause.
//!
//! ```text
//!  bytes ─► clean (escapes, spaces, pieces) ─► scan (patterns)      ─► Hits ─► judge ─► Explanation
//!                                                    ▲                          ▲
//!                                          data/errors.toml              Facts of this machine
//! ```
//! Memory does not grow with the log: pieces of some ten KiB are matched and dropped, a pattern keeps its first hits.
//!
//! ```
//! use gpuforge_env::explain::{Facts, Knowledge, explain};
//!
//! let known = Knowledge::embedded();
//! let log = "RuntimeError: CUDA error: no kernel image is available for execution on the device";
//! let found = explain(log.as_bytes(), &known, &Facts::default())?;
//! assert_eq!(found.root.map(|r| r.id).as_deref(), Some("P01"));
//! # Ok::<(), gpuforge_env::explain::ExplainError>(())
//! ```

mod anchor;
pub mod clean;
mod crew;
pub mod facts;
pub mod fix;
mod judge;
mod program;
mod rule;
mod scan;
mod search;
pub mod table;

use std::{io::Read, path::Path};

pub use facts::{Facts, Platform, Shown};
pub use judge::{Benign, Explanation, Finding, Noticed};
pub use table::{Errors, Layer, Severity};

use crate::data::{self, DataError, Source};

/// The table's file name, embedded and in the user's data directory.
pub const FILE: &str = "errors.toml";
const EMBEDDED: &str = include_str!("../../data/errors.toml");

/// Why a log was not explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// A pattern of the table is none.
    #[error("a pattern does not compile: {0}")]
    Pattern(#[from] Box<regex::Error>),
}

/// The patterns, and who wrote them.
#[derive(Debug)]
pub struct Knowledge {
    table: Errors,
    source: Source,
    problem: Option<DataError>,
}

impl Knowledge {
    /// What came with the program.
    pub fn embedded() -> Self {
        Knowledge::load(None)
    }

    /// The user's table in `dir` if it holds, else ours.
    pub fn load(dir: Option<&Path>) -> Self {
        let loaded = data::load(FILE, EMBEDDED, dir);
        Knowledge { table: loaded.value, source: loaded.source, problem: loaded.problem }
    }

    /// Every pattern.
    pub fn table(&self) -> &Errors {
        &self.table
    }

    /// Who wrote it.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Why the user's table was not taken.
    pub fn problem(&self) -> Option<&DataError> {
        self.problem.as_ref()
    }
}

/// Reads a log to its end and says what it means.
pub fn explain(log: impl Read, known: &Knowledge, facts: &Facts) -> Result<Explanation, ExplainError> {
    explain_asking(log, known, facts, |_| Vec::new())
}

/// The same, with checks of the doctor: `ask` is given the ids of those that would show the cause that was found.
pub fn explain_asking(
    log: impl Read,
    known: &Knowledge,
    facts: &Facts,
    ask: impl FnOnce(&[String]) -> Vec<Shown>,
) -> Result<Explanation, ExplainError> {
    let seen = crew::scan(log, &known.table)?;
    let found = judge::judge(&known.table, &seen, facts);
    let root = found.root.as_ref().and_then(|root| known.table.find(&root.id));
    let Some(checks) = root.map(|r| &r.checks).filter(|ids| !ids.is_empty()) else { return Ok(found) };
    // What checks show moves the confidence, never the choice: which ones are asked depends on it.
    let facts = Facts { checks: ask(checks), ..facts.clone() };
    Ok(judge::judge(&known.table, &seen, &facts))
}
