//! Atomics of the ring buffer in one place, so that `tests/loom.rs` can substitute loom's.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
