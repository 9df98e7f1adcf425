//! Trace report data: time by category, statistics by span name, memory, routing decisions, recovery events.

use std::collections::HashMap;

use gpuforge_profile::{Category, SpanStats, Trace, TrackKind};
use serde::Serialize;

use super::suggestions::{self, Suggestion};
use crate::trace::conventions::{self, DeviceMemory, PoolCleanup, RecoveryEvent, RoutingStats};

/// Version of the JSON format; raised when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// Self time of one category.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CategoryTime {
    /// Category.
    pub category: Category,
    /// Self time over all threads and devices; `None` where not measured.
    pub self_ns: Option<u64>,
    /// Fraction of the measured time.
    pub share: Option<f64>,
    /// Why it was not measured.
    pub note: Option<&'static str>,
}

/// Statistics of one span name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanRow {
    /// Dominant category.
    pub category: Category,
    /// Self time / wall time; above 1 with several threads.
    pub share_of_wall: Option<f64>,
    /// Statistics.
    #[serde(flatten)]
    pub stats: SpanStats,
}

/// Report of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceReport {
    /// [`VERSION`].
    pub version: u32,
    /// Wall time from first start to last end; `None` without spans.
    pub wall_ns: Option<u64>,
    /// Number of spans.
    pub spans: u64,
    /// Dropped records.
    pub dropped: u64,
    /// Threads with spans.
    pub threads: u64,
    /// Devices with spans, by name.
    pub devices: Vec<String>,
    /// `linux`, `macos`…
    pub os: String,
    /// `x86_64`…
    pub arch: String,
    /// Time by category, in the order of [`Category::ALL`].
    pub breakdown: Vec<CategoryTime>,
    /// Statistics by name, largest self time first; async spans, which have none, last.
    pub rows: Vec<SpanRow>,
    /// Device memory over time.
    pub memory: Vec<DeviceMemory>,
    /// Clean-ups (evictions) of idle memory.
    pub clean_ups: Vec<PoolCleanup>,
    /// Routing decisions with predicted and measured time.
    pub routed: Vec<RoutingStats>,
    /// Recovery events.
    pub recovered: Vec<RecoveryEvent>,
    /// Suggestions with evidence.
    pub suggestions: Vec<Suggestion>,
}

impl TraceReport {
    /// Computes the report of a trace.
    pub fn of(trace: &Trace) -> TraceReport {
        let on = |kind: TrackKind| {
            let used: std::collections::BTreeSet<u32> = trace.spans.iter().map(|span| span.track).collect();
            let of = |track: &u32| trace.tracks.get(*track as usize).filter(|t| t.kind == kind);
            used.iter()
                .filter(|t| !conventions::is_recovery(trace, **t))
                .filter_map(of)
                .cloned()
                .collect::<Vec<_>>()
        };
        let device_name =
            |t: gpuforge_profile::TrackInfo| t.name.unwrap_or_else(|| format!("track {}", t.id));
        let mut report = TraceReport {
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
            memory: conventions::memory(trace),
            clean_ups: conventions::clean_ups(trace),
            routed: conventions::routed(trace),
            recovered: conventions::recovered(trace),
            suggestions: Vec::new(),
        };
        report.suggestions = suggestions::all(&report, trace);
        report
    }

    /// Measured (busy) time over all threads and devices.
    pub fn busy_ns(&self) -> u64 {
        self.breakdown.iter().filter_map(|part| part.self_ns).fold(0, u64::saturating_add)
    }

    /// Time of one category.
    pub fn part(&self, category: Category) -> Option<&CategoryTime> {
        self.breakdown.iter().find(|part| part.category == category)
    }

    /// Statistics of a name.
    pub fn row(&self, name: &str) -> Option<&SpanRow> {
        self.rows.iter().find(|row| row.stats.name == name)
    }
}

fn breakdown(trace: &Trace) -> Vec<CategoryTime> {
    let measured = trace.breakdown();
    let busy: u64 = Category::ALL.into_iter().filter_map(|c| measured.of(c)).fold(0, u64::saturating_add);
    let device = conventions::used_device(trace);
    let part = |category: Category| {
        let self_ns = measured.of(category);
        let share = self_ns.filter(|_| busy > 0).map(|ns| ns as f64 / busy as f64);
        CategoryTime { category, self_ns, share, note: self_ns.is_none().then(|| note(category, device)) }
    };
    Category::ALL.into_iter().map(part).collect()
}

/// Why a category was not measured: the device cannot measure it, or nothing was recorded.
fn note(category: Category, device: bool) -> &'static str {
    match (category, device) {
        (Category::Gpu | Category::Transfer, true) => "not measurable on this device",
        (Category::Gpu, false) => "no device was used",
        _ => "nothing of the kind was recorded",
    }
}

fn rows(trace: &Trace) -> Vec<SpanRow> {
    let mut kinds: HashMap<u32, [u64; 5]> = HashMap::new();
    for span in &trace.spans {
        let times = kinds.entry(span.name).or_default();
        if let Some(time) = times.get_mut(span.category.index()) {
            // Plus one: zero-length spans count too.
            *time = time.saturating_add(span.duration_ns).saturating_add(1);
        }
    }
    // Names are unique in our traces; in foreign ones the last duplicate wins, which is harmless.
    let by_text: HashMap<&str, [u64; 5]> =
        kinds.iter().map(|(name, times)| (trace.name(*name), *times)).collect();
    let category = |name: &str| {
        let times = by_text.get(name).copied().unwrap_or_default();
        let most =
            Category::ALL.into_iter().max_by_key(|c| (times.get(c.index()).copied(), std::cmp::Reverse(*c)));
        most.unwrap_or_default()
    };
    let wall = trace.wall_ns().filter(|wall| *wall > 0);
    let row = |stats: SpanStats| SpanRow {
        category: category(&stats.name),
        share_of_wall: stats.self_ns.zip(wall).map(|(own, wall)| own as f64 / wall as f64),
        stats,
    };
    let mut rows: Vec<SpanRow> = trace.summary().into_iter().map(row).collect();
    rows.sort_by(|a, b| b.stats.self_ns.cmp(&a.stats.self_ns).then_with(|| a.stats.name.cmp(&b.stats.name)));
    rows
}
