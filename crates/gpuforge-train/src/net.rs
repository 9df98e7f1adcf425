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
    model::{ModelSpec, ParamMatrix, unflatten},
};

/// Optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// L2 penalty added to the gradient.
    Adam,
    /// Decoupled weight decay (Loshchilov and Hutter, 2019).
    AdamW,
}

/// Precision of activations and their gradients. Parameters, moments and losses are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 16 bits, narrow exponent range: needs loss scaling against gradient underflow.
    F16,
    /// 16 bits, exponent range of f32.
    Bf16,
}

impl Precision {
    /// All, by name.
    pub const ALL: [(&'static str, Precision); 3] =
        [("f32", Precision::F32), ("f16", Precision::F16), ("bf16", Precision::Bf16)];

    /// Name.
    pub fn name(self) -> &'static str {
        Precision::ALL.into_iter().find(|(_, p)| *p == self).map_or("f32", |(name, _)| name)
    }

    fn half(self) -> Option<FloatDType> {
        match self {
            Precision::F32 => None,
            Precision::F16 => Some(FloatDType::F16),
            Precision::Bf16 => Some(FloatDType::BF16),
        }
    }

    /// Whether the device supports it.
    pub fn is_on(self, device: &Device) -> bool {
        self.half().is_none_or(|kind| device.supports_dtype(kind))
    }

    fn cast<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self.half() {
            Some(kind) => x.cast(kind),
            None => x,
        }
    }

    fn upcast<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        if self == Precision::F32 { x } else { x.cast(FloatDType::F32) }
    }
}

/// Optimiser settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimiserConfig {
    /// Adam or AdamW.
    pub optimiser: Optimiser,
    /// Peak learning rate.
    #[serde(rename = "rate")]
    pub learning_rate: f64,
    /// Fraction of training for the linear warm-up.
    pub warm_up: f64,
    /// Weight decay.
    #[serde(rename = "decay")]
    pub weight_decay: f64,
    /// Gradient norm clipping; 0 disables it.
    #[serde(rename = "clip")]
    pub clip_norm: f64,
}

impl Default for OptimiserConfig {
    fn default() -> Self {
        OptimiserConfig {
            optimiser: Optimiser::AdamW,
            learning_rate: 1e-3,
            warm_up: 0.05,
            weight_decay: 1e-2,
            clip_norm: 1.0,
        }
    }
}

impl OptimiserConfig {
    /// Learning rate schedule: linear warm-up, then cosine decay to 0.
    pub fn learning_rate_at(&self, done: f64) -> f64 {
        let done = done.clamp(0.0, 1.0);
        if done < self.warm_up {
            return self.learning_rate * (done / self.warm_up).max(1e-3);
        }
        let rest = (done - self.warm_up) / (1.0 - self.warm_up).max(f64::MIN_POSITIVE);
        self.learning_rate * 0.5 * (1.0 + (std::f64::consts::PI * rest).cos())
    }

    /// Gradient multiplier for this norm.
    pub fn clip_factor(&self, norm: f32) -> f32 {
        let max = self.clip_norm as f32;
        if max > 0.0 && norm > max { max / norm } else { 1.0 }
    }
}

const BETA: [f32; 2] = [0.9, 0.999];
const EPSILON: f32 = 1e-8;

/// Parameters and optimiser state on a device.
#[derive(Clone)]
pub struct Net {
    /// Architecture.
    pub spec: ModelSpec,
    param_matrices: Vec<ParamMatrix>,
    /// Gradient checkpointing: keep stage inputs only, recompute the rest in the backward pass.
    pub recompute: bool,
    /// Precision of activations.
    pub precision: Precision,
    /// Loss scale: multiplies the loss before the backward pass, divides the gradient after it.
    pub loss_scale: f32,
    /// Flat parameter vector.
    pub flat: Tensor<1>,
    /// First moments (EMA of gradients).
    pub first_moment: Tensor<1>,
    /// Second moments (EMA of squared gradients).
    pub second_moment: Tensor<1>,
    /// Optimiser steps applied.
    pub steps: i32,
    scratch_pool: Arc<mlp_cpu::ScratchPool>,
}

/// Gradient of a batch.
pub struct Gradient {
    /// Flat gradient of all parameters.
    pub flat: Tensor<1>,
    /// Loss and gradient norm, still on the device.
    pub scalars: Tensor<1>,
}

impl Net {
    /// With initial parameters from a seed.
    pub fn init(spec: &ModelSpec, seed: u64, backend: &TrainBackend) -> Net {
        let flat = backend.parameters(&spec.init(seed));
        Net::from_parts(spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0)
    }

    /// With given parameters and optimiser state.
    pub fn from_parts(
        spec: &ModelSpec,
        flat: Tensor<1>,
        first_moment: Tensor<1>,
        second_moment: Tensor<1>,
        steps: i32,
    ) -> Net {
        Net {
            param_matrices: spec.param_matrices(),
            spec: spec.clone(),
            recompute: false,
            precision: Precision::F32,
            loss_scale: 1.0,
            flat,
            first_moment,
            second_moment,
            steps,
            scratch_pool: Arc::default(),
        }
    }

    /// Forward pass without autodiff.
    pub fn forward(&self, x: Tensor<3>) -> crate::model::Output {
        self.spec.forward(&unflatten(&self.param_matrices, &self.flat), x)
    }

    /// Loss and gradient of some samples: the fused CPU kernel for linear models and MLPs in host memory, else autodiff.
    pub fn gradient_of(
        &self,
        table: &DeviceTable,
        order: &SampleOrder,
        range: Range<usize>,
        target: Target,
    ) -> Gradient {
        let simple = self.precision == Precision::F32 && self.spec.stages().is_empty();
        let result = simple.then(|| {
            adamw_host::read(&self.flat, |params| {
                let grad = |batch: &HostBatch<'_>| {
                    mlp_cpu::gradient(&self.spec, params, batch, target, &self.scratch_pool)
                };
                table.with_host_batch(order, range.clone(), grad).flatten()
            })
        });
        match result.flatten().flatten() {
            Some((flat, scalars)) => Gradient {
                flat: table.backend.host_tensor(flat),
                scalars: table.backend.host_tensor(scalars.to_vec()),
            },
            None => self.gradient(table.batch(order, range), target),
        }
    }

    /// Loss and gradient of a batch.
    pub fn gradient(&self, batch: DeviceBatch, target: Target) -> Gradient {
        let result = backward::gradient(self, &unflatten(&self.param_matrices, &self.flat), batch, target);
        let unscale =
            |x: Tensor<1>| if self.loss_scale == 1.0 { x } else { x.mul_scalar(1.0 / self.loss_scale) };
        let flat = unscale(Tensor::cat(result.params, 0));
        let norm = flat.clone().square().sum().sqrt();
        let scalars = Tensor::cat(vec![unscale(result.loss).reshape([1]), norm.reshape([1])], 0);
        Gradient { flat, scalars }
    }

    /// One optimiser step; the gradient is multiplied by `clip_factor` first.
    pub fn step(&mut self, gradient: Tensor<1>, clip_factor: f32, rate: f32, config: &OptimiserConfig) {
        self.steps += 1;
        let decay = config.weight_decay as f32;
        // Bias correction: both moments start at 0 (Kingma and Ba, 2015).
        let [bias1, bias2] = BETA.map(|beta| 1.0 - beta.powi(self.steps));
        let decoupled = config.optimiser == Optimiser::AdamW;
        let by = Factors {
            clip_factor,
            mixed: if decoupled { 0.0 } else { decay },
            kept: if decoupled { 1.0 - rate * decay } else { 1.0 },
            rate: rate / bias1,
            size: 1.0 / bias2.sqrt(),
        };
        let device = self.flat.device();
        let own = [&mut self.flat, &mut self.first_moment, &mut self.second_moment];
        if !adamw_host::step(&device, own, &gradient, by) {
            self.step_on_device(gradient, by);
        }
    }

    /// The same step as tensor operations.
    fn step_on_device(&mut self, gradient: Tensor<1>, by: Factors) {
        let [one, two] = BETA;
        let mut gradient = if by.clip_factor == 1.0 { gradient } else { gradient.mul_scalar(by.clip_factor) };
        if by.mixed != 0.0 {
            gradient = gradient + self.flat.clone().mul_scalar(by.mixed);
        }
        self.first_moment =
            self.first_moment.clone().mul_scalar(one) + gradient.clone().mul_scalar(1.0 - one);
        self.second_moment =
            self.second_moment.clone().mul_scalar(two) + gradient.square().mul_scalar(1.0 - two);
        let size = self.second_moment.clone().sqrt().mul_scalar(by.size).add_scalar(EPSILON);
        let step = self.first_moment.clone().mul_scalar(by.rate) / size;
        let kept = if by.kept == 1.0 { self.flat.clone() } else { self.flat.clone().mul_scalar(by.kept) };
        self.flat = kept - step;
    }
}

/// Mean loss of a batch: binary cross-entropy, cross-entropy of three classes, or mean squared error.
pub fn loss(target: Target, predictions: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
    match target {
        // (1 - y) z - ln sigma(z): what -y ln sigma(z) - (1 - y) ln sigma(-z) is, without either overflowing.
        Target::Direction => {
            (y.neg().add_scalar(1.0) * predictions.clone() - activation::log_sigmoid(predictions)).mean()
        }
        Target::TripleBarrier { .. } => {
            let log_probs = activation::log_softmax(predictions, 1);
            (log_probs * y).sum_dim(1).mean().neg()
        }
        Target::Return { .. } | Target::VolReturn { .. } => (predictions - y).square().mean(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;
    use crate::model::Architecture;

    #[test]
    fn learning_rate_warms_up_then_decays_to_zero() {
        let config = OptimiserConfig { warm_up: 0.1, learning_rate: 1.0, ..OptimiserConfig::default() };
        assert!(config.learning_rate_at(0.0) > 0.0 && config.learning_rate_at(0.0) < 0.01);
        assert!((config.learning_rate_at(0.05) - 0.5).abs() < 1e-9);
        assert!((config.learning_rate_at(0.1) - 1.0).abs() < 1e-9);
        assert!((config.learning_rate_at(0.55) - 0.5).abs() < 1e-9);
        assert!(config.learning_rate_at(1.0).abs() < 1e-9 && config.learning_rate_at(2.0).abs() < 1e-9);
    }

    #[test]
    fn gradient_is_clipped_only_above_the_limit() {
        let config = OptimiserConfig { clip_norm: 2.0, ..OptimiserConfig::default() };
        assert_eq!((config.clip_factor(1.9), config.clip_factor(4.0)), (1.0, 0.5));
        assert_eq!(OptimiserConfig { clip_norm: 0.0, ..config }.clip_factor(1e9), 1.0);
    }

    /// Host and device step agree for both optimisers, with and without decay and clipping.
    #[test]
    fn host_step_equals_device_step() {
        let backend = TrainBackend::cpu();
        let spec = ModelSpec {
            architecture: Architecture::Mlp { hidden: vec![9] },
            features: 7,
            window: 1,
            outputs: 1,
        };
        for optimiser in [Optimiser::Adam, Optimiser::AdamW] {
            for (decay, clip_factor) in [(0.0, 1.0), (0.1, 0.3)] {
                let config = OptimiserConfig { optimiser, weight_decay: decay, ..OptimiserConfig::default() };
                let mut host = Net::init(&spec, 3, &backend);
                let mut device = host.clone();
                for round in 0..5 {
                    let gradient: Vec<f32> =
                        (0..spec.len()).map(|i| ((i * 7 + round) as f32).sin()).collect();
                    host.step(backend.parameters(&gradient), clip_factor, 1e-2, &config);
                    device.steps += 1;
                    let [bias1, bias2] = BETA.map(|beta| 1.0 - beta.powi(device.steps));
                    let decoupled = optimiser == Optimiser::AdamW;
                    let by = Factors {
                        clip_factor,
                        mixed: if decoupled { 0.0 } else { decay as f32 },
                        kept: if decoupled { 1.0 - 1e-2 * decay as f32 } else { 1.0 },
                        rate: 1e-2 / bias1,
                        size: 1.0 / bias2.sqrt(),
                    };
                    device.step_on_device(backend.parameters(&gradient), by);
                }
                let [a, b] = [host, device].map(|net| backend.fetch(net.flat).unwrap());
                let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-5, "{optimiser:?} {decay}: {worst}");
            }
        }
    }
}
