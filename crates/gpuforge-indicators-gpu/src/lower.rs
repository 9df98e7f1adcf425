//! What runs on the device, in which order? The graph of indicators cut into stages: in each, one call per kind of kernel
//! for all of its nodes, and the pointwise ones fused into few generated kernels.
//!
//! A value is *held* (has a column) where a kernel with a loop reads or writes it, or where it is wanted; every other
//! pointwise value is computed inside the kernels that read it. A stage depends on earlier ones only. Columns are used
//! again after their last reader; results come first in the arena, so that they are fetched in one piece.

use std::collections::HashMap;

use gpuforge_indicators::graph::{Field, Graph, NodeOp, Seed, ValueId};

use crate::{
    encoding::{self, Form, PLAIN},
    pointwise::{self, Item, Pointwise},
    rolling::{self, Shader},
    state_machines,
};

/// A pointwise value of at most so many operations is computed again rather than held, if it is needed later or bars ago.
const CHEAP: usize = 6;
/// Results of one generated kernel at most: registers, and the time that drivers take to compile.
const MOST_STORES: usize = 48;

/// A column of the arena.
pub type Column = usize;

/// What is uploaded into a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// A column of the bars.
    Field(Field),
    /// A value that the processor computes: what rests on time alone, or on a whole series.
    Host(ValueId),
}

/// A node as a job of a kernel that serves many.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// Which function of the kernel.
    pub mode: u32,
    /// First bar with a value, and first bar at which all inputs have one.
    pub start: usize,
    /// First bar at which all inputs have a value.
    pub begin: usize,
    /// Window.
    pub n: u32,
    /// Parameters.
    pub numbers: Vec<f32>,
    /// Columns that it reads, and how many bars ago.
    pub inputs: Vec<(Column, usize)>,
    /// Columns that it writes.
    pub outputs: Vec<Column>,
    /// A column for its own use.
    pub scratch: Option<Column>,
    /// Words of state per series.
    pub state: u32,
    /// Loop iterations of a step or bar, and to begin with.
    pub per_step: u32,
    /// Loop iterations to begin a slice.
    pub to_begin: u32,
    /// Steps of a slice that its author wishes.
    pub slice: u32,
}

/// A kernel that computes windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// Of primitives.
    Plain(Shader),
    /// Of state machines that remember nothing but a window.
    Machines,
}

/// One call, or some that belong together.
#[derive(Debug, Clone)]
pub enum Call {
    /// A generated kernel.
    Pointwise(Pointwise),
    /// Windows: an invocation per run and slice.
    Windows(Loop, Vec<JobSpec>),
    /// Recurrences in three passes.
    Scan(Vec<JobSpec>),
    /// State machines: an invocation per series, in chunks of time.
    Machines(Vec<JobSpec>),
}

impl Call {
    /// Columns that it reads.
    fn reads(&self) -> Vec<Column> {
        match self {
            Call::Pointwise(p) => p.loads.clone(),
            Call::Windows(_, jobs) | Call::Scan(jobs) | Call::Machines(jobs) => {
                jobs.iter().flat_map(|j| j.inputs.iter().map(|(c, _)| *c)).collect()
            }
        }
    }

    /// Columns that it writes.
    fn writes(&self) -> Vec<Column> {
        match self {
            Call::Pointwise(p) => p.stores.clone(),
            Call::Windows(_, jobs) | Call::Scan(jobs) | Call::Machines(jobs) => {
                jobs.iter().flat_map(|j| j.outputs.iter().copied().chain(j.scratch)).collect()
            }
        }
    }

    fn rename(&mut self, to: impl Fn(Column) -> Column) {
        match self {
            Call::Pointwise(p) => p.loads.iter_mut().chain(&mut p.stores).for_each(|c| *c = to(*c)),
            Call::Windows(_, jobs) | Call::Scan(jobs) | Call::Machines(jobs) => {
                for job in jobs {
                    job.inputs.iter_mut().for_each(|(c, _)| *c = to(*c));
                    job.outputs.iter_mut().chain(&mut job.scratch).for_each(|c| *c = to(*c));
                }
            }
        }
    }
}

/// A graph, ready for batches of series.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// Uploaded columns, in order; they follow the results in the arena.
    pub given: Vec<Given>,
    /// Calls by stage.
    pub stages: Vec<Vec<Call>>,
    /// Where each wanted value is found among the results; `None`: it is left to the processor.
    pub outputs: Vec<Option<Column>>,
    /// How many results there are.
    pub results: usize,
    /// The form in which each of them is held, and which output of its node it is.
    pub forms: Vec<(Form, u8)>,
    /// Columns of the arena.
    pub columns: usize,
    /// Values that are held or computed inside others.
    pub nodes: usize,
    /// Columns that would be held if every value had one: what an unfused plan writes.
    pub unfused: usize,
}

/// Which pointwise values have a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Only those that others need as one.
    #[default]
    Whole,
    /// Each of them, and each has a kernel call of its own: what fusing saves is measured against it.
    None,
}

impl Lowered {
    /// Columns that calls read and write, a column as often as a call reads it: what a plan moves.
    pub fn traffic(&self) -> usize {
        let moved = |call: &Call| match call {
            Call::Pointwise(p) => p.loads.len() + p.stores.len(),
            Call::Windows(_, jobs) | Call::Scan(jobs) | Call::Machines(jobs) => {
                jobs.iter().map(|j| j.inputs.len() + j.outputs.len()).sum()
            }
        };
        self.stages.iter().flatten().map(moved).sum()
    }
}

/// Where a node is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Nowhere on the device.
    Unfit,
    /// On the processor, and uploaded.
    Host,
    /// Uploaded, or the same at every bar.
    Given,
    /// Inside generated kernels.
    Pointwise,
    /// By a kernel with a loop.
    Kernel,
}

/// What is known of the graph while it is lowered.
pub(crate) struct Lowering<'g> {
    pub(crate) graph: &'g Graph,
    roots: Vec<Option<(ValueId, usize)>>,
    class: Vec<Class>,
    needed: Vec<bool>,
    held: Vec<bool>,
    /// Operations to compute it from held values.
    cost: Vec<usize>,
    /// The stage after which it is there.
    stage: Vec<usize>,
    columns: HashMap<ValueId, Column>,
    /// Columns of values with their level, for kernels that need it.
    fulls: HashMap<ValueId, Column>,
    forms: Vec<Form>,
    count: Column,
    fusion: Fusion,
}

/// Which primitives have a kernel, by what they read.
fn fit(prim: &NodeOp) -> Class {
    match prim {
        NodeOp::Input(Field::Time) | NodeOp::WholeSeries { .. } => Class::Host,
        NodeOp::Input(_) => Class::Given,
        NodeOp::Const(_)
        | NodeOp::Unary(..)
        | NodeOp::Binary(..)
        | NodeOp::Select(..)
        | NodeOp::Shift(..)
        | NodeOp::FillWarmup(..) => Class::Pointwise,
        NodeOp::Ema { .. }
        | NodeOp::Wilder { .. }
        | NodeOp::LinearRecurrence { .. }
        | NodeOp::AdaptiveEma { .. }
        | NodeOp::CumSum(_)
        | NodeOp::CumMinMax { .. } => Class::Kernel,
        NodeOp::StateMachine { def, params, .. } => {
            let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
            let window = rolling::of(prim).is_some() || state_machines::window_of(def.name).is_some();
            if window || state_machines::of(def.name, &params).is_some() {
                Class::Kernel
            } else {
                Class::Unfit
            }
        }
        _ if rolling::of(prim).is_some() => Class::Kernel,
        _ => Class::Unfit,
    }
}

impl<'g> Lowering<'g> {
    fn new(graph: &'g Graph, wanted: &[ValueId]) -> Self {
        let n = graph.nodes().len();
        let roots = roots(graph, wanted);
        let mut class = Vec::with_capacity(n);
        for node in graph.nodes() {
            let inputs: Vec<Class> = node
                .op
                .operands()
                .iter()
                .filter(|(v, _)| !constant(graph, *v))
                .map(|(v, _)| class.get(v.node as usize).copied().unwrap_or(Class::Unfit))
                .collect();
            let host = !inputs.is_empty() && inputs.iter().all(|c| *c == Class::Host);
            class.push(match fit(&node.op) {
                _ if inputs.contains(&Class::Unfit) => Class::Unfit,
                _ if host => Class::Host,
                own => own,
            });
        }
        let mut forms: Vec<Form> = Vec::with_capacity(n);
        for node in graph.nodes() {
            let form = |v: ValueId| forms.get(v.node as usize).copied().unwrap_or(PLAIN);
            let number = |v: ValueId| match graph.nodes().get(v.node as usize).map(|n| &n.op) {
                Some(NodeOp::Const(x)) => Some(x.get()),
                _ => None,
            };
            let own = encoding::of(&node.op, form, number);
            forms.push(own);
        }
        Lowering {
            graph,
            roots,
            class,
            fulls: HashMap::new(),
            forms,
            needed: vec![false; n],
            held: vec![false; n],
            cost: vec![0; n],
            stage: vec![0; n],
            columns: HashMap::new(),
            count: 0,
            fusion: Fusion::Whole,
        }
    }

    /// What a value is, and how many bars ago.
    pub(crate) fn root(&self, v: ValueId) -> (ValueId, usize) {
        self.roots.get(v.node as usize).copied().flatten().unwrap_or((v, 0))
    }

    pub(crate) fn prim(&self, v: ValueId) -> Option<&'g NodeOp> {
        self.graph.nodes().get(v.node as usize).map(|n| &n.op)
    }

    fn class(&self, v: ValueId) -> Class {
        self.class.get(v.node as usize).copied().unwrap_or(Class::Unfit)
    }

    fn is_held(&self, v: ValueId) -> bool {
        self.held.get(v.node as usize) == Some(&true)
    }

    fn stage(&self, v: ValueId) -> usize {
        self.stage.get(v.node as usize).copied().unwrap_or(0)
    }

    /// The column of a held value that is there before a stage.
    pub(crate) fn before(&self, v: ValueId, stage: usize) -> Option<Column> {
        let there = self.is_held(v) && (self.class(v) != Class::Pointwise || self.stage(v) < stage);
        there.then(|| self.columns.get(&v).copied()).flatten()
    }

    /// The form of a value, and whether what computes it needs its inputs in full.
    pub(crate) fn form(&self, v: ValueId) -> Form {
        self.forms.get(v.node as usize).copied().unwrap_or(PLAIN)
    }

    /// Does a node need this input in another form than it is held in?
    fn needs_full(&self, at: usize, v: ValueId) -> bool {
        self.forms.get(at).is_some_and(|f| f.full) && !self.form(v).is_plain()
    }

    /// The stage after which a value is there with its level.
    fn full_stage(&self, v: ValueId) -> usize {
        self.stage(v) + usize::from(self.class(v) != Class::Pointwise)
    }

    fn column(&mut self) -> Column {
        self.count += 1;
        self.count - 1
    }

    /// Marks what wanted values rest on, down to what is uploaded.
    fn reach(&mut self, wanted: &[ValueId]) {
        for v in wanted {
            let (of, _) = self.root(*v);
            self.mark(of);
        }
        for at in (0..self.needed.len()).rev() {
            if self.needed.get(at) != Some(&true) || matches!(self.class.get(at), Some(Class::Host)) {
                continue;
            }
            let reads: Vec<ValueId> = self
                .graph
                .nodes()
                .get(at)
                .map(|n| n.op.operands())
                .into_iter()
                .flatten()
                .map(|(v, _)| v)
                .collect();
            let kernel = self.class.get(at) == Some(&Class::Kernel);
            for v in reads {
                let (of, _) = self.root(v);
                self.mark(of);
                let full = self.needs_full(at, of);
                if kernel && full {
                    self.fulls.entry(of).or_insert(Column::MAX);
                } else if kernel {
                    self.hold(of);
                }
            }
        }
    }

    fn mark(&mut self, v: ValueId) {
        self.needed.iter_mut().skip(v.node as usize).take(1).for_each(|n| *n = true);
    }

    fn hold(&mut self, v: ValueId) {
        self.held.iter_mut().skip(v.node as usize).take(1).for_each(|n| *n = true);
    }

    /// Decides the stage of each node, and which pointwise ones are held because of it.
    fn order(&mut self) {
        for at in 0..self.needed.len() {
            if self.needed.get(at) != Some(&true) {
                continue;
            }
            let class = self.class.get(at).copied().unwrap_or(Class::Unfit);
            let Some(prim) = self.graph.nodes().get(at).map(|n| &n.op) else { continue };
            if matches!(class, Class::Host | Class::Given) {
                self.held.iter_mut().skip(at).take(1).for_each(|h| *h = true);
                continue;
            }
            let inputs: Vec<(ValueId, usize)> = prim.operands().iter().map(|(v, _)| self.root(*v)).collect();
            let mut stage = 1;
            for (v, lag) in &inputs {
                let there = self.stage(*v);
                let alone = self.fusion == Fusion::None && !constant(self.graph, *v);
                let inside = class == Class::Pointwise && self.class(*v) == Class::Pointwise && !alone;
                let full = self.needs_full(at, *v);
                if class == Class::Kernel && full {
                    stage = stage.max(self.full_stage(*v) + 1);
                } else if inside && *lag > 0 && self.cost_of(*v) > CHEAP {
                    self.hold(*v);
                    stage = stage.max(there + 1);
                } else if inside {
                    stage = stage.max(there);
                } else {
                    stage = stage.max(there + 1);
                }
            }
            let mut cost = 1;
            for (v, _) in &inputs {
                if self.class(*v) != Class::Pointwise {
                    continue;
                }
                if self.stage(*v) < stage && self.cost_of(*v) > CHEAP {
                    self.hold(*v);
                }
                let held = self.is_held(*v) && self.stage(*v) < stage;
                cost += if held { 0 } else { self.cost_of(*v) };
            }
            if matches!(prim, NodeOp::Const(_)) {
                cost = 0;
            }
            self.stage.iter_mut().skip(at).take(1).for_each(|s| *s = stage);
            self.cost.iter_mut().skip(at).take(1).for_each(|c| *c = cost);
            let alone = self.fusion == Fusion::None && !matches!(prim, NodeOp::Const(_));
            if class == Class::Kernel || alone {
                self.held.iter_mut().skip(at).take(1).for_each(|h| *h = true);
            }
        }
    }

    fn cost_of(&self, v: ValueId) -> usize {
        self.cost.get(v.node as usize).copied().unwrap_or(0)
    }

    /// Gives every held value its column.
    fn place(&mut self) {
        let mut fulls: Vec<ValueId> = self.fulls.keys().copied().collect();
        fulls.sort_unstable();
        for v in fulls {
            let column = self.column();
            self.fulls.insert(v, column);
        }
        for (at, node) in self.graph.nodes().iter().enumerate() {
            if self.needed.get(at) == Some(&true) && self.held.get(at) == Some(&true) {
                for port in 0..node.op.ports() {
                    let v = ValueId {
                        node: u32::try_from(at).unwrap_or(u32::MAX),
                        port: u8::try_from(port).unwrap_or(u8::MAX),
                    };
                    let column = self.column();
                    self.columns.insert(v, column);
                }
            }
        }
    }

    /// The job of a node, and the kernel that runs it.
    fn job(&mut self, at: usize) -> Option<(Kind, JobSpec)> {
        let node = self.graph.nodes().get(at)?;
        let reads: Vec<ValueId> = node.op.operands().iter().map(|(v, _)| *v).collect();
        let begin = reads.iter().map(|v| self.graph.start(*v)).max().unwrap_or(0);
        let mut inputs = reads
            .iter()
            .map(|v| {
                let (of, lag) = self.root(*v);
                let columns = if self.needs_full(at, of) { &self.fulls } else { &self.columns };
                columns.get(&of).map(|c| (*c, lag))
            })
            .collect::<Option<Vec<_>>>()?;
        let own = |port: usize| ValueId {
            node: u32::try_from(at).unwrap_or(u32::MAX),
            port: u8::try_from(port).unwrap_or(u8::MAX),
        };
        let outputs = (0..node.op.ports())
            .map(|port| self.columns.get(&own(port)).copied())
            .collect::<Option<Vec<_>>>()?;
        if let NodeOp::StateMachine { def, params, .. } = &node.op
            && let Some(m) = state_machines::of(def.name, &params.iter().map(|p| p.get()).collect::<Vec<_>>())
        {
            inputs = m.reads.iter().map(|i| inputs.get(*i).copied()).collect::<Option<_>>()?;
        }
        let mut job = JobSpec {
            mode: 0,
            start: node.start,
            begin,
            n: 1,
            numbers: Vec::new(),
            inputs,
            outputs,
            scratch: None,
            state: 0,
            per_step: 1,
            to_begin: 0,
            slice: u32::MAX,
        };
        if let Some((mode, n, numbers)) = scan(&node.op) {
            (job.mode, job.n, job.numbers) = (mode, n, numbers);
            job.scratch = Some(self.column());
            return Some((Kind::Scan, job));
        }
        if let Some(w) = rolling::of(&node.op) {
            (job.mode, job.n, job.numbers) = (w.mode, w.n, w.numbers);
            (job.per_step, job.to_begin, job.slice) = (w.per_step, w.to_begin, w.slice);
            return Some((Kind::Window(Loop::Plain(w.shader)), job));
        }
        let NodeOp::StateMachine { def, params, .. } = &node.op else { return None };
        let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
        if let Some(w) = state_machines::window_of(def.name) {
            (job.mode, job.n, job.numbers) = (w.mode, w.n, (w.numbers)(&params));
            (job.per_step, job.to_begin, job.slice) = (w.per_step, w.to_begin, w.slice);
            return Some((Kind::Window(Loop::Machines), job));
        }
        let m = state_machines::of(def.name, &params)?;
        (job.mode, job.state, job.per_step, job.numbers) = (m.mode, m.state, m.per_bar, (m.numbers)(&params));
        job.scratch = Some(self.column());
        Some((Kind::Machine, job))
    }

    /// All calls of a stage.
    fn calls(&mut self, stage: usize, extra: &[Item]) -> Option<Vec<Call>> {
        let mut found: Vec<(Kind, Vec<JobSpec>)> = Vec::new();
        let mut items: Vec<Item> = Vec::new();
        for at in 0..self.needed.len() {
            let there = self.needed.get(at) == Some(&true) && self.stage.get(at) == Some(&stage);
            if !there || self.held.get(at) != Some(&true) {
                continue;
            }
            let v = ValueId { node: u32::try_from(at).unwrap_or(u32::MAX), port: 0 };
            match self.class(v) {
                Class::Kernel => {
                    let (kind, job) = self.job(at)?;
                    match found.iter_mut().find(|(k, _)| *k == kind) {
                        Some((_, jobs)) => jobs.push(job),
                        None => found.push((kind, vec![job])),
                    }
                }
                Class::Pointwise => {
                    items.push(Item { value: v, lag: 0, full: false, into: *self.columns.get(&v)? });
                }
                _ => {}
            }
        }
        let full = |(v, into): (&ValueId, &Column)| Item { value: *v, lag: 0, full: true, into: *into };
        let here = self.fulls.iter().filter(|(v, _)| self.full_stage(**v) == stage);
        let mut fulls: Vec<Item> = here.map(full).collect();
        fulls.sort_unstable_by_key(|i| i.value);
        items.extend(fulls);
        items.extend(extra);
        let most = if self.fusion == Fusion::None { 1 } else { MOST_STORES };
        let mut calls: Vec<Call> = items
            .chunks(most)
            .map(|part| pointwise::generate(self, stage, part).map(Call::Pointwise))
            .collect::<Option<_>>()?;
        calls.extend(found.into_iter().map(|(kind, jobs)| match kind {
            Kind::Window(shader) => Call::Windows(shader, jobs),
            Kind::Scan => Call::Scan(jobs),
            Kind::Machine => Call::Machines(jobs),
        }));
        Some(calls)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Window(Loop),
    Scan,
    Machine,
}

/// Mode, window and parameters of a recurrence.
fn scan(prim: &NodeOp) -> Option<(u32, u32, Vec<f32>)> {
    let window = |seed: &Seed| match seed {
        Seed::First => 1,
        Seed::Mean(n) => u32::try_from(*n).unwrap_or(u32::MAX),
    };
    Some(match prim {
        NodeOp::Ema { k, seed, .. } => (0, window(seed), vec![k.get() as f32]),
        NodeOp::Wilder { n, seed, .. } => (1, window(seed), vec![(1.0 / *n as f64) as f32]),
        NodeOp::LinearRecurrence { .. } => (2, 1, vec![]),
        NodeOp::AdaptiveEma { .. } => (3, 1, vec![]),
        NodeOp::CumSum(_) => (4, 1, vec![]),
        NodeOp::CumMinMax { max, .. } => (if *max { 5 } else { 6 }, 1, vec![]),
        _ => return None,
    })
}

fn constant(graph: &Graph, v: ValueId) -> bool {
    matches!(graph.nodes().get(v.node as usize).map(|n| &n.op), Some(NodeOp::Const(_)))
}

/// Shifts, and choices between a value and itself, are seen through, except a shift that is wanted as it is.
fn roots(graph: &Graph, wanted: &[ValueId]) -> Vec<Option<(ValueId, usize)>> {
    let mut roots: Vec<Option<(ValueId, usize)>> = vec![None; graph.nodes().len()];
    for (at, node) in graph.nodes().iter().enumerate() {
        let alone = !wanted.iter().any(|v| v.node as usize == at);
        let find = |v: ValueId| roots.get(v.node as usize).copied().flatten().unwrap_or((v, 0));
        let really = match node.op {
            NodeOp::Shift(a, n) if alone => {
                let (of, before) = find(a);
                Some((of, before + n))
            }
            NodeOp::Select(_, a, b) if a == b => Some(find(a)).filter(|(_, lag)| *lag == 0 || alone),
            _ => None,
        };
        if let Some(entry) = roots.get_mut(at) {
            *entry = really;
        }
    }
    roots
}

/// Can each of these values be computed on the device?
pub fn fits(graph: &Graph, wanted: &[ValueId]) -> Vec<bool> {
    let lowering = Lowering::new(graph, wanted);
    let fit = |v: &ValueId| matches!(lowering.class(*v), Class::Given | Class::Pointwise | Class::Kernel);
    wanted.iter().map(fit).collect()
}

/// Lowers the values that are asked for (`on`: which of the wanted ones).
pub fn lower(graph: &Graph, wanted: &[ValueId], on: &[bool]) -> Option<Lowered> {
    lower_with(graph, wanted, on, Fusion::Whole)
}

/// The same, with or without fusing.
pub fn lower_with(graph: &Graph, wanted: &[ValueId], on: &[bool], fusion: Fusion) -> Option<Lowered> {
    let chosen: Vec<ValueId> = wanted.iter().zip(on).filter(|(_, on)| **on).map(|(v, _)| *v).collect();
    let mut lowering = Lowering::new(graph, &chosen);
    lowering.fusion = fusion;
    lowering.reach(&chosen);
    // A result that is a value of its own is held in the result's column; anything else is copied there.
    for v in &chosen {
        let (of, lag) = lowering.root(*v);
        if lag == 0 && matches!(lowering.class(of), Class::Pointwise | Class::Kernel) {
            lowering.hold(of);
        }
    }
    lowering.order();
    lowering.place();
    let mut results: Vec<Column> = Vec::new();
    let mut outputs = Vec::new();
    let mut forms: Vec<(Form, u8)> = Vec::new();
    let mut extra: HashMap<usize, Vec<Item>> = HashMap::new();
    for (v, on) in wanted.iter().zip(on) {
        if !on {
            outputs.push(None);
            continue;
        }
        let (of, lag) = lowering.root(*v);
        let own = lowering
            .columns
            .get(&of)
            .copied()
            .filter(|_| lag == 0 && matches!(lowering.class(of), Class::Pointwise | Class::Kernel));
        let column = own.unwrap_or_else(|| {
            let column = lowering.column();
            let stage = match lowering.class(of) {
                Class::Pointwise if !lowering.is_held(of) => lowering.stage(of),
                _ => lowering.stage(of) + 1,
            };
            extra.entry(stage).or_default().push(Item { value: of, lag, full: false, into: column });
            column
        });
        let at = results.iter().position(|c| *c == column).unwrap_or_else(|| {
            results.push(column);
            forms.push((lowering.form(of), of.port));
            results.len() - 1
        });
        outputs.push(Some(at));
    }
    let fulls = lowering.fulls.keys().map(|v| lowering.full_stage(*v));
    let last = lowering.stage.iter().copied().chain(extra.keys().copied()).chain(fulls).max().unwrap_or(0);
    let mut stages = Vec::new();
    for stage in 1..=last {
        let calls = lowering.calls(stage, extra.get(&stage).map_or(&[], Vec::as_slice))?;
        stages.push(calls);
    }
    let given = given(&lowering);
    let nodes = lowering.needed.iter().filter(|n| **n).count();
    let unfused = unfused(&lowering);
    let (columns, rename) = reuse(&stages, &results, &given);
    for call in stages.iter_mut().flatten() {
        call.rename(|c| rename.get(&c).copied().unwrap_or(c));
    }
    let given = given.into_iter().map(|(g, _)| g).collect();
    Some(Lowered { given, stages, outputs, results: results.len(), forms, columns, nodes, unfused })
}

/// Uploaded values and their columns.
fn given(lowering: &Lowering<'_>) -> Vec<(Given, Column)> {
    let mut all: Vec<(Given, Column)> = lowering
        .columns
        .iter()
        .filter_map(|(v, column)| match (lowering.class(*v), lowering.prim(*v)) {
            (Class::Given, Some(NodeOp::Input(field))) => Some((Given::Field(*field), *column)),
            (Class::Host, _) => Some((Given::Host(*v), *column)),
            _ => None,
        })
        .collect();
    all.sort_by_key(|(_, column)| *column);
    all
}

/// Nodes that compute something.
fn unfused(lowering: &Lowering<'_>) -> usize {
    let computes = |at: &usize| {
        let prim = lowering.graph.nodes().get(*at).map(|n| &n.op);
        lowering.needed.get(*at) == Some(&true)
            && lowering.roots.get(*at).is_some_and(Option::is_none)
            && !matches!(prim, Some(NodeOp::Const(_) | NodeOp::Input(_)) | None)
    };
    (0..lowering.needed.len()).filter(computes).count()
}

/// New numbers for columns: results first, then what is uploaded, then all others, used again after their last reader.
fn reuse(
    stages: &[Vec<Call>],
    results: &[Column],
    given: &[(Given, Column)],
) -> (usize, HashMap<Column, Column>) {
    let mut new: HashMap<Column, Column> = HashMap::new();
    for column in results.iter().chain(given.iter().map(|(_, c)| c)) {
        let at = new.len();
        new.entry(*column).or_insert(at);
    }
    let fixed = new.len();
    let mut last: HashMap<Column, usize> = HashMap::new();
    for (stage, calls) in stages.iter().enumerate() {
        for column in calls.iter().flat_map(|c| c.operands().into_iter().chain(c.writes())) {
            last.insert(column, stage);
        }
    }
    let (mut count, mut free) = (fixed, Vec::new());
    for (stage, calls) in stages.iter().enumerate() {
        for column in calls.iter().flat_map(Call::writes) {
            new.entry(column).or_insert_with(|| {
                free.pop().unwrap_or_else(|| {
                    count += 1;
                    count - 1
                })
            });
        }
        let mut done: Vec<Column> = last.iter().filter(|(_, s)| **s == stage).map(|(c, _)| *c).collect();
        done.sort_unstable();
        // What is uploaded is not needed for ever either, but it is little.
        free.extend(done.iter().filter_map(|c| new.get(c)).filter(|c| **c >= fixed));
    }
    (count, new)
}
