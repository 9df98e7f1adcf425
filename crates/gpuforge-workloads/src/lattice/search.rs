//! Shortest-path search on a lattice: closed form, A*, bidirectional BFS or weighted A*, whichever suits.
//!
//! | lattice | method | why |
//! |---|---|---|
//! | nothing blocked, no weights | closed form | every monotone path is shortest |
//! | blocked cells | A* (L1 heuristic), then bidirectional BFS | see below |
//! | weights | weighted A* (`weighted_astar.rs`) | the minimum weight of each layer is an admissible heuristic |
//!
//! **A\* with two buckets.** On a grid, a step goes either towards the goal or away from it, and a path with `k` steps away is
//! `L1 + 2k` long. So the priority queue of A* is two stacks: cells at the current f-value, and cells one detour (f + 2) later.
//! Within a stack the newest cell comes first (depth first among ties), so that an easy path is followed to its end instead of
//! widening a front. In a maze that has no advantage; bidirectional BFS (`bidirectional.rs`) is better there, and notices soon
//! when one front is enclosed. So both get a short attempt, then A* gets a share of the cells, then bidirectional BFS runs to the
//! end.

use serde::Serialize;

use super::{Blocked, Grid, Lattice, LatticeError};

/// Most cells of a search: 4 bytes each, twice that for bidirectional, 12 with weights.
pub const MAX_SEARCHED: u64 = 1 << 30;
/// Expansion limit of a first attempt: a constant, plus this many per step of the L1 distance.
const EARLY: u64 = 1024;
const EARLY_PER_STEP: u64 = 8;
/// A* gives up after expanding one cell in so many.
const TRIED_SHARE: u64 = 4;

/// How a path was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchMethod {
    /// Computed without a search.
    ClosedForm,
    /// A* with the L1 heuristic.
    #[serde(rename = "detours")]
    AStar,
    /// Bidirectional breadth-first search.
    Bidirectional,
    /// A* (or Dijkstra) over cell weights.
    #[serde(rename = "weighted")]
    WeightedAStar,
}

impl SearchMethod {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            SearchMethod::ClosedForm => "closed-form",
            SearchMethod::AStar => "detours",
            SearchMethod::Bidirectional => "bidirectional",
            SearchMethod::WeightedAStar => "weighted",
        }
    }
}

/// Search algorithm to use where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchStrategy {
    /// As in the table of the module documentation.
    #[default]
    Auto,
    /// A*, to its end.
    AStar,
    /// Bidirectional search from the start.
    Bidirectional,
}

/// A shortest path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatticePath {
    /// Cells from start to goal, both included.
    pub cells: Vec<u64>,
    /// Sum of the weights of all cells but the first; number of steps without weights.
    pub cost: f64,
    /// How it was found.
    pub method: SearchMethod,
    /// Expanded cells; 0 for a closed form.
    pub expanded: u64,
}

/// There is no path: the goal is in another component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NoPath {
    /// How that was found.
    pub method: SearchMethod,
    /// Expanded cells.
    pub expanded: u64,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchResult {
    /// A shortest path.
    Found(LatticePath),
    /// There is none.
    NoPath(NoPath),
}

impl SearchResult {
    /// The path, if there is one.
    pub fn path(&self) -> Option<&LatticePath> {
        match self {
            SearchResult::Found(path) => Some(path),
            SearchResult::NoPath(_) => None,
        }
    }
}

/// Path finder; keeps its memory between searches, so that the next one starts without clearing. A search touches only cells
/// that it visits, however large the lattice is.
#[derive(Debug, Default)]
pub struct Searcher {
    pub(super) marks: VisitedMarks,
    pub(super) other: VisitedMarks,
    pub(super) now: Vec<u32>,
    pub(super) later: Vec<(u32, u8)>,
    pub(super) front: Vec<u32>,
    pub(super) weighted: super::weighted_astar::WeightedState,
}

impl Searcher {
    /// A searcher without memory yet.
    pub fn new() -> Self {
        Searcher::default()
    }

    /// A shortest path between two open cells.
    pub fn path(&mut self, lattice: &Lattice, from: u64, to: u64) -> Result<SearchResult, LatticeError> {
        self.path_by(lattice, from, to, SearchStrategy::Auto)
    }

    /// As [`Searcher::path`], with a given algorithm. Weighted lattices have only one.
    pub fn path_by(
        &mut self,
        lattice: &Lattice,
        from: u64,
        to: u64,
        strategy: SearchStrategy,
    ) -> Result<SearchResult, LatticeError> {
        lattice.check_end("start", from)?;
        lattice.check_end("goal", to)?;
        let grid = lattice.grid();
        if lattice.blocked().is_none() && lattice.weights().is_none() && strategy == SearchStrategy::Auto {
            let cells = grid.straight_path(from, to)?;
            let cost = (cells.len() - 1) as f64;
            return Ok(SearchResult::Found(LatticePath {
                cells,
                cost,
                method: SearchMethod::ClosedForm,
                expanded: 0,
            }));
        }
        let space = SearchGrid::of(lattice, to)?;
        let (from, to) = (from as u32, to as u32);
        if let Some(costs) = lattice.weights() {
            return self.weighted(grid, costs, &space, from, to);
        }
        let early = EARLY + EARLY_PER_STEP * grid.distance(u64::from(from), u64::from(to))?;
        let share = (grid.vertices() / TRIED_SHARE).max(early);
        let stages: &[(SearchMethod, u64)] = match strategy {
            SearchStrategy::Auto => &[
                (SearchMethod::AStar, early),
                (SearchMethod::Bidirectional, early),
                (SearchMethod::AStar, share),
                (SearchMethod::Bidirectional, u64::MAX),
            ],
            SearchStrategy::AStar => &[(SearchMethod::AStar, u64::MAX)],
            SearchStrategy::Bidirectional => &[(SearchMethod::Bidirectional, u64::MAX)],
        };
        Ok(self.stages(&space, from, to, stages))
    }

    /// Runs one search after the other until one has a result; a search without a limit always has one.
    fn stages(
        &mut self,
        space: &SearchGrid<'_>,
        from: u32,
        to: u32,
        stages: &[(SearchMethod, u64)],
    ) -> SearchResult {
        let mut before = NoPath { method: SearchMethod::AStar, expanded: 0 };
        for (method, most) in stages {
            let answer = match method {
                SearchMethod::Bidirectional => self.bidirectional(space, from, to, *most),
                _ => self.astar(space, from, to, *most),
            };
            match answer {
                Some(SearchResult::Found(path)) => {
                    return SearchResult::Found(LatticePath {
                        expanded: path.expanded + before.expanded,
                        ..path
                    });
                }
                Some(SearchResult::NoPath(none)) => {
                    return SearchResult::NoPath(NoPath {
                        expanded: none.expanded + before.expanded,
                        ..none
                    });
                }
                None => before = NoPath { method: *method, expanded: before.expanded + most },
            }
        }
        SearchResult::NoPath(before)
    }

    /// A*; `None` when it has expanded `most` cells without a result.
    fn astar(&mut self, space: &SearchGrid<'_>, from: u32, to: u32, most: u64) -> Option<SearchResult> {
        self.marks.begin(space.cells);
        self.later.clear();
        self.now.clear();
        self.now.push(from);
        self.marks.set(from, START);
        let method = SearchMethod::AStar;
        let mut expanded = 0;
        loop {
            while let Some(cell) = self.now.pop() {
                if cell == to {
                    let cells = path_to(&self.marks, space, to);
                    let cost = (cells.len() - 1) as f64;
                    return Some(SearchResult::Found(LatticePath { cells, cost, method, expanded }));
                }
                expanded += 1;
                if expanded > most {
                    return None;
                }
                self.expand(space, cell);
            }
            // Cells that were reached at the current f-value meanwhile are skipped.
            let Searcher { marks, now, later, .. } = self;
            for (cell, way) in later.drain(..) {
                if !marks.has(cell) {
                    marks.set(cell, way);
                    now.push(cell);
                }
            }
            if self.now.is_empty() {
                return Some(SearchResult::NoPath(NoPath { method, expanded }));
            }
        }
    }

    #[inline]
    fn expand(&mut self, space: &SearchGrid<'_>, cell: u32) {
        let mut rest = cell;
        for (i, axis) in space.axes.iter().enumerate() {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            let (down, up) = (2 * i as u8, 2 * i as u8 + 1);
            // Steps away go to the next bucket; a step towards the goal is settled at once.
            if at > 0
                && at <= axis.goal
                && !self.marks.has(cell - axis.stride)
                && space.open(cell - axis.stride)
            {
                self.later.push((cell - axis.stride, down));
            }
            if at + 1 < axis.size
                && at >= axis.goal
                && !self.marks.has(cell + axis.stride)
                && space.open(cell + axis.stride)
            {
                self.later.push((cell + axis.stride, up));
            }
            let towards = match at.cmp(&axis.goal) {
                std::cmp::Ordering::Less => (cell + axis.stride, up),
                std::cmp::Ordering::Greater => (cell - axis.stride, down),
                std::cmp::Ordering::Equal => continue,
            };
            if !self.marks.has(towards.0) && space.open(towards.0) {
                self.marks.set(towards.0, towards.1);
                self.now.push(towards.0);
            }
        }
    }
}

/// A lattice as seen by searches: u32 cell numbers, open cells, goal.
pub(super) struct SearchGrid<'a> {
    pub(super) axes: Vec<SearchAxis>,
    pub(super) cells: u64,
    blocked: Option<&'a Blocked>,
}

/// One axis of the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchAxis {
    pub(super) stride: u32,
    pub(super) size: u32,
    /// Coordinate of the goal.
    pub(super) goal: u32,
}

impl<'a> SearchGrid<'a> {
    pub(super) fn of(lattice: &'a Lattice, goal: u64) -> Result<Self, LatticeError> {
        let cells = lattice.grid().vertices();
        if cells > MAX_SEARCHED {
            return Err(LatticeError::TooLarge { what: "a search", cells, most: MAX_SEARCHED });
        }
        let line = |a: &super::grid::Axis| SearchAxis {
            stride: a.stride as u32,
            size: a.size as u32,
            goal: a.at(goal) as u32,
        };
        // An axis of one point has no neighbours.
        let axes = lattice.grid().axes().iter().map(line).collect();
        Ok(SearchGrid { axes, cells, blocked: lattice.blocked() })
    }

    #[inline]
    pub(super) fn open(&self, cell: u32) -> bool {
        self.blocked.is_none_or(|b| !b.contains(u64::from(cell)))
    }

    /// Calls `each` with every neighbour, open or not, and the direction.
    #[inline]
    pub(super) fn for_each_neighbour(&self, cell: u32, mut each: impl FnMut(u32, u8)) {
        let mut rest = cell;
        for (way, axis) in (0u8..).step_by(2).zip(&self.axes) {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            if at > 0 {
                each(cell - axis.stride, way);
            }
            if at + 1 < axis.size {
                each(cell + axis.stride, way + 1);
            }
        }
    }

    /// Open, unvisited neighbours and their directions; returns how many. Branch-free: whether a neighbour qualifies is unpredictable
    /// in Dijkstra order, so it is always written and only counted if it does.
    #[inline]
    pub(super) fn unvisited_neighbours(
        &self,
        cell: u32,
        marks: &VisitedMarks,
        into: &mut [(u32, u8)],
    ) -> usize {
        let (mut rest, mut many) = (cell, 0);
        for (way, axis) in (0u8..).step_by(2).zip(&self.axes) {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            // Beyond the border: the cell itself, which is visited.
            let before = cell - if at > 0 { axis.stride } else { 0 };
            let behind = cell + if at + 1 < axis.size { axis.stride } else { 0 };
            for (next, way) in [(before, way), (behind, way + 1)] {
                if let Some(room) = into.get_mut(many) {
                    *room = (next, way);
                }
                many += usize::from(!marks.has(next) & self.open(next));
            }
        }
        many
    }

    /// Predecessor of a step: direction `2i` leads down axis `i`, `2i + 1` up.
    pub(super) fn before(&self, cell: u32, way: u8) -> Option<u32> {
        let axis = self.axes.get(usize::from(way / 2))?;
        if way.is_multiple_of(2) { cell.checked_add(axis.stride) } else { cell.checked_sub(axis.stride) }
    }
}

/// Direction of the start cell.
pub(super) const START: u8 = 127;
/// Bits of a mark that hold the direction.
const WAY: u32 = 0x7f;
/// Bit of a mark for closed cells.
const DONE: u32 = 0x80;
const GENERATION: u32 = 8;

/// Visited marks with directions, stamped with a generation: marks of earlier searches are stale, so clearing is needed only when
/// the generation counter overflows.
#[derive(Debug, Default)]
pub(super) struct VisitedMarks {
    marks: Vec<u32>,
    generation: u32,
}

impl VisitedMarks {
    pub(super) fn begin(&mut self, cells: u64) {
        if self.marks.len() < cells as usize {
            // Fresh zeroed pages; growing would copy.
            self.marks = vec![0; cells as usize];
            self.generation = 0;
        }
        self.generation += 1;
        if self.generation >> (32 - GENERATION) != 0 {
            self.marks.fill(0);
            self.generation = 1;
        }
    }

    #[inline]
    pub(super) fn has(&self, cell: u32) -> bool {
        self.marks.get(cell as usize).is_some_and(|m| m >> GENERATION == self.generation)
    }

    #[inline]
    pub(super) fn set(&mut self, cell: u32, way: u8) {
        if let Some(mark) = self.marks.get_mut(cell as usize) {
            *mark = self.generation << GENERATION | u32::from(way);
        }
    }

    /// Closes a cell; `true` if it was closed already.
    #[inline]
    pub(super) fn done(&mut self, cell: u32) -> bool {
        self.marks.get_mut(cell as usize).is_none_or(|mark| {
            let was = *mark & DONE != 0;
            *mark |= DONE;
            was
        })
    }

    /// Direction from which a visited cell was reached.
    pub(super) fn way(&self, cell: u32) -> u8 {
        self.marks.get(cell as usize).map_or(START, |m| (m & WAY) as u8)
    }
}

/// Path from the start to this cell.
pub(super) fn path_to(marks: &VisitedMarks, space: &SearchGrid<'_>, to: u32) -> Vec<u64> {
    let mut cells = backtrack(marks, space, to);
    cells.reverse();
    cells
}

/// Backtracks from this cell to the start.
pub(super) fn backtrack(marks: &VisitedMarks, space: &SearchGrid<'_>, to: u32) -> Vec<u64> {
    let mut cells = vec![u64::from(to)];
    let mut cell = to;
    while let Some(before) = space.before(cell, marks.way(cell)) {
        cell = before;
        cells.push(u64::from(cell));
    }
    cells
}

/// Is this a valid path of the lattice?
pub fn is_path(lattice: &Lattice, cells: &[u64]) -> bool {
    let grid: &Grid = lattice.grid();
    let steps = cells.iter().zip(cells.iter().skip(1));
    !cells.is_empty()
        && cells.iter().all(|c| lattice.is_open(*c))
        && steps.into_iter().all(|(a, b)| grid.distance(*a, *b) == Ok(1))
}
