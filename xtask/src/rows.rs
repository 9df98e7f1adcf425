//! Benchmark rows: one JSON row per case, with median, peer, ratio, noise and target; verdict and Markdown table.

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

/// Relative interquartile range above which a median is noisy.
pub(crate) const NOISE_LIMIT: f64 = 0.25;

/// One case, as `gpuforge-bench` prints it. Times and rates are medians of `n` runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Which benchmark.
    pub(crate) bench: String,
    /// Which case of it.
    pub(crate) case: String,
    /// Our median, in `unit`.
    pub(crate) ours: f64,
    /// The peer's median from the same run; `None` if the case has a limit instead.
    pub(crate) peer: Option<f64>,
    /// Name of the peer.
    pub(crate) peer_name: Option<String>,
    /// Unit of `ours`, `peer`, and of `target` when there is no peer.
    pub(crate) unit: String,
    /// Above 1 we are better.
    pub(crate) ratio: Option<f64>,
    /// Number of runs.
    pub(crate) n: u64,
    /// Relative interquartile range of our runs.
    pub(crate) noise: Option<f64>,
    /// With a peer: the smallest ratio that passes. Without: the limit, in `unit`.
    pub(crate) target: Option<f64>,
}

impl Row {
    /// The ratio to the peer, or to the limit: above 1 means within it.
    pub(crate) fn ratio(&self) -> Option<f64> {
        // A rate is better when larger, everything else (time, memory, size) when smaller.
        let rate = self.unit.ends_with("/s");
        let against = |other: f64| if rate { self.ours / other } else { other / self.ours };
        self.ratio.or_else(|| self.peer.or(self.target).map(against))
    }

    /// Was the target met? `None` without one.
    pub(crate) fn met(&self) -> Option<bool> {
        let target = self.target?;
        let needed = if self.peer.is_some() { target } else { 1.0 };
        Some(self.ratio().is_some_and(|ratio| ratio >= needed))
    }

    /// Is the spread too large to trust the median?
    pub(crate) fn noisy(&self) -> bool {
        self.noise.is_some_and(|noise| noise > NOISE_LIMIT)
    }

    fn cells(&self) -> [String; 7] {
        let value = |number: f64| format!("{} {}", short(number), self.unit);
        let peer = self.peer.map(|peer| match &self.peer_name {
            Some(name) => format!("{} ({name})", value(peer)),
            None => value(peer),
        });
        let target = self.target.map(|target| match self.peer {
            Some(_) => format!("ratio ≥ {}", short(target)),
            None if self.unit.ends_with("/s") => format!("≥ {}", value(target)),
            None => format!("≤ {}", value(target)),
        });
        let verdict = match (self.met(), self.noisy()) {
            (Some(true), false) => "met",
            (Some(false), false) => "missed",
            (Some(true), true) => "met, noisy",
            (Some(false), true) => "missed, noisy",
            (None, true) => "noisy",
            (None, false) => "",
        };
        let dash = || "-".to_owned();
        [
            self.case.clone(),
            value(self.ours),
            peer.unwrap_or_else(dash),
            self.ratio().map_or_else(dash, |ratio| format!("{ratio:.2}")),
            target.unwrap_or_else(dash),
            self.n.to_string(),
            verdict.to_owned(),
        ]
    }
}

/// Reads what `gpuforge-bench` printed: one row a line, nothing else.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let rows = lines
        .map(|(index, line)| {
            let row: Row = serde_json::from_str(line)
                .with_context(|| format!("line {} of gpuforge-bench is not a row: {line}", index + 1))?;
            ensure!(
                row.ours.is_finite() && row.ours > 0.0,
                "{}/{}: `ours` is {}",
                row.bench,
                row.case,
                row.ours
            );
            Ok(row)
        })
        .collect::<Result<Vec<Row>>>()?;
    Ok(rows)
}

/// Benchmarks in order of appearance.
pub(crate) fn benches(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.bench.as_str()) {
            names.push(&row.bench);
        }
    }
    names
}

const HEADINGS: [&str; 7] = ["case", "ours", "peer", "ratio", "target", "n", ""];

/// A Markdown table with aligned columns, readable in a terminal too.
pub(crate) fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.map(Row::cells));
    let mut widths = [3; 7];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let draw = |line: &[String; 7]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        out.push_str(&draw(line));
        if index == 0 {
            out.push_str(&draw(&widths.map(|width| "-".repeat(width))));
        }
    }
    out
}

/// Three significant digits, never an exponent.
fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        size if size >= 0.1 => format!("{number:.3}"),
        0.0 => "0".to_owned(),
        _ => format!("{number:.5}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row held against a limit.
    pub(crate) fn limit(bench: &str, case: &str, ours: f64, target: f64) -> Row {
        Row {
            bench: bench.to_owned(),
            case: case.to_owned(),
            ours,
            peer: None,
            peer_name: None,
            unit: "ms".to_owned(),
            ratio: None,
            n: 30,
            noise: Some(0.02),
            target: Some(target),
        }
    }

    #[test]
    fn rows_are_read_line_by_line() {
        let line = r#"{"bench":"detect","case":"cold","ours":12.5,"peer":11.0,"peer_name":"bare wgpu","unit":"ms","ratio":0.88,"n":30,"noise":0.1,"target":0.83}"#;
        let rows = parse(&format!("{line}\n\n{line}\n")).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].met(), Some(true));
        let error = parse("hello").unwrap_err();
        assert!(error.to_string().contains("line 1 of gpuforge-bench"), "{error}");
        assert!(parse(&line.replace("12.5", "0.0")).is_err());
        assert!(parse(&line.replace("\"n\":30", "\"n\":30,\"extra\":1")).is_err());
        let short = r#"{"bench":"a","case":"b","ours":1,"unit":"ms","n":3}"#;
        assert_eq!(parse(short).unwrap()[0].met(), None);
    }

    #[test]
    fn a_limit_is_met_up_to_itself() {
        assert_eq!(limit("a", "b", 1.0, 1.0).met(), Some(true));
        assert_eq!(limit("a", "b", 1.001, 1.0).met(), Some(false));
        let rate = |ours| Row { unit: "GB/s".to_owned(), ..limit("a", "b", ours, 10.0) };
        assert_eq!((rate(9.9).met(), rate(10.0).met()), (Some(false), Some(true)));
    }

    #[test]
    fn a_target_beside_a_peer_is_the_least_ratio() {
        let row = |ratio| Row { peer: Some(2.0), ratio: Some(ratio), ..limit("a", "b", 1.0, 0.83) };
        assert_eq!((row(0.83).met(), row(0.82).met()), (Some(true), Some(false)));
        let computed = Row { peer: Some(2.0), target: None, ..limit("a", "b", 1.0, 0.0) };
        assert_eq!((computed.ratio(), computed.met()), (Some(2.0), None));
    }

    #[test]
    fn noise_is_judged_at_the_limit() {
        let row = |noise| Row { noise, ..limit("a", "b", 1.0, 2.0) };
        assert!(!row(Some(0.25)).noisy() && row(Some(0.26)).noisy() && !row(None).noisy());
    }

    #[test]
    fn the_table_lines_up() {
        let peer = Row {
            peer: Some(11.0),
            peer_name: Some("bare".to_owned()),
            noise: Some(0.5),
            ..limit("a", "cold", 12.5, 0.8)
        };
        let text = table([limit("a", "cached", 0.034, 1.0), peer, limit("a", "slow", 2.0, 1.0)].iter());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
        assert!(
            lines[2].contains("0.03400 ms") && lines[2].contains("≤ 1.00 ms") && lines[2].contains("met")
        );
        assert!(
            lines[3].contains("11.0 ms (bare)")
                && lines[3].contains("ratio ≥ 0.800")
                && lines[3].contains("met, noisy")
        );
        assert!(lines[4].contains("missed"));
    }
}
