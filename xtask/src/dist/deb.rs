//! Debian package: `ar` of control.tar.gz and data.tar.gz, written without Debian's tools and read back by them where they are.

use super::archive::{Companions, Entry, gzip, tar};
use crate::{metadata::Metadata, sh, third_party};
use anyhow::{Context as _, Result, ensure};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where each shell looks for completions of packages; elvish and PowerShell have no such directory.
const COMPLETIONS: [(&str, &str); 3] = [
    ("gpuforge.bash", "usr/share/bash-completion/completions/gpuforge"),
    ("gpuforge.fish", "usr/share/fish/vendor_completions.d/gpuforge.fish"),
    ("_gpuforge", "usr/share/zsh/vendor-completions/_gpuforge"),
];

/// Nobody answers there yet: policy wants an address, and the reserved domain says that it is none.
const MAINTAINER: &str = "The gpuforge developers <maintainers@gpuforge.invalid>";

/// Writes the package of one Debian architecture into `out` and returns its path.
pub(super) fn write(
    out: &Path,
    architecture: &str,
    glibc: &str,
    binary: &Path,
    companions: &Companions,
    metadata: &Metadata,
) -> Result<PathBuf> {
    let version = &metadata.member("gpuforge-cli")?.version;
    let licences = third_party::text(&metadata.shipped_with("gpuforge-cli")?)?;
    let files = files(version, &fs::read(binary)?, companions, &licences)?;
    let control = control(version, architecture, glibc, &files);
    let path = out.join(format!("gpuforge_{version}_{architecture}.deb"));
    fs::write(&path, pack(&control, &files)?)?;
    Ok(path)
}

/// The installed files, sorted, without their directories.
fn files(version: &str, binary: &[u8], companions: &Companions, licences: &str) -> Result<Vec<Entry>> {
    let root =
        |name: &str| fs::read_to_string(sh::root().join(name)).with_context(|| format!("cannot read {name}"));
    let doc = "usr/share/doc/gpuforge";
    let copyright = format!(
        "Copyright: the gpuforge developers\n\ngpuforge is under the MIT or the Apache-2.0 licence, at your choice.\n\n{}",
        root("LICENSE-MIT")?
    );
    let copyright = copyright
        + "\nOn Debian systems the Apache licence is in /usr/share/common-licenses/Apache-2.0.\n\
           What gpuforge is linked with is in THIRD-PARTY-LICENSES.txt.gz beside this file.\n";
    let mut files = vec![
        Entry::program("usr/bin/gpuforge", binary),
        Entry::file(format!("{doc}/copyright"), copyright),
        Entry::file(format!("{doc}/changelog.gz"), gzip(changelog(version).as_bytes())?),
        Entry::file(format!("{doc}/CHANGELOG.md.gz"), gzip(root("CHANGELOG.md")?.as_bytes())?),
        Entry::file(format!("{doc}/THIRD-PARTY-LICENSES.txt.gz"), gzip(licences.as_bytes())?),
    ];
    for (name, page) in &companions.man {
        files.push(Entry::file(format!("usr/share/man/man1/{name}.gz"), gzip(page)?));
    }
    for (name, script) in &companions.completions {
        if let Some((_, path)) = COMPLETIONS.iter().find(|(known, _)| known == name) {
            files.push(Entry::file(*path, script.clone()));
        }
    }
    files.sort();
    Ok(files)
}

/// In Debian's format, with the date of the archive's files: ours is CHANGELOG.md.
fn changelog(version: &str) -> String {
    format!(
        "gpuforge ({version}) unstable; urgency=medium\n\n  * What changed is in CHANGELOG.md.gz beside this file.\n\n \
         -- {MAINTAINER}  Sat, 01 Jan 2000 00:00:00 +0000\n"
    )
}

fn control(version: &str, architecture: &str, glibc: &str, files: &[Entry]) -> String {
    let kib: usize = files.iter().map(|file| file.data.len().div_ceil(1024)).sum();
    format!(
        "Package: gpuforge\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\n\
         Depends: libc6 (>= {glibc})\n\
         Recommends: libvulkan1\n\
         Section: science\n\
         Priority: optional\n\
         Description: finds the compute of a machine and runs work where it is fastest\n \
         gpuforge lists GPUs and CPU, diagnoses drivers and environments, explains logs,\n \
         and computes technical indicators of market data on the fastest backend that\n \
         a measurement finds.\n"
    )
}

/// The package: directories are listed before their files, as dpkg expects.
fn pack(control: &str, files: &[Entry]) -> Result<Vec<u8>> {
    let mut directories = BTreeSet::from(["./".to_owned()]);
    for file in files {
        let parents = Path::new(&file.path).ancestors().skip(1).filter(|path| *path != Path::new(""));
        directories.extend(parents.map(|path| format!("./{}/", path.display())));
    }
    let mut data: Vec<Entry> = directories.into_iter().map(Entry::directory).collect();
    data.extend(files.iter().map(|file| Entry { path: format!("./{}", file.path), ..file.clone() }));
    data.sort();
    // No md5sums: dpkg makes them when it unpacks.
    let about = [Entry::directory("./"), Entry::file("./control", control)];
    Ok(ar(&[
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&about)?)?),
        ("data.tar.gz", gzip(&tar(&data)?)?),
    ]))
}

/// The `ar` container: 60 bytes of header per member, padded to even length.
fn ar(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, data) in members {
        let time = super::archive::time();
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, data.len());
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(data);
        if data.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

/// Reads the package back with `dpkg-deb`, and with lintian where it is installed; says what was checked.
pub(super) fn check(package: &Path, no_install: bool) -> Result<String> {
    let dpkg = |args: &[&str]| sh::capture(Command::new("dpkg-deb").args(args).arg(package));
    if crate::debian::ensure(&[super::DPKG], no_install).is_err() {
        return Ok("not read back: no dpkg-deb".to_owned());
    }
    let about = dpkg(&["-f"])?;
    for field in ["Package: gpuforge", "Maintainer: ", "Depends: libc6", "Installed-Size: ", "Description: "]
    {
        ensure!(about.contains(field), "`{field}` is missing in {}:\n{about}", package.display());
    }
    let list = dpkg(&["-c"])?;
    check_listing(&list)?;
    Ok(format!("dpkg-deb: {} entries, root:root, 0755 and 0644; {}", list.lines().count(), lint(package)?))
}

/// Errors of lintian fail; without lintian the checks above stand alone.
fn lint(package: &Path) -> Result<String> {
    if !sh::works(Command::new("lintian").arg("--version")) {
        return Ok("no lintian".to_owned());
    }
    let output =
        Command::new("lintian").args(["--allow-root", "--fail-on", "error"]).arg(package).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "lintian: {}", text.trim());
    let warnings = text.lines().filter(|line| line.starts_with("W:")).count();
    Ok(format!("lintian: no errors, {warnings} warnings"))
}

/// What lintian would say first: owners, modes, and files that every package has.
fn check_listing(list: &str) -> Result<()> {
    for line in list.lines() {
        ensure!(line.contains(" root/root "), "not owned by root: {line}");
        let mode = line.get(..10).unwrap_or_default();
        ensure!(["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"].contains(&mode), "unusual mode: {line}");
        ensure!(
            !mode.contains('x') || mode.starts_with('d') || line.contains("/usr/bin/"),
            "executable: {line}"
        );
    }
    for path in
        ["./usr/bin/gpuforge", "doc/gpuforge/copyright", "doc/gpuforge/changelog.gz", "man1/gpuforge.1.gz"]
    {
        ensure!(list.lines().any(|line| line.ends_with(path)), "{path} is missing:\n{list}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn companions() -> Companions {
        let pair = |name: &str| (name.to_owned(), b"text\n".to_vec());
        Companions {
            man: vec![pair("gpuforge.1")],
            completions: ["gpuforge.bash", "gpuforge.elv", "gpuforge.fish", "_gpuforge"].map(pair).to_vec(),
        }
    }

    #[test]
    fn dpkg_reads_the_package() {
        let files = files("1.2.3", b"program", &companions(), "licences").unwrap();
        let control = control("1.2.3", "amd64", "2.17", &files);
        let home = tempfile::tempdir().unwrap();
        let package = home.path().join("gpuforge_1.2.3_amd64.deb");
        fs::write(&package, pack(&control, &files).unwrap()).unwrap();
        if !sh::works(Command::new("dpkg-deb").arg("--version")) {
            return println!("skipped: no dpkg-deb");
        }
        // Not `check`: lintian would ask why the program is no ELF file.
        check_listing(&sh::capture(Command::new("dpkg-deb").arg("-c").arg(&package)).unwrap()).unwrap();
        let about = sh::capture(Command::new("dpkg-deb").arg("-f").arg(&package)).unwrap();
        assert!(about.contains("Architecture: amd64\n") && about.contains("libc6 (>= 2.17)"), "{about}");
        let root = home.path().join("root");
        sh::capture(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root)).unwrap();
        assert_eq!(fs::read(root.join("usr/bin/gpuforge")).unwrap(), b"program");
    }

    #[test]
    fn a_bad_listing_is_refused() {
        let good = "-rwxr-xr-x root/root 1 2000-01-01 00:00 ./usr/bin/gpuforge\n\
                    -rw-r--r-- root/root 1 2000-01-01 00:00 ./usr/share/doc/gpuforge/copyright\n\
                    -rw-r--r-- root/root 1 2000-01-01 00:00 ./usr/share/doc/gpuforge/changelog.gz\n\
                    -rw-r--r-- root/root 1 2000-01-01 00:00 ./usr/share/man/man1/gpuforge.1.gz\n";
        assert!(check_listing(good).is_ok());
        assert!(check_listing(&good.replacen("root/root", "me/users", 1)).is_err());
        assert!(check_listing(&good.replace("-rw-r--r--", "-rwxr-xr-x")).is_err());
        assert!(check_listing(&good.replace("copyright", "other")).is_err());
    }
}
