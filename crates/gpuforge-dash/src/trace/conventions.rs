//! Naming conventions of a trace: device memory, routing decisions and recovery events, as runtime and router record them.
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

/// Track of recovery events.
pub const RECOVERY_TRACK: &str = "recovery";
/// Span name of clean-ups.
pub const CLEAN_UP: &str = "memory clean-up";
/// Span names that imply a device.
pub const DEVICE_WORK: [&str; 2] = ["wait for the device", "operation on a device"];
/// Counter of uploaded bytes.
pub const UPLOADED: &str = "bytes uploaded";
/// Counter of downloaded bytes.
pub const DOWNLOADED: &str = "bytes downloaded";
/// Counter of bytes that a device had produced, read back and uploaded again.
pub const UPLOADED_AGAIN: &str = "bytes uploaded again";
const USED: &str = "memory/used/";
const BUDGET: &str = "memory/budget/";
pub(crate) const ROUTE: &str = "route/";

/// Memory of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceMemory {
    /// Name of the device.
    pub device: String,
    /// Budget; `None` where not recorded.
    pub budget_bytes: Option<f64>,
    /// Peak usage.
    pub peak_bytes: f64,
    /// (time, bytes in use).
    pub samples: Vec<(u64, f64)>,
}

/// A clean-up (eviction) of idle memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PoolCleanup {
    /// Start time.
    pub at_ns: u64,
    /// Duration.
    pub duration_ns: u64,
    /// Bytes freed, where recorded.
    pub freed_bytes: Option<u64>,
}

/// Routing statistics by operation, backend and reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RoutingStats {
    /// Operation.
    pub operation: String,
    /// Backend.
    pub place: String,
    /// Reason.
    pub reason: String,
    /// Number of runs.
    pub runs: u64,
    /// Total predicted time; `None` without predictions.
    pub predicted_ns: Option<u64>,
    /// Total measured time of predicted runs; `None` without predictions.
    pub measured_ns: Option<u64>,
}

impl RoutingStats {
    /// Measured / predicted time; `None` without predictions.
    pub fn ratio(&self) -> Option<f64> {
        let predicted = self.predicted_ns.filter(|ns| *ns > 0)?;
        Some(self.measured_ns? as f64 / predicted as f64)
    }
}

/// A recovery event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveryEvent {
    /// Time.
    pub at_ns: u64,
    /// Failure and recovery step.
    pub what: String,
}

/// Memory of every device that recorded it.
pub fn memory(trace: &Trace) -> Vec<DeviceMemory> {
    let named =
        |gauge: &GaugeSeries, prefix: &str| Some(trace.name(gauge.name).strip_prefix(prefix)?.to_owned());
    let budget = |device: &str| {
        let found = trace.gauges.iter().find(|g| named(g, BUDGET).as_deref() == Some(device))?;
        Some(found.value).filter(|bytes| *bytes > 0.0)
    };
    let one = |gauge: &GaugeSeries| {
        let device = named(gauge, USED)?;
        let budget_bytes = budget(&device);
        Some(DeviceMemory { device, budget_bytes, peak_bytes: gauge.max, samples: gauge.samples.clone() })
    };
    trace.gauges.iter().filter_map(one).collect()
}

/// Clean-ups in time order.
pub fn clean_ups(trace: &Trace) -> Vec<PoolCleanup> {
    let is = |span: &&SpanRecord| trace.name(span.name) == CLEAN_UP;
    let one = |span: &SpanRecord| PoolCleanup {
        at_ns: span.start_ns,
        duration_ns: span.duration_ns,
        freed_bytes: span.bytes,
    };
    let mut all: Vec<PoolCleanup> = trace.spans.iter().filter(is).map(one).collect();
    all.sort_by_key(|clean_up| clean_up.at_ns);
    all
}

/// Routing statistics, longest measured time first.
pub fn routed(trace: &Trace) -> Vec<RoutingStats> {
    let value = |name: &str| trace.counter(name).map(|counter| counter.value);
    let one = |counter: &gpuforge_profile::CounterSeries| {
        let stem = trace.name(counter.name).strip_suffix("/runs")?;
        let mut parts = stem.strip_prefix(ROUTE)?.splitn(3, '/').map(str::to_owned);
        let (operation, place, reason) = (parts.next()?, parts.next()?, parts.next()?);
        let predicted_ns = value(&format!("{stem}/predicted_ns"));
        let measured_ns = value(&format!("{stem}/measured_ns"));
        Some(RoutingStats { operation, place, reason, runs: counter.value, predicted_ns, measured_ns })
    };
    let mut all: Vec<RoutingStats> = trace.counters.iter().filter_map(one).collect();
    all.sort_by(|a, b| b.measured_ns.cmp(&a.measured_ns).then_with(|| a.cmp(b)));
    all
}

/// Is this the recovery track?
pub fn is_recovery(trace: &Trace, track: u32) -> bool {
    let info = trace.tracks.get(track as usize);
    info.is_some_and(|t| t.kind == TrackKind::Device && t.name.as_deref() == Some(RECOVERY_TRACK))
}

/// Recovery events in time order.
pub fn recovered(trace: &Trace) -> Vec<RecoveryEvent> {
    let Some(track) = (0..).take(trace.tracks.len()).find(|track| is_recovery(trace, *track)) else {
        return Vec::new();
    };
    let on = trace.spans.iter().filter(|span| span.track == track);
    let mut all: Vec<RecoveryEvent> = on
        .map(|span| RecoveryEvent { at_ns: span.start_ns, what: trace.name(span.name).to_owned() })
        .collect();
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
