//! How fast does a price move, and is the move tiring? Oscillators that TA-Lib has for its Python users too.
//!
//! Where a divisor can be 0 a row says what it gives instead. A window whose values are all exactly 0 is told by its
//! greatest value, not by a running sum: a sum that has run may hold a rest of its past.

use super::{BuildArgs, Convention, Field, Group, Indicator, Param, ma::ma, int};
use crate::graph::{Expr, GraphBuilder, Seed};

const BASE: Indicator = Indicator { group: Group::Momentum, ..Indicator::BASE };
const HLC: &[Field] = &[Field::High, Field::Low, Field::Close];
const HL: &[Field] = &[Field::High, Field::Low];

/// The difference from the bar before.
pub(super) fn change(x: Expr<'_>) -> Expr<'_> {
    x - x.shift(1)
}

/// Gains and losses, bar by bar; both at least 0.
fn gains_losses(x: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let change = change(x);
    let gain = change.max(0.0);
    (gain, gain - change)
}

/// Wilder's relative strength index; 50 where nothing ever moved.
pub(super) fn rsi(x: Expr<'_>, n: usize) -> Expr<'_> {
    rsi_of(x, |x| x.wilder(n))
}

/// Relative strength by a smoothing of choice.
fn rsi_of<'g>(x: Expr<'g>, smooth: impl Fn(Expr<'g>) -> Expr<'g>) -> Expr<'g> {
    let (gain, loss) = gains_losses(x);
    let (gain, loss) = (smooth(gain), smooth(loss));
    let total = gain + loss;
    total.le(0.0).select(50.0, 100.0 * (gain / total))
}

/// Change over `n` bars in percent; 0 after a 0.
pub(super) fn roc(x: Expr<'_>, n: usize) -> Expr<'_> {
    let before = x.shift(n);
    before.eq(0.0).select(0.0, (x / before - 1.0) * 100.0)
}

/// Sum of the last `n` of something that is never below 0; exactly 0 where all of them are.
pub(super) fn sum0(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.all_zero(n).select(0.0, x.sum(n))
}

/// Middle of the bar.
pub(super) fn hl2(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low()) / 2.0
}

/// Mean of high, low and close.
pub(super) fn hlc3(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low() + bars.close()) / 3.0
}

/// The greatest of the bar's range and the distances of its ends from the close before.
pub(super) fn true_range(bars: GraphBuilder<'_>) -> Expr<'_> {
    let before = bars.close().shift(1);
    (bars.high() - bars.low()).max((before - bars.high()).abs()).max((before - bars.low()).abs())
}

/// 1 where a range is nothing but rounding.
pub(super) fn flat<'g>(high: Expr<'g>, low: Expr<'g>) -> Expr<'g> {
    (high - low).le((high.abs() + low.abs()) * 1e-14)
}

/// Where `x` lies between the least low and the greatest high of `n` bars, in percent; `idle` where they are the same.
pub(super) fn percent_k<'g>(high: Expr<'g>, low: Expr<'g>, x: Expr<'g>, n: usize, idle: f64) -> Expr<'g> {
    let (high, low) = (high.highest(n), low.lowest(n));
    flat(high, low).select(idle, (x - low) / (high - low) * 100.0)
}

/// Slope of the line through the last `n` values, per bar.
pub(super) fn slope(x: Expr<'_>, n: usize) -> Expr<'_> {
    let n = n.max(2);
    x.time_moment(n) / ((n * (n * n - 1)) as f64 / 12.0)
}

/// The line through the last `n` values, `ahead` bars after its last.
pub(super) fn line(x: Expr<'_>, n: usize, ahead: f64) -> Expr<'_> {
    x.sma(n) + slope(x, n) * ((n as f64 - 1.0) / 2.0 + ahead)
}

/// Outputs that all begin with the last of them to begin.
pub(super) fn together<const N: usize>(outputs: [Expr<'_>; N]) -> Vec<Expr<'_>> {
    let start = outputs.iter().map(|x| x.start()).max().unwrap_or(0);
    outputs.into_iter().map(|x| x.from_bar(start)).collect()
}

/// The lesser first.
fn ordered(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// Difference of two exponential means that begin at the same bar, each with the mean of its own number of bars before.
pub(super) fn macd_line(x: Expr<'_>, fast: usize, slow: usize) -> Expr<'_> {
    let (fast, slow) = ordered(fast, slow);
    x.from_bar(x.start() + slow - fast).ema(fast) - x.ema(slow)
}

/// A line, its signal and their difference.
fn with_signal<'g>(line: Expr<'g>, signal: Expr<'g>) -> Vec<Expr<'g>> {
    together([line, signal, line - signal])
}

/// A parameter that chooses the kind of a mean by TA-Lib's number.
pub(super) const fn ma_type(name: &'static str, default: u32) -> Param {
    int(name, default, 0, 15)
}

/// The kind that a parameter chooses; 11 is the row's own default.
pub(super) fn kind(a: &BuildArgs<'_, '_>, at: usize, default: usize) -> usize {
    if a.n(at) == 11 { default } else { a.n(at) }
}

/// A mean whose first value is at bar `first`: it sees nothing of what lies before the window that ends there.
pub(super) fn ma_from(x: Expr<'_>, n: usize, kind: usize, first: usize) -> Expr<'_> {
    let needs = ma(x, n, kind).start() - x.start();
    ma(x.from_bar(first.saturating_sub(needs)), n, kind)
}

/// %K smoothed, and the smoothed %K smoothed again.
fn slow_stoch<'g>(a: &BuildArgs<'g, '_>, default: usize) -> [Expr<'g>; 2] {
    let fast = percent_k(a.bars.high(), a.bars.low(), a.bars.close(), a.n(0), 0.0);
    let k = ma(fast, a.n(1), kind(a, 2, default));
    [k, ma(k, a.n(3), kind(a, 4, default))]
}

fn kdj<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let [k, d] = slow_stoch(a, 13);
    together([k, d, 3.0 * k - 2.0 * d])
}

fn stochf<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let k = percent_k(a.bars.high(), a.bars.low(), a.bars.close(), a.n(0), 0.0);
    together([k, ma(k, a.n(1), kind(a, 2, 0))])
}

fn stochrsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let rsi = rsi(a.source(), a.n(0));
    let k = percent_k(rsi, rsi, rsi, a.n(1), 0.0);
    together([k, ma(k, a.n(2), kind(a, 3, 0))])
}

fn macdext<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let x = a.source();
    let mut means = [(a.n(0), kind(a, 1, 0)), (a.n(2), kind(a, 3, 0))];
    means.sort_by_key(|(n, _)| *n);
    let first = means.iter().map(|(n, kind)| ma(x, *n, *kind).start()).max().unwrap_or(0);
    let [fast, slow] = means.map(|(n, kind)| ma_from(x, n, kind, first));
    let line = fast - slow;
    with_signal(line, ma(line, a.n(4), kind(a, 5, 0)))
}

/// Two means of the same kind, the fast one first.
fn two_means<'g>(a: &BuildArgs<'g, '_>, x: Expr<'g>) -> [Expr<'g>; 2] {
    let (fast, slow) = ordered(a.n(0), a.n(1));
    [fast, slow].map(|n| ma(x, n, kind(a, 2, 1)))
}

/// Distance of the fast mean from the slow one, in percent of it; 0 where it is nothing.
fn percent_oscillator<'g>(a: &BuildArgs<'g, '_>, x: Expr<'g>) -> Vec<Expr<'g>> {
    let [fast, slow] = two_means(a, x);
    // Means that forget are 0 where their window is, whatever a running sum has kept.
    let forgets = [0, 2, 5, 9].contains(&kind(a, 2, 1));
    let window = slow.start() - x.start() + 1;
    let small = slow.abs().lt(1e-14);
    let idle = if forgets { small.or(x.all_zero(window)) } else { small };
    vec![idle.select(0.0, (fast - slow) / slow * 100.0)]
}

fn macd<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let line = match a.convention() {
        Convention::TaLib => macd_line(a.source(), a.n(0), a.n(1)),
        Convention::Pandas => a.ema(a.source(), a.n(0)) - a.ema(a.source(), a.n(1)),
    };
    with_signal(line, a.ema(line, a.n(2)))
}

fn macdfix<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let x = a.source();
    let fast = x.from_bar(x.start() + 14).ema_alpha(0.15, Seed::Mean(12));
    let line = fast - x.ema_alpha(0.075, Seed::Mean(26));
    with_signal(line, line.ema(a.n(0)))
}

fn cci<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (hlc3(a.bars), a.n(0));
    let mean = x.sma(n);
    let (distance, deviation) = (x - mean, x.mean_deviation(n));
    let least = mean.abs() * 1e-14;
    let still = distance.abs().le(least).or(deviation.le(least));
    vec![still.select(0.0, distance / (0.015 * deviation))]
}

fn cmo<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (gain, loss) = gains_losses(a.source());
    let (gain, loss) = (gain.wilder(a.n(0)), loss.wilder(a.n(0)));
    vec![100.0 * (gain - loss).div0(gain + loss)]
}

fn cmou<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (gain, loss) = gains_losses(a.source());
    let (gain, loss) = (sum0(gain, a.n(0)), sum0(loss, a.n(0)));
    vec![(100.0 * (gain - loss)).div0(gain + loss)]
}

fn willr<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (high, low) = (a.bars.high().highest(a.n(0)), a.bars.low().lowest(a.n(0)));
    let r = (high - a.bars.close()) / (high - low) * -100.0;
    vec![flat(high, low).select(0.0, r.min(0.0).max(-100.0))]
}

fn ultosc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let mut periods = [a.n(0), a.n(1), a.n(2)];
    periods.sort_unstable();
    let [short, middle, long] = periods;
    let pressure = a.bars.close() - a.bars.low().min(a.bars.close().shift(1));
    let range = true_range(a.bars);
    let share = |n: usize| pressure.sum(n).div0(sum0(range, n));
    vec![100.0 * ((4.0 * share(short) + 2.0 * share(middle) + share(long)) / 7.0)]
}

/// Change of the triple exponential mean in percent.
pub(super) fn trix(x: Expr<'_>, n: usize) -> Expr<'_> {
    roc(x.ema(n).ema(n).ema(n), 1)
}

fn tsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let change = change(a.source());
    let smooth = |x: Expr<'g>| x.ema(a.n(0)).ema(a.n(1));
    vec![(100.0 * smooth(change)).div0(smooth(change.abs()))]
}

fn smi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (high, low) = (a.bars.high().highest(a.n(0)), a.bars.low().lowest(a.n(0)));
    let smooth = |x: Expr<'g>| x.ema(a.n(2)).ema(a.n(1));
    let distance = smooth(a.bars.close() - (high + low) * 0.5);
    let smi = (100.0 * distance).div0(0.5 * smooth(high - low));
    together([smi, smi.ema(a.n(3))])
}

fn ao<'g>(a: &BuildArgs<'g, '_>) -> Expr<'g> {
    let middle = hl2(a.bars);
    middle.sma(a.n(0)) - middle.sma(a.n(1))
}

fn bop<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let range = a.bars.high() - a.bars.low();
    vec![range.le(0.0).select(0.0, (a.bars.close() - a.bars.open()) / range)]
}

fn imi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let body = a.bars.close() - a.bars.open();
    let gain = body.max(0.0);
    let (up, down) = (sum0(gain, a.n(0)), sum0(gain - body, a.n(0)));
    let total = up + down;
    vec![total.eq(0.0).select(50.0, 100.0 * (up / total))]
}

fn er<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(0));
    let (way, path) = (x - x.shift(n), sum0(change(x).abs(), n));
    let straight = path.le(0.0).or(path.le(way));
    vec![straight.select(1.0, (way / path).abs().min(1.0))]
}

fn eri<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let mean = a.bars.close().ema(a.n(0));
    vec![a.bars.high() - mean, a.bars.low() - mean]
}

fn fosc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let x = a.source();
    let forecast = line(x.shift(1), a.n(0), 1.0);
    vec![(100.0 * (x - forecast)).div0(x)]
}

fn fractal<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (left, right) = (a.n(0), a.n(1));
    let (high, low) = (a.bars.high(), a.bars.low());
    let above = high.shift(right).gt(high.highest(right).max(high.shift(right + 1).highest(left)));
    let below = low.shift(right).lt(low.lowest(right).min(low.shift(right + 1).lowest(left)));
    vec![above * 100.0, below * 100.0]
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "rsi",
        aliases: &["RSI"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Relative strength index: gains as a share of gains and losses, both in Wilder's mean of `period`, from 0 to 100. The means begin with the plain mean of the first `period` changes. 50 where nothing has moved.",
        build: |a| vec![rsi_of(a.source(), |x| a.smooth(x, a.n(0)))],
        ..BASE
    },
    Indicator {
        name: "stoch",
        aliases: &["STOCH"],
        params: &[
            int("fast_k", 5, 1, 100_000),
            int("slow_k", 3, 1, 100_000),
            ma_type("k_type", 0),
            int("slow_d", 3, 1, 100_000),
            ma_type("d_type", 0),
        ],
        inputs: HLC,
        outputs: &["k", "d"],
        doc: "Slow stochastic: the place of the close between the lowest low and the highest high of `fast_k` bars in percent, smoothed to %K, and that smoothed again to %D. 0 where there is no range.",
        build: |a| together(slow_stoch(a, 0)),
        ..BASE
    },
    Indicator {
        name: "stochf",
        aliases: &["STOCHF"],
        params: &[int("fast_k", 5, 1, 100_000), int("fast_d", 3, 1, 100_000), ma_type("d_type", 0)],
        inputs: HLC,
        outputs: &["k", "d"],
        doc: "Fast stochastic: the place of the close between the lowest low and the highest high of `fast_k` bars in percent, and that smoothed. 0 where there is no range.",
        build: stochf,
        ..BASE
    },
    Indicator {
        name: "stochrsi",
        aliases: &["STOCHRSI"],
        params: &[
            int("period", 14, 2, 100_000),
            int("fast_k", 5, 1, 100_000),
            int("fast_d", 3, 1, 100_000),
            ma_type("d_type", 0),
        ],
        outputs: &["k", "d"],
        doc: "Fast stochastic of the RSI of `period`: its place in its own range of `fast_k` bars in percent, and that smoothed. 0 where there is no range.",
        build: stochrsi,
        ..BASE
    },
    Indicator {
        name: "kdj",
        aliases: &["KDJ"],
        params: &[
            int("fast_k", 9, 1, 100_000),
            int("slow_k", 3, 1, 100_000),
            ma_type("k_type", 13),
            int("slow_d", 3, 1, 100_000),
            ma_type("d_type", 13),
        ],
        inputs: HLC,
        outputs: &["k", "d", "j"],
        doc: "Slow stochastic in Wilder's means, and J = 3 K - 2 D. 0 where there is no range.",
        build: kdj,
        ..BASE
    },
    Indicator {
        name: "macd",
        aliases: &["MACD"],
        params: &[
            int("fast", 12, 2, 100_000),
            int("slow", 26, 2, 100_000),
            int("signal", 9, 1, 100_000),
        ],
        outputs: &["macd", "signal", "hist"],
        doc: "Exponential mean of `fast` less that of `slow`, its own exponential mean of `signal`, and the difference of the two. Both means begin at the slow one's first bar. Periods in the wrong order are swapped.",
        build: macd,
        ..BASE
    },
    Indicator {
        name: "macdext",
        aliases: &["MACDEXT"],
        params: &[
            int("fast", 12, 2, 100_000),
            ma_type("fast_type", 0),
            int("slow", 26, 2, 100_000),
            ma_type("slow_type", 0),
            int("signal", 9, 1, 100_000),
            ma_type("signal_type", 0),
        ],
        outputs: &["macd", "signal", "hist"],
        doc: "MACD with means of any kind. Both begin at the bar where the longer one does; periods in the wrong order are swapped, with their kinds.",
        build: macdext,
        ..BASE
    },
    Indicator {
        name: "apo",
        aliases: &["APO"],
        params: &[int("fast", 12, 2, 100_000), int("slow", 26, 2, 100_000), ma_type("ma_type", 1)],
        doc: "Absolute price oscillator: a fast mean less a slow one; periods in the wrong order are swapped.",
        build: |a| {
            let [fast, slow] = two_means(a, a.source());
            vec![fast - slow]
        },
        ..BASE
    },
    Indicator {
        name: "ppo",
        aliases: &["PPO"],
        params: &[int("fast", 12, 2, 100_000), int("slow", 26, 2, 100_000), ma_type("ma_type", 1)],
        doc: "Percentage price oscillator: distance of a fast mean from a slow one, in percent of it; 0 where it is 0. Periods in the wrong order are swapped.",
        build: |a| percent_oscillator(a, a.source()),
        ..BASE
    },
    Indicator {
        name: "pvo",
        aliases: &["PVO"],
        params: &[int("fast", 12, 2, 100_000), int("slow", 26, 2, 100_000), ma_type("ma_type", 1)],
        inputs: &[Field::Volume],
        doc: "Percentage volume oscillator: distance of a fast mean of the volume from a slow one, in percent of it; 0 where it is 0. Periods in the wrong order are swapped.",
        build: |a| percent_oscillator(a, a.source_or(Field::Volume)),
        ..BASE
    },
    Indicator {
        name: "macdfix",
        aliases: &["MACDFIX"],
        params: &[int("signal", 9, 1, 100_000)],
        outputs: &["macd", "signal", "hist"],
        doc: "MACD with the factors 0.15 and 0.075 of its inventor in place of periods; seeded like MACD(12, 26).",
        build: macdfix,
        ..BASE
    },
    Indicator {
        name: "mom",
        aliases: &["MOM"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Momentum: the value less the value `period` bars ago.",
        build: |a| vec![a.source() - a.source().shift(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "roc",
        aliases: &["ROC"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Rate of change over `period` bars in percent: (x / before - 1) * 100; 0 where the value before is 0.",
        build: |a| vec![roc(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "rocp",
        aliases: &["ROCP"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Rate of change over `period` bars as a share: (x - before) / before; 0 where the value before is 0.",
        build: |a| vec![(a.source() - a.source().shift(a.n(0))).div0(a.source().shift(a.n(0)))],
        ..BASE
    },
    Indicator {
        name: "rocr",
        aliases: &["ROCR"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Ratio of the value to the value `period` bars ago; 0 where that is 0.",
        build: |a| vec![a.source().div0(a.source().shift(a.n(0)))],
        ..BASE
    },
    Indicator {
        name: "rocr100",
        aliases: &["ROCR100"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Ratio of the value to the value `period` bars ago, times 100; 0 where that is 0.",
        build: |a| vec![a.source().div0(a.source().shift(a.n(0))) * 100.0],
        ..BASE
    },
    Indicator {
        name: "cci",
        aliases: &["CCI"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: HLC,
        doc: "Commodity channel index: distance of the typical price (h+l+c)/3 from its mean of `period`, in units of 0.015 mean deviations. 0 where there is no deviation.",
        build: cci,
        ..BASE
    },
    Indicator {
        name: "cmo",
        aliases: &["CMO"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Chande's momentum oscillator in Wilder's means: 100 * (gains - losses) / (gains + losses), seeded like the RSI. 0 where nothing has moved.",
        build: cmo,
        ..BASE
    },
    Indicator {
        name: "cmou",
        aliases: &["CMOU"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Chande's momentum oscillator as he wrote it, with plain sums of the last `period` changes: 100 * (gains - losses) / (gains + losses). 0 where nothing moved.",
        build: cmou,
        ..BASE
    },
    Indicator {
        name: "willr",
        aliases: &["WILLR"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: HLC,
        doc: "Williams %R: distance of the close below the highest high of `period` bars, as a share of their range, from 0 to -100. 0 where there is no range.",
        build: willr,
        ..BASE
    },
    Indicator {
        name: "ultosc",
        aliases: &["ULTOSC", "uo"],
        params: &[
            int("short", 7, 1, 100_000),
            int("middle", 14, 1, 100_000),
            int("long", 28, 1, 100_000),
        ],
        inputs: HLC,
        doc: "Ultimate oscillator: buying pressure (close - true low) as a share of the true range over three periods, weighted 4, 2 and 1 from the shortest on, in percent. A period without any range counts 0.",
        build: ultosc,
        ..BASE
    },
    Indicator {
        name: "trix",
        aliases: &["TRIX"],
        params: &[int("period", 30, 1, 100_000)],
        doc: "Change of a triple exponential mean of `period` from bar to bar, in percent; 0 after a 0.",
        build: |a| vec![trix(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "tsi",
        aliases: &["TSI"],
        params: &[int("first", 25, 2, 100_000), int("second", 13, 2, 100_000)],
        doc: "True strength index: the change, smoothed by two exponential means in turn, in percent of the size of the change smoothed the same way. 0 where nothing has moved.",
        build: tsi,
        ..BASE
    },
    Indicator {
        name: "smi",
        aliases: &["SMI"],
        params: &[
            int("period", 13, 2, 100_000),
            int("fast", 2, 2, 100_000),
            int("slow", 25, 2, 100_000),
            int("signal", 9, 2, 100_000),
        ],
        inputs: HLC,
        outputs: &["smi", "signal"],
        doc: "Stochastic momentum index: distance of the close from the middle of the range of `period` bars, in percent of half that range, both smoothed by exponential means of `slow` and then `fast`; and its exponential mean of `signal`. 0 where there is no range.",
        build: smi,
        ..BASE
    },
    Indicator {
        name: "ao",
        aliases: &["AO"],
        params: &[int("fast", 5, 2, 100_000), int("slow", 34, 2, 100_000)],
        inputs: HL,
        doc: "Awesome oscillator: mean of (h+l)/2 over `fast` bars less that over `slow`.",
        build: |a| vec![ao(a)],
        ..BASE
    },
    Indicator {
        name: "ac",
        aliases: &["AC"],
        params: &[
            int("fast", 5, 2, 100_000),
            int("slow", 34, 2, 100_000),
            int("signal", 5, 2, 100_000),
        ],
        inputs: HL,
        doc: "Accelerator: the awesome oscillator less its own mean of `signal` bars.",
        build: |a| vec![ao(a) - ao(a).sma(a.n(2))],
        ..BASE
    },
    Indicator {
        name: "bop",
        aliases: &["BOP"],
        inputs: &[Field::Open, Field::High, Field::Low, Field::Close],
        doc: "Balance of power: (close - open) / (high - low); 0 where the bar has no range.",
        build: bop,
        ..BASE
    },
    Indicator {
        name: "imi",
        aliases: &["IMI"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: &[Field::Open, Field::Close],
        doc: "Intraday momentum index: rising bodies (close - open) as a share of all bodies over `period` bars, in percent. 50 where no bar has a body.",
        build: imi,
        ..BASE
    },
    Indicator {
        name: "coppock",
        aliases: &["COPPOCK"],
        params: &[
            int("period", 10, 1, 100_000),
            int("short", 11, 1, 100_000),
            int("long", 14, 1, 100_000),
        ],
        doc: "Coppock curve: weighted mean of `period` of the sum of two rates of change in percent; a rate after a 0 is 0.",
        build: |a| vec![(roc(a.source(), a.n(1)) + roc(a.source(), a.n(2))).wma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "dpo",
        aliases: &["DPO"],
        params: &[int("period", 20, 2, 100_000)],
        doc: "Detrended price: the value period/2 + 1 bars ago less the mean of the last `period`.",
        build: |a| vec![a.source().shift(a.n(0) / 2 + 1) - a.source().sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "er",
        aliases: &["ER"],
        params: &[int("period", 10, 2, 100_000)],
        doc: "Efficiency ratio: the way from `period` bars ago as a share of the path taken bar by bar. 1 where nothing moved.",
        build: er,
        ..BASE
    },
    Indicator {
        name: "eri",
        aliases: &["ERI"],
        params: &[int("period", 13, 1, 100_000)],
        inputs: HLC,
        outputs: &["bull", "bear"],
        doc: "Elder ray: high and low less the exponential mean of `period` of the close.",
        build: eri,
        ..BASE
    },
    Indicator {
        name: "fosc",
        aliases: &["FOSC"],
        params: &[int("period", 5, 2, 100_000)],
        doc: "Forecast oscillator: distance of the value from what the line through the `period` values before it foresaw, in percent of the value; 0 where that is 0.",
        build: fosc,
        ..BASE
    },
    Indicator {
        name: "qstick",
        aliases: &["QSTICK"],
        params: &[int("period", 10, 1, 100_000)],
        inputs: &[Field::Open, Field::Close],
        doc: "Mean body (close - open) of the last `period` bars.",
        build: |a| vec![(a.bars.close() - a.bars.open()).sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "fractal",
        aliases: &["FRACTAL"],
        params: &[int("left", 2, 1, 100_000), int("right", 2, 1, 100_000)],
        inputs: HL,
        outputs: &["high", "low"],
        doc: "Williams' fractal, told at the bar that completes it: 100 where the high `right` bars ago is above those of the `left` bars before and the `right` bars after it, else 0; and the same for the low, below.",
        build: fractal,
        ..BASE
    },
];
