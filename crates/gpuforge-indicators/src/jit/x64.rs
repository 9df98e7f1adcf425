//! x86-64 backend: instruction encoder (VEX-encoded AVX2 and FMA, a few integer instructions), CPU feature detection.
//!
//! ```text
//!   Ir ──► emit.rs          one loop over the bars of a block
//!          emit_scan.rs     prefix scans inside it
//!          emit_columns.rs  the loop from columns to columns, transposes included
//!      ──► Assembler        bytes (this file)
//! ```
//! Functions are called after the mnemonics that they encode. All floating-point instructions are AVX in three-operand
//! form: packed (four doubles) or scalar (one). Memory operands are always `base + index + disp` with a SIB byte, which
//! every base register can have.
//!
//! Everything that depends on the target is in this module; `aarch64.rs` is the other target, and `target.rs` states what both provide.

mod emit;
mod emit_columns;
mod emit_scan;

pub(super) use emit::emit;
#[cfg_attr(target_arch = "aarch64", allow(unused_imports, reason = "tests of the encoder use the rest"))]
pub(super) use emit_columns::{MAX_ADVANCING, emit_columns};

use super::{
    error::EmitError,
    ir::{Arith, Bitwise, Compare, MinMax, Rounding},
    regalloc::Reg,
};

/// Can this CPU run the code? It is AVX2.
pub(super) fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Are prefix scans emitted? They use fused multiply-add.
pub(super) fn has_scans() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// A general-purpose register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RSP: Gpr = Gpr(4);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);
pub(super) const R8: Gpr = Gpr(8);
pub(super) const R9: Gpr = Gpr(9);
pub(super) const R10: Gpr = Gpr(10);
pub(super) const R11: Gpr = Gpr(11);
pub(super) const R12: Gpr = Gpr(12);
pub(super) const R13: Gpr = Gpr(13);
pub(super) const R14: Gpr = Gpr(14);
pub(super) const R15: Gpr = Gpr(15);

/// The last operand of an instruction: a register or memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegMem {
    Reg(Reg),
    /// `[base + rcx + disp]`: this bar of a stream.
    Stream {
        base: Gpr,
        disp: i32,
    },
    /// `[base + r15 + disp]`: this bar of a column.
    Column {
        base: Gpr,
        disp: i32,
    },
    /// `[base + disp]`: constants, states, spill slots.
    Fixed {
        base: Gpr,
        disp: i32,
    },
}

/// VEX prefix and vector length of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Four doubles (`…pd`, 256 bits).
    Packed,
    /// One double (`…sd`).
    Scalar,
    /// Two doubles (`…pd`, 128 bits): bitwise instructions have no scalar form.
    Packed128,
}

/// Immediate of `vcmppd`; none of these predicates signals on a quiet NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Predicate {
    Eq = 0x00,
    Ne = 0x04,
    Lt = 0x11,
    Le = 0x12,
    Gt = 0x1e,
    Ge = 0x1d,
    /// Either operand is NaN.
    Unordered = 0x03,
}

impl From<Compare> for Predicate {
    fn from(compare: Compare) -> Predicate {
        match compare {
            Compare::Eq => Predicate::Eq,
            Compare::Ne => Predicate::Ne,
            Compare::Lt => Predicate::Lt,
            Compare::Le => Predicate::Le,
            Compare::Gt => Predicate::Gt,
            Compare::Ge => Predicate::Ge,
        }
    }
}

/// Opcode maps.
const MAP_0F: u8 = 1;
const MAP_0F38: u8 = 2;
const MAP_0F3A: u8 = 3;
/// Third VEX byte of FMA, `vpermpd`: W1, 256 bits, prefix 66.
const W1_L256_66: u8 = 0b1000_0101;

/// Machine code under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pub(super) code: Vec<u8>,
}

impl Assembler {
    fn put(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// A VEX-encoded instruction: prefix, opcode, ModRM operands.
    fn vex(&mut self, map: u8, op: u8, form: Form, reg: Reg, second: Reg, last: RegMem) {
        let (prefix, wide) = match form {
            Form::Packed => (0b01, 1),
            Form::Scalar => (0b11, 0),
            Form::Packed128 => (0b01, 0),
        };
        self.vex_with(map, op, (wide << 2) | prefix, reg, second, last);
    }

    /// The same with W, L and the mandatory prefix of the third VEX byte given.
    fn vex_with(&mut self, map: u8, op: u8, rest: u8, reg: Reg, second: Reg, last: RegMem) {
        let (x, b) = match last {
            RegMem::Reg(r) => (0, r >> 3),
            // The index is RCX, or none.
            RegMem::Stream { base, .. } | RegMem::Fixed { base, .. } => (0, base.0 >> 3),
            RegMem::Column { base, .. } => (R15.0 >> 3, base.0 >> 3),
        };
        let first = ((!(reg >> 3) & 1) << 7) | ((!x & 1) << 6) | ((!b & 1) << 5) | map;
        let then = ((!second & 15) << 3) | rest;
        self.put(&[0xc4, first, then, op]);
        self.operands(reg, last);
    }

    /// ModRM, SIB and displacement, after the opcode.
    fn operands(&mut self, reg: u8, last: RegMem) {
        let field = (reg & 7) << 3;
        match last {
            RegMem::Reg(r) => self.put(&[0xc0 | field | (r & 7)]),
            RegMem::Stream { base, disp } => self.address(field, RCX.0, base, disp),
            RegMem::Column { base, disp } => self.address(field, R15.0 & 7, base, disp),
            // Index 4 encodes "no index".
            RegMem::Fixed { base, disp } => self.address(field, 4, base, disp),
        }
    }

    fn address(&mut self, field: u8, index: u8, base: Gpr, disp: i32) {
        let sib = (index << 3) | (base.0 & 7);
        // The shortest displacement: the decoded-instruction cache is filled by the line. RBP and R13 always need one.
        match i8::try_from(disp) {
            Ok(0) if base.0 & 7 != RBP.0 => self.put(&[0x04 | field, sib]),
            Ok(short) => self.put(&[0x44 | field, sib, short.to_le_bytes()[0]]),
            Err(_) => {
                self.put(&[0x84 | field, sib]);
                self.put(&disp.to_le_bytes());
            }
        }
    }

    /// `to = a op b`: `vaddpd`, `vsubpd`, `vmulpd`, `vdivpd` and their scalar forms.
    pub(super) fn varith(&mut self, op: Arith, form: Form, to: Reg, a: Reg, b: RegMem) {
        match op {
            Arith::Add => self.vadd(form, to, a, b),
            Arith::Sub => self.vsub(form, to, a, b),
            Arith::Mul => self.vmul(form, to, a, b),
            Arith::Div => self.vdiv(form, to, a, b),
        }
    }

    /// `to = a op b`, bit by bit: `vandpd`, `vorpd`, `vxorpd`. There is no scalar form.
    pub(super) fn vbitwise(&mut self, op: Bitwise, form: Form, to: Reg, a: Reg, b: RegMem) {
        match op {
            Bitwise::And => self.vand(form, to, a, b),
            Bitwise::Or => self.vor(form, to, a, b),
            Bitwise::Xor => self.vxor(form, to, a, b),
        }
    }

    /// `vminpd` or `vmaxpd`; where an operand is NaN, the second.
    pub(super) fn vminmax(&mut self, op: MinMax, form: Form, to: Reg, a: Reg, b: RegMem) {
        let opcode = if op == MinMax::Min { 0x5d } else { 0x5f };
        self.vex(MAP_0F, opcode, form, to, a, b);
    }

    /// `vaddpd`, `vaddsd`.
    pub(super) fn vadd(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x58, form, to, a, b);
    }

    /// `vsubpd`, `vsubsd`.
    pub(super) fn vsub(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x5c, form, to, a, b);
    }

    /// `vmulpd`, `vmulsd`.
    pub(super) fn vmul(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x59, form, to, a, b);
    }

    /// `vdivpd`, `vdivsd`.
    pub(super) fn vdiv(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x5e, form, to, a, b);
    }

    /// `vandpd`.
    pub(super) fn vand(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x54, form, to, a, b);
    }

    /// `vorpd`.
    pub(super) fn vor(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x56, form, to, a, b);
    }

    /// `vxorpd`.
    pub(super) fn vxor(&mut self, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0x57, form, to, a, b);
    }

    /// `vsqrtpd`, `vsqrtsd`; the packed form has no second operand.
    pub(super) fn vsqrt(&mut self, form: Form, to: Reg, x: RegMem, x_reg: Reg) {
        let second = if form == Form::Packed { 0 } else { x_reg };
        self.vex(MAP_0F, 0x51, form, to, second, x);
    }

    /// `vcmppd`, `vcmpsd`: all bits of `to` where the predicate holds, none where not.
    pub(super) fn vcmp(&mut self, predicate: Predicate, form: Form, to: Reg, a: Reg, b: RegMem) {
        self.vex(MAP_0F, 0xc2, form, to, a, b);
        self.put(&[predicate as u8]);
    }

    /// `vblendvpd`: `yes` where the mask has its sign bit, else `no`.
    pub(super) fn vblendv(&mut self, form: Form, to: Reg, no: Reg, yes: RegMem, mask: Reg) {
        let form = if form == Form::Scalar { Form::Packed128 } else { form };
        self.vex(MAP_0F3A, 0x4b, form, to, no, yes);
        self.put(&[mask << 4]);
    }

    /// `vroundpd`, `vroundsd`.
    pub(super) fn vround(&mut self, form: Form, to: Reg, x: Reg, towards: Rounding) {
        match form {
            Form::Packed => self.vex(MAP_0F3A, 0x09, form, to, 0, RegMem::Reg(x)),
            _ => self.vex(MAP_0F3A, 0x0b, Form::Packed128, to, x, RegMem::Reg(x)),
        }
        let towards = if towards == Rounding::Down { 1 } else { 2 };
        // 8: suppress the precision exception.
        self.put(&[8 | towards]);
    }

    /// `vmovupd`, `vmovsd` from memory; from a register, `vmovapd`.
    pub(super) fn vmov_load(&mut self, form: Form, to: Reg, from: RegMem) {
        match (form, from) {
            (_, RegMem::Reg(r)) => self.vmovapd(form, to, r),
            _ => self.vex(MAP_0F, 0x10, form, to, 0, from),
        }
    }

    /// `vmovupd`, `vmovsd` to memory.
    pub(super) fn vmov_store(&mut self, form: Form, from: Reg, to: RegMem) {
        self.vex(MAP_0F, 0x11, form, from, 0, to);
    }

    /// `vmovntpd`: a non-temporal store, to an address that is aligned to a vector.
    pub(super) fn vmovntpd(&mut self, from: Reg, to: RegMem) {
        self.vex(MAP_0F, 0x2b, Form::Packed, from, 0, to);
    }

    /// `vmovapd` between registers.
    pub(super) fn vmovapd(&mut self, form: Form, to: Reg, from: Reg) {
        let form = if form == Form::Scalar { Form::Packed128 } else { form };
        self.vex(MAP_0F, 0x28, form, to, 0, RegMem::Reg(from));
    }

    /// `vzeroupper`: avoids the transition penalty of legacy SSE code.
    pub(super) fn vzeroupper(&mut self) {
        self.put(&[0xc5, 0xf8, 0x77]);
    }

    /// `vunpcklpd`: the even elements of both, interleaved.
    pub(super) fn vunpcklpd(&mut self, to: Reg, a: Reg, b: Reg) {
        self.vex(MAP_0F, 0x14, Form::Packed, to, a, RegMem::Reg(b));
    }

    /// `vunpckhpd`: the odd elements of both, interleaved.
    pub(super) fn vunpckhpd(&mut self, to: Reg, a: Reg, b: Reg) {
        self.vex(MAP_0F, 0x15, Form::Packed, to, a, RegMem::Reg(b));
    }

    /// `vperm2f128`: two of the four halves of both.
    pub(super) fn vperm2f128(&mut self, to: Reg, a: Reg, b: Reg, halves: u8) {
        self.vex(MAP_0F3A, 0x06, Form::Packed, to, a, RegMem::Reg(b));
        self.put(&[halves]);
    }

    /// `vfmadd231pd`: `to += a * b`.
    pub(super) fn vfmadd231pd(&mut self, to: Reg, a: Reg, b: RegMem) {
        self.vex_with(MAP_0F38, 0xb8, W1_L256_66, to, a, b);
    }

    /// `vfmadd132pd`: `to = to * b + a`.
    pub(super) fn vfmadd132pd(&mut self, to: Reg, a: Reg, b: RegMem) {
        self.vex_with(MAP_0F38, 0x98, W1_L256_66, to, a, b);
    }

    /// `vmovddup`: the even elements, each twice.
    pub(super) fn vmovddup(&mut self, to: Reg, from: Reg) {
        self.vex_with(MAP_0F, 0x12, 0b0111, to, 0, RegMem::Reg(from));
    }

    /// `vblendpd`: elements of `b` where the immediate has a bit, else of `a`.
    pub(super) fn vblendpd(&mut self, to: Reg, a: Reg, b: RegMem, which: u8) {
        self.vex(MAP_0F3A, 0x0d, Form::Packed, to, a, b);
        self.put(&[which]);
    }

    /// `vbroadcastsd`: the first element, four times.
    pub(super) fn vbroadcastsd(&mut self, to: Reg, from: Reg) {
        self.vex_with(MAP_0F38, 0x19, 0b0101, to, 0, RegMem::Reg(from));
    }

    /// `vpermpd`: element i is the one that bits 2i and 2i + 1 of the immediate name.
    pub(super) fn vpermpd(&mut self, to: Reg, from: Reg, which: u8) {
        self.vex_with(MAP_0F3A, 0x01, W1_L256_66, to, 0, RegMem::Reg(from));
        self.put(&[which]);
    }

    /// `prefetcht1 [base + rcx + disp]`.
    pub(super) fn prefetcht1_stream(&mut self, base: Gpr, disp: i32) {
        self.put(&[0x40 | (base.0 >> 3), 0x0f, 0x18]);
        self.address(2 << 3, RCX.0, base, disp);
    }

    /// `prefetcht1 [base + r15 + disp]`.
    pub(super) fn prefetcht1_column(&mut self, base: Gpr, disp: i32) {
        self.put(&[0x42 | (base.0 >> 3), 0x0f, 0x18]);
        self.address(2 << 3, R15.0 & 7, base, disp);
    }

    /// REX.W of two registers.
    fn rex(reg: Gpr, base: Gpr) -> u8 {
        0x48 | ((reg.0 >> 3) << 2) | (base.0 >> 3)
    }

    /// `mov to, [base + disp]`.
    pub(super) fn mov_load(&mut self, to: Gpr, base: Gpr, disp: i32) {
        self.put(&[Assembler::rex(to, base), 0x8b]);
        self.address((to.0 & 7) << 3, 4, base, disp);
    }

    /// `mov to, from`.
    pub(super) fn mov(&mut self, to: Gpr, from: Gpr) {
        self.put(&[Assembler::rex(from, to), 0x89, 0xc0 | ((from.0 & 7) << 3) | (to.0 & 7)]);
    }

    /// Group 1 with a 32-bit immediate: `add`, `and`, `sub`, `cmp`.
    fn group1(&mut self, op: u8, to: Gpr, x: i32) {
        self.put(&[Assembler::rex(Gpr(0), to), 0x81, 0xc0 | (op << 3) | (to.0 & 7)]);
        self.put(&x.to_le_bytes());
    }

    /// `add to, x`.
    pub(super) fn add(&mut self, to: Gpr, x: i32) {
        self.group1(0, to, x);
    }

    /// `and to, x`.
    pub(super) fn and(&mut self, to: Gpr, x: i32) {
        self.group1(4, to, x);
    }

    /// `sub to, x`.
    pub(super) fn sub(&mut self, to: Gpr, x: i32) {
        self.group1(5, to, x);
    }

    /// `cmp r, x`.
    pub(super) fn cmp(&mut self, r: Gpr, x: i32) {
        self.group1(7, r, x);
    }

    /// `cmp r, rsi`: RSI is the end of the loop.
    pub(super) fn cmp_rsi(&mut self, r: Gpr) {
        self.put(&[Assembler::rex(RSI, r), 0x39, 0xc0 | (RSI.0 << 3) | (r.0 & 7)]);
    }

    /// `xor r, r` (32 bits, which clears all 64).
    pub(super) fn xor_zero(&mut self, r: Gpr) {
        let both = 0x40 | ((r.0 >> 3) << 2) | (r.0 >> 3);
        self.put(&[both, 0x31, 0xc0 | ((r.0 & 7) << 3) | (r.0 & 7)]);
    }

    /// `jb target`, backwards.
    pub(super) fn jb(&mut self, target: usize) -> Result<(), EmitError> {
        let next = self.code.len() + 6;
        let back = next
            .checked_sub(target)
            .and_then(|back| i32::try_from(back).ok())
            .ok_or(EmitError::Range { what: "jump to", value: target })?;
        self.put(&[0x0f, 0x82]);
        self.put(&(-back).to_le_bytes());
        Ok(())
    }

    /// `push r`.
    pub(super) fn push(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0x50 | (r.0 & 7)]);
    }

    /// `pop r`.
    pub(super) fn pop(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0x58 | (r.0 & 7)]);
    }

    /// `ret`.
    pub(super) fn ret(&mut self) {
        self.put(&[0xc3]);
    }
}
