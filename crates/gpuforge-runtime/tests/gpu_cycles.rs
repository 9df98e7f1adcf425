//! Is anything left behind when devices are opened and closed again and again? Alone in its process, so that it can count.
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
/// Cycles at the beginning in which libraries, arenas and caches fill.
const FILL: u32 = 60;
/// What a cycle may leave behind: less than any one of a device's own buffers.
const KIB_PER_CYCLE: f64 = 64.0;

#[test]
fn two_hundred_openings_leave_nothing_behind() {
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
        if cycle >= FILL {
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
        println!("{slope:.1} +- {error:.1} KiB a cycle");
        assert!(slope - 2.0 * error < KIB_PER_CYCLE, "{slope:.1} +- {error:.1} KiB a cycle stay behind");
    }
}
