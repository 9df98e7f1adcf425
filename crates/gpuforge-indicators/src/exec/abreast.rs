//! How are several series computed at once? Bars are put side by side block after block, results are taken apart as soon as
//! they are there.

use crate::{
    exec::{Job, LANES, Tile, beyond_line, gather, silence, store::Store, straight::MOST},
    graph::Field,
    kernel::{
        Row, Simd,
        turn::{self, Ahead, Bench, LINE, Rest, Write},
    },
    plan::Plan,
};

/// Where results go.
struct Apart {
    simd: Simd,
    write: Write,
    /// Lanes that no series is in write here.
    spare: Vec<Vec<f64>>,
    /// Of each output, what is not yet written.
    rests: Vec<Rest>,
    bench: Bench,
    /// Of each output, which one is taken apart soon after it.
    soon: Vec<Option<usize>>,
}

/// Results that are taken apart until another one's pages have been found.
const EARLY: usize = 2;

/// Of each output, which one is taken apart `EARLY` later.
fn soon(plan: &Plan) -> Vec<Option<usize>> {
    let order: Vec<usize> = plan.given.iter().chain(plan.delivers.iter().flatten()).copied().collect();
    let mut soon = vec![None; plan.outputs.len()];
    for (at, later) in order.iter().zip(order.iter().skip(EARLY)) {
        if let Some(slot) = soon.get_mut(*at) {
            *slot = Some(*later);
        }
    }
    soon
}

impl Tile<LANES> {
    /// Several series side by side.
    pub(super) fn abreast(&mut self, plan: &Plan, tile: &mut [Job<'_, '_, '_>]) {
        self.begin(plan);
        let bars = tile.iter().map(|(s, _)| s.len(plan)).max().unwrap_or(0);
        let wholes: Vec<Vec<Vec<f64>>> = plan
            .wholes
            .iter()
            .map(|(def, params, _)| tile.iter().map(|(s, _)| s.whole(plan, def, params)).collect())
            .collect();
        let (simd, write) = (self.simd, self.write);
        let waiting = if write == Write::Past { plan.outputs.len() } else { 0 };
        let mut apart = Apart {
            simd,
            write,
            // Room to begin at a whole line.
            spare: vec![vec![0.0; self.block.max(MOST) + LINE / size_of::<f64>()]; LANES - tile.len()],
            rests: vec![Rest::default(); waiting],
            bench: Bench::default(),
            soon: soon(plan),
        };
        let beyond = tile.first().and_then(|(_, columns)| columns.first()).map_or(0, |c| beyond_line(c));
        let mut t0 = 0;
        while t0 < bars {
            let t1 = self.end(t0, beyond).min(bars);
            self.next(t0);
            if let Some(t1) = self.straight(plan, tile, t0, &mut apart.spare) {
                t0 = t1;
                continue;
            }
            let asked =
                if write == Write::Past { self.ask(plan, tile, t1, &mut apart.bench.ahead) } else { 0 };
            for (at, (field, place)) in plan.fields.iter().enumerate() {
                let column = |l: usize| lane(tile, l, *field);
                self.fill(*place, |rows| gather(column, (t0, t1), rows, (simd, at >= asked)));
            }
            for ((.., place), columns) in plan.wholes.iter().zip(&wholes) {
                let column =
                    |l: usize| columns.get(l).or(columns.last()).map_or(&[] as &[f64], Vec::as_slice);
                self.fill(*place, |rows| gather(column, (t0, t1), rows, (simd, true)));
            }
            let mut deliver = |store: &Store<LANES>, output: usize| {
                if let Some(place) = plan.outputs.get(output) {
                    apart.scatter(tile, output, (t0, t1), store.rows(*place, t1 - t0));
                }
            };
            plan.given.iter().for_each(|output| deliver(&self.store, *output));
            self.steps(plan, t0, t1, &[], &mut [], |store, at| {
                let outputs = plan.delivers.get(at).map_or(&[] as &[usize], Vec::as_slice);
                outputs.iter().for_each(|output| deliver(store, *output));
            });
            t0 = t1;
        }
        if write == Write::Past {
            turn::settle();
        }
        // Only now: what waits for the rest of its line may be from before.
        for (_, columns) in tile {
            for (column, start) in columns.iter_mut().zip(&plan.starts) {
                silence(column, 0, *start);
            }
        }
        self.bars = bars.max(1);
    }

    /// What the block from bar `t1` on will read: some columns are asked for by the longest compiled loop, some while results
    /// are taken apart. How many these are; the others are asked for while this block's bars are put side by side.
    fn ask(&mut self, plan: &Plan, tile: &[Job<'_, '_, '_>], t1: usize, ahead: &mut Ahead) -> usize {
        let lines = self.block.div_ceil(LINE / size_of::<f64>());
        let by_loop = self.native.as_ref().map_or(0, |n| n.ahead());
        ahead.begin(lines);
        self.desk.ahead.clear();
        let fields = plan.fields.iter().take(by_loop + plan.outputs.len()).enumerate();
        for (at, (field, _)) in fields.clone() {
            let lanes = (0..LANES).map(|l| lane(tile, l, *field).as_ptr().wrapping_add(t1));
            if at < by_loop {
                self.desk.ahead.extend(lanes);
            } else {
                ahead.lanes.extend(lanes);
            }
        }
        fields.len()
    }
}

/// A lane's column; where there are fewer series than lanes, the last one's.
pub(super) fn lane<'s>(tile: &[Job<'_, 's, '_>], l: usize, field: Field) -> &'s [f64] {
    tile.get(l).or(tile.last()).map_or(&[], |(s, _)| s.field(field))
}

impl Apart {
    /// Takes results apart.
    fn scatter(
        &mut self,
        tile: &mut [Job<'_, '_, '_>],
        output: usize,
        (t0, t1): (usize, usize),
        rows: &[Row<LANES>],
    ) {
        let columns = tile
            .iter_mut()
            .map(|(_, columns)| columns.get_mut(output).map_or(&mut [] as &mut [f64], |c| &mut **c));
        if let (Write::Past, Some(rest)) = (self.write, self.rests.get_mut(output)) {
            turn::apart_past(rows, t0, columns, rest, &mut self.bench, self.simd);
            // Many results are in more pages than a core knows by heart: it looks for them while it does something else.
            if let Some(later) = self.soon.get(output).copied().flatten() {
                let later = tile.iter().filter_map(|(_, columns)| columns.get(later));
                later.for_each(|column| turn::ask(column.as_ptr().wrapping_add(t0)));
            }
            return;
        }
        let columns = columns.map(|column| {
            let n = column.len();
            column.get_mut(t0.min(n)..t1.min(n)).unwrap_or_default()
        });
        let mut lanes: [&mut [f64]; LANES] = Default::default();
        let spare = self.spare.iter_mut().filter_map(|s| s.get_mut(..t1 - t0));
        for (lane, column) in lanes.iter_mut().zip(columns.chain(spare)) {
            *lane = column;
        }
        if lanes.iter().all(|lane| lane.len() == t1 - t0) {
            return turn::apart(rows, &mut lanes, self.simd);
        }
        for (l, lane) in lanes.into_iter().enumerate() {
            for (x, row) in lane.iter_mut().zip(rows) {
                *x = row.get(l).copied().unwrap_or(f64::NAN);
            }
        }
    }
}
