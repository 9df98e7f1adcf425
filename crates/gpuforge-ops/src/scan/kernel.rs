//! Device prefix scan: reduce-then-scan in three passes (one for short rows), each with a CPU reference.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words};

use super::{
    ScanKind, TILE,
    state::{AffineMap, BlockedScan, MaxKey, ScanState, total},
};
use crate::reduce::{min_max, sum::FlaggedSum};

/// One dispatch of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Tile totals (reduce).
    Totals,
    /// Exclusive prefix of each tile.
    Offsets,
    /// Final scan of every element.
    Elements,
    /// Scan of rows that fit one tile.
    ShortRows,
    /// Scan of rows that fit one segment, one invocation per row.
    TinyRows,
}

pub(super) fn kernel(kind: ScanKind, pass: Pass, staged: bool) -> Arc<Kernel> {
    let state = match kind {
        ScanKind::Sum => include_str!("../../shader/scan_sum.wgsl"),
        ScanKind::Max => include_str!("../../shader/scan_max.wgsl"),
        ScanKind::Affine { .. } => include_str!("../../shader/scan_affine.wgsl"),
    };
    // Unused workgroup memory is not allocated.
    let stage = if staged { TILE + TILE / 16 } else { 1 };
    let frame = include_str!("../../shader/scan.wgsl")
        .replace("STAGED", if staged { "true" } else { "false" })
        .replace("STAGE", &stage.to_string());
    let frame = unroll(&frame);
    let entry = match pass {
        Pass::Totals => "totals",
        Pass::Offsets => "offsets",
        Pass::Elements => "elements",
        Pass::ShortRows => "short_rows",
        Pass::TinyRows => "tiny_rows",
    };
    let mut bindings = vec![Access::Read, Access::Read, Access::Write];
    if matches!(kind, ScanKind::Affine { .. }) {
        bindings.push(Access::Read);
    }
    Arc::new(Kernel {
        name: kind.name().into(),
        wgsl: format!("{state}\n{frame}").into(),
        entry,
        bindings,
        cpu_reference: Arc::new(move |call| {
            let (data, more) = (column(call, 0), column(call, 2));
            let float = |column: &[u32], i: usize| f32::from_bits(column.get(i).copied().unwrap_or(0));
            match kind {
                ScanKind::Sum => {
                    cpu_reference(kind, pass, call, FlaggedSum::IDENTITY, |i| FlaggedSum::of(float(&data, i)))
                }
                ScanKind::Max => cpu_reference(kind, pass, call, MaxKey::IDENTITY, |i| {
                    MaxKey(min_max::key(data.get(i).copied().unwrap_or(0), false))
                }),
                ScanKind::Affine { start } => {
                    cpu_reference(kind, pass, call, AffineMap::of(0.0, start), |i| {
                        AffineMap::of(float(&data, i), float(&more, i))
                    })
                }
            }
        }),
    })
}

/// Unrolls template lines: `@16` and `@8` repeat a line with its number for `#`.
fn unroll(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (times, kind) = match line.trim_start().split_once(' ') {
            Some(("@16", kind)) => (16, kind),
            Some(("@8", kind)) => (8, kind),
            _ => (1, line),
        };
        for i in 0..times {
            out += &kind.replace('#', &i.to_string());
            out.push('\n');
        }
    }
    out
}

fn column(call: &KernelCall<'_>, input: usize) -> Vec<u32> {
    call.inputs.get(input).map_or_else(Vec::new, |bytes| words(bytes).collect())
}

fn cpu_reference<S: ScanState>(
    kind: ScanKind,
    pass: Pass,
    call: &mut KernelCall<'_>,
    first: S,
    item: impl Fn(usize) -> S,
) -> Result<(), CpuReferenceError> {
    let refuse = || CpuReferenceError {
        kernel: kind.name().into(),
        why: "needs 4 parameters, 2 inputs, 1 output".into(),
    };
    let ([rows, n, tiles, ..], [_, known, ..], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refuse());
    };
    let (rows, n, tiles, size) = (*rows as usize, *n as usize, *tiles as usize, kind.words() as usize);
    let known: Vec<u32> = words(known).collect();
    let state = |tile: usize| S::from_words(known.get(tile * size..).unwrap_or_default());
    let range = |tile: usize| {
        let (row, start) = (tile / tiles, tile % tiles * TILE);
        row * n + start..row * n + (start + TILE).min(n)
    };
    let mut done: Vec<u32> = Vec::new();
    let mut put = |s: S| done.extend(s.words().iter().take(size));
    match pass {
        Pass::Totals => (0..rows * tiles).for_each(|tile| put(total(range(tile).map(&item)))),
        Pass::Offsets => {
            for row in 0..rows {
                let mut scan = BlockedScan::new(first);
                for tile in row * tiles..(row + 1) * tiles {
                    put(scan.now());
                    scan.push(state(tile));
                }
            }
        }
        Pass::Elements | Pass::ShortRows | Pass::TinyRows => {
            for tile in 0..rows * tiles {
                let mut scan = BlockedScan::new(if pass == Pass::Elements { state(tile) } else { first });
                done.extend(range(tile).map(|i| scan.push(item(i)).output_bits()));
            }
        }
    }
    put_words(out, done.into_iter());
    Ok(())
}
