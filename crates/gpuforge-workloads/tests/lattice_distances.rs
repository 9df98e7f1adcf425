//! Lattice distances: bit-identical on CPU, dummy device and adapter; whole, partitioned and fused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use gpuforge_ops::{Op, Target, Threads, Tuning, op::guard_passed, record};
use gpuforge_route::{
    Backend, CpuBackend, DeviceBackend, PlacementPolicy, Router, RouterSettings, RunOptions,
    batch::BatchOptions,
};
use gpuforge_runtime::{
    engine::{
        Engine, EngineError, Opener as _,
        dummy::{DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::adapter;
use gpuforge_workloads::lattice::{
    Blocked, Distances, Grid, Lattice, LatticeError, SearchStrategy, Searcher,
    distances::{BLOCKED, SEGMENT, UNREACHED},
};

fn memory() -> StackSettings {
    StackSettings::new(Budget { bytes: Bytes::gib(2), origin: BudgetOrigin::User })
}

fn session(engine: Arc<dyn Engine>) -> Session {
    Session::new(engine, memory())
}

fn dummy() -> Session {
    session(DummyOpener::new(Bytes::gib(2), DummyScript::default()).open().unwrap())
}

/// The machine's adapter, opened once; `None` where there is none.
fn adapter() -> Option<&'static Session> {
    static ADAPTER: OnceLock<Result<Session, EngineError>> = OnceLock::new();
    adapter::or_skip(ADAPTER.get_or_init(|| GpuOpener::default().open().map(session)).as_ref())
}

fn on_cpu(op: &dyn Op, threads: usize) -> Vec<u32> {
    let size = op.outputs().unwrap()[0].size().unwrap().0 as usize;
    let mut out = vec![0xa5a5_a5a5u32; size / 4];
    let input = op.inputs()[0].host().unwrap();
    op.cpu(&[input.as_ref()], &mut [bytemuck::cast_slice_mut(&mut out)], Threads(threads)).unwrap();
    out
}

/// Results, and whether they can be believed.
fn on_device(session: &Session, op: &dyn Op) -> (Vec<u32>, bool) {
    let target = Target { caps: session.caps(), tuning: &Tuning::default() };
    let plan = record::plan(op, &target, false).unwrap();
    let done = session.run(&Arc::new(plan), Duration::from_secs(60)).unwrap();
    let words = done.outputs[0].as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    (words, op.guard().is_none_or(|at| guard_passed(&done.outputs[at])))
}

/// Checks that every backend whose guard passed gives the same bits; returns them.
fn same_bits(op: &dyn Op) -> Vec<u32> {
    let want = on_cpu(op, 1);
    assert!(on_cpu(op, 3) == want, "other bits with three threads");
    let (words, sure) = on_device(&dummy(), op);
    assert!(sure && words == want, "other bits on the dummy: {op:?}");
    if let Some(adapter) = adapter() {
        let (words, sure) = on_device(adapter, op);
        assert!(sure && words == want, "other bits on the adapter: {op:?}");
    }
    want
}

fn lattice(sizes: &[u64], chance: f64, seed: u64) -> Lattice {
    let grid = Grid::rectangular(sizes).unwrap();
    let blocked = Blocked::random(&grid, chance, seed, &[0]).unwrap();
    Lattice::new(grid).block(blocked).unwrap()
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    for n in [1, 2, 63, 64, 65, 4095, 4097] {
        for sizes in [vec![n], vec![1, n, 1], vec![3, n], vec![n, 2]] {
            let open = Lattice::new(Grid::rectangular(&sizes).unwrap());
            let got = same_bits(&Distances::new(&open, 0).unwrap());
            assert_eq!(u64::from(*got.last().unwrap()), open.grid().diameter());
            same_bits(&Distances::new(&lattice(&sizes, 0.1, n), 0).unwrap().rounds(64));
        }
    }
}

#[test]
fn distances_agree_with_path_search() {
    for (sizes, chance) in [
        (vec![10u64, 10, 10, 10], 0.2),
        (vec![7, 8, 9], 0.3),
        (vec![40, 40], 0.35),
        (vec![3, 4, 2, 5, 3], 0.2),
        (vec![9, 11], 0.0),
    ] {
        let lattice = lattice(&sizes, chance, 4);
        let got = same_bits(&Distances::new(&lattice, 0).unwrap().rounds(64));
        let mut searcher = Searcher::new();
        for cell in (0..lattice.grid().vertices()).step_by(7) {
            let word = got[cell as usize];
            if !lattice.is_open(cell) {
                assert_eq!(word, BLOCKED);
                continue;
            }
            let route = searcher.path_by(&lattice, 0, cell, SearchStrategy::Bidirectional).unwrap();
            assert_eq!(word, route.path().map_or(UNREACHED, |p| p.cost as u32), "{sizes:?}, cell {cell}");
        }
    }
}

#[test]
fn estimated_rounds_suffice_for_random_obstacles() {
    for (sizes, chance) in [(vec![10u64, 10, 10, 10], 0.2), (vec![64, 64], 0.2), (vec![20, 20, 20], 0.3)] {
        for seed in 0..5 {
            same_bits(&Distances::new(&lattice(&sizes, chance, seed), 0).unwrap());
        }
    }
}

#[test]
fn long_lines_are_split_into_segments() {
    for n in [u64::from(SEGMENT) - 1, u64::from(SEGMENT), u64::from(SEGMENT) + 1, 20_000] {
        let open = Lattice::new(Grid::rectangular(&[n, 2]).unwrap());
        let got = same_bits(&Distances::new(&open, n).unwrap());
        assert_eq!(got[n as usize], 0);
        same_bits(&Distances::new(&lattice(&[2, n], 0.0005, 3), 0).unwrap().rounds(32));
    }
}

#[test]
fn multi_source_distances_are_the_minimum() {
    let lattice = lattice(&[30, 30], 0.2, 9);
    let sources: Vec<u64> = [0u64, 899, 450].into_iter().filter(|c| lattice.is_open(*c)).collect();
    let got = same_bits(&Distances::from_any(&lattice, &sources).unwrap().rounds(64));
    let each: Vec<Vec<u32>> =
        sources.iter().map(|s| on_cpu(&Distances::new(&lattice, *s).unwrap(), 1)).collect();
    for (cell, word) in got.iter().enumerate() {
        assert_eq!(*word, each.iter().map(|e| e[cell]).min().unwrap());
    }
    let open = Lattice::new(Grid::new(2, 9).unwrap());
    assert_eq!(on_cpu(&Distances::from_any(&open, &[0, 80]).unwrap(), 1)[8], 8);
    assert!(on_cpu(&Distances::from_any(&open, &[]).unwrap(), 1).iter().all(|w| *w == UNREACHED));
}

/// Walls with gaps on alternating sides: far more turns than any guess.
fn comb() -> Lattice {
    let grid = Grid::new(2, 32).unwrap();
    let wall = |row: u64| (0..31).map(move |c| row * 32 + if row % 4 == 1 { c } else { c + 1 });
    let walls: Vec<u64> = (1..31).step_by(2).flat_map(wall).collect();
    Lattice::new(grid.clone()).block(Blocked::list(&grid, &walls).unwrap()).unwrap()
}

#[test]
fn too_few_sweep_rounds_fall_back_to_the_cpu() {
    let op = Distances::new(&comb(), 0).unwrap().rounds(3);
    let want = on_cpu(&op, 1);
    let (words, sure) = on_device(&dummy(), &op);
    assert!(!sure && words != want);
    if let Some(adapter) = adapter() {
        assert!(!on_device(adapter, &op).1);
    }
    let runner = Runner::new(
        Box::new(DummyOpener::new(Bytes::gib(2), DummyScript::default())),
        RunnerSettings::new(memory()),
    );
    let device: Arc<dyn Backend> = Arc::new(DeviceBackend::new("dummy", None, Arc::new(runner)));
    let router =
        Router::new(vec![Arc::new(CpuBackend::default()), device], Vec::new(), RouterSettings::default());
    let asked = RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false };
    let ran = router.run_with(&op, asked).unwrap();
    assert_eq!(ran.to_vec::<u32>().unwrap(), want);
    assert!(ran.report().fallback.is_some());
    let enough = router.run_with(&Distances::new(&comb(), 0).unwrap().rounds(64), asked).unwrap();
    assert_eq!(enough.to_vec::<u32>().unwrap(), want);
    assert!(enough.report().fallback.is_none(), "{:?}", enough.report());
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    let ops: Vec<Distances> =
        (0..6).map(|s| Distances::new(&lattice(&[6, 7, 5], 0.2, s), 0).unwrap().rounds(32)).collect();
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    let key = ops[0].fuse_key().unwrap();
    assert!(ops.iter().all(|op| op.fuse_key() == Some(key)));
    let fused = ops[0].fuse(&all).unwrap().unwrap();
    let whole = same_bits(fused.op.as_ref());
    for (op, place) in ops.iter().zip(&fused.output_ranges) {
        assert_eq!(whole[place[0].start / 4..place[0].end / 4], on_cpu(op, 1));
    }
    assert_eq!(fused.op.items().unwrap().count, 6);
    let part = fused.op.part(2..5).unwrap();
    assert_eq!(on_cpu(part.as_ref(), 2), whole[2 * 210..5 * 210]);
    let router = Router::new(vec![Arc::new(CpuBackend::default())], Vec::new(), RouterSettings::default());
    let run = router.batch(ops.clone(), BatchOptions::default());
    for (result, op) in run.results.into_iter().zip(&ops) {
        assert_eq!(result.unwrap().to_vec::<u32>().unwrap(), on_cpu(op, 1));
    }
}

#[test]
fn sources_must_exist_and_be_open() {
    let comb = comb();
    assert!(matches!(Distances::new(&comb, 1024), Err(LatticeError::Outside { what: "source", .. })));
    assert!(matches!(Distances::new(&comb, 32), Err(LatticeError::BlockedEnd { what: "source", cell: 32 })));
}
