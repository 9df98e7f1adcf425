//! Lattice analysis, centrality and communities against brute force; batches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

use std::{collections::VecDeque, sync::Arc};

use gpuforge_route::{
    CpuBackend, Router, RouterSettings,
    batch::{BatchOptions, CancelToken},
};
use gpuforge_workloads::lattice::{
    Blocked, Csr, Grid, Lattice, analyse,
    analyse::{ALWAYS_EXACT, Origin},
    batch,
    centrality::centrality,
    community::communities,
};

fn lattice(sizes: &[u64], chance: f64, seed: u64) -> Lattice {
    let grid = Grid::rectangular(sizes).unwrap();
    let blocked = Blocked::random(&grid, chance, seed, &[]).unwrap();
    Lattice::new(grid).block(blocked).unwrap()
}

/// Distances from a cell, plainly.
fn plain(lattice: &Lattice, from: u64) -> Vec<Option<u64>> {
    let mut distance = vec![None; lattice.grid().vertices() as usize];
    distance[from as usize] = Some(0);
    let mut queue = VecDeque::from([from]);
    while let Some(cell) = queue.pop_front() {
        for next in lattice.grid().neighbours(cell).filter(|n| lattice.is_open(*n)) {
            if distance[next as usize].is_none() {
                distance[next as usize] = distance[cell as usize].map(|d| d + 1);
                queue.push_back(next);
            }
        }
    }
    distance
}

#[test]
fn analysis_matches_brute_force() {
    for (sizes, chance) in [
        (vec![12u64, 12], 0.3),
        (vec![5, 6, 7], 0.3),
        (vec![4, 4, 4, 4], 0.5),
        (vec![50], 0.1),
        (vec![20, 20], 0.45),
        (vec![1, 9], 0.2),
    ] {
        for seed in 0..5 {
            let lattice = lattice(&sizes, chance, seed);
            let open: Vec<u64> = (0..lattice.grid().vertices()).filter(|c| lattice.is_open(*c)).collect();
            let got = analyse(&lattice).unwrap();
            assert_eq!((got.origin, got.vertices), (Origin::Computed, open.len() as u64));
            let around = |c: &u64| lattice.grid().neighbours(*c).filter(|n| lattice.is_open(*n)).count();
            assert_eq!(got.edges * 2, open.iter().map(around).sum::<usize>() as u128);
            for (degree, count) in got.degrees.iter().enumerate() {
                assert_eq!(*count, open.iter().filter(|c| around(c) == degree).count() as u64);
            }
            let all: Vec<Vec<Option<u64>>> = open.iter().map(|c| plain(&lattice, *c)).collect();
            let sizes: Vec<u64> = all.iter().map(|d| d.iter().flatten().count() as u64).collect();
            let components: f64 = sizes.iter().map(|s| 1.0 / *s as f64).sum();
            assert_eq!(got.components, components.round() as u64);
            let largest = sizes.iter().copied().max().unwrap();
            assert_eq!((got.largest_component, got.connected), (largest, components.round() == 1.0));
            let wide = all.iter().zip(&sizes).filter(|(_, s)| **s == largest);
            let widths: Vec<u64> = wide.map(|(d, _)| d.iter().flatten().copied().max().unwrap()).collect();
            let diameter = got.diameter.unwrap();
            assert!(diameter.exact);
            // Where several components are the largest, the first counts.
            assert!(widths.contains(&diameter.lower) && diameter.lower == diameter.upper);
            if sizes.iter().filter(|s| **s == largest).count() as u64 == largest {
                assert_eq!(diameter.lower, widths.into_iter().max().unwrap());
            }
            assert!(got.largest_component <= ALWAYS_EXACT);
        }
    }
}

#[test]
fn empty_and_single_cell_lattices_are_analysed() {
    let grid = Grid::new(2, 3).unwrap();
    let all: Vec<u64> = (0..9).collect();
    let nothing = Lattice::new(grid.clone()).block(Blocked::list(&grid, &all).unwrap()).unwrap();
    let got = analyse(&nothing).unwrap();
    assert_eq!((got.vertices, got.components, got.connected), (0, 0, false));
    assert_eq!((got.diameter, got.mean_degree, got.density), (None, None, None));
    let one = Lattice::new(grid.clone()).block(Blocked::list(&grid, &all[1..]).unwrap()).unwrap();
    let got = analyse(&one).unwrap();
    assert_eq!((got.vertices, got.components, got.connected, got.density), (1, 1, true, None));
    assert_eq!(got.diameter.unwrap().lower, 0);
}

#[test]
fn a_large_lattice_gets_bounds_that_hold() {
    // One blocked corner leaves the other diagonal as it is.
    let grid = Grid::new(2, 400).unwrap();
    let lattice = Lattice::new(grid.clone()).block(Blocked::list(&grid, &[0]).unwrap()).unwrap();
    let got = analyse(&lattice).unwrap();
    let diameter = got.diameter.unwrap();
    assert!(diameter.lower <= 798 && diameter.upper >= 798, "{diameter:?}");
    assert_eq!(diameter.exact, diameter.lower == diameter.upper);
    assert!(diameter.lower >= 797 && got.passes >= 2);
}

#[test]
fn centrality_of_known_graphs() {
    // A path of five cells; figures by the definitions.
    let path = Csr::build(&Lattice::new(Grid::new(1, 5).unwrap())).unwrap();
    let c = centrality(&path).unwrap();
    assert_eq!(c.degree, [0.25, 0.5, 0.5, 0.5, 0.25]);
    let close = [4.0 / 10.0, 4.0 / 7.0, 4.0 / 6.0, 4.0 / 7.0, 4.0 / 10.0];
    assert!(c.closeness.iter().zip(close).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", c.closeness);
    let between = [0.0, 3.0 / 6.0, 4.0 / 6.0, 3.0 / 6.0, 0.0];
    assert!(c.betweenness.iter().zip(between).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", c.betweenness);
    // A square: each of four cells lies on half of the paths between its neighbours.
    let square = centrality(&Csr::build(&Lattice::new(Grid::new(2, 2).unwrap())).unwrap()).unwrap();
    assert!(square.betweenness.iter().all(|b| (b - 1.0 / 6.0).abs() < 1e-12), "{:?}", square.betweenness);
    // Two parts: nearness counts how much can be reached at all; a blocked cell has nothing.
    let grid = Grid::new(1, 4).unwrap();
    let parts = Lattice::new(grid.clone()).block(Blocked::list(&grid, &[2]).unwrap()).unwrap();
    let c = centrality(&Csr::build(&parts).unwrap()).unwrap();
    assert_eq!((c.closeness[0], c.closeness[2], c.closeness[3]), (0.5, 0.0, 0.0));
    let large = Csr::build(&Lattice::new(Grid::new(2, 300).unwrap())).unwrap();
    assert!(centrality(&large).unwrap_err().to_string().contains("at most"));
}

#[test]
fn betweenness_matches_brute_force() {
    let lattice = lattice(&[4, 4, 3], 0.25, 3);
    let graph = Csr::build(&lattice).unwrap();
    let n = graph.cells();
    let all: Vec<Vec<Option<u64>>> = (0..n as u64).map(|c| plain(&lattice, c)).collect();
    let paths = |a: usize, b: usize| {
        gpuforge_workloads::lattice::count_paths(&lattice, a as u64, b as u64).unwrap().exact.unwrap() as f64
    };
    let open: Vec<usize> = (0..n).filter(|c| graph.is_open(*c)).collect();
    let c = centrality(&graph).unwrap();
    for v in open.iter().copied() {
        let mut sum = 0.0;
        for a in open.iter().copied().filter(|a| *a != v) {
            for b in open.iter().copied().filter(|b| *b > a && *b != v) {
                if let (Some(d), Some(x), Some(y)) = (all[a][b], all[a][v], all[v][b])
                    && d == x + y
                {
                    sum += paths(a, v) * paths(v, b) / paths(a, b);
                }
            }
        }
        let others = open.len() as f64 - 1.0;
        assert!((c.betweenness[v] - sum / (others * (others - 1.0) / 2.0)).abs() < 1e-9, "cell {v}");
    }
}

#[test]
fn two_rooms_with_a_door_are_separate_communities() {
    // Two rooms of 8 by 8 with a wall between them and one door.
    let grid = Grid::rectangular(&[8, 17]).unwrap();
    let wall: Vec<u64> = (0..8).filter(|r| *r != 3).map(|r| r * 17 + 8).collect();
    let rooms = Lattice::new(grid.clone()).block(Blocked::list(&grid, &wall).unwrap()).unwrap();
    let graph = Csr::build(&rooms).unwrap();
    let found = communities(&graph, 1).unwrap();
    assert_eq!(found, communities(&graph, 1).unwrap(), "the same for a seed");
    assert!(wall.iter().all(|c| found.labels[*c as usize].is_none()));
    assert!(found.modularity.unwrap() > 0.45 && (2..=12).contains(&found.count), "{found:?}");
    // No community has cells of both rooms, but for those beside the door.
    let of = |columns: std::ops::Range<u64>| -> Vec<Option<u32>> {
        let cells = (0..8).flat_map(|r| columns.clone().map(move |c| r * 17 + c));
        cells.map(|c| found.labels[c as usize]).collect()
    };
    let (left, right) = (of(0..7), of(10..17));
    assert!(left.iter().all(|l| l.is_some() && !right.contains(l)));
    let used: std::collections::BTreeSet<u32> = found.labels.iter().flatten().copied().collect();
    assert!(used.into_iter().eq(0..found.count as u32));
    let alone = communities(&Csr::build(&Lattice::new(Grid::new(1, 1).unwrap())).unwrap(), 1).unwrap();
    assert_eq!((alone.count, alone.modularity), (1, None));
}

#[test]
fn a_batch_isolates_failures() {
    let router = Router::new(vec![Arc::new(CpuBackend::default())], Vec::new(), RouterSettings::default());
    let mut lattices: Vec<Lattice> = (0..100).map(|s| lattice(&[6, 6, 6], 0.2, s)).collect();
    // One that is too large fails alone.
    let large = Grid::new(2, 40_000).unwrap();
    lattices[50] = Lattice::new(large.clone()).block(Blocked::list(&large, &[7]).unwrap()).unwrap();
    let (items, pending) = batch::analyses(lattices.clone());
    let run = router.batch(items, BatchOptions::default());
    assert_eq!((run.stats.items, run.stats.failed), (100, 1));
    assert!(run.results[50].as_ref().unwrap_err().to_string().contains("item 50"));
    for (i, (got, lattice)) in pending.results().into_iter().zip(&lattices).enumerate() {
        assert_eq!(got.unwrap(), analyse(lattice), "lattice {i}");
    }
    let (items, pending) = batch::analyses(lattices);
    let cancel = CancelToken::new();
    cancel.cancel();
    router.batch(items, BatchOptions { cancel: Some(cancel), ..BatchOptions::default() });
    assert!(pending.results().iter().all(Option::is_none));
}
