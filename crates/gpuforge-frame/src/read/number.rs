//! Is this text a number? A short decimal is converted here, anything else by the standard library; same bits either way.

/// Cells that say that there is no value, besides the empty one, in any case.
const NOTHING: [&str; 6] = ["nan", "null", "none", "na", "n/a", "#n/a"];

/// Powers of ten that a 64-bit float holds exactly.
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];

/// The value of a cell: NaN where it is empty or says so, `None` where it is no number.
pub(super) fn number(cell: &[u8]) -> Option<f64> {
    decimal(cell).or_else(|| general(cell.trim_ascii()))
}

/// `-123.4500`: at most 18 characters and a mantissa below 2^53. Both that and the power of ten are exact, so that one
/// division rounds once, to what a full conversion gives (Clinger 1990, "How to read floating point numbers accurately").
fn decimal(cell: &[u8]) -> Option<f64> {
    let (negative, digits) = match cell {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, cell),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let (mut mantissa, mut behind, mut point) = (0_u64, 0_usize, false);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa * 10 + u64::from(digit);
            behind += usize::from(point);
        } else if *byte == b'.' && !point && digits.len() > 1 {
            point = true;
        } else {
            return None;
        }
    }
    if mantissa > 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / POWERS.get(behind)?;
    Some(if negative { -value } else { value })
}

/// Everything else: exponents, many digits, infinities, and words for nothing.
fn general(cell: &[u8]) -> Option<f64> {
    if cell.is_empty() {
        return Some(f64::NAN);
    }
    let text = std::str::from_utf8(cell).ok()?;
    if NOTHING.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(f64::NAN);
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_that_say_nothing_are_nan_and_words_are_no_numbers() {
        for cell in ["", "  ", "NaN", "null", "N/A", "none"] {
            assert!(number(cell.as_bytes()).unwrap().is_nan(), "{cell:?}");
        }
        for cell in ["abc", ".", "-", "1.2.3", "1,5", "--1", "12a", "0x10", "\u{663}"] {
            assert_eq!(number(cell.as_bytes()), None, "{cell:?}");
        }
        assert_eq!(number(b"\xff\xfe"), None);
        assert_eq!(number(b" -1.5 "), Some(-1.5));
        assert_eq!(number(b"+2e3"), Some(2000.0));
    }

    proptest! {
        #[test]
        fn decimals_have_the_bits_of_a_full_conversion(text in "-?[0-9]{0,12}\\.?[0-9]{0,12}") {
            let plain = text.parse::<f64>().ok().map(f64::to_bits);
            prop_assert!(text.is_empty() || number(text.as_bytes()).map(f64::to_bits) == plain, "{text}");
        }

        #[test]
        fn every_float_comes_back(value in any::<f64>()) {
            prop_assume!(!value.is_nan());
            prop_assert_eq!(number(value.to_string().as_bytes()).map(f64::to_bits), Some(value.to_bits()));
        }
    }
}
