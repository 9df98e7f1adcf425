//! Execution of a plan over many series: tiles of eight series in SIMD lanes, block by block, tiles on a thread pool.
//!
//! ```text
//!   Series ──► run_into ──► batched.rs        SIMD across series: interleave, steps, deinterleave
//!                      ├──► fused.rs          the same where the whole plan is one JIT loop from columns to columns
//!                      ├──► time_parallel.rs  one long series as eight chunks in time
//!                      └──► single_series.rs  one series, in place
//!              Stream ────► stream.rs         one series that arrives in parts
//!   all of them: tile.rs (kernels, buffers, JIT code of a tile), step.rs (a step by its kernel), jit_call.rs (a fused
//!   loop), buffers.rs (values between steps), self_check.rs (JIT code against the kernels)
//! ```
//! Bars of a tile are interleaved once for all indicators; results are deinterleaved when they are written. A series that ends
//! before its neighbours is padded with its last bar, which changes nothing before it: no kernel looks ahead. A single series
//! is read and written in place; so are all of them where that is faster (see [`ExecPlan::prefers_batched`]).

mod batched;
mod buffers;
mod fused;
mod jit_call;
mod options;
mod self_check;
mod single_series;
mod step;
mod stream;
mod tile;
mod time_parallel;

use std::sync::{Mutex, PoisonError};

pub use options::ExecOptions;
pub use stream::Stream;
use tile::Tile;
use time_parallel::TimeSplit;

pub use crate::jit::{
    guard::{JitFallbacks, jit_fallbacks, plant_jit_fault},
    stats::{JitStats, NotCompiled},
    switch::JitSwitch,
};
use crate::{
    graph::Field,
    kernel::whole_series::WholeSeriesDef,
    plan::{ExecPlan, batched_kernel, relaxed_kernel, single_kernel},
};

/// Bars of one series, by reference. Columns that no indicator reads may be empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Series<'a> {
    /// Opening prices.
    pub open: &'a [f64],
    /// Highest prices.
    pub high: &'a [f64],
    /// Lowest prices.
    pub low: &'a [f64],
    /// Closing prices.
    pub close: &'a [f64],
    /// Traded volumes.
    pub volume: &'a [f64],
    /// Timestamps: seconds since the epoch.
    pub time: &'a [f64],
}

impl<'a> Series<'a> {
    /// One column.
    pub fn field(&self, field: Field) -> &'a [f64] {
        match field {
            Field::Open => self.open,
            Field::High => self.high,
            Field::Low => self.low,
            Field::Close => self.close,
            Field::Volume => self.volume,
            Field::Time => self.time,
        }
    }

    /// A whole-series (look-ahead) column.
    fn whole_series(&self, plan: &ExecPlan, def: &WholeSeriesDef, params: &[f64]) -> Vec<f64> {
        let n = self.len(plan);
        let columns: Vec<&[f64]> = def.fields.iter().filter_map(|f| self.field(*f).get(..n)).collect();
        (def.column)(&columns, params)
    }

    /// Number of bars: the shortest of the columns that a plan reads.
    pub fn len(&self, plan: &ExecPlan) -> usize {
        plan.fields().map(|f| self.field(f).len()).min().unwrap_or(self.close.len())
    }
}

/// SIMD lanes of a tile: series that are computed at once.
pub const LANES: usize = 8;
/// Fewer series than this are faster one by one.
const MIN_BATCH: usize = 3;
/// Results of so many bytes do not fit a cache: with normal stores each line would be read before it is written.
const NONTEMPORAL_BYTES: usize = 16 << 20;

/// Output columns of one series: one slice per output of the plan, each as long as the series.
pub type Columns<'a> = Vec<&'a mut [f64]>;

type Job<'j, 'a, 'c> = (&'j Series<'a>, &'j mut Columns<'c>);

/// Are results of this many doubles written with non-temporal stores?
fn nontemporal_stores(options: ExecOptions, results: usize) -> Option<bool> {
    options.nontemporal_stores.or(Some(results * size_of::<f64>() > NONTEMPORAL_BYTES))
}

/// Computes a plan for many series into the caller's columns. Series and columns are in the same order.
pub fn run_into(plan: &ExecPlan, series: &[Series<'_>], columns: &mut [Columns<'_>], options: ExecOptions) {
    if options.verify_jit {
        self_check::verify(plan, series, options);
    }
    if let ([series], [columns]) = (series, &mut *columns) {
        return run_one(plan, series, columns, options);
    }
    // Series of similar length share a tile, so that little padding is computed.
    let mut jobs: Vec<Job<'_, '_, '_>> = series.iter().zip(columns.iter_mut()).collect();
    jobs.sort_by_key(|(s, _)| std::cmp::Reverse(s.len(plan)));
    let batched = options.batched.unwrap_or_else(|| plan.prefers_batched());
    let results: usize = jobs.iter().map(|(s, columns)| s.len(plan) * columns.len()).sum();
    let nontemporal_stores = nontemporal_stores(options, results);
    let options = ExecOptions { nontemporal_stores, relaxed_fp: false, ..options };
    let mut tiles: Vec<&mut [Job<'_, '_, '_>]> = Vec::new();
    for tile in jobs.chunks_mut(LANES) {
        if batched && tile.len() >= MIN_BATCH {
            tiles.push(tile);
        } else {
            tiles.extend(tile.chunks_mut(1));
        }
    }
    let convergence = if batched { time_parallel::convergence(plan) } else { None };
    let longest = tiles.first().and_then(|tile| tile.first()).map_or(0, |(s, _)| s.len(plan));
    let threads = options.threads.min(tiles.len());
    let queue = Mutex::new(tiles.into_iter());
    let worker = || {
        let (mut single, mut batch) = (None, None);
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some([(series, columns)]) => {
                    let split = convergence.and_then(|c| TimeSplit::new(series.len(plan), c));
                    let done = split.is_some_and(|split| {
                        batch
                            .get_or_insert_with(|| {
                                Tile::<LANES>::new(plan.for_lanes(LANES), batched_kernel, options, None)
                            })
                            .run_time_parallel(plan.for_lanes(LANES), series, columns, split)
                    });
                    if !done {
                        single
                            .get_or_insert_with(|| {
                                Tile::<1>::new(plan, single_kernel, options, Some(longest))
                            })
                            .run_single(plan, series, columns);
                    }
                }
                Some(tile) => batch
                    .get_or_insert_with(|| {
                        Tile::<LANES>::new(plan.for_lanes(LANES), batched_kernel, options, None)
                    })
                    .run_batched(plan.for_lanes(LANES), tile),
                None => break,
            }
        }
        if let Some(tile) = single {
            tile.recycle();
        }
    };
    if threads < 2 {
        worker();
    } else {
        rayon::in_place_scope(|scope| {
            (1..threads).for_each(|_| scope.spawn(|_| worker()));
            worker();
        });
    }
}

/// One series, on the caller's thread: no queue, no sorting.
fn run_one(plan: &ExecPlan, series: &Series<'_>, columns: &mut Columns<'_>, options: ExecOptions) {
    let bars = series.len(plan);
    let nontemporal_stores = nontemporal_stores(options, bars * columns.len());
    let relaxed_fp = options.relaxed_fp && plan.has_recurrences();
    let options = ExecOptions { nontemporal_stores, relaxed_fp, ..options };
    let batched = !relaxed_fp && options.batched.unwrap_or_else(|| plan.prefers_batched());
    let split =
        if batched { time_parallel::convergence(plan).and_then(|c| TimeSplit::new(bars, c)) } else { None };
    if let Some(split) = split {
        let (plan, block) = (plan.for_lanes(LANES), options.block.or(Some(split.block())));
        let mut tile = Tile::<LANES>::new(plan, batched_kernel, ExecOptions { block, ..options }, None);
        if tile.run_time_parallel(plan, series, columns, split) {
            return;
        }
    }
    let kernel = if relaxed_fp { relaxed_kernel } else { single_kernel };
    let mut tile = Tile::<1>::new(plan, kernel, options, Some(bars));
    tile.run_single(plan, series, columns);
    tile.recycle();
}

/// Computes a plan for many series; one vector of columns per series.
pub fn run(plan: &ExecPlan, series: &[Series<'_>], options: ExecOptions) -> Vec<Vec<Vec<f64>>> {
    let outputs = plan.starts().len();
    let mut all: Vec<Vec<Vec<f64>>> = series.iter().map(|s| vec![vec![0.0; s.len(plan)]; outputs]).collect();
    let mut columns: Vec<Columns<'_>> =
        all.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    run_into(plan, series, &mut columns, options);
    drop(columns);
    all
}

/// NaN before the first valid bar; the column begins at bar `t0`.
fn fill_warmup_nan(column: &mut [f64], t0: usize, start: usize) {
    let n = start.saturating_sub(t0).min(column.len());
    column.iter_mut().take(n).for_each(|x| *x = f64::NAN);
}
