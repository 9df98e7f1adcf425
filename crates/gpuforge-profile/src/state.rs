//! Shared state of a profiler: on/off switch, clock, table of thread logs, records of ended threads, metrics.
//!
//! Two locks, never held together: `table` (logs, tracks) and `metrics` (counters, gauges). Neither is taken by a span,
//! except by the first one of a thread.

use crate::{
    category::Category,
    clock::{ClockChoice, OFF, TickClock},
    counter::Metric,
    name::Name,
    recent::WindowSnapshot,
    record::{Key, RecordKind, WORDS, pack_bytes},
    thread_log::ThreadLog,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Default ring capacity per thread: 2 MiB of address space, touched as it fills.
pub const RING_RECORDS: usize = (1 << 16) - 1;

/// Records kept of all ended threads: 8 MiB.
pub const FINISHED_RECORDS: usize = 1 << 18;

/// Ended threads kept individually; older ones are only counted.
const FINISHED_THREADS: usize = 4096;

/// Maximum number of tracks; further ones share the last.
const MAX_TRACKS: usize = 1024;

/// Track of async spans, which belong to no single thread.
pub(crate) const ASYNC_TRACK: u16 = u16::MAX;

/// The global profiler, used by the macros.
pub(crate) static GLOBAL: ProfilerState =
    ProfilerState::new(RING_RECORDS, FINISHED_RECORDS, ClockChoice::Auto);

/// The state of one profiler.
#[derive(Debug)]
pub(crate) struct ProfilerState {
    /// [`OFF`], or the mode of the clock.
    mode: AtomicU8,
    ring_records: AtomicUsize,
    finished_records: usize,
    /// Records dropped because there was no log for them.
    lost: AtomicU64,
    choice: ClockChoice,
    clock: OnceLock<TickClock>,
    table: Mutex<ThreadTable>,
    metrics: Mutex<BTreeMap<(u32, bool), Arc<Metric>>>,
}

#[derive(Debug)]
pub(crate) struct ThreadTable {
    pub(crate) live: Vec<LiveThread>,
    pub(crate) finished: VecDeque<ThreadRecords>,
    /// Sum of the records in `finished`.
    finished_records: usize,
    threads: u32,
    pub(crate) tracks: Vec<Arc<str>>,
    /// Rolling windows of ended threads.
    pub(crate) retired_windows: BTreeMap<(u32, bool), WindowSnapshot>,
    /// Durations of ended threads that had no window.
    pub(crate) untracked: u64,
    /// Dropped records of ended threads that are no longer kept individually.
    evicted_dropped: u64,
}

/// A live thread: its log may still grow.
#[derive(Debug)]
pub(crate) struct LiveThread {
    pub(crate) log: Arc<ThreadLog>,
    /// First record that was not collected yet.
    tail: u64,
}

/// Collected records of one thread.
#[derive(Debug, Clone)]
pub(crate) struct ThreadRecords {
    pub(crate) thread: u32,
    pub(crate) name: Option<String>,
    pub(crate) records: Vec<[u64; WORDS]>,
    pub(crate) dropped: u64,
}

impl LiveThread {
    fn read(&self) -> (ThreadRecords, u64) {
        let read = self.log.ring.read(self.tail);
        let batch = ThreadRecords {
            thread: self.log.thread,
            name: self.log.name.clone(),
            records: read.records,
            dropped: read.first - self.tail.min(read.first),
        };
        (batch, read.next)
    }
}

impl ProfilerState {
    pub(crate) const fn new(ring_records: usize, finished_records: usize, choice: ClockChoice) -> Self {
        ProfilerState {
            mode: AtomicU8::new(OFF),
            ring_records: AtomicUsize::new(ring_records),
            finished_records,
            lost: AtomicU64::new(0),
            choice,
            clock: OnceLock::new(),
            table: Mutex::new(ThreadTable {
                live: Vec::new(),
                finished: VecDeque::new(),
                finished_records: 0,
                threads: 0,
                tracks: Vec::new(),
                retired_windows: BTreeMap::new(),
                untracked: 0,
                evicted_dropped: 0,
            }),
            metrics: Mutex::new(BTreeMap::new()),
        }
    }

    /// [`OFF`], or the clock's mode. This load is all that a span costs while the profiler is disabled.
    #[inline]
    pub(crate) fn mode(&self) -> u8 {
        self.mode.load(Ordering::Relaxed)
    }

    pub(crate) fn enable(&self) {
        let clock = self.clock.get_or_init(|| TickClock::start(self.choice));
        self.mode.store(clock.mode, Ordering::Relaxed);
    }

    pub(crate) fn disable(&self) {
        self.mode.store(OFF, Ordering::Relaxed);
    }

    pub(crate) fn set_ring_records(&self, records: usize) {
        self.ring_records.store(records, Ordering::Relaxed);
    }

    /// The clock, once the profiler was enabled.
    pub(crate) fn clock(&self) -> Option<&TickClock> {
        self.clock.get()
    }

    pub(crate) fn count_dropped(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn thread_table(&self) -> MutexGuard<'_, ThreadTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a log for the calling thread.
    pub(crate) fn register(&self) -> Arc<ThreadLog> {
        let name = std::thread::current().name().map(str::to_owned);
        let mut table = self.thread_table();
        table.threads = table.threads.saturating_add(1);
        let log = Arc::new(ThreadLog::new(self.ring_records.load(Ordering::Relaxed), table.threads, name));
        table.live.push(LiveThread { log: log.clone(), tail: 0 });
        log
    }

    /// Collects the log of an ending thread. Called by that thread.
    pub(crate) fn retire(&self, log: &Arc<ThreadLog>) {
        log.retire();
        let mut table = self.thread_table();
        let Some(index) = table.live.iter().position(|live| Arc::ptr_eq(&live.log, log)) else {
            return;
        };
        let (batch, _) = table.live.swap_remove(index).read();
        for window in log.windows.iter() {
            let key = (window.key.name, window.key.in_ns);
            table.retired_windows.entry(key).or_default().absorb(window);
        }
        table.untracked += log.windows.untracked();
        table.finished_records += batch.records.len();
        table.finished.push_back(batch);
        table.trim(self.finished_records);
    }

    /// The id of the track with that name.
    pub(crate) fn track(&self, name: &str) -> u16 {
        let mut table = self.thread_table();
        let known = table.tracks.iter().position(|track| **track == *name);
        let index = known.unwrap_or_else(|| {
            if table.tracks.len() < MAX_TRACKS {
                let full = table.tracks.len() == MAX_TRACKS - 1;
                table.tracks.push(if full { "(more tracks)" } else { name }.into());
            }
            table.tracks.len() - 1
        });
        u16::try_from(index + 1).unwrap_or(ASYNC_TRACK - 1)
    }

    /// Records a span measured elsewhere.
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
        let (Some(clock), Some(log)) = (self.clock(), log) else { return self.count_dropped(1) };
        let start = clock.ns_of(start);
        let end = start.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let key = Key { name: name.id(), kind: RecordKind::Span(category), depth: 0, track };
        log.push([start, end, key.pack(), bytes.map_or(0, pack_bytes)]);
    }

    /// The counter or gauge with that name.
    pub(crate) fn metric(&self, name: &str, kind: RecordKind) -> Arc<Metric> {
        self.metric_of(Name::new(name), kind)
    }

    pub(crate) fn metric_of(&self, name: Name, kind: RecordKind) -> Arc<Metric> {
        let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.id(), kind == RecordKind::Gauge);
        metrics.entry(key).or_insert_with(|| Arc::new(Metric::new(name.id(), kind))).clone()
    }

    /// All counters and gauges.
    pub(crate) fn metrics(&self) -> Vec<Arc<Metric>> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// All records not collected yet, and the number of dropped records that belong to no thread. With `take`, they are
    /// consumed.
    pub(crate) fn collect(&self, take: bool) -> (Vec<ThreadRecords>, u64) {
        let mut table = self.thread_table();
        let mut batches: Vec<ThreadRecords> = match take {
            true => std::mem::take(&mut table.finished).into(),
            false => table.finished.iter().cloned().collect(),
        };
        for live in &mut table.live {
            let (batch, next) = live.read();
            batches.push(batch);
            if take {
                live.tail = next;
            }
        }
        let evicted_dropped = table.evicted_dropped;
        let lost =
            if take { self.lost.swap(0, Ordering::Relaxed) } else { self.lost.load(Ordering::Relaxed) };
        if take {
            table.evicted_dropped = 0;
            table.finished_records = 0;
        }
        batches.sort_by_key(|batch| batch.thread);
        (batches, evicted_dropped + lost)
    }
}

impl ThreadTable {
    /// Bounds the records of ended threads; the oldest are dropped first, and counted.
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
            self.evicted_dropped += oldest.dropped + oldest.records.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_threads_are_bounded_and_drops_are_counted() {
        let mut table = ProfilerState::new(8, 10, ClockChoice::Instant).table.into_inner().unwrap();
        let batch = |thread, records| ThreadRecords {
            thread,
            name: None,
            records: vec![[0; WORDS]; records],
            dropped: 0,
        };
        for (thread, records) in [(1, 4), (2, 4), (3, 4)] {
            table.finished_records += records;
            table.finished.push_back(batch(thread, records));
            table.trim(10);
        }
        let kept: Vec<_> = table.finished.iter().map(|b| (b.records.len(), b.dropped)).collect();
        assert_eq!(kept, [(2, 2), (4, 0), (4, 0)]);
        for thread in 0..FINISHED_THREADS as u32 {
            table.finished.push_back(batch(thread, 0));
            table.trim(10);
        }
        assert_eq!(table.finished.len(), FINISHED_THREADS);
        assert_eq!((table.evicted_dropped, table.finished_records), (12, 0));
    }

    #[test]
    fn tracks_are_reused_and_bounded() {
        let state = ProfilerState::new(8, 8, ClockChoice::Instant);
        assert_eq!((state.track("a"), state.track("b"), state.track("a")), (1, 2, 1));
        for index in 0..2 * MAX_TRACKS {
            state.track(&format!("t{index}"));
        }
        assert_eq!(usize::from(state.track("one more")), MAX_TRACKS);
        assert_eq!(state.thread_table().tracks.len(), MAX_TRACKS);
    }
}
