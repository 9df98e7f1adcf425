//! Automatic batch size: the smallest that reaches most of the throughput, by short trials of sizes that fit memory.

use std::time::{Duration, Instant};

use super::fault;
use crate::{config::TrainConfig, device_table::DeviceTable, net::Net};

/// Smallest and largest batch size tried.
const SIZE_LIMITS: [usize; 2] = [32, 8192];
/// Minimum steps per epoch: large batches learn little from few samples.
const MIN_STEPS: usize = 64;
/// Fraction of the best throughput that is good enough.
const NEAR_BEST: f64 = 0.9;
/// Time budget of all trials.
const TRIAL_BUDGET: Duration = Duration::from_secs(2);
/// Timed steps per trial, after one warm-up step.
const TRIAL_STEPS: usize = 3;

/// Backward holds the activations and as many gradients.
const ACTIVATIONS_AND_GRADIENTS: u64 = 2;

/// Largest batch that fits in memory; `None` if the budget is unknown. Pure.
fn max_batch(activations: [usize; 2], recompute: bool, bytes: Option<u64>) -> Option<usize> {
    let [stage, all] = activations;
    let each = 4 * ACTIVATIONS_AND_GRADIENTS * if recompute { stage } else { all }.max(1) as u64;
    bytes.map(|bytes| usize::try_from(bytes / each).unwrap_or(usize::MAX))
}

/// Whether even the smallest batch needs gradient checkpointing to fit in memory.
pub(super) fn needs_recompute(net: &Net, table: &DeviceTable) -> bool {
    max_batch(net.spec.activation_sizes(), false, table.backend.memory)
        .is_some_and(|max| max < SIZE_LIMITS[0])
}

/// The batch size, and the reason for it.
pub(super) fn choose(
    net: &Net,
    table: &DeviceTable,
    samples: &[u32],
    config: &TrainConfig,
) -> (usize, String) {
    let wanted = (samples.len() / MIN_STEPS).clamp(SIZE_LIMITS[0], SIZE_LIMITS[1]).min(samples.len().max(1));
    let fitting = max_batch(net.spec.activation_sizes(), net.recompute, table.backend.memory)
        .map_or(wanted, |n| n.max(1));
    let max = wanted.min(fitting);
    let order = table.backend.order(samples);
    let began = Instant::now();
    let mut trials: Vec<(usize, f64)> = Vec::new();
    let mut size = SIZE_LIMITS[0].min(max);
    while size <= max && began.elapsed() < TRIAL_BUDGET {
        let step = || {
            let gradient = net.gradient_of(table, &order, 0..size, config.recipe.target);
            table.backend.scalars(gradient.scalars)
        };
        let mut clock = Instant::now();
        for at in 0..=TRIAL_STEPS {
            if fault::guard(step).is_err() {
                return pick(&trials, size / 2, "out of memory above it");
            }
            if at == 0 {
                clock = Instant::now();
            }
        }
        trials.push((size, (TRIAL_STEPS * size) as f64 / clock.elapsed().as_secs_f64().max(1e-9)));
        size *= 2;
    }
    pick(&trials, SIZE_LIMITS[0].min(max), "no trial ran")
}

/// The smallest size with near-best throughput.
fn pick(trials: &[(usize, f64)], default: usize, why: &str) -> (usize, String) {
    let fastest = trials.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    match trials.iter().find(|(_, speed)| *speed >= NEAR_BEST * fastest) {
        Some((size, speed)) => {
            let sizes = trials.len();
            (*size, format!("{speed:.0} samples/s, {fastest:.0} with the fastest of {sizes} sizes"))
        }
        None => (default.max(1), why.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{max_batch, pick};

    #[test]
    fn smallest_near_best_batch_size_is_picked() {
        let trials = [(32, 100.0), (64, 170.0), (128, 185.0), (256, 188.0)];
        assert_eq!(pick(&trials, 1, "").0, 64, "170 is more than nine tenths of 188");
        assert_eq!(pick(&[], 16, "memory"), (16, "memory".to_owned()));
        assert_eq!(pick(&[], 0, "memory").0, 1);
    }

    #[test]
    fn max_batch_is_memory_over_activation_bytes() {
        assert_eq!(max_batch([100, 1000], false, Some(80_000)), Some(10));
        assert_eq!(max_batch([100, 1000], true, Some(80_000)), Some(100));
        assert_eq!(max_batch([100, 1000], false, Some(7_999)), Some(0));
        assert_eq!(max_batch([0, 0], false, Some(80)), Some(10));
        assert_eq!(max_batch([100, 1000], false, None), None);
    }
}
