//! Single-series execution: bars are read and results written in place, block by block.

use crate::{
    exec::{Columns, Series, buffers::Location, fill_warmup_nan, tile::Tile},
    kernel::{
        Row,
        transpose::{self, CACHE_LINE, StoreMode},
    },
    plan::{BufferSlot, ExecPlan},
};

impl Tile<1> {
    /// One series, in place.
    pub(super) fn run_single(&mut self, plan: &ExecPlan, series: &Series<'_>, columns: &mut Columns<'_>) {
        self.begin(plan);
        let bars = series.len(plan);
        let whole_series: Vec<Vec<f64>> =
            plan.whole_series.iter().map(|(def, params, _)| series.whole_series(plan, def, params)).collect();
        let fields: Vec<&[Row<1>]> =
            plan.fields.iter().map(|(f, _)| series.field(*f).as_chunks::<1>().0).collect();
        let mut rows: Vec<&mut [Row<1>]> = columns.iter_mut().map(|c| c.as_chunks_mut::<1>().0).collect();
        // Chunk boundaries must not depend on the alignment of the results: the last digits would vary from call to call.
        let aligned = rows.first().filter(|_| !self.relaxed_fp);
        let misaligned = aligned.map_or(0, |column| misalignment(column.as_flattened()));
        let mut t0 = 0;
        while t0 < bars {
            let t1 = self.block_end(t0, misaligned).min(bars);
            self.next_block(t0);
            for ((.., slot), column) in plan.whole_series.iter().zip(&whole_series) {
                let from = column.get(t0..t1).unwrap_or(&[]);
                self.fill(*slot, |rows| {
                    rows.as_flattened_mut().iter_mut().zip(from).for_each(|(to, x)| *to = *x);
                });
            }
            self.run_steps(plan, t0, t1, &fields, &mut rows, |_, _| {});
            for (output, slot) in plan.outputs.iter().enumerate() {
                self.deliver(output, *slot, (t0, t1), &fields, &mut rows);
            }
            t0 = t1;
        }
        if self.store_mode == StoreMode::NonTemporal {
            transpose::store_fence();
        }
        // Only now: until the end, other steps may read a column's warm-up.
        for (column, start) in columns.iter_mut().zip(&plan.starts) {
            fill_warmup_nan(column, 0, *start);
        }
        self.bars_done = bars.max(1);
    }

    /// Copies a result that is not computed in place: a column of the bars, a constant, or a duplicate.
    fn deliver(
        &self,
        output: usize,
        slot: BufferSlot,
        (t0, t1): (usize, usize),
        fields: &[&[Row<1>]],
        columns: &mut [&mut [Row<1>]],
    ) {
        let from: &[Row<1>] = match self.buffers.locations.get(slot.buffer) {
            Some(Location::Column(c)) if *c == output => return,
            Some(Location::Column(c)) => {
                let Some((first, second)) = columns.split_at_mut_checked(output) else { return };
                if let (Some(from), Some(to)) = (first.get(*c), second.first_mut())
                    && let (Some(from), Some(to)) = (from.get(t0..t1), to.get_mut(t0..t1))
                {
                    to.copy_from_slice(from);
                }
                return;
            }
            Some(Location::Field(f)) => fields.get(*f).and_then(|f| f.get(t0..t1)).unwrap_or(&[]),
            _ => self.buffers.rows(slot, t1 - t0),
        };
        if let Some(to) = columns.get_mut(output).and_then(|c| c.get_mut(t0..t1)) {
            match self.store_mode {
                StoreMode::NonTemporal => {
                    transpose::copy_nontemporal(from.as_flattened(), to.as_flattened_mut(), self.simd)
                }
                StoreMode::Cached => to.iter_mut().zip(from).for_each(|(to, x)| *to = *x),
            }
        }
    }
}

/// Bars of a column before the first boundary of a cache line, counted from the boundary before it.
pub(super) fn misalignment(column: &[f64]) -> usize {
    column.as_ptr() as usize % CACHE_LINE / size_of::<f64>()
}
