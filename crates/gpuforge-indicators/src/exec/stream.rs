//! Streaming execution: one series that arrives in parts, with state between them that does not grow.

use std::ops::Deref;

use crate::{
    exec::{Columns, ExecOptions, Series, fill_warmup_nan, self_check, tile::Tile},
    plan::{ExecPlan, single_kernel},
};

/// Incremental execution of one series. Whole-series columns cannot be streamed; see [`ExecPlan::supports_streaming`]. `P` is
/// a plan, borrowed or shared.
pub struct Stream<P> {
    plan: P,
    tile: Tile<1>,
    /// The same by kernels, until the JIT code of the plan is verified.
    shadow: Option<Box<Tile<1>>>,
}

impl<P: Deref<Target = ExecPlan>> Stream<P> {
    /// At the beginning of a series. Always exact: `relaxed_fp` has no effect, since a prefix scan over the few bars of a push
    /// cannot be continued by the next.
    pub fn new(plan: P, options: ExecOptions) -> Stream<P> {
        let options = ExecOptions { relaxed_fp: false, ..options };
        let tile = Tile::new(&plan, single_kernel, options, None);
        let pending =
            options.verify_jit && tile.jit.as_ref().is_some_and(|program| program.self_check.is_pending());
        let shadow =
            pending.then(|| Tile::new(&plan, single_kernel, ExecOptions { jit: false, ..options }, None));
        Stream { plan, tile, shadow: shadow.map(Box::new) }
    }

    /// A copy that has seen the same bars and is independent from here on.
    pub fn fork(&self) -> Stream<P>
    where
        P: Clone,
    {
        let shadow = self.shadow.as_ref().map(|shadow| Box::new(shadow.fork()));
        Stream { plan: self.plan.clone(), tile: self.tile.fork(), shadow }
    }

    /// Bars so far.
    pub fn bars(&self) -> usize {
        self.tile.bars_done
    }

    /// The next bars, into columns of the same length.
    pub fn push(&mut self, bars: &Series<'_>, columns: &mut Columns<'_>) {
        let plan = &*self.plan;
        self.tile.push(plan, bars, columns);
        if let Some(mut shadow) = self.shadow.take() {
            match self_check::follow(plan, &self.tile, &mut shadow, bars, columns) {
                self_check::StreamCheck::Pending => self.shadow = Some(shadow),
                self_check::StreamCheck::Verified => {}
                self_check::StreamCheck::Faulty => self.tile = *shadow,
            }
        }
    }
}

impl Tile<1> {
    /// The next bars of a stream.
    #[allow(clippy::indexing_slicing, reason = "a buffer has a block's rows")]
    pub(super) fn push(&mut self, plan: &ExecPlan, bars: &Series<'_>, columns: &mut Columns<'_>) {
        let n = bars.len(plan);
        let offset = self.bars_done;
        let mut done = 0;
        while done < n {
            let len = self.block.min(n - done);
            let t0 = offset + done;
            self.next_block(t0);
            for (field, slot) in &plan.fields {
                let from = bars.field(*field).get(done..done + len).unwrap_or(&[]);
                self.fill(*slot, |rows| rows.as_flattened_mut()[..len].copy_from_slice(from));
            }
            self.run_steps(plan, t0, t0 + len, &[], &mut [], |_, _| {});
            for ((column, slot), start) in columns.iter_mut().zip(&plan.outputs).zip(&plan.starts) {
                if let Some(to) = column.get_mut(done..done + len) {
                    to.copy_from_slice(self.buffers.rows(*slot, len).as_flattened());
                    fill_warmup_nan(to, t0, *start);
                }
            }
            done += len;
        }
        self.bars_done = offset + n;
    }
}
