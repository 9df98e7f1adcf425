//! Two neighbouring bars in a register: running sums along time, for relaxed floating point.
//!
//! A running sum of two bars is `(x, x + y)` plus the sum before them, one instruction each with `fmla` by element: half an
//! instruction per bar less than a prefix scan over eight, and a loop-carried addition for every two bars, which kernels with
//! enough else to compute hide. [`ArrayPair`] is the reference: the same operations in plain Rust, with the same bits.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
mod tests;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::NeonPair;

/// Two neighbouring bars, the earlier first.
pub(crate) trait Pair: Copy {
    fn new(bars: [f64; 2]) -> Self;
    fn bars(self) -> [f64; 2];
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    /// `self - a * b`, rounded once.
    fn sub_mul(self, a: Self, b: Self) -> Self;
    /// Max of each bar; a NaN is ignored.
    fn max_number(self, other: Self) -> Self;
    fn min_number(self, other: Self) -> Self;
    /// Running sum of the two, which continues that of the pair before: `(s + x, s + (x + y))`. Where `x` is not finite, the
    /// first may become NaN.
    fn running_sum(self, before: Self, units: Units<Self>) -> Self;
    /// The bar before each: the later one of the pair before, and the first.
    fn lagged(self, before: Self) -> Self;
    /// Is one of them less than its counterpart?
    fn any_less(self, than: Self) -> bool;

    /// The same number twice.
    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self::new([x; 2])
    }

    /// The later bar.
    #[inline(always)]
    fn last(self) -> f64 {
        let [_, last] = self.bars();
        last
    }
}

/// Factors of a running sum, `(0, 1)` and `(1, 1)`: loaded once, and nothing that the compiler knows. It would turn a
/// multiply-add by element into a broadcast and an addition.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "plain Rust adds"))]
pub(crate) struct Units<P> {
    second: P,
    both: P,
}

impl<P: Pair> Units<P> {
    pub(super) fn new() -> Self {
        let [second, both] = std::hint::black_box([[0.0, 1.0], [1.0, 1.0]]);
        Units { second: P::new(second), both: P::new(both) }
    }
}

/// In plain Rust.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayPair([f64; 2]);

/// An operation bar by bar.
#[inline(always)]
fn each(a: ArrayPair, b: ArrayPair, f: impl Fn(f64, f64) -> f64) -> ArrayPair {
    let (ArrayPair([a, b]), ArrayPair([c, d])) = (a, b);
    ArrayPair([f(a, c), f(b, d)])
}

impl Pair for ArrayPair {
    fn new(bars: [f64; 2]) -> Self {
        ArrayPair(bars)
    }

    fn bars(self) -> [f64; 2] {
        self.0
    }

    fn add(self, other: Self) -> Self {
        each(self, other, |a, b| a + b)
    }

    fn sub(self, other: Self) -> Self {
        each(self, other, |a, b| a - b)
    }

    fn mul(self, other: Self) -> Self {
        each(self, other, |a, b| a * b)
    }

    fn div(self, other: Self) -> Self {
        each(self, other, |a, b| a / b)
    }

    fn sqrt(self) -> Self {
        each(self, self, |a, _| a.sqrt())
    }

    fn sub_mul(self, a: Self, b: Self) -> Self {
        let (ArrayPair([x, y]), ArrayPair([a, b]), ArrayPair([c, d])) = (self, a, b);
        ArrayPair([(-a).mul_add(c, x), (-b).mul_add(d, y)])
    }

    fn max_number(self, other: Self) -> Self {
        each(self, other, f64::max)
    }

    fn min_number(self, other: Self) -> Self {
        each(self, other, f64::min)
    }

    fn running_sum(self, before: Self, _: Units<Self>) -> Self {
        let ArrayPair([x, y]) = self;
        ArrayPair([x, x + y]).add(ArrayPair([before.last(); 2]))
    }

    fn lagged(self, before: Self) -> Self {
        let ArrayPair([x, _]) = self;
        ArrayPair([before.last(), x])
    }

    fn any_less(self, than: Self) -> bool {
        let (ArrayPair([a, b]), ArrayPair([c, d])) = (self, than);
        a < c || b < d
    }
}

/// Bars of an iteration.
pub(super) const MANY: usize = 16;

/// Results of an iteration, from its pairs. All are loaded before the first is stored: the compiler cannot know that the results
/// are elsewhere, and would not load two registers with one instruction.
#[inline(always)]
pub(super) fn for_each_pair<P: Pair>(
    new: &[f64; MANY],
    old: &[f64; MANY],
    mut next: impl FnMut(P, P) -> P,
) -> [P; MANY / 2] {
    let mut found = [P::splat(0.0); MANY / 2];
    let (new, old) = (new.as_chunks::<2>().0, old.as_chunks::<2>().0);
    for ((found, new), old) in found.iter_mut().zip(new).zip(old) {
        *found = next(P::new(*new), P::new(*old));
    }
    found
}

/// Stores the results of an iteration.
#[inline(always)]
pub(super) fn store_pairs<P: Pair>(found: [P; MANY / 2], out: &mut [f64; MANY]) {
    for (out, found) in out.as_chunks_mut::<2>().0.iter_mut().zip(found) {
        *out = found.bars();
    }
}

/// A kernel's loop over the bars between two recomputations: several pairs at a time, then one.
pub(crate) trait PairLoop {
    /// Several pairs: the newest values, those that leave the window, the results.
    fn many(&mut self, new: &[f64; MANY], old: &[f64; MANY], out: &mut [f64; MANY]);
    /// Two bars.
    fn two(&mut self, new: [f64; 2], old: [f64; 2]) -> [f64; 2];
}

/// The bar of a pair whose second is in the next block: its newest and its oldest value.
pub(super) type HalfPair = Option<(f64, f64)>;

/// Runs a loop whose pairs are counted from the first bar of a period. Half a pair, at the end of a block, is computed with any
/// second bar, which its first does not depend on, and again with its own in the next block: results do not depend on where
/// blocks end.
#[inline(always)]
pub(super) fn run_pairs<L: PairLoop + Copy>(
    state: &mut L,
    half: &mut HalfPair,
    (mut new, mut old, mut out): (&[f64], &[f64], &mut [f64]),
) {
    if let (Some((x, leaving)), Some((second, rest)), Some((oldest, others))) =
        (*half, new.split_first(), old.split_first())
    {
        let [_, result] = state.two([x, *second], [leaving, *oldest]);
        if let Some((to, left)) = std::mem::take(&mut out).split_first_mut() {
            (*to, out) = (result, left);
        }
        (new, old, *half) = (rest, others, None);
    }
    let ((groups, new), (old_groups, old), (to_groups, out)) =
        (new.as_chunks::<MANY>(), old.as_chunks::<MANY>(), out.as_chunks_mut::<MANY>());
    for ((new, old), out) in groups.iter().zip(old_groups).zip(to_groups) {
        state.many(new, old, out);
    }
    let ((twos, new), (old_twos, old), (to_twos, out)) =
        (new.as_chunks::<2>(), old.as_chunks::<2>(), out.as_chunks_mut::<2>());
    for ((new, old), out) in twos.iter().zip(old_twos).zip(to_twos) {
        *out = state.two(*new, *old);
    }
    if let ([x], [leaving], [to]) = (new, old, out) {
        let mut discarded = *state;
        let [result, _] = discarded.two([*x; 2], [*leaving; 2]);
        *to = result;
        *half = Some((*x, *leaving));
    }
}
