//! What does a group of steps compute, instruction by instruction? Values of one bar; everything else is memory.
//!
//! Streams are columns in memory, read and written bar by bar; a value from some bars ago is read from its stream. States
//! are values that the next bar needs. It holds for bars at which every step of the group has already begun: heads are for
//! the kernels.

mod masks;
mod scan;
mod verify;

use std::collections::{HashMap, HashSet};

use super::{
    asm::{self, Test},
    units::Chains,
};
use crate::{
    graph::{BinaryOp, NodeOp, UnaryOp},
    kernel::value::{Act, Compare, Node, Traced},
    plan::{Place, Step},
};

pub(super) use scan::{Of, Powers, Scan, is_scan};
pub(super) use verify::Fault;

/// What an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Src {
    /// The result of an instruction.
    ValueId(usize),
    /// A stream, some bars ago.
    Mem { stream: usize, lag: usize },
    /// A number.
    Const(usize),
    /// What the bar before left.
    State(usize),
}

/// What an instruction does with up to three sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// `a op b`, one instruction.
    Plain(u8),
    /// Bits of `a op b`.
    Bits(u8),
    /// 1 where it holds, else 0.
    Truth(Test),
    /// 1 where both (or one of them) are not 0.
    Both(u8),
    /// The lesser or greater; a NaN on either side is one.
    Outer(u8),
    /// Division that gives 0 where the divisor is 0.
    Div0,
    /// Where the first is not 0, the second, else the third.
    Select,
    /// All bits where it holds, else none.
    Mask(Test),
    /// Where the first has all bits, the second, else the third.
    Blend,
    Sqrt,
    Round(u8),
    Sign,
    /// A chain from bar to bar, over eight bars at once: which of the scans.
    Scan(usize),
    /// Names a column in memory. Nothing is emitted for it: each use reads the memory, so nobody may store there in between.
    Load,
    /// A register of its own for what a state or a column holds now.
    Copy,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Inst {
    Op { to: usize, op: Op, from: [Src; 3] },
    Store { stream: usize, val: Src },
    SetState { state: usize, val: Src },
}

/// A group of steps as instructions.
#[derive(Debug, Default)]
pub(super) struct Ir {
    pub(super) insts: Vec<Inst>,
    pub(super) vals: usize,
    /// Numbers, by their bits: the same four times, but for those that scans have.
    pub(super) consts: Vec<[u64; 4]>,
    /// Which buffer each stream is, and how far back it is read.
    pub(super) streams: Vec<(usize, usize)>,
    /// The step whose kernel holds each state, and which of that kernel's it is.
    pub(super) states: Vec<(usize, usize)>,
    /// Chains that are computed along time; their states are all that there are.
    pub(super) scans: Vec<Scan>,
    /// Streams that are written.
    pub(super) written: Vec<bool>,
    /// Is a stream that is written also read some bars ago? Then bars have to be taken one by one.
    pub(super) looks_back: bool,
}

const NONE: Src = Src::Const(0);

/// Can this step be part of a group?
pub(super) fn fits(step: &Step) -> bool {
    match &step.op {
        NodeOp::Unary(f, _) => matches!(f, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sqrt | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Sign),
        NodeOp::Binary(f, ..) => *f != BinaryOp::Pow,
        prim => is_state(prim) || matches!(prim, NodeOp::Select(..) | NodeOp::Shift(..) | NodeOp::FillWarmup(..)),
    }
}

/// Does the next bar need something of this one?
pub(super) fn is_state(prim: &NodeOp) -> bool {
    matches!(
        prim,
        NodeOp::RollingSum(..)
            | NodeOp::PartialRollingSum(..)
            | NodeOp::RollingSumFrom { .. }
            | NodeOp::Ema { .. }
            | NodeOp::Wilder { .. }
            | NodeOp::LinearRecurrence { .. }
            | NodeOp::AdaptiveEma { .. }
            | NodeOp::CumSum(_)
    ) || is_rule(prim)
}

/// Is it a machine whose step can be compiled?
fn is_rule(prim: &NodeOp) -> bool {
    matches!(prim, NodeOp::StateMachine { def, .. } if def.traced.is_some())
}

/// The first bar from which on a step is computed like any later one.
pub(super) fn steady(step: &Step) -> usize {
    let grown = if let NodeOp::PartialRollingSum(_, n) = step.op { step.start + n } else { 0 };
    // One bar more than its start: the first one is the kernel's.
    (step.start + 1).max(step.begin + 1).max(grown)
}

/// Is every result of it 0 or 1?
pub(super) fn is_truth(prim: &NodeOp) -> bool {
    use BinaryOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
    matches!(prim, NodeOp::Binary(Lt | Le | Gt | Ge | Eq | Ne | And | Or, ..))
}

/// Turns steps into instructions. Values that nobody else needs have no stream.
pub(super) struct Builder<'p> {
    ir: Ir,
    /// What is where: value or stream of each buffer.
    known: HashMap<usize, Src>,
    /// Values that are 0 or 1.
    truths: HashSet<Src>,
    loads: HashMap<(usize, usize), usize>,
    /// Buffers that are read, or written, outside the group, or some bars ago.
    exported: &'p dyn Fn(usize, Place) -> bool,
    /// Buffers outside the group whose values are 0 or 1.
    truth_buffers: &'p HashSet<usize>,
    /// Buffers that hold the same number at every bar.
    numbers: &'p HashMap<usize, f64>,
    chains: Chains,
}

impl<'p> Builder<'p> {
    /// `exported(step, place)`: must the result of a step be in memory?
    pub(super) fn new(
        exported: &'p dyn Fn(usize, Place) -> bool,
        truth_buffers: &'p HashSet<usize>,
        numbers: &'p HashMap<usize, f64>,
        chains: Chains,
    ) -> Self {
        let mut builder = Builder {
            ir: Ir::default(),
            known: HashMap::new(),
            truths: HashSet::new(),
            loads: HashMap::new(),
            exported,
            truth_buffers,
            numbers,
            chains,
        };
        builder.number(0.0);
        builder
    }

    fn number(&mut self, x: f64) -> Src {
        self.bits(x.to_bits())
    }

    fn bits(&mut self, bits: u64) -> Src {
        Src::Const(self.four([bits; 4]))
    }

    /// Where these four numbers are.
    fn four(&mut self, bits: [u64; 4]) -> usize {
        self.ir.consts.iter().position(|c| *c == bits).unwrap_or_else(|| {
            self.ir.consts.push(bits);
            self.ir.consts.len() - 1
        })
    }

    fn op(&mut self, op: Op, from: &[Src]) -> Src {
        let to = self.ir.vals;
        self.ir.vals += 1;
        let mut all = [NONE; 3];
        all.iter_mut().zip(from).for_each(|(slot, src)| *slot = *src);
        self.ir.insts.push(Inst::Op { to, op, from: all });
        Src::ValueId(to)
    }

    fn stream(&mut self, buffer: usize, lag: usize) -> usize {
        let found = self.ir.streams.iter().position(|(b, _)| *b == buffer);
        let at = found.unwrap_or_else(|| {
            self.ir.streams.push((buffer, 0));
            self.ir.written.push(false);
            self.ir.streams.len() - 1
        });
        if let Some((_, back)) = self.ir.streams.get_mut(at) {
            *back = lag.max(*back);
        }
        at
    }

    /// A value that a step reads, `lag` bars before what its place says.
    fn read(&mut self, place: Place, lag: usize) -> Src {
        let lag = lag + place.lag;
        if let Some(x) = self.numbers.get(&place.buffer) {
            return self.number(*x);
        }
        if lag == 0
            && let Some(src) = self.known.get(&place.buffer)
        {
            return *src;
        }
        let stream = self.stream(place.buffer, lag);
        if lag > 0 && self.ir.written.get(stream) == Some(&true) {
            self.ir.looks_back = true;
        }
        let src = match self.loads.get(&(stream, lag)) {
            Some(val) => Src::ValueId(*val),
            None => {
                let Src::ValueId(val) = self.op(Op::Load, &[Src::Mem { stream, lag }]) else { return NONE };
                self.loads.insert((stream, lag), val);
                Src::ValueId(val)
            }
        };
        if self.truth_buffers.contains(&place.buffer) {
            self.truths.insert(src);
        }
        src
    }

    /// Adds one step.
    pub(super) fn step(&mut self, at: usize, step: &Step) {
        if let NodeOp::StateMachine { def, params, .. } = &step.op
            && let Some(trace) = def.traced
        {
            let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
            let results = self.rule(at, step, &trace(&params));
            step.outputs.iter().zip(results).for_each(|(place, result)| self.put(at, *place, result));
            return;
        }
        let result = self.result(at, step);
        if is_truth(&step.op) {
            self.truths.insert(result);
        }
        if let Some(place) = step.outputs.first() {
            self.put(at, *place, result);
        }
    }

    /// A step's result, where others find it.
    fn put(&mut self, at: usize, place: Place, result: Src) {
        if (self.exported)(at, place) {
            let stream = self.stream(place.buffer, 0);
            self.ir.written.iter_mut().skip(stream).take(1).for_each(|w| *w = true);
            self.loads.retain(|(s, _), _| *s != stream);
            self.ir.insts.push(Inst::Store { stream, val: result });
        }
        self.known.insert(place.buffer, result);
    }

    /// A step of a machine: what it computes, then the states for the next bar. Its outputs.
    fn rule(&mut self, at: usize, step: &Step, traced: &Traced) -> Vec<Src> {
        let first = self.ir.states.len();
        self.ir.states.extend((0..traced.states.len()).map(|which| (at, which)));
        let needed = traced.needed();
        let mut found: Vec<Src> = Vec::with_capacity(traced.nodes.len());
        for (node, needed) in traced.nodes.iter().zip(&needed) {
            let src = match node {
                _ if !needed => NONE,
                Node::State(which) => Src::State(first + which),
                Node::Input(i) => self.input(step, *i, 0),
                Node::Number(x) => self.number(*x),
                Node::Act(act, from) => {
                    let from = from.map(|at| found.get(at).copied().unwrap_or(NONE));
                    self.act(*act, from)
                }
            };
            found.push(src);
        }
        let of = |at: &usize| found.get(*at).copied().unwrap_or(NONE);
        let outputs: Vec<Src> = traced.outputs.iter().map(of).collect();
        // A result that is what the bar before left is read before that is overwritten.
        let outputs = outputs.into_iter().map(|src| self.kept(src)).collect();
        let next = traced.states.iter().map(of).enumerate().map(|(which, src)| (first + which, src));
        self.set_states(next.filter(|(state, src)| *src != Src::State(*state)).collect());
        outputs
    }

    /// A value of its own, if it is a state.
    fn kept(&mut self, src: Src) -> Src {
        match src {
            Src::State(_) => self.op(Op::Copy, &[src]),
            src => src,
        }
    }

    /// States that others become are passed on before they are overwritten.
    fn set_states(&mut self, mut next: Vec<(usize, Src)>) {
        while !next.is_empty() {
            let read = |state: usize| next.iter().any(|(to, src)| *to != state && *src == Src::State(state));
            match next.iter().position(|(state, _)| !read(*state)) {
                Some(at) => {
                    let (state, val) = next.remove(at);
                    self.ir.insts.push(Inst::SetState { state, val });
                }
                // They go round in a circle.
                None => {
                    if let Some((_, src)) = next.first().copied() {
                        let kept = self.kept(src);
                        next.iter_mut().take(1).for_each(|(_, src)| *src = kept);
                    }
                }
            }
        }
    }

    fn act(&mut self, act: Act, [a, b, c]: [Src; 3]) -> Src {
        let op = match act {
            Act::Add => Op::Plain(asm::ADD),
            Act::Sub => Op::Plain(asm::SUB),
            Act::Mul => Op::Plain(asm::MUL),
            Act::Div => return self.divide(a, b),
            Act::Neg => return self.un(UnaryOp::Neg, a),
            Act::Size => return self.un(UnaryOp::Abs, a),
            Act::Root => return self.un(UnaryOp::Sqrt, a),
            Act::Down => return self.un(UnaryOp::Floor, a),
            Act::Compare(how) => Op::Mask(match how {
                Compare::Below => Test::Less,
                Compare::AtMost => Test::LessOrEqual,
                Compare::Above => Test::Greater,
                Compare::AtLeast => Test::GreaterOrEqual,
                Compare::Is => Test::Equal,
                Compare::Differs => Test::NotEqual,
            }),
            Act::And => Op::Bits(asm::AND),
            Act::Or => Op::Bits(asm::OR),
            Act::Xor => Op::Bits(asm::XOR),
            Act::Not => {
                let all = self.bits(u64::MAX);
                return self.op(Op::Bits(asm::XOR), &[a, all]);
            }
            Act::Either => Op::Blend,
        };
        self.op(op, &[a, b, c])
    }

    fn input(&mut self, step: &Step, i: usize, lag: usize) -> Src {
        match (step.inputs.get(i), step.constant) {
            (_, Some((at, x))) if at == i => self.number(x),
            (Some(place), _) => self.read(*place, lag),
            (None, _) => NONE,
        }
    }

    fn result(&mut self, at: usize, step: &Step) -> Src {
        match &step.op {
            NodeOp::Unary(f, _) => {
                let x = self.input(step, 0, 0);
                self.un(*f, x)
            }
            NodeOp::Binary(f, ..) => {
                let (a, b) = (self.input(step, 0, 0), self.input(step, 1, 0));
                let Some(fusion) = step.fusion else { return self.bin(*f, a, b) };
                let c = self.input(step, 2, 0);
                let inner = self.bin(fusion.g, a, b);
                if fusion.left { self.bin(fusion.f, inner, c) } else { self.bin(fusion.f, c, inner) }
            }
            NodeOp::Select(..) => {
                let from = [self.input(step, 0, 0), self.input(step, 1, 0), self.input(step, 2, 0)];
                let truths = from.iter().skip(1).all(|s| self.is_truth(*s));
                let result = self.op(Op::Select, &from);
                if truths {
                    self.truths.insert(result);
                }
                result
            }
            NodeOp::Shift(_, n) => self.input(step, 0, *n),
            NodeOp::FillWarmup(..) => self.input(step, 0, 0),
            prim => {
                let state = self.ir.states.len();
                self.ir.states.push((at, 0));
                if self.chains == Chains::Scanned {
                    return self.scanned(step, prim, state);
                }
                let (result, next) = self.recursion(step, prim, Src::State(state));
                self.ir.insts.push(Inst::SetState { state, val: next });
                result
            }
        }
    }

    /// The value of this bar and the state for the next.
    fn recursion(&mut self, step: &Step, prim: &NodeOp, y: Src) -> (Src, Src) {
        let (add, sub, mul) = (Op::Plain(asm::ADD), Op::Plain(asm::SUB), Op::Plain(asm::MUL));
        let a = self.input(step, 0, 0);
        let next = match prim {
            NodeOp::RollingSum(_, n) | NodeOp::PartialRollingSum(_, n) => {
                let old = self.input(step, 0, n - 1);
                let sum = self.op(add, &[y, a]);
                return (sum, self.op(sub, &[sum, old]));
            }
            NodeOp::RollingSumFrom { n, .. } => {
                let old = self.input(step, 0, *n);
                let change = self.op(sub, &[a, old]);
                self.op(add, &[y, change])
            }
            NodeOp::Ema { k, .. } => self.towards(a, y, k.get()),
            NodeOp::Wilder { n, .. } => self.towards(a, y, 1.0 / *n as f64),
            NodeOp::LinearRecurrence { .. } => {
                let b = self.input(step, 1, 0);
                let part = self.op(mul, &[a, y]);
                self.op(add, &[part, b])
            }
            NodeOp::AdaptiveEma { .. } => {
                let k = self.input(step, 1, 0);
                let distance = self.op(sub, &[a, y]);
                let part = self.op(mul, &[k, distance]);
                self.op(add, &[y, part])
            }
            _ => self.op(add, &[y, a]),
        };
        (next, next)
    }

    fn towards(&mut self, x: Src, y: Src, k: f64) -> Src {
        let k = self.number(k);
        let distance = self.op(Op::Plain(asm::SUB), &[x, y]);
        let part = self.op(Op::Plain(asm::MUL), &[distance, k]);
        self.op(Op::Plain(asm::ADD), &[part, y])
    }

    fn is_truth(&self, src: Src) -> bool {
        match src {
            Src::Const(at) => {
                self.ir.consts.get(at).is_some_and(|[c, ..]| [0.0, 1.0].contains(&f64::from_bits(*c)))
            }
            src => self.truths.contains(&src),
        }
    }

    fn un(&mut self, f: UnaryOp, x: Src) -> Src {
        match f {
            UnaryOp::Neg => {
                let sign = self.bits(1 << 63);
                self.op(Op::Bits(asm::XOR), &[x, sign])
            }
            UnaryOp::Abs => {
                let rest = self.bits(!(1 << 63));
                self.op(Op::Bits(asm::AND), &[x, rest])
            }
            UnaryOp::Sqrt => self.op(Op::Sqrt, &[x]),
            UnaryOp::Floor => self.op(Op::Round(1), &[x]),
            UnaryOp::Ceil => self.op(Op::Round(2), &[x]),
            _ => {
                self.number(1.0);
                self.op(Op::Sign, &[x])
            }
        }
    }

    fn bin(&mut self, f: BinaryOp, a: Src, b: Src) -> Src {
        // Every truth is made of this number.
        self.number(1.0);
        let truths = self.is_truth(a) && self.is_truth(b);
        let op = match f {
            BinaryOp::Add => Op::Plain(asm::ADD),
            BinaryOp::Sub => Op::Plain(asm::SUB),
            BinaryOp::Mul => Op::Plain(asm::MUL),
            BinaryOp::Div | BinaryOp::Pow => return self.divide(a, b),
            BinaryOp::Div0 => Op::Div0,
            BinaryOp::Min => Op::Outer(asm::MIN),
            BinaryOp::Max => Op::Outer(asm::MAX),
            BinaryOp::Lt => Op::Truth(Test::Less),
            BinaryOp::Le => Op::Truth(Test::LessOrEqual),
            BinaryOp::Gt => Op::Truth(Test::Greater),
            BinaryOp::Ge => Op::Truth(Test::GreaterOrEqual),
            BinaryOp::Eq => Op::Truth(Test::Equal),
            BinaryOp::Ne => Op::Truth(Test::NotEqual),
            BinaryOp::And if truths => Op::Bits(asm::AND),
            BinaryOp::Or if truths => Op::Bits(asm::OR),
            BinaryOp::And => Op::Both(asm::AND),
            BinaryOp::Or => Op::Both(asm::OR),
        };
        self.op(op, &[a, b])
    }

    /// Division by a power of two is a multiplication, to the last bit.
    fn divide(&mut self, a: Src, b: Src) -> Src {
        let divisor = match b {
            Src::Const(at) => self.ir.consts.get(at).map(|[c, ..]| f64::from_bits(*c)),
            _ => None,
        };
        match divisor.filter(|d| is_power_of_two(*d)) {
            Some(d) => {
                let factor = self.number(1.0 / d);
                self.op(Op::Plain(asm::MUL), &[a, factor])
            }
            None => self.op(Op::Plain(asm::DIV), &[a, b]),
        }
    }

    /// The finished instructions, or what is wrong with them.
    pub(super) fn finish(mut self) -> Result<Ir, Fault> {
        self.drop_overwritten();
        self.copy_before_stores();
        verify::verify(&self.ir)?;
        self.inline_single_loads();
        masks::of(&mut self.ir);
        Ok(self.ir)
    }

    /// A load that is still read after its column was stored to becomes a copy: buffers are reused as soon as their last
    /// *step* has run, but a step that only renames a value (`Preceded`, `Shift`) hands the load itself to later steps.
    fn copy_before_stores(&mut self) {
        let clobbered: HashSet<usize> = verify::clobbered_loads(&self.ir).collect();
        for inst in &mut self.ir.insts {
            if let Inst::Op { to, op: op @ Op::Load, .. } = inst
                && clobbered.contains(to)
            {
                *op = Op::Copy;
            }
        }
    }

    /// Streams that are read, and written after that: what was there is gone then.
    pub(super) fn overwritten(ir: &Ir) -> Vec<usize> {
        let is_read = |stream: usize| {
            ir.insts.iter().any(|inst| match inst {
                Inst::Op { from, .. } => {
                    from.iter().any(|src| matches!(src, Src::Mem { stream: s, .. } if *s == stream))
                }
                Inst::Store { val, .. } | Inst::SetState { val, .. } => {
                    matches!(val, Src::Mem { stream: s, .. } if *s == stream)
                }
            })
        };
        let written = ir.written.iter().enumerate().filter(|(_, written)| **written);
        written.map(|(stream, _)| stream).filter(|stream| is_read(*stream)).collect()
    }

    /// A buffer that is a result at last may have held other values before; nobody reads those there.
    fn drop_overwritten(&mut self) {
        let mut read = HashSet::new();
        for inst in &self.ir.insts {
            if let Inst::Op { from, .. } = inst {
                read.extend(from.iter().filter_map(|src| match src {
                    Src::Mem { stream, .. } => Some(*stream),
                    _ => None,
                }));
            }
        }
        let mut later = HashSet::new();
        let mut kept: Vec<Inst> = Vec::with_capacity(self.ir.insts.len());
        for inst in self.ir.insts.drain(..).rev() {
            match inst {
                Inst::Store { stream, .. } if !later.insert(stream) && !read.contains(&stream) => {}
                inst => kept.push(inst),
            }
        }
        kept.reverse();
        self.ir.insts = kept;
    }

    /// A load that one instruction reads as its last operand is part of that instruction.
    fn inline_single_loads(&mut self) {
        let mut uses = vec![0usize; self.ir.vals];
        let mut count = |src: &Src| {
            if let Src::ValueId(v) = src {
                uses.iter_mut().skip(*v).take(1).for_each(|u| *u += 1);
            }
        };
        for inst in &self.ir.insts {
            match inst {
                Inst::Op { from, .. } => from.iter().for_each(&mut count),
                Inst::Store { val, .. } | Inst::SetState { val, .. } => count(val),
            }
        }
        let mut inlined: HashMap<usize, Src> = HashMap::new();
        for inst in &self.ir.insts {
            if let Inst::Op { to, op: Op::Load, from: [mem, ..] } = inst
                && uses.get(*to).is_some_and(|u| *u == 1)
            {
                inlined.insert(*to, *mem);
            }
        }
        let replace = |src: &mut Src| {
            if let Src::ValueId(v) = src
                && let Some(mem) = inlined.get(v)
            {
                *src = *mem;
            }
        };
        for inst in &mut self.ir.insts {
            match inst {
                Inst::Op { from, .. } => from.iter_mut().for_each(replace),
                Inst::Store { val, .. } | Inst::SetState { val, .. } => replace(val),
            }
        }
        self.ir.insts.retain(|inst| match inst {
            Inst::Op { to, .. } => !inlined.contains_key(to),
            _ => true,
        });
    }
}

fn is_power_of_two(x: f64) -> bool {
    let bits = x.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    // The reciprocal must be a normal number too.
    bits & ((1 << 52) - 1) == 0 && (2..2045).contains(&exponent)
}
