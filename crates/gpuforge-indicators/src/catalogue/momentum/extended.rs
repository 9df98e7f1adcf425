//! Oscillators of TA-Lib's Rust crate: Fisher transform, KST, Connors RSI, Schaff trend cycle, squeeze momentum and others.

use super::{
    super::{BuildArgs, Indicator, int, ma::ma, real},
    BASE, HL, HLC, OHLC, Squeeze, align_starts, change, flat, hl2, hlc3, line, ma_from, ma_type, ma_type_of,
    macd_line, percent_k, roc, rsi, slope,
    state_machines::{CLAMPED, HOLD, SETTLED, STREAK},
};
use crate::graph::{Expr, Seed};

fn fisher<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let middle = hl2(a.bars);
    let (high, low) = (middle.highest(a.n(0)), middle.lowest(a.n(0)));
    let share = flat(high, low).select(0.5, (middle - low) / (high - low));
    let smooth = a.bars.state_machine(&CLAMPED, &[], &[share]).remove(0);
    let transform = ((smooth + 1.0) / (1.0 - smooth)).ln() * 0.5;
    let fisher = a.bars.constant(0.5).linear_recurrence(transform);
    vec![fisher, fisher.shift(1).fill_warmup(0.0).from_bar(fisher.start())]
}

fn kst<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let leg = |at: usize| roc(a.source(), a.n(at)).sma(a.n(at + 4));
    let kst = leg(0) + 2.0 * leg(1) + 3.0 * leg(2) + 4.0 * leg(3);
    align_starts([kst, kst.sma(a.n(8))])
}

fn kstext<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = ma_type_of(a, 9, 0);
    let rate = |at: usize| roc(a.source(), a.n(at));
    let first = (0..4).map(|at| ma(rate(at), a.n(at + 4), smooth).start()).max().unwrap_or(0);
    let leg = |at: usize| ma_from(rate(at), a.n(at + 4), smooth, first);
    let kst = leg(0) + 2.0 * leg(1) + 3.0 * leg(2) + 4.0 * leg(3);
    align_starts([kst, ma(kst, a.n(8), ma_type_of(a, 10, 0))])
}

fn crsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(2));
    let streak = a.bars.state_machine(&STREAK, &[], &[x, x.shift(1)]).remove(0);
    let moves = change(x).div0(x.shift(1));
    let rank = moves.rank(n, false) / n as f64 * 100.0;
    vec![(rsi(x, a.n(0)) + rsi(streak, a.n(1)) + rank) / 3.0]
}

/// Co-moment with time, and second central moment, of the last `n` values.
fn moments(x: Expr<'_>, n: usize) -> (Expr<'_>, Expr<'_>) {
    let size = n as f64;
    if n > 8 {
        return (slope(x, n) * (size * (size * size - 1.0) / 12.0), x.variance(n) * size);
    }
    // Short windows: values may lie closer together than a rolling sum can resolve, so the sums are direct.
    let mean = x.fir(&vec![1.0 / size; n]);
    let zero = x.builder().constant(0.0);
    (0..n).fold((zero, zero), |(time, own), ago| {
        let distance = x.shift(ago) - mean;
        (time + distance * ((size - 1.0) / 2.0 - ago as f64), own + distance * distance)
    })
}

fn cti<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(0));
    let size = n as f64;
    let (with_time, own) = moments(x, n);
    let r = with_time / (own * (size * (size * size - 1.0) / 12.0)).sqrt();
    vec![x.highest(n).eq(x.lowest(n)).select(0.0, r.min(1.0).max(-1.0))]
}

/// Stochastic %K of a value; holds its last value where there is no range, at first 0.
fn held_k(x: Expr<'_>, n: usize) -> Expr<'_> {
    let (high, low) = (x.highest(n), x.lowest(n));
    let range = high - low;
    x.builder().state_machine(&HOLD, &[], &[(x - low) / range * 100.0, range.le(0.0)]).remove(0)
}

fn stc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = |x: Expr<'g>| held_k(x, a.n(2)).ema_alpha(0.5, Seed::First);
    vec![smooth(smooth(macd_line(a.source(), a.n(0), a.n(1))))]
}

fn sqzmom<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (close, n) = (a.bars.close(), a.n(2));
    let squeeze = Squeeze::new(a, a.n(0), a.x(1), n);
    let (wide, normal, narrow) = (a.x(3), a.x(4), a.x(5));
    let middle = (a.bars.high().highest(n) + a.bars.low().lowest(n)) / 2.0;
    let momentum = line(close - (middle + close.sma(n)) / 2.0, n, 0.0);
    let state = squeeze.inside(wide).select(1.0, -squeeze.outside(wide));
    let state = squeeze.inside(normal).select(2.0, state);
    align_starts([momentum, squeeze.inside(narrow).select(3.0, state)])
}

fn cg<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(0));
    let middle = (n as f64 + 1.0) / 2.0;
    let sum = x.sum(n);
    let empty = sum.eq(0.0).or(x.all_zero(n));
    vec![empty.select(-middle, x.linear_weighted_sum(n) / sum - 2.0 * middle)]
}

fn pso<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let k = percent_k(a.bars.high(), a.bars.low(), a.bars.close(), a.n(0), 50.0);
    vec![(0.5 * (0.1 * (k - 50.0)).ema(a.n(1)).ema(a.n(1))).tanh()]
}

fn wavetrend<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let price = hlc3(a.bars);
    let distance = a.bars.state_machine(&SETTLED, &[], &[price, price.ema(a.n(0))]).remove(0);
    let wave = distance.div0(0.015 * distance.abs().ema(a.n(0))).ema(a.n(1));
    align_starts([wave, wave.sma(a.n(2))])
}

fn dosc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = rsi(a.source(), a.n(0)).ema(a.n(1)).ema(a.n(2));
    vec![smooth - smooth.sma(a.n(3))]
}

fn ibs<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let range = a.bars.high() - a.bars.low();
    vec![range.le(0.0).select(0.5, (a.bars.close() - a.bars.low()) / range)]
}

/// Swing index (Wilder) of a bar, given the previous open and close.
fn swing<'g>(a: &BuildArgs<'g, '_>, open: Expr<'g>, close: Expr<'g>) -> Expr<'g> {
    let bars = a.bars;
    let body = close - open;
    let push = bars.close() - close + 0.5 * (bars.close() - bars.open()) + 0.25 * body;
    let (up, down) = ((bars.high() - close).abs(), (bars.low() - close).abs());
    let reach = (up - 0.5 * down).max(down - 0.5 * up).max((bars.high() - bars.low()).abs());
    let reach = reach + 0.25 * body.abs();
    50.0 * push.div0(reach) * (up.max(down) / a.x(0))
}

fn asi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let swing = swing(a, a.bars.open().shift(1), a.bars.close().shift(1));
    // The first bar has no previous bar.
    vec![swing.fill_warmup(0.0).cumsum()]
}

pub(in crate::catalogue) const EXTENDED: &[Indicator] = &[
    Indicator {
        name: "fisher",
        aliases: &["FISHER"],
        params: &[int("period", 10, 2, 100_000)],
        inputs: HL,
        outputs: &["fisher", "trigger"],
        doc: "Fisher transform (Ehlers): position of (h+l)/2 in its range of `period` bars, scaled to -1..1, \
              smoothed by 0.33 and clamped to 0.999, as half the logarithm of (1+x)/(1-x) plus half of the \
              previous bar; the trigger is the previous value. Both recurrences are seeded with 0; a window \
              without range counts as its midpoint.",
        build: fisher,
        ..BASE
    },
    Indicator {
        name: "kst",
        aliases: &["KST"],
        params: &[
            int("roc1", 10, 1, 100_000),
            int("roc2", 15, 1, 100_000),
            int("roc3", 20, 1, 100_000),
            int("roc4", 30, 1, 100_000),
            int("sma1", 10, 1, 100_000),
            int("sma2", 10, 1, 100_000),
            int("sma3", 10, 1, 100_000),
            int("sma4", 15, 1, 100_000),
            int("signal", 9, 1, 100_000),
        ],
        outputs: &["kst", "signal"],
        doc: "Know sure thing (KST): SMAs of four rates of change in percent, weighted 1, 2, 3 and 4; the signal \
              line is its SMA of `signal`. A rate of change from 0 counts as 0.",
        build: kst,
        ..BASE
    },
    Indicator {
        name: "kstext",
        aliases: &["KSTEXT"],
        params: &[
            int("roc1", 10, 1, 100_000),
            int("roc2", 15, 1, 100_000),
            int("roc3", 20, 1, 100_000),
            int("roc4", 30, 1, 100_000),
            int("ma1", 10, 1, 100_000),
            int("ma2", 10, 1, 100_000),
            int("ma3", 10, 1, 100_000),
            int("ma4", 15, 1, 100_000),
            int("signal", 9, 1, 100_000),
            ma_type("roc_type", 0),
            ma_type("signal_type", 0),
        ],
        outputs: &["kst", "signal"],
        doc: "Know sure thing with moving averages of any type; all four start at the bar where the longest does.",
        build: kstext,
        ..BASE
    },
    Indicator {
        name: "crsi",
        aliases: &["CRSI"],
        params: &[int("period", 3, 2, 100_000), int("streak", 2, 2, 100_000), int("rank", 100, 2, 10_000)],
        doc: "Connors RSI: mean of the RSI of the value, the RSI of its up/down streak length, and the percent \
              rank of its relative change among the last `rank`.",
        build: crsi,
        ..BASE
    },
    Indicator {
        name: "cti",
        aliases: &["CTI"],
        params: &[int("period", 20, 2, 100_000)],
        doc: "Correlation trend indicator (CTI): correlation of the last `period` values with time, from -1 to 1; \
              0 where they are all equal.",
        build: cti,
        ..BASE
    },
    Indicator {
        name: "stc",
        aliases: &["STC"],
        params: &[int("fast", 23, 2, 100_000), int("slow", 50, 2, 100_000), int("cycle", 10, 2, 100_000)],
        doc: "Schaff trend cycle (STC): stochastic %K of the MACD line over `cycle` bars, smoothed with factor \
              0.5, and the same once more. Without a range it holds the last %K, at first 0; each smoothing is \
              seeded with its first value.",
        build: stc,
        ..BASE
    },
    Indicator {
        name: "sqzmom",
        aliases: &["SQZMOM", "squeeze"],
        // TA-Lib requires narrow <= normal <= wide: disjoint parameter ranges guarantee it.
        params: &[
            int("bollinger", 20, 2, 100_000),
            real("deviations", 2.0, 0.0, 100.0),
            int("keltner", 20, 2, 100_000),
            real("wide", 2.0, 1.75, 100.0),
            real("normal", 1.5, 1.25, 1.75),
            real("narrow", 1.0, 0.0, 1.25),
        ],
        inputs: HLC,
        outputs: &["momentum", "squeeze"],
        doc: "Squeeze momentum (TTM squeeze): end point of the linear regression through the last `keltner` \
              distances of the close from the mean of the Donchian midpoint and the SMA; and how tightly the \
              Bollinger Bands lie inside the Keltner channels: 3, 2, 1 inside the narrow, normal, wide one, -1 \
              outside, else 0.",
        build: sqzmom,
        ..BASE
    },
    Indicator {
        name: "cg",
        aliases: &["CG"],
        params: &[int("period", 10, 2, 100_000)],
        doc: "Center of gravity (Ehlers): minus the mean age of the last `period` values, the newest aged 1, \
              weighted by the values; the midpoint where they sum to 0.",
        build: cg,
        ..BASE
    },
    Indicator {
        name: "pso",
        aliases: &["PSO"],
        params: &[int("period", 8, 1, 100_000), int("smooth", 5, 1, 100_000)],
        inputs: HLC,
        doc: "Premier stochastic oscillator: stochastic %K of `period` bars, scaled to -5..5, smoothed by two \
              nested EMAs of `smooth`, and compressed to -1..1 by tanh(x/2). A window without range counts as its \
              midpoint.",
        build: pso,
        ..BASE
    },
    Indicator {
        name: "wavetrend",
        aliases: &["WAVETREND"],
        params: &[
            int("channel", 10, 2, 100_000),
            int("average", 21, 1, 100_000),
            int("signal", 4, 1, 100_000),
        ],
        inputs: HLC,
        outputs: &["wt1", "wt2"],
        doc: "WaveTrend: distance of (h+l+c)/3 from its EMA of `channel` in units of 0.015 of the EMA of the \
              absolute distance, smoothed by an EMA of `average`; the signal line is its SMA of `signal`. 0 where \
              there is no distance.",
        build: wavetrend,
        ..BASE
    },
    Indicator {
        name: "dosc",
        aliases: &["DOSC"],
        params: &[
            int("period", 14, 2, 100_000),
            int("first", 5, 2, 100_000),
            int("second", 3, 2, 100_000),
            int("signal", 9, 2, 100_000),
        ],
        doc: "Derivative oscillator: the RSI smoothed by two nested EMAs, minus its own SMA of `signal`.",
        build: dosc,
        ..BASE
    },
    Indicator {
        name: "ibs",
        aliases: &["IBS"],
        inputs: HLC,
        doc: "Internal bar strength (IBS): (close - low) / (high - low); 0.5 where the bar has no range.",
        build: ibs,
        ..BASE
    },
    Indicator {
        name: "si",
        aliases: &["SI"],
        params: &[real("limit", 3.0, 1e-8, 1e9)],
        inputs: OHLC,
        doc: "Swing index (Wilder): the bar's price swing relative to the previous bar, from -100 to 100, scaled \
              by the limit move; 0 where there is no range.",
        build: |a| vec![swing(a, a.bars.open().shift(1), a.bars.close().shift(1))],
        ..BASE
    },
    Indicator {
        name: "asi",
        aliases: &["ASI"],
        params: &[real("limit", 3.0, 1e-8, 1e9)],
        inputs: OHLC,
        doc: "Accumulative swing index (ASI): cumulative sum of the swing index; the first bar counts as 0.",
        build: asi,
        ..BASE
    },
];
