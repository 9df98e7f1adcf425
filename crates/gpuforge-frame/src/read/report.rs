//! Report of an input: files, the role of every column and why, keys, times, step. What was recognised?

use std::{collections::HashMap, path::PathBuf};

use arrow::datatypes::{DataType, TimeUnit};

use super::{path_key::KeySource, time};
use crate::{bars::Layout, names::Role};

/// Differences of times that are counted of each series.
const STEPS: usize = 1000;

/// What was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadReport {
    /// Rows that were used, duplicates included.
    pub rows: u64,
    /// Symbols.
    pub symbols: usize,
    /// Rows that were dropped because they could not be read.
    pub skipped: u64,
    /// Why the first of them were.
    pub reasons: Vec<String>,
    /// Symbols whose rows were put in time order here.
    pub sorted_here: usize,
    /// Rows that were left out because their time came twice.
    pub duplicates: u64,
    /// Files.
    pub files: usize,
    /// Did rows have to wait in a temporary file?
    pub spilled: bool,
    /// The times, if there are any; complete when all portions were handed over.
    pub time: Option<TimeReport>,
    /// Each file.
    pub inputs: Vec<FileReport>,
}

/// The times of an input.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct TimeReport {
    /// Their type, unit and zone.
    pub kind: String,
    /// The first, as text.
    pub first: String,
    /// The last.
    pub last: String,
    /// The most frequent difference of two times of a symbol: `1m`, `1d`. Plain numbers have no unit.
    pub step: Option<String>,
}

/// A file and what was recognised in it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FileReport {
    /// Which.
    pub path: PathBuf,
    /// `Parquet`, `Arrow IPC`, `CSV`, with the delimiter of a text.
    pub format: String,
    /// Its columns in order.
    pub columns: Vec<ColumnReport>,
    /// The symbol of all its rows, where no column says it.
    pub symbol: Option<String>,
    /// Where the symbol is from.
    pub symbol_from: KeySource,
    /// Rows that were used.
    pub rows: u64,
    /// Rows that could not be read.
    pub skipped: u64,
    /// Rows that were left out because their time came twice.
    pub duplicates: u64,
    /// Did no row go back in time behind one of its symbol?
    pub in_order: bool,
}

/// A column and the role it got.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// Its type; a text has none.
    pub kind: Option<String>,
    /// What it is; `None` if it is not read.
    pub role: Option<&'static str>,
    /// Why.
    pub why: Option<&'static str>,
}

impl ReadReport {
    /// Roles and the names of their columns, as the first file has them: `time` is `Date+Time` where it is in two.
    pub fn columns(&self) -> Vec<(&'static str, String)> {
        let Some(file) = self.inputs.first() else { return Vec::new() };
        let roles = crate::names::NAMES.iter().map(|(role, ..)| *role).filter(|role| *role != Role::Symbol);
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

/// What was recognised, in short: what a person must see to know that a file was read as it was meant.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Recognised {
    /// Rows that were used.
    pub rows: u64,
    /// Series.
    pub symbols: usize,
    /// Files.
    pub files: usize,
    /// Where symbols are from.
    pub symbol_from: &'static str,
    /// The times; `None`: rows are in file order.
    pub time: Option<TimeReport>,
    /// Was the time found by values alone?
    pub time_by_values: bool,
    /// Roles and the names of their columns.
    #[serde(serialize_with = "as_map")]
    pub columns: Vec<(&'static str, String)>,
}

fn as_map<S: serde::Serializer>(pairs: &[(&'static str, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(role, name)| (role, name)))
}

impl ReadReport {
    /// In short.
    pub fn recognised(&self) -> Recognised {
        let first = self.inputs.first();
        let times = first.into_iter().flat_map(|f| &f.columns).filter(|c| c.role == Some(Role::Time.name()));
        let by_values = crate::names::Why::Values.words();
        Recognised {
            rows: self.rows.saturating_sub(self.duplicates),
            symbols: self.symbols,
            files: self.files,
            symbol_from: first.map_or(KeySource::Nothing, |f| f.symbol_from).words(),
            time: self.time.clone(),
            time_by_values: times.into_iter().any(|c| c.why == Some(by_values)),
            columns: self.columns(),
        }
    }
}

impl std::fmt::Display for Recognised {
    /// `400 rows of 2 symbols (the file name), 2024-01-01 to 2024-07-18, step 1d; time=Date close=Close`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let many = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        write!(f, "{} of {}", many(self.rows, "row"), many(self.symbols as u64, "symbol"))?;
        if self.symbol_from != KeySource::Nothing.words() {
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

/// First, last and step of times while series are handed over.
#[derive(Debug, Clone, Default)]
pub(super) struct Span {
    ends: Option<(i64, i64)>,
    steps: HashMap<i64, u64>,
}

impl Span {
    /// The span of one sorted series.
    pub(super) fn of(times: &[i64]) -> Span {
        let mut steps = HashMap::new();
        for [a, b] in times.array_windows().take(STEPS) {
            *steps.entry(b.saturating_sub(*a)).or_insert(0) += 1;
        }
        Span { ends: times.first().copied().zip(times.last().copied()), steps }
    }

    /// Both together.
    pub(super) fn join(&mut self, other: Span) {
        self.ends = match (self.ends, other.ends) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        for (step, count) in other.steps {
            *self.steps.entry(step).or_insert(0) += count;
        }
    }

    /// In words.
    pub(super) fn report(&self, layout: &Layout) -> Option<TimeReport> {
        let kind = &layout.time.as_ref()?.kind;
        let (first, last) = self.ends?;
        // Of equally frequent ones the smallest: the answer must not depend on the order of a map.
        let step = self.steps.iter().filter(|(step, _)| **step > 0);
        let step = step.max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0))).map(|(step, _)| *step);
        Some(TimeReport {
            kind: kind_words(kind, first),
            first: time::show(kind, first),
            last: time::show(kind, last),
            step: step.map(|step| step_words(kind, step)),
        })
    }
}

/// `1m`, `4h`, `1d`, `250ms`; a plain number as it is.
fn step_words(kind: &DataType, step: i64) -> String {
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
fn kind_words(kind: &DataType, first: i64) -> String {
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
    fn steps_read_as_people_write_them() {
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
            assert_eq!(step_words(kind, step), wanted);
        }
        assert_eq!(kind_words(&micros, 0), "timestamp in microseconds, no zone");
        assert_eq!(
            kind_words(&DataType::Int64, 1_704_067_200_000),
            "whole numbers (as large as milliseconds since 1970)"
        );
        assert_eq!(kind_words(&DataType::Int64, 5), "whole numbers");
    }

    #[test]
    fn the_most_frequent_step_counts_and_of_equals_the_smallest() {
        let step = |times: &[i64]| {
            let time = crate::bars::Column { name: "t".to_string(), kind: DataType::Date32 };
            let layout = Layout { time: Some(time), ..Layout::default() };
            Span::of(times).report(&layout).and_then(|r| r.step)
        };
        assert_eq!(step(&[0, 1, 2, 5, 6]).as_deref(), Some("1d"));
        assert_eq!(step(&[0, 2, 3]).as_deref(), Some("1d"));
        assert_eq!(step(&[0]), None);
        assert_eq!(step(&[]), None);
        let mut both = Span::of(&[5, 6]);
        both.join(Span::of(&[1, 9]));
        assert_eq!(both.ends, Some((1, 9)));
    }
}
