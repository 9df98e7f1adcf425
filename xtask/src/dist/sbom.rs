//! SBOM: CycloneDX 1.5 JSON of everything that the archives and wheels are linked with, from `cargo metadata` and Cargo.lock.

use crate::{metadata::Metadata, metadata::Package, sh, spdx};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Packages whose dependencies are shipped: the binary and the wheel.
const SHIPPED: [&str; 2] = ["gpuforge-cli", "gpuforge-python"];

/// Writes the SBOM into `out` and returns its path.
pub(super) fn write(out: &Path, metadata: &Metadata) -> Result<PathBuf> {
    let lock = fs::read_to_string(sh::root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let document = document(metadata, &checksums(&lock)?)?;
    let path = out.join(format!("gpuforge-{}.cdx.json", metadata.member("gpuforge-cli")?.version));
    fs::write(&path, serde_json::to_string_pretty(&document)? + "\n")?;
    Ok(path)
}

/// SHA-256 of each package's source archive by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock is not TOML")?;
    let packages = lock.get("package").and_then(|list| list.as_array()).map_or(&[][..], Vec::as_slice);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let sum = |package: &toml::Value| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    };
    Ok(packages.iter().filter_map(sum).collect())
}

fn document(metadata: &Metadata, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let mut shipped: BTreeMap<&str, &Package> = BTreeMap::new();
    for name in SHIPPED {
        shipped
            .extend(metadata.shipped_with(name)?.into_iter().map(|package| (package.id.as_str(), package)));
    }
    let version = &metadata.member("gpuforge-cli")?.version;
    let components: Vec<Value> = shipped.values().map(|package| component(package, checksums)).collect();
    let purls = |ids: BTreeSet<&str>| -> BTreeSet<String> {
        ids.iter().filter_map(|id| shipped.get(id)).map(|package| purl(package)).collect()
    };
    let edges = |id: &str| {
        let node = metadata.resolve.nodes.iter().find(|node| node.id == id);
        let deps = node.map_or(&[][..], |node| &node.deps).iter();
        deps.filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none())).map(|dep| dep.pkg.as_str())
    };
    let root = format!("gpuforge@{version}");
    // Crates of ours are inside the root component: it depends on what they depend on.
    let members = metadata.packages.iter().filter(|package| package.source.is_none());
    let direct = purls(members.flat_map(|package| edges(&package.id)).collect());
    let mut dependencies = vec![json!({ "ref": root, "dependsOn": direct })];
    for (id, package) in &shipped {
        dependencies.push(json!({ "ref": purl(package), "dependsOn": purls(edges(id).collect()) }));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": root,
            "name": "gpuforge",
            "version": version,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        }},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

fn component(package: &Package, checksums: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
        "scope": "required",
    });
    let Some(fields) = component.as_object_mut() else { return component };
    // Old packages write `MIT/Apache-2.0`, which is no expression of SPDX.
    if let Some(Ok(expression)) = package.license.as_deref().map(spdx::parse) {
        fields.insert("licenses".to_owned(), json!([{ "expression": expression.to_string() }]));
    }
    if let Some(sum) = checksums.get(&(package.name.clone(), package.version.clone())) {
        fields.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": sum }]));
    }
    if let Some(address) = &package.repository {
        fields.insert("externalReferences".to_owned(), json!([{ "type": "vcs", "url": address }]));
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::tests::package;

    #[test]
    fn a_component_has_address_licence_and_checksum() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0+b\"\nchecksum = \"00ff\"\n[[package]]\nname = \"ours\"\nversion = \"1.0.0\"\n";
        let sums = checksums(lock).unwrap();
        assert_eq!(sums.len(), 1);
        let made = component(&package("a", "1.0.0+b", Some("MIT/Apache-2.0")), &sums);
        assert_eq!(made["purl"], "pkg:cargo/a@1.0.0%2Bb");
        assert_eq!(made["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(made["hashes"][0]["content"], "00ff");
        assert!(checksums("not toml [").is_err());
    }

    #[test]
    fn every_shipped_package_is_listed_once_with_its_checksum() {
        let metadata = crate::metadata::load(Some(&sh::host().unwrap())).unwrap();
        let lock = fs::read_to_string(sh::root().join("Cargo.lock")).unwrap();
        let made = document(&metadata, &checksums(&lock).unwrap()).unwrap();
        let components = made["components"].as_array().unwrap();
        let names: BTreeSet<&str> = components.iter().filter_map(|c| c["bom-ref"].as_str()).collect();
        assert_eq!(names.len(), components.len());
        assert!(names.iter().any(|name| name.starts_with("pkg:cargo/clap@")), "the binary's");
        assert!(names.iter().any(|name| name.starts_with("pkg:cargo/pyo3@")), "the wheel's");
        assert!(components.iter().all(|c| c["hashes"][0]["content"].as_str().is_some_and(|s| s.len() == 64)));
        for edge in made["dependencies"].as_array().unwrap() {
            let on = edge["dependsOn"].as_array().unwrap();
            assert!(on.iter().all(|name| names.contains(name.as_str().unwrap())), "{edge}");
        }
    }
}
