//! Register allocation: one pass over the loop body, eviction by furthest next use (Belady), spills to the stack.
//!
//! The allocator decides; the target's emitter writes the loads and stores. A value that is a load is never spilled: it is
//! rematerialised from its stream. Loop-carried states are not allocated here: the emitter pins them to registers of their
//! own.

use super::{
    error::EmitError,
    ir::{Inst, Ir, Opcode, Src},
};

/// A vector register by number.
pub(super) type Reg = u8;

/// Where every value is, at the current instruction.
pub(super) struct RegAlloc {
    /// The value in each register.
    values: Vec<Option<usize>>,
    /// The register of each value.
    regs: Vec<Option<Reg>>,
    /// The stack slot of each value that was spilled.
    slots: Vec<Option<usize>>,
    /// The operand that a value is rematerialised from.
    remat: Vec<Option<Src>>,
    /// Instructions that read each value, the last first.
    uses: Vec<Vec<usize>>,
    /// Registers of the current instruction: they cannot be evicted.
    locked: Vec<Reg>,
    spills: usize,
}

impl RegAlloc {
    /// For a loop body and this many registers.
    pub(super) fn new(ir: &Ir, registers: usize) -> Result<RegAlloc, EmitError> {
        let mut uses = vec![Vec::new(); ir.vals];
        let mut remat = vec![None; ir.vals];
        for (at, inst) in ir.insts.iter().enumerate().rev() {
            let reads: &[Src] = match inst {
                Inst::Op { from, to, op } => {
                    if let (Opcode::Load, [mem, ..]) = (op, from) {
                        *entry(&mut remat, "value", *to)? = Some(*mem);
                    }
                    from
                }
                Inst::Store { val, .. } | Inst::SetState { val, .. } => std::slice::from_ref(val),
            };
            for src in reads {
                if let Src::Val(val) = src {
                    entry(&mut uses, "value", *val)?.push(at);
                }
            }
        }
        Ok(RegAlloc {
            values: vec![None; registers],
            regs: vec![None; ir.vals],
            slots: vec![None; ir.vals],
            remat,
            uses,
            locked: Vec::new(),
            spills: 0,
        })
    }

    /// Stack slots that the body needs.
    pub(super) fn spills(&self) -> usize {
        self.spills
    }

    /// The register of a value, if it is in one.
    pub(super) fn reg(&self, val: usize) -> Option<Reg> {
        self.regs.get(val).copied().flatten()
    }

    /// The stack slot of a value, if it was spilled.
    pub(super) fn slot(&self, val: usize) -> Option<usize> {
        self.slots.get(val).copied().flatten()
    }

    /// The operand that a value is rematerialised from, if it is a load.
    pub(super) fn remat(&self, val: usize) -> Option<Src> {
        self.remat.get(val).copied().flatten()
    }

    /// Is a value read after this instruction?
    pub(super) fn is_live_after(&self, val: usize, at: usize) -> bool {
        self.uses.get(val).is_some_and(|u| u.first().is_some_and(|last| *last > at))
    }

    /// No register belongs to the current instruction.
    pub(super) fn unlock_all(&mut self) {
        self.locked.clear();
    }

    /// A register belongs to the current instruction.
    pub(super) fn lock(&mut self, reg: Reg) {
        self.locked.push(reg);
    }

    /// Frees the registers of values that nothing reads after this instruction.
    pub(super) fn release(&mut self, at: usize) -> Result<(), EmitError> {
        for held in &mut self.values {
            let Some(val) = *held else { continue };
            let uses = self.uses.get(val).ok_or(EmitError::Missing { what: "value", at: val })?;
            if uses.first().is_none_or(|last| *last <= at) {
                *held = None;
                *entry(&mut self.regs, "value", val)? = None;
            }
        }
        for uses in &mut self.uses {
            while uses.last().is_some_and(|next| *next <= at) {
                uses.pop();
            }
        }
        Ok(())
    }

    /// Locks a register that can be written: a free one, or the one whose value is needed last. Also the slot that the value
    /// in it has to be stored to first.
    pub(super) fn take(&mut self) -> Result<(Reg, Option<usize>), EmitError> {
        let unlocked = || {
            let all = (0..).zip(&self.values);
            all.filter(|(reg, _)| !self.locked.contains(reg))
        };
        let free = unlocked().find(|(_, held)| held.is_none()).map(|(reg, _)| reg);
        // A value that nothing reads any more is never needed: it goes first.
        let next_use = |held: &Option<usize>| {
            held.and_then(|val| self.uses.get(val)).and_then(|u| u.last().copied()).unwrap_or(usize::MAX)
        };
        let furthest = || unlocked().max_by_key(|(_, held)| next_use(held)).map(|(reg, _)| reg);
        let reg: Reg = free.or_else(furthest).ok_or(EmitError::OutOfRegisters)?;
        let spill = self.evict(reg)?;
        self.locked.push(reg);
        Ok((reg, spill))
    }

    /// Takes a value out of its register; the slot that it has to be stored to.
    fn evict(&mut self, reg: Reg) -> Result<Option<usize>, EmitError> {
        let Some(val) = entry(&mut self.values, "register", usize::from(reg))?.take() else {
            return Ok(None);
        };
        *entry(&mut self.regs, "value", val)? = None;
        if self.remat(val).is_some() || self.slot(val).is_some() {
            return Ok(None);
        }
        let slot = self.spills;
        self.spills += 1;
        *entry(&mut self.slots, "value", val)? = Some(slot);
        Ok(Some(slot))
    }

    /// A value is in this register from here on.
    pub(super) fn assign(&mut self, reg: Reg, val: usize) -> Result<(), EmitError> {
        *entry(&mut self.values, "register", usize::from(reg))? = Some(val);
        *entry(&mut self.regs, "value", val)? = Some(reg);
        Ok(())
    }
}

/// An entry of a table that has to be there.
fn entry<'t, T>(table: &'t mut [T], what: &'static str, at: usize) -> Result<&'t mut T, EmitError> {
    table.get_mut(at).ok_or(EmitError::Missing { what, at })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    /// Three values, read in the order 1, 2, 0 after they are computed.
    fn ir() -> Ir {
        let op = |to, op, src| Inst::Op { to, op, from: [src, Src::None, Src::None] };
        let store = |val| Inst::Store { stream: 0, val: Src::Val(val) };
        Ir {
            insts: vec![
                op(0, Opcode::Copy, Src::State(0)),
                op(1, Opcode::Load, Src::Mem { stream: 0, lag: 1 }),
                op(2, Opcode::Copy, Src::State(0)),
                store(1),
                store(2),
                store(0),
            ],
            vals: 3,
            ..Ir::default()
        }
    }

    #[test]
    fn the_value_with_the_furthest_next_use_is_spilled() {
        let mut alloc = RegAlloc::new(&ir(), 2).unwrap();
        for val in [0, 1] {
            let (reg, spill) = alloc.take().unwrap();
            assert_eq!(spill, None);
            alloc.assign(reg, val).unwrap();
        }
        alloc.unlock_all();
        let (reg, spill) = alloc.take().unwrap();
        assert_eq!((alloc.reg(0), spill), (None, Some(0)), "value 0 is read last");
        alloc.assign(reg, 2).unwrap();
        assert_eq!((alloc.reg(1), alloc.reg(2), alloc.spills()), (Some(1), Some(0), 1));
    }

    #[test]
    fn loads_are_rematerialised_and_locked_registers_stay() {
        let mut alloc = RegAlloc::new(&ir(), 2).unwrap();
        let (first, _) = alloc.take().unwrap();
        alloc.assign(first, 1).unwrap();
        let (second, _) = alloc.take().unwrap();
        alloc.assign(second, 2).unwrap();
        alloc.unlock_all();
        alloc.lock(second);
        let (reg, spill) = alloc.take().unwrap();
        assert_eq!((reg, spill), (first, None), "a load is read again from its stream");
        assert_eq!(alloc.remat(1), Some(Src::Mem { stream: 0, lag: 1 }));
        assert_eq!(alloc.reg(1), None);
    }

    #[test]
    fn dead_values_release_their_registers() {
        let mut alloc = RegAlloc::new(&ir(), 2).unwrap();
        let (reg, _) = alloc.take().unwrap();
        alloc.assign(reg, 1).unwrap();
        alloc.release(2).unwrap();
        assert!(alloc.is_live_after(1, 2) && alloc.reg(1) == Some(reg));
        alloc.release(3).unwrap();
        assert!(!alloc.is_live_after(1, 3) && alloc.reg(1).is_none());
    }

    #[test]
    fn registers_run_out_and_unknown_values_are_errors() {
        let mut alloc = RegAlloc::new(&ir(), 1).unwrap();
        let (reg, _) = alloc.take().unwrap();
        assert_eq!(alloc.take(), Err(EmitError::OutOfRegisters));
        assert_eq!(alloc.assign(reg, 7), Err(EmitError::Missing { what: "value", at: 7 }));
        assert_eq!(alloc.assign(3, 0), Err(EmitError::Missing { what: "register", at: 3 }));
        let mut unknown = ir();
        unknown.vals = 1;
        assert_eq!(RegAlloc::new(&unknown, 2).err(), Some(EmitError::Missing { what: "value", at: 2 }));
    }
}
