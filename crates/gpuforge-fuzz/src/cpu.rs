//! CPU campaign: does a selection give, by any schedule, what its terms give by themselves? Every run twice, once with poisoned
//! buffers; results are written into poisoned columns.

use gpuforge::indicators::{
    exec::{self, How, Series, Stream},
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

/// What a column holds before it is written: a value that nothing computes.
const UNWRITTEN: f64 = f64::from_bits(0x4242_dead_beef_4242);

/// Columns of every series.
type Results = Vec<Vec<Vec<f64>>>;

/// One thing to try.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is asked for.
    pub selection: Selection,
    /// Of which bars.
    pub data: Dataset,
    /// How it is run.
    pub schedule: Schedule,
}

/// Schedules that each selection is tried with.
pub const SCHEDULES: usize = 4;

impl Case {
    /// Runs it and compares.
    pub fn check(&self, oracle: &mut Oracle) -> Result<(), Failure> {
        let planned = select::plan(&self.selection.wanted().map_err(Failure::Refused)?);
        self.check_planned(oracle, &planned)
    }

    /// The same for a selection that is planned already.
    pub fn check_planned(&self, oracle: &mut Oracle, planned: &select::Selection) -> Result<(), Failure> {
        for poison in [true, false] {
            let how = How { poison, ..self.schedule.how() };
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
    /// A value is not what it should be.
    Wrong(Mismatch),
    /// A column is not there, or one is that nobody asked for.
    Missing(String),
    /// The selection cannot be read, although its terms could.
    Refused(String),
    /// JIT code was given up.
    Fallback(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Wrong(mismatch) => mismatch.fmt(f),
            Failure::Missing(column) => write!(f, "column {column} is missing, or too many"),
            Failure::Refused(why) => write!(f, "refused: {why}"),
            Failure::Fallback(why) => write!(f, "JIT code was given up: {why}"),
        }
    }
}

/// Runs a plan by a schedule.
pub fn results(planned: &select::Selection, data: &Dataset, schedule: Schedule) -> Results {
    let outputs = planned.columns.len();
    let mut all: Results = data.series.iter().map(|s| vec![vec![UNWRITTEN; s.len()]; outputs]).collect();
    match schedule {
        Schedule::Stream(how, step) if planned.plan.in_parts() => {
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

/// Several schedules for one selection, all by one plan, as a program that keeps its plan would run them.
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
    let first = Schedule::Batch(How { verify: false, ..How::on(1) });
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
