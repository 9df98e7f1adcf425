//! Workload estimate: bytes, dispatches and kernel work of lowered programs for given series lengths, without recording.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use crate::{
    cost_model::GpuWorkload,
    gpu_executor::GpuExecSettings,
    layout::{SEGMENT_WORDS, SegmentLayout},
    lower::{Call, JobSpec, Lowered},
    record::{MAX_ITERATIONS, Program},
};

/// Passes of a prefix scan.
const SCAN_PASSES: u64 = 3;
/// Words of a job's entry in its table.
const JOB_WORDS: usize = 24;

/// The workload of programs with series of these lengths; pipelines in `compiled` exist already.
pub(super) fn of<'p>(
    programs: impl Iterator<Item = &'p Program>,
    settings: &GpuExecSettings,
    bars: &[usize],
    compiled: &HashSet<u64>,
) -> GpuWorkload {
    let mut work = GpuWorkload::default();
    let mut fresh: HashSet<u64> = HashSet::new();
    for program in programs {
        fresh.extend(kernels(&program.lowered).filter(|k| !compiled.contains(k)));
        let settings = GpuExecSettings { segment_log2: Some(segment_log2(settings, bars)), ..*settings };
        for batch in batches(program, &settings, bars) {
            add_batch(&mut work, program, &settings, batch);
        }
    }
    work.pipelines = fresh.len() as u64;
    work
}

/// Series in about as many batches as the memory limit makes of them.
fn batches<'b>(
    program: &Program,
    settings: &GpuExecSettings,
    bars: &'b [usize],
) -> impl Iterator<Item = &'b [usize]> {
    let words = SegmentLayout::words_of(bars, segment_log2(settings, bars));
    let arena = program.arena(words);
    let in_flight_bytes = settings.in_flight.max(1) as u64 * (arena + program.download_bytes(words));
    let parts =
        arena.div_ceil(settings.largest.0.max(1)).max(in_flight_bytes.div_ceil(settings.memory.0.max(1)));
    bars.chunks(bars.len().div_ceil(usize::try_from(parts).unwrap_or(usize::MAX).max(1)).max(1))
}

fn segment_log2(settings: &GpuExecSettings, bars: &[usize]) -> u32 {
    settings
        .segment_log2
        .unwrap_or_else(|| SegmentLayout::segment_log2_for(&[bars.iter().copied().max().unwrap_or(0)]))
}

fn add_batch(work: &mut GpuWorkload, program: &Program, settings: &GpuExecSettings, bars: &[usize]) {
    let segment_log2 = segment_log2(settings, bars);
    let words = SegmentLayout::words_of(bars, segment_log2);
    let longest = bars.iter().copied().max().unwrap_or(0);
    let lowered = &program.lowered;
    let jobs: usize = lowered.stages.iter().flatten().map(job_count).sum();
    let segments: usize = bars.iter().map(|n| n.div_ceil(1 << segment_log2)).sum();
    let tables = segments * SEGMENT_WORDS + jobs * JOB_WORDS;
    work.up += 4 * (lowered.uploads.len() * words + tables) as u64;
    work.down += program.download_bytes(words);
    work.batches += 1;
    // The scatter of uploaded columns.
    work.dispatches += 1;
    let memory = settings.in_flight.max(1) as u64 * (program.arena(words) + program.download_bytes(words));
    work.memory = work.memory.max(memory.min(settings.memory.0));
    for call in lowered.stages.iter().flatten() {
        let (dispatches, kind, units, sequential) =
            call_work(call, program.slice_factor, segment_log2, words as f64, longest);
        work.dispatches += dispatches;
        work.units.iter_mut().skip(kind).take(1).for_each(|u| *u += units);
        work.sequential += sequential;
    }
}

fn job_count(call: &Call) -> usize {
    match call {
        Call::Pointwise(_) => 0,
        Call::Rolling(_, jobs) | Call::Scan(jobs) | Call::StateMachines(jobs) => jobs.len(),
    }
}

/// Dispatches of a call, its kernel kind, its work, and the part of it that is sequential.
fn call_work(
    call: &Call,
    slice_factor: u32,
    segment_log2: u32,
    words: f64,
    longest: usize,
) -> (u64, usize, f64, f64) {
    let long = 1u32 << segment_log2;
    match call {
        Call::Pointwise(p) => (1, 0, words * (p.loads.len() + p.stores.len()) as f64, 0.0),
        Call::Rolling(_, jobs) => {
            let most = |j: &JobSpec| {
                let preferred = j.slice.saturating_mul(slice_factor.max(1));
                (MAX_ITERATIONS.saturating_sub(j.setup_iterations) / j.step_iterations.max(1))
                    .min(preferred)
                    .clamp(1, long)
            };
            let slice = jobs.iter().map(most).min().unwrap_or(1);
            let each = |j: &JobSpec| {
                1.0 + f64::from(j.step_iterations) + f64::from(j.setup_iterations) / f64::from(slice)
            };
            (1, 1, words * jobs.iter().map(each).sum::<f64>(), 0.0)
        }
        Call::Scan(jobs) => {
            let each = |j: &JobSpec| (2 * j.inputs.len() + j.outputs.len() + 1) as f64;
            (SCAN_PASSES, 2, words * jobs.iter().map(each).sum::<f64>(), 0.0)
        }
        Call::StateMachines(jobs) => {
            let cost = jobs.iter().map(|j| j.step_iterations).max().unwrap_or(1).max(1);
            let chunk = ((MAX_ITERATIONS / cost) >> segment_log2 << segment_log2).max(long);
            let each = |j: &JobSpec| f64::from(j.step_iterations.max(1));
            let units = words * jobs.iter().map(each).sum::<f64>();
            (longest.div_ceil(chunk as usize) as u64, 3, units, longest as f64 * f64::from(cost))
        }
    }
}

/// A hash per pipeline, the same for the same shader text.
pub(super) fn kernels(lowered: &Lowered) -> impl Iterator<Item = u64> + '_ {
    let hash = |text: &str| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    };
    let own = move |call: &Call| match call {
        Call::Pointwise(p) => hash(&p.body),
        other => hash(&name(other)),
    };
    std::iter::once(hash("place")).chain(lowered.stages.iter().flatten().map(own))
}

/// Kernel name in explanations.
pub(super) fn name(call: &Call) -> String {
    match call {
        Call::Pointwise(_) => "pointwise".to_owned(),
        Call::Rolling(kernel, _) => kernel.name().to_owned(),
        Call::Scan(_) => "scan".to_owned(),
        Call::StateMachines(_) => "machine".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use gpuforge_indicators::select::{self, Selector};

    use super::*;
    use crate::{encoding::OffsetScale, lower};

    #[test]
    fn estimate_matches_the_recorded_plan() {
        let wanted = Selector::new().select("rsi(14), macd, bbands, sar, atr(14), willr(14), t3(5)").unwrap();
        let (graph, values, _) = select::graph(&wanted);
        let on = lower::fits(&graph, &values);
        let lowered = lower::lower(&graph, &values, &on).unwrap();
        let program = Program::new(lowered, 64);
        for bars in [vec![300; 5], vec![40_000, 100], vec![1]] {
            let longest = bars.iter().copied().max().unwrap();
            let layout = SegmentLayout::new(&bars, SegmentLayout::segment_log2_for(&[longest]));
            let columns = vec![0u32; program.lowered.uploads.len() * layout.words()];
            let scales = vec![OffsetScale { offset: 0.0, tick: None }; bars.len()];
            let (mut plan, arena) = program.record(&layout, &scales, &columns).unwrap();
            let download = program.download_bytes(layout.words());
            plan.download_first(arena, gpuforge_runtime::units::Bytes(download)).unwrap();
            let settings = GpuExecSettings {
                memory: gpuforge_runtime::units::Bytes(1 << 40),
                ..GpuExecSettings::default()
            };
            let work = of(std::iter::once(&program), &settings, &bars, &HashSet::new());
            let cost = plan.cost();
            assert_eq!(work.dispatches, cost.dispatches, "{bars:?}");
            assert_eq!(work.down, cost.downloaded.0);
            assert!(work.up <= cost.uploaded.0 && cost.uploaded.0 < work.up + work.up / 2 + (1 << 16));
            assert_eq!(work.batches, 1);
        }
        // Compiled pipelines are not counted again.
        let all: HashSet<u64> = kernels(&program.lowered).collect();
        let settings = GpuExecSettings::default();
        assert_eq!(of(std::iter::once(&program), &settings, &[300], &all).pipelines, 0);
        assert!(of(std::iter::once(&program), &settings, &[300], &HashSet::new()).pipelines >= 4);
    }
}
