//! Read report: formats, column roles with reasons, symbols, time range and step, skipped and duplicate rows.

use std::{collections::HashMap, path::PathBuf};

use arrow::datatypes::{DataType, TimeUnit};

use super::{path_symbol::SymbolSource, time};
use crate::{bars::KeySchema, column_roles::Role};

/// Time differences counted per series.
const STEPS: usize = 1000;

/// Report of a reader.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadReport {
    /// Rows used, duplicates included.
    pub rows: u64,
    /// Number of symbols.
    pub symbols: usize,
    /// Rows skipped because they could not be parsed.
    pub skipped: u64,
    /// Reasons of the first skipped rows.
    pub reasons: Vec<String>,
    /// Symbols that had to be sorted by time.
    pub sorted_here: usize,
    /// Rows dropped as duplicate times.
    pub duplicates: u64,
    /// Number of files.
    pub files: usize,
    /// Rows spilled to disk.
    pub spilled: bool,
    /// Time range, if any; complete after the last batch.
    pub time: Option<TimeReport>,
    /// Report of each file.
    pub inputs: Vec<FileReport>,
}

/// Time range of an input.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct TimeReport {
    /// Type, unit and zone.
    pub kind: String,
    /// First time, as text.
    pub first: String,
    /// Last time.
    pub last: String,
    /// Most frequent interval: `1m`, `1d`. Plain integers have no unit.
    pub step: Option<String>,
}

/// A file and its inferred schema.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FileReport {
    /// Path.
    pub path: PathBuf,
    /// `Parquet`, `Arrow IPC`, `CSV`, with the delimiter of a CSV file.
    pub format: String,
    /// Columns in order.
    pub columns: Vec<ColumnReport>,
    /// Symbol of all rows, where there is no symbol column.
    pub symbol: Option<String>,
    /// Where the symbol comes from.
    pub symbol_from: SymbolSource,
    /// Rows used.
    pub rows: u64,
    /// Rows that could not be parsed.
    pub skipped: u64,
    /// Rows dropped as duplicate times.
    pub duplicates: u64,
    /// Each symbol's times are nondecreasing in the file.
    pub in_order: bool,
}

/// A column and its role.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// Its type; `None` for CSV.
    pub kind: Option<String>,
    /// Its role; `None` if it is not read.
    pub role: Option<&'static str>,
    /// Why it has that role.
    pub why: Option<&'static str>,
}

impl ReadReport {
    /// Roles and column names of the first file: `time` is `Date+Time` where it is two columns.
    pub fn columns(&self) -> Vec<(&'static str, String)> {
        let Some(file) = self.inputs.first() else { return Vec::new() };
        let roles =
            crate::column_roles::NAMES.iter().map(|(role, ..)| *role).filter(|role| *role != Role::Symbol);
        let of = |role: Role| {
            let with = |c: &&ColumnReport| c.role == Some(role.name());
            file.columns.iter().find(with).map(|c| match c.name.is_empty() {
                true => "(unnamed)".to_string(),
                false => c.name.clone(),
            })
        };
        let symbol = of(Role::Symbol).map(|name| (Role::Symbol.name(), name));
        let others = roles.filter_map(|role| {
            let name = of(role)?;
            let beside = of(Role::TimeOfDay).filter(|_| role == Role::Time);
            Some((role.name(), beside.map_or(name.clone(), |clock| format!("{name}+{clock}"))))
        });
        symbol.into_iter().chain(others).collect()
    }
}

/// Summary of an input: what a user checks to see that a file was read as intended.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct InputSummary {
    /// Rows used.
    pub rows: u64,
    /// Number of series.
    pub symbols: usize,
    /// Number of files.
    pub files: usize,
    /// Where symbols come from.
    pub symbol_from: &'static str,
    /// Time range; `None`: rows are in file order.
    pub time: Option<TimeReport>,
    /// The time column was detected by values alone.
    pub time_by_values: bool,
    /// Roles and column names.
    #[serde(serialize_with = "as_map")]
    pub columns: Vec<(&'static str, String)>,
}

fn as_map<S: serde::Serializer>(pairs: &[(&'static str, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(role, name)| (role, name)))
}

impl ReadReport {
    /// Summary.
    pub fn summary(&self) -> InputSummary {
        let first = self.inputs.first();
        let times = first.into_iter().flat_map(|f| &f.columns).filter(|c| c.role == Some(Role::Time.name()));
        let by_values = crate::column_roles::RoleReason::Values.words();
        InputSummary {
            rows: self.rows.saturating_sub(self.duplicates),
            symbols: self.symbols,
            files: self.files,
            symbol_from: first.map_or(SymbolSource::Nothing, |f| f.symbol_from).words(),
            time: self.time.clone(),
            time_by_values: times.into_iter().any(|c| c.why == Some(by_values)),
            columns: self.columns(),
        }
    }
}

impl std::fmt::Display for InputSummary {
    /// `400 rows of 2 symbols (the file name), 2024-01-01 to 2024-07-18, step 1d; time=Date close=Close`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let many = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        write!(f, "{} of {}", many(self.rows, "row"), many(self.symbols as u64, "symbol"))?;
        if self.symbol_from != SymbolSource::Nothing.words() {
            write!(f, " ({})", self.symbol_from)?;
        }
        match &self.time {
            Some(time) => {
                write!(f, ", {} to {}", time.first, time.last)?;
                time.step.iter().try_for_each(|step| write!(f, ", step {step}"))?;
            }
            None if self.columns.iter().any(|(role, _)| *role == Role::Time.name()) => {}
            None => f.write_str(", no times: rows in file order")?,
        }
        f.write_str(";")?;
        for (role, name) in &self.columns {
            write!(f, " {role}={name}")?;
            if self.time_by_values && *role == Role::Time.name() {
                f.write_str(" (by its values)")?;
            }
        }
        Ok(())
    }
}

/// Time range and step histogram, accumulated over batches.
#[derive(Debug, Clone, Default)]
pub(super) struct TimeSpanStats {
    ends: Option<(i64, i64)>,
    steps: HashMap<i64, u64>,
}

impl TimeSpanStats {
    /// Statistics of one sorted series.
    pub(super) fn of(times: &[i64]) -> TimeSpanStats {
        let mut steps = HashMap::new();
        for [a, b] in times.array_windows().take(STEPS) {
            *steps.entry(b.saturating_sub(*a)).or_insert(0) += 1;
        }
        TimeSpanStats { ends: times.first().copied().zip(times.last().copied()), steps }
    }

    /// Merges two statistics.
    pub(super) fn merge(&mut self, other: TimeSpanStats) {
        self.ends = match (self.ends, other.ends) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        for (step, count) in other.steps {
            *self.steps.entry(step).or_insert(0) += count;
        }
    }

    /// Report for users.
    pub(super) fn report(&self, layout: &KeySchema) -> Option<TimeReport> {
        let kind = &layout.time.as_ref()?.data_type;
        let (first, last) = self.ends?;
        // Ties go to the smallest: the result must not depend on map order.
        let step = self.steps.iter().filter(|(step, _)| **step > 0);
        let step = step.max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0))).map(|(step, _)| *step);
        Some(TimeReport {
            kind: describe_type(kind, first),
            first: time::format_time(kind, first),
            last: time::format_time(kind, last),
            step: step.map(|step| format_step(kind, step)),
        })
    }
}

/// `1m`, `4h`, `1d`, `250ms`; a plain integer as it is.
fn format_step(kind: &DataType, step: i64) -> String {
    const UNITS: [(&str, i64); 8] = [
        ("w", 604_800_000_000_000),
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let nanos = match kind {
        DataType::Date32 => 86_400_000_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        _ => return step.to_string(),
    };
    let all = step.saturating_mul(nanos);
    let unit = UNITS.iter().find(|(_, size)| all % size == 0);
    unit.map_or_else(|| step.to_string(), |(name, size)| format!("{}{name}", all / size))
}

/// `date`, `timestamp in microseconds, UTC`, `whole numbers (as large as milliseconds since 1970)`.
fn describe_type(kind: &DataType, first: i64) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    };
    match kind {
        DataType::Date32 => "date".to_string(),
        DataType::Timestamp(of, None) => format!("timestamp in {}, no zone", unit(of)),
        DataType::Timestamp(of, Some(zone)) => format!("timestamp in {}, {zone}", unit(of)),
        _ => match time::epoch_unit(first) {
            Some(of) => format!("whole numbers (as large as {} since 1970)", unit(&of)),
            None => "whole numbers".to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_formatted_as_intervals() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let cases = [
            (&micros, 60_000_000, "1m"),
            (&micros, 900_000_000, "15m"),
            (&micros, 14_400_000_000, "4h"),
            (&micros, 250_000, "250ms"),
            (&micros, 1, "1us"),
            (&DataType::Date32, 1, "1d"),
            (&DataType::Date32, 7, "1w"),
            (&DataType::Int64, 60, "60"),
        ];
        for (kind, step, wanted) in cases {
            assert_eq!(format_step(kind, step), wanted);
        }
        assert_eq!(describe_type(&micros, 0), "timestamp in microseconds, no zone");
        assert_eq!(
            describe_type(&DataType::Int64, 1_704_067_200_000),
            "whole numbers (as large as milliseconds since 1970)"
        );
        assert_eq!(describe_type(&DataType::Int64, 5), "whole numbers");
    }

    #[test]
    fn most_frequent_step_wins_ties_go_to_the_smallest() {
        let step = |times: &[i64]| {
            let time = crate::bars::KeyColumn { name: "t".to_string(), data_type: DataType::Date32 };
            let layout = KeySchema { time: Some(time), ..KeySchema::default() };
            TimeSpanStats::of(times).report(&layout).and_then(|r| r.step)
        };
        assert_eq!(step(&[0, 1, 2, 5, 6]).as_deref(), Some("1d"));
        assert_eq!(step(&[0, 2, 3]).as_deref(), Some("1d"));
        assert_eq!(step(&[0]), None);
        assert_eq!(step(&[]), None);
        let mut both = TimeSpanStats::of(&[5, 6]);
        both.merge(TimeSpanStats::of(&[1, 9]));
        assert_eq!(both.ends, Some((1, 9)));
    }
}
