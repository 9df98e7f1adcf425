//! Hybrid executor: device loss, missing device, spilling, memory limits, and the choice of the faster side.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::sync::Arc;

use gpuforge::{
    frame::{
        Bars, KeySchema,
        read::{Input, ReadOptions},
        sample::{Interval, Sample},
        write::{ColumnValues, WriteOptions, Writer},
    },
    indicators::{
        exec::{self, ExecOptions, Series},
        select::Selector,
    },
    indicators_gpu::{
        DeviceAccess, DeviceChoice, HybridExecutor,
        cost_model::{DeviceRates, PlacementReason},
        executor::regret,
    },
    market::{MarketJob, MarketReport, Request, run_on, series},
    runtime::{
        engine::{Engine, EngineError, Opener, gpu::GpuOpener},
        memory::{Budget, BudgetOrigin, StackSettings},
        runner::{Runner, RunnerSettings},
        units::Bytes,
    },
};
use gpuforge_testkit::{
    adapter,
    fault_injection::FaultyOpener,
    fault_script::{Fault, FaultScript, Injection, InjectionPoint},
};

const SELECT: &str =
    "rsi(14), macd, bbands, atr(14), obv, cci(14), willr(14), sma(20), stddev(20), sar, aroon(14), tan";

struct Market {
    layout: KeySchema,
    bars: Vec<Bars>,
}

impl Market {
    /// Prices in whole ticks, for which the tolerance is stated: with decimals, f64 rounding decides ties.
    fn new(symbols: usize, bars: usize) -> Self {
        let sample = Sample::new(symbols, Interval::Minute, bars, 5);
        let in_ticks = |mut bars: Bars| {
            for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
                column.iter_mut().for_each(|x| *x = (*x * 100.0).round());
            }
            bars
        };
        Market { layout: sample.layout(), bars: sample.series().map(in_ticks).collect() }
    }

    fn times(&self) -> Vec<Vec<f64>> {
        self.bars.iter().map(|b| self.layout.seconds(&b.time)).collect()
    }

    fn series<'a>(&'a self, times: &'a [Vec<f64>]) -> Vec<Series<'a>> {
        self.bars.iter().zip(times).map(|(b, t)| series(b, t)).collect()
    }
}

fn request() -> Request {
    Request::of(&Selector::new().select(SELECT).unwrap())
}

fn runner(opener: impl Opener + 'static) -> Arc<Runner> {
    let budget = Budget { bytes: Bytes::mib(512), origin: BudgetOrigin::User };
    Arc::new(Runner::new(Box::new(opener), RunnerSettings::new(StackSettings::new(budget))))
}

/// A device; `None` where there is none.
fn device(opener: impl Opener + 'static) -> Option<Arc<Runner>> {
    let runner = runner(opener);
    adapter::or_skip(runner.warm())?;
    Some(runner)
}

fn bits(all: &[Vec<Vec<f64>>]) -> Vec<u64> {
    let bits = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    all.iter().flatten().flatten().map(bits).collect()
}

fn assert_alike(got: &[Vec<Vec<f64>>], want: &[Vec<Vec<f64>>]) {
    for (s, (got, want)) in got.iter().zip(want).enumerate() {
        for (c, (got, want)) in got.iter().zip(want).enumerate() {
            let scale = want.iter().filter(|x| x.is_finite()).fold(1e-30f64, |m, x| m.max(x.abs()));
            for (t, (g, w)) in got.iter().zip(want).enumerate() {
                let same = g.is_nan() && w.is_nan() || (g - w).abs() <= 1e-4 * scale;
                assert!(same, "series {s}, column {c}, bar {t}: {g} for {w}");
            }
        }
    }
}

/// DeviceRates of a device that costs next to nothing.
const FAST: DeviceRates = DeviceRates {
    open: 1e-6,
    pipeline: 1e-9,
    batch: 1e-9,
    dispatch: 1e-12,
    up: 1e-15,
    down: 1e-15,
    units: [1e-15; 4],
    sequential: 1e-15,
    variants: None,
};

fn always_lost() -> FaultScript {
    let lost = |nth| Injection { fault: Fault::Loss, point: InjectionPoint::Submit, nth };
    FaultScript { once: (0..64).map(lost).collect(), ..FaultScript::default() }
}

#[test]
fn device_lost_mid_run_gives_identical_columns() {
    let (market, request) = (Market::new(24, 700), request());
    let times = market.times();
    let series = market.series(&times);
    let Some(good) = device(GpuOpener::default()) else { return };
    // A small memory limit forces several batches.
    let undisturbed = DeviceAccess::over(good, DeviceChoice::Gpu).with_memory_limit(1 << 20);
    let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &undisturbed).unwrap();
    let want = executor.run(&series);
    let summary = executor.summary();
    assert!(summary.batches > 1, "{summary:?}");
    assert_eq!((summary.uploads, summary.downloads), (summary.batches, summary.batches));
    assert!(summary.peak <= 1 << 20);
    for point in [InjectionPoint::Submit, InjectionPoint::Submitted, InjectionPoint::Waited] {
        let script = FaultScript::once(Fault::Loss, point, 1);
        let opener = FaultyOpener::over_gpu(GpuOpener::default(), script);
        let lost = DeviceAccess::over(runner(opener.clone()), DeviceChoice::Gpu).with_memory_limit(1 << 20);
        let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &lost).unwrap();
        let got = executor.run(&series);
        assert_eq!(opener.injected(), 1, "{point:?}");
        assert!(opener.opened() >= 2, "{point:?}");
        assert_eq!(bits(&got), bits(&want), "{point:?}");
        let summary = executor.summary();
        assert_eq!(summary.groups.gpu, 1, "{summary:?}");
        assert!(!summary.events.is_empty(), "{summary:?}");
    }
}

#[test]
fn permanent_device_loss_falls_back_to_the_cpu() {
    let (market, request) = (Market::new(6, 300), request());
    let times = market.times();
    let series = market.series(&times);
    let want = exec::run(&request.selection.plan, &series, ExecOptions::default());
    if device(GpuOpener::default()).is_none() {
        return;
    }
    let opener = FaultyOpener::over_gpu(GpuOpener::default(), always_lost());
    let access = DeviceAccess::over(runner(opener), DeviceChoice::Gpu);
    let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &access).unwrap();
    // The second batch does not retry the device.
    for _ in 0..2 {
        let got = executor.run(&series);
        assert_eq!(bits(&got), bits(&want));
    }
    let summary = executor.summary();
    assert_eq!((summary.groups.gpu, summary.groups.cpu, summary.series.cpu), (0, 2, 12), "{summary:?}");
    assert!(summary.events.iter().any(|e| e.contains("fell back to the CPU")), "{summary:?}");
    assert!(matches!(summary.decision.as_ref().unwrap().reason, PlacementReason::NoDevice(_)), "{summary:?}");
}

#[test]
fn series_larger_than_device_memory_falls_back_to_the_cpu() {
    let (market, request) = (Market::new(2, 5000), request());
    let times = market.times();
    let series = market.series(&times);
    let Some(runner) = device(GpuOpener::default()) else { return };
    let access = DeviceAccess::over(runner, DeviceChoice::Gpu).with_memory_limit(4 << 10);
    let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &access).unwrap();
    let got = executor.run(&series);
    assert_eq!(bits(&got), bits(&exec::run(&request.selection.plan, &series, ExecOptions::default())));
    assert!(executor.summary().events.iter().any(|e| e.contains("memory limit")), "{:?}", executor.summary());
}

/// No device at all.
struct Missing;

impl Opener for Missing {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Err(EngineError::Unavailable { reason: "there is none".to_owned() })
    }
}

#[test]
fn missing_device_is_an_error_only_if_requested() {
    let (market, request) = (Market::new(3, 200), request());
    let times = market.times();
    let series = market.series(&times);
    let asked = DeviceAccess::over(runner(Missing), DeviceChoice::Gpu);
    let error = HybridExecutor::new(&request, ExecOptions::default(), &asked).err().unwrap().to_string();
    assert!(error.contains("there is none") && error.contains("hint: `gpuforge doctor`"), "{error}");
    let auto = DeviceAccess::over(runner(Missing), DeviceChoice::Auto).with_rates(FAST, 1.0);
    let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &auto).unwrap();
    let got = executor.run(&series);
    assert_eq!(bits(&got), bits(&exec::run(&request.selection.plan, &series, ExecOptions::default())));
    assert_eq!(executor.summary().groups.cpu, 1);
}

#[test]
fn slow_cpu_sends_work_to_the_device_and_fast_cpu_keeps_it() {
    let (market, request) = (Market::new(8, 400), request());
    let times = market.times();
    let series = market.series(&times);
    let want = exec::run(&request.selection.plan, &series, ExecOptions::default());
    let slow_device = DeviceRates { open: 5.0, up: 1e-3, ..FAST };
    let keeps = DeviceAccess::over(runner(Missing), DeviceChoice::Auto).with_rates(slow_device, 1e-9);
    let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &keeps).unwrap();
    assert_eq!(bits(&executor.run(&series)), bits(&want));
    let decision = executor.summary().decision.clone().unwrap();
    assert_eq!(decision.place, DeviceChoice::Cpu);
    assert!(matches!(decision.reason, PlacementReason::Faster(times) if times > 1.0), "{decision:?}");
    // A millisecond per bar: a throttled or busy CPU.
    let Some(runner) = device(GpuOpener::default()) else { return };
    let sends = DeviceAccess::over(runner, DeviceChoice::Auto).with_rates(FAST, 1e-3);
    let mut executor = HybridExecutor::new(&request, ExecOptions::default(), &sends).unwrap();
    let got = executor.run(&series);
    let summary = executor.summary();
    assert_eq!(summary.groups.gpu, 1, "{summary:?}");
    // Some columns run on the CPU beside the device, `tan` among them.
    assert!(summary.columns.cpu >= 1 && summary.columns.gpu >= 8, "{summary:?}");
    assert_eq!((summary.columns.cpu + summary.columns.gpu) as usize, request.selection.columns.len());
    assert_alike(&got, &want);
    // The cost model is corrected by the measured time.
    let before = executor.explain(&[400; 8]).gpu.unwrap().total;
    executor.run(&series);
    assert!(executor.explain(&[400; 8]).gpu.unwrap().total > before);
}

#[test]
fn regret_runs_and_compares_both_sides() {
    let Some(runner) = device(GpuOpener::default()) else { return };
    let rows =
        regret::regret_on(&DeviceAccess::over(runner, DeviceChoice::Gpu), &[(1, 500), (20, 300)]).unwrap();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert!(row.cpu_ms > 0.0 && row.gpu_ms > 0.0 && row.regret >= 1.0, "{row:?}");
        assert_ne!(row.chosen, DeviceChoice::Auto);
    }
}

/// Runs a request over the bars in `folder` with this memory limit; the output file and the report.
fn written(
    folder: &std::path::Path,
    request: &Request,
    access: &DeviceAccess,
    memory: u64,
) -> (Vec<u8>, MarketReport) {
    let output = folder.join("out.parquet");
    let job = MarketJob {
        input: Input::new([folder.join("bars.parquet")]),
        read: ReadOptions::default(),
        request,
        write: WriteOptions::of(&output).unwrap(),
        output: output.clone(),
        with_bars: false,
        options: ExecOptions::default(),
        memory: Some(memory),
        check: false,
        progress: None,
    };
    let report = run_on(job, access).unwrap();
    (std::fs::read(output).unwrap(), report)
}

/// Results of a symbol that exceed the memory limit go through the spill file and equal those without a limit; also when the
/// device is lost between two batches of columns, and when it is lost permanently.
#[test]
fn results_larger_than_memory_spill_and_are_identical() {
    let (market, request) = (Market::new(3, 20_000), request());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bars.parquet");
    let names = ["open", "high", "low", "close", "volume"].map(str::to_owned);
    let mut writer =
        Writer::create(&path, &market.layout, &names, &WriteOptions::of(&path).unwrap()).unwrap();
    for bars in &market.bars {
        let columns = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
        writer.write(bars.symbol.as_ref(), &bars.time, &columns.map(|c| ColumnValues::all(c))).unwrap();
    }
    writer.finish().unwrap();
    let Some(good) = device(GpuOpener::default()) else { return };
    let (tight, room) = (6 << 20, 64 << 20);
    let on = |runner: Arc<Runner>, device: u64, host: u64| {
        written(
            folder.path(),
            &request,
            &DeviceAccess::over(runner, DeviceChoice::Gpu).with_memory_limit(device),
            host,
        )
    };
    let (want, report) = on(good.clone(), room, 1 << 30);
    assert_eq!((report.placed.groups.gpu, report.placed.groups.cpu), (1, 0), "{report:?}");
    let (got, report) = on(good, tight, tight);
    let summary = &report.placed;
    assert_eq!((summary.groups.gpu, summary.groups.cpu, summary.series.gpu), (3, 0, 3), "{summary:?}");
    assert!(summary.batches >= 6 && summary.peak <= tight, "{summary:?}");
    assert_eq!((summary.uploads, summary.downloads), (summary.batches, summary.batches));
    assert!(got == want, "columns from the spill file differ");
    let opener = FaultyOpener::over_gpu(
        GpuOpener::default(),
        FaultScript::once(Fault::Loss, InjectionPoint::Submit, 1),
    );
    let (got, report) = on(runner(opener.clone()), tight, tight);
    assert_eq!((opener.injected(), report.placed.groups.gpu), (1, 3));
    assert!(got == want, "columns differ after a device loss");
    assert!(!report.placed.events.is_empty(), "{report:?}");
    let (got, report) = on(runner(FaultyOpener::over_gpu(GpuOpener::default(), always_lost())), tight, tight);
    assert_eq!((report.placed.groups.gpu, report.placed.groups.cpu), (0, 3), "{report:?}");
    assert!(report.placed.events.iter().any(|e| e.contains("CPU")), "{report:?}");
    assert!(got == written(folder.path(), &request, &DeviceAccess::cpu(), 1 << 30).0);
}
