//! Crate graph: the Mermaid picture of ARCHITECTURE.md equals the dependencies that `cargo metadata` reports.
//!
//! The picture shows the transitive reduction: an arrow is left out where a longer path says the same. So a new dependency
//! that no path covers, or one that is gone, makes picture and workspace differ, and the diff of the picture shows the change.

use super::{Finding, tree::Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The file with the picture.
const FILE: &str = "ARCHITECTURE.md";

/// Any crate may have it as a dev-dependency, crates below it too.
const TESTKIT: &str = "gpuforge-testkit";

/// `(user, used)`: an arrow of the picture.
type Edge = (String, String);

/// A dependency of one workspace crate on another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) user: String,
    pub(super) used: String,
    /// Needed by tests and benchmarks only.
    pub(super) dev: bool,
}

/// Crates without a node, arrows that are no dependency, dependencies without a path of arrows.
pub(super) fn crate_graph(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.get(FILE) else { return vec![Finding::new(FILE, 1, "is missing")] };
    let Some((line, drawn)) = picture(text) else {
        return vec![Finding::new(FILE, 1, "has no ```mermaid block with the crates")];
    };
    let finding = |wrong: String| Finding::new(FILE, line, wrong);
    let nodes: BTreeSet<&str> = drawn.iter().flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    let mut crates = tree.crates();
    crates.insert("xtask");
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(
        crates
            .difference(&nodes)
            .filter(|name| **name != "xtask")
            .map(|name| finding(format!("the picture lacks `{name}`"))),
    );
    findings.extend(
        nodes.difference(&crates).map(|name| finding(format!("the picture has `{name}`, which is no crate"))),
    );
    let normal: BTreeSet<Edge> =
        tree.dependencies.iter().filter(|d| !d.dev).map(|d| (d.user.clone(), d.used.clone())).collect();
    let real = reduction(&normal);
    let arrow = |(user, used): &Edge| format!("{user} --> {used}");
    findings
        .extend(real.difference(&drawn).map(|edge| finding(format!("the picture lacks `{}`", arrow(edge)))));
    findings.extend(
        drawn
            .difference(&real)
            .map(|edge| finding(format!("`{}` is no dependency, or a longer path says it", arrow(edge)))),
    );
    findings.extend(dev_edges(tree, &normal));
    findings
}

/// Dev-dependencies must point down the graph as well, [`TESTKIT`] excepted: a test that needs an upper crate belongs there.
fn dev_edges(tree: &Tree, normal: &BTreeSet<Edge>) -> Vec<Finding> {
    let upward = |d: &&super::crate_graph::Dependency| {
        d.dev && d.used != TESTKIT && reachable(normal, &d.used).contains(d.user.as_str())
    };
    let finding = |d: &Dependency| {
        let path = format!("crates/{}/Cargo.toml", d.user);
        Finding::new(
            &path,
            1,
            format!("dev-dependency on `{}`, which depends on `{}` itself", d.used, d.user),
        )
    };
    tree.dependencies.iter().filter(upward).map(finding).collect()
}

/// The line of the first Mermaid block and its arrows; `None` without a block.
fn picture(text: &str) -> Option<(usize, BTreeSet<Edge>)> {
    let mut lines = text.lines().zip(1..);
    let (_, line) = lines.find(|(line, _)| line.trim() == "```mermaid")?;
    let mut edges = BTreeSet::new();
    for (row, _) in lines.take_while(|(row, _)| row.trim() != "```") {
        if let Some((users, used)) = row.split_once("-->") {
            let names = |side: &str| side.split('&').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
            for user in names(users) {
                edges.extend(names(used).into_iter().map(|used| (user.clone(), used)));
            }
        }
    }
    Some((line, edges))
}

/// Everything that a crate depends on, directly or not.
fn reachable<'e>(edges: &'e BTreeSet<Edge>, from: &str) -> BTreeSet<&'e str> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (user, used) in edges {
        next.entry(user).or_default().push(used);
    }
    let mut seen = BTreeSet::new();
    let mut queue = next.get(from).cloned().unwrap_or_default();
    while let Some(name) = queue.pop() {
        if seen.insert(name) {
            queue.extend(next.get(name).into_iter().flatten());
        }
    }
    seen
}

/// Transitive reduction of an acyclic graph: edges that no longer path replaces.
fn reduction(edges: &BTreeSet<Edge>) -> BTreeSet<Edge> {
    let covered = |edge: &Edge| {
        let others = edges.iter().filter(|other| other.0 == edge.0 && other.1 != edge.1);
        others.into_iter().any(|other| reachable(edges, &other.1).contains(edge.1.as_str()))
    };
    edges.iter().filter(|edge| !covered(edge)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: &str = "# A\n```mermaid\nflowchart TD\n  c --> b\n  b & d --> a\n```\n";

    fn dependency(user: &str, used: &str, dev: bool) -> Dependency {
        Dependency { user: user.to_owned(), used: used.to_owned(), dev }
    }

    fn check(picture: &str, dependencies: &[Dependency]) -> Vec<String> {
        let mut tree = Tree::of(&[
            (FILE, picture),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", ""),
            ("crates/c/Cargo.toml", ""),
            ("crates/d/Cargo.toml", ""),
        ]);
        tree.dependencies = dependencies.to_vec();
        crate_graph(&tree).into_iter().map(|finding| finding.wrong).collect()
    }

    fn real() -> Vec<Dependency> {
        vec![
            dependency("c", "b", false),
            dependency("c", "a", false),
            dependency("b", "a", false),
            dependency("d", "a", false),
            dependency("a", TESTKIT, true),
            dependency("c", "a", true),
        ]
    }

    #[test]
    fn picture_equals_the_transitive_reduction() {
        assert_eq!(check(PICTURE, &real()), Vec::<String>::new());
    }

    #[test]
    fn missing_crate_and_unknown_node_fail() {
        let wrong = check("```mermaid\nflowchart TD\n c --> b\n b & x --> a\n```", &real());
        assert!(wrong.contains(&"the picture lacks `d`".to_owned()), "{wrong:?}");
        assert!(wrong.contains(&"the picture has `x`, which is no crate".to_owned()), "{wrong:?}");
    }

    #[test]
    fn wrong_and_missing_arrows_fail() {
        let mut dependencies = real();
        dependencies.push(dependency("d", "b", false));
        let wrong = check(PICTURE, &dependencies);
        assert_eq!(
            wrong,
            ["the picture lacks `d --> b`", "`d --> a` is no dependency, or a longer path says it"]
        );
        let wrong = check(&PICTURE.replace("c --> b", "c --> b\n c --> d"), &real());
        assert_eq!(wrong, ["`c --> d` is no dependency, or a longer path says it"]);
    }

    #[test]
    fn dev_dependency_on_an_upper_crate_fails() {
        let mut dependencies = real();
        dependencies.push(dependency("a", "c", true));
        assert_eq!(check(PICTURE, &dependencies), ["dev-dependency on `c`, which depends on `a` itself"]);
    }

    #[test]
    fn document_without_a_picture_fails() {
        assert_eq!(check("# A", &real()), ["has no ```mermaid block with the crates"]);
        assert!(crate_graph(&Tree::of(&[]))[0].wrong.contains("missing"));
    }
}
