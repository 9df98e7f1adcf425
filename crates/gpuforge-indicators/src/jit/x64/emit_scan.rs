//! Prefix scans in x86-64: the Sklansky network of [`crate::jit::ir::Scan`], four bars to a register, with FMA.

use super::{Form, RegMem, emit::Emitter};
use crate::jit::{
    error::EmitError,
    ir::{EmaPowers, Scan, ScanKind, Src},
    regalloc::Reg,
    target::Width,
};

/// `vpermpd`: the second element four times, the last four times.
const BROADCAST_1: u8 = 0x55;
const BROADCAST_3: u8 = 0xff;
/// `vblendpd`: elements that a round leaves as they are: the even ones, the first two.
const EVEN: u8 = 0b0101;
const FIRST_TWO: u8 = 0b0011;

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
            (Width::Eight, ScanKind::Sum | ScanKind::Ema(_)) => self.constant_factor(place, scan, from),
            (Width::Eight, ScanKind::LinearRecurrence { ones } | ScanKind::AdaptiveEma { ones }) => {
                self.per_bar_factor(place, scan, (from, ones))
            }
        }
    }

    /// The factor is the same for every bar: sums and EMAs.
    fn constant_factor(
        &mut self,
        (at, to): (usize, usize),
        scan: Scan,
        [x, _]: [Src; 2],
    ) -> Result<(), EmitError> {
        let x = self.register(x)?;
        let to = self.target(at, to, false)?;
        let [low, high] = [to, to + 8];
        let base = self.scratch();
        let other = base + 8;
        match scan.kind {
            ScanKind::Ema(_) => {
                self.asm.vbroadcastsd(base, x);
                for (to, x) in [(low, x), (high, x + 8)] {
                    self.asm.vsub(Form::Packed, to, x, RegMem::Reg(base));
                }
            }
            _ if to != x => self.copy_pair(to, x),
            _ => {}
        }
        for half in [low, high] {
            self.asm.vmovddup(other, half);
            self.asm.vfmadd231pd(half, other, Self::constant(scan.round1)?);
        }
        for half in [low, high] {
            self.asm.vpermpd(other, half, BROADCAST_1);
            self.asm.vfmadd231pd(half, other, Self::constant(scan.round2)?);
        }
        self.asm.vpermpd(other, low, BROADCAST_3);
        match scan.kind {
            ScanKind::Ema(EmaPowers { powers_1_to_4, .. }) => {
                self.asm.vfmadd231pd(high, other, Self::constant(powers_1_to_4)?);
            }
            _ => self.asm.vadd(Form::Packed, high, high, RegMem::Reg(other)),
        }
        self.asm.vpermpd(other, high, BROADCAST_3);
        let state = match self.state_regs.get(scan.state).copied() {
            Some(pinned) => pinned,
            None => {
                let spare = self.take()?;
                self.load_state(scan.state, spare)?
            }
        };
        match scan.kind {
            ScanKind::Ema(powers) => self.ema_carry_in([low, high, other], base, state, powers)?,
            _ => {
                for sum in [low, high] {
                    self.asm.vadd(Form::Packed, sum, sum, RegMem::Reg(state));
                }
                self.asm.vadd(Form::Packed, state, state, RegMem::Reg(other));
            }
        }
        self.store_state(scan.state, state)
    }

    /// Scales by `k` and adds the carry-in to both halves and to the last bar, which is the next state. Only the subtraction
    /// and the last FMA are on the loop-carried path.
    fn ema_carry_in(
        &mut self,
        [low, high, last]: [Reg; 3],
        base: Reg,
        state: Reg,
        powers: EmaPowers,
    ) -> Result<(), EmitError> {
        for sum in [last, low, high] {
            self.asm.vfmadd132pd(sum, base, Self::constant(powers.k)?);
        }
        self.asm.vsub(Form::Packed, state, state, RegMem::Reg(base));
        for (to, left) in [(last, powers.power_8), (low, powers.powers_1_to_4), (high, powers.powers_5_to_8)]
        {
            self.asm.vfmadd231pd(to, state, Self::constant(left)?);
        }
        self.asm.vmovapd(Form::Packed, state, last);
        Ok(())
    }

    /// Every bar has its own factor: their products go through the same network beside the values.
    fn per_bar_factor(
        &mut self,
        (at, to): (usize, usize),
        scan: Scan,
        ([a, b], ones): ([Src; 2], usize),
    ) -> Result<(), EmitError> {
        let (a, b) = (self.register(a)?, self.register(b)?);
        let to = self.target(at, to, true)?;
        let (factor, spare) = (self.take()?, self.take()?);
        let (base, other) = (self.scratch(), self.scratch() + 8);
        let adaptive = matches!(scan.kind, ScanKind::AdaptiveEma { .. });
        if adaptive {
            self.asm.vbroadcastsd(base, a);
            for h in [0, 8] {
                self.asm.vsub(Form::Packed, to + h, a + h, RegMem::Reg(base));
                self.asm.vmul(Form::Packed, to + h, to + h, RegMem::Reg(b + h));
                self.asm.vmov_load(Form::Packed, factor + h, Self::constant(ones)?);
                self.asm.vsub(Form::Packed, factor + h, factor + h, RegMem::Reg(b + h));
            }
        } else {
            self.copy_pair(to, b);
            self.copy_pair(factor, a);
        }
        for (second, mask, same) in [(false, scan.round1, EVEN), (true, scan.round2, FIRST_TWO)] {
            for h in [0, 8] {
                self.asm.vand(Form::Packed, spare, factor + h, Self::constant(mask)?);
                self.broadcast_earlier(second, other, to + h);
                self.asm.vfmadd231pd(to + h, other, RegMem::Reg(spare));
                self.broadcast_earlier(second, other, factor + h);
                self.asm.vblendpd(other, other, Self::constant(ones)?, same);
                self.asm.vmul(Form::Packed, factor + h, factor + h, RegMem::Reg(other));
            }
        }
        self.asm.vpermpd(other, to, BROADCAST_3);
        self.asm.vfmadd231pd(to + 8, other, RegMem::Reg(factor + 8));
        self.asm.vpermpd(other, factor, BROADCAST_3);
        self.asm.vmul(Form::Packed, factor + 8, factor + 8, RegMem::Reg(other));
        let state = self.load_state(scan.state, spare + 8)?;
        self.asm.vpermpd(spare, factor + 8, BROADCAST_3);
        self.asm.vpermpd(other, to + 8, BROADCAST_3);
        if adaptive {
            self.asm.vsub(Form::Packed, state, state, RegMem::Reg(base));
        }
        for (to, factor) in [(other, spare), (to, factor), (to + 8, factor + 8)] {
            self.asm.vfmadd231pd(to, state, RegMem::Reg(factor));
        }
        match adaptive {
            true => {
                for (to, from) in [(state, other), (to, to), (to + 8, to + 8)] {
                    self.asm.vadd(Form::Packed, to, from, RegMem::Reg(base));
                }
            }
            false => self.asm.vmovapd(Form::Packed, state, other),
        }
        self.store_state(scan.state, state)
    }

    /// The first element of every two, or the second of four, for the later ones to add.
    fn broadcast_earlier(&mut self, second: bool, to: Reg, from: Reg) {
        match second {
            true => self.asm.vpermpd(to, from, BROADCAST_1),
            false => self.asm.vmovddup(to, from),
        }
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
            ScanKind::Ema(EmaPowers { k, .. }) => Self::constant(k)?,
            ScanKind::LinearRecurrence { .. } | ScanKind::AdaptiveEma { .. } => {
                RegMem::Reg(self.register(k)?)
            }
            ScanKind::Sum => RegMem::Reg(x),
        };
        let to = self.target(at, to, true)?;
        match scan.kind {
            ScanKind::Ema(_) | ScanKind::AdaptiveEma { .. } => {
                self.asm.vsub(Form::Scalar, to, x, RegMem::Reg(state));
                self.asm.vmul(Form::Scalar, to, to, k);
                self.asm.vadd(Form::Scalar, to, to, RegMem::Reg(state));
            }
            ScanKind::LinearRecurrence { .. } => {
                self.asm.vmul(Form::Scalar, to, x, RegMem::Reg(state));
                self.asm.vadd(Form::Scalar, to, to, k);
            }
            ScanKind::Sum => self.asm.vadd(Form::Scalar, to, state, k),
        }
        self.set_state(scan.state, to)
    }

    /// A state in a register: its own, or loaded into this one.
    fn load_state(&mut self, state: usize, spare: Reg) -> Result<Reg, EmitError> {
        if let Some(pinned) = self.state_regs.get(state) {
            return Ok(*pinned);
        }
        self.asm.vmov_load(Form::Packed, spare, Self::state_slot(state)?);
        Ok(spare)
    }

    /// Stores a state that has no register of its own.
    fn store_state(&mut self, state: usize, reg: Reg) -> Result<(), EmitError> {
        if self.state_regs.get(state).is_none() {
            self.asm.vmov_store(Form::Packed, reg, Self::state_slot(state)?);
        }
        Ok(())
    }

    /// Copies both halves of a pair.
    fn copy_pair(&mut self, to: Reg, from: Reg) {
        self.asm.vmovapd(Form::Packed, to, from);
        self.asm.vmovapd(Form::Packed, to + 8, from + 8);
    }
}
