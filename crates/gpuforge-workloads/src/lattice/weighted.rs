//! Which path costs least? A* over weights, with what every layer between a cell and the goal costs at least.
//!
//! Estimates grow from cell to cell by limited steps, so that the queue may be one that never looks back (`calendar.rs`). A cell that turns out
//! cheaper after it was done with is opened again: the rounding of estimates cannot spoil a cost.
//!
//! Where least weights say little about a path's cost ([`GUIDED`]), estimates are left out, and cells are taken in the order
//! of their cost alone. Then the first neighbour that is taken is the cheapest way into a cell, because entering it costs the
//! same from everywhere: every cell enters the queue once.

use super::{
    Grid, LatticeError, Weights,
    calendar::Calendar,
    search::{Marks, Method, NoPath, Path, Route, START, Searcher, Space, walk_back},
};

/// Estimates are lowered by this share: sums of weights are rounded in another order than sums of least weights.
const CAREFUL: f64 = 1.0 - 1e-12;

/// Estimates are used where least weights are on average at least this share of all weights.
const GUIDED: f64 = 0.4;

/// Memory of a weighted search.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Cheapest known cost of cells that were met.
    cost: Vec<f64>,
    /// Cells by the estimated cost of a path through them.
    queue: Calendar,
    /// Places along the axes of the cell that is looked around from.
    at: Vec<usize>,
    /// Its neighbours that were not met yet, and the ways there.
    fresh: Vec<(u32, u8)>,
}

impl Searcher {
    pub(super) fn weighted(
        &mut self,
        grid: &Grid,
        costs: &Weights,
        space: &Space<'_>,
        from: u32,
        to: u32,
    ) -> Result<Route, LatticeError> {
        let weights = costs.values();
        let guided = costs.guidance() >= GUIDED;
        let left = costs.still_to_pay(&grid.coordinates(u64::from(to))?);
        let Searcher { marks, weighted: Room { cost, queue, at, fresh }, .. } = self;
        marks.begin(space.cells);
        if guided && cost.len() < weights.len() {
            *cost = vec![0.0; weights.len()];
        }
        // A step costs at most the largest weight, and leads at most one layer away from the goal.
        queue.begin(2.0 * costs.most());
        marks.set(from, START);
        fresh.resize(2 * space.axes.len(), (0, 0));
        cost.get_mut(from as usize).into_iter().for_each(|c| *c = 0.0);
        queue.push(0.0, from);
        let mut expanded = 0;
        while let Some((key, cell)) = queue.pop() {
            if cell == to {
                let cost = if guided { cost.get(to as usize).copied().unwrap_or(key) } else { key };
                let cells = walk_back(marks, space, to);
                return Ok(Route::Found(Path { cells, cost, method: Method::Weighted, expanded }));
            }
            if !guided {
                look_once(space, weights, marks, queue, fresh, (key, cell));
            } else if !marks.done(cell) {
                let so_far = cost.get(cell as usize).copied().unwrap_or(key);
                Around { marks, cost, queue, weights, space, so_far }.look(cell, &left, at);
            } else {
                continue;
            }
            expanded += 1;
        }
        Ok(Route::NoPath(NoPath { method: Method::Weighted, expanded }))
    }
}

/// Without estimates: the key is the cost, and whoever was met has its own.
#[inline]
fn look_once(
    space: &Space<'_>,
    weights: &[f64],
    marks: &mut Marks,
    queue: &mut Calendar,
    fresh: &mut [(u32, u8)],
    (so_far, cell): (f64, u32),
) {
    let many = space.fresh(cell, marks, fresh);
    for (cell, way) in fresh.iter().take(many).copied() {
        marks.set(cell, way);
        queue.push(so_far + weights.get(cell as usize).copied().unwrap_or(0.0), cell);
    }
}

/// What looking around from a cell changes.
struct Around<'a, 'b> {
    marks: &'a mut Marks,
    cost: &'a mut [f64],
    queue: &'a mut Calendar,
    weights: &'a [f64],
    space: &'a Space<'b>,
    so_far: f64,
}

impl Around<'_, '_> {
    #[inline]
    fn look(&mut self, cell: u32, left: &[Vec<f64>], at: &mut Vec<usize>) {
        at.clear();
        let (mut rest, mut all) = (cell, 0.0);
        for (axis, left) in self.space.axes.iter().zip(left) {
            let here = rest / axis.stride;
            rest -= here * axis.stride;
            all += left.get(here as usize).copied().unwrap_or(0.0);
            at.push(here as usize);
        }
        for (way, ((axis, left), here)) in (0u8..).step_by(2).zip(self.space.axes.iter().zip(left).zip(&*at))
        {
            // One axis changes: what is left along the others stays.
            let others = all - left.get(*here).copied().unwrap_or(0.0);
            if let Some(behind) = left.get(here + 1) {
                self.reach(cell + axis.stride, way + 1, others + behind);
            }
            if let Some(before) = here.checked_sub(1).and_then(|i| left.get(i)) {
                self.reach(cell - axis.stride, way, others + before);
            }
        }
    }

    #[inline]
    fn reach(&mut self, cell: u32, way: u8, left: f64) {
        let (Some(known), Some(weight)) = (self.cost.get_mut(cell as usize), self.weights.get(cell as usize))
        else {
            return;
        };
        let new = self.so_far + weight;
        if self.marks.has(cell) {
            if new >= *known {
                return;
            }
        } else if !self.space.open(cell) {
            return;
        }
        *known = new;
        self.marks.set(cell, way);
        // Rounding may leave a little less than nothing.
        self.queue.push(new + left.max(0.0) * CAREFUL, cell);
    }
}
