//! Prefix scans: fixed summation order, prefix max by integer keys, affine recurrence within its bound.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{Op, OpError, Scan, scan_affine, scan_max, scan_sum, view::tensor};
use gpuforge_runtime::tensor::Tensor;

const EPSILON: f64 = 1.0 / (1u64 << 24) as f64;

fn floats(x: &[f32], shape: &[usize]) -> Tensor {
    tensor(x, shape, "x").unwrap()
}

fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        (state >> 8) as f32 / 16_777_216.0
    };
    (0..n).map(|i| (next() - 0.4) * [1.0, 100.0, 0.01][i % 3]).collect()
}

fn running(x: &[f32], with: impl Fn(f32, f32) -> f32, start: f32) -> Vec<f32> {
    let mut now = start;
    x.iter()
        .map(|x| {
            now = with(now, *x);
            now
        })
        .collect()
}

/// The greatest of two, NaN above all; for data without zeros of both signs.
fn greater(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }
}

/// Within the bound on every backend; CPU and dummy device bit-identical if `reference_agrees`.
fn close_on_every_backend(op: &Scan, want: &[f64], bound: &[f64], reference_agrees: bool) {
    let all = common::everywhere(op);
    let first = &all[0].1;
    for (place, results) in &all {
        let cpu = place.ends_with("threads") || place == "one thread";
        assert!(
            results == first || !(cpu || reference_agrees && place.starts_with("dummy")),
            "{op:?}: {place}"
        );
        let have = common::floats(&results[0]);
        assert_eq!(have.len(), want.len());
        for (t, ((have, want), bound)) in have.iter().zip(want).zip(bound).enumerate() {
            let error = (f64::from(*have) - want).abs();
            assert!(error <= *bound, "{op:?} on {place} at {t}: {have} for {want}, bound {bound}");
        }
    }
}

#[test]
fn sums_of_integers_are_exact_on_every_backend() {
    for n in common::SIZES {
        let x: Vec<f32> = (0..n).map(|i| (i * 7919 % 31) as f32 - 15.0).collect();
        let have = common::same_bits(&scan_sum(&floats(&x, &[n])));
        assert!(common::floats(&have[0]) == running(&x, |a, b| a + b, 0.0), "{n}");
    }
}

#[test]
fn sums_are_within_their_bound() {
    for n in common::SIZES {
        let x = noise(n, 5);
        let (mut sum, mut magnitudes) = (0.0, 0.0);
        let mut step = |x: &f32| {
            (sum, magnitudes) = (sum + f64::from(*x), magnitudes + f64::from(x.abs()));
            (sum, EPSILON * 101.0 * magnitudes + n as f64 * f64::from(f32::MIN_POSITIVE))
        };
        let (want, bound): (Vec<f64>, Vec<f64>) = x.iter().map(&mut step).unzip();
        close_on_every_backend(&scan_sum(&floats(&x, &[n])), &want, &bound, true);
    }
}

#[test]
fn prefix_max_is_exact_on_every_backend() {
    for n in common::SIZES {
        let x: Vec<f32> = noise(n, 7).iter().enumerate().map(|(i, x)| x * 0.1 + i as f32 / 5e4).collect();
        let have = common::same_bits(&scan_max(&floats(&x, &[n])));
        assert!(common::floats(&have[0]) == running(&x, greater, f32::NEG_INFINITY), "{n}");
    }
}

/// The recurrence in f64, and the bound of the module's documentation.
fn reference(a: &[f32], b: &[f32], start: f32) -> (Vec<f64>, Vec<f64>) {
    let start = f64::from(start);
    let (mut y, mut magnitude, mut error) = (start, start.abs(), 0.0);
    let passes = 100.0 + (a.len() >> 20) as f64;
    let step = |(a, b): (&f32, &f32)| {
        let (a, b) = (f64::from(*a), f64::from(*b));
        (y, magnitude) = (a * y + b, a.abs() * magnitude + b.abs());
        error = a.abs() * error + 2.0 * EPSILON * magnitude + f64::from(f32::MIN_POSITIVE);
        (y, error + 2.0 * EPSILON * passes * magnitude)
    };
    a.iter().zip(b).map(step).unzip()
}

#[test]
fn affine_scans_are_within_their_bound() {
    for n in common::SIZES {
        let b = noise(n, 3);
        for (make, start) in [(0.99, 5.0), (-0.5, 0.0), (0.0, 1.0)] {
            // One in a hundred forgets everything before.
            let a: Vec<f32> =
                (0..n).map(|i| if i % 100 == 57 { 0.0 } else { make + 0.01 * b[i] / 100.0 }).collect();
            let (want, bound) = reference(&a, &b, start);
            close_on_every_backend(
                &scan_affine(&floats(&a, &[n]), &floats(&b, &[n]), start),
                &want,
                &bound,
                false,
            );
        }
    }
}

#[test]
fn affine_scans_of_integers_are_exact_on_every_backend() {
    let n = 5000;
    let a: Vec<f32> = (0..n).map(|i| [1.0, -1.0, 0.0, 1.0, 1.0, 1.0, 1.0][i * 31 % 7]).collect();
    let b: Vec<f32> = (0..n).map(|i| (i % 13) as f32).collect();
    let mut y = 3.0;
    let mut step = |(a, b): (&f32, &f32)| {
        y = a * y + b;
        y
    };
    let want: Vec<f32> = a.iter().zip(&b).map(&mut step).collect();
    let have = common::same_bits(&scan_affine(&floats(&a, &[n]), &floats(&b, &[n]), 3.0));
    assert_eq!(common::floats(&have[0]), want);
}

#[test]
fn rows_are_scanned_independently() {
    for (rows, n) in [
        (0, 5),
        (5, 0),
        (1, 70),
        (300, 7),
        (9, 128),
        (9, 129),
        (9, 1000),
        (3, 1024),
        (3, 1025),
        (5, 4100),
        (70_000, 3),
    ] {
        let x: Vec<f32> = (0..rows * n).map(|i| (i * 7919 % 109) as f32 - 50.0).collect();
        let t = floats(&x, &[rows, n]);
        let ones = floats(&vec![1.0; rows * n], &[rows, n]);
        let rows = |with: fn(f32, f32) -> f32, start: f32| -> Vec<f32> {
            x.chunks(n.max(1)).flat_map(|row| running(row, with, start)).collect()
        };
        let floats = |op: Scan| common::floats(&common::same_bits(&op)[0]);
        assert!(floats(scan_sum(&t)) == rows(|a, b| a + b, 0.0));
        assert!(floats(scan_max(&t)) == rows(f32::max, f32::NEG_INFINITY));
        assert!(floats(scan_affine(&ones, &t, 2.0)) == rows(|a, b| a + b, 2.0));
    }
}

#[test]
fn non_finite_values_follow_the_rule_on_every_backend() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let bits = |x: f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
    // Three stretches of the result; what is put at 1500 and at 3000, and what sums, maxima and recurrences are then.
    let cases: [([f32; 2], [f32; 2], [f32; 2]); 5] = [
        ([f32::from_bits(0xffc0_1234), 1.0], [nan, nan], [nan, nan]),
        ([inf, 1.0], [inf, inf], [inf, inf]),
        ([-inf, -inf], [-inf, -inf], [0.0, 0.0]),
        ([inf, -inf], [inf, nan], [inf, inf]),
        ([-inf, nan], [-inf, nan], [0.0, nan]),
    ];
    for (put, sums, maxima) in cases {
        let mut x = vec![0.0; 4000];
        (x[1500], x[3000]) = (put[0], put[1]);
        let t = floats(&x, &[4000]);
        let want = |of: [f32; 2]| -> Vec<u32> {
            (0..4000).map(|i| bits(if i < 1500 { 0.0 } else { of[usize::from(i >= 3000)] })).collect()
        };
        assert!(common::words(&common::same_bits(&scan_sum(&t))[0]) == want(sums), "sums of {put:?}");
        assert!(common::words(&common::same_bits(&scan_max(&t))[0]) == want(maxima), "maxima of {put:?}");
        let zeros = floats(&vec![0.0; 4000], &[4000]);
        for op in [scan_affine(&zeros, &t, 0.0), scan_affine(&t, &zeros, 0.0)] {
            assert!(common::words(&common::same_bits(&op)[0]) == want([nan, nan]), "{op:?} of {put:?}");
        }
    }
    let one = floats(&[1.0], &[1]);
    assert_eq!(common::words(&common::same_bits(&scan_affine(&one, &one, inf))[0]), [bits(nan)]);
}

#[test]
fn overflowing_prefix_sums_stay_infinite() {
    // The order of additions decides where it happens; it is the same everywhere.
    let big = f32::MAX;
    for at in [[0, 1, 2, 3], [0, 40, 41, 42], [0, 1100, 1101, 2300], [5, 900, 2100, 2200]] {
        let mut x = vec![0.0; 3000];
        at.into_iter().zip([big, big, -big, -big]).for_each(|(i, v)| x[i] = v);
        let have = common::floats(&common::same_bits(&scan_sum(&floats(&x, &[3000])))[0]);
        assert_eq!((have[at[0]], have[at[1]]), (big, f32::INFINITY), "{at:?}");
    }
}

#[test]
fn zeros_and_denormals() {
    let words = |op: Scan| common::words(&common::same_bits(&op)[0]);
    let small = 1 << 31 | 1;
    let x = [small, 1 << 31, 0, 1 << 31, 1].map(f32::from_bits);
    assert_eq!(words(scan_max(&floats(&x, &[5]))), [small, 1 << 31, 0, 0, 1], "-0 is below +0");
    assert_eq!(words(scan_sum(&floats(&[-0.0, -0.0], &[2]))), [0, 0], "a running sum is never -0");
    let x = vec![f32::MIN_POSITIVE / 2.0; 100];
    let want: Vec<f64> = (1..=100).map(|i| f64::from(i) * f64::from(f32::MIN_POSITIVE) / 2.0).collect();
    close_on_every_backend(
        &scan_sum(&floats(&x, &[100])),
        &want,
        &[100.0 * f64::from(f32::MIN_POSITIVE); 100],
        true,
    );
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    let x = floats(&noise(50_000, 9), &[50, 1000]);
    common::parts_join(&scan_sum(&x), 7);
    common::parts_join(&scan_max(&x), 7);
    common::parts_join(&scan_affine(&x, &x, 0.5), 7);
    assert!(scan_sum(&floats(&[1.0; 9], &[9])).items().is_none(), "one series is not cut");
    let x: Vec<f32> = (0..4000).map(|i| (i * 31 % 101) as f32).collect();
    let ones = floats(&[1.0; 100], &[100]);
    let makes: [&dyn Fn(&Tensor) -> Scan; 3] = [&scan_sum, &scan_max, &|t| scan_affine(&ones, t, 1.0)];
    for make in makes {
        let ops: Vec<Scan> = x.chunks(100).map(|c| make(&floats(c, &[100]))).collect();
        let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
        common::fused_is_same(&all);
    }
    assert_ne!(scan_affine(&ones, &ones, 1.0).fuse_key(), scan_affine(&ones, &ones, 2.0).fuse_key());
}

#[test]
fn invalid_input_is_named() {
    let (x, y) = (floats(&[1.0; 4], &[4]), floats(&[1.0; 4], &[2, 2]));
    let error = scan_affine(&x, &y, 0.0).outputs().unwrap_err();
    assert_eq!(error.to_string(), "scan-affine: a and b need one shape: [4] and [2, 2]");
    assert!(matches!(scan_sum(&floats(&[1.0], &[1, 1, 1])).outputs(), Err(OpError::Value { .. })));
    let whole = tensor(&[1u32], &[1], "x").unwrap();
    let error = scan_max(&whole).outputs().unwrap_err();
    assert_eq!(error.to_string(), "scan-max: the data must be F32, it is U32");
}
