//! Which value is in which register, and which bytes compute it? One loop over the bars of a block.
//!
//! Values live in registers as long as there are enough; the one that is needed last of all goes to the stack, or is read
//! again where it came from. The first states stay in registers from bar to bar. Vector code keeps eight numbers in a pair
//! of registers, `r` and `r + 8`; scalar code one number in one register.

mod scan;
pub(crate) mod straight;

use super::{
    asm::{self, Asm, Form, Gpr, Place, Reg, Test},
    guard,
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

/// How far ahead a loop along time asks for bars, into the second cache. Of 16 times 100 000 bars in turn an average true range
/// took 1.8 ns a bar without, 1.45 at half of it, 1.13 here, 1.2 at twice as much; a whole page ahead slows what is in a
/// cache.
const AHEAD: i32 = 3072;

/// Instructions for every stream from which on it does.
const LONG: usize = 6;

/// Pairs of registers that hold states of scans, at most.
const SCAN_PAIRS: usize = 2;

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
    traffic: Traffic<'i>,
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
    /// Is a state one register, not a pair?
    single: bool,
    spilled: usize,
    /// Streams whose pointers are in registers.
    pointers: usize,
}

/// Where an instruction's second source may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// In memory too.
    Anywhere,
    /// In memory only where two numbers may be read.
    Bits,
    /// Only in a register.
    Register,
}

/// Registers of one half of an operation.
struct Regs {
    to: Reg,
    x: Reg,
    y: Place,
    scratch: Reg,
}

/// What a loop does with memory besides.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic<'i> {
    /// Streams that are written past the caches; they begin at whole lines.
    pub(super) past: &'i [bool],
    /// Pointers after those of the streams from which on a line is asked for at every bar.
    pub(super) ahead: usize,
}

/// About how many instructions it becomes.
fn effort(inst: &Inst) -> usize {
    match inst {
        Inst::Op { op: Op::Load, .. } => 0,
        Inst::Op { op: Op::Scan(_), .. } => 10,
        Inst::Op { op: Op::Outer(_) | Op::Div0, .. } => 3,
        _ => 1,
    }
}

/// Machine code of a group. `bar` is the distance of two bars in a stream, in bytes.
pub(super) fn emit<'i>(ir: &'i Ir, width: Width, bar: usize, traffic: Traffic<'i>) -> Vec<u8> {
    machine(ir, width, bar, traffic).function()
}

fn machine<'i>(ir: &'i Ir, width: Width, bar: usize, traffic: Traffic<'i>) -> Machine<'i> {
    let (registers, most_pinned) = match width {
        Width::Eight => (7, 3),
        Width::One => (15, 8),
    };
    // Eight bars have one state: each half of a pair holds one.
    let single = width == Width::Eight && !ir.scans.is_empty();
    let pairs =
        if single { ir.states.len().div_ceil(2).min(SCAN_PAIRS) } else { ir.states.len().min(most_pinned) };
    let pinned: Vec<Reg> = match single {
        true => (0..ir.states.len().min(2 * pairs))
            .map(|s| (registers - 1 - s / 2) as Reg + 8 * (s % 2) as Reg)
            .collect(),
        false => (0..pairs).map(|s| (registers - 1 - s) as Reg).collect(),
    };
    let mut uses = vec![Vec::new(); ir.vals];
    let mut sources = vec![None; ir.vals];
    for (at, inst) in ir.insts.iter().enumerate().rev() {
        let mut note = |src: &Src| {
            if let Src::ValueId(v) = src {
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
    Machine {
        asm: Asm::default(),
        ir,
        width,
        bar,
        traffic,
        held: vec![None; registers - pairs],
        single,
        regs: vec![None; ir.vals],
        slots: vec![None; ir.vals],
        sources,
        uses,
        busy: Vec::new(),
        pinned,
        spilled: 0,
        pointers: POINTERS.len(),
    }
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
            Place::Column { base, offset } => Place::Column { base, offset: offset + shift },
        }
    }

    fn function(&mut self) -> Vec<u8> {
        // The body first: only then is known how much stack it needs.
        self.body();
        let body = std::mem::take(&mut self.asm.code);
        self.prologue();
        self.asm.zero(asm::RCX);
        let top = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(asm::RCX, if self.width == Width::Eight { 64 } else { 8 });
        self.asm.compare_end(asm::RCX);
        self.asm.back_to(top);
        self.epilogue()
    }

    /// Registers are saved, pointers and states are in theirs. The body is known: it says how much stack there has to be.
    fn prologue(&mut self) {
        let stack = i32::try_from(self.spilled * SLOT).unwrap_or(0);
        SAVED.iter().for_each(|r| self.asm.push(*r));
        self.asm.move_pointer(asm::RBP, asm::RSP);
        self.asm.and(asm::RSP, -(SLOT as i32));
        self.asm.sub(asm::RSP, stack);
        self.asm.load_pointer(NUMBERS, TABLE, 8 * NUMBERS_AT as i32);
        self.asm.load_pointer(STATES, TABLE, 8 * STATES_AT as i32);
        for (stream, to) in POINTERS.iter().enumerate().take(self.ir.streams.len().min(self.pointers)) {
            self.asm.load_pointer(*to, TABLE, 8 * (STREAMS_AT + stream) as i32);
        }
        for state in 0..self.pinned.len() {
            self.state_between(state, true);
        }
    }

    fn epilogue(&mut self) -> Vec<u8> {
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
        for h in if self.single { 0..1 } else { self.halves() } {
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
        self.ask();
        for pointer in 0..self.traffic.ahead {
            let at = STREAMS_AT + self.ir.streams.len() + pointer;
            self.asm.load_pointer(asm::RAX, TABLE, 8 * at as i32);
            self.asm.prefetch(asm::RAX, 0);
        }
        for (at, inst) in self.ir.insts.iter().enumerate() {
            self.busy.clear();
            match *inst {
                Inst::Op { op: Op::Load, .. } => {}
                Inst::Op { to, op, from } => self.op(at, to, op, from),
                Inst::Store { stream, val } => {
                    let reg = self.register(val);
                    let place = self.stream(stream, 0);
                    let past = self.traffic.past.get(stream) == Some(&true);
                    for h in self.halves() {
                        let (form, place) = (self.form(), Machine::half(place, h));
                        match past {
                            true => self.asm.store_past(reg + 8 * h, place),
                            false => self.asm.store(form, reg + 8 * h, place),
                        }
                    }
                }
                Inst::SetState { state, val } => {
                    let reg = self.register(val);
                    self.set_state(state, reg);
                }
            }
            self.release(at);
        }
    }

    /// Asks for bars that a loop along time comes to in a while: it takes a line of every stream at each round, and a round that
    /// is long leaves memory nothing to do. One that is short has enough of them under way, and asking would slow it.
    fn ask(&mut self) {
        let effort: usize = self.ir.insts.iter().map(effort).sum();
        let read: Vec<usize> =
            (0..self.ir.streams.len()).filter(|s| self.ir.written.get(*s) == Some(&false)).collect();
        if self.width != Width::Eight || self.bar != size_of::<f64>() || effort < LONG * read.len() {
            return;
        }
        for stream in read {
            if let Place::Moving { base, .. } = self.stream(stream, 0) {
                self.asm.prefetch(base, AHEAD);
            }
        }
    }

    fn set_state(&mut self, state: usize, reg: Reg) {
        let form = self.form();
        for h in self.halves() {
            match self.pinned.get(state) {
                Some(to) => self.asm.copy(form, to + 8 * h, reg + 8 * h),
                None => self.asm.store(form, reg + 8 * h, Machine::half(Machine::state_place(state), h)),
            }
        }
    }

    /// Registers of values that nobody reads after this instruction are free.
    fn release(&mut self, at: usize) {
        for held in &mut self.held {
            let Some(val) = *held else { continue };
            let done = self.uses.get(val).is_none_or(|u| u.first().is_none_or(|last| *last <= at));
            if done {
                *held = None;
                self.regs.iter_mut().skip(val).take(1).for_each(|r| *r = None);
            }
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
        let lag = if lag > 1 && guard::is_planted() { lag - 1 } else { lag };
        let offset = -i32::try_from(lag * self.bar).unwrap_or(0);
        let base = POINTERS.get(stream).filter(|_| stream < self.pointers).copied().unwrap_or_else(|| {
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
            Src::ValueId(v) => {
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
        if let Src::ValueId(v) = src {
            self.hold(reg, v);
        }
        reg
    }

    fn at_hand(&self, src: Src) -> Option<Reg> {
        match src {
            Src::ValueId(v) => self.regs.get(v).copied().flatten(),
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
            Src::ValueId(v) => self.uses.get(v).is_some_and(|u| u.first().is_some_and(|last| *last > at)),
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

    /// Two sources and a result, half by half. The second source may be in memory where `second` says so.
    fn two(&mut self, at: usize, to: usize, [a, b]: [Src; 2], second: Second, emit: impl Fn(&mut Asm, Regs)) {
        // The place of a stream may be based on RAX, which only the latest one has: registers first, memory last.
        let x = self.register(a);
        let y = match second {
            Second::Register => Place::Reg(self.register(b)),
            Second::Bits => self.operand(at, b, true),
            Second::Anywhere => self.operand(at, b, false),
        };
        let to = self.target(at, to, false);
        let scratch = self.scratch();
        for h in self.halves() {
            let (to, x, scratch) = (to + 8 * h, x + 8 * h, scratch + 8 * h);
            emit(&mut self.asm, Regs { to, x, y: Machine::half(y, h), scratch });
        }
    }

    fn op(&mut self, at: usize, to: usize, op: Op, [a, b, c]: [Src; 3]) {
        let (one, zero) = (self.number(1.0), self.number(0.0));
        let (form, logic) = (self.form(), self.logic());
        match op {
            Op::Plain(code) => {
                let commutes = code == asm::ADD || code == asm::MUL;
                let swap = commutes && self.at_hand(a).is_none() && self.at_hand(b).is_some();
                // Which of two NaNs comes out depends on the order, but no value does.
                let sources = if swap { [b, a] } else { [a, b] };
                self.two(at, to, sources, Second::Anywhere, |asm, r| asm.arith(code, form, r.to, r.x, r.y));
            }
            Op::Bits(code) => {
                self.two(at, to, [a, b], Second::Bits, |asm, r| asm.arith(code, logic, r.to, r.x, r.y));
            }
            Op::Truth(test) => self.two(at, to, [a, b], Second::Anywhere, |asm, r| {
                asm.compare(test, form, r.to, r.x, r.y);
                asm.arith(asm::AND, logic, r.to, r.to, one);
            }),
            Op::Both(code) => self.two(at, to, [b, a], Second::Register, |asm, r| {
                asm.compare_place(Test::NotEqual, form, r.scratch, r.y, zero);
                asm.compare(Test::NotEqual, form, r.to, r.x, zero);
                asm.arith(code, logic, r.to, r.to, Place::Reg(r.scratch));
                asm.arith(asm::AND, logic, r.to, r.to, one);
            }),
            // All bits are a NaN.
            Op::Outer(code) => self.two(at, to, [a, b], Second::Anywhere, |asm, r| {
                asm.compare(Test::Unordered, form, r.scratch, r.x, r.y);
                asm.arith(code, form, r.to, r.x, r.y);
                asm.arith(asm::OR, logic, r.to, r.to, Place::Reg(r.scratch));
            }),
            Op::Div0 => self.two(at, to, [a, b], Second::Register, |asm, r| {
                asm.compare_place(Test::NotEqual, form, r.scratch, r.y, zero);
                asm.arith(asm::DIV, form, r.to, r.x, r.y);
                asm.arith(asm::AND, logic, r.to, r.to, Place::Reg(r.scratch));
            }),
            Op::Select => self.select(at, to, [a, b, c], Some(zero)),
            Op::Blend => self.select(at, to, [a, b, c], None),
            Op::Mask(test) => self.two(at, to, [a, b], Second::Anywhere, |asm, r| {
                asm.compare(test, form, r.to, r.x, r.y);
            }),
            Op::Sqrt => {
                self.two(at, to, [a, a], Second::Register, |asm, r| asm.sqrt(form, r.to, r.y, r.x));
            }
            Op::Round(towards) => {
                self.two(at, to, [a, a], Second::Register, |asm, r| asm.round(form, r.to, r.x, towards));
            }
            Op::Sign => self.two(at, to, [a, a], Second::Register, |asm, r| {
                asm.compare(Test::Greater, form, r.scratch, r.x, zero);
                asm.compare(Test::Less, form, r.to, r.x, zero);
                asm.arith(asm::AND, logic, r.scratch, r.scratch, one);
                asm.arith(asm::AND, logic, r.to, r.to, one);
                asm.arith(asm::SUB, form, r.to, r.scratch, Place::Reg(r.to));
            }),
            Op::Scan(scan) => self.scan(at, to, scan, [a, b]),
            Op::Copy => {
                let from = self.register(a);
                let to = self.target(at, to, false);
                for h in self.halves().filter(|_| to != from) {
                    self.asm.copy(form, to + 8 * h, from + 8 * h);
                }
            }
            Op::Load => {}
        }
    }

    /// Where the first is not 0, the second, else the third; without a `zero` the first has all bits or none.
    fn select(&mut self, at: usize, to: usize, [mask, yes, no]: [Src; 3], zero: Option<Place>) {
        let (no, mask) = (self.register(no), self.register(mask));
        let yes = self.operand(at, yes, true);
        let to = self.target(at, to, false);
        let (form, scratch) = (self.form(), self.scratch());
        for h in self.halves() {
            let (mut mask, scratch) = (mask + 8 * h, scratch + 8 * h);
            if let Some(zero) = zero {
                self.asm.compare(Test::NotEqual, form, scratch, mask, zero);
                mask = scratch;
            }
            self.asm.blend(form, to + 8 * h, no + 8 * h, Machine::half(yes, h), mask);
        }
    }

    /// A number's place; one that the group does not have is the first, 0.
    fn number(&self, x: f64) -> Place {
        let at = self.ir.consts.iter().position(|c| *c == [x.to_bits(); 4]).unwrap_or(0);
        Place::Fixed { base: NUMBERS, offset: i32::try_from(at * NUMBER).unwrap_or(0) }
    }
}
