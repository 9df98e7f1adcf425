//! Weighted A*: shortest paths over cell weights, with the sum of layer minima as the heuristic; Dijkstra where that is weak.
//!
//! f-values grow by bounded steps, so that the priority queue can be monotone (`calendar_queue.rs`). A cell that gets cheaper
//! after it was closed is reopened: rounding of the heuristic cannot spoil a cost.
//!
//! Where layer minima say little about a path's cost ([`MIN_GUIDANCE`]), the heuristic is dropped (Dijkstra). Then the first
//! neighbour to be expanded is the cheapest way into a cell, because entering it costs the same from everywhere: every cell is
//! queued once.

use super::{
    Grid, LatticeError, Weights,
    calendar_queue::CalendarQueue,
    search::{
        LatticePath, NoPath, START, SearchGrid, SearchMethod, SearchResult, Searcher, VisitedMarks, path_to,
    },
};

/// The heuristic is lowered by this factor: sums of weights are rounded in another order than sums of minima.
const HEURISTIC_SLACK: f64 = 1.0 - 1e-12;

/// The heuristic is used where layer minima average at least this share of all weights.
const MIN_GUIDANCE: f64 = 0.4;

/// Reusable memory of a weighted search.
#[derive(Debug, Default)]
pub(super) struct WeightedState {
    /// Cheapest known cost (g-value) of visited cells.
    cost: Vec<f64>,
    /// Open list by f-value.
    queue: CalendarQueue,
    /// Coordinates of the cell being expanded.
    at: Vec<usize>,
    /// Its unvisited neighbours and directions.
    fresh: Vec<(u32, u8)>,
}

impl Searcher {
    pub(super) fn weighted(
        &mut self,
        grid: &Grid,
        costs: &Weights,
        space: &SearchGrid<'_>,
        from: u32,
        to: u32,
    ) -> Result<SearchResult, LatticeError> {
        let weights = costs.values();
        let use_heuristic = costs.heuristic_quality() >= MIN_GUIDANCE;
        let left = costs.heuristic_table(&grid.coordinates(u64::from(to))?);
        let Searcher { marks, weighted: WeightedState { cost, queue, at, fresh }, .. } = self;
        marks.begin(space.cells);
        if use_heuristic && cost.len() < weights.len() {
            *cost = vec![0.0; weights.len()];
        }
        // A step costs at most the largest weight, and moves at most one layer away from the goal.
        queue.begin(2.0 * costs.max());
        marks.set(from, START);
        fresh.resize(2 * space.axes.len(), (0, 0));
        cost.get_mut(from as usize).into_iter().for_each(|c| *c = 0.0);
        queue.push(0.0, from);
        let mut expanded = 0;
        while let Some((key, cell)) = queue.pop() {
            if cell == to {
                let cost = if use_heuristic { cost.get(to as usize).copied().unwrap_or(key) } else { key };
                let cells = path_to(marks, space, to);
                return Ok(SearchResult::Found(LatticePath {
                    cells,
                    cost,
                    method: SearchMethod::WeightedAStar,
                    expanded,
                }));
            }
            if !use_heuristic {
                expand_dijkstra(space, weights, marks, queue, fresh, (key, cell));
            } else if !marks.done(cell) {
                let so_far = cost.get(cell as usize).copied().unwrap_or(key);
                Relaxation { marks, cost, queue, weights, space, so_far }.expand(cell, &left, at);
            } else {
                continue;
            }
            expanded += 1;
        }
        Ok(SearchResult::NoPath(NoPath { method: SearchMethod::WeightedAStar, expanded }))
    }
}

/// Dijkstra: the key is the cost, and visited cells are final.
#[inline]
fn expand_dijkstra(
    space: &SearchGrid<'_>,
    weights: &[f64],
    marks: &mut VisitedMarks,
    queue: &mut CalendarQueue,
    fresh: &mut [(u32, u8)],
    (so_far, cell): (f64, u32),
) {
    let many = space.unvisited_neighbours(cell, marks, fresh);
    for (cell, way) in fresh.iter().take(many).copied() {
        marks.set(cell, way);
        queue.push(so_far + weights.get(cell as usize).copied().unwrap_or(0.0), cell);
    }
}

/// Expansion of a cell: relaxes its neighbours.
struct Relaxation<'a, 'b> {
    marks: &'a mut VisitedMarks,
    cost: &'a mut [f64],
    queue: &'a mut CalendarQueue,
    weights: &'a [f64],
    space: &'a SearchGrid<'b>,
    so_far: f64,
}

impl Relaxation<'_, '_> {
    #[inline]
    fn expand(&mut self, cell: u32, left: &[Vec<f64>], at: &mut Vec<usize>) {
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
            // One axis changes: the heuristic of the others stays.
            let others = all - left.get(*here).copied().unwrap_or(0.0);
            if let Some(behind) = left.get(here + 1) {
                self.relax(cell + axis.stride, way + 1, others + behind);
            }
            if let Some(before) = here.checked_sub(1).and_then(|i| left.get(i)) {
                self.relax(cell - axis.stride, way, others + before);
            }
        }
    }

    #[inline]
    fn relax(&mut self, cell: u32, way: u8, left: f64) {
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
        // Rounding may leave a slightly negative value.
        self.queue.push(new + left.max(0.0) * HEURISTIC_SLACK, cell);
    }
}
