//! A real device through wgpu. Every wgpu call happens on one thread that can be given up.
//!
//! A hung device blocks `submit`, `map_async` and even `drop` without limit, and a second device of the same adapter
//! hangs with it. So the device lives on a thread of its own; callers talk to it through channels with a deadline; on a
//! hang the thread and everything it owns is leaked, and the next device comes from a new `Instance`.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use super::{BlockId, Caps, Done, Engine, EngineError, Health, Job, Opener, Ticket};
use crate::{memory::BlockClass, units::Bytes};

mod encode;
mod open;
mod worker;

pub use open::{AdapterChoice, AdapterFacts};

/// How long opening a device may take; the first start of a cold driver needs most of a second.
const OPEN_DEADLINE: Duration = Duration::from_secs(20);
/// How long creating a buffer may take while the device is busy.
const CREATE_DEADLINE: Duration = Duration::from_secs(10);

/// How long closing a device is waited for.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Opens one adapter, again and again if need be, each time through a new instance.
#[derive(Debug, Clone, Default)]
pub struct GpuOpener {
    /// Which adapter.
    pub choice: AdapterChoice,
}

impl Opener for GpuOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::new(Gpu::open(self.choice.clone())?))
    }
}

/// What callers ask the device's thread for.
enum Request {
    Create {
        size: Bytes,
        class: BlockClass,
        reply: Sender<Result<BlockId, EngineError>>,
    },
    Destroy(BlockId),
    Run {
        job: Job,
        deadline: Duration,
        reply: Sender<Result<Done, EngineError>>,
    },
    /// Destroys the device as a driver reset would; for tests and `reset`.
    Lose,
    /// Nobody will ask for anything any more.
    Close,
}

/// Shared between callers and the thread.
#[derive(Debug, Default)]
struct Shared {
    health: AtomicU8,
}

impl Shared {
    fn health(&self) -> Health {
        match self.health.load(Ordering::Acquire) {
            0 => Health::Good,
            1 => Health::Lost,
            _ => Health::Hung,
        }
    }

    /// The first bad news counts.
    fn set(&self, health: Health) {
        let value = match health {
            Health::Good => return,
            Health::Lost => 1,
            Health::Hung => 2,
        };
        let _ = self.health.compare_exchange(0, value, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A device behind its thread.
pub struct Gpu {
    caps: Caps,
    requests: Sender<Request>,
    shared: Arc<Shared>,
    next: AtomicU64,
    running: Mutex<HashMap<Ticket, Receiver<Result<Done, EngineError>>>>,
    /// Hangs up when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl Gpu {
    /// Opens the chosen adapter on a new thread.
    pub fn open(choice: AdapterChoice) -> Result<Self, EngineError> {
        let (requests, inbox) = mpsc::channel();
        let (opened, news) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("gpuforge-device".to_owned());
        let (running, ended) = mpsc::channel::<()>();
        let work = move || {
            worker::run(&choice, &inbox, &opened, &theirs);
            drop(running);
        };
        let unavailable = |reason: String| EngineError::Unavailable { reason };
        thread.spawn(work).map_err(|e| unavailable(format!("no thread for the device: {e}")))?;
        let caps = match news.recv_timeout(OPEN_DEADLINE) {
            Ok(caps) => caps?,
            Err(RecvTimeoutError::Timeout) => {
                shared.set(Health::Hung);
                return Err(EngineError::Hung { waited: OPEN_DEADLINE, what: "opening the device" });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(unavailable("the driver's thread ended".to_owned()));
            }
        };
        Ok(Gpu { caps, requests, shared, next: AtomicU64::new(0), running: Mutex::default(), ended: Mutex::new(ended) })
    }

    /// Makes the device lost, as a driver reset would.
    pub fn lose(&self) {
        let _ = self.requests.send(Request::Lose);
    }

    fn dead(&self, what: &'static str) -> EngineError {
        match self.shared.health() {
            Health::Hung => EngineError::Hung { waited: Duration::ZERO, what },
            _ => EngineError::Lost { reason: format!("the device's thread ended ({what})") },
        }
    }

    fn receive<T>(
        &self,
        from: &Receiver<Result<T, EngineError>>,
        at_most: Duration,
        what: &'static str,
    ) -> Result<T, EngineError> {
        match from.recv_timeout(at_most) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                self.shared.set(Health::Hung);
                Err(EngineError::Hung { waited: at_most, what })
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.dead(what)),
        }
    }

    fn ask(&self, request: Request, what: &'static str) -> Result<(), EngineError> {
        if self.shared.health() != Health::Good {
            return Err(self.dead(what));
        }
        self.requests.send(request).map_err(|_| self.dead(what))
    }
}

impl Drop for Gpu {
    /// Waits for the thread to close the device, but not for ever: a process that ends while a driver is still at work in
    /// another thread may crash in the driver's exit handlers.
    fn drop(&mut self) {
        if self.shared.health() == Health::Hung {
            return;
        }
        let _ = self.requests.send(Request::Close);
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(CLOSE_DEADLINE);
    }
}

impl Engine for Gpu {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        let (reply, answer) = mpsc::channel();
        self.ask(Request::Create { size, class, reply }, "creating a buffer")?;
        self.receive(&answer, CREATE_DEADLINE, "creating a buffer")
    }

    fn destroy(&self, block: BlockId) {
        // A dead device's buffers are leaked with it.
        let _ = self.ask(Request::Destroy(block), "destroying a buffer");
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        let (reply, answer) = mpsc::channel();
        // The thread gives up a little after the caller would, so that the caller's deadline is the one that counts.
        let deadline = Duration::from_secs(600);
        self.ask(Request::Run { job, deadline, reply }, "submitting")?;
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, answer);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<Done, EngineError> {
        let answer = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket);
        match answer {
            Some(answer) => self.receive(&answer, deadline, "waiting for a job"),
            None => Err(EngineError::Validation { reason: format!("no job {}", ticket.0) }),
        }
    }

    fn health(&self) -> Health {
        self.shared.health()
    }
}
