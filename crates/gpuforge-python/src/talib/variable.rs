//! Variable-period moving average (MAVP) with long windows: only periods that occur are computed, each over the whole series.

use std::{collections::BTreeSet, sync::Arc};

use gpuforge::indicators::{
    exec::{self, Columns, Series},
    select::Selection,
};

use super::{BoundFunction, Precision, exec_options, moving_average, table::WINDOWS};

impl BoundFunction {
    /// Longest window, and the limit up to which all shorter ones are planned at once.
    fn window(&self, params: &[f64]) -> Option<(usize, usize)> {
        let (_, at, max) = WINDOWS.iter().find(|(name, ..)| *name == self.function.name)?;
        Some((params.get(*at).map_or(0, |x| *x as usize), *max))
    }

    /// Whether the series is too short for the longest window.
    pub(super) fn is_short(&self, rows: usize, params: &[f64]) -> bool {
        let long = self.window(params).is_some_and(|(window, _)| window > rows);
        // Some averages start before their window is full.
        long && self.widest(params).plan.starts().first().is_some_and(|start| *start >= rows)
    }

    /// Whether the window is too long for one plan of all shorter ones.
    pub(super) fn is_wide(&self, params: &[f64]) -> bool {
        self.window(params).is_some_and(|(window, max)| window > max)
    }

    /// The average with the longest window, which determines the first value.
    pub(super) fn widest(&self, params: &[f64]) -> Arc<Selection> {
        let kind = params.get(2).map_or(0, |x| *x as usize);
        Arc::new(moving_average(self.window(params).map_or(1, |(window, _)| window), kind))
    }

    /// MAVP over prices and periods. A shorter average is started later, so that all have their first value at the same bar.
    pub(super) fn variable_period(
        &self,
        slices: &[&[f64]],
        begin: usize,
        params: &[f64],
        precision: Precision,
    ) -> Vec<f64> {
        let [min, max, kind] = [0, 1, 2].map(|at| params.get(at).map_or(0, |x| *x as usize));
        let [prices, periods] = [0, 1].map(|at| slices.get(at).copied().unwrap_or(&[]));
        let first = |plan: &Selection| plan.plan.starts().first().copied().unwrap_or(0);
        let start = begin + first(&moving_average(max, kind));
        // NaN selects the shortest period.
        let period = |x: f64| if x >= min as f64 { (x as usize).min(max) } else { min };
        let used: BTreeSet<usize> = periods.iter().skip(start).map(|x| period(*x)).collect();
        let mut column = vec![f64::NAN; prices.len()];
        let mut scratch = vec![0.0; prices.len()];
        for n in used {
            let selection = moving_average(n, kind);
            let from = start - first(&selection);
            let (Some(close), Some(to)) = (prices.get(from..), scratch.get_mut(from..)) else { continue };
            let series = Series { close, ..Series::default() };
            let columns: Columns<'_> = vec![to];
            let options = exec_options(close.len(), precision);
            exec::run_into(&selection.plan, &[series], &mut [columns], options);
            for ((to, x), p) in column.iter_mut().zip(&scratch).zip(periods).skip(start) {
                if period(*p) == n {
                    *to = *x;
                }
            }
        }
        column
    }
}
