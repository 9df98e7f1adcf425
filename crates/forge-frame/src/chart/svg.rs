//! A scene as SVG: one file, real text, colours as attributes, and a style only where it follows the viewer's theme.

use std::fmt::Write as _;

use super::{
    scene::{Anchor, Area, Item, Point, Scene},
    theme::{Ink, Theme, inks},
};

pub(super) fn write(scene: &Scene, theme: Theme) -> String {
    let Scene { width, height, title, says, items } = scene;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" font-family=\"system-ui,sans-serif\">\n<title>{}</title>\n<desc>{}</desc>\n",
        escape(title),
        escape(says)
    );
    if theme == Theme::Auto {
        let _ = writeln!(out, "<style>{}</style>", follow());
    }
    for item in items {
        one(&mut out, item, theme);
    }
    out.push_str("</svg>\n");
    out
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

fn one(out: &mut String, item: &Item, theme: Theme) {
    let _ = match item {
        Item::Rects { areas, .. } if areas.is_empty() => Ok(()),
        Item::Rects { areas, fill, edge } => {
            let path: String = areas.iter().map(rect).collect();
            let look = look(Some(*fill), *edge, theme);
            writeln!(out, "<path {look} d=\"{path}\"/>")
        }
        Item::Lines { lines, .. } if lines.is_empty() => Ok(()),
        Item::Lines { lines, ink, width, dash } => {
            let path: String = lines.iter().map(|line| polyline(line)).collect();
            let dash: Vec<String> = dash.iter().map(|d| number(*d)).collect();
            let dash = match dash.is_empty() {
                true => String::new(),
                false => format!(" stroke-dasharray=\"{}\"", dash.join(" ")),
            };
            let look = look(None, Some(*ink), theme);
            writeln!(
                out,
                "<path {look} stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash} d=\"{path}\"/>"
            )
        }
        Item::Text { at, text, ink, size, anchor, bold } => {
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let bold = if *bold { " font-weight=\"600\"" } else { "" };
            let (x, y, look, text) =
                (number(at.0), number(at.1), look(Some(*ink), None, theme), escape(text));
            writeln!(out, "<text {look} x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{bold}>{text}</text>")
        }
        Item::Inside { area, items } => {
            // An inner drawing clips by itself; a clip path would need a name, and names clash when files are joined.
            let [x, y, w, h] = [area.x, area.y, area.width, area.height].map(number);
            let _ = writeln!(
                out,
                "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">"
            );
            items.iter().for_each(|item| one(out, item, theme));
            writeln!(out, "</svg>")
        }
    };
}

/// Fill and stroke, and the classes by which the viewer's theme changes them.
fn look(fill: Option<Ink>, stroke: Option<Ink>, theme: Theme) -> String {
    let hex = |ink: Ink| ink.hex(theme == Theme::Dark);
    let fills = fill.map_or("fill=\"none\"".to_owned(), |ink| format!("fill=\"{}\"", hex(ink)));
    let strokes = stroke.map_or(String::new(), |ink| format!(" stroke=\"{}\"", hex(ink)));
    let classes = fill.map(|i| format!("f-{}", i.name())).into_iter();
    let classes: Vec<String> = classes.chain(stroke.map(|i| format!("s-{}", i.name()))).collect();
    match theme {
        Theme::Auto => format!("class=\"{}\" {fills}{strokes}", classes.join(" ")),
        _ => format!("{fills}{strokes}"),
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

/// Text that can stand in XML and HTML, as content and inside quotes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML at all.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
