//! Prefix scans: [`scan_sum`] (prefix sum), [`scan_max`] (prefix max), both inclusive, and [`scan_affine`], the linear recurrence
//! `y[t] = a[t] · y[t−1] + b[t]` from a start. Of a series `[n]`, or of every row of `[rows, n]`.
//!
//! **Blocked order.** A tile is 1024 elements: runs of 16, eight runs in a segment, eight segments. Each is reduced from its start;
//! the exclusive prefix of a run is `tile + (segments + runs)`, and its elements follow one by one. The prefix of a tile is found
//! from the tile totals in the same way, 1024 tiles at a time. Devices use reduce-then-scan in three passes instead of decoupled
//! look-back, which needs a forward-progress guarantee between workgroups. The order is part of the result of sums: threads and
//! devices change nothing.
//!
//! | | bit-identical | bound (ε = 2⁻²⁴) |
//! |---|---|---|
//! | max | always: order-preserving integer keys | exact |
//! | sum | where a device adds as IEEE and keeps the order | ε (100 + n/2²⁰) Σ\|x\| |
//! | affine | no: the CPU goes element by element, which is faster there; a device may use FMA and splits into tiles | CPU: `E[t] = \|a\| E[t−1] + 2ε M[t]`; device: that and 2ε (100 + n/2²⁰) `M[t]`, where `M` is the recurrence of the magnitudes and no product of consecutive `a`s or sum overflows |
//!
//! **Non-finite.** Max: from a NaN on, all are NaN (`0x7fc00000`); −0 is below +0. Sum: from a NaN on, or from the second of two
//! different infinities on, all are NaN; from an infinity on (or an overflowing partial sum), all are infinite. Affine: from the
//! first non-finite `a`, `b` or result on, all are NaN. **Denormals.** A device may flush them in sums and affine scans. A prefix
//! sum is never −0.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    cost::elements,
    op::{Items, stack},
    record::{groups, size, word},
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, expect_dtype, slice_rows, tensor},
};

mod cpu;
mod kernel;
mod state;

use kernel::Pass;

/// Elements of a run, of a segment (8 runs) and of a tile (8 segments).
const RUN: usize = 16;
const SEGMENT: usize = 8 * RUN;
const TILE: usize = 8 * SEGMENT;

/// Width 4: each invocation reads its own run; width 1: staged through workgroup memory.
const VARIANTS: &[Variant] = &[Variant::new(64, 4, 16), Variant::new(64, 1, 16)];

/// Which scan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScanKind {
    /// Inclusive prefix sum.
    Sum,
    /// Inclusive prefix max.
    Max,
    /// Affine recurrence `a · y + b`.
    Affine {
        /// Initial value.
        start: f32,
    },
}

impl ScanKind {
    fn name(self) -> &'static str {
        match self {
            ScanKind::Sum => "scan-sum",
            ScanKind::Max => "scan-max",
            ScanKind::Affine { .. } => "scan-affine",
        }
    }

    /// Words of a partial state.
    fn words(self) -> u64 {
        match self {
            ScanKind::Sum => 2,
            ScanKind::Max => 1,
            ScanKind::Affine { .. } => 3,
        }
    }

    fn start(self) -> f32 {
        if let ScanKind::Affine { start } = self { start } else { 0.0 }
    }
}

/// A prefix scan; see the module documentation.
#[derive(Debug, Clone)]
pub struct Scan {
    /// One tensor, or `a` and `b`.
    data: Vec<Tensor>,
    kind: ScanKind,
}

/// Prefix sums of a series or of each row.
pub fn scan_sum(data: &Tensor) -> Scan {
    Scan { data: vec![data.clone()], kind: ScanKind::Sum }
}

/// Prefix maxima of a series or of each row.
pub fn scan_max(data: &Tensor) -> Scan {
    Scan { data: vec![data.clone()], kind: ScanKind::Max }
}

/// `y[t] = a[t] · y[t−1] + b[t]` with `y[−1] = start`, of a series or of each row.
pub fn scan_affine(a: &Tensor, b: &Tensor, start: f32) -> Scan {
    Scan { data: vec![a.clone(), b.clone()], kind: ScanKind::Affine { start } }
}

impl Scan {
    fn whole(&self) -> Option<&Tensor> {
        self.data.first()
    }

    /// Rows and elements per row.
    fn shape(&self) -> (usize, usize) {
        match self.whole().map(|t| t.spec().shape.as_slice()) {
            Some([rows, n]) => (*rows, *n),
            Some([n]) => (1, *n),
            _ => (0, 0),
        }
    }

    fn tiles(&self) -> usize {
        self.shape().1.div_ceil(TILE).max(1)
    }

    fn elements(&self) -> u64 {
        self.whole().map_or(0, elements)
    }
}

impl Op for Scan {
    fn kind(&self) -> OpKind {
        OpKind::Scan
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.data.iter().collect()
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let op = self.kind.name();
        let names = if self.data.len() == 1 { ["the data", ""] } else { ["a", "b"] };
        for (tensor, name) in self.data.iter().zip(names) {
            expect_dtype(op, name, tensor, DType::F32)?;
        }
        if let [a, b] = self.data.as_slice()
            && a.spec().shape != b.spec().shape
        {
            let (left, right) = (a.spec().shape.clone(), b.spec().shape.clone());
            return Err(OpError::Shapes { op, rule: "a and b need one shape", left, right });
        }
        let shape = self.whole().map_or_else(Vec::new, |t| t.spec().shape.clone());
        if !(1..=2).contains(&shape.len()) {
            let have = format!("{shape:?}");
            return Err(OpError::Value {
                op,
                what: "the shape",
                have,
                limit: "it needs one or two dimensions",
            });
        }
        word(op, self.elements())?;
        Ok(vec![TensorSpec { dtype: DType::F32, shape, tag: op }])
    }

    fn cost(&self) -> OpCost {
        let n = self.elements();
        let read = self.data.iter().map(size).sum();
        let passes = if self.tiles() == 1 { 1 } else { 3 };
        let flops = n * self.data.len() as u64;
        OpCost { units: n, flops, read, written: Bytes(4 * n), launches: passes, depth: passes }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let op = self.kind.name();
        let [out] = exactly_mut(op, "outputs", outputs)?;
        let out = cast_slice_mut::<f32>(op, out)?;
        let (_, n) = self.shape();
        if n == 0 {
            return Ok(());
        }
        match self.kind {
            ScanKind::Affine { start } => {
                let [a, b] = exactly(op, "inputs", inputs)?;
                cpu::affine((cast_slice(op, a)?, cast_slice(op, b)?), start, n, out, threads);
            }
            ScanKind::Sum => cpu::rows::<cpu::PrefixSum>(cast_slice(op, one(op, inputs)?)?, n, out, threads),
            ScanKind::Max => cpu::rows::<cpu::PrefixMax>(cast_slice(op, one(op, inputs)?)?, n, out, threads),
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let op = self.kind.name();
        let Some(data) = inputs.first().copied() else {
            return Err(OpError::Call { op, what: "inputs", want: self.data.len(), have: 0 });
        };
        let (rows, n) = self.shape();
        let tiles = self.tiles();
        let all = (rows as u64).saturating_mul(tiles as u64);
        let params = [
            word(op, rows as u64)?,
            word(op, n as u64)?,
            word(op, tiles as u64)?,
            self.kind.start().to_bits(),
        ];
        let staged = target.variant(OpKind::Scan, VARIANTS).width == 1;
        let pass = |plan: &mut Plan, pass, known, to, n| {
            let kernel = kernel::kernel(self.kind, pass, staged);
            let bindings: Vec<Slot> = [data, known, to].into_iter().chain(inputs.get(1).copied()).collect();
            plan.dispatch(&kernel, &bindings, &params, groups(op, n)?).map_err(OpError::from)
        };
        let out = plan.slot(Bytes(4 * self.elements()), op);
        // Rows of one tile need no prefix; the data stand in for the binding.
        if n <= SEGMENT {
            pass(plan, Pass::TinyRows, data, out, (rows as u64).div_ceil(64))?;
            return Ok(vec![out]);
        }
        if tiles == 1 {
            pass(plan, Pass::ShortRows, data, out, all)?;
            return Ok(vec![out]);
        }
        let state = Bytes(all.saturating_mul(4 * self.kind.words()));
        let (totals, offsets) = (plan.slot(state, op), plan.slot(state, op));
        pass(plan, Pass::Totals, data, totals, all)?;
        pass(plan, Pass::Offsets, totals, offsets, rows as u64)?;
        pass(plan, Pass::Elements, offsets, out, all)?;
        plan.free(totals)?;
        plan.free(offsets)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let (rows, _) = self.shape();
        // A single series cannot be partitioned: a later part depends on an earlier one.
        (rows > 1).then_some(Items { count: rows, grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (_, n) = self.shape();
        let cut = |t: &Tensor| slice_rows(self.kind.name(), t, items.clone(), n, vec![items.len(), n]);
        let data = self.data.iter().map(cut).collect::<Result<_, _>>()?;
        Ok(Arc::new(Scan { data, kind: self.kind }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        let (rows, n) = self.shape();
        hash.write(self.kind.name().as_bytes());
        hash.write_u32(self.kind.start().to_bits());
        hash.write_usize(rows);
        hash.write_usize(n);
        self.data.iter().all(|t| t.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let (op, (rows, n)) = (self.kind.name(), self.shape());
        let mut all: Vec<Vec<&Tensor>> = vec![Vec::new(); self.data.len()];
        for one in group {
            let Some(one) = one.as_any().downcast_ref::<Scan>() else { return Ok(None) };
            if (one.kind, one.shape()) != (self.kind, (rows, n)) {
                return Ok(None);
            }
            for (all, tensor) in all.iter_mut().zip(&one.data) {
                all.push(tensor);
            }
        }
        let spec = TensorSpec { dtype: DType::F32, shape: vec![rows * group.len(), n], tag: op };
        let data: Option<Vec<Tensor>> = all
            .into_iter()
            .map(|t| stack(t, spec.clone()).transpose())
            .collect::<Option<Result<_, _>>>()
            .transpose()?;
        let Some(data) = data else { return Ok(None) };
        Ok(Some(Fused::in_rows(Arc::new(Scan { data, kind: self.kind }), group.len(), rows * n * 4)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn one<'a>(op: &'static str, inputs: &[&'a [u8]]) -> Result<&'a [u8], OpError> {
    let [data] = exactly(op, "inputs", inputs)?;
    Ok(data)
}

/// Calibration example: `[elements]` as one series, `[elements, rows]` as rows of equal length; prefix sums.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let rows = sizes.get(1).copied().unwrap_or(1).max(1);
    let x: Vec<f32> = (0..n / rows * rows).map(|i| (i * 7919 % 401) as f32 - 200.0).collect();
    Ok(Arc::new(scan_sum(&tensor(&x, &[rows, n / rows], "scan")?)))
}
