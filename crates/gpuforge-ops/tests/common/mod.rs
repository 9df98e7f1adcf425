//! Parity harness: runs an operation on the CPU (one and several threads), on the dummy device (CPU reference kernels) and on a
//! real adapter where one can be opened.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use gpuforge_ops::{Op, Target, Threads, Tuning, record};
use gpuforge_runtime::{
    engine::{
        Engine, EngineError, Opener as _,
        dummy::{DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    memory::{Budget, BudgetOrigin, StackSettings},
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::adapter;

/// Sizes of the parity tests: empty, one, around a workgroup, around a tile, and an odd large one.
pub(crate) const SIZES: [usize; 8] = [0, 1, 63, 64, 65, 4095, 4097, 1_000_003];

/// Results of an operation, as bytes.
pub(crate) type Results = Vec<Vec<u8>>;

/// Runs on the CPU.
pub(crate) fn on_cpu(op: &dyn Op, threads: usize) -> Results {
    let specs = op.outputs().unwrap();
    // Not zero: an operation must write all of its results.
    let mut results: Results = specs.iter().map(|s| vec![0xa5; s.size().unwrap().0 as usize]).collect();
    let held: Vec<Arc<[u8]>> = op.inputs().iter().map(|t| t.host().unwrap()).collect();
    let inputs: Vec<&[u8]> = held.iter().map(AsRef::as_ref).collect();
    let mut outputs: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    op.cpu(&inputs, &mut outputs, Threads(threads)).unwrap();
    results
}

fn session(engine: Arc<dyn Engine>) -> Session {
    Session::new(engine, StackSettings::new(Budget { bytes: Bytes::gib(4), origin: BudgetOrigin::User }))
}

/// The dummy device (CPU reference kernels).
pub(crate) fn dummy() -> &'static Session {
    static DUMMY: OnceLock<Session> = OnceLock::new();
    DUMMY.get_or_init(|| session(DummyOpener::new(Bytes::gib(4), DummyScript::default()).open().unwrap()))
}

/// The host adapter, opened once; `None` where there is none.
pub(crate) fn adapter() -> Option<&'static Session> {
    static ADAPTER: OnceLock<Result<Session, EngineError>> = OnceLock::new();
    adapter::or_skip(ADAPTER.get_or_init(|| GpuOpener::default().open().map(session)).as_ref())
}

/// On a device, with a given choice of kernels.
pub(crate) fn on_device(session: &Session, op: &dyn Op, tuning: &Tuning) -> Results {
    let target = Target { caps: session.caps(), tuning };
    let plan = record::plan(op, &target, false).unwrap();
    let done = session.run(&Arc::new(plan), Duration::from_secs(60)).unwrap();
    let mut outputs = done.outputs;
    for (bytes, spec) in outputs.iter_mut().zip(op.outputs().unwrap()) {
        bytes.truncate(spec.size().unwrap().0 as usize);
    }
    outputs
}

/// Everywhere: names and results. Every variant of its kernels is run on the adapter.
pub(crate) fn everywhere(op: &dyn Op) -> Vec<(String, Results)> {
    let mut all = vec![("one thread".to_owned(), on_cpu(op, 1)), ("three threads".to_owned(), on_cpu(op, 3))];
    for variant in op.variants() {
        let mut tuning = Tuning::default();
        tuning.set(op.kind(), *variant);
        all.push((format!("dummy {variant:?}"), on_device(dummy(), op, &tuning)));
        if let Some(adapter) = adapter() {
            all.push((format!("adapter {variant:?}"), on_device(adapter, op, &tuning)));
        }
    }
    all
}

/// Checks that every backend gives the same bits; returns them.
pub(crate) fn same_bits(op: &dyn Op) -> Results {
    let mut all = everywhere(op);
    let (_, first) = all.remove(0);
    for (place, results) in all {
        assert!(results == first, "{op:?}: other bits on {place}");
    }
    first
}

/// Numbers of a result.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Numbers of a result.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

/// Does cutting into parts of at most `most` items and joining them give the same bits as the whole, on the CPU?
pub(crate) fn parts_join(op: &dyn Op, most: usize) {
    let whole = on_cpu(op, 1);
    let items = op.items().unwrap();
    let ranges = gpuforge_ops::op::split_ranges(items, most);
    assert!(ranges.len() > 1, "{op:?} was not cut");
    let parts: Vec<Results> = ranges.into_iter().map(|r| on_cpu(op.part(r).unwrap().as_ref(), 1)).collect();
    let mut joined: Results = whole.iter().map(|b| vec![0x5a; b.len()]).collect();
    let mut outputs: Vec<&mut [u8]> = joined.iter_mut().map(Vec::as_mut_slice).collect();
    op.join(&parts, &mut outputs).unwrap();
    assert!(joined == whole, "{op:?}: parts give other bits");
}

/// Checks that a fused operation is bit-identical to the single ones, on every backend.
pub(crate) fn fused_is_same(ops: &[&dyn Op]) {
    let key = ops[0].fuse_key().expect("it can be fused");
    assert!(ops.iter().all(|op| op.fuse_key() == Some(key)), "keys differ");
    let fused = ops[0].fuse(ops).unwrap().expect("it is fused");
    let all = everywhere(fused.op.as_ref());
    for (op, places) in ops.iter().zip(&fused.output_ranges) {
        let alone = on_cpu(*op, 1);
        for (place, results) in &all {
            for ((whole, range), want) in results.iter().zip(places).zip(&alone) {
                assert!(whole[range.clone()] == want[..], "{op:?}: fused gives other bits on {place}");
            }
        }
    }
}
