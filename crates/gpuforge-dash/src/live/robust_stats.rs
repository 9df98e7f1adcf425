//! Robust statistics: median, MAD, modified z-score for anomaly detection, Theil-Sen slope for time to full; pure.

/// Minimum history before a value can be an anomaly.
pub const MIN_HISTORY: usize = 8;
/// Modified z-score threshold of an anomaly (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
pub const UNUSUAL: f64 = 3.5;
/// Standard deviation per MAD for normal noise.
const PER_MAD: f64 = 1.4826;

/// Median of the finite values; `None` without any.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// Linearly interpolated quantile of sorted values.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted.get(at.floor() as usize)?, sorted.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

/// Median absolute deviation from `centre`.
pub fn mad(values: &[f64], centre: f64) -> Option<f64> {
    let off: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    median(&off)
}

/// Modified z-score of `value` about `centre`, with the MAD of `history`, at least `min_spread`. `None` before there is
/// [`MIN_HISTORY`].
pub fn z_about(value: f64, centre: f64, history: &[f64], min_spread: f64) -> Option<f64> {
    if history.len() < MIN_HISTORY {
        return None;
    }
    let spread = (PER_MAD * mad(history, median(history)?)?).max(min_spread);
    Some((value - centre) / spread).filter(|z| z.is_finite())
}

/// [`z_about`] the median of the history, with a spread of at least `least` of it.
pub fn z_of(value: f64, history: &[f64], least: f64) -> Option<f64> {
    let centre = median(history)?;
    z_about(value, centre, history, least * centre.abs())
}

/// Growth rate: Theil-Sen slope, if at least three in four pairs grow. `None` without growth, and before there is
/// [`MIN_HISTORY`].
pub fn growth(samples: &[(f64, f64)]) -> Option<f64> {
    if samples.len() < MIN_HISTORY {
        return None;
    }
    let mut slopes = Vec::with_capacity(samples.len() * (samples.len() - 1) / 2);
    for (i, (t0, v0)) in samples.iter().enumerate() {
        let later = samples.iter().skip(i + 1).filter(|(t1, _)| t1 > t0);
        slopes.extend(later.map(|(t1, v1)| (v1 - v0) / (t1 - t0)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    quantile(&slopes, 0.25).filter(|q| *q > 0.0)?;
    quantile(&slopes, 0.5)
}

/// Seconds until `budget` is reached by linear extrapolation; 0 when it is reached already and still grows.
pub fn time_to_full(samples: &[(f64, f64)], budget: f64) -> Option<f64> {
    let (_, now) = samples.last()?;
    Some(((budget - now) / growth(samples)?).max(0.0)).filter(|s| s.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 3.0, 100.0]), Some(2.5));
        assert_eq!(mad(&[1.0, 2.0, 3.0, 4.0, 100.0], 3.0), Some(1.0));
    }

    #[test]
    fn outliers_do_not_mask_anomalies() {
        let mut history = vec![100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 102.0, 98.0];
        assert!(z_of(103.0, &history, 0.001).unwrap() < UNUSUAL);
        assert!(z_of(130.0, &history, 0.001).unwrap() > UNUSUAL);
        history.push(1e9);
        assert!(z_of(130.0, &history, 0.001).unwrap() > UNUSUAL);
        assert!(z_of(70.0, &history, 0.001).unwrap() < -UNUSUAL);
    }

    #[test]
    fn short_history_and_zero_spread() {
        assert_eq!(z_of(1e9, &[1.0; 7], 0.05), None);
        // All equal: the least spread decides, 5 % of 100.
        assert_eq!(z_of(110.0, &[100.0; 8], 0.05), Some(2.0));
        assert_eq!(z_of(1.0, &[0.0; 8], 0.05), None);
    }

    #[test]
    fn growth_is_robust_to_noise() {
        let line = |slope: f64| (0..60).map(move |i| (f64::from(i), 1000.0 + slope * f64::from(i)));
        let grows: Vec<_> = line(10.0).map(|(t, v)| (t, if t as u32 % 10 == 3 { 0.0 } else { v })).collect();
        assert!((growth(&grows).unwrap() - 10.0).abs() < 0.5);
        assert!((time_to_full(&grows, 1590.0 + 100.0).unwrap() - 10.0).abs() < 1.0);
        let saw: Vec<_> = line(0.0).map(|(t, v)| (t, v + f64::from(t as u32 % 7))).collect();
        assert_eq!(growth(&saw), None);
        assert_eq!(time_to_full(&line(-1.0).collect::<Vec<_>>(), 1e6), None);
        assert_eq!(growth(&[(0.0, 1.0); 20]), None);
        assert_eq!(time_to_full(&line(10.0).collect::<Vec<_>>(), 1.0), Some(0.0));
        assert_eq!(time_to_full(&line(10.0).take(7).collect::<Vec<_>>(), 1e6), None);
    }
}
