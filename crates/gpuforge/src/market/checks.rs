//! Data quality checks: NaN, infinities, ranges and constants of columns; nulls, OHLC, gaps and jumps of bars. What is wrong?
//!
//! Seen once, as rows are written, symbol by symbol and part by part. Memory is bounded: a state per column, a block of
//! returns, and a table of breaks in time of the symbol at hand; findings are added up over symbols.

mod bars;
mod columns;
mod jumps;
mod steps;

use std::collections::HashMap;

use gpuforge_frame::{Bars, KeySchema, read::ReadReport, write::ColumnValues};
use gpuforge_indicators::{catalogue::ValueRange, select::ColumnMeta};

use self::{bars::BarChecks, columns::ColumnChecks};
use super::symbol;

/// Something that bars or a column should not be. The order is that of the report: what breaks columns comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// Bars: a value is null or NaN.
    Null,
    /// Bars: the high is below the low.
    HighBelowLow,
    /// Bars: the open or the close is above the high or below the low.
    OutsideHighLow,
    /// Bars: a price is 0 or below.
    NotPositive,
    /// Bars: rows that could not be read and were left out.
    Unreadable,
    /// Bars: rows that were left out because their time came twice.
    Duplicate,
    /// A column has no value at all after its lookback.
    AllNan,
    /// A column has an infinite value.
    Infinite,
    /// A column has a value outside of the range that the catalogue states.
    OutOfRange,
    /// A column is NaN at bars after its lookback.
    Nan,
    /// A column has values, all of them the same.
    Constant,
    /// The lookback of a column is longer than every series: it has no value.
    TooShort,
    /// Bars: the close moves by more than [`JUMP_SIGMAS`] robust sigmas.
    Jump,
    /// Bars: a step in time that is longer than usual and no break that recurs, such as a night.
    Gap,
    /// Bars: nothing was traded.
    ZeroVolume,
}

/// Sigmas of the log return beyond which a move of the close is a [`Problem::Jump`].
pub const JUMP_SIGMAS: f64 = jumps::SIGMAS;

/// Where a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// In the bars.
    Input,
    /// In a column of the output.
    Column,
}

/// A problem of the bars or of a column.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Finding {
    /// Bars or a column?
    pub scope: Scope,
    /// Which column; of the bars, which of theirs, separated by commas.
    pub column: String,
    /// What is wrong.
    pub problem: Problem,
    /// In how many symbols; 0 where that is not known (rows that were left out) or means all (too short).
    pub symbols: usize,
    /// The worst of them: the one with the largest share.
    pub example: String,
    /// How many values, over all symbols.
    pub count: u64,
    /// Their share of all values that could have it, over all symbols; a warm-up is not among them.
    pub share: f64,
    /// Their share in the example.
    pub worst_share: f64,
    /// The first such row of the example, counted from 0 within its symbol.
    pub first_row: Option<u64>,
    /// Its time, as it is written.
    pub first_time: Option<String>,
    /// The value there: out of range, the log return of a jump, the seconds of a gap.
    pub value: Option<f64>,
    /// The range that is left: of the catalogue, or for a gap 0 to the usual step.
    #[serde(skip)]
    pub range: Option<ValueRange>,
}

/// A row of the symbol at hand, and its time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spot {
    row: u64,
    time: Option<i64>,
    value: Option<f64>,
}

/// How often something was seen in a symbol, among how many, and where first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    count: u64,
    of: u64,
    first: Option<Spot>,
    /// Columns of the bars, one bit each.
    columns: u8,
    range: Option<ValueRange>,
}

impl Seen {
    fn add(&mut self, count: u64, spot: impl FnOnce() -> Spot) {
        if count > 0 {
            self.count += count;
            self.first.get_or_insert_with(spot);
        }
    }
}

/// The same over symbols.
#[derive(Default)]
struct Tally {
    count: u64,
    of: u64,
    columns: u8,
    symbols: usize,
    /// The symbol with the largest share.
    example: String,
    worst_share: f64,
    worst: Seen,
}

/// Which problem, and of which column of the output; `None` is the bars.
type Key = (Problem, Option<usize>);

/// Everything that was looked for.
#[derive(Default)]
struct Found(HashMap<Key, Tally>);

impl Found {
    /// A symbol ends: what was seen in it. Symbols without the problem count in its share.
    fn add(&mut self, key: Key, seen: Seen, symbol: &str) {
        let tally = self.0.entry(key).or_default();
        tally.count += seen.count;
        tally.of += seen.of;
        tally.columns |= seen.columns;
        if seen.count == 0 {
            return;
        }
        tally.symbols += 1;
        let share = seen.count as f64 / seen.of.max(1) as f64;
        if share > tally.worst_share {
            (tally.worst_share, tally.worst) = (share, seen);
            symbol.clone_into(&mut tally.example);
        }
    }
}

/// The checks of a run.
pub(super) struct Checks {
    layout: KeySchema,
    name: String,
    columns: ColumnChecks,
    bars: BarChecks,
    found: Found,
    /// Rows of symbols that are complete.
    rows: u64,
}

impl Checks {
    /// For columns of which this is known; the first `own` of them are the bars themselves.
    pub(super) fn new(facts: Vec<ColumnMeta>, own: usize, layout: &KeySchema) -> Self {
        Checks {
            layout: layout.clone(),
            name: String::new(),
            columns: ColumnChecks::new(facts, own),
            bars: BarChecks::new(layout),
            found: Found::default(),
            rows: 0,
        }
    }

    /// Rows of a symbol that has had `offset` rows before, and their columns. `slack` is for rounding at the ends of a range.
    pub(super) fn see(&mut self, bars: &Bars, offset: usize, values: &[ColumnValues<'_>], slack: f64) {
        if offset == 0 {
            self.close();
            self.name = symbol(bars);
        }
        let offset = offset as u64;
        self.bars.see(bars, offset);
        self.columns.see(&bars.time, offset, values, slack);
    }

    /// The symbol ends.
    fn close(&mut self) {
        self.rows += self.bars.rows();
        for (problem, seen) in self.bars.take() {
            self.found.add((problem, None), seen, &self.name);
        }
        for (column, problem, seen) in self.columns.take() {
            self.found.add((problem, Some(column)), seen, &self.name);
        }
    }

    /// Everything that was found, the most important first.
    pub(super) fn findings(mut self, read: &ReadReport) -> Vec<Finding> {
        self.close();
        for (problem, count) in [(Problem::Unreadable, read.skipped), (Problem::Duplicate, read.duplicates)] {
            let seen = Seen { count, of: read.rows + read.skipped, ..Seen::default() };
            self.found.add((problem, None), seen, "");
        }
        self.columns.too_short(&mut self.found, self.rows);
        let Checks { found, columns, layout, .. } = self;
        let mut all: Vec<(Key, Tally)> = found.0.into_iter().filter(|(_, t)| t.count > 0).collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter().map(|(key, tally)| finding(key, tally, &columns, &layout)).collect()
    }
}

fn finding((problem, column): Key, tally: Tally, columns: &ColumnChecks, layout: &KeySchema) -> Finding {
    let Tally { count, of, symbols, example, worst_share, worst, .. } = tally;
    let first = worst.first;
    let named = !matches!(problem, Problem::Unreadable | Problem::Duplicate | Problem::TooShort);
    Finding {
        scope: if column.is_some() { Scope::Column } else { Scope::Input },
        column: match column {
            Some(at) => columns.name(at).to_owned(),
            None => bars::names(problem, tally.columns),
        },
        problem,
        symbols: if named { symbols } else { 0 },
        example,
        count,
        share: count as f64 / of.max(1) as f64,
        worst_share,
        first_row: first.map(|spot| spot.row),
        first_time: first.and_then(|spot| spot.time).and_then(|time| layout.show(time)),
        value: first.and_then(|spot| spot.value),
        range: worst.range,
    }
}
