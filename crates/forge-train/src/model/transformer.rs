//! Attention between indicators. A token is an indicator: its window, brought to the width, and who it is. The answer rests
//! on a weighted mean of all tokens; the weights say how much each indicator was listened to.

use burn::tensor::{Tensor, activation};

use super::{Begin, Hand, Output, Piece, Spec};

/// The layer inside is so many times as wide.
const INNER: usize = 4;

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

pub(super) fn forward(hand: &mut Hand<'_>, x: Tensor<3>, heads: usize, layers: usize) -> Output {
    let [batch, _, features] = x.dims();
    let mut x: Tensor<3> = hand.layer(x.swap_dims(1, 2));
    x = x + hand.matrix().unsqueeze::<3>();
    for _ in 0..layers {
        let normed = hand.norm(x.clone());
        let asked = hand.layer(normed);
        let answer = attend(asked, heads);
        x = x + hand.layer(answer);
        let normed = hand.norm(x.clone());
        let inner = activation::gelu(hand.layer(normed));
        x = x + hand.layer(inner);
    }
    let x = hand.norm(x);
    let listened = activation::softmax(hand.layer(x.clone()).reshape([batch, features]), 1);
    let [_, _, width] = x.dims();
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
