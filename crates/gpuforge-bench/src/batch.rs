//! Batching: many small operations in one batch, beside one by one, on the device and on the CPU; and the duty cycle limit.

use std::{
    hint::spin_loop,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use gpuforge_ops::{Op, matmul, view::tensor, xor};
use gpuforge_route::{
    BatchOptions, BatchStats, CpuBackend, DeviceBackend, Item, PlacementPolicy, Router, RouterSettings,
    RunOptions, RunOutput,
};
use gpuforge_runtime::{
    engine::gpu::GpuOpener,
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};

use crate::{
    measure::{Sample, iqr, median, ms},
    row::Row,
};

const BENCH: &str = "batch";
const XORS: usize = 1000;
const XOR_BYTES: usize = 100;
const PRODUCTS: usize = 10;
const SIDE: usize = 256;
/// Rounds of slow cases, of fast ones, and of products, whose difference is small relative to their time.
const FEW: usize = 11;
const MANY: usize = 101;
const PRODUCT_ROUNDS: usize = 320;
/// Submissions measured beside the products, and the number of interleaved parts.
const SUBMISSIONS: usize = 400;
const PARTS: usize = 20;
/// Smallest speed-up of a batch on the device.
const DEVICE_GAIN: f64 = 20.0;
/// Smallest fraction of the saved submissions' cost that must be saved.
const SAVED_SHARE: f64 = 0.8;
/// Largest kernel time in a batch, relative to one by one.
const KERNELS_SHARE: f64 = 1.05;
/// On the CPU a batch may not be slower, except for noise.
const CPU_SHARE: f64 = 1.0 / 0.95;
const DUTY: f64 = 0.8;
const DUTY_OFF: f64 = 0.05;
const CPU: usize = 0;
const DEVICE: usize = 1;

pub(crate) fn run() -> Result<Vec<Row>> {
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let runner = Arc::new(Runner::new(Box::new(GpuOpener::default()), RunnerSettings::new(memory)));
    let backend = Arc::new(DeviceBackend::new("device", None, runner.clone()));
    let settings = RouterSettings { explore: false, cpu_fallback: false, ..RouterSettings::default() };
    let router = Router::new(vec![Arc::new(CpuBackend::default()), backend], Vec::new(), settings);
    let (xors, products) = (xors()?, products()?);
    let mut rows = Vec::new();
    match runner.warm() {
        Ok(caps) => {
            eprintln!("batch: on {}", caps.name);
            let BatchTimes { batched, one_by_one, stats, .. } = interleaved(&router, &xors, DEVICE, FEW)?;
            ensure!(stats.dispatches == 1 && stats.submissions == 1, "not one dispatch: {stats:?}");
            let case = format!("{XORS} XORs of {XOR_BYTES} bytes on the device, one dispatch");
            let (ours, peer) = (Sample::of(&batched), Sample::of(&one_by_one));
            rows.push(Row::vs_peer(BENCH, &case, &ours, "one by one", &peer, Some(1.0 / DEVICE_GAIN)));
            rows.extend(saved(&router, &products)?);
        }
        Err(error) => eprintln!("batch: no device: {error}"),
    }
    let small = format!("{XORS} XORs of {XOR_BYTES} bytes on the CPU");
    let large = format!("{PRODUCTS} products {SIDE}x{SIDE} on the CPU");
    for (case, ops) in [(small, &xors), (large, &products)] {
        let times = interleaved(&router, ops, CPU, MANY)?;
        let (ours, peer) = (Sample::of(&times.batched), Sample::of(&times.one_by_one));
        rows.push(Row::vs_peer(BENCH, &case, &ours, "one by one", &peer, Some(CPU_SHARE)));
    }
    rows.push(duty(&router)?);
    Ok(rows)
}

fn xors() -> Result<Vec<Arc<dyn Op>>> {
    let bytes =
        |n: usize, seed: usize| -> Vec<u8> { (0..n).map(|i| ((i + seed) * 31 % 251) as u8).collect() };
    (0..XORS)
        .map(|i| {
            let data = tensor(&bytes(XOR_BYTES, i), &[XOR_BYTES], "data")?;
            Ok(Arc::new(xor(&data, &tensor(&bytes(16, i), &[16], "key")?)) as Arc<dyn Op>)
        })
        .collect()
}

fn products() -> Result<Vec<Arc<dyn Op>>> {
    let numbers = |step: usize| -> Vec<f32> {
        (0..SIDE * SIDE).map(|i| (i * step % 251) as f32 / 125.0 - 1.0).collect()
    };
    (0..PRODUCTS)
        .map(|i| {
            let a = tensor(&numbers(7 + i), &[SIDE, SIDE], "a")?;
            Ok(Arc::new(matmul(&a, &tensor(&numbers(11 + i), &[SIDE, SIDE], "b")?)) as Arc<dyn Op>)
        })
        .collect()
}

/// Times of the same items in a batch and one by one, in milliseconds.
#[derive(Default)]
struct BatchTimes {
    batched: Vec<f64>,
    one_by_one: Vec<f64>,
    /// Saved time outside kernels; empty without device timestamps.
    outside: Vec<f64>,
    /// Kernel time in the batch, and one by one.
    batch_kernels: Vec<f64>,
    alone_kernels: Vec<f64>,
    stats: BatchStats,
}

impl BatchTimes {
    /// Appends further rounds of the same items.
    fn extend(&mut self, more: BatchTimes) {
        self.batched.extend(more.batched);
        self.one_by_one.extend(more.one_by_one);
        self.outside.extend(more.outside);
        self.batch_kernels.extend(more.batch_kernels);
        self.alone_kernels.extend(more.alone_kernels);
        self.stats = more.stats;
    }

    /// Kernel times in the batch and one by one, with device timestamps.
    fn kernels(&self) -> Option<(Sample, Sample)> {
        let there = !self.batch_kernels.is_empty() && !self.alone_kernels.is_empty();
        there.then(|| (Sample::of(&self.batch_kernels), Sample::of(&self.alone_kernels)))
    }
}

/// Interleaved, so that a disturbance hits both.
fn interleaved(router: &Router, ops: &[Arc<dyn Op>], place: usize, rounds: usize) -> Result<BatchTimes> {
    let placement = PlacementPolicy::Only(place);
    let mut times = BatchTimes::default();
    for round in 0..=rounds {
        let mut batch = None;
        let mut run_batch = || {
            ms(|| {
                let options = BatchOptions { placement, ..BatchOptions::default() };
                batch = Some(router.batch(ops.iter().cloned().map(Item::shared), options));
                Ok(())
            })
        };
        let mut alone = Vec::with_capacity(ops.len());
        let mut one_by_one = || {
            ms(|| {
                for op in ops {
                    alone
                        .push(router.run_with(op.as_ref(), RunOptions { placement, keep_on_device: false })?);
                }
                Ok(())
            })
        };
        // The order alternates: the second side finds the caches as the first left them.
        let (batched, single) = if round % 2 == 0 {
            let batched = run_batch()?;
            (batched, one_by_one()?)
        } else {
            let single = one_by_one()?;
            (run_batch()?, single)
        };
        let batch = batch.context("no batch")?;
        let results = batch.results.into_iter().collect::<Result<Vec<RunOutput>, _>>()?;
        // The first round is warm-up and checks the results.
        if round > 0 {
            times.batched.push(batched);
            times.one_by_one.push(single);
            let kernels = |runs: &[RunOutput]| -> Option<f64> {
                runs.iter().map(|r| Some(r.report().device_time?.as_secs_f64() * 1e3)).sum()
            };
            let outside = kernels(&alone).zip(kernels(&results)).map(|(s, b)| (single - s) - (batched - b));
            times.outside.extend(outside);
            times.alone_kernels.extend(kernels(&alone));
            times.batch_kernels.extend(kernels(&results));
        } else {
            let bits = |ran: &RunOutput| ran.tensor().and_then(|t| t.host());
            let same = results.iter().map(bits).eq(alone.iter().map(bits));
            ensure!(same, "the batch is not bit-identical");
        }
        times.stats = batch.stats;
    }
    Ok(times)
}

/// Milliseconds of submissions of a trivial kernel: upload, one dispatch, download, as for the products. Wall time, and time
/// outside the kernel with device timestamps.
fn submissions(router: &Router, many: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let op = xor(&tensor(&[1u8; 4], &[4], "data")?, &tensor(&[2u8; 4], &[4], "key")?);
    let (mut walls, mut outside) = (Vec::new(), Vec::new());
    for round in 0..=many {
        let mut ran = None;
        let wall = ms(|| {
            ran = Some(router.run_with(
                &op,
                RunOptions { placement: PlacementPolicy::Only(DEVICE), keep_on_device: false },
            )?);
            Ok(())
        })?;
        if round > 0 {
            walls.push(wall);
            let kernel = ran.and_then(|ran| ran.report().device_time);
            outside.extend(kernel.map(|kernel| wall - kernel.as_secs_f64() * 1e3));
        }
    }
    Ok((walls, outside))
}

/// The time that a batch of products saves, beside the cost of the submissions saved.
///
/// On a slow adapter the kernels take a hundred times as long as the submissions: the noise of the wall time is several times
/// what is asked, and its standard error is printed. Where the device can tell, a second row takes the kernels off both sides
/// and off the cost of a submission, and a third says that the kernels take no longer in a batch. The promise is about the
/// wall time, and about the rest as well where it is known.
fn saved(router: &Router, products: &[Arc<dyn Op>]) -> Result<Vec<Row>> {
    let (mut times, mut wall_costs, mut outside_costs) = (BatchTimes::default(), Vec::new(), Vec::new());
    // Both drift with the machine's state: measured in small interleaved parts.
    for _ in 0..PARTS {
        times.extend(interleaved(router, products, DEVICE, PRODUCT_ROUNDS / PARTS)?);
        let (walls, outside) = submissions(router, SUBMISSIONS / PARTS)?;
        wall_costs.extend(walls);
        outside_costs.extend(outside);
    }
    let stats = &times.stats;
    ensure!(stats.submissions == 1, "not one submission: {stats:?}");
    let fewer = (products.len() - stats.submissions) as f64;
    let case = format!("{PRODUCTS} products {SIDE}x{SIDE} on the device");
    let (ours, peer) = (Sample::of(&times.batched), Sample::of(&times.one_by_one));
    let mut rows = vec![Row::vs_peer(BENCH, &case, &ours, "one by one", &peer, None)];
    let walls: Vec<f64> = times.one_by_one.iter().zip(&times.batched).map(|(one, all)| one - all).collect();
    let promise = Some(1.0 / SAVED_SHARE);
    if let Some((ours, peer)) = times.kernels() {
        let case = format!("{case}: kernels alone");
        rows.push(Row::vs_peer(BENCH, &case, &ours, "one by one", &peer, Some(KERNELS_SHARE)));
    }
    for (what, gains, costs, share) in [
        ("wall time", &walls, &wall_costs, promise),
        ("time outside kernels", &times.outside, &outside_costs, promise),
    ] {
        if gains.is_empty() || costs.is_empty() {
            continue;
        }
        let costs: Vec<f64> = costs.iter().map(|cost| cost * fewer).collect();
        let (gain, cost) = (median(gains), median(&costs));
        eprintln!(
            "batch: {case}: {what} saved {gain:.3} ± {:.3} ms, {fewer} submissions cost {cost:.3} ms; share {:.2}",
            // Of a median: the interquartile range of a normal distribution is 1.35 of its deviations.
            1.25 * iqr(gains) * gain.abs() / 1.35 / (gains.len() as f64).sqrt(),
            gain / cost
        );
        let case = format!("{case}: cost of the {fewer} submissions saved, {what}");
        let (ours, peer) = (Sample::of(&costs), Sample::of(gains));
        rows.push(Row::vs_peer(BENCH, &case, &ours, "time saved", &peer, share));
    }
    Ok(rows)
}

/// Deviation of the busy share from the duty limit over more than a second.
fn duty(router: &Router) -> Result<Row> {
    let spin = || {
        Item::call(|| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(2) {
                spin_loop();
            }
            Ok(Vec::new())
        })
    };
    let mut off = Vec::new();
    for _ in 0..3 {
        let options = BatchOptions { duty_cycle: Some(DUTY), ..BatchOptions::default() };
        let run = router.batch((0..1200).map(|_| spin()), options);
        ensure!(run.stats.wall >= Duration::from_secs(1), "only {:?}", run.stats.wall);
        let share = run.stats.busy_share().context("no time at all")?;
        eprintln!("batch: duty {DUTY}: busy share {share:.3} of {:?}", run.stats.wall);
        off.push((share - DUTY).abs());
    }
    let sample = Sample::of(&off);
    Ok(Row {
        unit: "share",
        ..Row::vs_limit(BENCH, &format!("off the duty limit of {DUTY}"), &sample, DUTY_OFF)
    })
}
