//! Fault recovery on the dummy device: every fault at every command gives the right result, or falls back to the CPU.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use gpuforge_runtime::{
    engine::dummy::{DummyFault, DummyOpener, DummyScript},
    memory::Pressure,
    recovery::RecoveryStep,
    runner::{ExecutedOn, RunError, Runner},
    units::Bytes,
};
use gpuforge_testkit::{
    conformance,
    fault_matrix::{inject_at_every_event, runner_settings, table},
    plans,
};

#[test]
fn every_fault_at_every_command_gives_the_right_result() {
    let rows: Vec<_> =
        DummyFault::ALL.iter().map(|fault| (*fault, inject_at_every_event(*fault, true).unwrap())).collect();
    println!("{}", table(&rows));
    for (fault, row) in &rows {
        assert!(row.wrong.is_empty(), "{fault:?}: {:?}", row.wrong);
        assert_eq!(row.device + row.cpu, row.runs, "{fault:?}");
        // Only downloads can be short; every other fault happens at any event.
        assert!(row.hit == row.runs || *fault == DummyFault::ShortRead && row.hit > 0, "{fault:?}: {row:?}");
        assert!(
            row.runs >= if *fault == DummyFault::AllocFailure { 3 } else { 200 },
            "{fault:?}: {} runs",
            row.runs
        );
        assert_eq!(row.cpu, 0, "{fault:?}: one fault is recovered on the device");
    }
}

#[test]
fn without_replay_device_loss_is_fatal() {
    for fault in [DummyFault::Loss, DummyFault::Hang, DummyFault::SilentLoss] {
        let row = inject_at_every_event(fault, false).unwrap();
        assert_eq!(row.wrong.len() as u64, row.runs, "{fault:?}: recovery depends on replay");
    }
}

#[test]
fn silent_device_loss_shows_as_a_wrong_result() {
    // Control experiment: the dummy really computes, so that trusting a silent device loss gives wrong results.
    use gpuforge_runtime::engine::{Job, Opener as _};
    let (plan, expected) = plans::chain(33, 70).unwrap();
    let engine =
        DummyOpener::new(Bytes::gib(1), DummyScript::once(DummyFault::SilentLoss, 100)).open().unwrap();
    let create = |s: &gpuforge_runtime::plan::SlotSpec| {
        engine.create(s.size, gpuforge_runtime::memory::BlockClass::Storage)
    };
    let blocks = plan.slots().iter().map(|s| create(s).unwrap()).collect();
    let ticket = engine.submit(Job { plan: plan.into(), blocks }).unwrap();
    let done = engine.wait(ticket, conformance::DEADLINE).unwrap();
    assert_ne!(done.outputs, expected);
}

#[test]
fn permanently_broken_device_falls_back_to_cpu() {
    for fault in DummyFault::ALL {
        let (plan, expected) = plans::chain(33, 70).unwrap();
        let opener = DummyOpener::new(Bytes::gib(1), DummyScript::always(fault));
        let runner = Runner::new(Box::new(opener.clone()), runner_settings(true));
        let outcome = runner.run(plan).unwrap();
        assert_eq!(
            (outcome.chunks[0].executed_on, &outcome.chunks[0].outputs),
            (ExecutedOn::Cpu, &expected),
            "{fault:?}"
        );
        assert!(opener.opened() <= 4, "{fault:?}: {} devices", opener.opened());
        assert_eq!(outcome.events.last().unwrap().step, RecoveryStep::CpuFallback);
    }
}

#[test]
fn without_cpu_fallback_the_error_is_returned() {
    let (plan, _) = plans::chain(33, 10).unwrap();
    let mut settings = runner_settings(true);
    settings.cpu_fallback = false;
    let runner = Runner::new(
        Box::new(DummyOpener::new(Bytes::gib(1), DummyScript::always(DummyFault::Loss))),
        settings,
    );
    let error = runner.run(plan).unwrap_err();
    assert!(matches!(error, RunError::Failed { tried: 4, .. }), "{error}");
}

#[test]
fn circuit_breaker_stops_retries_of_a_bad_device() {
    let opener = DummyOpener::new(Bytes::gib(1), DummyScript::always(DummyFault::Loss));
    let runner = Runner::new(Box::new(opener.clone()), runner_settings(true));
    for _ in 0..10 {
        let (plan, expected) = plans::chain(8, 4).unwrap();
        assert_eq!(runner.run(plan).unwrap().chunks[0].outputs, expected);
    }
    assert_eq!(opener.opened(), 12, "three chunks with four devices each, then the breaker is open");
}

#[test]
fn batch_three_times_the_memory_limit_is_split_and_stays_below_it() {
    let items = plans::ItemBatch { items: 48, words: 16 * 1024 };
    let all = gpuforge_runtime::runner::SplittableBatch::record(&items, 0..48).unwrap().cost().peak;
    let limit = Bytes(all.0 / 3);
    let mut settings = runner_settings(true);
    settings.memory = conformance::settings(limit);
    let runner = Runner::new(Box::new(DummyOpener::new(Bytes::gib(1), DummyScript::default())), settings);
    let outcome = runner.run_batch(&items).unwrap();
    assert!(
        outcome.chunks.len() >= 4 && outcome.chunks.iter().all(|p| p.executed_on == ExecutedOn::Device),
        "{}",
        outcome.chunks.len()
    );
    for chunk in &outcome.chunks {
        for (i, output) in chunk.items.clone().zip(&chunk.outputs) {
            assert_eq!(output, &items.expected(i), "item {i}");
        }
    }
    let covered: Vec<usize> = outcome.chunks.iter().flat_map(|p| p.items.clone()).collect();
    assert_eq!(covered, (0..48).collect::<Vec<_>>());
    let session = runner.session().unwrap();
    let stats = session.memory().stats();
    assert!(stats.device.peak <= limit, "{} of {limit}", stats.device.peak);
    assert_eq!(stats.users.live, Bytes::ZERO);
    let _: Pressure = session.memory().pressure();
}

#[test]
fn dummy_engine_conforms() {
    let wrong = conformance::run(&DummyOpener::new(Bytes::gib(1), DummyScript::default()));
    assert_eq!(wrong, Vec::<String>::new());
}
