//! What belongs to this process alone? Threads and devices: a child that was forked has neither, and makes its own.
//!
//! Both are looked up while the interpreter's lock is held: a fork happens under that lock too, so that no child inherits a
//! lock of ours that somebody else has taken.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use gpuforge::{
    Forge,
    settings::{Places, Settings},
};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// How often a waiting call looks for signals: often enough that Ctrl-C is answered within a tenth of a second.
const LOOK: Duration = Duration::from_millis(40);

/// What one process has.
struct Own {
    process: u32,
    pool: Option<Arc<ThreadPool>>,
    forge: Option<Machine>,
}

static OWN: Mutex<Own> = Mutex::new(Own { process: 0, pool: None, forge: None });

/// The runtime with the settings it was made from.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) forge: Forge,
    pub(crate) settings: Arc<Settings>,
    pub(crate) places: Places,
}

pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Machine {
    /// By the user's settings and these over them (flags, as the command line has them); opens nothing.
    pub(crate) fn new() -> Machine {
        let places = Places::of(&env).unwrap_or_else(|_| Places::nowhere());
        let settings = Settings::load_lenient(&places, &env, &[]);
        Machine { forge: Forge::with(&settings, &places, &env), settings: Arc::new(settings), places }
    }
}

fn own<T>(pick: impl FnOnce(&mut Own) -> T) -> T {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::process::id();
    if own.process != here {
        // Threads of the parent are not here, and a device of its must not be closed from here: both are left alone.
        std::mem::forget(std::mem::replace(&mut *own, Own { process: here, pool: None, forge: None }));
    }
    pick(&mut own)
}

/// The runtime of this process, made at its first use.
pub(crate) fn machine(_: Python<'_>) -> Machine {
    own(|own| own.forge.get_or_insert_with(Machine::new).clone())
}

/// The threads of this process, made at their first use.
pub(crate) fn pool(_: Python<'_>) -> PyResult<Arc<ThreadPool>> {
    own(|own| match &own.pool {
        Some(pool) => Ok(pool.clone()),
        None => {
            let name = |i| format!("gpuforge-{i}");
            let made = ThreadPoolBuilder::new().thread_name(name).build();
            let made =
                made.map_err(|e| PyRuntimeError::new_err(format!("no threads can be started: {e}")))?;
            Ok(own.pool.insert(Arc::new(made)).clone())
        }
    })
}

/// Says whether the caller has gone; what has not begun yet should not be begun.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gone(Arc<AtomicBool>);

impl Gone {
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// For code that takes a plain flag.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on the pool, without the interpreter's lock, and waits for it. A signal that raises (Ctrl-C) ends the wait at
/// once: `work` is told, owns all that it uses, and what it has done by then is thrown away with it.
pub(crate) fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Gone) -> T + Send + 'static,
) -> PyResult<T> {
    let pool = pool(py)?;
    let gone = Gone::default();
    let theirs = gone.clone();
    let (send, mut receive) = mpsc::sync_channel(1);
    pool.spawn(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&theirs)));
        // Nobody waits any more where the caller has gone.
        let _ = send.send(done);
    });
    loop {
        let waiting = &mut receive;
        let got = py.detach(move || waiting.recv_timeout(LOOK));
        match got {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a thread of gpuforge failed; this is a bug of ours"));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| gone.set())?,
        }
    }
}
