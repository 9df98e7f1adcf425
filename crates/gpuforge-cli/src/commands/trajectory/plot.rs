//! SVG plot of ball flights: side view and top view, with a shared scale unless a panel is clamped in height.

use gpuforge::{
    chart::{
        Scene, Theme, ThemeColor,
        scene::{Anchor, Item, Rect},
    },
    workloads::trajectory::FlightPoint,
};

/// Most flights in a plot; more are unreadable.
pub(crate) const MAX_FLIGHTS: usize = 100;
/// Pixels of the drawing, and of its frame.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;
const GAP: f64 = 56.0;
/// Largest and smallest height of a panel.
const MAX_HEIGHT: f64 = 420.0;
const MIN_HEIGHT: f64 = 90.0;

/// A view: `x` to the right, one of the other two axes upwards.
struct ViewPanel {
    area: Rect,
    title: &'static str,
    /// Metres at the lower edge, and pixels per metre.
    low: f64,
    scale: f64,
    axis: usize,
    /// In the top view, right of the target line is down.
    flipped: bool,
}

/// Plots the first flights.
pub(crate) fn svg(paths: &[Vec<FlightPoint>]) -> String {
    let paths = paths.get(..MAX_FLIGHTS.min(paths.len())).unwrap_or_default();
    let (min_x, max_x) = range(paths, 0);
    let scale = (WIDTH - LEFT - 24.0) / (max_x - min_x).max(1.0);
    let padded = |axis: usize, min_span: f64| {
        let (low, high) = range(paths, axis);
        let margin = (high - low).max(min_span) * 0.06;
        (low - margin, (high + margin).max(low + min_span))
    };
    let (low, high) = padded(1, 1.0);
    let height = |span: f64| (span * scale).clamp(MIN_HEIGHT, MAX_HEIGHT);
    let side = ViewPanel {
        area: Rect { x: LEFT, y: TOP, width: WIDTH - LEFT - 24.0, height: height(high - low.max(0.0)) },
        title: "from the side (m)",
        low: low.max(0.0),
        scale: height(high - low.max(0.0)) / (high - low.max(0.0)),
        axis: 1,
        flipped: false,
    };
    let (low, high) = padded(2, 4.0);
    let above = ViewPanel {
        area: Rect { y: side.area.bottom() + GAP, height: height(high - low), ..side.area },
        title: "from above, right of the target line downwards (m)",
        low,
        scale: height(high - low) / (high - low),
        axis: 2,
        flipped: true,
    };
    let mut items = Vec::new();
    for panel in [&side, &above] {
        panel.draw(paths, min_x, scale, &mut items);
    }
    let scene = Scene {
        width: WIDTH,
        height: above.area.bottom() + 36.0,
        title: "ball flights".to_owned(),
        description: format!("{} flights from the side and from above, up to {max_x:.0} m", paths.len()),
        items,
    };
    scene.svg(Theme::Auto)
}

/// Min and max of an axis over all paths, including zero.
fn range(paths: &[Vec<FlightPoint>], axis: usize) -> (f64, f64) {
    let values = paths.iter().flatten().filter_map(|p| p.position.get(axis)).filter(|v| v.is_finite());
    values.fold((0.0, 0.0), |(low, high), v| (f64::min(low, *v), f64::max(high, *v)))
}

/// Axis ticks: round values from `low` to `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = ((high - low) / 6.0).max(1e-6);
    let tens = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * tens).into_iter().find(|s| *s >= rough).unwrap_or(tens);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).take(20).map(|n| n as f64 * step).collect()
}

impl ViewPanel {
    fn y(&self, value: f64) -> f64 {
        let up = (value - self.low) * self.scale;
        if self.flipped { self.area.y + up } else { self.area.bottom() - up }
    }

    fn draw(&self, paths: &[Vec<FlightPoint>], min_x: f64, scale: f64, items: &mut Vec<Item>) {
        let x = |value: f64| self.area.x + (value - min_x) * scale;
        let label = |at: (f64, f64), text: String, anchor: Anchor| Item::Text {
            at,
            text,
            color: ThemeColor::Muted,
            size: 12.0,
            anchor,
            bold: false,
        };
        items.push(Item::Text {
            at: (self.area.x, self.area.y - 10.0),
            text: self.title.to_owned(),
            color: ThemeColor::Text,
            size: 13.0,
            anchor: Anchor::Start,
            bold: true,
        });
        let mut rules = Vec::new();
        for value in ticks(self.low, self.low + self.area.height / self.scale) {
            rules.push(vec![(self.area.x, self.y(value)), (self.area.right(), self.y(value))]);
            items.push(label((self.area.x - 8.0, self.y(value) + 4.0), number(value), Anchor::End));
        }
        for value in ticks(min_x, min_x + self.area.width / scale) {
            rules.push(vec![(x(value), self.area.y), (x(value), self.area.bottom())]);
            items.push(label((x(value), self.area.bottom() + 16.0), number(value), Anchor::Middle));
        }
        items.push(Item::Polylines { lines: rules, color: ThemeColor::Grid, width: 1.0, dash: &[] });
        let lines = paths.iter().enumerate().map(|(n, path)| {
            let at = |p: &FlightPoint| Some((x(*p.position.first()?), self.y(*p.position.get(self.axis)?)));
            let line = path.iter().filter_map(at).filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
            Item::Polylines { lines: vec![line], color: ThemeColor::Line(n % 8), width: 1.5, dash: &[] }
        });
        items.push(Item::Clip { rect: self.area, items: lines.collect() });
    }
}

fn number(value: f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 210.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(-3.0, 3.0), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
        assert!(ticks(0.0, 0.0).len() <= 1);
    }

    #[test]
    fn nothing_and_one_flight_can_be_drawn() {
        let point = |x: f64, y: f64| FlightPoint {
            time: 0.0,
            position: [x, y, x / 20.0],
            velocity: [0.0; 3],
            spin: 0.0,
        };
        let path = vec![point(0.0, 0.0), point(100.0, 25.0), point(200.0, 0.0)];
        for paths in [vec![], vec![path]] {
            let text = svg(&paths);
            assert!(
                text.starts_with("<svg") && text.contains("from above") && !text.contains("NaN"),
                "{text}"
            );
        }
    }
}
