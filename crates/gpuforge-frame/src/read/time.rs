//! When was that? Times as text to numbers and back, and the one type that several files' times have in common.
//!
//! Days are counted with the civil calendar formulas of Howard Hinnant ("chrono-compatible low-level date algorithms").

use arrow::datatypes::{DataType, TimeUnit};

use super::time_of_day;
use crate::names::Values;

const DAY: i64 = 86_400;

/// A time as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// A plain number.
    Int(i64),
    /// Eight digits that are a plain number or a date: the number, and the days.
    Compact(i64, i64),
    /// Days since the epoch.
    Date(i64),
    /// A date with a time of day; in UTC if it had a zone.
    Moment { seconds: i64, nanos: i64, zoned: bool },
}

/// Days since 1970-01-01 of a date that exists.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Year, month and day.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted_month + 2) / 5 + 1)
}

/// What is left of a text.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// A number of so many digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (head, tail) = self.0.split_at_checked(count)?;
        let value = head
            .iter()
            .try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))?;
        self.0 = tail;
        Some(value)
    }

    /// One of these characters.
    fn one(&mut self, of: &[u8]) -> Option<u8> {
        let (first, tail) = self.0.split_first()?;
        of.contains(first).then(|| {
            self.0 = tail;
            *first
        })
    }

    /// The digits behind a point, as nanoseconds. More than nine are more than a time can hold.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 || count > 9 {
            return None;
        }
        Some(self.digits(count)? * 10_i64.pow(9 - count as u32))
    }

    /// `Z`, ` UTC`, `+01:00`, `+0100`, `+01`: seconds ahead of UTC.
    fn zone(&mut self) -> Option<i64> {
        self.0 = self.0.trim_ascii_start();
        if matches!(self.0, b"Z" | b"z" | b"UTC" | b"GMT") {
            self.0 = &[];
            return Some(0);
        }
        let sign = if self.one(b"+-")? == b'-' { -1 } else { 1 };
        let hours = self.digits(2)?;
        let minutes = if self.0.is_empty() {
            0
        } else {
            self.one(b":");
            self.digits(2)?
        };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

/// Reads a time: a date (`2024-01-31`, `2024/01/31`, `20240131`), one with a time of day (`T` or a blank between them,
/// seconds and a fraction if wanted, a zone if wanted), or a plain number.
pub(super) fn parse(cell: &[u8]) -> Option<Written> {
    let cell = cell.trim_ascii();
    let unsigned = cell.strip_prefix(b"-").unwrap_or(cell);
    if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) {
        let number: i64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
        let date = (1800..2200).contains(&(number / 10_000)) && cell.len() == 8;
        let date = date.then(|| days(number / 10_000, number / 100 % 100, number % 100)).flatten();
        return Some(date.map_or(Written::Int(number), |days| Written::Compact(number, days)));
    }
    let mut rest = Rest(cell);
    let year = rest.digits(4)?;
    let between = rest.one(b"-/.");
    let month = rest.digits(2)?;
    if rest.one(b"-/.") != between {
        return None;
    }
    let day = days(year, month, rest.digits(2)?)?;
    if rest.0.is_empty() {
        return Some(Written::Date(day));
    }
    rest.one(b"Tt ")?;
    rest.0 = rest.0.trim_ascii_start();
    let (hour, _, minute) = (rest.digits(2)?, rest.one(b":")?, rest.digits(2)?);
    let second = if rest.one(b":").is_some() { rest.digits(2)? } else { 0 };
    let nanos = if rest.one(b".,").is_some() { rest.fraction()? } else { 0 };
    let zone = if rest.0.is_empty() { None } else { Some(rest.zone()?) };
    // A leap second is the first of the next minute; there is no other place for it.
    if hour > 23 || minute > 59 || second > 60 || !rest.0.is_empty() {
        return None;
    }
    let seconds = day * DAY + hour * 3600 + minute * 60 + second - zone.unwrap_or(0);
    Some(Written::Moment { seconds, nanos, zoned: zone.is_some() })
}

/// What the first times of a column look like.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Look {
    ints: bool,
    dates: bool,
    compact: bool,
    moments: bool,
    zoned: bool,
    fine: bool,
    /// Is a moment not at midnight, or has it a zone?
    inside: bool,
    /// Was there anything that is no time?
    other: bool,
    /// Is a plain number outside of what counts seconds, milli-, micro- or nanoseconds of our days?
    no_epoch: bool,
    /// The same values as times of day.
    of_day: time_of_day::Look,
}

/// Seconds since the epoch that a column of bars may hold: 1980 to 2100.
const EPOCH: std::ops::Range<i64> = 315_532_800..4_102_444_800;

impl Look {
    /// One more cell, whatever it holds.
    pub(super) fn cell(&mut self, cell: &[u8]) {
        if cell.trim_ascii().is_empty() {
            return;
        }
        self.of_day.see(cell);
        match parse(cell) {
            Some(written) => self.see(written),
            None => self.other = true,
        }
    }

    /// What the values could be.
    pub(super) fn values(self) -> Values {
        let numbers = self.ints || self.compact;
        match self {
            Look { moments: true, other, .. } => match self.inside {
                true => Values::Moments { clean: !other },
                false => Values::Dates { clean: !other },
            },
            Look { dates: true, other, ints, .. } => Values::Dates { clean: !other && !ints },
            Look { compact: true, ints: false, other, .. } => Values::Dates { clean: !other },
            _ if self.of_day.with_colons() => Values::TimesOfDay,
            _ if numbers => Values::Numbers {
                of_day: self.of_day.digits(),
                epoch: !self.no_epoch && !self.other && !self.compact,
            },
            Look { other: true, .. } => Values::Other,
            _ => Values::Nothing,
        }
    }

    /// How the column writes times of day.
    pub(super) fn form(self) -> time_of_day::Form {
        self.of_day.form()
    }

    /// The type of a date column joined with this one of times of day.
    pub(super) fn joined(self) -> DataType {
        let unit = if self.of_day.fine() { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
        DataType::Timestamp(unit, None)
    }

    /// One more time.
    pub(super) fn see(&mut self, written: Written) {
        match written {
            Written::Int(number) => {
                self.ints = true;
                self.no_epoch |= epoch_unit(number).is_none();
            }
            Written::Compact(..) => self.compact = true,
            Written::Date(_) => self.dates = true,
            Written::Moment { seconds, nanos, zoned } => {
                self.moments = true;
                self.inside |= zoned || nanos != 0 || seconds % DAY != 0;
                self.zoned |= zoned;
                self.fine |= nanos % 1000 != 0;
            }
        }
    }

    /// The type that holds them; `None` if there were none.
    pub(super) fn kind(self) -> Option<DataType> {
        let unit = if self.fine { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
        if self.moments {
            Some(DataType::Timestamp(unit, self.zoned.then(|| "UTC".into())))
        } else if self.dates || (self.compact && !self.ints) {
            Some(DataType::Date32)
        } else {
            self.ints.then_some(DataType::Int64)
        }
    }
}

/// The unit in which a plain number would count from 1970 to a day between 1980 and 2100, if there is one.
pub(super) fn epoch_unit(number: i64) -> Option<TimeUnit> {
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    units.into_iter().find(|unit| EPOCH.contains(&(number / per_second(*unit))))
}

/// The type of a column that nobody has seen a value of.
pub(super) fn unseen() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Units of a timestamp in a second.
fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The type that holds times of two files without loss, if there is one.
pub(super) fn unify(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Date32, Timestamp};
    match (a, b) {
        (a, b) if a == b => Some(a.clone()),
        (Timestamp(x, zone), Timestamp(y, other)) if zone.is_some() == other.is_some() => {
            let unit = if per_second(*x) > per_second(*y) { x } else { y };
            Some(Timestamp(*unit, zone.clone()))
        }
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) => Some(Timestamp(*unit, None)),
        _ => None,
    }
}

/// Puts times into the type of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Days.
    Days,
    /// Plain numbers.
    Numbers,
    /// So many units in a second, with or without a zone.
    Units { per_second: i64, zoned: bool },
}

impl Clock {
    /// The clock of a type.
    pub(super) fn of(kind: &DataType) -> Clock {
        match kind {
            DataType::Date32 => Clock::Days,
            DataType::Timestamp(unit, zone) => {
                Clock::Units { per_second: per_second(*unit), zoned: zone.is_some() }
            }
            _ => Clock::Numbers,
        }
    }

    /// What a number of another type must be multiplied by.
    pub(super) fn factor(self, from: &DataType) -> i64 {
        match (self, from) {
            (Clock::Units { per_second, .. }, DataType::Date32) => per_second * DAY,
            (Clock::Units { per_second: to, .. }, DataType::Timestamp(unit, _)) => to / per_second(*unit),
            (Clock::Units { per_second, .. }, DataType::Date64) => per_second / 1000,
            _ => 1,
        }
    }

    /// A written time, or why it does not fit.
    pub(super) fn read(self, written: Written) -> Result<i64, &'static str> {
        const WIDE: &str = "is too far from 1970 for the unit of its column";
        match (self, written) {
            (Clock::Numbers, Written::Int(number) | Written::Compact(number, _)) => Ok(number),
            (Clock::Numbers, _) => Err("is a date, and the first times of the column are plain numbers"),
            (_, Written::Int(_)) => Err("is a plain number, and the first times of the column are dates"),
            (Clock::Days, Written::Date(days) | Written::Compact(_, days)) => Ok(days),
            (Clock::Days, Written::Moment { seconds, nanos: 0, zoned: false }) if seconds % DAY == 0 => {
                Ok(seconds / DAY)
            }
            (Clock::Days, _) => Err("has a time of day, and the first times of the column are dates"),
            (Clock::Units { per_second, .. }, Written::Date(days) | Written::Compact(_, days)) => {
                days.checked_mul(DAY * per_second).ok_or(WIDE)
            }
            (Clock::Units { zoned, .. }, Written::Moment { zoned: other, .. }) if zoned && !other => {
                Err("has no time zone, and the first times of the column have one")
            }
            (Clock::Units { zoned, .. }, Written::Moment { zoned: other, .. }) if !zoned && other => {
                Err("has a time zone, and the first times of the column have none")
            }
            (Clock::Units { per_second, .. }, Written::Moment { seconds, nanos, .. }) => {
                let step = 1_000_000_000 / per_second;
                if nanos % step != 0 {
                    return Err("is finer than the first times of the column");
                }
                seconds.checked_mul(per_second).and_then(|t| t.checked_add(nanos / step)).ok_or(WIDE)
            }
        }
    }
}

/// A time as text, for messages.
pub(crate) fn show(kind: &DataType, time: i64) -> String {
    let date = |days: i64| {
        let (year, month, day) = civil(days);
        format!("{year:04}-{month:02}-{day:02}")
    };
    match kind {
        DataType::Date32 => date(time),
        DataType::Timestamp(unit, zone) => {
            let per = per_second(*unit);
            let (seconds, part) = (time.div_euclid(per), time.rem_euclid(per));
            let (day, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
            let clock = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
            let width = per.ilog10() as usize;
            let part = if part == 0 { String::new() } else { format!(".{part:0width$}") };
            format!("{}T{clock}{part}{}", date(day), if zone.is_some() { "Z" } else { "" })
        }
        _ => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moment(text: &str) -> Option<(i64, i64, bool)> {
        match parse(text.as_bytes())? {
            Written::Moment { seconds, nanos, zoned } => Some((seconds, nanos, zoned)),
            _ => None,
        }
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(parse(b"1970-01-01"), Some(Written::Date(0)));
        assert_eq!(parse(b"2024-02-29"), Some(Written::Date(19_782)));
        assert_eq!(parse(b"2024/02/29"), Some(Written::Date(19_782)));
        assert_eq!(parse(b"1969-12-31"), Some(Written::Date(-1)));
        assert_eq!(parse(b"20240229"), Some(Written::Compact(20_240_229, 19_782)));
        for wrong in
            ["2023-02-29", "2024-13-01", "2024-00-01", "2024-01-32", "2024-1-1", "01/02/2024", "", "x"]
        {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn plain_numbers_stay_numbers() {
        assert_eq!(parse(b"1704067200"), Some(Written::Int(1_704_067_200)));
        assert_eq!(parse(b"-5"), Some(Written::Int(-5)));
        assert_eq!(parse(b"20241399"), Some(Written::Int(20_241_399)));
        assert_eq!(parse(b"99999999999999999999"), None);
    }

    #[test]
    fn moments_are_read_with_fraction_and_zone() {
        let base = 19_782 * DAY + 9 * 3600 + 30 * 60;
        assert_eq!(moment("2024-02-29 09:30"), Some((base, 0, false)));
        assert_eq!(moment("2024-02-29T09:30:05"), Some((base + 5, 0, false)));
        assert_eq!(moment("20240229  09:30:05"), Some((base + 5, 0, false)));
        assert_eq!(moment("2024-02-29T09:30:05.25Z"), Some((base + 5, 250_000_000, true)));
        assert_eq!(moment("2024-02-29 09:30:00.000000001+01:00"), Some((base - 3600, 1, true)));
        assert_eq!(moment("2024-02-29 09:30:00-0530"), Some((base + 19_800, 0, true)));
        assert_eq!(moment("2024-02-29 09:30:00 UTC"), Some((base, 0, true)));
        for wrong in [
            "2024-02-29T",
            "2024-02-29T24:00",
            "2024-02-29T09:60",
            "2024-02-29T09:30:",
            "2024-02-29T09:30x",
            "09:30",
        ] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_first_times_decide_the_type() {
        let kind = |cells: &[&str]| {
            let mut look = Look::default();
            cells.iter().filter_map(|c| parse(c.as_bytes())).for_each(|w| look.see(w));
            look.kind()
        };
        let micros =
            |zone: Option<&str>| Some(DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into)));
        assert_eq!(kind(&[]), None);
        assert_eq!(kind(&["20240101", "20240102"]), Some(DataType::Date32));
        assert_eq!(kind(&["20240101", "17"]), Some(DataType::Int64));
        assert_eq!(kind(&["2024-01-01"]), Some(DataType::Date32));
        assert_eq!(kind(&["2024-01-01", "2024-01-01 10:00"]), micros(None));
        assert_eq!(kind(&["2024-01-01 10:00Z"]), micros(Some("UTC")));
        assert_eq!(
            kind(&["2024-01-01 10:00:00.1234567"]),
            Some(DataType::Timestamp(TimeUnit::Nanosecond, None))
        );
    }

    #[test]
    fn what_does_not_fit_the_column_is_said() {
        let micros = Clock::Units { per_second: 1_000_000, zoned: false };
        let read = |clock: Clock, text: &str| clock.read(parse(text.as_bytes()).unwrap());
        assert_eq!(read(micros, "1970-01-02"), Ok(DAY * 1_000_000));
        assert!(read(micros, "1970-01-01T00:00:00.0000001").unwrap_err().contains("finer"));
        assert!(read(micros, "1970-01-01T00:00Z").unwrap_err().contains("zone"));
        assert!(read(micros, "12").unwrap_err().contains("plain number"));
        assert_eq!(read(Clock::Days, "1970-01-03 00:00"), Ok(2));
        assert!(read(Clock::Days, "1970-01-03 00:01").unwrap_err().contains("time of day"));
        let nanos = Clock::Units { per_second: 1_000_000_000, zoned: false };
        assert!(read(nanos, "9999-01-01").unwrap_err().contains("too far"));
    }

    proptest! {
        #[test]
        fn text_and_back(seconds in -60_000_000_000_i64..200_000_000_000, micros in 0_i64..1_000_000) {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            let time = seconds * 1_000_000 + micros;
            let written = parse(show(&kind, time).as_bytes()).unwrap();
            prop_assert_eq!(Clock::of(&kind).read(written), Ok(time));
            let day = parse(show(&DataType::Date32, seconds / DAY).as_bytes());
            prop_assert_eq!(day, Some(Written::Date(seconds / DAY)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&bytes);
        }
    }
}
