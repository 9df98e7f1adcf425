//! Between which bounds is the change? Medians of resampled runs and blocks, by a seeded generator.

use std::cmp::Ordering;

use super::Options;

/// Share of the resampled ratios outside the interval, on each side.
const OUTSIDE: f64 = 0.025;

/// Steele, Lea and Flood's SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of the items; `None` of none. The bias of the product is below 2⁻³² for any list that fits memory.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(((u128::from(self.next()) * items.len() as u128) >> 64) as usize)
    }
}

/// Bounds of the ratio of medians. Runs are drawn first, then blocks within them: both vary.
pub(super) fn interval(
    operation: &str,
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    options: &Options,
) -> Option<(f64, f64)> {
    let enough = |side: &[Vec<f64>]| side.iter().map(Vec::len).sum::<usize>() >= 2;
    if options.resamples == 0 || !enough(a) || !enough(b) {
        return None;
    }
    // Which side gets which numbers follows from the values, not from their order: swapped sides give the inverse.
    let one = seed(operation, options);
    let other = !one;
    let (mut of_a, mut of_b) = match order(a, b) {
        Some(Ordering::Less) => (Random(one), Random(other)),
        Some(Ordering::Greater) => (Random(other), Random(one)),
        _ => (Random(one), Random(one)),
    };
    let mut scratch = Vec::new();
    let mut logs = Vec::with_capacity(options.resamples);
    for _ in 0..options.resamples {
        let before = resampled(a, &mut of_a, &mut scratch);
        let after = resampled(b, &mut of_b, &mut scratch);
        if let (Some(before), Some(after)) = (before, after)
            && before > 0.0
            && after > 0.0
        {
            logs.push((after / before).ln());
        }
    }
    middle(logs)
}

/// Bounds of the median ratio of corresponding calls, from the logarithms of their ratios.
pub(super) fn of_pairs(operation: &str, logs: &[f64], options: &Options) -> Option<(f64, f64)> {
    if options.resamples == 0 {
        return None;
    }
    // The same draws for swapped sides, whose logarithms are the negatives of these.
    let mut random = Random(seed(operation, options));
    let one = [logs.to_vec()];
    let mut scratch = Vec::new();
    middle((0..options.resamples).filter_map(|_| resampled(&one, &mut random, &mut scratch)).collect())
}

fn seed(operation: &str, options: &Options) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    operation.bytes().fold(0xcbf2_9ce4_8422_2325, step) ^ options.seed
}

/// What is left of logarithms when as many are cut off above as below.
fn middle(mut logs: Vec<f64>) -> Option<(f64, f64)> {
    logs.sort_by(f64::total_cmp);
    let cut = (logs.len() as f64 * OUTSIDE) as usize;
    let (low, high) = (logs.get(cut)?, logs.iter().rev().nth(cut)?);
    Some((low.exp(), high.exp()))
}

fn order(a: &[Vec<f64>], b: &[Vec<f64>]) -> Option<Ordering> {
    a.iter().flatten().partial_cmp(b.iter().flatten())
}

fn resampled(runs: &[Vec<f64>], random: &mut Random, scratch: &mut Vec<f64>) -> Option<f64> {
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
    fn the_interval_holds_the_ratio_and_is_the_same_again() {
        let side =
            |base: f64| vec![(0..30).map(|i| base + f64::from(i * 7 % 30) / 10.0).collect::<Vec<f64>>()];
        let options = Options::default();
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
    fn nothing_to_draw_from_gives_no_interval() {
        let options = Options::default();
        let one = vec![vec![5.0]];
        assert_eq!(interval("x", &one, &one, &options), None);
        assert_eq!(interval("x", &[], &[], &options), None);
        assert_eq!(interval("x", &[vec![0.0; 4]], &[vec![0.0; 4]], &options), None);
    }
}
