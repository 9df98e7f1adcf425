//! Backward pass: at once, keeping all activations, or with gradient checkpointing, stage by stage, recomputing activations;
//! both add in the same order and give the same bits.

use burn::tensor::Tensor;

use super::{Net, loss};
use crate::{data::target::Target, device_table::DeviceBatch};

/// A loss and its gradients.
pub(super) struct BackwardResult {
    /// The loss, times the loss scale.
    pub(super) loss: Tensor<1>,
    /// Gradient of each parameter matrix, flat.
    pub(super) params: Vec<Tensor<1>>,
    /// Gradient of the input, if requested.
    input_grad: Option<Tensor<3>>,
}

/// Loss and gradient of a batch, both times the loss scale.
pub(super) fn gradient(
    net: &Net,
    params: &[Tensor<2>],
    batch: DeviceBatch,
    target: Target,
) -> BackwardResult {
    let (x, y) = (net.precision.cast(batch.x), batch.y);
    let scaled = |predictions: Tensor<2>| {
        let loss = loss(target, net.precision.upcast(predictions), y);
        if net.loss_scale == 1.0 { loss } else { loss.mul_scalar(net.loss_scale) }
    };
    let stages = net.spec.stages();
    if !net.recompute || stages.is_empty() {
        return backward(net, params, x, false, |params, x| scaled(net.spec.forward(params, x).values));
    }
    let (mut x, mut rest, mut stage_inputs) = (x, params, Vec::with_capacity(stages.len()));
    for (at, count) in stages.into_iter().enumerate() {
        let (own, after) = rest.split_at(count.min(rest.len()));
        stage_inputs.push((at, own, x.clone()));
        // On the autodiff backend with nothing tracked: the plain backend takes shortcuts that round differently.
        let lower: Vec<Tensor<2>> = own.iter().map(|p| net.precision.cast(p.clone().autodiff())).collect();
        (x, rest) = (net.spec.stage(at, &lower, x.autodiff()).inner(), after);
    }
    let mut head = backward(net, rest, x, true, |params, x| scaled(net.spec.head(params, x).values));
    let mut grads = vec![head.params];
    for (at, own, x) in stage_inputs.into_iter().rev() {
        // The gradient of sum(y * g) with respect to y is g: a vector-Jacobian product.
        let output_grad = head.input_grad.take();
        let stage = backward(net, own, x, at > 0, |params, x| {
            let y = net.spec.stage(at, params, x);
            match output_grad {
                Some(output_grad) => net.precision.upcast(y * output_grad.autodiff()).sum(),
                None => y.sum(),
            }
        });
        grads.push(stage.params);
        head.input_grad = stage.input_grad;
    }
    BackwardResult { loss: head.loss, params: grads.into_iter().rev().flatten().collect(), input_grad: None }
}

/// Value and gradients of a scalar function of parameters and input.
fn backward(
    net: &Net,
    params: &[Tensor<2>],
    x: Tensor<3>,
    with_input_grad: bool,
    f: impl FnOnce(&[Tensor<2>], Tensor<3>) -> Tensor<1>,
) -> BackwardResult {
    let leaves: Vec<Tensor<2>> = params.iter().map(|p| p.clone().autodiff().require_grad()).collect();
    let lower: Vec<Tensor<2>> = leaves.iter().map(|p| net.precision.cast(p.clone())).collect();
    let x = x.autodiff();
    let x = if with_input_grad { x.require_grad() } else { x };
    let loss = f(&lower, x.clone());
    let mut grads = loss.backward();
    let grad_of = |leaf: &Tensor<2>| {
        let [rows, columns] = leaf.dims();
        match leaf.grad_remove(&mut grads) {
            Some(gradient) => gradient.reshape([rows * columns]),
            None => Tensor::zeros([rows * columns], &net.flat.device()),
        }
    };
    let params = leaves.iter().map(grad_of).collect();
    let input_grad = if with_input_grad { x.grad_remove(&mut grads) } else { None };
    BackwardResult { loss: loss.inner(), params, input_grad }
}
