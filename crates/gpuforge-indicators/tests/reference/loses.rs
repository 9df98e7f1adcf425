//! Where does TA-Lib itself lose digits? Its result and ours are compared with the same in twice the digits: a case in which
//! the two differ counts only if ours is within the bound and the nearer.

use gpuforge_indicators::catalogue::{self, Indicator};

use crate::{
    common::{BOUND, Bars, compare, gaps, ours, talib, walk},
    plain::exact::Exact,
};

/// A row's columns with twice the digits; nothing where there is no value.
type Precise = fn(&Bars, &[f64]) -> Vec<Vec<Option<Exact>>>;
type Column = Vec<Option<Exact>>;

/// A row, parameters and bars for which it shows, why TA-Lib loses digits there, and who decides.
struct Loss {
    row: &'static str,
    params: &'static [f64],
    bars: fn() -> Bars,
    why: &'static str,
    precise: Precise,
}

const TALIB_LOSES: &[Loss] = &[
    Loss {
        row: "stochrsi",
        params: &[14.0, 5.0, 3.0, 6.0],
        bars: || walk(3000, 5),
        why: STILL,
        precise: stochrsi,
    },
    Loss {
        row: "stochrsi",
        params: &[14.0, 5.0, 3.0, 14.0],
        bars: || walk(3000, 5),
        why: STILL,
        precise: stochrsi,
    },
    Loss {
        row: "correl",
        params: &[5.0],
        bars: || gaps(20_000),
        why: "sums of squares of prices: after a jump they keep its rounding, and what is left of it is compared",
        precise: correl,
    },
];
const STILL: &str = "where the price stands still so does its RSI, but rounding moves TA-Lib's: %K is a place in a range that \
                     is none, and a mean that adapts to how straight a way is takes it for one";

/// The error that counts where TA-Lib and we differ; `why` for rows of which nothing is known.
pub(crate) fn nearer(
    row: &Indicator,
    params: &[f64],
    bars: &Bars,
    (got, want): (&[Vec<f64>], &[Vec<f64>]),
    why: String,
) -> Result<f64, String> {
    let Some(loss) = TALIB_LOSES.iter().find(|loss| loss.row == row.name) else { return Err(why) };
    let exact = (loss.precise)(bars, params);
    let (ours, theirs) = (distance(got, &exact), distance(want, &exact));
    if ours <= BOUND && ours < theirs {
        return Ok(ours);
    }
    Err(format!("{why}; {ours:.1e} from what is right, TA-Lib {theirs:.1e}"))
}

/// The worst error beside twice the digits.
fn distance(got: &[Vec<f64>], exact: &[Column]) -> f64 {
    let mut worst = 0f64;
    for (got, exact) in got.iter().zip(exact) {
        let scale = exact.iter().flatten().map(|x| x.rounded().abs()).fold(f64::MIN_POSITIVE, f64::max);
        for (g, x) in got.iter().zip(exact) {
            let error = match x {
                Some(x) => (Exact::of(*g) - *x).rounded().abs() / scale,
                None if g.is_nan() => 0.0,
                None => f64::INFINITY,
            };
            worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
        }
    }
    worst
}

#[test]
fn talib_loses_digits_where_ours_are_kept() {
    for Loss { row: name, params, bars, why, precise } in TALIB_LOSES {
        let (row, bars) = (catalogue::find(name).unwrap(), bars());
        let (got, want) = (ours(row, params, &bars), talib(row, params, &bars).unwrap());
        assert!(compare(&got, &want, false).is_err(), "{name} {params:?}: no longer so: {why}");
        let exact = precise(&bars, params);
        let (ours, theirs) = (distance(&got, &exact), distance(&want, &exact));
        assert!(ours <= BOUND && theirs > BOUND, "{name} {params:?}: {ours:.1e}, TA-Lib {theirs:.1e}");
    }
}

/// Less than this is nothing: 1e-25 of numbers up to 100.
fn nothing(x: Exact) -> bool {
    x.rounded().abs() < 1e-25
}

fn size(x: Exact) -> Exact {
    if x < Exact::ZERO { Exact::ZERO - x } else { x }
}

/// Values from one bar on, in a column.
fn from(bar: usize, bars: usize, values: impl Iterator<Item = Exact>) -> Column {
    let mut column = vec![None; bar.min(bars)];
    column.extend(values.map(Some));
    column
}

fn number(x: usize) -> Exact {
    Exact::of(x as f64)
}

/// Wilder's mean of `n`, beginning with the mean of the first `n`: one value per value from the `n`-th on.
fn wilder(x: &[Exact], n: usize) -> Vec<Exact> {
    let Some(first) = x.get(..n) else { return Vec::new() };
    let mut y = Exact::sum(first.iter().copied()) / number(n);
    let mut out = vec![y];
    for x in &x[n..] {
        y = (y * number(n - 1) + *x) / number(n);
        out.push(y);
    }
    out
}

/// The RSI from bar `n` on.
fn rsi(close: &[f64], n: usize) -> Vec<Exact> {
    let moves: Vec<Exact> = close.windows(2).map(|w| Exact::of(w[1]) - Exact::of(w[0])).collect();
    let side = |up: bool| -> Vec<Exact> {
        let part = |d: &Exact| if (*d > Exact::ZERO) == up { size(*d) } else { Exact::ZERO };
        wilder(&moves.iter().map(part).collect::<Vec<_>>(), n)
    };
    let (gain, loss) = (side(true), side(false));
    let strength = |(g, l): (&Exact, &Exact)| {
        if nothing(*g + *l) { Exact::of(50.0) } else { Exact::of(100.0) * *g / (*g + *l) }
    };
    gain.iter().zip(&loss).map(strength).collect()
}

/// The place of the last value in each window, in percent.
fn place(x: &[Exact], n: usize) -> Vec<Exact> {
    let of = |w: &[Exact]| {
        let high = w.iter().copied().fold(w[0], |a, b| if b > a { b } else { a });
        let low = w.iter().copied().fold(w[0], |a, b| if b < a { b } else { a });
        let range = high - low;
        if nothing(range) { Exact::ZERO } else { Exact::of(100.0) * (w[n - 1] - low) / range }
    };
    x.windows(n).map(of).collect()
}

/// Kaufman's mean from the `n + 1`-th value on.
fn kama(x: &[Exact], n: usize) -> Vec<Exact> {
    let (slow, fast) = (Exact::of(2.0) / Exact::of(31.0), Exact::of(2.0) / Exact::of(3.0));
    let mut y = x.get(n.wrapping_sub(1)).copied().unwrap_or(Exact::ZERO);
    let step = |t: usize| {
        let path = Exact::sum((t + 1 - n..=t).map(|s| size(x[s] - x[s - 1])));
        let way = size(x[t] - x[t - n]);
        let straight = if nothing(path) { Exact::of(1.0) } else { way / path };
        let root = straight * (fast - slow) + slow;
        y = y + root * root * (x[t] - y);
        y
    };
    (n..x.len()).map(step).collect()
}

/// Chande's mean, whose changes are those of `m` bars, from the `m + 1`-th value on.
fn vidya(x: &[Exact], n: usize, m: usize) -> Vec<Exact> {
    let mut y = x.first().copied().unwrap_or(Exact::ZERO);
    let mut out = Vec::new();
    for t in 1..x.len() {
        let changes: Vec<Exact> = ((t + 1).saturating_sub(m).max(1)..=t).map(|s| x[s] - x[s - 1]).collect();
        let path = Exact::sum(changes.iter().map(|d| size(*d)));
        let way = size(Exact::sum(changes));
        let strength = if nothing(path) { Exact::ZERO } else { way / path };
        y = y + strength * Exact::of(2.0) / number(n + 1) * (x[t] - y);
        if t >= m {
            out.push(y);
        }
    }
    out
}

/// With %D as Kaufman's (6) or Chande's (14) mean.
fn stochrsi(bars: &Bars, p: &[f64]) -> Vec<Column> {
    let [n, fast_k, fast_d, kind] = [0, 1, 2, 3].map(|at| p[at] as usize);
    let k = place(&rsi(&bars.close, n), fast_k);
    let d = match kind {
        6 => kama(&k, fast_d),
        _ => vidya(&k, fast_d, (3 * fast_d + 2) / 4),
    };
    let first = n + fast_k - 1 + (k.len() - d.len());
    let late = k.len() - d.len();
    [k[late..].to_vec(), d].map(|x| from(first, bars.len(), x.into_iter())).to_vec()
}

/// The root, by two of Newton's steps from the usual one.
fn root(x: Exact) -> Exact {
    let mut y = Exact::of(x.rounded().sqrt());
    for _ in 0..2 {
        y = (y + x / y) / Exact::of(2.0);
    }
    y
}

/// Pearson's correlation of close and high.
fn correl(bars: &Bars, p: &[f64]) -> Vec<Column> {
    let n = p[0] as usize;
    let at = |t: usize| {
        let from = (t + 1).checked_sub(n)?;
        let distances = |x: &[f64]| -> Vec<Exact> {
            let mean = Exact::sum(x[from..=t].iter().map(|x| Exact::of(*x))) / number(n);
            x[from..=t].iter().map(|x| Exact::of(*x) - mean).collect()
        };
        let (x, y) = (distances(&bars.close), distances(&bars.high));
        let sum = |a: &[Exact], b: &[Exact]| Exact::sum(a.iter().zip(b).map(|(a, b)| *a * *b));
        let power = sum(&x, &x) * sum(&y, &y);
        Some(if nothing(power) { Exact::ZERO } else { sum(&x, &y) / root(power) })
    };
    vec![(0..bars.len()).map(at).collect()]
}
