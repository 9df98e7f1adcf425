//! Matrix transpose: `out[j][i] = in[i][j]` over the last two dimensions of two or three. Cache-blocked; a bit-exact copy of
//! words.

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
};

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    cost::{count, elements},
    op::{Items, stack},
    record::{groups, size, word},
    view::{cast_slice, cast_slice_mut, exactly, exactly_mut, slice_rows, tensor},
};

const OP: &str = "transpose";
/// Side of a cache block: one cache line of words.
const SIDE: usize = 16;
/// Rows of the result processed together, so that a page of the input serves several cache lines (TLB).
const STRIPE: usize = 64;
/// Fewest words per thread.
const PER_THREAD: usize = 1 << 16;

/// A kernel configuration: variant, shader text, tile rows and columns, and whether it moves vectors of four words.
struct KernelConfig {
    variant: Variant,
    body: &'static str,
    tile: (usize, usize),
    four: bool,
}

const DIRECT: KernelConfig = KernelConfig {
    variant: Variant::PLAIN,
    body: include_str!("../shader/transpose_direct.wgsl"),
    tile: (16, 4),
    four: false,
};
const TILED: KernelConfig = KernelConfig {
    variant: Variant::new(256, 1, 4),
    body: include_str!("../shader/transpose_tiled.wgsl"),
    tile: (32, 32),
    four: false,
};
const BLOCK: KernelConfig = KernelConfig {
    variant: Variant::new(64, 4, 16),
    body: include_str!("../shader/transpose_block.wgsl"),
    tile: (32, 32),
    four: true,
};
const VARIANTS: &[Variant] = &[TILED.variant, BLOCK.variant, DIRECT.variant];

/// The transpose operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Transpose {
    data: Tensor,
}

/// Swaps the last two dimensions of a matrix or of a batch of them.
pub fn transpose(data: &Tensor) -> Transpose {
    Transpose { data: data.clone() }
}

/// Dimensions of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dims {
    batch: usize,
    rows: usize,
    columns: usize,
}

impl Transpose {
    fn dims(&self) -> Option<Dims> {
        match self.data.spec().shape.as_slice() {
            [rows, columns] => Some(Dims { batch: 1, rows: *rows, columns: *columns }),
            [batch, rows, columns] => Some(Dims { batch: *batch, rows: *rows, columns: *columns }),
            _ => None,
        }
    }

    /// The dimensions, after [`Op::outputs`] has checked them.
    fn known(&self) -> Dims {
        self.dims().unwrap_or(Dims { batch: 0, rows: 0, columns: 0 })
    }

    fn batched(&self) -> bool {
        self.data.spec().shape.len() == 3
    }
}

impl Op for Transpose {
    fn kind(&self) -> OpKind {
        OpKind::Transpose
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let TensorSpec { dtype, shape, .. } = self.data.spec().clone();
        if dtype.bytes() != 4 {
            return Err(OpError::DType { op: OP, what: "the data", want: DType::F32, have: dtype });
        }
        let Some(Dims { batch, rows, columns }) = self.dims() else {
            let limit = "it must be a matrix, or a batch of them with the batch first";
            return Err(OpError::Value { op: OP, what: "the shape", have: format!("{shape:?}"), limit });
        };
        let shape = if self.batched() { vec![batch, columns, rows] } else { vec![columns, rows] };
        Ok(vec![TensorSpec { dtype, shape, tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let bytes = size(&self.data);
        OpCost { units: elements(&self.data), flops: 0, read: bytes, written: bytes, launches: 1, depth: 1 }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (data, out): (&[u32], &mut [u32]) = (cast_slice(OP, data)?, cast_slice_mut(OP, out)?);
        let Dims { batch, rows, columns } = self.known();
        let all = batch * rows * columns;
        for have in [data.len(), out.len()] {
            if have != all {
                return Err(OpError::Call { op: OP, what: "words", want: all, have });
            }
        }
        let item = (rows * columns).max(1);
        let transpose_item = |i: usize, out: &mut [u32], threads: usize| {
            let data = data.get(i * item..(i + 1) * item).unwrap_or_default();
            transpose_matrix(data, out, (rows, columns), threads);
        };
        let threads = threads.0.min(all / PER_THREAD);
        if threads > 1 && batch >= threads {
            Threads(threads)
                .par_for_each(out.chunks_mut(item).enumerate(), |(i, out)| transpose_item(i, out, 1));
        } else {
            out.chunks_mut(item).enumerate().for_each(|(i, out)| transpose_item(i, out, threads));
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [data] = exactly(OP, "inputs", inputs)?;
        let Dims { batch, rows, columns } = self.known();
        let variant = target.variant(OpKind::Transpose, VARIANTS);
        let four = rows.is_multiple_of(4) && columns.is_multiple_of(4) && rows * columns > 0;
        let config = match VARIANTS.iter().position(|v| *v == variant) {
            Some(1) if four => BLOCK,
            Some(1 | 2) => DIRECT,
            _ => TILED,
        };
        let (down, across) = (rows.div_ceil(config.tile.0) as u64, columns.div_ceil(config.tile.1) as u64);
        let tiles = down.saturating_mul(across);
        let all = tiles.saturating_mul(batch as u64);
        word(OP, elements(&self.data))?;
        let params = [rows as u64, columns as u64, across.max(1), tiles.max(1), all, batch as u64];
        let params = params.into_iter().map(|n| word(OP, n)).collect::<Result<Vec<_>, _>>()?;
        let out = plan.slot(size(&self.data), OP);
        plan.dispatch(&kernel(&config), &[*data, out], &params, groups(OP, all)?)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let Dims { batch, columns, .. } = self.known();
        let count = if self.batched() { batch } else { columns };
        Some(Items { count, grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let (Dims { rows, columns, .. }, len) = (self.known(), items.len());
        if self.batched() {
            let data =
                slice_rows(OP, &self.data, items, rows.saturating_mul(columns), vec![len, rows, columns])?;
            return Ok(Arc::new(Transpose { data }));
        }
        // Rows of the result are columns of the input.
        let host = self.data.host();
        let host = host.ok_or(OpError::Call { op: OP, what: "inputs on the host", want: 1, have: 0 })?;
        let bytes = items.start.saturating_mul(4)..items.end.saturating_mul(4);
        let some = host.chunks_exact(columns.max(1).saturating_mul(4)).map(|row| row.get(bytes.clone()));
        let some: Vec<u8> = some.flatten().flatten().copied().collect();
        let spec = TensorSpec { shape: vec![rows, len], ..self.data.spec().clone() };
        Ok(Arc::new(Transpose { data: Tensor::from_bytes(some, spec)? }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let (Dims { rows, columns, .. }, dtype) = (self.dims()?, self.data.spec().dtype);
        let mut hash = std::hash::DefaultHasher::new();
        [rows, columns, dtype as usize].into_iter().for_each(|v| hash.write_usize(v));
        (!self.batched() && self.data.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let TensorSpec { dtype, shape, .. } = self.data.spec().clone();
        let mut all = Vec::with_capacity(group.len());
        for op in group {
            match op.as_any().downcast_ref() {
                Some(Transpose { data }) if data.spec().shape == shape && data.spec().dtype == dtype => {
                    all.push(data)
                }
                _ => return Ok(None),
            }
        }
        let Dims { rows, columns, .. } = self.known();
        let spec = TensorSpec { dtype, shape: vec![group.len(), rows, columns], tag: OP };
        let one = usize::try_from(count(&shape)).unwrap_or(0).saturating_mul(4);
        let Some(data) = stack(all, spec)? else { return Ok(None) };
        Ok(Some(Fused::in_rows(Arc::new(Transpose { data }), group.len(), one)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Transposes one matrix.
fn transpose_matrix(data: &[u32], out: &mut [u32], (rows, columns): (usize, usize), threads: usize) {
    let stripe = |(at, out): (usize, &mut [u32])| stripe(data, out, (rows, columns), at * STRIPE);
    let chunk = (STRIPE * rows).max(1);
    Threads(threads).par_for_each(out.chunks_mut(chunk).enumerate(), stripe);
}

/// Rows of the result from `column` of the input on.
fn stripe(data: &[u32], out: &mut [u32], (rows, columns): (usize, usize), column: usize) {
    let some = out.len() / rows.max(1);
    for row in (0..rows).step_by(SIDE) {
        for at in (0..some).step_by(SIDE) {
            let (high, wide) = (SIDE.min(rows - row), SIDE.min(some - at));
            let (from, to) = (row * columns + column + at, at * rows + row);
            let (Some(data), Some(out)) = (data.get(from..), out.get_mut(to..)) else { return };
            if (high, wide) == (SIDE, SIDE) {
                transpose_block(data, out, (columns, rows));
            } else {
                transpose_edge(data, out, (columns, rows), (high, wide));
            }
        }
    }
}

/// A full block, transposed while it is loaded into an array that stays in L1: each cache line is read once and written once.
/// Transposing on the way out instead was slower for power-of-two sizes.
fn transpose_block(data: &[u32], out: &mut [u32], (from, to): (usize, usize)) {
    let mut block = [[0u32; SIDE]; SIDE];
    for (i, row) in data.chunks(from).take(SIDE).enumerate() {
        if let Some(words) = row.first_chunk::<SIDE>() {
            for (line, word) in block.iter_mut().zip(words) {
                if let Some(slot) = line.get_mut(i) {
                    *slot = *word;
                }
            }
        }
    }
    for (line, row) in block.iter().zip(out.chunks_mut(to)) {
        if let Some(words) = row.first_chunk_mut::<SIDE>() {
            *words = *line;
        }
    }
}

fn transpose_edge(data: &[u32], out: &mut [u32], (from, to): (usize, usize), (high, wide): (usize, usize)) {
    for (j, row) in out.chunks_mut(to).take(wide).enumerate() {
        for (i, word) in row.iter_mut().take(high).enumerate() {
            *word = data.get(i * from + j).copied().unwrap_or(0);
        }
    }
}

fn kernel(config: &KernelConfig) -> Arc<Kernel> {
    let head = include_str!("../shader/transpose.wgsl");
    let head = head.replace("WORDS", if config.four { "vec4<u32>" } else { "u32" });
    Arc::new(Kernel {
        name: OP.into(),
        wgsl: [head.as_str(), config.body].concat().into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(cpu_reference),
    })
}

fn cpu_reference(call: &mut KernelCall<'_>) -> Result<(), CpuReferenceError> {
    let refuse =
        || CpuReferenceError { kernel: OP.into(), why: "needs 6 parameters, 1 input, 1 output".into() };
    let [rows, columns, _, _, _, batch] = call.params else { return Err(refuse()) };
    let [rows, columns, batch] = [rows, columns, batch].map(|v| *v as usize);
    let ([data], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) else { return Err(refuse()) };
    let data: Vec<u32> = words(data).collect();
    let mut all = Vec::with_capacity(batch * rows * columns);
    for item in data.chunks_exact((rows * columns).max(1)).take(batch) {
        for j in 0..columns {
            all.extend((0..rows).filter_map(|i| item.get(i * columns + j)));
        }
    }
    put_words(out, all.into_iter());
    Ok(())
}

/// Calibration example: `[rows, columns]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let rows = sizes.first().copied().unwrap_or(64);
    let columns = sizes.get(1).copied().unwrap_or(rows);
    let data: Vec<u32> = (0..rows.saturating_mul(columns)).map(|i| i as u32).collect();
    Ok(Arc::new(transpose(&tensor(&data, &[rows, columns], OP)?)))
}
