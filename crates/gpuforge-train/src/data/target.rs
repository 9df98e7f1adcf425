//! Targets (labels): direction, return, volatility-scaled return, triple barrier.
//!
//! Volatility is the root mean square of the last [`VOLATILITY`] one-bar log returns, so that it is known at the bar itself.

use serde::{Deserialize, Serialize};

/// One-bar returns that volatility rests on.
pub const VOLATILITY: usize = 64;
/// Fewer of them say nothing.
const MIN_SAMPLES: usize = 16;

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Target {
    /// Is the close higher after the horizon? 1 or 0; equal is not higher.
    Direction,
    /// The log return over the horizon, at most so much in either direction.
    Return {
        /// The most.
        clip: f64,
    },
    /// The log return over the horizon in units of what it usually is, at most so many in either direction.
    VolReturn {
        /// The most.
        clip: f64,
    },
    /// Which barrier is touched first: 0 the lower, 2 the upper, 1 none of them within the horizon.
    TripleBarrier {
        /// Distance of the barriers, in units of what a return over the horizon usually is.
        width: f64,
    },
}

impl Target {
    /// Every kind with its defaults, by name.
    pub const ALL: [(&str, Target); 4] = [
        ("direction", Target::Direction),
        ("return", Target::Return { clip: 0.05 }),
        ("vol-return", Target::VolReturn { clip: 4.0 }),
        ("triple-barrier", Target::TripleBarrier { width: 1.0 }),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Target::Direction => "direction",
            Target::Return { .. } => "return",
            Target::VolReturn { .. } => "vol-return",
            Target::TripleBarrier { .. } => "triple-barrier",
        }
    }

    /// Numbers that a model puts out for it.
    pub fn outputs(self) -> usize {
        if matches!(self, Target::TripleBarrier { .. }) { 3 } else { 1 }
    }

    /// Names of its classes; none where it is a number.
    pub fn classes(self) -> &'static [&'static str] {
        match self {
            Target::Direction => &["not up", "up"],
            Target::TripleBarrier { .. } => &["lower barrier", "neither", "upper barrier"],
            Target::Return { .. } | Target::VolReturn { .. } => &[],
        }
    }

    /// The target of every bar; `None` where the future, the volatility or a price is missing.
    pub fn labels(self, close: &[f64], horizon: usize) -> Vec<Option<f32>> {
        let logs: Vec<f64> = close.iter().map(|x| x.ln()).collect();
        let usual = match self {
            Target::Direction | Target::Return { .. } => Vec::new(),
            _ => volatility(&logs),
        };
        (0..logs.len()).map(|bar| self.label(&logs, &usual, bar, horizon).map(|y| y as f32)).collect()
    }

    fn label(self, logs: &[f64], usual: &[f64], bar: usize, horizon: usize) -> Option<f64> {
        let now = *logs.get(bar)?;
        let path = logs.get(bar + 1..=bar + horizon)?;
        let all = path.iter().all(|x| x.is_finite()) && now.is_finite();
        let gain = path.last().filter(|_| all)? - now;
        let unit = || {
            let usual = usual.get(bar)? * (horizon as f64).sqrt();
            (usual > 0.0).then_some(usual)
        };
        match self {
            Target::Direction => Some(f64::from(gain > 0.0)),
            Target::Return { clip } => Some(gain.clamp(-clip, clip)),
            Target::VolReturn { clip } => Some((gain / unit()?).clamp(-clip, clip)),
            Target::TripleBarrier { width } => {
                let far = width * unit()?;
                let touched = path.iter().map(|x| x - now).find(|off| off.abs() >= far);
                Some(touched.map_or(1.0, |off| if off > 0.0 { 2.0 } else { 0.0 }))
            }
        }
    }
}

/// What one bar's log return usually is, as far as it is known at each bar; NaN before there are enough.
fn volatility(logs: &[f64]) -> Vec<f64> {
    let step = |bar: usize| Some(logs.get(bar)? - logs.get(bar.checked_sub(1)?)?);
    let at = |bar: usize| {
        let first = (bar + 1).saturating_sub(VOLATILITY).max(1);
        let squares = (first..=bar).filter_map(step).map(|x| x * x);
        let (count, sum) = squares.fold((0usize, 0.0), |(n, sum), x| (n + 1, sum + x));
        if count < MIN_SAMPLES { f64::NAN } else { (sum / count as f64).sqrt() }
    };
    (0..logs.len()).map(at).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn direction_and_return_look_exactly_so_far_ahead() {
        let close = [1.0, 2.0, 2.0, 4.0, 1.0];
        let up = Target::Direction.labels(&close, 2);
        assert_eq!(up, [Some(1.0), Some(1.0), Some(0.0), None, None]);
        let gain = Target::Return { clip: 0.5 }.labels(&close, 1);
        assert_eq!(gain, [Some(0.5), Some(0.0), Some(0.5), Some(-0.5), None]);
    }

    #[test]
    fn a_price_that_is_no_price_makes_no_target() {
        let up = Target::Direction.labels(&[1.0, f64::NAN, 3.0, 0.0, 5.0, 6.0], 1);
        assert_eq!(up, [None, None, None, None, Some(1.0), None]);
    }

    #[test]
    fn the_first_barrier_counts_and_volatility_rests_on_the_past() {
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
    fn every_name_is_that_of_its_target() {
        for (name, target) in Target::ALL {
            assert_eq!(target.name(), name);
            assert!(target.classes().is_empty() || target.classes().len() == target.outputs().max(2));
        }
    }
}
