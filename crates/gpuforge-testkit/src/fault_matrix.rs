//! Fault matrix: every dummy fault at every event of a plan, one run each, and a table of results.

use std::fmt::Write as _;

use gpuforge_runtime::{
    engine::dummy::{DummyFault, DummyOpener, DummyScript},
    runner::{ExecutedOn, RunOutcome, Runner, RunnerSettings},
    units::Bytes,
};

use crate::{conformance, plans};

/// Results of one fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultMatrixRow {
    /// Runs.
    pub runs: u64,
    /// Runs in which the fault was really injected.
    pub hit: u64,
    /// Correct results on the device.
    pub device: u64,
    /// Correct results after falling back to the CPU.
    pub cpu: u64,
    /// Wrong results, errors and leaks: what, and at which event.
    pub wrong: Vec<String>,
}

/// Runner settings of the matrix.
pub fn runner_settings(replay: bool) -> RunnerSettings {
    RunnerSettings {
        deadline: conformance::DEADLINE,
        replay,
        ..RunnerSettings::new(conformance::settings(Bytes::mib(64)))
    }
}

/// Injects `fault` once at every event of a plan, one run each.
pub fn inject_at_every_event(fault: DummyFault, replay: bool) -> Result<FaultMatrixRow, String> {
    let chain = || plans::chain(33, 70).map_err(|e| e.to_string());
    // A run without faults counts the events.
    let (plan, expected) = chain()?;
    let fault_free = DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let runner = Runner::new(Box::new(fault_free.clone()), runner_settings(replay));
    runner.run(plan).map_err(|e| format!("without faults: {e}"))?;
    let events =
        if fault == DummyFault::AllocFailure { fault_free.creations() } else { fault_free.commands() };
    let mut row = FaultMatrixRow::default();
    for at in 0..events {
        row.runs += 1;
        let opener = DummyOpener::new(Bytes::gib(1), DummyScript::once(fault, at));
        let runner = Runner::new(Box::new(opener.clone()), runner_settings(replay));
        match runner.run(chain()?.0) {
            Ok(outcome) => {
                // A failed allocation is retried by the pool below the runner; it shows as one more creation.
                let retried = opener.creations() > fault_free.creations();
                row.hit += u64::from(retried || !outcome.events.is_empty());
                check(&mut row, &outcome, &expected, &runner, at);
            }
            Err(error) => row.wrong.push(format!("at {at}: {error}")),
        }
    }
    Ok(row)
}

fn check(row: &mut FaultMatrixRow, outcome: &RunOutcome, expected: &[Vec<u8>], runner: &Runner, at: u64) {
    let [chunk] = outcome.chunks.as_slice() else {
        return row.wrong.push(format!("at {at}: {} chunks", outcome.chunks.len()));
    };
    if chunk.outputs != expected {
        return row.wrong.push(format!("at {at}: wrong result after {:?}", outcome.events));
    }
    let left = runner.session().map_or(Bytes::ZERO, |s| s.memory().stats().users.live);
    if left != Bytes::ZERO {
        return row.wrong.push(format!("at {at}: {left} were not freed"));
    }
    match chunk.executed_on {
        ExecutedOn::Device => row.device += 1,
        ExecutedOn::Cpu => row.cpu += 1,
    }
}

/// The matrix as a table.
pub fn table(rows: &[(DummyFault, FaultMatrixRow)]) -> String {
    let mut out =
        format!("{:<12} {:>6} {:>6} {:>8} {:>6} {:>6}\n", "fault", "runs", "hit", "device", "cpu", "wrong");
    for (fault, row) in rows {
        let name = format!("{fault:?}");
        let FaultMatrixRow { runs, hit, device, cpu, wrong } = row;
        let _ = writeln!(out, "{name:<12} {runs:>6} {hit:>6} {device:>8} {cpu:>6} {:>6}", wrong.len());
    }
    out
}
