//! How fast does a price move, continued: the rarer oscillators, of TA-Lib's Rust crate and of others.
//!
//! A row that TA-Lib does not have says how it begins and what it gives for a division by 0; its plain reference is in
//! `tests/reference/momentum.rs`.

use super::{
    BuildArgs, Field, Group, Indicator, Oracle,
    ma::ma,
    momentum::{
        change, flat, hl2, hlc3, kind, line, ma_from, ma_type, macd_line, percent_k, roc, rsi, slope, sum0,
        together, trix, true_range,
    },
    momentum_state::{CLAMPED, HOLD, LAGUERRE, PROJECTION, QQE, RSX, RUN, SETTLED, STREAK},
    real, int,
};
use crate::graph::{Expr, Seed};

const BASE: Indicator = Indicator { group: Group::Momentum, ..Indicator::BASE };
const NON_TALIB: Indicator = Indicator { oracle: Oracle::Reference, ..BASE };
const HL: &[Field] = &[Field::High, Field::Low];
const HLC: &[Field] = &[Field::High, Field::Low, Field::Close];
const OHLC: &[Field] = &[Field::Open, Field::High, Field::Low, Field::Close];

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
    together([kst, kst.sma(a.n(8))])
}

fn kstext<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = kind(a, 9, 0);
    let rate = |at: usize| roc(a.source(), a.n(at));
    let first = (0..4).map(|at| ma(rate(at), a.n(at + 4), smooth).start()).max().unwrap_or(0);
    let leg = |at: usize| ma_from(rate(at), a.n(at + 4), smooth, first);
    let kst = leg(0) + 2.0 * leg(1) + 3.0 * leg(2) + 4.0 * leg(3);
    together([kst, ma(kst, a.n(8), kind(a, 10, 0))])
}

fn crsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(2));
    let streak = a.bars.state_machine(&STREAK, &[], &[x, x.shift(1)]).remove(0);
    let moves = change(x).div0(x.shift(1));
    let rank = moves.rank(n, false) / n as f64 * 100.0;
    vec![(rsi(x, a.n(0)) + rsi(streak, a.n(1)) + rank) / 3.0]
}

/// Sums of products over the last `n` values, each less their mean: with time, and with themselves.
fn moments(x: Expr<'_>, n: usize) -> (Expr<'_>, Expr<'_>) {
    let size = n as f64;
    if n > 8 {
        return (slope(x, n) * (size * (size * size - 1.0) / 12.0), x.variance(n) * size);
    }
    // Few values can lie closer together than the sums of a running window can tell apart.
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

/// Where a value lies in its range of `n` bars, in percent; where there is no range, what was said last, at first 0.
fn held_k(x: Expr<'_>, n: usize) -> Expr<'_> {
    let (high, low) = (x.highest(n), x.lowest(n));
    let range = high - low;
    x.builder().state_machine(&HOLD, &[], &[(x - low) / range * 100.0, range.le(0.0)]).remove(0)
}

fn stc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = |x: Expr<'g>| held_k(x, a.n(2)).ema_alpha(0.5, Seed::First);
    vec![smooth(smooth(macd_line(a.source(), a.n(0), a.n(1))))]
}

/// Bollinger bands beside Keltner channels, both around plain means: what a squeeze is told from.
#[derive(Clone, Copy)]
struct Squeeze<'g> {
    low: Expr<'g>,
    high: Expr<'g>,
    centre: Expr<'g>,
    band: Expr<'g>,
}

impl<'g> Squeeze<'g> {
    fn new(a: &BuildArgs<'g, '_>, bollinger: usize, deviations: f64, keltner: usize) -> Self {
        let close = a.bars.close();
        let (middle, width) = (close.sma(bollinger), close.stddev(bollinger) * deviations);
        let (centre, band) = (close.sma(keltner), true_range(a.bars).sma(keltner));
        Squeeze { low: middle - width, high: middle + width, centre, band }
    }

    /// Are the bands inside a channel this wide?
    fn inside(self, factor: f64) -> Expr<'g> {
        self.low.gt(self.centre - factor * self.band).and(self.high.lt(self.centre + factor * self.band))
    }

    /// Are they outside on both sides?
    fn outside(self, factor: f64) -> Expr<'g> {
        self.low.lt(self.centre - factor * self.band).and(self.high.gt(self.centre + factor * self.band))
    }
}

fn sqzmom<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (close, n) = (a.bars.close(), a.n(2));
    let squeeze = Squeeze::new(a, a.n(0), a.x(1), n);
    let (wide, normal, narrow) = (a.x(3), a.x(4), a.x(5));
    let middle = (a.bars.high().highest(n) + a.bars.low().lowest(n)) / 2.0;
    let momentum = line(close - (middle + close.sma(n)) / 2.0, n, 0.0);
    let state = squeeze.inside(wide).select(1.0, -squeeze.outside(wide));
    let state = squeeze.inside(normal).select(2.0, state);
    together([momentum, squeeze.inside(narrow).select(3.0, state)])
}

fn squeeze_pro<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let close = a.bars.close();
    let squeeze = Squeeze::new(a, a.n(0), a.x(1), a.n(2));
    let momentum = (close - close.shift(a.n(6))).sma(a.n(7));
    let (wide, off) = (squeeze.inside(a.x(3)), squeeze.outside(a.x(3)));
    let none = wide.or(off).eq(0.0);
    together([momentum, wide, squeeze.inside(a.x(4)), squeeze.inside(a.x(5)), off, none])
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
    together([wave, wave.sma(a.n(2))])
}

fn dosc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let smooth = rsi(a.source(), a.n(0)).ema(a.n(1)).ema(a.n(2));
    vec![smooth - smooth.sma(a.n(3))]
}

fn ibs<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let range = a.bars.high() - a.bars.low();
    vec![range.le(0.0).select(0.5, (a.bars.close() - a.bars.low()) / range)]
}

/// Wilder's swing of a bar after one with this open and close.
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
    // The first bar has nothing to swing from.
    vec![swing.fill_warmup(0.0).cumsum()]
}

fn trixh<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let trix = trix(a.source(), a.n(0));
    let signal = trix.sma(a.n(1));
    together([trix, signal, trix - signal])
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
    together([vigor, vigor.fir(&weights)])
}

fn td_seq<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, before) = (a.source(), a.source().shift(4));
    let run = |yes: Expr<'g>| a.bars.state_machine(&RUN, &[13.0], &[yes]).remove(0);
    vec![run(x.gt(before)), run(x.lt(before))]
}

/// Mean by volume; the plain mean where nothing was traded.
fn vwma<'g>(x: Expr<'g>, volume: Expr<'g>, n: usize) -> Expr<'g> {
    let traded = sum0(volume, n);
    traded.eq(0.0).select(x.sma(n), (x * volume).sum(n) / traded)
}

fn vwmacd<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (close, volume) = (a.bars.close(), a.bars.volume());
    let (fast, slow) = (a.n(0).min(a.n(1)), a.n(0).max(a.n(1)));
    let line = vwma(close, volume, fast) - vwma(close, volume, slow);
    let signal = line.ema(a.n(2));
    together([line, signal, line - signal])
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

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "fisher",
        aliases: &["FISHER"],
        params: &[int("period", 10, 2, 100_000)],
        inputs: HL,
        outputs: &["fisher", "trigger"],
        doc: "Ehlers' Fisher transform: the place of (h+l)/2 in its range of `period` bars, from -1 to 1, smoothed by 0.33 and kept within 0.999, as half the logarithm of (1+x)/(1-x) plus half of the bar before; and the value of the bar before. Both memories begin with 0; a window without range counts as the middle.",
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
        doc: "Know sure thing: means of four rates of change in percent, weighted 1, 2, 3 and 4; and its mean of `signal`. A rate after a 0 is 0.",
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
        doc: "Know sure thing with means of any kind; all four begin at the bar where the longest does.",
        build: kstext,
        ..BASE
    },
    Indicator {
        name: "crsi",
        aliases: &["CRSI"],
        params: &[
            int("period", 3, 2, 100_000),
            int("streak", 2, 2, 100_000),
            int("rank", 100, 2, 10_000),
        ],
        doc: "Connors RSI: mean of the RSI of the value, the RSI of how many bars in a row it rose or fell, and the share of the last `rank` relative changes that are less than this one, in percent.",
        build: crsi,
        ..BASE
    },
    Indicator {
        name: "cti",
        aliases: &["CTI"],
        params: &[int("period", 20, 2, 100_000)],
        doc: "Correlation trend: correlation of the last `period` values with time, from -1 to 1; 0 where they are all the same.",
        build: cti,
        ..BASE
    },
    Indicator {
        name: "stc",
        aliases: &["STC"],
        params: &[
            int("fast", 23, 2, 100_000),
            int("slow", 50, 2, 100_000),
            int("cycle", 10, 2, 100_000),
        ],
        doc: "Schaff trend cycle: place of the MACD line in its range of `cycle` bars in percent, smoothed by half, and the same again of that. Without a range it keeps the last place, at first 0; each smoothing begins with its first value.",
        build: stc,
        ..BASE
    },
    Indicator {
        name: "sqzmom",
        aliases: &["SQZMOM", "squeeze"],
        // TA-Lib asks for narrow <= normal <= wide; the ranges see to it.
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
        doc: "Squeeze: the end of the line through the last `keltner` distances of the close from the mean of the middle of their range and their mean; and how tightly the Bollinger bands lie in the Keltner channels: 3, 2, 1 inside the narrow, normal, wide one, -1 outside, else 0.",
        build: sqzmom,
        ..BASE
    },
    Indicator {
        name: "cg",
        aliases: &["CG"],
        params: &[int("period", 10, 2, 100_000)],
        doc: "Center of gravity: minus the mean age of the last `period` values, the newest aged 1, weighted by the values; the middle where they sum to 0.",
        build: cg,
        ..BASE
    },
    Indicator {
        name: "pso",
        aliases: &["PSO"],
        params: &[int("period", 8, 1, 100_000), int("smooth", 5, 1, 100_000)],
        inputs: HLC,
        doc: "Premier stochastic: the place of the close in the range of `period` bars, brought to -5 to 5, smoothed by two exponential means of `smooth`, and bent to -1 to 1 by tanh(x/2). A window without range counts as the middle.",
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
        doc: "WaveTrend: distance of (h+l+c)/3 from its exponential mean of `channel` in units of 0.015 of the exponential mean of that distance, smoothed by an exponential mean of `average`; and its plain mean of `signal`. 0 where there is no distance.",
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
        doc: "Derivative oscillator: the RSI, smoothed by two exponential means in turn, less its own plain mean of `signal`.",
        build: dosc,
        ..BASE
    },
    Indicator {
        name: "ibs",
        aliases: &["IBS"],
        inputs: HLC,
        doc: "Internal bar strength: (close - low) / (high - low); 0.5 where the bar has no range.",
        build: ibs,
        ..BASE
    },
    Indicator {
        name: "si",
        aliases: &["SI"],
        params: &[real("limit", 3.0, 1e-8, 1e9)],
        inputs: OHLC,
        doc: "Wilder's swing index: how far the bar went compared with the bar before, from -100 to 100, scaled by the limit move; 0 where nothing reached anywhere.",
        build: |a| vec![swing(a, a.bars.open().shift(1), a.bars.close().shift(1))],
        ..BASE
    },
    Indicator {
        name: "asi",
        aliases: &["ASI"],
        params: &[real("limit", 3.0, 1e-8, 1e9)],
        inputs: OHLC,
        doc: "Accumulative swing index: sum of the swing index since the first bar, which counts 0.",
        build: asi,
        ..BASE
    },
    Indicator {
        name: "trixh",
        params: &[int("period", 18, 1, 100_000), int("signal", 9, 1, 100_000)],
        outputs: &["trix", "signal", "hist"],
        doc: "TRIX with its plain mean of `signal` and the difference of the two; TRIX begins as in TA-Lib.",
        build: trixh,
        ..NON_TALIB
    },
    Indicator {
        name: "cfo",
        params: &[int("period", 9, 2, 100_000)],
        doc: "Chande's forecast oscillator: distance of the value from the next point of the line through the last `period` values (itself among them), in percent of the value; 0 where that is 0.",
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
        doc: "Squeeze PRO: mean of `smooth` of the change over `momentum` bars; and, as 1 or 0, whether the Bollinger bands (population deviation) lie inside the wide, normal and narrow Keltner channels (plain means of close and true range), outside the wide one on both sides, or neither inside nor outside it.",
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
        doc: "Quantitative qualitative estimation: an RSI smoothed by an exponential mean, bands that trail it by `factor` times its doubly smoothed (2 * period - 1) change, which only tighten while it stays on their side, the trend (1 or -1) and the band in force. The trend begins with 1 at the first bar that has bands.",
        build: qqe,
        ..NON_TALIB
    },
    Indicator {
        name: "rsx",
        params: &[int("period", 14, 1, 100_000)],
        doc: "Relative strength after Jurik: three smoothers in a row over the moves, compared with the same over their sizes, from 0 to 100. Begins at bar `period` and is 50 for the next max(period - 1, 5) bars and where nothing moves.",
        build: rsx,
        ..NON_TALIB
    },
    Indicator {
        name: "lrsi",
        params: &[real("gamma", 0.5, 0.0, 0.99)],
        doc: "Laguerre RSI: rises between the four stages of Ehlers' Laguerre filter as a share of all differences between them, in percent. The stages begin with the first value; 0 where they are the same.",
        build: lrsi,
        ..NON_TALIB
    },
    Indicator {
        name: "ift_rsi",
        params: &[int("period", 5, 2, 100_000), int("smooth", 9, 1, 100_000)],
        doc: "Inverse Fisher transform of the RSI: tanh of the weighted mean of `smooth` of (RSI - 50) / 10.",
        build: ift_rsi,
        ..NON_TALIB
    },
    Indicator {
        name: "inertia",
        params: &[int("period", 20, 2, 100_000), int("volatility", 14, 2, 100_000)],
        doc: "Inertia: end of the line through the last `period` values of the relative volatility index, which is the standard deviation over `volatility` bars of rising bars as a share of that of rising and falling ones, both in exponential means seeded with a plain one, in percent; that is 50 where nothing moved.",
        build: inertia,
        ..NON_TALIB
    },
    Indicator {
        name: "pgo",
        params: &[int("period", 14, 1, 100_000)],
        inputs: HLC,
        doc: "Pretty good oscillator: distance of the close from its mean of `period`, in units of the exponential mean of Wilder's average true range; 0 where there is no range.",
        build: |a| {
            let (close, n) = (a.bars.close(), a.n(0));
            // Where nothing moves the range dwindles, and a crumb of the mean would grow beside it.
            let distance = close.highest(n).ne(close.lowest(n)).select(close - close.sma(n), 0.0);
            vec![distance.div0(true_range(a.bars).wilder(n).ema(n))]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "psl",
        params: &[int("period", 12, 1, 100_000)],
        doc: "Psychological line: share of the last `period` bars that rose above the bar before, in percent.",
        build: |a| vec![a.source().gt(a.source().shift(1)).sum(a.n(0)) * 100.0 / a.n(0) as f64],
        ..NON_TALIB
    },
    Indicator {
        name: "bias",
        params: &[int("period", 26, 1, 100_000)],
        doc: "Bias: distance of the value from its mean of `period` as a share of the mean; 0 where the mean is 0.",
        build: |a| vec![(a.source() - a.source().sma(a.n(0))).div0(a.source().sma(a.n(0)))],
        ..NON_TALIB
    },
    Indicator {
        name: "brar",
        params: &[int("period", 26, 1, 100_000)],
        inputs: OHLC,
        outputs: &["ar", "br"],
        doc: "Over `period` bars, the way from the open up to the high in percent of the way down to the low; and the same from the close before, a bar that does not reach it counting 0. 0 where nothing went down.",
        build: brar,
        ..NON_TALIB
    },
    Indicator {
        name: "rvgi",
        params: &[int("period", 14, 1, 100_000), int("smooth", 4, 1, 100_000)],
        inputs: OHLC,
        outputs: &["rvgi", "signal"],
        doc: "Relative vigor: bodies (close - open) as a share of ranges (high - low), each smoothed with symmetric weights over `smooth` bars and summed over `period`; and its own smoothing by the same weights. 0 where there is no range.",
        build: rvgi,
        ..NON_TALIB
    },
    Indicator {
        name: "td_seq",
        outputs: &["up", "down"],
        doc: "DeMark's sequential count: how many bars in a row are above, and below, the value four bars before, at most 13.",
        build: td_seq,
        ..NON_TALIB
    },
    Indicator {
        name: "vwmacd",
        params: &[
            int("fast", 12, 1, 100_000),
            int("slow", 26, 1, 100_000),
            int("signal", 9, 1, 100_000),
        ],
        inputs: &[Field::Close, Field::Volume],
        outputs: &["macd", "signal", "hist"],
        doc: "MACD of means weighted by volume, its exponential mean of `signal` (seeded with a plain one), and the difference. A window without volume takes its plain mean; periods in the wrong order are swapped.",
        build: vwmacd,
        ..NON_TALIB
    },
    Indicator {
        name: "po",
        aliases: &["projection_oscillator"],
        params: &[int("period", 14, 2, 10_000)],
        inputs: HLC,
        doc: "Widner's projection oscillator: place of the close, in percent, between the least low and the greatest high of `period` bars, each carried on to today along the slope of the line through the lows or the highs; 50 where the two are the same.",
        build: po,
        ..NON_TALIB
    },
    Indicator {
        name: "slope",
        params: &[int("period", 1, 1, 100_000)],
        doc: "Change per bar since `period` bars ago.",
        build: |a| vec![(a.source() - a.source().shift(a.n(0))) / a.n(0) as f64],
        ..NON_TALIB
    },
    Indicator {
        name: "smc_sweep",
        params: &[int("period", 15, 1, 100_000), real("wick", 1.5, 0.0, 1000.0)],
        inputs: OHLC,
        doc: "Liquidity sweep: 1 where the low went below the lowest low of the `period` bars before while a rising bar closed above it, with a lower wick of more than `wick` bodies; -1 for the same at the top; else 0.",
        build: smc_sweep,
        ..NON_TALIB
    },
];
