//! What is a trace? Plain data: it can be kept, sent, compared, and read by a program that never measured anything.
//!
//! Times are nanoseconds since the profiler was first switched on. The JSON form carries [`VERSION`].

use crate::{category::Category, clock::ClockInfo, recent::Recent};
use serde::{Deserialize, Serialize};

/// Version of the JSON form; raised when a field changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// What was recorded over some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`VERSION`] of this form.
    pub version: u32,
    /// Which clock, and why.
    pub clock: ClockInfo,
    /// Who recorded it.
    pub process: ProcessInfo,
    /// When the trace was taken.
    pub taken_ns: u64,
    /// Records that were overwritten, or found no place, before they could be collected.
    pub dropped: u64,
    /// Names of spans, counters and gauges; the others refer to them by position.
    pub names: Vec<String>,
    /// Threads, devices and the like.
    pub tracks: Vec<TrackInfo>,
    /// Closed spans by track, start and depth.
    pub spans: Vec<SpanRecord>,
    /// Counters by name.
    pub counters: Vec<CounterSeries>,
    /// Gauges by name.
    pub gauges: Vec<GaugeSeries>,
    /// Averages over the last calls of each name, by name.
    pub recent: Vec<Recent>,
    /// Spans that `recent` does not cover: a thread keeps averages for some 250 names only.
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

/// What a track stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// A thread: its spans nest.
    Thread,
    /// A device: its spans were timed by somebody else; they nest or follow each other.
    Device,
    /// Async functions of any thread: elapsed time, overlapping freely.
    Async,
}

/// One line of the picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackInfo {
    /// Number that is unique within the process.
    pub id: u32,
    /// What it is.
    pub kind: TrackKind,
    /// Name of the thread or device, where it has one.
    pub name: Option<String>,
    /// Records of this thread that were dropped. What it recorded for a device counts here, not there.
    pub dropped: u64,
}

/// One closed span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanRecord {
    /// Position in [`Trace::names`].
    pub name: u32,
    /// Position in [`Trace::tracks`].
    pub track: u32,
    /// What the time went into.
    pub category: Category,
    /// How many spans were open around it.
    pub depth: u16,
    /// When it began.
    pub start_ns: u64,
    /// How long it took; 0 when the clock went backwards.
    pub duration_ns: u64,
    /// Bytes it moved or computed on, where somebody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl SpanRecord {
    /// When it ended.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// A counter and some of its past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSeries {
    /// Position in [`Trace::names`].
    pub name: u32,
    /// Its value when the trace was taken.
    pub value: u64,
    /// (time, value), at most about one a millisecond, the last one at [`Trace::taken_ns`].
    pub samples: Vec<(u64, u64)>,
}

/// A gauge and some of its past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaugeSeries {
    /// Position in [`Trace::names`].
    pub name: u32,
    /// Its value when the trace was taken.
    pub value: f64,
    /// The least value it was ever set to, also between samples.
    pub least: f64,
    /// The greatest value it was ever set to, also between samples.
    pub most: f64,
    /// (time, value), at most about one a millisecond, the last one at [`Trace::taken_ns`].
    pub samples: Vec<(u64, f64)>,
}

impl Trace {
    /// The text of a name; a question mark for a position that does not exist.
    pub fn name(&self, position: u32) -> &str {
        self.names.get(position as usize).map_or("?", String::as_str)
    }

    /// What kind of track a span is on; `None` for a position that does not exist.
    pub fn kind_of(&self, span: &SpanRecord) -> Option<TrackKind> {
        self.tracks.get(span.track as usize).map(|track| track.kind)
    }

    /// From the first start to the last end; `None` without spans.
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
