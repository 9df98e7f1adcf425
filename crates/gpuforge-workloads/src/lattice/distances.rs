//! How far is every cell from a source? An operation: on the processor breadth first, on a device as fronts along lines.
//!
//! **On a device** a dispatch runs along all lines of one axis at once, there and back; each cell becomes at most one more than
//! its neighbour on the line. A round does so for every axis. Where nothing is blocked one round is exact. Around blocked
//! cells rounds are repeated, a given number of times, and a last round tells whether anything still changed: if so, the
//! result is not believed ([`Op::guard`]) and the processor computes it. Lines are cut into pieces of [`PIECE`] cells.
//!
//! **Numbers** are whole: results have the same bits everywhere. [`UNREACHED`] and [`BLOCKED`] stand for cells without a distance.

use std::{
    any::Any,
    hash::{Hash as _, Hasher as _},
    ops::Range,
    sync::Arc,
};

use gpuforge_ops::{
    Effort, Fused, Kind, Op, OpError, Target, Threads,
    op::Items,
    record::{groups, size, word},
    view::{exactly, exactly_mut, numbers, numbers_mut, slice, tensor},
};
use gpuforge_runtime::{
    host::HostBytes,
    kernel::{Access, Call, Kernel, TwinError, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Spec, Tensor},
};

pub use super::flood::{BLOCKED, UNREACHED};
use super::{
    Lattice, LatticeError,
    flood::{Line, field, fill_open, flood, lines},
};

const OP: &str = "lattice-distances";
/// Without blocked cells it is other work, with a curve of its own.
const OPEN: &str = "lattice-distances-open";
/// The most cells: 1 GiB of words.
pub const MOST_DISTANCES: u64 = 1 << 28;
/// Cells of a line that one invocation visits, there and back: software adapters cut long loops.
pub const PIECE: u32 = 8192;
/// Dispatches of one plan.
const MOST_DISPATCHES: u32 = 4096;
/// Invocations per group, as in the shader.
const GROUP: u64 = 64;

/// See the module's documentation. Several lattices of one shape lie one after the other.
#[derive(Debug, Clone)]
pub struct Distances {
    lines: Vec<Line>,
    /// Cells of one lattice.
    cells: usize,
    /// Words of all: 0 at sources, else blocked or not reached.
    start: Tensor,
    rounds: u32,
    open: bool,
}

impl Distances {
    /// From one open cell.
    pub fn new(lattice: &Lattice, source: u64) -> Result<Self, LatticeError> {
        Distances::from_any(lattice, &[source])
    }

    /// From the nearest of several open cells.
    pub fn from_any(lattice: &Lattice, sources: &[u64]) -> Result<Self, LatticeError> {
        let grid = lattice.grid();
        let cells = grid.vertices();
        if cells > MOST_DISTANCES {
            return Err(LatticeError::TooLarge { what: "distances", cells, most: MOST_DISTANCES });
        }
        sources.iter().try_for_each(|s| lattice.end("source", *s))?;
        let mut start = field(lattice);
        for source in sources {
            start.get_mut(*source as usize).into_iter().for_each(|word| *word = 0);
        }
        let start = tensor(&start, &[start.len()], "lattice")?;
        let open = lattice.blocked().is_none();
        let rounds = if open { 1 } else { usual_rounds(lattice) };
        Ok(Distances { lines: lines(grid.axes()), cells: cells as usize, start, rounds, open })
    }

    /// How often a device goes along all axes before it looks whether that was enough.
    #[must_use]
    pub fn rounds(self, rounds: u32) -> Self {
        Distances { rounds: rounds.max(1), ..self }
    }

    /// Lattices in one.
    fn count(&self) -> usize {
        self.words() / self.cells.max(1)
    }

    fn words(&self) -> usize {
        usize::try_from(size(&self.start).0 / 4).unwrap_or(usize::MAX)
    }

    /// Dispatches of one round: pieces of an axis there, and back again.
    fn per_round(&self) -> u32 {
        self.lines.iter().map(|l| 2 * l.size.div_ceil(PIECE) - 1).sum::<u32>().max(1)
    }

    /// Rounds that fit into a plan.
    fn recorded(&self) -> u32 {
        self.rounds.min((MOST_DISPATCHES / self.per_round()).saturating_sub(1)).max(1)
    }

    fn alone(&self, start: &[u32], field: &mut [u32]) {
        field.copy_from_slice(start);
        let sources = (0u32..).zip(start).filter(|(_, word)| **word == 0).map(|(cell, _)| cell);
        let mut queue: Vec<u32> = sources.collect();
        match queue.as_slice() {
            [source] if self.open => fill_open(&self.lines, *source, field),
            _ => flood(&self.lines, field, &mut queue),
        }
    }

    fn round(&self, plan: &mut Plan, slots: [Slot; 2], note: bool) -> Result<(), OpError> {
        for line in &self.lines {
            let many = self.words() as u64 / u64::from(line.size);
            let pieces: Vec<u32> = (0..line.size).step_by(PIECE as usize).collect();
            for from in pieces.iter().chain(pieces.iter().rev().skip(1)) {
                let to = from.saturating_add(PIECE).min(line.size);
                let params = [word(OP, many)?, line.stride, line.size, *from, to, u32::from(note)];
                plan.dispatch(&kernel(), &slots, &params, groups(OP, many.div_ceil(GROUP))?)?;
            }
        }
        Ok(())
    }
}

/// A guess at how often paths around blocked cells turn; when it is too low, the processor computes it.
fn usual_rounds(lattice: &Lattice) -> u32 {
    let grid = lattice.grid();
    let share = lattice.blocked().map_or(0.0, |b| b.count() as f64 / b.cells().max(1) as f64);
    let longest = grid.sizes().into_iter().max().unwrap_or(1) as f64;
    // Powers of two: lattices of one shape that differ a little in their blocked cells can still be fused.
    ((4.0 + 2.0 * share * longest).min(1e6) as u32).next_power_of_two()
}

impl Op for Distances {
    fn kind(&self) -> Kind {
        Kind::Custom
    }

    fn name(&self) -> &str {
        if self.open { OPEN } else { OP }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.start]
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        Ok(vec![Spec { dtype: DType::U32, shape: vec![self.words()], tag: "lattice" }])
    }

    fn effort(&self) -> Effort {
        let launches = self.per_round().saturating_mul(self.recorded() + u32::from(!self.open));
        let (units, bytes) = (self.words() as u64, size(&self.start));
        let flops = units.saturating_mul(2 * self.lines.len() as u64);
        Effort { units, flops, read: bytes, written: bytes, launches, depth: launches }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [start] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (start, out) = (numbers::<u32>(OP, start)?, numbers_mut::<u32>(OP, out)?);
        let each = self.cells.max(1);
        threads.each(start.chunks(each).zip(out.chunks_mut(each)), |(start, out)| self.alone(start, out));
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], _target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [start] = exactly(OP, "inputs", inputs)?;
        let field = plan.copy(*start, "lattice")?;
        let unfinished = plan.upload(vec![0u8; 4], "lattice")?;
        for _ in 0..self.recorded() {
            self.round(plan, [field, unfinished], false)?;
        }
        if self.open {
            return Ok(vec![field]);
        }
        self.round(plan, [field, unfinished], true)?;
        Ok(vec![field, unfinished])
    }

    fn guard(&self) -> Option<usize> {
        (!self.open).then_some(1)
    }

    fn items(&self) -> Option<Items> {
        let count = self.count();
        (count > 1).then_some(Items { count, grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let words = items.len() * self.cells;
        let start = slice(OP, &self.start, items, self.cells, vec![words])?;
        Ok(Arc::new(Distances { start, lines: self.lines.clone(), ..*self }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        (&self.lines, self.rounds, self.open).hash(&mut hash);
        (self.count() == 1 && self.start.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let mut pieces = Vec::with_capacity(group.len());
        for op in group {
            let Some(one) = op.as_any().downcast_ref::<Distances>() else { return Ok(None) };
            let (Some(bytes), true) = (one.start.host(), one.lines == self.lines) else { return Ok(None) };
            pieces.push(bytes);
        }
        let n = self.cells * group.len();
        let spec = Spec { dtype: DType::U32, shape: vec![n], tag: "lattice" };
        let start = Tensor::from_bytes(HostBytes::several(pieces), spec)?;
        let bytes = self.cells * 4;
        let place = |i: usize| std::iter::once(i * bytes..(i + 1) * bytes).collect();
        let op = Distances { start, lines: self.lines.clone(), ..*self };
        Ok(Some(Fused { op: Arc::new(op), places: (0..group.len()).map(place).collect() }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn kernel() -> Arc<Kernel> {
    Arc::new(Kernel {
        name: "lattice sweep".into(),
        wgsl: include_str!("../../shader/lattice_sweep.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Update, Access::Update],
        twin: Arc::new(twin),
    })
}

fn twin(call: &mut Call<'_>) -> Result<(), TwinError> {
    let wrong = || TwinError { kernel: "lattice sweep".into(), why: "needs 6 parameters, 2 buffers".into() };
    let [many, stride, size, from, to, note, ..] = *call.params else { return Err(wrong()) };
    let [bytes, unfinished] = call.outputs.as_mut_slice() else { return Err(wrong()) };
    let mut field: Vec<u32> = words(bytes).collect();
    let mut changed = false;
    for line in 0..many {
        let begin = line / stride.max(1) * stride * size + line % stride.max(1);
        let at = |place: u32| (begin + place * stride) as usize;
        let beside = |d: Option<&u32>| d.map_or(UNREACHED, |d| if *d >= BLOCKED { UNREACHED } else { d + 1 });
        let before = from.checked_sub(1).map(at);
        let mut most = beside(before.and_then(|i| field.get(i)));
        let there = from..to;
        let behind = (to < size).then(|| at(to));
        for (turn, place) in there.clone().map(|p| (false, p)).chain(there.clone().rev().map(|p| (true, p))) {
            if turn && place + 1 == to {
                most = beside(behind.and_then(|i| field.get(i)));
            }
            if let Some(here) = field.get_mut(at(place)) {
                if *here != BLOCKED && most < *here {
                    *here = most;
                    changed = true;
                }
                most = beside(Some(here));
            }
        }
    }
    put_words(bytes, field.into_iter());
    if changed && note == 1 {
        put_words(unfinished, std::iter::once(1));
    }
    Ok(())
}
