//! What is known about failures? The layout of `errors.toml`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{facts::Probe, rule};
use crate::{data::Table, doctor::CHECKS};

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Layout of the file.
    pub version: u32,
    /// When its content last changed.
    #[serde(default)]
    pub revision: String,
    /// What a program prints when all went well; it takes the weight from mere warnings before it.
    #[serde(default)]
    pub success: Vec<String>,
    /// What a program prints when something failed, whatever it was.
    #[serde(default)]
    pub failure: Vec<String>,
    /// What only looks like a failure.
    #[serde(default)]
    pub not_failure: Vec<String>,
    /// Signs of the platform the log comes from.
    #[serde(default)]
    pub origin: Vec<Origin>,
    /// Causes.
    #[serde(default)]
    pub pattern: Vec<Pattern>,
    /// Noise.
    #[serde(default)]
    pub benign: Vec<Noise>,
    /// What to collect where no cause is known.
    #[serde(default)]
    pub clue: Vec<Clue>,
}

/// A cause and the words by which it is recognised.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// `P01`; never reused.
    pub id: String,
    /// The cause in one sentence.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// Where the cause sits.
    pub layer: Layer,
    /// How sure the cause is when only this text is seen, 0 to 1; an estimate, not a count.
    pub confidence: f64,
    /// Words that mean this cause.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    /// Words that usually mean it.
    #[serde(default)]
    pub weak: Vec<String>,
    /// Words that confirm it and say nothing alone.
    #[serde(default)]
    pub support: Vec<String>,
    /// Words in the same lines that rule it out.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Causes of which this is a consequence when both are seen.
    #[serde(default)]
    pub yields_to: Vec<String>,
    /// A warning that programs survive: any other cause comes first.
    #[serde(default)]
    pub soft: bool,
    /// A failure that programs may deal with: it does not count where the log's last word is success.
    #[serde(default)]
    pub handled: bool,
    /// What on this machine would confirm it.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// Checks of the doctor that would show it.
    #[serde(default)]
    pub checks: Vec<String>,
    /// What to do, in order, on every platform.
    pub steps: Vec<String>,
    /// What to do first on one platform.
    #[serde(default)]
    pub on: On,
    /// Who may do it.
    pub fix: FixClass,
    /// What `--fix` can do.
    #[serde(default)]
    pub automatic: Option<Automatic>,
}

/// Steps of one platform.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct On {
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

/// Where a cause sits; what comes first explains what comes later.
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
pub enum Automatic {
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

/// A message that looks like a failure and is none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// `N01`.
    pub id: String,
    /// Why it can be ignored.
    pub title: String,
    /// Its words; what they cover is matched by nothing else.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
}

/// What to look at where no cause is known.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clue {
    /// `C01`.
    pub id: String,
    /// Words that make it worth looking.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    /// What to collect or try.
    pub collect: String,
}

/// Words that only one platform prints.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The platform.
    pub platform: super::Platform,
    /// Its words.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
}

impl Errors {
    /// The pattern of this id.
    pub fn find(&self, id: &str) -> Option<&Pattern> {
        self.pattern.iter().find(|p| p.id == id)
    }
}

impl Table for Errors {
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
