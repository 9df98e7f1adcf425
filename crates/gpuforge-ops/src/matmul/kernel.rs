//! GEMM kernels for devices: generated WGSL variants (register blocking, workgroup tiles, subgroups), all with one CPU reference.
//!
//! The shader text depends on the variant, the dtype, whether rows are aligned to four elements, and whether the sums of an
//! earlier dispatch are added; dimensions are parameters. Half-precision elements are unpacked from words (`unpack2x16float`),
//! which every adapter can do: the optional `f16` of shaders would only help arithmetic that is done in 32 bits here anyway.
//!
//! One variant shares rows of A inside subgroups: the four invocations of a quad need the same rows, so each loads a quarter and
//! broadcasts it in registers. It is offered only where the device has subgroups ([`available_variants`]), and auto-tuning keeps it
//! only where it is the fastest (`cargo xtask bench matmul` compares all variants). naga supports subgroups without the directive
//! `enable subgroups;` and rejects the directive.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use gpuforge_runtime::kernel::{Access, CpuReferenceError, Kernel, KernelCall, floats, put_floats};
use half::{f16, slice::HalfFloatSliceExt as _};

use crate::{OpError, Variant, record::word};

use super::{Dims, OP};

/// A kernel configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelConfig {
    variant: Variant,
    body: &'static str,
    /// Register block: result elements per invocation, rows and columns.
    block: (usize, usize),
    /// Workgroup tile: result elements per workgroup, rows and columns.
    tile: (usize, usize),
    /// Vector loads of A and of B, where rows are aligned?
    wide: (bool, bool),
    /// Do the invocations of a quad share their rows of A? Needs subgroups.
    subgroups: bool,
}

const BLOCK: &str = include_str!("../../shader/matmul_block.wgsl");

/// Quad size: the largest group that subgroups of every size consist of.
const QUAD: usize = 4;

const fn block(group: u32, rows: usize, columns: usize) -> KernelConfig {
    KernelConfig {
        variant: Variant::new(group, 4, (rows * columns) as u32),
        body: BLOCK,
        block: (rows, columns),
        tile: (group as usize / 8 * rows, 8 * columns),
        wide: (true, true),
        subgroups: false,
    }
}

/// Workgroups of 128: no subgroup is larger, so all of them are full.
const SUBGROUP: KernelConfig = KernelConfig {
    body: include_str!("../../shader/matmul_subgroup.wgsl"),
    subgroups: true,
    ..block(128, 8, 8)
};

const TILED_BLOCK: KernelConfig = KernelConfig {
    variant: Variant::new(256, 4, 16),
    body: include_str!("../../shader/matmul_tiled_block.wgsl"),
    block: (4, 4),
    tile: (64, 64),
    wide: (false, true),
    subgroups: false,
};

const TILED: KernelConfig = KernelConfig {
    variant: Variant::new(256, 1, 1),
    body: include_str!("../../shader/matmul_tiled.wgsl"),
    block: (1, 1),
    tile: (16, 16),
    wide: (false, false),
    subgroups: false,
};

const SCALAR: KernelConfig = KernelConfig {
    variant: Variant::PLAIN,
    body: include_str!("../../shader/matmul_plain.wgsl"),
    block: (1, 1),
    tile: (8, 8),
    wide: (false, false),
    subgroups: false,
};

/// Not chosen: register blocks of 16×16, which are faster on a software adapter but take seconds to compile and more registers
/// than a card has. On a software adapter every load costs more than the arithmetic, so large register blocks win there.
const CONFIGS: [KernelConfig; 6] = [block(64, 8, 8), block(64, 4, 4), TILED_BLOCK, TILED, SCALAR, SUBGROUP];

/// All variants; those that need subgroups come last.
pub(super) const VARIANTS: &[Variant] = &{
    let [a, b, c, d, e, f] = CONFIGS;
    [a.variant, b.variant, c.variant, d.variant, e.variant, f.variant]
};

/// Variants for a device with these subgroup sizes (min, max); the driver chooses among them.
pub(super) fn available_variants(subgroup: Option<(u32, u32)>) -> &'static [Variant] {
    let whole = |n: u32| n.is_power_of_two() && n as usize >= QUAD && n <= SUBGROUP.variant.group;
    match subgroup {
        Some((min, max)) if whole(min) && whole(max) => VARIANTS,
        _ => VARIANTS.split_last().map_or(VARIANTS, |(_, others)| others),
    }
}

/// Cache key of a generated shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ShaderKey {
    variant: Variant,
    half: bool,
    /// Rows of A and B are aligned to four elements.
    aligned: bool,
    /// Adds the sums of an earlier dispatch (split-k).
    adds: bool,
}

/// The configuration of a variant.
pub(super) fn config(variant: Variant) -> KernelConfig {
    let found = CONFIGS.iter().find(|m| m.variant == variant);
    found.copied().unwrap_or(SCALAR)
}

impl KernelConfig {
    /// Tiles of one product: per row, and in total.
    fn tiles(&self, dims: &Dims) -> (u64, u64) {
        let (across, down) = (dims.n.div_ceil(self.tile.1) as u64, dims.m.div_ceil(self.tile.0) as u64);
        (across, across.saturating_mul(down))
    }

    /// Number of workgroups of a dispatch.
    pub(super) fn groups(&self, dims: &Dims) -> u64 {
        self.tiles(dims).1.saturating_mul(dims.batch as u64)
    }

    /// Parameter words of a dispatch over a depth range.
    pub(super) fn params(&self, dims: &Dims, steps: std::ops::Range<usize>) -> Result<Vec<u32>, OpError> {
        let (across, tiles) = self.tiles(dims);
        let right = if dims.shared { 0 } else { dims.right() };
        let all = [
            dims.m as u64,
            dims.n as u64,
            dims.k as u64,
            steps.start as u64,
            steps.end as u64,
            across.max(1),
            tiles.max(1),
            self.groups(dims),
            dims.left(),
            right,
            dims.batch as u64,
        ];
        // Element indices must fit u32, too.
        for count in [dims.left(), dims.right(), dims.result()] {
            word(OP, count.saturating_mul(dims.batch as u64))?;
        }
        all.into_iter().map(|n| word(OP, n)).collect()
    }

    /// The kernel; generated once.
    pub(super) fn kernel(&self, dims: &Dims, half: bool, adds: bool) -> Arc<Kernel> {
        static CACHE: LazyLock<Mutex<HashMap<ShaderKey, Arc<Kernel>>>> = LazyLock::new(Mutex::default);
        let some = dims.m > 0 && dims.k > 0 && dims.n > 0;
        let aligned = self.wide.1 && some && dims.k.is_multiple_of(4) && dims.n.is_multiple_of(4);
        let key = ShaderKey { variant: self.variant, half, aligned, adds };
        let mut made = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(key).or_insert_with(|| self.make(key)).clone()
    }

    fn make(&self, key: ShaderKey) -> Arc<Kernel> {
        let mut bindings = vec![Access::Read; if key.adds { 3 } else { 2 }];
        bindings.push(Access::Write);
        Arc::new(Kernel {
            name: OP.into(),
            wgsl: self.text(key).into(),
            entry: "main",
            bindings,
            cpu_reference: Arc::new(move |call| cpu_reference(call, key.half)),
        })
    }

    fn text(&self, key: ShaderKey) -> String {
        let (left, right) = (key.aligned && self.wide.0, key.aligned);
        let head = include_str!("../../shader/matmul.wgsl");
        let head = head
            .replace("LEFT", element_type(key.half, left))
            .replace("RIGHT", element_type(key.half, right));
        let loads = [loads("a", key.half, left), loads("b", key.half, right)].concat();
        let (rows, columns) = self.block;
        let body = self.body.replace("GROUP", &self.variant.group.to_string());
        let body = body.replace("ROWS", &rows.to_string()).replace("COLUMNS", &columns.to_string());
        let body = body.replace("TALL", &self.tile.0.to_string()).replace("WIDE", &self.tile.1.to_string());
        let (start, ends) = (self.start(), ends(self.block));
        let (steps, rest) = match (self.subgroups || self.body == BLOCK, self.block.0) {
            (true, _) => (self.block_steps(), if key.aligned { String::new() } else { self.block_rest() }),
            (false, 1) => (tiled_steps(), String::new()),
            (false, _) => (tiled_block_steps(), String::new()),
        };
        let body = body
            .replace("START", &start)
            .replace("STEPS", &steps)
            .replace("REST", &rest)
            .replace("ENDS", &ends);
        [head, stores(key), loads, body].concat()
    }

    /// Accumulators of a register block, and the offsets of the rows of A this invocation loads; rows below the last repeat it and are
    /// never stored.
    fn start(&self) -> String {
        let (rows, columns) = self.block;
        let (step, own) = if self.subgroups { (QUAD, " + mine") } else { (1, "") };
        let mut text = String::new();
        for r in (0..rows).step_by(step) {
            let _ = writeln!(text, "    let r{r} = t.a + min(row + {r}u{own}, m - 1u) * p.v[0].z;");
        }
        for (r, q) in (0..rows).flat_map(|r| (0..columns / 4).map(move |q| (r, q))) {
            let _ = writeln!(text, "    var c{r}_{q} = vec4<f32>();");
        }
        text
    }

    /// Loads of A for a register block: `a0` and so on, one element or four of each row.
    fn rows(&self, load: &str) -> String {
        let mut text = String::new();
        for r in 0..self.block.0 {
            let (from, lane) = (r / QUAD * QUAD, r % QUAD);
            if self.subgroups && lane == 0 {
                let _ = writeln!(text, "        let own{from} = {load}(r{from} + i);");
            }
            let _ = match self.subgroups {
                true => writeln!(text, "        let a{r} = quadBroadcast(own{from}, {lane}u);"),
                false => writeln!(text, "        let a{r} = {load}(r{r} + i);"),
            };
        }
        text
    }

    /// Four unrolled steps of the dot products of a register block.
    fn block_steps(&self) -> String {
        let (rows, columns) = self.block;
        let mut text = self.rows("four_a");
        for s in ["x", "y", "z", "w"] {
            for q in 0..columns / 4 {
                let _ = writeln!(text, "        let b{q}{s} = four_b(at + {}u);", q * 4);
            }
            for (r, q) in (0..rows).flat_map(|r| (0..columns / 4).map(move |q| (r, q))) {
                let _ = writeln!(text, "        c{r}_{q} += a{r}.{s} * b{q}{s};");
            }
            text.push_str("        at += n;\n");
        }
        text
    }

    /// Remainder steps (depth not a multiple of four).
    fn block_rest(&self) -> String {
        let (rows, columns) = self.block;
        let mut text = String::from("    for (; i < last; i += 1u) {\n");
        for q in 0..columns / 4 {
            let _ = writeln!(text, "        let b{q} = four_b(at + {}u);", q * 4);
        }
        text.push_str(&self.rows("one_a"));
        for (r, q) in (0..rows).flat_map(|r| (0..columns / 4).map(move |q| (r, q))) {
            let _ = writeln!(text, "        c{r}_{q} += a{r} * b{q};");
        }
        text.push_str("        at += n;\n    }\n");
        text
    }
}

/// WGSL element type of a binding.
fn element_type(half: bool, four: bool) -> &'static str {
    match (half, four) {
        (false, false) => "f32",
        (false, true) => "vec4<f32>",
        (true, false) => "u32",
        (true, true) => "vec2<u32>",
    }
}

/// WGSL load functions for one element and for four neighbours. Neighbours beyond the end of a row belong to columns that are
/// never stored.
fn loads(name: &str, half: bool, four: bool) -> String {
    let one = match (half, four) {
        (false, false) => "return NAME[i];",
        (false, true) => "return NAME[i / 4u][i % 4u];",
        (true, false) => "return unpack2x16float(NAME[i / 2u])[i % 2u];",
        (true, true) => "return unpack2x16float(NAME[i / 4u][i / 2u % 2u])[i % 2u];",
    };
    let some = match (half, four) {
        (_, false) => "return vec4<f32>(one_NAME(i), one_NAME(i + 1u), one_NAME(i + 2u), one_NAME(i + 3u));",
        (false, true) => "return NAME[i / 4u];",
        (true, true) => "let w = NAME[i / 4u]; return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));",
    };
    let text = "fn one_NAME(i: u32) -> f32 { ONE }\nfn four_NAME(i: u32) -> vec4<f32> { FOUR }\n";
    text.replace("ONE", one).replace("FOUR", some).replace("NAME", name)
}

/// Bindings of the result, and WGSL store functions.
fn stores(key: ShaderKey) -> String {
    let output = if key.aligned { "vec4<f32>" } else { "f32" };
    let (at, before) = if key.adds { (4, "before[at] + ") } else { (3, "") };
    let mut text = String::new();
    if key.adds {
        let _ = writeln!(text, "@group(0) @binding(3) var<storage, read> before: array<{output}>;");
    }
    let _ = writeln!(text, "@group(0) @binding({at}) var<storage, read_write> out: array<{output}>;");
    let _ = writeln!(text, "fn put_one(at: u32, c: {output}) {{ out[at] = {before}c; }}");
    // Rows of the result are aligned to four where those of B are.
    text.push_str(if key.aligned {
        "fn put_four(at: u32, column: u32, c: vec4<f32>) { if (column < p.v[0].y) { put_one(at / 4u, c); } }\n"
    } else {
        "fn put_four(at: u32, column: u32, c: vec4<f32>) {
    let n = p.v[0].y;
    if (column < n) { put_one(at, c.x); }
    if (column + 1u < n) { put_one(at + 1u, c.y); }
    if (column + 2u < n) { put_one(at + 2u, c.z); }
    if (column + 3u < n) { put_one(at + 3u, c.w); }
}\n"
    });
    text
}

fn ends((rows, columns): (usize, usize)) -> String {
    let mut text = String::new();
    for r in 0..rows {
        let _ = writeln!(text, "    if (row + {r}u < m) {{");
        for q in 0..columns / 4 {
            let j = q * 4;
            let _ = writeln!(
                text,
                "        put_four(t.c + (row + {r}u) * n + column + {j}u, column + {j}u, c{r}_{q});"
            );
        }
        text.push_str("    }\n");
    }
    text
}

fn tiled_steps() -> String {
    let step = |s: usize| format!("        c += left[y * 16u + {s}u] * right[{}u + x];\n", s * 16);
    (0..16).map(step).collect()
}

fn tiled_block_steps() -> String {
    let step = |s: usize| {
        let at = s * 16;
        let mut text = format!("        let a{s} = left[{at}u + y];\n        let b{s} = right[{at}u + x];\n");
        for (r, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let _ = writeln!(text, "        c{r}_0 += a{s}.{part} * b{s};");
        }
        text
    };
    (0..16).map(step).collect()
}

/// CPU reference of all variants: sums over a depth range in order, added to the previous sums.
fn cpu_reference(call: &mut KernelCall<'_>, half: bool) -> Result<(), CpuReferenceError> {
    let refuse =
        || CpuReferenceError { kernel: OP.into(), why: "needs 11 parameters and 2 or 3 inputs".into() };
    let [m, n, k, first, last, _, _, _, left, right, batch] = call.params else { return Err(refuse()) };
    let [m, n, k, first, last] = [m, n, k, first, last].map(|v| *v as usize);
    let [left, right, batch] = [left, right, batch].map(|v| *v as usize);
    let ([a, b, before @ ..], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) else {
        return Err(refuse());
    };
    let (a, b) = (widened(a, half), widened(b, half));
    let before: Vec<f32> = before.first().map(|bytes| floats(bytes).collect()).unwrap_or_default();
    let mut all = vec![0f32; batch * m * n];
    for (at, row) in all.chunks_exact_mut(n.max(1)).enumerate() {
        let item = at / m.max(1);
        let begin = item * left + (at - item * m) * k;
        let steps = a.get(begin + first..begin + last).ok_or_else(refuse)?;
        for (i, x) in (first..last).zip(steps) {
            let begin = item * right + i * n;
            let line = b.get(begin..begin + n).ok_or_else(refuse)?;
            row.iter_mut().zip(line).for_each(|(c, y)| *c += x * y);
        }
    }
    all.iter_mut().zip(&before).for_each(|(c, before)| *c += before);
    put_floats(out, all.into_iter());
    Ok(())
}

/// Elements of a buffer as f32.
fn widened(bytes: &[u8], half: bool) -> Cow<'_, [f32]> {
    if !half {
        return match bytemuck::try_cast_slice(bytes) {
            Ok(numbers) => Cow::Borrowed(numbers),
            Err(_) => Cow::Owned(floats(bytes).collect()),
        };
    }
    let halves: Vec<f16> =
        bytes.as_chunks::<2>().0.iter().map(|b| f16::from_bits(u16::from_le_bytes(*b))).collect();
    Cow::Owned(halves.to_f32_vec())
}
