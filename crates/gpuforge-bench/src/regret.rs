//! Regret of placement decisions: every kind of operation at many sizes, run on the CPU and on the adapter; regret is the time
//! of the chosen backend ÷ the time of the best.
//!
//! Two set-ups: this machine as it is, and one whose CPU is slowed by a known factor per kind, so that each side wins
//! a good part of the cells. Its model is the measured one times those factors: to measure it again at a thirtieth of the
//! speed would find the same curves. Sizes lie beside those of the calibration. Tables go to stderr, rows to stdout.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use gpuforge::{
    ops::{Op, OpKind, Work, registry},
    route::{
        Backend, CostModel, CpuBackend, DeviceBackend, OpClass, PlacementPolicy, Reason, Router,
        RouterSettings, RunOptions,
        backend::{BackendError, BackendRun},
        calibrate::{self, calibrate},
        correction::Corrections,
        route,
        route::Candidate,
    },
    runtime::{
        engine::gpu::GpuOpener,
        memory::{Budget, BudgetOrigin, StackSettings},
        runner::{Runner, RunnerSettings},
        units::Bytes,
    },
};

use crate::{
    measure::{Sample, median},
    row::Row,
};

const BENCH: &str = "regret";
/// Time budget of one cell on one side.
const PER_CELL: Duration = Duration::from_millis(150);
/// Calibration budget of one backend: half of `gpuforge calibrate --full`.
const CALIBRATION: Duration = Duration::from_secs(45);
const SEGMENTS: usize = 3;
const MAX_RUNS: usize = 30;
const MIN_RUNS: usize = 3;

/// Sizes per kind; between those of the calibration.
fn sizes(kind: OpKind) -> Vec<Vec<usize>> {
    let ones = |list: &[usize]| list.iter().map(|n| vec![*n]).collect();
    match kind {
        OpKind::Matmul => ones(&[12, 24, 48, 96, 200, 400, 700, 1024]),
        OpKind::BatchMatmul => [1, 3, 6, 12, 24, 48, 100, 200].iter().map(|n| vec![*n, 48]).collect(),
        OpKind::Transpose => ones(&[20, 60, 100, 200, 500, 1000, 2000, 4096]),
        OpKind::Sort | OpKind::TopK | OpKind::Rk4 => {
            ones(&[300, 1500, 6000, 25_000, 100_000, 200_000, 400_000, 1_000_000])
        }
        _ => ones(&[300, 5000, 40_000, 100_000, 400_000, 1_500_000, 6_000_000, 1 << 24]),
    }
}

/// The CPU, slowed by a known integer factor per kind: it repeats the work. Sleeping instead would put its threads to sleep,
/// and their wake-up would be multiplied too.
struct SlowedCpu {
    inner: CpuBackend,
    factors: Vec<f64>,
}

impl Backend for SlowedCpu {
    fn name(&self) -> String {
        "cpu, slowed".to_owned()
    }

    fn run(&self, op: &dyn Op, keep_on_device: bool) -> Result<BackendRun, BackendError> {
        let began = Instant::now();
        let factor = self.factors.get(op.kind().index()).copied().unwrap_or(1.0);
        let mut run = self.inner.run(op, keep_on_device)?;
        for _ in 1..factor as usize {
            run = black_box(self.inner.run(op, keep_on_device)?);
        }
        Ok(BackendRun { wall: began.elapsed(), ..run })
    }
}

/// One operation at one size, with milliseconds per backend.
pub(crate) struct Cell {
    pub(crate) op: Arc<dyn Op>,
    pub(crate) label: String,
    pub(crate) times: [f64; 2],
}

impl Cell {
    /// The operation.
    pub(crate) fn op(&self) -> &dyn Op {
        self.op.as_ref()
    }

    /// Milliseconds per backend.
    pub(crate) fn times(&self) -> [f64; 2] {
        self.times
    }

    fn best(&self) -> f64 {
        self.times[0].min(self.times[1])
    }

    pub(crate) fn regret(&self, backend: usize) -> f64 {
        self.times.get(backend).copied().unwrap_or(f64::NAN) / self.best()
    }
}

/// Both backends in short interleaved segments. The first run of a segment is warm-up: it finds the caches as the other
/// backend left them, which no calibration measures.
pub(crate) fn cell(op: Arc<dyn Op>, label: String, backends: &[Arc<dyn Backend>]) -> Result<Cell> {
    let mut all = [Vec::new(), Vec::new()];
    let once = |backend: usize| -> Result<f64> {
        let run = backends
            .get(backend)
            .context("two places")?
            .run(op.as_ref(), false)
            .with_context(|| label.clone())?;
        Ok(run.wall.as_secs_f64() * 1e3)
    };
    let slowest = once(0)?.max(once(1)?);
    let runs = ((PER_CELL.as_secs_f64() * 1e3 / slowest) as usize).clamp(MIN_RUNS, MAX_RUNS);
    for _ in 0..SEGMENTS {
        for (backend, times) in all.iter_mut().enumerate() {
            once(backend)?;
            for _ in 0..runs.div_ceil(SEGMENTS) {
                times.push(once(backend)?);
            }
        }
    }
    let times = [median(&all[0]), median(&all[1])];
    Ok(Cell { op, label, times })
}

fn cells(backends: &[Arc<dyn Backend>]) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for row in registry::OPS {
        for sizes in sizes(row.kind) {
            let op = (row.example)(&sizes)?;
            cells.push(cell(op, format!("{} {sizes:?}", row.kind.name()), backends)?);
        }
    }
    Ok(cells)
}

pub(crate) fn adapter() -> Result<Arc<dyn Backend>> {
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(4), origin: BudgetOrigin::User });
    let runner = Runner::new(Box::new(GpuOpener::default()), RunnerSettings::new(memory));
    let caps = runner.warm()?;
    Ok(Arc::new(DeviceBackend::new(caps.name, None, Arc::new(runner))))
}

fn models(backends: &[Arc<dyn Backend>]) -> Result<Vec<CostModel>> {
    let options =
        calibrate::CalibrationOptions { budget: CALIBRATION, ..calibrate::CalibrationOptions::full() };
    let measure = |backend: &Arc<dyn Backend>| Ok(calibrate(backend.as_ref(), &options, &mut |_| {})?);
    backends.iter().map(measure).collect()
}

fn router_settings(explore: bool) -> RouterSettings {
    RouterSettings { explore, ..RouterSettings::default() }
}

/// Geometric mean and worst regret of the router, always-CPU and always-device.
struct RegretSummary {
    ours: (f64, f64),
    cpu: (f64, f64),
    gpu: (f64, f64),
    device_wins: f64,
}

fn summarise(router: &Router, cells: &[Cell]) -> Result<RegretSummary> {
    let mut chosen = Vec::new();
    for cell in cells {
        let work = Work::of(cell.op.as_ref(), false)?;
        let decision = router.decide(&work, router.op_class(cell.op.as_ref()), PlacementPolicy::Fastest)?;
        chosen.push(decision.backend_id);
        let predicted = |p| decision.predicted_ns(p).map_or(f64::NAN, |ns| f64::from(ns) / 1e6);
        eprintln!(
            "{:<28} cpu {:>10.3} ms (predicted {:>10.3})  device {:>10.3} ms (predicted {:>10.3})  → {} regret {:.2}",
            cell.label,
            cell.times[0],
            predicted(0),
            cell.times[1],
            predicted(1),
            decision.backend_id,
            cell.regret(decision.backend_id)
        );
    }
    let of = |place: &dyn Fn(usize) -> usize| {
        let each = cells.iter().enumerate().map(|(i, c)| c.regret(place(i)));
        let logs: f64 = each.clone().map(f64::ln).sum();
        ((logs / cells.len() as f64).exp(), each.fold(1.0, f64::max))
    };
    let device_wins = cells.iter().filter(|c| c.times[1] < c.times[0]).count() as f64 / cells.len() as f64;
    let ours = of(&|i| chosen.get(i).copied().unwrap_or(0));
    Ok(RegretSummary { ours, cpu: of(&|_| 0), gpu: of(&|_| 1), device_wins })
}

fn limit(case: String, value: f64, target: f64, n: usize, unit: &'static str) -> Row {
    let sample = Sample { median: value, noise: 0.0, n: n as u64 };
    Row { unit, ..Row::vs_limit(BENCH, &case, &sample, target) }
}

fn rows_of(set_up: &str, v: &RegretSummary, n: usize) -> Vec<Row> {
    let plain = |case: &str, value: f64| Row {
        target: None,
        ..limit(format!("{set_up}: {case}"), value, 1.0, n, "x")
    };
    vec![
        limit(format!("{set_up}: geometric mean"), v.ours.0, 1.05, n, "x"),
        limit(format!("{set_up}: worst"), v.ours.1, 1.5, n, "x"),
        plain("always on the CPU, geometric mean", v.cpu.0),
        plain("always on the device, geometric mean", v.gpu.0),
    ]
}

pub(crate) fn run() -> Result<Vec<Row>> {
    let device = adapter()?;
    let plain: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::default()), device.clone()];
    let measured = models(&plain)?;
    let router = Router::new(plain.clone(), measured.clone(), router_settings(false));
    let here = cells(&plain)?;
    ensure!(here.len() >= 80, "only {} cells", here.len());
    let as_is = summarise(&router, &here)?;
    let mut rows = rows_of("this machine", &as_is, here.len());
    rows.push(mixed(&router, &plain)?);
    for n in [32, 1024] {
        let op = (registry::entry(OpKind::Matmul).context("matmul")?.example)(&[n])?;
        let decision = router.decide(
            &Work::of(op.as_ref(), false)?,
            OpClass::of(OpKind::Matmul),
            PlacementPolicy::Fastest,
        )?;
        eprintln!("matmul {n}x{n} → place {}: {}", decision.backend_id, decision.reason);
    }
    let factors = factors(&here);
    let factor = |kind: OpKind| factors.get(kind.index()).copied().unwrap_or(1.0);
    let [cpu, model] = measured.as_slice() else { anyhow::bail!("two places") };
    let known = vec![cpu.slowed(factor), model.clone()];
    let slow: Arc<dyn Backend> =
        Arc::new(SlowedCpu { inner: CpuBackend::default(), factors: factors.clone() });
    let slowed = vec![slow, device];
    let router = Router::new(slowed.clone(), known.clone(), router_settings(false));
    let there = cells(&slowed)?;
    let v = summarise(&router, &there)?;
    eprintln!("slowed: the device wins {:.0} % of the cells", v.device_wins * 100.0);
    ensure!((0.3..=0.7).contains(&v.device_wins), "one side wins too rarely: the set-up says nothing");
    rows.extend(rows_of("slowed CPU", &v, there.len()));
    let least = v.cpu.0.min(v.gpu.0);
    rows.push(limit(
        "slowed CPU: ours ÷ the better constant".to_owned(),
        v.ours.0 / least,
        1.0,
        there.len(),
        "x",
    ));
    rows.extend(wrong_models(&slowed, &known, &there)?);
    rows.extend(decision_time(&known, &there)?);
    Ok(rows)
}

/// Factor per kind at which each side wins about half of its cells.
fn factors(cells: &[Cell]) -> Vec<f64> {
    let middle = |kind: &OpKind| {
        let ratios: Vec<f64> =
            cells.iter().filter(|c| c.op.kind() == *kind).map(|c| (c.times[1] / c.times[0]).ln()).collect();
        if ratios.is_empty() { 1.0 } else { median(&ratios).exp().round().max(1.0) }
    };
    OpKind::ALL.iter().map(middle).collect()
}

/// Fifty small XORs and fifty products, one by one, beside the best placement of each.
fn mixed(router: &Router, backends: &[Arc<dyn Backend>]) -> Result<Row> {
    let small = (registry::entry(OpKind::Xor).context("xor")?.example)(&[4096])?;
    let product = (registry::entry(OpKind::Matmul).context("matmul")?.example)(&[128])?;
    let ops: Vec<Arc<dyn Op>> =
        (0..100).map(|i| if i % 2 == 0 { small.clone() } else { product.clone() }).collect();
    let best = |op: &Arc<dyn Op>, label: &str| -> Result<usize> {
        let cell = cell(op.clone(), label.to_owned(), backends)?;
        Ok(usize::from(cell.times[1] < cell.times[0]))
    };
    let places = [best(&small, "xor")?, best(&product, "matmul")?];
    let (mut ours, mut ideal) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        let began = Instant::now();
        for op in &ops {
            black_box(router.run(op.as_ref())?);
        }
        ours.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        for (i, op) in ops.iter().enumerate() {
            let backend = places.get(i % 2).and_then(|p| backends.get(*p)).context("a place")?;
            black_box(backend.run(op.as_ref(), false)?);
        }
        ideal.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let case = "50 small XORs and 50 products, one by one";
    Ok(Row::vs_peer(
        BENCH,
        case,
        &Sample::of(&ours),
        "the best placement of each",
        &Sample::of(&ideal),
        Some(1.05),
    ))
}

/// Cost models wrong by a factor of ten, either way: regret after 200 calls of feedback.
fn wrong_models(backends: &[Arc<dyn Backend>], known: &[CostModel], cells: &[Cell]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Cells of a few milliseconds, so that the calls take seconds.
    let few: Vec<&Cell> = cells.iter().filter(|c| c.times[0].max(c.times[1]) < 20.0).collect();
    for (case, factor) in [("ten times too slow", 10.0), ("ten times too fast", 0.1)] {
        let [cpu, device] = known else { continue };
        let router =
            Router::new(backends.to_vec(), vec![cpu.clone(), device.scaled(factor)], router_settings(true));
        let mut explored = 0;
        for i in 0..200 {
            let Some(cell) = few.get(i * 37 % few.len()) else { continue };
            let ran = router.run_with(cell.op.as_ref(), RunOptions::default())?;
            explored += usize::from(ran.decision().reason == Reason::Exploring);
        }
        let (mut spent, mut best) = (0.0, 0.0);
        for cell in &few {
            let work = Work::of(cell.op.as_ref(), false)?;
            let place =
                router.decide(&work, router.op_class(cell.op.as_ref()), PlacementPolicy::Fastest)?.backend_id;
            spent += cell.times.get(place).copied().unwrap_or(f64::NAN);
            best += cell.best();
        }
        let share = router.explored().unwrap_or(0.0) * 100.0;
        eprintln!("device model {case}: {explored} trials, {share:.2} % of the time");
        let name = format!("device model {case}, regret after 200 calls");
        rows.push(limit(name, spent / best, 1.1, few.len(), "x"));
        rows.push(limit(format!("device model {case}, cost of trials"), share.max(1e-6), 1.0, 200, "%"));
    }
    Ok(rows)
}

/// Latency of one decision between two backends.
fn decision_time(models: &[CostModel], cells: &[Cell]) -> Result<Vec<Row>> {
    let corrections = Corrections::default();
    let candidate = |model| Candidate {
        model,
        corrections: &corrections,
        usable: true,
        max_buffer: None,
        memory_budget: None,
    };
    let candidates: Vec<Candidate<'_>> = models.iter().map(candidate).collect();
    let works = cells.iter().map(|c| Ok(Work::of(c.op.as_ref(), false)?)).collect::<Result<Vec<_>>>()?;
    let mut times = Vec::new();
    for _ in 0..101 {
        let began = Instant::now();
        let mut n = 0u32;
        while n < 10_000 {
            for work in &works {
                black_box(route(
                    black_box(work),
                    OpClass::of(work.kind),
                    &candidates,
                    PlacementPolicy::Fastest,
                ));
                n += 1;
            }
        }
        times.push(began.elapsed().as_nanos() as f64 / f64::from(n));
    }
    let row = Row::vs_limit(BENCH, "one decision between two places", &Sample::of(&times), 100.0);
    Ok(vec![Row { unit: "ns", ..row }])
}
