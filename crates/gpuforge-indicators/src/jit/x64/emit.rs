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
    error::EmitError,
    guard,
    ir::{Arith, Inst, Ir, Opcode, Src},
    regalloc::{Reg, RegAlloc},
    target::{MemoryHints, Width},
};

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

/// Registers of one half of an operation; the second source is a register, or may be memory.
struct HalfOperands<Y> {
    to: Reg,
    x: Reg,
    y: Y,
    scratch: Reg,
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
) -> Result<Vec<u8>, EmitError> {
    Emitter::new(ir, width, bar_stride, hints)?.function()
}

/// A displacement of this many bytes times so many.
fn displacement(what: &'static str, at: usize, bytes: usize) -> Result<i32, EmitError> {
    at.checked_mul(bytes)
        .and_then(|disp| i32::try_from(disp).ok())
        .ok_or(EmitError::Range { what, value: at })
}

/// The offset of a pointer in the table.
pub(super) fn table_offset(at: usize) -> Result<i32, EmitError> {
    displacement("pointer", at, size_of::<*mut f64>())
}

impl<'i> Emitter<'i> {
    pub(super) fn new(
        ir: &'i Ir,
        width: Width,
        bar_stride: usize,
        hints: MemoryHints<'i>,
    ) -> Result<Emitter<'i>, EmitError> {
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
        Ok(Emitter {
            asm: Assembler::default(),
            ir,
            width,
            bar_stride,
            hints,
            alloc: RegAlloc::new(ir, registers - pairs)?,
            state_regs,
            single_state_reg,
            stream_regs: STREAM_REGS.len(),
        })
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

    fn function(&mut self) -> Result<Vec<u8>, EmitError> {
        // The body first: the prologue reserves the stack that it spills to.
        self.body()?;
        let body = std::mem::take(&mut self.asm.code);
        self.prologue()?;
        self.asm.xor_zero(RCX);
        let top = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(RCX, if self.width == Width::Eight { 64 } else { 8 });
        self.asm.cmp_rsi(RCX);
        self.asm.jb(top)?;
        self.epilogue()
    }

    /// Saves registers, reserves the spill slots of the body, loads pointers and states.
    pub(super) fn prologue(&mut self) -> Result<(), EmitError> {
        let stack = displacement("spill slot", self.alloc.spills(), STATE_BYTES)?;
        CALLEE_SAVED.iter().for_each(|r| self.asm.push(*r));
        self.asm.mov(RBP, RSP);
        self.asm.and(RSP, -(STATE_BYTES as i32));
        self.asm.sub(RSP, stack);
        self.asm.mov_load(CONSTS, TABLE, table_offset(ARG_CONSTS)?);
        self.asm.mov_load(STATES, TABLE, table_offset(ARG_STATES)?);
        for (stream, to) in STREAM_REGS.iter().enumerate().take(self.ir.streams.len().min(self.stream_regs)) {
            self.asm.mov_load(*to, TABLE, table_offset(ARG_STREAMS + stream)?);
        }
        self.move_states(true)
    }

    /// Stores the states and restores registers; the finished code.
    pub(super) fn epilogue(&mut self) -> Result<Vec<u8>, EmitError> {
        self.move_states(false)?;
        self.asm.vzeroupper();
        self.asm.mov(RSP, RBP);
        CALLEE_SAVED.iter().rev().for_each(|r| self.asm.pop(*r));
        self.asm.ret();
        Ok(std::mem::take(&mut self.asm.code))
    }

    /// The states that have registers, from memory into them or back.
    fn move_states(&mut self, load: bool) -> Result<(), EmitError> {
        for (state, reg) in self.state_regs.clone().into_iter().enumerate() {
            let slot = Emitter::state_slot(state)?;
            for h in if self.single_state_reg { 0..1 } else { self.halves() } {
                let (reg, slot, form) = (reg + 8 * h, Emitter::half(slot, h), self.form());
                if load {
                    self.asm.vmov_load(form, reg, slot);
                } else {
                    self.asm.vmov_store(form, reg, slot);
                }
            }
        }
        Ok(())
    }

    pub(super) fn state_slot(state: usize) -> Result<RegMem, EmitError> {
        Ok(RegMem::Fixed { base: STATES, disp: displacement("state", state, STATE_BYTES)? })
    }

    fn spill_slot(slot: usize) -> Result<RegMem, EmitError> {
        Ok(RegMem::Fixed { base: RSP, disp: displacement("spill slot", slot, STATE_BYTES)? })
    }

    /// A constant by its index in the table.
    pub(super) fn constant(at: usize) -> Result<RegMem, EmitError> {
        Ok(RegMem::Fixed { base: CONSTS, disp: displacement("constant", at, CONST_BYTES)? })
    }

    /// 0 or 1 in the table.
    fn constant_of(&self, x: u8) -> Result<RegMem, EmitError> {
        let bits = [f64::from(x).to_bits(); 4];
        let at = self.ir.consts.iter().position(|c| *c == bits).ok_or(EmitError::NoConstant(x))?;
        Emitter::constant(at)
    }

    /// One iteration of the loop.
    pub(super) fn body(&mut self) -> Result<(), EmitError> {
        self.prefetch_streams()?;
        for pointer in 0..self.hints.prefetch {
            self.asm.mov_load(RAX, TABLE, table_offset(ARG_STREAMS + self.ir.streams.len() + pointer)?);
            self.asm.prefetcht1_stream(RAX, 0);
        }
        for (at, inst) in self.ir.insts.iter().enumerate() {
            self.alloc.unlock_all();
            match *inst {
                Inst::Op { op: Opcode::Load, .. } => {}
                Inst::Op { to, op, from } => self.op(at, to, op, from)?,
                Inst::Store { stream, val } => {
                    let reg = self.register(val)?;
                    let operand = self.stream(stream, 0)?;
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
                    let reg = self.register(val)?;
                    self.set_state(state, reg)?;
                }
            }
            self.alloc.release(at)?;
        }
        Ok(())
    }

    /// Software prefetch in a loop along time: every iteration reads a line of every stream, and a long body leaves the memory
    /// idle. A short one has enough loads in flight, and prefetching would only slow it.
    fn prefetch_streams(&mut self) -> Result<(), EmitError> {
        let total: usize = self.ir.insts.iter().map(cost).sum();
        let read: Vec<usize> =
            (0..self.ir.streams.len()).filter(|s| self.ir.written.get(*s) == Some(&false)).collect();
        if self.width != Width::Eight
            || self.bar_stride != size_of::<f64>()
            || total < PREFETCH_MIN_COST * read.len()
        {
            return Ok(());
        }
        for stream in read {
            let base = self.stream_base(stream)?;
            self.asm.prefetcht1_stream(base, PREFETCH_BYTES);
        }
        Ok(())
    }

    /// A state for the next bar: to its register, or to memory.
    pub(super) fn set_state(&mut self, state: usize, reg: Reg) -> Result<(), EmitError> {
        let form = self.form();
        for h in self.halves() {
            match self.state_regs.get(state) {
                Some(to) => self.asm.vmovapd(form, to + 8 * h, reg + 8 * h),
                None => {
                    let slot = Emitter::half(Emitter::state_slot(state)?, h);
                    self.asm.vmov_store(form, reg + 8 * h, slot);
                }
            }
        }
        Ok(())
    }

    /// A register that can be written; the value in it is spilled first, if it has to be.
    pub(super) fn take(&mut self) -> Result<Reg, EmitError> {
        let (reg, spill) = self.alloc.take()?;
        if let Some(slot) = spill {
            let slot = Emitter::spill_slot(slot)?;
            for h in self.halves() {
                let form = self.form();
                self.asm.vmov_store(form, reg + 8 * h, Emitter::half(slot, h));
            }
        }
        Ok(reg)
    }

    /// The register with a stream's pointer. May use RAX until the next stream.
    pub(super) fn stream_base(&mut self, stream: usize) -> Result<Gpr, EmitError> {
        if stream >= self.ir.streams.len() {
            return Err(EmitError::Missing { what: "stream", at: stream });
        }
        if let Some(base) = STREAM_REGS.get(stream).filter(|_| stream < self.stream_regs) {
            return Ok(*base);
        }
        self.asm.mov_load(RAX, TABLE, table_offset(ARG_STREAMS + stream)?);
        Ok(RAX)
    }

    /// This bar of a stream, or an earlier one. May use RAX until the next stream.
    fn stream(&mut self, stream: usize, lag: usize) -> Result<RegMem, EmitError> {
        let lag = if lag > 1 && guard::is_planted() { lag - 1 } else { lag };
        let disp = -displacement("lag", lag, self.bar_stride)?;
        Ok(RegMem::Stream { base: self.stream_base(stream)?, disp })
    }

    /// Where a source is in memory, if it is in no register.
    fn memory(&mut self, src: Src) -> Result<Option<RegMem>, EmitError> {
        Ok(match src {
            Src::Mem { stream, lag } => Some(self.stream(stream, lag)?),
            Src::Const(at) => Some(Emitter::constant(at)?),
            Src::State(s) if self.state_regs.get(s).is_some() => None,
            Src::State(s) => Some(Emitter::state_slot(s)?),
            Src::Val(v) if self.alloc.reg(v).is_some() => None,
            Src::Val(v) => match (self.alloc.slot(v), self.alloc.remat(v)) {
                (Some(slot), _) => Some(Emitter::spill_slot(slot)?),
                (None, Some(Src::Mem { stream, lag })) => Some(self.stream(stream, lag)?),
                (None, _) => return Err(EmitError::Lost(v)),
            },
            Src::None => return Err(EmitError::NoOperand),
        })
    }

    /// A source in a register.
    pub(super) fn register(&mut self, src: Src) -> Result<Reg, EmitError> {
        if let Some(reg) = self.in_register(src) {
            self.alloc.lock(reg);
            return Ok(reg);
        }
        let reg = self.take()?;
        let operand = self.memory(src)?.ok_or(EmitError::NoOperand)?;
        for h in self.halves() {
            let form = self.form();
            self.asm.vmov_load(form, reg + 8 * h, Emitter::half(operand, h));
        }
        if let Src::Val(v) = src {
            self.alloc.assign(reg, v)?;
        }
        Ok(reg)
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
    fn operand(&mut self, at: usize, src: Src, bitwise: bool) -> Result<RegMem, EmitError> {
        let too_short = bitwise && self.width == Width::One && !matches!(src, Src::Const(_));
        let live = matches!(src, Src::Val(v) if self.alloc.is_live_after(v, at));
        if !too_short
            && !live
            && let Some(operand) = self.memory(src)?
        {
            return Ok(operand);
        }
        Ok(RegMem::Reg(self.register(src)?))
    }

    /// The register of a result. Unless `keep`, it may be that of a source whose last use this is; sources that are still read
    /// after the result is first written have to be kept.
    pub(super) fn target(&mut self, at: usize, to: usize, keep: bool) -> Result<Reg, EmitError> {
        if !keep {
            self.alloc.unlock_all();
            self.alloc.release(at)?;
        }
        let reg = self.take()?;
        self.alloc.assign(reg, to)?;
        Ok(reg)
    }

    /// Two sources and a result, half by half; the second source may be in memory. A stream may be addressed through RAX, which
    /// holds only the latest: registers first, memory last.
    fn two(
        &mut self,
        (at, to): (usize, usize),
        [a, b]: [Src; 2],
        bitwise: bool,
        emit: impl Fn(&mut Assembler, HalfOperands<RegMem>),
    ) -> Result<(), EmitError> {
        let x = self.register(a)?;
        let y = self.operand(at, b, bitwise)?;
        let to = self.target(at, to, false)?;
        let scratch = self.scratch();
        for h in self.halves() {
            let (to, x, scratch) = (to + 8 * h, x + 8 * h, scratch + 8 * h);
            emit(&mut self.asm, HalfOperands { to, x, y: Emitter::half(y, h), scratch });
        }
        Ok(())
    }

    /// The same with both sources in registers.
    fn two_regs(
        &mut self,
        (at, to): (usize, usize),
        [a, b]: [Src; 2],
        emit: impl Fn(&mut Assembler, HalfOperands<Reg>),
    ) -> Result<(), EmitError> {
        let (x, y) = (self.register(a)?, self.register(b)?);
        let to = self.target(at, to, false)?;
        let scratch = self.scratch();
        for h in self.halves() {
            let (to, x, y, scratch) = (to + 8 * h, x + 8 * h, y + 8 * h, scratch + 8 * h);
            emit(&mut self.asm, HalfOperands { to, x, y, scratch });
        }
        Ok(())
    }

    fn op(&mut self, at: usize, to: usize, op: Opcode, [a, b, c]: [Src; 3]) -> Result<(), EmitError> {
        let (form, bitwise) = (self.form(), self.bitwise_form());
        let place = (at, to);
        match op {
            Opcode::Arith(arith) => {
                let commutes = matches!(arith, Arith::Add | Arith::Mul);
                let swap = commutes && self.in_register(a).is_none() && self.in_register(b).is_some();
                // The order decides which of two NaNs comes out, and nothing else.
                let sources = if swap { [b, a] } else { [a, b] };
                self.two(place, sources, false, |asm, r| asm.varith(arith, form, r.to, r.x, r.y))
            }
            Opcode::Bitwise(op) => {
                self.two(place, [a, b], true, |asm, r| asm.vbitwise(op, bitwise, r.to, r.x, r.y))
            }
            Opcode::Predicate(compare) => {
                let one = self.constant_of(1)?;
                self.two(place, [a, b], false, |asm, r| {
                    asm.vcmp(compare.into(), form, r.to, r.x, r.y);
                    asm.vand(bitwise, r.to, r.to, one);
                })
            }
            Opcode::Logical(op) => {
                let (one, zero) = (self.constant_of(1)?, self.constant_of(0)?);
                self.two_regs(place, [b, a], |asm, r| {
                    asm.vcmp(Predicate::Ne, form, r.scratch, r.y, zero);
                    asm.vcmp(Predicate::Ne, form, r.to, r.x, zero);
                    asm.vbitwise(op, bitwise, r.to, r.to, RegMem::Reg(r.scratch));
                    asm.vand(bitwise, r.to, r.to, one);
                })
            }
            // All bits are a NaN.
            Opcode::NanMinMax(op) => self.two(place, [a, b], false, |asm, r| {
                asm.vcmp(Predicate::Unordered, form, r.scratch, r.x, r.y);
                asm.vminmax(op, form, r.to, r.x, r.y);
                asm.vor(bitwise, r.to, r.to, RegMem::Reg(r.scratch));
            }),
            Opcode::Div0 => {
                let zero = self.constant_of(0)?;
                self.two_regs(place, [a, b], |asm, r| {
                    asm.vcmp(Predicate::Ne, form, r.scratch, r.y, zero);
                    asm.vdiv(form, r.to, r.x, RegMem::Reg(r.y));
                    asm.vand(bitwise, r.to, r.to, RegMem::Reg(r.scratch));
                })
            }
            Opcode::Select => {
                let zero = self.constant_of(0)?;
                self.select(place, [a, b, c], Some(zero))
            }
            Opcode::Blend => self.select(place, [a, b, c], None),
            Opcode::Mask(compare) => self.two(place, [a, b], false, |asm, r| {
                asm.vcmp(compare.into(), form, r.to, r.x, r.y);
            }),
            Opcode::Sqrt => {
                self.two_regs(place, [a, a], |asm, r| asm.vsqrt(form, r.to, RegMem::Reg(r.y), r.x))
            }
            Opcode::Round(towards) => {
                self.two_regs(place, [a, a], |asm, r| asm.vround(form, r.to, r.x, towards))
            }
            Opcode::Sign => {
                let (one, zero) = (self.constant_of(1)?, self.constant_of(0)?);
                self.two_regs(place, [a, a], |asm, r| {
                    asm.vcmp(Predicate::Gt, form, r.scratch, r.x, zero);
                    asm.vcmp(Predicate::Lt, form, r.to, r.x, zero);
                    asm.vand(bitwise, r.scratch, r.scratch, one);
                    asm.vand(bitwise, r.to, r.to, one);
                    asm.vsub(form, r.to, r.scratch, RegMem::Reg(r.to));
                })
            }
            Opcode::Scan(scan) => self.scan(place, scan, [a, b]),
            Opcode::Copy => {
                let from = self.register(a)?;
                let to = self.target(at, to, false)?;
                for h in self.halves().filter(|_| to != from) {
                    self.asm.vmovapd(form, to + 8 * h, from + 8 * h);
                }
                Ok(())
            }
            Opcode::Load => Ok(()),
        }
    }

    /// `yes` where the condition is not 0, else `no`; without a `zero` the condition is a mask.
    fn select(
        &mut self,
        (at, to): (usize, usize),
        [mask, yes, no]: [Src; 3],
        zero: Option<RegMem>,
    ) -> Result<(), EmitError> {
        let (no, mask) = (self.register(no)?, self.register(mask)?);
        let yes = self.operand(at, yes, true)?;
        let to = self.target(at, to, false)?;
        let (form, scratch) = (self.form(), self.scratch());
        for h in self.halves() {
            let (mut mask, scratch) = (mask + 8 * h, scratch + 8 * h);
            if let Some(zero) = zero {
                self.asm.vcmp(Predicate::Ne, form, scratch, mask, zero);
                mask = scratch;
            }
            self.asm.vblendv(form, to + 8 * h, no + 8 * h, Emitter::half(yes, h), mask);
        }
        Ok(())
    }
}
