//! Does every fault at every command end in the right result? One run per cell, and a table of what happened.

use std::fmt::Write as _;

use gpuforge_runtime::{
    engine::dummy::{DummyOpener, Fault, Script},
    runner::{Outcome, Place, Runner, RunnerSettings},
    units::Bytes,
};

use crate::{conformance, plans};

/// What a row of the matrix counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Runs.
    pub runs: u64,
    /// Runs in which the fault really happened.
    pub hit: u64,
    /// Results equal to the fault-free run, made on the device.
    pub device: u64,
    /// Results equal to the fault-free run, made by the twins.
    pub cpu: u64,
    /// Wrong results, errors, memory that did not come back: what, and where.
    pub wrong: Vec<String>,
}

/// How the runner behaves in the matrix.
pub fn runner_settings(replay: bool) -> RunnerSettings {
    RunnerSettings {
        deadline: conformance::DEADLINE,
        replay,
        ..RunnerSettings::new(conformance::settings(Bytes::mib(64)))
    }
}

/// Injects `fault` once at every event of a chain, one run each.
pub fn every_index(fault: Fault, replay: bool) -> Result<Row, String> {
    let chain = || plans::chain(33, 70).map_err(|e| e.to_string());
    // A run without faults says how many events there are.
    let (plan, expected) = chain()?;
    let calm = DummyOpener::new(Bytes::gib(1), Script::default());
    let runner = Runner::new(Box::new(calm.clone()), runner_settings(replay));
    runner.run(plan).map_err(|e| format!("without faults: {e}"))?;
    let events = if fault == Fault::Refusal { calm.creations() } else { calm.commands() };
    let mut row = Row::default();
    for at in 0..events {
        row.runs += 1;
        let opener = DummyOpener::new(Bytes::gib(1), Script::once(fault, at));
        let runner = Runner::new(Box::new(opener.clone()), runner_settings(replay));
        match runner.run(chain()?.0) {
            Ok(outcome) => {
                // A refused buffer is mended by the pool below the runner; it shows as one more creation.
                let mended = opener.creations() > calm.creations();
                row.hit += u64::from(mended || !outcome.events.is_empty());
                judge(&mut row, &outcome, &expected, &runner, at);
            }
            Err(error) => row.wrong.push(format!("at {at}: {error}")),
        }
    }
    Ok(row)
}

fn judge(row: &mut Row, outcome: &Outcome, expected: &[Vec<u8>], runner: &Runner, at: u64) {
    let [piece] = outcome.pieces.as_slice() else {
        return row.wrong.push(format!("at {at}: {} pieces", outcome.pieces.len()));
    };
    if piece.outputs != expected {
        return row.wrong.push(format!("at {at}: wrong result after {:?}", outcome.events));
    }
    let left = runner.session().map_or(Bytes::ZERO, |s| s.memory().stats().users.live);
    if left != Bytes::ZERO {
        return row.wrong.push(format!("at {at}: {left} did not come back"));
    }
    match piece.place {
        Place::Device => row.device += 1,
        Place::Cpu => row.cpu += 1,
    }
}

/// The matrix as a table.
pub fn table(rows: &[(Fault, Row)]) -> String {
    let mut out =
        format!("{:<12} {:>6} {:>6} {:>8} {:>6} {:>6}\n", "fault", "runs", "hit", "device", "cpu", "wrong");
    for (fault, row) in rows {
        let name = format!("{fault:?}");
        let Row { runs, hit, device, cpu, wrong } = row;
        let _ = writeln!(out, "{name:<12} {runs:>6} {hit:>6} {device:>8} {cpu:>6} {:>6}", wrong.len());
    }
    out
}
