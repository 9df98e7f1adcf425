//! IR construction of state machines: the trace of a branch-free step into instructions, states as loop-carried values.

use super::{Arith, Bitwise, Builder, Inst, Opcode, Src};
use crate::{
    graph::UnaryOp,
    jit::verify::IrError,
    kernel::trace::{TraceNode, TraceOp, TracedStep},
    plan::Step,
};

impl Builder<'_> {
    /// One step of a state machine: what it computes, then its states for the next bar. Returns its outputs.
    pub(super) fn trace(&mut self, at: usize, step: &Step, traced: &TracedStep) -> Result<Vec<Src>, IrError> {
        let first = self.ir.states.len();
        self.ir.states.extend((0..traced.states.len()).map(|which| (at, which)));
        let needed = traced.needed();
        let mut found: Vec<Src> = Vec::with_capacity(traced.nodes.len());
        for (node, needed) in traced.nodes.iter().zip(&needed) {
            let src = match node {
                _ if !needed => Src::None,
                TraceNode::State(which) => Src::State(first + which),
                TraceNode::Input(i) => self.input(step, *i, 0)?,
                TraceNode::Const(x) => self.constant(*x),
                TraceNode::Op(op, [a, b, c]) => {
                    let from = [of(&found, *a)?, of(&found, *b)?, of(&found, *c)?];
                    self.trace_op(*op, from)?
                }
            };
            found.push(src);
        }
        let outputs: Vec<Src> = traced.outputs.iter().map(|at| of(&found, *at)).collect::<Result<_, _>>()?;
        // An output that is a state is copied before the state is overwritten.
        let outputs = outputs.into_iter().map(|src| self.copied(src)).collect();
        let mut next = Vec::with_capacity(traced.states.len());
        for (which, at) in traced.states.iter().enumerate() {
            next.push((first + which, of(&found, *at)?));
        }
        next.retain(|(state, src)| *src != Src::State(*state));
        self.set_states(next);
        Ok(outputs)
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
                    if let Some((_, src)) = next.first_mut() {
                        *src = self.copied(*src);
                    }
                }
            }
        }
    }

    fn trace_op(&mut self, op: TraceOp, [a, b, c]: [Src; 3]) -> Result<Src, IrError> {
        let op = match op {
            TraceOp::Add => Opcode::Arith(Arith::Add),
            TraceOp::Sub => Opcode::Arith(Arith::Sub),
            TraceOp::Mul => Opcode::Arith(Arith::Mul),
            TraceOp::Div => return Ok(self.divide(a, b)),
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
                return Ok(self.op(Opcode::Bitwise(Bitwise::Xor), &[a, all]));
            }
            TraceOp::Select => Opcode::Blend,
        };
        Ok(self.op(op, &[a, b, c]))
    }
}

/// A value of the trace that was built before.
fn of(found: &[Src], at: usize) -> Result<Src, IrError> {
    found.get(at).copied().ok_or(IrError::Missing { what: "value of a trace", at })
}
