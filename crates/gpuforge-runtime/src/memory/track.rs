//! Who holds what, since when, and how did it grow?

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    AllocError, Allocation, Allocator, BlockClass, Clock, LeakReport, LeakSettings, Limits, OldBlock,
    Reclaim, Request, Tag, growth,
    sync::{Mutex, lock},
};
use crate::units::Bytes;

/// Books every block that passes through.
pub struct Track<A> {
    below: A,
    clock: Arc<dyn Clock>,
    settings: LeakSettings,
    timed: bool,
    book: Mutex<Book>,
}

/// A booked block; only the tracker can take it apart again.
#[derive(Debug)]
pub struct Tracked<B> {
    inner: Allocation<B>,
    entry: usize,
}

impl<B> Tracked<B> {
    /// The allocation of the layer below.
    pub fn inner(&self) -> &Allocation<B> {
        &self.inner
    }
}

/// What a tracker counted. Sizes are as asked of this layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackStats {
    /// Bytes given and not yet back.
    pub live: Bytes,
    /// Blocks given and not yet back.
    pub live_blocks: u64,
    /// The most bytes there ever were.
    pub peak: Bytes,
    /// Blocks ever given.
    pub allocations: u64,
    /// Requests that failed below.
    pub failures: u64,
    /// Time spent below for all requests, in nanoseconds, where it is measured.
    pub allocating_ns: Option<u64>,
    /// Time of the slowest request, in nanoseconds, where it is measured.
    pub slowest_ns: Option<u64>,
    /// By tag, in order of the tag.
    pub tags: Vec<TagUse>,
}

/// What one tag uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagUse {
    /// The tag.
    pub tag: String,
    /// Bytes given and not yet back.
    pub live: Bytes,
    /// Blocks given and not yet back.
    pub live_blocks: u64,
    /// The most bytes there ever were.
    pub peak: Bytes,
    /// Blocks ever given.
    pub allocations: u64,
}

#[derive(Debug, Default)]
struct Book {
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

impl Book {
    fn open(&mut self, request: Request, since: Duration) -> usize {
        let tag = self.tag(request.tag);
        self.all.add(request.size);
        if let Some((_, usage)) = self.tags.get_mut(tag) {
            usage.add(request.size);
        }
        let entry = Some(Entry { size: request.size, class: request.class, tag, since });
        let at = self.vacant.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(at) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        at
    }

    fn close(&mut self, at: usize) {
        let Some(entry) = self.entries.get_mut(at).and_then(Option::take) else { return };
        self.vacant.push(at);
        self.all.sub(entry.size);
        if let Some((_, usage)) = self.tags.get_mut(entry.tag) {
            usage.sub(entry.size);
        }
    }

    fn tag(&mut self, tag: Tag) -> usize {
        // Requests with the same tag come in rows; hashing takes longer than the rest of the entry.
        if self.tags.get(self.last_tag).is_none_or(|(last, _)| *last != tag) {
            self.last_tag = *self.tag_index.entry(tag).or_insert_with(|| {
                self.tags.push((tag, Usage::default()));
                self.tags.len() - 1
            });
        }
        self.last_tag
    }

    /// Notes the level, at most once per interval, and forgets what has left the window.
    fn sample(&mut self, now: Duration, settings: &LeakSettings) {
        if self.samples.back().is_some_and(|last| now.saturating_sub(last.at) < settings.every()) {
            return;
        }
        self.forget(now, settings.window);
        self.samples.push_back(Sample { at: now, live: self.all.live });
    }

    fn forget(&mut self, now: Duration, window: Duration) {
        while self.samples.front().is_some_and(|first| now.saturating_sub(first.at) > window) {
            self.samples.pop_front();
        }
    }
}

impl<A> Track<A> {
    /// Books what comes from `below`.
    pub fn new(below: A, settings: LeakSettings, clock: Arc<dyn Clock>) -> Self {
        Track { below, clock, settings, timed: false, book: Mutex::new(Book::default()) }
    }

    /// Measures also how long `below` takes. Off otherwise: a second look at the clock costs as much as a hit in a
    /// pool, and only a device's time is worth knowing.
    pub fn timed(self) -> Self {
        Track { timed: true, ..self }
    }

    /// The layer below.
    pub fn below(&self) -> &A {
        &self.below
    }

    /// Notes the level for the growth rule. Allocating does it too; call this now and then when nothing is allocated.
    pub fn sample(&self) {
        let now = self.clock.now();
        lock(&self.book).sample(now, &self.settings);
    }

    /// What looks like a leak. Walks all live blocks under the lock: for a look now and then, not for every request.
    pub fn leaks(&self) -> LeakReport {
        let now = self.clock.now();
        let (mut old, samples) = {
            let mut book = lock(&self.book);
            book.forget(now, self.settings.window);
            let age = |entry: &Entry| now.saturating_sub(entry.since);
            let is_old = |entry: &&Entry| age(entry) > self.settings.window;
            let name = |entry: &Entry| {
                let tag = book.tags.get(entry.tag).map_or(Tag(""), |(tag, _)| *tag);
                (age(entry), tag, entry.class, entry.size)
            };
            let old: Vec<_> = book.entries.iter().flatten().filter(is_old).map(name).collect();
            (old, book.samples.iter().map(|s| s.live).collect::<Vec<_>>())
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

    /// Counts so far.
    pub fn stats(&self) -> TrackStats {
        let nanos = |time: Duration| self.timed.then(|| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let tag_use = |(tag, usage): &(Tag, Usage)| TagUse {
            tag: tag.0.to_owned(),
            live: usage.live,
            live_blocks: usage.blocks,
            peak: usage.peak,
            allocations: usage.allocations,
        };
        let book = lock(&self.book);
        let mut tags: Vec<_> = book.tags.iter().map(tag_use).collect();
        tags.sort_by(|a, b| a.tag.cmp(&b.tag));
        TrackStats {
            live: book.all.live,
            live_blocks: book.all.blocks,
            peak: book.all.peak,
            allocations: book.all.allocations,
            failures: book.failures,
            allocating_ns: nanos(book.allocating),
            slowest_ns: nanos(book.slowest),
            tags,
        }
    }
}

impl<A: Allocator> Allocator for Track<A> {
    type Block = Tracked<A::Block>;

    fn allocate(&self, request: Request) -> Result<Allocation<Tracked<A::Block>>, AllocError> {
        let started = self.clock.now();
        let answer = self.below.allocate(request);
        let now = if self.timed { self.clock.now() } else { started };
        let took = now.saturating_sub(started);
        let mut book = lock(&self.book);
        book.allocating += took;
        book.slowest = book.slowest.max(took);
        let inner = match answer {
            Ok(inner) => inner,
            Err(error) => {
                book.failures += 1;
                return Err(error);
            }
        };
        let entry = book.open(request, now);
        book.sample(now, &self.settings);
        drop(book);
        let capacity = inner.capacity();
        Ok(Allocation::with_capacity(Tracked { inner, entry }, request, capacity))
    }

    fn release(&self, allocation: Allocation<Tracked<A::Block>>) {
        let Tracked { inner, entry } = allocation.into_block();
        // Below first: what is still being freed still counts.
        self.below.release(inner);
        lock(&self.book).close(entry);
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }
}

impl<A: Reclaim> Reclaim for Track<A> {
    fn held(&self) -> Bytes {
        self.below.held()
    }

    fn idle(&self) -> Bytes {
        self.below.idle()
    }

    fn trim(&self, keep: Bytes) -> Bytes {
        self.below.trim(keep)
    }

    fn granted(&self, size: Bytes) -> Option<Bytes> {
        self.below.granted(size)
    }
}
