//! Float parsing: fast path for short decimals (Clinger), the standard library for the rest; same bits either way.

/// Spellings of a missing value besides the empty cell, case-insensitive.
const MISSING: [&str; 6] = ["nan", "null", "none", "na", "n/a", "#n/a"];

/// Powers of ten that f64 represents exactly.
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];

/// The value of a cell: NaN where it is empty or a missing-value spelling, `None` where it is not a number.
pub(super) fn parse_float(cell: &[u8]) -> Option<f64> {
    short_decimal(cell).or_else(|| general(cell.trim_ascii()))
}

/// Fast path, `-123.4500`: at most 18 characters and a mantissa below 2^53. Mantissa and power of ten are exact, so one
/// division rounds once, correctly (Clinger 1990, "How to read floating point numbers accurately").
fn short_decimal(cell: &[u8]) -> Option<f64> {
    let (negative, digits) = match cell {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, cell),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let (mut mantissa, mut decimals, mut point) = (0_u64, 0_usize, false);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa * 10 + u64::from(digit);
            decimals += usize::from(point);
        } else if *byte == b'.' && !point && digits.len() > 1 {
            point = true;
        } else {
            return None;
        }
    }
    if mantissa > 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / POWERS.get(decimals)?;
    Some(if negative { -value } else { value })
}

/// Slow path: exponents, many digits, infinities, missing-value spellings.
fn general(cell: &[u8]) -> Option<f64> {
    if cell.is_empty() {
        return Some(f64::NAN);
    }
    let text = std::str::from_utf8(cell).ok()?;
    if MISSING.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(f64::NAN);
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn missing_values_are_nan_and_words_are_rejected() {
        for cell in ["", "  ", "NaN", "null", "N/A", "none"] {
            assert!(parse_float(cell.as_bytes()).unwrap().is_nan(), "{cell:?}");
        }
        for cell in ["abc", ".", "-", "1.2.3", "1,5", "--1", "12a", "0x10", "\u{663}"] {
            assert_eq!(parse_float(cell.as_bytes()), None, "{cell:?}");
        }
        assert_eq!(parse_float(b"\xff\xfe"), None);
        assert_eq!(parse_float(b" -1.5 "), Some(-1.5));
        assert_eq!(parse_float(b"+2e3"), Some(2000.0));
    }

    proptest! {
        #[test]
        fn fast_path_matches_the_standard_library(text in "-?[0-9]{0,12}\\.?[0-9]{0,12}") {
            let plain = text.parse::<f64>().ok().map(f64::to_bits);
            prop_assert!(text.is_empty() || parse_float(text.as_bytes()).map(f64::to_bits) == plain, "{text}");
        }

        #[test]
        fn every_float_round_trips(value in any::<f64>()) {
            prop_assume!(!value.is_nan());
            prop_assert_eq!(parse_float(value.to_string().as_bytes()).map(f64::to_bits), Some(value.to_bits()));
        }
    }
}
