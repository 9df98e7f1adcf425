//! Downsampling to pixels: M4 for lines, OHLC aggregation for candles, sums for volume. Extremes are kept, nothing is
//! averaged.

use super::{OhlcView, value_axis::drawable};

/// One or more consecutive bars aggregated into a candle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candle {
    /// Its first bar.
    pub(super) from: usize,
    /// The bar after its last.
    pub(super) to: usize,
    /// The first open.
    pub(super) open: f64,
    /// The maximum.
    pub(super) high: f64,
    /// The minimum.
    pub(super) low: f64,
    /// The last close.
    pub(super) close: f64,
}

/// Minimum and maximum of consecutive bars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MinMax {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Bars per candle so that there are at most `max` candles.
pub(super) fn bars_per_candle(bars: usize, max: usize) -> usize {
    bars.div_ceil(max.max(1)).max(1)
}

/// The drawable values of bars `from..to`; fewer where the column is shorter.
fn drawable_values(values: &[f64], from: usize, to: usize) -> impl DoubleEndedIterator<Item = f64> {
    values.get(from..to.min(values.len())).unwrap_or_default().iter().copied().filter(|v| drawable(*v))
}

/// Every `per` bars as one candle; none for bars without any price.
pub(super) fn candles(bars: &OhlcView<'_>, per: usize) -> Vec<Candle> {
    let count = bars.len();
    let one = |from: usize| {
        let to = (from + per).min(count);
        let of = |values| drawable_values(values, from, to);
        let all = || of(bars.open).chain(of(bars.high)).chain(of(bars.low)).chain(of(bars.close));
        let (high, low) = (all().reduce(f64::max)?, all().reduce(f64::min)?);
        let close = of(bars.close).next_back().or(of(bars.open).next_back()).unwrap_or(low);
        let open = of(bars.open).next().unwrap_or(close);
        Some(Candle { from, to, open, high, low, close })
    };
    (0..count).step_by(per.max(1)).filter_map(one).collect()
}

/// The sum of every `per` values: volume adds up.
pub(super) fn sums(values: &[f64], per: usize) -> Vec<f64> {
    let sum =
        |from: usize| drawable_values(values, from, from + per).reduce(|a, b| a + b).unwrap_or(f64::NAN);
    (0..values.len()).step_by(per.max(1)).map(sum).collect()
}

/// Minimum and maximum of every `per` values.
pub(super) fn min_max(values: &[f64], per: usize) -> Vec<MinMax> {
    let one = |from: usize| {
        let to = (from + per).min(values.len());
        let (low, high) = (
            drawable_values(values, from, to).reduce(f64::min)?,
            drawable_values(values, from, to).reduce(f64::max)?,
        );
        Some(MinMax { from, to, low, high })
    };
    (0..values.len()).step_by(per.max(1)).filter_map(one).collect()
}

/// M4 bucket: first, minimum, maximum and last value of one pixel column. A line through these covers the same pixels as
/// one through all values (Jugel et al., 2014).
#[derive(Debug, Clone, Copy)]
struct M4Bucket {
    at: i64,
    first: (usize, f64),
    low: (usize, f64),
    high: (usize, f64),
    last: (usize, f64),
}

impl M4Bucket {
    fn new(at: i64, point: (usize, f64)) -> M4Bucket {
        M4Bucket { at, first: point, low: point, high: point, last: point }
    }

    fn add(&mut self, point: (usize, f64)) {
        if point.1 < self.low.1 {
            self.low = point;
        }
        if point.1 > self.high.1 {
            self.high = point;
        }
        self.last = point;
    }

    fn end(&self, line: &mut Vec<(usize, f64)>) {
        let mut points = [self.first, self.low, self.high, self.last];
        points.sort_by_key(|p| p.0);
        for point in points {
            if line.last() != Some(&point) {
                line.push(point);
            }
        }
    }
}

/// M4-downsampled polylines at `pixels` per bar. A missing value breaks the line where the gap is at least a pixel.
pub(super) fn m4_polylines(values: &[f64], pixels: f64) -> Vec<Vec<(usize, f64)>> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut open: Option<M4Bucket> = None;
    let mut missed = false;
    for (bar, value) in values.iter().enumerate() {
        if !drawable(*value) {
            missed = true;
            continue;
        }
        let (at, point) = ((bar as f64 * pixels) as i64, (bar, *value));
        let seen = |c: &M4Bucket| missed && (bar - c.last.0) as f64 * pixels >= 1.0;
        match &mut open {
            Some(column) if seen(column) => {
                column.end(&mut line);
                lines.push(std::mem::take(&mut line));
                *column = M4Bucket::new(at, point);
            }
            Some(column) if column.at == at => column.add(point),
            Some(column) => {
                column.end(&mut line);
                *column = M4Bucket::new(at, point);
            }
            None => open = Some(M4Bucket::new(at, point)),
        }
        missed = false;
    }
    if let Some(column) = open {
        column.end(&mut line);
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candlestick::time_axis::TimeAxis;

    const NAN: f64 = f64::NAN;

    #[test]
    fn candle_has_first_open_last_close_and_extremes() {
        let time = TimeAxis::Index;
        let bars = OhlcView {
            open: &[1.0, 2.0, 3.0, 4.0, NAN],
            high: &[5.0, 9.0, 6.0, 7.0, NAN],
            low: &[0.5, 1.5, 0.1, 3.0, NAN],
            close: &[2.0, 3.0, 4.0, NAN, NAN],
            ..OhlcView::new(&time)
        };
        let two = candles(&bars, 2);
        assert_eq!(two.len(), 2, "a bar without a price has no candle");
        assert_eq!(two[0], Candle { from: 0, to: 2, open: 1.0, high: 9.0, low: 0.5, close: 3.0 });
        assert_eq!(two[1], Candle { from: 2, to: 4, open: 3.0, high: 7.0, low: 0.1, close: 4.0 });
        assert_eq!(candles(&bars, 1).len(), 4);
        assert_eq!(candles(&OhlcView::new(&time), 1), []);
        let per = bars_per_candle;
        assert_eq!((per(10, 4), per(0, 4), per(4, 4), per(7, 0)), (3, 1, 1, 7));
        assert_eq!(sums(&[1.0, 2.0, NAN, 4.0, 5.0], 2), [3.0, 4.0, 5.0]);
    }

    #[test]
    fn lines_break_at_missing_values() {
        let values = [NAN, 1.0, 2.0, NAN, 3.0, f64::INFINITY, 4.0, 5.0];
        let found = m4_polylines(&values, 10.0);
        assert_eq!(found, [vec![(1, 1.0), (2, 2.0)], vec![(4, 3.0)], vec![(6, 4.0), (7, 5.0)]]);
        assert!(m4_polylines(&[NAN; 9], 1.0).is_empty() && m4_polylines(&[], 1.0).is_empty());
    }

    #[test]
    fn m4_keeps_extremes_and_visible_gaps() {
        let mut values: Vec<f64> = (0..100_000).map(|i| (f64::from(i) * 0.01).sin()).collect();
        values[50_001] = 40.0;
        values[50_002] = -40.0;
        let found = m4_polylines(&values, 0.01);
        assert_eq!(found.len(), 1);
        assert!(found[0].len() <= 4_000, "{}", found[0].len());
        assert!(found[0].contains(&(50_001, 40.0)) && found[0].contains(&(50_002, -40.0)));
        assert!(found[0].windows(2).all(|w| w[0].0 < w[1].0), "in order");
        // A gap of 20 pixels is seen, one of a twentieth is not.
        values[20_000..22_000].fill(NAN);
        values[70_000..70_005].fill(NAN);
        assert_eq!(m4_polylines(&values, 0.01).len(), 2);
        assert!(min_max(&values, 100).iter().any(|e| e.low == -40.0 && e.high == 40.0));
    }
}
