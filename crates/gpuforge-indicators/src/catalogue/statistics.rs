//! Rolling statistics: variance, correlation, linear regression, order statistics, moments, returns, drawdown.

use super::{
    Group, HIGH_LOW, Indicator, Oracle, int, real,
    volatility::{sample_variance, varies},
};
use crate::{
    graph::Expr,
    kernel::state_machine::{StateMachine, StateMachineDef},
};
use std::collections::VecDeque;

const BASE: Indicator = Indicator { group: Group::Statistics, ..Indicator::BASE };
/// Rows of two sources, by default the high and the low.
const PAIR: Indicator = Indicator { inputs: &HIGH_LOW, free_pair: true, ..BASE };

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "stddev",
        aliases: &["STDDEV", "stdev"],
        params: &[int("period", 5, 2, 100_000), real("times", 1.0, 0.0, 1e6)],
        doc: "Population standard deviation of the last `period` values, times a factor.",
        build: |a| vec![a.source().stddev(a.n(0)) * a.x(1)],
        ..BASE
    },
    Indicator {
        name: "var",
        aliases: &["VAR", "variance"],
        params: &[int("period", 5, 1, 100_000), real("times", 1.0, 0.0, 1e6)],
        doc: "Population variance of the last `period` values. The second parameter is ignored, as in TA-Lib.",
        build: |a| vec![a.source().variance(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "beta",
        aliases: &["BETA"],
        params: &[int("period", 5, 1, 100_000)],
        doc: "Beta: regression slope over the last `period` pairs of relative changes of two sources, those of \
              the second against those of the first; 0 where the changes of the first do not vary.",
        build: |a| {
            let [x, y] = a.sources_or(HIGH_LOW).map(|x| (x - x.shift(1)).div0(x.shift(1)));
            let n = a.n(0);
            vec![varies(x, n).select(x.co_moment(y, n).div0(x.co_moment(x, n)), 0.0)]
        },
        ..PAIR
    },
    Indicator {
        name: "correl",
        aliases: &["CORREL"],
        params: &[int("period", 30, 1, 100_000)],
        doc: "Pearson correlation coefficient of two sources over the last `period` bars, from -1 to 1; 0 where \
              one does not vary.",
        build: |a| {
            let [x, y] = a.sources_or(HIGH_LOW);
            vec![correlation(x, y, a.n(0))]
        },
        ..PAIR
    },
    Indicator {
        name: "linearreg",
        aliases: &["LINEARREG", "linreg"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Linear regression: end point of the least-squares line through the last `period` values.",
        build: |a| {
            let n = a.n(0);
            vec![a.source().sma(n) + slope(a.source(), n) * ((a.x(0) - 1.0) / 2.0)]
        },
        ..BASE
    },
    Indicator {
        name: "linearreg_slope",
        aliases: &["LINEARREG_SLOPE", "linregslope"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Linear regression slope, per bar, of the least-squares line through the last `period` values.",
        build: |a| vec![slope(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "linearreg_intercept",
        aliases: &["LINEARREG_INTERCEPT", "linregintercept"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Linear regression intercept: first point of the least-squares line through the last `period` values.",
        build: |a| {
            let n = a.n(0);
            vec![a.source().sma(n) - slope(a.source(), n) * ((a.x(0) - 1.0) / 2.0)]
        },
        ..BASE
    },
    Indicator {
        name: "linearreg_angle",
        aliases: &["LINEARREG_ANGLE", "linregangle"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Linear regression angle: slope of the least-squares line through the last `period` values, in degrees.",
        build: |a| vec![slope(a.source(), a.n(0)).atan() * (180.0 / std::f64::consts::PI)],
        ..BASE
    },
    Indicator {
        name: "tsf",
        aliases: &["TSF"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Time series forecast (TSF): the least-squares line through the last `period` values, extrapolated \
              one bar ahead.",
        build: |a| {
            let n = a.n(0);
            vec![a.source().sma(n) + slope(a.source(), n) * ((a.x(0) + 1.0) / 2.0)]
        },
        ..BASE
    },
    Indicator {
        name: "stderr",
        params: &[int("period", 14, 2, 100_000)],
        oracle: Oracle::Reference,
        doc: "Standard error of the mean: sample standard deviation of the last `period` values over sqrt(period).",
        build: |a| vec![sample_variance(a.source(), a.n(0)).sqrt() / a.x(0).sqrt()],
        ..BASE
    },
    Indicator {
        name: "median",
        aliases: &["MEDIAN"],
        params: &[int("period", 30, 2, 10_000)],
        doc: "Median of the last `period` values; the mean of the two middle values where `period` is even.",
        build: |a| vec![a.source().median(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "percentile",
        aliases: &["PERCENTILE", "quantile"],
        params: &[int("period", 30, 2, 10_000), real("percent", 50.0, 0.0, 100.0)],
        doc: "Nearest-rank percentile of the last `period` values: the ceil(percent * period / 100)-th smallest, \
              at least the first.",
        build: |a| {
            let rank = (a.x(1) * a.x(0) / 100.0).ceil().max(1.0) as usize;
            vec![a.source().order_statistic(a.n(0), rank - 1)]
        },
        ..BASE
    },
    Indicator {
        name: "percentrank",
        aliases: &["PERCENTRANK"],
        params: &[int("period", 100, 2, 10_000)],
        doc: "Percent rank: percentage of the `period` values before this one that are less than it.",
        build: |a| vec![a.source().rank(a.n(0), false) / a.x(0) * 100.0],
        ..BASE
    },
    Indicator {
        name: "avgdev",
        aliases: &["AVGDEV", "mad"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Mean absolute deviation of the last `period` values from their mean.",
        build: |a| vec![a.source().mean_deviation(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "medium_ad",
        aliases: &["median_ad"],
        params: &[int("period", 5, 1, 10_000)],
        oracle: Oracle::Reference,
        doc: "Median absolute deviation: median distance of the last `period` values from their median; medians of \
              an even number are the mean of the two middle values.",
        build: |a| a.bars.state_machine(&MEDIAN_DEVIATION, &[a.x(0)], &[a.source()]),
        ..BASE
    },
    Indicator {
        name: "skew",
        params: &[int("period", 30, 3, 10_000)],
        oracle: Oracle::Reference,
        doc: "Sample skewness of the last `period` values: sqrt(n (n - 1)) / (n - 2) times the third central \
              moment over the second to the power 1.5; 0 where all are equal.",
        build: |a| {
            let (x, n) = (a.source(), a.x(0));
            let (second, third) = x.central_moments(a.n(0), 3);
            vec![third.div0(second * second.sqrt()) * ((n * (n - 1.0)).sqrt() / (n - 2.0))]
        },
        ..BASE
    },
    Indicator {
        name: "kurtosis",
        aliases: &["KURTOSIS"],
        params: &[int("period", 30, 4, 10_000)],
        doc: "Sample excess kurtosis (G2) of the last `period` values; NaN where all are equal, as in TA-Lib: 0 \
              would mean normally distributed.",
        build: |a| {
            let (x, n) = (a.source(), a.x(0));
            let (second, fourth) = x.central_moments(a.n(0), 4);
            let scale = (n - 1.0) / ((n - 2.0) * (n - 3.0));
            vec![(fourth / (second * second) * (n + 1.0) - 3.0 * (n - 1.0)) * scale]
        },
        ..BASE
    },
    Indicator {
        name: "zscore",
        params: &[int("period", 30, 2, 100_000), real("times", 1.0, 0.01, 1e3)],
        oracle: Oracle::Reference,
        doc: "Z-score: distance from the mean of the last `period` values in `times` sample standard deviations; 0 \
              where all are equal.",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            let score = (x - x.sma(n)).div0(sample_variance(x, n).sqrt() * a.x(1));
            vec![varies(x, n).select(score, 0.0)]
        },
        ..BASE
    },
    Indicator {
        name: "entropy",
        params: &[int("period", 10, 1, 100_000), real("base", 2.0, 1.01, 1e3)],
        oracle: Oracle::Reference,
        doc: "Entropy: sum over `period` bars of -p log(p) to the base, where p is each value's fraction of the \
              rolling sum of `period` values up to it (pandas-ta).",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            let share = x / x.sum(n);
            vec![(share * share.ln() * (-1.0 / a.x(1).ln())).sum(n)]
        },
        ..BASE
    },
    Indicator {
        name: "spearman",
        params: &[int("period", 30, 2, 10_000)],
        oracle: Oracle::Reference,
        doc: "Spearman's rank correlation of two sources over the last `period` bars: Pearson's of their ranks, \
              ties get the mean rank; 0 where one does not vary.",
        build: |a| a.bars.state_machine(&SPEARMAN, &[a.x(0)], &a.sources_or(HIGH_LOW)),
        ..PAIR
    },
    Indicator {
        name: "log_return",
        params: &[int("period", 1, 1, 100_000)],
        oracle: Oracle::Reference,
        doc: "Log return: ln(value / value of `period` bars ago).",
        build: |a| vec![(a.source() / a.source().shift(a.n(0))).ln()],
        ..BASE
    },
    Indicator {
        name: "percent_return",
        params: &[int("period", 1, 1, 100_000)],
        oracle: Oracle::Reference,
        doc: "Percent return: change over `period` bars as a fraction of the earlier value (0.01 is one percent); \
              0 where that is 0.",
        build: |a| {
            let before = a.source().shift(a.n(0));
            vec![(a.source() - before).div0(before)]
        },
        ..BASE
    },
    Indicator {
        name: "drawdown",
        outputs: &["drawdown", "share", "log"],
        oracle: Oracle::Reference,
        doc: "Drawdown from the running max: as a difference, as a fraction of the max (0 where that is 0), and as \
              a difference of logarithms.",
        build: |a| {
            let (x, top) = (a.source(), a.source().cummax());
            vec![top - x, (top - x).div0(top), top.ln() - x.ln()]
        },
        ..BASE
    },
    Indicator {
        name: "tos_stdevall",
        params: &[int("least", 2, 2, 100_000)],
        outputs: &["line", "lower1", "upper1", "lower2", "upper2", "lower3", "upper3"],
        oracle: Oracle::Reference,
        doc: "Standard deviation channel over the whole history: the end point of the least-squares line through \
              all values up to this bar, and that point minus and plus 1, 2 and 3 sample standard deviations of \
              the values. Valid from `least` values on. Each bar uses only the past: the thinkorswim study of the \
              same name draws the line of the last bar back over all of them.",
        build: |a| {
            let all = a.bars.state_machine(&EXPANDING_REGRESSION, &[a.x(0)], &[a.source()]);
            let [line, deviation] = all.as_slice() else { return all };
            let mut out = vec![*line];
            for times in [1.0, 2.0, 3.0] {
                out.extend([*line - *deviation * times, *line + *deviation * times]);
            }
            out
        },
        ..BASE
    },
];

/// Least-squares slope of the last `n` values: their co-moment with the bar index over that of the index, n (n^2 - 1) / 12.
fn slope(x: Expr<'_>, n: usize) -> Expr<'_> {
    let n_f = n as f64;
    x.time_moment(n) / (n_f * (n_f * n_f - 1.0) / 12.0)
}

fn correlation<'g>(x: Expr<'g>, y: Expr<'g>, n: usize) -> Expr<'g> {
    let r = x.co_moment(y, n).div0((x.co_moment(x, n) * y.co_moment(y, n)).sqrt());
    varies(x, n).and(varies(y, n)).select(r.max(-1.0).min(1.0), 0.0)
}

fn period(params: &[f64]) -> usize {
    params.first().map_or(1, |n| *n as usize)
}

/// Ring of the last values of a series.
#[derive(Clone)]
struct Window {
    period: usize,
    values: VecDeque<f64>,
    scratch: Vec<f64>,
}

impl Window {
    fn new(params: &[f64]) -> Self {
        Window { period: period(params), values: VecDeque::new(), scratch: Vec::new() }
    }

    fn push(&mut self, x: f64) {
        self.values.push_back(x);
        if self.values.len() > self.period {
            self.values.pop_front();
        }
    }

    /// Median of a function of the values.
    fn median(&mut self, f: impl Fn(f64) -> f64) -> f64 {
        self.scratch.clear();
        self.scratch.extend(self.values.iter().map(|x| f(*x)));
        self.scratch.sort_unstable_by(f64::total_cmp);
        let n = self.scratch.len();
        let at = |k: usize| self.scratch.get(k).copied().unwrap_or(f64::NAN);
        if n % 2 == 1 { at(n / 2) } else { (at((n / 2).saturating_sub(1)) + at(n / 2)) / 2.0 }
    }

    /// Mid-rank up to a constant: the number of smaller values, plus half of the equal ones.
    fn rank(&self, x: f64) -> f64 {
        let count = |f: &dyn Fn(f64) -> bool| self.values.iter().filter(|y| f(**y)).count() as f64;
        count(&|y| y < x) + count(&|y| y == x) / 2.0
    }
}

/// Median absolute deviation.
#[derive(Clone)]
struct MedianDeviation(Window);

static MEDIAN_DEVIATION: StateMachineDef =
    StateMachineDef::of::<MedianDeviation, 1, 1>("median deviation", |p| period(p) - 1);

impl StateMachine<1, 1> for MedianDeviation {
    fn new(params: &[f64]) -> Self {
        MedianDeviation(Window::new(params))
    }

    fn step(&mut self, [x]: [f64; 1]) -> [f64; 1] {
        self.0.push(x);
        if self.0.values.len() < self.0.period || self.0.values.iter().any(|x| x.is_nan()) {
            return [f64::NAN];
        }
        let middle = self.0.median(|x| x);
        [self.0.median(|x| (x - middle).abs())]
    }
}

/// Spearman rank correlation of two windows.
#[derive(Clone)]
struct Spearman(Window, Window);

static SPEARMAN: StateMachineDef = StateMachineDef::of::<Spearman, 2, 1>("spearman", |p| period(p) - 1);

impl StateMachine<2, 1> for Spearman {
    fn new(params: &[f64]) -> Self {
        Spearman(Window::new(params), Window::new(params))
    }

    fn step(&mut self, [x, y]: [f64; 2]) -> [f64; 1] {
        self.0.push(x);
        self.1.push(y);
        let all = self.0.values.iter().chain(&self.1.values);
        if self.0.values.len() < self.0.period || all.into_iter().any(|x| x.is_nan()) {
            return [f64::NAN];
        }
        // Ranks are multiples of one half and their mean is n/2, so that all sums are exact.
        let middle = self.0.period as f64 / 2.0;
        let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
        for (x, y) in self.0.values.iter().zip(&self.1.values) {
            let (dx, dy) = (self.0.rank(*x) - middle, self.1.rank(*y) - middle);
            xx += dx * dx;
            yy += dy * dy;
            xy += dx * dy;
        }
        [if xx * yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }]
    }
}

/// Expanding-window mean, sum of squares and regression slope by Welford updates, which do not cancel.
#[derive(Clone, Default)]
struct ExpandingRegression {
    count: f64,
    mean: f64,
    squares: f64,
    /// Co-moment of the values and the bar index.
    product: f64,
}

static EXPANDING_REGRESSION: StateMachineDef =
    StateMachineDef::of::<ExpandingRegression, 1, 2>("expanding regression", |p| period(p) - 1);

impl StateMachine<1, 2> for ExpandingRegression {
    fn new(_params: &[f64]) -> Self {
        ExpandingRegression::default()
    }

    #[inline(always)]
    fn step(&mut self, [x]: [f64; 1]) -> [f64; 2] {
        // The newest bar index is count / 2 above the mean of the indices before it, (count + 1) / 2.
        let ahead = (self.count + 1.0) / 2.0;
        self.count += 1.0;
        let n = self.count;
        let distance = x - self.mean;
        self.mean += distance / n;
        self.squares += distance * (x - self.mean);
        self.product += distance * ahead * (n - 1.0) / n;
        let slope = self.product / (n * (n * n - 1.0) / 12.0);
        [self.mean + slope * ((n - 1.0) / 2.0), (self.squares / (n - 1.0)).sqrt()]
    }
}
