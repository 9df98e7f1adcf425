//! Worker pool: work sharing of small operations between the rayon threads. The calling thread works too and waits only for
//! chunks others have started, so a thread that wakes up late costs nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use gpuforge_ops::Op;

use crate::backend::{Backend, BackendError, BackendRun};

/// Duration of one work grab: long against the atomic increment, short against the whole.
const GRAIN: Duration = Duration::from_micros(40);

/// A run, or the message of a panic.
pub(crate) type CaughtRun = Result<Result<BackendRun, BackendError>, String>;

/// Catches a panic and returns its message.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        format!("panicked: {}", text.unwrap_or("no message"))
    })
}

struct WorkerPool {
    backend: Arc<dyn Backend>,
    ops: Vec<Arc<dyn Op>>,
    next: AtomicUsize,
    chunk: usize,
}

impl WorkerPool {
    /// Grabs chunks until there are none left.
    fn drain(&self, done: &mpsc::Sender<(usize, Vec<CaughtRun>)>) {
        loop {
            let at = self.next.fetch_add(self.chunk, Ordering::Relaxed);
            let Some(rest) = self.ops.get(at..).filter(|rest| !rest.is_empty()) else { return };
            let mine = rest.iter().take(self.chunk);
            let runs = mine.map(|op| catch_panic(|| self.backend.run(op.as_ref(), false))).collect();
            if done.send((at, runs)).is_err() {
                return;
            }
        }
    }
}

/// Runs operations with host-resident inputs, each of which takes about `each`; results in input order.
pub(crate) fn run_parallel(
    backend: &Arc<dyn Backend>,
    ops: Vec<Arc<dyn Op>>,
    each: Duration,
) -> Vec<CaughtRun> {
    let n = ops.len();
    let helpers = rayon::current_num_threads().saturating_sub(1);
    let fair = n.div_ceil(4 * (helpers + 1));
    let chunk = usize::try_from(GRAIN.as_nanos() / each.as_nanos().max(1)).unwrap_or(1);
    let chunk = chunk.clamp(1, fair.max(1));
    let pool = Arc::new(WorkerPool { backend: backend.clone(), ops, next: AtomicUsize::new(0), chunk });
    let (send, receive) = mpsc::channel();
    for _ in 0..helpers.min(n / chunk) {
        let (pool, send) = (pool.clone(), send.clone());
        rayon::spawn(move || pool.drain(&send));
    }
    pool.drain(&send);
    drop(send);
    let mut parts: Vec<(usize, Vec<CaughtRun>)> = Vec::new();
    let mut have = 0;
    // Every chunk has been grabbed by a running thread by now: this terminates.
    while have < n
        && let Ok(part) = receive.recv()
    {
        have += part.1.len();
        parts.push(part);
    }
    parts.sort_unstable_by_key(|(at, _)| *at);
    parts.into_iter().flat_map(|(_, runs)| runs).collect()
}
