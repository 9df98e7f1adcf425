//! Histogram: same counts on every backend, against comparing with every edge.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{Histogram, Op, OpError, histogram, view::tensor};
use gpuforge_runtime::tensor::Tensor;
use proptest::prelude::*;

fn floats(x: &[f32], shape: &[usize]) -> Tensor {
    tensor(x, shape, "x").unwrap()
}

fn counts(op: &Histogram) -> Vec<u32> {
    common::words(&common::same_bits(op)[0])
}

fn noise(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as u32).wrapping_mul(2_654_435_769) as f32 / 4_294_967_296.0).collect()
}

/// NumPy's rule, by edges in f64.
fn reference(x: &[f32], bins: usize, lo: f32, hi: f32) -> Vec<u32> {
    let (from, width) = (f64::from(lo), f64::from(hi) - f64::from(lo));
    let edge = |i: usize| if i == bins { f64::from(hi) } else { from + width * (i as f64 / bins as f64) };
    let edges: Vec<f64> = (0..=bins).map(edge).collect();
    let mut counts = vec![0; bins];
    for x in x.iter().filter(|x| **x >= lo && **x <= hi).map(|x| f64::from(*x)) {
        counts[edges.partition_point(|e| *e <= x).clamp(1, bins) - 1] += 1;
    }
    counts
}

#[test]
fn counts_are_exact_on_every_backend() {
    for n in common::SIZES {
        let x = noise(n);
        for bins in [1, 10, 1024, 5000] {
            let have = counts(&histogram(&floats(&x, &[n]), bins, 0.125, 0.9));
            assert!(have == reference(&x, bins, 0.125, 0.9), "{n} elements, {bins} bins");
        }
    }
}

#[test]
fn many_bins() {
    let x = noise(100_000);
    for bins in [1023, 1025, 4096, 4097, 65_535, 65_536] {
        let have = counts(&histogram(&floats(&x, &[x.len()]), bins, -0.5, 0.75));
        assert!(have == reference(&x, bins, -0.5, 0.75), "{bins}");
    }
}

#[test]
fn range_ends_edges_and_nan() {
    let (inf, small) = (f32::INFINITY, f32::from_bits(1));
    let x =
        [f32::NAN, inf, -inf, -1.0, -0.0, 0.0, small, -small, 1.0, 1.0f32.next_up(), 0.5, 0.5f32.next_down()];
    assert_eq!(counts(&histogram(&floats(&x, &[12]), 2, 0.0, 1.0)), [4, 2]);
    assert_eq!(counts(&histogram(&floats(&x, &[12]), 2, -1.0, 1.0)), [2, 6]);
    assert_eq!(counts(&histogram(&floats(&x, &[12]), 1, f32::MIN, f32::MAX)), [9]);
    // A range of denormals: exact, although a device may take each of them for zero.
    assert_eq!(counts(&histogram(&floats(&x, &[12]), 2, -small, small)), [1, 3]);
    let skewed = vec![0.3; 70_000];
    assert_eq!(counts(&histogram(&floats(&skewed, &[70_000]), 3, 0.0, 1.0)), [70_000, 0, 0]);
}

#[test]
fn bin_edges_are_resolved_by_comparison() {
    // Every edge, and its neighbours, at ranges where bins are finer than floats and where they are not.
    for (bins, lo, hi) in [
        (10, 0.0f32, 1.0f32),
        (1000, 1.0, 1.000_1),
        (65_536, 1.0, 1.001),
        (777, -3e38, 3e38),
        (100, 1e-40, 1e-38),
        (1000, -1e5, 7.0),
        (3, 16_777_216.0, 16_777_218.0),
    ] {
        let width = f64::from(hi) - f64::from(lo);
        let near = |i: usize| {
            let e = (f64::from(lo) + width * i as f64 / bins as f64) as f32;
            [e, e.next_up(), e.next_down()]
        };
        let x: Vec<f32> = (0..=bins).flat_map(near).collect();
        let have = counts(&histogram(&floats(&x, &[x.len()]), bins, lo, hi));
        assert!(have == reference(&x, bins, lo, hi), "{bins} bins from {lo} to {hi}");
    }
}

#[test]
fn rows_partitions_and_fused_ops_give_the_same_counts() {
    let x = noise(50_000);
    for (rows, n) in [(0, 7), (7, 0), (50, 1000), (1000, 50), (2, 25_000)] {
        let t = floats(&x[..rows * n], &[rows, n]);
        let want: Vec<u32> =
            (0..rows).flat_map(|r| reference(&x[r * n..(r + 1) * n], 12, 0.0, 0.9)).collect();
        assert_eq!(counts(&histogram(&t, 12, 0.0, 0.9).rows()), want);
    }
    common::parts_join(&histogram(&floats(&x, &[50_000]), 100, 0.0, 1.0), 7001);
    common::parts_join(&histogram(&floats(&x, &[50, 1000]), 100, 0.0, 1.0).rows(), 7);
    let ops: Vec<Histogram> =
        x[..2000].chunks(100).map(|c| histogram(&floats(c, &[100]), 5, 0.0, 1.0)).collect();
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    common::fused_is_same(&all);
    assert_ne!(ops[0].fuse_key(), histogram(&floats(&x[..100], &[100]), 6, 0.0, 1.0).fuse_key());
}

#[test]
fn invalid_input_is_named() {
    let x = floats(&[1.0], &[1]);
    let error = |op: Histogram| op.outputs().unwrap_err();
    for bins in [0, 65_537] {
        assert!(matches!(
            error(histogram(&x, bins, 0.0, 1.0)),
            OpError::Value { what: "the number of bins", .. }
        ));
    }
    for (lo, hi) in [(1.0, 1.0), (2.0, 1.0), (f32::NAN, 1.0), (0.0, f32::INFINITY)] {
        assert!(matches!(error(histogram(&x, 4, lo, hi)), OpError::Value { what: "the range", .. }));
    }
    assert_eq!(
        error(histogram(&x, 4, 0.0, 1.0).rows()).to_string(),
        "histogram: the shape is [1], rows need two dimensions"
    );
    let whole = tensor(&[1u32], &[1], "x").unwrap();
    assert_eq!(
        error(histogram(&whole, 4, 0.0, 1.0)).to_string(),
        "histogram: the data must be F32, it is U32"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_bits_in_any_range(
        bits in prop::collection::vec(any::<u32>(), 0..200),
        lo in any::<f32>().prop_filter("finite", |x| x.is_finite()),
        hi in any::<f32>().prop_filter("finite", |x| x.is_finite()),
        bins in 1usize..300,
    ) {
        prop_assume!(lo < hi);
        // Any bits, and as many numbers inside the range.
        let inside = |b: &u32| (f64::from(lo) + (f64::from(hi) - f64::from(lo)) * f64::from(*b) / 4_294_967_295.0) as f32;
        let x: Vec<f32> = bits.iter().map(|b| f32::from_bits(*b)).chain(bits.iter().map(inside)).collect();
        let op = histogram(&floats(&x, &[x.len()]), bins, lo, hi);
        prop_assert_eq!(common::words(&common::on_cpu(&op, 1)[0]), reference(&x, bins, lo, hi));
    }
}
