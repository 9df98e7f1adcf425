//! What are the figures of a run? The split by kind, every name, memory, decisions, events: plain data.

use std::collections::HashMap;

use gpuforge_profile::{Category, SpanStats, Trace, TrackKind};
use serde::Serialize;

use super::suggest::{self, Suggestion};
use crate::trace::known::{self, CleanUp, Memory, Recovered, Routed};

/// Version of the JSON form; raised when a field changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// Time of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Which kind.
    pub category: Category,
    /// Time that belongs to it alone, over all threads and devices; `None` where it was not measured.
    pub self_ns: Option<u64>,
    /// Its share of what was measured.
    pub share: Option<f64>,
    /// Why there is no time.
    pub note: Option<&'static str>,
}

/// All spans of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The kind that most of its time is.
    pub category: Category,
    /// Self time by the run's wall time; above 1 where several threads were at it.
    pub share_of_wall: Option<f64>,
    /// Its figures.
    #[serde(flatten)]
    pub stats: SpanStats,
}

/// One run, as figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// From the first start to the last end; `None` without spans.
    pub wall_ns: Option<u64>,
    /// How many spans.
    pub spans: u64,
    /// Spans and samples that were lost before they could be kept.
    pub dropped: u64,
    /// Threads that recorded something.
    pub threads: u64,
    /// Devices that recorded something, by name.
    pub devices: Vec<String>,
    /// `linux`, `macos`…
    pub os: String,
    /// `x86_64`…
    pub arch: String,
    /// Where the time went, in the order of [`Category::ALL`].
    pub breakdown: Vec<Part>,
    /// Every name, the largest self time first; async ones, which have none, last.
    pub rows: Vec<Row>,
    /// Memory of devices over time.
    pub memory: Vec<Memory>,
    /// Clean-ups of idle memory.
    pub clean_ups: Vec<CleanUp>,
    /// Decisions where to run, with predicted and measured time.
    pub routed: Vec<Routed>,
    /// What went wrong and what was done about it.
    pub recovered: Vec<Recovered>,
    /// What to do, by rules, each with its evidence.
    pub suggestions: Vec<Suggestion>,
}

impl Report {
    /// The figures of a trace.
    pub fn of(trace: &Trace) -> Report {
        let on = |kind: TrackKind| {
            let used: std::collections::BTreeSet<u32> = trace.spans.iter().map(|span| span.track).collect();
            let of = |track: &u32| trace.tracks.get(*track as usize).filter(|t| t.kind == kind);
            used.iter()
                .filter(|t| !known::is_recovery(trace, **t))
                .filter_map(of)
                .cloned()
                .collect::<Vec<_>>()
        };
        let device_name =
            |t: gpuforge_profile::TrackInfo| t.name.unwrap_or_else(|| format!("track {}", t.id));
        let mut report = Report {
            version: VERSION,
            wall_ns: trace.wall_ns(),
            spans: trace.spans.len() as u64,
            dropped: trace.dropped,
            threads: on(TrackKind::Thread).len() as u64,
            devices: on(TrackKind::Device).into_iter().map(device_name).collect(),
            os: trace.process.os.clone(),
            arch: trace.process.arch.clone(),
            breakdown: breakdown(trace),
            rows: rows(trace),
            memory: known::memory(trace),
            clean_ups: known::clean_ups(trace),
            routed: known::routed(trace),
            recovered: known::recovered(trace),
            suggestions: Vec::new(),
        };
        report.suggestions = suggest::all(&report, trace);
        report
    }

    /// Time that was measured, over all threads and devices.
    pub fn busy_ns(&self) -> u64 {
        self.breakdown.iter().filter_map(|part| part.self_ns).fold(0, u64::saturating_add)
    }

    /// The part of one kind.
    pub fn part(&self, category: Category) -> Option<&Part> {
        self.breakdown.iter().find(|part| part.category == category)
    }

    /// A row by name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.stats.name == name)
    }
}

fn breakdown(trace: &Trace) -> Vec<Part> {
    let measured = trace.breakdown();
    let busy: u64 = Category::ALL.into_iter().filter_map(|c| measured.of(c)).fold(0, u64::saturating_add);
    let device = known::used_device(trace);
    let part = |category: Category| {
        let self_ns = measured.of(category);
        let share = self_ns.filter(|_| busy > 0).map(|ns| ns as f64 / busy as f64);
        Part { category, self_ns, share, note: self_ns.is_none().then(|| note(category, device)) }
    };
    Category::ALL.into_iter().map(part).collect()
}

/// Why nothing of a kind was measured: a device was at work and does not tell, or there was nothing.
fn note(category: Category, device: bool) -> &'static str {
    match (category, device) {
        (Category::Gpu | Category::Transfer, true) => "not measurable on this device",
        (Category::Gpu, false) => "no device was used",
        _ => "nothing of the kind was recorded",
    }
}

fn rows(trace: &Trace) -> Vec<Row> {
    let mut kinds: HashMap<u32, [u64; 5]> = HashMap::new();
    for span in &trace.spans {
        let times = kinds.entry(span.name).or_default();
        if let Some(time) = times.get_mut(span.category.index()) {
            // One more: spans of no length have a kind too.
            *time = time.saturating_add(span.duration_ns).saturating_add(1);
        }
    }
    // Names are unique in a trace of ours; in a foreign one the last of equal names decides, which is harmless.
    let by_text: HashMap<&str, [u64; 5]> =
        kinds.iter().map(|(name, times)| (trace.name(*name), *times)).collect();
    let category = |name: &str| {
        let times = by_text.get(name).copied().unwrap_or_default();
        let most =
            Category::ALL.into_iter().max_by_key(|c| (times.get(c.index()).copied(), std::cmp::Reverse(*c)));
        most.unwrap_or_default()
    };
    let wall = trace.wall_ns().filter(|wall| *wall > 0);
    let row = |stats: SpanStats| Row {
        category: category(&stats.name),
        share_of_wall: stats.self_ns.zip(wall).map(|(own, wall)| own as f64 / wall as f64),
        stats,
    };
    let mut rows: Vec<Row> = trace.summary().into_iter().map(row).collect();
    rows.sort_by(|a, b| b.stats.self_ns.cmp(&a.stats.self_ns).then_with(|| a.stats.name.cmp(&b.stats.name)));
    rows
}
