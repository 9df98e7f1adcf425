//! Look-ahead test: the newest bars are removed, and no earlier feature value may change.

use gpuforge_indicators::exec::Series;
use gpuforge_indicators_gpu::features::{Features, HostRows};

use super::FeatureSelection;
use crate::error::TrainError;

/// Series that are tested, and the fractions of each that are kept.
const SERIES: usize = 2;
const CUTS: [f64; 3] = [0.41, 0.67, 0.93];
/// A long series is tested on its last bars only.
const BARS: usize = 8192;
/// Relative tolerance: values computed in another order round differently.
const TOLERANCE: f32 = 1e-5;

/// Compares features of full series with features of the same series truncated at the end.
pub(crate) fn check(selection: &FeatureSelection, series: &[Series<'_>]) -> Result<(), TrainError> {
    let mut longest: Vec<usize> = (0..series.len()).collect();
    longest.sort_by_key(|i| std::cmp::Reverse(series.get(*i).map_or(0, |s| s.close.len())));
    for at in longest.into_iter().take(SERIES) {
        let Some(whole) =
            series.get(at).map(|s| slice_bars(s, s.close.len().saturating_sub(BARS)..s.close.len()))
        else {
            continue;
        };
        let full = Features::on_cpu(&selection.feature_spec(), &[whole])?;
        let first = full.series_rows().first().map_or(0, |s| s.first_bar);
        let full = full.to_host()?;
        for share in CUTS {
            let bars = (whole.close.len() as f64 * share) as usize;
            let cut =
                Features::on_cpu(&selection.feature_spec(), &[slice_bars(&whole, 0..bars)])?.to_host()?;
            if let Some((row, column)) = first_difference(&full, &cut) {
                let value = |rows: &HostRows| rows.values.get(row * rows.columns + column).copied();
                return Err(TrainError::LooksAhead {
                    column: selection.columns.get(column).cloned().unwrap_or_default(),
                    series: at,
                    bar: first + row,
                    full: value(&full).unwrap_or(f32::NAN),
                    cut: value(&cut).unwrap_or(f32::NAN),
                });
            }
        }
    }
    Ok(())
}

fn slice_bars<'a>(series: &Series<'a>, bars: std::ops::Range<usize>) -> Series<'a> {
    let of = |column: &'a [f64]| column.get(bars.clone()).unwrap_or_default();
    Series {
        open: of(series.open),
        high: of(series.high),
        low: of(series.low),
        close: of(series.close),
        volume: of(series.volume),
        time: of(series.time),
    }
}

/// Row and column of the first value that differs.
fn first_difference(full: &HostRows, cut: &HostRows) -> Option<(usize, usize)> {
    let width = full.columns.max(1);
    let off =
        full.values.iter().zip(&cut.values).position(|(f, c)| (f - c).abs() > TOLERANCE * (1.0 + f.abs()));
    off.map(|at| (at / width, at % width))
}
