//! State machines: kernels with state of their own that take one step per bar.
//!
//! Three traits, from the most constrained to the most general:
//!
//! | trait | state | for |
//! |---|---|---|
//! | [`BranchlessMachine`] | some numbers, and a step of arithmetic, comparisons and selects | nearly everything: vectorises over series, and fuses into JIT loops |
//! | [`RowStateMachine`] | rows, ring buffers of rows, state shared by all lanes | steps that look back, or that start in stages |
//! | [`StateMachine`] | anything | steps that branch; one series after the other |
//!
//! With any of them, the bits of a series do not depend on its neighbours.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

/// Select: one of two computed values, where an `if` might become a branch.
pub use std::hint::select_unpredictable as select;

pub use super::value::Value;
use super::{Block, Body, Kernel, Row, trace::TracedStep};

/// A machine of one series. `step` maps the inputs of a bar to its outputs; it is called from the first bar on at which all
/// inputs are valid, and its outputs are discarded during its own lookback.
pub trait StateMachine<const I: usize, const O: usize>: Clone + Send + 'static {
    /// At the beginning of a series.
    fn new(params: &[f64]) -> Self;

    /// One bar.
    fn step(&mut self, x: [f64; I]) -> [f64; O];
}

/// A machine with `S` numbers of state and a branch-free step, generic over [`Value`]: the same code serves one series, SIMD
/// across series and the JIT. A step uses [`Value::select`] instead of `if` and [`Value::cmp_lt`] instead of `<`. States on the
/// loop-carried path should come first: those are pinned to registers. All methods must be `#[inline(always)]`.
pub trait BranchlessMachine<const S: usize, const I: usize, const O: usize>: Copy + Send + 'static {
    /// From its parameters.
    fn new(params: &[f64]) -> Self;

    /// The first bar: state after it, and its outputs.
    fn first(&self, x: [f64; I]) -> ([f64; S], [f64; O]);

    /// One bar: state after it, and its outputs.
    fn step<V: Value>(&self, state: [V; S], x: [V; I]) -> ([V; S], [V; O]);
}

/// A machine that steps `L` series at once. Large state should be boxed: the machine is moved at every block.
/// All methods but `new` must be `#[inline(always)]`.
pub trait RowStateMachine<const I: usize, const O: usize, const L: usize>: Clone + Send + 'static {
    /// At the beginning of the series.
    fn new(params: &[f64]) -> Self;

    /// The first bar, where it differs from the others.
    #[inline(always)]
    fn first(&mut self, x: [&Row<L>; I]) -> [Row<L>; O] {
        self.step(x)
    }

    /// One bar.
    fn step(&mut self, x: [&Row<L>; I]) -> [Row<L>; O];

    /// Loop-carried state, where that is rows that a fused loop continues from.
    fn state(&mut self, _at: usize) -> Option<&mut Row<L>> {
        None
    }
}

/// Maps the values of every lane; a branch-free `f` vectorises.
#[inline(always)]
pub fn lanes<const I: usize, const O: usize, const L: usize>(
    x: [&Row<L>; I],
    f: impl Fn([f64; I]) -> [f64; O],
) -> [Row<L>; O] {
    let mut out = [[0.0; L]; O];
    for l in 0..L {
        let mut lane = [0.0; I];
        for i in 0..I {
            lane[i] = x[i][l];
        }
        let y = f(lane);
        for o in 0..O {
            out[o][l] = y[o];
        }
    }
    out
}

/// Definition of a state machine.
pub struct StateMachineDef {
    /// Unique name.
    pub name: &'static str,
    /// Number of outputs.
    pub outputs: usize,
    /// Lookback in bars after the first valid input, by its parameters.
    pub lookback: fn(&[f64]) -> usize,
    pub(crate) one: fn(&[f64], usize) -> Box<dyn Kernel<1>>,
    pub(crate) many: fn(&[f64], usize) -> Box<dyn Kernel<8>>,
    /// The trace of its step by its parameters, where it can be part of a fused loop.
    pub(crate) traced: Option<fn(&[f64]) -> TracedStep>,
}

impl StateMachineDef {
    /// Defines a branching machine: `StateMachineDef::of::<Spearman, 2, 1>("spearman", |_| 1)`.
    pub const fn of<M: StateMachine<I, O>, const I: usize, const O: usize>(
        name: &'static str,
        lookback: fn(&[f64]) -> usize,
    ) -> Self {
        StateMachineDef {
            name,
            outputs: O,
            lookback,
            one: |params, begin| Box::new(PerLaneKernel::<M, I, O, 1>::new(params, begin)),
            many: |params, begin| Box::new(PerLaneKernel::<M, I, O, 8>::new(params, begin)),
            traced: None,
        }
    }

    /// Defines a branch-free machine by its state, inputs and outputs: `StateMachineDef::branchless::<Streak, 1, 2, 1>("streak", |_| 0)`.
    pub const fn branchless<R: BranchlessMachine<S, I, O>, const S: usize, const I: usize, const O: usize>(
        name: &'static str,
        lookback: fn(&[f64]) -> usize,
    ) -> Self {
        StateMachineDef {
            traced: Some(|params| {
                let machine = R::new(params);
                TracedStep::of(|state: [_; S], x: [_; I]| -> (_, [_; O]) { machine.step(state, x) })
            }),
            ..Self::rows::<BranchlessRows<R, S, 1>, BranchlessRows<R, S, 8>, I, O>(name, lookback)
        }
    }

    /// Defines a row machine: `StateMachineDef::rows::<Phase<1>, Phase<8>, 2, 1>("phase", |_| 0)`.
    pub const fn rows<One, Many, const I: usize, const O: usize>(
        name: &'static str,
        lookback: fn(&[f64]) -> usize,
    ) -> Self
    where
        One: RowStateMachine<I, O, 1>,
        Many: RowStateMachine<I, O, 8>,
    {
        StateMachineDef {
            name,
            outputs: O,
            lookback,
            one: |params, begin| Box::new(RowKernel::<One, I, O> { machine: Some(One::new(params)), begin }),
            many: |params, begin| {
                Box::new(RowKernel::<Many, I, O> { machine: Some(Many::new(params)), begin })
            },
            traced: None,
        }
    }
}

impl std::fmt::Debug for StateMachineDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for StateMachineDef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StateMachineDef {}

impl std::hash::Hash for StateMachineDef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A branch-free machine and its state in all lanes.
#[derive(Clone)]
struct BranchlessRows<R, const S: usize, const L: usize> {
    machine: R,
    state: [Row<L>; S],
}

impl<R: BranchlessMachine<S, I, O>, const S: usize, const I: usize, const O: usize, const L: usize>
    RowStateMachine<I, O, L> for BranchlessRows<R, S, L>
{
    fn new(params: &[f64]) -> Self {
        BranchlessRows { machine: R::new(params), state: [[0.0; L]; S] }
    }

    #[inline(always)]
    fn first(&mut self, x: [&Row<L>; I]) -> [Row<L>; O] {
        let machine = self.machine;
        self.map_lanes(x, |_, x| machine.first(x))
    }

    #[inline(always)]
    fn step(&mut self, x: [&Row<L>; I]) -> [Row<L>; O] {
        let machine = self.machine;
        self.map_lanes(x, |state, x| machine.step(state, x))
    }

    fn state(&mut self, at: usize) -> Option<&mut Row<L>> {
        self.state.get_mut(at)
    }
}

impl<R, const S: usize, const L: usize> BranchlessRows<R, S, L> {
    #[inline(always)]
    fn map_lanes<const I: usize, const O: usize>(
        &mut self,
        x: [&Row<L>; I],
        f: impl Fn([f64; S], [f64; I]) -> ([f64; S], [f64; O]),
    ) -> [Row<L>; O] {
        // Into new rows: stores must not alias what a later lane reads.
        let (mut next, mut out) = ([[0.0; L]; S], [[0.0; L]; O]);
        for l in 0..L {
            let (mut state, mut lane) = ([0.0; S], [0.0; I]);
            for s in 0..S {
                state[s] = self.state[s][l];
            }
            for i in 0..I {
                lane[i] = x[i][l];
            }
            let (state, y) = f(state, lane);
            for s in 0..S {
                next[s][l] = state[s];
            }
            for o in 0..O {
                out[o][l] = y[o];
            }
        }
        self.state = next;
        out
    }
}

/// Rows of a block for a machine: inputs from its first bar on, outputs from its first valid bar.
struct MachineRows<'a, const I: usize, const O: usize, const L: usize> {
    inputs: [&'a [Row<L>]; I],
    outputs: [&'a mut [Row<L>]; O],
    /// Bars whose outputs are discarded (lookback).
    hidden: usize,
    /// Does the machine start in this block?
    first: bool,
}

impl<'a, const I: usize, const O: usize, const L: usize> MachineRows<'a, I, O, L> {
    /// `None` where a column is missing.
    #[inline(always)]
    fn of<'b: 'a>(block: &'a mut Block<'b, L>, begin: usize) -> Option<Self> {
        let shown = block.head();
        let (t0, t1) = (block.t0, block.t1);
        let from = begin.clamp(t0, t1);
        let shown = shown.max(from);
        let inputs: [&[Row<L>]; I] =
            std::array::from_fn(|i| block.inputs.get(i).map_or(&[] as &[_], |rows| rows.range(from, t1)));
        let mut all = block.outputs.iter_mut();
        let outputs: [&mut [Row<L>]; O] = std::array::from_fn(|_| {
            all.next().and_then(|o| o.get_mut(shown - t0..t1 - t0)).unwrap_or_default()
        });
        let whole = inputs.iter().all(|rows| rows.len() == t1 - from)
            && outputs.iter().all(|rows| rows.len() == t1 - shown);
        whole.then_some(MachineRows {
            inputs,
            outputs,
            hidden: shown - from,
            first: from == begin && from < t1,
        })
    }

    #[inline(always)]
    fn row(&self, k: usize) -> [&'a Row<L>; I] {
        std::array::from_fn(|i| &self.inputs[i][k])
    }

    #[inline(always)]
    fn put(&mut self, k: usize, y: &[Row<L>; O]) {
        for o in 0..O {
            self.outputs[o][k] = y[o];
        }
    }
}

/// A row machine as a kernel.
#[derive(Clone)]
struct RowKernel<M, const I: usize, const O: usize> {
    /// Moved out while a block is computed.
    machine: Option<M>,
    /// First bar at which all inputs are valid.
    begin: usize,
}

impl<M: RowStateMachine<I, O, L>, const I: usize, const O: usize, const L: usize> Body<L>
    for RowKernel<M, I, O>
{
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let Some(mut span) = MachineRows::<I, O, L>::of(block, self.begin) else { return };
        // Moved to the stack for the block: a local stays in registers.
        let Some(mut machine) = self.machine.take() else { return };
        let mut k = 0;
        if span.first {
            let y = machine.first(span.row(0));
            if span.hidden == 0 {
                span.put(0, &y);
            }
            k = 1;
        }
        for k in k..span.hidden {
            machine.step(span.row(k));
        }
        let hidden = span.hidden;
        for shown in k.saturating_sub(hidden)..span.outputs.first().map_or(0, |rows| rows.len()) {
            let y = machine.step(span.row(hidden + shown));
            span.put(shown, &y);
        }
        self.machine = Some(machine);
    }

    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        self.machine.as_mut().and_then(|machine| machine.state(at))
    }
}

/// A machine per lane as a kernel.
#[derive(Clone)]
struct PerLaneKernel<M, const I: usize, const O: usize, const L: usize> {
    lanes: [M; L],
    /// First bar at which all inputs are valid.
    begin: usize,
}

impl<M: StateMachine<I, O>, const I: usize, const O: usize, const L: usize> PerLaneKernel<M, I, O, L> {
    fn new(params: &[f64], begin: usize) -> Self {
        let one = M::new(params);
        PerLaneKernel { lanes: std::array::from_fn(|_| one.clone()), begin }
    }
}

impl<M: StateMachine<I, O>, const I: usize, const O: usize, const L: usize> Body<L>
    for PerLaneKernel<M, I, O, L>
{
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let Some(span) = MachineRows::<I, O, L>::of(block, self.begin) else { return };
        let (hidden, bars) = (span.hidden, span.inputs.first().map_or(0, |rows| rows.len()));
        for k in 0..hidden {
            for l in 0..L {
                self.lanes[l].step(std::array::from_fn(|i| span.inputs[i][k][l]));
            }
        }
        for k in hidden..bars {
            for l in 0..L {
                let y = self.lanes[l].step(std::array::from_fn(|i| span.inputs[i][k][l]));
                for o in 0..O {
                    span.outputs[o][k - hidden][l] = y[o];
                }
            }
        }
    }
}
