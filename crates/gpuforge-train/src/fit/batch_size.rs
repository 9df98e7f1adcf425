//! Automatic batch size: the smallest that reaches most of the throughput, by short trials of sizes that fit memory.

use std::time::{Duration, Instant};

use super::fault;
use crate::{config::TrainConfig, device_table::DeviceTable, net::Net};

/// The smallest that is tried, and the largest.
const SIZES: [usize; 2] = [32, 8192];
/// Steps of an epoch, at least: large batches learn little from few samples.
const MIN_STEPS: usize = 64;
/// As good as the fastest.
const NEAR_BEST: f64 = 0.9;
/// Time for all trials.
const TIME: Duration = Duration::from_secs(2);
/// Steps of a trial; the first one is not counted.
const STEPS: usize = 3;

/// What backward holds beside what forward kept: the gradients of the same numbers.
const BOTH: u64 = 2;

/// Samples whose step fits the memory; `None` where nobody knows how much there is. Pure.
fn fits(kept: [usize; 2], recompute: bool, bytes: Option<u64>) -> Option<usize> {
    let [stage, all] = kept;
    let each = 4 * BOTH * if recompute { stage } else { all }.max(1) as u64;
    bytes.map(|bytes| usize::try_from(bytes / each).unwrap_or(usize::MAX))
}

/// Is there too little memory to keep everything that backward needs of even the smallest batch that is tried?
pub(super) fn is_short(net: &Net, table: &DeviceTable) -> bool {
    fits(net.spec.kept(), false, table.backend.memory).is_some_and(|most| most < SIZES[0])
}

/// A size, and how it was found: what fits the memory, and of that what is fast.
pub(super) fn choose(
    net: &Net,
    table: &DeviceTable,
    samples: &[u32],
    setup: &TrainConfig,
) -> (usize, String) {
    let wanted = (samples.len() / MIN_STEPS).clamp(SIZES[0], SIZES[1]).min(samples.len().max(1));
    let room = fits(net.spec.kept(), net.recompute, table.backend.memory).map_or(wanted, |n| n.max(1));
    let most = wanted.min(room);
    let order = table.backend.order(samples);
    let began = Instant::now();
    let mut tried: Vec<(usize, f64)> = Vec::new();
    let mut size = SIZES[0].min(most);
    while size <= most && began.elapsed() < TIME {
        let step = || {
            let gradient = net.gradient_of(table, &order, 0..size, setup.recipe.target);
            table.backend.scalars(gradient.scalars)
        };
        let mut clock = Instant::now();
        for at in 0..=STEPS {
            if fault::guard(step).is_err() {
                return pick(&tried, size / 2, "memory ran out beyond it");
            }
            if at == 0 {
                clock = Instant::now();
            }
        }
        tried.push((size, (STEPS * size) as f64 / clock.elapsed().as_secs_f64().max(1e-9)));
        size *= 2;
    }
    pick(&tried, SIZES[0].min(most), "nothing was tried")
}

/// The smallest size that is nearly as fast as the fastest.
fn pick(tried: &[(usize, f64)], otherwise: usize, why: &str) -> (usize, String) {
    let fastest = tried.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    match tried.iter().find(|(_, speed)| *speed >= NEAR_BEST * fastest) {
        Some((size, speed)) => {
            let sizes = tried.len();
            (*size, format!("{speed:.0} samples/s, {fastest:.0} with the fastest of {sizes} sizes"))
        }
        None => (otherwise.max(1), why.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{fits, pick};

    #[test]
    fn the_smallest_that_is_nearly_the_fastest() {
        let tried = [(32, 100.0), (64, 170.0), (128, 185.0), (256, 188.0)];
        assert_eq!(pick(&tried, 1, "").0, 64, "170 is more than nine tenths of 188");
        assert_eq!(pick(&[], 16, "memory"), (16, "memory".to_owned()));
        assert_eq!(pick(&[], 0, "memory").0, 1);
    }

    #[test]
    fn what_fits_is_bytes_over_what_a_sample_keeps() {
        assert_eq!(fits([100, 1000], false, Some(80_000)), Some(10));
        assert_eq!(fits([100, 1000], true, Some(80_000)), Some(100));
        assert_eq!(fits([100, 1000], false, Some(7_999)), Some(0));
        assert_eq!(fits([0, 0], false, Some(80)), Some(10));
        assert_eq!(fits([100, 1000], false, None), None);
    }
}
