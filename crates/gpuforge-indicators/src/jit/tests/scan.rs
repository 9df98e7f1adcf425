//! Prefix scans through the JIT against the same network in Rust, bit for bit: on every target the same operations, in the
//! same order, with the same roundings.

use crate::jit::{
    args::StateSlot,
    differential::{BARS, Form, HISTORY, Memory, run_jit},
    ir::{Arith, EmaPowers, Inst, Ir, Opcode, Scan, ScanKind, Src, random::Rng},
    target::{self, Width},
    verify::verify,
};

/// Kinds of scans, by the number in [`Program::kinds`].
const KINDS: usize = 4;

/// Some scans over the same two streams, each stored to a stream of its own.
struct Program {
    ir: Ir,
    /// The kind of each scan, and the `k` of an EMA.
    kinds: Vec<(usize, f64)>,
}

fn constant(ir: &mut Ir, all: [f64; 4]) -> usize {
    ir.consts.push(all.map(f64::to_bits));
    ir.consts.len() - 1
}

fn ema_powers(ir: &mut Ir, k: f64) -> EmaPowers {
    let a = 1.0 - k;
    let [a2, a4] = [a * a, a * a * (a * a)];
    EmaPowers {
        k: constant(ir, [k; 4]),
        powers_1_to_4: constant(ir, [a, a2, a2 * a, a4]),
        powers_5_to_8: constant(ir, [a4 * a, a4 * a2, a4 * a2 * a, a4 * a4]),
        power_8: constant(ir, [a4 * a4; 4]),
    }
}

/// `scans` scans of random kinds; every second one is added to its own input, which is live after it.
fn program(rng: &mut Rng, scans: usize) -> Program {
    let mut ir = Ir {
        streams: (0..scans + 2).map(|buffer| (buffer, 0)).collect(),
        states: (0..scans).map(|which| (0, which)).collect(),
        written: (0..scans + 2).map(|stream| stream > 1).collect(),
        ..Ir::default()
    };
    let ones = constant(&mut ir, [1.0; 4]);
    let all = f64::from_bits(u64::MAX);
    let masks = [constant(&mut ir, [0.0, all, 0.0, all]), constant(&mut ir, [0.0, 0.0, all, all])];
    for stream in 0..2 {
        let from = [Src::Mem { stream, lag: 0 }, Src::None, Src::None];
        ir.insts.push(Inst::Op { to: stream, op: Opcode::Load, from });
    }
    ir.vals = 2;
    let mut kinds = Vec::new();
    for state in 0..scans {
        let (kind, k) = (rng.below(KINDS), (1 + rng.below(9)) as f64 / 16.0);
        let a = if kind == 1 { 1.0 - k } else { 1.0 };
        let [round1, round2] = match kind {
            0 | 1 => [constant(&mut ir, [0.0, a, 0.0, a]), constant(&mut ir, [0.0, 0.0, a, a * a])],
            _ => masks,
        };
        let (kind_of, second) = match kind {
            0 => (ScanKind::Sum, Src::None),
            1 => (ScanKind::Ema(ema_powers(&mut ir, k)), Src::None),
            2 => (ScanKind::LinearRecurrence { ones }, Src::Val(0)),
            _ => (ScanKind::AdaptiveEma { ones }, Src::Val(1)),
        };
        // Stream 1 has factors below 1; a linear recurrence takes its factor first.
        let first = if kind == 2 { Src::Val(1) } else { Src::Val(0) };
        ir.scans.push(Scan { state, round1, round2, kind: kind_of });
        let mut value = ir.vals;
        ir.insts.push(Inst::Op { to: value, op: Opcode::Scan(state), from: [first, second, Src::None] });
        if state % 2 == 1 {
            let from = [Src::Val(value), Src::Val(0), Src::None];
            value += 1;
            ir.insts.push(Inst::Op { to: value, op: Opcode::Arith(Arith::Add), from });
        }
        ir.vals = value + 1;
        ir.insts.push(Inst::Store { stream: state + 2, val: Src::Val(value) });
        kinds.push((kind, k));
    }
    assert_eq!(verify(&ir), Ok(()));
    Program { ir, kinds }
}

/// The rounds of the network: who adds which earlier element.
const ROUNDS: [(usize, usize); 12] =
    [(1, 0), (3, 2), (5, 4), (7, 6), (2, 1), (3, 1), (6, 5), (7, 5), (4, 3), (5, 3), (6, 3), (7, 3)];

/// Eight bars by the network, with `f64::mul_add`.
fn network((kind, k): (usize, f64), x: [f64; 8], y: [f64; 8], state: &mut f64) -> [f64; 8] {
    let a = 1.0 - k;
    let [a2, a4] = [a * a, a * a * (a * a)];
    let powers = [a, a2, a2 * a, a4, a4 * a, a4 * a2, a4 * a2 * a, a4 * a4];
    let base = x[0];
    let mut v = match kind {
        1 => x.map(|x| x - base),
        3 => std::array::from_fn(|i| (x[i] - base) * y[i]),
        _ => x,
    };
    let mut factors = match kind {
        3 => y.map(|k| 1.0 - k),
        _ => y,
    };
    for (to, earlier) in ROUNDS {
        match kind {
            0 => v[to] += v[earlier],
            1 => v[to] = v[earlier].mul_add(powers[to - earlier - 1], v[to]),
            _ => {
                v[to] = v[earlier].mul_add(factors[to], v[to]);
                factors[to] *= factors[earlier];
            }
        }
    }
    let carry = if kind % 2 == 1 { *state - base } else { *state };
    let out: [f64; 8] = std::array::from_fn(|i| match kind {
        0 => v[i] + carry,
        1 => carry.mul_add(powers[i], v[i].mul_add(k, base)),
        2 => carry.mul_add(factors[i], v[i]),
        _ => carry.mul_add(factors[i], v[i]) + base,
    });
    *state = out[7];
    out
}

/// Prices, and factors below 1.
fn fill(memory: &mut Memory, rng: &mut Rng) {
    for (stream, slots) in memory.streams.iter_mut().enumerate() {
        let mut number = || match stream {
            1 => rng.below(1000) as f64 / 1024.0,
            _ => 100.0 + rng.below(10_000) as f64 / 100.0,
        };
        slots.iter_mut().for_each(|StateSlot(x)| *x = std::array::from_fn(|_| number()));
    }
    for StateSlot(state) in &mut memory.states {
        *state = [50.0 + rng.below(1000) as f64 / 8.0; 8];
    }
}

fn check(seed: u64, scans: usize) {
    let mut rng = Rng(seed);
    let Program { ir, kinds } = program(&mut rng, scans);
    let form = Form { width: Width::Eight, lanes: 1, nontemporal: seed % 2 == 1 };
    let mut memory = Memory::random(&ir, 1, &mut rng);
    fill(&mut memory, &mut rng);
    let (x, y) = (memory.lane(0, 0, 1), memory.lane(1, 0, 1));
    let mut states: Vec<f64> = memory.states.iter().map(|StateSlot(s)| s[0]).collect();
    run_jit(&ir, form, &mut memory).unwrap();
    for (scan, (of, state)) in kinds.iter().zip(&mut states).enumerate() {
        let got = memory.lane(scan + 2, 0, 1);
        for bar in (HISTORY..HISTORY + BARS).step_by(8) {
            let at = |from: &[f64]| -> [f64; 8] { from[bar..bar + 8].try_into().unwrap() };
            // A linear recurrence is `y = factor * y + x`.
            let mut want = network(*of, at(&x), at(&y), state);
            if scan % 2 == 1 {
                want.iter_mut().zip(at(&x)).for_each(|(w, x)| *w += x);
            }
            assert_eq!(at(&got).map(f64::to_bits), want.map(f64::to_bits), "seed {seed}, scan {scan} {of:?}");
        }
        assert_eq!(memory.states[scan].0[0].to_bits(), state.to_bits(), "seed {seed}, state {scan}");
    }
}

#[test]
fn scans_compute_the_same_bits_as_the_network_in_rust() {
    if !target::is_supported() || !target::has_scans() {
        println!("skipped: no prefix scans on this CPU");
        return;
    }
    for seed in 0..400 {
        for scans in [1, 2, 3, 5, 13] {
            check(seed, scans);
        }
    }
}
