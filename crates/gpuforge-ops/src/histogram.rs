//! Histograms: how many elements lie in each of `bins` equal bins between `lo` and `hi`, as u32. All elements, or each row
//! of a matrix with [`Histogram::rows`].
//!
//! **Which bin.** Bin `i` holds `edge[i] ≤ x < edge[i+1]`, the last one also `x = hi`, as NumPy has it. Edges are
//! `lo + (hi − lo) · i / bins` in f64, raised to the next f32: that changes no comparison with an f32. A bin is guessed
//! by a product, which is at most one off, and then settled by comparing with both of its edges: as floats on the
//! processor, as integers in the same order on devices. Where a guess could be further off (ranges near the ends of
//! what floats can hold) it is searched for. So counts are the same everywhere, whatever a device makes of the product.
//!
//! **Not finite, outside.** Not counted; nor is NaN. −0 is 0. Denormals are compared exactly.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, Call, Kernel, TwinError, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Spec, Tensor},
    units::Bytes,
};
use rayon::prelude::*;

use crate::{
    Effort, Fused, Kind, Op, OpError, Target, Threads, Variant,
    op::{Items, stack},
    record::{groups, size, word},
    reduce::extreme,
    view::{exactly, exactly_mut, expect, numbers, numbers_mut, slice, tensor},
    work::elements,
};

const OP: &str = "histogram";
const VARIANTS: &[Variant] = &[Variant::new(256, 1, 64), Variant::new(64, 1, 64)];
/// The most bins.
pub const MOST_BINS: usize = 1 << 16;
/// Elements that are worth a thread.
const PER_THREAD: usize = 1 << 16;
/// Elements of a chunk on a device, unless that makes too many chunks or their counts too large.
const CHUNK: u64 = 1 << 14;
const MOST_CHUNKS: u64 = 1 << 12;
const MOST_COUNTS: u64 = 1 << 22;
/// Elements whose bins the processor finds before it counts them.
const STEP: usize = 32;
/// Floats around this are whole numbers, which their low 22 bits count from here.
const WHOLE: f32 = 12_582_912.0;
/// Bins that are few enough for several tables in the nearest cache.
const SMALL: usize = 2048;

/// See the module's documentation.
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
    /// Of each row of a matrix instead: the result is `[rows, bins]`.
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
        let most = MOST_CHUNKS.min(MOST_COUNTS / (self.bins as u64).max(1)).max(1);
        (self.shape().1 as u64).div_ceil(CHUNK).clamp(1, most)
    }
}

impl Op for Histogram {
    fn kind(&self) -> Kind {
        Kind::Histogram
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        expect(OP, "the data", &self.data, DType::F32)?;
        let value = |what, have, limit| Err(OpError::Value { op: OP, what, have, limit });
        let (bins, lo, hi, shape) = (self.bins, self.lo, self.hi, &self.data.spec().shape);
        if !(1..=MOST_BINS).contains(&bins) {
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
        Ok(vec![Spec { dtype: DType::U32, shape, tag: OP }])
    }

    fn effort(&self) -> Effort {
        let (n, (rows, _)) = (elements(&self.data), self.shape());
        let written = Bytes(4 * (rows as u64).saturating_mul(self.bins as u64));
        let passes = if self.chunks() == 1 { 1 } else { 2 };
        Effort { units: n, flops: n, read: size(&self.data), written, launches: passes, depth: passes }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (data, out) = (numbers::<f32>(OP, data)?, numbers_mut::<u32>(OP, out)?);
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
        let keys: Vec<u32> = bins.edges.iter().map(|e| extreme::key(e.to_bits(), false)).collect();
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
        let group = target.variant(Kind::Histogram, VARIANTS).group;
        // Group memory of 16 KiB is what every device has.
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
        Ok(Arc::new(Histogram { data: slice(OP, &self.data, items, row, shape)?, ..*self }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        if self.by_rows {
            crate::op::concatenate(parts, outputs);
            return Ok(());
        }
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let out = numbers_mut::<u32>(OP, out)?;
        out.fill(0);
        for bytes in parts.iter().filter_map(|p| p.first()) {
            add(out, numbers(OP, bytes)?);
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
        let spec = Spec { dtype: DType::F32, shape: vec![rows * group.len(), n], tag: OP };
        let Some(data) = stack(all, spec)? else { return Ok(None) };
        let fused = Histogram { data, by_rows: true, ..*self };
        Ok(Some(Fused::in_rows(Arc::new(fused), group.len(), rows * self.bins * 4)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Where the bins are.
struct Bins {
    /// Lower edges, and the first number above the last bin.
    edges: Vec<f32>,
    /// Both edges of each bin.
    pairs: Vec<[f32; 2]>,
    /// Bins per unit; `None` when a guess by it could be more than one bin off.
    scale: Option<f32>,
}

impl Bins {
    fn new(bins: usize, lo: f32, hi: f32) -> Bins {
        let (from, width) = (f64::from(lo), f64::from(hi) - f64::from(lo));
        let edge = |i: usize| match i {
            0 => lo,
            i if i == bins => hi.next_up(),
            i => up(from + width * (i as f64 / bins as f64)),
        };
        let edges = (0..=bins).map(edge).collect();
        Bins::of(edges, scale(bins, width))
    }

    fn of(edges: Vec<f32>, scale: Option<f32>) -> Bins {
        let pairs = edges.array_windows().copied().collect();
        Bins { edges, pairs, scale }
    }

    /// Adds to counts, with threads if that is worth it.
    fn count_with(&self, x: &[f32], counts: &mut [u32], threads: Threads) {
        // Each thread has counts of its own: they must not cost more than they save.
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
        // The first counts what has no bin. Few bins have four tables: equal neighbours need not wait for each other.
        let stride = self.pairs.len() + 2;
        let tables = if stride <= SMALL { 4 } else { 1 };
        let mut table = vec![0u32; tables * stride];
        let bump = |table: &mut [u32], place: u32| {
            if let Some(count) = table.get_mut(place as usize) {
                *count += 1;
            }
        };
        let (chunks, rest) = x.as_chunks::<STEP>();
        rest.iter().for_each(|x| bump(&mut table, self.place(*x)));
        let mut places = [0u32; STEP];
        for x in chunks {
            match self.scale {
                Some(scale) => self.guess(x, scale, &mut places),
                None => places.iter_mut().zip(x).for_each(|(place, x)| *place = self.place(*x)),
            }
            let (a, more) = table.split_at_mut(stride);
            let (b, more) = more.split_at_mut(stride.min(more.len()));
            let (c, d) = more.split_at_mut(stride.min(more.len()));
            if d.is_empty() {
                places.iter().for_each(|place| bump(a, *place));
                continue;
            }
            for [i, j, k, l] in places.as_chunks().0 {
                bump(a, *i);
                bump(b, *j);
                bump(c, *k);
                bump(d, *l);
            }
        }
        table.chunks_exact(stride).for_each(|table| add(counts, table.get(1..).unwrap_or_default()));
    }

    /// One more than the bin; 0 for NaN and what is below, one more than the last for what is above.
    fn place(&self, x: f32) -> u32 {
        self.edges.partition_point(|e| *e <= x) as u32
    }

    /// [`Bins::place`] by a product, which is right unless it is nearly whole; what is outside is 0.
    #[inline(always)]
    fn guess(&self, x: &[f32; STEP], scale: f32, places: &mut [u32; STEP]) {
        let (Some([lo, _]), Some([_, end])) = (self.pairs.first(), self.pairs.last()) else { return };
        let (lo, end, near) = (*lo, *end, self.pairs.len() as f32 / (1 << 20) as f32);
        let mut doubts = [0u32; STEP];
        for ((place, doubt), x) in places.iter_mut().zip(&mut doubts).zip(x) {
            let at = (*x - lo) * scale;
            // Rounded to a whole number, found in the low bits: a conversion would not be vectorised.
            let raised = (at - 0.5) + WHOLE;
            let part = at - (raised - WHOLE);
            let inside = u32::from(*x >= lo) & u32::from(*x < end);
            *doubt = inside & (u32::from(part < near) | u32::from(part > 1.0 - near));
            *place = ((raised.to_bits() & 0x3f_ffff) + 1) & inside.wrapping_neg();
        }
        if doubts.iter().fold(0, |all, doubt| all | doubt) != 0 {
            self.settle(x, places);
        }
    }

    /// Compares with both edges of the bins that were guessed.
    #[inline(never)]
    fn settle(&self, x: &[f32; STEP], places: &mut [u32; STEP]) {
        for (place, x) in places.iter_mut().zip(x).filter(|(place, _)| **place > 0) {
            let at = (*place).min(self.pairs.len() as u32) - 1;
            let [low, high] = self.pairs.get(at as usize).copied().unwrap_or_default();
            *place = at + u32::from(*x >= high) + u32::from(*x >= low);
        }
    }
}

/// The least f32 that is not below.
fn up(x: f64) -> f32 {
    let near = x as f32;
    // Adding zero takes the sign from -0.
    (if f64::from(near) < x { near.next_up() } else { near }) + 0.0
}

/// Bins per unit, where `(x - lo) * scale` in f32 is at most one bin off: a product of 65 536 has an error of 2^-6, unless
/// something in it is too large or too small.
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
        twin: Arc::new(if entry == "count" { twin_count } else { twin_add }),
    })
}

fn refused() -> TwinError {
    TwinError { kernel: OP.into(), why: "needs 8 parameters, 2 inputs, 1 output".into() }
}

fn twin_count(call: &mut Call<'_>) -> Result<(), TwinError> {
    let ([rows, n, chunks, chunk, _, _, scale, search, ..], [data, edges], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refused());
    };
    let edges = words(edges).map(|k| f32::from_bits(extreme::value([k, 0], false))).collect();
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

fn twin_add(call: &mut Call<'_>) -> Result<(), TwinError> {
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

/// For calibrations: `[elements, bins]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let bins = sizes.get(1).copied().unwrap_or(256).clamp(1, MOST_BINS);
    let x: Vec<f32> = (0..n).map(|i| (i * 7919 % 40_009) as f32 / 40_009.0).collect();
    Ok(Arc::new(histogram(&tensor(&x, &[n], OP)?, bins, 0.0, 1.0)))
}
