//! Kernels of pairs against those bar by bar, and NEON against plain Rust, bit for bit.

use super::ArrayPair;
#[cfg(target_arch = "aarch64")]
use super::NeonPair;
use crate::kernel::{
    Block, Body, Rows, Simd,
    moment::{PairedVariance, RollingVariance},
    paired_weighted_sum::PairedWeightedSum,
    rolling_sum::LinearWeightedSum,
};

/// Runs a kernel over blocks of these lengths, again and again.
fn run(mut kernel: impl Body<1>, x: &[f64], n: usize, blocks: &[usize]) -> Vec<f64> {
    let mut out = vec![f64::NAN; x.len()];
    let (rows, _) = x.as_chunks::<1>();
    let (mut t0, mut lengths) = (0, blocks.iter().cycle());
    while t0 < x.len() {
        let t1 = (t0 + lengths.next().copied().unwrap_or(1)).min(x.len());
        let input = [Rows::new(&rows[t0.saturating_sub(n)..t1], t0, t0.min(n))];
        let mut outputs = [out.as_chunks_mut::<1>().0.get_mut(t0..t1).unwrap()];
        let (start, simd) = (n - 1, Simd::detect());
        kernel.body(&mut Block {
            inputs: &input,
            outputs: &mut outputs,
            t0,
            t1,
            nominal: t1 - t0,
            start,
            simd,
        });
        t0 = t1;
    }
    out
}

/// A walk around a level, with a jump, a flat stretch, zeros, and what is not finite.
fn series() -> Vec<f64> {
    let mut state = 7u64;
    let mut price = 1_000.0;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        price += ((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 2.0;
        price
    };
    let mut x: Vec<f64> = (0..6_000).map(step).collect();
    x[700] *= 1e6;
    x[1_500..1_700].fill(12.5);
    x[2_000..2_100].fill(-0.0);
    x[3_001] = f64::NAN;
    x[4_500] = f64::INFINITY;
    x
}

#[track_caller]
fn same(name: &str, got: &[f64], want: &[f64]) {
    let differs = |(a, b): (&f64, &f64)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    let at = got.iter().zip(want).position(differs);
    assert_eq!(at.map(|t| (t, got[t], want[t])), None, "{name}");
}

/// To eleven digits, or to eleven of a scale: that of the sums which a result is the difference of.
#[track_caller]
fn near(name: &str, got: &[f64], want: &[f64], scale: f64) {
    for (t, (g, w)) in got.iter().zip(want).enumerate() {
        assert_eq!((g.is_nan(), g.is_infinite()), (w.is_nan(), w.is_infinite()), "{name} at {t}: {g}, {w}");
        let tolerance = 1e-11 * scale.max(w.abs());
        assert!(!w.is_finite() || (g - w).abs() <= tolerance, "{name} at {t}: {g}, {w}");
    }
}

/// Lengths that end blocks in the middle of pairs, of iterations, of periods.
const BLOCKS: [&[usize]; 4] = [&[6_000], &[1], &[17, 256, 3, 1, 2_048, 5], &[64]];

#[test]
fn variances_are_near_and_do_not_depend_on_blocks() {
    let x = series();
    for (n, root) in [(2, false), (5, true), (20, false), (33, true), (300, false)] {
        let name = format!("variance of {n}, root: {root}");
        let exact = run(RollingVariance { n, root, state: Default::default() }, &x, n, &[512]);
        let want = run(PairedVariance::<ArrayPair>::new(n, root), &x, n, &[6_000]);
        // Squares of distances reach a million between two anchors.
        near(&name, &want, &exact, 1e3);
        for blocks in BLOCKS {
            same(&name, &run(PairedVariance::<ArrayPair>::new(n, root), &x, n, blocks), &want);
            #[cfg(target_arch = "aarch64")]
            same(&name, &run(PairedVariance::<NeonPair>::new(n, root), &x, n, blocks), &want);
        }
    }
}

#[test]
fn weighted_sums_are_near_and_do_not_depend_on_blocks() {
    let x = series();
    for (n, divisor) in [(1, None), (2, Some(3.0)), (5, Some(15.0)), (30, Some(465.0)), (101, None)] {
        let name = format!("weighted sum of {n} over {divisor:?}");
        let zero = [0.0];
        let sequential = LinearWeightedSum { n, divisor, plain: zero, weighted: zero, leaving: zero };
        let exact = run(sequential, &x, n, &[512]);
        let paired = |blocks: &[usize]| {
            run(PairedWeightedSum::<ArrayPair>::new(n, divisor.unwrap_or(1.0)), &x, n, blocks)
        };
        let want = paired(&[6_000]);
        near(&name, &want, &exact, 1e9 * n as f64);
        for blocks in BLOCKS {
            same(&name, &paired(blocks), &want);
            #[cfg(target_arch = "aarch64")]
            {
                let neon = PairedWeightedSum::<NeonPair>::new(n, divisor.unwrap_or(1.0));
                same(&name, &run(neon, &x, n, blocks), &want);
            }
        }
    }
}
