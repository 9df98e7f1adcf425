//! Distances from a source to every cell, as an operation: BFS on the CPU, fast sweeping along axes on a device.
//!
//! **On a device** a dispatch sweeps all lines of one axis forwards and backwards; each cell becomes at most one more than its
//! neighbour on the line. A round sweeps every axis. Without blocked cells one round is exact. With blocked cells a fixed number of
//! rounds is recorded, and a last round detects whether anything still changed: if so, the result is rejected ([`Op::guard`]) and
//! the CPU computes it. Lines are split into segments of [`SEGMENT`] cells.
//!
//! **Distances** are integers: bit-identical on every backend. [`UNREACHED`] and [`BLOCKED`] mark cells without a distance.

use std::{
    any::Any,
    hash::{Hash as _, Hasher as _},
    ops::Range,
    sync::Arc,
};

use gpuforge_ops::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads,
    op::Items,
    record::{groups, size, word},
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, slice_rows, tensor},
};
use gpuforge_runtime::{
    host::HostBytes,
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
};

pub use super::bfs::{BLOCKED, UNREACHED};
use super::{
    Lattice, LatticeError,
    bfs::{AxisStride, axis_strides, bfs, distance_field, fill_open},
};

const OP: &str = "lattice-distances";
/// Without blocked cells the cost differs: its own op class.
const OPEN: &str = "lattice-distances-open";
/// Most cells: 1 GiB of words.
pub const MAX_DISTANCES: u64 = 1 << 28;
/// Cells of a line per invocation, forwards and backwards: software adapters cut long loops.
pub const SEGMENT: u32 = 8192;
/// Most dispatches per plan.
const MAX_DISPATCHES: u32 = 4096;
/// Workgroup size, as in the shader.
const GROUP: u64 = 64;

/// The operation; see the module documentation. Several lattices of one shape are concatenated.
#[derive(Debug, Clone)]
pub struct Distances {
    axes: Vec<AxisStride>,
    /// Cells of one lattice.
    cells: usize,
    /// Initial field of all lattices: 0 at sources, else blocked or unreached.
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
        if cells > MAX_DISTANCES {
            return Err(LatticeError::TooLarge { what: "distances", cells, most: MAX_DISTANCES });
        }
        sources.iter().try_for_each(|s| lattice.check_end("source", *s))?;
        let mut start = distance_field(lattice);
        for source in sources {
            start.get_mut(*source as usize).into_iter().for_each(|word| *word = 0);
        }
        let start = tensor(&start, &[start.len()], "lattice")?;
        let open = lattice.blocked().is_none();
        let rounds = if open { 1 } else { estimated_rounds(lattice) };
        Ok(Distances { axes: axis_strides(grid.axes()), cells: cells as usize, start, rounds, open })
    }

    /// Number of sweep rounds on a device before convergence is checked.
    #[must_use]
    pub fn rounds(self, rounds: u32) -> Self {
        Distances { rounds: rounds.max(1), ..self }
    }

    /// Number of lattices.
    fn count(&self) -> usize {
        self.words() / self.cells.max(1)
    }

    fn words(&self) -> usize {
        usize::try_from(size(&self.start).0 / 4).unwrap_or(usize::MAX)
    }

    /// Dispatches per round: segments of an axis forwards, and backwards again.
    fn per_round(&self) -> u32 {
        self.axes.iter().map(|l| 2 * l.size.div_ceil(SEGMENT) - 1).sum::<u32>().max(1)
    }

    /// Rounds that fit into one plan.
    fn recorded(&self) -> u32 {
        self.rounds.min((MAX_DISPATCHES / self.per_round()).saturating_sub(1)).max(1)
    }

    fn single(&self, start: &[u32], field: &mut [u32]) {
        field.copy_from_slice(start);
        let sources = (0u32..).zip(start).filter(|(_, word)| **word == 0).map(|(cell, _)| cell);
        let mut queue: Vec<u32> = sources.collect();
        match queue.as_slice() {
            [source] if self.open => fill_open(&self.axes, *source, field),
            _ => bfs(&self.axes, field, &mut queue),
        }
    }

    fn round(&self, plan: &mut Plan, slots: [Slot; 2], note: bool) -> Result<(), OpError> {
        for line in &self.axes {
            let many = self.words() as u64 / u64::from(line.size);
            let segments: Vec<u32> = (0..line.size).step_by(SEGMENT as usize).collect();
            for from in segments.iter().chain(segments.iter().rev().skip(1)) {
                let to = from.saturating_add(SEGMENT).min(line.size);
                let params = [word(OP, many)?, line.stride, line.size, *from, to, u32::from(note)];
                plan.dispatch(&kernel(), &slots, &params, groups(OP, many.div_ceil(GROUP))?)?;
            }
        }
        Ok(())
    }
}

/// Estimated number of rounds needed around blocked cells; when it is too low, the CPU computes the result.
fn estimated_rounds(lattice: &Lattice) -> u32 {
    let grid = lattice.grid();
    let share = lattice.blocked().map_or(0.0, |b| b.count() as f64 / b.cells().max(1) as f64);
    let longest = grid.sizes().into_iter().max().unwrap_or(1) as f64;
    // Powers of two, so that similar lattices of one shape can still be fused.
    ((4.0 + 2.0 * share * longest).min(1e6) as u32).next_power_of_two()
}

impl Op for Distances {
    fn kind(&self) -> OpKind {
        OpKind::Custom
    }

    fn name(&self) -> &str {
        if self.open { OPEN } else { OP }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.start]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        Ok(vec![TensorSpec { dtype: DType::U32, shape: vec![self.words()], tag: "lattice" }])
    }

    fn cost(&self) -> OpCost {
        let launches = self.per_round().saturating_mul(self.recorded() + u32::from(!self.open));
        let (units, bytes) = (self.words() as u64, size(&self.start));
        let flops = units.saturating_mul(2 * self.axes.len() as u64);
        OpCost { units, flops, read: bytes, written: bytes, launches, depth: launches }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [start] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (start, out) = (cast_slice::<u32>(OP, start)?, cast_slice_mut::<u32>(OP, out)?);
        let each = self.cells.max(1);
        threads.par_for_each(start.chunks(each).zip(out.chunks_mut(each)), |(start, out)| {
            self.single(start, out)
        });
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
        let start = slice_rows(OP, &self.start, items, self.cells, vec![words])?;
        Ok(Arc::new(Distances { start, axes: self.axes.clone(), ..*self }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        (&self.axes, self.rounds, self.open).hash(&mut hash);
        (self.count() == 1 && self.start.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let mut segments = Vec::with_capacity(group.len());
        for op in group {
            let Some(one) = op.as_any().downcast_ref::<Distances>() else { return Ok(None) };
            let (Some(bytes), true) = (one.start.host(), one.axes == self.axes) else { return Ok(None) };
            segments.push(bytes);
        }
        let n = self.cells * group.len();
        let spec = TensorSpec { dtype: DType::U32, shape: vec![n], tag: "lattice" };
        let start = Tensor::from_bytes(HostBytes::from_chunks(segments), spec)?;
        let bytes = self.cells * 4;
        let range = |i: usize| std::iter::once(i * bytes..(i + 1) * bytes).collect();
        let op = Distances { start, axes: self.axes.clone(), ..*self };
        Ok(Some(Fused { op: Arc::new(op), output_ranges: (0..group.len()).map(range).collect() }))
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
        cpu_reference: Arc::new(cpu_reference),
    })
}

fn cpu_reference(call: &mut KernelCall<'_>) -> Result<(), CpuReferenceError> {
    let wrong =
        || CpuReferenceError { kernel: "lattice sweep".into(), why: "needs 6 parameters, 2 buffers".into() };
    let [many, stride, size, from, to, note, ..] = *call.params else { return Err(wrong()) };
    let [bytes, unfinished] = call.outputs.as_mut_slice() else { return Err(wrong()) };
    let mut field: Vec<u32> = words(bytes).collect();
    let mut changed = false;
    for line in 0..many {
        let begin = line / stride.max(1) * stride * size + line % stride.max(1);
        let at = |coordinate: u32| (begin + coordinate * stride) as usize;
        let beside = |d: Option<&u32>| d.map_or(UNREACHED, |d| if *d >= BLOCKED { UNREACHED } else { d + 1 });
        let before = from.checked_sub(1).map(at);
        let mut most = beside(before.and_then(|i| field.get(i)));
        let there = from..to;
        let behind = (to < size).then(|| at(to));
        for (turn, coordinate) in
            there.clone().map(|p| (false, p)).chain(there.clone().rev().map(|p| (true, p)))
        {
            if turn && coordinate + 1 == to {
                most = beside(behind.and_then(|i| field.get(i)));
            }
            if let Some(here) = field.get_mut(at(coordinate)) {
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
