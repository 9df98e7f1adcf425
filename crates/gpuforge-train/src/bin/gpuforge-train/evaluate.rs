//! `gpuforge evaluate` and `gpuforge predict`: a model on other bars.

use std::path::Path;

use anyhow::Result;
use gpuforge_frame::{
    read::Input,
    write::{ColumnValues, WriteOptions, Writer},
};
use gpuforge_train::{
    TrainError,
    baseline::{Baseline, baselines},
    data::{Dataset, MarketData},
    device_table::{DeviceTable, TrainBackend},
    fit, model_card,
    net::Net,
    score::{self, Period, Scores},
};
use serde::Serialize;

use crate::{
    args::{Evaluate, Predict},
    console::Console,
};

const PERIODS: usize = 12;

#[derive(Serialize)]
struct Evaluation {
    scores: Scores,
    baselines: Vec<Baseline>,
    periods: Vec<Period>,
}

#[derive(Serialize)]
struct PredictionReport {
    rows: u64,
    bytes: u64,
    output: String,
}

fn predict_all(net: &Net, table: &DeviceTable, count: usize) -> Result<Vec<f32>, TrainError> {
    let list: Vec<u32> = (0..count as u32).collect();
    fit::predict(net, table, &list).map_err(|why| TrainError::Device { step: 0, why })
}

pub(crate) fn evaluate(args: &Evaluate, console: &Console) -> Result<()> {
    let backend = TrainBackend::cpu();
    let (card, net) = model_card::load(&args.model, &backend)?;
    let recipe = &card.config.recipe;
    let market = MarketData::read(&Input::new(args.data.clone()), recipe, args.days)?;
    let data = Dataset::on_cpu(&market, recipe)?;
    let table = DeviceTable::new(backend, &data, card.scale)?;
    let predictions = predict_all(&net, &table, data.samples.len())?;
    let samples = &data.samples;
    let at = |p: &u32| data.time_axis.get(*p as usize).copied();
    let times: Vec<f64> = samples.time_index.iter().filter_map(at).collect();
    let list: Vec<u32> = (0..samples.len() as u32).collect();
    // The linear baseline would be fitted on what it is tested on; the others have no parameters.
    let mut rules = baselines(&data, &table, &list, &list, card.scale)?;
    rules.retain(|rule| rule.name != "linear");
    let found = Evaluation {
        scores: score::scores(recipe.target, &predictions, &samples.target, card.scale),
        baselines: rules,
        periods: score::periods(recipe.target, &predictions, &samples.target, card.scale, &times, PERIODS),
    };
    if console.json {
        return console.document(&found);
    }
    let line = |name: &str, s: &Scores| {
        format!("{name:<12} {:6.2} % ± {:.2}\n", 100.0 * s.accuracy, 100.0 * s.std_error)
    };
    let mut text = format!("{} samples, accuracy:\n", found.scores.samples);
    text += &line(card.config.spec.architecture.name(), &found.scores);
    for rule in &found.baselines {
        text += &line(&rule.name, &rule.scores);
    }
    console.print(&text)
}

pub(crate) fn predict(args: &Predict, console: &Console) -> Result<()> {
    let backend = TrainBackend::cpu();
    let (card, net) = model_card::load(&args.model, &backend)?;
    let recipe = &card.config.recipe;
    let market = MarketData::read(&Input::new(args.data.clone()), recipe, args.days)?;
    let data = Dataset::for_prediction(&market, recipe)?;
    let table = DeviceTable::new(backend, &data, card.scale)?;
    let predictions = predict_all(&net, &table, data.samples.len())?;
    let outputs = recipe.target.outputs();
    // One column per series, NaN where there is no full window.
    let mut columns: Vec<Vec<f64>> = market.bars.iter().map(|b| vec![f64::NAN; b.len()]).collect();
    let scale = if recipe.target.classes().is_empty() { f64::from(card.scale) } else { 1.0 };
    for ((prediction, series), bar) in
        predictions.chunks(outputs).zip(&data.samples.series).zip(&data.samples.bar)
    {
        let value = score::decode(recipe.target, prediction).value * scale;
        if let Some(backend) = columns.get_mut(*series as usize).and_then(|c| c.get_mut(*bar as usize)) {
            *backend = value;
        }
    }
    let written = write(&args.output, &market, &columns, recipe.target.name())?;
    if console.json {
        return console.document(&written);
    }
    console.status(&format!("{} rows in {}", written.rows, written.output));
    Ok(())
}

/// Writes symbol, time and prediction for every bar that has one.
fn write(path: &Path, market: &MarketData, columns: &[Vec<f64>], target: &str) -> Result<PredictionReport> {
    let names = [format!("answer_{}", target.replace('-', "_"))];
    let mut writer = Writer::create(path, &market.layout, &names, &WriteOptions::of(path)?)?;
    for (bars, column) in market.bars.iter().zip(columns) {
        let Some(first) = column.iter().position(|x| x.is_finite()) else { continue };
        let times = bars.time.get(first..).unwrap_or_default();
        writer.write(
            bars.symbol.as_ref(),
            times,
            &[ColumnValues::all(column.get(first..).unwrap_or_default())],
        )?;
    }
    let written = writer.finish()?;
    Ok(PredictionReport { rows: written.rows, bytes: written.bytes, output: path.display().to_string() })
}
