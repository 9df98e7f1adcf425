//! Blocked cells: a bitset, and parsing of cell lists.

use super::{Grid, LatticeError, unit_random};

/// Most cells of a bitset: 1 GiB.
pub(super) const MAX_BITS: u64 = 1 << 33;

/// Cells that cannot be entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    words: Vec<u64>,
    cells: u64,
    count: u64,
}

impl Blocked {
    /// No blocked cells.
    pub fn none(grid: &Grid) -> Result<Self, LatticeError> {
        let cells = grid.vertices();
        if cells > MAX_BITS {
            return Err(LatticeError::TooLarge { what: "blocked cells", cells, most: MAX_BITS });
        }
        Ok(Blocked { words: vec![0; cells.div_ceil(64) as usize], cells, count: 0 })
    }

    /// Each cell with this probability (site percolation), except those to keep open; deterministic per seed.
    pub fn random(grid: &Grid, chance: f64, seed: u64, keep: &[u64]) -> Result<Self, LatticeError> {
        if !(0.0..=1.0).contains(&chance) {
            return Err(LatticeError::Share(chance));
        }
        let mut blocked = Blocked::none(grid)?;
        for (base, word) in (0..).step_by(64).zip(&mut blocked.words) {
            for bit in 0..64.min(blocked.cells - base) {
                *word |= u64::from(unit_random(seed, base + bit) < chance) << bit;
            }
        }
        keep.iter().for_each(|cell| blocked.set(*cell, false));
        blocked.count = blocked.words.iter().map(|w| u64::from(w.count_ones())).sum();
        Ok(blocked)
    }

    /// These cells.
    pub fn list(grid: &Grid, cells: &[u64]) -> Result<Self, LatticeError> {
        let mut blocked = Blocked::none(grid)?;
        blocked.add(cells)?;
        Ok(blocked)
    }

    /// Adds cells.
    pub fn add(&mut self, cells: &[u64]) -> Result<(), LatticeError> {
        if let Some(cell) = cells.iter().copied().find(|c| *c >= self.cells) {
            return Err(LatticeError::Outside { what: "blocked cell", cell, cells: self.cells });
        }
        for cell in cells {
            self.count += u64::from(!self.contains(*cell));
            self.set(*cell, true);
        }
        Ok(())
    }

    fn set(&mut self, cell: u64, blocked: bool) {
        if let Some(word) = self.words.get_mut((cell / 64) as usize) {
            *word = *word & !(1 << (cell % 64)) | u64::from(blocked) << (cell % 64);
        }
    }

    /// Is this one blocked?
    #[inline]
    pub fn contains(&self, cell: u64) -> bool {
        self.words.get((cell / 64) as usize).is_some_and(|w| w >> (cell % 64) & 1 == 1)
    }

    /// Number of blocked cells.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of cells.
    pub fn cells(&self) -> u64 {
        self.cells
    }
}

/// A cell by its number (`17`) or its coordinates (`1,7`).
pub fn parse_cell(grid: &Grid, text: &str) -> Result<u64, LatticeError> {
    one(grid, text.trim(), 1)
}

fn one(grid: &Grid, text: &str, line: usize) -> Result<u64, LatticeError> {
    let no_cell = || LatticeError::Cell { line, text: text.chars().take(40).collect() };
    let numbers: Vec<u64> =
        text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>().map_err(|_| no_cell())?;
    match numbers.as_slice() {
        [cell] if *cell < grid.vertices() => Ok(*cell),
        [cell] => Err(LatticeError::Outside { what: "cell", cell: *cell, cells: grid.vertices() }),
        several => grid.cell(several),
    }
}

/// Parses cells separated by blanks, semicolons or lines; `#` starts a comment.
pub fn parse_cells(grid: &Grid, text: &str) -> Result<Vec<u64>, LatticeError> {
    let mut cells = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for word in line.split([' ', '\t', ';']).filter(|w| !w.is_empty()) {
            cells.push(one(grid, word, i + 1)?);
        }
    }
    Ok(cells)
}
