//! Which instructions are a scan? What [`super::super::ir::Scan`] says, four bars to a register.

use super::{
    super::{
        asm::{self, Form, Place, Reg},
        ir::{Of, Powers, Scan, Src},
    },
    Machine, NUMBER, NUMBERS, Width,
};

/// Orders of four numbers: the second four times, the last four times.
const SECOND: u8 = 0x55;
const LAST: u8 = 0xff;
/// Bars of four whose share stays as it is: the first of every two, the first two.
const FIRSTS: u8 = 0b0101;
const FIRST_TWO: u8 = 0b0011;

impl Machine<'_> {
    /// The values of a chain.
    pub(super) fn scan(&mut self, at: usize, to: usize, scan: usize, from: [Src; 2]) {
        let Some(scan) = self.ir.scans.get(scan).copied() else { return };
        match (self.width, scan.of) {
            (Width::One, _) => self.chain(at, to, scan, from),
            (Width::Eight, Of::Sum | Of::Mean(_)) => self.same_share(at, to, scan, from),
            (Width::Eight, Of::Affine { ones } | Of::Follow { ones }) => {
                self.own_shares(at, to, scan, (from, ones));
            }
        }
    }

    /// The same is left of every bar.
    fn same_share(&mut self, at: usize, to: usize, scan: Scan, [x, _]: [Src; 2]) {
        let x = self.register(x);
        let to = self.target(at, to, false);
        let [low, high] = [to, to + 8];
        let base = self.scratch();
        let other = base + 8;
        match scan.of {
            Of::Mean(_) => {
                self.asm.spread(base, x);
                for (to, x) in [(low, x), (high, x + 8)] {
                    self.asm.arith(asm::SUB, Form::Packed, to, x, Place::Reg(base));
                }
            }
            _ if to != x => self.both(to, x),
            _ => {}
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
        match scan.of {
            Of::Mean(Powers { near, .. }) => self.asm.fused(high, other, Self::four(near)),
            _ => self.asm.arith(asm::ADD, Form::Packed, high, high, Place::Reg(other)),
        }
        self.asm.order(other, high, LAST);
        let spare = if self.pinned.get(scan.state).is_none() { self.take() } else { 0 };
        let state = self.state_in(scan.state, spare);
        match scan.of {
            Of::Mean(powers) => self.mean([low, high, other], base, state, powers),
            _ => {
                for sum in [low, high] {
                    self.asm.arith(asm::ADD, Form::Packed, sum, sum, Place::Reg(state));
                }
                self.asm.arith(asm::ADD, Form::Packed, state, state, Place::Reg(other));
            }
        }
        self.state_out(scan.state, state);
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

    /// Every bar has its own share: what is left after some bars is computed beside the parts.
    fn own_shares(&mut self, at: usize, to: usize, scan: Scan, ([a, b], ones): ([Src; 2], usize)) {
        let (a, b) = (self.register(a), self.register(b));
        let to = self.target(at, to, true);
        let (share, spare) = (self.take(), self.take());
        let (base, other) = (self.scratch(), self.scratch() + 8);
        let follows = matches!(scan.of, Of::Follow { .. });
        if follows {
            self.asm.spread(base, a);
            for h in [0, 8] {
                self.asm.arith(asm::SUB, Form::Packed, to + h, a + h, Place::Reg(base));
                self.asm.arith(asm::MUL, Form::Packed, to + h, to + h, Place::Reg(b + h));
                self.asm.load(Form::Packed, share + h, Self::four(ones));
                self.asm.arith(asm::SUB, Form::Packed, share + h, share + h, Place::Reg(b + h));
            }
        } else {
            self.both(to, b);
            self.both(share, a);
        }
        for (second, mask, same) in [(false, scan.first, FIRSTS), (true, scan.second, FIRST_TWO)] {
            for h in [0, 8] {
                self.asm.arith(asm::AND, Form::Packed, spare, share + h, Self::four(mask));
                self.earlier(second, other, to + h);
                self.asm.fused(to + h, other, Place::Reg(spare));
                self.earlier(second, other, share + h);
                self.asm.pick(other, other, Self::four(ones), same);
                self.asm.arith(asm::MUL, Form::Packed, share + h, share + h, Place::Reg(other));
            }
        }
        self.asm.order(other, to, LAST);
        self.asm.fused(to + 8, other, Place::Reg(share + 8));
        self.asm.order(other, share, LAST);
        self.asm.arith(asm::MUL, Form::Packed, share + 8, share + 8, Place::Reg(other));
        let state = self.state_in(scan.state, spare + 8);
        self.asm.order(spare, share + 8, LAST);
        self.asm.order(other, to + 8, LAST);
        if follows {
            self.asm.arith(asm::SUB, Form::Packed, state, state, Place::Reg(base));
        }
        for (to, share) in [(other, spare), (to, share), (to + 8, share + 8)] {
            self.asm.fused(to, state, Place::Reg(share));
        }
        match follows {
            true => {
                for (to, from) in [(state, other), (to, to), (to + 8, to + 8)] {
                    self.asm.arith(asm::ADD, Form::Packed, to, from, Place::Reg(base));
                }
            }
            false => self.asm.copy(Form::Packed, state, other),
        }
        self.state_out(scan.state, state);
    }

    /// What the first of every two bars has, or the second of four.
    fn earlier(&mut self, second: bool, to: Reg, from: Reg) {
        match second {
            true => self.asm.order(to, from, SECOND),
            false => self.asm.pairs(to, from),
        }
    }

    /// One bar of it.
    fn chain(&mut self, at: usize, to: usize, scan: Scan, [x, k]: [Src; 2]) {
        let (x, state) = (self.register(x), self.register(Src::State(scan.state)));
        let k = match scan.of {
            Of::Mean(Powers { k, .. }) => Self::four(k),
            Of::Affine { .. } | Of::Follow { .. } => Place::Reg(self.register(k)),
            Of::Sum => Place::Reg(x),
        };
        let to = self.target(at, to, true);
        match scan.of {
            Of::Mean(_) | Of::Follow { .. } => {
                self.asm.arith(asm::SUB, Form::Scalar, to, x, Place::Reg(state));
                self.asm.arith(asm::MUL, Form::Scalar, to, to, k);
                self.asm.arith(asm::ADD, Form::Scalar, to, to, Place::Reg(state));
            }
            Of::Affine { .. } => {
                self.asm.arith(asm::MUL, Form::Scalar, to, x, Place::Reg(state));
                self.asm.arith(asm::ADD, Form::Scalar, to, to, k);
            }
            Of::Sum => self.asm.arith(asm::ADD, Form::Scalar, to, state, k),
        }
        self.set_state(scan.state, to);
    }

    /// A state in a register: its own, or this one.
    fn state_in(&mut self, state: usize, spare: Reg) -> Reg {
        self.pinned.get(state).copied().unwrap_or_else(|| {
            self.asm.load(Form::Packed, spare, Self::state_place(state));
            spare
        })
    }

    /// A state that has no register of its own goes back to memory.
    fn state_out(&mut self, state: usize, reg: Reg) {
        if self.pinned.get(state).is_none() {
            self.asm.store(Form::Packed, reg, Self::state_place(state));
        }
    }

    /// Both halves of a pair.
    fn both(&mut self, to: Reg, from: Reg) {
        self.asm.copy(Form::Packed, to, from);
        self.asm.copy(Form::Packed, to + 8, from + 8);
    }

    /// Four numbers of the group's.
    fn four(at: usize) -> Place {
        Place::Fixed { base: NUMBERS, offset: i32::try_from(at * NUMBER).unwrap_or(0) }
    }
}
