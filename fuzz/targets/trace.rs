//! Fuzz target: trace files. What parses must survive every view of it and come back equal from its own JSON.
#![no_main]

use gpuforge_dash::{
    report::{FlameGraph, TimelineData, TraceReport},
    trace::parse,
};
use gpuforge_profile::Trace;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(trace) = parse(data.to_vec(), Path::new("trace.json")) else { return };
    let text = trace.to_json().expect("a trace that was read can be written");
    assert!(Trace::from_json(&text).is_ok(), "what was written can be read");
    trace.summary();
    trace.timeline(10);
    trace.to_chrome().expect("a trace that was read can be exported");
    let report = TraceReport::of(&trace);
    report.csv();
    report.html(&trace, "trace");
    let flame = FlameGraph::of(&trace);
    flame.folded();
    flame.largest(100).svg("trace");
    TimelineData::of(&trace);
});
