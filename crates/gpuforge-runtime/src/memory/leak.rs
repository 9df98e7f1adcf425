//! Leak detection: blocks held longer than a window, and usage that grows from the first to the last third of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BlockClass;
use crate::units::Bytes;

/// Minimum number of samples for the growth test.
pub const MIN_SAMPLES: usize = 10;

/// When to suspect a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakSettings {
    /// Look-back window; a block held longer is suspect.
    pub window: Duration,
    /// Growth is suspect when usage at the end of the window exceeds this percentage of its start.
    pub threshold_percent: u32,
    /// Samples per window.
    pub samples: u32,
    /// Suspect blocks listed in a report; the others are only counted.
    pub named: usize,
}

impl Default for LeakSettings {
    fn default() -> Self {
        LeakSettings { window: Duration::from_secs(300), threshold_percent: 120, samples: 100, named: 50 }
    }
}

impl LeakSettings {
    /// Sampling interval.
    pub fn every(&self) -> Duration {
        self.window / self.samples.max(1)
    }
}

/// A block held longer than the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldBlock {
    /// What it is for.
    pub tag: String,
    /// Its buffer usage.
    pub class: BlockClass,
    /// The requested size.
    pub size: Bytes,
    /// How long it has been held.
    pub age: Duration,
}

/// Usage that grew over the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Mean of the first third of the samples.
    pub first: Bytes,
    /// Mean of the last third.
    pub last: Bytes,
    /// Samples in the window.
    pub samples: usize,
}

/// Suspected leaks. Suspicion, not proof: model weights are meant to stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakReport {
    /// Blocks held longer than the window, oldest first; at most [`LeakSettings::named`].
    pub old: Vec<OldBlock>,
    /// Number of blocks held longer than the window.
    pub old_blocks: u64,
    /// Their bytes.
    pub old_bytes: Bytes,
    /// The growth, if there is any.
    pub growth: Option<Growth>,
}

impl LeakReport {
    /// Is anything suspect?
    pub fn is_suspect(&self) -> bool {
        self.old_blocks > 0 || self.growth.is_some()
    }
}

/// The growth from the first to the last third of the samples, when the mean of the last exceeds `threshold_percent` of
/// the mean of the first and there are at least [`MIN_SAMPLES`]. Exact: compared as integers.
pub fn growth(samples: &[Bytes], threshold_percent: u32) -> Option<Growth> {
    let third = samples.len() / 3;
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    let sum = |part: &[Bytes]| part.iter().map(|b| u128::from(b.0)).sum::<u128>();
    let first = sum(samples.get(..third)?);
    let last = sum(samples.get(samples.len() - third..)?);
    // Both thirds have the same length, so sums compare as means do.
    let grew = last * 100 > first * u128::from(threshold_percent);
    let mean = |sum: u128| Bytes((sum / third as u128) as u64);
    grew.then(|| Growth { first: mean(first), last: mean(last), samples: samples.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten samples: three at `first`, four between, three at `last`.
    fn ten(first: u64, last: u64) -> Vec<Bytes> {
        [[first; 3].as_slice(), &[7; 4], &[last; 3]].concat().into_iter().map(Bytes).collect()
    }

    #[test]
    fn threshold_is_exclusive_and_exact() {
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
    fn fewer_than_min_samples_is_no_growth() {
        let samples = ten(1, 1000);
        assert_eq!(growth(&samples[1..], 120), None);
        assert_eq!(growth(&[], 120), None);
    }

    #[test]
    fn transient_peak_is_no_growth() {
        let samples: Vec<_> = [10, 10, 10, 10, 900, 900, 900, 900, 10, 10, 10, 10].map(Bytes).into();
        assert_eq!(growth(&samples, 120), None);
    }
}
