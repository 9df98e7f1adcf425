//! SVG drawing of a 1-D or 2-D lattice: blocked cells, weights as shades, a path and its ends.

use std::fmt::Write as _;

use gpuforge_chart::svg::{NAMESPACE, SvgWriter};

use super::{Lattice, LatticeError};

/// Most cells of a drawing.
pub const MAX_DRAWN: u64 = 1 << 20;
/// The longer side, in units of the picture.
const SIDE: f64 = 960.0;
const MARGIN: f64 = 12.0;
/// Smallest cell size with grid lines.
const LINED: f64 = 8.0;
/// Most cells with shaded weights: each is a rectangle.
const MAX_SHADED: u64 = 1 << 14;

/// Draws a lattice of one or two axes; the first axis goes down, the last to the right.
pub fn svg(lattice: &Lattice, path: &[u64]) -> Result<String, LatticeError> {
    let grid = lattice.grid();
    let (rows, columns) = match *grid.sizes().as_slice() {
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        _ => return Err(LatticeError::NotFlat { dims: grid.dims(), most: MAX_DRAWN }),
    };
    if grid.vertices() > MAX_DRAWN {
        return Err(LatticeError::NotFlat { dims: grid.dims(), most: MAX_DRAWN });
    }
    let cell = SIDE / rows.max(columns) as f64;
    let (width, height) = (columns as f64 * cell, rows as f64 * cell);
    let picture = Picture { lattice, columns, cell };
    let (w, h) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let mut out = SvgWriter::new();
    out.start("svg").attr("xmlns", NAMESPACE);
    out.attr("viewBox", format_args!("{a} {a} {w} {h}", a = -MARGIN))
        .attr("width", w)
        .attr("height", h)
        .line();
    out.start("rect").attr("x", 0).attr("y", 0).attr("width", width).attr("height", height);
    out.attr("fill", "#ffffff").attr("stroke", "#888888").end().line();
    picture.shades(&mut out);
    picture.blocked(&mut out, rows);
    picture.raster(&mut out, rows);
    picture.path(&mut out, path);
    out.end().line();
    Ok(out.finish())
}

/// A length in hundredths.
fn fine(value: f64) -> String {
    format!("{value:.2}")
}

struct Picture<'a> {
    lattice: &'a Lattice,
    columns: u64,
    cell: f64,
}

impl Picture<'_> {
    fn corner(&self, cell: u64) -> (f64, f64) {
        ((cell % self.columns) as f64 * self.cell, (cell / self.columns) as f64 * self.cell)
    }

    fn shades(&self, out: &mut SvgWriter) {
        let Some(weights) = self.lattice.weights().filter(|w| w.values().len() as u64 <= MAX_SHADED) else {
            return;
        };
        let most = weights.values().iter().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return;
        }
        out.start("g").attr("fill", "#c77800").line();
        for (cell, weight) in (0..).zip(weights.values()) {
            let ((x, y), side) = (self.corner(cell), self.cell);
            let opacity = 0.6 * weight / most;
            out.start("rect").attr("x", fine(x)).attr("y", fine(y)).attr("width", fine(side));
            out.attr("height", fine(side)).attr("fill-opacity", format_args!("{opacity:.3}")).end().line();
        }
        out.end().line();
    }

    /// Neighbouring blocked cells of a row are one rectangle.
    fn blocked(&self, out: &mut SvgWriter, rows: u64) {
        if self.lattice.blocked().is_none() {
            return;
        }
        out.start("g").attr("fill", "#404040").line();
        for row in 0..rows {
            let mut column = 0;
            while column < self.columns {
                let first = column;
                while column < self.columns && !self.lattice.is_open(row * self.columns + column) {
                    column += 1;
                }
                if column > first {
                    let (x, y) = self.corner(row * self.columns + first);
                    let width = (column - first) as f64 * self.cell;
                    out.start("rect").attr("x", fine(x)).attr("y", fine(y)).attr("width", fine(width));
                    out.attr("height", fine(self.cell)).end().line();
                }
                column += 1;
            }
        }
        out.end().line();
    }

    fn raster(&self, out: &mut SvgWriter, rows: u64) {
        if self.cell < LINED {
            return;
        }
        let (width, height) = (self.columns as f64 * self.cell, rows as f64 * self.cell);
        let mut lines = String::new();
        // Writing to a string cannot fail.
        for column in 1..self.columns {
            let _ = write!(lines, "M{:.2} 0V{height:.2}", column as f64 * self.cell);
        }
        for row in 1..rows {
            let _ = write!(lines, "M0 {:.2}H{width:.2}", row as f64 * self.cell);
        }
        out.start("path").attr("stroke", "#cccccc").attr("stroke-width", 0.5).attr("fill", "none");
        out.attr("d", lines).end().line();
    }

    fn path(&self, out: &mut SvgWriter, path: &[u64]) {
        let middle = |cell: u64| {
            let (x, y) = self.corner(cell);
            (x + self.cell / 2.0, y + self.cell / 2.0)
        };
        let (Some(first), Some(last)) = (path.first(), path.last()) else { return };
        let thick = (self.cell * 0.3).clamp(1.5, 6.0);
        let mut points = String::new();
        for cell in path {
            let (x, y) = middle(*cell);
            let _ = write!(points, "{x:.2},{y:.2} ");
        }
        out.start("polyline")
            .attr("fill", "none")
            .attr("stroke", "#0b62d6")
            .attr("stroke-width", fine(thick));
        out.attr("stroke-linejoin", "round").attr("points", points).end().line();
        for (cell, colour) in [(first, "#128a3c"), (last, "#c01c28")] {
            let (x, y) = middle(*cell);
            out.start("circle").attr("cx", fine(x)).attr("cy", fine(y)).attr("r", fine(thick * 1.2));
            out.attr("fill", colour).end().line();
        }
    }
}
