//! Times of day: `09:30`, `9:30:05 PM`, `093000`, `0930`, joined with a date of another column. When on that day was it?
//!
//! A column of plain digits is read in one form, which its first values decide: five or six digits anywhere make it
//! `HHMMSS` (leading zeros may be gone), otherwise it is `HHMM`.

use super::time::{self, Written};
use crate::names::Digits;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const NANOS: i64 = 1_000_000_000;

/// How a column writes times of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Form {
    /// With colons.
    #[default]
    Colons,
    /// Digits: hours, minutes, seconds.
    Hhmmss,
    /// Digits: hours, minutes.
    Hhmm,
}

/// What the first values of a column look like, taken as times of day.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Look {
    colons: bool,
    /// Five or six digits.
    long: bool,
    /// Three or four.
    short: bool,
    /// One or two: an hour, or `HHMM` and `HHMMSS` whose zeros are gone.
    tiny: bool,
    /// A zero in front: no plain number.
    padded: bool,
    other: bool,
    fine: bool,
}

impl Look {
    /// One more value.
    pub(super) fn see(&mut self, cell: &[u8]) {
        let cell = cell.trim_ascii();
        if cell.is_empty() {
            return;
        }
        if let Some(nanos) = read(cell, Form::Colons) {
            self.colons = true;
            self.fine |= nanos % 1000 != 0;
            return;
        }
        let (long, short) = (read(cell, Form::Hhmmss).is_some(), read(cell, Form::Hhmm).is_some());
        self.padded |= cell.len() > 2 && cell.first() == Some(&b'0');
        match cell.len() {
            1 | 2 if long => self.tiny = true,
            3 | 4 if long || short => self.short = true,
            _ if long => self.long = true,
            _ => self.other = true,
        }
    }

    /// Are numbers among them times of day?
    pub(super) fn digits(self) -> Digits {
        match self {
            Look { other: true, .. } | Look { colons: true, .. } => Digits::No,
            Look { long: true, .. } | Look { short: true, padded: true, .. } => Digits::Likely,
            Look { short: true, .. } => Digits::Maybe,
            // 9 may be an hour or nine past midnight.
            _ => Digits::No,
        }
    }

    /// Are they times with colons, and nothing else?
    pub(super) fn with_colons(self) -> bool {
        self.colons && !self.long && !self.short && !self.tiny && !self.other
    }

    /// How they are written.
    pub(super) fn form(self) -> Form {
        match self {
            Look { colons: true, .. } => Form::Colons,
            Look { long: true, .. } => Form::Hhmmss,
            Look { short: true, .. } => Form::Hhmm,
            _ => Form::Colons,
        }
    }

    /// Are any finer than a microsecond?
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

/// Nanoseconds since midnight.
pub(super) fn read(cell: &[u8], form: Form) -> Option<i64> {
    let cell = cell.trim_ascii();
    match form {
        Form::Colons => colons(cell),
        Form::Hhmmss => {
            let number = digits(cell).filter(|_| cell.len() <= 6)?;
            Some(seconds(number / 10_000, number / 100 % 100, number % 100)? * NANOS)
        }
        Form::Hhmm => {
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

/// Without AM or PM; and whether it is the afternoon.
fn half_day(cell: &[u8]) -> (&[u8], Option<bool>) {
    match cell {
        [clock @ .., half @ (b'A' | b'a' | b'P' | b'p'), b'M' | b'm'] => {
            (clock.trim_ascii_end(), Some(matches!(half, b'P' | b'p')))
        }
        clock => (clock, None),
    }
}

/// The day that a date column names, as days since the epoch; a timestamp counts if it is at midnight.
pub(super) fn day(cell: &[u8]) -> Option<i64> {
    match time::parse(cell)? {
        Written::Date(days) | Written::Compact(_, days) => Some(days),
        Written::Moment { seconds, nanos: 0, zoned: false } if seconds % DAY == 0 => Some(seconds / DAY),
        _ => None,
    }
}

/// A day and a time of it.
pub(super) fn join(days: i64, nanos: i64) -> Written {
    Written::Moment {
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
    fn times_of_day_are_read_in_the_forms_people_write() {
        let cases = [
            ("09:30", Form::Colons, Some(9 * HOUR + 30 * MINUTE)),
            ("9:30", Form::Colons, Some(9 * HOUR + 30 * MINUTE)),
            ("09:30:05", Form::Colons, Some(9 * HOUR + 30 * MINUTE + 5)),
            ("9:30 PM", Form::Colons, Some(21 * HOUR + 30 * MINUTE)),
            ("12:00am", Form::Colons, Some(0)),
            ("12:00 PM", Form::Colons, Some(12 * HOUR)),
            ("093005", Form::Hhmmss, Some(9 * HOUR + 30 * MINUTE + 5)),
            ("93005", Form::Hhmmss, Some(9 * HOUR + 30 * MINUTE + 5)),
            ("0", Form::Hhmmss, Some(0)),
            ("0930", Form::Hhmm, Some(9 * HOUR + 30 * MINUTE)),
            ("930", Form::Hhmm, Some(9 * HOUR + 30 * MINUTE)),
            ("24:00", Form::Colons, None),
            ("09:60", Form::Colons, None),
            ("13:00 PM", Form::Colons, None),
            ("09:30:05:01", Form::Colons, None),
            ("2024-01-01", Form::Colons, None),
            ("096000", Form::Hhmmss, None),
            ("1234567", Form::Hhmmss, None),
            ("2460", Form::Hhmm, None),
            ("93000", Form::Hhmm, None),
            ("", Form::Colons, None),
        ];
        for (text, form, wanted) in cases {
            assert_eq!(read(text.as_bytes(), form), wanted.map(|s| s * NANOS), "{text} {form:?}");
        }
        assert_eq!(read(b"00:00:00.25", Form::Colons), Some(NANOS / 4));
    }

    #[test]
    fn the_first_values_decide_the_form() {
        let look = |cells: &[&str]| {
            let mut look = Look::default();
            cells.iter().for_each(|cell| look.see(cell.as_bytes()));
            (look.with_colons(), look.digits(), look.form())
        };
        assert_eq!(look(&["09:30", ""]), (true, Digits::No, Form::Colons));
        assert_eq!(look(&["000000", "093000"]), (false, Digits::Likely, Form::Hhmmss));
        assert_eq!(look(&["0", "100", "93000"]), (false, Digits::Likely, Form::Hhmmss));
        assert_eq!(look(&["0930", "1600"]), (false, Digits::Likely, Form::Hhmm));
        assert_eq!(look(&["930", "1600", "0"]), (false, Digits::Maybe, Form::Hhmm));
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
            assert_eq!((look(cells).0, look(cells).1), (false, Digits::No), "{cells:?}");
        }
    }

    #[test]
    fn a_date_and_a_time_of_day_are_a_moment() {
        for date in ["2024-01-02", "20240102", "2024.01.02", "2024-01-02 00:00:00"] {
            assert_eq!(day(date.as_bytes()), Some(19_724), "{date}");
        }
        for none in ["17", "2024-01-02 09:30", "2024-01-02T00:00Z", "x"] {
            assert_eq!(day(none.as_bytes()), None, "{none}");
        }
        let seconds = 19_724 * DAY + 34_200;
        assert_eq!(join(19_724, 34_200 * NANOS + 5), Written::Moment { seconds, nanos: 5, zoned: false });
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut look = Look::default();
            look.see(&bytes);
            for form in [Form::Colons, Form::Hhmmss, Form::Hhmm] {
                prop_assert!(read(&bytes, form).is_none_or(|n| (0..=DAY * NANOS).contains(&n)));
            }
        }
    }
}
