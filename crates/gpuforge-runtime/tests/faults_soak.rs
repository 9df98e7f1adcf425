//! Does a short soak find everything in order? The ten-minute one is `cargo xtask soak`; alone in its process, because
//! it counts the process's threads and handles.

use std::time::Duration;

use gpuforge_runtime::{
    engine::{
        EngineError, Opener as _,
        dummy::{DummyOpener, Script as DummyScript},
        gpu::GpuOpener,
    },
    units::Bytes,
};
use gpuforge_testkit::{
    faulty::FaultyOpener,
    soak::{self, Settings},
};

#[test]
fn five_seconds_of_everything_at_once() {
    let dummy = DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let mut subjects = vec![("dummy", FaultyOpener::over(dummy, soak::script(1)))];
    match GpuOpener::default().open() {
        Ok(_) => subjects.push(("adapter", FaultyOpener::over_gpu(GpuOpener::default(), soak::script(2)))),
        Err(EngineError::Unavailable { reason }) => println!("skipped: {reason}"),
        Err(other) => panic!("{other}"),
    }
    let settings = Settings { duration: Duration::from_secs(5), every: Duration::from_millis(250), seed: 3 };
    let report = soak::run(&subjects, settings);
    println!("{}", report.table());
    assert_eq!(report.wrong(), Vec::<String>::new());
    for engine in &report.engines {
        assert!(engine.runs > 0 && engine.device > 0 && engine.faults > 0, "{engine:?}");
    }
    assert!(report.samples.len() >= 10, "{}", report.samples.len());
    // Five seconds say nothing about a slope. But when all devices are closed, their threads must be gone.
    let (before, after) = report.ends;
    if let (Some(before), Some(after)) = (before.threads, after.threads) {
        assert!(after <= before, "{before} threads before, {after} after");
    }
}
