//! Crossover chart as terminal text: log-log axes, a table where the terminal is too narrow.

use std::fmt::Write as _;

use super::{Panel, bounds, count, log_position, time};

/// Narrower terminals get a table.
const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 100;
const HEIGHT: usize = 12;
/// Width of the time axis labels.
const MARGIN: usize = 9;
/// Marker and colour per backend.
const MARKERS: [(char, &str); 4] =
    [('o', "\x1b[36m"), ('+', "\x1b[33m"), ('x', "\x1b[35m"), ('#', "\x1b[32m")];
const RESET: &str = "\x1b[0m";

/// Draws one panel in `width` columns.
pub fn terminal(panel: &Panel, width: usize, colour: bool) -> String {
    let mut out = format!("{}: {}\n", panel.title, panel.summary());
    match bounds(&panel.lines) {
        Some(ends) if width >= MIN_WIDTH => draw(&mut out, panel, ends, width.min(MAX_WIDTH), colour),
        _ => table(&mut out, panel),
    }
    out
}

fn paint(text: &str, line: usize, colour: bool) -> String {
    match MARKERS.get(line % MARKERS.len()) {
        Some((_, on)) if colour => format!("{on}{text}{RESET}"),
        _ => text.to_owned(),
    }
}

fn marker(line: usize) -> char {
    MARKERS.get(line % MARKERS.len()).map_or('o', |s| s.0)
}

type Ends = ((f64, f64), (f64, f64));

fn draw(out: &mut String, panel: &Panel, (sizes, times): Ends, width: usize, colour: bool) {
    let columns = width - MARGIN - 2;
    let column = |units: f64| (log_position(sizes, units) * (columns - 1) as f64).round() as usize;
    let row = |ns: f64| ((1.0 - log_position(times, ns)) * (HEIGHT - 1) as f64).round() as usize;
    let mut cells = vec![vec![None; columns]; HEIGHT];
    let crossings: Vec<usize> = panel.crossings.iter().map(|at| column(*at as f64)).collect();
    for (i, line) in panel.lines.iter().enumerate() {
        for x in 0..columns {
            let share = x as f64 / (columns - 1).max(1) as f64;
            let units = sizes.0 * (sizes.1 / sizes.0).powf(share);
            let Some(ns) = interpolate(&line.points, units) else { continue };
            if let Some(cell) = cells.get_mut(row(ns)).and_then(|r| r.get_mut(x)) {
                *cell = Some(i);
            }
        }
    }
    for (y, cells) in cells.iter().enumerate() {
        let share = 1.0 - y as f64 / (HEIGHT - 1) as f64;
        let label = match y {
            0 | 6 | 11 => time(times.0 * (times.1 / times.0).powf(share)),
            _ => String::new(),
        };
        let _ = write!(out, "{label:>MARGIN$} |");
        for (x, cell) in cells.iter().enumerate() {
            match cell {
                Some(line) => out.push_str(&paint(&marker(*line).to_string(), *line, colour)),
                None if crossings.contains(&x) => out.push(':'),
                None => out.push(' '),
            }
        }
        trim(out);
    }
    let _ = write!(out, "{:>MARGIN$} +{}\n{:>MARGIN$}  ", "", "-".repeat(columns), "");
    let (first, last) = (count(sizes.0 as u64), count(sizes.1 as u64));
    let marks: Vec<(usize, String)> =
        crossings.iter().zip(&panel.crossings).map(|(x, at)| (*x, count(*at))).collect();
    out.push_str(&axis(columns, &first, &last, &marks));
    trim(out);
    let _ = write!(out, "{:>MARGIN$}  ", "");
    for (i, line) in panel.lines.iter().enumerate() {
        let _ = write!(out, "{}  ", paint(&format!("{} {}", marker(i), line.name), i, colour));
    }
    let _ = write!(out, "({})", panel.unit);
    trim(out);
}

/// Ends a line without trailing blanks.
fn trim(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// Labels of the size axis: both ends, and the crossovers where they fit.
fn axis(columns: usize, first: &str, last: &str, crossings: &[(usize, String)]) -> String {
    let mut text: Vec<char> = vec![' '; columns];
    let mut put = |at: usize, label: &str| {
        let n = label.chars().count();
        let free = |c: &char| *c == ' ';
        let around = text.get(at.saturating_sub(1)..(at + n + 1).min(columns)).unwrap_or_default();
        if at + n <= columns && around.iter().all(free) {
            text.iter_mut().skip(at).zip(label.chars()).for_each(|(cell, c)| *cell = c);
        }
    };
    put(0, first);
    put(columns.saturating_sub(last.len()), last);
    for (x, label) in crossings {
        put(x.saturating_sub(label.len() / 2), label);
    }
    text.into_iter().collect()
}

/// Log-log interpolation of a line at a size.
fn interpolate(points: &[(u64, f64)], units: f64) -> Option<f64> {
    let right = points.iter().position(|p| p.0 as f64 >= units * (1.0 - 1e-9))?;
    let (b, a) = (points.get(right)?, points.get(right.saturating_sub(1))?);
    let share = log_position((a.0 as f64, b.0 as f64), units);
    Some(if a.0 == b.0 { b.1 } else { a.1 * (b.1 / a.1).powf(share) })
}

fn table(out: &mut String, panel: &Panel) {
    let sizes: Vec<u64> =
        panel.lines.first().map(|l| l.points.iter().map(|p| p.0).collect()).unwrap_or_default();
    let _ = write!(out, "{:>8}", "size");
    for line in &panel.lines {
        let short: String = line.name.chars().take(10).collect();
        let _ = write!(out, " {short:>10}");
    }
    out.push('\n');
    let step = sizes.len().div_ceil(8).max(1);
    for (i, size) in sizes.iter().enumerate().step_by(step) {
        let _ = write!(out, "{:>8}", count(*size));
        for line in &panel.lines {
            let ns = line.points.get(i).map_or(String::new(), |p| time(p.1));
            let _ = write!(out, " {ns:>10}");
        }
        out.push('\n');
    }
}
