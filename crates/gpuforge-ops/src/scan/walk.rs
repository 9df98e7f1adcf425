//! In which order do elements follow each other? One walk along a row, as the shader's groups do it together.

use super::{RUN, STRETCH, TILE};
use crate::reduce::{extreme, sum};

/// What is known of some elements.
pub(super) trait State: Copy {
    /// Of no elements.
    const NOTHING: Self;

    /// Of elements, and those that follow them.
    fn follow(self, next: Self) -> Self;

    /// Bits of the result.
    fn shown(self) -> u32;

    /// As the shader keeps it; words beyond [`super::What::words`] are not used.
    fn words(self) -> [u32; 3];

    /// From what the shader keeps.
    fn from_words(words: &[u32]) -> Self;
}

/// Along a row. Inside a tile, begun with what comes before the tile; over the totals of tiles, from the beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<S> {
    carry: S,
    stretches: S,
    runs: S,
    run: S,
    now: S,
    at: usize,
}

impl<S: State> Walk<S> {
    pub(super) fn new(carry: S) -> Self {
        let none = S::NOTHING;
        Walk { carry, stretches: none, runs: none, run: none, now: carry.follow(none.follow(none)), at: 0 }
    }

    /// Everything so far.
    pub(super) fn now(&self) -> S {
        self.now
    }

    /// One more; everything so far, before the order is taken up again at the end of a run.
    pub(super) fn push(&mut self, x: S) -> S {
        let here = self.now.follow(x);
        (self.now, self.run, self.at) = (here, self.run.follow(x), self.at + 1);
        if self.at.is_multiple_of(RUN) {
            (self.runs, self.run) = (self.runs.follow(self.run), S::NOTHING);
            if self.at.is_multiple_of(STRETCH) {
                (self.stretches, self.runs) = (self.stretches.follow(self.runs), S::NOTHING);
            }
            if self.at.is_multiple_of(TILE) {
                (self.carry, self.stretches) = (self.carry.follow(self.stretches), S::NOTHING);
            }
            self.now = self.carry.follow(self.stretches.follow(self.runs));
        }
        here
    }
}

/// What a tile of at most [`TILE`] elements comes to.
pub(super) fn total<S: State>(items: impl Iterator<Item = S>) -> S {
    let items: Vec<S> = items.collect();
    let together = |of: &[S]| of.iter().fold(S::NOTHING, |all, x| all.follow(*x));
    let runs: Vec<S> = items.chunks(RUN).map(together).collect();
    let stretches: Vec<S> = runs.chunks(STRETCH / RUN).map(together).collect();
    together(&stretches)
}

impl State for sum::Part {
    const NOTHING: Self = sum::Part { value: 0.0, flags: 0 };

    fn follow(self, next: Self) -> Self {
        self.add(next)
    }

    fn shown(self) -> u32 {
        sum::finish([self.value.to_bits(), self.flags], |v| v)
    }

    fn words(self) -> [u32; 3] {
        [self.value.to_bits(), self.flags, 0]
    }

    fn from_words(words: &[u32]) -> Self {
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        sum::Part { value: f32::from_bits(word(0)), flags: word(1) }
    }
}

/// The key of the greatest; see `reduce/extreme.rs`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Top(pub(super) u32);

impl State for Top {
    const NOTHING: Self = Top(0);

    fn follow(self, next: Self) -> Self {
        Top(self.0.max(next.0))
    }

    fn shown(self) -> u32 {
        extreme::value([self.0, 0], false)
    }

    fn words(self) -> [u32; 3] {
        [self.0, 0, 0]
    }

    fn from_words(words: &[u32]) -> Self {
        Top(words.first().copied().unwrap_or(0))
    }
}

/// `y → a y + b`; what came before is `y → 0 y + b`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    a: f32,
    b: f32,
    bad: u32,
}

impl Line {
    pub(super) fn of(a: f32, b: f32) -> Line {
        if a.is_finite() && b.is_finite() { Line { a, b, bad: 0 } } else { Line { bad: 1, ..Line::NOTHING } }
    }
}

impl State for Line {
    const NOTHING: Self = Line { a: 1.0, b: 0.0, bad: 0 };

    fn follow(self, next: Self) -> Self {
        Line { a: next.a * self.a, b: next.a * self.b + next.b, bad: self.bad | next.bad }
    }

    fn shown(self) -> u32 {
        if self.bad == 0 && self.b.is_finite() { self.b.to_bits() } else { extreme::NAN }
    }

    fn words(self) -> [u32; 3] {
        [self.a.to_bits(), self.b.to_bits(), self.bad]
    }

    fn from_words(words: &[u32]) -> Self {
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        Line { a: f32::from_bits(word(0)), b: f32::from_bits(word(1)), bad: word(2) }
    }
}
