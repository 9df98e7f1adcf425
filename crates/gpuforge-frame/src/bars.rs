//! What is a series? The bars of one symbol in time order, and what its keys were called.

use arrow::{
    array::{temporal_conversions::as_datetime_with_timezone, timezone::Tz, types::TimestampSecondType},
    datatypes::{DataType, TimeUnit},
};

/// Times beyond this many seconds are years far beyond any market; zones have no rules for them.
const FARTHEST: f64 = 1e12;

/// Which symbol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A ticker.
    Text(String),
    /// An identifier.
    Number(i64),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Text(text) => f.write_str(text),
            Key::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Bars of one symbol, the oldest first. Columns that the input does not have are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    /// Which symbol; `None` where the input has no such column.
    pub symbol: Option<Key>,
    /// Times, in the unit of the layout's time column.
    pub time: Vec<i64>,
    /// First prices.
    pub open: Vec<f64>,
    /// Highest prices.
    pub high: Vec<f64>,
    /// Lowest prices.
    pub low: Vec<f64>,
    /// Last prices.
    pub close: Vec<f64>,
    /// Volumes.
    pub volume: Vec<f64>,
}

impl Bars {
    /// How many bars: the longest column.
    pub fn len(&self) -> usize {
        let columns = [&self.open, &self.high, &self.low, &self.close, &self.volume];
        columns.iter().map(|c| c.len()).max().unwrap_or(0).max(self.time.len())
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the columns.
    pub fn bytes(&self) -> usize {
        let columns = [&self.open, &self.high, &self.low, &self.close, &self.volume];
        8 * (columns.iter().map(|c| c.len()).sum::<usize>() + self.time.len())
    }
}

/// A key column as the input had it, so that the output has it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, as written in the input.
    pub name: String,
    /// Its type. A symbol is `Utf8` or `Int64`, a time `Date32`, `Int64` or a `Timestamp` of any unit and zone.
    pub kind: DataType,
}

/// The keys of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The symbol's column.
    pub symbol: Option<Column>,
    /// The time's column.
    pub time: Option<Column>,
    /// Does the time come before the symbol?
    pub time_first: bool,
}

impl Layout {
    /// Keys of tables that hold no bars: the number of a row, then, where it is named, a text about it.
    pub fn of_rows(number: &str, text: Option<&str>) -> Layout {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        Layout {
            time: Some(column(number, DataType::Int64)),
            symbol: text.map(|name| column(name, DataType::Utf8)),
            time_first: true,
        }
    }

    /// How many units of the time column a second has; `None` where it counts days or has no unit.
    fn per_second(&self) -> Option<f64> {
        match self.time.as_ref()?.kind {
            DataType::Timestamp(TimeUnit::Second, _) => Some(1.0),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1e3),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1e6),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1e9),
            _ => None,
        }
    }

    /// Times in seconds since the epoch. A date is its midnight; plain integers are taken as they are.
    pub fn seconds(&self, time: &[i64]) -> Vec<f64> {
        let date = matches!(self.time.as_ref().map(|c| &c.kind), Some(DataType::Date32));
        match self.per_second() {
            Some(per) => time.iter().map(|t| *t as f64 / per).collect(),
            None if date => time.iter().map(|t| *t as f64 * 86_400.0).collect(),
            None => time.iter().map(|t| *t as f64).collect(),
        }
    }
}

impl Layout {
    /// Seconds of a unit of the time column; `None` where there is none or it holds plain integers.
    pub fn unit_seconds(&self) -> Option<f64> {
        let date = matches!(self.time.as_ref()?.kind, DataType::Date32);
        self.per_second().map(f64::recip).or(date.then_some(86_400.0))
    }

    /// Wall-clock seconds since the epoch in the column's time zone, UTC without one; `None` where the times are plain
    /// integers or there is no time column.
    pub fn wall_clock_seconds(&self, time: &[i64]) -> Option<Vec<f64>> {
        if !matches!(self.time.as_ref()?.kind, DataType::Timestamp(..) | DataType::Date32) {
            return None;
        }
        let seconds = self.seconds(time);
        // A zone that the database does not know is shown as UTC.
        let zone: Option<Tz> = self.time_zone().and_then(|name| name.parse().ok());
        Some(match zone {
            Some(zone) => seconds.into_iter().map(|s| wall_clock(s, zone)).collect(),
            None => seconds,
        })
    }

    /// Name of the time column's zone, e.g. `America/New_York` or `+02:00`.
    pub fn time_zone(&self) -> Option<&str> {
        match &self.time.as_ref()?.kind {
            DataType::Timestamp(_, zone) => zone.as_deref(),
            _ => None,
        }
    }

    /// A time as text, in ISO 8601; a plain integer as it is. `None` without a time column.
    pub fn show(&self, time: i64) -> Option<String> {
        self.time.as_ref().map(|column| crate::read::time::show(&column.kind, time))
    }
}

/// Seconds that a clock in the zone shows at a UTC time.
fn wall_clock(seconds: f64, zone: Tz) -> f64 {
    if seconds.abs() > FARTHEST {
        return seconds;
    }
    let utc = seconds.floor();
    let shown = as_datetime_with_timezone::<TimestampSecondType>(utc as i64, zone);
    shown.map_or(seconds, |t| t.naive_local().and_utc().timestamp() as f64 + (seconds - utc))
}

/// What a reader hands over at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Portion {
    /// All bars of these symbols.
    Whole(Vec<Bars>),
    /// Some bars of a symbol that is too large to be held at once.
    Part {
        /// The bars.
        bars: Bars,
        /// Are they its first?
        first: bool,
        /// Are they its last?
        last: bool,
    },
}
