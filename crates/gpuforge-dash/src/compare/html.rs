//! HTML report of a comparison: verdict, table of operations, differential flame graph.

use std::fmt::Write as _;

use gpuforge_chart::svg::SvgWriter;

use super::{ChangeVerdict, Comparison, OperationChange, RunSet, diff_flame};
use crate::report::{
    html_page::{HtmlPage, HtmlTable, TABLE_JS, escape},
    units,
};

const CSS: &str = "\
#flame{width:100%;height:auto;font:11px system-ui,sans-serif}
#flame rect{stroke:var(--back);stroke-width:.5}
#flame text{fill:#16191d;pointer-events:none}
.same{fill:#d5d8dd}.s1{fill:#f6d0cb}.s2{fill:#f0a198}.s3{fill:#e5695c}.f1{fill:#d3dff5}.f2{fill:#a6c1ef}.f3{fill:#6f9be6}
.key svg{width:14px;height:12px;vertical-align:-1px;margin:0 3px 0 10px}
";

/// The steps of the flame graph's colours.
const LEGEND: [(&str, &str); 7] = [
    ("f3", "a third less"),
    ("f2", "10 % less"),
    ("f1", "2 % less"),
    ("same", "as before"),
    ("s1", "2 % more"),
    ("s2", "10 % more"),
    ("s3", "half as much again"),
];

/// Renders the report; `a` and `b` are labels of the two sides.
pub fn render(comparison: &Comparison, sides: (&RunSet, &RunSet), (a, b): (&str, &str)) -> String {
    let mut body = head(comparison, a, b);
    body.push_str("<h2>Operations</h2>\n");
    body.push_str(
        "<p><label>Filter <input type=\"search\" data-filter=\"operations\"></label> \
         <span id=\"operations-says\" class=\"soft\" role=\"status\"></span></p>\n",
    );
    body.push_str(&table(&comparison.operations));
    for (title, names) in [("Gone", &comparison.only_a), ("New", &comparison.only_b)] {
        if !names.is_empty() {
            let _ = writeln!(body, "<p><b>{title}:</b> {}</p>", escape(&names.join(", ")));
        }
    }
    body.push_str(
        "<h2>Where time went</h2>\n<p class=\"soft key\">A frame is as wide as its time on both sides.",
    );
    for (class, words) in LEGEND {
        let mut key = SvgWriter::new();
        key.start("svg").attr("viewBox", "0 0 14 12").attr("aria-hidden", true);
        key.start("rect").attr("width", 14).attr("height", 12).attr("class", class).end().end();
        let _ = write!(body, "{}{words}", key.finish());
    }
    body.push_str("</p>\n");
    body.push_str(&diff_flame::svg(&diff_flame::tree(sides.0, sides.1)));
    let title = format!("{}: {b} against {a}", comparison.verdict.as_str());
    HtmlPage { title: &title, css: CSS, body: &body, data: None, script: TABLE_JS, connect: "'none'" }.html()
}

fn head(comparison: &Comparison, a: &str, b: &str) -> String {
    let class = match comparison.verdict {
        ChangeVerdict::Regression => "bad",
        ChangeVerdict::Improvement => "good",
        ChangeVerdict::NoChange => "soft",
        ChangeVerdict::NotJudged => "care",
    };
    let mut out = format!(
        "<h1><span class=\"{class}\">{}</span></h1>\n<p>A: {} · B: {}</p>\n<p>{}</p>\n<div class=\"cards\">",
        comparison.verdict.as_str(),
        escape(a),
        escape(b),
        escape(&comparison.reason)
    );
    let count = |verdict| comparison.of(verdict).count().to_string();
    let options = &comparison.options;
    for (what, value) in [
        ("slower", count(ChangeVerdict::Regression)),
        ("faster", count(ChangeVerdict::Improvement)),
        ("no change", count(ChangeVerdict::NoChange)),
        ("not judged", count(ChangeVerdict::NotJudged)),
        ("runs, A and B", format!("{} and {}", comparison.runs.0, comparison.runs.1)),
        ("least change that matters", format!("{} %", trim(100.0 * options.threshold))),
        ("chance of any false alarm, at most", format!("{} %", trim(100.0 * options.alpha))),
    ] {
        let _ = write!(out, "<div><b>{value}</b><span>{what}</span></div>");
    }
    out.push_str("</div>\n");
    for note in &comparison.notes {
        let _ = writeln!(out, "<p class=\"care\">{}</p>", escape(note));
    }
    out
}

fn table(changes: &[OperationChange]) -> String {
    let row = |change: &OperationChange| {
        let p = |p: Option<f64>| (p.map_or_else(|| "–".to_owned(), probability), p);
        let median = |ns: Option<f64>| (ns.map_or_else(|| "–".to_owned(), time), ns);
        let more = change.b.per_run_ns - change.a.per_run_ns;
        let sign = if more < 0.0 { "−" } else { "+" };
        vec![
            (change.operation.clone(), None),
            (change.verdict.as_str().to_owned(), None),
            median(change.a.median_ns),
            median(change.b.median_ns),
            (change.ratio.map_or_else(|| "–".to_owned(), percent), change.ratio),
            (bounds(change.interval), change.interval.map(|(low, _)| low)),
            (format!("{:+.2}", change.effect), Some(change.effect)),
            p(change.p_adjusted),
            (format!("{} / {}", change.a.calls, change.b.calls), Some(change.b.calls as f64)),
            (format!("{sign}{}", time(more.abs())), Some(more)),
            (change.reason.clone(), None),
        ]
    };
    let heads = vec![
        ("operation", true),
        ("verdict", true),
        ("A, median", false),
        ("B, median", false),
        ("change", false),
        ("95 % of resamples", false),
        ("effect", false),
        ("p, corrected", false),
        ("calls A / B", false),
        ("time a run", false),
        ("why", true),
    ];
    let rows = changes.iter().map(row).collect();
    HtmlTable { id: "operations", caption: "Operations and what became of them", heads, rows }.html()
}

/// `+3.2 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

/// `+1.0 … +4.2 %`, or a dash.
pub fn bounds(interval: Option<(f64, f64)>) -> String {
    let share = |ratio: f64| 100.0 * (ratio - 1.0);
    interval
        .map_or_else(|| "–".to_owned(), |(low, high)| format!("{:+.1} … {:+.1} %", share(low), share(high)))
}

/// `0.031`, `1e-7`.
pub fn probability(p: f64) -> String {
    match p {
        p if p >= 0.001 => format!("{p:.3}"),
        p if p > 0.0 => format!("{p:.0e}"),
        _ => "<1e-15".to_owned(),
    }
}

/// `1.24 ms`.
pub fn time(ns: f64) -> String {
    units::time(ns.max(0.0).round() as u64)
}

fn trim(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
