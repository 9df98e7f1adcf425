//! Random execution schedules: every option of [`ExecOptions`], batch or streaming.

use gpuforge::indicators::{exec::ExecOptions, kernel::Simd};

use crate::random::Rng;

/// Execution schedule of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// All bars of all series in one call.
    Batch(ExecOptions),
    /// Streaming: each series alone, in chunks of this many bars.
    Stream(ExecOptions, usize),
}

impl Schedule {
    /// Random schedule.
    pub fn random(rng: &mut Rng, longest: usize) -> Schedule {
        let how = how(rng);
        if rng.percent(25) {
            let max_chunk = if longest > 4000 { longest } else { longest.max(1) };
            return Schedule::Stream(ExecOptions { batched: None, ..how }, rng.log_between(1, max_chunk));
        }
        Schedule::Batch(how)
    }

    /// Its options.
    pub fn how(&self) -> ExecOptions {
        match self {
            Schedule::Batch(how) | Schedule::Stream(how, _) => *how,
        }
    }

    /// The same with other options.
    pub fn with(&self, how: ExecOptions) -> Schedule {
        match self {
            Schedule::Batch(_) => Schedule::Batch(how),
            Schedule::Stream(_, bars) => Schedule::Stream(how, *bars),
        }
    }
}

fn how(rng: &mut Rng) -> ExecOptions {
    let simd: Vec<Simd> = Simd::available().collect();
    let block = match rng.below(6) {
        0..3 => None,
        3 => Some(rng.between(1, 16)),
        4 => Some(rng.between(17, 300)),
        _ => Some(rng.between(301, 4096)),
    };
    ExecOptions {
        simd: if rng.percent(60) { Simd::detect() } else { rng.pick(&simd).unwrap_or(Simd::SCALAR) },
        block,
        batched: rng.pick(&[None, Some(false), Some(true)]).flatten(),
        jit: rng.percent(80),
        nontemporal_stores: rng.pick(&[None, Some(false), Some(true)]).flatten(),
        // Off, so that JIT faults surface; that self-verification finds them is a separate test.
        verify_jit: false,
        ..ExecOptions::with_threads(if rng.percent(20) { 2 } else { 1 })
    }
}
