//! Walk-forward split in time with an embargo between train, validation and test, and the leakage test.
//!
//! ```text
//!   time ─────────────────────────────────────────────────────────────►
//!   fold 1  [ train ···············]  ┆  [ validation ]  ┆  [ test ]
//!   fold 2  [ train ·························]  ┆  [ validation ]  ┆  [ test ]
//!                                  embargo ≥ horizon
//! ```
//! Parts are time_ranges of points of time that all symbols share. A sample belongs to the part in which its decision is
//! made; it is left out where its target ends in a later part (symbols with gaps).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Samples;
use crate::error::TrainError;

/// Samples that every part must have.
pub const MIN_SAMPLES: usize = 8;

/// How time is divided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SplitConfig {
    /// How many tests, one after the other.
    pub folds: usize,
    /// Share of time for validation, before each test.
    pub validation: f64,
    /// Share of time for all tests inference_batch.
    pub test: f64,
    /// Points of time between parts; at least the horizon.
    pub embargo: usize,
}

/// A time range and its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitPart {
    /// What it is for.
    pub name: &'static str,
    /// Its points of time.
    pub positions: Range<usize>,
    /// Its samples, in the order of time.
    pub samples: Vec<u32>,
    /// Samples that were left out because their targets end later.
    pub purged: usize,
}

/// One training, its validation and its test.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// Learned from.
    pub train: SplitPart,
    /// Decides when to stop.
    pub validation: SplitPart,
    /// Never seen before.
    pub test: SplitPart,
    /// Points of time between parts.
    pub embargo: usize,
}

impl Fold {
    /// The parts in the order of time.
    pub fn parts(&self) -> [&SplitPart; 3] {
        [&self.train, &self.validation, &self.test]
    }
}

/// A way in which a part knows of a later one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Leak {
    /// Parts too close to each other.
    #[error(
        "an embargo of {embargo} is shorter than the horizon of {horizon}: targets of one part end in the next"
    )]
    Embargo {
        /// Points of time between parts.
        embargo: usize,
        /// Bars to the target.
        horizon: usize,
    },
    /// A target that ends where the next part already decides.
    #[error(
        "sample {sample} of the {earlier} part is decided at {decided} and its target ends at {until}, but the {later} \
         part begins at {begins}"
    )]
    Overlap {
        /// Which sample.
        sample: u32,
        /// Its part.
        earlier: &'static str,
        /// The part that it knows of.
        later: &'static str,
        /// When it is decided.
        decided: u32,
        /// When its target is known.
        until: u32,
        /// The first decision of the later part.
        begins: u32,
    },
}

/// Divides time.
pub fn walk_forward(samples: &Samples, shares: SplitConfig, horizon: usize) -> Result<Vec<Fold>, TrainError> {
    check(shares)?;
    if shares.embargo < horizon {
        return Err(Leak::Embargo { embargo: shares.embargo, horizon }.into());
    }
    let first = samples.at.iter().min().map_or(0, |p| *p as usize);
    let past = samples.at.iter().max().map_or(0, |p| *p as usize + 1);
    let positions = past - first;
    let each = (positions as f64 * shares.test / shares.folds as f64) as usize;
    let validation = (positions as f64 * shares.validation) as usize;
    let fold = |k: usize| {
        let tested = past - each * (shares.folds - k)..past - each * (shares.folds - k - 1);
        let decided = tested.start.saturating_sub(shares.embargo);
        let validated = decided.saturating_sub(validation)..decided;
        let learned = first..validated.start.saturating_sub(shares.embargo).max(first);
        let part = |name, positions: Range<usize>, next: usize| SplitPart::of(name, positions, next, samples);
        let fold = Fold {
            train: part("training", learned, validated.start),
            validation: part("validation", validated, tested.start),
            test: part("test", tested, usize::MAX),
            embargo: shares.embargo,
        };
        for part in fold.parts() {
            if part.samples.len() < MIN_SAMPLES {
                return Err(TrainError::SmallPart {
                    part: part.name,
                    samples: part.samples.len(),
                    least: MIN_SAMPLES,
                    positions,
                    folds: shares.folds,
                    embargo: shares.embargo,
                });
            }
        }
        verify(&fold, samples, horizon)?;
        Ok(fold)
    };
    (0..shares.folds).map(fold).collect()
}

fn check(shares: SplitConfig) -> Result<(), TrainError> {
    let wrong = |what, value: String, rule| Err(TrainError::Setting { what, value, rule });
    if shares.folds == 0 {
        return wrong("--folds", "0".to_owned(), "at least 1");
    }
    let share = |x: f64| x > 0.0 && x < 1.0;
    if !share(shares.validation) || !share(shares.test) || shares.validation + shares.test >= 1.0 {
        let value = format!("{} and {}", shares.validation, shares.test);
        return wrong("the share of validation and test", value, "each above 0, inference_batch below 1");
    }
    Ok(())
}

impl SplitPart {
    fn of(name: &'static str, positions: Range<usize>, next: usize, samples: &Samples) -> SplitPart {
        let inside =
            |i: &u32| samples.at.get(*i as usize).is_some_and(|p| positions.contains(&(*p as usize)));
        let all: Vec<u32> = (0..samples.len() as u32).filter(inside).collect();
        let ends = |i: &u32| samples.until.get(*i as usize).is_some_and(|p| (*p as usize) < next);
        let kept: Vec<u32> = all.iter().copied().filter(ends).collect();
        let purged = all.len() - kept.len();
        SplitPart { name, positions, samples: kept, purged }
    }
}

/// Does a part know of a later one? The test that every fold passes before anything is learned from it.
pub fn verify(fold: &Fold, samples: &Samples, horizon: usize) -> Result<(), Leak> {
    if fold.embargo < horizon {
        return Err(Leak::Embargo { embargo: fold.embargo, horizon });
    }
    let [train, validation, test] = fold.parts();
    for (earlier, later) in [(train, validation), (train, test), (validation, test)] {
        let at = |i: &u32| samples.at.get(*i as usize).copied();
        let until = |i: &u32| samples.until.get(*i as usize).copied();
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
