//! Time columns of a file: by the user's word, by name, by values. Which column, or which two, say when a bar was?
//!
//! A name alone is not enough: `Time` holds a timestamp in one file and a time of day beside `Date` in the next. So the first
//! values of a candidate are looked at, and the finest wins: timestamps, numbers since the epoch, a date with a time of day
//! beside it, a date, other numbers. A file without any is refused: rows in an order that nobody knows have no RSI.

use std::path::Path;

use super::{Columns, Mapping, Role, Why, find_named, list, plain};
use crate::error::FrameError;

/// What the first values of a column could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// There are none.
    Nothing,
    /// Dates; `clean` if nothing else is among them.
    Dates { clean: bool },
    /// Dates with a time of day.
    Moments { clean: bool },
    /// Times of day with colons, or of such a type.
    TimesOfDay,
    /// Plain numbers: could they be times of day (`093000`), could they count since 1970?
    Numbers { of_day: Digits, epoch: bool },
    /// Something else.
    Other,
}

/// Are numbers times of day without colons?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    /// Some cannot be.
    No,
    /// All could be, as 930 could.
    Maybe,
    /// They hardly are anything else: 093000, 0930.
    Likely,
}

/// The columns that say when: the time or the date, and the time of day beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct When {
    pub time: usize,
    pub of_day: Option<usize>,
    pub why: Why,
}

/// A file's header and the way to look at its values.
pub(crate) struct Header<'a> {
    pub path: &'a Path,
    pub names: &'a [String],
    pub peek: &'a mut dyn FnMut(usize) -> Result<Values, FrameError>,
}

/// A column, how well its name fits, and its values.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: usize,
    rank: u8,
    values: Values,
}

impl Header<'_> {
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

    /// Finds the time. `None` is never "somehow": without one the file is refused.
    pub(crate) fn when(&mut self, mapping: &Mapping) -> Result<When, FrameError> {
        if let Some(given) = mapping.get(Role::Time) {
            return self.given(given);
        }
        let mut known = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            if let Some(rank) = Role::Time.fits(name) {
                known.push(Candidate { at, rank, values: (self.peek)(at)? });
            }
        }
        match self.by_name(&known)? {
            Some(found) => Ok(found),
            None => self.by_values(&known),
        }
    }

    /// What the user named: a column, or two with `+` between them.
    fn given(&mut self, given: &str) -> Result<When, FrameError> {
        let why = Why::Given;
        let exact = self.names.iter().any(|name| name == given);
        let both = match given.split_once('+') {
            Some((date, clock)) if !exact => {
                find_named(self.names, date.trim()).zip(find_named(self.names, clock.trim()))
            }
            _ => None,
        };
        if let Some((time, of_day)) = both {
            return match (self.peek)(of_day)? {
                Values::TimesOfDay
                | Values::Nothing
                | Values::Numbers { of_day: Digits::Maybe | Digits::Likely, .. } => {
                    Ok(When { time, of_day: Some(of_day), why })
                }
                _ => Err(self.error(
                    format!("`{}` holds no times of day: 09:30, 093000 or 0930 are", self.name(of_day)),
                    "--time 'DATE+TIME' names a column of dates and one of times of day",
                )),
            };
        }
        let time = super::named(self.path, self.names, Role::Time, given)?;
        match (self.peek)(time)? {
            Values::TimesOfDay => Err(self.only_times_of_day(time)),
            _ => Ok(When { time, of_day: None, why }),
        }
    }

    /// Among columns that go by a name of the time, the finest.
    fn by_name(&mut self, known: &[Candidate]) -> Result<Option<When>, FrameError> {
        let single = |time: Option<usize>| time.map(|time| When { time, of_day: None, why: Why::Name });
        let moments = self.best(known, |v| matches!(v, Values::Moments { .. }))?;
        let epoch = |v| matches!(v, Values::Numbers { epoch: true, .. });
        if let Some(found) = single(moments.or(self.best(known, epoch)?)) {
            return Ok(Some(found));
        }
        let dated = self.best(known, |v| matches!(v, Values::Dates { .. } | Values::Other))?;
        if let Some(time) = dated {
            let of_day = self.clock(known)?;
            let why = if of_day.is_some() { Why::DateAndTimeOfDay } else { Why::Name };
            return Ok(Some(When { time, of_day, why }));
        }
        if known.iter().any(|c| c.values == Values::TimesOfDay) {
            return Ok(None);
        }
        // Digits such as 093000 are times of day wherever no date says more; 1, 2, 3 are plain numbers.
        let plain = |v| matches!(v, Values::Numbers { of_day: Digits::No | Digits::Maybe, .. });
        let numbers = self.best(known, plain)?;
        if let Some(found) = single(numbers) {
            return Ok(Some(found));
        }
        match known.iter().any(|c| matches!(c.values, Values::Numbers { .. })) {
            true => Ok(None),
            false => Ok(single(self.best(known, |v| v == Values::Nothing)?)),
        }
    }

    /// The column of times of day that belongs to a date.
    fn clock(&mut self, known: &[Candidate]) -> Result<Option<usize>, FrameError> {
        if let Some(at) = self.best(known, |v| v == Values::TimesOfDay)? {
            return Ok(Some(at));
        }
        let digits = |c: &&Candidate| {
            matches!(c.values, Values::Numbers { of_day: Digits::Maybe | Digits::Likely, .. })
        };
        let named: Vec<Candidate> =
            known.iter().filter(digits).filter(|c| clock_name(self.name(c.at))).copied().collect();
        if let Some(at) = self.best(&named, |_| true)? {
            return Ok(Some(at));
        }
        let mut others = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            if Role::of(name).is_none() && clock_name(name) && (self.peek)(at)? == Values::TimesOfDay {
                others.push(Candidate { at, rank: 0, values: Values::TimesOfDay });
            }
        }
        self.best(&others, |_| true)
    }

    /// The only column of an unknown name whose values are times; joined with a time of day if there is one.
    fn by_values(&mut self, known: &[Candidate]) -> Result<When, FrameError> {
        let mut found = Vec::new();
        for (at, name) in self.names.iter().enumerate().filter(|(_, name)| Role::of(name).is_none()) {
            let values = (self.peek)(at)?;
            let counts = at == 0 && unnamed(name) && matches!(values, Values::Numbers { epoch: true, .. });
            if counts || matches!(values, Values::Dates { clean: true } | Values::Moments { clean: true }) {
                found.push(Candidate { at, rank: 0, values });
            }
        }
        match (found.as_slice(), known) {
            ([one], _) => {
                let clock = match one.values {
                    Values::Dates { .. } => self.clock(known)?,
                    _ => None,
                };
                Ok(When { time: one.at, of_day: clock, why: Why::Values })
            }
            ([], [first, ..]) => Err(self.only_times_of_day(first.at)),
            ([], []) => Err(self.error(
                "no column says when: in which order the rows are is not known".to_string(),
                "name it: --time NAME (or 'DATE+TIME'); --no-time takes the rows in file order, the oldest first",
            )),
            (several, _) => Err(self.ambiguous(several)),
        }
    }

    /// The best-named of the candidates that pass; an error if several are.
    fn best(&self, all: &[Candidate], pass: impl Fn(Values) -> bool) -> Result<Option<usize>, FrameError> {
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

/// A column without a name of its own, as pandas and R write their index.
pub(crate) fn unnamed(name: &str) -> bool {
    matches!(plain(name).as_str(), "" | "unnamed0" | "index" | "indexlevel0" | "rownames")
}

/// Could a column of this name hold times of day?
fn clock_name(name: &str) -> bool {
    let name = plain(name);
    ["time", "hour", "clock"].iter().any(|word| name.contains(word))
}

impl Columns {
    /// Takes the columns that say when.
    pub(crate) fn put_when(&mut self, when: When) {
        self.put(Role::Time, when.time, when.why);
        if let Some(at) = when.of_day {
            self.put(Role::TimeOfDay, at, when.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: Values = Values::Dates { clean: true };
    const MOMENTS: Values = Values::Moments { clean: true };
    const EPOCH: Values = Values::Numbers { of_day: Digits::No, epoch: true };
    const DIGITS: Values = Values::Numbers { of_day: Digits::Likely, epoch: false };
    const MAYBE: Values = Values::Numbers { of_day: Digits::Maybe, epoch: false };
    const COUNT: Values = Values::Numbers { of_day: Digits::No, epoch: false };

    fn find(columns: &[(&str, Values)], given: Option<&str>) -> Result<(usize, Option<usize>), String> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.to_string()).collect();
        let mut peek = |at: usize| Ok(columns.get(at).map_or(Values::Nothing, |(_, values)| *values));
        let mut mapping = Mapping::default();
        if let Some(given) = given {
            mapping.set(Role::Time, given);
        }
        let mut header = Header { path: Path::new("x.csv"), names: &names, peek: &mut peek };
        header.when(&mapping).map(|w| (w.time, w.of_day)).map_err(|e| e.to_string())
    }

    #[test]
    fn names_and_values_together_say_when() {
        type Case<'a> = (&'a [(&'a str, Values)], (usize, Option<usize>));
        let cases: [Case<'_>; 17] = [
            (&[("time", MOMENTS), ("close", COUNT)], (0, None)),
            (&[("Date", DATES), ("Time", Values::TimesOfDay)], (0, Some(1))),
            (&[("Time", Values::TimesOfDay), ("Date", DATES)], (1, Some(0))),
            (&[("DATE", DATES), ("TIME", DIGITS)], (0, Some(1))),
            (&[("Date", DATES), ("Timestamp", Values::TimesOfDay)], (0, Some(1))),
            (&[("Date", DATES), ("Timestamp", MOMENTS)], (1, None)),
            (&[("Date", DATES), ("unix", EPOCH)], (1, None)),
            (&[("date", DATES), ("day", DIGITS)], (0, None)),
            (&[("Date", DATES), ("Local time", Values::TimesOfDay)], (0, Some(1))),
            (&[("Date", Values::Other), ("Time", Values::TimesOfDay)], (0, Some(1))),
            (&[("time", COUNT)], (0, None)),
            (&[("time", MAYBE)], (0, None)),
            (&[("date", DATES), ("time", MAYBE)], (0, Some(1))),
            (&[("", DATES), ("close", COUNT)], (0, None)),
            (&[("", EPOCH), ("close", COUNT)], (0, None)),
            (&[("Session", MOMENTS), ("close", COUNT), ("x", Values::Other)], (0, None)),
            (&[("", DATES), ("Time", Values::TimesOfDay)], (0, Some(1))),
        ];
        for (columns, wanted) in cases {
            assert_eq!(find(columns, None), Ok(wanted), "{columns:?}");
        }
        assert_eq!(find(&[("date", Values::Nothing), ("time", Values::Nothing)], None), Ok((1, None)));
    }

    #[test]
    fn what_says_nothing_or_too_much_is_refused_with_the_flag() {
        let cases: [(&[(&str, Values)], &str); 6] = [
            (&[("close", COUNT)], "--no-time"),
            (&[("", COUNT), ("close", COUNT)], "no column says when"),
            (&[("Time", Values::TimesOfDay), ("close", COUNT)], "times of day and no date"),
            (&[("<TIME>", DIGITS), ("close", COUNT)], "times of day and no date"),
            (&[("a", DATES), ("b", DATES)], "the time could be `a` or `b`"),
            (&[("x", EPOCH), ("close", COUNT)], "no column says when"),
        ];
        for (columns, wanted) in cases {
            let error = find(columns, None).unwrap_err();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }

    #[test]
    fn the_users_word_counts_unless_it_names_times_of_day() {
        let columns = [("d", DATES), ("t", Values::TimesOfDay), ("a+b", MOMENTS), ("close", COUNT)];
        assert_eq!(find(&columns, Some("d")), Ok((0, None)));
        assert_eq!(find(&columns, Some("d+t")), Ok((0, Some(1))));
        assert_eq!(find(&columns, Some(" d + t ")), Ok((0, Some(1))));
        assert_eq!(find(&columns, Some("a+b")), Ok((2, None)));
        assert!(find(&columns, Some("t")).unwrap_err().contains("no date"));
        assert!(find(&columns, Some("t+d")).unwrap_err().contains("holds no times of day"));
        assert!(find(&columns, Some("x+y")).unwrap_err().contains("there is no column `x+y`"));
    }
}
