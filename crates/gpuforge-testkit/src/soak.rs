//! Does it hold out? Mixed work on several engines at once with faults at random, for as long as one likes, while the
//! process is watched: memory, threads and handles must not grow.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gpuforge_runtime::{
    runner::{Place, Runner, RunnerSettings},
    units::Bytes,
};

use crate::{
    conformance,
    faulty::FaultyOpener,
    plans,
    script::{Random, Script, scramble},
    trend::{Trend, Verdict},
    usage::{self, Usage},
};

/// Threads that share the runner of one engine.
const THREADS: u64 = 2;

/// Something that must not grow.
struct Figure {
    name: &'static str,
    /// Growth per minute that still counts as flat.
    limit: f64,
    of: fn(&Usage) -> Option<f64>,
}

const FIGURES: [Figure; 3] = [
    Figure {
        name: "resident memory, MiB",
        limit: 1.0,
        of: |usage| usage.resident.map(|bytes| bytes.0 as f64 / f64::from(1 << 20)),
    },
    // Threads and handles are whole: half a one is noise.
    Figure { name: "threads", limit: 0.5, of: |usage| usage.threads.map(|n| n as f64) },
    Figure { name: "open handles", limit: 0.5, of: |usage| usage.handles.map(|n| n as f64) },
];

/// How long, and how bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// All together.
    pub duration: Duration,
    /// Between two looks at the process.
    pub every: Duration,
    /// Where the random numbers come from.
    pub seed: u64,
}

/// The faults of a soak: about one attempt in five fails, so that four in a row are rare and most work stays on the
/// device.
pub fn script(seed: u64) -> Script {
    Script {
        random: Some(Random { seed, one_in: 30, one_creation_in: 1000, only: &[] }),
        patience: Duration::from_millis(20),
        slow: Duration::from_millis(5),
        ..Script::default()
    }
}

/// What happened on one engine.
#[derive(Debug, Default)]
struct Counts {
    runs: AtomicU64,
    device: AtomicU64,
    cpu: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

/// The same, said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineReport {
    /// Which engine.
    pub name: String,
    /// Pieces of work.
    pub runs: u64,
    /// Of those, done on the device.
    pub device: u64,
    /// And by the twins.
    pub cpu: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Devices opened.
    pub opened: u64,
    /// Wrong results and errors, at most 1000 of them.
    pub wrong: Vec<String>,
}

/// What a soak found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Per engine.
    pub engines: Vec<EngineReport>,
    /// Seconds since the start, and the process at that moment.
    pub samples: Vec<(f64, Usage)>,
    /// Before anything was opened, and after everything was closed.
    pub ends: (Usage, Usage),
}

/// Runs until the time is over.
pub fn run(subjects: &[(&str, FaultyOpener)], settings: Settings) -> Report {
    let before = usage::now();
    let (started, over) = (Instant::now(), AtomicBool::new(false));
    let counts: Vec<Counts> = subjects.iter().map(|_| Counts::default()).collect();
    let mut samples = Vec::with_capacity(4096);
    thread::scope(|scope| {
        for (lane, ((_, opener), counts)) in (0..).zip(subjects.iter().zip(&counts)) {
            let runner = Arc::new(Runner::new(Box::new(opener.clone()), runner_settings()));
            for worker in 0..THREADS {
                let (runner, over) = (runner.clone(), &over);
                let seed = scramble(settings.seed ^ (lane * THREADS + worker));
                scope.spawn(move || work(&runner, counts, seed, over));
            }
        }
        let mut next = settings.every;
        while started.elapsed() < settings.duration {
            thread::sleep(next.saturating_sub(started.elapsed()));
            samples.push((started.elapsed().as_secs_f64(), usage::now()));
            next += settings.every;
        }
        over.store(true, Ordering::Relaxed);
    });
    // A device's thread ends a moment after its last caller.
    thread::sleep(Duration::from_millis(500));
    let engines = subjects.iter().zip(&counts).map(|((name, opener), counts)| report(name, opener, counts));
    Report { engines: engines.collect(), samples, ends: (before, usage::now()) }
}

fn runner_settings() -> RunnerSettings {
    let memory = conformance::settings(Bytes::mib(12));
    RunnerSettings { deadline: conformance::DEADLINE, ..RunnerSettings::new(memory) }
}

fn report(name: &str, opener: &FaultyOpener, counts: &Counts) -> EngineReport {
    let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
    EngineReport {
        name: name.to_owned(),
        runs: read(&counts.runs),
        device: read(&counts.device),
        cpu: read(&counts.cpu),
        faults: opener.injected(),
        opened: opener.opened(),
        wrong: counts.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    }
}

/// Sizes around every edge there is, and one above the others.
const SIZES: [u32; 10] = [1, 63, 64, 65, 257, 1000, 4096, 10_000, 65_537, 200_000];

/// One thread's share: a chain or a batch of random size, again and again; now and then the device is reset.
fn work(runner: &Runner, counts: &Counts, seed: u64, over: &AtomicBool) {
    for turn in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let bits = scramble(seed ^ scramble(turn));
        if bits.is_multiple_of(500) {
            runner.reset();
        }
        if let Err(why) = one(runner, counts, bits) {
            let mut wrong = counts.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            if wrong.len() < 1000 {
                wrong.push(format!("turn {turn} of {seed:x}: {why}"));
            }
        }
        counts.runs.fetch_add(1, Ordering::Relaxed);
    }
}

fn one(runner: &Runner, counts: &Counts, bits: u64) -> Result<(), String> {
    let pick = |shift: u32, n: u64| usize::try_from((bits >> shift) % n).unwrap_or(0);
    let words = SIZES.get(pick(8, SIZES.len() as u64)).copied().unwrap_or(1);
    let (outcome, expected) = if bits & 1 == 0 {
        let rounds = 1 + pick(16, 12) as u32;
        let (plan, expected) = plans::chain(words, rounds).map_err(|e| e.to_string())?;
        (runner.run(plan).map_err(|e| e.to_string())?, expected)
    } else {
        // The largest do not fit beside the other thread's work, and are split.
        let items = plans::Items { items: 1 + pick(16, 48), words: words.min(20_000) };
        let expected = (0..items.items).map(|i| items.expected(i)).collect();
        (runner.run_batch(&items).map_err(|e| e.to_string())?, expected)
    };
    let mut outputs = Vec::new();
    for piece in outcome.pieces {
        let count = if piece.place == Place::Device { &counts.device } else { &counts.cpu };
        count.fetch_add(1, Ordering::Relaxed);
        outputs.extend(piece.outputs);
    }
    if outputs == expected { Ok(()) } else { Err(format!("wrong result for {words} words")) }
}

impl Report {
    /// Name and trend of each figure.
    pub fn trends(&self) -> Vec<(&'static str, Trend)> {
        let trend = |figure: &Figure| {
            let series = self.samples.iter().filter_map(|(t, usage)| Some((*t, (figure.of)(usage)?)));
            (figure.name, Trend::of(&series.collect::<Vec<_>>(), figure.limit))
        };
        FIGURES.iter().map(trend).collect()
    }

    /// Wrong results of all engines.
    pub fn wrong(&self) -> Vec<String> {
        let said = |engine: &EngineReport| {
            let name = engine.name.clone();
            engine.wrong.iter().map(move |why| format!("{name}: {why}")).collect::<Vec<_>>()
        };
        self.engines.iter().flat_map(said).collect()
    }

    /// Nothing grew, as far as can be told.
    pub fn is_flat(&self) -> bool {
        self.trends().iter().all(|(_, trend)| trend.verdict() != Verdict::Growing)
    }

    /// Both tables.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{:<34} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}\n",
            "engine", "runs", "device", "cpu", "faults", "opened", "wrong"
        );
        for engine in &self.engines {
            let EngineReport { name, runs, device, cpu, faults, opened, wrong } = engine;
            let wrong = wrong.len();
            let _ =
                writeln!(out, "{name:<34} {runs:>8} {device:>8} {cpu:>8} {faults:>8} {opened:>8} {wrong:>6}");
        }
        let _ = writeln!(
            out,
            "\n{:<22} {:>9} {:>9} {:>9} {:>8} {:>10} {:>8} {:>6}  verdict",
            "figure", "first", "last", "most", "samples", "slope/min", "noise", "limit"
        );
        for (name, trend) in self.trends() {
            let number = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}"));
            let (first, last, most) =
                (trend.range.map(|r| r.0), trend.range.map(|r| r.1), trend.range.map(|r| r.2));
            let slope = trend.slope.map_or("-".to_owned(), |s| format!("{s:+.3}"));
            let noise = trend.noise.map_or("-".to_owned(), |n| format!("±{n:.3}"));
            let _ = writeln!(
                out,
                "{name:<22} {:>9} {:>9} {:>9} {:>8} {slope:>10} {noise:>8} {:>6.1}  {:?}",
                number(first),
                number(last),
                number(most),
                trend.samples,
                trend.limit,
                trend.verdict()
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_of_each_kind_is_seen() {
        let sample = |t: u64, memory: u64, threads: u64, handles: u64| {
            let resident = Some(Bytes::mib(100) + Bytes::kib(memory * t));
            let usage =
                Usage { resident, threads: Some(9 + threads * t / 60), handles: Some(20 + handles * t / 60) };
            (t as f64, usage)
        };
        let report = |memory, threads, handles| Report {
            engines: Vec::new(),
            samples: (0..600).map(|t| sample(t, memory, threads, handles)).collect(),
            ends: Default::default(),
        };
        assert!(report(0, 0, 0).is_flat() && report(16, 0, 0).is_flat(), "less than 1 MiB a minute");
        for (memory, threads, handles) in [(18, 0, 0), (0, 1, 0), (0, 0, 1)] {
            let report = report(memory, threads, handles);
            assert!(!report.is_flat(), "{}", report.table());
        }
    }

    #[test]
    fn what_cannot_be_measured_is_not_called_flat_or_growing() {
        let samples = (0..20).map(|t| (f64::from(t), Usage::default())).collect();
        let report = Report { engines: Vec::new(), samples, ends: Default::default() };
        assert!(report.trends().iter().all(|(_, t)| t.verdict() == Verdict::Unknown));
        assert!(report.table().contains("Unknown"));
    }
}
