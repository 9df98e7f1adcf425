//! In which order, and in which buffers? Nodes that somebody needs, each after its inputs; buffers are used again as soon
//! as their last reader has run.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, OnceLock},
};

use crate::{
    graph::{Field, Graph, F64Bits, NodeOp, ValueId},
    kernel::{
        Kernel,
        extreme::{Ago, Extreme},
        moment::{CentralMoment, CoMoment, MeanDeviation, TimeMoment, Variance},
        order::{Order, Rank},
        pieces::{Pieces, Ramps},
        pointwise::{Choose, Lag, Map1, Map2, Map3, MapNumber, Preceded},
        recur::{Affine, CumExtreme, CumSum, Ema, Follow, Wilder},
        sum::{Fir, GrowingSum, RampSum, Sum, Total},
        whole::WholeDef,
    },
    links::{Fusion, Links},
    native::{MOST_STEPS, Native, goes_on, scans},
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
    pub(crate) prim: NodeOp,
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

impl Step {
    /// Is it a chain from bar to bar that can be cut into pieces?
    pub(crate) fn is_chain(&self) -> bool {
        matches!(
            self.op,
            NodeOp::Ema { .. }
                | NodeOp::Wilder { .. }
                | NodeOp::RollingSum(..)
                | NodeOp::RollingSumFrom { .. }
                | NodeOp::CumSum(_)
                | NodeOp::LinearWeightedSum(..)
        )
    }
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
    /// Compiled for one series, and for several side by side; `None` inside where there is nothing to gain.
    native: [OnceLock<Option<Arc<Native>>>; 3],
    /// Outputs that each step has computed when it is done; those that are there before any step.
    pub(crate) delivers: Vec<Vec<usize>>,
    pub(crate) given: Vec<usize>,
    /// The same for several series side by side: results are taken apart as soon as they are there, so that their buffers
    /// can be used again.
    several: Option<Box<Plan>>,
}

/// Who keeps a result until it is delivered?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Its buffer is its own: it stands for the column.
    ToTheEnd,
    /// It is taken out of its buffer after the loop that computes it.
    UntilTaken,
}

impl Plan {
    /// A plan for these values of a graph.
    pub fn new(graph: &Graph, wanted: &[ValueId]) -> Plan {
        let mut plan = Plan::keeping(graph, wanted, Keep::ToTheEnd);
        plan.several = Some(Box::new(Plan::keeping(graph, wanted, Keep::UntilTaken)));
        plan
    }

    /// The plan that a tile of so many series runs.
    pub(crate) fn of(&self, lanes: usize) -> &Plan {
        self.several.as_deref().filter(|_| lanes > 1).unwrap_or(self)
    }

    fn keeping(graph: &Graph, wanted: &[ValueId], keep: Keep) -> Plan {
        let links = Links::new(graph, wanted);
        let history = history(graph, &links);
        let order = match keep {
            Keep::ToTheEnd => chains_together(graph, &links),
            Keep::UntilTaken => (0..graph.nodes.len()).filter(|at| links.needed(*at)).collect(),
        };
        let last = last_use(graph, wanted, &links, (keep, &order));
        let mut places: Vec<Vec<Place>> = vec![Vec::new(); graph.nodes.len()];
        let mut free: Vec<usize> = Vec::new();
        // Results whose last reader has run, and the step from which on they are sure to be taken.
        let mut waiting: VecDeque<(usize, usize)> = VecDeque::new();
        let is_wanted: HashSet<usize> = wanted.iter().map(|v| links.root(*v).0.node as usize).collect();
        let mut made_by: HashMap<usize, usize> = HashMap::new();
        let mut plan = Plan {
            steps: Vec::new(),
            fields: Vec::new(),
            constants: Vec::new(),
            wholes: Vec::new(),
            outputs: Vec::new(),
            starts: wanted.iter().map(|v| graph.start(*v)).collect(),
            buffers: 0,
            nodes: graph.nodes.len(),
            native: Default::default(),
            delivers: Vec::new(),
            given: Vec::new(),
            several: None,
        };
        let place_of = |places: &[Vec<Place>], v: ValueId| {
            let (v, lag) = links.root(v);
            let found = places.get(v.node as usize).and_then(|p| p.get(v.port as usize)).copied();
            Place { lag, ..found.unwrap_or(Place { buffer: 0, history: 0, lag: 0 }) }
        };
        for (at, node) in order.iter().filter_map(|at| graph.nodes.get(*at).map(|node| (*at, node))) {
            let kept = history.get(at).copied().unwrap_or(0);
            let fixed = node.op.is_given();
            while let Some((_, buffer)) = waiting.pop_front_if(|(from, _)| *from <= plan.steps.len()) {
                free.push(buffer);
            }
            let mut own = Vec::new();
            for _ in 0..node.op.ports() {
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
            match (&node.op, own.first()) {
                (NodeOp::Input(field), Some(place)) => plan.fields.push((*field, *place)),
                (NodeOp::Const(x), Some(place)) => plan.constants.push((x.get(), *place)),
                (NodeOp::WholeSeries { def, params }, Some(place)) => {
                    plan.wholes.push((def, params.iter().map(|p| p.get()).collect(), *place));
                }
                _ => {
                    let reads = links.inputs(at);
                    let inputs = reads.iter().map(|(v, _)| place_of(&places, *v)).collect();
                    let begin = reads.iter().map(|(v, _)| graph.start(*v)).max().unwrap_or(0);
                    let (prim, start) = (node.op.clone(), node.start);
                    let fusion = links.fusion(at);
                    let constant = constant(graph, &prim, &links).filter(|_| fusion.is_none());
                    made_by.insert(at, plan.steps.len());
                    plan.steps.push(Step { prim, start, inputs, begin, outputs: own, constant, fusion });
                }
            }
            for (node, buffer) in released(graph, &history, &last, at, &places, &links) {
                if is_wanted.contains(&node) {
                    waiting.push_back((plan.steps.len() + MOST_STEPS, buffer));
                } else {
                    free.push(buffer);
                }
            }
        }
        plan.outputs = wanted.iter().map(|v| place_of(&places, *v)).collect();
        plan.delivers = vec![Vec::new(); plan.steps.len()];
        for (output, v) in wanted.iter().enumerate() {
            let step = made_by.get(&(links.root(*v).0.node as usize)).copied();
            let list = step.and_then(|s| plan.delivers.get_mut(s)).unwrap_or(&mut plan.given);
            list.push(output);
        }
        plan
    }

    /// Its compiled loops, for one series or for several side by side.
    pub(crate) fn native(&self, lanes: usize, loose: bool) -> Option<Arc<Native>> {
        let [one, several, in_pieces] = &self.native;
        let cell = match (lanes, loose) {
            (1, false) => one,
            (1, true) => in_pieces,
            _ => several,
        };
        cell.get_or_init(|| Native::new(self, lanes, loose).map(Arc::new)).clone()
    }

    /// Has it a chain from bar to bar that can be cut into pieces, or be a scan?
    pub(crate) fn has_chains(&self) -> bool {
        self.steps.iter().any(|step| step.is_chain() || scans(&step.op))
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

    /// Does this buffer hold the same number at every bar?
    pub(crate) fn is_constant(&self, buffer: usize) -> bool {
        self.constants.iter().any(|(_, p)| p.buffer == buffer)
    }

    /// Does this buffer hold a constant, or a column of a whole series?
    pub(crate) fn is_given_otherwise(&self, buffer: usize) -> bool {
        self.is_constant(buffer) || self.wholes.iter().any(|(.., p)| p.buffer == buffer)
    }

    /// Can it be computed for a series that comes in parts? Not where a column rests on the whole of it.
    pub fn in_parts(&self) -> bool {
        self.wholes.is_empty()
    }

    /// Are several series faster side by side than one by one?
    pub fn side_by_side(&self) -> bool {
        let costs: Vec<Cost> = self.steps.iter().map(|s| cost(&s.op)).collect();
        let longest = costs.iter().map(|c| c.chain).fold(0.0, f64::max);
        let simple = costs.iter().filter(|c| c.chain == 0.0 && c.alone < ONE_BY_ONE).count() as f64;
        let (read, written) = (self.fields.len() as f64, self.outputs.len() as f64);
        let one_by_one = if longest > 1.0 { ONE_BY_ONE * simple } else { 0.0 };
        let alone =
            longest + one_by_one + costs.iter().map(|c| c.alone).sum::<f64>() + IN_PLACE * (read + written);
        let moved = TOGETHER * read + APART * written;
        let abreast = moved + costs.iter().map(|c| c.abreast).sum::<f64>();
        abreast < alone
    }

    /// First valid bar of each output.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }
}

/// Nanoseconds a bar for putting a column of bars side by side with others, and for taking a result apart.
const TOGETHER: f64 = 0.5;
const APART: f64 = 0.5;
/// For reading or writing a column where it is.
const IN_PLACE: f64 = 0.12;
/// For a simple step of one series among others that wait for the bar before: one bar at a time instead of four.
const ONE_BY_ONE: f64 = 0.2;

/// What a bar takes that has to wait for the one before, in nanoseconds: by itself a chain from bar to bar, of which several
/// run at the same time; side by side, work like any other.
struct Cost {
    /// The chain's length.
    chain: f64,
    /// Work besides, of one series by itself and of each side by side.
    alone: f64,
    abreast: f64,
}

/// Measured with `cargo xtask bench indicators`; only the order of the two sums counts.
fn cost(prim: &NodeOp) -> Cost {
    let (chain, alone, abreast) = match prim {
        NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => (0.0, 0.0, 0.0),
        NodeOp::Unary(..) | NodeOp::Binary(..) | NodeOp::Select(..) | NodeOp::Shift(..) | NodeOp::FillWarmup(..) => {
            (0.0, 0.12, 0.12)
        }
        NodeOp::RollingOrderStatistic { .. } => (0.0, 25.0, 12.0),
        NodeOp::RollingMinMax { .. } => (0.0, 0.55, 0.5),
        NodeOp::RollingRank { .. } | NodeOp::RollingMeanDeviation(..) | NodeOp::Fir(..) => (0.0, 3.0, 3.0),
        NodeOp::StateMachine { .. } => (0.0, 5.0, 2.0),
        NodeOp::Ema { .. } | NodeOp::Wilder { .. } | NodeOp::LinearRecurrence { .. } | NodeOp::AdaptiveEma { .. } => (2.8, 0.4, 0.3),
        NodeOp::RollingSum(..) | NodeOp::RollingSumFrom { .. } | NodeOp::PartialRollingSum(..) => (1.8, 0.4, 0.3),
        NodeOp::CumSum(_) => (1.8, 0.3, 0.3),
        _ => (0.0, 2.5, 0.8),
    };
    Cost { chain, alone, abreast }
}

/// The input of a function of two values that is a number.
fn constant(graph: &Graph, prim: &NodeOp, links: &Links) -> Option<(usize, f64)> {
    let NodeOp::Binary(_, a, b) = prim else { return None };
    let number = |v: ValueId| match graph.nodes.get(links.root(v).0.node as usize).map(|n| &n.op) {
        Some(NodeOp::Const(x)) => Some(x.get()),
        _ => None,
    };
    number(*b).map(|x| (1, x)).or_else(|| number(*a).map(|x| (0, x)))
}

/// What a node is to the order of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A bar by itself, on which something else rests.
    Before,
    /// Goes from bar to bar.
    Chain,
    /// Windows and other kernels; what is given.
    Other,
    /// A bar by itself.
    After,
}

/// Nodes that are needed, in the order in which one series has them: what goes from bar to bar together, as soon as it can;
/// before it only what it rests on, and all the rest after it. So what takes several bars at once is long loops of its own.
fn chains_together(graph: &Graph, links: &Links) -> Vec<usize> {
    let needed = || (0..graph.nodes.len()).filter(|at| links.needed(*at));
    let mut kinds: Vec<Kind> = graph.nodes.iter().map(|node| kind(&node.op)).collect();
    for at in needed().rev() {
        let carried = kinds.get(at) != Some(&Kind::After);
        for (v, _) in links.reads(at).filter(|_| carried) {
            let read = kinds.iter_mut().skip(v.node as usize).take(1);
            read.filter(|kind| **kind == Kind::After).for_each(|kind| *kind = Kind::Before);
        }
    }
    let mut left: Vec<usize> = needed().collect();
    let (mut order, mut done) = (Vec::with_capacity(left.len()), vec![false; graph.nodes.len()]);
    while !left.is_empty() {
        let before = left.len();
        for now in [Kind::Before, Kind::Chain, Kind::Other] {
            left.retain(|at| {
                let ready = || links.reads(*at).all(|(v, _)| done.get(v.node as usize) == Some(&true));
                let next = kinds.get(*at) == Some(&now) && ready();
                if next {
                    order.push(*at);
                    done.iter_mut().skip(*at).take(1).for_each(|d| *d = true);
                }
                !next
            });
        }
        if left.len() == before {
            order.append(&mut left);
        }
    }
    order
}

fn kind(prim: &NodeOp) -> Kind {
    match prim {
        NodeOp::Unary(..) | NodeOp::Binary(..) | NodeOp::Select(..) | NodeOp::Shift(..) | NodeOp::FillWarmup(..) => Kind::After,
        prim if goes_on(prim) => Kind::Chain,
        _ => Kind::Other,
    }
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
fn last_use(graph: &Graph, wanted: &[ValueId], links: &Links, (keep, order): (Keep, &[usize])) -> Vec<usize> {
    let mut last: Vec<usize> = (0..graph.nodes.len()).collect();
    for at in order {
        for (v, _) in links.reads(*at) {
            if let Some(entry) = last.get_mut(v.node as usize) {
                *entry = *at;
            }
        }
    }
    for v in wanted.iter().filter(|_| keep == Keep::ToTheEnd) {
        if let Some(entry) = last.get_mut(links.root(*v).0.node as usize) {
            *entry = usize::MAX;
        }
    }
    last
}

/// Nodes whose last reader has just run, and their buffers.
fn released(
    graph: &Graph,
    history: &[usize],
    last: &[usize],
    at: usize,
    places: &[Vec<Place>],
    links: &Links,
) -> Vec<(usize, usize)> {
    let mut done: Vec<usize> = links.reads(at).map(|(v, _)| v.node as usize).chain([at]).collect();
    done.sort_unstable();
    done.dedup();
    done.retain(|i| {
        let plain = graph.nodes.get(*i).is_some_and(|n| !n.op.is_given());
        plain && last.get(*i) == Some(&at) && history.get(*i) == Some(&0)
    });
    let buffers = |i: usize| places.get(i).into_iter().flatten().map(move |p| (i, p.buffer));
    done.into_iter().flat_map(buffers).collect()
}

/// Makes a step's kernel for `L` series; machines come in one and in eight.
macro_rules! kernels {
    ($name:ident, $lanes:literal, $machine:ident) => {
        pub(crate) fn $name(step: &Step) -> Box<dyn Kernel<$lanes>> {
            const L: usize = $lanes;
            match &step.op {
                NodeOp::Unary(f, _) => Box::new(Map1(*f)),
                NodeOp::Binary(f, ..) => match (step.fusion, step.constant) {
                    (Some(fusion), _) => Box::new(Map3(fusion)),
                    (None, Some((at, k))) => Box::new(MapNumber { f: *f, k, first: at == 0 }),
                    (None, None) => Box::new(Map2(*f)),
                },
                NodeOp::Select(..) | NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => Box::new(Choose),
                NodeOp::Shift(_, n) => Box::new(Lag(*n)),
                // The later of the two beginnings is the first input's.
                NodeOp::FillWarmup(..) => Box::new(Preceded { begin: step.begin }),
                NodeOp::RollingSum(_, n) => Box::new(Sum::<L> { n: *n, rest: [0.0; L] }),
                NodeOp::PartialRollingSum(_, n) => Box::new(GrowingSum::<L> { n: *n, rest: [0.0; L] }),
                NodeOp::RollingSumFrom { n, .. } => Box::new(Total::<L> { n: *n, sum: [0.0; L] }),
                NodeOp::LinearWeightedSum(_, n) => {
                    Box::new(RampSum::<L> { n: *n, plain: [0.0; L], ramp: [0.0; L], leaving: [0.0; L] })
                }
                NodeOp::Fir(_, weights) => {
                    Box::new(Fir { weights: weights.iter().map(|w| F64Bits::get(*w)).collect() })
                }
                NodeOp::RollingMinMax { n, max, .. } => Box::new(Extreme::<L>::new(*n, *max)),
                NodeOp::RollingArgMinMax { n, max, .. } => Box::new(Ago::<L>::new(*n, *max)),
                NodeOp::RollingVariance(_, n) => Box::new(Variance::<L> { n: *n, state: Default::default() }),
                NodeOp::RollingMeanDeviation(_, n) => Box::new(MeanDeviation::<L>::new(*n)),
                NodeOp::RollingCentralMoment(_, n, power) => Box::new(CentralMoment::<L>::new(*n, *power)),
                NodeOp::RollingCoMoment(a, b, n) => Box::new(CoMoment::<L>::new(*n, a == b)),
                NodeOp::RollingTimeMoment(_, n) => Box::new(TimeMoment::<L>::new(*n)),
                NodeOp::RollingOrderStatistic { n, places, .. } => Box::new(Order::<L>::new(*n, places)),
                NodeOp::RollingRank { n, or_equal, .. } => Box::new(Rank { n: *n, or_equal: *or_equal }),
                NodeOp::Ema { k, seed, .. } => Box::new(Ema::<L> { k: k.get(), seed: *seed, y: [0.0; L] }),
                NodeOp::Wilder { n, seed, .. } => {
                    Box::new(Wilder::<L> { n: *n as f64, seed: *seed, y: [0.0; L] })
                }
                NodeOp::LinearRecurrence { .. } => Box::new(Affine::<L> { y: [0.0; L] }),
                NodeOp::AdaptiveEma { .. } => Box::new(Follow::<L> { y: [0.0; L] }),
                NodeOp::CumSum(_) => Box::new(CumSum::<L> { y: [0.0; L] }),
                NodeOp::CumMinMax { max, .. } => Box::new(CumExtreme::<L> { max: *max, y: [0.0; L] }),
                NodeOp::StateMachine { def, params, .. } => {
                    let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
                    (def.$machine)(&params, step.begin)
                }
            }
        }
    };
}

kernels!(kernel_1, 1, one);

/// As [`kernel_1`], with chains from bar to bar in pieces.
pub(crate) fn kernel_loose(step: &Step) -> Box<dyn Kernel<1>> {
    match &step.op {
        NodeOp::Ema { k, seed, .. } => Box::new(Pieces(Ema::<1> { k: k.get(), seed: *seed, y: [0.0] })),
        NodeOp::Wilder { n, seed, .. } => Box::new(Pieces(Wilder::<1> { n: *n as f64, seed: *seed, y: [0.0] })),
        NodeOp::RollingSum(_, n) => Box::new(Pieces(Sum::<1> { n: *n, rest: [0.0] })),
        NodeOp::RollingSumFrom { n, .. } => Box::new(Pieces(Total::<1> { n: *n, sum: [0.0] })),
        NodeOp::CumSum(_) => Box::new(Pieces(CumSum::<1> { y: [0.0] })),
        NodeOp::LinearWeightedSum(_, n) => {
            Box::new(Ramps(RampSum::<1> { n: *n, plain: [0.0], ramp: [0.0], leaving: [0.0] }))
        }
        _ => kernel_1(step),
    }
}
kernels!(kernel_8, 8, many);
