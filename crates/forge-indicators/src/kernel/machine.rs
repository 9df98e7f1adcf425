//! State machines: what needs a memory of its own and takes one step a bar.
//!
//! A machine is a plain struct with a `step`; it is run once per series, `L` of them side by side.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Kernel, Row};

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
        let shown = block.head();
        let (t0, t1) = (block.t0, block.t1);
        let from = self.begin.clamp(t0, t1);
        let inputs: [&[Row<L>]; I] =
            std::array::from_fn(|i| block.inputs.get(i).map_or(&[] as &[_], |rows| rows.range(from, t1)));
        if inputs.iter().any(|rows| rows.len() != t1 - from) {
            return;
        }
        let shown = shown.max(from);
        for k in 0..shown - from {
            for l in 0..L {
                self.lanes[l].step(std::array::from_fn(|i| inputs[i][k][l]));
            }
        }
        let mut all = block.outputs.iter_mut();
        let outputs: [&mut [Row<L>]; O] =
            std::array::from_fn(|_| all.next().and_then(|o| o.get_mut(shown - t0..)).unwrap_or_default());
        if outputs.iter().any(|rows| rows.len() != t1 - shown) {
            return;
        }
        for k in 0..t1 - shown {
            for l in 0..L {
                let y = self.lanes[l].step(std::array::from_fn(|i| inputs[i][shown - from + k][l]));
                for o in 0..O {
                    outputs[o][k][l] = y[o];
                }
            }
        }
    }
}
