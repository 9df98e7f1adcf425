//! Buffer pool: hit and release latency over a null device, miss rate and waste of a mixed-size workload.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use gpuforge_runtime::{
    memory::{
        AllocError, AllocRequest, Allocation, Allocator, BlockClass, Budget, BudgetOrigin, MemoryStack,
        Monotonic, Pool, PoolSettings, PoolStats, StackSettings, Tag,
    },
    units::Bytes,
};

use crate::{measure::Sample, row::Row};

const BENCH: &str = "pool";
/// Measurements, and allocate/release batches in each.
const ROUNDS: usize = 201;
const BATCHES: u32 = 100;
/// Blocks per batch: enough to amortise the two clock reads.
const BLOCKS: u32 = 64;
const HIT_NS: f64 = 200.0;
/// Reuse of at least 95 %, as a miss rate, because smaller is better in a row.
const MISSES_PERCENT: f64 = 5.0;
const WASTE_PERCENT: f64 = 10.0;

/// Null device allocator, so that only the layers above it are measured.
struct NullDevice;

impl Allocator for NullDevice {
    type Block = ();

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<()>, AllocError> {
        Ok(Allocation::new((), request))
    }

    fn release(&self, _: Allocation<()>) {}
}

pub(crate) fn run() -> Result<Vec<Row>> {
    let steady = (1..=11).map(steady).collect::<Result<Vec<_>>>()?;
    let misses: Vec<_> = steady.iter().filter_map(|s| s.reuse_percent).map(|reuse| 100.0 - reuse).collect();
    let waste: Vec<_> = steady.iter().filter_map(|s| s.waste_percent).collect();
    let (pool_hit, pool_back) = alone()?;
    let (stack_hit, stack_back) = stack()?;
    Ok(vec![
        row("hit, pool alone", &pool_hit, "ns", Some(HIT_NS)),
        row("release, pool alone", &pool_back, "ns", None),
        row("hit, whole stack (monitor, track, pool)", &stack_hit, "ns", Some(HIT_NS)),
        row("release, whole stack", &stack_back, "ns", None),
        row("misses in a steady mixed-size workload", &Sample::of(&misses), "%", Some(MISSES_PERCENT)),
        row("bytes granted beyond those asked, same workload", &Sample::of(&waste), "%", Some(WASTE_PERCENT)),
    ])
}

fn row(case: &str, ours: &Sample, unit: &'static str, target: Option<f64>) -> Row {
    Row {
        bench: BENCH,
        case: case.to_owned(),
        ours: ours.median,
        peer: None,
        peer_name: None,
        unit,
        ratio: target.map(|target| target / ours.median),
        n: ours.n,
        noise: ours.noise,
        target,
    }
}

fn request(size: u64) -> AllocRequest {
    AllocRequest { size: Bytes(size), tag: Tag("bench"), class: BlockClass::Storage }
}

fn pool() -> Pool<NullDevice> {
    Pool::new(NullDevice, PoolSettings::default(), Arc::new(Monotonic::default()))
}

/// Nanoseconds of one `take` and of one `give`.
fn out_and_back<B>(
    take: impl Fn(u64) -> Result<B, AllocError>,
    give: impl Fn(B),
) -> Result<(Sample, Sample)> {
    let mut live = Vec::with_capacity(BLOCKS as usize);
    let (mut taking, mut giving) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut out, mut back) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..BATCHES {
            let started = Instant::now();
            for n in 0..BLOCKS {
                // Sixteen size classes by turns: a mix of shelves, and after the first batch all of them hits.
                live.push(take(black_box(1000 << (n % 16)))?);
            }
            let taken = Instant::now();
            live.drain(..).for_each(|block| give(black_box(block)));
            out += taken - started;
            back += taken.elapsed();
        }
        // The first round makes the blocks.
        if round > 0 {
            let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(BATCHES * BLOCKS);
            taking.push(each(out));
            giving.push(each(back));
        }
    }
    Ok((Sample::of(&taking), Sample::of(&giving)))
}

fn alone() -> Result<(Sample, Sample)> {
    let pool = pool();
    let samples = out_and_back(|size| pool.allocate(request(size)), |block| pool.release(block))?;
    ensure!(pool.stats().misses == u64::from(BLOCKS), "not all were hits: {:?}", pool.stats());
    Ok(samples)
}

fn stack() -> Result<(Sample, Sample)> {
    let budget = Budget { bytes: Bytes::gib(64), origin: BudgetOrigin::User };
    let stack = MemoryStack::new(NullDevice, StackSettings::new(budget));
    let samples = out_and_back(|size| stack.allocate(request(size)), |grant| stack.release(grant))?;
    ensure!(stack.stats().pool.misses == u64::from(BLOCKS), "not all were hits: {:?}", stack.stats().pool);
    Ok(samples)
}

/// Forty live blocks of log-spread sizes from 1 KiB to 64 MiB; in each step one of them is replaced.
fn steady(seed: u64) -> Result<PoolStats> {
    let pool = pool();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let mut live = Vec::new();
    for _ in 0..20_000 {
        if live.len() == 40 {
            pool.release(live.swap_remove(below(40) as usize));
        }
        let octave = 1 << (10 + below(16));
        live.push(pool.allocate(request(octave + below(octave)))?);
    }
    Ok(pool.stats())
}
