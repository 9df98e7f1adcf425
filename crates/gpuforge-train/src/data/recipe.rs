//! Dataset recipe: selected indicators, normalisation, window length, target.

use std::{fmt, str::FromStr};

use gpuforge_indicators::select::{self, SelectItem, Selector};
use gpuforge_indicators_gpu::features::{MAX_BARS, Normalise};
use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::error::TrainError;

/// Causal normalisation of every feature. As text: `none`, `zscore:64`, `rank:64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scaling {
    /// Raw values.
    None,
    /// Rolling z-score.
    ZScore(usize),
    /// Rolling percentile rank, 0 to 1.
    Rank(usize),
}

impl Scaling {
    /// The same as the feature kernels' type.
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

/// Dataset recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Indicator selection, in the syntax of `gpuforge indicators`.
    pub indicators: String,
    /// Normalisation.
    pub scaling: Scaling,
    /// Window length in rows.
    pub window: usize,
    /// Bars from the prediction to its target.
    pub horizon: usize,
    /// Prediction target.
    pub target: Target,
}

impl Recipe {
    /// Parses the selection.
    pub fn select(&self) -> Result<Vec<SelectItem>, TrainError> {
        Ok(Selector::new().select(&self.indicators)?)
    }

    /// Feature names.
    pub fn columns(&self) -> Result<Vec<String>, TrainError> {
        Ok(select::graph(&self.select()?).2)
    }

    /// Validates the settings.
    pub fn check(&self) -> Result<(), TrainError> {
        let rule = "1 to 4096";
        for (what, value) in [("--window", self.window), ("--horizon", self.horizon)] {
            if !(1..=MAX_BARS).contains(&value) {
                return Err(TrainError::InvalidSetting { what, value: value.to_string(), rule });
            }
        }
        let (what, width) = match self.target {
            Target::Direction => return Ok(()),
            Target::Return { clip } | Target::VolReturn { clip } => ("--clip", clip),
            Target::TripleBarrier { width } => ("--barrier", width),
        };
        match width > 0.0 && width.is_finite() {
            true => Ok(()),
            false => Err(TrainError::InvalidSetting { what, value: width.to_string(), rule: "above 0" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_text_round_trips() {
        for scaling in [Scaling::None, Scaling::ZScore(64), Scaling::Rank(4096)] {
            assert_eq!(scaling.to_string().parse(), Ok(scaling));
        }
        assert_eq!("rank".parse(), Ok(Scaling::Rank(64)));
        for wrong in ["zscore:1", "rank:4097", "minmax", "zscore:x", ""] {
            assert!(wrong.parse::<Scaling>().is_err_and(|e| e.contains("zscore:BARS")), "{wrong}");
        }
    }
}
