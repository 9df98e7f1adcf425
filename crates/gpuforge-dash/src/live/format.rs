//! Compact number formatting: sizes, times, durations, rates, bars.

/// `12.0 GiB`, `512 MiB`, `17 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if *unit >= 1 << 30 => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        Some((name, unit)) => format!("{:.0} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// `38 ns`, `1.5 ms`, `2.0 s`.
pub fn time(ns: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
    match UNITS.iter().find(|(_, unit)| ns >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", ns / unit),
        None => format!("{ns:.0} ns"),
    }
}

/// `3 s`, `12 min`, `5 h`, `2 d`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 129_600.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// `3.1 M`.
pub fn count(x: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];
    match UNITS.iter().find(|(_, unit)| x >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", x / unit),
        None if x < 10.0 && x.fract() > 0.0 => format!("{x:.1}"),
        None => format!("{x:.0}"),
    }
}

/// A value of any sign and size: `-0.25`, `71.5`, `3.1 M`.
pub fn level(x: f64) -> String {
    let sign = if x < 0.0 { "-" } else { "" };
    match x.abs() {
        small if small > 0.0 && small < 0.01 => format!("{x:.1e}"),
        x if x < 10.0 && x.fract() > 0.0 => format!("{sign}{x:.2}"),
        x if x < 1e3 && x.fract() > 0.0 => format!("{sign}{x:.1}"),
        x if x >= 1e15 => format!("{sign}{x:.1e}"),
        x => format!("{sign}{}", count(x)),
    }
}

/// A bar of `cells` characters, filled to a fraction.
pub fn bar(share: f64, cells: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * cells as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "·".repeat(cells.saturating_sub(full)))
}

/// Truncates to `max` characters with an ellipsis.
pub fn truncate(text: &str, max: usize) -> String {
    match text.chars().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compact() {
        assert_eq!([size(0), size(1536 << 10), size(24 << 30)], ["0 B", "2 MiB", "24.0 GiB"]);
        assert_eq!([time(38.0), time(1.5e6), time(2e9)], ["38 ns", "1.5 ms", "2.0 s"]);
        assert_eq!(
            [duration(3.2), duration(600.0), duration(7200.0), duration(2e5)],
            ["3 s", "10 min", "2 h", "2 d"]
        );
        assert_eq!(
            [count(0.0), count(0.5), count(1.0), count(12.5), count(3.12e6)],
            ["0", "0.5", "1", "12", "3.1 M"]
        );
        assert_eq!(
            [level(0.0), level(-0.25), level(71.5), level(-3.12e6), level(4e-5), level(7.0), level(1e300)],
            ["0", "-0.25", "71.5", "-3.1 M", "4.0e-5", "7", "1.0e300"]
        );
        assert_eq!([bar(0.5, 4), bar(7.0, 2), bar(f64::NAN, 2)], ["██··", "██", "··"]);
        assert_eq!([truncate("abc", 3), truncate("abcd", 3)], ["abc", "ab…"]);
    }
}
