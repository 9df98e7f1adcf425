//! Transformer over indicators: a token is an indicator with its window, projected to the width, plus an embedding. The
//! output rests on a weighted mean of all tokens (attention pooling); the weights are the importance of each indicator.

use burn::tensor::{Tensor, activation};

use super::{Init, ModelSpec, Output, ParamCursor, ParamMatrix};

/// The layer inside is so many times as wide.
pub(super) const INNER: usize = 4;
/// Pieces of what makes tokens, and of a layer.
pub(super) const FIRST: usize = 3;
pub(super) const EACH: usize = 12;

pub(super) fn param_matrices(spec: &ModelSpec, width: usize, layers: usize) -> Vec<ParamMatrix> {
    let mut param_matrices = ParamMatrix::layer("value", spec.window, width, 1.0).to_vec();
    param_matrices.push(ParamMatrix::new("who", [spec.features, width], Init::Even(0.035)));
    for layer in 0..layers {
        let name = |part: &str| format!("layer.{layer}.{part}");
        param_matrices.extend(ParamMatrix::norm(&name("before"), width));
        param_matrices.extend(ParamMatrix::layer(&name("ask"), width, 3 * width, 1.0 / 3.0));
        param_matrices.extend(ParamMatrix::layer(&name("answer"), width, width, 1.0 / 3.0));
        param_matrices.extend(ParamMatrix::norm(&name("between"), width));
        param_matrices.extend(ParamMatrix::layer(&name("wide"), width, INNER * width, 2.0 / 3.0));
        param_matrices.extend(ParamMatrix::layer(&name("narrow"), INNER * width, width, 1.0 / 3.0));
    }
    param_matrices.extend(ParamMatrix::norm("last", width));
    param_matrices.extend(ParamMatrix::layer("listen", width, 1, 1.0 / 3.0));
    param_matrices.extend(ParamMatrix::layer("out", width, spec.outputs, 1.0 / 3.0));
    param_matrices
}

/// Windows of indicators as tokens.
pub(super) fn tokens(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Tensor<3> {
    let x: Tensor<3> = cursor.layer(x.swap_dims(1, 2));
    x + cursor.matrix().unsqueeze::<3>()
}

/// Attention, then the layer inside; each adds to what comes in.
pub(super) fn layer(cursor: &mut ParamCursor<'_>, x: Tensor<3>, heads: usize) -> Tensor<3> {
    let normed = cursor.norm(x.clone());
    let asked = cursor.layer(normed);
    let x = x + cursor.layer(attend(asked, heads));
    let normed = cursor.norm(x.clone());
    let inner = activation::gelu(cursor.layer(normed));
    x + cursor.layer(inner)
}

pub(super) fn last(cursor: &mut ParamCursor<'_>, x: Tensor<3>) -> Output {
    let [batch, features, width] = x.dims();
    let x = cursor.norm(x);
    let attention = activation::softmax(cursor.layer(x.clone()).reshape([batch, features]), 1);
    let mean = attention.clone().reshape([batch, 1, features]).matmul(x).reshape([batch, width]);
    Output { values: cursor.layer(mean), attention: Some(attention) }
}

/// Softmax(q · kᵀ / √d) · v, head by head; the input holds q, k and v concatenated.
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
