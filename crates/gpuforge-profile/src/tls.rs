//! Thread-local logs: one slot for the global profiler, a short list for others.
//!
//! When the thread ends, its logs are retired to their profilers, which keep what was not yet collected.

use crate::{
    state::{GLOBAL, ProfilerState},
    thread_log::ThreadLog,
};
use std::{
    cell::{OnceCell, RefCell},
    sync::{Arc, Weak},
};

struct Local {
    global: OnceCell<Arc<ThreadLog>>,
    others: RefCell<Vec<(Weak<ProfilerState>, Arc<ThreadLog>)>>,
}

thread_local! {
    static LOCAL: Local = const { Local { global: OnceCell::new(), others: RefCell::new(Vec::new()) } };
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(log) = self.global.take() {
            GLOBAL.retire(&log);
        }
        for (state, log) in self.others.take() {
            if let Some(state) = state.upgrade() {
                state.retire(&log);
            }
        }
    }
}

/// Runs `f` on this thread's log of the global profiler; `None` when its thread-locals are already destroyed.
#[inline]
pub(crate) fn with_global<R>(f: impl FnOnce(&ThreadLog) -> R) -> Option<R> {
    LOCAL.try_with(|local| f(local.global.get().unwrap_or_else(|| register(local)))).ok()
}

/// This thread's log of the global profiler, as an owned handle.
pub(crate) fn global() -> Option<Arc<ThreadLog>> {
    LOCAL.try_with(|local| local.global.get_or_init(|| GLOBAL.register()).clone()).ok()
}

#[cold]
#[inline(never)]
fn register(local: &Local) -> &Arc<ThreadLog> {
    local.global.get_or_init(|| GLOBAL.register())
}

/// This thread's log of another profiler.
pub(crate) fn of(state: &Arc<ProfilerState>) -> Option<Arc<ThreadLog>> {
    let find = |local: &Local| {
        let mut others = local.others.try_borrow_mut().ok()?;
        if let Some((_, log)) = others.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(state)) {
            return Some(log.clone());
        }
        // Drops entries of dead profilers here: this runs once per thread and profiler.
        others.retain(|(known, _)| known.strong_count() > 0);
        let log = state.register();
        others.push((Arc::downgrade(state), log.clone()));
        Some(log)
    };
    LOCAL.try_with(find).ok().flatten()
}
