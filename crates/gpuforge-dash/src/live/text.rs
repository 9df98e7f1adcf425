//! How does one moment read as text? What `gpuforge monitor --once` prints.

use std::fmt::Write as _;

use super::{
    figures::{bar, count, cut, level, long, size, time},
    machine::{HOW, Machine},
    snapshot::{Memory, Snapshot},
    view::View,
};

/// Rows of a list that are worth printing.
const ROWS: usize = 10;

/// The title line: which process, and how it is.
pub fn title(view: &View) -> String {
    let Some(s) = &view.snapshot else { return format!("no process · {}", view.state.word()) };
    let mut parts = vec![format!("{} (pid {})", s.command, s.pid), view.state.word().to_owned()];
    parts.push(format!("up {}", long(s.uptime_ms as f64 / 1e3)));
    parts.extend(view.cores.map(|c| format!("{c:.1} cores")));
    parts.extend(view.cost_percent.map(|p| format!("cost {p:.2} %")));
    parts.join(" · ")
}

/// One line a memory.
pub fn memory_line(memory: &Memory, view: &View, cells: usize) -> String {
    let Memory { name, used, budget, pressure, cleanups, .. } = memory;
    let mut line = format!("{:<16} ", cut(name, 16));
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
        let _ = write!(line, " · full in {}", long(filling.full_in));
    }
    if let Some(n) = cleanups.filter(|n| *n > 0) {
        let _ = write!(line, " · {n} clean-ups");
    }
    line
}

/// One line a device.
pub fn device_lines(snapshot: &Snapshot) -> Vec<String> {
    let line = |d: &super::snapshot::Device| {
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

/// One line an operation, with a name of so many columns.
pub fn operation_lines(view: &View, name: usize) -> Vec<String> {
    let Some(s) = &view.snapshot else { return Vec::new() };
    let line = |o: &super::snapshot::Operation| {
        let rate = view.rates.iter().find(|r| r.name == o.name);
        let speed = rate.and_then(|r| r.per_second).map_or("-".to_owned(), count);
        let now = rate.and_then(|r| r.mean_ns).map_or("-".to_owned(), time);
        let (usual, all) = (time(o.mean_ns), count(o.count as f64));
        format!("{:<name$} {speed:>9} {now:>9} {usual:>9} {all:>9}", cut(&o.name, name))
    };
    s.operations.iter().map(line).collect()
}

/// A name and four figures, in the columns of [`operation_lines`].
fn cells(name: usize, head: &str, [a, b, c, d]: [&str; 4]) -> String {
    format!("{:<name$} {a:>9} {b:>9} {c:>9} {d:>9}", cut(head, name))
}

/// Counters with their speed, under a heading; nothing where there is none.
pub fn counter_lines(view: &View, name: usize) -> Vec<String> {
    let counters = view.snapshot.as_ref().map_or(&[][..], |s| &s.counters);
    let line = |c: &super::snapshot::Counter| {
        let speed = view.flows.iter().find(|r| r.name == c.name).and_then(|r| r.per_second);
        let (speed, all) = (speed.map_or("-".to_owned(), count), count(c.value as f64));
        cells(name, &c.name, [&speed, "", "", &all])
    };
    let heading = (!counters.is_empty()).then(|| cells(name, "counter", ["per s", "", "", "in all"]));
    heading.into_iter().chain(counters.iter().map(line)).collect()
}

/// Gauges with their range, under a heading; nothing where there is none.
pub fn gauge_lines(view: &View, name: usize) -> Vec<String> {
    let gauges = view.snapshot.as_ref().map_or(&[][..], |s| &s.gauges);
    let line = |g: &super::snapshot::Gauge| {
        let known = |x: Option<f64>| x.map_or("-".to_owned(), level);
        cells(name, &g.name, ["", &level(g.value), &known(g.least), &known(g.most)])
    };
    let heading = (!gauges.is_empty()).then(|| cells(name, "gauge", ["", "now", "least", "most"]));
    heading.into_iter().chain(gauges.iter().map(line)).collect()
}

/// How many decisions there were, and how many of them were items of batches.
pub fn decisions(snapshot: &Snapshot) -> String {
    let batched = match snapshot.batched {
        0 => String::new(),
        n => format!(", {} of them in batches", count(n as f64)),
    };
    format!("{} decisions{batched}", count(snapshot.routed as f64))
}

/// One line a decision, the newest first.
pub fn routing_lines(view: &View) -> Vec<String> {
    let Some(s) = &view.snapshot else { return Vec::new() };
    let line = |r: &super::snapshot::Routed| {
        let predicted = r.predicted_ns.map(|ns| format!(", predicted {}", time(ns as f64)));
        let took = time(r.wall_ns as f64);
        format!("{} → {}: {took}{}, {}", r.operation, r.place, predicted.unwrap_or_default(), r.reason)
    };
    s.routing.iter().rev().map(line).collect()
}

/// One moment as text.
pub fn text(view: &View, machine: &Machine) -> String {
    let mut out = format!("{}\n", title(view));
    let mut section = |head: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(out, "\n{head}");
            for line in lines.iter().take(ROWS) {
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
    let happened = |(at, level, text): &(u64, super::snapshot::Level, String)| {
        format!("{:>7.1} s  {:<7}  {text}", *at as f64 / 1e3, level.word())
    };
    section("Events", &view.happenings().iter().rev().map(happened).collect::<Vec<_>>());
    out
}
