//! Fault injection: an engine wrapper that injects scripted faults (OOM, device lost, hang, short read, slow call).
//!
//! Events are counted over the life of the *opener*, so that a reopened device does not fail at the same event again.
//! A device loss really destroys the device if the engine supports that (`over_gpu`); otherwise it is simulated.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use gpuforge_runtime::{
    engine::{
        BlockId, Caps, Engine, EngineError, Health, Job, JobOutput, Opener, Ticket,
        gpu::{GpuEngine, GpuOpener},
    },
    memory::{AllocError, BlockClass, Tag},
    units::Bytes,
};

use crate::fault_script::{Fault, FaultScript, InjectionPoint};

/// Destroys a device (device lost), as a driver reset would.
pub type Lose = Box<dyn Fn() + Send + Sync>;

/// An engine to be wrapped.
pub struct WrappedEngine {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// How to really destroy it; if `None`, the wrapper simulates a device loss.
    pub lose: Option<Lose>,
}

type Open = dyn Fn() -> Result<WrappedEngine, EngineError> + Send + Sync;

/// Event counters over all devices of one opener.
#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    injected: AtomicU64,
    events: [AtomicU64; InjectionPoint::ALL.len()],
}

/// Opens engines that share one fault script.
#[derive(Clone)]
pub struct FaultyOpener {
    open: Arc<Open>,
    script: Arc<FaultScript>,
    counters: Arc<Counters>,
}

impl FaultyOpener {
    /// Wraps what `open` returns.
    pub fn new(
        open: impl Fn() -> Result<WrappedEngine, EngineError> + Send + Sync + 'static,
        script: FaultScript,
    ) -> Self {
        FaultyOpener { open: Arc::new(open), script: Arc::new(script), counters: Arc::default() }
    }

    /// Wraps any engine; device losses are simulated.
    pub fn over(opener: impl Opener + 'static, script: FaultScript) -> Self {
        FaultyOpener::new(move || Ok(WrappedEngine { engine: opener.open()?, lose: None }), script)
    }

    /// Wraps a GPU; a device loss destroys it.
    pub fn over_gpu(opener: GpuOpener, script: FaultScript) -> Self {
        let open = move || {
            let gpu = Arc::new(GpuEngine::open_with(&opener)?);
            let gpu_to_lose = gpu.clone();
            Ok(WrappedEngine { engine: gpu, lose: Some(Box::new(move || gpu_to_lose.lose())) })
        };
        FaultyOpener::new(open, script)
    }

    /// How many devices were opened.
    pub fn opened(&self) -> u64 {
        self.counters.opened.load(Ordering::Relaxed)
    }

    /// How many faults were injected.
    pub fn injected(&self) -> u64 {
        self.counters.injected.load(Ordering::Relaxed)
    }

    /// How many events of a kind there were; a fault beyond this number never happened.
    pub fn events(&self, point: InjectionPoint) -> u64 {
        self.counters.events.get(point as usize).map_or(0, |n| n.load(Ordering::Relaxed))
    }
}

impl Opener for FaultyOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let WrappedEngine { engine, lose } = (self.open)()?;
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(FaultyEngine { engine, lose, opener: self.clone(), state: Mutex::default() }))
    }
}

/// Simulated failure on top of the engine's real state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SimulatedFailure {
    #[default]
    None,
    Lost,
    Silent {
        reported: bool,
    },
    Hung,
}

#[derive(Default)]
struct State {
    simulated: SimulatedFailure,
    /// Ids of blocks and jobs that only exist here; counted down from the maximum, far from the engine's own.
    fake_ids: u64,
    /// Output sizes of each job, for the zeros of a silent device loss.
    outputs: HashMap<Ticket, Vec<Bytes>>,
}

/// An engine with injected faults.
pub struct FaultyEngine {
    engine: Arc<dyn Engine>,
    lose: Option<Lose>,
    opener: FaultyOpener,
    state: Mutex<State>,
}

fn out_of_memory() -> EngineError {
    AllocError::OutOfMemory { asked: Bytes::ZERO, tag: Tag("injected") }.into()
}

impl FaultyEngine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn simulate(&self, simulated: SimulatedFailure) {
        self.state().simulated = simulated;
    }

    /// An id that no engine uses.
    fn fake_id(&self) -> u64 {
        let mut state = self.state();
        state.fake_ids += 1;
        u64::MAX - state.fake_ids
    }

    /// Counts the event and applies what is common to all calls; returns the fault for the rest.
    fn inject(&self, point: InjectionPoint) -> Option<Fault> {
        let counters = &self.opener.counters;
        let nth = counters.events.get(point as usize)?.fetch_add(1, Ordering::Relaxed);
        if self.state().simulated != SimulatedFailure::None {
            return None;
        }
        let fault = self.opener.script.at(point, nth)?;
        counters.injected.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::Slow => thread::sleep(self.opener.script.slow),
            Fault::Loss => match &self.lose {
                Some(lose) => lose(),
                None => self.simulate(SimulatedFailure::Lost),
            },
            Fault::SilentLoss => self.simulate(SimulatedFailure::Silent { reported: false }),
            Fault::Hang => self.simulate(SimulatedFailure::Hung),
            Fault::OutOfMemory | Fault::ShortRead => {}
        }
        Some(fault)
    }

    /// Blocks the caller of a hung call for as long as it would wait.
    fn hang(&self, fault: Option<Fault>, deadline: Duration, what: &'static str) -> EngineError {
        let waited = if fault == Some(Fault::Hang) {
            deadline.min(self.opener.script.patience)
        } else {
            // Known to hang: no second wait.
            Duration::ZERO
        };
        thread::sleep(waited);
        EngineError::DeviceHung { waited, what }
    }

    fn lost() -> EngineError {
        EngineError::DeviceLost { reason: "injected".to_owned() }
    }
}

/// How long creating or submitting hangs; these have no caller-supplied deadline.
const BUILT_IN_DEADLINE: Duration = Duration::from_millis(50);

impl Engine for FaultyEngine {
    fn caps(&self) -> &Caps {
        self.engine.caps()
    }

    fn loop_iterations(&self) -> Option<u32> {
        self.engine.loop_iterations()
    }

    fn reserved(&self) -> Bytes {
        self.engine.reserved()
    }

    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        let fault = self.inject(InjectionPoint::Create);
        let simulated = self.state().simulated;
        match simulated {
            SimulatedFailure::Lost => Err(FaultyEngine::lost()),
            SimulatedFailure::Hung => Err(self.hang(fault, BUILT_IN_DEADLINE, "creating a buffer")),
            SimulatedFailure::Silent { .. } => Ok(BlockId(self.fake_id())),
            SimulatedFailure::None if fault == Some(Fault::OutOfMemory) => Err(out_of_memory()),
            SimulatedFailure::None => self.engine.create(size, class),
        }
    }

    fn destroy(&self, block: BlockId) {
        // The engine ignores blocks that it did not create.
        self.engine.destroy(block);
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        let fault = self.inject(InjectionPoint::Submit);
        let outputs: Vec<Bytes> = job.plan.output_sizes().collect();
        let simulated = self.state().simulated;
        let ticket = match simulated {
            SimulatedFailure::Lost => return Err(FaultyEngine::lost()),
            SimulatedFailure::Hung => return Err(self.hang(fault, BUILT_IN_DEADLINE, "submitting")),
            SimulatedFailure::Silent { .. } => Ticket(self.fake_id()),
            SimulatedFailure::None if fault == Some(Fault::OutOfMemory) => return Err(out_of_memory()),
            SimulatedFailure::None => self.engine.submit(job)?,
        };
        self.state().outputs.insert(ticket, outputs);
        self.inject(InjectionPoint::Submitted);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<JobOutput, EngineError> {
        let fault = self.inject(InjectionPoint::Wait);
        let (simulated, outputs) = {
            let mut state = self.state();
            (state.simulated, state.outputs.remove(&ticket))
        };
        let result = match simulated {
            SimulatedFailure::Lost => Err(FaultyEngine::lost()),
            SimulatedFailure::Hung => Err(self.hang(fault, deadline, "waiting for a job")),
            SimulatedFailure::Silent { .. } => {
                self.simulate(SimulatedFailure::Silent { reported: true });
                let zeros = |n: Bytes| vec![0; usize::try_from(n.0).unwrap_or(0)];
                let outputs = outputs.unwrap_or_default().into_iter().map(zeros).collect();
                Ok(JobOutput { outputs, device_time: None })
            }
            SimulatedFailure::None => {
                let result = self.engine.wait(ticket, deadline);
                match fault {
                    Some(Fault::OutOfMemory) => result.and(Err(out_of_memory())),
                    Some(Fault::ShortRead) => result.map(truncate_last),
                    _ => result,
                }
            }
        };
        self.inject(InjectionPoint::Waited);
        result
    }

    fn health(&self) -> Health {
        match self.state().simulated {
            SimulatedFailure::Lost | SimulatedFailure::Silent { reported: true } => Health::Lost,
            SimulatedFailure::Hung => Health::Hung,
            SimulatedFailure::None | SimulatedFailure::Silent { reported: false } => self.engine.health(),
        }
    }
}

/// Truncates the last output to half.
fn truncate_last(mut done: JobOutput) -> JobOutput {
    if let Some(last) = done.outputs.last_mut() {
        last.truncate(last.len() / 2);
    }
    done
}
