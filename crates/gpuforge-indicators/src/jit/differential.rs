//! Differential test of the compiler: verified IR through the JIT and through the interpreter, bit for bit.
//!
//! Each program runs in every form that a plan can have: eight series, eight bars of one series, one bar of one series, and the
//! SIMD forms with non-temporal stores. NaN equals NaN; everything else, signed zeros included, must have the same bits. Run over
//! random IR by the property test, over decoded bytes by the fuzz target `jit_ir` (`cargo xtask fuzz`).

use super::{
    args::{ARG_STREAMS, ConstVector, StateSlot},
    error::JitError,
    exec_memory::CodeBuffer,
    ir::{Ir, decode, interpret::interpret, random::Rng},
    target::{self, MemoryHints, Width},
    verify::verify,
};
use crate::exec::LANES;

/// Bars of history before the first: whole cache lines, and as far as programs look back.
pub(super) const HISTORY: usize = decode::MAX_LAG;
/// Bars of a run: some whole iterations of eight.
pub(super) const BARS: usize = 16;

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) width: Width,
    pub(super) lanes: usize,
    pub(super) nontemporal: bool,
}

/// Streams as rows of `lanes` bars, on cache-line boundaries.
pub(super) struct Memory {
    pub(super) streams: Vec<Vec<StateSlot>>,
    pub(super) states: Vec<StateSlot>,
}

impl Memory {
    pub(super) fn random(ir: &Ir, lanes: usize, rng: &mut Rng) -> Memory {
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
    pub(super) fn lane(&self, stream: usize, lane: usize, lanes: usize) -> Vec<f64> {
        let all = self.streams[stream].iter().flat_map(|StateSlot(x)| x);
        all.skip(lane).step_by(lanes).copied().collect()
    }
}

fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Runs a program by its machine code.
pub(super) fn run_jit(ir: &Ir, form: Form, memory: &mut Memory) -> Result<(), JitError> {
    let nontemporal: Vec<bool> = ir.written.iter().map(|w| *w && form.nontemporal).collect();
    let hints = MemoryHints { nontemporal: &nontemporal, prefetch: 0 };
    let mut code = CodeBuffer::default();
    let function = target::emit(ir, form.width, size_of::<f64>() * form.lanes, hints)?;
    let entry = code.append(function)?;
    let code = code.finish()?;
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
    Ok(())
}

/// Runs one program in one form both ways; the first difference in words.
pub(super) fn check(ir: &Ir, form: Form, seed: u64) -> Result<(), String> {
    let before = Memory::random(ir, form.lanes, &mut Rng(seed));
    let mut jit = Memory { streams: before.streams.clone(), states: before.states.clone() };
    run_jit(ir, form, &mut jit).map_err(|error| format!("verified IR was not compiled: {error}"))?;
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
pub(super) fn forms(ir: &Ir) -> Vec<Form> {
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

/// Outcome of one fuzz input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The verifier rejected the IR.
    Rejected,
    /// It was run this many times, in all of its forms, with the bits of the interpreter.
    Ran(usize),
}

/// Decodes bytes to IR and, if the verifier accepts it, compares JIT and interpreter; the first difference in words.
pub(crate) fn check_bytes(bytes: &[u8]) -> Result<Decoded, String> {
    let ir = decode::ir(bytes);
    if verify(&ir).is_err() {
        return Ok(Decoded::Rejected);
    }
    let forms = forms(&ir);
    for form in &forms {
        let seed = bytes.iter().fold(0, |hash: u64, byte| hash.wrapping_mul(31) ^ u64::from(*byte));
        check(&ir, *form, seed).map_err(|why| format!("{form:?}: {why}\n{ir:#?}"))?;
    }
    Ok(Decoded::Ran(forms.len()))
}
