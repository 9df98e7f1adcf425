//! Test-case shrinking (delta debugging): fewer terms, definitions, series and bars, simpler schedule, while it still fails.

use std::time::{Duration, Instant};

use gpuforge::indicators::exec::ExecOptions;

use crate::{
    bars::{Dataset, SeriesSpec},
    cpu::Case,
    oracle::Oracle,
    schedule::Schedule,
};

/// The smallest failing case found within the time budget.
pub fn shrink(case: &Case, fails: impl Fn(&Case) -> bool, limit: Duration) -> Case {
    let end = Instant::now() + limit;
    let still = |case: &Case| Instant::now() < end && fails(case);
    let mut best = case.clone();
    loop {
        let before = size(&best);
        terms(&mut best, &still);
        definitions(&mut best, &still);
        series(&mut best, &still);
        bars(&mut best, &still);
        schedule(&mut best, &still);
        if size(&best) == before || Instant::now() >= end {
            return best;
        }
    }
}

/// Does the case still fail the CPU check?
pub fn fails(case: &Case) -> bool {
    case.check(&mut Oracle::default()).is_err()
}

fn size(case: &Case) -> (usize, usize, usize, usize) {
    let definitions = case.selection.definitions.len();
    (case.selection.terms.len(), definitions, case.data.specs.len(), case.data.bars())
}

/// Delta debugging of a list: removes halves, quarters, …, then single items.
fn minimise<T: Clone>(all: &[T], try_it: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut kept = all.to_vec();
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < kept.len() {
            let without: Vec<T> = kept.iter().take(at).chain(kept.iter().skip(at + chunk)).cloned().collect();
            if without.len() < kept.len() && try_it(&without) {
                kept = without;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    kept
}

fn terms(best: &mut Case, still: &impl Fn(&Case) -> bool) {
    let with = |terms: &[String]| {
        let mut case = best.clone();
        case.selection.terms = terms.to_vec();
        case
    };
    let kept = minimise(&best.selection.terms, |terms| !terms.is_empty() && still(&with(terms)));
    best.selection.terms = kept;
}

fn definitions(best: &mut Case, still: &impl Fn(&Case) -> bool) {
    let with = |definitions: &[String]| {
        let mut case = best.clone();
        case.selection.definitions = definitions.to_vec();
        case
    };
    // A term without its definition is rejected, which would be another failure.
    let can = |case: &Case| case.selection.wanted().is_ok() && still(case);
    let kept = minimise(&best.selection.definitions, |definitions| can(&with(definitions)));
    best.selection.definitions = kept;
}

fn series(best: &mut Case, still: &impl Fn(&Case) -> bool) {
    let kept = minimise(&best.data.specs, |specs| !specs.is_empty() && still(&with_specs(best, specs)));
    best.data = Dataset::of(kept);
}

fn bars(best: &mut Case, still: &impl Fn(&Case) -> bool) {
    loop {
        let longest = best.data.specs.iter().map(|s| s.bars).max().unwrap_or(0);
        let tried = [longest / 2, longest * 3 / 4, longest * 9 / 10, longest.saturating_sub(1)];
        let shorter = tried.into_iter().filter(|n| *n < longest).find_map(|max_bars| {
            let cut = |s: &SeriesSpec| SeriesSpec { bars: s.bars.min(max_bars), ..*s };
            let case = with_specs(best, &best.data.specs.iter().map(cut).collect::<Vec<_>>());
            still(&case).then_some(case)
        });
        match shorter {
            Some(case) => *best = case,
            None => return,
        }
    }
}

fn with_specs(case: &Case, specs: &[SeriesSpec]) -> Case {
    Case { data: Dataset::of(specs.to_vec()), ..case.clone() }
}

fn schedule(best: &mut Case, still: &impl Fn(&Case) -> bool) {
    let how = best.schedule.how();
    let simpler = [
        ExecOptions { verify_jit: false, ..ExecOptions::with_threads(1) },
        ExecOptions { threads: 1, ..how },
        ExecOptions { block: None, ..how },
        ExecOptions { batched: None, ..how },
        ExecOptions { nontemporal_stores: None, ..how },
    ];
    for how in simpler {
        for schedule in [Schedule::Batch(how), best.schedule.with(how)] {
            let case = Case { schedule, ..best.clone() };
            if case.schedule != best.schedule && still(&case) {
                *best = case;
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unneeded_items_are_removed() {
        let all: Vec<u32> = (0..100).collect();
        let both = |kept: &[u32]| kept.contains(&17) && kept.contains(&83);
        assert_eq!(minimise(&all, both), [17, 83]);
        assert_eq!(minimise(&all, |_| true), Vec::<u32>::new());
        assert_eq!(minimise(&all, |_| false), all);
    }
}
