//! Variable-period moving average (MAVP) with long windows: only periods that occur are computed, each over the whole series.

use std::{collections::BTreeSet, sync::Arc};

use gpuforge::indicators::{
    exec::{self, Columns, Series},
    select::Selection,
};

use super::{BoundFunction, exec_options, mean, table::WINDOWS};

impl BoundFunction {
    /// The window that every shorter one is planned for, and how long it may be for that.
    fn window(&self, params: &[f64]) -> Option<(usize, usize)> {
        let (_, at, most) = WINDOWS.iter().find(|(name, ..)| *name == self.function.name)?;
        Some((params.get(*at).map_or(0, |x| *x as usize), *most))
    }

    /// Is the series too short for a window that should not even be planned?
    pub(super) fn is_short(&self, rows: usize, params: &[f64]) -> bool {
        let long = self.window(params).is_some_and(|(window, _)| window > rows);
        // Some means begin before their window is full.
        long && self.widest(params).plan.starts().first().is_some_and(|start| *start >= rows)
    }

    /// Is the window too long for a plan of all that are shorter?
    pub(super) fn is_wide(&self, params: &[f64]) -> bool {
        self.window(params).is_some_and(|(window, most)| window > most)
    }

    /// The mean of the longest window, which says where values begin.
    pub(super) fn widest(&self, params: &[f64]) -> Arc<Selection> {
        let kind = params.get(2).map_or(0, |x| *x as usize);
        Arc::new(mean(self.window(params).map_or(1, |(window, _)| window), kind))
    }

    /// Values for arrays of prices and periods. A mean of a shorter period begins later, so that all have their first value at
    /// the same bar.
    pub(super) fn of_many(&self, slices: &[&[f64]], begin: usize, params: &[f64]) -> Vec<f64> {
        let [least, most, kind] = [0, 1, 2].map(|at| params.get(at).map_or(0, |x| *x as usize));
        let [prices, periods] = [0, 1].map(|at| slices.get(at).copied().unwrap_or(&[]));
        let first = |plan: &Selection| plan.plan.starts().first().copied().unwrap_or(0);
        let start = begin + first(&mean(most, kind));
        // A NaN is no period and gets the shortest.
        let period = |x: f64| if x >= least as f64 { (x as usize).min(most) } else { least };
        let seen: BTreeSet<usize> = periods.iter().skip(start).map(|x| period(*x)).collect();
        let mut column = vec![f64::NAN; prices.len()];
        let mut scratch = vec![0.0; prices.len()];
        for n in seen {
            let selection = mean(n, kind);
            let from = start - first(&selection);
            let (Some(close), Some(to)) = (prices.get(from..), scratch.get_mut(from..)) else { continue };
            let series = Series { close, ..Series::default() };
            let columns: Columns<'_> = vec![to];
            exec::run_into(&selection.plan, &[series], &mut [columns], exec_options(close.len()));
            for ((to, x), p) in column.iter_mut().zip(&scratch).zip(periods).skip(start) {
                if period(*p) == n {
                    *to = *x;
                }
            }
        }
        column
    }
}
