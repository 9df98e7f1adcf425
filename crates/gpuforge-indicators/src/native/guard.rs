//! JIT guard: which compiled loops were given up, and why?
//!
//! Two things give one up: the IR verifier, before code is made, and the comparison with the kernels on the first bars that
//! a plan computes ([`crate::exec`]). Either way the kernels compute, the numbers are right, and it is recorded here
//! so that whoever shows results can say so.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Reasons that are kept.
const MOST_REASONS: usize = 16;

static COUNT: AtomicU64 = AtomicU64::new(0);
static REASONS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static PLANTED: AtomicBool = AtomicBool::new(false);

/// Plans of this process whose JIT code was given up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JitFallbacks {
    /// How many.
    pub count: u64,
    /// Why the first of them were.
    pub reasons: Vec<String>,
}

/// Plans of this process that fell back from JIT code to the kernels. Anything but 0 is a fault of gpuforge that cost
/// time and no number; please report the reasons.
pub fn jit_fallbacks() -> JitFallbacks {
    let reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    JitFallbacks { count: COUNT.load(Ordering::Relaxed), reasons }
}

/// For tests of the checks themselves: JIT code that is made from now on reads earlier bars one bar too late.
#[doc(hidden)]
pub fn plant_jit_fault(planted: bool) {
    PLANTED.store(planted, Ordering::Relaxed);
}

pub(super) fn is_planted() -> bool {
    PLANTED.load(Ordering::Relaxed)
}

/// Records that a plan fell back.
pub(crate) fn record(reason: String) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if reasons.len() < MOST_REASONS {
        reasons.push(reason);
    }
}

/// Has code been compared with the kernels?
#[derive(Debug, Default)]
pub(crate) struct Trust(AtomicU8);

impl Trust {
    const VERIFIED: u8 = 1;
    const FAULTY: u8 = 2;

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn is_faulty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::FAULTY
    }

    /// It computed what the kernels compute.
    pub(crate) fn verified(&self) {
        // What was found to be faulty stays so.
        let _ = self.0.compare_exchange(0, Self::VERIFIED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It did not: it is not used again.
    pub(crate) fn faulty(&self, reason: String) {
        if self.0.swap(Self::FAULTY, Ordering::Relaxed) != Self::FAULTY {
            record(reason);
        }
    }
}
