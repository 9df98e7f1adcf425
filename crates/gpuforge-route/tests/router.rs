//! Router: runs, fallback and online correction, with simulated backends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gpuforge_ops::{Op, OpError, view::tensor, xor};
use gpuforge_route::{
    Backend, CostModel, CpuBackend, DeviceBackend, OpKind, PlacementPolicy, Reason, RouteError, Router,
    RouterSettings,
    backend::{BackendError, BackendRun},
    curve::{Curve, Point},
    router::RunOptions,
};
use gpuforge_runtime::{
    engine::{
        dummy::{DummyFault, DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::adapter;

fn op(n: usize) -> Arc<dyn Op> {
    let data: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
    Arc::new(xor(&tensor(&data, &[n], "data").unwrap(), &tensor(&[1u8, 2, 3], &[3], "key").unwrap()))
}

fn want(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8 ^ [1, 2, 3][i % 3]).collect()
}

fn memory(budget: Bytes) -> StackSettings {
    StackSettings::new(Budget { bytes: budget, origin: BudgetOrigin::User })
}

fn dummy(script: DummyScript, budget: Bytes) -> Arc<dyn Backend> {
    let opener = DummyOpener::new(Bytes::gib(1), script);
    let runner = Runner::new(Box::new(opener), RunnerSettings::new(memory(budget)));
    Arc::new(DeviceBackend::new("dummy", None, Arc::new(runner)))
}

fn cpu() -> Arc<dyn Backend> {
    Arc::new(CpuBackend::default())
}

fn bytes(ran: &gpuforge_route::RunOutput) -> Vec<u8> {
    ran.tensor().unwrap().host().unwrap().to_vec()
}

#[test]
fn every_backend_gives_the_same_result() {
    let router = Router::new(
        vec![cpu(), dummy(DummyScript::default(), Bytes::gib(1))],
        vec![],
        RouterSettings::default(),
    );
    for (backend, name) in [(0, "cpu"), (1, "dummy")] {
        let options = RunOptions { placement: PlacementPolicy::Only(backend), keep_on_device: false };
        let ran = router.run_with(op(1000).as_ref(), options).unwrap();
        assert_eq!(bytes(&ran), want(1000));
        assert_eq!((ran.report().backend.as_str(), ran.decision().reason), (name, Reason::Requested));
    }
    let error = router
        .run_with(op(1).as_ref(), RunOptions { placement: PlacementPolicy::Only(7), keep_on_device: false })
        .unwrap_err();
    assert_eq!(error.to_string(), "there is no backend 7: there are 2 (0 is the CPU)");
}

#[test]
fn device_resident_results_are_downloaded_for_the_cpu() {
    let router = Router::new(
        vec![cpu(), dummy(DummyScript::default(), Bytes::gib(1))],
        vec![],
        RouterSettings::default(),
    );
    let ran = router
        .run_with(op(1000).as_ref(), RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: true })
        .unwrap();
    let there = ran.tensor().unwrap().clone();
    assert!(there.host().is_none() && there.on_device());
    let again = xor(&there, &tensor(&[1u8, 2, 3], &[3], "key").unwrap());
    let back = router
        .run_with(&again, RunOptions { placement: PlacementPolicy::Only(0), keep_on_device: false })
        .unwrap();
    assert_eq!(bytes(&back), (0..1000).map(|i| (i % 251) as u8).collect::<Vec<_>>());
}

#[test]
fn device_failure_falls_back_to_the_cpu_and_is_reported() {
    let broken = || dummy(DummyScript::always(DummyFault::Loss), Bytes::gib(1));
    let router = Router::new(vec![cpu(), broken()], vec![], RouterSettings::default());
    let ran = router
        .run_with(
            op(1000).as_ref(),
            RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false },
        )
        .unwrap();
    assert_eq!(bytes(&ran), want(1000));
    assert_eq!((ran.decision().backend_id, ran.decision().reason), (0, Reason::Fallback));
    assert!(ran.report().fallback.as_ref().unwrap().contains("lost"), "{:?}", ran.report());
    assert!(ran.report().events.len() > 1, "every step is there");
    let strict = Router::new(
        vec![cpu(), broken()],
        vec![],
        RouterSettings { cpu_fallback: false, ..RouterSettings::default() },
    );
    let error = strict
        .run_with(op(10).as_ref(), RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false })
        .unwrap_err();
    assert!(matches!(error, RouteError::Backend { ref backend, .. } if backend == "dummy"), "{error}");
}

#[test]
fn oversized_work_is_split() {
    let router = Router::new(
        vec![cpu(), dummy(DummyScript::default(), Bytes::kib(64))],
        vec![],
        RouterSettings::default(),
    );
    let ran = router
        .run_with(
            op(300_001).as_ref(),
            RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false },
        )
        .unwrap();
    assert_eq!(bytes(&ran), want(300_001));
    assert!(ran.report().pieces > 5 && ran.report().fallback.is_none(), "{:?}", ran.report());
}

#[test]
fn an_adapter_gives_the_same_result() {
    let runner = Runner::new(Box::new(GpuOpener::default()), RunnerSettings::new(memory(Bytes::gib(1))));
    if adapter::or_skip(runner.warm()).is_none() {
        return;
    }
    let backend: Arc<dyn Backend> = Arc::new(DeviceBackend::new("adapter", None, Arc::new(runner)));
    let router = Router::new(vec![cpu(), backend], vec![], RouterSettings::default());
    for (n, cold) in [(70_001, true), (70_001, false)] {
        let ran = router
            .run_with(
                op(n).as_ref(),
                RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false },
            )
            .unwrap();
        assert_eq!(bytes(&ran), want(n));
        assert_eq!(ran.report().cold, cold);
    }
}

#[test]
fn invalid_ops_are_not_retried_elsewhere() {
    let router = Router::new(
        vec![cpu(), dummy(DummyScript::default(), Bytes::gib(1))],
        vec![],
        RouterSettings::default(),
    );
    let floats = tensor(&[1f32], &[1], "x").unwrap();
    assert!(matches!(router.run(&xor(&floats, &floats)), Err(RouteError::Op(OpError::DType { .. }))));
}

/// Simulated backend: reports times by a law, without waiting.
struct Fake {
    name: &'static str,
    ns_per_unit: f64,
    fixed_ns: f64,
    runs: AtomicUsize,
    usable: AtomicBool,
    spent: Mutex<Duration>,
}

impl Fake {
    fn new(name: &'static str, ns_per_unit: f64, fixed_ns: f64) -> Arc<Fake> {
        let (runs, usable, spent) = (AtomicUsize::new(0), AtomicBool::new(true), Mutex::default());
        Arc::new(Fake { name, ns_per_unit, fixed_ns, runs, usable, spent })
    }

    fn law(&self, units: u64) -> f64 {
        self.fixed_ns + self.ns_per_unit * units as f64
    }

    fn model(&self) -> CostModel {
        let mut model = CostModel::named(self.name);
        let points = (8..=24).step_by(2).map(|i| Point { units: 1 << i, ns: self.law(1 << i) });
        model.set(OpKind::Xor, Curve::try_from(points.collect::<Vec<_>>()).unwrap());
        model
    }
}

impl Backend for Fake {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn run(&self, op: &dyn Op, _keep_on_device: bool) -> Result<BackendRun, BackendError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let wall = Duration::from_nanos(self.law(op.cost().units) as u64);
        *self.spent.lock().unwrap() += wall;
        Ok(BackendRun { outputs: vec![], wall, device_time: None, cold: false, pieces: 1, events: vec![] })
    }

    fn usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed)
    }
}

/// Regret: time spent over the time of the best backend.
fn regret(router: &Router, cpu: &Fake, gpu: &Fake, calls: usize) -> f64 {
    let (mut took, mut best) = (0.0, 0.0);
    for i in 0..calls {
        let n = 1usize << (8 + 2 * (i * 3 % 7));
        let ran = router.run(op(n).as_ref()).unwrap();
        took += ran.report().wall.as_nanos() as f64;
        best += cpu.law(n as u64).min(gpu.law(n as u64));
    }
    took / best
}

#[test]
fn a_model_wrong_by_10x_is_corrected_within_200_calls() {
    for (wrong_cpu, wrong_gpu) in [(1.0, 10.0), (1.0, 0.1), (10.0, 1.0), (0.1, 1.0)] {
        // The device wins above about 2000 bytes.
        let (cpu, gpu) = (Fake::new("cpu", 1.0, 50.0), Fake::new("gpu", 0.2, 1_600.0));
        let models = vec![cpu.model().scaled(wrong_cpu), gpu.model().scaled(wrong_gpu)];
        let backends: Vec<Arc<dyn Backend>> = vec![cpu.clone(), gpu.clone()];
        let router = Router::new(backends, models, RouterSettings::default());
        let at_first = regret(&router, &cpu, &gpu, 14);
        regret(&router, &cpu, &gpu, 186);
        let after = regret(&router, &cpu, &gpu, 140);
        let share = router.explored().unwrap();
        println!(
            "models ×{wrong_cpu} ×{wrong_gpu}: regret {at_first:.2} at first, {after:.3} after 200 calls, explored {share:.4}"
        );
        assert!(after < 1.1, "×{wrong_cpu} ×{wrong_gpu}: {after}");
        assert!(share <= 0.0101, "{share}");
    }
}

#[test]
fn without_exploration_a_pessimistic_model_never_recovers() {
    let (cpu, gpu) = (Fake::new("cpu", 1.0, 50.0), Fake::new("gpu", 0.2, 1_600.0));
    let models = vec![cpu.model(), gpu.model().scaled(100.0)];
    let backends: Vec<Arc<dyn Backend>> = vec![cpu.clone(), gpu.clone()];
    let router =
        Router::new(backends, models, RouterSettings { explore: false, ..RouterSettings::default() });
    assert!(regret(&router, &cpu, &gpu, 300) > 2.0, "the test above proves something");
    assert_eq!(gpu.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn an_unusable_backend_is_not_explored() {
    let (cpu, gpu) = (Fake::new("cpu", 1.0, 50.0), Fake::new("gpu", 0.2, 1_600.0));
    gpu.usable.store(false, Ordering::Relaxed);
    let backends: Vec<Arc<dyn Backend>> = vec![cpu.clone(), gpu.clone()];
    let router = Router::new(backends, vec![cpu.model(), gpu.model()], RouterSettings::default());
    regret(&router, &cpu, &gpu, 300);
    assert_eq!(gpu.runs.load(Ordering::Relaxed), 0);
}
