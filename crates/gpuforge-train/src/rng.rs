//! Seeded random numbers: ChaCha by seed and purpose; equal on every machine, with no state to keep.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// An independent random stream.
pub struct SeededRng(ChaCha8Rng);

impl SeededRng {
    /// Equal seeds and purposes give equal streams.
    pub fn new(seed: u64, purpose: u64) -> SeededRng {
        let mut key = [0; 32];
        for (to, from) in key.iter_mut().zip(seed.to_le_bytes().into_iter().chain(purpose.to_le_bytes())) {
            *to = from;
        }
        SeededRng(ChaCha8Rng::from_seed(key))
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / (1u32 << 24) as f32
    }

    /// Uniform in 0..n; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - f64::from(self.unit()), f64::from(self.unit()));
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Fisher-Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_depends_on_seed_and_purpose() {
        let order = |seed, purpose| {
            let mut all: Vec<u32> = (0..100).collect();
            SeededRng::new(seed, purpose).shuffle(&mut all);
            all
        };
        assert_eq!(order(1, 2), order(1, 2));
        assert_ne!(order(1, 2), order(1, 3));
        assert_ne!(order(1, 2), order(2, 2));
        let mut sorted = order(7, 0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut rng = SeededRng::new(5, 0);
        let all: Vec<f64> = (0..20_000).map(|_| rng.normal()).collect();
        let mean = all.iter().sum::<f64>() / 2e4;
        let square = all.iter().map(|x| x * x).sum::<f64>() / 2e4;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
    }
}
