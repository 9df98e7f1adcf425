//! Manifests of other package managers, from the archives that lie in the output directory: Homebrew formula, Scoop manifest, conda
//! recipe, and the Containerfile of an OCI image.
//!
//! Each names files by address and SHA-256. Only archives that are there are named: a manifest of one machine's targets is
//! complete when the archives of the others are put beside them (`cargo xtask dist --collect`).

use super::archive::sha256;
use anyhow::{Result, ensure};
use serde_json::json;
use std::{fs, path::Path};

const SUMMARY: &str = "Finds the compute of a machine and runs work where it is fastest";
const LICENCE: &str = "MIT OR Apache-2.0";

/// Where a release is published, and what is in it.
pub(super) struct Release {
    pub(super) version: String,
    /// Address of the project.
    pub(super) homepage: String,
    /// Address of the directory that has the files.
    pub(super) base_url: String,
    pub(super) archives: Vec<Published>,
}

/// One archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) triple: String,
    pub(super) file: String,
    pub(super) sha256: String,
}

impl Release {
    /// The archives of this version in a directory.
    pub(super) fn of(directory: &Path, version: &str, homepage: &str, base_url: &str) -> Result<Release> {
        let mut archives = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let stem = file.strip_suffix(".tar.gz").or_else(|| file.strip_suffix(".zip"));
            if let Some(triple) = stem.and_then(|stem| stem.strip_prefix(&format!("gpuforge-{version}-"))) {
                let sha256 = sha256(&entry.path())?;
                archives.push(Published { triple: triple.to_owned(), file: file.clone(), sha256 });
            }
        }
        archives.sort_by(|a, b| a.file.cmp(&b.file));
        ensure!(!archives.is_empty(), "no archive of gpuforge {version} in {}", directory.display());
        Ok(Release {
            version: version.to_owned(),
            homepage: homepage.to_owned(),
            base_url: base_url.trim_end_matches('/').to_owned(),
            archives,
        })
    }

    /// Writes every manifest whose archives are there and returns their file names.
    pub(super) fn write(&self, directory: &Path) -> Result<Vec<&'static str>> {
        let files = [
            ("gpuforge.rb", self.homebrew()),
            ("gpuforge.json", self.scoop()?),
            ("recipe.yaml", self.conda()),
            ("Containerfile", self.containerfile()),
        ];
        let mut written = Vec::new();
        for (name, text) in files {
            if let Some(text) = text {
                fs::write(directory.join(name), text)?;
                written.push(name);
            }
        }
        Ok(written)
    }

    /// The first of these targets that has an archive.
    fn find(&self, triples: &[&str]) -> Option<&Published> {
        triples.iter().find_map(|wanted| self.archives.iter().find(|archive| archive.triple == *wanted))
    }

    fn url(&self, archive: &Published) -> String {
        format!("{}/{}", self.base_url, archive.file)
    }

    /// Homebrew: a formula that unpacks an archive, on macOS and Linux.
    fn homebrew(&self) -> Option<String> {
        let systems: [(&str, &str, &[&str]); 3] = [
            ("on_macos", "on_arm", &["aarch64-apple-darwin"]),
            ("on_linux", "on_intel", &["x86_64-unknown-linux-gnu"]),
            ("on_linux", "on_arm", &["aarch64-unknown-linux-gnu"]),
        ];
        let mut blocks = String::new();
        for (system, cpu, triples) in systems {
            if let Some(archive) = self.find(triples) {
                blocks += &format!(
                    "\n  {system} do\n    {cpu} do\n      url \"{}\"\n      sha256 \"{}\"\n    end\n  end\n",
                    self.url(archive),
                    archive.sha256
                );
            }
        }
        if blocks.is_empty() {
            return None;
        }
        Some(format!(
            r##"class Gpuforge < Formula
  desc "{SUMMARY}"
  homepage "{}"
  version "{}"
  license any_of: ["MIT", "Apache-2.0"]
{blocks}
  def install
    bin.install "gpuforge"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/gpuforge.bash" => "gpuforge"
    fish_completion.install "completions/gpuforge.fish"
    zsh_completion.install "completions/_gpuforge"
    doc.install "README.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES.txt"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/gpuforge --version")
    assert_match "\"cpu\"", shell_output("#{{bin}}/gpuforge detect --json --no-cache")
  end
end
"##,
            self.homepage, self.version
        ))
    }

    /// Scoop: a manifest for Windows; `autoupdate` follows later releases by their checksums.
    fn scoop(&self) -> Result<Option<String>> {
        let Some(archive) = self.find(&["x86_64-pc-windows-msvc", "x86_64-pc-windows-gnu"]) else {
            return Ok(None);
        };
        let next = self.url(archive).replace(&self.version, "$version");
        let directory = archive.file.trim_end_matches(".zip");
        let manifest = json!({
            "version": self.version,
            "description": SUMMARY,
            "homepage": self.homepage,
            "license": "MIT|Apache-2.0",
            "architecture": { "64bit": {
                "url": self.url(archive),
                "hash": archive.sha256,
                "extract_dir": directory,
            }},
            "bin": "gpuforge.exe",
            "autoupdate": {
                "architecture": { "64bit": {
                    "url": next,
                    "extract_dir": directory.replace(&self.version, "$version"),
                }},
                "hash": { "url": "$baseurl/SHA256SUMS" },
            },
        });
        Ok(Some(serde_json::to_string_pretty(&manifest)? + "\n"))
    }

    /// conda: a recipe that repackages the archives, in the format of rattler-build.
    fn conda(&self) -> Option<String> {
        let platforms: [(&str, &[&str]); 4] = [
            ("linux and x86_64", &["x86_64-unknown-linux-gnu"]),
            ("linux and aarch64", &["aarch64-unknown-linux-gnu"]),
            ("osx and arm64", &["aarch64-apple-darwin"]),
            ("win", &["x86_64-pc-windows-msvc", "x86_64-pc-windows-gnu"]),
        ];
        let mut sources = String::new();
        for (condition, triples) in platforms {
            if let Some(archive) = self.find(triples) {
                sources += &format!(
                    "  - if: {condition}\n    then:\n      url: {}\n      sha256: {}\n",
                    self.url(archive),
                    archive.sha256
                );
            }
        }
        if sources.is_empty() {
            return None;
        }
        Some(format!(
            r#"context:
  version: "{}"

package:
  name: gpuforge
  version: ${{{{ version }}}}

source:
{sources}
build:
  number: 0
  dynamic_linking:
    binary_relocation: false
  script:
    - if: unix
      then:
        - mkdir -p "$PREFIX/bin" "$PREFIX/share/man/man1" "$PREFIX/share/bash-completion/completions"
        - cp gpuforge "$PREFIX/bin/gpuforge"
        - cp man/*.1 "$PREFIX/share/man/man1/"
        - cp completions/gpuforge.bash "$PREFIX/share/bash-completion/completions/gpuforge"
      else:
        - if not exist "%LIBRARY_BIN%" mkdir "%LIBRARY_BIN%"
        - copy gpuforge.exe "%LIBRARY_BIN%\gpuforge.exe"

tests:
  - script:
      - gpuforge --version
      - gpuforge detect --json --no-cache

about:
  homepage: {}
  summary: {SUMMARY}
  license: {LICENCE}
  license_file:
    - LICENSE-MIT
    - LICENSE-APACHE
    - THIRD-PARTY-LICENSES.txt
"#,
            self.version, self.homepage
        ))
    }

    /// OCI: `FROM scratch` with the static binary; build it in the directory that has the archive.
    fn containerfile(&self) -> Option<String> {
        let archive = self.find(&["x86_64-unknown-linux-musl"])?;
        let directory = archive.file.trim_end_matches(".tar.gz");
        let Release { version, homepage, .. } = self;
        Some(format!(
            r#"# podman build --platform linux/amd64 --tag gpuforge:{version} --file Containerfile .
# A static binary loads no driver library: it lists devices by kernel files and computes on the CPU.
FROM scratch
LABEL org.opencontainers.image.title="gpuforge" \
      org.opencontainers.image.version="{version}" \
      org.opencontainers.image.url="{homepage}" \
      org.opencontainers.image.licenses="{LICENCE}"
# A local archive is unpacked by ADD.
ADD {} /
ENV PATH="/{directory}" GPUFORGE_CACHE_DIR="/tmp/gpuforge" GPUFORGE_DATA_DIR="/tmp/gpuforge" GPUFORGE_CONFIG="/tmp/gpuforge/config.toml"
# Creates the directories: there is no other way without a shell.
WORKDIR /tmp
WORKDIR /data
ENTRYPOINT ["/{directory}/gpuforge"]
CMD ["detect"]
"#,
            archive.file
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(triples: &[&str]) -> (tempfile::TempDir, Release) {
        let home = tempfile::tempdir().unwrap();
        for triple in triples {
            let suffix = super::super::archive::Format::of(triple).suffix();
            fs::write(home.path().join(format!("gpuforge-1.2.3-{triple}{suffix}")), triple).unwrap();
        }
        fs::write(home.path().join("gpuforge-1.2.3-cp310-abi3-win_amd64.whl"), "a wheel").unwrap();
        fs::write(home.path().join("gpuforge-0.9.0-x86_64-unknown-linux-gnu.tar.gz"), "old").unwrap();
        let release = Release::of(home.path(), "1.2.3", "https://h.invalid", "https://h.invalid/d/v1.2.3/");
        (home, release.unwrap())
    }

    fn every() -> Vec<&'static str> {
        super::super::TARGETS.iter().map(|target| target.triple).collect()
    }

    #[test]
    fn only_archives_of_this_version_are_published_with_their_sums() {
        let (home, release) = release(&["x86_64-unknown-linux-gnu"]);
        let [archive] = release.archives.as_slice() else { panic!("{:?}", release.archives) };
        assert_eq!(archive.sha256, sha256(&home.path().join(&archive.file)).unwrap());
        assert_eq!(release.write(home.path()).unwrap(), ["gpuforge.rb", "recipe.yaml"]);
        assert!(Release::of(tempfile::tempdir().unwrap().path(), "1.2.3", "h", "b").is_err());
    }

    #[test]
    fn scoop_is_json_and_names_the_zip() {
        let (_home, release) = release(&every());
        let manifest: serde_json::Value = serde_json::from_str(&release.scoop().unwrap().unwrap()).unwrap();
        let bits = &manifest["architecture"]["64bit"];
        assert_eq!(bits["url"], "https://h.invalid/d/v1.2.3/gpuforge-1.2.3-x86_64-pc-windows-msvc.zip");
        assert_eq!(bits["extract_dir"], "gpuforge-1.2.3-x86_64-pc-windows-msvc");
        let next = &manifest["autoupdate"]["architecture"]["64bit"]["url"];
        assert_eq!(next, "https://h.invalid/d/v$version/gpuforge-$version-x86_64-pc-windows-msvc.zip");
    }

    #[test]
    fn the_conda_recipe_is_yaml_with_a_source_per_platform() {
        let (_home, release) = release(&every());
        let text = release.conda().unwrap();
        let recipe: serde_json::Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(recipe["context"]["version"], "1.2.3");
        assert_eq!(recipe["package"]["version"], "${{ version }}");
        let sources = recipe["source"].as_array().unwrap();
        assert_eq!(sources.len(), 4, "{text}");
        assert!(sources.iter().all(|s| s["then"]["sha256"].as_str().is_some_and(|sum| sum.len() == 64)));
        assert_eq!(recipe["tests"][0]["script"][0], "gpuforge --version");
    }

    #[test]
    fn the_formula_has_every_system_and_balanced_blocks() {
        let (_home, release) = release(&every());
        let text = release.homebrew().unwrap();
        let opened =
            text.lines().filter(|l| l.ends_with(" do") || l.starts_with("class") || l.contains("def "));
        let closed = text.lines().filter(|line| line.trim() == "end");
        assert_eq!(opened.count(), closed.count(), "{text}");
        assert_eq!(text.matches("sha256 \"").count(), 3);
        assert!(text.contains("#{bin}/gpuforge --version"), "{text}");
    }

    #[test]
    fn the_image_is_from_scratch_with_the_static_binary() {
        let (_home, release) = release(&every());
        let text = release.containerfile().unwrap();
        assert!(
            text.contains("FROM scratch\n")
                && text.contains("ADD gpuforge-1.2.3-x86_64-unknown-linux-musl.tar.gz /\n")
        );
        assert!(text.contains("ENTRYPOINT [\"/gpuforge-1.2.3-x86_64-unknown-linux-musl/gpuforge\"]"));
    }
}
