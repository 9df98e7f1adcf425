//! Device-resident tensors: residency, re-materialisation after device loss, checkpoints, scopes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use gpuforge_runtime::{
    engine::{
        dummy::{DummyFault, DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    plan::{Plan, PlanError},
    runner::{ExecutedOn, Runner},
    tensor::{DType, Residency, Tensor, TensorSpec},
    units::Bytes,
};
use gpuforge_testkit::{adapter, fault_matrix::runner_settings, kernels, plans};

const N: u32 = 500;

fn spec() -> TensorSpec {
    TensorSpec { dtype: DType::U32, shape: vec![N as usize], tag: "test" }
}

fn dummy(script: DummyScript) -> (DummyOpener, Runner) {
    let opener = DummyOpener::new(Bytes::gib(1), script);
    (opener.clone(), Runner::new(Box::new(opener), runner_settings(true)))
}

/// `mix` of two tensors, kept on the device.
fn mix(runner: &Runner, a: &Tensor, b: &Tensor, salt: u32) -> Tensor {
    let mut plan = Plan::new("mix");
    let (a, b) = (plan.import(a), plan.import(b));
    let out = plan.slot(Bytes(u64::from(N) * 4), "out");
    plan.dispatch(&kernels::mix(), &[a, b, out], &[N, 3, salt], kernels::groups(N)).unwrap();
    plan.keep(out, spec()).unwrap();
    runner.run(plan).unwrap().chunks[0].kept[0].clone()
}

fn inputs() -> (Tensor, Tensor) {
    let make = |seed| Tensor::from_bytes(plans::bytes(&plans::numbers(N, seed)), spec()).unwrap();
    (make(1), make(2))
}

/// Four steps that stay on the device.
fn steps(runner: &Runner) -> Tensor {
    let (mut a, mut b) = inputs();
    for salt in 0..4 {
        let next = mix(runner, &a, &b, salt);
        (a, b) = (b, next);
    }
    b
}

fn expected() -> Vec<u8> {
    let (_, fault_free) = dummy(DummyScript::default());
    fault_free.read(&steps(&fault_free)).unwrap().to_vec()
}

#[test]
fn results_stay_resident_until_they_are_read() {
    let (_, runner) = dummy(DummyScript::default());
    let (a, b) = inputs();
    assert_eq!(a.residency(), Residency::Host);
    let out = mix(&runner, &a, &b, 0);
    assert_eq!((a.residency(), out.residency()), (Residency::Both, Residency::Device));
    runner.read(&out).unwrap();
    assert_eq!(out.residency(), Residency::Both);
    let live = |r: &Runner| r.session().unwrap().memory().stats().users.live_blocks;
    assert_eq!(live(&runner), 3);
    a.evict();
    drop((b, out));
    assert_eq!(live(&runner), 0);
}

#[test]
fn tensor_lineage_survives_every_fault_at_every_command() {
    let want = expected();
    let (fault_free, runner) = dummy(DummyScript::default());
    runner.read(&steps(&runner)).unwrap();
    for fault in [
        DummyFault::Loss,
        DummyFault::Hang,
        DummyFault::SilentLoss,
        DummyFault::OutOfMemory,
        DummyFault::ShortRead,
    ] {
        for at in 0..fault_free.commands() {
            let (_, runner) = dummy(DummyScript::once(fault, at));
            let last = steps(&runner);
            assert_eq!(runner.read(&last).unwrap().as_ref(), want, "{fault:?} at {at}");
            drop(last);
            let live = runner.session().unwrap().memory().stats().users.live_blocks;
            assert_eq!(live, 0, "{fault:?} at {at}");
        }
    }
}

#[test]
fn cpu_fallback_leaves_tensors_on_the_host() {
    let (_, runner) = dummy(DummyScript::always(DummyFault::Loss));
    let last = steps(&runner);
    assert_eq!(last.residency(), Residency::Host);
    assert_eq!(runner.read(&last).unwrap().as_ref(), expected());
}

#[test]
fn evicted_tensor_is_rematerialised_unless_checkpointed() {
    let (opener, runner) = dummy(DummyScript::default());
    let last = steps(&runner);
    runner.reset();
    last.evict();
    assert_eq!(last.residency(), Residency::Evicted);
    assert_eq!(runner.checkpoint(&last).unwrap().as_ref(), expected());
    runner.reset();
    let before = opener.commands();
    assert_eq!(runner.read(&last).unwrap().as_ref(), expected());
    assert_eq!(opener.commands(), before, "the host copy is used: nothing ran");
}

#[test]
fn too_long_lineage_is_device_lost_unless_checkpointed() {
    let run = |checkpoints: bool| {
        let (_, runner) = dummy(DummyScript::default());
        let (mut a, mut b) = inputs();
        for salt in 0..300 {
            let next = mix(&runner, &a, &b, salt);
            if checkpoints && salt % 100 == 99 {
                runner.checkpoint(&next).unwrap();
            }
            (a, b) = (b, next);
        }
        runner.reset();
        for tensor in [&a, &b] {
            tensor.evict();
        }
        let fresh = mix(&runner, &b, &b, 1);
        runner.read(&fresh).map(|bytes| bytes.to_vec())
    };
    let failed = std::panic::catch_unwind(|| run(false));
    assert!(failed.is_err(), "lineage of 299 plans: an error, not a replay");
    assert!(run(true).is_ok());
}

#[test]
fn scope_evicts_its_tensors_also_on_error_and_panic() {
    let (_, runner) = dummy(DummyScript::default());
    let keep = |scope: &gpuforge_runtime::runner::TensorScope<'_>| {
        let mut plan = Plan::new("kept");
        let slot = plan.upload(vec![1; 4 * N as usize], "kept").unwrap();
        plan.keep(slot, spec()).unwrap();
        scope.run(plan).unwrap().chunks[0].kept[0].clone()
    };
    let live = |r: &Runner| r.session().unwrap().memory().stats().users.live_blocks;
    let (evicted, escaped) = runner.scope(|scope| {
        let (evicted, escaped) = (keep(scope), keep(scope));
        scope.escape(&escaped);
        assert_eq!(live(&runner), 2);
        (evicted, escaped)
    });
    assert_eq!(
        (evicted.residency(), escaped.residency(), live(&runner)),
        (Residency::Evicted, Residency::Device, 1)
    );
    let failed: Result<(), &str> = runner.scope(|scope| {
        keep(scope);
        Err("on purpose")
    });
    assert!(failed.is_err() && live(&runner) == 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runner.scope(|scope| {
            keep(scope);
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err() && live(&runner) == 1);
}

#[test]
fn invalid_plans_are_rejected_when_recorded() {
    let wrong = Tensor::from_bytes(vec![0; 7], spec()).unwrap_err();
    assert!(wrong.to_string().contains("500") && wrong.to_string().contains('7'), "{wrong}");
    let (a, _) = inputs();
    let mut plan = Plan::new("mistakes");
    let slot = plan.import(&a);
    assert!(matches!(plan.free(slot), Err(PlanError::NotOwned { .. })));
    let small = plan.upload(vec![0; 8], "small").unwrap();
    assert!(matches!(plan.keep(small, spec()), Err(PlanError::Size { .. })));
    let empty = plan.slot(Bytes(4 * u64::from(N)), "empty");
    assert!(matches!(plan.keep(empty, spec()), Err(PlanError::NotWritten { .. })));
    assert_eq!(TensorSpec { dtype: DType::F32, shape: vec![usize::MAX, 2], tag: "x" }.size(), None);
}

#[test]
fn adapter_keeps_tensors_resident() {
    let runner = Runner::new(Box::new(GpuOpener::default()), runner_settings(true));
    if adapter::or_skip(runner.warm()).is_none() {
        return;
    }
    let last = steps(&runner);
    assert_eq!(last.residency(), Residency::Device);
    assert_eq!(runner.read(&last).unwrap().as_ref(), expected());
    runner.reset();
    let (a, b) = inputs();
    let again = mix(&runner, &last, &a, 9);
    let fault_free = dummy(DummyScript::default()).1;
    assert_eq!(runner.read(&again).unwrap(), fault_free.read(&mix(&fault_free, &last, &a, 9)).unwrap());
    drop(b);
    let mut plan = Plan::new("place");
    let slot = plan.import(&again);
    plan.download(slot).unwrap();
    assert_eq!(runner.run(plan).unwrap().chunks[0].executed_on, ExecutedOn::Device);
}
