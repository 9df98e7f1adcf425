//! Reductions: one number of many. `sum`, `mean`, `norm` (Euclidean), `min`, `max`, `argmin`, `argmax` of all elements,
//! or of each row of a matrix with [`Reduce::rows`], all rows in the same dispatches.
//!
//! **Order.** A row is cut into blocks of 4096 elements; element `i` of a block goes to accumulator `i mod 32`; the 32
//! are added in halves (16, 8, 4, 2, 1); the sums of blocks are treated as a row again until one is left. That order is
//! part of the result, so that threads, parts and devices change nothing. Of `n` elements, `|error| ≤ 133 (levels) ε Σ|x|`
//! with ε = 2⁻²⁴ and one level per started factor of 4096.
//!
//! | | same bits everywhere | bound elsewhere |
//! |---|---|---|
//! | `min`, `max`, `argmin`, `argmax` | always: they compare integers made of the bits | - |
//! | `sum` | where the device adds as IEEE says and keeps the order | the error above |
//! | `mean` | the sum; its division may be off by 3 units in the last place | as the sum |
//! | `norm` | the squares and their sum; its root may be off by 5 units in the last place | as the sum |
//!
//! **Not finite.** A NaN makes every result NaN (`0x7fc00000`), `argmin` and `argmax` give the first one. Sums: `+inf`
//! and `-inf` together are NaN, one of them alone is the result; a partial sum beyond the largest float counts as an
//! infinity. They are found by their bits and travel beside the partial sums, because a shader may assume that there are
//! none. **Zeros.** `min` and `max` put −0 below +0; to `argmin` and `argmax` they are equal, and the first of equals
//! wins; a sum is never −0. **Denormals.** A device may take them for zero in sums: each counts at most 2⁻¹²⁶. Extremes
//! are exact. **Nothing.** The sum and the norm of nothing are 0; for all others it is an error.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{DType, Spec, Tensor},
    units::Bytes,
};
use rayon::prelude::*;

use crate::{
    Effort, Fused, Kind, Op, OpError, Target, Threads, Variant,
    op::{Items, stack},
    record::{groups, size, word},
    view::{exactly, exactly_mut, expect, numbers, numbers_mut, slice, tensor},
    work::elements,
};

pub(crate) mod extreme;
mod kernel;
pub(crate) mod sum;

/// Elements of a block. On a device, 32 invocations (or 8, four numbers each) share one.
const BLOCK: usize = 4096;
/// Accumulators of a block.
const LANES: usize = 32;
/// Elements that are worth a thread.
const PER_THREAD: usize = 1 << 16;

const VARIANTS: &[Variant] = &[
    Variant::new(64, 4, 128),
    Variant::new(256, 4, 128),
    Variant::new(64, 1, 128),
    Variant::new(256, 1, 128),
];

/// What is known of some elements: a sum and flags, or a key and an index.
type Pair = [u32; 2];

/// Which number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Sum.
    Sum,
    /// Sum by count.
    Mean,
    /// Root of the sum of squares. Squares beyond the largest float are infinite, as in a plain sum of squares.
    Norm,
    /// Least.
    Min,
    /// Greatest.
    Max,
    /// Index of the least.
    ArgMin,
    /// Index of the greatest.
    ArgMax,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Sum => "sum",
            What::Mean => "mean",
            What::Norm => "norm",
            What::Min => "min",
            What::Max => "max",
            What::ArgMin => "argmin",
            What::ArgMax => "argmax",
        }
    }

    fn adds(self) -> bool {
        matches!(self, What::Sum | What::Mean | What::Norm)
    }

    fn is_index(self) -> bool {
        matches!(self, What::ArgMin | What::ArgMax)
    }

    fn least(self) -> bool {
        matches!(self, What::Min | What::ArgMin)
    }

    /// What is known of a block that begins at index `start` of its row; for an index, only in which block it is.
    fn rough(self, x: &[f32], start: u32) -> Pair {
        match self {
            What::Sum | What::Mean => sum::block::<false>(x),
            What::Norm => sum::block::<true>(x),
            What::Min | What::Max => [extreme::value_key(x, self.least()), 0],
            What::ArgMin | What::ArgMax => [extreme::index_key(x, self.least()), start],
        }
    }

    /// What was rough made exact; `x` is the row.
    fn exact(self, [key, start]: Pair, x: &[f32]) -> Pair {
        if !self.is_index() {
            return [key, start];
        }
        let block = x.get(start as usize..).unwrap_or_default();
        let at = extreme::first(block, self.least(), key);
        [key, start.wrapping_add(u32::try_from(at).unwrap_or(0))]
    }

    /// What is known of at most [`BLOCK`] blocks together.
    fn merge(self, pairs: &[Pair]) -> Pair {
        if self.adds() { sum::merge(pairs) } else { extreme::merge(pairs) }
    }

    /// What is known of a row of which these are the blocks.
    fn tree(self, mut pairs: Vec<Pair>) -> Pair {
        while pairs.len() > 1 {
            pairs = pairs.chunks(BLOCK).map(|c| self.merge(c)).collect();
        }
        pairs.first().copied().unwrap_or_default()
    }

    /// The bits of the result for a row of `n`.
    fn finish(self, pair: Pair, n: usize) -> u32 {
        match self {
            What::Sum => sum::finish(pair, |v| v),
            What::Mean => sum::finish(pair, |v| v / n as f32),
            What::Norm => sum::finish(pair, f32::sqrt),
            What::Min | What::Max => extreme::value(pair, self.least()),
            What::ArgMin | What::ArgMax => pair[1],
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Reduce {
    data: Tensor,
    what: What,
    by_rows: bool,
    /// Only the blocks, each as a [`Pair`]: what a part of one row gives.
    unfinished: bool,
}

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident = $what:ident;)*) => {$(
        $(#[doc = $doc])*
        pub fn $name(data: &Tensor) -> Reduce {
            Reduce { data: data.clone(), what: What::$what, by_rows: false, unfinished: false }
        }
    )*};
}

reductions! {
    /// Sum of all elements; of nothing, 0.
    sum = Sum;
    /// Mean of all elements.
    mean = Mean;
    /// Root of the sum of squares of all elements.
    norm = Norm;
    /// Least of all elements.
    min = Min;
    /// Greatest of all elements.
    max = Max;
    /// Index of the least of all elements, counted along the rows; the first of equals.
    argmin = ArgMin;
    /// Index of the greatest of all elements; the first of equals.
    argmax = ArgMax;
}

impl Reduce {
    /// Of each row of a matrix instead: the result has one number per row.
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

    /// Dispatches until one number per row is left.
    fn levels(&self) -> u32 {
        let mut left = self.blocks();
        let mut levels = 1;
        while left > 1 && !self.unfinished {
            (left, levels) = (left.div_ceil(BLOCK), levels + 1);
        }
        levels
    }
}

impl Op for Reduce {
    fn kind(&self) -> Kind {
        if self.what.adds() { Kind::Sum } else { Kind::Extreme }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        let op = self.what.name();
        expect(op, "the data", &self.data, DType::F32)?;
        let shape = &self.data.spec().shape;
        if self.by_rows && shape.len() != 2 {
            let have = format!("{shape:?}");
            return Err(OpError::Value { op, what: "the shape", have, limit: "rows need two dimensions" });
        }
        let (rows, n) = self.shape();
        if n == 0 && rows > 0 && !matches!(self.what, What::Sum | What::Norm) {
            let have = format!("{shape:?}");
            return Err(OpError::Value { op, what: "the shape", have, limit: "nothing has none" });
        }
        word(op, elements(&self.data))?;
        let index = self.what.is_index() || self.unfinished;
        let dtype = if index { DType::U32 } else { DType::F32 };
        let shape = if self.unfinished { vec![self.blocks(), 2] } else { vec![rows] };
        Ok(vec![Spec { dtype, shape, tag: op }])
    }

    fn effort(&self) -> Effort {
        let n = elements(&self.data);
        let written = Bytes(4 * self.shape().0 as u64);
        let levels = self.levels();
        Effort { units: n, flops: n, read: size(&self.data), written, launches: levels, depth: levels }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let op = self.what.name();
        let [data] = exactly(op, "inputs", inputs)?;
        let [out] = exactly_mut(op, "outputs", outputs)?;
        let (data, out) = (numbers::<f32>(op, data)?, numbers_mut::<u32>(op, out)?);
        if self.unfinished {
            for (out, pair) in out.as_chunks_mut().0.iter_mut().zip(blocks(self.what, data, threads)) {
                *out = self.what.exact(pair, data);
            }
            return Ok(());
        }
        let (_, n) = self.shape();
        // An empty row has no chunk, but a result.
        if n == 0 {
            out.fill(self.what.finish([0, 0], 0));
            return Ok(());
        }
        let row = |x: &[f32], threads| {
            // Short rows are many: no list for one block.
            let one = x.len() <= BLOCK;
            let pair =
                if one { self.what.rough(x, 0) } else { self.what.tree(blocks(self.what, x, threads)) };
            self.what.finish(self.what.exact(pair, x), n)
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
        let op = self.what.name();
        let [data] = exactly(op, "inputs", inputs)?;
        let (rows, n) = self.shape();
        let offered = target.variant(self.kind(), VARIANTS);
        // Four at once need rows that begin at multiples of four; the order of additions is the same.
        let fours = n.is_multiple_of(4) && n * rows > 0;
        let width = if fours { offered.width } else { 1 };
        let mut level = kernel::Level { what: self.what, first: true, variant: Variant { width, ..offered } };
        let (mut from, mut left) = (*data, n);
        loop {
            let blocks = left.div_ceil(BLOCK).max(1);
            let last = blocks == 1 && !self.unfinished;
            let all = (rows as u64).saturating_mul(blocks as u64);
            let to = plan.slot(Bytes(all.saturating_mul(if last { 4 } else { 8 })), op);
            let params = level.params(op, [all, left as u64, blocks as u64, n as u64], last)?;
            let groups = groups(op, all.div_ceil(level.blocks_per_group()))?;
            plan.dispatch(&level.kernel(), &[from, to], &params, groups)?;
            if !level.first {
                plan.free(from)?;
            }
            if blocks == 1 || self.unfinished {
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
        let (op, len, (_, n)) = (self.what.name(), items.len(), self.shape());
        if self.by_rows {
            let data = slice(op, &self.data, items, n, vec![len, n])?;
            return Ok(Arc::new(Reduce { data, ..*self }));
        }
        let data = slice(op, &self.data, items, 1, vec![len])?;
        Ok(Arc::new(Reduce { data, unfinished: true, ..*self }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        if self.by_rows || self.unfinished {
            crate::op::concatenate(parts, outputs);
            return Ok(());
        }
        let op = self.what.name();
        let [out] = exactly_mut(op, "outputs", outputs)?;
        let mut pairs: Vec<Pair> = Vec::new();
        for bytes in parts.iter().filter_map(|p| p.first()) {
            // Parts begin at blocks and count their indices from their own beginning.
            let start = word(op, (pairs.len() * BLOCK) as u64)?;
            let here = numbers::<u32>(op, bytes)?.as_chunks::<2>().0.iter();
            pairs.extend(
                here.map(|[a, b]| if self.what.is_index() { [*a, b.wrapping_add(start)] } else { [*a, *b] }),
            );
        }
        let bits = self.what.finish(self.what.tree(pairs), self.shape().1);
        numbers_mut::<u32>(op, out)?.fill(bits);
        Ok(())
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let (rows, n) = self.shape();
        hash.write(self.what.name().as_bytes());
        hash.write_usize(rows);
        hash.write_usize(n);
        (!self.unfinished && self.data.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (op, (rows, n)) = (self.what.name(), self.shape());
        let mut all = Vec::with_capacity(group.len());
        for one in group {
            let Some(one) = one.as_any().downcast_ref::<Reduce>() else { return Ok(None) };
            if (one.what, one.shape(), one.unfinished) != (self.what, (rows, n), false) {
                return Ok(None);
            }
            all.push(&one.data);
        }
        let spec = Spec { dtype: DType::F32, shape: vec![rows * group.len(), n], tag: op };
        let Some(data) = stack(all, spec)? else { return Ok(None) };
        let fused = Reduce { data, what: self.what, by_rows: true, unfinished: false };
        Ok(Some(Fused::in_rows(Arc::new(fused), group.len(), rows * 4)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All blocks of one row; at least one.
fn blocks(what: What, x: &[f32], threads: Threads) -> Vec<Pair> {
    let one = |(i, x): (usize, &[f32])| what.rough(x, u32::try_from(i * BLOCK).unwrap_or(u32::MAX));
    if x.is_empty() {
        return vec![one((0, x))];
    }
    if threads.0 < 2 || x.len() < 2 * PER_THREAD {
        return x.chunks(BLOCK).enumerate().map(one).collect();
    }
    let share = x.len().div_ceil(BLOCK).div_ceil(threads.0);
    x.par_chunks(BLOCK).enumerate().with_min_len(share).map(one).collect()
}

/// For calibrations: `[elements]` as one row, `[elements, rows]` as rows of equal length.
fn example(what: What, sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let rows = sizes.get(1).copied().unwrap_or(1).max(1);
    let x: Vec<f32> = (0..n / rows * rows).map(|i| (i * 7919 % 4001) as f32 - 2000.0).collect();
    let data = tensor(&x, &[rows, n / rows], what.name())?;
    Ok(Arc::new(Reduce { data, what, by_rows: rows > 1, unfinished: false }))
}

/// An example of sums.
pub(crate) fn example_sum(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example(What::Sum, sizes)
}

/// An example of extremes.
pub(crate) fn example_extreme(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example(What::Max, sizes)
}
