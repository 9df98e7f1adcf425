//! AArch64 emitter: the IR of a fused loop into machine code, one loop over the bars of a block.
//!
//! Values live in the registers that [`RegAlloc`] gives them; the first states are pinned to registers of their own for the
//! whole loop. SIMD code keeps eight doubles in a group of four registers, `r`, `r + 7`, `r + 14` and `r + 21`; scalar code one
//! double in one register. Instructions have no memory operands: a value that is read once from memory goes through scratch
//! registers, two at a time, and a constant through one, the same for the whole group, unless it stays in a register of its
//! own ([`PinnedConstants`]). Stream pointers advance with the bars, so that offsets are immediates. A loop along time is
//! unrolled once: pointers advance, and addresses that are no immediate away are computed, for sixteen bars.
//!
//! | registers | use |
//! |---|---|
//! | x0 | argument block |
//! | x1 | bytes to walk over, or the end of the first stream |
//! | x2, x3, x4 | constants, states, bytes done |
//! | x5 | the end of the unrolled loop |
//! | x6 to x15 | pointers of the first streams |
//! | x16, x17 | addresses that are no immediate away, or the pointer of a further stream |
//! | v0 to v27 | values, states, constants |
//! | v28, v29 | operand from memory, or a constant second operand (v29) |
//! | v30 | mask or temporary of one instruction |
//! | v31 | constant first operand, the constant 1, or a second temporary |

use super::{
    Assembler, Form, Gpr, SP, VECTOR_BYTES, X0, X1, X2, X3, X4, X5, X16, X17,
    emit_op::{never_negative_zero, only_compared},
    pin::{HalfConstant, PinnedConstants, ones},
};
use crate::jit::{
    args::{ARG_CONSTS, ARG_STATES, ARG_STREAMS, CONST_BYTES, STATE_BYTES},
    error::EmitError,
    guard,
    ir::{Inst, Ir, Opcode, Src},
    regalloc::{Reg, RegAlloc},
    target::{MemoryHints, Width},
};

const TABLE: Gpr = X0;
const END: Gpr = X1;
const CONSTS: Gpr = X2;
pub(super) const STATES: Gpr = X3;
const DONE: Gpr = X4;
const UNROLLED_END: Gpr = X5;
/// Registers that hold stream pointers; the pointers of further streams are loaded from the table at each use.
const STREAM_REGS: [Gpr; 10] =
    [Gpr(6), Gpr(7), Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
const ADDRESSES: [Gpr; 2] = [X16, X17];
const POINTER: Gpr = X17;
/// Bytes of a loop body that is unrolled, at most: two of them, and one for the last bars, should stay in the L1 cache.
const MAX_UNROLLED: usize = 4096;
/// Scratch registers.
pub(super) const MEMORY: [Reg; 2] = [28, 29];
pub(super) const TEMP: Reg = 30;
pub(super) const EXTRA: Reg = 31;
/// Groups of four registers, and the distance of the registers of a group.
const GROUPS: usize = 7;
pub(super) const STRIDE: Reg = 7;
const PARTS: usize = 4;
/// Registers of scalar code.
const SCALARS: usize = 28;
/// States that are pinned, of SIMD and of scalar code.
const PINNED: usize = 3;
const PINNED_SCALARS: usize = 12;
/// Groups whose registers each hold the state of a scan, at most.
const SCAN_STATE_GROUPS: usize = 2;
/// Groups that are tried for constants, and registers of scalar code: what makes the shortest body is kept.
const CONSTANT_GROUPS: [usize; 4] = [0, 1, 2, 3];
const SCALAR_CONSTANTS: [usize; 2] = [0, 8];
/// Pairs of callee-saved registers: of `v8` to `v15` the lower halves.
const CALLEE_SAVED: [[Reg; 2]; 4] = [[8, 9], [10, 11], [12, 13], [14, 15]];
const SAVED_BYTES: i64 = 64;

/// Machine code of a fused loop. `bar_stride` is the distance of two bars in a stream, in bytes.
pub(in crate::jit) fn emit<'i>(
    ir: &'i Ir,
    width: Width,
    bar_stride: usize,
    hints: MemoryHints<'i>,
) -> Result<Vec<u8>, EmitError> {
    let tries = match width {
        Width::Eight => &CONSTANT_GROUPS[..],
        Width::One => &SCALAR_CONSTANTS[..],
    };
    let mut best: Option<Function> = None;
    for constants in tries {
        match Emitter::new(ir, width, bar_stride, hints, *constants)?.function() {
            Ok(made) if best.as_ref().is_none_or(|best| made.body < best.body) => best = Some(made),
            Err(error) if best.is_none() => return Err(error),
            // No constants left, or values spill that did not: more of them would not help.
            _ => break,
        }
    }
    best.map(|function| function.code).ok_or(EmitError::OutOfRegisters)
}

/// Finished machine code, and the bytes of its loop body.
struct Function {
    code: Vec<u8>,
    body: usize,
}

/// Emits one loop.
pub(super) struct Emitter<'i> {
    pub(super) asm: Assembler,
    pub(super) ir: &'i Ir,
    pub(super) width: Width,
    /// Bytes from a bar to the one before, in every stream.
    bar_stride: usize,
    hints: MemoryHints<'i>,
    pub(super) alloc: RegAlloc,
    /// Registers of the first states.
    pub(super) state_regs: Vec<Reg>,
    /// Is a state one register, not a group?
    single_state_reg: bool,
    /// Constants that stay in registers.
    pinned: PinnedConstants,
    /// Values that are never -0.
    pub(super) never_negative_zero: Vec<bool>,
    /// Values that are only compared: the sign of a zero does not matter.
    pub(super) only_compared: Vec<bool>,
    /// What [`ADDRESSES`] hold, the latest last: the distance from a register that does not change within the body.
    in_address: Vec<(Gpr, (Gpr, i64))>,
    /// Bytes from the stream pointers to the bars that are computed.
    ahead: i64,
    /// Registers of values.
    free: usize,
}

/// Where something is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    Stream { stream: usize, lag: usize },
    Fixed { base: Gpr, offset: usize },
}

/// A source of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    /// A register for each part of the group.
    Group(Reg),
    /// One register for all of them: a constant.
    Same(Reg),
    /// In memory, read once.
    Memory(Location),
}

/// Registers of one part of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) to: Reg,
    pub(super) x: Reg,
    pub(super) y: Reg,
}

/// Bytes of an entry of a table.
fn offset(what: &'static str, at: usize, bytes: usize) -> Result<i64, EmitError> {
    at.checked_mul(bytes).and_then(|x| i64::try_from(x).ok()).ok_or(EmitError::Range { what, value: at })
}

/// The offset of a state or a spilled value.
pub(super) fn slot_offset(what: &'static str, at: usize) -> Result<i64, EmitError> {
    offset(what, at, STATE_BYTES)
}

/// Does an instruction read or set a state bar by bar?
fn accesses_state(inst: &Inst) -> bool {
    match inst {
        Inst::Op { from, .. } => from.iter().any(|src| matches!(src, Src::State(_))),
        Inst::Store { val, .. } => matches!(val, Src::State(_)),
        Inst::SetState { .. } => true,
    }
}

impl<'i> Emitter<'i> {
    fn new(
        ir: &'i Ir,
        width: Width,
        bar_stride: usize,
        hints: MemoryHints<'i>,
        constant_groups: usize,
    ) -> Result<Emitter<'i>, EmitError> {
        let (registers, max_states) = match width {
            Width::Eight => (GROUPS, PINNED),
            Width::One => (SCALARS, PINNED_SCALARS),
        };
        // Eight bars share one state: a group holds four.
        let single_state_reg = width == Width::Eight && !ir.scans.is_empty();
        if single_state_reg && ir.insts.iter().any(accesses_state) {
            return Err(EmitError::Unsupported("a state of one bar beside a scan over eight"));
        }
        let (state_regs, for_states): (Vec<Reg>, usize) = if single_state_reg {
            let groups = ir.states.len().div_ceil(PARTS).min(SCAN_STATE_GROUPS);
            let reg = |s: usize| (registers - 1 - s / PARTS) as Reg + STRIDE * (s % PARTS) as Reg;
            ((0..ir.states.len().min(PARTS * groups)).map(reg).collect(), groups)
        } else {
            let pinned = ir.states.len().min(max_states);
            ((1..=pinned).map(|s| (registers - s) as Reg).collect(), pinned)
        };
        let free = registers.saturating_sub(for_states + constant_groups);
        let parts = if width == Width::Eight { PARTS } else { 1 };
        let constant_regs = (free..registers - for_states)
            .flat_map(|group| (0..parts).map(move |part| group as Reg + STRIDE * part as Reg));
        Ok(Emitter {
            asm: Assembler::default(),
            ir,
            width,
            bar_stride,
            hints,
            alloc: RegAlloc::new(ir, free)?,
            state_regs,
            single_state_reg,
            pinned: PinnedConstants::choose(ir, width, constant_regs),
            never_negative_zero: never_negative_zero(ir),
            only_compared: only_compared(ir),
            in_address: Vec::new(),
            ahead: 0,
            free,
        })
    }

    pub(super) fn form(&self) -> Form {
        if self.width == Width::Eight { Form::Vector } else { Form::Scalar }
    }

    /// The registers of a group, from its first one on.
    pub(super) fn group(&self, reg: Reg) -> impl Iterator<Item = Reg> + use<> {
        let parts = if self.width == Width::Eight { 4 } else { 1 };
        (0..parts).map(move |part| reg + STRIDE * part)
    }

    fn function(&mut self) -> Result<Function, EmitError> {
        // The first pointer counts, unless a pointer that is loaded at each use needs the bytes done.
        let counts = self.hints.prefetch == 0 && (1..=STREAM_REGS.len()).contains(&self.ir.streams.len());
        let along_time = self.width == Width::Eight && self.bar_stride == size_of::<f64>();
        // The body first: the prologue reserves the stack that it spills to.
        self.body()?;
        let body = std::mem::take(&mut self.asm.code);
        let bytes = body.len();
        let stack = offset("spill slot", self.alloc.spills(), STATE_BYTES)?;
        let step = if self.width == Width::Eight { 64 } else { 8 };
        let second = match counts && along_time && bytes <= MAX_UNROLLED {
            true => Some(self.second_body(step)?),
            false => None,
        };
        self.in_address.clear();
        self.prologue(stack)?;
        let counter = STREAM_REGS.first().copied().filter(|_| counts).unwrap_or(DONE);
        match counts {
            true => self.asm.add(END, END, counter),
            false => self.asm.mov_zero(DONE),
        }
        match second {
            Some(second) => self.unrolled_loop(&body, &second, (counter, step))?,
            None => {
                let top = self.asm.code.len();
                self.asm.code.extend(body);
                self.advance(step)?;
                if !counts {
                    self.asm.add_imm(DONE, DONE, step)?;
                }
                self.asm.cmp(counter, END);
                self.asm.b_lo(top)?;
            }
        }
        Ok(Function { code: self.epilogue(stack)?, body: bytes })
    }

    /// The body again, for the bars of the next iteration. It may use addresses that the first one computed.
    fn second_body(&mut self, step: i64) -> Result<Vec<u8>, EmitError> {
        self.alloc = RegAlloc::new(self.ir, self.free)?;
        self.ahead = step;
        self.body()?;
        self.ahead = 0;
        Ok(std::mem::take(&mut self.asm.code))
    }

    /// Two iterations at a time, then the last one, if their number is odd.
    fn unrolled_loop(
        &mut self,
        body: &[u8],
        second: &[u8],
        (counter, step): (Gpr, i64),
    ) -> Result<(), EmitError> {
        self.asm.add_imm(UNROLLED_END, END, -step)?;
        self.asm.cmp(counter, UNROLLED_END);
        let one = self.asm.b_hs();
        let top = self.asm.code.len();
        self.asm.code.extend_from_slice(body);
        self.asm.code.extend_from_slice(second);
        self.advance(2 * step)?;
        self.asm.cmp(counter, UNROLLED_END);
        self.asm.b_lo(top)?;
        self.asm.cmp(counter, END);
        let done = self.asm.b_hs();
        self.asm.land(one)?;
        self.asm.code.extend_from_slice(body);
        self.asm.land(done)
    }

    /// Advances the stream pointers.
    fn advance(&mut self, bytes: i64) -> Result<(), EmitError> {
        let pointers = STREAM_REGS.iter().take(self.ir.streams.len());
        pointers.into_iter().try_for_each(|pointer| self.asm.add_imm(*pointer, *pointer, bytes))
    }

    /// Saves registers, reserves the spill slots of the body, loads pointers and states.
    fn prologue(&mut self, stack: i64) -> Result<(), EmitError> {
        self.asm.add_imm(SP, SP, -SAVED_BYTES)?;
        for (pair, at) in CALLEE_SAVED.into_iter().zip((0..).step_by(16)) {
            self.asm.stp_d(pair, SP, at)?;
        }
        if stack > 0 {
            self.asm.add_imm(SP, SP, -stack)?;
        }
        self.pointer(CONSTS, ARG_CONSTS)?;
        self.pointer(STATES, ARG_STATES)?;
        for (stream, to) in STREAM_REGS.iter().enumerate().take(self.ir.streams.len()) {
            self.pointer(*to, ARG_STREAMS + stream)?;
        }
        for (state, reg) in self.state_regs.clone().into_iter().enumerate() {
            match self.single_state_reg {
                true => self.load_state(state, reg)?,
                false => self.load(reg, Emitter::state_slot(state)?)?,
            }
        }
        for (constant, reg) in self.pinned.all() {
            self.load_constant(reg, constant)?;
        }
        Ok(())
    }

    /// Stores the states and restores registers; the finished code.
    fn epilogue(&mut self, stack: i64) -> Result<Vec<u8>, EmitError> {
        for (state, reg) in self.state_regs.clone().into_iter().enumerate() {
            match self.single_state_reg {
                true => self.store_state(state, reg)?,
                false => self.store(reg, Emitter::state_slot(state)?, false)?,
            }
        }
        if stack > 0 {
            self.asm.add_imm(SP, SP, stack)?;
        }
        for (pair, at) in CALLEE_SAVED.into_iter().zip((0..).step_by(16)) {
            self.asm.ldp_d(pair, SP, at)?;
        }
        self.asm.add_imm(SP, SP, SAVED_BYTES)?;
        self.asm.ret();
        Ok(std::mem::take(&mut self.asm.code))
    }

    /// A pointer of the argument block.
    fn pointer(&mut self, to: Gpr, at: usize) -> Result<(), EmitError> {
        self.asm.ldr_x(to, TABLE, offset("pointer", at, size_of::<*mut f64>())?)
    }

    pub(super) fn state_slot(state: usize) -> Result<Location, EmitError> {
        offset("state", state, STATE_BYTES)?;
        Ok(Location::Fixed { base: STATES, offset: state * STATE_BYTES })
    }

    fn spill_slot(slot: usize) -> Result<Location, EmitError> {
        offset("spill slot", slot, STATE_BYTES)?;
        Ok(Location::Fixed { base: SP, offset: slot * STATE_BYTES })
    }

    /// An address as a register and an offset that the loads and stores of a group can have. Valid until the next one.
    pub(super) fn address(&mut self, location: Location) -> Result<(Gpr, i64), EmitError> {
        let (base, at) = match location {
            Location::Fixed { base, offset: at } => (base, offset("byte", at, 1)?),
            Location::Stream { stream, .. } if stream >= self.ir.streams.len() => {
                return Err(EmitError::Missing { what: "stream", at: stream });
            }
            Location::Stream { stream, lag } => {
                let lag = if lag > 1 && guard::is_planted() { lag - 1 } else { lag };
                let at = self.ahead - offset("lag", lag, self.bar_stride)?;
                match STREAM_REGS.get(stream) {
                    Some(base) => (*base, at),
                    None => {
                        self.pointer(POINTER, ARG_STREAMS + stream)?;
                        self.asm.add(POINTER, POINTER, DONE);
                        (POINTER, at)
                    }
                }
            }
        };
        let fits = match self.width {
            Width::Eight => Assembler::is_pair_offset(at),
            // Both `ldur` and the scaled `ldr` reach this far.
            Width::One => (-256..32760).contains(&at),
        };
        if fits {
            return Ok((base, at));
        }
        // Bars back are multiples of 8 bytes, of `ldp q` of 16: neighbours share an address.
        let near = |(_, (of, from)): &&(Gpr, (Gpr, i64))| {
            *of == base && self.width == Width::Eight && Assembler::is_pair_offset(at - from)
        };
        if let Some((address, (_, from))) = self.in_address.iter().find(near) {
            return Ok((*address, at - from));
        }
        let usable = if self.ir.streams.len() > STREAM_REGS.len() { 1 } else { ADDRESSES.len() };
        let all = ADDRESSES.iter().take(usable);
        let unused = all.copied().find(|reg| !self.in_address.iter().any(|(known, _)| known == reg));
        let [first, _] = ADDRESSES;
        let address = match unused {
            Some(address) => address,
            None if self.in_address.is_empty() => first,
            None => self.in_address.remove(0).0,
        };
        self.asm.add_imm(address, base, at)?;
        if base != POINTER {
            self.in_address.push((address, (base, at)));
        }
        Ok((address, 0))
    }

    /// A group from memory.
    pub(super) fn load(&mut self, to: Reg, from: Location) -> Result<(), EmitError> {
        let (base, at) = self.address(from)?;
        match self.width {
            Width::Eight => {
                self.asm.ldp([to, to + STRIDE], base, at)?;
                self.asm.ldp([to + 2 * STRIDE, to + 3 * STRIDE], base, at + 2 * VECTOR_BYTES)
            }
            Width::One => self.asm.ldr(Form::Scalar, to, base, at),
        }
    }

    /// A group to memory.
    pub(super) fn store(&mut self, from: Reg, to: Location, nontemporal: bool) -> Result<(), EmitError> {
        let (base, at) = self.address(to)?;
        let pairs = [[from, from + STRIDE], [from + 2 * STRIDE, from + 3 * STRIDE]];
        match self.width {
            Width::Eight => pairs.into_iter().zip([at, at + 2 * VECTOR_BYTES]).try_for_each(|(pair, at)| {
                if nontemporal { self.asm.stnp(pair, base, at) } else { self.asm.stp(pair, base, at) }
            }),
            Width::One => self.asm.str(Form::Scalar, from, base, at),
        }
    }

    /// Half of a constant into a register.
    fn load_constant(&mut self, to: Reg, (at, half): HalfConstant) -> Result<(), EmitError> {
        if at >= self.ir.consts.len() {
            return Err(EmitError::Missing { what: "constant", at });
        }
        let offset = offset("constant", at, CONST_BYTES)? + VECTOR_BYTES * i64::from(half);
        self.asm.ldr(Form::Vector, to, CONSTS, offset)
    }

    /// The register of half of a constant: its own, or this one, which it is loaded into.
    pub(super) fn constant(&mut self, spare: Reg, constant: HalfConstant) -> Result<Reg, EmitError> {
        if let Some(reg) = self.pinned.reg(constant) {
            return Ok(reg);
        }
        self.load_constant(spare, constant)?;
        Ok(spare)
    }

    /// A register of ones: that of the constant, or this one.
    pub(super) fn ones(&mut self, spare: Reg) -> Reg {
        ones(self.ir).and_then(|ones| self.pinned.reg(ones)).unwrap_or_else(|| {
            self.asm.fmov_one(spare);
            spare
        })
    }

    /// One iteration of the loop.
    fn body(&mut self) -> Result<(), EmitError> {
        for pointer in 0..self.hints.prefetch {
            self.pointer(POINTER, ARG_STREAMS + self.ir.streams.len() + pointer)?;
            self.asm.add(POINTER, POINTER, DONE);
            self.asm.prfm_l2(POINTER);
        }
        for (at, inst) in self.ir.insts.iter().enumerate() {
            self.alloc.unlock_all();
            match *inst {
                Inst::Op { op: Opcode::Load, .. } => {}
                Inst::Op { to, op, from } => self.op((at, to), op, from)?,
                Inst::Store { stream, val } => {
                    let reg = self.register(val)?;
                    let nontemporal = self.hints.nontemporal.get(stream) == Some(&true);
                    self.store(reg, Location::Stream { stream, lag: 0 }, nontemporal)?;
                }
                Inst::SetState { state, val } => {
                    let reg = self.register(val)?;
                    match self.state_regs.get(state).copied() {
                        Some(to) => self.copy(to, reg),
                        None => self.store(reg, Emitter::state_slot(state)?, false)?,
                    }
                }
            }
            self.alloc.release(at)?;
        }
        Ok(())
    }

    /// Copies a group.
    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        for (to, from) in self.group(to).zip(self.group(from)) {
            self.asm.mov(to, from);
        }
    }

    /// A register that can be written; the value in it is spilled first, if it has to be.
    pub(super) fn take(&mut self) -> Result<Reg, EmitError> {
        let (reg, spill) = self.alloc.take()?;
        if let Some(slot) = spill {
            self.store(reg, Emitter::spill_slot(slot)?, false)?;
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

    /// Where a source is in memory; it is in no register, and no constant.
    fn memory(&self, src: Src) -> Result<Location, EmitError> {
        match src {
            Src::Mem { stream, lag } => Ok(Location::Stream { stream, lag }),
            Src::State(s) => Emitter::state_slot(s),
            Src::Val(v) => match (self.alloc.slot(v), self.alloc.remat(v)) {
                (Some(slot), _) => Emitter::spill_slot(slot),
                (None, Some(Src::Mem { stream, lag })) => Ok(Location::Stream { stream, lag }),
                (None, _) => Err(EmitError::Lost(v)),
            },
            Src::Const(_) | Src::None => Err(EmitError::NoOperand),
        }
    }

    /// A source in a group of registers.
    pub(super) fn register(&mut self, src: Src) -> Result<Reg, EmitError> {
        if let Some(reg) = self.in_register(src) {
            self.alloc.lock(reg);
            return Ok(reg);
        }
        let reg = self.take()?;
        if let Src::Const(at) = src {
            let constant = self.constant(reg, (at, 0))?;
            for part in self.group(reg) {
                self.asm.mov(part, constant);
            }
            return Ok(reg);
        }
        let from = self.memory(src)?;
        self.load(reg, from)?;
        if let Src::Val(v) = src {
            self.alloc.assign(reg, v)?;
        }
        Ok(reg)
    }

    /// The first source of an operation: a constant needs one register only.
    pub(super) fn first(&mut self, src: Src) -> Result<Operand, EmitError> {
        match src {
            Src::Const(at) => Ok(Operand::Same(self.constant(EXTRA, (at, 0))?)),
            src => Ok(Operand::Group(self.register(src)?)),
        }
    }

    /// The second source: also from memory, where it is not needed in a register afterwards.
    pub(super) fn second(&mut self, at: usize, src: Src) -> Result<Operand, EmitError> {
        let live = matches!(src, Src::Val(v) if self.alloc.is_live_after(v, at));
        if let Src::Const(constant) = src {
            let [_, to] = MEMORY;
            return Ok(Operand::Same(self.constant(to, (constant, 0))?));
        }
        if live || self.in_register(src).is_some() {
            return Ok(Operand::Group(self.register(src)?));
        }
        Ok(Operand::Memory(self.memory(src)?))
    }

    /// The register of a result; it may be that of a source whose last use this is.
    pub(super) fn target(&mut self, at: usize, to: usize) -> Result<Reg, EmitError> {
        self.alloc.unlock_all();
        self.alloc.release(at)?;
        let reg = self.take()?;
        self.alloc.assign(reg, to)?;
        Ok(reg)
    }
}
