//! CPU check: a selection under any schedule is bit-identical to the oracle of its terms. Every run is repeated with poisoned
//! buffers, and output columns are poisoned.

use gpuforge::indicators::{
    exec::{self, ExecOptions, Series, Stream},
    select,
};

use crate::{
    bars::Dataset,
    compare::{Mismatch, Tolerance, first_difference},
    oracle::Oracle,
    random::Rng,
    schedule::Schedule,
    selection::Selection,
};

/// Poison value of output columns.
const UNWRITTEN: f64 = f64::from_bits(0x4242_dead_beef_4242);

/// Columns of every series.
type Results = Vec<Vec<Vec<f64>>>;

/// A test case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Selection.
    pub selection: Selection,
    /// Input data.
    pub data: Dataset,
    /// Execution schedule.
    pub schedule: Schedule,
}

/// Schedules per selection.
pub const SCHEDULES: usize = 4;

impl Case {
    /// Runs it and compares with the oracle.
    pub fn check(&self, oracle: &mut Oracle) -> Result<(), Failure> {
        let planned = select::plan(&self.selection.wanted().map_err(Failure::Refused)?);
        self.check_planned(oracle, &planned)
    }

    /// The same with an existing plan.
    pub fn check_planned(&self, oracle: &mut Oracle, planned: &select::Selection) -> Result<(), Failure> {
        for poison_buffers in [true, false] {
            let how = ExecOptions { poison_buffers, ..self.schedule.how() };
            let got = results(planned, &self.data, self.schedule.with(how));
            self.compare(oracle, planned, &got)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        oracle: &mut Oracle,
        planned: &select::Selection,
        got: &Results,
    ) -> Result<(), Failure> {
        let mut missing: Vec<&String> = planned.columns.iter().collect();
        for term in &self.selection.terms {
            let expected = oracle.expected(&self.selection, term, &self.data).map_err(Failure::Refused)?;
            for (at, name) in expected.names.iter().enumerate() {
                let Some(column) = planned.columns.iter().position(|c| c == name) else {
                    return Err(Failure::Missing(name.clone()));
                };
                missing.retain(|c| *c != name);
                for (series, (got, want)) in got.iter().zip(&expected.series).enumerate() {
                    let (Some(got), Some(want)) = (got.get(column), want.get(at)) else { continue };
                    if let Some((bar, got, want)) = first_difference(got, want, Tolerance::Bits) {
                        return Err(Failure::Wrong(Mismatch {
                            column: name.clone(),
                            series,
                            bar,
                            got,
                            want,
                        }));
                    }
                }
            }
        }
        missing.first().map_or(Ok(()), |name| Err(Failure::Missing((*name).clone())))
    }
}

/// Why a case fails.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// A wrong value.
    Wrong(Mismatch),
    /// A missing or extra column.
    Missing(String),
    /// The selection is rejected although its terms are valid.
    Refused(String),
    /// The JIT fell back to the kernels.
    Fallback(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Wrong(mismatch) => mismatch.fmt(f),
            Failure::Missing(column) => write!(f, "column {column} is missing or unexpected"),
            Failure::Refused(why) => write!(f, "rejected: {why}"),
            Failure::Fallback(why) => write!(f, "the JIT fell back to the kernels: {why}"),
        }
    }
}

/// Runs a plan under a schedule.
pub fn results(planned: &select::Selection, data: &Dataset, schedule: Schedule) -> Results {
    let outputs = planned.columns.len();
    let mut all: Results = data.series.iter().map(|s| vec![vec![UNWRITTEN; s.len()]; outputs]).collect();
    match schedule {
        Schedule::Stream(how, step) if planned.plan.supports_streaming() => {
            for (columns, series) in all.iter_mut().zip(&data.series) {
                let mut stream = Stream::new(&planned.plan, how);
                let mut from = 0;
                while from < series.len() {
                    let to = (from + step.max(1)).min(series.len());
                    let mut out: exec::Columns<'_> =
                        columns.iter_mut().filter_map(|c| c.get_mut(from..to)).collect();
                    stream.push(&series.between(from, to), &mut out);
                    from = to;
                }
            }
        }
        Schedule::Batch(how) | Schedule::Stream(how, _) => {
            let series: Vec<Series<'_>> = data.as_series();
            let mut columns: Vec<exec::Columns<'_>> =
                all.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
            exec::run_into(&planned.plan, &series, &mut columns, how);
        }
    }
    all
}

/// Checks a selection under several schedules with one plan, as an application that reuses its plan.
pub fn check_selection(
    rng: &mut Rng,
    selection: &Selection,
    data: &Dataset,
    oracle: &mut Oracle,
) -> Result<(), Box<(Case, Failure)>> {
    let longest = data.specs.iter().map(|s| s.bars).max().unwrap_or(1);
    let fail = |schedule, failure| {
        Box::new((Case { selection: selection.clone(), data: data.clone(), schedule }, failure))
    };
    let first = Schedule::Batch(ExecOptions { verify_jit: false, ..ExecOptions::with_threads(1) });
    let planned = match selection.wanted() {
        Ok(wanted) => select::plan(&wanted),
        Err(why) => return Err(fail(first, Failure::Refused(why))),
    };
    let before = exec::jit_fallbacks().count;
    for at in 0..SCHEDULES {
        let schedule = if at == 0 { first } else { Schedule::random(rng, longest) };
        let case = Case { selection: selection.clone(), data: data.clone(), schedule };
        case.check_planned(oracle, &planned).map_err(|failure| fail(schedule, failure))?;
    }
    let after = exec::jit_fallbacks();
    if after.count > before {
        let why = after.reasons.last().cloned().unwrap_or_default();
        return Err(fail(first, Failure::Fallback(why)));
    }
    Ok(())
}
