//! IR passes: dead-store and dead-code elimination, copies before clobbering stores, folding of loads into operands.

use std::collections::{HashMap, HashSet};

use super::{Builder, Inst, Ir, Opcode, Src, masks};
use crate::jit::verify::{self, IrError};

impl Builder<'_> {
    /// Runs the passes and the verifier.
    pub(in crate::jit) fn finish(mut self) -> Result<Ir, IrError> {
        self.drop_dead_stores();
        self.drop_dead_values();
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

    /// Dead-code elimination: what no store and no state needs, recurrences included. Such is the seed of an average, which only
    /// the warm-up reads.
    fn drop_dead_values(&mut self) {
        let mut needed = vec![false; self.ir.vals];
        let mut kept: Vec<Inst> = Vec::with_capacity(self.ir.insts.len());
        for inst in self.ir.insts.drain(..).rev() {
            let reads: &[Src] = match &inst {
                Inst::Op { to, .. } if needed.get(*to) != Some(&true) => continue,
                Inst::Op { from, .. } => from,
                Inst::Store { val, .. } | Inst::SetState { val, .. } => std::slice::from_ref(val),
            };
            for src in reads {
                if let Src::Val(v) = src
                    && let Some(entry) = needed.get_mut(*v)
                {
                    *entry = true;
                }
            }
            kept.push(inst);
        }
        kept.reverse();
        self.ir.insts = kept;
        self.drop_unused_scans();
        self.drop_unused_streams();
    }

    /// Scans that no instruction computes any more, and their states.
    fn drop_unused_scans(&mut self) {
        let mut scans = Vec::new();
        for inst in &mut self.ir.insts {
            if let Inst::Op { op: Opcode::Scan(at), .. } = inst
                && let Some(scan) = self.ir.scans.get(*at)
            {
                *at = scans.len();
                scans.push(*scan);
            }
        }
        if scans.len() < self.ir.scans.len() {
            // Where there are scans, all states are theirs.
            let mut states = Vec::new();
            for scan in &mut scans {
                states.extend(self.ir.states.get(scan.state));
                scan.state = states.len() - 1;
            }
            (self.ir.scans, self.ir.states) = (scans, states);
        }
    }

    /// Streams that are neither read nor written any more.
    fn drop_unused_streams(&mut self) {
        let mut used = vec![false; self.ir.streams.len()];
        let mut mark = |stream: usize| used.iter_mut().skip(stream).take(1).for_each(|used| *used = true);
        for inst in &self.ir.insts {
            if let Inst::Store { stream, .. } = inst {
                mark(*stream);
            }
            let reads: &[Src] = match inst {
                Inst::Op { from, .. } => from,
                Inst::Store { val, .. } | Inst::SetState { val, .. } => std::slice::from_ref(val),
            };
            for src in reads {
                if let Src::Mem { stream, .. } = src {
                    mark(*stream);
                }
            }
        }
        let mut next = 0;
        let numbers: Vec<usize> = used
            .iter()
            .map(|used| {
                next += usize::from(*used);
                next.saturating_sub(1)
            })
            .collect();
        let renumber = |stream: &mut usize| *stream = numbers.get(*stream).copied().unwrap_or(*stream);
        let renumber_src = |src: &mut Src| {
            if let Src::Mem { stream, .. } = src {
                renumber(stream);
            }
        };
        for inst in &mut self.ir.insts {
            match inst {
                Inst::Op { from, .. } => from.iter_mut().for_each(renumber_src),
                Inst::Store { stream, val } => {
                    renumber(stream);
                    renumber_src(val);
                }
                Inst::SetState { val, .. } => renumber_src(val),
            }
        }
        let mut keep = used.iter();
        self.ir.streams.retain(|_| keep.next() == Some(&true));
        let mut keep = used.iter();
        self.ir.written.retain(|_| keep.next() == Some(&true));
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
