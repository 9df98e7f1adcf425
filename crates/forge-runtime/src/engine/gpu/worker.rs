//! The device's own thread: takes requests, starts jobs, notices when they end, and never lets a caller wait for ever.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};

use super::{Request, Shared, encode, open};
use crate::{
    engine::{BlockId, Caps, Done, EngineError, Health, Job},
    memory::{AllocError, BlockClass, Tag},
    units::Bytes,
};

/// How long one look at the device lasts while jobs run; requests are served in between.
const SLICE: Duration = Duration::from_millis(2);
/// How often an idle device is looked at, so that its loss is noticed.
const IDLE: Duration = Duration::from_millis(250);

/// What the driver told its callbacks.
#[derive(Debug, Default)]
pub(super) struct News {
    lost: Mutex<Option<String>>,
    error: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the last caller is gone, the device is lost, or it was given up.
pub(super) fn run(
    choice: &open::AdapterChoice,
    inbox: &Receiver<Request>,
    opened: &Sender<Result<Caps, EngineError>>,
    shared: &Arc<Shared>,
) {
    let device = match open::open(choice) {
        Ok(device) => device,
        Err(error) => return drop(opened.send(Err(error))),
    };
    let news = Arc::new(News::default());
    let (lost, uncaptured) = (news.clone(), news.clone());
    device.device.set_device_lost_callback(move |reason, message| {
        *lock(&lost.lost) = Some(format!("{reason:?}: {message}"));
    });
    device.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        *lock(&uncaptured.error) = Some(error.to_string());
    }));
    let caps = device.caps.clone();
    let mut worker = Worker {
        device: device.device,
        queue: device.queue,
        caps: device.caps,
        news,
        blocks: HashMap::new(),
        next_block: 0,
        pipelines: HashMap::new(),
        running: Vec::new(),
    };
    let told = opened.send(Ok(caps)).is_ok();
    if told && worker.serve(inbox, shared) == Health::Hung {
        // Dropping any of it may block for ever.
        std::mem::forget(worker);
    }
}

/// The device and everything on it.
pub(super) struct Worker {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) caps: Caps,
    news: Arc<News>,
    pub(super) blocks: HashMap<BlockId, wgpu::Buffer>,
    next_block: u64,
    pub(super) pipelines: HashMap<String, encode::Pipeline>,
    running: Vec<Running>,
}

/// A job on the device.
struct Running {
    pending: encode::Pending,
    until: Instant,
    reply: Sender<Result<Done, EngineError>>,
}

impl Worker {
    fn serve(&mut self, inbox: &Receiver<Request>, shared: &Shared) -> Health {
        loop {
            if shared.health() == Health::Hung {
                return Health::Hung;
            }
            let request = if self.running.is_empty() {
                match inbox.recv_timeout(IDLE) {
                    Ok(request) => Some(request),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return Health::Good,
                }
            } else {
                match inbox.try_recv() {
                    Ok(request) => Some(request),
                    Err(TryRecvError::Empty) => None,
                    // The jobs' callers are gone too.
                    Err(TryRecvError::Disconnected) => return Health::Good,
                }
            };
            if let Some(request) = request {
                self.answer(request);
            }
            let health = self.look(shared);
            if health != Health::Good {
                shared.set(health);
                return health;
            }
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Create { size, class, reply } => drop(reply.send(self.create(size, class))),
            Request::Destroy(block) => drop(self.blocks.remove(&block)),
            Request::Lose => self.device.destroy(),
            Request::Run { job, deadline, reply } => match self.start(&job) {
                Ok(pending) => {
                    self.running.push(Running { pending, until: Instant::now() + deadline, reply })
                }
                Err(error) => drop(reply.send(Err(error))),
            },
        }
    }

    /// Lets the device make progress and ends what is done, lost or too late.
    fn look(&mut self, shared: &Shared) -> Health {
        let poll = if self.running.is_empty() {
            wgpu::PollType::Poll
        } else {
            wgpu::PollType::Wait { submission_index: None, timeout: Some(SLICE) }
        };
        // A time-out only means that the job is still running; loss comes through the callback.
        let _ = self.device.poll(poll);
        if let Some(reason) = lock(&self.news.lost).clone() {
            // Health before answers: whoever gets one must find the truth when asking.
            shared.set(Health::Lost);
            for running in self.running.drain(..) {
                let _ = running.reply.send(Err(EngineError::Lost { reason: reason.clone() }));
            }
            return Health::Lost;
        }
        let (ended, still): (Vec<Running>, Vec<Running>) =
            self.running.drain(..).partition(|r| r.pending.is_over());
        self.running = still;
        for running in ended {
            let result = running.pending.collect(&self.queue);
            let _ = running.reply.send(result);
        }
        let now = Instant::now();
        if self.running.iter().any(|r| r.until < now) {
            shared.set(Health::Hung);
            for running in self.running.drain(..) {
                let waited = Duration::from_secs(600);
                let _ = running.reply.send(Err(EngineError::Hung { waited, what: "running a job" }));
            }
            return Health::Hung;
        }
        Health::Good
    }

    fn create(&mut self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        if size > self.caps.largest_block {
            return Err(AllocError::TooLarge { asked: size, most: self.caps.largest_block }.into());
        }
        let usage = match class {
            BlockClass::Storage if self.caps.unified_memory => {
                encode::STORAGE | wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE
            }
            BlockClass::Storage => encode::STORAGE,
            BlockClass::StagingUp => wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
            BlockClass::StagingDown => wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            BlockClass::Uniform => wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        };
        let descriptor =
            wgpu::BufferDescriptor { label: None, size: size.0, usage, mapped_at_creation: false };
        let device = self.device.clone();
        let buffer = self.guarded(size, || Ok(device.create_buffer(&descriptor)))?;
        self.next_block += 1;
        let block = BlockId(self.next_block);
        self.blocks.insert(block, buffer);
        Ok(block)
    }

    fn start(&mut self, job: &Job) -> Result<encode::Pending, EngineError> {
        let peak = job.plan.cost().peak;
        // Scopes are per thread, and every call to this device is made on this one.
        let device = self.device.clone();
        let scopes = Scopes::push(&device);
        let started = encode::start(self, job);
        match (self.check(scopes, peak), started) {
            (Ok(()), started) => started,
            (Err(error), started) => {
                if let Ok(pending) = started {
                    pending.abandon();
                }
                // A pipeline that was made in vain must not be found again.
                self.pipelines.clear();
                Err(error)
            }
        }
    }

    /// Runs calls whose errors are caught, and asks afterwards whether the device survived them: a lost one reports
    /// nothing.
    fn guarded<T>(
        &self,
        asked: Bytes,
        calls: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let scopes = Scopes::push(&self.device);
        let result = calls();
        self.check(scopes, asked)?;
        result
    }

    fn check(&self, scopes: Scopes, asked: Bytes) -> Result<(), EngineError> {
        let (memory, validation) = scopes.pop();
        let _ = self.device.poll(wgpu::PollType::Poll);
        if let Some(reason) = lock(&self.news.lost).clone() {
            return Err(EngineError::Lost { reason });
        }
        if memory.is_some() {
            return Err(AllocError::OutOfMemory { asked, tag: Tag("device") }.into());
        }
        match validation.or_else(|| lock(&self.news.error).take()) {
            Some(reason) => Err(EngineError::Validation { reason }),
            None => Ok(()),
        }
    }
}

/// Error scopes for memory and for mistakes, popped in reverse.
struct Scopes {
    memory: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
}

impl Scopes {
    fn push(device: &wgpu::Device) -> Self {
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        Scopes { memory, validation }
    }

    fn pop(self) -> (Option<String>, Option<String>) {
        let memory = pollster::block_on(self.memory.pop()).map(|e| e.to_string());
        let validation = pollster::block_on(self.validation.pop()).map(|e| e.to_string());
        (memory, validation)
    }
}
