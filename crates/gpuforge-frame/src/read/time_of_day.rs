//! Times of day: `09:30`, `9:30:05 PM`, `093000`, `0930`, joined with the date of another column.
//!
//! A column of digits has one format, inferred from its first values: five or six digits anywhere make it `HHMMSS` (leading
//! zeros may be missing), otherwise it is `HHMM`.

use super::time::{self, ParsedTime};
use crate::column_roles::DigitTimes;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const NANOS: i64 = 1_000_000_000;

/// Time-of-day format of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TimeOfDayFormat {
    /// With colons.
    #[default]
    Colons,
    /// Digits: hours, minutes, seconds.
    Hhmmss,
    /// Digits: hours, minutes.
    Hhmm,
}

/// Format inference over the first values of a column.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeOfDayInference {
    colons: bool,
    /// Five or six digits.
    long: bool,
    /// Three or four.
    short: bool,
    /// One or two: an hour, or `HHMM` and `HHMMSS` without leading zeros.
    tiny: bool,
    /// A leading zero: not an integer.
    padded: bool,
    other: bool,
    fine: bool,
}

impl TimeOfDayInference {
    /// Adds a value.
    pub(super) fn add(&mut self, cell: &[u8]) {
        let cell = cell.trim_ascii();
        if cell.is_empty() {
            return;
        }
        if let Some(nanos) = parse(cell, TimeOfDayFormat::Colons) {
            self.colons = true;
            self.fine |= nanos % 1000 != 0;
            return;
        }
        let (long, short) =
            (parse(cell, TimeOfDayFormat::Hhmmss).is_some(), parse(cell, TimeOfDayFormat::Hhmm).is_some());
        self.padded |= cell.len() > 2 && cell.first() == Some(&b'0');
        match cell.len() {
            1 | 2 if long => self.tiny = true,
            3 | 4 if long || short => self.short = true,
            _ if long => self.long = true,
            _ => self.other = true,
        }
    }

    /// Are integers times of day?
    pub(super) fn digits(self) -> DigitTimes {
        match self {
            TimeOfDayInference { other: true, .. } | TimeOfDayInference { colons: true, .. } => {
                DigitTimes::No
            }
            TimeOfDayInference { long: true, .. } | TimeOfDayInference { short: true, padded: true, .. } => {
                DigitTimes::Likely
            }
            TimeOfDayInference { short: true, .. } => DigitTimes::Maybe,
            // 9 may be an hour or nine past midnight.
            _ => DigitTimes::No,
        }
    }

    /// Are all values times with colons?
    pub(super) fn with_colons(self) -> bool {
        self.colons && !self.long && !self.short && !self.tiny && !self.other
    }

    /// The inferred format.
    pub(super) fn format(self) -> TimeOfDayFormat {
        match self {
            TimeOfDayInference { colons: true, .. } => TimeOfDayFormat::Colons,
            TimeOfDayInference { long: true, .. } => TimeOfDayFormat::Hhmmss,
            TimeOfDayInference { short: true, .. } => TimeOfDayFormat::Hhmm,
            _ => TimeOfDayFormat::Colons,
        }
    }

    /// Is any value finer than a microsecond?
    pub(super) fn fine(self) -> bool {
        self.fine
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.iter().all(u8::is_ascii_digit);
    plain.then(|| text.iter().fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0')))
}

fn seconds(hour: i64, minute: i64, second: i64) -> Option<i64> {
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * HOUR + minute * MINUTE + second)
}

/// Parses nanoseconds since midnight.
pub(super) fn parse(cell: &[u8], format: TimeOfDayFormat) -> Option<i64> {
    let cell = cell.trim_ascii();
    match format {
        TimeOfDayFormat::Colons => colons(cell),
        TimeOfDayFormat::Hhmmss => {
            let number = digits(cell).filter(|_| cell.len() <= 6)?;
            Some(seconds(number / 10_000, number / 100 % 100, number % 100)? * NANOS)
        }
        TimeOfDayFormat::Hhmm => {
            let number = digits(cell).filter(|_| cell.len() <= 4)?;
            Some(seconds(number / 100, number % 100, 0)? * NANOS)
        }
    }
}

/// `9:30`, `09:30:05`, `09:30:05.25`, `9:30 PM`.
fn colons(cell: &[u8]) -> Option<i64> {
    let (clock, half) = half_day(cell);
    let mut parts = clock.split(|byte| *byte == b':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let (whole, fraction) = match parts.next() {
        None => (&b"0"[..], &b""[..]),
        Some(text) => {
            let mut halves = text.splitn(2, |byte| matches!(byte, b'.' | b','));
            (halves.next().unwrap_or_default(), halves.next().unwrap_or_default())
        }
    };
    if parts.next().is_some() || hour.len() > 2 || minute.len() != 2 || whole.len() > 2 {
        return None;
    }
    let hour = match (digits(hour)?, half) {
        (hour, None) => hour,
        (hour @ 1..=12, Some(afternoon)) => hour % 12 + if afternoon { 12 } else { 0 },
        _ => return None,
    };
    let nanos = match fraction.len() {
        0 => 0,
        count @ 1..=9 => digits(fraction)? * 10_i64.pow(9 - count as u32),
        _ => return None,
    };
    Some(seconds(hour, digits(minute)?, digits(whole)?)? * NANOS + nanos)
}

/// Strips AM or PM; whether it was PM.
fn half_day(cell: &[u8]) -> (&[u8], Option<bool>) {
    match cell {
        [clock @ .., half @ (b'A' | b'a' | b'P' | b'p'), b'M' | b'm'] => {
            (clock.trim_ascii_end(), Some(matches!(half, b'P' | b'p')))
        }
        clock => (clock, None),
    }
}

/// Parses a date as days since the epoch; a timestamp must be at midnight.
pub(super) fn parse_day(cell: &[u8]) -> Option<i64> {
    match time::parse(cell)? {
        ParsedTime::Date(days) | ParsedTime::Compact(_, days) => Some(days),
        ParsedTime::Timestamp { seconds, nanos: 0, zoned: false } if seconds % DAY == 0 => {
            Some(seconds / DAY)
        }
        _ => None,
    }
}

/// Timestamp of a date and a time of day.
pub(super) fn join(days: i64, nanos: i64) -> ParsedTime {
    ParsedTime::Timestamp {
        seconds: days.saturating_mul(DAY).saturating_add(nanos / NANOS),
        nanos: nanos % NANOS,
        zoned: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_of_day_are_parsed_in_every_format() {
        let cases = [
            ("09:30", TimeOfDayFormat::Colons, Some(9 * HOUR + 30 * MINUTE)),
            ("9:30", TimeOfDayFormat::Colons, Some(9 * HOUR + 30 * MINUTE)),
            ("09:30:05", TimeOfDayFormat::Colons, Some(9 * HOUR + 30 * MINUTE + 5)),
            ("9:30 PM", TimeOfDayFormat::Colons, Some(21 * HOUR + 30 * MINUTE)),
            ("12:00am", TimeOfDayFormat::Colons, Some(0)),
            ("12:00 PM", TimeOfDayFormat::Colons, Some(12 * HOUR)),
            ("093005", TimeOfDayFormat::Hhmmss, Some(9 * HOUR + 30 * MINUTE + 5)),
            ("93005", TimeOfDayFormat::Hhmmss, Some(9 * HOUR + 30 * MINUTE + 5)),
            ("0", TimeOfDayFormat::Hhmmss, Some(0)),
            ("0930", TimeOfDayFormat::Hhmm, Some(9 * HOUR + 30 * MINUTE)),
            ("930", TimeOfDayFormat::Hhmm, Some(9 * HOUR + 30 * MINUTE)),
            ("24:00", TimeOfDayFormat::Colons, None),
            ("09:60", TimeOfDayFormat::Colons, None),
            ("13:00 PM", TimeOfDayFormat::Colons, None),
            ("09:30:05:01", TimeOfDayFormat::Colons, None),
            ("2024-01-01", TimeOfDayFormat::Colons, None),
            ("096000", TimeOfDayFormat::Hhmmss, None),
            ("1234567", TimeOfDayFormat::Hhmmss, None),
            ("2460", TimeOfDayFormat::Hhmm, None),
            ("93000", TimeOfDayFormat::Hhmm, None),
            ("", TimeOfDayFormat::Colons, None),
        ];
        for (text, form, wanted) in cases {
            assert_eq!(parse(text.as_bytes(), form), wanted.map(|s| s * NANOS), "{text} {form:?}");
        }
        assert_eq!(parse(b"00:00:00.25", TimeOfDayFormat::Colons), Some(NANOS / 4));
    }

    #[test]
    fn format_is_inferred_from_the_first_values() {
        let look = |cells: &[&str]| {
            let mut look = TimeOfDayInference::default();
            cells.iter().for_each(|cell| look.add(cell.as_bytes()));
            (look.with_colons(), look.digits(), look.format())
        };
        assert_eq!(look(&["09:30", ""]), (true, DigitTimes::No, TimeOfDayFormat::Colons));
        assert_eq!(look(&["000000", "093000"]), (false, DigitTimes::Likely, TimeOfDayFormat::Hhmmss));
        assert_eq!(look(&["0", "100", "93000"]), (false, DigitTimes::Likely, TimeOfDayFormat::Hhmmss));
        assert_eq!(look(&["0930", "1600"]), (false, DigitTimes::Likely, TimeOfDayFormat::Hhmm));
        assert_eq!(look(&["930", "1600", "0"]), (false, DigitTimes::Maybe, TimeOfDayFormat::Hhmm));
        let none = [
            &["1704067200"][..],
            &["09:30", "0930"],
            &["2024-01-01"],
            &["09:30", "x"],
            &[],
            &["9", "10"],
            &["199"],
        ];
        for cells in none {
            assert_eq!((look(cells).0, look(cells).1), (false, DigitTimes::No), "{cells:?}");
        }
    }

    #[test]
    fn date_and_time_of_day_join_to_a_timestamp() {
        for date in ["2024-01-02", "20240102", "2024.01.02", "2024-01-02 00:00:00"] {
            assert_eq!(parse_day(date.as_bytes()), Some(19_724), "{date}");
        }
        for none in ["17", "2024-01-02 09:30", "2024-01-02T00:00Z", "x"] {
            assert_eq!(parse_day(none.as_bytes()), None, "{none}");
        }
        let seconds = 19_724 * DAY + 34_200;
        assert_eq!(
            join(19_724, 34_200 * NANOS + 5),
            ParsedTime::Timestamp { seconds, nanos: 5, zoned: false }
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut look = TimeOfDayInference::default();
            look.add(&bytes);
            for form in [TimeOfDayFormat::Colons, TimeOfDayFormat::Hhmmss, TimeOfDayFormat::Hhmm] {
                prop_assert!(parse(&bytes, form).is_none_or(|n| (0..=DAY * NANOS).contains(&n)));
            }
        }
    }
}
