//! Which part of a loop needs series side by side? Only what rests on the bar before. What is computed from bars alone, and
//! what is done with the results of the rest, can take several bars of one series at once: columns need not be turned for it.
//!
//! ```text
//!   columns ──► early, series by series ──► cuts, turned ──► rows, eight series abreast ──► cuts, turned ──► late ──► columns
//! ```

use super::{
    emit::straight::Straight,
    ir::{Inst, Ir, Op, Src},
};

/// A loop in three parts; numbers and states are the same in all of them.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) early: Ir,
    pub(super) rows: Ir,
    pub(super) late: Ir,
    /// Values that go from the early part to the rows; those from the rows to the late part have the numbers after them.
    pub(super) inward: usize,
    pub(super) outward: usize,
    /// Which of the columns of bars the rows read.
    pub(super) given: Vec<bool>,
    /// Which of the results the rows write.
    pub(super) results: Vec<bool>,
}

/// What is known about the values of a loop.
struct Look<'i> {
    ir: &'i Ir,
    straight: &'i Straight,
    /// Is it computed from bars and numbers alone?
    early: Vec<bool>,
    /// Does the next bar need it, or somebody who looks back?
    row: Vec<bool>,
    /// Is it only read from memory?
    load: Vec<bool>,
}

impl Split {
    /// `None` where no column less would have to be turned.
    pub(super) fn of(ir: &Ir, straight: &Straight) -> Option<Split> {
        let look = Look::new(ir, straight);
        let inward = look.inward();
        let outward = look.outward();
        let cuts = |src: Src| match src {
            Src::Val(v) => position(&inward, v).or(position(&outward, v).map(|at| inward.len() + at)),
            _ => None,
        };
        let part = |keep: &dyn Fn(&Inst) -> bool, from_rows: bool, puts: &[usize], first: usize| {
            let replace = |src: Src| match cuts(src) {
                // A part has what it computes itself.
                Some(at) if from_rows == (at < inward.len()) || !from_rows => Src::Cut(at),
                _ => src,
            };
            let mut insts = Vec::new();
            for inst in ir.insts.iter().filter(|inst| keep(inst)) {
                let mut inst = *inst;
                match &mut inst {
                    Inst::Op { from, .. } => from.iter_mut().for_each(|src| *src = replace(*src)),
                    Inst::Store { val, .. } | Inst::SetState { val, .. } | Inst::Put { val, .. } => {
                        *val = replace(*val);
                    }
                }
                let made = if let Inst::Op { to, .. } = inst { position(puts, to) } else { None };
                insts.push(inst);
                if let (Some(at), Inst::Op { to, .. }) = (made, inst) {
                    insts.push(Inst::Put { cut: first + at, val: Src::Val(to) });
                }
            }
            Ir { insts, ..ir.same_without_insts() }
        };
        let rows = part(&|inst| look.is_row(inst), true, &outward, inward.len());
        let (needed_early, needed_late) = (look.closure(&inward, &[]), look.closure(&look.ends(), &inward));
        let of = |needed: &[bool], inst: &Inst| matches!(inst, Inst::Op { to, .. } if needed.get(*to) == Some(&true));
        let early = {
            let mut early = ir.same_without_insts();
            for inst in ir.insts.iter().filter(|inst| of(&needed_early, inst)) {
                early.insts.push(*inst);
                if let Inst::Op { to, .. } = inst
                    && let Some(cut) = position(&inward, *to)
                {
                    early.insts.push(Inst::Put { cut, val: Src::Val(*to) });
                }
            }
            early
        };
        let late = part(&|inst| of(&needed_late, inst) || look.is_late_store(inst), false, &[], 0);
        let given: Vec<bool> = straight.given.iter().map(|stream| reads(&rows, *stream)).collect();
        let results: Vec<bool> = straight.results.iter().map(|stream| writes(&rows, *stream)).collect();
        let count = |all: &[bool]| all.iter().filter(|x| **x).count();
        let turned = inward.len() + outward.len() + count(&given) + count(&results);
        let before = straight.given.len() + straight.results.len();
        let (inward, outward) = (inward.len(), outward.len());
        (turned < before).then_some(Split { early, rows, late, inward, outward, given, results })
    }
}

fn position(all: &[usize], v: usize) -> Option<usize> {
    all.iter().position(|x| *x == v)
}

fn sources(inst: &Inst) -> &[Src] {
    match inst {
        Inst::Op { from, .. } => from,
        Inst::Store { val, .. } | Inst::SetState { val, .. } | Inst::Put { val, .. } => std::slice::from_ref(val),
    }
}

fn reads(ir: &Ir, stream: usize) -> bool {
    let reads = |src: &Src| matches!(src, Src::Mem { stream: s, .. } if *s == stream);
    ir.insts.iter().any(|inst| sources(inst).iter().any(reads))
}

fn writes(ir: &Ir, stream: usize) -> bool {
    ir.insts.iter().any(|inst| matches!(inst, Inst::Store { stream: s, .. } if *s == stream))
}

fn mark(all: &mut [bool], at: usize) {
    all.iter_mut().skip(at).take(1).for_each(|x| *x = true);
}

impl<'i> Look<'i> {
    fn new(ir: &'i Ir, straight: &'i Straight) -> Self {
        let none = || vec![false; ir.vals];
        let mut look = Look { ir, straight, early: none(), row: none(), load: none() };
        for inst in &ir.insts {
            if let Inst::Op { to, op, from } = inst {
                if from.iter().all(|src| look.is_early(*src)) {
                    mark(&mut look.early, *to);
                }
                if *op == Op::Load {
                    mark(&mut look.load, *to);
                }
            }
        }
        for inst in ir.insts.iter().rev() {
            let own = match inst {
                Inst::Op { to, from, .. } => {
                    let needed = look.row.get(*to) == Some(&true);
                    let early = look.early.get(*to) == Some(&true);
                    needed && !early || from.iter().any(|src| look.is_of_rows(*src))
                }
                Inst::SetState { .. } | Inst::Put { .. } => true,
                Inst::Store { stream, val } => !look.is_result(*stream) || look.is_of_rows(*val),
            };
            if own {
                if let Inst::Op { to, .. } = inst {
                    mark(&mut look.row, *to);
                }
                for src in sources(inst) {
                    if let Src::Val(v) = src {
                        mark(&mut look.row, *v);
                    }
                }
            }
        }
        look
    }

    /// Is it there before any row?
    fn is_early(&self, src: Src) -> bool {
        match src {
            Src::Const(_) => true,
            Src::Mem { stream, .. } => self.is_given(stream),
            Src::Val(v) => self.early.get(v) == Some(&true),
            Src::State(_) | Src::Cut(_) => false,
        }
    }

    /// Is it there only while rows are computed?
    fn is_of_rows(&self, src: Src) -> bool {
        match src {
            Src::State(_) => true,
            Src::Mem { stream, .. } => !self.is_given(stream),
            _ => false,
        }
    }

    fn is_given(&self, stream: usize) -> bool {
        self.straight.given.contains(&stream) && self.ir.written.get(stream) != Some(&true)
    }

    /// Is a stream a result that nobody else reads?
    fn is_result(&self, stream: usize) -> bool {
        self.straight.results.contains(&stream)
            && self.straight.moving.get(stream) != Some(&true)
            && !self.straight.given.contains(&stream)
            && !reads(self.ir, stream)
    }

    /// Is it computed among the rows?
    fn is_row_value(&self, v: usize) -> bool {
        self.row.get(v) == Some(&true) && self.early.get(v) != Some(&true)
    }

    fn is_load(&self, v: usize) -> bool {
        self.load.get(v) == Some(&true)
    }

    /// Does an instruction belong to the rows? Loads do, where rows read them.
    fn is_row(&self, inst: &Inst) -> bool {
        match inst {
            Inst::Op { to, op: Op::Load, .. } => self.row.get(*to) == Some(&true),
            Inst::Op { to, .. } => self.is_row_value(*to),
            Inst::SetState { .. } | Inst::Put { .. } => true,
            Inst::Store { .. } => !self.is_late_store(inst),
        }
    }

    /// Is a result written by the late part? Not one that rows have anyway and nobody reads after them.
    fn is_late_store(&self, inst: &Inst) -> bool {
        let Inst::Store { stream, val: Src::Val(v) } = inst else { return false };
        self.is_result(*stream) && (!self.is_row_value(*v) || self.is_read_late(*v))
    }

    /// Does an instruction after the rows read it?
    fn is_read_late(&self, v: usize) -> bool {
        let late = |inst: &&Inst| matches!(inst, Inst::Op { to, .. } if self.row.get(*to) != Some(&true));
        self.ir.insts.iter().filter(late).any(|inst| sources(inst).contains(&Src::Val(v)))
    }

    /// Values that rows read and that are there before: computed ones, since columns are turned as they are.
    fn inward(&self) -> Vec<usize> {
        let computed = |v: &usize| self.early.get(*v) == Some(&true) && !self.is_load(*v);
        let rows = self.ir.insts.iter().filter(|inst| self.is_row(inst));
        unique(rows.flat_map(sources).filter_map(val).filter(computed))
    }

    /// Values of rows that are read after them.
    fn outward(&self) -> Vec<usize> {
        let late = self.ir.insts.iter().filter(|inst| match inst {
            Inst::Op { to, .. } => self.row.get(*to) != Some(&true),
            _ => self.is_late_store(inst),
        });
        unique(late.flat_map(sources).filter_map(val).filter(|v| self.is_row_value(*v)))
    }

    /// What the late part writes.
    fn ends(&self) -> Vec<usize> {
        unique(self.ir.insts.iter().filter(|i| self.is_late_store(i)).flat_map(sources).filter_map(val))
    }

    /// What has to be computed for these values where some are there and rows cannot be asked.
    fn closure(&self, wanted: &[usize], there: &[usize]) -> Vec<bool> {
        let mut needed = vec![false; self.ir.vals];
        let wants = |needed: &mut Vec<bool>, v: usize| {
            if !there.contains(&v) && !self.is_row_value(v) {
                mark(needed, v);
            }
        };
        wanted.iter().for_each(|v| wants(&mut needed, *v));
        for inst in self.ir.insts.iter().rev() {
            if let Inst::Op { to, from, .. } = inst
                && needed.get(*to) == Some(&true)
            {
                from.iter().filter_map(val).for_each(|v| wants(&mut needed, v));
            }
        }
        needed
    }
}

fn val(src: &Src) -> Option<usize> {
    if let Src::Val(v) = src { Some(*v) } else { None }
}

fn unique(all: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut found = Vec::new();
    all.for_each(|v| {
        if !found.contains(&v) {
            found.push(v);
        }
    });
    found
}
