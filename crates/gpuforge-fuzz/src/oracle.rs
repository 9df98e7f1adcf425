//! Oracle: each term alone through the simplest path: scalar kernels, no JIT, no SIMD, one bar at a time.

use std::collections::HashMap;

use gpuforge::indicators::{
    exec::{self, ExecOptions, Stream},
    kernel::Simd,
    select,
};

use crate::{
    bars::{Columns, Dataset},
    selection::Selection,
};

/// Columns of one series.
type SeriesColumns = Vec<Vec<f64>>;

/// Expected columns of a term.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Of every series.
    pub series: Vec<SeriesColumns>,
}

/// Execution options of the oracle.
pub const ORACLE_OPTIONS: fn() -> ExecOptions = || ExecOptions {
    simd: Simd::SCALAR,
    block: Some(1),
    batched: Some(false),
    jit: false,
    nontemporal_stores: Some(false),
    verify_jit: false,
    ..ExecOptions::with_threads(1)
};

/// Expected results for a dataset, memoised per term.
#[derive(Debug, Default)]
pub struct Oracle {
    memo: HashMap<String, Expected>,
}

impl Oracle {
    /// Expected columns of a term of a selection.
    pub fn expected(
        &mut self,
        selection: &Selection,
        term: &str,
        data: &Dataset,
    ) -> Result<&Expected, String> {
        // The key includes the definitions: the same name may mean something else in another selection.
        let key = format!("{term} | {} | {:?}", selection.definitions.join("; "), selection.convention);
        if !self.memo.contains_key(&key) {
            self.memo.insert(key.clone(), compute(selection, term, data)?);
        }
        self.memo.get(&key).ok_or_else(|| "the oracle forgot".to_owned())
    }
}

fn compute(selection: &Selection, term: &str, data: &Dataset) -> Result<Expected, String> {
    let planned = select::plan(&selection.wanted_of(term)?);
    let one = |columns: &Columns| -> SeriesColumns {
        match planned.plan.supports_streaming() {
            true => bar_by_bar(&planned, columns),
            // Look-ahead columns cannot be streamed.
            false => {
                exec::run(&planned.plan, &[columns.series()], ORACLE_OPTIONS()).pop().unwrap_or_default()
            }
        }
    };
    let series = data.series.iter().map(one).collect();
    Ok(Expected { names: planned.columns, series })
}

fn bar_by_bar(planned: &select::Selection, columns: &Columns) -> SeriesColumns {
    let mut all = vec![vec![f64::NAN; columns.len()]; planned.columns.len()];
    let mut stream = Stream::new(&planned.plan, ORACLE_OPTIONS());
    for t in 0..columns.len() {
        let mut out: exec::Columns<'_> = all.iter_mut().filter_map(|c| c.get_mut(t..=t)).collect();
        stream.push(&columns.between(t, t + 1), &mut out);
    }
    all
}
