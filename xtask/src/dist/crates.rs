//! Crates for the registry: every public one is packaged; those without dependencies of ours are built from their package.

use crate::{metadata, metadata::Package, sh};
use anyhow::{Result, ensure};

/// What a crate says that is published only because another needs it.
const INTERNAL: &str = "Internal part of gpuforge; no stability promised";

/// Crates that programs depend on.
const PUBLIC: [&str; 4] = ["gpuforge", "gpuforge-cli", "gpuforge-cluster", "gpuforge-train"];

/// Packages everything that may be published.
pub(super) fn package() -> Result<()> {
    let metadata = metadata::load(Some(&sh::host()?))?;
    let ours: Vec<&Package> = metadata.packages.iter().filter(|package| package.source.is_none()).collect();
    let (published, private): (Vec<&Package>, Vec<&Package>) = ours.iter().partition(|p| p.is_published());
    for package in &published {
        let description = package.description.as_deref().unwrap_or_default();
        let internal = !PUBLIC.contains(&package.name.as_str());
        ensure!(
            internal == description.ends_with(INTERNAL),
            "{}: the description must {} with `{INTERNAL}`",
            package.name,
            if internal { "end" } else { "not end" }
        );
    }
    // All at once: a crate of ours that is not in the registry yet is found among the packages.
    let mut all = sh::cargo(["package", "--workspace", "--no-verify", "--allow-dirty"]);
    all.args(private.iter().flat_map(|package| ["--exclude", &package.name]));
    sh::run(&mut all)?;
    let depends = |package: &Package| {
        let normal =
            package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        normal.into_iter().any(|dependency| ours.iter().any(|other| other.name == dependency.name))
    };
    let leaves: Vec<&str> = published.iter().filter(|p| !depends(p)).map(|p| p.name.as_str()).collect();
    let mut verified = sh::cargo(["package", "--allow-dirty"]);
    sh::run(verified.args(leaves.iter().flat_map(|name| ["--package", name])))?;
    println!("{} crates packaged, built from their package: {}", published.len(), leaves.join(", "));
    Ok(())
}
