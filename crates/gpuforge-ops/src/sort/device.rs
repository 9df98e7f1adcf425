//! LSD radix sort on a device: 4-bit digits; histogram per tile, exclusive scan, stable scatter; all rows in the same dispatches.
//!
//! Counters are ordered row, digit, tile, so that one exclusive scan over all of them gives every tile its offsets.

use std::sync::Arc;

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words},
    plan::{Plan, Slot},
    units::Bytes,
};

use super::key::SortOrder;
use crate::{
    OpError, Variant,
    record::{groups, word},
};

/// Payload that moves with each key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Payload {
    /// Keys only.
    Nothing,
    /// The column index (argsort).
    Column,
    /// Words of a slot.
    Words(Slot),
}

/// Shape of the sort: `rows` of `columns` words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowShape {
    pub(crate) op: &'static str,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
}

/// Flag: the input holds values, not yet keys.
const TO_KEYS: u32 = 8;
/// Flag: write values, not keys.
const TO_VALUES: u32 = 16;
/// Flag: the payload is the column index.
const COLUMN: u32 = 32;
/// Words per workgroup of the scan.
const BLOCK: u64 = 1024;

/// Sorts each row. `keys`: the data are keys already. Returns the values and the payload.
pub(crate) fn sort(
    plan: &mut Plan,
    data: Slot,
    rows: RowShape,
    (order, keys): (SortOrder, bool),
    along: Payload,
    variant: Variant,
) -> Result<(Slot, Option<Slot>), OpError> {
    let RowShape { op, rows, columns } = rows;
    let tile = u64::from(variant.group * variant.items);
    let tiles_of_row = columns.div_ceil(tile).max(1);
    let tiles = if columns == 0 { 0 } else { rows.saturating_mul(tiles_of_row) };
    let n = rows.saturating_mul(columns);
    let (bytes, counters) = (Bytes(u64::from(word(op, n)?) * 4), tiles.saturating_mul(16));
    word(op, counters)?;
    let grid = groups(op, tiles)?;
    let (count, moves) =
        (histogram_kernel(variant), scatter_kernel(variant, !matches!(along, Payload::Nothing)));
    let (mut from, mut along_from) = (data, along);
    for pass in 0..8 {
        let first = if pass == 0 && !keys { TO_KEYS } else { 0 };
        let last = if pass == 7 { TO_VALUES } else { 0 };
        let column = if matches!(along_from, Payload::Column) { COLUMN } else { 0 };
        let flags = order.flags() | first | last | column;
        let params = [word(op, columns)?, word(op, tiles_of_row)?, word(op, tiles)?, pass * 4, flags];
        let counts = plan.slot(Bytes(counters * 4), "sort counts");
        plan.dispatch(&count, &[from, counts], &params, grid)?;
        let starts = exclusive_scan(plan, op, counts, counters)?;
        let to = plan.slot(bytes, "sort");
        let mut bindings = vec![from, starts, to];
        let carried = match along_from {
            Payload::Nothing => None,
            // Not read, but something must be bound.
            Payload::Column => Some(from),
            Payload::Words(slot) => Some(slot),
        };
        let along_to = carried.map(|carried| {
            let along_to = plan.slot(bytes, "sort");
            bindings.extend([carried, along_to]);
            along_to
        });
        plan.dispatch(&moves, &bindings, &params, grid)?;
        plan.free(starts)?;
        if pass > 0 {
            plan.free(from)?;
            if let Payload::Words(slot) = along_from {
                plan.free(slot)?;
            }
        }
        from = to;
        along_from = along_to.map_or(Payload::Nothing, Payload::Words);
    }
    let also = if let Payload::Words(slot) = along_from { Some(slot) } else { None };
    Ok((from, also))
}

/// Exclusive scan (multi-level); frees the slot it is given.
pub(crate) fn exclusive_scan(plan: &mut Plan, op: &'static str, data: Slot, n: u64) -> Result<Slot, OpError> {
    let blocks = n.div_ceil(BLOCK);
    let params = [word(op, n)?, word(op, blocks)?, u32::from(blocks > 1)];
    let grid = groups(op, blocks)?;
    let before = if blocks > 1 {
        let sums = plan.slot(Bytes(blocks * 4), "sort sums");
        plan.dispatch(&block_sum_kernel(), &[data, sums], &params, grid)?;
        Some(exclusive_scan(plan, op, sums, blocks)?)
    } else {
        None
    };
    let out = plan.slot(Bytes(n * 4), "sort starts");
    plan.dispatch(&scan_kernel(), &[data, before.unwrap_or(data), out], &params, grid)?;
    plan.free(data)?;
    if let Some(before) = before {
        plan.free(before)?;
    }
    Ok(out)
}

/// Shader text with the key functions and the variant's constants.
pub(crate) fn text(body: &str, variant: Variant) -> String {
    let (group, items) = (variant.group, variant.items);
    format!("{}\n{body}", include_str!("../../shader/sort_key.wgsl"))
        .replace("COUNTERS", &(16 * group).to_string())
        .replace("TILE", &(group * items).to_string())
        .replace("GROUP", &group.to_string())
        .replace("ITEMS", &items.to_string())
}

pub(crate) fn refused(kernel: &'static str) -> CpuReferenceError {
    CpuReferenceError { kernel: kernel.into(), why: "other parameters, inputs or outputs than it has".into() }
}

fn histogram_kernel(variant: Variant) -> Arc<Kernel> {
    Arc::new(Kernel {
        name: "sort_count".into(),
        wgsl: text(include_str!("../../shader/sort_count.wgsl"), variant).into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(move |call| {
            let tile = (variant.group * variant.items) as usize;
            count_twin(call, tile).ok_or_else(|| refused("sort_count"))
        }),
    })
}

/// The sort key of an input word.
fn key_of(word: u32, flags: u32) -> u32 {
    if flags & TO_KEYS != 0 { SortOrder::from_flags(flags).key(word) } else { word }
}

/// Tiles of a dispatch: row, position in the row, and elements.
fn tiles(
    columns: u32,
    of_row: u32,
    all: u32,
    tile: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let (columns, of_row) = (columns as usize, of_row.max(1) as usize);
    (0..all as usize).map(move |t| {
        let (row, tile_in_row) = (t / of_row, t % of_row);
        let end = (tile_in_row * tile + tile).min(columns);
        (row, tile_in_row, row * columns + tile_in_row * tile..row * columns + end)
    })
}

fn count_twin(call: &mut KernelCall<'_>, tile: usize) -> Option<()> {
    let [columns, of_row, all, shift, flags, ..] = call.params else { return None };
    let ([data], [counts]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) else { return None };
    let data: Vec<u32> = words(data).collect();
    let mut bins = vec![0u32; counts.len() / 4];
    for (row, tile_in_row, range) in tiles(*columns, *of_row, *all, tile) {
        for word in data.get(range)? {
            let digit = (key_of(*word, *flags) >> shift & 15) as usize;
            *bins.get_mut((row * 16 + digit) * *of_row as usize + tile_in_row)? += 1;
        }
    }
    put_words(counts, bins.into_iter());
    Some(())
}

fn block_sum_kernel() -> Arc<Kernel> {
    Arc::new(Kernel {
        name: "sort_block_sum".into(),
        wgsl: include_str!("../../shader/sort_block_sum.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let ([n, ..], [data], [sums]) =
                (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
            else {
                return Err(refused("sort_block_sum"));
            };
            let data: Vec<u32> = words(data).take(*n as usize).collect();
            put_words(sums, data.chunks(BLOCK as usize).map(|b| b.iter().sum()));
            Ok(())
        }),
    })
}

fn scan_kernel() -> Arc<Kernel> {
    Arc::new(Kernel {
        name: "sort_scan".into(),
        wgsl: include_str!("../../shader/sort_scan.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let ([n, _, has, ..], [data, before], [out]) =
                (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
            else {
                return Err(refused("sort_scan"));
            };
            let data: Vec<u32> = words(data).take(*n as usize).collect();
            let blocks = data.chunks(BLOCK as usize).zip(words(before));
            let sums = blocks.flat_map(|(block, before)| {
                block.iter().scan(if *has == 1 { before } else { 0 }, |sum, x| {
                    let here = *sum;
                    *sum += x;
                    Some(here)
                })
            });
            put_words(out, sums);
            Ok(())
        }),
    })
}

fn scatter_kernel(variant: Variant, along: bool) -> Arc<Kernel> {
    let body = include_str!("../../shader/sort_scatter.wgsl");
    let body = if along { body.replace("//+", "") } else { body.to_owned() };
    let mut bindings = vec![Access::Read, Access::Read, Access::Write];
    if along {
        bindings.extend([Access::Read, Access::Write]);
    }
    let name = if along { "sort_scatter_payload" } else { "sort_scatter" };
    Arc::new(Kernel {
        name: name.into(),
        wgsl: text(&body, variant).into(),
        entry: "main",
        bindings,
        cpu_reference: Arc::new(move |call| {
            let tile = (variant.group * variant.items) as usize;
            scatter_twin(call, tile).ok_or_else(|| refused(name))
        }),
    })
}

fn scatter_twin(call: &mut KernelCall<'_>, tile: usize) -> Option<()> {
    let [columns, of_row, all, shift, flags, ..] = call.params else { return None };
    let (data, starts) = (call.inputs.first()?, call.inputs.get(1)?);
    let also: Option<Vec<u32>> = call.inputs.get(2).map(|a| words(a).collect());
    let (data, starts): (Vec<u32>, Vec<u32>) = (words(data).collect(), words(starts).collect());
    let (mut out, mut out_also) = (vec![0u32; data.len()], vec![0u32; data.len()]);
    for (row, tile_in_row, range) in tiles(*columns, *of_row, *all, tile) {
        let mut next = [0usize; 16];
        for (digit, next) in next.iter_mut().enumerate() {
            *next = *starts.get((row * 16 + digit) * *of_row as usize + tile_in_row)? as usize;
        }
        for at in range {
            let key = key_of(*data.get(at)?, *flags);
            let offset = next.get_mut((key >> shift & 15) as usize)?;
            *out.get_mut(*offset)? =
                if flags & TO_VALUES != 0 { SortOrder::from_flags(*flags).bits(key) } else { key };
            let column = (at % (*columns).max(1) as usize) as u32;
            let carried = also.as_ref().and_then(|a| a.get(at)).copied().unwrap_or(0);
            *out_also.get_mut(*offset)? = if flags & COLUMN != 0 { column } else { carried };
            *offset += 1;
        }
    }
    let mut outputs = call.outputs.iter_mut();
    put_words(outputs.next()?, out.into_iter());
    if let Some(also) = outputs.next() {
        put_words(also, out_also.into_iter());
    }
    Some(())
}
