//! Dependency audit: licences against an allow list, security advisories by cargo-deny or cargo-audit if installed.

use crate::{metadata, metadata::Package, sh, spdx};
use anyhow::{Result, bail};
use std::{collections::BTreeMap, env, time::Duration};

/// Deadline for fetching the advisory database.
const LIMIT: Duration = Duration::from_secs(120);

/// Checks licences (error), lists duplicate versions (information), checks advisories (error).
pub(crate) fn run() -> Result<()> {
    let metadata = match metadata::load(None) {
        Ok(metadata) => metadata,
        // Offline, packages of other platforms cannot be fetched; those of this one are already downloaded.
        Err(error) => {
            let metadata = metadata::load(Some(&sh::host()?))?;
            println!("licences: only this platform's packages ({})", first_line(&error.to_string()));
            metadata
        }
    };
    let refused = refused(&metadata.packages);
    for line in &refused {
        println!("{line}");
    }
    println!("licences: {} packages checked, {} refused", metadata.packages.len(), refused.len());
    for (name, versions) in duplicates(&metadata.packages) {
        println!("duplicate: {name} {} (information)", versions.join(", "));
    }
    let advisories = advisories();
    println!("advisories: {}", advisories.as_ref().map_or_else(|error| error.to_string(), Clone::clone));
    advisories?;
    if !refused.is_empty() {
        bail!(
            "{} dependencies have a licence that is not on the list; \
             replace them, or add the licence to xtask/src/spdx.rs and deny.toml",
            refused.len()
        );
    }
    Ok(())
}

/// Packages with a licence file only, and the licence it contains.
const LICENCE_FILES: [(&str, &str, &str); 1] = [("cfg_block", "0.1.1", "Apache-2.0")];

/// The licence expression of a package: its own, or that of its file.
fn licence(package: &Package) -> Option<&str> {
    let read = || {
        LICENCE_FILES.iter().find(|(name, version, _)| package.name == *name && package.version == *version)
    };
    package.license.as_deref().or_else(|| read().map(|(.., licence)| *licence))
}

/// One line per package without an allowed licence.
fn refused(packages: &[Package]) -> Vec<String> {
    packages
        .iter()
        .filter_map(|package| {
            let why = match licence(package).map(spdx::parse) {
                None => "names no licence expression".to_owned(),
                Some(Err(error)) => error.to_string(),
                Some(Ok(expr)) if expr.allowed_by(&spdx::ALLOWED) => return None,
                Some(Ok(expr)) => format!("{} not allowed", expr.others(&spdx::ALLOWED).join(", ")),
            };
            let licence = package.license.as_deref().unwrap_or("-");
            Some(format!("licence: {} {} ({licence}): {why}", package.name, package.version))
        })
        .collect()
}

/// Packages in more than one version.
fn duplicates(packages: &[Package]) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, list| list.len() > 1);
    versions
}

/// Result of the advisory tool: an error for findings, `skipped, …` without a tool or database.
fn advisories() -> Result<String> {
    // Looked up on PATH: cargo prints its own error for a missing subcommand.
    if on_path("cargo-deny") {
        if let Err(error) = sh::run_within(&mut sh::cargo(["deny", "fetch", "db"]), LIMIT) {
            return Ok(format!("skipped, cargo-deny has no database ({error})"));
        }
        sh::run(&mut sh::cargo(["deny", "--offline", "check", "advisories"]))?;
        return Ok("none known (cargo-deny)".to_owned());
    }
    if on_path("cargo-audit") {
        let output = sh::tee(&mut sh::cargo(["audit"]))?;
        return match (output.ok, lacks_database(&output.text)) {
            (true, _) => Ok("none known (cargo-audit)".to_owned()),
            (false, true) => Ok("skipped, cargo-audit could not get its database".to_owned()),
            (false, false) => bail!("cargo-audit found some, see above"),
        };
    }
    Ok("skipped, neither cargo-deny nor cargo-audit is installed".to_owned())
}

/// Did cargo-audit fail to get its database?
fn lacks_database(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "couldn't fetch advisory database",
        "failed to fetch",
        "error loading advisory database",
        "couldn't load",
    ]
    .iter()
    .any(|words| text.contains(words))
}

fn on_path(program: &str) -> bool {
    let name = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|directory| directory.join(&name).is_file()))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::tests::package;

    #[test]
    fn packages_without_an_acceptable_licence_are_named() {
        let packages = [
            package("good", "1.0.0", Some("GPL-3.0-only OR MIT")),
            package("viral", "2.0.0", Some("MIT AND AGPL-3.0-only")),
            package("silent", "0.1.0", None),
            package("odd", "0.2.0", Some("my own terms")),
        ];
        let lines = refused(&packages);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "licence: viral 2.0.0 (MIT AND AGPL-3.0-only): AGPL-3.0-only not allowed");
        assert!(lines[1].starts_with("licence: silent 0.1.0 (-): names no"));
        assert!(lines[2].contains("not an SPDX expression"));
    }

    #[test]
    fn duplicates_are_listed_by_name() {
        let packages =
            [package("a", "1.0.0", None), package("b", "1.0.0", None), package("a", "2.0.0", None)];
        assert_eq!(duplicates(&packages), BTreeMap::from([("a", vec!["1.0.0", "2.0.0"])]));
    }

    #[test]
    fn no_database_is_not_an_advisory() {
        assert!(lacks_database("error: couldn't fetch advisory database: git operation failed"));
        assert!(!lacks_database("error: 1 vulnerability found!"));
    }

    #[test]
    fn deny_toml_has_the_same_licences() {
        let text = std::fs::read_to_string(sh::root().join("deny.toml")).unwrap();
        let deny: toml::Table = text.parse().unwrap();
        let list = deny["licenses"]["allow"].as_array().unwrap();
        let names: Vec<&str> = list.iter().filter_map(|name| name.as_str()).collect();
        assert_eq!(names, spdx::ALLOWED);
    }
}
