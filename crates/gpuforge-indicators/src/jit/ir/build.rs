//! IR construction: steps of a plan into instructions.

use std::collections::{HashMap, HashSet};

use super::{Arith, Bitwise, Compare, Inst, Ir, MinMax, Opcode, RecurrenceMode, Rounding, Src};
use crate::{
    graph::{BinaryOp, NodeOp, UnaryOp},
    jit::{fusable::is_predicate, verify::IrError},
    plan::{BufferSlot, Step},
};

/// Builds the IR of some steps. Values that only they read have no stream.
pub(in crate::jit) struct Builder<'p> {
    pub(super) ir: Ir,
    /// The value of each buffer at this bar, if a step of the loop computed it.
    current: HashMap<usize, Src>,
    /// Values that are 0 or 1.
    predicates: HashSet<Src>,
    loads: HashMap<(usize, usize), usize>,
    /// Must the result of a step be stored, because it is read outside the loop or some bars later?
    exported: &'p dyn Fn(usize, BufferSlot) -> bool,
    /// Buffers outside the loop whose values are 0 or 1.
    predicate_buffers: &'p HashSet<usize>,
    /// Buffers that hold a constant.
    constants: &'p HashMap<usize, f64>,
    mode: RecurrenceMode,
}

impl<'p> Builder<'p> {
    /// `exported(step, slot)`: must the result of a step be stored?
    pub(in crate::jit) fn new(
        exported: &'p dyn Fn(usize, BufferSlot) -> bool,
        predicate_buffers: &'p HashSet<usize>,
        constants: &'p HashMap<usize, f64>,
        mode: RecurrenceMode,
    ) -> Self {
        let mut builder = Builder {
            ir: Ir::default(),
            current: HashMap::new(),
            predicates: HashSet::new(),
            loads: HashMap::new(),
            exported,
            predicate_buffers,
            constants,
            mode,
        };
        builder.constant(0.0);
        builder
    }

    pub(super) fn constant(&mut self, x: f64) -> Src {
        self.bits(x.to_bits())
    }

    pub(super) fn bits(&mut self, bits: u64) -> Src {
        Src::Const(self.constant_vector([bits; 4]))
    }

    /// The index of this vector in the constant table.
    pub(super) fn constant_vector(&mut self, bits: [u64; 4]) -> usize {
        self.ir.consts.iter().position(|c| *c == bits).unwrap_or_else(|| {
            self.ir.consts.push(bits);
            self.ir.consts.len() - 1
        })
    }

    /// The result of an opcode. Operands that it does not read are dropped, those that it lacks are the verifier's to report.
    pub(super) fn op(&mut self, op: Opcode, from: &[Src]) -> Src {
        Src::Val(self.value(op, from))
    }

    fn value(&mut self, op: Opcode, from: &[Src]) -> usize {
        let to = self.ir.vals;
        self.ir.vals += 1;
        let mut all = [Src::None; 3];
        let operands = self.ir.operands(op).unwrap_or(all.len());
        all.iter_mut().zip(from).take(operands).for_each(|(slot, src)| *slot = *src);
        self.ir.insts.push(Inst::Op { to, op, from: all });
        to
    }

    fn stream(&mut self, buffer: usize, lag: usize) -> usize {
        if let Some((at, (_, back))) =
            self.ir.streams.iter_mut().enumerate().find(|(_, (known, _))| *known == buffer)
        {
            *back = lag.max(*back);
            return at;
        }
        self.ir.streams.push((buffer, lag));
        self.ir.written.push(false);
        self.ir.streams.len() - 1
    }

    /// What a step reads, `lag` bars before what its slot says.
    fn read(&mut self, slot: BufferSlot, lag: usize) -> Src {
        let lag = lag + slot.lag;
        if let Some(x) = self.constants.get(&slot.buffer) {
            return self.constant(*x);
        }
        if lag == 0
            && let Some(src) = self.current.get(&slot.buffer)
        {
            return *src;
        }
        let stream = self.stream(slot.buffer, lag);
        if lag > 0 && self.ir.written.get(stream) == Some(&true) {
            self.ir.looks_back = true;
        }
        let val = match self.loads.get(&(stream, lag)) {
            Some(val) => *val,
            None => {
                let val = self.value(Opcode::Load, &[Src::Mem { stream, lag }]);
                self.loads.insert((stream, lag), val);
                val
            }
        };
        if self.predicate_buffers.contains(&slot.buffer) {
            self.predicates.insert(Src::Val(val));
        }
        Src::Val(val)
    }

    /// Adds one step.
    pub(in crate::jit) fn step(&mut self, at: usize, step: &Step) -> Result<(), IrError> {
        if let NodeOp::StateMachine { def, params, .. } = &step.op
            && let Some(trace) = def.traced
        {
            let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
            let results = self.trace(at, step, &trace(&params))?;
            if results.len() < step.outputs.len() {
                return Err(IrError::Missing { what: "output of a state machine", at: results.len() });
            }
            return step
                .outputs
                .iter()
                .zip(results)
                .try_for_each(|(slot, result)| self.put(at, *slot, result));
        }
        let result = self.result(at, step)?;
        if is_predicate(&step.op) {
            self.predicates.insert(result);
        }
        let slot = step.outputs.first().ok_or(IrError::Missing { what: "output of a step", at: 0 })?;
        self.put(at, *slot, result)
    }

    /// Makes a step's result the current value of its buffer; stores it where it is exported.
    fn put(&mut self, at: usize, slot: BufferSlot, result: Src) -> Result<(), IrError> {
        if (self.exported)(at, slot) {
            let stream = self.stream(slot.buffer, 0);
            *self.ir.written.get_mut(stream).ok_or(IrError::Missing { what: "stream", at: stream })? = true;
            self.loads.retain(|(s, _), _| *s != stream);
            self.ir.insts.push(Inst::Store { stream, val: result });
        }
        self.current.insert(slot.buffer, result);
        Ok(())
    }

    pub(super) fn input(&mut self, step: &Step, i: usize, lag: usize) -> Result<Src, IrError> {
        match (step.inputs.get(i), step.constant) {
            (_, Some((at, x))) if at == i => Ok(self.constant(x)),
            (Some(slot), _) => Ok(self.read(*slot, lag)),
            (None, _) => Err(IrError::Missing { what: "input of a step", at: i }),
        }
    }

    /// The value that a step computes.
    fn result(&mut self, at: usize, step: &Step) -> Result<Src, IrError> {
        match &step.op {
            NodeOp::Unary(f, _) => {
                let x = self.input(step, 0, 0)?;
                self.unary(*f, x)
            }
            NodeOp::Binary(f, ..) => {
                let (a, b) = (self.input(step, 0, 0)?, self.input(step, 1, 0)?);
                let Some(fusion) = step.fusion else { return self.binary(*f, a, b) };
                let c = self.input(step, 2, 0)?;
                let inner = self.binary(fusion.g, a, b)?;
                if fusion.left { self.binary(fusion.f, inner, c) } else { self.binary(fusion.f, c, inner) }
            }
            NodeOp::Select(..) => {
                let from = [self.input(step, 0, 0)?, self.input(step, 1, 0)?, self.input(step, 2, 0)?];
                let predicates = from.iter().skip(1).all(|s| self.is_predicate(*s));
                let result = self.op(Opcode::Select, &from);
                if predicates {
                    self.predicates.insert(result);
                }
                Ok(result)
            }
            NodeOp::Shift(_, n) => self.input(step, 0, *n),
            NodeOp::FillWarmup(..) => self.input(step, 0, 0),
            op => {
                let state = self.ir.states.len();
                self.ir.states.push((at, 0));
                if self.mode == RecurrenceMode::Scanned {
                    return self.scan_recurrence(step, op, state);
                }
                let (result, next) = self.recurrence(step, op, Src::State(state))?;
                self.ir.insts.push(Inst::SetState { state, val: next });
                Ok(result)
            }
        }
    }

    /// The value of this bar and the state for the next.
    fn recurrence(&mut self, step: &Step, op: &NodeOp, y: Src) -> Result<(Src, Src), IrError> {
        let (add, sub, mul) =
            (Opcode::Arith(Arith::Add), Opcode::Arith(Arith::Sub), Opcode::Arith(Arith::Mul));
        let a = self.input(step, 0, 0)?;
        let next = match op {
            NodeOp::RollingSum(_, n) | NodeOp::PartialRollingSum(_, n) => {
                let old = self.input(step, 0, n - 1)?;
                let sum = self.op(add, &[y, a]);
                return Ok((sum, self.op(sub, &[sum, old])));
            }
            NodeOp::RollingSumFrom { n, .. } => {
                let old = self.input(step, 0, *n)?;
                let change = self.op(sub, &[a, old]);
                self.op(add, &[y, change])
            }
            NodeOp::Ema { k, .. } => self.ema_step(a, y, k.get()),
            NodeOp::Wilder { n, .. } => self.ema_step(a, y, 1.0 / *n as f64),
            NodeOp::LinearRecurrence { .. } => {
                let b = self.input(step, 1, 0)?;
                let part = self.op(mul, &[a, y]);
                self.op(add, &[part, b])
            }
            NodeOp::AdaptiveEma { .. } => {
                let k = self.input(step, 1, 0)?;
                let distance = self.op(sub, &[a, y]);
                let part = self.op(mul, &[k, distance]);
                self.op(add, &[y, part])
            }
            NodeOp::CumSum(_) => self.op(add, &[y, a]),
            _ => return Err(IrError::Unsupported { what: "this recurrence" }),
        };
        Ok((next, next))
    }

    /// `(x - y) * k + y`.
    fn ema_step(&mut self, x: Src, y: Src, k: f64) -> Src {
        let k = self.constant(k);
        let distance = self.op(Opcode::Arith(Arith::Sub), &[x, y]);
        let part = self.op(Opcode::Arith(Arith::Mul), &[distance, k]);
        self.op(Opcode::Arith(Arith::Add), &[part, y])
    }

    fn is_predicate(&self, src: Src) -> bool {
        match src {
            Src::Const(at) => {
                self.ir.consts.get(at).is_some_and(|[c, ..]| [0.0, 1.0].contains(&f64::from_bits(*c)))
            }
            src => self.predicates.contains(&src),
        }
    }

    pub(super) fn unary(&mut self, f: UnaryOp, x: Src) -> Result<Src, IrError> {
        Ok(match f {
            UnaryOp::Neg => {
                let sign = self.bits(1 << 63);
                self.op(Opcode::Bitwise(Bitwise::Xor), &[x, sign])
            }
            UnaryOp::Abs => {
                let rest = self.bits(!(1 << 63));
                self.op(Opcode::Bitwise(Bitwise::And), &[x, rest])
            }
            UnaryOp::Sqrt => self.op(Opcode::Sqrt, &[x]),
            UnaryOp::Floor => self.op(Opcode::Round(Rounding::Down), &[x]),
            UnaryOp::Ceil => self.op(Opcode::Round(Rounding::Up), &[x]),
            UnaryOp::Sign => {
                self.constant(1.0);
                self.op(Opcode::Sign, &[x])
            }
            _ => return Err(IrError::Unsupported { what: "this function of one value" }),
        })
    }

    fn binary(&mut self, f: BinaryOp, a: Src, b: Src) -> Result<Src, IrError> {
        // Predicates are masks of this constant.
        self.constant(1.0);
        let predicates = self.is_predicate(a) && self.is_predicate(b);
        let op = match f {
            BinaryOp::Add => Opcode::Arith(Arith::Add),
            BinaryOp::Sub => Opcode::Arith(Arith::Sub),
            BinaryOp::Mul => Opcode::Arith(Arith::Mul),
            BinaryOp::Div => return Ok(self.divide(a, b)),
            BinaryOp::Pow => return Err(IrError::Unsupported { what: "pow" }),
            BinaryOp::Div0 => Opcode::Div0,
            BinaryOp::Min => Opcode::NanMinMax(MinMax::Min),
            BinaryOp::Max => Opcode::NanMinMax(MinMax::Max),
            BinaryOp::Lt => Opcode::Predicate(Compare::Lt),
            BinaryOp::Le => Opcode::Predicate(Compare::Le),
            BinaryOp::Gt => Opcode::Predicate(Compare::Gt),
            BinaryOp::Ge => Opcode::Predicate(Compare::Ge),
            BinaryOp::Eq => Opcode::Predicate(Compare::Eq),
            BinaryOp::Ne if predicates => Opcode::Bitwise(Bitwise::Xor),
            BinaryOp::Ne => Opcode::Predicate(Compare::Ne),
            BinaryOp::And if predicates => Opcode::Bitwise(Bitwise::And),
            BinaryOp::Or if predicates => Opcode::Bitwise(Bitwise::Or),
            BinaryOp::And => Opcode::Logical(Bitwise::And),
            BinaryOp::Or => Opcode::Logical(Bitwise::Or),
        };
        Ok(self.op(op, &[a, b]))
    }

    /// Division by a power of two becomes a multiplication by its reciprocal, which is exact.
    pub(super) fn divide(&mut self, a: Src, b: Src) -> Src {
        let divisor = match b {
            Src::Const(at) => self.ir.consts.get(at).map(|[c, ..]| f64::from_bits(*c)),
            _ => None,
        };
        match divisor.filter(|d| is_power_of_two(*d)) {
            Some(d) => {
                let factor = self.constant(1.0 / d);
                self.op(Opcode::Arith(Arith::Mul), &[a, factor])
            }
            None => self.op(Opcode::Arith(Arith::Div), &[a, b]),
        }
    }
}

fn is_power_of_two(x: f64) -> bool {
    let bits = x.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    // The reciprocal must be a normal number too.
    bits & ((1 << 52) - 1) == 0 && (2..2045).contains(&exponent)
}
