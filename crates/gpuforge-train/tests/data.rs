//! Datasets: windows and targets are aligned, split parts do not overlap, leakage is found.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::{fold, noise, planted, recipe, shares};
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
fn a_sample_is_the_window_before_its_decision_and_the_move_after_it() {
    let (market, _) = planted(3, 200, 1.0, 1);
    let data = Dataset::on_cpu(&market, &recipe("close * 1, rsi(14)", 4, 3, Target::Direction)).unwrap();
    assert_eq!(data.columns.len(), 2);
    let samples = &data.samples;
    for i in 0..samples.len() {
        let bars = &market.bars[samples.series[i] as usize];
        let bar = samples.bar[i] as usize;
        assert_eq!(samples.target[i] == 1.0, bars.close[bar + 3] > bars.close[bar]);
        assert_eq!(samples.until[i] - samples.at[i], 3);
        assert!(samples.row[i] >= 3);
    }
    assert!(samples.at.windows(2).all(|w| w[0] <= w[1]), "in the order of time");
    // rsi has its first value at bar 14, a z-score of 64 bars 63 later, a window of 4 rows 3 later; 3 bars are the future.
    assert_eq!(samples.len(), 3 * (200 - 14 - 63 - 3 - 3));
    let Rows::Host(rows) = &data.rows else { panic!("on the host") };
    assert!(rows.values.iter().all(|x| x.is_finite()));
}

#[test]
fn parts_are_apart_by_the_embargo_and_none_knows_a_later_one() {
    let data = Dataset::on_cpu(&noise(4, 600, 2), &recipe("rsi(14)", 1, 5, Target::Direction)).unwrap();
    for folds in [1, 3] {
        let mut how = shares(5);
        (how.folds, how.embargo) = (folds, 7);
        let all = split::walk_forward(&data.samples, how, 5).unwrap();
        assert_eq!(all.len(), folds);
        for fold in &all {
            split::verify(fold, &data.samples, 5).unwrap();
            for pair in fold.parts().windows(2) {
                let last = pair[0].samples.iter().map(|i| data.samples.at[*i as usize]).max().unwrap();
                let first = pair[1].samples.iter().map(|i| data.samples.at[*i as usize]).min().unwrap();
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
fn a_shuffled_split_and_a_short_embargo_are_found_to_leak() {
    let data = Dataset::on_cpu(&noise(2, 400, 2), &recipe("rsi(14)", 1, 5, Target::Direction)).unwrap();
    let mut short = shares(5);
    short.embargo = 4;
    let refused = split::walk_forward(&data.samples, short, 5).unwrap_err();
    assert!(matches!(refused, TrainError::Leak(Leak::Embargo { embargo: 4, horizon: 5 })), "{refused}");
    // What the inspiring system did: samples put into parts without regard to time.
    let mut leaking = fold(&data);
    let stolen = leaking.test.samples.pop().unwrap();
    leaking.train.samples.push(stolen);
    let found = split::verify(&leaking, &data.samples, 5).unwrap_err();
    assert!(matches!(found, Leak::Overlap { sample, .. } if sample == stolen), "{found}");
    // A target that ends one point of time too late.
    let mut near = fold(&data);
    let begins = near.validation.samples.iter().map(|i| data.samples.at[*i as usize]).min().unwrap();
    let ends_there = data.samples.until.iter().position(|u| *u == begins).unwrap() as u32;
    near.train.samples.push(ends_there);
    assert!(split::verify(&near, &data.samples, 5).is_err());
}

#[test]
fn a_feature_that_looks_ahead_is_found_and_named() {
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
fn the_whole_catalogue_but_one_does_not_look_ahead() {
    let bars = Sample::new(1, Interval::Minute, 1500, 9);
    let market = MarketData::new(&bars.layout(), bars.series().collect());
    let data = Dataset::on_cpu(&market, &recipe("set:classic111", 1, 1, Target::Direction)).unwrap();
    assert_eq!(data.columns.len(), 111);
}

#[test]
fn days_count_back_from_the_newest_bar() {
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
fn bad_input_is_named() {
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
    assert!(matches!(zero, TrainError::Setting { what: "--window", .. }), "{zero}");
    // Enough for windows, not for a split.
    let data = Dataset::on_cpu(&market, &recipe("rsi(14)", 20, 5, Target::Direction)).unwrap();
    let mut many = shares(5);
    many.folds = 40;
    let small = split::walk_forward(&data.samples, many, 5).unwrap_err();
    assert!(matches!(small, TrainError::SmallPart { .. }), "{small}");
}
