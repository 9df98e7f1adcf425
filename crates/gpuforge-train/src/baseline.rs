//! Naive baselines: always up, momentum, and ridge regression on the newest row, in closed form.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    data::{Dataset, target::Target},
    device_table::{DeviceTable, SampleOrder},
    error::TrainError,
    score::{self, Scores},
};

/// A rule and how it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Its name.
    pub name: String,
    /// How it does on the test part.
    pub scores: Scores,
}

/// Rows that are drawn at once.
const INFERENCE_VALUES: usize = 8192;
/// Weight of the ridge, per sample.
const RIDGE: f64 = 1e-3;

/// Always-up, last sign and linear, in this order.
pub fn baselines(
    data: &Dataset,
    table: &DeviceTable,
    train: &[u32],
    test: &[u32],
    scale: f32,
) -> Result<Vec<Baseline>, TrainError> {
    let target = data.recipe.target;
    let up = top(target);
    let last = |i: u32| data.samples.last.get(i as usize).map_or(0.0, |x| *x);
    let as_before = |i: u32| if last(i) > 0.0 { up } else { bottom(target) };
    let rule = |name: &str, say: &dyn Fn(u32) -> i8| {
        let truth = |i: &u32| data.samples.target.get(*i as usize).and_then(|y| score::truth(target, *y));
        let scores = score::of_classes(test.iter().map(|i| (say(*i), truth(i))));
        Baseline { name: name.to_owned(), scores }
    };
    let answers = linear(table, train, test).map_err(|why| TrainError::Device { step: 0, why })?;
    let targets: Vec<f32> =
        test.iter().filter_map(|i| data.samples.target.get(*i as usize)).copied().collect();
    // Least squares on 0 and 1: half is the border that a logit has at 0.
    let moved: Vec<f32> = match target {
        Target::Direction => answers.iter().map(|a| a - 0.5).collect(),
        _ => answers,
    };
    let mut fitted = score::scores(target, &moved, &targets, scale);
    if target.outputs() > 1 || target == Target::Direction {
        fitted.loss = None;
    }
    Ok(vec![
        rule("always up", &|_| up),
        rule("last sign", &as_before),
        Baseline { name: "linear".to_owned(), scores: fitted },
    ])
}

/// The class of up and of down, as answers are read.
fn top(target: Target) -> i8 {
    if target.outputs() == 3 { 2 } else { 1 }
}

fn bottom(target: Target) -> i8 {
    if matches!(target, Target::Return { .. } | Target::VolReturn { .. }) { -1 } else { 0 }
}

/// Ridge regression of the targets on the newest row. Sums of products are made where the features are; what comes down is
/// one matrix of the features by the features.
fn linear(table: &DeviceTable, train: &[u32], test: &[u32]) -> Result<Vec<f32>, String> {
    let order = table.backend.order(train);
    let mut sums: Option<(Tensor<2>, Tensor<2>)> = None;
    for (x, y) in param_matrices(table, &order, train.len()) {
        let turned = x.clone().transpose();
        let (xx, xy) = (turned.clone().matmul(x), turned.matmul(y));
        sums = Some(match sums {
            Some((a, b)) => (a + xx, b + xy),
            None => (xx, xy),
        });
    }
    let Some((xx, xy)) = sums else { return Ok(Vec::new()) };
    let ([width, _], [_, outputs]) = (xx.dims(), xy.dims());
    let wide = |v: Vec<f32>| v.into_iter().map(f64::from).collect::<Vec<f64>>();
    let mut xx = wide(table.backend.answers(xx)?);
    let xy = wide(table.backend.answers(xy)?);
    for k in 0..width {
        if let Some(x) = xx.get_mut(k * width + k) {
            *x += RIDGE * train.len() as f64;
        }
    }
    let weights: Vec<f32> = solve(xx, xy, width, outputs).into_iter().map(|x| x as f32).collect();
    let weights = table.backend.parameters(&weights).reshape([width, outputs]);
    let order = table.backend.order(test);
    let mut answers = Vec::new();
    for (x, _) in param_matrices(table, &order, test.len()) {
        answers.extend(table.backend.answers(x.matmul(weights.clone()))?);
    }
    Ok(answers)
}

/// The newest rows with a column of ones, and their targets, some at once.
fn param_matrices<'a>(
    table: &'a DeviceTable,
    order: &'a SampleOrder,
    count: usize,
) -> impl Iterator<Item = (Tensor<2>, Tensor<2>)> + 'a {
    (0..count).step_by(INFERENCE_VALUES).map(move |first| {
        let batch = table.draw(order, first..(first + INFERENCE_VALUES).min(count));
        let [n, window, features] = batch.x.dims();
        let newest = batch.x.slice([0..n, window - 1..window, 0..features]).reshape([n, features]);
        let ones = Tensor::ones([n, 1], &table.backend.device);
        (Tensor::cat(vec![newest, ones], 1), batch.y)
    })
}

/// Solves a symmetric positive system for several right sides (Cholesky, row by row).
fn solve(mut a: Vec<f64>, mut b: Vec<f64>, n: usize, sides: usize) -> Vec<f64> {
    let at = |a: &[f64], i: usize, j: usize| a.get(i * n + j).copied().unwrap_or(0.0);
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| at(&a, i, k) * at(&a, j, k)).sum();
            let rest = at(&a, i, j) - known;
            let value = if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / at(&a, j, j) };
            if let Some(backend) = a.get_mut(i * n + j) {
                *backend = value;
            }
        }
    }
    let of = |b: &[f64], i: usize, s: usize| b.get(i * sides + s).copied().unwrap_or(0.0);
    for s in 0..sides {
        for i in 0..n {
            let known: f64 = (0..i).map(|k| at(&a, i, k) * of(&b, k, s)).sum();
            let value = (of(&b, i, s) - known) / at(&a, i, i);
            b.iter_mut().skip(i * sides + s).take(1).for_each(|x| *x = value);
        }
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|k| at(&a, k, i) * of(&b, k, s)).sum();
            let value = (of(&b, i, s) - known) / at(&a, i, i);
            b.iter_mut().skip(i * sides + s).take(1).for_each(|x| *x = value);
        }
    }
    b
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn a_system_is_solved_for_every_side() {
        let a = vec![4.0, 2.0, 0.6, 2.0, 5.0, 1.0, 0.6, 1.0, 3.0];
        let x = [1.0, -2.0, 3.0, 0.5, -1.0, 4.0];
        let mut b = vec![0.0; 6];
        for i in 0..3 {
            for s in 0..2 {
                b[i * 2 + s] = (0..3).map(|k| a[i * 3 + k] * x[k * 2 + s]).sum();
            }
        }
        for (got, want) in solve(a, b, 3, 2).iter().zip(x) {
            assert!((got - want).abs() < 1e-9, "{got} {want}");
        }
    }
}
