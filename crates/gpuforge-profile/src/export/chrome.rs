//! Chrome trace export: trace-event JSON for ui.perfetto.dev and chrome://tracing, written in a streaming fashion.
//!
//! Spans are complete events (`X`), which viewers nest by time; async spans, which overlap, are pairs (`b`, `e`) with an
//! id; counters and gauges are `C`; process and track names are metadata (`M`). Times are microseconds with nanoseconds
//! as their fraction.

use crate::trace::{SpanRecord, Trace, TrackInfo, TrackKind};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::{Map, Value, json};
use std::io::Write;

/// One trace event; which fields are there depends on `ph`.
#[derive(Serialize)]
struct TraceEvent<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    ph: &'static str,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn arguments<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    display_time_unit: &'static str,
    other_data: Map<String, Value>,
    trace_events: TraceEvents<'a>,
}

struct TraceEvents<'a>(&'a Trace);

impl Serialize for TraceEvents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = self.0;
        let mut out = serializer.serialize_seq(None)?;
        out.serialize_element(&metadata(trace, 0, "process_name", json!("gpuforge")))?;
        for (index, track) in trace.tracks.iter().enumerate() {
            out.serialize_element(&metadata(trace, track.id, "thread_name", json!(label(track))))?;
            out.serialize_element(&sort_index(trace, track.id, index))?;
        }
        for (index, span) in trace.spans.iter().enumerate() {
            match trace.kind_of(span) {
                Some(TrackKind::Async) => {
                    out.serialize_element(&edge(trace, index, span, "b", span.start_ns))?;
                    out.serialize_element(&edge(trace, index, span, "e", span.end_ns()))?;
                }
                _ => out.serialize_element(&complete(trace, span))?,
            }
        }
        for counter in &trace.counters {
            for (at, value) in &counter.samples {
                out.serialize_element(&sample(trace, counter.name, *at, json!(value)))?;
            }
        }
        for gauge in &trace.gauges {
            for (at, value) in &gauge.samples {
                out.serialize_element(&sample(trace, gauge.name, *at, json!(value)))?;
            }
        }
        out.end()
    }
}

fn label(track: &TrackInfo) -> String {
    match (&track.name, track.kind) {
        (Some(name), _) => name.clone(),
        (None, TrackKind::Thread) => format!("thread {}", track.id),
        (None, _) => format!("track {}", track.id),
    }
}

fn plain<'a>(trace: &Trace, name: &'a str, ph: &'static str, ns: u64) -> TraceEvent<'a> {
    let (ts, pid) = (micros(ns), trace.process.pid);
    TraceEvent { name, cat: None, ph, ts, dur: None, pid, tid: 0, id: None, args: Map::new() }
}

fn metadata<'a>(trace: &Trace, tid: u32, what: &'a str, name: Value) -> TraceEvent<'a> {
    TraceEvent { tid, args: arguments([("name", name)]), ..plain(trace, what, "M", 0) }
}

fn sort_index(trace: &Trace, tid: u32, index: usize) -> TraceEvent<'static> {
    TraceEvent {
        tid,
        args: arguments([("sort_index", json!(index))]),
        ..plain(trace, "thread_sort_index", "M", 0)
    }
}

fn tid(trace: &Trace, span: &SpanRecord) -> u32 {
    trace.tracks.get(span.track as usize).map_or(0, |track| track.id)
}

fn complete<'a>(trace: &'a Trace, span: &SpanRecord) -> TraceEvent<'a> {
    let args = span.bytes.map_or_else(Map::new, |bytes| arguments([("bytes", json!(bytes))]));
    TraceEvent {
        cat: Some(span.category.as_str()),
        dur: Some(micros(span.duration_ns)),
        tid: tid(trace, span),
        args,
        ..plain(trace, trace.name(span.name), "X", span.start_ns)
    }
}

fn edge<'a>(trace: &'a Trace, index: usize, span: &SpanRecord, ph: &'static str, ns: u64) -> TraceEvent<'a> {
    TraceEvent {
        cat: Some(span.category.as_str()),
        tid: tid(trace, span),
        id: Some(format!("0x{index:x}")),
        ..plain(trace, trace.name(span.name), ph, ns)
    }
}

fn sample(trace: &Trace, name: u32, at: u64, value: Value) -> TraceEvent<'_> {
    TraceEvent { args: arguments([("value", value)]), ..plain(trace, trace.name(name), "C", at) }
}

impl Trace {
    /// Writes the trace in the trace-event format, for ui.perfetto.dev and chrome://tracing.
    pub fn write_chrome(&self, out: impl Write) -> Result<(), serde_json::Error> {
        let other_data = arguments([
            ("clock", json!(self.clock.source)),
            ("dropped", json!(self.dropped)),
            ("trace_version", json!(self.version)),
        ]);
        let trace_events = TraceEvents(self);
        serde_json::to_writer(out, &File { display_time_unit: "ns", other_data, trace_events })
    }

    /// The trace in the trace-event format.
    pub fn to_chrome(&self) -> Result<String, serde_json::Error> {
        let mut out = Vec::new();
        self.write_chrome(&mut out)?;
        // JSON is UTF-8; a replacement character could only come from a bug of the writer.
        Ok(String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
