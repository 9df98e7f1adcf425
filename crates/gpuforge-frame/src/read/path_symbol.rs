//! Symbols from paths: hive partitions (`symbol=AAPL/`), file names without date and interval, directories.
//!
//! | path | symbol |
//! |---|---|
//! | `symbol=AAPL/year=2024/part-0.parquet` | `AAPL`, by its hive partition key; other keys are ignored |
//! | `BTCUSDT-1m-2024-01.csv`, `BTCUSDT-1m-2024-02.csv` | `BTCUSDT`: without the date, and without an interval that all files share |
//! | `AAPL/2024-01.csv`, `AAPL/part-0.parquet` | `AAPL`: a nondescript file name falls back to the directory |
//!
//! Pure functions over text, without file access.

use std::path::{Component, Path};

use crate::column_roles::Role;

/// Where a symbol comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SymbolSource {
    /// A symbol column.
    Column,
    /// A hive directory such as `symbol=AAPL`.
    HiveKey,
    /// The file's name without date and interval.
    FileName,
    /// The directory that the file is in.
    Directory,
    /// No symbol: one series.
    Nothing,
}

impl SymbolSource {
    /// Description for reports.
    pub fn words(self) -> &'static str {
        match self {
            SymbolSource::Column => "a column",
            SymbolSource::HiveKey => "the hive key",
            SymbolSource::FileName => "the file name",
            SymbolSource::Directory => "the directory",
            SymbolSource::Nothing => "no key: one series",
        }
    }
}

/// `key=value` directories of a path, outermost first.
pub(super) fn hive(path: &Path) -> Vec<(String, String)> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    let text = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    };
    directories.filter_map(text).filter_map(|name| pair(&name)).collect()
}

/// Is this a hive directory name?
pub(super) fn is_hive(name: &str) -> bool {
    pair(name).is_some()
}

fn pair(name: &str) -> Option<(String, String)> {
    let (key, value) = name.split_once('=')?;
    (!key.is_empty() && !value.is_empty()).then(|| (key.to_string(), percent_decode(value)))
}

/// Symbol of a hive path: the innermost key with a symbol name.
pub(super) fn hive_symbol(path: &Path) -> Option<String> {
    let keys = hive(path).into_iter().rev();
    keys.filter(|(key, _)| Role::of(key) == Some(Role::Symbol)).map(|(_, value)| value).next()
}

/// Percent-decodes a hive value.
fn percent_decode(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_string())
}

/// File name without extension.
pub(super) fn stem(path: &Path) -> Option<String> {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

/// Directory of a file; the value of a hive directory.
pub(super) fn directory(path: &Path) -> Option<String> {
    let name = path.parent()?.file_name()?.to_string_lossy().into_owned();
    Some(pair(&name).map_or(name, |(_, value)| value))
}

/// Innermost directory that is not a hive directory.
fn plain_directory(path: &Path) -> Option<String> {
    let names = path.ancestors().skip(1).filter_map(|at| at.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).find(|name| !is_hive(name))
}

/// Symbols of several files without a symbol column, and their sources.
pub(super) fn symbols(paths: &[&Path]) -> Vec<(Option<String>, SymbolSource)> {
    let stems: Vec<String> = paths.iter().map(|path| stem(path).unwrap_or_default()).collect();
    // Numeric tickers (2330, 2002) are not years, unless all stems could be.
    let years = stems.iter().all(|stem| year(stem));
    let parts: Vec<StemParts> = stems.iter().map(|stem| split_stem(stem, years)).collect();
    let shared = match parts.as_slice() {
        [first, others @ ..] => {
            first.interval.clone().filter(|i| others.iter().all(|o| o.interval.as_ref() == Some(i)))
        }
        [] => None,
    };
    let named = |(path, parts): (&&Path, &StemParts)| {
        if let Some(symbol) = hive_symbol(path) {
            return (Some(symbol), SymbolSource::HiveKey);
        }
        let name = if shared.is_some() { &parts.without_interval } else { &parts.name };
        match name.is_empty() || nondescript(name) {
            false => (Some(name.clone()), SymbolSource::FileName),
            true => match plain_directory(path) {
                Some(name) => (Some(name), SymbolSource::Directory),
                None => (None, SymbolSource::Nothing),
            },
        }
    };
    paths.iter().zip(&parts).map(named).collect()
}

/// A part file of Spark, Dask or polars (`part-0`, `part-00000-1f2e…-c000`, `part.0`), or a bare number of a chunk (`0`, `00000000`).
fn nondescript(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let numbered = |rest: &str| {
        let rest = rest.trim_start_matches(['-', '_', '.']);
        rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit())
    };
    name.strip_prefix("part").is_some_and(numbered) || name.chars().all(|c| c == '0')
}

/// File stem split into name and interval, without dates.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StemParts {
    /// Without dates.
    name: String,
    /// Without dates and intervals.
    without_interval: String,
    /// The interval, in lower case unless that changes its meaning.
    interval: Option<String>,
}

/// Tokens of a stem, each with its leading separator.
fn tokens(stem: &str) -> Vec<(Option<char>, &str)> {
    let mut all = Vec::new();
    let mut between = None;
    let mut rest = stem;
    while let Some(at) = rest.find(['-', '_', '.', ' ']) {
        let (token, tail) = rest.split_at(at);
        all.push((between, token));
        let mut chars = tail.chars();
        between = chars.next();
        rest = chars.as_str();
    }
    all.push((between, rest));
    all
}

/// Removes dates from a stem; a bare year is a date only if `years`.
fn split_stem(stem: &str, years: bool) -> StemParts {
    let all = tokens(stem);
    let mut kept: Vec<(Option<char>, &str)> = Vec::new();
    let mut at = 0;
    while let Some(here) = all.get(at..) {
        let Some((between, token)) = here.first() else { break };
        let words: Vec<&str> = here.iter().take(3).map(|(_, token)| *token).collect();
        // A leading year may be a ticker.
        let long = match date(&words) {
            1 if year(token) && at == 0 && !(years && all.len() == 1) => 0,
            long => long,
        };
        if long == 0 {
            kept.push((*between, token));
        }
        at += long.max(1);
    }
    let interval = kept.iter().skip(1).map(|(_, token)| *token).find(|token| interval(token));
    let join = |tokens: &mut dyn Iterator<Item = &(Option<char>, &str)>| {
        let mut text = String::new();
        for (between, token) in tokens {
            if !text.is_empty() {
                text.extend(between);
            }
            text.push_str(token);
        }
        text.trim_matches(['-', '_', '.', ' ']).to_string()
    };
    let first = |at: usize, token: &str| at == 0 || Some(token) != interval;
    let mut plain =
        kept.iter().enumerate().filter(|(at, (_, token))| first(*at, token)).map(|(_, kept)| kept);
    StemParts {
        name: join(&mut kept.iter()),
        without_interval: join(&mut plain),
        interval: interval.map(str::to_string),
    }
}

fn digits(token: &str, count: usize) -> Option<u32> {
    (token.len() == count && token.bytes().all(|b| b.is_ascii_digit())).then(|| token.parse().ok()).flatten()
}

fn year(token: &str) -> bool {
    digits(token, 4).is_some_and(|year| (1970..2100).contains(&year))
}

fn month(token: &str) -> bool {
    digits(token, 2).is_some_and(|month| (1..=12).contains(&month))
}

fn day(token: &str) -> bool {
    digits(token, 2).is_some_and(|day| (1..=31).contains(&day))
}

fn quarter(token: &str) -> bool {
    matches!(token.as_bytes(), [b'Q' | b'q', b'1'..=b'4'])
}

/// Number of leading tokens that form a date: `2024 01 05`, `2024 01`, `2024 Q1`, `2024`, `20240105`, `2024Q1`, `202401020930`.
fn date(tokens: &[&str]) -> usize {
    match tokens {
        [y, m, d, ..] if year(y) && month(m) && day(d) => 3,
        [y, m, ..] if year(y) && (month(m) || quarter(m)) => 2,
        [one, ..] if year(one) || compact(one) => 1,
        _ => 0,
    }
}

/// `20240105`, optionally with a time of day (`202401050930`, `20240105093000`), or `2024Q1`.
fn compact(token: &str) -> bool {
    let Some((y, rest)) = token.split_at_checked(4) else { return false };
    if !year(y) || quarter(rest) {
        return year(y) && quarter(rest);
    }
    let Some((m, rest)) = rest.split_at_checked(2) else { return false };
    let Some((d, clock)) = rest.split_at_checked(2) else { return false };
    let clocked = matches!(clock.len(), 0 | 4 | 6) && clock.bytes().all(|b| b.is_ascii_digit());
    month(m) && day(d) && clocked
}

/// `1m`, `15min`, `4h`, `1d`, `1mo`, MetaTrader's `M1`, `H4`, `D1`, `MN1`, or a word.
fn interval(token: &str) -> bool {
    const UNITS: [&str; 16] = [
        "s", "sec", "m", "min", "mins", "minute", "minutes", "h", "hr", "hour", "d", "day", "w", "wk", "mo",
        "month",
    ];
    const WORDS: [&str; 7] = ["daily", "hourly", "minute", "weekly", "monthly", "intraday", "eod"];
    const METATRADER: [&str; 13] =
        ["m1", "m2", "m3", "m5", "m10", "m15", "m30", "h1", "h4", "h12", "d1", "w1", "mn1"];
    let lower = token.to_ascii_lowercase();
    let unit = lower.trim_start_matches(|c: char| c.is_ascii_digit());
    let counted = unit.len() < lower.len() && lower.len() - unit.len() <= 3 && UNITS.contains(&unit);
    counted || WORDS.contains(&lower.as_str()) || METATRADER.contains(&lower.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hive_symbol_uses_symbol_keys_only() {
        let cases = [
            ("d/symbol=AAPL/part-0.parquet", Some("AAPL")),
            ("d/ticker=MSFT/year=2024/month=01/part-0.parquet", Some("MSFT")),
            ("d/year=2024/sym=BTC%2FUSD/x.csv", Some("BTC/USD")),
            ("d/Symbol=BRK.B/x.csv", Some("BRK.B")),
            ("d/year=2024/date=2024-01-01/part-0.parquet", None),
            ("d/symbol=/x.csv", None),
            ("symbol=AAPL.csv", None),
            ("x.csv", None),
        ];
        for (path, wanted) in cases {
            assert_eq!(hive_symbol(Path::new(path)).as_deref(), wanted, "{path}");
        }
        assert_eq!(
            hive(Path::new("a/b=1/c=%zz/x.csv")),
            [("b".to_string(), "1".to_string()), ("c".to_string(), "%zz".to_string())]
        );
    }

    #[test]
    fn dates_are_removed_from_file_names_and_tickers_kept() {
        let cases = [
            ("BTCUSDT-1m-2024-01", "BTCUSDT-1m", Some("1m")),
            ("BTCUSDT-1m-2024-01-05", "BTCUSDT-1m", Some("1m")),
            ("AAPL_20240131", "AAPL", None),
            ("AAPL-2024", "AAPL", None),
            ("AAPL_2020-01-01_2024-12-31", "AAPL", None),
            ("2024-01-05_AAPL", "AAPL", None),
            ("EURUSD_M1_202401020000_202401312359", "EURUSD_M1", Some("M1")),
            ("ES 2024Q1", "ES", None),
            ("ES-2024-Q1", "ES", None),
            ("2024-01", "", None),
            ("ESH2024", "ESH2024", None),
            ("CL_202403", "CL_202403", None),
            ("2002_2024", "2002", None),
            ("BRK.B", "BRK.B", None),
            ("BTC-USD", "BTC-USD", None),
            ("1m", "1m", None),
            ("2024", "2024", None),
            ("2024-13", "2024-13", None),
            ("", "", None),
        ];
        for (stem, name, interval) in cases {
            let parts = split_stem(stem, false);
            assert_eq!((parts.name.as_str(), parts.interval.as_deref()), (name, interval), "{stem}");
        }
    }

    fn named(paths: &[&str]) -> Vec<(String, SymbolSource)> {
        let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
        symbols(&paths).into_iter().map(|(key, source)| (key.unwrap_or_default(), source)).collect()
    }

    #[test]
    fn symbols_of_several_files_are_inferred_from_paths() {
        use SymbolSource::{Directory, FileName, HiveKey, Nothing};
        type Case<'a> = (&'a [&'a str], &'a [(&'a str, SymbolSource)]);
        let cases: [Case<'_>; 9] = [
            (
                &["d/BTCUSDT-1m-2024-01.csv", "d/BTCUSDT-1m-2024-02.csv"],
                &[("BTCUSDT", FileName), ("BTCUSDT", FileName)],
            ),
            (
                &["d/BTCUSDT-1m-2024-01.csv", "d/BTCUSDT-5m-2024-01.csv"],
                &[("BTCUSDT-1m", FileName), ("BTCUSDT-5m", FileName)],
            ),
            (&["AAPL.csv", "MSFT_20240131.csv"], &[("AAPL", FileName), ("MSFT", FileName)]),
            (&["symbol=A/part-0.parquet", "symbol=B/part-0.parquet"], &[("A", HiveKey), ("B", HiveKey)]),
            (
                &["bars/year=2023/part-0.parquet", "bars/year=2024/part-0.parquet"],
                &[("bars", Directory), ("bars", Directory)],
            ),
            (
                &["A/2024-01.csv", "A/2024-02.csv", "B/2024-01.csv"],
                &[("A", Directory), ("A", Directory), ("B", Directory)],
            ),
            (&["d/2023.csv", "d/2024.csv"], &[("d", Directory), ("d", Directory)]),
            (&["d/2330.csv", "d/2024.csv"], &[("2330", FileName), ("2024", FileName)]),
            (&["part-0.parquet", "part-1.parquet"], &[("", Nothing), ("", Nothing)]),
        ];
        for (paths, wanted) in cases {
            let wanted: Vec<(String, SymbolSource)> =
                wanted.iter().map(|(key, from)| (key.to_string(), *from)).collect();
            assert_eq!(named(paths), wanted, "{paths:?}");
        }
    }

    #[test]
    fn directory_symbol_is_its_name_or_hive_value() {
        assert_eq!(directory(Path::new("d/AAPL/x.csv")).as_deref(), Some("AAPL"));
        assert_eq!(directory(Path::new("d/symbol=AAPL/x.csv")).as_deref(), Some("AAPL"));
        assert_eq!(directory(Path::new("x.csv")), None);
    }

    proptest! {
        #[test]
        fn any_path_gets_a_symbol_or_none(stem in "[A-Z0-9_. %=Q-]{0,40}", more in "\\PC{0,20}") {
            let paths = [format!("{stem}/{more}.csv"), format!("{more}/{stem}.csv")];
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            prop_assert_eq!(symbols(&paths).len(), 2);
        }
    }
}
