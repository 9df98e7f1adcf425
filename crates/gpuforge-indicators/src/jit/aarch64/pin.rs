//! Pinned constants: those of a loop that stay in registers, the most used first.
//!
//! AArch64 instructions have no memory operands, so that a constant from memory is a load per use and iteration. Registers that
//! no value needs save it; how many those are, the emitter finds by trying.

use crate::jit::{
    ir::{Inst, Ir, Opcode, ScanKind, Src},
    regalloc::Reg,
    target::Width,
};

/// A constant and one of the halves of its vector. Of a constant that is the same four times, the first.
pub(super) type HalfConstant = (usize, u8);

/// Constants in registers of their own.
#[derive(Debug, Default)]
pub(super) struct PinnedConstants(Vec<(HalfConstant, Reg)>);

impl PinnedConstants {
    /// The most used constants of a loop, as many as there are registers.
    pub(super) fn choose(ir: &Ir, width: Width, regs: impl Iterator<Item = Reg>) -> PinnedConstants {
        let mut counts: Vec<(HalfConstant, usize)> = Vec::new();
        let mut count = |constant: HalfConstant| match counts.iter_mut().find(|(c, _)| *c == constant) {
            Some((_, uses)) => *uses += 1,
            None => counts.push((constant, 1)),
        };
        let ones = ones(ir);
        for inst in &ir.insts {
            if let Inst::Op { op: Opcode::Predicate(_) | Opcode::Logical(_), .. } = inst {
                ones.into_iter().for_each(&mut count);
            }
            match inst {
                Inst::Op { op: Opcode::Scan(at), .. } if width == Width::Eight => {
                    scan_constants(ir, *at).into_iter().for_each(&mut count);
                }
                Inst::Op { op: Opcode::Scan(at), .. } => {
                    if let Some(ScanKind::Ema(powers)) = ir.scans.get(*at).map(|scan| scan.kind) {
                        count((powers.k, 0));
                    }
                }
                Inst::Op { from, .. } => from.iter().for_each(|src| {
                    if let Src::Const(at) = src {
                        count((*at, 0));
                    }
                }),
                Inst::Store { .. } | Inst::SetState { .. } => {}
            }
        }
        // Stable: of equals, the one that is used first.
        counts.sort_by_key(|(_, uses)| std::cmp::Reverse(*uses));
        PinnedConstants(counts.into_iter().map(|(constant, _)| constant).zip(regs).collect())
    }

    /// The register of a constant, if it has one.
    pub(super) fn reg(&self, constant: HalfConstant) -> Option<Reg> {
        self.0.iter().find(|(c, _)| *c == constant).map(|(_, reg)| *reg)
    }

    /// All of them, for the prologue.
    pub(super) fn all(&self) -> Vec<(HalfConstant, Reg)> {
        self.0.clone()
    }
}

/// The constant 1, if the table has it.
pub(super) fn ones(ir: &Ir) -> Option<HalfConstant> {
    ir.consts.iter().position(|c| *c == [1f64.to_bits(); 4]).map(|at| (at, 0))
}

/// Constants that the code of a scan over eight bars reads.
fn scan_constants(ir: &Ir, at: usize) -> Vec<HalfConstant> {
    let Some(scan) = ir.scans.get(at) else { return Vec::new() };
    match scan.kind {
        ScanKind::Ema(powers) => {
            let (early, late) = (powers.powers_1_to_4, powers.powers_5_to_8);
            vec![
                (scan.round1, 0),
                (scan.round2, 1),
                (powers.k, 0),
                (early, 0),
                (early, 1),
                (late, 0),
                (late, 1),
            ]
        }
        _ => ones(ir).into_iter().chain([(scan.round1, 0)]).collect(),
    }
}
