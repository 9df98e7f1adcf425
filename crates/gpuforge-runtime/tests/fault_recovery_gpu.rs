//! Fault recovery on a real adapter: sampled events, with the device really destroyed before and after submitting, before
//! waiting and between two plans. Skipped without an adapter.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code fails loudly and prints its tables"
)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_runtime::{
    engine::{
        EngineError, Health,
        dummy::{DummyOpener, DummyScript},
        gpu::{AdapterChoice, GpuEngine, GpuOpener},
    },
    plan::Plan,
    runner::{RunError, Runner},
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::{
    adapter, conformance,
    fault_injection::FaultyOpener,
    fault_script::{Fault, FaultScript, InjectionPoint},
    fault_sweep::{self, FaultSweepRow},
    kernels, plans,
    workload::Workload,
};

/// True when this machine has no adapter.
fn no_adapter() -> bool {
    adapter::open_or_skip(&GpuOpener::default()).is_none()
}

/// Every result right, every fault injected, every run within its time.
fn check(rows: &[FaultSweepRow], slowest: Duration) {
    println!("{}", fault_sweep::table(rows));
    assert_eq!(rows.len(), 22, "every fault at every meaningful injection point");
    for row in rows {
        let what = format!("{:?} at {:?}", row.fault, row.point);
        assert!(row.wrong.is_empty(), "{what}: {:?}", row.wrong);
        assert!(row.runs > 0 && row.hit == row.runs, "{what}: {} of {} injected", row.hit, row.runs);
        assert_eq!((row.device, row.cpu), (row.runs, 0), "{what}: one fault is recovered on the device");
        assert!(row.slowest < slowest, "{what}: {:?}", row.slowest);
    }
}

#[test]
fn adapter_recovers_from_every_fault_at_sampled_events() {
    if no_adapter() {
        return;
    }
    let workload = Workload::standard();
    assert!(workload.commands().unwrap() >= 200, "{:?}", workload.commands());
    let started = Instant::now();
    let open = |script| FaultyOpener::over_gpu(GpuOpener::default(), script);
    let rows = fault_sweep::run(open, &workload, 3, Duration::from_millis(300)).unwrap();
    check(&rows, Duration::from_secs(30));
    // A destroyed device is reopened: otherwise nothing was destroyed.
    for row in rows.iter().filter(|r| r.fault == Fault::Loss) {
        assert_eq!(row.opened, 2 * row.runs, "{:?}", row.point);
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
}

#[test]
fn without_replay_a_destroyed_device_is_fatal() {
    if no_adapter() {
        return;
    }
    // Control experiment: were the device losses above not real, this would succeed.
    let workload = Workload::standard();
    for point in [InjectionPoint::Create, InjectionPoint::Submit] {
        let opener = FaultyOpener::over_gpu(GpuOpener::default(), FaultScript::once(Fault::Loss, point, 2));
        let mut settings = workload.settings();
        settings.replay = false;
        let error = workload.run(&Runner::new(Box::new(opener), settings)).unwrap_err();
        assert!(matches!(error, RunError::Failed { tried: 1, .. }), "{point:?}: {error}");
    }
}

#[test]
fn device_lost_during_a_job_is_reported_to_all_callers() {
    if no_adapter() {
        return;
    }
    let gpu = Arc::new(GpuEngine::open(AdapterChoice::Best).unwrap());
    let session = Session::new(gpu.clone(), conformance::settings(Bytes::gib(1)));
    let n = 1 << 18;
    let mut plan = Plan::new("long");
    let a = plan.upload(plans::bytes(&plans::numbers(n, 9)), "long in").unwrap();
    let out = plan.slot(Bytes(u64::from(n) * 4), "long out");
    plan.dispatch(&kernels::spin(), &[a, out], &[n, 10_000], kernels::groups(n)).unwrap();
    plan.download(out).unwrap();
    std::thread::scope(|scope| {
        let long = scope.spawn(|| session.run(&Arc::new(plan), conformance::DEADLINE));
        std::thread::sleep(Duration::from_millis(60));
        gpu.lose();
        // The driver reports the loss only when its last job is over. Earlier callers must not get a validation error:
        // that is never retried, a device loss is.
        for _ in 0..20 {
            let (plan, _) = plans::chain(1000, 6).unwrap();
            let error = session.run(&Arc::new(plan), conformance::DEADLINE).unwrap_err();
            assert!(matches!(error, EngineError::DeviceLost { .. }), "{error}");
        }
        // It completed before the loss, or is lost with the device.
        let long = long.join().unwrap();
        assert!(matches!(long, Ok(_) | Err(EngineError::DeviceLost { .. })), "{long:?}");
    });
    assert_eq!(session.health(), Health::Lost);
    assert_eq!(session.memory().stats().users.live, Bytes::ZERO);
}

#[test]
fn dummy_recovers_from_every_fault_at_every_event() {
    let workload = Workload::small();
    assert!(workload.commands().unwrap() >= 200, "{:?}", workload.commands());
    let dummy = || DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let open = |script| FaultyOpener::over(dummy(), script);
    let rows = fault_sweep::run(open, &workload, u64::MAX, Duration::from_millis(5)).unwrap();
    check(&rows, Duration::from_secs(30));
    assert!(rows.iter().all(|row| row.runs == row.of), "every event");
}

#[test]
fn hang_ends_at_the_deadline() {
    let script = FaultScript::once(Fault::Hang, InjectionPoint::Wait, 0);
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
