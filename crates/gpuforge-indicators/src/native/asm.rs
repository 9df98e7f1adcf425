//! How is an instruction written? The few of x86-64 that fused steps need, as bytes.
//!
//! All arithmetic is AVX in its three-operand form: packed (four numbers) or scalar (one). Addresses are always
//! `base + index + offset`, which every base register can have.

/// A general register.
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

/// A vector register.
pub(super) type Reg = u8;

/// The last operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Reg(Reg),
    /// `base + rcx + offset`.
    Moving {
        base: Gpr,
        offset: i32,
    },
    /// `base + r15 + offset`.
    Column {
        base: Gpr,
        offset: i32,
    },
    /// `base + offset`.
    Fixed {
        base: Gpr,
        offset: i32,
    },
}

/// Prefix and width of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Four numbers.
    Packed,
    /// One number.
    Scalar,
    /// Bits of two numbers: what a scalar has for logic.
    Half,
}

/// Comparisons as the instruction numbers them; none of them signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Test {
    Equal = 0x00,
    NotEqual = 0x04,
    Less = 0x11,
    LessOrEqual = 0x12,
    Greater = 0x1e,
    GreaterOrEqual = 0x1d,
    /// Is one of them NaN?
    Unordered = 0x03,
}

/// Opcodes of the `0F` map.
pub(super) const SQRT: u8 = 0x51;
pub(super) const AND: u8 = 0x54;
pub(super) const OR: u8 = 0x56;
pub(super) const XOR: u8 = 0x57;
pub(super) const ADD: u8 = 0x58;
pub(super) const MUL: u8 = 0x59;
pub(super) const SUB: u8 = 0x5c;
pub(super) const MIN: u8 = 0x5d;
pub(super) const DIV: u8 = 0x5e;
pub(super) const MAX: u8 = 0x5f;
const LOAD: u8 = 0x10;
const STORE: u8 = 0x11;
const STORE_PAST: u8 = 0x2b;
const COPY: u8 = 0x28;
const COMPARE: u8 = 0xc2;
/// Four numbers, said to be of 64 bits: instructions that could be meant for others have it.
const DOUBLES: u8 = 0b1000_0101;

/// Machine code that grows.
#[derive(Debug, Default)]
pub(super) struct Asm {
    pub(super) code: Vec<u8>,
}

impl Asm {
    fn put(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// A VEX instruction: prefix, opcode, operands.
    fn vex(&mut self, map: u8, op: u8, form: Form, reg: Reg, second: Reg, last: Place) {
        let (prefix, wide) = match form {
            Form::Packed => (0b01, 1),
            Form::Scalar => (0b11, 0),
            Form::Half => (0b01, 0),
        };
        self.vex_with(map, op, (wide << 2) | prefix, reg, second, last);
    }

    /// The same with what is left of its third byte: four numbers of 64 bits each have [`DOUBLES`].
    fn vex_with(&mut self, map: u8, op: u8, rest: u8, reg: Reg, second: Reg, last: Place) {
        let (x, b) = match last {
            Place::Reg(r) => (0, r >> 3),
            // The index is RCX.
            Place::Moving { base, .. } | Place::Fixed { base, .. } => (0, base.0 >> 3),
            Place::Column { base, .. } => (R15.0 >> 3, base.0 >> 3),
        };
        let first = ((!(reg >> 3) & 1) << 7) | ((!x & 1) << 6) | ((!b & 1) << 5) | map;
        let then = ((!second & 15) << 3) | rest;
        self.put(&[0xc4, first, then, op]);
        self.operands(reg, last);
    }

    /// Which register and which place, after the opcode.
    fn operands(&mut self, reg: u8, last: Place) {
        let field = (reg & 7) << 3;
        match last {
            Place::Reg(r) => self.put(&[0xc0 | field | (r & 7)]),
            Place::Moving { base, offset } => self.address(field, RCX.0, base, offset),
            Place::Column { base, offset } => self.address(field, R15.0 & 7, base, offset),
            // No index is index 4.
            Place::Fixed { base, offset } => self.address(field, 4, base, offset),
        }
    }

    fn address(&mut self, field: u8, index: u8, base: Gpr, offset: i32) {
        let place = (index << 3) | (base.0 & 7);
        // As short as it can be said: decoded instructions are kept by the line. RBP and R13 always have an offset.
        match i8::try_from(offset) {
            Ok(0) if base.0 & 7 != RBP.0 => self.put(&[0x04 | field, place]),
            Ok(short) => self.put(&[0x44 | field, place, short.to_le_bytes()[0]]),
            Err(_) => {
                self.put(&[0x84 | field, place]);
                self.put(&offset.to_le_bytes());
            }
        }
    }

    /// `to = a op b`.
    pub(super) fn arith(&mut self, op: u8, form: Form, to: Reg, a: Reg, b: Place) {
        self.vex(1, op, form, to, a, b);
    }

    /// `to = sqrt(x)`: the packed form has no second operand.
    pub(super) fn sqrt(&mut self, form: Form, to: Reg, x: Place, x_reg: Reg) {
        let second = if form == Form::Packed { 0 } else { x_reg };
        self.vex(1, SQRT, form, to, second, x);
    }

    /// All bits of `to` where the test holds, none where not.
    pub(super) fn compare(&mut self, test: Test, form: Form, to: Reg, a: Reg, b: Place) {
        self.vex(1, COMPARE, form, to, a, b);
        self.put(&[test as u8]);
    }

    /// The same, of a register that is given as a place.
    pub(super) fn compare_place(&mut self, test: Test, form: Form, to: Reg, a: Place, b: Place) {
        if let Place::Reg(a) = a {
            self.compare(test, form, to, a, b);
        }
    }

    /// `to = where mask { yes } else { no }`.
    pub(super) fn blend(&mut self, form: Form, to: Reg, no: Reg, yes: Place, mask: Reg) {
        let form = if form == Form::Scalar { Form::Half } else { form };
        self.vex(3, 0x4b, form, to, no, yes);
        self.put(&[mask << 4]);
    }

    /// To a whole number: 1 down, 2 up.
    pub(super) fn round(&mut self, form: Form, to: Reg, x: Reg, towards: u8) {
        match form {
            Form::Packed => self.vex(3, 0x09, form, to, 0, Place::Reg(x)),
            _ => self.vex(3, 0x0b, Form::Half, to, x, Place::Reg(x)),
        }
        // 8: no exception for what is not exact.
        self.put(&[8 | towards]);
    }

    pub(super) fn load(&mut self, form: Form, to: Reg, from: Place) {
        match (form, from) {
            (_, Place::Reg(r)) => self.copy(form, to, r),
            _ => self.vex(1, LOAD, form, to, 0, from),
        }
    }

    pub(super) fn store(&mut self, form: Form, from: Reg, to: Place) {
        self.vex(1, STORE, form, from, 0, to);
    }

    /// Four numbers past the caches; the place begins at a whole vector.
    pub(super) fn store_past(&mut self, from: Reg, to: Place) {
        self.vex(1, STORE_PAST, Form::Packed, from, 0, to);
    }

    pub(super) fn copy(&mut self, form: Form, to: Reg, from: Reg) {
        let form = if form == Form::Scalar { Form::Half } else { form };
        self.vex(1, COPY, form, to, 0, Place::Reg(from));
    }

    /// Upper halves to zero, so that code without AVX is not slowed.
    pub(super) fn zero_upper(&mut self) {
        self.put(&[0xc5, 0xf8, 0x77]);
    }

    fn rex(reg: Gpr, base: Gpr) -> u8 {
        0x48 | ((reg.0 >> 3) << 2) | (base.0 >> 3)
    }

    /// `to = *(base + offset)`, a pointer.
    pub(super) fn load_pointer(&mut self, to: Gpr, base: Gpr, offset: i32) {
        self.put(&[Asm::rex(to, base), 0x8b]);
        self.address((to.0 & 7) << 3, 4, base, offset);
    }

    pub(super) fn move_pointer(&mut self, to: Gpr, from: Gpr) {
        self.put(&[Asm::rex(from, to), 0x89, 0xc0 | ((from.0 & 7) << 3) | (to.0 & 7)]);
    }

    /// Asks for the line at `base + rcx + offset`, for later.
    pub(super) fn prefetch(&mut self, base: Gpr, offset: i32) {
        self.put(&[0x40 | (base.0 >> 3), 0x0f, 0x18]);
        self.address(2 << 3, RCX.0, base, offset);
    }

    fn immediate(&mut self, op: u8, to: Gpr, x: i32) {
        self.put(&[Asm::rex(Gpr(0), to), 0x81, 0xc0 | (op << 3) | (to.0 & 7)]);
        self.put(&x.to_le_bytes());
    }

    pub(super) fn add(&mut self, to: Gpr, x: i32) {
        self.immediate(0, to, x);
    }

    pub(super) fn and(&mut self, to: Gpr, x: i32) {
        self.immediate(4, to, x);
    }

    pub(super) fn sub(&mut self, to: Gpr, x: i32) {
        self.immediate(5, to, x);
    }

    /// Four numbers, two of each: the first or the second of every pair.
    pub(super) fn unpack(&mut self, second: bool, to: Reg, a: Reg, b: Reg) {
        self.vex(1, if second { 0x15 } else { 0x14 }, Form::Packed, to, a, Place::Reg(b));
    }

    /// Half of one and half of the other: which, by number.
    pub(super) fn halves(&mut self, to: Reg, a: Reg, b: Reg, which: u8) {
        self.vex(3, 0x06, Form::Packed, to, a, Place::Reg(b));
        self.put(&[which]);
    }

    /// `to += a * b`, rounded once.
    pub(super) fn fused(&mut self, to: Reg, a: Reg, b: Place) {
        self.vex_with(2, 0xb8, DOUBLES, to, a, b);
    }

    /// `to = to * b + a`, rounded once.
    pub(super) fn scaled(&mut self, to: Reg, a: Reg, b: Place) {
        self.vex_with(2, 0x98, DOUBLES, to, a, b);
    }

    /// Four numbers: the first of each pair twice.
    pub(super) fn pairs(&mut self, to: Reg, from: Reg) {
        self.vex_with(1, 0x12, 0b0111, to, 0, Place::Reg(from));
    }

    /// Four numbers, of `b` where a bit says so, else of `a`.
    pub(super) fn pick(&mut self, to: Reg, a: Reg, b: Place, which: u8) {
        self.vex(3, 0x0d, Form::Packed, to, a, b);
        self.put(&[which]);
    }

    /// Four times the first of these.
    pub(super) fn spread(&mut self, to: Reg, from: Reg) {
        self.vex_with(2, 0x19, 0b0101, to, 0, Place::Reg(from));
    }

    /// Four numbers in another order: two bits for each say which it is, the first's the lowest.
    pub(super) fn order(&mut self, to: Reg, from: Reg, which: u8) {
        self.vex_with(3, 0x01, DOUBLES, to, 0, Place::Reg(from));
        self.put(&[which]);
    }

    /// Asks for the line at `base + r15 + offset`, for later.
    pub(super) fn prefetch_column(&mut self, base: Gpr, offset: i32) {
        self.put(&[0x42 | (base.0 >> 3), 0x0f, 0x18]);
        self.address(2 << 3, R15.0 & 7, base, offset);
    }

    pub(super) fn zero(&mut self, r: Gpr) {
        let both = 0x40 | ((r.0 >> 3) << 2) | (r.0 >> 3);
        self.put(&[both, 0x31, 0xc0 | ((r.0 & 7) << 3) | (r.0 & 7)]);
    }

    pub(super) fn compare_number(&mut self, r: Gpr, x: i32) {
        self.immediate(7, r, x);
    }

    /// With RSI, the end.
    pub(super) fn compare_end(&mut self, r: Gpr) {
        self.put(&[Asm::rex(RSI, r), 0x39, 0xc0 | (RSI.0 << 3) | (r.0 & 7)]);
    }

    /// Back to `target` while what was compared is below.
    pub(super) fn back_to(&mut self, target: usize) {
        let next = self.code.len() + 6;
        let back = i32::try_from(next - target).unwrap_or(i32::MAX);
        self.put(&[0x0f, 0x82]);
        self.put(&(-back).to_le_bytes());
    }

    pub(super) fn push(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0x50 | (r.0 & 7)]);
    }

    pub(super) fn pop(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0x58 | (r.0 & 7)]);
    }

    pub(super) fn ret(&mut self) {
        self.put(&[0xc3]);
    }
}
