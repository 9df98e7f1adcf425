//! Locks and atomics of the memory module in one place, so that `tests/memory_loom.rs` can substitute loom's.

use std::sync::PoisonError;
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Locks, ignoring poison: see "Locks" in the module's documentation for why the data is consistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
