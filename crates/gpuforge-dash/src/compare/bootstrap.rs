//! Bootstrap confidence interval of the ratio of medians: hierarchical resampling of runs and blocks, seeded.

use std::cmp::Ordering;

use super::CompareOptions;

/// Tail fraction on each side of the 95 % interval.
const TAIL: f64 = 0.025;

/// SplitMix64 (Steele, Lea and Flood): small, and identical on every platform.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random item; `None` of an empty list. The bias of the multiplication is below 2⁻³² for any list that fits memory.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(((u128::from(self.next()) * items.len() as u128) >> 64) as usize)
    }
}

/// Confidence interval of the ratio of medians. Runs are resampled first, then blocks within them.
pub(super) fn interval(
    operation: &str,
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    options: &CompareOptions,
) -> Option<(f64, f64)> {
    let enough = |side: &[Vec<f64>]| side.iter().map(Vec::len).sum::<usize>() >= 2;
    if options.resamples == 0 || !enough(a) || !enough(b) {
        return None;
    }
    // Seeds are assigned by the values, not by the argument order: swapped sides give the inverse interval.
    let one = seed(operation, options);
    let other = !one;
    let (mut of_a, mut of_b) = match order(a, b) {
        Some(Ordering::Less) => (SplitMix64(one), SplitMix64(other)),
        Some(Ordering::Greater) => (SplitMix64(other), SplitMix64(one)),
        _ => (SplitMix64(one), SplitMix64(one)),
    };
    let mut scratch = Vec::new();
    let mut logs = Vec::with_capacity(options.resamples);
    for _ in 0..options.resamples {
        let before = resampled_median(a, &mut of_a, &mut scratch);
        let after = resampled_median(b, &mut of_b, &mut scratch);
        if let (Some(before), Some(after)) = (before, after)
            && before > 0.0
            && after > 0.0
        {
            logs.push((after / before).ln());
        }
    }
    percentile_interval(logs)
}

/// Confidence interval of the median ratio of paired calls, from their log ratios.
pub(super) fn paired_interval(operation: &str, logs: &[f64], options: &CompareOptions) -> Option<(f64, f64)> {
    if options.resamples == 0 {
        return None;
    }
    // The same draws for swapped sides, whose log ratios are negated.
    let mut random = SplitMix64(seed(operation, options));
    let one = [logs.to_vec()];
    let mut scratch = Vec::new();
    percentile_interval(
        (0..options.resamples).filter_map(|_| resampled_median(&one, &mut random, &mut scratch)).collect(),
    )
}

fn seed(operation: &str, options: &CompareOptions) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    operation.bytes().fold(0xcbf2_9ce4_8422_2325, step) ^ options.seed
}

/// Percentile interval of the log ratios.
fn percentile_interval(mut logs: Vec<f64>) -> Option<(f64, f64)> {
    logs.sort_by(f64::total_cmp);
    let cut = (logs.len() as f64 * TAIL) as usize;
    let (low, high) = (logs.get(cut)?, logs.iter().rev().nth(cut)?);
    Some((low.exp(), high.exp()))
}

fn order(a: &[Vec<f64>], b: &[Vec<f64>]) -> Option<Ordering> {
    a.iter().flatten().partial_cmp(b.iter().flatten())
}

fn resampled_median(runs: &[Vec<f64>], random: &mut SplitMix64, scratch: &mut Vec<f64>) -> Option<f64> {
    scratch.clear();
    for _ in runs {
        let run = random.pick(runs)?;
        for _ in run {
            scratch.push(*random.pick(run)?);
        }
    }
    let middle = scratch.len() / 2;
    let even = scratch.len().is_multiple_of(2);
    let (below, high, _) = scratch.select_nth_unstable_by(middle, f64::total_cmp);
    let low = if even { below.iter().copied().reduce(f64::max)? } else { *high };
    Some(0.5 * (low + *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_contains_the_ratio_and_is_deterministic() {
        let side =
            |base: f64| vec![(0..30).map(|i| base + f64::from(i * 7 % 30) / 10.0).collect::<Vec<f64>>()];
        let options = CompareOptions::default();
        let (a, b) = (side(100.0), side(110.0));
        let (low, high) = interval("x", &a, &b, &options).unwrap();
        let ratio = 111.45 / 101.45;
        assert!(low < ratio && ratio < high && high - low < 0.05, "{low} {high}");
        assert_eq!(interval("x", &a, &b, &options), Some((low, high)));
        let (inverse_low, inverse_high) = interval("x", &b, &a, &options).unwrap();
        assert!((inverse_low * high - 1.0).abs() < 1e-9 && (inverse_high * low - 1.0).abs() < 1e-9);
        assert_eq!(interval("x", &a, &a, &options), Some((1.0, 1.0)));
    }

    #[test]
    fn too_few_values_give_no_interval() {
        let options = CompareOptions::default();
        let one = vec![vec![5.0]];
        assert_eq!(interval("x", &one, &one, &options), None);
        assert_eq!(interval("x", &[], &[], &options), None);
        assert_eq!(interval("x", &[vec![0.0; 4]], &[vec![0.0; 4]], &options), None);
    }
}
