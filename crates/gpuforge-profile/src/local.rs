//! Which log does this thread write to? One slot for the global profiler, a short list for others.
//!
//! When the thread ends, its logs are handed to their profilers, which keep what was not yet collected.

use crate::{
    log::ThreadLog,
    shared::{GLOBAL, Shared},
};
use std::{
    cell::{OnceCell, RefCell},
    sync::{Arc, Weak},
};

struct Local {
    global: OnceCell<Arc<ThreadLog>>,
    others: RefCell<Vec<(Weak<Shared>, Arc<ThreadLog>)>>,
}

thread_local! {
    static LOCAL: Local = const { Local { global: OnceCell::new(), others: RefCell::new(Vec::new()) } };
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(log) = self.global.take() {
            GLOBAL.retire(&log);
        }
        for (home, log) in self.others.take() {
            if let Some(home) = home.upgrade() {
                home.retire(&log);
            }
        }
    }
}

/// Runs `f` on this thread's log of the global profiler; `None` when the thread is past its end.
#[inline]
pub(crate) fn with_global<R>(f: impl FnOnce(&ThreadLog) -> R) -> Option<R> {
    LOCAL.try_with(|local| f(local.global.get().unwrap_or_else(|| first(local)))).ok()
}

/// This thread's log of the global profiler, to hold.
pub(crate) fn global() -> Option<Arc<ThreadLog>> {
    LOCAL.try_with(|local| local.global.get_or_init(|| GLOBAL.register()).clone()).ok()
}

#[cold]
#[inline(never)]
fn first(local: &Local) -> &Arc<ThreadLog> {
    local.global.get_or_init(|| GLOBAL.register())
}

/// This thread's log of another profiler.
pub(crate) fn of(home: &Arc<Shared>) -> Option<Arc<ThreadLog>> {
    let find = |local: &Local| {
        let mut others = local.others.try_borrow_mut().ok()?;
        if let Some((_, log)) = others.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(home)) {
            return Some(log.clone());
        }
        // The place to forget profilers that are gone: it runs once per thread and profiler.
        others.retain(|(known, _)| known.strong_count() > 0);
        let log = home.register();
        others.push((Arc::downgrade(home), log.clone()));
        Some(log)
    };
    LOCAL.try_with(find).ok().flatten()
}
