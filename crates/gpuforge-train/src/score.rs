//! Scores: loss, accuracy, calibration, by period. Pure functions of numbers.

use serde::{Deserialize, Serialize};

use crate::data::target::Target;

/// Scores of predictions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Scores {
    /// Number of predictions.
    pub samples: usize,
    /// Mean loss; none for rules without probabilities.
    pub loss: Option<f64>,
    /// Accuracy of the class, or of the sign of a regression (targets of 0 excluded).
    pub accuracy: f64,
    /// Standard error of the accuracy for independent samples (overlapping horizons make it too small).
    #[serde(rename = "deviation")]
    pub std_error: f64,
}

/// Calibration bin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Mean prediction: a probability or a value.
    pub predicted: f64,
    /// Mean outcome.
    pub observed: f64,
    /// Number of entries.
    pub samples: usize,
}

/// A time range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// First prediction, in seconds since the epoch.
    pub from: f64,
    /// Last prediction.
    pub to: f64,
    /// Final loop state.
    pub scores: Scores,
}

/// Decoded prediction of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Most likely class, or the sign of the value.
    pub class: i8,
    /// Probability of up, or the predicted value.
    pub value: f64,
}

/// Decodes raw model outputs.
pub fn decode(target: Target, prediction: &[f32]) -> Prediction {
    match (target, prediction) {
        (Target::Direction, [z]) => {
            Prediction { class: i8::from(*z > 0.0), value: 1.0 / (1.0 + f64::from(-z).exp()) }
        }
        (Target::TripleBarrier { .. }, all) => {
            let max = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let class = all.iter().position(|z| *z == max).unwrap_or(0) as i8;
            let each: Vec<f64> = all.iter().map(|z| f64::from(z - max).exp()).collect();
            Prediction { class, value: each.last().copied().unwrap_or(0.0) / each.iter().sum::<f64>() }
        }
        (_, all) => {
            let value = all.first().map_or(0.0, |z| f64::from(*z));
            Prediction { class: sign(value), value }
        }
    }
}

fn sign(x: f64) -> i8 {
    i8::from(x > 0.0) - i8::from(x < 0.0)
}

/// Class of a target, as [`decode`] numbers them; `None` for a regression target of 0.
pub fn target_class(target: Target, y: f32) -> Option<i8> {
    match target {
        Target::Direction | Target::TripleBarrier { .. } => Some(y as i8),
        _ => Some(sign(f64::from(y))).filter(|s| *s != 0),
    }
}

/// The outcome that [`Prediction::value`] predicts.
fn observed_value(target: Target, y: f32) -> f64 {
    match target {
        Target::TripleBarrier { .. } => f64::from(y == 2.0),
        _ => f64::from(y),
    }
}

fn loss(target: Target, prediction: &[f32], y: f32) -> f64 {
    let y = f64::from(y);
    match (target, prediction) {
        (Target::Direction, [z]) => {
            let z = f64::from(*z);
            (1.0 - y) * z + (-z.abs()).exp().ln_1p() + (-z).max(0.0)
        }
        (Target::TripleBarrier { .. }, all) => {
            let max = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = all.iter().map(|z| f64::from(z - max).exp()).sum();
            let own = all.get(y as usize).copied().unwrap_or(f32::NEG_INFINITY);
            sum.ln() - f64::from(own - max)
        }
        (_, all) => all.first().map_or(f64::NAN, |z| (f64::from(*z) - y).powi(2)),
    }
}

/// Scores of raw predictions, `outputs` values each. Regression outputs and their loss are in units of `scale`.
pub fn scores(target: Target, predictions: &[f32], targets: &[f32], scale: f32) -> Scores {
    let each = || predictions.chunks(target.outputs()).zip(targets);
    let total: f64 = each().map(|(a, y)| loss(target, a, scale_target(target, *y, scale))).sum();
    let classes = each().map(|(a, y)| (decode(target, a).class, target_class(target, *y)));
    let mut scores = classification_scores(classes);
    scores.loss = Some(total / targets.len().max(1) as f64);
    scores
}

fn scale_target(target: Target, y: f32, scale: f32) -> f32 {
    if target.outputs() == 1 && target != Target::Direction { y / scale } else { y }
}

/// Accuracy of (predicted, true) classes.
pub fn classification_scores(pairs: impl Iterator<Item = (i8, Option<i8>)>) -> Scores {
    let (mut samples, mut right) = (0usize, 0usize);
    for (said, truth) in pairs.filter_map(|(s, t)| Some((s, t?))) {
        samples += 1;
        right += usize::from(said == truth);
    }
    let n = samples.max(1) as f64;
    let accuracy = right as f64 / n;
    Scores { samples, loss: None, accuracy, std_error: (accuracy * (1.0 - accuracy) / n).sqrt() }
}

/// Calibration: bins of equal size, sorted by prediction.
pub fn calibration(
    target: Target,
    predictions: &[f32],
    targets: &[f32],
    scale: f32,
    bins: usize,
) -> Vec<Bin> {
    let pair = |(a, y): (&[f32], &f32)| {
        (decode(target, a).value, observed_value(target, scale_target(target, *y, scale)))
    };
    let mut all: Vec<(f64, f64)> = predictions.chunks(target.outputs()).zip(targets).map(pair).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let each = all.len().div_ceil(bins.max(1)).max(1);
    let bin = |group: &[(f64, f64)]| {
        let n = group.len() as f64;
        Bin {
            predicted: group.iter().map(|p| p.0).sum::<f64>() / n,
            observed: group.iter().map(|p| p.1).sum::<f64>() / n,
            samples: group.len(),
        }
    };
    all.chunks(each).map(bin).collect()
}

/// Scores by period, with about equally many samples each; `times` is sorted.
pub fn periods(
    target: Target,
    predictions: &[f32],
    targets: &[f32],
    scale: f32,
    times: &[f64],
    count: usize,
) -> Vec<Period> {
    let each = targets.len().div_ceil(count.max(1)).max(1);
    let mut found = Vec::new();
    for ((predictions, targets), times) in
        predictions.chunks(each * target.outputs()).zip(targets.chunks(each)).zip(times.chunks(each))
    {
        if let (Some(from), Some(to)) = (times.first(), times.last()) {
            found.push(Period { from: *from, to: *to, scores: scores(target, predictions, targets, scale) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn logit_loss_equals_cross_entropy() {
        for (z, y) in [(0.3f32, 1.0f32), (-2.0, 0.0), (40.0, 0.0), (-40.0, 1.0)] {
            let p = 1.0 / (1.0 + f64::from(-z).exp());
            let plain = -(f64::from(y) * p.ln() + f64::from(1.0 - y) * (1.0 - p).max(1e-300).ln());
            let got = loss(Target::Direction, &[z], y);
            assert!(
                (got - plain).abs() < 1e-6 * (1.0 + plain) || z.abs() > 30.0 && got > 39.0,
                "{z} {y} {got}"
            );
        }
        let three = loss(Target::TripleBarrier { width: 1.0 }, &[0.0, 0.0, 0.0], 2.0);
        assert!((three - 3f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn accuracy_excludes_zero_targets() {
        let target = Target::Return { clip: 1.0 };
        let scores = scores(target, &[0.1, -0.1, 0.2, 5.0], &[1.0, 1.0, 0.0, 2.0], 1.0);
        assert_eq!(scores.samples, 3);
        assert!((scores.accuracy - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn calibration_bins_are_equal_sized_and_sorted() {
        let predictions: Vec<f32> = (0..100).map(|i| (i as f32 - 50.0) / 10.0).collect();
        let targets: Vec<f32> = (0..100).map(|i| f32::from(i >= 50)).collect();
        let bins = calibration(Target::Direction, &predictions, &targets, 1.0, 10);
        assert_eq!(bins.iter().map(|b| b.samples).collect::<Vec<_>>(), [10; 10]);
        assert!(bins.windows(2).all(|w| w[0].predicted < w[1].predicted));
        assert_eq!((bins[0].observed, bins[9].observed), (0.0, 1.0));
        let periods = periods(Target::Direction, &predictions, &targets, 1.0, &vec![0.0; 100], 7);
        assert_eq!(periods.len(), 7);
        assert_eq!(periods.iter().map(|p| p.scores.samples).sum::<usize>(), 100);
    }
}
