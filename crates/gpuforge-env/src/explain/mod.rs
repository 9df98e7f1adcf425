//! Log diagnosis: finds known error patterns in a log and ranks them to one root cause with a fix.
//!
//! ```text
//!  bytes ─► clean (ANSI, whitespace) ─► LogChunk ─► prefilter (literals) ─► search (regex) ─► ScanResult ─► root_cause ─► Explanation
//!                                                            ▲                                                 ▲
//!                                                    data/errors.toml                                    HostEvidence
//! ```
//! Memory does not grow with the log: chunks are scanned and dropped, a rule keeps its first hits.
//!
//! | file | contents |
//! |---|---|
//! | `clean.rs` · `chunk.rs` | ANSI stripping and whitespace normalisation; line index, context windows, line hashes |
//! | `literals.rs` · `prefilter.rs` | required literals of a regex; multi-literal search |
//! | `rule.rs` · `regex_engine.rs` · `search.rs` | pattern rules; lazily compiled regexes and context DFAs; one rule in a chunk |
//! | `scan.rs` · `workers.rs` | all rules over all chunks; in parallel |
//! | `root_cause.rs` · `host_evidence.rs` | ranking and confidence; what this machine confirms |
//! | `fix.rs` · `table.rs` | `--fix` and its undo; the schema of `data/errors.toml` |
//!
//! ```
//! use gpuforge_env::explain::{HostEvidence, PatternDb, explain};
//!
//! let known = PatternDb::embedded();
//! let log = "RuntimeError: CUDA error: no kernel image is available for execution on the device";
//! let found = explain(log.as_bytes(), &known, &HostEvidence::default())?;
//! assert_eq!(found.root.map(|r| r.id).as_deref(), Some("P01"));
//! # Ok::<(), gpuforge_env::explain::ExplainError>(())
//! ```

pub mod chunk;
pub mod clean;
pub mod fix;
pub mod host_evidence;
mod literals;
mod prefilter;
mod regex_engine;
mod root_cause;
mod rule;
mod scan;
mod search;
pub mod table;
mod workers;

use std::{io::Read, path::Path};

pub use host_evidence::{CheckEvidence, HostEvidence, Platform};
pub use root_cause::{BenignMessage, Explanation, RootCause, SecondaryCause};
pub use table::{ErrorTable, Layer, Severity};

use crate::data::{self, DataError, TableSource};

/// The table's file name, embedded and in the user's data directory.
pub const FILE: &str = "errors.toml";
const EMBEDDED: &str = include_str!("../../data/errors.toml");

/// Why a log cannot be diagnosed.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// A pattern of the table does not compile.
    #[error("a pattern does not compile: {0}")]
    Pattern(#[from] Box<regex::Error>),
}

/// Pattern database: the error table and its source.
#[derive(Debug)]
pub struct PatternDb {
    table: ErrorTable,
    source: TableSource,
    problem: Option<DataError>,
}

impl PatternDb {
    /// The embedded table.
    pub fn embedded() -> Self {
        PatternDb::load(None)
    }

    /// The user's table in `dir` if it is valid, else the embedded one.
    pub fn load(dir: Option<&Path>) -> Self {
        let loaded = data::load(FILE, EMBEDDED, dir);
        PatternDb { table: loaded.value, source: loaded.source, problem: loaded.problem }
    }

    /// Every pattern.
    pub fn table(&self) -> &ErrorTable {
        &self.table
    }

    /// Where the table came from.
    pub fn source(&self) -> &TableSource {
        &self.source
    }

    /// Why the user's table was rejected.
    pub fn problem(&self) -> Option<&DataError> {
        self.problem.as_ref()
    }
}

/// Diagnoses a log.
pub fn explain(log: impl Read, known: &PatternDb, facts: &HostEvidence) -> Result<Explanation, ExplainError> {
    explain_with_checks(log, known, facts, |_| Vec::new())
}

/// As [`explain`], with doctor checks as evidence: `ask` gets the ids of the checks that would confirm the root cause.
pub fn explain_with_checks(
    log: impl Read,
    known: &PatternDb,
    facts: &HostEvidence,
    ask: impl FnOnce(&[String]) -> Vec<CheckEvidence>,
) -> Result<Explanation, ExplainError> {
    let seen = workers::scan(log, &known.table)?;
    let found = root_cause::rank_causes(&known.table, &seen, facts);
    let root = found.root.as_ref().and_then(|root| known.table.find(&root.id));
    let Some(checks) = root.map(|r| &r.checks).filter(|ids| !ids.is_empty()) else { return Ok(found) };
    // Checks change the confidence, never the root cause: which checks run depends on it.
    let facts = HostEvidence { checks: ask(checks), ..facts.clone() };
    Ok(root_cause::rank_causes(&known.table, &seen, &facts))
}
