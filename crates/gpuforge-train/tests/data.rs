//! Datasets: windows and targets are aligned, split parts do not overlap, leakage is found.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::{fold, noise, planted, recipe, split_config};
use gpuforge_frame::sample::{Interval, Sample};
use gpuforge_train::{
    TrainError,
    data::{
        Dataset, MarketData, Rows,
        split::{self, Leak},
        target::Target,
    },
};

mod common;

#[test]
fn sample_aligns_window_and_future_return() {
    let (market, _) = planted(3, 200, 1.0, 1);
    let data = Dataset::on_cpu(&market, &recipe("close * 1, rsi(14)", 4, 3, Target::Direction)).unwrap();
    assert_eq!(data.columns.len(), 2);
    let samples = &data.samples;
    for i in 0..samples.len() {
        let bars = &market.bars[samples.series[i] as usize];
        let bar = samples.bar[i] as usize;
        assert_eq!(samples.target[i] == 1.0, bars.close[bar + 3] > bars.close[bar]);
        assert_eq!(samples.target_time_index[i] - samples.time_index[i], 3);
        assert!(samples.last_row[i] >= 3);
    }
    assert!(samples.time_index.windows(2).all(|w| w[0] <= w[1]), "in the order of time");
    // rsi has its first value at bar 14, a z-score of 64 bars 63 later, a window of 4 rows 3 later; 3 bars are the future.
    assert_eq!(samples.len(), 3 * (200 - 14 - 63 - 3 - 3));
    let Rows::Host(rows) = &data.rows else { panic!("on the host") };
    assert!(rows.values.iter().all(|x| x.is_finite()));
}

#[test]
fn split_parts_are_separated_by_the_embargo() {
    let data = Dataset::on_cpu(&noise(4, 600, 2), &recipe("rsi(14)", 1, 5, Target::Direction)).unwrap();
    for folds in [1, 3] {
        let mut how = split_config(5);
        (how.folds, how.embargo) = (folds, 7);
        let all = split::walk_forward(&data.samples, how, 5).unwrap();
        assert_eq!(all.len(), folds);
        for fold in &all {
            split::verify(fold, &data.samples, 5).unwrap();
            for pair in fold.parts().windows(2) {
                let last =
                    pair[0].samples.iter().map(|i| data.samples.time_index[*i as usize]).max().unwrap();
                let first =
                    pair[1].samples.iter().map(|i| data.samples.time_index[*i as usize]).min().unwrap();
                assert!(first - last > 7, "{first} {last}");
            }
        }
        for pair in all.windows(2) {
            assert_eq!(pair[0].test.positions.end, pair[1].test.positions.start, "tests follow each other");
            assert!(pair[1].train.samples.len() > pair[0].train.samples.len(), "training grows");
        }
    }
}

#[test]
fn shuffled_split_and_short_embargo_are_leaks() {
    let data = Dataset::on_cpu(&noise(2, 400, 2), &recipe("rsi(14)", 1, 5, Target::Direction)).unwrap();
    let mut short = split_config(5);
    short.embargo = 4;
    let refused = split::walk_forward(&data.samples, short, 5).unwrap_err();
    assert!(matches!(refused, TrainError::Leak(Leak::Embargo { embargo: 4, horizon: 5 })), "{refused}");
    // A shuffled split: samples assigned to parts without regard to time.
    let mut leaking = fold(&data);
    let stolen = leaking.test.samples.pop().unwrap();
    leaking.train.samples.push(stolen);
    let found = split::verify(&leaking, &data.samples, 5).unwrap_err();
    assert!(matches!(found, Leak::Overlap { sample, .. } if sample == stolen), "{found}");
    // A target that ends one time step too late.
    let mut near = fold(&data);
    let begins = near.validation.samples.iter().map(|i| data.samples.time_index[*i as usize]).min().unwrap();
    let ends_there = data.samples.target_time_index.iter().position(|u| *u == begins).unwrap() as u32;
    near.train.samples.push(ends_there);
    assert!(split::verify(&near, &data.samples, 5).is_err());
}

#[test]
fn look_ahead_feature_is_rejected_by_name() {
    let bars = Sample::new(1, Interval::Minute, 1200, 5);
    let market = MarketData::new(&bars.layout(), bars.series().collect());
    let honest = Dataset::on_cpu(&market, &recipe("avwap(5), rsi(14)", 1, 1, Target::Direction));
    assert!(honest.is_ok());
    let planted = Dataset::on_cpu(&market, &recipe("rsi(14), avwap_final(0)", 1, 1, Target::Direction));
    match planted {
        Err(TrainError::LooksAhead { column, .. }) => assert!(column.starts_with("avwap_final"), "{column}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a leak was not found"),
    }
}

#[test]
fn classic111_has_no_look_ahead() {
    let bars = Sample::new(1, Interval::Minute, 1500, 9);
    let market = MarketData::new(&bars.layout(), bars.series().collect());
    let data = Dataset::on_cpu(&market, &recipe("set:classic111", 1, 1, Target::Direction)).unwrap();
    assert_eq!(data.columns.len(), 111);
}

#[test]
fn last_days_count_from_the_newest_bar() {
    let bars = Sample::new(2, Interval::Minute, 390 * 10, 5);
    let market = MarketData::new(&bars.layout(), bars.series().collect());
    let all = market.bars[0].len();
    let last = market.clone().last_days(2);
    assert!(last.bars[0].len() < all / 3 && !last.bars[0].is_empty());
    assert_eq!(last.bars[0].close.last(), market.bars[0].close.last());
    assert_eq!(last.bars[0].len(), last.seconds[0].len());
    let span = last.seconds[0].last().unwrap() - last.seconds[0][0];
    assert!(span <= 2.0 * 86_400.0);
}

#[test]
fn invalid_input_is_named() {
    let market = noise(2, 120, 1);
    let fails = |indicators: &str, window, horizon| match Dataset::on_cpu(
        &market,
        &recipe(indicators, window, horizon, Target::Direction),
    ) {
        Ok(_) => panic!("{indicators} should fail"),
        Err(error) => error,
    };
    let short = fails("rsi(14)", 100, 5);
    assert!(matches!(short, TrainError::TooShort { bars: 120, needed: 182, .. }), "{short}");
    assert!(short.to_string().contains("hint:"));
    let empty = fails("rsi(14), (close - close) / (close - close)", 1, 1);
    match &empty {
        TrainError::EmptyFeature { column, bars: 240 } => {
            assert!(column.contains("close - close"), "{column}")
        }
        other => panic!("{other}"),
    }
    let unknown = fails("rsy(14)", 1, 1);
    assert!(
        matches!(unknown, TrainError::Select(_)) && unknown.to_string().contains("did you mean"),
        "{unknown}"
    );
    let zero = fails("rsi(14)", 0, 1);
    assert!(matches!(zero, TrainError::InvalidSetting { what: "--window", .. }), "{zero}");
    // Enough for windows, not for a split.
    let data = Dataset::on_cpu(&market, &recipe("rsi(14)", 20, 5, Target::Direction)).unwrap();
    let mut many = split_config(5);
    many.folds = 40;
    let small = split::walk_forward(&data.samples, many, 5).unwrap_err();
    assert!(matches!(small, TrainError::PartTooSmall { .. }), "{small}");
}
