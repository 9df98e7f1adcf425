//! Bars with a known signal, and without any.
#![allow(dead_code, reason = "every test file uses some of it")]

use gpuforge_frame::{Bars, SymbolKey, sample};
use gpuforge_train::{
    config::{BatchSize, OnNan},
    data::{
        Dataset, MarketData, Recipe, Scaling,
        split::{self, Fold, SplitConfig},
        target::Target,
    },
    model::Architecture,
    net::{OptimiserConfig, Precision},
    rng::SeededRng,
    train::TrainRequest,
};

/// A day, in seconds.
pub(crate) const DAY: i64 = 1;

/// Bars with a planted signal: the next return is `strength · s · s'` standard deviations plus one of noise, where `s` and
/// `s'` are encoded in the volume of this bar and the previous one; no linear model can see it. Returns the bars and the
/// prediction of the optimal rule, the sign of `s · s'`.
pub(crate) fn planted(symbols: usize, bars: usize, strength: f64, seed: u64) -> (MarketData, Vec<Vec<bool>>) {
    let layout = sample::Sample::new(1, sample::Interval::Day, 1, 0).layout();
    let (mut all, mut best) = (Vec::new(), Vec::new());
    for symbol in 0..symbols {
        let mut rng = SeededRng::new(seed, symbol as u64);
        let shown: Vec<f64> = (0..bars).map(|_| rng.normal()).collect();
        let product = |bar: usize| if bar == 0 { 0.0 } else { shown[bar] * shown[bar - 1] };
        let mut log = 100f64.ln();
        let mut own = Bars { symbol: Some(SymbolKey::Text(format!("S{symbol}"))), ..Bars::default() };
        for (bar, shows) in shown.iter().enumerate() {
            if bar > 0 {
                log += 0.01 * (strength * product(bar - 1) + rng.normal());
            }
            let close = log.exp();
            own.open.push(close);
            own.high.push(close * 1.001);
            own.low.push(close * 0.999);
            own.close.push(close);
            own.volume.push(1000.0 * (0.5 * shows).exp());
            own.time.push(10_000 + DAY * bar as i64);
        }
        best.push((0..bars).map(|bar| product(bar) > 0.0).collect());
        all.push(own);
    }
    (MarketData::new(&layout, all), best)
}

/// Random walks without any signal.
pub(crate) fn noise(symbols: usize, bars: usize, seed: u64) -> MarketData {
    planted(symbols, bars, 0.0, seed).0
}

pub(crate) fn recipe(indicators: &str, window: usize, horizon: usize, target: Target) -> Recipe {
    Recipe { indicators: indicators.to_owned(), scaling: Scaling::ZScore(64), window, horizon, target }
}

pub(crate) fn split_config(horizon: usize) -> SplitConfig {
    SplitConfig { folds: 1, validation: 0.15, test: 0.2, embargo: horizon }
}

pub(crate) fn fold(data: &Dataset) -> Fold {
    let horizon = data.recipe.horizon;
    split::walk_forward(&data.samples, split_config(horizon), horizon).unwrap().remove(0)
}

pub(crate) fn request(architecture: Architecture, epochs: usize, seed: u64) -> TrainRequest {
    TrainRequest {
        architecture,
        split: split_config(1),
        optimiser: OptimiserConfig::default(),
        epochs,
        batch: BatchSize::Of(64),
        patience: 0,
        on_nan: OnNan::Stop,
        seed,
        recompute: false,
        precision: Precision::F32,
    }
}

/// A small dataset for tests of the loop.
pub(crate) fn small(target: Target) -> Dataset {
    let (market, _) = planted(2, 400, 2.0, 3);
    Dataset::on_cpu(&market, &recipe("volume * 1, rsi(14)", 2, 1, target)).unwrap()
}

/// Writes bars as CSV.
pub(crate) fn write_csv(market: &MarketData, file: &std::path::Path) {
    let mut text = "symbol,time,open,high,low,close,volume\n".to_owned();
    for bars in &market.bars {
        for i in 0..bars.len() {
            let day = bars.time[i];
            let date = gpuforge_train::report::when(day as f64 * 86_400.0);
            let symbol = bars.symbol.as_ref().unwrap();
            text += &format!(
                "{symbol},{date},{},{},{},{},{}\n",
                bars.open[i], bars.high[i], bars.low[i], bars.close[i], bars.volume[i]
            );
        }
    }
    std::fs::write(file, text).unwrap();
}
