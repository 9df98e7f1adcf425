//! PNG renderer of a scene: rasterised by tiny-skia, text by the stroke font.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, Rect as SkiaRect, Stroke,
    StrokeDash, Transform,
};

use super::{Anchor, Item, Rect, Scene};
use crate::{
    error::ChartError,
    stroke_font,
    theme::{Theme, ThemeColor},
};

/// Largest number of pixels: four bytes each.
const MAX_PIXELS: f64 = 1e8;
/// Longest side in pixels.
const MAX_SIDE: f64 = 32_000.0;
/// Stroke width of text as a fraction of the font size.
const REGULAR_WEIGHT: f64 = 0.095;
const BOLD_WEIGHT: f64 = 0.135;

struct Canvas {
    pixels: Pixmap,
    dark: bool,
    scale: Transform,
}

pub(crate) fn render(scene: &Scene, theme: Theme, scale: f64) -> Result<Vec<u8>, ChartError> {
    let refuse = || {
        let hint = format!("the sides must be 1 to {MAX_SIDE}, together {MAX_PIXELS} pixels at most");
        ChartError::Size { width: scene.width, height: scene.height, scale, hint }
    };
    let (width, height) = ((scene.width * scale).round(), (scene.height * scale).round());
    let fits = |side: f64| (1.0..=MAX_SIDE).contains(&side);
    if !fits(width) || !fits(height) || width * height > MAX_PIXELS {
        return Err(refuse());
    }
    let pixels = Pixmap::new(width as u32, height as u32).ok_or_else(refuse)?;
    let scale = Transform::from_scale(scale as f32, scale as f32);
    let mut canvas = Canvas { pixels, dark: theme == Theme::Dark, scale };
    for item in &scene.items {
        canvas.draw(item, None);
    }
    opaque(canvas.pixels).encode_png().map_err(|e| ChartError::Encode(e.to_string()))
}

/// Sets alpha to opaque: the background covers everything, and antialiasing leaves rounding errors in alpha.
fn opaque(mut pixels: Pixmap) -> Pixmap {
    for pixel in pixels.data_mut().as_chunks_mut::<4>().0 {
        let [_, _, _, alpha] = pixel;
        *alpha = u8::MAX;
    }
    pixels
}

impl Canvas {
    fn paint(&self, color: ThemeColor) -> Paint<'static> {
        let [red, green, blue] = color.rgb(self.dark);
        let mut paint = Paint::default();
        paint.set_color(Color::from_rgba8(red, green, blue, u8::MAX));
        paint
    }

    fn draw(&mut self, item: &Item, mask: Option<&Mask>) {
        match item {
            Item::Rects { rects, fill, stroke } => {
                let mut path = PathBuilder::new();
                rects.iter().filter_map(skia_rect).for_each(|r| path.push_rect(r));
                let path = path.finish();
                self.fill(path.as_ref(), *fill, mask);
                if let Some(color) = stroke {
                    // Rectangles without height have an outline too.
                    self.stroke(outlines(rects), *color, &Stroke { width: 1.0, ..Stroke::default() }, mask);
                }
            }
            Item::Polylines { lines, color, width, dash } => {
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
                self.stroke(path.finish(), *color, &pen, mask);
            }
            Item::Text { at, text, color, size, anchor, bold } => {
                let back = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
                let x = at.0 - back * stroke_font::width(text, *size);
                let width = (size * if *bold { BOLD_WEIGHT } else { REGULAR_WEIGHT }) as f32;
                let (line_cap, line_join) = (LineCap::Round, LineJoin::Round);
                let pen = Stroke { width, line_cap, line_join, ..Stroke::default() };
                self.stroke(text_path(text, *size, (x, at.1)), *color, &pen, mask);
            }
            Item::Clip { rect, items } => {
                let Some(mut clip) = Mask::new(self.pixels.width(), self.pixels.height()) else { return };
                let Some(rect) = skia_rect(rect) else { return };
                clip.fill_path(&PathBuilder::from_rect(rect), FillRule::Winding, true, self.scale);
                items.iter().for_each(|item| self.draw(item, Some(&clip)));
            }
        }
    }

    fn fill(&mut self, path: Option<&Path>, color: ThemeColor, mask: Option<&Mask>) {
        let paint = self.paint(color);
        if let Some(path) = path {
            self.pixels.fill_path(path, &paint, FillRule::Winding, self.scale, mask);
        }
    }

    fn stroke(&mut self, path: Option<Path>, color: ThemeColor, pen: &Stroke, mask: Option<&Mask>) {
        let paint = self.paint(color);
        if let Some(path) = path {
            self.pixels.stroke_path(&path, &paint, pen, self.scale, mask);
        }
    }
}

fn skia_rect(rect: &Rect) -> Option<SkiaRect> {
    SkiaRect::from_xywh(rect.x as f32, rect.y as f32, rect.width as f32, rect.height as f32)
}

/// Outlines of rectangles; one without height is a single line.
fn outlines(rects: &[Rect]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for rect in rects {
        let [left, top, right, bottom] = [rect.x, rect.y, rect.right(), rect.bottom()].map(|v| v as f32);
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

/// The strokes of a text as one path.
fn text_path(text: &str, size: f64, (x, y): (f64, f64)) -> Option<Path> {
    let mut path = PathBuilder::new();
    for stroke in stroke_font::outline(text, size) {
        let points: Vec<(f64, f64)> = stroke.points.iter().map(|p| (p.0 + x, p.1 + y)).collect();
        if stroke.smooth { spline(&mut path, &points) } else { polyline(&mut path, &points) }
    }
    path.finish()
}

/// Quadratic B-spline from the first to the last point, the others being control points; closed if both are equal.
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
