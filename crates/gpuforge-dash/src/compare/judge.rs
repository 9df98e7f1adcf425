//! Is an operation slower by more than matters? A test among calls and one among runs, corrected over all operations.
//!
//! 1. *Among calls*: a test by ranks of block medians, exact where few. Where one run stands against one and their calls
//!    correspond (`pairs`), Wilcoxon's test of their ratios is used: an operation that works on small and large data by
//!    turns varies far more from call to call than from run to run. Else it is the Mann-Whitney test. Blocks of
//!    neighbours take out most of what makes neighbours alike; what is left is measured (rank correlation of following
//!    blocks) and the variance enlarged by (1 + r) / (1 − r), as for a first-order process.
//! 2. *Among runs*, where any side has several: Student's test of the logarithms of the runs' medians. What differs from
//!    run to run is then noise, however many spans a run has. A side with one run borrows the spread of the other.
//!
//! Three runs or more on each side are judged by the second alone; fewer by the larger of both probabilities, for "slower"
//! and "faster" each. Twice the smaller of those is the answer.

use super::{
    Change, Figures, Options, Verdict, boot,
    page::probability as probable,
    rank::{Ranked, above_zero, holm, median},
    side::{Calls, STRETCHES, Side, blocks},
    tails,
};

/// Fewer values on a side are never judged: even fully apart, four against four are not rare enough among several
/// operations.
pub const LEAST_VALUES: usize = 5;
/// With fewer calls, even all of them slower are not rare enough when they are paired.
const LEAST_PAIRS: usize = 12;
/// Changes of pairs below this are not judged, whatever the threshold: pairs are so sharp that they see what differs from
/// one run to the next, which no single run can tell from a change.
pub const LEAST_PAIRED: f64 = 0.05;
/// Runs on each side from which the runs alone decide; one run among fewer may be an outlier.
const ENOUGH_RUNS: usize = 3;
/// Following blocks that are more alike than this say nothing about how many independent ones there are.
const MOST_ALIKE: f64 = 0.95;

/// One operation on one side, as it is compared.
struct Values {
    /// Block medians by run, in order of time.
    runs: Vec<Vec<f64>>,
    /// All of them, sorted.
    sorted: Vec<f64>,
    /// Logarithm of the median of each run; `None` where one is not above 0.
    logs: Option<Vec<f64>>,
}

impl Values {
    fn of(runs: &[Vec<f64>], length: usize) -> Values {
        let runs: Vec<Vec<f64>> = runs.iter().map(|run| blocks(run, length)).collect();
        let middle = |run: &Vec<f64>| median(&sorted(run.clone())).filter(|m| *m > 0.0).map(f64::ln);
        let logs = runs.iter().filter(|run| !run.is_empty()).map(middle).collect();
        Values { sorted: sorted(runs.concat()), logs, runs }
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// What can be a duration; a file may hold anything.
fn clean<'a>(calls: impl Iterator<Item = &'a Calls>) -> Vec<Vec<f64>> {
    let real = |x: &&f64| x.is_finite() && **x >= 0.0;
    let runs = calls.map(|calls| calls.kept_ns.iter().filter(real).copied().collect::<Vec<f64>>());
    runs.filter(|run| !run.is_empty()).collect()
}

/// Judges these operations; the correction covers those that had enough values to be judged.
pub(super) fn all<'a>(
    operations: impl Iterator<Item = &'a str>,
    a: &Side,
    b: &Side,
    options: &Options,
) -> Vec<Change> {
    let mut changes: Vec<Change> = operations.map(|operation| measure(operation, a, b, options)).collect();
    let judged: Vec<f64> = changes.iter().filter_map(|change| change.p).collect();
    let mut adjusted = holm(&judged).into_iter();
    for change in &mut changes {
        change.p_adjusted = change.p.and_then(|_| adjusted.next());
        decide(change, options);
    }
    changes
}

/// Everything of a change but its verdict.
fn measure(operation: &str, a: &Side, b: &Side, options: &Options) -> Change {
    let raw = [clean(a.calls(operation)), clean(b.calls(operation))];
    // One block length for both sides: medians of many beside single calls would differ in spread by construction.
    let fewest = raw.iter().flatten().map(Vec::len).min().unwrap_or(0);
    let length = fewest.div_ceil(STRETCHES).max(1);
    let counts = |side: &Side| side.calls(operation).map(|calls| calls.count).collect::<Vec<u64>>();
    let pairs = if counts(a) == counts(b) { pairs(&raw, length) } else { None };
    let [before, after] = raw.map(|runs| Values::of(&runs, length));
    let (of_a, of_b) = (figures(operation, a, &before), figures(operation, b, &after));
    let of_medians = match (of_a.median_ns, of_b.median_ns) {
        (Some(a), Some(b)) if a > 0.0 && b > 0.0 => Some(b / a),
        _ => None,
    };
    let of_pairs = pairs.as_ref().and_then(|pairs| median(&sorted(pairs.clone()))).map(f64::exp);
    let enough = of_a.values.min(of_b.values) >= LEAST_VALUES;
    let evidence = Evidence::of(&before, &after, pairs.as_deref());
    let p = |threshold: f64| enough.then(|| evidence.probability(threshold));
    let (p_equal, least) = (p(0.0), least(pairs.is_some(), options));
    Change {
        operation: operation.to_owned(),
        verdict: Verdict::NotJudged,
        reason: String::new(),
        a: of_a,
        b: of_b,
        ratio: of_pairs.or(of_medians),
        paired: pairs.is_some(),
        interval: match &pairs {
            Some(pairs) => boot::of_pairs(operation, pairs, options),
            None => of_medians.and_then(|_| boot::interval(operation, &before.runs, &after.runs, options)),
        },
        effect: Ranked::of(&before.sorted, &after.sorted, 1.0).delta(),
        p_equal,
        p: if least > 0.0 { p(least) } else { p_equal },
        p_adjusted: None,
    }
}

/// The least change that matters.
fn least(paired: bool, options: &Options) -> f64 {
    let asked = options.threshold.max(0.0);
    if paired { asked.max(LEAST_PAIRED) } else { asked }
}

/// Logarithms of the ratios of corresponding calls, by blocks; `None` where calls do not correspond.
///
/// They do where both runs have as many, and those that are long in one are long in the other: correlation of the
/// logarithms above ½, which is the same as a variance of their sums above three times that of their differences. Neither
/// side is favoured by that, so the test that follows stays as honest as it was.
fn pairs([a, b]: &[Vec<Vec<f64>>; 2], length: usize) -> Option<Vec<f64>> {
    let ([a], [b]) = (a.as_slice(), b.as_slice()) else { return None };
    let measurable = |values: &[f64]| values.iter().all(|value| value.is_normal());
    if a.len() != b.len() || a.len() < LEAST_PAIRS || !measurable(a) || !measurable(b) {
        return None;
    }
    // Swapped sides give the same numbers to the last bit, with the other sign.
    let ratio = |(a, b): (&f64, &f64)| if b >= a { (b / a).ln() } else { -(a / b).ln() };
    let ratios: Vec<f64> = a.iter().zip(b).map(ratio).collect();
    let sums: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.ln() + b.ln()).collect();
    // Calls that all take the same time leave nothing but rounding to compare.
    let spread = variance(&sums);
    (spread > 1e-12 && spread > 3.0 * variance(&ratios)).then(|| blocks(&ratios, length))
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

fn figures(operation: &str, side: &Side, values: &Values) -> Figures {
    let sum = |field: fn(&Calls) -> u64| side.calls(operation).map(field).fold(0, u64::saturating_add);
    Figures {
        runs: side.calls(operation).count(),
        calls: sum(|calls| calls.count),
        values: values.sorted.len(),
        median_ns: median(&values.sorted),
        per_run_ns: sum(|calls| calls.total_ns) as f64 / side.runs.len().max(1) as f64,
    }
}

/// What a probability is computed from.
struct Evidence<'a> {
    a: &'a Values,
    b: &'a Values,
    pairs: Option<&'a [f64]>,
    inflation: f64,
}

impl<'a> Evidence<'a> {
    fn of(a: &'a Values, b: &'a Values, pairs: Option<&'a [f64]>) -> Self {
        let inflation = match pairs {
            Some(pairs) => inflation(std::iter::once(pairs)),
            None => inflation(a.runs.iter().chain(&b.runs).map(Vec::as_slice)),
        };
        Evidence { a, b, pairs, inflation }
    }

    /// Chance of a difference like this, or a larger one, when the true change is at most the threshold, either way.
    fn probability(&self, threshold: f64) -> f64 {
        let slower = self.one_sided(self.a, self.b, 1.0, threshold);
        let faster = self.one_sided(self.b, self.a, -1.0, threshold);
        (2.0 * slower.min(faster)).min(1.0)
    }

    fn one_sided(&self, before: &Values, after: &Values, sign: f64, threshold: f64) -> f64 {
        let among_runs = among_runs(before, after, threshold);
        if let Some(p) = among_runs
            && before.runs.len().min(after.runs.len()) >= ENOUGH_RUNS
        {
            return p;
        }
        let among_calls = match self.pairs {
            Some(pairs) => {
                let above: Vec<f64> = pairs.iter().map(|log| sign * log - threshold.ln_1p()).collect();
                above_zero(&above, self.inflation)
            }
            None => Ranked::of(&before.sorted, &after.sorted, 1.0 + threshold).larger(self.inflation),
        };
        among_runs.map_or(among_calls, |p| p.max(among_calls))
    }
}

/// Chance that the runs of `after` are this much slower; `None` where each side has one run only, or where runs agree to
/// the last bit and tell nothing about their spread.
fn among_runs(before: &Values, after: &Values, threshold: f64) -> Option<f64> {
    let degrees = (before.runs.len() + after.runs.len()).checked_sub(2).filter(|degrees| *degrees > 0)?;
    // A median of zero has no logarithm.
    let (Some(x), Some(y)) = (&before.logs, &after.logs) else { return Some(1.0) };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let (mean_x, mean_y) = (mean(x), mean(y));
    let spread = (squares(x, mean_x) + squares(y, mean_y)) / degrees as f64;
    let error = (spread * (1.0 / x.len() as f64 + 1.0 / y.len() as f64)).sqrt();
    let above = mean_y - mean_x - threshold.ln_1p();
    (error > 0.0).then(|| tails::student(above / error, degrees))
}

/// By how much the variance of a mean exceeds that of independent values, from how alike following blocks are.
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
    // What is measured in a short series is too small on average, by this much.
    let alike = (seen + (1.0 + 3.0 * seen) / count as f64).clamp(0.0, MOST_ALIKE);
    (1.0 + alike) / (1.0 - alike)
}

/// Rank of each value, in the order of the values; equal ones share their middle rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let all = sorted(values.to_vec());
    let rank = |value: &f64| {
        let below = all.partition_point(|x| x < value);
        let upto = all.partition_point(|x| x <= value);
        0.5 * (below + upto) as f64
    };
    values.iter().map(rank).collect()
}

/// Runs like these from which on a side has values enough; 0 where it has them.
pub(super) fn runs_needed(side: Figures) -> usize {
    match side.values {
        values if values >= LEAST_VALUES => 0,
        // A run without a value says nothing about the next one.
        0 => LEAST_VALUES,
        values => (LEAST_VALUES * side.runs.max(1)).div_ceil(values),
    }
}

/// The verdict and its reason.
fn decide(change: &mut Change, options: &Options) {
    let least = least(change.paired, options);
    let percent = |ratio: f64| format!("{:.1} %", 100.0 * (ratio - 1.0).abs());
    let (verdict, reason) = match (change.p_adjusted, change.ratio) {
        (None, _) => {
            let (side, few) =
                if change.a.values <= change.b.values { ("A", change.a) } else { ("B", change.b) };
            let s = |n: usize| if n == 1 { "" } else { "s" };
            let from = format!("{} value{} from {} run{}", few.values, s(few.values), few.runs, s(few.runs));
            let runs = runs_needed(few);
            let reason = format!(
                "too few runs: {from} in {side}, {LEAST_VALUES} values are needed, about {runs} such runs"
            );
            (Verdict::NotJudged, reason)
        }
        (Some(_), None) => (Verdict::NotJudged, "it takes no measurable time".to_owned()),
        (Some(p), Some(ratio)) if p <= options.alpha && ratio > 1.0 + least => {
            (Verdict::Regression, format!("{} slower, p {}", percent(ratio), probable(p)))
        }
        (Some(p), Some(ratio)) if p <= options.alpha && ratio * (1.0 + least) < 1.0 => {
            (Verdict::Improvement, format!("{} faster, p {}", percent(ratio), probable(p)))
        }
        (Some(p), Some(ratio)) if ratio > 1.0 + least || ratio * (1.0 + least) < 1.0 => (
            Verdict::NoChange,
            format!("medians differ by {}, noise may do that: p {}", percent(ratio), probable(p)),
        ),
        (Some(_), Some(_)) => {
            (Verdict::NoChange, format!("medians differ by less than {:.1} %", 100.0 * least))
        }
    };
    (change.verdict, change.reason) = (verdict, reason);
}
