//! Data quality checks: NaN, infinities, ranges and constants of columns; nulls, OHLC consistency, gaps and jumps of bars.
//!
//! One pass as rows are written, symbol by symbol and chunk by chunk. Memory is bounded: a state per column, a block of returns,
//! and a table of time steps of the current symbol; counts are added up over symbols.

mod bars;
mod columns;
mod gaps;
mod jumps;

use std::collections::HashMap;

use gpuforge_frame::{Bars, KeySchema, read::ReadReport, write::ColumnValues};
use gpuforge_indicators::{catalogue::ValueRange, select::ColumnMeta};

use self::{bars::BarChecks, columns::ColumnChecks};
use super::symbol;

/// A data quality problem, in report order: what breaks columns comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QualityProblem {
    /// Bars: a value is null or NaN.
    Null,
    /// Bars: the high is below the low.
    HighBelowLow,
    /// Bars: the open or the close is above the high or below the low.
    OutsideHighLow,
    /// Bars: a price is 0 or below.
    NotPositive,
    /// Bars: rows skipped because they could not be parsed.
    Unreadable,
    /// Bars: rows dropped as duplicate timestamps.
    Duplicate,
    /// A column is NaN throughout after its lookback.
    AllNan,
    /// A column has an infinite value.
    Infinite,
    /// A column has a value outside of its catalogue range.
    OutOfRange,
    /// A column is NaN at bars after its lookback.
    Nan,
    /// A column is constant.
    Constant,
    /// The lookback of a column is longer than every series.
    TooShort,
    /// Bars: a log return of the close exceeds [`JUMP_SIGMAS`] robust sigmas.
    Jump,
    /// Bars: a time step longer than the usual one that is not a recurring session break.
    Gap,
    /// Bars: zero volume.
    ZeroVolume,
}

/// Sigmas of the log return beyond which a move of the close is a [`QualityProblem::Jump`].
pub const JUMP_SIGMAS: f64 = jumps::SIGMAS;

/// The scope of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingScope {
    /// In the bars.
    Input,
    /// In a column of the output.
    Column,
}

/// A problem of the bars or of a column.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct DataFinding {
    /// Bars or an output column.
    pub scope: FindingScope,
    /// The output column; for bars, their columns, comma-separated.
    pub column: String,
    /// The problem.
    pub problem: QualityProblem,
    /// Number of symbols; 0 where unknown (skipped rows) or all (too short).
    pub symbols: usize,
    /// The symbol with the largest share.
    pub example: String,
    /// Number of values, over all symbols.
    pub count: u64,
    /// Their share of all values, over all symbols, without warm-ups.
    pub share: f64,
    /// Their share in the example.
    pub worst_share: f64,
    /// First such row of the example, from 0 within its symbol.
    pub first_row: Option<u64>,
    /// Its time, formatted.
    pub first_time: Option<String>,
    /// Its value: out of range, log return of a jump, seconds of a gap.
    pub value: Option<f64>,
    /// The violated range: of the catalogue, or for a gap 0 to the usual step.
    #[serde(skip)]
    pub range: Option<ValueRange>,
}

/// A row of the current symbol, with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RowRef {
    row: u64,
    time: Option<i64>,
    value: Option<f64>,
}

/// Count of a problem in one symbol, out of how many values, and its first row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct SymbolTally {
    count: u64,
    of: u64,
    first: Option<RowRef>,
    /// Columns of the bars, one bit each.
    columns: u8,
    range: Option<ValueRange>,
}

impl SymbolTally {
    fn add(&mut self, count: u64, row_ref: impl FnOnce() -> RowRef) {
        if count > 0 {
            self.count += count;
            self.first.get_or_insert_with(row_ref);
        }
    }
}

/// Total over all symbols.
#[derive(Default)]
struct RunTally {
    count: u64,
    of: u64,
    columns: u8,
    symbols: usize,
    /// The symbol with the largest share.
    example: String,
    worst_share: f64,
    worst: SymbolTally,
}

/// Problem and output column; `None` is the bars.
type Key = (QualityProblem, Option<usize>);

/// Totals of a run.
#[derive(Default)]
struct Tallies(HashMap<Key, RunTally>);

impl Tallies {
    /// Adds a finished symbol. Symbols without the problem count in its share.
    fn add(&mut self, key: Key, tally: SymbolTally, symbol: &str) {
        let run = self.0.entry(key).or_default();
        run.count += tally.count;
        run.of += tally.of;
        run.columns |= tally.columns;
        if tally.count == 0 {
            return;
        }
        run.symbols += 1;
        let share = tally.count as f64 / tally.of.max(1) as f64;
        if share > run.worst_share {
            (run.worst_share, run.worst) = (share, tally);
            symbol.clone_into(&mut run.example);
        }
    }
}

/// The checks of a run.
pub(super) struct QualityChecks {
    layout: KeySchema,
    name: String,
    columns: ColumnChecks,
    bars: BarChecks,
    found: Tallies,
    /// Rows of finished symbols.
    rows: u64,
}

impl QualityChecks {
    /// For these columns, the first `own` of which are the bars themselves.
    pub(super) fn new(facts: Vec<ColumnMeta>, own: usize, layout: &KeySchema) -> Self {
        QualityChecks {
            layout: layout.clone(),
            name: String::new(),
            columns: ColumnChecks::new(facts, own),
            bars: BarChecks::new(layout),
            found: Tallies::default(),
            rows: 0,
        }
    }

    /// Checks rows of a symbol, `offset` rows after its first. `slack` is the relative tolerance at the ends of a range.
    pub(super) fn check(&mut self, bars: &Bars, offset: usize, values: &[ColumnValues<'_>], slack: f64) {
        if offset == 0 {
            self.close();
            self.name = symbol(bars);
        }
        let offset = offset as u64;
        self.bars.check(bars, offset);
        self.columns.check(&bars.time, offset, values, slack);
    }

    /// Finishes the current symbol.
    fn close(&mut self) {
        self.rows += self.bars.rows();
        for (problem, tally) in self.bars.take() {
            self.found.add((problem, None), tally, &self.name);
        }
        for (column, problem, tally) in self.columns.take() {
            self.found.add((problem, Some(column)), tally, &self.name);
        }
    }

    /// All findings, the most severe first.
    pub(super) fn findings(mut self, read: &ReadReport) -> Vec<DataFinding> {
        self.close();
        for (problem, count) in
            [(QualityProblem::Unreadable, read.skipped), (QualityProblem::Duplicate, read.duplicates)]
        {
            let tally = SymbolTally { count, of: read.rows + read.skipped, ..SymbolTally::default() };
            self.found.add((problem, None), tally, "");
        }
        self.columns.too_short(&mut self.found, self.rows);
        let QualityChecks { found, columns, layout, .. } = self;
        let mut all: Vec<(Key, RunTally)> = found.0.into_iter().filter(|(_, t)| t.count > 0).collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter().map(|(key, tally)| finding(key, tally, &columns, &layout)).collect()
    }
}

fn finding(
    (problem, column): Key,
    tally: RunTally,
    columns: &ColumnChecks,
    layout: &KeySchema,
) -> DataFinding {
    let RunTally { count, of, symbols, example, worst_share, worst, .. } = tally;
    let first = worst.first;
    let named =
        !matches!(problem, QualityProblem::Unreadable | QualityProblem::Duplicate | QualityProblem::TooShort);
    DataFinding {
        scope: if column.is_some() { FindingScope::Column } else { FindingScope::Input },
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
        first_row: first.map(|row_ref| row_ref.row),
        first_time: first.and_then(|row_ref| row_ref.time).and_then(|time| layout.show(time)),
        value: first.and_then(|row_ref| row_ref.value),
        range: worst.range,
    }
}
