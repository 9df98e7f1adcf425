//! Routing decisions in a trace, with predicted and measured times.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use gpuforge::{
    Forge,
    dash::{report::TraceReport, trace::conventions},
    ops,
    profile::Profiler,
    route::{PlacementPolicy, RunOptions},
    tensor,
};

#[test]
fn decisions_are_counted_by_operation_backend_and_reason() {
    let forge = Forge::new();
    let (data, key) = (tensor(&[7u8; 4096], &[4096]).unwrap(), tensor(&[1u8, 2], &[2]).unwrap());
    let on_cpu = RunOptions { placement: PlacementPolicy::Only(0), ..RunOptions::default() };
    // Off, nothing is recorded.
    forge.run_with(&ops::xor(&data, &key), on_cpu).unwrap();
    assert_eq!(conventions::routed(&Profiler::global().snapshot()), []);
    Profiler::global().enable();
    let times = 5;
    for _ in 0..times {
        forge.run_with(&ops::xor(&data, &key), on_cpu).unwrap();
    }
    forge.run(ops::xor(&data, &key)).unwrap();
    Profiler::global().disable();
    let trace = Profiler::global().snapshot();
    let routed = conventions::routed(&trace);
    assert_eq!(routed.iter().map(|r| r.runs).sum::<u64>(), times + 1, "{routed:?}");
    let asked = routed.iter().find(|r| r.reason == "it was asked for").unwrap();
    assert_eq!((asked.operation.as_str(), asked.place.as_str(), asked.runs), ("xor", "cpu", times));
    assert_eq!(asked.predicted_ns.is_some(), asked.measured_ns.is_some(), "{asked:?}");
    let page = TraceReport::of(&trace).html(&trace, "decisions");
    assert!(page.contains("it was asked for"));
}
