//! Static flame graph SVG: boxes with names, details as tooltips; no script.

use gpuforge_chart::svg::{NAMESPACE, SvgWriter};

use super::{
    flame::FlameGraph,
    units::{count, percent, time},
};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const TOP: f64 = 34.0;
/// Narrower boxes are left out.
const MIN_WIDTH: f64 = 0.2;
/// Approximate width of a character.
const CHAR_WIDTH: f64 = 6.6;

/// Fills and text are readable on light and dark backgrounds.
const STYLE: &str = "text{font:11px ui-monospace,monospace;fill:#111}.head{font:600 14px system-ui,sans-serif;fill:#888}\
rect{stroke:#fff;stroke-width:.5}.cpu{fill:#9cc3f0}.gpu{fill:#9bd3a0}.transfer{fill:#f1c27d}.wait{fill:#c9ced6}\
.overhead{fill:#dcaee6}";

impl FlameGraph {
    /// Renders the SVG; callees below callers (icicle layout).
    pub fn svg(&self, title: &str) -> String {
        let total = self.total_ns().max(1) as f64;
        let boxes = self.layout(WIDTH / total);
        let deepest = boxes.iter().map(|b| b.depth).max().map_or(0, |d| d + 1);
        let height = TOP + ROW * deepest.max(1) as f64 + 6.0;
        let mut out = SvgWriter::new();
        out.start("svg").attr("xmlns", NAMESPACE).attr("viewBox", format_args!("0 0 {WIDTH} {height}"));
        out.attr("width", WIDTH).attr("height", height).attr("role", "img").line();
        out.leaf("title", title).line().leaf("style", STYLE).line();
        let head = format!("{title}: {}", time(self.total_ns()));
        out.start("text").attr("class", "head").attr("x", 4).attr("y", 20).text(head).end().line();
        for place in boxes {
            self.draw_box(&place, total, &mut out);
        }
        out.end().line();
        out.finish()
    }

    /// One box: tooltip, rectangle, and the truncated name.
    fn draw_box(&self, place: &BoxLayout, total: f64, out: &mut SvgWriter) {
        let Some(node) = self.nodes.get(place.node) else { return };
        let name = self.names.get(node.name).map_or("?", String::as_str);
        let y = TOP + ROW * place.depth as f64;
        let figures = format!(
            "{name} · {} ({}) · itself {} · {} calls",
            time(node.total_ns),
            percent(node.total_ns as f64 / total),
            time(node.self_ns),
            count(node.count)
        );
        out.start("g").leaf("title", figures);
        out.start("rect").attr("class", node.category).attr("x", format_args!("{:.2}", place.x)).attr("y", y);
        out.attr("width", format_args!("{:.2}", place.width)).attr("height", ROW - 1.0).end();
        if let Some(text) = fitting(name, place.width) {
            out.start("text").attr("x", format_args!("{:.2}", place.x + 3.0)).attr("y", y + 12.5);
            out.text(text).end();
        }
        out.end().line();
    }

    /// Positions of the visible nodes.
    fn layout(&self, scale: f64) -> Vec<BoxLayout> {
        // x of each node's next child; the last entry is for roots.
        let mut next: Vec<f64> = vec![0.0; self.nodes.len() + 1];
        let root = self.nodes.len();
        let mut boxes = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let width = node.total_ns as f64 * scale;
            let x = next.get(node.parent.unwrap_or(root)).copied().unwrap_or(0.0);
            if let Some(next) = next.get_mut(node.parent.unwrap_or(root)) {
                *next += width;
            }
            if let Some(own) = next.get_mut(at) {
                *own = x;
            }
            if width >= MIN_WIDTH {
                boxes.push(BoxLayout { node: at, depth: node.depth, x, width });
            }
        }
        boxes
    }
}

struct BoxLayout {
    node: usize,
    depth: usize,
    x: f64,
    width: f64,
}

/// The name truncated to fit, or nothing.
fn fitting(name: &str, width: f64) -> Option<String> {
    let letters = ((width - 6.0) / CHAR_WIDTH).max(0.0) as usize;
    match name.chars().count() {
        n if n <= letters => Some(name.to_owned()),
        _ if letters < 3 => None,
        _ => Some(name.chars().take(letters - 1).chain(['…']).collect()),
    }
}
