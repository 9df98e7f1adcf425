//! Targets (labels): direction, return, volatility-scaled return, triple barrier.
//!
//! Volatility is the root mean square of the last [`VOLATILITY_BARS`] one-bar log returns: causal at each bar.

use serde::{Deserialize, Serialize};

/// Rolling window of the volatility estimate, in one-bar returns.
pub const VOLATILITY_BARS: usize = 64;
/// Fewer returns give no estimate.
const MIN_RETURNS: usize = 16;

/// Prediction target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Target {
    /// 1 if the close is higher after the horizon, else 0.
    Direction,
    /// Log return over the horizon, clipped.
    Return {
        /// Clip limit.
        clip: f64,
    },
    /// Log return over the horizon divided by its volatility, clipped.
    VolReturn {
        /// Clip limit.
        clip: f64,
    },
    /// Triple-barrier label: 0 lower barrier first, 2 upper barrier first, 1 neither within the horizon.
    TripleBarrier {
        /// Barrier distance, in units of the volatility over the horizon.
        width: f64,
    },
}

impl Target {
    /// Every target with its defaults, by name.
    pub const ALL: [(&str, Target); 4] = [
        ("direction", Target::Direction),
        ("return", Target::Return { clip: 0.05 }),
        ("vol-return", Target::VolReturn { clip: 4.0 }),
        ("triple-barrier", Target::TripleBarrier { width: 1.0 }),
    ];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Target::Direction => "direction",
            Target::Return { .. } => "return",
            Target::VolReturn { .. } => "vol-return",
            Target::TripleBarrier { .. } => "triple-barrier",
        }
    }

    /// Model outputs per sample.
    pub fn outputs(self) -> usize {
        if matches!(self, Target::TripleBarrier { .. }) { 3 } else { 1 }
    }

    /// Class names; empty for regression.
    pub fn classes(self) -> &'static [&'static str] {
        match self {
            Target::Direction => &["not up", "up"],
            Target::TripleBarrier { .. } => &["lower barrier", "neither", "upper barrier"],
            Target::Return { .. } | Target::VolReturn { .. } => &[],
        }
    }

    /// Label of every bar; `None` where the future, the volatility or a price is missing.
    pub fn labels(self, close: &[f64], horizon: usize) -> Vec<Option<f32>> {
        let log_close: Vec<f64> = close.iter().map(|x| x.ln()).collect();
        let volatility = match self {
            Target::Direction | Target::Return { .. } => Vec::new(),
            _ => rolling_volatility(&log_close),
        };
        (0..log_close.len())
            .map(|bar| self.label(&log_close, &volatility, bar, horizon).map(|y| y as f32))
            .collect()
    }

    fn label(self, log_close: &[f64], volatility: &[f64], bar: usize, horizon: usize) -> Option<f64> {
        let now = *log_close.get(bar)?;
        let path = log_close.get(bar + 1..=bar + horizon)?;
        let all = path.iter().all(|x| x.is_finite()) && now.is_finite();
        let log_return = path.last().filter(|_| all)? - now;
        let unit = || {
            let volatility = volatility.get(bar)? * (horizon as f64).sqrt();
            (volatility > 0.0).then_some(volatility)
        };
        match self {
            Target::Direction => Some(f64::from(log_return > 0.0)),
            Target::Return { clip } => Some(log_return.clamp(-clip, clip)),
            Target::VolReturn { clip } => Some((log_return / unit()?).clamp(-clip, clip)),
            Target::TripleBarrier { width } => {
                let barrier = width * unit()?;
                let touched = path.iter().map(|x| x - now).find(|off| off.abs() >= barrier);
                Some(touched.map_or(1.0, |off| if off > 0.0 { 2.0 } else { 0.0 }))
            }
        }
    }
}

/// Rolling RMS of one-bar log returns; NaN before there are enough.
fn rolling_volatility(log_close: &[f64]) -> Vec<f64> {
    let step = |bar: usize| Some(log_close.get(bar)? - log_close.get(bar.checked_sub(1)?)?);
    let at = |bar: usize| {
        let first = (bar + 1).saturating_sub(VOLATILITY_BARS).max(1);
        let squares = (first..=bar).filter_map(step).map(|x| x * x);
        let (count, sum) = squares.fold((0usize, 0.0), |(n, sum), x| (n + 1, sum + x));
        if count < MIN_RETURNS { f64::NAN } else { (sum / count as f64).sqrt() }
    };
    (0..log_close.len()).map(at).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn labels_use_exactly_the_horizon() {
        let close = [1.0, 2.0, 2.0, 4.0, 1.0];
        let up = Target::Direction.labels(&close, 2);
        assert_eq!(up, [Some(1.0), Some(1.0), Some(0.0), None, None]);
        let log_return = Target::Return { clip: 0.5 }.labels(&close, 1);
        assert_eq!(log_return, [Some(0.5), Some(0.0), Some(0.5), Some(-0.5), None]);
    }

    #[test]
    fn nan_or_zero_price_gives_no_label() {
        let up = Target::Direction.labels(&[1.0, f64::NAN, 3.0, 0.0, 5.0, 6.0], 1);
        assert_eq!(up, [None, None, None, None, Some(1.0), None]);
    }

    #[test]
    fn first_barrier_touched_wins_and_volatility_is_causal() {
        // Steps of one per cent up and down, then a jump up and a larger one down.
        let mut close: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 100.0 } else { 101.0 }).collect();
        close.extend([110.0, 80.0, 80.0, 80.0]);
        let target = Target::TripleBarrier { width: 2.0 };
        let labels = target.labels(&close, 2);
        assert_eq!(labels[39], Some(2.0), "up first, whatever comes after");
        assert_eq!(labels[40], Some(0.0));
        assert_eq!(labels[30], Some(1.0));
        assert_eq!(labels[10], None, "too few returns to know what is usual");
        // What comes later does not change what is usual now.
        let cut = target.labels(&close[..=41], 2);
        assert_eq!(cut[..40], labels[..40]);
        let scaled = Target::VolReturn { clip: 4.0 }.labels(&close, 1);
        assert_eq!(scaled[39], Some(4.0));
        assert!(scaled[30].is_some_and(|x| (x.abs() - 1.0).abs() < 1e-3));
    }

    #[test]
    fn target_names_match_their_table() {
        for (name, target) in Target::ALL {
            assert_eq!(target.name(), name);
            assert!(target.classes().is_empty() || target.classes().len() == target.outputs().max(2));
        }
    }
}
