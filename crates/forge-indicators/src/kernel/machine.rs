//! State machines: what needs a memory of its own and takes one step a bar.
//!
//! A machine is a plain struct with a `step`; it is run once per series, `L` of them side by side.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Kernel};

/// One series' state. `step` gets the inputs of a bar and gives the outputs of the same bar; it is called from the first bar
/// on at which all inputs are valid, and what it gives before its own lookback is not seen.
pub trait Machine<const I: usize, const O: usize>: Clone + Send + 'static {
    /// At the beginning of a series.
    fn new(params: &[f64]) -> Self;

    /// One bar.
    fn step(&mut self, x: [f64; I]) -> [f64; O];
}

/// A machine as the graph knows it.
pub struct MachineDef {
    /// Unique name.
    pub name: &'static str,
    /// How many values it gives.
    pub outputs: usize,
    /// Bars after its inputs' first until its own first, by its parameters.
    pub lookback: fn(&[f64]) -> usize,
    pub(crate) one: fn(&[f64], usize) -> Box<dyn Kernel<1>>,
    pub(crate) many: fn(&[f64], usize) -> Box<dyn Kernel<8>>,
}

impl MachineDef {
    /// Describes a machine: `MachineDef::of::<Sar, 2, 1>("sar", |_| 1)`.
    pub const fn of<M: Machine<I, O>, const I: usize, const O: usize>(
        name: &'static str,
        lookback: fn(&[f64]) -> usize,
    ) -> Self {
        MachineDef {
            name,
            outputs: O,
            lookback,
            one: |params, inputs| Box::new(Lanes::<M, I, O, 1>::new(params, inputs)),
            many: |params, inputs| Box::new(Lanes::<M, I, O, 8>::new(params, inputs)),
        }
    }
}

impl std::fmt::Debug for MachineDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for MachineDef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for MachineDef {}

impl std::hash::Hash for MachineDef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

struct Lanes<M, const I: usize, const O: usize, const L: usize> {
    lanes: [M; L],
    /// First bar at which all inputs are valid.
    begin: usize,
}

impl<M: Machine<I, O>, const I: usize, const O: usize, const L: usize> Lanes<M, I, O, L> {
    fn new(params: &[f64], begin: usize) -> Self {
        let one = M::new(params);
        Lanes { lanes: std::array::from_fn(|_| one.clone()), begin }
    }
}

impl<M: Machine<I, O>, const I: usize, const O: usize, const L: usize> Body<L> for Lanes<M, I, O, L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        block.head();
        let (t0, t1, start) = (block.t0, block.t1, block.start);
        for t in self.begin.clamp(t0, t1)..t1 {
            let mut x = [[0.0; I]; L];
            for (i, input) in block.inputs.iter().enumerate().take(I) {
                let row = input.at(t);
                for l in 0..L {
                    x[l][i] = row[l];
                }
            }
            for l in 0..L {
                let y = self.lanes[l].step(x[l]);
                if t >= start {
                    for (out, y) in block.outputs.iter_mut().zip(y) {
                        if let Some(row) = out.get_mut(t - t0) {
                            row[l] = y;
                        }
                    }
                }
            }
        }
    }
}
