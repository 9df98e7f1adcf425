//! Do threads that share a runner stay out of each other's way while devices come and go?
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
        BlockId, Caps, Done, Engine, EngineError, Health, Job, Opener, Ticket,
        dummy::{DummyOpener, Script as DummyScript},
        gpu::GpuOpener,
    },
    memory::BlockClass,
    runner::{Place, Runner},
    units::Bytes,
};
use gpuforge_testkit::{
    faulty::FaultyOpener,
    leaks,
    matrix::runner_settings,
    plans,
    script::{Fault, Random, Script},
};

fn dummy() -> DummyOpener {
    DummyOpener::new(Bytes::gib(1), DummyScript::default())
}

/// What threads that share a runner came to.
#[derive(Debug, Default)]
struct Tally {
    device: AtomicU64,
    cpu: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

fn share(runner: &Runner, threads: u32, runs: u32) -> Tally {
    let (tally, over) = (Tally::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let tally = &tally;
                scope.spawn(move || (0..runs).for_each(|run| one(runner, tally, 1 + 97 * t + 31 * run)))
            })
            .collect();
        // Somebody else resets the device whenever it pleases.
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

fn one(runner: &Runner, tally: &Tally, n: u32) {
    let (plan, expected) = plans::chain(n, 10).unwrap();
    let wrong = match runner.run(plan) {
        Err(error) => Some(error.to_string()),
        Ok(outcome) => {
            let piece = &outcome.pieces[0];
            let count = if piece.place == Place::Device { &tally.device } else { &tally.cpu };
            count.fetch_add(1, Ordering::Relaxed);
            (piece.outputs != expected).then(|| format!("{n} words: wrong after {:?}", outcome.events))
        }
    };
    tally.wrong.lock().unwrap().extend(wrong);
}

fn losses(seed: u64, one_in: u64) -> Script {
    let only = &[Fault::Loss, Fault::SilentLoss];
    let random = Random { seed, one_in, one_creation_in: one_in, only };
    Script { random: Some(random), ..Script::default() }
}

fn check(name: &str, opener: &FaultyOpener, threads: u32, runs: u32) {
    let started = Instant::now();
    let runner = Runner::new(Box::new(opener.clone()), runner_settings(true));
    let tally = share(&runner, threads, runs);
    let (device, cpu) = (tally.device.into_inner(), tally.cpu.into_inner());
    println!(
        "{name}: {threads} threads × {runs} runs, {} losses, {} devices, {device} on the device, {cpu} by twins, {:.1} s",
        opener.injected(),
        opener.opened(),
        started.elapsed().as_secs_f64()
    );
    assert_eq!(tally.wrong.into_inner().unwrap(), Vec::<String>::new());
    assert_eq!(device + cpu, u64::from(threads * runs));
    assert!(opener.injected() > 0 && device > 0, "{name}: losses happened, and work was done all the same");
    // Whatever is open at the end holds nothing.
    if let Some(session) = runner.session().filter(|s| s.health() == Health::Good) {
        leaks::nothing_left(&session).unwrap();
    }
}

#[test]
fn threads_share_a_device_that_is_lost_at_random() {
    for seed in 1..=4 {
        check("dummy", &FaultyOpener::over(dummy(), losses(seed, 25)), 6, 25);
    }
}

#[test]
fn threads_share_an_adapter_that_is_destroyed_at_random() {
    match GpuOpener::default().open() {
        Ok(_) => check("adapter", &FaultyOpener::over_gpu(GpuOpener::default(), losses(5, 40)), 3, 12),
        Err(EngineError::Unavailable { reason }) => println!("skipped: {reason}"),
        Err(other) => panic!("{other}"),
    }
}

/// A device that is lost in its first wait, and lets somebody else act before it says so.
struct Late {
    engine: Arc<dyn Engine>,
    meanwhile: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
    lost: AtomicBool,
}

impl Engine for Late {
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
    fn wait(&self, _: Ticket, _: Duration) -> Result<Done, EngineError> {
        self.lost.store(true, Ordering::Release);
        self.meanwhile.get().unwrap()();
        Err(EngineError::Lost { reason: "late".to_owned() })
    }
    fn health(&self) -> Health {
        if self.lost.load(Ordering::Acquire) { Health::Lost } else { Health::Good }
    }
}

/// The first device is late, the others are well.
struct LateOpener {
    opened: Arc<AtomicU64>,
    meanwhile: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl Opener for LateOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let engine = dummy().open()?;
        match self.opened.fetch_add(1, Ordering::Relaxed) {
            0 => {
                Ok(Arc::new(Late { engine, meanwhile: self.meanwhile.clone(), lost: AtomicBool::new(false) }))
            }
            _ => Ok(engine),
        }
    }
}

#[test]
fn a_late_failure_does_not_throw_away_the_device_that_another_thread_opened() {
    let (opened, meanwhile) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
    let opener = LateOpener { opened: opened.clone(), meanwhile: meanwhile.clone() };
    let runner = Arc::new(Runner::new(Box::new(opener), runner_settings(true)));
    let run = |runner: &Runner| {
        let (plan, expected) = plans::chain(40, 6).unwrap();
        let outcome = runner.run(plan).unwrap();
        assert_eq!((outcome.pieces[0].place, &outcome.pieces[0].outputs), (Place::Device, &expected));
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
fn a_reset_while_work_runs_lets_it_end() {
    let runner = Runner::new(Box::new(dummy()), runner_settings(true));
    let tally = share(&runner, 4, 30);
    assert_eq!(tally.wrong.into_inner().unwrap(), Vec::<String>::new());
    assert_eq!((tally.device.into_inner(), tally.cpu.into_inner()), (120, 0), "nothing was lost by it");
}
