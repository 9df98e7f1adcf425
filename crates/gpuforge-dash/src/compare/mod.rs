//! Run comparison: regression verdict per operation by hypothesis tests, with a stated false alarm rate.
//!
//! ```text
//! trace ──► RunProfile (sampled durations, self time by stack) ──┐
//! trace ──► RunProfile ──────────────────────────────────────────┴► RunSet ──► compare ──► Comparison ──► HTML, JSON, exit code
//! ```
//! The null hypothesis is not "no difference" (with enough spans everything differs) but "slower by at most the threshold":
//! the old durations are scaled by it before they are ranked among the new ones. The tests and the multiple-comparison
//! correction are in `verdict` and [`rank_test`]; the limits of one run against one run are in the notes of every result.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub mod baseline;
mod bootstrap;
mod diff_flame;
pub mod distributions;
pub mod html;
pub mod load;
pub mod rank_test;
pub mod runs;
pub mod stacks;
mod verdict;

pub use runs::{OperationCalls, RunProfile, RunSet};
pub use verdict::{MIN_PAIRED_CHANGE, MIN_VALUES};

/// Version of the JSON form; raised when a field changes its meaning or goes away.
pub const VERSION: u32 = 2;

/// Parameters of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CompareOptions {
    /// Family-wise false alarm rate of the whole comparison.
    pub alpha: f64,
    /// Smallest relevant change, as a fraction: 0.02 is 2 %.
    pub threshold: f64,
    /// Bootstrap resamples of the confidence interval; 0 leaves intervals out. Verdicts do not depend on it.
    pub resamples: usize,
    /// Bootstrap seed.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions { alpha: 0.05, threshold: 0.02, resamples: 2000, seed: 1 }
    }
}

/// Verdict on an operation or on the whole comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// Slower by more than the threshold.
    Regression,
    /// Faster by more than the threshold.
    Improvement,
    /// Neither is significant.
    NoChange,
    /// Too few measurements for any test to be significant.
    NotJudged,
}

impl ChangeVerdict {
    /// Display text.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChangeVerdict::Regression => "regression",
            ChangeVerdict::Improvement => "improvement",
            ChangeVerdict::NoChange => "no change",
            ChangeVerdict::NotJudged => "not judged",
        }
    }
}

/// Statistics of one operation on one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CallStats {
    /// Runs that have it.
    pub runs: usize,
    /// Calls in all runs.
    pub calls: u64,
    /// Compared values: medians of blocks of consecutive calls.
    pub values: usize,
    /// Their median; `None` without any.
    pub median_ns: Option<f64>,
    /// Mean total time per run.
    pub per_run_ns: f64,
}

/// Change of one operation between the sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationChange {
    /// Span name, with the track kind unless it is a thread.
    pub operation: String,
    /// The verdict.
    pub verdict: ChangeVerdict,
    /// Reason of the verdict.
    pub reason: String,
    /// Before (A).
    pub a: CallStats,
    /// After (B).
    pub b: CallStats,
    /// Ratio of medians B / A, or median ratio of paired calls; above 1 is slower. `None` where a median is 0 or missing.
    pub ratio: Option<f64>,
    /// Calls were paired one by one: only for one run against one; less than [`MIN_PAIRED_CHANGE`] is then no change.
    pub paired: bool,
    /// 95 % bootstrap confidence interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Effect size, Cliff's delta: −1 (always faster) to 1 (always slower).
    pub effect: f64,
    /// p-value of no change at all; `None` with too few measurements.
    pub p_equal: Option<f64>,
    /// p-value of a change by at most the threshold.
    pub p: Option<f64>,
    /// `p` with Holm's correction; the verdict depends on it.
    pub p_adjusted: Option<f64>,
}

/// Comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`VERSION`] of this form.
    pub version: u32,
    /// Regression if any, else improvement if any, else no change if anything was judged.
    pub verdict: ChangeVerdict,
    /// Reason: number of operations by verdict; where nothing was judged, what is missing.
    pub reason: String,
    /// Parameters.
    pub options: CompareOptions,
    /// Number of runs, A and B.
    pub runs: (usize, usize),
    /// Regressions, improvements, the rest; each by absolute time difference.
    pub operations: Vec<OperationChange>,
    /// Operations only in A.
    pub only_a: Vec<String>,
    /// Operations only in B.
    pub only_b: Vec<String>,
    /// Caveats.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Operations of this verdict.
    pub fn of(&self, verdict: ChangeVerdict) -> impl Iterator<Item = &OperationChange> {
        self.operations.iter().filter(move |change| change.verdict == verdict)
    }
}

/// Compares every operation that both sides have.
pub fn compare(a: &RunSet, b: &RunSet, options: &CompareOptions) -> Comparison {
    let names = |side: &RunSet| side.operations().map(str::to_owned).collect::<BTreeSet<String>>();
    let (in_a, in_b) = (names(a), names(b));
    let mut operations = verdict::judge_all(in_a.intersection(&in_b).map(String::as_str), a, b, options);
    let size = |change: &OperationChange| (change.b.per_run_ns - change.a.per_run_ns).abs();
    operations.sort_by(|x, y| {
        let by_verdict = x.verdict.cmp(&y.verdict);
        by_verdict.then_with(|| size(y).total_cmp(&size(x))).then_with(|| x.operation.cmp(&y.operation))
    });
    let verdict = operations.iter().map(|change| change.verdict).min().unwrap_or(ChangeVerdict::NotJudged);
    Comparison {
        version: VERSION,
        verdict,
        reason: reason(verdict, &operations),
        options: *options,
        runs: (a.runs.len(), b.runs.len()),
        notes: notes(a, b, &operations),
        operations,
        only_a: in_a.difference(&in_b).cloned().collect(),
        only_b: in_b.difference(&in_a).cloned().collect(),
    }
}

/// One-sentence summary.
fn reason(verdict: ChangeVerdict, operations: &[OperationChange]) -> String {
    let all = operations.len();
    let of = |verdict: ChangeVerdict| operations.iter().filter(|change| change.verdict == verdict).count();
    let open = of(ChangeVerdict::NotJudged);
    if verdict != ChangeVerdict::NotJudged {
        let [slower, faster] = [ChangeVerdict::Regression, ChangeVerdict::Improvement].map(of);
        let rest = if open > 0 { format!(", {open} not judged") } else { String::new() };
        return format!("{slower} slower and {faster} faster of {all} operations{rest}");
    }
    let needed =
        operations.iter().map(|change| verdict::runs_needed(change.a).max(verdict::runs_needed(change.b)));
    match needed.max() {
        None => "the sides have no operation in common".to_owned(),
        Some(0) => "no operation takes a time that can be measured".to_owned(),
        Some(runs) => {
            let (a, b) = operations.iter().fold((0, 0), |(a, b), c| (c.a.runs.max(a), c.b.runs.max(b)));
            let what =
                if all == 1 { "the operation".to_owned() } else { format!("none of {all} operations") };
            let could = if all == 1 { "could not" } else { "could" };
            format!(
                "too few runs, {a} and {b}: {what} {could} be judged; about {runs} on each side are needed"
            )
        }
    }
}

fn notes(a: &RunSet, b: &RunSet, operations: &[OperationChange]) -> Vec<String> {
    let mut notes = Vec::new();
    if a.runs.len() < 2 && b.runs.len() < 2 {
        notes.push(
            "one run on each side: what differs from run to run (memory layout, clock rate, neighbours) cannot be told \
             from a change of the program; several traces on a side can"
                .to_owned(),
        );
    }
    for (name, side) in [("A", a), ("B", b)] {
        let dropped: u64 = side.runs.iter().map(|run| run.dropped).fold(0, u64::saturating_add);
        if dropped > 0 {
            notes.push(format!("{dropped} records of {name} were lost while it ran, the oldest first"));
        }
    }
    let per_run = |calls: u64, runs: usize| calls as f64 / runs.max(1) as f64;
    let counts = operations.iter().filter(|change| {
        let (a, b) = (per_run(change.a.calls, a.runs.len()), per_run(change.b.calls, b.runs.len()));
        (a - b).abs() > 0.1 * a.max(b)
    });
    let names: Vec<&str> = counts.map(|change| change.operation.as_str()).collect();
    if let Some((first, rest)) = names.split_first() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} others", rest.len()) };
        notes.push(format!(
            "{first}{more} ran more or less often than before; a verdict is about the time of one call"
        ));
    }
    let open = operations.iter().filter(|change| change.verdict == ChangeVerdict::NotJudged).count();
    if open > 0 && open < operations.len() {
        notes.push(format!(
            "{open} of {} operations were not judged: their reasons say why",
            operations.len()
        ));
    }
    if operations.is_empty() {
        notes.push("the sides have no operation in common: nothing was judged".to_owned());
    }
    notes
}
