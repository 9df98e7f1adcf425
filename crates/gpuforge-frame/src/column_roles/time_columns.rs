//! Time column detection: by user mapping, by name, by values; one timestamp column or a date with a time of day.
//!
//! A name alone is not enough: `Time` holds a timestamp in one file and a time of day beside `Date` in the next. So the first
//! values of each candidate are classified, and the finest wins: timestamps, epoch integers, a date with a time of day, a
//! date, other integers. A file without any is rejected: indicators need a known row order.

use std::path::Path;

use super::{ColumnMapping, ColumnRoles, Role, RoleReason, find_named, list, normalised};
use crate::error::FrameError;

/// Inferred class of a column's first values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueClass {
    /// No values.
    Nothing,
    /// Dates; `clean` if all are.
    Dates { clean: bool },
    /// Dates with a time of day.
    Timestamps { clean: bool },
    /// Times of day with colons, or of such a type.
    TimesOfDay,
    /// Integers: may be times of day (`093000`) or epoch times.
    Numbers { of_day: DigitTimes, epoch: bool },
    /// Something else.
    Other,
}

/// Are integers times of day without colons?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DigitTimes {
    /// Some are out of range.
    No,
    /// All are in range, e.g. 930.
    Maybe,
    /// Almost certainly: 093000, 0930.
    Likely,
}

/// The detected time column, or date and time-of-day columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeColumns {
    pub time: usize,
    pub of_day: Option<usize>,
    pub why: RoleReason,
}

/// A file's column names and a way to classify their values.
pub(crate) struct ColumnHeader<'a> {
    pub path: &'a Path,
    pub names: &'a [String],
    pub classify: &'a mut dyn FnMut(usize) -> Result<ValueClass, FrameError>,
}

/// A candidate column: position, name rank, value class.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: usize,
    rank: u8,
    values: ValueClass,
}

impl ColumnHeader<'_> {
    fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    fn error(&self, message: String, hint: &str) -> FrameError {
        FrameError::Column {
            path: self.path.into(),
            message,
            found: list(self.names),
            hint: hint.to_string(),
        }
    }

    /// Detects the time columns; a file without any is an error.
    pub(crate) fn time_columns(&mut self, mapping: &ColumnMapping) -> Result<TimeColumns, FrameError> {
        if let Some(given) = mapping.get(Role::Time) {
            return self.mapped(given);
        }
        let mut known = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            if let Some(rank) = Role::Time.match_rank(name) {
                known.push(Candidate { at, rank, values: (self.classify)(at)? });
            }
        }
        match self.by_name(&known)? {
            Some(found) => Ok(found),
            None => self.by_values(&known),
        }
    }

    /// User mapping: a column, or `DATE+TIME`.
    fn mapped(&mut self, given: &str) -> Result<TimeColumns, FrameError> {
        let why = RoleReason::Given;
        let exact = self.names.iter().any(|name| name == given);
        let both = match given.split_once('+') {
            Some((date, clock)) if !exact => {
                find_named(self.names, date.trim()).zip(find_named(self.names, clock.trim()))
            }
            _ => None,
        };
        if let Some((time, of_day)) = both {
            return match (self.classify)(of_day)? {
                ValueClass::TimesOfDay
                | ValueClass::Nothing
                | ValueClass::Numbers { of_day: DigitTimes::Maybe | DigitTimes::Likely, .. } => {
                    Ok(TimeColumns { time, of_day: Some(of_day), why })
                }
                _ => Err(self.error(
                    format!("`{}` holds no times of day such as 09:30, 093000 or 0930", self.name(of_day)),
                    "--time 'DATE+TIME' names a column of dates and one of times of day",
                )),
            };
        }
        let time = super::named(self.path, self.names, Role::Time, given)?;
        match (self.classify)(time)? {
            ValueClass::TimesOfDay => Err(self.only_times_of_day(time)),
            _ => Ok(TimeColumns { time, of_day: None, why }),
        }
    }

    /// By name: the finest of the columns with a time name.
    fn by_name(&mut self, known: &[Candidate]) -> Result<Option<TimeColumns>, FrameError> {
        let single =
            |time: Option<usize>| time.map(|time| TimeColumns { time, of_day: None, why: RoleReason::Name });
        let moments = self.best(known, |v| matches!(v, ValueClass::Timestamps { .. }))?;
        let epoch = |v| matches!(v, ValueClass::Numbers { epoch: true, .. });
        if let Some(found) = single(moments.or(self.best(known, epoch)?)) {
            return Ok(Some(found));
        }
        let dated = self.best(known, |v| matches!(v, ValueClass::Dates { .. } | ValueClass::Other))?;
        if let Some(time) = dated {
            let of_day = self.time_of_day_column(known)?;
            let why = if of_day.is_some() { RoleReason::DateAndTimeOfDay } else { RoleReason::Name };
            return Ok(Some(TimeColumns { time, of_day, why }));
        }
        if known.iter().any(|c| c.values == ValueClass::TimesOfDay) {
            return Ok(None);
        }
        // Digits such as 093000 are times of day even without a date; 1, 2, 3 are plain integers.
        let plain = |v| matches!(v, ValueClass::Numbers { of_day: DigitTimes::No | DigitTimes::Maybe, .. });
        let numbers = self.best(known, plain)?;
        if let Some(found) = single(numbers) {
            return Ok(Some(found));
        }
        match known.iter().any(|c| matches!(c.values, ValueClass::Numbers { .. })) {
            true => Ok(None),
            false => Ok(single(self.best(known, |v| v == ValueClass::Nothing)?)),
        }
    }

    /// The time-of-day column that belongs to a date.
    fn time_of_day_column(&mut self, known: &[Candidate]) -> Result<Option<usize>, FrameError> {
        if let Some(at) = self.best(known, |v| v == ValueClass::TimesOfDay)? {
            return Ok(Some(at));
        }
        let digits = |c: &&Candidate| {
            matches!(c.values, ValueClass::Numbers { of_day: DigitTimes::Maybe | DigitTimes::Likely, .. })
        };
        let named: Vec<Candidate> =
            known.iter().filter(digits).filter(|c| is_time_of_day_name(self.name(c.at))).copied().collect();
        if let Some(at) = self.best(&named, |_| true)? {
            return Ok(Some(at));
        }
        let mut others = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            if Role::of(name).is_none()
                && is_time_of_day_name(name)
                && (self.classify)(at)? == ValueClass::TimesOfDay
            {
                others.push(Candidate { at, rank: 0, values: ValueClass::TimesOfDay });
            }
        }
        self.best(&others, |_| true)
    }

    /// By value: the only unnamed-role column that holds times; joined with a time of day if present.
    fn by_values(&mut self, known: &[Candidate]) -> Result<TimeColumns, FrameError> {
        let mut found = Vec::new();
        for (at, name) in self.names.iter().enumerate().filter(|(_, name)| Role::of(name).is_none()) {
            let values = (self.classify)(at)?;
            let counts =
                at == 0 && unnamed(name) && matches!(values, ValueClass::Numbers { epoch: true, .. });
            if counts
                || matches!(
                    values,
                    ValueClass::Dates { clean: true } | ValueClass::Timestamps { clean: true }
                )
            {
                found.push(Candidate { at, rank: 0, values });
            }
        }
        match (found.as_slice(), known) {
            ([one], _) => {
                let clock = match one.values {
                    ValueClass::Dates { .. } => self.time_of_day_column(known)?,
                    _ => None,
                };
                Ok(TimeColumns { time: one.at, of_day: clock, why: RoleReason::Values })
            }
            ([], [first, ..]) => Err(self.only_times_of_day(first.at)),
            ([], []) => Err(self.error(
                "there is no time column: the order of the rows is unknown".to_string(),
                "name it: --time NAME (or 'DATE+TIME'); --no-time takes the rows in file order, the oldest first",
            )),
            (several, _) => Err(self.ambiguous(several)),
        }
    }

    /// The best-ranked candidate that passes; an error if ambiguous.
    fn best(
        &self,
        all: &[Candidate],
        pass: impl Fn(ValueClass) -> bool,
    ) -> Result<Option<usize>, FrameError> {
        let fit: Vec<Candidate> = all.iter().filter(|c| pass(c.values)).copied().collect();
        let Some(rank) = fit.iter().map(|c| c.rank).min() else { return Ok(None) };
        let best: Vec<Candidate> = fit.into_iter().filter(|c| c.rank == rank).collect();
        match best.as_slice() {
            [one] => Ok(Some(one.at)),
            several => Err(self.ambiguous(several)),
        }
    }

    fn ambiguous(&self, several: &[Candidate]) -> FrameError {
        let names: Vec<String> = several.iter().map(|c| format!("`{}`", self.name(c.at))).collect();
        self.error(
            format!("the time could be {}", names.join(" or ")),
            "say which: --column time=NAME, or --time 'DATE+TIME'",
        )
    }

    fn only_times_of_day(&self, at: usize) -> FrameError {
        self.error(
            format!(
                "`{}` holds times of day and no date: every day would fall on the same one",
                self.name(at)
            ),
            "name the date too: --time 'DATE+TIME'; --no-time takes the rows in file order, the oldest first",
        )
    }
}

/// An unnamed index column, as pandas and R write it.
pub(crate) fn unnamed(name: &str) -> bool {
    matches!(normalised(name).as_str(), "" | "unnamed0" | "index" | "indexlevel0" | "rownames")
}

/// Does the name suggest a time of day?
fn is_time_of_day_name(name: &str) -> bool {
    let name = normalised(name);
    ["time", "hour", "clock"].iter().any(|word| name.contains(word))
}

impl ColumnRoles {
    /// Adds the time columns.
    pub(crate) fn put_time_columns(&mut self, columns: TimeColumns) {
        self.put(Role::Time, columns.time, columns.why);
        if let Some(at) = columns.of_day {
            self.put(Role::TimeOfDay, at, columns.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: ValueClass = ValueClass::Dates { clean: true };
    const MOMENTS: ValueClass = ValueClass::Timestamps { clean: true };
    const EPOCH: ValueClass = ValueClass::Numbers { of_day: DigitTimes::No, epoch: true };
    const DIGITS: ValueClass = ValueClass::Numbers { of_day: DigitTimes::Likely, epoch: false };
    const MAYBE: ValueClass = ValueClass::Numbers { of_day: DigitTimes::Maybe, epoch: false };
    const COUNT: ValueClass = ValueClass::Numbers { of_day: DigitTimes::No, epoch: false };

    fn find(columns: &[(&str, ValueClass)], given: Option<&str>) -> Result<(usize, Option<usize>), String> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.to_string()).collect();
        let mut classify = |at: usize| Ok(columns.get(at).map_or(ValueClass::Nothing, |(_, values)| *values));
        let mut mapping = ColumnMapping::default();
        if let Some(given) = given {
            mapping.set(Role::Time, given);
        }
        let mut header = ColumnHeader { path: Path::new("x.csv"), names: &names, classify: &mut classify };
        header.time_columns(&mapping).map(|w| (w.time, w.of_day)).map_err(|e| e.to_string())
    }

    #[test]
    fn time_columns_are_detected_by_name_and_value() {
        type Case<'a> = (&'a [(&'a str, ValueClass)], (usize, Option<usize>));
        let cases: [Case<'_>; 17] = [
            (&[("time", MOMENTS), ("close", COUNT)], (0, None)),
            (&[("Date", DATES), ("Time", ValueClass::TimesOfDay)], (0, Some(1))),
            (&[("Time", ValueClass::TimesOfDay), ("Date", DATES)], (1, Some(0))),
            (&[("DATE", DATES), ("TIME", DIGITS)], (0, Some(1))),
            (&[("Date", DATES), ("Timestamp", ValueClass::TimesOfDay)], (0, Some(1))),
            (&[("Date", DATES), ("Timestamp", MOMENTS)], (1, None)),
            (&[("Date", DATES), ("unix", EPOCH)], (1, None)),
            (&[("date", DATES), ("day", DIGITS)], (0, None)),
            (&[("Date", DATES), ("Local time", ValueClass::TimesOfDay)], (0, Some(1))),
            (&[("Date", ValueClass::Other), ("Time", ValueClass::TimesOfDay)], (0, Some(1))),
            (&[("time", COUNT)], (0, None)),
            (&[("time", MAYBE)], (0, None)),
            (&[("date", DATES), ("time", MAYBE)], (0, Some(1))),
            (&[("", DATES), ("close", COUNT)], (0, None)),
            (&[("", EPOCH), ("close", COUNT)], (0, None)),
            (&[("Session", MOMENTS), ("close", COUNT), ("x", ValueClass::Other)], (0, None)),
            (&[("", DATES), ("Time", ValueClass::TimesOfDay)], (0, Some(1))),
        ];
        for (columns, wanted) in cases {
            assert_eq!(find(columns, None), Ok(wanted), "{columns:?}");
        }
        assert_eq!(
            find(&[("date", ValueClass::Nothing), ("time", ValueClass::Nothing)], None),
            Ok((1, None))
        );
    }

    #[test]
    fn missing_or_ambiguous_time_column_is_an_error_with_a_hint() {
        let cases: [(&[(&str, ValueClass)], &str); 6] = [
            (&[("close", COUNT)], "--no-time"),
            (&[("", COUNT), ("close", COUNT)], "there is no time column"),
            (&[("Time", ValueClass::TimesOfDay), ("close", COUNT)], "times of day and no date"),
            (&[("<TIME>", DIGITS), ("close", COUNT)], "times of day and no date"),
            (&[("a", DATES), ("b", DATES)], "the time could be `a` or `b`"),
            (&[("x", EPOCH), ("close", COUNT)], "there is no time column"),
        ];
        for (columns, wanted) in cases {
            let error = find(columns, None).unwrap_err();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }

    #[test]
    fn mapping_wins_unless_it_names_a_time_of_day() {
        let columns = [("d", DATES), ("t", ValueClass::TimesOfDay), ("a+b", MOMENTS), ("close", COUNT)];
        assert_eq!(find(&columns, Some("d")), Ok((0, None)));
        assert_eq!(find(&columns, Some("d+t")), Ok((0, Some(1))));
        assert_eq!(find(&columns, Some(" d + t ")), Ok((0, Some(1))));
        assert_eq!(find(&columns, Some("a+b")), Ok((2, None)));
        assert!(find(&columns, Some("t")).unwrap_err().contains("no date"));
        assert!(find(&columns, Some("t+d")).unwrap_err().contains("holds no times of day"));
        assert!(find(&columns, Some("x+y")).unwrap_err().contains("there is no column `x+y`"));
    }
}
