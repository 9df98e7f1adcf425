//! Which blocks will be needed? Those that earlier runs used at once, the cheapest first, within a share of what is free.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BlockClass;
use crate::units::Bytes;

/// The most blocks of one class that were in use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassPeak {
    /// Their use.
    pub class: BlockClass,
    /// Their size.
    pub size: Bytes,
    /// How many.
    pub peak: u32,
}

/// What earlier runs used. Plain data: whoever owns the file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Runs that went into it.
    pub runs: u32,
    /// Expected peaks.
    pub peaks: Vec<ClassPeak>,
}

impl History {
    /// The history with one more run. A run that used more counts at once; one that used less halves what is expected,
    /// so that a class nobody uses any more is gone after a few runs.
    pub fn learn(&self, run: &[ClassPeak]) -> History {
        let mut peaks: BTreeMap<(Bytes, BlockClass), u32> = BTreeMap::new();
        for old in &self.peaks {
            let peak = peaks.entry((old.size, old.class)).or_default();
            *peak = (*peak).max(old.peak / 2);
        }
        for new in run {
            let peak = peaks.entry((new.size, new.class)).or_default();
            *peak = (*peak).max(new.peak);
        }
        let known = peaks.into_iter().filter(|(_, peak)| *peak > 0);
        let peaks = known.map(|((size, class), peak)| ClassPeak { class, size, peak }).collect();
        History { runs: self.runs.saturating_add(1), peaks }
    }
}

/// Blocks to make ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrewarmStep {
    /// Their use.
    pub class: BlockClass,
    /// Size of each.
    pub size: Bytes,
    /// How many.
    pub count: u32,
}

/// What to make ahead, given the history and what is left of the budget; together never more than `share_percent` of it.
///
/// Small blocks first: what a block saves is one call of the device, whatever its size, so bytes are the price.
pub fn prewarm(history: &History, budget_left: Bytes, share_percent: u8) -> Vec<PrewarmStep> {
    let share = u128::from(budget_left.0) * u128::from(share_percent.min(100)) / 100;
    let mut left = Bytes(share as u64);
    let mut peaks: Vec<_> = history.peaks.iter().filter(|p| p.size > Bytes::ZERO).collect();
    peaks.sort_by_key(|p| (p.size, p.class));
    let step = |p: &ClassPeak| {
        let count = (left.0 / p.size.0).min(p.peak.into()) as u32;
        left -= Bytes(p.size.0 * u64::from(count));
        (count > 0).then_some(PrewarmStep { class: p.class, size: p.size, count })
    };
    peaks.into_iter().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use BlockClass::{Storage, Uniform};
    use proptest::prelude::*;

    fn peak(class: BlockClass, size: u64, peak: u32) -> ClassPeak {
        ClassPeak { class, size: Bytes(size), peak }
    }

    #[test]
    fn more_counts_at_once_and_less_fades() {
        let first = History::default().learn(&[peak(Storage, 512, 8), peak(Uniform, 256, 1)]);
        assert_eq!((first.runs, first.peaks.len()), (1, 2));
        let second = first.learn(&[peak(Storage, 512, 20)]);
        assert_eq!(second, History { runs: 2, peaks: vec![peak(Storage, 512, 20)] });
        assert_eq!(second.learn(&[peak(Storage, 512, 3)]).peaks, [peak(Storage, 512, 10)]);
        assert_eq!((0..5).fold(second, |h, _| h.learn(&[])).peaks, []);
    }

    #[test]
    fn small_ones_first_within_the_share() {
        let peaks = vec![peak(Storage, 4096, 10), peak(Storage, 512, 4), peak(Uniform, 256, 2)];
        let history = History { runs: 1, peaks };
        let plan = |left| -> Vec<_> {
            prewarm(&history, Bytes(left), 50).iter().map(|s| (s.size.0, s.count)).collect()
        };
        assert_eq!(plan(100_000), [(256, 2), (512, 4), (4096, 10)]);
        assert_eq!(plan(2 * (512 + 2048 + 4096 + 4095)), [(256, 2), (512, 4), (4096, 1)]);
        assert_eq!(plan(2 * 767), [(256, 2)]);
        assert_eq!(plan(0), []);
    }

    proptest! {
        /// Also with a history that no run of ours wrote.
        #[test]
        fn never_beyond_the_share(
            rows in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..20),
            left in any::<u64>(),
            share in any::<u8>(),
        ) {
            let peaks = rows.into_iter().map(|(size, count)| peak(Storage, size, count)).collect();
            let steps = prewarm(&History { runs: 1, peaks }, Bytes(left), share);
            let sum: u128 = steps.iter().map(|s| u128::from(s.size.0) * u128::from(s.count)).sum();
            prop_assert!(sum * 100 <= u128::from(left) * u128::from(share.min(100)));
        }
    }
}
