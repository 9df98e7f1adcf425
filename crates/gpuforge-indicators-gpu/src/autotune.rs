//! Autotuning: times kernel variants on an adapter with small graphs, interleaved, and keeps the fastest.
//!
//! Three parameters, each measured with the kernels that depend on it: the workgroup size of generated kernels, the number of
//! segments that series are cut into (enough to occupy the adapter, not more: each segment sets up its windows), and the slice
//! length, the part of a segment that one invocation computes. The caller runs the plans: a device, or a fake clock in tests.

use std::{sync::Arc, time::Duration};

use gpuforge_indicators::{
    exec::Series,
    graph::{Graph, ValueId},
    select::{self, Selector},
};
use gpuforge_runtime::plan::{Command, Plan, PlanError};
use serde::{Deserialize, Serialize};

use crate::{
    encoding::OffsetScale,
    gpu_executor::{GpuExecSettings, ProgramPart, scale},
    layout::SegmentLayout,
    lower::{self, Fusion, Lowered},
};

/// Series and bars of a trial: enough work to be measurable, little enough for all trials in a second.
const TRIAL: (usize, usize) = (64, 2048);
/// Rounds over all variants after a warm-up round; the minimum counts, since interference only adds time.
const ROUNDS: usize = 3;
/// Workgroup sizes of generated kernels.
const WORKGROUP_SIZES: [u32; 3] = [64, 128, 256];
/// log2 of the bars of a segment.
const SEGMENT_LOG2S: [u32; 6] = [5, 6, 7, 8, 9, 10];
/// Slice lengths, as multiples of a kernel's preferred one.
const SLICE_FACTORS: [u32; 3] = [1, 2, 4];
/// A variant must take less than this fraction of the default's time to replace it.
const MIN_GAIN: f64 = 0.97;

/// Tuned parameters, their variants, and the indicators to measure with.
const PARAMETERS: [(TunedParameter, &[u32], &str); 3] = [
    (TunedParameter::WorkgroupSize, &WORKGROUP_SIZES, "avgprice, medprice, typprice, wclprice"),
    (TunedParameter::SegmentLog2, &SEGMENT_LOG2S, "ema(20), sum(20)"),
    (TunedParameter::SliceFactor, &SLICE_FACTORS, "sum(20), var(20)"),
];

/// A tuned parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunedParameter {
    /// Workgroup size of the generated kernels.
    WorkgroupSize,
    /// log2 of the bars of a segment.
    SegmentLog2,
    /// Slice length, as a multiple of a kernel's preferred one.
    SliceFactor,
}

/// A measured variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The parameter.
    pub parameter: TunedParameter,
    /// Its value.
    pub variant: u32,
    /// Minimum time; `None` where the adapter rejected it.
    pub time: Option<Duration>,
}

/// The fastest variants on a device, as stored with its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variants {
    /// Workgroup size of the generated kernels.
    #[serde(rename = "width")]
    pub workgroup_size: u32,
    /// Segments that occupy the device.
    #[serde(rename = "runs")]
    pub segments: usize,
    /// Slice length, as a multiple of a kernel's preferred one.
    #[serde(rename = "slices")]
    pub slice_factor: u32,
}

impl Variants {
    /// GpuExecSettings for series of these lengths.
    pub fn settings(&self, base: GpuExecSettings, bars: &[usize]) -> GpuExecSettings {
        let segment_log2 = Some(SegmentLayout::segment_log2_targeting(bars, self.segments));
        GpuExecSettings {
            workgroup_size: self.workgroup_size,
            slice_factor: self.slice_factor,
            segment_log2,
            ..base
        }
    }

    /// Are the values in range?
    pub fn is_sound(&self) -> bool {
        (1..=256).contains(&self.workgroup_size) && (1..=16).contains(&self.slice_factor) && self.segments > 0
    }
}

/// The result of autotuning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// Workgroup size of the generated kernels.
    pub workgroup_size: u32,
    /// Segments that occupy the adapter.
    pub segments: usize,
    /// Slice length, as a multiple of a kernel's preferred one.
    pub slice_factor: u32,
    /// All measurements.
    pub trials: Vec<Trial>,
}

impl Tuned {
    /// GpuExecSettings for series of these lengths.
    pub fn settings(&self, base: GpuExecSettings, bars: &[usize]) -> GpuExecSettings {
        self.variants().settings(base, bars)
    }

    /// The part that is stored.
    pub fn variants(&self) -> Variants {
        Variants {
            workgroup_size: self.workgroup_size,
            segments: self.segments,
            slice_factor: self.slice_factor,
        }
    }
}

/// A graph to measure.
#[derive(Debug, Clone, Copy)]
pub struct TuneWork<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Wanted values.
    pub wanted: &'a [ValueId],
    /// Which of them to lower.
    pub on: &'a [bool],
    /// With or without fusion.
    pub fusion: Fusion,
}

impl TuneWork<'_> {
    /// The lowered graph.
    pub fn lowered(&self) -> Option<Lowered> {
        lower::lower_with(self.graph, self.wanted, self.on, self.fusion)
    }

    /// The plan of one batch, with all calls repeated `times` times and no download: the difference of two such plans is the
    /// time of the calls alone. `None` where a value cannot be lowered.
    pub fn plan(
        &self,
        series: &[Series<'_>],
        settings: GpuExecSettings,
        times: usize,
    ) -> Result<Option<Plan>, PlanError> {
        let Some(lowered) = self.lowered() else { return Ok(None) };
        let part = ProgramPart::of(self.graph, lowered, settings);
        let bars: Vec<usize> = series.iter().map(|s| s.close.len()).collect();
        let layout = SegmentLayout::new(
            &bars,
            settings.segment_log2.unwrap_or_else(|| SegmentLayout::segment_log2_for(&bars)),
        );
        let scales: Vec<OffsetScale> = series.iter().map(scale).collect();
        let columns = part.encode_uploads(&layout, &scales, series);
        let (plan, _) = part.program.record(&layout, &scales, &columns)?;
        repeated(&plan, times).map(Some)
    }
}

/// A recorded plan with all calls after the first (the copy of the uploads) repeated.
fn repeated(plan: &Plan, times: usize) -> Result<Plan, PlanError> {
    let mut again = Plan::new(plan.label());
    let mut calls = Vec::new();
    let mut slots = Vec::new();
    for command in plan.commands() {
        match command {
            Command::Upload { to, data } => {
                slots.push(again.upload(data.clone(), "indicator bars")?);
                for spec in plan.slots().iter().skip(to.index() + 1) {
                    slots.push(again.slot(spec.size, spec.tag));
                }
            }
            Command::Dispatch(d) => calls.push(d),
            Command::Copy { .. } | Command::Download { .. } | Command::Free { .. } => {}
        }
    }
    let Some((place, calls)) = calls.split_first() else { return Ok(again) };
    again.dispatch(&place.kernel, &slots, &place.params, place.groups)?;
    for call in (0..times).flat_map(|_| calls) {
        again.dispatch(&call.kernel, &slots, &call.params, call.groups)?;
    }
    Ok(again)
}

/// Measures all variants; `run` executes a plan and returns its time, or `None` if it fails.
pub fn autotune(mut run: impl FnMut(&Arc<Plan>) -> Option<Duration>) -> Result<Tuned, PlanError> {
    let bars = trial_bars();
    let series: Vec<Series<'_>> = bars.iter().map(|b| of_close(b)).collect();
    let mut trials = Vec::new();
    let mut best = [0; 3];
    let base = GpuExecSettings::default();
    for (best, (parameter, variants, names)) in best.iter_mut().zip(PARAMETERS) {
        let mut plans = Vec::new();
        for variant in variants {
            plans.push((*variant, trial(&series, names, set(parameter, *variant, base))?, None));
        }
        for turn in 0..=ROUNDS {
            for (_, plan, fastest) in &mut plans {
                let time = plan.as_ref().and_then(&mut run);
                if turn > 0 {
                    *fastest = [*fastest, time].into_iter().flatten().min();
                }
            }
        }
        let found = plans.into_iter().map(|(variant, _, time)| Trial { parameter, variant, time });
        let found: Vec<Trial> = found.collect();
        *best = choose(&found, default_value(parameter, base));
        trials.extend(found);
    }
    let [workgroup_size, segment_log2, slice_factor] = best;
    let segments = (TRIAL.0 * TRIAL.1) >> segment_log2;
    Ok(Tuned { workgroup_size, segments, slice_factor, trials })
}

fn set(parameter: TunedParameter, variant: u32, base: GpuExecSettings) -> GpuExecSettings {
    match parameter {
        TunedParameter::WorkgroupSize => GpuExecSettings { workgroup_size: variant, ..base },
        TunedParameter::SegmentLog2 => GpuExecSettings { segment_log2: Some(variant), ..base },
        // Segments as long as the longest slice.
        TunedParameter::SliceFactor => {
            GpuExecSettings { slice_factor: variant, segment_log2: Some(8), ..base }
        }
    }
}

fn default_value(parameter: TunedParameter, base: GpuExecSettings) -> u32 {
    match parameter {
        TunedParameter::WorkgroupSize => base.workgroup_size,
        TunedParameter::SegmentLog2 => SegmentLayout::segment_log2_for(&[TRIAL.1; TRIAL.0]),
        TunedParameter::SliceFactor => base.slice_factor,
    }
}

/// The fastest variant if it is clearly faster than the default, else the default.
fn choose(trials: &[Trial], usual: u32) -> u32 {
    let fastest = trials.iter().filter_map(|t| Some((t.time?, t.variant))).min();
    let known = trials.iter().find(|t| t.variant == usual).and_then(|t| t.time);
    match (fastest, known) {
        (Some((time, variant)), Some(known)) if time.as_secs_f64() < MIN_GAIN * known.as_secs_f64() => {
            variant
        }
        (Some((_, variant)), None) => variant,
        _ => usual,
    }
}

fn trial(
    series: &[Series<'_>],
    names: &str,
    settings: GpuExecSettings,
) -> Result<Option<Arc<Plan>>, PlanError> {
    let Ok(selected) = Selector::new().select(names) else { return Ok(None) };
    let (graph, wanted, _) = select::graph(&selected);
    let on = vec![true; wanted.len()];
    let work = TuneWork { graph: &graph, wanted: &wanted, on: &on, fusion: Fusion::Fused };
    Ok(work.plan(series, settings, 1)?.map(Arc::new))
}

/// Synthetic closes.
fn trial_bars() -> Vec<Vec<f64>> {
    let price = |s: usize, t: usize| 100.0 + ((s * 31 + t * 17) % 97) as f64 / 16.0;
    (0..TRIAL.0).map(|s| (0..TRIAL.1).map(|t| price(s, t)).collect()).collect()
}

fn of_close(close: &[f64]) -> Series<'_> {
    Series { open: close, high: close, low: close, close, volume: close, time: close }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    /// Workgroups of all calls but the first, which copies the uploads.
    fn groups(plan: &Plan) -> u32 {
        let calls = plan.commands().iter().filter_map(|c| match c {
            Command::Dispatch(d) => Some(d.groups.iter().product::<u32>()),
            _ => None,
        });
        calls.skip(1).sum()
    }

    #[test]
    fn fastest_variants_are_chosen_and_all_trials_reported() {
        // An adapter on which only the number of workgroups counts.
        let tuned = autotune(|plan| Some(Duration::from_micros(u64::from(groups(plan))))).unwrap();
        assert_eq!((tuned.workgroup_size, tuned.segments, tuned.slice_factor), (256, 128, 4), "{tuned:?}");
        assert_eq!(tuned.trials.len(), WORKGROUP_SIZES.len() + SEGMENT_LOG2S.len() + SLICE_FACTORS.len());
        let settings = tuned.settings(GpuExecSettings::default(), &[1000; 500]);
        assert_eq!(
            (settings.workgroup_size, settings.segment_log2, settings.slice_factor),
            (256, Some(10), 4)
        );
    }

    #[test]
    fn defaults_win_without_a_clear_gain_and_rejected_variants_are_skipped() {
        let usual = GpuExecSettings::default();
        let even = autotune(|_| Some(Duration::from_millis(1))).unwrap();
        let segment_log2 = SegmentLayout::segment_log2_for(&[TRIAL.1; TRIAL.0]);
        assert_eq!(
            (even.workgroup_size, even.slice_factor, even.segments),
            (usual.workgroup_size, usual.slice_factor, (TRIAL.0 * TRIAL.1) >> segment_log2)
        );
        let none = autotune(|_| None).unwrap();
        assert_eq!((none.workgroup_size, none.slice_factor), (usual.workgroup_size, usual.slice_factor));
        assert!(none.trials.iter().all(|t| t.time.is_none()));
        let some = [(64, None), (128, Some(9)), (256, Some(7))].map(|(variant, ms)| Trial {
            parameter: TunedParameter::WorkgroupSize,
            variant,
            time: ms.map(Duration::from_millis),
        });
        assert_eq!(choose(&some, 64), 256, "the default was rejected");
    }

    #[test]
    fn calls_are_repeated_and_uploads_copied_once() {
        let close = vec![1.0; 100];
        let selected = Selector::new().select("ema(20), typprice").unwrap();
        let (graph, wanted, _) = select::graph(&selected);
        let work = TuneWork { graph: &graph, wanted: &wanted, on: &[true, true], fusion: Fusion::Fused };
        let count = |times: usize| {
            let plan = work.plan(&[of_close(&close)], GpuExecSettings::default(), times).unwrap().unwrap();
            plan.cost().dispatches
        };
        assert_eq!((count(0), count(1), count(3)), (1, 5, 13));
    }
}
