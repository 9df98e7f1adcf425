//! Text formatting: sizes, ages, counts, plurals, escaping of control characters, word wrap to the terminal width.

use std::time::Duration;

/// `12.0 GiB`, `512 MiB`, `17 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if *unit >= 1 << 30 => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        Some((name, unit)) => format!("{:.0} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// `3 s`, `12 min`, `5 h`, `2 d`.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        s @ 0..=89 => format!("{s} s"),
        s @ 90..=5399 => format!("{} min", s / 60),
        s @ 5400..=129_599 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

/// `1 row`, `2 rows`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Escapes control characters in text that comes from a file: they could move the cursor or change colours.
pub(crate) fn escape_control(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// A large number with an SI prefix: `3.1 M`.
pub(crate) fn count(x: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(size, _)| x >= *size) {
        Some((size, unit)) if x / size < 10.0 => format!("{:.1} {unit}", x / size),
        Some((size, unit)) => format!("{:.0} {unit}", x / size),
        None => format!("{x:.0}"),
    }
}

/// Width of the terminal in columns; 80 without one.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(w, _)| usize::from(w.0));
    columns.or_else(terminal).unwrap_or(80).clamp(40, 120)
}

/// Word wrap to `width` columns, each line indented; a longer word gets a line of its own.
pub(crate) fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

/// Items separated by middle dots, wrapped between items where possible.
pub(crate) fn dotted(parts: &[String], indent: usize, width: usize) -> String {
    // Spaces inside an item become non-breaking until the lines are wrapped.
    const NON_BREAKING: char = '\u{a0}';
    let joined: Vec<String> = parts.iter().map(|p| p.replace(' ', &NON_BREAKING.to_string())).collect();
    wrap(&joined.join(&format!("{NON_BREAKING}· ")), indent, width).replace(NON_BREAKING, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_have_units() {
        assert_eq!(
            [size(0), size(1536 << 10), size(24 << 30), size(3 << 40)],
            ["0 B", "2 MiB", "24.0 GiB", "3.0 TiB"]
        );
        assert_eq!([plural(0, "row"), plural(1, "row"), plural(2, "row")], ["0 rows", "1 row", "2 rows"]);
        assert_eq!([age(Duration::from_secs(5)), age(Duration::from_secs(600))], ["5 s", "10 min"]);
    }

    #[test]
    fn wrapped_lines_fit_and_items_stay_whole() {
        let parts = ["discrete".to_owned(), "24.0 GiB".to_owned(), "driver 580.95.05".to_owned()];
        assert_eq!(dotted(&parts, 2, 40), "  discrete · 24.0 GiB · driver 580.95.05\n");
        assert_eq!(dotted(&parts, 2, 25), "  discrete · 24.0 GiB ·\n  driver 580.95.05\n");
        assert_eq!(wrap("", 2, 40), "\n");
    }
}
