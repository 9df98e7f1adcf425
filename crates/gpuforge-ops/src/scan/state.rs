//! Scan states (monoids) and the blocked sequential scan that fixes the order of operations, as the shader's workgroups do it.

use super::{RUN, SEGMENT, TILE};
use crate::reduce::{min_max, sum};

/// Monoid of a scan: the combined state of some elements.
pub(super) trait ScanState: Copy {
    /// Identity.
    const IDENTITY: Self;

    /// Associative combination: elements, then the next ones.
    fn combine(self, next: Self) -> Self;

    /// Bits of the output element.
    fn output_bits(self) -> u32;

    /// State as shader words; words beyond [`super::ScanKind::words`] are unused.
    fn words(self) -> [u32; 3];

    /// State from shader words.
    fn from_words(words: &[u32]) -> Self;
}

/// Sequential scan in blocked order. Inside a tile it starts with the tile's prefix; over tile totals, from the beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockedScan<S> {
    carry: S,
    segments: S,
    runs: S,
    run: S,
    now: S,
    at: usize,
}

impl<S: ScanState> BlockedScan<S> {
    pub(super) fn new(carry: S) -> Self {
        let none = S::IDENTITY;
        BlockedScan {
            carry,
            segments: none,
            runs: none,
            run: none,
            now: carry.combine(none.combine(none)),
            at: 0,
        }
    }

    /// Exclusive prefix at the current position.
    pub(super) fn now(&self) -> S {
        self.now
    }

    /// Adds an element; returns the inclusive prefix.
    pub(super) fn push(&mut self, x: S) -> S {
        let here = self.now.combine(x);
        (self.now, self.run, self.at) = (here, self.run.combine(x), self.at + 1);
        if self.at.is_multiple_of(RUN) {
            (self.runs, self.run) = (self.runs.combine(self.run), S::IDENTITY);
            if self.at.is_multiple_of(SEGMENT) {
                (self.segments, self.runs) = (self.segments.combine(self.runs), S::IDENTITY);
            }
            if self.at.is_multiple_of(TILE) {
                (self.carry, self.segments) = (self.carry.combine(self.segments), S::IDENTITY);
            }
            self.now = self.carry.combine(self.segments.combine(self.runs));
        }
        here
    }
}

/// Reduces a tile of at most [`TILE`] elements in blocked order.
pub(super) fn total<S: ScanState>(items: impl Iterator<Item = S>) -> S {
    let items: Vec<S> = items.collect();
    let reduce = |of: &[S]| of.iter().fold(S::IDENTITY, |all, x| all.combine(*x));
    let runs: Vec<S> = items.chunks(RUN).map(reduce).collect();
    let segments: Vec<S> = runs.chunks(SEGMENT / RUN).map(reduce).collect();
    reduce(&segments)
}

impl ScanState for sum::FlaggedSum {
    const IDENTITY: Self = sum::FlaggedSum { value: 0.0, flags: 0 };

    fn combine(self, next: Self) -> Self {
        self.add(next)
    }

    fn output_bits(self) -> u32 {
        sum::finish([self.value.to_bits(), self.flags], |v| v)
    }

    fn words(self) -> [u32; 3] {
        [self.value.to_bits(), self.flags, 0]
    }

    fn from_words(words: &[u32]) -> Self {
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        sum::FlaggedSum { value: f32::from_bits(word(0)), flags: word(1) }
    }
}

/// Order-preserving key of the maximum; see `reduce/min_max.rs`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaxKey(pub(super) u32);

impl ScanState for MaxKey {
    const IDENTITY: Self = MaxKey(0);

    fn combine(self, next: Self) -> Self {
        MaxKey(self.0.max(next.0))
    }

    fn output_bits(self) -> u32 {
        min_max::value([self.0, 0], false)
    }

    fn words(self) -> [u32; 3] {
        [self.0, 0, 0]
    }

    fn from_words(words: &[u32]) -> Self {
        MaxKey(words.first().copied().unwrap_or(0))
    }
}

/// Affine map `y → a y + b`; a constant prefix is `y → 0 y + b`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AffineMap {
    a: f32,
    b: f32,
    bad: u32,
}

impl AffineMap {
    pub(super) fn of(a: f32, b: f32) -> AffineMap {
        if a.is_finite() && b.is_finite() {
            AffineMap { a, b, bad: 0 }
        } else {
            AffineMap { bad: 1, ..AffineMap::IDENTITY }
        }
    }
}

impl ScanState for AffineMap {
    const IDENTITY: Self = AffineMap { a: 1.0, b: 0.0, bad: 0 };

    fn combine(self, next: Self) -> Self {
        AffineMap { a: next.a * self.a, b: next.a * self.b + next.b, bad: self.bad | next.bad }
    }

    fn output_bits(self) -> u32 {
        if self.bad == 0 && self.b.is_finite() { self.b.to_bits() } else { min_max::NAN }
    }

    fn words(self) -> [u32; 3] {
        [self.a.to_bits(), self.b.to_bits(), self.bad]
    }

    fn from_words(words: &[u32]) -> Self {
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        AffineMap { a: f32::from_bits(word(0)), b: f32::from_bits(word(1)), bad: word(2) }
    }
}
