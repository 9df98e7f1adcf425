//! Sort and argsort, ascending and descending, by radix sort; bit-identical on every backend.
//!
//! The last dimension is sorted: a matrix row by row. **The order is total**: integers as usual; floats by value, -0 before +0
//! (descending: after), and every NaN last *in both directions*, among themselves by their bits (positive ones by payload, then
//! negative ones), none of them changed. The sort is stable, and so is `argsort`. NumPy sorts the same way, except that it treats
//! -0 and +0 as equal and its reversed order begins with NaN.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};
use rayon::prelude::*;

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    cost::{count, elements},
    op::{Items, concatenate},
    record::size,
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, slice_rows, tensor},
};

pub(crate) mod device;
pub(crate) mod key;
pub(crate) mod radix;

use device::{Payload, RowShape};
use key::SortOrder;

const OP: &str = "sort";
const VARIANTS: &[Variant] = &[Variant::new(64, 1, 16), Variant::new(128, 1, 4)];

/// A sort; see the module documentation.
#[derive(Debug, Clone)]
pub struct Sort {
    data: Tensor,
    descending: bool,
    /// Indices instead of values (argsort).
    indices: bool,
}

/// Values in ascending order, along the last dimension.
pub fn sort(data: &Tensor) -> Sort {
    Sort { data: data.clone(), descending: false, indices: false }
}

/// Values in descending order, along the last dimension.
pub fn sort_descending(data: &Tensor) -> Sort {
    Sort { data: data.clone(), descending: true, indices: false }
}

/// Indices (`u32`, along the last dimension) that sort the values ascending; stable.
pub fn argsort(data: &Tensor) -> Sort {
    Sort { data: data.clone(), descending: false, indices: true }
}

/// Indices that sort the values descending; stable.
pub fn argsort_descending(data: &Tensor) -> Sort {
    Sort { data: data.clone(), descending: true, indices: true }
}

/// Rows and columns of an operation along the last dimension; checks what all of these operations need.
pub(crate) fn shape_of(op: &'static str, data: &Tensor) -> Result<(usize, usize), OpError> {
    let TensorSpec { dtype, shape, .. } = data.spec();
    if SortOrder::of(*dtype, false).is_none() {
        return Err(OpError::DType { op, what: "the data", want: DType::F32, have: *dtype });
    }
    let Some((columns, rows)) = shape.split_last() else {
        let (left, right) = (shape.clone(), vec![1]);
        return Err(OpError::Shapes { op, rule: "there must be a dimension to work along", left, right });
    };
    let most = u64::from(u32::MAX);
    let rows = usize::try_from(count(rows)).unwrap_or(usize::MAX);
    if *columns as u64 > most {
        return Err(OpError::TooMany { op, elements: *columns as u64, most });
    }
    Ok((rows, *columns))
}

impl Sort {
    fn order(&self) -> Result<SortOrder, OpError> {
        let have = self.data.spec().dtype;
        let wrong = OpError::DType { op: OP, what: "the data", want: DType::F32, have };
        SortOrder::of(have, self.descending).ok_or(wrong)
    }

    /// Sorts one row.
    fn row(&self, order: SortOrder, data: &[u32], out: &mut [u32], threads: usize) {
        if self.indices {
            let mut pairs = pairs(order, data, 0);
            radix::radix(&mut pairs, threads);
            out.iter_mut().zip(pairs).for_each(|(out, pair)| *out = pair as u32);
            return;
        }
        out.iter_mut().zip(data).for_each(|(out, bits)| *out = order.key(*bits));
        radix::radix(out, threads);
        out.iter_mut().for_each(|out| *out = order.bits(*out));
    }
}

/// Sort keys in the high half, indices in the low half.
pub(crate) fn pairs(order: SortOrder, data: &[u32], first: u64) -> Vec<u64> {
    data.iter().zip(first..).map(|(bits, i)| u64::from(order.key(*bits)) << 32 | i).collect()
}

impl Op for Sort {
    fn kind(&self) -> OpKind {
        OpKind::Sort
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        shape_of(OP, &self.data)?;
        let TensorSpec { dtype, shape, .. } = self.data.spec().clone();
        Ok(vec![TensorSpec { dtype: if self.indices { DType::U32 } else { dtype }, shape, tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let (n, bytes) = (elements(&self.data), size(&self.data));
        let passes = 8;
        let read = Bytes(bytes.0.saturating_mul(passes * 2));
        let launches = if n <= 1 << 16 { 3 * passes } else { 5 * passes } as u32;
        OpCost {
            units: n,
            flops: n.saturating_mul(passes * 4),
            read,
            written: Bytes(bytes.0.saturating_mul(passes)),
            launches,
            depth: launches,
        }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (data, out): (&[u32], &mut [u32]) = (cast_slice(OP, data)?, cast_slice_mut(OP, out)?);
        let (order, (rows, columns)) = (self.order()?, shape_of(OP, &self.data)?);
        if rows >= threads.0.max(2) && threads.0 > 1 {
            let lines = out.par_chunks_mut(columns.max(1)).zip(data.par_chunks(columns.max(1)));
            lines.for_each(|(out, data)| self.row(order, data, out, 1));
        } else {
            let lines = out.chunks_mut(columns.max(1)).zip(data.chunks(columns.max(1)));
            lines.for_each(|(out, data)| self.row(order, data, out, threads.0));
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let (rows, columns) = shape_of(OP, &self.data)?;
        let rows = RowShape { op: OP, rows: rows as u64, columns: columns as u64 };
        let along = if self.indices { Payload::Column } else { Payload::Nothing };
        let variant = target.variant(OpKind::Sort, VARIANTS);
        let (values, indices) = device::sort(plan, *data, rows, (self.order()?, false), along, variant)?;
        let Some(indices) = indices else { return Ok(vec![values]) };
        plan.free(values)?;
        Ok(vec![indices])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let (rows, columns) = shape_of(OP, &self.data).ok()?;
        Some(Items { count: if rows == 1 { columns } else { rows }, grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (rows, columns) = shape_of(OP, &self.data)?;
        let n = items.len();
        let data = if rows == 1 {
            slice_rows(OP, &self.data, items, 1, vec![n])?
        } else {
            slice_rows(OP, &self.data, items, columns, vec![n, columns])?
        };
        Ok(Arc::new(Sort { data, ..self.clone() }))
    }

    /// Rows are concatenated; partitions of one row are merged.
    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        let (rows, _) = shape_of(OP, &self.data)?;
        if rows != 1 {
            concatenate(parts, outputs);
            return Ok(());
        }
        let order = self.order()?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let out: &mut [u32] = cast_slice_mut(OP, out)?;
        let runs: Vec<&[u32]> =
            parts.iter().filter_map(|p| p.first()).map(|b| cast_slice(OP, b)).collect::<Result<_, _>>()?;
        let lengths: Vec<usize> = runs.iter().map(|r| r.len()).collect();
        if !self.indices {
            let keys = runs.iter().flat_map(|r| r.iter()).map(|bits| order.key(*bits)).collect();
            let merged = radix::merge(keys, lengths);
            out.iter_mut().zip(merged).for_each(|(out, key)| *out = order.bits(key));
            return Ok(());
        }
        let host =
            self.data.host().ok_or(OpError::Call { op: OP, what: "inputs on the host", want: 1, have: 0 })?;
        let data: &[u32] = cast_slice(OP, &host)?;
        let mut all = Vec::with_capacity(data.len());
        let mut first = 0;
        for run in runs {
            let key = |i: usize| data.get(i).map_or(u32::MAX, |bits| order.key(*bits));
            let pair = |i: &u32| (first + *i as usize, u64::from(key(first + *i as usize)));
            all.extend(run.iter().map(pair).map(|(i, key)| key << 32 | i as u64));
            first += run.len();
        }
        out.iter_mut().zip(radix::merge(all, lengths)).for_each(|(out, pair)| *out = pair as u32);
        Ok(())
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let TensorSpec { dtype, shape, .. } = self.data.spec();
        hash.write_u8(*dtype as u8);
        hash.write_u8(u8::from(self.descending) << 1 | u8::from(self.indices));
        hash.write_usize(*shape.last()?);
        self.data.host().map(|_| hash.finish())
    }

    /// Stacks the rows into one matrix.
    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (_, columns) = shape_of(OP, &self.data)?;
        let (mut all, mut ranges) = (Vec::<u32>::new(), Vec::new());
        for op in group {
            let Some(Sort { data, .. }) = op.as_any().downcast_ref() else { return Ok(None) };
            let (Some(host), true) = (data.host(), data.spec().shape.last() == Some(&columns)) else {
                return Ok(None);
            };
            let start = all.len() * 4;
            all.extend_from_slice(cast_slice(OP, &host)?);
            let range = start..all.len() * 4;
            ranges.push(vec![range]);
        }
        let rows = all.len().checked_div(columns).unwrap_or(0);
        let spec = TensorSpec { shape: vec![rows, columns], ..self.data.spec().clone() };
        let data = Tensor::from_bytes(bytemuck::cast_slice::<u32, u8>(&all), spec)?;
        Ok(Some(Fused { op: Arc::new(Sort { data, ..self.clone() }), output_ranges: ranges }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Unordered floats, for calibration.
pub(crate) fn noise(n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| ((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 - 8e6).collect()
}

/// Calibration example: `[elements]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    Ok(Arc::new(sort(&tensor(&noise(n), &[n], OP)?)))
}
