//! Speed table of the README: six rows of BENCHMARKS.md, copied, never typed.

use crate::markdown;
use anyhow::{Context as _, Result};

/// The block in README.md that holds the table.
pub(crate) const BLOCK: &str = "summary";

/// Benchmark, beginning of the case, beginning of the peer, and what a reader is told it is. One row is slower than its peer.
const ROWS: [(&str, &str, &str, &str); 6] = [
    (
        "indicators",
        "30×100k: all 236 functions in one call",
        "",
        "236 indicators of 30 × 100 000 bars, one call",
    ),
    (
        "indicators",
        "30×100k: 236 functions one by one",
        "",
        "the same, one indicator at a time, geometric mean",
    ),
    ("cluster", "500x20k bars, one moving average in SQL", "", "moving average in SQL, 500 × 20 000 bars"),
    ("train", "MLP 111-128-64-1, batch 4096", "JAX", "MLP training step, batch 4096"),
    ("span", "on, beside puffin", "", "profiler span"),
    ("matmul", "1024x1024 f32, one thread", "", "matrix product 1024 × 1024, f32, one thread"),
];

/// The table as Markdown, from the text of BENCHMARKS.md.
pub(crate) fn table(benchmarks: &str) -> Result<String> {
    let mut out = String::from("| workload | gpuforge | peer | ratio |\n|---|---|---|---|\n");
    for (bench, case, peer, label) in ROWS {
        let row = cells(benchmarks, bench, case, peer)
            .with_context(|| format!("BENCHMARKS.md has no row `{case}` in bench:{bench}"))?;
        let [_, ours, theirs, ratio] = row;
        out.push_str(&format!("| {label} | {ours} | {theirs} | {ratio} |\n"));
    }
    out.push_str("\nRatio above 1: gpuforge is faster, peer in the same run. Machine, date, command and all rows: [BENCHMARKS.md](BENCHMARKS.md).\n");
    Ok(out)
}

/// The first four cells of a row: case, ours, peer, ratio.
fn cells<'t>(benchmarks: &'t str, bench: &str, case: &str, peer: &str) -> Option<[&'t str; 4]> {
    let mut block = benchmarks.lines().skip_while(|line| markdown::opens(line) != Some(bench)).skip(1);
    let rows = block.by_ref().take_while(|line| line.trim() != markdown::CLOSE);
    let mut split = rows.map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    });
    split.find(|row: &[&str; 4]| row[0].starts_with(case) && row[2].contains(&format!("({peer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_from_their_block() {
        let text = "<!-- bench:a -->\n| case | ours | peer | ratio | n |\n| x, one | 1 ms | 2 ms (P) | 2.00 | 3 |\n\
                    | x, one | 1 ms | 4 ms (Q) | 4.00 | 3 |\n<!-- /bench -->\n<!-- bench:b -->\n| y | 1 | 2 (P) | 2 | 3 |\n<!-- /bench -->\n";
        assert_eq!(cells(text, "a", "x", "Q"), Some(["x, one", "1 ms", "4 ms (Q)", "4.00"]));
        assert_eq!(cells(text, "a", "x", ""), Some(["x, one", "1 ms", "2 ms (P)", "2.00"]));
        assert_eq!(cells(text, "a", "y", ""), None);
        assert!(table(text).unwrap_err().to_string().contains("bench:indicators"));
    }
}
