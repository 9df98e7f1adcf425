//! OHLCV bars of one symbol ([`Bars`]), the key columns of an input ([`KeySchema`]), and batches of bars ([`BarsBatch`]).

use arrow::{
    array::{temporal_conversions::as_datetime_with_timezone, timezone::Tz, types::TimestampSecondType},
    datatypes::{DataType, TimeUnit},
};

/// Times beyond this many seconds are years far beyond any market; zones have no rules for them.
const FARTHEST: f64 = 1e12;

/// Symbol of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymbolKey {
    /// A ticker.
    Text(String),
    /// An identifier.
    Number(i64),
}

impl std::fmt::Display for SymbolKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SymbolKey::Text(text) => f.write_str(text),
            SymbolKey::Number(number) => write!(f, "{number}"),
        }
    }
}

/// OHLCV columns of one symbol, the oldest bar first. Columns that the input does not have are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    /// The symbol; `None` where the input has none.
    pub symbol: Option<SymbolKey>,
    /// Times, in the unit of the schema's time column.
    pub time: Vec<i64>,
    /// Opening prices.
    pub open: Vec<f64>,
    /// Highest prices.
    pub high: Vec<f64>,
    /// Lowest prices.
    pub low: Vec<f64>,
    /// Closing prices.
    pub close: Vec<f64>,
    /// Volumes.
    pub volume: Vec<f64>,
}

impl Bars {
    /// Number of bars: the longest column.
    pub fn len(&self) -> usize {
        let columns = [&self.open, &self.high, &self.low, &self.close, &self.volume];
        columns.iter().map(|c| c.len()).max().unwrap_or(0).max(self.time.len())
    }

    /// No bars.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the columns.
    pub fn bytes(&self) -> usize {
        let columns = [&self.open, &self.high, &self.low, &self.close, &self.volume];
        8 * (columns.iter().map(|c| c.len()).sum::<usize>() + self.time.len())
    }
}

/// A key column: name and type in the input, which the output repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name in the input.
    pub name: String,
    /// Its type. A symbol is `Utf8` or `Int64`, a time `Date32`, `Int64` or a `Timestamp` of any unit and zone.
    pub data_type: DataType,
}

/// Key columns of an input: symbol and time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySchema {
    /// Symbol column.
    pub symbol: Option<KeyColumn>,
    /// Time column.
    pub time: Option<KeyColumn>,
    /// The time column comes before the symbol column.
    pub time_first: bool,
}

impl KeySchema {
    /// Keys of tables that hold no bars: a row number, then, if named, a text column.
    pub fn of_rows(number: &str, text: Option<&str>) -> KeySchema {
        let column = |name: &str, data_type| KeyColumn { name: name.to_owned(), data_type };
        KeySchema {
            time: Some(column(number, DataType::Int64)),
            symbol: text.map(|name| column(name, DataType::Utf8)),
            time_first: true,
        }
    }

    /// Units of the time column per second; `None` for dates and plain integers.
    fn per_second(&self) -> Option<f64> {
        match self.time.as_ref()?.data_type {
            DataType::Timestamp(TimeUnit::Second, _) => Some(1.0),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1e3),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1e6),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1e9),
            _ => None,
        }
    }

    /// Epoch seconds. A date is its midnight; plain integers are taken as they are.
    pub fn seconds(&self, time: &[i64]) -> Vec<f64> {
        let date = matches!(self.time.as_ref().map(|c| &c.data_type), Some(DataType::Date32));
        match self.per_second() {
            Some(per) => time.iter().map(|t| *t as f64 / per).collect(),
            None if date => time.iter().map(|t| *t as f64 * 86_400.0).collect(),
            None => time.iter().map(|t| *t as f64).collect(),
        }
    }
}

impl KeySchema {
    /// Seconds per unit of the time column; `None` without one and for plain integers.
    pub fn unit_seconds(&self) -> Option<f64> {
        let date = matches!(self.time.as_ref()?.data_type, DataType::Date32);
        self.per_second().map(f64::recip).or(date.then_some(86_400.0))
    }

    /// Wall-clock seconds since the epoch in the column's time zone, UTC without one; `None` where the times are plain
    /// integers or there is no time column.
    pub fn wall_clock_seconds(&self, time: &[i64]) -> Option<Vec<f64>> {
        if !matches!(self.time.as_ref()?.data_type, DataType::Timestamp(..) | DataType::Date32) {
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
        match &self.time.as_ref()?.data_type {
            DataType::Timestamp(_, zone) => zone.as_deref(),
            _ => None,
        }
    }

    /// A time in ISO 8601; a plain integer as it is. `None` without a time column.
    pub fn show(&self, time: i64) -> Option<String> {
        self.time.as_ref().map(|column| crate::read::time::format_time(&column.data_type, time))
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

/// One batch of a reader, within its memory limit.
#[derive(Debug, Clone, PartialEq)]
pub enum BarsBatch {
    /// All bars of these symbols.
    Complete(Vec<Bars>),
    /// A segment of a symbol that exceeds the memory limit.
    Segment {
        /// The bars.
        bars: Bars,
        /// The symbol's first segment.
        first: bool,
        /// The symbol's last segment.
        last: bool,
    },
}
