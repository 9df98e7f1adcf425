//! Reductions: `sum`, `mean`, `norm` (Euclidean), `min`, `max`, `argmin`, `argmax` of all elements, or of each row of a matrix with
//! [`Reduce::rows`], all rows in the same dispatches.
//!
//! **Summation order.** Blocked pairwise summation: a row is split into blocks of 4096 elements; element `i` of a block goes to
//! accumulator `i mod 32`; the 32 accumulators are added pairwise (16, 8, 4, 2, 1); the sums of blocks are treated as a row again
//! until one is left. The order is part of the result, so that threads, partitions and devices change nothing. Of `n` elements,
//! `|error| ≤ 133 (levels) ε Σ|x|` with ε = 2⁻²⁴ and one level per started factor of 4096.
//!
//! | | bit-identical | bound otherwise |
//! |---|---|---|
//! | `min`, `max`, `argmin`, `argmax` | always: order-preserving integer keys | - |
//! | `sum` | where the device adds as IEEE and keeps the order | the error above |
//! | `mean` | the sum; its division may be off by 3 ulp | as the sum |
//! | `norm` | the squares and their sum; its root may be off by 5 ulp | as the sum |
//!
//! **Non-finite.** A NaN makes every result NaN (`0x7fc00000`), `argmin` and `argmax` give the first one. Sums: `+inf` and `-inf`
//! together are NaN, one of them alone is the result; an overflowing partial sum counts as an infinity. They are detected by their
//! bits and carried as flags beside the partial sums, because a shader may assume that there are none. **Zeros.** `min` and `max`
//! order −0 below +0; for `argmin` and `argmax` they are equal, and the first of equals wins; a sum is never −0. **Denormals.** A
//! device may flush them in sums: each counts at most 2⁻¹²⁶. Min and max are exact. **Empty.** The sum and the norm of nothing
//! are 0; the others are an error.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
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
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, expect_dtype, slice_rows, tensor},
};

mod kernel;
pub(crate) mod min_max;
pub(crate) mod sum;

/// Elements of a block. On a device, 32 invocations (or 8, with vec4 loads) share one.
const BLOCK: usize = 4096;
/// Accumulators of a block.
const LANES: usize = 32;
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 16;

const VARIANTS: &[Variant] = &[
    Variant::new(64, 4, 128),
    Variant::new(256, 4, 128),
    Variant::new(64, 1, 128),
    Variant::new(256, 1, 128),
];

/// Partial result: a sum and its flags, or a key and an index.
type Partial = [u32; 2];

/// Which reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Arithmetic mean.
    Mean,
    /// Euclidean norm. Overflowing squares are infinite, as in a plain sum of squares.
    Norm,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Index of the minimum.
    ArgMin,
    /// Index of the maximum.
    ArgMax,
}

impl Reduction {
    fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Mean => "mean",
            Reduction::Norm => "norm",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::ArgMin => "argmin",
            Reduction::ArgMax => "argmax",
        }
    }

    fn adds(self) -> bool {
        matches!(self, Reduction::Sum | Reduction::Mean | Reduction::Norm)
    }

    fn is_index(self) -> bool {
        matches!(self, Reduction::ArgMin | Reduction::ArgMax)
    }

    fn is_min(self) -> bool {
        matches!(self, Reduction::Min | Reduction::ArgMin)
    }

    /// Partial result of a block that begins at index `start` of its row; for an index, only which block it is in.
    fn reduce_block(self, x: &[f32], start: u32) -> Partial {
        match self {
            Reduction::Sum | Reduction::Mean => sum::block::<false>(x),
            Reduction::Norm => sum::block::<true>(x),
            Reduction::Min | Reduction::Max => [min_max::value_key(x, self.is_min()), 0],
            Reduction::ArgMin | Reduction::ArgMax => [min_max::index_key(x, self.is_min()), start],
        }
    }

    /// Resolves the exact index within the block; `x` is the row.
    fn resolve_index(self, [key, start]: Partial, x: &[f32]) -> Partial {
        if !self.is_index() {
            return [key, start];
        }
        let block = x.get(start as usize..).unwrap_or_default();
        let at = min_max::first(block, self.is_min(), key);
        [key, start.wrapping_add(u32::try_from(at).unwrap_or(0))]
    }

    /// Merges at most [`BLOCK`] partial results.
    fn merge(self, pairs: &[Partial]) -> Partial {
        if self.adds() { sum::merge(pairs) } else { min_max::merge(pairs) }
    }

    /// Reduces the partial results of a row as a tree.
    fn tree(self, mut pairs: Vec<Partial>) -> Partial {
        while pairs.len() > 1 {
            pairs = pairs.chunks(BLOCK).map(|c| self.merge(c)).collect();
        }
        pairs.first().copied().unwrap_or_default()
    }

    /// The bits of the final result of a row of `n`.
    fn finish(self, pair: Partial, n: usize) -> u32 {
        match self {
            Reduction::Sum => sum::finish(pair, |v| v),
            Reduction::Mean => sum::finish(pair, |v| v / n as f32),
            Reduction::Norm => sum::finish(pair, f32::sqrt),
            Reduction::Min | Reduction::Max => min_max::value(pair, self.is_min()),
            Reduction::ArgMin | Reduction::ArgMax => pair[1],
        }
    }
}

/// A reduction; see the module documentation.
#[derive(Debug, Clone)]
pub struct Reduce {
    data: Tensor,
    reduction: Reduction,
    by_rows: bool,
    /// Only the partial result of each block: what a partition of one row returns.
    partials_only: bool,
}

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident = $reduction:ident;)*) => {$(
        $(#[doc = $doc])*
        pub fn $name(data: &Tensor) -> Reduce {
            Reduce { data: data.clone(), reduction: Reduction::$reduction, by_rows: false, partials_only: false }
        }
    )*};
}

reductions! {
    /// Sum of all elements; of nothing, 0.
    sum = Sum;
    /// Mean of all elements.
    mean = Mean;
    /// Euclidean norm of all elements.
    norm = Norm;
    /// Minimum of all elements.
    min = Min;
    /// Maximum of all elements.
    max = Max;
    /// Index of the minimum, counted along the rows; the first of equals.
    argmin = ArgMin;
    /// Index of the maximum; the first of equals.
    argmax = ArgMax;
}

impl Reduce {
    /// Per row of a matrix: the result has one element per row.
    #[must_use]
    pub fn rows(self) -> Reduce {
        Reduce { by_rows: true, ..self }
    }

    /// Rows and elements per row.
    fn shape(&self) -> (usize, usize) {
        match self.data.spec().shape.as_slice() {
            [rows, n] if self.by_rows => (*rows, *n),
            _ => (1, usize::try_from(elements(&self.data)).unwrap_or(usize::MAX)),
        }
    }

    fn blocks(&self) -> usize {
        self.shape().1.div_ceil(BLOCK).max(1)
    }

    /// Number of dispatches until one element per row is left.
    fn levels(&self) -> u32 {
        let mut left = self.blocks();
        let mut levels = 1;
        while left > 1 && !self.partials_only {
            (left, levels) = (left.div_ceil(BLOCK), levels + 1);
        }
        levels
    }
}

impl Op for Reduce {
    fn kind(&self) -> OpKind {
        if self.reduction.adds() { OpKind::Sum } else { OpKind::MinMax }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let op = self.reduction.name();
        expect_dtype(op, "the data", &self.data, DType::F32)?;
        let shape = &self.data.spec().shape;
        if self.by_rows && shape.len() != 2 {
            let have = format!("{shape:?}");
            return Err(OpError::Value { op, what: "the shape", have, limit: "rows need two dimensions" });
        }
        let (rows, n) = self.shape();
        if n == 0 && rows > 0 && !matches!(self.reduction, Reduction::Sum | Reduction::Norm) {
            let have = format!("{shape:?}");
            return Err(OpError::Value { op, what: "the shape", have, limit: "an empty input has none" });
        }
        word(op, elements(&self.data))?;
        let index = self.reduction.is_index() || self.partials_only;
        let dtype = if index { DType::U32 } else { DType::F32 };
        let shape = if self.partials_only { vec![self.blocks(), 2] } else { vec![rows] };
        Ok(vec![TensorSpec { dtype, shape, tag: op }])
    }

    fn cost(&self) -> OpCost {
        let n = elements(&self.data);
        let written = Bytes(4 * self.shape().0 as u64);
        let levels = self.levels();
        OpCost { units: n, flops: n, read: size(&self.data), written, launches: levels, depth: levels }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let op = self.reduction.name();
        let [data] = exactly(op, "inputs", inputs)?;
        let [out] = exactly_mut(op, "outputs", outputs)?;
        let (data, out) = (cast_slice::<f32>(op, data)?, cast_slice_mut::<u32>(op, out)?);
        if self.partials_only {
            for (out, pair) in out.as_chunks_mut().0.iter_mut().zip(blocks(self.reduction, data, threads)) {
                *out = self.reduction.resolve_index(pair, data);
            }
            return Ok(());
        }
        let (_, n) = self.shape();
        // An empty row has no chunk, but a result.
        if n == 0 {
            out.fill(self.reduction.finish([0, 0], 0));
            return Ok(());
        }
        let row = |x: &[f32], threads| {
            // Fast path for short rows: a single block.
            let one = x.len() <= BLOCK;
            let pair = if one {
                self.reduction.reduce_block(x, 0)
            } else {
                self.reduction.tree(blocks(self.reduction, x, threads))
            };
            self.reduction.finish(self.reduction.resolve_index(pair, x), n)
        };
        if threads.0 < 2 || data.len() < 2 * PER_THREAD || out.len() < 2 * threads.0 {
            out.iter_mut().zip(data.chunks(n)).for_each(|(out, x)| *out = row(x, threads));
        } else {
            let share = out.len().div_ceil(threads.0);
            out.par_chunks_mut(share).zip(data.par_chunks(share * n)).for_each(|(out, data)| {
                out.iter_mut().zip(data.chunks(n)).for_each(|(out, x)| *out = row(x, Threads::ONE));
            });
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let op = self.reduction.name();
        let [data] = exactly(op, "inputs", inputs)?;
        let (rows, n) = self.shape();
        let offered = target.variant(self.kind(), VARIANTS);
        // vec4 loads need rows aligned to four; the order of additions is the same.
        let fours = n.is_multiple_of(4) && n * rows > 0;
        let width = if fours { offered.width } else { 1 };
        let mut level =
            kernel::Level { reduction: self.reduction, first: true, variant: Variant { width, ..offered } };
        let (mut from, mut left) = (*data, n);
        loop {
            let blocks = left.div_ceil(BLOCK).max(1);
            let last = blocks == 1 && !self.partials_only;
            let all = (rows as u64).saturating_mul(blocks as u64);
            let to = plan.slot(Bytes(all.saturating_mul(if last { 4 } else { 8 })), op);
            let params = level.params(op, [all, left as u64, blocks as u64, n as u64], last)?;
            let groups = groups(op, all.div_ceil(level.blocks_per_group()))?;
            plan.dispatch(&level.kernel(), &[from, to], &params, groups)?;
            if !level.first {
                plan.free(from)?;
            }
            if blocks == 1 || self.partials_only {
                return Ok(vec![to]);
            }
            level = kernel::Level { first: false, variant: Variant { width: 1, ..offered }, ..level };
            (from, left) = (to, blocks);
        }
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let (rows, n) = self.shape();
        match rows {
            1 if !self.by_rows => Some(Items { count: n, grain: BLOCK }),
            _ => Some(Items { count: rows, grain: 1 }),
        }
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (op, len, (_, n)) = (self.reduction.name(), items.len(), self.shape());
        if self.by_rows {
            let data = slice_rows(op, &self.data, items, n, vec![len, n])?;
            return Ok(Arc::new(Reduce { data, ..*self }));
        }
        let data = slice_rows(op, &self.data, items, 1, vec![len])?;
        Ok(Arc::new(Reduce { data, partials_only: true, ..*self }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        if self.by_rows || self.partials_only {
            crate::op::concatenate(parts, outputs);
            return Ok(());
        }
        let op = self.reduction.name();
        let [out] = exactly_mut(op, "outputs", outputs)?;
        let mut pairs: Vec<Partial> = Vec::new();
        for bytes in parts.iter().filter_map(|p| p.first()) {
            // Partitions begin at blocks and count indices from their own start.
            let start = word(op, (pairs.len() * BLOCK) as u64)?;
            let here = cast_slice::<u32>(op, bytes)?.as_chunks::<2>().0.iter();
            pairs.extend(here.map(|[a, b]| {
                if self.reduction.is_index() { [*a, b.wrapping_add(start)] } else { [*a, *b] }
            }));
        }
        let bits = self.reduction.finish(self.reduction.tree(pairs), self.shape().1);
        cast_slice_mut::<u32>(op, out)?.fill(bits);
        Ok(())
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let (rows, n) = self.shape();
        hash.write(self.reduction.name().as_bytes());
        hash.write_usize(rows);
        hash.write_usize(n);
        (!self.partials_only && self.data.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (op, (rows, n)) = (self.reduction.name(), self.shape());
        let mut all = Vec::with_capacity(group.len());
        for one in group {
            let Some(one) = one.as_any().downcast_ref::<Reduce>() else { return Ok(None) };
            if (one.reduction, one.shape(), one.partials_only) != (self.reduction, (rows, n), false) {
                return Ok(None);
            }
            all.push(&one.data);
        }
        let spec = TensorSpec { dtype: DType::F32, shape: vec![rows * group.len(), n], tag: op };
        let Some(data) = stack(all, spec)? else { return Ok(None) };
        let fused = Reduce { data, reduction: self.reduction, by_rows: true, partials_only: false };
        Ok(Some(Fused::in_rows(Arc::new(fused), group.len(), rows * 4)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Partial results of all blocks of one row; at least one.
fn blocks(reduction: Reduction, x: &[f32], threads: Threads) -> Vec<Partial> {
    let one =
        |(i, x): (usize, &[f32])| reduction.reduce_block(x, u32::try_from(i * BLOCK).unwrap_or(u32::MAX));
    if x.is_empty() {
        return vec![one((0, x))];
    }
    if threads.0 < 2 || x.len() < 2 * PER_THREAD {
        return x.chunks(BLOCK).enumerate().map(one).collect();
    }
    let share = x.len().div_ceil(BLOCK).div_ceil(threads.0);
    x.par_chunks(BLOCK).enumerate().with_min_len(share).map(one).collect()
}

/// Calibration example: `[elements]` as one row, `[elements, rows]` as rows of equal length.
fn example(reduction: Reduction, sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let rows = sizes.get(1).copied().unwrap_or(1).max(1);
    let x: Vec<f32> = (0..n / rows * rows).map(|i| (i * 7919 % 4001) as f32 - 2000.0).collect();
    let data = tensor(&x, &[rows, n / rows], reduction.name())?;
    Ok(Arc::new(Reduce { data, reduction, by_rows: rows > 1, partials_only: false }))
}

/// Calibration example of sums.
pub(crate) fn example_sum(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example(Reduction::Sum, sizes)
}

/// Calibration example of min/max.
pub(crate) fn example_min_max(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example(Reduction::Max, sizes)
}
