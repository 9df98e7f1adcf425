//! Short soak test with random faults on dummy and adapter; the long one is `cargo xtask soak`. Alone in its process,
//! because it counts the process's threads and file descriptors.

use std::time::Duration;

use gpuforge_runtime::{
    engine::{
        dummy::{DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    units::Bytes,
};
use gpuforge_testkit::{
    adapter,
    fault_injection::FaultyOpener,
    soak::{self, SoakSettings},
};

#[test]
fn soak_for_five_seconds() {
    let dummy = DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let mut subjects = vec![("dummy", FaultyOpener::over(dummy, soak::script(1)))];
    if adapter::open_or_skip(&GpuOpener::default()).is_some() {
        subjects.push(("adapter", FaultyOpener::over_gpu(GpuOpener::default(), soak::script(2))));
    }
    let settings =
        SoakSettings { duration: Duration::from_secs(5), every: Duration::from_millis(250), seed: 3 };
    let report = soak::run(&subjects, settings);
    println!("{}", report.table());
    assert_eq!(report.wrong(), Vec::<String>::new());
    for engine in &report.engines {
        assert!(engine.runs > 0 && engine.device > 0 && engine.faults > 0, "{engine:?}");
    }
    assert!(report.samples.len() >= 10, "{}", report.samples.len());
    // Five seconds are too short for a slope. But when all devices are closed, their threads must have ended.
    let (before, after) = report.ends;
    if let (Some(before), Some(after)) = (before.threads, after.threads) {
        assert!(after <= before, "{before} threads before, {after} after");
    }
}
