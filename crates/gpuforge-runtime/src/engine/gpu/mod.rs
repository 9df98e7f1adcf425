//! A real device through wgpu. Every wgpu call happens on one thread that can be given up.
//!
//! A hung device blocks `submit`, `map_async` and even `drop` without limit, and a second device of the same adapter
//! hangs with it. So the device lives on a thread of its own; callers talk to it through channels with a deadline; on a
//! hang the thread and everything it owns is leaked, and the next device comes from a new `Instance`.
//!
//! Buffers, pipelines and staging are pooled by us; command encoders are not. wgpu-core has a list of free encoders per
//! device (`CommandAllocator` of wgpu-core 30): `create_command_encoder` takes one from it, and a submission that has
//! ended puts it back with its command buffers reset. A pool of ours would only hold what is held already.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{BlockId, Caps, Done, Engine, EngineError, Health, Job, Opener, Ticket, init::InitStats};
use crate::{
    memory::{BlockClass, Measured},
    units::Bytes,
};

mod budget;
mod encode;
mod loops;
mod open;
mod pending;
mod pipeline_cache;
mod pipelines;
mod staging;
mod worker;

pub use open::{AdapterChoice, AdapterFacts, GivenDevice};

/// How long opening a device may take; the first start of a cold driver needs most of a second.
const OPEN_DEADLINE: Duration = Duration::from_secs(20);
/// How long creating a buffer may take while the device compiles or copies for others.
const CREATE_DEADLINE: Duration = Duration::from_secs(30);
/// How long closing a device is waited for; see [`Gpu`]'s `Drop`.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);
/// How often a caller that waits asks whether somebody else found the device dead.
const ASIDE: Duration = Duration::from_millis(50);

/// Opens one adapter, again and again if need be, each time through a new instance.
#[derive(Debug, Clone, Default)]
pub struct GpuOpener {
    /// Which adapter.
    pub choice: AdapterChoice,
    /// Moves bytes through staging buffers even where the processor and the device use one memory.
    pub staged: bool,
    /// Where compiled pipelines are kept between processes, in a folder of our own; `None` keeps none.
    pub pipeline_cache_dir: Option<PathBuf>,
    /// A device that another library opened and goes on using; no adapter is chosen then.
    pub given: Option<GivenDevice>,
}

impl Opener for GpuOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::new(Gpu::open_with(self)?))
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
        reply: Sender<Result<Done, EngineError>>,
    },
    /// Hands out a block's buffer, for another library on the same device.
    Lend {
        block: BlockId,
        reply: Sender<Result<wgpu::Buffer, EngineError>>,
    },
    /// Destroys the device as a driver reset would; for tests and `reset`.
    Lose,
}

/// What is known once a device is open.
struct Facts {
    caps: Caps,
    budget: Option<Measured>,
    init: InitStats,
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
    facts: Facts,
    /// `None` only while it is being dropped.
    requests: Option<Sender<Request>>,
    shared: Arc<Shared>,
    next: AtomicU64,
    running: Mutex<HashMap<Ticket, Receiver<Result<Done, EngineError>>>>,
    thread: Option<JoinHandle<()>>,
    /// Nothing is ever sent; it closes when the thread has let go of the device.
    ended: Mutex<Receiver<()>>,
    loops: OnceLock<u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// Opens the chosen adapter with everything else as usual.
    pub fn open(choice: AdapterChoice) -> Result<Self, EngineError> {
        Gpu::open_with(&GpuOpener { choice, ..GpuOpener::default() })
    }

    /// Opens an adapter on a new thread.
    pub fn open_with(options: &GpuOpener) -> Result<Self, EngineError> {
        let (requests, inbox) = mpsc::channel();
        let (opened, news) = mpsc::channel();
        let (running, ended) = mpsc::channel::<()>();
        let shared = Arc::new(Shared::default());
        let (theirs, options) = (shared.clone(), options.clone());
        let thread = std::thread::Builder::new().name("gpuforge-device".to_owned());
        let work = move || {
            let _running = running;
            worker::run(&options, &inbox, &opened, &theirs);
        };
        let unavailable = |reason: String| EngineError::Unavailable { reason };
        let thread = thread.spawn(work).map_err(|e| unavailable(format!("no thread for the device: {e}")))?;
        let facts = match news.recv_timeout(OPEN_DEADLINE) {
            Ok(opened) => opened?,
            Err(RecvTimeoutError::Timeout) => {
                shared.set(Health::Hung);
                return Err(EngineError::Hung { waited: OPEN_DEADLINE, what: "opening the device" });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(unavailable("the driver's thread ended".to_owned()));
            }
        };
        Ok(Gpu {
            facts,
            requests: Some(requests),
            shared,
            next: AtomicU64::new(0),
            running: Mutex::default(),
            thread: Some(thread),
            ended: Mutex::new(ended),
            loops: OnceLock::new(),
        })
    }

    /// Makes the device lost, as a driver reset would.
    pub fn lose(&self) {
        let _ = self.ask(Request::Lose, "losing the device");
    }

    /// How many iterations of one invocation's loops run here, as far as it was tried. Runs a tiny kernel the first time
    /// it is asked, because opening must not pay for it; [`Caps::loop_iterations`] stays unknown. A failed trial is not
    /// remembered.
    pub fn probe_loops(&self) -> Result<u32, EngineError> {
        if let Some(known) = self.loops.get() {
            return Ok(*known);
        }
        let proven = loops::probe(self)?;
        Ok(*self.loops.get_or_init(|| proven))
    }

    fn dead(&self, what: &'static str) -> EngineError {
        // A thread that ended by itself took the device with it.
        self.shared.set(Health::Lost);
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
        let began = Instant::now();
        loop {
            let left = at_most.saturating_sub(began.elapsed());
            match from.recv_timeout(left.min(ASIDE)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(self.dead(what)),
                Err(RecvTimeoutError::Timeout) if left <= ASIDE => {
                    self.shared.set(Health::Hung);
                    return Err(EngineError::Hung { waited: at_most, what });
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Its thread may be stuck for ever; whoever found out first waited long enough for all.
                    if self.shared.health() == Health::Hung {
                        return Err(EngineError::Hung { waited: began.elapsed(), what });
                    }
                }
            }
        }
    }

    fn ask(&self, request: Request, what: &'static str) -> Result<(), EngineError> {
        match (&self.requests, self.shared.health()) {
            (Some(requests), Health::Good) => requests.send(request).map_err(|_| self.dead(what)),
            _ => Err(self.dead(what)),
        }
    }
}

impl Engine for Gpu {
    fn caps(&self) -> &Caps {
        &self.facts.caps
    }

    fn init(&self) -> Option<&InitStats> {
        Some(&self.facts.init)
    }

    fn loop_iterations(&self) -> Option<u32> {
        self.probe_loops().ok()
    }

    fn reserved(&self) -> Bytes {
        staging::most_idle()
    }

    fn memory_budget(&self) -> Option<Measured> {
        self.facts.budget
    }

    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        let (reply, answer) = mpsc::channel();
        self.ask(Request::Create { size, class, reply }, "creating a buffer")?;
        self.receive(&answer, CREATE_DEADLINE, "creating a buffer")
    }

    fn lend(&self, block: BlockId) -> Result<wgpu::Buffer, EngineError> {
        let (reply, answer) = mpsc::channel();
        self.ask(Request::Lend { block, reply }, "lending a buffer")?;
        self.receive(&answer, CREATE_DEADLINE, "lending a buffer")
    }

    fn destroy(&self, block: BlockId) {
        // A dead device's buffers are leaked with it.
        let _ = self.ask(Request::Destroy(block), "destroying a buffer");
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        let (reply, answer) = mpsc::channel();
        self.ask(Request::Run { job, reply }, "submitting")?;
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        lock(&self.running).insert(ticket, answer);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<Done, EngineError> {
        let answer = lock(&self.running).remove(&ticket);
        match answer {
            Some(answer) => self.receive(&answer, deadline, "waiting for a job"),
            None => Err(EngineError::Validation { reason: format!("no job {}", ticket.0) }),
        }
    }

    fn health(&self) -> Health {
        self.shared.health()
    }
}

impl Drop for Gpu {
    /// Waits until the driver has let go: a process that ends while another of its threads is still inside the driver
    /// crashes in the driver's exit handlers. A device that hangs is not waited for.
    fn drop(&mut self) {
        drop(self.requests.take());
        if self.shared.health() == Health::Hung {
            return;
        }
        let closed = lock(&self.ended).recv_timeout(CLOSE_DEADLINE);
        if let (Err(RecvTimeoutError::Disconnected), Some(thread)) = (closed, self.thread.take()) {
            // Only its last instructions are left.
            let _ = thread.join();
        }
    }
}
