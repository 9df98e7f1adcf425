//! THIRD-PARTY-LICENSES.txt: licence texts of the dependencies in a release, each distinct text once.

use crate::metadata::Package;
use anyhow::Result;
use std::{collections::BTreeSet, fs, path::PathBuf};

/// Prefixes of licence file names, case-insensitive.
const NAMES: [&str; 7] = ["license", "licence", "copying", "copyright", "notice", "unlicense", "authors"];

/// A package and its licence texts.
struct Entry<'a> {
    package: &'a Package,
    texts: Vec<(String, String)>,
}

/// Lists every package, then every distinct text once: most packages carry the same two.
pub(crate) fn text(packages: &[&Package]) -> Result<String> {
    let entries =
        packages.iter().map(|p| Ok(Entry { package: p, texts: texts(p)? })).collect::<Result<Vec<_>>>()?;
    Ok(render(&entries))
}

fn texts(package: &Package) -> Result<Vec<(String, String)>> {
    let Some(directory) = package.manifest_path.parent() else { return Ok(Vec::new()) };
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
        if NAMES.iter().any(|start| name.starts_with(start)) {
            files.insert(entry.path());
        }
    }
    files.extend(package.license_file.iter().map(|file| directory.join(file)));
    files.retain(|path| path.is_file());
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, String::from_utf8_lossy(&fs::read(&path)?).trim().replace("\r\n", "\n")))
    };
    files.into_iter().map(read).collect()
}

fn render(entries: &[Entry<'_>]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    let mut list = String::new();
    for Entry { package, texts } in entries {
        list.push_str(&format!("\n{} {}\n", package.name, package.version));
        list.push_str(&format!("  licence: {}\n", package.license.as_deref().unwrap_or("see its texts")));
        if !package.authors.is_empty() {
            list.push_str(&format!("  authors: {}\n", package.authors.join(", ")));
        }
        if let Some(repository) = &package.repository {
            list.push_str(&format!("  source: {repository}\n"));
        }
        for (name, text) in texts {
            let number = distinct.iter().position(|known| known == text).unwrap_or_else(|| {
                distinct.push(text);
                distinct.len() - 1
            });
            list.push_str(&format!("  {name}: text {}\n", number + 1));
        }
        if texts.is_empty() {
            list.push_str("  the package carries no licence file\n");
        }
    }
    let mut out = format!(
        "gpuforge contains the work of others: {} packages.\n\
         Each is listed with its licence; the texts follow, each once, by number.\n{list}",
        entries.len()
    );
    for (index, text) in distinct.iter().enumerate() {
        out.push_str(&format!("\n{}\ntext {}\n{}\n\n{text}\n", "=".repeat(72), index + 1, "=".repeat(72)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::tests::package;

    #[test]
    fn equal_texts_are_printed_once() {
        let home = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[(&str, &str)]| {
            let directory = home.path().join(name);
            fs::create_dir(&directory).unwrap();
            for (file, text) in files {
                fs::write(directory.join(file), text).unwrap();
            }
            Package { manifest_path: directory.join("Cargo.toml"), ..package(name, "1.0.0", Some("MIT")) }
        };
        let a = make("a", &[("LICENSE-MIT", "be nice\r\n"), ("README.md", "not a licence")]);
        let b = make("b", &[("license", "be nice"), ("COPYING", "take it")]);
        let c = make("c", &[]);
        let text = text(&[&a, &b, &c]).unwrap();
        assert_eq!(text.matches("be nice").count(), 1, "{text}");
        assert!(text.contains("LICENSE-MIT: text 1") && text.contains("license: text 1"));
        assert!(text.contains("COPYING: text 2") && text.contains("take it"));
        assert!(text.contains("carries no licence file") && text.contains("3 packages"));
        assert!(text.contains("authors: A. Author") && !text.contains("not a licence"));
    }
}
