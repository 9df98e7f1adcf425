//! Rows of one symbol: append, stable sort by time, deduplication of times.

use super::{chunk::Chunk, spill::ColumnSet};
use crate::bars::{Bars, SymbolKey};

/// Policy for duplicate times of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Error.
    #[default]
    Error,
    /// Keep the first row.
    First,
    /// Keep the last row.
    Last,
}

/// Rows of one symbol, in input order until sorted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Series {
    /// Times; empty if there are none.
    pub time: Vec<i64>,
    /// Row ids (file and row) for error messages. Empty without times.
    pub row: Vec<u64>,
    /// Open, high, low, close, volume; empty if not requested.
    pub values: [Vec<f64>; 5],
}

/// Low bits of a row id: the row within its file; the file index is above them.
const ROW_BITS: u32 = 40;

/// Packs file index and row into a row id.
pub(super) fn row_id(file: usize, row: u64) -> u64 {
    (file as u64) << ROW_BITS | row
}

/// Unpacks a row id.
pub(super) fn decode_row_id(id: u64) -> (usize, u64) {
    ((id >> ROW_BITS) as usize, id & ((1 << ROW_BITS) - 1))
}

impl Series {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.values.iter().map(Vec::len).max().unwrap_or(0).max(self.time.len())
    }

    /// Reserves exactly this many rows.
    pub(super) fn reserve(&mut self, rows: usize, columns: ColumnSet) {
        if columns.timed {
            self.time.reserve_exact(rows);
            self.row.reserve_exact(rows);
        }
        for (column, _) in self.values.iter_mut().zip(columns.values).filter(|(_, present)| *present) {
            column.reserve_exact(rows);
        }
    }

    /// Appends some rows of a chunk.
    pub(super) fn extend(&mut self, chunk: &Chunk, rows: std::ops::Range<usize>, file: usize) {
        if let Some(times) = chunk.time.get(rows.clone()) {
            grow(&mut self.time, times.len()).extend_from_slice(times);
            let numbers = chunk.row.get(rows.clone()).unwrap_or_default();
            grow(&mut self.row, numbers.len()).extend(numbers.iter().map(|row| row_id(file, *row)));
        }
        for (to, from) in self.values.iter_mut().zip(&chunk.values) {
            let from = from.get(rows.clone()).unwrap_or_default();
            grow(to, from.len()).extend_from_slice(from);
        }
    }

    /// Appends one row of a chunk.
    pub(super) fn push(&mut self, chunk: &Chunk, at: usize, file: usize) {
        if let (Some(time), Some(row)) = (chunk.time.get(at), chunk.row.get(at)) {
            grow(&mut self.time, 1).push(*time);
            grow(&mut self.row, 1).push(row_id(file, *row));
        }
        for (to, from) in self.values.iter_mut().zip(&chunk.values) {
            if let Some(value) = from.get(at) {
                grow(to, 1).push(*value);
            }
        }
    }

    /// Allocated bytes.
    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(Vec::capacity).sum();
        8 * (values + self.time.capacity() + self.row.capacity())
    }

    /// Stable sort by time.
    pub(super) fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.time.len()).collect();
        let time = &self.time;
        order.sort_by_key(|at| time.get(*at));
        permute(&mut self.time, &order);
        permute(&mut self.row, &order);
        self.values.iter_mut().for_each(|column| permute(column, &order));
    }

    /// Position of the first duplicate time in a sorted series.
    pub(super) fn first_duplicate_time(&self) -> Option<usize> {
        self.time.array_windows().position(|[a, b]| a == b)
    }

    /// Number of distinct times in a sorted series.
    pub(super) fn distinct_times(&self) -> usize {
        let changes = self.time.array_windows().filter(|[a, b]| a != b).count();
        changes + usize::from(!self.time.is_empty())
    }

    /// Deduplicates the times of a sorted series; returns the file of each dropped row.
    pub(super) fn dedup_times(&mut self, keep: Duplicates) -> Vec<usize> {
        let last = keep == Duplicates::Last;
        let (mut order, mut dropped) = (Vec::with_capacity(self.time.len()), Vec::new());
        for at in 0..self.time.len() {
            let next =
                if last { self.time.get(at + 1) } else { at.checked_sub(1).and_then(|b| self.time.get(b)) };
            match next != self.time.get(at) {
                true => order.push(at),
                false => dropped.push(self.row.get(at).map_or(0, |row| decode_row_id(*row).0)),
            }
        }
        if !dropped.is_empty() {
            permute(&mut self.time, &order);
            permute(&mut self.row, &order);
            self.values.iter_mut().for_each(|column| permute(column, &order));
        }
        dropped
    }

    /// Splits the last row off.
    pub(super) fn split_last(&mut self) -> Series {
        let at = self.time.len().saturating_sub(1);
        let mut last =
            Series { time: self.time.split_off(at), row: self.row.split_off(at), ..Series::default() };
        for (from, to) in self.values.iter_mut().zip(&mut last.values) {
            *to = from.split_off(at.min(from.len()));
        }
        last
    }

    /// Converts to bars; row ids are dropped.
    pub(super) fn bars(self, symbol: Option<SymbolKey>) -> Bars {
        let [open, high, low, close, volume] = self.values;
        Bars { symbol, time: self.time, open, high, low, close, volume }
    }
}

/// Grows capacity by a quarter: capacity counts against the memory limit, and doubling would waste half.
fn grow<T>(column: &mut Vec<T>, more: usize) -> &mut Vec<T> {
    if column.capacity() - column.len() < more {
        column.reserve_exact(more.max(column.len() / 4).max(16));
    }
    column
}

/// Applies a permutation (or selection) to a column; an empty column stays empty.
fn permute<T: Copy>(column: &mut Vec<T>, order: &[usize]) {
    if !column.is_empty() {
        *column = order.iter().filter_map(|at| column.get(*at).copied()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(times: &[i64]) -> Series {
        let values: Vec<f64> = (0..times.len()).map(|i| i as f64).collect();
        let row = (0..times.len() as u64).collect();
        Series { time: times.to_vec(), row, values: [values, vec![], vec![], vec![], vec![]] }
    }

    #[test]
    fn sort_is_stable() {
        let mut some = series(&[3, 1, 3, 2, 1]);
        some.sort();
        assert_eq!(some.time, [1, 1, 2, 3, 3]);
        assert_eq!(some.row, [1, 4, 3, 0, 2]);
        assert_eq!(some.values[0], [1.0, 4.0, 3.0, 0.0, 2.0]);
        assert_eq!(some.first_duplicate_time(), Some(0));
    }

    #[test]
    fn dedup_keeps_the_first_or_the_last() {
        for (keep, rows) in [(Duplicates::First, [0, 2, 3]), (Duplicates::Last, [1, 2, 5])] {
            let mut some = series(&[1, 1, 2, 3, 3, 3]);
            assert_eq!((some.distinct_times(), some.dedup_times(keep).len()), (3, 3));
            assert_eq!(some.row, rows);
            assert_eq!(some.first_duplicate_time(), None);
        }
    }

    #[test]
    fn row_ids_round_trip() {
        assert_eq!(decode_row_id(row_id(7, 123_456)), (7, 123_456));
    }
}
