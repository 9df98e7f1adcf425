//! Chunked sums with linear weights; AArch64 has [`crate::kernel::paired_weighted_sum`] instead.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "slices are cut to the length that is counted to"
)]

use super::{FEW_CHUNKS, LINE_LEN, element, put};
use crate::kernel::{Block, Body, rolling_sum::LinearWeightedSum, transpose};

/// A linearly weighted sum, which is recomputed every so many bars anyway: chunks between those are bit-identical.
#[derive(Clone)]
pub(crate) struct ChunkedWeightedSum(pub(crate) LinearWeightedSum<1>);

impl Body<1> for ChunkedWeightedSum {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, 1>) {
        let (n, start, t1) = (self.0.n, block.start, block.t1);
        let period = self.0.recompute_period();
        let mut from = block.head();
        // Up to the next recomputation.
        if from > start && from < t1 {
            let to = (from + (period - (from - start) % period) % period).min(t1);
            self.0.run(block, from, to);
            from = to;
        }
        while from + FEW_CHUNKS * period <= t1 {
            let a = block.a();
            let first = |p: usize| from + p * period;
            let mut sums: [LinearWeightedSum<1>; FEW_CHUNKS] = std::array::from_fn(|p| {
                let mut one = self.0.clone();
                one.begin(a.range(first(p) + 1 - n, first(p)));
                one
            });
            let all = FEW_CHUNKS * period;
            let new = a.range(from, from + all).as_flattened();
            let old = a.range(from + 1 - n, from + all + 1 - n).as_flattened();
            let out = block.out(from).as_flattened_mut();
            if [new.len(), old.len(), out.len().min(all)] != [all; 3] {
                break;
            }
            for i in 0..period {
                if i.is_multiple_of(LINE_LEN) {
                    // The next chunks' bars: four streams with a jump in between, which the hardware prefetcher misses.
                    (0..FEW_CHUNKS)
                        .for_each(|p| transpose::prefetch(new.as_ptr().wrapping_add(all + p * period + i)));
                }
                for p in 0..FEW_CHUNKS {
                    let (new, old) = (element(new, p * period + i), element(old, p * period + i));
                    let [sum] = sums[p].step([new], [old]);
                    put(out, p * period + i, self.0.divisor.map_or(sum, |divisor| sum / divisor));
                }
            }
            let [.., last] = sums;
            self.0 = last;
            from += FEW_CHUNKS * period;
        }
        self.0.run(block, from, t1);
    }
}
