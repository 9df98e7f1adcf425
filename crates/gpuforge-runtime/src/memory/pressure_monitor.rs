//! Memory pressure monitor: notifies subscribers of level changes and evicts idle blocks from 85 % of the budget on.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    AllocError, AllocLimits, AllocRefusal, AllocRequest, Allocation, Allocator, Pressure, Reclaim,
    idle_to_keep, pressure, should_evict,
    single_flight::{ChangeNotifier, SingleFlight},
    sync::{AtomicU64, Mutex, Ordering, lock},
    would_fit,
};
use crate::units::Bytes;

/// Evictions in a row while other threads keep releasing; the rest waits for the next request.
const ROUNDS: usize = 4;

/// A change of the pressure level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureEvent {
    /// The level reported last.
    pub from: Pressure,
    /// The level now.
    pub to: Pressure,
    /// Bytes held: in use and idle.
    pub used: Bytes,
    /// The budget.
    pub budget: Bytes,
}

/// Id of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionId(u64);

type Subscriber = Arc<dyn Fn(&PressureEvent) + Send + Sync>;

/// Statistics of a pressure monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorStats {
    /// The level now.
    pub pressure: Pressure,
    /// The budget that levels are relative to.
    pub budget: Bytes,
    /// Level changes reported.
    pub events: u64,
    /// Evictions that ran.
    #[serde(rename = "cleanups")]
    pub evictions: u64,
    /// Evictions skipped because one was running.
    pub skipped: u64,
    /// Bytes evicted.
    pub freed: Bytes,
    /// Panics of subscribers, caught.
    pub subscriber_panics: u64,
}

/// Checks the pressure level after every allocation and release.
///
/// Events are delivered one at a time and in order: each starts at the level where the previous one ended. A subscriber
/// may allocate and release; the changes it causes are reported after it has returned. It runs on the thread whose
/// request changed the level, so it should be quick.
pub struct PressureMonitor<A> {
    upstream: A,
    budget: Bytes,
    notifier: ChangeNotifier,
    evicting: SingleFlight,
    subscribers: Mutex<Vec<(SubscriptionId, Subscriber)>>,
    next_id: AtomicU64,
    events: AtomicU64,
    evictions: AtomicU64,
    skipped: AtomicU64,
    freed: AtomicU64,
    panics: AtomicU64,
}

impl<A: Reclaim> PressureMonitor<A> {
    /// Monitors `upstream` against `budget`.
    pub fn new(upstream: A, budget: Bytes) -> Self {
        let level = pressure(upstream.held(), budget);
        let zero = || AtomicU64::new(0);
        PressureMonitor {
            upstream,
            budget,
            notifier: ChangeNotifier::new(level as u8),
            evicting: SingleFlight::new(),
            subscribers: Mutex::new(Vec::new()),
            next_id: zero(),
            events: zero(),
            evictions: zero(),
            skipped: zero(),
            freed: zero(),
            panics: zero(),
        }
    }

    /// The upstream allocator.
    pub fn upstream(&self) -> &A {
        &self.upstream
    }

    /// The level now.
    pub fn pressure(&self) -> Pressure {
        pressure(self.upstream.held(), self.budget)
    }

    /// Calls `subscriber` on every later level change.
    pub fn subscribe(&self, subscriber: impl Fn(&PressureEvent) + Send + Sync + 'static) -> SubscriptionId {
        let id = SubscriptionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        lock(&self.subscribers).push((id, Arc::new(subscriber)));
        id
    }

    /// Ends a subscription. An event in flight may still arrive. Returns whether there was one.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        let removed = {
            let mut subscribers = lock(&self.subscribers);
            let at = subscribers.iter().position(|(other, _)| *other == id);
            at.map(|at| subscribers.swap_remove(at))
        };
        // Dropped here, after the lock: the destructors of what a closure owns may do anything.
        removed.is_some()
    }

    /// Would a request of this size succeed, after eviction if need be? A snapshot: another thread may allocate first.
    pub fn can_allocate(&self, size: Bytes) -> Result<(), AllocRefusal> {
        let limits = self.upstream.limits();
        let limit = limits.total.unwrap_or(self.budget);
        let in_use = self.upstream.held() - self.upstream.idle();
        would_fit(size, self.upstream.rounded_size(size), in_use, limit, limits.largest().min(limit))
    }

    /// Reports a level change and evicts if necessary. Every request does this; call it after an external trim.
    pub fn observe(&self) {
        self.notify();
        if self.evict() > Bytes::ZERO {
            self.notify();
        }
    }

    /// Statistics so far.
    pub fn stats(&self) -> MonitorStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MonitorStats {
            pressure: self.pressure(),
            budget: self.budget,
            events: read(&self.events),
            evictions: read(&self.evictions),
            skipped: read(&self.skipped),
            freed: Bytes(read(&self.freed)),
            subscriber_panics: read(&self.panics),
        }
    }

    fn notify(&self) {
        let level =
            |number: u8| Pressure::ALL.get(usize::from(number)).copied().unwrap_or(Pressure::Critical);
        self.notifier.notify(
            || self.pressure() as u8,
            |from, to| {
                let (from, to) = (level(from), level(to));
                let event = PressureEvent { from, to, used: self.upstream.held(), budget: self.budget };
                self.events.fetch_add(1, Ordering::Relaxed);
                // A copy of the list: no lock is held while subscribers run.
                let subscribers: Vec<_> =
                    lock(&self.subscribers).iter().map(|(_, s)| Arc::clone(s)).collect();
                for subscriber in subscribers {
                    // Caught: a block was just allocated, and unwinding from here would leak it.
                    if catch_unwind(AssertUnwindSafe(|| subscriber(&event))).is_err() {
                        self.panics.fetch_add(1, Ordering::Relaxed);
                    }
                }
            },
        );
    }

    /// Evicts idle blocks from 85 % on, unless an eviction is running: that one then re-checks when it is done.
    fn evict(&self) -> Bytes {
        let mut freed = Bytes::ZERO;
        for _ in 0..ROUNDS {
            let held = self.upstream.held();
            if !should_evict(held, self.budget) {
                break;
            }
            let idle = self.upstream.idle();
            if idle == Bytes::ZERO {
                break;
            }
            let trim = || self.upstream.trim(idle_to_keep(held, idle, self.budget));
            let Some(now) = self.evicting.try_run(trim) else {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                break;
            };
            self.evictions.fetch_add(1, Ordering::Relaxed);
            self.freed.fetch_add(now.0, Ordering::Relaxed);
            freed += now;
        }
        freed
    }
}

impl<A: Reclaim> Allocator for PressureMonitor<A> {
    type Block = A::Block;

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<A::Block>, AllocError> {
        // After a failure too: the pool may have evicted everything it had.
        let result = self.upstream.allocate(request);
        self.observe();
        result
    }

    fn release(&self, allocation: Allocation<A::Block>) {
        // The pool holds as much as before, but this block is idle now and can be evicted.
        self.upstream.release(allocation);
        self.observe();
    }

    fn limits(&self) -> AllocLimits {
        self.upstream.limits()
    }
}
