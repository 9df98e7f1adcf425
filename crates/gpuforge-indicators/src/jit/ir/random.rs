//! Random IR programs that the verifier accepts, for the property test: SSA values of both types, streams with history, states.

use super::{Arith, Bitwise, Inst, Ir, MinMax, Opcode, Rounding, Src};
use crate::kernel::trace::Compare;

/// A deterministic generator (SplitMix64): a seed that fails can be run again.
pub(in crate::jit) struct Rng(pub(in crate::jit) u64);

impl Rng {
    pub(in crate::jit) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(in crate::jit) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Numbers that find mistakes: signed zeros, infinities, NaN, subnormals, equal values, and ordinary ones.
    pub(in crate::jit) fn number(&mut self) -> f64 {
        const EDGES: [f64; 12] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            5e-324,
            f64::MAX,
            0.5,
            -1.5,
        ];
        match self.below(4) {
            0 => self.one_of(&EDGES),
            1 => self.below(7) as f64 - 3.0,
            _ => (self.below(2_000_001) as f64 - 1e6) / 4096.0,
        }
    }
}

/// What is generated.
#[derive(Debug, Clone, Copy)]
pub(in crate::jit) struct Shape {
    /// Instructions, about.
    pub(in crate::jit) len: usize,
    pub(in crate::jit) states: usize,
    pub(in crate::jit) streams: usize,
    /// How far back streams are read, at most.
    pub(in crate::jit) back: usize,
}

impl Shape {
    pub(in crate::jit) fn random(rng: &mut Rng) -> Shape {
        // Mostly short; some have more live values, states or streams than there are registers.
        let (long, wide) = (rng.below(8) == 0, rng.below(6) == 0);
        Shape {
            len: 1 + rng.below(if long { 90 } else { 24 }),
            states: rng.one_of(&[0, 0, 1, 2, 4, 11]),
            streams: 1 + rng.below(if wide { 14 } else { 4 }),
            back: rng.one_of(&[0, 1, 3, 40]),
        }
    }
}

struct Generator<'r> {
    rng: &'r mut Rng,
    ir: Ir,
    numbers: Vec<Src>,
    masks: Vec<Src>,
    shape: Shape,
}

/// A program that the verifier accepts. Streams below the first half are inputs, the others may be stored to.
pub(in crate::jit) fn program(rng: &mut Rng, shape: Shape) -> Ir {
    let mut consts = vec![[0; 4], [1f64.to_bits(); 4], [u64::MAX; 4], [1 << 63; 4], [!(1 << 63); 4]];
    consts.extend((0..rng.below(4)).map(|_| [rng.number().to_bits(); 4]));
    let ir = Ir {
        consts,
        streams: (0..shape.streams).map(|buffer| (buffer, shape.back)).collect(),
        states: (0..shape.states).map(|which| (0, which)).collect(),
        written: vec![false; shape.streams],
        ..Ir::default()
    };
    let mut generator = Generator { rng, ir, numbers: Vec::new(), masks: Vec::new(), shape };
    for _ in 0..shape.len {
        generator.instruction();
    }
    generator.finish()
}

impl Generator<'_> {
    fn number(&mut self) -> Src {
        let stream = self.rng.below(self.shape.streams);
        match self.rng.below(8) {
            0 => Src::Const(self.rng.below(2)),
            1 if self.ir.consts.len() > 5 => Src::Const(5 + self.rng.below(self.ir.consts.len() - 5)),
            // Written streams are read only before their store: stores come last.
            2 => Src::Mem { stream, lag: self.rng.below(self.shape.back + 1) },
            3 if self.shape.states > 0 => Src::State(self.rng.below(self.shape.states)),
            _ if self.numbers.is_empty() => Src::Mem { stream, lag: 0 },
            // Recent values more often, so that some die early and some live long.
            4 | 5 => self.numbers[self.numbers.len() - 1 - self.rng.below(self.numbers.len().min(3))],
            _ => self.rng.one_of(&self.numbers),
        }
    }

    fn mask(&mut self) -> Src {
        match self.masks.is_empty() {
            true => Src::Const(if self.rng.below(2) == 0 { 0 } else { 2 }),
            false => self.rng.one_of(&self.masks),
        }
    }

    fn op(&mut self, op: Opcode, from: &[Src]) -> Src {
        let to = self.ir.vals;
        self.ir.vals += 1;
        let mut all = [Src::None; 3];
        all.iter_mut().zip(from).for_each(|(slot, src)| *slot = *src);
        self.ir.insts.push(Inst::Op { to, op, from: all });
        Src::Val(to)
    }

    fn instruction(&mut self) {
        use Compare::{Eq, Ge, Gt, Le, Lt, Ne};
        let arith = self.rng.one_of(&[Arith::Add, Arith::Sub, Arith::Mul, Arith::Div]);
        let compare = self.rng.one_of(&[Lt, Le, Gt, Ge, Eq, Ne]);
        let logic = self.rng.one_of(&[Bitwise::And, Bitwise::Or]);
        let any = self.rng.one_of(&[Bitwise::And, Bitwise::Or, Bitwise::Xor]);
        let (a, b, c) = (self.number(), self.number(), self.number());
        let stream = self.rng.below(self.shape.streams);
        let number = match self.rng.below(20) {
            0..=5 => self.op(Opcode::Arith(arith), &[a, b]),
            6 => self.op(Opcode::Predicate(compare), &[a, b]),
            7 => self.op(Opcode::Logical(logic), &[a, b]),
            8 => {
                let op = self.rng.one_of(&[MinMax::Min, MinMax::Max]);
                self.op(Opcode::NanMinMax(op), &[a, b])
            }
            9 => self.op(Opcode::Div0, &[a, b]),
            10 => self.op(Opcode::Select, &[a, b, c]),
            11 | 12 => {
                let mask = self.mask();
                self.op(Opcode::Blend, &[mask, a, b])
            }
            13 => self.op(Opcode::Sqrt, &[a]),
            14 => {
                let towards = self.rng.one_of(&[Rounding::Down, Rounding::Up]);
                self.op(Opcode::Round(towards), &[a])
            }
            15 => self.op(Opcode::Sign, &[a]),
            16 => self.op(Opcode::Copy, &[a]),
            17 => {
                let lag = self.rng.below(self.shape.back + 1);
                self.op(Opcode::Load, &[Src::Mem { stream, lag }])
            }
            // Negation and absolute value.
            18 if self.rng.below(2) == 0 => self.op(Opcode::Bitwise(Bitwise::Xor), &[a, Src::Const(3)]),
            18 => self.op(Opcode::Bitwise(Bitwise::And), &[a, Src::Const(4)]),
            _ => {
                let mask = match self.rng.below(2) {
                    0 if !self.masks.is_empty() => {
                        let (a, b) = (self.mask(), self.mask());
                        self.op(Opcode::Bitwise(any), &[a, b])
                    }
                    _ => self.op(Opcode::Mask(compare), &[a, b]),
                };
                return self.masks.push(mask);
            }
        };
        self.numbers.push(number);
    }

    /// Stores and state updates at the end: each stream and state once, loads before any store.
    fn finish(mut self) -> Ir {
        for state in 0..self.shape.states {
            let val = self.rng.one_of(&self.numbers_or_zero());
            self.ir.insts.push(Inst::SetState { state, val });
        }
        // The last stream is always a result.
        for stream in self.shape.streams / 2..self.shape.streams {
            if stream + 1 == self.shape.streams || self.rng.below(2) == 0 {
                let val = self.rng.one_of(&self.numbers_or_zero());
                // A load of a stream that a store before this one wrote is no longer that load.
                let val = if self.is_clobbered(val) { Src::Const(0) } else { val };
                self.ir.written[stream] = true;
                self.ir.insts.push(Inst::Store { stream, val });
            }
        }
        let lagged =
            |src: &Src| matches!(src, Src::Mem { stream, lag } if *lag > 0 && self.ir.written[*stream]);
        self.ir.looks_back =
            self.ir.insts.iter().any(|inst| matches!(inst, Inst::Op { from, .. } if from.iter().any(lagged)));
        self.ir
    }

    fn numbers_or_zero(&self) -> Vec<Src> {
        if self.numbers.is_empty() { vec![Src::Const(0)] } else { self.numbers.clone() }
    }

    fn is_clobbered(&self, val: Src) -> bool {
        self.ir.insts.iter().any(|inst| {
            matches!(inst, Inst::Op { to, op: Opcode::Load, from: [Src::Mem { stream, .. }, ..] }
                if Src::Val(*to) == val && self.ir.written[*stream])
        })
    }
}
