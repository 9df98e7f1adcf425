//! Which columns say nothing? Seen as they are written, symbol by symbol.

use forge_frame::{Bars, write::Values};

use super::symbol;

/// Something that a column should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// It has values, all of them the same.
    Constant,
    /// It has no value at all after its lookback.
    AllNan,
    /// It has an infinite value.
    Infinite,
}

/// A column with a problem.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Which column.
    pub column: String,
    /// What is wrong.
    pub problem: Problem,
    /// In how many symbols.
    pub symbols: usize,
    /// The first of them.
    pub example: String,
}

/// What is known of each column of the symbol that is being written, and what was found.
pub(super) struct Checks {
    now: Vec<Seen>,
    name: String,
    found: Vec<(usize, Problem, usize, String)>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    /// Rows that should have a value.
    rows: usize,
    nan: usize,
    infinite: bool,
    first: Option<f64>,
    differs: bool,
}

impl Checks {
    pub(super) fn new(columns: usize) -> Self {
        Checks { now: vec![Seen::default(); columns], name: String::new(), found: Vec::new() }
    }

    pub(super) fn see(&mut self, bars: &Bars, first: bool, values: &[Values<'_>]) {
        if first {
            self.close();
            self.name = symbol(bars);
        }
        for (seen, column) in self.now.iter_mut().zip(values) {
            for x in column.values.get(column.valid_from..).unwrap_or(&[]) {
                seen.rows += 1;
                seen.nan += usize::from(x.is_nan());
                seen.infinite |= x.is_infinite();
                if !x.is_nan() {
                    seen.differs |= seen.first.is_some_and(|f| f != *x);
                    seen.first = seen.first.or(Some(*x));
                }
            }
        }
    }

    /// The symbol ends.
    fn close(&mut self) {
        for (column, seen) in self.now.iter_mut().enumerate() {
            let seen = std::mem::take(seen);
            let problems = [
                (Problem::Constant, seen.rows - seen.nan > 1 && !seen.differs),
                (Problem::AllNan, seen.rows > 0 && seen.nan == seen.rows),
                (Problem::Infinite, seen.infinite),
            ];
            for (problem, _) in problems.into_iter().filter(|(_, is)| *is) {
                match self.found.iter_mut().find(|(c, p, ..)| (*c, *p) == (column, problem)) {
                    Some((.., symbols, _)) => *symbols += 1,
                    None => self.found.push((column, problem, 1, self.name.clone())),
                }
            }
        }
    }

    pub(super) fn findings(mut self, names: &[String]) -> Vec<Finding> {
        self.close();
        self.found.sort();
        let found = self.found.into_iter();
        found
            .filter_map(|(column, problem, symbols, example)| {
                Some(Finding { column: names.get(column)?.clone(), problem, symbols, example })
            })
            .collect()
    }
}
