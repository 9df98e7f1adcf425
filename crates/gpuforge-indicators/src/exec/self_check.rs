//! Self-verification of JIT code: does it compute what the kernels compute, on the first bars that it is given?
//!
//! Once per plan, before its results are written anywhere, the first bars of the first tile go through the JIT code and through
//! the kernels. The same bits (the stated digits where relaxed arithmetic was asked for) make the code trusted; anything else
//! makes the kernels compute everything, and is recorded ([`super::jit_fallbacks`]). A stream that comes bar by bar is
//! followed by a second one made of kernels until it has seen as many bars.

use super::{Columns, Cut, How, LANES, LEAST_LANES, PAST_BYTES, Series, Tile, along, native, run};
use crate::{kernel::Simd, native::Native, plan::Plan};

/// Bars of a block: loops take over where one begins, and what is compared should be little.
const BLOCK: usize = 64;
/// Bars that are compared after the loop has taken over: a block, and some that fill none.
const BARS: usize = BLOCK + 17;
/// Bars of a stream that are compared after the loop has taken over.
const STREAM_BARS: usize = 64;
/// Steps times bars that may always be spent: some milliseconds.
const ALWAYS: usize = 4 << 20;
/// More than that only where it is less than this part of the work.
const SHARE: usize = 32;
/// Digits of relaxed arithmetic, as a share of the column's scale; a comparison of two nearly equal values may still come
/// out differently, so some rows are let off.
const RELAXED: f64 = 1e-9;
const LET_OFF: usize = 8;

/// Bars of a series, from one on.
fn part<'a>(series: &Series<'a>, from: usize, n: usize) -> Series<'a> {
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

/// Compares what this run is going to use, unless that was done before.
pub(super) fn verify(plan: &Plan, series: &[Series<'_>], how: How) {
    if !how.compiled || how.simd == Simd::SCALAR {
        return;
    }
    let Some(longest) = series.iter().max_by_key(|s| s.len(plan)) else { return };
    let bars = longest.len(plan);
    let results: usize = series.iter().map(|s| s.len(plan) * plan.starts().len()).sum();
    let how = How { past: how.past.or(Some(results * size_of::<f64>() > PAST_BYTES)), ..how };
    let loose = how.loose && series.len() == 1 && plan.has_chains();
    let abreast = !loose && how.side_by_side.unwrap_or_else(|| plan.side_by_side());
    let cut = || along::settles(plan).and_then(|s| Cut::of(bars, s)).is_some();
    let lanes = if abreast && (series.len() >= LEAST_LANES || cut()) { LANES } else { 1 };
    let block = how.block.or(Some(BLOCK));
    let how = How { loose, block, threads: 1, verify: false, side_by_side: Some(lanes > 1), ..how };
    let Some(native) = native(plan.of(lanes), lanes, how).filter(|native| native.trust.is_open()) else {
        return;
    };
    let n = (native.steady().next_multiple_of(BLOCK) + BARS).min(bars);
    let cost = lanes * n * plan.steps();
    let total: usize = series.iter().map(|s| s.len(plan) * plan.steps()).sum();
    if n <= native.steady() + 1 || (cost > ALWAYS && cost.saturating_mul(SHARE) > total) {
        return;
    }
    // Lanes that are not there are later bars of the longest: what a lane has in it is all the same to the loop.
    let lane = |l: usize| match series.get(l) {
        Some(own) if series.len() > 1 && own.len(plan) >= n => part(own, 0, n),
        _ => part(longest, (bars - n).min(l * n), n),
    };
    let first: Vec<Series<'_>> = (0..lanes).map(lane).collect();
    let got = run(plan, &first, how);
    let want = run(plan, &first, How { compiled: false, loose: false, ..how });
    let differ = got.iter().zip(&want).find_map(|(got, want)| difference(got, want, loose));
    judge(&native, differ);
}

fn judge(native: &Native, differ: Option<Difference>) {
    match differ {
        None => native.trust.verified(),
        Some(Difference { output, bar, got, want }) => native.trust.faulty(format!(
            "JIT code of output {output} gave {got:e} at bar {bar} where the kernels give {want:e}: the kernels computed \
             everything"
        )),
    }
}

/// Where results differ.
struct Difference {
    output: usize,
    bar: usize,
    got: f64,
    want: f64,
}

/// The first value that is not what it should be.
fn difference<A: AsRef<[f64]>, B: AsRef<[f64]>>(got: &[A], want: &[B], relaxed: bool) -> Option<Difference> {
    got.iter().zip(want).enumerate().find_map(|(output, (got, want))| {
        let (got, want) = (got.as_ref(), want.as_ref());
        let scale = want.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()));
        let same = |g: f64, w: f64| {
            g.to_bits() == w.to_bits()
                || (g.is_nan() && w.is_nan())
                || (relaxed && (g == w || (g - w).abs() <= RELAXED * scale))
        };
        let let_off = if relaxed { want.len() / LET_OFF } else { 0 };
        let differ = |(bar, (g, w)): (usize, (&f64, &f64))| (!same(*g, *w)).then_some((bar, *g, *w));
        let (bar, got, want) = got.iter().zip(want).enumerate().filter_map(differ).nth(let_off)?;
        Some(Difference { output, bar, got, want })
    })
}

/// What is known of a stream's JIT code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More bars are needed.
    Open,
    /// It computes what the kernels compute.
    Verified,
    /// It does not; the columns now hold what the kernels gave.
    Faulty,
}

/// Takes the bars that `tile` has just computed into `columns` through the kernels of `shadow` as well.
pub(super) fn follow(
    plan: &Plan,
    tile: &Tile<1>,
    shadow: &mut Tile<1>,
    bars: &Series<'_>,
    columns: &mut Columns<'_>,
) -> Verdict {
    let Some(native) = &tile.native else { return Verdict::Verified };
    let n = bars.len(plan);
    let enough = native.steady() + STREAM_BARS;
    let first = n.min(enough.saturating_sub(shadow.bars).max(1));
    let differ = {
        let own = kernels(plan, shadow, &part(bars, 0, first));
        let differ = difference(columns, &own, false).filter(|differ| differ.bar < first);
        if differ.is_some() || native.trust.is_faulty() {
            put(columns, &own, 0);
        }
        differ
    };
    if differ.is_some() || native.trust.is_faulty() {
        let rest = kernels(plan, shadow, &part(bars, first, n - first));
        put(columns, &rest, first);
        if differ.is_some() {
            judge(native, differ);
        }
        return Verdict::Faulty;
    }
    if shadow.bars < enough && native.trust.is_open() {
        return Verdict::Open;
    }
    native.trust.verified();
    Verdict::Verified
}

/// The next bars by kernels.
fn kernels(plan: &Plan, shadow: &mut Tile<1>, bars: &Series<'_>) -> Vec<Vec<f64>> {
    let mut own = vec![vec![f64::NAN; bars.len(plan)]; plan.starts().len()];
    shadow.push(plan, bars, &mut own.iter_mut().map(Vec::as_mut_slice).collect());
    own
}

fn put(columns: &mut Columns<'_>, own: &[Vec<f64>], at: usize) {
    for (column, own) in columns.iter_mut().zip(own) {
        column.iter_mut().skip(at).zip(own).for_each(|(to, x)| *to = *x);
    }
}
