//! Are indicators the same when a device computes them, is lost, or is not there; and is the faster side chosen?
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
        Bars, Layout,
        read::{Input, ReadOptions},
        sample::{Interval, Sample},
        write::{Options, Values, Writer},
    },
    indicators::{
        exec::{self, How, Series},
        select::Selector,
    },
    market::{Job, Report, Request, run_on, series},
    resident::{
        Access, Computer, Device,
        cost::{Rates, Reason},
        regret,
    },
    runtime::{
        engine::{Engine, EngineError, Opener, gpu::GpuOpener},
        memory::{Budget, BudgetOrigin, StackSettings},
        runner::{Runner, RunnerSettings},
        units::Bytes,
    },
};
use gpuforge_testkit::{
    faulty::FaultyOpener,
    script::{Fault, Injection, Moment, Script},
};

const SELECT: &str =
    "rsi(14), macd, bbands, atr(14), obv, cci(14), willr(14), sma(20), stddev(20), sar, aroon(14), tan";

struct Market {
    layout: Layout,
    bars: Vec<Bars>,
}

impl Market {
    /// Prices in whole ticks, for which the tolerance is stated: of decimals, rounding on the processor decides ties.
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

/// A device, or a word that there is none.
fn device(opener: impl Opener + 'static) -> Option<Arc<Runner>> {
    let runner = runner(opener);
    match runner.warm() {
        Ok(_) => Some(runner),
        Err(error) => {
            println!("skipped: no device can be opened here: {error}");
            None
        }
    }
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

/// Rates of a device that costs next to nothing.
const FAST: Rates = Rates {
    open: 1e-6,
    pipeline: 1e-9,
    batch: 1e-9,
    dispatch: 1e-12,
    up: 1e-15,
    down: 1e-15,
    units: [1e-15; 4],
    chain: 1e-15,
    variants: None,
};

fn always_lost() -> Script {
    let lost = |nth| Injection { fault: Fault::Loss, moment: Moment::Submit, nth };
    Script { once: (0..64).map(lost).collect(), ..Script::default() }
}

#[test]
fn a_device_lost_in_the_middle_gives_the_same_columns() {
    let (market, request) = (Market::new(24, 700), request());
    let times = market.times();
    let series = market.series(&times);
    let Some(good) = device(GpuOpener::default()) else { return };
    // Little memory makes several batches of it.
    let undisturbed = Access::over(good, Device::Gpu).within(1 << 20);
    let mut computer = Computer::new(&request, How::default(), &undisturbed).unwrap();
    let want = computer.run(&series);
    let done = computer.done();
    assert!(done.batches > 1, "{done:?}");
    assert_eq!((done.uploads, done.downloads), (done.batches, done.batches));
    assert!(done.peak <= 1 << 20);
    for moment in [Moment::Submit, Moment::Submitted, Moment::Waited] {
        let script = Script::once(Fault::Loss, moment, 1);
        let opener = FaultyOpener::over_gpu(GpuOpener::default(), script);
        let lost = Access::over(runner(opener.clone()), Device::Gpu).within(1 << 20);
        let mut computer = Computer::new(&request, How::default(), &lost).unwrap();
        let got = computer.run(&series);
        assert_eq!(opener.injected(), 1, "{moment:?}");
        assert!(opener.opened() >= 2, "{moment:?}");
        assert_eq!(bits(&got), bits(&want), "{moment:?}");
        let done = computer.done();
        assert_eq!(done.groups.gpu, 1, "{done:?}");
        assert!(!done.events.is_empty(), "{done:?}");
    }
}

#[test]
fn a_device_that_fails_for_good_hands_everything_to_the_processor() {
    let (market, request) = (Market::new(6, 300), request());
    let times = market.times();
    let series = market.series(&times);
    let want = exec::run(&request.selection.plan, &series, How::default());
    if device(GpuOpener::default()).is_none() {
        return;
    }
    let opener = FaultyOpener::over_gpu(GpuOpener::default(), always_lost());
    let access = Access::over(runner(opener), Device::Gpu);
    let mut computer = Computer::new(&request, How::default(), &access).unwrap();
    // The second group does not ask again.
    for _ in 0..2 {
        let got = computer.run(&series);
        assert_eq!(bits(&got), bits(&want));
    }
    let done = computer.done();
    assert_eq!((done.groups.gpu, done.groups.cpu, done.series.cpu), (0, 2, 12), "{done:?}");
    assert!(done.events.iter().any(|e| e.contains("the processor computed everything instead")), "{done:?}");
    assert!(matches!(done.decision.as_ref().unwrap().reason, Reason::NoDevice(_)), "{done:?}");
}

#[test]
fn a_series_that_does_not_fit_the_device_is_computed_all_the_same() {
    let (market, request) = (Market::new(2, 5000), request());
    let times = market.times();
    let series = market.series(&times);
    let Some(runner) = device(GpuOpener::default()) else { return };
    let access = Access::over(runner, Device::Gpu).within(4 << 10);
    let mut computer = Computer::new(&request, How::default(), &access).unwrap();
    let got = computer.run(&series);
    assert_eq!(bits(&got), bits(&exec::run(&request.selection.plan, &series, How::default())));
    assert!(computer.done().events.iter().any(|e| e.contains("memory limit")), "{:?}", computer.done());
}

/// No device at all.
struct Missing;

impl Opener for Missing {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Err(EngineError::Unavailable { reason: "there is none".to_owned() })
    }
}

#[test]
fn no_device_is_an_error_only_where_one_was_asked_for() {
    let (market, request) = (Market::new(3, 200), request());
    let times = market.times();
    let series = market.series(&times);
    let asked = Access::over(runner(Missing), Device::Gpu);
    let error = Computer::new(&request, How::default(), &asked).err().unwrap().to_string();
    assert!(error.contains("there is none") && error.contains("hint: `gpuforge doctor`"), "{error}");
    let auto = Access::over(runner(Missing), Device::Auto).at(FAST, 1.0);
    let mut computer = Computer::new(&request, How::default(), &auto).unwrap();
    let got = computer.run(&series);
    assert_eq!(bits(&got), bits(&exec::run(&request.selection.plan, &series, How::default())));
    assert_eq!(computer.done().groups.cpu, 1);
}

#[test]
fn a_slow_processor_sends_work_to_the_device_and_a_fast_one_keeps_it() {
    let (market, request) = (Market::new(8, 400), request());
    let times = market.times();
    let series = market.series(&times);
    let want = exec::run(&request.selection.plan, &series, How::default());
    let slow_device = Rates { open: 5.0, up: 1e-3, ..FAST };
    let keeps = Access::over(runner(Missing), Device::Auto).at(slow_device, 1e-9);
    let mut computer = Computer::new(&request, How::default(), &keeps).unwrap();
    assert_eq!(bits(&computer.run(&series)), bits(&want));
    let decision = computer.done().decision.clone().unwrap();
    assert_eq!(decision.place, Device::Cpu);
    assert!(matches!(decision.reason, Reason::Faster(times) if times > 1.0), "{decision:?}");
    // A millisecond a bar: a processor that is throttled, or has much else to do.
    let Some(runner) = device(GpuOpener::default()) else { return };
    let sends = Access::over(runner, Device::Auto).at(FAST, 1e-3);
    let mut computer = Computer::new(&request, How::default(), &sends).unwrap();
    let got = computer.run(&series);
    let done = computer.done();
    assert_eq!(done.groups.gpu, 1, "{done:?}");
    // Some columns are computed beside the device, `tan` among them.
    assert!(done.columns.cpu >= 1 && done.columns.gpu >= 8, "{done:?}");
    assert_eq!((done.columns.cpu + done.columns.gpu) as usize, request.selection.columns.len());
    assert_alike(&got, &want);
    // What it really took is learnt: a device that is predicted a thousand times too fast is found out.
    let before = computer.explain(&[400; 8]).gpu.unwrap().total;
    computer.run(&series);
    assert!(computer.explain(&[400; 8]).gpu.unwrap().total > before);
}

#[test]
fn both_sides_are_run_and_compared() {
    let Some(runner) = device(GpuOpener::default()) else { return };
    let rows = regret::regret_on(&Access::over(runner, Device::Gpu), &[(1, 500), (20, 300)]).unwrap();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert!(row.cpu_ms > 0.0 && row.gpu_ms > 0.0 && row.regret >= 1.0, "{row:?}");
        assert_ne!(row.chosen, Device::Auto);
    }
}

/// Writes what a request gives of the bars in `folder` with this much memory, and tells what was done.
fn written(folder: &std::path::Path, request: &Request, access: &Access, memory: u64) -> (Vec<u8>, Report) {
    let output = folder.join("out.parquet");
    let job = Job {
        input: Input::new([folder.join("bars.parquet")]),
        read: ReadOptions::default(),
        request,
        write: Options::of(&output).unwrap(),
        output: output.clone(),
        with_bars: false,
        how: How::default(),
        memory: Some(memory),
        check: false,
        progress: None,
    };
    let report = run_on(job, access).unwrap();
    (std::fs::read(output).unwrap(), report)
}

/// Results of a symbol that do not fit wait in a scratch file, and are what they are without a limit; also when the device
/// is lost between two groups of columns, and when it is lost for good.
#[test]
fn results_that_do_not_fit_are_computed_on_the_device_all_the_same() {
    let (market, request) = (Market::new(3, 20_000), request());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bars.parquet");
    let names = ["open", "high", "low", "close", "volume"].map(str::to_owned);
    let mut writer = Writer::create(&path, &market.layout, &names, &Options::of(&path).unwrap()).unwrap();
    for bars in &market.bars {
        let columns = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
        writer.write(bars.symbol.as_ref(), &bars.time, &columns.map(|c| Values::all(c))).unwrap();
    }
    writer.finish().unwrap();
    let Some(good) = device(GpuOpener::default()) else { return };
    let (tight, room) = (6 << 20, 64 << 20);
    let on = |runner: Arc<Runner>, device: u64, host: u64| {
        written(folder.path(), &request, &Access::over(runner, Device::Gpu).within(device), host)
    };
    let (want, report) = on(good.clone(), room, 1 << 30);
    assert_eq!((report.placed.groups.gpu, report.placed.groups.cpu), (1, 0), "{report:?}");
    let (got, report) = on(good, tight, tight);
    let done = &report.placed;
    assert_eq!((done.groups.gpu, done.groups.cpu, done.series.gpu), (3, 0, 3), "{done:?}");
    assert!(done.batches >= 6 && done.peak <= tight, "{done:?}");
    assert_eq!((done.uploads, done.downloads), (done.batches, done.batches));
    assert!(got == want, "columns that waited in a scratch file are others");
    let opener = FaultyOpener::over_gpu(GpuOpener::default(), Script::once(Fault::Loss, Moment::Submit, 1));
    let (got, report) = on(runner(opener.clone()), tight, tight);
    assert_eq!((opener.injected(), report.placed.groups.gpu), (1, 3));
    assert!(got == want, "columns are others after a loss");
    assert!(!report.placed.events.is_empty(), "{report:?}");
    let (got, report) = on(runner(FaultyOpener::over_gpu(GpuOpener::default(), always_lost())), tight, tight);
    assert_eq!((report.placed.groups.gpu, report.placed.groups.cpu), (0, 3), "{report:?}");
    assert!(report.placed.events.iter().any(|e| e.contains("processor")), "{report:?}");
    assert!(got == written(folder.path(), &request, &Access::cpu(), 1 << 30).0);
}
