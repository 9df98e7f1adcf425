//! Calibration recovers known cost laws within its time budget. Backends are simulated: they compute nothing and report times
//! by a known law on their own clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_ops::{Op, OpKind, Tuning, Variant, Work, registry};
use gpuforge_route::{
    Backend, CostModel, CpuBackend, DeviceBackend, OpClass,
    backend::{BackendError, BackendRun, Transfer},
    calibrate::{
        CalibrationOptions, CalibrationStep, TOO_NOISY, calibrate, calibrate_all, calibrate_with_clock,
    },
};
use gpuforge_runtime::{
    engine::gpu::GpuOpener,
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::adapter;

/// Simulated backend with known cost laws and its own clock.
#[derive(Default)]
struct SimulatedBackend {
    clock: AtomicU64,
    runs: AtomicUsize,
    launch: u64,
    /// Nanoseconds per byte moved, and per transfer.
    transfer: Option<(f64, f64)>,
    /// Times of every kind are multiplied by this; 0 counts as 1.
    slow: f64,
    /// Repetitions differ by up to this share.
    noise: f64,
    /// The first run of a kind takes this much longer.
    compile: u64,
    seen: Mutex<Vec<(OpKind, Option<Variant>)>>,
    /// Fails from this run on.
    fails_at: Option<usize>,
    /// Variants of this kind other than the default are faster by this factor, the last one most.
    gain: Option<(OpKind, f64)>,
    tuning: Mutex<Tuning>,
}

impl SimulatedBackend {
    fn device() -> Self {
        SimulatedBackend {
            launch: 80_000,
            transfer: Some((0.1, 5_000.0)),
            compile: 9_000_000,
            ..SimulatedBackend::default()
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    fn pass(&self, ns: f64) -> Duration {
        self.clock.fetch_add(ns as u64, Ordering::Relaxed);
        Duration::from_nanos(ns as u64)
    }

    /// The computation alone.
    fn law(&self, kind: OpKind, units: u64) -> f64 {
        let slope = match kind {
            OpKind::Matmul | OpKind::BatchMatmul => 0.02,
            OpKind::Sort => 9.0,
            _ => 0.3,
        };
        let slow = if self.slow == 0.0 { 1.0 } else { self.slow };
        600.0 + self.launch as f64 + units as f64 * slope * slow
    }

    fn moving(&self, work: &Work) -> f64 {
        let one = |bytes: u64| match self.transfer {
            Some((per_byte, fixed)) if bytes > 0 => fixed + per_byte * bytes as f64,
            _ => 0.0,
        };
        one(work.upload.0) + one(work.download.0)
    }
}

impl Backend for SimulatedBackend {
    fn name(&self) -> String {
        "simulated".to_owned()
    }

    fn driver(&self) -> Option<String> {
        Some("laws 1.0".to_owned())
    }

    fn launch(&self) -> Result<Duration, BackendError> {
        Ok(self.pass(self.launch as f64))
    }

    fn transfer(&self, bytes: usize) -> Result<Option<Transfer>, BackendError> {
        let Some((per_byte, fixed)) = self.transfer else { return Ok(None) };
        let one = fixed + per_byte * bytes as f64;
        self.pass(2.0 * one + 3.0 * self.launch as f64);
        let one = Duration::from_nanos(one as u64);
        Ok(Some(Transfer { upload: one, download: one }))
    }

    fn tune(&self, tuning: Tuning) {
        *self.tuning.lock().unwrap() = tuning;
    }

    fn run(&self, op: &dyn Op, _keep_on_device: bool) -> Result<BackendRun, BackendError> {
        let n = self.runs.fetch_add(1, Ordering::Relaxed);
        if self.fails_at.is_some_and(|at| n >= at) {
            return Err(BackendError::Device { error: "the device is lost".to_owned(), events: Vec::new() });
        }
        let work = Work::of(op, false)?;
        let variant = self.tuning.lock().unwrap().get(op.kind());
        let mut compute = self.law(op.kind(), work.cost.units);
        if let (Some((kind, gain)), Some(variant)) = (self.gain, variant)
            && kind == op.kind()
        {
            let rank = op.variants().iter().position(|v| *v == variant).unwrap();
            compute /= 1.0 + (gain - 1.0) * rank as f64 / (op.variants().len() - 1) as f64;
        }
        let key = (op.kind(), variant);
        let mut seen = self.seen.lock().unwrap();
        let cold = self.compile > 0 && !seen.contains(&key);
        if cold {
            seen.push(key);
            compute += self.compile as f64;
        }
        let wobble = 1.0 + self.noise * (n as f64 * 0.618).fract();
        let wall = self.pass((compute + self.moving(&work)) * wobble);
        Ok(BackendRun { outputs: Vec::new(), wall, device_time: None, cold, pieces: 1, events: Vec::new() })
    }
}

/// Kinds whose examples are cheap to build at every size.
const KINDS: [OpKind; 3] = [OpKind::Xor, OpKind::Uniform, OpKind::Matmul];

fn measure(
    backend: &SimulatedBackend,
    options: &CalibrationOptions,
) -> (Result<CostModel, BackendError>, Duration) {
    let began = backend.now();
    let model = calibrate_with_clock(backend, options, &|| backend.now(), &mut |_| {});
    (model, backend.now() - began)
}

fn quick(kinds: &[OpKind]) -> CalibrationOptions {
    CalibrationOptions {
        budget: Duration::from_secs(5),
        kinds: Some(kinds.to_vec()),
        ..CalibrationOptions::quick()
    }
}

/// The worst relative error of predictions at sizes that were and were not measured.
fn worst(backend: &SimulatedBackend, model: &CostModel, kind: OpKind, sizes: &[usize]) -> f64 {
    let error = |size: &usize| {
        let op = (registry::entry(kind).unwrap().example)(&[*size]).unwrap();
        let work = Work::of(op.as_ref(), false).unwrap();
        let law = backend.law(kind, work.cost.units) + backend.moving(&work);
        (f64::from(model.predict(OpClass::of(kind), &work).0) / law - 1.0).abs()
    };
    sizes.iter().map(error).fold(0.0, f64::max)
}

#[test]
fn cpu_cost_law_is_recovered() {
    let backend = SimulatedBackend::default();
    let model = measure(&backend, &quick(&KINDS)).0.unwrap();
    assert_eq!((model.launch_ns, &model.upload, &model.download), (0.0, &None, &None));
    assert_eq!((model.name.as_str(), model.driver.as_deref()), ("simulated", Some("laws 1.0")));
    for kind in [OpKind::Xor, OpKind::Uniform] {
        let error = worst(&backend, &model, kind, &[300, 700, 5_000, 48_000, 300_000, 1_000_000, 3 << 20]);
        assert!(error < 0.08, "{kind:?}: {error}");
    }
    // Sizes of matrices that double lie a factor of eight apart.
    let error = worst(&backend, &model, OpKind::Matmul, &[40, 96, 200, 300, 600]);
    assert!(error < 0.12, "{error}");
    let dense = CalibrationOptions { kinds: Some(KINDS.to_vec()), ..CalibrationOptions::full() };
    let dense = measure(&backend, &dense).0.unwrap();
    let error = worst(&backend, &dense, OpKind::Matmul, &[40, 100, 200, 300, 600]);
    assert!(error < 0.04, "{error}");
    assert_eq!(model.spread, Some(0.0));
    let (byte, flop) = (model.byte_ns.unwrap(), model.flop_ns.unwrap());
    assert!((0.1..0.2).contains(&byte), "0.3 ns a unit, a byte read and one written: {byte}");
    assert!(flop > 0.0 && flop <= 0.0201, "{flop}");
}

#[test]
fn device_cost_law_is_recovered_with_transfers() {
    let backend = SimulatedBackend::device();
    let model = measure(&backend, &quick(&KINDS)).0.unwrap();
    assert!((model.launch_ns / 80_000.0 - 1.0).abs() < 0.01);
    for bytes in [10_000u64, 300_000, 20_000_000] {
        let ns = f64::from(model.upload.as_ref().unwrap().at(bytes));
        let law = 5_000.0 + 0.1 * bytes as f64;
        assert!((ns / law - 1.0).abs() < 0.06, "{bytes} bytes: {ns} is not {law}");
    }
    for kind in [OpKind::Xor, OpKind::Uniform] {
        let error = worst(&backend, &model, kind, &[300, 5_000, 48_000, 300_000, 1_000_000, 3 << 20]);
        assert!(error < 0.08, "{kind:?}: {error}");
    }
    assert!(worst(&backend, &model, OpKind::Matmul, &[40, 200, 600]) < 0.12);
}

#[test]
fn compile_time_is_excluded() {
    let backend = SimulatedBackend::device();
    let model = measure(&backend, &quick(&[OpKind::Xor])).0.unwrap();
    let smallest = model.curve(OpKind::Xor).unwrap().points()[0];
    assert!(smallest.ns < 100_000.0, "{smallest:?}");
}

#[test]
fn calibration_keeps_its_budget_on_slow_backends() {
    for slow in [1.0, 100.0, 10_000.0] {
        let backend = SimulatedBackend { slow, ..SimulatedBackend::device() };
        let (model, took) = measure(&backend, &quick(&KINDS));
        assert!(took <= Duration::from_secs(5), "{slow}: {took:?}");
        let points = |kind| model.as_ref().unwrap().curve(kind).map_or(0, |c| c.points().len());
        assert!(points(OpKind::Xor) > 1 && points(OpKind::Matmul) > 1, "{slow}");
    }
    let fast = measure(&SimulatedBackend::device(), &quick(&KINDS)).0.unwrap();
    let slow = measure(&SimulatedBackend { slow: 10_000.0, ..SimulatedBackend::device() }, &quick(&KINDS))
        .0
        .unwrap();
    let points = |model: &CostModel| model.curve(OpKind::Xor).unwrap().points().len();
    assert!(points(&slow) < points(&fast), "a slow backend gets fewer sizes");
}

#[test]
fn micro_calibration_keeps_its_budget_on_any_backend() {
    for (slow, compile) in [(1.0, 0), (1.0, 30_000_000), (1_000.0, 20_000_000), (1e6, 1_000)] {
        let backend = SimulatedBackend { slow, compile, ..SimulatedBackend::device() };
        let (model, took) = measure(&backend, &CalibrationOptions::micro());
        // Opening is the one launch before the clock starts; the first run of a kernel is the only one of unknown length.
        let unknown = if slow > 1e5 { Duration::from_secs(3600) } else { Duration::ZERO };
        assert!(took <= Duration::from_millis(151) + unknown, "slow {slow}, compile {compile}: {took:?}");
        model.unwrap();
    }
    let model = measure(&SimulatedBackend::device(), &CalibrationOptions::micro()).0.unwrap();
    assert!(model.is_known() && model.flop_ns.is_some() && model.upload.is_some());
    assert_eq!(model.kinds().count(), 2);
}

#[test]
fn the_host_cpu_calibrates_within_the_micro_budget() {
    let backend = CpuBackend::default();
    calibrate(&backend, &CalibrationOptions::micro(), &mut |_| {}).unwrap();
    let began = Instant::now();
    let model = calibrate(&backend, &CalibrationOptions::micro(), &mut |_| {}).unwrap();
    // A busy machine may keep us waiting once, in the middle of a run.
    assert!(began.elapsed() < Duration::from_millis(150 + 250), "{:?}", began.elapsed());
    assert!(model.is_known(), "{model:?}");
    assert_eq!(model.launch_ns, 0.0);
}

#[test]
fn auto_tuning_keeps_a_variant_only_if_it_is_faster() {
    let variants = {
        let op = (registry::entry(OpKind::Xor).unwrap().example)(&[64]).unwrap();
        op.variants()
    };
    assert!(variants.len() > 1);
    let backend =
        SimulatedBackend { gain: Some((OpKind::Xor, 2.0)), launch: 100, ..SimulatedBackend::device() };
    let model = measure(&backend, &quick(&[OpKind::Xor])).0.unwrap();
    assert_eq!(model.tuning.get(OpKind::Xor), variants.last().copied());
    assert_eq!(*backend.tuning.lock().unwrap(), model.tuning, "the backend uses it");
    let same = SimulatedBackend { gain: Some((OpKind::Xor, 1.01)), noise: 0.1, ..SimulatedBackend::device() };
    let model = measure(&same, &quick(&[OpKind::Xor])).0.unwrap();
    assert_eq!(model.tuning.get(OpKind::Xor), None, "within noise nothing is better than the default");
    let untuned = CalibrationOptions { tune: false, ..quick(&[OpKind::Xor]) };
    let backend =
        SimulatedBackend { gain: Some((OpKind::Xor, 2.0)), launch: 100, ..SimulatedBackend::device() };
    assert_eq!(measure(&backend, &untuned).0.unwrap().tuning, Tuning::default());
}

#[test]
fn a_failing_device_ends_only_its_own_calibration() {
    for at in [0, 1, 17, 60] {
        let backend = SimulatedBackend { fails_at: Some(at), ..SimulatedBackend::device() };
        let error = measure(&backend, &quick(&KINDS)).0.unwrap_err();
        assert_eq!(error.to_string(), "the device is lost", "at run {at}");
    }
    let backends: Vec<Arc<dyn Backend>> = vec![
        Arc::new(CpuBackend::default()),
        Arc::new(SimulatedBackend { fails_at: Some(0), ..SimulatedBackend::device() }),
        Arc::new(SimulatedBackend::device()),
    ];
    let options = CalibrationOptions { budget: Duration::from_millis(300), ..CalibrationOptions::micro() };
    let models = calibrate_all(&backends, &options, &mut |_| {});
    assert!(matches!(models.as_slice(), [Ok(_), Err(_), Ok(_)]), "{models:?}");
}

#[test]
fn measurement_noise_is_recorded() {
    let calm =
        measure(&SimulatedBackend { noise: 0.02, ..SimulatedBackend::device() }, &quick(&[OpKind::Xor]))
            .0
            .unwrap();
    assert!(calm.spread.unwrap() < 0.03, "{:?}", calm.spread);
    let wild =
        measure(&SimulatedBackend { noise: 2.0, ..SimulatedBackend::device() }, &quick(&[OpKind::Xor]))
            .0
            .unwrap();
    assert!(wild.spread.unwrap() > TOO_NOISY, "{:?}", wild.spread);
}

#[test]
fn progress_reports_every_step() {
    let backend = SimulatedBackend { slow: 1e5, ..SimulatedBackend::device() };
    let mut steps = Vec::new();
    let clock = || backend.now();
    calibrate_with_clock(&backend, &quick(&[OpKind::Xor]), &clock, &mut |p| {
        assert!(p.backend == "simulated" && (0.0..=1.0).contains(&p.done));
        steps.push(match p.step {
            CalibrationStep::Opening => "opening",
            CalibrationStep::Launch => "launch",
            CalibrationStep::Transfer(_) => "transfer",
            CalibrationStep::Tuning(_) => "tuning",
            CalibrationStep::Measuring(..) => "kind",
            CalibrationStep::Stopped(..) => "ends",
        });
    })
    .unwrap();
    for step in ["opening", "launch", "transfer", "tuning", "kind", "ends"] {
        assert!(steps.contains(&step), "{step}: {steps:?}");
    }
}

/// The host adapter; `None` where there is none.
fn adapter() -> Option<DeviceBackend> {
    let budget = Budget { bytes: Bytes::mib(512), origin: BudgetOrigin::User };
    let settings = RunnerSettings::new(StackSettings::new(budget));
    let runner = Arc::new(Runner::new(Box::new(GpuOpener::default()), settings));
    let caps = adapter::or_skip(runner.warm())?;
    Some(DeviceBackend::new(caps.name, None, runner))
}

#[test]
fn the_host_device_calibrates_within_the_micro_budget() {
    let Some(backend) = adapter() else { return };
    let began = Instant::now();
    let model = calibrate(&backend, &CalibrationOptions::micro(), &mut |_| {}).unwrap();
    let took = began.elapsed();
    println!("{took:?}: {} kinds, spread {:?}", model.kinds().count(), model.spread);
    // Half of that is the budget; the rest is what a first kernel may take to compile on a busy machine.
    assert!(took < Duration::from_millis(150 + 500), "{took:?}");
    assert!(model.launch_ns > 0.0 && model.upload.is_some() && model.download.is_some(), "{model:?}");
}

#[test]
fn every_requested_kind_gets_a_curve_on_the_host_device() {
    let Some(backend) = adapter() else { return };
    let options = CalibrationOptions {
        budget: Duration::from_secs(4),
        kinds: Some(vec![OpKind::Xor, OpKind::Uniform, OpKind::Matmul]),
        max_sizes: 3,
        size_range: (0.0, 0.5),
        ..CalibrationOptions::quick()
    };
    let model = calibrate(&backend, &options, &mut |_| {}).unwrap();
    for kind in [OpKind::Xor, OpKind::Uniform, OpKind::Matmul] {
        let curve = model.curve(kind).unwrap_or_else(|| panic!("{kind:?} has no curve"));
        assert!(curve.points().len() >= 2, "{kind:?}: {:?}", curve.points());
    }
    let op = (registry::entry(OpKind::Xor).unwrap().example)(&[10_000]).unwrap();
    let work = Work::of(op.as_ref(), false).unwrap();
    backend.run(op.as_ref(), false).unwrap();
    let mut times: Vec<f64> =
        (0..15).map(|_| backend.run(op.as_ref(), false).unwrap().wall.as_nanos() as f64).collect();
    times.sort_by(f64::total_cmp);
    let factor = f64::from(model.predict(OpClass::of(OpKind::Xor), &work).0) / times[7];
    println!("predicted {factor:.2} times of what it took");
    assert!((0.1..10.0).contains(&factor), "{factor}");
}
