//! Prometheus text exposition format, version 0.0.4, of a live view; pure.

use std::fmt::Write as _;

use super::view::{AnomalyReference, ConnectionState, LiveView};

/// Content type of [`metrics`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One metric: name, type, help, and values by labels.
struct Metric<'a> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    values: Vec<(Vec<(&'static str, &'a str)>, f64)>,
}

/// All metrics of a view; unknown values are left out.
pub fn metrics(view: &LiveView) -> String {
    let mut out = String::new();
    for metric in table(view).into_iter().filter(|m| !m.values.is_empty()) {
        let Metric { name, kind, help, values } = metric;
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in values {
            let labels: Vec<String> =
                labels.iter().map(|(k, v)| format!("{k}=\"{}\"", escape_label(v))).collect();
            let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(out, "{name}{braces} {value}");
        }
    }
    out
}

fn escape_label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn table(view: &LiveView) -> Vec<Metric<'_>> {
    let metric = |name, kind, help, values| Metric { name, kind, help, values };
    let one = |value: Option<f64>| value.map(|v| (Vec::new(), v)).into_iter().collect::<Vec<_>>();
    let live = f64::from(u8::from(view.state == ConnectionState::Live));
    let up = metric("gpuforge_up", "gauge", "1 while a monitored process sends snapshots.", one(Some(live)));
    let Some(s) = &view.snapshot else { return vec![up] };
    let ops = |pick: fn(&super::snapshot::OperationStats) -> f64| {
        s.operations.iter().map(|o| (vec![("operation", o.name.as_str())], pick(o))).collect()
    };
    let memory = |pick: fn(&super::snapshot::MemoryStatus) -> Option<f64>| {
        s.memory.iter().filter_map(|m| Some((vec![("memory", m.name.as_str())], pick(m)?))).collect()
    };
    let device = |pick: fn(&super::snapshot::DeviceStatus) -> Option<f64>| {
        s.devices.iter().filter_map(|d| Some((vec![("device", d.name.as_str())], pick(d)?))).collect()
    };
    let counters = s.counters.iter().map(|c| (vec![("name", c.name.as_str())], c.value as f64)).collect();
    let gauges = s.gauges.iter().map(|g| (vec![("name", g.name.as_str())], g.value)).collect();
    let full = view.filling.iter().map(|f| (vec![("memory", f.name.as_str())], f.full_in)).collect();
    let unusual = |against: AnomalyReference| {
        let count = view.anomalies.iter().filter(|a| a.against == against).count();
        let word = if against == AnomalyReference::History { "history" } else { "prediction" };
        (vec![("against", word)], count as f64)
    };
    vec![
        up,
        metric(
            "gpuforge_process_id",
            "gauge",
            "Which process.",
            vec![(vec![("command", s.command.as_str())], f64::from(s.pid))],
        ),
        metric(
            "gpuforge_uptime_seconds",
            "gauge",
            "Time since publishing began.",
            one(Some(s.uptime_ms as f64 / 1e3)),
        ),
        metric(
            "gpuforge_cpu_seconds_total",
            "counter",
            "CPU time of the process.",
            one(s.cpu_ms.map(|ms| ms as f64 / 1e3)),
        ),
        metric("gpuforge_operations_total", "counter", "Spans that ended, by name.", ops(|o| o.count as f64)),
        metric(
            "gpuforge_operation_seconds_total",
            "counter",
            "Time in spans, by name.",
            ops(|o| o.total_ns as f64 / 1e9),
        ),
        metric("gpuforge_decisions_total", "counter", "Routing decisions.", one(Some(s.routed as f64))),
        metric(
            "gpuforge_batch_items_total",
            "counter",
            "Routing decisions of items of batches.",
            one(Some(s.batched as f64)),
        ),
        metric("gpuforge_counter_total", "counter", "Counters of the profiler, by name.", counters),
        metric("gpuforge_gauge", "gauge", "Gauges of the profiler, by name.", gauges),
        metric("gpuforge_memory_used_bytes", "gauge", "Bytes held.", memory(|m| Some(m.used as f64))),
        metric(
            "gpuforge_memory_budget_bytes",
            "gauge",
            "Bytes that may be held.",
            memory(|m| m.budget.map(|b| b as f64)),
        ),
        metric(
            "gpuforge_memory_pressure",
            "gauge",
            "0 low, 1 moderate, 2 high, 3 critical.",
            memory(|m| level(m.pressure.as_deref()?)),
        ),
        metric(
            "gpuforge_memory_full_seconds",
            "gauge",
            "Seconds until a growing memory reaches its budget.",
            full,
        ),
        metric(
            "gpuforge_device_pieces_total",
            "counter",
            "Pieces of work done.",
            device(|d| d.done.map(|n| n as f64)),
        ),
        metric(
            "gpuforge_device_moved_bytes_total",
            "counter",
            "Bytes moved to and from it.",
            device(|d| d.moved.map(|n| n as f64)),
        ),
        metric(
            "gpuforge_anomalies",
            "gauge",
            "Unusual operation times that are shown now.",
            vec![unusual(AnomalyReference::History), unusual(AnomalyReference::Prediction)],
        ),
        metric(
            "gpuforge_monitor_cpu_seconds_total",
            "counter",
            "CPU time of publishing.",
            one(s.cost.cpu_ns.map(|ns| ns as f64 / 1e9)),
        ),
    ]
}

fn level(word: &str) -> Option<f64> {
    ["low", "moderate", "high", "critical"].iter().position(|w| *w == word).map(|i| i as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::snapshot::{CounterValue, GaugeValue, MemoryStatus, OperationStats, Snapshot};

    #[test]
    fn values_have_a_type_and_labels_are_escaped() {
        let operation =
            OperationStats { name: "a\"b\\c\nd".into(), count: 3, total_ns: 1_500_000_000, mean_ns: 0.0 };
        let memory = MemoryStatus {
            name: "gpu".into(),
            used: 10,
            budget: None,
            pressure: Some("high".into()),
            ..MemoryStatus::default()
        };
        let snapshot = Snapshot {
            operations: vec![operation],
            memory: vec![memory],
            counters: vec![CounterValue { name: "bytes \"up\"".into(), value: 9 }],
            gauges: vec![GaugeValue { name: "load".into(), value: -0.5, ..GaugeValue::default() }],
            routed: 7,
            batched: 5,
            ..Snapshot::default()
        };
        let text = metrics(&LiveView { snapshot: Some(snapshot), ..LiveView::default() });
        assert!(text.contains("gpuforge_operations_total{operation=\"a\\\"b\\\\c\\nd\"} 3\n"), "{text}");
        assert!(text.contains("gpuforge_operation_seconds_total{operation=\"a\\\"b\\\\c\\nd\"} 1.5\n"));
        assert!(text.contains("gpuforge_memory_pressure{memory=\"gpu\"} 2\n"));
        assert!(text.contains("gpuforge_counter_total{name=\"bytes \\\"up\\\"\"} 9\n"), "{text}");
        assert!(text.contains("gpuforge_gauge{name=\"load\"} -0.5\n"));
        assert!(
            text.contains("gpuforge_decisions_total 7\n") && text.contains("gpuforge_batch_items_total 5\n")
        );
        assert!(!text.contains("budget"), "what is not known is left out: {text}");
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        assert_eq!(
            metrics(&LiveView::default()),
            "# HELP gpuforge_up 1 while a monitored process sends snapshots.\n# TYPE gpuforge_up gauge\ngpuforge_up 0\n"
        );
    }
}
