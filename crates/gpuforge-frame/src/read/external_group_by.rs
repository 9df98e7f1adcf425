//! External group by symbol: per-symbol buffers that spill to disk over the memory budget, then sorted batches.
//!
//! ```text
//!   chunks ──► a buffer per symbol ──(over budget: all buffers)──────► blocks in the spill file
//!                     │ end of input                                        │
//!                     └──► sort, dedup ──► BarsBatch::Complete     ◄────────┤ symbols that fit together
//!                                          BarsBatch::Segment      ◄────────┘ a symbol that exceeds the budget alone
//! ```

use std::{collections::HashMap, path::PathBuf};

use rayon::prelude::*;

use super::{
    chunk::Chunk,
    report::TimeSpanStats,
    series::{Duplicates, Series, decode_row_id},
    spill::{ColumnSet, SpillBlock, SpillFile},
    time,
};
use crate::{
    bars::{BarsBatch, KeySchema, SymbolKey},
    error::FrameError,
};

/// A series of more rows than this must not collapse to one row by deduplication.
const MIN_SUSPICIOUS_ROWS: usize = 10;

/// Group of one symbol.
#[derive(Debug)]
struct SymbolGroup {
    /// Rows in memory.
    buffered: Series,
    /// Spilled blocks.
    blocks: Vec<SpillBlock>,
    /// Total rows.
    rows: usize,
    /// Time of the last row.
    last: i64,
    /// Times are nondecreasing so far.
    sorted: bool,
}

/// Rows grouped by symbol, in memory or on disk.
pub(super) struct ExternalGroupBy {
    groups: Vec<SymbolGroup>,
    columns: ColumnSet,
    /// Bytes of buffered rows allowed; the rest of the memory limit is for sorting.
    budget: Option<usize>,
    memory_limit: u64,
    spill: Option<SpillFile>,
    directory: Option<PathBuf>,
}

impl ExternalGroupBy {
    /// Empty groups. Without a `memory` limit nothing spills.
    pub(super) fn new(
        columns: ColumnSet,
        memory: Option<u64>,
        directory: Option<PathBuf>,
    ) -> ExternalGroupBy {
        // Sorting takes a permutation and a copy of one column: 16 bytes per row.
        let width = columns.row_bytes() as u64;
        let sorting = if columns.timed { 16 } else { 0 };
        let budget =
            memory.map(|m| usize::try_from(m / (width + sorting).max(1) * width).unwrap_or(usize::MAX));
        ExternalGroupBy {
            groups: Vec::new(),
            columns,
            budget,
            memory_limit: memory.unwrap_or(u64::MAX),
            spill: None,
            directory,
        }
    }

    /// Number of rows and symbols.
    pub(super) fn count(&self) -> (u64, usize) {
        let rows = self.groups.iter().map(|k| k.rows as u64).sum();
        (rows, self.groups.iter().filter(|k| k.rows > 0).count())
    }

    /// Did anything spill to disk?
    pub(super) fn spilled(&self) -> bool {
        self.spill.is_some()
    }

    /// Adds the rows of a chunk; returns whether each symbol's times are nondecreasing.
    pub(super) fn push(&mut self, chunk: &Chunk, file: usize) -> Result<bool, FrameError> {
        let mut start = 0;
        let mut in_order = true;
        for (id, count) in &chunk.symbols {
            let id = *id as usize;
            if id >= self.groups.len() {
                self.groups.resize_with(id + 1, || SymbolGroup {
                    buffered: Series::default(),
                    blocks: Vec::new(),
                    rows: 0,
                    last: i64::MIN,
                    sorted: true,
                });
            }
            let Some(symbol) = self.groups.get_mut(id) else { continue };
            match *count {
                1 => symbol.buffered.push(chunk, start, file),
                _ => symbol.buffered.extend(chunk, start..start + count, file),
            }
            let mut rising = true;
            for time in chunk.time.get(start..start + count).unwrap_or_default() {
                rising &= *time >= symbol.last;
                symbol.last = *time;
            }
            symbol.sorted &= rising;
            in_order &= rising;
            symbol.rows += count;
            start += count;
        }
        match self.budget {
            Some(budget) if self.groups.iter().map(|k| k.buffered.bytes()).sum::<usize>() > budget => {
                self.spill_all(budget)?;
            }
            _ => {}
        }
        Ok(in_order)
    }

    /// Spills all buffered rows.
    fn spill_all(&mut self, budget: usize) -> Result<(), FrameError> {
        // A segment is made of blocks: several must fit the budget.
        let max_block = (budget / self.columns.row_bytes().max(1) / 4).max(1);
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(SpillFile::new(self.directory.as_deref())?),
        };
        for symbol in self.groups.iter_mut().filter(|k| k.buffered.len() > 0) {
            let rows = symbol.buffered.len();
            for start in (0..rows).step_by(max_block) {
                symbol.blocks.push(spill.write(&symbol.buffered, start..rows.min(start + max_block))?);
            }
            symbol.buffered = Series::default();
        }
        Ok(())
    }

    /// End of input: buffered rows spill too if anything did, so that batches have the memory for themselves.
    pub(super) fn finish_input(&mut self) -> Result<(), FrameError> {
        match self.budget {
            Some(budget) if self.spilled() => self.spill_all(budget),
            _ => Ok(()),
        }
    }
}

/// What batches are built with.
pub(super) struct BatchContext<'a> {
    pub layout: &'a KeySchema,
    pub keys: &'a [(Option<SymbolKey>, ())],
    pub files: &'a [PathBuf],
    pub duplicates: Duplicates,
}

/// Emission state of the batches.
#[derive(Debug, Default)]
pub(super) struct EmitState {
    /// Next symbol id.
    next: usize,
    /// Within a segmented symbol: its next block, and the last row, held back because the next segment may start with the
    /// same time.
    segment: Option<(usize, Series)>,
    /// Symbols that had to be sorted.
    pub sorted_here: usize,
    /// Duplicate rows dropped, by file.
    pub duplicates: HashMap<usize, u64>,
    /// Time range and step.
    pub span: TimeSpanStats,
}

impl EmitState {
    fn count_dropped(&mut self, files: Vec<usize>) {
        for file in files {
            *self.duplicates.entry(file).or_insert(0) += 1;
        }
    }
}

impl ExternalGroupBy {
    /// The next batch; `None` after the last symbol.
    pub(super) fn next_batch(
        &mut self,
        at: &mut EmitState,
        context: &BatchContext<'_>,
    ) -> Result<Option<BarsBatch>, FrameError> {
        let budget = self.budget.unwrap_or(usize::MAX);
        let mut group: Vec<(usize, Series)> = Vec::new();
        let mut bytes = 0_usize;
        while let Some(symbol) = self.groups.get_mut(at.next) {
            let needed = symbol.rows.saturating_mul(self.columns.row_bytes());
            if at.segment.is_some() || (needed > budget && !symbol.blocks.is_empty()) {
                if group.is_empty() {
                    return self.segment(at, context).map(Some);
                }
                break;
            }
            if bytes.saturating_add(needed) > budget && !group.is_empty() {
                break;
            }
            let mut series = std::mem::take(&mut symbol.buffered);
            if let Some(spill) = &mut self.spill {
                series.reserve(symbol.rows, self.columns);
                for block in std::mem::take(&mut symbol.blocks) {
                    spill.read(block, self.columns, &mut series)?;
                }
            }
            if series.len() > 0 || symbol.rows > 0 {
                group.push((at.next, series));
            }
            bytes += needed;
            at.next += 1;
        }
        if group.is_empty() {
            return Ok(None);
        }
        self.complete(group, at, context).map(Some)
    }

    /// Sorts and deduplicates whole symbols in parallel.
    fn complete(
        &self,
        group: Vec<(usize, Series)>,
        at: &mut EmitState,
        context: &BatchContext<'_>,
    ) -> Result<BarsBatch, FrameError> {
        let sorted = |id: usize| self.groups.get(id).is_none_or(|group| group.sorted);
        at.sorted_here += group.iter().filter(|(id, _)| !sorted(*id)).count();
        let done: Vec<_> = group
            .into_par_iter()
            .map(|(id, mut series)| {
                if !sorted(id) {
                    series.sort();
                }
                let before = series.len();
                let dropped = context.dedup_times(id, &mut series)?;
                context.check_not_collapsed(id, before, &series)?;
                Ok((dropped, TimeSpanStats::of(&series.time), series.bars(context.key(id))))
            })
            .collect();
        let mut bars = Vec::with_capacity(done.len());
        // In symbol order, so that the reported error is deterministic.
        for result in done {
            let (dropped, span, series) = result?;
            at.count_dropped(dropped);
            at.span.merge(span);
            bars.push(series);
        }
        Ok(BarsBatch::Complete(bars))
    }

    /// The next segment of a symbol over budget: as many blocks as fit.
    fn segment(&mut self, at: &mut EmitState, context: &BatchContext<'_>) -> Result<BarsBatch, FrameError> {
        let id = at.next;
        let (mut block, mut series) = at.segment.take().unwrap_or_default();
        let first = block == 0;
        let (Some(symbol), Some(spill)) = (self.groups.get(id), &mut self.spill) else {
            return Ok(BarsBatch::Complete(Vec::new()));
        };
        if !symbol.sorted {
            let name = context.key(id).map_or_else(String::new, |key| format!(" of `{key}`"));
            return Err(FrameError::Memory {
                what: format!("sorting the {} rows{name} by time", symbol.rows),
                needed: (symbol.rows as u64).saturating_mul(self.columns.row_bytes() as u64 + 16),
                limit: self.memory_limit,
                hint: "sort the file by time, or raise --memory-limit".to_string(),
            });
        }
        let budget = self.budget.unwrap_or(usize::MAX) / self.columns.row_bytes().max(1);
        let mut rows = series.len();
        let fits = |next: &&SpillBlock| {
            rows += next.rows;
            rows <= budget
        };
        let left = symbol.blocks.get(block..).unwrap_or_default();
        // At least one block, however small the budget.
        let count = left.iter().take_while(fits).count().max(1);
        let blocks = left.get(..count).unwrap_or_default();
        series.reserve(blocks.iter().map(|b| b.rows).sum(), self.columns);
        for next in blocks {
            spill.read(*next, self.columns, &mut series)?;
        }
        block += count;
        let last = block >= symbol.blocks.len();
        at.count_dropped(context.dedup_times(id, &mut series)?);
        at.span.merge(TimeSpanStats::of(&series.time));
        if last {
            at.next += 1;
        } else {
            let held = if self.columns.timed { series.split_last() } else { Series::default() };
            at.segment = Some((block, held));
        }
        Ok(BarsBatch::Segment { bars: series.bars(context.key(id)), first, last })
    }
}

impl BatchContext<'_> {
    fn key(&self, id: usize) -> Option<SymbolKey> {
        self.keys.get(id).and_then(|(key, ())| key.clone())
    }

    /// Deduplicates by policy, or an error that locates the duplicate.
    fn dedup_times(&self, id: usize, series: &mut Series) -> Result<Vec<usize>, FrameError> {
        if self.duplicates != Duplicates::Error {
            return Ok(series.dedup_times(self.duplicates));
        }
        let Some(at) = series.first_duplicate_time() else { return Ok(Vec::new()) };
        let row = |at: usize| series.row.get(at).map_or((0, 0), |place| decode_row_id(*place));
        let ((file, first), (other, second)) = (row(at), row(at + 1));
        let time = series.time.get(at).copied().unwrap_or(0);
        let column = self.layout.time.as_ref();
        let path = |file: usize| self.files.get(file).cloned().unwrap_or_default();
        let elsewhere = if file == other { String::new() } else { format!(" of {}", path(file).display()) };
        let whose = self.key(id).map_or_else(String::new, |key| format!(" of `{key}`"));
        let (rows, distinct) = (series.len(), series.distinct_times());
        // Where most rows share a time, the time column or the grouping is wrong, not the rows.
        let hint = match distinct.saturating_mul(2) < rows {
            true => format!(
                "{rows} rows have {distinct} different times: is this the time, and one symbol? \
                 --time NAME or 'DATE+TIME', --by COLUMN|file|dir; --explain-input shows what was recognised"
            ),
            false => "keep one of them: --duplicates first|last".to_string(),
        };
        Err(FrameError::Row {
            path: path(other),
            row: second,
            column: column.map_or_else(String::new, |c| c.name.clone()),
            message: format!(
                "the time {}{whose} is in row {first}{elsewhere} already\n  hint: {hint}",
                column.map_or_else(String::new, |c| time::format_time(&c.data_type, time))
            ),
        })
    }

    /// Rejects a series that deduplication reduces to one row.
    fn check_not_collapsed(&self, id: usize, before: usize, series: &Series) -> Result<(), FrameError> {
        if before <= MIN_SUSPICIOUS_ROWS || series.len() >= 2 {
            return Ok(());
        }
        let whose = self.key(id).map_or_else(String::new, |key| format!(" of `{key}`"));
        let column = self.layout.time.as_ref().map_or("", |c| c.name.as_str());
        let left = series.len();
        let file = series.row.first().map_or(0, |place| decode_row_id(*place).0);
        Err(FrameError::Format {
            path: self.files.get(file).cloned().unwrap_or_default(),
            message: format!(
                "all {before} rows{whose} have the same time in `{column}`: --duplicates would leave {left}\n  \
                 hint: use another time column: --time NAME or 'DATE+TIME'; --explain-input shows what was recognised"
            ),
        })
    }
}
