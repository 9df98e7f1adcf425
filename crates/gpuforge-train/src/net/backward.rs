//! Backward pass: at once, keeping all activations, or with gradient checkpointing, stage by stage, recomputing activations;
//! both add in the same order and give the same bits.

use burn::tensor::Tensor;

use super::{Net, loss};
use crate::{data::target::Target, device_table::DeviceBatch};

/// A number and what it changes by.
pub(super) struct BackwardResult {
    /// The number: a loss, times the scale.
    pub(super) value: Tensor<1>,
    /// By each matrix of the parameters, flat.
    pub(super) params: Vec<Tensor<1>>,
    /// By what was given, where that was asked for.
    given: Option<Tensor<3>>,
}

/// Loss and gradient of a batch, both times the scale.
pub(super) fn gradient(
    net: &Net,
    params: &[Tensor<2>],
    batch: DeviceBatch,
    target: Target,
) -> BackwardResult {
    let (x, y) = (net.precision.cast(batch.x), batch.y);
    let scaled = |answers: Tensor<2>| {
        let loss = loss(target, net.precision.raise(answers), y);
        if net.scale == 1.0 { loss } else { loss.mul_scalar(net.scale) }
    };
    let stages = net.spec.stages();
    if !net.recompute || stages.is_empty() {
        return back(net, params, x, false, |params, x| scaled(net.spec.forward(params, x).values));
    }
    let (mut x, mut rest, mut given) = (x, params, Vec::with_capacity(stages.len()));
    for (at, param_matrices) in stages.into_iter().enumerate() {
        let (own, after) = rest.split_at(param_matrices.min(rest.len()));
        given.push((at, own, x.clone()));
        // With a tape that records nothing: without one, backends take shortcuts that round differently.
        let lower: Vec<Tensor<2>> = own.iter().map(|p| net.precision.cast(p.clone().autodiff())).collect();
        (x, rest) = (net.spec.stage(at, &lower, x.autodiff()).inner(), after);
    }
    let mut made = back(net, rest, x, true, |params, x| scaled(net.spec.last(params, x).values));
    let mut found = vec![made.params];
    for (at, own, x) in given.into_iter().rev() {
        // A sum of products with a gradient has that gradient.
        let slope = made.given.take();
        let stage = back(net, own, x, at > 0, |params, x| {
            let y = net.spec.stage(at, params, x);
            match slope {
                Some(slope) => net.precision.raise(y * slope.autodiff()).sum(),
                None => y.sum(),
            }
        });
        found.push(stage.params);
        made.given = stage.given;
    }
    BackwardResult { value: made.value, params: found.into_iter().rev().flatten().collect(), given: None }
}

/// A number that is made of parameters and of what is given, and how it changes by them.
fn back(
    net: &Net,
    params: &[Tensor<2>],
    x: Tensor<3>,
    by_given: bool,
    make: impl FnOnce(&[Tensor<2>], Tensor<3>) -> Tensor<1>,
) -> BackwardResult {
    let leaves: Vec<Tensor<2>> = params.iter().map(|p| p.clone().autodiff().require_grad()).collect();
    let lower: Vec<Tensor<2>> = leaves.iter().map(|p| net.precision.cast(p.clone())).collect();
    let x = x.autodiff();
    let x = if by_given { x.require_grad() } else { x };
    let value = make(&lower, x.clone());
    let mut found = value.backward();
    let of = |leaf: &Tensor<2>| {
        let [rows, columns] = leaf.dims();
        match leaf.grad_remove(&mut found) {
            Some(gradient) => gradient.reshape([rows * columns]),
            None => Tensor::zeros([rows * columns], &net.flat.device()),
        }
    };
    let params = leaves.iter().map(of).collect();
    let given = if by_given { x.grad_remove(&mut found) } else { None };
    BackwardResult { value: value.inner(), params, given }
}
