//! Reductions: fixed summation order, min/max by integer keys, non-finite values.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{Op, OpError, Reduce, argmax, argmin, max, mean, min, norm, sum, view::tensor};
use gpuforge_runtime::tensor::Tensor;

const ALL: [fn(&Tensor) -> Reduce; 7] = [sum, mean, norm, min, max, argmin, argmax];

fn floats(x: &[f32], shape: &[usize]) -> Tensor {
    tensor(x, shape, "x").unwrap()
}

/// Numbers of several sizes and both signs, from a congruential generator.
fn noise(n: usize) -> Vec<f32> {
    let mut state = 12_345u32;
    let mut next = || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        (state >> 8) as f32 / 16_777_216.0
    };
    (0..n).map(|i| (next() - 0.4) * [1.0, 100.0, 0.01][i % 3]).collect()
}

fn bits(results: &[Vec<u8>]) -> u32 {
    common::words(&results[0])[0]
}

/// The CPU and the dummy device agree in every bit; a real device is within `bound`.
fn close_on_every_backend(op: &Reduce, want: &[f64], bound: &[f64]) {
    let all = common::everywhere(op);
    let first = &all[0].1;
    for (place, results) in &all {
        if !place.starts_with("adapter") {
            assert!(results == first, "{op:?}: other bits on {place}");
        }
        for ((have, want), bound) in common::floats(&results[0]).iter().zip(want).zip(bound) {
            let error = (f64::from(*have) - want).abs();
            assert!(error <= *bound, "{op:?} on {place}: {have} for {want}, bound {bound}");
        }
    }
}

/// The bound of the module's documentation for `n` elements with this sum of magnitudes, and smallest normal numbers.
fn bound(n: usize, magnitudes: f64) -> f64 {
    let levels = if n > 4096 * 4096 {
        3.0
    } else if n > 4096 {
        2.0
    } else {
        1.0
    };
    133.0 * levels * 2f64.powi(-24) * magnitudes + n as f64 * f64::from(f32::MIN_POSITIVE)
}

#[test]
fn sums_of_integers_are_exact_on_every_backend() {
    for n in common::SIZES {
        let x: Vec<f32> = (0..n).map(|i| (i * 7919 % 31) as f32 - 15.0).collect();
        let want: f32 = x.iter().map(|x| f64::from(*x)).sum::<f64>() as f32;
        let have = common::same_bits(&sum(&floats(&x, &[n])));
        assert_eq!(common::floats(&have[0]), [want], "{n}");
    }
}

#[test]
fn sums_means_and_norms_are_within_their_bounds() {
    for n in common::SIZES {
        let x = noise(n);
        let total: f64 = x.iter().map(|x| f64::from(*x)).sum();
        let magnitudes: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
        let squares: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
        let t = floats(&x, &[n]);
        close_on_every_backend(&sum(&t), &[total], &[bound(n, magnitudes)]);
        let root = squares.sqrt();
        // A relative error of the sum is halved by the root.
        close_on_every_backend(
            &norm(&t),
            &[root],
            &[bound(n, squares) / root.max(1e-30) + 5.0 * 6e-8 * root],
        );
        if n > 0 {
            let mean_bound = (bound(n, magnitudes) + 3.0 * 6e-8 * total.abs()) / n as f64;
            close_on_every_backend(&mean(&t), &[total / n as f64], &[mean_bound]);
        }
    }
}

#[test]
fn min_max_is_exact_on_every_backend() {
    for n in common::SIZES.into_iter().filter(|n| *n > 0) {
        let x: Vec<f32> = noise(n).iter().map(|x| (x * 50.0).round()).collect();
        let t = floats(&x, &[n]);
        let (mut least, mut greatest) = (0, 0);
        for (i, v) in x.iter().enumerate() {
            least = if *v < x[least] { i } else { least };
            greatest = if *v > x[greatest] { i } else { greatest };
        }
        let value = |op: &Reduce| common::floats(&common::same_bits(op)[0])[0];
        let index = |op: &Reduce| bits(&common::same_bits(op)) as usize;
        assert_eq!((value(&min(&t)), value(&max(&t))), (x[least], x[greatest]), "{n}");
        assert_eq!((index(&argmin(&t)), index(&argmax(&t))), (least, greatest), "{n}");
    }
}

#[test]
fn rows_are_reduced_independently() {
    for (rows, n) in [(0, 5), (1, 70), (300, 7), (5, 4100), (3, 8192), (70_000, 4)] {
        let x: Vec<f32> = (0..rows * n).map(|i| (i * 7919 % 1009) as f32 - 500.0).collect();
        let t = floats(&x, &[rows, n]);
        for (i, make) in ALL.into_iter().enumerate().filter(|(i, _)| rows < 1000 || i % 3 == 0) {
            let op = make(&t).rows();
            // Division and root may differ by some ulp.
            let all = if i == 1 || i == 2 { common::on_cpu(&op, 3) } else { common::same_bits(&op) };
            let alone: Vec<u32> =
                x.chunks(n).map(|row| bits(&common::on_cpu(&make(&floats(row, &[n])), 1))).collect();
            assert_eq!(common::words(&all[0]), alone, "{op:?}");
        }
    }
}

/// What is put where, and the results: sum, mean, norm, min, max; argmin, argmax.
type Case<'a> = (&'a [(usize, f32)], [f32; 5], [u32; 2]);

#[test]
fn non_finite_values_follow_the_rule_on_every_backend() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let odd_nan = f32::from_bits(0xff80_0001);
    let cases: [Case<'_>; 6] = [
        (&[(3, nan)], [nan; 5], [3, 3]),
        (&[(5000, odd_nan), (5001, -inf)], [nan; 5], [5000, 5000]),
        (&[(5000, inf)], [inf, inf, inf, 1.0, inf], [0, 5000]),
        (&[(4, -inf)], [-inf, -inf, inf, -inf, 1.0], [4, 0]),
        (&[(4, inf), (5, -inf)], [nan, nan, inf, -inf, inf], [5, 4]),
        (&[(0, inf), (5001, -inf)], [nan, nan, inf, -inf, inf], [5001, 0]),
    ];
    for (puts, floats_, indices) in cases {
        for n in [5002, 5004] {
            let mut x = vec![1.0; n];
            puts.iter().for_each(|(at, v)| x[*at] = *v);
            let want = floats_.map(|f| if f.is_nan() { 0x7fc0_0000 } else { f.to_bits() });
            for (make, want) in ALL.iter().zip(want.into_iter().chain(indices)) {
                let op = make(&floats(&x, &[n]));
                assert_eq!(bits(&common::same_bits(&op)), want, "{op:?} of {puts:?}");
            }
        }
    }
}

#[test]
fn overflowing_sums_are_infinite() {
    let (big, inf) = (f32::MAX, f32::INFINITY);
    let spread = |every: usize, v: f32| (0..9000).map(|i| if i % every == 0 { v } else { 0.0 }).collect();
    let cases: [(Vec<f32>, f32); 4] = [
        (spread(32, big), inf),
        (spread(4096, -big), -inf),
        (vec![big, big, -big, -big], 0.0),
        (spread(7, 0.0), 0.0),
    ];
    for (x, want) in cases {
        let have = common::same_bits(&sum(&floats(&x, &[x.len()])));
        assert_eq!(common::floats(&have[0]), [want]);
    }
    let have = common::same_bits(&norm(&floats(&[1e30, 1.0], &[2])));
    assert_eq!(common::floats(&have[0]), [inf]);
}

#[test]
fn zeros_and_denormals() {
    let t = floats(&[0.0, -0.0, 0.0], &[3]);
    let of = |op: Reduce| bits(&common::same_bits(&op));
    assert_eq!((of(min(&t)), of(max(&t))), (1 << 31, 0), "-0 is below +0");
    assert_eq!((of(argmin(&t)), of(argmax(&t))), (0, 0), "but equal where an index is asked for");
    assert_eq!(of(sum(&floats(&[-0.0; 3], &[3]))), 0, "a sum is never -0");
    let small = f32::from_bits(1);
    let t = floats(&[small, -small, 0.0], &[3]);
    assert_eq!((of(min(&t)), of(max(&t)), of(argmin(&t))), (0x8000_0001, 1, 1));
    let x = vec![f32::MIN_POSITIVE / 2.0; 100];
    let want = 100.0 * f64::from(f32::MIN_POSITIVE) / 2.0;
    close_on_every_backend(&sum(&floats(&x, &[100])), &[want], &[bound(100, want)]);
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    let x = noise(50_001);
    for make in ALL {
        common::parts_join(&make(&floats(&x, &[50_001])), 9000);
        common::parts_join(&make(&floats(&x[..50_000], &[50, 1000])).rows(), 7);
    }
    // The last of equals lies in a later part.
    let mut y = vec![0.0; 20_000];
    (y[9000], y[15_000]) = (2.0, 2.0);
    common::parts_join(&argmax(&floats(&y, &[20_000])), 5000);
    for make in [sum, min, argmax] {
        let x: Vec<f32> = (0..4000).map(|i| (i * 31 % 101) as f32).collect();
        let ops: Vec<Reduce> = x.chunks(100).map(|c| make(&floats(c, &[100]))).collect();
        let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
        common::fused_is_same(&all);
        assert_ne!(ops[0].fuse_key(), make(&floats(&x, &[4000])).fuse_key());
    }
}

#[test]
fn partitions_on_devices_are_bit_identical() {
    let x: Vec<f32> = (0..10_000).map(|i| (i * 31 % 101) as f32).collect();
    for make in [sum, max, argmin] {
        let op = make(&floats(&x, &[10_000]));
        common::same_bits(op.part(4096..10_000).unwrap().as_ref());
    }
}

#[test]
fn invalid_input_is_named() {
    let empty = floats(&[], &[0]);
    for make in [mean, min, max, argmin, argmax] {
        assert!(matches!(make(&empty).outputs(), Err(OpError::Value { what: "the shape", .. })));
    }
    assert_eq!(
        max(&empty).outputs().unwrap_err().to_string(),
        "max: the shape is [0], an empty input has none"
    );
    let error = sum(&floats(&[1.0], &[1])).rows().outputs().unwrap_err();
    assert_eq!(error.to_string(), "sum: the shape is [1], rows need two dimensions");
    let whole = tensor(&[1u32], &[1], "x").unwrap();
    assert_eq!(min(&whole).outputs().unwrap_err().to_string(), "min: the data must be F32, it is U32");
}
