//! Self-test: named checks of settings, detection, CPU, device, fault recovery and transfers; quick or full.

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
        gpu::{AdapterChoice, GpuEngine, GpuOpener},
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

use crate::settings::{Env, Settings, UserPaths};

/// Target of a cold start.
const TARGET_MS: f64 = 1000.0;
const DEADLINE: Duration = Duration::from_secs(60);
/// Device checks need this much memory, and are skipped below it.
const MIN_MEMORY: Bytes = Bytes::mib(8);
/// Size of the transfer check, if the memory limit allows.
const TRANSFER: Bytes = Bytes::mib(64);
/// Fault injection: names a check whose result is corrupted, to show that a failure is detected.
pub const FAULT_VARIABLE: &str = "GPUFORGE_SELF_TEST_FAULT";

/// The outcome of a self-test.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SelfTestReport {
    /// Cold and warm start times.
    pub init: ColdStart,
    /// The user's device memory limit, which the device checks respect.
    pub memory_limit: Option<Bytes>,
    /// Every check.
    pub tests: Vec<SelfTestResult>,
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// Checks that this machine cannot run.
    pub skipped: usize,
}

/// Start times of a device.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ColdStart {
    /// Median time from no device to a first result; `None` without a device.
    pub cold_ms: Option<f64>,
    /// Median of a second result on the open device.
    pub warm_ms: Option<f64>,
    /// The fastest cold start.
    pub min_ms: Option<f64>,
    /// The slowest cold start.
    pub max_ms: Option<f64>,
    /// Number of cold starts.
    pub n: usize,
    /// Target of a cold start.
    pub target_ms: f64,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
pub struct SelfTestResult {
    /// Name.
    pub name: &'static str,
    /// Passed; a skipped check is `true` and its detail says why it was skipped.
    pub ok: bool,
    /// It cannot run on this machine.
    pub skipped: bool,
    /// Milliseconds.
    pub ms: f64,
    /// Details.
    pub detail: String,
}

/// The outcome of a check.
enum CheckOutcome {
    Passed(String),
    Skipped(String),
    Failed(String),
}

/// The environment of a check.
struct CheckContext<'a> {
    paths: &'a UserPaths,
    env: Env<'a>,
    /// Corrupt the result of this check.
    inject_fault: bool,
    /// Why no device can be checked, if none can.
    adapter: &'a Result<(), String>,
    /// The user's device memory limit.
    limit: Option<Bytes>,
}

impl CheckContext<'_> {
    /// Memory settings for a check that needs this much, within the limit.
    fn stack(&self, size: Bytes) -> StackSettings {
        stack(within(size, self.limit))
    }
}

fn within(size: Bytes, limit: Option<Bytes>) -> Bytes {
    limit.map_or(size, |limit| size.min(limit))
}

type Check = fn(&CheckContext<'_>) -> CheckOutcome;

/// Name, part of the quick test, check.
const CHECKS: [(&str, bool, Check); 10] = [
    ("settings", true, settings),
    ("detection", true, detection),
    ("cache", true, cache),
    ("processor", true, cpu),
    ("device", true, device),
    ("recovery", true, recovery),
    ("device loss", false, device_loss),
    ("memory limit", false, memory_limit),
    ("transfers", false, transfers),
    ("threads", false, threads),
];

/// Runs the checks; a failure does not stop the others.
pub fn run(
    full: bool,
    settings: &Settings,
    paths: &UserPaths,
    env: Env<'_>,
    mut progress: impl FnMut(&SelfTestResult),
) -> SelfTestReport {
    let limit = settings.memory_limit().map(Bytes);
    let (init, adapter) = measure_init(if full { 10 } else { 3 }, limit);
    let fault = env(FAULT_VARIABLE);
    let mut report = SelfTestReport { init, memory_limit: limit, ..SelfTestReport::default() };
    for (name, _, check) in CHECKS.iter().filter(|(_, quick, _)| full || *quick) {
        let inject_fault = fault.as_deref() == Some(*name);
        let began = Instant::now();
        let outcome = check(&CheckContext { paths, env, inject_fault, adapter: &adapter, limit });
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let (ok, skipped, detail) = match outcome {
            CheckOutcome::Passed(detail) => (true, false, detail),
            CheckOutcome::Skipped(why) => (true, true, why),
            CheckOutcome::Failed(why) => (false, false, why),
        };
        match (ok, skipped) {
            (_, true) => report.skipped += 1,
            (true, false) => report.passed += 1,
            (false, false) => report.failed += 1,
        }
        let test = SelfTestResult { name, ok, skipped, ms, detail };
        progress(&test);
        report.tests.push(test);
    }
    report
}

/// Times several cold starts; an error says why no device can be checked.
fn measure_init(n: usize, limit: Option<Bytes>) -> (ColdStart, Result<(), String>) {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    let none = |why| (ColdStart { target_ms: TARGET_MS, ..ColdStart::default() }, Err(why));
    if let Some(limit) = limit.filter(|l| *l < MIN_MEMORY) {
        return none(format!("the memory limit is {limit}; the checks of a device need {MIN_MEMORY}"));
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
    let init = ColdStart {
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

fn settings(context: &CheckContext<'_>) -> CheckOutcome {
    if context.inject_fault {
        return CheckOutcome::Failed("injected fault".to_owned());
    }
    match Settings::load(context.paths, context.env, &[]) {
        Ok(settings) => CheckOutcome::Passed(format!("{} settings are in order", settings.all().count())),
        Err(error) => CheckOutcome::Failed(error.to_string()),
    }
}

fn detection(context: &CheckContext<'_>) -> CheckOutcome {
    let settings = Settings::load_lenient(context.paths, context.env, &[]);
    let mut options = crate::detection::options(&settings, context.paths, context.env);
    options.tier0_only = true;
    options.cache = gpuforge_detect::CacheUse::Off;
    let inventory = gpuforge_detect::detect(&options, context.env);
    let threads = inventory.cpu.as_ref().and_then(|c| c.available).filter(|_| !context.inject_fault);
    match threads {
        Some(threads) => {
            CheckOutcome::Passed(format!("{threads} threads, {} GPUs by kernel files", inventory.gpus.len()))
        }
        None => CheckOutcome::Failed("the CPU was not recognised".to_owned()),
    }
}

fn cache(context: &CheckContext<'_>) -> CheckOutcome {
    let directory = match tempfile::tempdir() {
        Ok(directory) => directory,
        Err(error) => return CheckOutcome::Failed(format!("no temporary directory: {error}")),
    };
    let store = DetectionCache::new(directory.path(), Duration::from_secs(60));
    let now = std::time::SystemTime::now();
    let wrote = store.store("self-test", &Detected::default(), now);
    let asked = if context.inject_fault { "another" } else { "self-test" };
    match (wrote, store.lookup(asked, now)) {
        (Ok(()), CacheLookup::Hit(..)) => CheckOutcome::Passed("written and read back".to_owned()),
        (Err(error), _) => CheckOutcome::Failed(error.to_string()),
        (Ok(()), CacheLookup::Miss(why)) => CheckOutcome::Failed(format!("written but not found: {why:?}")),
    }
}

/// Compares results with the expected ones.
fn compare(got: &[Vec<u8>], want: &[Vec<u8>], inject_fault: bool) -> Result<(), String> {
    let equal = got == want && !inject_fault;
    if equal { Ok(()) } else { Err("the result differs from the known answer".to_owned()) }
}

fn cpu(context: &CheckContext<'_>) -> CheckOutcome {
    let checked = chain(10_000, 16, 1).map_err(|e| e.to_string()).and_then(|(plan, want)| {
        let done = reference::run(&plan).map_err(|e| e.to_string())?;
        compare(&done.outputs, &want, context.inject_fault)
    });
    passed(checked, "16 kernels, bit for bit")
}

fn passed(result: Result<(), String>, detail: &str) -> CheckOutcome {
    match result {
        Ok(()) => CheckOutcome::Passed(detail.to_owned()),
        Err(why) => CheckOutcome::Failed(why),
    }
}

/// An open device, or why this check cannot run.
fn open(context: &CheckContext<'_>) -> Result<Arc<GpuEngine>, CheckOutcome> {
    if let Err(why) = context.adapter {
        return Err(CheckOutcome::Skipped(why.clone()));
    }
    GpuEngine::open(AdapterChoice::Best).map(Arc::new).map_err(|e| CheckOutcome::Failed(e.to_string()))
}

fn run_on(session: &Session, n: u32, steps: u32, seed: u32, inject_fault: bool) -> Result<(), String> {
    let (plan, want) = chain(n, steps, seed).map_err(|e| e.to_string())?;
    let done = session.run(&Arc::new(plan), DEADLINE).map_err(|e| e.to_string())?;
    compare(&done.outputs, &want, inject_fault)
}

fn device(context: &CheckContext<'_>) -> CheckOutcome {
    let gpu = match open(context) {
        Ok(gpu) => gpu,
        Err(outcome) => return outcome,
    };
    let session = Session::new(gpu, context.stack(Bytes::mib(256)));
    let name = session.caps().name.clone();
    let sizes = [1, 63, 64, 65, 10_000];
    let checked = sizes.iter().try_for_each(|n| run_on(&session, *n, 16, *n, context.inject_fault));
    let allowed = context.limit.map(|limit| format!(" within {limit}")).unwrap_or_default();
    passed(checked, &format!("{name}: bit for bit{allowed}"))
}

fn recovery(context: &CheckContext<'_>) -> CheckOutcome {
    let settings = RunnerSettings {
        deadline: DEADLINE,
        replay: !context.inject_fault,
        // A dummy device: the user's limit applies to real ones.
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
    passed(checked, "recovered from every kind of fault")
}

fn device_loss(context: &CheckContext<'_>) -> CheckOutcome {
    let gpu = match open(context) {
        Ok(gpu) => gpu,
        Err(outcome) => return outcome,
    };
    let session = Session::new(gpu.clone(), context.stack(Bytes::mib(256)));
    if let Err(why) = run_on(&session, 1000, 4, 5, false) {
        return CheckOutcome::Failed(why);
    }
    gpu.lose();
    let (plan, _) = match chain(1000, 4, 5) {
        Ok(made) => made,
        Err(error) => return CheckOutcome::Failed(error.to_string()),
    };
    match session.run(&Arc::new(plan), DEADLINE) {
        Err(EngineError::DeviceLost { .. }) => {}
        other => {
            return CheckOutcome::Failed(format!(
                "a destroyed device was not noticed: {:?}",
                other.map(|d| d.outputs.len())
            ));
        }
    }
    match open(context) {
        Ok(gpu) => {
            let fresh = Session::new(gpu, context.stack(Bytes::mib(256)));
            passed(
                run_on(&fresh, 1000, 4, 5, context.inject_fault),
                "noticed, and a new device gave the known answer",
            )
        }
        Err(outcome) => outcome,
    }
}

/// Items that need three times the memory limit.
struct SplitItems;

impl SplittableBatch for SplitItems {
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

fn memory_limit(context: &CheckContext<'_>) -> CheckOutcome {
    if let Err(why) = context.adapter {
        return CheckOutcome::Skipped(why.clone());
    }
    let peak = match SplitItems.record(0..SplitItems.len()) {
        Ok(plan) => plan.cost().peak,
        Err(error) => return CheckOutcome::Failed(error.to_string()),
    };
    let limit = within(Bytes(peak.0 / 3), context.limit);
    let settings =
        RunnerSettings { deadline: DEADLINE, cpu_fallback: false, ..RunnerSettings::new(stack(limit)) };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    let outcome = match runner.run_batch(&SplitItems) {
        Ok(outcome) => outcome,
        Err(error) => return CheckOutcome::Failed(error.to_string()),
    };
    let items: usize = outcome.chunks.iter().map(|p| p.outputs.len()).sum();
    let used = runner.session().map_or(Bytes::ZERO, |s| s.memory().stats().device.peak);
    if items == SplitItems.len() && used <= limit && !context.inject_fault {
        CheckOutcome::Passed(format!("{} chunks, peak {used} of {limit}", outcome.chunks.len()))
    } else {
        CheckOutcome::Failed(format!("{items} of {} items, peak {used} of {limit}", SplitItems.len()))
    }
}

fn transfers(context: &CheckContext<'_>) -> CheckOutcome {
    let gpu = match open(context) {
        Ok(gpu) => gpu,
        Err(outcome) => return outcome,
    };
    let session = Session::new(gpu, context.stack(Bytes::gib(1)));
    // A quarter of the limit: at least half of it is available to buffers.
    let size = within(TRANSFER, context.limit.map(|limit| Bytes(limit.0 / 4)));
    let words = (0..u32::try_from(size.0).unwrap_or(0)).map(|i| i.wrapping_mul(2_654_435_761));
    let data: Vec<u8> = words.map(|i| (i >> 24) as u8).collect();
    let mut plan = Plan::new("self-test transfer");
    let record = |plan: &mut Plan| {
        let there = plan.upload(data.clone(), "self-test")?;
        plan.download(there)
    };
    if let Err(error) = record(&mut plan) {
        return CheckOutcome::Failed(error.to_string());
    }
    let began = Instant::now();
    let done = session.run(&Arc::new(plan), DEADLINE).map_err(|e| e.to_string());
    let seconds = began.elapsed().as_secs_f64();
    let checked = done.and_then(|d| compare(&d.outputs, &[data], context.inject_fault));
    let speed = 2.0 * size.0 as f64 / 1e9 / seconds;
    passed(checked, &format!("{size} there and back, {speed:.1} GB/s"))
}

fn threads(context: &CheckContext<'_>) -> CheckOutcome {
    let gpu = match open(context) {
        Ok(gpu) => gpu,
        Err(outcome) => return outcome,
    };
    let session = Session::new(gpu, context.stack(Bytes::mib(256)));
    let checked = std::thread::scope(|scope| {
        let work = |seed: u32| {
            let session = &session;
            scope.spawn(move || (0..8).try_for_each(|i| run_on(session, 2000, 4, seed + i, false)))
        };
        let handles: Vec<_> = (0..4).map(|t| work(t * 100)).collect();
        handles.into_iter().try_for_each(|h| h.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    });
    let checked = if context.inject_fault { Err("injected fault".to_owned()) } else { checked };
    passed(checked, "4 threads on one device, bit for bit")
}

/// A sequence of integer kernels, and its result in plain Rust.
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
