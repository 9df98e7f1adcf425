//! Multi-device execution: partitioning by throughput, failover, bit-identical results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail and says what it skipped"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_ops::{Op, matmul, view::tensor, xor};
use gpuforge_route::{
    Backend, BatchOptions, BatchRun, CancelToken, CostModel, CpuBackend, DeviceBackend, OpKind,
    PlacementPolicy, Reason, RouteError, Router, RouterSettings,
    backend::{BackendError, BackendRun},
    curve::{Curve, Point},
};
use gpuforge_runtime::{
    engine::{
        Opener,
        dummy::{DummyFault, DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    runner::{Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::{adapter, conformance, fault_injection::FaultyOpener, fault_script};

const ITEM: usize = 64;
const N: usize = 560;

/// Wraps a backend and sleeps per byte computed.
struct Throttled {
    inner: Arc<dyn Backend>,
    name: &'static str,
    per_byte: Duration,
    bytes: AtomicUsize,
    /// Fails permanently after so many bytes.
    fails_after: usize,
}

impl Throttled {
    fn new(inner: Arc<dyn Backend>, name: &'static str, per_item: Duration) -> Arc<Throttled> {
        Self::failing_after(inner, name, per_item, usize::MAX)
    }

    fn failing_after(
        inner: Arc<dyn Backend>,
        name: &'static str,
        per_item: Duration,
        fails_after: usize,
    ) -> Arc<Throttled> {
        let per_byte = per_item / ITEM as u32;
        Arc::new(Throttled { inner, name, per_byte, bytes: AtomicUsize::new(0), fails_after })
    }

    fn items(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) / ITEM
    }
}

impl Backend for Throttled {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn run(&self, op: &dyn Op, keep_on_device: bool) -> Result<BackendRun, BackendError> {
        let bytes = op.cost().units as usize;
        std::thread::sleep(self.per_byte * bytes as u32);
        if self.bytes.load(Ordering::Relaxed) + bytes > self.fails_after {
            return Err(BackendError::Device { error: format!("{} broke", self.name), events: Vec::new() });
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.inner.run(op, keep_on_device)
    }
}

fn dummy(script: DummyScript) -> Arc<dyn Backend> {
    let opener = DummyOpener::new(Bytes::gib(1), script);
    device("dummy", Box::new(opener))
}

fn device(name: &str, opener: Box<dyn Opener>) -> Arc<dyn Backend> {
    let settings = RunnerSettings::new(conformance::settings(Bytes::gib(1)));
    Arc::new(DeviceBackend::new(name, None, Arc::new(Runner::new(opener, settings))))
}

fn bytes(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| ((i + seed) * 31 % 251) as u8).collect()
}

fn xor_op(n: usize, seed: usize) -> gpuforge_ops::Xor {
    let key = tensor(&bytes(8, seed + 7), &[8], "key").unwrap();
    xor(&tensor(&bytes(n, seed), &[n], "data").unwrap(), &key)
}

fn expected(n: usize, seed: usize) -> Vec<u8> {
    bytes(n, seed).iter().zip(bytes(8, seed + 7).iter().cycle()).map(|(a, b)| a ^ b).collect()
}

fn check(run: &BatchRun) {
    for (i, result) in run.results.iter().enumerate() {
        let ran = result.as_ref().unwrap_or_else(|e| panic!("item {i}: {e}"));
        assert_eq!(ran.tensor().unwrap().host().unwrap().as_ref(), expected(ITEM, i), "item {i}");
    }
}

/// A cost model with this time per item.
fn model(name: &str, per_item: Duration) -> CostModel {
    let ns = per_item.as_nanos() as f64;
    let point = |items: u64| Point { units: items * ITEM as u64, ns: ns * items as f64 };
    let mut model = CostModel::named(name);
    model.set(OpKind::Xor, Curve::try_from(vec![point(1), point(1000)]).unwrap());
    model
}

const MS: Duration = Duration::from_millis(1);
const SPEEDS: [Duration; 3] = [MS.saturating_mul(4), MS.saturating_mul(2), MS];
/// All three together at these speeds.
const IDEAL: Duration = Duration::from_millis(N as u64 * 4 / 7);

fn settings() -> RouterSettings {
    RouterSettings { explore: false, ..RouterSettings::default() }
}

/// A CPU that is far too slow, and three devices of speeds 1 : 2 : 4.
fn three(models: bool) -> (Router, Vec<Arc<Throttled>>) {
    let backends: Vec<Arc<Throttled>> = ["one", "two", "four"]
        .iter()
        .zip(SPEEDS)
        .map(|(name, per_item)| Throttled::new(dummy(DummyScript::default()), name, per_item))
        .collect();
    let cpu = Throttled::new(Arc::new(CpuBackend::default()), "cpu", MS * 4000);
    let mut all: Vec<Arc<dyn Backend>> = vec![cpu];
    all.extend(backends.iter().map(|s| s.clone() as Arc<dyn Backend>));
    let mut known = vec![model("cpu", MS * 4000)];
    // Without device models, only the slow CPU is known.
    known.extend(SPEEDS.iter().filter(|_| models).map(|s| model("device", *s)));
    (Router::new(all, known, settings()), backends)
}

fn multi_device() -> BatchOptions {
    BatchOptions { multi_device: true, ..BatchOptions::default() }
}

#[test]
fn a_batch_is_partitioned_by_throughput() {
    let (router, backends) = three(true);
    let run = router.batch((0..N).map(|i| xor_op(ITEM, i)), multi_device());
    check(&run);
    let done: Vec<usize> = backends.iter().map(|s| s.items()).collect();
    assert_eq!(done.iter().sum::<usize>(), N, "the CPU had nothing to do");
    for (items, want) in done.iter().zip([N / 7, 2 * N / 7, 4 * N / 7]) {
        let off = (*items as f64 / want as f64 - 1.0).abs();
        assert!(off <= 0.15, "{done:?}");
    }
    assert!(run.stats.wall < IDEAL.mul_f64(1.25), "{:?} beside {IDEAL:?}", run.stats.wall);
    assert!(run.results.iter().all(|r| r.as_ref().unwrap().decision().reason == Reason::MultiDevice));
    assert_eq!(run.stats.backends.iter().map(|p| p.items).collect::<Vec<_>>(), done);
    assert!(run.stats.busy_share().is_some_and(|s| s > 0.5 && s <= 1.0), "three of four backends worked");
}

#[test]
fn wrong_or_missing_predictions_cost_little() {
    let (router, backends) = three(false);
    let run = router.batch((0..N).map(|i| xor_op(ITEM, i)), multi_device());
    check(&run);
    let done: Vec<usize> = backends.iter().map(|s| s.items()).collect();
    assert!(run.stats.wall < IDEAL.mul_f64(1.6), "{:?} beside {IDEAL:?}, {done:?}", run.stats.wall);
    let (router, backends) = three(true);
    // Four times too good about the slowest, four times too bad about the fastest.
    let wrong = [MS * 4000, MS, MS * 2, MS * 4];
    router.set_models(wrong.iter().map(|s| model("wrong", *s)).collect());
    let run = router.batch((0..N).map(|i| xor_op(ITEM, i)), multi_device());
    check(&run);
    let done: Vec<usize> = backends.iter().map(|s| s.items()).collect();
    assert!(run.stats.wall < IDEAL.mul_f64(1.6), "{:?} beside {IDEAL:?}, {done:?}", run.stats.wall);
    assert!(done[2] > done[1] && done[1] > done[0], "{done:?}");
}

#[test]
fn one_large_op_is_partitioned_by_throughput() {
    let (router, backends) = three(true);
    let op = xor_op(N * ITEM, 3);
    let began = Instant::now();
    let ran = router.run_multi_device(&op).unwrap();
    let wall = began.elapsed();
    assert_eq!(ran.tensor().unwrap().host().unwrap().as_ref(), expected(N * ITEM, 3));
    let done: Vec<usize> = backends.iter().map(|s| s.items()).collect();
    for (items, want) in done.iter().zip([N / 7, 2 * N / 7, 4 * N / 7]) {
        assert!((*items as f64 / want as f64 - 1.0).abs() <= 0.15, "{done:?}");
    }
    assert!(wall < IDEAL.mul_f64(1.25), "{wall:?} beside {IDEAL:?}");
    assert_eq!(ran.report().backend, "one + two + four");
    assert_eq!(ran.decision().reason, Reason::MultiDevice);
    assert!(ran.report().pieces > 3);
}

#[test]
fn items_of_a_failing_backend_fail_over() {
    let cpu = Throttled::new(Arc::new(CpuBackend::default()), "cpu", MS);
    let broken = Throttled::failing_after(dummy(DummyScript::default()), "broken", MS / 2, 100 * ITEM);
    let models = vec![model("cpu", MS), model("broken", MS / 2)];
    let router = Router::new(vec![cpu.clone(), broken.clone()], models.clone(), settings());
    let run = router.batch((0..N).map(|i| xor_op(ITEM, i)), multi_device());
    check(&run);
    assert!(broken.items() > 0 && broken.items() <= 100 && cpu.items() + broken.items() == N);
    let told = run.results.iter().flatten().filter(|r| r.report().fallback.is_some()).count();
    assert!(told > 0, "failed-over items report it");
    // The same for one operation.
    let broken = Throttled::failing_after(dummy(DummyScript::default()), "broken", MS / 2, 100 * ITEM);
    let router = Router::new(vec![cpu, broken], models, settings());
    let ran = router.run_multi_device(&xor_op(N * ITEM, 1)).unwrap();
    assert_eq!(ran.tensor().unwrap().host().unwrap().as_ref(), expected(N * ITEM, 1));
    assert_eq!(ran.report().fallback.as_deref(), Some("broken broke"));
}

#[test]
fn engine_faults_lose_no_items() {
    use fault_script::{Fault as InjectedFault, InjectionPoint};
    let cases: Vec<(&str, Arc<dyn Backend>)> = vec![
        ("lost for ever", dummy(DummyScript { once: Vec::new(), from: Some((DummyFault::Loss, 12)) })),
        ("lost once", dummy(DummyScript::once(DummyFault::SilentLoss, 5))),
        ("no memory", dummy(DummyScript::once(DummyFault::OutOfMemory, 3))),
        (
            "lost between two jobs",
            device(
                "faulty",
                Box::new(FaultyOpener::over(
                    DummyOpener::new(Bytes::gib(1), DummyScript::default()),
                    fault_script::FaultScript::once(InjectedFault::Loss, InjectionPoint::Waited, 1),
                )),
            ),
        ),
        (
            "a short read",
            device(
                "faulty",
                Box::new(FaultyOpener::over(
                    DummyOpener::new(Bytes::gib(1), DummyScript::default()),
                    fault_script::FaultScript::once(InjectedFault::ShortRead, InjectionPoint::Wait, 2),
                )),
            ),
        ),
    ];
    for (name, backend) in cases {
        let cpu = Throttled::new(Arc::new(CpuBackend::default()), "cpu", MS / 2);
        let other = Throttled::new(dummy(DummyScript::default()), "other", MS / 4);
        let backend = Throttled::new(backend, "faulty", MS / 4);
        let models = vec![model("cpu", MS / 2), model("other", MS / 4), model("faulty", MS / 4)];
        let router = Router::new(vec![cpu, other, backend], models, settings());
        let run = router.batch((0..N).map(|i| xor_op(ITEM, i)), multi_device());
        check(&run);
        assert_eq!(run.stats.failed, 0, "{name}");
        let ran = router.run_multi_device(&xor_op(N * ITEM, 9)).unwrap();
        assert_eq!(ran.tensor().unwrap().host().unwrap().as_ref(), expected(N * ITEM, 9), "{name}");
    }
}

#[test]
fn an_invalid_op_is_an_error_on_multi_device() {
    let (router, _) = three(true);
    let key = tensor::<u8>(&[], &[0], "key").unwrap();
    let error = router.run_multi_device(&xor(&tensor(&[1u8; 64], &[64], "data").unwrap(), &key)).unwrap_err();
    assert!(matches!(error, RouteError::Op(_)), "{error}");
}

#[test]
fn explicit_requests_and_small_ops_are_not_partitioned() {
    let (router, backends) = three(true);
    // One backend was requested.
    let run = router.batch(
        (0..8).map(|i| xor_op(ITEM, i)),
        BatchOptions { placement: PlacementPolicy::Only(1), ..multi_device() },
    );
    check(&run);
    assert_eq!((backends[0].items(), backends[1].items(), backends[2].items()), (8, 0, 0));
    // Cancelled before it began.
    let token = CancelToken::new();
    token.cancel();
    let run =
        router.batch((0..8).map(|i| xor_op(ITEM, i)), BatchOptions { cancel: Some(token), ..multi_device() });
    assert!(run.results.iter().all(|r| matches!(r, Err(RouteError::Cancelled))));
    // Too small to be split.
    let ran = router.run_multi_device(&xor_op(8, 0)).unwrap();
    assert_eq!(ran.tensor().unwrap().host().unwrap().as_ref(), expected(8, 0));
    assert_ne!(ran.decision().reason, Reason::MultiDevice);
}

#[test]
fn cancellation_and_duty_cycle_work_on_multi_device() {
    let (router, _) = three(true);
    let token = CancelToken::new();
    let stop = token.clone();
    let options = BatchOptions {
        cancel: Some(token),
        progress: Some(Box::new(move |done, _| {
            if done > 100 {
                stop.cancel();
            }
        })),
        ..multi_device()
    };
    let run = router.batch((0..N).map(|i| xor_op(ITEM, i)), options);
    let done = run.results.iter().filter(|r| r.is_ok()).count();
    assert!(done > 100 && done < N, "{done}");
    for (i, result) in run.results.iter().enumerate() {
        match result {
            Ok(ran) => assert_eq!(ran.tensor().unwrap().host().unwrap().as_ref(), expected(ITEM, i)),
            Err(error) => assert!(matches!(error, RouteError::Cancelled), "{error}"),
        }
    }
    let full = router.batch((0..N).map(|i| xor_op(ITEM, i)), multi_device());
    let rested = router
        .batch((0..N).map(|i| xor_op(ITEM, i)), BatchOptions { duty_cycle: Some(0.5), ..multi_device() });
    check(&rested);
    assert!(rested.stats.wall > full.stats.wall.mul_f64(1.5), "{:?}", rested.stats.wall);
}

#[test]
fn logical_devices_of_one_adapter_are_bit_identical() {
    if adapter::open_or_skip(&GpuOpener::default()).is_none() {
        return;
    }
    let gpu = |name| device(name, Box::new(GpuOpener::default()));
    // A CPU that is far too slow to take part, so that all bits are those of the adapter.
    let cpu = || Throttled::new(Arc::new(CpuBackend::default()), "cpu", MS * 4000) as Arc<dyn Backend>;
    let alone = Router::new(vec![cpu(), gpu("a")], Vec::new(), settings());
    let pair = Router::new(vec![cpu(), gpu("a"), gpu("b")], Vec::new(), settings());
    let roofline = |name: &str, byte: f64, flop: f64| {
        let mut model = CostModel::named(name);
        (model.byte_ns, model.flop_ns) = (Some(byte), Some(flop));
        model
    };
    let slow = roofline("cpu", 1e6, 1e6);
    let fast = |name: &str| roofline(name, 1.0, 0.01);
    pair.set_models(vec![slow.clone(), fast("a"), fast("b")]);
    alone.set_models(vec![slow, fast("a")]);
    let floats = |n: usize, step: usize| -> Vec<f32> {
        (0..n).map(|i| (i * step % 251) as f32 / 125.0 - 1.0).collect()
    };
    let product = |seed: usize| {
        let a = tensor(&floats(48 * 40, 7 + seed), &[48, 40], "a").unwrap();
        matmul(&a, &tensor(&floats(40 * 56, 11 + seed), &[40, 56], "b").unwrap())
    };
    let results = |run: BatchRun| -> Vec<Vec<u8>> {
        run.results.iter().map(|r| r.as_ref().unwrap().tensor().unwrap().host().unwrap().to_vec()).collect()
    };
    let one = alone.batch(
        (0..60).map(product),
        BatchOptions { placement: PlacementPolicy::Only(1), ..BatchOptions::default() },
    );
    let two = pair.batch((0..60).map(product), multi_device());
    let places: Vec<String> = two.stats.backends.iter().map(|p| p.backend.clone()).collect();
    // On a busy machine one of them may be done with everything before the other has begun: what is left over is taken by
    // the idle one. That both take part is asserted above, with devices of known speed.
    let devices = |place: &str| !place.is_empty() && place.split(" + ").all(|p| p == "a" || p == "b");
    assert!(places.iter().all(|p| devices(p)), "{:?}", two.stats);
    assert_eq!(results(one), results(two));
    let large = {
        let a = tensor(&floats(1024 * 64, 7), &[1024, 64], "a").unwrap();
        matmul(&a, &tensor(&floats(64 * 96, 11), &[64, 96], "b").unwrap())
    };
    let whole = alone
        .run_with(
            &large,
            gpuforge_route::RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false },
        )
        .unwrap();
    let shared = pair.run_multi_device(&large).unwrap();
    assert_eq!(whole.tensor().unwrap().host(), shared.tensor().unwrap().host());
    assert!(devices(&shared.report().backend), "{}", shared.report().backend);
}
