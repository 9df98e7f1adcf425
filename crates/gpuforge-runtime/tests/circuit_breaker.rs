//! Circuit breaker: a device that fails repeatedly is not used during the cool-down, and used again afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use gpuforge_runtime::{
    engine::dummy::{DummyFault, DummyOpener, DummyScript},
    recovery::{BREAKER_FAILURES, BREAKER_PAUSE, MAX_REBUILDS},
    runner::{ExecutedOn, Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::{fault_matrix::runner_settings, plans};

const PAUSE: Duration = Duration::from_millis(400);

fn executed_on(runner: &Runner) -> ExecutedOn {
    let (plan, expected) = plans::chain(8, 4).unwrap();
    let outcome = runner.run(plan).unwrap();
    assert_eq!(outcome.chunks[0].outputs, expected, "wherever it was executed");
    outcome.chunks[0].executed_on
}

#[test]
fn three_failures_open_the_breaker_and_success_after_cool_down_closes_it() {
    // Every device is lost at its first command until enough chunks have failed to open the breaker.
    let devices = u64::from(BREAKER_FAILURES * (MAX_REBUILDS + 1));
    let script =
        DummyScript { once: (0..devices).map(|event| (DummyFault::Loss, event)).collect(), from: None };
    let opener = DummyOpener::new(Bytes::gib(1), script);
    let settings = RunnerSettings { breaker_pause: PAUSE, ..runner_settings(true) };
    let runner = Runner::new(Box::new(opener.clone()), settings);
    for chunk in 0..BREAKER_FAILURES {
        assert_eq!(executed_on(&runner), ExecutedOn::Cpu, "chunk {chunk}");
    }
    let opened_at = Instant::now();
    assert_eq!(opener.opened(), devices);

    // Steady load during the cool-down neither uses the device nor extends the cool-down.
    let mut rejected = 0;
    while opened_at.elapsed() < PAUSE / 2 {
        let ran = executed_on(&runner);
        if opened_at.elapsed() < PAUSE / 2 {
            assert_eq!((ran, opener.opened()), (ExecutedOn::Cpu, devices));
            rejected += 1;
        }
        sleep(Duration::from_millis(5));
    }
    assert!(rejected > BREAKER_FAILURES, "{rejected}");

    sleep(PAUSE.saturating_sub(opened_at.elapsed()));
    assert_eq!(
        (executed_on(&runner), opener.opened()),
        (ExecutedOn::Device, devices + 1),
        "used again after the cool-down"
    );
    for _ in 0..5 {
        assert_eq!((executed_on(&runner), opener.opened()), (ExecutedOn::Device, devices + 1), "closed");
    }
}

#[test]
fn half_open_breaker_reopens_after_one_failure() {
    let opener = DummyOpener::new(Bytes::gib(1), DummyScript::always(DummyFault::Loss));
    let settings = RunnerSettings { breaker_pause: PAUSE, ..runner_settings(true) };
    let runner = Runner::new(Box::new(opener.clone()), settings);
    (0..BREAKER_FAILURES).for_each(|_| assert_eq!(executed_on(&runner), ExecutedOn::Cpu));
    let before = opener.opened();
    sleep(settings.breaker_pause);
    assert_eq!(executed_on(&runner), ExecutedOn::Cpu);
    let again = before + u64::from(MAX_REBUILDS + 1);
    assert_eq!(opener.opened(), again, "one chunk tries it, with its rebuilds");
    assert_eq!((executed_on(&runner), opener.opened()), (ExecutedOn::Cpu, again), "and the next does not");
}

#[test]
fn default_cool_down_is_the_constant() {
    assert_eq!(runner_settings(true).breaker_pause, BREAKER_PAUSE);
    let (plan, _) = plans::chain(8, 4).unwrap();
    let opener = DummyOpener::new(Bytes::gib(1), DummyScript::always(DummyFault::Loss));
    let runner = Runner::new(Box::new(opener), runner_settings(true));
    (0..BREAKER_FAILURES).for_each(|_| assert_eq!(executed_on(&runner), ExecutedOn::Cpu));
    let outcome = runner.run(plan).unwrap();
    assert!(outcome.events[0].error.contains("60s"), "{:?}", outcome.events);
}
