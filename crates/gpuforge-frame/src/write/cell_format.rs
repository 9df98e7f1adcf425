//! CSV cell formatting: shortest round-trip floats, ISO 8601 times, quoting.

use std::io::Write as _;

/// Fast path for floats with at most four decimals and fewer than fifteen digits, as prices and volumes have: two different
/// decimals of so few digits are never the same double, so this text is the shortest. Returns whether it applied.
pub(crate) fn short_decimal(out: &mut Vec<u8>, value: f64) -> bool {
    const SCALE: f64 = 1e4;
    let size = value.abs();
    let scaled = (size * SCALE).round();
    if scaled >= 1e15 || scaled / SCALE != size {
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let scaled = scaled as u64;
    unsigned(out, scaled / 10_000);
    out.push(b'.');
    let mut decimals = scaled % 10_000;
    let mut unit = 1000;
    loop {
        out.push(b'0' + (decimals / unit) as u8);
        decimals %= unit;
        if decimals == 0 {
            return true;
        }
        unit /= 10;
    }
}

/// Appends an unsigned integer.
fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        used += 1;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
}

/// Appends an integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Appends the date of a day number since 1970-01-01, proleptic Gregorian. Howard Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms": years begin in March, so that the leap day is the last of its year.
pub(crate) fn date(out: &mut Vec<u8>, day: i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_based = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_based + 2) / 5 + 1;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year {
        0..=9999 => digits(out, year as u64, 4),
        // Writing to memory cannot fail.
        _ => drop(write!(out, "{year:+05}")),
    }
    out.push(b'-');
    digits(out, month as u64, 2);
    out.push(b'-');
    digits(out, day_of_month as u64, 2);
}

/// Appends a timestamp with `per_second` units per second. Fractions have 3, 6 or 9 digits, or none.
pub(crate) fn timestamp(out: &mut Vec<u8>, time: i64, per_second: i64) {
    let (seconds, fraction) = (time.div_euclid(per_second), time.rem_euclid(per_second));
    date(out, seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400) as u64;
    for (mark, part) in [(b'T', of_day / 3600), (b':', of_day / 60 % 60), (b':', of_day % 60)] {
        out.push(mark);
        digits(out, part, 2);
    }
    if fraction != 0 {
        let (mut fraction, mut width) = (fraction as u64, per_second.ilog10() as usize);
        while fraction.is_multiple_of(1000) {
            fraction /= 1000;
            width -= 3;
        }
        out.push(b'.');
        digits(out, fraction, width);
    }
}

/// Appends `value` zero-padded to `width` digits.
fn digits(out: &mut Vec<u8>, value: u64, width: usize) {
    let begin = out.len();
    out.resize(begin + width, b'0');
    let mut value = value;
    for digit in out.iter_mut().skip(begin).rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Appends a text, quoted where CSV needs it.
pub(crate) fn quote(out: &mut Vec<u8>, text: &str, delimiter: u8) {
    let special = |byte: &u8| *byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    let padded = text.starts_with(' ') || text.ends_with(' ');
    if !padded && !text.is_empty() && !text.as_bytes().iter().any(special) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn short_decimals_take_the_fast_path() {
        let cases =
            [(0.0, "0.0"), (-0.0, "-0.0"), (123.45, "123.45"), (-100.0, "-100.0"), (0.0001, "0.0001")];
        for (value, expected) in cases.into_iter().chain([(99_999_999_999.5, "99999999999.5")]) {
            assert_eq!(text(|out| assert!(short_decimal(out, value))), expected);
        }
        for value in [0.00012, 1e300, 1e11, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1 + 0.2, 5e-324] {
            assert_eq!(text(|out| assert!(!short_decimal(out, value), "{value}")), "");
        }
        assert_eq!(text(|out| integer(out, i64::MIN)), i64::MIN.to_string());
    }

    #[test]
    fn times_are_iso_8601() {
        assert_eq!(text(|out| date(out, 0)), "1970-01-01");
        assert_eq!(text(|out| date(out, -1)), "1969-12-31");
        assert_eq!(text(|out| date(out, 19_782)), "2024-02-29");
        assert_eq!(text(|out| date(out, 19_783)), "2024-03-01");
        assert_eq!(text(|out| date(out, 2_932_897)), "+10000-01-01");
        assert_eq!(text(|out| timestamp(out, 1_704_205_800, 1)), "2024-01-02T14:30:00");
        assert_eq!(text(|out| timestamp(out, -1, 1000)), "1969-12-31T23:59:59.999");
        assert_eq!(text(|out| timestamp(out, 1_500_000, 1_000_000)), "1970-01-01T00:00:01.500");
        assert_eq!(text(|out| timestamp(out, 1_000, 1_000_000_000)), "1970-01-01T00:00:00.000001");
        assert_eq!(text(|out| timestamp(out, 1, 1_000_000_000)), "1970-01-01T00:00:00.000000001");
    }

    #[test]
    fn special_characters_are_quoted() {
        for (plain, expected) in
            [("BRK.B", "BRK.B"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("", "\"\"")]
        {
            assert_eq!(text(|out| quote(out, plain, b',')), expected);
        }
        assert_eq!(text(|out| quote(out, "a,b", b'\t')), "a,b");
    }

    proptest! {
        #[test]
        fn short_decimals_round_trip_and_are_shortest(cents in -10_000_000_000i64..10_000_000_000) {
            for value in [cents as f64 / 100.0, cents as f64 / 1e4, cents as f64] {
                let written = text(|out| assert!(short_decimal(out, value)));
                prop_assert_eq!(written.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()));
                prop_assert_eq!(written, format!("{value:?}"));
            }
        }
    }
}
