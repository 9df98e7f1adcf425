//! How does the processor sort? By digits: from the first until what is equal so far fits into the cache, there from the last.
//!
//! From the first alone, small rooms would be counted in vain; from the last alone, every digit would pass through memory.

use rayon::prelude::*;

/// Below this many, comparing is faster than counting.
const SMALL: usize = 1 << 10;
/// Up to this many, all digits are moved within the cache.
const CACHED: usize = 1 << 18;
/// Elements that are worth a thread.
const PER_THREAD: usize = 1 << 16;

/// What can be sorted: a key, or a key with something below it that makes every element different.
pub(crate) trait Item: Copy + Ord + Default + Send + Sync {
    /// Digit `pass` of four of the key, from the last.
    fn digit(self, pass: u32) -> u8;
}

impl Item for u32 {
    #[inline(always)]
    fn digit(self, pass: u32) -> u8 {
        (self >> (8 * pass)) as u8
    }
}

/// A key above the place it came from.
impl Item for u64 {
    #[inline(always)]
    fn digit(self, pass: u32) -> u8 {
        (self >> (32 + 8 * pass)) as u8
    }
}

type Counts = [usize; 256];

/// Sorts ascending. Elements with equal keys must stand in ascending order before.
pub(crate) fn radix<T: Item>(data: &mut [T], threads: usize) {
    if data.len() < SMALL {
        data.sort_unstable();
        return;
    }
    let mut scratch = vec![T::default(); data.len()];
    by_first(data, &mut scratch, 3, false, threads.max(1));
}

/// Sorts by digits `pass` to 0, from the first: until what has equal first digits fits into the cache. The result is wanted
/// in `other`, or in `data`.
fn by_first<T: Item>(data: &mut [T], other: &mut [T], pass: u32, in_other: bool, threads: usize) {
    if data.len() <= CACHED {
        return by_last(data, other, pass, in_other);
    }
    let share = data.len().div_ceil((data.len() / PER_THREAD).clamp(1, threads));
    let counts: Vec<Counts> = if share == data.len() {
        vec![count(data, pass)]
    } else {
        data.par_chunks(share).map(|block| count(block, pass)).collect()
    };
    let total = |digit: usize| counts.iter().filter_map(|c| c.get(digit)).sum::<usize>();
    // A digit that is the same in all of them decides nothing.
    if data.first().is_some_and(|x| total(usize::from(x.digit(pass))) == data.len()) {
        return match pass {
            0 if in_other => other.copy_from_slice(data),
            0 => {}
            _ => by_first(data, other, pass - 1, in_other, threads),
        };
    }
    spread(data, other, &counts, share, pass);
    if pass == 0 {
        if !in_other {
            data.copy_from_slice(other);
        }
        return;
    }
    let mut rooms = Vec::with_capacity(256);
    let (mut from, mut to) = (other, data);
    for digit in 0..256 {
        let n = total(digit).min(from.len());
        let ((room, rest), (other, other_rest)) =
            (std::mem::take(&mut from).split_at_mut(n), std::mem::take(&mut to).split_at_mut(n));
        rooms.push((room, other));
        (from, to) = (rest, other_rest);
    }
    let each = |(room, other): (&mut [T], &mut [T])| by_first(room, other, pass - 1, !in_other, threads);
    if threads > 1 { rooms.into_par_iter().for_each(each) } else { rooms.into_iter().for_each(each) }
}

/// Sorts by digits 0 to `pass`, from the last.
fn by_last<T: Item>(data: &mut [T], other: &mut [T], pass: u32, in_other: bool) {
    if data.len() < SMALL {
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
            spread(from, to, &[counts], from.len(), pass);
            (from, to, moved) = (to, from, !moved);
        }
    }
    if moved != in_other {
        to.copy_from_slice(from);
    }
}

#[allow(clippy::indexing_slicing, reason = "a byte is below 256")]
fn count<T: Item>(block: &[T], pass: u32) -> Counts {
    // Four tables: equal neighbours would wait for each other's sum.
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

/// Moves every element to its digit's room: the rooms of a digit lie in the order of the blocks.
fn spread<T: Item>(from: &[T], to: &mut [T], counts: &[Counts], share: usize, pass: u32) {
    let mut rooms: Vec<Vec<std::slice::IterMut<'_, T>>> =
        counts.iter().map(|_| Vec::with_capacity(256)).collect();
    let mut rest = to;
    for digit in 0..256 {
        for (rooms, counts) in rooms.iter_mut().zip(counts) {
            let (room, later) =
                std::mem::take(&mut rest).split_at_mut(counts.get(digit).copied().unwrap_or(0));
            rooms.push(room.iter_mut());
            rest = later;
        }
    }
    let fill = |(block, rooms): (&[T], Vec<std::slice::IterMut<'_, T>>)| {
        let Ok(mut rooms) = <[_; 256]>::try_from(rooms) else { return };
        move_block(block, &mut rooms, pass);
    };
    if counts.len() == 1 {
        from.chunks(share).zip(rooms).for_each(fill);
    } else {
        from.par_chunks(share).zip(rooms).for_each(fill);
    }
}

#[allow(clippy::indexing_slicing, reason = "a byte is below 256")]
fn move_block<T: Item>(block: &[T], rooms: &mut [std::slice::IterMut<'_, T>; 256], pass: u32) {
    for x in block {
        if let Some(place) = rooms[usize::from(x.digit(pass))].next() {
            *place = *x;
        }
    }
}

/// Merges sorted runs that lie one after the other, by twos.
pub(crate) fn merge<T: Item>(mut data: Vec<T>, mut runs: Vec<usize>) -> Vec<T> {
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

fn merge_two<T: Item>(both: &[T], left: usize, out: &mut [T]) {
    let (left, right) = both.split_at(left);
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    for place in out {
        let next = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if b < a => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        if let Some(x) = next {
            *place = x;
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
    fn digits_and_comparisons_agree() {
        for n in [0, 1, SMALL - 1, SMALL, 5000, 4 * PER_THREAD + 7] {
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
