//! Which sizes, how often, and what remains? The arithmetic of a calibration; all of it pure.

use std::time::Duration;

use crate::curve::Point;

/// What remains of a time after subtracting its transfers, at least: more than the whole cannot have been moved.
const LEAST_SHARE: f64 = 0.05;
/// Steps between sizes above this factor get a size in between: a straight line over more misses the bend where fixed cost
/// ends and work begins.
const WIDE: usize = 8;
/// Times that lie closer together than this share of their median need no more repetitions.
const CLOSE: f64 = 0.05;
/// A transfer of a small block is at most this many times faster per byte than of the largest.
const CACHE_GAIN: f64 = 4.0;

/// The middle one, or the mean of the two in the middle; sorts.
pub fn median(samples: &mut [f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// Quartiles apart, as a share of the median; `None` of fewer than three. Sorts.
pub fn spread(samples: &mut [f64]) -> Option<f64> {
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

/// Is one more repetition worth its time?
pub fn again(samples: &mut [f64], least: usize, most: usize, time_left: bool) -> bool {
    let n = samples.len();
    n < least || (n < most && time_left && spread(samples).is_none_or(|s| s > CLOSE))
}

/// The time without its transfers.
pub fn without(total_ns: f64, transfers_ns: f64) -> f64 {
    (total_ns - transfers_ns).max(total_ns * LEAST_SHARE)
}

/// Sizes that are tried, ascending: the part of a row between two positions (as shares of its length), with sizes in
/// between where steps are wide or `between` asks for it, thinned evenly to at most `points`.
pub fn sizes(row: &[usize], part: (f32, f32), between: bool, points: usize) -> Vec<usize> {
    let last = row.len().saturating_sub(1);
    let position = |share: f32| (last as f32 * share.clamp(0.0, 1.0)).round() as usize;
    let row = row.get(position(part.0)..=position(part.1)).unwrap_or_default();
    let mut dense = Vec::new();
    for (i, size) in row.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|b| row.get(b)).copied().filter(|b| *b > 0);
        if let Some(before) = before.filter(|b| between || size / b > WIDE) {
            let middle = ((before as f64) * (*size as f64)).sqrt().round() as usize;
            dense.extend((before < middle && middle < *size).then_some(middle));
        }
        dense.push(*size);
    }
    if dense.len() <= points {
        return dense;
    }
    let step = |i: usize| i * (dense.len() - 1) / points.saturating_sub(1).max(1);
    (0..points).filter_map(|i| dense.get(step(i)).copied()).collect()
}

/// How long a run of `units` will take at most, going by the last one: its fixed cost, and the rest growing a little faster
/// than in proportion (sorting does).
pub fn grow(last: (u64, f64), fixed_ns: f64, units: u64) -> f64 {
    let ratio = (units.max(1) as f64 / last.0.max(1) as f64).max(1.0);
    let fixed = fixed_ns.min(last.1);
    fixed + (last.1 - fixed).max(last.1 * LEAST_SHARE) * ratio.powf(1.05)
}

/// How long making an example of this size will take, going by the smaller ones: as between the last two, at least in
/// proportion and at most with the square, as matrices do.
pub fn build(before: &[(usize, f64)], size: usize) -> f64 {
    let ratio = |a: usize, b: usize| (b.max(1) as f64 / a.max(1) as f64).max(1.0);
    let slope = match before {
        [.., a, b] if b.0 > a.0 => ((b.1 / a.1.max(1.0)).ln() / ratio(a.0, b.0).ln()).clamp(1.0, 2.0),
        _ => 2.0,
    };
    before.last().map_or(0.0, |(last, ns)| ns * ratio(*last, size).powf(slope))
}

/// Repetitions that a point needs at least: one long run says as much as several short ones.
pub fn least(run_ns: f64, least: usize) -> usize {
    match run_ns {
        ns if ns > 50e6 => 1,
        ns if ns > 10e6 => least.min(2),
        _ => least,
    }
}

/// Do `runs` of `run_ns` end before `left` does? With a reserve: predictions are wrong by half now and then.
pub fn fits(run_ns: f64, runs: usize, left: Duration) -> bool {
    run_ns * runs as f64 * 1.5 <= left.as_nanos() as f64
}

/// Transfers as measured, put right where the noise of a submission is larger than the transfer: none is faster than the
/// largest by more than caches explain, and more bytes take no less time.
pub fn plausible(points: &[Point]) -> Vec<Point> {
    let fastest = points.last().map_or(0.0, |p| p.ns / p.units.max(1) as f64 / CACHE_GAIN);
    let mut most = 0.0;
    let mut put_right = Vec::new();
    for point in points {
        most = point.ns.max(point.units as f64 * fastest).max(most);
        put_right.push(Point { units: point.units, ns: most });
    }
    put_right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_spread() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(spread(&mut [1.0, 2.0]), None);
        assert_eq!(spread(&mut [10.0, 12.0, 8.0, 11.0, 9.0]), Some(0.2));
        // One outlier among many is no noise.
        assert_eq!(spread(&mut [5.0, 5.0, 5.0, 5.0, 500.0]), Some(0.0));
    }

    #[test]
    fn repetitions_end_when_they_agree_or_time_is_up() {
        assert!(again(&mut [1.0], 2, 9, false), "the least is always run");
        assert!(!again(&mut [1.0, 9.0, 5.0], 2, 9, false));
        assert!(again(&mut [1.0, 9.0, 5.0], 2, 9, true));
        assert!(!again(&mut [1.0, 9.0, 5.0], 2, 3, true), "the most is never exceeded");
        assert!(!again(&mut [100.0, 101.0, 99.0], 2, 9, true));
        assert_eq!([least(1e3, 5), least(20e6, 5), least(20e6, 1), least(80e6, 5)], [5, 2, 1, 1]);
    }

    #[test]
    fn transfers_are_subtracted_but_never_all() {
        assert_eq!(without(100.0, 40.0), 60.0);
        assert_eq!(without(100.0, 99.0), 5.0);
        assert_eq!(without(100.0, 1e9), 5.0);
    }

    #[test]
    fn sizes_of_a_row() {
        let row = [1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20];
        assert_eq!(sizes(&row, (0.0, 1.0), false, 99), [256, 1024, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20]);
        assert_eq!(sizes(&row[1..4], (0.0, 1.0), true, 99), [4096, 8192, 1 << 14, 1 << 15, 1 << 16]);
        assert_eq!(sizes(&row, (0.2, 0.8), false, 2), [4096, 1 << 18]);
        assert_eq!(sizes(&row, (0.0, 1.0), false, 1), [256]);
        assert_eq!(sizes(&[8, 9], (0.0, 1.0), true, 99), [8, 9], "nothing lies between");
        assert_eq!(sizes(&[], (0.0, 1.0), true, 99), Vec::<usize>::new());
        assert_eq!(sizes(&[7], (0.9, 0.1), false, 9), [7]);
        assert_eq!(sizes(&row, (0.9, 0.1), false, 9), Vec::<usize>::new());
    }

    #[test]
    fn a_run_is_predicted_from_the_one_before() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.06, "{a} is not {b}");
        near(grow((1000, 1e6), 0.0, 2000), 2.07e6);
        // Fixed cost does not grow, but a twentieth might.
        near(grow((1000, 1e6), 1e6, 4000), 1e6 + 0.05e6 * 4.29);
        near(grow((1000, 1e6), 5e6, 1000), 1.05e6);
        near(grow((0, 10.0), 0.0, 0), 10.0);
        assert_eq!(build(&[], 9), 0.0);
        near(build(&[(8, 10.0)], 16), 40.0);
        near(build(&[(8, 10.0), (16, 20.0)], 32), 40.0);
        near(build(&[(8, 10.0), (16, 900.0)], 32), 3600.0);
        assert!(fits(1e6, 4, Duration::from_millis(6)) && !fits(1e6, 4, Duration::from_micros(5999)));
    }

    #[test]
    fn transfers_below_the_noise_are_put_right() {
        let point = |units, ns| Point { units, ns };
        let noisy =
            [point(1 << 10, 1.0), point(1 << 16, 90e3), point(1 << 18, 80e3), point(1 << 20, 1048576.0)];
        let right = plausible(&noisy);
        assert_eq!(right[0].ns, 256.0);
        assert_eq!((right[1].ns, right[2].ns, right[3].ns), (90e3, 90e3, f64::from(1 << 20)));
        assert!(plausible(&[]).is_empty());
    }
}
