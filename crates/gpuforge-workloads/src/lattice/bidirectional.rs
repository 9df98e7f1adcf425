//! Bidirectional breadth-first search: the smaller front is expanded first.
//!
//! Fronts grow by whole levels. If one meets a cell of the other, the sum of their depths is the distance: a shorter connection
//! would have been met a level earlier.

use super::search::{
    LatticePath, NoPath, START, SearchGrid, SearchMethod, SearchResult, Searcher, VisitedMarks, backtrack,
    path_to,
};

impl Searcher {
    /// `None` when about `most` cells were expanded without a result.
    pub(super) fn bidirectional(
        &mut self,
        space: &SearchGrid<'_>,
        from: u32,
        to: u32,
        most: u64,
    ) -> Option<SearchResult> {
        let method = SearchMethod::Bidirectional;
        self.marks.begin(space.cells);
        self.other.begin(space.cells);
        self.marks.set(from, START);
        self.other.set(to, START);
        if from == to {
            let cells = vec![u64::from(from)];
            return Some(SearchResult::Found(LatticePath { cells, cost: 0.0, method, expanded: 0 }));
        }
        let (mut ahead, mut behind) = (std::mem::take(&mut self.now), std::mem::take(&mut self.front));
        ahead.clear();
        behind.clear();
        ahead.push(from);
        behind.push(to);
        let mut next = Vec::new();
        let mut expanded = 0u64;
        let met = loop {
            let forwards = ahead.len() <= behind.len();
            let (front, mine, theirs) = if forwards {
                (&mut ahead, &mut self.marks, &self.other)
            } else {
                (&mut behind, &mut self.other, &self.marks)
            };
            if front.is_empty() || expanded > most {
                break None;
            }
            expanded += front.len() as u64;
            next.clear();
            if let Some((cell, neighbour)) = level(space, front, mine, theirs, &mut next) {
                break Some(if forwards { (cell, neighbour) } else { (neighbour, cell) });
            }
            std::mem::swap(front, &mut next);
        };
        (self.now, self.front) = (ahead, behind);
        let Some((cell, neighbour)) = met else {
            return (expanded <= most).then_some(SearchResult::NoPath(NoPath { method, expanded }));
        };
        let mut cells = path_to(&self.marks, space, cell);
        cells.extend(backtrack(&self.other, space, neighbour));
        let cost = (cells.len() - 1) as f64;
        Some(SearchResult::Found(LatticePath { cells, cost, method, expanded }))
    }
}

/// Expands one level of a front; returns a cell with a neighbour that belongs to the other front, if there is one.
fn level(
    space: &SearchGrid<'_>,
    front: &[u32],
    mine: &mut VisitedMarks,
    theirs: &VisitedMarks,
    next: &mut Vec<u32>,
) -> Option<(u32, u32)> {
    for cell in front.iter().copied() {
        let mut met = None;
        space.for_each_neighbour(cell, |neighbour, way| {
            if theirs.has(neighbour) {
                met = Some(neighbour);
            } else if !mine.has(neighbour) && space.open(neighbour) {
                mine.set(neighbour, way);
                next.push(neighbour);
            }
        });
        if let Some(neighbour) = met {
            return Some((cell, neighbour));
        }
    }
    None
}
