//! Per-process state: thread pool and runtime, rebuilt in a forked child; waits that answer Ctrl-C.
//!
//! State is looked up only while the GIL is held. A fork holds the GIL too, so no child inherits a mutex that another thread
//! had locked.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use gpuforge::{
    Forge,
    route::batch::CancelToken,
    settings::{Settings, UserPaths},
};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Signal poll interval of a waiting call: Ctrl-C is answered within a tenth of a second.
const SIGNAL_POLL: Duration = Duration::from_millis(40);

/// State of one process.
struct ProcessState {
    process: u32,
    pool: Option<Arc<ThreadPool>>,
    runtime: Option<ProcessRuntime>,
}

static STATE: Mutex<ProcessState> = Mutex::new(ProcessState { process: 0, pool: None, runtime: None });

/// The runtime with the settings it was built from.
#[derive(Clone)]
pub(crate) struct ProcessRuntime {
    pub(crate) forge: Forge,
    pub(crate) settings: Arc<Settings>,
    pub(crate) places: UserPaths,
}

pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl ProcessRuntime {
    /// By the user's settings and these over them (flags, as the command line has them); opens nothing.
    pub(crate) fn new() -> ProcessRuntime {
        let places = UserPaths::resolve(&env).unwrap_or_else(|_| UserPaths::unavailable());
        let settings = Settings::load_lenient(&places, &env, &[]);
        ProcessRuntime { forge: Forge::with(&settings, &places, &env), settings: Arc::new(settings), places }
    }
}

fn state<T>(pick: impl FnOnce(&mut ProcessState) -> T) -> T {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::process::id();
    if state.process != here {
        // The parent's threads do not exist here, and its device must not be closed from here: leak both.
        std::mem::forget(std::mem::replace(
            &mut *state,
            ProcessState { process: here, pool: None, runtime: None },
        ));
    }
    pick(&mut state)
}

/// The runtime of this process, created on first use.
pub(crate) fn runtime(_: Python<'_>) -> ProcessRuntime {
    state(|state| state.runtime.get_or_insert_with(ProcessRuntime::new).clone())
}

/// The thread pool of this process, created on first use.
pub(crate) fn pool(_: Python<'_>) -> PyResult<Arc<ThreadPool>> {
    state(|state| match &state.pool {
        Some(pool) => Ok(pool.clone()),
        None => {
            let name = |i| format!("gpuforge-{i}");
            let built = ThreadPoolBuilder::new().thread_name(name).build();
            let built =
                built.map_err(|e| PyRuntimeError::new_err(format!("no threads can be started: {e}")))?;
            Ok(state.pool.insert(Arc::new(built)).clone())
        }
    })
}

/// Runs `work` on the pool with the GIL released and waits for it. A signal that raises (Ctrl-C) ends the wait at once and
/// sets the token; `work` owns everything it uses, so its result is simply dropped.
pub(crate) fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&CancelToken) -> T + Send + 'static,
) -> PyResult<T> {
    let pool = pool(py)?;
    let cancel = CancelToken::default();
    let token = cancel.clone();
    let (send, mut receive) = mpsc::sync_channel(1);
    pool.spawn(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&token)));
        // The receiver is gone if the caller was interrupted.
        let _ = send.send(done);
    });
    loop {
        let waiting = &mut receive;
        let got = py.detach(move || waiting.recv_timeout(SIGNAL_POLL));
        match got {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "a gpuforge worker thread panicked; this is a bug in gpuforge",
                ));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| cancel.cancel())?,
        }
    }
}
