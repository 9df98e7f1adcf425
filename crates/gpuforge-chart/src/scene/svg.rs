//! SVG renderer of a scene: real text, colours as attributes, a style sheet only for the `prefers-color-scheme` theme.

use std::fmt::Write as _;

use super::{Anchor, Item, Point, Rect, Scene};
use crate::{
    svg::{NAMESPACE, SvgWriter},
    theme::{Theme, ThemeColor},
};

pub(crate) fn render(scene: &Scene, theme: Theme) -> String {
    let Scene { width, height, title, description, items } = scene;
    let mut out = SvgWriter::new();
    out.start("svg").attr("xmlns", NAMESPACE).attr("viewBox", format_args!("0 0 {width} {height}"));
    out.attr("width", width).attr("height", height).attr("role", "img");
    out.attr("font-family", "system-ui,sans-serif").line();
    out.leaf("title", title).line().leaf("desc", description).line();
    if theme == Theme::Auto {
        out.leaf("style", dark_mode_rules()).line();
    }
    for item in items {
        render_item(&mut out, item, theme);
    }
    out.end().line();
    out.finish()
}

/// CSS rules that override the colour attributes in dark mode.
fn dark_mode_rules() -> String {
    let rule = |color: ThemeColor| {
        let (name, hex) = (color.name(), color.hex(true));
        format!(".f-{name}{{fill:{hex}}}.s-{name}{{stroke:{hex}}}")
    };
    let rules: String = ThemeColor::all().map(rule).collect();
    format!("@media(prefers-color-scheme:dark){{{rules}}}")
}

fn render_item(out: &mut SvgWriter, item: &Item, theme: Theme) {
    match item {
        Item::Rects { rects, .. } if rects.is_empty() => return,
        Item::Rects { rects, fill, stroke } => {
            paint_attributes(out.start("path"), Some(*fill), *stroke, theme);
            out.attr("d", rects.iter().map(rect_path).collect::<String>()).end();
        }
        Item::Polylines { lines, .. } if lines.is_empty() => return,
        Item::Polylines { lines, color, width, dash } => {
            paint_attributes(out.start("path"), None, Some(*color), theme);
            out.attr("stroke-width", width).attr("stroke-linejoin", "round");
            if !dash.is_empty() {
                let dash: Vec<String> = dash.iter().map(|d| number(*d)).collect();
                out.attr("stroke-dasharray", dash.join(" "));
            }
            out.attr("d", lines.iter().map(|line| polyline_path(line)).collect::<String>()).end();
        }
        Item::Text { at, text, color, size, anchor, bold } => {
            paint_attributes(out.start("text"), Some(*color), None, theme);
            out.attr("x", number(at.0)).attr("y", number(at.1)).attr("font-size", size);
            let anchor = match anchor {
                Anchor::Start => None,
                Anchor::Middle => Some("middle"),
                Anchor::End => Some("end"),
            };
            if let Some(anchor) = anchor {
                out.attr("text-anchor", anchor);
            }
            if *bold {
                out.attr("font-weight", "600");
            }
            out.text(text).end();
        }
        Item::Clip { rect, items } => {
            // A nested <svg> clips by itself; a <clipPath> would need an id, and ids clash when files are inlined together.
            let [x, y, w, h] = [rect.x, rect.y, rect.width, rect.height].map(number);
            out.start("svg").attr("x", &x).attr("y", &y).attr("width", &w).attr("height", &h);
            out.attr("viewBox", format_args!("{x} {y} {w} {h}")).line();
            items.iter().for_each(|item| render_item(out, item, theme));
            out.end();
        }
    }
    out.line();
}

/// Fill and stroke attributes, and the classes that the dark-mode rules select.
fn paint_attributes(out: &mut SvgWriter, fill: Option<ThemeColor>, stroke: Option<ThemeColor>, theme: Theme) {
    let hex = |color: ThemeColor| color.hex(theme == Theme::Dark);
    let classes = fill.map(|i| format!("f-{}", i.name())).into_iter();
    let classes: Vec<String> = classes.chain(stroke.map(|i| format!("s-{}", i.name()))).collect();
    if theme == Theme::Auto {
        out.attr("class", classes.join(" "));
    }
    out.attr("fill", fill.map_or_else(|| "none".to_owned(), |color| hex(color).to_string()));
    if let Some(color) = stroke {
        out.attr("stroke", hex(color));
    }
}

fn rect_path(rect: &Rect) -> String {
    let [x, y, w, h] = [rect.x, rect.y, rect.width, rect.height].map(number);
    format!("M{x} {y}h{w}v{h}h-{w}z")
}

fn polyline_path(points: &[Point]) -> String {
    let mut path = String::new();
    for (n, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if n == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    path
}

/// One decimal: a tenth of a pixel.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
