//! Matrix multiplication (GEMM): `[m, k] × [k, n] → [m, n]`, single or batched; a batch may share its right-hand side.
//!
//! Inputs are f32, or f16 on both sides; accumulation and results are f32. `k = 0` gives zeros.
//!
//! **Accuracy.** The summation order depends on the backend and on nothing else: neither on the number of threads nor on
//! partitioning. Against the exact product, `|error| ≤ c · k · ε · (|A|·|B|)` in each element, with `ε = 2⁻²⁴` and `c = 2` (the
//! first-order bound is `k · ε`, Higham, "Accuracy and Stability of Numerical Algorithms", §3.5), plus the smallest normal number
//! per step where a device flushes denormals.
//!
//! **Non-finite numbers.** IEEE 754 on the CPU. On a device, an element of the result whose row of A and column of B are finite is
//! unaffected by the others; the rest is unspecified.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul as multiply};
use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};
use half::{f16, slice::HalfFloatSliceExt as _};

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    cost::count,
    op::{Items, stack},
    record::{groups, size},
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, expect_dtype, slice_rows, tensor},
};

mod kernel;

const OP: &str = "matmul";
/// Rows and columns of the result tile that one thread computes. Fixed, and partitions begin at multiples of the rows, so that
/// neither threads nor partitioning change the order of any sum. The columns are whole registers of faer's microkernels (24 or 96).
const TILE: (usize, usize) = (512, 96);
/// Rows of A whose f16 elements are widened at once.
const STRIPE: usize = 8 * TILE.0;
/// Depth (k) for which f16 inputs are widened at once, and depth of one dispatch.
const STEPS: usize = 512;
const DISPATCH_STEPS: usize = 16_384;
/// Fewest multiply-adds per thread.
const PER_THREAD: u64 = 1 << 17;

/// The matmul operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Matmul {
    a: Tensor,
    b: Tensor,
}

/// `a` times `b`: matrices, or batches with the batch as the first dimension. `b` may be one matrix for all.
pub fn matmul(a: &Tensor, b: &Tensor) -> Matmul {
    Matmul { a: a.clone(), b: b.clone() }
}

/// Dimensions of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dims {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    /// One right-hand side for the whole batch.
    shared: bool,
}

impl Dims {
    /// Elements of one A.
    fn left(&self) -> u64 {
        count(&[self.m, self.k])
    }

    /// Elements of one B.
    fn right(&self) -> u64 {
        count(&[self.k, self.n])
    }

    /// Elements of one result.
    fn result(&self) -> u64 {
        count(&[self.m, self.n])
    }

    fn units(&self) -> u64 {
        count(&[self.batch, self.m, self.k, self.n])
    }
}

impl Matmul {
    /// The dimensions; a mismatch is an error that shows both shapes.
    fn dims(&self) -> Result<Dims, OpError> {
        let (left, right) = (&self.a.spec().shape, &self.b.spec().shape);
        let fail = |rule| OpError::Shapes { op: OP, rule, left: left.clone(), right: right.clone() };
        let (batch, m, inner, k, n, shared) = match (left.as_slice(), right.as_slice()) {
            ([m, inner], [k, n]) => (1, m, inner, k, n, false),
            ([batch, m, inner], [k, n]) => (*batch, m, inner, k, n, true),
            ([batch, m, inner], [others, k, n]) if batch == others => (*batch, m, inner, k, n, false),
            ([_, _, _], [_, _, _]) => return Err(fail("both sides must have as many matrices")),
            ([_, _], [_, _, _]) => return Err(fail("a batch on the right needs one on the left")),
            _ => return Err(fail("both sides must have 2 dimensions, or 3 with a batch first")),
        };
        if inner != k {
            return Err(fail("the columns of the left side must be as many as the rows of the right side"));
        }
        Ok(Dims { batch, m: *m, k: *k, n: *n, shared })
    }

    /// The dimensions, after [`Op::outputs`] has checked them.
    fn known(&self) -> Dims {
        self.dims().unwrap_or(Dims { batch: 0, m: 0, k: 0, n: 0, shared: false })
    }

    fn half(&self) -> bool {
        self.a.spec().dtype == DType::F16
    }

    fn batched(&self) -> bool {
        self.a.spec().shape.len() == 3
    }
}

impl Op for Matmul {
    fn kind(&self) -> OpKind {
        if self.batched() { OpKind::BatchMatmul } else { OpKind::Matmul }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.a, &self.b]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let want = if self.half() { DType::F16 } else { DType::F32 };
        expect_dtype(OP, "the left side", &self.a, want)?;
        expect_dtype(OP, "the right side, as the left one,", &self.b, want)?;
        let Dims { batch, m, n, .. } = self.dims()?;
        let shape = if self.batched() { vec![batch, m, n] } else { vec![m, n] };
        let elements = count(&shape);
        let spec = TensorSpec { dtype: DType::F32, shape, tag: OP };
        // Two empty sides can have a result beyond all memory.
        let most = isize::MAX as u64 / DType::F32.bytes();
        if elements > most {
            return Err(OpError::TooMany { op: OP, elements, most });
        }
        Ok(vec![spec])
    }

    fn cost(&self) -> OpCost {
        let dims = self.known();
        let launches = u32::try_from(dispatches(dims.k).len()).unwrap_or(u32::MAX);
        OpCost {
            units: dims.units(),
            flops: dims.units().saturating_mul(2),
            read: size(&self.a) + size(&self.b),
            written: Bytes(count(&[dims.batch, dims.m, dims.n]).saturating_mul(4)),
            launches,
            depth: launches,
        }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [a, b] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (dims, out) = (self.known(), cast_slice_mut(OP, out)?);
        if self.half() {
            run::<f16>(&dims, cast_slice(OP, a)?, cast_slice(OP, b)?, out, threads)
        } else {
            run::<f32>(&dims, cast_slice(OP, a)?, cast_slice(OP, b)?, out, threads)
        }
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [a, b] = exactly(OP, "inputs", inputs)?;
        let mut dims = self.known();
        if dims.shared {
            // One tall product: fewer edge tiles. The summation order does not depend on it.
            dims = Dims { batch: 1, m: dims.m.saturating_mul(dims.batch), shared: false, ..dims };
        }
        let config =
            kernel::config(target.variant(self.kind(), kernel::available_variants(target.caps.subgroup)));
        let groups = groups(OP, config.groups(&dims))?;
        let bytes = Bytes(count(&[dims.batch, dims.m, dims.n]).saturating_mul(4));
        let mut before: Option<Slot> = None;
        for steps in dispatches(dims.k) {
            let out = plan.slot(bytes, OP);
            let slots: Vec<Slot> = [*a, *b].into_iter().chain(before).chain([out]).collect();
            let kernel = config.kernel(&dims, self.half(), before.is_some());
            plan.dispatch(&kernel, &slots, &config.params(&dims, steps)?, groups)?;
            if let Some(old) = before.replace(out) {
                plan.free(old)?;
            }
        }
        Ok(before.into_iter().collect())
    }

    fn variants(&self) -> &'static [Variant] {
        kernel::VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let dims = self.known();
        Some(match self.batched() {
            true => Items { count: dims.batch, grain: 1 },
            false => Items { count: dims.m, grain: TILE.0 },
        })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (Dims { m, k, n, shared, .. }, len) = (self.known(), items.len());
        if !self.batched() {
            return Ok(Arc::new(Matmul {
                a: slice_rows(OP, &self.a, items, k, vec![len, k])?,
                b: self.b.clone(),
            }));
        }
        let a = slice_rows(OP, &self.a, items.clone(), m.saturating_mul(k), vec![len, m, k])?;
        let b = match shared {
            true => self.b.clone(),
            false => slice_rows(OP, &self.b, items, k.saturating_mul(n), vec![len, k, n])?,
        };
        Ok(Arc::new(Matmul { a, b }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let Dims { m, k, n, .. } = self.dims().ok()?;
        let mut hash = std::hash::DefaultHasher::new();
        [m, k, n, usize::from(self.half())].into_iter().for_each(|v| hash.write_usize(v));
        let there = self.a.on_host() && self.b.on_host();
        (!self.batched() && there).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (Dims { m, k, n, .. }, mut all) = (self.known(), Vec::with_capacity(group.len()));
        for op in group {
            match op.as_any().downcast_ref::<Matmul>() {
                Some(op) if op.known() == self.known() && op.half() == self.half() && !op.batched() => {
                    all.push(op)
                }
                _ => return Ok(None),
            }
        }
        let spec =
            |shape: [usize; 3]| TensorSpec { dtype: self.a.spec().dtype, shape: shape.to_vec(), tag: OP };
        let Some(a) = stack(all.iter().map(|op| &op.a), spec([all.len(), m, k]))? else { return Ok(None) };
        let shared = all.iter().all(|op| op.b.ptr_eq(&self.b));
        let b = match shared {
            true => Some(self.b.clone()),
            false => stack(all.iter().map(|op| &op.b), spec([all.len(), k, n]))?,
        };
        let Some(b) = b else { return Ok(None) };
        let bytes = m.saturating_mul(n).saturating_mul(4);
        Ok(Some(Fused::in_rows(Arc::new(Matmul { a, b }), all.len(), bytes)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Depth range of each dispatch (split-k); one empty range for `k = 0`, because zeros must be written.
fn dispatches(k: usize) -> Vec<Range<usize>> {
    let starts = (0..k.max(1)).step_by(DISPATCH_STEPS);
    starts.map(|start| start..(start + DISPATCH_STEPS).min(k)).collect()
}

/// GEMM input element: used in place, or widened into a buffer first.
trait GemmInput: Sync + Sized {
    /// Depth taken at once.
    fn steps(k: usize) -> usize;
    /// A view of rows and columns of a matrix with `stride` elements per row; `buffer` may be used to hold them.
    fn view<'a>(
        all: &'a [Self],
        stride: usize,
        columns: Range<usize>,
        buffer: &'a mut Vec<f32>,
    ) -> MatRef<'a, f32>;
}

impl GemmInput for f32 {
    fn steps(k: usize) -> usize {
        k
    }

    fn view<'a>(
        all: &'a [f32],
        stride: usize,
        columns: Range<usize>,
        _: &'a mut Vec<f32>,
    ) -> MatRef<'a, f32> {
        let rows = all.len().checked_div(stride).unwrap_or(0);
        MatRef::from_row_major_slice(all, rows, stride).subcols(columns.start, columns.len())
    }
}

impl GemmInput for f16 {
    fn steps(k: usize) -> usize {
        k.min(STEPS)
    }

    fn view<'a>(
        all: &'a [f16],
        stride: usize,
        columns: Range<usize>,
        buffer: &'a mut Vec<f32>,
    ) -> MatRef<'a, f32> {
        let rows = all.len().checked_div(stride).unwrap_or(0);
        buffer.resize(rows * columns.len(), 0.0);
        for (row, into) in all.chunks_exact(stride.max(1)).zip(buffer.chunks_exact_mut(columns.len().max(1)))
        {
            row.get(columns.clone()).unwrap_or_default().convert_to_f32_slice(into);
        }
        MatRef::from_row_major_slice(buffer, rows, columns.len())
    }
}

/// All products of a batch: small ones one per thread, large ones in parallel tiles.
fn run<T: GemmInput>(
    dims: &Dims,
    a: &[T],
    b: &[T],
    out: &mut [f32],
    threads: Threads,
) -> Result<(), OpError> {
    let Dims { batch, m, k, n, shared } = *dims;
    let (left, right, result) = (m * k, k * n, m * n);
    let rights = if shared { right } else { right * batch };
    for (want, have) in [(left * batch, a.len()), (rights, b.len()), (result * batch, out.len())] {
        if want != have {
            return Err(OpError::Call { op: OP, what: "numbers", want, have });
        }
    }
    if left == 0 || right == 0 || batch == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let worth = usize::try_from(dims.units() / PER_THREAD).unwrap_or(usize::MAX);
    let threads = threads.0.min(worth).max(1);
    let pairs =
        |i: usize| (a.get(i * left..).unwrap_or_default(), b.get(if shared { 0 } else { i * right }..));
    let one = |(i, out): (usize, &mut [f32]), threads: usize| {
        let (a, b) = pairs(i);
        let a = a.get(..left).unwrap_or_default();
        let b = b.and_then(|b| b.get(..right)).unwrap_or_default();
        product(a, b, out, (k, n), threads);
    };
    if threads > 1 && batch >= threads {
        Threads(threads).par_for_each(out.chunks_mut(result).enumerate(), |item| one(item, 1));
    } else {
        out.chunks_mut(result).enumerate().for_each(|(i, out)| one((i, out), threads));
    }
    Ok(())
}

/// One product with non-zero dimensions.
fn product<T: GemmInput>(a: &[T], b: &[T], out: &mut [f32], (k, n): (usize, usize), threads: usize) {
    let (mut buffer_a, mut buffer_b) = (Vec::new(), Vec::new());
    let steps = T::steps(k);
    for (a, out) in a.chunks(STRIPE * k).zip(out.chunks_mut(STRIPE * n)) {
        for first in (0..k).step_by(steps) {
            let last = (first + steps).min(k);
            let how = if first == 0 { Accum::Replace } else { Accum::Add };
            let left = T::view(a, k, first..last, &mut buffer_a);
            let right = T::view(b.get(first * n..last * n).unwrap_or_default(), n, 0..n, &mut buffer_b);
            let out = MatMut::from_row_major_slice_mut(out, left.nrows(), n);
            tiles(out, left, right, how, threads);
        }
    }
}

/// The result in tiles, one thread each.
fn tiles(
    mut out: MatMut<'_, f32>,
    left: MatRef<'_, f32>,
    right: MatRef<'_, f32>,
    how: Accum,
    threads: usize,
) {
    let (m, n) = (out.nrows(), out.ncols());
    let one = |(row, column, out): (usize, usize, MatMut<'_, f32>)| {
        let (left, right) = (left.subrows(row, out.nrows()), right.subcols(column, out.ncols()));
        multiply(out, how, left, right, 1.0, Par::Seq);
    };
    let mut all = Vec::with_capacity(m.div_ceil(TILE.0) * n.div_ceil(TILE.1));
    for row in (0..m).step_by(TILE.0) {
        let (mut stripe, later) = out.split_at_row_mut(TILE.0.min(m - row));
        out = later;
        for column in (0..n).step_by(TILE.1) {
            let (tile, later) = stripe.split_at_col_mut(TILE.1.min(n - column));
            stripe = later;
            all.push((row, column, tile));
        }
    }
    Threads(threads).par_for_each(all, one);
}

fn ramp(n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| (i * step % 251) as f32 / 125.0 - 1.0).collect()
}

/// Calibration example: `[m, k, n]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let m = sizes.first().copied().unwrap_or(64);
    let (k, n) = (sizes.get(1).copied().unwrap_or(m), sizes.get(2).copied().unwrap_or(m));
    let a = tensor(&ramp(m.saturating_mul(k), 7), &[m, k], OP)?;
    let b = tensor(&ramp(k.saturating_mul(n), 11), &[k, n], OP)?;
    Ok(Arc::new(matmul(&a, &b)))
}

/// Calibration example: `[products, m]`, all square.
pub(crate) fn batch_example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let batch = sizes.first().copied().unwrap_or(16);
    let m = sizes.get(1).copied().unwrap_or(64);
    let n = batch.saturating_mul(m).saturating_mul(m);
    let a = tensor(&ramp(n, 7), &[batch, m, m], OP)?;
    let b = tensor(&ramp(n, 11), &[batch, m, m], OP)?;
    Ok(Arc::new(matmul(&a, &b)))
}
