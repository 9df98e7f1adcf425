//! Which value is in which register, and which bytes compute it? One loop over the bars of a block.
//!
//! Values live in registers as long as there are enough; the one that is needed last of all goes to the stack, or is read
//! again where it came from. The first states stay in registers from bar to bar. Vector code keeps eight numbers in a pair
//! of registers, `r` and `r + 8`; scalar code one number in one register.

use super::{
    asm::{self, Asm, Form, Gpr, Place, Reg, Test},
    ir::{Inst, Ir, Op, Src},
};

/// How many numbers an iteration takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One bar of eight series, or eight bars of one.
    Eight,
    /// One bar of one series.
    One,
}

/// Bytes of a state, of a spilled value: a pair of registers.
pub(super) const SLOT: usize = 64;
/// Bytes of a number: a register full of it.
pub(super) const NUMBER: usize = 32;

/// Registers that hold pointers to streams; further streams' pointers are read from the table each time.
const POINTERS: [Gpr; 8] = [asm::R9, asm::R10, asm::R11, asm::RBX, asm::R12, asm::R13, asm::R14, asm::R15];
const SAVED: [Gpr; 6] = [asm::RBP, asm::RBX, asm::R12, asm::R13, asm::R14, asm::R15];
const TABLE: Gpr = asm::RDI;
const NUMBERS: Gpr = asm::RDX;
const STATES: Gpr = asm::R8;

/// Where the table has the pointers to numbers and states.
pub(super) const NUMBERS_AT: usize = 0;
pub(super) const STATES_AT: usize = 1;
pub(crate) const STREAMS_AT: usize = 2;

struct Machine<'i> {
    asm: Asm,
    ir: &'i Ir,
    width: Width,
    /// Bytes from a bar to the one before, in every stream.
    bar: usize,
    /// What each register holds.
    held: Vec<Option<usize>>,
    /// Where each value is.
    regs: Vec<Option<Reg>>,
    slots: Vec<Option<usize>>,
    /// Where a value can be read again.
    sources: Vec<Option<Src>>,
    /// When each value is read, the last first.
    uses: Vec<Vec<usize>>,
    /// Registers of the instruction at hand.
    busy: Vec<Reg>,
    pinned: Vec<Reg>,
    spilled: usize,
}

/// Machine code of a group. `bar` is the distance of two bars in a stream, in bytes.
pub(super) fn emit(ir: &Ir, width: Width, bar: usize) -> Vec<u8> {
    let (registers, most_pinned) = match width {
        Width::Eight => (7, 3),
        Width::One => (15, 8),
    };
    let pinned: Vec<Reg> =
        (0..ir.states.len().min(most_pinned)).map(|s| (registers - 1 - s) as Reg).collect();
    let mut uses = vec![Vec::new(); ir.vals];
    let mut sources = vec![None; ir.vals];
    for (at, inst) in ir.insts.iter().enumerate().rev() {
        let mut note = |src: &Src| {
            if let Src::Val(v) = src {
                uses.iter_mut().skip(*v).take(1).for_each(|u: &mut Vec<usize>| u.push(at));
            }
        };
        match inst {
            Inst::Op { from, to, op } => {
                from.iter().for_each(&mut note);
                if *op == Op::Load {
                    sources.iter_mut().skip(*to).take(1).for_each(|s| *s = from.first().copied());
                }
            }
            Inst::Store { val, .. } | Inst::SetState { val, .. } => note(val),
        }
    }
    let mut machine = Machine {
        asm: Asm::default(),
        ir,
        width,
        bar,
        held: vec![None; registers - pinned.len()],
        regs: vec![None; ir.vals],
        slots: vec![None; ir.vals],
        sources,
        uses,
        busy: Vec::new(),
        pinned,
        spilled: 0,
    };
    machine.function()
}

impl Machine<'_> {
    fn form(&self) -> Form {
        if self.width == Width::Eight { Form::Packed } else { Form::Scalar }
    }

    fn logic(&self) -> Form {
        if self.width == Width::Eight { Form::Packed } else { Form::Half }
    }

    fn halves(&self) -> std::ops::Range<u8> {
        if self.width == Width::Eight { 0..2 } else { 0..1 }
    }

    /// For masks and what is thrown away at once.
    fn scratch(&self) -> Reg {
        if self.width == Width::Eight { 7 } else { 15 }
    }

    /// A place as the first or second half of a pair sees it; numbers are the same in both.
    fn half(place: Place, half: u8) -> Place {
        let shift = 32 * i32::from(half);
        match place {
            Place::Reg(r) => Place::Reg(r + 8 * half),
            Place::Fixed { base, offset } if base == NUMBERS => Place::Fixed { base, offset },
            Place::Fixed { base, offset } => Place::Fixed { base, offset: offset + shift },
            Place::Moving { base, offset } => Place::Moving { base, offset: offset + shift },
        }
    }

    fn function(&mut self) -> Vec<u8> {
        // The body first: only then is known how much stack it needs.
        self.body();
        let body = std::mem::take(&mut self.asm.code);
        let stack = i32::try_from(self.spilled * SLOT).unwrap_or(0);
        SAVED.iter().for_each(|r| self.asm.push(*r));
        self.asm.move_pointer(asm::RBP, asm::RSP);
        self.asm.and(asm::RSP, -(SLOT as i32));
        self.asm.sub(asm::RSP, stack);
        self.asm.load_pointer(NUMBERS, TABLE, 8 * NUMBERS_AT as i32);
        self.asm.load_pointer(STATES, TABLE, 8 * STATES_AT as i32);
        for (stream, to) in POINTERS.iter().enumerate().take(self.ir.streams.len()) {
            self.asm.load_pointer(*to, TABLE, 8 * (STREAMS_AT + stream) as i32);
        }
        for state in 0..self.pinned.len() {
            self.state_between(state, true);
        }
        self.asm.zero_index();
        let top = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(asm::RCX, if self.width == Width::Eight { 64 } else { 8 });
        self.asm.loop_to(top);
        for state in 0..self.pinned.len() {
            self.state_between(state, false);
        }
        self.asm.zero_upper();
        self.asm.move_pointer(asm::RSP, asm::RBP);
        SAVED.iter().rev().for_each(|r| self.asm.pop(*r));
        self.asm.ret();
        std::mem::take(&mut self.asm.code)
    }

    /// A state from memory into its register, or back.
    fn state_between(&mut self, state: usize, load: bool) {
        let Some(reg) = self.pinned.get(state).copied() else { return };
        let place = Machine::state_place(state);
        for h in self.halves() {
            let (reg, place, form) = (reg + 8 * h, Machine::half(place, h), self.form());
            if load {
                self.asm.load(form, reg, place);
            } else {
                self.asm.store(form, reg, place);
            }
        }
    }

    fn state_place(state: usize) -> Place {
        Place::Fixed { base: STATES, offset: i32::try_from(state * SLOT).unwrap_or(0) }
    }

    fn body(&mut self) {
        for (at, inst) in self.ir.insts.iter().enumerate() {
            self.busy.clear();
            match *inst {
                Inst::Op { op: Op::Load, .. } => {}
                Inst::Op { to, op, from } => self.op(at, to, op, from),
                Inst::Store { stream, val } => {
                    let reg = self.register(val);
                    let place = self.stream(stream, 0);
                    for h in self.halves() {
                        let form = self.form();
                        self.asm.store(form, reg + 8 * h, Machine::half(place, h));
                    }
                }
                Inst::SetState { state, val } => {
                    let reg = self.register(val);
                    for h in self.halves() {
                        let form = self.form();
                        match self.pinned.get(state) {
                            Some(to) => self.asm.copy(form, to + 8 * h, reg + 8 * h),
                            None => {
                                let place = Machine::half(Machine::state_place(state), h);
                                self.asm.store(form, reg + 8 * h, place);
                            }
                        }
                    }
                }
            }
            self.release(at);
        }
    }

    /// Registers of values that nobody reads after this instruction are free.
    fn release(&mut self, at: usize) {
        for (reg, held) in self.held.iter_mut().enumerate() {
            let Some(val) = *held else { continue };
            let done = self.uses.get(val).is_none_or(|u| u.first().is_none_or(|last| *last <= at));
            if done {
                *held = None;
                self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = None);
            }
            let _ = reg;
        }
        for uses in &mut self.uses {
            while uses.last().is_some_and(|next| *next <= at) {
                uses.pop();
            }
        }
    }

    /// A register that can be written: a free one, or the one whose value is needed last.
    fn take(&mut self) -> Reg {
        let free = (0..self.held.len())
            .find(|r| self.held.get(*r) == Some(&None) && !self.busy.contains(&(*r as Reg)));
        let reg = free.unwrap_or_else(|| {
            let next = |reg: usize| {
                let val = self.held.get(reg).copied().flatten();
                val.and_then(|v| self.uses.get(v)).and_then(|u| u.last().copied()).unwrap_or(usize::MAX)
            };
            let candidates = (0..self.held.len()).filter(|r| !self.busy.contains(&(*r as Reg)));
            candidates.max_by_key(|r| next(*r)).unwrap_or(0)
        });
        self.evict(reg);
        self.busy.push(reg as Reg);
        reg as Reg
    }

    fn evict(&mut self, reg: usize) {
        let Some(val) = self.held.get_mut(reg).and_then(Option::take) else { return };
        self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = None);
        let again = self.sources.get(val).copied().flatten().is_some();
        let saved = self.slots.get(val).copied().flatten().is_some();
        if again || saved {
            return;
        }
        let slot = self.spilled;
        self.spilled += 1;
        self.slots.iter_mut().skip(val).take(1).for_each(|s| *s = Some(slot));
        let place = Machine::slot(slot);
        for h in self.halves() {
            let form = self.form();
            self.asm.store(form, reg as Reg + 8 * h, Machine::half(place, h));
        }
    }

    fn slot(slot: usize) -> Place {
        Place::Fixed { base: asm::RSP, offset: i32::try_from(slot * SLOT).unwrap_or(0) }
    }

    /// Where a stream's bar is. May need RAX until the next stream.
    fn stream(&mut self, stream: usize, lag: usize) -> Place {
        let offset = -i32::try_from(lag * self.bar).unwrap_or(0);
        let base = POINTERS.get(stream).copied().unwrap_or_else(|| {
            self.asm.load_pointer(asm::RAX, TABLE, 8 * (STREAMS_AT + stream) as i32);
            asm::RAX
        });
        Place::Moving { base, offset }
    }

    /// Where a source is in memory, if it is in no register.
    fn memory(&mut self, src: Src) -> Option<Place> {
        match src {
            Src::Mem { stream, lag } => Some(self.stream(stream, lag)),
            Src::Const(at) => {
                Some(Place::Fixed { base: NUMBERS, offset: i32::try_from(at * NUMBER).unwrap_or(0) })
            }
            Src::State(s) => self.pinned.get(s).is_none().then(|| Machine::state_place(s)),
            Src::Val(v) => {
                if self.regs.get(v).copied().flatten().is_some() {
                    return None;
                }
                match self.slots.get(v).copied().flatten() {
                    Some(slot) => Some(Machine::slot(slot)),
                    None => {
                        let source = self.sources.get(v).copied().flatten();
                        source.and_then(|s| if s == src { None } else { self.memory(s) })
                    }
                }
            }
        }
    }

    /// A source in a register.
    fn register(&mut self, src: Src) -> Reg {
        if let Some(reg) = self.at_hand(src) {
            self.busy.push(reg);
            return reg;
        }
        let reg = self.take();
        if let Some(place) = self.memory(src) {
            for h in self.halves() {
                let form = self.form();
                self.asm.load(form, reg + 8 * h, Machine::half(place, h));
            }
        }
        if let Src::Val(v) = src {
            self.hold(reg, v);
        }
        reg
    }

    fn at_hand(&self, src: Src) -> Option<Reg> {
        match src {
            Src::Val(v) => self.regs.get(v).copied().flatten(),
            Src::State(s) => self.pinned.get(s).copied(),
            _ => None,
        }
    }

    fn hold(&mut self, reg: Reg, val: usize) {
        self.held.iter_mut().skip(usize::from(reg)).take(1).for_each(|h| *h = Some(val));
        self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = Some(reg));
    }

    /// A source as the last operand: in memory where it is not needed in a register afterwards. Logic on one number reads
    /// two from memory, so only numbers may be there.
    fn operand(&mut self, at: usize, src: Src, logic: bool) -> Place {
        let short = logic && self.width == Width::One && !matches!(src, Src::Const(_));
        let again = match src {
            Src::Val(v) => self.uses.get(v).is_some_and(|u| u.first().is_some_and(|last| *last > at)),
            _ => false,
        };
        if short || again || self.at_hand(src).is_some() {
            return Place::Reg(self.register(src));
        }
        match self.memory(src) {
            Some(place) => place,
            None => Place::Reg(self.register(src)),
        }
    }

    /// The register of a result. Sources that end here may give theirs, unless they are read after the result is begun.
    fn target(&mut self, at: usize, to: usize, keep: bool) -> Reg {
        if !keep {
            self.busy.clear();
            self.release(at);
        }
        let reg = self.take();
        self.hold(reg, to);
        reg
    }

    fn op(&mut self, at: usize, to: usize, op: Op, [a, b, c]: [Src; 3]) {
        let one = self.number(1.0);
        let zero = self.number(0.0);
        let scratch = self.scratch();
        let (form, logic) = (self.form(), self.logic());
        // What a place is based on may be RAX, which only the latest stream has: registers first, memory last.
        match op {
            Op::Plain(code) => {
                let commutes = code == asm::ADD || code == asm::MUL;
                let swap = commutes && self.at_hand(a).is_none() && self.at_hand(b).is_some();
                // Which of two NaNs comes out depends on the order, but no value does.
                let (a, b) = if swap { (b, a) } else { (a, b) };
                let x = self.register(a);
                let y = self.operand(at, b, false);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    self.asm.arith(code, form, to + 8 * h, x + 8 * h, Machine::half(y, h));
                }
            }
            Op::Bits(code) => {
                let x = self.register(a);
                let y = self.operand(at, b, true);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    self.asm.arith(code, logic, to + 8 * h, x + 8 * h, Machine::half(y, h));
                }
            }
            Op::Truth(test) => {
                let x = self.register(a);
                let y = self.operand(at, b, false);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    self.asm.compare(test, form, to + 8 * h, x + 8 * h, Machine::half(y, h));
                    self.asm.arith(asm::AND, logic, to + 8 * h, to + 8 * h, one);
                }
            }
            Op::Both(code) => {
                let (x, y) = (self.register(a), self.register(b));
                let to = self.target(at, to, false);
                for h in self.halves() {
                    let (scratch, to) = (scratch + 8 * h, to + 8 * h);
                    self.asm.compare(Test::NotEqual, form, scratch, x + 8 * h, zero);
                    self.asm.compare(Test::NotEqual, form, to, y + 8 * h, zero);
                    self.asm.arith(code, logic, to, to, Place::Reg(scratch));
                    self.asm.arith(asm::AND, logic, to, to, one);
                }
            }
            Op::Outer(code) => {
                let (x, y) = (self.register(a), self.operand(at, b, false));
                let to = self.target(at, to, true);
                for h in self.halves() {
                    let (scratch, to, x) = (scratch + 8 * h, to + 8 * h, x + 8 * h);
                    self.asm.compare(Test::Unordered, form, scratch, x, Place::Reg(x));
                    self.asm.arith(code, form, to, x, Machine::half(y, h));
                    self.asm.blend(form, to, to, Place::Reg(x), scratch);
                }
            }
            Op::Div0 => {
                let (x, y) = (self.register(a), self.register(b));
                let to = self.target(at, to, false);
                for h in self.halves() {
                    let (scratch, to) = (scratch + 8 * h, to + 8 * h);
                    self.asm.compare(Test::NotEqual, form, scratch, y + 8 * h, zero);
                    self.asm.arith(asm::DIV, form, to, x + 8 * h, Place::Reg(y + 8 * h));
                    self.asm.arith(asm::AND, logic, to, to, Place::Reg(scratch));
                }
            }
            Op::Select => {
                let (no, mask) = (self.register(c), self.register(a));
                let yes = self.operand(at, b, true);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    let scratch = scratch + 8 * h;
                    self.asm.compare(Test::NotEqual, form, scratch, mask + 8 * h, zero);
                    self.asm.blend(form, to + 8 * h, no + 8 * h, Machine::half(yes, h), scratch);
                }
            }
            Op::Sqrt => {
                let x = self.register(a);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    self.asm.sqrt(form, to + 8 * h, Place::Reg(x + 8 * h), x + 8 * h);
                }
            }
            Op::Round(towards) => {
                let x = self.register(a);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    self.asm.round(form, to + 8 * h, x + 8 * h, towards);
                }
            }
            Op::Sign => {
                let x = self.register(a);
                let to = self.target(at, to, false);
                for h in self.halves() {
                    let (scratch, to) = (scratch + 8 * h, to + 8 * h);
                    self.asm.compare(Test::Greater, form, scratch, x + 8 * h, zero);
                    self.asm.compare(Test::Less, form, to, x + 8 * h, zero);
                    self.asm.arith(asm::AND, logic, scratch, scratch, one);
                    self.asm.arith(asm::AND, logic, to, to, one);
                    self.asm.arith(asm::SUB, form, to, scratch, Place::Reg(to));
                }
            }
            Op::Load => {}
        }
    }

    /// A number's place; one that the group does not have is the first, 0.
    fn number(&self, x: f64) -> Place {
        let at = self.ir.consts.iter().position(|c| *c == x.to_bits()).unwrap_or(0);
        Place::Fixed { base: NUMBERS, offset: i32::try_from(at * NUMBER).unwrap_or(0) }
    }
}
