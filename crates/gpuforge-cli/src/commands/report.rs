//! `gpuforge report TRACE`: summary of a trace in the terminal, as an HTML page, or as flame graph, CSV, JSON, trace events.

use std::{fmt::Write as _, io::Write as _, path::Path};

use anyhow::Result;
use gpuforge::{
    dash::{
        report::{FlameGraph, SpanRow, TraceReport, units},
        trace::{self, TraceFileError},
    },
    profile::Trace,
};
use serde_json::json;

use crate::{
    args::profiling::{self, ReportFormat},
    atomic_file,
    context::Context,
    error::Hinted,
    format::{dotted, escape_control, size, width, wrap},
    output::{CARE, DIM, HEAD},
};

pub(crate) fn run(args: &profiling::Report, context: &Context) -> Result<()> {
    let format = match (args.format, &args.output) {
        (None, None) => None,
        (Some(format), _) => Some(format),
        (None, Some(path)) => Some(format_of(path)?),
    };
    let trace = read(&args.trace)?;
    let Some(format) = format else {
        let report = TraceReport::of(&trace);
        return match context.out.json {
            true => context.out.json(&report),
            false => context.out.text(&summary(&report, args.top)),
        };
    };
    let bytes = export(&trace, format, &title(&args.trace))?;
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => write(path, &bytes, context),
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(&bytes)?;
            Ok(out.flush()?)
        }
    }
}

/// Reads a trace file.
pub(crate) fn read(path: &Path) -> Result<Trace> {
    let failed = |error: TraceFileError| Hinted::new(escape_control(&error.to_string()), error.hint());
    Ok(trace::read(path).map_err(failed)?)
}

/// Writes a report and prints its path.
fn write(path: &Path, bytes: &[u8], context: &Context) -> Result<()> {
    atomic_file::write(path, bytes)?;
    let length = bytes.len() as u64;
    if context.out.json {
        return context.out.json(&json!({ "output": path, "bytes": length }));
    }
    context.out.text(&format!("{} {DIM}({}){DIM:#}\n", path.display(), size(length)))
}

/// Title of a page: the file name of the trace.
pub(crate) fn title(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    format!("gpuforge report of {name}")
}

/// File extensions and their formats.
const EXTENSIONS: [(&str, ReportFormat); 8] = [
    (".trace.json", ReportFormat::Chrome),
    (".perfetto.json", ReportFormat::Chrome),
    (".json", ReportFormat::Json),
    (".html", ReportFormat::Html),
    (".htm", ReportFormat::Html),
    (".svg", ReportFormat::Svg),
    (".folded", ReportFormat::Folded),
    (".csv", ReportFormat::Csv),
];

fn format_of(path: &Path) -> Result<ReportFormat> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let found = EXTENSIONS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format);
    found.ok_or_else(|| {
        let what = format!("{}: unknown format", path.display());
        Hinted::usage(what, "end its name in .html, .svg, .folded, .csv or .json, or give --format").into()
    })
}

pub(crate) fn export(trace: &Trace, format: ReportFormat, title: &str) -> Result<Vec<u8>> {
    Ok(match format {
        ReportFormat::Html => TraceReport::of(trace).html(trace, title).into_bytes(),
        ReportFormat::Json => {
            let mut text = serde_json::to_vec_pretty(&TraceReport::of(trace))?;
            text.push(b'\n');
            text
        }
        ReportFormat::Chrome => trace.to_chrome()?.into_bytes(),
        ReportFormat::Folded => FlameGraph::of(trace).folded().into_bytes(),
        ReportFormat::Svg => FlameGraph::of(trace).svg(title).into_bytes(),
        ReportFormat::Csv => TraceReport::of(trace).csv().into_bytes(),
    })
}

/// Summary for the terminal.
pub(crate) fn summary(report: &TraceReport, top: usize) -> String {
    let mut out = format!("{HEAD}where the time went{HEAD:#}\n");
    let counted = |n: u64, one: &str| format!("{} {one}{}", units::count(n), if n == 1 { "" } else { "s" });
    let mut facts = vec![
        format!("wall time {}", report.wall_ns.map_or_else(|| "not known".to_owned(), units::time)),
        counted(report.spans, "span"),
        counted(report.threads, "thread"),
    ];
    facts.extend(report.devices.iter().map(|name| escape_control(name)));
    out.push_str(&dotted(&facts, 2, width()));
    if report.dropped > 0 {
        let _ = writeln!(out, "  {CARE}{} records were dropped{CARE:#}", units::count(report.dropped));
    }
    for part in &report.breakdown {
        let kind = part.category.as_str();
        let _ = match (part.self_ns, part.share) {
            (Some(ns), Some(share)) => {
                let bar = "█".repeat((share * 20.0).round() as usize);
                writeln!(
                    out,
                    "  {kind:<9} {:>9} {:>7}  {DIM}{bar}{DIM:#}",
                    units::time(ns),
                    units::percent(share)
                )
            }
            (Some(ns), None) => writeln!(out, "  {kind:<9} {:>9}", units::time(ns)),
            (None, _) => writeln!(out, "  {kind:<9} {DIM}{}{DIM:#}", part.note.unwrap_or("not measured")),
        };
    }
    names(&mut out, report, top);
    events(&mut out, report);
    if !report.suggestions.is_empty() {
        let _ = writeln!(out, "{HEAD}what to do{HEAD:#}");
        for suggestion in &report.suggestions {
            out.push_str(&wrap(&escape_control(&suggestion.advice), 2, width()));
            let _ = write!(out, "{DIM}{}{DIM:#}", wrap(&escape_control(&suggestion.evidence), 4, width()));
        }
    }
    out
}

fn names(out: &mut String, report: &TraceReport, top: usize) {
    let rows: Vec<&SpanRow> =
        report.rows.iter().filter(|row| row.stats.self_ns.is_some()).take(top).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "{HEAD}longest{HEAD:#} {DIM}(self time, share of wall, calls, median){DIM:#}");
    let room = width().saturating_sub(43).max(12);
    for row in rows {
        let s = &row.stats;
        let share = row.share_of_wall.map_or_else(String::new, units::percent);
        let name: String = escape_control(&s.name);
        let name = match name.char_indices().nth(room) {
            Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
            None => name,
        };
        let own = s.self_ns.map_or_else(String::new, units::time);
        let _ = writeln!(
            out,
            "  {own:>9} {share:>7} {:>9} {:>9}  {name}",
            units::count(s.count),
            units::time(s.p50_ns)
        );
    }
}

/// Memory, placement decisions and recovery events, a line each where there was any.
fn events(out: &mut String, report: &TraceReport) {
    for memory in &report.memory {
        let budget = memory.budget_bytes.map(|b| format!(" of {}", units::size(b))).unwrap_or_default();
        let line = format!(
            "memory of {}: peak {}{budget}",
            escape_control(&memory.device),
            units::size(memory.peak_bytes)
        );
        out.push_str(&wrap(&line, 2, width()));
    }
    if !report.routed.is_empty() {
        let runs: u64 = report.routed.iter().map(|r| r.runs).sum();
        let _ = writeln!(out, "  {} placement decisions; the page and --json list them", units::count(runs));
    }
    if !report.recovered.is_empty() {
        let _ =
            writeln!(out, "  {CARE}{} recovery events{CARE:#}", units::count(report.recovered.len() as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_selects_the_format() {
        for (name, want) in [
            ("a.html", Some(ReportFormat::Html)),
            ("A.HTM", Some(ReportFormat::Html)),
            ("a.json", Some(ReportFormat::Json)),
            ("a.perfetto.json", Some(ReportFormat::Chrome)),
            ("dir.svg/a.folded", Some(ReportFormat::Folded)),
            ("a", None),
            ("a.pdf", None),
        ] {
            assert_eq!(format_of(Path::new(name)).ok(), want, "{name}");
        }
    }
}
