//! IR construction of state machines: the trace of a branch-free step into instructions, states as loop-carried values.

use super::{Arith, Bitwise, Builder, Inst, NONE, Opcode, Src};
use crate::{
    graph::UnaryOp,
    kernel::trace::{TraceNode, TraceOp, TracedStep},
    plan::Step,
};

impl Builder<'_> {
    /// One step of a state machine: what it computes, then its states for the next bar. Returns its outputs.
    pub(super) fn trace(&mut self, at: usize, step: &Step, traced: &TracedStep) -> Vec<Src> {
        let first = self.ir.states.len();
        self.ir.states.extend((0..traced.states.len()).map(|which| (at, which)));
        let needed = traced.needed();
        let mut found: Vec<Src> = Vec::with_capacity(traced.nodes.len());
        for (node, needed) in traced.nodes.iter().zip(&needed) {
            let src = match node {
                _ if !needed => NONE,
                TraceNode::State(which) => Src::State(first + which),
                TraceNode::Input(i) => self.input(step, *i, 0),
                TraceNode::Const(x) => self.constant(*x),
                TraceNode::Op(op, from) => {
                    let from = from.map(|at| found.get(at).copied().unwrap_or(NONE));
                    self.trace_op(*op, from)
                }
            };
            found.push(src);
        }
        let of = |at: &usize| found.get(*at).copied().unwrap_or(NONE);
        let outputs: Vec<Src> = traced.outputs.iter().map(of).collect();
        // An output that is a state is copied before the state is overwritten.
        let outputs = outputs.into_iter().map(|src| self.copied(src)).collect();
        let next = traced.states.iter().map(of).enumerate().map(|(which, src)| (first + which, src));
        self.set_states(next.filter(|(state, src)| *src != Src::State(*state)).collect());
        outputs
    }

    /// A copy, if it is a state.
    fn copied(&mut self, src: Src) -> Src {
        match src {
            Src::State(_) => self.op(Opcode::Copy, &[src]),
            src => src,
        }
    }

    /// Sets the states as if all at once (a parallel copy): each is read by the others before it is overwritten.
    fn set_states(&mut self, mut next: Vec<(usize, Src)>) {
        while !next.is_empty() {
            let read = |state: usize| next.iter().any(|(to, src)| *to != state && *src == Src::State(state));
            match next.iter().position(|(state, _)| !read(*state)) {
                Some(at) => {
                    let (state, val) = next.remove(at);
                    self.ir.insts.push(Inst::SetState { state, val });
                }
                // A cycle: one copy breaks it.
                None => {
                    if let Some((_, src)) = next.first().copied() {
                        let copy = self.copied(src);
                        next.iter_mut().take(1).for_each(|(_, src)| *src = copy);
                    }
                }
            }
        }
    }

    fn trace_op(&mut self, op: TraceOp, [a, b, c]: [Src; 3]) -> Src {
        let op = match op {
            TraceOp::Add => Opcode::Arith(Arith::Add),
            TraceOp::Sub => Opcode::Arith(Arith::Sub),
            TraceOp::Mul => Opcode::Arith(Arith::Mul),
            TraceOp::Div => return self.divide(a, b),
            TraceOp::Neg => return self.unary(UnaryOp::Neg, a),
            TraceOp::Abs => return self.unary(UnaryOp::Abs, a),
            TraceOp::Sqrt => return self.unary(UnaryOp::Sqrt, a),
            TraceOp::Floor => return self.unary(UnaryOp::Floor, a),
            TraceOp::Compare(compare) => Opcode::Mask(compare),
            TraceOp::And => Opcode::Bitwise(Bitwise::And),
            TraceOp::Or => Opcode::Bitwise(Bitwise::Or),
            TraceOp::Xor => Opcode::Bitwise(Bitwise::Xor),
            TraceOp::Not => {
                let all = self.bits(u64::MAX);
                return self.op(Opcode::Bitwise(Bitwise::Xor), &[a, all]);
            }
            TraceOp::Select => Opcode::Blend,
        };
        self.op(op, &[a, b, c])
    }
}
