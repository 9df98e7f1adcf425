//! Was the prediction right? What runs really took, as a correction per lane and size, and how much may be tried out.
//!
//! Corrections are means of `log2(measured / predicted)`, kept at three levels: the lane's bucket of sizes, the lane, the
//! whole place. A bucket that has seen little leans on its lane, a lane that has seen nothing on the place: a model that is
//! wrong everywhere is put right by a few runs anywhere. Reading is a few atomic loads.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::model::{LANES, Lane};

/// Buckets of sizes: two octaves each.
const BUCKETS: usize = 24;
/// Weight of a new measurement once there are several: the machine changes, and one outlier must not decide.
const NEWEST: f32 = 0.25;

/// A mean and how many measurements are in it, in one word.
#[derive(Debug, Default)]
struct Mean(AtomicU64);

impl Mean {
    #[inline]
    fn get(&self) -> (f32, u32) {
        let word = self.0.load(Ordering::Relaxed);
        (f32::from_bits(word as u32), (word >> 32) as u32)
    }

    fn add(&self, value: f32) {
        let step = |word: u64| {
            let (mean, n) = (f32::from_bits(word as u32), (word >> 32) as u32);
            let weight = (1.0 / (n as f32 + 1.0)).max(NEWEST);
            let mean = mean + weight * (value - mean);
            Some(u64::from(mean.to_bits()) | u64::from(n.saturating_add(1)) << 32)
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }
}

/// What runs on one place really took, beside what was predicted.
#[derive(Debug)]
pub struct Corrections {
    place: Mean,
    lanes: Vec<Mean>,
    buckets: Vec<Mean>,
}

impl Default for Corrections {
    fn default() -> Self {
        let means = |n: usize| std::iter::repeat_with(Mean::default).take(n).collect();
        Corrections { place: Mean::default(), lanes: means(LANES), buckets: means(LANES * BUCKETS) }
    }
}

#[inline]
fn bucket(lane: Lane, units: u64) -> usize {
    lane.index() * BUCKETS + (units.max(1).ilog2() as usize / 2).min(BUCKETS - 1)
}

impl Corrections {
    /// Base-2 logarithm of what predictions for this lane and size must be multiplied with.
    #[inline]
    pub fn log(&self, lane: Lane, units: u64) -> f32 {
        let (place, of_place) = self.place.get();
        let (own, n) = self.lanes.get(lane.index()).map_or((0.0, 0), Mean::get);
        let lane_mean = lean(own, n, place, of_place);
        let (here, n) = self.buckets.get(bucket(lane, units)).map_or((0.0, 0), Mean::get);
        lean(here, n, lane_mean, 1)
    }

    /// What predictions for this lane and size must be multiplied with.
    #[inline]
    pub fn factor(&self, lane: Lane, units: u64) -> f32 {
        exp2(self.log(lane, units))
    }

    /// How often this lane and size was measured here.
    #[inline]
    pub fn seen(&self, lane: Lane, units: u64) -> u32 {
        self.buckets.get(bucket(lane, units)).map_or(0, |m| m.get().1)
    }

    /// A run took so long.
    pub fn learn(&self, lane: Lane, units: u64, predicted_ns: f32, took: Duration) {
        let took = took.as_nanos() as f32;
        if !(predicted_ns.is_finite() && predicted_ns > 0.0 && took > 0.0) || predicted_ns >= f32::MAX {
            return;
        }
        // Beyond a factor of a thousand something else was measured.
        let value = (took / predicted_ns).log2().clamp(-10.0, 10.0);
        self.place.add(value);
        if let Some(mean) = self.lanes.get(lane.index()) {
            mean.add(value);
        }
        if let Some(mean) = self.buckets.get(bucket(lane, units)) {
            mean.add(value);
        }
    }
}

/// Two to the power of `x`, to a ten-thousandth, for `x` from -100 to 100: a decision has no time for better.
#[inline]
fn exp2(x: f32) -> f32 {
    let x = x.clamp(-100.0, 100.0);
    let whole = x.floor();
    let f = x - whole;
    let part = 1.0 + f * (0.695_65 + f * (0.226_06 + f * 0.078_29));
    part * f32::from_bits(((whole as i32 + 127) as u32) << 23)
}

/// A mean of few measurements leans on the wider one.
#[inline]
fn lean(own: f32, n: u32, wider: f32, of_wider: u32) -> f32 {
    if of_wider == 0 {
        return if n == 0 { 0.0 } else { own };
    }
    let weight = n as f32 / (n as f32 + 0.5);
    wider + weight * (own - wider)
}

/// How much time has gone into trying places that the model did not prefer. At most [`SHARE`] of all time may.
#[derive(Debug, Default)]
pub struct Exploration {
    total_ns: AtomicU64,
    extra_ns: AtomicU64,
}

/// The most of all time that trying out may cost.
pub const SHARE: f64 = 0.01;
/// What is planned for it: a trial may take longer than predicted, and the rest is room for that.
const PLANNED: f64 = 0.6 * SHARE;
/// Runs of a lane and size on a place after which it is known there.
pub const ENOUGH: u32 = 2;

impl Exploration {
    /// May something that is predicted to cost `extra_ns` more than the best be tried now?
    #[inline]
    pub fn allows(&self, extra_ns: f32) -> bool {
        let total = self.total_ns.load(Ordering::Relaxed) as f64;
        let spent = self.extra_ns.load(Ordering::Relaxed) as f64;
        spent + f64::from(extra_ns) <= total * PLANNED
    }

    /// A run took so long.
    pub fn ran(&self, took: Duration) {
        self.total_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A trial took so long, the best would have taken `best_ns`.
    pub fn tried(&self, took: Duration, best_ns: f32) {
        let extra = (took.as_nanos() as f64 - f64::from(best_ns)).max(0.0);
        self.extra_ns.fetch_add(extra as u64, Ordering::Relaxed);
    }

    /// Share of all time that trying out has cost; `None` before anything ran.
    pub fn share(&self) -> Option<f64> {
        let total = self.total_ns.load(Ordering::Relaxed);
        (total > 0).then(|| self.extra_ns.load(Ordering::Relaxed) as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use gpuforge_ops::Kind;

    use super::*;

    #[test]
    fn a_model_that_is_wrong_everywhere_is_put_right_by_runs_anywhere() {
        let corrections = Corrections::default();
        let (map, sum) = (Lane::of(Kind::Map), Lane::of(Kind::Sum));
        assert_eq!(corrections.log(map, 1000), 0.0);
        corrections.learn(map, 1000, 1e6, Duration::from_micros(100));
        let tenth = 0.1f32.log2();
        let near = |lane, units, want: f32| {
            let got = corrections.log(lane, units);
            assert!((got - want).abs() < 0.1, "{got} is not {want}");
        };
        near(map, 1000, tenth);
        near(map, 1 << 20, tenth);
        near(sum, 1 << 20, tenth);
        // A lane that behaves otherwise is believed.
        for _ in 0..20 {
            corrections.learn(sum, 1 << 20, 1e6, Duration::from_millis(1));
        }
        near(sum, 1 << 20, 0.0);
        assert!(corrections.log(map, 1000) < -2.5, "its bucket keeps its own");
        assert_eq!((corrections.seen(map, 1000), corrections.seen(map, 1 << 20)), (1, 0));
    }

    #[test]
    fn powers_of_two_are_good_enough() {
        for x in [-10.0f32, -3.3, -1.0, -0.01, 0.0, 0.3, 0.5, 0.99, 1.0, 7.7, 10.0] {
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 2e-4, "2^{x}: {}", exp2(x));
        }
        assert!(exp2(f32::MAX).is_finite() && exp2(f32::MIN) >= 0.0);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        let corrections = Corrections::default();
        for predicted in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX] {
            corrections.learn(Lane::of(Kind::Map), 1, predicted, Duration::from_secs(1));
        }
        corrections.learn(Lane::of(Kind::Map), 1, 5.0, Duration::ZERO);
        assert_eq!(corrections.log(Lane::of(Kind::Map), 1), 0.0);
    }

    #[test]
    fn trying_out_is_paid_from_a_hundredth_of_the_time() {
        let exploration = Exploration::default();
        assert!(!exploration.allows(1.0), "nothing was earned yet");
        assert_eq!(exploration.share(), None);
        exploration.ran(Duration::from_micros(100));
        assert!(exploration.allows(600.0) && !exploration.allows(601.0));
        exploration.tried(Duration::from_nanos(1_400), 1_000.0);
        assert!(exploration.allows(200.0) && !exploration.allows(201.0));
        exploration.tried(Duration::from_nanos(500), 1_000.0);
        assert!(exploration.allows(200.0), "a trial that was faster costs nothing");
    }
}
