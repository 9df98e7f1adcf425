//! Which locks and atomics does this module use? One place, so that `tests/memory_loom.rs` can put loom's in.

use std::sync::PoisonError;
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Locks, also after a panic elsewhere: see "Locks" in the module's documentation for why the data is whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
