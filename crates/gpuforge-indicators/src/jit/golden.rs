//! Golden tests of the encoders: what was emitted, disassembled by somebody else's tables, against the text that was meant.
//!
//! Both encoders are tested on every host: x86-64 by `iced-x86`, AArch64 by binutils' `objdump`, where that is installed.

use super::{
    ir::{Arith, Inst, Ir, Opcode, Scan, ScanKind, Src},
    target::{MemoryHints, Width},
};

mod aarch64;
mod x64;

/// One group of instructions: what was emitted, and its disassembly.
struct Golden {
    code: Vec<u8>,
    want: &'static str,
}

/// The lines of a text without indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// An EMA of a stream into another: `y += k (x - y)`.
fn ema() -> Ir {
    let op = |to, arith, a, b| Inst::Op { to, op: Opcode::Arith(arith), from: [a, b, Src::None] };
    let x = Src::Mem { stream: 0, lag: 2 };
    Ir {
        insts: vec![
            Inst::Op { to: 0, op: Opcode::Copy, from: [x, Src::None, Src::None] },
            op(1, Arith::Sub, Src::Val(0), Src::State(0)),
            op(2, Arith::Mul, Src::Val(1), Src::Const(0)),
            op(3, Arith::Add, Src::Val(2), Src::State(0)),
            Inst::SetState { state: 0, val: Src::Val(3) },
            Inst::Store { stream: 1, val: Src::Val(3) },
        ],
        vals: 4,
        consts: vec![[0.5f64.to_bits(); 4]],
        streams: vec![(0, 2), (1, 0)],
        states: vec![(0, 0)],
        written: vec![false, true],
        ..Ir::default()
    }
}

/// A scan of a stream into another; the constants of its rounds are the first and the last.
fn scan(kind: ScanKind) -> Ir {
    let of = |src| [src, Src::None, Src::None];
    Ir {
        insts: vec![
            Inst::Op { to: 0, op: Opcode::Scan(0), from: of(Src::Mem { stream: 0, lag: 0 }) },
            Inst::Store { stream: 1, val: Src::Val(0) },
        ],
        vals: 1,
        consts: vec![[0; 4]; 6],
        streams: vec![(0, 0), (1, 0)],
        states: vec![(0, 0)],
        written: vec![false, true],
        scans: vec![Scan { state: 0, round1: 0, round2: 5, kind }],
        ..Ir::default()
    }
}

type EmitFn = fn(&Ir, Width, usize, MemoryHints<'_>) -> Result<Vec<u8>, super::error::EmitError>;

/// The code of an EMA.
fn ema_code(emit: EmitFn, width: Width, lanes: usize) -> Vec<u8> {
    emit(&ema(), width, size_of::<f64>() * lanes, MemoryHints::default()).unwrap()
}
