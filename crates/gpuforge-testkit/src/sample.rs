//! Does a fault at any event of any engine end in the right result? One run per cell, and a table of what happened.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use gpuforge_runtime::{engine::Health, runner::Runner, units::Bytes};

use crate::{
    faulty::FaultyOpener,
    plans,
    script::{Fault, Moment, Script, kinds},
    workload::{Ran, Workload},
};

/// What one kind of fault at one kind of event came to.
#[derive(Debug, Clone)]
pub struct Row {
    /// What went wrong.
    pub fault: Fault,
    /// At which kind of event.
    pub moment: Moment,
    /// The events, of so many in a run without faults.
    pub of: u64,
    /// Runs, one per event tried.
    pub runs: u64,
    /// Runs in which the fault really happened.
    pub hit: u64,
    /// Devices opened, all runs together.
    pub opened: u64,
    /// Runs done on the device to the last piece.
    pub device: u64,
    /// Runs with a piece done by the twins.
    pub cpu: u64,
    /// The slowest run.
    pub slowest: Duration,
    /// Wrong results, errors, memory that did not come back: what, and where.
    pub wrong: Vec<String>,
}

/// At most `most` of the numbers below `n`, with the first and the last among them.
pub fn spread(n: u64, most: u64) -> Vec<u64> {
    let count = n.min(most.max(1));
    let mut picked: Vec<u64> =
        (0..count).map(|i| i * n.saturating_sub(1) / count.saturating_sub(1).max(1)).collect();
    picked.dedup();
    picked
}

/// Every kind of fault, each at up to `most` events. `patience` is what a hang costs.
pub fn run(
    open: impl Fn(Script) -> FaultyOpener,
    workload: &Workload,
    most: u64,
    patience: Duration,
) -> Result<Vec<Row>, String> {
    let expected = workload.expected()?;
    let calm = open(Script::default());
    let reference = workload
        .run(&Runner::new(Box::new(calm.clone()), workload.settings()))
        .map_err(|e| format!("without faults: {e}"))?;
    if reference.outputs != expected || reference.cpu > 0 {
        return Err("the run without faults is wrong already, or was not made on the device".to_owned());
    }
    let mut rows = Vec::new();
    for (fault, moment) in kinds() {
        let of = calm.events(moment);
        let (runs, hit, opened, device, cpu) = (0, 0, 0, 0, 0);
        let slowest = Duration::ZERO;
        let mut row = Row { fault, moment, of, runs, hit, opened, device, cpu, slowest, wrong: Vec::new() };
        for nth in spread(of, most) {
            let script = Script { patience, ..Script::once(fault, moment, nth) };
            cell(&mut row, &open(script), workload, &reference, nth);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn cell(row: &mut Row, opener: &FaultyOpener, workload: &Workload, reference: &Ran, nth: u64) {
    let started = Instant::now();
    let runner = Runner::new(Box::new(opener.clone()), workload.settings());
    let verdict = workload.run(&runner).map_err(|e| e.to_string()).and_then(|ran| {
        row.device += u64::from(ran.cpu == 0);
        row.cpu += u64::from(ran.cpu > 0);
        judge(&runner, &ran, reference)
    });
    row.runs += 1;
    row.hit += u64::from(opener.injected() > 0);
    row.opened += opener.opened();
    row.slowest = row.slowest.max(started.elapsed());
    row.wrong.extend(verdict.err().map(|why| format!("at {nth}: {why}")));
}

/// Bit for bit the same, nothing held, and a device that works.
fn judge(runner: &Runner, ran: &Ran, reference: &Ran) -> Result<(), String> {
    if let Some(at) = ran.outputs.iter().zip(&reference.outputs).position(|(a, b)| a != b) {
        return Err(format!("output {at} is wrong after {} steps", ran.events));
    }
    if ran.outputs.len() != reference.outputs.len() {
        return Err(format!("{} outputs of {}", ran.outputs.len(), reference.outputs.len()));
    }
    // One more plan: a fault after the last wait leaves a dead device behind, which the next user must not notice.
    let (plan, expected) = plans::chain(8, 2).map_err(|e| e.to_string())?;
    let outcome = runner.run(plan).map_err(|e| format!("afterwards: {e}"))?;
    if outcome.pieces.first().map(|p| &p.outputs) != Some(&expected) {
        return Err("the next plan is wrong".to_owned());
    }
    let session = runner.session().ok_or("no device is open at the end")?;
    let (health, stats) = (session.health(), session.memory().stats());
    if health != Health::Good {
        return Err(format!("the last device is {health:?}"));
    }
    if stats.users.live != Bytes::ZERO || stats.users.live_blocks != 0 {
        return Err(format!("{} in {} blocks did not come back", stats.users.live, stats.users.live_blocks));
    }
    Ok(())
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut out = format!(
        "{:<12} {:<10} {:>6} {:>6} {:>6} {:>7} {:>7} {:>5} {:>6} {:>9}\n",
        "fault", "at", "events", "runs", "hit", "opened", "device", "cpu", "wrong", "slowest"
    );
    for row in rows {
        let Row { of, runs, hit, opened, device, cpu, slowest, wrong, .. } = row;
        let (fault, moment) = (format!("{:?}", row.fault), format!("{:?}", row.moment));
        let _ = writeln!(
            out,
            "{fault:<12} {moment:<10} {of:>6} {runs:>6} {hit:>6} {opened:>7} {device:>7} {cpu:>5} {:>6} {:>6} ms",
            wrong.len(),
            slowest.as_millis()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends() {
        assert_eq!(spread(0, 3), Vec::<u64>::new());
        assert_eq!(spread(1, 3), [0]);
        assert_eq!(spread(2, 3), [0, 1]);
        assert_eq!(spread(9, 3), [0, 4, 8]);
        assert_eq!(spread(5, 100), [0, 1, 2, 3, 4]);
        assert_eq!(spread(5, 1), [0]);
    }
}
