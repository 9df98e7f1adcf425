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

/// Samples in time order, as columns with one entry per sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Last feature row of the window.
    pub last_row: Vec<u32>,
    /// Series index.
    pub series: Vec<u32>,
    /// Bar at which the prediction is made.
    pub bar: Vec<u32>,
    /// Index of that bar's time on the shared time axis.
    pub time_index: Vec<u32>,
    /// Time index at which the target is known.
    pub target_time_index: Vec<u32>,
    /// The target.
    pub target: Vec<f32>,
    /// Log return over the past horizon: what the momentum baseline reads.
    pub past_return: Vec<f32>,
}

impl Samples {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.last_row.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.last_row.is_empty()
    }
}

/// Feature rows, on the host or on a device.
pub enum Rows {
    /// On the host.
    Host(HostRows),
    /// Resident on a device; only the validity mask is on the host.
    Device {
        /// The rows.
        features: Features,
        /// The runner whose device holds them.
        runner: Arc<Runner>,
    },
}

/// A dataset: feature rows, and samples that index into them.
pub struct Dataset {
    /// How it was built.
    pub recipe: Recipe,
    /// Feature names.
    pub columns: Vec<String>,
    /// Rows of features.
    pub rows: Rows,
    /// Number of entries.
    pub row_count: usize,
    /// Samples: windows with targets.
    pub samples: Samples,
    /// Series names.
    pub symbols: Vec<String>,
    /// Shared time axis, in seconds since the epoch.
    pub time_axis: Vec<f64>,
}

/// Selected indicators as a graph with normalisation and placement per column.
pub(crate) struct FeatureSelection {
    pub(crate) graph: Graph,
    pub(crate) values: Vec<ValueId>,
    pub(crate) columns: Vec<String>,
    normalise: Vec<Normalise>,
    on_device: Vec<bool>,
}

impl FeatureSelection {
    pub(crate) fn of(recipe: &Recipe) -> Result<FeatureSelection, TrainError> {
        let wanted = recipe.select()?;
        let (graph, values, columns) = select::graph(&wanted);
        let placed = placement::place_columns(&graph, &values, &columns);
        let normalise = vec![recipe.scaling.normalise(); columns.len()];
        Ok(FeatureSelection {
            graph,
            values,
            columns,
            normalise,
            on_device: placed.iter().map(|p| p.on_device).collect(),
        })
    }

    pub(crate) fn feature_spec(&self) -> FeatureSpec<'_> {
        FeatureSpec {
            graph: &self.graph,
            values: &self.values,
            normalise: &self.normalise,
            on_device: &self.on_device,
        }
    }

    /// Warm-up: bars before the first row.
    pub(crate) fn warm_up_bars(&self) -> usize {
        let longest = self.values.iter().map(|v| self.graph.start(*v)).max().unwrap_or(0);
        longest + self.normalise.first().map_or(0, |w| w.bars() - 1)
    }
}

impl Dataset {
    /// Computes features on the CPU, after the look-ahead test.
    pub fn on_cpu(market: &MarketData, recipe: &Recipe) -> Result<Dataset, TrainError> {
        Dataset::make(market, recipe, None, true)
    }

    /// For prediction: every window, including those whose future is not known yet; targets are NaN.
    pub fn for_prediction(market: &MarketData, recipe: &Recipe) -> Result<Dataset, TrainError> {
        Dataset::make(market, recipe, None, false)
    }

    /// Computes features on a device, where they stay resident.
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
        with_targets: bool,
    ) -> Result<Dataset, TrainError> {
        recipe.check()?;
        let selection = FeatureSelection::of(recipe)?;
        let series = market.series();
        let too_short = too_short(&series, recipe, selection.warm_up_bars());
        if let Some(error) = too_short {
            return Err(error);
        }
        causal::check(&selection, &series)?;
        let features = match runner {
            None => Features::on_cpu(&selection.feature_spec(), &series)?,
            Some(runner) => {
                Features::on_device(runner, &selection.feature_spec(), &series, Default::default())?
            }
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
        let (samples, time_axis) = samples(market, recipe, &segments, &valid, with_targets);
        if samples.is_empty() {
            return Err(diagnose_empty(&selection, &series, recipe, &valid));
        }
        Ok(Dataset {
            recipe: recipe.clone(),
            columns: selection.columns,
            rows,
            row_count: valid.len(),
            samples,
            symbols: market.symbols(),
            time_axis,
        })
    }
}

/// An error if no series is long enough for one sample.
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

/// Diagnoses an empty dataset of long enough series: a feature without values, no complete row, or no usable price.
fn diagnose_empty(
    selection: &FeatureSelection,
    series: &[Series<'_>],
    recipe: &Recipe,
    valid: &[f32],
) -> TrainError {
    let plan = ExecPlan::new(&selection.graph, &selection.values);
    let all = exec::run(&plan, series, ExecOptions::default());
    let finite = |k: usize| all.iter().filter_map(|s| s.get(k)).flatten().any(|x| x.is_finite());
    let bars = series.iter().map(|s| s.close.len()).sum();
    if let Some((_, column)) = selection.columns.iter().enumerate().find(|(k, _)| !finite(*k)) {
        return TrainError::EmptyFeature { column: column.clone(), bars };
    }
    if valid.iter().all(|v| *v == 0.0) {
        return TrainError::NoRows { columns: selection.columns.len() };
    }
    let needed = selection.warm_up_bars() + recipe.window + recipe.horizon;
    TrainError::TooShort {
        series: series.len(),
        bars: series.iter().map(|s| s.close.len()).max().unwrap_or(0),
        needed,
        before: selection.warm_up_bars(),
        window: recipe.window,
        horizon: recipe.horizon,
    }
}

/// Samples in time order, and the shared time axis: every window of valid rows that has a target, or every window if not
/// `with_targets`.
fn samples(
    market: &MarketData,
    recipe: &Recipe,
    segments: &[SeriesRows],
    valid: &[f32],
    with_targets: bool,
) -> (Samples, Vec<f64>) {
    let mut time_axis: Vec<f64> = market.seconds.iter().flatten().copied().collect();
    time_axis.sort_by(f64::total_cmp);
    time_axis.dedup();
    let time_index: BTreeMap<u64, u32> = time_axis.iter().zip(0..).map(|(t, i)| (t.to_bits(), i)).collect();
    let mut found: Vec<(u32, u32, [u32; 3], [f32; 2])> = Vec::new();
    for segment in segments {
        let (Some(bars), Some(times)) = (market.bars.get(segment.series), market.seconds.get(segment.series))
        else {
            continue;
        };
        let labels = recipe.target.labels(&bars.close, recipe.horizon);
        let position = |bar: usize| times.get(bar).and_then(|t| time_index.get(&t.to_bits())).copied();
        let mut length = 0;
        for (row, valid) in segment.rows.clone().zip(valid.iter().skip(segment.rows.start)) {
            length = if *valid != 0.0 { length + 1 } else { 0 };
            let bar = segment.first_bar + row - segment.rows.start;
            let target = if with_targets { labels.get(bar).copied().flatten() } else { Some(f32::NAN) };
            let ahead = if with_targets { recipe.horizon } else { 0 };
            if let (true, Some(target), Some(at), Some(until)) =
                (length >= recipe.window, target, position(bar), position(bar + ahead))
            {
                let last = past_return(&bars.close, bar, recipe.horizon);
                let series = segment.series as u32;
                found.push((at, series, [row as u32, bar as u32, until], [target, last]));
            }
        }
    }
    found.sort_by_key(|(at, series, ..)| (*at, *series));
    let mut samples = Samples::default();
    for (at, series, [row, bar, until], [target, last]) in found {
        samples.time_index.push(at);
        samples.series.push(series);
        samples.last_row.push(row);
        samples.bar.push(bar);
        samples.target_time_index.push(until);
        samples.target.push(target);
        samples.past_return.push(last);
    }
    (samples, time_axis)
}

/// Log return over the past horizon; 0 where there are too few bars.
fn past_return(close: &[f64], bar: usize, horizon: usize) -> f32 {
    let before = bar.checked_sub(horizon).and_then(|b| close.get(b));
    match (before, close.get(bar)) {
        (Some(then), Some(now)) if (now / then).ln().is_finite() => (now / then).ln() as f32,
        _ => 0.0,
    }
}
