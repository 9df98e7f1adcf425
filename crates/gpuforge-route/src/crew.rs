//! How do small operations use all threads, and are never slower for it? The caller works, too, and waits only for what
//! others have begun: a thread that does not wake up in time costs nothing.

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

use crate::site::{Site, SiteError, SiteRun};

/// Work that a thread takes at once: long beside the taking, short beside the whole.
const TAKEN_AT_ONCE: Duration = Duration::from_micros(40);

/// A run, or what a panic said.
pub(crate) type Run = Result<Result<SiteRun, SiteError>, String>;

/// Turns a panic into its words.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        format!("panicked: {}", text.unwrap_or("no words"))
    })
}

struct Crew {
    site: Arc<dyn Site>,
    ops: Vec<Arc<dyn Op>>,
    next: AtomicUsize,
    share: usize,
}

impl Crew {
    /// Takes shares until there are none.
    fn work(&self, done: &mpsc::Sender<(usize, Vec<Run>)>) {
        loop {
            let at = self.next.fetch_add(self.share, Ordering::Relaxed);
            let Some(rest) = self.ops.get(at..).filter(|rest| !rest.is_empty()) else { return };
            let mine = rest.iter().take(self.share);
            let runs = mine.map(|op| caught(|| self.site.run(op.as_ref(), false))).collect();
            if done.send((at, runs)).is_err() {
                return;
            }
        }
    }
}

/// Runs operations whose inputs are on the host, each of which takes about so long; results in their order.
pub(crate) fn side_by_side(site: &Arc<dyn Site>, ops: Vec<Arc<dyn Op>>, each: Duration) -> Vec<Run> {
    let n = ops.len();
    let helpers = rayon::current_num_threads().saturating_sub(1);
    let fair = n.div_ceil(4 * (helpers + 1));
    let share = usize::try_from(TAKEN_AT_ONCE.as_nanos() / each.as_nanos().max(1)).unwrap_or(1);
    let share = share.clamp(1, fair.max(1));
    let crew = Arc::new(Crew { site: site.clone(), ops, next: AtomicUsize::new(0), share });
    let (send, receive) = mpsc::channel();
    for _ in 0..helpers.min(n / share) {
        let (crew, send) = (crew.clone(), send.clone());
        rayon::spawn(move || crew.work(&send));
    }
    crew.work(&send);
    drop(send);
    let mut parts: Vec<(usize, Vec<Run>)> = Vec::new();
    let mut have = 0;
    // Every share has been taken by now, by a thread that runs it: this ends.
    while have < n
        && let Ok(part) = receive.recv()
    {
        have += part.1.len();
        parts.push(part);
    }
    parts.sort_unstable_by_key(|(at, _)| *at);
    parts.into_iter().flat_map(|(_, runs)| runs).collect()
}
