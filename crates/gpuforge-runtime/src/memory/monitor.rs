//! Who hears that memory gets tight, and who cleans up? Subscribers of level changes, and whichever thread notices.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    AllocError, Allocation, Allocator, Limits, Pressure, Reclaim, Request, Why, fits,
    gate::{Changes, OneAtATime},
    keep_idle, pressure, should_clean,
    sync::{AtomicU64, Mutex, Ordering, lock},
};
use crate::units::Bytes;

/// Clean-ups in a row while other threads keep releasing; what is left then waits for the next request.
const ROUNDS: usize = 4;

/// Memory got tighter or looser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureEvent {
    /// The level that was told last.
    pub from: Pressure,
    /// The level now.
    pub to: Pressure,
    /// Bytes held: in use and idle.
    pub used: Bytes,
    /// Out of this many.
    pub budget: Bytes,
}

/// Which subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionId(u64);

type Subscriber = Arc<dyn Fn(&PressureEvent) + Send + Sync>;

/// What a monitor did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorStats {
    /// The level now.
    pub pressure: Pressure,
    /// The bytes that levels are counted from.
    pub budget: Bytes,
    /// Level changes told.
    pub events: u64,
    /// Clean-ups that ran.
    pub cleanups: u64,
    /// Clean-ups left out because one was running.
    pub skipped: u64,
    /// Bytes they freed.
    pub freed: Bytes,
    /// Panics of subscribers, caught.
    pub subscriber_panics: u64,
}

/// Watches how much is held after every request.
///
/// Events come one at a time and in order: each begins at the level where the one before ended. A subscriber may
/// allocate and release; the changes it causes are told when it has returned. It runs on the thread whose request
/// changed the level, so it should be quick.
pub struct Monitor<A> {
    below: A,
    budget: Bytes,
    changes: Changes,
    cleaning: OneAtATime,
    subscribers: Mutex<Vec<(SubscriptionId, Subscriber)>>,
    next_id: AtomicU64,
    events: AtomicU64,
    cleanups: AtomicU64,
    skipped: AtomicU64,
    freed: AtomicU64,
    panics: AtomicU64,
}

impl<A: Reclaim> Monitor<A> {
    /// Watches `below` against `budget`.
    pub fn new(below: A, budget: Bytes) -> Self {
        let level = pressure(below.held(), budget);
        let zero = || AtomicU64::new(0);
        Monitor {
            below,
            budget,
            changes: Changes::new(level as u8),
            cleaning: OneAtATime::new(),
            subscribers: Mutex::new(Vec::new()),
            next_id: zero(),
            events: zero(),
            cleanups: zero(),
            skipped: zero(),
            freed: zero(),
            panics: zero(),
        }
    }

    /// The layer below.
    pub fn below(&self) -> &A {
        &self.below
    }

    /// The level now.
    pub fn pressure(&self) -> Pressure {
        pressure(self.below.held(), self.budget)
    }

    /// Calls `subscriber` on every later change of level.
    pub fn subscribe(&self, subscriber: impl Fn(&PressureEvent) + Send + Sync + 'static) -> SubscriptionId {
        let id = SubscriptionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        lock(&self.subscribers).push((id, Arc::new(subscriber)));
        id
    }

    /// Ends a subscription. An event that is being told right now may still arrive. True when there was one.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        let gone = {
            let mut subscribers = lock(&self.subscribers);
            let at = subscribers.iter().position(|(other, _)| *other == id);
            at.map(|at| subscribers.swap_remove(at))
        };
        // Dropped here, after the lock: what a closure owns may do anything when it goes.
        gone.is_some()
    }

    /// Would a request of this size be granted, after a clean-up if need be? An answer for this moment: another thread
    /// may take the room before the request comes.
    pub fn can_allocate(&self, size: Bytes) -> Result<(), Why> {
        let limits = self.below.limits();
        let limit = limits.total.unwrap_or(self.budget);
        let in_use = self.below.held() - self.below.idle();
        fits(size, self.below.granted(size), in_use, limit, limits.largest().min(limit))
    }

    /// Tells a change of level and cleans up if it is time. Every request does this; call it after a trim from outside.
    pub fn observe(&self) {
        self.tell();
        if self.clean() > Bytes::ZERO {
            self.tell();
        }
    }

    /// Counts so far.
    pub fn stats(&self) -> MonitorStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MonitorStats {
            pressure: self.pressure(),
            budget: self.budget,
            events: read(&self.events),
            cleanups: read(&self.cleanups),
            skipped: read(&self.skipped),
            freed: Bytes(read(&self.freed)),
            subscriber_panics: read(&self.panics),
        }
    }

    fn tell(&self) {
        let level =
            |number: u8| Pressure::ALL.get(usize::from(number)).copied().unwrap_or(Pressure::Critical);
        self.changes.settle(
            || self.pressure() as u8,
            |from, to| {
                let (from, to) = (level(from), level(to));
                let event = PressureEvent { from, to, used: self.below.held(), budget: self.budget };
                self.events.fetch_add(1, Ordering::Relaxed);
                // A copy of the list, so that no lock is held while they run.
                let subscribers: Vec<_> =
                    lock(&self.subscribers).iter().map(|(_, s)| Arc::clone(s)).collect();
                for subscriber in subscribers {
                    // Caught: a block was just handed out, and unwinding from here would lose it.
                    if catch_unwind(AssertUnwindSafe(|| subscriber(&event))).is_err() {
                        self.panics.fetch_add(1, Ordering::Relaxed);
                    }
                }
            },
        );
    }

    /// Trims idle blocks from 85 % on, unless a clean-up is running: then that one looks again when it is done.
    fn clean(&self) -> Bytes {
        let mut freed = Bytes::ZERO;
        for _ in 0..ROUNDS {
            let held = self.below.held();
            if !should_clean(held, self.budget) {
                break;
            }
            let idle = self.below.idle();
            if idle == Bytes::ZERO {
                break;
            }
            let trim = || self.below.trim(keep_idle(held, idle, self.budget));
            let Some(now) = self.cleaning.run(trim) else {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                break;
            };
            self.cleanups.fetch_add(1, Ordering::Relaxed);
            self.freed.fetch_add(now.0, Ordering::Relaxed);
            freed += now;
        }
        freed
    }
}

impl<A: Reclaim> Allocator for Monitor<A> {
    type Block = A::Block;

    fn allocate(&self, request: Request) -> Result<Allocation<A::Block>, AllocError> {
        // After a failure too: the pool may have let go of everything it had.
        let answer = self.below.allocate(request);
        self.observe();
        answer
    }

    fn release(&self, allocation: Allocation<A::Block>) {
        // The pool holds as much as before, but what it holds is idle now and can be cleaned up.
        self.below.release(allocation);
        self.observe();
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }
}
