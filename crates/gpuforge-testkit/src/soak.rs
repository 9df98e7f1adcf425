//! Soak test: mixed work on several engines with random faults for a given duration, while the process is monitored:
//! memory, threads and file descriptors must not grow.

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
    runner::{ExecutedOn, Runner, RunnerSettings},
    units::Bytes,
};

use crate::{
    conformance,
    fault_injection::FaultyOpener,
    fault_script::{FaultScript, RandomFaults, splitmix64},
    plans,
    trend::{Trend, TrendVerdict},
    usage::{self, ProcessUsage},
};

/// Threads that share the runner of one engine.
const THREADS: u64 = 2;

/// A process metric that must not grow.
struct WatchedMetric {
    name: &'static str,
    /// Growth per minute that still counts as flat.
    limit: f64,
    of: fn(&ProcessUsage) -> Option<f64>,
}

const WATCHED_METRICS: [WatchedMetric; 3] = [
    WatchedMetric {
        name: "resident memory, MiB",
        limit: 1.0,
        of: |usage| usage.resident.map(|bytes| bytes.0 as f64 / f64::from(1 << 20)),
    },
    // Threads and file descriptors are integers: half a one is noise.
    WatchedMetric { name: "threads", limit: 0.5, of: |usage| usage.threads.map(|n| n as f64) },
    WatchedMetric { name: "open handles", limit: 0.5, of: |usage| usage.handles.map(|n| n as f64) },
];

/// Settings of a soak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoakSettings {
    /// Total duration.
    pub duration: Duration,
    /// Sampling interval.
    pub every: Duration,
    /// Seed.
    pub seed: u64,
}

/// The faults of a soak: about one attempt in five fails, so that four in a row are rare and most work stays on the
/// device.
pub fn script(seed: u64) -> FaultScript {
    FaultScript {
        random: Some(RandomFaults { seed, one_in: 30, one_creation_in: 1000, only: &[] }),
        patience: Duration::from_millis(20),
        slow: Duration::from_millis(5),
        ..FaultScript::default()
    }
}

/// Counters of one engine.
#[derive(Debug, Default)]
struct EngineCounters {
    runs: AtomicU64,
    device: AtomicU64,
    cpu: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

/// Results of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineReport {
    /// Engine name.
    pub name: String,
    /// Plans and batches run.
    pub runs: u64,
    /// Chunks executed on the device.
    pub device: u64,
    /// Chunks that fell back to the CPU.
    pub cpu: u64,
    /// Faults injected.
    pub faults: u64,
    /// Devices opened.
    pub opened: u64,
    /// Wrong results and errors, at most 1000.
    pub wrong: Vec<String>,
}

/// Results of a soak.
#[derive(Debug, Clone, PartialEq)]
pub struct SoakReport {
    /// Per engine.
    pub engines: Vec<EngineReport>,
    /// Seconds since the start, and resource usage at that time.
    pub samples: Vec<(f64, ProcessUsage)>,
    /// Before anything was opened, and after everything was closed.
    pub ends: (ProcessUsage, ProcessUsage),
}

/// Runs for the given duration.
pub fn run(subjects: &[(&str, FaultyOpener)], settings: SoakSettings) -> SoakReport {
    let before = usage::now();
    let (started, over) = (Instant::now(), AtomicBool::new(false));
    let counts: Vec<EngineCounters> = subjects.iter().map(|_| EngineCounters::default()).collect();
    let mut samples = Vec::with_capacity(4096);
    thread::scope(|scope| {
        for (index, ((_, opener), counts)) in (0..).zip(subjects.iter().zip(&counts)) {
            let runner = Arc::new(Runner::new(Box::new(opener.clone()), runner_settings()));
            for worker in 0..THREADS {
                let (runner, over) = (runner.clone(), &over);
                let seed = splitmix64(settings.seed ^ (index * THREADS + worker));
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
    // A device thread ends shortly after its last caller.
    thread::sleep(Duration::from_millis(500));
    let engines = subjects.iter().zip(&counts).map(|((name, opener), counts)| report(name, opener, counts));
    SoakReport { engines: engines.collect(), samples, ends: (before, usage::now()) }
}

fn runner_settings() -> RunnerSettings {
    let memory = conformance::settings(Bytes::mib(12));
    RunnerSettings { deadline: conformance::DEADLINE, ..RunnerSettings::new(memory) }
}

fn report(name: &str, opener: &FaultyOpener, counts: &EngineCounters) -> EngineReport {
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

/// Sizes around workgroup and chunk boundaries, and a large one.
const SIZES: [u32; 10] = [1, 63, 64, 65, 257, 1000, 4096, 10_000, 65_537, 200_000];

/// Loop of one thread: plans or batches of random size; occasionally the device is reset.
fn work(runner: &Runner, counts: &EngineCounters, seed: u64, over: &AtomicBool) {
    for turn in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let bits = splitmix64(seed ^ splitmix64(turn));
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

fn one(runner: &Runner, counts: &EngineCounters, bits: u64) -> Result<(), String> {
    let pick = |shift: u32, n: u64| usize::try_from((bits >> shift) % n).unwrap_or(0);
    let words = SIZES.get(pick(8, SIZES.len() as u64)).copied().unwrap_or(1);
    let (outcome, expected) = if bits & 1 == 0 {
        let rounds = 1 + pick(16, 12) as u32;
        let (plan, expected) = plans::chain(words, rounds).map_err(|e| e.to_string())?;
        (runner.run(plan).map_err(|e| e.to_string())?, expected)
    } else {
        // The largest do not fit next to the other thread's work, and are split.
        let items = plans::ItemBatch { items: 1 + pick(16, 48), words: words.min(20_000) };
        let expected = (0..items.items).map(|i| items.expected(i)).collect();
        (runner.run_batch(&items).map_err(|e| e.to_string())?, expected)
    };
    let mut outputs = Vec::new();
    for chunk in outcome.chunks {
        let count = if chunk.executed_on == ExecutedOn::Device { &counts.device } else { &counts.cpu };
        count.fetch_add(1, Ordering::Relaxed);
        outputs.extend(chunk.outputs);
    }
    if outputs == expected { Ok(()) } else { Err(format!("wrong result for {words} words")) }
}

impl SoakReport {
    /// Name and trend of each metric.
    pub fn trends(&self) -> Vec<(&'static str, Trend)> {
        let trend = |metric: &WatchedMetric| {
            let series = self.samples.iter().filter_map(|(t, usage)| Some((*t, (metric.of)(usage)?)));
            (metric.name, Trend::of(&series.collect::<Vec<_>>(), metric.limit))
        };
        WATCHED_METRICS.iter().map(trend).collect()
    }

    /// Wrong results of all engines.
    pub fn wrong(&self) -> Vec<String> {
        let said = |engine: &EngineReport| {
            let name = engine.name.clone();
            engine.wrong.iter().map(move |why| format!("{name}: {why}")).collect::<Vec<_>>()
        };
        self.engines.iter().flat_map(said).collect()
    }

    /// No metric is growing.
    pub fn is_flat(&self) -> bool {
        self.trends().iter().all(|(_, trend)| trend.verdict() != TrendVerdict::Growing)
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
            "metric", "first", "last", "max", "samples", "slope/min", "noise", "limit"
        );
        for (name, trend) in self.trends() {
            let number = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}"));
            let (first, last, max) =
                (trend.range.map(|r| r.0), trend.range.map(|r| r.1), trend.range.map(|r| r.2));
            let slope = trend.slope.map_or("-".to_owned(), |s| format!("{s:+.3}"));
            let noise = trend.noise.map_or("-".to_owned(), |n| format!("±{n:.3}"));
            let _ = writeln!(
                out,
                "{name:<22} {:>9} {:>9} {:>9} {:>8} {slope:>10} {noise:>8} {:>6.1}  {:?}",
                number(first),
                number(last),
                number(max),
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
    fn leak_of_each_metric_is_detected() {
        let sample = |t: u64, memory: u64, threads: u64, handles: u64| {
            let resident = Some(Bytes::mib(100) + Bytes::kib(memory * t));
            let usage = ProcessUsage {
                resident,
                threads: Some(9 + threads * t / 60),
                handles: Some(20 + handles * t / 60),
            };
            (t as f64, usage)
        };
        let report = |memory, threads, handles| SoakReport {
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
    fn missing_metrics_are_unknown() {
        let samples = (0..20).map(|t| (f64::from(t), ProcessUsage::default())).collect();
        let report = SoakReport { engines: Vec::new(), samples, ends: Default::default() };
        assert!(report.trends().iter().all(|(_, t)| t.verdict() == TrendVerdict::Unknown));
        assert!(report.table().contains("Unknown"));
    }
}
