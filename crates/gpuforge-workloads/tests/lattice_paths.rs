//! Shortest paths against petgraph (A*, Dijkstra) on a thousand random lattices.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

use gpuforge_workloads::lattice::{
    Blocked, Grid, Lattice, LatticeError, LatticePath, SearchMethod, SearchResult, SearchStrategy, Searcher,
    Weights, csr, search::is_path,
};
use petgraph::{
    algo::{astar, dijkstra},
    graph::NodeIndex,
};

/// A small generator, so that a failing case can be named by its number.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn case(number: u64) -> (Lattice, u64, u64) {
    let mut numbers = Numbers(number);
    let dims = 1 + numbers.below(5);
    let most = [40, 12, 7, 5, 4][dims as usize - 1];
    let sizes: Vec<u64> = (0..dims).map(|_| 1 + numbers.below(most)).collect();
    let grid = Grid::rectangular(&sizes).unwrap();
    let (from, to) = (numbers.below(grid.vertices()), numbers.below(grid.vertices()));
    let chance = [0.0, 0.05, 0.2, 0.35, 0.5, 0.7][numbers.below(6) as usize];
    let blocked = Blocked::random(&grid, chance, number, &[from, to]).unwrap();
    (Lattice::new(grid).block(blocked).unwrap(), from, to)
}

fn check(lattice: &Lattice, path: &LatticePath, from: u64, to: u64) {
    assert_eq!((path.cells.first(), path.cells.last()), (Some(&from), Some(&to)));
    assert!(is_path(lattice, &path.cells), "{:?}", path.cells);
    let weight = |c: &u64| lattice.weights().map_or(1.0, |w| w.values()[*c as usize]);
    assert_eq!(path.cells.iter().skip(1).map(weight).sum::<f64>(), path.cost);
}

#[test]
fn a_thousand_blocked_lattices_agree_with_petgraph() {
    let mut searcher = Searcher::new();
    let (mut none, mut by) = (0, [0; 3]);
    for number in 0..1000 {
        let (lattice, from, to) = case(number);
        let graph = csr::petgraph(&lattice).unwrap();
        let end = NodeIndex::new(to as usize);
        let want = dijkstra(&graph, NodeIndex::new(from as usize), Some(end), |_| 1u64).get(&end).copied();
        for strategy in [SearchStrategy::Auto, SearchStrategy::AStar, SearchStrategy::Bidirectional] {
            let route = searcher.path_by(&lattice, from, to, strategy).unwrap();
            match &route {
                SearchResult::Found(path) => {
                    check(&lattice, path, from, to);
                    assert_eq!(Some(path.cost as u64), want, "case {number}, {strategy:?}");
                    by[path.method as usize] += 1;
                }
                SearchResult::NoPath(_) => {
                    assert_eq!(want, None, "case {number}, {strategy:?}");
                    none += 1;
                }
            }
        }
    }
    // The cases have some of everything.
    assert!(none > 100 && by.iter().all(|n| *n > 100), "{none} without a path, {by:?}");
}

#[test]
fn a_thousand_weighted_lattices_agree_with_petgraph() {
    let mut searcher = Searcher::new();
    let mut none = 0;
    for number in 0..1000 {
        let (lattice, from, to) = case(number);
        let (low, high) = [(1.0, 10.0), (0.0, 1.0), (0.5, 0.5), (0.0, 0.0), (1e-9, 1e9)][number as usize % 5];
        let weights = Weights::random(lattice.grid(), low, high, number).unwrap();
        let lattice = lattice.weigh(weights).unwrap();
        let graph = csr::petgraph_weighted(&lattice).unwrap();
        let goal = NodeIndex::new(to as usize);
        let want = astar(&graph, NodeIndex::new(from as usize), |n| n == goal, |e| *e.weight(), |_| 0.0);
        match (searcher.path(&lattice, from, to).unwrap(), want) {
            (SearchResult::Found(path), Some((cost, _))) => {
                check(&lattice, &path, from, to);
                assert!((path.cost - cost).abs() <= 1e-12 * cost, "case {number}: {} {cost}", path.cost);
                assert_eq!(path.method, SearchMethod::WeightedAStar);
            }
            (SearchResult::NoPath(_), None) => none += 1,
            (ours, theirs) => panic!("case {number}: {ours:?} {theirs:?}"),
        }
    }
    assert!(none > 50, "{none} without a path");
}

#[test]
fn layer_minima_guide_the_search() {
    // Rows of mud: the least of each row is known, so that hardly anything but the path is looked at.
    let grid = Grid::new(2, 200).unwrap();
    let weights = Weights::from_fn(&grid, |at| if at[0] % 2 == 0 { 1.0 } else { 50.0 }).unwrap();
    let lattice = Lattice::new(grid.clone()).weigh(weights).unwrap();
    let route = Searcher::new().path(&lattice, 0, grid.vertices() - 1).unwrap();
    let path = route.path().unwrap();
    assert_eq!(path.cost, 199.0 + 100.0 * 50.0 + 99.0);
}

#[test]
fn mazes_use_bidirectional_bfs_and_an_enclosed_goal_ends_early() {
    // A comb: walls from alternating sides, so that every path goes to and fro.
    let side = 300u64;
    let grid = Grid::new(2, side).unwrap();
    let wall = |row: u64| (0..side - 1).map(move |c| row * side + if row % 4 == 1 { c } else { c + 1 });
    let walls: Vec<u64> = (1..side - 1).step_by(2).flat_map(wall).collect();
    let comb = Lattice::new(grid.clone()).block(Blocked::list(&grid, &walls).unwrap()).unwrap();
    let mut searcher = Searcher::new();
    let (from, to) = (0, grid.vertices() - side);
    let lengths: Vec<usize> = [SearchStrategy::Auto, SearchStrategy::AStar, SearchStrategy::Bidirectional]
        .map(|s| searcher.path_by(&comb, from, to, s).unwrap().path().unwrap().cells.len())
        .to_vec();
    assert!(lengths[0] > 20_000 && lengths.iter().all(|l| *l == lengths[0]), "{lengths:?}");
    assert_eq!(searcher.path(&comb, from, to).unwrap().path().unwrap().method, SearchMethod::Bidirectional);

    let grid = Grid::new(3, 60).unwrap();
    let goal = grid.cell(&[30, 30, 30]).unwrap();
    let around: Vec<u64> = grid.neighbours(goal).collect();
    let lattice = Lattice::new(grid.clone()).block(Blocked::list(&grid, &around).unwrap()).unwrap();
    let SearchResult::NoPath(none) =
        searcher.path_by(&lattice, 0, goal, SearchStrategy::Bidirectional).unwrap()
    else {
        panic!("there is a path into a closed box")
    };
    assert!(none.expanded < 10, "{none:?}");
    let SearchResult::NoPath(none) = searcher.path(&lattice, 0, goal).unwrap() else { panic!() };
    assert!(none.expanded < grid.vertices() / 4 + 10, "{none:?}");
}

#[test]
fn a_searcher_is_reusable_across_lattices() {
    let mut searcher = Searcher::new();
    for number in (0..200).chain((0..200).rev()) {
        let (lattice, from, to) = case(number);
        let fresh = Searcher::new().path(&lattice, from, to).unwrap();
        assert_eq!(searcher.path(&lattice, from, to).unwrap(), fresh, "case {number}");
    }
}

#[test]
fn missing_or_blocked_ends_are_refused() {
    let grid = Grid::new(2, 4).unwrap();
    let lattice = Lattice::new(grid.clone()).block(Blocked::list(&grid, &[5]).unwrap()).unwrap();
    let mut searcher = Searcher::new();
    let mut error = |from, to| searcher.path(&lattice, from, to).unwrap_err();
    assert_eq!(error(16, 0), LatticeError::Outside { what: "start", cell: 16, cells: 16 });
    assert_eq!(error(0, 99), LatticeError::Outside { what: "goal", cell: 99, cells: 16 });
    assert_eq!(error(5, 0), LatticeError::BlockedEnd { what: "start", cell: 5 });
    assert_eq!(error(0, 5), LatticeError::BlockedEnd { what: "goal", cell: 5 });
    assert!(error(0, 5).to_string().contains("cell 5, is blocked"));
    let same = searcher.path(&lattice, 3, 3).unwrap();
    assert_eq!(same.path().unwrap().cells, [3]);
}
