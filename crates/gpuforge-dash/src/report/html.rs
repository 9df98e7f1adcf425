//! HTML trace report: tables readable without JavaScript, and data for the timeline and flame graph scripts.

use std::fmt::Write as _;

use gpuforge_chart::svg::SvgWriter;
use gpuforge_profile::Trace;
use serde_json::json;

use super::{
    flame::FlameGraph,
    html_page::{HtmlPage, HtmlTable, TABLE_JS, escape},
    memory_chart,
    timeline::{TimelineData, display_name},
    trace_report::{SpanRow, TraceReport},
    units::{count, percent, size, time},
};

const CSS: &str = include_str!("html_page/report.css");
const JS: [&str; 3] = [
    include_str!("html_page/pack.js"),
    include_str!("html_page/timeline.js"),
    include_str!("html_page/flame.js"),
];
/// Maximum rows of the name table; the rest is in the exports.
const MAX_ROWS: usize = 1_000;
/// Maximum rows of the decision and event tables.
const MAX_EVENTS: usize = 500;
/// Maximum nodes of the flame graph.
const MAX_NODES: usize = 4_000;

impl TraceReport {
    /// Renders a self-contained page. `trace` is the trace of this report.
    pub fn html(&self, trace: &Trace, title: &str) -> String {
        let columns = TimelineData::of(trace);
        let flame = FlameGraph::of(trace).largest(MAX_NODES);
        let data = json!({ "timeline": columns.data, "flame": flame_data(&flame) }).to_string();
        let (from, to) = trace.extent().unwrap_or((0, 0));
        let mut body = String::new();
        self.head(&mut body, title);
        self.suggestions_html(&mut body);
        self.breakdown_html(&mut body);
        timeline_html(&mut body, &columns);
        body.push_str(FLAME);
        self.names_html(&mut body);
        self.memory_html(&mut body, from, to);
        self.routed_html(&mut body);
        self.recovered_html(&mut body, from);
        self.about_html(&mut body, trace);
        let script = [TABLE_JS, JS[0], JS[1], JS[2]].concat();
        let page =
            HtmlPage { title, css: CSS, body: &body, data: Some(&data), script: &script, connect: "'none'" };
        page.html()
    }

    fn head(&self, out: &mut String, title: &str) {
        let _ = writeln!(
            out,
            "<header><h1>{}</h1><p class=\"soft\">where the time of one run went</p></header>",
            escape(title)
        );
        let wall = self.wall_ns.map_or_else(|| "none".to_owned(), time);
        let devices = match self.devices.as_slice() {
            [] => "none".to_owned(),
            names => names.iter().map(|n| display_name(n)).collect::<Vec<_>>().join(", "),
        };
        let cards = [
            (wall, "from the first span to the last"),
            (count(self.spans), "spans"),
            (count(self.rows.len() as u64), "names"),
            (count(self.threads), "threads"),
            (devices, "devices that told their times"),
            (count(self.recovered.len() as u64), "recovery events"),
        ];
        out.push_str("<div class=\"cards\">");
        for (figure, what) in cards {
            let _ = write!(out, "<div><b>{}</b><span>{what}</span></div>", escape(&figure));
        }
        out.push_str("</div>\n");
        if self.dropped > 0 {
            let _ = writeln!(
                out,
                "<p class=\"care\">{} records were lost: the figures are of what was kept.</p>",
                count(self.dropped)
            );
        }
    }

    fn suggestions_html(&self, out: &mut String) {
        out.push_str("<section aria-labelledby=\"h-do\"><h2 id=\"h-do\">What to do</h2>\n");
        if self.suggestions.is_empty() {
            out.push_str("<p class=\"soft\">No rule found anything that stands out.</p>\n");
        } else {
            out.push_str("<ol class=\"do\">\n");
            for s in &self.suggestions {
                let _ = writeln!(
                    out,
                    "<li>{}<br><span class=\"soft\">{}</span></li>",
                    escape(&s.advice),
                    escape(&s.evidence)
                );
            }
            out.push_str("</ol>\n");
        }
        out.push_str("</section>\n");
    }

    fn breakdown_html(&self, out: &mut String) {
        out.push_str("<section aria-labelledby=\"h-kinds\"><h2 id=\"h-kinds\">Kinds of time</h2>\n");
        let mut bar = SvgWriter::new();
        bar.start("svg").attr("class", "bar").attr("viewBox", "0 0 1000 20");
        bar.attr("preserveAspectRatio", "none").attr("aria-hidden", true);
        let mut x = 0.0;
        for part in &self.breakdown {
            let width = part.share.unwrap_or(0.0) * 1000.0;
            bar.start("rect").attr("class", format_args!("k-{}", part.category));
            bar.attr("x", format_args!("{x:.2}")).attr("y", 0);
            bar.attr("width", format_args!("{width:.2}")).attr("height", 20).end();
            x += width;
        }
        out.push_str(&bar.finish());
        out.push_str("\n<dl class=\"kinds\">\n");
        for part in &self.breakdown {
            let figure = match (part.self_ns, part.share) {
                (Some(ns), Some(share)) => {
                    format!("{} <span class=\"soft\">{}</span>", time(ns), escape(&percent(share)))
                }
                (Some(ns), None) => time(ns),
                (None, _) => format!("<span class=\"soft\">{}</span>", part.note.unwrap_or("not measured")),
            };
            let _ = writeln!(
                out,
                "<div><dt><i class=\"swatch k-{0}\"></i>{0}</dt><dd>{figure}</dd></div>",
                part.category
            );
        }
        out.push_str(
            "</dl>\n<p class=\"soft\">Time of all threads and devices that belongs to no span inside; \
                      it adds up to their busy time, not to the wall time.</p></section>\n",
        );
    }

    fn names_html(&self, out: &mut String) {
        out.push_str(
            "<section aria-labelledby=\"h-names\"><h2 id=\"h-names\">Bottlenecks</h2>\n<p><label>Filter \
             <input type=\"search\" data-filter=\"names\" autocomplete=\"off\"></label> \
             <span id=\"names-says\" class=\"soft\" aria-live=\"polite\"></span></p>\n",
        );
        let heads = [
            "name", "kind", "self", "of wall", "calls", "total", "mean", "median", "95 %", "99 %", "longest",
            "bytes",
        ];
        let table = HtmlTable {
            id: "names",
            caption: "every name with its times",
            heads: heads.into_iter().map(|h| (h, matches!(h, "name" | "kind"))).collect(),
            rows: self.rows.iter().take(MAX_ROWS).map(cells).collect(),
        };
        out.push_str(&table.html());
        if self.rows.len() > MAX_ROWS {
            let more = count((self.rows.len() - MAX_ROWS) as u64);
            let _ = writeln!(out, "<p class=\"soft\">{more} more names are in the CSV and JSON exports.</p>");
        }
        out.push_str("</section>\n");
    }

    fn memory_html(&self, out: &mut String, from: u64, to: u64) {
        out.push_str("<section aria-labelledby=\"h-memory\"><h2 id=\"h-memory\">Memory of devices</h2>\n");
        if self.memory.is_empty() {
            out.push_str("<p class=\"soft\">No device memory was used.</p>\n");
        }
        for device in &self.memory {
            out.push_str(&memory_chart::figure(device, &self.clean_ups, from, to));
        }
        out.push_str("</section>\n");
    }

    fn routed_html(&self, out: &mut String) {
        out.push_str(
            "<section aria-labelledby=\"h-route\"><h2 id=\"h-route\">Where operations ran, and why</h2>\n",
        );
        if self.routed.is_empty() {
            out.push_str("<p class=\"soft\">No operation was routed.</p></section>\n");
            return;
        }
        let heads = ["operation", "place", "why", "runs", "predicted", "measured", "measured ÷ predicted"];
        let ns = |ns: Option<u64>| (ns.map_or_else(|| "not known".to_owned(), time), ns.map(|ns| ns as f64));
        let rows = self.routed.iter().take(MAX_EVENTS).map(|r| {
            let ratio = r.ratio();
            vec![
                (display_name(&r.operation), None),
                (display_name(&r.place), None),
                (display_name(&r.reason), None),
                (count(r.runs), Some(r.runs as f64)),
                ns(r.predicted_ns),
                ns(r.measured_ns),
                (ratio.map_or_else(|| "not known".to_owned(), |x| format!("{x:.2}")), ratio),
            ]
        });
        let table = HtmlTable {
            id: "routed",
            caption: "decisions, predicted and measured",
            heads: heads.into_iter().map(|h| (h, matches!(h, "operation" | "place" | "why"))).collect(),
            rows: rows.collect(),
        };
        out.push_str(&table.html());
        out.push_str("</section>\n");
    }

    fn recovered_html(&self, out: &mut String, from: u64) {
        out.push_str("<section aria-labelledby=\"h-events\"><h2 id=\"h-events\">Recovery</h2>\n");
        if self.recovered.is_empty() {
            out.push_str("<p class=\"soft\">Nothing went wrong.</p></section>\n");
            return;
        }
        let rows = self.recovered.iter().take(MAX_EVENTS).map(|event| {
            let at = event.at_ns.saturating_sub(from);
            vec![(display_name(&event.what), None), (time(at), Some(at as f64))]
        });
        let table = HtmlTable {
            id: "events",
            caption: "what went wrong and what was done about it",
            heads: vec![("what", true), ("after", false)],
            rows: rows.collect(),
        };
        out.push_str(&table.html());
        if self.recovered.len() > MAX_EVENTS {
            let _ = writeln!(out, "<p class=\"soft\">{} in all.</p>", count(self.recovered.len() as u64));
        }
        out.push_str("</section>\n");
    }

    fn about_html(&self, out: &mut String, trace: &Trace) {
        let _ = writeln!(
            out,
            "<footer class=\"soft\"><p>{} on {}; clock: {}. Percentiles to three digits. Made by gpuforge {}.</p></footer>",
            escape(&display_name(&self.os)),
            escape(&display_name(&self.arch)),
            escape(&display_name(&trace.clock.source.to_string())),
            env!("CARGO_PKG_VERSION")
        );
    }
}

fn cells(row: &SpanRow) -> Vec<(String, Option<f64>)> {
    let s = &row.stats;
    let ns = |ns: u64| (time(ns), Some(ns as f64));
    let unknown = || ("not known".to_owned(), None);
    vec![
        (display_name(&s.name), None),
        (row.category.to_string(), None),
        s.self_ns.map_or_else(unknown, ns),
        row.share_of_wall.map_or_else(unknown, |share| (percent(share), Some(share))),
        (count(s.count), Some(s.count as f64)),
        ns(s.total_ns),
        (time(s.mean_ns as u64), Some(s.mean_ns)),
        ns(s.p50_ns),
        ns(s.p95_ns),
        ns(s.p99_ns),
        ns(s.max_ns),
        s.bytes.map_or_else(|| (String::new(), None), |b| (size(b as f64), Some(b as f64))),
    ]
}

fn flame_data(flame: &FlameGraph) -> serde_json::Value {
    let mut numbers: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut nodes: Vec<[u64; 6]> = Vec::new();
    for node in &flame.nodes {
        let name = *numbers.entry(node.name).or_insert_with(|| {
            names.push(display_name(flame.names.get(node.name).map_or("?", String::as_str)));
            names.len() - 1
        });
        // 0 is no caller, so that all values are unsigned.
        let parent = node.parent.map_or(0, |p| p as u64 + 1);
        nodes.push([
            parent,
            name as u64,
            node.category.index() as u64,
            node.total_ns,
            node.self_ns,
            node.count,
        ]);
    }
    json!({ "names": names, "nodes": nodes })
}

fn timeline_html(out: &mut String, columns: &TimelineData) {
    out.push_str(
        "<section aria-labelledby=\"h-time\"><h2 id=\"h-time\">Timeline</h2>\n<p class=\"tools\">\
         <button class=\"plain\" type=\"button\" id=\"in\">zoom in</button> \
         <button class=\"plain\" type=\"button\" id=\"out\">zoom out</button> \
         <button class=\"plain\" type=\"button\" id=\"all\">show all</button> \
         <label>Mark <input type=\"search\" id=\"mark\" autocomplete=\"off\" placeholder=\"part of a name\"></label></p>\n\
         <div id=\"timeline\" class=\"view\" tabindex=\"0\" role=\"application\" aria-label=\"timeline\" \
         aria-describedby=\"timeline-keys\"><div class=\"tall\"><canvas></canvas></div></div>\n\
         <p id=\"timeline-says\" class=\"says\" aria-live=\"polite\">&nbsp;</p>\n\
         <p id=\"timeline-keys\" class=\"soft\">Drag to move, Ctrl and wheel to zoom, double click to look at one span. \
         Keys: arrows move, + and − zoom, 0 shows all, n and p go to the next and previous span, Enter looks at it.</p>\n",
    );
    if columns.merged > 0 {
        let _ = writeln!(
            out,
            "<p class=\"soft\">{} spans that are too short to be seen are drawn together, as lighter boxes.</p>",
            count(columns.merged)
        );
    }
    out.push_str("<noscript><p class=\"care\">The timeline and the flame graph need the script of this page.</p></noscript></section>\n");
}

const FLAME: &str = "<section aria-labelledby=\"h-flame\"><h2 id=\"h-flame\">Flame graph</h2>\n\
<p class=\"soft\">Width is time, over all threads; below each call stands what it calls.</p>\n\
<div id=\"flame\" class=\"view\" tabindex=\"0\" role=\"application\" aria-label=\"flame graph\" aria-describedby=\"flame-keys\">\
<div class=\"tall\"><canvas></canvas></div></div>\n<p id=\"flame-says\" class=\"says\" aria-live=\"polite\">&nbsp;</p>\n\
<p id=\"flame-keys\" class=\"soft\">Click to look inside, click the outermost box to go back. Keys: arrows go to callers, calls and \
neighbours, Enter looks inside, Escape shows all.</p></section>\n";
