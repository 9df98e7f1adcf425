//! x86-64 emitter: the IR of a fused loop into machine code, one loop over the bars of a block.
//!
//! Values live in the registers that [`RegAlloc`] gives them; the first states are pinned to registers of their own for the
//! whole loop. SIMD code keeps eight doubles in a pair of registers, `r` and `r + 8`; scalar code one double in one register.

use super::{
    Assembler, Form, Gpr, Predicate, R8, R9, R10, R11, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDI, RDX, RSP,
    RegMem,
};
use crate::jit::{
    args::{ARG_CONSTS, ARG_STATES, ARG_STREAMS, CONST_BYTES, STATE_BYTES},
    guard,
    ir::{Arith, Inst, Ir, Opcode, Src},
    regalloc::{Reg, RegAlloc},
};

/// Doubles per iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jit) enum Width {
    /// One bar of eight series, or eight bars of one.
    Eight,
    /// One bar of one series.
    One,
}

/// Registers that hold stream pointers; the pointers of further streams are loaded from the table at each use.
pub(super) const STREAM_REGS: [Gpr; 8] = [R9, R10, R11, RBX, R12, R13, R14, R15];
const CALLEE_SAVED: [Gpr; 6] = [RBP, RBX, R12, R13, R14, R15];
pub(super) const TABLE: Gpr = RDI;
pub(super) const CONSTS: Gpr = RDX;
const STATES: Gpr = R8;

/// Prefetch distance of a loop along time, into L2, in bytes. Chosen by measurement (`cargo xtask bench indicators`): half of
/// it hides less latency, a whole page ahead slows down what is already cached.
const PREFETCH_BYTES: i32 = 3072;

/// Instructions per stream from which on such a loop prefetches.
const PREFETCH_MIN_COST: usize = 6;

/// Pairs of registers that hold states of scans, at most.
const SCAN_STATE_PAIRS: usize = 2;

/// Emits one loop.
pub(super) struct Emitter<'i> {
    pub(super) asm: Assembler,
    pub(super) ir: &'i Ir,
    pub(super) width: Width,
    /// Bytes from a bar to the one before, in every stream.
    bar_stride: usize,
    hints: MemoryHints<'i>,
    alloc: RegAlloc,
    /// Registers of the first states.
    pub(super) state_regs: Vec<Reg>,
    /// Is a state one register, not a pair?
    single_state_reg: bool,
    /// Streams whose pointers are in registers.
    pub(super) stream_regs: usize,
}

/// Where the second operand of an instruction may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondOperand {
    /// In a register or in memory.
    RegMem,
    /// The same, but a bitwise instruction reads 128 bits of memory even for a scalar.
    Bitwise,
    /// In a register.
    Reg,
}

/// Registers of one half of an operation.
struct HalfOperands {
    to: Reg,
    x: Reg,
    y: RegMem,
    scratch: Reg,
}

impl HalfOperands {
    /// The second operand as a register: for `SecondOperand::Reg`.
    fn y_reg(&self) -> Reg {
        if let RegMem::Reg(reg) = self.y { reg } else { self.x }
    }
}

/// Cache hints of a loop.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::jit) struct MemoryHints<'i> {
    /// Streams that are written with non-temporal stores; they are aligned to cache lines.
    pub(in crate::jit) nontemporal: &'i [bool],
    /// Pointers in the table, after the streams, whose next line is prefetched at every bar.
    pub(in crate::jit) prefetch: usize,
}

/// About how many machine instructions it becomes.
fn cost(inst: &Inst) -> usize {
    match inst {
        Inst::Op { op: Opcode::Load, .. } => 0,
        Inst::Op { op: Opcode::Scan(_), .. } => 10,
        Inst::Op { op: Opcode::NanMinMax(_) | Opcode::Div0, .. } => 3,
        _ => 1,
    }
}

/// Machine code of a fused loop. `bar_stride` is the distance of two bars in a stream, in bytes.
pub(in crate::jit) fn emit<'i>(
    ir: &'i Ir,
    width: Width,
    bar_stride: usize,
    hints: MemoryHints<'i>,
) -> Vec<u8> {
    Emitter::new(ir, width, bar_stride, hints).function()
}

impl<'i> Emitter<'i> {
    pub(super) fn new(ir: &'i Ir, width: Width, bar_stride: usize, hints: MemoryHints<'i>) -> Emitter<'i> {
        let (registers, max_states) = match width {
            Width::Eight => (7, 3),
            Width::One => (15, 8),
        };
        // Eight bars share one state: each half of a pair holds one.
        let single_state_reg = width == Width::Eight && !ir.scans.is_empty();
        let pairs = if single_state_reg {
            ir.states.len().div_ceil(2).min(SCAN_STATE_PAIRS)
        } else {
            ir.states.len().min(max_states)
        };
        let state_regs: Vec<Reg> = match single_state_reg {
            true => (0..ir.states.len().min(2 * pairs))
                .map(|s| (registers - 1 - s / 2) as Reg + 8 * (s % 2) as Reg)
                .collect(),
            false => (0..pairs).map(|s| (registers - 1 - s) as Reg).collect(),
        };
        Emitter {
            asm: Assembler::default(),
            ir,
            width,
            bar_stride,
            hints,
            alloc: RegAlloc::new(ir, registers - pairs),
            state_regs,
            single_state_reg,
            stream_regs: STREAM_REGS.len(),
        }
    }

    pub(super) fn form(&self) -> Form {
        if self.width == Width::Eight { Form::Packed } else { Form::Scalar }
    }

    fn bitwise_form(&self) -> Form {
        if self.width == Width::Eight { Form::Packed } else { Form::Packed128 }
    }

    fn halves(&self) -> std::ops::Range<u8> {
        if self.width == Width::Eight { 0..2 } else { 0..1 }
    }

    /// The scratch register: for masks and temporaries of one instruction.
    pub(super) fn scratch(&self) -> Reg {
        if self.width == Width::Eight { 7 } else { 15 }
    }

    /// An operand as the first or second half of a pair sees it; constants are the same in both.
    fn half(operand: RegMem, half: u8) -> RegMem {
        let shift = 32 * i32::from(half);
        match operand {
            RegMem::Reg(r) => RegMem::Reg(r + 8 * half),
            RegMem::Fixed { base, disp } if base == CONSTS => RegMem::Fixed { base, disp },
            RegMem::Fixed { base, disp } => RegMem::Fixed { base, disp: disp + shift },
            RegMem::Stream { base, disp } => RegMem::Stream { base, disp: disp + shift },
            RegMem::Column { base, disp } => RegMem::Column { base, disp: disp + shift },
        }
    }

    fn function(&mut self) -> Vec<u8> {
        // The body first: the prologue reserves the stack that it spills to.
        self.body();
        let body = std::mem::take(&mut self.asm.code);
        self.prologue();
        self.asm.xor_zero(RCX);
        let top = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(RCX, if self.width == Width::Eight { 64 } else { 8 });
        self.asm.cmp_rsi(RCX);
        self.asm.jb(top);
        self.epilogue()
    }

    /// Saves registers, reserves the spill slots of the body, loads pointers and states.
    pub(super) fn prologue(&mut self) {
        let stack = i32::try_from(self.alloc.spills() * STATE_BYTES).unwrap_or(0);
        CALLEE_SAVED.iter().for_each(|r| self.asm.push(*r));
        self.asm.mov(RBP, RSP);
        self.asm.and(RSP, -(STATE_BYTES as i32));
        self.asm.sub(RSP, stack);
        self.asm.mov_load(CONSTS, TABLE, 8 * ARG_CONSTS as i32);
        self.asm.mov_load(STATES, TABLE, 8 * ARG_STATES as i32);
        for (stream, to) in STREAM_REGS.iter().enumerate().take(self.ir.streams.len().min(self.stream_regs)) {
            self.asm.mov_load(*to, TABLE, 8 * (ARG_STREAMS + stream) as i32);
        }
        for state in 0..self.state_regs.len() {
            self.move_state(state, true);
        }
    }

    /// Stores the states and restores registers; the finished code.
    pub(super) fn epilogue(&mut self) -> Vec<u8> {
        for state in 0..self.state_regs.len() {
            self.move_state(state, false);
        }
        self.asm.vzeroupper();
        self.asm.mov(RSP, RBP);
        CALLEE_SAVED.iter().rev().for_each(|r| self.asm.pop(*r));
        self.asm.ret();
        std::mem::take(&mut self.asm.code)
    }

    /// A state from memory into its register, or back.
    fn move_state(&mut self, state: usize, load: bool) {
        let Some(reg) = self.state_regs.get(state).copied() else { return };
        let slot = Emitter::state_slot(state);
        for h in if self.single_state_reg { 0..1 } else { self.halves() } {
            let (reg, slot, form) = (reg + 8 * h, Emitter::half(slot, h), self.form());
            if load {
                self.asm.vmov_load(form, reg, slot);
            } else {
                self.asm.vmov_store(form, reg, slot);
            }
        }
    }

    pub(super) fn state_slot(state: usize) -> RegMem {
        RegMem::Fixed { base: STATES, disp: i32::try_from(state * STATE_BYTES).unwrap_or(0) }
    }

    fn spill_slot(slot: usize) -> RegMem {
        RegMem::Fixed { base: RSP, disp: i32::try_from(slot * STATE_BYTES).unwrap_or(0) }
    }

    /// A constant by its index in the table.
    pub(super) fn constant(at: usize) -> RegMem {
        RegMem::Fixed { base: CONSTS, disp: i32::try_from(at * CONST_BYTES).unwrap_or(0) }
    }

    /// A constant by its value; one that is not in the table is the first, 0.
    fn constant_of(&self, x: f64) -> RegMem {
        let at = self.ir.consts.iter().position(|c| *c == [x.to_bits(); 4]).unwrap_or(0);
        Emitter::constant(at)
    }

    /// One iteration of the loop.
    pub(super) fn body(&mut self) {
        self.prefetch_streams();
        for pointer in 0..self.hints.prefetch {
            let at = ARG_STREAMS + self.ir.streams.len() + pointer;
            self.asm.mov_load(RAX, TABLE, 8 * at as i32);
            self.asm.prefetcht1_stream(RAX, 0);
        }
        for (at, inst) in self.ir.insts.iter().enumerate() {
            self.alloc.unlock_all();
            match *inst {
                Inst::Op { op: Opcode::Load, .. } => {}
                Inst::Op { to, op, from } => self.op(at, to, op, from),
                Inst::Store { stream, val } => {
                    let reg = self.register(val);
                    let operand = self.stream(stream, 0);
                    let nontemporal = self.hints.nontemporal.get(stream) == Some(&true);
                    for h in self.halves() {
                        let (form, operand) = (self.form(), Emitter::half(operand, h));
                        match nontemporal {
                            true => self.asm.vmovntpd(reg + 8 * h, operand),
                            false => self.asm.vmov_store(form, reg + 8 * h, operand),
                        }
                    }
                }
                Inst::SetState { state, val } => {
                    let reg = self.register(val);
                    self.set_state(state, reg);
                }
            }
            self.alloc.release(at);
        }
    }

    /// Software prefetch in a loop along time: every iteration reads a line of every stream, and a long body leaves the memory
    /// idle. A short one has enough loads in flight, and prefetching would only slow it.
    fn prefetch_streams(&mut self) {
        let total: usize = self.ir.insts.iter().map(cost).sum();
        let read: Vec<usize> =
            (0..self.ir.streams.len()).filter(|s| self.ir.written.get(*s) == Some(&false)).collect();
        if self.width != Width::Eight
            || self.bar_stride != size_of::<f64>()
            || total < PREFETCH_MIN_COST * read.len()
        {
            return;
        }
        for stream in read {
            if let RegMem::Stream { base, .. } = self.stream(stream, 0) {
                self.asm.prefetcht1_stream(base, PREFETCH_BYTES);
            }
        }
    }

    /// A state for the next bar: to its register, or to memory.
    pub(super) fn set_state(&mut self, state: usize, reg: Reg) {
        let form = self.form();
        for h in self.halves() {
            match self.state_regs.get(state) {
                Some(to) => self.asm.vmovapd(form, to + 8 * h, reg + 8 * h),
                None => {
                    self.asm.vmov_store(form, reg + 8 * h, Emitter::half(Emitter::state_slot(state), h));
                }
            }
        }
    }

    /// A register that can be written; the value in it is spilled first, if it has to be.
    pub(super) fn take(&mut self) -> Reg {
        let (reg, spill) = self.alloc.take();
        if let Some(slot) = spill {
            for h in self.halves() {
                let form = self.form();
                self.asm.vmov_store(form, reg + 8 * h, Emitter::half(Emitter::spill_slot(slot), h));
            }
        }
        reg
    }

    /// This bar of a stream, or an earlier one. May use RAX until the next stream.
    pub(super) fn stream(&mut self, stream: usize, lag: usize) -> RegMem {
        let lag = if lag > 1 && guard::is_planted() { lag - 1 } else { lag };
        let disp = -i32::try_from(lag * self.bar_stride).unwrap_or(0);
        let in_reg = STREAM_REGS.get(stream).filter(|_| stream < self.stream_regs).copied();
        let base = in_reg.unwrap_or_else(|| {
            self.asm.mov_load(RAX, TABLE, 8 * (ARG_STREAMS + stream) as i32);
            RAX
        });
        RegMem::Stream { base, disp }
    }

    /// Where a source is in memory, if it is in no register.
    fn memory(&mut self, src: Src) -> Option<RegMem> {
        match src {
            Src::Mem { stream, lag } => Some(self.stream(stream, lag)),
            Src::Const(at) => Some(Emitter::constant(at)),
            Src::State(s) => self.state_regs.get(s).is_none().then(|| Emitter::state_slot(s)),
            Src::Val(v) => {
                if self.alloc.reg(v).is_some() {
                    return None;
                }
                match self.alloc.slot(v) {
                    Some(slot) => Some(Emitter::spill_slot(slot)),
                    None => self.alloc.remat(v).and_then(|s| if s == src { None } else { self.memory(s) }),
                }
            }
        }
    }

    /// A source in a register.
    pub(super) fn register(&mut self, src: Src) -> Reg {
        if let Some(reg) = self.in_register(src) {
            self.alloc.lock(reg);
            return reg;
        }
        let reg = self.take();
        if let Some(operand) = self.memory(src) {
            for h in self.halves() {
                let form = self.form();
                self.asm.vmov_load(form, reg + 8 * h, Emitter::half(operand, h));
            }
        }
        if let Src::Val(v) = src {
            self.alloc.assign(reg, v);
        }
        reg
    }

    fn in_register(&self, src: Src) -> Option<Reg> {
        match src {
            Src::Val(v) => self.alloc.reg(v),
            Src::State(s) => self.state_regs.get(s).copied(),
            _ => None,
        }
    }

    /// A source as the last operand: in memory where it is not needed in a register afterwards. A scalar bitwise instruction
    /// reads 128 bits, so that only constants may be memory operands of it.
    fn operand(&mut self, at: usize, src: Src, bitwise: bool) -> RegMem {
        let too_short = bitwise && self.width == Width::One && !matches!(src, Src::Const(_));
        let live = matches!(src, Src::Val(v) if self.alloc.is_live_after(v, at));
        if too_short || live || self.in_register(src).is_some() {
            return RegMem::Reg(self.register(src));
        }
        match self.memory(src) {
            Some(operand) => operand,
            None => RegMem::Reg(self.register(src)),
        }
    }

    /// The register of a result. Unless `keep`, it may be that of a source whose last use this is; sources that are still read
    /// after the result is first written have to be kept.
    pub(super) fn target(&mut self, at: usize, to: usize, keep: bool) -> Reg {
        if !keep {
            self.alloc.unlock_all();
            self.alloc.release(at);
        }
        let reg = self.take();
        self.alloc.assign(reg, to);
        reg
    }

    /// Two sources and a result, half by half.
    fn two(
        &mut self,
        at: usize,
        to: usize,
        [a, b]: [Src; 2],
        second: SecondOperand,
        emit: impl Fn(&mut Assembler, HalfOperands),
    ) {
        // A stream may be addressed through RAX, which holds only the latest: registers first, memory last.
        let x = self.register(a);
        let y = match second {
            SecondOperand::Reg => RegMem::Reg(self.register(b)),
            SecondOperand::Bitwise => self.operand(at, b, true),
            SecondOperand::RegMem => self.operand(at, b, false),
        };
        let to = self.target(at, to, false);
        let scratch = self.scratch();
        for h in self.halves() {
            let (to, x, scratch) = (to + 8 * h, x + 8 * h, scratch + 8 * h);
            emit(&mut self.asm, HalfOperands { to, x, y: Emitter::half(y, h), scratch });
        }
    }

    fn op(&mut self, at: usize, to: usize, op: Opcode, [a, b, c]: [Src; 3]) {
        let (one, zero) = (self.constant_of(1.0), self.constant_of(0.0));
        let (form, bitwise) = (self.form(), self.bitwise_form());
        match op {
            Opcode::Arith(arith) => {
                let commutes = matches!(arith, Arith::Add | Arith::Mul);
                let swap = commutes && self.in_register(a).is_none() && self.in_register(b).is_some();
                // The order decides which of two NaNs comes out, and nothing else.
                let sources = if swap { [b, a] } else { [a, b] };
                self.two(at, to, sources, SecondOperand::RegMem, |asm, r| {
                    asm.varith(arith, form, r.to, r.x, r.y);
                });
            }
            Opcode::Bitwise(op) => {
                self.two(at, to, [a, b], SecondOperand::Bitwise, |asm, r| {
                    asm.vbitwise(op, bitwise, r.to, r.x, r.y);
                });
            }
            Opcode::Predicate(compare) => self.two(at, to, [a, b], SecondOperand::RegMem, |asm, r| {
                asm.vcmp(compare.into(), form, r.to, r.x, r.y);
                asm.vand(bitwise, r.to, r.to, one);
            }),
            Opcode::Logical(op) => self.two(at, to, [b, a], SecondOperand::Reg, |asm, r| {
                asm.vcmp(Predicate::Ne, form, r.scratch, r.y_reg(), zero);
                asm.vcmp(Predicate::Ne, form, r.to, r.x, zero);
                asm.vbitwise(op, bitwise, r.to, r.to, RegMem::Reg(r.scratch));
                asm.vand(bitwise, r.to, r.to, one);
            }),
            // All bits are a NaN.
            Opcode::NanMinMax(op) => self.two(at, to, [a, b], SecondOperand::RegMem, |asm, r| {
                asm.vcmp(Predicate::Unordered, form, r.scratch, r.x, r.y);
                asm.vminmax(op, form, r.to, r.x, r.y);
                asm.vor(bitwise, r.to, r.to, RegMem::Reg(r.scratch));
            }),
            Opcode::Div0 => self.two(at, to, [a, b], SecondOperand::Reg, |asm, r| {
                asm.vcmp(Predicate::Ne, form, r.scratch, r.y_reg(), zero);
                asm.vdiv(form, r.to, r.x, r.y);
                asm.vand(bitwise, r.to, r.to, RegMem::Reg(r.scratch));
            }),
            Opcode::Select => self.select(at, to, [a, b, c], Some(zero)),
            Opcode::Blend => self.select(at, to, [a, b, c], None),
            Opcode::Mask(compare) => self.two(at, to, [a, b], SecondOperand::RegMem, |asm, r| {
                asm.vcmp(compare.into(), form, r.to, r.x, r.y);
            }),
            Opcode::Sqrt => {
                self.two(at, to, [a, a], SecondOperand::Reg, |asm, r| asm.vsqrt(form, r.to, r.y, r.x));
            }
            Opcode::Round(towards) => {
                self.two(at, to, [a, a], SecondOperand::Reg, |asm, r| asm.vround(form, r.to, r.x, towards));
            }
            Opcode::Sign => self.two(at, to, [a, a], SecondOperand::Reg, |asm, r| {
                asm.vcmp(Predicate::Gt, form, r.scratch, r.x, zero);
                asm.vcmp(Predicate::Lt, form, r.to, r.x, zero);
                asm.vand(bitwise, r.scratch, r.scratch, one);
                asm.vand(bitwise, r.to, r.to, one);
                asm.vsub(form, r.to, r.scratch, RegMem::Reg(r.to));
            }),
            Opcode::Scan(scan) => self.scan(at, to, scan, [a, b]),
            Opcode::Copy => {
                let from = self.register(a);
                let to = self.target(at, to, false);
                for h in self.halves().filter(|_| to != from) {
                    self.asm.vmovapd(form, to + 8 * h, from + 8 * h);
                }
            }
            Opcode::Load => {}
        }
    }

    /// `yes` where the condition is not 0, else `no`; without a `zero` the condition is a mask.
    fn select(&mut self, at: usize, to: usize, [mask, yes, no]: [Src; 3], zero: Option<RegMem>) {
        let (no, mask) = (self.register(no), self.register(mask));
        let yes = self.operand(at, yes, true);
        let to = self.target(at, to, false);
        let (form, scratch) = (self.form(), self.scratch());
        for h in self.halves() {
            let (mut mask, scratch) = (mask + 8 * h, scratch + 8 * h);
            if let Some(zero) = zero {
                self.asm.vcmp(Predicate::Ne, form, scratch, mask, zero);
                mask = scratch;
            }
            self.asm.vblendv(form, to + 8 * h, no + 8 * h, Emitter::half(yes, h), mask);
        }
    }
}
