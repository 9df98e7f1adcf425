//! What do all threads of a profiler share? A switch, a clock, the list of logs, and what ended threads left behind.
//!
//! Two locks, never held together: `inner` (logs, tracks) and `cells` (counters, gauges). Neither is taken by a span,
//! except by the first one of a thread.

use crate::{
    category::Category,
    clock::{Clock, ClockChoice, OFF},
    counter::Cell,
    log::ThreadLog,
    name::Name,
    recent::Past,
    record::{Key, Kind, WORDS, pack_bytes},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Records a thread keeps before the oldest are overwritten: 2 MiB of address space, touched as it fills.
pub const RING_RECORDS: usize = (1 << 16) - 1;

/// Records kept of threads that ended, all together: 8 MiB.
pub const FINISHED_RECORDS: usize = 1 << 18;

/// Ended threads that are remembered by name; older ones are only counted.
const FINISHED_THREADS: usize = 4096;

/// Tracks of a profiler; further ones share the last.
const TRACKS: usize = 1024;

/// Where spans go that belong to no single thread.
pub(crate) const ASYNC_TRACK: u16 = u16::MAX;

/// The profiler that the macros write to.
pub(crate) static GLOBAL: Shared = Shared::new(RING_RECORDS, FINISHED_RECORDS, ClockChoice::Auto);

/// The state of one profiler.
#[derive(Debug)]
pub(crate) struct Shared {
    /// [`OFF`], or the mode of the clock.
    mode: AtomicU8,
    ring_records: AtomicUsize,
    finished_records: usize,
    /// Records that found no log.
    lost: AtomicU64,
    choice: ClockChoice,
    clock: OnceLock<Clock>,
    inner: Mutex<Inner>,
    cells: Mutex<BTreeMap<(u32, bool), Arc<Cell>>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) active: Vec<Active>,
    pub(crate) finished: VecDeque<Batch>,
    /// Sum of the records in `finished`.
    finished_records: usize,
    threads: u32,
    pub(crate) tracks: Vec<Arc<str>>,
    /// What the windows of ended threads held.
    pub(crate) past: BTreeMap<(u32, bool), Past>,
    /// Durations for which ended threads had no window.
    pub(crate) homeless: u64,
    /// Dropped records of ended threads that are no longer remembered.
    forgotten: u64,
}

/// A thread that may still write.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) log: Arc<ThreadLog>,
    /// First record that was not collected yet.
    tail: u64,
}

/// Records of one thread, on their way into a trace.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) thread: u32,
    pub(crate) name: Option<String>,
    pub(crate) records: Vec<[u64; WORDS]>,
    pub(crate) dropped: u64,
}

impl Active {
    fn read(&self) -> (Batch, u64) {
        let read = self.log.ring.read(self.tail);
        let batch = Batch {
            thread: self.log.thread,
            name: self.log.name.clone(),
            records: read.records,
            dropped: read.first - self.tail.min(read.first),
        };
        (batch, read.next)
    }
}

impl Shared {
    pub(crate) const fn new(ring_records: usize, finished_records: usize, choice: ClockChoice) -> Self {
        Shared {
            mode: AtomicU8::new(OFF),
            ring_records: AtomicUsize::new(ring_records),
            finished_records,
            lost: AtomicU64::new(0),
            choice,
            clock: OnceLock::new(),
            inner: Mutex::new(Inner {
                active: Vec::new(),
                finished: VecDeque::new(),
                finished_records: 0,
                threads: 0,
                tracks: Vec::new(),
                past: BTreeMap::new(),
                homeless: 0,
                forgotten: 0,
            }),
            cells: Mutex::new(BTreeMap::new()),
        }
    }

    /// [`OFF`], or the clock's mode. This load is all that a span costs while the profiler is off.
    #[inline]
    pub(crate) fn mode(&self) -> u8 {
        self.mode.load(Ordering::Relaxed)
    }

    pub(crate) fn enable(&self) {
        let clock = self.clock.get_or_init(|| Clock::start(self.choice));
        self.mode.store(clock.mode, Ordering::Relaxed);
    }

    pub(crate) fn disable(&self) {
        self.mode.store(OFF, Ordering::Relaxed);
    }

    pub(crate) fn set_ring_records(&self, records: usize) {
        self.ring_records.store(records, Ordering::Relaxed);
    }

    /// The clock, once the profiler was on.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.get()
    }

    pub(crate) fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log for the calling thread.
    pub(crate) fn register(&self) -> Arc<ThreadLog> {
        let name = std::thread::current().name().map(str::to_owned);
        let mut inner = self.inner();
        inner.threads = inner.threads.saturating_add(1);
        let log = Arc::new(ThreadLog::new(self.ring_records.load(Ordering::Relaxed), inner.threads, name));
        inner.active.push(Active { log: log.clone(), tail: 0 });
        log
    }

    /// Takes over what an ending thread leaves. Called by that thread.
    pub(crate) fn retire(&self, log: &Arc<ThreadLog>) {
        log.retire();
        let mut inner = self.inner();
        let Some(place) = inner.active.iter().position(|active| Arc::ptr_eq(&active.log, log)) else {
            return;
        };
        let (batch, _) = inner.active.swap_remove(place).read();
        for window in log.windows.iter() {
            let key = (window.key.name, window.key.in_ns);
            inner.past.entry(key).or_default().absorb(window);
        }
        inner.homeless += log.windows.homeless();
        inner.finished_records += batch.records.len();
        inner.finished.push_back(batch);
        inner.trim(self.finished_records);
    }

    /// The number of a track with that name.
    pub(crate) fn track(&self, name: &str) -> u16 {
        let mut inner = self.inner();
        let known = inner.tracks.iter().position(|track| **track == *name);
        let place = known.unwrap_or_else(|| {
            if inner.tracks.len() < TRACKS {
                let full = inner.tracks.len() == TRACKS - 1;
                inner.tracks.push(if full { "(more tracks)" } else { name }.into());
            }
            inner.tracks.len() - 1
        });
        u16::try_from(place + 1).unwrap_or(ASYNC_TRACK - 1)
    }

    /// Keeps a span whose time was taken elsewhere.
    #[expect(
        clippy::too_many_arguments,
        reason = "a record has as many fields; its two callers are in this crate"
    )]
    pub(crate) fn record(
        &self,
        log: Option<&ThreadLog>,
        name: Name,
        category: Category,
        start: Instant,
        duration: Duration,
        track: u16,
        bytes: Option<u64>,
    ) {
        let (Some(clock), Some(log)) = (self.clock(), log) else { return self.lose(1) };
        let start = clock.ns_of(start);
        let end = start.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let key = Key { name: name.id(), kind: Kind::Span(category), depth: 0, track };
        log.push([start, end, key.pack(), bytes.map_or(0, pack_bytes)]);
    }

    /// The counter or gauge with that name.
    pub(crate) fn cell(&self, name: &str, kind: Kind) -> Arc<Cell> {
        self.cell_of(Name::new(name), kind)
    }

    pub(crate) fn cell_of(&self, name: Name, kind: Kind) -> Arc<Cell> {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.id(), kind == Kind::Gauge);
        cells.entry(key).or_insert_with(|| Arc::new(Cell::new(name.id(), kind))).clone()
    }

    /// All counters and gauges.
    pub(crate) fn cells(&self) -> Vec<Arc<Cell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Everything not collected yet, and how many records were lost without a thread to blame. With `take`, it is
    /// collected now.
    pub(crate) fn harvest(&self, take: bool) -> (Vec<Batch>, u64) {
        let mut inner = self.inner();
        let mut batches: Vec<Batch> = match take {
            true => std::mem::take(&mut inner.finished).into(),
            false => inner.finished.iter().cloned().collect(),
        };
        for active in &mut inner.active {
            let (batch, next) = active.read();
            batches.push(batch);
            if take {
                active.tail = next;
            }
        }
        let forgotten = inner.forgotten;
        let lost =
            if take { self.lost.swap(0, Ordering::Relaxed) } else { self.lost.load(Ordering::Relaxed) };
        if take {
            inner.forgotten = 0;
            inner.finished_records = 0;
        }
        batches.sort_by_key(|batch| batch.thread);
        (batches, forgotten + lost)
    }
}

impl Inner {
    /// Keeps the ended threads within bounds; the oldest records go first, and are counted.
    fn trim(&mut self, limit: usize) {
        let mut excess = self.finished_records.saturating_sub(limit);
        self.finished_records -= excess;
        for batch in &mut self.finished {
            let cut = excess.min(batch.records.len());
            batch.records.drain(..cut);
            batch.records.shrink_to_fit();
            batch.dropped += cut as u64;
            excess -= cut;
            if excess == 0 {
                break;
            }
        }
        while self.finished.len() > FINISHED_THREADS
            && let Some(oldest) = self.finished.pop_front()
        {
            self.finished_records -= oldest.records.len();
            self.forgotten += oldest.dropped + oldest.records.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_threads_are_bounded_and_what_goes_is_counted() {
        let mut inner = Shared::new(8, 10, ClockChoice::Instant).inner.into_inner().unwrap();
        let batch =
            |thread, records| Batch { thread, name: None, records: vec![[0; WORDS]; records], dropped: 0 };
        for (thread, records) in [(1, 4), (2, 4), (3, 4)] {
            inner.finished_records += records;
            inner.finished.push_back(batch(thread, records));
            inner.trim(10);
        }
        let kept: Vec<_> = inner.finished.iter().map(|b| (b.records.len(), b.dropped)).collect();
        assert_eq!(kept, [(2, 2), (4, 0), (4, 0)]);
        for thread in 0..FINISHED_THREADS as u32 {
            inner.finished.push_back(batch(thread, 0));
            inner.trim(10);
        }
        assert_eq!(inner.finished.len(), FINISHED_THREADS);
        assert_eq!((inner.forgotten, inner.finished_records), (12, 0));
    }

    #[test]
    fn tracks_are_found_again_and_bounded() {
        let shared = Shared::new(8, 8, ClockChoice::Instant);
        assert_eq!((shared.track("a"), shared.track("b"), shared.track("a")), (1, 2, 1));
        for index in 0..2 * TRACKS {
            shared.track(&format!("t{index}"));
        }
        assert_eq!(usize::from(shared.track("one more")), TRACKS);
        assert_eq!(shared.inner().tracks.len(), TRACKS);
    }
}
