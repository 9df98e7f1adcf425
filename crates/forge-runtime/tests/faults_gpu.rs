//! Does a real adapter's work survive every kind of fault? A sample of events, with the device really destroyed before
//! and after submitting, before waiting and between two plans. Says so when there is no adapter.

use std::time::{Duration, Instant};

use forge_runtime::{
    engine::{
        EngineError, Opener as _,
        dummy::{DummyOpener, Script as DummyScript},
        gpu::GpuOpener,
    },
    runner::{RunError, Runner},
    units::Bytes,
};
use forge_testkit::{
    faulty::FaultyOpener,
    sample::{self, Row},
    script::{Fault, Moment, Script},
    workload::Workload,
};

/// True, and one line said, when this machine has no adapter.
fn nothing_here() -> bool {
    match GpuOpener::default().open() {
        Ok(_) => false,
        Err(EngineError::Unavailable { reason }) => {
            println!("skipped: {reason}");
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// Every run right, every fault real, nobody kept waiting.
fn check(rows: &[Row], slowest: Duration) {
    println!("{}", sample::table(rows));
    assert_eq!(rows.len(), 22, "every fault at every moment that it can have");
    for row in rows {
        let what = format!("{:?} at {:?}", row.fault, row.moment);
        assert!(row.wrong.is_empty(), "{what}: {:?}", row.wrong);
        assert!(row.runs > 0 && row.hit == row.runs, "{what}: {} of {} happened", row.hit, row.runs);
        assert_eq!((row.device, row.cpu), (row.runs, 0), "{what}: one fault is mended on the device");
        assert!(row.slowest < slowest, "{what}: {:?}", row.slowest);
    }
}

#[test]
fn the_adapter_mends_a_sample_of_every_fault() {
    if nothing_here() {
        return;
    }
    let workload = Workload::standard();
    assert!(workload.commands().unwrap() >= 200, "{:?}", workload.commands());
    let started = Instant::now();
    let open = |script| FaultyOpener::over_gpu(GpuOpener::default(), script);
    let rows = sample::run(open, &workload, 3, Duration::from_millis(300)).unwrap();
    check(&rows, Duration::from_secs(30));
    // A destroyed device is opened again: otherwise nothing was destroyed.
    for row in rows.iter().filter(|r| r.fault == Fault::Loss) {
        assert_eq!(row.opened, 2 * row.runs, "{:?}", row.moment);
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
}

#[test]
fn without_replay_a_destroyed_device_is_fatal() {
    if nothing_here() {
        return;
    }
    // The control: were the losses above not real, this would succeed.
    let workload = Workload::standard();
    for moment in [Moment::Create, Moment::Submit] {
        let opener = FaultyOpener::over_gpu(GpuOpener::default(), Script::once(Fault::Loss, moment, 2));
        let mut settings = workload.settings();
        settings.replay = false;
        let error = workload.run(&Runner::new(Box::new(opener), settings)).unwrap_err();
        assert!(matches!(error, RunError::Failed { tried: 1, .. }), "{moment:?}: {error}");
    }
}

#[test]
fn the_dummy_mends_every_fault_at_every_event() {
    let workload = Workload::small();
    assert!(workload.commands().unwrap() >= 200, "{:?}", workload.commands());
    let dummy = || DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let open = |script| FaultyOpener::over(dummy(), script);
    let rows = sample::run(open, &workload, u64::MAX, Duration::from_millis(5)).unwrap();
    check(&rows, Duration::from_secs(30));
    assert!(rows.iter().all(|row| row.runs == row.of), "every event");
}

#[test]
fn a_hang_ends_at_the_deadline() {
    let script = Script::once(Fault::Hang, Moment::Wait, 0);
    let dummy = DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let workload = Workload::standard();
    let mut settings = workload.settings();
    settings.deadline = Duration::from_millis(150);
    let runner = Runner::new(Box::new(FaultyOpener::over(dummy, script)), settings);
    let started = Instant::now();
    let ran = workload.run(&runner).unwrap();
    assert_eq!(ran.outputs, workload.expected().unwrap());
    assert!(started.elapsed() >= Duration::from_millis(150), "{:?}", started.elapsed());
}
