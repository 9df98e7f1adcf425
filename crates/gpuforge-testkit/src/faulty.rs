//! How does any engine fail on demand? A wrapper that follows a script and leaves everything else to the engine.
//!
//! Events are counted over the life of the *opener*, so that a device that was rebuilt does not fail at the same place
//! again. A loss really destroys the device where the engine has a way to (`over_gpu`); elsewhere it is played.

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
        BlockId, Caps, Done, Engine, EngineError, Health, Job, Opener, Ticket,
        gpu::{Gpu, GpuOpener},
    },
    memory::{AllocError, BlockClass, Tag},
    units::Bytes,
};

use crate::script::{Fault, Moment, Script};

/// Makes a device lost, as a driver reset would.
pub type Lose = Box<dyn Fn() + Send + Sync>;

/// A device to be wrapped.
pub struct Victim {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// How it is really lost; without it, the wrapper plays it.
    pub lose: Option<Lose>,
}

type Open = dyn Fn() -> Result<Victim, EngineError> + Send + Sync;

/// Events seen by all devices of one opener.
#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    injected: AtomicU64,
    events: [AtomicU64; Moment::ALL.len()],
}

/// Opens devices that follow one script.
#[derive(Clone)]
pub struct FaultyOpener {
    open: Arc<Open>,
    script: Arc<Script>,
    counters: Arc<Counters>,
}

impl FaultyOpener {
    /// Wraps whatever `open` makes.
    pub fn new(
        open: impl Fn() -> Result<Victim, EngineError> + Send + Sync + 'static,
        script: Script,
    ) -> Self {
        FaultyOpener { open: Arc::new(open), script: Arc::new(script), counters: Arc::default() }
    }

    /// Wraps any engine; losses are played.
    pub fn over(opener: impl Opener + 'static, script: Script) -> Self {
        FaultyOpener::new(move || Ok(Victim { engine: opener.open()?, lose: None }), script)
    }

    /// Wraps a real device; a loss destroys it.
    pub fn over_gpu(opener: GpuOpener, script: Script) -> Self {
        let open = move || {
            let gpu = Arc::new(Gpu::open_with(&opener)?);
            let victim = gpu.clone();
            Ok(Victim { engine: gpu, lose: Some(Box::new(move || victim.lose())) })
        };
        FaultyOpener::new(open, script)
    }

    /// How many devices were opened.
    pub fn opened(&self) -> u64 {
        self.counters.opened.load(Ordering::Relaxed)
    }

    /// How many faults happened.
    pub fn injected(&self) -> u64 {
        self.counters.injected.load(Ordering::Relaxed)
    }

    /// How many events of a kind there were; a fault beyond this number never happened.
    pub fn events(&self, moment: Moment) -> u64 {
        self.counters.events.get(moment as usize).map_or(0, |n| n.load(Ordering::Relaxed))
    }
}

impl Opener for FaultyOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let Victim { engine, lose } = (self.open)()?;
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Faulty { engine, lose, opener: self.clone(), state: Mutex::default() }))
    }
}

/// What is played on top of what the engine really is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Played {
    #[default]
    Nothing,
    Lost,
    Silent {
        told: bool,
    },
    Hung,
}

#[derive(Default)]
struct State {
    played: Played,
    /// Blocks and jobs that only exist here; counted down from the largest number, far from the engine's own.
    pretended: u64,
    /// What each job must bring, for the zeros of a silent loss.
    outputs: HashMap<Ticket, Vec<Bytes>>,
}

/// An engine with faults.
pub struct Faulty {
    engine: Arc<dyn Engine>,
    lose: Option<Lose>,
    opener: FaultyOpener,
    state: Mutex<State>,
}

fn short() -> EngineError {
    AllocError::OutOfMemory { asked: Bytes::ZERO, tag: Tag("injected") }.into()
}

impl Faulty {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn play(&self, played: Played) {
        self.state().played = played;
    }

    /// A number that no engine gives.
    fn pretend(&self) -> u64 {
        let mut state = self.state();
        state.pretended += 1;
        u64::MAX - state.pretended
    }

    /// Counts the event. What every kind of call has in common happens here; the rest is returned.
    fn strike(&self, moment: Moment) -> Option<Fault> {
        let counters = &self.opener.counters;
        let nth = counters.events.get(moment as usize)?.fetch_add(1, Ordering::Relaxed);
        if self.state().played != Played::Nothing {
            return None;
        }
        let fault = self.opener.script.at(moment, nth)?;
        counters.injected.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::Slow => thread::sleep(self.opener.script.slow),
            Fault::Loss => match &self.lose {
                Some(lose) => lose(),
                None => self.play(Played::Lost),
            },
            Fault::SilentLoss => self.play(Played::Silent { told: false }),
            Fault::Hang => self.play(Played::Hung),
            Fault::OutOfMemory | Fault::ShortRead => {}
        }
        Some(fault)
    }

    /// Keeps the caller of a hung call for as long as it would wait.
    fn hang(&self, fault: Option<Fault>, deadline: Duration, what: &'static str) -> EngineError {
        let waited = if fault == Some(Fault::Hang) {
            deadline.min(self.opener.script.patience)
        } else {
            // Known to hang: nobody waits for it a second time.
            Duration::ZERO
        };
        thread::sleep(waited);
        EngineError::Hung { waited, what }
    }

    fn lost() -> EngineError {
        EngineError::Lost { reason: "injected".to_owned() }
    }
}

/// How long creating or submitting hangs; these have no deadline of the caller's.
const BUILT_IN_DEADLINE: Duration = Duration::from_millis(50);

impl Engine for Faulty {
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
        let fault = self.strike(Moment::Create);
        let played = self.state().played;
        match played {
            Played::Lost => Err(Faulty::lost()),
            Played::Hung => Err(self.hang(fault, BUILT_IN_DEADLINE, "creating a buffer")),
            Played::Silent { .. } => Ok(BlockId(self.pretend())),
            Played::Nothing if fault == Some(Fault::OutOfMemory) => Err(short()),
            Played::Nothing => self.engine.create(size, class),
        }
    }

    fn destroy(&self, block: BlockId) {
        // The engine ignores blocks that it never made.
        self.engine.destroy(block);
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        let fault = self.strike(Moment::Submit);
        let outputs: Vec<Bytes> = job.plan.output_sizes().collect();
        let played = self.state().played;
        let ticket = match played {
            Played::Lost => return Err(Faulty::lost()),
            Played::Hung => return Err(self.hang(fault, BUILT_IN_DEADLINE, "submitting")),
            Played::Silent { .. } => Ticket(self.pretend()),
            Played::Nothing if fault == Some(Fault::OutOfMemory) => return Err(short()),
            Played::Nothing => self.engine.submit(job)?,
        };
        self.state().outputs.insert(ticket, outputs);
        self.strike(Moment::Submitted);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<Done, EngineError> {
        let fault = self.strike(Moment::Wait);
        let (played, outputs) = {
            let mut state = self.state();
            (state.played, state.outputs.remove(&ticket))
        };
        let answer = match played {
            Played::Lost => Err(Faulty::lost()),
            Played::Hung => Err(self.hang(fault, deadline, "waiting for a job")),
            Played::Silent { .. } => {
                self.play(Played::Silent { told: true });
                let zeros = |n: Bytes| vec![0; usize::try_from(n.0).unwrap_or(0)];
                let outputs = outputs.unwrap_or_default().into_iter().map(zeros).collect();
                Ok(Done { outputs, device_time: None })
            }
            Played::Nothing => {
                let answer = self.engine.wait(ticket, deadline);
                match fault {
                    Some(Fault::OutOfMemory) => answer.and(Err(short())),
                    Some(Fault::ShortRead) => answer.map(cut),
                    _ => answer,
                }
            }
        };
        self.strike(Moment::Waited);
        answer
    }

    fn health(&self) -> Health {
        match self.state().played {
            Played::Lost | Played::Silent { told: true } => Health::Lost,
            Played::Hung => Health::Hung,
            Played::Nothing | Played::Silent { told: false } => self.engine.health(),
        }
    }
}

/// Half of the last output.
fn cut(mut done: Done) -> Done {
    if let Some(last) = done.outputs.last_mut() {
        last.truncate(last.len() / 2);
    }
    done
}
