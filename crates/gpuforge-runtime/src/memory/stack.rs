//! Memory stack: monitor, tracking, pool, limit and tracking adaptors over a device, as one type.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    AllocError, AllocRefusal, AllocRequest, Allocation, AllocationHistory, Allocator, Budget, ClassPeak,
    Clock, LeakReport, LeakSettings, LimitStats, LimitingAdaptor, MonitorStats, Monotonic, Pool,
    PoolSettings, PoolStats, Pooled, Pressure, PressureEvent, PressureMonitor, Reclaim, SubscriptionId,
    TrackStats, Tracked, TrackingAdaptor, prewarm,
};
use crate::units::Bytes;

/// The users' view: tracking over the pool over the limit over the device's tracking.
type UserTracking<D> = TrackingAdaptor<Pool<LimitingAdaptor<TrackingAdaptor<D>>>>;

/// Settings of a memory stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackSettings {
    /// The budget that pressure is relative to, and its source.
    pub budget: Budget,
    /// Pool settings.
    pub pool: PoolSettings,
    /// Leak detection settings.
    pub leaks: LeakSettings,
    /// Share of the remaining limit that [`MemoryStack::prewarm`] may allocate.
    pub prewarm_percent: u8,
}

impl StackSettings {
    /// The defaults for a budget.
    pub fn new(budget: Budget) -> Self {
        let (pool, leaks) = (PoolSettings::default(), LeakSettings::default());
        StackSettings { budget, pool, leaks, prewarm_percent: 25 }
    }
}

/// Statistics of every layer, taken at nearly the same moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackStats {
    /// The budget and its origin.
    pub budget: Budget,
    /// Pressure, events, evictions.
    pub monitor: MonitorStats,
    /// Memory in use by tag.
    pub users: TrackStats,
    /// Reuse and fragmentation.
    pub pool: PoolStats,
    /// The hard cap.
    pub limit: LimitStats,
    /// What the device allocated. Its tags are those of the first user of each block.
    pub device: TrackStats,
}

/// A block of a stack. Free it with [`MemoryStack::release`].
#[derive(Debug)]
#[must_use = "a dropped allocation is leaked; free it with `release`"]
pub struct StackAllocation<B>(Allocation<Tracked<Pooled<Tracked<B>>>>);

impl<B> StackAllocation<B> {
    /// The device's block.
    pub fn block(&self) -> &B {
        self.0.block().inner().block().inner().block().inner().block()
    }

    /// The request.
    pub fn request(&self) -> AllocRequest {
        self.0.request()
    }

    /// Allocated bytes, at least the requested size.
    pub fn capacity(&self) -> Bytes {
        self.0.capacity()
    }
}

/// Pressure monitor over users' tracking over pool over limit over device tracking over the device.
pub struct MemoryStack<D: Allocator> {
    settings: StackSettings,
    top: PressureMonitor<UserTracking<D>>,
}

impl<D: Allocator> MemoryStack<D> {
    /// A stack over `device` with the system clock.
    pub fn new(device: D, settings: StackSettings) -> Self {
        Self::with_clock(device, settings, Arc::new(Monotonic::default()))
    }

    /// A stack over `device` with the caller's clock.
    pub fn with_clock(device: D, settings: StackSettings, clock: Arc<dyn Clock>) -> Self {
        let device = TrackingAdaptor::new(device, settings.leaks, Arc::clone(&clock)).timed();
        let limit = LimitingAdaptor::new(device, settings.budget.limit());
        let pool = Pool::new(limit, settings.pool, Arc::clone(&clock));
        let users = TrackingAdaptor::new(pool, settings.leaks, clock);
        MemoryStack { settings, top: PressureMonitor::new(users, settings.budget.bytes) }
    }

    /// Allocates a block of at least the requested size.
    pub fn allocate(&self, request: AllocRequest) -> Result<StackAllocation<D::Block>, AllocError> {
        self.top.allocate(request).map(StackAllocation)
    }

    /// Frees a block.
    pub fn release(&self, allocation: StackAllocation<D::Block>) {
        self.top.release(allocation.0);
    }

    /// Would a request of this size succeed now, after eviction if need be?
    pub fn can_allocate(&self, size: Bytes) -> Result<(), AllocRefusal> {
        self.top.can_allocate(size)
    }

    /// The pressure level now.
    pub fn pressure(&self) -> Pressure {
        self.top.pressure()
    }

    /// Calls `subscriber` on every later level change. A subscriber that allocates should hold the stack weakly.
    pub fn subscribe(&self, subscriber: impl Fn(&PressureEvent) + Send + Sync + 'static) -> SubscriptionId {
        self.top.subscribe(subscriber)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.top.unsubscribe(id)
    }

    /// Evicts idle blocks in LRU order until at most `keep` bytes are cached. Returns the bytes freed.
    pub fn trim(&self, keep: Bytes) -> Bytes {
        let freed = self.pool().trim(keep);
        self.top.observe();
        freed
    }

    /// Periodic maintenance, also when nobody allocates: frees blocks that were idle too long and takes a sample for the
    /// leak detector. Returns the bytes freed.
    pub fn tick(&self) -> Bytes {
        self.users().sample();
        let freed = self.pool().expire();
        self.top.observe();
        freed
    }

    /// Suspected leaks among the blocks in use. Idle blocks of the pool are not suspect.
    pub fn leaks(&self) -> LeakReport {
        self.users().leaks()
    }

    /// High-water marks per size class so far, for [`AllocationHistory::learn`].
    pub fn peaks(&self) -> Vec<ClassPeak> {
        self.pool().peaks()
    }

    /// Allocates blocks ahead of need, as the history suggests. Returns the number of blocks.
    pub fn prewarm(&self, history: &AllocationHistory) -> u64 {
        let limit = self.pool().upstream().stats();
        let steps = prewarm(history, limit.limit - limit.used, self.settings.prewarm_percent);
        let made = steps
            .iter()
            .map(|step| u64::from(self.pool().preallocate(step.class, step.size, step.count)))
            .sum();
        self.top.observe();
        made
    }

    /// Statistics so far.
    pub fn stats(&self) -> StackStats {
        let limit = self.pool().upstream();
        StackStats {
            budget: self.settings.budget,
            monitor: self.top.stats(),
            users: self.users().stats(),
            pool: self.pool().stats(),
            limit: limit.stats(),
            device: limit.upstream().stats(),
        }
    }

    /// The device at the bottom.
    pub fn device(&self) -> &D {
        self.pool().upstream().upstream().upstream()
    }

    fn users(&self) -> &UserTracking<D> {
        self.top.upstream()
    }

    fn pool(&self) -> &Pool<LimitingAdaptor<TrackingAdaptor<D>>> {
        self.users().upstream()
    }
}
