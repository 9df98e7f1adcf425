//! RSI, stochastic oscillators, MACD family, momentum and rate of change.

use super::{
    super::{BuildArgs, Convention, Field, Indicator, int, ma::ma},
    BASE, HLC, align_starts, ma_from, ma_type, ma_type_of, macd_line, ordered, percent_k, roc, rsi, rsi_of,
    with_signal,
};
use crate::graph::{Expr, Seed};

/// Slow stochastic: smoothed %K, and %D, its moving average.
fn slow_stoch<'g>(a: &BuildArgs<'g, '_>, default: usize) -> [Expr<'g>; 2] {
    let fast = percent_k(a.bars.high(), a.bars.low(), a.bars.close(), a.n(0), 0.0);
    let k = ma(fast, a.n(1), ma_type_of(a, 2, default));
    [k, ma(k, a.n(3), ma_type_of(a, 4, default))]
}

fn kdj<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let [k, d] = slow_stoch(a, 13);
    align_starts([k, d, 3.0 * k - 2.0 * d])
}

fn stochf<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let k = percent_k(a.bars.high(), a.bars.low(), a.bars.close(), a.n(0), 0.0);
    align_starts([k, ma(k, a.n(1), ma_type_of(a, 2, 0))])
}

fn stochrsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let rsi = rsi(a.source(), a.n(0));
    let k = percent_k(rsi, rsi, rsi, a.n(1), 0.0);
    align_starts([k, ma(k, a.n(2), ma_type_of(a, 3, 0))])
}

fn macdext<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let x = a.source();
    let mut means = [(a.n(0), ma_type_of(a, 1, 0)), (a.n(2), ma_type_of(a, 3, 0))];
    means.sort_by_key(|(n, _)| *n);
    let first = means.iter().map(|(n, kind)| ma(x, *n, *kind).start()).max().unwrap_or(0);
    let [fast, slow] = means.map(|(n, kind)| ma_from(x, n, kind, first));
    let line = fast - slow;
    with_signal(line, ma(line, a.n(4), ma_type_of(a, 5, 0)))
}

/// Fast and slow moving average of the same type.
fn two_means<'g>(a: &BuildArgs<'g, '_>, x: Expr<'g>) -> [Expr<'g>; 2] {
    let (fast, slow) = ordered(a.n(0), a.n(1));
    [fast, slow].map(|n| ma(x, n, ma_type_of(a, 2, 1)))
}

/// Percentage oscillator: fast minus slow moving average in percent of the slow one; 0 where that is 0.
fn percent_oscillator<'g>(a: &BuildArgs<'g, '_>, x: Expr<'g>) -> Vec<Expr<'g>> {
    let [fast, slow] = two_means(a, x);
    // Finite-window averages are 0 where their window is all 0, despite the rounding residue of a rolling sum.
    let finite_window = [0, 2, 5, 9].contains(&ma_type_of(a, 2, 1));
    let window = slow.start() - x.start() + 1;
    let small = slow.abs().lt(1e-14);
    let idle = if finite_window { small.or(x.all_zero(window)) } else { small };
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

pub(in crate::catalogue) const CLASSIC: &[Indicator] = &[
    Indicator {
        name: "rsi",
        aliases: &["RSI"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Relative strength index (RSI): gains as a fraction of gains plus losses, both smoothed by Wilder's \
              moving average of `period`, from 0 to 100. Seeded with the SMA of the first `period` changes. 50 \
              where nothing has moved.",
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
        doc: "Slow stochastic oscillator: position of the close between the lowest low and the highest high of \
              `fast_k` bars in percent, smoothed to %K, and that smoothed again to %D. 0 where there is no range.",
        build: |a| align_starts(slow_stoch(a, 0)),
        ..BASE
    },
    Indicator {
        name: "stochf",
        aliases: &["STOCHF"],
        params: &[int("fast_k", 5, 1, 100_000), int("fast_d", 3, 1, 100_000), ma_type("d_type", 0)],
        inputs: HLC,
        outputs: &["k", "d"],
        doc: "Fast stochastic oscillator: position of the close between the lowest low and the highest high of \
              `fast_k` bars in percent (%K), and its moving average (%D). 0 where there is no range.",
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
        doc: "Stochastic RSI: fast stochastic oscillator of the RSI of `period`: its position in its own range of \
              `fast_k` bars in percent, and the moving average of that. 0 where there is no range.",
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
        doc: "KDJ: slow stochastic oscillator smoothed by Wilder's moving average, and J = 3 K - 2 D. 0 where \
              there is no range.",
        build: kdj,
        ..BASE
    },
    Indicator {
        name: "macd",
        aliases: &["MACD"],
        params: &[int("fast", 12, 2, 100_000), int("slow", 26, 2, 100_000), int("signal", 9, 1, 100_000)],
        outputs: &["macd", "signal", "hist"],
        doc: "Moving average convergence/divergence (MACD): EMA of `fast` minus EMA of `slow`; the signal line is \
              its EMA of `signal`, the histogram the difference of both. Both EMAs start at the slow one's first \
              bar. Periods in the wrong order are swapped.",
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
        doc: "MACD with moving averages of any type. Both start at the bar where the longer one does; periods in \
              the wrong order are swapped, with their types.",
        build: macdext,
        ..BASE
    },
    Indicator {
        name: "apo",
        aliases: &["APO"],
        params: &[int("fast", 12, 2, 100_000), int("slow", 26, 2, 100_000), ma_type("ma_type", 1)],
        doc: "Absolute price oscillator (APO): a fast moving average minus a slow one; periods in the wrong order \
              are swapped.",
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
        doc: "Percentage price oscillator (PPO): a fast moving average minus a slow one, in percent of the slow \
              one; 0 where that is 0. Periods in the wrong order are swapped.",
        build: |a| percent_oscillator(a, a.source()),
        ..BASE
    },
    Indicator {
        name: "pvo",
        aliases: &["PVO"],
        params: &[int("fast", 12, 2, 100_000), int("slow", 26, 2, 100_000), ma_type("ma_type", 1)],
        inputs: &[Field::Volume],
        doc: "Percentage volume oscillator (PVO): a fast moving average of the volume minus a slow one, in percent \
              of the slow one; 0 where that is 0. Periods in the wrong order are swapped.",
        build: |a| percent_oscillator(a, a.source_or(Field::Volume)),
        ..BASE
    },
    Indicator {
        name: "macdfix",
        aliases: &["MACDFIX"],
        params: &[int("signal", 9, 1, 100_000)],
        outputs: &["macd", "signal", "hist"],
        doc: "MACD with the smoothing factors 0.15 and 0.075 of its inventor in place of periods; seeded like \
              MACD(12, 26).",
        build: macdfix,
        ..BASE
    },
    Indicator {
        name: "mom",
        aliases: &["MOM"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Momentum: the value minus the value `period` bars ago.",
        build: |a| vec![a.source() - a.source().shift(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "roc",
        aliases: &["ROC"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Rate of change (ROC) over `period` bars in percent: (x / x[period] - 1) * 100; 0 where the earlier \
              value is 0.",
        build: |a| vec![roc(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "rocp",
        aliases: &["ROCP"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Rate of change over `period` bars as a fraction: (x - x[period]) / x[period]; 0 where the earlier \
              value is 0.",
        build: |a| vec![(a.source() - a.source().shift(a.n(0))).div0(a.source().shift(a.n(0)))],
        ..BASE
    },
    Indicator {
        name: "rocr",
        aliases: &["ROCR"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Rate of change ratio: the value over the value `period` bars ago; 0 where that is 0.",
        build: |a| vec![a.source().div0(a.source().shift(a.n(0)))],
        ..BASE
    },
    Indicator {
        name: "rocr100",
        aliases: &["ROCR100"],
        params: &[int("period", 10, 1, 100_000)],
        doc: "Rate of change ratio, scaled by 100: the value over the value `period` bars ago, times 100; 0 where \
              that is 0.",
        build: |a| vec![a.source().div0(a.source().shift(a.n(0))) * 100.0],
        ..BASE
    },
];
