//! IR pass: predicates (0 or 1) that are only ever selected by become masks (no bits or all), half the instructions.

use super::{Inst, Ir, Opcode, Src};

/// Turns predicates that only selects read, directly or through `and`, `or` and `xor`, into masks.
pub(super) fn predicates_to_masks(ir: &mut Ir) {
    let mask = mask_values(ir);
    let is_mask = |src: &Src| matches!(src, Src::Val(v) if mask.get(*v) == Some(&true));
    for inst in &mut ir.insts {
        if let Inst::Op { to, op, from: [first, ..] } = inst {
            *op = match *op {
                Opcode::Predicate(test) if mask.get(*to) == Some(&true) => Opcode::Mask(test),
                Opcode::Select if is_mask(first) => Opcode::Blend,
                other => other,
            };
        }
    }
}

fn combines(op: Opcode) -> bool {
    matches!(op, Opcode::Bitwise(_))
}

/// Which values can be masks?
fn mask_values(ir: &Ir) -> Vec<bool> {
    let mut mask = vec![false; ir.vals];
    for inst in &ir.insts {
        if let Inst::Op { to, op, from: [a, b, _] } = inst {
            let both = |mask: &[bool]| {
                [a, b].iter().all(|src| matches!(src, Src::Val(v) if mask.get(*v) == Some(&true)))
            };
            let candidate = matches!(op, Opcode::Predicate(_)) || combines(*op) && both(&mask);
            if candidate && let Some(entry) = mask.get_mut(*to) {
                *entry = true;
            }
        }
    }
    // Fixed point: a value that is read as a number is no mask; then neither is what it is combined to, nor with.
    loop {
        let mut numbers = Vec::new();
        for inst in &ir.insts {
            match inst {
                Inst::Op { to, op, from } if combines(*op) => {
                    let is_mask = |src: &Src| matches!(src, Src::Val(v) if mask.get(*v) == Some(&true));
                    let all = mask.get(*to) == Some(&true) && from.iter().take(2).all(is_mask);
                    if !all {
                        numbers.push(Src::Val(*to));
                        numbers.extend(from);
                    }
                }
                Inst::Op { op: Opcode::Select | Opcode::Blend, from: [_, yes, no], .. } => {
                    numbers.extend([yes, no])
                }
                Inst::Op { from, .. } => numbers.extend(from),
                Inst::Store { val, .. } | Inst::SetState { val, .. } => numbers.push(*val),
            }
        }
        let mut changed = false;
        for src in numbers {
            if let Src::Val(v) = src
                && let Some(entry) = mask.get_mut(v)
            {
                changed |= std::mem::take(entry);
            }
        }
        if !changed {
            return mask;
        }
    }
}
