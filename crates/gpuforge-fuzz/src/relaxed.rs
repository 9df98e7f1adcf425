//! Relaxed arithmetic: is one long series, scanned eight bars at a time or cut into chunks, what it is in order, to the stated
//! digits? Rows by themselves, as `gpuforge.talib` calls them, on prices as markets have them.

use gpuforge::indicators::{exec::How, select};

use crate::{
    bars::{Columns, Dataset, Shape},
    compare::{Mismatch, Tolerance, first_difference},
    cpu::{Case, Failure, results},
    oracle::Oracle,
    random::Rng,
    schedule::Schedule,
    selection::Selection,
};

/// The stated tolerance, as a share of the column's scale, for prices that move by as much as they are. A difference of two means
/// loses as many digits as the level is above the moves: see [`conditioned`].
const TOLERANCE: f64 = 1e-11;
/// Rows of a column that may hang on a last digit: which of two nearly equal values is larger.
const HANGING: f64 = 0.02;

/// Tries one term of a selection, if it is of that kind. How many were tried.
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
    let how = How { loose: true, compiled: rng.percent(80), verify: false, ..How::on(1) };
    let case = Case { selection, data: data.clone(), schedule: Schedule::Batch(how) };
    match compare(&case, oracle) {
        Ok(()) => Ok(1),
        Err(failure) => Err(Box::new((case, failure))),
    }
}

/// Does it still differ?
pub fn fails(case: &Case, oracle: &mut Oracle) -> bool {
    compare(case, oracle).is_err()
}

fn compare(case: &Case, oracle: &mut Oracle) -> Result<(), Failure> {
    let planned = select::plan(&case.selection.wanted().map_err(Failure::Refused)?);
    let got = results(&planned, &case.data, case.schedule);
    for term in &case.selection.terms {
        let expected = oracle.expected(&case.selection, term, &case.data).map_err(Failure::Refused)?;
        for (series, (got, want)) in got.iter().zip(&expected.series).enumerate() {
            let condition = case.data.series.get(series).map_or(1.0, conditioned);
            for ((got, want), name) in got.iter().zip(want).zip(&expected.names) {
                let tolerance = TOLERANCE * condition;
                let differ = first_difference(got, want, Tolerance::OfScale(tolerance));
                let Some((bar, g, w)) = differ else { continue };
                if hanging(got, want, tolerance) > HANGING * want.len() as f64 {
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

/// The level of the closes over their range, at least 1: how much a difference of two means of them cancels.
fn conditioned(bars: &Columns) -> f64 {
    let [.., close, _] = &bars.prices;
    let (min, max) =
        close.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    (max.abs() / (max - min).max(f64::MIN_POSITIVE)).max(1.0)
}

/// Rows that are apart.
fn hanging(got: &[f64], want: &[f64], tolerance: f64) -> f64 {
    let scale = want.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()));
    let near = |g: f64, w: f64| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * scale;
    got.iter().zip(want).filter(|(g, w)| !near(**g, **w)).count() as f64
}
