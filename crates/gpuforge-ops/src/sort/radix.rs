//! CPU radix sort: MSD passes until a bucket fits the cache, then LSD passes within it.
//!
//! MSD alone would waste passes on small buckets; LSD alone would stream every digit through memory.

use rayon::prelude::*;

/// Below this, comparison sort is faster.
const COMPARISON_SORT: usize = 1 << 10;
/// Largest bucket whose LSD passes stay in cache.
const CACHED: usize = 1 << 18;
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 16;

/// Sortable element: a key, optionally with a unique payload below it.
pub(crate) trait RadixItem: Copy + Ord + Default + Send + Sync {
    /// Digit `pass` of four of the key, least significant first.
    fn digit(self, pass: u32) -> u8;
}

impl RadixItem for u32 {
    #[inline(always)]
    fn digit(self, pass: u32) -> u8 {
        (self >> (8 * pass)) as u8
    }
}

/// Key in the high half, index in the low half.
impl RadixItem for u64 {
    #[inline(always)]
    fn digit(self, pass: u32) -> u8 {
        (self >> (32 + 8 * pass)) as u8
    }
}

type Counts = [usize; 256];

/// Sorts ascending. Elements with equal keys must be in ascending order before.
pub(crate) fn radix<T: RadixItem>(data: &mut [T], threads: usize) {
    if data.len() < COMPARISON_SORT {
        data.sort_unstable();
        return;
    }
    let mut scratch = vec![T::default(); data.len()];
    msd(data, &mut scratch, 3, false, threads.max(1));
}

/// MSD radix sort by digits `pass` to 0, until buckets fit the cache. The result is wanted in `other`, or in `data`.
fn msd<T: RadixItem>(data: &mut [T], other: &mut [T], pass: u32, in_other: bool, threads: usize) {
    if data.len() <= CACHED {
        return lsd(data, other, pass, in_other);
    }
    let share = data.len().div_ceil((data.len() / PER_THREAD).clamp(1, threads));
    let counts: Vec<Counts> = if share == data.len() {
        vec![count(data, pass)]
    } else {
        data.par_chunks(share).map(|block| count(block, pass)).collect()
    };
    let total = |digit: usize| counts.iter().filter_map(|c| c.get(digit)).sum::<usize>();
    // A digit that is equal in all elements is skipped.
    if data.first().is_some_and(|x| total(usize::from(x.digit(pass))) == data.len()) {
        return match pass {
            0 if in_other => other.copy_from_slice(data),
            0 => {}
            _ => msd(data, other, pass - 1, in_other, threads),
        };
    }
    scatter(data, other, &counts, share, pass);
    if pass == 0 {
        if !in_other {
            data.copy_from_slice(other);
        }
        return;
    }
    let mut buckets = Vec::with_capacity(256);
    let (mut from, mut to) = (other, data);
    for digit in 0..256 {
        let n = total(digit).min(from.len());
        let ((bucket, rest), (other, other_rest)) =
            (std::mem::take(&mut from).split_at_mut(n), std::mem::take(&mut to).split_at_mut(n));
        buckets.push((bucket, other));
        (from, to) = (rest, other_rest);
    }
    let each = |(bucket, other): (&mut [T], &mut [T])| msd(bucket, other, pass - 1, !in_other, threads);
    if threads > 1 { buckets.into_par_iter().for_each(each) } else { buckets.into_iter().for_each(each) }
}

/// LSD radix sort by digits 0 to `pass`.
fn lsd<T: RadixItem>(data: &mut [T], other: &mut [T], pass: u32, in_other: bool) {
    if data.len() < COMPARISON_SORT {
        data.sort_unstable();
        if in_other {
            other.copy_from_slice(data);
        }
        return;
    }
    let (mut from, mut to, mut moved) = (data, other, false);
    for pass in 0..=pass {
        let counts = count(from, pass);
        let first = from.first().and_then(|x| counts.get(usize::from(x.digit(pass))));
        if first.is_some_and(|n| *n < from.len()) {
            scatter(from, to, &[counts], from.len(), pass);
            (from, to, moved) = (to, from, !moved);
        }
    }
    if moved != in_other {
        to.copy_from_slice(from);
    }
}

#[allow(clippy::indexing_slicing, reason = "a byte is below 256")]
fn count<T: RadixItem>(block: &[T], pass: u32) -> Counts {
    // Four tables break the dependency between equal neighbours.
    let mut tables = [[0u32; 256]; 4];
    let (fours, rest) = block.as_chunks::<4>();
    for four in fours {
        for (table, x) in tables.iter_mut().zip(four) {
            table[usize::from(x.digit(pass))] += 1;
        }
    }
    let mut counts: Counts = std::array::from_fn(|d| tables.iter().map(|t| t[d] as usize).sum());
    for x in rest {
        counts[usize::from(x.digit(pass))] += 1;
    }
    counts
}

/// Scatters every element to the bucket of its digit; within a bucket, blocks keep their order (stable).
fn scatter<T: RadixItem>(from: &[T], to: &mut [T], counts: &[Counts], share: usize, pass: u32) {
    let mut buckets: Vec<Vec<std::slice::IterMut<'_, T>>> =
        counts.iter().map(|_| Vec::with_capacity(256)).collect();
    let mut rest = to;
    for digit in 0..256 {
        for (buckets, counts) in buckets.iter_mut().zip(counts) {
            let (bucket, later) =
                std::mem::take(&mut rest).split_at_mut(counts.get(digit).copied().unwrap_or(0));
            buckets.push(bucket.iter_mut());
            rest = later;
        }
    }
    let fill = |(block, buckets): (&[T], Vec<std::slice::IterMut<'_, T>>)| {
        let Ok(mut buckets) = <[_; 256]>::try_from(buckets) else { return };
        scatter_block(block, &mut buckets, pass);
    };
    if counts.len() == 1 {
        from.chunks(share).zip(buckets).for_each(fill);
    } else {
        from.par_chunks(share).zip(buckets).for_each(fill);
    }
}

#[allow(clippy::indexing_slicing, reason = "a byte is below 256")]
fn scatter_block<T: RadixItem>(block: &[T], buckets: &mut [std::slice::IterMut<'_, T>; 256], pass: u32) {
    for x in block {
        if let Some(slot) = buckets[usize::from(x.digit(pass))].next() {
            *slot = *x;
        }
    }
}

/// Merges adjacent sorted runs pairwise.
pub(crate) fn merge<T: RadixItem>(mut data: Vec<T>, mut runs: Vec<usize>) -> Vec<T> {
    let mut other = vec![T::default(); data.len()];
    while runs.len() > 1 {
        let (mut from, mut to) = (data.as_slice(), other.as_mut_slice());
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        for two in runs.chunks(2) {
            let (left, right) = (two.first().copied().unwrap_or(0), two.get(1).copied().unwrap_or(0));
            let (now, later) = from.split_at((left + right).min(from.len()));
            let (out, out_later) = std::mem::take(&mut to).split_at_mut(now.len());
            merge_two(now, left.min(now.len()), out);
            (from, to) = (later, out_later);
            merged.push(left + right);
        }
        runs = merged;
        std::mem::swap(&mut data, &mut other);
    }
    data
}

fn merge_two<T: RadixItem>(both: &[T], left: usize, out: &mut [T]) {
    let (left, right) = both.split_at(left);
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    for slot in out {
        let next = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if b < a => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        if let Some(x) = next {
            *slot = x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> Vec<u32> {
        (0..n as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 29) as u32).collect()
    }

    #[test]
    fn radix_sort_matches_comparison_sort() {
        for n in [0, 1, COMPARISON_SORT - 1, COMPARISON_SORT, 5000, 4 * PER_THREAD + 7] {
            for mask in [u32::MAX, 0xff, 0xff00, 0x00ff_0000, 0] {
                let mut data: Vec<u32> = noise(n).iter().map(|x| x & mask).collect();
                let mut want = data.clone();
                want.sort();
                let mut pairs: Vec<u64> =
                    data.iter().zip(0..).map(|(k, i)| u64::from(*k) << 32 | i).collect();
                let mut wanted = pairs.clone();
                wanted.sort();
                radix(&mut data, 3);
                radix(&mut pairs, 1);
                assert!(data == want && pairs == wanted, "{n} with {mask:x}");
            }
        }
    }

    #[test]
    fn runs_are_merged() {
        let lengths = [3, 0, 5, 1, 7];
        let mut data = noise(16);
        let mut start = 0;
        for n in lengths {
            data[start..start + n].sort();
            start += n;
        }
        let mut want = data.clone();
        want.sort();
        assert_eq!(merge(data, lengths.to_vec()), want);
    }
}
