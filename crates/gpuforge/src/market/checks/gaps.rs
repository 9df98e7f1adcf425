//! Gap detection: time steps longer than the usual one that are not recurring session breaks.
//!
//! The usual step is the most frequent of a symbol's first steps; where no step makes up half of them (ticks, quarters),
//! nothing is a gap. Nights, weekends and lunch breaks are learned: a long step is a break where long steps leave from and
//! arrive at the same times of day on a tenth of the days. Daily bars without weekends may miss two weekdays: a holiday.

use std::collections::HashMap;

use gpuforge_frame::KeySchema;
use gpuforge_indicators::catalogue::ValueRange;

use super::{RowRef, SymbolTally};

/// GapDetector that the usual one is learnt from.
const LEARN_STEPS: usize = 512;
/// Minimum of them.
const MIN_STEPS: usize = 3;
/// Maximum distinct break patterns: more are gaps.
const MAX_PATTERNS: usize = 4096;
const DAY: f64 = 86_400.0;
/// Minimum seconds of a session break.
const MIN_BREAK: f64 = 1800.0;
/// With fewer days, recurrence cannot be established: long steps count as nights.
const FEW_DAYS: u64 = 4;
const NIGHT: f64 = 4.0 * 3600.0;
/// Consecutive weekdays without a bar that count as holidays.
const HOLIDAYS: i64 = 2;

/// Gap detector of one symbol.
pub(super) struct GapDetector {
    /// Seconds of a unit of time, by the type of the column.
    typed: Option<f64>,
    /// The same for the current symbol, guessed from integers; `None` where they are not timestamps.
    unit: Option<f64>,
    last: Option<i64>,
    /// GapDetector before the usual one is known: the time they lead to, and its row.
    early: Vec<(i64, i64, u64)>,
    usual: Usual,
    steps: u64,
    days: u64,
    weekends: bool,
    patterns: HashMap<(i64, i64), BreakPattern>,
    gaps: Vec<Gap>,
    found: SymbolTally,
}

/// The usual step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Usual {
    NotYet,
    None,
    Step(i64),
}

/// Long steps between the same times of day.
struct BreakPattern {
    count: u64,
    shortest: f64,
    first: Gap,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    row: u64,
    time: i64,
    seconds: f64,
}

impl GapDetector {
    pub(super) fn new(layout: &KeySchema) -> Self {
        GapDetector {
            typed: layout.unit_seconds(),
            unit: None,
            last: None,
            early: Vec::new(),
            usual: Usual::NotYet,
            steps: 0,
            days: 0,
            weekends: false,
            patterns: HashMap::new(),
            gaps: Vec::new(),
            found: SymbolTally::default(),
        }
    }

    /// The next bar; how long it is after the last one, in units of the time column.
    pub(super) fn next(&mut self, time: i64, row: u64) -> f64 {
        let last = self.last.replace(time);
        if last.is_none() {
            self.unit = self.typed.or_else(|| epoch_unit(time));
            self.days = 1;
            self.weekends = self.unit.is_some_and(|unit| is_weekend(time, unit));
        }
        let (Some(unit), Some(last)) = (self.unit, last) else { return 0.0 };
        self.steps += 1;
        if day(time, unit) != day(last, unit) {
            self.days += 1;
            self.weekends |= is_weekend(time, unit);
        }
        match self.usual {
            Usual::NotYet => {
                self.early.push((last, time, row));
                if self.early.len() == LEARN_STEPS {
                    self.learn();
                }
            }
            Usual::None => {}
            Usual::Step(usual) => self.step(usual, unit, last, time, row),
        }
        time.saturating_sub(last) as f64
    }

    /// The usual step, in units of the time column; taken from the steps so far if it must be known now.
    pub(super) fn usual(&mut self) -> Option<f64> {
        if self.usual == Usual::NotYet {
            self.learn();
        }
        match self.usual {
            Usual::Step(usual) => Some(usual as f64),
            _ => None,
        }
    }

    /// Learns the usual step (mode) from the first steps, and checks those.
    fn learn(&mut self) {
        let early = std::mem::take(&mut self.early);
        let steps: Vec<i64> = early.iter().map(|(from, to, _)| to.saturating_sub(*from)).collect();
        self.usual = match mode(steps) {
            Some(step) => Usual::Step(step),
            None => Usual::None,
        };
        if let (Usual::Step(usual), Some(unit)) = (self.usual, self.unit) {
            for (from, to, row) in early {
                self.step(usual, unit, from, to, row);
            }
        }
    }

    fn step(&mut self, usual: i64, unit: f64, from: i64, to: i64, row: u64) {
        let step = to.saturating_sub(from);
        // Up to half a step more than usual is not a gap.
        if step.saturating_mul(2) <= usual.saturating_mul(3) {
            return;
        }
        let seconds = step as f64 * unit;
        let gap = Gap { row, time: to, seconds };
        if usual as f64 * unit >= DAY {
            let daily = usual as f64 * unit < 2.0 * DAY && !self.weekends;
            if !daily || weekdays_between(from, to, unit) > HOLIDAYS {
                self.gap(gap);
            }
            return;
        }
        let key = (of_day(from, unit), of_day(to, unit));
        if !self.patterns.contains_key(&key) && self.patterns.len() == MAX_PATTERNS {
            return self.gap(gap);
        }
        let pattern =
            self.patterns.entry(key).or_insert(BreakPattern { count: 0, shortest: seconds, first: gap });
        pattern.count += 1;
        pattern.shortest = pattern.shortest.min(seconds);
    }

    fn gap(&mut self, gap: Gap) {
        self.found.count += 1;
        // Only the first is reported.
        self.gaps.truncate(1);
        self.gaps.push(gap);
        self.gaps.sort_by_key(|g| g.row);
    }

    /// Finishes the symbol; its gaps.
    pub(super) fn take(&mut self) -> SymbolTally {
        let _ = self.usual();
        let patterns = std::mem::take(&mut self.patterns);
        let often = (self.days / 10).max(2);
        let (mut left, mut reached) = (HashMap::new(), HashMap::new());
        for ((from, to), pattern) in patterns.iter().filter(|(_, k)| k.shortest >= MIN_BREAK) {
            *left.entry(*from).or_insert(0) += pattern.count;
            *reached.entry(*to).or_insert(0) += pattern.count;
        }
        let recurs = |times: &HashMap<i64, u64>, at: &i64| times.get(at).is_some_and(|n| *n >= often);
        for ((from, to), pattern) in &patterns {
            let a_break = pattern.shortest >= MIN_BREAK && recurs(&left, from) && recurs(&reached, to);
            let a_night = self.days < FEW_DAYS && pattern.shortest >= NIGHT;
            if !(a_break || a_night) {
                self.gap(pattern.first);
                self.found.count += pattern.count - 1;
            }
        }
        let mut found = std::mem::take(&mut self.found);
        let row_ref = |g: &Gap| RowRef { row: g.row, time: Some(g.time), value: Some(g.seconds) };
        found.first = self.gaps.first().map(row_ref);
        found.of = std::mem::take(&mut self.steps);
        if let (Usual::Step(usual), Some(unit)) = (self.usual, self.unit) {
            found.range = Some(ValueRange { min: 0.0, max: usual as f64 * unit });
        }
        self.gaps.clear();
        (self.last, self.usual, self.days, self.weekends) = (None, Usual::NotYet, 0, false);
        found
    }
}

/// The most frequent step, where it makes up half of them.
fn mode(mut steps: Vec<i64>) -> Option<i64> {
    steps.retain(|step| *step > 0);
    steps.sort_unstable();
    let groups = steps.chunk_by(|a, b| a == b);
    let longest = groups.max_by_key(|group| group.len())?;
    let enough = steps.len() >= MIN_STEPS && longest.len() * 2 >= steps.len();
    longest.first().copied().filter(|_| enough)
}

/// Seconds of a unit, where a whole number is as large as one since 1970. An index or a date such as 20240102 is not.
fn epoch_unit(time: i64) -> Option<f64> {
    match time {
        100_000_000..100_000_000_000 => Some(1.0),
        100_000_000_000..100_000_000_000_000 => Some(1e-3),
        100_000_000_000_000..100_000_000_000_000_000 => Some(1e-6),
        100_000_000_000_000_000.. => Some(1e-9),
        _ => None,
    }
}

/// Days since 1970.
fn day(time: i64, unit: f64) -> i64 {
    (time as f64 * unit / DAY).floor() as i64
}

/// The second of the day.
fn of_day(time: i64, unit: f64) -> i64 {
    (time as f64 * unit).rem_euclid(DAY) as i64
}

/// Saturday or Sunday.
fn is_weekend(time: i64, unit: f64) -> bool {
    // 1970-01-01 was a Thursday.
    (day(time, unit) + 3).rem_euclid(7) >= 5
}

/// Mondays to Fridays after one time and before another.
fn weekdays_between(from: i64, to: i64, unit: f64) -> i64 {
    let weekdays = |day: i64| {
        let day = day + 3;
        day.div_euclid(7) * 5 + day.rem_euclid(7).min(5)
    };
    weekdays(day(to, unit)) - weekdays(day(from, unit) + 1)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, TimeUnit};
    use gpuforge_frame::bars::KeyColumn;

    use super::*;

    fn layout(pattern: DataType) -> KeySchema {
        KeySchema {
            time: Some(KeyColumn { name: "time".to_owned(), data_type: pattern }),
            ..KeySchema::default()
        }
    }

    /// How many gaps, and the row of the first.
    fn gaps(pattern: DataType, times: impl IntoIterator<Item = i64>) -> (u64, Option<u64>) {
        let mut steps = GapDetector::new(&layout(pattern));
        times.into_iter().enumerate().for_each(|(row, time)| {
            steps.next(time, row as u64);
        });
        let found = steps.take();
        (found.count, found.first.map(|row_ref| row_ref.row))
    }

    fn seconds() -> DataType {
        DataType::Timestamp(TimeUnit::Second, None)
    }

    /// Minutes of sessions from 14:30 to 21:00 on weekdays.
    fn sessions(days: i64) -> Vec<i64> {
        let day = |d: i64| d / 5 * 7 + d % 5 + 4;
        let minutes = |d: i64| (0..390).map(move |m| day(d) * 86_400 + (870 + m) * 60);
        (0..days).flat_map(minutes).collect()
    }

    #[test]
    fn nights_and_weekends_are_not_gaps() {
        for days in [1, 2, 3, 4, 10, 100] {
            assert_eq!(gaps(seconds(), sessions(days)), (0, None), "{days} days");
        }
        // Summer time: the sessions move by an hour.
        let moved =
            sessions(60).into_iter().enumerate().map(|(i, t)| if i >= 390 * 30 { t - 3600 } else { t });
        assert_eq!(gaps(seconds(), moved), (0, None));
        let weekdays = (0..300i64).map(|d| d / 5 * 7 + d % 5 + 4);
        assert_eq!(gaps(DataType::Date32, weekdays), (0, None));
    }

    #[test]
    fn missing_minutes_are_a_gap() {
        let without = |from: usize, n: usize, days: i64| {
            let mut times = sessions(days);
            times.drain(from..from + n);
            gaps(seconds(), times)
        };
        assert_eq!(without(100, 1, 1), (1, Some(100)));
        assert_eq!(without(390 * 7 + 50, 45, 20), (1, Some(390 * 7 + 50)), "as long as a lunch break, once");
        assert_eq!(without(20, 300, 1), (0, None), "nobody knows a night from an outage in one day");
        assert_eq!(without(390 * 3 + 380, 10, 20).0, 1, "an early close");
        assert_eq!(gaps(seconds(), (0..600i64).filter(|h| *h != 77).map(|h| h * 3600)), (1, Some(77)));
    }

    #[test]
    fn missing_days_may_be_holidays_missing_weeks_are_gaps() {
        let days = |missing: &[i64]| {
            let all = (0..300i64).filter(|d| !missing.contains(d)).map(|d| d / 5 * 7 + d % 5 + 4);
            gaps(DataType::Date32, all)
        };
        assert_eq!(days(&[50]), (0, None));
        assert_eq!(days(&[54, 55]), (0, None), "Easter");
        assert_eq!(days(&[51, 52, 53]), (1, Some(51)));
        assert_eq!(
            gaps(DataType::Date32, (0..300).filter(|d| *d != 40)),
            (1, Some(40)),
            "no weekends: a market of all days"
        );
        assert_eq!(gaps(DataType::Date32, (0..90).filter(|w| *w != 30).map(|w| w * 7)), (1, Some(30)));
    }

    #[test]
    fn irregular_times_and_plain_integers_have_no_usual_step() {
        assert_eq!(gaps(seconds(), (0..400i64).map(|i| i * i)), (0, None));
        assert_eq!(gaps(DataType::Int64, [20_240_129, 20_240_130, 20_240_131, 20_240_201]), (0, None));
        let millis = (0..300i64).filter(|m| *m != 70).map(|m| 1_704_067_200_000 + m * 60_000);
        assert_eq!(gaps(DataType::Int64, millis), (1, Some(70)), "as large as milliseconds since 1970");
        assert_eq!(gaps(seconds(), [0, 60]), (0, None));
        assert_eq!(gaps(seconds(), []), (0, None));
    }
}
