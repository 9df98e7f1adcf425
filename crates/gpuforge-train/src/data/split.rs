//! Walk-forward split in time with an embargo between train, validation and test, and the leakage test.
//!
//! ```text
//!   time ─────────────────────────────────────────────────────────────►
//!   fold 1  [ train ···············]  ┆  [ validation ]  ┆  [ test ]
//!   fold 2  [ train ·························]  ┆  [ validation ]  ┆  [ test ]
//!                                  embargo ≥ horizon
//! ```
//! Parts are ranges of a time axis that all symbols share. A sample belongs to the part in which its prediction is made; it is
//! purged if its target ends in a later part (symbols with gaps).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Samples;
use crate::error::TrainError;

/// Minimum number of samples per part.
pub const MIN_SAMPLES: usize = 8;

/// Walk-forward split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SplitConfig {
    /// Number of walk-forward folds.
    pub folds: usize,
    /// Fraction of time for validation, before each test.
    pub validation: f64,
    /// Fraction of time for all test parts together.
    pub test: f64,
    /// Time steps between parts; at least the horizon.
    pub embargo: usize,
}

/// One part of a fold: a time range and its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitPart {
    /// Training, validation or test.
    pub name: &'static str,
    /// Range of time indices.
    pub positions: Range<usize>,
    /// Samples, in time order.
    pub samples: Vec<u32>,
    /// Samples purged because their targets end in a later part.
    pub purged: usize,
}

/// One walk-forward fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// Training part.
    pub train: SplitPart,
    /// Validation part: decides early stopping.
    pub validation: SplitPart,
    /// Test part: out of sample.
    pub test: SplitPart,
    /// Time steps between parts.
    pub embargo: usize,
}

impl Fold {
    /// The parts in time order.
    pub fn parts(&self) -> [&SplitPart; 3] {
        [&self.train, &self.validation, &self.test]
    }
}

/// Leakage from a later part into an earlier one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Leak {
    /// The embargo is shorter than the horizon.
    #[error(
        "an embargo of {embargo} is shorter than the horizon of {horizon}: targets of one part end in the next"
    )]
    Embargo {
        /// Time steps between parts.
        embargo: usize,
        /// Bars to the target.
        horizon: usize,
    },
    /// A target that ends in a later part.
    #[error(
        "sample {sample} of the {earlier} part is decided at {decided} and its target ends at {until}, but the {later} \
         part begins at {begins}"
    )]
    Overlap {
        /// The sample.
        sample: u32,
        /// Its part.
        earlier: &'static str,
        /// The later part.
        later: &'static str,
        /// Time index of its prediction.
        decided: u32,
        /// Time index at which its target is known.
        until: u32,
        /// First time index of the later part.
        begins: u32,
    },
}

/// Walk-forward split of the samples; every fold passes [`verify`].
pub fn walk_forward(samples: &Samples, config: SplitConfig, horizon: usize) -> Result<Vec<Fold>, TrainError> {
    check(config)?;
    if config.embargo < horizon {
        return Err(Leak::Embargo { embargo: config.embargo, horizon }.into());
    }
    let first = samples.time_index.iter().min().map_or(0, |p| *p as usize);
    let end = samples.time_index.iter().max().map_or(0, |p| *p as usize + 1);
    let positions = end - first;
    let test_len = (positions as f64 * config.test / config.folds as f64) as usize;
    let validation = (positions as f64 * config.validation) as usize;
    let fold = |k: usize| {
        let test = end - test_len * (config.folds - k)..end - test_len * (config.folds - k - 1);
        let validation_end = test.start.saturating_sub(config.embargo);
        let valid = validation_end.saturating_sub(validation)..validation_end;
        let train = first..valid.start.saturating_sub(config.embargo).max(first);
        let part = |name, positions: Range<usize>, next: usize| SplitPart::of(name, positions, next, samples);
        let fold = Fold {
            train: part("training", train, valid.start),
            validation: part("validation", valid, test.start),
            test: part("test", test, usize::MAX),
            embargo: config.embargo,
        };
        for part in fold.parts() {
            if part.samples.len() < MIN_SAMPLES {
                return Err(TrainError::PartTooSmall {
                    part: part.name,
                    samples: part.samples.len(),
                    min: MIN_SAMPLES,
                    positions,
                    folds: config.folds,
                    embargo: config.embargo,
                });
            }
        }
        verify(&fold, samples, horizon)?;
        Ok(fold)
    };
    (0..config.folds).map(fold).collect()
}

fn check(config: SplitConfig) -> Result<(), TrainError> {
    let invalid = |what, value: String, rule| Err(TrainError::InvalidSetting { what, value, rule });
    if config.folds == 0 {
        return invalid("--folds", "0".to_owned(), "at least 1");
    }
    let is_fraction = |x: f64| x > 0.0 && x < 1.0;
    if !is_fraction(config.validation) || !is_fraction(config.test) || config.validation + config.test >= 1.0
    {
        let value = format!("{} and {}", config.validation, config.test);
        return invalid("the fraction of validation and test", value, "each above 0, together below 1");
    }
    Ok(())
}

impl SplitPart {
    fn of(name: &'static str, positions: Range<usize>, next: usize, samples: &Samples) -> SplitPart {
        let inside =
            |i: &u32| samples.time_index.get(*i as usize).is_some_and(|p| positions.contains(&(*p as usize)));
        let all: Vec<u32> = (0..samples.len() as u32).filter(inside).collect();
        let ends = |i: &u32| samples.target_time_index.get(*i as usize).is_some_and(|p| (*p as usize) < next);
        let kept: Vec<u32> = all.iter().copied().filter(ends).collect();
        let purged = all.len() - kept.len();
        SplitPart { name, positions, samples: kept, purged }
    }
}

/// Leakage test: no target of a part may end in a later part.
pub fn verify(fold: &Fold, samples: &Samples, horizon: usize) -> Result<(), Leak> {
    if fold.embargo < horizon {
        return Err(Leak::Embargo { embargo: fold.embargo, horizon });
    }
    let [train, validation, test] = fold.parts();
    for (earlier, later) in [(train, validation), (train, test), (validation, test)] {
        let at = |i: &u32| samples.time_index.get(*i as usize).copied();
        let until = |i: &u32| samples.target_time_index.get(*i as usize).copied();
        let Some(begins) = later.samples.iter().filter_map(at).min() else { continue };
        let worst = earlier.samples.iter().filter_map(|i| Some((until(i)?, *i))).max();
        if let Some((until, sample)) = worst
            && until >= begins
        {
            return Err(Leak::Overlap {
                sample,
                earlier: earlier.name,
                later: later.name,
                decided: at(&sample).unwrap_or_default(),
                until,
                begins,
            });
        }
    }
    Ok(())
}
