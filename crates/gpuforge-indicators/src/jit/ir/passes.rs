//! IR passes: dead-store elimination, copies before clobbering stores, folding of loads into operands.

use std::collections::{HashMap, HashSet};

use super::{Builder, Inst, Ir, Opcode, Src, masks};
use crate::jit::verify::{self, IrError};

impl Builder<'_> {
    /// Runs the passes and the verifier.
    pub(in crate::jit) fn finish(mut self) -> Result<Ir, IrError> {
        self.drop_dead_stores();
        self.copy_before_stores()?;
        verify::verify(&self.ir)?;
        self.inline_single_loads();
        masks::predicates_to_masks(&mut self.ir);
        // Again: what the passes made is what the emitter is given.
        verify::verify(&self.ir)?;
        Ok(self.ir)
    }

    /// A load that is still read after a store to its stream becomes a copy: a buffer is reused as soon as the last *step*
    /// that reads it has run, but a step that only renames a value (`FillWarmup`, `Shift`) hands the load itself on.
    fn copy_before_stores(&mut self) -> Result<(), IrError> {
        let clobbered = verify::clobbered_loads(&self.ir)?;
        for inst in &mut self.ir.insts {
            if let Inst::Op { to, op: op @ Opcode::Load, .. } = inst
                && clobbered.contains(to)
            {
                *op = Opcode::Copy;
            }
        }
        Ok(())
    }

    /// Dead stores: a buffer that is reused inside the loop, whose earlier values are never loaded.
    fn drop_dead_stores(&mut self) {
        let mut read = HashSet::new();
        for inst in &self.ir.insts {
            if let Inst::Op { from, .. } = inst {
                read.extend(from.iter().filter_map(|src| match src {
                    Src::Mem { stream, .. } => Some(*stream),
                    _ => None,
                }));
            }
        }
        let mut later = HashSet::new();
        let mut kept: Vec<Inst> = Vec::with_capacity(self.ir.insts.len());
        for inst in self.ir.insts.drain(..).rev() {
            match inst {
                Inst::Store { stream, .. } if !later.insert(stream) && !read.contains(&stream) => {}
                inst => kept.push(inst),
            }
        }
        kept.reverse();
        self.ir.insts = kept;
    }

    /// A load with a single use becomes a memory operand of that instruction.
    fn inline_single_loads(&mut self) {
        let mut uses = vec![0usize; self.ir.vals];
        let mut count = |src: &Src| {
            if let Src::Val(v) = src
                && let Some(uses) = uses.get_mut(*v)
            {
                *uses += 1;
            }
        };
        for inst in &self.ir.insts {
            match inst {
                Inst::Op { from, .. } => from.iter().for_each(&mut count),
                Inst::Store { val, .. } | Inst::SetState { val, .. } => count(val),
            }
        }
        let mut inlined: HashMap<usize, Src> = HashMap::new();
        for inst in &self.ir.insts {
            if let Inst::Op { to, op: Opcode::Load, from: [mem, ..] } = inst
                && uses.get(*to).is_some_and(|u| *u == 1)
            {
                inlined.insert(*to, *mem);
            }
        }
        let replace = |src: &mut Src| {
            if let Src::Val(v) = src
                && let Some(mem) = inlined.get(v)
            {
                *src = *mem;
            }
        };
        for inst in &mut self.ir.insts {
            match inst {
                Inst::Op { from, .. } => from.iter_mut().for_each(replace),
                Inst::Store { val, .. } | Inst::SetState { val, .. } => replace(val),
            }
        }
        self.ir.insts.retain(|inst| match inst {
            Inst::Op { to, .. } => !inlined.contains_key(to),
            _ => true,
        });
    }
}

/// Streams that are read and then overwritten: a loop that has to be undone needs a copy of them.
pub(in crate::jit) fn overwritten_streams(ir: &Ir) -> Vec<usize> {
    let is_read = |stream: usize| {
        ir.insts.iter().any(|inst| match inst {
            Inst::Op { from, .. } => {
                from.iter().any(|src| matches!(src, Src::Mem { stream: s, .. } if *s == stream))
            }
            Inst::Store { val, .. } | Inst::SetState { val, .. } => {
                matches!(val, Src::Mem { stream: s, .. } if *s == stream)
            }
        })
    };
    let written = ir.written.iter().enumerate().filter(|(_, written)| **written);
    written.map(|(stream, _)| stream).filter(|stream| is_read(*stream)).collect()
}
