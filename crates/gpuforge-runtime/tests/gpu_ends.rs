//! What happens at the ends of a device: hangs, closing, exits, memory that is really gone?
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
    engine::{
        Engine as _, EngineError, Health,
        gpu::{AdapterChoice, Gpu, GpuOpener},
    },
    memory::{AllocError, BlockClass},
    plan::Plan,
    units::Bytes,
};
use gpuforge_testkit::{kernels, plans};

mod gpu_common;
use gpu_common::{DEADLINE, assert_ended_well, check, child, is_child, open, session};

/// A second of work or more, in few dispatches.
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
fn whoever_waits_learns_of_a_hang_that_another_found() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let session = session(&gpu);
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| {
            let started = Instant::now();
            (session.run(&long(), Duration::from_secs(300)), started.elapsed())
        });
        std::thread::sleep(Duration::from_millis(100));
        let error = session.run(&long(), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, EngineError::Hung { .. }), "{error}");
        let (result, waited) = patient.join().unwrap();
        assert!(matches!(result, Err(EngineError::Hung { .. })), "{result:?}");
        assert!(waited < Duration::from_secs(20), "{waited:?}");
    });
    assert_eq!(gpu.health(), Health::Hung);
    let error = gpu.create(Bytes(64), BlockClass::Storage).unwrap_err();
    assert!(matches!(error, EngineError::Hung { .. }), "{error}");
}

#[test]
fn closing_waits_for_the_driver_and_not_for_ever() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let (plan, expected) = plans::chain(1000, 5).unwrap();
    check(&session(&gpu), plan, &expected, "before");
    let started = Instant::now();
    drop(gpu);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

const EXITS: &str = "a_process_may_end_at_any_moment";

/// What a user's program may do at its end.
fn end(how: &str) {
    let Ok(gpu) = Gpu::open(AdapterChoice::Best) else { return };
    let gpu = Arc::new(gpu);
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
fn a_process_may_end_at_any_moment() {
    if is_child(EXITS) {
        return end(&std::env::var("GPUFORGE_TEST_END").unwrap());
    }
    if open(&GpuOpener::default()).is_none() {
        return;
    }
    for how in ["dropped", "leaked", "exit", "lost", "running"] {
        for _ in 0..4 {
            assert_ended_well(&child(EXITS, &[("GPUFORGE_TEST_END", how)]));
        }
    }
}

#[cfg(target_os = "linux")]
const OOM: &str = "memory_that_is_really_gone_is_an_error_and_work_goes_on";

/// Takes buffers until the system has no address space left, gives them back, and works on.
#[cfg(target_os = "linux")]
fn exhaust() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Some(6 << 30);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
    let Ok(gpu) = Gpu::open(AdapterChoice::Best) else { return println!("skipped: no adapter in 6 GiB") };
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
    check(&session(&Arc::new(gpu)), plan, &expected, "afterwards");
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_is_really_gone_is_an_error_and_work_goes_on() {
    if is_child(OOM) {
        return exhaust();
    }
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    // A card's memory is not bounded by our address space.
    if !gpu.caps().unified_memory {
        return println!("skipped: this adapter has memory of its own");
    }
    drop(gpu);
    let output = child(OOM, &[]);
    assert_ended_well(&output);
    println!("{}", String::from_utf8_lossy(&output.stdout));
}
