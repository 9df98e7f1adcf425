//! Random schedules: in which of its ways does the engine run a plan? Every switch of [`How`], batch or stream.

use gpuforge::indicators::{exec::How, kernel::Simd};

use crate::random::Rng;

/// How a plan is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// All bars of all series at once.
    Batch(How),
    /// Every series by itself, so many bars at a time.
    Stream(How, usize),
}

impl Schedule {
    /// Any of them.
    pub fn random(rng: &mut Rng, longest: usize) -> Schedule {
        let how = how(rng);
        if rng.percent(25) {
            let most = if longest > 4000 { longest } else { longest.max(1) };
            return Schedule::Stream(How { side_by_side: None, ..how }, rng.log_between(1, most));
        }
        Schedule::Batch(how)
    }

    /// Its switches.
    pub fn how(&self) -> How {
        match self {
            Schedule::Batch(how) | Schedule::Stream(how, _) => *how,
        }
    }

    /// The same with other switches.
    pub fn with(&self, how: How) -> Schedule {
        match self {
            Schedule::Batch(_) => Schedule::Batch(how),
            Schedule::Stream(_, bars) => Schedule::Stream(how, *bars),
        }
    }
}

fn how(rng: &mut Rng) -> How {
    let simd: Vec<Simd> = Simd::available().collect();
    let block = match rng.below(6) {
        0..3 => None,
        3 => Some(rng.between(1, 16)),
        4 => Some(rng.between(17, 300)),
        _ => Some(rng.between(301, 4096)),
    };
    How {
        simd: if rng.percent(60) { Simd::detect() } else { rng.pick(&simd).unwrap_or(Simd::SCALAR) },
        block,
        side_by_side: rng.pick(&[None, Some(false), Some(true)]).flatten(),
        compiled: rng.percent(80),
        past: rng.pick(&[None, Some(false), Some(true)]).flatten(),
        // Off, so that faults of the JIT show; that it finds them is tested apart.
        verify: false,
        ..How::on(if rng.percent(20) { 2 } else { 1 })
    }
}
