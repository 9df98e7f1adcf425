//! Group-by-symbol of record batches: hash grouping in memory, or run detection over sorted rows; groups as large as fit.
//!
//! ```text
//!   rows in any order ──► HashGrouper: by symbol, in memory ──► groups of symbols ──┐
//!          │ does not fit                                                      ├──► ComputeTask
//!          └──► external sort by symbol and time ──► SortedGrouper ────────────────┤
//!   rows that are sorted already ─────────────────────► SortedGrouper ───────────────┘
//! ```

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{RecordBatch, UInt64Array},
    compute::{concat_batches, interleave_record_batch, take_record_batch},
};
use datafusion::error::Result;
use gpuforge::frame::{SymbolKey, group_by_symbol::OrderedGroups};

use crate::{
    error::ClusterError,
    key_columns::{display_symbol, symbol_runs, times},
    spec::Bound,
};

/// Runs shorter than this on average are interleaved row by row; longer ones are concatenated.
const MIN_RUN: usize = 16;

/// A unit of work for the compute worker.
pub(crate) enum ComputeTask {
    /// Whole symbols.
    Group(SymbolRows),
    /// The next chunk of a symbol that does not fit in memory.
    SymbolChunk {
        /// The bars.
        batch: RecordBatch,
        /// Whether it is the symbol's first chunk.
        first: bool,
    },
}

/// Rows of whole symbols.
pub(crate) struct SymbolRows {
    /// The batches they are in.
    pub(crate) from: RowSource,
    /// Symbols, and how many bars each has.
    pub(crate) symbols: Vec<(Option<SymbolKey>, usize)>,
    /// Whether rows are known to be in time order.
    pub(crate) time_ordered: bool,
}

/// Source of the rows.
pub(crate) enum RowSource {
    /// Contiguous batches.
    Chunks(Vec<RecordBatch>),
    /// Interleaved rows: batch and row index of each.
    Interleaved(Arc<Vec<RecordBatch>>, Vec<(usize, usize)>),
}

impl SymbolRows {
    /// One batch with each symbol's bars contiguous and in time order, and the bars per symbol.
    pub(crate) fn assemble(self, bound: &Bound) -> Result<(RecordBatch, Vec<usize>)> {
        let batch = match self.from {
            RowSource::Chunks(chunks) => match chunks.as_slice() {
                [one] => one.clone(),
                all => concat_batches(&bound.input, all)?,
            },
            RowSource::Interleaved(batches, rows) => {
                interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &rows)?
            }
        };
        let lengths: Vec<usize> = self.symbols.iter().map(|(_, n)| *n).collect();
        let times = times(bound, batch.column(bound.time))?;
        if self.time_ordered || is_time_ordered(&times, &lengths) {
            return Ok((batch, lengths));
        }
        let order = sort_by_time(&times, &self.symbols)?;
        Ok((take_record_batch(&batch, &order)?, lengths))
    }
}

/// Whether times are strictly increasing in every run.
fn is_time_ordered(times: &[i64], lengths: &[usize]) -> bool {
    let mut rest = times;
    lengths.iter().all(|n| {
        let (now, later) = rest.split_at(*n.min(&rest.len()));
        rest = later;
        now.is_sorted_by(|a, b| a < b)
    })
}

/// Row indices sorted by time within each symbol; a duplicate time is an error.
fn sort_by_time(times: &[i64], symbols: &[(Option<SymbolKey>, usize)]) -> Result<UInt64Array> {
    let mut all: Vec<u64> = Vec::with_capacity(times.len());
    for (symbol, n) in symbols {
        let from = all.len();
        let mut rows: Vec<(i64, u64)> =
            times.iter().skip(from).take(*n).zip(from as u64..).map(|(time, row)| (*time, row)).collect();
        rows.sort_unstable();
        if let Some([(time, _), _]) = rows.array_windows().find(|[a, b]| a.0 == b.0) {
            return Err(ClusterError::DuplicateTime { symbol: display_symbol(symbol), time: *time }.into());
        }
        all.extend(rows.into_iter().map(|(_, row)| row));
    }
    Ok(all.into())
}

/// A run of one symbol's rows.
struct RowRun {
    batch: usize,
    from: usize,
    rows: usize,
}

/// Hash group-by of a partition in memory: rows of each symbol as runs of the batches they came in.
#[derive(Default)]
pub(crate) struct HashGrouper {
    batches: Vec<RecordBatch>,
    symbols: OrderedGroups<Option<SymbolKey>, Vec<RowRun>>,
}

impl HashGrouper {
    /// Adds a batch.
    pub(crate) fn push(&mut self, bound: &Bound, batch: RecordBatch) -> Result<()> {
        for (key, range) in symbol_runs(bound, &batch)? {
            let id = self.symbols.id(&key);
            if let Some(runs) = self.symbols.get_mut(id) {
                runs.push(RowRun { batch: self.batches.len(), from: range.start, rows: range.len() });
            }
        }
        self.batches.push(batch);
        Ok(())
    }

    /// Returns the batches in input order.
    pub(crate) fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }

    /// Rows of the largest symbol.
    pub(crate) fn largest(&self) -> usize {
        let rows = |runs: &[RowRun]| runs.iter().map(|run| run.rows).sum();
        self.symbols.groups().iter().map(|(_, runs)| rows(runs)).max().unwrap_or(0)
    }

    /// Groups of whole symbols, in symbol order, of at most `max_rows` unless a single symbol has more.
    pub(crate) fn groups(self, max_rows: usize) -> impl Iterator<Item = ComputeTask> {
        let batches = Arc::new(self.batches);
        let mut symbols = self.symbols.into_groups();
        symbols.sort_by(|a, b| a.0.cmp(&b.0));
        let mut symbols = symbols.into_iter().peekable();
        std::iter::from_fn(move || {
            let (mut group, mut rows, mut chunks) = (Vec::new(), 0, 0);
            while let Some((_, symbol_runs)) = symbols.peek() {
                let more: usize = symbol_runs.iter().map(|s| s.rows).sum();
                if !group.is_empty() && rows + more > max_rows {
                    break;
                }
                rows += more;
                chunks += symbol_runs.len();
                group.extend(symbols.next());
            }
            (!group.is_empty()).then(|| {
                let symbols =
                    group.iter().map(|(key, s)| (key.clone(), s.iter().map(|s| s.rows).sum())).collect();
                let symbol_runs = group.iter().flat_map(|(_, s)| s);
                let from = match chunks.saturating_mul(MIN_RUN) > rows {
                    true => RowSource::Interleaved(batches.clone(), row_indices(symbol_runs)),
                    false => RowSource::Chunks(slices(&batches, symbol_runs)),
                };
                ComputeTask::Group(SymbolRows { from, symbols, time_ordered: false })
            })
        })
    }
}

fn row_indices<'s>(symbol_runs: impl Iterator<Item = &'s RowRun>) -> Vec<(usize, usize)> {
    symbol_runs.flat_map(|s| (s.from..s.from + s.rows).map(|row| (s.batch, row))).collect()
}

fn slices<'s>(batches: &[RecordBatch], symbol_runs: impl Iterator<Item = &'s RowRun>) -> Vec<RecordBatch> {
    symbol_runs.filter_map(|s| batches.get(s.batch).map(|b| b.slice(s.from, s.rows))).collect()
}

/// Run detection over rows sorted by symbol and time.
pub(crate) struct SortedGrouper {
    /// Bytes of bars and results of one group.
    max_bytes: usize,
    pending: Vec<RecordBatch>,
    symbols: Vec<(Option<SymbolKey>, usize)>,
    bytes: usize,
    /// Current symbol, its last time, and whether it is streamed in chunks.
    now: Option<(Option<SymbolKey>, i64, Delivery)>,
    finished_symbols: HashSet<Option<SymbolKey>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Delivery {
    Whole,
    Streamed,
}

impl SortedGrouper {
    /// Groups of at most `max_bytes`.
    pub(crate) fn new(max_bytes: usize) -> Self {
        SortedGrouper {
            max_bytes,
            pending: Vec::new(),
            symbols: Vec::new(),
            bytes: 0,
            now: None,
            finished_symbols: HashSet::new(),
        }
    }

    /// Adds a batch and returns the tasks that are complete.
    pub(crate) fn push(&mut self, bound: &Bound, batch: &RecordBatch) -> Result<Vec<ComputeTask>> {
        let times = times(bound, batch.column(bound.time))?;
        let mut done = Vec::new();
        for (key, range) in symbol_runs(bound, batch)? {
            let rows = batch.slice(range.start, range.len());
            let Some(times) = times.get(range) else { continue };
            self.check(&key, times)?;
            let last = times.last().copied().unwrap_or_default();
            let cost = rows.num_rows() * bound.row_bytes();
            match &mut self.now {
                Some((symbol, before, held)) if *symbol == key => {
                    *before = last;
                    if *held == Delivery::Streamed {
                        done.push(ComputeTask::SymbolChunk { batch: rows, first: false });
                        continue;
                    }
                    if let Some((_, n)) = self.symbols.last_mut() {
                        *n += rows.num_rows();
                    }
                }
                _ => {
                    // Start a new group rather than split a symbol that may fit.
                    if self.bytes + cost > self.max_bytes {
                        done.extend(self.flush());
                    }
                    self.finished_symbols.insert(key.clone());
                    self.symbols.push((key.clone(), rows.num_rows()));
                    self.now = Some((key, last, Delivery::Whole));
                }
            }
            self.bytes += cost;
            self.pending.push(rows);
            if self.bytes > self.max_bytes {
                done.extend(self.drain_full(bound)?);
            }
        }
        Ok(done)
    }

    /// Over the limit: emits the complete symbols; if the current one alone does not fit, it is streamed in chunks.
    fn drain_full(&mut self, bound: &Bound) -> Result<Vec<ComputeTask>> {
        let (Some((symbol, n)), Some((_, _, held))) = (self.symbols.pop(), &mut self.now) else {
            return Ok(Vec::new());
        };
        let mut current = Vec::new();
        let mut left = n;
        while left > 0
            && let Some(batch) = self.pending.pop()
        {
            left = left.saturating_sub(batch.num_rows());
            current.push(batch);
        }
        current.reverse();
        let cost = n * bound.row_bytes();
        let mut done = Vec::new();
        if !self.symbols.is_empty() {
            let from = RowSource::Chunks(std::mem::take(&mut self.pending));
            let symbols = std::mem::take(&mut self.symbols);
            done.push(ComputeTask::Group(SymbolRows { from, symbols, time_ordered: true }));
        }
        self.bytes = cost;
        if cost <= self.max_bytes {
            self.pending = current;
            self.symbols.push((symbol, n));
            return Ok(done);
        }
        let selection = &bound.request.selection;
        if !selection.plan.supports_streaming() {
            let column = bound.request.whole_series_columns().first().cloned().unwrap_or_default();
            return Err(ClusterError::SymbolTooLarge { symbol: display_symbol(&symbol), column }.into());
        }
        *held = Delivery::Streamed;
        self.bytes = 0;
        done.extend(
            current
                .into_iter()
                .enumerate()
                .map(|(at, batch)| ComputeTask::SymbolChunk { batch, first: at == 0 }),
        );
        Ok(done)
    }

    /// Emits everything pending.
    pub(crate) fn flush(&mut self) -> Option<ComputeTask> {
        self.bytes = 0;
        let (symbols, chunks) = (std::mem::take(&mut self.symbols), std::mem::take(&mut self.pending));
        let rows = SymbolRows { from: RowSource::Chunks(chunks), symbols, time_ordered: true };
        (!rows.symbols.is_empty()).then_some(ComputeTask::Group(rows))
    }

    /// Checks the declared order: symbols contiguous, times strictly increasing.
    fn check(&self, key: &Option<SymbolKey>, times: &[i64]) -> Result<()> {
        let before = self.now.as_ref().filter(|(symbol, ..)| symbol == key).map(|(_, last, _)| *last);
        let not_sorted = |found| ClusterError::NotSorted { symbol: display_symbol(key), found };
        if before.is_none() && self.finished_symbols.contains(key) {
            return Err(not_sorted("its rows are not together".to_owned()).into());
        }
        let mut last = before;
        for time in times {
            if let Some(last) = last
                && last >= *time
            {
                return Err(match last == *time {
                    true => ClusterError::DuplicateTime { symbol: display_symbol(key), time: *time },
                    false => not_sorted(format!("{time} comes after {last}")),
                }
                .into());
            }
            last = Some(*time);
        }
        Ok(())
    }
}
