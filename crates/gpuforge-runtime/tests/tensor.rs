//! Do tensors stay where they were made, and survive what happens to the device?
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
        dummy::{DummyOpener, Fault, Script},
        gpu::GpuOpener,
    },
    plan::{Plan, PlanError},
    runner::{Place, Runner},
    tensor::{DType, Residency, Spec, Tensor},
    units::Bytes,
};
use gpuforge_testkit::{kernels, matrix::runner_settings, plans};

const N: u32 = 500;

fn spec() -> Spec {
    Spec { dtype: DType::U32, shape: vec![N as usize], tag: "test" }
}

fn dummy(script: Script) -> (DummyOpener, Runner) {
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
    runner.run(plan).unwrap().pieces[0].kept[0].clone()
}

fn inputs() -> (Tensor, Tensor) {
    let make = |seed| Tensor::from_bytes(plans::bytes(&plans::numbers(N, seed)), spec()).unwrap();
    (make(1), make(2))
}

/// Four steps that never leave the device, and their answer by a runner that never fails.
fn steps(runner: &Runner) -> Tensor {
    let (mut a, mut b) = inputs();
    for salt in 0..4 {
        let next = mix(runner, &a, &b, salt);
        (a, b) = (b, next);
    }
    b
}

fn answer() -> Vec<u8> {
    let (_, calm) = dummy(Script::default());
    calm.read(&steps(&calm)).unwrap().to_vec()
}

#[test]
fn results_stay_on_the_device_until_they_are_read() {
    let (_, runner) = dummy(Script::default());
    let (a, b) = inputs();
    assert_eq!(a.residency(), Residency::Host);
    let out = mix(&runner, &a, &b, 0);
    assert_eq!((a.residency(), out.residency()), (Residency::Both, Residency::Device));
    runner.read(&out).unwrap();
    assert_eq!(out.residency(), Residency::Both);
    let live = |r: &Runner| r.session().unwrap().memory().stats().users.live_blocks;
    assert_eq!(live(&runner), 3);
    a.leave_device();
    drop((b, out));
    assert_eq!(live(&runner), 0);
}

#[test]
fn a_chain_of_tensors_survives_every_fault_at_every_command() {
    let want = answer();
    let (calm, runner) = dummy(Script::default());
    runner.read(&steps(&runner)).unwrap();
    for fault in [Fault::Loss, Fault::Hang, Fault::SilentLoss, Fault::OutOfMemory, Fault::ShortRead] {
        for at in 0..calm.commands() {
            let (_, runner) = dummy(Script::once(fault, at));
            let last = steps(&runner);
            assert_eq!(runner.read(&last).unwrap().as_ref(), want, "{fault:?} at {at}");
            drop(last);
            let live = runner.session().unwrap().memory().stats().users.live_blocks;
            assert_eq!(live, 0, "{fault:?} at {at}");
        }
    }
}

#[test]
fn a_device_that_is_always_lost_leaves_tensors_on_the_host() {
    let (_, runner) = dummy(Script::always(Fault::Loss));
    let last = steps(&runner);
    assert_eq!(last.residency(), Residency::Host);
    assert_eq!(runner.read(&last).unwrap().as_ref(), answer());
}

#[test]
fn what_is_nowhere_is_made_again_and_a_checkpoint_does_not_need_to_be() {
    let (opener, runner) = dummy(Script::default());
    let last = steps(&runner);
    runner.reset();
    last.leave_device();
    assert_eq!(last.residency(), Residency::Nowhere);
    assert_eq!(runner.checkpoint(&last).unwrap().as_ref(), answer());
    runner.reset();
    let before = opener.commands();
    assert_eq!(runner.read(&last).unwrap().as_ref(), answer());
    assert_eq!(opener.commands(), before, "the host copy is there: nothing ran");
}

#[test]
fn a_chain_too_long_to_replay_is_a_typed_loss_unless_it_was_checkpointed() {
    let run = |checkpoints: bool| {
        let (_, runner) = dummy(Script::default());
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
            tensor.leave_device();
        }
        let fresh = mix(&runner, &b, &b, 1);
        runner.read(&fresh).map(|bytes| bytes.to_vec())
    };
    let failed = std::panic::catch_unwind(|| run(false));
    assert!(failed.is_err(), "299 plans deep: said, not replayed");
    assert!(run(true).is_ok());
}

#[test]
fn a_scope_gives_everything_back_also_on_error_and_panic() {
    let (_, runner) = dummy(Script::default());
    let keep = |scope: &gpuforge_runtime::runner::Scope<'_>| {
        let mut plan = Plan::new("kept");
        let slot = plan.upload(vec![1; 4 * N as usize], "kept").unwrap();
        plan.keep(slot, spec()).unwrap();
        scope.run(plan).unwrap().pieces[0].kept[0].clone()
    };
    let live = |r: &Runner| r.session().unwrap().memory().stats().users.live_blocks;
    let (gone, escaped) = runner.scope(|scope| {
        let (gone, escaped) = (keep(scope), keep(scope));
        scope.escape(&escaped);
        assert_eq!(live(&runner), 2);
        (gone, escaped)
    });
    assert_eq!(
        (gone.residency(), escaped.residency(), live(&runner)),
        (Residency::Nowhere, Residency::Device, 1)
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
fn mistakes_are_refused_when_they_are_made() {
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
    assert_eq!(Spec { dtype: DType::F32, shape: vec![usize::MAX, 2], tag: "x" }.size(), None);
}

#[test]
fn an_adapter_keeps_tensors_too() {
    let runner = Runner::new(Box::new(GpuOpener::default()), runner_settings(true));
    if let Err(why) = runner.warm() {
        println!("skipped: {why}");
        return;
    }
    let last = steps(&runner);
    assert_eq!(last.residency(), Residency::Device);
    assert_eq!(runner.read(&last).unwrap().as_ref(), answer());
    runner.reset();
    let (a, b) = inputs();
    let again = mix(&runner, &last, &a, 9);
    let calm = dummy(Script::default()).1;
    assert_eq!(runner.read(&again).unwrap(), calm.read(&mix(&calm, &last, &a, 9)).unwrap());
    drop(b);
    let mut plan = Plan::new("place");
    let slot = plan.import(&again);
    plan.download(slot).unwrap();
    assert_eq!(runner.run(plan).unwrap().pieces[0].place, Place::Device);
}
