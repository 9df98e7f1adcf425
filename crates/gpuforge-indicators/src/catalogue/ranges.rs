//! Value ranges of outputs (RSI 0 to 100, ...): one table, property-tested by `tests/ranges.rs`.
//!
//! A range assumes consistent bars: prices above 0, low <= open, close <= high, volume >= 0. A value outside its range means
//! that the bars are not.

use std::f64::consts::{FRAC_PI_2, PI};

use super::{Indicator, IndicatorKind, Param};

/// Closed interval that contains the values of an output; an infinite end is unbounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    /// Lower bound.
    pub min: f64,
    /// Upper bound.
    pub max: f64,
}

const fn range(min: f64, max: f64) -> ValueRange {
    ValueRange { min, max }
}

/// Rows (all of their outputs) and `row.output`s with this range, separated by spaces.
const RANGES: &[(ValueRange, &str)] = &[
    (
        range(0.0, 100.0),
        "adx adxr aroon choptr crsi dx fractal imi lrsi mfi minus_di percentrank plus_di po psl qqe.rsi rsi rsx rvi rvir stc stoch \
         stochf stochrsi kdj.k kdj.d ui ultosc",
    ),
    (range(-100.0, 100.0), "aroonosc cmo cmou dosc pfe smi tsi vzo"),
    (range(-100.0, 0.0), "willr"),
    (range(-200.0, 300.0), "kdj.j"),
    (range(0.0, 1.0), "drawdown.share er ibs vhf"),
    (
        range(0.0, 1.0),
        "amat aobv.long aobv.short ht_trendmode increasing long_run squeeze_pro.wide squeeze_pro.normal squeeze_pro.narrow \
         squeeze_pro.off squeeze_pro.none thermo.long thermo.short",
    ),
    (
        range(-1.0, 1.0),
        "bop cmf correl correlation_cycle.real correlation_cycle.imag cti ebsw ift_rsi pso rvgi spearman tmf",
    ),
    (
        range(-1.0, 1.0),
        "correlation_cycle.state hilo.trend pmax.trend qqe.trend smc_sweep supertrend.trend ttm_trend zigzag.trend",
    ),
    (range(-1.0, 1.0), "cos ht_sine msw sin tanh"),
    (range(-1.0, 3.0), "sqzmom.squeeze"),
    (range(1.0, 4.0), "pvr"),
    (range(0.0, 13.0), "td_seq"),
    (range(0.0, 50.0), "ht_dcperiod"),
    (range(-45.0, 315.0), "ht_dcphase"),
    (range(-180.0, 180.0), "correlation_cycle.angle"),
    (range(-90.0, 90.0), "linearreg_angle"),
    (range(0.0, PI), "acos"),
    (range(-FRAC_PI_2, FRAC_PI_2), "asin atan"),
    (range(1.0, f64::INFINITY), "cosh"),
    (range(-1.0, f64::INFINITY), "bias percent_return rocp support_resistance"),
    (range(-100.0, f64::INFINITY), "cvi ppo pvo roc vosc"),
    (
        range(0.0, f64::INFINITY),
        "aberration.atr adr atr avgdev bbw brar chop cpr.width donchian_width drawdown.drawdown drawdown.log entropy ewma_volatility \
         exp garman_klass hvol marketfi massi maxindex medium_ad minindex minmaxindex minus_dm natr nvi parkinson pdist plus_dm pvi \
         pvol rocr rocr100 rogers_satchell rvol sqrt stddev stderr sub thermo.mean thermo.thermo trange var vortex yang_zhang zigzag.bar",
    ),
];

/// Rows whose range assumes their default source, which is positive (of `sub`: ordered): unknown with another source.
const DEFAULT_SOURCE: &str =
    "bbw bias drawdown entropy percent_return ppo pvo roc rocp rocr rocr100 rvol sub ui vosc";

/// Moving average types that are convex combinations of their inputs, so that they do not overshoot: SMA, EMA, WMA, TRIMA, KAMA.
const CONVEX: [f64; 5] = [0.0, 1.0, 2.0, 5.0, 6.0];

/// Rows whose first value depends on the data (such as the end of a session), not only on the number of bars.
const DATA_DEPENDENT_START: &str = "avwap avwap_bands cpr pivot";

/// `row`, or `row.output`.
fn names(word: &str, row: &Indicator, output: usize) -> bool {
    match word.split_once('.') {
        None => word == row.name,
        Some((name, of)) => name == row.name && row.outputs.get(output) == Some(&of),
    }
}

pub(super) fn of(row: &Indicator, output: usize) -> Option<ValueRange> {
    let has = |words: &&str| words.split_whitespace().any(|word| names(word, row, output));
    let found = RANGES.iter().find(|(_, words)| has(words)).map(|(range, _)| *range);
    found.or((row.kind == IndicatorKind::Candlestick).then_some(range(-200.0, 200.0)))
}

/// Does the range of a row hold for these parameters, and for a source of any sign?
pub(super) fn holds(row: &Indicator, params: &[f64], sourced: bool) -> bool {
    let convex = |(p, x): (&Param, &f64)| !p.name.ends_with("_type") || CONVEX.contains(x);
    let needs_default = DEFAULT_SOURCE.split_whitespace().any(|name| name == row.name);
    row.params.iter().zip(params).all(convex) && !(sourced && needs_default)
}

pub(super) fn starts_late(row: &Indicator) -> bool {
    DATA_DEPENDENT_START.split_whitespace().any(|name| name == row.name)
}

impl ValueRange {
    /// Does it contain a value, with this relative tolerance for rounding? It contains NaN.
    pub fn contains(&self, x: f64, slack: f64) -> bool {
        let margin = slack * self.scale();
        !(x < self.min - margin || x > self.max + margin)
    }

    /// Scale of the tolerance: the larger finite end, at least 1.
    fn scale(&self) -> f64 {
        let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
        finite(self.min).max(finite(self.max)).max(1.0)
    }
}

impl std::fmt::Display for ValueRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rounds the bounds that are multiples of pi.
        let short = |x: f64| (x * 1e4).round() / 1e4;
        let (min, max) = (short(self.min), short(self.max));
        match (self.min.is_finite(), self.max.is_finite()) {
            (true, true) => write!(f, "{min} to {max}"),
            (true, false) => write!(f, "at least {min}"),
            (false, true) => write!(f, "at most {max}"),
            (false, false) => f.write_str("any"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every listed name is a row or one of its outputs, and none has two ranges.
    #[test]
    fn every_listed_name_is_a_row_and_listed_once() {
        let listed = RANGES.iter().flat_map(|(_, words)| words.split_whitespace());
        let mut seen = std::collections::HashSet::new();
        for word in
            listed.chain(DEFAULT_SOURCE.split_whitespace()).chain(DATA_DEPENDENT_START.split_whitespace())
        {
            let (name, output) = word.split_once('.').map_or((word, None), |(n, o)| (n, Some(o)));
            let row = super::super::all().find(|r| r.name == name);
            assert!(row.is_some_and(|r| output.is_none_or(|o| r.outputs.contains(&o))), "{word}");
        }
        for word in RANGES.iter().flat_map(|(_, words)| words.split_whitespace()) {
            assert!(seen.insert(word), "{word} twice");
        }
    }

    #[test]
    fn tolerance_covers_rounding_only() {
        let percent = range(0.0, 100.0);
        assert!(
            percent.contains(-1e-8, 1e-9)
                && percent.contains(100.0 + 1e-8, 1e-9)
                && percent.contains(f64::NAN, 0.0)
        );
        assert!(!percent.contains(-1e-6, 1e-9) && !percent.contains(f64::INFINITY, 1e-9));
        assert!(range(0.0, f64::INFINITY).contains(f64::INFINITY, 0.0));
        let texts = [range(0.0, 1.0), range(-1.0, f64::INFINITY), range(f64::NEG_INFINITY, 0.0)]
            .map(|r| r.to_string());
        assert_eq!(texts, ["0 to 1", "at least -1", "at most 0"]);
    }
}
