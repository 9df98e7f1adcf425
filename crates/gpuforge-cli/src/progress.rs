//! Progress line on stderr: appears on a terminal when work takes longer than a moment, and is erased at the end.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Work shorter than this shows no progress line.
const DELAY: Duration = Duration::from_millis(300);
const FRAME: Duration = Duration::from_millis(100);

/// Progress bar of so many cells, filled up to this fraction.
pub(crate) fn bar(fraction: f64, cells: usize) -> String {
    let full = (fraction.clamp(0.0, 1.0) * cells as f64).round() as usize;
    format!("[{}{}]", "█".repeat(full), "·".repeat(cells - full))
}

/// Shown until it is dropped.
pub(crate) struct Progress {
    what: Arc<Mutex<String>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts a progress line if `wanted` and stderr is a terminal.
    pub(crate) fn start(what: &'static str, wanted: bool) -> Self {
        let what = Arc::new(Mutex::new(what.to_owned()));
        if !wanted || !std::io::stderr().is_terminal() {
            return Progress { what, stop: None, thread: None };
        }
        let text = what.clone();
        let (stop, stopped) = mpsc::channel::<()>();
        let show = move || {
            let began = Instant::now();
            let mut wait = DELAY;
            let mut shown = false;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
                let seconds = began.elapsed().as_secs_f64();
                let dots = ".".repeat(1 + (seconds * 3.0) as usize % 3);
                let what = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let _ = write!(std::io::stderr(), "\r\x1b[K{what}{dots} {seconds:.1} s");
                (shown, wait) = (true, FRAME);
            }
            if shown {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        let thread = std::thread::Builder::new().spawn(show).ok();
        Progress { what, stop: Some(stop), thread }
    }

    /// Changes the text.
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if self.stop.is_some() {
            *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
