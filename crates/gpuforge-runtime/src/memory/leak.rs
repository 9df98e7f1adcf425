//! Does memory only ever grow? Two signs: blocks that stay too long, and a level that rises over a window.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BlockClass;
use crate::units::Bytes;

/// Fewer samples say nothing about growth.
pub const MIN_SAMPLES: usize = 10;

/// When to suspect a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakSettings {
    /// How far to look back; a block older than this is suspect.
    pub window: Duration,
    /// Growth is suspect when the end of the window is above this percentage of its start.
    pub threshold_percent: u32,
    /// Samples kept of one window.
    pub samples: u32,
    /// Suspect blocks named in a report; the rest is only counted.
    pub named: usize,
}

impl Default for LeakSettings {
    fn default() -> Self {
        LeakSettings { window: Duration::from_secs(300), threshold_percent: 120, samples: 100, named: 50 }
    }
}

impl LeakSettings {
    /// Time between two samples.
    pub fn every(&self) -> Duration {
        self.window / self.samples.max(1)
    }
}

/// A block that has been held for longer than the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldBlock {
    /// What it was asked for.
    pub tag: String,
    /// Which kind of block.
    pub class: BlockClass,
    /// Its size as asked.
    pub size: Bytes,
    /// How long it has been held.
    pub age: Duration,
}

/// A level that rose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Mean of the first third of the samples.
    pub first: Bytes,
    /// Mean of the last third.
    pub last: Bytes,
    /// Samples in the window.
    pub samples: usize,
}

/// What looks like a leak. Suspicion, not proof: weights are meant to stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakReport {
    /// The oldest blocks beyond the window, oldest first; no more than the settings name.
    pub old: Vec<OldBlock>,
    /// Blocks beyond the window in all.
    pub old_blocks: u64,
    /// Their bytes.
    pub old_bytes: Bytes,
    /// The rise, if there is one.
    pub growth: Option<Growth>,
}

impl LeakReport {
    /// Is there anything to look at?
    pub fn is_suspect(&self) -> bool {
        self.old_blocks > 0 || self.growth.is_some()
    }
}

/// The rise from the first to the last third of the samples, when the mean of the last is above `threshold_percent`
/// of the mean of the first and there are at least [`MIN_SAMPLES`]. Exact: compared as integers.
pub fn growth(samples: &[Bytes], threshold_percent: u32) -> Option<Growth> {
    let third = samples.len() / 3;
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    let sum = |part: &[Bytes]| part.iter().map(|b| u128::from(b.0)).sum::<u128>();
    let first = sum(samples.get(..third)?);
    let last = sum(samples.get(samples.len() - third..)?);
    // Both thirds have the same length, so sums compare as means do.
    let rose = last * 100 > first * u128::from(threshold_percent);
    let mean = |sum: u128| Bytes((sum / third as u128) as u64);
    rose.then(|| Growth { first: mean(first), last: mean(last), samples: samples.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten samples: three at `first`, four between, three at `last`.
    fn ten(first: u64, last: u64) -> Vec<Bytes> {
        [[first; 3].as_slice(), &[7; 4], &[last; 3]].concat().into_iter().map(Bytes).collect()
    }

    #[test]
    fn the_threshold_is_exclusive_and_exact() {
        assert_eq!(growth(&ten(1000, 1200), 120), None);
        let risen = growth(&ten(1000, 1201), 120);
        assert_eq!(risen, Some(Growth { first: Bytes(1000), last: Bytes(1201), samples: 10 }));
        assert_eq!(growth(&ten(1000, 1201), 121), None);
        assert_eq!(growth(&ten(5, 5), 120), None);
        assert_eq!(growth(&ten(0, 0), 120), None);
        assert!(growth(&ten(0, 1), 120).is_some());
        assert!(growth(&ten(u64::MAX / 2, u64::MAX), 120).is_some());
    }

    #[test]
    fn nine_samples_say_nothing() {
        let samples = ten(1, 1000);
        assert_eq!(growth(&samples[1..], 120), None);
        assert_eq!(growth(&[], 120), None);
    }

    #[test]
    fn a_peak_that_went_away_is_no_growth() {
        let samples: Vec<_> = [10, 10, 10, 10, 900, 900, 900, 900, 10, 10, 10, 10].map(Bytes).into();
        assert_eq!(growth(&samples, 120), None);
    }
}
