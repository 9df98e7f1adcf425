//! JIT guard: records fallbacks from JIT code to the kernels, and whether code passed its self-check.
//!
//! Code is rejected by the IR verifier before anything is emitted, by the emitter, by a system that forbids executable memory,
//! and by the comparison with the kernels on the first bars that a plan computes (`exec/self_check.rs`). Either way the kernels
//! compute, results are right, and the fallback is recorded here, once, so that callers can warn.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

use super::switch::{JitSwitch, VARIABLE};

/// Reasons that are recorded.
const MAX_REASONS: usize = 16;

static COUNT: AtomicU64 = AtomicU64::new(0);
static REASONS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static PLANTED: AtomicBool = AtomicBool::new(false);

/// Plans of this process whose JIT code was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JitFallbacks {
    /// How many.
    pub count: u64,
    /// Reasons of the first of them.
    pub reasons: Vec<String>,
}

/// Plans of this process that fell back from JIT code to the kernels. Anything but 0 is a bug in gpuforge that cost time,
/// not correctness; please report the reasons.
pub fn jit_fallbacks() -> JitFallbacks {
    let reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    JitFallbacks { count: COUNT.load(Ordering::Relaxed), reasons }
}

/// Fault injection for tests of the checks: JIT code emitted from now on reads lagged values one bar too late.
#[doc(hidden)]
pub fn plant_jit_fault(planted: bool) {
    PLANTED.store(planted, Ordering::Relaxed);
}

pub(super) fn is_planted() -> bool {
    PLANTED.load(Ordering::Relaxed)
}

/// Records that a plan fell back. Where the switch requires the JIT this is where the process learns of it.
///
/// # Panics
/// With `GPUFORGE_JIT=require`, unless the fault was planted.
pub(crate) fn record(reason: String) {
    #[allow(clippy::panic, reason = "GPUFORGE_JIT=require asks for it: execution has no error to return")]
    if JitSwitch::from_env() == JitSwitch::Require && !is_planted() {
        panic!("{VARIABLE}=require: {reason}");
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    note(reason);
}

/// Keeps a reason for callers that warn.
pub(super) fn note(reason: String) {
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if reasons.len() < MAX_REASONS {
        reasons.push(reason);
    }
}

/// Result of the self-check of a program: not yet run, verified or faulty.
#[derive(Debug, Default)]
pub(crate) struct SelfCheckState(AtomicU8);

impl SelfCheckState {
    const VERIFIED: u8 = 1;
    const FAULTY: u8 = 2;

    pub(crate) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn is_faulty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::FAULTY
    }

    /// It computes what the kernels compute.
    pub(crate) fn set_verified(&self) {
        // Faulty is final.
        let _ = self.0.compare_exchange(0, Self::VERIFIED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It does not: it is never used again.
    pub(crate) fn set_faulty(&self, reason: String) {
        if self.0.swap(Self::FAULTY, Ordering::Relaxed) != Self::FAULTY {
            record(reason);
        }
    }
}
