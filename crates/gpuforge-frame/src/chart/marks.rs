//! How does a series become rectangles and lines? Candles, volumes, columns.

use super::{
    Mark,
    axis::Range,
    pane::{Series, direction},
    scene::{Area, Item, Point},
    theme::{Ink, LINES},
    thin::{self, Candle},
};

/// The least room of a candle, in pixels.
pub(super) const CANDLE: f64 = 4.0;
/// A candle is not wider than this.
const WIDEST: f64 = 25.0;
/// Thickness of lines.
const PEN: f64 = 1.6;
/// Where bars are closer than a pixel.
const THIN_PEN: f64 = 1.0;
/// The least width of a hollow body.
const HOLLOW: f64 = 3.0;
/// Half the size of a dot.
const DOT: f64 = 1.3;
/// Solid for the first eight lines, then these.
pub(super) const DASHES: [&[f64]; 3] = [&[], &[6.0, 3.0], &[1.5, 3.0]];

/// Where a pane is and what its axis shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) area: Area,
    pub(super) range: Range,
    pub(super) bars: usize,
    /// How many bars are one.
    pub(super) per: usize,
}

impl Frame {
    /// Pixels per bar.
    fn spacing(&self) -> f64 {
        self.area.width / self.bars.max(1) as f64
    }

    /// The middle of a bar.
    pub(super) fn x(&self, bar: f64) -> f64 {
        self.area.x + (bar + 0.5) * self.spacing()
    }

    /// The height of a value.
    pub(super) fn y(&self, value: f64) -> f64 {
        // Far outside is outside; what draws it need not know numbers that large.
        let place = self.range.place(value).clamp(-10.0, 10.0);
        self.area.bottom() - place * self.area.height
    }

    /// The middle of several bars on a pixel, and a width of whole pixels around it.
    fn slot(&self, from: usize, to: usize, share: f64) -> (f64, f64) {
        let middle = self.x((from + to) as f64 / 2.0 - 0.5).floor() + 0.5;
        let wide = (self.spacing() * self.per as f64 * share).min(WIDEST).floor();
        // Odd, so that the edges fall between pixels too.
        let wide = if wide % 2.0 == 0.0 { wide - 1.0 } else { wide };
        (middle, wide.max(1.0))
    }
}

/// The look of a series.
pub(super) fn draw(series: &Series<'_>, frame: &Frame) -> Vec<Item> {
    match series {
        Series::Candles(bars) => candles(&thin::candles(bars, frame.per), frame),
        Series::Volume(bars) => {
            let sums = thin::sums(&bars.volume, frame.per);
            let candles = thin::candles(bars, frame.per);
            let mut rest = candles.iter().peekable();
            let of = |(n, sum): (usize, &f64)| {
                let (from, to) = (n * frame.per, (n + 1) * frame.per);
                let candle = rest.next_if(|c| c.from == from);
                let ink = candle.map_or(Ink::Up, |c| direction(c.open, c.close));
                (stand(frame, from, to.min(frame.bars), 0.0, *sum), ink)
            };
            let bars: Vec<(Area, Ink)> = sums.iter().enumerate().map(of).collect();
            coloured(bars.into_iter().filter(|(a, _)| a.height.is_finite()))
        }
        Series::Column { values, mark: Mark::Histogram, .. } => {
            let extents = thin::extents(values, frame.per);
            let parts = extents.iter().flat_map(|e| {
                let up = (e.high > 0.0).then(|| (stand(frame, e.from, e.to, 0.0, e.high), Ink::Up));
                let down = (e.low < 0.0).then(|| (stand(frame, e.from, e.to, 0.0, e.low), Ink::Down));
                up.into_iter().chain(down)
            });
            coloured(parts)
        }
        Series::Column { values, mark: Mark::Dots, ink, .. } => dots(values, *ink, frame),
        Series::Column { values, ink, .. } => vec![line(values, *ink, frame)],
    }
}

/// A bar between two values.
fn stand(frame: &Frame, from: usize, to: usize, foot: f64, head: f64) -> Area {
    let wide = (frame.spacing() * frame.per as f64 * 0.7).min(WIDEST).floor().max(1.0);
    let left = (frame.x((from + to) as f64 / 2.0 - 0.5) - wide / 2.0).round();
    let (a, b) = (frame.y(foot), frame.y(head));
    // A value that is not zero is seen.
    let height = (a - b).abs().max(if head == foot { 0.0 } else { 1.0 });
    Area { x: left, y: if b <= a { a - height } else { a }, width: wide, height }
}

/// Rectangles by direction.
fn coloured(parts: impl Iterator<Item = (Area, Ink)>) -> Vec<Item> {
    let (down, up): (Vec<_>, Vec<_>) = parts.partition(|(_, ink)| *ink == Ink::Down);
    let rects = |parts: Vec<(Area, Ink)>, fill| Item::Rects {
        areas: parts.into_iter().map(|p| p.0).collect(),
        fill,
        edge: None,
    };
    vec![rects(up, Ink::UpSoft), rects(down, Ink::DownSoft)]
}

/// Wicks below bodies; those that went up are hollow where there is room for it.
fn candles(all: &[Candle], frame: &Frame) -> Vec<Item> {
    let of = |ink: Ink| all.iter().filter(move |c| direction(c.open, c.close) == ink);
    let wick = |c: &Candle| {
        let (x, _) = frame.slot(c.from, c.to, 0.75);
        vec![(x, frame.y(c.high)), (x, frame.y(c.low))]
    };
    let wicks = |ink| Item::Lines { lines: of(ink).map(wick).collect(), ink, width: 1.0, dash: &[] };
    let hollow = frame.slot(0, frame.per, 0.75).1 >= HOLLOW;
    let body = |c: &Candle, inset: f64| {
        let (x, wide) = frame.slot(c.from, c.to, 0.75);
        let (top, bottom) = (frame.y(c.open.max(c.close)), frame.y(c.open.min(c.close)));
        let height = (bottom - top).max(1.0);
        Area {
            x: x - wide / 2.0 + inset,
            y: top + inset,
            width: wide - 2.0 * inset,
            height: (height - 2.0 * inset).max(0.0),
        }
    };
    let up = match hollow {
        true => Item::Rects {
            areas: of(Ink::Up).map(|c| body(c, 0.5)).collect(),
            fill: Ink::Back,
            edge: Some(Ink::Up),
        },
        false => {
            Item::Rects { areas: of(Ink::Up).map(|c| body(c, 0.0)).collect(), fill: Ink::Up, edge: None }
        }
    };
    let down = of(Ink::Down).map(|c| body(c, 0.0)).collect();
    vec![wicks(Ink::Up), wicks(Ink::Down), up, Item::Rects { areas: down, fill: Ink::Down, edge: None }]
}

fn line(values: &[f64], ink: Ink, frame: &Frame) -> Item {
    let point = |(bar, value): &(usize, f64)| (frame.x(*bar as f64), frame.y(*value));
    let drawn = |points: Vec<(usize, f64)>| -> Vec<Point> {
        match points.as_slice() {
            // A value alone is a short stroke: a line needs two ends.
            [one] => {
                let (x, y) = point(one);
                vec![(x - 1.0, y), (x + 1.0, y)]
            }
            all => all.iter().map(point).collect(),
        }
    };
    let lines = thin::lines(values, frame.spacing()).into_iter().map(drawn).collect();
    let width = if frame.spacing() < 1.0 { THIN_PEN } else { PEN };
    Item::Lines { lines, ink, width, dash: dash(ink) }
}

/// The dashes of a line.
pub(super) fn dash(ink: Ink) -> &'static [f64] {
    match ink {
        Ink::Line(n) => DASHES.get(n / LINES % DASHES.len()).copied().unwrap_or_default(),
        _ => &[],
    }
}

fn dots(values: &[f64], ink: Ink, frame: &Frame) -> Vec<Item> {
    let half = (frame.spacing() * 0.3).clamp(0.6, DOT);
    let dot = |(bar, value): (usize, f64)| {
        let (x, y) = (frame.x(bar as f64), frame.y(value));
        Area { x: x - half, y: y - half, width: 2.0 * half, height: 2.0 * half }
    };
    let areas = thin::lines(values, frame.spacing()).into_iter().flatten().map(dot).collect();
    vec![Item::Rects { areas, fill: ink, edge: None }]
}
