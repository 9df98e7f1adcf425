//! What does a process tell about itself? One bounded document, whatever runs in it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Version of the document; a viewer of another one says so.
pub const VERSION: u32 = 1;
/// Most rows of each list.
pub const MOST_ROWS: usize = 48;
/// Most characters of a name or a sentence.
pub const MOST_CHARS: usize = 120;

/// The state of a process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// Its process id.
    pub pid: u32,
    /// What it was started as.
    pub command: String,
    /// Counts the snapshots of this process.
    pub seq: u64,
    /// Since publishing began.
    pub uptime_ms: u64,
    /// Processor time of the whole process; `None` where the system does not tell.
    pub cpu_ms: Option<u64>,
    /// Places that work can run at.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Memories, the process's own first.
    #[serde(default)]
    pub memory: Vec<Memory>,
    /// Spans by name, the most time first.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Counters of the profiler, by name.
    #[serde(default)]
    pub counters: Vec<Counter>,
    /// Gauges of the profiler, by name.
    #[serde(default)]
    pub gauges: Vec<Gauge>,
    /// Decisions ever made, those of batches included; `routing` holds a sample of the latest.
    pub routed: u64,
    /// Of `routed`, items of batches.
    #[serde(default)]
    pub batched: u64,
    /// Some of the last decisions, the newest last.
    #[serde(default)]
    pub routing: Vec<Routed>,
    /// What happened, the newest last.
    #[serde(default)]
    pub events: Vec<Event>,
    /// What publishing itself has cost.
    #[serde(default)]
    pub cost: Cost,
}

/// A place that work can run at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// How it is: open, lost, not open.
    pub state: String,
    /// Pieces of work it has done.
    pub done: Option<u64>,
    /// Share of its work's wall time that it computed; `None` where it cannot tell.
    pub busy: Option<f64>,
    /// Bytes moved to and from it.
    pub moved: Option<u64>,
}

/// A memory that can get full.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Whose.
    pub name: String,
    /// Bytes held, idle ones included.
    pub used: u64,
    /// Bytes held for later use.
    pub idle: Option<u64>,
    /// Bytes that may be held.
    pub budget: Option<u64>,
    /// The most that was ever held.
    pub peak: Option<u64>,
    /// low, moderate, high or critical, as the process judges it.
    pub pressure: Option<String>,
    /// Clean-ups so far.
    pub cleanups: Option<u64>,
}

/// Spans of one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Their name.
    pub name: String,
    /// How many ended.
    pub count: u64,
    /// Their time.
    pub total_ns: u64,
    /// Mean of the last ones.
    pub mean_ns: f64,
}

/// Something that only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// What is counted.
    pub name: String,
    /// How much there was so far.
    pub value: u64,
}

/// Something that holds its last value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// What is measured.
    pub name: String,
    /// The last value.
    pub value: f64,
    /// The least it ever was; `None` where nobody kept that.
    pub least: Option<f64>,
    /// The most it ever was.
    pub most: Option<f64>,
}

/// Where something ran and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Routed {
    /// Counts decisions.
    pub seq: u64,
    /// When, since publishing began.
    pub at_ms: u64,
    /// What.
    pub operation: String,
    /// Where.
    pub place: String,
    /// Why there.
    pub reason: String,
    /// What it was expected to take.
    pub predicted_ns: Option<u64>,
    /// What it took.
    pub wall_ns: u64,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    #[default]
    Info,
    /// Worth a look.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// The word that is shown.
    pub fn word(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Counts events.
    pub seq: u64,
    /// When, since publishing began.
    pub at_ms: u64,
    /// How much it matters.
    pub level: Level,
    /// What.
    pub text: String,
}

/// What publishing has cost the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Snapshots made.
    pub snapshots: u64,
    /// Processor time of the publishing thread; `None` where the system does not tell.
    pub cpu_ns: Option<u64>,
    /// Viewers attached.
    pub viewers: u64,
}

impl Snapshot {
    /// Cuts lists and texts to their bounds, takes control characters out and makes names differ: a name comes from
    /// anywhere, ends in a terminal, and stands for one history and one metric.
    pub fn bound(&mut self) {
        clean(&mut self.command);
        self.devices.truncate(MOST_ROWS);
        for d in &mut self.devices {
            [&mut d.name, &mut d.state].into_iter().for_each(clean);
        }
        self.memory.truncate(MOST_ROWS);
        for m in &mut self.memory {
            clean(&mut m.name);
            m.pressure.iter_mut().for_each(clean);
        }
        self.operations.truncate(MOST_ROWS);
        self.operations.iter_mut().for_each(|o| clean(&mut o.name));
        self.counters.truncate(MOST_ROWS);
        self.counters.iter_mut().for_each(|c| clean(&mut c.name));
        // JSON has no word for what is not finite: one such value would make the whole line unreadable.
        self.gauges.retain(|g| g.value.is_finite());
        self.gauges.truncate(MOST_ROWS);
        self.gauges.iter_mut().for_each(|g| clean(&mut g.name));
        differ(self.devices.iter_mut().map(|d| &mut d.name));
        differ(self.memory.iter_mut().map(|m| &mut m.name));
        differ(self.operations.iter_mut().map(|o| &mut o.name));
        differ(self.counters.iter_mut().map(|c| &mut c.name));
        differ(self.gauges.iter_mut().map(|g| &mut g.name));
        last(&mut self.routing);
        for r in &mut self.routing {
            [&mut r.operation, &mut r.place, &mut r.reason].into_iter().for_each(clean);
        }
        last(&mut self.events);
        self.events.iter_mut().for_each(|e| clean(&mut e.text));
    }
}

fn last<T>(list: &mut Vec<T>) {
    let surplus = list.len().saturating_sub(MOST_ROWS);
    list.drain(..surplus);
}

/// Numbers names that stand there already: two devices of one model, or long names that were cut.
fn differ<'a>(names: impl Iterator<Item = &'a mut String>) {
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

fn clean(text: &mut String) {
    let long = text.chars().nth(MOST_CHARS).is_some();
    if long || text.chars().any(is_control) {
        let keep = if long { MOST_CHARS - 1 } else { MOST_CHARS };
        *text = text.chars().take(keep).map(|c| if is_control(c) { ' ' } else { c }).collect();
        text.extend(long.then_some('…'));
    }
}

/// Control characters, and those that turn the direction of what follows.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_contents_stay_within_bounds() {
        let wild = || "\u{1b}]0;x\u{7}\u{202e}<script>\"\\".repeat(1000);
        let mut snapshot = Snapshot {
            command: wild(),
            devices: vec![Device { name: wild(), state: wild(), ..Device::default() }; 1000],
            memory: vec![Memory { name: wild(), pressure: Some(wild()), ..Memory::default() }; 1000],
            operations: vec![Operation { name: wild(), ..Operation::default() }; 1000],
            counters: vec![Counter { name: wild(), value: u64::MAX }; 1000],
            gauges: vec![Gauge { name: wild(), value: 1e300, ..Gauge::default() }; 1000],
            routing: (0..1000)
                .map(|seq| Routed {
                    seq,
                    operation: wild(),
                    place: wild(),
                    reason: wild(),
                    ..Routed::default()
                })
                .collect(),
            events: (0..1000).map(|seq| Event { seq, text: wild(), ..Event::default() }).collect(),
            ..Snapshot::default()
        };
        snapshot.bound();
        let line = serde_json::to_string(&snapshot).unwrap();
        assert!(line.len() < 100_000, "{}", line.len());
        assert!(!line.contains("\\u001b") && !line.contains('\u{202e}'));
        assert_eq!(snapshot.events.first().map(|e| e.seq), Some(952));
        assert_eq!(snapshot.events[0].text.chars().count(), MOST_CHARS);
        let names: BTreeSet<&str> = snapshot.counters.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), MOST_ROWS, "names that were cut differ again");
        let once = snapshot.clone();
        snapshot.bound();
        assert!(snapshot.devices.iter().map(|d| &d.name).eq(once.devices.iter().map(|d| &d.name)));
        let mut fine = "a name that is fine · µ".to_owned();
        clean(&mut fine);
        assert_eq!(fine, "a name that is fine · µ");
    }

    #[test]
    fn equal_names_are_numbered_and_what_json_cannot_say_is_left_out() {
        let device = |name: &str| Device { name: name.into(), ..Device::default() };
        let gauge = |value| Gauge { name: "load".into(), value, ..Gauge::default() };
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
