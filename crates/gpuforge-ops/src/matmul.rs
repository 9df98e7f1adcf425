//! Products of matrices: `[m, k] × [k, n] → [m, n]`, one or a batch of them; a batch may share its right side.
//!
//! Inputs are 32-bit floats, or 16-bit ones on both sides; sums and results are 32-bit floats. No steps (`k = 0`) give zeros.
//!
//! **How exact.** Sums are rounded in each step, in an order that depends on the place but on nothing else: neither on the
//! number of threads nor on how the work was cut. Against the exact product, `|error| ≤ c · k · ε · (|A|·|B|)` in each
//! number, with `ε = 2⁻²⁴` and `c = 2` (the first-order bound is `k · ε`, Higham, "Accuracy and Stability of Numerical
//! Algorithms", §3.5), plus the smallest normal number per step where a device flushes denormal ones.
//!
//! **Numbers that are not finite.** On the processor as in IEEE 754. On a device, a number of the result whose row of A and
//! column of B are finite is unaffected by what is elsewhere; the others are unspecified.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul as multiply};
use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{DType, Spec, Tensor},
    units::Bytes,
};
use half::{f16, slice::HalfFloatSliceExt as _};

use crate::{
    Effort, Fused, Kind, Op, OpError, Target, Threads, Variant,
    op::{Items, stack},
    record::{groups, size},
    view::{exactly, exactly_mut, expect, numbers, numbers_mut, slice, tensor},
    work::count,
};

mod kernel;

const OP: &str = "matmul";
/// Rows and columns of the result that one thread computes as one. Fixed, and parts begin at multiples of the rows, so that
/// neither threads nor parts change the order of any sum. The columns are whole registers of the inner kernels (24 or 96);
/// of ten shapes tried on 1024² this was best on two threads, 7 % ahead of the library's own way of sharing out; on one
/// thread it is 2 % behind the product as a whole (2-core EPYC, best of 25, others at work).
const TILE: (usize, usize) = (512, 96);
/// Rows of A of which 16-bit numbers are widened at once.
const STRIPE: usize = 8 * TILE.0;
/// Steps of the dot products for which 16-bit inputs are widened at once, and steps of one dispatch.
const STEPS: usize = 512;
const DISPATCH_STEPS: usize = 16_384;
/// Multiply-adds that are worth a thread.
const PER_THREAD: u64 = 1 << 17;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Matmul {
    a: Tensor,
    b: Tensor,
}

/// `a` times `b`: matrices, or batches of them with the batch as the first dimension. `b` may be one matrix for all.
pub fn matmul(a: &Tensor, b: &Tensor) -> Matmul {
    Matmul { a: a.clone(), b: b.clone() }
}

/// Sizes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dims {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    /// One right side for all.
    shared: bool,
}

impl Dims {
    /// Numbers of one A.
    fn left(&self) -> u64 {
        count(&[self.m, self.k])
    }

    /// Numbers of one B.
    fn right(&self) -> u64 {
        count(&[self.k, self.n])
    }

    /// Numbers of one result.
    fn result(&self) -> u64 {
        count(&[self.m, self.n])
    }

    fn units(&self) -> u64 {
        count(&[self.batch, self.m, self.k, self.n])
    }
}

impl Matmul {
    /// Sizes; what does not fit is an error that shows both shapes.
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

    /// For where [`Op::outputs`] has been asked before.
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
    fn kind(&self) -> Kind {
        if self.batched() { Kind::BatchMatmul } else { Kind::Matmul }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.a, &self.b]
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        let want = if self.half() { DType::F16 } else { DType::F32 };
        expect(OP, "the left side", &self.a, want)?;
        expect(OP, "the right side, as the left one,", &self.b, want)?;
        let Dims { batch, m, n, .. } = self.dims()?;
        let shape = if self.batched() { vec![batch, m, n] } else { vec![m, n] };
        let elements = count(&shape);
        let spec = Spec { dtype: DType::F32, shape, tag: OP };
        // Two sides of nothing can have a result beyond all memory.
        let most = isize::MAX as u64 / DType::F32.bytes();
        if elements > most {
            return Err(OpError::TooMany { op: OP, elements, most });
        }
        Ok(vec![spec])
    }

    fn effort(&self) -> Effort {
        let dims = self.known();
        let launches = u32::try_from(dispatches(dims.k).len()).unwrap_or(u32::MAX);
        Effort {
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
        let (dims, out) = (self.known(), numbers_mut(OP, out)?);
        if self.half() {
            run::<f16>(&dims, numbers(OP, a)?, numbers(OP, b)?, out, threads)
        } else {
            run::<f32>(&dims, numbers(OP, a)?, numbers(OP, b)?, out, threads)
        }
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [a, b] = exactly(OP, "inputs", inputs)?;
        let mut dims = self.known();
        if dims.shared {
            // One tall product: fewer tiles are ragged. The order of the sums does not depend on it.
            dims = Dims { batch: 1, m: dims.m.saturating_mul(dims.batch), shared: false, ..dims };
        }
        let member = kernel::member(target.variant(self.kind(), kernel::offered(target.caps.subgroup)));
        let groups = groups(OP, member.groups(&dims))?;
        let bytes = Bytes(count(&[dims.batch, dims.m, dims.n]).saturating_mul(4));
        let mut before: Option<Slot> = None;
        for steps in dispatches(dims.k) {
            let out = plan.slot(bytes, OP);
            let slots: Vec<Slot> = [*a, *b].into_iter().chain(before).chain([out]).collect();
            let kernel = member.kernel(&dims, self.half(), before.is_some());
            plan.dispatch(&kernel, &slots, &member.params(&dims, steps)?, groups)?;
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
                a: slice(OP, &self.a, items, k, vec![len, k])?,
                b: self.b.clone(),
            }));
        }
        let a = slice(OP, &self.a, items.clone(), m.saturating_mul(k), vec![len, m, k])?;
        let b = match shared {
            true => self.b.clone(),
            false => slice(OP, &self.b, items, k.saturating_mul(n), vec![len, k, n])?,
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
        let spec = |shape: [usize; 3]| Spec { dtype: self.a.spec().dtype, shape: shape.to_vec(), tag: OP };
        let Some(a) = stack(all.iter().map(|op| &op.a), spec([all.len(), m, k]))? else { return Ok(None) };
        let shared = all.iter().all(|op| op.b.is(&self.b));
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

/// Steps of each dispatch; one without steps where there are none, because zeros must be written, too.
fn dispatches(k: usize) -> Vec<Range<usize>> {
    let starts = (0..k.max(1)).step_by(DISPATCH_STEPS);
    starts.map(|start| start..(start + DISPATCH_STEPS).min(k)).collect()
}

/// Numbers that are multiplied: rows of a matrix are used as they are, or widened into a buffer first.
trait Factor: Sync + Sized {
    /// How many steps are taken at once.
    fn steps(k: usize) -> usize;
    /// A view of rows and columns of a matrix with `stride` numbers per row; `room` may be used to hold them.
    fn view<'a>(
        all: &'a [Self],
        stride: usize,
        columns: Range<usize>,
        room: &'a mut Vec<f32>,
    ) -> MatRef<'a, f32>;
}

impl Factor for f32 {
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

impl Factor for f16 {
    fn steps(k: usize) -> usize {
        k.min(STEPS)
    }

    fn view<'a>(
        all: &'a [f16],
        stride: usize,
        columns: Range<usize>,
        room: &'a mut Vec<f32>,
    ) -> MatRef<'a, f32> {
        let rows = all.len().checked_div(stride).unwrap_or(0);
        room.resize(rows * columns.len(), 0.0);
        for (row, into) in all.chunks_exact(stride.max(1)).zip(room.chunks_exact_mut(columns.len().max(1))) {
            row.get(columns.clone()).unwrap_or_default().convert_to_f32_slice(into);
        }
        MatRef::from_row_major_slice(room, rows, columns.len())
    }
}

/// All products of a batch. Small ones are shared out between the threads, large ones use all of them.
fn run<T: Factor>(dims: &Dims, a: &[T], b: &[T], out: &mut [f32], threads: Threads) -> Result<(), OpError> {
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
        Threads(threads).each(out.chunks_mut(result).enumerate(), |item| one(item, 1));
    } else {
        out.chunks_mut(result).enumerate().for_each(|(i, out)| one((i, out), threads));
    }
    Ok(())
}

/// One product. None of its sizes is zero.
fn product<T: Factor>(a: &[T], b: &[T], out: &mut [f32], (k, n): (usize, usize), threads: usize) {
    let (mut room_a, mut room_b) = (Vec::new(), Vec::new());
    let steps = T::steps(k);
    for (a, out) in a.chunks(STRIPE * k).zip(out.chunks_mut(STRIPE * n)) {
        for first in (0..k).step_by(steps) {
            let last = (first + steps).min(k);
            let how = if first == 0 { Accum::Replace } else { Accum::Add };
            let left = T::view(a, k, first..last, &mut room_a);
            let right = T::view(b.get(first * n..last * n).unwrap_or_default(), n, 0..n, &mut room_b);
            let out = MatMut::from_row_major_slice_mut(out, left.nrows(), n);
            tiles(out, left, right, how, threads);
        }
    }
}

/// The result in tiles, each computed by one thread.
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
    Threads(threads).each(all, one);
}

fn ramp(n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| (i * step % 251) as f32 / 125.0 - 1.0).collect()
}

/// For calibrations: `[m, k, n]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let m = sizes.first().copied().unwrap_or(64);
    let (k, n) = (sizes.get(1).copied().unwrap_or(m), sizes.get(2).copied().unwrap_or(m));
    let a = tensor(&ramp(m.saturating_mul(k), 7), &[m, k], OP)?;
    let b = tensor(&ramp(k.saturating_mul(n), 11), &[k, n], OP)?;
    Ok(Arc::new(matmul(&a, &b)))
}

/// For calibrations: `[products, m]`, all square.
pub(crate) fn batch_example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let batch = sizes.first().copied().unwrap_or(16);
    let m = sizes.get(1).copied().unwrap_or(64);
    let n = batch.saturating_mul(m).saturating_mul(m);
    let a = tensor(&ramp(n, 7), &[batch, m, m], OP)?;
    let b = tensor(&ramp(n, 11), &[batch, m, m], OP)?;
    Ok(Arc::new(matmul(&a, &b)))
}
