//! The device's own thread: takes requests, starts jobs, notices when they end, and never lets a caller wait for ever.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};

use super::{
    Facts, GpuOpener, Request, Shared, encode, open,
    pending::Pending,
    pipelines::Pipelines,
    staging::{Purpose, Staging, WINDOW},
};
use crate::{
    engine::{BlockId, Caps, Done, EngineError, Health, Job},
    memory::{AllocError, BlockClass, Tag},
    units::Bytes,
};

/// The longest look at the device while a job runs; requests are served in between.
const LONGEST_SLICE: Duration = Duration::from_millis(2);
/// The shortest, for a job that has just begun.
const SHORTEST_SLICE: Duration = Duration::from_micros(100);
/// A job whose caller does not wait for it is given up after this; those who wait have their own deadline.
const JOB_DEADLINE: Duration = Duration::from_secs(600);
/// How long a mapping of a buffer that nobody uses may take.
const MAP_DEADLINE: Duration = Duration::from_secs(10);
/// New pipelines are stored when the device has been idle this long, or when it is closed.
const SAVE_AFTER: Duration = Duration::from_secs(2);

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
    options: &GpuOpener,
    inbox: &Receiver<Request>,
    opened: &Sender<Result<Facts, EngineError>>,
    shared: &Arc<Shared>,
) {
    let news = Arc::new(News::default());
    let device = match open::open(options, |device| listen(device, &news)) {
        Ok(device) => device,
        Err(error) => return drop(opened.send(Err(error))),
    };
    let facts = Facts { caps: device.caps.clone(), budget: device.budget, init: device.init };
    let mut worker = Worker {
        param_align: u64::from(device.limits.min_uniform_buffer_offset_alignment).max(4),
        max_buffer: device.limits.max_buffer_size,
        device: device.device,
        queue: device.queue,
        caps: device.caps,
        news,
        blocks: HashMap::new(),
        next_block: 0,
        pipelines: Pipelines::new(device.store),
        staging: Staging::default(),
        clock: None,
        waiting: VecDeque::new(),
        running: Vec::new(),
    };
    if opened.send(Ok(facts)).is_err() {
        return;
    }
    // wgpu panics where a driver reports what wgpu does not expect; to our callers that is a lost device.
    let health = catch_unwind(AssertUnwindSafe(|| worker.serve(inbox, shared)));
    let panicked = health.is_err();
    let health = health.unwrap_or(Health::Lost);
    // Health before answers: whoever gets one must find the truth when asking.
    shared.set(health);
    worker.fail_all(health);
    if panicked || health == Health::Hung {
        // Dropping any of it may block for ever.
        std::mem::forget(worker);
    } else {
        let _ = catch_unwind(AssertUnwindSafe(move || {
            if let (Health::Good, Some(store)) = (health, worker.pipelines.store.as_mut()) {
                store.save();
            }
            drop(worker);
        }));
    }
}

/// Puts our callbacks in place of those that panic.
fn listen(device: &wgpu::Device, news: &Arc<News>) {
    let (lost, uncaptured) = (news.clone(), news.clone());
    device.set_device_lost_callback(move |reason, message| {
        *lock(&lost.lost) = Some(format!("{reason:?}: {message}"));
    });
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        *lock(&uncaptured.error) = Some(error.to_string());
    }));
}

/// The device and everything on it.
pub(super) struct Worker {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) caps: Caps,
    pub(super) max_buffer: u64,
    param_align: u64,
    news: Arc<News>,
    pub(super) blocks: HashMap<BlockId, wgpu::Buffer>,
    next_block: u64,
    pub(super) pipelines: Pipelines,
    pub(super) staging: Staging,
    clock: Option<(wgpu::QuerySet, wgpu::Buffer)>,
    /// Jobs that cannot start yet; never any when nothing runs.
    waiting: VecDeque<(Job, Answer)>,
    running: Vec<Running>,
}

/// Where a job's result goes.
type Answer = Sender<Result<Done, EngineError>>;

/// A job on the device.
struct Running {
    pending: Pending,
    since: Instant,
    reply: Answer,
}

impl Worker {
    fn serve(&mut self, inbox: &Receiver<Request>, shared: &Shared) -> Health {
        loop {
            let health = shared.health();
            if health != Health::Good {
                return health;
            }
            let request = match self.next(inbox) {
                Ok(request) => request,
                Err(()) => return Health::Good,
            };
            let health = match request {
                Some(request) => self.answer(request, shared),
                None => match self.look(shared) {
                    Health::Good => self.start_waiting(shared),
                    bad => bad,
                },
            };
            if health != Health::Good {
                return health;
            }
        }
    }

    /// The next request; `Err` when nobody is left to make one. An idle device sleeps.
    fn next(&mut self, inbox: &Receiver<Request>) -> Result<Option<Request>, ()> {
        if !self.running.is_empty() {
            return match inbox.try_recv() {
                Ok(request) => Ok(Some(request)),
                Err(TryRecvError::Empty) => Ok(None),
                // The jobs' callers are gone too.
                Err(TryRecvError::Disconnected) => Err(()),
            };
        }
        if let Some(store) = self.pipelines.store.as_mut().filter(|s| s.dirty) {
            match inbox.recv_timeout(SAVE_AFTER) {
                Ok(request) => return Ok(Some(request)),
                Err(RecvTimeoutError::Timeout) => store.save(),
                Err(RecvTimeoutError::Disconnected) => return Err(()),
            }
        }
        inbox.recv().map(Some).map_err(|_| ())
    }

    fn answer(&mut self, request: Request, shared: &Shared) -> Health {
        match request {
            Request::Create { size, class, reply } => drop(reply.send(self.create(size, class))),
            Request::Lend { block, reply } => {
                let missing = || EngineError::Validation { reason: format!("no block {}", block.0) };
                drop(reply.send(self.blocks.get(&block).cloned().ok_or_else(missing)));
            }
            Request::Destroy(block) => drop(self.blocks.remove(&block)),
            Request::Lose => {
                self.device.destroy();
                // The driver calls back only when its last job is over; until then its buffers are merely invalid, which
                // would read as a mistake of the work.
                lock(&self.news.lost).get_or_insert_with(|| "destroyed on request".to_owned());
                return self.look(shared);
            }
            Request::Run { job, reply } => {
                self.waiting.push_back((job, reply));
                return self.start_waiting(shared);
            }
        }
        Health::Good
    }

    /// Starts jobs in their order, as far as those that run allow it.
    fn start_waiting(&mut self, shared: &Shared) -> Health {
        while let Some((job, _)) = self.waiting.front()
            && !self.must_wait(job)
            && let Some((job, reply)) = self.waiting.pop_front()
        {
            match self.start(&job) {
                Ok(pending) => self.running.push(Running { pending, since: Instant::now(), reply }),
                Err(error) => {
                    let lost = lock(&self.news.lost).is_some();
                    if lost {
                        shared.set(Health::Lost);
                    }
                    let _ = reply.send(Err(error));
                    if lost {
                        return Health::Lost;
                    }
                }
            }
        }
        Health::Good
    }

    /// Does something that runs stand in the way? Others are served meanwhile.
    fn must_wait(&self, job: &Job) -> bool {
        let unified = self.caps.unified_memory;
        // A block that another job reads where it is must not be used meanwhile.
        let mapped = unified && self.running.iter().any(|r| r.pending.holds(&job.blocks));
        // Upload buffers come back only after what was submitted before; waiting for them would block everybody.
        mapped || (!self.running.is_empty() && encode::staged(job, unified) > WINDOW)
    }

    /// Lets the device make progress and ends what is done, lost or too late.
    fn look(&mut self, shared: &Shared) -> Health {
        match self.running.first() {
            Some(first) => {
                // A quarter of its age: whoever asks meanwhile waits for little beside what already ran.
                let slice = (first.since.elapsed() / 4).clamp(SHORTEST_SLICE, LONGEST_SLICE);
                self.poll(first.pending.target(), slice);
            }
            None => self.poll_now(),
        }
        if lock(&self.news.lost).is_some() {
            shared.set(Health::Lost);
            self.fail_all(Health::Lost);
            return Health::Lost;
        }
        self.staging.collect();
        let (device, queue, staging) = (&self.device, &self.queue, &mut self.staging);
        let ended: Vec<Running> =
            self.running.extract_if(.., |r| r.pending.advance(device, queue, staging)).collect();
        let stray = lock(&self.news.error).take();
        for running in ended {
            let result = running.pending.finish(&self.queue, &mut self.staging);
            let result = match &stray {
                Some(reason) => Err(EngineError::Validation { reason: reason.clone() }),
                None => result,
            };
            let _ = running.reply.send(result);
        }
        if self.running.iter().any(|r| r.since.elapsed() > JOB_DEADLINE) {
            shared.set(Health::Hung);
            self.fail_all(Health::Hung);
            return Health::Hung;
        }
        Health::Good
    }

    /// Tells everybody who waits.
    fn fail_all(&mut self, health: Health) {
        let error = self.death(health);
        for Running { pending, reply, .. } in self.running.drain(..) {
            let _ = reply.send(Err(error.clone()));
            if health == Health::Hung {
                // Taking a mapping back can block like any other call to a device that hangs.
                std::mem::forget(pending);
            }
        }
        for (_, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn death(&self, health: Health) -> EngineError {
        match health {
            Health::Hung => EngineError::Hung { waited: JOB_DEADLINE, what: "running a job" },
            _ => {
                let reason = lock(&self.news.lost).clone();
                EngineError::Lost { reason: reason.unwrap_or_else(|| "the device was closed".to_owned()) }
            }
        }
    }

    /// Waits for a submission, or for all when it is not known, no longer than `at_most`.
    fn poll(&self, index: Option<wgpu::SubmissionIndex>, at_most: Duration) {
        let wait = |submission_index| wgpu::PollType::Wait { submission_index, timeout: Some(at_most) };
        // wgpu panics when a driver reports a loss to a poll.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let polled = self.device.poll(wait(index));
            // A time-out only means that the job is still running; loss comes through the callback.
            if matches!(polled, Err(wgpu::PollError::WrongSubmissionIndex(..))) {
                let _ = self.device.poll(wait(None));
            }
        }));
        self.survived(polled.is_ok());
    }

    fn poll_now(&self) {
        let polled = catch_unwind(AssertUnwindSafe(|| drop(self.device.poll(wgpu::PollType::Poll))));
        self.survived(polled.is_ok());
    }

    fn survived(&self, ok: bool) {
        if !ok {
            lock(&self.news.lost).get_or_insert_with(|| "the driver failed while it was polled".to_owned());
        }
    }

    /// Waits until callbacks have come; the device need not be idle for that.
    pub(super) fn wait_until(&self, over: impl Fn() -> bool, what: &'static str) -> Result<(), EngineError> {
        let began = Instant::now();
        self.poll_now();
        while !over() {
            if let Some(reason) = lock(&self.news.lost).clone() {
                return Err(EngineError::Lost { reason });
            }
            if began.elapsed() > MAP_DEADLINE {
                return Err(EngineError::Hung { waited: MAP_DEADLINE, what });
            }
            self.poll(None, LONGEST_SLICE);
        }
        Ok(())
    }

    /// Waits for a submission of the job that is being encoded; nothing else runs then.
    pub(super) fn wait_for(&self, index: wgpu::SubmissionIndex) -> Result<(), EngineError> {
        self.poll(Some(index), MAP_DEADLINE);
        match lock(&self.news.lost).clone() {
            Some(reason) => Err(EngineError::Lost { reason }),
            None => Ok(()),
        }
    }

    /// Bytes from one parameter block to the next.
    pub(super) fn param_stride(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.param_align)
    }

    /// Queries for timestamps and the buffer they are resolved into; jobs follow each other on the queue and share them.
    pub(super) fn clock(&mut self) -> Option<(wgpu::QuerySet, wgpu::Buffer)> {
        if self.caps.timestamps && self.clock.is_none() {
            let count = encode::TIMED_PASSES * 2;
            let queries = self.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count,
            });
            let resolved = self.staging.take(&self.device, Purpose::Stamps, u64::from(count) * 8);
            self.clock = Some((queries, resolved));
        }
        self.clock.clone()
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
        let scopes = self.scopes();
        let buffer = self.device.create_buffer(&descriptor);
        self.check(scopes, size).inspect_err(|_| self.staging.clear())?;
        self.next_block += 1;
        let block = BlockId(self.next_block);
        self.blocks.insert(block, buffer);
        Ok(block)
    }

    fn start(&mut self, job: &Job) -> Result<Pending, EngineError> {
        let scopes = self.scopes();
        let started = encode::start(self, job);
        // A slot's size is what was asked for, whatever call ran out.
        let checked = self.check(scopes, job.plan.cost().peak);
        match (checked, started) {
            (Ok(()), Ok(pending)) => {
                self.pipelines.settle();
                Ok(pending)
            }
            (checked, started) => {
                self.pipelines.take_back();
                self.staging.clear();
                // The driver's word explains our own.
                Err(checked
                    .err()
                    .or(started.err())
                    .unwrap_or(EngineError::Validation { reason: "refused without a reason".to_owned() }))
            }
        }
    }

    /// Begins to catch errors. Scopes are per thread, and every call to this device is made on this one.
    fn scopes(&self) -> Scopes {
        // What an earlier call left behind is not the next one's fault.
        lock(&self.news.error).take();
        Scopes::push(&self.device)
    }

    /// Asks for errors, and whether the device survived: a lost one reports nothing.
    fn check(&self, scopes: Scopes, asked: Bytes) -> Result<(), EngineError> {
        let (memory, other) = scopes.pop();
        self.poll_now();
        if let Some(reason) = lock(&self.news.lost).clone() {
            return Err(EngineError::Lost { reason });
        }
        if memory.is_some() {
            return Err(AllocError::OutOfMemory { asked, tag: Tag("device") }.into());
        }
        match other.or_else(|| lock(&self.news.error).take()) {
            Some(reason) => Err(EngineError::Validation { reason }),
            None => Ok(()),
        }
    }
}

/// Error scopes for memory, for mistakes, and for what the driver's compiler does not like; popped in reverse.
struct Scopes {
    memory: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
    internal: wgpu::ErrorScopeGuard,
}

impl Scopes {
    fn push(device: &wgpu::Device) -> Self {
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        Scopes { memory, validation, internal }
    }

    fn pop(self) -> (Option<String>, Option<String>) {
        let take = |scope: wgpu::ErrorScopeGuard| pollster::block_on(scope.pop()).map(|e| e.to_string());
        let memory = take(self.memory);
        let validation = take(self.validation);
        let internal = take(self.internal);
        (memory, validation.or(internal))
    }
}
