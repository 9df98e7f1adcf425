//! Layers with rectifiers between them.

use burn::tensor::{Tensor, activation};

use super::{Hand, Piece, Spec};

pub(super) fn pieces(spec: &Spec, hidden: &[usize]) -> Vec<Piece> {
    let mut from = spec.window * spec.features;
    let mut pieces = Vec::new();
    for (at, to) in hidden.iter().enumerate() {
        pieces.extend(Piece::layer(&format!("hidden.{at}"), from, *to, 2.0));
        from = *to;
    }
    pieces.extend(Piece::layer("out", from, spec.outputs, 1.0 / 3.0));
    pieces
}

pub(super) fn forward(hand: &mut Hand<'_>, x: Tensor<3>, layers: usize) -> Tensor<2> {
    let [batch, window, features] = x.dims();
    let mut x = x.reshape([batch, window * features]);
    for _ in 0..layers {
        x = activation::relu(hand.layer(x));
    }
    hand.layer(x)
}
