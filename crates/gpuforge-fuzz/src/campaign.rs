//! Fuzzing campaign: worker threads generate datasets and selections until the time or case budget is used; failures are shrunk.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge::indicators::select::plan;

use crate::{
    bars::{Dataset, Shape},
    cpu::{self, Case, Failure},
    device::Adapter,
    files,
    oracle::Oracle,
    random::Rng,
    relaxed, reproducer,
    selection::Selection,
    shrink,
};

/// Budget and seed of a campaign.
#[derive(Debug, Clone)]
pub struct CampaignConfig {
    /// Seed.
    pub seed: u64,
    /// Time budget.
    pub time: Duration,
    /// Max selections on the CPU, if set.
    pub selections: Option<u64>,
    /// Worker threads.
    pub threads: usize,
    /// Selections on a GPU adapter, within the time budget.
    pub device_selections: u64,
    /// Directory for reproducers.
    pub directory: PathBuf,
}

/// Counters of executed cases.
#[derive(Debug, Default)]
pub struct Counts {
    /// Selections on the CPU.
    pub cpu: AtomicU64,
    /// Runs of them: several schedules, each with and without poisoned buffers.
    pub runs: AtomicU64,
    /// Terms in them.
    pub terms: AtomicU64,
    /// Single rows with relaxed floating point.
    pub relaxed: AtomicU64,
    /// Selections computed from file to file.
    pub files: AtomicU64,
    /// Selections on a GPU adapter.
    pub device: AtomicU64,
    /// Columns computed on the adapter.
    pub device_columns: AtomicU64,
}

/// Result of a campaign.
#[derive(Debug, Default)]
pub struct CampaignReport {
    /// Executed cases.
    pub counts: Counts,
    /// Why there was no adapter, if one was requested.
    pub no_adapter: Option<String>,
    /// Reproducers of the failing cases, shrunk.
    pub failures: Vec<String>,
    /// Number of terms of the smallest failing case.
    pub smallest: Option<usize>,
    /// Elapsed time.
    pub took: Duration,
}

/// Selections per dataset.
const PER_DATASET: usize = 12;
/// Max bars of a dataset: usual, and every twentieth.
const BARS: (usize, usize) = (3000, 30_000);
/// Max bars times terms of a selection: the oracle runs bar by bar.
const MAX_ORACLE_WORK: usize = 250_000;
/// Time budget for shrinking a failing case.
const SHRINK_BUDGET: Duration = Duration::from_secs(40);
/// The campaign stops after this many failures.
const MAX_FAILURES: usize = 3;

struct Shared<'p> {
    config: &'p CampaignConfig,
    counts: Counts,
    next: AtomicU64,
    stop: AtomicBool,
    failures: Mutex<Vec<(String, usize)>>,
    begun: Instant,
}

/// Runs a campaign; `progress` is called after every dataset.
pub fn run(config: &CampaignConfig, progress: &(dyn Fn(&Counts, Duration) + Sync)) -> CampaignReport {
    let shared = Shared {
        config,
        counts: Counts::default(),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failures: Mutex::new(Vec::new()),
        begun: Instant::now(),
    };
    let no_adapter: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for thread in 0..config.threads.max(1) {
            let (shared, no_adapter) = (&shared, &no_adapter);
            scope.spawn(move || {
                if thread == 0
                    && config.device_selections > 0
                    && let Err(why) = on_adapter(shared)
                {
                    *no_adapter.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                }
                while shared.continues() {
                    dataset(shared);
                    progress(&shared.counts, shared.begun.elapsed());
                }
            });
        }
    });
    let failures = shared.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    CampaignReport {
        took: shared.begun.elapsed(),
        counts: shared.counts,
        no_adapter: no_adapter.into_inner().unwrap_or_else(PoisonError::into_inner),
        smallest: failures.iter().map(|(_, terms)| *terms).min(),
        failures: failures.into_iter().map(|(text, _)| text).collect(),
    }
}

impl Shared<'_> {
    fn in_time(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.begun.elapsed() < self.config.time
    }

    fn continues(&self) -> bool {
        let done = |max: u64| self.counts.cpu.load(Ordering::Relaxed) >= max;
        self.in_time() && !self.config.selections.is_some_and(done)
    }

    fn fail(&self, case: &Case, failure: &Failure, what: &str) {
        let mut all = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.config.directory.join(format!("failure-{}", all.len() + 1));
        all.push((
            format!("{what}: {}", reproducer::describe(case, failure, &directory)),
            case.selection.terms.len(),
        ));
        if all.len() >= MAX_FAILURES {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Generates a dataset and checks some selections on it.
fn dataset(shared: &Shared<'_>) {
    let at = shared.next.fetch_add(1, Ordering::Relaxed);
    let mut rng = Rng::new(shared.config.seed ^ at.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let (usual, long) = BARS;
    let max_bars = if rng.percent(5) { long } else { usual };
    let data = Dataset::random(&mut rng, max_bars);
    let mut oracle = Oracle::default();
    for nth in 0..PER_DATASET {
        if !shared.continues() {
            return;
        }
        let max_terms = (MAX_ORACLE_WORK / data.bars().max(1)).clamp(3, 150);
        let selection = Selection::random(&mut rng, 2, max_terms);
        if let Err(failed) = cpu::check_selection(&mut rng, &selection, &data, &mut oracle) {
            let (case, failure) = *failed;
            let small = shrink::shrink(&case, shrink::fails, SHRINK_BUDGET);
            let failure = small.check(&mut Oracle::default()).err().unwrap_or(failure);
            shared.fail(&small, &failure, &format!("dataset {at}, selection {nth}"));
        }
        let count = |counter: &AtomicU64, n: usize| counter.fetch_add(n as u64, Ordering::Relaxed);
        count(&shared.counts.cpu, 1);
        count(&shared.counts.runs, 2 * cpu::SCHEDULES);
        count(&shared.counts.terms, selection.terms.len());
        match relaxed::check(&mut rng, &selection, &data, &mut oracle) {
            Ok(tried) => drop(count(&shared.counts.relaxed, tried)),
            Err(failed) => {
                let (case, failure) = *failed;
                let again = |case: &Case| relaxed::fails(case, &mut Oracle::default());
                let small = shrink::shrink(&case, again, SHRINK_BUDGET);
                shared.fail(&small, &failure, "relaxed arithmetic");
            }
        }
        if nth == 0 && at.is_multiple_of(8) {
            through_files(shared, &mut rng, (&selection, &data), &mut oracle);
        }
    }
}

/// The same selection from file to file, under a small memory limit.
fn through_files(
    shared: &Shared<'_>,
    rng: &mut Rng,
    (selection, data): (&Selection, &Dataset),
    oracle: &mut Oracle,
) {
    let Ok(directory) = tempfile::tempdir() else { return };
    let memory = rng.log_between(64 << 10, 8 << 20) as u64;
    let odd = |shape| matches!(shape, Shape::Infinite | Shape::AllNan);
    // Look-ahead columns need the whole series in memory and are rejected under a memory limit.
    let looks_ahead = selection.wanted().is_ok_and(|wanted| !plan(&wanted).plan.supports_streaming());
    if looks_ahead || data.specs.iter().any(|s| odd(s.shape) || s.bars == 0) {
        return;
    }
    if let Err(failure) = files::check(selection, data, memory, directory.path(), oracle) {
        let schedule =
            crate::schedule::Schedule::Batch(gpuforge::indicators::exec::ExecOptions::with_threads(1));
        let case = Case { selection: selection.clone(), data: data.clone(), schedule };
        let again = |case: &Case| {
            let found =
                files::check(&case.selection, &case.data, memory, directory.path(), &mut Oracle::default());
            found.is_err()
        };
        let small = shrink::shrink(&case, again, SHRINK_BUDGET);
        shared.fail(&small, &failure, &format!("through files with --memory-limit {memory}"));
    }
    shared.counts.files.fetch_add(1, Ordering::Relaxed);
}

/// Checks selections on a GPU adapter until the budget is used.
fn on_adapter(shared: &Shared<'_>) -> Result<(), String> {
    let adapter = Adapter::open()?;
    let mut rng = Rng::new(shared.config.seed ^ 0x6770_7566_6f72_6765);
    while shared.in_time() && shared.counts.device.load(Ordering::Relaxed) < shared.config.device_selections {
        let data = Dataset::random_of(&mut rng, 2000, Shape::Ticks);
        for _ in 0..PER_DATASET {
            let selection = Selection::plain(&mut rng, 2, 12);
            match adapter.check(&selection, &data) {
                Ok(columns) => {
                    shared.counts.device_columns.fetch_add(columns, Ordering::Relaxed);
                }
                Err(failure) => {
                    let schedule = crate::schedule::Schedule::Batch(
                        gpuforge::indicators::exec::ExecOptions::with_threads(1),
                    );
                    let case = Case { selection, data: data.clone(), schedule };
                    let again = |case: &Case| adapter.check(&case.selection, &case.data).is_err();
                    let small = shrink::shrink(&case, again, SHRINK_BUDGET);
                    shared.fail(&small, &failure, "on the adapter");
                }
            }
            shared.counts.device.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Default directory for reproducers.
pub fn default_directory(target: &Path) -> PathBuf {
    target.join("fuzz-indicators")
}
