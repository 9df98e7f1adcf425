//! The oracle: what does each term give by itself, through the plainest path there is? Scalar kernels, no JIT, no SIMD, one bar
//! at a time.

use std::collections::HashMap;

use gpuforge::indicators::{
    exec::{self, How, Stream},
    kernel::Simd,
    select,
};

use crate::{
    bars::{Columns, Dataset},
    selection::Selection,
};

/// Columns of one series.
type SeriesColumns = Vec<Vec<f64>>;

/// What a term gives: names of its columns, and the columns of every series.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Of every series.
    pub series: Vec<SeriesColumns>,
}

/// The plainest way to run a plan.
pub const PLAIN: fn() -> How = || How {
    simd: Simd::SCALAR,
    block: Some(1),
    side_by_side: Some(false),
    compiled: false,
    past: Some(false),
    verify: false,
    ..How::on(1)
};

/// Answers for a dataset; each term is computed once.
#[derive(Debug, Default)]
pub struct Oracle {
    known: HashMap<String, Expected>,
}

impl Oracle {
    /// What a term of a selection gives.
    pub fn expected(
        &mut self,
        selection: &Selection,
        term: &str,
        data: &Dataset,
    ) -> Result<&Expected, String> {
        // A definition of the same name may mean something else elsewhere.
        let key = format!("{term} | {} | {:?}", selection.definitions.join("; "), selection.convention);
        if !self.known.contains_key(&key) {
            self.known.insert(key.clone(), compute(selection, term, data)?);
        }
        self.known.get(&key).ok_or_else(|| "the oracle forgot".to_owned())
    }
}

fn compute(selection: &Selection, term: &str, data: &Dataset) -> Result<Expected, String> {
    let planned = select::plan(&selection.wanted_of(term)?);
    let one = |columns: &Columns| -> SeriesColumns {
        match planned.plan.in_parts() {
            true => bar_by_bar(&planned, columns),
            // A column that rests on all of its series cannot come in parts.
            false => exec::run(&planned.plan, &[columns.series()], PLAIN()).pop().unwrap_or_default(),
        }
    };
    let series = data.series.iter().map(one).collect();
    Ok(Expected { names: planned.columns, series })
}

fn bar_by_bar(planned: &select::Selection, columns: &Columns) -> SeriesColumns {
    let mut all = vec![vec![f64::NAN; columns.len()]; planned.columns.len()];
    let mut stream = Stream::new(&planned.plan, PLAIN());
    for t in 0..columns.len() {
        let mut out: exec::Columns<'_> = all.iter_mut().filter_map(|c| c.get_mut(t..=t)).collect();
        stream.push(&columns.between(t, t + 1), &mut out);
    }
    all
}
