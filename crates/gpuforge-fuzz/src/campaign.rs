//! Campaign: how many random cases pass in so many minutes? Threads draw datasets, try some selections on each, and stop at the
//! first failure, which is shrunk.

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
    relaxed, report,
    selection::Selection,
    shrink,
};

/// How far it goes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where everything follows from.
    pub seed: u64,
    /// It ends after this time,
    pub time: Duration,
    /// or after so many selections on the CPU, if that is set.
    pub selections: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// Selections on an adapter; the time counts for them too.
    pub device_selections: u64,
    /// Where failing cases are written.
    pub directory: PathBuf,
}

/// What was tried.
#[derive(Debug, Default)]
pub struct Counts {
    /// Selections on the CPU.
    pub cpu: AtomicU64,
    /// Runs of them: by several schedules, each with and without poisoned memory.
    pub runs: AtomicU64,
    /// Terms of them.
    pub terms: AtomicU64,
    /// Rows by themselves in relaxed arithmetic.
    pub relaxed: AtomicU64,
    /// Selections through files.
    pub files: AtomicU64,
    /// Selections on an adapter, and columns that it computed.
    pub device: AtomicU64,
    /// Columns that the adapter computed.
    pub device_columns: AtomicU64,
}

/// How a campaign ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was tried.
    pub counts: Counts,
    /// Why there was no adapter, if one was asked for.
    pub no_adapter: Option<String>,
    /// The failing cases, shrunk, in words.
    pub failures: Vec<String>,
    /// Terms of the smallest failing case.
    pub smallest: Option<usize>,
    /// How long it took.
    pub took: Duration,
}

/// Selections of a dataset.
const PER_DATASET: usize = 12;
/// Bars of most datasets, and of every twentieth.
const BARS: (usize, usize) = (3000, 30_000);
/// Bars times terms of a selection, at most: the oracle goes bar by bar.
const WORK: usize = 250_000;
/// How long a failing case is shrunk.
const SHRINK: Duration = Duration::from_secs(40);
/// Failures after which a campaign ends.
const MOST_FAILURES: usize = 3;

struct Shared<'p> {
    plan: &'p Plan,
    counts: Counts,
    next: AtomicU64,
    stop: AtomicBool,
    failures: Mutex<Vec<(String, usize)>>,
    begun: Instant,
}

/// Runs it; `told` hears about it now and then.
pub fn run(plan: &Plan, told: &(dyn Fn(&Counts, Duration) + Sync)) -> Outcome {
    let shared = Shared {
        plan,
        counts: Counts::default(),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failures: Mutex::new(Vec::new()),
        begun: Instant::now(),
    };
    let no_adapter: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for thread in 0..plan.threads.max(1) {
            let (shared, no_adapter) = (&shared, &no_adapter);
            scope.spawn(move || {
                if thread == 0
                    && plan.device_selections > 0
                    && let Err(why) = on_adapter(shared)
                {
                    *no_adapter.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                }
                while shared.goes_on() {
                    dataset(shared);
                    told(&shared.counts, shared.begun.elapsed());
                }
            });
        }
    });
    let failures = shared.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome {
        took: shared.begun.elapsed(),
        counts: shared.counts,
        no_adapter: no_adapter.into_inner().unwrap_or_else(PoisonError::into_inner),
        smallest: failures.iter().map(|(_, terms)| *terms).min(),
        failures: failures.into_iter().map(|(text, _)| text).collect(),
    }
}

impl Shared<'_> {
    fn in_time(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.begun.elapsed() < self.plan.time
    }

    fn goes_on(&self) -> bool {
        let done = |most: u64| self.counts.cpu.load(Ordering::Relaxed) >= most;
        self.in_time() && !self.plan.selections.is_some_and(done)
    }

    fn fail(&self, case: &Case, failure: &Failure, what: &str) {
        let mut all = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.plan.directory.join(format!("failure-{}", all.len() + 1));
        all.push((
            format!("{what}: {}", report::describe(case, failure, &directory)),
            case.selection.terms.len(),
        ));
        if all.len() >= MOST_FAILURES {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// A dataset and some selections of it.
fn dataset(shared: &Shared<'_>) {
    let at = shared.next.fetch_add(1, Ordering::Relaxed);
    let mut rng = Rng::new(shared.plan.seed ^ at.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let (usual, long) = BARS;
    let most = if rng.percent(5) { long } else { usual };
    let data = Dataset::random(&mut rng, most);
    let mut oracle = Oracle::default();
    for nth in 0..PER_DATASET {
        if !shared.goes_on() {
            return;
        }
        let most = (WORK / data.bars().max(1)).clamp(3, 150);
        let selection = Selection::random(&mut rng, 2, most);
        if let Err(failed) = cpu::check_selection(&mut rng, &selection, &data, &mut oracle) {
            let (case, failure) = *failed;
            let small = shrink::shrink(&case, shrink::fails, SHRINK);
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
                let small = shrink::shrink(&case, again, SHRINK);
                shared.fail(&small, &failure, "relaxed arithmetic");
            }
        }
        if nth == 0 && at.is_multiple_of(8) {
            through_files(shared, &mut rng, (&selection, &data), &mut oracle);
        }
    }
}

/// The same selection from file to file, with little memory.
fn through_files(
    shared: &Shared<'_>,
    rng: &mut Rng,
    (selection, data): (&Selection, &Dataset),
    oracle: &mut Oracle,
) {
    let Ok(directory) = tempfile::tempdir() else { return };
    let memory = rng.log_between(64 << 10, 8 << 20) as u64;
    let odd = |shape| matches!(shape, Shape::Infinite | Shape::AllNan);
    // A column that looks at all bars of its series at once is refused where they do not fit, and says so.
    let looks_ahead = selection.wanted().is_ok_and(|wanted| !plan(&wanted).plan.in_parts());
    if looks_ahead || data.specs.iter().any(|s| odd(s.shape) || s.bars == 0) {
        return;
    }
    if let Err(failure) = files::check(selection, data, memory, directory.path(), oracle) {
        let schedule = crate::schedule::Schedule::Batch(gpuforge::indicators::exec::How::on(1));
        let case = Case { selection: selection.clone(), data: data.clone(), schedule };
        let again = |case: &Case| {
            let found =
                files::check(&case.selection, &case.data, memory, directory.path(), &mut Oracle::default());
            found.is_err()
        };
        let small = shrink::shrink(&case, again, SHRINK);
        shared.fail(&small, &failure, &format!("through files with --memory-limit {memory}"));
    }
    shared.counts.files.fetch_add(1, Ordering::Relaxed);
}

/// Selections on an adapter, until there are enough.
fn on_adapter(shared: &Shared<'_>) -> Result<(), String> {
    let adapter = Adapter::open()?;
    let mut rng = Rng::new(shared.plan.seed ^ 0x6770_7566_6f72_6765);
    while shared.in_time() && shared.counts.device.load(Ordering::Relaxed) < shared.plan.device_selections {
        let data = Dataset::random_of(&mut rng, 2000, Shape::Ticks);
        for _ in 0..PER_DATASET {
            let selection = Selection::plain(&mut rng, 2, 12);
            match adapter.check(&selection, &data) {
                Ok(columns) => {
                    shared.counts.device_columns.fetch_add(columns, Ordering::Relaxed);
                }
                Err(failure) => {
                    let schedule = crate::schedule::Schedule::Batch(gpuforge::indicators::exec::How::on(1));
                    let case = Case { selection, data: data.clone(), schedule };
                    let again = |case: &Case| adapter.check(&case.selection, &case.data).is_err();
                    let small = shrink::shrink(&case, again, SHRINK);
                    shared.fail(&small, &failure, "on the adapter");
                }
            }
            shared.counts.device.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Where failing cases go unless somebody says otherwise.
pub fn default_directory(target: &Path) -> PathBuf {
    target.join("fuzz-indicators")
}
