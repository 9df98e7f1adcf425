//! IR verifier: every value is defined once and before it is read, operands have the type that an opcode needs, indices are in
//! range, and no store clobbers a load that is still live.
//!
//! Loads are lazy: a value that names a stream is read where it is used, and read again after its register was evicted
//! (rematerialised). So between a load and its last use nothing may store to that stream. The register allocator and the
//! encoder rely on everything that is checked here; a loop that fails is not compiled, its steps run as kernels.

use std::collections::HashSet;

use super::ir::{Inst, Ir, Opcode, Src};

/// Why the IR of a loop is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IrError {
    #[error("value {0} is read before it is computed")]
    Undefined(usize),
    #[error("value {0} is computed twice")]
    Redefined(usize),
    #[error("value {load} is a load of stream {stream} and is read after a store to it")]
    Clobbered { load: usize, stream: usize },
    #[error("stream {stream} is read {lag} bars ago, {back} are kept")]
    Lag { stream: usize, lag: usize, back: usize },
    #[error("there is no {what} {at}")]
    Missing { what: &'static str, at: usize },
    #[error("state {0} is read after it was set for the next bar")]
    StaleState(usize),
    #[error("state {0} is set twice")]
    StateSetTwice(usize),
    #[error("stream {0} is marked as written and is never stored to")]
    NeverStored(usize),
    #[error("stream {0} is stored to and is not marked as written")]
    NotMarked(usize),
    #[error("constant {0} is missing from the table")]
    NoConstant(u8),
    #[error("value {0} has fewer operands than its opcode reads")]
    NoOperand(usize),
    #[error("value {0} blends by something that is not a mask")]
    NotAMask(usize),
    #[error("value {0} is a load of something that is not a stream")]
    NotAStream(usize),
    #[error("state {0} is set bar by bar beside a scan over several bars")]
    MixedRecurrences(usize),
    #[error("{what} cannot be part of a fused loop")]
    Unsupported { what: &'static str },
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Number,
    /// All bits or none.
    Mask,
}

/// Definitions, stores and states up to an instruction.
struct Progress {
    /// The type of each value that is defined.
    types: Vec<Option<ValueType>>,
    /// The stream that a load names, and how many stores it had seen then.
    loads: Vec<Option<(usize, usize)>>,
    stores: Vec<usize>,
    set: Vec<bool>,
}

impl Progress {
    fn new(ir: &Ir) -> Progress {
        Progress {
            types: vec![None; ir.vals],
            loads: vec![None; ir.vals],
            stores: vec![0; ir.streams.len()],
            set: vec![false; ir.states.len()],
        }
    }

    /// The stream that was stored to since this load, if the value is a load.
    fn clobbered(&self, val: usize) -> Option<usize> {
        let (stream, stores) = self.loads.get(val).copied().flatten()?;
        (self.stores.get(stream) != Some(&stores)).then_some(stream)
    }

    fn store(&mut self, stream: usize) -> Result<(), IrError> {
        *self.stores.get_mut(stream).ok_or(IrError::Missing { what: "stream", at: stream })? += 1;
        Ok(())
    }

    fn type_of(&self, ir: &Ir, src: Src) -> ValueType {
        let is_mask = match src {
            Src::Val(val) => self.types.get(val) == Some(&Some(ValueType::Mask)),
            Src::Const(at) => ir.consts.get(at).is_some_and(|c| *c == [0; 4] || *c == [u64::MAX; 4]),
            Src::Mem { .. } | Src::State(_) | Src::None => false,
        };
        if is_mask { ValueType::Mask } else { ValueType::Number }
    }

    /// The type of an instruction's result.
    fn result_type(&self, ir: &Ir, op: Opcode, from: [Src; 3]) -> ValueType {
        let of = |src: Src| self.type_of(ir, src);
        let [a, b, c] = from;
        let is_mask = match op {
            Opcode::Mask(_) => true,
            Opcode::Bitwise(_) => of(a) == ValueType::Mask && of(b) == ValueType::Mask,
            Opcode::Select | Opcode::Blend => of(b) == ValueType::Mask && of(c) == ValueType::Mask,
            Opcode::Copy => of(a) == ValueType::Mask,
            _ => false,
        };
        if is_mask { ValueType::Mask } else { ValueType::Number }
    }

    fn define(&mut self, ir: &Ir, inst: &Inst) -> Result<(), IrError> {
        let Inst::Op { to, op, from } = inst else { return Ok(()) };
        let result = self.result_type(ir, *op, *from);
        match self.types.get_mut(*to) {
            None => return Err(IrError::Missing { what: "value", at: *to }),
            Some(Some(_)) => return Err(IrError::Redefined(*to)),
            Some(undefined) => *undefined = Some(result),
        }
        if *op == Opcode::Load {
            let [Src::Mem { stream, .. }, ..] = from else { return Err(IrError::NotAStream(*to)) };
            let stores = *self.stores.get(*stream).ok_or(IrError::Missing { what: "stream", at: *stream })?;
            *self.loads.get_mut(*to).ok_or(IrError::Missing { what: "value", at: *to })? =
                Some((*stream, stores));
        }
        Ok(())
    }

    fn read(&self, ir: &Ir, src: Src) -> Result<(), IrError> {
        match src {
            Src::Val(val) => match (self.types.get(val).copied().flatten(), self.clobbered(val)) {
                (Some(_), None) => Ok(()),
                (Some(_), Some(stream)) => Err(IrError::Clobbered { load: val, stream }),
                (None, _) => Err(IrError::Undefined(val)),
            },
            Src::Mem { stream, lag } => match ir.streams.get(stream) {
                Some((_, back)) if lag <= *back => Ok(()),
                Some((_, back)) => Err(IrError::Lag { stream, lag, back: *back }),
                None => Err(IrError::Missing { what: "stream", at: stream }),
            },
            Src::Const(at) if at < ir.consts.len() => Ok(()),
            Src::Const(at) => Err(IrError::Missing { what: "constant", at }),
            Src::State(state) => match self.set.get(state) {
                Some(false) => Ok(()),
                Some(true) => Err(IrError::StaleState(state)),
                None => Err(IrError::Missing { what: "state", at: state }),
            },
            Src::None => Ok(()),
        }
    }

    /// Operands: as many as the opcode reads, each of them readable, a mask where the opcode blends by it.
    fn operands(&self, ir: &Ir, to: usize, op: Opcode, from: [Src; 3]) -> Result<(), IrError> {
        let missing = |at: usize| IrError::Missing { what: "scan", at };
        let count = match (ir.operands(op), op) {
            (Some(count), _) => count,
            (None, Opcode::Scan(at)) => return Err(missing(at)),
            (None, _) => from.len(),
        };
        if from.iter().take(count).any(|src| *src == Src::None) {
            return Err(IrError::NoOperand(to));
        }
        from.iter().try_for_each(|src| self.read(ir, *src))?;
        let [condition, ..] = from;
        match op {
            Opcode::Blend if self.type_of(ir, condition) != ValueType::Mask => Err(IrError::NotAMask(to)),
            _ => Ok(()),
        }
    }

    /// The operand of a store.
    fn stored(&self, ir: &Ir, src: Src) -> Result<(), IrError> {
        if src == Src::None { Err(IrError::NoOperand(ir.vals)) } else { self.read(ir, src) }
    }

    fn set_state(&mut self, state: usize) -> Result<(), IrError> {
        match self.set.get_mut(state) {
            None => Err(IrError::Missing { what: "state", at: state }),
            Some(true) => Err(IrError::StateSetTwice(state)),
            Some(set) => {
                *set = true;
                Ok(())
            }
        }
    }
}

/// Checks what the emitter will be given.
pub(super) fn verify(ir: &Ir) -> Result<(), IrError> {
    let mut progress = Progress::new(ir);
    for inst in &ir.insts {
        match inst {
            Inst::Op { to, op, from } => {
                progress.operands(ir, *to, *op, *from)?;
                if let Opcode::Scan(at) = op {
                    let scan = ir.scans.get(*at).ok_or(IrError::Missing { what: "scan", at: *at })?;
                    scan.constants().try_for_each(|at| progress.read(ir, Src::Const(at)))?;
                    progress.read(ir, Src::State(scan.state))?;
                    progress.set_state(scan.state)?;
                }
                constants(ir, *op)?;
                progress.define(ir, inst)?;
            }
            Inst::Store { stream, val } => {
                progress.stored(ir, *val)?;
                progress.store(*stream)?;
                if ir.written.get(*stream) != Some(&true) {
                    return Err(IrError::NotMarked(*stream));
                }
            }
            Inst::SetState { state, val } => {
                progress.stored(ir, *val)?;
                progress.set_state(*state)?;
                if !ir.scans.is_empty() {
                    return Err(IrError::MixedRecurrences(*state));
                }
            }
        }
    }
    let unwritten =
        ir.written.iter().zip(&progress.stores).position(|(written, stores)| *written && *stores == 0);
    unwritten.map_or(Ok(()), |stream| Err(IrError::NeverStored(stream)))
}

/// Are the constants there that the encoder looks up by value?
fn constants(ir: &Ir, op: Opcode) -> Result<(), IrError> {
    let needed: &[u8] = match op {
        Opcode::Predicate(_) => &[1],
        Opcode::Logical(_) | Opcode::Sign => &[0, 1],
        Opcode::Div0 | Opcode::Select => &[0],
        _ => &[],
    };
    let is_there = |x: u8| ir.consts.contains(&[f64::from(x).to_bits(); 4]);
    needed.iter().find(|x| !is_there(**x)).map_or(Ok(()), |x| Err(IrError::NoConstant(*x)))
}

/// Loads that are read after a store to their stream.
pub(super) fn clobbered_loads(ir: &Ir) -> Result<HashSet<usize>, IrError> {
    let mut progress = Progress::new(ir);
    let mut found = HashSet::new();
    for inst in &ir.insts {
        let (reads, store): (&[Src], _) = match inst {
            Inst::Op { from, .. } => (from, None),
            Inst::Store { stream, val } => (std::slice::from_ref(val), Some(*stream)),
            Inst::SetState { val, .. } => (std::slice::from_ref(val), None),
        };
        found.extend(reads.iter().filter_map(|src| match src {
            Src::Val(val) => progress.clobbered(*val).map(|_| *val),
            _ => None,
        }));
        progress.define(ir, inst)?;
        store.map_or(Ok(()), |stream| progress.store(stream))?;
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use crate::jit::ir::{Arith, Compare};

    const ZERO: Src = Src::Const(0);

    fn op(to: usize, op: Opcode, from: &[Src]) -> Inst {
        let mut all = [Src::None; 3];
        all.iter_mut().zip(from).for_each(|(slot, src)| *slot = *src);
        Inst::Op { to, op, from: all }
    }

    fn load(to: usize, stream: usize) -> Inst {
        op(to, Opcode::Load, &[Src::Mem { stream, lag: 0 }])
    }

    fn add(to: usize, a: Src, b: Src) -> Inst {
        op(to, Opcode::Arith(Arith::Add), &[a, b])
    }

    /// Two streams, two states, constants 0 and 1.
    fn ir(insts: Vec<Inst>) -> Ir {
        Ir {
            vals: insts.len(),
            insts,
            consts: vec![[0; 4], [1f64.to_bits(); 4]],
            streams: vec![(0, 0), (1, 3)],
            states: vec![(0, 0), (0, 1)],
            written: vec![false; 2],
            ..Ir::default()
        }
    }

    /// The same, with the streams that are stored to marked as written.
    fn marked(insts: Vec<Inst>) -> Ir {
        let mut ir = ir(insts);
        for inst in &ir.insts {
            if let Inst::Store { stream, .. } = inst {
                ir.written[*stream] = true;
            }
        }
        ir
    }

    #[track_caller]
    fn check(insts: Vec<Inst>, want: Result<(), IrError>) {
        assert_eq!(verify(&marked(insts)), want);
    }

    /// Regression: `adx` beside `wavetrend` loaded a buffer that was reused before the load's last use.
    #[test]
    fn a_store_that_clobbers_a_live_load_is_rejected() {
        let insts = vec![
            load(0, 0),
            Inst::Store { stream: 0, val: Src::Const(1) },
            add(1, Src::Val(0), Src::Const(1)),
        ];
        assert_eq!(clobbered_loads(&ir(insts.clone())), Ok(HashSet::from([0])));
        check(insts, Err(IrError::Clobbered { load: 0, stream: 0 }));
        let copied = vec![
            op(0, Opcode::Copy, &[Src::Mem { stream: 0, lag: 0 }]),
            Inst::Store { stream: 0, val: Src::Const(1) },
            add(1, Src::Val(0), Src::Const(1)),
        ];
        check(copied, Ok(()));
        let before = vec![load(0, 0), add(1, Src::Val(0), ZERO), Inst::Store { stream: 0, val: Src::Val(1) }];
        assert_eq!(clobbered_loads(&ir(before.clone())), Ok(HashSet::new()));
        check(before, Ok(()));
        let other = vec![
            load(0, 0),
            Inst::Store { stream: 1, val: ZERO },
            add(1, Src::Val(0), ZERO),
            // A load after the store reads what was stored.
            load(2, 1),
            add(3, Src::Val(2), ZERO),
        ];
        check(other, Ok(()));
    }

    #[test]
    fn undefined_values_streams_constants_and_stale_states_are_rejected() {
        check(vec![add(0, Src::Val(1), ZERO), load(1, 0)], Err(IrError::Undefined(1)));
        check(vec![add(0, Src::Val(9), ZERO)], Err(IrError::Undefined(9)));
        check(vec![load(0, 0), load(0, 1)], Err(IrError::Redefined(0)));
        check(vec![load(0, 5)], Err(IrError::Missing { what: "stream", at: 5 }));
        check(vec![add(0, Src::Const(2), ZERO)], Err(IrError::Missing { what: "constant", at: 2 }));
        let ago = |lag| vec![add(0, Src::Mem { stream: 1, lag }, ZERO)];
        check(ago(3), Ok(()));
        check(ago(4), Err(IrError::Lag { stream: 1, lag: 4, back: 3 }));
        let set = |state| Inst::SetState { state, val: ZERO };
        check(vec![set(0), add(0, Src::State(0), ZERO)], Err(IrError::StaleState(0)));
        check(vec![set(1), add(0, Src::State(0), ZERO), set(0)], Ok(()));
        check(vec![set(1), set(1)], Err(IrError::StateSetTwice(1)));
        check(vec![set(2)], Err(IrError::Missing { what: "state", at: 2 }));
        check(vec![op(0, Opcode::Scan(0), &[ZERO])], Err(IrError::Missing { what: "scan", at: 0 }));
    }

    #[test]
    fn written_streams_have_a_store_and_needed_constants_exist() {
        let mut missing = ir(vec![load(0, 0)]);
        missing.written = vec![false, true];
        assert_eq!(verify(&missing), Err(IrError::NeverStored(1)));
        let mut none = ir(vec![op(0, Opcode::Predicate(Compare::Lt), &[ZERO, ZERO])]);
        assert_eq!(verify(&none), Ok(()));
        none.consts.truncate(1);
        assert_eq!(verify(&none), Err(IrError::NoConstant(1)));
    }

    #[test]
    fn operands_have_the_count_and_type_that_the_opcode_needs() {
        let mask = |to| op(to, Opcode::Mask(Compare::Lt), &[ZERO, Src::Const(1)]);
        let blend = |to, by| op(to, Opcode::Blend, &[by, ZERO, Src::Const(1)]);
        check(vec![mask(0), blend(1, Src::Val(0))], Ok(()));
        check(vec![add(0, ZERO, ZERO), blend(1, Src::Val(0))], Err(IrError::NotAMask(1)));
        check(vec![blend(0, Src::State(0))], Err(IrError::NotAMask(0)));
        // A mask and a number give a number.
        let both = Opcode::Bitwise(crate::jit::ir::Bitwise::And);
        let combined = |with| vec![mask(0), op(1, both, &[Src::Val(0), with]), blend(2, Src::Val(1))];
        check(combined(Src::Val(0)), Ok(()));
        check(combined(Src::Const(1)), Err(IrError::NotAMask(2)));
        check(vec![op(0, Opcode::Arith(Arith::Add), &[ZERO])], Err(IrError::NoOperand(0)));
        check(vec![op(0, Opcode::Load, &[ZERO])], Err(IrError::NotAStream(0)));
        check(vec![Inst::Store { stream: 0, val: Src::None }], Err(IrError::NoOperand(1)));
        let unmarked = ir(vec![Inst::Store { stream: 1, val: ZERO }]);
        assert_eq!(verify(&unmarked), Err(IrError::NotMarked(1)));
    }
}
