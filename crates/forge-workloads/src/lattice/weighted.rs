//! Which path costs least? A* over weights, with what every layer between a cell and the goal costs at least.
//!
//! A cell that turns out cheaper after it was done with is opened again, so that the rounding of estimates cannot spoil a cost.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    Lattice, LatticeError,
    search::{Method, NoPath, Path, Route, START, Searcher, Space, walk_back},
};

/// Estimates are lowered by this share: sums of weights are rounded in another order than sums of least weights.
const CAREFUL: f64 = 1.0 - 1e-12;

/// Memory of a weighted search.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Cheapest known cost of cells that were met.
    cost: Vec<f64>,
    /// Cells by estimated cost of a path through them: bits of numbers that are not negative are in their order.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Searcher {
    pub(super) fn weighted(
        &mut self,
        lattice: &Lattice,
        space: &Space<'_>,
        from: u32,
        to: u32,
    ) -> Result<Route, LatticeError> {
        let weights = lattice.weights().map(|w| w.values()).unwrap_or_default();
        let goal = lattice.grid().coordinates(u64::from(to))?;
        let pay = lattice.weights().map(|w| w.still_to_pay(&goal)).unwrap_or_default();
        let method = Method::Weighted;
        let Searcher { marks, weighted: Room { cost, queue }, .. } = self;
        marks.begin(space.cells);
        if cost.len() < weights.len() {
            *cost = vec![0.0; weights.len()];
        }
        queue.clear();
        marks.set(from, START);
        cost.get_mut(from as usize).into_iter().for_each(|c| *c = 0.0);
        queue.push(Reverse((0, from)));
        let mut expanded = 0;
        while let Some(Reverse((_, cell))) = queue.pop() {
            if cell == to {
                let cells = walk_back(marks, space, to);
                let cost = cost.get(to as usize).copied().unwrap_or(0.0);
                return Ok(Route::Found(Path { cells, cost, method, expanded }));
            }
            if marks.done(cell) {
                continue;
            }
            expanded += 1;
            let so_far = cost.get(cell as usize).copied().unwrap_or(0.0);
            let left = Left::of(&pay, space, cell);
            space.around(cell, |neighbour, way| {
                let (Some(known), Some(weight)) =
                    (cost.get_mut(neighbour as usize), weights.get(neighbour as usize))
                else {
                    return;
                };
                let new = so_far + weight;
                if marks.has(neighbour) && new >= *known {
                    return;
                }
                *known = new;
                marks.set(neighbour, way);
                let estimate = new + left.after(&pay, space, cell, way) * CAREFUL;
                queue.push(Reverse((estimate.to_bits(), neighbour)));
            });
        }
        Ok(Route::NoPath(NoPath { method, expanded }))
    }
}

/// What is left to pay from a cell, at least.
struct Left(f64);

impl Left {
    fn of(pay: &[Vec<f64>], space: &Space<'_>, cell: u32) -> Left {
        let mut rest = cell;
        let mut sum = 0.0;
        for (axis, pay) in space.axes.iter().zip(pay) {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            sum += pay.get(at as usize).copied().unwrap_or(0.0);
        }
        Left(sum)
    }

    /// From its neighbour by this way: one axis changes.
    fn after(&self, pay: &[Vec<f64>], space: &Space<'_>, cell: u32, way: u8) -> f64 {
        let i = usize::from(way / 2);
        let (Some(axis), Some(pay)) = (space.axes.get(i), pay.get(i)) else { return 0.0 };
        let at = (cell / axis.stride % axis.size) as usize;
        let next = if way.is_multiple_of(2) { at.wrapping_sub(1) } else { at + 1 };
        let of = |c: usize| pay.get(c).copied().unwrap_or(0.0);
        (self.0 - of(at) + of(next)).max(0.0)
    }
}
