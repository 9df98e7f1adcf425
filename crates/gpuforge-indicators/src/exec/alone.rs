//! How is one series computed by itself? Bars are read where they are, results are written where they go, block after block.

use crate::{
    exec::{Columns, Series, Tile, beyond_line, silence, store::Home},
    kernel::{
        Row,
        turn::{self, Write},
    },
    plan::{Place, Plan},
};

impl Tile<1> {
    /// One series, read where it is and written where it goes.
    pub(super) fn alone(&mut self, plan: &Plan, series: &Series<'_>, columns: &mut Columns<'_>) {
        self.begin(plan);
        let bars = series.len(plan);
        let wholes: Vec<Vec<f64>> =
            plan.wholes.iter().map(|(def, params, _)| series.whole(plan, def, params)).collect();
        let fields: Vec<&[Row<1>]> =
            plan.fields.iter().map(|(f, _)| series.field(*f).as_chunks::<1>().0).collect();
        let mut rows: Vec<&mut [Row<1>]> = columns.iter_mut().map(|c| c.as_chunks_mut::<1>().0).collect();
        // Where pieces begin must not depend on where the results lie: values would be others from call to call.
        let line = rows.first().filter(|_| !self.loose);
        let beyond = line.map_or(0, |column| beyond_line(column.as_flattened()));
        let mut t0 = 0;
        while t0 < bars {
            let t1 = self.end(t0, beyond).min(bars);
            self.next(t0);
            for ((.., place), column) in plan.wholes.iter().zip(&wholes) {
                let from = column.get(t0..t1).unwrap_or(&[]);
                self.fill(*place, |rows| {
                    rows.as_flattened_mut().iter_mut().zip(from).for_each(|(to, x)| *to = *x);
                });
            }
            self.steps(plan, t0, t1, &fields, &mut rows, |_, _| {});
            for (output, place) in plan.outputs.iter().enumerate() {
                self.deliver(output, *place, (t0, t1), &fields, &mut rows);
            }
            t0 = t1;
        }
        if self.write == Write::Past {
            turn::settle();
        }
        // Only now: until the end, others may have read what a column has before it counts.
        for (column, start) in columns.iter_mut().zip(&plan.starts) {
            silence(column, 0, *start);
        }
        self.bars = bars.max(1);
    }

    /// A result that is not yet where it goes: a column of the bars, a constant, or one that is asked for twice.
    fn deliver(
        &self,
        output: usize,
        place: Place,
        (t0, t1): (usize, usize),
        fields: &[&[Row<1>]],
        columns: &mut [&mut [Row<1>]],
    ) {
        let from: &[Row<1>] = match self.store.homes.get(place.buffer) {
            Some(Home::Column(c)) if *c == output => return,
            Some(Home::Column(c)) => {
                let Some((first, second)) = columns.split_at_mut_checked(output) else { return };
                if let (Some(from), Some(to)) = (first.get(*c), second.first_mut())
                    && let (Some(from), Some(to)) = (from.get(t0..t1), to.get_mut(t0..t1))
                {
                    to.copy_from_slice(from);
                }
                return;
            }
            Some(Home::Field(f)) => fields.get(*f).and_then(|f| f.get(t0..t1)).unwrap_or(&[]),
            _ => self.store.rows(place, t1 - t0),
        };
        if let Some(to) = columns.get_mut(output).and_then(|c| c.get_mut(t0..t1)) {
            match self.write {
                Write::Past => turn::copy_past(from.as_flattened(), to.as_flattened_mut(), self.simd),
                Write::Cached => to.iter_mut().zip(from).for_each(|(to, x)| *to = *x),
            }
        }
    }
}
