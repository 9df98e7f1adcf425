//! Window fold: every value of every window, for many neighbouring bars at once in SIMD.
//!
//! Each bar's fold runs over its own window in order (bit-identical to a scalar loop), and the folds of neighbouring bars are
//! independent, which hides the latency of the additions.

use super::{Row, row};

/// Folds at once: enough independent chains to hide the latency of an addition.
const WIDE: usize = 16;

/// Folds the `n` values of each bar's window, the oldest first, into `out`. `input` begins with the first bar's window;
/// `step` is given what came out so far, which of the window's values it is, that value, and what was in `out` before.
#[inline(always)]
pub(super) fn fold<const L: usize, T: Copy + Default>(
    input: &[Row<L>],
    out: &mut [Row<L>],
    n: usize,
    step: impl Fn(T, usize, f64, f64) -> T,
    finish: impl Fn(T) -> f64,
) {
    let (input, out) = (input.as_flattened(), out.as_flattened_mut());
    let (wide, rest) = out.as_chunks_mut::<WIDE>();
    let done = wide.len() * WIDE;
    for (at, out) in wide.iter_mut().enumerate() {
        fold_chunk::<L, WIDE, T>(input.get(at * WIDE..).unwrap_or(&[]), out, n, &step, &finish);
    }
    let input = input.get(done..).unwrap_or(&[]);
    let (half, rest) = rest.as_chunks_mut::<8>();
    let done = half.len() * 8;
    for out in half {
        fold_chunk::<L, 8, T>(input, out, n, &step, &finish);
    }
    for (at, out) in rest.as_chunks_mut::<1>().0.iter_mut().enumerate() {
        fold_chunk::<L, 1, T>(input.get(done + at..).unwrap_or(&[]), out, n, &step, &finish);
    }
}

/// `W` folds at once.
#[inline(always)]
fn fold_chunk<const L: usize, const W: usize, T: Copy + Default>(
    input: &[f64],
    out: &mut [f64; W],
    n: usize,
    step: &impl Fn(T, usize, f64, f64) -> T,
    finish: &impl Fn(T) -> f64,
) {
    let own = *out;
    let mut sums = [T::default(); W];
    // Four at a time: one bounds check for all of them.
    let fours = n / 4 * 4;
    for j in (0..fours).step_by(4) {
        if let Some(x) = input.get(j * L..j * L + 3 * L + W) {
            sums = add(sums, x, j, &own, step);
            sums = add(sums, x.get(L..).unwrap_or(&[]), j + 1, &own, step);
            sums = add(sums, x.get(2 * L..).unwrap_or(&[]), j + 2, &own, step);
            sums = add(sums, x.get(3 * L..).unwrap_or(&[]), j + 3, &own, step);
        }
    }
    for j in fours..n {
        sums = add(sums, input.get(j * L..).unwrap_or(&[]), j, &own, step);
    }
    *out = row_of(&sums, finish);
}

/// The `j`-th values of the windows.
#[inline(always)]
fn add<const W: usize, T: Copy>(
    mut sums: [T; W],
    x: &[f64],
    j: usize,
    own: &[f64; W],
    step: &impl Fn(T, usize, f64, f64) -> T,
) -> [T; W] {
    if let Some(x) = x.first_chunk::<W>() {
        for ((sum, x), own) in sums.iter_mut().zip(x).zip(own) {
            *sum = step(*sum, j, *x, *own);
        }
    }
    sums
}

#[inline(always)]
fn row_of<const W: usize, T: Copy>(sums: &[T; W], finish: &impl Fn(T) -> f64) -> [f64; W] {
    row(|i| sums.get(i).map_or(f64::NAN, |s| finish(*s)))
}
