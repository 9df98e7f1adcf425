//! Dataset recipe: selected indicators, normalisation, window length, target.

use std::{fmt, str::FromStr};

use gpuforge_indicators::select::{self, SelectItem, Selector};
use gpuforge_indicators_gpu::features::{MAX_BARS, Normalise};
use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::error::TrainError;

/// What is done to every feature, by what was known at each bar. As text: `none`, `zscore:64`, `rank:64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scaling {
    /// Full values.
    None,
    /// Standard deviations from the mean of the last bars.
    ZScore(usize),
    /// TrainBackend among the last bars, 0 to 1.
    Rank(usize),
}

impl Scaling {
    /// As the feature engines call it.
    pub fn normalise(self) -> Normalise {
        match self {
            Scaling::None => Normalise::None,
            Scaling::ZScore(bars) => Normalise::ZScore(bars),
            Scaling::Rank(bars) => Normalise::Rank(bars),
        }
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scaling::None => f.write_str("none"),
            Scaling::ZScore(bars) => write!(f, "zscore:{bars}"),
            Scaling::Rank(bars) => write!(f, "rank:{bars}"),
        }
    }
}

impl FromStr for Scaling {
    type Err = String;

    fn from_str(text: &str) -> Result<Scaling, String> {
        let (name, bars) = text.split_once(':').unwrap_or((text, "64"));
        let bars = bars.parse().ok().filter(|n| (2..=MAX_BARS).contains(n));
        match (name, bars) {
            ("none", _) => Ok(Scaling::None),
            ("zscore", Some(bars)) => Ok(Scaling::ZScore(bars)),
            ("rank", Some(bars)) => Ok(Scaling::Rank(bars)),
            _ => {
                Err(format!("`{text}` is not `none`, `zscore:BARS` or `rank:BARS` with 2 to {MAX_BARS} bars"))
            }
        }
    }
}

impl TryFrom<String> for Scaling {
    type Error = String;

    fn try_from(text: String) -> Result<Scaling, String> {
        text.parse()
    }
}

impl From<Scaling> for String {
    fn from(scaling: Scaling) -> String {
        scaling.to_string()
    }
}

/// How a data set is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Which indicators, in the language of `gpuforge indicators`.
    pub indicators: String,
    /// What is done to them.
    pub scaling: Scaling,
    /// Rows of a window.
    pub window: usize,
    /// Bars from a decision to its target.
    pub horizon: usize,
    /// What is predicted.
    pub target: Target,
}

impl Recipe {
    /// What is selected.
    pub fn wanted(&self) -> Result<Vec<SelectItem>, TrainError> {
        Ok(Selector::new().select(&self.indicators)?)
    }

    /// Names of the features.
    pub fn columns(&self) -> Result<Vec<String>, TrainError> {
        Ok(select::graph(&self.wanted()?).2)
    }

    /// Are the numbers possible?
    pub fn check(&self) -> Result<(), TrainError> {
        let rule = "1 to 4096";
        for (what, value) in [("--window", self.window), ("--horizon", self.horizon)] {
            if !(1..=MAX_BARS).contains(&value) {
                return Err(TrainError::Setting { what, value: value.to_string(), rule });
            }
        }
        let (what, width) = match self.target {
            Target::Direction => return Ok(()),
            Target::Return { clip } | Target::VolReturn { clip } => ("--clip", clip),
            Target::TripleBarrier { width } => ("--barrier", width),
        };
        match width > 0.0 && width.is_finite() {
            true => Ok(()),
            false => Err(TrainError::Setting { what, value: width.to_string(), rule: "above 0" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalings_are_read_as_they_are_written() {
        for scaling in [Scaling::None, Scaling::ZScore(64), Scaling::Rank(4096)] {
            assert_eq!(scaling.to_string().parse(), Ok(scaling));
        }
        assert_eq!("rank".parse(), Ok(Scaling::Rank(64)));
        for wrong in ["zscore:1", "rank:4097", "minmax", "zscore:x", ""] {
            assert!(wrong.parse::<Scaling>().is_err_and(|e| e.contains("zscore:BARS")), "{wrong}");
        }
    }
}
