//! Prefix scans in AArch64: the Sklansky network of [`crate::jit::ir::Scan`], two bars to a register, with `fmla`.
//!
//! The operations of each element and their order are those of the x86-64 code, so that relaxed results have the same bits on
//! both. Two things are left out, as results stay the same: adding 0 times an earlier bar to elements that a round leaves as they
//! are, and computing the last bar, the next state, a second time. (A sum of nothing but -0 keeps its sign here; there, it may
//! become 0.) `fmla` by element multiplies by one bar without broadcasting it first.

use super::{
    Element, Form,
    emit::{EXTRA, Emitter, MEMORY, STATES, STRIDE, TEMP, slot_offset},
};
use crate::jit::{
    error::EmitError,
    ir::{Arith, Bitwise, EmaPowers, Scan, ScanKind, Src},
    regalloc::{Reg, RegAlloc},
    target::Width,
};

/// The registers of a group.
fn parts(first: Reg) -> [Reg; 4] {
    [0, 1, 2, 3].map(|part| first + STRIDE * part)
}

impl Emitter<'_> {
    /// The values of a recurrence over the bars of an iteration.
    pub(super) fn scan(
        &mut self,
        place: (usize, usize),
        scan: usize,
        from: [Src; 2],
    ) -> Result<(), EmitError> {
        let missing = EmitError::Missing { what: "scan", at: scan };
        let scan = self.ir.scans.get(scan).copied().ok_or(missing)?;
        match (self.width, scan.kind) {
            (Width::One, _) => self.scalar_recurrence(place, scan, from),
            (Width::Eight, ScanKind::Sum) => self.scan_sum(place, scan, from),
            (Width::Eight, ScanKind::Ema(powers)) => self.scan_ema(place, (scan, powers), from),
            (Width::Eight, _) => self.scan_per_bar_factor(place, scan, from),
        }
    }

    fn scan_sum(&mut self, (at, to): (usize, usize), scan: Scan, [x, _]: [Src; 2]) -> Result<(), EmitError> {
        let x = self.register(x)?;
        let to = self.target(at, to)?;
        self.copy(to, x);
        let [spare, ones] = MEMORY;
        let all @ [first, second, third, last] = parts(to);
        let round1 = self.constant(spare, (scan.round1, 0))?;
        for part in all {
            self.asm.fmla_element(part, round1, (part, Element::First));
        }
        let ones = self.ones(ones);
        for (to, earlier) in [(second, first), (last, third), (third, second), (last, second)] {
            self.asm.fmla_element(to, ones, (earlier, Element::Last));
        }
        let state = self.state(scan.state, TEMP)?;
        for part in all {
            self.asm.farith(Arith::Add, Form::Vector, part, part, state);
        }
        self.next_state(scan.state, state, last)
    }

    fn scan_ema(
        &mut self,
        (at, to): (usize, usize),
        (scan, powers): (Scan, EmaPowers),
        [x, _]: [Src; 2],
    ) -> Result<(), EmitError> {
        let from = self.register(x)?;
        // The distances to the first bar replace the bars, if nothing reads those later.
        let distance = match x {
            Src::Val(v) if self.alloc.is_live_after(v, at) => self.take()?,
            _ => from,
        };
        let result = self.take()?;
        let [spare, other] = MEMORY;
        let sums @ [first, second, third, last] = parts(distance);
        // Each result begins as the first bar.
        for to in parts(result) {
            self.asm.dup(to, (from, Element::First));
        }
        let base = result;
        let state = self.state(scan.state, TEMP)?;
        self.asm.farith(Arith::Sub, Form::Vector, state, state, base);
        for (to, x) in sums.into_iter().zip(parts(from)) {
            self.asm.farith(Arith::Sub, Form::Vector, to, x, base);
        }
        let round1 = self.constant(spare, (scan.round1, 0))?;
        for part in sums {
            self.asm.fmla_element(part, round1, (part, Element::First));
        }
        let round2 = self.constant(spare, (scan.round2, 1))?;
        for (to, earlier) in [(second, first), (last, third)] {
            self.asm.fmla_element(to, round2, (earlier, Element::Last));
        }
        let early = [
            self.constant(spare, (powers.powers_1_to_4, 0))?,
            self.constant(other, (powers.powers_1_to_4, 1))?,
        ];
        for (to, factor) in [third, last].into_iter().zip(early) {
            self.asm.fmla_element(to, factor, (second, Element::Last));
        }
        let k = self.constant(EXTRA, (powers.k, 0))?;
        for (to, sum) in parts(result).into_iter().zip(sums) {
            self.asm.fmla(to, sum, k);
        }
        let [r0, r1, r2, r3] = parts(result);
        for (to, factor) in [r0, r1].into_iter().zip(early) {
            self.asm.fmla(to, state, factor);
        }
        for (to, half, spare) in [(r2, 0, spare), (r3, 1, other)] {
            let factor = self.constant(spare, (powers.powers_5_to_8, half))?;
            self.asm.fmla(to, state, factor);
        }
        self.next_state(scan.state, state, r3)?;
        self.alloc.unlock_all();
        self.alloc.release(at)?;
        self.alloc.assign(result, to)
    }

    /// Every bar has its own factor: their products go through the same network beside the values.
    fn scan_per_bar_factor(
        &mut self,
        (at, to): (usize, usize),
        scan: Scan,
        [a, b]: [Src; 2],
    ) -> Result<(), EmitError> {
        // Operands that nothing reads later are overwritten.
        let dies = |alloc: &RegAlloc, src: Src| !matches!(src, Src::Val(v) if alloc.is_live_after(v, at));
        let adaptive = matches!(scan.kind, ScanKind::AdaptiveEma { .. });
        let in_place = [a, b].map(|src| !adaptive && a != b && dies(&self.alloc, src));
        let (a, b) = (self.register(a)?, self.register(b)?);
        let [factor, result] = match in_place {
            [true, true] => [a, b],
            [true, false] => [a, self.take()?],
            [false, true] => [self.take()?, b],
            [false, false] => [self.take()?, self.take()?],
        };
        let [spare, ones] = MEMORY;
        let (base, state) = (TEMP, EXTRA);
        let ones = self.ones(ones);
        if adaptive {
            self.asm.dup(base, (a, Element::First));
            for (((to, factor), a), b) in
                parts(result).into_iter().zip(parts(factor)).zip(parts(a)).zip(parts(b))
            {
                self.asm.farith(Arith::Sub, Form::Vector, to, a, base);
                self.asm.farith(Arith::Mul, Form::Vector, to, to, b);
                self.asm.farith(Arith::Sub, Form::Vector, factor, ones, b);
            }
        } else {
            self.copy(result, b);
            self.copy(factor, a);
        }
        let (r, f) = (parts(result), parts(factor));
        let mask = self.constant(state, (scan.round1, 0))?;
        for (to, factor) in r.into_iter().zip(f) {
            self.asm.bitwise(Bitwise::And, spare, factor, mask);
            self.asm.fmla_element(to, spare, (to, Element::First));
            self.asm.zip1(spare, ones, factor);
            self.asm.farith(Arith::Mul, Form::Vector, factor, factor, spare);
        }
        // The second of two registers, then the last two of four.
        for (later, earlier) in [(1, 0), (3, 2), (2, 1), (3, 1)] {
            let of = |group: Reg, part: Reg| group + STRIDE * part;
            let (to, by) = (of(result, later), of(factor, later));
            self.asm.fmla_element(to, by, (of(result, earlier), Element::Last));
            self.asm.fmul_element(by, by, (of(factor, earlier), Element::Last));
        }
        let state = self.state(scan.state, state)?;
        if adaptive {
            self.asm.farith(Arith::Sub, Form::Vector, state, state, base);
        }
        for (to, factor) in r.into_iter().zip(f) {
            self.asm.fmla(to, state, factor);
            if adaptive {
                self.asm.farith(Arith::Add, Form::Vector, to, to, base);
            }
        }
        let [.., last] = r;
        self.next_state(scan.state, state, last)?;
        self.alloc.unlock_all();
        self.alloc.release(at)?;
        self.alloc.assign(result, to)
    }

    /// One bar, as the sequential recurrence.
    fn scalar_recurrence(
        &mut self,
        (at, to): (usize, usize),
        scan: Scan,
        [x, k]: [Src; 2],
    ) -> Result<(), EmitError> {
        let (x, state) = (self.register(x)?, self.register(Src::State(scan.state))?);
        let k = match scan.kind {
            ScanKind::Ema(EmaPowers { k, .. }) => self.constant(EXTRA, (k, 0))?,
            ScanKind::LinearRecurrence { .. } | ScanKind::AdaptiveEma { .. } => self.register(k)?,
            ScanKind::Sum => x,
        };
        let result = self.take()?;
        let form = Form::Scalar;
        match scan.kind {
            ScanKind::Ema(_) | ScanKind::AdaptiveEma { .. } => {
                self.asm.farith(Arith::Sub, form, result, x, state);
                self.asm.farith(Arith::Mul, form, result, result, k);
                self.asm.farith(Arith::Add, form, result, result, state);
            }
            ScanKind::LinearRecurrence { .. } => {
                self.asm.farith(Arith::Mul, form, result, x, state);
                self.asm.farith(Arith::Add, form, result, result, k);
            }
            ScanKind::Sum => self.asm.farith(Arith::Add, form, result, state, x),
        }
        match self.state_regs.get(scan.state).copied() {
            Some(pinned) => self.asm.mov(pinned, result),
            None => self.store(result, Emitter::state_slot(scan.state)?, false)?,
        }
        self.alloc.unlock_all();
        self.alloc.release(at)?;
        self.alloc.assign(result, to)
    }

    /// A state in a register: its own, or loaded into this one. Both elements are the state.
    fn state(&mut self, state: usize, spare: Reg) -> Result<Reg, EmitError> {
        if let Some(pinned) = self.state_regs.get(state) {
            return Ok(*pinned);
        }
        self.load_state(state, spare)?;
        Ok(spare)
    }

    /// The last bar is the next state.
    fn next_state(&mut self, state: usize, reg: Reg, last: Reg) -> Result<(), EmitError> {
        self.asm.dup(reg, (last, Element::Last));
        match self.state_regs.get(state) {
            Some(_) => Ok(()),
            None => self.store_state(state, reg),
        }
    }

    /// A state, which all elements of its slot are, into a register.
    pub(super) fn load_state(&mut self, state: usize, to: Reg) -> Result<(), EmitError> {
        self.asm.ldr(Form::Vector, to, STATES, slot_offset("state", state)?)
    }

    /// A state to its slot, of which the first element is read.
    pub(super) fn store_state(&mut self, state: usize, from: Reg) -> Result<(), EmitError> {
        self.asm.str(Form::Vector, from, STATES, slot_offset("state", state)?)
    }
}
