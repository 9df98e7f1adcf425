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
        let taken = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_ok() {
            keep(Routed { seq, at_ms: uptime_ms(), ..make() });
        }
    }
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
    Told { routed: ROUTED.load(Ordering::Relaxed), routing, events }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: the lists belong to the process.
    #[test]
    fn decisions_are_counted_and_only_some_are_made() {
        event(Level::Info, || panic!("nothing is formatted while off"));
        routed(|| panic!("nothing is formatted while off"));
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
        for i in 0..100 {
            event(Level::Warning, || format!("event {i}"));
        }
        let told = tell();
        assert_eq!(told.events.len(), MOST_ROWS);
        assert_eq!(told.events.last().map(|e| (e.seq, e.text.as_str())), Some((100, "event 99")));
        switch(false);
    }
}
