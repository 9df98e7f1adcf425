//! Top-k and bottom-k: the k largest or smallest values and their indices, best first; bit-identical on every backend.
//!
//! Along the last dimension: a matrix row by row. The order is that of [`crate::sort`]: NaN comes last in both directions and is
//! only taken when there are not enough numbers; of equal values, the lower index comes first; +0 is greater than -0.

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
    op::{Items, concatenate},
    record::size,
    sort::{self, device::RowShape, key::SortOrder, radix, shape_of},
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, slice_rows, tensor},
};

mod device;

const OP: &str = "top-k";
const VARIANTS: &[Variant] = &[Variant::new(256, 1, 16), Variant::new(64, 1, 16)];
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 16;

/// The top-k operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct TopK {
    data: Tensor,
    k: usize,
    smallest: bool,
    /// Index of the first element: not zero in a partition of a row.
    first: u32,
}

/// The `k` largest values along the last dimension, largest first: values and indices (`u32`).
pub fn top_k(data: &Tensor, k: usize) -> TopK {
    TopK { data: data.clone(), k, smallest: false, first: 0 }
}

/// The `k` smallest values along the last dimension, smallest first: values and indices (`u32`).
pub fn bottom_k(data: &Tensor, k: usize) -> TopK {
    TopK { data: data.clone(), k, smallest: true, first: 0 }
}

impl TopK {
    fn order(&self) -> Result<SortOrder, OpError> {
        let have = self.data.spec().dtype;
        let wrong = OpError::DType { op: OP, what: "the data", want: DType::F32, have };
        SortOrder::of(have, !self.smallest).ok_or(wrong)
    }

    /// Top-k of one row.
    fn row(&self, order: SortOrder, data: &[u32], (out, indices): (&mut [u32], &mut [u32]), threads: usize) {
        let blocks = (data.len() / PER_THREAD).clamp(1, threads.max(1));
        let best = if blocks == 1 {
            first(order, data, self.first.into(), self.k)
        } else {
            let share = data.len().div_ceil(blocks);
            let some = |(i, block): (usize, &[u32])| {
                first(order, block, u64::from(self.first) + (i * share) as u64, self.k)
            };
            let mut all: Vec<u64> = data.par_chunks(share).enumerate().flat_map_iter(some).collect();
            all.sort_unstable();
            all
        };
        put(order, &best, out, indices);
    }
}

/// Splits pairs into values and indices.
fn put(order: SortOrder, best: &[u64], out: &mut [u32], indices: &mut [u32]) {
    for ((out, index), pair) in out.iter_mut().zip(indices).zip(best) {
        (*out, *index) = (order.bits((pair >> 32) as u32), *pair as u32);
    }
}

/// The first k pairs of key and index, in order; all, where there are fewer.
fn first(order: SortOrder, data: &[u32], index: u64, k: usize) -> Vec<u64> {
    if k == 0 {
        return Vec::new();
    }
    if data.len() / 8 < k {
        let mut all: Vec<u64> = sort::pairs(order, data, index);
        radix::radix(&mut all, 1);
        all.truncate(k);
        return all;
    }
    // A key that is not below the current k-th cannot be among the first k: an equal one has a higher index. In unordered data few
    // pass this filter, and the rest costs one comparison.
    let capacity = k + k.max(256);
    let mut held: Vec<u64> = Vec::with_capacity(capacity + 64);
    let mut limit = 1u64 << 32;
    let select = |held: &mut Vec<u64>| {
        let last = if held.len() > k { *held.select_nth_unstable(k - 1).1 >> 32 } else { 1 << 32 };
        held.truncate(k);
        last
    };
    for (line, start) in data.chunks(64).zip((index..).step_by(64)) {
        let min = line.iter().fold(u32::MAX, |min, bits| min.min(order.key(*bits)));
        if u64::from(min) >= limit {
            continue;
        }
        let pairs = line.iter().zip(start..).map(|(bits, i)| u64::from(order.key(*bits)) << 32 | i);
        held.extend(pairs.filter(|pair| pair >> 32 < limit));
        if held.len() >= capacity {
            limit = select(&mut held);
        }
    }
    select(&mut held);
    held.sort_unstable();
    held
}

impl Op for TopK {
    fn kind(&self) -> OpKind {
        OpKind::TopK
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let (_, columns) = shape_of(OP, &self.data)?;
        if self.k > columns {
            let have = format!("{} of {columns}", self.k);
            let limit = "there must be as many numbers along the last dimension";
            return Err(OpError::Value { op: OP, what: "k", have, limit });
        }
        let TensorSpec { dtype, mut shape, .. } = self.data.spec().clone();
        if let Some(last) = shape.last_mut() {
            *last = self.k;
        }
        let indices = TensorSpec { dtype: DType::U32, shape: shape.clone(), tag: "top-k indices" };
        Ok(vec![TensorSpec { dtype, shape, tag: OP }, indices])
    }

    fn cost(&self) -> OpCost {
        let (n, bytes) = (elements(&self.data), size(&self.data));
        let (rows, _) = shape_of(OP, &self.data).unwrap_or((1, 0));
        let taken = (rows as u64).saturating_mul(self.k as u64);
        OpCost {
            units: n,
            flops: n.saturating_mul(24),
            // Four digit passes, a tally, and two reads in the pick pass.
            read: Bytes(bytes.0.saturating_mul(7)),
            written: Bytes(taken.saturating_mul(16)),
            launches: 12,
            depth: 12,
        }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let [out, indices] = exactly_mut(OP, "outputs", outputs)?;
        let data: &[u32] = cast_slice(OP, data)?;
        let (out, indices): (&mut [u32], &mut [u32]) =
            (cast_slice_mut(OP, out)?, cast_slice_mut(OP, indices)?);
        let (order, (rows, columns), k) = (self.order()?, shape_of(OP, &self.data)?, self.k.max(1));
        if rows >= threads.0.max(2) && threads.0 > 1 {
            let results = out.par_chunks_mut(k).zip(indices.par_chunks_mut(k));
            data.par_chunks(columns.max(1))
                .zip(results)
                .for_each(|(data, out)| self.row(order, data, out, 1));
        } else {
            let results = out.chunks_mut(k).zip(indices.chunks_mut(k));
            let rows = data.chunks(columns.max(1)).zip(results);
            rows.for_each(|(data, out)| self.row(order, data, out, threads.0));
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let (rows, columns) = shape_of(OP, &self.data)?;
        if rows == 0 || self.k == 0 {
            return Ok(vec![plan.upload(vec![0; 4], OP)?, plan.upload(vec![0; 4], OP)?]);
        }
        let rows = RowShape { op: OP, rows: rows as u64, columns: columns as u64 };
        let what = (self.order()?, self.k as u64, self.first);
        device::take(plan, *data, rows, what, target.variant(OpKind::TopK, VARIANTS))
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let (rows, columns) = shape_of(OP, &self.data).ok()?;
        Some(Items { count: if rows == 1 { columns } else { rows }, grain: 1 })
    }

    /// A partition of a row returns at most as many as it has.
    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (rows, columns) = shape_of(OP, &self.data)?;
        let (n, start) = (items.len(), items.start);
        if rows != 1 {
            let data = slice_rows(OP, &self.data, items, columns, vec![n, columns])?;
            return Ok(Arc::new(TopK { data, ..self.clone() }));
        }
        let data = slice_rows(OP, &self.data, items, 1, vec![n])?;
        let first = self.first.saturating_add(u32::try_from(start).unwrap_or(u32::MAX));
        Ok(Arc::new(TopK { data, k: self.k.min(n), first, smallest: self.smallest }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        let (rows, _) = shape_of(OP, &self.data)?;
        if rows != 1 {
            concatenate(parts, outputs);
            return Ok(());
        }
        let order = self.order()?;
        let mut all = Vec::new();
        for part in parts {
            let [bits, indices] = exactly(OP, "results of a part", part)?;
            let (bits, indices): (&[u32], &[u32]) = (cast_slice(OP, bits)?, cast_slice(OP, indices)?);
            all.extend(bits.iter().zip(indices).map(|(b, i)| u64::from(order.key(*b)) << 32 | u64::from(*i)));
        }
        all.sort_unstable();
        let [out, indices] = exactly_mut(OP, "outputs", outputs)?;
        put(order, &all, cast_slice_mut(OP, out)?, cast_slice_mut(OP, indices)?);
        Ok(())
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let TensorSpec { dtype, shape, .. } = self.data.spec();
        hash.write_u8(*dtype as u8);
        hash.write_u8(u8::from(self.smallest));
        hash.write_usize(self.k);
        hash.write_usize(*shape.last()?);
        self.data.host().filter(|_| self.first == 0).map(|_| hash.finish())
    }

    /// Stacks the rows into one matrix.
    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (_, columns) = shape_of(OP, &self.data)?;
        let (mut all, mut ranges, mut taken) = (Vec::<u32>::new(), Vec::new(), 0);
        for op in group {
            let Some(TopK { data, k, .. }) = op.as_any().downcast_ref() else { return Ok(None) };
            let (rows, own) = shape_of(OP, data)?;
            let (Some(host), true) = (data.host(), own == columns && *k == self.k && *k <= columns) else {
                return Ok(None);
            };
            all.extend_from_slice(cast_slice(OP, &host)?);
            let range = taken..taken + rows * k * 4;
            taken = range.end;
            ranges.push(vec![range.clone(), range]);
        }
        let rows = all.len().checked_div(columns).unwrap_or(0);
        let spec = TensorSpec { shape: vec![rows, columns], ..self.data.spec().clone() };
        let data = Tensor::from_bytes(bytemuck::cast_slice::<u32, u8>(&all), spec)?;
        Ok(Some(Fused { op: Arc::new(TopK { data, ..self.clone() }), output_ranges: ranges }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Calibration example: `[elements, k]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let k = sizes.get(1).copied().unwrap_or(64).min(n);
    Ok(Arc::new(top_k(&tensor(&sort::noise(n), &[n], OP)?, k)))
}
