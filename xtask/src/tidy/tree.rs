//! Repository tree: all text files, read once, and the dependencies between our crates.

use super::{crate_graph::Dependency, rust};
use crate::metadata::Metadata;
use anyhow::{Context as _, Result};
use std::{collections::BTreeSet, fs, path::Path};

/// Directories that are not ours to check, by name anywhere.
const LEFT_OUT: [&str; 3] = [".git", "target", "node_modules"];
/// And the output of `cargo xtask dist --out dist`, by its path.
const OUTPUT: &str = "dist";

/// Kinds of text that rules read; anything else (images, data) is not loaded.
const KINDS: [&str; 9] = ["rs", "toml", "md", "wgsl", "lock", "sh", "yml", "yaml", "py"];

/// Files by path, sorted.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Text files.
    pub(super) files: Vec<File>,
    /// Paths of all files, images and data too.
    pub(super) paths: BTreeSet<String>,
    /// Who depends on whom in this workspace, by `cargo metadata`.
    pub(super) dependencies: Vec<Dependency>,
}

/// One text file.
#[derive(Debug)]
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    /// Reads every text file below `root`.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut tree = Tree::default();
        tree.read(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let entries =
            fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !LEFT_OUT.contains(&name.as_str()) && path != OUTPUT {
                    self.read(&entry.path(), &format!("{path}/"))?;
                }
                continue;
            }
            self.paths.insert(path.clone());
            if path.starts_with(".ci/") || name.rsplit_once('.').is_some_and(|(_, ext)| KINDS.contains(&ext))
            {
                let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                self.files.push(File { path, text: String::from_utf8_lossy(&bytes).into_owned() });
            }
        }
        Ok(())
    }

    /// Takes the edges between workspace crates out of what cargo reports.
    pub(super) fn with_dependencies(mut self, metadata: &Metadata) -> Self {
        let ours: BTreeSet<&str> =
            metadata.packages.iter().filter(|p| p.source.is_none()).map(|p| p.name.as_str()).collect();
        for package in metadata.packages.iter().filter(|p| p.source.is_none()) {
            let edges = package.dependencies.iter().filter(|d| ours.contains(d.name.as_str()));
            self.dependencies.extend(edges.map(|d| Dependency {
                user: package.name.clone(),
                used: d.name.clone(),
                dev: d.kind.as_deref() == Some("dev"),
            }));
        }
        self
    }

    /// The text of one file.
    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Directory names under `crates/` that hold a manifest.
    pub(super) fn crates(&self) -> BTreeSet<&str> {
        self.files
            .iter()
            .filter(|file| file.path.ends_with("/Cargo.toml"))
            .filter_map(File::crate_name)
            .collect()
    }

    /// Rust sources of `crates/*/src`.
    pub(super) fn sources(&self) -> impl Iterator<Item = &File> {
        self.rust().filter(|file| file.crate_name().is_some() && file.in_crate().starts_with("src/"))
    }

    /// Every Rust file, tests and xtask too.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// A tree made of `(path, text)` pairs.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        Tree { files: files.iter().map(file).collect(), paths, dependencies: Vec::new() }
    }
}

impl File {
    /// `gpuforge-detect` for everything below `crates/gpuforge-detect/`.
    pub(super) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
    }

    /// The path inside its crate.
    pub(super) fn in_crate(&self) -> &str {
        self.path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once('/'))
            .map_or(&self.path, |(_, rest)| rest)
    }

    /// Does the whole file hold tests?
    pub(super) fn is_test(&self) -> bool {
        self.in_crate().split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// Numbered lines of code outside tests; comments and the insides of literals are blank.
    pub(super) fn code_lines(&self) -> Vec<(usize, String)> {
        if self.is_test() {
            return Vec::new();
        }
        let code = rust::code_only(&self.text);
        let tests = rust::test_lines(&code);
        let lines = code.lines().zip(1..).map(|(line, number)| (number, line.to_owned()));
        lines.filter(|(number, _)| !tests.contains(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_and_git_are_not_read() {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("README.md", b"hello");
        write(".ci/run", b"#!/bin/bash");
        write("target/debug/x.rs", b"generated");
        write(".git/config.toml", b"");
        write("logo.png", &[0, 159]);
        write("crates/a/Cargo.toml", b"");
        write("crates/a/src/lib.rs", &[b'/', b'/', 0xff]);
        let tree = Tree::load(home.path()).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "README.md", "crates/a/Cargo.toml", "crates/a/src/lib.rs"]);
        assert!(tree.paths.contains("logo.png"));
        assert_eq!(tree.crates(), BTreeSet::from(["a"]));
        assert_eq!(tree.get("README.md"), Some("hello"));
        assert!(Tree::load(&home.path().join("missing")).is_err());
    }

    #[test]
    fn test_files_are_recognised_by_path() {
        let check = |path: &str, want| assert_eq!(Tree::of(&[(path, "")]).files[0].is_test(), want, "{path}");
        check("crates/a/tests/x.rs", true);
        check("crates/a/src/tests.rs", true);
        check("crates/a/src/b/tests/c.rs", true);
        check("crates/a/src/latest.rs", false);
    }
}
