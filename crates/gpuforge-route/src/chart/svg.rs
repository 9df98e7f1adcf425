//! Crossover chart as SVG: self-contained, light and dark, distinguishable without colour.

use gpuforge_chart::svg::{NAMESPACE, SvgWriter};

use super::{Panel, bounds, count, log_position, time};

const COLUMNS: usize = 3;
/// Size of a panel, and the margins of its plot.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 34.0;
/// Height of the legend.
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
    let mut out = SvgWriter::new();
    out.start("svg").attr("xmlns", NAMESPACE).attr("viewBox", format_args!("0 0 {width} {height}"));
    out.attr("width", width).attr("height", height).attr("role", "img").attr("aria-labelledby", "title desc");
    out.line();
    out.start("title").attr("id", "title").text("Time of operations by size and backend").end().line();
    out.start("desc").attr("id", "desc").text(describe(panels)).end().line();
    out.leaf("style", STYLE).line();
    out.start("rect").attr("width", "100%").attr("height", "100%").attr("fill", "var(--back)").end().line();
    legend(&mut out, panels);
    for (i, panel) in panels.iter().enumerate() {
        let (x, y) = ((i % COLUMNS) as f64 * WIDTH, HEAD + (i / COLUMNS) as f64 * HEIGHT);
        out.start("g").attr("transform", format_args!("translate({x} {y})")).line();
        draw_panel(&mut out, panel);
        out.end().line();
    }
    out.end().line();
    out.finish()
}

/// Accessible description.
fn describe(panels: &[Panel]) -> String {
    let each = panels.iter().map(|p| format!("{}: {}.", p.title, p.summary()));
    each.collect::<Vec<_>>().join(" ")
}

fn legend(out: &mut SvgWriter, panels: &[Panel]) {
    text(out, "t", (14.0, 22.0), "", "Time by size, transfers included");
    out.line();
    let Some(widest) = panels.iter().max_by_key(|p| p.lines.len()) else { return };
    let mut x = 14.0;
    for (i, line) in widest.lines.iter().enumerate() {
        out.start("line").attr("class", format_args!("k l{}", i % 4)).attr("x1", x).attr("y1", 40);
        out.attr("x2", x + 28.0).attr("y2", 40).end();
        text(out, "", (x + 34.0, 44.0), "", &line.name);
        out.line();
        x += 60.0 + 7.0 * line.name.chars().count() as f64;
    }
}

/// A text element; class and anchor may be empty.
fn text(out: &mut SvgWriter, class: &str, (x, y): (f64, f64), anchor: &str, content: impl std::fmt::Display) {
    let tenth = |at: f64| (at * 10.0).round() / 10.0;
    out.start("text");
    if !class.is_empty() {
        out.attr("class", class);
    }
    out.attr("x", tenth(x)).attr("y", tenth(y));
    if !anchor.is_empty() {
        out.attr("text-anchor", anchor);
    }
    out.text(content).end();
}

/// A straight line.
fn rule(out: &mut SvgWriter, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    out.start("line").attr("class", class);
    for (name, at) in [("x1", x1), ("x2", x2), ("y1", y1), ("y2", y2)] {
        out.attr(name, format_args!("{at:.1}"));
    }
    out.end();
}

fn draw_panel(out: &mut SvgWriter, panel: &Panel) {
    let (inner, tall) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    text(out, "t", (LEFT, 16.0), "", &panel.title);
    text(out, "s", (LEFT, 31.0), "", panel.summary());
    out.start("rect").attr("class", "f").attr("x", LEFT).attr("y", TOP).attr("width", inner);
    out.attr("height", tall).end().line();
    let Some((sizes, times)) = bounds(&panel.lines) else { return };
    let x = |units: f64| LEFT + log_position(sizes, units) * inner;
    let y = |ns: f64| TOP + (1.0 - log_position(times, ns)) * tall;
    for ns in decades(times) {
        rule(out, "f", (LEFT, y(ns)), (LEFT + inner, y(ns)));
        text(out, "s", (LEFT - 5.0, y(ns) + 4.0), "end", time(ns));
        out.line();
    }
    let foot = HEIGHT - BOTTOM + 15.0;
    text(out, "s", (LEFT, foot), "", count(sizes.0 as u64));
    text(out, "s", (LEFT + inner, foot), "end", format_args!("{} {}", count(sizes.1 as u64), panel.unit));
    out.line();
    for (i, line) in panel.lines.iter().enumerate() {
        let point = |(units, ns): &(u64, f64)| format!("{:.1},{:.1}", x(*units as f64), y(*ns));
        let points: Vec<String> = line.points.iter().filter(|p| p.1.is_finite()).map(point).collect();
        out.start("polyline").attr("class", format_args!("l{}", i % 4)).attr("points", points.join(" "));
        out.end().line();
    }
    for at in &panel.crossings {
        let x = x(*at as f64);
        rule(out, "c", (x, TOP), (x, TOP + tall));
        text(out, "", (x, HEIGHT - BOTTOM - 5.0), "middle", count(*at));
        out.line();
    }
}

/// Powers of ten between two times, at most six.
fn decades((low, high): (f64, f64)) -> Vec<f64> {
    let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
    let step = ((last - first) / 6 + 1).max(1) as usize;
    (first..=last).step_by(step).map(|e| 10f64.powi(e)).collect()
}
