//! Live view: a snapshot with derived rates, anomalies and memory growth, as data for every renderer.

use serde::Serialize;

use super::snapshot::{EventLevel, Snapshot};

/// Connection state of a viewer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    /// No process yet.
    #[default]
    Waiting,
    /// Receiving snapshots.
    Live,
    /// Connected, but no snapshot for a while.
    Silent,
    /// The process ended; the last snapshot is kept.
    Ended,
    /// Another protocol version.
    Foreign,
}

impl ConnectionState {
    /// Display text.
    pub fn word(self) -> &'static str {
        match self {
            ConnectionState::Waiting => "waiting",
            ConnectionState::Live => "live",
            ConnectionState::Silent => "silent",
            ConnectionState::Ended => "ended",
            ConnectionState::Foreign => "another version",
        }
    }
}

/// Data of a live view.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveView {
    /// Connection state.
    pub state: ConnectionState,
    /// Last snapshot.
    pub snapshot: Option<Snapshot>,
    /// Rates of the operations, in snapshot order.
    pub rates: Vec<Rate>,
    /// Rates of the counters, in snapshot order.
    pub flows: Vec<Rate>,
    /// Total operations per second of recent snapshots; the newest last.
    pub trend: Vec<f64>,
    /// Anomalies, the newest last.
    pub anomalies: Vec<Anomaly>,
    /// Growing memory pools.
    pub filling: Vec<MemoryGrowth>,
    /// CPU cores used between the last two snapshots.
    pub cores: Option<f64>,
    /// CPU time of publishing, in percent of the time since it started.
    pub cost_percent: Option<f64>,
}

/// Rate between the last two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Name.
    pub name: String,
    /// Per second; `None` after the first snapshot.
    pub per_second: Option<f64>,
    /// Mean time; `None` where none completed.
    pub mean_ns: Option<f64>,
}

/// Reference of an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AnomalyReference {
    /// Its own history.
    History,
    /// The predicted time.
    Prediction,
}

/// An anomalous operation time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Anomaly {
    /// Time since publishing started.
    pub at_ms: u64,
    /// Operation.
    pub operation: String,
    /// Reference.
    pub against: AnomalyReference,
    /// Ratio to the reference.
    pub factor: f64,
    /// Modified z-score.
    pub z: f64,
}

/// A growing memory pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryGrowth {
    /// Name.
    pub name: String,
    /// Bytes per second.
    pub per_second: f64,
    /// Seconds until its budget is reached.
    pub full_in: f64,
}

impl Anomaly {
    /// Description.
    pub fn line(&self) -> String {
        let than = match self.against {
            AnomalyReference::History => "as usual",
            AnomalyReference::Prediction => "as predicted",
        };
        format!("{}: {:.1} times as long {than} (z {:+.1})", self.operation, self.factor, self.z)
    }
}

impl LiveView {
    /// Events and anomalies in time order, with severity.
    pub fn timeline(&self) -> Vec<(u64, EventLevel, String)> {
        let events = self.snapshot.iter().flat_map(|s| &s.events);
        let mut all: Vec<_> = events.map(|e| (e.at_ms, e.level, e.text.clone())).collect();
        all.extend(self.anomalies.iter().map(|a| (a.at_ms, EventLevel::Warning, a.line())));
        all.sort_by_key(|(at, ..)| *at);
        all
    }
}
