//! AdamW step on host memory: one fused pass over four vectors instead of a dozen.

use burn::{
    backend::Flex,
    tensor::{Device, Tensor},
};

use super::{BETA, EPSILON};

/// What a step multiplies by; the same for every parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors {
    /// Of the gradient.
    pub(super) shorten: f32,
    /// Of the parameter, added to the gradient.
    pub(super) mixed: f32,
    /// What of the parameter stays.
    pub(super) kept: f32,
    /// Of the mean of gradients: the rate, and what the mean misses at the beginning.
    pub(super) rate: f32,
    /// Of the root of the mean of squares.
    pub(super) size: f32,
}

/// Parameters, mean and square after a step, or what was given where they are not in host memory.
pub(super) fn step(
    device: &Device,
    [flat, mean, square]: [&mut Tensor<1>; 3],
    gradient: &Tensor<1>,
    factors: Factors,
) -> bool {
    if *device != Device::flex() {
        return false;
    }
    let own = |tensor: &mut Tensor<1>| tensor.extract().try_into_primitive::<Flex>().ok();
    let slope = gradient.clone().try_into_primitive::<Flex>().ok();
    let (Some(mut f), Some(mut m), Some(mut s), Some(g)) = (own(flat), own(mean), own(square), slope) else {
        return false;
    };
    let g = g.to_contiguous();
    // Nobody else holds them, so nothing is copied; somebody who does keeps the old numbers.
    advance([f.storage_mut(), m.storage_mut(), s.storage_mut()], g.storage(), factors);
    *flat = Tensor::from_primitive::<Flex>(f);
    *mean = Tensor::from_primitive::<Flex>(m);
    *square = Tensor::from_primitive::<Flex>(s);
    true
}

/// Reads a vector that lies in host memory; `None` where it does not.
pub(super) fn read<T>(values: &Tensor<1>, work: impl FnOnce(&[f32]) -> T) -> Option<T> {
    if values.device() != Device::flex() {
        return None;
    }
    let own = values.clone().try_into_primitive::<Flex>().ok()?;
    own.as_slice::<f32>().map(work)
}

fn advance([flat, mean, square]: [&mut [f32]; 3], gradient: &[f32], by: Factors) {
    let [one, two] = BETA;
    for (((p, m), s), g) in flat.iter_mut().zip(mean).zip(square).zip(gradient) {
        let g = g * by.shorten + by.mixed * *p;
        *m = one * *m + (1.0 - one) * g;
        *s = two * *s + (1.0 - two) * (g * g);
        *p = by.kept * *p - by.rate * *m / (by.size * s.sqrt() + EPSILON);
    }
}
