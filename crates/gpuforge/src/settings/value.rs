//! Setting values: kinds, parsing, printing. Parsing the printed form gives the same value.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeSeq as _};

/// The kind of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// `true` or `false`; the command line and the environment may also say on/off, yes/no, 1/0.
    Bool,
    /// A whole number, both ends included.
    Int {
        /// Smallest accepted.
        min: i64,
        /// Largest accepted.
        max: i64,
    },
    /// A number of bytes such as `8GiB`, or `none`. KiB and K count by 1024, KB by 1000.
    Size,
    /// A time span such as `1h`, `90s` or `0`, both ends included.
    Duration {
        /// Shortest accepted.
        min: Duration,
        /// Longest accepted.
        max: Duration,
    },
    /// Any one-line text that is not empty.
    Text,
    /// A device: see [`gpuforge_detect::overrides::PREFERENCE_SYNTAX`]. Existence is checked when a device is chosen.
    Device,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Comma-separated texts; an array of strings in the file.
    List,
}

/// The value of a setting.
///
/// `Display` prints the form that `config set` accepts. JSON is natural: a duration is a number of *seconds*,
/// a size a number of *bytes* or `null` for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Bytes; `None` when there is no limit.
    Size(Option<u64>),
    /// A time span.
    Duration(Duration),
    /// A text, or one of the words of [`SettingKind::OneOf`].
    Text(String),
    /// Texts in the user's order.
    List(Vec<String>),
}

/// Why a text is not a value of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Of another kind; no closer reason.
    #[error("it is of another kind")]
    WrongKind,
    /// Nothing but white space.
    #[error("it is empty")]
    Empty,
    /// A minus sign in front.
    #[error("it is negative")]
    Negative,
    /// A quantity without a number in front.
    #[error("it does not begin with a number")]
    NoNumber,
    /// A bare number, whose unit would have to be guessed.
    #[error("the unit is missing, use one of {0}")]
    NoUnit(String),
    /// A unit that is in no table.
    #[error("`{unit}` is not a unit, use one of {units}")]
    UnknownUnit {
        /// The text after the number, at most 16 characters.
        unit: String,
        /// The valid units.
        units: String,
    },
    /// Integer overflow.
    #[error("it is too large")]
    TooLarge,
    /// Outside the limits of the setting.
    #[error("it is out of range")]
    OutOfRange,
    /// Zero bytes: some tools mean "no limit" by it, others "nothing at all".
    #[error("zero is ambiguous, write none for no limit")]
    Zero,
    /// A line break or another control character.
    #[error("it contains a control character")]
    Control,
    /// A text that names no device of any machine.
    #[error("{0}")]
    NoDevice(&'static str),
    /// A comma inside a list item, which the command line could not distinguish from two items.
    #[error("an item of a list can be neither empty nor contain a comma")]
    Item,
}

/// Units with their factor in the smallest, which comes first.
type Units = &'static [(&'static str, u128)];

/// Sizes as they are printed and as errors name them.
const SIZES: Units = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
/// Other sizes that are read. K, M, G, T are binary as for docker, systemd and Slurm.
const MORE_SIZES: Units = &[
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// In nanoseconds. `m` is minutes: months do not occur in settings.
const SPANS: Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

impl SettingKind {
    /// Parses a text from the command line, the environment or a string in the file.
    pub fn parse(&self, text: &str) -> Result<SettingValue, ValueError> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err(ValueError::Control);
        }
        if text.is_empty() && *self != SettingKind::List {
            return Err(ValueError::Empty);
        }
        match *self {
            SettingKind::Bool => boolean(text).map(SettingValue::Bool).ok_or(ValueError::WrongKind),
            SettingKind::Int { min, max } => {
                let number: i64 = text.parse().map_err(|_| ValueError::WrongKind)?;
                in_range(number, min, max).map(SettingValue::Int)
            }
            SettingKind::Size => size(text).map(SettingValue::Size),
            SettingKind::Duration { min, max } => {
                in_range(duration(text)?, min, max).map(SettingValue::Duration)
            }
            SettingKind::Text => Ok(SettingValue::Text(text.to_owned())),
            SettingKind::Device => match gpuforge_detect::overrides::malformed(text) {
                Some(why) => Err(ValueError::NoDevice(why)),
                None => Ok(SettingValue::Text(device(text))),
            },
            SettingKind::OneOf(words) => match words.contains(&text) {
                true => Ok(SettingValue::Text(text.to_owned())),
                false => Err(ValueError::WrongKind),
            },
            SettingKind::List if text.is_empty() => Ok(SettingValue::List(Vec::new())),
            SettingKind::List => text.split(',').map(item).collect::<Result<_, _>>().map(SettingValue::List),
        }
    }

    /// Reads a TOML value, where types are strict: `true` is not a text and `"true"` not a bool.
    pub(super) fn read_toml(&self, toml: &toml_edit::Value) -> Result<SettingValue, ValueError> {
        match (*self, toml) {
            (SettingKind::Bool, toml_edit::Value::Boolean(b)) => Ok(SettingValue::Bool(*b.value())),
            (SettingKind::Int { min, max }, toml_edit::Value::Integer(n)) => {
                in_range(*n.value(), min, max).map(SettingValue::Int)
            }
            // `cache_ttl = 0` needs no unit.
            (SettingKind::Duration { .. }, toml_edit::Value::Integer(n)) if *n.value() == 0 => {
                self.parse("0")
            }
            (SettingKind::Duration { .. }, toml_edit::Value::Integer(_)) => {
                Err(ValueError::NoUnit(names(SPANS)))
            }
            (SettingKind::Size, toml_edit::Value::Integer(_)) => Err(ValueError::NoUnit(names(SIZES))),
            (
                SettingKind::Bool | SettingKind::Int { .. } | SettingKind::List,
                toml_edit::Value::String(_),
            ) => Err(ValueError::WrongKind),
            (_, toml_edit::Value::String(s)) => self.parse(s.value()),
            (SettingKind::List, toml_edit::Value::Array(array)) => {
                let items = array.iter().map(|v| v.as_str().ok_or(ValueError::WrongKind).and_then(item));
                items.collect::<Result<_, _>>().map(SettingValue::List)
            }
            _ => Err(ValueError::WrongKind),
        }
    }
}

/// The accepted values, to follow "must be": `a duration from 0 to 365d`.
impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingKind::Bool => f.write_str("true or false"),
            SettingKind::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            SettingKind::Size => f.write_str("a size such as 8GiB, or none"),
            SettingKind::Duration { min, max } => {
                write!(
                    f,
                    "a duration from {} to {}",
                    SettingValue::Duration(*min),
                    SettingValue::Duration(*max)
                )
            }
            SettingKind::Text => f.write_str("a text"),
            SettingKind::Device => f.write_str(gpuforge_detect::overrides::PREFERENCE_SYNTAX),
            SettingKind::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            SettingKind::List => f.write_str("a list such as a,b"),
        }
    }
}

impl SettingValue {
    /// The value as it stands behind `=` in the settings file.
    pub fn to_toml(&self) -> String {
        match self {
            SettingValue::Bool(_) | SettingValue::Int(_) => self.to_string(),
            SettingValue::Size(_) | SettingValue::Duration(_) | SettingValue::Text(_) => {
                toml_edit::Value::from(self.to_string()).to_string()
            }
            SettingValue::List(items) => toml_edit::Array::from_iter(items).to_string(),
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Bool(b) => write!(f, "{b}"),
            SettingValue::Int(n) => write!(f, "{n}"),
            SettingValue::Size(None) => f.write_str("none"),
            SettingValue::Size(Some(bytes)) => whole_units(f, u128::from(*bytes), SIZES),
            SettingValue::Duration(Duration::ZERO) => f.write_str("0"),
            SettingValue::Duration(span) => whole_units(f, span.as_nanos(), SPANS),
            SettingValue::Text(text) => f.write_str(text),
            SettingValue::List(items) => f.write_str(&items.join(",")),
        }
    }
}

impl Serialize for SettingValue {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            SettingValue::Bool(b) => out.serialize_bool(*b),
            SettingValue::Int(n) => out.serialize_i64(*n),
            SettingValue::Size(bytes) => bytes.serialize(out),
            SettingValue::Duration(span) if span.subsec_nanos() == 0 => out.serialize_u64(span.as_secs()),
            SettingValue::Duration(span) => out.serialize_f64(span.as_secs_f64()),
            SettingValue::Text(text) => out.serialize_str(text),
            SettingValue::List(items) => {
                let mut seq = out.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| seq.serialize_element(item))?;
                seq.end()
            }
        }
    }
}

fn in_range<T: PartialOrd>(value: T, min: T, max: T) -> Result<T, ValueError> {
    if value < min || value > max { Err(ValueError::OutOfRange) } else { Ok(value) }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Normalises the case of keywords.
fn device(text: &str) -> String {
    match text.to_ascii_lowercase().as_str() {
        "cpu" | "none" => "cpu".to_owned(),
        word @ ("auto" | "gpu") => word.to_owned(),
        _ => text.to_owned(),
    }
}

fn item(text: &str) -> Result<String, ValueError> {
    let text = text.trim();
    match () {
        () if text.is_empty() || text.contains(',') => Err(ValueError::Item),
        () if text.chars().any(char::is_control) => Err(ValueError::Control),
        () => Ok(text.to_owned()),
    }
}

fn size(text: &str) -> Result<Option<u64>, ValueError> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let bytes = quantity(text, SIZES, MORE_SIZES)?;
    match u64::try_from(bytes) {
        Ok(0) => Err(ValueError::Zero),
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => Err(ValueError::TooLarge),
    }
}

fn duration(text: &str) -> Result<Duration, ValueError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    const SECOND: u128 = 1_000_000_000;
    let nanos = quantity(text, SPANS, &[])?;
    let seconds = u64::try_from(nanos / SECOND).map_err(|_| ValueError::TooLarge)?;
    let rest = u32::try_from(nanos % SECOND).map_err(|_| ValueError::TooLarge)?;
    Ok(Duration::new(seconds, rest))
}

/// Parses `1.5GiB` into the smallest unit, truncated. Integer arithmetic: f64 loses bytes above 8 PiB.
fn quantity(text: &str, units: Units, more: Units) -> Result<u128, ValueError> {
    if text.starts_with(['-', '\u{2212}']) {
        return Err(ValueError::Negative);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).ok_or(ValueError::NoNumber)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.contains('.') {
        return Err(ValueError::NoNumber);
    }
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(ValueError::NoUnit(names(units)));
    }
    let unknown = || ValueError::UnknownUnit { unit: unit.chars().take(16).collect(), units: names(units) };
    let factor =
        units.iter().chain(more).find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(unknown)?.1;
    // Eighteen digits behind the point are finer than any unit here and fit u128 times a factor.
    let part = part.get(..18).unwrap_or(part);
    let scale = 10u128.checked_pow(part.len() as u32).ok_or(ValueError::TooLarge)?;
    let parse = |digits: &str| digits.parse::<u128>().map_err(|_| ValueError::TooLarge);
    let below = parse(part)?.checked_mul(factor).ok_or(ValueError::TooLarge)? / scale;
    let above = parse(whole)?.checked_mul(factor).ok_or(ValueError::TooLarge)?;
    above.checked_add(below).ok_or(ValueError::TooLarge)
}

/// Prints the largest unit that divides the amount, so that nothing is rounded: 5400 s are `90m`, not `1.5h`.
fn whole_units(f: &mut fmt::Formatter<'_>, amount: u128, units: Units) -> fmt::Result {
    let fits = units.iter().rev().find(|(_, factor)| amount.is_multiple_of(*factor) && amount >= *factor);
    match fits.or(units.first()) {
        Some((name, factor)) => write!(f, "{}{name}", amount / factor),
        None => write!(f, "{amount}"),
    }
}

fn names(units: Units) -> String {
    units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_and_sizes_are_read_exactly() {
        const ANY: SettingKind = SettingKind::Duration { min: Duration::ZERO, max: Duration::MAX };
        let span = |text: &str| ANY.parse(text);
        let ok = |nanos: u64| Ok(SettingValue::Duration(Duration::from_nanos(nanos)));
        for (text, want) in [
            ("0", ok(0)),
            ("0s", ok(0)),
            ("1ns", ok(1)),
            ("2us", ok(2_000)),
            ("250ms", ok(250_000_000)),
            (" 90 s ", ok(90_000_000_000)),
            ("1.5H", ok(5_400_000_000_000)),
            ("0.0000000019s", ok(1)),
            ("2d", ok(172_800_000_000_000)),
            ("18446744073709551615s", Ok(SettingValue::Duration(Duration::from_secs(u64::MAX)))),
            ("18446744073709551616s", Err(ValueError::TooLarge)),
            ("340282366920938463463374607431768211456ns", Err(ValueError::TooLarge)),
            ("99999999999999999999999999999999999999d", Err(ValueError::TooLarge)),
            ("", Err(ValueError::Empty)),
            ("-1s", Err(ValueError::Negative)),
            ("−1s", Err(ValueError::Negative)),
            ("+1s", Err(ValueError::NoNumber)),
            ("s", Err(ValueError::NoNumber)),
            (".5s", Err(ValueError::NoNumber)),
            ("5.s", Err(ValueError::NoNumber)),
            ("1.2.3s", Err(ValueError::NoNumber)),
            ("１s", Err(ValueError::NoNumber)),
            ("٣h", Err(ValueError::NoNumber)),
            ("1\0s", Err(ValueError::Control)),
        ] {
            assert_eq!(span(text), want, "{text}");
        }
        assert!(matches!(span("60"), Err(ValueError::NoUnit(_))));
        assert!(matches!(span("1h30m"), Err(ValueError::UnknownUnit { unit, .. }) if unit == "h30m"));

        let size = |text: &str| SettingKind::Size.parse(text);
        let ok = |bytes: u64| Ok(SettingValue::Size(Some(bytes)));
        for (text, want) in [
            ("none", Ok(SettingValue::Size(None))),
            ("NONE", Ok(SettingValue::Size(None))),
            ("1B", ok(1)),
            ("8GiB", ok(8 << 30)),
            ("8 gib", ok(8 << 30)),
            ("8G", ok(8 << 30)),
            ("8GB", ok(8_000_000_000)),
            ("1.5KiB", ok(1536)),
            ("16777215TiB", ok(16_777_215 << 40)),
            ("18446744073709551615B", ok(u64::MAX)),
            ("16777216TiB", Err(ValueError::TooLarge)),
            ("99999999999999GiB", Err(ValueError::TooLarge)),
            ("0", Err(ValueError::NoUnit("B, KiB, MiB, GiB, TiB".into()))),
            ("0GiB", Err(ValueError::Zero)),
            ("0.1B", Err(ValueError::Zero)),
            ("-8GiB", Err(ValueError::Negative)),
            ("", Err(ValueError::Empty)),
            ("∞", Err(ValueError::NoNumber)),
        ] {
            assert_eq!(size(text), want, "{text}");
        }
        assert!(matches!(size("8ГБ"), Err(ValueError::UnknownUnit { unit, .. }) if unit == "ГБ"));
    }

    #[test]
    fn numbers_words_and_lists_are_checked() {
        let int = SettingKind::Int { min: -5, max: 5 };
        assert_eq!((int.parse("-5"), int.parse("5")), (Ok(SettingValue::Int(-5)), Ok(SettingValue::Int(5))));
        assert_eq!(
            (int.parse("6"), int.parse("-6")),
            (Err(ValueError::OutOfRange), Err(ValueError::OutOfRange))
        );
        assert_eq!(
            (int.parse("9223372036854775808"), int.parse("1.0")),
            (Err(ValueError::WrongKind), Err(ValueError::WrongKind))
        );
        assert_eq!(int.to_string(), "a whole number from -5 to 5");
        assert_eq!(
            SettingKind::List.parse(" a , b c"),
            Ok(SettingValue::List(vec!["a".into(), "b c".into()]))
        );
        assert_eq!(SettingKind::List.parse(""), Ok(SettingValue::List(vec![])));
        assert_eq!(SettingKind::List.parse("a,,b"), Err(ValueError::Item));
        assert_eq!(SettingValue::List(vec!["a".into(), "b".into()]).to_toml(), "[\"a\", \"b\"]");
        assert_eq!(SettingKind::Text.parse("a\nb"), Err(ValueError::Control));
        assert_eq!(SettingKind::OneOf(&["a"]).parse("A"), Err(ValueError::WrongKind));
    }

    #[test]
    fn json_uses_natural_types() {
        let json = |value: SettingValue| serde_json::to_string(&value).unwrap();
        assert_eq!(json(SettingValue::Duration(Duration::from_secs(3600))), "3600");
        assert_eq!(json(SettingValue::Duration(Duration::from_millis(1500))), "1.5");
        assert_eq!(json(SettingValue::Size(Some(1 << 33))), "8589934592");
        assert_eq!(json(SettingValue::Size(None)), "null");
        assert_eq!(json(SettingValue::Bool(true)), "true");
        assert_eq!(json(SettingValue::Int(-3)), "-3");
        assert_eq!(json(SettingValue::List(vec!["a".into()])), "[\"a\"]");
    }

    /// Any value of any kind, with the kind that reads it.
    fn kind_and_value() -> impl Strategy<Value = (SettingKind, SettingValue)> {
        let word = "[^\\p{Cc}\\s,]{1,8}( [^\\p{Cc}\\s,]{1,8})?";
        let any_int = SettingKind::Int { min: i64::MIN, max: i64::MAX };
        let any_span = SettingKind::Duration { min: Duration::ZERO, max: Duration::MAX };
        let words = SettingKind::OneOf(&["auto", "always", "never"]);
        prop_oneof![
            any::<bool>().prop_map(|b| (SettingKind::Bool, SettingValue::Bool(b))),
            any::<i64>().prop_map(move |n| (any_int, SettingValue::Int(n))),
            (1..=u64::MAX, 0..64u32)
                .prop_map(|(n, zeros)| (SettingKind::Size, SettingValue::Size(Some((n << zeros).max(1))))),
            Just((SettingKind::Size, SettingValue::Size(None))),
            (any::<u64>(), 0..1_000_000_000u32)
                .prop_map(move |(s, n)| (any_span, SettingValue::Duration(Duration::new(s, n)))),
            (0..10_000_000u64)
                .prop_map(move |s| (any_span, SettingValue::Duration(Duration::from_millis(s * 500)))),
            word.prop_map(|text| (SettingKind::Text, SettingValue::Text(text))),
            prop::sample::select(vec!["auto", "always", "never"])
                .prop_map(move |w| (words, SettingValue::Text(w.into()))),
            prop::collection::vec(word, 0..4)
                .prop_map(|items| (SettingKind::List, SettingValue::List(items))),
        ]
    }

    proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn printed_values_parse_back((kind, value) in kind_and_value()) {
            prop_assert_eq!(kind.parse(&value.to_string()), Ok(value.clone()));
            let toml: toml_edit::Value = value.to_toml().parse().unwrap();
            prop_assert_eq!(kind.read_toml(&toml), Ok(value));
        }
    }
}
