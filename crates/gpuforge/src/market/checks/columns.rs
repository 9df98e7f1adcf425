//! Checks of output columns: one pass per part for NaN, min and max; places are looked up only where something is wrong.
//! Is every value after the warm-up what it can be?

use gpuforge_frame::write::ColumnValues;
use gpuforge_indicators::select::ColumnMeta;

use super::{Found, Problem, Seen, Spot};

/// The columns of a run and what was seen of them in the symbol at hand.
pub(super) struct ColumnChecks {
    all: Vec<Column>,
    /// Columns that are the bars themselves: their NaN are those of the input.
    own: usize,
}

struct Column {
    facts: ColumnMeta,
    now: State,
    /// Rows after the warm-up, and after what a late start waits for, over all symbols.
    rows: u64,
}

#[derive(Clone, Copy)]
struct State {
    /// Rows that should have a value.
    rows: u64,
    /// NaN before any value, of a column that starts late.
    late: u64,
    nan: Seen,
    infinite: Seen,
    outside: Seen,
    first: Option<Spot>,
    min: f64,
    max: f64,
}

impl Default for State {
    fn default() -> Self {
        State {
            rows: 0,
            late: 0,
            nan: Seen::default(),
            infinite: Seen::default(),
            outside: Seen::default(),
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

    /// Values of a part after the warm-up.
    fn see(&mut self, facts: &ColumnMeta, values: &[f64], spot: impl Fn(usize) -> Spot, slack: f64) {
        let Span { nan, min, max } = Span::of(values);
        let late = match facts.starts_late && nan > 0 && !self.has_value() {
            true => values.iter().take_while(|x| x.is_nan()).count(),
            false => 0,
        };
        self.rows += values.len() as u64;
        self.late += late as u64;
        if !values.is_empty() {
            self.first.get_or_insert_with(|| spot(0));
        }
        // A value is looked for only where one is wrong.
        let find = |wrong: &dyn Fn(f64) -> bool| {
            let at = values.iter().skip(late).position(|x| wrong(*x)).unwrap_or(0) + late;
            Spot { value: values.get(at).copied().filter(|x| x.is_finite()), ..spot(at) }
        };
        let count = |wrong: &dyn Fn(f64) -> bool| values.iter().filter(|x| wrong(**x)).count() as u64;
        self.nan.add(nan - late as u64, || find(&f64::is_nan));
        if min == f64::NEG_INFINITY || max == f64::INFINITY {
            self.infinite.add(count(&f64::is_infinite), || find(&f64::is_infinite));
        }
        if let Some(range) = facts.range
            && min <= max
            && !(range.contains(min, slack) && range.contains(max, slack))
        {
            // An infinite value is a problem of its own.
            let outside = |x: f64| x.is_finite() && !range.contains(x, slack);
            self.outside.add(count(&outside), || find(&outside));
        }
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    fn problems(self, facts: &ColumnMeta) -> [(Problem, Seen); 5] {
        let of = self.rows - self.late;
        let values = of - self.nan.count;
        let all = Seen { count: of, of, first: self.first, ..Seen::default() };
        let none = Seen { count: 0, ..all };
        let empty = of > 0 && values == 0;
        let silent = facts.pattern && self.max == 0.0;
        let constant = values > 1 && self.min == self.max && self.min.is_finite() && !silent;
        [
            (Problem::AllNan, if empty { all } else { none }),
            (Problem::Infinite, Seen { of, ..self.infinite }),
            (Problem::OutOfRange, Seen { of, range: facts.range, ..self.outside }),
            (Problem::Nan, if empty { none } else { Seen { of, ..self.nan } }),
            (Problem::Constant, if constant { all } else { none }),
        ]
    }
}

/// NaN, min and max of values. NaN are neither.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    nan: u64,
    min: f64,
    max: f64,
}

impl Span {
    const NONE: Span = Span { nan: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    #[inline(always)]
    fn add(&mut self, x: f64) {
        self.nan += u64::from(x.is_nan());
        self.min = if x < self.min { x } else { self.min };
        self.max = if x > self.max { x } else { self.max };
    }

    /// Eight values at once: one min after the other would wait for the last.
    fn of(values: &[f64]) -> Span {
        let mut lanes = [Span::NONE; 8];
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            lanes.iter_mut().zip(eight).for_each(|(lane, x)| lane.add(*x));
        }
        lanes.iter_mut().zip(rest).for_each(|(lane, x)| lane.add(*x));
        let join =
            |a: Span, b: &Span| Span { nan: a.nan + b.nan, min: a.min.min(b.min), max: a.max.max(b.max) };
        lanes.iter().fold(Span::NONE, join)
    }
}

impl ColumnChecks {
    pub(super) fn new(facts: Vec<ColumnMeta>, own: usize) -> Self {
        let column = |facts| Column { facts, now: State::default(), rows: 0 };
        ColumnChecks { all: facts.into_iter().map(column).collect(), own }
    }

    pub(super) fn name(&self, at: usize) -> &str {
        self.all.get(at).map_or("", |c| c.facts.column.as_str())
    }

    /// Rows of the symbol at hand, of which it has had `offset` before.
    pub(super) fn see(&mut self, time: &[i64], offset: u64, values: &[ColumnValues<'_>], slack: f64) {
        for (column, values) in self.all.iter_mut().zip(values) {
            let from = values.valid_from;
            let spot = |at: usize| Spot {
                row: offset + (from + at) as u64,
                time: time.get(from + at).copied(),
                value: None,
            };
            column.now.see(&column.facts, values.values.get(from..).unwrap_or(&[]), spot, slack);
        }
    }

    /// The symbol ends: what was seen in it.
    pub(super) fn take(&mut self) -> Vec<(usize, Problem, Seen)> {
        let mut all = Vec::new();
        for (at, column) in self.all.iter_mut().enumerate() {
            let state = std::mem::take(&mut column.now);
            column.rows += state.rows - state.late;
            let own = at < self.own;
            let problems = state.problems(&column.facts).into_iter();
            all.extend(problems.filter(|(p, _)| !own || *p != Problem::Nan).map(|(p, seen)| (at, p, seen)));
        }
        all
    }

    /// The input ends: columns that no symbol was long enough for.
    pub(super) fn too_short(&self, found: &mut Found, rows: u64) {
        for (at, _) in self.all.iter().enumerate().filter(|(_, c)| c.rows == 0 && rows > 0) {
            let seen = Seen { count: rows, of: rows, ..Seen::default() };
            found.add((Problem::TooShort, Some(at)), seen, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use gpuforge_indicators::catalogue::ValueRange;

    use super::*;

    #[test]
    fn a_span_has_every_value_once() {
        for n in 0..40u32 {
            let mut values: Vec<f64> = (0..n).map(|i| f64::from(i * 7 % 40)).collect();
            let (min, max) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
            assert_eq!(Span::of(&values), Span { nan: 0, min, max }, "{n}");
            values.extend([f64::NAN, f64::NAN]);
            assert_eq!(Span::of(&values), Span { nan: 2, min, max }, "{n}");
        }
    }

    /// A column that waits for a session that never ends has no value anywhere.
    #[test]
    fn a_column_without_any_value_is_too_short() {
        let late = ColumnMeta { column: "x".to_owned(), range: None, starts_late: true, pattern: false };
        let short = |values: &[f64]| {
            let mut checks = ColumnChecks::new(vec![late.clone()], 0);
            checks.see(&[], 0, &[ColumnValues { values, valid_from: 1 }], 0.0);
            let _ = checks.take();
            let mut found = Found::default();
            checks.too_short(&mut found, values.len() as u64);
            found.0.contains_key(&(Problem::TooShort, Some(0)))
        };
        assert!(short(&[f64::NAN; 4]) && short(&[f64::NAN]) && !short(&[f64::NAN, f64::NAN, 1.0]));
    }

    /// Problems of one column in one symbol: count and first row.
    fn problems(facts: ColumnMeta, parts: &[&[f64]]) -> Vec<(Problem, u64, Option<u64>)> {
        let mut checks = ColumnChecks::new(vec![facts], 0);
        let mut offset = 0;
        for part in parts {
            checks.see(
                &[],
                offset,
                &[ColumnValues { values: part, valid_from: 2usize.saturating_sub(offset as usize) }],
                1e-9,
            );
            offset += part.len() as u64;
        }
        let found = checks.take().into_iter().filter(|(_, _, seen)| seen.count > 0);
        found.map(|(_, problem, seen)| (problem, seen.count, seen.first.map(|spot| spot.row))).collect()
    }

    #[test]
    fn problems_have_counts_and_first_rows_in_any_parts() {
        let nan = f64::NAN;
        let facts =
            |range, starts_late, pattern| ColumnMeta { column: "x".to_owned(), range, starts_late, pattern };
        let percent = Some(ValueRange { min: 0.0, max: 100.0 });
        let all = [nan, nan, 5.0, 101.0, nan, -1.0, f64::INFINITY, nan, 7.0];
        let want = vec![
            (Problem::Infinite, 1, Some(6)),
            (Problem::OutOfRange, 2, Some(3)),
            (Problem::Nan, 2, Some(4)),
        ];
        for at in 0..all.len() {
            let (a, b) = all.split_at(at);
            assert_eq!(problems(facts(percent, false, false), &[a, b]), want, "parted at {at}");
        }
        let late = [nan, nan, nan, nan, 1.0, nan, 2.0];
        assert_eq!(problems(facts(None, true, false), &[&late]), [(Problem::Nan, 1, Some(5))]);
        assert_eq!(problems(facts(None, false, false), &[&late]), [(Problem::Nan, 3, Some(2))]);
        assert_eq!(problems(facts(None, false, false), &[&[nan; 5]]), [(Problem::AllNan, 3, Some(2))]);
        assert_eq!(problems(facts(None, true, false), &[&[nan; 5]]), [], "it never started: too short");
        assert_eq!(problems(facts(None, false, false), &[&[3.0; 5]]), [(Problem::Constant, 3, Some(2))]);
        assert_eq!(problems(facts(None, false, true), &[&[0.0; 5]]), [], "no pattern");
        assert_eq!(problems(facts(None, false, true), &[&[100.0; 5]]), [(Problem::Constant, 3, Some(2))]);
        assert_eq!(problems(facts(percent, false, false), &[&[nan, nan]]), [], "nothing but warm-up");
    }
}
