//! Does gpuforge work on this machine? Checks by name, each with its time and what it saw; quick or full.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_detect::cache::{CacheLookup, Detected, DetectionCache};
use gpuforge_runtime::{
    engine::{
        EngineError, Opener as _,
        dummy::{DummyFault, DummyOpener, DummyScript},
        gpu::{AdapterChoice, Gpu, GpuOpener},
        reference,
    },
    kernel::{Access, Kernel, put_words, words},
    memory::{Budget, BudgetOrigin, StackSettings},
    plan::{Plan, PlanError},
    runner::{Runner, RunnerSettings, SplittableBatch},
    session::Session,
    units::Bytes,
};
use serde::Serialize;

use crate::settings::{Env, Places, Settings};

/// Starting a device must not take longer than this (MISSION A3 of the systems we go beyond: one second).
const TARGET_MS: f64 = 1000.0;
const DEADLINE: Duration = Duration::from_secs(60);
/// The checks of a device need this much of its memory, and are skipped below it.
const LEAST: Bytes = Bytes::mib(8);
/// What is sent there and back, where the limit has room for it.
const TRANSFER: Bytes = Bytes::mib(64);
/// Names a check whose result is spoilt on purpose, to show that a failure is noticed.
pub const FAULT_VARIABLE: &str = "GPUFORGE_SELF_TEST_FAULT";

/// The report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Times from nothing to a first result, and to a second one.
    pub init: Init,
    /// The user's limit of device memory, which the checks of a device keep to.
    pub memory_limit: Option<Bytes>,
    /// Every check.
    pub tests: Vec<Test>,
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// Checks that this machine cannot run.
    pub skipped: usize,
}

/// Times of starting a device.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Init {
    /// Median from nothing to a first result; `None` without a device.
    pub cold_ms: Option<f64>,
    /// Median of a second result on the open device.
    pub warm_ms: Option<f64>,
    /// The fastest cold start.
    pub min_ms: Option<f64>,
    /// The slowest cold start.
    pub max_ms: Option<f64>,
    /// Cold starts.
    pub n: usize,
    /// What a cold start may take.
    pub target_ms: f64,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Test {
    /// Name.
    pub name: &'static str,
    /// Passed; a skipped check is `true` and its detail says why it was skipped.
    pub ok: bool,
    /// It could not be run here.
    pub skipped: bool,
    /// How long it took.
    pub ms: f64,
    /// What it saw.
    pub detail: String,
}

/// How a check ends.
enum Verdict {
    Passed(String),
    Skipped(String),
    Failed(String),
}

/// What checks work with.
struct Bench<'a> {
    places: &'a Places,
    env: Env<'a>,
    /// Spoil the result of this check.
    spoil: bool,
    /// Or why no device can be checked.
    adapter: &'a Result<(), String>,
    /// The user's limit of device memory.
    limit: Option<Bytes>,
}

impl Bench<'_> {
    /// Memory for a check that would like this much.
    fn stack(&self, wish: Bytes) -> StackSettings {
        stack(within(wish, self.limit))
    }
}

fn within(wish: Bytes, limit: Option<Bytes>) -> Bytes {
    limit.map_or(wish, |limit| wish.min(limit))
}

type Check = fn(&Bench<'_>) -> Verdict;

/// Name, part of the quick test, check.
const CHECKS: [(&str, bool, Check); 10] = [
    ("settings", true, settings),
    ("detection", true, detection),
    ("cache", true, cache),
    ("processor", true, processor),
    ("device", true, device),
    ("recovery", true, recovery),
    ("device loss", false, device_loss),
    ("memory limit", false, memory_limit),
    ("transfers", false, transfers),
    ("threads", false, threads),
];

/// Runs the checks under these settings; a failure never stops the ones behind it.
pub fn run(
    full: bool,
    settings: &Settings,
    places: &Places,
    env: Env<'_>,
    mut told: impl FnMut(&Test),
) -> Report {
    let limit = settings.memory_limit().map(Bytes);
    let (init, adapter) = measure_init(if full { 10 } else { 3 }, limit);
    let fault = env(FAULT_VARIABLE);
    let mut report = Report { init, memory_limit: limit, ..Report::default() };
    for (name, _, check) in CHECKS.iter().filter(|(_, quick, _)| full || *quick) {
        let spoil = fault.as_deref() == Some(*name);
        let began = Instant::now();
        let verdict = check(&Bench { places, env, spoil, adapter: &adapter, limit });
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let (ok, skipped, detail) = match verdict {
            Verdict::Passed(detail) => (true, false, detail),
            Verdict::Skipped(why) => (true, true, why),
            Verdict::Failed(why) => (false, false, why),
        };
        match (ok, skipped) {
            (_, true) => report.skipped += 1,
            (true, false) => report.passed += 1,
            (false, false) => report.failed += 1,
        }
        let test = Test { name, ok, skipped, ms, detail };
        told(&test);
        report.tests.push(test);
    }
    report
}

/// Opens a device from nothing several times; an error says why none can be checked.
fn measure_init(n: usize, limit: Option<Bytes>) -> (Init, Result<(), String>) {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    let none = |why| (Init { target_ms: TARGET_MS, ..Init::default() }, Err(why));
    if let Some(limit) = limit.filter(|l| *l < LEAST) {
        return none(format!("the memory limit is {limit}; the checks of a device need {LEAST}"));
    }
    for _ in 0..n {
        let began = Instant::now();
        let engine = match GpuOpener::default().open() {
            Ok(engine) => engine,
            Err(error) => return none(format!("no device: {error}")),
        };
        let session = Session::new(engine, stack(within(Bytes::mib(256), limit)));
        let once = || {
            chain(64, 1, 7)
                .map_err(|e| e.to_string())
                .and_then(|(plan, _)| session.run(&Arc::new(plan), DEADLINE).map_err(|e| e.to_string()))
        };
        let (first, second) = (once().map(|_| began.elapsed()), Instant::now());
        let again = once().map(|_| second.elapsed());
        match (first, again) {
            (Ok(first), Ok(again)) => {
                cold.push(first.as_secs_f64() * 1e3);
                warm.push(again.as_secs_f64() * 1e3);
            }
            (Err(why), _) | (_, Err(why)) => return none(format!("no device: {why}")),
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let (cold_ms, warm_ms) = (median(&mut cold), median(&mut warm));
    let init = Init {
        cold_ms,
        warm_ms,
        min_ms: cold.first().copied(),
        max_ms: cold.last().copied(),
        n: cold.len(),
        target_ms: TARGET_MS,
    };
    (init, Ok(()))
}

fn stack(limit: Bytes) -> StackSettings {
    StackSettings::new(Budget { bytes: limit, origin: BudgetOrigin::User })
}

fn settings(bench: &Bench<'_>) -> Verdict {
    if bench.spoil {
        return Verdict::Failed("spoilt on purpose".to_owned());
    }
    match Settings::load(bench.places, bench.env, &[]) {
        Ok(settings) => Verdict::Passed(format!("{} settings are in order", settings.all().count())),
        Err(error) => Verdict::Failed(error.to_string()),
    }
}

fn detection(bench: &Bench<'_>) -> Verdict {
    let settings = Settings::load_lenient(bench.places, bench.env, &[]);
    let mut options = crate::machine::options(&settings, bench.places, bench.env);
    options.tier0_only = true;
    options.cache = gpuforge_detect::CacheUse::Off;
    let inventory = gpuforge_detect::detect(&options, bench.env);
    let threads = inventory.cpu.as_ref().and_then(|c| c.available).filter(|_| !bench.spoil);
    match threads {
        Some(threads) => {
            Verdict::Passed(format!("{threads} threads, {} GPUs by kernel files", inventory.gpus.len()))
        }
        None => Verdict::Failed("the processor was not recognised".to_owned()),
    }
}

fn cache(bench: &Bench<'_>) -> Verdict {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return Verdict::Failed(format!("no temporary folder: {error}")),
    };
    let store = DetectionCache::new(folder.path(), Duration::from_secs(60));
    let now = std::time::SystemTime::now();
    let wrote = store.store("self-test", &Detected::default(), now);
    let asked = if bench.spoil { "another" } else { "self-test" };
    match (wrote, store.lookup(asked, now)) {
        (Ok(()), CacheLookup::Hit(..)) => Verdict::Passed("written and read back".to_owned()),
        (Err(error), _) => Verdict::Failed(error.to_string()),
        (Ok(()), CacheLookup::Miss(why)) => Verdict::Failed(format!("written but not found: {why:?}")),
    }
}

/// Compares results with the known answer.
fn compare(got: &[Vec<u8>], want: &[Vec<u8>], spoil: bool) -> Result<(), String> {
    let equal = got == want && !spoil;
    if equal { Ok(()) } else { Err("the result differs from the known answer".to_owned()) }
}

fn processor(bench: &Bench<'_>) -> Verdict {
    let checked = chain(10_000, 16, 1).map_err(|e| e.to_string()).and_then(|(plan, want)| {
        let done = reference::run(&plan).map_err(|e| e.to_string())?;
        compare(&done.outputs, &want, bench.spoil)
    });
    passed(checked, "16 kernels, bit for bit")
}

fn passed(result: Result<(), String>, detail: &str) -> Verdict {
    match result {
        Ok(()) => Verdict::Passed(detail.to_owned()),
        Err(why) => Verdict::Failed(why),
    }
}

/// An open device, or why this check cannot run.
fn open(bench: &Bench<'_>) -> Result<Arc<Gpu>, Verdict> {
    if let Err(why) = bench.adapter {
        return Err(Verdict::Skipped(why.clone()));
    }
    Gpu::open(AdapterChoice::Best).map(Arc::new).map_err(|e| Verdict::Failed(e.to_string()))
}

fn run_on(session: &Session, n: u32, steps: u32, seed: u32, spoil: bool) -> Result<(), String> {
    let (plan, want) = chain(n, steps, seed).map_err(|e| e.to_string())?;
    let done = session.run(&Arc::new(plan), DEADLINE).map_err(|e| e.to_string())?;
    compare(&done.outputs, &want, spoil)
}

fn device(bench: &Bench<'_>) -> Verdict {
    let gpu = match open(bench) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let session = Session::new(gpu, bench.stack(Bytes::mib(256)));
    let name = session.caps().name.clone();
    let sizes = [1, 63, 64, 65, 10_000];
    let checked = sizes.iter().try_for_each(|n| run_on(&session, *n, 16, *n, bench.spoil));
    let allowed = bench.limit.map(|limit| format!(" within {limit}")).unwrap_or_default();
    passed(checked, &format!("{name}: bit for bit{allowed}"))
}

fn recovery(bench: &Bench<'_>) -> Verdict {
    let settings = RunnerSettings {
        deadline: DEADLINE,
        replay: !bench.spoil,
        // A device that is not there: the user's limit is for those that are.
        ..RunnerSettings::new(stack(Bytes::mib(64)))
    };
    let checked = DummyFault::ALL.iter().try_for_each(|fault| {
        let (plan, want) = chain(100, 8, 3).map_err(|e| e.to_string())?;
        let opener = DummyOpener::new(Bytes::gib(1), DummyScript::once(*fault, 2));
        let outcome =
            Runner::new(Box::new(opener), settings).run(plan).map_err(|e| format!("{fault:?}: {e}"))?;
        let outputs = outcome.chunks.first().map(|p| p.outputs.as_slice()).unwrap_or_default();
        compare(outputs, &want, false).map_err(|e| format!("{fault:?}: {e}"))
    });
    passed(checked, "every kind of fault was mended")
}

fn device_loss(bench: &Bench<'_>) -> Verdict {
    let gpu = match open(bench) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let session = Session::new(gpu.clone(), bench.stack(Bytes::mib(256)));
    if let Err(why) = run_on(&session, 1000, 4, 5, false) {
        return Verdict::Failed(why);
    }
    gpu.lose();
    let (plan, _) = match chain(1000, 4, 5) {
        Ok(made) => made,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    match session.run(&Arc::new(plan), DEADLINE) {
        Err(EngineError::DeviceLost { .. }) => {}
        other => {
            return Verdict::Failed(format!(
                "a destroyed device was not noticed: {:?}",
                other.map(|d| d.outputs.len())
            ));
        }
    }
    match open(bench) {
        Ok(gpu) => {
            let fresh = Session::new(gpu, bench.stack(Bytes::mib(256)));
            passed(run_on(&fresh, 1000, 4, 5, bench.spoil), "noticed, and a new device gave the known answer")
        }
        Err(verdict) => verdict,
    }
}

/// Items that need three times what they may use.
struct Items;

impl SplittableBatch for Items {
    fn len(&self) -> usize {
        24
    }

    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError> {
        let mut plan = Plan::new("self-test items");
        let mut outs = Vec::new();
        for i in items {
            outs.push(extend(&mut plan, 32 * 1024, 2, u32::try_from(i).unwrap_or(0))?);
        }
        for out in outs {
            plan.download(out)?;
        }
        Ok(plan)
    }
}

fn memory_limit(bench: &Bench<'_>) -> Verdict {
    if let Err(why) = bench.adapter {
        return Verdict::Skipped(why.clone());
    }
    let peak = match Items.record(0..Items.len()) {
        Ok(plan) => plan.cost().peak,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let limit = within(Bytes(peak.0 / 3), bench.limit);
    let settings =
        RunnerSettings { deadline: DEADLINE, cpu_fallback: false, ..RunnerSettings::new(stack(limit)) };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    let outcome = match runner.run_batch(&Items) {
        Ok(outcome) => outcome,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let items: usize = outcome.chunks.iter().map(|p| p.outputs.len()).sum();
    let used = runner.session().map_or(Bytes::ZERO, |s| s.memory().stats().device.peak);
    if items == Items.len() && used <= limit && !bench.spoil {
        Verdict::Passed(format!("{} pieces, peak {used} of {limit}", outcome.chunks.len()))
    } else {
        Verdict::Failed(format!("{items} of {} items, peak {used} of {limit}", Items.len()))
    }
}

fn transfers(bench: &Bench<'_>) -> Verdict {
    let gpu = match open(bench) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let session = Session::new(gpu, bench.stack(Bytes::gib(1)));
    // A quarter of the limit: at least half of it is for blocks.
    let size = within(TRANSFER, bench.limit.map(|limit| Bytes(limit.0 / 4)));
    let words = (0..u32::try_from(size.0).unwrap_or(0)).map(|i| i.wrapping_mul(2_654_435_761));
    let data: Vec<u8> = words.map(|i| (i >> 24) as u8).collect();
    let mut plan = Plan::new("self-test transfer");
    let record = |plan: &mut Plan| {
        let there = plan.upload(data.clone(), "self-test")?;
        plan.download(there)
    };
    if let Err(error) = record(&mut plan) {
        return Verdict::Failed(error.to_string());
    }
    let began = Instant::now();
    let done = session.run(&Arc::new(plan), DEADLINE).map_err(|e| e.to_string());
    let seconds = began.elapsed().as_secs_f64();
    let checked = done.and_then(|d| compare(&d.outputs, &[data], bench.spoil));
    let speed = 2.0 * size.0 as f64 / 1e9 / seconds;
    passed(checked, &format!("{size} there and back, {speed:.1} GB/s"))
}

fn threads(bench: &Bench<'_>) -> Verdict {
    let gpu = match open(bench) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let session = Session::new(gpu, bench.stack(Bytes::mib(256)));
    let checked = std::thread::scope(|scope| {
        let work = |seed: u32| {
            let session = &session;
            scope.spawn(move || (0..8).try_for_each(|i| run_on(session, 2000, 4, seed + i, false)))
        };
        let handles: Vec<_> = (0..4).map(|t| work(t * 100)).collect();
        handles.into_iter().try_for_each(|h| h.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    });
    let checked = if bench.spoil { Err("spoilt on purpose".to_owned()) } else { checked };
    passed(checked, "4 threads on one device, bit for bit")
}

/// A chain of kernels over integers, and its answer by plain Rust.
fn chain(n: u32, steps: u32, seed: u32) -> Result<(Plan, Vec<Vec<u8>>), PlanError> {
    let mut plan = Plan::new("self-test");
    let out = extend(&mut plan, n, steps, seed)?;
    plan.download(out)?;
    let mut values: Vec<u32> = start(n, seed);
    for step in 0..steps {
        for (i, value) in (0u32..).zip(values.iter_mut()) {
            *value = advance(*value, step, i);
        }
    }
    Ok((plan, vec![values.iter().flat_map(|v| v.to_le_bytes()).collect()]))
}

fn start(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| i.wrapping_mul(2_654_435_761).wrapping_add(seed)).collect()
}

fn advance(value: u32, step: u32, i: u32) -> u32 {
    value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223 ^ step).rotate_left(5) ^ i
}

fn extend(plan: &mut Plan, n: u32, steps: u32, seed: u32) -> Result<gpuforge_runtime::plan::Slot, PlanError> {
    let kernel = kernel();
    let bytes: Vec<u8> = start(n, seed).iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut last = plan.upload(bytes, "self-test in")?;
    for step in 0..steps {
        let out = plan.slot(Bytes(u64::from(n) * 4), "self-test out");
        plan.dispatch(&kernel, &[last, out], &[n, step], [n.div_ceil(64), 1, 1])?;
        plan.free(last)?;
        last = out;
    }
    Ok(last)
}

fn kernel() -> Arc<Kernel> {
    const WGSL: &str = include_str!("../shader/self_test.wgsl");
    Arc::new(Kernel {
        name: "self-test".into(),
        wgsl: WGSL.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let step = call.params.get(1).copied().unwrap_or(0);
            if let ([input], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
                put_words(out, words(input).zip(0u32..).map(|(value, i)| advance(value, step, i)));
            }
            Ok(())
        }),
    })
}
