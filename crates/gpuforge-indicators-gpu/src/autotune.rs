//! Which variants suit an adapter? Small graphs with each of them, by turns, timed; the fastest ones are the settings.
//!
//! Three questions, each asked of the kernels that it matters to: how wide a group of a generated kernel is, into how many
//! runs series are cut (enough to keep the adapter busy, not more: every run begins with a window), and how long the slices
//! of runs are that one invocation computes. What runs a plan is the caller's: a device, or a clock of a test.

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

/// Series and bars of a trial: enough work for its time to be told, little enough for all of them in a second.
const TRIAL: (usize, usize) = (64, 2048);
/// Turns of all variants after one that compiles and warms; the least counts, since what others do only ever adds.
const TURNS: usize = 3;
/// Invocations of a group of generated kernels.
const WIDTHS: [u32; 3] = [64, 128, 256];
/// log2 of the bars of a run.
const STEPS: [u32; 6] = [5, 6, 7, 8, 9, 10];
/// Slices, as multiples of what a kernel's author wishes.
const SLICES: [u32; 3] = [1, 2, 4];
/// A variant that is not this much faster than the usual one is not worth leaving it.
const CLEAR: f64 = 0.97;

/// What is asked, with which variants, of which indicators.
const QUESTIONS: [(Question, &[u32], &str); 3] = [
    (Question::Width, &WIDTHS, "avgprice, medprice, typprice, wclprice"),
    (Question::Steps, &STEPS, "ema(20), sum(20)"),
    (Question::Slices, &SLICES, "sum(20), var(20)"),
];

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Invocations of a group of the generated kernels.
    Width,
    /// log2 of the bars of a run.
    Steps,
    /// Slices, as multiples of what a kernel's author wishes.
    Slices,
}

/// A variant and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// What was varied.
    pub question: Question,
    /// How.
    pub variant: u32,
    /// The least of its times; `None` where the adapter refused it.
    pub time: Option<Duration>,
}

/// Variants that were the fastest on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variants {
    /// Invocations of a group of the generated kernels.
    pub workgroup_size: u32,
    /// Runs that keep the device busy.
    pub segments: usize,
    /// Slices, as multiples of what a kernel's author wishes.
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

    /// Are they ones that could have been tried?
    pub fn is_sound(&self) -> bool {
        (1..=256).contains(&self.workgroup_size) && (1..=16).contains(&self.slice_factor) && self.segments > 0
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// Invocations of a group of the generated kernels.
    pub workgroup_size: u32,
    /// Runs that keep the adapter busy.
    pub segments: usize,
    /// Slices, as multiples of what a kernel's author wishes.
    pub slice_factor: u32,
    /// All that was tried.
    pub trials: Vec<Trial>,
}

impl Tuned {
    /// GpuExecSettings for series of these lengths.
    pub fn settings(&self, base: GpuExecSettings, bars: &[usize]) -> GpuExecSettings {
        self.variants().settings(base, bars)
    }

    /// What is kept of it.
    pub fn variants(&self) -> Variants {
        Variants {
            workgroup_size: self.workgroup_size,
            segments: self.segments,
            slice_factor: self.slice_factor,
        }
    }
}

/// A graph and what is wanted of it.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Values.
    pub wanted: &'a [ValueId],
    /// Which of them.
    pub on: &'a [bool],
    /// With or without fusing.
    pub fusion: Fusion,
}

impl Work<'_> {
    /// Lowered as it will be recorded.
    pub fn lowered(&self) -> Option<Lowered> {
        lower::lower_with(self.graph, self.wanted, self.on, self.fusion)
    }

    /// The plan of one batch, with all calls `times` times one after the other and nothing fetched: the difference of two
    /// such plans is the time of the calls alone. `None`: there is something among it that no device computes.
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

/// A recorded plan with everything after its first call, which brings the columns to their places, several times.
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

/// Measures all variants with what runs a plan and tells its time, or that it cannot.
pub fn autotune(mut run: impl FnMut(&Arc<Plan>) -> Option<Duration>) -> Result<Tuned, PlanError> {
    let bars = trial_bars();
    let series: Vec<Series<'_>> = bars.iter().map(|b| of_close(b)).collect();
    let mut trials = Vec::new();
    let mut best = [0; 3];
    let base = GpuExecSettings::default();
    for (best, (question, variants, names)) in best.iter_mut().zip(QUESTIONS) {
        let mut plans = Vec::new();
        for variant in variants {
            plans.push((*variant, trial(&series, names, set(question, *variant, base))?, None));
        }
        for turn in 0..=TURNS {
            for (_, plan, least) in &mut plans {
                let time = plan.as_ref().and_then(&mut run);
                if turn > 0 {
                    *least = [*least, time].into_iter().flatten().min();
                }
            }
        }
        let found = plans.into_iter().map(|(variant, _, time)| Trial { question, variant, time });
        let found: Vec<Trial> = found.collect();
        *best = choose(&found, usual(question, base));
        trials.extend(found);
    }
    let [workgroup_size, segment_log2, slice_factor] = best;
    let segments = (TRIAL.0 * TRIAL.1) >> segment_log2;
    Ok(Tuned { workgroup_size, segments, slice_factor, trials })
}

fn set(question: Question, variant: u32, base: GpuExecSettings) -> GpuExecSettings {
    match question {
        Question::Width => GpuExecSettings { workgroup_size: variant, ..base },
        Question::Steps => GpuExecSettings { segment_log2: Some(variant), ..base },
        // Runs as long as the longest slice.
        Question::Slices => GpuExecSettings { slice_factor: variant, segment_log2: Some(8), ..base },
    }
}

fn usual(question: Question, base: GpuExecSettings) -> u32 {
    match question {
        Question::Width => base.workgroup_size,
        Question::Steps => SegmentLayout::segment_log2_for(&[TRIAL.1; TRIAL.0]),
        Question::Slices => base.slice_factor,
    }
}

/// The fastest variant, if it is clearly faster than the usual one.
fn choose(trials: &[Trial], usual: u32) -> u32 {
    let fastest = trials.iter().filter_map(|t| Some((t.time?, t.variant))).min();
    let known = trials.iter().find(|t| t.variant == usual).and_then(|t| t.time);
    match (fastest, known) {
        (Some((time, variant)), Some(known)) if time.as_secs_f64() < CLEAR * known.as_secs_f64() => variant,
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
    let work = Work { graph: &graph, wanted: &wanted, on: &on, fusion: Fusion::Fused };
    Ok(work.plan(series, settings, 1)?.map(Arc::new))
}

/// Prices that move a little.
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

    /// Groups of all calls but the first, which only brings columns to their places.
    fn groups(plan: &Plan) -> u32 {
        let calls = plan.commands().iter().filter_map(|c| match c {
            Command::Dispatch(d) => Some(d.groups.iter().product::<u32>()),
            _ => None,
        });
        calls.skip(1).sum()
    }

    #[test]
    fn the_fastest_variants_are_chosen_and_all_are_told() {
        // An adapter on which only the number of groups counts: wide groups, long runs, long slices.
        let tuned = autotune(|plan| Some(Duration::from_micros(u64::from(groups(plan))))).unwrap();
        assert_eq!((tuned.workgroup_size, tuned.segments, tuned.slice_factor), (256, 128, 4), "{tuned:?}");
        assert_eq!(tuned.trials.len(), WIDTHS.len() + STEPS.len() + SLICES.len());
        let settings = tuned.settings(GpuExecSettings::default(), &[1000; 500]);
        assert_eq!(
            (settings.workgroup_size, settings.segment_log2, settings.slice_factor),
            (256, Some(10), 4)
        );
    }

    #[test]
    fn nothing_clearly_faster_leaves_the_usual_and_refusals_are_no_candidates() {
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
            question: Question::Width,
            variant,
            time: ms.map(Duration::from_millis),
        });
        assert_eq!(choose(&some, 64), 256, "the usual one was refused");
    }

    #[test]
    fn calls_are_repeated_and_columns_are_placed_once() {
        let close = vec![1.0; 100];
        let selected = Selector::new().select("ema(20), typprice").unwrap();
        let (graph, wanted, _) = select::graph(&selected);
        let work = Work { graph: &graph, wanted: &wanted, on: &[true, true], fusion: Fusion::Fused };
        let count = |times: usize| {
            let plan = work.plan(&[of_close(&close)], GpuExecSettings::default(), times).unwrap().unwrap();
            plan.cost().dispatches
        };
        assert_eq!((count(0), count(1), count(3)), (1, 5, 13));
    }
}
