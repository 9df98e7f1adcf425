//! SIMD dispatch: which instruction sets the CPU has, as a value that only detection hands out.
//!
//! ```text
//!   cpuid ──► Simd::detect()           the best level of this CPU (ARM, wasm: of the compilation target)
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
///
/// A variant exists only on the architecture that can have it: a match there lists its own levels and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SimdLevel {
    /// What every CPU of the target has: no runtime detection, whatever the compiler makes of it.
    Scalar,
    /// `avx2`, and `lzcnt`, which came with it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// `avx512f`, `avx512vl`, `avx512dq` and `avx512bw`, and all of [`SimdLevel::Avx2`].
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// `neon`: part of every AArch64 target with floating point, so that compilation decides.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// `simd128`: an engine without it rejects the whole module, so that compilation decides.
    #[cfg(target_arch = "wasm32")]
    Simd128,
}

impl SimdLevel {
    /// Every level of this architecture in ascending order; each one includes those before it.
    const ALL: &'static [SimdLevel] = &[
        SimdLevel::Scalar,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512,
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon,
        #[cfg(target_arch = "wasm32")]
        SimdLevel::Simd128,
    ];

    /// Does this CPU have every feature of the level? The answer is cached by the standard library.
    fn is_available(self) -> bool {
        match self {
            SimdLevel::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("lzcnt"),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && SimdLevel::Avx2.is_available()
            }
            #[cfg(target_arch = "aarch64")]
            SimdLevel::Neon => cfg!(target_feature = "neon"),
            #[cfg(target_arch = "wasm32")]
            SimdLevel::Simd128 => cfg!(target_feature = "simd128"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            SimdLevel::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            SimdLevel::Neon => "neon",
            #[cfg(target_arch = "wasm32")]
            SimdLevel::Simd128 => "simd128",
        }
    }
}

/// A SIMD level that this CPU was found to have.
///
/// Detection is the only way to one: a level that was not detected does not compile.
/// ```compile_fail,E0423
/// let forged = gpuforge_simd::Simd(gpuforge_simd::SimdLevel::Scalar);
/// ```
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
        SimdLevel::ALL.iter().copied().filter(|level| level.is_available()).map(Simd)
    }

    /// The level of this name (`scalar`, `avx2`, `avx512`, `neon`, `simd128`); `None` where there is none, or the CPU does not have it.
    pub fn named(name: &str) -> Option<Simd> {
        Simd::available().find(|simd| simd.name() == name)
    }

    /// What dispatch matches on.
    #[inline(always)]
    pub fn level(self) -> SimdLevel {
        self.0
    }

    /// Its name: `scalar`, `avx2`, `avx512`, `neon` or `simd128`.
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
        for level in SimdLevel::ALL.iter().copied() {
            assert_eq!(Simd::named(level.name()).map(Simd::level), Some(level).filter(|l| l.is_available()));
        }
        assert_eq!(Simd::named("scalar"), Some(Simd::SCALAR));
        assert_eq!(Simd::named("AVX2"), None);
        assert_eq!(
            Simd::named("neon").is_some(),
            cfg!(all(target_arch = "aarch64", target_feature = "neon"))
        );
        assert_eq!(
            Simd::named("simd128").is_some(),
            cfg!(all(target_arch = "wasm32", target_feature = "simd128"))
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn detection_asks_for_every_feature_that_kernels_enable() {
        let has = |level| Simd::available().any(|simd| simd.level() == level);
        assert_eq!(
            has(SimdLevel::Avx2),
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("lzcnt")
        );
        if has(SimdLevel::Avx512) {
            assert!(is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq"));
            assert!(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl"));
            assert!(is_x86_feature_detected!("avx2"));
        }
    }
}
