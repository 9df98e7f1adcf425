//! TCN: causal dilated convolutions; layer `l` reads the bars `0, 2^l, 2·2^l …` back, with a residual connection.
//!
//! A convolution is one product per tap, of rows that are moved along time. Nothing but products is needed, so every
//! backend has it, and no bar can read a later one.

use burn::tensor::{Tensor, activation};

use super::{ModelSpec, ParamCursor, ParamMatrix};

/// Pieces of what comes in, and of a layer.
pub(super) const FIRST: usize = 2;
pub(super) const EACH: usize = 2;

pub(super) fn param_matrices(
    spec: &ModelSpec,
    channels: usize,
    kernel: usize,
    layers: usize,
) -> Vec<ParamMatrix> {
    let mut param_matrices = ParamMatrix::layer("in", spec.features, channels, 1.0).to_vec();
    for layer in 0..layers {
        // All taps concatenated: their sum has the variance of one product over all of them.
        param_matrices.extend(ParamMatrix::layer(&format!("conv.{layer}"), kernel * channels, channels, 2.0));
    }
    param_matrices.extend(ParamMatrix::layer("out", channels, spec.outputs, 1.0 / 3.0));
    param_matrices
}

/// The next `layer`, counted from 0.
pub(super) fn layer(cursor: &mut ParamCursor<'_>, x: Tensor<3>, kernel: usize, layer: usize) -> Tensor<3> {
    let taps = (0..kernel).map(|tap| later(x.clone(), tap << layer)).collect();
    x + activation::relu(cursor.layer(Tensor::cat(taps, 2)))
}

pub(super) fn last(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Tensor<2> {
    let [batch, window, channels] = x.dims();
    cursor.layer(x.slice([0..batch, window - 1..window, 0..channels]).reshape([batch, channels]))
}

/// Every row `by` bars later; the first ones are nothing.
fn later(x: Tensor<3>, by: usize) -> Tensor<3> {
    let [batch, window, channels] = x.dims();
    if by == 0 {
        return x;
    }
    let nothing = Tensor::zeros([batch, by.min(window), channels], &x.device());
    match window.checked_sub(by).filter(|left| *left > 0) {
        Some(left) => Tensor::cat(vec![nothing, x.slice([0..batch, 0..left, 0..channels])], 1),
        None => nothing,
    }
}
