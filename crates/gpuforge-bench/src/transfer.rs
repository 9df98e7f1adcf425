//! Host-device transfer throughput, beside `memcpy` and a device copy in the same run.
//!
//! Both paths are measured on one adapter: through staging buffers (as on a discrete GPU), and in unified memory. Ours is all
//! of `Session::run`; the bound has no fixed cost.

use std::{hint::black_box, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use gpuforge_runtime::{
    engine::{Opener as _, gpu::GpuOpener},
    memory::{Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    session::Session,
    units::Bytes,
};

use crate::{
    measure::{Sample, median, ms},
    row::Row,
};

const BENCH: &str = "transfer";
const ROUNDS: usize = 101;
const DEADLINE: Duration = Duration::from_secs(60);
/// Copies in the longer of two plans; the difference is the cost of copies without the submission.
const COPIES: usize = 9;
/// Largest acceptable ratio to the bound's time: 0.8 and 0.6 of its speed.
const STAGED_SHARE: f64 = 1.0 / 0.8;
const UNIFIED_SHARE: f64 = 1.0 / 0.6;
const MB: usize = 1_000_000;

pub(crate) fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, sizes, promised) in
        [("10 MB", vec![10 * MB], true), ("10 x 1 MB in one plan", vec![MB; 10], false)]
    {
        let data: Vec<Arc<[u8]>> = sizes.iter().map(|n| pattern(*n)).collect();
        let staged = measure(&data, true)?;
        let case = format!("{name} up and down, staged");
        let bound = "memcpy + device copy, each way";
        rows.push(Row::vs_peer(BENCH, &case, &staged.ours, bound, &staged.bound, Some(STAGED_SHARE)));
        let unified = measure(&data, false)?;
        if unified.unified {
            let case = format!("{name} up and down, one memory");
            let share = promised.then_some(UNIFIED_SHARE);
            rows.push(Row::vs_peer(BENCH, &case, &unified.ours, "memcpy, each way", &unified.bound, share));
        } else {
            eprintln!("transfer: this adapter has its own memory: nothing to measure in place");
        }
    }
    Ok(rows)
}

struct Measured {
    ours: Sample,
    bound: Sample,
    unified: bool,
}

fn pattern(bytes: usize) -> Arc<[u8]> {
    (0..bytes).map(|i| (i * 31 % 251) as u8).collect()
}

/// Ours and its bound, interleaved, so that a disturbance hits both.
fn measure(data: &[Arc<[u8]>], staged: bool) -> Result<Measured> {
    let engine = GpuOpener { staged, ..GpuOpener::default() }.open()?;
    let unified = engine.caps().unified_memory;
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let session = Session::new(engine, memory);
    let round_trip = Arc::new(plan(data)?);
    let (one, many) = (Arc::new(copies(data, 1)?), Arc::new(copies(data, COPIES)?));
    let mut targets: Vec<Vec<u8>> = data.iter().map(|d| vec![1; d.len()]).collect();
    let timed = |plan: &Arc<Plan>| ms(|| Ok(session.run(plan, DEADLINE)?));
    let first = session.run(&round_trip, DEADLINE)?;
    ensure!(first.outputs.iter().zip(data).all(|(got, want)| got == want.as_ref()), "wrong bytes came back");
    let (mut ours, mut memcpy, mut copy) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let moved = timed(&round_trip)?;
        let copied = ms(|| {
            for (to, from) in targets.iter_mut().zip(data) {
                to.copy_from_slice(black_box(from));
            }
            black_box(&targets);
            Ok(())
        })?;
        let device = if staged { (timed(&many)? - timed(&one)?) / (COPIES - 1) as f64 } else { 0.0 };
        // The first round is warm-up.
        if round > 0 {
            ours.push(moved);
            memcpy.push(copied);
            copy.push(device);
        }
    }
    // A difference of two noisy runs may be negative: medians first.
    let device = median(&copy).max(0.0);
    let bound: Vec<f64> = memcpy.iter().map(|copied| 2.0 * (copied + device)).collect();
    Ok(Measured { ours: Sample::of(&ours), bound: Sample::of(&bound), unified })
}

fn plan(data: &[Arc<[u8]>]) -> Result<Plan> {
    let mut plan = Plan::new("round trip");
    let slots = data.iter().map(|d| plan.upload(d.clone(), "transfer")).collect::<Result<Vec<_>, _>>()?;
    for slot in slots {
        plan.download(slot)?;
    }
    Ok(plan)
}

/// The same bytes copied on the device, `n` times one after the other.
fn copies(data: &[Arc<[u8]>], n: usize) -> Result<Plan> {
    let mut plan = Plan::new("copies");
    for d in data {
        let mut slot = plan.upload(d.clone(), "transfer")?;
        for _ in 0..n {
            let next = plan.copy(slot, "transfer")?;
            plan.free(slot)?;
            slot = next;
        }
    }
    let last = plan.upload(vec![0; 8], "end")?;
    plan.download(last)?;
    Ok(plan)
}
