//! Relaxed floating point check: prefix-scanned and chunked recurrences match the sequential oracle within the documented
//! tolerance. Single rows, as `gpuforge.talib` calls them, on realistic prices.

use gpuforge::indicators::{exec::ExecOptions, select};

use crate::{
    bars::{Columns, Dataset, Shape},
    compare::{Mismatch, Tolerance, first_difference},
    cpu::{Case, Failure, results},
    oracle::Oracle,
    random::Rng,
    schedule::Schedule,
    selection::Selection,
};

/// Documented tolerance relative to the column's scale, for a condition number of 1. A difference of two averages loses as many
/// digits as the level exceeds the moves: see [`condition_number`].
const TOLERANCE: f64 = 1e-11;
/// Max fraction of values that may be decided by the last digit (comparisons of nearly equal values).
const MAX_TIE_FRACTION: f64 = 0.02;

/// Checks one term of a selection, if applicable; returns the number of checks.
pub fn check(
    rng: &mut Rng,
    selection: &Selection,
    data: &Dataset,
    oracle: &mut Oracle,
) -> Result<usize, Box<(Case, Failure)>> {
    let plain = |shape| matches!(shape, Shape::Walk | Shape::Ticks | Shape::HighLevel);
    let fits = data.specs.len() == 1 && data.specs.iter().all(|s| plain(s.shape) && s.bars > 100);
    let term = selection.terms.get(rng.below(selection.terms.len()));
    let Some(term) = term.filter(|term| fits && !term.contains("source=") && !term.starts_with('d')) else {
        return Ok(0);
    };
    let selection = Selection { definitions: Vec::new(), terms: vec![term.clone()], ..selection.clone() };
    if selection.wanted().is_err() {
        return Ok(0);
    }
    let how = ExecOptions {
        relaxed_fp: true,
        jit: rng.percent(80),
        verify_jit: false,
        ..ExecOptions::with_threads(1)
    };
    let case = Case { selection, data: data.clone(), schedule: Schedule::Batch(how) };
    match compare(&case, oracle) {
        Ok(()) => Ok(1),
        Err(failure) => Err(Box::new((case, failure))),
    }
}

/// Does the case still fail?
pub fn fails(case: &Case, oracle: &mut Oracle) -> bool {
    compare(case, oracle).is_err()
}

fn compare(case: &Case, oracle: &mut Oracle) -> Result<(), Failure> {
    let planned = select::plan(&case.selection.wanted().map_err(Failure::Refused)?);
    let got = results(&planned, &case.data, case.schedule);
    for term in &case.selection.terms {
        let expected = oracle.expected(&case.selection, term, &case.data).map_err(Failure::Refused)?;
        for (series, (got, want)) in got.iter().zip(&expected.series).enumerate() {
            let condition = case.data.series.get(series).map_or(1.0, condition_number);
            for ((got, want), name) in got.iter().zip(want).zip(&expected.names) {
                let tolerance = TOLERANCE * condition;
                let differ = first_difference(got, want, Tolerance::OfScale(tolerance));
                let Some((bar, g, w)) = differ else { continue };
                if count_beyond(got, want, tolerance) > MAX_TIE_FRACTION * want.len() as f64 {
                    return Err(Failure::Wrong(Mismatch {
                        column: name.clone(),
                        series,
                        bar,
                        got: g,
                        want: w,
                    }));
                }
            }
        }
    }
    Ok(())
}

/// Condition number: level of the closes over their range, at least 1, the cancellation of a difference of two averages.
fn condition_number(bars: &Columns) -> f64 {
    let [.., close, _] = &bars.prices;
    let (min, max) =
        close.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    (max.abs() / (max - min).max(f64::MIN_POSITIVE)).max(1.0)
}

/// Number of values beyond the tolerance.
fn count_beyond(got: &[f64], want: &[f64], tolerance: f64) -> f64 {
    let scale = want.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()));
    let near = |g: f64, w: f64| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * scale;
    got.iter().zip(want).filter(|(g, w)| !near(**g, **w)).count() as f64
}
