//! Adaptive chunk size: hill climbing on measured throughput, starting from what memory allows. Pure: it is told what was
//! measured.

use std::time::Duration;

/// Relative throughput gain that counts as better.
const BETTER: f64 = 1.1;
/// Relative throughput below which the search restarts, when it happens twice in a row.
const WORSE: f64 = 0.7;

/// Search phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    First,
    Growing,
    Shrinking,
    /// Converged; counts consecutive slow chunks.
    Holding(u8),
}

/// Finds the chunk size with the highest throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkSizer {
    min: usize,
    max: usize,
    max_time: Duration,
    size: usize,
    best: (usize, f64),
    phase: Phase,
}

impl ChunkSizer {
    /// Sizes between `min` and `max`, beginning with `start`; no chunk should take longer than `max_time`.
    pub fn new(start: usize, min: usize, max: usize, max_time: Duration) -> Self {
        let min = min.max(1);
        let max = max.max(min);
        let size = start.clamp(min, max);
        ChunkSizer { min, max, max_time, size, best: (size, 0.0), phase: Phase::First }
    }

    /// Size of the next chunk.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Largest size.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Uses a predicted time per item, so that already the first chunk is not too long.
    pub fn expect(&mut self, one: Duration) {
        if self.phase == Phase::First && !one.is_zero() {
            let fit = self.max_time.as_nanos() / one.as_nanos().max(1);
            self.limit(usize::try_from(fit).unwrap_or(usize::MAX));
        }
    }

    /// Adds a measured chunk.
    pub fn observe(&mut self, items: usize, time: Duration) {
        if items == 0 || time.is_zero() {
            return;
        }
        // A partial chunk (the last of a group) says nothing about a full one.
        if items >= self.size {
            self.adapt(items, items as f64 / time.as_secs_f64());
        }
        if time > self.max_time {
            let fit = items as f64 * self.max_time.as_secs_f64() / time.as_secs_f64();
            self.limit(fit as usize);
        }
    }

    fn limit(&mut self, max: usize) {
        self.size = self.size.min(max).clamp(self.min, self.max);
    }

    fn adapt(&mut self, items: usize, rate: f64) {
        let (size, best) = self.best;
        let better = rate > best * BETTER;
        match self.phase {
            Phase::First => {
                self.best = (items, rate);
                self.phase = Phase::Growing;
                self.step(2.0);
            }
            Phase::Growing | Phase::Shrinking if better => {
                self.best = (items, rate);
                self.step(if self.phase == Phase::Growing { 2.0 } else { 0.5 });
            }
            // A larger chunk is slower: try smaller ones.
            Phase::Growing if rate * BETTER < best => {
                (self.size, self.phase) = (size, Phase::Shrinking);
                self.step(0.5);
            }
            Phase::Growing | Phase::Shrinking => (self.size, self.phase) = (size, Phase::Holding(0)),
            Phase::Holding(_) if rate >= best * WORSE => self.phase = Phase::Holding(0),
            Phase::Holding(0) => self.phase = Phase::Holding(1),
            // Conditions changed: search again.
            Phase::Holding(_) => {
                (self.best, self.phase) = ((items, rate), Phase::Shrinking);
                self.step(0.5);
            }
        }
    }

    /// Multiplies the size; at a limit the search has converged.
    fn step(&mut self, factor: f64) {
        let next = ((self.size as f64 * factor) as usize).clamp(self.min, self.max);
        if next == self.size {
            self.phase = Phase::Holding(0);
        }
        self.size = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn run(sizer: &mut ChunkSizer, rounds: usize, seconds: impl Fn(usize) -> f64) -> usize {
        for _ in 0..rounds {
            let n = sizer.size();
            sizer.observe(n, Duration::from_secs_f64(seconds(n)));
        }
        sizer.size()
    }

    #[test]
    fn grows_while_a_fixed_cost_is_amortised() {
        // 1 ms per chunk and 1 µs per item: 2 % above the best rate at 32 000 items.
        let found = run(&mut ChunkSizer::new(64, 1, 1 << 20, LONG), 30, |n| 1e-3 + n as f64 * 1e-6);
        assert!((4_096..=65_536).contains(&found), "{found}");
    }

    #[test]
    fn shrinks_where_larger_chunks_are_slower() {
        // Beyond 1000 items fewer and fewer of them stay in the cache.
        let seconds = |n: usize| n as f64 * 1e-6 * (n as f64 / 1000.0).max(1.0);
        let found = run(&mut ChunkSizer::new(8_000, 1, 1 << 20, LONG), 30, seconds);
        assert!((500..=1_000).contains(&found), "{found}");
        assert_eq!(run(&mut ChunkSizer::new(1_000, 1, 1 << 20, LONG), 30, seconds), 1_000);
    }

    #[test]
    fn limits_hold_whatever_is_measured() {
        let mut sizer = ChunkSizer::new(0, 4, 32, LONG);
        assert_eq!(sizer.size(), 4);
        assert_eq!(run(&mut sizer, 20, |_| 1.0), 32, "more in the same time is better");
        assert_eq!(ChunkSizer::new(100, 4, 32, LONG).size(), 32);
        assert_eq!(ChunkSizer::new(7, 0, 0, LONG).size(), 1);
        let mut odd = ChunkSizer::new(8, 1, 64, LONG);
        odd.observe(0, Duration::from_secs(1));
        odd.observe(8, Duration::ZERO);
        assert_eq!(odd.size(), 8);
    }

    #[test]
    fn a_partial_chunk_is_ignored() {
        let mut sizer = ChunkSizer::new(100, 1, 1000, LONG);
        sizer.observe(3, Duration::from_micros(1));
        assert_eq!(sizer.size(), 100);
    }

    #[test]
    fn chunks_stay_within_the_time_limit() {
        let mut sizer = ChunkSizer::new(1000, 1, 1 << 20, Duration::from_millis(20));
        let found = run(&mut sizer, 10, |n| n as f64 * 1e-3);
        assert!((10..=20).contains(&found), "{found}");
        let mut told = ChunkSizer::new(1000, 1, 1 << 20, Duration::from_millis(20));
        told.expect(Duration::from_millis(2));
        assert_eq!(told.size(), 10);
    }

    #[test]
    fn restarts_when_throughput_drops() {
        let mut sizer = ChunkSizer::new(64, 1, 1 << 12, LONG);
        let before = run(&mut sizer, 30, |n| 1e-4 + n as f64 * 1e-6);
        // Now more than 50 at once are slow.
        let after = run(&mut sizer, 30, |n| n as f64 * 1e-5 * (n as f64 / 50.0).max(1.0));
        assert!(after <= 64 && before > 500, "{before}, then {after}");
    }
}
