//! TCN: causal dilated convolutions; layer `l` reads the bars `0, 2^l, 2·2^l …` back, with a residual connection.
//!
//! A convolution is one matrix product over the concatenated, time-shifted taps (im2col). Every backend has a matrix product,
//! and no bar can read a later one.

use burn::tensor::{Tensor, activation};

use super::{ModelSpec, ParamCursor, ParamMatrix};

/// Matrices of the input layer, and of each convolution.
pub(super) const INPUT_MATRICES: usize = 2;
pub(super) const LAYER_MATRICES: usize = 2;

pub(super) fn param_matrices(
    spec: &ModelSpec,
    channels: usize,
    kernel: usize,
    layers: usize,
) -> Vec<ParamMatrix> {
    let mut matrices = ParamMatrix::linear("in", spec.features, channels, 1.0).to_vec();
    for layer in 0..layers {
        // All taps concatenated: their sum has the variance of one product over all of them.
        matrices.extend(ParamMatrix::linear(&format!("conv.{layer}"), kernel * channels, channels, 2.0));
    }
    matrices.extend(ParamMatrix::linear("out", channels, spec.outputs, 1.0 / 3.0));
    matrices
}

/// Residual block of `layer`, from 0.
pub(super) fn layer(cursor: &mut ParamCursor<'_>, x: Tensor<3>, kernel: usize, layer: usize) -> Tensor<3> {
    let taps = (0..kernel).map(|tap| later(x.clone(), tap << layer)).collect();
    x + activation::relu(cursor.linear(Tensor::cat(taps, 2)))
}

pub(super) fn head(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Tensor<2> {
    let [batch, window, channels] = x.dims();
    cursor.linear(x.slice([0..batch, window - 1..window, 0..channels]).reshape([batch, channels]))
}

/// Shifts rows `by` bars later, zero-padded.
fn later(x: Tensor<3>, by: usize) -> Tensor<3> {
    let [batch, window, channels] = x.dims();
    if by == 0 {
        return x;
    }
    let padding = Tensor::zeros([batch, by.min(window), channels], &x.device());
    match window.checked_sub(by).filter(|left| *left > 0) {
        Some(left) => Tensor::cat(vec![padding, x.slice([0..batch, 0..left, 0..channels])], 1),
        None => padding,
    }
}
