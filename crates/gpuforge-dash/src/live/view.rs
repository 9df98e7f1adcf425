//! What does a viewer show? A snapshot and what its history says, as plain data for every kind of view.

use serde::Serialize;

use super::snapshot::{Level, Snapshot};

/// How a viewer stands to the process it watches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is none yet.
    #[default]
    Waiting,
    /// It tells.
    Live,
    /// It has told nothing for a while, and is still there.
    Silent,
    /// It is gone; the last snapshot stays.
    Ended,
    /// It speaks another version.
    Foreign,
}

impl State {
    /// The word that is shown.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Live => "live",
            State::Silent => "silent",
            State::Ended => "ended",
            State::Foreign => "another version",
        }
    }
}

/// Everything that is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct View {
    /// Is there a process?
    pub state: State,
    /// The last that was heard of it.
    pub snapshot: Option<Snapshot>,
    /// Speeds of the operations, in the order of the snapshot.
    pub rates: Vec<Rate>,
    /// Speeds of the counters, in the order of the snapshot.
    pub flows: Vec<Rate>,
    /// Operations a second, all names together, of the last snapshots; the newest last.
    pub trend: Vec<f64>,
    /// What is unusual, the newest last.
    pub anomalies: Vec<Anomaly>,
    /// Memories that grow.
    pub filling: Vec<Filling>,
    /// Cores that the process kept busy between the last two snapshots.
    pub cores: Option<f64>,
    /// Processor time of publishing, in percent of the time since it began.
    pub cost_percent: Option<f64>,
}

/// Speed of an operation between the last two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Which.
    pub name: String,
    /// How many a second; `None` after the first snapshot.
    pub per_second: Option<f64>,
    /// Their mean time; `None` where none ended.
    pub mean_ns: Option<f64>,
}

/// Against what something is unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// Its own past.
    History,
    /// What was predicted.
    Prediction,
}

/// Something unusual.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Anomaly {
    /// When, in the process's time.
    pub at_ms: u64,
    /// Which operation.
    pub operation: String,
    /// Against what.
    pub against: Against,
    /// How many times as long as that.
    pub factor: f64,
    /// Robust z-score.
    pub z: f64,
}

/// A memory that grows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filling {
    /// Whose.
    pub name: String,
    /// Bytes a second.
    pub per_second: f64,
    /// Seconds until its budget is reached.
    pub full_in: f64,
}

impl Anomaly {
    /// One line.
    pub fn line(&self) -> String {
        let than = match self.against {
            Against::History => "as usual",
            Against::Prediction => "as predicted",
        };
        format!("{}: {:.1} times as long {than} (z {:+.1})", self.operation, self.factor, self.z)
    }
}

impl View {
    /// Events and anomalies in order of time, with how much they matter.
    pub fn happenings(&self) -> Vec<(u64, Level, String)> {
        let events = self.snapshot.iter().flat_map(|s| &s.events);
        let mut all: Vec<_> = events.map(|e| (e.at_ms, e.level, e.text.clone())).collect();
        all.extend(self.anomalies.iter().map(|a| (a.at_ms, Level::Warning, a.line())));
        all.sort_by_key(|(at, ..)| *at);
        all
    }
}
