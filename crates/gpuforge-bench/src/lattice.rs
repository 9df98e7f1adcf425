//! Lattice workloads: shortest paths, distances and analyses, beside petgraph and python-igraph.
//!
//! The path from the first to the last of 10 000 cells (4 dimensions of 10), with a fifth of the cells blocked, with and
//! without weights, over several lattices; graphs of the peers are built before. Whichever algorithm of asking petgraph is
//! fastest is the peer. The path where nothing is blocked is a closed form and has no peer.

use std::{hint::black_box, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use gpuforge::{
    ops::{Op, OpError, Threads, Work},
    route::{
        Backend, BatchOptions, CpuBackend, PlacementPolicy, Router, RouterSettings,
        calibrate::{self, calibrate},
    },
    workloads::lattice::{
        Blocked, Distances, Grid, Lattice, SearchResult, Searcher, Weights, analyse, batch,
    },
};

use crate::{
    lattice_peers::{Igraph, PETGRAPH, Peer, igraph},
    measure::{Sample, median, ms},
    regret,
    row::Row,
};

const BENCH: &str = "lattice";
const DIMS: usize = 4;
const SIZE: u64 = 10;
const LAST: u64 = 9_999;
const CHANCE: f64 = 0.2;
/// Lattices per case.
const SEEDS: u64 = 9;
const ROUNDS: usize = 21;
/// Searches in a row, per lattice, after one that is not timed: a single one of ours is too short to be timed. Whatever the
/// caches still hold helps both sides alike.
const IN_A_ROW: usize = 40;
const THEIRS_IN_A_ROW: usize = 3;
/// Largest acceptable fraction of petgraph's time.
const BLOCKED_SHARE: f64 = 1.0 / 3.0;
const WEIGHTED_SHARE: f64 = 1.0 / 2.0;
/// Lattices of the batch.
const MANY: u64 = 100;

pub(crate) fn run() -> Result<Vec<Row>> {
    let blocked = problems(Obstacles::Scattered)?;
    let weighted = problems(Obstacles::Weighted)?;
    let mut rows = vec![
        paths("20 % blocked, path", &blocked, Some(BLOCKED_SHARE))?,
        paths("20 % blocked, weighted path", &weighted, Some(WEIGHTED_SHARE))?,
        paths("20 % blocked, goal enclosed: no path", &problems(Obstacles::Enclosed)?, None)?,
        closed_form()?,
        distances(&blocked)?,
        many()?,
    ];
    match weighted.first().map(|p| igraph(&p.peer, ROUNDS)) {
        Some(Ok(peer)) => rows.extend(beside_igraph(&peer, &blocked, &weighted)?),
        Some(Err(error)) => eprintln!("lattice: no python-igraph: {error:#}"),
        None => {}
    }
    match regret::adapter() {
        Ok(device) => rows.extend(routed(device)?),
        Err(error) => eprintln!("lattice: no device: {error:#}"),
    }
    Ok(rows)
}

/// A lattice with its graphs for the peers.
struct Problem {
    lattice: Lattice,
    peer: Peer,
}

fn lattice(dims: usize, size: u64, seed: u64) -> Result<Lattice> {
    let grid = Grid::new(dims, size)?;
    let last = grid.vertices() - 1;
    Ok(Lattice::new(grid.clone()).block(Blocked::random(&grid, CHANCE, seed, &[0, last])?)?)
}

/// Blocked cells and weights of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacles {
    Scattered,
    /// Scattered, and entering a cell costs something between 1 and 10.
    Weighted,
    /// Scattered, and all around the goal.
    Enclosed,
}

fn problems(obstacles: Obstacles) -> Result<Vec<Problem>> {
    let problem = |seed: u64| {
        let mut lattice = lattice(DIMS, SIZE, seed)?;
        let grid = lattice.grid().clone();
        if obstacles == Obstacles::Weighted {
            lattice = lattice.weigh(Weights::random(&grid, 1.0, 10.0, seed)?)?;
        }
        if obstacles == Obstacles::Enclosed {
            let mut blocked = lattice.blocked().cloned().context("nothing is blocked")?;
            blocked.add(&grid.neighbours(LAST).collect::<Vec<_>>())?;
            lattice = lattice.block(blocked)?;
        }
        Ok(Problem { peer: Peer::new(&lattice, 0, LAST)?, lattice })
    };
    (1..=SEEDS).map(problem).collect()
}

/// Milliseconds per search.
fn each(
    problems: &[Problem],
    in_a_row: usize,
    mut search: impl FnMut(&Problem) -> Result<()>,
) -> Result<f64> {
    let mut all = 0.0;
    for problem in problems {
        search(problem)?;
        all += ms(|| (0..in_a_row).try_for_each(|_| search(black_box(problem))))?;
    }
    Ok(all / (problems.len() * in_a_row) as f64)
}

/// Milliseconds per path of ours.
fn ours(searcher: &mut Searcher, problems: &[Problem]) -> Result<f64> {
    each(problems, IN_A_ROW, |problem| {
        black_box(searcher.path(&problem.lattice, 0, LAST)?);
        Ok(())
    })
}

/// Our search beside petgraph's fastest, interleaved.
fn paths(what: &str, problems: &[Problem], share: Option<f64>) -> Result<Row> {
    let mut searcher = Searcher::new();
    for problem in problems {
        let route = searcher.path(&problem.lattice, 0, LAST)?;
        let cost = route.path().map(|p| p.cost);
        for algorithm in &PETGRAPH {
            let theirs = (algorithm.cost)(&problem.peer);
            let same = match (cost, theirs) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b,
                (a, b) => a.is_none() && b.is_none(),
            };
            ensure!(same, "{what}: {} finds {theirs:?}, we find {cost:?}", algorithm.name);
        }
    }
    let mut mine = Vec::new();
    let mut theirs: Vec<Vec<f64>> = PETGRAPH.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        mine.push(ours(&mut searcher, problems)?);
        for (algorithm, times) in PETGRAPH.iter().zip(&mut theirs) {
            times.push(each(problems, THEIRS_IN_A_ROW, |problem| {
                black_box((algorithm.cost)(&problem.peer));
                Ok(())
            })?);
        }
    }
    for (algorithm, times) in PETGRAPH.iter().zip(&theirs) {
        eprintln!("lattice: {what}: {} {:.4} ms", algorithm.name, median(times));
    }
    let expanded: u64 = problems
        .iter()
        .map(|p| match searcher.path(&p.lattice, 0, LAST) {
            Ok(SearchResult::Found(path)) => path.expanded,
            Ok(SearchResult::NoPath(none)) => none.expanded,
            Err(_) => 0,
        })
        .sum();
    eprintln!("lattice: {what}: ours {:.4} ms, {} cells expanded", median(&mine), expanded / SEEDS);
    let fastest = PETGRAPH.iter().zip(&theirs).min_by(|a, b| median(a.1).total_cmp(&median(b.1)));
    let (algorithm, times) = fastest.context("no peer")?;
    let case = format!("{DIMS}-D size {SIZE}, {what}");
    Ok(Row::vs_peer(BENCH, &case, &Sample::of(&mine), algorithm.name, &Sample::of(times), share))
}

/// Without blocked cells the path is a closed form.
fn closed_form() -> Result<Row> {
    let lattice = Lattice::new(Grid::new(DIMS, SIZE)?);
    let mut searcher = Searcher::new();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let all = ms(|| {
            for _ in 0..1000 {
                black_box(searcher.path(black_box(&lattice), 0, LAST)?);
            }
            Ok(())
        })?;
        times.push(all / 1000.0);
    }
    let case = format!("{DIMS}-D size {SIZE}, nothing blocked: closed form, no search");
    Ok(Row { target: None, ratio: None, ..Row::vs_limit(BENCH, &case, &Sample::of(&times), 1.0) })
}

/// Distances of all cells from the first.
fn distances(problems: &[Problem]) -> Result<Row> {
    let ops = problems.iter().map(|p| Ok(Distances::new(&p.lattice, 0)?)).collect::<Result<Vec<_>>>()?;
    let mut out = vec![0u8; (LAST as usize + 1) * 4];
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let all = ms(|| {
            for op in &ops {
                let start = op.inputs().first().and_then(|t| t.host()).context("on the host")?;
                op.cpu(&[&start], &mut [&mut out], Threads::ONE)?;
                black_box(&out);
            }
            Ok(())
        })?;
        mine.push(all / ops.len() as f64);
        let all = ms(|| {
            for problem in problems {
                black_box(problem.peer.all());
            }
            Ok(())
        })?;
        theirs.push(all / problems.len() as f64);
    }
    let case = format!("{DIMS}-D size {SIZE}, 20 % blocked, distances of all cells, one thread");
    let (mine, theirs) = (Sample::of(&mine), Sample::of(&theirs));
    Ok(Row::vs_peer(BENCH, &case, &mine, "petgraph dijkstra", &theirs, None))
}

/// Analyses of many lattices in one batch, beside one by one.
fn many() -> Result<Row> {
    let lattices = (0..MANY).map(|seed| lattice(3, 12, seed)).collect::<Result<Vec<_>>>()?;
    let router = Router::new(vec![Arc::new(CpuBackend::default())], Vec::new(), RouterSettings::default());
    let (mut together, mut single) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (items, pending) = batch::analyses(lattices.clone());
        let mut failed = 0;
        together.push(ms(|| {
            failed = router.batch(items, BatchOptions::default()).stats.failed;
            Ok(())
        })?);
        let mut alone = Vec::new();
        single.push(ms(|| {
            alone = lattices.iter().map(|l| Ok(analyse(l)?)).collect::<Result<Vec<_>>>()?;
            Ok(())
        })?);
        if round == 0 {
            let batched = pending.results().into_iter().collect::<Option<Result<Vec<_>, _>>>();
            ensure!(failed == 0 && batched.context("not run")?? == alone, "the batch has other results");
        }
    }
    let case = format!("analysis of {MANY} lattices of 12x12x12, 20 % blocked, in one batch");
    let (together, single) = (Sample::of(&together), Sample::of(&single));
    Ok(Row::vs_peer(BENCH, &case, &together, "one by one", &single, None))
}

fn beside_igraph(peer: &Igraph, blocked: &[Problem], weighted: &[Problem]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let cases = [("20 % blocked, path", blocked), ("20 % blocked, weighted path", weighted)];
    for ((what, problems), (cost, times)) in cases.into_iter().zip(&peer.modes) {
        let first = problems.first().map(std::slice::from_ref).unwrap_or_default();
        let mut searcher = Searcher::new();
        let mut mine = Vec::new();
        for _ in 0..ROUNDS {
            mine.push(ours(&mut searcher, first)?);
        }
        let problem = first.first().context("no lattice")?;
        let found = searcher.path(&problem.lattice, 0, LAST)?.path().map_or(f64::NAN, |p| p.cost);
        ensure!((found - cost).abs() <= 1e-9 * cost, "{what}: {} finds {cost}, we find {found}", peer.name);
        let case = format!("{DIMS}-D size {SIZE}, {what}, one lattice");
        let (mine, theirs) = (Sample::of(&mine), Sample::of(times));
        rows.push(Row::vs_peer(BENCH, &case, &mine, &peer.name, &theirs, None));
    }
    Ok(rows)
}

/// Distances of lattices of a size along each of four axes.
fn wave(size: usize, blocked: bool) -> Result<Arc<dyn Op>, OpError> {
    let made = || -> Result<Distances> {
        let lattice = lattice(DIMS, size as u64, 1)?;
        let open = Lattice::new(lattice.grid().clone());
        Ok(Distances::new(if blocked { &lattice } else { &open }, 0)?)
    };
    let failed = |e: anyhow::Error| OpError::User { op: BENCH.to_owned(), message: e.to_string() };
    Ok(Arc::new(made().map_err(failed)?))
}

/// Placement of distances after a calibration, and its regret.
fn routed(device: Arc<dyn Backend>) -> Result<Vec<Row>> {
    let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::default()), device];
    let mut models = Vec::new();
    let options = calibrate::CalibrationOptions {
        budget: Duration::from_secs(3),
        ..calibrate::CalibrationOptions::quick()
    };
    for backend in &backends {
        let mut model = calibrate(backend.as_ref(), &options, &mut |_| {})?;
        for blocked in [true, false] {
            let make = |size: usize| wave(size, blocked);
            let curve = calibrate::measure_curve(
                backend.as_ref(),
                &model,
                &make,
                &[3, 4, 6, 8, 12, 16, 22],
                &options,
            )?;
            let name = make(3)?.name().to_owned();
            model.custom.extend(curve.map(|c| (name, c)));
        }
        models.push(model);
    }
    let router =
        Router::new(backends.clone(), models, RouterSettings { explore: false, ..RouterSettings::default() });
    let mut regrets = Vec::new();
    for blocked in [true, false] {
        for size in [3, 5, 7, 10, 14, 20, 24] {
            let label = format!("distances 4-D size {size}{}", if blocked { ", 20 % blocked" } else { "" });
            let cell = regret::cell(wave(size, blocked)?, label, &backends)?;
            let class = router.op_class(cell.op.as_ref());
            let decision =
                router.decide(&Work::of(cell.op.as_ref(), false)?, class, PlacementPolicy::Fastest)?;
            let regret = cell.regret(decision.backend_id);
            eprintln!(
                "lattice: {:<36} cpu {:>9.3} ms, device {:>9.3} ms → {} ({}), regret {regret:.2}",
                cell.label, cell.times[0], cell.times[1], decision.backend_id, decision.reason
            );
            regrets.push(regret);
        }
    }
    let mean = (regrets.iter().map(|r| r.ln()).sum::<f64>() / regrets.len() as f64).exp();
    let worst = regrets.iter().copied().fold(1.0, f64::max);
    let row = |case: &str, value: f64, target: f64| {
        let sample = Sample { median: value, noise: 0.0, n: regrets.len() as u64 };
        Row { unit: "x", ..Row::vs_limit(BENCH, case, &sample, target) }
    };
    Ok(vec![
        row("router's choice for distances: regret, geometric mean", mean, 1.05),
        row("router's choice for distances: regret, worst", worst, 1.5),
    ])
}
