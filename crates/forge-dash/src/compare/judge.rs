//! Is an operation slower by more than matters? Two tests that must agree, corrected over all operations.
//!
//! 1. *Among calls*: a rank test of block medians (Mann-Whitney, exact where few). Blocks of neighbours take out most of
//!    what makes neighbours alike; what is left is measured (rank correlation of following blocks, within each run) and the
//!    variance enlarged by (1 + r) / (1 − r), as for a first-order process.
//! 2. *Among runs*, where any side has several: Student's test of the logarithms of the runs' medians. What differs from
//!    run to run is then noise, however many spans a run has. A side with one run borrows the spread of the other.
//!
//! The larger of both probabilities counts, for "slower" and "faster" each; twice the smaller of those is the answer.

use super::{
    Change, Figures, Options, Verdict, boot,
    rank::{Ranked, holm, median},
    side::{Calls, STRETCHES, Side, blocks},
    tails,
};

/// Fewer values on a side are never judged: even fully apart, four against four are not rare enough among several
/// operations.
pub const LEAST_VALUES: usize = 5;
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
    let [before, after] = raw.map(|runs| Values::of(&runs, length));
    let (of_a, of_b) = (figures(operation, a, &before), figures(operation, b, &after));
    let ratio = match (of_a.median_ns, of_b.median_ns) {
        (Some(a), Some(b)) if a > 0.0 && b > 0.0 => Some(b / a),
        _ => None,
    };
    let enough = of_a.values.min(of_b.values) >= LEAST_VALUES;
    let p = |threshold: f64| enough.then(|| probability(&before, &after, threshold));
    Change {
        operation: operation.to_owned(),
        verdict: Verdict::NoChange,
        reason: String::new(),
        a: of_a,
        b: of_b,
        ratio,
        interval: ratio.and_then(|_| boot::interval(operation, &before.runs, &after.runs, options)),
        effect: Ranked::of(&before.sorted, &after.sorted, 1.0).delta(),
        p_equal: p(0.0),
        p: p(options.threshold.max(0.0)),
        p_adjusted: None,
    }
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

/// Chance of a difference like this, or a larger one, when the true change is at most the threshold, either way.
fn probability(a: &Values, b: &Values, threshold: f64) -> f64 {
    let inflation = inflation(a, b);
    let one_sided = |before: &Values, after: &Values| {
        let calls = Ranked::of(&before.sorted, &after.sorted, 1.0 + threshold).larger(inflation);
        calls.max(among_runs(before, after, threshold))
    };
    (2.0 * one_sided(a, b).min(one_sided(b, a))).min(1.0)
}

/// Chance that the runs of `after` are this much slower; 0, no objection, where each side has one run only.
fn among_runs(before: &Values, after: &Values, threshold: f64) -> f64 {
    let count = before.runs.len() + after.runs.len();
    if count <= 2 {
        return 0.0;
    }
    let (Some(x), Some(y)) = (&before.logs, &after.logs) else { return 1.0 };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let (mean_x, mean_y) = (mean(x), mean(y));
    let degrees = count - 2;
    let spread = (squares(x, mean_x) + squares(y, mean_y)) / degrees as f64;
    let error = (spread * (1.0 / x.len() as f64 + 1.0 / y.len() as f64)).sqrt();
    let above = mean_y - mean_x - threshold.ln_1p();
    match error > 0.0 {
        true => tails::student(above / error, degrees),
        // Runs that agree to the last bit: the other test decides.
        false => f64::from(u8::from(above <= 0.0)),
    }
}

/// By how much the variance of a mean exceeds that of independent values, from how alike following blocks are.
fn inflation(a: &Values, b: &Values) -> f64 {
    let (mut together, mut alone, mut count) = (0.0, 0.0, 0usize);
    for run in a.runs.iter().chain(&b.runs).filter(|run| run.len() >= 3) {
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

/// The verdict and its reason.
fn decide(change: &mut Change, options: &Options) {
    let least = options.threshold.max(0.0);
    let percent = |ratio: f64| format!("{:.1} %", 100.0 * (ratio - 1.0).abs());
    let (verdict, reason) = match (change.p_adjusted, change.ratio) {
        (None, _) => {
            let (side, values) =
                if change.a.values <= change.b.values { ("A", change.a) } else { ("B", change.b) };
            let needed = format!("{} values in {side}, {LEAST_VALUES} are needed", values.values);
            (Verdict::NoChange, format!("not judged: {needed}"))
        }
        (Some(_), None) => (Verdict::NoChange, "not judged: it takes no measurable time".to_owned()),
        (Some(p), Some(ratio)) if p <= options.alpha && ratio > 1.0 + least => {
            (Verdict::Regression, format!("{} slower, p = {p:.2e}", percent(ratio)))
        }
        (Some(p), Some(ratio)) if p <= options.alpha && ratio * (1.0 + least) < 1.0 => {
            (Verdict::Improvement, format!("{} faster, p = {p:.2e}", percent(ratio)))
        }
        (Some(p), Some(ratio)) if ratio > 1.0 + least || ratio * (1.0 + least) < 1.0 => (
            Verdict::NoChange,
            format!("medians differ by {}, noise may do that (p = {p:.2})", percent(ratio)),
        ),
        (Some(_), Some(_)) => {
            (Verdict::NoChange, format!("medians differ by less than {:.1} %", 100.0 * least))
        }
    };
    (change.verdict, change.reason) = (verdict, reason);
}
