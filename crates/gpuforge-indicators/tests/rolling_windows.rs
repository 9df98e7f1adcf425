//! Rolling kernels against a naive loop over each window: every shape of series, short and long windows, single series and
//! batched, scalar and SIMD, every block length.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::Random;
use gpuforge_indicators::{
    exec::{ExecOptions, Series, run},
    kernel::Simd,
    select::{Selection, Selector, plan},
};

const BARS: usize = 700;
/// Around every length at which a kernel changes its algorithm: multiples of four, powers of two, 256 and 384.
const LENGTHS: [usize; 20] = [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 30, 31, 64, 100, 255, 256, 257, 384, 385, 500];

/// Series of all shapes; with `holes`, also with NaN and infinity.
fn shapes(holes: bool) -> Vec<Vec<f64>> {
    let mut r = Random(7);
    let mut walk = 100.0;
    let mut all: Vec<Vec<f64>> = vec![
        (0..BARS).map(|_| 100.0 * r.next()).collect(),
        (0..BARS)
            .map(|_| {
                walk += ((r.next() - 0.5) * 200.0).round() / 100.0;
                walk
            })
            .collect(),
        // Few values, zeros of both signs among them.
        (0..BARS).map(|_| [-1.0, -0.0, 0.0, 0.0, -0.0, 1.0][(r.next() * 6.0) as usize]).collect(),
        (0..BARS).map(|t| t as f64).collect(),
        (0..BARS).map(|t| -(t as f64)).collect(),
        vec![3.5; BARS],
    ];
    if holes {
        let often = |mut x: Vec<f64>, what: f64, share: f64, r: &mut Random| {
            x.iter_mut().for_each(|x| *x = if r.next() < share { what } else { *x });
            x
        };
        all.push(often(all[0].clone(), f64::NAN, 0.01, &mut r));
        all.push(often(all[2].clone(), f64::NAN, 0.3, &mut r));
        let infinite = often(all[1].clone(), f64::INFINITY, 0.05, &mut r);
        all.push(often(infinite, f64::NEG_INFINITY, 0.05, &mut r));
        let mut late = all[0].clone();
        late[..100].fill(f64::NAN);
        late[300..460].fill(f64::NAN);
        all.push(late);
        all.push(vec![f64::NAN; BARS]);
    }
    all
}

fn selection(text: &str) -> Selection {
    plan(&Selector::new().select(text).unwrap())
}

/// The first column of each series; computed with every combination of options, which must be bit-identical.
fn columns(text: &str, shapes: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let selection = selection(text);
    let series: Vec<Series<'_>> = shapes
        .iter()
        .map(|close| Series { open: close, high: close, low: close, close, volume: close, time: close })
        .collect();
    let first = |options: ExecOptions| -> Vec<Vec<f64>> {
        run(&selection.plan, &series, options).into_iter().map(|mut columns| columns.remove(0)).collect()
    };
    let scalar =
        ExecOptions { threads: 1, simd: Simd::SCALAR, batched: Some(false), ..ExecOptions::default() };
    let want = first(scalar);
    let blocks = [None, Some(1), Some(7), Some(64), Some(300)];
    for options in blocks.iter().flat_map(|block| {
        let both = [Some(false), Some(true)];
        both.map(|batched| ExecOptions { block: *block, batched, simd: Simd::detect(), ..scalar })
    }) {
        for (at, (got, want)) in first(options).iter().zip(&want).enumerate() {
            for (t, (got, want)) in got.iter().zip(want).enumerate() {
                assert!(
                    same(*got, *want),
                    "{text}, shape {at}, bar {t}: {got:e} and {want:e} with {options:?}"
                );
            }
        }
    }
    want
}

/// The same bits, or both NaN.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// `f` of every window of `n`: its values, the oldest first, and the bar of the last.
fn windows(x: &[f64], n: usize, f: impl Fn(&[f64], usize) -> f64) -> Vec<f64> {
    let first = |t: usize| (t + 1).checked_sub(n);
    (0..x.len()).map(|t| first(t).map_or(f64::NAN, |from| f(&x[from..=t], t))).collect()
}

fn check_exact(text: &str, shapes: &[Vec<f64>], n: usize, f: impl Fn(&[f64], usize) -> f64) {
    for (at, (got, x)) in columns(text, shapes).iter().zip(shapes).enumerate() {
        for (t, (got, want)) in got.iter().zip(windows(x, n, &f)).enumerate() {
            assert!(same(*got, want), "{text}, shape {at}, bar {t}: {got:e} instead of {want:e}");
        }
    }
}

/// Max or min, of equals the latest; NaN if there is one.
fn min_max(window: &[f64], max: bool) -> f64 {
    let better = |a: f64, b: f64| if max { b >= a } else { b <= a };
    let join = |a: f64, b: &f64| if a.is_nan() || !(b.is_nan() || better(a, *b)) { a } else { *b };
    window[1..].iter().fold(window[0], join)
}

/// Arg-max or arg-min: NaN is skipped; the oldest where all are NaN.
fn arg_min_max(window: &[f64], max: bool) -> usize {
    let mut best: Option<usize> = None;
    for (i, x) in window.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
        let better = |b: f64| if max { *x >= b } else { *x <= b };
        best = if best.is_none_or(|b| better(window[b])) { Some(i) } else { best };
    }
    best.unwrap_or(0)
}

/// Sorted, zeros without a sign; `None` where there is a NaN.
fn sorted(window: &[f64]) -> Option<Vec<f64>> {
    let mut all: Vec<f64> = window.iter().map(|x| x + 0.0).collect();
    all.sort_by(f64::total_cmp);
    window.iter().all(|x| !x.is_nan()).then_some(all)
}

#[test]
fn rolling_min_max_and_arg_match_the_naive_loop() {
    let shapes = shapes(true);
    for n in LENGTHS {
        for (name, max) in [("max", true), ("min", false)] {
            check_exact(&format!("{name}({n})"), &shapes, n, |w, _| min_max(w, max));
            let bar = |w: &[f64], t: usize| (t + 1 - n + arg_min_max(w, max)) as f64;
            check_exact(&format!("{name}index({n})"), &shapes, n, bar);
        }
    }
}

#[test]
fn rolling_order_statistics_and_ranks_match_the_naive_loop() {
    let shapes = shapes(true);
    for n in LENGTHS {
        check_exact(&format!("median({n})"), &shapes, n, |w, _| {
            sorted(w).map_or(
                f64::NAN,
                |s| {
                    if n % 2 == 1 { s[n / 2] } else { (s[n / 2 - 1] + s[n / 2]) / 2.0 }
                },
            )
        });
        for percent in [0.0, 20.0, 100.0] {
            let at = (percent * n as f64 / 100.0).ceil().max(1.0) as usize - 1;
            let text = format!("percentile({n},{percent})");
            check_exact(&text, &shapes, n, |w, _| sorted(w).map_or(f64::NAN, |s| s[at]));
        }
        // The window and the bar that is ranked.
        check_exact(&format!("percentrank({n})"), &shapes, n + 1, |w, _| {
            w[..n].iter().filter(|x| **x < w[n]).count() as f64 / n as f64 * 100.0
        });
    }
}

/// Central moment in two passes.
fn moment(window: &[f64], power: i32) -> f64 {
    let (n, newest) = (window.len() as f64, window[window.len() - 1]);
    let mean = window.iter().map(|x| x - newest).sum::<f64>() / n;
    window.iter().map(|x| (x - newest - mean).powi(power)).sum::<f64>() / n
}

/// Hard cases of moments: large offsets, jumps that leave the window, flat segments.
fn levels() -> Vec<Vec<f64>> {
    let mut all = shapes(false);
    let far: Vec<f64> = all[1].iter().map(|x| 1e6 + x).collect();
    let mut jump = all[1].clone();
    jump[150] = 1e7;
    jump[400..420].fill(-1e5);
    let mut still = all[0].clone();
    still[200..600].fill(7.25);
    all.extend([far, jump, still]);
    all
}

fn check_close(text: &str, n: usize, f: impl Fn(&[f64]) -> f64) {
    let shapes = levels();
    for (at, (got, x)) in columns(text, &shapes).iter().zip(&shapes).enumerate() {
        for (t, (got, want)) in got.iter().zip(windows(x, n, |w, _| f(w))).enumerate() {
            let close = (got - want).abs() <= 1e-9 * want.abs().max(1.0);
            assert!(close || same(*got, want), "{text}, shape {at}, bar {t}: {got:e} instead of {want:e}");
        }
    }
}

#[test]
fn rolling_moments_match_two_passes() {
    for n in [4, 5, 14, 30, 64, 100, 300] {
        let size = n as f64;
        check_close(&format!("var({n},1)"), n, |w| moment(w, 2));
        check_close(&format!("skew({n})"), n, |w| {
            let (second, third) = (moment(w, 2), moment(w, 3));
            let scale = (size * (size - 1.0)).sqrt() / (size - 2.0);
            if second == 0.0 { 0.0 } else { third / (second * second.sqrt()) * scale }
        });
        check_close(&format!("kurtosis({n})"), n, |w| {
            let ratio = moment(w, 4) / (moment(w, 2) * moment(w, 2));
            (ratio * (size + 1.0) - 3.0 * (size - 1.0)) * ((size - 1.0) / ((size - 2.0) * (size - 3.0)))
        });
        check_close(&format!("linearreg_slope({n})"), n, |w| {
            let middle = (size - 1.0) / 2.0;
            let products = w.iter().enumerate().map(|(i, x)| (x - w[n - 1]) * (i as f64 - middle));
            products.sum::<f64>() / (size * (size * size - 1.0) / 12.0)
        });
        check_close(&format!("avgdev({n})"), n, |w| {
            let mean = w.iter().sum::<f64>() / size;
            w.iter().map(|x| (x - mean).abs()).sum::<f64>() / size
        });
    }
}

#[test]
fn rolling_moments_recover_after_a_nan_leaves_the_window() {
    let mut x = shapes(false).remove(1);
    let clean = x.clone();
    x[333] = f64::NAN;
    for name in ["skew", "kurtosis", "avgdev"] {
        let n = 30;
        let text = format!("{name}({n})");
        let got = columns(&text, &[x.clone(), x.clone(), x.clone(), x.clone()]).remove(2);
        let want = columns(&text, std::slice::from_ref(&clean)).remove(0);
        for t in n..BARS {
            let inside = (333..333 + n).contains(&t);
            assert_eq!(got[t].is_nan(), inside, "{text}, bar {t}");
            assert!(inside || (got[t] - want[t]).abs() < 1e-9, "{text}, bar {t}: {} {}", got[t], want[t]);
        }
    }
}
