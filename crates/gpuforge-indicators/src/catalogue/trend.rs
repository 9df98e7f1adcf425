//! Trend indicators: ADX and directional movement, Aroon, vortex, choppiness, random walk index.

use super::{Group, Indicator, Oracle, int, volatility::true_range};
use crate::{
    graph::{Expr, Field, GraphBuilder},
    kernel::state_machine::{BranchlessMachine, StateMachineDef, Value},
};

const BASE: Indicator = Indicator { group: Group::Trend, inputs: RANGE, ..Indicator::BASE };
const RANGE: &[Field] = &[Field::High, Field::Low, Field::Close];
const EXTREMES: &[Field] = &[Field::High, Field::Low];

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "adx",
        aliases: &["ADX"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Average directional index (ADX): Wilder's moving average of DX, seeded with the mean of the first \
              `period` of them. A bar on which DX is undefined counts as 0 in the seed and is skipped later.",
        build: |a| vec![adx(a.bars, a.n(0))],
        ..BASE
    },
    Indicator {
        name: "adxr",
        aliases: &["ADXR"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Average directional index rating (ADXR): mean of ADX and of ADX `period - 1` bars ago.",
        build: |a| {
            let adx = adx(a.bars, a.n(0));
            vec![(adx + adx.shift(a.n(0) - 1)) / 2.0]
        },
        ..BASE
    },
    Indicator {
        name: "dx",
        aliases: &["DX"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Directional movement index (DX): 100 |+DI - -DI| / (+DI + -DI). Holds its value where there is no \
              movement; 0 at first.",
        build: |a| {
            let (dx, idle) = dx(a.bars, a.n(0));
            vec![idle.linear_recurrence(idle.select(0.0, dx))]
        },
        ..BASE
    },
    Indicator {
        name: "plus_di",
        aliases: &["PLUS_DI"],
        params: &[int("period", 14, 1, 100_000)],
        doc: "Plus directional indicator (+DI): 100 times Wilder's sum of +DM over that of the true range; 0 where \
              the range is 0. With a period of 1, the unsmoothed ratio itself.",
        build: |a| vec![di(a.bars, a.n(0), true)],
        ..BASE
    },
    Indicator {
        name: "minus_di",
        aliases: &["MINUS_DI"],
        params: &[int("period", 14, 1, 100_000)],
        doc: "Minus directional indicator (-DI): 100 times Wilder's sum of -DM over that of the true range; 0 \
              where the range is 0. With a period of 1, the unsmoothed ratio itself.",
        build: |a| vec![di(a.bars, a.n(0), false)],
        ..BASE
    },
    Indicator {
        name: "plus_dm",
        aliases: &["PLUS_DM"],
        params: &[int("period", 14, 1, 100_000)],
        inputs: EXTREMES,
        doc: "Plus directional movement (+DM): the rise of the high where it exceeds the fall of the low, in \
              Wilder's running sum `y = y - y/period + x`, seeded with the plain sum of the first `period - 1`.",
        build: |a| vec![wilder_sum(dm(a.bars, true), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "minus_dm",
        aliases: &["MINUS_DM"],
        params: &[int("period", 14, 1, 100_000)],
        inputs: EXTREMES,
        doc: "Minus directional movement (-DM): the fall of the low where it exceeds the rise of the high, in \
              Wilder's running sum `y = y - y/period + x`, seeded with the plain sum of the first `period - 1`.",
        build: |a| vec![wilder_sum(dm(a.bars, false), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "aroon",
        aliases: &["AROON"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: EXTREMES,
        outputs: &["down", "up"],
        doc: "Aroon: how recent the lowest low and the highest high of the last `period + 1` bars are: 100 for \
              this bar, 0 for `period` bars ago; the most recent of equals.",
        build: |a| {
            let n = a.n(0) + 1;
            let agos = [a.bars.low().bars_since_lowest(n), a.bars.high().bars_since_highest(n)];
            agos.map(|ago| (a.x(0) - ago) * (100.0 / a.x(0))).to_vec()
        },
        ..BASE
    },
    Indicator {
        name: "aroonosc",
        aliases: &["AROONOSC"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: EXTREMES,
        doc: "Aroon oscillator: Aroon up minus Aroon down, that is, 100 / `period` times the bars between the \
              lowest low and the highest high.",
        build: |a| {
            let n = a.n(0) + 1;
            vec![(a.bars.low().bars_since_lowest(n) - a.bars.high().bars_since_highest(n)) * (100.0 / a.x(0))]
        },
        ..BASE
    },
    Indicator {
        name: "vortex",
        aliases: &["VORTEX"],
        params: &[int("period", 14, 1, 100_000)],
        outputs: &["plus", "minus"],
        doc: "Vortex indicator: rolling sums of |high - previous low| (VI+) and of |low - previous high| (VI-) \
              over that of the true range, each of `period` bars; 0 where nothing moved.",
        build: |a| {
            let (n, high, low) = (a.n(0), a.bars.high(), a.bars.low());
            let range = true_range(a.bars);
            let (sum, still) = (range.sum(n), range.all_zero(n));
            let turns = [high - low.shift(1), low - high.shift(1)];
            turns.map(|x| still.select(0.0, x.abs().sum(n).div0(sum))).to_vec()
        },
        ..BASE
    },
    Indicator {
        name: "vhf",
        aliases: &["VHF"],
        params: &[int("period", 28, 2, 100_000)],
        inputs: &[Field::Close],
        doc: "Vertical horizontal filter (VHF): the range of the last `period` values over the sum of the last \
              `period` absolute changes; 0 where nothing moved.",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            vec![(x.highest(n) - x.lowest(n)).div0((x - x.shift(1)).abs().sum(n))]
        },
        ..BASE
    },
    Indicator {
        name: "chop",
        aliases: &["CHOP"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Choppiness index: 100 log(sum of true ranges / (highest high - lowest low)) / log(period), over \
              `period` bars. Low in a trend; 100 where the range is 0.",
        build: |a| {
            let n = a.n(0);
            let span = a.bars.high().highest(n) - a.bars.low().lowest(n);
            vec![choppiness(a.bars, span, n)]
        },
        ..BASE
    },
    Indicator {
        name: "choptr",
        aliases: &["CHOPTR"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Choppiness index over the range of true highs and true lows (which include the previous close); 100 \
              where it is 0.",
        build: |a| {
            let (n, before) = (a.n(0), a.bars.close().shift(1));
            let span = a.bars.high().max(before).highest(n) - a.bars.low().min(before).lowest(n);
            vec![choppiness(a.bars, span, n)]
        },
        ..BASE
    },
    Indicator {
        name: "amat",
        params: &[int("fast", 8, 1, 100_000), int("slow", 21, 1, 100_000), int("lookback", 2, 1, 10_000)],
        inputs: &[Field::Close],
        outputs: &["long", "short"],
        oracle: Oracle::Reference,
        doc: "Archer moving averages trends (AMAT): the long and the short run of a fast and a slow EMA (pandas-ta).",
        build: |a| runs(a.source().ema(a.n(0)), a.source().ema(a.n(1)), a.n(2)),
        ..BASE
    },
    Indicator {
        name: "decay",
        params: &[int("period", 5, 1, 100_000)],
        inputs: &[Field::Close],
        oracle: Oracle::Reference,
        doc: "Linear decay: max of the value and this indicator's last value minus 1 / `period`; seeded with the \
              first value (tulip).",
        build: |a| a.bars.state_machine(&DECAY, &[1.0, 1.0 / a.x(0)], &[a.source()]),
        ..BASE
    },
    Indicator {
        name: "edecay",
        params: &[int("period", 5, 1, 100_000)],
        inputs: &[Field::Close],
        oracle: Oracle::Reference,
        doc: "Exponential decay: max of the value and (period - 1) / period of this indicator's last value; seeded \
              with the first value (tulip).",
        build: |a| a.bars.state_machine(&DECAY, &[(a.x(0) - 1.0) / a.x(0), 0.0], &[a.source()]),
        ..BASE
    },
    Indicator {
        name: "increasing",
        aliases: &["decreasing"],
        params: &[int("period", 1, 1, 100_000), int("strict", 0, 0, 1)],
        inputs: &[Field::Close],
        outputs: &["increasing", "decreasing"],
        oracle: Oracle::Reference,
        doc: "1 where the value is above (below) that of `period` bars ago, else 0; if strict, where each of the last `period` \
              changes was up (down).",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            let (back, all) = if a.n(1) == 1 { (1, n) } else { (n, 1) };
            let before = x.shift(back);
            vec![x.gt(before).lowest(all), x.lt(before).lowest(all)]
        },
        ..BASE
    },
    Indicator {
        name: "long_run",
        aliases: &["short_run"],
        params: &[int("fast", 5, 1, 100_000), int("slow", 20, 1, 100_000), int("lookback", 2, 1, 10_000)],
        inputs: &[Field::Close],
        outputs: &["long", "short"],
        oracle: Oracle::Reference,
        doc: "Long run: 1 where the fast SMA is above its value of `lookback` bars ago while the slow one moved, \
              either way; short run: where it is below; else 0.",
        build: |a| runs(a.source().sma(a.n(0)), a.source().sma(a.n(1)), a.n(2)),
        ..BASE
    },
    Indicator {
        name: "ttm_trend",
        params: &[int("period", 6, 1, 100_000)],
        oracle: Oracle::Reference,
        doc: "TTM trend: 1 where the close is above the SMA of (high + low) / 2 over the last `period` bars, else \
              -1.",
        build: |a| {
            let middle = ((a.bars.high() + a.bars.low()) / 2.0).sma(a.n(0));
            vec![a.bars.close().gt(middle).select(1.0, -1.0)]
        },
        ..BASE
    },
    Indicator {
        name: "rwi",
        aliases: &["random_walk_index"],
        params: &[int("period", 14, 1, 100_000)],
        outputs: &["high", "low"],
        oracle: Oracle::Reference,
        doc: "Random walk index (RWI): (high - low of `period` bars ago) and (high of `period` bars ago - low), \
              each over the average true range (ATR) times sqrt(period); 0 where that is 0.",
        build: |a| {
            let (n, high, low) = (a.n(0), a.bars.high(), a.bars.low());
            let expected = true_range(a.bars).wilder(n) * a.x(0).sqrt();
            vec![(high - low.shift(n)).div0(expected), (high.shift(n) - low).div0(expected)]
        },
        ..BASE
    },
    Indicator {
        name: "pfe",
        params: &[int("period", 10, 1, 100_000), int("smooth", 5, 1, 100_000)],
        inputs: &[Field::Close],
        oracle: Oracle::Reference,
        doc: "Polarized fractal efficiency (PFE, Hannula, 1994): 100 times the straight-line distance of `period` \
              bars over the length of the path, sqrt(dx^2 + bars^2), negative where the value fell, smoothed by an \
              EMA of `smooth`.",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            let (far, near) = (x - x.shift(n), x - x.shift(1));
            let path = (near * near + 1.0).sqrt().sum(n);
            let straight = (far * far + a.x(0) * a.x(0)).sqrt();
            vec![(far.lt(0.0).select(-100.0, 100.0) * straight / path).ema(a.n(1))]
        },
        ..BASE
    },
];

/// Directional movement of a bar: upward or downward.
fn dm(bars: GraphBuilder<'_>, up: bool) -> Expr<'_> {
    let rise = bars.high() - bars.high().shift(1);
    let fall = bars.low().shift(1) - bars.low();
    let (this, other) = if up { (rise, fall) } else { (fall, rise) };
    this.gt(other).select(this.max(0.0), 0.0)
}

/// Wilder's running sum `y = y - y/n + x`, seeded with the sum of the first `n - 1`: an RMA of `n` after a 0, times `n`.
fn wilder_sum(x: Expr<'_>, n: usize) -> Expr<'_> {
    if n <= 1 { x } else { x.fill_warmup(0.0).wilder(n) * n as f64 }
}

fn di(bars: GraphBuilder<'_>, n: usize, up: bool) -> Expr<'_> {
    let (movement, range) = (dm(bars, up), true_range(bars));
    if n <= 1 {
        return movement.div0(range);
    }
    (wilder_sum(movement, n).div0(wilder_sum(range, n)) * 100.0).from_bar(n)
}

/// DX, and a mask of the bars where it is undefined: no movement beyond rounding.
fn dx(bars: GraphBuilder<'_>, n: usize) -> (Expr<'_>, Expr<'_>) {
    let (plus, minus) = (di(bars, n, true), di(bars, n, false));
    let sum = plus + minus;
    ((minus - plus).abs() / sum * 100.0, sum.lt(1e-14))
}

fn adx(bars: GraphBuilder<'_>, n: usize) -> Expr<'_> {
    let (dx, idle) = dx(bars, n);
    let (dx, count) = (idle.select(0.0, dx), n as f64);
    let first = dx.sum(n) / count;
    let later = (dx / count).from_bar(first.start() + 1);
    idle.select(1.0, (count - 1.0) / count).linear_recurrence(later.fill_warmup(first))
}

fn choppiness<'g>(bars: GraphBuilder<'g>, span: Expr<'g>, n: usize) -> Expr<'g> {
    let log = (true_range(bars).sum(n) / span).log10();
    span.le(0.0).select(100.0, log / (n as f64).log10() * 100.0)
}

/// Long run and short run: the fast average rose (fell) over some bars while the slow one moved, either way.
pub(super) fn runs<'g>(fast: Expr<'g>, slow: Expr<'g>, lookback: usize) -> Vec<Expr<'g>> {
    let moved = slow.ne(slow.shift(lookback));
    let before = fast.shift(lookback);
    vec![fast.gt(before).and(moved), fast.lt(before).and(moved)]
}

/// Decaying max: `y = max(x, keep * y - less)`.
#[derive(Clone, Copy)]
struct Decay {
    keep: f64,
    less: f64,
}

static DECAY: StateMachineDef = StateMachineDef::branchless::<Decay, 1, 1, 1>("decay", |_| 0);

impl BranchlessMachine<1, 1, 1> for Decay {
    fn new(params: &[f64]) -> Self {
        let param = |at: usize| params.get(at).copied().unwrap_or(0.0);
        Decay { keep: param(0), less: param(1) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 1]) -> ([f64; 1], [f64; 1]) {
        (x, x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [y]: [V; 1], [x]: [V; 1]) -> ([V; 1], [V; 1]) {
        let left = y * self.keep - self.less;
        // NaN on either side propagates.
        let y = V::select(x.cmp_gt(left) | x.is_nan(), x, left);
        ([y], [y])
    }
}
