//! Linear model over the flattened window.

use burn::tensor::Tensor;

use super::{ModelSpec, ParamCursor, ParamMatrix};

pub(super) fn param_matrices(spec: &ModelSpec) -> Vec<ParamMatrix> {
    ParamMatrix::linear("out", spec.window * spec.features, spec.outputs, 1.0 / 3.0).to_vec()
}

pub(super) fn forward(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Tensor<2> {
    let [batch, window, features] = x.dims();
    cursor.linear(x.reshape([batch, window * features]))
}
