//! Device shutdown: hangs, closing, process exit at any time, and real OOM.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_runtime::{
    engine::{Engine as _, EngineError, Health, gpu::GpuOpener},
    memory::BlockClass,
    plan::Plan,
    units::Bytes,
};
use gpuforge_testkit::{kernels, plans};

mod gpu_common;
use gpu_common::{DEADLINE, assert_success, check, child, is_child, open, session};

/// At least a second of work, in few dispatches.
fn long() -> Arc<Plan> {
    let n = 1 << 20;
    let mut plan = Plan::new("long");
    let mut last = plan.upload(plans::bytes(&plans::numbers(n, 9)), "long a").unwrap();
    for _ in 0..4 {
        let out = plan.slot(Bytes(u64::from(n) * 4), "long out");
        plan.dispatch(&kernels::spin(), &[last, out], &[n, 10_000], kernels::groups(n)).unwrap();
        last = out;
    }
    plan.download(last).unwrap();
    Arc::new(plan)
}

#[test]
fn hang_found_by_one_caller_is_reported_to_all() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let session = session(&gpu);
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| {
            let started = Instant::now();
            (session.run(&long(), Duration::from_secs(300)), started.elapsed())
        });
        std::thread::sleep(Duration::from_millis(100));
        let error = session.run(&long(), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, EngineError::DeviceHung { .. }), "{error}");
        let (result, waited) = patient.join().unwrap();
        assert!(matches!(result, Err(EngineError::DeviceHung { .. })), "{result:?}");
        assert!(waited < Duration::from_secs(20), "{waited:?}");
    });
    assert_eq!(gpu.health(), Health::Hung);
    let error = gpu.create(Bytes(64), BlockClass::Storage).unwrap_err();
    assert!(matches!(error, EngineError::DeviceHung { .. }), "{error}");
}

#[test]
fn closing_waits_for_the_driver_with_a_deadline() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let (plan, expected) = plans::chain(1000, 5).unwrap();
    check(&session(&gpu), plan, &expected, "before");
    let started = Instant::now();
    drop(gpu);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

const EXITS: &str = "process_may_exit_at_any_time";

/// Ways in which a program may exit.
fn exit_while(how: &str) {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let session = session(&gpu);
    let (plan, _) = plans::chain(1000, 5).unwrap();
    session.run(&Arc::new(plan), DEADLINE).unwrap();
    match how {
        "dropped" => drop((session, gpu)),
        "leaked" => std::mem::forget((session, gpu)),
        "exit" => std::process::exit(0),
        "lost" => gpu.lose(),
        "running" => {
            let thread = std::thread::spawn(move || session.run(&long(), Duration::from_secs(60)));
            std::thread::sleep(Duration::from_millis(30));
            std::mem::forget((thread, gpu));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn process_may_exit_at_any_time() {
    if is_child(EXITS) {
        return exit_while(&std::env::var("GPUFORGE_TEST_END").unwrap());
    }
    if open(&GpuOpener::default()).is_none() {
        return;
    }
    for how in ["dropped", "leaked", "exit", "lost", "running"] {
        for _ in 0..4 {
            assert_success(&child(EXITS, &[("GPUFORGE_TEST_END", how)]));
        }
    }
}

#[cfg(target_os = "linux")]
const OOM: &str = "real_oom_is_an_error_and_the_device_stays_usable";

/// Allocates buffers until the address space is exhausted, frees them, and continues to work.
#[cfg(target_os = "linux")]
fn exhaust_memory() {
    use gpuforge_runtime::memory::AllocError;
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Some(6 << 30);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let mut blocks = Vec::new();
    let error = loop {
        match gpu.create(Bytes::mib(100), BlockClass::Storage) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
        assert!(blocks.len() < 200, "20 GB of buffers in 6 GiB of addresses");
    };
    println!("{} buffers, then: {error}", blocks.len());
    assert!(matches!(error, EngineError::Memory(AllocError::OutOfMemory { .. })), "{error}");
    assert_eq!(gpu.health(), Health::Good);
    blocks.into_iter().for_each(|block| gpu.destroy(block));
    let (plan, expected) = plans::chain(10_000, 10).unwrap();
    check(&session(&gpu), plan, &expected, "afterwards");
}

#[cfg(target_os = "linux")]
#[test]
fn real_oom_is_an_error_and_the_device_stays_usable() {
    if is_child(OOM) {
        return exhaust_memory();
    }
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    // The memory of a discrete GPU is not bounded by our address space.
    if !gpu.caps().unified_memory {
        return println!("skipped: this adapter has dedicated memory");
    }
    drop(gpu);
    let output = child(OOM, &[]);
    assert_success(&output);
    println!("{}", String::from_utf8_lossy(&output.stdout));
}
