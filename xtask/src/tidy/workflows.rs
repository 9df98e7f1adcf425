//! Rules for hosted workflows: they call `cargo xtask` and nothing else, with pinned actions and few permissions.

use super::{
    Finding,
    tree::{File, Tree},
};

/// How a command of a workflow may begin.
const COMMANDS: [&str; 2] = ["cargo xtask ", "rustup toolchain install "];

/// Commands of their own, actions by a tag that may move, and missing or wide permissions.
pub(super) fn workflows(tree: &Tree) -> Vec<Finding> {
    let files = tree.files.iter().filter(|file| file.path.starts_with(".github/workflows/"));
    files.flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        let line = line.trim_start().trim_start_matches("- ");
        if let Some(command) = line.strip_prefix("run:").map(str::trim)
            && !COMMANDS.iter().any(|start| command.starts_with(start))
        {
            findings.push(Finding::new(&file.path, number, format!("runs `{command}`")));
        }
        if let Some(action) = line.strip_prefix("uses:").map(str::trim)
            && !is_pinned(action)
        {
            findings.push(Finding::new(&file.path, number, format!("`{action}` is not pinned to a commit")));
        }
        if line.contains(": write") {
            findings.push(Finding::new(&file.path, number, "asks for permission to write"));
        }
    }
    if !file.text.lines().any(|line| line == "permissions:") {
        findings.push(Finding::new(&file.path, 1, "has no `permissions:` of the whole workflow"));
    }
    findings
}

/// By a full commit, with the version as a comment.
fn is_pinned(action: &str) -> bool {
    let (reference, comment) = action.split_once('#').unwrap_or((action, ""));
    let commit = reference.trim().rsplit_once('@').map_or("", |(_, commit)| commit);
    commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && !comment.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_calls_xtask_with_pinned_actions() {
        let pinned = format!("      - uses: a/b@{} # v1\n", "0".repeat(40));
        let good = format!("permissions:\n  contents: read\n{pinned}      - run: cargo xtask test\n");
        let lines = |text: &str| -> Vec<usize> {
            let tree = Tree::of(&[(".github/workflows/ci.yml", text), ("docs/x.yml", "run: make")]);
            workflows(&tree).iter().map(|finding| finding.line).collect()
        };
        assert!(lines(&good).is_empty());
        assert_eq!(lines(&good.replace("cargo xtask test", "cargo test")), [4]);
        assert_eq!(lines(&good.replace("cargo xtask test", "|")), [4]);
        assert_eq!(lines(&good.replace(" # v1", "")), [3]);
        assert_eq!(lines(&good.replace("read", "write")), [2]);
        assert_eq!(lines("run: cargo xtask test\n"), [1]);
    }
}
