//! Trace collection: raw ring records to a trace - ticks to nanoseconds, name ids to indices, tracks sorted.

use crate::{
    clock::{ClockInfo, Scale},
    name::text_of,
    recent,
    record::{Key, RecordKind, WORDS, unpack_bytes},
    self_time,
    state::{ASYNC_TRACK, ProfilerState, ThreadRecords},
    trace::{CounterSeries, GaugeSeries, ProcessInfo, SpanRecord, Trace, TrackInfo, TrackKind, VERSION},
};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// First id of device tracks, disjoint from thread ids.
const FIRST_DEVICE: u32 = 1 << 30;

/// Builds a trace of all records; with `take` they are consumed and the next trace starts after them.
pub(crate) fn trace(state: &ProfilerState, take: bool) -> Trace {
    let (batches, unattributed) = state.collect(take);
    let devices = state.thread_table().tracks.clone();
    let (scale, info, taken) = match state.clock() {
        Some(clock) => {
            let scale = clock.scale();
            (scale, clock.info(scale), clock.ns_of(Instant::now()))
        }
        None => (Scale::NANOSECONDS, never_enabled(), 0),
    };
    let mut builder = TraceBuilder::new(scale, devices);
    for batch in batches {
        builder.batch(batch);
    }
    builder.metrics(state, taken);
    let mut trace = builder.finish(info, taken, unattributed);
    if state.clock().is_some() {
        (trace.recent, trace.recent_missed) = recent::recent(state, scale);
    }
    trace
}

fn never_enabled() -> ClockInfo {
    ClockInfo {
        source: "none".to_owned(),
        ticks_per_second: None,
        reason: "the profiler was never switched on".to_owned(),
    }
}

struct TraceBuilder {
    scale: Scale,
    devices: Vec<Arc<str>>,
    names: Vec<String>,
    name_index: BTreeMap<u32, u32>,
    tracks: Vec<TrackInfo>,
    /// Index of a device track in `tracks`.
    track_index: BTreeMap<u16, u32>,
    spans: Vec<SpanRecord>,
    /// (time, value) by name and kind.
    samples: BTreeMap<(u32, bool), Vec<(u64, u64)>>,
    counters: Vec<CounterSeries>,
    gauges: Vec<GaugeSeries>,
}

impl TraceBuilder {
    fn new(scale: Scale, devices: Vec<Arc<str>>) -> Self {
        TraceBuilder {
            scale,
            devices,
            names: Vec::new(),
            name_index: BTreeMap::new(),
            tracks: Vec::new(),
            track_index: BTreeMap::new(),
            spans: Vec::new(),
            samples: BTreeMap::new(),
            counters: Vec::new(),
            gauges: Vec::new(),
        }
    }

    fn name(&mut self, id: u32) -> u32 {
        *self.name_index.entry(id).or_insert_with(|| {
            self.names.push(text_of(id).map_or_else(String::new, |text| (*text).to_owned()));
            last_index(self.names.len())
        })
    }

    fn track(&mut self, info: TrackInfo) -> u32 {
        self.tracks.push(info);
        last_index(self.tracks.len())
    }

    fn device(&mut self, number: u16) -> u32 {
        if let Some(index) = self.track_index.get(&number) {
            return *index;
        }
        let known = self.devices.get(usize::from(number).wrapping_sub(1));
        let (kind, name) = match number {
            ASYNC_TRACK => (TrackKind::Async, "async".to_owned()),
            _ => (
                TrackKind::Device,
                known.map_or_else(|| format!("track {number}"), |name| (**name).to_owned()),
            ),
        };
        let id = FIRST_DEVICE + u32::from(number);
        let index = self.track(TrackInfo { id, kind, name: Some(name), dropped: 0 });
        self.track_index.insert(number, index);
        index
    }

    fn batch(&mut self, batch: ThreadRecords) {
        let ThreadRecords { thread: id, name, records, dropped } = batch;
        let thread = self.track(TrackInfo { id, kind: TrackKind::Thread, name, dropped });
        self.spans.reserve(records.len());
        for record in records {
            self.record(thread, record);
        }
    }

    fn record(&mut self, thread: u32, [start, end, key, bytes]: [u64; WORDS]) {
        let Some(key) = Key::unpack(key) else { return };
        let RecordKind::Span(category) = key.kind else {
            let samples = self.samples.entry((key.name, key.kind == RecordKind::Gauge)).or_default();
            return samples.push((self.scale.at(start), end));
        };
        let (scale, track) = match key.track {
            0 => (self.scale, thread),
            number => (Scale::NANOSECONDS, self.device(number)),
        };
        let (start_ns, name) = (scale.at(start), self.name(key.name));
        self.spans.push(SpanRecord {
            name,
            track,
            category,
            depth: key.depth,
            start_ns,
            // From both ends, so that rounding never makes a child exceed its parent.
            duration_ns: scale.at(end).saturating_sub(start_ns),
            bytes: unpack_bytes(bytes),
        });
    }

    /// Counters and gauges with their samples sorted and the current value last.
    fn metrics(&mut self, state: &ProfilerState, taken: u64) {
        for metric in state.metrics() {
            let mut samples =
                self.samples.remove(&(metric.name, metric.kind == RecordKind::Gauge)).unwrap_or_default();
            samples.sort_unstable();
            samples.push((taken, metric.value()));
            let name = self.name(metric.name);
            match metric.kind {
                RecordKind::Gauge => {
                    let Some((min, max)) = metric.range() else { continue };
                    let samples = samples.into_iter().map(|(at, bits)| (at, f64::from_bits(bits))).collect();
                    let value = f64::from_bits(metric.value());
                    self.gauges.push(GaugeSeries { name, value, min, max, samples });
                }
                _ => {
                    // Two threads may sample in a different order than they added: keep the series monotonic.
                    let mut running_max = 0;
                    for (_, value) in &mut samples {
                        running_max = running_max.max(*value);
                        *value = running_max;
                    }
                    self.counters.push(CounterSeries { name, value: running_max, samples });
                }
            }
        }
    }

    fn finish(mut self, clock: ClockInfo, taken_ns: u64, unattributed: u64) -> Trace {
        let names = &self.names;
        let text = |index: u32| names.get(index as usize);
        self.counters.sort_by(|a, b| text(a.name).cmp(&text(b.name)));
        self.gauges.sort_by(|a, b| text(a.name).cmp(&text(b.name)));
        let mut trace = Trace {
            version: VERSION,
            clock,
            process: ProcessInfo {
                pid: std::process::id(),
                os: std::env::consts::OS.to_owned(),
                arch: std::env::consts::ARCH.to_owned(),
            },
            taken_ns,
            dropped: unattributed + self.tracks.iter().map(|track| track.dropped).sum::<u64>(),
            names: self.names,
            tracks: self.tracks,
            spans: self.spans,
            counters: self.counters,
            gauges: self.gauges,
            recent: Vec::new(),
            recent_missed: 0,
        };
        self_time::sort(&mut trace);
        trace
    }
}

/// Index of the element just appended.
fn last_index(length: usize) -> u32 {
    u32::try_from(length.saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{category::Category, name::Name};

    fn span(start: u64, end: u64, track: u16) -> [u64; WORDS] {
        let name = Name::new("collect::tests").id();
        [start, end, Key { name, kind: RecordKind::Span(Category::Cpu), depth: 0, track }.pack(), 0]
    }

    fn build(records: Vec<[u64; WORDS]>) -> Trace {
        let mut builder = TraceBuilder::new(Scale { zero: 1000, ns: 1, ticks: 2 }, vec!["gpu 0".into()]);
        builder.batch(ThreadRecords { thread: 1, name: None, records, dropped: 3 });
        builder.finish(never_enabled(), 9, 4)
    }

    #[test]
    fn backwards_clock_gives_duration_zero() {
        let trace = build(vec![span(1100, 1090, 0), span(10, 1200, 0)]);
        let times: Vec<_> = trace.spans.iter().map(|s| (s.start_ns, s.duration_ns)).collect();
        assert_eq!(times, [(0, 100), (50, 0)]);
        assert_eq!(trace.dropped, 7);
    }

    #[test]
    fn device_spans_are_in_nanoseconds_with_depth_by_containment() {
        let trace = build(vec![span(20, 30, 1), span(10, 50, 1), span(60, 61, 9), span(5, 6, ASYNC_TRACK)]);
        let kinds: Vec<_> = trace.tracks.iter().map(|t| (t.kind, t.name.as_deref())).collect();
        use TrackKind::{Async, Device, Thread};
        assert_eq!(
            kinds,
            [(Thread, None), (Device, Some("gpu 0")), (Device, Some("track 9")), (Async, Some("async"))]
        );
        let spans: Vec<_> = trace.spans.iter().map(|s| (s.track, s.start_ns, s.depth)).collect();
        assert_eq!(spans, [(1, 10, 0), (1, 20, 1), (2, 60, 0), (3, 5, 0)]);
    }

    #[test]
    fn unknown_record_kind_is_skipped() {
        assert_eq!(build(vec![[1, 2, 7 << 24, 0]]).spans, []);
    }
}
