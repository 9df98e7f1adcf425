//! Rolling aggregation by van Herk, Gil and Werman: a window is a suffix of one segment of `n` bars and a prefix of the next.
//!
//! Three combinations a bar whatever `n` is, for any associative operation, and no value outlives its window.

use super::{Block, Row};

/// The operation: an associative combination with an identity, the earlier operand first.
pub(super) trait WindowMonoid<const L: usize> {
    /// Some bars, combined.
    type Aggregate: Copy + Send;
    /// No bars.
    const IDENTITY: Self::Aggregate;
    /// One bar.
    fn lift(x: &Row<L>, t: usize) -> Self::Aggregate;
    /// Bars and those after them.
    fn combine(earlier: &Self::Aggregate, later: &Self::Aggregate) -> Self::Aggregate;
    /// The result at bar `t` of its window of `n`.
    fn result(aggregate: &Self::Aggregate, t: usize, n: usize) -> Row<L>;
}

/// State between blocks.
#[derive(Clone)]
pub(crate) struct SegmentState<T> {
    /// Suffixes of the segment before, from each of its bars to its end; then the identity.
    suffixes: Vec<T>,
    /// Prefix of this segment so far.
    prefix: Option<T>,
}

impl<T> Default for SegmentState<T> {
    fn default() -> Self {
        SegmentState { suffixes: Vec::new(), prefix: None }
    }
}

/// Aggregates the last `n` bars of every bar of a block.
#[inline(always)]
pub(super) fn rolling<const L: usize, J: WindowMonoid<L>>(
    block: &mut Block<'_, L>,
    n: usize,
    state: &mut SegmentState<J::Aggregate>,
) {
    let from = block.head();
    let (a, t1) = (block.a(), block.t1);
    // The node's input begins n - 1 bars before the node.
    let origin = block.start + 1 - n;
    if from == block.start && from < t1 {
        let mut prefix = J::IDENTITY;
        for (t, x) in (origin..from).zip(a.range(origin, from)) {
            prefix = J::combine(&prefix, &J::lift(x, t));
        }
        state.prefix = Some(prefix);
        state.suffixes.clear();
        state.suffixes.resize(n + 1, J::IDENTITY);
    }
    let mut t = from;
    while t < t1 {
        let at = (t - origin) % n;
        if at == 0 && t > origin {
            // The finished segment: its suffixes, but for the whole of it, which no window begins with any more.
            let segment = state.suffixes.iter_mut().zip(a.range(t - n, t)).skip(1);
            let mut bars = segment.rev().zip((t - n..t).rev());
            if let Some(((slot, x), t)) = bars.next() {
                let mut suffix = J::lift(x, t);
                *slot = suffix;
                for ((slot, x), t) in bars {
                    suffix = J::combine(&J::lift(x, t), &suffix);
                    *slot = suffix;
                }
            }
        }
        let to = (t + n - at).min(t1);
        let mut prefix = if at == 0 { J::IDENTITY } else { state.prefix.unwrap_or(J::IDENTITY) };
        let suffixes = state.suffixes.get(at + 1..).unwrap_or(&[]);
        for (((x, suffix), out), t) in a.range(t, to).iter().zip(suffixes).zip(block.out(t)).zip(t..) {
            prefix = J::combine(&prefix, &J::lift(x, t));
            *out = J::result(&J::combine(suffix, &prefix), t, n);
        }
        state.prefix = Some(prefix);
        t = to;
    }
}
