//! Counter-based random numbers, the same on every backend: bits, uniform and normal, by Philox4x32-10 (Salmon, Moraes, Dror,
//! Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).
//!
//! Element `a` of a seed's stream is word `a mod 4` of Philox with key `seed` and counter `a / 4` (words: low, high, distribution,
//! 0; the third word is 1 for normal numbers, so that they are independent of uniform ones of the same seed). No value depends
//! on another: `uniform(n, seed, offset)[i]` is `uniform(n + offset, seed, 0)[i + offset]`, and partitions are exact.
//! - **Bits** and **uniform** are bit-identical on every backend. Uniform: the leading 24 bits × 2⁻²⁴, in [0, 1).
//! - **Normal** is Box-Muller on two words of a counter: the radius is √(-2 ln u), u the leading 24 bits of a word (never zero)
//!   over 2³², so that |z| ≤ 6.67; quadrant and angle come from the other word by integer arithmetic. `ln`, `sin` and `cos` are
//!   short polynomials, not the platform's: WGSL allows errors of 2⁻¹¹ there. The CPU gives the same bits at any number of threads
//!   and any SIMD width; a device differs by at most [`NORMAL_BOUND`].

use std::{any::Any, ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};
#[cfg(target_arch = "x86_64")]
use gpuforge_simd::Simd;
use rayon::prelude::*;

use crate::{
    Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    op::Items,
    record::{groups, word},
    view::{cast_slice_mut, exactly, exactly_mut},
};

const OP: &str = "random";
const VARIANTS: &[Variant] = &[Variant::new(64, 1, 1), Variant::new(256, 1, 1), Variant::new(64, 1, 4)];
/// Largest difference of a normal number between CPU and device.
pub const NORMAL_BOUND: f32 = 4e-6;
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 15;

/// Distribution of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distribution {
    Bits,
    Uniform,
    Normal,
}

/// The random operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Random {
    n: usize,
    seed: u64,
    offset: u64,
    distribution: Distribution,
}

/// `n` random words (`u32`), from element `offset` of the seed's stream on.
pub fn random_bits(n: usize, seed: u64, offset: u64) -> Random {
    Random { n, seed, offset, distribution: Distribution::Bits }
}

/// `n` floats in [0, 1) with 24 random bits, from element `offset` of the seed's stream on.
pub fn uniform(n: usize, seed: u64, offset: u64) -> Random {
    Random { n, seed, offset, distribution: Distribution::Uniform }
}

/// `n` floats with mean 0 and variance 1, from element `offset` of the seed's stream on.
pub fn normal(n: usize, seed: u64, offset: u64) -> Random {
    Random { n, seed, offset, distribution: Distribution::Normal }
}

impl Op for Random {
    fn kind(&self) -> OpKind {
        if self.distribution == Distribution::Normal { OpKind::Normal } else { OpKind::Uniform }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        if self.offset.checked_add(self.n as u64).is_none() {
            let have = format!("{} and {} elements from it", self.offset, self.n);
            return Err(OpError::Value {
                op: OP,
                what: "the offset",
                have,
                limit: "a stream has 2^64 elements",
            });
        }
        let dtype = if self.distribution == Distribution::Bits { DType::U32 } else { DType::F32 };
        Ok(vec![TensorSpec { dtype, shape: vec![self.n], tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let n = self.n as u64;
        // Ten Philox rounds of two multiplications each make four words.
        let steps = if self.distribution == Distribution::Normal { 50 } else { 25 };
        OpCost {
            units: n,
            flops: n.saturating_mul(steps),
            read: Bytes::ZERO,
            written: Bytes(n.saturating_mul(4)),
            launches: 1,
            depth: 1,
        }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let out: &mut [u32] = cast_slice_mut(OP, out)?;
        if threads.0 < 2 || out.len() < 2 * PER_THREAD {
            fill(self.distribution, out, self.seed, self.offset);
            return Ok(());
        }
        let share = out.len().div_ceil(threads.0).next_multiple_of(4 * LANES);
        out.par_chunks_mut(share)
            .enumerate()
            .for_each(|(i, out)| fill(self.distribution, out, self.seed, self.offset + (i * share) as u64));
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [] = exactly(OP, "inputs", inputs)?;
        let (skip, n) = (self.offset % 4, self.n as u64);
        // The indices of the last counter's words must fit u32 as well.
        word(OP, n.saturating_add(skip + 3))?;
        let out = plan.slot(Bytes(n * 4), OP);
        let counters = (n + skip).div_ceil(4);
        let variant = target.variant(self.kind(), VARIANTS);
        let [first_low, first_high] = halves(self.offset / 4);
        let [key_low, key_high] = halves(self.seed);
        let [n, skip, counters_word] = [word(OP, n)?, word(OP, skip)?, word(OP, counters)?];
        let params =
            [n, skip, first_low, first_high, key_low, key_high, self.distribution as u32, counters_word];
        let groups = groups(OP, counters.div_ceil(u64::from(variant.group * variant.items)))?;
        plan.dispatch(&kernel(variant), &[out], &params, groups)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        Some(Items { count: self.n, grain: 4 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        Ok(Arc::new(Random { n: items.len(), offset: self.offset + items.start as u64, ..self.clone() }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// SIMD width: counters computed per step (SoA).
const LANES: usize = 16;
/// The four words of each counter.
type Wide = [[u32; LANES]; 4];

/// Philox4x32-10 of one counter.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    rounds(counter.map(|c| [c; LANES]), key).map(|[word, ..]| word)
}

#[inline(always)]
fn rounds(mut c: Wide, [mut k0, mut k1]: [u32; 2]) -> Wide {
    for _ in 0..10 {
        let [c0, c1, c2, c3] = &mut c;
        for (((c0, c1), c2), c3) in c0.iter_mut().zip(c1).zip(c2).zip(c3) {
            let (a, b) = (0xD251_1F53 * u64::from(*c0), 0xCD9E_8D57 * u64::from(*c2));
            (*c0, *c1, *c2, *c3) =
                ((b >> 32) as u32 ^ *c1 ^ k0, b as u32, (a >> 32) as u32 ^ *c3 ^ k1, a as u32);
        }
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    c
}

/// Words of counters `first..first + LANES`, in stream order, transformed to the distribution.
#[inline(always)]
fn tile<const DISTRIBUTION: u32>(first: u64, key: [u32; 2]) -> [[u32; 4]; LANES] {
    let mut counters: Wide =
        [[0; LANES], [0; LANES], [u32::from(DISTRIBUTION == Distribution::Normal as u32); LANES], [0; LANES]];
    let [low, high, ..] = &mut counters;
    for ((low, high), i) in low.iter_mut().zip(high).zip(0..) {
        [*low, *high] = halves(first.wrapping_add(i));
    }
    let mut words = rounds(counters, key);
    if DISTRIBUTION == Distribution::Uniform as u32 {
        for lanes in &mut words {
            *lanes = lanes.map(|w| ((w >> 8) as f32 * STEP).to_bits());
        }
    }
    if DISTRIBUTION == Distribution::Normal as u32 {
        let [a, b, c, d] = &mut words;
        box_muller(a, b);
        box_muller(c, d);
    }
    let mut out = [[0; 4]; LANES];
    let [a, b, c, d] = words;
    for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *out = [a, b, c, d];
    }
    out
}

/// Box-Muller: two words into two normal numbers, for every lane.
#[inline(always)]
fn box_muller(a: &mut [u32; LANES], b: &mut [u32; LANES]) {
    for (a, b) in a.iter_mut().zip(b) {
        let (r, (x, y)) = (radius(*a), direction(*b));
        (*a, *b) = ((r * x).to_bits(), (r * y).to_bits());
    }
}

/// 2⁻²⁴.
const STEP: f32 = 1.0 / (1 << 24) as f32;

/// √(-2 ln u) for u = the leading 24 bits of `word | 1`, over 2³².
#[inline(always)]
fn radius(word: u32) -> f32 {
    let lead = (word | 1).leading_zeros();
    let mantissa = ((word | 1) << lead) >> 8;
    // ln u = ln f - k ln 2 with f in [√½, √2): no cancellation, also where u is near 1.
    let low = u32::from(mantissa < 0xB5_04F3);
    let f = mantissa as f32 * (1.0 + low as f32) * STEP;
    // ln f = 2 artanh s; the truncation error is below 4e-9 of the sum.
    let s = (f - 1.0) / (f + 1.0);
    let z = s * s;
    let ln = s * (2.0 + z * (2.0 / 3.0 + z * (0.4 + z * (2.0 / 7.0 + z * (2.0 / 9.0)))));
    (2.0 * ((lead + low) as f32 * std::f32::consts::LN_2 - ln)).sqrt()
}

/// Cosine and sine of 2π × word / 2³²: quadrant from the leading two bits, angle within it from the next 23.
#[inline(always)]
fn direction(word: u32) -> (f32, f32) {
    let quadrant = word >> 30;
    // The midpoint of one of 2²³ steps, as an odd number in ±2²³: exact, and never zero.
    let step = (((word << 2) >> 9) * 2 + 1) as i32 - (1 << 23);
    let x = step as f32 * (std::f32::consts::FRAC_PI_4 / (1 << 23) as f32);
    let z = x * x;
    let sine = x + x * z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0 + z * (1.0 / 362_880.0))));
    let cosine = 1.0 + z * (-0.5 + z * (1.0 / 24.0 + z * (-1.0 / 720.0 + z * (1.0 / 40_320.0))));
    let odd = quadrant & 1 == 1;
    let (first, second) = if odd { (sine, cosine) } else { (cosine, sine) };
    // Quadrants 1 and 2 have a negative cosine, 2 and 3 a negative sine.
    let (left, below) = ((quadrant ^ (quadrant >> 1)) << 31, (quadrant >> 1) << 31);
    (f32::from_bits(first.to_bits() ^ left), f32::from_bits(second.to_bits() ^ below))
}

/// Elements `start..` of a stream.
fn fill(distribution: Distribution, out: &mut [u32], seed: u64, start: u64) {
    match distribution {
        Distribution::Bits => fill_simd::<{ Distribution::Bits as u32 }>(out, seed, start),
        Distribution::Uniform => fill_simd::<{ Distribution::Uniform as u32 }>(out, seed, start),
        Distribution::Normal => fill_simd::<{ Distribution::Normal as u32 }>(out, seed, start),
    }
}

/// SIMD dispatch at run time.
fn fill_simd<const DISTRIBUTION: u32>(out: &mut [u32], seed: u64, start: u64) {
    #[cfg(target_arch = "x86_64")]
    if Simd::detect() != Simd::SCALAR {
        #[allow(unsafe_code, reason = "AVX2 at run time")]
        // SAFETY: every detected level but the scalar one has AVX2 and LZCNT.
        return unsafe { fill_avx2::<DISTRIBUTION>(out, seed, start) };
    }
    fill_scalar::<DISTRIBUTION>(out, seed, start);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,lzcnt")]
fn fill_avx2<const DISTRIBUTION: u32>(out: &mut [u32], seed: u64, start: u64) {
    fill_scalar::<DISTRIBUTION>(out, seed, start);
}

#[inline(always)]
fn fill_scalar<const DISTRIBUTION: u32>(out: &mut [u32], seed: u64, start: u64) {
    let key = halves(seed);
    let skip = (start % 4) as usize;
    let mut counter = start / 4;
    let mut rest = out;
    if skip > 0 {
        let words = tile::<DISTRIBUTION>(counter, key);
        let head = rest.len().min(4 * LANES - skip);
        let (now, later) = rest.split_at_mut(head);
        now.iter_mut().zip(words.as_flattened().iter().skip(skip)).for_each(|(out, word)| *out = *word);
        (rest, counter) = (later, counter.wrapping_add(LANES as u64));
    }
    let (whole, tail) = rest.as_chunks_mut::<{ 4 * LANES }>();
    for out in whole {
        out.copy_from_slice(tile::<DISTRIBUTION>(counter, key).as_flattened());
        counter = counter.wrapping_add(LANES as u64);
    }
    if !tail.is_empty() {
        let words = tile::<DISTRIBUTION>(counter, key);
        tail.iter_mut().zip(words.as_flattened()).for_each(|(out, word)| *out = *word);
    }
}

fn kernel(variant: Variant) -> Arc<Kernel> {
    let wgsl = include_str!("../shader/random.wgsl")
        .replace("GROUP", &variant.group.to_string())
        .replace("ITEMS", &variant.items.to_string());
    Arc::new(Kernel {
        name: OP.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Write],
        cpu_reference: Arc::new(|call| {
            let refuse = |why: &str| CpuReferenceError { kernel: OP.into(), why: why.into() };
            let ([n, skip, first_low, first_high, key_low, key_high, distribution, ..], [out]) =
                (call.params, call.outputs.as_mut_slice())
            else {
                return Err(refuse("needs 8 parameters and 1 output"));
            };
            let whole = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
            let distribution = match distribution {
                0 => Distribution::Bits,
                1 => Distribution::Uniform,
                _ => Distribution::Normal,
            };
            let out: &mut [u32] = cast_slice_mut(OP, out).map_err(|e| refuse(&e.to_string()))?;
            let out = out.get_mut(..*n as usize).ok_or_else(|| refuse("the output is too short"))?;
            let start = whole(*first_low, *first_high).wrapping_mul(4).wrapping_add(u64::from(*skip));
            fill(distribution, out, whole(*key_low, *key_high), start);
            Ok(())
        }),
    })
}

/// Calibration example: `[elements]`.
pub(crate) fn example_uniform(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(uniform(sizes.first().copied().unwrap_or(1024), 1, 0)))
}

/// Calibration example: `[elements]`.
pub(crate) fn example_normal(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(normal(sizes.first().copied().unwrap_or(1024), 1, 0)))
}
