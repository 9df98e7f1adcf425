//! Batched execution: SIMD across eight series (SoA), interleaved block by block; results are deinterleaved as soon as they are
//! complete.
#![allow(clippy::indexing_slicing, reason = "a lane is always below the number of lanes")]

use crate::{
    exec::{
        Job, LANES, buffers::BlockBuffers, fill_warmup_nan, fused::MAX_RUN_BARS, single_series::misalignment,
        tile::Tile,
    },
    graph::Field,
    kernel::{
        Row, Simd,
        transpose::{self, CACHE_LINE, DeinterleaveScratch, PartialLines, PrefetchQueue, StoreMode},
    },
    plan::ExecPlan,
};

/// Deinterleaves results into their columns.
struct Deinterleaver {
    simd: Simd,
    store_mode: StoreMode,
    /// Columns of lanes without a series.
    padding: Vec<Vec<f64>>,
    /// Of each output, the incomplete cache lines.
    partial: Vec<PartialLines>,
    scratch: DeinterleaveScratch,
    /// Of each output, one that is deinterleaved soon after it.
    upcoming: Vec<Option<usize>>,
}

/// Results that are deinterleaved between the prefetch of another one's pages and their use.
const PREFETCH_AHEAD: usize = 2;

/// Of each output, the one that is deinterleaved `PREFETCH_AHEAD` later.
fn upcoming(plan: &ExecPlan) -> Vec<Option<usize>> {
    let order: Vec<usize> =
        plan.leaf_outputs.iter().chain(plan.outputs_of_step.iter().flatten()).copied().collect();
    let mut upcoming = vec![None; plan.outputs.len()];
    for (at, later) in order.iter().zip(order.iter().skip(PREFETCH_AHEAD)) {
        if let Some(slot) = upcoming.get_mut(*at) {
            *slot = Some(*later);
        }
    }
    upcoming
}

impl Tile<LANES> {
    /// Up to eight series at once.
    pub(super) fn run_batched(&mut self, plan: &ExecPlan, tile: &mut [Job<'_, '_, '_>]) {
        self.begin(plan);
        let bars = tile.iter().map(|(s, _)| s.len(plan)).max().unwrap_or(0);
        let whole_series: Vec<Vec<Vec<f64>>> = plan
            .whole_series
            .iter()
            .map(|(def, params, _)| tile.iter().map(|(s, _)| s.whole_series(plan, def, params)).collect())
            .collect();
        let (simd, store_mode) = (self.simd, self.store_mode);
        let partial = if store_mode == StoreMode::NonTemporal { plan.outputs.len() } else { 0 };
        let mut deinterleaver = Deinterleaver {
            simd,
            store_mode,
            // Room to align to a cache line.
            padding: vec![
                vec![0.0; self.block.max(MAX_RUN_BARS) + CACHE_LINE / size_of::<f64>()];
                LANES - tile.len()
            ],
            partial: vec![PartialLines::default(); partial],
            scratch: DeinterleaveScratch::default(),
            upcoming: upcoming(plan),
        };
        let misaligned = tile.first().and_then(|(_, columns)| columns.first()).map_or(0, |c| misalignment(c));
        let mut t0 = 0;
        while t0 < bars {
            let t1 = self.block_end(t0, misaligned).min(bars);
            self.next_block(t0);
            if let Some(t1) = self.run_fused_columns(plan, tile, t0, &mut deinterleaver.padding) {
                t0 = t1;
                continue;
            }
            let scheduled = if store_mode == StoreMode::NonTemporal {
                self.schedule_prefetch(plan, tile, t1, &mut deinterleaver.scratch.prefetch)
            } else {
                0
            };
            for (at, (field, slot)) in plan.fields.iter().enumerate() {
                let column = |l: usize| lane(tile, l, *field);
                self.fill(*slot, |rows| gather(column, (t0, t1), rows, (simd, at >= scheduled)));
            }
            for ((.., slot), columns) in plan.whole_series.iter().zip(&whole_series) {
                let column =
                    |l: usize| columns.get(l).or(columns.last()).map_or(&[] as &[f64], Vec::as_slice);
                self.fill(*slot, |rows| gather(column, (t0, t1), rows, (simd, true)));
            }
            let mut deliver = |buffers: &BlockBuffers<LANES>, output: usize| {
                if let Some(slot) = plan.outputs.get(output) {
                    deinterleaver.scatter(tile, output, (t0, t1), buffers.rows(*slot, t1 - t0));
                }
            };
            plan.leaf_outputs.iter().for_each(|output| deliver(&self.buffers, *output));
            self.run_steps(plan, t0, t1, &[], &mut [], |store, at| {
                let outputs = plan.outputs_of_step.get(at).map_or(&[] as &[usize], Vec::as_slice);
                outputs.iter().for_each(|output| deliver(store, *output));
            });
            t0 = t1;
        }
        if store_mode == StoreMode::NonTemporal {
            transpose::store_fence();
        }
        // Only now: partial lines may hold bars of the warm-up until the end.
        for (_, columns) in tile {
            for (column, start) in columns.iter_mut().zip(&plan.starts) {
                fill_warmup_nan(column, 0, *start);
            }
        }
        self.bars_done = bars.max(1);
    }

    /// Schedules prefetches of the block from bar `t1` on: some columns by the longest fused loop, some while results are
    /// deinterleaved. How many columns these are; the others are prefetched while this block is interleaved.
    fn schedule_prefetch(
        &mut self,
        plan: &ExecPlan,
        tile: &[Job<'_, '_, '_>],
        t1: usize,
        queue: &mut PrefetchQueue,
    ) -> usize {
        let lines = self.block.div_ceil(CACHE_LINE / size_of::<f64>());
        let by_loop = self.jit.as_ref().map_or(0, |p| p.prefetched_columns());
        queue.restart(lines);
        self.args.prefetch.clear();
        let fields = plan.fields.iter().take(by_loop + plan.outputs.len()).enumerate();
        for (at, (field, _)) in fields.clone() {
            let lanes = (0..LANES).map(|l| lane(tile, l, *field).as_ptr().wrapping_add(t1));
            if at < by_loop {
                self.args.prefetch.extend(lanes);
            } else {
                queue.lanes.extend(lanes);
            }
        }
        fields.len()
    }
}

/// A lane's column; lanes without a series repeat the last one.
pub(super) fn lane<'s>(tile: &[Job<'_, 's, '_>], l: usize, field: Field) -> &'s [f64] {
    tile.get(l).or(tile.last()).map_or(&[], |(s, _)| s.field(field))
}

impl Deinterleaver {
    /// Deinterleaves some bars of a result.
    fn scatter(
        &mut self,
        tile: &mut [Job<'_, '_, '_>],
        output: usize,
        (t0, t1): (usize, usize),
        rows: &[Row<LANES>],
    ) {
        let columns = tile
            .iter_mut()
            .map(|(_, columns)| columns.get_mut(output).map_or(&mut [] as &mut [f64], |c| &mut **c));
        if let (StoreMode::NonTemporal, Some(partial)) = (self.store_mode, self.partial.get_mut(output)) {
            let scratch = &mut self.scratch;
            transpose::deinterleave_nontemporal(rows, t0, columns, partial, scratch, self.simd);
            // Many results span more pages than the TLB holds: the prefetch starts the page walk early.
            if let Some(later) = self.upcoming.get(output).copied().flatten() {
                let later = tile.iter().filter_map(|(_, columns)| columns.get(later));
                later.for_each(|column| transpose::prefetch(column.as_ptr().wrapping_add(t0)));
            }
            return;
        }
        let columns = columns.map(|column| {
            let n = column.len();
            column.get_mut(t0.min(n)..t1.min(n)).unwrap_or_default()
        });
        let mut lanes: [&mut [f64]; LANES] = Default::default();
        let padding = self.padding.iter_mut().filter_map(|s| s.get_mut(..t1 - t0));
        for (lane, column) in lanes.iter_mut().zip(columns.chain(padding)) {
            *lane = column;
        }
        if lanes.iter().all(|lane| lane.len() == t1 - t0) {
            return transpose::deinterleave(rows, &mut lanes, self.simd);
        }
        for (l, lane) in lanes.into_iter().enumerate() {
            for (x, row) in lane.iter_mut().zip(rows) {
                *x = row.get(l).copied().unwrap_or(f64::NAN);
            }
        }
    }
}

/// Interleaves a column of each lane; one that ends earlier is padded with its last value.
pub(super) fn gather<'c>(
    column: impl Fn(usize) -> &'c [f64],
    (t0, t1): (usize, usize),
    rows: &mut [Row<LANES>],
    (simd, prefetch): (Simd, bool),
) {
    let lanes: [&[f64]; LANES] = std::array::from_fn(&column);
    if let Some(lanes) = every(lanes.map(|lane| lane.get(t0..t1))) {
        return transpose::interleave(&lanes, rows, simd, prefetch);
    }
    for (l, lane) in lanes.into_iter().enumerate() {
        let last = lane.last().copied().unwrap_or(f64::NAN);
        let here = lane.get(t0.min(lane.len())..t1.min(lane.len())).unwrap_or(&[]);
        let rest = t1 - t0 - here.len();
        for (row, x) in rows.iter_mut().zip(here.iter().copied().chain(std::iter::repeat_n(last, rest))) {
            row[l] = x;
        }
    }
}

fn every<T: Copy + Default, const N: usize>(all: [Option<T>; N]) -> Option<[T; N]> {
    all.iter().all(Option::is_some).then(|| all.map(Option::unwrap_or_default))
}
