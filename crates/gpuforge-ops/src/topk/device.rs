//! Radix select on a device: finds the k-th key digit by digit, compacts everything up to it, and sorts only that.

use std::{ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, Kernel, KernelCall, put_words, words},
    plan::{Plan, Slot},
    units::Bytes,
};

use crate::{
    OpError, Variant,
    record::{groups, word},
    sort::{
        device::{Payload, RowShape, exclusive_scan, refused, sort, text},
        key::SortOrder,
    },
};

/// Largest k sorted by rank counting (each invocation compares its key with all others).
const RANK_SORT: u64 = 4096;
/// Most tiles per row: one invocation of the choose pass reads one count of each.
const MAX_TILES: u64 = 16_384;

/// Records top-k of each row, k at least one; indices count from `first`.
pub(crate) fn take(
    plan: &mut Plan,
    data: Slot,
    rows: RowShape,
    (order, k, first): (SortOrder, u64, u32),
    variant: Variant,
) -> Result<Vec<Slot>, OpError> {
    let RowShape { op, rows: lines, columns } = rows;
    word(op, lines.saturating_mul(columns))?;
    let flags = [order.flags(), word(op, k)?, first];
    // Counts take 256 words per tile, so these tiles are larger.
    let wide = Variant { items: variant.items * 4, ..variant };
    let state = find_kth_key(plan, data, rows, flags, wide)?;
    let (params, tiles) = params(rows, variant, 0, flags)?;
    let of_row = columns.div_ceil(tile(variant));
    let (grid, counters) = (groups(op, tiles)?, lines.saturating_mul(of_row * 2));
    word(op, counters)?;
    let counts = plan.slot(Bytes(counters * 4), "top-k counts");
    plan.dispatch(&tally(variant), &[data, state, counts], &params, grid)?;
    let starts = exclusive_scan(plan, op, counts, counters)?;
    let bytes = Bytes(u64::from(word(op, lines.saturating_mul(k))?) * 4);
    let (keys, indices) = (plan.slot(bytes, "top-k keys"), plan.slot(bytes, "top-k"));
    plan.dispatch(&pick(variant), &[data, state, starts, keys, indices], &params, grid)?;
    plan.free(starts)?;
    plan.free(state)?;
    let sorted = if k <= RANK_SORT {
        let (out, out_indices) = (plan.slot(bytes, "top-k"), plan.slot(bytes, "top-k"));
        let all = lines * k;
        let params = [word(op, all)?, word(op, k)?, 0, 0, order.flags()];
        plan.dispatch(&rank(), &[keys, indices, out, out_indices], &params, groups(op, all.div_ceil(64))?)?;
        vec![out, out_indices]
    } else {
        let taken = RowShape { columns: k, ..rows };
        let (out, along) =
            sort(plan, keys, taken, (order, true), Payload::Words(indices), Variant::new(64, 1, 16))?;
        [Some(out), along].into_iter().flatten().collect()
    };
    plan.free(keys)?;
    plan.free(indices)?;
    Ok(sorted)
}

/// The k-th key of each row, and how many equal keys to take.
fn find_kth_key(
    plan: &mut Plan,
    data: Slot,
    rows: RowShape,
    flags: [u32; 3],
    variant: Variant,
) -> Result<Slot, OpError> {
    let RowShape { op, rows: lines, columns } = rows;
    if columns > MAX_TILES * tile(variant) {
        return Err(OpError::TooMany { op, elements: columns, most: MAX_TILES * tile(variant) });
    }
    let [_, k, _] = flags;
    let start: Vec<u8> = (0..lines).flat_map(|_| [0, k]).flat_map(u32::to_le_bytes).collect();
    let mut state = plan.upload(start, "top-k state")?;
    for shift in [24, 16, 8, 0] {
        let (params, tiles) = params(rows, variant, shift, flags)?;
        word(op, tiles.saturating_mul(256))?;
        let counts = plan.slot(Bytes(tiles * 256 * 4), "top-k counts");
        plan.dispatch(&count(variant), &[data, state, counts], &params, groups(op, tiles)?)?;
        let next = plan.slot(Bytes(lines * 8), "top-k state");
        plan.dispatch(&choose(), &[counts, state, next], &params, groups(op, lines)?)?;
        plan.free(counts)?;
        plan.free(state)?;
        state = next;
    }
    Ok(state)
}

fn tile(variant: Variant) -> u64 {
    u64::from(variant.group * variant.items)
}

/// Parameters of all tiled kernels, and the number of tiles.
fn params(
    rows: RowShape,
    variant: Variant,
    shift: u32,
    [order, k, first]: [u32; 3],
) -> Result<([u32; 7], u64), OpError> {
    let of_row = rows.columns.div_ceil(tile(variant));
    let tiles = rows.rows.saturating_mul(of_row);
    let [columns, of_row, all] =
        [word(rows.op, rows.columns)?, word(rows.op, of_row)?, word(rows.op, tiles)?];
    Ok(([columns, of_row, all, shift, order, k, first], tiles))
}

type CpuReference = fn(&mut KernelCall<'_>, &Tiles) -> Option<()>;

/// Decoded parameters of a dispatch.
struct Tiles {
    columns: usize,
    of_row: usize,
    all: usize,
    shift: u32,
    order: SortOrder,
    k: usize,
    first: u32,
    tile: usize,
}

impl Tiles {
    fn of(params: &[u32], tile: u64) -> Option<Tiles> {
        let [columns, of_row, all, shift, order, k, first, ..] = params else { return None };
        Some(Tiles {
            columns: *columns as usize,
            of_row: *of_row as usize,
            all: *all as usize,
            shift: *shift,
            order: SortOrder::from_flags(*order),
            k: *k as usize,
            first: *first,
            tile: tile as usize,
        })
    }

    /// Row, position in the row and columns of each tile.
    fn each(&self) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
        let (of_row, tile, columns) = (self.of_row.max(1), self.tile, self.columns);
        (0..self.all).map(move |t| {
            let tile_in_row = t % of_row;
            (t / of_row, tile_in_row, tile_in_row * tile..(tile_in_row * tile + tile).min(columns))
        })
    }
}

fn kernel(
    name: &'static str,
    wgsl: String,
    bindings: Vec<Access>,
    tile: u64,
    cpu_reference: CpuReference,
) -> Arc<Kernel> {
    Arc::new(Kernel {
        name: name.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings,
        cpu_reference: Arc::new(move |call| {
            let tiles = Tiles::of(call.params, tile);
            tiles.and_then(|tiles| cpu_reference(call, &tiles)).ok_or_else(|| refused(name))
        }),
    })
}

fn count(variant: Variant) -> Arc<Kernel> {
    let wgsl = text(include_str!("../../shader/topk_count.wgsl"), variant);
    let cpu_reference: CpuReference = |call, tiles| {
        let (data, state) = two(call)?;
        let [counts] = call.outputs.as_mut_slice() else { return None };
        let mut bins = vec![0u32; counts.len() / 4];
        for (t, (row, _, columns)) in tiles.each().enumerate() {
            let known = *state.get(row * 2)?;
            for column in columns {
                let key = tiles.order.key(*data.get(row * tiles.columns + column)?) >> tiles.shift;
                if key >> 8 == known {
                    *bins.get_mut(t * 256 + (key & 255) as usize)? += 1;
                }
            }
        }
        put_words(counts, bins.into_iter());
        Some(())
    };
    kernel("topk_count", wgsl, vec![Access::Read, Access::Read, Access::Write], tile(variant), cpu_reference)
}

/// The first two inputs.
fn two(call: &KernelCall<'_>) -> Option<(Vec<u32>, Vec<u32>)> {
    Some((words(call.inputs.first()?).collect(), words(call.inputs.get(1)?).collect()))
}

fn choose() -> Arc<Kernel> {
    let wgsl = include_str!("../../shader/topk_choose.wgsl").to_owned();
    let cpu_reference: CpuReference = |call, tiles| {
        let (counts, state) = two(call)?;
        let [out] = call.outputs.as_mut_slice() else { return None };
        let rows = tiles.all.checked_div(tiles.of_row)?;
        let mut next = Vec::with_capacity(rows * 2);
        for row in 0..rows {
            let (mut wanted, mut digit) = (*state.get(row * 2 + 1)?, 0);
            let total = |digit: usize| -> u32 {
                let at = |tile_in_row| (row * tiles.of_row + tile_in_row) * 256 + digit;
                (0..tiles.of_row).filter_map(|tile_in_row| counts.get(at(tile_in_row))).sum()
            };
            while digit < 255 && total(digit) < wanted {
                wanted -= total(digit);
                digit += 1;
            }
            next.extend([*state.get(row * 2)? << 8 | digit as u32, wanted]);
        }
        put_words(out, next.into_iter());
        Some(())
    };
    kernel("topk_choose", wgsl, vec![Access::Read, Access::Read, Access::Write], 1, cpu_reference)
}

fn tally(variant: Variant) -> Arc<Kernel> {
    let wgsl = text(include_str!("../../shader/topk_tally.wgsl"), variant);
    let cpu_reference: CpuReference = |call, tiles| {
        let (data, state) = two(call)?;
        let [counts] = call.outputs.as_mut_slice() else { return None };
        let mut bins = vec![0u32; counts.len() / 4];
        for (row, tile_in_row, columns) in tiles.each() {
            let last = *state.get(row * 2)?;
            for column in columns {
                let key = tiles.order.key(*data.get(row * tiles.columns + column)?);
                if key <= last {
                    *bins.get_mut((row * 2 + usize::from(key == last)) * tiles.of_row + tile_in_row)? += 1;
                }
            }
        }
        put_words(counts, bins.into_iter());
        Some(())
    };
    kernel("topk_tally", wgsl, vec![Access::Read, Access::Read, Access::Write], tile(variant), cpu_reference)
}

fn pick(variant: Variant) -> Arc<Kernel> {
    let wgsl = text(include_str!("../../shader/topk_pick.wgsl"), variant);
    let bindings = vec![Access::Read, Access::Read, Access::Read, Access::Write, Access::Write];
    let cpu_reference: CpuReference = |call, tiles| {
        let (data, state) = two(call)?;
        let starts: Vec<u32> = words(call.inputs.get(2)?).collect();
        let [keys, indices] = call.outputs.as_mut_slice() else { return None };
        let (mut taken, mut from) = (vec![0u32; keys.len() / 4], vec![0u32; indices.len() / 4]);
        for (row, tile_in_row, columns) in tiles.each() {
            let last = *state.get(row * 2)?;
            let begin = *starts.get(row * 2 * tiles.of_row)?;
            let start = |c: usize| {
                starts.get((row * 2 + c) * tiles.of_row + tile_in_row).map(|s| (s - begin) as usize)
            };
            let mut next = [start(0)?, start(1)?];
            for column in columns {
                let key = tiles.order.key(*data.get(row * tiles.columns + column)?);
                if key > last {
                    continue;
                }
                let to = next.get_mut(usize::from(key == last))?;
                if *to < tiles.k {
                    *taken.get_mut(row * tiles.k + *to)? = key;
                    *from.get_mut(row * tiles.k + *to)? = tiles.first + column as u32;
                }
                *to += 1;
            }
        }
        put_words(keys, taken.into_iter());
        put_words(indices, from.into_iter());
        Some(())
    };
    kernel("topk_pick", wgsl, bindings, tile(variant), cpu_reference)
}

fn rank() -> Arc<Kernel> {
    let wgsl = text(include_str!("../../shader/topk_rank.wgsl"), Variant::PLAIN);
    Arc::new(Kernel {
        name: "topk_rank".into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Read, Access::Write, Access::Write],
        cpu_reference: Arc::new(|call| {
            let ([all, k, _, _, flags, ..], Some((keys, indices)), [out, out_indices]) =
                (call.params, two(call), call.outputs.as_mut_slice())
            else {
                return Err(refused("topk_rank"));
            };
            let mut pairs: Vec<(u32, u32)> = keys.into_iter().zip(indices).take(*all as usize).collect();
            pairs.chunks_mut((*k).max(1) as usize).for_each(|row| row.sort_by_key(|(key, _)| *key));
            let order = SortOrder::from_flags(*flags);
            put_words(out, pairs.iter().map(|(key, _)| order.bits(*key)));
            put_words(out_indices, pairs.iter().map(|(_, index)| *index));
            Ok(())
        }),
    })
}
