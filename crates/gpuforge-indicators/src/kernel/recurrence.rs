//! Recurrences: EMA, Wilder's smoothing, first-order linear recurrence, cumulative sum, min and max.
//!
//! A NaN among the inputs stays in the state: everything after it is NaN.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Row};
use crate::graph::Seed;

/// EMA: `y += k * (x - y)`.
#[derive(Clone)]
pub(crate) struct Ema<const L: usize> {
    pub(crate) k: f64,
    pub(crate) seed: Seed,
    pub(crate) y: Row<L>,
}

/// The state at the first valid bar: the value there, or the mean of the values up to it.
#[inline(always)]
fn seed<const L: usize>(block: &Block<'_, L>, seed: Seed) -> Row<L> {
    let start = block.start;
    match seed {
        Seed::First => *block.a().at(start),
        Seed::Mean(n) => {
            let mut sum = [0.0; L];
            for t in start + 1 - n..=start {
                let x = block.a().at(t);
                for l in 0..L {
                    sum[l] += x[l];
                }
            }
            for s in &mut sum {
                *s /= n as f64;
            }
            sum
        }
    }
}

/// Seeds the state at the first valid bar, then runs `step` over the block.
#[inline(always)]
fn seeded<const L: usize>(
    block: &mut Block<'_, L>,
    kind: Seed,
    y: &mut Row<L>,
    step: impl Fn(f64, f64) -> f64,
) {
    let mut from = block.head();
    if from == block.start && from < block.t1 {
        *y = seed(block, kind);
        if let Some(out) = block.out(from).first_mut() {
            *out = *y;
        }
        from += 1;
    }
    let a = block.a().range(from, block.t1);
    let mut state = *y;
    for (out, x) in block.out(from).iter_mut().zip(a) {
        for l in 0..L {
            state[l] = step(state[l], x[l]);
        }
        *out = state;
    }
    *y = state;
}

impl<const L: usize> Body<L> for Ema<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.y)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let k = self.k;
        // In this form a flat series stays flat to the last bit.
        seeded(block, self.seed, &mut self.y, |y, x| (x - y) * k + y);
    }
}

/// Wilder's smoothing: `y += (x - y) / n`.
#[derive(Clone)]
pub(crate) struct Wilder<const L: usize> {
    pub(crate) n: f64,
    pub(crate) seed: Seed,
    pub(crate) y: Row<L>,
}

impl<const L: usize> Body<L> for Wilder<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.y)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        // No division on the loop-carried path, and a flat series stays flat.
        let k = 1.0 / self.n;
        seeded(block, self.seed, &mut self.y, |y, x| (x - y) * k + y);
    }
}

/// First-order linear recurrence: `y = a * y + b`.
#[derive(Clone)]
pub(crate) struct LinearRecurrence<const L: usize> {
    pub(crate) y: Row<L>,
}

impl<const L: usize> Body<L> for LinearRecurrence<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.y)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let mut from = block.head();
        if from == block.start && from < block.t1 {
            self.y = *block.b().at(from);
            if let Some(out) = block.out(from).first_mut() {
                *out = self.y;
            }
            from += 1;
        }
        let (a, b) = (block.a().range(from, block.t1), block.b().range(from, block.t1));
        let mut y = self.y;
        for ((out, a), b) in block.out(from).iter_mut().zip(a).zip(b) {
            for l in 0..L {
                y[l] = a[l] * y[l] + b[l];
            }
            *out = y;
        }
        self.y = y;
    }
}

/// EMA with a per-bar smoothing factor: `y += k * (x - y)`.
#[derive(Clone)]
pub(crate) struct AdaptiveEma<const L: usize> {
    pub(crate) y: Row<L>,
}

impl<const L: usize> Body<L> for AdaptiveEma<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.y)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        if from == block.start && from < block.t1 {
            self.y = block.inputs.get(2).map_or([f64::NAN; L], |first| *first.at(from));
        }
        let (x, k) = (block.a().range(from, block.t1), block.b().range(from, block.t1));
        let mut y = self.y;
        for ((out, x), k) in block.out(from).iter_mut().zip(x).zip(k) {
            for l in 0..L {
                y[l] += k[l] * (x[l] - y[l]);
            }
            *out = y;
        }
        self.y = y;
    }
}

/// Cumulative sum.
#[derive(Clone)]
pub(crate) struct CumSum<const L: usize> {
    pub(crate) y: Row<L>,
}

/// Cumulative max or min.
#[derive(Clone)]
pub(crate) struct CumMinMax<const L: usize> {
    pub(crate) max: bool,
    pub(crate) y: Row<L>,
}

impl<const L: usize> Body<L> for CumSum<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.y)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        seeded(block, Seed::First, &mut self.y, |y, x| y + x);
    }
}

impl<const L: usize> Body<L> for CumMinMax<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if self.max {
            seeded(block, Seed::First, &mut self.y, |y, x| if y.is_nan() || y > x { y } else { x });
        } else {
            seeded(block, Seed::First, &mut self.y, |y, x| if y.is_nan() || y < x { y } else { x });
        }
    }
}
