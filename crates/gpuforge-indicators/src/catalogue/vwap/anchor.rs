//! VWAP anchors: flags at the first bar of a day, week or month, or where a daily record is set.
//!
//! Times are UTC seconds since the epoch; `offset` is the UTC offset of the exchange in seconds.

use super::weighted_moments::RUNNING_RECORD;
use crate::{
    graph::{Expr, Field, GraphBuilder},
    kernel::whole_series::WholeSeriesDef,
};

/// Seconds per day.
const DAY: f64 = 86_400.0;

/// Day number at this UTC offset.
pub(super) fn day(bars: GraphBuilder<'_>, offset: f64) -> Expr<'_> {
    ((bars.time() + offset) / DAY).floor()
}

/// Week number of a day; weeks start on Monday. (The epoch was a Thursday.)
pub(super) fn week(day: Expr<'_>) -> Expr<'_> {
    ((day + 3.0) / 7.0).floor()
}

/// Month number of a day in the Gregorian calendar; years start in March, so that the leap day is the last.
pub(super) fn month(day: Expr<'_>) -> Expr<'_> {
    let since = day + 719_468.0;
    let era = (since / 146_097.0).floor();
    let of_era = since - era * 146_097.0;
    let leap = (of_era / 1_460.0).floor() - (of_era / 36_524.0).floor() + (of_era / 146_096.0).floor();
    let year = ((of_era - leap) / 365.0).floor();
    let of_year = of_era - (year * 365.0 + (year / 4.0).floor() - (year / 100.0).floor());
    (era * 400.0 + year) * 12.0 + ((of_year * 5.0 + 2.0) / 153.0).floor()
}

/// 1 where a value differs from the previous bar, and at the first bar.
pub(super) fn change(x: Expr<'_>) -> Expr<'_> {
    x.ne(x.shift(1)).fill_warmup(1.0)
}

/// Daily record: high, low or volume.
#[derive(Clone, Copy)]
pub(super) enum DailyRecord {
    High,
    Low,
    Volume,
}

/// 1 where the day's running record is set; the first of equals counts.
pub(super) fn record<'g>(bars: GraphBuilder<'g>, which: DailyRecord, new_day: Expr<'g>) -> Expr<'g> {
    let x = match which {
        DailyRecord::High => bars.high(),
        DailyRecord::Low => -bars.low(),
        DailyRecord::Volume => bars.volume(),
    };
    bars.state_machine(&RUNNING_RECORD, &[], &[x, new_day]).first().copied().unwrap_or(x)
}

/// 1 at the bar of each day's final record (looks ahead to the end of the day); the first of equals.
pub(super) fn final_record(bars: GraphBuilder<'_>, which: DailyRecord, offset: f64) -> Expr<'_> {
    let def = match which {
        DailyRecord::High => &FINAL_HIGH,
        DailyRecord::Low => &FINAL_LOW,
        DailyRecord::Volume => &FINAL_VOLUME,
    };
    bars.whole_series(def, &[offset])
}

fn finals(columns: &[&[f64]], params: &[f64], better: fn(f64, f64) -> bool) -> Vec<f64> {
    let &[x, time] = columns else { return Vec::new() };
    let offset = params.first().copied().unwrap_or(0.0);
    let mut flags = vec![0.0; x.len()];
    let mut best: Option<(f64, f64, usize)> = None;
    for (at, (x, time)) in x.iter().zip(time).enumerate() {
        let day = ((time + offset) / DAY).floor();
        best = match best {
            Some((of, y, since)) if of == day => {
                Some(if better(*x, y) { (day, *x, at) } else { (of, y, since) })
            }
            done => {
                mark(&mut flags, done);
                Some((day, *x, at))
            }
        };
    }
    mark(&mut flags, best);
    flags
}

fn mark(flags: &mut [f64], best: Option<(f64, f64, usize)>) {
    if let Some(flag) = best.and_then(|(.., at)| flags.get_mut(at)) {
        *flag = 1.0;
    }
}

static FINAL_HIGH: WholeSeriesDef = WholeSeriesDef {
    name: "bar of the day's high",
    fields: &[Field::High, Field::Time],
    column: |columns, params| finals(columns, params, |x, best| x > best),
};
static FINAL_LOW: WholeSeriesDef = WholeSeriesDef {
    name: "bar of the day's low",
    fields: &[Field::Low, Field::Time],
    column: |columns, params| finals(columns, params, |x, best| x < best),
};
static FINAL_VOLUME: WholeSeriesDef = WholeSeriesDef {
    name: "bar of the day's largest volume",
    fields: &[Field::Volume, Field::Time],
    column: |columns, params| finals(columns, params, |x, best| x > best),
};
