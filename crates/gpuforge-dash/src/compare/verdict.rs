//! Regression verdict: hypothesis tests within runs (calls) and between runs, Holm-corrected over all operations.
//!
//! 1. *Calls*: a rank test of block medians, exact for small samples. For one run against one whose calls correspond
//!    (`pairs`), Wilcoxon's signed-rank test of their ratios: an operation that alternates between small and large data
//!    varies far more from call to call than from run to run. Else the Mann-Whitney test. Blocks of consecutive calls
//!    remove most autocorrelation; the rest is estimated (lag-1 rank autocorrelation r of the blocks) and the variance
//!    inflated by (1 + r) / (1 − r), as for an AR(1) process.
//! 2. *Runs*, where any side has several: Student's t-test of the log medians of the runs. Variation between runs is then
//!    noise, however many spans a run has. A side with one run uses the variance of the other.
//!
//! With three runs or more on each side the second test decides alone; with fewer the larger of both p-values, for "slower"
//! and "faster" each. The two-sided p-value is twice the smaller of those.

use super::{
    CallStats, ChangeVerdict, CompareOptions, OperationChange, bootstrap, distributions,
    html::probability as probable,
    rank_test::{MannWhitney, holm, median, wilcoxon_signed_rank},
    runs::{MAX_BLOCKS_PER_RUN, OperationCalls, RunSet, block_medians},
};

/// Minimum values per side: even fully separated, four against four are not significant among several operations.
pub const MIN_VALUES: usize = 5;
/// Minimum number of paired calls: with fewer, even all of them slower are not significant.
const MIN_PAIRS: usize = 12;
/// Smallest relevant change of paired calls, whatever the threshold: pairing is so sharp that it resolves run-to-run
/// variation, which one run cannot tell from a change.
pub const MIN_PAIRED_CHANGE: f64 = 0.05;
/// Runs per side from which the t-test between runs decides alone; among fewer one may be an outlier.
const ENOUGH_RUNS: usize = 3;
/// Cap of the autocorrelation: above it the effective sample size is meaningless.
const MAX_AUTOCORRELATION: f64 = 0.95;

/// Block medians of one operation on one side.
struct BlockMedians {
    /// By run, in time order.
    runs: Vec<Vec<f64>>,
    /// All, sorted.
    sorted: Vec<f64>,
    /// Log median of each run; `None` where one is not positive.
    logs: Option<Vec<f64>>,
}

impl BlockMedians {
    fn of(runs: &[Vec<f64>], length: usize) -> BlockMedians {
        let runs: Vec<Vec<f64>> = runs.iter().map(|run| block_medians(run, length)).collect();
        let middle = |run: &Vec<f64>| median(&sorted(run.clone())).filter(|m| *m > 0.0).map(f64::ln);
        let logs = runs.iter().filter(|run| !run.is_empty()).map(middle).collect();
        BlockMedians { sorted: sorted(runs.concat()), logs, runs }
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Valid durations; a file may hold anything.
fn valid_durations<'a>(calls: impl Iterator<Item = &'a OperationCalls>) -> Vec<Vec<f64>> {
    let real = |x: &&f64| x.is_finite() && **x >= 0.0;
    let runs = calls.map(|calls| calls.kept_ns.iter().filter(real).copied().collect::<Vec<f64>>());
    runs.filter(|run| !run.is_empty()).collect()
}

/// Verdicts on these operations; Holm's correction covers those with enough values.
pub(super) fn judge_all<'a>(
    operations: impl Iterator<Item = &'a str>,
    a: &RunSet,
    b: &RunSet,
    options: &CompareOptions,
) -> Vec<OperationChange> {
    let mut changes: Vec<OperationChange> =
        operations.map(|operation| measure(operation, a, b, options)).collect();
    let judged: Vec<f64> = changes.iter().filter_map(|change| change.p).collect();
    let mut adjusted = holm(&judged).into_iter();
    for change in &mut changes {
        change.p_adjusted = change.p.and_then(|_| adjusted.next());
        decide(change, options);
    }
    changes
}

/// Statistics of a change, without the verdict.
fn measure(operation: &str, a: &RunSet, b: &RunSet, options: &CompareOptions) -> OperationChange {
    let raw = [valid_durations(a.calls(operation)), valid_durations(b.calls(operation))];
    // One block length for both sides: otherwise their spread would differ by construction.
    let fewest = raw.iter().flatten().map(Vec::len).min().unwrap_or(0);
    let length = fewest.div_ceil(MAX_BLOCKS_PER_RUN).max(1);
    let counts = |side: &RunSet| side.calls(operation).map(|calls| calls.count).collect::<Vec<u64>>();
    let pairs = if counts(a) == counts(b) { pairs(&raw, length) } else { None };
    let [before, after] = raw.map(|runs| BlockMedians::of(&runs, length));
    let (of_a, of_b) = (figures(operation, a, &before), figures(operation, b, &after));
    let of_medians = match (of_a.median_ns, of_b.median_ns) {
        (Some(a), Some(b)) if a > 0.0 && b > 0.0 => Some(b / a),
        _ => None,
    };
    let of_pairs = pairs.as_ref().and_then(|pairs| median(&sorted(pairs.clone()))).map(f64::exp);
    let enough = of_a.values.min(of_b.values) >= MIN_VALUES;
    let evidence = Evidence::of(&before, &after, pairs.as_deref());
    let p = |threshold: f64| enough.then(|| evidence.p_value(threshold));
    let (p_equal, least) = (p(0.0), min_change(pairs.is_some(), options));
    OperationChange {
        operation: operation.to_owned(),
        verdict: ChangeVerdict::NotJudged,
        reason: String::new(),
        a: of_a,
        b: of_b,
        ratio: of_pairs.or(of_medians),
        paired: pairs.is_some(),
        interval: match &pairs {
            Some(pairs) => bootstrap::paired_interval(operation, pairs, options),
            None => {
                of_medians.and_then(|_| bootstrap::interval(operation, &before.runs, &after.runs, options))
            }
        },
        effect: MannWhitney::of(&before.sorted, &after.sorted, 1.0).delta(),
        p_equal,
        p: if least > 0.0 { p(least) } else { p_equal },
        p_adjusted: None,
    }
}

/// Smallest relevant change.
fn min_change(paired: bool, options: &CompareOptions) -> f64 {
    let asked = options.threshold.max(0.0);
    if paired { asked.max(MIN_PAIRED_CHANGE) } else { asked }
}

/// Log ratios of paired calls, by blocks; `None` where calls do not correspond.
///
/// They do where both runs have the same number, and log durations correlate above ½, equivalent to a variance of their
/// sums above three times that of their differences. The criterion is symmetric, so the test keeps its level.
fn pairs([a, b]: &[Vec<Vec<f64>>; 2], length: usize) -> Option<Vec<f64>> {
    let ([a], [b]) = (a.as_slice(), b.as_slice()) else { return None };
    let measurable = |values: &[f64]| values.iter().all(|value| value.is_normal());
    if a.len() != b.len() || a.len() < MIN_PAIRS || !measurable(a) || !measurable(b) {
        return None;
    }
    // Exactly antisymmetric under swapped sides.
    let ratio = |(a, b): (&f64, &f64)| if b >= a { (b / a).ln() } else { -(a / b).ln() };
    let ratios: Vec<f64> = a.iter().zip(b).map(ratio).collect();
    let sums: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.ln() + b.ln()).collect();
    // Calls of equal duration leave only rounding errors.
    let spread = variance(&sums);
    (spread > 1e-12 && spread > 3.0 * variance(&ratios)).then(|| block_medians(&ratios, length))
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

fn figures(operation: &str, side: &RunSet, values: &BlockMedians) -> CallStats {
    let sum =
        |field: fn(&OperationCalls) -> u64| side.calls(operation).map(field).fold(0, u64::saturating_add);
    CallStats {
        runs: side.calls(operation).count(),
        calls: sum(|calls| calls.count),
        values: values.sorted.len(),
        median_ns: median(&values.sorted),
        per_run_ns: sum(|calls| calls.total_ns) as f64 / side.runs.len().max(1) as f64,
    }
}

/// Inputs of the p-value.
struct Evidence<'a> {
    a: &'a BlockMedians,
    b: &'a BlockMedians,
    pairs: Option<&'a [f64]>,
    inflation: f64,
}

impl<'a> Evidence<'a> {
    fn of(a: &'a BlockMedians, b: &'a BlockMedians, pairs: Option<&'a [f64]>) -> Self {
        let inflation = match pairs {
            Some(pairs) => inflation(std::iter::once(pairs)),
            None => inflation(a.runs.iter().chain(&b.runs).map(Vec::as_slice)),
        };
        Evidence { a, b, pairs, inflation }
    }

    /// Two-sided p-value of a change by at most the threshold.
    fn p_value(&self, threshold: f64) -> f64 {
        let slower = self.one_sided(self.a, self.b, 1.0, threshold);
        let faster = self.one_sided(self.b, self.a, -1.0, threshold);
        (2.0 * slower.min(faster)).min(1.0)
    }

    fn one_sided(&self, before: &BlockMedians, after: &BlockMedians, sign: f64, threshold: f64) -> f64 {
        let among_runs = runs_t_test(before, after, threshold);
        if let Some(p) = among_runs
            && before.runs.len().min(after.runs.len()) >= ENOUGH_RUNS
        {
            return p;
        }
        let among_calls = match self.pairs {
            Some(pairs) => {
                let above: Vec<f64> = pairs.iter().map(|log| sign * log - threshold.ln_1p()).collect();
                wilcoxon_signed_rank(&above, self.inflation)
            }
            None => MannWhitney::of(&before.sorted, &after.sorted, 1.0 + threshold).p_larger(self.inflation),
        };
        among_runs.map_or(among_calls, |p| p.max(among_calls))
    }
}

/// One-sided t-test between runs; `None` where each side has one run, or where all runs are equal and have no variance.
fn runs_t_test(before: &BlockMedians, after: &BlockMedians, threshold: f64) -> Option<f64> {
    let degrees = (before.runs.len() + after.runs.len()).checked_sub(2).filter(|degrees| *degrees > 0)?;
    // A median of zero has no logarithm.
    let (Some(x), Some(y)) = (&before.logs, &after.logs) else { return Some(1.0) };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let (mean_x, mean_y) = (mean(x), mean(y));
    let spread = (squares(x, mean_x) + squares(y, mean_y)) / degrees as f64;
    let error = (spread * (1.0 / x.len() as f64 + 1.0 / y.len() as f64)).sqrt();
    let above = mean_y - mean_x - threshold.ln_1p();
    (error > 0.0).then(|| distributions::student(above / error, degrees))
}

/// Variance inflation factor from the lag-1 rank autocorrelation of the blocks.
fn inflation<'a>(runs: impl Iterator<Item = &'a [f64]>) -> f64 {
    let (mut together, mut alone, mut count) = (0.0, 0.0, 0usize);
    for run in runs.filter(|run| run.len() >= 3) {
        let ranks = ranks(run);
        let middle = ranks.iter().sum::<f64>() / ranks.len() as f64;
        let off: Vec<f64> = ranks.iter().map(|rank| rank - middle).collect();
        together += off.iter().zip(off.iter().skip(1)).map(|(x, y)| x * y).sum::<f64>();
        alone += off.iter().map(|x| x * x).sum::<f64>();
        count = count.max(run.len());
    }
    if alone <= 0.0 {
        return 1.0;
    }
    let seen = together / alone;
    // Bias correction for short series.
    let autocorrelation = (seen + (1.0 + 3.0 * seen) / count as f64).clamp(0.0, MAX_AUTOCORRELATION);
    (1.0 + autocorrelation) / (1.0 - autocorrelation)
}

/// Rank of each value; ties share their mid-rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let all = sorted(values.to_vec());
    let rank = |value: &f64| {
        let below = all.partition_point(|x| x < value);
        let upto = all.partition_point(|x| x <= value);
        0.5 * (below + upto) as f64
    };
    values.iter().map(rank).collect()
}

/// Number of such runs needed for enough values; 0 where there are enough.
pub(super) fn runs_needed(side: CallStats) -> usize {
    match side.values {
        values if values >= MIN_VALUES => 0,
        // A run without a value is no basis for an estimate.
        0 => MIN_VALUES,
        values => (MIN_VALUES * side.runs.max(1)).div_ceil(values),
    }
}

/// Sets the verdict and its reason.
fn decide(change: &mut OperationChange, options: &CompareOptions) {
    let least = min_change(change.paired, options);
    let percent = |ratio: f64| format!("{:.1} %", 100.0 * (ratio - 1.0).abs());
    let (verdict, reason) = match (change.p_adjusted, change.ratio) {
        (None, _) => {
            let (side, few) =
                if change.a.values <= change.b.values { ("A", change.a) } else { ("B", change.b) };
            let s = |n: usize| if n == 1 { "" } else { "s" };
            let from = format!("{} value{} from {} run{}", few.values, s(few.values), few.runs, s(few.runs));
            let runs = runs_needed(few);
            let reason = format!(
                "too few runs: {from} in {side}, {MIN_VALUES} values are needed, about {runs} such runs"
            );
            (ChangeVerdict::NotJudged, reason)
        }
        (Some(_), None) => (ChangeVerdict::NotJudged, "it takes no measurable time".to_owned()),
        (Some(p), Some(ratio)) if p <= options.alpha && ratio > 1.0 + least => {
            (ChangeVerdict::Regression, format!("{} slower, p {}", percent(ratio), probable(p)))
        }
        (Some(p), Some(ratio)) if p <= options.alpha && ratio * (1.0 + least) < 1.0 => {
            (ChangeVerdict::Improvement, format!("{} faster, p {}", percent(ratio), probable(p)))
        }
        (Some(p), Some(ratio)) if ratio > 1.0 + least || ratio * (1.0 + least) < 1.0 => (
            ChangeVerdict::NoChange,
            format!("medians differ by {}, noise may do that: p {}", percent(ratio), probable(p)),
        ),
        (Some(_), Some(_)) => {
            (ChangeVerdict::NoChange, format!("medians differ by less than {:.1} %", 100.0 * least))
        }
    };
    (change.verdict, change.reason) = (verdict, reason);
}
