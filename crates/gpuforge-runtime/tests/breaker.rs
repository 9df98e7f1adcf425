//! Is a device that keeps failing left alone for the runner's own pause, and asked again afterwards?
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
    engine::dummy::{DummyOpener, Fault, Script},
    recovery::{BREAKER_FAILURES, BREAKER_PAUSE, MOST_REBUILDS},
    runner::{Place, Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::{matrix::runner_settings, plans};

const PAUSE: Duration = Duration::from_millis(400);

fn place(runner: &Runner) -> Place {
    let (plan, expected) = plans::chain(8, 4).unwrap();
    let outcome = runner.run(plan).unwrap();
    assert_eq!(outcome.pieces[0].outputs, expected, "wherever it ran");
    outcome.pieces[0].place
}

#[test]
fn three_failed_pieces_open_it_and_a_good_one_after_the_pause_closes_it() {
    // Every device dies at its first command until the pieces that open the breaker are through.
    let devices = u64::from(BREAKER_FAILURES * (MOST_REBUILDS + 1));
    let script = Script { once: (0..devices).map(|event| (Fault::Loss, event)).collect(), from: None };
    let opener = DummyOpener::new(Bytes::gib(1), script);
    let settings = RunnerSettings { breaker_pause: PAUSE, ..runner_settings(true) };
    let runner = Runner::new(Box::new(opener.clone()), settings);
    for piece in 0..BREAKER_FAILURES {
        assert_eq!(place(&runner), Place::Cpu, "piece {piece}");
    }
    let opened_at = Instant::now();
    assert_eq!(opener.opened(), devices);

    // Steady work during the pause neither asks the device nor makes the pause longer.
    let mut sent_away = 0;
    while opened_at.elapsed() < PAUSE / 2 {
        let ran = place(&runner);
        if opened_at.elapsed() < PAUSE / 2 {
            assert_eq!((ran, opener.opened()), (Place::Cpu, devices));
            sent_away += 1;
        }
        sleep(Duration::from_millis(5));
    }
    assert!(sent_away > BREAKER_FAILURES, "{sent_away}");

    sleep(PAUSE.saturating_sub(opened_at.elapsed()));
    assert_eq!((place(&runner), opener.opened()), (Place::Device, devices + 1), "asked again, and good");
    for _ in 0..5 {
        assert_eq!((place(&runner), opener.opened()), (Place::Device, devices + 1), "closed");
    }
}

#[test]
fn a_device_that_is_still_bad_after_the_pause_is_left_alone_again_at_once() {
    let opener = DummyOpener::new(Bytes::gib(1), Script::always(Fault::Loss));
    let settings = RunnerSettings { breaker_pause: PAUSE, ..runner_settings(true) };
    let runner = Runner::new(Box::new(opener.clone()), settings);
    (0..BREAKER_FAILURES).for_each(|_| assert_eq!(place(&runner), Place::Cpu));
    let before = opener.opened();
    sleep(settings.breaker_pause);
    assert_eq!(place(&runner), Place::Cpu);
    let again = before + u64::from(MOST_REBUILDS + 1);
    assert_eq!(opener.opened(), again, "one piece asks, with its rebuilds");
    assert_eq!((place(&runner), opener.opened()), (Place::Cpu, again), "and the next does not");
}

#[test]
fn the_default_pause_is_the_constant() {
    assert_eq!(runner_settings(true).breaker_pause, BREAKER_PAUSE);
    let (plan, _) = plans::chain(8, 4).unwrap();
    let opener = DummyOpener::new(Bytes::gib(1), Script::always(Fault::Loss));
    let runner = Runner::new(Box::new(opener), runner_settings(true));
    (0..BREAKER_FAILURES).for_each(|_| assert_eq!(place(&runner), Place::Cpu));
    let outcome = runner.run(plan).unwrap();
    assert!(outcome.events[0].error.contains("60s"), "{:?}", outcome.events);
}
