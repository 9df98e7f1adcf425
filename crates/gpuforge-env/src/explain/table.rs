//! Error pattern table: the schema of `errors.toml` (patterns, benign messages, clues) and its checks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{host_evidence::HostCondition, rule};
use crate::{data::DataTable, doctor::CHECKS};

/// The whole table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorTable {
    /// Layout of the file.
    pub version: u32,
    /// When its content last changed.
    #[serde(default)]
    pub revision: String,
    /// Success messages; warnings before them lose their weight.
    #[serde(default)]
    pub success: Vec<String>,
    /// Generic failure messages.
    #[serde(default)]
    pub failure: Vec<String>,
    /// False positives of `failure`.
    #[serde(default)]
    pub not_failure: Vec<String>,
    /// Markers of the platform the log comes from.
    #[serde(default)]
    pub origin: Vec<PlatformMarker>,
    /// Causes.
    #[serde(default)]
    pub pattern: Vec<ErrorPattern>,
    /// Benign messages.
    #[serde(default)]
    pub benign: Vec<BenignPattern>,
    /// What to collect where no cause is known.
    #[serde(default)]
    pub clue: Vec<CollectHint>,
}

/// A cause and the regexes that recognise it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorPattern {
    /// `P01`; never reused.
    pub id: String,
    /// The cause in one sentence.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// Layer of the cause.
    pub layer: Layer,
    /// Prior confidence when only this text matches, 0 to 1; an estimate, not a measured rate.
    pub confidence: f64,
    /// Regexes that mean this cause.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    /// Regexes that usually mean it.
    #[serde(default)]
    pub weak: Vec<String>,
    /// Regexes that confirm it and mean nothing alone.
    #[serde(default)]
    pub support: Vec<String>,
    /// Regexes that rule it out when they match in the same lines.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Causes of which this is a consequence when both match.
    #[serde(default)]
    pub yields_to: Vec<String>,
    /// A warning that programs survive: any other cause ranks before it.
    #[serde(default)]
    pub soft: bool,
    /// A failure that programs may handle: it does not count where the log ends with success.
    #[serde(default)]
    pub handled: bool,
    /// Host conditions that would confirm it.
    #[serde(default)]
    pub probes: Vec<HostCondition>,
    /// Doctor checks that would confirm it.
    #[serde(default)]
    pub checks: Vec<String>,
    /// What to do, in order, on every platform.
    pub steps: Vec<String>,
    /// What to do first on one platform.
    #[serde(default)]
    pub on: PlatformSteps,
    /// Who may apply the fix.
    pub fix: FixClass,
    /// What `--fix` can do.
    #[serde(default)]
    pub automatic: Option<AutoFix>,
}

/// Steps of one platform.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformSteps {
    /// Linux.
    #[serde(default)]
    pub linux: Vec<String>,
    /// Windows.
    #[serde(default)]
    pub windows: Vec<String>,
    /// macOS.
    #[serde(default)]
    pub macos: Vec<String>,
    /// The Windows Subsystem for Linux.
    #[serde(default)]
    pub wsl: Vec<String>,
    /// Inside a container.
    #[serde(default)]
    pub container: Vec<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// It works, or would with less.
    Warn,
    /// It does not work.
    Error,
    /// Nothing on this machine works.
    Critical,
}

impl Severity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warn => "warn",
            Severity::Error => "error",
            Severity::Critical => "critical",
        }
    }
}

/// Layer of a cause; earlier layers explain later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Machine, kernel, driver.
    Driver,
    /// Container and its runtime.
    Container,
    /// Packages and the environment they are in.
    Wheel,
    /// The program itself.
    Program,
}

/// Who may apply a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FixClass {
    /// Touches only what is ours.
    Safe,
    /// Changes one environment, and can be undone.
    Env,
    /// Needs an administrator: shown, never run.
    Admin,
    /// Needs a person.
    Manual,
}

/// What `--fix` can do by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum AutoFix {
    /// Install packages into the active environment.
    Pip {
        /// Requirements.
        packages: Vec<String>,
    },
    /// Set a variable whenever the environment is activated; no value removes it.
    Variable {
        /// Its name.
        name: String,
        /// Its value.
        #[serde(default)]
        value: Option<String>,
    },
}

/// A benign message that looks like a failure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenignPattern {
    /// `N01`.
    pub id: String,
    /// Why it can be ignored.
    pub title: String,
    /// Its regexes; text they cover is matched by no pattern.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
}

/// What to collect where no cause is known.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectHint {
    /// `C01`.
    pub id: String,
    /// Regexes that make it relevant.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    /// What to collect or try.
    pub collect: String,
}

/// Text that only one platform prints.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformMarker {
    /// The platform.
    pub platform: super::Platform,
    /// Its regexes.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
}

impl ErrorTable {
    /// The pattern of this id.
    pub fn find(&self, id: &str) -> Option<&ErrorPattern> {
        self.pattern.iter().find(|p| p.id == id)
    }
}

impl DataTable for ErrorTable {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        let named = self.pattern.iter().map(|p| (&p.id, p.matches.is_empty()));
        let named = named.chain(self.benign.iter().map(|n| (&n.id, n.matches.is_empty())));
        for (id, empty) in named.chain(self.clue.iter().map(|c| (&c.id, c.matches.is_empty()))) {
            if !ids.insert(id) {
                return Err(format!("{id} is there twice"));
            }
            if empty {
                return Err(format!("{id} has no `match`"));
            }
        }
        self.pattern.iter().try_for_each(|pattern| {
            let id = &pattern.id;
            if !(0.0..=1.0).contains(&pattern.confidence) {
                return Err(format!("{id}: confidence {} is not between 0 and 1", pattern.confidence));
            }
            if pattern.steps.is_empty() {
                return Err(format!("{id} has no steps"));
            }
            if let Some(other) = pattern.checks.iter().find(|id| CHECKS.iter().all(|c| c.id != id.as_str())) {
                return Err(format!("{id}: the doctor has no check {other:?}"));
            }
            match pattern.yields_to.iter().find(|other| *other == id || !ids.contains(other)) {
                Some(other) => Err(format!("{id} yields to {other}, which is itself or not there")),
                None => Ok(()),
            }
        })
    }

    fn check_deep(&self) -> Result<(), String> {
        rule::compile_all(self)
    }
}
