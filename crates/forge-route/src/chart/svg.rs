//! The same as a drawing: one file without anything from elsewhere, readable in light and dark, and without colours.

use std::fmt::Write as _;

use super::{Panel, bounds, count, place, time};

const COLUMNS: usize = 3;
/// A panel, and inside it the room around the lines.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 34.0;
/// Room for the legend.
const HEAD: f64 = 56.0;

const STYLE: &str = "\
svg{--back:#fff;--ink:#1b1f24;--soft:#6a737d;--rule:#d0d7de;--l0:#0550ae;--l1:#bc4c00;--l2:#6639ba;--l3:#116329}\
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--ink:#e6edf3;--soft:#8d96a0;--rule:#30363d;--l0:#79c0ff;--l1:#ffa657;--l2:#d2a8ff;--l3:#7ee787}}\
text{font:11px system-ui,sans-serif;fill:var(--ink)}.t{font-weight:600;font-size:13px}.s{fill:var(--soft)}\
.f{fill:none;stroke:var(--rule)}.c{stroke:var(--soft);stroke-dasharray:2 3}polyline,.k{fill:none;stroke-width:2}\
.l0{stroke:var(--l0)}.l1{stroke:var(--l1);stroke-dasharray:7 3}.l2{stroke:var(--l2);stroke-dasharray:2 2}\
.l3{stroke:var(--l3);stroke-dasharray:9 3 2 3}";

/// Draws every panel; self-contained.
pub fn svg(panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let columns = panels.len().clamp(1, COLUMNS);
    let (width, height) = (WIDTH * columns as f64, HEAD + HEIGHT * rows as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">Time of operations by size and place</title>\n<desc id=\"desc\">{}</desc>\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"var(--back)\"/>\n",
        escape(&describe(panels))
    );
    legend(&mut out, panels);
    for (i, panel) in panels.iter().enumerate() {
        let (x, y) = ((i % COLUMNS) as f64 * WIDTH, HEAD + (i / COLUMNS) as f64 * HEIGHT);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        one(&mut out, panel);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// What the drawing says, for those who do not see it.
fn describe(panels: &[Panel]) -> String {
    let each = panels.iter().map(|p| format!("{}: {}.", p.title, p.verdict()));
    each.collect::<Vec<_>>().join(" ")
}

fn legend(out: &mut String, panels: &[Panel]) {
    let _ = writeln!(out, "<text class=\"t\" x=\"14\" y=\"22\">Time by size, transfers included</text>");
    let Some(widest) = panels.iter().max_by_key(|p| p.lines.len()) else { return };
    let mut x = 14.0;
    for (i, line) in widest.lines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<line class=\"k l{}\" x1=\"{x}\" y1=\"40\" x2=\"{}\" y2=\"40\"/><text x=\"{}\" y=\"44\">{}</text>",
            i % 4,
            x + 28.0,
            x + 34.0,
            escape(&line.name)
        );
        x += 60.0 + 7.0 * line.name.chars().count() as f64;
    }
}

fn one(out: &mut String, panel: &Panel) {
    let (inner, tall) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let _ = writeln!(
        out,
        "<text class=\"t\" x=\"{LEFT}\" y=\"16\">{}</text><text class=\"s\" x=\"{LEFT}\" y=\"31\">{}</text>\
         <rect class=\"f\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{inner}\" height=\"{tall}\"/>",
        escape(&panel.title),
        escape(&panel.verdict())
    );
    let Some((sizes, times)) = bounds(&panel.lines) else { return };
    let x = |units: f64| LEFT + place(sizes, units) * inner;
    let y = |ns: f64| TOP + (1.0 - place(times, ns)) * tall;
    for ns in decades(times) {
        let _ = writeln!(
            out,
            "<line class=\"f\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/><text class=\"s\" x=\"{1}\" \
             y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            LEFT + inner,
            LEFT - 5.0,
            y(ns),
            y(ns) + 4.0,
            time(ns)
        );
    }
    let foot = HEIGHT - BOTTOM + 15.0;
    let _ = writeln!(
        out,
        "<text class=\"s\" x=\"{LEFT}\" y=\"{foot}\">{}</text><text class=\"s\" x=\"{}\" y=\"{foot}\" \
         text-anchor=\"end\">{} {}</text>",
        count(sizes.0 as u64),
        LEFT + inner,
        count(sizes.1 as u64),
        escape(&panel.unit)
    );
    for (i, line) in panel.lines.iter().enumerate() {
        let point = |(units, ns): &(u64, f64)| format!("{:.1},{:.1}", x(*units as f64), y(*ns));
        let points: Vec<String> = line.points.iter().filter(|p| p.1.is_finite()).map(point).collect();
        let _ = writeln!(out, "<polyline class=\"l{}\" points=\"{}\"/>", i % 4, points.join(" "));
    }
    for at in &panel.crossings {
        let x = x(*at as f64);
        let _ = writeln!(
            out,
            "<line class=\"c\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/><text x=\"{x:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>",
            TOP + tall,
            HEIGHT - BOTTOM - 5.0,
            count(*at)
        );
    }
}

/// Powers of ten between two times, at most six.
fn decades((low, high): (f64, f64)) -> Vec<f64> {
    let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
    let step = ((last - first) / 6 + 1).max(1) as usize;
    (first..=last).step_by(step).map(|e| 10f64.powi(e)).collect()
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML at all.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
