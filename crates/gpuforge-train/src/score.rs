//! Scores: loss, accuracy, calibration, by period. Pure functions of numbers.

use serde::{Deserialize, Serialize};

use crate::data::target::Target;

/// How good answers are.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Scores {
    /// How many answers.
    pub samples: usize,
    /// The mean loss; none for rules that do not say how sure they are.
    pub loss: Option<f64>,
    /// Share of right answers: the class, or the sign of a number (targets of 0 left out).
    pub accuracy: f64,
    /// What accuracy would vary by if samples did not depend on each other (they do where horizons overlap).
    pub deviation: f64,
}

/// A group of answers that are about equally sure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// What was predicted, on average: a probability or a number.
    pub predicted: f64,
    /// What came.
    pub observed: f64,
    /// How many.
    pub samples: usize,
}

/// A time range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Its first decision, in seconds since the epoch.
    pub from: f64,
    /// Its last.
    pub to: f64,
    /// How it went.
    pub scores: Scores,
}

/// What one sample's answer says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictionBin {
    /// The class that is most likely, or the sign of the number.
    pub class: i8,
    /// Probability of up, or the number itself.
    pub value: f64,
}

/// Reads an answer.
pub fn say(target: Target, answer: &[f32]) -> PredictionBin {
    match (target, answer) {
        (Target::Direction, [z]) => {
            PredictionBin { class: i8::from(*z > 0.0), value: 1.0 / (1.0 + f64::from(-z).exp()) }
        }
        (Target::TripleBarrier { .. }, all) => {
            let most = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let class = all.iter().position(|z| *z == most).unwrap_or(0) as i8;
            let each: Vec<f64> = all.iter().map(|z| f64::from(z - most).exp()).collect();
            PredictionBin { class, value: each.last().copied().unwrap_or(0.0) / each.iter().sum::<f64>() }
        }
        (_, all) => {
            let value = all.first().map_or(0.0, |z| f64::from(*z));
            PredictionBin { class: sign(value), value }
        }
    }
}

fn sign(x: f64) -> i8 {
    i8::from(x > 0.0) - i8::from(x < 0.0)
}

/// The class of a target, as [`say`] counts them; `None` where a number is 0.
pub fn truth(target: Target, y: f32) -> Option<i8> {
    match target {
        Target::Direction | Target::TripleBarrier { .. } => Some(y as i8),
        _ => Some(sign(f64::from(y))).filter(|s| *s != 0),
    }
}

/// What came, as [`PredictionBin::value`] foretells it.
fn came(target: Target, y: f32) -> f64 {
    match target {
        Target::TripleBarrier { .. } => f64::from(y == 2.0),
        _ => f64::from(y),
    }
}

fn loss(target: Target, answer: &[f32], y: f32) -> f64 {
    let y = f64::from(y);
    match (target, answer) {
        (Target::Direction, [z]) => {
            let z = f64::from(*z);
            (1.0 - y) * z + (-z.abs()).exp().ln_1p() + (-z).max(0.0)
        }
        (Target::TripleBarrier { .. }, all) => {
            let most = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = all.iter().map(|z| f64::from(z - most).exp()).sum();
            let own = all.get(y as usize).copied().unwrap_or(f32::NEG_INFINITY);
            sum.ln() - f64::from(own - most)
        }
        (_, all) => all.first().map_or(f64::NAN, |z| (f64::from(*z) - y).powi(2)),
    }
}

/// Scores of answers, `outputs` numbers each. Answers to numbers are in units of `scale`, as is the loss.
pub fn scores(target: Target, answers: &[f32], targets: &[f32], scale: f32) -> Scores {
    let each = || answers.chunks(target.outputs()).zip(targets);
    let total: f64 = each().map(|(a, y)| loss(target, a, scaled(target, *y, scale))).sum();
    let classes = each().map(|(a, y)| (say(target, a).class, truth(target, *y)));
    let mut scores = of_classes(classes);
    scores.loss = Some(total / targets.len().max(1) as f64);
    scores
}

fn scaled(target: Target, y: f32, scale: f32) -> f32 {
    if target.outputs() == 1 && target != Target::Direction { y / scale } else { y }
}

/// Scores of classes alone.
pub fn of_classes(pairs: impl Iterator<Item = (i8, Option<i8>)>) -> Scores {
    let (mut samples, mut right) = (0usize, 0usize);
    for (said, truth) in pairs.filter_map(|(s, t)| Some((s, t?))) {
        samples += 1;
        right += usize::from(said == truth);
    }
    let n = samples.max(1) as f64;
    let accuracy = right as f64 / n;
    Scores { samples, loss: None, accuracy, deviation: (accuracy * (1.0 - accuracy) / n).sqrt() }
}

/// Answers in groups of equal size by what they foretell.
pub fn calibration(target: Target, answers: &[f32], targets: &[f32], scale: f32, bins: usize) -> Vec<Bin> {
    let pair = |(a, y): (&[f32], &f32)| (say(target, a).value, came(target, scaled(target, *y, scale)));
    let mut all: Vec<(f64, f64)> = answers.chunks(target.outputs()).zip(targets).map(pair).collect();
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

/// Scores of time_ranges of time with about as many samples each; `times` does not fall.
pub fn periods(
    target: Target,
    answers: &[f32],
    targets: &[f32],
    scale: f32,
    times: &[f64],
    count: usize,
) -> Vec<Period> {
    let each = targets.len().div_ceil(count.max(1)).max(1);
    let mut found = Vec::new();
    for ((answers, targets), times) in
        answers.chunks(each * target.outputs()).zip(targets.chunks(each)).zip(times.chunks(each))
    {
        if let (Some(from), Some(to)) = (times.first(), times.last()) {
            found.push(Period { from: *from, to: *to, scores: scores(target, answers, targets, scale) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn the_loss_of_a_logit_is_that_of_its_probability() {
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
    fn accuracy_leaves_out_numbers_without_a_sign() {
        let target = Target::Return { clip: 1.0 };
        let scores = scores(target, &[0.1, -0.1, 0.2, 5.0], &[1.0, 1.0, 0.0, 2.0], 1.0);
        assert_eq!(scores.samples, 3);
        assert!((scores.accuracy - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn bins_are_of_equal_size_and_in_order() {
        let answers: Vec<f32> = (0..100).map(|i| (i as f32 - 50.0) / 10.0).collect();
        let targets: Vec<f32> = (0..100).map(|i| f32::from(i >= 50)).collect();
        let bins = calibration(Target::Direction, &answers, &targets, 1.0, 10);
        assert_eq!(bins.iter().map(|b| b.samples).collect::<Vec<_>>(), [10; 10]);
        assert!(bins.windows(2).all(|w| w[0].predicted < w[1].predicted));
        assert_eq!((bins[0].observed, bins[9].observed), (0.0, 1.0));
        let periods = periods(Target::Direction, &answers, &targets, 1.0, &vec![0.0; 100], 7);
        assert_eq!(periods.len(), 7);
        assert_eq!(periods.iter().map(|p| p.scores.samples).sum::<usize>(), 100);
    }
}
