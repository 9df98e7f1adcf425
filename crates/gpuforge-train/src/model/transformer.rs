//! Attention between indicators. A token is an indicator: its window, brought to the width, and who it is. The answer rests
//! on a weighted mean of all tokens; the weights say how much each indicator was listened to.

use burn::tensor::{Tensor, activation};

use super::{Begin, Hand, Output, Piece, Spec};

/// The layer inside is so many times as wide.
pub(super) const INNER: usize = 4;
/// Pieces of what makes tokens, and of a layer.
pub(super) const FIRST: usize = 3;
pub(super) const EACH: usize = 12;

pub(super) fn pieces(spec: &Spec, width: usize, layers: usize) -> Vec<Piece> {
    let mut pieces = Piece::layer("value", spec.window, width, 1.0).to_vec();
    pieces.push(Piece::new("who", [spec.features, width], Begin::Even(0.035)));
    for layer in 0..layers {
        let name = |part: &str| format!("layer.{layer}.{part}");
        pieces.extend(Piece::norm(&name("before"), width));
        pieces.extend(Piece::layer(&name("ask"), width, 3 * width, 1.0 / 3.0));
        pieces.extend(Piece::layer(&name("answer"), width, width, 1.0 / 3.0));
        pieces.extend(Piece::norm(&name("between"), width));
        pieces.extend(Piece::layer(&name("wide"), width, INNER * width, 2.0 / 3.0));
        pieces.extend(Piece::layer(&name("narrow"), INNER * width, width, 1.0 / 3.0));
    }
    pieces.extend(Piece::norm("last", width));
    pieces.extend(Piece::layer("listen", width, 1, 1.0 / 3.0));
    pieces.extend(Piece::layer("out", width, spec.outputs, 1.0 / 3.0));
    pieces
}

/// Windows of indicators as tokens.
pub(super) fn tokens(hand: &mut Hand<'_>, x: Tensor<3>) -> Tensor<3> {
    let x: Tensor<3> = hand.layer(x.swap_dims(1, 2));
    x + hand.matrix().unsqueeze::<3>()
}

/// Attention, then the layer inside; each adds to what comes in.
pub(super) fn layer(hand: &mut Hand<'_>, x: Tensor<3>, heads: usize) -> Tensor<3> {
    let normed = hand.norm(x.clone());
    let asked = hand.layer(normed);
    let x = x + hand.layer(attend(asked, heads));
    let normed = hand.norm(x.clone());
    let inner = activation::gelu(hand.layer(normed));
    x + hand.layer(inner)
}

pub(super) fn last(hand: &mut Hand<'_>, x: Tensor<3>) -> Output {
    let [batch, features, width] = x.dims();
    let x = hand.norm(x);
    let listened = activation::softmax(hand.layer(x.clone()).reshape([batch, features]), 1);
    let mean = listened.clone().reshape([batch, 1, features]).matmul(x).reshape([batch, width]);
    Output { values: hand.layer(mean), listened: Some(listened) }
}

/// Softmax(q · kᵀ / √d) · v, head by head; what comes in holds q, k and v side by side.
fn attend(asked: Tensor<3>, heads: usize) -> Tensor<3> {
    let [batch, tokens, three] = asked.dims();
    let width = three / 3;
    let each = width / heads.max(1);
    let part = |at: usize| {
        let own = asked.clone().slice([0..batch, 0..tokens, at * width..(at + 1) * width]);
        own.reshape([batch, tokens, heads, each]).swap_dims(1, 2)
    };
    let (q, k, v): (Tensor<4>, Tensor<4>, Tensor<4>) = (part(0), part(1), part(2));
    let scores = q.matmul(k.swap_dims(2, 3)).mul_scalar(1.0 / (each as f32).sqrt());
    activation::softmax(scores, 3).matmul(v).swap_dims(1, 2).reshape([batch, tokens, width])
}
