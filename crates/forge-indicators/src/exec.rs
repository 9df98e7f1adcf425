//! How is a plan run over many series? In tiles of eight series side by side, block after block, tiles on several threads.
//!
//! Bars of a tile are put side by side once for all indicators; results are taken apart again when they are written. A
//! series that ends earlier than its neighbours is continued with its last bar, which changes nothing before it: no kernel
//! looks ahead. A single series runs by itself, without the detour.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use rayon::prelude::*;

use crate::{
    graph::{Field, Prim},
    kernel::{Block, Kernel, Row, Rows, Simd, whole::WholeDef},
    plan::{Place, Plan, Step, kernel_1, kernel_8},
};

/// Bars of one series, by reference. Columns that no indicator asks for may be empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Series<'a> {
    /// First prices.
    pub open: &'a [f64],
    /// Highest prices.
    pub high: &'a [f64],
    /// Lowest prices.
    pub low: &'a [f64],
    /// Last prices.
    pub close: &'a [f64],
    /// Volumes.
    pub volume: &'a [f64],
    /// Seconds since the epoch.
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

    /// A column computed from all of it.
    fn whole(&self, plan: &Plan, def: &WholeDef, params: &[f64]) -> Vec<f64> {
        let n = self.len(plan);
        let columns: Vec<&[f64]> = def.fields.iter().filter_map(|f| self.field(*f).get(..n)).collect();
        (def.column)(&columns, params)
    }

    /// Bars: the shortest of the columns that a plan reads.
    pub fn len(&self, plan: &Plan) -> usize {
        plan.fields().map(|f| self.field(f).len()).min().unwrap_or(self.close.len())
    }
}

/// How a plan is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Threads; 1 runs on the caller's.
    pub threads: usize,
    /// Instruction set.
    pub simd: Simd,
    /// Bars per block; for tests, results do not depend on it.
    pub block: Option<usize>,
}

impl Default for How {
    fn default() -> Self {
        How { threads: rayon::current_num_threads(), simd: Simd::best(), block: None }
    }
}

/// Series that are computed side by side.
pub const LANES: usize = 8;
/// Bytes of one column of a block: several columns stay in the first cache.
const BLOCK_BYTES: usize = 16 << 10;

/// Room for the results of one series: one slice per output of the plan, each as long as the series.
pub type Columns<'a> = Vec<&'a mut [f64]>;

/// Computes a plan for many series into room that the caller has. Series and columns are in the same order.
pub fn run_into(plan: &Plan, series: &[Series<'_>], columns: &mut [Columns<'_>], how: How) {
    // Series of like length share a tile, so that little is computed for nothing.
    let mut jobs: Vec<(&Series<'_>, &mut Columns<'_>)> = series.iter().zip(columns.iter_mut()).collect();
    jobs.sort_by_key(|(s, _)| std::cmp::Reverse(s.len(plan)));
    let lanes = if jobs.len() == 1 { 1 } else { LANES };
    let tiles: Vec<&mut [(&Series<'_>, &mut Columns<'_>)]> = jobs.chunks_mut(lanes).collect();
    let one = |tile: &mut [(&Series<'_>, &mut Columns<'_>)]| {
        if tile.len() == 1 {
            Tile::<1>::new(plan, kernel_1, how).run(plan, tile);
        } else {
            Tile::<LANES>::new(plan, kernel_8, how).run(plan, tile);
        }
    };
    if how.threads < 2 || tiles.len() < 2 {
        tiles.into_iter().for_each(one);
    } else {
        tiles.into_par_iter().for_each(one);
    }
}

/// Computes a plan for many series; one vector of columns per series.
pub fn run(plan: &Plan, series: &[Series<'_>], how: How) -> Vec<Vec<Vec<f64>>> {
    let outputs = plan.starts().len();
    let mut all: Vec<Vec<Vec<f64>>> = series.iter().map(|s| vec![vec![0.0; s.len(plan)]; outputs]).collect();
    let mut columns: Vec<Columns<'_>> =
        all.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    run_into(plan, series, &mut columns, how);
    drop(columns);
    all
}

/// Kernels and buffers of `L` series.
struct Tile<const L: usize> {
    kernels: Vec<Box<dyn Kernel<L>>>,
    /// History first, then the block.
    buffers: Vec<Vec<Row<L>>>,
    block: usize,
    simd: Simd,
}

impl<const L: usize> Tile<L> {
    fn new(plan: &Plan, kernel: fn(&Step) -> Box<dyn Kernel<L>>, how: How) -> Self {
        let block = how.block.unwrap_or(BLOCK_BYTES / size_of::<Row<L>>()).max(1);
        let mut history = vec![0; plan.buffers];
        let places = plan.steps.iter().flat_map(|s| s.outputs.iter().copied());
        let places =
            places.chain(plan.fields.iter().map(|(_, p)| *p)).chain(plan.constants.iter().map(|(_, p)| *p));
        let places = places.chain(plan.wholes.iter().map(|(.., p)| *p));
        for place in places {
            if let Some(h) = history.get_mut(place.buffer) {
                *h = place.history.max(*h);
            }
        }
        let mut buffers: Vec<Vec<Row<L>>> = history.iter().map(|h| vec![[f64::NAN; L]; h + block]).collect();
        for (x, place) in &plan.constants {
            if let Some(buffer) = buffers.get_mut(place.buffer) {
                buffer.fill([*x; L]);
            }
        }
        Tile { kernels: plan.steps.iter().map(kernel).collect(), buffers, block, simd: how.simd }
    }

    fn run(&mut self, plan: &Plan, tile: &mut [(&Series<'_>, &mut Columns<'_>)]) {
        let bars = tile.iter().map(|(s, _)| s.len(plan)).max().unwrap_or(0);
        let wholes: Vec<Vec<Vec<f64>>> = plan
            .wholes
            .iter()
            .map(|(def, params, _)| tile.iter().map(|(s, _)| s.whole(plan, def, params)).collect())
            .collect();
        let mut t0 = 0;
        while t0 < bars {
            let t1 = (t0 + self.block).min(bars);
            for (field, place) in &plan.fields {
                self.fill(*place, t0, t1, |l| tile.get(l).or(tile.last()).map(|(s, _)| s.field(*field)));
            }
            for ((.., place), columns) in plan.wholes.iter().zip(&wholes) {
                self.fill(*place, t0, t1, |l| columns.get(l).or(columns.last()).map(Vec::as_slice));
            }
            for (at, step) in plan.steps.iter().enumerate() {
                self.step(at, step, t0, t1);
            }
            for (output, place) in plan.outputs.iter().enumerate() {
                let rows = self.buffers.get(place.buffer).and_then(|b| b.get(place.history..)).unwrap_or(&[]);
                scatter(tile, output, t0, t1, rows);
            }
            t0 = t1;
        }
    }

    /// The end of the last block becomes the history of this one.
    fn keep(&mut self, place: Place, t0: usize) {
        if place.history > 0
            && t0 > 0
            && let Some(buffer) = self.buffers.get_mut(place.buffer)
        {
            buffer.copy_within(self.block..self.block + place.history, 0);
        }
    }

    /// Puts a column of several series side by side; lanes without one repeat the last, nobody reads them.
    fn fill<'c>(&mut self, place: Place, t0: usize, t1: usize, column: impl Fn(usize) -> Option<&'c [f64]>) {
        self.keep(place, t0);
        if let Some(rows) = self.buffers.get_mut(place.buffer).and_then(|b| b.get_mut(place.history..)) {
            gather(column, t0, t1, rows);
        }
    }

    fn step(&mut self, at: usize, step: &Step, t0: usize, t1: usize) {
        for place in &step.outputs {
            self.keep(*place, t0);
        }
        // Outputs are taken out while the kernel runs: a step never reads a buffer that it writes.
        let mut taken: Vec<(usize, Vec<Row<L>>)> = step
            .outputs
            .iter()
            .filter_map(|p| self.buffers.get_mut(p.buffer).map(|b| (p.history, std::mem::take(b))))
            .collect();
        let inputs: Vec<Rows<'_, L>> = step
            .inputs
            .iter()
            .map(|p| {
                let rows = self.buffers.get(p.buffer).map_or(&[] as &[Row<L>], Vec::as_slice);
                let end = (p.history + t1 - t0).min(rows.len());
                Rows::new(rows.get(..end).unwrap_or(rows), t0, p.history)
            })
            .collect();
        let mut outputs: Vec<&mut [Row<L>]> =
            taken.iter_mut().filter_map(|(h, b)| b.get_mut(*h..*h + (t1 - t0))).collect();
        // A machine takes its first steps before it has anything to say; nothing else does.
        let early = t1 <= step.start && !matches!(step.prim, Prim::Machine { .. });
        if early {
            outputs.iter_mut().for_each(|out| out.fill([f64::NAN; L]));
        } else if let Some(kernel) = self.kernels.get_mut(at) {
            let mut block = Block { inputs: &inputs, outputs: &mut outputs, t0, t1, start: step.start };
            kernel.run(&mut block, self.simd);
        }
        for (place, (_, buffer)) in step.outputs.iter().zip(taken) {
            if let Some(slot) = self.buffers.get_mut(place.buffer) {
                *slot = buffer;
            }
        }
    }
}

/// Writes a column of each lane; one that ends earlier is continued with its last value.
fn gather<'c, const L: usize>(
    column: impl Fn(usize) -> Option<&'c [f64]>,
    t0: usize,
    t1: usize,
    rows: &mut [Row<L>],
) {
    for l in 0..L {
        let Some(column) = column(l) else { return };
        let last = column.last().copied().unwrap_or(f64::NAN);
        let here = column.get(t0.min(column.len())..t1.min(column.len())).unwrap_or(&[]);
        let rest = t1 - t0 - here.len();
        let values = here.iter().copied().chain(std::iter::repeat_n(last, rest));
        for (row, x) in rows.iter_mut().zip(values) {
            row[l] = x;
        }
    }
}

/// Takes results apart again.
fn scatter<const L: usize>(
    tile: &mut [(&Series<'_>, &mut Columns<'_>)],
    output: usize,
    t0: usize,
    t1: usize,
    rows: &[Row<L>],
) {
    for (l, (_, columns)) in tile.iter_mut().enumerate().take(L) {
        let Some(column) = columns.get_mut(output) else { continue };
        let n = column.len();
        for (x, row) in column.get_mut(t0.min(n)..t1.min(n)).unwrap_or(&mut []).iter_mut().zip(rows) {
            *x = row[l];
        }
    }
}
