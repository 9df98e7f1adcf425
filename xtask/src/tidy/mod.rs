//! Which invariants hold by reading alone? One row per rule; `cargo xtask tidy` reads the tree once and asks them all.
//!
//! A rule is a pure function from the tree to findings, so each has tests that show it failing on a bad tree.

mod docs;
mod layers;
mod manifest;
mod rust;
mod source;
mod tree;

use anyhow::{Result, bail};
use tree::Tree;

/// One rule.
struct Check {
    /// Short name, shown with every finding.
    name: &'static str,
    /// The rule and why it is there.
    what: &'static str,
    /// What to do when it is broken.
    fix: &'static str,
    run: fn(&Tree) -> Vec<Finding>,
}

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    wrong: String,
    /// Said, but does not fail the run.
    warning: bool,
}

impl Finding {
    fn new(path: &str, line: usize, wrong: impl Into<String>) -> Self {
        Finding { path: path.to_owned(), line, wrong: wrong.into(), warning: false }
    }

    fn warning(path: &str, line: usize, wrong: impl Into<String>) -> Self {
        Finding { warning: true, ..Finding::new(path, line, wrong) }
    }
}

const CHECKS: [Check; 15] = [
    Check {
        name: "layers",
        what: "dependencies between our crates only point forward along the picture of ARCHITECTURE.md",
        fix: "move the code to the layer that may know both, or add the arrow to xtask/src/tidy/layers.rs and to the picture",
        run: layers::layers,
    },
    Check {
        name: "prints",
        what: "only binaries print: a library that writes to stdout spoils somebody's data",
        fix: "return the text (or a typed error) and let the binary print it",
        run: source::prints,
    },
    Check {
        name: "wgpu",
        what: "only gpuforge-runtime talks to GPU devices (gpuforge-detect enumerates adapters; gpuforge-bench and gpuforge-train are the named exceptions)",
        fix: "go through gpuforge-runtime; gpuforge-detect may list adapters but never opens a device",
        run: source::wgpu,
    },
    Check {
        name: "pyo3",
        what: "only gpuforge-python knows PyO3: every other crate builds without Python",
        fix: "move the binding to gpuforge-python",
        run: source::pyo3,
    },
    Check {
        name: "index addresses",
        what: "only gpuforge-env knows where packages are downloaded from: one place to correct when an index moves",
        fix: "take the address from gpuforge-env's data",
        run: source::index_addresses,
    },
    Check {
        name: "file size",
        what: "a file answers one question: 1000 lines at most, tables excepted by name; above 600 lines it is worth splitting",
        fix: "split by question; a pure table may be named with its reason in xtask/src/tidy/source.rs",
        run: source::file_size,
    },
    Check {
        name: "first line",
        what: "every source file begins with `//!` and says which question it answers",
        fix: "write the question as the first line",
        run: source::first_line,
    },
    Check {
        name: "lint reasons",
        what: "every lint exception says why: the reader cannot know whether it is still needed",
        fix: "add `reason = \"…\"` (an attribute) or a `# …` comment (a manifest), or repair the code",
        run: source::lint_reasons,
    },
    Check {
        name: "ignored tests",
        what: "no test is ignored without a reason: a skipped test looks like a passed one",
        fix: "write `#[ignore = \"…\"]`, or better, let the test say at run time what it skips",
        run: source::ignored_tests,
    },
    Check {
        name: "lint opt-outs",
        what: "every lint that a manifest switches off has a comment that says why",
        fix: "add `# …` on the line",
        run: manifest::lint_opt_outs,
    },
    Check {
        name: "dependency reasons",
        what: "every dependency of the root manifest says why it is here: each is code we ship and must trust",
        fix: "add `# …` at the end of its line",
        run: manifest::dependency_reasons,
    },
    Check {
        name: "lock file",
        what: "Cargo.lock is there, so that everybody builds the same versions",
        fix: "run `cargo generate-lockfile` and commit Cargo.lock",
        run: manifest::lock_file,
    },
    Check {
        name: "code map",
        what: "ARCHITECTURE.md names every crate: the map is where a newcomer begins",
        fix: "add a line to the code map that says which question the crate answers",
        run: docs::code_map,
    },
    Check {
        name: "figures",
        what: "no performance figure in prose: a number comes from `cargo xtask bench --write`, between `<!-- bench:NAME -->` and `<!-- /bench -->`",
        fix: "move it into such a block; a limit or a time-out that is set, not measured, gets `<!-- figure: reason -->` on its line",
        run: docs::figures,
    },
    Check {
        name: "outside paths",
        what: "the repository stands alone: only .ci/run names the folder beside it",
        fix: "read the place from an environment variable that .ci/run sets",
        run: docs::outside_paths,
    },
];

/// Reads the tree, prints what is wrong, and fails if anything is.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::load(&crate::sh::root())?;
    let mut errors = 0;
    for check in &CHECKS {
        let findings = (check.run)(&tree);
        errors += findings.iter().filter(|finding| !finding.warning).count();
        print!("{}", report(check, findings));
    }
    println!("tidy: {} rules over {} files, {errors} broken places", CHECKS.len(), tree.files.len());
    if errors > 0 {
        bail!("{errors} places break a rule, see above");
    }
    Ok(())
}

/// `file:line: what is wrong`, then why and what to do, once per rule.
fn report(check: &Check, mut findings: Vec<Finding>) -> String {
    findings.sort();
    let mut out = String::new();
    for Finding { path, line, wrong, warning } in &findings {
        let level = if *warning { "warning: " } else { "" };
        out.push_str(&format!("{path}:{line}: {level}[{}] {wrong}\n", check.name));
    }
    if !findings.is_empty() {
        out.push_str(&format!("  why: {}\n  fix: {}\n\n", check.what, check.fix));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_where_what_why_and_what_to_do() {
        let check = &CHECKS[0];
        let findings = vec![Finding::new("b", 2, "wrong"), Finding::warning("a", 1, "doubtful")];
        let text = report(check, findings);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "a:1: warning: [layers] doubtful");
        assert_eq!(lines[1], "b:2: [layers] wrong");
        assert!(lines[2].starts_with("  why: dependencies") && lines[3].starts_with("  fix: move"));
        assert_eq!(report(check, Vec::new()), "");
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
    }
}
