//! Device memory: a stack of allocator adaptors in RMM's style (pool, limiting, tracking, pressure monitor).
//!
//! One interface, [`Allocator`], and small adaptors of an upstream allocator that know nothing of each other:
//!
//! ```text
//! PressureMonitor   pressure levels, events, eviction of idle blocks at 85 %
//! TrackingAdaptor   who uses what: tags, high-water mark, leaks         (the users' view)
//! Pool              size classes over free lists, LRU eviction, one retry on OOM
//! LimitingAdaptor   hard cap below the device's budget
//! TrackingAdaptor   what the device allocated: bytes, blocks, time      (the device's view)
//! device            anything that implements Allocator
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `allocator.rs` | the traits `Allocator` and `Reclaim`, requests, allocations, errors |
//! | `pool.rs` · `free_list.rs` · `size_class.rs` | buffer pool; free lists in LRU order; rounding to size classes |
//! | `limiting_adaptor.rs` · `tracking_adaptor.rs` · `leak.rs` | hard cap; accounting per tag; leak detection |
//! | `pressure_monitor.rs` · `pressure.rs` | pressure events and eviction; thresholds as pure functions |
//! | `budget.rs` · `prewarm.rs` | how much may be used; blocks allocated ahead from the history of earlier runs |
//! | `stack.rs` | all layers as one type |
//! | `single_flight.rs` · `sync.rs` · `clock.rs` | non-blocking gates; locks and atomics (loom); the clock |
//!
//! There are two `TrackingAdaptor`s because the two views differ: below the pool an idle block is live and carries the
//! tag of whoever allocated it first, so a leak can only be detected above the pool.
//!
//! **Locks.** There is one `Mutex` in each of `TrackingAdaptor`, `Pool` and `PressureMonitor` (its subscribers). None of
//! them is held while another layer, a subscriber or a clock is called, so no two are ever held together and there is no
//! lock order to keep. `LimitingAdaptor` and the two gates of `PressureMonitor` are single atomics. A poisoned lock is
//! taken anyway: nothing that can panic runs under one, so its data is consistent. The same source files run under loom
//! in `tests/memory_loom.rs`.

mod allocator;
mod budget;
mod clock;
mod free_list;
mod leak;
mod limiting_adaptor;
mod pool;
mod pressure;
mod pressure_monitor;
mod prewarm;
mod single_flight;
mod size_class;
mod stack;
mod sync;
mod tracking_adaptor;

pub use allocator::{AllocError, AllocLimits, AllocRequest, Allocation, Allocator, BlockClass, Reclaim, Tag};
pub use budget::{
    Budget, BudgetOrigin, BudgetSource, MeasuredBudget, SYSTEM_SHARE_PERCENT, choose_budget, refine_budget,
    subtract_reserved,
};
pub use clock::{Clock, ManualClock, Monotonic};
pub use leak::{Growth, LeakReport, LeakSettings, MIN_SAMPLES, OldBlock, growth};
pub use limiting_adaptor::{LimitStats, LimitingAdaptor};
pub use pool::{Pool, PoolSettings, PoolStats, Pooled};
pub use pressure::{
    AllocRefusal, EVICT_AT_PERCENT, EVICT_TO_PERCENT, Pressure, idle_to_keep, pressure, should_evict,
    would_fit,
};
pub use pressure_monitor::{MonitorStats, PressureEvent, PressureMonitor, SubscriptionId};
pub use prewarm::{AllocationHistory, ClassPeak, PrewarmStep, prewarm};
pub use size_class::SizeClass;
pub use stack::{MemoryStack, StackAllocation, StackSettings, StackStats};
pub use tracking_adaptor::{TagUsage, TrackStats, Tracked, TrackingAdaptor};
