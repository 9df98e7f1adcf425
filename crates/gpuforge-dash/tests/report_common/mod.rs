//! What do the tests of reports measure with? Traces made by hand.

use gpuforge_dash::trace::Trace;
use gpuforge_profile::{
    Category, ClockInfo, CounterSeries, GaugeSeries, ProcessInfo, SpanRecord, TrackInfo, TrackKind, VERSION,
};

/// Tracks: two threads, a device, async, recovery.
pub(crate) fn empty() -> Trace {
    let track =
        |id, kind, name: Option<&str>| TrackInfo { id, kind, name: name.map(str::to_owned), dropped: 0 };
    let (source, reason) = ("instant".to_owned(), "made by hand".to_owned());
    Trace {
        version: VERSION,
        clock: ClockInfo { source, ticks_per_second: Some(1e9), reason },
        process: ProcessInfo { pid: 4711, os: "linux".to_owned(), arch: "x86_64".to_owned() },
        taken_ns: 0,
        dropped: 0,
        names: Vec::new(),
        tracks: vec![
            track(1, TrackKind::Thread, Some("main")),
            track(2, TrackKind::Thread, None),
            track(1 << 30, TrackKind::Device, Some("Some GPU")),
            track((1 << 30) + 1, TrackKind::Async, Some("async")),
            track((1 << 30) + 2, TrackKind::Device, Some("recovery")),
        ],
        spans: Vec::new(),
        counters: Vec::new(),
        gauges: Vec::new(),
        recent: Vec::new(),
        recent_missed: 0,
    }
}

pub(crate) fn name(trace: &mut Trace, text: &str) -> u32 {
    let at = trace.names.iter().position(|known| known == text).unwrap_or_else(|| {
        trace.names.push(text.to_owned());
        trace.names.len() - 1
    });
    u32::try_from(at).unwrap()
}

/// Adds a span on a track, from start to end.
#[allow(dead_code, reason = "each test file uses its own part of this module")]
pub(crate) fn span(
    trace: &mut Trace,
    text: &str,
    (track, depth): (u32, u16),
    (start, end): (u64, u64),
    category: Category,
) {
    let name = name(trace, text);
    let (start_ns, duration_ns) = (start, end - start);
    trace.spans.push(SpanRecord { name, track, category, depth, start_ns, duration_ns, bytes: None });
    trace.taken_ns = trace.taken_ns.max(end);
}

#[allow(dead_code, reason = "each test file uses its own part of this module")]
pub(crate) fn counter(trace: &mut Trace, text: &str, value: u64) {
    let name = name(trace, text);
    trace.counters.push(CounterSeries { name, value, samples: vec![(trace.taken_ns, value)] });
}

#[allow(dead_code, reason = "each test file uses its own part of this module")]
pub(crate) fn gauge(trace: &mut Trace, text: &str, samples: &[(u64, f64)]) {
    let name = name(trace, text);
    let values = || samples.iter().map(|(_, value)| *value);
    let value = values().next_back().unwrap_or(0.0);
    let (min, max) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    trace.gauges.push(GaugeSeries { name, value, min, max, samples: samples.to_vec() });
}
