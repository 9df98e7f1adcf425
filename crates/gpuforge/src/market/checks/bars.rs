//! Bar checks: nulls, OHLC consistency, non-positive prices, zero volume.

use gpuforge_frame::{Bars, KeySchema};

use super::{QualityProblem, RowRef, SymbolTally, gaps::GapDetector, jumps::JumpDetector};

/// Names of the columns, in the order of the bits.
const NAMES: [&str; 5] = ["open", "high", "low", "close", "volume"];
const OPEN: u8 = 1;
const HIGH: u8 = 2;
const LOW: u8 = 4;
const CLOSE: u8 = 8;
const VOLUME: u8 = 16;
/// Relative tolerance of OHLC comparisons.
const SLACK: f64 = 1e-9;

/// Columns of a finding.
pub(super) fn names(problem: QualityProblem, columns: u8) -> String {
    let own = match problem {
        QualityProblem::Gap | QualityProblem::Duplicate => return "time".to_owned(),
        QualityProblem::Unreadable => return String::new(),
        _ => NAMES.iter().enumerate().filter(|(at, _)| columns & (1 << at) != 0),
    };
    own.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// Checks of the current symbol's bars.
pub(super) struct BarChecks {
    rows: u64,
    null: SymbolTally,
    crossed: SymbolTally,
    outside: SymbolTally,
    not_positive: SymbolTally,
    zero_volume: SymbolTally,
    gaps: GapDetector,
    jumps: JumpDetector,
}

impl BarChecks {
    pub(super) fn new(layout: &KeySchema) -> Self {
        BarChecks {
            rows: 0,
            null: SymbolTally::default(),
            crossed: SymbolTally::default(),
            outside: SymbolTally::default(),
            not_positive: SymbolTally::default(),
            zero_volume: SymbolTally::default(),
            gaps: GapDetector::new(layout),
            jumps: JumpDetector::default(),
        }
    }

    /// Rows of the current symbol.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Checks bars, `offset` after the symbol's first.
    pub(super) fn check(&mut self, bars: &Bars, offset: u64) {
        let columns = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
        for at in 0..bars.len() {
            let time = bars.time.get(at).copied();
            let row_ref = RowRef { row: offset + at as u64, time, value: None };
            // Missing columns are not a problem.
            let bar = columns.map(|c| c.get(at).copied());
            self.bar(bar, row_ref);
            if let Some(time) = time {
                self.jumps.wait(self.gaps.next(time, row_ref.row));
            }
            if let [.., Some(close), _] = bar {
                self.jumps.next(close, row_ref);
            }
            if self.jumps.is_full() {
                self.jumps.detect(self.gaps.usual());
            }
        }
        self.rows += bars.len() as u64;
    }

    fn bar(&mut self, bar: [Option<f64>; 5], row_ref: RowRef) {
        let which = |wrong: &dyn Fn(f64) -> bool| {
            let bits = [OPEN, HIGH, LOW, CLOSE, VOLUME].into_iter().zip(bar);
            bits.filter(|(_, x)| x.is_some_and(wrong)).fold(0, |all, (bit, _)| all | bit)
        };
        let note = |tally: &mut SymbolTally, columns: u8| {
            tally.add(u64::from(columns != 0), || row_ref);
            tally.columns |= columns;
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
        let slack = SLACK * high.abs();
        let beyond = |price: Option<f64>| price.is_some_and(|x| x > high + slack || x < low - slack);
        let columns = [(OPEN, open), (CLOSE, close)].into_iter().filter(|(_, price)| beyond(*price));
        note(&mut self.outside, columns.fold(0, |all, (bit, _)| all | bit));
    }

    /// Finishes the symbol; its counts.
    pub(super) fn take(&mut self) -> [(QualityProblem, SymbolTally); 7] {
        let of = std::mem::take(&mut self.rows);
        let jumps = self.jumps.take(self.gaps.usual());
        let take = |tally: &mut SymbolTally| SymbolTally { of, ..std::mem::take(tally) };
        [
            (QualityProblem::Null, take(&mut self.null)),
            (QualityProblem::HighBelowLow, take(&mut self.crossed)),
            (QualityProblem::OutsideHighLow, take(&mut self.outside)),
            (QualityProblem::NotPositive, take(&mut self.not_positive)),
            (QualityProblem::ZeroVolume, take(&mut self.zero_volume)),
            (QualityProblem::Gap, self.gaps.take()),
            (QualityProblem::Jump, SymbolTally { columns: CLOSE, ..jumps }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bars: &[[f64; 5]]) -> Vec<(QualityProblem, u64, Option<u64>, String)> {
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
        checks.check(&bars, 10);
        let found = checks.take().into_iter().filter(|(_, s)| s.count > 0);
        found.map(|(p, s)| (p, s.count, s.first.map(|f| f.row), names(p, s.columns))).collect()
    }

    #[test]
    fn consistent_bars_have_no_problem() {
        assert_eq!(seen(&[[2.0, 3.0, 1.0, 2.5, 10.0], [1.0, 1.0, 1.0, 1.0, 1.0]]), []);
        // Adjusted prices may be off by rounding.
        assert_eq!(seen(&[[3.0 + 1e-10, 3.0, 1.0, 1.0 - 1e-10, 1.0]]), []);
        assert_eq!(seen(&[]), []);
    }

    #[test]
    fn each_problem_reports_columns_and_first_row() {
        let nan = f64::NAN;
        let good = [2.0, 3.0, 1.0, 2.0, 1.0];
        let of = |bad: [f64; 5]| seen(&[good, bad, good, bad]);
        let found = |p, columns: &str| vec![(p, 2, Some(11), columns.to_owned())];
        assert_eq!(of([2.0, 1.0, 3.0, 2.0, 1.0]), found(QualityProblem::HighBelowLow, "high, low"));
        assert_eq!(of([4.0, 3.0, 1.0, 2.0, 1.0]), found(QualityProblem::OutsideHighLow, "open"));
        assert_eq!(of([0.5, 3.0, 1.0, 3.5, 1.0]), found(QualityProblem::OutsideHighLow, "open, close"));
        assert_eq!(of([2.0, 3.0, 1.0, 2.0, 0.0]), found(QualityProblem::ZeroVolume, "volume"));
        assert_eq!(
            of([nan, nan, nan, nan, nan]),
            found(QualityProblem::Null, "open, high, low, close, volume")
        );
        assert_eq!(of([2.0, 3.0, 0.0, 2.0, 1.0]), found(QualityProblem::NotPositive, "low"));
    }
}
