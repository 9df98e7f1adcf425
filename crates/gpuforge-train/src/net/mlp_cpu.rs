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

/// Rows that go forward and back at once: with all that they become, within a core's own cache.
const ROWS: usize = 128;
/// Rows of a part at least, and parts at most. Each part has a gradient of its own.
const MIN_SAMPLES: usize = 64;
const PARTS: usize = 8;

/// A layer, and where the vector of parameters has its weights and its bias.
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
    let hidden: &[usize] = match &spec.shape {
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

/// What a thread works in; kept from step to step, because fresh memory costs more than a small batch.
#[derive(Debug, Default)]
struct ThreadScratch {
    /// What each layer was given, and what the last one gave.
    given: Vec<Vec<f32>>,
    /// How the loss changes by what a layer gave, and by what it was given.
    slopes: [Vec<f32>; 2],
    gradient: Vec<f32>,
    loss: f64,
}

/// Scratch that nobody does at the moment.
#[derive(Debug, Default)]
pub(super) struct ScratchPool(Mutex<Vec<ThreadScratch>>);

impl ScratchPool {
    fn take(&self) -> ThreadScratch {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give(&self, work: ThreadScratch) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }
}

/// Loss, length and gradient of a batch; `None` where the model is another one.
pub(super) fn gradient(
    spec: &ModelSpec,
    params: &[f32],
    seen: &HostBatch<'_>,
    target: Target,
    scratch_pool: &ScratchPool,
) -> Option<(Vec<f32>, [f32; 2])> {
    let layers = layers(spec)?;
    let count = seen.samples.len();
    let rows = count.div_ceil(PARTS).max(MIN_SAMPLES);
    let one = |samples: &[u32]| {
        let mut work = scratch_pool.take();
        work.begin(&layers, params.len());
        for samples in samples.chunks(ROWS) {
            work.rows(&layers, params, &seen.with(samples), target, count);
        }
        work
    };
    let parts: Vec<ThreadScratch> = seen.samples.par_chunks(rows).map(one).collect();
    let mut sum = vec![0.0f32; params.len()];
    let mut loss = 0.0;
    for part in parts {
        sum.iter_mut().zip(&part.gradient).for_each(|(sum, x)| *sum += x);
        loss += part.loss;
        scratch_pool.give(part);
    }
    let norm = sum.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    Some((sum, [loss as f32, norm as f32]))
}

impl ThreadScratch {
    fn begin(&mut self, layers: &[Layer], params: usize) {
        let widths = layers.iter().map(|l| l.from).chain(layers.last().map(|l| l.to));
        let widest = widths.clone().max().unwrap_or(0);
        self.given.resize_with(layers.len() + 1, Vec::new);
        self.given.iter_mut().zip(widths).for_each(|(given, width)| given.resize(ROWS * width, 0.0));
        self.slopes.iter_mut().for_each(|slope| slope.resize(ROWS * widest, 0.0));
        self.gradient.clear();
        self.gradient.resize(params, 0.0);
        self.loss = 0.0;
    }

    /// Some rows forward and back; adds to gradient and loss, both of the mean over `count` samples.
    fn rows(&mut self, layers: &[Layer], params: &[f32], seen: &HostBatch<'_>, target: Target, count: usize) {
        let rows = seen.samples.len();
        let Some((first, later)) = self.given.split_first_mut() else { return };
        seen.gather(first);
        let mut x: &mut [f32] = first;
        for (at, (layer, next)) in layers.iter().zip(later).enumerate() {
            let z = part(next, rows * layer.to);
            let (weight, bias) = layer.split(params);
            z.chunks_exact_mut(layer.to).for_each(|row| row.copy_from_slice(bias));
            product(
                z,
                part(x, rows * layer.from),
                weight,
                [rows, layer.from, layer.to],
                [false; 2],
                Accum::Add,
            );
            if at + 1 < layers.len() {
                // Written so that NaN stays NaN.
                z.iter_mut().for_each(|z| *z = if *z < 0.0 { 0.0 } else { *z });
            }
            x = next;
        }
        let [here, there] = &mut self.slopes;
        let answers = part(x, rows * seen.outputs);
        self.loss += lose(target, answers, seen, part(here, rows * seen.outputs), count);
        let (mut here, mut there) = (here, there);
        for (at, layer) in layers.iter().enumerate().rev() {
            let slope = part(here, rows * layer.to);
            let Some(x) = self.given.get_mut(at).map(|x| part(x, rows * layer.from)) else { return };
            let (weight, bias) = layer.split_mut(&mut self.gradient);
            for row in slope.chunks_exact(layer.to) {
                bias.iter_mut().zip(row).for_each(|(sum, s)| *sum += s);
            }
            product(weight, x, slope, [layer.from, rows, layer.to], [true, false], Accum::Add);
            if at > 0 {
                let before = part(there, rows * layer.from);
                let (weight, _) = layer.split(params);
                product(before, slope, weight, [rows, layer.to, layer.from], [false, true], Accum::Replace);
                before.iter_mut().zip(x).for_each(|(s, x)| *s = if *x > 0.0 { *s } else { 0.0 });
                (here, there) = (there, here);
            }
        }
    }
}

fn part(all: &mut [f32], count: usize) -> &mut [f32] {
    let count = count.min(all.len());
    all.split_at_mut(count).0
}

/// `out (+)= a · b` of `[m, k]` and `[k, n]`, each given row by row as it is or turned.
fn product(out: &mut [f32], a: &[f32], b: &[f32], [m, k, n]: [usize; 3], turned: [bool; 2], how: Accum) {
    let of = |values, rows, columns, turned| match turned {
        false => MatRef::from_row_major_slice(values, rows, columns),
        true => MatRef::from_row_major_slice(values, columns, rows).transpose(),
    };
    let [ta, tb] = turned;
    matmul(MatMut::from_row_major_slice_mut(out, m, n), how, of(a, m, k, ta), of(b, k, n, tb), 1.0, Par::Seq);
}

/// The loss of some rows as their share of the mean, and how it changes by the answers.
fn lose(target: Target, answers: &[f32], seen: &HostBatch<'_>, slopes: &mut [f32], count: usize) -> f64 {
    let share = 1.0 / count.max(1) as f64;
    let mut sum = 0.0;
    let rows = answers.chunks_exact(seen.outputs).zip(slopes.chunks_exact_mut(seen.outputs));
    for ((z, slope), sample) in rows.zip(seen.samples) {
        let y = seen.target(*sample);
        match target {
            Target::Direction | Target::Return { .. } | Target::VolReturn { .. } => {
                for ((z, y), slope) in z.iter().zip(y).zip(slope) {
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
                    *slope = (share * by) as f32;
                }
            }
            Target::TripleBarrier { .. } => {
                let most = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let total: f64 = z.iter().map(|z| f64::from(z - most).exp()).sum();
                for ((z, y), slope) in z.iter().zip(y).zip(slope) {
                    let (over, y) = (f64::from(z - most), f64::from(*y));
                    sum -= y * (over - total.ln());
                    *slope = (share * (over.exp() / total - y)) as f32;
                }
            }
        }
    }
    share * sum
}
