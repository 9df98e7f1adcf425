//! Which values does an axis show, and how are they written? Ranges with room, ticks at 1-2-5 steps, numbers.

/// Larger values are taken as missing: their differences would overflow.
const LARGEST: f64 = 1e300;
/// A range narrower than this share of its values is rounding, not movement.
const FLAT: f64 = 1e-14;
/// Room above and below, as a share.
const ROOM: f64 = 0.05;
/// From here on numbers have a unit.
const UNITS_FROM: f64 = 1e5;
/// Digits after the point at which a unit no longer shortens a number.
const MOST_WITH_UNIT: usize = 3;
/// Digits after the point at which a power of ten is shorter.
const MOST_PLAIN: usize = 6;
const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Is there something to draw?
pub(super) fn drawable(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// Both ends of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Where an axis has lines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    pub(super) step: f64,
    pub(super) values: Vec<f64>,
}

impl Range {
    /// The ends of all values that can be drawn.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Range> {
        let one = |v: f64| Range { low: v, high: v };
        values.into_iter().filter(|v| drawable(*v)).map(one).reduce(Range::and)
    }

    /// A range that holds both.
    pub(super) fn and(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The largest distance from zero.
    pub(super) fn size(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// With room at both ends; a range without extent gets some.
    pub(super) fn roomy(self) -> Range {
        let span = self.high - self.low;
        let room = if span > self.size() * FLAT {
            span * ROOM
        } else if self.size() > 1.0 / LARGEST {
            self.size() * ROOM
        } else {
            1.0
        };
        Range { low: self.low - room, high: self.high + room }
    }

    /// 0 at the low end, 1 at the high end, and on beyond.
    pub(super) fn place(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// At most this many round values inside, evenly spaced by 1, 2 or 5 times a power of ten.
    pub(super) fn ticks(self, most: usize) -> Ticks {
        let raw = (self.high - self.low) / most.max(1) as f64;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
        // A hair less, so that 0.3 / 3 is not above 0.1.
        let step = steps.into_iter().find(|s| *s >= raw * (1.0 - 1e-9)).unwrap_or(f64::NAN);
        if !step.is_normal() {
            return Ticks { step: 0.0, values: Vec::new() };
        }
        // 3 / 10 is the nearest number to 0.3, and 3 * 0.1 is not.
        let at = |n: f64| if step < 1.0 { n / (1.0 / step).round() } else { n * step };
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        let count = (last - first + 1.0).clamp(0.0, most as f64 + 1.0) as usize;
        Ticks { step, values: (0..count).map(|i| at(first + i as f64)).collect() }
    }
}

/// How the numbers of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Format {
    unit: f64,
    suffix: &'static str,
    places: usize,
    exponent: Option<i32>,
}

impl Format {
    /// So that values of this size that lie a step apart differ.
    pub(super) fn of(size: f64, step: f64) -> Format {
        let plain = Format { unit: 1.0, suffix: "", places: places(step), exponent: None };
        let power = size.log10().floor();
        let far = size >= 1e15 || (plain.places > MOST_PLAIN && size < 1e-3);
        if far && power.is_finite() {
            let places = places(step / 10f64.powf(power));
            return Format { unit: 10f64.powf(power), suffix: "", places, exponent: Some(power as i32) };
        }
        let unit = UNITS.iter().find(|(unit, _)| size >= UNITS_FROM && size >= *unit);
        let with =
            unit.map(|(unit, suffix)| Format { unit: *unit, suffix, places: places(step / unit), ..plain });
        with.filter(|f| f.places <= MOST_WITH_UNIT).unwrap_or(plain)
    }

    /// With no more digits after the point than these, where neither unit nor power is used.
    pub(super) fn at_most(self, places: Option<usize>) -> Format {
        match places {
            Some(most) if self.unit == 1.0 => Format { places: self.places.min(most), ..self },
            _ => self,
        }
    }

    /// A value in words.
    pub(super) fn text(&self, value: f64) -> String {
        let digits = format!("{:.*}", self.places, value / self.unit);
        // Nothing is not negative.
        let unsigned = digits.strip_prefix('-').filter(|d| d.bytes().all(|b| matches!(b, b'0' | b'.')));
        let digits = unsigned.unwrap_or(&digits);
        match self.exponent {
            Some(_) if value == 0.0 => "0".to_owned(),
            Some(exponent) => format!("{digits}e{exponent}"),
            None => format!("{digits}{}", self.suffix),
        }
    }
}

/// Digits after the point that a step needs.
pub(super) fn places(step: f64) -> usize {
    if step > 0.0 { (-(step.log10() + 1e-9).floor()).clamp(0.0, 20.0) as usize } else { 0 }
}

/// Digits after the point that values were given with; `None` for more than eight.
pub(super) fn given_places(values: &[f64]) -> Option<usize> {
    let skip = values.len() / 512 + 1;
    let exact = |v: &f64, places: usize| {
        let power = 10f64.powi(places as i32);
        (v * power).round() / power == *v
    };
    let of = |v: &f64| (0..=8).find(|p| exact(v, *p));
    let some = values.iter().step_by(skip).filter(|v| drawable(**v));
    some.map(of).try_fold(0, |most, one| Some(usize::max(most, one?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    fn labels(low: f64, high: f64, most: usize) -> Vec<String> {
        let ticks = range(low, high).ticks(most);
        let format = Format::of(range(low, high).size(), ticks.step);
        ticks.values.iter().map(|v| format.text(*v)).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(range(0.0, 1.0).ticks(5).values, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(range(-0.13, 0.31).ticks(5).values, [-0.1, 0.0, 0.1, 0.2, 0.3]);
        assert_eq!(range(97.0, 123.0).ticks(6).values, [100.0, 105.0, 110.0, 115.0, 120.0]);
        for most in 1..12 {
            for (low, high) in [(0.3, 17.0), (-5e-9, 3e-9), (1e12, 1e12 + 5.0), (-2e200, 3e200)] {
                let Ticks { step, values } = range(low, high).ticks(most);
                assert!(values.len() <= most + 1, "{low} {high} {most}: {values:?}");
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
    fn a_range_without_extent_gets_room() {
        for v in [0.0, 5.0, -5.0, 1e12, 1e-9, 1e300, 5e-324] {
            let roomy = range(v, v).roomy();
            assert!(roomy.low < v && v < roomy.high, "{roomy:?}");
            assert!((roomy.place(v) - 0.5).abs() < 1e-6);
        }
        let noise = range(100.0, 100.0 + 2e-14).roomy();
        assert!(noise.high - noise.low > 1.0, "rounding is not movement: {noise:?}");
        assert_eq!(Range::of([f64::NAN, f64::INFINITY, 1e301]), None);
        assert_eq!(Range::of([f64::NAN, 2.0, -1.0]), Some(range(-1.0, 2.0)));
    }

    #[test]
    fn digits_of_prices_are_seen() {
        assert_eq!(given_places(&[1.25, 3.0, f64::NAN]), Some(2));
        assert_eq!(given_places(&[]), Some(0));
        assert_eq!(given_places(&[1.0 / 3.0]), None);
        assert_eq!(Format::of(100.0, 0.001).at_most(Some(2)).text(99.125), "99.12");
        assert_eq!(Format::of(100.0, 1.0).text(-0.2), "0");
    }
}
