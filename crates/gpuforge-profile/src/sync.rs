//! Which atomics does the ring use? One place, so that `tests/loom.rs` can put loom's under the same source file.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
