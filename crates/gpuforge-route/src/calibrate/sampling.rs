//! Sampling plan of a calibration: which sizes, how many repetitions, predicted run times; and the statistics over them. All of
//! it pure.

use std::time::Duration;

use crate::curve::Point;

/// Smallest share of a time that remains after subtracting transfers.
const MIN_SHARE: f64 = 0.05;
/// Sizes further apart than this factor get a midpoint: interpolation over more misses the bend from fixed cost to throughput.
const MAX_SIZE_STEP: usize = 8;
/// Relative interquartile range below which no more repetitions are needed.
const CONVERGED: f64 = 0.05;
/// Largest speed-up per byte of a small (cached) transfer over the largest.
const CACHE_GAIN: f64 = 4.0;

/// Median; sorts in place.
pub fn median(samples: &mut [f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// Relative interquartile range: (Q3 - Q1) / median; `None` below three samples. Sorts in place.
pub fn relative_iqr(samples: &mut [f64]) -> Option<f64> {
    if samples.len() < 3 {
        return None;
    }
    let (low, middle) = (quantile(samples, 0.25)?, quantile(samples, 0.5)?);
    let high = quantile(samples, 0.75)?;
    (middle > 0.0).then(|| (high - low) / middle)
}

fn quantile(samples: &mut [f64], q: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let at = q * samples.len().checked_sub(1)? as f64;
    let (low, high) = (samples.get(at.floor() as usize)?, samples.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

/// Is another repetition needed?
pub fn needs_more(samples: &mut [f64], min: usize, max: usize, time_left: bool) -> bool {
    let n = samples.len();
    n < min || (n < max && time_left && relative_iqr(samples).is_none_or(|s| s > CONVERGED))
}

/// The time minus its transfers.
pub fn subtract_transfers(total_ns: f64, transfers_ns: f64) -> f64 {
    (total_ns - transfers_ns).max(total_ns * MIN_SHARE)
}

/// Sample sizes, ascending: the part of a registry entry between two positions (as shares of its length), with geometric
/// midpoints where steps are wide or `midpoints` asks for it, thinned evenly to at most `max_sizes`.
pub fn sample_sizes(row: &[usize], range: (f32, f32), midpoints: bool, max_sizes: usize) -> Vec<usize> {
    let last = row.len().saturating_sub(1);
    let position = |share: f32| (last as f32 * share.clamp(0.0, 1.0)).round() as usize;
    let row = row.get(position(range.0)..=position(range.1)).unwrap_or_default();
    let mut dense = Vec::new();
    for (i, size) in row.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|b| row.get(b)).copied().filter(|b| *b > 0);
        if let Some(before) = before.filter(|b| midpoints || size / b > MAX_SIZE_STEP) {
            let middle = ((before as f64) * (*size as f64)).sqrt().round() as usize;
            dense.extend((before < middle && middle < *size).then_some(middle));
        }
        dense.push(*size);
    }
    if dense.len() <= max_sizes {
        return dense;
    }
    let step = |i: usize| i * (dense.len() - 1) / max_sizes.saturating_sub(1).max(1);
    (0..max_sizes).filter_map(|i| dense.get(step(i)).copied()).collect()
}

/// Upper estimate of a run of `units` from the last run: its fixed cost, the rest growing slightly faster than linearly (as
/// sorting does).
pub fn predict_run_ns(last: (u64, f64), fixed_ns: f64, units: u64) -> f64 {
    let ratio = (units.max(1) as f64 / last.0.max(1) as f64).max(1.0);
    let fixed = fixed_ns.min(last.1);
    fixed + (last.1 - fixed).max(last.1 * MIN_SHARE) * ratio.powf(1.05)
}

/// Estimated time to build an example of this size from the smaller ones: the exponent between the last two, at least linear and
/// at most quadratic, as matrices are.
pub fn predict_build_ns(before: &[(usize, f64)], size: usize) -> f64 {
    let ratio = |a: usize, b: usize| (b.max(1) as f64 / a.max(1) as f64).max(1.0);
    let slope = match before {
        [.., a, b] if b.0 > a.0 => ((b.1 / a.1.max(1.0)).ln() / ratio(a.0, b.0).ln()).clamp(1.0, 2.0),
        _ => 2.0,
    };
    before.last().map_or(0.0, |(last, ns)| ns * ratio(*last, size).powf(slope))
}

/// Minimum repetitions of a point: one long run says as much as several short ones.
pub fn min_repeats(run_ns: f64, min: usize) -> usize {
    match run_ns {
        ns if ns > 50e6 => 1,
        ns if ns > 10e6 => min.min(2),
        _ => min,
    }
}

/// Do `runs` of `run_ns` fit into the time left? With a safety factor for wrong predictions.
pub fn fits_budget(run_ns: f64, runs: usize, left: Duration) -> bool {
    run_ns * runs as f64 * 1.5 <= left.as_nanos() as f64
}

/// Transfer points made plausible where submission noise exceeds the transfer: none is faster per byte than caches explain, and
/// times are monotone in the size.
pub fn monotone_transfers(points: &[Point]) -> Vec<Point> {
    let fastest = points.last().map_or(0.0, |p| p.ns / p.units.max(1) as f64 / CACHE_GAIN);
    let mut most = 0.0;
    let mut corrected = Vec::new();
    for point in points {
        most = point.ns.max(point.units as f64 * fastest).max(most);
        corrected.push(Point { units: point.units, ns: most });
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_relative_iqr() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(relative_iqr(&mut [1.0, 2.0]), None);
        assert_eq!(relative_iqr(&mut [10.0, 12.0, 8.0, 11.0, 9.0]), Some(0.2));
        // One outlier among many is not noise.
        assert_eq!(relative_iqr(&mut [5.0, 5.0, 5.0, 5.0, 500.0]), Some(0.0));
    }

    #[test]
    fn repetitions_stop_on_convergence_or_timeout() {
        assert!(needs_more(&mut [1.0], 2, 9, false), "the minimum is always run");
        assert!(!needs_more(&mut [1.0, 9.0, 5.0], 2, 9, false));
        assert!(needs_more(&mut [1.0, 9.0, 5.0], 2, 9, true));
        assert!(!needs_more(&mut [1.0, 9.0, 5.0], 2, 3, true), "the maximum is never exceeded");
        assert!(!needs_more(&mut [100.0, 101.0, 99.0], 2, 9, true));
        assert_eq!(
            [min_repeats(1e3, 5), min_repeats(20e6, 5), min_repeats(20e6, 1), min_repeats(80e6, 5)],
            [5, 2, 1, 1]
        );
    }

    #[test]
    fn transfers_are_subtracted_but_never_all() {
        assert_eq!(subtract_transfers(100.0, 40.0), 60.0);
        assert_eq!(subtract_transfers(100.0, 99.0), 5.0);
        assert_eq!(subtract_transfers(100.0, 1e9), 5.0);
    }

    #[test]
    fn sample_sizes_of_an_entry() {
        let row = [1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20];
        assert_eq!(
            sample_sizes(&row, (0.0, 1.0), false, 99),
            [256, 1024, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20]
        );
        assert_eq!(sample_sizes(&row[1..4], (0.0, 1.0), true, 99), [4096, 8192, 1 << 14, 1 << 15, 1 << 16]);
        assert_eq!(sample_sizes(&row, (0.2, 0.8), false, 2), [4096, 1 << 18]);
        assert_eq!(sample_sizes(&row, (0.0, 1.0), false, 1), [256]);
        assert_eq!(sample_sizes(&[8, 9], (0.0, 1.0), true, 99), [8, 9], "nothing lies between");
        assert_eq!(sample_sizes(&[], (0.0, 1.0), true, 99), Vec::<usize>::new());
        assert_eq!(sample_sizes(&[7], (0.9, 0.1), false, 9), [7]);
        assert_eq!(sample_sizes(&row, (0.9, 0.1), false, 9), Vec::<usize>::new());
    }

    #[test]
    fn run_time_is_predicted_from_the_previous_size() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.06, "{a} is not {b}");
        near(predict_run_ns((1000, 1e6), 0.0, 2000), 2.07e6);
        // Fixed cost does not grow, but a twentieth of it might.
        near(predict_run_ns((1000, 1e6), 1e6, 4000), 1e6 + 0.05e6 * 4.29);
        near(predict_run_ns((1000, 1e6), 5e6, 1000), 1.05e6);
        near(predict_run_ns((0, 10.0), 0.0, 0), 10.0);
        assert_eq!(predict_build_ns(&[], 9), 0.0);
        near(predict_build_ns(&[(8, 10.0)], 16), 40.0);
        near(predict_build_ns(&[(8, 10.0), (16, 20.0)], 32), 40.0);
        near(predict_build_ns(&[(8, 10.0), (16, 900.0)], 32), 3600.0);
        assert!(
            fits_budget(1e6, 4, Duration::from_millis(6))
                && !fits_budget(1e6, 4, Duration::from_micros(5999))
        );
    }

    #[test]
    fn transfers_below_the_noise_are_made_monotone() {
        let point = |units, ns| Point { units, ns };
        let noisy =
            [point(1 << 10, 1.0), point(1 << 16, 90e3), point(1 << 18, 80e3), point(1 << 20, 1048576.0)];
        let right = monotone_transfers(&noisy);
        assert_eq!(right[0].ns, 256.0);
        assert_eq!((right[1].ns, right[2].ns, right[3].ns), (90e3, 90e3, f64::from(1 << 20)));
        assert!(monotone_transfers(&[]).is_empty());
    }
}
