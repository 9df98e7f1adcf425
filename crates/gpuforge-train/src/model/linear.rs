//! The baseline: one weighted sum over the whole window.

use burn::tensor::Tensor;

use super::{Hand, Piece, Spec};

pub(super) fn pieces(spec: &Spec) -> Vec<Piece> {
    Piece::layer("out", spec.window * spec.features, spec.outputs, 1.0 / 3.0).to_vec()
}

pub(super) fn forward(hand: &mut Hand<'_>, x: Tensor<3>) -> Tensor<2> {
    let [batch, window, features] = x.dims();
    hand.layer(x.reshape([batch, window * features]))
}
