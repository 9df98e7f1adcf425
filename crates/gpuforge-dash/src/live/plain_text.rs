//! Plain-text rendering of a live view: the output of `gpuforge monitor --once`, and lines shared with the terminal UI.

use std::fmt::Write as _;

use super::{
    format::{bar, count, duration, level, size, time, truncate},
    machine_info::{HOW, MachineInfo},
    snapshot::{MemoryStatus, Snapshot},
    view::LiveView,
};

/// Maximum rows printed per list.
const MAX_PRINTED: usize = 10;

/// Title line: process and state.
pub fn title(view: &LiveView) -> String {
    let Some(s) = &view.snapshot else { return format!("no process · {}", view.state.word()) };
    let mut parts = vec![format!("{} (pid {})", s.command, s.pid), view.state.word().to_owned()];
    parts.push(format!("up {}", duration(s.uptime_ms as f64 / 1e3)));
    parts.extend(view.cores.map(|c| format!("{c:.1} cores")));
    parts.extend(view.cost_percent.map(|p| format!("cost {p:.2} %")));
    parts.join(" · ")
}

/// Line of a memory pool.
pub fn memory_line(memory: &MemoryStatus, view: &LiveView, cells: usize) -> String {
    let MemoryStatus { name, used, budget, pressure, cleanups, .. } = memory;
    let mut line = format!("{:<16} ", truncate(name, 16));
    match budget.filter(|b| *b > 0) {
        Some(budget) => {
            let share = *used as f64 / budget as f64;
            let _ = write!(line, "{} {:>3.0} %  ", bar(share, cells), share * 100.0);
            let _ = write!(line, "{} of {}", size(*used), size(budget));
        }
        None => line.push_str(&size(*used)),
    }
    if let Some(pressure) = pressure {
        let _ = write!(line, " · {pressure}");
    }
    if let Some(filling) = view.filling.iter().find(|f| f.name == *name) {
        let _ = write!(line, " · full in {}", duration(filling.full_in));
    }
    if let Some(n) = cleanups.filter(|n| *n > 0) {
        let _ = write!(line, " · {n} clean-ups");
    }
    line
}

/// Lines of the devices.
pub fn device_lines(snapshot: &Snapshot) -> Vec<String> {
    let line = |d: &super::snapshot::DeviceStatus| {
        let mut parts = vec![d.name.clone(), d.state.clone()];
        parts.extend(d.done.map(|n| format!("{} pieces", count(n as f64))));
        parts.extend(d.busy.map(|b| format!("busy {:.0} %", b * 100.0)));
        parts.extend(d.moved.map(|b| format!("moved {}", size(b))));
        parts.join(" · ")
    };
    snapshot.devices.iter().map(line).collect()
}

/// Heading of [`operation_lines`].
pub fn operation_heading(name: usize) -> String {
    format!("{:<name$} {:>9} {:>9} {:>9} {:>9}", "operation", "per s", "now", "usual", "in all")
}

/// Lines of the operations, with a name column of this width.
pub fn operation_lines(view: &LiveView, name: usize) -> Vec<String> {
    let Some(s) = &view.snapshot else { return Vec::new() };
    let line = |o: &super::snapshot::OperationStats| {
        let rate = view.rates.iter().find(|r| r.name == o.name);
        let speed = rate.and_then(|r| r.per_second).map_or("-".to_owned(), count);
        let now = rate.and_then(|r| r.mean_ns).map_or("-".to_owned(), time);
        let (usual, all) = (time(o.mean_ns), count(o.count as f64));
        format!("{:<name$} {speed:>9} {now:>9} {usual:>9} {all:>9}", truncate(&o.name, name))
    };
    s.operations.iter().map(line).collect()
}

/// A name and four numbers, in the columns of [`operation_lines`].
fn cells(name: usize, head: &str, [a, b, c, d]: [&str; 4]) -> String {
    format!("{:<name$} {a:>9} {b:>9} {c:>9} {d:>9}", truncate(head, name))
}

/// Lines of the counters with their rate, under a heading; empty without any.
pub fn counter_lines(view: &LiveView, name: usize) -> Vec<String> {
    let counters = view.snapshot.as_ref().map_or(&[][..], |s| &s.counters);
    let line = |c: &super::snapshot::CounterValue| {
        let speed = view.flows.iter().find(|r| r.name == c.name).and_then(|r| r.per_second);
        let (speed, all) = (speed.map_or("-".to_owned(), count), count(c.value as f64));
        cells(name, &c.name, [&speed, "", "", &all])
    };
    let heading = (!counters.is_empty()).then(|| cells(name, "counter", ["per s", "", "", "in all"]));
    heading.into_iter().chain(counters.iter().map(line)).collect()
}

/// Lines of the gauges with their range, under a heading; empty without any.
pub fn gauge_lines(view: &LiveView, name: usize) -> Vec<String> {
    let gauges = view.snapshot.as_ref().map_or(&[][..], |s| &s.gauges);
    let line = |g: &super::snapshot::GaugeValue| {
        let known = |x: Option<f64>| x.map_or("-".to_owned(), level);
        cells(name, &g.name, ["", &level(g.value), &known(g.least), &known(g.most)])
    };
    let heading = (!gauges.is_empty()).then(|| cells(name, "gauge", ["", "now", "least", "most"]));
    heading.into_iter().chain(gauges.iter().map(line)).collect()
}

/// Number of decisions, and how many were batch items.
pub fn decisions(snapshot: &Snapshot) -> String {
    let batched = match snapshot.batched {
        0 => String::new(),
        n => format!(", {} of them in batches", count(n as f64)),
    };
    format!("{} decisions{batched}", count(snapshot.routed as f64))
}

/// Lines of the decisions, the newest first.
pub fn routing_lines(view: &LiveView) -> Vec<String> {
    let Some(s) = &view.snapshot else { return Vec::new() };
    let line = |r: &super::snapshot::RoutingDecision| {
        let predicted = r.predicted_ns.map(|ns| format!(", predicted {}", time(ns as f64)));
        let took = time(r.wall_ns as f64);
        format!("{} → {}: {took}{}, {}", r.operation, r.place, predicted.unwrap_or_default(), r.reason)
    };
    s.routing.iter().rev().map(line).collect()
}

/// Renders a view as text.
pub fn text(view: &LiveView, machine: &MachineInfo) -> String {
    let mut out = format!("{}\n", title(view));
    let mut section = |head: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(out, "\n{head}");
            for line in lines.iter().take(MAX_PRINTED) {
                let _ = writeln!(out, "  {}", line.trim_end());
            }
        }
    };
    let Some(s) = &view.snapshot else {
        let devices: Vec<String> =
            machine.devices.iter().map(|r| format!("{}  {}", r.name, r.detail)).collect();
        section("This machine", &devices);
        section("How to attach", &HOW.map(str::to_owned));
        return out;
    };
    section("Devices", &device_lines(s));
    section("Memory", &s.memory.iter().map(|m| memory_line(m, view, 20)).collect::<Vec<_>>());
    let mut operations = operation_lines(view, 30);
    if !operations.is_empty() {
        operations.insert(0, operation_heading(30));
    }
    section("Operations", &operations);
    section("Counters", &counter_lines(view, 30));
    section("Gauges", &gauge_lines(view, 30));
    section(&format!("Routing ({})", decisions(s)), &routing_lines(view));
    let happened = |(at, level, text): &(u64, super::snapshot::EventLevel, String)| {
        format!("{:>7.1} s  {:<7}  {text}", *at as f64 / 1e3, level.word())
    };
    section("Events", &view.timeline().iter().rev().map(happened).collect::<Vec<_>>());
    out
}
