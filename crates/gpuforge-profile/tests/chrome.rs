//! Chrome trace export: every event is checked against the fields that the trace-event format requires of its phase.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test, like the tests themselves"
)]

use gpuforge_profile::{Category, Profiler, Trace};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Phase, fields it must have, fields it may have.
const PHASES: [(&str, &[&str], &[&str]); 5] = [
    ("X", &["name", "cat", "ph", "ts", "dur", "pid", "tid"], &["args"]),
    ("b", &["name", "cat", "ph", "ts", "pid", "tid", "id"], &[]),
    ("e", &["name", "cat", "ph", "ts", "pid", "tid", "id"], &[]),
    ("C", &["name", "ph", "ts", "pid", "tid", "args"], &[]),
    ("M", &["name", "ph", "ts", "pid", "tid", "args"], &[]),
];

fn sample() -> Trace {
    let profiler = Profiler::new();
    profiler.enable();
    let worker = profiler.clone();
    let named = std::thread::Builder::new().name("worker".to_owned());
    let work = move || {
        let _step = worker.span("step", Category::Cpu);
        for _ in 0..3 {
            let mut copy = worker.span("copy", Category::Transfer);
            copy.bytes(64);
            drop(worker.span("launch", Category::Overhead));
        }
    };
    named.spawn(work).unwrap().join().unwrap();
    profiler.scope("wait", Category::Wait, || profiler.counter("bytes").add(7));
    profiler.gauge("used").set(0.25);
    let track = profiler.track("gpu 0");
    profiler.record("kernel", Category::Gpu, Instant::now(), Duration::from_nanos(1234), track);
    profiler.drain()
}

fn events(trace: &Trace) -> Vec<Value> {
    let file: Value = serde_json::from_str(&trace.to_chrome().unwrap()).unwrap();
    assert_eq!(file["displayTimeUnit"], "ns");
    assert!(file["otherData"].is_object());
    file["traceEvents"].as_array().unwrap().clone()
}

/// Checks one event; returns its phase.
fn check(event: &Value) -> &str {
    let phase = event["ph"].as_str().unwrap();
    let (_, must, may) = PHASES.iter().find(|row| row.0 == phase).unwrap_or_else(|| panic!("{event}"));
    let fields: BTreeSet<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(must.iter().all(|field| fields.contains(field)), "{event}");
    assert!(fields.iter().all(|field| must.contains(field) || may.contains(field)), "{event}");
    assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
    assert!(event["ts"].as_f64().is_some_and(|ts| ts >= 0.0), "{event}");
    match phase {
        "X" => assert!(event["dur"].as_f64().is_some_and(|dur| dur >= 0.0), "{event}"),
        "C" => assert!(event["args"].as_object().unwrap().values().all(Value::is_number), "{event}"),
        "M" if event["name"] == "thread_sort_index" => assert!(event["args"]["sort_index"].is_u64()),
        "M" => assert!(event["args"]["name"].is_string(), "{event}"),
        _ => assert!(event["id"].is_string(), "{event}"),
    }
    phase
}

#[test]
fn every_event_has_the_fields_of_its_phase() {
    let trace = sample();
    let events = events(&trace);
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &events {
        *phases.entry(check(event)).or_default() += 1;
        assert_eq!(event["pid"], trace.process.pid);
    }
    assert_eq!(phases["X"], trace.spans.len());
    assert!(phases["C"] >= 4 && phases["M"] == 1 + 2 * trace.tracks.len(), "{phases:?}");
    // Each tid that has events has a name.
    let named = |tid: &Value| {
        events.iter().any(|e| e["name"] == "thread_name" && e["tid"] == *tid && e["args"]["name"].is_string())
    };
    assert!(events.iter().filter(|e| e["ph"] == "X").all(|e| named(&e["tid"])));
    assert!(
        events.iter().any(|e| e["args"]["name"] == "worker")
            && events.iter().any(|e| e["args"]["name"] == "gpu 0")
    );
    let kernel = events.iter().find(|e| e["name"] == "kernel").unwrap();
    assert_eq!((&kernel["dur"], &kernel["cat"]), (&Value::from(1.234), &Value::from("gpu")));
    let copy = events.iter().find(|e| e["name"] == "copy").unwrap();
    assert_eq!(copy["args"]["bytes"], 64);
}

#[test]
fn complete_events_of_a_track_nest() {
    let trace = sample();
    let mut open: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let nanos = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    for event in events(&trace).iter().filter(|event| event["ph"] == "X") {
        let (start, end) = (nanos(&event["ts"]), nanos(&event["ts"]) + nanos(&event["dur"]));
        let stack = open.entry(event["tid"].as_u64().unwrap()).or_default();
        while stack.pop_if(|top| top.1 <= start).is_some() {}
        if let Some(top) = stack.last() {
            assert!(top.0 <= start && end <= top.1, "{event} sticks out of {top:?}");
        }
        stack.push((start, end));
    }
    // Viewers find the depth by containment; it is the depth we recorded.
    let depths: Vec<_> = trace.spans.iter().map(|s| (trace.name(s.name), s.depth)).collect();
    let step =
        [("step", 0), ("copy", 1), ("launch", 2), ("copy", 1), ("launch", 2), ("copy", 1), ("launch", 2)];
    assert_eq!(depths.iter().filter(|d| d.0 != "wait" && d.0 != "kernel").copied().collect::<Vec<_>>(), step);
}

#[test]
fn async_spans_are_pairs_with_unique_ids() {
    let profiler = Profiler::global();
    profiler.enable();
    let (a, b) = (gpuforge_profile::async_span!("a"), gpuforge_profile::async_span!("b"));
    drop(a);
    drop(b);
    let events = events(&profiler.drain());
    let mut ids: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| ["b", "e"].contains(&check(event))) {
        let id = event["id"].as_str().unwrap().to_owned();
        ids.entry(id)
            .or_default()
            .push((event["ph"].as_str().unwrap().to_owned(), event["ts"].as_f64().unwrap()));
    }
    assert_eq!(ids.len(), 2);
    for pair in ids.values() {
        assert!(matches!(&pair[..], [(b, from), (e, to)] if b == "b" && e == "e" && from <= to), "{pair:?}");
    }
}

#[test]
fn empty_trace_is_a_valid_file() {
    let events = events(&Profiler::new().drain());
    assert_eq!(events.len(), 1);
    assert_eq!(check(&events[0]), "M");
}
