//! Cases where TA-Lib itself loses precision: TA-Lib and ours are compared with a double-double reference, and a difference is
//! accepted only if ours is within the tolerance and closer.

use gpuforge_indicators::catalogue::{self, Indicator};

use crate::{
    columns::double_double::DoubleDouble,
    common::{BOUND, Bars, compare, gaps, ours, talib, walk},
};

/// Double-double reference of a row; `None` during the warm-up.
type Precise = fn(&Bars, &[f64]) -> Vec<Vec<Option<DoubleDouble>>>;
type Column = Vec<Option<DoubleDouble>>;

/// A known precision loss of TA-Lib: row, parameters, bars, the reason, and the reference.
struct PrecisionLoss {
    row: &'static str,
    params: &'static [f64],
    bars: fn() -> Bars,
    why: &'static str,
    precise: Precise,
}

const TALIB_LOSSES: &[PrecisionLoss] = &[
    PrecisionLoss {
        row: "stochrsi",
        params: &[14.0, 5.0, 3.0, 6.0],
        bars: || walk(3000, 5),
        why: STILL,
        precise: stochrsi,
    },
    PrecisionLoss {
        row: "stochrsi",
        params: &[14.0, 5.0, 3.0, 14.0],
        bars: || walk(3000, 5),
        why: STILL,
        precise: stochrsi,
    },
    PrecisionLoss {
        row: "correl",
        params: &[5.0],
        bars: || gaps(20_000),
        why: "rolling sums of squared prices keep the rounding of a price jump after it has left the window (catastrophic cancellation)",
        precise: correl,
    },
];
const STILL: &str = "in a flat market the RSI is constant, but rounding moves TA-Lib's: %K is taken over a range of rounding \
                     residue, and an adaptive moving average follows it";

/// Our error against the reference where we differ from TA-Lib; `why` for rows without a known precision loss.
pub(crate) fn ours_is_closer(
    row: &Indicator,
    params: &[f64],
    bars: &Bars,
    (got, want): (&[Vec<f64>], &[Vec<f64>]),
    why: String,
) -> Result<f64, String> {
    let Some(loss) = TALIB_LOSSES.iter().find(|loss| loss.row == row.name) else { return Err(why) };
    let exact = (loss.precise)(bars, params);
    let (ours, theirs) = (distance(got, &exact), distance(want, &exact));
    if ours <= BOUND && ours < theirs {
        return Ok(ours);
    }
    Err(format!("{why}; {ours:.1e} from the reference, TA-Lib {theirs:.1e}"))
}

/// Max error against the reference.
fn distance(got: &[Vec<f64>], exact: &[Column]) -> f64 {
    let mut worst = 0f64;
    for (got, exact) in got.iter().zip(exact) {
        let scale = exact.iter().flatten().map(|x| x.rounded().abs()).fold(f64::MIN_POSITIVE, f64::max);
        for (g, x) in got.iter().zip(exact) {
            let error = match x {
                Some(x) => (DoubleDouble::of(*g) - *x).rounded().abs() / scale,
                None if g.is_nan() => 0.0,
                None => f64::INFINITY,
            };
            worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
        }
    }
    worst
}

#[test]
fn talib_loses_precision_where_ours_is_within_tolerance() {
    for PrecisionLoss { row: name, params, bars, why, precise } in TALIB_LOSSES {
        let (row, bars) = (catalogue::find(name).unwrap(), bars());
        let (got, want) = (ours(row, params, &bars), talib(row, params, &bars).unwrap());
        assert!(compare(&got, &want, false).is_err(), "{name} {params:?}: no longer so: {why}");
        let exact = precise(&bars, params);
        let (ours, theirs) = (distance(&got, &exact), distance(&want, &exact));
        assert!(ours <= BOUND && theirs > BOUND, "{name} {params:?}: {ours:.1e}, TA-Lib {theirs:.1e}");
    }
}

/// 0 up to rounding: below 1e-25 for values up to 100.
fn is_zero(x: DoubleDouble) -> bool {
    x.rounded().abs() < 1e-25
}

fn abs(x: DoubleDouble) -> DoubleDouble {
    if x < DoubleDouble::ZERO { DoubleDouble::ZERO - x } else { x }
}

/// A column that starts at a bar.
fn from(bar: usize, bars: usize, values: impl Iterator<Item = DoubleDouble>) -> Column {
    let mut column = vec![None; bar.min(bars)];
    column.extend(values.map(Some));
    column
}

fn number(x: usize) -> DoubleDouble {
    DoubleDouble::of(x as f64)
}

/// Wilder's moving average, SMA-seeded; the first value is at the `n`-th input.
fn wilder(x: &[DoubleDouble], n: usize) -> Vec<DoubleDouble> {
    let Some(first) = x.get(..n) else { return Vec::new() };
    let mut y = DoubleDouble::sum(first.iter().copied()) / number(n);
    let mut out = vec![y];
    for x in &x[n..] {
        y = (y * number(n - 1) + *x) / number(n);
        out.push(y);
    }
    out
}

/// RSI; the first value is at bar `n`.
fn rsi(close: &[f64], n: usize) -> Vec<DoubleDouble> {
    let moves: Vec<DoubleDouble> =
        close.windows(2).map(|w| DoubleDouble::of(w[1]) - DoubleDouble::of(w[0])).collect();
    let side = |up: bool| -> Vec<DoubleDouble> {
        let part =
            |d: &DoubleDouble| if (*d > DoubleDouble::ZERO) == up { abs(*d) } else { DoubleDouble::ZERO };
        wilder(&moves.iter().map(part).collect::<Vec<_>>(), n)
    };
    let (gain, loss) = (side(true), side(false));
    let strength = |(g, l): (&DoubleDouble, &DoubleDouble)| {
        if is_zero(*g + *l) { DoubleDouble::of(50.0) } else { DoubleDouble::of(100.0) * *g / (*g + *l) }
    };
    gain.iter().zip(&loss).map(strength).collect()
}

/// Stochastic %K of each window.
fn percent_k(x: &[DoubleDouble], n: usize) -> Vec<DoubleDouble> {
    let of = |w: &[DoubleDouble]| {
        let high = w.iter().copied().fold(w[0], |a, b| if b > a { b } else { a });
        let low = w.iter().copied().fold(w[0], |a, b| if b < a { b } else { a });
        let range = high - low;
        if is_zero(range) { DoubleDouble::ZERO } else { DoubleDouble::of(100.0) * (w[n - 1] - low) / range }
    };
    x.windows(n).map(of).collect()
}

/// KAMA; the first value is at input `n + 1`.
fn kama(x: &[DoubleDouble], n: usize) -> Vec<DoubleDouble> {
    let (slow, fast) =
        (DoubleDouble::of(2.0) / DoubleDouble::of(31.0), DoubleDouble::of(2.0) / DoubleDouble::of(3.0));
    let mut y = x.get(n.wrapping_sub(1)).copied().unwrap_or(DoubleDouble::ZERO);
    let step = |t: usize| {
        let path = DoubleDouble::sum((t + 1 - n..=t).map(|s| abs(x[s] - x[s - 1])));
        let way = abs(x[t] - x[t - n]);
        let straight = if is_zero(path) { DoubleDouble::of(1.0) } else { way / path };
        let root = straight * (fast - slow) + slow;
        y = y + root * root * (x[t] - y);
        y
    };
    (n..x.len()).map(step).collect()
}

/// VIDYA with a CMO of `m` bars; the first value is at input `m + 1`.
fn vidya(x: &[DoubleDouble], n: usize, m: usize) -> Vec<DoubleDouble> {
    let mut y = x.first().copied().unwrap_or(DoubleDouble::ZERO);
    let mut out = Vec::new();
    for t in 1..x.len() {
        let changes: Vec<DoubleDouble> =
            ((t + 1).saturating_sub(m).max(1)..=t).map(|s| x[s] - x[s - 1]).collect();
        let path = DoubleDouble::sum(changes.iter().map(|d| abs(*d)));
        let way = abs(DoubleDouble::sum(changes));
        let strength = if is_zero(path) { DoubleDouble::ZERO } else { way / path };
        y = y + strength * DoubleDouble::of(2.0) / number(n + 1) * (x[t] - y);
        if t >= m {
            out.push(y);
        }
    }
    out
}

/// Stochastic RSI with %D as KAMA (6) or VIDYA (14).
fn stochrsi(bars: &Bars, p: &[f64]) -> Vec<Column> {
    let [n, fast_k, fast_d, kind] = [0, 1, 2, 3].map(|at| p[at] as usize);
    let k = percent_k(&rsi(&bars.close, n), fast_k);
    let d = match kind {
        6 => kama(&k, fast_d),
        _ => vidya(&k, fast_d, (3 * fast_d + 2) / 4),
    };
    let first = n + fast_k - 1 + (k.len() - d.len());
    let late = k.len() - d.len();
    [k[late..].to_vec(), d].map(|x| from(first, bars.len(), x.into_iter())).to_vec()
}

/// Square root: two Newton steps from the `f64` root.
fn root(x: DoubleDouble) -> DoubleDouble {
    let mut y = DoubleDouble::of(x.rounded().sqrt());
    for _ in 0..2 {
        y = (y + x / y) / DoubleDouble::of(2.0);
    }
    y
}

/// Pearson correlation of close and high.
fn correl(bars: &Bars, p: &[f64]) -> Vec<Column> {
    let n = p[0] as usize;
    let at = |t: usize| {
        let from = (t + 1).checked_sub(n)?;
        let distances = |x: &[f64]| -> Vec<DoubleDouble> {
            let mean = DoubleDouble::sum(x[from..=t].iter().map(|x| DoubleDouble::of(*x))) / number(n);
            x[from..=t].iter().map(|x| DoubleDouble::of(*x) - mean).collect()
        };
        let (x, y) = (distances(&bars.high), distances(&bars.low));
        let sum =
            |a: &[DoubleDouble], b: &[DoubleDouble]| DoubleDouble::sum(a.iter().zip(b).map(|(a, b)| *a * *b));
        let power = sum(&x, &x) * sum(&y, &y);
        Some(if is_zero(power) { DoubleDouble::ZERO } else { sum(&x, &y) / root(power) })
    };
    vec![(0..bars.len()).map(at).collect()]
}
