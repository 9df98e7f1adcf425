//! AArch64 emitter: the operations of the IR.

use super::{
    Assembler, Form, VECTOR_BYTES,
    emit::{EXTRA, Emitter, MEMORY, Operand, Part, STRIDE, TEMP},
};
use crate::jit::{
    error::EmitError,
    ir::{Arith, Bitwise, Compare, Inst, Ir, MinMax, Opcode, Src},
    regalloc::Reg,
    target::Width,
};

/// Which values are never -0, as far as their operations tell.
pub(super) fn never_negative_zero(ir: &Ir) -> Vec<bool> {
    let mut never = vec![false; ir.vals];
    for inst in &ir.insts {
        let Inst::Op { to, op, from: [a, b, _] } = *inst else { continue };
        let is_never = |src| is_never_negative_zero(ir, &never, src);
        let result = match op {
            Opcode::Arith(Arith::Add) => is_never(a) || is_never(b),
            Opcode::Arith(Arith::Sub) => is_never(a),
            // An absolute value, if the constant is a mask without the sign.
            Opcode::Bitwise(Bitwise::And) => is_never_constant(ir, a) || is_never_constant(ir, b),
            // Of equals it is the second, and otherwise more.
            Opcode::NanMinMax(MinMax::Max) if is_never_constant(ir, b) => true,
            Opcode::NanMinMax(_) => is_never(a) && is_never(b),
            Opcode::Predicate(_) | Opcode::Logical(_) | Opcode::Sign => true,
            _ => false,
        };
        if let Some(entry) = never.get_mut(to) {
            *entry = result;
        }
    }
    never
}

/// Which values are read by comparisons only, or by a min or max of which that is true?
pub(super) fn only_compared(ir: &Ir) -> Vec<bool> {
    let mut only = vec![true; ir.vals];
    for inst in ir.insts.iter().rev() {
        let (reads, compares): (&[Src], bool) = match inst {
            Inst::Op { op: Opcode::Mask(_) | Opcode::Predicate(_), from, .. } => (from, true),
            Inst::Op { to, op: Opcode::NanMinMax(_), from } => (from, only.get(*to) == Some(&true)),
            Inst::Op { from, .. } => (from, false),
            Inst::Store { val, .. } | Inst::SetState { val, .. } => (std::slice::from_ref(val), false),
        };
        for src in reads.iter().filter(|_| !compares) {
            if let Src::Val(v) = src
                && let Some(entry) = only.get_mut(*v)
            {
                *entry = false;
            }
        }
    }
    only
}

fn is_never_negative_zero(ir: &Ir, never: &[bool], src: Src) -> bool {
    match src {
        Src::Val(v) => never.get(v) == Some(&true),
        src => is_never_constant(ir, src),
    }
}

/// Is it a constant without a sign bit?
fn is_never_constant(ir: &Ir, src: Src) -> bool {
    let Src::Const(at) = src else { return false };
    ir.consts.get(at).is_some_and(|all| all.iter().all(|bits| bits >> 63 == 0))
}

impl Emitter<'_> {
    /// Emits the parts of an operation of two sources, of which the second may be in memory.
    fn parts(
        &mut self,
        to: Reg,
        [x, y]: [Operand; 2],
        emit: impl Fn(&mut Assembler, Part),
    ) -> Result<(), EmitError> {
        let of = |operand: Operand, part: u8| match operand {
            Operand::Group(reg) => Ok(reg + STRIDE * part),
            Operand::Same(reg) => Ok(reg),
            Operand::Memory(_) => Err(EmitError::NoOperand),
        };
        let Operand::Memory(location) = y else {
            for (part, to) in (0..).zip(self.group(to)) {
                emit(&mut self.asm, Part { to, x: of(x, part)?, y: of(y, part)? });
            }
            return Ok(());
        };
        // Only now: what was emitted since may have used the address registers.
        let (base, at) = self.address(location)?;
        if self.width == Width::One {
            let [y, _] = MEMORY;
            self.asm.ldr(Form::Scalar, y, base, at)?;
            emit(&mut self.asm, Part { to, x: of(x, 0)?, y });
            return Ok(());
        }
        for (first, at) in [(0, at), (2, at + 2 * VECTOR_BYTES)] {
            self.asm.ldp(MEMORY, base, at)?;
            for (part, y) in (first..).zip(MEMORY) {
                emit(&mut self.asm, Part { to: to + STRIDE * part, x: of(x, part)?, y });
            }
        }
        Ok(())
    }

    /// An operation of two sources.
    fn two(
        &mut self,
        (at, to): (usize, usize),
        [a, b]: [Src; 2],
        emit: impl Fn(&mut Assembler, Part),
    ) -> Result<(), EmitError> {
        let (x, y) = (self.first(a)?, self.second(at, b)?);
        let to = self.target(at, to)?;
        self.parts(to, [x, y], emit)
    }

    /// An operation that needs the extra register: its first source is never a constant's.
    fn two_extra(
        &mut self,
        (at, to): (usize, usize),
        [a, b]: [Src; 2],
        emit: impl Fn(&mut Assembler, Part),
    ) -> Result<(), EmitError> {
        let (x, y) = (Operand::Group(self.register(a)?), self.second(at, b)?);
        let to = self.target(at, to)?;
        self.parts(to, [x, y], emit)
    }

    fn one(
        &mut self,
        place: (usize, usize),
        a: Src,
        emit: impl Fn(&mut Assembler, Part),
    ) -> Result<(), EmitError> {
        let x = Operand::Group(self.register(a)?);
        let to = self.target(place.0, place.1)?;
        self.parts(to, [x, x], emit)
    }

    pub(super) fn op(
        &mut self,
        place: (usize, usize),
        op: Opcode,
        [a, b, c]: [Src; 3],
    ) -> Result<(), EmitError> {
        let form = self.form();
        match op {
            Opcode::Arith(op) => self.two(place, [a, b], |asm, r| asm.farith(op, form, r.to, r.x, r.y)),
            Opcode::Bitwise(op) => self.two(place, [a, b], |asm, r| asm.bitwise(op, r.to, r.x, r.y)),
            Opcode::Mask(test) => self.two(place, [a, b], |asm, r| {
                asm.fcm(test, r.to, r.x, r.y);
                if test == Compare::Ne {
                    asm.mvn(r.to, r.to);
                }
            }),
            Opcode::Predicate(test) => {
                let one = self.ones(TEMP);
                self.two(place, [a, b], |asm, r| {
                    asm.fcm(test, r.to, r.x, r.y);
                    match test {
                        Compare::Ne => asm.bic(r.to, one, r.to),
                        _ => asm.bitwise(Bitwise::And, r.to, one, r.to),
                    }
                })
            }
            // 1 without the bits of "is zero": De Morgan.
            Opcode::Logical(op) => {
                let one = self.ones(EXTRA);
                let either = if op == Bitwise::And { Bitwise::Or } else { Bitwise::And };
                self.two_extra(place, [a, b], |asm, r| {
                    asm.fcmeq_zero(TEMP, r.x);
                    asm.fcmeq_zero(r.to, r.y);
                    asm.bitwise(either, r.to, r.to, TEMP);
                    asm.bic(r.to, one, r.to);
                })
            }
            Opcode::NanMinMax(op)
                if self.only_compared.get(place.1) == Some(&true) || self.orders_zeros(op, [a, b]) =>
            {
                self.two(place, [a, b], |asm, r| asm.fminmax(op, r.to, r.x, r.y))
            }
            // `fmin` orders -0 before 0; the reference takes the second of equals.
            Opcode::NanMinMax(op) => self.two_extra(place, [a, b], |asm, r| {
                asm.fcm(Compare::Eq, TEMP, r.x, r.y);
                if r.to == r.y {
                    asm.fminmax(op, EXTRA, r.x, r.y);
                    asm.bif(r.to, EXTRA, TEMP);
                } else {
                    asm.fminmax(op, r.to, r.x, r.y);
                    asm.bit(r.to, r.y, TEMP);
                }
            }),
            Opcode::Div0 => self.two(place, [a, b], |asm, r| {
                asm.fcmeq_zero(TEMP, r.y);
                asm.farith(Arith::Div, form, r.to, r.x, r.y);
                asm.bic(r.to, r.to, TEMP);
            }),
            Opcode::Select => self.select(place, [a, b, c], true),
            Opcode::Blend => self.select(place, [a, b, c], false),
            Opcode::Sqrt => self.one(place, a, |asm, r| asm.fsqrt(form, r.to, r.x)),
            Opcode::Round(towards) => self.one(place, a, |asm, r| asm.frint(towards, form, r.to, r.x)),
            // A mask is -1 as an integer.
            Opcode::Sign => self.one(place, a, |asm, r| {
                asm.fcmgt_zero(TEMP, r.x);
                asm.fcmlt_zero(r.to, r.x);
                asm.sub_i64(r.to, r.to, TEMP);
                asm.scvtf(r.to, r.to);
            }),
            Opcode::Copy => self.one(place, a, |asm, r| asm.mov(r.to, r.x)),
            Opcode::Load => Ok(()),
            Opcode::Scan(scan) => self.scan(place, scan, [a, b]),
        }
    }

    /// Are `fmin` and `fmax` of these the second of equals? They order -0 before 0.
    fn orders_zeros(&self, op: MinMax, [a, b]: [Src; 2]) -> bool {
        let is_nonzero = |src: Src| {
            let Src::Const(at) = src else { return false };
            self.ir.consts.get(at).is_some_and(|[bits, ..]| f64::from_bits(*bits) != 0.0)
        };
        let is_never = |src| is_never_negative_zero(self.ir, &self.never_negative_zero, src);
        is_nonzero(a) || is_nonzero(b) || if op == MinMax::Max { is_never(b) } else { is_never(a) }
    }

    /// `yes` where the condition holds, else `no`: the condition is a number that is not 0, or a mask.
    fn select(
        &mut self,
        (at, to): (usize, usize),
        [condition, yes, no]: [Src; 3],
        is_number: bool,
    ) -> Result<(), EmitError> {
        let (condition, no) = (self.register(condition)?, self.first(no)?);
        let yes = self.second(at, yes)?;
        let to = self.target(at, to)?;
        let distance = condition.wrapping_sub(to);
        self.parts(to, [no, yes], |asm, Part { to, x: no, y: yes }| {
            let condition = to.wrapping_add(distance);
            if is_number {
                // Where it is 0, `no`.
                asm.fcmeq_zero(TEMP, condition);
                if to == no {
                    return asm.bif(to, yes, TEMP);
                }
                asm.mov(to, yes);
                return asm.bit(to, no, TEMP);
            }
            match to {
                _ if to == condition => asm.bsl(to, yes, no),
                _ if to == no => asm.bit(to, yes, condition),
                _ => {
                    asm.mov(to, yes);
                    asm.bif(to, no, condition);
                }
            }
        })
    }
}
