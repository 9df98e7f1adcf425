//! Timeline data: spans as delta and varint encoded columns (base64 in JSON); spans too short to be visible are merged.

use std::{cmp::Reverse, collections::HashMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gpuforge_profile::{Category, SpanRecord, Trace, TrackKind};
use serde_json::{Value, json};

use super::html_page::visible;
use crate::trace::conventions;

/// Maximum spans kept individually: the longest; others are merged with their neighbours.
pub const MAX_SPANS: usize = 100_000;
/// Maximum merged boxes.
const MAX_BLOCKS: usize = 20_000;
/// Maximum lanes per track; deeper spans are drawn in the last.
const MAX_LANES: u32 = 64;
/// Initial number of time cells to merge within; halved until few enough boxes are left.
const CELLS: u64 = 1 << 17;
/// Maximum name length.
const MAX_LETTERS: usize = 200;

/// A box of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimelineBox {
    track: u32,
    start: u64,
    lane: u32,
    duration: u64,
    name: u32,
    category: Category,
    bytes: Option<u64>,
    /// Number of merged spans; 0 for a single span.
    merged: u64,
}

/// Timeline as data for the page's script.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineData {
    /// JSON read by the script.
    pub data: Value,
    /// Number of boxes.
    pub boxes: usize,
    /// Number of merged spans.
    pub merged: u64,
}

impl TimelineData {
    /// Packs the spans of a trace.
    pub fn of(trace: &Trace) -> TimelineData {
        let (from, to) = trace.extent().unwrap_or((0, 0));
        let lanes = Lanes::of(trace);
        let (long, short) = split(trace);
        let whole = |span: &SpanRecord, at: usize| TimelineBox {
            track: span.track,
            start: span.start_ns.saturating_sub(from),
            lane: lanes.of_span(at, span),
            duration: span.duration_ns,
            name: span.name,
            category: span.category,
            bytes: span.bytes,
            merged: 0,
        };
        let get = |at: usize| trace.spans.get(at).map(|span| whole(span, at));
        let mut boxes: Vec<TimelineBox> = long.into_iter().filter_map(get).collect();
        let mut merged = 0;
        if !short.is_empty() {
            let small: Vec<TimelineBox> = short.into_iter().filter_map(get).collect();
            let room = MAX_SPANS.saturating_sub(boxes.len()) + MAX_BLOCKS;
            let blocks = merge(small, to.saturating_sub(from), room);
            merged = blocks.iter().map(|b| b.merged).sum();
            boxes.extend(blocks);
        }
        boxes.sort_by_key(|b| (b.track, b.start, b.lane, Reverse(b.duration)));
        let data = data(trace, &boxes, from, to);
        TimelineData { data, boxes: boxes.len(), merged }
    }
}

/// Indices of spans kept, and of those merged.
fn split(trace: &Trace) -> (Vec<usize>, Vec<usize>) {
    let n = trace.spans.len();
    if n <= MAX_SPANS {
        return ((0..n).collect(), Vec::new());
    }
    let mut durations: Vec<u64> = trace.spans.iter().map(|span| span.duration_ns).collect();
    // A caller is at least as long as its callees, so a duration bound never drops a caller alone.
    let (_, bound, _) = durations.select_nth_unstable_by_key(MAX_SPANS, |ns| Reverse(*ns));
    let bound = *bound;
    (0..n).partition(|at| trace.spans.get(*at).is_some_and(|span| span.duration_ns > bound))
}

/// Merges neighbours in a lane into boxes named after their dominant span; at most `max` boxes, unless there are more
/// lanes than that.
fn merge(mut small: Vec<TimelineBox>, wall: u64, max: usize) -> Vec<TimelineBox> {
    small.sort_unstable_by_key(|b| (b.track, b.lane, b.start));
    let mut cell = wall.div_ceil(CELLS).max(1);
    while cell < wall && neighbours(&small, cell).count() > max {
        cell = cell.saturating_mul(2);
    }
    neighbours(&small, cell).map(block).collect()
}

/// Boxes of one lane that start in the same time cell.
fn neighbours(small: &[TimelineBox], cell: u64) -> impl Iterator<Item = &[TimelineBox]> {
    small.chunk_by(move |a, b| (a.track, a.lane, a.start / cell) == (b.track, b.lane, b.start / cell))
}

fn block(all: &[TimelineBox]) -> TimelineBox {
    if let [alone] = all {
        return *alone;
    }
    let mut names: HashMap<(u32, Category), u64> = HashMap::new();
    let end = |b: &TimelineBox| b.start.saturating_add(b.duration);
    for b in all {
        let time = names.entry((b.name, b.category)).or_default();
        *time = time.saturating_add(b.duration).saturating_add(1);
    }
    let most = names.into_iter().max_by_key(|(key, time)| (*time, Reverse(*key)));
    let ((name, category), _) = most.unwrap_or_default();
    let (track, lane, start) = all.first().map_or((0, 0, 0), |b| (b.track, b.lane, b.start));
    let duration = all.iter().map(end).max().unwrap_or(start) - start;
    TimelineBox { track, start, lane, duration, name, category, bytes: None, merged: all.len() as u64 }
}

/// Lane assignment: depth, or the first free lane for async spans, which overlap.
struct Lanes {
    overlapping: HashMap<usize, u32>,
}

impl Lanes {
    fn of(trace: &Trace) -> Lanes {
        let mut overlapping = HashMap::new();
        let is = |span: &SpanRecord| trace.kind_of(span) == Some(TrackKind::Async);
        let mut spans: Vec<(usize, &SpanRecord)> =
            trace.spans.iter().enumerate().filter(|(_, span)| is(span)).collect();
        spans.sort_by_key(|(_, span)| (span.track, span.start_ns));
        let mut ends: Vec<u64> = Vec::new();
        let mut track = None;
        for (at, span) in spans {
            if track != Some(span.track) {
                (track, ends) = (Some(span.track), Vec::new());
            }
            let free = ends.iter().position(|end| *end <= span.start_ns).unwrap_or(ends.len());
            match ends.get_mut(free) {
                Some(end) => *end = span.end_ns(),
                None if free < MAX_LANES as usize => ends.push(span.end_ns()),
                None => {}
            }
            overlapping.insert(at, u32::try_from(free).unwrap_or(u32::MAX).min(MAX_LANES - 1));
        }
        Lanes { overlapping }
    }

    fn of_span(&self, at: usize, span: &SpanRecord) -> u32 {
        let depth = || u32::from(span.depth).min(MAX_LANES - 1);
        self.overlapping.get(&at).copied().unwrap_or_else(depth)
    }
}

/// Varint (LEB128) encoder.
#[derive(Default)]
struct VarintBytes(Vec<u8>);

impl VarintBytes {
    fn push(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

/// Sparse column: delta encoded positions with a value each.
#[derive(Default)]
struct Sparse {
    bytes: VarintBytes,
    last: usize,
}

impl Sparse {
    fn push(&mut self, at: usize, n: u64) {
        self.bytes.push((at - self.last) as u64);
        self.bytes.push(n);
        self.last = at;
    }
}

/// Dictionary encoding in order of first appearance.
struct DictionaryEncoder<K> {
    numbers: HashMap<K, u64>,
    order: Vec<K>,
}

impl<K: Copy + Eq + std::hash::Hash> DictionaryEncoder<K> {
    fn new() -> Self {
        DictionaryEncoder { numbers: HashMap::new(), order: Vec::new() }
    }

    fn encode(&mut self, key: K) -> u64 {
        let next = self.order.len() as u64;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.order.push(key);
        }
        number
    }
}

fn data(trace: &Trace, boxes: &[TimelineBox], from: u64, to: u64) -> Value {
    let [mut start, mut duration, mut kind, mut lane] = [const { VarintBytes(Vec::new()) }; 4];
    let (mut bytes, mut merged) = (Sparse::default(), Sparse::default());
    let (mut names, mut kinds) = (DictionaryEncoder::new(), DictionaryEncoder::new());
    let mut tracks: Vec<Value> = Vec::new();
    let mut first = 0;
    while let Some(b) = boxes.get(first) {
        let on: &[TimelineBox] = boxes.get(first..).unwrap_or_default();
        let on = on.get(..on.partition_point(|other| other.track == b.track)).unwrap_or_default();
        let mut last = 0;
        for (at, b) in (first..).zip(on) {
            start.push(b.start.saturating_sub(last));
            last = b.start;
            duration.push(b.duration);
            kind.push(kinds.encode((names.encode(b.name), b.category.index())));
            lane.push(u64::from(b.lane));
            if let Some(n) = b.bytes {
                bytes.push(at, n);
            }
            if b.merged > 0 {
                merged.push(at, b.merged);
            }
        }
        let lanes = on.iter().map(|b| b.lane).max().map_or(1, |lane| lane + 1);
        tracks.push(track(trace, b.track, on.len(), lanes));
        first += on.len();
    }
    let names: Vec<String> = names.order.iter().map(|name| display_name(trace.name(*name))).collect();
    json!({
        "wall": to.saturating_sub(from), "names": names, "kinds": kinds.order, "tracks": tracks, "boxes": boxes.len(),
        "start": start.text(), "duration": duration.text(), "kind": kind.text(), "lane": lane.text(),
        "bytes": bytes.bytes.text(), "merged": merged.bytes.text(),
    })
}

fn track(trace: &Trace, position: u32, boxes: usize, lanes: u32) -> Value {
    let info = trace.tracks.get(position as usize);
    let kind = info.map_or(TrackKind::Thread, |t| t.kind);
    let id = info.map_or(position, |t| t.id);
    let word = match kind {
        _ if conventions::is_recovery(trace, position) => "events",
        TrackKind::Thread => "thread",
        TrackKind::Device => "device",
        TrackKind::Async => "async",
    };
    let name = info.and_then(|t| t.name.as_deref()).map_or_else(|| format!("{word} {id}"), display_name);
    let dropped = info.map_or(0, |t| t.dropped);
    json!({ "name": name, "kind": word, "boxes": boxes, "lanes": lanes, "dropped": dropped })
}

/// A name for display: truncated, without invisible characters.
pub(super) fn display_name(name: &str) -> String {
    let cut = name.char_indices().nth(MAX_LETTERS).map(|(end, _)| end);
    let shown = name.get(..cut.unwrap_or(name.len())).unwrap_or_default().chars().map(visible);
    shown.chain(cut.map(|_| '…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_minimal() {
        let mut bytes = VarintBytes::default();
        [0, 127, 128, 300, u64::MAX].into_iter().for_each(|n| bytes.push(n));
        let max = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(bytes.0[..6], [0, 127, 128, 1, 172, 2]);
        assert_eq!(bytes.0[6..], max);
    }

    #[test]
    fn neighbours_are_merged_under_the_dominant_name() {
        let b = |start: u64, duration: u64, name: u32| TimelineBox {
            track: 0,
            start,
            lane: 1,
            duration,
            name,
            category: Category::Cpu,
            bytes: Some(1),
            merged: 0,
        };
        let merged = merge(vec![b(120, 5, 1), b(0, 10, 1), b(20, 30, 2)], 200, 2);
        let one = |start: u64, duration: u64, name: u32, merged: u64| TimelineBox {
            merged,
            bytes: None,
            ..b(start, duration, name)
        };
        assert_eq!(merged, [one(0, 50, 2, 2), b(120, 5, 1)], "what is alone stays itself");
        let many: Vec<TimelineBox> = (0..50_000).map(|i| b(i * 10, 5, 1)).collect();
        let merged = merge(many, 500_000, 1_000);
        assert!(merged.len() <= 1_000 && merged.iter().map(|b| b.merged).sum::<u64>() == 50_000);
    }
}
