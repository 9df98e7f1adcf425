//! Histogram: counts of elements in `bins` equal bins between `lo` and `hi`, as u32. Of all elements, or of each row of a matrix
//! with [`Histogram::rows`].
//!
//! **Bin edges.** Bin `i` holds `edge[i] ≤ x < edge[i+1]`, the last one also `x = hi`, as in NumPy. Edges are
//! `lo + (hi − lo) · i / bins` in f64, rounded up to f32: that changes no comparison with an f32. The bin is estimated by a
//! multiplication, which is at most one off, and then corrected by comparing with both edges: as floats on the CPU, as
//! order-preserving integers on devices. Where the estimate could be further off (ranges near the limits of f32) a binary search
//! is used. So counts are the same on every backend.
//!
//! **Non-finite, out of range.** Not counted; nor is NaN. −0 is 0. Denormals are compared exactly.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};
use rayon::prelude::*;

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    cost::elements,
    op::{Items, stack},
    record::{groups, size, word},
    reduce::min_max,
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, expect_dtype, slice_rows, tensor},
};

const OP: &str = "histogram";
const VARIANTS: &[Variant] = &[Variant::new(256, 1, 64), Variant::new(64, 1, 64)];
/// Largest number of bins.
pub const MAX_BINS: usize = 1 << 16;
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 16;
/// Elements per device chunk, unless that makes too many chunks or partial histograms.
const CHUNK: u64 = 1 << 14;
const MAX_CHUNKS: u64 = 1 << 12;
const MAX_COUNTS: u64 = 1 << 22;
/// Elements whose bins are computed (vectorised) before they are counted.
const STEP: usize = 32;
/// Magic number for float-to-int conversion: adding it rounds, the low 22 bits hold the integer.
const WHOLE: f32 = 12_582_912.0;
/// Most bins for which several private tables fit into L1.
const SMALL: usize = 2048;

/// The histogram operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Histogram {
    data: Tensor,
    bins: usize,
    lo: f32,
    hi: f32,
    by_rows: bool,
}

/// Counts of all elements in `bins` equal bins from `lo` to `hi`.
pub fn histogram(data: &Tensor, bins: usize, lo: f32, hi: f32) -> Histogram {
    Histogram { data: data.clone(), bins, lo, hi, by_rows: false }
}

impl Histogram {
    /// Per row of a matrix: the result is `[rows, bins]`.
    #[must_use]
    pub fn rows(self) -> Histogram {
        Histogram { by_rows: true, ..self }
    }

    /// Rows and elements per row.
    fn shape(&self) -> (usize, usize) {
        match self.data.spec().shape.as_slice() {
            [rows, n] if self.by_rows => (*rows, *n),
            _ => (1, usize::try_from(elements(&self.data)).unwrap_or(usize::MAX)),
        }
    }

    /// Chunks of a row on a device.
    fn chunks(&self) -> u64 {
        let most = MAX_CHUNKS.min(MAX_COUNTS / (self.bins as u64).max(1)).max(1);
        (self.shape().1 as u64).div_ceil(CHUNK).clamp(1, most)
    }
}

impl Op for Histogram {
    fn kind(&self) -> OpKind {
        OpKind::Histogram
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        expect_dtype(OP, "the data", &self.data, DType::F32)?;
        let value = |what, have, limit| Err(OpError::Value { op: OP, what, have, limit });
        let (bins, lo, hi, shape) = (self.bins, self.lo, self.hi, &self.data.spec().shape);
        if !(1..=MAX_BINS).contains(&bins) {
            return value("the number of bins", bins.to_string(), "it must lie between 1 and 65536");
        }
        if !(lo.is_finite() && hi.is_finite() && lo < hi) {
            return value("the range", format!("{lo} to {hi}"), "it must be finite and ascend");
        }
        if self.by_rows && shape.len() != 2 {
            return value("the shape", format!("{shape:?}"), "rows need two dimensions");
        }
        word(OP, elements(&self.data))?;
        let (rows, _) = self.shape();
        word(OP, (rows as u64).saturating_mul(bins as u64))?;
        let shape = if self.by_rows { vec![rows, bins] } else { vec![bins] };
        Ok(vec![TensorSpec { dtype: DType::U32, shape, tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let (n, (rows, _)) = (elements(&self.data), self.shape());
        let written = Bytes(4 * (rows as u64).saturating_mul(self.bins as u64));
        let passes = if self.chunks() == 1 { 1 } else { 2 };
        OpCost { units: n, flops: n, read: size(&self.data), written, launches: passes, depth: passes }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (data, out) = (cast_slice::<f32>(OP, data)?, cast_slice_mut::<u32>(OP, out)?);
        let bins = Bins::new(self.bins, self.lo, self.hi);
        let (rows, n) = self.shape();
        let of_rows = |data: &[f32], out: &mut [u32], threads| {
            for (i, out) in out.chunks_mut(self.bins).enumerate() {
                out.fill(0);
                bins.count_with(data.get(i * n..(i + 1) * n).unwrap_or_default(), out, threads);
            }
        };
        if threads.0 < 2 || data.len() < 2 * PER_THREAD || rows < 2 * threads.0 {
            of_rows(data, out, threads);
        } else {
            let share = rows.div_ceil(threads.0);
            let parts = out.par_chunks_mut(share * self.bins).zip(data.par_chunks(share * n));
            parts.for_each(|(out, data)| of_rows(data, out, Threads::ONE));
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let bins = Bins::new(self.bins, self.lo, self.hi);
        let keys: Vec<u32> = bins.edges.iter().map(|e| min_max::key(e.to_bits(), false)).collect();
        let edges = plan.upload(bytemuck::cast_slice::<u32, u8>(&keys), "histogram edges")?;
        let ((rows, n), chunks) = (self.shape(), self.chunks());
        let scale = bins.scale.unwrap_or(0.0).to_bits();
        let params = [
            word(OP, rows as u64)?,
            word(OP, n as u64)?,
            word(OP, chunks)?,
            word(OP, (n as u64).div_ceil(chunks))?,
            word(OP, self.bins as u64)?,
            self.lo.to_bits(),
            scale,
            u32::from(bins.scale.is_none()),
        ];
        let group = target.variant(OpKind::Histogram, VARIANTS).group;
        // Every device has 16 KiB of workgroup memory.
        let local = if self.bins <= 1024 { 1024 } else { 4096 };
        let all = (rows as u64).saturating_mul(chunks);
        let counts = plan.slot(Bytes(4 * all.saturating_mul(self.bins as u64)), OP);
        let [x, y, _] = groups(OP, all)?;
        let z = word(OP, (self.bins as u64).div_ceil(local))?;
        plan.dispatch(&kernel(group, local, "count"), &[*data, edges, counts], &params, [x, y, z])?;
        if chunks == 1 {
            return Ok(vec![counts]);
        }
        let results = (rows as u64).saturating_mul(self.bins as u64);
        let out = plan.slot(Bytes(4 * results), OP);
        let many = groups(OP, results.div_ceil(u64::from(group)))?;
        plan.dispatch(&kernel(group, local, "add"), &[counts, edges, out], &params, many)?;
        plan.free(counts)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let (rows, n) = self.shape();
        Some(Items { count: if self.by_rows { rows } else { n }, grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (_, n) = self.shape();
        let (row, shape) = if self.by_rows { (n, vec![items.len(), n]) } else { (1, vec![items.len()]) };
        Ok(Arc::new(Histogram { data: slice_rows(OP, &self.data, items, row, shape)?, ..*self }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        if self.by_rows {
            crate::op::concatenate(parts, outputs);
            return Ok(());
        }
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let out = cast_slice_mut::<u32>(OP, out)?;
        out.fill(0);
        for bytes in parts.iter().filter_map(|p| p.first()) {
            add(out, cast_slice(OP, bytes)?);
        }
        Ok(())
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let (rows, n) = self.shape();
        [self.bins, rows, n].into_iter().for_each(|v| hash.write_usize(v));
        [self.lo, self.hi].into_iter().for_each(|v| hash.write_u32(v.to_bits()));
        self.data.on_host().then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (rows, n) = self.shape();
        let same =
            |o: &Histogram| (o.bins, o.lo, o.hi, o.shape()) == (self.bins, self.lo, self.hi, (rows, n));
        let mut all = Vec::with_capacity(group.len());
        for one in group {
            let one = one.as_any().downcast_ref::<Histogram>().filter(|o| same(o));
            let Some(one) = one else { return Ok(None) };
            all.push(&one.data);
        }
        let spec = TensorSpec { dtype: DType::F32, shape: vec![rows * group.len(), n], tag: OP };
        let Some(data) = stack(all, spec)? else { return Ok(None) };
        let fused = Histogram { data, by_rows: true, ..*self };
        Ok(Some(Fused::in_rows(Arc::new(fused), group.len(), rows * self.bins * 4)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Bin edges.
struct Bins {
    /// Lower edges, and the first number above the last bin.
    edges: Vec<f32>,
    /// Both edges of each bin.
    pairs: Vec<[f32; 2]>,
    /// Bins per unit; `None` when the estimate could be more than one bin off.
    scale: Option<f32>,
}

impl Bins {
    fn new(bins: usize, lo: f32, hi: f32) -> Bins {
        let (from, width) = (f64::from(lo), f64::from(hi) - f64::from(lo));
        let edge = |i: usize| match i {
            0 => lo,
            i if i == bins => hi.next_up(),
            i => round_up(from + width * (i as f64 / bins as f64)),
        };
        let edges = (0..=bins).map(edge).collect();
        Bins::of(edges, scale(bins, width))
    }

    fn of(edges: Vec<f32>, scale: Option<f32>) -> Bins {
        let pairs = edges.array_windows().copied().collect();
        Bins { edges, pairs, scale }
    }

    /// Adds to counts, in parallel if that pays.
    fn count_with(&self, x: &[f32], counts: &mut [u32], threads: Threads) {
        // Each thread has a private histogram, which must not cost more than it saves.
        if threads.0 < 2 || x.len() < 2 * PER_THREAD.max(counts.len()) {
            return self.count(x, counts);
        }
        let count = |x: &[f32]| {
            let mut counts = vec![0; self.pairs.len()];
            self.count(x, &mut counts);
            counts
        };
        let parts: Vec<Vec<u32>> = x.par_chunks(x.len().div_ceil(threads.0)).map(count).collect();
        parts.iter().for_each(|part| add(counts, part));
    }

    fn count(&self, x: &[f32], counts: &mut [u32]) {
        // Entry 0 counts elements without a bin. Few bins get four private tables: equal neighbours then have no loop-carried
        // dependency through one counter.
        let stride = self.pairs.len() + 2;
        let tables = if stride <= SMALL { 4 } else { 1 };
        let mut table = vec![0u32; tables * stride];
        let bump = |table: &mut [u32], bin: u32| {
            if let Some(count) = table.get_mut(bin as usize) {
                *count += 1;
            }
        };
        let (chunks, rest) = x.as_chunks::<STEP>();
        rest.iter().for_each(|x| bump(&mut table, self.search(*x)));
        let mut bin_of = [0u32; STEP];
        for x in chunks {
            match self.scale {
                Some(scale) => self.estimate(x, scale, &mut bin_of),
                None => bin_of.iter_mut().zip(x).for_each(|(bin, x)| *bin = self.search(*x)),
            }
            let (a, more) = table.split_at_mut(stride);
            let (b, more) = more.split_at_mut(stride.min(more.len()));
            let (c, d) = more.split_at_mut(stride.min(more.len()));
            if d.is_empty() {
                bin_of.iter().for_each(|bin| bump(a, *bin));
                continue;
            }
            for [i, j, k, l] in bin_of.as_chunks().0 {
                bump(a, *i);
                bump(b, *j);
                bump(c, *k);
                bump(d, *l);
            }
        }
        table.chunks_exact(stride).for_each(|table| add(counts, table.get(1..).unwrap_or_default()));
    }

    /// Bin number plus one; 0 for NaN and values below, bins + 1 for values above. By binary search.
    fn search(&self, x: f32) -> u32 {
        self.edges.partition_point(|e| *e <= x) as u32
    }

    /// [`Bins::search`] by multiplication, exact unless the product is nearly an integer; 0 outside. Vectorised.
    #[inline(always)]
    fn estimate(&self, x: &[f32; STEP], scale: f32, bin_of: &mut [u32; STEP]) {
        let (Some([lo, _]), Some([_, end])) = (self.pairs.first(), self.pairs.last()) else { return };
        let (lo, end, near) = (*lo, *end, self.pairs.len() as f32 / (1 << 20) as f32);
        let mut doubts = [0u32; STEP];
        for ((bin, doubt), x) in bin_of.iter_mut().zip(&mut doubts).zip(x) {
            let at = (*x - lo) * scale;
            // Rounds to an integer in the low bits: a float-to-int conversion would not be vectorised.
            let raised = (at - 0.5) + WHOLE;
            let part = at - (raised - WHOLE);
            let inside = u32::from(*x >= lo) & u32::from(*x < end);
            *doubt = inside & (u32::from(part < near) | u32::from(part > 1.0 - near));
            *bin = ((raised.to_bits() & 0x3f_ffff) + 1) & inside.wrapping_neg();
        }
        if doubts.iter().fold(0, |all, doubt| all | doubt) != 0 {
            self.correct(x, bin_of);
        }
    }

    /// Corrects the estimated bins by comparing with both edges.
    #[inline(never)]
    fn correct(&self, x: &[f32; STEP], bin_of: &mut [u32; STEP]) {
        for (bin, x) in bin_of.iter_mut().zip(x).filter(|(bin, _)| **bin > 0) {
            let at = (*bin).min(self.pairs.len() as u32) - 1;
            let [low, high] = self.pairs.get(at as usize).copied().unwrap_or_default();
            *bin = at + u32::from(*x >= high) + u32::from(*x >= low);
        }
    }
}

/// Rounds up to f32.
fn round_up(x: f64) -> f32 {
    let near = x as f32;
    // Adding zero turns -0 into +0.
    (if f64::from(near) < x { near.next_up() } else { near }) + 0.0
}

/// Bins per unit, if `(x - lo) * scale` in f32 is at most one bin off: the error of a product of 65 536 is 2^-6, unless a factor
/// overflows or underflows.
fn scale(bins: usize, width: f64) -> Option<f32> {
    let scale = bins as f64 / width;
    ((1e-30..1e37).contains(&width) && (1e-30..1e37).contains(&scale)).then_some(scale as f32)
}

fn add(to: &mut [u32], more: &[u32]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to = to.wrapping_add(*more));
}

fn kernel(group: u32, local: u64, entry: &'static str) -> Arc<Kernel> {
    let wgsl = include_str!("../shader/histogram.wgsl")
        .replace("GROUP", &group.to_string())
        .replace("LOCAL", &local.to_string());
    Arc::new(Kernel {
        name: OP.into(),
        wgsl: wgsl.into(),
        entry,
        bindings: vec![Access::Read, Access::Read, Access::Write],
        cpu_reference: Arc::new(if entry == "count" { twin_count } else { twin_add }),
    })
}

fn refused() -> CpuReferenceError {
    CpuReferenceError { kernel: OP.into(), why: "needs 8 parameters, 2 inputs, 1 output".into() }
}

fn twin_count(call: &mut KernelCall<'_>) -> Result<(), CpuReferenceError> {
    let ([rows, n, chunks, chunk, _, _, scale, search, ..], [data, edges], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refused());
    };
    let edges = words(edges).map(|k| f32::from_bits(min_max::value([k, 0], false))).collect();
    let bins = Bins::of(edges, (*search == 0).then_some(f32::from_bits(*scale)));
    let data: Vec<f32> = words(data).map(f32::from_bits).collect();
    let (n, chunk) = (*n as usize, *chunk as usize);
    let counted = (0..*rows as usize * *chunks as usize).flat_map(|i| {
        let (row, start) = (i / *chunks as usize, i % *chunks as usize * chunk);
        let range = row * n + start.min(n)..row * n + (start + chunk).min(n);
        let mut counts = vec![0; bins.pairs.len()];
        bins.count(data.get(range).unwrap_or_default(), &mut counts);
        counts
    });
    put_words(out, counted);
    Ok(())
}

fn twin_add(call: &mut KernelCall<'_>) -> Result<(), CpuReferenceError> {
    let ([rows, _, chunks, _, bins, ..], [counts, _], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refused());
    };
    let counts: Vec<u32> = words(counts).collect();
    let bins = (*bins).max(1) as usize;
    let row = |of: &[u32]| {
        let mut sum = vec![0; bins];
        of.chunks_exact(bins).for_each(|more| add(&mut sum, more));
        sum
    };
    put_words(out, counts.chunks(bins * *chunks as usize).take(*rows as usize).flat_map(row));
    Ok(())
}

/// Calibration example: `[elements, bins]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let bins = sizes.get(1).copied().unwrap_or(256).clamp(1, MAX_BINS);
    let x: Vec<f32> = (0..n).map(|i| (i * 7919 % 40_009) as f32 / 40_009.0).collect();
    Ok(Arc::new(histogram(&tensor(&x, &[n], OP)?, bins, 0.0, 1.0)))
}
