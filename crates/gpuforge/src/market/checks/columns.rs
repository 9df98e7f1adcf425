//! Column checks: NaN, infinities, range and constants after the warm-up. One pass for min, max and NaN count; rows are located
//! only where something is wrong.

use gpuforge_frame::write::ColumnValues;
use gpuforge_indicators::select::ColumnMeta;

use super::{QualityProblem, RowRef, SymbolTally, Tallies};

/// Checks of the output columns of the current symbol.
pub(super) struct ColumnChecks {
    all: Vec<Column>,
    /// Number of leading columns that are the bars: their NaN are those of the input.
    own: usize,
}

struct Column {
    meta: ColumnMeta,
    now: State,
    /// Rows after the warm-up and a late start, over all symbols.
    rows: u64,
}

#[derive(Clone, Copy)]
struct State {
    /// Rows that should have a value.
    rows: u64,
    /// Leading NaN of a column that starts late.
    late: u64,
    nan: SymbolTally,
    infinite: SymbolTally,
    outside: SymbolTally,
    first: Option<RowRef>,
    min: f64,
    max: f64,
}

impl Default for State {
    fn default() -> Self {
        State {
            rows: 0,
            late: 0,
            nan: SymbolTally::default(),
            infinite: SymbolTally::default(),
            outside: SymbolTally::default(),
            first: None,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl State {
    fn has_value(&self) -> bool {
        self.min <= self.max
    }

    /// Checks values of a chunk after the warm-up.
    fn check(&mut self, meta: &ColumnMeta, values: &[f64], row_ref: impl Fn(usize) -> RowRef, slack: f64) {
        let MinMax { nan, min, max } = MinMax::of(values);
        let late = match meta.starts_late && nan > 0 && !self.has_value() {
            true => values.iter().take_while(|x| x.is_nan()).count(),
            false => 0,
        };
        self.rows += values.len() as u64;
        self.late += late as u64;
        if !values.is_empty() {
            self.first.get_or_insert_with(|| row_ref(0));
        }
        // Rows are located only where something is wrong.
        let find = |wrong: &dyn Fn(f64) -> bool| {
            let at = values.iter().skip(late).position(|x| wrong(*x)).unwrap_or(0) + late;
            RowRef { value: values.get(at).copied().filter(|x| x.is_finite()), ..row_ref(at) }
        };
        let count = |wrong: &dyn Fn(f64) -> bool| values.iter().filter(|x| wrong(**x)).count() as u64;
        self.nan.add(nan - late as u64, || find(&f64::is_nan));
        if min == f64::NEG_INFINITY || max == f64::INFINITY {
            self.infinite.add(count(&f64::is_infinite), || find(&f64::is_infinite));
        }
        if let Some(range) = meta.range
            && min <= max
            && !(range.contains(min, slack) && range.contains(max, slack))
        {
            // Infinite values are reported separately.
            let outside = |x: f64| x.is_finite() && !range.contains(x, slack);
            self.outside.add(count(&outside), || find(&outside));
        }
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    fn problems(self, meta: &ColumnMeta) -> [(QualityProblem, SymbolTally); 5] {
        let of = self.rows - self.late;
        let values = of - self.nan.count;
        let all = SymbolTally { count: of, of, first: self.first, ..SymbolTally::default() };
        let none = SymbolTally { count: 0, ..all };
        let empty = of > 0 && values == 0;
        let no_pattern = meta.pattern && self.max == 0.0;
        let constant = values > 1 && self.min == self.max && self.min.is_finite() && !no_pattern;
        [
            (QualityProblem::AllNan, if empty { all } else { none }),
            (QualityProblem::Infinite, SymbolTally { of, ..self.infinite }),
            (QualityProblem::OutOfRange, SymbolTally { of, range: meta.range, ..self.outside }),
            (QualityProblem::Nan, if empty { none } else { SymbolTally { of, ..self.nan } }),
            (QualityProblem::Constant, if constant { all } else { none }),
        ]
    }
}

/// NaN count, min and max of values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MinMax {
    nan: u64,
    min: f64,
    max: f64,
}

impl MinMax {
    const NONE: MinMax = MinMax { nan: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    #[inline(always)]
    fn add(&mut self, x: f64) {
        self.nan += u64::from(x.is_nan());
        self.min = if x < self.min { x } else { self.min };
        self.max = if x > self.max { x } else { self.max };
    }

    /// Eight independent accumulators: avoids a loop-carried dependency.
    fn of(values: &[f64]) -> MinMax {
        let mut lanes = [MinMax::NONE; 8];
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            lanes.iter_mut().zip(eight).for_each(|(lane, x)| lane.add(*x));
        }
        lanes.iter_mut().zip(rest).for_each(|(lane, x)| lane.add(*x));
        let join = |a: MinMax, b: &MinMax| MinMax {
            nan: a.nan + b.nan,
            min: a.min.min(b.min),
            max: a.max.max(b.max),
        };
        lanes.iter().fold(MinMax::NONE, join)
    }
}

impl ColumnChecks {
    pub(super) fn new(meta: Vec<ColumnMeta>, own: usize) -> Self {
        let column = |meta| Column { meta, now: State::default(), rows: 0 };
        ColumnChecks { all: meta.into_iter().map(column).collect(), own }
    }

    pub(super) fn name(&self, at: usize) -> &str {
        self.all.get(at).map_or("", |c| c.meta.column.as_str())
    }

    /// Rows of the symbol at hand, of which it has had `offset` before.
    pub(super) fn check(&mut self, time: &[i64], offset: u64, values: &[ColumnValues<'_>], slack: f64) {
        for (column, values) in self.all.iter_mut().zip(values) {
            let from = values.valid_from;
            let row_ref = |at: usize| RowRef {
                row: offset + (from + at) as u64,
                time: time.get(from + at).copied(),
                value: None,
            };
            column.now.check(&column.meta, values.values.get(from..).unwrap_or(&[]), row_ref, slack);
        }
    }

    /// Finishes the symbol; its counts.
    pub(super) fn take(&mut self) -> Vec<(usize, QualityProblem, SymbolTally)> {
        let mut all = Vec::new();
        for (at, column) in self.all.iter_mut().enumerate() {
            let state = std::mem::take(&mut column.now);
            column.rows += state.rows - state.late;
            let own = at < self.own;
            let problems = state.problems(&column.meta).into_iter();
            all.extend(
                problems.filter(|(p, _)| !own || *p != QualityProblem::Nan).map(|(p, tally)| (at, p, tally)),
            );
        }
        all
    }

    /// At the end of the input: columns whose lookback no symbol reached.
    pub(super) fn too_short(&self, found: &mut Tallies, rows: u64) {
        for (at, _) in self.all.iter().enumerate().filter(|(_, c)| c.rows == 0 && rows > 0) {
            let tally = SymbolTally { count: rows, of: rows, ..SymbolTally::default() };
            found.add((QualityProblem::TooShort, Some(at)), tally, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use gpuforge_indicators::catalogue::ValueRange;

    use super::*;

    #[test]
    fn min_max_counts_every_value_once() {
        for n in 0..40u32 {
            let mut values: Vec<f64> = (0..n).map(|i| f64::from(i * 7 % 40)).collect();
            let (min, max) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
            assert_eq!(MinMax::of(&values), MinMax { nan: 0, min, max }, "{n}");
            values.extend([f64::NAN, f64::NAN]);
            assert_eq!(MinMax::of(&values), MinMax { nan: 2, min, max }, "{n}");
        }
    }

    /// A column that waits for a session that never ends has no value anywhere.
    #[test]
    fn column_without_any_value_is_too_short() {
        let late = ColumnMeta { column: "x".to_owned(), range: None, starts_late: true, pattern: false };
        let short = |values: &[f64]| {
            let mut checks = ColumnChecks::new(vec![late.clone()], 0);
            checks.check(&[], 0, &[ColumnValues { values, valid_from: 1 }], 0.0);
            let _ = checks.take();
            let mut found = Tallies::default();
            checks.too_short(&mut found, values.len() as u64);
            found.0.contains_key(&(QualityProblem::TooShort, Some(0)))
        };
        assert!(short(&[f64::NAN; 4]) && short(&[f64::NAN]) && !short(&[f64::NAN, f64::NAN, 1.0]));
    }

    /// Problems of one column in one symbol: count and first row.
    fn problems(meta: ColumnMeta, parts: &[&[f64]]) -> Vec<(QualityProblem, u64, Option<u64>)> {
        let mut checks = ColumnChecks::new(vec![meta], 0);
        let mut offset = 0;
        for part in parts {
            checks.check(
                &[],
                offset,
                &[ColumnValues { values: part, valid_from: 2usize.saturating_sub(offset as usize) }],
                1e-9,
            );
            offset += part.len() as u64;
        }
        let found = checks.take().into_iter().filter(|(_, _, tally)| tally.count > 0);
        found
            .map(|(_, problem, tally)| (problem, tally.count, tally.first.map(|row_ref| row_ref.row)))
            .collect()
    }

    #[test]
    fn counts_and_first_rows_do_not_depend_on_chunking() {
        let nan = f64::NAN;
        let meta =
            |range, starts_late, pattern| ColumnMeta { column: "x".to_owned(), range, starts_late, pattern };
        let percent = Some(ValueRange { min: 0.0, max: 100.0 });
        let all = [nan, nan, 5.0, 101.0, nan, -1.0, f64::INFINITY, nan, 7.0];
        let want = vec![
            (QualityProblem::Infinite, 1, Some(6)),
            (QualityProblem::OutOfRange, 2, Some(3)),
            (QualityProblem::Nan, 2, Some(4)),
        ];
        for at in 0..all.len() {
            let (a, b) = all.split_at(at);
            assert_eq!(problems(meta(percent, false, false), &[a, b]), want, "parted at {at}");
        }
        let late = [nan, nan, nan, nan, 1.0, nan, 2.0];
        assert_eq!(problems(meta(None, true, false), &[&late]), [(QualityProblem::Nan, 1, Some(5))]);
        assert_eq!(problems(meta(None, false, false), &[&late]), [(QualityProblem::Nan, 3, Some(2))]);
        assert_eq!(problems(meta(None, false, false), &[&[nan; 5]]), [(QualityProblem::AllNan, 3, Some(2))]);
        assert_eq!(problems(meta(None, true, false), &[&[nan; 5]]), [], "it never started: too short");
        assert_eq!(
            problems(meta(None, false, false), &[&[3.0; 5]]),
            [(QualityProblem::Constant, 3, Some(2))]
        );
        assert_eq!(problems(meta(None, false, true), &[&[0.0; 5]]), [], "no pattern");
        assert_eq!(
            problems(meta(None, false, true), &[&[100.0; 5]]),
            [(QualityProblem::Constant, 3, Some(2))]
        );
        assert_eq!(problems(meta(percent, false, false), &[&[nan, nan]]), [], "nothing but warm-up");
    }
}
