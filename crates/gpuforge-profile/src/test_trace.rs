//! Hand-made traces for the unit tests of this crate.

use crate::{
    category::Category,
    clock::ClockInfo,
    trace::{ProcessInfo, SpanRecord, Trace, TrackInfo, TrackKind, VERSION},
};

/// Name, track, depth, start and end of a span. Tracks: 0 a thread, 1 a device, 2 async.
pub(crate) type Sample = (&'static str, u32, u16, u64, u64, Category);

pub(crate) fn span(name: &'static str, track: u32, depth: u16, start: u64, end: u64) -> Sample {
    (name, track, depth, start, end, Category::Cpu)
}

pub(crate) fn trace(samples: &[Sample]) -> Trace {
    let mut names: Vec<String> = Vec::new();
    let mut spans = Vec::new();
    for (name, track, depth, start_ns, end, category) in samples {
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push((*name).to_owned());
            names.len() - 1
        });
        spans.push(SpanRecord {
            name: at as u32,
            track: *track,
            category: *category,
            depth: *depth,
            start_ns: *start_ns,
            duration_ns: end - start_ns,
            bytes: None,
        });
    }
    let track =
        |id, kind, name: Option<&str>| TrackInfo { id, kind, name: name.map(str::to_owned), dropped: 0 };
    Trace {
        version: VERSION,
        clock: ClockInfo {
            source: "instant".to_owned(),
            ticks_per_second: Some(1e9),
            reason: "made by hand".to_owned(),
        },
        process: ProcessInfo { pid: 4711, os: "linux".to_owned(), arch: "x86_64".to_owned() },
        taken_ns: 5000,
        dropped: 0,
        names,
        tracks: vec![
            track(1, TrackKind::Thread, Some("main")),
            track(1 << 30, TrackKind::Device, Some("gpu 0")),
            track((1 << 30) + 1, TrackKind::Async, Some("async")),
        ],
        spans,
        counters: Vec::new(),
        gauges: Vec::new(),
        recent: Vec::new(),
        recent_missed: 0,
    }
}
