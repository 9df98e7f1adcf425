//! Online correction of predictions from measured runs, and the exploration budget.
//!
//! Corrections are exponential moving averages of `log2(measured / predicted)` at three levels: size bucket of an op class, op
//! class, whole backend. A level with few samples is shrunk towards the wider one, so a model that is wrong everywhere is
//! corrected by a few runs of anything. Reading is a few atomic loads.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::model::{OP_CLASSES, OpClass};

/// Size buckets: two octaves each.
const BUCKETS: usize = 24;
/// Smallest weight of a new sample: the machine changes over time, and one outlier must not decide.
const MIN_WEIGHT: f32 = 0.25;

/// A running mean and its sample count, packed into one atomic word.
#[derive(Debug, Default)]
struct AtomicMean(AtomicU64);

impl AtomicMean {
    #[inline]
    fn get(&self) -> (f32, u32) {
        let word = self.0.load(Ordering::Relaxed);
        (f32::from_bits(word as u32), (word >> 32) as u32)
    }

    fn add(&self, value: f32) {
        let step = |word: u64| {
            let (mean, n) = (f32::from_bits(word as u32), (word >> 32) as u32);
            let weight = (1.0 / (n as f32 + 1.0)).max(MIN_WEIGHT);
            let mean = mean + weight * (value - mean);
            Some(u64::from(mean.to_bits()) | u64::from(n.saturating_add(1)) << 32)
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }
}

/// Measured-over-predicted corrections of one backend.
#[derive(Debug)]
pub struct Corrections {
    backend: AtomicMean,
    classes: Vec<AtomicMean>,
    buckets: Vec<AtomicMean>,
}

impl Default for Corrections {
    fn default() -> Self {
        let means = |n: usize| std::iter::repeat_with(AtomicMean::default).take(n).collect();
        Corrections {
            backend: AtomicMean::default(),
            classes: means(OP_CLASSES),
            buckets: means(OP_CLASSES * BUCKETS),
        }
    }
}

#[inline]
fn bucket(class: OpClass, units: u64) -> usize {
    class.index() * BUCKETS + (units.max(1).ilog2() as usize / 2).min(BUCKETS - 1)
}

impl Corrections {
    /// log2 of the correction factor for this op class and size.
    #[inline]
    pub fn log(&self, class: OpClass, units: u64) -> f32 {
        let (backend, backend_samples) = self.backend.get();
        let (own, n) = self.classes.get(class.index()).map_or((0.0, 0), AtomicMean::get);
        let class_mean = shrink(own, n, backend, backend_samples);
        let (here, n) = self.buckets.get(bucket(class, units)).map_or((0.0, 0), AtomicMean::get);
        shrink(here, n, class_mean, 1)
    }

    /// Correction factor for predictions of this op class and size.
    #[inline]
    pub fn factor(&self, class: OpClass, units: u64) -> f32 {
        exp2(self.log(class, units))
    }

    /// Number of samples of this op class and size.
    #[inline]
    pub fn samples(&self, class: OpClass, units: u64) -> u32 {
        self.buckets.get(bucket(class, units)).map_or(0, |m| m.get().1)
    }

    /// Adds a measured run.
    pub fn observe(&self, class: OpClass, units: u64, predicted_ns: f32, took: Duration) {
        let took = took.as_nanos() as f32;
        if !(predicted_ns.is_finite() && predicted_ns > 0.0 && took > 0.0) || predicted_ns >= f32::MAX {
            return;
        }
        // Clamped: beyond a factor of a thousand something else was measured.
        let value = (took / predicted_ns).log2().clamp(-10.0, 10.0);
        self.backend.add(value);
        if let Some(mean) = self.classes.get(class.index()) {
            mean.add(value);
        }
        if let Some(mean) = self.buckets.get(bucket(class, units)) {
            mean.add(value);
        }
    }
}

/// Fast 2^x for x in [-100, 100], accurate to 1e-4: it is on the path of every decision.
#[inline]
fn exp2(x: f32) -> f32 {
    let x = x.clamp(-100.0, 100.0);
    let whole = x.floor();
    let f = x - whole;
    let part = 1.0 + f * (0.695_65 + f * (0.226_06 + f * 0.078_29));
    part * f32::from_bits(((whole as i32 + 127) as u32) << 23)
}

/// Shrinkage: a mean of few samples is pulled towards the wider mean.
#[inline]
fn shrink(own: f32, n: u32, wider: f32, wider_samples: u32) -> f32 {
    if wider_samples == 0 {
        return if n == 0 { 0.0 } else { own };
    }
    let weight = n as f32 / (n as f32 + 0.5);
    wider + weight * (own - wider)
}

/// Exploration budget: time spent on backends the model did not prefer, at most [`EXPLORATION_SHARE`] of all time.
#[derive(Debug, Default)]
pub struct ExplorationBudget {
    total_ns: AtomicU64,
    regret_ns: AtomicU64,
}

/// Upper bound of the share of all time that exploration may cost.
pub const EXPLORATION_SHARE: f64 = 0.01;
/// Share that is planned for; a trial may take longer than predicted, the rest is margin for that.
const PLANNED: f64 = 0.6 * EXPLORATION_SHARE;
/// Samples after which an op class and size counts as explored on a backend.
pub const ENOUGH_SAMPLES: u32 = 2;

impl ExplorationBudget {
    /// Does the budget allow a trial that is predicted to cost `extra_ns` more than the best backend?
    #[inline]
    pub fn allows(&self, extra_ns: f32) -> bool {
        let total = self.total_ns.load(Ordering::Relaxed) as f64;
        let spent = self.regret_ns.load(Ordering::Relaxed) as f64;
        spent + f64::from(extra_ns) <= total * PLANNED
    }

    /// Adds the time of a run.
    pub fn add_run(&self, took: Duration) {
        self.total_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Adds the regret of a trial: its time minus the predicted time of the best backend.
    pub fn add_trial(&self, took: Duration, best_ns: f32) {
        let extra = (took.as_nanos() as f64 - f64::from(best_ns)).max(0.0);
        self.regret_ns.fetch_add(extra as u64, Ordering::Relaxed);
    }

    /// Share of all time spent on exploration; `None` before anything ran.
    pub fn share(&self) -> Option<f64> {
        let total = self.total_ns.load(Ordering::Relaxed);
        (total > 0).then(|| self.regret_ns.load(Ordering::Relaxed) as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use gpuforge_ops::OpKind;

    use super::*;

    #[test]
    fn a_global_bias_is_corrected_by_runs_of_any_op() {
        let corrections = Corrections::default();
        let (map, sum) = (OpClass::of(OpKind::Map), OpClass::of(OpKind::Sum));
        assert_eq!(corrections.log(map, 1000), 0.0);
        corrections.observe(map, 1000, 1e6, Duration::from_micros(100));
        let tenth = 0.1f32.log2();
        let near = |class, units, want: f32| {
            let got = corrections.log(class, units);
            assert!((got - want).abs() < 0.1, "{got} is not {want}");
        };
        near(map, 1000, tenth);
        near(map, 1 << 20, tenth);
        near(sum, 1 << 20, tenth);
        // An op class that deviates keeps its own correction.
        for _ in 0..20 {
            corrections.observe(sum, 1 << 20, 1e6, Duration::from_millis(1));
        }
        near(sum, 1 << 20, 0.0);
        assert!(corrections.log(map, 1000) < -2.5, "its bucket keeps its own");
        assert_eq!((corrections.samples(map, 1000), corrections.samples(map, 1 << 20)), (1, 0));
    }

    #[test]
    fn fast_exp2_is_accurate_to_2e_4() {
        for x in [-10.0f32, -3.3, -1.0, -0.01, 0.0, 0.3, 0.5, 0.99, 1.0, 7.7, 10.0] {
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 2e-4, "2^{x}: {}", exp2(x));
        }
        assert!(exp2(f32::MAX).is_finite() && exp2(f32::MIN) >= 0.0);
    }

    #[test]
    fn invalid_samples_are_ignored() {
        let corrections = Corrections::default();
        for predicted in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX] {
            corrections.observe(OpClass::of(OpKind::Map), 1, predicted, Duration::from_secs(1));
        }
        corrections.observe(OpClass::of(OpKind::Map), 1, 5.0, Duration::ZERO);
        assert_eq!(corrections.log(OpClass::of(OpKind::Map), 1), 0.0);
    }

    #[test]
    fn exploration_stays_within_its_budget() {
        let exploration = ExplorationBudget::default();
        assert!(!exploration.allows(1.0), "nothing was earned yet");
        assert_eq!(exploration.share(), None);
        exploration.add_run(Duration::from_micros(100));
        assert!(exploration.allows(600.0) && !exploration.allows(601.0));
        exploration.add_trial(Duration::from_nanos(1_400), 1_000.0);
        assert!(exploration.allows(200.0) && !exploration.allows(201.0));
        exploration.add_trial(Duration::from_nanos(500), 1_000.0);
        assert!(exploration.allows(200.0), "a trial that was faster costs nothing");
    }
}
