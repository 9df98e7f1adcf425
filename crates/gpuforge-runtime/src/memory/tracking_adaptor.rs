//! Tracking adaptor: accounting of every live block by tag, high-water marks, allocation time, samples for leak detection.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    AllocError, AllocLimits, AllocRequest, Allocation, Allocator, BlockClass, Clock, LeakReport,
    LeakSettings, OldBlock, Reclaim, Tag, growth,
    sync::{Mutex, lock},
};
use crate::units::Bytes;

/// Accounts for every block that passes through.
pub struct TrackingAdaptor<A> {
    upstream: A,
    clock: Arc<dyn Clock>,
    settings: LeakSettings,
    timed: bool,
    ledger: Mutex<Ledger>,
}

/// A tracked block; only the adaptor can unwrap it.
#[derive(Debug)]
pub struct Tracked<B> {
    inner: Allocation<B>,
    entry: usize,
}

impl<B> Tracked<B> {
    /// The allocation of the layer upstream.
    pub fn inner(&self) -> &Allocation<B> {
        &self.inner
    }
}

/// Statistics of a tracking adaptor. Sizes are as requested from this layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackStats {
    /// Live bytes.
    pub live: Bytes,
    /// Live blocks.
    pub live_blocks: u64,
    /// High-water mark of live bytes.
    pub peak: Bytes,
    /// Allocations so far.
    pub allocations: u64,
    /// Requests that failed upstream.
    pub failures: u64,
    /// Time spent upstream for all requests, in nanoseconds, if measured.
    pub allocating_ns: Option<u64>,
    /// Time of the slowest request, in nanoseconds, if measured.
    pub slowest_ns: Option<u64>,
    /// Per tag, sorted by tag.
    pub tags: Vec<TagUsage>,
}

/// Usage of one tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagUsage {
    /// The tag.
    pub tag: String,
    /// Live bytes.
    pub live: Bytes,
    /// Live blocks.
    pub live_blocks: u64,
    /// High-water mark of live bytes.
    pub peak: Bytes,
    /// Allocations so far.
    pub allocations: u64,
}

#[derive(Debug, Default)]
struct Ledger {
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    all: Usage,
    failures: u64,
    allocating: Duration,
    slowest: Duration,
    tags: Vec<(Tag, Usage)>,
    tag_index: HashMap<Tag, usize>,
    last_tag: usize,
    samples: VecDeque<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    size: Bytes,
    class: BlockClass,
    tag: usize,
    since: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    live: Bytes,
    blocks: u64,
    peak: Bytes,
    allocations: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    live: Bytes,
}

impl Usage {
    fn add(&mut self, size: Bytes) {
        self.live += size;
        self.blocks += 1;
        self.peak = self.peak.max(self.live);
        self.allocations += 1;
    }

    fn sub(&mut self, size: Bytes) {
        self.live -= size;
        self.blocks = self.blocks.saturating_sub(1);
    }
}

impl Ledger {
    fn insert(&mut self, request: AllocRequest, since: Duration) -> usize {
        let tag = self.tag(request.tag);
        self.all.add(request.size);
        if let Some((_, usage)) = self.tags.get_mut(tag) {
            usage.add(request.size);
        }
        let entry = Some(Entry { size: request.size, class: request.class, tag, since });
        let at = self.vacant.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(at) {
            Some(vacant) => *vacant = entry,
            None => self.entries.push(entry),
        }
        at
    }

    fn remove(&mut self, at: usize) {
        let Some(entry) = self.entries.get_mut(at).and_then(Option::take) else { return };
        self.vacant.push(at);
        self.all.sub(entry.size);
        if let Some((_, usage)) = self.tags.get_mut(entry.tag) {
            usage.sub(entry.size);
        }
    }

    fn tag(&mut self, tag: Tag) -> usize {
        // Requests with the same tag come in runs; hashing takes longer than the rest of the entry.
        if self.tags.get(self.last_tag).is_none_or(|(last, _)| *last != tag) {
            self.last_tag = *self.tag_index.entry(tag).or_insert_with(|| {
                self.tags.push((tag, Usage::default()));
                self.tags.len() - 1
            });
        }
        self.last_tag
    }

    /// Samples the live bytes, at most once per interval, and drops samples outside the window.
    fn sample(&mut self, now: Duration, settings: &LeakSettings) {
        if self.samples.back().is_some_and(|last| now.saturating_sub(last.at) < settings.every()) {
            return;
        }
        self.prune_samples(now, settings.window);
        self.samples.push_back(Sample { at: now, live: self.all.live });
    }

    fn prune_samples(&mut self, now: Duration, window: Duration) {
        while self.samples.front().is_some_and(|first| now.saturating_sub(first.at) > window) {
            self.samples.pop_front();
        }
    }
}

impl<A> TrackingAdaptor<A> {
    /// Tracks the allocations of `upstream`.
    pub fn new(upstream: A, settings: LeakSettings, clock: Arc<dyn Clock>) -> Self {
        TrackingAdaptor { upstream, clock, settings, timed: false, ledger: Mutex::new(Ledger::default()) }
    }

    /// Also measures how long `upstream` takes. Off by default: a second clock read costs as much as a pool hit, and only
    /// a device's time is worth knowing.
    pub fn timed(self) -> Self {
        TrackingAdaptor { timed: true, ..self }
    }

    /// The upstream allocator.
    pub fn upstream(&self) -> &A {
        &self.upstream
    }

    /// Takes a sample for the growth test. Allocating does it too; call this periodically when nothing is allocated.
    pub fn sample(&self) {
        let now = self.clock.now();
        lock(&self.ledger).sample(now, &self.settings);
    }

    /// Suspected leaks. Walks all live blocks under the lock: for occasional use, not for every request.
    pub fn leaks(&self) -> LeakReport {
        let now = self.clock.now();
        let (mut old, samples) = {
            let mut ledger = lock(&self.ledger);
            ledger.prune_samples(now, self.settings.window);
            let age = |entry: &Entry| now.saturating_sub(entry.since);
            let is_old = |entry: &&Entry| age(entry) > self.settings.window;
            let name = |entry: &Entry| {
                let tag = ledger.tags.get(entry.tag).map_or(Tag(""), |(tag, _)| *tag);
                (age(entry), tag, entry.class, entry.size)
            };
            let old: Vec<_> = ledger.entries.iter().flatten().filter(is_old).map(name).collect();
            (old, ledger.samples.iter().map(|s| s.live).collect::<Vec<_>>())
        };
        old.sort_by_key(|(age, tag, _, size)| (Reverse(*age), *tag, *size));
        let old_block = |&(age, tag, class, size): &(Duration, Tag, BlockClass, Bytes)| OldBlock {
            tag: tag.0.to_owned(),
            class,
            size,
            age,
        };
        LeakReport {
            old: old.iter().take(self.settings.named).map(old_block).collect(),
            old_blocks: old.len() as u64,
            old_bytes: old.iter().map(|(.., size)| *size).sum(),
            growth: growth(&samples, self.settings.threshold_percent),
        }
    }

    /// Statistics so far.
    pub fn stats(&self) -> TrackStats {
        let nanos = |time: Duration| self.timed.then(|| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let tag_use = |(tag, usage): &(Tag, Usage)| TagUsage {
            tag: tag.0.to_owned(),
            live: usage.live,
            live_blocks: usage.blocks,
            peak: usage.peak,
            allocations: usage.allocations,
        };
        let ledger = lock(&self.ledger);
        let mut tags: Vec<_> = ledger.tags.iter().map(tag_use).collect();
        tags.sort_by(|a, b| a.tag.cmp(&b.tag));
        TrackStats {
            live: ledger.all.live,
            live_blocks: ledger.all.blocks,
            peak: ledger.all.peak,
            allocations: ledger.all.allocations,
            failures: ledger.failures,
            allocating_ns: nanos(ledger.allocating),
            slowest_ns: nanos(ledger.slowest),
            tags,
        }
    }
}

impl<A: Allocator> Allocator for TrackingAdaptor<A> {
    type Block = Tracked<A::Block>;

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<Tracked<A::Block>>, AllocError> {
        let started = self.clock.now();
        let result = self.upstream.allocate(request);
        let now = if self.timed { self.clock.now() } else { started };
        let took = now.saturating_sub(started);
        let mut ledger = lock(&self.ledger);
        ledger.allocating += took;
        ledger.slowest = ledger.slowest.max(took);
        let inner = match result {
            Ok(inner) => inner,
            Err(error) => {
                ledger.failures += 1;
                return Err(error);
            }
        };
        let entry = ledger.insert(request, now);
        ledger.sample(now, &self.settings);
        drop(ledger);
        let capacity = inner.capacity();
        Ok(Allocation::with_capacity(Tracked { inner, entry }, request, capacity))
    }

    fn release(&self, allocation: Allocation<Tracked<A::Block>>) {
        let Tracked { inner, entry } = allocation.into_block();
        // Upstream first: what is still being freed still counts.
        self.upstream.release(inner);
        lock(&self.ledger).remove(entry);
    }

    fn limits(&self) -> AllocLimits {
        self.upstream.limits()
    }
}

impl<A: Reclaim> Reclaim for TrackingAdaptor<A> {
    fn held(&self) -> Bytes {
        self.upstream.held()
    }

    fn idle(&self) -> Bytes {
        self.upstream.idle()
    }

    fn trim(&self, keep: Bytes) -> Bytes {
        self.upstream.trim(keep)
    }

    fn rounded_size(&self, size: Bytes) -> Option<Bytes> {
        self.upstream.rounded_size(size)
    }
}
