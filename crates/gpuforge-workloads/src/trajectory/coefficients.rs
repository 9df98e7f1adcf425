//! Drag and lift coefficients: tables over Reynolds number and spin parameter, bilinear between nodes.
//!
//! **Source of the default.** A. J. Smits and D. R. Smith, "A new aerodynamic model of a golf ball in flight", Science and Golf II
//! (1994): drag `0.24 + 0.18 S + 0.06 sin(π (Re - 9e4) / 2e5)`, lift `0.54 S^0.4`, fitted to wind-tunnel measurements for Reynolds
//! numbers `Re` of 70 000 to 210 000 and spin parameters `S` of 0.08 to 0.2. The nodes below are its values; `S` is extended to
//! 0.75, where irons fly. Beyond the table, the edge value holds.

use super::{
    error::TrajectoryError,
    flight_model::{Cells, PADDED_NODES},
};

/// Most nodes per axis.
pub const MAX_NODES: usize = 32;
/// Size of the node table, in rows of [`MAX_NODES`].
pub(super) const NODES: usize = MAX_NODES * MAX_NODES;

/// Evenly spaced nodes of one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableAxis {
    /// The first.
    pub first: f64,
    /// From one to the next.
    pub step: f64,
    /// How many, 2 to [`MAX_NODES`].
    pub nodes: usize,
}

/// Drag and lift at nodes of Reynolds number and spin parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Coefficients {
    /// Reynolds numbers, over the diameter.
    pub reynolds: TableAxis,
    /// Spin parameters `rω/v`.
    pub spin: TableAxis,
    /// Row-major: all spin parameters of the first Reynolds number, then those of the next.
    pub drag: Vec<f64>,
    /// Likewise for the lift.
    pub lift: Vec<f64>,
}

const REYNOLDS: TableAxis = TableAxis { first: 70_000.0, step: 20_000.0, nodes: 8 };
const SPIN: TableAxis = TableAxis { first: 0.0, step: 0.05, nodes: 16 };

/// Drag of a ball without spin, at every Reynolds number.
const DRAG: [f64; 8] = [0.2215, 0.2400, 0.2585, 0.2753, 0.2885, 0.2971, 0.3000, 0.2971];
/// What each further 0.05 of the spin parameter adds to the drag.
const DRAG_OF_SPIN: f64 = 0.0090;
/// Lift at every spin parameter, the same for all Reynolds numbers.
const LIFT: [f64; 16] = [
    0.0000, 0.1629, 0.2150, 0.2528, 0.2837, 0.3101, 0.3336, 0.3548, 0.3743, 0.3924, 0.4092, 0.4251, 0.4402,
    0.4545, 0.4682, 0.4813,
];

impl Default for Coefficients {
    fn default() -> Self {
        let of = |still: f64| (0..SPIN.nodes).map(move |j| still + j as f64 * DRAG_OF_SPIN);
        Coefficients {
            reynolds: REYNOLDS,
            spin: SPIN,
            drag: DRAG.into_iter().flat_map(of).collect(),
            lift: DRAG.iter().flat_map(|_| LIFT).collect(),
        }
    }
}

impl Coefficients {
    /// Constant drag and lift; without spin there is no lift.
    pub fn constant(drag: f64, lift: f64) -> Coefficients {
        let axis = TableAxis { first: 0.0, step: 1.0, nodes: 2 };
        Coefficients { reynolds: axis, spin: axis, drag: vec![drag; 4], lift: vec![lift; 4] }
    }

    pub(super) fn check(&self) -> Result<(), TrajectoryError> {
        let wrong = |what: String| Err(TrajectoryError::Coefficients(what));
        for (name, axis) in [("Reynolds numbers", self.reynolds), ("spin parameters", self.spin)] {
            if !(2..=MAX_NODES).contains(&axis.nodes) {
                return wrong(format!("{} {name}, between 2 and {MAX_NODES}", axis.nodes));
            }
            if !(axis.first.is_finite() && axis.step.is_finite() && axis.step > 0.0) {
                return wrong(format!("{name} from {} in steps of {}", axis.first, axis.step));
            }
        }
        let nodes = self.reynolds.nodes * self.spin.nodes;
        for (name, values, min) in [("drag", &self.drag, 0.0), ("lift", &self.lift, -10.0)] {
            if values.len() != nodes {
                return wrong(format!("{} values of the {name} for {nodes} nodes", values.len()));
            }
            if let Some(odd) = values.iter().find(|c| !(min..=10.0).contains(*c)) {
                return wrong(format!("a {name} of {odd}: from {min} to 10"));
            }
        }
        Ok(())
    }

    /// Values padded to rows of [`MAX_NODES`].
    pub(super) fn padded(&self, values: &[f64]) -> [f64; NODES] {
        let mut padded = [0.0; NODES];
        let rows = values.chunks(self.spin.nodes.max(1));
        for (to, row) in padded.chunks_exact_mut(MAX_NODES).zip(rows) {
            to.iter_mut().zip(row).for_each(|(to, value)| *to = *value);
        }
        padded
    }

    /// Bilinear coefficients of every cell.
    pub(super) fn cells(&self) -> Cells {
        let mut cells = [[0.0; PADDED_NODES]; 8];
        let (drags, lifts) = cells.split_at_mut(4);
        for (numbers, values) in [(drags, &self.drag), (lifts, &self.lift)] {
            let nodes = self.padded(values);
            for at in 0..NODES {
                let four = numbers.iter_mut().filter_map(|cells| cells.get_mut(at));
                four.zip(bilinear(&nodes, at)).for_each(|(to, number)| *to = number);
            }
        }
        cells
    }
}

/// Bilinear coefficients of a cell: value, slopes along both axes, and the mixed term.
fn bilinear(nodes: &[f64; NODES], at: usize) -> [f64; 4] {
    let node = |further: usize| nodes.get(at + further).copied().unwrap_or(0.0);
    let (here, along, across) = (node(0), node(1), node(MAX_NODES));
    [here, across - here, along - here, node(MAX_NODES + 1) - across - (along - here)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_match_the_published_fit() {
        let table = Coefficients::default();
        table.check().unwrap();
        for i in 0..8 {
            for j in 0..16 {
                let (re, s) = (70_000.0 + 20_000.0 * i as f64, 0.05 * j as f64);
                let drag = 0.24 + 0.18 * s + 0.06 * (std::f64::consts::PI * (re - 9e4) / 2e5).sin();
                assert!((table.drag[i * 16 + j] - drag).abs() < 1e-4, "drag at {re}, {s}");
                assert!((table.lift[i * 16 + j] - 0.54 * s.powf(0.4)).abs() < 1e-4, "lift at {re}, {s}");
            }
        }
    }

    #[test]
    fn inconsistent_tables_are_refused() {
        let good = Coefficients::default();
        let axis = |first, step, nodes| TableAxis { first, step, nodes };
        let odd = [
            Coefficients { spin: axis(0.0, 0.05, 15), ..good.clone() },
            Coefficients { spin: axis(0.0, 0.0, 16), ..good.clone() },
            Coefficients { reynolds: axis(f64::NAN, 1.0, 8), ..good.clone() },
            Coefficients { reynolds: axis(0.0, 1.0, 33), ..good.clone() },
            Coefficients::constant(-0.1, 0.0),
            Coefficients::constant(f64::NAN, 0.0),
        ];
        assert!(odd.iter().all(|table| table.check().is_err()));
    }
}
