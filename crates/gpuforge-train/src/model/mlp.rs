//! MLP: linear layers with ReLU between them.

use burn::tensor::{Tensor, activation};

use super::{ModelSpec, ParamCursor, ParamMatrix};

pub(super) fn param_matrices(spec: &ModelSpec, hidden: &[usize]) -> Vec<ParamMatrix> {
    let mut from = spec.window * spec.features;
    let mut matrices = Vec::new();
    for (at, to) in hidden.iter().enumerate() {
        matrices.extend(ParamMatrix::linear(&format!("hidden.{at}"), from, *to, 2.0));
        from = *to;
    }
    matrices.extend(ParamMatrix::linear("out", from, spec.outputs, 1.0 / 3.0));
    matrices
}

pub(super) fn forward(cursor: &mut ParamCursor<'_>, x: Tensor<3>, layers: usize) -> Tensor<2> {
    let [batch, window, features] = x.dims();
    let mut x = x.reshape([batch, window * features]);
    for _ in 0..layers {
        x = activation::relu(cursor.linear(x));
    }
    cursor.linear(x)
}
