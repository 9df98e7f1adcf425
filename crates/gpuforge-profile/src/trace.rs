//! Trace data model: spans, tracks, counters and gauges as plain data (serde), independent of the profiler.
//!
//! Times are nanoseconds since the profiler was first enabled. The JSON form carries [`VERSION`].

use crate::{category::Category, clock::ClockInfo, recent::RecentStats};
use serde::{Deserialize, Serialize};

/// Version of the JSON form; raised when a field changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// A recorded trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`VERSION`] of this form.
    pub version: u32,
    /// Which clock, and why.
    pub clock: ClockInfo,
    /// The recorded process.
    pub process: ProcessInfo,
    /// When the trace was taken.
    pub taken_ns: u64,
    /// Records that were overwritten or dropped before they could be collected.
    pub dropped: u64,
    /// Names of spans, counters and gauges, referred to by index.
    pub names: Vec<String>,
    /// Threads, devices and async tracks.
    pub tracks: Vec<TrackInfo>,
    /// Closed spans, sorted by track, start and depth.
    pub spans: Vec<SpanRecord>,
    /// Counters, sorted by name.
    pub counters: Vec<CounterSeries>,
    /// Gauges, sorted by name.
    pub gauges: Vec<GaugeSeries>,
    /// Averages over the last calls of each name, sorted by name.
    pub recent: Vec<RecentStats>,
    /// Spans that `recent` does not cover: a thread has windows for about 250 names only.
    pub recent_missed: u64,
}

/// The process a trace is from. No host name, user name or path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Process id.
    pub pid: u32,
    /// `linux`, `macos`, `windows`…
    pub os: String,
    /// `x86_64`, `aarch64`…
    pub arch: String,
}

/// Kind of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// A thread: its spans nest.
    Thread,
    /// A device: its spans were measured elsewhere; they nest or follow each other.
    Device,
    /// Async functions of any thread: elapsed time, overlapping freely.
    Async,
}

/// A track: one timeline of spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackInfo {
    /// Unique within the process.
    pub id: u32,
    /// Thread, device or async.
    pub kind: TrackKind,
    /// Name of the thread or device, if any.
    pub name: Option<String>,
    /// Records of this thread that were dropped. What it recorded for a device counts here, not there.
    pub dropped: u64,
}

/// One closed span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanRecord {
    /// Index in [`Trace::names`].
    pub name: u32,
    /// Index in [`Trace::tracks`].
    pub track: u32,
    /// Category.
    pub category: Category,
    /// Nesting depth.
    pub depth: u16,
    /// Start.
    pub start_ns: u64,
    /// Duration; 0 when the clock went backwards.
    pub duration_ns: u64,
    /// Bytes it moved or computed on, if stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl SpanRecord {
    /// End.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// A counter and its samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSeries {
    /// Index in [`Trace::names`].
    pub name: u32,
    /// Its value when the trace was taken.
    pub value: u64,
    /// (time, value), at most about one a millisecond, the last one at [`Trace::taken_ns`].
    pub samples: Vec<(u64, u64)>,
}

/// A gauge and its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaugeSeries {
    /// Index in [`Trace::names`].
    pub name: u32,
    /// Its value when the trace was taken.
    pub value: f64,
    /// Minimum it was ever set to, also between samples.
    #[serde(rename = "least")]
    pub min: f64,
    /// Maximum it was ever set to, also between samples.
    #[serde(rename = "most")]
    pub max: f64,
    /// (time, value), at most about one a millisecond, the last one at [`Trace::taken_ns`].
    pub samples: Vec<(u64, f64)>,
}

impl Trace {
    /// The text of a name; a question mark for an invalid index.
    pub fn name(&self, position: u32) -> &str {
        self.names.get(position as usize).map_or("?", String::as_str)
    }

    /// Kind of the track of a span; `None` for an invalid index.
    pub fn kind_of(&self, span: &SpanRecord) -> Option<TrackKind> {
        self.tracks.get(span.track as usize).map(|track| track.kind)
    }

    /// Wall time from the first start to the last end; `None` without spans.
    pub fn wall_ns(&self) -> Option<u64> {
        let (from, to) = self.extent()?;
        Some(to - from)
    }

    /// First start and last end; `None` without spans.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let from = self.spans.iter().map(|span| span.start_ns).min()?;
        let to = self.spans.iter().map(SpanRecord::end_ns).max()?;
        Some((from, to))
    }

    /// A counter by name.
    pub fn counter(&self, name: &str) -> Option<&CounterSeries> {
        self.counters.iter().find(|counter| self.name(counter.name) == name)
    }

    /// A gauge by name.
    pub fn gauge(&self, name: &str) -> Option<&GaugeSeries> {
        self.gauges.iter().find(|gauge| self.name(gauge.name) == name)
    }
}
