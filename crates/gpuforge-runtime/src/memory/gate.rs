//! How does one thread do a job for all without any of them waiting? By a flag, and by looking again after clearing it.

use super::sync::{AtomicBool, AtomicU8, Ordering};

/// Set while somebody tells.
const BUSY: u8 = 0x80;

/// How often one call follows a value that keeps changing under it (a listener that allocates and frees). What then
/// is still untold the next call tells.
const ROUNDS: usize = 8;

/// Tells each change of a small value once, in order, one at a time.
///
/// Whoever comes while another thread - or the same one, further up the stack - is telling leaves at once, and the
/// teller looks again when done. Changes in between are told as one. Nobody waits, nothing recurses.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The value last told, and [`BUSY`].
    told: AtomicU8,
}

impl Changes {
    /// `value` counts as told; values are below 128.
    pub(crate) fn new(value: u8) -> Self {
        Changes { told: AtomicU8::new(value) }
    }

    /// Compares what `read` answers with what was told last, and tells the difference as `(from, to)`.
    ///
    /// No change is missed: a caller that finds the flag set has published its change before that, and clearing the
    /// flag (a read-modify-write too) comes after it in the order of `told`, so the teller's second look sees it. A plain load
    /// as a shortcut for "nothing changed" would break this: neither side would need to see the other.
    pub(crate) fn settle(&self, read: impl Fn() -> u8, mut tell: impl FnMut(u8, u8)) {
        for _ in 0..ROUNDS {
            let told = self.told.fetch_or(BUSY, Ordering::AcqRel);
            if told & BUSY != 0 {
                return;
            }
            let value = read();
            if value != told {
                tell(told, value);
            }
            self.told.swap(value, Ordering::AcqRel);
            if read() == value {
                return;
            }
        }
    }
}

/// Lets one at a time through and sends the others away.
#[derive(Debug)]
pub(crate) struct OneAtATime(AtomicBool);

impl OneAtATime {
    /// Nobody is in.
    pub(crate) fn new() -> Self {
        OneAtATime(AtomicBool::new(false))
    }

    /// Does `job`, unless it is being done already: then `None`, at once. As with [`Changes`], looking again after
    /// `Some` sees what those who were sent away had done before they came.
    pub(crate) fn run<T>(&self, job: impl FnOnce() -> T) -> Option<T> {
        if self.0.swap(true, Ordering::AcqRel) {
            return None;
        }
        let _open = Open(&self.0);
        Some(job())
    }
}

/// Opens again when dropped, also when the job panics.
struct Open<'a>(&'a AtomicBool);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
