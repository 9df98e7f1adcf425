//! When are several series computed without a detour? Where all of the plan is one compiled loop that holds from these bars
//! on, and every series has them. Then it runs over many blocks at once: nothing is between steps that would have to stay small.

use crate::{
    exec::{Job, LANES, Tile, abreast::lane},
    kernel::turn::{LINE, Write},
    native::{BARS, Group},
    plan::Plan,
};

/// The most bars of one run. Setting one up takes as long as some hundred of them.
pub(super) const MOST: usize = 2048;

impl Tile<LANES> {
    /// Computes from bar `t0` on, from columns to columns; the bar that it came to, or `None` where it has to go the long way.
    pub(super) fn straight(
        &mut self,
        plan: &Plan,
        tile: &mut [Job<'_, '_, '_>],
        t0: usize,
        spare: &mut [Vec<f64>],
    ) -> Option<usize> {
        let native = self.native.clone()?;
        let (whole, group) = native.straight().filter(|(_, g)| t0 >= g.steady)?;
        let bars = self.reach(group, tile.iter().map(|(s, _)| s.len(plan)).min()?.checked_sub(t0)?)?;
        let t1 = t0 + bars;
        if !self.set_desk(group, (t0, t0 + bars.min(self.block)), &[], &mut []) {
            return None;
        }
        for (field, _) in whole.fields.iter().filter_map(|at| plan.fields.get(*at)) {
            for l in 0..LANES {
                self.desk.table.push(lane(tile, l, *field).get(t0..t1)?.as_ptr().cast_mut());
            }
        }
        for output in 0..plan.outputs.len() {
            for (_, columns) in tile.iter_mut() {
                let to = columns.get_mut(output)?.get_mut(t0..t1)?;
                if self.write == Write::Past && !to.as_ptr().addr().is_multiple_of(LINE) {
                    return None;
                }
                self.desk.table.push(to.as_mut_ptr());
            }
            for room in spare.iter_mut() {
                let skip = room.as_ptr().align_offset(LINE).min(LINE / size_of::<f64>());
                self.desk.table.push(room.get_mut(skip..skip + bars)?.as_mut_ptr());
            }
        }
        #[allow(unsafe_code, reason = "compiled loops take pointers")]
        // SAFETY: `reach` and `set_desk` found room for every stream; every column has these bars, as was just seen, and those
        // that are written are borrowed mutably here, eight for every output.
        unsafe {
            native.run_straight(whole, group, &mut self.desk, bars, self.write);
        }
        self.take_states(group);
        self.last = bars;
        Some(t1)
    }

    /// How many of the bars that are left one run can take: whole rounds, and no more than streams that move on have room for.
    fn reach(&mut self, group: &Group, left: usize) -> Option<usize> {
        let room = self.store.blocks * self.block - self.store.shift;
        let kept = |at: usize| self.store.history.get(at).is_some_and(|h| *h > 0);
        let moves = group.streams.iter().any(|(buffer, ..)| kept(*buffer));
        let bars = left.min(MOST).min(if moves { room } else { MOST }) / BARS * BARS;
        // Others are the same few rows again and again, of which there is a block.
        (bars > 0 && BARS <= self.block).then_some(bars)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

    use super::*;
    use crate::{
        catalogue,
        exec::{Columns, How, Series, run, run_into},
        plan::kernel_8,
        select::{Instance, Selection, select},
    };

    fn selection(name: &str) -> Selection {
        select(&[Instance::of(catalogue::find(name).unwrap())])
    }

    /// Bars of one series; some are NaN.
    fn bars(n: usize, seed: usize) -> Vec<f64> {
        let x = |t: usize| ((t * 37 + seed * 101) % 211) as f64 / 7.0 + 20.0;
        (0..n).map(|t| if t % 499 == 300 + seed { f64::NAN } else { x(t) }).collect()
    }

    /// Columns that begin so many numbers after a whole line.
    struct Room(Vec<Vec<Vec<f64>>>, Vec<usize>);

    impl Room {
        fn new(lengths: &[usize], outputs: usize, beyond: &[usize]) -> Room {
            Room(lengths.iter().map(|n| vec![vec![-1.0; n + 16]; outputs]).collect(), beyond.to_vec())
        }

        fn columns(&mut self, lengths: &[usize]) -> Vec<Columns<'_>> {
            let series = self.0.iter_mut().zip(lengths).zip(&self.1);
            let column = |c: &'_ mut Vec<f64>, n: usize, beyond: usize| {
                let first = c.as_ptr().align_offset(LINE).min(8) + beyond;
                first..first + n
            };
            let slice = move |c, n: usize, beyond: usize| {
                let c: &mut Vec<f64> = c;
                let range = column(c, n, beyond);
                &mut c[range]
            };
            series.map(|((s, n), b)| s.iter_mut().map(|c| slice(c, *n, *b)).collect()).collect()
        }
    }

    const NAMES: [&str; 8] = ["ema", "eri", "atr", "macd", "cdldoji", "mom", "adosc", "sma"];

    fn same(name: &str, lengths: &[usize], beyond: &[usize], past: bool) {
        let selection = selection(name);
        let data: Vec<Vec<f64>> = lengths.iter().enumerate().map(|(l, n)| bars(*n, l)).collect();
        let wider: Vec<Vec<f64>> = data.iter().map(|c| c.iter().map(|x| x + 1.5).collect()).collect();
        let series: Vec<Series<'_>> = data
            .iter()
            .zip(&wider)
            .map(|(c, h)| Series { open: c, high: h, low: c, close: c, volume: h, time: c })
            .collect();
        let how = How { threads: 1, side_by_side: Some(true), past: Some(past), ..How::default() };
        let want = run(&selection.plan, &series, How { compiled: false, ..how });
        let mut room = Room::new(lengths, selection.columns.len(), beyond);
        run_into(&selection.plan, &series, &mut room.columns(lengths), how);
        for (s, (want, got)) in want.iter().zip(room.columns(lengths)).enumerate() {
            for (want, got) in want.iter().zip(got) {
                let at = want
                    .iter()
                    .zip(got)
                    .position(|(w, g)| w.to_bits() != g.to_bits() && !(w.is_nan() && g.is_nan()));
                assert_eq!(at, None, "{name}, series {s} of {lengths:?}, {beyond:?}, past {past}");
            }
        }
        // Nothing but the columns is written.
        let outputs = selection.columns.len();
        let touched = |c: &Vec<f64>| c.iter().filter(|x| x.to_bits() != (-1.0f64).to_bits()).count();
        for (s, n) in room.0.iter().zip(lengths) {
            assert!(s.iter().take(outputs).all(|c| touched(c) <= *n), "{name} {lengths:?} {beyond:?}");
        }
    }

    #[test]
    fn the_same_bits_wherever_columns_begin_and_whatever_their_lengths() {
        for name in NAMES {
            for past in [false, true] {
                same(name, &[2000; 8], &[0; 8], past);
                same(name, &[2000; 8], &[2; 8], past);
                same(name, &[1503; 8], &[0, 1, 2, 3, 4, 5, 6, 7], past);
                same(name, &[2000; 6], &[2; 6], past);
                same(name, &[2000, 1999, 1777, 1024, 900, 800, 31, 1], &[2; 8], past);
            }
        }
    }

    /// A plan, a tile that has done the bars before `t0`, and whether the next block goes straight.
    fn goes(name: &str, beyond: usize, short: bool, write: Write) -> Option<bool> {
        let selection = selection(name);
        let plan = selection.plan.of(LANES);
        plan.native(LANES, false)?;
        let lengths = [2048; LANES];
        let data: Vec<Vec<f64>> =
            (0..LANES).map(|l| bars(if short && l == 3 { 300 } else { 2048 }, l)).collect();
        let series: Vec<Series<'_>> =
            data.iter().map(|c| Series { open: c, high: c, low: c, close: c, volume: c, time: c }).collect();
        let mut room = Room::new(&lengths, selection.columns.len(), &[beyond; LANES]);
        let mut columns = room.columns(&lengths);
        let mut tile: Vec<Job<'_, '_, '_>> = series.iter().zip(columns.iter_mut()).collect();
        let how = How { past: Some(write == Write::Past), ..How::default() };
        let mut state = Tile::<LANES>::new(plan, kernel_8, how, false);
        let block = state.block;
        state.next(0);
        state.steps(plan, 0, block, &[], &mut [], |_, _| {});
        state.next(block);
        Some(state.straight(plan, &mut tile, block, &mut []).is_some_and(|t1| t1 >= 2 * block))
    }

    #[test]
    fn only_what_is_one_loop_over_whole_lines_that_all_series_have() {
        for name in NAMES {
            let Some(straight) = goes(name, 0, false, Write::Past) else { return };
            assert!(straight, "{name}");
            assert_eq!(goes(name, 1, false, Write::Past), Some(false), "{name}: not at a line");
            assert_eq!(goes(name, 1, false, Write::Cached), Some(true), "{name}: through the caches");
            assert_eq!(goes(name, 0, true, Write::Past), Some(false), "{name}: a series ends before");
        }
        assert_ne!(goes("max", 0, false, Write::Past), Some(true), "no compiled loop");
    }
}
