//! A scene as SVG: one file, real text, colours as attributes, and a style only where it follows the viewer's theme.

use std::fmt::Write as _;

use gpuforge_chart::{NAMESPACE, Writer};

use super::{
    scene::{Anchor, Area, Item, Point, Scene},
    theme::{Ink, Theme, inks},
};

pub(super) fn write(scene: &Scene, theme: Theme) -> String {
    let Scene { width, height, title, says, items } = scene;
    let mut out = Writer::new();
    out.start("svg").attr("xmlns", NAMESPACE).attr("viewBox", format_args!("0 0 {width} {height}"));
    out.attr("width", width).attr("height", height).attr("role", "img");
    out.attr("font-family", "system-ui,sans-serif").line();
    out.leaf("title", title).line().leaf("desc", says).line();
    if theme == Theme::Auto {
        out.leaf("style", follow()).line();
    }
    for item in items {
        one(&mut out, item, theme);
    }
    out.end().line();
    out.finish()
}

/// Rules that take over the attributes in the dark.
fn follow() -> String {
    let rule = |ink: Ink| {
        let (name, hex) = (ink.name(), ink.hex(true));
        format!(".f-{name}{{fill:{hex}}}.s-{name}{{stroke:{hex}}}")
    };
    let rules: String = inks().map(rule).collect();
    format!("@media(prefers-color-scheme:dark){{{rules}}}")
}

fn one(out: &mut Writer, item: &Item, theme: Theme) {
    match item {
        Item::Rects { areas, .. } if areas.is_empty() => return,
        Item::Rects { areas, fill, edge } => {
            look(out.start("path"), Some(*fill), *edge, theme);
            out.attr("d", areas.iter().map(rect).collect::<String>()).end();
        }
        Item::Lines { lines, .. } if lines.is_empty() => return,
        Item::Lines { lines, ink, width, dash } => {
            look(out.start("path"), None, Some(*ink), theme);
            out.attr("stroke-width", width).attr("stroke-linejoin", "round");
            if !dash.is_empty() {
                let dash: Vec<String> = dash.iter().map(|d| number(*d)).collect();
                out.attr("stroke-dasharray", dash.join(" "));
            }
            out.attr("d", lines.iter().map(|line| polyline(line)).collect::<String>()).end();
        }
        Item::Text { at, text, ink, size, anchor, bold } => {
            look(out.start("text"), Some(*ink), None, theme);
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
        Item::Inside { area, items } => {
            // An inner drawing clips by itself; a clip path would need a name, and names clash when files are joined.
            let [x, y, w, h] = [area.x, area.y, area.width, area.height].map(number);
            out.start("svg").attr("x", &x).attr("y", &y).attr("width", &w).attr("height", &h);
            out.attr("viewBox", format_args!("{x} {y} {w} {h}")).line();
            items.iter().for_each(|item| one(out, item, theme));
            out.end();
        }
    }
    out.line();
}

/// Fill and stroke, and the classes by which the viewer's theme changes them.
fn look(out: &mut Writer, fill: Option<Ink>, stroke: Option<Ink>, theme: Theme) {
    let hex = |ink: Ink| ink.hex(theme == Theme::Dark);
    let classes = fill.map(|i| format!("f-{}", i.name())).into_iter();
    let classes: Vec<String> = classes.chain(stroke.map(|i| format!("s-{}", i.name()))).collect();
    if theme == Theme::Auto {
        out.attr("class", classes.join(" "));
    }
    out.attr("fill", fill.map_or_else(|| "none".to_owned(), |ink| hex(ink).to_string()));
    if let Some(ink) = stroke {
        out.attr("stroke", hex(ink));
    }
}

fn rect(area: &Area) -> String {
    let [x, y, w, h] = [area.x, area.y, area.width, area.height].map(number);
    format!("M{x} {y}h{w}v{h}h-{w}z")
}

fn polyline(points: &[Point]) -> String {
    let mut path = String::new();
    for (n, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if n == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    path
}

/// A tenth of a pixel is enough.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
