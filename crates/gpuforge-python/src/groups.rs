//! Which rows are one series? Rows of the same key in time order: where they lie if that is how they lie, else by a permutation.

use std::{collections::HashMap, ops::Range};

/// How rows are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The series, one after the other.
    pub(crate) parts: Vec<Range<usize>>,
    /// Which row comes where, if rows have to change places.
    pub(crate) order: Option<Vec<usize>>,
}

impl Groups {
    /// Series of `rows` rows by the codes of their keys (none is one series), each in the order of its times (none is the order
    /// of the rows). Keys come in the order of their first rows; rows of the same time stay in their order.
    pub(crate) fn of(rows: usize, codes: Option<&[i64]>, times: Option<&[i64]>) -> Groups {
        let runs = codes.map_or_else(|| std::iter::once(0..rows).collect(), runs);
        let together = codes.is_none_or(|codes| {
            let mut seen = std::collections::HashSet::new();
            runs.iter().all(|run| codes.get(run.start).is_none_or(|code| seen.insert(*code)))
        });
        let ascending = |run: &Range<usize>| {
            times.and_then(|times| times.get(run.clone())).is_none_or(|times| times.is_sorted())
        };
        if together && runs.iter().all(ascending) {
            return Groups { parts: runs, order: None };
        }
        let mut ranks: HashMap<i64, usize> = HashMap::new();
        let mut series: Vec<Vec<usize>> = Vec::new();
        for run in runs {
            let code = codes.and_then(|codes| codes.get(run.start)).copied().unwrap_or(0);
            let rank = *ranks.entry(code).or_insert(series.len());
            if rank == series.len() {
                series.push(Vec::new());
            }
            if let Some(one) = series.get_mut(rank) {
                one.extend(run);
            }
        }
        let mut parts = Vec::with_capacity(series.len());
        let mut order = Vec::with_capacity(rows);
        for mut one in series {
            if let Some(times) = times {
                one.sort_by_key(|row| times.get(*row).copied());
            }
            parts.push(order.len()..order.len() + one.len());
            order.append(&mut one);
        }
        Groups { parts, order: Some(order) }
    }
}

/// Stretches of equal codes.
fn runs(codes: &[i64]) -> Vec<Range<usize>> {
    let mut begin = 0;
    let lengths = codes.chunk_by(|a, b| a == b).map(<[i64]>::len);
    lengths
        .map(|n| {
            let run = begin..begin + n;
            begin += n;
            run
        })
        .collect()
}

/// Values in the order of the series.
pub(crate) fn gather(values: &[f64], order: &[usize]) -> Vec<f64> {
    order.iter().map(|row| values.get(*row).copied().unwrap_or(f64::NAN)).collect()
}

/// Values of the series back at their rows.
pub(crate) fn scatter(values: &[f64], order: &[usize]) -> Vec<f64> {
    let mut rows = vec![f64::NAN; values.len()];
    for (x, row) in values.iter().zip(order) {
        if let Some(slot) = rows.get_mut(*row) {
            *slot = *x;
        }
    }
    rows
}
