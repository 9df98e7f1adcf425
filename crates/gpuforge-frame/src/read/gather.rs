//! Which rows belong together, and how many at once? Rows by symbol, in memory or on disk, then handed over in portions.
//!
//! ```text
//!   chunks ──► a buffer per symbol ──(over the limit: all buffers)──► blocks in the temporary file
//!                     │ end of input                                        │
//!                     └──► sort, check ──► groups of whole symbols ◄────────┤ symbols that fit together
//!                                          parts of a symbol       ◄────────┘ a symbol that does not fit alone
//! ```

use std::{collections::HashMap, path::PathBuf};

use rayon::prelude::*;

use super::{
    chunk::Chunk,
    report::Span,
    series::{Duplicates, Series, placed},
    spill::{Block, Shape, Spill},
    time,
};
use crate::{
    bars::{Key, Layout, Portion},
    error::FrameError,
};

/// A series of more rows than this is not meant to be one row.
const MANY: usize = 10;

/// What is known about a symbol.
#[derive(Debug)]
struct Known {
    /// Rows that are not yet in the temporary file.
    waiting: Series,
    /// Its blocks there.
    blocks: Vec<Block>,
    /// All its rows.
    rows: usize,
    /// The time of the last row.
    last: i64,
    /// Did times only go up?
    sorted: bool,
}

/// Rows by symbol.
pub(super) struct Gather {
    known: Vec<Known>,
    shape: Shape,
    /// Bytes that may be held; the rest of the memory is for sorting.
    budget: Option<usize>,
    memory: u64,
    spill: Option<Spill>,
    folder: Option<PathBuf>,
}

impl Gather {
    /// Nothing yet. Without `memory` everything is held.
    pub(super) fn new(shape: Shape, memory: Option<u64>, folder: Option<PathBuf>) -> Gather {
        // Sorting takes an order and a copy of one column: 16 bytes a row.
        let width = shape.width() as u64;
        let sorting = if shape.timed { 16 } else { 0 };
        let budget =
            memory.map(|m| usize::try_from(m / (width + sorting).max(1) * width).unwrap_or(usize::MAX));
        Gather { known: Vec::new(), shape, budget, memory: memory.unwrap_or(u64::MAX), spill: None, folder }
    }

    /// Rows and symbols so far.
    pub(super) fn count(&self) -> (u64, usize) {
        let rows = self.known.iter().map(|k| k.rows as u64).sum();
        (rows, self.known.iter().filter(|k| k.rows > 0).count())
    }

    /// Was anything written to disk?
    pub(super) fn spilled(&self) -> bool {
        self.spill.is_some()
    }

    /// Takes the rows of a chunk; did none go back in time behind one of its symbol?
    pub(super) fn push(&mut self, chunk: &Chunk, file: usize) -> Result<bool, FrameError> {
        let mut start = 0;
        let mut in_order = true;
        for (id, count) in &chunk.symbols {
            let id = *id as usize;
            if id >= self.known.len() {
                self.known.resize_with(id + 1, || Known {
                    waiting: Series::default(),
                    blocks: Vec::new(),
                    rows: 0,
                    last: i64::MIN,
                    sorted: true,
                });
            }
            let Some(known) = self.known.get_mut(id) else { continue };
            match *count {
                1 => known.waiting.push(chunk, start, file),
                _ => known.waiting.extend(chunk, start..start + count, file),
            }
            let mut rising = true;
            for time in chunk.time.get(start..start + count).unwrap_or_default() {
                rising &= *time >= known.last;
                known.last = *time;
            }
            known.sorted &= rising;
            in_order &= rising;
            known.rows += count;
            start += count;
        }
        match self.budget {
            Some(budget) if self.known.iter().map(|k| k.waiting.bytes()).sum::<usize>() > budget => {
                self.flush(budget)?;
            }
            _ => {}
        }
        Ok(in_order)
    }

    /// Moves everything that waits to the temporary file.
    fn flush(&mut self, budget: usize) -> Result<(), FrameError> {
        // A part is made of blocks: several must fit into what may be held.
        let longest = (budget / self.shape.width().max(1) / 4).max(1);
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::new(self.folder.as_deref())?),
        };
        for known in self.known.iter_mut().filter(|k| k.waiting.len() > 0) {
            let rows = known.waiting.len();
            for start in (0..rows).step_by(longest) {
                known.blocks.push(spill.write(&known.waiting, start..rows.min(start + longest))?);
            }
            known.waiting = Series::default();
        }
        Ok(())
    }

    /// All rows are there: what waits goes to disk too if anything did, so that portions have the memory for themselves.
    pub(super) fn end(&mut self) -> Result<(), FrameError> {
        match self.budget {
            Some(budget) if self.spilled() => self.flush(budget),
            _ => Ok(()),
        }
    }
}

/// What portions are made with.
pub(super) struct Making<'a> {
    pub layout: &'a Layout,
    pub keys: &'a [Option<Key>],
    pub files: &'a [PathBuf],
    pub duplicates: Duplicates,
}

/// Where handing over has got to.
#[derive(Debug, Default)]
pub(super) struct Progressed {
    /// The next symbol.
    next: usize,
    /// In a symbol that comes in parts: its next block, and the row that is held back because the next part may begin
    /// with its time.
    part: Option<(usize, Series)>,
    /// Symbols that were sorted.
    pub sorted_here: usize,
    /// Rows of each file that were left out because their time came twice.
    pub duplicates: HashMap<usize, u64>,
    /// First, last and step of the times.
    pub span: Span,
}

impl Progressed {
    fn drop_rows(&mut self, files: Vec<usize>) {
        for file in files {
            *self.duplicates.entry(file).or_insert(0) += 1;
        }
    }
}

impl Gather {
    /// The next portion; `None` when all symbols were handed over.
    pub(super) fn portion(
        &mut self,
        at: &mut Progressed,
        making: &Making<'_>,
    ) -> Result<Option<Portion>, FrameError> {
        let budget = self.budget.unwrap_or(usize::MAX);
        let mut group: Vec<(usize, Series)> = Vec::new();
        let mut bytes = 0_usize;
        while let Some(known) = self.known.get_mut(at.next) {
            let needed = known.rows.saturating_mul(self.shape.width());
            if at.part.is_some() || (needed > budget && !known.blocks.is_empty()) {
                if group.is_empty() {
                    return self.part(at, making).map(Some);
                }
                break;
            }
            if bytes.saturating_add(needed) > budget && !group.is_empty() {
                break;
            }
            let mut series = std::mem::take(&mut known.waiting);
            if let Some(spill) = &mut self.spill {
                series.reserve(known.rows, self.shape);
                for block in std::mem::take(&mut known.blocks) {
                    spill.read(block, self.shape, &mut series)?;
                }
            }
            if series.len() > 0 || known.rows > 0 {
                group.push((at.next, series));
            }
            bytes += needed;
            at.next += 1;
        }
        if group.is_empty() {
            return Ok(None);
        }
        self.whole(group, at, making).map(Some)
    }

    /// Sorts and checks a group of symbols, side by side.
    fn whole(
        &self,
        group: Vec<(usize, Series)>,
        at: &mut Progressed,
        making: &Making<'_>,
    ) -> Result<Portion, FrameError> {
        let sorted = |id: usize| self.known.get(id).is_none_or(|known| known.sorted);
        at.sorted_here += group.iter().filter(|(id, _)| !sorted(*id)).count();
        let done: Vec<_> = group
            .into_par_iter()
            .map(|(id, mut series)| {
                if !sorted(id) {
                    series.sort();
                }
                let before = series.len();
                let dropped = making.once(id, &mut series)?;
                making.enough(id, before, &series)?;
                Ok((dropped, Span::of(&series.time), series.bars(making.key(id))))
            })
            .collect();
        let mut bars = Vec::with_capacity(done.len());
        // In the order of the symbols, so that of several errors always the same one is shown.
        for result in done {
            let (dropped, span, series) = result?;
            at.drop_rows(dropped);
            at.span.join(span);
            bars.push(series);
        }
        Ok(Portion::Whole(bars))
    }

    /// The next part of a symbol that is too large: as many blocks as fit.
    fn part(&mut self, at: &mut Progressed, making: &Making<'_>) -> Result<Portion, FrameError> {
        let id = at.next;
        let (mut block, mut series) = at.part.take().unwrap_or_default();
        let first = block == 0;
        let (Some(known), Some(spill)) = (self.known.get(id), &mut self.spill) else {
            return Ok(Portion::Whole(Vec::new()));
        };
        if !known.sorted {
            let name = making.key(id).map_or_else(String::new, |key| format!(" of `{key}`"));
            return Err(FrameError::Memory {
                what: format!("sorting the {} rows{name} by time", known.rows),
                needed: (known.rows as u64).saturating_mul(self.shape.width() as u64 + 16),
                limit: self.memory,
                hint: "sort the file by time, or raise --memory-limit".to_string(),
            });
        }
        let budget = self.budget.unwrap_or(usize::MAX) / self.shape.width().max(1);
        let mut rows = series.len();
        let fits = |next: &&Block| {
            rows += next.rows;
            rows <= budget
        };
        let left = known.blocks.get(block..).unwrap_or_default();
        // One block at least, however little may be held.
        let count = left.iter().take_while(fits).count().max(1);
        let blocks = left.get(..count).unwrap_or_default();
        series.reserve(blocks.iter().map(|b| b.rows).sum(), self.shape);
        for next in blocks {
            spill.read(*next, self.shape, &mut series)?;
        }
        block += count;
        let last = block >= known.blocks.len();
        at.drop_rows(making.once(id, &mut series)?);
        at.span.join(Span::of(&series.time));
        if last {
            at.next += 1;
        } else {
            let held = if self.shape.timed { series.split_last() } else { Series::default() };
            at.part = Some((block, held));
        }
        Ok(Portion::Part { bars: series.bars(making.key(id)), first, last })
    }
}

impl Making<'_> {
    fn key(&self, id: usize) -> Option<Key> {
        self.keys.get(id).cloned().flatten()
    }

    /// Each time once, or an error that says where it is twice.
    fn once(&self, id: usize, series: &mut Series) -> Result<Vec<usize>, FrameError> {
        if self.duplicates != Duplicates::Error {
            return Ok(series.once(self.duplicates));
        }
        let Some(at) = series.twice() else { return Ok(Vec::new()) };
        let row = |at: usize| series.row.get(at).map_or((0, 0), |place| placed(*place));
        let ((file, first), (other, second)) = (row(at), row(at + 1));
        let time = series.time.get(at).copied().unwrap_or(0);
        let column = self.layout.time.as_ref();
        let path = |file: usize| self.files.get(file).cloned().unwrap_or_default();
        let elsewhere = if file == other { String::new() } else { format!(" of {}", path(file).display()) };
        let whose = self.key(id).map_or_else(String::new, |key| format!(" of `{key}`"));
        let (rows, distinct) = (series.len(), series.distinct());
        // Where most rows share a time, dropping rows is the wrong cure.
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
                column.map_or_else(String::new, |c| time::show(&c.kind, time))
            ),
        })
    }

    /// Refuses a series of which dropping duplicates leaves next to nothing.
    fn enough(&self, id: usize, before: usize, series: &Series) -> Result<(), FrameError> {
        if before <= MANY || series.len() >= 2 {
            return Ok(());
        }
        let whose = self.key(id).map_or_else(String::new, |key| format!(" of `{key}`"));
        let column = self.layout.time.as_ref().map_or("", |c| c.name.as_str());
        let left = series.len();
        let file = series.row.first().map_or(0, |place| placed(*place).0);
        Err(FrameError::Format {
            path: self.files.get(file).cloned().unwrap_or_default(),
            message: format!(
                "all {before} rows{whose} have the same time in `{column}`: --duplicates would leave {left}\n  \
                 hint: another column says when: --time NAME or 'DATE+TIME'; --explain-input shows what was recognised"
            ),
        })
    }
}
