//! Rank tests: Mann-Whitney U, Wilcoxon signed-rank, Cliff's delta, Holm's correction.

use super::distributions;

/// Sample size up to which the exact distribution is used; above, the normal approximation is close and conservative in
/// the far tail.
const EXACT: usize = 30;

/// Mann-Whitney statistic of two sorted samples.
#[derive(Debug, Clone)]
pub struct MannWhitney {
    /// U: pairs in which the second value is larger; a tie counts half.
    pub u: f64,
    /// Size of the first sample.
    pub first: usize,
    /// Size of the second sample.
    pub second: usize,
    /// Sum of t³ − t over groups of equal values.
    ties: f64,
    /// Doubled mid-ranks, ascending; integers, so that sums are exact.
    ranks: Vec<u32>,
}

impl MannWhitney {
    /// Both samples sorted and without NaN; the first is scaled by `factor`.
    pub fn of(first: &[f64], second: &[f64], factor: f64) -> MannWhitney {
        let mut ranked = MannWhitney {
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

    /// Cliff's delta: −1 (the second sample is always smaller) to 1 (always larger).
    pub fn delta(&self) -> f64 {
        let pairs = (self.first * self.second) as f64;
        if pairs == 0.0 { 0.0 } else { 2.0 * self.u / pairs - 1.0 }
    }

    /// One-sided p-value that the second sample is larger. `inflation` is the variance inflation by autocorrelation; the
    /// larger of the exact and the inflated p-value counts.
    pub fn p_larger(&self, inflation: f64) -> f64 {
        if self.first == 0 || self.second == 0 {
            return 1.0;
        }
        let all = self.first + self.second;
        let exact = (all <= EXACT).then(|| self.exact());
        // Continuity correction, for the approximation only.
        let step = if exact.is_some() { 0.0 } else { 0.5 };
        let z = self.z(step);
        let rough = approximate_tail(z, all, inflation);
        exact.map_or(rough, |exact| exact.max(rough)).min(1.0)
    }

    fn z(&self, step: f64) -> f64 {
        let (n, m) = (self.first as f64, self.second as f64);
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        let above = self.u - n * m / 2.0 - step;
        // All tied: no variance.
        if variance > 0.0 { above / variance.sqrt() } else { f64::NEG_INFINITY }
    }

    /// Exact p-value: fraction of rank arrangements with at least this rank sum.
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

/// Upper tail at `z` with inflated variance: the effective sample size is an estimate, hence Student's tail.
fn approximate_tail(z: f64, values: usize, inflation: f64) -> f64 {
    if inflation > 1.0 {
        let effective = (values as f64 / inflation) as usize;
        distributions::student(z / inflation.sqrt(), effective.saturating_sub(2))
    } else {
        distributions::normal(z)
    }
}

/// One-sided p-value of Wilcoxon's signed-rank test that differences are above zero.
/// `inflation` as in [`MannWhitney::p_larger`].
pub fn wilcoxon_signed_rank(differences: &[f64], inflation: f64) -> f64 {
    // Zero differences and NaN are dropped.
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| d.abs() > 0.0).collect();
    sorted.sort_by(|x, y| x.abs().total_cmp(&y.abs()));
    let (mut sum, mut squares, mut ranks) = (0.0, 0.0, Vec::with_capacity(sorted.len()));
    for group in sorted.chunk_by(|x, y| x.abs() == y.abs()) {
        // Doubled mid-rank: an integer.
        let rank = (2 * ranks.len() + group.len() + 1) as u32;
        sum += f64::from(rank) * group.iter().filter(|d| **d > 0.0).count() as f64;
        squares += f64::from(rank) * f64::from(rank) * group.len() as f64;
        ranks.extend(std::iter::repeat_n(rank, group.len()));
    }
    if ranks.is_empty() {
        return 1.0;
    }
    let all: f64 = ranks.iter().copied().map(f64::from).sum();
    let exact = (ranks.len() <= EXACT).then(|| exact_signed_rank(&ranks, sum as usize, all as usize));
    let step = if exact.is_some() { 0.0 } else { 1.0 };
    let z = (sum - 0.5 * all - step) / (0.25 * squares).sqrt();
    let rough = approximate_tail(z, ranks.len(), inflation);
    exact.map_or(rough, |exact| exact.max(rough)).min(1.0)
}

/// Exact p-value: fraction of sign assignments with a positive rank sum of at least `sum`.
fn exact_signed_rank(ranks: &[u32], sum: usize, all: usize) -> f64 {
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

/// Holm's step-down correction: adjusted p-values that control the family-wise error rate.
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

/// Median of sorted values.
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
    fn small_samples_use_exact_counts() {
        let [low, high] = [[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]];
        let apart = MannWhitney::of(&low, &high, 1.0);
        assert_eq!((apart.u, apart.delta()), (25.0, 1.0));
        assert!((apart.exact() - 1.0 / 252.0).abs() < 1e-12);
        assert!((MannWhitney::of(&high, &low, 1.0).exact() - 1.0).abs() < 1e-12);
        // Two against two, one tie between them: 2 of 6 arrangements reach the sum, by hand.
        let tied = MannWhitney::of(&[1.0, 2.0], &[2.0, 3.0], 1.0);
        assert_eq!(tied.u, 3.5);
        assert!((tied.exact() - 2.0 / 6.0).abs() < 1e-12, "{}", tied.exact());
        assert_eq!(MannWhitney::of(&low, &high, 10.0).u, 0.5);
    }

    #[test]
    fn approximation_agrees_with_exact_counts() {
        // Just below the limit both are known.
        let first: Vec<f64> = (0..15).map(|i| f64::from(i) * 2.0).collect();
        let second: Vec<f64> = (0..15).map(|i| f64::from(i) * 2.0 + 7.0).collect();
        let ranked = MannWhitney::of(&first, &second, 1.0);
        let normal = distributions::normal(ranked.z(0.5));
        assert!((ranked.exact() / normal - 1.0).abs() < 0.1, "{} {normal}", ranked.exact());
        assert!(ranked.p_larger(4.0) > ranked.p_larger(1.0));
    }

    #[test]
    fn ties_and_empty_samples_are_not_significant() {
        assert_eq!(MannWhitney::of(&[5.0; 40], &[5.0; 40], 1.0).p_larger(1.0), 1.0);
        assert_eq!(MannWhitney::of(&[5.0; 4], &[5.0; 4], 1.0).p_larger(1.0), 1.0);
        assert_eq!(MannWhitney::of(&[], &[5.0], 1.0).p_larger(1.0), 1.0);
        assert_eq!(MannWhitney::of(&[], &[], 1.0).delta(), 0.0);
    }

    #[test]
    fn signed_rank_exact_counts() {
        // All ten above zero: one of 1024 ways.
        let up: Vec<f64> = (1..=10).map(f64::from).collect();
        let down: Vec<f64> = up.iter().map(|d| -d).collect();
        assert!((exact_signed_rank(&[2, 4, 6], 12, 12) - 0.125).abs() < 1e-12);
        assert!(wilcoxon_signed_rank(&up, 1.0) < 0.003 && wilcoxon_signed_rank(&up, 1.0) >= 1.0 / 1024.0);
        assert!(wilcoxon_signed_rank(&down, 1.0) > 0.99);
        assert_eq!(
            [wilcoxon_signed_rank(&[], 1.0), wilcoxon_signed_rank(&[0.0, f64::NAN, 0.0], 1.0)],
            [1.0, 1.0]
        );
        // Just below the limit both are known.
        let mixed: Vec<f64> = (1..=30).map(|i| f64::from(i) - 9.2).collect();
        let ranks: Vec<u32> = (1..=30).map(|rank| 2 * rank).collect();
        let counted = exact_signed_rank(&ranks, 2 * 370, 930);
        let z = (740.0 - 465.0 - 1.0) / (0.25 * ranks.iter().map(|r| f64::from(r * r)).sum::<f64>()).sqrt();
        let normal = distributions::normal(z);
        assert!(counted < normal && normal < 1.5 * counted, "{counted} {normal}");
        assert!(wilcoxon_signed_rank(&mixed, 4.0) > wilcoxon_signed_rank(&mixed, 1.0));
    }

    #[test]
    fn holm_is_monotone() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, known) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - known).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn median_of_sorted_values() {
        assert_eq!([median(&[]), median(&[3.0]), median(&[1.0, 2.0])], [None, Some(3.0), Some(1.5)]);
    }
}
