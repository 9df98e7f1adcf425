//! IR interpreter: the plain meaning of a fused loop, one lane and one bar at a time. The reference of the property test.
//!
//! Only for tests: nothing here is fast, and every operation is Rust's own. NaN payloads are not part of the meaning: which of
//! two NaNs comes out of an addition depends on the order of its operands, so that callers compare NaN with NaN.

use super::{Arith, Bitwise, Inst, Ir, MinMax, Opcode, Rounding, ScanKind, Src};
use crate::kernel::trace::Compare;

/// A stream of one lane: bars of history, then the bars of the loop.
pub(in crate::jit) type Lane = Vec<f64>;

/// Runs the loop over some bars of one lane. `streams` have `back` bars of history each; states are updated.
pub(in crate::jit) fn interpret(ir: &Ir, streams: &mut [Lane], back: usize, bars: usize, states: &mut [f64]) {
    for bar in 0..bars {
        let mut vals = vec![f64::NAN; ir.vals];
        let mut next = states.to_vec();
        for inst in &ir.insts {
            let read = |src: Src, vals: &[f64], streams: &[Lane]| match src {
                Src::Val(v) => vals[v],
                Src::Mem { stream, lag } => streams[stream][back + bar - lag],
                Src::Const(at) => f64::from_bits(ir.consts[at][0]),
                Src::State(s) => states[s],
                Src::None => f64::NAN,
            };
            match *inst {
                Inst::Op { to, op: Opcode::Scan(scan), from: [a, b, _] } => {
                    let scan = ir.scans[scan];
                    let (x, k) = (read(a, &vals, streams), read(b, &vals, streams));
                    let y = states[scan.state];
                    vals[to] = match scan.kind {
                        ScanKind::Sum => y + x,
                        ScanKind::Ema(powers) => (x - y) * f64::from_bits(ir.consts[powers.k][0]) + y,
                        ScanKind::AdaptiveEma { .. } => (x - y) * k + y,
                        ScanKind::LinearRecurrence { .. } => x * y + k,
                    };
                    next[scan.state] = vals[to];
                }
                Inst::Op { to, op, from } => {
                    vals[to] = apply(op, from.map(|src| read(src, &vals, streams)));
                }
                Inst::Store { stream, val } => streams[stream][back + bar] = read(val, &vals, streams),
                Inst::SetState { state, val } => next[state] = read(val, &vals, streams),
            }
        }
        states.copy_from_slice(&next);
    }
}

fn compare(test: Compare, a: f64, b: f64) -> bool {
    match test {
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        Compare::Ge => a >= b,
        Compare::Eq => a == b,
        Compare::Ne => a != b,
    }
}

fn bitwise(op: Bitwise, a: u64, b: u64) -> u64 {
    match op {
        Bitwise::And => a & b,
        Bitwise::Or => a | b,
        Bitwise::Xor => a ^ b,
    }
}

fn mask(holds: bool) -> f64 {
    f64::from_bits(if holds { u64::MAX } else { 0 })
}

fn apply(op: Opcode, [a, b, c]: [f64; 3]) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        Opcode::Arith(Arith::Add) => a + b,
        Opcode::Arith(Arith::Sub) => a - b,
        Opcode::Arith(Arith::Mul) => a * b,
        Opcode::Arith(Arith::Div) => a / b,
        Opcode::Bitwise(op) => f64::from_bits(bitwise(op, a.to_bits(), b.to_bits())),
        Opcode::Predicate(test) => truth(compare(test, a, b)),
        Opcode::Logical(op) => truth(bitwise(op, u64::from(a != 0.0), u64::from(b != 0.0)) != 0),
        Opcode::NanMinMax(_) if a.is_nan() || b.is_nan() => f64::NAN,
        // Of equals (0 and -0) the second.
        Opcode::NanMinMax(MinMax::Min) => {
            if a < b {
                a
            } else {
                b
            }
        }
        Opcode::NanMinMax(MinMax::Max) => {
            if a > b {
                a
            } else {
                b
            }
        }
        Opcode::Div0 => {
            if b == 0.0 {
                0.0
            } else {
                a / b
            }
        }
        Opcode::Select => {
            if a != 0.0 {
                b
            } else {
                c
            }
        }
        Opcode::Mask(test) => mask(compare(test, a, b)),
        Opcode::Blend => {
            if a.to_bits() == u64::MAX {
                b
            } else {
                c
            }
        }
        Opcode::Sqrt => a.sqrt(),
        Opcode::Round(Rounding::Down) => a.floor(),
        Opcode::Round(Rounding::Up) => a.ceil(),
        Opcode::Sign => truth(a > 0.0) - truth(a < 0.0),
        Opcode::Load | Opcode::Copy | Opcode::Scan(_) => a,
    }
}
