//! How is memory handed out, limited and watched?
//!
//! One interface, [`Allocator`], and small wrappers of it that know nothing of each other:
//!
//! ```text
//! Monitor   pressure levels, events, clean-up at 85 %
//! Track     who uses what: tags, peak, leaks           (the users' view)
//! Pool      size classes, idle blocks, trim, one retry
//! Limit     our hard cap below the device's budget
//! Track     what the device gave: bytes, blocks, time  (the device's view)
//! device    anything that implements Allocator
//! ```
//!
//! `Track` stands in two places because the two questions have different answers: below the pool an idle block
//! is alive and carries the tag of whoever asked first, so a leak can only be seen above the pool.
//!
//! **Locks.** There is one `Mutex` in each of `Track`, `Pool` and `Monitor` (its subscribers). None of them is held
//! while another layer, a subscriber or a clock is called, so no two are ever held together and there is no order to
//! keep. `Limit` and the two gates of `Monitor` are single atomics. A poisoned lock is taken anyway: nothing
//! that can panic runs under one, so its data is whole. The same source files run under loom in
//! `tests/memory_loom.rs`.

mod allocator;
mod budget;
mod clock;
mod gate;
mod idle;
mod leak;
mod limit;
mod monitor;
mod pool;
mod pressure;
mod prewarm;
mod size_class;
mod stack;
mod sync;
mod track;

pub use allocator::{AllocError, Allocation, Allocator, BlockClass, Limits, Reclaim, Request, Tag};
pub use budget::{Budget, BudgetOrigin, Measured, SYSTEM_SHARE_PERCENT, Source, budget, refine, without};
pub use clock::{Clock, ManualClock, Monotonic};
pub use leak::{Growth, LeakReport, LeakSettings, MIN_SAMPLES, OldBlock, growth};
pub use limit::{Limit, LimitStats};
pub use monitor::{Monitor, MonitorStats, PressureEvent, SubscriptionId};
pub use pool::{Pool, PoolSettings, PoolStats, Pooled};
pub use pressure::{
    CLEAN_AT_PERCENT, CLEAN_TO_PERCENT, Pressure, Why, fits, keep_idle, pressure, should_clean,
};
pub use prewarm::{ClassPeak, History, PrewarmStep, prewarm};
pub use size_class::SizeClass;
pub use stack::{Grant, MemoryStack, StackSettings, StackStats};
pub use track::{TagUse, Track, TrackStats, Tracked};
