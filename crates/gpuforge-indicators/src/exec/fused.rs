//! Fused column-to-column execution: the whole plan as one JIT loop over eight series, without buffers between steps.
//!
//! Possible from the bar on at which the loop is warmed up, while every series of the tile has bars. The loop transposes in
//! registers, so that it runs over many blocks at once: no values between steps have to fit a cache.

use crate::{
    exec::{Job, LANES, batched::lane, tile::Tile},
    jit::{FusedLoop, MAX_ROUND_BARS},
    kernel::transpose::{CACHE_LINE, StoreMode},
    plan::ExecPlan,
};

/// Max bars of one call. The setup of a call takes as long as some hundred bars.
pub(super) const MAX_RUN_BARS: usize = 2048;

impl Tile<LANES> {
    /// Computes from bar `t0` on, from columns to columns; the bar up to which it came, or `None` where it is not possible.
    pub(super) fn run_fused_columns(
        &mut self,
        plan: &ExecPlan,
        tile: &mut [Job<'_, '_, '_>],
        t0: usize,
        padding: &mut [Vec<f64>],
    ) -> Option<usize> {
        let program = self.jit.clone()?;
        let (column_loop, fused) = program.column_loop().filter(|(_, l)| t0 >= l.steady_from)?;
        let bars = self.run_length(fused, tile.iter().map(|(s, _)| s.len(plan)).min()?.checked_sub(t0)?)?;
        let t1 = t0 + bars;
        if !self.set_args(fused, (t0, t0 + bars.min(self.block)), &[], &mut []) {
            return None;
        }
        for (field, _) in column_loop.fields.iter().filter_map(|at| plan.fields.get(*at)) {
            for l in 0..LANES {
                self.args.table.push(lane(tile, l, *field).get(t0..t1)?.as_ptr().cast_mut());
            }
        }
        for output in 0..plan.outputs.len() {
            for (_, columns) in tile.iter_mut() {
                let to = columns.get_mut(output)?.get_mut(t0..t1)?;
                if self.store_mode == StoreMode::NonTemporal && !to.as_ptr().addr().is_multiple_of(CACHE_LINE)
                {
                    return None;
                }
                self.args.table.push(to.as_mut_ptr());
            }
            for unused in padding.iter_mut() {
                let skip = unused.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / size_of::<f64>());
                self.args.table.push(unused.get_mut(skip..skip + bars)?.as_mut_ptr());
            }
        }
        #[allow(unsafe_code, reason = "JIT code takes raw pointers")]
        // SAFETY: `run_length` and `set_args` checked the bounds of every stream; every column has these bars, as was just
        // checked, and those that are written are borrowed mutably here, eight for every output.
        unsafe {
            program.run_columns(column_loop, fused, &mut self.args, bars, self.store_mode);
        }
        self.take_states(fused);
        self.last_block = bars;
        Some(t1)
    }

    /// How many of the bars that are left one call can compute: whole rounds, and no more than advancing streams have room for.
    fn run_length(&mut self, fused: &FusedLoop, left: usize) -> Option<usize> {
        let capacity = self.buffers.capacity - self.buffers.shift;
        let has_history = |at: usize| self.buffers.history.get(at).is_some_and(|h| *h > 0);
        let advances = fused.streams.iter().any(|(buffer, ..)| has_history(*buffer));
        let max = if advances { capacity } else { MAX_RUN_BARS };
        let bars = left.min(MAX_RUN_BARS).min(max) / MAX_ROUND_BARS * MAX_ROUND_BARS;
        // Other streams reuse the rows of one round, which have to fit a block.
        (bars > 0 && MAX_ROUND_BARS <= self.block).then_some(bars)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

    use super::*;
    use crate::{
        catalogue,
        exec::{Columns, ExecOptions, Series, run, run_into},
        jit::has_column_loops,
        plan::batched_kernel,
        select::{Instance, Selection, select},
    };

    fn selection(name: &str) -> Selection {
        select(&[Instance::of(catalogue::find(name).unwrap())])
    }

    /// Prices of one series; some are NaN.
    fn bars(n: usize, seed: usize) -> Vec<f64> {
        let x = |t: usize| ((t * 37 + seed * 101) % 211) as f64 / 7.0 + 20.0;
        (0..n).map(|t| if t % 499 == 300 + seed { f64::NAN } else { x(t) }).collect()
    }

    /// Columns that begin so many doubles after a cache-line boundary.
    struct MisalignedColumns(Vec<Vec<Vec<f64>>>, Vec<usize>);

    impl MisalignedColumns {
        fn new(lengths: &[usize], outputs: usize, misaligned: &[usize]) -> MisalignedColumns {
            MisalignedColumns(
                lengths.iter().map(|n| vec![vec![-1.0; n + 16]; outputs]).collect(),
                misaligned.to_vec(),
            )
        }

        fn columns(&mut self, lengths: &[usize]) -> Vec<Columns<'_>> {
            let series = self.0.iter_mut().zip(lengths).zip(&self.1);
            let column = |c: &'_ mut Vec<f64>, n: usize, misaligned: usize| {
                let first = c.as_ptr().align_offset(CACHE_LINE).min(8) + misaligned;
                first..first + n
            };
            let slice = move |c, n: usize, misaligned: usize| {
                let c: &mut Vec<f64> = c;
                let range = column(c, n, misaligned);
                &mut c[range]
            };
            series.map(|((s, n), b)| s.iter_mut().map(|c| slice(c, *n, *b)).collect()).collect()
        }
    }

    const NAMES: [&str; 8] = ["ema", "eri", "atr", "macd", "cdldoji", "mom", "adosc", "sma"];

    fn check_bit_identical(name: &str, lengths: &[usize], misaligned: &[usize], nontemporal: bool) {
        let selection = selection(name);
        let data: Vec<Vec<f64>> = lengths.iter().enumerate().map(|(l, n)| bars(*n, l)).collect();
        let wider: Vec<Vec<f64>> = data.iter().map(|c| c.iter().map(|x| x + 1.5).collect()).collect();
        let series: Vec<Series<'_>> = data
            .iter()
            .zip(&wider)
            .map(|(c, h)| Series { open: c, high: h, low: c, close: c, volume: h, time: c })
            .collect();
        let options = ExecOptions {
            threads: 1,
            batched: Some(true),
            nontemporal_stores: Some(nontemporal),
            ..ExecOptions::default()
        };
        let want = run(&selection.plan, &series, ExecOptions { jit: false, ..options });
        let mut targets = MisalignedColumns::new(lengths, selection.columns.len(), misaligned);
        run_into(&selection.plan, &series, &mut targets.columns(lengths), options);
        for (s, (want, got)) in want.iter().zip(targets.columns(lengths)).enumerate() {
            for (want, got) in want.iter().zip(got) {
                let at = want
                    .iter()
                    .zip(got)
                    .position(|(w, g)| w.to_bits() != g.to_bits() && !(w.is_nan() && g.is_nan()));
                assert_eq!(
                    at, None,
                    "{name}, series {s} of {lengths:?}, {misaligned:?}, non-temporal {nontemporal}"
                );
            }
        }
        // Nothing outside the columns is written.
        let outputs = selection.columns.len();
        let touched = |c: &Vec<f64>| c.iter().filter(|x| x.to_bits() != (-1.0f64).to_bits()).count();
        for (s, n) in targets.0.iter().zip(lengths) {
            assert!(s.iter().take(outputs).all(|c| touched(c) <= *n), "{name} {lengths:?} {misaligned:?}");
        }
    }

    #[test]
    fn bit_identical_to_kernels_for_every_alignment_and_length() {
        for name in NAMES {
            for nontemporal in [false, true] {
                check_bit_identical(name, &[2000; 8], &[0; 8], nontemporal);
                check_bit_identical(name, &[2000; 8], &[2; 8], nontemporal);
                check_bit_identical(name, &[1503; 8], &[0, 1, 2, 3, 4, 5, 6, 7], nontemporal);
                check_bit_identical(name, &[2000; 6], &[2; 6], nontemporal);
                check_bit_identical(name, &[2000, 1999, 1777, 1024, 900, 800, 31, 1], &[2; 8], nontemporal);
            }
        }
    }

    /// After one block: does the next run as a fused column loop?
    fn is_fused(name: &str, misaligned: usize, short: bool, store_mode: StoreMode) -> Option<bool> {
        let selection = selection(name);
        let plan = selection.plan.for_lanes(LANES);
        plan.jit_program(LANES, false)?;
        let lengths = [2048; LANES];
        let data: Vec<Vec<f64>> =
            (0..LANES).map(|l| bars(if short && l == 3 { 300 } else { 2048 }, l)).collect();
        let series: Vec<Series<'_>> =
            data.iter().map(|c| Series { open: c, high: c, low: c, close: c, volume: c, time: c }).collect();
        let mut targets = MisalignedColumns::new(&lengths, selection.columns.len(), &[misaligned; LANES]);
        let mut columns = targets.columns(&lengths);
        let mut tile: Vec<Job<'_, '_, '_>> = series.iter().zip(columns.iter_mut()).collect();
        let options = ExecOptions {
            nontemporal_stores: Some(store_mode == StoreMode::NonTemporal),
            ..ExecOptions::default()
        };
        let mut state = Tile::<LANES>::new(plan, batched_kernel, options, None);
        let block = state.block;
        state.next_block(0);
        state.run_steps(plan, 0, block, &[], &mut [], |_, _| {});
        state.next_block(block);
        Some(state.run_fused_columns(plan, &mut tile, block, &mut []).is_some_and(|t1| t1 >= 2 * block))
    }

    #[test]
    fn fuses_only_single_loop_plans_with_aligned_columns_that_all_series_have() {
        if !has_column_loops() {
            return println!("skipped: no loops from columns to columns on this target");
        }
        for name in NAMES {
            let Some(fused) = is_fused(name, 0, false, StoreMode::NonTemporal) else { return };
            assert!(fused, "{name}");
            assert_eq!(is_fused(name, 1, false, StoreMode::NonTemporal), Some(false), "{name}: not aligned");
            assert_eq!(is_fused(name, 1, false, StoreMode::Cached), Some(true), "{name}: normal stores");
            assert_eq!(
                is_fused(name, 0, true, StoreMode::NonTemporal),
                Some(false),
                "{name}: a series ends early"
            );
        }
        assert_ne!(is_fused("max", 0, false, StoreMode::NonTemporal), Some(true), "no fused loop");
    }
}
