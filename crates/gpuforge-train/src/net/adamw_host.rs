//! AdamW step on host memory: one fused pass over four vectors instead of a dozen.

use burn::{
    backend::Flex,
    tensor::{Device, Tensor},
};

use super::{BETA, EPSILON};

/// Scalars of a step; the same for every parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors {
    /// Gradient clipping factor.
    pub(super) clip_factor: f32,
    /// L2 penalty (Adam): multiple of the parameter added to the gradient.
    pub(super) mixed: f32,
    /// Decoupled decay (AdamW): multiplies the parameter.
    pub(super) kept: f32,
    /// Learning rate over the bias correction of the first moment.
    pub(super) rate: f32,
    /// Bias correction of the root of the second moment.
    pub(super) size: f32,
}

/// Applies a step in place; `false` if the tensors are not in host memory.
pub(super) fn step(
    device: &Device,
    [flat, first_moment, second_moment]: [&mut Tensor<1>; 3],
    gradient: &Tensor<1>,
    factors: Factors,
) -> bool {
    if *device != Device::flex() {
        return false;
    }
    let own = |tensor: &mut Tensor<1>| tensor.extract().try_into_primitive::<Flex>().ok();
    let gradient_data = gradient.clone().try_into_primitive::<Flex>().ok();
    let (Some(mut f), Some(mut m), Some(mut s), Some(g)) =
        (own(flat), own(first_moment), own(second_moment), gradient_data)
    else {
        return false;
    };
    let g = g.to_contiguous();
    // Uniquely owned storage is updated in place; a shared one is copied on write.
    advance([f.storage_mut(), m.storage_mut(), s.storage_mut()], g.storage(), factors);
    *flat = Tensor::from_primitive::<Flex>(f);
    *first_moment = Tensor::from_primitive::<Flex>(m);
    *second_moment = Tensor::from_primitive::<Flex>(s);
    true
}

/// Borrows a vector in host memory; `None` if it is on a device.
pub(super) fn read<T>(values: &Tensor<1>, f: impl FnOnce(&[f32]) -> T) -> Option<T> {
    if values.device() != Device::flex() {
        return None;
    }
    let own = values.clone().try_into_primitive::<Flex>().ok()?;
    own.as_slice::<f32>().map(f)
}

fn advance([flat, first_moment, second_moment]: [&mut [f32]; 3], gradient: &[f32], by: Factors) {
    let [one, two] = BETA;
    for (((p, m), s), g) in flat.iter_mut().zip(first_moment).zip(second_moment).zip(gradient) {
        let g = g * by.clip_factor + by.mixed * *p;
        *m = one * *m + (1.0 - one) * g;
        *s = two * *s + (1.0 - two) * (g * g);
        *p = by.kept * *p - by.rate * *m / (by.size * s.sqrt() + EPSILON);
    }
}
