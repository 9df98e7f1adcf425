//! Models: a planted signal is found, noise is not; every architecture learns, and importance names the signal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::{fold, noise, planted, recipe, request};
use gpuforge_train::{
    TrainError,
    data::{Dataset, MarketData, target::Target},
    model::Architecture,
    score::Scores,
    train::{self, FoldOptions, Trained},
};

mod common;

fn train(data: &Dataset, architecture: Architecture, epochs: usize, seed: u64) -> Trained {
    let fold = fold(data);
    let mut request = request(architecture, epochs, seed);
    request.split = common::split_config(data.recipe.horizon);
    request.optimiser.learning_rate = 4e-3;
    train::train(data, &fold, &request.config(data, 0), FoldOptions::cpu(), &mut |_| {}).unwrap()
}

fn mlp() -> Architecture {
    Architecture::Mlp { hidden: vec![32, 16] }
}

/// Accuracy of the optimal rule on the test part.
fn oracle_accuracy(data: &Dataset, best: &[Vec<bool>]) -> f64 {
    let fold = fold(data);
    let s = &data.samples;
    let right = |i: &&u32| {
        let i = **i as usize;
        best[s.series[i] as usize][s.bar[i] as usize] == (s.target[i] == 1.0)
    };
    fold.test.samples.iter().filter(right).count() as f64 / fold.test.samples.len() as f64
}

/// Signal to noise: two standard deviations of the product of two normal variables over one of noise.
#[test]
fn mlp_reaches_ninety_percent_of_the_oracle() {
    let (market, best) = planted(4, 2500, 2.0, 11);
    let data = Dataset::on_cpu(&market, &recipe("volume * 1", 2, 1, Target::Direction)).unwrap();
    let possible = oracle_accuracy(&data, &best);
    let trained = train(&data, mlp(), 25, 1);
    let got = trained.card.test.accuracy;
    println!("possible {possible:.3}, mlp {got:.3}, baselines {:?}", trained.card.baselines);
    assert!(possible > 0.7, "{possible}");
    assert!(got >= 0.9 * possible, "{got} of {possible}");
    // No linear model sees a product, and none of the baselines does.
    for baseline in &trained.card.baselines {
        assert!(baseline.scores.accuracy < 0.56, "{baseline:?}");
    }
}

#[test]
fn noise_gives_chance_accuracy() {
    let mut right = 0.0;
    let mut total = 0.0;
    for seed in 0..5 {
        let market = noise(2, 900, 100 + seed);
        let data = Dataset::on_cpu(&market, &recipe("volume * 1, rsi(14)", 2, 1, Target::Direction)).unwrap();
        let Scores { samples, accuracy, .. } = train(&data, mlp(), 6, seed).card.test;
        right += accuracy * samples as f64;
        total += samples as f64;
    }
    // Independent samples (a horizon of one bar): within four standard errors of one half.
    let beyond = (right / total - 0.5).abs() / (0.25f64 / total).sqrt();
    assert!(total > 1000.0 && beyond < 4.0, "{right} of {total}: {beyond} deviations");
}

#[test]
fn tcn_and_transformer_learn_and_report_importance() {
    let (market, best) = planted(2, 1500, 3.0, 5);
    let data =
        Dataset::on_cpu(&market, &recipe("rsi(14), volume * 1, mom(10)", 4, 1, Target::Direction)).unwrap();
    let possible = oracle_accuracy(&data, &best);
    let tcn = Architecture::Tcn { channels: 16, kernel: 3, layers: 2 };
    let transformer = Architecture::Transformer { width: 16, heads: 2, layers: 2 };
    for (architecture, epochs) in [(tcn, 15), (transformer, 15)] {
        let name = architecture.name();
        let trained = train(&data, architecture, epochs, 2);
        let got = trained.card.test.accuracy;
        println!("{name}: {got:.3} of {possible:.3}, {:?}", trained.card.importance);
        assert!(got > 0.85 * possible, "{name}: {got} of {possible}");
        let first = &trained.card.importance[0];
        if name == "tcn" {
            assert!(first.feature.contains("volume"), "{:?}", trained.card.importance);
        } else {
            let sum: f64 = trained.card.importance.iter().map(|w| w.weight).sum();
            assert!((sum - 1.0).abs() < 1e-3, "shares of attention: {sum}");
        }
    }
}

/// Every target is learnable where the next return is linear in the feature.
#[test]
fn linear_model_learns_every_target() {
    let mut market = planted(2, 1200, 0.0, 8).0;
    for bars in &mut market.bars {
        let mut log = 100f64.ln();
        for bar in 0..bars.close.len() {
            bars.close[bar] = log.exp();
            log += 0.02 * (bars.volume[bar] / 1000.0).ln() + 0.002 * ((bar * 7919 % 13) as f64 - 6.0) / 4.0;
        }
    }
    let market = MarketData { ..market };
    for (name, target) in Target::ALL {
        let data = Dataset::on_cpu(&market, &recipe("volume * 1", 1, 1, target)).unwrap();
        let trained = train(&data, Architecture::Linear, 8, 1);
        let min = if target.outputs() == 3 { 0.6 } else { 0.85 };
        assert!(trained.card.test.accuracy > min, "{name}: {:?}", trained.card.test);
        assert_eq!(trained.card.calibration.len(), 10);
        assert!(trained.card.periods.len() > 1);
    }
}

#[test]
fn single_class_targets_are_rejected() {
    let mut market = noise(1, 400, 1);
    for (i, close) in market.bars[0].close.iter_mut().enumerate() {
        *close = 100.0 + i as f64;
    }
    let data = Dataset::on_cpu(&market, &recipe("volume * 1", 1, 1, Target::Direction)).unwrap();
    let fold = fold(&data);
    let config = request(Architecture::Linear, 1, 0).config(&data, 0);
    let refused = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {});
    match refused {
        Err(error @ TrainError::OneClass { .. }) => assert!(error.to_string().contains("`up`"), "{error}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("one class was learned"),
    }
}
