//! How is a plan run over many series? In tiles of eight series side by side, block after block, tiles on several threads.
//!
//! Bars of a tile are put side by side once for all indicators; results are taken apart again when they are written. A
//! series that ends earlier than its neighbours is continued with its last bar, which changes nothing before it: no kernel
//! looks ahead. A series by itself is read where it is and written where it goes, without the detour; so are all of them
//! where that is faster (see [`Plan::side_by_side`]).
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

mod abreast;
mod alone;
mod along;
mod compiled;
mod self_check;
mod store;
mod straight;

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use along::Cut;
use store::{Buffer, Home, Poison, ROOM, ROOM_BYTES, Store, target};

pub use crate::native::guard::{JitFallbacks, jit_fallbacks, plant_jit_fault};
use crate::{
    graph::{Field, NodeOp},
    kernel::{
        Block, Kernel, Row, Rows, Simd, pieces,
        turn::{self, LINE, Write},
        whole::WholeDef,
    },
    native::{Desk, Native, Unit},
    plan::{MOST_PORTS, Place, Plan, Step, kernel_1, kernel_8, kernel_loose},
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
    /// Bars per block; for tests, results do not depend on it (their last digits do where it is `loose`).
    pub block: Option<usize>,
    /// Several series side by side, or each by itself? `None` is what the plan thinks is faster; results do not depend on
    /// it.
    pub side_by_side: Option<bool>,
    /// May simple steps be compiled to loops of their own? Results do not depend on it.
    pub compiled: bool,
    /// Are results written past the caches? `None` is where there are more of them than a cache holds; results do not
    /// depend on it.
    pub past: Option<bool>,
    /// Are twelve digits enough? One long series by itself is then faster where values rest on the bar before.
    pub loose: bool,
    /// Is JIT code compared with the kernels on the first bars that a plan computes? On a mismatch the kernels compute
    /// everything, and [`jit_fallbacks`] says so. Costs once per plan what some hundred bars take.
    pub verify: bool,
    /// For tests: buffers hold signalling NaNs until somebody writes them, block after block.
    pub poison: bool,
}

impl How {
    /// Everything at its default, on so many threads. Starts no thread pool.
    pub fn on(threads: usize) -> How {
        How {
            threads,
            simd: Simd::detect(),
            block: None,
            side_by_side: None,
            compiled: true,
            past: None,
            loose: false,
            verify: true,
            poison: false,
        }
    }
}

impl Default for How {
    fn default() -> Self {
        How::on(rayon::current_num_threads())
    }
}

/// Series that are computed side by side.
pub const LANES: usize = 8;
/// Fewer series than this are faster one by one.
const LEAST_LANES: usize = 3;
/// Bytes of one column of a block, of one series and of several: some columns stay in the first cache, and setting up a
/// step does not count; memory likes long stretches. Measured with `cargo xtask bench indicators`.
const BLOCK_BYTES: [usize; 2] = [4 << 10, 16 << 10];
/// Bars of a block whose chains are cut into pieces, at least and at most, and bytes that all buffers of it may take: pieces
/// should be long, and what is between steps should stay in the second cache.
const LOOSE_BARS: (usize, usize) = (2048, 16384);
const LOOSE_BYTES: usize = 768 << 10;
/// How many times as long as what a piece begins early.
const LOOSE_TIMES: usize = 24;
/// How many times as long a block is that needs no buffers.
const ONE_LOOP: usize = 4;
/// Results of so many bytes are no longer in a cache when somebody reads them: reading them into one before they are written
/// is half as much again for nothing.
const PAST_BYTES: usize = 16 << 20;

/// Room for the results of one series: one slice per output of the plan, each as long as the series.
pub type Columns<'a> = Vec<&'a mut [f64]>;

type Job<'j, 'a, 'c> = (&'j Series<'a>, &'j mut Columns<'c>);

/// Computes a plan for many series into room that the caller has. Series and columns are in the same order.
pub fn run_into(plan: &Plan, series: &[Series<'_>], columns: &mut [Columns<'_>], how: How) {
    if how.verify {
        self_check::verify(plan, series, how);
    }
    if let ([series], [columns]) = (series, &mut *columns) {
        return run_one(plan, series, columns, how);
    }
    // Series of like length share a tile, so that little is computed for nothing.
    let mut jobs: Vec<Job<'_, '_, '_>> = series.iter().zip(columns.iter_mut()).collect();
    jobs.sort_by_key(|(s, _)| std::cmp::Reverse(s.len(plan)));
    let abreast = how.side_by_side.unwrap_or_else(|| plan.side_by_side());
    let results: usize = jobs.iter().map(|(s, columns)| s.len(plan) * columns.len()).sum();
    let how = How { past: how.past.or(Some(results * size_of::<f64>() > PAST_BYTES)), loose: false, ..how };
    let mut tiles: Vec<&mut [Job<'_, '_, '_>]> = Vec::new();
    for tile in jobs.chunks_mut(LANES) {
        if abreast && tile.len() >= LEAST_LANES {
            tiles.push(tile);
        } else {
            tiles.extend(tile.chunks_mut(1));
        }
    }
    // A series by itself may be its own neighbour.
    let settles = if abreast { along::settles(plan) } else { None };
    let threads = how.threads.min(tiles.len());
    let waiting = Mutex::new(tiles.into_iter());
    let work = || {
        let (mut one, mut many) = (None, None);
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some([(series, columns)]) => {
                    let cut = settles.and_then(|s| Cut::of(series.len(plan), s));
                    let done = cut.is_some_and(|cut| {
                        many.get_or_insert_with(|| Tile::<LANES>::new(plan.of(LANES), kernel_8, how, false))
                            .along(plan.of(LANES), series, columns, cut)
                    });
                    if !done {
                        one.get_or_insert_with(|| Tile::<1>::new(plan, kernel_1, how, true))
                            .alone(plan, series, columns);
                    }
                }
                Some(tile) => many
                    .get_or_insert_with(|| Tile::<LANES>::new(plan.of(LANES), kernel_8, how, false))
                    .abreast(plan.of(LANES), tile),
                None => break,
            }
        }
        if let Some(tile) = one {
            tile.end_of_use();
        }
    };
    if threads < 2 {
        work();
    } else {
        rayon::in_place_scope(|scope| {
            (1..threads).for_each(|_| scope.spawn(|_| work()));
            work();
        });
    }
}

/// One series, on the caller's thread: nothing is sorted, and nobody waits.
fn run_one(plan: &Plan, series: &Series<'_>, columns: &mut Columns<'_>, how: How) {
    let bars = series.len(plan);
    let past = how.past.or(Some(bars * columns.len() * size_of::<f64>() > PAST_BYTES));
    let loose = how.loose && plan.has_chains();
    let block = how.block.or(in_pieces(plan, How { loose, ..how }).then(|| loose_block(plan, bars)));
    let how = How { past, block, loose, ..how };
    // It may be its own neighbour.
    let abreast = !loose && how.side_by_side.unwrap_or_else(|| plan.side_by_side());
    let cut = if abreast { along::settles(plan).and_then(|s| Cut::of(bars, s)) } else { None };
    if cut.is_some_and(|cut| along(plan.of(LANES), series, columns, (cut, how))) {
        return;
    }
    let kernel = if loose { kernel_loose } else { kernel_1 };
    let mut tile = Tile::<1>::new(plan, kernel, how, true);
    tile.alone(plan, series, columns);
    tile.end_of_use();
}

/// One series as if it were eight.
fn along(plan: &Plan, series: &Series<'_>, columns: &mut Columns<'_>, (cut, how): (Cut, How)) -> bool {
    let how = How { block: how.block.or(Some(cut.block())), ..how };
    Tile::<LANES>::new(plan, kernel_8, how, false).along(plan, series, columns, cut)
}

/// Its compiled loops, if it may have them.
fn native(plan: &Plan, lanes: usize, how: How) -> Option<Arc<Native>> {
    let may = how.compiled && how.simd != Simd::SCALAR;
    let native = if may { plan.native(lanes, how.loose) } else { None };
    native.filter(|native| !native.trust.is_faulty())
}

/// Are there chains that kernels cut into pieces?
fn in_pieces(plan: &Plan, how: How) -> bool {
    how.loose && any_kernel(plan, native(plan, 1, how).as_deref(), Step::is_chain)
}

/// Bars of a block whose chains are cut into pieces: each should be some times as long as it has to begin early.
fn loose_block(plan: &Plan, bars: usize) -> usize {
    let (least, most) = LOOSE_BARS;
    let early = plan.steps.iter().map(|step| pieces::early(&step.op)).max().unwrap_or(0);
    let room = LOOSE_BYTES / size_of::<f64>() / plan.buffers.max(1);
    early.saturating_mul(LOOSE_TIMES).min(room).clamp(least, most).min(bars.next_multiple_of(LINE))
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

/// One series that comes in parts: what is remembered between them does not grow. Columns of whole series cannot be
/// computed in parts; see [`Plan::in_parts`]. `P` is a plan, borrowed or shared.
pub struct Stream<P> {
    plan: P,
    tile: Tile<1>,
    /// The same by kernels, until the JIT code of the plan is verified.
    shadow: Option<Box<Tile<1>>>,
}

impl<P: Deref<Target = Plan>> Stream<P> {
    /// At the beginning of a series.
    pub fn new(plan: P, how: How) -> Stream<P> {
        let tile = Tile::new(&plan, kernel_1, how, false);
        let open = how.verify && tile.native.as_ref().is_some_and(|native| native.trust.is_open());
        let shadow = open.then(|| Tile::new(&plan, kernel_1, How { compiled: false, ..how }, false));
        Stream { plan, tile, shadow: shadow.map(Box::new) }
    }

    /// Another one that has seen the same bars; from here on they have nothing to do with each other.
    pub fn fork(&self) -> Stream<P>
    where
        P: Clone,
    {
        let shadow = self.shadow.as_ref().map(|shadow| Box::new(shadow.fork()));
        Stream { plan: self.plan.clone(), tile: self.tile.fork(), shadow }
    }

    /// Bars that were there before.
    pub fn bars(&self) -> usize {
        self.tile.bars
    }

    /// The next bars, into columns of the same length.
    pub fn push(&mut self, bars: &Series<'_>, columns: &mut Columns<'_>) {
        let plan = &*self.plan;
        self.tile.push(plan, bars, columns);
        if let Some(mut shadow) = self.shadow.take() {
            match self_check::follow(plan, &self.tile, &mut shadow, bars, columns) {
                self_check::Verdict::Open => self.shadow = Some(shadow),
                self_check::Verdict::Verified => {}
                self_check::Verdict::Faulty => self.tile = *shadow,
            }
        }
    }
}

impl Tile<1> {
    /// The next bars of a series that comes in parts.
    fn push(&mut self, plan: &Plan, bars: &Series<'_>, columns: &mut Columns<'_>) {
        let n = bars.len(plan);
        let offset = self.bars;
        let mut done = 0;
        while done < n {
            let len = self.block.min(n - done);
            let t0 = offset + done;
            self.next(t0);
            for (field, place) in &plan.fields {
                let from = bars.field(*field).get(done..done + len).unwrap_or(&[]);
                self.fill(*place, |rows| rows.as_flattened_mut()[..len].copy_from_slice(from));
            }
            self.steps(plan, t0, t0 + len, &[], &mut [], |_, _| {});
            for ((column, place), start) in columns.iter_mut().zip(&plan.outputs).zip(&plan.starts) {
                if let Some(to) = column.get_mut(done..done + len) {
                    to.copy_from_slice(self.store.rows(*place, len).as_flattened());
                    silence(to, t0, *start);
                }
            }
            done += len;
        }
        self.bars = offset + n;
    }
}

/// Kernels and buffers of `L` series.
struct Tile<const L: usize> {
    kernels: Vec<Box<dyn Kernel<L>>>,
    make: fn(&Step) -> Box<dyn Kernel<L>>,
    store: Store<L>,
    block: usize,
    /// Bars of the first block.
    first: usize,
    /// Are chains cut into pieces?
    loose: bool,
    simd: Simd,
    /// Bars that are done.
    bars: usize,
    /// Bars of the block before: fewer than `block` where a series comes in parts.
    last: usize,
    native: Option<Arc<Native>>,
    desk: Desk,
    write: Write,
    poison: Option<Poison>,
}

impl<const L: usize> Tile<L> {
    /// `direct` leaves bars and results where they are; nothing of a buffer's own is then needed for them.
    fn new(plan: &Plan, make: fn(&Step) -> Box<dyn Kernel<L>>, how: How, direct: bool) -> Self {
        let [one, several] = BLOCK_BYTES;
        let bytes = if L == 1 { one } else { several };
        let loose = how.loose && L == 1;
        // Where all is one compiled loop, or one step, nothing is between steps.
        let native = native(plan, L, How { loose, ..how });
        let whole = plan.steps.len() == 1 || native.as_ref().is_some_and(|n| n.is_one_loop());
        let times = if L == 1 && direct && whole { ONE_LOOP } else { 1 };
        let usual = times * bytes / size_of::<Row<L>>();
        let block = how.block.unwrap_or(usual).max(1);
        let mut history = vec![0; plan.buffers];
        for place in plan.places() {
            if let Some(h) = history.get_mut(place.buffer) {
                *h = place.history.max(*h);
            }
        }
        let mut homes = vec![Home::Own; plan.buffers];
        if direct {
            let fields = plan.fields.iter().enumerate().map(|(i, (_, p))| (p.buffer, Home::Field(i)));
            // Kernels do not write past the caches: where that is wanted, what they leave is copied there.
            let copied = |p: &Place| {
                how.past == Some(true)
                    && how.simd != Simd::SCALAR
                    && by_kernel(plan, native.as_deref(), p.buffer)
            };
            let columns = plan.outputs.iter().enumerate().filter(|(_, p)| !copied(p));
            let columns = columns.map(|(i, p)| (p.buffer, Home::Column(i)));
            // A column that is also an input stays one; the first of several equal columns is written, the others copied.
            for (buffer, home) in columns.rev().chain(fields) {
                if let Some(slot) = homes.get_mut(buffer).filter(|_| !plan.is_given_otherwise(buffer)) {
                    *slot = home;
                }
            }
        }
        // Blocks begin at whole lines.
        history.iter_mut().for_each(|h| *h = h.next_multiple_of(LINE / size_of::<Row<L>>()));
        let kept = history.iter().zip(&homes).filter(|(h, home)| **h > 0 && **home == Home::Own).count();
        let most = if L == 1 && in_pieces(plan, how) { 1 } else { ROOM };
        let blocks = (ROOM_BYTES / (kept.max(1) * block * size_of::<Row<L>>())).clamp(1, most);
        let made = if direct { Buffer::reused } else { Buffer::new };
        let room = |(h, home): (&usize, &Home)| match home {
            Home::Own if *h > 0 => made(h + blocks * block),
            Home::Own => made(block),
            _ => Buffer::default(),
        };
        let buffers: Vec<Buffer<L>> = history.iter().zip(&homes).map(room).collect();
        let kernels = plan.steps.iter().map(make).collect();
        let mut store = Store { buffers, homes, history, shift: 0, blocks };
        let poison = how.poison.then(|| Poison::new(plan, &mut store));
        // The first block of a series by itself ends as soon as all that begins has begun: only then loops are compiled ones.
        let began = plan.steps.iter().map(|s| s.start + 1).chain(native.iter().map(|n| n.steady())).max();
        let line = LINE / size_of::<Row<L>>();
        let first = match L == 1 && (loose || native.is_some()) {
            // One line more: the first block may be shorter, so that the next begins at a line.
            true => (began.unwrap_or(0) + line).next_multiple_of(line).min(block),
            false => block,
        };
        for (x, place) in &plan.constants {
            // Compiled loops know their constants: only the first block, which is not theirs, reads them.
            let before = store.history.get(place.buffer).copied().unwrap_or(0);
            let known = direct && before == 0 && !read_by_kernels(plan, native.as_deref(), place.buffer);
            store.repeat(*x, *place, if known { first } else { before + blocks * block });
        }
        let desk = Desk::default();
        let write = if how.past == Some(true) { Write::Past } else { Write::Cached };
        Tile {
            kernels,
            make,
            store,
            block,
            first,
            loose,
            simd: how.simd,
            bars: 0,
            last: 0,
            native,
            desk,
            write,
            poison,
        }
    }

    /// Another one that remembers the same.
    fn fork(&self) -> Self {
        Tile {
            kernels: self.kernels.iter().map(|kernel| kernel.fork()).collect(),
            make: self.make,
            store: self.store.clone(),
            native: self.native.clone(),
            desk: Desk::default(),
            poison: self.poison.clone(),
            ..*self
        }
    }

    /// Its memory is kept for the next.
    fn end_of_use(self) {
        self.store.buffers.into_iter().for_each(Buffer::spare);
    }

    /// A new series begins.
    fn begin(&mut self, plan: &Plan) {
        if std::mem::take(&mut self.bars) > 0 {
            self.kernels = plan.steps.iter().map(self.make).collect();
        }
    }

    /// The next block begins: the end of the last one is its history.
    fn next(&mut self, t0: usize) {
        let moved = if t0 == 0 { 0 } else { self.store.shift + self.last };
        if moved + self.block <= self.store.blocks * self.block {
            self.store.shift = moved;
        } else {
            self.store.shift = 0;
            for (buffer, history) in self.store.buffers.iter_mut().zip(&self.store.history) {
                let rows = buffer.rows_mut();
                if *history > 0 && moved + history <= rows.len() {
                    rows.copy_within(moved..moved + history, 0);
                }
            }
        }
        if let Some(poison) = &self.poison {
            poison.block(&mut self.store);
        }
    }

    /// Where the block that begins at `t0` ends. The first one is a little shorter, so that the others begin at whole cache
    /// lines of the results.
    fn end(&self, t0: usize, beyond: usize) -> usize {
        if t0 == 0 { self.first.saturating_sub(beyond).max(1) } else { t0 + self.block }
    }

    /// New rows after the history.
    fn fill(&mut self, place: Place, write: impl FnOnce(&mut [Row<L>])) {
        let from = self.store.begin(place);
        let buffer = self.store.buffers.get_mut(place.buffer);
        if let Some(rows) = buffer.and_then(|b| b.rows_mut().get_mut(from..)) {
            write(rows);
        }
    }

    /// Runs every step over a block.
    fn steps(
        &mut self,
        plan: &Plan,
        t0: usize,
        t1: usize,
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
        mut after: impl FnMut(&Store<L>, usize),
    ) {
        let native = self.native.take();
        let all = [Unit::Steps(0..plan.steps.len())];
        for unit in native.as_ref().map_or(&all as &[Unit], |n| &n.units) {
            let (Unit::Steps(steps) | Unit::Group { steps, .. }) = unit;
            let done = match (unit, &native) {
                (Unit::Group { at, .. }, Some(native)) => {
                    let group = native.group(*at).filter(|g| t0 >= g.steady);
                    let done = group.is_some_and(|g| self.group(native, g, (t0, t1), fields, columns));
                    if group.is_some_and(|g| g.scans) && !done {
                        // Kernels read constants that the loop knows.
                        let rows = self.store.blocks * self.block;
                        plan.constants.iter().for_each(|(x, place)| self.store.repeat(*x, *place, rows));
                    }
                    done
                }
                _ => false,
            };
            for (at, step) in plan.steps.iter().enumerate().skip(steps.start).take(steps.len()) {
                if !done {
                    self.step(at, step, (t0, t1), fields, columns);
                }
                after(&self.store, at);
            }
        }
        self.native = native;
        self.last = t1 - t0;
    }

    fn step(
        &mut self,
        at: usize,
        step: &Step,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) {
        // A machine takes its first steps before it has anything to say; nothing else does.
        let early = t1 <= step.start && !matches!(step.op, NodeOp::StateMachine { .. });
        // Outputs are taken out while the kernel runs: a step never reads a buffer that it writes.
        if let ([place], 0..=3) = (step.outputs.as_slice(), step.inputs.len()) {
            // Nearly all steps: nothing is set up that is not needed, a block is short.
            let (mut own, lent) = self.store.take(*place, columns);
            let input = |i: usize| {
                step.inputs.get(i).map_or(Rows::NONE, |p| self.store.input(*p, (t0, t1), fields, columns))
            };
            let inputs = [input(0), input(1), input(2)];
            let begin = self.store.begin(*place);
            let mut output = [target(begin, &mut own, lent, (t0, t1))];
            if early {
                output.iter_mut().for_each(|out| out.fill([f64::NAN; L]));
            } else if let Some(kernel) = self.kernels.get_mut(at) {
                let inputs = inputs.get(..step.inputs.len()).unwrap_or(&inputs);
                let (start, simd) = (step.start, self.simd);
                kernel.run(&mut Block { inputs, outputs: &mut output, t0, t1, start, simd });
            }
            return self.store.put(*place, own, lent, columns);
        }
        let mut taken: [(Buffer<L>, &mut [Row<L>]); MOST_PORTS] = Default::default();
        for (slot, place) in taken.iter_mut().zip(&step.outputs) {
            *slot = self.store.take(*place, columns);
        }
        let mut inputs = [Rows::<L>::NONE; MOST_PORTS];
        for (rows, place) in inputs.iter_mut().zip(&step.inputs) {
            *rows = self.store.input(*place, (t0, t1), fields, columns);
        }
        let mut outputs: [&mut [Row<L>]; MOST_PORTS] = Default::default();
        for ((out, place), (own, lent)) in outputs.iter_mut().zip(&step.outputs).zip(&mut taken) {
            *out = target(self.store.begin(*place), own, lent, (t0, t1));
        }
        let outputs = outputs.get_mut(..step.outputs.len()).unwrap_or_default();
        if early {
            outputs.iter_mut().for_each(|out| out.fill([f64::NAN; L]));
        } else if let Some(kernel) = self.kernels.get_mut(at) {
            let inputs = inputs.get(..step.inputs.len()).unwrap_or(&inputs);
            kernel.run(&mut Block { inputs, outputs, t0, t1, start: step.start, simd: self.simd });
        }
        for (place, (own, lent)) in step.outputs.iter().zip(taken) {
            self.store.put(*place, own, lent, columns);
        }
    }
}

/// Is it so of a step that no compiled loop has?
fn any_kernel(plan: &Plan, native: Option<&Native>, is: impl Fn(&Step) -> bool) -> bool {
    let all = [Unit::Steps(0..plan.steps.len())];
    let units = native.map_or(&all as &[Unit], |n| &n.units);
    units.iter().any(|unit| match unit {
        Unit::Steps(range) => plan.steps.get(range.clone()).is_some_and(|steps| steps.iter().any(&is)),
        Unit::Group { .. } => false,
    })
}

/// Is a buffer written by a step that no compiled loop has?
fn by_kernel(plan: &Plan, native: Option<&Native>, buffer: usize) -> bool {
    any_kernel(plan, native, |step| step.outputs.iter().any(|place| place.buffer == buffer))
}

/// Is a buffer read by a step that no compiled loop has, or written out?
fn read_by_kernels(plan: &Plan, native: Option<&Native>, buffer: usize) -> bool {
    any_kernel(plan, native, |step| step.inputs.iter().any(|place| place.buffer == buffer))
        || plan.outputs.iter().any(|place| place.buffer == buffer)
}

/// Bars of the results that lie in a cache line whose beginning is not theirs.
fn beyond_line(column: &[f64]) -> usize {
    column.as_ptr() as usize % LINE / size_of::<f64>()
}

/// No value before the first valid bar; the column begins at bar `t0`.
fn silence(column: &mut [f64], t0: usize, start: usize) {
    let n = start.saturating_sub(t0).min(column.len());
    column.iter_mut().take(n).for_each(|x| *x = f64::NAN);
}

/// Writes a column of each lane side by side; one that ends earlier is continued with its last value.
fn gather<'c>(
    column: impl Fn(usize) -> &'c [f64],
    (t0, t1): (usize, usize),
    rows: &mut [Row<LANES>],
    (simd, ask): (Simd, bool),
) {
    let lanes: [&[f64]; LANES] = std::array::from_fn(&column);
    if let Some(lanes) = every(lanes.map(|lane| lane.get(t0..t1))) {
        return turn::together(&lanes, rows, simd, ask);
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
