//! Who may depend on whom? The picture of ARCHITECTURE.md as data.

use super::{Finding, tree::Tree};
use std::collections::BTreeSet;

/// Each crate with the crates whose arrow points at it. A dependency may skip stages; it never points back.
///
/// `gpuforge-testkit` stands beside the picture: any crate may have it as a dev-dependency.
const ARROWS: [(&str, &[&str]); 22] = [
    ("gpuforge-detect", &[]),
    ("gpuforge-profile-macros", &[]),
    ("gpuforge-profile", &["gpuforge-profile-macros"]),
    ("gpuforge-chart", &[]),
    ("gpuforge-frame", &["gpuforge-chart"]),
    ("gpuforge-env", &["gpuforge-detect"]),
    ("gpuforge-dash", &["gpuforge-profile", "gpuforge-chart"]),
    ("gpuforge-runtime", &["gpuforge-detect", "gpuforge-profile"]),
    ("gpuforge-ops", &["gpuforge-runtime"]),
    ("gpuforge-route", &["gpuforge-ops", "gpuforge-chart"]),
    ("gpuforge-indicators", &["gpuforge-route", "gpuforge-frame"]),
    ("gpuforge-indicators-gpu", &["gpuforge-indicators"]),
    ("gpuforge-workloads", &["gpuforge-route"]),
    ("gpuforge", &["gpuforge-indicators-gpu", "gpuforge-workloads", "gpuforge-env", "gpuforge-dash"]),
    ("gpuforge-testkit", &["gpuforge-runtime", "gpuforge-ops", "gpuforge-frame"]),
    ("gpuforge-cli", &["gpuforge"]),
    ("gpuforge-python", &["gpuforge"]),
    ("gpuforge-train", &["gpuforge"]),
    ("gpuforge-cluster", &["gpuforge"]),
    ("gpuforge-fuzz", &["gpuforge"]),
    ("gpuforge-bench", &["gpuforge", "gpuforge-testkit", "gpuforge-train", "gpuforge-cluster"]),
    ("xtask", &[]),
];

/// Tables of a manifest that hold dependencies.
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Every edge between our crates that the picture does not have, and every crate that is not in it.
pub(super) fn layers(tree: &Tree) -> Vec<Finding> {
    let crates = tree.crates();
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let name = match (file.crate_name(), file.path.as_str()) {
            (Some(name), _) => name,
            (None, "xtask/Cargo.toml") => "xtask",
            _ => continue,
        };
        if !ARROWS.iter().any(|(row, _)| *row == name) {
            findings.push(Finding::new(&file.path, 1, format!("`{name}` is not in the picture of layers")));
            continue;
        }
        let manifest: toml::Table = match file.text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                findings.push(Finding::new(&file.path, 1, format!("not a manifest: {}", error.message())));
                continue;
            }
        };
        let allowed = before(name);
        for (dependency, dev) in dependencies(&manifest) {
            let ours = crates.contains(dependency.as_str());
            let testkit = dev && dependency == "gpuforge-testkit";
            if ours && !testkit && !allowed.contains(dependency.as_str()) {
                let list = if allowed.is_empty() { "none".to_owned() } else { join(&allowed) };
                let wrong = format!("`{name}` must not depend on `{dependency}` (it may know: {list})");
                findings.push(Finding::new(&file.path, line_of(&file.text, &dependency), wrong));
            }
        }
    }
    findings
}

/// Everything from which arrows lead to this crate.
fn before(name: &str) -> BTreeSet<&'static str> {
    let arrows = |to: &str| ARROWS.iter().find(|(row, _)| *row == to).map_or(&[][..], |(_, from)| from);
    let mut known = BTreeSet::new();
    let mut queue = arrows(name).to_vec();
    while let Some(next) = queue.pop() {
        if known.insert(next) {
            queue.extend(arrows(next));
        }
    }
    known
}

fn join(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Names of the packages a manifest depends on, on any platform, and whether only for its tests.
fn dependencies(manifest: &toml::Table) -> Vec<(String, bool)> {
    let targets = manifest.get("target").and_then(|target| target.as_table());
    let platforms = targets.into_iter().flat_map(toml::Table::values).filter_map(|value| value.as_table());
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(platforms) {
        for kind in TABLES {
            let Some(list) = table.get(kind).and_then(|list| list.as_table()) else { continue };
            for (key, value) in list {
                let renamed = value.get("package").and_then(|package| package.as_str());
                found.push((renamed.unwrap_or(key).to_owned(), kind == "dev-dependencies"));
            }
        }
    }
    found
}

/// The line that names a dependency.
fn line_of(text: &str, name: &str) -> usize {
    text.lines()
        .position(|line| line.contains(name) && !line.starts_with("name"))
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n\n{rest}\n")
    }

    fn check(name: &str, rest: &str) -> Vec<Finding> {
        let path = format!("crates/{name}/Cargo.toml");
        let others =
            ["gpuforge-detect", "gpuforge-runtime", "gpuforge-route", "gpuforge", "gpuforge-testkit"];
        let mut files: Vec<(String, String)> = vec![(path.clone(), manifest(name, rest))];
        files.extend(
            others
                .iter()
                .map(|o| (format!("crates/{o}/Cargo.toml"), manifest(o, "")))
                .filter(|f| f.0 != path),
        );
        let pairs: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
        layers(&Tree::of(&pairs))
    }

    #[test]
    fn forward_is_allowed_also_over_stages() {
        assert_eq!(
            check("gpuforge-runtime", "[dependencies]\nforge-detect.workspace = true\nserde = \"1\""),
            []
        );
        assert_eq!(
            check("gpuforge-cli", "[dependencies]\ngpuforge.workspace = true\nforge-detect.workspace = true"),
            []
        );
        assert_eq!(check("gpuforge-detect", "[dev-dependencies]\nforge-testkit.workspace = true"), []);
    }

    #[test]
    fn backward_is_named_with_its_line() {
        let found = check("gpuforge-detect", "[dependencies]\nserde = \"1\"\nforge-runtime.workspace = true");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/gpuforge-detect/Cargo.toml", 6));
        assert!(
            found[0].wrong.contains("must not depend on `gpuforge-runtime`")
                && found[0].wrong.contains("none")
        );
    }

    #[test]
    fn other_ways_to_write_a_dependency_are_seen() {
        for rest in [
            "[dependencies]\nrt = { package = \"gpuforge\", path = \"../gpuforge\" }",
            "[target.'cfg(unix)'.dependencies]\ngpuforge.workspace = true",
            "[build-dependencies]\ngpuforge.workspace = true",
            "[dependencies.gpuforge]\nworkspace = true",
            "[dev-dependencies]\ngpuforge.workspace = true",
            "[dependencies]\nforge-testkit.workspace = true",
        ] {
            assert_eq!(check("gpuforge-runtime", rest).len(), 1, "{rest}");
        }
    }

    #[test]
    fn a_crate_outside_the_picture_and_a_broken_manifest_are_named() {
        assert!(check("gpuforge-magic", "")[0].wrong.contains("not in the picture"));
        assert!(
            check("gpuforge-detect", "[dependencies")
                .first()
                .is_some_and(|f| f.wrong.contains("not a manifest"))
        );
    }

    #[test]
    fn the_picture_has_no_circle() {
        for (name, from) in ARROWS {
            assert!(!before(name).contains(name), "{name}");
            assert!(from.iter().all(|f| ARROWS.iter().any(|(row, _)| row == f)), "{name}");
        }
    }
}
