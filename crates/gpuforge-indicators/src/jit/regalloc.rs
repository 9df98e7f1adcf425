//! Register allocation: one pass over the loop body, eviction by furthest next use (Belady), spills to the stack.
//!
//! The allocator decides; the target's emitter writes the loads and stores. A value that is a load is never spilled: it is
//! rematerialised from its stream. Loop-carried states are not allocated here: the emitter pins them to registers of their
//! own.

use super::ir::{Inst, Ir, Opcode, Src};

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
    pub(super) fn new(ir: &Ir, registers: usize) -> RegAlloc {
        let mut uses = vec![Vec::new(); ir.vals];
        let mut remat = vec![None; ir.vals];
        for (at, inst) in ir.insts.iter().enumerate().rev() {
            let mut note = |src: &Src| {
                if let Src::Val(v) = src {
                    uses.iter_mut().skip(*v).take(1).for_each(|u: &mut Vec<usize>| u.push(at));
                }
            };
            match inst {
                Inst::Op { from, to, op } => {
                    from.iter().for_each(&mut note);
                    if *op == Opcode::Load {
                        remat.iter_mut().skip(*to).take(1).for_each(|s| *s = from.first().copied());
                    }
                }
                Inst::Store { val, .. } | Inst::SetState { val, .. } => note(val),
            }
        }
        RegAlloc {
            values: vec![None; registers],
            regs: vec![None; ir.vals],
            slots: vec![None; ir.vals],
            remat,
            uses,
            locked: Vec::new(),
            spills: 0,
        }
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
    pub(super) fn release(&mut self, at: usize) {
        for held in &mut self.values {
            let Some(val) = *held else { continue };
            let dead = self.uses.get(val).is_none_or(|u| u.first().is_none_or(|last| *last <= at));
            if dead {
                *held = None;
                self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = None);
            }
        }
        for uses in &mut self.uses {
            while uses.last().is_some_and(|next| *next <= at) {
                uses.pop();
            }
        }
    }

    /// Locks a register that can be written: a free one, or the one whose value is needed last. Also the slot that the value
    /// in it has to be stored to first.
    pub(super) fn take(&mut self) -> (Reg, Option<usize>) {
        let free = (0..self.values.len())
            .find(|r| self.values.get(*r) == Some(&None) && !self.locked.contains(&(*r as Reg)));
        let reg = free.unwrap_or_else(|| {
            let next_use = |reg: usize| {
                let val = self.values.get(reg).copied().flatten();
                val.and_then(|v| self.uses.get(v)).and_then(|u| u.last().copied()).unwrap_or(usize::MAX)
            };
            let candidates = (0..self.values.len()).filter(|r| !self.locked.contains(&(*r as Reg)));
            candidates.max_by_key(|r| next_use(*r)).unwrap_or(0)
        });
        let spill = self.evict(reg);
        self.locked.push(reg as Reg);
        (reg as Reg, spill)
    }

    /// Takes a value out of its register; the slot that it has to be stored to.
    fn evict(&mut self, reg: usize) -> Option<usize> {
        let val = self.values.get_mut(reg).and_then(Option::take)?;
        self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = None);
        if self.remat(val).is_some() || self.slot(val).is_some() {
            return None;
        }
        let slot = self.spills;
        self.spills += 1;
        self.slots.iter_mut().skip(val).take(1).for_each(|s| *s = Some(slot));
        Some(slot)
    }

    /// A value is in this register from here on.
    pub(super) fn assign(&mut self, reg: Reg, val: usize) {
        self.values.iter_mut().skip(usize::from(reg)).take(1).for_each(|held| *held = Some(val));
        self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = Some(reg));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three values, read in the order 1, 2, 0 after they are computed.
    fn ir() -> Ir {
        let op = |to, op, src| Inst::Op { to, op, from: [src, Src::Const(0), Src::Const(0)] };
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
        let mut alloc = RegAlloc::new(&ir(), 2);
        for val in [0, 1] {
            let (reg, spill) = alloc.take();
            assert_eq!(spill, None);
            alloc.assign(reg, val);
        }
        alloc.unlock_all();
        let (reg, spill) = alloc.take();
        assert_eq!((alloc.reg(0), spill), (None, Some(0)), "value 0 is read last");
        alloc.assign(reg, 2);
        assert_eq!((alloc.reg(1), alloc.reg(2), alloc.spills()), (Some(1), Some(0), 1));
    }

    #[test]
    fn loads_are_rematerialised_and_locked_registers_stay() {
        let mut alloc = RegAlloc::new(&ir(), 2);
        let (first, _) = alloc.take();
        alloc.assign(first, 1);
        let (second, _) = alloc.take();
        alloc.assign(second, 2);
        alloc.unlock_all();
        alloc.lock(second);
        let (reg, spill) = alloc.take();
        assert_eq!((reg, spill), (first, None), "a load is read again from its stream");
        assert_eq!(alloc.remat(1), Some(Src::Mem { stream: 0, lag: 1 }));
        assert_eq!(alloc.reg(1), None);
    }

    #[test]
    fn dead_values_release_their_registers() {
        let mut alloc = RegAlloc::new(&ir(), 2);
        let (reg, _) = alloc.take();
        alloc.assign(reg, 1);
        alloc.release(2);
        assert!(alloc.is_live_after(1, 2) && alloc.reg(1) == Some(reg));
        alloc.release(3);
        assert!(!alloc.is_live_after(1, 3) && alloc.reg(1).is_none());
    }
}
