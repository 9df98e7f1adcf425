//! Tidy: the invariants that can be checked by reading. One row per rule; `cargo xtask tidy` reads the tree once and runs all.
//!
//! A rule is a pure function from the tree to findings, so each has tests that show it failing on a bad tree.

mod crate_graph;
mod docs;
mod links;
mod manifest;
mod rust;
mod source;
mod tree;
mod vocabulary;
mod workflows;

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

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    wrong: String,
    /// Printed, but does not fail the run.
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

const CHECKS: [Check; 21] = [
    Check {
        name: "crate graph",
        what: "the picture of ARCHITECTURE.md shows every crate and exactly the dependencies that `cargo metadata` reports",
        fix: "draw the arrow, or move the code to the crate that may know both",
        run: crate_graph::crate_graph,
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
        what: "a file holds one concept: 800 lines at most, tables excepted by name; above 600 lines it is worth splitting",
        fix: "split by concept; a pure table may be named with its reason in xtask/src/tidy/source.rs",
        run: source::file_size,
    },
    Check {
        name: "first line",
        what: "every source file begins with `//!` and names the technique or thing it implements, so that grep finds it",
        fix: "name it in the first line, as in `//! Buffer pool: size classes over free lists, LRU eviction.`",
        run: source::first_line,
    },
    Check {
        name: "vocabulary",
        what: "established terms, not paraphrases: a reader greps for the term of the field",
        fix: "use the term; explain the why in plain words beside it",
        run: vocabulary::paraphrases,
    },
    Check {
        name: "lint reasons",
        what: "every lint exception says why: the reader cannot know whether it is still needed",
        fix: "add `reason = \"…\"` (an attribute) or a `# …` comment (a manifest), or repair the code",
        run: source::lint_reasons,
    },
    Check {
        name: "safety comments",
        what: "a SAFETY comment states the fact that its block rests on: one that points elsewhere goes stale with the code it points to",
        fix: "write the fact out, as in `// SAFETY: every detected level but the scalar one has AVX2.`",
        run: source::safety_comments,
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
        name: "workflows",
        what: "hosted workflows call `cargo xtask` and nothing else: what they check can be run anywhere; an action is pinned to a commit",
        fix: "move the commands into xtask; write the commit behind `@` and the version as a comment",
        run: workflows::workflows,
    },
    Check {
        name: "lock file",
        what: "Cargo.lock is there, so that everybody builds the same versions",
        fix: "run `cargo generate-lockfile` and commit Cargo.lock",
        run: manifest::lock_file,
    },
    Check {
        name: "dead links",
        what: "relative links and anchors in our documents lead somewhere",
        fix: "correct the path or the heading",
        run: links::dead_links,
    },
    Check {
        name: "file names",
        what: "file names in ARCHITECTURE.md, README.md and CONTRIBUTING.md exist: they are the map of a newcomer",
        fix: "name the file as it is called now",
        run: links::file_names,
    },
    Check {
        name: "line limits",
        what: "README.md and ARCHITECTURE.md are short enough to be read",
        fix: "move detail to docs/ or to the crate's own documentation",
        run: links::line_limits,
    },
    Check {
        name: "figures",
        what: "no performance figure in prose: a number comes from `cargo xtask bench --write`, between `<!-- bench:NAME -->` and `<!-- /bench -->`",
        fix: "move it into such a block; a limit or a time-out that is set, not measured, gets `<!-- figure: reason -->` on its line",
        run: docs::figures,
    },
    Check {
        name: "speed table",
        what: "the speed table of README.md is copied from BENCHMARKS.md",
        fix: "run `cargo xtask bench NAME --write`, or copy the rows",
        run: docs::speed_table,
    },
    Check {
        name: "outside paths",
        what: "the repository stands alone: only .ci/run names the directory beside it",
        fix: "read the path from an environment variable that .ci/run sets",
        run: docs::outside_paths,
    },
];

/// Reads the tree, prints what is wrong, and fails if anything is.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::load(&crate::sh::root())?.with_dependencies(&crate::metadata::load(None)?);
    let mut errors = 0;
    for check in &CHECKS {
        let findings = (check.run)(&tree);
        errors += findings.iter().filter(|finding| !finding.warning).count();
        print!("{}", report(check, findings));
    }
    println!("tidy: {} rules over {} files, {errors} findings", CHECKS.len(), tree.files.len());
    if errors > 0 {
        bail!("{errors} findings, see above");
    }
    // Last, since it is the one check that runs the binary instead of reading.
    match crate::cli_docs::stale()? {
        Some(difference) => bail!("{difference}; run `cargo xtask docs`"),
        None => Ok(()),
    }
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
    fn report_has_location_rule_reason_and_fix() {
        let check = &CHECKS[0];
        let findings = vec![Finding::new("b", 2, "wrong"), Finding::warning("a", 1, "doubtful")];
        let text = report(check, findings);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "a:1: warning: [crate graph] doubtful");
        assert_eq!(lines[1], "b:2: [crate graph] wrong");
        assert!(lines[2].starts_with("  why: the picture") && lines[3].starts_with("  fix: draw"));
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
