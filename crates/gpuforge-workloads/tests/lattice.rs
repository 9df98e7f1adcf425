//! Grids and lattices: closed forms, limits, parsing, path counts, drawing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

use std::collections::VecDeque;

use gpuforge_workloads::lattice::{
    Blocked, Csr, Grid, KEY_BYTES, Lattice, LatticeError, SearchResult, Searcher, Weights, analyse,
    count_paths, csr, parse_cell, parse_cells, search::is_path, svg::svg, xor_transform,
};

#[test]
fn closed_forms_hold_for_one_to_six_dimensions() {
    for d in 1..=6usize {
        for s in [1u64, 2, 3, 5, if d <= 4 { 10 } else { 4 }] {
            let grid = Grid::new(d, s).unwrap();
            let (v, dd) = (s.pow(d as u32), d as u64);
            assert_eq!(grid.vertices(), v);
            assert_eq!(grid.edges(), u128::from(dd * (s - 1) * s.pow(d as u32 - 1)));
            assert_eq!(grid.mean_degree(), 2.0 * d as f64 * (s - 1) as f64 / s as f64);
            assert_eq!(grid.diameter(), dd * (s - 1));
            // Beside what is there when every edge is written down.
            let lattice = Lattice::new(grid.clone());
            let graph = Csr::build(&lattice).unwrap();
            assert_eq!(graph.edges() as u128, grid.edges());
            let mut degrees = vec![0u64; 2 * d + 1];
            (0..graph.cells()).for_each(|c| degrees[graph.neighbours(c).len()] += 1);
            degrees.truncate(grid.degrees().len());
            assert_eq!(degrees, grid.degrees());
            let analysis = analyse(&lattice).unwrap();
            assert!(analysis.connected && analysis.clustering == 0.0);
            assert_eq!(analysis.diameter.unwrap().lower, grid.diameter());
            let pairs = v as f64 * (v as f64 - 1.0);
            assert_eq!(analysis.density, (v > 1).then(|| 2.0 * grid.edges() as f64 / pairs));
            let path = Searcher::new().path(&lattice, 0, v - 1).unwrap();
            let path = path.path().unwrap();
            assert_eq!(path.cells.len() as u64, 1 + grid.diameter());
            assert!(is_path(&lattice, &path.cells));
        }
    }
}

#[test]
fn four_dimensional_grid_of_ten_thousand_cells() {
    let grid = Grid::new(4, 10).unwrap();
    assert_eq!((grid.vertices(), grid.edges(), grid.diameter()), (10_000, 36_000, 36));
    assert_eq!(grid.mean_degree(), 7.2);
    let SearchResult::Found(path) = Searcher::new().path(&Lattice::new(grid), 0, 9_999).unwrap() else {
        panic!()
    };
    assert_eq!((path.cells.len(), path.cost, path.expanded), (37, 36.0, 0));
    assert_eq!((path.cells[0], path.cells[36]), (0, 9_999));
}

#[test]
fn closed_forms_need_no_memory_for_huge_grids() {
    for (d, s) in [(3, 1000u64), (9, 10), (2, 1 << 31), (63, 2)] {
        let grid = Grid::new(d, s).unwrap();
        let last = grid.vertices() - 1;
        let corner = vec![s - 1; d];
        assert_eq!(grid.coordinates(last).unwrap(), corner);
        assert_eq!(grid.cell(&corner).unwrap(), last);
        assert_eq!(grid.distance(0, last).unwrap(), grid.diameter());
        assert_eq!(grid.neighbours(last).count(), d);
        assert!(grid.neighbours(last).all(|n| grid.distance(n, last) == Ok(1)));
        assert_eq!(grid.degrees().iter().sum::<u64>(), grid.vertices());
        let analysis = analyse(&Lattice::new(grid.clone())).unwrap();
        assert_eq!(analysis.vertices, last + 1);
        if s <= 1000 {
            let route = Searcher::new().path(&Lattice::new(grid.clone()), 0, last).unwrap();
            assert_eq!(route.path().unwrap().cells.len() as u64, 1 + grid.diameter());
        }
    }
    let long = Lattice::new(Grid::new(1, 1 << 40).unwrap());
    let error = Searcher::new().path(&long, 0, (1 << 40) - 1).unwrap_err();
    assert!(matches!(error, LatticeError::TooLarge { what: "a path", .. }), "{error}");
}

#[test]
fn rectangles_number_the_last_axis_fastest() {
    let grid = Grid::rectangular(&[2, 3, 5]).unwrap();
    let mut cell = 0;
    for a in 0..2 {
        for b in 0..3 {
            for c in 0..5 {
                assert_eq!(grid.cell(&[a, b, c]).unwrap(), cell);
                assert_eq!(grid.coordinates(cell).unwrap(), [a, b, c]);
                cell += 1;
            }
        }
    }
    assert_eq!(grid.neighbours(0).collect::<Vec<_>>(), [15, 5, 1]);
    assert_eq!(grid.neighbours(30).count(), 0);
    assert_eq!(grid.eccentricity(0).unwrap(), grid.diameter());
}

#[test]
fn impossible_shapes_are_refused() {
    assert_eq!(Grid::new(0, 3), Err(LatticeError::Dims(0)));
    assert_eq!(Grid::new(64, 1), Err(LatticeError::Dims(64)));
    assert_eq!(Grid::new(3, 0), Err(LatticeError::Empty { axis: 0 }));
    assert_eq!(Grid::rectangular(&[3, 0]), Err(LatticeError::Empty { axis: 1 }));
    let error = Grid::new(2, 1 << 32).unwrap_err();
    assert!(matches!(error, LatticeError::Overflow { .. }) && error.to_string().contains("2^64"), "{error}");
    assert!(Grid::rectangular(&[u64::MAX]).is_ok());
    assert!(Grid::new(63, 3).is_err());
}

#[test]
fn memory_limits_are_reported() {
    let grid = Grid::new(2, 1 << 17).unwrap();
    let lattice = Lattice::new(grid.clone());
    let too_large = |error: LatticeError| {
        assert!(matches!(error, LatticeError::TooLarge { cells, .. } if cells == grid.vertices()), "{error}");
        assert!(error.to_string().contains("at most"), "{error}");
    };
    too_large(Blocked::none(&grid).unwrap_err());
    too_large(Weights::random(&grid, 0.0, 1.0, 1).unwrap_err());
    too_large(Csr::build(&lattice).unwrap_err());
    too_large(csr::petgraph(&lattice).unwrap_err());
    too_large(csr::petgraph_weighted(&lattice).unwrap_err());
    too_large(gpuforge_workloads::lattice::Distances::new(&lattice, 0).unwrap_err());
    let search = Searcher::new().path_by(&lattice, 0, 1, gpuforge_workloads::lattice::SearchStrategy::AStar);
    too_large(search.unwrap_err());
}

#[test]
fn cells_are_read_from_text() {
    let grid = Grid::new(2, 10).unwrap();
    assert_eq!(parse_cell(&grid, "17"), Ok(17));
    assert_eq!(parse_cell(&grid, " 1, 7 "), Ok(17));
    let text = "3 4;5\n# a remark\n1,7\t9,9 # the last\n\n";
    assert_eq!(parse_cells(&grid, text), Ok(vec![3, 4, 5, 17, 99]));
    assert!(matches!(parse_cell(&grid, "100"), Err(LatticeError::Outside { cell: 100, cells: 100, .. })));
    assert!(matches!(parse_cell(&grid, "1,10"), Err(LatticeError::Coordinates { .. })));
    assert!(matches!(parse_cell(&grid, "1,2,3"), Err(LatticeError::Coordinates { .. })));
    assert!(matches!(parse_cells(&grid, "1\n-3"), Err(LatticeError::Cell { line: 2, .. })));
    for odd in ["", "x", "1,", "99999999999999999999", "\u{0}"] {
        assert!(parse_cell(&grid, odd).is_err(), "{odd:?}");
    }
}

#[test]
fn blocked_cells_match_the_request() {
    let grid = Grid::new(3, 20).unwrap();
    let blocked = Blocked::random(&grid, 0.2, 5, &[0, 7999]).unwrap();
    let share = blocked.count() as f64 / 8000.0;
    assert!((0.18..0.22).contains(&share), "{share}");
    assert_eq!(blocked.count(), (0..8000).filter(|c| blocked.contains(*c)).count() as u64);
    assert!(!blocked.contains(0) && !blocked.contains(7999) && !blocked.contains(8000));
    assert_eq!(blocked, Blocked::random(&grid, 0.2, 5, &[0, 7999]).unwrap());
    assert_ne!(blocked, Blocked::random(&grid, 0.2, 6, &[0, 7999]).unwrap());
    assert_eq!(Blocked::random(&grid, 1.0, 1, &[]).unwrap().count(), 8000);
    assert_eq!(Blocked::random(&grid, 0.0, 1, &[]).unwrap().count(), 0);
    for odd in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(Blocked::random(&grid, odd, 1, &[]), Err(LatticeError::Share(_))));
    }
    let mut list = Blocked::list(&grid, &[3, 3, 5]).unwrap();
    assert_eq!(list.count(), 2);
    assert!(matches!(list.add(&[8000]), Err(LatticeError::Outside { what: "blocked cell", .. })));
    let other = Grid::new(2, 20).unwrap();
    let refused = Lattice::new(other).block(list);
    assert!(matches!(refused, Err(LatticeError::Length { have: 8000, want: 400, .. })));
}

#[test]
fn invalid_weights_name_the_cell() {
    let grid = Grid::new(2, 3).unwrap();
    for odd in [-1.0, f64::NAN, f64::INFINITY, -f64::MIN_POSITIVE] {
        let mut values = vec![1.0; 9];
        values[4] = odd;
        match Weights::new(&grid, values) {
            Err(LatticeError::Weight { cell: 4, weight }) => assert_eq!(weight.to_bits(), odd.to_bits()),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(Weights::new(&grid, vec![1.0; 8]), Err(LatticeError::Length { have: 8, want: 9, .. })));
    assert!(Weights::new(&grid, vec![-0.0; 9]).is_ok());
    assert!(matches!(Weights::random(&grid, 2.0, 1.0, 0), Err(LatticeError::WeightRange { .. })));
    assert!(matches!(Weights::random(&grid, -1.0, 1.0, 0), Err(LatticeError::WeightRange { .. })));
    assert!(matches!(Weights::parse(&grid, "1 2\n3 x"), Err(LatticeError::WeightText { line: 2, .. })));
    let parsed = Weights::parse(&grid, "1,2,3 # first row\n4 5 6\n7;8;9").unwrap();
    let made = Weights::from_fn(&grid, |at| (at[0] * 3 + at[1] + 1) as f64).unwrap();
    assert_eq!(parsed, made);
}

#[test]
fn xor_returns_the_key() {
    let data: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
    let (hidden, key) = xor_transform(&data, None).unwrap();
    assert_eq!(key.len(), KEY_BYTES);
    assert_ne!(hidden, data);
    let (found, same) = xor_transform(&hidden, Some(&key)).unwrap();
    assert_eq!((found, same), (data.clone(), key.clone()));
    assert_ne!(xor_transform(&data, None).unwrap().1, key, "a key is never made twice");
    assert!(xor_transform(&[], Some(&[1])).unwrap().0.is_empty());
    assert_eq!(xor_transform(&[1, 2, 3], Some(&[255, 0])).unwrap().0, [254, 2, 252]);
    assert!(matches!(xor_transform(&[1], Some(&[])), Err(LatticeError::Op(_))));
}

/// All shortest paths, one by one.
fn brute_count(lattice: &Lattice, from: u64, to: u64) -> u128 {
    let mut distance = vec![u64::MAX; lattice.grid().vertices() as usize];
    let mut count = vec![0u128; distance.len()];
    let mut queue = VecDeque::from([from]);
    (distance[from as usize], count[from as usize]) = (0, 1);
    while let Some(cell) = queue.pop_front() {
        for next in lattice.grid().neighbours(cell).filter(|n| lattice.is_open(*n)) {
            let far = distance[cell as usize] + 1;
            if distance[next as usize] == u64::MAX {
                distance[next as usize] = far;
                queue.push_back(next);
            }
            if distance[next as usize] == far {
                count[next as usize] += count[cell as usize];
            }
        }
    }
    count[to as usize]
}

#[test]
fn shortest_paths_are_counted() {
    for (d, s) in [(1, 9u64), (2, 6), (3, 4), (4, 3)] {
        let grid = Grid::new(d, s).unwrap();
        let last = grid.vertices() - 1;
        for (from, to) in [(0, last), (1, last), (last / 2, 0), (last, last)] {
            let open = Lattice::new(grid.clone());
            assert_eq!(count_paths(&open, from, to).unwrap().exact, Some(brute_count(&open, from, to)));
            for seed in 0..20 {
                let blocked = Blocked::random(&grid, 0.25, seed, &[from, to]).unwrap();
                let lattice = Lattice::new(grid.clone()).block(blocked).unwrap();
                let (count, want) =
                    (count_paths(&lattice, from, to).unwrap(), brute_count(&lattice, from, to));
                assert_eq!(count.exact, Some(want));
                match count.ln {
                    None => assert_eq!(want, 0),
                    Some(ln) => assert!((ln - (want as f64).ln()).abs() < 1e-9),
                }
            }
        }
    }
    // 2000 choose 1000: exact is too much to ask; its logarithm is not.
    let grid = Grid::new(2, 1001).unwrap();
    let last = grid.vertices() - 1;
    let open = count_paths(&Lattice::new(grid.clone()), 0, last).unwrap();
    assert_eq!(open.exact, None);
    assert!((open.ln.unwrap() - 1_382.267_994_195_305).abs() < 1e-6, "{:?}", open.ln);
    let one = Lattice::new(grid.clone()).block(Blocked::list(&grid, &[1000]).unwrap()).unwrap();
    let fewer = count_paths(&one, 0, last).unwrap();
    assert!(fewer.exact.is_none() && (open.ln.unwrap() - fewer.ln.unwrap()).abs() < 1e-9);
    let weights = Weights::random(&grid, 1.0, 2.0, 1).unwrap();
    let weighted = Lattice::new(grid).weigh(weights).unwrap();
    assert_eq!(count_paths(&weighted, 0, last), Err(LatticeError::Weighted));
}

#[test]
fn flat_lattices_are_drawn() {
    let grid = Grid::new(2, 6).unwrap();
    let lattice = Lattice::new(grid.clone())
        .block(Blocked::list(&grid, &[7, 8, 9, 20]).unwrap())
        .unwrap()
        .weigh(Weights::random(&grid, 0.0, 2.0, 3).unwrap())
        .unwrap();
    let route = Searcher::new().path(&lattice, 0, 35).unwrap();
    let cells = &route.path().unwrap().cells;
    let text = svg(&lattice, cells).unwrap();
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    let read = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(read.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert_eq!(text.matches("<circle").count(), 2);
    // 36 shades, two rectangles for two runs of blocked cells, the frame.
    assert_eq!(text.matches("<rect").count(), 36 + 2 + 1);
    let points = text.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(points.split_whitespace().count(), cells.len());
    assert!(svg(&Lattice::new(Grid::new(1, 5).unwrap()), &[]).is_ok());
    let deep = svg(&Lattice::new(Grid::new(3, 5).unwrap()), &[]);
    assert!(matches!(deep, Err(LatticeError::NotFlat { dims: 3, .. })));
    assert!(svg(&Lattice::new(Grid::new(2, 5000).unwrap()), &[]).is_err());
}
