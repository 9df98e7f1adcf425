//! How does a device scan? In three passes (or one, for short rows), each with its twin.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, Call, Kernel, TwinError, put_words, words};

use super::{
    TILE, What,
    walk::{Line, State, Top, Walk, total},
};
use crate::reduce::{extreme, sum::Part};

/// One dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// What each tile comes to.
    Totals,
    /// What comes before each tile.
    Offsets,
    /// Every element.
    Elements,
    /// Every element of rows of one tile.
    ShortRows,
    /// Every element of rows of one stretch, an invocation for each.
    TinyRows,
}

pub(super) fn kernel(what: What, pass: Pass, staged: bool) -> Arc<Kernel> {
    let state = match what {
        What::Sum => include_str!("../../shader/scan_sum.wgsl"),
        What::Max => include_str!("../../shader/scan_max.wgsl"),
        What::Affine { .. } => include_str!("../../shader/scan_affine.wgsl"),
    };
    // Group memory that no entry uses is not asked for.
    let stage = if staged { TILE + TILE / 16 } else { 1 };
    let frame = include_str!("../../shader/scan.wgsl")
        .replace("STAGED", if staged { "true" } else { "false" })
        .replace("STAGE", &stage.to_string());
    let frame = repeated(&frame);
    let entry = match pass {
        Pass::Totals => "totals",
        Pass::Offsets => "offsets",
        Pass::Elements => "elements",
        Pass::ShortRows => "short_rows",
        Pass::TinyRows => "tiny_rows",
    };
    let mut bindings = vec![Access::Read, Access::Read, Access::Write];
    if matches!(what, What::Affine { .. }) {
        bindings.push(Access::Read);
    }
    Arc::new(Kernel {
        name: what.name().into(),
        wgsl: format!("{state}\n{frame}").into(),
        entry,
        bindings,
        twin: Arc::new(move |call| {
            let (data, more) = (column(call, 0), column(call, 2));
            let float = |column: &[u32], i: usize| f32::from_bits(column.get(i).copied().unwrap_or(0));
            match what {
                What::Sum => twin(what, pass, call, Part::NOTHING, |i| Part::of(float(&data, i))),
                What::Max => twin(what, pass, call, Top::NOTHING, |i| {
                    Top(extreme::key(data.get(i).copied().unwrap_or(0), false))
                }),
                What::Affine { start } => twin(what, pass, call, Line::of(0.0, start), |i| {
                    Line::of(float(&data, i), float(&more, i))
                }),
            }
        }),
    })
}

/// Lines that begin with `@16` or `@8`, as often, with their number for `#`.
fn repeated(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (times, what) = match line.trim_start().split_once(' ') {
            Some(("@16", what)) => (16, what),
            Some(("@8", what)) => (8, what),
            _ => (1, line),
        };
        for i in 0..times {
            out += &what.replace('#', &i.to_string());
            out.push('\n');
        }
    }
    out
}

fn column(call: &Call<'_>, input: usize) -> Vec<u32> {
    call.inputs.get(input).map_or_else(Vec::new, |bytes| words(bytes).collect())
}

fn twin<S: State>(
    what: What,
    pass: Pass,
    call: &mut Call<'_>,
    first: S,
    item: impl Fn(usize) -> S,
) -> Result<(), TwinError> {
    let refuse =
        || TwinError { kernel: what.name().into(), why: "needs 4 parameters, 2 inputs, 1 output".into() };
    let ([rows, n, tiles, ..], [_, known, ..], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refuse());
    };
    let (rows, n, tiles, size) = (*rows as usize, *n as usize, *tiles as usize, what.words() as usize);
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
                let mut walk = Walk::new(first);
                for tile in row * tiles..(row + 1) * tiles {
                    put(walk.now());
                    walk.push(state(tile));
                }
            }
        }
        Pass::Elements | Pass::ShortRows | Pass::TinyRows => {
            for tile in 0..rows * tiles {
                let mut walk = Walk::new(if pass == Pass::Elements { state(tile) } else { first });
                done.extend(range(tile).map(|i| walk.push(item(i)).shown()));
            }
        }
    }
    put_words(out, done.into_iter());
    Ok(())
}
