//! How do rows of one symbol become bars? In time order, each time once.

use super::{chunk::Chunk, spill::Shape};
use crate::bars::{Bars, Key};

/// What is done with a time that a symbol has twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// It is an error.
    #[default]
    Error,
    /// The first row counts.
    First,
    /// The last row counts.
    Last,
}

/// Rows of one symbol, in the order of the input.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Series {
    /// Times; empty if there are none.
    pub time: Vec<i64>,
    /// Where each row was: file and row. Empty if there are no times.
    pub row: Vec<u64>,
    /// Open, high, low, close, volume; empty if not asked for.
    pub values: [Vec<f64>; 5],
}

/// Bits for the row within its file; the file's number is above them.
const ROW_BITS: u32 = 40;

/// File and row as one number.
pub(super) fn place(file: usize, row: u64) -> u64 {
    (file as u64) << ROW_BITS | row
}

/// The file, and the row in it.
pub(super) fn placed(place: u64) -> (usize, u64) {
    ((place >> ROW_BITS) as usize, place & ((1 << ROW_BITS) - 1))
}

impl Series {
    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.values.iter().map(Vec::len).max().unwrap_or(0).max(self.time.len())
    }

    /// Makes room for so many rows, and no more.
    pub(super) fn reserve(&mut self, rows: usize, shape: Shape) {
        if shape.timed {
            self.time.reserve_exact(rows);
            self.row.reserve_exact(rows);
        }
        for (column, _) in self.values.iter_mut().zip(shape.values).filter(|(_, present)| *present) {
            column.reserve_exact(rows);
        }
    }

    /// Appends some rows of a chunk.
    pub(super) fn extend(&mut self, chunk: &Chunk, rows: std::ops::Range<usize>, file: usize) {
        if let Some(times) = chunk.time.get(rows.clone()) {
            room(&mut self.time, times.len()).extend_from_slice(times);
            let numbers = chunk.row.get(rows.clone()).unwrap_or_default();
            room(&mut self.row, numbers.len()).extend(numbers.iter().map(|row| place(file, *row)));
        }
        for (to, from) in self.values.iter_mut().zip(&chunk.values) {
            let from = from.get(rows.clone()).unwrap_or_default();
            room(to, from.len()).extend_from_slice(from);
        }
    }

    /// Appends one row of a chunk.
    pub(super) fn push(&mut self, chunk: &Chunk, at: usize, file: usize) {
        if let (Some(time), Some(row)) = (chunk.time.get(at), chunk.row.get(at)) {
            room(&mut self.time, 1).push(*time);
            room(&mut self.row, 1).push(place(file, *row));
        }
        for (to, from) in self.values.iter_mut().zip(&chunk.values) {
            if let Some(value) = from.get(at) {
                room(to, 1).push(*value);
            }
        }
    }

    /// Memory that is reserved.
    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(Vec::capacity).sum();
        8 * (values + self.time.capacity() + self.row.capacity())
    }

    /// Puts the rows in time order; rows of the same time stay as they were.
    pub(super) fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.time.len()).collect();
        let time = &self.time;
        order.sort_by_key(|at| time.get(*at));
        pick(&mut self.time, &order);
        pick(&mut self.row, &order);
        self.values.iter_mut().for_each(|column| pick(column, &order));
    }

    /// The first two rows of a sorted series that have the same time.
    pub(super) fn twice(&self) -> Option<usize> {
        self.time.array_windows().position(|[a, b]| a == b)
    }

    /// How many different times a sorted series has.
    pub(super) fn distinct(&self) -> usize {
        let changes = self.time.array_windows().filter(|[a, b]| a != b).count();
        changes + usize::from(!self.time.is_empty())
    }

    /// Leaves one row of each time in a sorted series; the files of the rows that it left out, one for each.
    pub(super) fn once(&mut self, keep: Duplicates) -> Vec<usize> {
        let last = keep == Duplicates::Last;
        let (mut order, mut dropped) = (Vec::with_capacity(self.time.len()), Vec::new());
        for at in 0..self.time.len() {
            let next =
                if last { self.time.get(at + 1) } else { at.checked_sub(1).and_then(|b| self.time.get(b)) };
            match next != self.time.get(at) {
                true => order.push(at),
                false => dropped.push(self.row.get(at).map_or(0, |row| placed(*row).0)),
            }
        }
        if !dropped.is_empty() {
            pick(&mut self.time, &order);
            pick(&mut self.row, &order);
            self.values.iter_mut().for_each(|column| pick(column, &order));
        }
        dropped
    }

    /// Takes the last row off.
    pub(super) fn split_last(&mut self) -> Series {
        let at = self.time.len().saturating_sub(1);
        let mut last =
            Series { time: self.time.split_off(at), row: self.row.split_off(at), ..Series::default() };
        for (from, to) in self.values.iter_mut().zip(&mut last.values) {
            *to = from.split_off(at.min(from.len()));
        }
        last
    }

    /// Done: the row numbers are no longer needed.
    pub(super) fn bars(self, symbol: Option<Key>) -> Bars {
        let [open, high, low, close, volume] = self.values;
        Bars { symbol, time: self.time, open, high, low, close, volume }
    }
}

/// Makes room for more. A quarter at a time: what is reserved counts against the limit, and doubling would waste half.
fn room<T>(column: &mut Vec<T>, more: usize) -> &mut Vec<T> {
    if column.capacity() - column.len() < more {
        column.reserve_exact(more.max(column.len() / 4).max(16));
    }
    column
}

/// These elements of a column, in this order; a column that is not there stays so.
fn pick<T: Copy>(column: &mut Vec<T>, order: &[usize]) {
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
    fn sorting_keeps_equal_times_in_order() {
        let mut some = series(&[3, 1, 3, 2, 1]);
        some.sort();
        assert_eq!(some.time, [1, 1, 2, 3, 3]);
        assert_eq!(some.row, [1, 4, 3, 0, 2]);
        assert_eq!(some.values[0], [1.0, 4.0, 3.0, 0.0, 2.0]);
        assert_eq!(some.twice(), Some(0));
    }

    #[test]
    fn the_first_or_the_last_of_equals_stays() {
        for (keep, rows) in [(Duplicates::First, [0, 2, 3]), (Duplicates::Last, [1, 2, 5])] {
            let mut some = series(&[1, 1, 2, 3, 3, 3]);
            assert_eq!((some.distinct(), some.once(keep).len()), (3, 3));
            assert_eq!(some.row, rows);
            assert_eq!(some.twice(), None);
        }
    }

    #[test]
    fn places_come_back() {
        assert_eq!(placed(place(7, 123_456)), (7, 123_456));
    }
}
