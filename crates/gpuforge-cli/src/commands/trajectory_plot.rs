//! How do flights look? From the side and from above, one scale for all four axes but the heights of the panels.

use gpuforge::{
    frame::chart::{
        Ink, Scene, Theme,
        scene::{Anchor, Area, Item},
    },
    workloads::trajectory::Point,
};

/// The most flights that are drawn: more are one blot.
pub(crate) const MOST: usize = 100;
/// Pixels of the drawing, and of its frame.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;
const GAP: f64 = 56.0;
/// Panels are at most and at least so high.
const HIGHEST: f64 = 420.0;
const LOWEST: f64 = 90.0;

/// A panel: `x` to the right, one of the other two upwards.
struct Panel {
    area: Area,
    title: &'static str,
    /// Metres at the lower edge, and pixels per metre.
    low: f64,
    scale: f64,
    axis: usize,
    /// To the right is down where one looks from above.
    flipped: bool,
}

/// Draws the first flights.
pub(crate) fn svg(paths: &[Vec<Point>]) -> String {
    let paths = paths.get(..MOST.min(paths.len())).unwrap_or_default();
    let (least_x, most_x) = reach(paths, 0);
    let scale = (WIDTH - LEFT - 24.0) / (most_x - least_x).max(1.0);
    let across = |axis: usize, least: f64| {
        let (low, high) = reach(paths, axis);
        let room = (high - low).max(least) * 0.06;
        (low - room, (high + room).max(low + least))
    };
    let (low, high) = across(1, 1.0);
    let height = |span: f64| (span * scale).clamp(LOWEST, HIGHEST);
    let side = Panel {
        area: Area { x: LEFT, y: TOP, width: WIDTH - LEFT - 24.0, height: height(high - low.max(0.0)) },
        title: "from the side (m)",
        low: low.max(0.0),
        scale: height(high - low.max(0.0)) / (high - low.max(0.0)),
        axis: 1,
        flipped: false,
    };
    let (low, high) = across(2, 4.0);
    let above = Panel {
        area: Area { y: side.area.bottom() + GAP, height: height(high - low), ..side.area },
        title: "from above, right of the target line downwards (m)",
        low,
        scale: height(high - low) / (high - low),
        axis: 2,
        flipped: true,
    };
    let mut items = Vec::new();
    for panel in [&side, &above] {
        panel.draw(paths, least_x, scale, &mut items);
    }
    let scene = Scene {
        width: WIDTH,
        height: above.area.bottom() + 36.0,
        title: "ball flights".to_owned(),
        says: format!("{} flights from the side and from above, up to {most_x:.0} m", paths.len()),
        items,
    };
    scene.svg(Theme::Auto)
}

/// Least and greatest value of an axis over all paths, zero among them.
fn reach(paths: &[Vec<Point>], axis: usize) -> (f64, f64) {
    let values = paths.iter().flatten().filter_map(|p| p.place.get(axis)).filter(|v| v.is_finite());
    values.fold((0.0, 0.0), |(low, high), v| (f64::min(low, *v), f64::max(high, *v)))
}

/// Round values from `low` to `high`, a handful.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = ((high - low) / 6.0).max(1e-6);
    let tens = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * tens).into_iter().find(|s| *s >= rough).unwrap_or(tens);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).take(20).map(|n| n as f64 * step).collect()
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        let up = (value - self.low) * self.scale;
        if self.flipped { self.area.y + up } else { self.area.bottom() - up }
    }

    fn draw(&self, paths: &[Vec<Point>], least_x: f64, scale: f64, items: &mut Vec<Item>) {
        let x = |value: f64| self.area.x + (value - least_x) * scale;
        let label = |at: (f64, f64), text: String, anchor: Anchor| Item::Text {
            at,
            text,
            ink: Ink::Soft,
            size: 12.0,
            anchor,
            bold: false,
        };
        items.push(Item::Text {
            at: (self.area.x, self.area.y - 10.0),
            text: self.title.to_owned(),
            ink: Ink::Text,
            size: 13.0,
            anchor: Anchor::Start,
            bold: true,
        });
        let mut rules = Vec::new();
        for value in ticks(self.low, self.low + self.area.height / self.scale) {
            rules.push(vec![(self.area.x, self.y(value)), (self.area.right(), self.y(value))]);
            items.push(label((self.area.x - 8.0, self.y(value) + 4.0), number(value), Anchor::End));
        }
        for value in ticks(least_x, least_x + self.area.width / scale) {
            rules.push(vec![(x(value), self.area.y), (x(value), self.area.bottom())]);
            items.push(label((x(value), self.area.bottom() + 16.0), number(value), Anchor::Middle));
        }
        items.push(Item::Lines { lines: rules, ink: Ink::Rule, width: 1.0, dash: &[] });
        let lines = paths.iter().enumerate().map(|(n, path)| {
            let at = |p: &Point| Some((x(*p.place.first()?), self.y(*p.place.get(self.axis)?)));
            let line = path.iter().filter_map(at).filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
            Item::Lines { lines: vec![line], ink: Ink::Line(n % 8), width: 1.5, dash: &[] }
        });
        items.push(Item::Inside { area: self.area, items: lines.collect() });
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
        let point =
            |x: f64, y: f64| Point { time: 0.0, place: [x, y, x / 20.0], velocity: [0.0; 3], spin: 0.0 };
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
