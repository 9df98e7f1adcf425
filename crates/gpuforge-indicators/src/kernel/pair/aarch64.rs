//! Pairs of bars in NEON.

use std::arch::aarch64::{
    float64x2_t, vaddq_f64, vcltq_f64, vdivq_f64, vextq_f64, vfmaq_laneq_f64, vfmsq_f64, vld1q_f64,
    vmaxnmq_f64, vmaxvq_u32, vminnmq_f64, vmulq_f64, vreinterpretq_u32_u64, vsqrtq_f64, vst1q_f64, vsubq_f64,
};

use super::{Pair, Units};

/// In a NEON register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeonPair(float64x2_t);

/// A function of intrinsics: NEON is part of every target that this is compiled for.
macro_rules! neon {
    ($($intrinsic:tt)*) => {{
        #[allow(unsafe_code, unused_unsafe, reason = "NEON intrinsics")]
        // SAFETY: the module is compiled for AArch64 only, whose baseline has NEON; addresses are those of arrays of two.
        unsafe {
            NeonPair($($intrinsic)*)
        }
    }};
}

impl Pair for NeonPair {
    #[inline(always)]
    fn new(bars: [f64; 2]) -> Self {
        neon!(vld1q_f64(bars.as_ptr()))
    }

    #[inline(always)]
    fn bars(self) -> [f64; 2] {
        let mut bars = [0.0; 2];
        #[allow(unsafe_code, reason = "a store to an address")]
        // SAFETY: the array has two doubles.
        unsafe {
            vst1q_f64(bars.as_mut_ptr(), self.0);
        }
        bars
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        neon!(vaddq_f64(self.0, other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        neon!(vsubq_f64(self.0, other.0))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        neon!(vmulq_f64(self.0, other.0))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        neon!(vdivq_f64(self.0, other.0))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        neon!(vsqrtq_f64(self.0))
    }

    #[inline(always)]
    fn sub_mul(self, a: Self, b: Self) -> Self {
        neon!(vfmsq_f64(self.0, a.0, b.0))
    }

    #[inline(always)]
    fn max_number(self, other: Self) -> Self {
        neon!(vmaxnmq_f64(self.0, other.0))
    }

    #[inline(always)]
    fn min_number(self, other: Self) -> Self {
        neon!(vminnmq_f64(self.0, other.0))
    }

    #[inline(always)]
    fn running_sum(self, before: Self, units: Units<Self>) -> Self {
        let own = neon!(vfmaq_laneq_f64::<0>(self.0, units.second.0, self.0));
        neon!(vfmaq_laneq_f64::<1>(own.0, units.both.0, before.0))
    }

    #[inline(always)]
    fn lagged(self, before: Self) -> Self {
        neon!(vextq_f64::<1>(before.0, self.0))
    }

    #[inline(always)]
    fn any_less(self, than: Self) -> bool {
        #[allow(unsafe_code, unused_unsafe, reason = "NEON intrinsics")]
        // SAFETY: the module is compiled for AArch64 only, whose baseline has NEON.
        unsafe {
            vmaxvq_u32(vreinterpretq_u32_u64(vcltq_f64(self.0, than.0))) != 0
        }
    }
}
