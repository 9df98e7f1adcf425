//! Does one side tend to be larger? Tests by ranks (Mann-Whitney, and Wilcoxon for pairs), Cliff's delta, Holm's correction.

use super::tails;

/// Values of both sides together up to which every arrangement is counted; above, the normal approximation is close and,
/// in the far tail, on the safe side.
const EXACT: usize = 30;

/// How two sorted sides interleave.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// Pairs in which the value of the second side is larger; a tie counts half.
    pub u: f64,
    /// Values of the first side.
    pub first: usize,
    /// Values of the second side.
    pub second: usize,
    /// Sum of t³ − t over groups of equal values.
    ties: f64,
    /// Twice the middle rank of each value, rising; whole numbers, so that sums are exact.
    ranks: Vec<u32>,
}

impl Ranked {
    /// Both sides sorted and free of NaN; each value of the first side is multiplied by `factor` first.
    pub fn of(first: &[f64], second: &[f64], factor: f64) -> Ranked {
        let mut ranked = Ranked {
            u: 0.0,
            first: first.len(),
            second: second.len(),
            ties: 0.0,
            ranks: Vec::with_capacity(first.len() + second.len()),
        };
        let (mut a, mut b) = (first.iter().map(|x| x * factor).peekable(), second.iter().copied().peekable());
        let mut below = 0;
        while let Some(value) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => Some(x.min(*y)),
            (x, y) => x.or(y).copied(),
        } {
            let mut equal = [0usize; 2];
            while a.next_if(|x| *x <= value).is_some() {
                equal[0] += 1;
            }
            while b.next_if(|y| *y <= value).is_some() {
                equal[1] += 1;
            }
            let [mine, theirs] = equal;
            let group = mine + theirs;
            if group == 0 {
                break;
            }
            ranked.u += theirs as f64 * (below as f64 + 0.5 * mine as f64);
            let size = group as f64;
            ranked.ties += size * size * size - size;
            let before = ranked.ranks.len();
            ranked.ranks.extend(std::iter::repeat_n((2 * before + group + 1) as u32, group));
            below += mine;
        }
        ranked
    }

    /// From −1 (the second side is always smaller) to 1 (always larger).
    pub fn delta(&self) -> f64 {
        let pairs = (self.first * self.second) as f64;
        if pairs == 0.0 { 0.0 } else { 2.0 * self.u / pairs - 1.0 }
    }

    /// Chance of seeing the second side this much larger when both are of one kind. `inflation` is by how much the
    /// variance exceeds that of independent values; the larger of the exact and the inflated answer counts.
    pub fn larger(&self, inflation: f64) -> f64 {
        if self.first == 0 || self.second == 0 {
            return 1.0;
        }
        let all = self.first + self.second;
        let exact = (all <= EXACT).then(|| self.exact());
        // The half that a step is wide belongs to the approximation, where nothing was counted.
        let step = if exact.is_some() { 0.0 } else { 0.5 };
        let z = self.z(step);
        let rough = rough(z, all, inflation);
        exact.map_or(rough, |exact| exact.max(rough)).min(1.0)
    }

    fn z(&self, step: f64) -> f64 {
        let (n, m) = (self.first as f64, self.second as f64);
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        let above = self.u - n * m / 2.0 - step;
        // Nothing but ties: no arrangement differs from another.
        if variance > 0.0 { above / variance.sqrt() } else { f64::NEG_INFINITY }
    }

    /// Share of the arrangements of these ranks in which the second side's sum is at least what it is.
    fn exact(&self) -> f64 {
        // u = sum of ranks − m(m+1)/2, and ranks here are doubled.
        let sum = (2.0 * self.u) as usize + self.second * (self.second + 1);
        let most = 2 * self.second * (self.first + self.second);
        // ways[k][s]: choices of k values whose doubled ranks add up to s.
        let mut ways = vec![vec![0.0_f64; most + 1]; self.second + 1];
        if let Some(one) = ways.first_mut().and_then(|row| row.first_mut()) {
            *one = 1.0;
        }
        for (seen, rank) in self.ranks.iter().enumerate() {
            for k in (1..=self.second.min(seen + 1)).rev() {
                let (fewer, more) = ways.split_at_mut(k);
                let (Some(from), Some(to)) = (fewer.last(), more.first_mut()) else { continue };
                for (to, from) in to.iter_mut().skip(*rank as usize).zip(from) {
                    *to += from;
                }
            }
        }
        let Some(row) = ways.last() else { return 1.0 };
        let all: f64 = row.iter().sum();
        let as_far: f64 = row.iter().skip(sum).sum();
        as_far / all
    }
}

/// The tail above `z` where the variance is larger than was assumed. Values that depend on each other are worth fewer, and
/// how many is an estimate: Student's tail, not the normal one.
fn rough(z: f64, values: usize, inflation: f64) -> f64 {
    if inflation > 1.0 {
        let worth = (values as f64 / inflation) as usize;
        tails::student(z / inflation.sqrt(), worth.saturating_sub(2))
    } else {
        tails::normal(z)
    }
}

/// Chance of differences this far above zero when each is as likely to be above as below: Wilcoxon's signed-rank test.
/// `inflation` as in [`Ranked::larger`].
pub fn above_zero(differences: &[f64], inflation: f64) -> f64 {
    // A difference of zero speaks for neither; NaN for nothing.
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| d.abs() > 0.0).collect();
    sorted.sort_by(|x, y| x.abs().total_cmp(&y.abs()));
    let (mut sum, mut squares, mut ranks) = (0.0, 0.0, Vec::with_capacity(sorted.len()));
    for group in sorted.chunk_by(|x, y| x.abs() == y.abs()) {
        // Twice the middle rank: a whole number.
        let rank = (2 * ranks.len() + group.len() + 1) as u32;
        sum += f64::from(rank) * group.iter().filter(|d| **d > 0.0).count() as f64;
        squares += f64::from(rank) * f64::from(rank) * group.len() as f64;
        ranks.extend(std::iter::repeat_n(rank, group.len()));
    }
    if ranks.is_empty() {
        return 1.0;
    }
    let all: f64 = ranks.iter().copied().map(f64::from).sum();
    let exact = (ranks.len() <= EXACT).then(|| flipped(&ranks, sum as usize, all as usize));
    let step = if exact.is_some() { 0.0 } else { 1.0 };
    let z = (sum - 0.5 * all - step) / (0.25 * squares).sqrt();
    let rough = rough(z, ranks.len(), inflation);
    exact.map_or(rough, |exact| exact.max(rough)).min(1.0)
}

/// Share of all ways to give these ranks a sign in which those above zero add up to at least `sum`.
fn flipped(ranks: &[u32], sum: usize, all: usize) -> f64 {
    let mut share = vec![0.0_f64; all + 1];
    if let Some(none) = share.first_mut() {
        *none = 1.0;
    }
    for rank in ranks.iter().map(|rank| *rank as usize) {
        for at in (0..=all).rev() {
            let with = at.checked_sub(rank).and_then(|from| share.get(from)).copied().unwrap_or(0.0);
            if let Some(without) = share.get_mut(at) {
                *without = 0.5 * (*without + with);
            }
        }
    }
    share.iter().skip(sum).sum()
}

/// Holm's correction: with these, the chance of even one false alarm among all tests stays below the level.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = p.iter().copied().enumerate().collect();
    order.sort_by(|(_, x), (_, y)| x.total_cmp(y));
    let mut adjusted = vec![1.0; p.len()];
    let mut most: f64 = 0.0;
    for (done, (index, p)) in order.into_iter().enumerate() {
        let left = (adjusted.len() - done) as f64;
        most = most.max((left * p).min(1.0));
        if let Some(slot) = adjusted.get_mut(index) {
            *slot = most;
        }
    }
    adjusted
}

/// The middle of sorted values, the mean of both where there are two.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let high = sorted.get(middle)?;
    match sorted.len() % 2 {
        0 => Some(0.5 * (sorted.get(middle.wrapping_sub(1))? + high)),
        _ => Some(*high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_are_counted() {
        let [low, high] = [[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]];
        let apart = Ranked::of(&low, &high, 1.0);
        assert_eq!((apart.u, apart.delta()), (25.0, 1.0));
        assert!((apart.exact() - 1.0 / 252.0).abs() < 1e-12);
        assert!((Ranked::of(&high, &low, 1.0).exact() - 1.0).abs() < 1e-12);
        // Two against two, one tie between them: 2 of 6 arrangements reach the sum, by hand.
        let tied = Ranked::of(&[1.0, 2.0], &[2.0, 3.0], 1.0);
        assert_eq!(tied.u, 3.5);
        assert!((tied.exact() - 2.0 / 6.0).abs() < 1e-12, "{}", tied.exact());
        assert_eq!(Ranked::of(&low, &high, 10.0).u, 0.5);
    }

    #[test]
    fn the_approximation_joins_the_count() {
        // Just below the limit both are known.
        let first: Vec<f64> = (0..15).map(|i| f64::from(i) * 2.0).collect();
        let second: Vec<f64> = (0..15).map(|i| f64::from(i) * 2.0 + 7.0).collect();
        let ranked = Ranked::of(&first, &second, 1.0);
        let normal = tails::normal(ranked.z(0.5));
        assert!((ranked.exact() / normal - 1.0).abs() < 0.1, "{} {normal}", ranked.exact());
        assert!(ranked.larger(4.0) > ranked.larger(1.0));
    }

    #[test]
    fn equal_values_and_empty_sides_prove_nothing() {
        assert_eq!(Ranked::of(&[5.0; 40], &[5.0; 40], 1.0).larger(1.0), 1.0);
        assert_eq!(Ranked::of(&[5.0; 4], &[5.0; 4], 1.0).larger(1.0), 1.0);
        assert_eq!(Ranked::of(&[], &[5.0], 1.0).larger(1.0), 1.0);
        assert_eq!(Ranked::of(&[], &[], 1.0).delta(), 0.0);
    }

    #[test]
    fn signs_are_counted() {
        // All ten above zero: one of 1024 ways.
        let up: Vec<f64> = (1..=10).map(f64::from).collect();
        let down: Vec<f64> = up.iter().map(|d| -d).collect();
        assert!((flipped(&[2, 4, 6], 12, 12) - 0.125).abs() < 1e-12);
        assert!(above_zero(&up, 1.0) < 0.003 && above_zero(&up, 1.0) >= 1.0 / 1024.0);
        assert!(above_zero(&down, 1.0) > 0.99);
        assert_eq!([above_zero(&[], 1.0), above_zero(&[0.0, f64::NAN, 0.0], 1.0)], [1.0, 1.0]);
        // Just below the limit both are known.
        let mixed: Vec<f64> = (1..=30).map(|i| f64::from(i) - 9.2).collect();
        let ranks: Vec<u32> = (1..=30).map(|rank| 2 * rank).collect();
        let counted = flipped(&ranks, 2 * 370, 930);
        let z = (740.0 - 465.0 - 1.0) / (0.25 * ranks.iter().map(|r| f64::from(r * r)).sum::<f64>()).sqrt();
        let normal = tails::normal(z);
        assert!(counted < normal && normal < 1.5 * counted, "{counted} {normal}");
        assert!(above_zero(&mixed, 4.0) > above_zero(&mixed, 1.0));
    }

    #[test]
    fn holm_steps_down_and_never_turns_back() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, known) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - known).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn the_middle() {
        assert_eq!([median(&[]), median(&[3.0]), median(&[1.0, 2.0])], [None, Some(3.0), Some(1.5)]);
    }
}
