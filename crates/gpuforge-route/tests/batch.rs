//! Batched execution: item order, isolated failures, fusion and shared submissions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    any::Any,
    sync::{Arc, Mutex},
};

use gpuforge_ops::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, normal,
    view::{exactly, exactly_mut, tensor},
    xor,
};
use gpuforge_route::{
    BatchOptions, CancelToken, CostModel, CpuBackend, DeviceBackend, Item, PlacementPolicy, Reason,
    RouteError, Router, RouterSettings,
    curve::{Curve, Point},
};
use gpuforge_runtime::{
    engine::dummy::{DummyFault, DummyOpener, DummyScript},
    plan::{Plan, Slot},
    runner::{Runner, RunnerSettings},
    tensor::{Tensor, TensorSpec},
    units::Bytes,
};
use gpuforge_testkit::conformance;

fn device(script: DummyScript) -> (Arc<DeviceBackend>, Arc<Runner>) {
    let opener = DummyOpener::new(Bytes::gib(1), script);
    let settings = RunnerSettings::new(conformance::settings(Bytes::gib(1)));
    let runner = Arc::new(Runner::new(Box::new(opener), settings));
    (Arc::new(DeviceBackend::new("dummy", None, runner.clone())), runner)
}

/// The CPU and a device that fails as scripted.
fn router(script: DummyScript, settings: RouterSettings) -> (Router, Arc<Runner>) {
    let (backend, runner) = device(script);
    (Router::new(vec![Arc::new(CpuBackend::default()), backend], Vec::new(), settings), runner)
}

fn healthy() -> (Router, Arc<Runner>) {
    router(DummyScript::default(), RouterSettings { explore: false, ..RouterSettings::default() })
}

fn bytes(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| ((i + seed) * 31 % 251) as u8).collect()
}

fn xor_op(n: usize, k: usize, seed: usize) -> gpuforge_ops::Xor {
    let data = tensor(&bytes(n, seed), &[n], "data").unwrap();
    xor(&data, &tensor(&bytes(k, seed + 7), &[k], "key").unwrap())
}

fn expected(n: usize, k: usize, seed: usize) -> Vec<u8> {
    let key = bytes(k, seed + 7);
    bytes(n, seed).iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

fn host(ran: &gpuforge_route::RunOutput) -> Vec<u8> {
    ran.tensor().unwrap().host().unwrap().to_vec()
}

fn only(backend: usize) -> BatchOptions {
    BatchOptions { placement: PlacementPolicy::Only(backend), ..BatchOptions::default() }
}

#[test]
fn mixed_items_keep_their_order_on_every_backend() {
    let (router, _) = healthy();
    for backend in [0, 1] {
        let mut items: Vec<Item> = Vec::new();
        let mut want: Vec<Vec<u8>> = Vec::new();
        for i in 0..120usize {
            let (n, k) = ([100, 0, 64, 1, 4097][i % 5], [4, 3, 16][i % 3]);
            match i % 4 {
                3 => {
                    items.push(Item::call(move || {
                        Ok(vec![tensor(&[i as u32], &[1], "call").map_err(|e| e.to_string())?])
                    }));
                    want.push((i as u32).to_ne_bytes().to_vec());
                }
                2 => {
                    let op = normal(33, i as u64, 0);
                    want.push(host(
                        &router
                            .run_with(
                                &op,
                                gpuforge_route::RunOptions {
                                    placement: PlacementPolicy::Only(backend),
                                    keep_on_device: false,
                                },
                            )
                            .unwrap(),
                    ));
                    items.push(op.into());
                }
                _ => {
                    items.push(xor_op(n, k, i).into());
                    want.push(expected(n, k, i));
                }
            }
        }
        let run = router.batch(items, only(backend));
        assert_eq!(run.results.len(), want.len());
        for (i, (got, want)) in run.results.iter().zip(&want).enumerate() {
            assert_eq!(&host(got.as_ref().unwrap()), want, "item {i} on backend {backend}");
        }
        let stats = run.stats;
        assert_eq!((stats.items, stats.failed), (120, 0));
        assert_eq!(stats.backends.iter().map(|p| p.items).sum::<usize>(), 120);
        assert_eq!(stats.fused > 0, backend == 1, "only devices get fused work");
        assert!(stats.busy <= stats.wall && stats.busy_share().is_some_and(|s| s <= 1.0));
    }
}

#[test]
fn a_thousand_small_ops_fuse_into_one_dispatch() {
    let (router, runner) = healthy();
    let run = router.batch((0..1000).map(|i| xor_op(100, 16, i)), only(1));
    for (i, result) in run.results.iter().enumerate() {
        let ran = result.as_ref().unwrap();
        assert_eq!(host(ran), expected(100, 16, i), "item {i}");
        assert_eq!(ran.decision().backend_id, 1);
        assert_eq!(ran.tensor().unwrap().spec().shape, [100]);
    }
    assert_eq!((run.stats.chunks, run.stats.submissions, run.stats.dispatches), (1, 1, 1));
    assert_eq!((run.stats.fused, runner.stats().on_device), (1000, 1));
}

#[test]
fn an_invalid_item_fails_alone_and_names_its_index() {
    let (router, _) = healthy();
    let empty_key =
        || xor(&tensor(&[1u8, 2], &[2], "data").unwrap(), &tensor::<u8>(&[], &[0], "key").unwrap());
    for backend in [0, 1] {
        let items: Vec<Item> = vec![
            xor_op(8, 4, 0).into(),
            empty_key().into(),
            Item::call(|| Err("no luck".to_owned())),
            Item::call(|| panic!("really bad")),
            Item::call(|| Ok(Vec::new())),
            xor_op(8, 4, 5).into(),
        ];
        let run = router.batch(items, only(backend));
        let said: Vec<String> = run
            .results
            .iter()
            .map(|r| r.as_ref().map_or_else(ToString::to_string, |_| String::new()))
            .collect();
        assert!(said[1].starts_with("item 1: xor: the length of the key"), "{}", said[1]);
        assert_eq!(said[2], "item 2: no luck");
        assert_eq!(said[3], "item 3: panicked: really bad");
        assert_eq!((&said[0], &said[4], &said[5]), (&String::new(), &String::new(), &String::new()));
        assert!(matches!(run.results[1], Err(RouteError::Item { index: 1, .. })));
        assert_eq!((run.stats.failed, run.stats.items), (3, 6));
        assert_eq!(host(run.results[5].as_ref().unwrap()), expected(8, 4, 5));
    }
}

/// An XOR that may fail when it is recorded or computed.
#[derive(Debug, Clone)]
struct FailingOp {
    inner: gpuforge_ops::Xor,
    bad: bool,
    fuses: bool,
}

impl FailingOp {
    fn new(seed: usize, bad: bool, fuses: bool) -> Self {
        FailingOp { inner: xor_op(64, 4, seed), bad, fuses }
    }

    fn fail(&self) -> Result<(), OpError> {
        let error = OpError::User { op: "touchy".to_owned(), message: "does not like it".to_owned() };
        if self.bad { Err(error) } else { Ok(()) }
    }
}

impl Op for FailingOp {
    fn kind(&self) -> OpKind {
        OpKind::Custom
    }
    fn name(&self) -> &str {
        "touchy"
    }
    fn inputs(&self) -> Vec<&Tensor> {
        self.inner.inputs()
    }
    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        self.inner.outputs()
    }
    fn cost(&self) -> OpCost {
        self.inner.cost()
    }
    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        self.fail()?;
        self.inner.cpu(inputs, outputs, threads)
    }
    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        self.fail()?;
        self.inner.record(plan, inputs, target)
    }
    fn fuse_key(&self) -> Option<u64> {
        self.fuses.then_some(1)
    }
    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let all: Vec<&FailingOp> = group.iter().filter_map(|op| op.as_any().downcast_ref()).collect();
        let ops: Vec<&dyn Op> = all.iter().map(|t| &t.inner as &dyn Op).collect();
        let Some(fused) = self.inner.fuse(&ops)? else { return Ok(None) };
        let inner = fused.op.as_any().downcast_ref::<gpuforge_ops::Xor>().unwrap().clone();
        let bad = all.iter().any(|t| t.bad);
        Ok(Some(Fused {
            op: Arc::new(FailingOp { inner, bad, fuses: true }),
            output_ranges: fused.output_ranges,
        }))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn a_failing_op_does_not_fail_its_fused_group() {
    let (router, _) = healthy();
    for (backend, fuses) in [(0, true), (1, true), (1, false)] {
        let run = router.batch((0..40).map(|i| FailingOp::new(i, i == 17, fuses)), only(backend));
        for (i, result) in run.results.iter().enumerate() {
            match result {
                Err(error) => {
                    assert_eq!((i, error.to_string().as_str()), (17, "item 17: touchy: does not like it"));
                }
                Ok(ran) => assert_eq!(host(ran), expected(64, 4, i)),
            }
        }
        assert_eq!(run.stats.failed, 1, "backend {backend}");
    }
}

/// An operation with a bug: panics for one input.
#[derive(Debug)]
struct Panics(gpuforge_ops::Xor);

impl Op for Panics {
    fn kind(&self) -> OpKind {
        OpKind::Custom
    }
    fn inputs(&self) -> Vec<&Tensor> {
        self.0.inputs()
    }
    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        self.0.outputs()
    }
    fn cost(&self) -> OpCost {
        self.0.cost()
    }
    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], _: Threads) -> Result<(), OpError> {
        let [data, _] = exactly("panics", "inputs", inputs)?;
        let [out] = exactly_mut("panics", "outputs", outputs)?;
        assert!(data[0] != bytes(1, 3)[0], "out of luck");
        out.copy_from_slice(data);
        Ok(())
    }
    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        self.0.record(plan, inputs, target)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn an_op_that_panics_on_the_cpu_fails_alone() {
    let (router, _) = healthy();
    let run = router.batch((0..6).map(|i| Panics(xor_op(8, 4, i))), only(0));
    let failed: Vec<usize> = (0..6).filter(|i| run.results[*i].is_err()).collect();
    assert_eq!(failed, [3]);
    assert!(run.results[3].as_ref().unwrap_err().to_string().contains("out of luck"));
}

#[test]
fn unfusable_ops_share_a_submission() {
    let (router, runner) = healthy();
    let run = router.batch((0..40).map(|i| FailingOp::new(i, false, false)), only(1));
    assert!(run.results.iter().enumerate().all(|(i, r)| host(r.as_ref().unwrap()) == expected(64, 4, i)));
    assert_eq!((run.stats.submissions, run.stats.dispatches, run.stats.fused), (1, 40, 0));
    assert_eq!(runner.stats().on_device, 1);
}

#[test]
fn results_can_be_kept_on_the_device() {
    let (router, runner) = healthy();
    let run =
        router.batch((0..20).map(|i| xor_op(100, 4, i)), BatchOptions { keep_on_device: true, ..only(1) });
    assert_eq!((run.stats.submissions, run.stats.fused), (1, 0), "recorded together, not fused");
    for (i, result) in run.results.iter().enumerate() {
        let tensor = result.as_ref().unwrap().tensor().unwrap();
        assert!(tensor.on_device() && tensor.host().is_none());
        assert_eq!(runner.read(tensor).unwrap().as_ref(), expected(100, 4, i));
    }
}

#[test]
fn cancellation_completes_started_chunks() {
    let (router, _) = healthy();
    for backend in [0, 1] {
        let token = CancelToken::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (see, stop) = (seen.clone(), token.clone());
        let progress = move |done, all| {
            see.lock().unwrap().push((done, all));
            if done >= 20 {
                stop.cancel();
            }
        };
        let options = BatchOptions {
            max_chunk: Some(10),
            cancel: Some(token),
            progress: Some(Box::new(progress)),
            ..only(backend)
        };
        let run = router.batch((0..55).map(|i| xor_op(100, 4, i)), options);
        assert_eq!(*seen.lock().unwrap(), [(10, 55), (20, 55)]);
        assert!(
            run.results[..20]
                .iter()
                .enumerate()
                .all(|(i, r)| host(r.as_ref().unwrap()) == expected(100, 4, i))
        );
        assert!(run.results[20..].iter().all(|r| matches!(r, Err(RouteError::Cancelled))));
        assert_eq!((run.stats.failed, run.stats.chunks), (35, 2));
    }
    // Before it began.
    let token = CancelToken::new();
    token.cancel();
    let run = router.batch(
        vec![Item::call(|| Ok(Vec::new())), xor_op(4, 4, 0).into()],
        BatchOptions { cancel: Some(token), ..BatchOptions::default() },
    );
    assert!(run.results.iter().all(|r| matches!(r, Err(RouteError::Cancelled))));
}

#[test]
fn device_failure_falls_back_to_the_cpu_if_allowed() {
    let forever = || DummyScript::always(DummyFault::Loss);
    let (lenient, _) = router(forever(), RouterSettings::default());
    let run = lenient.batch((0..50).map(|i| xor_op(100, 4, i)), only(1));
    for (i, result) in run.results.iter().enumerate() {
        let ran = result.as_ref().unwrap();
        assert_eq!(host(ran), expected(100, 4, i));
        assert_eq!((ran.decision().backend_id, ran.decision().reason), (0, Reason::Fallback));
        assert!(ran.report().fallback.as_ref().is_some_and(|f| f.contains("lost") || f.contains("fault")));
        assert!(!ran.report().events.is_empty());
    }
    let (strict, _) = router(forever(), RouterSettings { cpu_fallback: false, ..RouterSettings::default() });
    let run = strict.batch((0..5).map(|i| xor_op(100, 4, i)), only(1));
    for (i, result) in run.results.iter().enumerate() {
        match result {
            Err(RouteError::Item { index, error }) => {
                assert_eq!(*index, i);
                assert!(matches!(**error, RouteError::Backend { .. }), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_transient_fault_is_recovered() {
    let (router, _) = router(DummyScript::once(DummyFault::Loss, 2), RouterSettings::default());
    let run =
        router.batch((0..30).map(|i| xor_op(100, 4, i)), BatchOptions { max_chunk: Some(10), ..only(1) });
    assert!(run.results.iter().enumerate().all(|(i, r)| host(r.as_ref().unwrap()) == expected(100, 4, i)));
    let events =
        |r: &Result<gpuforge_route::RunOutput, RouteError>| r.as_ref().unwrap().report().events.len();
    assert!(run.results.iter().map(events).sum::<usize>() > 0);
    assert_eq!(run.stats.backends[0].backend, "dummy");
}

fn curve(points: &[(u64, f64)]) -> Curve {
    Curve::try_from(points.iter().map(|(units, ns)| Point { units: *units, ns: *ns }).collect::<Vec<_>>())
        .unwrap()
}

#[test]
fn a_batch_may_run_on_a_device_where_one_item_would_not() {
    let (backend, _) = device(DummyScript::default());
    let mut cpu = CostModel::named("cpu");
    cpu.set(OpKind::Xor, curve(&[(64, 100_000.0), (1 << 20, 1e9)]));
    let mut dummy = CostModel::named("dummy");
    // A hundred times the CPU time of one item, and hardly more for many.
    dummy.set(OpKind::Xor, curve(&[(64, 1e7), (1 << 20, 1.1e7)]));
    let settings = RouterSettings { explore: false, ..RouterSettings::default() };
    let make = || {
        Router::new(
            vec![Arc::new(CpuBackend::default()), backend.clone()],
            vec![cpu.clone(), dummy.clone()],
            settings,
        )
    };
    let one = make().batch([xor_op(100, 4, 0)], BatchOptions::default());
    assert_eq!(one.results[0].as_ref().unwrap().decision().backend_id, 0);
    let many = make().batch((0..2000).map(|i| xor_op(100, 4, i)), BatchOptions::default());
    let first = many.results[0].as_ref().unwrap();
    assert_eq!(first.decision().backend_id, 1, "{:?}", first.decision());
    assert!(matches!(first.decision().reason, Reason::Faster { factor } if factor > 5.0));
}

#[test]
fn empty_batch_and_unknown_backend() {
    let (router, _) = healthy();
    let none = router.batch(Vec::<Item>::new(), BatchOptions::default());
    assert!(none.results.is_empty() && none.stats.chunks == 0);
    let nowhere = router.batch((0..3).map(|i| xor_op(4, 4, i)), only(7));
    for result in &nowhere.results {
        let error = result.as_ref().unwrap_err().to_string();
        assert!(error.contains("there is no backend 7: there are 2"), "{error}");
    }
}
