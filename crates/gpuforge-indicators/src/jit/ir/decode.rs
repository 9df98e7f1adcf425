//! IR from bytes, for fuzzing: any bytes are a program, most of them one that the verifier accepts.
//!
//! ```text
//!   streams, states, lag, constants      four bytes, then eight for every constant
//!   instruction                          opcode, then two bytes per operand: kind and index
//! ```
//! An index byte of 255 is one past the end (of values: one that is not computed yet), so that the verifier is fuzzed too. NaN
//! payloads are not part of the IR's meaning; bitwise operations that would make a number of one are not decoded.

use super::{Arith, Bitwise, Compare, Inst, Ir, MinMax, Opcode, Rounding, Src};

/// Bars that a program looks back, at most.
pub(in crate::jit) const MAX_LAG: usize = 40;
/// Instructions of a program, at most: some more than there are registers, and quick to run.
const MAX_INSTS: usize = 128;
/// The sign bit and all others, in the table of constants.
const SIGN: Src = Src::Const(3);
const ABS: Src = Src::Const(4);

/// Bytes, the first not yet read in front; zeros after the last.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn one_of<T: Copy>(&mut self, first: T, more: &[T]) -> T {
        let at = self.next() % (more.len() + 1);
        at.checked_sub(1).and_then(|at| more.get(at)).copied().unwrap_or(first)
    }

    /// An index below `n`, or `n` itself.
    fn index(&mut self, n: usize) -> usize {
        match self.next() {
            255 => n,
            byte => byte % n.max(1),
        }
    }

    fn bits(&mut self) -> u64 {
        (0..8).fold(0, |bits, _| bits << 8 | self.next() as u64)
    }
}

struct Decoder<'b> {
    bytes: Bytes<'b>,
    ir: Ir,
    /// Which values are masks, by the verifier's rule.
    masks: Vec<bool>,
}

/// The program that the bytes are.
pub(in crate::jit) fn ir(bytes: &[u8]) -> Ir {
    let mut bytes = Bytes(bytes);
    let streams = 1 + bytes.next() % 16;
    let states = bytes.next() % 13;
    let back = bytes.one_of(0, &[1, 3, MAX_LAG]);
    let mut consts = vec![[0; 4], [1f64.to_bits(); 4], [u64::MAX; 4], [1 << 63; 4], [!(1 << 63); 4]];
    consts.extend((0..bytes.next() % 5).map(|_| [bytes.bits(); 4]).collect::<Vec<_>>());
    let ir = Ir {
        consts,
        streams: (0..streams).map(|buffer| (buffer, back)).collect(),
        states: (0..states).map(|which| (0, which)).collect(),
        written: vec![false; streams],
        ..Ir::default()
    };
    let mut decoder = Decoder { bytes, ir, masks: Vec::new() };
    while !decoder.bytes.0.is_empty() && decoder.ir.insts.len() < MAX_INSTS {
        decoder.instruction();
    }
    decoder.finish()
}

impl Decoder<'_> {
    fn operand(&mut self) -> Src {
        let kind = self.bytes.next() % 8;
        match kind {
            0 => Src::Const(self.bytes.index(self.ir.consts.len())),
            1 => self.memory(),
            2 => Src::State(self.bytes.index(self.ir.states.len())),
            3 if self.bytes.next() == 255 => Src::None,
            _ if self.ir.vals == 0 => self.memory(),
            // The latest values are the smallest indices.
            _ => match self.bytes.index(self.ir.vals) {
                at if at == self.ir.vals => Src::Val(at),
                at => Src::Val(self.ir.vals - 1 - at),
            },
        }
    }

    fn memory(&mut self) -> Src {
        let stream = self.bytes.index(self.ir.streams.len());
        let back = self.ir.streams.get(stream).map_or(0, |(_, back)| *back);
        Src::Mem { stream, lag: if back == 0 { 0 } else { self.bytes.index(back + 1) } }
    }

    fn opcode(&mut self) -> Option<Opcode> {
        use Compare::{Eq, Ge, Gt, Le, Lt, Ne};
        let compare = |bytes: &mut Bytes<'_>| bytes.one_of(Lt, &[Le, Gt, Ge, Eq, Ne]);
        let bitwise = |bytes: &mut Bytes<'_>| bytes.one_of(Bitwise::And, &[Bitwise::Or, Bitwise::Xor]);
        Some(match self.bytes.next() % 24 {
            0 => Opcode::Arith(Arith::Add),
            1 => Opcode::Arith(Arith::Sub),
            2 => Opcode::Arith(Arith::Mul),
            3 => Opcode::Arith(Arith::Div),
            4 | 5 => Opcode::Bitwise(bitwise(&mut self.bytes)),
            6 => Opcode::Predicate(compare(&mut self.bytes)),
            7 => Opcode::Logical(self.bytes.one_of(Bitwise::And, &[Bitwise::Or])),
            8 => Opcode::NanMinMax(MinMax::Min),
            9 => Opcode::NanMinMax(MinMax::Max),
            10 => Opcode::Div0,
            11 => Opcode::Select,
            12 | 13 => Opcode::Mask(compare(&mut self.bytes)),
            14 | 15 => Opcode::Blend,
            16 => Opcode::Sqrt,
            17 => Opcode::Round(self.bytes.one_of(Rounding::Down, &[Rounding::Up])),
            18 => Opcode::Sign,
            19 => Opcode::Load,
            20 => Opcode::Copy,
            // Scans reassociate: they have other bits than the interpreter, so the only one decoded is one that is not there.
            21 if self.bytes.next() == 255 => Opcode::Scan(0),
            _ => return None,
        })
    }

    fn instruction(&mut self) {
        let inst = match self.opcode() {
            None if self.bytes.next().is_multiple_of(2) => {
                let stream = self.bytes.index(self.ir.streams.len());
                self.ir.written.get_mut(stream).into_iter().for_each(|written| *written = true);
                Inst::Store { stream, val: self.operand() }
            }
            None => {
                let state = self.bytes.index(self.ir.states.len());
                Inst::SetState { state, val: self.operand() }
            }
            Some(op) => self.operation(op),
        };
        self.ir.insts.push(inst);
    }

    fn operation(&mut self, op: Opcode) -> Inst {
        let mut from = [Src::None; 3];
        match op {
            Opcode::Load => from = [self.memory(), Src::None, Src::None],
            _ => {
                let count = self.ir.operands(op).unwrap_or(from.len());
                from.iter_mut().take(count).for_each(|src| *src = self.operand());
            }
        }
        let [a, b, c] = from;
        let is_mask = |src: Src| match src {
            Src::Val(val) => self.masks.get(val) == Some(&true),
            Src::Const(at) => self.ir.consts.get(at).is_some_and(|c| *c == [0; 4] || *c == [u64::MAX; 4]),
            Src::Mem { .. } | Src::State(_) | Src::None => false,
        };
        let (both, either) = (is_mask(a) && is_mask(b), is_mask(a) || is_mask(b));
        let result_is_mask = match op {
            Opcode::Mask(_) => true,
            Opcode::Bitwise(_) => both,
            Opcode::Select | Opcode::Blend => is_mask(b) && is_mask(c),
            Opcode::Copy => is_mask(a),
            _ => false,
        };
        match op {
            // Bits of a NaN must stay a NaN: negation and absolute value keep it, and so does a mask that covers it or not.
            Opcode::Bitwise(Bitwise::Xor) if !both => from = [a, SIGN, c],
            Opcode::Bitwise(Bitwise::And) if !either => from = [a, ABS, c],
            Opcode::Bitwise(Bitwise::Or) if !either => from = [a, SIGN, c],
            _ => {}
        }
        let to = self.ir.vals;
        self.ir.vals += 1;
        self.masks.push(result_is_mask);
        Inst::Op { to, op, from }
    }

    fn finish(mut self) -> Ir {
        let written = &self.ir.written;
        let lagged = |src: &Src| matches!(src, Src::Mem { stream, lag } if *lag > 0 && written.get(*stream) == Some(&true));
        self.ir.looks_back = self.ir.insts.iter().any(|inst| match inst {
            Inst::Op { from, .. } => from.iter().any(lagged),
            Inst::Store { val, .. } | Inst::SetState { val, .. } => lagged(val),
        });
        self.ir
    }
}
