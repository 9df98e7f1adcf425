//! How do raw records become a trace? Ticks turn into nanoseconds, ids into positions, and each track is put in order.

use crate::{
    clock::{ClockInfo, Scale},
    name::text_of,
    recent,
    record::{Key, Kind, WORDS, unpack_bytes},
    shared::{ASYNC_TRACK, Batch, Shared},
    sweep,
    trace::{CounterSeries, GaugeSeries, ProcessInfo, SpanRecord, Trace, TrackInfo, TrackKind, VERSION},
};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// Ids of device tracks begin here, so that they never meet those of threads.
const FIRST_DEVICE: u32 = 1 << 30;

/// Everything a profiler has; with `take` it is collected and the next trace begins after it.
pub(crate) fn trace(shared: &Shared, take: bool) -> Trace {
    let (batches, lost) = shared.harvest(take);
    let devices = shared.inner().tracks.clone();
    let (scale, info, taken) = match shared.clock() {
        Some(clock) => {
            let scale = clock.scale();
            (scale, clock.info(scale), clock.ns_of(Instant::now()))
        }
        None => (Scale::NANOSECONDS, never_on(), 0),
    };
    let mut builder = Builder::new(scale, devices);
    for batch in batches {
        builder.batch(batch);
    }
    builder.cells(shared, taken);
    let mut trace = builder.finish(info, taken, lost);
    if shared.clock().is_some() {
        (trace.recent, trace.recent_missed) = recent::recent(shared, scale);
    }
    trace
}

fn never_on() -> ClockInfo {
    ClockInfo {
        source: "none".to_owned(),
        ticks_per_second: None,
        reason: "the profiler was never switched on".to_owned(),
    }
}

struct Builder {
    scale: Scale,
    devices: Vec<Arc<str>>,
    names: Vec<String>,
    positions: BTreeMap<u32, u32>,
    tracks: Vec<TrackInfo>,
    /// Where a device's track is in `tracks`.
    placed: BTreeMap<u16, u32>,
    spans: Vec<SpanRecord>,
    /// (time, value) by name and kind.
    samples: BTreeMap<(u32, bool), Vec<(u64, u64)>>,
    counters: Vec<CounterSeries>,
    gauges: Vec<GaugeSeries>,
}

impl Builder {
    fn new(scale: Scale, devices: Vec<Arc<str>>) -> Self {
        Builder {
            scale,
            devices,
            names: Vec::new(),
            positions: BTreeMap::new(),
            tracks: Vec::new(),
            placed: BTreeMap::new(),
            spans: Vec::new(),
            samples: BTreeMap::new(),
            counters: Vec::new(),
            gauges: Vec::new(),
        }
    }

    fn name(&mut self, id: u32) -> u32 {
        *self.positions.entry(id).or_insert_with(|| {
            self.names.push(text_of(id).map_or_else(String::new, |text| (*text).to_owned()));
            position(self.names.len())
        })
    }

    fn track(&mut self, info: TrackInfo) -> u32 {
        self.tracks.push(info);
        position(self.tracks.len())
    }

    fn device(&mut self, number: u16) -> u32 {
        if let Some(place) = self.placed.get(&number) {
            return *place;
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
        let place = self.track(TrackInfo { id, kind, name: Some(name), dropped: 0 });
        self.placed.insert(number, place);
        place
    }

    fn batch(&mut self, batch: Batch) {
        let Batch { thread: id, name, records, dropped } = batch;
        let thread = self.track(TrackInfo { id, kind: TrackKind::Thread, name, dropped });
        self.spans.reserve(records.len());
        for record in records {
            self.record(thread, record);
        }
    }

    fn record(&mut self, thread: u32, [start, end, key, bytes]: [u64; WORDS]) {
        let Some(key) = Key::unpack(key) else { return };
        let Kind::Span(category) = key.kind else {
            let samples = self.samples.entry((key.name, key.kind == Kind::Gauge)).or_default();
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
            // From both ends, so that a child never sticks out of its parent by rounding.
            duration_ns: scale.at(end).saturating_sub(start_ns),
            bytes: unpack_bytes(bytes),
        });
    }

    /// Counters and gauges with their samples in order and their present value last.
    fn cells(&mut self, shared: &Shared, taken: u64) {
        for cell in shared.cells() {
            let mut samples = self.samples.remove(&(cell.name, cell.kind == Kind::Gauge)).unwrap_or_default();
            samples.sort_unstable();
            samples.push((taken, cell.value()));
            let name = self.name(cell.name);
            match cell.kind {
                Kind::Gauge => {
                    let Some((least, most)) = cell.range() else { continue };
                    let samples = samples.into_iter().map(|(at, bits)| (at, f64::from_bits(bits))).collect();
                    let value = f64::from_bits(cell.value());
                    self.gauges.push(GaugeSeries { name, value, least, most, samples });
                }
                _ => {
                    // Two threads may sample in the other order than they added.
                    let mut most = 0;
                    for (_, value) in &mut samples {
                        most = most.max(*value);
                        *value = most;
                    }
                    self.counters.push(CounterSeries { name, value: most, samples });
                }
            }
        }
    }

    fn finish(mut self, clock: ClockInfo, taken_ns: u64, lost: u64) -> Trace {
        let names = &self.names;
        let text = |position: u32| names.get(position as usize);
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
            dropped: lost + self.tracks.iter().map(|track| track.dropped).sum::<u64>(),
            names: self.names,
            tracks: self.tracks,
            spans: self.spans,
            counters: self.counters,
            gauges: self.gauges,
            recent: Vec::new(),
            recent_missed: 0,
        };
        sweep::sort(&mut trace);
        trace
    }
}

/// Position of the element just appended.
fn position(length: usize) -> u32 {
    u32::try_from(length.saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{category::Category, name::Name};

    fn span(start: u64, end: u64, track: u16) -> [u64; WORDS] {
        let name = Name::new("collect::tests").id();
        [start, end, Key { name, kind: Kind::Span(Category::Cpu), depth: 0, track }.pack(), 0]
    }

    fn build(records: Vec<[u64; WORDS]>) -> Trace {
        let mut builder = Builder::new(Scale { zero: 1000, ns: 1, ticks: 2 }, vec!["gpu 0".into()]);
        builder.batch(Batch { thread: 1, name: None, records, dropped: 3 });
        builder.finish(never_on(), 9, 4)
    }

    #[test]
    fn a_clock_that_goes_backwards_gives_zero_not_a_huge_duration() {
        let trace = build(vec![span(1100, 1090, 0), span(10, 1200, 0)]);
        let times: Vec<_> = trace.spans.iter().map(|s| (s.start_ns, s.duration_ns)).collect();
        assert_eq!(times, [(0, 100), (50, 0)]);
        assert_eq!(trace.dropped, 7);
    }

    #[test]
    fn device_spans_are_nanoseconds_on_their_own_track_with_a_depth_by_containment() {
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
    fn an_unknown_kind_of_record_is_skipped() {
        assert_eq!(build(vec![[1, 2, 7 << 24, 0]]).spans, []);
    }
}
