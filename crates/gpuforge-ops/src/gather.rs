//! Gather: `out[i] = data[index[i]]`, for rows of any length and any 4-byte dtype. A bit-exact copy.
//!
//! **Out-of-range index.** An error with its position wherever the index is on the host. An index that is resident only on a
//! device is not inspected; there, and when such an index is downloaded for the CPU path, it is clamped to the last row, so that
//! results are the same on every backend.

use std::{
    any::Any,
    hash::Hasher as _,
    ops::Range,
    sync::{Arc, OnceLock},
};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};
use rayon::prelude::*;

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    cost::{count, elements},
    op::Items,
    record::{groups, word},
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, expect_dtype, slice_rows, tensor},
};

const OP: &str = "gather";
const VARIANTS: &[Variant] = &[Variant::new(64, 1, 1), Variant::new(256, 1, 1), Variant::new(64, 1, 8)];
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 15;

/// The gather operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Gather {
    data: Tensor,
    index: Tensor,
    /// Cached bounds check of the index; tensors are immutable, so one check is enough.
    checked: Arc<OnceLock<Result<(), OpError>>>,
}

/// Rows of `data` (`[rows]` or `[rows, …]`, 4-byte dtype) by `index` (`u32`, any shape). The result has the shape of the index,
/// followed by that of a row.
pub fn gather(data: &Tensor, index: &Tensor) -> Gather {
    Gather { data: data.clone(), index: index.clone(), checked: Arc::default() }
}

impl Gather {
    fn rows(&self) -> u64 {
        self.data.spec().shape.first().map_or(0, |n| *n as u64)
    }

    /// Elements of a row.
    fn width(&self) -> u64 {
        count(self.data.spec().shape.get(1..).unwrap_or_default())
    }

    /// Checks the index if it is on the host.
    fn check(&self) -> Result<(), OpError> {
        if let Some(checked) = self.checked.get() {
            return checked.clone();
        }
        let Some(host) = self.index.host() else { return Ok(()) };
        let index: &[u32] = cast_slice(OP, &host)?;
        let rows = self.rows();
        let max = index.iter().fold(0, |a: u32, b| a.max(*b));
        let good = index.is_empty() || u64::from(max) < rows;
        let bad = || index.iter().position(|i| u64::from(*i) >= rows).map(|at| (at, index.get(at)));
        let found = match bad().filter(|_| !good) {
            Some((at, Some(value))) => Err(OpError::Value {
                op: OP,
                what: "an index",
                have: format!("{value} (at position {at}, {rows} rows)"),
                limit: "it must be below the number of rows",
            }),
            _ => Ok(()),
        };
        self.checked.get_or_init(|| found).clone()
    }
}

impl Op for Gather {
    fn kind(&self) -> OpKind {
        OpKind::Gather
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data, &self.index]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        expect_dtype(OP, "the index", &self.index, DType::U32)?;
        let TensorSpec { dtype, shape, .. } = self.data.spec();
        if dtype.bytes() != 4 {
            return Err(OpError::DType { op: OP, what: "the data", want: DType::F32, have: *dtype });
        }
        let Some((rows, row)) = shape.split_first() else {
            let (left, right) = (shape.clone(), self.index.spec().shape.clone());
            return Err(OpError::Shapes { op: OP, rule: "the data must have rows", left, right });
        };
        if *rows == 0 && elements(&self.index) > 0 {
            let (left, right) = (shape.clone(), self.index.spec().shape.clone());
            return Err(OpError::Shapes { op: OP, rule: "there is no row to take", left, right });
        }
        self.check()?;
        let shape = self.index.spec().shape.iter().chain(row).copied().collect();
        Ok(vec![TensorSpec { dtype: *dtype, shape, tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let n = elements(&self.index).saturating_mul(self.width());
        let moved = Bytes(n.saturating_mul(4));
        let index = Bytes(elements(&self.index).saturating_mul(4));
        OpCost { units: n, flops: 0, read: moved + index, written: moved, launches: 1, depth: 1 }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data, index] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let data: &[u32] = cast_slice(OP, data)?;
        let index: &[u32] = cast_slice(OP, index)?;
        let out: &mut [u32] = cast_slice_mut(OP, out)?;
        let width = usize::try_from(self.width()).unwrap_or(usize::MAX);
        if out.is_empty() || width == 0 {
            return Ok(());
        }
        let some = |(out, index): (&mut [u32], &[u32])| gather_rows(data, index, out, width);
        if threads.0 < 2 || out.len() < 2 * PER_THREAD {
            some((out, index));
            return Ok(());
        }
        let share = index.len().div_ceil(threads.0).max(1);
        out.par_chunks_mut(share * width).zip(index.par_chunks(share)).for_each(some);
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [data, index] = exactly(OP, "inputs", inputs)?;
        let n = elements(&self.index).saturating_mul(self.width());
        word(OP, elements(&self.data))?;
        let params = [word(OP, n)?, word(OP, self.width().max(1))?, word(OP, self.rows().saturating_sub(1))?];
        let out = plan.slot(Bytes(n * 4), OP);
        let variant = target.variant(OpKind::Gather, VARIANTS);
        let groups = groups(OP, n.div_ceil(u64::from(variant.group * variant.items)))?;
        plan.dispatch(&kernel(variant), &[*data, *index, out], &params, groups)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        Some(Items { count: usize::try_from(elements(&self.index)).ok()?, grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let len = items.len();
        Ok(Arc::new(gather(&self.data, &slice_rows(OP, &self.index, items, 1, vec![len])?)))
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let TensorSpec { dtype, shape, .. } = self.data.spec();
        hash.write_u8(*dtype as u8);
        shape.iter().for_each(|d| hash.write_usize(*d));
        self.index.host().map(|_| hash.finish())
    }

    /// Concatenates the indices; the data too, unless all gather from the same tensor.
    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let all: Option<Vec<&Gather>> = group.iter().map(|op| op.as_any().downcast_ref()).collect();
        let Some(all) = all else { return Ok(None) };
        // An out-of-range index would read another operation's data.
        let fits = |g: &Gather| g.outputs().is_ok() && g.data.spec().shape == self.data.spec().shape;
        let one = all.iter().all(|g| g.data.ptr_eq(&self.data));
        let step = if one { 0 } else { self.rows() };
        let shifts = u32::try_from(step.saturating_mul(all.len() as u64)).is_ok();
        if !shifts || !all.iter().all(|g| fits(g)) {
            return Ok(None);
        }
        let (mut data, mut index, mut ranges) = (Vec::<u8>::new(), Vec::<u32>::new(), Vec::new());
        let row = usize::try_from(self.width() * 4).unwrap_or(usize::MAX);
        for (g, shift) in all.iter().zip((0..).step_by(usize::try_from(step.max(1)).unwrap_or(1))) {
            let Some(own) = g.index.host() else { return Ok(None) };
            let own: &[u32] = cast_slice(OP, &own)?;
            let range = index.len() * row..(index.len() + own.len()) * row;
            ranges.push(vec![range]);
            index.extend(own.iter().map(|i| i + if one { 0 } else { shift }));
            if !one {
                let Some(host) = g.data.host() else { return Ok(None) };
                data.extend_from_slice(&host);
            }
        }
        let index = tensor(&index, &[index.len()], "gather index")?;
        let mut spec = self.data.spec().clone();
        if let Some(rows) = spec.shape.first_mut() {
            *rows *= all.len();
        }
        let data = if one { self.data.clone() } else { Tensor::from_bytes(data, spec)? };
        Ok(Some(Fused { op: Arc::new(gather(&data, &index)), output_ranges: ranges }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Copies rows of `width` by index, clamped to the last row.
fn gather_rows(data: &[u32], index: &[u32], out: &mut [u32], width: usize) {
    let last = (data.len() / width.max(1)).saturating_sub(1);
    let row = |i: u32| (i as usize).min(last);
    if width == 1 {
        for (out, i) in out.iter_mut().zip(index) {
            *out = data.get(row(*i)).copied().unwrap_or(0);
        }
        return;
    }
    for (out, i) in out.chunks_exact_mut(width.max(1)).zip(index) {
        let at = row(*i) * width;
        if let Some(row) = data.get(at..at + width) {
            out.copy_from_slice(row);
        }
    }
}

fn kernel(variant: Variant) -> Arc<Kernel> {
    let wgsl = include_str!("../shader/gather.wgsl")
        .replace("GROUP", &variant.group.to_string())
        .replace("ITEMS", &variant.items.to_string());
    Arc::new(Kernel {
        name: OP.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let ([n, width, last, ..], [data, index], [out]) =
                (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
            else {
                let why = "needs 3 parameters, 2 inputs, 1 output".into();
                return Err(CpuReferenceError { kernel: OP.into(), why });
            };
            let (data, index): (Vec<u32>, Vec<u32>) = (words(data).collect(), words(index).collect());
            let one = |i: u32| {
                let row = index.get((i / width.max(&1)) as usize)?.min(last);
                data.get((row * width + i % width.max(&1)) as usize).copied()
            };
            put_words(out, (0..*n).map(|i| one(i).unwrap_or(0)));
            Ok(())
        }),
    })
}

/// Calibration example: `[elements, elements of a row]`, pseudo-random indices.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024).max(1);
    let width = sizes.get(1).copied().unwrap_or(1).clamp(1, n);
    let rows = n / width;
    let data: Vec<u32> = (0..rows * width).map(|i| i as u32).collect();
    let index: Vec<u32> = (0..rows as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 % rows as u32)
        .collect();
    let data = if width == 1 { tensor(&data, &[rows], OP)? } else { tensor(&data, &[rows, width], OP)? };
    Ok(Arc::new(gather(&data, &tensor(&index, &[rows], "gather index")?)))
}
