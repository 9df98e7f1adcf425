//! Self-check of JIT code: compares it with the kernels on the first bars that a plan computes.
//!
//! Once per plan, before results are written, the first bars of the first tile go through the JIT code and through the kernels.
//! Equal bits (equal digits with relaxed floating point) verify the code; anything else makes the kernels compute everything,
//! and is recorded ([`super::jit_fallbacks`]). A stream is followed by a second one made of kernels until it has seen as many
//! bars.

use super::{
    Columns, ExecOptions, LANES, MIN_BATCH, Series, nontemporal_stores, run,
    tile::{Tile, jit_program},
    time_parallel::{self, TimeSplit},
};
use crate::{jit::JitProgram, kernel::Simd, plan::ExecPlan};

/// Bars of a block: loops take over where one begins, and the comparison should be short.
const BLOCK: usize = 64;
/// Bars that are compared after the loop has taken over: a block, and some that fill none.
const BARS: usize = BLOCK + 17;
/// Bars of a stream that are compared after the loop has taken over.
const STREAM_BARS: usize = 64;
/// Steps times bars that may always be spent: some milliseconds.
const ALWAYS_ALLOWED: usize = 4 << 20;
/// More than that only where it is less than one part in so many of the work.
const MAX_SHARE: usize = 32;
/// Tolerance of relaxed floating point, relative to the column's scale; a comparison of two nearly equal values may still
/// flip, so that one row in eight may differ.
const RELAXED_TOLERANCE: f64 = 1e-9;
const RELAXED_OUTLIERS: usize = 8;

/// Some bars of a series.
fn slice<'a>(series: &Series<'a>, from: usize, n: usize) -> Series<'a> {
    let cut =
        |column: &'a [f64]| column.get(from.min(column.len())..(from + n).min(column.len())).unwrap_or(&[]);
    Series {
        open: cut(series.open),
        high: cut(series.high),
        low: cut(series.low),
        close: cut(series.close),
        volume: cut(series.volume),
        time: cut(series.time),
    }
}

/// Checks the JIT code that this run is going to use, unless that was done before.
pub(super) fn verify(plan: &ExecPlan, series: &[Series<'_>], options: ExecOptions) {
    if !options.jit || options.simd == Simd::SCALAR {
        return;
    }
    let Some(longest) = series.iter().max_by_key(|s| s.len(plan)) else { return };
    let bars = longest.len(plan);
    let results: usize = series.iter().map(|s| s.len(plan) * plan.starts().len()).sum();
    let options = ExecOptions { nontemporal_stores: nontemporal_stores(options, results), ..options };
    let relaxed_fp = options.relaxed_fp && series.len() == 1 && plan.has_recurrences();
    let batched = !relaxed_fp && options.batched.unwrap_or_else(|| plan.prefers_batched());
    let splits = || time_parallel::convergence(plan).and_then(|c| TimeSplit::new(bars, c)).is_some();
    let lanes = if batched && (series.len() >= MIN_BATCH || splits()) { LANES } else { 1 };
    let block = options.block.or(Some(BLOCK));
    let options =
        ExecOptions { relaxed_fp, block, threads: 1, verify_jit: false, batched: Some(lanes > 1), ..options };
    let program = jit_program(plan.for_lanes(lanes), lanes, options);
    let Some(program) = program.filter(|program| program.self_check.is_pending()) else {
        return;
    };
    let n = (program.steady_from().next_multiple_of(BLOCK) + BARS).min(bars);
    let cost = lanes * n * plan.steps();
    let total: usize = series.iter().map(|s| s.len(plan) * plan.steps()).sum();
    if n <= program.steady_from() + 1 || (cost > ALWAYS_ALLOWED && cost.saturating_mul(MAX_SHARE) > total) {
        return;
    }
    // Lanes without a series get later bars of the longest one: the loop does not care what a lane holds.
    let lane = |l: usize| match series.get(l) {
        Some(own) if series.len() > 1 && own.len(plan) >= n => slice(own, 0, n),
        _ => slice(longest, (bars - n).min(l * n), n),
    };
    let first: Vec<Series<'_>> = (0..lanes).map(lane).collect();
    let got = run(plan, &first, options);
    let want = run(plan, &first, ExecOptions { jit: false, relaxed_fp: false, ..options });
    let differ = got.iter().zip(&want).find_map(|(got, want)| difference(got, want, relaxed_fp));
    conclude(&program, differ);
}

fn conclude(program: &JitProgram, differ: Option<Difference>) {
    match differ {
        None => program.self_check.set_verified(),
        Some(Difference { output, bar, got, want }) => program.self_check.set_faulty(format!(
            "JIT code of output {output} gave {got:e} at bar {bar} where the kernels give {want:e}: the kernels computed \
             everything"
        )),
    }
}

/// A mismatch.
struct Difference {
    output: usize,
    bar: usize,
    got: f64,
    want: f64,
}

/// The first mismatch.
fn difference<A: AsRef<[f64]>, B: AsRef<[f64]>>(got: &[A], want: &[B], relaxed: bool) -> Option<Difference> {
    got.iter().zip(want).enumerate().find_map(|(output, (got, want))| {
        let (got, want) = (got.as_ref(), want.as_ref());
        let scale = want.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()));
        let same = |g: f64, w: f64| {
            g.to_bits() == w.to_bits()
                || (g.is_nan() && w.is_nan())
                || (relaxed && (g == w || (g - w).abs() <= RELAXED_TOLERANCE * scale))
        };
        let outliers = if relaxed { want.len() / RELAXED_OUTLIERS } else { 0 };
        let differ = |(bar, (g, w)): (usize, (&f64, &f64))| (!same(*g, *w)).then_some((bar, *g, *w));
        let (bar, got, want) = got.iter().zip(want).enumerate().filter_map(differ).nth(outliers)?;
        Some(Difference { output, bar, got, want })
    })
}

/// State of the self-check of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamCheck {
    /// More bars are needed.
    Pending,
    /// It computes what the kernels compute.
    Verified,
    /// It does not; the columns now hold what the kernels computed.
    Faulty,
}

/// Computes the bars that `tile` has just computed into `columns` with the kernels of `shadow` as well, and compares.
pub(super) fn follow(
    plan: &ExecPlan,
    tile: &Tile<1>,
    shadow: &mut Tile<1>,
    bars: &Series<'_>,
    columns: &mut Columns<'_>,
) -> StreamCheck {
    let Some(program) = &tile.jit else { return StreamCheck::Verified };
    let n = bars.len(plan);
    let enough = program.steady_from() + STREAM_BARS;
    let first = n.min(enough.saturating_sub(shadow.bars_done).max(1));
    let differ = {
        let own = run_kernels(plan, shadow, &slice(bars, 0, first));
        let differ = difference(columns, &own, false).filter(|differ| differ.bar < first);
        if differ.is_some() || program.self_check.is_faulty() {
            overwrite(columns, &own, 0);
        }
        differ
    };
    if differ.is_some() || program.self_check.is_faulty() {
        let rest = run_kernels(plan, shadow, &slice(bars, first, n - first));
        overwrite(columns, &rest, first);
        if differ.is_some() {
            conclude(program, differ);
        }
        return StreamCheck::Faulty;
    }
    if shadow.bars_done < enough && program.self_check.is_pending() {
        return StreamCheck::Pending;
    }
    program.self_check.set_verified();
    StreamCheck::Verified
}

/// The next bars by the kernels.
fn run_kernels(plan: &ExecPlan, shadow: &mut Tile<1>, bars: &Series<'_>) -> Vec<Vec<f64>> {
    let mut own = vec![vec![f64::NAN; bars.len(plan)]; plan.starts().len()];
    shadow.push(plan, bars, &mut own.iter_mut().map(Vec::as_mut_slice).collect());
    own
}

fn overwrite(columns: &mut Columns<'_>, own: &[Vec<f64>], at: usize) {
    for (column, own) in columns.iter_mut().zip(own) {
        column.iter_mut().skip(at).zip(own).for_each(|(to, x)| *to = *x);
    }
}
