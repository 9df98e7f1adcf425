//! Differential flame graph as SVG: stacks of both sides in one graph; red grew, blue shrank.
//!
//! A frame is as wide as its time on both sides together: widths add up, and frames that appeared or vanished are visible.
//! Times are per run, so that sides with different numbers of runs compare.

use std::collections::BTreeMap;

use gpuforge_chart::svg::SvgWriter;

use super::{runs::RunSet, stacks::MAX_DEPTH};

/// Width in SVG units; scales with the page.
const WIDTH: f64 = 1200.0;
/// Height of a row.
const ROW: usize = 18;
/// Narrower frames are left out.
const MIN_WIDTH: f64 = 0.4;
/// Approximate width of a character.
const CHAR_WIDTH: f64 = 6.6;

/// A frame: total time per run on both sides, and its children.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DiffFrame {
    pub(super) a: f64,
    pub(super) b: f64,
    pub(super) children: BTreeMap<String, DiffFrame>,
}

impl DiffFrame {
    fn both(&self) -> f64 {
        self.a + self.b
    }
}

/// Merges the stacks of both sides into one tree.
pub(super) fn tree(a: &RunSet, b: &RunSet) -> DiffFrame {
    let mut root = DiffFrame::default();
    for (side, second) in [(a, false), (b, true)] {
        let runs = side.runs.len().max(1) as f64;
        for (path, own) in side.runs.iter().flat_map(|run| &run.stacks) {
            let time = *own as f64 / runs;
            let add = |frame: &mut DiffFrame| *(if second { &mut frame.b } else { &mut frame.a }) += time;
            let mut at = &mut root;
            add(at);
            // Depth is limited: drawing is recursive.
            for name in path.split(';').take(MAX_DEPTH + 1) {
                at = at.children.entry(name.to_owned()).or_default();
                add(at);
            }
        }
    }
    root
}

/// Accessible label.
const LABEL: &str = "Differential flame graph: frames are as wide as their time on both sides, red frames grew, blue frames shrank";

/// Renders the SVG.
pub(super) fn svg(root: &DiffFrame) -> String {
    if root.both() <= 0.0 {
        return "<p class=\"soft\">No span has time of its own.</p>\n".to_owned();
    }
    let mut body = SvgWriter::new();
    let deepest = draw("all", root, (0.0, WIDTH), 0, &mut body);
    let mut out = SvgWriter::new();
    out.start("svg").attr("id", "flame");
    out.attr("viewBox", format_args!("0 0 {WIDTH} {}", (deepest + 1) * ROW)).attr("role", "img");
    out.attr("aria-label", LABEL).line().append(body).end().line();
    out.finish()
}

/// Draws a frame and its children; returns the deepest level.
fn draw(name: &str, frame: &DiffFrame, (x, width): (f64, f64), depth: usize, out: &mut SvgWriter) -> usize {
    if width < MIN_WIDTH {
        return 0;
    }
    let y = depth * ROW;
    out.start("g").leaf("title", format_args!("{name}: {}", words(frame)));
    out.start("rect")
        .attr("x", format_args!("{x:.2}"))
        .attr("y", y)
        .attr("width", format_args!("{width:.2}"));
    out.attr("height", ROW - 1).attr("class", class(frame)).end();
    if let Some(text) = label(name, width) {
        let x = x + 3.0;
        out.start("text").attr("x", format_args!("{x:.2}")).attr("y", y + ROW - 5).text(text).end();
    }
    out.end().line();
    let (mut left, mut deepest) = (x, depth);
    for (name, child) in &frame.children {
        let share = width * child.both() / frame.both();
        deepest = deepest.max(draw(name, child, (left, share), depth + 1, out));
        left += share;
    }
    deepest
}

/// The name truncated to fit, or nothing.
fn label(name: &str, width: f64) -> Option<String> {
    let fits = ((width - 6.0) / CHAR_WIDTH) as usize;
    match name.chars().count() {
        _ if fits < 3 => None,
        long if long > fits => Some(name.chars().take(fits - 1).chain(['…']).collect()),
        _ => Some(name.to_owned()),
    }
}

fn words(frame: &DiffFrame) -> String {
    let change = match frame.a > 0.0 {
        true => format!("{:+.1} %", 100.0 * (frame.b / frame.a - 1.0)),
        false => "new".to_owned(),
    };
    format!("{} → {} a run, {change}", super::html::time(frame.a), super::html::time(frame.b))
}

/// Colours by change against both: seven steps are told apart, and a step has a meaning in the legend.
fn class(frame: &DiffFrame) -> &'static str {
    let change = (frame.b - frame.a) / frame.both();
    const STEPS: [(f64, &str); 6] =
        [(-0.2, "f3"), (-0.05, "f2"), (-0.01, "f1"), (0.01, "same"), (0.05, "s1"), (0.2, "s2")];
    STEPS.iter().find(|(upto, _)| change <= *upto).map_or("s3", |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::RunProfile;

    fn side(paths: &[(&str, u64)]) -> RunSet {
        let stacks = paths.iter().map(|(path, own)| ((*path).to_owned(), *own)).collect();
        RunSet { runs: vec![RunProfile { stacks, ..RunProfile::default() }] }
    }

    #[test]
    fn both_sides_are_in_one_tree() {
        let mut a = side(&[("t;x", 100), ("t;x;y", 50), ("t;gone", 10)]);
        // Two equal runs count like one.
        a.runs.push(a.runs[0].clone());
        let tree = tree(&a, &side(&[("t;x", 100), ("t;x;y", 100)]));
        assert_eq!((tree.a, tree.b), (160.0, 200.0));
        let x = &tree.children["t"].children["x"];
        assert_eq!((x.a, x.b, x.children["y"].b), (150.0, 200.0, 100.0));
        assert_eq!(class(x), "s2");
        assert_eq!(class(&tree.children["t"].children["gone"]), "f3");
    }

    #[test]
    fn names_are_escaped_and_nothing_is_drawn_of_nothing() {
        let a = side(&[("<script>alert(1)</script>", 10)]);
        let drawn = svg(&tree(&a, &a));
        assert!(drawn.contains("&lt;script&gt;") && !drawn.contains("<script>"), "{drawn}");
        assert!(drawn.contains("class=\"same\""));
        assert!(svg(&tree(&side(&[]), &side(&[]))).contains("No span"));
    }

    #[test]
    fn any_name_gives_well_formed_xml() {
        let a = side(&[("<a>&\"'\u{0}\u{1b}\u{202e};b<0.1 %", 1_000_000)]);
        let drawn = svg(&tree(&a, &a));
        let read = roxmltree::Document::parse(&drawn).unwrap_or_else(|e| panic!("{e}: {drawn}"));
        let titles = read.descendants().filter(|n| n.has_tag_name("title")).filter_map(|n| n.text());
        assert!(titles.into_iter().any(|t| t.starts_with("<a>&\"'\u{fffd}")), "{drawn}");
    }

    #[test]
    fn depth_has_an_end() {
        let deep = vec!["f"; 100_000].join(";");
        let a = side(&[(&deep, 10)]);
        assert!(svg(&tree(&a, &a)).matches("<rect").count() <= MAX_DEPTH + 2);
    }
}
