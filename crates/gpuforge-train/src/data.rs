//! Dataset: bars to features to windows with targets, each knowing only what was known at its time.
//!
//! ```text
//!   bars ──► indicators ──► causal normalisation ──► rows ──► windows that end at a row ──┐
//!     └────► future of the close ──► target ─────────────────────────────────────────────┴─► samples, by time ──► parts
//! ```

pub mod causal;
pub mod market;
pub mod recipe;
pub mod split;
pub mod target;

use gpuforge_indicators::{
    exec::{self, ExecOptions, Series},
    graph::{Graph, ValueId},
    plan::ExecPlan,
    select,
};
use gpuforge_indicators_gpu::{
    features::{FeatureSpec, Features, HostRows, Normalise, SeriesRows},
    placement,
};
use gpuforge_runtime::runner::Runner;
use std::{collections::BTreeMap, sync::Arc};

pub use market::MarketData;
pub use recipe::{Recipe, Scaling};

use crate::error::TrainError;

/// Samples in the order of their decisions; one entry per sample in each column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// The last row of the window.
    pub row: Vec<u32>,
    /// The series.
    pub series: Vec<u32>,
    /// The bar of its decision.
    pub bar: Vec<u32>,
    /// The point of time of its decision.
    pub at: Vec<u32>,
    /// The point of time at which its target is known.
    pub until: Vec<u32>,
    /// The target.
    pub target: Vec<f32>,
    /// The log return over the horizon that has just ended: what "goes on as before" foretells.
    pub last: Vec<f32>,
}

impl Samples {
    /// How many.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }
}

/// Where rows of features are.
pub enum Rows {
    /// On the host.
    Host(HostRows),
    /// On a device; what is on the host is which of them are valid.
    Device {
        /// The rows.
        features: Features,
        /// Whose device.
        runner: Arc<Runner>,
    },
}

/// Everything that a training reads.
pub struct Dataset {
    /// How it was made.
    pub recipe: Recipe,
    /// Names of the features.
    pub columns: Vec<String>,
    /// Rows of features.
    pub rows: Rows,
    /// How many.
    pub count: usize,
    /// Windows with targets.
    pub samples: Samples,
    /// Names of the series.
    pub symbols: Vec<String>,
    /// Points of time, in seconds since the epoch.
    pub axis: Vec<f64>,
}

/// What is selected, as the engines want it.
pub(crate) struct FeatureSelection {
    pub(crate) graph: Graph,
    pub(crate) values: Vec<ValueId>,
    pub(crate) columns: Vec<String>,
    ways: Vec<Normalise>,
    on: Vec<bool>,
}

impl FeatureSelection {
    pub(crate) fn of(recipe: &Recipe) -> Result<FeatureSelection, TrainError> {
        let wanted = recipe.wanted()?;
        let (graph, values, columns) = select::graph(&wanted);
        let placed = placement::place_columns(&wanted, &graph, &values, &columns);
        let ways = vec![recipe.scaling.normalise(); columns.len()];
        Ok(FeatureSelection {
            graph,
            values,
            columns,
            ways,
            on: placed.iter().map(|p| p.on_device).collect(),
        })
    }

    pub(crate) fn ask(&self) -> TrainRequest<'_> {
        FeatureSpec { graph: &self.graph, values: &self.values, normalise: &self.ways, on_device: &self.on }
    }

    /// Bars before the first row.
    pub(crate) fn before(&self) -> usize {
        let longest = self.values.iter().map(|v| self.graph.start(*v)).max().unwrap_or(0);
        longest + self.ways.first().map_or(0, |w| w.bars() - 1)
    }
}

impl Dataset {
    /// On the CPU, after the test that no feature looks ahead.
    pub fn on_cpu(market: &MarketData, recipe: &Recipe) -> Result<Dataset, TrainError> {
        Dataset::make(market, recipe, None, true)
    }

    /// Every window, also those whose future is not known yet; targets are NaN. For answers, not for learning.
    pub fn to_answer(market: &MarketData, recipe: &Recipe) -> Result<Dataset, TrainError> {
        Dataset::make(market, recipe, None, false)
    }

    /// With features that a device computes and keeps.
    pub fn on_device(
        market: &MarketData,
        recipe: &Recipe,
        runner: &Arc<Runner>,
    ) -> Result<Dataset, TrainError> {
        Dataset::make(market, recipe, Some(runner), true)
    }

    fn make(
        market: &MarketData,
        recipe: &Recipe,
        runner: Option<&Arc<Runner>>,
        known: bool,
    ) -> Result<Dataset, TrainError> {
        recipe.check()?;
        let selected = FeatureSelection::of(recipe)?;
        let series = market.series();
        let too_short = too_short(&series, recipe, selected.before());
        if let Some(error) = too_short {
            return Err(error);
        }
        causal::check(&selected, &series)?;
        let features = match runner {
            None => Features::on_cpu(&selected.ask(), &series)?,
            Some(runner) => Features::on_device(runner, &selected.ask(), &series, Default::default())?,
        };
        let segments = features.series_rows().to_vec();
        let (rows, valid) = match runner {
            None => {
                let host = features.to_host()?;
                let valid = host.valid.clone();
                (Rows::Host(host), valid)
            }
            Some(runner) => {
                let mut valid = Vec::new();
                for chunk in features.chunks() {
                    valid.extend(features.fetch::<f32>(&chunk.valid)?);
                }
                (Rows::Device { features, runner: runner.clone() }, valid)
            }
        };
        let (samples, axis) = samples(market, recipe, &segments, &valid, known);
        if samples.is_empty() {
            return Err(why_none(&selected, &series, recipe, &valid));
        }
        Ok(Dataset {
            recipe: recipe.clone(),
            columns: selected.columns,
            rows,
            count: valid.len(),
            samples,
            symbols: market.symbols(),
            axis,
        })
    }
}

/// An error where no series is long enough.
fn too_short(series: &[Series<'_>], recipe: &Recipe, before: usize) -> Option<TrainError> {
    let bars = series.iter().map(|s| s.close.len()).max().unwrap_or(0);
    let needed = before + recipe.window + recipe.horizon;
    (bars < needed).then_some(TrainError::TooShort {
        series: series.len(),
        bars,
        needed,
        before,
        window: recipe.window,
        horizon: recipe.horizon,
    })
}

/// Why there is no sample although series are long enough: a column without numbers, no row with all of them, or no price
/// that a target could rest on.
fn why_none(
    selected: &FeatureSelection,
    series: &[Series<'_>],
    recipe: &Recipe,
    valid: &[f32],
) -> TrainError {
    let plan = ExecPlan::new(&selected.graph, &selected.values);
    let all = exec::run(&plan, series, ExecOptions::default());
    let finite = |k: usize| all.iter().filter_map(|s| s.get(k)).flatten().any(|x| x.is_finite());
    let bars = series.iter().map(|s| s.close.len()).sum();
    if let Some((_, column)) = selected.columns.iter().enumerate().find(|(k, _)| !finite(*k)) {
        return TrainError::EmptyFeature { column: column.clone(), bars };
    }
    if valid.iter().all(|v| *v == 0.0) {
        return TrainError::NoRows { columns: selected.columns.len() };
    }
    let needed = selected.before() + recipe.window + recipe.horizon;
    TrainError::TooShort {
        series: series.len(),
        bars: series.iter().map(|s| s.close.len()).max().unwrap_or(0),
        needed,
        before: selected.before(),
        window: recipe.window,
        horizon: recipe.horizon,
    }
}

/// Every window of valid rows whose target exists (or must not be `known`), in the order of time; and the points of time.
fn samples(
    market: &MarketData,
    recipe: &Recipe,
    segments: &[SeriesRows],
    valid: &[f32],
    known: bool,
) -> (Samples, Vec<f64>) {
    let mut axis: Vec<f64> = market.seconds.iter().flatten().copied().collect();
    axis.sort_by(f64::total_cmp);
    axis.dedup();
    let place: BTreeMap<u64, u32> = axis.iter().zip(0..).map(|(t, i)| (t.to_bits(), i)).collect();
    let mut found: Vec<(u32, u32, [u32; 3], [f32; 2])> = Vec::new();
    for segment in segments {
        let (Some(bars), Some(times)) = (market.bars.get(segment.series), market.seconds.get(segment.series))
        else {
            continue;
        };
        let labels = recipe.target.labels(&bars.close, recipe.horizon);
        let position = |bar: usize| times.get(bar).and_then(|t| place.get(&t.to_bits())).copied();
        let mut length = 0;
        for (row, valid) in segment.rows.clone().zip(valid.iter().skip(segment.rows.start)) {
            length = if *valid != 0.0 { length + 1 } else { 0 };
            let bar = segment.first_bar + row - segment.rows.start;
            let target = if known { labels.get(bar).copied().flatten() } else { Some(f32::NAN) };
            let ahead = if known { recipe.horizon } else { 0 };
            if let (true, Some(target), Some(at), Some(until)) =
                (length >= recipe.window, target, position(bar), position(bar + ahead))
            {
                let last = gain(&bars.close, bar, recipe.horizon);
                let whose = segment.series as u32;
                found.push((at, whose, [row as u32, bar as u32, until], [target, last]));
            }
        }
    }
    found.sort_by_key(|(at, whose, ..)| (*at, *whose));
    let mut samples = Samples::default();
    for (at, whose, [row, bar, until], [target, last]) in found {
        samples.at.push(at);
        samples.series.push(whose);
        samples.row.push(row);
        samples.bar.push(bar);
        samples.until.push(until);
        samples.target.push(target);
        samples.last.push(last);
    }
    (samples, axis)
}

/// The log return over the bars before this one; 0 where there are too few.
fn gain(close: &[f64], bar: usize, horizon: usize) -> f32 {
    let before = bar.checked_sub(horizon).and_then(|b| close.get(b));
    match (before, close.get(bar)) {
        (Some(then), Some(now)) if (now / then).ln().is_finite() => (now / then).ln() as f32,
        _ => 0.0,
    }
}
