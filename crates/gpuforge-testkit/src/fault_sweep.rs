//! Fault sweep: every fault at every injection point of any engine, at sampled events; one run per cell and a table.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use gpuforge_runtime::{engine::Health, runner::Runner, units::Bytes};

use crate::{
    fault_injection::FaultyOpener,
    fault_script::{Fault, FaultScript, InjectionPoint, fault_points},
    plans,
    workload::{Workload, WorkloadResult},
};

/// Results of one fault at one injection point.
#[derive(Debug, Clone)]
pub struct FaultSweepRow {
    /// The fault.
    pub fault: Fault,
    /// The injection point.
    pub point: InjectionPoint,
    /// Events of this kind in a run without faults.
    pub of: u64,
    /// Runs, one per sampled event.
    pub runs: u64,
    /// Runs in which the fault was really injected.
    pub hit: u64,
    /// Devices opened in all runs.
    pub opened: u64,
    /// Runs executed on the device entirely.
    pub device: u64,
    /// Runs with a chunk that fell back to the CPU.
    pub cpu: u64,
    /// The slowest run.
    pub slowest: Duration,
    /// Wrong results, errors and leaks: what, and at which event.
    pub wrong: Vec<String>,
}

/// At most `max` evenly spaced numbers below `n`, including the first and the last.
pub fn evenly_spaced(n: u64, max: u64) -> Vec<u64> {
    let count = n.min(max.max(1));
    let mut picked: Vec<u64> =
        (0..count).map(|i| i * n.saturating_sub(1) / count.saturating_sub(1).max(1)).collect();
    picked.dedup();
    picked
}

/// Every fault at every injection point, each at up to `max_events` events. `patience` is what a hang costs.
pub fn run(
    open: impl Fn(FaultScript) -> FaultyOpener,
    workload: &Workload,
    max_events: u64,
    patience: Duration,
) -> Result<Vec<FaultSweepRow>, String> {
    let expected = workload.expected()?;
    let fault_free = open(FaultScript::default());
    let reference = workload
        .run(&Runner::new(Box::new(fault_free.clone()), workload.settings()))
        .map_err(|e| format!("without faults: {e}"))?;
    if reference.outputs != expected || reference.cpu > 0 {
        return Err("the run without faults is wrong already, or did not run on the device".to_owned());
    }
    let mut rows = Vec::new();
    for (fault, point) in fault_points() {
        let of = fault_free.events(point);
        let (runs, hit, opened, device, cpu) = (0, 0, 0, 0, 0);
        let slowest = Duration::ZERO;
        let mut row =
            FaultSweepRow { fault, point, of, runs, hit, opened, device, cpu, slowest, wrong: Vec::new() };
        for nth in evenly_spaced(of, max_events) {
            let script = FaultScript { patience, ..FaultScript::once(fault, point, nth) };
            cell(&mut row, &open(script), workload, &reference, nth);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn cell(
    row: &mut FaultSweepRow,
    opener: &FaultyOpener,
    workload: &Workload,
    reference: &WorkloadResult,
    nth: u64,
) {
    let started = Instant::now();
    let runner = Runner::new(Box::new(opener.clone()), workload.settings());
    let result = workload.run(&runner).map_err(|e| e.to_string()).and_then(|ran| {
        row.device += u64::from(ran.cpu == 0);
        row.cpu += u64::from(ran.cpu > 0);
        check(&runner, &ran, reference)
    });
    row.runs += 1;
    row.hit += u64::from(opener.injected() > 0);
    row.opened += opener.opened();
    row.slowest = row.slowest.max(started.elapsed());
    row.wrong.extend(result.err().map(|why| format!("at {nth}: {why}")));
}

/// Bit-identical outputs, no memory held, and a usable device.
fn check(runner: &Runner, ran: &WorkloadResult, reference: &WorkloadResult) -> Result<(), String> {
    if let Some(at) = ran.outputs.iter().zip(&reference.outputs).position(|(a, b)| a != b) {
        return Err(format!("output {at} is wrong after {} recovery steps", ran.events));
    }
    if ran.outputs.len() != reference.outputs.len() {
        return Err(format!("{} outputs of {}", ran.outputs.len(), reference.outputs.len()));
    }
    // One more plan: a fault after the last wait leaves a dead device behind, which the next run must not notice.
    let (plan, expected) = plans::chain(8, 2).map_err(|e| e.to_string())?;
    let outcome = runner.run(plan).map_err(|e| format!("afterwards: {e}"))?;
    if outcome.chunks.first().map(|p| &p.outputs) != Some(&expected) {
        return Err("the next plan is wrong".to_owned());
    }
    let session = runner.session().ok_or("no device is open at the end")?;
    let (health, stats) = (session.health(), session.memory().stats());
    if health != Health::Good {
        return Err(format!("the last device is {health:?}"));
    }
    if stats.users.live != Bytes::ZERO || stats.users.live_blocks != 0 {
        return Err(format!("{} in {} blocks were not freed", stats.users.live, stats.users.live_blocks));
    }
    Ok(())
}

/// The rows as a table.
pub fn table(rows: &[FaultSweepRow]) -> String {
    let mut out = format!(
        "{:<12} {:<10} {:>6} {:>6} {:>6} {:>7} {:>7} {:>5} {:>6} {:>9}\n",
        "fault", "at", "events", "runs", "hit", "opened", "device", "cpu", "wrong", "slowest"
    );
    for row in rows {
        let FaultSweepRow { of, runs, hit, opened, device, cpu, slowest, wrong, .. } = row;
        let (fault, point) = (format!("{:?}", row.fault), format!("{:?}", row.point));
        let _ = writeln!(
            out,
            "{fault:<12} {point:<10} {of:>6} {runs:>6} {hit:>6} {opened:>7} {device:>7} {cpu:>5} {:>6} {:>6} ms",
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
    fn sample_includes_first_and_last() {
        assert_eq!(evenly_spaced(0, 3), Vec::<u64>::new());
        assert_eq!(evenly_spaced(1, 3), [0]);
        assert_eq!(evenly_spaced(2, 3), [0, 1]);
        assert_eq!(evenly_spaced(9, 3), [0, 4, 8]);
        assert_eq!(evenly_spaced(5, 100), [0, 1, 2, 3, 4]);
        assert_eq!(evenly_spaced(5, 1), [0]);
    }
}
