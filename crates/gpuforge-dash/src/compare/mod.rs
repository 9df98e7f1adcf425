//! Did it get slower? Two runs, operation by operation, with the chance of being wrong stated.
//!
//! ```text
//! trace ──► Run (thinned durations, own time by path) ──┐
//! trace ──► Run ────────────────────────────────────────┴► Side ──► compare ──► Comparison ──► page, JSON, exit code
//! ```
//! What is asked of each operation is not "are they different" (with enough spans everything is) but "is it slower by more
//! than the least change that matters": the old durations are made longer by that much before they are ranked among the
//! new ones. Both questions and their correction over all operations are in `judge` and [`rank`]; what one run against one
//! run can and cannot tell is said in the notes of every answer.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub mod baseline;
mod boot;
mod flame;
mod judge;
pub mod load;
pub mod page;
pub mod rank;
pub mod side;
pub mod stacks;
pub mod tails;

pub use judge::{LEAST_PAIRED, LEAST_VALUES};
pub use side::{Calls, Run, Side};

/// Version of the JSON form; raised when a field changes its meaning or goes away.
pub const VERSION: u32 = 2;

/// How a comparison is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The chance of even one false alarm in the whole comparison.
    pub alpha: f64,
    /// The least change that matters, as a share: 0.02 is 2 %.
    pub threshold: f64,
    /// Resamples of the interval around a change; 0 leaves intervals out. Verdicts do not depend on it.
    pub resamples: usize,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { alpha: 0.05, threshold: 0.02, resamples: 2000, seed: 1 }
    }
}

/// What became of an operation, or of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower by more than the least change that matters.
    Regression,
    /// Faster by more than that.
    Improvement,
    /// Judged, and neither can be said.
    NoChange,
    /// Too little was measured to judge: a difference, however large, would prove nothing.
    NotJudged,
}

impl Verdict {
    /// As people read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Regression => "regression",
            Verdict::Improvement => "improvement",
            Verdict::NoChange => "no change",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// One operation on one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Runs that have it.
    pub runs: usize,
    /// Calls in all runs.
    pub calls: u64,
    /// Values that were compared: medians of neighbouring calls.
    pub values: usize,
    /// Median of those; `None` without any.
    pub median_ns: Option<f64>,
    /// Mean time of all its calls in one run.
    pub per_run_ns: f64,
}

/// One operation on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Name of the spans, and where they ran unless that is a thread.
    pub operation: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why that verdict.
    pub reason: String,
    /// Before.
    pub a: Figures,
    /// After.
    pub b: Figures,
    /// Median after by median before, or the median ratio of corresponding calls; above 1 is slower. `None` where a median
    /// is 0 or missing.
    pub ratio: Option<f64>,
    /// Were calls compared one by one? Only for one run against one; less than [`LEAST_PAIRED`] is then no change.
    pub paired: bool,
    /// 95 % of resampled ratios lie in here.
    pub interval: Option<(f64, f64)>,
    /// Cliff's delta: from −1 (always faster) to 1 (always slower).
    pub effect: f64,
    /// Chance of such a difference when nothing changed at all; `None` where too little was measured.
    pub p_equal: Option<f64>,
    /// Chance of such a difference when nothing changed by more than the threshold.
    pub p: Option<f64>,
    /// `p`, corrected for the number of operations; what the verdict goes by.
    pub p_adjusted: Option<f64>,
}

/// Two sides and what changed between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`VERSION`] of this form.
    pub version: u32,
    /// A regression where there is one, else an improvement where there is one, else no change where anything was judged.
    pub verdict: Verdict,
    /// Why that verdict: how many operations of which kind; where nothing was judged, what is missing.
    pub reason: String,
    /// How it was judged.
    pub options: Options,
    /// Runs before and after.
    pub runs: (usize, usize),
    /// Regressions, improvements, the rest; each by how much time the change is about.
    pub operations: Vec<Change>,
    /// Operations that are gone.
    pub only_a: Vec<String>,
    /// Operations that are new.
    pub only_b: Vec<String>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Operations of this verdict.
    pub fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.operations.iter().filter(move |change| change.verdict == verdict)
    }
}

/// Judges every operation that both sides have.
pub fn compare(a: &Side, b: &Side, options: &Options) -> Comparison {
    let names = |side: &Side| side.operations().map(str::to_owned).collect::<BTreeSet<String>>();
    let (in_a, in_b) = (names(a), names(b));
    let mut operations = judge::all(in_a.intersection(&in_b).map(String::as_str), a, b, options);
    let size = |change: &Change| (change.b.per_run_ns - change.a.per_run_ns).abs();
    operations.sort_by(|x, y| {
        let by_verdict = x.verdict.cmp(&y.verdict);
        by_verdict.then_with(|| size(y).total_cmp(&size(x))).then_with(|| x.operation.cmp(&y.operation))
    });
    let verdict = operations.iter().map(|change| change.verdict).min().unwrap_or(Verdict::NotJudged);
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

/// The whole in one sentence.
fn reason(verdict: Verdict, operations: &[Change]) -> String {
    let all = operations.len();
    let of = |verdict: Verdict| operations.iter().filter(|change| change.verdict == verdict).count();
    let open = of(Verdict::NotJudged);
    if verdict != Verdict::NotJudged {
        let [slower, faster] = [Verdict::Regression, Verdict::Improvement].map(of);
        let rest = if open > 0 { format!(", {open} not judged") } else { String::new() };
        return format!("{slower} slower and {faster} faster of {all} operations{rest}");
    }
    let needed =
        operations.iter().map(|change| judge::runs_needed(change.a).max(judge::runs_needed(change.b)));
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

fn notes(a: &Side, b: &Side, operations: &[Change]) -> Vec<String> {
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
    let open = operations.iter().filter(|change| change.verdict == Verdict::NotJudged).count();
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
