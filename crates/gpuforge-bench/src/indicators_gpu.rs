//! Indicators on the GPU: memory bandwidth beside the best of six copy kernels, fused plan beside unfused, and regret of the
//! placement decision.
//!
//! Bytes are the useful ones: every column of the bars is read once, every result written once. Times are those of the
//! calls alone: a plan with its calls several times less one with them once, as the device measured it where it can.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use gpuforge::{
    Forge,
    indicators_gpu::{DeviceChoice, executor::regret},
    settings::{Settings, UserPaths},
};
use gpuforge_indicators::{
    catalogue,
    exec::{Columns, Series},
    graph::{Graph, ValueId},
    select::{self, Instance, SelectItem, Selector},
};
use gpuforge_indicators_gpu::{
    autotune::{self, TuneWork, Tuned},
    gpu_executor::{GpuExecSettings, GpuExecStats, GpuExecutor},
    lower::{self, Fusion},
};
use gpuforge_runtime::{
    engine::{Opener as _, gpu::GpuOpener},
    kernel::{Access, Kernel},
    memory::{Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    runner::{Runner, RunnerSettings},
    session::Session,
    units::Bytes,
};

use crate::{
    elementwise::copy_kernel,
    indicators::Market,
    measure::{Sample, median, ms},
    row::Row,
};

const BENCH: &str = "indicators-gpu";
const DEADLINE: Duration = Duration::from_secs(120);
const ROUNDS: usize = 9;
/// How often calls are repeated in the longer of two plans.
const REPEATS: usize = 4;
/// Series and bars.
const SHAPES: [(usize, usize); 2] = [(30, 100_000), (500, 1_000)];
/// Indicators, what they are here, and the least share of the best copy kernel's bandwidth.
const KERNELS: [(&str, &str, Option<f64>); 6] = [
    ("typprice", "pointwise", Some(0.5)),
    ("bop", "pointwise", Some(0.5)),
    ("avgprice, medprice, typprice, wclprice", "fused pointwise", Some(0.5)),
    ("sum(20)", "rolling sum", Some(0.25)),
    ("ema(20)", "affine scan", Some(0.25)),
    // Its division is a call of its own.
    ("sma(20)", "rolling sum and a division", None),
];
/// Series and bars of plans with every indicator, few enough for the unfused one.
const ALL: (usize, usize) = (8, 1_000);
/// How many times fewer bytes a fused plan moves at least.
const FEWER: f64 = 2.0;
/// Calls and pipelines of a batch with every indicator at most.
const DISPATCHES: f64 = 400.0;
const PIPELINES: f64 = 60.0;
/// Time of the chosen side over the faster one's at most.
const REGRET: f64 = 1.25;

pub(crate) fn run() -> Result<Vec<Row>> {
    let engine = match GpuOpener::default().open() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("{BENCH}: skipped: {error}");
            return Ok(Vec::new());
        }
    };
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let session = Session::new(engine, memory);
    let (tuned, mut rows) = variants(&session)?;
    for shape in SHAPES {
        rows.extend(kernels(&session, &tuned, shape)?);
    }
    rows.extend(fusing(&session, "every candlestick", &candlesticks())?);
    rows.extend(fusing(&session, "every indicator", &everything())?);
    drop(session);
    rows.extend(counts()?);
    rows.extend(routing()?);
    Ok(rows)
}

/// Tries the variants and shows them.
fn variants(session: &Session) -> Result<(Tuned, Vec<Row>)> {
    let mut found = None;
    let took = ms(|| {
        found = Some(autotune::autotune(|plan| time(session, plan))?);
        Ok(())
    })?;
    let tuned = found.context("no variant ran")?;
    for trial in &tuned.trials {
        let time = trial.time.map_or("rejected".to_owned(), |t| format!("{:8.3} ms", t.as_secs_f64() * 1e3));
        eprintln!("{BENCH}: {:<8} {:>4} {time}", format!("{:?}", trial.parameter), trial.variant);
    }
    eprintln!(
        "{BENCH}: chosen: workgroup size {}, {} segments, slice factor {}",
        tuned.workgroup_size, tuned.segments, tuned.slice_factor
    );
    let once = Sample::of(&[took]);
    Ok((tuned, vec![Row::vs_limit(BENCH, "choosing variants, with compiling", &once, 1000.0)]))
}

/// What a plan takes, as the device says, or by the clock.
fn time(session: &Session, plan: &Arc<Plan>) -> Option<Duration> {
    let mut device = None;
    let wall = ms(|| {
        device = Some(session.run(plan, DEADLINE)?.device_time);
        Ok(())
    });
    let wall = Duration::from_secs_f64(wall.ok()? / 1e3);
    device.map(|d| d.unwrap_or(wall))
}

/// Plans with calls once and more often, the bytes that the calls have to move, and what they took, in milliseconds.
struct Case {
    name: String,
    plans: [Arc<Plan>; 2],
    bytes: f64,
    times: Vec<f64>,
}

impl Case {
    fn of(
        name: &str,
        work: &TuneWork<'_>,
        series: &[Series<'_>],
        settings: GpuExecSettings,
        bytes: f64,
    ) -> Result<Case> {
        let plan = |times: usize| -> Result<Arc<Plan>> {
            Ok(Arc::new(work.plan(series, settings, times)?.context("there is nothing for a device in it")?))
        };
        let plans = [plan(1)?, plan(1 + REPEATS)?];
        Ok(Case { name: name.to_owned(), plans, bytes, times: Vec::new() })
    }

    fn copy(words: usize, width: usize, group: usize) -> Result<Case> {
        let plans = [copies(words, width, group, 1)?, copies(words, width, group, 1 + REPEATS)?];
        let bytes = 8.0 * words as f64;
        Ok(Case { name: format!("copy {width} x {group}"), plans, bytes, times: Vec::new() })
    }

    /// Milliseconds of its calls once; `None` where the adapter refuses a plan.
    fn once(&self, session: &Session) -> Option<f64> {
        let [one, more] = &self.plans;
        let (one, more) = (time(session, one)?, time(session, more)?);
        Some((more.as_secs_f64() - one.as_secs_f64()) * 1e3 / REPEATS as f64)
    }

    fn rate(&self) -> f64 {
        self.bytes / median(&self.times) / 1e6
    }
}

/// All cases by turns; the first turn compiles and warms.
fn measure(session: &Session, cases: &mut [Case]) {
    for round in 0..=ROUNDS {
        for case in &mut *cases {
            if let (Some(took), true) = (case.once(session), round > 0) {
                case.times.push(took);
            }
        }
    }
}

fn copies(words: usize, width: usize, group: usize, times: usize) -> Result<Arc<Plan>> {
    let mut plan = Plan::new("copy kernel");
    let data = plan.upload(vec![1u8; words * 4], BENCH)?;
    let out = plan.slot(Bytes(words as u64 * 4), BENCH);
    let first = copy_kernel(width, group);
    let name = format!("{} again", first.name).into();
    let again = Arc::new(Kernel { name, bindings: vec![Access::Read, Access::Update], ..(*first).clone() });
    let calls = words / width;
    let groups = gpuforge_ops::record::groups(BENCH, calls.div_ceil(group) as u64)?;
    // As in the plans of indicators, there is a call before those that are timed.
    for kernel in std::iter::once(&first).chain(std::iter::repeat_n(&again, times)) {
        plan.dispatch(kernel, &[data, out], &[u32::try_from(calls)?], groups)?;
    }
    Ok(Arc::new(plan))
}

fn chosen(names: &str) -> Result<(Graph, Vec<ValueId>)> {
    let (graph, values, _) = select::graph(&Selector::new().select(names)?);
    Ok((graph, values))
}

/// Every kind of kernel beside the best copy kernel, over columns of the same length.
fn kernels(session: &Session, tuned: &Tuned, (series, bars): (usize, usize)) -> Result<Vec<Row>> {
    let markets: Vec<Market> = (0..series).map(|s| Market::walk(bars, s as u64)).collect();
    let all: Vec<Series<'_>> = markets.iter().map(Market::series).collect();
    let settings = tuned.settings(GpuExecSettings::default(), &vec![bars; series]);
    let total = series * bars;
    let mut cases = Vec::new();
    for (width, group) in [1, 4].into_iter().flat_map(|w| [64, 256, 1024].map(|g| (w, g))) {
        cases.push(Case::copy(total, width, group)?);
    }
    let peers = cases.len();
    for (names, _, _) in KERNELS {
        let (graph, wanted) = chosen(names)?;
        let on = vec![true; wanted.len()];
        let work = TuneWork { graph: &graph, wanted: &wanted, on: &on, fusion: Fusion::Fused };
        let lowered = work.lowered().with_context(|| names.to_owned())?;
        let bytes = 4.0 * ((lowered.uploads.len() + lowered.results) * total) as f64;
        cases.push(Case::of(names, &work, &all, settings, bytes)?);
    }
    measure(session, &mut cases);
    for case in &cases {
        eprintln!(
            "{BENCH}: {series} x {bars}: {:<40} {:8.3} ms {:7.2} GB/s",
            case.name,
            median(&case.times),
            case.rate()
        );
    }
    let (copies, ours) = cases.split_at(peers);
    let ran = copies.iter().filter(|c| !c.times.is_empty());
    let best = ran.max_by(|a, b| a.rate().total_cmp(&b.rate())).context("no copy kernel ran")?;
    let rows = ours.iter().zip(KERNELS).map(|(case, (names, what, share))| {
        // The time in which the copy kernel moves as many bytes.
        let as_many: Vec<f64> = best.times.iter().map(|t| t * case.bytes / best.bytes).collect();
        let name = format!("{what}: {names}, {series} x {bars}");
        let (ours, peer) = (Sample::of(&case.times), Sample::of(&as_many));
        Row::vs_peer(BENCH, &name, &ours, &best.name, &peer, share.map(|s| 1.0 / s))
    });
    Ok(rows.collect())
}

fn everything() -> Vec<SelectItem> {
    catalogue::all().map(|row| SelectItem::from(Instance::of(row))).collect()
}

fn candlesticks() -> Vec<SelectItem> {
    let rows = catalogue::all().filter(|row| row.kind == catalogue::IndicatorKind::Candlestick);
    rows.map(|row| SelectItem::from(Instance::of(row))).collect()
}

/// One plan, fused and with every value in a column of its own. Shifts are seen through in both.
fn fusing(session: &Session, name: &str, wanted: &[SelectItem]) -> Result<Vec<Row>> {
    let (series, bars) = ALL;
    let markets: Vec<Market> = (0..series).map(|s| Market::walk(bars, s as u64)).collect();
    let all: Vec<Series<'_>> = markets.iter().map(Market::series).collect();
    let (graph, values, _) = select::graph(wanted);
    let on = lower::fits(&graph, &values);
    let mut cases = Vec::new();
    for (how, fusion) in [("fused", Fusion::Fused), ("unfused", Fusion::Unfused)] {
        let work = TuneWork { graph: &graph, wanted: &values, on: &on, fusion };
        let lowered = work.lowered().with_context(|| name.to_owned())?;
        let bytes = 4.0 * (lowered.traffic() * series * bars) as f64;
        let calls: usize = lowered.stages.iter().map(Vec::len).sum();
        let columns = lowered.columns;
        eprintln!("{BENCH}: {name}, {how}: {calls} calls, {columns} columns, {:.1} MB moved", bytes / 1e6);
        cases.push(Case::of(how, &work, &all, GpuExecSettings::default(), bytes)?);
    }
    measure(session, &mut cases);
    let [fused, unfused] = cases.as_slice() else { return Ok(Vec::new()) };
    let case = |what: &str| format!("{name}, {series} x {bars}, fused, {what}");
    let bytes = |case: &Case| Sample { median: case.bytes / 1e6, noise: 0.0, n: 1 };
    let mut moved = Row::vs_peer(
        BENCH,
        &case("bytes moved"),
        &bytes(fused),
        "unfused",
        &bytes(unfused),
        Some(1.0 / FEWER),
    );
    moved.unit = "MB";
    let (ours, peer) = (Sample::of(&fused.times), Sample::of(&unfused.times));
    Ok(vec![moved, Row::vs_peer(BENCH, &case("calls"), &ours, "unfused", &peer, Some(1.0))])
}

/// What a batch of every indicator asks of the driver.
fn counts() -> Result<Vec<Row>> {
    let (series, bars) = ALL;
    let markets: Vec<Market> = (0..series).map(|s| Market::walk(bars, s as u64)).collect();
    let all: Vec<Series<'_>> = markets.iter().map(Market::series).collect();
    let (graph, values, _) = select::graph(&everything());
    let on = lower::fits(&graph, &values);
    let executor =
        GpuExecutor::new(&graph, &values, &on, bars, GpuExecSettings::default()).context("not lowered")?;
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let settings = RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(memory) };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    let mut room = vec![vec![vec![0.0; bars]; values.len()]; series];
    let mut columns: Vec<Columns<'_>> =
        room.iter_mut().map(|s| s.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    let stats: GpuExecStats = executor.run_into(&runner, &all, &mut columns)?;
    let per_batch = |n: u64| n as f64 / stats.batches.max(1) as f64;
    Ok(vec![
        count("dispatches of a batch", per_batch(stats.dispatches), DISPATCHES),
        count("pipelines", stats.pipelines.len() as f64, PIPELINES),
        count("uploads of a batch", per_batch(stats.uploads), 1.0),
        count("downloads of a batch", per_batch(stats.downloads), 1.0),
    ])
}

fn count(what: &str, n: f64, most: f64) -> Row {
    let exactly = Sample { median: n, noise: 0.0, n: 1 };
    let mut row = Row::vs_limit(BENCH, &format!("every indicator, {what}"), &exactly, most);
    row.unit = "";
    row
}

/// What the router chooses for about twenty indicators.
fn routing() -> Result<Vec<Row>> {
    let env = |name: &str| std::env::var(name).ok();
    let places = UserPaths::resolve(&env).unwrap_or_else(|_| UserPaths::unavailable());
    let settings = Settings::load_lenient(&places, &env, &[]);
    let access = Forge::new().device_access(&settings, &places, DeviceChoice::Gpu);
    let found = regret::regret_on(&access, &regret::SIZES)?;
    let row = |r: &regret::RegretRow| {
        eprintln!(
            "{BENCH}: routing {} x {}: cpu {:.1} ms (predicted {:.1}), gpu {:.1} ms (predicted {:.1}), chosen {:?}",
            r.series, r.bars, r.cpu_ms, r.predicted_cpu_ms, r.gpu_ms, r.predicted_gpu_ms, r.chosen
        );
        let once = Sample { median: r.regret, noise: 0.0, n: 1 };
        let case = format!("regret of the router, {} x {} ({:?})", r.series, r.bars, r.chosen);
        let mut row = Row::vs_limit(BENCH, &case, &once, REGRET);
        row.unit = "times the best";
        row
    };
    Ok(found.iter().map(row).collect())
}
