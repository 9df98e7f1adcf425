//! How many at once? Starts from what memory allows and follows the measured throughput. Pure: it is told what was measured.

use std::time::Duration;

/// A difference in throughput that is believed.
const BETTER: f64 = 1.1;
/// A fall of the throughput that asks for another size, when it happens twice in a row.
const WORSE: f64 = 0.7;

/// What is tried next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    First,
    Growing,
    Shrinking,
    /// Found; counts how often in a row it was much slower than once.
    Holding(u8),
}

/// Finds the number of items that gives the most items per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizer {
    least: usize,
    most: usize,
    longest: Duration,
    size: usize,
    best: (usize, f64),
    phase: Phase,
}

impl Sizer {
    /// Between `least` and `most` at once, beginning with `start`; none should take longer than `longest`.
    pub fn new(start: usize, least: usize, most: usize, longest: Duration) -> Self {
        let least = least.max(1);
        let most = most.max(least);
        let size = start.clamp(least, most);
        Sizer { least, most, longest, size, best: (size, 0.0), phase: Phase::First }
    }

    /// How many to take next.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The most at once.
    pub fn most(&self) -> usize {
        self.most
    }

    /// What a first figure says about the time of one item, so that already the first chunk is not too long.
    pub fn expect(&mut self, one: Duration) {
        if self.phase == Phase::First && !one.is_zero() {
            let fit = self.longest.as_nanos() / one.as_nanos().max(1);
            self.limit(usize::try_from(fit).unwrap_or(usize::MAX));
        }
    }

    /// So many took so long.
    pub fn took(&mut self, items: usize, time: Duration) {
        if items == 0 || time.is_zero() {
            return;
        }
        // Fewer than were asked for: the last of a group, which says nothing about a full one.
        if items >= self.size {
            self.adapt(items, items as f64 / time.as_secs_f64());
        }
        if time > self.longest {
            let fit = items as f64 * self.longest.as_secs_f64() / time.as_secs_f64();
            self.limit(fit as usize);
        }
    }

    fn limit(&mut self, most: usize) {
        self.size = self.size.min(most).clamp(self.least, self.most);
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
            // More is worse: perhaps less is better.
            Phase::Growing if rate * BETTER < best => {
                (self.size, self.phase) = (size, Phase::Shrinking);
                self.step(0.5);
            }
            Phase::Growing | Phase::Shrinking => (self.size, self.phase) = (size, Phase::Holding(0)),
            Phase::Holding(_) if rate >= best * WORSE => self.phase = Phase::Holding(0),
            Phase::Holding(0) => self.phase = Phase::Holding(1),
            // The machine is another one now.
            Phase::Holding(_) => {
                (self.best, self.phase) = ((items, rate), Phase::Shrinking);
                self.step(0.5);
            }
        }
    }

    /// Multiplies the size; where it is at its limit, it has been found.
    fn step(&mut self, factor: f64) {
        let next = ((self.size as f64 * factor) as usize).clamp(self.least, self.most);
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

    fn run(sizer: &mut Sizer, rounds: usize, seconds: impl Fn(usize) -> f64) -> usize {
        for _ in 0..rounds {
            let n = sizer.size();
            sizer.took(n, Duration::from_secs_f64(seconds(n)));
        }
        sizer.size()
    }

    #[test]
    fn it_grows_while_a_fixed_cost_is_shared_by_more() {
        // 1 ms per chunk and 1 µs per item: 2 % above the best rate at 32 000 items.
        let found = run(&mut Sizer::new(64, 1, 1 << 20, LONG), 30, |n| 1e-3 + n as f64 * 1e-6);
        assert!((4_096..=65_536).contains(&found), "{found}");
    }

    #[test]
    fn it_shrinks_where_more_at_once_is_slower() {
        // Beyond 1000 items less and less of them stays in the cache.
        let seconds = |n: usize| n as f64 * 1e-6 * (n as f64 / 1000.0).max(1.0);
        let found = run(&mut Sizer::new(8_000, 1, 1 << 20, LONG), 30, seconds);
        assert!((500..=1_000).contains(&found), "{found}");
        assert_eq!(run(&mut Sizer::new(1_000, 1, 1 << 20, LONG), 30, seconds), 1_000);
    }

    #[test]
    fn limits_hold_whatever_is_measured() {
        let mut sizer = Sizer::new(0, 4, 32, LONG);
        assert_eq!(sizer.size(), 4);
        assert_eq!(run(&mut sizer, 20, |_| 1.0), 32, "more in the same time is better");
        assert_eq!(Sizer::new(100, 4, 32, LONG).size(), 32);
        assert_eq!(Sizer::new(7, 0, 0, LONG).size(), 1);
        let mut odd = Sizer::new(8, 1, 64, LONG);
        odd.took(0, Duration::from_secs(1));
        odd.took(8, Duration::ZERO);
        assert_eq!(odd.size(), 8);
    }

    #[test]
    fn a_part_of_a_chunk_teaches_nothing() {
        let mut sizer = Sizer::new(100, 1, 1000, LONG);
        sizer.took(3, Duration::from_micros(1));
        assert_eq!(sizer.size(), 100);
    }

    #[test]
    fn no_chunk_is_much_longer_than_allowed() {
        let mut sizer = Sizer::new(1000, 1, 1 << 20, Duration::from_millis(20));
        let found = run(&mut sizer, 10, |n| n as f64 * 1e-3);
        assert!((10..=20).contains(&found), "{found}");
        let mut told = Sizer::new(1000, 1, 1 << 20, Duration::from_millis(20));
        told.expect(Duration::from_millis(2));
        assert_eq!(told.size(), 10);
    }

    #[test]
    fn a_machine_that_became_slower_is_noticed() {
        let mut sizer = Sizer::new(64, 1, 1 << 12, LONG);
        let before = run(&mut sizer, 30, |n| 1e-4 + n as f64 * 1e-6);
        // Now more than 50 at once are slow.
        let after = run(&mut sizer, 30, |n| n as f64 * 1e-5 * (n as f64 / 50.0).max(1.0));
        assert!(after <= 64 && before > 500, "{before}, then {after}");
    }
}
