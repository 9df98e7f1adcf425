//! `gpuforge indicators … --explain`: execution plan as text: placement and reason, stages, transfers, predicted and measured
//! times.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Result;
use gpuforge::{
    frame::{
        BarsBatch,
        column_roles::Role,
        read::{Input, ReadOptions, Reader},
    },
    indicators_gpu::{
        DeviceChoice,
        explain::{ExecExplanation, KernelCall},
    },
    market::MarketReport,
};

use crate::{
    bars::frame_error,
    format::{escape_control, plural, size, width, wrap},
    output::HEAD,
};

/// Bars of each series of the input.
pub(super) fn shape(input: &Input, options: ReadOptions<'_>) -> Result<Vec<usize>> {
    let options = ReadOptions { needed: vec![Role::Close], ..options };
    let mut reader = Reader::open(input, options).map_err(frame_error)?;
    let mut lengths = Vec::new();
    for portion in reader.batches().map_err(frame_error)? {
        match portion.map_err(frame_error)? {
            BarsBatch::Complete(all) => lengths.extend(all.iter().map(gpuforge::frame::Bars::len)),
            BarsBatch::Segment { bars, first: true, .. } => lengths.push(bars.len()),
            BarsBatch::Segment { bars, .. } => {
                lengths.iter_mut().rev().take(1).for_each(|n| *n += bars.len())
            }
        }
    }
    Ok(lengths)
}

/// The shape of a finished run: its series, taken as equally long.
pub(super) fn even(report: &MarketReport) -> Vec<usize> {
    let each = usize::try_from(report.rows).unwrap_or(usize::MAX) / report.symbols.max(1);
    vec![each; report.symbols]
}

/// The plan as text; after a run, also the measured times.
pub(super) fn text(plan: &ExecExplanation, report: Option<&MarketReport>) -> String {
    let place = if plan.decision.place == DeviceChoice::Gpu { "the device" } else { "the CPU" };
    let mut out =
        format!("{HEAD}on {place}{HEAD:#}: {}\n", escape_control(&plan.decision.reason.to_string()));
    let mut line = |text: &str| out.push_str(&wrap(text, 2, width()));
    line(&format!("{} of {} series", plural(plan.bars, "bar"), plan.series));
    if let Some(device) = &plan.device {
        line(&format!("device: {}", escape_control(device)));
    }
    let supported = plan.columns.iter().filter(|c| c.on_device).count() as u64;
    line(&format!("columns: {} of {} supported on a device", supported, plan.columns.len()));
    for (why, names) in cpu_columns(plan) {
        line(&format!("on the CPU: {}: {why}", names.join(", ")));
    }
    if supported > 0 {
        lowered(plan, &mut line);
    }
    times(plan, &mut line);
    if let Some(report) = report {
        measured(report, &mut line);
    }
    out
}

/// Columns computed on the CPU, by reason.
fn cpu_columns(plan: &ExecExplanation) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for column in plan.columns.iter().filter(|c| !c.on_device) {
        reasons.entry(column.reason.unwrap_or("not known")).or_default().push(&column.column);
    }
    reasons
}

fn lowered(plan: &ExecExplanation, line: &mut impl FnMut(&str)) {
    line(&format!(
        "graph: {} nodes in {}; {} generated; {} columns written, {} if nothing were fused",
        plan.nodes,
        plural(plan.stages.len() as u64, "stage"),
        plural(plan.fused_groups as u64, "fused group"),
        plan.written,
        plan.unfused,
    ));
    for (at, calls) in plan.stages.iter().enumerate() {
        let each: Vec<String> =
            calls.iter().map(|KernelCall { kernel, values }| format!("{kernel} ×{values}")).collect();
        line(&format!("stage {}: {}", at + 1, each.join(", ")));
    }
    if let Some(workload) = &plan.workload {
        line(&format!(
            "{} up, {} down; {}, {}, {} to compile; {} of device memory",
            size(workload.up),
            size(workload.down),
            plural(workload.batches, "submission"),
            plural(workload.dispatches, "kernel call"),
            plural(workload.pipelines, "pipeline"),
            size(workload.memory),
        ));
    }
}

fn times(plan: &ExecExplanation, line: &mut impl FnMut(&str)) {
    if let Some(seconds) = plan.cpu_seconds {
        line(&format!("predicted on the CPU: {}", time(seconds)));
    }
    let Some(gpu) = &plan.gpu else { return };
    let p = &gpu.parts;
    let named = [
        ("opening", p.open),
        ("compiling", p.pipelines),
        ("upload", p.upload),
        ("calls", p.dispatch),
        ("kernels", p.compute),
        ("download", p.download),
    ];
    let parts: Vec<String> =
        named.iter().filter(|(_, s)| *s > 0.0).map(|(what, s)| format!("{what} {}", time(*s))).collect();
    let mut text = format!("predicted on the device: {} ({})", time(gpu.total), parts.join(", "));
    if gpu.beside > 0.0 {
        let _ = write!(text, "; concurrently on the CPU: {}", time(gpu.beside));
    }
    line(&text);
}

fn measured(report: &MarketReport, line: &mut impl FnMut(&str)) {
    let done = &report.placed;
    if done.groups.cpu > 0 {
        let groups = plural(done.groups.cpu, "group");
        line(&format!("measured on the CPU: {} for {groups}", time(done.measured.cpu)));
    }
    if done.groups.gpu > 0 {
        let groups = plural(done.groups.gpu, "group");
        let own = done.device_seconds.map_or(String::new(), |s| format!(", {} of it kernels", time(s)));
        line(&format!("measured on the device: {} for {groups}{own}", time(done.measured.gpu)));
        line(&format!(
            "{} up, {} down, {} dispatches; at most {} per batch",
            size(done.uploaded),
            size(done.downloaded),
            done.dispatches,
            size(done.peak)
        ));
    }
    for event in &done.events {
        line(&format!("event: {}", escape_control(event)));
    }
}

/// `12.3 ms`, `1.24 s`.
fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!([time(1.239), time(0.0123), time(4.2e-5)], ["1.24 s", "12.3 ms", "42 µs"]);
    }
}
