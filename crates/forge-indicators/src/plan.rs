//! In which order, and in which buffers? Nodes that somebody needs, each after its inputs; buffers are used again as soon
//! as their last reader has run.

use crate::{
    graph::{Field, Graph, Num, Prim, Val},
    kernel::{
        Kernel,
        pointwise::{Choose, Lag, Map1, Map2, Map3, MapNumber, Preceded},
        recur::{Affine, CumExtreme, CumSum, Ema, Follow, Wilder},
        whole::WholeDef,
        window::{
            Ago, Best, CentralMoment, CoMoment, Extreme, Fir, GrowingSum, MeanDeviation, Order, RampSum,
            Rank, Sum, Total, Variance,
        },
    },
    links::{Fusion, Links},
};

/// Inputs or outputs of one step, at most.
pub(crate) const MOST_PORTS: usize = 8;

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which buffer.
    pub(crate) buffer: usize,
    /// Rows before the block that it keeps.
    pub(crate) history: usize,
    /// Bars ago that it is read.
    pub(crate) lag: usize,
}

/// One node to run.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) prim: Prim,
    pub(crate) start: usize,
    pub(crate) inputs: Vec<Place>,
    /// First valid bar of the inputs.
    pub(crate) begin: usize,
    pub(crate) outputs: Vec<Place>,
    /// Which input is the same number at every bar, and that number.
    pub(crate) constant: Option<(usize, f64)>,
    /// Another function that is computed inside this one.
    pub(crate) fusion: Option<Fusion>,
}

/// What to run for some outputs.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Bar columns that are read, and where they go.
    pub(crate) fields: Vec<(Field, Place)>,
    pub(crate) constants: Vec<(f64, Place)>,
    /// Columns of whole series, and where they go.
    pub(crate) wholes: Vec<(&'static WholeDef, Vec<f64>, Place)>,
    pub(crate) outputs: Vec<Place>,
    pub(crate) starts: Vec<usize>,
    pub(crate) buffers: usize,
    /// Nodes of the whole graph, before those that nobody needs were left out.
    pub(crate) nodes: usize,
}

impl Plan {
    /// A plan for these values of a graph.
    pub fn new(graph: &Graph, wanted: &[Val]) -> Plan {
        let links = Links::new(graph, wanted);
        let history = history(graph, &links);
        let last = last_use(graph, wanted, &links);
        let mut places: Vec<Vec<Place>> = vec![Vec::new(); graph.nodes.len()];
        let mut free: Vec<usize> = Vec::new();
        let mut plan = Plan {
            steps: Vec::new(),
            fields: Vec::new(),
            constants: Vec::new(),
            wholes: Vec::new(),
            outputs: Vec::new(),
            starts: wanted.iter().map(|v| graph.start(*v)).collect(),
            buffers: 0,
            nodes: graph.nodes.len(),
        };
        let place_of = |places: &[Vec<Place>], v: Val| {
            let (v, lag) = links.root(v);
            let found = places.get(v.node as usize).and_then(|p| p.get(v.port as usize)).copied();
            Place { lag, ..found.unwrap_or(Place { buffer: 0, history: 0, lag: 0 }) }
        };
        for (at, node) in graph.nodes.iter().enumerate().filter(|(at, _)| links.needed(*at)) {
            let kept = history.get(at).copied().unwrap_or(0);
            let fixed = node.prim.is_given();
            let mut own = Vec::new();
            for _ in 0..node.prim.ports() {
                // A buffer with a history is its node's for good.
                let again = if kept == 0 && !fixed { free.pop() } else { None };
                let buffer = again.unwrap_or_else(|| {
                    plan.buffers += 1;
                    plan.buffers - 1
                });
                own.push(Place { buffer, history: kept, lag: 0 });
            }
            if let Some(entry) = places.get_mut(at) {
                entry.clone_from(&own);
            }
            match (&node.prim, own.first()) {
                (Prim::Input(field), Some(place)) => plan.fields.push((*field, *place)),
                (Prim::Const(x), Some(place)) => plan.constants.push((x.get(), *place)),
                (Prim::Whole { def, params }, Some(place)) => {
                    plan.wholes.push((def, params.iter().map(|p| p.get()).collect(), *place));
                }
                _ => {
                    let reads = links.inputs(at);
                    let inputs = reads.iter().map(|(v, _)| place_of(&places, *v)).collect();
                    let begin = reads.iter().map(|(v, _)| graph.start(*v)).max().unwrap_or(0);
                    let (prim, start) = (node.prim.clone(), node.start);
                    let fusion = links.fusion(at);
                    let constant = constant(graph, &prim, &links).filter(|_| fusion.is_none());
                    plan.steps.push(Step { prim, start, inputs, begin, outputs: own, constant, fusion });
                }
            }
            release(graph, &history, &last, at, &places, &links, &mut free);
        }
        plan.outputs = wanted.iter().map(|v| place_of(&places, *v)).collect();
        plan
    }

    /// Nodes that are computed.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Nodes that were asked for, with repetitions already merged.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Bar columns that are read.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        let plain = |field: &Field| self.fields.iter().any(|(f, _)| f == field);
        let ahead = self.wholes.iter().flat_map(|(def, ..)| def.fields).filter(move |f| !plain(f));
        self.fields.iter().map(|(f, _)| *f).chain(ahead.copied())
    }

    /// Every place that something is written to.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let steps = self.steps.iter().flat_map(|s| s.outputs.iter().copied());
        let fields = self.fields.iter().map(|(_, p)| *p);
        let constants = self.constants.iter().map(|(_, p)| *p);
        steps.chain(fields).chain(constants).chain(self.wholes.iter().map(|(.., p)| *p))
    }

    /// Does this buffer hold a constant, or a column of a whole series?
    pub(crate) fn is_given_otherwise(&self, buffer: usize) -> bool {
        let constant = self.constants.iter().any(|(_, p)| p.buffer == buffer);
        constant || self.wholes.iter().any(|(.., p)| p.buffer == buffer)
    }

    /// Can it be computed for a series that comes in parts? Not where a column rests on the whole of it.
    pub fn in_parts(&self) -> bool {
        self.wholes.is_empty()
    }

    /// Are several series faster side by side than one by one?
    pub fn side_by_side(&self) -> bool {
        let (mut alone, mut abreast) = (0.0, 0.0);
        for step in &self.steps {
            let (one, many) = cost(&step.prim);
            alone += one;
            abreast += many;
        }
        abreast += TOGETHER * self.fields.len() as f64 + APART * self.outputs.len() as f64;
        abreast < alone
    }

    /// First valid bar of each output.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }
}

/// Nanoseconds a bar for putting a column of bars side by side with others, and for taking a result apart.
const TOGETHER: f64 = 0.35;
const APART: f64 = 0.45;

/// Nanoseconds a bar that a step takes for one series, and for each of several side by side: what depends on the bar before
/// gains, what does not is nearly the same. Measured with `cargo xtask bench indicators`; only the order of the two sums
/// counts.
fn cost(prim: &Prim) -> (f64, f64) {
    match prim {
        Prim::Input(_) | Prim::Const(_) | Prim::Whole { .. } => (0.0, 0.0),
        Prim::Un(..) | Prim::Bin(..) | Prim::Select(..) | Prim::Shift(..) | Prim::Preceded(..) => (0.2, 0.15),
        Prim::Order { .. } => (30.0, 30.0),
        Prim::Machine { .. } => (6.0, 5.0),
        Prim::Ema { .. } | Prim::Wilder { .. } | Prim::Affine { .. } | Prim::Follow { .. } => (3.0, 0.7),
        _ => (2.5, 0.7),
    }
}

/// The input of a function of two values that is a number.
fn constant(graph: &Graph, prim: &Prim, links: &Links) -> Option<(usize, f64)> {
    let Prim::Bin(_, a, b) = prim else { return None };
    let number = |v: Val| match graph.nodes.get(links.root(v).0.node as usize).map(|n| &n.prim) {
        Some(Prim::Const(x)) => Some(x.get()),
        _ => None,
    };
    number(*b).map(|x| (1, x)).or_else(|| number(*a).map(|x| (0, x)))
}

/// How many bars back each node is read.
fn history(graph: &Graph, links: &Links) -> Vec<usize> {
    let mut history = vec![0; graph.nodes.len()];
    for at in (0..graph.nodes.len()).filter(|at| links.needed(*at)) {
        for (v, back) in links.reads(at) {
            if let Some(entry) = history.get_mut(v.node as usize) {
                *entry = back.max(*entry);
            }
        }
    }
    history
}

/// The last node that reads each; wanted ones are read by the world at the end.
fn last_use(graph: &Graph, wanted: &[Val], links: &Links) -> Vec<usize> {
    let mut last: Vec<usize> = (0..graph.nodes.len()).collect();
    for at in (0..graph.nodes.len()).filter(|at| links.needed(*at)) {
        for (v, _) in links.reads(at) {
            if let Some(entry) = last.get_mut(v.node as usize) {
                *entry = at;
            }
        }
    }
    for v in wanted {
        if let Some(entry) = last.get_mut(links.root(*v).0.node as usize) {
            *entry = usize::MAX;
        }
    }
    last
}

/// Buffers whose last reader has just run can be used again.
fn release(
    graph: &Graph,
    history: &[usize],
    last: &[usize],
    at: usize,
    places: &[Vec<Place>],
    links: &Links,
    free: &mut Vec<usize>,
) {
    let mut done: Vec<u32> = links.reads(at).map(|(v, _)| v.node).collect();
    done.sort_unstable();
    done.dedup();
    for input in done {
        let i = input as usize;
        let plain = graph.nodes.get(i).is_some_and(|n| !n.prim.is_given());
        if last.get(i) == Some(&at) && history.get(i) == Some(&0) && plain {
            free.extend(places.get(i).into_iter().flatten().map(|p| p.buffer));
        }
    }
}

/// Makes a step's kernel for `L` series; machines come in one and in eight.
macro_rules! kernels {
    ($name:ident, $lanes:literal, $machine:ident) => {
        pub(crate) fn $name(step: &Step) -> Box<dyn Kernel<$lanes>> {
            const L: usize = $lanes;
            match &step.prim {
                Prim::Un(f, _) => Box::new(Map1(*f)),
                Prim::Bin(f, ..) => match (step.fusion, step.constant) {
                    (Some(fusion), _) => Box::new(Map3(fusion)),
                    (None, Some((at, k))) => Box::new(MapNumber { f: *f, k, first: at == 0 }),
                    (None, None) => Box::new(Map2(*f)),
                },
                Prim::Select(..) | Prim::Input(_) | Prim::Const(_) | Prim::Whole { .. } => Box::new(Choose),
                Prim::Shift(_, n) => Box::new(Lag(*n)),
                // The later of the two beginnings is the first input's.
                Prim::Preceded(..) => Box::new(Preceded { begin: step.begin }),
                Prim::Sum(_, n) => Box::new(Sum::<L> { n: *n, rest: [0.0; L] }),
                Prim::GrowingSum(_, n) => Box::new(GrowingSum::<L> { n: *n, rest: [0.0; L] }),
                Prim::Total { n, .. } => Box::new(Total::<L> { n: *n, sum: [0.0; L] }),
                Prim::RampSum(_, n) => {
                    Box::new(RampSum::<L> { n: *n, plain: [0.0; L], ramp: [0.0; L], leaving: [0.0; L] })
                }
                Prim::Fir(_, weights) => {
                    Box::new(Fir { weights: weights.iter().map(|w| Num::get(*w)).collect() })
                }
                Prim::Extreme { n, max, .. } => {
                    Box::new(Extreme::<L> { n: *n, max: *max, suffix: Vec::new(), prefix: [f64::NAN; L] })
                }
                Prim::Ago { n, max, .. } => {
                    Box::new(Ago::<L> { n: *n, max: *max, suffix: Vec::new(), prefix: Best::NONE })
                }
                Prim::Variance(_, n) => Box::new(Variance::<L> { n: *n, state: Default::default() }),
                Prim::MeanDeviation(_, n) => Box::new(MeanDeviation { n: *n }),
                Prim::CentralMoment(_, n, power) => Box::new(CentralMoment { n: *n, power: *power }),
                Prim::CoMoment(_, _, n) => Box::new(CoMoment::<L> { n: *n, state: Default::default() }),
                Prim::Order { n, k, .. } => Box::new(Order::<L> {
                    n: *n,
                    k: *k,
                    sorted: std::array::from_fn(|_| Vec::new()),
                    nans: [0; L],
                }),
                Prim::Rank { n, or_equal, .. } => Box::new(Rank { n: *n, or_equal: *or_equal }),
                Prim::Ema { k, seed, .. } => Box::new(Ema::<L> { k: k.get(), seed: *seed, y: [0.0; L] }),
                Prim::Wilder { n, seed, .. } => {
                    Box::new(Wilder::<L> { n: *n as f64, seed: *seed, y: [0.0; L] })
                }
                Prim::Affine { .. } => Box::new(Affine::<L> { y: [0.0; L] }),
                Prim::Follow { .. } => Box::new(Follow::<L> { y: [0.0; L] }),
                Prim::CumSum(_) => Box::new(CumSum::<L> { y: [0.0; L] }),
                Prim::CumExtreme { max, .. } => Box::new(CumExtreme::<L> { max: *max, y: [0.0; L] }),
                Prim::Machine { def, params, .. } => {
                    let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
                    (def.$machine)(&params, step.begin)
                }
            }
        }
    };
}

kernels!(kernel_1, 1, one);
kernels!(kernel_8, 8, many);
