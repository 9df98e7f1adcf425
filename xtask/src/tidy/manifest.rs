//! Rules for manifests: reasons beside dependencies and switched-off lints, and a lock file.

use super::{Finding, tree::Tree};

/// Lints that a manifest switches off without a comment.
pub(super) fn lint_opt_outs(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        for entry in entries(&file.text).iter().filter(|entry| entry.section.contains("lints")) {
            if entry.code.contains("\"allow\"") && !entry.commented {
                let wrong = format!("`{}` is switched off without a reason", entry.key());
                findings.push(Finding::new(&file.path, entry.line, wrong));
            }
        }
    }
    findings
}

/// Dependencies of others in the root manifest without a comment; our own crates need none.
pub(super) fn dependency_reasons(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.get("Cargo.toml") else {
        return vec![Finding::new("Cargo.toml", 1, "the root manifest is missing")];
    };
    let list = entries(text);
    let silent = list.iter().filter(|entry| {
        let ours = entry.code.contains("path = \"crates/");
        entry.section == "workspace.dependencies" && !ours && !entry.commented
    });
    let finding = |entry: &Entry<'_>| {
        Finding::new("Cargo.toml", entry.line, format!("`{}` does not say why it is here", entry.key()))
    };
    silent.map(finding).collect()
}

/// No Cargo.lock.
pub(super) fn lock_file(tree: &Tree) -> Vec<Finding> {
    match tree.get("Cargo.lock") {
        Some(_) => Vec::new(),
        None => vec![Finding::new("Cargo.lock", 1, "is missing")],
    }
}

/// `key = value`, which may span lines while a bracket is open.
struct Entry<'a> {
    section: &'a str,
    line: usize,
    code: String,
    commented: bool,
}

impl Entry<'_> {
    fn key(&self) -> &str {
        self.code.split('=').next().unwrap_or_default().trim()
    }
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut found: Vec<Entry<'_>> = Vec::new();
    let mut section = "";
    let mut open = 0_usize;
    for (line, number) in text.lines().zip(1..) {
        let (code, comment) = split_comment(line);
        if open == 0 && code.trim_start().starts_with('[') {
            section = code.trim().trim_matches(['[', ']']);
            continue;
        }
        if code.trim().is_empty() && open == 0 {
            continue;
        }
        if open == 0 {
            found.push(Entry { section, line: number, code: String::new(), commented: false });
        }
        let count = |wanted: [char; 2]| code.matches(wanted).count();
        open = (open + count(['[', '{'])).saturating_sub(count([']', '}']));
        if let Some(entry) = found.last_mut() {
            entry.code.push_str(code);
            entry.commented |= !comment.trim().is_empty();
        }
    }
    found
}

/// Splits at the first `#` that is not inside a string.
fn split_comment(line: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return (line.get(..at).unwrap_or(line), line.get(at + 1..).unwrap_or_default()),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    (line, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn dependencies_say_why() {
        let text = "[workspace.dependencies]\n# heading\na = \"1\" # why\nb = { version = \"1\", features = [\n  \"x#y\",\n] }\nc = { version = \"1\", features = [\n  \"x\", # why\n] }\nd = \"2\" #\nours = { path = \"crates/ours\" }\n[profile.dev]\ndebug = 1\n";
        assert_eq!(lines(dependency_reasons, "Cargo.toml", text), [4, 10]);
        assert_eq!(lines(dependency_reasons, "x.md", ""), [1]);
    }

    #[test]
    fn switched_off_lints_say_why() {
        let text = "[workspace.lints.clippy]\nall = \"warn\"\na = \"allow\"\nb = \"allow\" # why\nc = { level = \"allow\", priority = 1 }\n[package]\nx = \"allow\"\n[lints.rust]\nd = \"allow\"\n";
        assert_eq!(lines(lint_opt_outs, "Cargo.toml", text), [3, 5, 9]);
        assert_eq!(lines(lint_opt_outs, "crates/a/Cargo.toml", text).len(), 3);
    }

    #[test]
    fn the_lock_file_is_there() {
        assert_eq!(lines(lock_file, "Cargo.toml", ""), [1]);
        assert!(lines(lock_file, "Cargo.lock", "version = 4").is_empty());
    }
}
