//! wgpu engine: a GPU behind its own device thread; callers use request/response channels with a deadline.
//!
//! A hung device blocks `submit`, `map_async` and even `drop` without limit, and a second device of the same adapter
//! hangs with it. So every wgpu call is made on the device thread; callers wait on a channel with a deadline; on a hang
//! the thread is abandoned with everything it owns, and the next device comes from a new `Instance`.
//!
//! | file | what is in it |
//! |---|---|
//! | `device_thread.rs` | request loop, job scheduling, polling, health |
//! | `encode.rs` · `staging.rs` · `readback.rs` | command encoding; staging buffer ring; mapping results back |
//! | `pipelines.rs` · `pipeline_cache.rs` | compiled pipelines in memory; on disk |
//! | `open.rs` · `memory_budget.rs` · `loop_limit.rs` | adapter choice and device creation; `VK_EXT_memory_budget`; loop probe |
//!
//! Buffers, pipelines and staging are pooled here; command encoders are not: wgpu-core already keeps a free list of
//! encoders per device (`CommandAllocator` of wgpu-core 30) and resets and reuses them after a submission.

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

use super::{
    BlockId, Caps, Engine, EngineError, Health, Job, JobOutput, Opener, Ticket, init::DeviceInitStats,
};
use crate::{
    memory::{BlockClass, MeasuredBudget},
    units::Bytes,
};

mod device_thread;
mod encode;
mod loop_limit;
mod memory_budget;
mod open;
mod pipeline_cache;
mod pipelines;
mod readback;
mod staging;

pub use open::{AdapterChoice, AdapterSummary, ExternalDevice};

/// Deadline for opening a device; a cold driver start takes most of a second.
const OPEN_DEADLINE: Duration = Duration::from_secs(20);
/// Deadline for creating a buffer, while the device may compile or copy for other callers.
const CREATE_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline for closing a device; see [`GpuEngine`]'s `Drop`.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);
/// How often a waiting caller checks whether another caller found the device hung.
const HEALTH_POLL: Duration = Duration::from_millis(50);

/// Opens one adapter, each time through a new instance.
#[derive(Debug, Clone, Default)]
pub struct GpuOpener {
    /// Which adapter.
    pub choice: AdapterChoice,
    /// Uses staging buffers even with unified memory.
    pub staged: bool,
    /// Directory of the pipeline cache; `None` disables it.
    pub pipeline_cache_dir: Option<PathBuf>,
    /// A device that another library opened and shares; no adapter is chosen then.
    pub external: Option<ExternalDevice>,
}

impl Opener for GpuOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::new(GpuEngine::open_with(self)?))
    }
}

/// Requests to the device thread.
enum DeviceRequest {
    Create {
        size: Bytes,
        class: BlockClass,
        reply: Sender<Result<BlockId, EngineError>>,
    },
    Destroy(BlockId),
    Run {
        job: Job,
        reply: Sender<Result<JobOutput, EngineError>>,
    },
    /// A block's wgpu buffer, for another library on the same device.
    RawBuffer {
        block: BlockId,
        reply: Sender<Result<wgpu::Buffer, EngineError>>,
    },
    /// Destroys the device as a driver reset would; for tests and `reset`.
    Lose,
}

/// Properties of an open device.
struct DeviceInfo {
    caps: Caps,
    budget: Option<MeasuredBudget>,
    init: DeviceInitStats,
}

/// Device health, shared between callers and the device thread.
#[derive(Debug, Default)]
struct SharedHealth {
    health: AtomicU8,
}

impl SharedHealth {
    fn health(&self) -> Health {
        match self.health.load(Ordering::Acquire) {
            0 => Health::Good,
            1 => Health::Lost,
            _ => Health::Hung,
        }
    }

    /// The first failure counts.
    fn set(&self, health: Health) {
        let value = match health {
            Health::Good => return,
            Health::Lost => 1,
            Health::Hung => 2,
        };
        let _ = self.health.compare_exchange(0, value, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A GPU behind its device thread.
pub struct GpuEngine {
    info: DeviceInfo,
    /// `None` only while it is being dropped.
    requests: Option<Sender<DeviceRequest>>,
    shared: Arc<SharedHealth>,
    next: AtomicU64,
    running: Mutex<HashMap<Ticket, Receiver<Result<JobOutput, EngineError>>>>,
    thread: Option<JoinHandle<()>>,
    /// Nothing is ever sent; it closes when the thread has dropped the device.
    ended: Mutex<Receiver<()>>,
    loop_limit: OnceLock<u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuEngine {
    /// Opens the chosen adapter with default options.
    pub fn open(choice: AdapterChoice) -> Result<Self, EngineError> {
        GpuEngine::open_with(&GpuOpener { choice, ..GpuOpener::default() })
    }

    /// Opens an adapter on a new device thread.
    pub fn open_with(options: &GpuOpener) -> Result<Self, EngineError> {
        let (requests, inbox) = mpsc::channel();
        let (opened, open_result) = mpsc::channel();
        let (running, ended) = mpsc::channel::<()>();
        let shared = Arc::new(SharedHealth::default());
        let (theirs, options) = (shared.clone(), options.clone());
        let thread = std::thread::Builder::new().name("gpuforge-device".to_owned());
        let work = move || {
            let _running = running;
            device_thread::run(&options, &inbox, &opened, &theirs);
        };
        let unavailable = |reason: String| EngineError::Unavailable { reason };
        let thread = thread.spawn(work).map_err(|e| unavailable(format!("no thread for the device: {e}")))?;
        let info = match open_result.recv_timeout(OPEN_DEADLINE) {
            Ok(opened) => opened?,
            Err(RecvTimeoutError::Timeout) => {
                shared.set(Health::Hung);
                return Err(EngineError::DeviceHung { waited: OPEN_DEADLINE, what: "opening the device" });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(unavailable("the device thread ended".to_owned()));
            }
        };
        Ok(GpuEngine {
            info,
            requests: Some(requests),
            shared,
            next: AtomicU64::new(0),
            running: Mutex::default(),
            thread: Some(thread),
            ended: Mutex::new(ended),
            loop_limit: OnceLock::new(),
        })
    }

    /// Destroys the device (device lost), as a driver reset would.
    pub fn lose(&self) {
        let _ = self.send(DeviceRequest::Lose, "losing the device");
    }

    /// Loop iterations per invocation that are verified to run. Runs a tiny probe kernel at the first call, because
    /// opening must not pay for it; [`Caps::loop_iterations`] stays unknown. A failed probe is not cached.
    pub fn probe_loop_limit(&self) -> Result<u32, EngineError> {
        if let Some(limit) = self.loop_limit.get() {
            return Ok(*limit);
        }
        let verified = loop_limit::probe(self)?;
        Ok(*self.loop_limit.get_or_init(|| verified))
    }

    fn dead_error(&self, what: &'static str) -> EngineError {
        // A thread that ended by itself dropped the device.
        self.shared.set(Health::Lost);
        match self.shared.health() {
            Health::Hung => EngineError::DeviceHung { waited: Duration::ZERO, what },
            _ => EngineError::DeviceLost { reason: format!("the device thread ended ({what})") },
        }
    }

    fn receive<T>(
        &self,
        from: &Receiver<Result<T, EngineError>>,
        deadline: Duration,
        what: &'static str,
    ) -> Result<T, EngineError> {
        let began = Instant::now();
        loop {
            let left = deadline.saturating_sub(began.elapsed());
            match from.recv_timeout(left.min(HEALTH_POLL)) {
                Ok(reply) => return reply,
                Err(RecvTimeoutError::Disconnected) => return Err(self.dead_error(what)),
                Err(RecvTimeoutError::Timeout) if left <= HEALTH_POLL => {
                    self.shared.set(Health::Hung);
                    return Err(EngineError::DeviceHung { waited: deadline, what });
                }
                Err(RecvTimeoutError::Timeout) => {
                    // The device thread may be stuck for ever; the first caller that timed out waited for all.
                    if self.shared.health() == Health::Hung {
                        return Err(EngineError::DeviceHung { waited: began.elapsed(), what });
                    }
                }
            }
        }
    }

    fn send(&self, request: DeviceRequest, what: &'static str) -> Result<(), EngineError> {
        match (&self.requests, self.shared.health()) {
            (Some(requests), Health::Good) => requests.send(request).map_err(|_| self.dead_error(what)),
            _ => Err(self.dead_error(what)),
        }
    }
}

impl Engine for GpuEngine {
    fn caps(&self) -> &Caps {
        &self.info.caps
    }

    fn init(&self) -> Option<&DeviceInitStats> {
        Some(&self.info.init)
    }

    fn loop_iterations(&self) -> Option<u32> {
        self.probe_loop_limit().ok()
    }

    fn reserved(&self) -> Bytes {
        staging::max_idle()
    }

    fn memory_budget(&self) -> Option<MeasuredBudget> {
        self.info.budget
    }

    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        let (reply, response) = mpsc::channel();
        self.send(DeviceRequest::Create { size, class, reply }, "creating a buffer")?;
        self.receive(&response, CREATE_DEADLINE, "creating a buffer")
    }

    fn raw_buffer(&self, block: BlockId) -> Result<wgpu::Buffer, EngineError> {
        let (reply, response) = mpsc::channel();
        self.send(DeviceRequest::RawBuffer { block, reply }, "sharing a buffer")?;
        self.receive(&response, CREATE_DEADLINE, "sharing a buffer")
    }

    fn destroy(&self, block: BlockId) {
        // A dead device's buffers are leaked with it.
        let _ = self.send(DeviceRequest::Destroy(block), "destroying a buffer");
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        let (reply, response) = mpsc::channel();
        self.send(DeviceRequest::Run { job, reply }, "submitting")?;
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        lock(&self.running).insert(ticket, response);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<JobOutput, EngineError> {
        let response = lock(&self.running).remove(&ticket);
        match response {
            Some(response) => self.receive(&response, deadline, "waiting for a job"),
            None => Err(EngineError::Validation { reason: format!("no job {}", ticket.0) }),
        }
    }

    fn health(&self) -> Health {
        self.shared.health()
    }
}

impl Drop for GpuEngine {
    /// Waits until the driver has closed the device: a process that exits while a thread is still inside the driver
    /// crashes in the driver's exit handlers. A hung device is not waited for.
    fn drop(&mut self) {
        drop(self.requests.take());
        if self.shared.health() == Health::Hung {
            return;
        }
        let closed = lock(&self.ended).recv_timeout(CLOSE_DEADLINE);
        if let (Err(RecvTimeoutError::Disconnected), Some(thread)) = (closed, self.thread.take()) {
            // The thread is about to return.
            let _ = thread.join();
        }
    }
}
