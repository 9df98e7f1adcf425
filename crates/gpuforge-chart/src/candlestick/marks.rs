//! Marks: candles, volume bars, histograms, dots and lines as rectangles and polylines in pixels.

use super::{
    Mark,
    downsample::{self, Candle},
    pane::{PaneSeries, direction},
    value_axis::Range,
};
use crate::{
    scene::{Item, Point, Rect},
    theme::{LINE_COLORS, ThemeColor},
};

/// Minimum width of a candle with its gap, in pixels.
pub(super) const MIN_CANDLE_WIDTH: f64 = 4.0;
/// Maximum width of a candle.
const MAX_CANDLE_WIDTH: f64 = 25.0;
/// Stroke width of lines.
const LINE_WIDTH: f64 = 1.6;
/// Stroke width where bars are closer than a pixel.
const DENSE_LINE_WIDTH: f64 = 1.0;
/// Minimum width of a hollow body.
const MIN_HOLLOW_WIDTH: f64 = 3.0;
/// Half the size of a dot.
const DOT_RADIUS: f64 = 1.3;
/// Dash patterns: solid for the first eight lines, then these.
pub(super) const DASHES: [&[f64]; 3] = [&[], &[6.0, 3.0], &[1.5, 3.0]];

/// Data-to-pixel transform of a pane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PaneGeometry {
    pub(super) rect: Rect,
    pub(super) range: Range,
    pub(super) bars: usize,
    /// Bars per candle.
    pub(super) per: usize,
}

impl PaneGeometry {
    /// Pixels per bar.
    fn spacing(&self) -> f64 {
        self.rect.width / self.bars.max(1) as f64
    }

    /// x of a bar's centre.
    pub(super) fn x(&self, bar: f64) -> f64 {
        self.rect.x + (bar + 0.5) * self.spacing()
    }

    /// y of a value.
    pub(super) fn y(&self, value: f64) -> f64 {
        // Clamped: renderers need not handle huge coordinates.
        let fraction = self.range.fraction(value).clamp(-10.0, 10.0);
        self.rect.bottom() - fraction * self.rect.height
    }

    /// Pixel-aligned centre of aggregated bars, and a width of whole pixels around it.
    fn slot(&self, from: usize, to: usize, share: f64) -> (f64, f64) {
        let middle = self.x((from + to) as f64 / 2.0 - 0.5).floor() + 0.5;
        let wide = (self.spacing() * self.per as f64 * share).min(MAX_CANDLE_WIDTH).floor();
        // Odd, so that the edges are pixel-aligned too.
        let wide = if wide % 2.0 == 0.0 { wide - 1.0 } else { wide };
        (middle, wide.max(1.0))
    }
}

/// Draw commands of a series.
pub(super) fn draw(series: &PaneSeries<'_>, geometry: &PaneGeometry) -> Vec<Item> {
    match series {
        PaneSeries::Candles(bars) => candles(&downsample::candles(bars, geometry.per), geometry),
        PaneSeries::Volume(bars) => {
            let sums = downsample::sums(bars.volume, geometry.per);
            let candles = downsample::candles(bars, geometry.per);
            let mut rest = candles.iter().peekable();
            let of = |(n, sum): (usize, &f64)| {
                let (from, to) = (n * geometry.per, (n + 1) * geometry.per);
                let candle = rest.next_if(|c| c.from == from);
                let color = candle.map_or(ThemeColor::Up, |c| direction(c.open, c.close));
                (zero_bar(geometry, from, to.min(geometry.bars), 0.0, *sum), color)
            };
            let bars: Vec<(Rect, ThemeColor)> = sums.iter().enumerate().map(of).collect();
            by_direction(bars.into_iter().filter(|(a, _)| a.height.is_finite()))
        }
        PaneSeries::Column { values, mark: Mark::Histogram, .. } => {
            let min_max = downsample::min_max(values, geometry.per);
            let parts = min_max.iter().flat_map(|e| {
                let up =
                    (e.high > 0.0).then(|| (zero_bar(geometry, e.from, e.to, 0.0, e.high), ThemeColor::Up));
                let down =
                    (e.low < 0.0).then(|| (zero_bar(geometry, e.from, e.to, 0.0, e.low), ThemeColor::Down));
                up.into_iter().chain(down)
            });
            by_direction(parts)
        }
        PaneSeries::Column { values, mark: Mark::Dots, color, .. } => dots(values, *color, geometry),
        PaneSeries::Column { values, color, .. } => vec![line(values, *color, geometry)],
    }
}

/// Rectangle of a bar between two values.
fn zero_bar(geometry: &PaneGeometry, from: usize, to: usize, base: f64, value: f64) -> Rect {
    let wide = (geometry.spacing() * geometry.per as f64 * 0.7).min(MAX_CANDLE_WIDTH).floor().max(1.0);
    let left = (geometry.x((from + to) as f64 / 2.0 - 0.5) - wide / 2.0).round();
    let (a, b) = (geometry.y(base), geometry.y(value));
    // A nonzero value is at least one pixel high.
    let height = (a - b).abs().max(if value == base { 0.0 } else { 1.0 });
    Rect { x: left, y: if b <= a { a - height } else { a }, width: wide, height }
}

/// Rectangles grouped by colour.
fn by_direction(parts: impl Iterator<Item = (Rect, ThemeColor)>) -> Vec<Item> {
    let (down, up): (Vec<_>, Vec<_>) = parts.partition(|(_, color)| *color == ThemeColor::Down);
    let rects = |parts: Vec<(Rect, ThemeColor)>, fill| Item::Rects {
        rects: parts.into_iter().map(|p| p.0).collect(),
        fill,
        stroke: None,
    };
    vec![rects(up, ThemeColor::UpSoft), rects(down, ThemeColor::DownSoft)]
}

/// Wicks below bodies; up candles are hollow where they are wide enough.
fn candles(all: &[Candle], geometry: &PaneGeometry) -> Vec<Item> {
    let of = |color: ThemeColor| all.iter().filter(move |c| direction(c.open, c.close) == color);
    let wick = |c: &Candle| {
        let (x, _) = geometry.slot(c.from, c.to, 0.75);
        vec![(x, geometry.y(c.high)), (x, geometry.y(c.low))]
    };
    let wicks =
        |color| Item::Polylines { lines: of(color).map(wick).collect(), color, width: 1.0, dash: &[] };
    let hollow = geometry.slot(0, geometry.per, 0.75).1 >= MIN_HOLLOW_WIDTH;
    let body = |c: &Candle, inset: f64| {
        let (x, wide) = geometry.slot(c.from, c.to, 0.75);
        let (top, bottom) = (geometry.y(c.open.max(c.close)), geometry.y(c.open.min(c.close)));
        let height = (bottom - top).max(1.0);
        Rect {
            x: x - wide / 2.0 + inset,
            y: top + inset,
            width: wide - 2.0 * inset,
            height: (height - 2.0 * inset).max(0.0),
        }
    };
    let up = match hollow {
        true => Item::Rects {
            rects: of(ThemeColor::Up).map(|c| body(c, 0.5)).collect(),
            fill: ThemeColor::Background,
            stroke: Some(ThemeColor::Up),
        },
        false => Item::Rects {
            rects: of(ThemeColor::Up).map(|c| body(c, 0.0)).collect(),
            fill: ThemeColor::Up,
            stroke: None,
        },
    };
    let down = of(ThemeColor::Down).map(|c| body(c, 0.0)).collect();
    vec![
        wicks(ThemeColor::Up),
        wicks(ThemeColor::Down),
        up,
        Item::Rects { rects: down, fill: ThemeColor::Down, stroke: None },
    ]
}

fn line(values: &[f64], color: ThemeColor, geometry: &PaneGeometry) -> Item {
    let point = |(bar, value): &(usize, f64)| (geometry.x(*bar as f64), geometry.y(*value));
    let drawn = |points: Vec<(usize, f64)>| -> Vec<Point> {
        match points.as_slice() {
            // A single value is a short stroke.
            [one] => {
                let (x, y) = point(one);
                vec![(x - 1.0, y), (x + 1.0, y)]
            }
            all => all.iter().map(point).collect(),
        }
    };
    let lines = downsample::m4_polylines(values, geometry.spacing()).into_iter().map(drawn).collect();
    let width = if geometry.spacing() < 1.0 { DENSE_LINE_WIDTH } else { LINE_WIDTH };
    Item::Polylines { lines, color, width, dash: dash(color) }
}

/// Dash pattern of a line colour.
pub(super) fn dash(color: ThemeColor) -> &'static [f64] {
    match color {
        ThemeColor::Line(n) => DASHES.get(n / LINE_COLORS % DASHES.len()).copied().unwrap_or_default(),
        _ => &[],
    }
}

fn dots(values: &[f64], color: ThemeColor, geometry: &PaneGeometry) -> Vec<Item> {
    let half = (geometry.spacing() * 0.3).clamp(0.6, DOT_RADIUS);
    let dot = |(bar, value): (usize, f64)| {
        let (x, y) = (geometry.x(bar as f64), geometry.y(value));
        Rect { x: x - half, y: y - half, width: 2.0 * half, height: 2.0 * half }
    };
    let rects = downsample::m4_polylines(values, geometry.spacing()).into_iter().flatten().map(dot).collect();
    vec![Item::Rects { rects, fill: color, stroke: None }]
}
