//! How far is every cell? One breadth-first pass over a field of words, which are both the map and the result.

use super::{Lattice, grid::Axis};

/// A cell that was not reached.
pub const UNREACHED: u32 = u32::MAX;
/// A cell that cannot be entered.
pub const BLOCKED: u32 = u32::MAX - 1;

/// One axis of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Line {
    pub(super) stride: u32,
    pub(super) size: u32,
}

/// Axes that lead anywhere. Sizes were checked by the caller: numbers of cells fit 32 bits.
pub(super) fn lines(axes: &[Axis]) -> Vec<Line> {
    let line = |a: &Axis| Line { stride: a.stride as u32, size: a.size as u32 };
    axes.iter().filter(|a| a.size > 1).map(line).collect()
}

/// A field without sources: every cell blocked or not reached.
pub(super) fn field(lattice: &Lattice) -> Vec<u32> {
    let n = lattice.grid().vertices();
    match lattice.blocked() {
        None => vec![UNREACHED; n as usize],
        Some(blocked) => (0..n).map(|c| UNREACHED - u32::from(blocked.contains(c))).collect(),
    }
}

/// Spreads from the cells in `queue`, whose words are set, over all that are not reached. Afterwards the queue holds every
/// cell that was reached, nearest first.
pub(super) fn flood(lines: &[Line], field: &mut [u32], queue: &mut Vec<u32>) {
    let mut head = 0;
    while let Some(cell) = queue.get(head).copied() {
        head += 1;
        let next = field.get(cell as usize).map_or(0, |d| d + 1);
        let mut rest = cell;
        for line in lines {
            let at = rest / line.stride;
            rest -= at * line.stride;
            if at > 0 {
                reach(field, queue, cell - line.stride, next);
            }
            if at + 1 < line.size {
                reach(field, queue, cell + line.stride, next);
            }
        }
    }
}

#[inline]
fn reach(field: &mut [u32], queue: &mut Vec<u32>, cell: u32, distance: u32) {
    if let Some(word) = field.get_mut(cell as usize).filter(|w| **w == UNREACHED) {
        *word = distance;
        queue.push(cell);
    }
}

/// Distances from one cell where nothing is blocked, without a search: line after line of the last axis.
pub(super) fn fill_open(lines: &[Line], source: u32, field: &mut [u32]) {
    let Some((last, outer)) = lines.split_last() else { return };
    let place = |line: &Line| source / line.stride % line.size;
    let from = place(last);
    for (number, row) in field.chunks_exact_mut(last.size as usize).enumerate() {
        let first = number as u32 * last.size;
        let base: u32 = outer.iter().map(|l| (first / l.stride % l.size).abs_diff(place(l))).sum();
        for (at, word) in (0u32..).zip(row) {
            *word = base + at.abs_diff(from);
        }
    }
}
