//! IR verifier: is every value defined before it is read, and is what a load names still there when it is read?
//!
//! Loads are lazy: a value that stands for a column in memory is read where it is used, and read again after its register was
//! taken. So between a load and its last use nobody may store to that column. The register allocator and the encoder rely
//! on everything that is checked here; a group that fails is not compiled, its steps run as kernels.

use super::{Inst, Ir, Op, Src};

/// Why a group of steps is not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum Fault {
    #[error("value {0} is read before it is computed")]
    Undefined(usize),
    #[error("value {0} is computed twice")]
    Redefined(usize),
    #[error("value {load} is read after column {stream}, which it stands for, was stored to")]
    Clobbered { load: usize, stream: usize },
    #[error("column {stream} is read {lag} bars ago, {back} are kept")]
    Lag { stream: usize, lag: usize, back: usize },
    #[error("there is no {what} {at}")]
    Missing { what: &'static str, at: usize },
    #[error("state {0} is read after it was set for the next bar")]
    StaleState(usize),
    #[error("state {0} is set twice")]
    StateSetTwice(usize),
    #[error("column {0} is marked as written and is not")]
    NeverStored(usize),
    #[error("constant {0} is needed and not in the table")]
    NoConstant(u8),
}

/// What the instructions before this one have done.
struct Seen {
    defined: Vec<bool>,
    /// The column that a load stands for, and how many stores that column had seen.
    loads: Vec<Option<(usize, usize)>>,
    stores: Vec<usize>,
    set: Vec<bool>,
}

impl Seen {
    fn new(ir: &Ir) -> Seen {
        Seen {
            defined: vec![false; ir.vals],
            loads: vec![None; ir.vals],
            stores: vec![0; ir.streams.len()],
            set: vec![false; ir.states.len()],
        }
    }

    /// The column that was stored to since this load, if its value is one.
    fn clobbered(&self, val: usize) -> Option<usize> {
        let (stream, stores) = self.loads.get(val).copied().flatten()?;
        (self.stores.get(stream) != Some(&stores)).then_some(stream)
    }

    fn store(&mut self, stream: usize) {
        if let Some(stores) = self.stores.get_mut(stream) {
            *stores += 1;
        }
    }

    fn define(&mut self, inst: &Inst) -> Result<(), Fault> {
        let Inst::Op { to, op, from: [first, ..] } = inst else { return Ok(()) };
        match self.defined.get_mut(*to) {
            None => return Err(Fault::Missing { what: "value", at: *to }),
            Some(defined) if *defined => return Err(Fault::Redefined(*to)),
            Some(defined) => *defined = true,
        }
        if let (Op::Load, Src::Mem { stream, .. }, Some(load)) = (op, first, self.loads.get_mut(*to)) {
            *load = Some((*stream, self.stores.get(*stream).copied().unwrap_or(0)));
        }
        Ok(())
    }

    fn read(&self, ir: &Ir, src: Src) -> Result<(), Fault> {
        match src {
            Src::ValueId(val) => match (self.defined.get(val), self.clobbered(val)) {
                (Some(true), None) => Ok(()),
                (Some(true), Some(stream)) => Err(Fault::Clobbered { load: val, stream }),
                _ => Err(Fault::Undefined(val)),
            },
            Src::Mem { stream, lag } => match ir.streams.get(stream) {
                Some((_, back)) if lag <= *back => Ok(()),
                Some((_, back)) => Err(Fault::Lag { stream, lag, back: *back }),
                None => Err(Fault::Missing { what: "column", at: stream }),
            },
            Src::Const(at) if at < ir.consts.len() => Ok(()),
            Src::Const(at) => Err(Fault::Missing { what: "constant", at }),
            Src::State(state) => match self.set.get(state) {
                Some(false) => Ok(()),
                Some(true) => Err(Fault::StaleState(state)),
                None => Err(Fault::Missing { what: "state", at: state }),
            },
        }
    }

    fn set_state(&mut self, state: usize) -> Result<(), Fault> {
        match self.set.get_mut(state) {
            None => Err(Fault::Missing { what: "state", at: state }),
            Some(true) => Err(Fault::StateSetTwice(state)),
            Some(set) => {
                *set = true;
                Ok(())
            }
        }
    }
}

/// Is what the encoder will be given well-formed?
pub(super) fn verify(ir: &Ir) -> Result<(), Fault> {
    let mut seen = Seen::new(ir);
    for inst in &ir.insts {
        match inst {
            Inst::Op { op, from, .. } => {
                from.iter().try_for_each(|src| seen.read(ir, *src))?;
                if let Op::Scan(at) = op {
                    let scan = ir.scans.get(*at).ok_or(Fault::Missing { what: "scan", at: *at })?;
                    seen.read(ir, Src::State(scan.state))?;
                    seen.set_state(scan.state)?;
                }
                constants(ir, *op)?;
                seen.define(inst)?;
            }
            Inst::Store { stream, val } => {
                seen.read(ir, *val)?;
                if *stream >= ir.streams.len() {
                    return Err(Fault::Missing { what: "column", at: *stream });
                }
                seen.store(*stream);
            }
            Inst::SetState { state, val } => {
                seen.read(ir, *val)?;
                seen.set_state(*state)?;
            }
        }
    }
    let unwritten =
        ir.written.iter().zip(&seen.stores).position(|(written, stores)| *written && *stores == 0);
    unwritten.map_or(Ok(()), |stream| Err(Fault::NeverStored(stream)))
}

/// Constants that the encoder looks up by their value.
fn constants(ir: &Ir, op: Op) -> Result<(), Fault> {
    let needed: &[u8] = match op {
        Op::Truth(_) => &[1],
        Op::Both(_) | Op::Sign => &[0, 1],
        Op::Div0 | Op::Select => &[0],
        _ => &[],
    };
    let is_there = |x: u8| ir.consts.contains(&[f64::from(x).to_bits(); 4]);
    needed.iter().find(|x| !is_there(**x)).map_or(Ok(()), |x| Err(Fault::NoConstant(*x)))
}

/// Loads that are read after their column was stored to.
pub(super) fn clobbered_loads(ir: &Ir) -> impl Iterator<Item = usize> {
    let mut seen = Seen::new(ir);
    let mut found = Vec::new();
    for inst in &ir.insts {
        let (reads, store): (&[Src], _) = match inst {
            Inst::Op { from, .. } => (from, None),
            Inst::Store { stream, val } => (std::slice::from_ref(val), Some(*stream)),
            Inst::SetState { val, .. } => (std::slice::from_ref(val), None),
        };
        found.extend(reads.iter().filter_map(|src| match src {
            Src::ValueId(val) => seen.clobbered(*val).map(|_| *val),
            _ => None,
        }));
        // A value that is defined twice is the verifier's to find.
        let _ = seen.define(inst);
        store.into_iter().for_each(|stream| seen.store(stream));
    }
    found.into_iter()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use crate::native::asm;

    const ZERO: Src = Src::Const(0);

    fn op(to: usize, op: Op, from: &[Src]) -> Inst {
        let mut all = [ZERO; 3];
        all.iter_mut().zip(from).for_each(|(slot, src)| *slot = *src);
        Inst::Op { to, op, from: all }
    }

    fn load(to: usize, stream: usize) -> Inst {
        op(to, Op::Load, &[Src::Mem { stream, lag: 0 }])
    }

    fn add(to: usize, a: Src, b: Src) -> Inst {
        op(to, Op::Plain(asm::ADD), &[a, b])
    }

    /// Two columns, two states, constants 0 and 1.
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

    #[track_caller]
    fn check(insts: Vec<Inst>, want: Result<(), Fault>) {
        assert_eq!(verify(&ir(insts)), want);
    }

    /// The fault that gave `adx` wrong values beside `wavetrend`: a load of a buffer that is reused before its last use.
    #[test]
    fn a_load_does_not_outlive_a_store_to_its_column() {
        let insts = vec![
            load(0, 0),
            Inst::Store { stream: 0, val: Src::Const(1) },
            add(1, Src::ValueId(0), Src::Const(1)),
        ];
        assert_eq!(clobbered_loads(&ir(insts.clone())).collect::<Vec<_>>(), [0]);
        check(insts, Err(Fault::Clobbered { load: 0, stream: 0 }));
        let copied = vec![
            op(0, Op::Copy, &[Src::Mem { stream: 0, lag: 0 }]),
            Inst::Store { stream: 0, val: Src::Const(1) },
            add(1, Src::ValueId(0), Src::Const(1)),
        ];
        check(copied, Ok(()));
        let before = vec![load(0, 0), add(1, Src::ValueId(0), ZERO), Inst::Store { stream: 0, val: Src::ValueId(1) }];
        assert_eq!(clobbered_loads(&ir(before.clone())).count(), 0);
        check(before, Ok(()));
        let other = vec![
            load(0, 0),
            Inst::Store { stream: 1, val: ZERO },
            add(1, Src::ValueId(0), ZERO),
            // Loaded again after the store: what was stored is meant.
            load(2, 1),
            add(3, Src::ValueId(2), ZERO),
        ];
        check(other, Ok(()));
    }

    #[test]
    fn values_states_columns_and_constants_are_there() {
        check(vec![add(0, Src::ValueId(1), ZERO), load(1, 0)], Err(Fault::Undefined(1)));
        check(vec![add(0, Src::ValueId(9), ZERO)], Err(Fault::Undefined(9)));
        check(vec![load(0, 0), load(0, 1)], Err(Fault::Redefined(0)));
        check(vec![load(0, 5)], Err(Fault::Missing { what: "column", at: 5 }));
        check(vec![add(0, Src::Const(2), ZERO)], Err(Fault::Missing { what: "constant", at: 2 }));
        let ago = |lag| vec![add(0, Src::Mem { stream: 1, lag }, ZERO)];
        check(ago(3), Ok(()));
        check(ago(4), Err(Fault::Lag { stream: 1, lag: 4, back: 3 }));
        let set = |state| Inst::SetState { state, val: ZERO };
        check(vec![set(0), add(0, Src::State(0), ZERO)], Err(Fault::StaleState(0)));
        check(vec![set(1), add(0, Src::State(0), ZERO), set(0)], Ok(()));
        check(vec![set(1), set(1)], Err(Fault::StateSetTwice(1)));
        check(vec![set(2)], Err(Fault::Missing { what: "state", at: 2 }));
        check(vec![op(0, Op::Scan(0), &[ZERO])], Err(Fault::Missing { what: "scan", at: 0 }));
    }

    #[test]
    fn what_is_marked_is_stored_and_what_is_looked_up_is_there() {
        let mut missing = ir(vec![load(0, 0)]);
        missing.written = vec![false, true];
        assert_eq!(verify(&missing), Err(Fault::NeverStored(1)));
        let mut none = ir(vec![op(0, Op::Truth(asm::Test::Less), &[ZERO, ZERO])]);
        assert_eq!(verify(&none), Ok(()));
        none.consts.truncate(1);
        assert_eq!(verify(&none), Err(Fault::NoConstant(1)));
    }
}
