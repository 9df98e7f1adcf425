//! Threads that share a runner while devices are lost, reset and reopened: results stay right, nothing leaks.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code fails loudly and prints its tables"
)]

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gpuforge_runtime::{
    engine::{
        BlockId, Caps, Engine, EngineError, Health, Job, JobOutput, Opener, Ticket,
        dummy::{DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    memory::BlockClass,
    runner::{ExecutedOn, Runner},
    units::Bytes,
};
use gpuforge_testkit::{
    adapter,
    fault_injection::FaultyOpener,
    fault_matrix::runner_settings,
    fault_script::{Fault, FaultScript, RandomFaults},
    leaks, plans,
};

fn dummy() -> DummyOpener {
    DummyOpener::new(Bytes::gib(1), DummyScript::default())
}

/// Results of threads that share a runner.
#[derive(Debug, Default)]
struct Tally {
    device: AtomicU64,
    cpu: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

fn run_threads(runner: &Runner, threads: u32, runs: u32) -> Tally {
    let (tally, over) = (Tally::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let tally = &tally;
                scope.spawn(move || (0..runs).for_each(|run| run_one(runner, tally, 1 + 97 * t + 31 * run)))
            })
            .collect();
        // Another thread resets the device at arbitrary times.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(23));
                runner.reset();
            }
        });
        let panicked = workers.into_iter().filter_map(|w| w.join().err()).count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(panicked, 0);
    });
    tally
}

fn run_one(runner: &Runner, tally: &Tally, n: u32) {
    let (plan, expected) = plans::chain(n, 10).unwrap();
    let wrong = match runner.run(plan) {
        Err(error) => Some(error.to_string()),
        Ok(outcome) => {
            let chunk = &outcome.chunks[0];
            let count = if chunk.executed_on == ExecutedOn::Device { &tally.device } else { &tally.cpu };
            count.fetch_add(1, Ordering::Relaxed);
            (chunk.outputs != expected).then(|| format!("{n} words: wrong after {:?}", outcome.events))
        }
    };
    tally.wrong.lock().unwrap().extend(wrong);
}

fn random_losses(seed: u64, one_in: u64) -> FaultScript {
    let only = &[Fault::Loss, Fault::SilentLoss];
    let random = RandomFaults { seed, one_in, one_creation_in: one_in, only };
    FaultScript { random: Some(random), ..FaultScript::default() }
}

fn check(name: &str, opener: &FaultyOpener, threads: u32, runs: u32) {
    let started = Instant::now();
    let runner = Runner::new(Box::new(opener.clone()), runner_settings(true));
    let tally = run_threads(&runner, threads, runs);
    let (device, cpu) = (tally.device.into_inner(), tally.cpu.into_inner());
    println!(
        "{name}: {threads} threads × {runs} runs, {} losses, {} devices, {device} on the device, {cpu} on the CPU, {:.1} s",
        opener.injected(),
        opener.opened(),
        started.elapsed().as_secs_f64()
    );
    assert_eq!(tally.wrong.into_inner().unwrap(), Vec::<String>::new());
    assert_eq!(device + cpu, u64::from(threads * runs));
    assert!(
        opener.injected() > 0 && device > 0,
        "{name}: device losses happened, and work was done all the same"
    );
    // The session that is open at the end holds no memory.
    if let Some(session) = runner.session().filter(|s| s.health() == Health::Good) {
        leaks::no_memory_held(&session).unwrap();
    }
}

#[test]
fn threads_share_a_device_that_is_lost_at_random() {
    for seed in 1..=4 {
        check("dummy", &FaultyOpener::over(dummy(), random_losses(seed, 25)), 6, 25);
    }
}

#[test]
fn threads_share_an_adapter_that_is_destroyed_at_random() {
    if adapter::open_or_skip(&GpuOpener::default()).is_some() {
        check("adapter", &FaultyOpener::over_gpu(GpuOpener::default(), random_losses(5, 40)), 3, 12);
    }
}

/// A device that is lost in its first wait, and lets another thread run before it reports that.
struct LateLoss {
    engine: Arc<dyn Engine>,
    meanwhile: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
    lost: AtomicBool,
}

impl Engine for LateLoss {
    fn caps(&self) -> &Caps {
        self.engine.caps()
    }
    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError> {
        self.engine.create(size, class)
    }
    fn destroy(&self, block: BlockId) {
        self.engine.destroy(block);
    }
    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        self.engine.submit(job)
    }
    fn wait(&self, _: Ticket, _: Duration) -> Result<JobOutput, EngineError> {
        self.lost.store(true, Ordering::Release);
        self.meanwhile.get().unwrap()();
        Err(EngineError::DeviceLost { reason: "late".to_owned() })
    }
    fn health(&self) -> Health {
        if self.lost.load(Ordering::Acquire) { Health::Lost } else { Health::Good }
    }
}

/// The first device reports its loss late, the others are healthy.
struct LateLossOpener {
    opened: Arc<AtomicU64>,
    meanwhile: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl Opener for LateLossOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let engine = dummy().open()?;
        match self.opened.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Arc::new(LateLoss {
                engine,
                meanwhile: self.meanwhile.clone(),
                lost: AtomicBool::new(false),
            })),
            _ => Ok(engine),
        }
    }
}

#[test]
fn late_device_lost_does_not_discard_the_device_another_thread_reopened() {
    let (opened, meanwhile) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
    let opener = LateLossOpener { opened: opened.clone(), meanwhile: meanwhile.clone() };
    let runner = Arc::new(Runner::new(Box::new(opener), runner_settings(true)));
    let run = |runner: &Runner| {
        let (plan, expected) = plans::chain(40, 6).unwrap();
        let outcome = runner.run(plan).unwrap();
        assert_eq!(
            (outcome.chunks[0].executed_on, &outcome.chunks[0].outputs),
            (ExecutedOn::Device, &expected)
        );
    };
    let (other, good) = (Arc::downgrade(&runner), Arc::new(Mutex::new(None)));
    let seen = good.clone();
    // While the first thread still waits for a dead device, a second one replaces it.
    let replace = move || {
        let runner = other.upgrade().unwrap();
        thread::scope(|scope| scope.spawn(|| run(&runner)).join().unwrap());
        *seen.lock().unwrap() = runner.session();
    };
    assert!(meanwhile.set(Box::new(replace)).is_ok());
    run(&runner);
    assert_eq!(opened.load(Ordering::Relaxed), 2, "the second device is good: no third is needed");
    let (good, current) = (good.lock().unwrap().clone().unwrap(), runner.session().unwrap());
    assert!(Arc::ptr_eq(&good, &current));
}

#[test]
fn reset_during_a_run_lets_it_complete() {
    let runner = Runner::new(Box::new(dummy()), runner_settings(true));
    let tally = run_threads(&runner, 4, 30);
    assert_eq!(tally.wrong.into_inner().unwrap(), Vec::<String>::new());
    assert_eq!((tally.device.into_inner(), tally.cpu.into_inner()), (120, 0), "nothing was lost by it");
}
