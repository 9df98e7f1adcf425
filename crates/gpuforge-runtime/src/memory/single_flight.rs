//! Single-flight gates: one thread does the work for all, no thread blocks. An atomic flag, and a re-check after clearing it.

use super::sync::{AtomicBool, AtomicU8, Ordering};

/// Set while a thread is notifying.
const BUSY: u8 = 0x80;

/// How often one call follows a value that keeps changing under it (a listener that allocates and frees). The next call
/// reports what is still unreported then.
const ROUNDS: usize = 8;

/// Reports each change of a small value once, in order, one at a time; changes in between are coalesced.
///
/// A caller that arrives while another thread - or the same one, further up the stack - is notifying returns at once,
/// and the notifier re-reads the value when done. No thread waits, nothing recurses.
#[derive(Debug)]
pub(crate) struct ChangeNotifier {
    /// The value last reported, and [`BUSY`].
    reported: AtomicU8,
}

impl ChangeNotifier {
    /// `value` counts as reported; values are below 128.
    pub(crate) fn new(value: u8) -> Self {
        ChangeNotifier { reported: AtomicU8::new(value) }
    }

    /// Compares `read()` with the last reported value and reports a difference as `(from, to)`.
    ///
    /// No change is missed: a caller that finds the flag set has published its change before that, and clearing the flag
    /// (a read-modify-write too) comes after it in the modification order of `reported`, so the notifier's re-check sees
    /// it. A plain load as a shortcut for "nothing changed" would break this: neither side would need to see the other.
    pub(crate) fn notify(&self, read: impl Fn() -> u8, mut report: impl FnMut(u8, u8)) {
        for _ in 0..ROUNDS {
            let reported = self.reported.fetch_or(BUSY, Ordering::AcqRel);
            if reported & BUSY != 0 {
                return;
            }
            let value = read();
            if value != reported {
                report(reported, value);
            }
            self.reported.swap(value, Ordering::AcqRel);
            if read() == value {
                return;
            }
        }
    }
}

/// Runs a job on one thread at a time; others return immediately (a try-lock without data).
#[derive(Debug)]
pub(crate) struct SingleFlight(AtomicBool);

impl SingleFlight {
    /// Not running.
    pub(crate) fn new() -> Self {
        SingleFlight(AtomicBool::new(false))
    }

    /// Runs `job`, or returns `None` at once if it is already running. As with [`ChangeNotifier`], a re-check after
    /// `Some` sees what rejected callers had done before they came.
    pub(crate) fn try_run<T>(&self, job: impl FnOnce() -> T) -> Option<T> {
        if self.0.swap(true, Ordering::AcqRel) {
            return None;
        }
        let _reset = ResetOnDrop(&self.0);
        Some(job())
    }
}

/// Clears the flag when dropped, also when the job panics.
struct ResetOnDrop<'a>(&'a AtomicBool);

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
