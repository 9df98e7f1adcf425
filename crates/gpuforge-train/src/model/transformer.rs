//! Transformer over indicators: a token is an indicator with its window, projected to the width, plus an embedding. The
//! output rests on a weighted mean of all tokens (attention pooling); the weights are the importance of each indicator.

use burn::tensor::{Tensor, activation};

use super::{Init, ModelSpec, Output, ParamCursor, ParamMatrix};

/// Feed-forward width as a multiple of the token width.
pub(super) const FEED_FORWARD_FACTOR: usize = 4;
/// Matrices of the token embedding, and of each layer.
pub(super) const INPUT_MATRICES: usize = 3;
pub(super) const LAYER_MATRICES: usize = 12;

pub(super) fn param_matrices(spec: &ModelSpec, width: usize, layers: usize) -> Vec<ParamMatrix> {
    let mut matrices = ParamMatrix::linear("value", spec.window, width, 1.0).to_vec();
    matrices.push(ParamMatrix::new("who", [spec.features, width], Init::Uniform(0.035)));
    for layer in 0..layers {
        let name = |part: &str| format!("layer.{layer}.{part}");
        matrices.extend(ParamMatrix::layer_norm(&name("before"), width));
        matrices.extend(ParamMatrix::linear(&name("ask"), width, 3 * width, 1.0 / 3.0));
        matrices.extend(ParamMatrix::linear(&name("answer"), width, width, 1.0 / 3.0));
        matrices.extend(ParamMatrix::layer_norm(&name("between"), width));
        matrices.extend(ParamMatrix::linear(&name("wide"), width, FEED_FORWARD_FACTOR * width, 2.0 / 3.0));
        matrices.extend(ParamMatrix::linear(&name("narrow"), FEED_FORWARD_FACTOR * width, width, 1.0 / 3.0));
    }
    matrices.extend(ParamMatrix::layer_norm("last", width));
    matrices.extend(ParamMatrix::linear("listen", width, 1, 1.0 / 3.0));
    matrices.extend(ParamMatrix::linear("out", width, spec.outputs, 1.0 / 3.0));
    matrices
}

/// Token embedding: projected windows plus one learned vector per indicator.
pub(super) fn tokens(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Tensor<3> {
    let x: Tensor<3> = cursor.linear(x.swap_dims(1, 2));
    x + cursor.matrix().unsqueeze::<3>()
}

/// Pre-norm transformer layer: attention, then feed-forward, both residual.
pub(super) fn layer(cursor: &mut ParamCursor<'_>, x: Tensor<3>, heads: usize) -> Tensor<3> {
    let normed = cursor.layer_norm(x.clone());
    let qkv = cursor.linear(normed);
    let x = x + cursor.linear(attention(qkv, heads));
    let normed = cursor.layer_norm(x.clone());
    let inner = activation::gelu(cursor.linear(normed));
    x + cursor.linear(inner)
}

pub(super) fn head(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Output {
    let [batch, features, width] = x.dims();
    let x = cursor.layer_norm(x);
    let attention = activation::softmax(cursor.linear(x.clone()).reshape([batch, features]), 1);
    let mean = attention.clone().reshape([batch, 1, features]).matmul(x).reshape([batch, width]);
    Output { values: cursor.linear(mean), attention: Some(attention) }
}

/// Softmax(q · kᵀ / √d) · v, head by head; the input holds q, k and v concatenated.
fn attention(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    let [batch, tokens, three] = qkv.dims();
    let width = three / 3;
    let each = width / heads.max(1);
    let part = |at: usize| {
        let own = qkv.clone().slice([0..batch, 0..tokens, at * width..(at + 1) * width]);
        own.reshape([batch, tokens, heads, each]).swap_dims(1, 2)
    };
    let (q, k, v): (Tensor<4>, Tensor<4>, Tensor<4>) = (part(0), part(1), part(2));
    let scores = q.matmul(k.swap_dims(2, 3)).mul_scalar(1.0 / (each as f32).sqrt());
    activation::softmax(scores, 3).matmul(v).swap_dims(1, 2).reshape([batch, tokens, width])
}
