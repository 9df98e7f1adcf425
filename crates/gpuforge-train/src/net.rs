//! Network: loss, gradient and optimiser step (Adam, AdamW) over one parameter vector.

mod adamw_host;
mod backward;
mod mlp_cpu;

use std::{ops::Range, sync::Arc};

use burn::tensor::{Device, FloatDType, Tensor, activation};
use serde::{Deserialize, Serialize};

use adamw_host::Factors;

use crate::{
    data::target::Target,
    device_table::{DeviceBatch, DeviceTable, HostBatch, SampleOrder, TrainBackend},
    model::{ModelSpec, ParamMatrix, divide},
};

/// Whose step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// Decay is part of the gradient.
    Adam,
    /// Decay is apart from the gradient (Loshchilov and Hutter, 2019).
    AdamW,
}

/// In what activations and their gradients are computed. Parameters, moments and losses are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 16 bits, a narrow range: gradients are scaled so that small ones are not lost.
    F16,
    /// 16 bits, the range of f32.
    Bf16,
}

impl Precision {
    /// All of them, by name.
    pub const ALL: [(&'static str, Precision); 3] =
        [("f32", Precision::F32), ("f16", Precision::F16), ("bf16", Precision::Bf16)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Precision::ALL.into_iter().find(|(_, p)| *p == self).map_or("f32", |(name, _)| name)
    }

    fn lower(self) -> Option<FloatDType> {
        match self {
            Precision::F32 => None,
            Precision::F16 => Some(FloatDType::F16),
            Precision::Bf16 => Some(FloatDType::BF16),
        }
    }

    /// Does the device compute in it?
    pub fn is_on(self, device: &Device) -> bool {
        self.lower().is_none_or(|kind| device.supports_dtype(kind))
    }

    fn cast<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self.lower() {
            Some(kind) => x.cast(kind),
            None => x,
        }
    }

    fn raise<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        if self == Precision::F32 { x } else { x.cast(FloatDType::F32) }
    }
}

/// How steps are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimiserConfig {
    /// Whose.
    pub optimiser: Optimiser,
    /// The highest learning rate.
    pub rate: f64,
    /// Share of all samples over which the rate rises.
    pub warm_up: f64,
    /// Decay of weights.
    pub decay: f64,
    /// The longest gradient; longer ones are shortened. 0 leaves all as they are.
    pub clip: f64,
}

impl Default for OptimiserConfig {
    fn default() -> Self {
        OptimiserConfig { optimiser: Optimiser::AdamW, rate: 1e-3, warm_up: 0.05, decay: 1e-2, clip: 1.0 }
    }
}

impl OptimiserConfig {
    /// The rate after a share of all samples: up in a line, then down along a cosine to nothing.
    pub fn rate_at(&self, done: f64) -> f64 {
        let done = done.clamp(0.0, 1.0);
        if done < self.warm_up {
            return self.rate * (done / self.warm_up).max(1e-3);
        }
        let rest = (done - self.warm_up) / (1.0 - self.warm_up).max(f64::MIN_POSITIVE);
        self.rate * 0.5 * (1.0 + (std::f64::consts::PI * rest).cos())
    }

    /// What a gradient of this length is multiplied by.
    pub fn shorten(&self, norm: f32) -> f32 {
        let most = self.clip as f32;
        if most > 0.0 && norm > most { most / norm } else { 1.0 }
    }
}

const BETA: [f32; 2] = [0.9, 0.999];
const EPSILON: f32 = 1e-8;

/// Parameters and what the optimiser remembers, on a device.
#[derive(Clone)]
pub struct Net {
    /// Which function.
    pub spec: ModelSpec,
    param_matrices: Vec<ParamMatrix>,
    /// Keep only what goes from stage to stage between forward and backward, and compute the rest again?
    pub recompute: bool,
    /// In what activations are computed.
    pub precision: Precision,
    /// What a loss is multiplied by before its gradient is made, and the gradient divided by afterwards.
    pub scale: f32,
    /// Parameters.
    pub flat: Tensor<1>,
    /// Mean of the gradients.
    pub mean: Tensor<1>,
    /// Mean of their squares.
    pub square: Tensor<1>,
    /// Steps made.
    pub steps: i32,
    scratch_pool: Arc<mlp_cpu::ScratchPool>,
}

/// The gradient of a batch.
pub struct Gradient {
    /// Of all parameters.
    pub flat: Tensor<1>,
    /// Loss and length, still on the device.
    pub scalars: Tensor<1>,
}

impl Net {
    /// With new parameters.
    pub fn begin(spec: &ModelSpec, seed: u64, backend: &TrainBackend) -> Net {
        let flat = backend.parameters(&spec.begin(seed));
        Net::from_parts(spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0)
    }

    /// With parameters from elsewhere.
    pub fn from_parts(
        spec: &ModelSpec,
        flat: Tensor<1>,
        mean: Tensor<1>,
        square: Tensor<1>,
        steps: i32,
    ) -> Net {
        Net {
            param_matrices: spec.param_matrices(),
            spec: spec.clone(),
            recompute: false,
            precision: Precision::F32,
            scale: 1.0,
            flat,
            mean,
            square,
            steps,
            scratch_pool: Arc::default(),
        }
    }

    /// Answers without anything being remembered for a gradient.
    pub fn answer(&self, x: Tensor<3>) -> crate::model::Output {
        self.spec.forward(&divide(&self.param_matrices, &self.flat), x)
    }

    /// Loss and gradient of some samples, the shortest way there is: simple models in host memory need no tape.
    pub fn gradient_of(
        &self,
        table: &DeviceTable,
        order: &SampleOrder,
        of: Range<usize>,
        target: Target,
    ) -> Gradient {
        let simple = self.precision == Precision::F32 && self.spec.stages().is_empty();
        let made = simple.then(|| {
            host::read(&self.flat, |params| {
                let work = |seen: &HostBatch<'_>| {
                    mlp_cpu::gradient(&self.spec, params, seen, target, &self.scratch_pool)
                };
                table.on_host(order, of.clone(), work).flatten()
            })
        });
        match made.flatten().flatten() {
            Some((flat, scalars)) => {
                Gradient { flat: table.backend.own(flat), scalars: table.backend.own(scalars.to_vec()) }
            }
            None => self.gradient(table.draw(order, of), target),
        }
    }

    /// Loss and gradient of a batch.
    pub fn gradient(&self, batch: DeviceBatch, target: Target) -> Gradient {
        let made = backward::gradient(self, &divide(&self.param_matrices, &self.flat), batch, target);
        let even = |x: Tensor<1>| if self.scale == 1.0 { x } else { x.mul_scalar(1.0 / self.scale) };
        let flat = even(Tensor::cat(made.params, 0));
        let norm = flat.clone().square().sum().sqrt();
        let scalars = Tensor::cat(vec![even(made.value).reshape([1]), norm.reshape([1])], 0);
        Gradient { flat, scalars }
    }

    /// One step along a gradient that is multiplied by `shorten` first.
    pub fn step(&mut self, gradient: Tensor<1>, shorten: f32, rate: f32, how: &OptimiserConfig) {
        self.steps += 1;
        let decay = how.decay as f32;
        // Both means begin at 0; what they miss is made good here (Kingma and Ba, 2015).
        let [short, shorter] = BETA.map(|beta| 1.0 - beta.powi(self.steps));
        let apart = how.optimiser == Optimiser::AdamW;
        let by = Factors {
            shorten,
            mixed: if apart { 0.0 } else { decay },
            kept: if apart { 1.0 - rate * decay } else { 1.0 },
            rate: rate / short,
            size: 1.0 / shorter.sqrt(),
        };
        let device = self.flat.device();
        let own = [&mut self.flat, &mut self.mean, &mut self.square];
        if !adamw_host::step(&device, own, &gradient, by) {
            self.step_there(gradient, by);
        }
    }

    /// The same as operations of the device.
    fn step_there(&mut self, gradient: Tensor<1>, by: Factors) {
        let [one, two] = BETA;
        let mut gradient = if by.shorten == 1.0 { gradient } else { gradient.mul_scalar(by.shorten) };
        if by.mixed != 0.0 {
            gradient = gradient + self.flat.clone().mul_scalar(by.mixed);
        }
        self.mean = self.mean.clone().mul_scalar(one) + gradient.clone().mul_scalar(1.0 - one);
        self.square = self.square.clone().mul_scalar(two) + gradient.square().mul_scalar(1.0 - two);
        let size = self.square.clone().sqrt().mul_scalar(by.size).add_scalar(EPSILON);
        let step = self.mean.clone().mul_scalar(by.rate) / size;
        let kept = if by.kept == 1.0 { self.flat.clone() } else { self.flat.clone().mul_scalar(by.kept) };
        self.flat = kept - step;
    }
}

/// The mean loss of a batch: of a logit, of three, or the squared distance of a number.
pub fn loss(target: Target, answers: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
    match target {
        // (1 - y) z - ln sigma(z): what -y ln sigma(z) - (1 - y) ln sigma(-z) is, without either overflowing.
        Target::Direction => {
            (y.neg().add_scalar(1.0) * answers.clone() - activation::log_sigmoid(answers)).mean()
        }
        Target::TripleBarrier { .. } => {
            let likely = activation::log_softmax(answers, 1);
            (likely * y).sum_dim(1).mean().neg()
        }
        Target::Return { .. } | Target::VolReturn { .. } => (answers - y).square().mean(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;
    use crate::model::Architecture;

    #[test]
    fn rates_rise_then_fall_to_nothing() {
        let steps = OptimiserConfig { warm_up: 0.1, rate: 1.0, ..OptimiserConfig::default() };
        assert!(steps.rate_at(0.0) > 0.0 && steps.rate_at(0.0) < 0.01);
        assert!((steps.rate_at(0.05) - 0.5).abs() < 1e-9);
        assert!((steps.rate_at(0.1) - 1.0).abs() < 1e-9);
        assert!((steps.rate_at(0.55) - 0.5).abs() < 1e-9);
        assert!(steps.rate_at(1.0).abs() < 1e-9 && steps.rate_at(2.0).abs() < 1e-9);
    }

    #[test]
    fn gradients_are_shortened_only_where_they_are_too_long() {
        let steps = OptimiserConfig { clip: 2.0, ..OptimiserConfig::default() };
        assert_eq!((steps.shorten(1.9), steps.shorten(4.0)), (1.0, 0.5));
        assert_eq!(OptimiserConfig { clip: 0.0, ..steps }.shorten(1e9), 1.0);
    }

    /// Both ways of making a step, for both optimisers, with and without what they leave out.
    #[test]
    fn a_step_in_host_memory_is_that_of_operations() {
        let backend = TrainBackend::cpu();
        let spec =
            ModelSpec { shape: Architecture::Mlp { hidden: vec![9] }, features: 7, window: 1, outputs: 1 };
        for optimiser in [Optimiser::Adam, Optimiser::AdamW] {
            for (decay, shorten) in [(0.0, 1.0), (0.1, 0.3)] {
                let how = OptimiserConfig { optimiser, decay, ..OptimiserConfig::default() };
                let mut here = Net::begin(&spec, 3, &backend);
                let mut there = here.clone();
                for round in 0..5 {
                    let slope: Vec<f32> = (0..spec.len()).map(|i| ((i * 7 + round) as f32).sin()).collect();
                    here.step(backend.parameters(&slope), shorten, 1e-2, &how);
                    there.steps += 1;
                    let [short, shorter] = BETA.map(|beta| 1.0 - beta.powi(there.steps));
                    let apart = optimiser == Optimiser::AdamW;
                    let by = Factors {
                        shorten,
                        mixed: if apart { 0.0 } else { decay as f32 },
                        kept: if apart { 1.0 - 1e-2 * decay as f32 } else { 1.0 },
                        rate: 1e-2 / short,
                        size: 1.0 / shorter.sqrt(),
                    };
                    there.step_there(backend.parameters(&slope), by);
                }
                let [a, b] = [here, there].map(|net| backend.fetch(net.flat).unwrap());
                let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-5, "{optimiser:?} {decay}: {worst}");
            }
        }
    }
}
