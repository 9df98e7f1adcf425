//! What may a setting hold, and how is it written? What is printed is read back as the same value.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeSeq as _};

/// The kind of a setting: what its text must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
    /// A device: see [`gpuforge_detect::overrides::PREFERENCE_SYNTAX`]. Whether it is there is asked where devices are chosen.
    Device,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Texts with commas between them; an array of strings in the file.
    List,
}

/// The value of a setting.
///
/// `Display` prints the form that `config set` accepts. JSON is natural: a duration is a number of *seconds*,
/// a size a number of *bytes* or `null` for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Bytes; `None` when there is no limit.
    Size(Option<u64>),
    /// A time span.
    Duration(Duration),
    /// A text, or one of the words of [`Kind::OneOf`].
    Text(String),
    /// Texts in the user's order.
    List(Vec<String>),
}

/// Why a text is no value of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// The kind itself says it all; there is no closer reason.
    #[error("it is of another kind")]
    Kind,
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
        /// What stands after the number, at most 16 characters of it.
        unit: String,
        /// What could stand there.
        units: String,
    },
    /// More than the machine type can hold.
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
    /// A comma inside an item of a list, which the command line could not tell from two items.
    #[error("an item of a list can be neither empty nor contain a comma")]
    Item,
}

/// Units by name with what each is worth in the smallest, which comes first.
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

impl Kind {
    /// Reads a text of this kind, from the command line, the environment or a string in the file.
    pub fn parse(&self, text: &str) -> Result<Value, Reject> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err(Reject::Control);
        }
        if text.is_empty() && *self != Kind::List {
            return Err(Reject::Empty);
        }
        match *self {
            Kind::Bool => boolean(text).map(Value::Bool).ok_or(Reject::Kind),
            Kind::Int { min, max } => {
                let number: i64 = text.parse().map_err(|_| Reject::Kind)?;
                in_range(number, min, max).map(Value::Int)
            }
            Kind::Size => size(text).map(Value::Size),
            Kind::Duration { min, max } => in_range(duration(text)?, min, max).map(Value::Duration),
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::Device => match gpuforge_detect::overrides::malformed(text) {
                Some(why) => Err(Reject::NoDevice(why)),
                None => Ok(Value::Text(device(text))),
            },
            Kind::OneOf(words) => match words.contains(&text) {
                true => Ok(Value::Text(text.to_owned())),
                false => Err(Reject::Kind),
            },
            Kind::List if text.is_empty() => Ok(Value::List(Vec::new())),
            Kind::List => text.split(',').map(item).collect::<Result<_, _>>().map(Value::List),
        }
    }

    /// Reads a value of the settings file, where types are strict: `true` is no text and `"true"` no bool.
    pub(super) fn read_toml(&self, toml: &toml_edit::Value) -> Result<Value, Reject> {
        match (*self, toml) {
            (Kind::Bool, toml_edit::Value::Boolean(b)) => Ok(Value::Bool(*b.value())),
            (Kind::Int { min, max }, toml_edit::Value::Integer(n)) => {
                in_range(*n.value(), min, max).map(Value::Int)
            }
            // `cache_ttl = 0` needs no unit.
            (Kind::Duration { .. }, toml_edit::Value::Integer(n)) if *n.value() == 0 => self.parse("0"),
            (Kind::Duration { .. }, toml_edit::Value::Integer(_)) => Err(Reject::NoUnit(names(SPANS))),
            (Kind::Size, toml_edit::Value::Integer(_)) => Err(Reject::NoUnit(names(SIZES))),
            (Kind::Bool | Kind::Int { .. } | Kind::List, toml_edit::Value::String(_)) => Err(Reject::Kind),
            (_, toml_edit::Value::String(s)) => self.parse(s.value()),
            (Kind::List, toml_edit::Value::Array(array)) => {
                let items = array.iter().map(|v| v.as_str().ok_or(Reject::Kind).and_then(item));
                items.collect::<Result<_, _>>().map(Value::List)
            }
            _ => Err(Reject::Kind),
        }
    }
}

/// What is accepted, to follow "must be": `a duration from 0 to 365d`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("true or false"),
            Kind::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Size => f.write_str("a size such as 8GiB, or none"),
            Kind::Duration { min, max } => {
                write!(f, "a duration from {} to {}", Value::Duration(*min), Value::Duration(*max))
            }
            Kind::Text => f.write_str("a text"),
            Kind::Device => f.write_str(gpuforge_detect::overrides::PREFERENCE_SYNTAX),
            Kind::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Kind::List => f.write_str("a list such as a,b"),
        }
    }
}

impl Value {
    /// The value as it stands behind `=` in the settings file.
    pub fn to_toml(&self) -> String {
        match self {
            Value::Bool(_) | Value::Int(_) => self.to_string(),
            Value::Size(_) | Value::Duration(_) | Value::Text(_) => {
                toml_edit::Value::from(self.to_string()).to_string()
            }
            Value::List(items) => toml_edit::Array::from_iter(items).to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Size(None) => f.write_str("none"),
            Value::Size(Some(bytes)) => whole_units(f, u128::from(*bytes), SIZES),
            Value::Duration(Duration::ZERO) => f.write_str("0"),
            Value::Duration(span) => whole_units(f, span.as_nanos(), SPANS),
            Value::Text(text) => f.write_str(text),
            Value::List(items) => f.write_str(&items.join(",")),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Bool(b) => out.serialize_bool(*b),
            Value::Int(n) => out.serialize_i64(*n),
            Value::Size(bytes) => bytes.serialize(out),
            Value::Duration(span) if span.subsec_nanos() == 0 => out.serialize_u64(span.as_secs()),
            Value::Duration(span) => out.serialize_f64(span.as_secs_f64()),
            Value::Text(text) => out.serialize_str(text),
            Value::List(items) => {
                let mut seq = out.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| seq.serialize_element(item))?;
                seq.end()
            }
        }
    }
}

fn in_range<T: PartialOrd>(value: T, min: T, max: T) -> Result<T, Reject> {
    if value < min || value > max { Err(Reject::OutOfRange) } else { Ok(value) }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Words in one form, so that whoever compares them need not know about letters.
fn device(text: &str) -> String {
    match text.to_ascii_lowercase().as_str() {
        "cpu" | "none" => "cpu".to_owned(),
        word @ ("auto" | "gpu") => word.to_owned(),
        _ => text.to_owned(),
    }
}

fn item(text: &str) -> Result<String, Reject> {
    let text = text.trim();
    match () {
        () if text.is_empty() || text.contains(',') => Err(Reject::Item),
        () if text.chars().any(char::is_control) => Err(Reject::Control),
        () => Ok(text.to_owned()),
    }
}

fn size(text: &str) -> Result<Option<u64>, Reject> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let bytes = quantity(text, SIZES, MORE_SIZES)?;
    match u64::try_from(bytes) {
        Ok(0) => Err(Reject::Zero),
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => Err(Reject::TooLarge),
    }
}

fn duration(text: &str) -> Result<Duration, Reject> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    const SECOND: u128 = 1_000_000_000;
    let nanos = quantity(text, SPANS, &[])?;
    let seconds = u64::try_from(nanos / SECOND).map_err(|_| Reject::TooLarge)?;
    let rest = u32::try_from(nanos % SECOND).map_err(|_| Reject::TooLarge)?;
    Ok(Duration::new(seconds, rest))
}

/// `1.5GiB` in the smallest unit; what is below the smallest unit is cut off. Integers all the way, since f64
/// loses bytes above 8 PiB.
fn quantity(text: &str, units: Units, more: Units) -> Result<u128, Reject> {
    if text.starts_with(['-', '\u{2212}']) {
        return Err(Reject::Negative);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).ok_or(Reject::NoNumber)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.contains('.') {
        return Err(Reject::NoNumber);
    }
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(Reject::NoUnit(names(units)));
    }
    let unknown = || Reject::UnknownUnit { unit: unit.chars().take(16).collect(), units: names(units) };
    let factor =
        units.iter().chain(more).find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(unknown)?.1;
    // Eighteen digits behind the point are finer than any unit here and fit u128 times a factor.
    let part = part.get(..18).unwrap_or(part);
    let scale = 10u128.checked_pow(part.len() as u32).ok_or(Reject::TooLarge)?;
    let parse = |digits: &str| digits.parse::<u128>().map_err(|_| Reject::TooLarge);
    let below = parse(part)?.checked_mul(factor).ok_or(Reject::TooLarge)? / scale;
    let above = parse(whole)?.checked_mul(factor).ok_or(Reject::TooLarge)?;
    above.checked_add(below).ok_or(Reject::TooLarge)
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
        const ANY: Kind = Kind::Duration { min: Duration::ZERO, max: Duration::MAX };
        let span = |text: &str| ANY.parse(text);
        let ok = |nanos: u64| Ok(Value::Duration(Duration::from_nanos(nanos)));
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
            ("18446744073709551615s", Ok(Value::Duration(Duration::from_secs(u64::MAX)))),
            ("18446744073709551616s", Err(Reject::TooLarge)),
            ("340282366920938463463374607431768211456ns", Err(Reject::TooLarge)),
            ("99999999999999999999999999999999999999d", Err(Reject::TooLarge)),
            ("", Err(Reject::Empty)),
            ("-1s", Err(Reject::Negative)),
            ("−1s", Err(Reject::Negative)),
            ("+1s", Err(Reject::NoNumber)),
            ("s", Err(Reject::NoNumber)),
            (".5s", Err(Reject::NoNumber)),
            ("5.s", Err(Reject::NoNumber)),
            ("1.2.3s", Err(Reject::NoNumber)),
            ("１s", Err(Reject::NoNumber)),
            ("٣h", Err(Reject::NoNumber)),
            ("1\0s", Err(Reject::Control)),
        ] {
            assert_eq!(span(text), want, "{text}");
        }
        assert!(matches!(span("60"), Err(Reject::NoUnit(_))));
        assert!(matches!(span("1h30m"), Err(Reject::UnknownUnit { unit, .. }) if unit == "h30m"));

        let size = |text: &str| Kind::Size.parse(text);
        let ok = |bytes: u64| Ok(Value::Size(Some(bytes)));
        for (text, want) in [
            ("none", Ok(Value::Size(None))),
            ("NONE", Ok(Value::Size(None))),
            ("1B", ok(1)),
            ("8GiB", ok(8 << 30)),
            ("8 gib", ok(8 << 30)),
            ("8G", ok(8 << 30)),
            ("8GB", ok(8_000_000_000)),
            ("1.5KiB", ok(1536)),
            ("16777215TiB", ok(16_777_215 << 40)),
            ("18446744073709551615B", ok(u64::MAX)),
            ("16777216TiB", Err(Reject::TooLarge)),
            ("99999999999999GiB", Err(Reject::TooLarge)),
            ("0", Err(Reject::NoUnit("B, KiB, MiB, GiB, TiB".into()))),
            ("0GiB", Err(Reject::Zero)),
            ("0.1B", Err(Reject::Zero)),
            ("-8GiB", Err(Reject::Negative)),
            ("", Err(Reject::Empty)),
            ("∞", Err(Reject::NoNumber)),
        ] {
            assert_eq!(size(text), want, "{text}");
        }
        assert!(matches!(size("8ГБ"), Err(Reject::UnknownUnit { unit, .. }) if unit == "ГБ"));
    }

    #[test]
    fn numbers_words_and_lists_are_checked() {
        let int = Kind::Int { min: -5, max: 5 };
        assert_eq!((int.parse("-5"), int.parse("5")), (Ok(Value::Int(-5)), Ok(Value::Int(5))));
        assert_eq!((int.parse("6"), int.parse("-6")), (Err(Reject::OutOfRange), Err(Reject::OutOfRange)));
        assert_eq!(
            (int.parse("9223372036854775808"), int.parse("1.0")),
            (Err(Reject::Kind), Err(Reject::Kind))
        );
        assert_eq!(int.to_string(), "a whole number from -5 to 5");
        assert_eq!(Kind::List.parse(" a , b c"), Ok(Value::List(vec!["a".into(), "b c".into()])));
        assert_eq!(Kind::List.parse(""), Ok(Value::List(vec![])));
        assert_eq!(Kind::List.parse("a,,b"), Err(Reject::Item));
        assert_eq!(Value::List(vec!["a".into(), "b".into()]).to_toml(), "[\"a\", \"b\"]");
        assert_eq!(Kind::Text.parse("a\nb"), Err(Reject::Control));
        assert_eq!(Kind::OneOf(&["a"]).parse("A"), Err(Reject::Kind));
    }

    #[test]
    fn json_is_natural() {
        let json = |value: Value| serde_json::to_string(&value).unwrap();
        assert_eq!(json(Value::Duration(Duration::from_secs(3600))), "3600");
        assert_eq!(json(Value::Duration(Duration::from_millis(1500))), "1.5");
        assert_eq!(json(Value::Size(Some(1 << 33))), "8589934592");
        assert_eq!(json(Value::Size(None)), "null");
        assert_eq!(json(Value::Bool(true)), "true");
        assert_eq!(json(Value::Int(-3)), "-3");
        assert_eq!(json(Value::List(vec!["a".into()])), "[\"a\"]");
    }

    /// Any value of any kind, with the kind that reads it.
    fn kind_and_value() -> impl Strategy<Value = (Kind, Value)> {
        let word = "[^\\p{Cc}\\s,]{1,8}( [^\\p{Cc}\\s,]{1,8})?";
        let any_int = Kind::Int { min: i64::MIN, max: i64::MAX };
        let any_span = Kind::Duration { min: Duration::ZERO, max: Duration::MAX };
        let words = Kind::OneOf(&["auto", "always", "never"]);
        prop_oneof![
            any::<bool>().prop_map(|b| (Kind::Bool, Value::Bool(b))),
            any::<i64>().prop_map(move |n| (any_int, Value::Int(n))),
            (1..=u64::MAX, 0..64u32)
                .prop_map(|(n, zeros)| (Kind::Size, Value::Size(Some((n << zeros).max(1))))),
            Just((Kind::Size, Value::Size(None))),
            (any::<u64>(), 0..1_000_000_000u32)
                .prop_map(move |(s, n)| (any_span, Value::Duration(Duration::new(s, n)))),
            (0..10_000_000u64).prop_map(move |s| (any_span, Value::Duration(Duration::from_millis(s * 500)))),
            word.prop_map(|text| (Kind::Text, Value::Text(text))),
            prop::sample::select(vec!["auto", "always", "never"])
                .prop_map(move |w| (words, Value::Text(w.into()))),
            prop::collection::vec(word, 0..4).prop_map(|items| (Kind::List, Value::List(items))),
        ]
    }

    proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn what_is_printed_is_read_back((kind, value) in kind_and_value()) {
            prop_assert_eq!(kind.parse(&value.to_string()), Ok(value.clone()));
            let toml: toml_edit::Value = value.to_toml().parse().unwrap();
            prop_assert_eq!(kind.read_toml(&toml), Ok(value));
        }
    }
}
