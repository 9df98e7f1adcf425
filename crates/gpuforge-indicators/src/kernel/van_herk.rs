//! How is a window joined from parts? A window is the end of one stretch of `n` bars and the beginning of the next (van Herk,
//! Gil and Werman): three joins a bar whatever `n` is, and nothing is remembered for longer than it is in the window.

use super::{Block, Row};

/// What is joined: associative, the earlier first.
pub(super) trait Join<const L: usize> {
    /// Some bars, joined.
    type Part: Copy + Send;
    /// No bars.
    const NONE: Self::Part;
    /// One bar.
    fn one(x: &Row<L>, t: usize) -> Self::Part;
    /// Bars and those after them.
    fn join(earlier: &Self::Part, later: &Self::Part) -> Self::Part;
    /// What bar `t` says of its window of `n`.
    fn result(part: &Self::Part, t: usize, n: usize) -> Row<L>;
}

/// What is kept between blocks.
#[derive(Clone)]
pub(crate) struct Stretches<T> {
    /// Of the stretch before, from each of its bars to its end, and then nothing.
    ends: Vec<T>,
    /// Of this stretch so far.
    beginning: Option<T>,
}

impl<T> Default for Stretches<T> {
    fn default() -> Self {
        Stretches { ends: Vec::new(), beginning: None }
    }
}

/// Joins the last `n` of every bar of a block.
#[inline(always)]
pub(super) fn windows<const L: usize, J: Join<L>>(
    block: &mut Block<'_, L>,
    n: usize,
    kept: &mut Stretches<J::Part>,
) {
    let from = block.head();
    let (a, t1) = (block.a(), block.t1);
    // The node's input begins n - 1 bars before the node.
    let origin = block.start + 1 - n;
    if from == block.start && from < t1 {
        let mut beginning = J::NONE;
        for (t, x) in (origin..from).zip(a.range(origin, from)) {
            beginning = J::join(&beginning, &J::one(x, t));
        }
        kept.beginning = Some(beginning);
        kept.ends.clear();
        kept.ends.resize(n + 1, J::NONE);
    }
    let mut t = from;
    while t < t1 {
        let at = (t - origin) % n;
        if at == 0 && t > origin {
            // The stretch that ended becomes the one before. No window begins with its first bar any more.
            let stretch = kept.ends.iter_mut().zip(a.range(t - n, t)).skip(1);
            let mut bars = stretch.rev().zip((t - n..t).rev());
            if let Some(((slot, x), t)) = bars.next() {
                let mut end = J::one(x, t);
                *slot = end;
                for ((slot, x), t) in bars {
                    end = J::join(&J::one(x, t), &end);
                    *slot = end;
                }
            }
        }
        let to = (t + n - at).min(t1);
        let mut beginning = if at == 0 { J::NONE } else { kept.beginning.unwrap_or(J::NONE) };
        let ends = kept.ends.get(at + 1..).unwrap_or(&[]);
        for (((x, end), out), t) in a.range(t, to).iter().zip(ends).zip(block.out(t)).zip(t..) {
            beginning = J::join(&beginning, &J::one(x, t));
            *out = J::result(&J::join(end, &beginning), t, n);
        }
        kept.beginning = Some(beginning);
        t = to;
    }
}
