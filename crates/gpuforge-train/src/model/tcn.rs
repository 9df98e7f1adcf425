//! Causal convolutions over time: layer `l` reads the bars `0, 2^l, 2·2^l …` back, and adds to what it read.
//!
//! A convolution is one product per tap, of rows that are moved along time. Nothing but products is needed, so every
//! backend has it, and no bar can read a later one.

use burn::tensor::{Tensor, activation};

use super::{Hand, Piece, Spec};

/// Pieces of what comes in, and of a layer.
pub(super) const FIRST: usize = 2;
pub(super) const EACH: usize = 2;

pub(super) fn pieces(spec: &Spec, channels: usize, kernel: usize, layers: usize) -> Vec<Piece> {
    let mut pieces = Piece::layer("in", spec.features, channels, 1.0).to_vec();
    for layer in 0..layers {
        // All taps side by side: their sum has the variance of one product over all of them.
        pieces.extend(Piece::layer(&format!("conv.{layer}"), kernel * channels, channels, 2.0));
    }
    pieces.extend(Piece::layer("out", channels, spec.outputs, 1.0 / 3.0));
    pieces
}

/// The next `layer`, counted from 0.
pub(super) fn layer(hand: &mut Hand<'_>, x: Tensor<3>, kernel: usize, layer: usize) -> Tensor<3> {
    let taps = (0..kernel).map(|tap| later(x.clone(), tap << layer)).collect();
    x + activation::relu(hand.layer(Tensor::cat(taps, 2)))
}

pub(super) fn last(hand: &mut Hand<'_>, x: Tensor<3>) -> Tensor<2> {
    let [batch, window, channels] = x.dims();
    hand.layer(x.slice([0..batch, window - 1..window, 0..channels]).reshape([batch, channels]))
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
