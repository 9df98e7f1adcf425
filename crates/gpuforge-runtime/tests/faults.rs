//! Does work get done whatever fails? Every fault at every command, and devices that cannot be mended.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use gpuforge_runtime::{
    engine::dummy::{DummyOpener, Fault, Script},
    memory::Pressure,
    recovery::Step,
    runner::{Place, RunError, Runner},
    units::Bytes,
};
use gpuforge_testkit::{
    conformance,
    matrix::{every_index, runner_settings, table},
    plans,
};

#[test]
fn every_fault_at_every_command_ends_in_the_right_result() {
    let rows: Vec<_> = Fault::ALL.iter().map(|fault| (*fault, every_index(*fault, true).unwrap())).collect();
    println!("{}", table(&rows));
    for (fault, row) in &rows {
        assert!(row.wrong.is_empty(), "{fault:?}: {:?}", row.wrong);
        assert_eq!(row.device + row.cpu, row.runs, "{fault:?}");
        // Only downloads can come back short; every other fault happens wherever it is put.
        assert!(row.hit == row.runs || *fault == Fault::ShortRead && row.hit > 0, "{fault:?}: {row:?}");
        assert!(row.runs >= if *fault == Fault::Refusal { 3 } else { 200 }, "{fault:?}: {} runs", row.runs);
        assert_eq!(row.cpu, 0, "{fault:?}: one fault is mended on the device");
    }
}

#[test]
fn without_replay_the_same_faults_are_fatal() {
    for fault in [Fault::Loss, Fault::Hang, Fault::SilentLoss] {
        let row = every_index(fault, false).unwrap();
        assert_eq!(row.wrong.len() as u64, row.runs, "{fault:?}: replay is what saves us");
    }
}

#[test]
fn a_lost_command_shows_as_a_wrong_result() {
    // The control of the control: the dummy really computes, so that trusting a silent loss gives wrong numbers.
    use gpuforge_runtime::engine::{Job, Opener as _};
    let (plan, expected) = plans::chain(33, 70).unwrap();
    let engine = DummyOpener::new(Bytes::gib(1), Script::once(Fault::SilentLoss, 100)).open().unwrap();
    let create = |s: &gpuforge_runtime::plan::SlotSpec| {
        engine.create(s.size, gpuforge_runtime::memory::BlockClass::Storage)
    };
    let blocks = plan.slots().iter().map(|s| create(s).unwrap()).collect();
    let ticket = engine.submit(Job { plan: plan.into(), blocks }).unwrap();
    let done = engine.wait(ticket, conformance::DEADLINE).unwrap();
    assert_ne!(done.outputs, expected);
}

#[test]
fn a_device_that_cannot_be_mended_leaves_the_work_to_the_processor() {
    for fault in Fault::ALL {
        let (plan, expected) = plans::chain(33, 70).unwrap();
        let opener = DummyOpener::new(Bytes::gib(1), Script::always(fault));
        let runner = Runner::new(Box::new(opener.clone()), runner_settings(true));
        let outcome = runner.run(plan).unwrap();
        assert_eq!(
            (outcome.pieces[0].place, &outcome.pieces[0].outputs),
            (Place::Cpu, &expected),
            "{fault:?}"
        );
        assert!(opener.opened() <= 4, "{fault:?}: {} devices", opener.opened());
        assert_eq!(outcome.events.last().unwrap().step, Step::Cpu);
    }
}

#[test]
fn without_the_processor_it_is_an_error_that_says_why() {
    let (plan, _) = plans::chain(33, 10).unwrap();
    let mut settings = runner_settings(true);
    settings.cpu_fallback = false;
    let runner =
        Runner::new(Box::new(DummyOpener::new(Bytes::gib(1), Script::always(Fault::Loss))), settings);
    let error = runner.run(plan).unwrap_err();
    assert!(matches!(error, RunError::Failed { tried: 4, .. }), "{error}");
}

#[test]
fn a_bad_device_is_not_tried_for_ever() {
    let opener = DummyOpener::new(Bytes::gib(1), Script::always(Fault::Loss));
    let runner = Runner::new(Box::new(opener.clone()), runner_settings(true));
    for _ in 0..10 {
        let (plan, expected) = plans::chain(8, 4).unwrap();
        assert_eq!(runner.run(plan).unwrap().pieces[0].outputs, expected);
    }
    assert_eq!(opener.opened(), 12, "three pieces of work with four devices each, then the breaker is open");
}

#[test]
fn work_three_times_larger_than_the_limit_is_split_and_stays_below_it() {
    let items = plans::Items { items: 48, words: 16 * 1024 };
    let all = gpuforge_runtime::runner::Batch::record(&items, 0..48).unwrap().cost().peak;
    let limit = Bytes(all.0 / 3);
    let mut settings = runner_settings(true);
    settings.memory = conformance::settings(limit);
    let runner = Runner::new(Box::new(DummyOpener::new(Bytes::gib(1), Script::default())), settings);
    let outcome = runner.run_batch(&items).unwrap();
    assert!(
        outcome.pieces.len() >= 4 && outcome.pieces.iter().all(|p| p.place == Place::Device),
        "{}",
        outcome.pieces.len()
    );
    for piece in &outcome.pieces {
        for (i, output) in piece.items.clone().zip(&piece.outputs) {
            assert_eq!(output, &items.expected(i), "item {i}");
        }
    }
    let covered: Vec<usize> = outcome.pieces.iter().flat_map(|p| p.items.clone()).collect();
    assert_eq!(covered, (0..48).collect::<Vec<_>>());
    let session = runner.session().unwrap();
    let stats = session.memory().stats();
    assert!(stats.device.peak <= limit, "{} of {limit}", stats.device.peak);
    assert_eq!(stats.users.live, Bytes::ZERO);
    let _: Pressure = session.memory().pressure();
}

#[test]
fn the_dummy_engine_conforms() {
    let wrong = conformance::run(&DummyOpener::new(Bytes::gib(1), Script::default()));
    assert_eq!(wrong, Vec::<String>::new());
}
