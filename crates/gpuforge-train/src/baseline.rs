//! Naive baselines: always up, momentum, and ridge regression on the newest row, in closed form.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    data::{Dataset, target::Target},
    device_table::{DeviceTable, SampleOrder},
    error::TrainError,
    score::{self, Scores},
};

/// A baseline rule and its scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Name.
    pub name: String,
    /// Scores on the test part.
    pub scores: Scores,
}

/// Rows gathered per batch.
const CHUNK: usize = 8192;
/// Ridge penalty (L2) per sample.
const RIDGE: f64 = 1e-3;

/// Always up, momentum (sign of the last return) and ridge regression, in this order.
pub fn baselines(
    data: &Dataset,
    table: &DeviceTable,
    train: &[u32],
    test: &[u32],
    scale: f32,
) -> Result<Vec<Baseline>, TrainError> {
    let target = data.recipe.target;
    let up = up_class(target);
    let past_return = |i: u32| data.samples.past_return.get(i as usize).map_or(0.0, |x| *x);
    let momentum = |i: u32| if past_return(i) > 0.0 { up } else { down_class(target) };
    let rule = |name: &str, predict: &dyn Fn(u32) -> i8| {
        let label =
            |i: &u32| data.samples.target.get(*i as usize).and_then(|y| score::target_class(target, *y));
        let scores = score::classification_scores(test.iter().map(|i| (predict(*i), label(i))));
        Baseline { name: name.to_owned(), scores }
    };
    let predictions = ridge(table, train, test).map_err(|why| TrainError::Device { step: 0, why })?;
    let targets: Vec<f32> =
        test.iter().filter_map(|i| data.samples.target.get(*i as usize)).copied().collect();
    // Least squares on labels 0 and 1: the decision boundary is 0.5, that of a logit is 0.
    let centred: Vec<f32> = match target {
        Target::Direction => predictions.iter().map(|a| a - 0.5).collect(),
        _ => predictions,
    };
    let mut fitted = score::scores(target, &centred, &targets, scale);
    if target.outputs() > 1 || target == Target::Direction {
        fitted.loss = None;
    }
    Ok(vec![
        rule("always up", &|_| up),
        rule("last sign", &momentum),
        Baseline { name: "linear".to_owned(), scores: fitted },
    ])
}

/// The class index of "up", as predictions are decoded.
fn up_class(target: Target) -> i8 {
    if target.outputs() == 3 { 2 } else { 1 }
}

fn down_class(target: Target) -> i8 {
    if matches!(target, Target::Return { .. } | Target::VolReturn { .. }) { -1 } else { 0 }
}

/// Ridge regression of the targets on the newest row, by normal equations. The Gram matrix is accumulated on the device and
/// downloaded once.
fn ridge(table: &DeviceTable, train: &[u32], test: &[u32]) -> Result<Vec<f32>, String> {
    let order = table.backend.order(train);
    let mut sums: Option<(Tensor<2>, Tensor<2>)> = None;
    for (x, y) in newest_rows(table, &order, train.len()) {
        let transposed = x.clone().transpose();
        let (xx, xy) = (transposed.clone().matmul(x), transposed.matmul(y));
        sums = Some(match sums {
            Some((a, b)) => (a + xx, b + xy),
            None => (xx, xy),
        });
    }
    let Some((xx, xy)) = sums else { return Ok(Vec::new()) };
    let ([width, _], [_, outputs]) = (xx.dims(), xy.dims());
    let wide = |v: Vec<f32>| v.into_iter().map(f64::from).collect::<Vec<f64>>();
    let mut xx = wide(table.backend.fetch_predictions(xx)?);
    let xy = wide(table.backend.fetch_predictions(xy)?);
    for k in 0..width {
        if let Some(x) = xx.get_mut(k * width + k) {
            *x += RIDGE * train.len() as f64;
        }
    }
    let weights: Vec<f32> = solve(xx, xy, width, outputs).into_iter().map(|x| x as f32).collect();
    let weights = table.backend.parameters(&weights).reshape([width, outputs]);
    let order = table.backend.order(test);
    let mut predictions = Vec::new();
    for (x, _) in newest_rows(table, &order, test.len()) {
        predictions.extend(table.backend.fetch_predictions(x.matmul(weights.clone()))?);
    }
    Ok(predictions)
}

/// Newest row of each window with an intercept column, and the targets, in chunks.
fn newest_rows<'a>(
    table: &'a DeviceTable,
    order: &'a SampleOrder,
    count: usize,
) -> impl Iterator<Item = (Tensor<2>, Tensor<2>)> + 'a {
    (0..count).step_by(CHUNK).map(move |first| {
        let batch = table.batch(order, first..(first + CHUNK).min(count));
        let [n, window, features] = batch.x.dims();
        let newest = batch.x.slice([0..n, window - 1..window, 0..features]).reshape([n, features]);
        let ones = Tensor::ones([n, 1], &table.backend.device);
        (Tensor::cat(vec![newest, ones], 1), batch.y)
    })
}

/// Solves a symmetric positive-definite system for several right-hand sides (Cholesky decomposition).
fn solve(mut a: Vec<f64>, mut b: Vec<f64>, n: usize, rhs: usize) -> Vec<f64> {
    let at = |a: &[f64], i: usize, j: usize| a.get(i * n + j).copied().unwrap_or(0.0);
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| at(&a, i, k) * at(&a, j, k)).sum();
            let rest = at(&a, i, j) - dot;
            let value = if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / at(&a, j, j) };
            if let Some(x) = a.get_mut(i * n + j) {
                *x = value;
            }
        }
    }
    let rhs_at = |b: &[f64], i: usize, s: usize| b.get(i * rhs + s).copied().unwrap_or(0.0);
    for s in 0..rhs {
        for i in 0..n {
            let dot: f64 = (0..i).map(|k| at(&a, i, k) * rhs_at(&b, k, s)).sum();
            let value = (rhs_at(&b, i, s) - dot) / at(&a, i, i);
            b.iter_mut().skip(i * rhs + s).take(1).for_each(|x| *x = value);
        }
        for i in (0..n).rev() {
            let dot: f64 = (i + 1..n).map(|k| at(&a, k, i) * rhs_at(&b, k, s)).sum();
            let value = (rhs_at(&b, i, s) - dot) / at(&a, i, i);
            b.iter_mut().skip(i * rhs + s).take(1).for_each(|x| *x = value);
        }
    }
    b
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn cholesky_solves_every_right_hand_side() {
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
