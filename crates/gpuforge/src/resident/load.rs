//! How much do some series ask of a device? Counts of lowered programs, without recording anything.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use gpuforge_indicators_gpu::{
    layout::{Layout, RUN_WORDS},
    lower::{Call, JobSpec, Lowered},
    record::{MOST_ITERATIONS, Program},
    run::Settings,
};

use super::cost::Load;

/// Passes of a recurrence.
const SCAN_PASSES: u64 = 3;
/// Words of a job's entry in its table.
const JOB_WORDS: usize = 24;

/// What programs ask for, with series of these lengths; pipelines that `compiled` names are there already.
pub(super) fn of<'p>(
    programs: impl Iterator<Item = &'p Program>,
    settings: &Settings,
    bars: &[usize],
    compiled: &HashSet<u64>,
) -> Load {
    let mut load = Load::default();
    let mut fresh: HashSet<u64> = HashSet::new();
    for program in programs {
        fresh.extend(kernels(&program.lowered).filter(|k| !compiled.contains(k)));
        let settings = Settings { steps: Some(steps(settings, bars)), ..*settings };
        for batch in batches(program, &settings, bars) {
            one(&mut load, program, &settings, batch);
        }
    }
    load.pipelines = fresh.len() as u64;
    load
}

/// Series in about as many parts as memory makes of them.
fn batches<'b>(
    program: &Program,
    settings: &Settings,
    bars: &'b [usize],
) -> impl Iterator<Item = &'b [usize]> {
    let words = Layout::words_of(bars, steps(settings, bars));
    let arena = program.arena(words);
    let held = settings.ahead.max(1) as u64 * (arena + program.fetched(words));
    let parts = arena.div_ceil(settings.largest.0.max(1)).max(held.div_ceil(settings.memory.0.max(1)));
    bars.chunks(bars.len().div_ceil(usize::try_from(parts).unwrap_or(usize::MAX).max(1)).max(1))
}

fn steps(settings: &Settings, bars: &[usize]) -> u32 {
    settings.steps.unwrap_or_else(|| Layout::steps_for(&[bars.iter().copied().max().unwrap_or(0)]))
}

fn one(load: &mut Load, program: &Program, settings: &Settings, bars: &[usize]) {
    let steps = steps(settings, bars);
    let words = Layout::words_of(bars, steps);
    let longest = bars.iter().copied().max().unwrap_or(0);
    let lowered = &program.lowered;
    let jobs: usize = lowered.stages.iter().flatten().map(job_count).sum();
    let runs: usize = bars.iter().map(|n| n.div_ceil(1 << steps)).sum();
    let tables = runs * RUN_WORDS + jobs * JOB_WORDS;
    load.up += 4 * (lowered.given.len() * words + tables) as u64;
    load.down += program.fetched(words);
    load.batches += 1;
    // Uploaded columns are brought to their places first.
    load.dispatches += 1;
    let memory = settings.ahead.max(1) as u64 * (program.arena(words) + program.fetched(words));
    load.memory = load.memory.max(memory.min(settings.memory.0));
    for call in lowered.stages.iter().flatten() {
        let (dispatches, kind, units, chain) = asked(call, program.slices, steps, words as f64, longest);
        load.dispatches += dispatches;
        load.units.iter_mut().skip(kind).take(1).for_each(|u| *u += units);
        load.chain += chain;
    }
}

fn job_count(call: &Call) -> usize {
    match call {
        Call::Pointwise(_) => 0,
        Call::Windows(_, jobs) | Call::Scan(jobs) | Call::Machines(jobs) => jobs.len(),
    }
}

/// Dispatches of a call, its kind, what it goes through, and what of that is one step after another.
fn asked(call: &Call, slices: u32, steps: u32, words: f64, longest: usize) -> (u64, usize, f64, f64) {
    let long = 1u32 << steps;
    match call {
        Call::Pointwise(p) => (1, 0, words * (p.loads.len() + p.stores.len()) as f64, 0.0),
        Call::Windows(_, jobs) => {
            let most = |j: &JobSpec| {
                let wished = j.slice.saturating_mul(slices.max(1));
                (MOST_ITERATIONS.saturating_sub(j.to_begin) / j.per_step.max(1)).min(wished).clamp(1, long)
            };
            let slice = jobs.iter().map(most).min().unwrap_or(1);
            let each = |j: &JobSpec| 1.0 + f64::from(j.per_step) + f64::from(j.to_begin) / f64::from(slice);
            (1, 1, words * jobs.iter().map(each).sum::<f64>(), 0.0)
        }
        Call::Scan(jobs) => {
            let each = |j: &JobSpec| (2 * j.inputs.len() + j.outputs.len() + 1) as f64;
            (SCAN_PASSES, 2, words * jobs.iter().map(each).sum::<f64>(), 0.0)
        }
        Call::Machines(jobs) => {
            let cost = jobs.iter().map(|j| j.per_step).max().unwrap_or(1).max(1);
            let chunk = ((MOST_ITERATIONS / cost) >> steps << steps).max(long);
            let each = |j: &JobSpec| f64::from(j.per_step.max(1));
            let units = words * jobs.iter().map(each).sum::<f64>();
            (longest.div_ceil(chunk as usize) as u64, 3, units, longest as f64 * f64::from(cost))
        }
    }
}

/// Kernels by a number that is the same for the same text.
pub(super) fn kernels(lowered: &Lowered) -> impl Iterator<Item = u64> + '_ {
    let number = |text: &str| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    };
    let own = move |call: &Call| match call {
        Call::Pointwise(p) => number(&p.body),
        other => number(&name(other)),
    };
    std::iter::once(number("place")).chain(lowered.stages.iter().flatten().map(own))
}

/// What a call is called in explanations.
pub(super) fn name(call: &Call) -> String {
    match call {
        Call::Pointwise(_) => "pointwise".to_owned(),
        Call::Windows(which, _) => format!("{which:?}").to_lowercase().replace("plain(", "").replace(')', ""),
        Call::Scan(_) => "scan".to_owned(),
        Call::Machines(_) => "machine".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use gpuforge_indicators::select::{self, Selector};
    use gpuforge_indicators_gpu::{layout::Layout, lower, weight::Scale};

    use super::*;

    #[test]
    fn counts_are_those_of_the_recorded_plan() {
        let wanted = Selector::new().select("rsi(14), macd, bbands, sar, atr(14), willr(14), t3(5)").unwrap();
        let (graph, values, _) = select::graph(&wanted);
        let on = lower::fits(&graph, &values);
        let lowered = lower::lower(&graph, &values, &on).unwrap();
        let program = Program::new(lowered, 64);
        for bars in [vec![300; 5], vec![40_000, 100], vec![1]] {
            let longest = bars.iter().copied().max().unwrap();
            let layout = Layout::new(&bars, Layout::steps_for(&[longest]));
            let columns = vec![0u32; program.lowered.given.len() * layout.words()];
            let scales = vec![Scale { level: 0.0, tick: None }; bars.len()];
            let (mut plan, arena) = program.record(&layout, &scales, &columns).unwrap();
            let fetched = program.fetched(layout.words());
            plan.download_first(arena, gpuforge_runtime::units::Bytes(fetched)).unwrap();
            let settings =
                Settings { memory: gpuforge_runtime::units::Bytes(1 << 40), ..Settings::default() };
            let load = of(std::iter::once(&program), &settings, &bars, &HashSet::new());
            let cost = plan.cost();
            assert_eq!(load.dispatches, cost.dispatches, "{bars:?}");
            assert_eq!(load.down, cost.downloaded.0);
            assert!(load.up <= cost.uploaded.0 && cost.uploaded.0 < load.up + load.up / 2 + (1 << 16));
            assert_eq!(load.batches, 1);
        }
        // What is compiled already is not compiled again.
        let all: HashSet<u64> = kernels(&program.lowered).collect();
        let settings = Settings::default();
        assert_eq!(of(std::iter::once(&program), &settings, &[300], &all).pipelines, 0);
        assert!(of(std::iter::once(&program), &settings, &[300], &HashSet::new()).pipelines >= 4);
    }
}
