//! Random datasets: walks, ticks, constants, halts, gaps, NaN, infinities, extreme magnitudes, ragged lengths.

use gpuforge::indicators::exec::Series;

use crate::random::Rng;

/// Shape of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A random walk in cents.
    Walk,
    /// A walk in integer ticks, exact in f32.
    Ticks,
    /// Every bar the same.
    Constant,
    /// Always up by the same step.
    Monotone,
    /// A trading halt for a third of the bars.
    Halt,
    /// Jumps to three times as much and back.
    Gaps,
    /// A walk without volume.
    NoVolume,
    /// Moves that are a millionth of the price.
    HighLevel,
    /// Some values are NaN.
    Nan,
    /// A run of bars is NaN.
    NanRun,
    /// All values are NaN.
    AllNan,
    /// Some values are infinite.
    Infinite,
    /// Prices around 1e300.
    Huge,
    /// Prices around 1e-300.
    Tiny,
    /// Prices around 0, also negative.
    Negative,
    /// High below low, close outside of both.
    Inconsistent,
}

/// Shapes with their probability in percent.
const SHAPES: [(Shape, usize); 16] = [
    (Shape::Walk, 34),
    (Shape::Ticks, 12),
    (Shape::Constant, 4),
    (Shape::Monotone, 4),
    (Shape::Halt, 6),
    (Shape::Gaps, 5),
    (Shape::NoVolume, 3),
    (Shape::HighLevel, 4),
    (Shape::Nan, 8),
    (Shape::NanRun, 4),
    (Shape::AllNan, 1),
    (Shape::Infinite, 4),
    (Shape::Huge, 3),
    (Shape::Tiny, 3),
    (Shape::Negative, 3),
    (Shape::Inconsistent, 2),
];

/// Recipe of a series; small, so that it can be shrunk and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesSpec {
    /// Shape.
    pub shape: Shape,
    /// Number of bars.
    pub bars: usize,
    /// Seed.
    pub seed: u64,
}

/// Bars of one series.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Open, high, low, close, volume.
    pub prices: [Vec<f64>; 5],
    /// Seconds since the epoch.
    pub time: Vec<f64>,
}

impl Columns {
    /// Borrowed, as the engine takes them.
    pub fn series(&self) -> Series<'_> {
        self.between(0, self.time.len())
    }

    /// Slice of bars.
    pub fn between(&self, from: usize, to: usize) -> Series<'_> {
        fn part(column: &[f64], from: usize, to: usize) -> &[f64] {
            column.get(from.min(column.len())..to.min(column.len())).unwrap_or(&[])
        }
        let [open, high, low, close, volume] = self.prices.each_ref().map(|column| part(column, from, to));
        Series { open, high, low, close, volume, time: part(&self.time, from, to) }
    }

    /// Number of bars.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
}

/// Several series.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Recipes of the series.
    pub specs: Vec<SeriesSpec>,
    /// Their bars.
    pub series: Vec<Columns>,
}

impl Dataset {
    /// From what they are made of.
    pub fn of(specs: Vec<SeriesSpec>) -> Dataset {
        let series = specs.iter().map(make).collect();
        Dataset { specs, series }
    }

    /// At most `max_bars` bars in total.
    pub fn random(rng: &mut Rng, max_bars: usize) -> Dataset {
        Dataset::of(random_specs(rng, max_bars, None))
    }

    /// The same, all of one shape.
    pub fn random_of(rng: &mut Rng, max_bars: usize, shape: Shape) -> Dataset {
        Dataset::of(random_specs(rng, max_bars, Some(shape)))
    }

    /// Borrowed, as the engine takes them.
    pub fn as_series(&self) -> Vec<Series<'_>> {
        self.series.iter().map(Columns::series).collect()
    }

    /// All bars.
    pub fn bars(&self) -> usize {
        self.specs.iter().map(|s| s.bars).sum()
    }
}

fn random_specs(rng: &mut Rng, max_bars: usize, only: Option<Shape>) -> Vec<SeriesSpec> {
    let symbols = match rng.below(100) {
        0..60 => 1,
        60..86 => rng.between(2, 9),
        _ => rng.between(10, 40),
    };
    let longest = rng.log_between(1, (max_bars / symbols).max(1));
    let ragged = rng.percent(50);
    let one = |_| {
        let bars = if ragged { rng.between(longest / 4, longest) } else { longest };
        let shape = only.unwrap_or_else(|| shape(rng.below(100)));
        SeriesSpec { shape, bars, seed: rng.next() }
    };
    (0..symbols).map(one).collect()
}

fn shape(mut at: usize) -> Shape {
    for (shape, share) in SHAPES {
        if at < share {
            return shape;
        }
        at -= share;
    }
    Shape::Walk
}

/// One bar: open, high, low, close, volume.
type Bar = [f64; 5];

fn make(spec: &SeriesSpec) -> Columns {
    let mut rng = Rng::new(spec.seed);
    let mut columns = Columns::default();
    let step = rng.pick(&[60.0, 60.0, 300.0, 3600.0, 86_400.0]).unwrap_or(60.0);
    let (mut time, mut last) = (1_700_000_000.0, 100.0);
    let mut factor = 1.0;
    for t in 0..spec.bars {
        let bar =
            distort(spec, t, walk(&mut rng, &mut last, spec.shape == Shape::Ticks), &mut rng, &mut factor);
        columns.prices.iter_mut().zip(bar).for_each(|(column, x)| column.push(x));
        columns.time.push(time);
        time += if rng.percent(2) { 7.0 * step } else { step };
    }
    columns
}

/// The next bar of a random walk.
fn walk(rng: &mut Rng, last: &mut f64, ticks: bool) -> Bar {
    let cents = |x: f64| if ticks { x.round() } else { (x * 100.0).round() / 100.0 };
    let scale = if ticks { 100.0 } else { 1.0 };
    let from = if ticks && *last < 1000.0 { 10_000.0 } else { *last };
    let open = cents((from + (rng.unit() - 0.5) * 0.4 * scale).max(scale));
    let close = cents((open + (rng.unit() - 0.5) * 2.0 * scale).max(scale));
    let high = cents(open.max(close) + rng.unit() * 0.7 * scale);
    let low = cents((open.min(close) - rng.unit() * 0.7 * scale).max(0.5));
    *last = close;
    let volume = if rng.percent(1) { 0.0 } else { (rng.unit() * 10_000.0).floor() };
    [open, high, low, close, volume]
}

/// Turns a bar of a random walk into one of the shape.
fn distort(spec: &SeriesSpec, t: usize, mut bar: Bar, rng: &mut Rng, factor: &mut f64) -> Bar {
    let third = (spec.bars / 3).max(1);
    let scaled = |bar: Bar, by: f64| [bar[0] * by, bar[1] * by, bar[2] * by, bar[3] * by, bar[4]];
    match spec.shape {
        Shape::Walk | Shape::Ticks => {}
        Shape::Constant => bar = [50.0, 50.0, 50.0, 50.0, 1000.0],
        Shape::Monotone => {
            let close = 100.0 + 0.25 * t as f64;
            bar = [close - 0.125, close + 0.25, close - 0.75, close, 500.0 + t as f64];
        }
        Shape::Halt if (third..2 * third).contains(&t) => bar = [77.25, 77.25, 77.25, 77.25, 0.0],
        Shape::Gaps => {
            if rng.percent(2) {
                *factor = if *factor > 1.0 { 1.0 } else { 3.0 };
            }
            bar = scaled(bar, *factor);
        }
        Shape::NoVolume => bar[4] = 0.0,
        Shape::HighLevel => {
            bar = [bar[0] + 16_384.0, bar[1] + 16_384.0, bar[2] + 16_384.0, bar[3] + 16_384.0, bar[4]]
        }
        Shape::Nan if rng.percent(1) => {
            if let Some(x) = bar.get_mut(rng.below(5)) {
                *x = f64::NAN;
            }
        }
        Shape::NanRun if (third..third + 5).contains(&t) => bar = [f64::NAN; 5],
        Shape::AllNan => bar = [f64::NAN; 5],
        Shape::Infinite if rng.percent(1) => {
            let sign = if rng.percent(50) { 1.0 } else { -1.0 };
            if let Some(x) = bar.get_mut(rng.below(5)) {
                *x = sign * f64::INFINITY;
            }
        }
        Shape::Huge => bar = scaled(bar, 1e298),
        Shape::Tiny => bar = scaled(bar, 1e-302),
        Shape::Negative => bar = [bar[0] - 100.0, bar[1] - 100.0, bar[2] - 100.0, bar[3] - 100.0, bar[4]],
        Shape::Inconsistent if rng.percent(10) => bar.swap(1, 2),
        _ => {}
    }
    bar
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn shape_probabilities_sum_to_100_and_datasets_stay_within_their_size() {
        assert_eq!(SHAPES.iter().map(|(_, share)| share).sum::<usize>(), 100);
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let data = Dataset::random(&mut rng, 500);
            assert!(data.bars() <= 540 && (1..=40).contains(&data.series.len()), "{:?}", data.specs);
            assert!(data.series.iter().zip(&data.specs).all(|(s, spec)| s.len() == spec.bars));
        }
    }

    #[test]
    fn shapes_have_their_named_property() {
        let of = |shape| make(&SeriesSpec { shape, bars: 600, seed: 5 });
        assert!(of(Shape::Nan).prices.iter().any(|c| c.iter().any(|x| x.is_nan())));
        assert!(of(Shape::Infinite).prices.iter().any(|c| c.iter().any(|x| x.is_infinite())));
        assert!(of(Shape::AllNan).prices[3].iter().all(|x| x.is_nan()));
        assert!(of(Shape::Ticks).prices[3].iter().all(|x| x.fract() == 0.0));
        assert!(of(Shape::Huge).prices[3].iter().all(|x| *x > 1e298 && x.is_finite()));
        assert!(of(Shape::Walk).series().close == of(Shape::Walk).series().close);
    }
}
