//! Lattice analysis: counts, degrees, connected components and diameter; closed form where nothing is blocked, else computed.
//!
//! **The diameter** of the largest component is bounded by eccentricities (Takes and Kosters 2011): a BFS from a cell `u` with
//! eccentricity `e` bounds that of every cell `v` between `max(d(u,v), e − d(u,v))` and `e + d(u,v)`. BFS sources alternate between
//! the highest upper bound and the lowest lower bound, until the bounds meet or [`VISITS`] are spent; a component of up to
//! [`ALWAYS_EXACT`] cells always gets its exact diameter.

use serde::Serialize;

use super::{
    Lattice, LatticeError,
    bfs::{AxisStride, BLOCKED, UNREACHED, axis_strides, bfs, distance_field},
    grid::Axis,
};

/// Most cells of an analysis with blocked cells: 20 bytes each.
pub const MAX_ANALYSED: u64 = 1 << 27;
/// Total cell visits of all BFS passes for the diameter.
pub const VISITS: u64 = 1 << 26;
/// A pass from every cell fits into [`VISITS`].
pub const ALWAYS_EXACT: u64 = 1 << 13;

/// How the figures were obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From closed forms.
    ClosedForm,
    /// Computed over all cells.
    Computed,
}

/// Diameter, or bounds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Diameter {
    /// Lower bound: two cells this far apart were found.
    #[serde(rename = "least")]
    pub lower: u64,
    /// Upper bound.
    #[serde(rename = "most")]
    pub upper: u64,
    /// Both bounds are equal.
    pub exact: bool,
}

impl Diameter {
    fn between(lower: u64, upper: u64) -> Self {
        Diameter { lower, upper, exact: lower == upper }
    }
}

/// Analysis of a lattice; blocked cells are excluded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// How they were found.
    pub origin: Origin,
    /// Points per axis.
    pub sizes: Vec<u64>,
    /// Open cells.
    pub vertices: u64,
    /// Blocked cells.
    pub blocked: u64,
    /// Edges between open cells.
    pub edges: u128,
    /// Is it connected? `false` when there is no open cell.
    pub connected: bool,
    /// Number of connected components.
    pub components: u64,
    /// Cells of the largest component.
    pub largest_component: u64,
    /// Diameter of the largest component; `None` when there is none.
    pub diameter: Option<Diameter>,
    /// Mean degree; `None` when there are no cells.
    pub mean_degree: Option<f64>,
    /// Degree histogram: cells with 0, 1, 2, … neighbours.
    pub degrees: Vec<u64>,
    /// Clustering coefficient: 0, because a grid has no triangles.
    pub clustering: f64,
    /// Edge density; `None` for fewer than two cells.
    pub density: Option<f64>,
    /// BFS passes for the diameter.
    pub passes: u64,
}

/// Analyses a lattice.
pub fn analyse(lattice: &Lattice) -> Result<Analysis, LatticeError> {
    if lattice.blocked().is_none() {
        return Ok(closed_form(lattice));
    }
    let cells = lattice.grid().vertices();
    if cells > MAX_ANALYSED {
        return Err(LatticeError::TooLarge {
            what: "an analysis with blocked cells",
            cells,
            most: MAX_ANALYSED,
        });
    }
    Ok(computed(lattice))
}

fn closed_form(lattice: &Lattice) -> Analysis {
    let grid = lattice.grid();
    Analysis {
        origin: Origin::ClosedForm,
        sizes: grid.sizes(),
        vertices: grid.vertices(),
        blocked: 0,
        edges: grid.edges(),
        connected: true,
        components: 1,
        largest_component: grid.vertices(),
        diameter: Some(Diameter::between(grid.diameter(), grid.diameter())),
        mean_degree: Some(grid.mean_degree()),
        degrees: grid.degrees(),
        clustering: 0.0,
        density: grid.density(),
        passes: 0,
    }
}

fn computed(lattice: &Lattice) -> Analysis {
    let grid = lattice.grid();
    let map = distance_field(lattice);
    let vertices = lattice.open_cells();
    let degrees = degrees(&map, grid.axes());
    let edges = degrees.iter().zip(0u128..).map(|(n, degree)| u128::from(*n) * degree).sum::<u128>() / 2;
    let lines = axis_strides(grid.axes());
    let (components, largest) = components(&map, &lines);
    let (diameter, passes) = diameter(&map, &lines, &largest);
    let v = vertices as f64;
    Analysis {
        origin: Origin::Computed,
        sizes: grid.sizes(),
        vertices,
        blocked: grid.vertices() - vertices,
        edges,
        connected: components == 1,
        components,
        largest_component: largest.len() as u64,
        diameter,
        mean_degree: (vertices > 0).then(|| 2.0 * edges as f64 / v),
        degrees,
        clustering: 0.0,
        density: (vertices > 1).then(|| 2.0 * edges as f64 / (v * (v - 1.0))),
        passes,
    }
}

/// Degree histogram of open cells, axis by axis, vectorised over layers.
fn degrees(map: &[u32], axes: &[Axis]) -> Vec<u64> {
    let open: Vec<u8> = map.iter().map(|w| u8::from(*w != BLOCKED)).collect();
    let mut degree = vec![0u8; map.len()];
    for axis in axes {
        let (stride, block) = (axis.stride as usize, (axis.size * axis.stride) as usize);
        for (open, degree) in open.chunks(block).zip(degree.chunks_mut(block)) {
            let behind = open.get(stride..).unwrap_or_default();
            degree.iter_mut().zip(open.iter().zip(behind)).for_each(|(d, (a, b))| *d += a & b);
            let degree = degree.get_mut(stride..).unwrap_or_default();
            degree.iter_mut().zip(open.iter().zip(behind)).for_each(|(d, (a, b))| *d += a & b);
        }
    }
    let mut counts = vec![0u64; 2 * axes.len() + 1];
    for (degree, _) in degree.iter().zip(&open).filter(|(_, open)| **open == 1) {
        counts.get_mut(usize::from(*degree)).into_iter().for_each(|n| *n += 1);
    }
    while counts.len() > 1 && counts.last() == Some(&0) {
        counts.pop();
    }
    counts
}

/// Number of connected components, and the cells of the largest one (the first of equals).
fn components(map: &[u32], lines: &[AxisStride]) -> (u64, Vec<u32>) {
    let mut field = map.to_vec();
    let (mut count, mut largest, mut queue) = (0, Vec::new(), Vec::new());
    for cell in 0..field.len() {
        let Some(word) = field.get_mut(cell).filter(|w| **w == UNREACHED) else { continue };
        *word = 0;
        queue.clear();
        queue.push(cell as u32);
        bfs(lines, &mut field, &mut queue);
        count += 1;
        if queue.len() > largest.len() {
            std::mem::swap(&mut queue, &mut largest);
        }
    }
    (count, largest)
}

/// Eccentricity bounds of a cell.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    cell: u32,
    lower: u32,
    upper: u32,
}

fn diameter(map: &[u32], lines: &[AxisStride], component: &[u32]) -> (Option<Diameter>, u64) {
    let mut bounds: Vec<Bounds> =
        component.iter().map(|cell| Bounds { cell: *cell, lower: 0, upper: UNREACHED }).collect();
    let mut field = map.to_vec();
    let mut queue = Vec::new();
    let (mut passes, mut visits) = (0u64, 0u64);
    let mut known = (0u32, UNREACHED);
    loop {
        let open = bounds.iter().filter(|b| b.lower < b.upper);
        // Alternates between the most remote and the most central unsettled cell.
        let next = match passes % 2 {
            0 => open.max_by_key(|b| (b.upper, b.lower)),
            _ => open.min_by_key(|b| (b.lower, b.upper)),
        };
        let Some(source) = next.map(|b| b.cell) else { break };
        // The first two passes always run: without them there are no bounds.
        if passes >= 2 && (known.0 >= known.1 || visits >= VISITS) {
            break;
        }
        // Only this component needs a reset.
        component.iter().for_each(|c| set(&mut field, *c, UNREACHED));
        set(&mut field, source, 0);
        queue.clear();
        queue.push(source);
        bfs(lines, &mut field, &mut queue);
        let at = |cell: u32| field.get(cell as usize).copied().unwrap_or(0);
        let far = queue.last().map_or(0, |cell| at(*cell));
        for bound in &mut bounds {
            let distance = at(bound.cell);
            bound.lower = bound.lower.max(distance.max(far - distance));
            bound.upper = bound.upper.min(far + distance);
        }
        passes += 1;
        visits += component.len() as u64;
        let lower = bounds.iter().map(|b| b.lower).max().unwrap_or(0);
        let upper = bounds.iter().map(|b| b.upper).max().unwrap_or(0);
        known = (lower, upper);
    }
    if component.is_empty() {
        return (None, 0);
    }
    (Some(Diameter::between(u64::from(known.0), u64::from(known.1))), passes)
}

fn set(field: &mut [u32], cell: u32, value: u32) {
    field.get_mut(cell as usize).into_iter().for_each(|word| *word = value);
}
