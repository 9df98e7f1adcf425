//! Which names in a trace mean more than a span? Memory, decisions and events, as the runtime and the router record them.
//!
//! | what | as | name |
//! |---|---|---|
//! | memory in use | gauge | `memory/used/DEVICE` |
//! | its budget | gauge | `memory/budget/DEVICE` |
//! | a clean-up | span with bytes | `memory clean-up` |
//! | decisions | counters | `route/OPERATION/PLACE/REASON/runs`, `…/predicted_ns`, `…/measured_ns` |
//! | bytes moved | counters | `bytes uploaded`, `bytes downloaded`, `bytes uploaded again` |
//! | recovery | spans of no length | on the track `recovery`, `KIND: STEP (REASON)` |

use gpuforge_profile::{GaugeSeries, SpanRecord, Trace, TrackKind};
use serde::Serialize;

/// The track that recovery events are on.
pub const RECOVERY_TRACK: &str = "recovery";
/// Spans of clean-ups.
pub const CLEAN_UP: &str = "memory clean-up";
/// Spans that only a device causes.
pub const DEVICE_WORK: [&str; 2] = ["wait for the device", "operation on a device"];
/// Bytes sent to devices.
pub const UPLOADED: &str = "bytes uploaded";
/// Bytes brought back.
pub const DOWNLOADED: &str = "bytes downloaded";
/// Bytes of tensors that a device had made, that were read back, and sent again.
pub const UPLOADED_AGAIN: &str = "bytes uploaded again";
const USED: &str = "memory/used/";
const BUDGET: &str = "memory/budget/";
pub(crate) const ROUTE: &str = "route/";

/// Memory of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memory {
    /// Name of the device.
    pub device: String,
    /// What pressure is counted from; `None` where nobody said.
    pub budget_bytes: Option<f64>,
    /// The most that was in use.
    pub peak_bytes: f64,
    /// (time, bytes in use).
    pub samples: Vec<(u64, f64)>,
}

/// A clean-up of idle memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CleanUp {
    /// When it began.
    pub at_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Bytes it freed, where that was said.
    pub freed_bytes: Option<u64>,
}

/// Decisions of one kind: an operation, where it went and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Routed {
    /// The operation.
    pub operation: String,
    /// Where it ran.
    pub place: String,
    /// Why there.
    pub reason: String,
    /// How often.
    pub runs: u64,
    /// Predicted time of all of them; `None` where nothing was predicted.
    pub predicted_ns: Option<u64>,
    /// Measured time of those that had a prediction; `None` where none had.
    pub measured_ns: Option<u64>,
}

impl Routed {
    /// Measured by predicted time; `None` where nothing was predicted.
    pub fn ratio(&self) -> Option<f64> {
        let predicted = self.predicted_ns.filter(|ns| *ns > 0)?;
        Some(self.measured_ns? as f64 / predicted as f64)
    }
}

/// Something went wrong, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// When.
    pub at_ns: u64,
    /// What, and the next step.
    pub what: String,
}

/// Memory of every device that said so.
pub fn memory(trace: &Trace) -> Vec<Memory> {
    let named =
        |gauge: &GaugeSeries, prefix: &str| Some(trace.name(gauge.name).strip_prefix(prefix)?.to_owned());
    let budget = |device: &str| {
        let found = trace.gauges.iter().find(|g| named(g, BUDGET).as_deref() == Some(device))?;
        Some(found.value).filter(|bytes| *bytes > 0.0)
    };
    let one = |gauge: &GaugeSeries| {
        let device = named(gauge, USED)?;
        let budget_bytes = budget(&device);
        Some(Memory { device, budget_bytes, peak_bytes: gauge.max, samples: gauge.samples.clone() })
    };
    trace.gauges.iter().filter_map(one).collect()
}

/// Clean-ups, in order of time.
pub fn clean_ups(trace: &Trace) -> Vec<CleanUp> {
    let is = |span: &&SpanRecord| trace.name(span.name) == CLEAN_UP;
    let one = |span: &SpanRecord| CleanUp {
        at_ns: span.start_ns,
        duration_ns: span.duration_ns,
        freed_bytes: span.bytes,
    };
    let mut all: Vec<CleanUp> = trace.spans.iter().filter(is).map(one).collect();
    all.sort_by_key(|clean_up| clean_up.at_ns);
    all
}

/// Decisions, the longest first.
pub fn routed(trace: &Trace) -> Vec<Routed> {
    let value = |name: &str| trace.counter(name).map(|counter| counter.value);
    let one = |counter: &gpuforge_profile::CounterSeries| {
        let stem = trace.name(counter.name).strip_suffix("/runs")?;
        let mut parts = stem.strip_prefix(ROUTE)?.splitn(3, '/').map(str::to_owned);
        let (operation, place, reason) = (parts.next()?, parts.next()?, parts.next()?);
        let predicted_ns = value(&format!("{stem}/predicted_ns"));
        let measured_ns = value(&format!("{stem}/measured_ns"));
        Some(Routed { operation, place, reason, runs: counter.value, predicted_ns, measured_ns })
    };
    let mut all: Vec<Routed> = trace.counters.iter().filter_map(one).collect();
    all.sort_by(|a, b| b.measured_ns.cmp(&a.measured_ns).then_with(|| a.cmp(b)));
    all
}

/// Is this the track of recovery events?
pub fn is_recovery(trace: &Trace, track: u32) -> bool {
    let info = trace.tracks.get(track as usize);
    info.is_some_and(|t| t.kind == TrackKind::Device && t.name.as_deref() == Some(RECOVERY_TRACK))
}

/// Recovery events, in order of time.
pub fn recovered(trace: &Trace) -> Vec<Recovered> {
    let Some(track) = (0..).take(trace.tracks.len()).find(|track| is_recovery(trace, *track)) else {
        return Vec::new();
    };
    let on = trace.spans.iter().filter(|span| span.track == track);
    let mut all: Vec<Recovered> =
        on.map(|span| Recovered { at_ns: span.start_ns, what: trace.name(span.name).to_owned() }).collect();
    all.sort_by(|a, b| a.at_ns.cmp(&b.at_ns).then_with(|| a.what.cmp(&b.what)));
    all
}

/// Did the run use a device?
pub fn used_device(trace: &Trace) -> bool {
    let names: Vec<u32> =
        (0..).zip(&trace.names).filter(|(_, n)| DEVICE_WORK.contains(&n.as_str())).map(|(i, _)| i).collect();
    trace
        .spans
        .iter()
        .any(|span| names.contains(&span.name) || span.category == gpuforge_profile::Category::Gpu)
}
