//! `cargo metadata`: packages and the resolved dependency graph, for audit and dist.

use crate::sh;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// Packages and their dependency graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) resolve: Resolve,
}

/// One package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) license_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) authors: Vec<String>,
    pub(crate) repository: Option<String>,
    pub(crate) description: Option<String>,
    /// Registries it may be published to: `None` = any, empty = none.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) manifest_path: PathBuf,
    /// `None` for packages of this workspace.
    pub(crate) source: Option<String>,
    /// As declared in the manifest: every platform, optional ones too.
    #[serde(default)]
    pub(crate) dependencies: Vec<DeclaredDependency>,
}

impl Package {
    /// May it be published?
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

/// One declared dependency.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct DeclaredDependency {
    pub(crate) name: String,
    /// `None` = normal, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// The resolved graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

/// The dependencies of one package.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Dep>,
}

/// One edge of the graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Dep {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<DepKind>,
}

/// Why the edge is there: `None` = normal, else `dev` or `build`.
#[derive(Debug, Deserialize)]
pub(crate) struct DepKind {
    pub(crate) kind: Option<String>,
}

/// Runs `cargo metadata`; `platform` filters out the dependencies of other platforms.
pub(crate) fn load(platform: Option<&str>) -> Result<Metadata> {
    let mut command = sh::cargo(["metadata", "--format-version", "1", "--locked"]);
    if let Some(platform) = platform {
        command.args(["--filter-platform", platform]);
    }
    parse(&sh::capture(&mut command)?)
}

fn parse(json: &str) -> Result<Metadata> {
    serde_json::from_str(json).context("cannot read what `cargo metadata` printed")
}

impl Metadata {
    /// The workspace's package of this name.
    pub(crate) fn member(&self, name: &str) -> Result<&Package> {
        let found = self.packages.iter().find(|p| p.source.is_none() && p.name == name);
        found.with_context(|| format!("no package `{name}` in this workspace"))
    }

    /// Third-party packages linked into what `name` builds (no dev and no build dependencies), sorted by name.
    pub(crate) fn shipped_with(&self, name: &str) -> Result<Vec<&Package>> {
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|n| (n.id.as_str(), n)).collect();
        let mut seen = BTreeSet::new();
        let mut queue = vec![self.member(name)?.id.as_str()];
        while let Some(id) = queue.pop() {
            if !seen.insert(id) {
                continue;
            }
            let deps = nodes.get(id).map_or(&[][..], |node| &node.deps);
            let normal = deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            queue.extend(normal.map(|dep| dep.pkg.as_str()));
        }
        let mut packages: Vec<&Package> =
            self.packages.iter().filter(|p| p.source.is_some() && seen.contains(p.id.as_str())).collect();
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(packages)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A package of others with this name, version and licence.
    pub(crate) fn package(name: &str, version: &str, license: Option<&str>) -> Package {
        Package {
            id: format!("{name}@{version}"),
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.map(str::to_owned),
            license_file: None,
            authors: vec!["A. Author".to_owned()],
            repository: None,
            description: None,
            publish: None,
            manifest_path: PathBuf::from(format!("/registry/{name}/Cargo.toml")),
            source: Some("registry".to_owned()),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn shipped_packages_follow_normal_edges_only() {
        let json = r#"{"packages":[
            {"id":"cli","name":"cli","version":"1.0.0","license":"MIT","license_file":null,"repository":null,"manifest_path":"/w/Cargo.toml","source":null},
            {"id":"z","name":"z","version":"1.0.0","license":"MIT","license_file":null,"repository":null,"manifest_path":"/z/Cargo.toml","source":"r"},
            {"id":"a","name":"a","version":"1.0.0","license":"MIT","license_file":null,"repository":null,"manifest_path":"/a/Cargo.toml","source":"r"},
            {"id":"dev","name":"dev","version":"1.0.0","license":"MIT","license_file":null,"repository":null,"manifest_path":"/d/Cargo.toml","source":"r"}],
            "resolve":{"nodes":[
            {"id":"cli","deps":[{"pkg":"z","dep_kinds":[{"kind":null}]},{"pkg":"dev","dep_kinds":[{"kind":"dev"}]}]},
            {"id":"z","deps":[{"pkg":"a","dep_kinds":[{"kind":"build"},{"kind":null}]}]},
            {"id":"a","deps":[{"pkg":"z","dep_kinds":[{"kind":null}]}]},
            {"id":"dev","deps":[]}]}}"#;
        let metadata = parse(json).unwrap();
        let names: Vec<&str> =
            metadata.shipped_with("cli").unwrap().iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a", "z"]);
        assert!(metadata.shipped_with("other").is_err());
        assert!(parse("{}").is_err());
    }
}
