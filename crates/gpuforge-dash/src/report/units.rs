//! Formatting of times, sizes, percentages and counts: three significant digits and a unit.

/// `812 ns`, `1.20 ms`, `3.04 s`, `5 min 12 s`.
pub fn time(ns: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
    let x = ns as f64;
    if x >= 120e9 {
        let seconds = ns / 1_000_000_000;
        return match seconds {
            0..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
            _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        };
    }
    match UNITS.iter().find(|(_, unit)| x >= *unit) {
        Some((name, unit)) => format!("{} {name}", three_digits(x / unit)),
        None => format!("{ns} ns"),
    }
}

/// `17 B`, `3.20 KiB`, `12.0 GiB`.
pub fn size(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let steps = |x: &f64| Some(x / 1024.0).filter(|_| *x >= 1024.0);
    let (at, x) =
        std::iter::successors(Some(bytes), steps).take(UNITS.len()).enumerate().last().unwrap_or((0, bytes));
    match at {
        0 => format!("{x:.0} B"),
        _ => format!("{} {}", three_digits(x), UNITS.get(at).unwrap_or(&"B")),
    }
}

/// `12 %`, `1.2 %`, `<0.1 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p.abs() >= 10.0 || p == 0.0 => format!("{p:.0} %"),
        p if p.abs() >= 0.1 => format!("{p:.1} %"),
        _ => "<0.1 %".to_owned(),
    }
}

/// `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits.
fn three_digits(x: f64) -> String {
    match x {
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_unit() {
        let times = [
            0,
            999,
            1_000,
            12_345,
            1_234_567,
            99_960_000,
            59_990_000_000,
            312_000_000_000,
            7_260_000_000_000,
        ];
        let want = [
            "0 ns",
            "999 ns",
            "1.00 µs",
            "12.3 µs",
            "1.23 ms",
            "100 ms",
            "60.0 s",
            "5 min 12 s",
            "2 h 1 min",
        ];
        assert_eq!(times.map(time), want);
        assert_eq!(time(u64::MAX), "5124095 h 34 min");
        let sizes = [0.0, 1023.0, 1024.0, 1e9, 1e30];
        assert_eq!(sizes.map(size)[..4], ["0 B", "1023 B", "1.00 KiB", "954 MiB"]);
        assert!(size(1e30).ends_with(" TiB"));
        assert_eq!(
            [0.0, 0.00001, 0.0123, 0.71, 3.0].map(percent),
            ["0 %", "<0.1 %", "1.2 %", "71 %", "300 %"]
        );
        assert_eq!([7, 1234, 1_234_567].map(count), ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
    }
}
