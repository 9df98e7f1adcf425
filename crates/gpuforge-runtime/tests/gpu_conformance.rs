//! Conformance of the wgpu engine on the adapter of this machine, device loss, hang and device time. Skipped without one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::time::Duration;

use gpuforge_runtime::{
    engine::{
        Engine as _, EngineError, Health, Opener as _,
        gpu::{AdapterChoice, GpuEngine, GpuOpener},
    },
    plan::Plan,
    runner::{ExecutedOn, Runner},
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::{adapter, conformance, fault_matrix::runner_settings, kernels, plans};

/// An open device, unless this machine has no adapter.
fn gpu() -> Option<GpuEngine> {
    adapter::open_or_skip(&GpuOpener::default())
}

#[test]
fn gpu_engine_conforms() {
    let Some(gpu) = gpu() else { return };
    println!("{:?}", gpu.caps());
    drop(gpu);
    assert_eq!(conformance::run(&GpuOpener::default()), Vec::<String>::new());
}

#[test]
fn missing_adapter_is_an_error() {
    let error = GpuOpener { choice: AdapterChoice::Name("voodoo 2".into()), ..GpuOpener::default() }
        .open()
        .err()
        .unwrap();
    assert!(matches!(&error, EngineError::Unavailable { reason } if reason.contains("voodoo 2")), "{error}");
}

#[test]
fn device_lost_is_detected_and_work_continues_on_a_new_device() {
    let Some(engine) = gpu() else { return };
    let engine = std::sync::Arc::new(engine);
    let session = Session::new(engine.clone(), conformance::settings(Bytes::gib(1)));
    let (plan, expected) = plans::chain(1000, 30).unwrap();
    let plan = std::sync::Arc::new(plan);
    assert_eq!(session.run(&plan, conformance::DEADLINE).unwrap().outputs, expected);
    engine.lose();
    let error = session.run(&plan, conformance::DEADLINE).unwrap_err();
    assert!(matches!(error, EngineError::DeviceLost { .. }), "{error}");
    assert_eq!(engine.health(), Health::Lost);
    assert_eq!(session.memory().stats().users.live, Bytes::ZERO);
    let runner = Runner::new(Box::new(GpuOpener::default()), runner_settings(true));
    let (plan, expected) = plans::chain(1000, 30).unwrap();
    let outcome = runner.run(plan).unwrap();
    assert_eq!((outcome.chunks[0].executed_on, &outcome.chunks[0].outputs), (ExecutedOn::Device, &expected));
}

#[test]
fn hung_device_is_abandoned_and_a_new_one_works() {
    let Some(engine) = gpu() else { return };
    // At least a second of work against a deadline of 20 ms counts as a hang.
    let n = 1 << 20;
    let mut plan = Plan::new("long");
    let a = plan.upload(plans::bytes(&plans::numbers(n, 9)), "long a").unwrap();
    let mut last = a;
    for _ in 0..4 {
        let out = plan.slot(Bytes(u64::from(n) * 4), "long out");
        plan.dispatch(&kernels::spin(), &[last, out], &[n, 10_000], kernels::groups(n)).unwrap();
        last = out;
    }
    plan.download(last).unwrap();
    let session = Session::new(std::sync::Arc::new(engine), conformance::settings(Bytes::gib(1)));
    let started = std::time::Instant::now();
    let error = session.run(&std::sync::Arc::new(plan), Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, EngineError::DeviceHung { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(session.health(), Health::Hung);
    drop(session);
    assert!(started.elapsed() < Duration::from_secs(3), "abandoning it does not wait either");
    let fresh = GpuOpener::default().open().unwrap();
    let (plan, expected) = plans::chain(500, 6).unwrap();
    let session = Session::new(fresh, conformance::settings(Bytes::gib(1)));
    assert_eq!(session.run(&std::sync::Arc::new(plan), conformance::DEADLINE).unwrap().outputs, expected);
}

#[test]
fn device_time_is_measured_or_none_never_zero() {
    let Some(engine) = gpu() else { return };
    let timestamps = engine.caps().timestamps;
    let session = Session::new(std::sync::Arc::new(engine), conformance::settings(Bytes::gib(1)));
    let (plan, _) = plans::chain(100_000, 10).unwrap();
    let done = session.run(&std::sync::Arc::new(plan), conformance::DEADLINE).unwrap();
    match done.device_time {
        Some(time) => assert!(timestamps && time > Duration::ZERO && time < conformance::DEADLINE),
        None => println!("skipped: no timestamp queries"),
    }
}
