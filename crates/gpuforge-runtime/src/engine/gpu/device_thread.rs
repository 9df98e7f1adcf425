//! Device thread: a request/response loop that owns all wgpu objects, schedules jobs, polls for completion, and enforces
//! deadlines so that no caller blocks for ever.

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
    DeviceInfo, DeviceRequest, GpuOpener, SharedHealth, encode, open,
    pipelines::Pipelines,
    readback::PendingJob,
    staging::{Purpose, Staging, WINDOW},
};
use crate::{
    engine::{BlockId, Caps, EngineError, Health, Job, JobOutput},
    memory::{AllocError, BlockClass, Tag},
    units::Bytes,
};

/// Maximum time slice of one poll while a job runs; requests are served in between.
const MAX_POLL_SLICE: Duration = Duration::from_millis(2);
/// Minimum time slice, for a job that has just started.
const MIN_POLL_SLICE: Duration = Duration::from_micros(100);
/// Deadline of a job whose caller does not wait for it; waiting callers have their own deadline.
const JOB_DEADLINE: Duration = Duration::from_secs(600);
/// Deadline for mapping an idle buffer.
const MAP_DEADLINE: Duration = Duration::from_secs(10);
/// The pipeline cache is saved when the device has been idle this long, or when it is closed.
const SAVE_AFTER: Duration = Duration::from_secs(2);

/// What the driver's callbacks reported.
#[derive(Debug, Default)]
pub(super) struct CallbackState {
    lost: Mutex<Option<String>>,
    error: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the last caller is gone, the device is lost, or it is abandoned as hung.
pub(super) fn run(
    options: &GpuOpener,
    inbox: &Receiver<DeviceRequest>,
    opened: &Sender<Result<DeviceInfo, EngineError>>,
    shared: &Arc<SharedHealth>,
) {
    let callbacks = Arc::new(CallbackState::default());
    let device = match open::open(options, |device| install_callbacks(device, &callbacks)) {
        Ok(device) => device,
        Err(error) => return drop(opened.send(Err(error))),
    };
    let info = DeviceInfo { caps: device.caps.clone(), budget: device.budget, init: device.init };
    let mut device_thread = DeviceThread {
        param_align: u64::from(device.limits.min_uniform_buffer_offset_alignment).max(4),
        max_buffer: device.limits.max_buffer_size,
        device: device.device,
        queue: device.queue,
        caps: device.caps,
        callbacks,
        blocks: HashMap::new(),
        next_block: 0,
        pipelines: Pipelines::new(device.store),
        staging: Staging::default(),
        timestamp_queries: None,
        waiting: VecDeque::new(),
        running: Vec::new(),
    };
    if opened.send(Ok(info)).is_err() {
        return;
    }
    // wgpu panics on unexpected driver errors; to our callers that is a lost device.
    let health = catch_unwind(AssertUnwindSafe(|| device_thread.serve(inbox, shared)));
    let panicked = health.is_err();
    let health = health.unwrap_or(Health::Lost);
    // Health before replies: a caller that gets a reply must see the right health.
    shared.set(health);
    device_thread.fail_all(health);
    if panicked || health == Health::Hung {
        // Leaked: dropping any wgpu object may block for ever.
        std::mem::forget(device_thread);
    } else {
        let _ = catch_unwind(AssertUnwindSafe(move || {
            if let (Health::Good, Some(store)) = (health, device_thread.pipelines.store.as_mut()) {
                store.save();
            }
            drop(device_thread);
        }));
    }
}

/// Replaces wgpu's default callbacks, which panic.
fn install_callbacks(device: &wgpu::Device, callbacks: &Arc<CallbackState>) {
    let (lost, uncaptured) = (callbacks.clone(), callbacks.clone());
    device.set_device_lost_callback(move |reason, message| {
        *lock(&lost.lost) = Some(format!("{reason:?}: {message}"));
    });
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        *lock(&uncaptured.error) = Some(error.to_string());
    }));
}

/// State of the device thread: the device and everything on it.
pub(super) struct DeviceThread {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) caps: Caps,
    pub(super) max_buffer: u64,
    param_align: u64,
    callbacks: Arc<CallbackState>,
    pub(super) blocks: HashMap<BlockId, wgpu::Buffer>,
    next_block: u64,
    pub(super) pipelines: Pipelines,
    pub(super) staging: Staging,
    timestamp_queries: Option<(wgpu::QuerySet, wgpu::Buffer)>,
    /// Jobs that cannot start yet; empty when nothing runs.
    waiting: VecDeque<(Job, ReplySender)>,
    running: Vec<RunningJob>,
}

/// Reply channel of a job.
type ReplySender = Sender<Result<JobOutput, EngineError>>;

/// A job on the device.
struct RunningJob {
    pending: PendingJob,
    since: Instant,
    reply: ReplySender,
}

impl DeviceThread {
    fn serve(&mut self, inbox: &Receiver<DeviceRequest>, shared: &SharedHealth) -> Health {
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
                Some(request) => self.handle(request, shared),
                None => match self.poll_jobs(shared) {
                    Health::Good => self.start_waiting(shared),
                    bad => bad,
                },
            };
            if health != Health::Good {
                return health;
            }
        }
    }

    /// The next request; `Err` when all callers are gone. An idle device thread sleeps.
    fn next(&mut self, inbox: &Receiver<DeviceRequest>) -> Result<Option<DeviceRequest>, ()> {
        if !self.running.is_empty() {
            return match inbox.try_recv() {
                Ok(request) => Ok(Some(request)),
                Err(TryRecvError::Empty) => Ok(None),
                // The callers of the running jobs are gone too.
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

    fn handle(&mut self, request: DeviceRequest, shared: &SharedHealth) -> Health {
        match request {
            DeviceRequest::Create { size, class, reply } => drop(reply.send(self.create(size, class))),
            DeviceRequest::RawBuffer { block, reply } => {
                let missing = || EngineError::Validation { reason: format!("no block {}", block.0) };
                drop(reply.send(self.blocks.get(&block).cloned().ok_or_else(missing)));
            }
            DeviceRequest::Destroy(block) => drop(self.blocks.remove(&block)),
            DeviceRequest::Lose => {
                self.device.destroy();
                // The driver's callback comes only when its last job is over; until then its buffers are merely invalid,
                // which would look like a validation error of the plan.
                lock(&self.callbacks.lost).get_or_insert_with(|| "destroyed on request".to_owned());
                return self.poll_jobs(shared);
            }
            DeviceRequest::Run { job, reply } => {
                self.waiting.push_back((job, reply));
                return self.start_waiting(shared);
            }
        }
        Health::Good
    }

    /// Starts waiting jobs in FIFO order, as far as the running ones allow.
    fn start_waiting(&mut self, shared: &SharedHealth) -> Health {
        while let Some((job, _)) = self.waiting.front()
            && !self.must_wait(job)
            && let Some((job, reply)) = self.waiting.pop_front()
        {
            match self.start(&job) {
                Ok(pending) => self.running.push(RunningJob { pending, since: Instant::now(), reply }),
                Err(error) => {
                    let lost = lock(&self.callbacks.lost).is_some();
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

    /// Does a running job conflict with this one? Other requests are served meanwhile.
    fn must_wait(&self, job: &Job) -> bool {
        let unified = self.caps.unified_memory;
        // A block that another job has mapped must not be used meanwhile.
        let mapped = unified && self.running.iter().any(|r| r.pending.conflicts_with(&job.blocks));
        // Staging buffers are recycled only after earlier submissions; waiting for them would block every caller.
        mapped || (!self.running.is_empty() && encode::staged_bytes(job, unified) > WINDOW)
    }

    /// Polls the device and completes jobs that are done, lost or past their deadline.
    fn poll_jobs(&mut self, shared: &SharedHealth) -> Health {
        match self.running.first() {
            Some(first) => {
                // A quarter of its age: a request that comes meanwhile waits little compared to what already ran.
                let slice = (first.since.elapsed() / 4).clamp(MIN_POLL_SLICE, MAX_POLL_SLICE);
                self.poll(first.pending.target(), slice);
            }
            None => self.poll_now(),
        }
        if lock(&self.callbacks.lost).is_some() {
            shared.set(Health::Lost);
            self.fail_all(Health::Lost);
            return Health::Lost;
        }
        self.staging.collect();
        let (device, queue, staging) = (&self.device, &self.queue, &mut self.staging);
        let ended: Vec<RunningJob> =
            self.running.extract_if(.., |r| r.pending.advance(device, queue, staging)).collect();
        let uncaptured = lock(&self.callbacks.error).take();
        for running in ended {
            let result = running.pending.finish(&self.queue, &mut self.staging);
            let result = match &uncaptured {
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

    /// Fails every running and waiting job.
    fn fail_all(&mut self, health: Health) {
        let error = self.device_error(health);
        for RunningJob { pending, reply, .. } in self.running.drain(..) {
            let _ = reply.send(Err(error.clone()));
            if health == Health::Hung {
                // Leaked: unmapping can block like any other call to a hung device.
                std::mem::forget(pending);
            }
        }
        for (_, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn device_error(&self, health: Health) -> EngineError {
        match health {
            Health::Hung => EngineError::DeviceHung { waited: JOB_DEADLINE, what: "running a job" },
            _ => {
                let reason = lock(&self.callbacks.lost).clone();
                EngineError::DeviceLost {
                    reason: reason.unwrap_or_else(|| "the device was closed".to_owned()),
                }
            }
        }
    }

    /// Waits for a submission, or for all when `index` is `None`, at most `timeout`.
    fn poll(&self, index: Option<wgpu::SubmissionIndex>, timeout: Duration) {
        let wait = |submission_index| wgpu::PollType::Wait { submission_index, timeout: Some(timeout) };
        // wgpu panics when a driver reports a device loss to a poll.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let polled = self.device.poll(wait(index));
            // A time-out only means that the job is still running; device loss comes through the callback.
            if matches!(polled, Err(wgpu::PollError::WrongSubmissionIndex(..))) {
                let _ = self.device.poll(wait(None));
            }
        }));
        self.check_poll(polled.is_ok());
    }

    fn poll_now(&self) {
        let polled = catch_unwind(AssertUnwindSafe(|| drop(self.device.poll(wgpu::PollType::Poll))));
        self.check_poll(polled.is_ok());
    }

    fn check_poll(&self, ok: bool) {
        if !ok {
            lock(&self.callbacks.lost)
                .get_or_insert_with(|| "the driver failed while it was polled".to_owned());
        }
    }

    /// Waits until callbacks have fired; the device need not be idle for that.
    pub(super) fn wait_until(&self, done: impl Fn() -> bool, what: &'static str) -> Result<(), EngineError> {
        let began = Instant::now();
        self.poll_now();
        while !done() {
            if let Some(reason) = lock(&self.callbacks.lost).clone() {
                return Err(EngineError::DeviceLost { reason });
            }
            if began.elapsed() > MAP_DEADLINE {
                return Err(EngineError::DeviceHung { waited: MAP_DEADLINE, what });
            }
            self.poll(None, MAX_POLL_SLICE);
        }
        Ok(())
    }

    /// Waits for a submission of the job that is being encoded; nothing else runs then.
    pub(super) fn wait_for(&self, index: wgpu::SubmissionIndex) -> Result<(), EngineError> {
        self.poll(Some(index), MAP_DEADLINE);
        match lock(&self.callbacks.lost).clone() {
            Some(reason) => Err(EngineError::DeviceLost { reason }),
            None => Ok(()),
        }
    }

    /// Stride of parameter blocks, by the uniform offset alignment.
    pub(super) fn param_stride(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.param_align)
    }

    /// Timestamp queries and the buffer they are resolved into; jobs run in queue order and share them.
    pub(super) fn timestamp_queries(&mut self) -> Option<(wgpu::QuerySet, wgpu::Buffer)> {
        if self.caps.timestamps && self.timestamp_queries.is_none() {
            let count = encode::TIMED_PASSES * 2;
            let queries = self.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count,
            });
            let resolved = self.staging.take(&self.device, Purpose::Timestamps, u64::from(count) * 8);
            self.timestamp_queries = Some((queries, resolved));
        }
        self.timestamp_queries.clone()
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

    fn start(&mut self, job: &Job) -> Result<PendingJob, EngineError> {
        let scopes = self.scopes();
        let started = encode::start(self, job);
        // On OOM the reported size is the peak of the plan, whichever call failed.
        let checked = self.check(scopes, job.plan.cost().peak);
        match (checked, started) {
            (Ok(()), Ok(pending)) => {
                self.pipelines.commit();
                Ok(pending)
            }
            (checked, started) => {
                self.pipelines.roll_back();
                self.staging.clear();
                // The driver's error is the cause of ours.
                Err(checked
                    .err()
                    .or(started.err())
                    .unwrap_or(EngineError::Validation { reason: "refused without a reason".to_owned() }))
            }
        }
    }

    /// Pushes error scopes. They are per thread, and every call to this device is made on this thread.
    fn scopes(&self) -> ErrorScopes {
        // An uncaptured error of an earlier call does not belong to the next one.
        lock(&self.callbacks.error).take();
        ErrorScopes::push(&self.device)
    }

    /// Pops the error scopes and checks for device loss: a lost device reports no errors.
    fn check(&self, scopes: ErrorScopes, asked: Bytes) -> Result<(), EngineError> {
        let (memory, other) = scopes.pop();
        self.poll_now();
        if let Some(reason) = lock(&self.callbacks.lost).clone() {
            return Err(EngineError::DeviceLost { reason });
        }
        if memory.is_some() {
            return Err(AllocError::OutOfMemory { asked, tag: Tag("device") }.into());
        }
        match other.or_else(|| lock(&self.callbacks.error).take()) {
            Some(reason) => Err(EngineError::Validation { reason }),
            None => Ok(()),
        }
    }
}

/// wgpu error scopes (OOM, validation, internal); popped in reverse order.
struct ErrorScopes {
    memory: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
    internal: wgpu::ErrorScopeGuard,
}

impl ErrorScopes {
    fn push(device: &wgpu::Device) -> Self {
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        ErrorScopes { memory, validation, internal }
    }

    fn pop(self) -> (Option<String>, Option<String>) {
        let take = |scope: wgpu::ErrorScopeGuard| pollster::block_on(scope.pop()).map(|e| e.to_string());
        let memory = take(self.memory);
        let validation = take(self.validation);
        let internal = take(self.internal);
        (memory, validation.or(internal))
    }
}
