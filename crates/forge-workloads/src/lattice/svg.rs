//! What does a flat lattice with a path look like? An SVG picture: blocked cells, weights as shades, the path, its ends.

use std::fmt::Write as _;

use super::{Lattice, LatticeError};

/// The most cells of a picture.
pub const MOST_DRAWN: u64 = 1 << 20;
/// The longer side, in units of the picture.
const SIDE: f64 = 960.0;
const MARGIN: f64 = 12.0;
/// Cells as large as this are worth lines between them.
const LINED: f64 = 8.0;
/// Weights are shaded up to so many cells: each is a rectangle.
const MOST_SHADED: u64 = 1 << 14;

/// Draws a lattice of one or two axes; the first axis goes down, the last to the right.
pub fn svg(lattice: &Lattice, path: &[u64]) -> Result<String, LatticeError> {
    let grid = lattice.grid();
    let (rows, columns) = match *grid.sizes().as_slice() {
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        _ => return Err(LatticeError::NotFlat { dims: grid.dims(), most: MOST_DRAWN }),
    };
    if grid.vertices() > MOST_DRAWN {
        return Err(LatticeError::NotFlat { dims: grid.dims(), most: MOST_DRAWN });
    }
    let cell = SIDE / rows.max(columns) as f64;
    let (width, height) = (columns as f64 * cell, rows as f64 * cell);
    let picture = Picture { lattice, columns, cell };
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{a} {a} {w} {h}\" width=\"{w}\" height=\"{h}\">\n\
         <rect x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\" stroke=\"#888888\"/>",
        a = -MARGIN,
        w = width + 2.0 * MARGIN,
        h = height + 2.0 * MARGIN,
    );
    picture.shades(&mut out);
    picture.blocked(&mut out, rows);
    picture.raster(&mut out, rows);
    picture.path(&mut out, path);
    out.push_str("</svg>\n");
    Ok(out)
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

    fn shades(&self, out: &mut String) {
        let Some(weights) = self.lattice.weights().filter(|w| w.values().len() as u64 <= MOST_SHADED) else {
            return;
        };
        let most = weights.values().iter().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return;
        }
        out.push_str("<g fill=\"#c77800\">\n");
        for (cell, weight) in (0..).zip(weights.values()) {
            let ((x, y), side) = (self.corner(cell), self.cell);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{side:.2}\" height=\"{side:.2}\" fill-opacity=\"{:.3}\"/>",
                0.6 * weight / most
            );
        }
        out.push_str("</g>\n");
    }

    /// Neighbouring blocked cells of a row are one rectangle.
    fn blocked(&self, out: &mut String, rows: u64) {
        if self.lattice.blocked().is_none() {
            return;
        }
        out.push_str("<g fill=\"#404040\">\n");
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
                    let _ = writeln!(
                        out,
                        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{:.2}\"/>",
                        self.cell
                    );
                }
                column += 1;
            }
        }
        out.push_str("</g>\n");
    }

    fn raster(&self, out: &mut String, rows: u64) {
        if self.cell < LINED {
            return;
        }
        let (width, height) = (self.columns as f64 * self.cell, rows as f64 * self.cell);
        out.push_str("<path stroke=\"#cccccc\" stroke-width=\"0.5\" fill=\"none\" d=\"");
        for column in 1..self.columns {
            let _ = write!(out, "M{:.2} 0V{height:.2}", column as f64 * self.cell);
        }
        for row in 1..rows {
            let _ = write!(out, "M0 {:.2}H{width:.2}", row as f64 * self.cell);
        }
        out.push_str("\"/>\n");
    }

    fn path(&self, out: &mut String, path: &[u64]) {
        let middle = |cell: u64| {
            let (x, y) = self.corner(cell);
            (x + self.cell / 2.0, y + self.cell / 2.0)
        };
        let (Some(first), Some(last)) = (path.first(), path.last()) else { return };
        let thick = (self.cell * 0.3).clamp(1.5, 6.0);
        let _ = write!(
            out,
            "<polyline fill=\"none\" stroke=\"#0b62d6\" stroke-width=\"{thick:.2}\" stroke-linejoin=\"round\" points=\""
        );
        for cell in path {
            let (x, y) = middle(*cell);
            let _ = write!(out, "{x:.2},{y:.2} ");
        }
        out.push_str("\"/>\n");
        for (cell, colour) in [(first, "#128a3c"), (last, "#c01c28")] {
            let (x, y) = middle(*cell);
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{:.2}\" fill=\"{colour}\"/>",
                thick * 1.2
            );
        }
    }
}
