//! Timestamp parsing and formatting, type inference of time columns, and the common time type of several files.
//!
//! Days are counted with the civil calendar formulas of Howard Hinnant ("chrono-compatible low-level date algorithms").

use arrow::datatypes::{DataType, TimeUnit};

use super::time_of_day;
use crate::column_roles::ValueClass;

const DAY: i64 = 86_400;

/// A parsed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParsedTime {
    /// An integer.
    Int(i64),
    /// Eight digits, an integer or a date: the integer, and days since the epoch.
    Compact(i64, i64),
    /// Days since the epoch.
    Date(i64),
    /// Date and time of day; in UTC if `zoned`.
    Timestamp { seconds: i64, nanos: i64, zoned: bool },
}

/// Days since 1970-01-01; `None` for a date that does not exist.
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

/// Cursor over a text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// An integer of exactly `count` digits.
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

    /// Decimals as nanoseconds; more than nine digits are rejected.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 || count > 9 {
            return None;
        }
        Some(self.digits(count)? * 10_i64.pow(9 - count as u32))
    }

    /// `Z`, ` UTC`, `+01:00`, `+0100`, `+01`: offset from UTC in seconds.
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

/// Parses a time: a date (`2024-01-31`, `2024/01/31`, `20240131`), one with a time of day (`T` or a blank between them,
/// optional seconds, fraction and zone), or an integer.
pub(super) fn parse(cell: &[u8]) -> Option<ParsedTime> {
    let cell = cell.trim_ascii();
    let unsigned = cell.strip_prefix(b"-").unwrap_or(cell);
    if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) {
        let number: i64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
        let date = (1800..2200).contains(&(number / 10_000)) && cell.len() == 8;
        let date = date.then(|| days(number / 10_000, number / 100 % 100, number % 100)).flatten();
        return Some(date.map_or(ParsedTime::Int(number), |days| ParsedTime::Compact(number, days)));
    }
    let mut rest = Cursor(cell);
    let year = rest.digits(4)?;
    let between = rest.one(b"-/.");
    let month = rest.digits(2)?;
    if rest.one(b"-/.") != between {
        return None;
    }
    let day = days(year, month, rest.digits(2)?)?;
    if rest.0.is_empty() {
        return Some(ParsedTime::Date(day));
    }
    rest.one(b"Tt ")?;
    rest.0 = rest.0.trim_ascii_start();
    let (hour, _, minute) = (rest.digits(2)?, rest.one(b":")?, rest.digits(2)?);
    let second = if rest.one(b":").is_some() { rest.digits(2)? } else { 0 };
    let nanos = if rest.one(b".,").is_some() { rest.fraction()? } else { 0 };
    let zone = if rest.0.is_empty() { None } else { Some(rest.zone()?) };
    // A leap second maps to the first second of the next minute.
    if hour > 23 || minute > 59 || second > 60 || !rest.0.is_empty() {
        return None;
    }
    let seconds = day * DAY + hour * 3600 + minute * 60 + second - zone.unwrap_or(0);
    Some(ParsedTime::Timestamp { seconds, nanos, zoned: zone.is_some() })
}

/// Type inference over the first values of a time column.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeInference {
    ints: bool,
    dates: bool,
    compact: bool,
    timestamps: bool,
    zoned: bool,
    /// Finer than a microsecond.
    fine: bool,
    /// Some timestamp is not at midnight, or has a zone.
    intraday: bool,
    /// Some value is not a time.
    other: bool,
    /// Some integer is outside the plausible epoch range in every unit.
    no_epoch: bool,
    /// The same values inferred as times of day.
    of_day: time_of_day::TimeOfDayInference,
}

/// Plausible epoch seconds: 1980 to 2100.
const EPOCH: std::ops::Range<i64> = 315_532_800..4_102_444_800;

impl TimeInference {
    /// Adds a cell.
    pub(super) fn add_cell(&mut self, cell: &[u8]) {
        if cell.trim_ascii().is_empty() {
            return;
        }
        self.of_day.add(cell);
        match parse(cell) {
            Some(time) => self.add(time),
            None => self.other = true,
        }
    }

    /// Class of the values.
    pub(super) fn value_class(self) -> ValueClass {
        let numbers = self.ints || self.compact;
        match self {
            TimeInference { timestamps: true, other, .. } => match self.intraday {
                true => ValueClass::Timestamps { clean: !other },
                false => ValueClass::Dates { clean: !other },
            },
            TimeInference { dates: true, other, ints, .. } => ValueClass::Dates { clean: !other && !ints },
            TimeInference { compact: true, ints: false, other, .. } => ValueClass::Dates { clean: !other },
            _ if self.of_day.with_colons() => ValueClass::TimesOfDay,
            _ if numbers => ValueClass::Numbers {
                of_day: self.of_day.digits(),
                epoch: !self.no_epoch && !self.other && !self.compact,
            },
            TimeInference { other: true, .. } => ValueClass::Other,
            _ => ValueClass::Nothing,
        }
    }

    /// Format of the times of day.
    pub(super) fn time_of_day_format(self) -> time_of_day::TimeOfDayFormat {
        self.of_day.format()
    }

    /// Timestamp type of a date column joined with this time-of-day column.
    pub(super) fn joined_type(self) -> DataType {
        let unit = if self.of_day.fine() { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
        DataType::Timestamp(unit, None)
    }

    /// Adds a parsed time.
    pub(super) fn add(&mut self, time: ParsedTime) {
        match time {
            ParsedTime::Int(number) => {
                self.ints = true;
                self.no_epoch |= epoch_unit(number).is_none();
            }
            ParsedTime::Compact(..) => self.compact = true,
            ParsedTime::Date(_) => self.dates = true,
            ParsedTime::Timestamp { seconds, nanos, zoned } => {
                self.timestamps = true;
                self.intraday |= zoned || nanos != 0 || seconds % DAY != 0;
                self.zoned |= zoned;
                self.fine |= nanos % 1000 != 0;
            }
        }
    }

    /// Arrow type of the column; `None` without values.
    pub(super) fn data_type(self) -> Option<DataType> {
        let unit = if self.fine { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
        if self.timestamps {
            Some(DataType::Timestamp(unit, self.zoned.then(|| "UTC".into())))
        } else if self.dates || (self.compact && !self.ints) {
            Some(DataType::Date32)
        } else {
            self.ints.then_some(DataType::Int64)
        }
    }
}

/// The unit in which an integer is an epoch time between 1980 and 2100, if any.
pub(super) fn epoch_unit(number: i64) -> Option<TimeUnit> {
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    units.into_iter().find(|unit| EPOCH.contains(&(number / per_second(*unit))))
}

/// Default type of a time column without values.
pub(super) fn default_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Units per second.
fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Lossless common type of two time columns, if any.
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

/// Conversion of parsed times to the integers of the schema's time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeEncoding {
    /// Days since the epoch.
    Days,
    /// Plain integers.
    Integers,
    /// Timestamp with a unit, with or without a zone.
    Units { per_second: i64, zoned: bool },
}

impl TimeEncoding {
    /// Encoding of a type.
    pub(super) fn of(kind: &DataType) -> TimeEncoding {
        match kind {
            DataType::Date32 => TimeEncoding::Days,
            DataType::Timestamp(unit, zone) => {
                TimeEncoding::Units { per_second: per_second(*unit), zoned: zone.is_some() }
            }
            _ => TimeEncoding::Integers,
        }
    }

    /// Multiplier from another time type.
    pub(super) fn factor(self, from: &DataType) -> i64 {
        match (self, from) {
            (TimeEncoding::Units { per_second, .. }, DataType::Date32) => per_second * DAY,
            (TimeEncoding::Units { per_second: to, .. }, DataType::Timestamp(unit, _)) => {
                to / per_second(*unit)
            }
            (TimeEncoding::Units { per_second, .. }, DataType::Date64) => per_second / 1000,
            _ => 1,
        }
    }

    /// Encodes a time, or says why it does not fit.
    pub(super) fn encode(self, time: ParsedTime) -> Result<i64, &'static str> {
        const OUT_OF_RANGE: &str = "is too far from 1970 for the unit of its column";
        match (self, time) {
            (TimeEncoding::Integers, ParsedTime::Int(number) | ParsedTime::Compact(number, _)) => Ok(number),
            (TimeEncoding::Integers, _) => {
                Err("is a date, and the first times of the column are plain numbers")
            }
            (_, ParsedTime::Int(_)) => Err("is a plain number, and the first times of the column are dates"),
            (TimeEncoding::Days, ParsedTime::Date(days) | ParsedTime::Compact(_, days)) => Ok(days),
            (TimeEncoding::Days, ParsedTime::Timestamp { seconds, nanos: 0, zoned: false })
                if seconds % DAY == 0 =>
            {
                Ok(seconds / DAY)
            }
            (TimeEncoding::Days, _) => Err("has a time of day, and the first times of the column are dates"),
            (
                TimeEncoding::Units { per_second, .. },
                ParsedTime::Date(days) | ParsedTime::Compact(_, days),
            ) => days.checked_mul(DAY * per_second).ok_or(OUT_OF_RANGE),
            (TimeEncoding::Units { zoned, .. }, ParsedTime::Timestamp { zoned: other, .. })
                if zoned && !other =>
            {
                Err("has no time zone, and the first times of the column have one")
            }
            (TimeEncoding::Units { zoned, .. }, ParsedTime::Timestamp { zoned: other, .. })
                if !zoned && other =>
            {
                Err("has a time zone, and the first times of the column have none")
            }
            (TimeEncoding::Units { per_second, .. }, ParsedTime::Timestamp { seconds, nanos, .. }) => {
                let step = 1_000_000_000 / per_second;
                if nanos % step != 0 {
                    return Err("is finer than the first times of the column");
                }
                seconds.checked_mul(per_second).and_then(|t| t.checked_add(nanos / step)).ok_or(OUT_OF_RANGE)
            }
        }
    }
}

/// Formats a time in ISO 8601.
pub(crate) fn format_time(kind: &DataType, time: i64) -> String {
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

    fn timestamp(text: &str) -> Option<(i64, i64, bool)> {
        match parse(text.as_bytes())? {
            ParsedTime::Timestamp { seconds, nanos, zoned } => Some((seconds, nanos, zoned)),
            _ => None,
        }
    }

    #[test]
    fn dates_are_parsed() {
        assert_eq!(parse(b"1970-01-01"), Some(ParsedTime::Date(0)));
        assert_eq!(parse(b"2024-02-29"), Some(ParsedTime::Date(19_782)));
        assert_eq!(parse(b"2024/02/29"), Some(ParsedTime::Date(19_782)));
        assert_eq!(parse(b"1969-12-31"), Some(ParsedTime::Date(-1)));
        assert_eq!(parse(b"20240229"), Some(ParsedTime::Compact(20_240_229, 19_782)));
        for wrong in
            ["2023-02-29", "2024-13-01", "2024-00-01", "2024-01-32", "2024-1-1", "01/02/2024", "", "x"]
        {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn integers_stay_integers() {
        assert_eq!(parse(b"1704067200"), Some(ParsedTime::Int(1_704_067_200)));
        assert_eq!(parse(b"-5"), Some(ParsedTime::Int(-5)));
        assert_eq!(parse(b"20241399"), Some(ParsedTime::Int(20_241_399)));
        assert_eq!(parse(b"99999999999999999999"), None);
    }

    #[test]
    fn timestamps_with_fraction_and_zone_are_parsed() {
        let base = 19_782 * DAY + 9 * 3600 + 30 * 60;
        assert_eq!(timestamp("2024-02-29 09:30"), Some((base, 0, false)));
        assert_eq!(timestamp("2024-02-29T09:30:05"), Some((base + 5, 0, false)));
        assert_eq!(timestamp("20240229  09:30:05"), Some((base + 5, 0, false)));
        assert_eq!(timestamp("2024-02-29T09:30:05.25Z"), Some((base + 5, 250_000_000, true)));
        assert_eq!(timestamp("2024-02-29 09:30:00.000000001+01:00"), Some((base - 3600, 1, true)));
        assert_eq!(timestamp("2024-02-29 09:30:00-0530"), Some((base + 19_800, 0, true)));
        assert_eq!(timestamp("2024-02-29 09:30:00 UTC"), Some((base, 0, true)));
        for wrong in [
            "2024-02-29T",
            "2024-02-29T24:00",
            "2024-02-29T09:60",
            "2024-02-29T09:30:",
            "2024-02-29T09:30x",
            "09:30",
        ] {
            assert_eq!(timestamp(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn type_is_inferred_from_the_first_values() {
        let kind = |cells: &[&str]| {
            let mut inference = TimeInference::default();
            cells.iter().filter_map(|c| parse(c.as_bytes())).for_each(|w| inference.add(w));
            inference.data_type()
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
    fn times_that_do_not_fit_the_column_are_errors() {
        let micros = TimeEncoding::Units { per_second: 1_000_000, zoned: false };
        let encode = |encoding: TimeEncoding, text: &str| encoding.encode(parse(text.as_bytes()).unwrap());
        assert_eq!(encode(micros, "1970-01-02"), Ok(DAY * 1_000_000));
        assert!(encode(micros, "1970-01-01T00:00:00.0000001").unwrap_err().contains("finer"));
        assert!(encode(micros, "1970-01-01T00:00Z").unwrap_err().contains("zone"));
        assert!(encode(micros, "12").unwrap_err().contains("plain number"));
        assert_eq!(encode(TimeEncoding::Days, "1970-01-03 00:00"), Ok(2));
        assert!(encode(TimeEncoding::Days, "1970-01-03 00:01").unwrap_err().contains("time of day"));
        let nanos = TimeEncoding::Units { per_second: 1_000_000_000, zoned: false };
        assert!(encode(nanos, "9999-01-01").unwrap_err().contains("too far"));
    }

    proptest! {
        #[test]
        fn format_and_parse_round_trip(seconds in -60_000_000_000_i64..200_000_000_000, micros in 0_i64..1_000_000) {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            let time = seconds * 1_000_000 + micros;
            let written = parse(format_time(&kind, time).as_bytes()).unwrap();
            prop_assert_eq!(TimeEncoding::of(&kind).encode(written), Ok(time));
            let day = parse(format_time(&DataType::Date32, seconds / DAY).as_bytes());
            prop_assert_eq!(day, Some(ParsedTime::Date(seconds / DAY)));
        }

        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&bytes);
        }
    }
}
