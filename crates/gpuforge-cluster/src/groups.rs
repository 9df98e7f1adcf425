//! Which symbols are computed together? Rows by symbol, in time order, as many symbols at once as fit.
//!
//! ```text
//!   rows in any order ──► Gather: by symbol, in memory ──► groups of symbols ──┐
//!          │ does not fit                                                      ├──► Work
//!          └──► sorted by symbol and time, on disk ──► Ordered ────────────────┤
//!   rows that are sorted already ─────────────────────► Ordered ───────────────┘
//! ```

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, UInt64Array},
    compute::{concat_batches, interleave_record_batch, take_record_batch},
};
use datafusion::error::Result;
use gpuforge::frame::Key;

use crate::{
    error::ClusterError,
    rows::{shown, stretches, times},
    spec::Bound,
};

/// Stretches that are shorter than this on average are picked row by row; longer ones are copied.
const SHORT: usize = 16;

/// What is to be computed next.
pub(crate) enum Work {
    /// Whole symbols.
    Group(Rows),
    /// The next bars of a symbol that is too large to be held.
    Part {
        /// The bars.
        batch: RecordBatch,
        /// Are they its first?
        first: bool,
    },
}

/// Rows of whole symbols.
pub(crate) struct Rows {
    /// Where they are.
    pub(crate) from: Found,
    /// Symbols, and how many bars each has.
    pub(crate) symbols: Vec<(Option<Key>, usize)>,
    /// Are they known to be in time order?
    pub(crate) ordered: bool,
}

/// Where rows are.
pub(crate) enum Found {
    /// One after the other.
    Pieces(Vec<RecordBatch>),
    /// Here and there: batch and row of each.
    Picked(Arc<Vec<RecordBatch>>, Vec<(usize, usize)>),
}

impl Rows {
    /// One batch, each symbol's bars together and in time order; and the number of bars of each.
    pub(crate) fn assemble(self, bound: &Bound) -> Result<(RecordBatch, Vec<usize>)> {
        let batch = match self.from {
            Found::Pieces(pieces) => match pieces.as_slice() {
                [one] => one.clone(),
                all => concat_batches(&bound.input, all)?,
            },
            Found::Picked(batches, rows) => {
                interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &rows)?
            }
        };
        let lengths: Vec<usize> = self.symbols.iter().map(|(_, n)| *n).collect();
        let times = times(bound, batch.column(bound.time))?;
        if self.ordered || ordered(&times, &lengths) {
            return Ok((batch, lengths));
        }
        let order = by_time(&times, &self.symbols)?;
        Ok((take_record_batch(&batch, &order)?, lengths))
    }
}

/// Is every stretch in time order, no time twice?
fn ordered(times: &[i64], lengths: &[usize]) -> bool {
    let mut rest = times;
    lengths.iter().all(|n| {
        let (now, later) = rest.split_at(*n.min(&rest.len()));
        rest = later;
        now.is_sorted_by(|a, b| a < b)
    })
}

/// Rows of every symbol in time order; a time that a symbol has twice is an error.
fn by_time(times: &[i64], symbols: &[(Option<Key>, usize)]) -> Result<UInt64Array> {
    let mut all: Vec<u64> = Vec::with_capacity(times.len());
    for (symbol, n) in symbols {
        let from = all.len();
        let mut rows: Vec<(i64, u64)> =
            times.iter().skip(from).take(*n).zip(from as u64..).map(|(time, row)| (*time, row)).collect();
        rows.sort_unstable();
        if let Some([(time, _), _]) = rows.array_windows().find(|[a, b]| a.0 == b.0) {
            return Err(ClusterError::Twice { symbol: shown(symbol), time: *time }.into());
        }
        all.extend(rows.into_iter().map(|(_, row)| row));
    }
    Ok(all.into())
}

/// A stretch of one symbol's rows.
struct Stretch {
    batch: usize,
    from: usize,
    rows: usize,
}

/// Rows of a partition, by symbol.
#[derive(Default)]
pub(crate) struct Gather {
    batches: Vec<RecordBatch>,
    places: HashMap<Option<Key>, usize>,
    symbols: Vec<(Option<Key>, Vec<Stretch>)>,
}

impl Gather {
    /// Takes a batch.
    pub(crate) fn push(&mut self, bound: &Bound, batch: RecordBatch) -> Result<()> {
        for (key, range) in stretches(bound, &batch)? {
            let place = *self.places.entry(key.clone()).or_insert_with(|| {
                self.symbols.push((key, Vec::new()));
                self.symbols.len() - 1
            });
            if let Some((_, stretches)) = self.symbols.get_mut(place) {
                stretches.push(Stretch { batch: self.batches.len(), from: range.start, rows: range.len() });
            }
        }
        self.batches.push(batch);
        Ok(())
    }

    /// Gives the batches back as they came.
    pub(crate) fn give_up(self) -> Vec<RecordBatch> {
        self.batches
    }

    /// Rows of the largest symbol.
    pub(crate) fn largest(&self) -> usize {
        let rows = |stretches: &[Stretch]| stretches.iter().map(|s| s.rows).sum();
        self.symbols.iter().map(|(_, stretches)| rows(stretches)).max().unwrap_or(0)
    }

    /// Groups of symbols with at most so many rows, unless one has more by itself; symbols in order.
    pub(crate) fn groups(mut self, most: usize) -> impl Iterator<Item = Work> {
        self.symbols.sort_by(|a, b| a.0.cmp(&b.0));
        let batches = Arc::new(self.batches);
        let mut symbols = self.symbols.into_iter().peekable();
        std::iter::from_fn(move || {
            let (mut group, mut rows, mut pieces) = (Vec::new(), 0, 0);
            while let Some((_, stretches)) = symbols.peek() {
                let more: usize = stretches.iter().map(|s| s.rows).sum();
                if !group.is_empty() && rows + more > most {
                    break;
                }
                rows += more;
                pieces += stretches.len();
                group.extend(symbols.next());
            }
            (!group.is_empty()).then(|| {
                let symbols =
                    group.iter().map(|(key, s)| (key.clone(), s.iter().map(|s| s.rows).sum())).collect();
                let stretches = group.iter().flat_map(|(_, s)| s);
                let from = match pieces.saturating_mul(SHORT) > rows {
                    true => Found::Picked(batches.clone(), picked(stretches)),
                    false => Found::Pieces(cut(&batches, stretches)),
                };
                Work::Group(Rows { from, symbols, ordered: false })
            })
        })
    }
}

fn picked<'s>(stretches: impl Iterator<Item = &'s Stretch>) -> Vec<(usize, usize)> {
    stretches.flat_map(|s| (s.from..s.from + s.rows).map(|row| (s.batch, row))).collect()
}

fn cut<'s>(batches: &[RecordBatch], stretches: impl Iterator<Item = &'s Stretch>) -> Vec<RecordBatch> {
    stretches.filter_map(|s| batches.get(s.batch).map(|b| b.slice(s.from, s.rows))).collect()
}

/// Rows that come by symbol, each symbol's in time order.
pub(crate) struct Ordered {
    /// Bytes of bars and results of one group.
    most: usize,
    waiting: Vec<RecordBatch>,
    symbols: Vec<(Option<Key>, usize)>,
    bytes: usize,
    /// Whose rows come now, their last time, and whether they are handed over in parts.
    now: Option<(Option<Key>, i64, Held)>,
    seen: HashSet<Option<Key>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Held {
    Whole,
    Parts,
}

impl Ordered {
    /// Groups of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Ordered { most, waiting: Vec::new(), symbols: Vec::new(), bytes: 0, now: None, seen: HashSet::new() }
    }

    /// Takes a batch, and hands over what is complete.
    pub(crate) fn push(&mut self, bound: &Bound, batch: &RecordBatch) -> Result<Vec<Work>> {
        let times = times(bound, batch.column(bound.time))?;
        let mut done = Vec::new();
        for (key, range) in stretches(bound, batch)? {
            let rows = batch.slice(range.start, range.len());
            let Some(times) = times.get(range) else { continue };
            self.check(&key, times)?;
            let last = times.last().copied().unwrap_or_default();
            let cost = rows.num_rows() * bound.row_bytes();
            match &mut self.now {
                Some((symbol, before, held)) if *symbol == key => {
                    *before = last;
                    if *held == Held::Parts {
                        done.push(Work::Part { batch: rows, first: false });
                        continue;
                    }
                    if let Some((_, n)) = self.symbols.last_mut() {
                        *n += rows.num_rows();
                    }
                }
                _ => {
                    // A symbol that may fit is not begun in a group that is full.
                    if self.bytes + cost > self.most {
                        done.extend(self.flush());
                    }
                    self.seen.insert(key.clone());
                    self.symbols.push((key.clone(), rows.num_rows()));
                    self.now = Some((key, last, Held::Whole));
                }
            }
            self.bytes += cost;
            self.waiting.push(rows);
            if self.bytes > self.most {
                done.extend(self.full(bound)?);
            }
        }
        Ok(done)
    }

    /// More waits than may: the complete symbols go; if the one that is coming does not fit by itself, it goes in parts.
    fn full(&mut self, bound: &Bound) -> Result<Vec<Work>> {
        let (Some((symbol, n)), Some((_, _, held))) = (self.symbols.pop(), &mut self.now) else {
            return Ok(Vec::new());
        };
        let mut mine = Vec::new();
        let mut left = n;
        while left > 0
            && let Some(batch) = self.waiting.pop()
        {
            left = left.saturating_sub(batch.num_rows());
            mine.push(batch);
        }
        mine.reverse();
        let cost = n * bound.row_bytes();
        let mut done = Vec::new();
        if !self.symbols.is_empty() {
            let from = Found::Pieces(std::mem::take(&mut self.waiting));
            let symbols = std::mem::take(&mut self.symbols);
            done.push(Work::Group(Rows { from, symbols, ordered: true }));
        }
        self.bytes = cost;
        if cost <= self.most {
            self.waiting = mine;
            self.symbols.push((symbol, n));
            return Ok(done);
        }
        let selection = &bound.request.selection;
        if !selection.plan.supports_streaming() {
            let column = bound.request.whole_series_columns().first().cloned().unwrap_or_default();
            return Err(ClusterError::Memory { symbol: shown(&symbol), column }.into());
        }
        *held = Held::Parts;
        self.bytes = 0;
        done.extend(mine.into_iter().enumerate().map(|(at, batch)| Work::Part { batch, first: at == 0 }));
        Ok(done)
    }

    /// Everything that waits.
    pub(crate) fn flush(&mut self) -> Option<Work> {
        self.bytes = 0;
        let (symbols, pieces) = (std::mem::take(&mut self.symbols), std::mem::take(&mut self.waiting));
        let rows = Rows { from: Found::Pieces(pieces), symbols, ordered: true };
        (!rows.symbols.is_empty()).then_some(Work::Group(rows))
    }

    /// Does this stretch continue what was declared: symbols together, times rising?
    fn check(&self, key: &Option<Key>, times: &[i64]) -> Result<()> {
        let before = self.now.as_ref().filter(|(symbol, ..)| symbol == key).map(|(_, last, _)| *last);
        let back = |found| ClusterError::NotSorted { symbol: shown(key), found };
        if before.is_none() && self.seen.contains(key) {
            return Err(back("its rows are not together".to_owned()).into());
        }
        let mut last = before;
        for time in times {
            if let Some(last) = last
                && last >= *time
            {
                return Err(match last == *time {
                    true => ClusterError::Twice { symbol: shown(key), time: *time },
                    false => back(format!("{time} comes after {last}")),
                }
                .into());
            }
            last = Some(*time);
        }
        Ok(())
    }
}
