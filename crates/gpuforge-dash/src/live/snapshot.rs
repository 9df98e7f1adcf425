//! Snapshot: the bounded JSON document that a monitored process publishes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Version of the protocol; a viewer of another version reports it.
pub const VERSION: u32 = 1;
/// Maximum rows per list.
pub const MAX_ROWS: usize = 48;
/// Maximum characters per text.
pub const MAX_CHARS: usize = 120;

/// The state of a process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// Its process id.
    pub pid: u32,
    /// Command line name.
    pub command: String,
    /// Sequence number.
    pub seq: u64,
    /// Milliseconds since publishing started.
    pub uptime_ms: u64,
    /// CPU time of the process; `None` where not available.
    pub cpu_ms: Option<u64>,
    /// Backends.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
    /// Memory pools, the process's own first.
    #[serde(default)]
    pub memory: Vec<MemoryStatus>,
    /// Spans by name, the most time first.
    #[serde(default)]
    pub operations: Vec<OperationStats>,
    /// Counters of the profiler, by name.
    #[serde(default)]
    pub counters: Vec<CounterValue>,
    /// Gauges of the profiler, by name.
    #[serde(default)]
    pub gauges: Vec<GaugeValue>,
    /// Total routing decisions, batches included; `routing` holds a sample of the latest.
    pub routed: u64,
    /// Batch items among `routed`.
    #[serde(default)]
    pub batched: u64,
    /// Sample of recent decisions, the newest last.
    #[serde(default)]
    pub routing: Vec<RoutingDecision>,
    /// Events, the newest last.
    #[serde(default)]
    pub events: Vec<LiveEvent>,
    /// Cost of publishing.
    #[serde(default)]
    pub cost: PublishCost,
}

/// Status of a backend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// open, lost, not open.
    pub state: String,
    /// Dispatches completed.
    pub done: Option<u64>,
    /// Fraction of wall time it computed; `None` where not measurable.
    pub busy: Option<f64>,
    /// Bytes transferred.
    pub moved: Option<u64>,
}

/// Status of a memory pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Name.
    pub name: String,
    /// Bytes allocated, cached ones included.
    pub used: u64,
    /// Cached (idle) bytes.
    pub idle: Option<u64>,
    /// Budget in bytes.
    pub budget: Option<u64>,
    /// Peak bytes.
    pub peak: Option<u64>,
    /// low, moderate, high or critical, as classified by the process.
    pub pressure: Option<String>,
    /// Clean-ups (evictions) so far.
    pub cleanups: Option<u64>,
}

/// Statistics of spans of one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationStats {
    /// Their name.
    pub name: String,
    /// Number of completed spans.
    pub count: u64,
    /// Total time.
    pub total_ns: u64,
    /// Mean of recent ones.
    pub mean_ns: f64,
}

/// A monotonic counter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterValue {
    /// Name.
    pub name: String,
    /// Current value.
    pub value: u64,
}

/// A gauge.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GaugeValue {
    /// Name.
    pub name: String,
    /// The last value.
    pub value: f64,
    /// Minimum; `None` where not tracked.
    pub least: Option<f64>,
    /// Maximum.
    pub most: Option<f64>,
}

/// A routing decision with its outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoutingDecision {
    /// Sequence number.
    pub seq: u64,
    /// Time since publishing started.
    pub at_ms: u64,
    /// Operation.
    pub operation: String,
    /// Backend.
    pub place: String,
    /// Reason.
    pub reason: String,
    /// Predicted time.
    pub predicted_ns: Option<u64>,
    /// Measured wall time.
    pub wall_ns: u64,
}

/// Severity of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLevel {
    /// Informational.
    #[default]
    Info,
    /// Warning.
    Warning,
    /// Failure.
    Error,
}

impl EventLevel {
    /// Display text.
    pub fn word(self) -> &'static str {
        match self {
            EventLevel::Info => "info",
            EventLevel::Warning => "warning",
            EventLevel::Error => "error",
        }
    }
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveEvent {
    /// Sequence number.
    pub seq: u64,
    /// Time since publishing started.
    pub at_ms: u64,
    /// Severity.
    pub level: EventLevel,
    /// Message.
    pub text: String,
}

/// Cost of publishing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishCost {
    /// Snapshots taken.
    pub snapshots: u64,
    /// CPU time of the publisher thread; `None` where not available.
    pub cpu_ns: Option<u64>,
    /// Connected viewers.
    pub viewers: u64,
}

impl Snapshot {
    /// Truncates lists and texts, strips control characters and makes names unique: a name may come from anywhere, is
    /// printed to a terminal, and identifies one history and one metric.
    pub fn bound(&mut self) {
        sanitize(&mut self.command);
        self.devices.truncate(MAX_ROWS);
        for d in &mut self.devices {
            [&mut d.name, &mut d.state].into_iter().for_each(sanitize);
        }
        self.memory.truncate(MAX_ROWS);
        for m in &mut self.memory {
            sanitize(&mut m.name);
            m.pressure.iter_mut().for_each(sanitize);
        }
        self.operations.truncate(MAX_ROWS);
        self.operations.iter_mut().for_each(|o| sanitize(&mut o.name));
        self.counters.truncate(MAX_ROWS);
        self.counters.iter_mut().for_each(|c| sanitize(&mut c.name));
        // JSON has no NaN or infinity: one such value would make the whole line invalid.
        self.gauges.retain(|g| g.value.is_finite());
        self.gauges.truncate(MAX_ROWS);
        self.gauges.iter_mut().for_each(|g| sanitize(&mut g.name));
        make_unique(self.devices.iter_mut().map(|d| &mut d.name));
        make_unique(self.memory.iter_mut().map(|m| &mut m.name));
        make_unique(self.operations.iter_mut().map(|o| &mut o.name));
        make_unique(self.counters.iter_mut().map(|c| &mut c.name));
        make_unique(self.gauges.iter_mut().map(|g| &mut g.name));
        keep_last(&mut self.routing);
        for r in &mut self.routing {
            [&mut r.operation, &mut r.place, &mut r.reason].into_iter().for_each(sanitize);
        }
        keep_last(&mut self.events);
        self.events.iter_mut().for_each(|e| sanitize(&mut e.text));
    }
}

fn keep_last<T>(list: &mut Vec<T>) {
    let surplus = list.len().saturating_sub(MAX_ROWS);
    list.drain(..surplus);
}

/// Numbers duplicate names: two devices of one model, or truncated names.
fn make_unique<'a>(names: impl Iterator<Item = &'a mut String>) {
    let mut seen = BTreeSet::new();
    for name in names {
        let stem = name.clone();
        let mut number = 2;
        while !seen.insert(name.clone()) {
            *name = format!("{stem} ({number})");
            number += 1;
        }
    }
}

fn sanitize(text: &mut String) {
    let long = text.chars().nth(MAX_CHARS).is_some();
    if long || text.chars().any(is_control) {
        let keep = if long { MAX_CHARS - 1 } else { MAX_CHARS };
        *text = text.chars().take(keep).map(|c| if is_control(c) { ' ' } else { c }).collect();
        text.extend(long.then_some('…'));
    }
}

/// Control characters and bidirectional overrides.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_contents_are_bounded_and_sanitized() {
        let wild = || "\u{1b}]0;x\u{7}\u{202e}<script>\"\\".repeat(1000);
        let mut snapshot = Snapshot {
            command: wild(),
            devices: vec![DeviceStatus { name: wild(), state: wild(), ..DeviceStatus::default() }; 1000],
            memory: vec![
                MemoryStatus { name: wild(), pressure: Some(wild()), ..MemoryStatus::default() };
                1000
            ],
            operations: vec![OperationStats { name: wild(), ..OperationStats::default() }; 1000],
            counters: vec![CounterValue { name: wild(), value: u64::MAX }; 1000],
            gauges: vec![GaugeValue { name: wild(), value: 1e300, ..GaugeValue::default() }; 1000],
            routing: (0..1000)
                .map(|seq| RoutingDecision {
                    seq,
                    operation: wild(),
                    place: wild(),
                    reason: wild(),
                    ..RoutingDecision::default()
                })
                .collect(),
            events: (0..1000).map(|seq| LiveEvent { seq, text: wild(), ..LiveEvent::default() }).collect(),
            ..Snapshot::default()
        };
        snapshot.bound();
        let line = serde_json::to_string(&snapshot).unwrap();
        assert!(line.len() < 100_000, "{}", line.len());
        assert!(!line.contains("\\u001b") && !line.contains('\u{202e}'));
        assert_eq!(snapshot.events.first().map(|e| e.seq), Some(952));
        assert_eq!(snapshot.events[0].text.chars().count(), MAX_CHARS);
        let names: BTreeSet<&str> = snapshot.counters.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), MAX_ROWS, "names that were cut differ again");
        let once = snapshot.clone();
        snapshot.bound();
        assert!(snapshot.devices.iter().map(|d| &d.name).eq(once.devices.iter().map(|d| &d.name)));
        let mut fine = "a name that is fine · µ".to_owned();
        sanitize(&mut fine);
        assert_eq!(fine, "a name that is fine · µ");
    }

    #[test]
    fn duplicate_names_are_numbered_and_non_finite_gauges_dropped() {
        let device = |name: &str| DeviceStatus { name: name.into(), ..DeviceStatus::default() };
        let gauge = |value| GaugeValue { name: "load".into(), value, ..GaugeValue::default() };
        let mut snapshot = Snapshot {
            devices: ["gpu", "gpu", "gpu (2)", "gpu"].map(device).to_vec(),
            gauges: vec![gauge(f64::NAN), gauge(f64::INFINITY), gauge(0.5)],
            ..Snapshot::default()
        };
        snapshot.bound();
        let names: Vec<&str> = snapshot.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["gpu", "gpu (2)", "gpu (2) (2)", "gpu (3)"]);
        assert_eq!(snapshot.gauges, [gauge(0.5)]);
        let line = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&line).unwrap(), snapshot);
    }
}
