//! Release archive: `target/dist/gpuforge-VERSION-TARGET.tar.gz` and SHA256SUMS.
//!
//! Reproducible: the same sources and compiler give the same archive; entries are sorted, owned by root, with one fixed mtime.
//! Windows gets the same tar.gz (its `tar` unpacks it); a zip is not made.

use crate::{completions, man, metadata, sh, third_party};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

/// Files of the root directory in the archive.
const FILES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// 2000-01-01 UTC, unless SOURCE_DATE_EPOCH says otherwise.
const EPOCH: u64 = 946_684_800;

/// Builds the archive and prints its path and that of the checksums.
pub(crate) fn run() -> Result<()> {
    let target = sh::host()?;
    let metadata = metadata::load(Some(&target))?;
    let binary = sh::executable(&sh::build(&["gpuforge-cli"], &[], true)?, "gpuforge")?;
    let name = format!("gpuforge-{}-{target}", metadata.member("gpuforge-cli")?.version);
    let dist = metadata.target_directory.join("dist");
    let stage = dist.join(&name);
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    fs::create_dir_all(&stage)?;
    fs::copy(&binary, stage.join(format!("gpuforge{}", env::consts::EXE_SUFFIX)))?;
    for file in FILES {
        let from = sh::root().join(file);
        fs::copy(&from, stage.join(file)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    man::write(&binary, &stage.join("man"))?;
    completions::write(&binary, &stage.join("completions"))?;
    let licences = third_party::text(&metadata.shipped_with("gpuforge-cli")?)?;
    fs::write(stage.join("THIRD-PARTY-LICENSES.txt"), licences)?;

    let archive = dist.join(format!("{name}.tar.gz"));
    pack(&dist, &name, &archive)?;
    fs::remove_dir_all(&stage)?;
    let sums = dist.join("SHA256SUMS");
    fs::write(&sums, format!("{}  {name}.tar.gz\n", sha256(&archive)?))?;
    println!("{}\n{}", archive.display(), sums.display());
    Ok(())
}

/// Packs the directory `name` of `dist` reproducibly.
fn pack(dist: &Path, name: &str, archive: &Path) -> Result<()> {
    let time = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok()).unwrap_or(EPOCH);
    let entries = files(dist, Path::new(name))?;
    for entry in &entries {
        normalise(&dist.join(entry), time)?;
    }
    let gnu = sh::capture(Command::new("tar").arg("--version"))?.contains("GNU");
    let owner: &[&str] =
        if gnu { &["--owner=0", "--group=0", "--numeric-owner"] } else { &["--uid", "0", "--gid", "0"] };
    let mut tar = Command::new("tar");
    // Only files are listed, sorted; tar creates the directories when it unpacks.
    tar.current_dir(dist).args(["--format=ustar"]).args(owner).args(["-cf", "-"]).args(&entries);
    let mut tar = tar.stdout(Stdio::piped()).spawn().context("cannot start tar")?;
    let from = tar.stdout.take().context("tar has no output")?;
    let to = fs::File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?;
    let zipped = Command::new("gzip")
        .args(["-n", "-9"])
        .stdin(from)
        .stdout(to)
        .status()
        .context("cannot start gzip")?;
    let packed = tar.wait()?;
    ensure!(packed.success() && zipped.success(), "tar ({packed}) or gzip ({zipped}) failed");
    Ok(())
}

/// All files below a directory, as paths from `base`, sorted.
fn files(base: &Path, directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(base.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => found.extend(files(base, &path)?),
            false => found.push(path),
        }
    }
    found.sort();
    Ok(found)
}

/// Sets the mtime and the permissions that the archive records.
fn normalise(path: &Path, time: u64) -> Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let program = path.file_name().is_some_and(|name| name == "gpuforge");
        file.set_permissions(fs::Permissions::from_mode(if program { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}

/// SHA-256 by the system's tool: an implementation or a dependency would be too much for one line of output.
fn sha256(path: &Path) -> Result<String> {
    const TOOLS: [(&str, &[&str]); 2] = [("sha256sum", &[]), ("shasum", &["-a", "256"])];
    for (tool, args) in TOOLS {
        let Ok(text) = sh::capture(Command::new(tool).args(args).arg(path)) else { continue };
        let sum = text.split_whitespace().next().unwrap_or_default().trim_start_matches('\\');
        if sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(sum.to_owned());
        }
    }
    bail!("neither sha256sum nor shasum could hash {}", path.display())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive() {
        let sum = |order: &[&str]| {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir_all(home.path().join("gpuforge-1/man")).unwrap();
            for name in order {
                fs::write(home.path().join("gpuforge-1").join(name), name).unwrap();
            }
            let archive = home.path().join("a.tar.gz");
            pack(home.path(), "gpuforge-1", &archive).unwrap();
            let list = sh::capture(Command::new("tar").arg("-tzf").arg(&archive)).unwrap();
            (sha256(&archive).unwrap(), list)
        };
        let (first, list) = sum(&["gpuforge", "README.md", "man/gpuforge.1"]);
        let (second, _) = sum(&["man/gpuforge.1", "README.md", "gpuforge"]);
        assert_eq!(first, second);
        assert_eq!(list, "gpuforge-1/README.md\ngpuforge-1/gpuforge\ngpuforge-1/man/gpuforge.1\n");
    }

    #[test]
    fn known_sums() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("abc");
        fs::write(&file, "abc").unwrap();
        assert_eq!(
            sha256(&file).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(sha256(&home.path().join("missing")).is_err());
    }
}
