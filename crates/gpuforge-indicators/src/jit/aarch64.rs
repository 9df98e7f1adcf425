//! AArch64 backend: instruction encoder (NEON, a few integer instructions).
//!
//! ```text
//!   Ir ──► emit.rs      one loop over the bars of a block
//!          emit_op.rs   the operations inside it
//!          emit_scan.rs prefix scans inside it
//!          pin.rs       constants that stay in registers
//!      ──► Assembler    32-bit words (this file)
//! ```
//! Functions are called after the mnemonics that they encode. Every instruction is one word: a fixed pattern and the numbers of
//! its registers, so that a table of patterns is the whole encoder. Immediates that do not fit are errors.
//!
//! Not emitted here: loops from columns to columns; the kernels transpose, and `ExecPlan::jit_stats` says so.

mod emit;
mod emit_op;
mod emit_scan;
mod pin;

pub(super) use emit::emit;

use super::{
    error::EmitError,
    ir::{Arith, Bitwise, Compare, Ir, MinMax, Rounding},
    regalloc::Reg,
    target::ColumnStreams,
};

/// NEON is part of every AArch64 target that this is compiled for.
pub(super) fn is_supported() -> bool {
    cfg!(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))
}

/// Prefix scans use fused multiply-add, which is part of NEON.
pub(super) fn has_scans() -> bool {
    is_supported()
}

/// There are no loops from columns to columns.
pub(super) const MAX_ADVANCING: Option<usize> = None;

pub(super) fn emit_columns(_: &Ir, _: &ColumnStreams, _: bool) -> Result<Vec<u8>, EmitError> {
    Err(EmitError::Unsupported("a loop from columns to columns"))
}

/// A general-purpose register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

pub(super) const X0: Gpr = Gpr(0);
pub(super) const X1: Gpr = Gpr(1);
pub(super) const X2: Gpr = Gpr(2);
pub(super) const X3: Gpr = Gpr(3);
pub(super) const X4: Gpr = Gpr(4);
pub(super) const X5: Gpr = Gpr(5);
pub(super) const X16: Gpr = Gpr(16);
pub(super) const X17: Gpr = Gpr(17);
pub(super) const SP: Gpr = Gpr(31);

/// Element arrangement of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Two doubles (`v.2d`).
    Vector,
    /// One double (`d`).
    Scalar,
}

/// A double of a vector register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    First = 0,
    Last = 1,
}

/// Bytes of a vector register.
pub(super) const VECTOR_BYTES: i64 = 16;

/// Range of the offset of `ldp q`, `stp q`: a signed multiple of 16 in seven bits.
const PAIR_OFFSETS: std::ops::RangeInclusive<i64> = -1024..=1008;

/// A branch whose target is not known yet.
#[derive(Debug)]
#[must_use]
pub(super) struct ForwardBranch(usize);

/// Machine code under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pub(super) code: Vec<u8>,
}

impl Assembler {
    fn put(&mut self, word: u32) {
        self.code.extend_from_slice(&word.to_le_bytes());
    }

    /// A pattern with three registers.
    fn rrr(&mut self, pattern: u32, to: u8, a: u8, b: u8) {
        self.put(pattern | u32::from(b) << 16 | u32::from(a) << 5 | u32::from(to));
    }

    /// A pattern with two registers.
    fn rr(&mut self, pattern: u32, to: u8, a: u8) {
        self.put(pattern | u32::from(a) << 5 | u32::from(to));
    }

    /// `fadd`, `fsub`, `fmul`, `fdiv`.
    pub(super) fn farith(&mut self, op: Arith, form: Form, to: Reg, a: Reg, b: Reg) {
        let pattern = match (op, form) {
            (Arith::Add, Form::Vector) => 0x4e60_d400,
            (Arith::Sub, Form::Vector) => 0x4ee0_d400,
            (Arith::Mul, Form::Vector) => 0x6e60_dc00,
            (Arith::Div, Form::Vector) => 0x6e60_fc00,
            (Arith::Add, Form::Scalar) => 0x1e60_2800,
            (Arith::Sub, Form::Scalar) => 0x1e60_3800,
            (Arith::Mul, Form::Scalar) => 0x1e60_0800,
            (Arith::Div, Form::Scalar) => 0x1e60_1800,
        };
        self.rrr(pattern, to, a, b);
    }

    /// `and`, `orr`, `eor` of all 128 bits.
    pub(super) fn bitwise(&mut self, op: Bitwise, to: Reg, a: Reg, b: Reg) {
        let pattern = match op {
            Bitwise::And => 0x4e20_1c00,
            Bitwise::Or => 0x4ea0_1c00,
            Bitwise::Xor => 0x6e20_1c00,
        };
        self.rrr(pattern, to, a, b);
    }

    /// `bic`: `a` without the bits of `b`.
    pub(super) fn bic(&mut self, to: Reg, a: Reg, b: Reg) {
        self.rrr(0x4e60_1c00, to, a, b);
    }

    /// `mvn`.
    pub(super) fn mvn(&mut self, to: Reg, from: Reg) {
        self.rr(0x6e20_5800, to, from);
    }

    /// `mov` between vector registers (`orr` of one register with itself); nothing where they are the same.
    pub(super) fn mov(&mut self, to: Reg, from: Reg) {
        if to != from {
            self.bitwise(Bitwise::Or, to, from, from);
        }
    }

    /// `fcmeq`, `fcmge`, `fcmgt`: all bits of an element where the comparison holds, none where not, nor of a NaN. There is no
    /// "less": operands are swapped; "not equal" needs another instruction and is the caller's.
    pub(super) fn fcm(&mut self, test: Compare, to: Reg, a: Reg, b: Reg) {
        match test {
            Compare::Eq | Compare::Ne => self.rrr(0x4e60_e400, to, a, b),
            Compare::Ge => self.rrr(0x6e60_e400, to, a, b),
            Compare::Gt => self.rrr(0x6ee0_e400, to, a, b),
            Compare::Le => self.rrr(0x6e60_e400, to, b, a),
            Compare::Lt => self.rrr(0x6ee0_e400, to, b, a),
        }
    }

    /// `fcmeq to, a, #0.0`.
    pub(super) fn fcmeq_zero(&mut self, to: Reg, a: Reg) {
        self.rr(0x4ee0_d800, to, a);
    }

    /// `fcmgt to, a, #0.0`.
    pub(super) fn fcmgt_zero(&mut self, to: Reg, a: Reg) {
        self.rr(0x4ee0_c800, to, a);
    }

    /// `fcmlt to, a, #0.0`.
    pub(super) fn fcmlt_zero(&mut self, to: Reg, a: Reg) {
        self.rr(0x4ee0_e800, to, a);
    }

    /// `fmin` or `fmax`: NaN where either operand is, and -0 is less than 0.
    pub(super) fn fminmax(&mut self, op: MinMax, to: Reg, a: Reg, b: Reg) {
        self.rrr(if op == MinMax::Min { 0x4ee0_f400 } else { 0x4e60_f400 }, to, a, b);
    }

    /// `bsl`: `a` where `to` has a bit, else `b`.
    pub(super) fn bsl(&mut self, to: Reg, a: Reg, b: Reg) {
        self.rrr(0x6e60_1c00, to, a, b);
    }

    /// `bit`: `a` where the mask has a bit, else `to` as it is.
    pub(super) fn bit(&mut self, to: Reg, a: Reg, mask: Reg) {
        self.rrr(0x6ea0_1c00, to, a, mask);
    }

    /// `bif`: `a` where the mask has no bit, else `to` as it is.
    pub(super) fn bif(&mut self, to: Reg, a: Reg, mask: Reg) {
        self.rrr(0x6ee0_1c00, to, a, mask);
    }

    /// `fsqrt`.
    pub(super) fn fsqrt(&mut self, form: Form, to: Reg, from: Reg) {
        self.rr(if form == Form::Vector { 0x6ee1_f800 } else { 0x1e61_c000 }, to, from);
    }

    /// `frintm` (down), `frintp` (up).
    pub(super) fn frint(&mut self, towards: Rounding, form: Form, to: Reg, from: Reg) {
        let pattern = match (towards, form) {
            (Rounding::Down, Form::Vector) => 0x4e61_9800,
            (Rounding::Up, Form::Vector) => 0x4ee1_8800,
            (Rounding::Down, Form::Scalar) => 0x1e65_4000,
            (Rounding::Up, Form::Scalar) => 0x1e64_c000,
        };
        self.rr(pattern, to, from);
    }

    /// `fmla`: `to += a * b`, rounded once.
    pub(super) fn fmla(&mut self, to: Reg, a: Reg, b: Reg) {
        self.rrr(0x4e60_cc00, to, a, b);
    }

    /// `fmla` by element: `to += a * b[element]`, rounded once.
    pub(super) fn fmla_element(&mut self, to: Reg, a: Reg, (b, element): (Reg, Element)) {
        self.rrr(0x4fc0_1000 | (element as u32) << 11, to, a, b);
    }

    /// `fmul` by element: `to = a * b[element]`.
    pub(super) fn fmul_element(&mut self, to: Reg, a: Reg, (b, element): (Reg, Element)) {
        self.rrr(0x4fc0_9000 | (element as u32) << 11, to, a, b);
    }

    /// `dup`: one element in both places.
    pub(super) fn dup(&mut self, to: Reg, (from, element): (Reg, Element)) {
        self.rr(0x4e08_0400 | (element as u32) << 20, to, from);
    }

    /// `zip1`: the first element of each.
    pub(super) fn zip1(&mut self, to: Reg, a: Reg, b: Reg) {
        self.rrr(0x4ec0_3800, to, a, b);
    }

    /// `sub` of two integers of 64 bits each.
    pub(super) fn sub_i64(&mut self, to: Reg, a: Reg, b: Reg) {
        self.rrr(0x6ee0_8400, to, a, b);
    }

    /// `scvtf`: integers of 64 bits to doubles.
    pub(super) fn scvtf(&mut self, to: Reg, from: Reg) {
        self.rr(0x4e61_d800, to, from);
    }

    /// `fmov to.2d, #1.0`.
    pub(super) fn fmov_one(&mut self, to: Reg) {
        self.put(0x6f03_f600 | u32::from(to));
    }

    /// An unsigned offset in units of `scale`, in twelve bits.
    fn scaled(offset: i64, scale: i64) -> Result<u32, EmitError> {
        let fits = offset % scale == 0 && (0..4096).contains(&(offset / scale));
        let units = u32::try_from(offset / scale).ok().filter(|_| fits);
        units.map(|units| units << 10).ok_or(out_of_range("offset", offset))
    }

    /// `ldr q, [base, #offset]`, or `ldr d` of one double.
    pub(super) fn ldr(&mut self, form: Form, to: Reg, base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.ldr_str([0x3dc0_0000, 0xfd40_0000, 0xfc40_0000], form, to, (base, offset))
    }

    /// `str q, [base, #offset]`, or `str d` of one double.
    pub(super) fn str(&mut self, form: Form, from: Reg, base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.ldr_str([0x3d80_0000, 0xfd00_0000, 0xfc00_0000], form, from, (base, offset))
    }

    /// Patterns of the vector, of the scalar, and of the scalar with a signed, unscaled offset (`ldur`, `stur`).
    fn ldr_str(
        &mut self,
        [vector, scalar, unscaled]: [u32; 3],
        form: Form,
        reg: Reg,
        (base, offset): (Gpr, i64),
    ) -> Result<(), EmitError> {
        let pattern = match (form, offset) {
            (Form::Vector, _) => vector | Assembler::scaled(offset, VECTOR_BYTES)?,
            (Form::Scalar, -256..0) => unscaled | (offset as u32 & 0x1ff) << 12,
            (Form::Scalar, _) => scalar | Assembler::scaled(offset, 8)?,
        };
        self.rr(pattern, reg, base.0);
        Ok(())
    }

    /// Can `ldp q` and `stp q` address two pairs from here on?
    pub(super) fn is_pair_offset(offset: i64) -> bool {
        let last = offset + 2 * VECTOR_BYTES;
        offset % VECTOR_BYTES == 0 && PAIR_OFFSETS.contains(&offset) && PAIR_OFFSETS.contains(&last)
    }

    fn pair(
        &mut self,
        pattern: u32,
        [a, b]: [Reg; 2],
        base: Gpr,
        offset: i64,
        scale: i64,
    ) -> Result<(), EmitError> {
        if offset % scale != 0 || !(-64..64).contains(&(offset / scale)) {
            return Err(out_of_range("offset of a pair", offset));
        }
        let units = ((offset / scale) as u32 & 0x7f) << 15;
        self.rr(pattern | units | u32::from(b) << 10, a, base.0);
        Ok(())
    }

    /// `ldp q, q, [base, #offset]`.
    pub(super) fn ldp(&mut self, to: [Reg; 2], base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.pair(0xad40_0000, to, base, offset, VECTOR_BYTES)
    }

    /// `stp q, q, [base, #offset]`.
    pub(super) fn stp(&mut self, from: [Reg; 2], base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.pair(0xad00_0000, from, base, offset, VECTOR_BYTES)
    }

    /// `stnp q, q, [base, #offset]`: a non-temporal store.
    pub(super) fn stnp(&mut self, from: [Reg; 2], base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.pair(0xac00_0000, from, base, offset, VECTOR_BYTES)
    }

    /// `ldp d, d, [base, #offset]`.
    pub(super) fn ldp_d(&mut self, to: [Reg; 2], base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.pair(0x6d40_0000, to, base, offset, 8)
    }

    /// `stp d, d, [base, #offset]`.
    pub(super) fn stp_d(&mut self, from: [Reg; 2], base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.pair(0x6d00_0000, from, base, offset, 8)
    }

    /// `ldr x, [base, #offset]`.
    pub(super) fn ldr_x(&mut self, to: Gpr, base: Gpr, offset: i64) -> Result<(), EmitError> {
        self.rr(0xf940_0000 | Assembler::scaled(offset, 8)?, to.0, base.0);
        Ok(())
    }

    /// `prfm pldl2keep, [base]`.
    pub(super) fn prfm_l2(&mut self, base: Gpr) {
        self.rr(0xf980_0000, 2, base.0);
    }

    /// `to = from + x`: `add` or `sub` of an immediate, two of them above 4095; `mov` (`add #0`) of 0.
    pub(super) fn add_imm(&mut self, to: Gpr, from: Gpr, x: i64) -> Result<(), EmitError> {
        let pattern = if x < 0 { 0xd100_0000 } else { 0x9100_0000 };
        let size = x.unsigned_abs();
        let (low, high) = (size & 0xfff, size >> 12);
        let high = u32::try_from(high).ok().filter(|h| *h < 4096).ok_or(out_of_range("immediate", x))?;
        let mut from = from;
        if high > 0 {
            self.rr(pattern | 1 << 22 | high << 10, to.0, from.0);
            from = to;
        }
        if low > 0 || high == 0 {
            self.rr(pattern | (low as u32) << 10, to.0, from.0);
        }
        Ok(())
    }

    /// `add to, a, b`.
    pub(super) fn add(&mut self, to: Gpr, a: Gpr, b: Gpr) {
        self.rrr(0x8b00_0000, to.0, a.0, b.0);
    }

    /// `mov to, #0`.
    pub(super) fn mov_zero(&mut self, to: Gpr) {
        self.put(0xd280_0000 | u32::from(to.0));
    }

    /// `cmp a, b`.
    pub(super) fn cmp(&mut self, a: Gpr, b: Gpr) {
        self.rrr(0xeb00_0000, 31, a.0, b.0);
    }

    /// `b.lo target`, backwards: an unsigned comparison was less.
    pub(super) fn b_lo(&mut self, target: usize) -> Result<(), EmitError> {
        let words = self.code.len().checked_sub(target).map(|bytes| bytes / 4);
        let words = words.filter(|words| *words <= 1 << 18);
        let words = words.ok_or(EmitError::Range { what: "branch to", value: target })? as u32;
        self.put(0x5400_0003 | (words.wrapping_neg() & 0x7_ffff) << 5);
        Ok(())
    }

    /// `b.hs`, forwards: an unsigned comparison was not less. [`Assembler::land`] sets its target.
    pub(super) fn b_hs(&mut self) -> ForwardBranch {
        self.put(0x5400_0002);
        ForwardBranch(self.code.len() - 4)
    }

    /// The target of a forward branch is the next instruction.
    pub(super) fn land(&mut self, ForwardBranch(at): ForwardBranch) -> Result<(), EmitError> {
        let words = self.code.len().saturating_sub(at) / 4;
        let out_of_reach = EmitError::Range { what: "branch from", value: at };
        let offset = u32::try_from(words).ok().filter(|words| *words < 1 << 18).ok_or(out_of_reach)?;
        let word = self.code.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>);
        let word = word.ok_or(EmitError::Missing { what: "branch", at })?;
        *word = (u32::from_le_bytes(*word) | offset << 5).to_le_bytes();
        Ok(())
    }

    /// `ret`.
    pub(super) fn ret(&mut self) {
        self.put(0xd65f_03c0);
    }
}

fn out_of_range(what: &'static str, x: i64) -> EmitError {
    EmitError::Range { what, value: x.unsigned_abs() as usize }
}
