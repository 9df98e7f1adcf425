//! A scene as PNG: pixels, with the stroke font.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};

use super::{
    font,
    scene::{Anchor, Area, Item, Scene},
    theme::{Ink, Theme},
};
use crate::error::FrameError;

/// More pixels are refused: four bytes each.
const MOST: f64 = 1e8;
/// Larger sides are refused.
const LONGEST: f64 = 32_000.0;
/// Thickness of strokes as a share of the letters' size.
const THIN: f64 = 0.095;
const BOLD: f64 = 0.135;

/// Where it is painted.
struct Canvas {
    pixels: Pixmap,
    dark: bool,
    scale: Transform,
}

pub(super) fn write(scene: &Scene, theme: Theme, scale: f64) -> Result<Vec<u8>, FrameError> {
    let refuse = || {
        let text = format!("a picture of {} x {} at scale {scale} cannot be made", scene.width, scene.height);
        FrameError::Usage(format!(
            "{text}\n  hint: the sides must be 1 to {LONGEST}, together {MOST} pixels at most"
        ))
    };
    let (width, height) = ((scene.width * scale).round(), (scene.height * scale).round());
    let fits = |side: f64| (1.0..=LONGEST).contains(&side);
    if !fits(width) || !fits(height) || width * height > MOST {
        return Err(refuse());
    }
    let pixels = Pixmap::new(width as u32, height as u32).ok_or_else(refuse)?;
    let scale = Transform::from_scale(scale as f32, scale as f32);
    let mut canvas = Canvas { pixels, dark: theme == Theme::Dark, scale };
    for item in &scene.items {
        canvas.draw(item, None);
    }
    let failed = |e| FrameError::Usage(format!("cannot encode the picture: {e}"));
    opaque(canvas.pixels).encode_png().map_err(failed)
}

/// Everything stands on a background, so that rounding leaves no pixel transparent.
fn opaque(mut pixels: Pixmap) -> Pixmap {
    for pixel in pixels.data_mut().as_chunks_mut::<4>().0 {
        let [_, _, _, alpha] = pixel;
        *alpha = u8::MAX;
    }
    pixels
}

impl Canvas {
    fn paint(&self, ink: Ink) -> Paint<'static> {
        let [red, green, blue] = ink.rgb(self.dark);
        let mut paint = Paint::default();
        paint.set_color(Color::from_rgba8(red, green, blue, u8::MAX));
        paint
    }

    fn draw(&mut self, item: &Item, mask: Option<&Mask>) {
        match item {
            Item::Rects { areas, fill, edge } => {
                let mut path = PathBuilder::new();
                areas.iter().filter_map(rect).for_each(|r| path.push_rect(r));
                let path = path.finish();
                self.fill(path.as_ref(), *fill, mask);
                if let Some(ink) = edge {
                    // Flat areas have an edge too.
                    self.stroke(edges(areas), *ink, &Stroke { width: 1.0, ..Stroke::default() }, mask);
                }
            }
            Item::Lines { lines, ink, width, dash } => {
                let mut path = PathBuilder::new();
                lines.iter().for_each(|line| polyline(&mut path, line));
                let dash = dash.iter().map(|d| *d as f32).collect();
                let line_join = LineJoin::Round;
                let pen = Stroke {
                    width: *width as f32,
                    line_join,
                    dash: StrokeDash::new(dash, 0.0),
                    ..Stroke::default()
                };
                self.stroke(path.finish(), *ink, &pen, mask);
            }
            Item::Text { at, text, ink, size, anchor, bold } => {
                let back = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
                let x = at.0 - back * font::width(text, *size);
                let width = (size * if *bold { BOLD } else { THIN }) as f32;
                let (line_cap, line_join) = (LineCap::Round, LineJoin::Round);
                let pen = Stroke { width, line_cap, line_join, ..Stroke::default() };
                self.stroke(letters(text, *size, (x, at.1)), *ink, &pen, mask);
            }
            Item::Inside { area, items } => {
                let Some(mut inside) = Mask::new(self.pixels.width(), self.pixels.height()) else { return };
                let Some(rect) = rect(area) else { return };
                inside.fill_path(&PathBuilder::from_rect(rect), FillRule::Winding, true, self.scale);
                items.iter().for_each(|item| self.draw(item, Some(&inside)));
            }
        }
    }

    fn fill(&mut self, path: Option<&Path>, ink: Ink, mask: Option<&Mask>) {
        let paint = self.paint(ink);
        if let Some(path) = path {
            self.pixels.fill_path(path, &paint, FillRule::Winding, self.scale, mask);
        }
    }

    fn stroke(&mut self, path: Option<Path>, ink: Ink, pen: &Stroke, mask: Option<&Mask>) {
        let paint = self.paint(ink);
        if let Some(path) = path {
            self.pixels.stroke_path(&path, &paint, pen, self.scale, mask);
        }
    }
}

fn rect(area: &Area) -> Option<Rect> {
    Rect::from_xywh(area.x as f32, area.y as f32, area.width as f32, area.height as f32)
}

/// Lines around areas; those without height are a line.
fn edges(areas: &[Area]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for a in areas {
        let [left, top, right, bottom] = [a.x, a.y, a.right(), a.bottom()].map(|v| v as f32);
        path.move_to(left, top);
        path.line_to(right, top);
        if bottom > top {
            path.line_to(right, bottom);
            path.line_to(left, bottom);
            path.close();
        }
    }
    path.finish()
}

fn polyline(path: &mut PathBuilder, points: &[(f64, f64)]) {
    for (n, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if n == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
}

/// The strokes of a text.
fn letters(text: &str, size: f64, (x, y): (f64, f64)) -> Option<Path> {
    let mut path = PathBuilder::new();
    for stroke in font::outline(text, size) {
        let points: Vec<(f64, f64)> = stroke.points.iter().map(|p| (p.0 + x, p.1 + y)).collect();
        if stroke.smooth { spline(&mut path, &points) } else { polyline(&mut path, &points) }
    }
    path.finish()
}

/// A curve that begins at the first point, ends at the last, and is bent around those between; closed if they are one.
fn spline(path: &mut PathBuilder, points: &[(f64, f64)]) {
    let middle = |a: &(f64, f64), b: &(f64, f64)| (((a.0 + b.0) / 2.0) as f32, ((a.1 + b.1) / 2.0) as f32);
    let [first, .., last] = points else { return };
    let closed = first == last;
    let begin = match points {
        [a, b, ..] if closed => middle(a, b),
        _ => (first.0 as f32, first.1 as f32),
    };
    path.move_to(begin.0, begin.1);
    for (n, pair) in points.windows(2).enumerate().skip(1) {
        let [control, next] = pair else { continue };
        let ends = n + 2 == points.len() && !closed;
        let to = if ends { (next.0 as f32, next.1 as f32) } else { middle(control, next) };
        path.quad_to(control.0 as f32, control.1 as f32, to.0, to.1);
    }
    if closed {
        path.quad_to(last.0 as f32, last.1 as f32, begin.0, begin.1);
        path.close();
    }
}
