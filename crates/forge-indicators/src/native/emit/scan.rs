//! Which instructions are a scan? What [`super::super::ir::Scan`] says, four bars to a register.

use super::{
    super::{
        asm::{self, Form, Place, Reg},
        ir::{Powers, Scan, Src},
    },
    Machine, NUMBER, NUMBERS, Width,
};

/// Orders of four numbers: the second four times, the last four times.
const SECOND: u8 = 0x55;
const LAST: u8 = 0xff;

impl Machine<'_> {
    /// The values of a chain whose parts are `x`.
    pub(super) fn scan(&mut self, at: usize, to: usize, scan: usize, x: Src) {
        let Some(scan) = self.ir.scans.get(scan).copied() else { return };
        if self.width == Width::One {
            return self.chain(at, to, scan, x);
        }
        let x = self.register(x);
        let to = self.target(at, to, false);
        let [low, high] = [to, to + 8];
        let base = self.scratch();
        let other = base + 8;
        match scan.powers {
            Some(_) => {
                self.asm.spread(base, x);
                for (to, x) in [(low, x), (high, x + 8)] {
                    self.asm.arith(asm::SUB, Form::Packed, to, x, Place::Reg(base));
                }
            }
            None if to != x => {
                self.asm.copy(Form::Packed, low, x);
                self.asm.copy(Form::Packed, high, x + 8);
            }
            None => {}
        }
        for half in [low, high] {
            self.asm.pairs(other, half);
            self.asm.fused(half, other, Self::four(scan.first));
        }
        for half in [low, high] {
            self.asm.order(other, half, SECOND);
            self.asm.fused(half, other, Self::four(scan.second));
        }
        self.asm.order(other, low, LAST);
        match scan.powers {
            Some(Powers { near, .. }) => self.asm.fused(high, other, Self::four(near)),
            None => self.asm.arith(asm::ADD, Form::Packed, high, high, Place::Reg(other)),
        }
        self.asm.order(other, high, LAST);
        let pinned = self.pinned.get(scan.state).copied();
        let state = pinned.unwrap_or_else(|| {
            let reg = self.take();
            self.asm.load(Form::Packed, reg, Self::state_place(scan.state));
            reg
        });
        match scan.powers {
            Some(powers) => self.mean([low, high, other], base, state, powers),
            None => {
                for sum in [low, high] {
                    self.asm.arith(asm::ADD, Form::Packed, sum, sum, Place::Reg(state));
                }
                self.asm.arith(asm::ADD, Form::Packed, state, state, Place::Reg(other));
            }
        }
        if pinned.is_none() {
            self.asm.store(Form::Packed, state, Self::state_place(scan.state));
        }
    }

    /// As much of the parts as counts, and what was before the eight bars: both halves, and the last bar, which is the next
    /// state. Only the first and the last of these wait for the eight before.
    fn mean(&mut self, [low, high, last]: [Reg; 3], base: Reg, state: Reg, powers: Powers) {
        for parts in [last, low, high] {
            self.asm.scaled(parts, base, Self::four(powers.k));
        }
        self.asm.arith(asm::SUB, Form::Packed, state, state, Place::Reg(base));
        for (to, left) in [(last, powers.eight), (low, powers.near), (high, powers.far)] {
            self.asm.fused(to, state, Self::four(left));
        }
        self.asm.copy(Form::Packed, state, last);
    }

    /// One bar of it.
    fn chain(&mut self, at: usize, to: usize, scan: Scan, x: Src) {
        let (x, state) = (self.register(x), self.register(Src::State(scan.state)));
        let to = self.target(at, to, true);
        match scan.powers {
            Some(Powers { k, .. }) => {
                self.asm.arith(asm::SUB, Form::Scalar, to, x, Place::Reg(state));
                self.asm.arith(asm::MUL, Form::Scalar, to, to, Self::four(k));
                self.asm.arith(asm::ADD, Form::Scalar, to, to, Place::Reg(state));
            }
            None => self.asm.arith(asm::ADD, Form::Scalar, to, state, Place::Reg(x)),
        }
        self.set_state(scan.state, to);
    }

    /// Four numbers of the group's.
    fn four(at: usize) -> Place {
        Place::Fixed { base: NUMBERS, offset: i32::try_from(at * NUMBER).unwrap_or(0) }
    }
}
