//! Prewarming the pool: allocates blocks ahead from the per-class peaks of earlier runs, smallest first, within a share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BlockClass;
use crate::units::Bytes;

/// High-water mark of one size class: the most blocks that were in use at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassPeak {
    /// Buffer usage.
    pub class: BlockClass,
    /// Block size.
    pub size: Bytes,
    /// Number of blocks.
    pub peak: u32,
}

/// Peaks of earlier runs. Plain data: the owner of the file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationHistory {
    /// Number of runs in it.
    pub runs: u32,
    /// Expected peaks.
    pub peaks: Vec<ClassPeak>,
}

impl AllocationHistory {
    /// The history with one more run. A higher peak replaces the expectation at once; a lower one halves it (exponential
    /// decay), so that a class that is no longer used is gone after a few runs.
    pub fn learn(&self, run: &[ClassPeak]) -> AllocationHistory {
        let mut peaks: BTreeMap<(Bytes, BlockClass), u32> = BTreeMap::new();
        for old in &self.peaks {
            let peak = peaks.entry((old.size, old.class)).or_default();
            *peak = (*peak).max(old.peak / 2);
        }
        for new in run {
            let peak = peaks.entry((new.size, new.class)).or_default();
            *peak = (*peak).max(new.peak);
        }
        let used = peaks.into_iter().filter(|(_, peak)| *peak > 0);
        let peaks = used.map(|((size, class), peak)| ClassPeak { class, size, peak }).collect();
        AllocationHistory { runs: self.runs.saturating_add(1), peaks }
    }
}

/// Blocks to allocate ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrewarmStep {
    /// Buffer usage.
    pub class: BlockClass,
    /// Size of each block.
    pub size: Bytes,
    /// Number of blocks.
    pub count: u32,
}

/// What to allocate ahead, given the history and the remaining budget; together at most `share_percent` of it.
///
/// Small blocks first: a block saves one device call whatever its size, so bytes are the price.
pub fn prewarm(history: &AllocationHistory, budget_left: Bytes, share_percent: u8) -> Vec<PrewarmStep> {
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
    fn higher_peak_replaces_and_lower_peak_decays() {
        let first = AllocationHistory::default().learn(&[peak(Storage, 512, 8), peak(Uniform, 256, 1)]);
        assert_eq!((first.runs, first.peaks.len()), (1, 2));
        let second = first.learn(&[peak(Storage, 512, 20)]);
        assert_eq!(second, AllocationHistory { runs: 2, peaks: vec![peak(Storage, 512, 20)] });
        assert_eq!(second.learn(&[peak(Storage, 512, 3)]).peaks, [peak(Storage, 512, 10)]);
        assert_eq!((0..5).fold(second, |h, _| h.learn(&[])).peaks, []);
    }

    #[test]
    fn smallest_blocks_first_within_the_share() {
        let peaks = vec![peak(Storage, 4096, 10), peak(Storage, 512, 4), peak(Uniform, 256, 2)];
        let history = AllocationHistory { runs: 1, peaks };
        let plan = |left| -> Vec<_> {
            prewarm(&history, Bytes(left), 50).iter().map(|s| (s.size.0, s.count)).collect()
        };
        assert_eq!(plan(100_000), [(256, 2), (512, 4), (4096, 10)]);
        assert_eq!(plan(2 * (512 + 2048 + 4096 + 4095)), [(256, 2), (512, 4), (4096, 1)]);
        assert_eq!(plan(2 * 767), [(256, 2)]);
        assert_eq!(plan(0), []);
    }

    proptest! {
        /// Also with an arbitrary (corrupt) history.
        #[test]
        fn prewarm_never_exceeds_the_share(
            rows in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..20),
            left in any::<u64>(),
            share in any::<u8>(),
        ) {
            let peaks = rows.into_iter().map(|(size, count)| peak(Storage, size, count)).collect();
            let steps = prewarm(&AllocationHistory { runs: 1, peaks }, Bytes(left), share);
            let sum: u128 = steps.iter().map(|s| u128::from(s.size.0) * u128::from(s.count)).sum();
            prop_assert!(sum * 100 <= u128::from(left) * u128::from(share.min(100)));
        }
    }
}
