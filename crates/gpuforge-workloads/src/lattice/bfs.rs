//! Breadth-first search (flood fill) over a distance field, which is both map and result.

use super::{Lattice, grid::Axis};

/// Distance of a cell that was not reached.
pub const UNREACHED: u32 = u32::MAX;
/// Distance value of a blocked cell.
pub const BLOCKED: u32 = u32::MAX - 1;

/// Stride and size of one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct AxisStride {
    pub(super) stride: u32,
    pub(super) size: u32,
}

/// Axes with more than one point. The caller has checked that cell numbers fit u32.
pub(super) fn axis_strides(axes: &[Axis]) -> Vec<AxisStride> {
    let stride = |a: &Axis| AxisStride { stride: a.stride as u32, size: a.size as u32 };
    axes.iter().filter(|a| a.size > 1).map(stride).collect()
}

/// A distance field without sources: every cell blocked or unreached.
pub(super) fn distance_field(lattice: &Lattice) -> Vec<u32> {
    let n = lattice.grid().vertices();
    match lattice.blocked() {
        None => vec![UNREACHED; n as usize],
        Some(blocked) => (0..n).map(|c| UNREACHED - u32::from(blocked.contains(c))).collect(),
    }
}

/// BFS from the cells in `queue`, whose distances are set. Afterwards the queue holds every reached cell, nearest first.
pub(super) fn bfs(axes: &[AxisStride], field: &mut [u32], queue: &mut Vec<u32>) {
    let mut head = 0;
    while let Some(cell) = queue.get(head).copied() {
        head += 1;
        let next = field.get(cell as usize).map_or(0, |d| d + 1);
        let mut rest = cell;
        for axis in axes {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            if at > 0 {
                reach(field, queue, cell - axis.stride, next);
            }
            if at + 1 < axis.size {
                reach(field, queue, cell + axis.stride, next);
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

/// Closed form (L1 distance) where nothing is blocked, row by row.
pub(super) fn fill_open(axes: &[AxisStride], source: u32, field: &mut [u32]) {
    let Some((last, outer)) = axes.split_last() else { return };
    let coordinate = |axis: &AxisStride| source / axis.stride % axis.size;
    let from = coordinate(last);
    for (number, row) in field.chunks_exact_mut(last.size as usize).enumerate() {
        let first = number as u32 * last.size;
        let base: u32 = outer.iter().map(|l| (first / l.stride % l.size).abs_diff(coordinate(l))).sum();
        for (at, word) in (0u32..).zip(row) {
            *word = base + at.abs_diff(from);
        }
    }
}
