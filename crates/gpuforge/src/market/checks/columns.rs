//! Checks of output columns: one pass per part for NaN, min and max; places are looked up only where something is wrong.
//! Is every value after the warm-up what it can be?

use forge_frame::write::Values;
use forge_indicators::select::Facts;

use super::{Found, Problem, Seen, Spot};

/// The columns of a run and what was seen of them in the symbol at hand.
pub(super) struct ColumnChecks {
    all: Vec<Column>,
    /// Columns that are the bars themselves: their NaN are those of the input.
    own: usize,
}

struct Column {
    facts: Facts,
    now: State,
    /// Rows after the warm-up, over all symbols.
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
    fn see(&mut self, facts: &Facts, values: &[f64], spot: impl Fn(usize) -> Spot, slack: f64) {
        let (mut nan, mut min, mut max) = (0u64, f64::INFINITY, f64::NEG_INFINITY);
        for x in values {
            nan += u64::from(x.is_nan());
            min = if *x < min { *x } else { min };
            max = if *x > max { *x } else { max };
        }
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

    fn problems(self, facts: &Facts) -> [(Problem, Seen); 5] {
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

impl ColumnChecks {
    pub(super) fn new(facts: Vec<Facts>, own: usize) -> Self {
        let column = |facts| Column { facts, now: State::default(), rows: 0 };
        ColumnChecks { all: facts.into_iter().map(column).collect(), own }
    }

    pub(super) fn name(&self, at: usize) -> &str {
        self.all.get(at).map_or("", |c| c.facts.column.as_str())
    }

    /// Rows of the symbol at hand, of which it has had `offset` before.
    pub(super) fn see(&mut self, time: &[i64], offset: u64, values: &[Values<'_>], slack: f64) {
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
            column.rows += state.rows;
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
