//! Monitoring overhead: instructions (callgrind) of the same work without and with a viewer attached.
//!
//! Instructions rather than time: one percent of a time is below the noise. Both sides run under callgrind, interleaved; the
//! viewer runs outside.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use gpuforge::{
    Forge,
    dash::live::{follower::Follower, socket_dir},
};
use gpuforge_indicators::{
    catalogue,
    exec::{ExecOptions, Series, run},
    select::{Instance, select},
};
use gpuforge_ops::{Op, matmul, sort::sort, view::tensor, xor};
use gpuforge_route::{BatchOptions, Item, PlacementPolicy, RunOptions};

use crate::{measure::Sample, row::Row};

const BENCH: &str = "monitor";
/// The command that does the work, for this program only.
pub(crate) const WORK: &str = "monitor-work";
const TURNS: usize = 3;
/// Largest acceptable ratio of instructions.
const MAX_RATIO: f64 = 1.01;
/// With fewer snapshots the viewer was not attached.
const MIN_SNAPSHOTS: u64 = 5;

const ROUNDS: usize = 6;
const SERIES: usize = 4;
const BARS: usize = 20_000;
const INDICATORS: usize = 60;
const SIDE: usize = 192;
const NUMBERS: usize = 100_000;
const ITEMS: usize = 100;
const ITEM_BYTES: usize = 16 << 10;

pub(crate) fn run_bench() -> Result<Vec<Row>> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: monitor (there is no valgrind to count instructions with)");
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))?;
    // Once without counting: what a first run finds out about the machine is kept for the others.
    ensure!(work(folder.path(), false)?.status()?.success(), "the work failed");
    let (mut alone, mut watched, mut snapshots) = (Vec::new(), Vec::new(), u64::MAX);
    for _ in 0..TURNS {
        alone.push(count(folder.path(), false)?.0);
        let (instructions, seen) = count(folder.path(), true)?;
        watched.push(instructions);
        snapshots = snapshots.min(seen);
    }
    ensure!(snapshots >= MIN_SNAPSHOTS, "only {snapshots} snapshots: nobody really looked");
    let (ours, peer) = (Sample::of(&watched), Sample::of(&alone));
    eprintln!(
        "monitor: {:.2} % more instructions while watched, at least {snapshots} snapshots a run",
        (ours.median / peer.median - 1.0) * 100.0
    );
    let case = "indicators, operations and batches, watched by a viewer";
    let row = Row::vs_peer(BENCH, case, &ours, "unwatched", &peer, Some(MAX_RATIO));
    Ok(vec![Row { unit: "instructions", ..row }])
}

/// This program, to do the work with settings and sockets of its own.
fn work(folder: &Path, counted: bool) -> Result<Command> {
    let own = std::env::current_exe().context("which program is this?")?;
    let mut command = match counted {
        false => Command::new(own),
        true => {
            let mut command = Command::new("valgrind");
            let out = format!("--callgrind-out-file={}", folder.join("callgrind").display());
            // A turn for every thread: valgrind runs one at a time, and the publishing one must have its share.
            command.args(["--tool=callgrind", "--fair-sched=try", &out]).arg(own);
            command
        }
    };
    command
        .arg(WORK)
        .env_remove("GPUFORGE_MONITOR")
        .env("GPUFORGE_CPU_ONLY", "1")
        .env("XDG_RUNTIME_DIR", folder);
    let places =
        [("GPUFORGE_CONFIG", "config.toml"), ("GPUFORGE_CACHE_DIR", "cache"), ("GPUFORGE_DATA_DIR", "data")];
    command.envs(places.map(|(name, place)| (name, folder.join(place))));
    // One thread: idle ones look for work in loops that no two runs pass equally often.
    command.env("RAYON_NUM_THREADS", "1").stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Instructions of one run, and snapshots that its viewer saw.
fn count(folder: &Path, watched: bool) -> Result<(f64, u64)> {
    let mut command = work(folder, true)?;
    if watched {
        command.env("GPUFORGE_MONITOR", "1");
    }
    let mut child = command.spawn().context("cannot start valgrind")?;
    let runtime = folder.to_string_lossy().into_owned();
    let sockets = socket_dir::resolve(&|name| (name == "XDG_RUNTIME_DIR").then(|| runtime.clone()));
    let mut viewer = Follower::new(&sockets, None);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if watched {
            viewer.poll();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "the work failed under valgrind: {status}");
    let text = fs::read_to_string(folder.join("callgrind")).context("callgrind wrote nothing")?;
    let seen = viewer.view().snapshot.as_ref().map_or(0, |s| s.cost.snapshots);
    Ok((total(&text).context("callgrind wrote no total")?, seen))
}

/// The instructions of a whole run, as callgrind writes them: `totals: 1234`.
fn total(text: &str) -> Option<f64> {
    let of = |name: &str| text.lines().rev().find_map(|line| line.strip_prefix(name));
    of("totals:").or_else(|| of("summary:"))?.trim().parse().ok()
}

/// What a program of the library's users does, with the CPU alone: indicators, operations, a batch.
pub(crate) fn work_main() -> Result<()> {
    let forge = Forge::new();
    let on_cpu = || RunOptions { placement: PlacementPolicy::Only(0), ..RunOptions::default() };
    let markets: Vec<[Vec<f64>; 6]> = (0..SERIES).map(|seed| market(seed as u64)).collect();
    let series: Vec<Series<'_>> = markets.iter().map(as_series).collect();
    let instances: Vec<Instance> = catalogue::all().take(INDICATORS).map(Instance::of).collect();
    let plan = select(&instances).plan;
    let numbers = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| (i * step % 8191) as f32).collect() };
    for round in 0..ROUNDS {
        std::hint::black_box(run(&plan, &series, ExecOptions { threads: 1, ..ExecOptions::default() }));
        let a = tensor(&numbers(SIDE * SIDE, 7 + round), &[SIDE, SIDE], "a")?;
        let ops: [Box<dyn Op>; 2] = [
            Box::new(matmul(&a, &a)),
            Box::new(sort(&tensor(&numbers(NUMBERS, 4099 + round), &[NUMBERS], "numbers")?)),
        ];
        for op in &ops {
            forge.run_with(op.as_ref(), on_cpu())?;
        }
        let key = tensor(&[1u8, 2, 3], &[3], "key")?;
        let item =
            |i: usize| Ok(Item::from(xor(&tensor(&vec![i as u8; ITEM_BYTES], &[ITEM_BYTES], "data")?, &key)));
        let items = (0..ITEMS).map(item).collect::<Result<Vec<Item>>>()?;
        let batch = forge.batch_with(
            items,
            BatchOptions { placement: PlacementPolicy::Only(0), ..BatchOptions::default() },
        )?;
        ensure!(batch.stats.failed == 0, "{} items failed", batch.stats.failed);
    }
    Ok(())
}

/// Open, high, low, close, volume and time of a walk.
fn market(seed: u64) -> [Vec<f64>; 6] {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut columns: [Vec<f64>; 6] = Default::default();
    let mut last = 100.0_f64;
    for t in 0..BARS {
        let open = last;
        last = (open + random() - 0.5).max(1.0);
        let bar = [open, open.max(last) + random(), open.min(last) - 0.5 * random(), last];
        let bar = bar.into_iter().chain([(random() * 1e4).floor(), 60.0 * t as f64]);
        columns.iter_mut().zip(bar).for_each(|(column, x)| column.push(x));
    }
    columns
}

fn as_series(columns: &[Vec<f64>; 6]) -> Series<'_> {
    let [open, high, low, close, volume, time] = columns;
    Series { open, high, low, close, volume, time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_found_however_it_is_called() {
        assert_eq!(total("events: Ir\nfn=(1) x\n3 12\ntotals: 1234\n"), Some(1234.0));
        assert_eq!(total("events: Ir\nsummary: 77\n\nfn=(1)\n"), Some(77.0));
        assert_eq!(total("events: Ir\ntotals: many\n"), None);
        assert_eq!(total(""), None);
    }
}
