//! How does one get from here to there? Shortest paths, by whichever search suits the lattice.
//!
//! | lattice | method | why |
//! |---|---|---|
//! | nothing blocked, no weights | closed form | every monotone path is shortest |
//! | blocked cells | A* by detours, then bidirectional | see below |
//! | weights | A* (`weighted.rs`) | the least weight of each layer bounds what is left to pay |
//!
//! **Detours.** On a grid, a step goes either towards the goal or away from it, and a path of `k` steps away is `L1 + 2k` long.
//! So the queue of A* is two stacks: cells that are reached without a further detour, and cells that cost one more. Within a
//! stack the newest cell comes first, so that an easy path is followed to its end instead of widening a front. Where detours
//! pile up this search has no advantage. Two fronts that meet (`bidirectional.rs`) are better in a maze, and notice soon when
//! one of them cannot grow. So both get a short attempt, then A* gets a share of the cells, then the fronts go to the end.

use serde::Serialize;

use super::{Blocked, Grid, Lattice, LatticeError};

/// The most cells that a search can mark: 4 bytes each, twice that with two fronts, 12 with weights.
pub const MOST_SEARCHED: u64 = 1 << 30;
/// A first attempt may look around from so many cells, and so many more per step of the shortest path that there could be.
const EARLY: u64 = 1024;
const EARLY_PER_STEP: u64 = 8;
/// A* gives up after one cell in so many.
const TRIED_SHARE: u64 = 4;

/// How a path was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Written down without a search.
    ClosedForm,
    /// A* by detours.
    Detours,
    /// Two fronts that met.
    Bidirectional,
    /// A* over weights.
    Weighted,
}

impl Method {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Method::ClosedForm => "closed-form",
            Method::Detours => "detours",
            Method::Bidirectional => "bidirectional",
            Method::Weighted => "weighted",
        }
    }
}

/// Which search to use where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// As the table of the module says.
    #[default]
    Auto,
    /// A* by detours, to its end.
    Detours,
    /// Two fronts from the start.
    Bidirectional,
}

/// A shortest path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// Cells from start to goal, both included.
    pub cells: Vec<u64>,
    /// Sum of the weights of all cells but the first; steps where there are no weights.
    pub cost: f64,
    /// How it was found.
    pub method: Method,
    /// Cells that the search looked around from; 0 for a closed form.
    pub expanded: u64,
}

/// There is no path: the goal is in another component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NoPath {
    /// How that was found.
    pub method: Method,
    /// Cells that the search looked around from.
    pub expanded: u64,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Route {
    /// A shortest path.
    Found(Path),
    /// There is none.
    NoPath(NoPath),
}

impl Route {
    /// The path, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Route::Found(path) => Some(path),
            Route::NoPath(_) => None,
        }
    }
}

/// Finds paths; keeps its memory between searches, so that the next one begins at once. A search touches only cells that it
/// visits, however large the lattice is.
#[derive(Debug, Default)]
pub struct Searcher {
    pub(super) marks: Marks,
    pub(super) other: Marks,
    pub(super) now: Vec<u32>,
    pub(super) later: Vec<(u32, u8)>,
    pub(super) front: Vec<u32>,
    pub(super) weighted: super::weighted::Room,
}

impl Searcher {
    /// Without memory yet.
    pub fn new() -> Self {
        Searcher::default()
    }

    /// A shortest path between two open cells.
    pub fn path(&mut self, lattice: &Lattice, from: u64, to: u64) -> Result<Route, LatticeError> {
        self.path_by(lattice, from, to, Strategy::Auto)
    }

    /// As [`Searcher::path`], by a certain search. Weighted lattices know only one.
    pub fn path_by(
        &mut self,
        lattice: &Lattice,
        from: u64,
        to: u64,
        strategy: Strategy,
    ) -> Result<Route, LatticeError> {
        lattice.end("start", from)?;
        lattice.end("goal", to)?;
        let grid = lattice.grid();
        if lattice.blocked().is_none() && lattice.weights().is_none() && strategy == Strategy::Auto {
            let cells = grid.straight_path(from, to)?;
            let cost = (cells.len() - 1) as f64;
            return Ok(Route::Found(Path { cells, cost, method: Method::ClosedForm, expanded: 0 }));
        }
        let space = Space::of(lattice, to)?;
        let (from, to) = (from as u32, to as u32);
        if let Some(costs) = lattice.weights() {
            return self.weighted(grid, costs, &space, from, to);
        }
        let early = EARLY + EARLY_PER_STEP * grid.distance(u64::from(from), u64::from(to))?;
        let share = (grid.vertices() / TRIED_SHARE).max(early);
        let stages: &[(Method, u64)] = match strategy {
            Strategy::Auto => &[
                (Method::Detours, early),
                (Method::Bidirectional, early),
                (Method::Detours, share),
                (Method::Bidirectional, u64::MAX),
            ],
            Strategy::Detours => &[(Method::Detours, u64::MAX)],
            Strategy::Bidirectional => &[(Method::Bidirectional, u64::MAX)],
        };
        Ok(self.stages(&space, from, to, stages))
    }

    /// One search after the other until one has an answer; without a limit each has one.
    fn stages(&mut self, space: &Space<'_>, from: u32, to: u32, stages: &[(Method, u64)]) -> Route {
        let mut before = NoPath { method: Method::Detours, expanded: 0 };
        for (method, most) in stages {
            let answer = match method {
                Method::Bidirectional => self.bidirectional(space, from, to, *most),
                _ => self.detours(space, from, to, *most),
            };
            match answer {
                Some(Route::Found(path)) => {
                    return Route::Found(Path { expanded: path.expanded + before.expanded, ..path });
                }
                Some(Route::NoPath(none)) => {
                    return Route::NoPath(NoPath { expanded: none.expanded + before.expanded, ..none });
                }
                None => before = NoPath { method: *method, expanded: before.expanded + most },
            }
        }
        Route::NoPath(before)
    }

    /// A* by detours; `None` when it has looked around from so many cells without an answer.
    fn detours(&mut self, space: &Space<'_>, from: u32, to: u32, most: u64) -> Option<Route> {
        self.marks.begin(space.cells);
        self.later.clear();
        self.now.clear();
        self.now.push(from);
        self.marks.set(from, START);
        let method = Method::Detours;
        let mut expanded = 0;
        loop {
            while let Some(cell) = self.now.pop() {
                if cell == to {
                    let cells = walk_back(&self.marks, space, to);
                    let cost = (cells.len() - 1) as f64;
                    return Some(Route::Found(Path { cells, cost, method, expanded }));
                }
                expanded += 1;
                if expanded > most {
                    return None;
                }
                self.look_around(space, cell);
            }
            // Whoever was reached without the detour meanwhile is not reached by it.
            let Searcher { marks, now, later, .. } = self;
            for (cell, way) in later.drain(..) {
                if !marks.has(cell) {
                    marks.set(cell, way);
                    now.push(cell);
                }
            }
            if self.now.is_empty() {
                return Some(Route::NoPath(NoPath { method, expanded }));
            }
        }
    }

    #[inline]
    fn look_around(&mut self, space: &Space<'_>, cell: u32) {
        let mut rest = cell;
        for (i, axis) in space.axes.iter().enumerate() {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            let (down, up) = (2 * i as u8, 2 * i as u8 + 1);
            // Steps away are noted first and are settled a detour later; a step towards the goal is settled at once.
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

/// A lattice as searches see it: 32-bit numbers, which cells are open, where the goal is.
pub(super) struct Space<'a> {
    pub(super) axes: Vec<Line>,
    pub(super) cells: u64,
    blocked: Option<&'a Blocked>,
}

/// One axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) stride: u32,
    pub(super) size: u32,
    /// The goal's place along it.
    pub(super) goal: u32,
}

impl<'a> Space<'a> {
    pub(super) fn of(lattice: &'a Lattice, goal: u64) -> Result<Self, LatticeError> {
        let cells = lattice.grid().vertices();
        if cells > MOST_SEARCHED {
            return Err(LatticeError::TooLarge { what: "a search", cells, most: MOST_SEARCHED });
        }
        let line = |a: &super::grid::Axis| Line {
            stride: a.stride as u32,
            size: a.size as u32,
            goal: a.at(goal) as u32,
        };
        // An axis of one point leads nowhere.
        let axes = lattice.grid().axes().iter().map(line).collect();
        Ok(Space { axes, cells, blocked: lattice.blocked() })
    }

    #[inline]
    pub(super) fn open(&self, cell: u32) -> bool {
        self.blocked.is_none_or(|b| !b.contains(u64::from(cell)))
    }

    /// Calls `each` with every neighbour, open or not, and the way there.
    #[inline]
    pub(super) fn near(&self, cell: u32, mut each: impl FnMut(u32, u8)) {
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

    /// Open neighbours without a mark, and the ways there; how many. Whether a neighbour is one of them is not to be guessed in
    /// searches that jump about, so that nothing branches on it: it is written down, and counted if it is.
    #[inline]
    pub(super) fn fresh(&self, cell: u32, marks: &Marks, into: &mut [(u32, u8)]) -> usize {
        let (mut rest, mut many) = (cell, 0);
        for (way, axis) in (0u8..).step_by(2).zip(&self.axes) {
            let at = rest / axis.stride;
            rest -= at * axis.stride;
            // Beyond an end is the cell itself, which has a mark.
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

    /// Where a step came from: way `2i` leads down axis `i`, way `2i + 1` up.
    pub(super) fn before(&self, cell: u32, way: u8) -> Option<u32> {
        let axis = self.axes.get(usize::from(way / 2))?;
        if way.is_multiple_of(2) { cell.checked_add(axis.stride) } else { cell.checked_sub(axis.stride) }
    }
}

/// The way of a cell that no step led to.
pub(super) const START: u8 = 127;
/// Bits of a mark that hold the way.
const WAY: u32 = 0x7f;
/// The bit of a mark that says that a cell is done with.
const DONE: u32 = 0x80;
const GENERATION: u32 = 8;

/// Which cells were met in this search, and by which way. Marks of earlier searches count for nothing, so that nothing has
/// to be cleared but once in sixteen million searches.
#[derive(Debug, Default)]
pub(super) struct Marks {
    marks: Vec<u32>,
    generation: u32,
}

impl Marks {
    pub(super) fn begin(&mut self, cells: u64) {
        if self.marks.len() < cells as usize {
            // Fresh pages of the system are zero already; growing would copy.
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

    /// Notes that a cell is done with; `true` if it was already.
    #[inline]
    pub(super) fn done(&mut self, cell: u32) -> bool {
        self.marks.get_mut(cell as usize).is_none_or(|mark| {
            let was = *mark & DONE != 0;
            *mark |= DONE;
            was
        })
    }

    /// The way to a cell that was met.
    pub(super) fn way(&self, cell: u32) -> u8 {
        self.marks.get(cell as usize).map_or(START, |m| (m & WAY) as u8)
    }
}

/// Cells from where the search began to this one.
pub(super) fn walk_back(marks: &Marks, space: &Space<'_>, to: u32) -> Vec<u64> {
    let mut cells = walk(marks, space, to);
    cells.reverse();
    cells
}

/// Cells from this one back to where the search began.
pub(super) fn walk(marks: &Marks, space: &Space<'_>, to: u32) -> Vec<u64> {
    let mut cells = vec![u64::from(to)];
    let mut cell = to;
    while let Some(before) = space.before(cell, marks.way(cell)) {
        cell = before;
        cells.push(u64::from(cell));
    }
    cells
}

/// Is this a path of the lattice, from its first cell to its last?
pub fn is_path(lattice: &Lattice, cells: &[u64]) -> bool {
    let grid: &Grid = lattice.grid();
    let steps = cells.iter().zip(cells.iter().skip(1));
    !cells.is_empty()
        && cells.iter().all(|c| lattice.is_open(*c))
        && steps.into_iter().all(|(a, b)| grid.distance(*a, *b) == Ok(1))
}
