//! Oscillators that TA-Lib does not have: Squeeze PRO, QQE, RSX, Laguerre RSI, inertia, TD sequential and others.
//!
//! A row states its seed and its result for a division by 0; its reference implementation is in
//! `tests/reference/momentum.rs`.

use super::{
    super::{BuildArgs, Field, Indicator, int, real},
    HLC, NON_TALIB, OHLC, Squeeze, align_starts, change, flat, line, rsi,
    state_machines::{LAGUERRE, PROJECTION, QQE, RSX, RUN},
    sum0, trix, true_range,
};
use crate::graph::Expr;

fn squeeze_pro<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let close = a.bars.close();
    let squeeze = Squeeze::new(a, a.n(0), a.x(1), a.n(2));
    let momentum = (close - close.shift(a.n(6))).sma(a.n(7));
    let (wide, off) = (squeeze.inside(a.x(3)), squeeze.outside(a.x(3)));
    let none = wide.or(off).eq(0.0);
    align_starts([momentum, wide, squeeze.inside(a.x(4)), squeeze.inside(a.x(5)), off, none])
}

fn trixh<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let trix = trix(a.source(), a.n(0));
    let signal = trix.sma(a.n(1));
    align_starts([trix, signal, trix - signal])
}

fn qqe<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = rsi(a.source(), a.n(0)).ema(a.n(1));
    let n = 2 * a.n(0) - 1;
    let width = change(smooth).abs().ema(n).ema(n) * a.x(2);
    let mut outputs = a.bars.state_machine(&QQE, &[], &[smooth, width]);
    let start = outputs.first().map_or(0, |x| x.start());
    outputs.insert(1, smooth.from_bar(start));
    outputs
}

fn rsx<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let x = a.source();
    a.bars.state_machine(&RSX, &[a.n(0) as f64], &[x.from_bar(x.start() + a.n(0))])
}

fn lrsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let stages = a.bars.state_machine(&LAGUERRE, &[a.x(0)], &[a.source()]);
    let steps: Vec<Expr<'g>> = stages.iter().zip(stages.iter().skip(1)).map(|(a, b)| *a - *b).collect();
    let zero = a.bars.constant(0.0);
    let total = |f: fn(Expr<'g>) -> Expr<'g>| steps.iter().fold(zero, |sum, x| sum + f(*x));
    vec![(100.0 * total(|x| x.max(0.0))).div0(total(Expr::abs))]
}

fn ift_rsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    vec![(0.1 * (rsi(a.source(), a.n(0)) - 50.0)).wma(a.n(1)).tanh()]
}

fn inertia<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(1));
    let (change, width) = (change(x), x.stddev(n));
    let (up, down) = ((change.gt(0.0) * width).ema(n), (change.lt(0.0) * width).ema(n));
    let total = up + down;
    vec![line(total.le(0.0).select(50.0, 100.0 * up / total), a.n(0), 0.0)]
}

fn brar<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (open, high, low) = (a.bars.open(), a.bars.high(), a.bars.low());
    let before = a.bars.close().shift(1);
    let ratio =
        |up: Expr<'g>, down: Expr<'g>| (100.0 * sum0(up.max(0.0), a.n(0))).div0(sum0(down.max(0.0), a.n(0)));
    vec![ratio(high - open, open - low), ratio(high - before, before - low)]
}

fn rvgi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let n = a.n(1);
    let weights: Vec<f64> = (0..n).map(|i| (i + 1).min(n - i) as f64).collect();
    let total: f64 = weights.iter().sum();
    let weights: Vec<f64> = weights.iter().map(|w| w / total).collect();
    let bars = a.bars;
    let body = (bars.close() - bars.open()).fir(&weights).sum(a.n(0));
    let range = sum0((bars.high() - bars.low()).fir(&weights), a.n(0));
    let vigor = body.div0(range);
    align_starts([vigor, vigor.fir(&weights)])
}

fn td_seq<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, before) = (a.source(), a.source().shift(4));
    let run = |yes: Expr<'g>| a.bars.state_machine(&RUN, &[13.0], &[yes]).remove(0);
    vec![run(x.gt(before)), run(x.lt(before))]
}

/// VWMA; the SMA where there is no volume.
fn vwma<'g>(x: Expr<'g>, volume: Expr<'g>, n: usize) -> Expr<'g> {
    let traded = sum0(volume, n);
    traded.eq(0.0).select(x.sma(n), (x * volume).sum(n) / traded)
}

fn vwmacd<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (close, volume) = (a.bars.close(), a.bars.volume());
    let (fast, slow) = (a.n(0).min(a.n(1)), a.n(0).max(a.n(1)));
    let line = vwma(close, volume, fast) - vwma(close, volume, slow);
    let signal = line.ema(a.n(2));
    align_starts([line, signal, line - signal])
}

fn po<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let bounds = a.bars.state_machine(&PROJECTION, &[a.n(0) as f64], &[a.bars.high(), a.bars.low()]);
    let [upper, lower] = bounds.as_slice() else { return Vec::new() };
    vec![flat(*upper, *lower).select(50.0, 100.0 * (a.bars.close() - *lower) / (*upper - *lower))]
}

fn smc_sweep<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (open, high, low, close) = (a.bars.open(), a.bars.high(), a.bars.low(), a.bars.close());
    let (floor, roof) = (low.lowest(a.n(0)).shift(1), high.highest(a.n(0)).shift(1));
    let wick = (close - open).abs() * a.x(1);
    let bull = low.lt(floor).and(close.gt(floor)).and(close.gt(open));
    let bear = high.gt(roof).and(close.lt(roof)).and(close.lt(open));
    let bull = bull.and((open.min(close) - low).gt(wick));
    vec![bull - bear.and((high - open.max(close)).gt(wick))]
}

pub(in crate::catalogue) const COMMUNITY: &[Indicator] = &[
    Indicator {
        name: "trixh",
        params: &[int("period", 18, 1, 100_000), int("signal", 9, 1, 100_000)],
        outputs: &["trix", "signal", "hist"],
        doc: "TRIX with its signal line (SMA of `signal`) and histogram; TRIX is seeded as in TA-Lib.",
        build: trixh,
        ..NON_TALIB
    },
    Indicator {
        name: "cfo",
        params: &[int("period", 9, 2, 100_000)],
        doc: "Chande forecast oscillator: distance of the value from the next point of the linear regression \
              through the last `period` values (the current one included), in percent of the value; 0 where that \
              is 0.",
        build: |a| vec![(100.0 * (a.source() - line(a.source(), a.n(0), 1.0))).div0(a.source())],
        ..NON_TALIB
    },
    Indicator {
        name: "squeeze_pro",
        params: &[
            int("bollinger", 20, 2, 100_000),
            real("deviations", 2.0, 0.0, 100.0),
            int("keltner", 20, 2, 100_000),
            real("wide", 2.0, 1.75, 100.0),
            real("normal", 1.5, 1.25, 1.75),
            real("narrow", 1.0, 0.0, 1.25),
            int("momentum", 12, 1, 100_000),
            int("smooth", 6, 1, 100_000),
        ],
        inputs: HLC,
        outputs: &["momentum", "wide", "normal", "narrow", "off", "none"],
        doc: "Squeeze PRO: SMA of `smooth` of the change over `momentum` bars; and, as 1 or 0, whether the \
              Bollinger Bands (population standard deviation) lie inside the wide, normal and narrow Keltner \
              channels (SMAs of close and true range), outside the wide one on both sides, or neither inside nor \
              outside it.",
        build: squeeze_pro,
        ..NON_TALIB
    },
    Indicator {
        name: "qqe",
        params: &[
            int("period", 14, 2, 100_000),
            int("smooth", 5, 1, 100_000),
            real("factor", 4.236, 0.0, 100.0),
        ],
        outputs: &["qqe", "rsi", "long", "short", "trend"],
        doc: "Quantitative qualitative estimation (QQE): an RSI smoothed by an EMA, bands that trail it by \
              `factor` times its doubly smoothed (2 * period - 1) change and only tighten while it stays on their \
              side, the trend (1 or -1) and the band in force. The trend starts as 1 at the first bar that has \
              bands.",
        build: qqe,
        ..NON_TALIB
    },
    Indicator {
        name: "rsx",
        params: &[int("period", 14, 1, 100_000)],
        doc: "RSX (Jurik): three cascaded smoothers of the price changes over the same of the absolute changes, \
              from 0 to 100. Starts at bar `period` and is 50 for the next max(period - 1, 5) bars and where \
              nothing moves.",
        build: rsx,
        ..NON_TALIB
    },
    Indicator {
        name: "lrsi",
        params: &[real("gamma", 0.5, 0.0, 0.99)],
        doc: "Laguerre RSI (Ehlers): rises between the four stages of the Laguerre filter in percent of all \
              differences between them. The stages are seeded with the first value; 0 where they are equal.",
        build: lrsi,
        ..NON_TALIB
    },
    Indicator {
        name: "ift_rsi",
        params: &[int("period", 5, 2, 100_000), int("smooth", 9, 1, 100_000)],
        doc: "Inverse Fisher transform of the RSI: tanh of the WMA of `smooth` of (RSI - 50) / 10.",
        build: ift_rsi,
        ..NON_TALIB
    },
    Indicator {
        name: "inertia",
        params: &[int("period", 20, 2, 100_000), int("volatility", 14, 2, 100_000)],
        doc: "Inertia: end point of the linear regression through the last `period` values of the relative \
              volatility index (standard deviation over `volatility` bars of rising bars in percent of that of \
              rising and falling ones, both smoothed by SMA-seeded EMAs; 50 where nothing moved).",
        build: inertia,
        ..NON_TALIB
    },
    Indicator {
        name: "pgo",
        params: &[int("period", 14, 1, 100_000)],
        inputs: HLC,
        doc: "Pretty good oscillator (PGO): distance of the close from its SMA of `period`, in units of the EMA of \
              the average true range (ATR); 0 where there is no range.",
        build: |a| {
            let (close, n) = (a.bars.close(), a.n(0));
            // In a flat market the ATR decays to 0, and the rounding residue of the SMA would dominate the quotient.
            let distance = close.highest(n).ne(close.lowest(n)).select(close - close.sma(n), 0.0);
            vec![distance.div0(true_range(a.bars).wilder(n).ema(n))]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "psl",
        params: &[int("period", 12, 1, 100_000)],
        doc: "Psychological line: percentage of the last `period` bars that closed above the previous bar.",
        build: |a| vec![a.source().gt(a.source().shift(1)).sum(a.n(0)) * 100.0 / a.n(0) as f64],
        ..NON_TALIB
    },
    Indicator {
        name: "bias",
        params: &[int("period", 26, 1, 100_000)],
        doc: "Bias: distance of the value from its SMA of `period` as a fraction of the SMA; 0 where that is 0.",
        build: |a| vec![(a.source() - a.source().sma(a.n(0))).div0(a.source().sma(a.n(0)))],
        ..NON_TALIB
    },
    Indicator {
        name: "brar",
        params: &[int("period", 26, 1, 100_000)],
        inputs: OHLC,
        outputs: &["ar", "br"],
        doc: "BRAR sentiment index: over `period` bars, AR is the sum of (high - open) in percent of the sum of \
              (open - low); BR the same relative to the previous close, negative terms counting as 0. 0 where the \
              denominator is 0.",
        build: brar,
        ..NON_TALIB
    },
    Indicator {
        name: "rvgi",
        params: &[int("period", 14, 1, 100_000), int("smooth", 4, 1, 100_000)],
        inputs: OHLC,
        outputs: &["rvgi", "signal"],
        doc: "Relative vigor index (RVGI): bodies (close - open) over ranges (high - low), each smoothed with \
              symmetric weights over `smooth` bars and summed over `period`; the signal line smooths it by the \
              same weights. 0 where there is no range.",
        build: rvgi,
        ..NON_TALIB
    },
    Indicator {
        name: "td_seq",
        outputs: &["up", "down"],
        doc: "TD sequential setup (DeMark): number of consecutive bars above, and below, the value four bars \
              before, at most 13.",
        build: td_seq,
        ..NON_TALIB
    },
    Indicator {
        name: "vwmacd",
        params: &[int("fast", 12, 1, 100_000), int("slow", 26, 1, 100_000), int("signal", 9, 1, 100_000)],
        inputs: &[Field::Close, Field::Volume],
        outputs: &["macd", "signal", "hist"],
        doc: "MACD of volume-weighted moving averages (VWMA), its EMA of `signal` (SMA-seeded), and the histogram. \
              A window without volume uses the SMA; periods in the wrong order are swapped.",
        build: vwmacd,
        ..NON_TALIB
    },
    Indicator {
        name: "po",
        aliases: &["projection_oscillator"],
        params: &[int("period", 14, 2, 10_000)],
        inputs: HLC,
        doc: "Projection oscillator (Widner): position of the close, in percent, between the min low and the max \
              high of `period` bars, each projected to the current bar along the regression slope of the lows or \
              the highs; 50 where both are equal.",
        build: po,
        ..NON_TALIB
    },
    Indicator {
        name: "slope",
        params: &[int("period", 1, 1, 100_000)],
        doc: "Slope: change per bar since `period` bars ago.",
        build: |a| vec![(a.source() - a.source().shift(a.n(0))) / a.n(0) as f64],
        ..NON_TALIB
    },
    Indicator {
        name: "smc_sweep",
        params: &[int("period", 15, 1, 100_000), real("wick", 1.5, 0.0, 1000.0)],
        inputs: OHLC,
        doc: "Liquidity sweep (smart money concepts): 1 where the low breaks the lowest low of the `period` bars \
              before while a rising bar closes above it, with a lower wick of more than `wick` bodies; -1 for the \
              same at the top; else 0.",
        build: smc_sweep,
        ..NON_TALIB
    },
];
