//! Jumps of the close: log returns beyond so many robust sigmas. Is there a split or a wrong price?
//!
//! Sigma is 1.4826 times the median absolute return (the MAD about 0) of a block of returns, each divided by the square
//! root of the usual steps that passed: a night may move more than a minute. Blocks follow a volatility that changes.

use super::{Seen, Spot};

/// Sigmas that make a jump.
pub(super) const SIGMAS: f64 = 8.0;
/// And the smallest move that is one: minutes have fat tails, and below it the tick size makes a return large.
const LEAST_MOVE: f64 = 0.02;
/// Returns of a block.
const BLOCK: usize = 512;
/// The fewest that a sigma is taken from.
const FEWEST: usize = 16;
/// A block with fewer takes the sigma of the one before.
const SHORT: usize = 128;
const MAD: f64 = 1.4826;
/// Usual steps that a return is scaled by, at most: a night moves the price about as much as a session of minutes does.
const MOST_STEPS: f64 = 400.0;

/// Returns of one symbol.
#[derive(Debug, Default)]
pub(super) struct Jumps {
    last: Option<f64>,
    /// Time since the last close, in any unit.
    elapsed: f64,
    block: Vec<Return>,
    sigma: Option<f64>,
    scratch: Vec<f64>,
    found: Seen,
}

#[derive(Debug, Clone, Copy)]
struct Return {
    log: f64,
    elapsed: f64,
    /// The size, as of one usual step.
    scaled: f64,
    spot: Spot,
}

impl Jumps {
    /// A bar comes so long after the last.
    pub(super) fn wait(&mut self, elapsed: f64) {
        self.elapsed += elapsed;
    }

    /// Is a block complete, and to be judged?
    pub(super) fn is_full(&self) -> bool {
        self.block.len() == BLOCK
    }

    pub(super) fn next(&mut self, close: f64, spot: Spot) {
        // What has no logarithm is a problem of its own; the next return is from the last price that has.
        if !(close > 0.0 && close.is_finite()) {
            return;
        }
        let elapsed = std::mem::take(&mut self.elapsed);
        let Some(last) = self.last.replace(close) else { return };
        let log = (close / last).ln();
        self.block.push(Return { log, elapsed, scaled: log.abs(), spot });
    }

    /// A block is complete: looks for jumps in it. Returns over more than the usual step may be larger.
    pub(super) fn judge(&mut self, usual: Option<f64>) {
        if let Some(usual) = usual {
            self.block.iter_mut().for_each(|r| r.scaled /= (r.elapsed / usual).clamp(1.0, MOST_STEPS).sqrt());
        }
        if self.block.len() >= SHORT || self.sigma.is_none() {
            self.sigma = self.robust_sigma();
        }
        self.found.of += self.block.len() as u64;
        if let Some(sigma) = self.sigma {
            for r in &self.block {
                if r.scaled > SIGMAS * sigma && r.log.abs() > LEAST_MOVE {
                    self.found.add(1, || Spot { value: Some(r.log), ..r.spot });
                }
            }
        }
        self.block.clear();
    }

    fn robust_sigma(&mut self) -> Option<f64> {
        // A price that mostly stands still has a median of 0: then that of its moves.
        for at_least in [0.0, f64::MIN_POSITIVE] {
            self.scratch.clear();
            self.scratch.extend(self.block.iter().map(|r| r.scaled).filter(|x| *x >= at_least));
            if self.scratch.len() < FEWEST {
                return None;
            }
            let middle = self.scratch.len() / 2;
            let (_, median, _) = self.scratch.select_nth_unstable_by(middle, f64::total_cmp);
            if *median > 0.0 {
                return Some(MAD * *median);
            }
        }
        None
    }

    /// The symbol ends: its jumps.
    pub(super) fn take(&mut self, usual: Option<f64>) -> Seen {
        self.judge(usual);
        (self.last, self.sigma, self.elapsed) = (None, None, 0.0);
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many jumps, the row of the first, and its size in percent.
    fn jumps(closes: impl IntoIterator<Item = f64>) -> (u64, Option<u64>, f64) {
        let mut jumps = Jumps::default();
        for (row, close) in closes.into_iter().enumerate() {
            jumps.next(close, Spot { row: row as u64, time: None, value: None });
            if jumps.is_full() {
                jumps.judge(None);
            }
        }
        let found = jumps.take(None);
        let size = found.first.and_then(|f| f.value).map_or(0.0, |log| (log.exp_m1() * 100.0).round());
        (found.count, found.first.map(|f| f.row), size)
    }

    /// A walk of moves of a tenth of a percent.
    fn walk(n: u64) -> Vec<f64> {
        let mut price = 100.0;
        let step = |i: u64| {
            let random = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64;
            price *= 1.0 + 0.002 * (random - 0.5);
            price
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn a_walk_has_no_jump_and_a_split_is_one() {
        assert_eq!(jumps(walk(3000)), (0, None, 0.0));
        for at in [5, 511, 512, 513, 2999] {
            let split = walk(3000).into_iter().enumerate().map(|(i, x)| if i >= at { x / 2.0 } else { x });
            assert_eq!(jumps(split), (1, Some(at as u64), -50.0), "{at}");
        }
        let spike = walk(600).into_iter().enumerate().map(|(i, x)| if i == 300 { x * 10.0 } else { x });
        assert_eq!(jumps(spike), (2, Some(300), 900.0), "there and back");
    }

    #[test]
    fn too_few_returns_and_no_moves_say_nothing() {
        assert_eq!(jumps([100.0, 50.0, 100.0]), (0, None, 0.0));
        assert_eq!(jumps([0.0, f64::NAN, -1.0, f64::INFINITY]), (0, None, 0.0));
        let once = (0..400).map(|i| if i < 200 { 10.0 } else { 11.0 });
        assert_eq!(jumps(once).0, 0, "one move has no sigma");
    }

    #[test]
    fn a_night_may_move_more_than_a_minute() {
        let mut jumps = Jumps::default();
        for (row, close) in walk(600).into_iter().enumerate() {
            let night = row >= 300;
            jumps.wait(if row == 300 { 60_000.0 } else { 60.0 });
            let close = if night { close * 1.1 } else { close };
            jumps.next(close, Spot { row: row as u64, time: None, value: None });
        }
        assert_eq!(jumps.take(Some(60.0)).count, 0);
    }
}
