//! Rules for documents: figures come from benchmarks, nothing points outside the repository.

use super::{
    Finding,
    tree::{File, Tree},
};
use crate::{bench_summary, markdown};

/// Marks a line whose number is set by us (a limit, a time-out), not measured.
const MARKER: &str = "<!-- figure:";

/// What makes a number a performance figure when it follows. A unit ends where the word ends, so `s` is not seconds in `4 steps`.
const UNITS: [&str; 15] = [
    "× faster",
    "x faster",
    "GFLOP/s",
    "GFLOPS",
    "GFLOP",
    "TFLOP/s",
    "TFLOPS",
    "GiB/s",
    "GB/s",
    "MB/s",
    "ns",
    "µs",
    "us",
    "ms",
    "s",
];

/// The directory beside the repository that only .ci/run may name. Written in two pieces, or this file would break its rule.
const OUTSIDE: &str = concat!("../sha", "red");

/// Performance figures in prose, and blocks that never end.
pub(super) fn figures(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_prose(file)).flat_map(figures_in).collect()
}

fn is_prose(file: &File) -> bool {
    let named = ["README.md", "ARCHITECTURE.md"].contains(&file.path.as_str());
    named || (file.path.starts_with("docs/") && file.path.ends_with(".md"))
}

fn figures_in(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = None;
    for (line, number) in file.text.lines().zip(1..) {
        if line.trim() == markdown::CLOSE {
            if inside.take().is_none() {
                findings.push(Finding::new(&file.path, number, "closes a block that was not opened"));
            }
        } else if let Some(name) = markdown::opens(line) {
            inside = Some((name, number));
        } else if inside.is_none() && !excused(line) {
            let found =
                figure(line).map(|text| Finding::new(&file.path, number, format!("the figure `{text}`")));
            findings.extend(found);
        }
    }
    if let Some((name, number)) = inside {
        findings.push(Finding::new(&file.path, number, format!("the block bench:{name} is never closed")));
    }
    findings
}

/// Has the line a marker with a reason?
fn excused(line: &str) -> bool {
    let reason = line.split_once(MARKER).and_then(|(_, rest)| rest.split_once("-->"));
    reason.is_some_and(|(reason, _)| !reason.trim().is_empty())
}

/// The first number with a unit of speed or time.
fn figure(line: &str) -> Option<String> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = line;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() && !in_word(before) && before != '-' {
            let length = rest.find(|c: char| !c.is_ascii_digit() && !".,_".contains(c)).unwrap_or(rest.len());
            let (number, after) = rest.split_at(length);
            let tight = after.strip_prefix([' ', '\u{a0}', '\u{202f}']).unwrap_or(after);
            let ends = |unit: &&&str| {
                let tail = tight.strip_prefix(**unit).and_then(|tail| tail.chars().next());
                tight.starts_with(**unit) && !tail.is_some_and(in_word)
            };
            if let Some(unit) = UNITS.iter().find(ends) {
                return Some(format!("{} {unit}", number.trim_end_matches(['.', ','])));
            }
            before = number.chars().next_back().unwrap_or(c);
            rest = after;
        } else {
            before = c;
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    None
}

/// A speed table of README.md that is not what BENCHMARKS.md says.
pub(super) fn speed_table(tree: &Tree) -> Vec<Finding> {
    let (Some(readme), Some(benchmarks)) = (tree.get("README.md"), tree.get("BENCHMARKS.md")) else {
        return vec![Finding::new("README.md", 1, "README.md or BENCHMARKS.md is missing")];
    };
    let wrong = match bench_summary::table(benchmarks) {
        Err(error) => format!("{error:#}"),
        Ok(table) => match markdown::replace(readme, bench_summary::BLOCK, &table) {
            Ok(Some(text)) if text == readme => return Vec::new(),
            Ok(Some(_)) => "the speed table differs from BENCHMARKS.md".to_owned(),
            Ok(None) => format!("has no block {}", markdown::open(bench_summary::BLOCK)),
            Err(error) => error.to_string(),
        },
    };
    vec![Finding::new("README.md", 1, wrong)]
}

/// Files other than .ci/run that name the directory beside the repository.
pub(super) fn outside_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != ".ci/run") {
        let lines = file.text.lines().zip(1..).filter(|(line, _)| line.contains(OUTSIDE));
        findings
            .extend(lines.map(|(_, number)| Finding::new(&file.path, number, format!("names `{OUTSIDE}`"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_numbers_with_a_unit_of_speed() {
        let check = |line: &str, want: Option<&str>| assert_eq!(figure(line).as_deref(), want, "{line}");
        check("a lookup takes 38 ns here", Some("38 ns"));
        check("within 1.2ms.", Some("1.2 ms"));
        check("7.5x faster", Some("7.5 x faster"));
        check("7.5× faster", Some("7.5 × faster"));
        check("reads 12,000 MB/s", Some("12,000 MB/s"));
        check("takes 3 s", Some("3 s"));
        check("takes (10s)", Some("10 s"));
        check("40 µs", Some("40 µs"));
        check("120 GFLOP/s", Some("120 GFLOP/s"));
        check("2 systems, 3 msgs, 4 users, 5 steps", None);
        check("v2 s", None);
        check("80 columns, 8 GiB, 2 cores, RTX 3070", None);
        check("sha-1 s", None);
        check("", None);
    }

    #[test]
    fn figures_belong_into_blocks() {
        let text = "takes 5 ms\n<!-- bench:x -->\ntakes 5 ms\n<!-- /bench -->\nlimit 5 ms <!-- figure: a time-out we set -->\nlimit 5 ms <!-- figure: -->\n";
        let tree = Tree::of(&[
            ("README.md", text),
            ("docs/a.md", text),
            ("CHANGELOG.md", text),
            ("docs/a.rs", text),
        ]);
        let places: Vec<String> = figures(&tree).iter().map(|f| format!("{}:{}", f.path, f.line)).collect();
        assert_eq!(places, ["README.md:1", "README.md:6", "docs/a.md:1", "docs/a.md:6"]);
    }

    #[test]
    fn blocks_are_closed_once() {
        let wrong = |text: &str| {
            figures(&Tree::of(&[("README.md", text)]))
                .into_iter()
                .map(|f| (f.line, f.wrong))
                .collect::<Vec<_>>()
        };
        assert_eq!(wrong("x\n<!-- bench:a -->\n5 ms"), [(2, "the block bench:a is never closed".to_owned())]);
        assert_eq!(wrong("<!-- /bench -->"), [(1, "closes a block that was not opened".to_owned())]);
    }

    #[test]
    fn speed_table_must_be_that_of_the_benchmarks() {
        let wrong = |files: &[(&str, &str)]| speed_table(&Tree::of(files)).remove(0).wrong;
        assert!(wrong(&[("README.md", "")]).contains("missing"));
        assert!(wrong(&[("README.md", ""), ("BENCHMARKS.md", "")]).contains("no row"));
        let benchmarks = include_str!("../../../BENCHMARKS.md");
        assert!(wrong(&[("README.md", ""), ("BENCHMARKS.md", benchmarks)]).contains("no block"));
        let block = |content: &str| format!("<!-- bench:summary -->\n{content}<!-- /bench -->\n");
        let stale = block("| old |\n");
        assert!(wrong(&[("README.md", &stale), ("BENCHMARKS.md", benchmarks)]).contains("differs"));
        let current = block(&bench_summary::table(benchmarks).unwrap());
        assert_eq!(speed_table(&Tree::of(&[("README.md", &current), ("BENCHMARKS.md", benchmarks)])), []);
    }

    #[test]
    fn only_ci_looks_outside() {
        let text = format!("a\ncat {OUTSIDE}/x");
        let found = outside_paths(&Tree::of(&[(".ci/run", &text), ("README.md", &text)]));
        assert_eq!(found, [Finding::new("README.md", 2, format!("names `{OUTSIDE}`"))]);
    }
}
