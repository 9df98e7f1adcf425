//! Checks of bars: nulls, OHLC that does not hold together, prices that are not positive, volume that is 0. Do the bars hold?

use gpuforge_frame::{Bars, KeySchema};

use super::{Problem, Seen, Spot, jumps::Jumps, steps::Steps};

/// Names of the columns, in the order of the bits.
const NAMES: [&str; 5] = ["open", "high", "low", "close", "volume"];
const OPEN: u8 = 1;
const HIGH: u8 = 2;
const LOW: u8 = 4;
const CLOSE: u8 = 8;
const VOLUME: u8 = 16;
/// What a price may be beyond the high or the low by rounding, as a share of it.
const SLACK: f64 = 1e-9;

/// Which columns a finding is about.
pub(super) fn names(problem: Problem, columns: u8) -> String {
    let own = match problem {
        Problem::Gap | Problem::Duplicate => return "time".to_owned(),
        Problem::Unreadable => return String::new(),
        _ => NAMES.iter().enumerate().filter(|(at, _)| columns & (1 << at) != 0),
    };
    own.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// What was seen in the symbol at hand.
pub(super) struct BarChecks {
    rows: u64,
    null: Seen,
    crossed: Seen,
    outside: Seen,
    not_positive: Seen,
    zero_volume: Seen,
    steps: Steps,
    jumps: Jumps,
}

impl BarChecks {
    pub(super) fn new(layout: &KeySchema) -> Self {
        BarChecks {
            rows: 0,
            null: Seen::default(),
            crossed: Seen::default(),
            outside: Seen::default(),
            not_positive: Seen::default(),
            zero_volume: Seen::default(),
            steps: Steps::new(layout),
            jumps: Jumps::default(),
        }
    }

    /// Rows of the symbol at hand.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bars of a symbol that has had `offset` of them before.
    pub(super) fn see(&mut self, bars: &Bars, offset: u64) {
        let columns = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
        for at in 0..bars.len() {
            let time = bars.time.get(at).copied();
            let spot = Spot { row: offset + at as u64, time, value: None };
            // What the input does not have, or nobody asked for, is no problem.
            let bar = columns.map(|c| c.get(at).copied());
            self.bar(bar, spot);
            if let Some(time) = time {
                self.jumps.wait(self.steps.next(time, spot.row));
            }
            if let [.., Some(close), _] = bar {
                self.jumps.next(close, spot);
            }
            if self.jumps.is_full() {
                self.jumps.judge(self.steps.usual());
            }
        }
        self.rows += bars.len() as u64;
    }

    fn bar(&mut self, bar: [Option<f64>; 5], spot: Spot) {
        let which = |wrong: &dyn Fn(f64) -> bool| {
            let bits = [OPEN, HIGH, LOW, CLOSE, VOLUME].into_iter().zip(bar);
            bits.filter(|(_, x)| x.is_some_and(wrong)).fold(0, |all, (bit, _)| all | bit)
        };
        let note = |seen: &mut Seen, columns: u8| {
            seen.add(u64::from(columns != 0), || spot);
            seen.columns |= columns;
        };
        note(&mut self.null, which(&f64::is_nan));
        note(&mut self.not_positive, which(&|x| x <= 0.0) & !VOLUME);
        let [open, high, low, close, volume] = bar;
        if volume == Some(0.0) {
            note(&mut self.zero_volume, VOLUME);
        }
        let (Some(high), Some(low)) = (high, low) else { return };
        if high < low {
            return note(&mut self.crossed, HIGH | LOW);
        }
        let room = SLACK * high.abs();
        let beyond = |price: Option<f64>| price.is_some_and(|x| x > high + room || x < low - room);
        let columns = [(OPEN, open), (CLOSE, close)].into_iter().filter(|(_, price)| beyond(*price));
        note(&mut self.outside, columns.fold(0, |all, (bit, _)| all | bit));
    }

    /// The symbol ends: what was seen in it.
    pub(super) fn take(&mut self) -> [(Problem, Seen); 7] {
        let of = std::mem::take(&mut self.rows);
        let jumps = self.jumps.take(self.steps.usual());
        let take = |seen: &mut Seen| Seen { of, ..std::mem::take(seen) };
        [
            (Problem::Null, take(&mut self.null)),
            (Problem::HighBelowLow, take(&mut self.crossed)),
            (Problem::OutsideHighLow, take(&mut self.outside)),
            (Problem::NotPositive, take(&mut self.not_positive)),
            (Problem::ZeroVolume, take(&mut self.zero_volume)),
            (Problem::Gap, self.steps.take()),
            (Problem::Jump, Seen { columns: CLOSE, ..jumps }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bars: &[[f64; 5]]) -> Vec<(Problem, u64, Option<u64>, String)> {
        let column = |at: usize| bars.iter().filter_map(|b| b.get(at).copied()).collect();
        let bars = Bars {
            open: column(0),
            high: column(1),
            low: column(2),
            close: column(3),
            volume: column(4),
            ..Bars::default()
        };
        let mut checks = BarChecks::new(&KeySchema::default());
        checks.see(&bars, 10);
        let found = checks.take().into_iter().filter(|(_, s)| s.count > 0);
        found.map(|(p, s)| (p, s.count, s.first.map(|f| f.row), names(p, s.columns))).collect()
    }

    #[test]
    fn bars_that_hold_together_have_no_problem() {
        assert_eq!(seen(&[[2.0, 3.0, 1.0, 2.5, 10.0], [1.0, 1.0, 1.0, 1.0, 1.0]]), []);
        // An adjusted price may be off by a rounding.
        assert_eq!(seen(&[[3.0 + 1e-10, 3.0, 1.0, 1.0 - 1e-10, 1.0]]), []);
        assert_eq!(seen(&[]), []);
    }

    #[test]
    fn each_problem_has_its_columns_and_its_place() {
        let nan = f64::NAN;
        let good = [2.0, 3.0, 1.0, 2.0, 1.0];
        let of = |bad: [f64; 5]| seen(&[good, bad, good, bad]);
        let found = |p, columns: &str| vec![(p, 2, Some(11), columns.to_owned())];
        assert_eq!(of([2.0, 1.0, 3.0, 2.0, 1.0]), found(Problem::HighBelowLow, "high, low"));
        assert_eq!(of([4.0, 3.0, 1.0, 2.0, 1.0]), found(Problem::OutsideHighLow, "open"));
        assert_eq!(of([0.5, 3.0, 1.0, 3.5, 1.0]), found(Problem::OutsideHighLow, "open, close"));
        assert_eq!(of([2.0, 3.0, 1.0, 2.0, 0.0]), found(Problem::ZeroVolume, "volume"));
        assert_eq!(of([nan, nan, nan, nan, nan]), found(Problem::Null, "open, high, low, close, volume"));
        assert_eq!(of([2.0, 3.0, 0.0, 2.0, 1.0]), found(Problem::NotPositive, "low"));
    }
}
