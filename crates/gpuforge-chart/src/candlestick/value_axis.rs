//! Value axis: padded range, ticks at 1-2-5 steps, number format with SI suffix or exponent. `chart.js` has the same
//! arithmetic.

/// Larger magnitudes count as missing: their differences would overflow.
const LARGEST: f64 = 1e300;
/// A range narrower than this fraction of its values is rounding noise.
const FLAT: f64 = 1e-14;
/// Padding above and below, as a fraction of the range.
const PADDING: f64 = 0.05;
/// From this magnitude on numbers get an SI suffix.
const SUFFIX_FROM: f64 = 1e5;
/// With more decimals a suffix no longer shortens a number.
const MAX_SUFFIX_DECIMALS: usize = 3;
/// With more decimals exponent notation is shorter.
const MAX_PLAIN_DECIMALS: usize = 6;
const SUFFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Finite and not too large to draw.
pub(super) fn drawable(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// Minimum and maximum of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Grid lines of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    pub(super) step: f64,
    pub(super) values: Vec<f64>,
}

impl Range {
    /// Minimum and maximum of the drawable values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Range> {
        let one = |v: f64| Range { low: v, high: v };
        values.into_iter().filter(|v| drawable(*v)).map(one).reduce(Range::union)
    }

    /// The smallest range that holds both.
    pub(super) fn union(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The largest absolute value.
    pub(super) fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// With padding at both ends; a range without extent gets some too.
    pub(super) fn padded(self) -> Range {
        let span = self.high - self.low;
        let padding = if span > self.magnitude() * FLAT {
            span * PADDING
        } else if self.magnitude() > 1.0 / LARGEST {
            self.magnitude() * PADDING
        } else {
            1.0
        };
        Range { low: self.low - padding, high: self.high + padding }
    }

    /// Normalised position: 0 at the low end, 1 at the high end, extrapolated beyond.
    pub(super) fn fraction(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// At most `max` round values inside, spaced by 1, 2 or 5 times a power of ten.
    pub(super) fn ticks(self, max: usize) -> Ticks {
        let raw = (self.high - self.low) / max.max(1) as f64;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
        // A tolerance, so that 0.3 / 3 is not above 0.1.
        let step = steps.into_iter().find(|s| *s >= raw * (1.0 - 1e-9)).unwrap_or(f64::NAN);
        if !step.is_normal() {
            return Ticks { step: 0.0, values: Vec::new() };
        }
        // 3 / 10 rounds to 0.3, 3 * 0.1 does not.
        let at = |n: f64| if step < 1.0 { n / (1.0 / step).round() } else { n * step };
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        let count = (last - first + 1.0).clamp(0.0, max as f64 + 1.0) as usize;
        Ticks { step, values: (0..count).map(|i| at(first + i as f64)).collect() }
    }
}

/// Number format of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NumberFormat {
    unit: f64,
    suffix: &'static str,
    decimals: usize,
    exponent: Option<i32>,
}

impl NumberFormat {
    /// The shortest format in which values of this magnitude that lie a step apart differ.
    pub(super) fn of(magnitude: f64, step: f64) -> NumberFormat {
        let plain = NumberFormat { unit: 1.0, suffix: "", decimals: decimals(step), exponent: None };
        let power = magnitude.log10().floor();
        let far = magnitude >= 1e15 || (plain.decimals > MAX_PLAIN_DECIMALS && magnitude < 1e-3);
        if far && power.is_finite() {
            let decimals = decimals(step / 10f64.powf(power));
            return NumberFormat {
                unit: 10f64.powf(power),
                suffix: "",
                decimals,
                exponent: Some(power as i32),
            };
        }
        let unit = SUFFIXES.iter().find(|(unit, _)| magnitude >= SUFFIX_FROM && magnitude >= *unit);
        let with = unit.map(|(unit, suffix)| NumberFormat {
            unit: *unit,
            suffix,
            decimals: decimals(step / unit),
            ..plain
        });
        with.filter(|f| f.decimals <= MAX_SUFFIX_DECIMALS).unwrap_or(plain)
    }

    /// Limits the decimals, where neither suffix nor exponent is used.
    pub(super) fn max_decimals(self, decimals: Option<usize>) -> NumberFormat {
        match decimals {
            Some(max) if self.unit == 1.0 => NumberFormat { decimals: self.decimals.min(max), ..self },
            _ => self,
        }
    }

    /// Formats a value.
    pub(super) fn text(&self, value: f64) -> String {
        let digits = format!("{:.*}", self.decimals, value / self.unit);
        // No negative zero.
        let unsigned = digits.strip_prefix('-').filter(|d| d.bytes().all(|b| matches!(b, b'0' | b'.')));
        let digits = unsigned.unwrap_or(&digits);
        match self.exponent {
            Some(_) if value == 0.0 => "0".to_owned(),
            Some(exponent) => format!("{digits}e{exponent}"),
            None => format!("{digits}{}", self.suffix),
        }
    }
}

/// Decimals that a step needs.
pub(super) fn decimals(step: f64) -> usize {
    if step > 0.0 { (-(step.log10() + 1e-9).floor()).clamp(0.0, 20.0) as usize } else { 0 }
}

/// Decimals that the values were given with (sampled); `None` for more than eight.
pub(super) fn decimals_of(values: &[f64]) -> Option<usize> {
    let skip = values.len() / 512 + 1;
    let exact = |v: &f64, decimals: usize| {
        let power = 10f64.powi(decimals as i32);
        (v * power).round() / power == *v
    };
    let of = |v: &f64| (0..=8).find(|p| exact(v, *p));
    let some = values.iter().step_by(skip).filter(|v| drawable(**v));
    some.map(of).try_fold(0, |max, one| Some(usize::max(max, one?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    fn labels(low: f64, high: f64, max: usize) -> Vec<String> {
        let ticks = range(low, high).ticks(max);
        let format = NumberFormat::of(range(low, high).magnitude(), ticks.step);
        ticks.values.iter().map(|v| format.text(*v)).collect()
    }

    #[test]
    fn ticks_are_at_1_2_5_steps() {
        assert_eq!(range(0.0, 1.0).ticks(5).values, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(range(-0.13, 0.31).ticks(5).values, [-0.1, 0.0, 0.1, 0.2, 0.3]);
        assert_eq!(range(97.0, 123.0).ticks(6).values, [100.0, 105.0, 110.0, 115.0, 120.0]);
        for max in 1..12 {
            for (low, high) in [(0.3, 17.0), (-5e-9, 3e-9), (1e12, 1e12 + 5.0), (-2e200, 3e200)] {
                let Ticks { step, values } = range(low, high).ticks(max);
                assert!(values.len() <= max + 1, "{low} {high} {max}: {values:?}");
                let digit = step / 10f64.powf(step.log10().floor() + 0.0);
                assert!([1.0, 2.0, 5.0, 10.0].iter().any(|d| (digit - d).abs() < 1e-6), "{step}");
                assert!(values.iter().all(|v| *v >= low - step * 1e-6 && *v <= high + step * 1e-6));
            }
        }
    }

    #[test]
    fn labels_are_short_and_distinct() {
        assert_eq!(labels(0.0, 1.0, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(-0.1, 0.1, 2), ["-0.1", "0.0", "0.1"]);
        assert_eq!(labels(0.0, 4e6, 4), ["0M", "1M", "2M", "3M", "4M"]);
        assert_eq!(labels(64_000.0, 66_000.0, 4), ["64000", "64500", "65000", "65500", "66000"]);
        assert_eq!(labels(1e12, 1e12 + 2.0, 2), ["1000000000000", "1000000000001", "1000000000002"]);
        assert_eq!(labels(1e-9, 3e-9, 2), ["1e-9", "2e-9", "3e-9"]);
        assert_eq!(labels(-3e20, 3e20, 3), ["-2e20", "0", "2e20"]);
        for (low, high) in [(1e-12, 7e-12), (-5.0, 5.0), (1e14, 1.001e14), (99.0, 99.000_01), (1e5, 1.1e5)] {
            let all = labels(low, high, 6);
            let mut distinct = all.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), all.len(), "{all:?}");
            assert!(all.len() >= 2, "{all:?}");
        }
    }

    #[test]
    fn range_without_extent_is_padded() {
        for v in [0.0, 5.0, -5.0, 1e12, 1e-9, 1e300, 5e-324] {
            let padded = range(v, v).padded();
            assert!(padded.low < v && v < padded.high, "{padded:?}");
            assert!((padded.fraction(v) - 0.5).abs() < 1e-6);
        }
        let noise = range(100.0, 100.0 + 2e-14).padded();
        assert!(noise.high - noise.low > 1.0, "rounding noise: {noise:?}");
        assert_eq!(Range::of([f64::NAN, f64::INFINITY, 1e301]), None);
        assert_eq!(Range::of([f64::NAN, 2.0, -1.0]), Some(range(-1.0, 2.0)));
    }

    #[test]
    fn decimals_of_prices_are_detected() {
        assert_eq!(decimals_of(&[1.25, 3.0, f64::NAN]), Some(2));
        assert_eq!(decimals_of(&[]), Some(0));
        assert_eq!(decimals_of(&[1.0 / 3.0]), None);
        assert_eq!(NumberFormat::of(100.0, 0.001).max_decimals(Some(2)).text(99.125), "99.12");
        assert_eq!(NumberFormat::of(100.0, 1.0).text(-0.2), "0");
    }
}
