//! Property test of the compiler: random verified IR through the JIT and through the interpreter, bit for bit.
//!
//! Each program runs in every form that a plan can have: eight series, eight bars of one series, one bar of one series, and the
//! SIMD forms with non-temporal stores. NaN equals NaN; everything else, signed zeros included, must have the same bits.

use super::{
    args::{ARG_STREAMS, ConstVector, StateSlot},
    exec_memory::CodeBuffer,
    ir::{
        Ir,
        interpret::interpret,
        random::{Rng, Shape, program},
    },
    target::{self, MemoryHints, Width},
    verify::verify,
};
use crate::exec::LANES;

/// Bars of history before the first: whole cache lines, and as far as programs look back.
const HISTORY: usize = 40;
/// Bars of a run: some whole iterations of eight.
const BARS: usize = 16;
/// Programs of the normal test run, and of the long one.
const PROGRAMS: u64 = 3_000;
const LONG_PROGRAMS: u64 = 100_000;

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    width: Width,
    lanes: usize,
    nontemporal: bool,
}

/// Streams as rows of `lanes` bars, on cache-line boundaries.
struct Memory {
    streams: Vec<Vec<StateSlot>>,
    states: Vec<StateSlot>,
}

impl Memory {
    fn random(ir: &Ir, lanes: usize, rng: &mut Rng) -> Memory {
        let slots = (HISTORY + BARS) * lanes / LANES;
        let mut slot = |_| StateSlot(std::array::from_fn(|_| rng.number()));
        let streams = (0..ir.streams.len()).map(|_| (0..slots).map(&mut slot).collect()).collect();
        let mut states: Vec<StateSlot> = (0..ir.states.len()).map(&mut slot).collect();
        if lanes == 1 {
            states.iter_mut().for_each(|StateSlot(all)| *all = [all[0]; LANES]);
        }
        Memory { streams, states }
    }

    /// One lane of a stream.
    fn lane(&self, stream: usize, lane: usize, lanes: usize) -> Vec<f64> {
        let all = self.streams[stream].iter().flat_map(|StateSlot(x)| x);
        all.skip(lane).step_by(lanes).copied().collect()
    }
}

fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Runs a program by its machine code.
fn run_jit(ir: &Ir, form: Form, memory: &mut Memory) {
    let nontemporal: Vec<bool> = ir.written.iter().map(|w| *w && form.nontemporal).collect();
    let hints = MemoryHints { nontemporal: &nontemporal, prefetch: 0 };
    let mut code = CodeBuffer::default();
    let function = target::emit(ir, form.width, size_of::<f64>() * form.lanes, hints).unwrap();
    let entry = code.append(function).unwrap();
    let code = code.finish().unwrap();
    let constants: Vec<ConstVector> = ir.consts.iter().map(|c| ConstVector(c.map(f64::from_bits))).collect();
    let first = HISTORY * form.lanes;
    let mut table: Vec<*mut f64> =
        vec![constants.as_ptr().cast_mut().cast(), memory.states.as_mut_ptr().cast()];
    assert_eq!(table.len(), ARG_STREAMS);
    table.extend(memory.streams.iter_mut().map(|s| s.as_mut_ptr().cast::<f64>().wrapping_add(first)));
    #[allow(unsafe_code, reason = "calls machine code")]
    // SAFETY: the function was just emitted; every stream has `HISTORY` bars before the pointer, at least as many as the verifier
    // lets it look back, and `BARS` after it; constants and states are as many as the program has.
    unsafe {
        code.call(entry, &table, BARS * form.lanes * size_of::<f64>());
    }
}

/// Runs one program in one form both ways; the first difference in words.
fn check(ir: &Ir, form: Form, seed: u64) -> Result<(), String> {
    let before = Memory::random(ir, form.lanes, &mut Rng(seed));
    let mut jit = Memory { streams: before.streams.clone(), states: before.states.clone() };
    run_jit(ir, form, &mut jit);
    for lane in 0..form.lanes {
        let lane_of = |memory: &Memory| -> Vec<Vec<f64>> {
            (0..ir.streams.len()).map(|stream| memory.lane(stream, lane, form.lanes)).collect()
        };
        let mut want = lane_of(&before);
        let mut states: Vec<f64> = before.states.iter().map(|StateSlot(s)| s[lane]).collect();
        interpret(ir, &mut want, HISTORY, BARS, &mut states);
        for (stream, (want, got)) in want.iter().zip(lane_of(&jit)).enumerate() {
            let differ = want.iter().zip(&got).position(|(w, g)| bits(*w) != bits(*g));
            if let Some(at) = differ {
                let bar = at as isize - HISTORY as isize;
                return Err(format!(
                    "stream {stream}, lane {lane}, bar {bar}: {:e} instead of {:e}",
                    got[at], want[at]
                ));
            }
        }
        for (state, (want, StateSlot(got))) in states.iter().zip(&jit.states).enumerate() {
            if bits(*want) != bits(got[lane]) {
                return Err(format!("state {state}, lane {lane}: {:e} instead of {want:e}", got[lane]));
            }
        }
    }
    Ok(())
}

/// The forms that a program can have.
fn forms(ir: &Ir) -> Vec<Form> {
    let mut all = vec![(Width::Eight, LANES), (Width::One, 1)];
    if ir.states.is_empty() && !ir.looks_back {
        all.push((Width::Eight, 1));
    }
    let both = |(width, lanes)| {
        let nontemporal: &[bool] = if width == Width::Eight { &[false, true] } else { &[false] };
        nontemporal.iter().map(move |nontemporal| Form { width, lanes, nontemporal: *nontemporal })
    };
    all.into_iter().flat_map(both).collect()
}

fn check_programs(seeds: std::ops::Range<u64>) {
    if !target::is_supported() {
        println!("skipped: no JIT backend for this CPU");
        return;
    }
    let mut runs = 0u64;
    for seed in seeds.clone() {
        let mut rng = Rng(seed);
        let shape = Shape::random(&mut rng);
        let ir = program(&mut rng, shape);
        assert_eq!(verify(&ir), Ok(()), "the generator made what the verifier rejects, seed {seed}: {ir:#?}");
        for form in forms(&ir) {
            if let Err(why) = check(&ir, form, rng.next()) {
                panic!("seed {seed}, {form:?}: {why}\n{ir:#?}");
            }
            runs += 1;
        }
    }
    assert!(runs >= 3 * (seeds.end - seeds.start), "every program has at least three forms");
}

#[test]
fn random_programs_compute_the_same_bits_as_the_interpreter() {
    check_programs(0..PROGRAMS);
}

/// `cargo test -p gpuforge-indicators --lib -- --ignored a_hundred_thousand`
#[test]
#[ignore = "a hundred thousand programs take about a minute"]
fn a_hundred_thousand_random_programs_compute_the_same_bits() {
    check_programs(PROGRAMS..PROGRAMS + LONG_PROGRAMS);
}
