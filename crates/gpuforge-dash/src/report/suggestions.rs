//! Suggestions: rules over the report's statistics, each with its evidence.

use gpuforge_profile::{Category, Trace};
use serde::Serialize;

use super::{
    trace_report::{SpanRow, TraceReport},
    units::{count, percent, size, time},
};
use crate::trace::conventions;

/// A suggestion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Stable rule id.
    pub rule: &'static str,
    /// Advice.
    pub advice: String,
    /// Evidence.
    pub evidence: String,
}

type Rule = fn(&TraceReport, &Trace) -> Option<(String, String)>;

/// All rules, in display order.
const RULES: [(&str, Rule); 12] = [
    ("recovered", recovered),
    ("incomplete", incomplete),
    ("resident", resident),
    ("transfer", transfer),
    ("start", start),
    ("small", small),
    ("wait", wait),
    ("memory", memory),
    ("predictions", predictions),
    ("hot", hot),
    ("uneven", uneven),
    ("tiny", tiny),
];

/// Applies all rules.
pub(super) fn all(report: &TraceReport, trace: &Trace) -> Vec<Suggestion> {
    let ask = |(rule, ask): &(&'static str, Rule)| {
        let (advice, evidence) = ask(report, trace)?;
        Some(Suggestion { rule, advice, evidence })
    };
    RULES.iter().filter_map(ask).collect()
}

/// Fraction and time of a category, if the fraction is at least `least`.
fn share(report: &TraceReport, category: Category, least: f64) -> Option<(f64, u64)> {
    let part = report.part(category)?;
    Some((part.share.filter(|share| *share >= least)?, part.self_ns?))
}

fn calls(n: u64) -> String {
    format!("{} call{}", count(n), if n == 1 { "" } else { "s" })
}

fn counter(trace: &Trace, name: &str) -> u64 {
    trace.counter(name).map_or(0, |counter| counter.value)
}

fn recovered(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let first = report.recovered.first()?;
    let n = report.recovered.len() as u64;
    let advice = "a device failed and the work was repeated or moved: ask `gpuforge doctor`".to_owned();
    Some((advice, format!("{} recovery events, the first: {}", count(n), first.what)))
}

fn incomplete(report: &TraceReport, trace: &Trace) -> Option<(String, String)> {
    let all = report.dropped.saturating_add(report.spans);
    (report.dropped > 0).then_some(())?;
    let worst =
        trace.tracks.iter().max_by_key(|t| t.dropped).and_then(|t| t.name.as_deref()).unwrap_or("a thread");
    let advice = "the beginning is missing: record a shorter run, or give threads larger rings \
                  (Profiler::set_ring_records)";
    let lost = percent(report.dropped as f64 / all as f64);
    Some((advice.to_owned(), format!("{} of the records were lost, most of them of {worst}", lost)))
}

fn resident(_: &TraceReport, trace: &Trace) -> Option<(String, String)> {
    let again = counter(trace, conventions::UPLOADED_AGAIN);
    let all = counter(trace, conventions::UPLOADED).max(again);
    let part = again as f64 / all.max(1) as f64;
    (part >= 0.1).then(|| {
        let advice =
            "keep tensors on the device between operations instead of reading them back (Options::stays)";
        let (again, all) = (size(again as f64), size(all as f64));
        let evidence = format!(
            "{again} of {all} that were uploaded ({}) had come from the device before",
            percent(part)
        );
        (advice.to_owned(), evidence)
    })
}

fn transfer(report: &TraceReport, trace: &Trace) -> Option<(String, String)> {
    let (part, ns) = share(report, Category::Transfer, 0.3)?;
    let (up, down) = (counter(trace, conventions::UPLOADED), counter(trace, conventions::DOWNLOADED));
    let moved = match up + down {
        0 => String::new(),
        _ => format!("; {} up, {} down", size(up as f64), size(down as f64)),
    };
    let advice = "more work per byte that is moved: larger fused operations, or data that stays where it is";
    Some((
        advice.to_owned(),
        format!("{} of the measured time ({}) is transfers{moved}", percent(part), time(ns)),
    ))
}

/// Startup spans, once per process.
const STARTUP: [&str; 2] = ["open the device", "compile"];

fn start(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let wall = report.wall_ns.filter(|wall| *wall > 0)?;
    let all: u64 = STARTUP.iter().filter_map(|name| report.row(name)).map(|row| row.stats.total_ns).sum();
    let part = all as f64 / wall as f64;
    (part >= 0.2).then(|| {
        let advice =
            "starting the device is much of the run: do more in one process, or leave small runs to the CPU";
        (
            advice.to_owned(),
            format!("{} of {} ({}) went into opening and compiling", time(all), time(wall), percent(part)),
        )
    })
}

fn small(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let (part, _) = share(report, Category::Overhead, 0.25)?;
    let row = report.row("submit").filter(|row| row.stats.count >= 100)?;
    let n = row.stats.count;
    let advice = "many small launches: run them as one batch (Forge::batch)";
    let each = time(row.stats.mean_ns as u64);
    let evidence = format!(
        "{} of the measured time is the runtime's own; {} launches of {each} on average",
        percent(part),
        count(n)
    );
    Some((advice.to_owned(), evidence))
}

fn wait(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let (part, ns) = share(report, Category::Wait, 0.5)?;
    let top = report.rows.iter().find(|row| row.category == Category::Wait)?;
    let advice =
        "threads mostly wait: prepare the next piece while the device works, or give it larger pieces";
    let most = percent(top.stats.self_ns? as f64 / ns.max(1) as f64);
    let evidence =
        format!("{} of the measured time is waiting, {most} of it in `{}`", percent(part), top.stats.name);
    Some((advice.to_owned(), evidence))
}

fn memory(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let part = |m: &conventions::DeviceMemory| m.budget_bytes.map(|budget| m.peak_bytes / budget);
    let full = |m: &&conventions::DeviceMemory| part(m).is_some_and(|part| part >= 0.9);
    let m = report.memory.iter().find(full)?;
    let n = report.clean_ups.len() as u64;
    let (peak, budget) = (size(m.peak_bytes), size(m.budget_bytes?));
    let advice = "memory was nearly full: smaller pieces, or a higher --memory-limit".to_owned();
    Some((advice, format!("{peak} of {budget} were in use on {}; {} clean-ups", m.device, count(n))))
}

fn predictions(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let wrong = |row: &&conventions::RoutingStats| {
        row.runs >= 5 && row.ratio().is_some_and(|r| !(0.5..=2.0).contains(&r))
    };
    let row = report.routed.iter().find(wrong)?;
    let advice = "predictions are off: measure this machine again with `gpuforge calibrate`".to_owned();
    let ratio = row.ratio()?;
    let evidence = format!(
        "{} on {} took {ratio:.1} times what was predicted, over {} runs",
        row.operation,
        row.place,
        count(row.runs)
    );
    Some((advice, evidence))
}

fn hot(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let computes = |row: &&SpanRow| matches!(row.category, Category::Cpu | Category::Gpu);
    let row = report.rows.iter().find(computes)?;
    let part = row.stats.self_ns? as f64 / report.busy_ns().max(1) as f64;
    // A run with one span name has nothing to compare with.
    (part >= 0.5 && report.rows.len() > 1).then(|| {
        let advice = format!("look at `{}` first: put spans inside it to see more", row.stats.name);
        (advice, format!("{} of the measured time is its own, {}", percent(part), calls(row.stats.count)))
    })
}

fn uneven(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let spread = |row: &&SpanRow| {
        let s = &row.stats;
        // The slowest 1 % takes more than a third of its time, and it matters for the run.
        let tail = s.p99_ns.saturating_mul(s.count / 100) as f64;
        s.count >= 200
            && s.p99_ns >= s.p50_ns.saturating_mul(10)
            && tail * 3.0 >= s.total_ns as f64
            && row.share_of_wall.is_some_and(|share| share >= 0.05)
    };
    let row = report.rows.iter().find(spread)?;
    let advice = format!(
        "a few calls of `{}` are much slower than the others: look at them in the timeline",
        row.stats.name
    );
    let evidence = format!("median {}, 99th percentile {}", time(row.stats.p50_ns), time(row.stats.p99_ns));
    Some((advice, evidence))
}

fn tiny(report: &TraceReport, _: &Trace) -> Option<(String, String)> {
    let row = report.rows.iter().find(|row| row.stats.count >= 100_000 && row.stats.mean_ns < 500.0)?;
    let advice =
        format!("measuring `{}` costs as much as it takes: measure the loop around it", row.stats.name);
    Some((advice, format!("{} calls of {:.0} ns on average", count(row.stats.count), row.stats.mean_ns)))
}
