//! Which truths are never numbers? Those that only choose, or only are part of truths that only choose: all bits or none say
//! it with half the instructions.

use super::{Inst, Ir, Op, Src};
use crate::native::asm;

/// Turns truths that only choose into masks.
pub(super) fn of(ir: &mut Ir) {
    let mask = found(ir);
    let is = |src: &Src| matches!(src, Src::ValueId(v) if mask.get(*v) == Some(&true));
    for inst in &mut ir.insts {
        if let Inst::Op { to, op, from: [first, ..] } = inst {
            *op = match *op {
                Op::Truth(test) if mask.get(*to) == Some(&true) => Op::Mask(test),
                Op::Select if is(first) => Op::Blend,
                other => other,
            };
        }
    }
}

fn joins(op: Op) -> bool {
    matches!(op, Op::Bits(code) if code == asm::AND || code == asm::OR)
}

/// Which values can be masks?
fn found(ir: &Ir) -> Vec<bool> {
    let mut mask = vec![false; ir.vals];
    for inst in &ir.insts {
        if let Inst::Op { to, op, from: [a, b, _] } = inst {
            let both = |mask: &[bool]| {
                [a, b].iter().all(|src| matches!(src, Src::ValueId(v) if mask.get(*v) == Some(&true)))
            };
            if matches!(op, Op::Truth(_)) || joins(*op) && both(&mask) {
                mask.iter_mut().skip(*to).take(1).for_each(|m| *m = true);
            }
        }
    }
    // One that is read as a number is none; then what joins it is none, and neither are the others that are joined.
    loop {
        let mut not = Vec::new();
        for inst in &ir.insts {
            match inst {
                Inst::Op { to, op, from } if joins(*op) => {
                    let is = |src: &Src| matches!(src, Src::ValueId(v) if mask.get(*v) == Some(&true));
                    let all = mask.get(*to) == Some(&true) && from.iter().take(2).all(is);
                    if !all {
                        not.push(Src::ValueId(*to));
                        not.extend(from);
                    }
                }
                Inst::Op { op: Op::Select | Op::Blend, from: [_, yes, no], .. } => not.extend([yes, no]),
                Inst::Op { from, .. } => not.extend(from),
                Inst::Store { val, .. } | Inst::SetState { val, .. } => not.push(*val),
            }
        }
        let mut changed = false;
        for src in not {
            if let Src::ValueId(v) = src {
                mask.iter_mut().skip(v).take(1).filter(|m| **m).for_each(|m| {
                    *m = false;
                    changed = true;
                });
            }
        }
        if !changed {
            return mask;
        }
    }
}
