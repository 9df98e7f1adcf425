//! Leak test: opening and closing devices repeatedly leaks no memory, threads or file descriptors. Alone in its process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::time::Instant;

use gpuforge_runtime::engine::gpu::GpuOpener;
use gpuforge_testkit::{plans, trend::fit, usage};

mod gpu_common;
use gpu_common::{check, open, session};

const CYCLES: u32 = 200;
/// Warm-up cycles in which libraries, arenas and caches fill.
const WARM_UP: u32 = 60;
/// Allowed growth per cycle: less than any single buffer of a device.
const KIB_PER_CYCLE: f64 = 64.0;

#[test]
fn opening_and_closing_two_hundred_devices_leaks_nothing() {
    if open(&GpuOpener::default()).is_none() {
        return;
    }
    let started = Instant::now();
    let mut samples = Vec::new();
    let mut ends = (None, None);
    for cycle in 0..CYCLES {
        let options = GpuOpener { staged: cycle % 2 == 0, ..GpuOpener::default() };
        let gpu = open(&options).unwrap();
        let (plan, expected) = plans::chain(5000, 3).unwrap();
        check(&session(&gpu), plan, &expected, "cycle");
        if cycle % 5 == 4 {
            gpu.lose();
        }
        drop(gpu);
        let now = usage::now();
        if cycle >= WARM_UP {
            samples.extend(now.resident.map(|r| (f64::from(cycle), r.0 as f64 / 1024.0)));
            ends.0 = ends.0.or(Some(now));
            ends.1 = Some(now);
        }
    }
    let (Some(first), Some(last)) = ends else { panic!("no samples") };
    println!("{CYCLES} devices in {:?}: {first:?}, then {last:?}", started.elapsed());
    assert_eq!(first.threads, last.threads, "threads");
    assert_eq!(first.handles, last.handles, "open files");
    if let Some((slope, error)) = fit(&samples) {
        println!("{slope:.1} +- {error:.1} KiB per cycle");
        assert!(slope - 2.0 * error < KIB_PER_CYCLE, "{slope:.1} +- {error:.1} KiB leak per cycle");
    }
}
