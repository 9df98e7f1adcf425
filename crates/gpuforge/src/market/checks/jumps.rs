//! Jump detection: log returns of the close beyond so many robust sigmas (MAD): splits and wrong prices.
//!
//! Sigma is 1.4826 times the median absolute return (the MAD about 0) of a block of returns, each divided by the square
//! root of the usual steps that passed: a night may move more than a minute. Blocks follow a volatility that changes.

use super::{RowRef, SymbolTally};

/// Threshold in sigmas.
pub(super) const SIGMAS: f64 = 8.0;
/// Minimum absolute log return: minute returns have fat tails, and the tick size inflates small ones.
const MIN_MOVE: f64 = 0.02;
/// Returns of a block.
const BLOCK: usize = 512;
/// Minimum returns for a sigma.
const MIN_RETURNS: usize = 16;
/// A block with fewer reuses the previous sigma.
const SHORT_BLOCK: usize = 128;
const MAD: f64 = 1.4826;
/// Cap of the time scaling: an overnight return is about as large as a session of minutes.
const MAX_STEPS: f64 = 400.0;

/// Jump detector of one symbol.
#[derive(Debug, Default)]
pub(super) struct JumpDetector {
    last: Option<f64>,
    /// Time since the last close, in any unit.
    elapsed: f64,
    block: Vec<Return>,
    sigma: Option<f64>,
    scratch: Vec<f64>,
    found: SymbolTally,
}

#[derive(Debug, Clone, Copy)]
struct Return {
    log: f64,
    elapsed: f64,
    /// Absolute return, scaled to one usual step.
    scaled: f64,
    row_ref: RowRef,
}

impl JumpDetector {
    /// Adds time since the last bar.
    pub(super) fn wait(&mut self, elapsed: f64) {
        self.elapsed += elapsed;
    }

    /// Is a block complete?
    pub(super) fn is_full(&self) -> bool {
        self.block.len() == BLOCK
    }

    pub(super) fn next(&mut self, close: f64, row_ref: RowRef) {
        // Non-positive prices are reported separately; returns skip them.
        if !(close > 0.0 && close.is_finite()) {
            return;
        }
        let elapsed = std::mem::take(&mut self.elapsed);
        let Some(last) = self.last.replace(close) else { return };
        let log = (close / last).ln();
        self.block.push(Return { log, elapsed, scaled: log.abs(), row_ref });
    }

    /// Detects jumps in a block. Returns over more than the usual step are scaled by the square root of time.
    pub(super) fn detect(&mut self, usual: Option<f64>) {
        if let Some(usual) = usual {
            self.block.iter_mut().for_each(|r| r.scaled /= (r.elapsed / usual).clamp(1.0, MAX_STEPS).sqrt());
        }
        if self.block.len() >= SHORT_BLOCK || self.sigma.is_none() {
            self.sigma = self.robust_sigma();
        }
        self.found.of += self.block.len() as u64;
        if let Some(sigma) = self.sigma {
            for r in &self.block {
                if r.scaled > SIGMAS * sigma && r.log.abs() > MIN_MOVE {
                    self.found.add(1, || RowRef { value: Some(r.log), ..r.row_ref });
                }
            }
        }
        self.block.clear();
    }

    fn robust_sigma(&mut self) -> Option<f64> {
        // Where the median is 0 (mostly unchanged prices), the median of the non-zero returns.
        for at_least in [0.0, f64::MIN_POSITIVE] {
            self.scratch.clear();
            self.scratch.extend(self.block.iter().map(|r| r.scaled).filter(|x| *x >= at_least));
            if self.scratch.len() < MIN_RETURNS {
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

    /// Finishes the symbol; its jumps.
    pub(super) fn take(&mut self, usual: Option<f64>) -> SymbolTally {
        self.detect(usual);
        (self.last, self.sigma, self.elapsed) = (None, None, 0.0);
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many jumps, the row of the first, and its size in percent.
    fn jumps(closes: impl IntoIterator<Item = f64>) -> (u64, Option<u64>, f64) {
        let mut jumps = JumpDetector::default();
        for (row, close) in closes.into_iter().enumerate() {
            jumps.next(close, RowRef { row: row as u64, time: None, value: None });
            if jumps.is_full() {
                jumps.detect(None);
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
    fn random_walk_has_no_jump_and_a_split_is_one() {
        assert_eq!(jumps(walk(3000)), (0, None, 0.0));
        for at in [5, 511, 512, 513, 2999] {
            let split = walk(3000).into_iter().enumerate().map(|(i, x)| if i >= at { x / 2.0 } else { x });
            assert_eq!(jumps(split), (1, Some(at as u64), -50.0), "{at}");
        }
        let spike = walk(600).into_iter().enumerate().map(|(i, x)| if i == 300 { x * 10.0 } else { x });
        assert_eq!(jumps(spike), (2, Some(300), 900.0), "there and back");
    }

    #[test]
    fn too_few_or_zero_returns_give_no_jump() {
        assert_eq!(jumps([100.0, 50.0, 100.0]), (0, None, 0.0));
        assert_eq!(jumps([0.0, f64::NAN, -1.0, f64::INFINITY]), (0, None, 0.0));
        let once = (0..400).map(|i| if i < 200 { 10.0 } else { 11.0 });
        assert_eq!(jumps(once).0, 0, "one move has no sigma");
    }

    #[test]
    fn overnight_returns_are_scaled_by_time() {
        let mut jumps = JumpDetector::default();
        for (row, close) in walk(600).into_iter().enumerate() {
            let night = row >= 300;
            jumps.wait(if row == 300 { 60_000.0 } else { 60.0 });
            let close = if night { close * 1.1 } else { close };
            jumps.next(close, RowRef { row: row as u64, time: None, value: None });
        }
        assert_eq!(jumps.take(Some(60.0)).count, 0);
    }
}
