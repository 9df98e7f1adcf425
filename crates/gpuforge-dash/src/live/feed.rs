//! Which decisions and events are there to tell? Two short lists that cost one load while nobody publishes.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Instant,
};

use super::snapshot::{Event, Level, MOST_ROWS, Routed};

/// Decisions that are written down between two snapshots; the others are counted. No clock is read and nothing is
/// formatted for those.
pub const DECISIONS_PER_SNAPSHOT: u32 = 16;

static ON: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicU32 = AtomicU32::new(0);
static ROUTED: AtomicU64 = AtomicU64::new(0);
static BATCHED: AtomicU64 = AtomicU64::new(0);
static BEGAN: OnceLock<Instant> = OnceLock::new();
static LISTS: Mutex<Lists> =
    Mutex::new(Lists { routing: VecDeque::new(), events: VecDeque::new(), happened: 0 });

struct Lists {
    routing: VecDeque<Routed>,
    events: VecDeque<Event>,
    happened: u64,
}

/// What the lists hold.
pub(crate) struct Told {
    pub(crate) routed: u64,
    pub(crate) batched: u64,
    pub(crate) routing: Vec<Routed>,
    pub(crate) events: Vec<Event>,
}

fn lists() -> MutexGuard<'static, Lists> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Is anything kept?
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

pub(crate) fn switch(on: bool) {
    BEGAN.get_or_init(Instant::now);
    // The first decisions are there for whoever comes first.
    LEFT.store(if on { DECISIONS_PER_SNAPSHOT } else { 0 }, Ordering::Relaxed);
    ON.store(on, Ordering::Relaxed);
}

/// Since the first publisher of this process began.
pub(crate) fn uptime_ms() -> u64 {
    BEGAN.get().map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Tells a decision; `make` is called only when it will be kept, and need not fill in `seq` and `at_ms`.
#[inline]
pub fn routed(make: impl FnOnce() -> Routed) {
    if is_on() {
        let seq = ROUTED.fetch_add(1, Ordering::Relaxed) + 1;
        if one_more() {
            keep(Routed { seq, at_ms: uptime_ms(), ..make() });
        }
    }
}

/// Tells the decisions of a batch: each of its items is one. `make` gives a row or a few that sum them up, by place say,
/// and is called only when they will be kept.
pub fn batched(items: u64, make: impl FnOnce() -> Vec<Routed>) {
    if items > 0 && is_on() {
        let first = ROUTED.fetch_add(items, Ordering::Relaxed) + 1;
        BATCHED.fetch_add(items, Ordering::Relaxed);
        if one_more() {
            let at_ms = uptime_ms();
            // Never more rows than items: each has a number of its own.
            make().into_iter().zip(first..first.saturating_add(items)).for_each(|(row, seq)| {
                keep(Routed { seq, at_ms, ..row });
            });
        }
    }
}

/// May one more be written down before the next snapshot?
fn one_more() -> bool {
    LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn keep(routed: Routed) {
    let mut lists = lists();
    push(&mut lists.routing, routed);
}

/// Tells an event. Events are meant to be rare; each is kept.
pub fn event(level: Level, text: impl FnOnce() -> String) {
    if is_on() {
        let (text, at_ms) = (text(), uptime_ms());
        let mut lists = lists();
        lists.happened += 1;
        let seq = lists.happened;
        push(&mut lists.events, Event { seq, at_ms, level, text });
    }
}

fn push<T>(list: &mut VecDeque<T>, row: T) {
    if list.len() >= MOST_ROWS {
        list.pop_front();
    }
    list.push_back(row);
}

/// What there is to tell now; more decisions may be written down from here on.
pub(crate) fn tell() -> Told {
    let (routing, events) = {
        let lists = lists();
        (lists.routing.iter().cloned().collect(), lists.events.iter().cloned().collect())
    };
    LEFT.store(DECISIONS_PER_SNAPSHOT, Ordering::Relaxed);
    let (routed, batched) = (ROUTED.load(Ordering::Relaxed), BATCHED.load(Ordering::Relaxed));
    Told { routed, batched, routing, events }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: the lists belong to the process.
    #[test]
    fn decisions_are_counted_and_only_some_are_made() {
        event(Level::Info, || panic!("nothing is formatted while off"));
        routed(|| panic!("nothing is formatted while off"));
        batched(5, || panic!("nothing is formatted while off"));
        switch(true);
        tell();
        let mut made = 0;
        for _ in 0..1000 {
            routed(|| {
                made += 1;
                Routed { operation: "xor".into(), ..Routed::default() }
            });
        }
        let told = tell();
        assert_eq!((made, told.routed, told.routing.len()), (16, 1000, 16));
        assert_eq!(told.routing.last().map(|r| r.seq), Some(16));
        batched(0, || panic!("an empty batch decided nothing"));
        let row = || Routed { operation: "batch".into(), ..Routed::default() };
        batched(500, || vec![row(), row()]);
        batched(1, || vec![row(), row()]);
        let told = tell();
        assert_eq!((told.routed, told.batched), (1501, 501));
        let seqs: Vec<u64> = told.routing.iter().skip(16).map(|r| r.seq).collect();
        assert_eq!(seqs, [1001, 1002, 1501], "no row without an item of its own");
        for i in 0..100 {
            event(Level::Warning, || format!("event {i}"));
        }
        let told = tell();
        assert_eq!(told.events.len(), MOST_ROWS);
        assert_eq!(told.events.last().map(|e| (e.seq, e.text.as_str())), Some((100, "event 99")));
        switch(false);
    }
}
