//! Fused MLP gradient on the CPU: blocks of rows go forward and backward while they are in L2, instead of each
//! operation over the whole batch. The summation order depends on the batch alone, so any number of threads gives the same
//! bits.

use std::sync::{Mutex, PoisonError};

use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use rayon::prelude::*;

use crate::{
    data::target::Target,
    device_table::HostBatch,
    model::{Architecture, ModelSpec},
};

/// Rows per block: their activations fit in a core's L2.
const BLOCK_ROWS: usize = 128;
/// Minimum rows per part, and maximum parts. Each part has its own gradient buffer.
const MIN_PART_ROWS: usize = 64;
const MAX_PARTS: usize = 8;

/// A linear layer, and the offset of its weight and bias in the parameter vector.
#[derive(Debug, Clone, Copy)]
struct Layer {
    from: usize,
    to: usize,
    first: usize,
}

impl Layer {
    fn split<'a>(&self, params: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        let own = params.get(self.first..self.first + (self.from + 1) * self.to).unwrap_or_default();
        own.split_at((self.from * self.to).min(own.len()))
    }

    fn split_mut<'a>(&self, params: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        let own = params.get_mut(self.first..self.first + (self.from + 1) * self.to).unwrap_or_default();
        own.split_at_mut((self.from * self.to).min(own.len()))
    }
}

fn layers(spec: &ModelSpec) -> Option<Vec<Layer>> {
    let hidden: &[usize] = match &spec.architecture {
        Architecture::Linear => &[],
        Architecture::Mlp { hidden } => hidden,
        _ => return None,
    };
    let (mut from, mut first) = (spec.window * spec.features, 0);
    let mut all = Vec::with_capacity(hidden.len() + 1);
    for to in hidden.iter().copied().chain([spec.outputs]) {
        all.push(Layer { from, to, first });
        (from, first) = (to, first + (from + 1) * to);
    }
    Some(all)
}

/// Per-thread scratch buffers, reused between steps: fresh memory costs more than a small batch.
#[derive(Debug, Default)]
struct ThreadScratch {
    /// Input of each layer, and the output of the last.
    activations: Vec<Vec<f32>>,
    /// Gradient of a layer's output and of its input (double buffer).
    grads: [Vec<f32>; 2],
    gradient: Vec<f32>,
    loss: f64,
}

/// Idle scratch buffers.
#[derive(Debug, Default)]
pub(super) struct ScratchPool(Mutex<Vec<ThreadScratch>>);

impl ScratchPool {
    fn take(&self) -> ThreadScratch {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn put(&self, scratch: ThreadScratch) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

/// Gradient, loss and norm of a batch; `None` if the model is neither linear nor an MLP.
pub(super) fn gradient(
    spec: &ModelSpec,
    params: &[f32],
    batch: &HostBatch<'_>,
    target: Target,
    scratch_pool: &ScratchPool,
) -> Option<(Vec<f32>, [f32; 2])> {
    let layers = layers(spec)?;
    let count = batch.samples.len();
    let rows = count.div_ceil(MAX_PARTS).max(MIN_PART_ROWS);
    let run_part = |samples: &[u32]| {
        let mut scratch = scratch_pool.take();
        scratch.reset(&layers, params.len());
        for samples in samples.chunks(BLOCK_ROWS) {
            scratch.block(&layers, params, &batch.with(samples), target, count);
        }
        scratch
    };
    let parts: Vec<ThreadScratch> = batch.samples.par_chunks(rows).map(run_part).collect();
    let mut sum = vec![0.0f32; params.len()];
    let mut loss = 0.0;
    for part in parts {
        sum.iter_mut().zip(&part.gradient).for_each(|(sum, x)| *sum += x);
        loss += part.loss;
        scratch_pool.put(part);
    }
    let norm = sum.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    Some((sum, [loss as f32, norm as f32]))
}

impl ThreadScratch {
    fn reset(&mut self, layers: &[Layer], params: usize) {
        let widths = layers.iter().map(|l| l.from).chain(layers.last().map(|l| l.to));
        let widest = widths.clone().max().unwrap_or(0);
        self.activations.resize_with(layers.len() + 1, Vec::new);
        self.activations
            .iter_mut()
            .zip(widths)
            .for_each(|(activations, width)| activations.resize(BLOCK_ROWS * width, 0.0));
        self.grads.iter_mut().for_each(|grad| grad.resize(BLOCK_ROWS * widest, 0.0));
        self.gradient.clear();
        self.gradient.resize(params, 0.0);
        self.loss = 0.0;
    }

    /// Forward and backward pass of a block; accumulates gradient and loss of the mean over `count` samples.
    fn block(
        &mut self,
        layers: &[Layer],
        params: &[f32],
        batch: &HostBatch<'_>,
        target: Target,
        count: usize,
    ) {
        let rows = batch.samples.len();
        let Some((first, later)) = self.activations.split_first_mut() else { return };
        batch.gather(first);
        let mut x: &mut [f32] = first;
        for (at, (layer, next)) in layers.iter().zip(later).enumerate() {
            let z = prefix(next, rows * layer.to);
            let (weight, bias) = layer.split(params);
            z.chunks_exact_mut(layer.to).for_each(|row| row.copy_from_slice(bias));
            gemm(
                z,
                prefix(x, rows * layer.from),
                weight,
                [rows, layer.from, layer.to],
                [false; 2],
                Accum::Add,
            );
            if at + 1 < layers.len() {
                // ReLU that propagates NaN.
                z.iter_mut().for_each(|z| *z = if *z < 0.0 { 0.0 } else { *z });
            }
            x = next;
        }
        let [current, previous] = &mut self.grads;
        let predictions = prefix(x, rows * batch.outputs);
        self.loss += loss_and_grad(target, predictions, batch, prefix(current, rows * batch.outputs), count);
        let (mut current, mut previous) = (current, previous);
        for (at, layer) in layers.iter().enumerate().rev() {
            let grad = prefix(current, rows * layer.to);
            let Some(x) = self.activations.get_mut(at).map(|x| prefix(x, rows * layer.from)) else { return };
            let (weight, bias) = layer.split_mut(&mut self.gradient);
            for row in grad.chunks_exact(layer.to) {
                bias.iter_mut().zip(row).for_each(|(sum, s)| *sum += s);
            }
            gemm(weight, x, grad, [layer.from, rows, layer.to], [true, false], Accum::Add);
            if at > 0 {
                let input_grad = prefix(previous, rows * layer.from);
                let (weight, _) = layer.split(params);
                gemm(input_grad, grad, weight, [rows, layer.to, layer.from], [false, true], Accum::Replace);
                input_grad.iter_mut().zip(x).for_each(|(s, x)| *s = if *x > 0.0 { *s } else { 0.0 });
                (current, previous) = (previous, current);
            }
        }
    }
}

fn prefix(values: &mut [f32], count: usize) -> &mut [f32] {
    let count = count.min(values.len());
    values.split_at_mut(count).0
}

/// GEMM: `out (+)= a · b` of `[m, k]` and `[k, n]`, row-major, each optionally transposed.
fn gemm(out: &mut [f32], a: &[f32], b: &[f32], [m, k, n]: [usize; 3], transposed: [bool; 2], accum: Accum) {
    let of = |values, rows, columns, transposed| match transposed {
        false => MatRef::from_row_major_slice(values, rows, columns),
        true => MatRef::from_row_major_slice(values, columns, rows).transpose(),
    };
    let [ta, tb] = transposed;
    matmul(
        MatMut::from_row_major_slice_mut(out, m, n),
        accum,
        of(a, m, k, ta),
        of(b, k, n, tb),
        1.0,
        Par::Seq,
    );
}

/// Contribution of a block to the mean loss; writes the gradient of the outputs.
fn loss_and_grad(
    target: Target,
    predictions: &[f32],
    batch: &HostBatch<'_>,
    grads: &mut [f32],
    count: usize,
) -> f64 {
    let share = 1.0 / count.max(1) as f64;
    let mut sum = 0.0;
    let rows = predictions.chunks_exact(batch.outputs).zip(grads.chunks_exact_mut(batch.outputs));
    for ((z, grad), sample) in rows.zip(batch.samples) {
        let y = batch.target(*sample);
        match target {
            Target::Direction | Target::Return { .. } | Target::VolReturn { .. } => {
                for ((z, y), grad) in z.iter().zip(y).zip(grad) {
                    let (z, y) = (f64::from(*z), f64::from(*y));
                    let by = match target {
                        // (1 - y) z - ln sigma(z), without either overflowing.
                        Target::Direction => {
                            sum += (1.0 - y) * z + (-z.abs()).exp().ln_1p() + (-z).max(0.0);
                            1.0 / (1.0 + (-z).exp()) - y
                        }
                        _ => {
                            sum += (z - y) * (z - y);
                            2.0 * (z - y)
                        }
                    };
                    *grad = (share * by) as f32;
                }
            }
            Target::TripleBarrier { .. } => {
                let max = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let total: f64 = z.iter().map(|z| f64::from(z - max).exp()).sum();
                for ((z, y), grad) in z.iter().zip(y).zip(grad) {
                    let (over, y) = (f64::from(z - max), f64::from(*y));
                    sum -= y * (over - total.ln());
                    *grad = (share * (over.exp() / total - y)) as f32;
                }
            }
        }
    }
    share * sum
}
