//! SIMD dispatch: which instruction sets the CPU has, as a value that only detection hands out.
//!
//! ```text
//!   cpuid ──► Simd::detect()           the best level of this CPU
//!             Simd::available()        every level of it, for tests and fuzzers
//!             Simd::named("avx2")      one by name, if the CPU has it
//!   Simd ──► match simd.level() { SimdLevel::Avx512 => unsafe { avx512(..) }, .. }
//! ```
//! A `#[target_feature]` function may run only where the CPU has what it enables. [`Simd`] is the proof: its field is
//! private and every constructor asks the CPU, so that safe code cannot name a level that is missing. A dispatcher takes
//! a `Simd`, never a [`SimdLevel`], and enables no feature beyond [`SimdLevel`]'s lists.
//!
//! Not chosen: a public enumeration (any caller could name AVX-512 on a CPU without it), and detection inside
//! every kernel (tests could not compare the levels with each other).
//!
//! | file | what is in it |
//! |---|---|
//! | `lib.rs` | [`Simd`], [`SimdLevel`], detection |

/// An instruction set that dispatch can match on. Having one proves nothing; having a [`Simd`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SimdLevel {
    /// What every CPU of the target has: no runtime detection, whatever the compiler makes of it.
    Scalar,
    /// `avx2`.
    Avx2,
    /// `avx512f`, `avx512vl`, `avx512dq` and `avx512bw`, and `avx2`.
    Avx512,
}

impl SimdLevel {
    /// Every level in ascending order; each one includes those before it.
    const ALL: [SimdLevel; 3] = [SimdLevel::Scalar, SimdLevel::Avx2, SimdLevel::Avx512];

    /// Does this CPU have every feature of the level? The answer is cached by the standard library.
    fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            match self {
                SimdLevel::Scalar => true,
                SimdLevel::Avx2 => is_x86_feature_detected!("avx2"),
                SimdLevel::Avx512 => {
                    is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512vl")
                        && is_x86_feature_detected!("avx512dq")
                        && is_x86_feature_detected!("avx512bw")
                        && is_x86_feature_detected!("avx2")
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == SimdLevel::Scalar
        }
    }

    fn name(self) -> &'static str {
        match self {
            SimdLevel::Scalar => "scalar",
            SimdLevel::Avx2 => "avx2",
            SimdLevel::Avx512 => "avx512",
        }
    }
}

/// A SIMD level that this CPU was found to have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Simd(SimdLevel);

impl Simd {
    /// The level that every CPU has.
    pub const SCALAR: Simd = Simd(SimdLevel::Scalar);

    /// The best level of this CPU.
    pub fn detect() -> Simd {
        Simd::available().last().unwrap_or(Simd::SCALAR)
    }

    /// Every level of this CPU, in ascending order.
    pub fn available() -> impl DoubleEndedIterator<Item = Simd> + Clone {
        SimdLevel::ALL.into_iter().filter(|level| level.is_available()).map(Simd)
    }

    /// The level of this name (`scalar`, `avx2`, `avx512`); `None` where there is none, or the CPU does not have it.
    pub fn named(name: &str) -> Option<Simd> {
        Simd::available().find(|simd| simd.name() == name)
    }

    /// What dispatch matches on.
    #[inline(always)]
    pub fn level(self) -> SimdLevel {
        self.0
    }

    /// Its name: `scalar`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl std::fmt::Debug for Simd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_levels_ascend_from_scalar_to_the_detected_one() {
        let all: Vec<Simd> = Simd::available().collect();
        assert!(all.is_sorted());
        assert_eq!(all.first(), Some(&Simd::SCALAR));
        assert_eq!(all.last(), Some(&Simd::detect()));
    }

    #[test]
    fn a_name_gives_a_level_only_where_the_cpu_has_it() {
        for level in SimdLevel::ALL {
            assert_eq!(Simd::named(level.name()).map(Simd::level), Some(level).filter(|l| l.is_available()));
        }
        assert_eq!(Simd::named("scalar"), Some(Simd::SCALAR));
        assert_eq!(Simd::named("AVX2"), None);
        assert_eq!(Simd::named("neon"), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn detection_asks_for_every_feature_that_kernels_enable() {
        let has = |level| Simd::available().any(|simd| simd.level() == level);
        assert_eq!(has(SimdLevel::Avx2), is_x86_feature_detected!("avx2"));
        if has(SimdLevel::Avx512) {
            assert!(is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq"));
            assert!(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl"));
            assert!(is_x86_feature_detected!("avx2"));
        }
    }
}
