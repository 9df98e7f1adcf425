//! Trend test: least-squares slope with standard error over the second half of a series; flat, growing or unknown.

/// Verdict on a slope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrendVerdict {
    /// Within its limit, within its noise, or falling.
    Flat,
    /// Above its limit by more than noise explains.
    Growing,
    /// Too few samples, or the metric is not available here.
    Unknown,
}

/// Trend of a metric over the second half of its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Slope per minute; `None` with fewer than [`MIN_SAMPLES`].
    pub slope: Option<f64>,
    /// Confidence half-width: twice the standard error of the slope, per minute.
    pub noise: Option<f64>,
    /// First, last and max of all samples.
    pub range: Option<(f64, f64, f64)>,
    /// Samples in the second half.
    pub samples: usize,
    /// Maximum slope that counts as flat, per minute.
    pub limit: f64,
}

/// Minimum number of samples for a fit.
pub const MIN_SAMPLES: usize = 5;

impl Trend {
    /// Trend of `(seconds, value)` pairs in time order. The first half is ignored: caches fill and pools grow in it.
    pub fn of(samples: &[(f64, f64)], limit: f64) -> Self {
        let half = samples.get(samples.len() / 2..).unwrap_or_default();
        let value = |sample: Option<&(f64, f64)>| sample.map(|(_, v)| *v);
        let most = samples.iter().map(|(_, v)| *v).reduce(f64::max);
        let range = value(samples.first()).zip(value(samples.last())).zip(most);
        let line = (half.len() >= MIN_SAMPLES).then(|| fit(half)).flatten();
        Trend {
            slope: line.map(|(slope, _)| slope * 60.0),
            noise: line.map(|(_, error)| 2.0 * error * 60.0),
            range: range.map(|((first, last), most)| (first, last, most)),
            samples: half.len(),
            limit,
        }
    }

    /// Flat, growing or unknown.
    pub fn verdict(&self) -> TrendVerdict {
        match self.slope.zip(self.noise) {
            None => TrendVerdict::Unknown,
            Some((slope, noise)) if slope <= self.limit || slope <= noise => TrendVerdict::Flat,
            Some(_) => TrendVerdict::Growing,
        }
    }
}

/// Least squares: the slope and its standard error; `None` when all samples have the same time.
pub fn fit(samples: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = samples.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|s| s.0), mean(|s| s.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| samples.iter().map(|s| of(s.0 - x, s.1 - y)).sum::<f64>();
    let across = sum(&|dx, _| dx * dx);
    let slope = (across > 0.0).then(|| sum(&|dx, dy| dx * dy) / across)?;
    let left = sum(&|dx, dy| (dy - slope * dx).powi(2));
    Some((slope, (left / (n - 2.0).max(1.0) / across).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(per_second: f64, noise: f64) -> Vec<(f64, f64)> {
        (0..600)
            .map(|t| (f64::from(t), 100.0 + per_second * f64::from(t) + noise * f64::from(t % 7 - 3)))
            .collect()
    }

    #[test]
    fn slope_is_recovered_from_noise() {
        assert_eq!(fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some((2.0, 0.0)));
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 2.0)]), None);
        let (slope, error) = fit(&line(0.1, 5.0)).unwrap();
        assert!((slope - 0.1).abs() < 3.0 * error && error < 0.01, "{slope} ± {error}");
    }

    #[test]
    fn slope_within_its_noise_is_flat() {
        // Eight noisy samples: a steep slope that is not significant.
        let few = [0.0, 9.0, 2.0, 8.0, 1.0, 9.0, 5.0, 9.0].map(|v| v + 100.0);
        let samples: Vec<(f64, f64)> = (0..16).map(f64::from).zip(few.into_iter().chain(few)).collect();
        let trend = Trend::of(&samples, 0.5);
        assert!(trend.slope.unwrap() > 0.5 && trend.verdict() == TrendVerdict::Flat, "{trend:?}");
        assert_eq!(
            Trend::of(&line(0.1, 5.0), 0.5).verdict(),
            TrendVerdict::Growing,
            "significant with many samples"
        );
    }

    #[test]
    fn verdicts_at_the_limit() {
        let verdict = |per_second, limit| Trend::of(&line(per_second, 0.0), limit).verdict();
        assert_eq!(verdict(0.0, 0.0), TrendVerdict::Flat);
        assert_eq!(verdict(1.0 / 61.0, 1.0), TrendVerdict::Flat);
        assert_eq!(verdict(1.0 / 59.0, 1.0), TrendVerdict::Growing);
        assert_eq!(verdict(-5.0, 0.0), TrendVerdict::Flat, "a falling series is no leak");
    }

    #[test]
    fn first_half_is_ignored() {
        let mut samples: Vec<(f64, f64)> = (0..100).map(|t| (f64::from(t), f64::from(t))).collect();
        samples.extend((100..201).map(|t| (f64::from(t), 99.0)));
        let trend = Trend::of(&samples, 0.0);
        assert_eq!((trend.slope, trend.verdict()), (Some(0.0), TrendVerdict::Flat));
        assert_eq!(trend.range, Some((0.0, 99.0, 99.0)));
    }

    #[test]
    fn too_few_samples_are_unknown() {
        assert_eq!(Trend::of(&[], 1.0).verdict(), TrendVerdict::Unknown);
        assert_eq!(Trend::of(&line(9.0, 0.0)[..8], 1.0).verdict(), TrendVerdict::Unknown);
    }
}
