//! MLP: linear layers with ReLU between them.

use burn::tensor::{Tensor, activation};

use super::{ModelSpec, ParamCursor, ParamMatrix};

pub(super) fn param_matrices(spec: &ModelSpec, hidden: &[usize]) -> Vec<ParamMatrix> {
    let mut from = spec.window * spec.features;
    let mut param_matrices = Vec::new();
    for (at, to) in hidden.iter().enumerate() {
        param_matrices.extend(ParamMatrix::layer(&format!("hidden.{at}"), from, *to, 2.0));
        from = *to;
    }
    param_matrices.extend(ParamMatrix::layer("out", from, spec.outputs, 1.0 / 3.0));
    param_matrices
}

pub(super) fn forward(cursor: &mut ParamCursor<'_>, x: Tensor<3>, layers: usize) -> Tensor<2> {
    let [batch, window, features] = x.dims();
    let mut x = x.reshape([batch, window * features]);
    for _ in 0..layers {
        x = activation::relu(cursor.layer(x));
    }
    cursor.layer(x)
}
