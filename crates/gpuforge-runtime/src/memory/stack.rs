//! How are the layers put together? One type for the engines: the whole stack over a device.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    AllocError, Allocation, Allocator, Budget, ClassPeak, Clock, History, LeakReport, LeakSettings, Limit,
    LimitStats, Monitor, MonitorStats, Monotonic, Pool, PoolSettings, PoolStats, Pooled, Pressure,
    PressureEvent, Reclaim, Request, SubscriptionId, Track, TrackStats, Tracked, Why, prewarm,
};
use crate::units::Bytes;

type Users<D> = Track<Pool<Limit<Track<D>>>>;

/// How a stack is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackSettings {
    /// What pressure is counted from, and where it comes from.
    pub budget: Budget,
    /// What the pool keeps.
    pub pool: PoolSettings,
    /// When to suspect a leak.
    pub leaks: LeakSettings,
    /// Share of what is left of the limit that [`MemoryStack::prewarm`] may take.
    pub prewarm_percent: u8,
}

impl StackSettings {
    /// The defaults for a budget.
    pub fn new(budget: Budget) -> Self {
        let (pool, leaks) = (PoolSettings::default(), LeakSettings::default());
        StackSettings { budget, pool, leaks, prewarm_percent: 25 }
    }
}

/// What every layer counted, at nearly the same moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackStats {
    /// The budget and its origin.
    pub budget: Budget,
    /// Pressure, events, clean-ups.
    pub monitor: MonitorStats,
    /// What users hold, by tag.
    pub users: TrackStats,
    /// Reuse and waste.
    pub pool: PoolStats,
    /// The hard cap.
    pub limit: LimitStats,
    /// What the device gave. Its tags are those of the first users of each block.
    pub device: TrackStats,
}

/// A block of a stack. Give it back with [`MemoryStack::release`].
#[derive(Debug)]
#[must_use = "a dropped grant stays accounted for; give it back with `release`"]
pub struct Grant<B>(Allocation<Tracked<Pooled<Tracked<B>>>>);

impl<B> Grant<B> {
    /// What the device gave.
    pub fn block(&self) -> &B {
        self.0.block().inner().block().inner().block().inner().block()
    }

    /// What was asked for.
    pub fn request(&self) -> Request {
        self.0.request()
    }

    /// Bytes that are really there, at least the requested size.
    pub fn capacity(&self) -> Bytes {
        self.0.capacity()
    }
}

/// Monitor over users' track over pool over limit over device's track over the device.
pub struct MemoryStack<D: Allocator> {
    settings: StackSettings,
    top: Monitor<Users<D>>,
}

impl<D: Allocator> MemoryStack<D> {
    /// A stack over `device` with the machine's clock.
    pub fn new(device: D, settings: StackSettings) -> Self {
        Self::with_clock(device, settings, Arc::new(Monotonic::default()))
    }

    /// A stack over `device` with a clock of the caller's.
    pub fn with_clock(device: D, settings: StackSettings, clock: Arc<dyn Clock>) -> Self {
        let device = Track::new(device, settings.leaks, Arc::clone(&clock)).timed();
        let limit = Limit::new(device, settings.budget.limit());
        let pool = Pool::new(limit, settings.pool, Arc::clone(&clock));
        let users = Track::new(pool, settings.leaks, clock);
        MemoryStack { settings, top: Monitor::new(users, settings.budget.bytes) }
    }

    /// A block of at least the requested size.
    pub fn allocate(&self, request: Request) -> Result<Grant<D::Block>, AllocError> {
        self.top.allocate(request).map(Grant)
    }

    /// Takes a block back.
    pub fn release(&self, grant: Grant<D::Block>) {
        self.top.release(grant.0);
    }

    /// Would a request of this size be granted now, after a clean-up if need be?
    pub fn can_allocate(&self, size: Bytes) -> Result<(), Why> {
        self.top.can_allocate(size)
    }

    /// The level now.
    pub fn pressure(&self) -> Pressure {
        self.top.pressure()
    }

    /// Calls `subscriber` on every later change of level. A subscriber that allocates should hold the stack weakly.
    pub fn subscribe(&self, subscriber: impl Fn(&PressureEvent) + Send + Sync + 'static) -> SubscriptionId {
        self.top.subscribe(subscriber)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.top.unsubscribe(id)
    }

    /// Gives idle blocks back until no more than `keep` are left, the longest unused first. Returns what was freed.
    pub fn trim(&self, keep: Bytes) -> Bytes {
        let freed = self.pool().trim(keep);
        self.top.observe();
        freed
    }

    /// What should happen now and then even when nobody allocates: gives back what has been idle too long, and notes
    /// the level for the leak detector. Returns what was freed.
    pub fn tick(&self) -> Bytes {
        self.users().sample();
        let freed = self.pool().expire();
        self.top.observe();
        freed
    }

    /// What looks like a leak among the blocks that users hold. Idle blocks of the pool are not suspect.
    pub fn leaks(&self) -> LeakReport {
        self.users().leaks()
    }

    /// The most blocks of each class in use together so far, for [`History::learn`].
    pub fn peaks(&self) -> Vec<ClassPeak> {
        self.pool().peaks()
    }

    /// Makes blocks ahead of need, as the history suggests. Returns how many.
    pub fn prewarm(&self, history: &History) -> u64 {
        let limit = self.pool().below().stats();
        let steps = prewarm(history, limit.limit - limit.used, self.settings.prewarm_percent);
        let made =
            steps.iter().map(|step| u64::from(self.pool().fill(step.class, step.size, step.count))).sum();
        self.top.observe();
        made
    }

    /// Counts so far.
    pub fn stats(&self) -> StackStats {
        let limit = self.pool().below();
        StackStats {
            budget: self.settings.budget,
            monitor: self.top.stats(),
            users: self.users().stats(),
            pool: self.pool().stats(),
            limit: limit.stats(),
            device: limit.below().stats(),
        }
    }

    /// The device at the bottom.
    pub fn device(&self) -> &D {
        self.pool().below().below().below()
    }

    fn users(&self) -> &Users<D> {
        self.top.below()
    }

    fn pool(&self) -> &Pool<Limit<Track<D>>> {
        self.users().below()
    }
}
