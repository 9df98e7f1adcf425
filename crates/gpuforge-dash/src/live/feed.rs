//! Event feed: bounded lists of recent routing decisions and events; one atomic load when publishing is off.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Instant,
};

use super::snapshot::{EventLevel, LiveEvent, MAX_ROWS, RoutingDecision};

/// Decisions recorded between two snapshots (rate limit); others are only counted, without reading a clock or formatting.
pub const DECISIONS_PER_SNAPSHOT: u32 = 16;

static ON: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicU32 = AtomicU32::new(0);
static ROUTED: AtomicU64 = AtomicU64::new(0);
static BATCHED: AtomicU64 = AtomicU64::new(0);
static BEGAN: OnceLock<Instant> = OnceLock::new();
static LISTS: Mutex<Lists> =
    Mutex::new(Lists { routing: VecDeque::new(), events: VecDeque::new(), happened: 0 });

struct Lists {
    routing: VecDeque<RoutingDecision>,
    events: VecDeque<LiveEvent>,
    happened: u64,
}

/// Contents of the feed.
pub(crate) struct FeedContents {
    pub(crate) routed: u64,
    pub(crate) batched: u64,
    pub(crate) routing: Vec<RoutingDecision>,
    pub(crate) events: Vec<LiveEvent>,
}

fn lists() -> MutexGuard<'static, Lists> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Is the feed recording?
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

pub(crate) fn switch(on: bool) {
    BEGAN.get_or_init(Instant::now);
    // The first decisions are recorded before any viewer connects.
    LEFT.store(if on { DECISIONS_PER_SNAPSHOT } else { 0 }, Ordering::Relaxed);
    ON.store(on, Ordering::Relaxed);
}

/// Milliseconds since the first publisher of this process started.
pub(crate) fn uptime_ms() -> u64 {
    BEGAN.get().map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Records a decision; `make` is called only when it will be kept, and need not fill in `seq` and `at_ms`.
#[inline]
pub fn routed(make: impl FnOnce() -> RoutingDecision) {
    if is_on() {
        let seq = ROUTED.fetch_add(1, Ordering::Relaxed) + 1;
        if take_token() {
            keep(RoutingDecision { seq, at_ms: uptime_ms(), ..make() });
        }
    }
}

/// Records the decisions of a batch, one per item. `make` returns a few summary rows, e.g. by backend, and is called only
/// when they will be kept.
pub fn batched(items: u64, make: impl FnOnce() -> Vec<RoutingDecision>) {
    if items > 0 && is_on() {
        let first = ROUTED.fetch_add(items, Ordering::Relaxed) + 1;
        BATCHED.fetch_add(items, Ordering::Relaxed);
        if take_token() {
            let at_ms = uptime_ms();
            // Never more rows than items: each has its own sequence number.
            make().into_iter().zip(first..first.saturating_add(items)).for_each(|(row, seq)| {
                keep(RoutingDecision { seq, at_ms, ..row });
            });
        }
    }
}

/// Takes a token of the rate limit.
fn take_token() -> bool {
    LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn keep(routed: RoutingDecision) {
    let mut lists = lists();
    push(&mut lists.routing, routed);
}

/// Records an event. Events are rare; each is kept.
pub fn event(level: EventLevel, text: impl FnOnce() -> String) {
    if is_on() {
        let (text, at_ms) = (text(), uptime_ms());
        let mut lists = lists();
        lists.happened += 1;
        let seq = lists.happened;
        push(&mut lists.events, LiveEvent { seq, at_ms, level, text });
    }
}

fn push<T>(list: &mut VecDeque<T>, row: T) {
    if list.len() >= MAX_ROWS {
        list.pop_front();
    }
    list.push_back(row);
}

/// Current contents; resets the rate limit.
pub(crate) fn collect() -> FeedContents {
    let (routing, events) = {
        let lists = lists();
        (lists.routing.iter().cloned().collect(), lists.events.iter().cloned().collect())
    };
    LEFT.store(DECISIONS_PER_SNAPSHOT, Ordering::Relaxed);
    let (routed, batched) = (ROUTED.load(Ordering::Relaxed), BATCHED.load(Ordering::Relaxed));
    FeedContents { routed, batched, routing, events }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: the lists belong to the process.
    #[test]
    fn decisions_are_counted_and_rate_limited() {
        event(EventLevel::Info, || panic!("nothing is formatted while off"));
        routed(|| panic!("nothing is formatted while off"));
        batched(5, || panic!("nothing is formatted while off"));
        switch(true);
        collect();
        let mut made = 0;
        for _ in 0..1000 {
            routed(|| {
                made += 1;
                RoutingDecision { operation: "xor".into(), ..RoutingDecision::default() }
            });
        }
        let contents = collect();
        assert_eq!((made, contents.routed, contents.routing.len()), (16, 1000, 16));
        assert_eq!(contents.routing.last().map(|r| r.seq), Some(16));
        batched(0, || panic!("an empty batch decided nothing"));
        let row = || RoutingDecision { operation: "batch".into(), ..RoutingDecision::default() };
        batched(500, || vec![row(), row()]);
        batched(1, || vec![row(), row()]);
        let contents = collect();
        assert_eq!((contents.routed, contents.batched), (1501, 501));
        let seqs: Vec<u64> = contents.routing.iter().skip(16).map(|r| r.seq).collect();
        assert_eq!(seqs, [1001, 1002, 1501], "no row without an item of its own");
        for i in 0..100 {
            event(EventLevel::Warning, || format!("event {i}"));
        }
        let contents = collect();
        assert_eq!(contents.events.len(), MAX_ROWS);
        assert_eq!(contents.events.last().map(|e| (e.seq, e.text.as_str())), Some((100, "event 99")));
        switch(false);
    }
}
