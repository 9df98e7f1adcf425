//! Release packages: `cargo xtask dist` makes the archive of this machine, `--all` every package of every target it has tools for.
//!
//! ```text
//! target ─┬─ gpuforge-cli ─▶ executable ─▶ checked ─┬─▶ archive ─┐
//!         │                                         └─▶ .deb     ├─▶ one directory ─▶ manifests, SBOM, SHA256SUMS
//!         └─ gpuforge-python ─▶ wheel ─▶ checked, installed ─────┘
//! ```
//! | file | what is in it |
//! |---|---|
//! | `archive.rs`, `deb.rs` | containers and layout of archives and Debian packages |
//! | `binary.rs` | what an executable needs: architecture, C library, static or not; running it, perhaps emulated |
//! | `wheel.rs`, `wheel_test.rs` | building and checking wheels; installing them, and Pythons of other machines |
//! | `manifests.rs` | Homebrew, Scoop, conda, OCI |
//! | `sbom.rs` | CycloneDX |
//! | `crates.rs` | packages for the registry of crates |
//!
//! docs/packaging.md says what each package is and what was never run.

pub(crate) mod archive;
mod binary;
mod crates;
mod deb;
mod manifests;
mod sbom;
mod wheel;
mod wheel_test;

use crate::{
    cross,
    debian::{self, Needed},
    metadata, python, sh,
};
use anyhow::{Context as _, Result, bail};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Arguments of `cargo xtask dist`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make every package: archives, .deb, wheels, manifests, SBOM [default: the archive of this machine]
    #[arg(long)]
    all: bool,
    /// Only this target of the table; may be repeated
    #[arg(long = "target", value_name = "TARGET", requires = "all")]
    targets: Vec<String>,
    /// Only this kind; may be repeated
    #[arg(long, value_name = "KIND", requires = "all")]
    only: Vec<Kind>,
    /// Build nothing: write manifests, SBOM and checksums of the files that are in the output directory
    #[arg(long, conflicts_with = "all")]
    collect: bool,
    /// Package every public crate, as the registry wants it, and nothing else
    #[arg(long, conflicts_with_all = ["all", "collect"])]
    crates: bool,
    /// Output directory [default: dist in cargo's target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Address of the directory that will have the files
    #[arg(long, value_name = "URL", env = "GPUFORGE_RELEASE_URL")]
    base_url: Option<String>,
    /// Install nothing: a target whose tools are missing is skipped
    #[arg(long)]
    no_install: bool,
    /// Check wheels without running the tests of the package
    #[arg(long)]
    no_test: bool,
}

/// What is built for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Archive, and .deb where the target has one
    Archive,
    /// Python wheel
    Wheel,
}

/// A target and how it is built.
struct DistTarget<'a> {
    triple: &'a str,
    toolchain: Toolchain,
    /// Debian's name of the architecture.
    deb: Option<&'static str>,
    /// Platform tag of the wheel, as maturin takes it.
    wheel: Option<&'static str>,
}

/// Compiler and linker of C code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Toolchain {
    /// Zig, which brings headers and stubs of every C library; `glibc` is the oldest version that the result runs on.
    Zig { glibc: Option<&'static str> },
    /// A cross compiler of Debian.
    Debian(Needed),
    /// That of the machine, whose target it must be.
    Native,
}

/// The oldest glibc of a supported enterprise distribution's wheels (manylinux2014).
const GLIBC: &str = "2.17";
const MINGW: Needed = Needed { program: "x86_64-w64-mingw32-gcc", packages: &["gcc-mingw-w64-x86-64"] };
const DPKG: Needed = Needed { program: "dpkg-deb", packages: &["dpkg"] };

const TARGETS: [DistTarget<'static>; 6] = [
    DistTarget {
        triple: "x86_64-unknown-linux-gnu",
        toolchain: Toolchain::Zig { glibc: Some(GLIBC) },
        deb: Some("amd64"),
        wheel: Some("manylinux2014"),
    },
    DistTarget {
        triple: "aarch64-unknown-linux-gnu",
        toolchain: Toolchain::Zig { glibc: Some(GLIBC) },
        deb: Some("arm64"),
        wheel: Some("manylinux2014"),
    },
    DistTarget {
        triple: "x86_64-unknown-linux-musl",
        toolchain: Toolchain::Zig { glibc: None },
        deb: None,
        wheel: Some("musllinux_1_2"),
    },
    DistTarget {
        triple: "x86_64-pc-windows-gnu",
        toolchain: Toolchain::Debian(MINGW),
        deb: None,
        wheel: Some("pypi"),
    },
    DistTarget {
        triple: "x86_64-pc-windows-msvc",
        toolchain: Toolchain::Native,
        deb: None,
        wheel: Some("pypi"),
    },
    DistTarget {
        triple: "aarch64-apple-darwin",
        toolchain: Toolchain::Native,
        deb: None,
        wheel: Some("pypi"),
    },
];

/// Stands where nobody has said yet where releases are published; the domain is reserved and never resolves.
const NOWHERE: &str = "https://gpuforge.invalid";

/// Makes what is asked for; an error if something that was begun failed. What is skipped is said, not an error.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.crates {
        return crates::package();
    }
    let out = args.out.clone().unwrap_or_else(|| sh::target().join("dist"));
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut session =
        Session { args, out: fs::canonicalize(out)?, host: sh::host()?, companions: None, tools: None };
    if args.collect {
        return session.collect(true);
    }
    if !args.all {
        let host = session.host.clone();
        let target = DistTarget { triple: &host, toolchain: Toolchain::Native, deb: None, wheel: None };
        let rows = session.programs(&target)?;
        print_rows(&rows);
        return session.collect(false);
    }
    let known = || TARGETS.iter().map(|target| target.triple);
    if let Some(unknown) = args.targets.iter().find(|wanted| !known().any(|triple| triple == wanted.as_str()))
    {
        bail!(
            "{unknown} is not in the table of targets: {}\nhint: add a row to xtask/src/dist/mod.rs",
            known().collect::<Vec<_>>().join(", ")
        );
    }
    let wanted = |target: &&DistTarget<'_>| {
        args.targets.is_empty() || args.targets.iter().any(|wanted| wanted == target.triple)
    };
    let (mut rows, mut failed) = (Vec::new(), 0);
    for target in TARGETS.iter().filter(wanted) {
        for kind in [Kind::Archive, Kind::Wheel] {
            if !args.only.is_empty() && !args.only.contains(&kind) {
                continue;
            }
            let name =
                format!("{} for {}", if kind == Kind::Archive { "archive" } else { "wheel" }, target.triple);
            if let Err(why) = session.ready(target, kind) {
                rows.push(Row { name, bytes: None, checks: format!("skipped: {why}") });
                continue;
            }
            let made = match kind {
                Kind::Archive => session.programs(target),
                Kind::Wheel => session.wheel(target),
            };
            match made {
                Ok(made) => rows.extend(made),
                Err(error) => {
                    failed += 1;
                    eprintln!("error: {name}: {error:#}");
                    rows.push(Row { name, bytes: None, checks: format!("FAILED: {}", first_line(&error)) });
                }
            }
        }
    }
    print_rows(&rows);
    if rows.iter().any(|row| row.bytes.is_some()) {
        session.collect(true)?;
    }
    match failed {
        0 => Ok(()),
        some => bail!("{some} packages failed, see above"),
    }
}

fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

/// A file that was made, or why it was not.
struct Row {
    name: String,
    bytes: Option<u64>,
    checks: String,
}

impl Row {
    fn of(path: &Path, checks: String) -> Result<Row> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Row { name, bytes: Some(fs::metadata(path)?.len()), checks })
    }
}

fn print_rows(rows: &[Row]) {
    println!("\n| file | MB | checked |\n|---|---|---|");
    for Row { name, bytes, checks } in rows {
        let size = bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.2}", bytes as f64 / 1e6));
        println!("| {name} | {size} | {checks} |");
    }
}

/// What one run shares between its targets.
struct Session<'a> {
    args: &'a Args,
    out: PathBuf,
    host: String,
    companions: Option<archive::Companions>,
    /// Zig, maturin and auditwheel in a virtual environment, or why there are none.
    tools: Option<Result<python::Venv, String>>,
}

impl Session<'_> {
    /// Has this machine what the target needs? Else why not.
    fn ready(&mut self, target: &DistTarget<'_>, kind: Kind) -> Result<(), String> {
        let no_install = self.args.no_install;
        match target.toolchain {
            Toolchain::Native if self.host != target.triple => {
                return Err(format!("is built on its own system only, this is {}", self.host));
            }
            Toolchain::Debian(needed) => debian::ensure(&[needed], no_install)?,
            Toolchain::Zig { .. } | Toolchain::Native => {}
        }
        cross::add_rust_target(target.triple, no_install)?;
        if kind == Kind::Wheel || matches!(target.toolchain, Toolchain::Zig { .. }) {
            self.tools()?;
        }
        Ok(())
    }

    fn tools(&mut self) -> Result<&python::Venv, String> {
        let no_install = self.args.no_install;
        self.tools.get_or_insert_with(|| wheel::tools(no_install)).as_ref().map_err(Clone::clone)
    }

    /// Builds the executable of a target and packs it.
    fn programs(&mut self, target: &DistTarget<'_>) -> Result<Vec<Row>> {
        let executable = self.build(target)?;
        let seen = binary::check(target, &executable)?;
        if self.companions.is_none() {
            let runnable = match sh::works(Command::new(&executable).arg("--version")) {
                true => executable.clone(),
                // The table of commands is the same for every target.
                false => sh::executable(&sh::build(&["gpuforge-cli"], &[], false)?, "gpuforge")?,
            };
            self.companions = Some(archive::Companions::generate(&runnable)?);
        }
        let Some(companions) = &self.companions else { bail!("no man pages") };
        let metadata = metadata::load(Some(target.triple))?;
        let made = archive::write(&self.out, target.triple, &executable, companions, &metadata)?;
        let mut rows = vec![Row::of(&made, seen)?];
        if let (Some(architecture), Toolchain::Zig { glibc: Some(glibc) }) = (target.deb, target.toolchain) {
            let made = deb::write(&self.out, architecture, glibc, &executable, companions, &metadata)?;
            let seen = deb::check(&made, self.args.no_install)?;
            rows.push(Row::of(&made, seen)?);
        }
        Ok(rows)
    }

    fn build(&mut self, target: &DistTarget<'_>) -> Result<PathBuf> {
        // `--bin`: the library of the package would be compiled to object code as well.
        let profile = ["--profile", "dist", "--package", "gpuforge-cli", "--bin", "gpuforge"];
        let command = match target.toolchain {
            Toolchain::Zig { glibc } => {
                let tools = self.tools().map_err(anyhow::Error::msg)?;
                let suffix = glibc.map_or_else(String::new, |version| format!(".{version}"));
                let mut command = sh::cargo(["zigbuild", "--target"]);
                command
                    .arg(format!("{}{suffix}", target.triple))
                    .args(profile)
                    .env("PATH", path_with(tools)?);
                command
            }
            // Without `--target`, as every other build of this machine: dependencies are compiled once.
            Toolchain::Native => {
                let mut command = sh::cargo(["build"]);
                command.args(profile);
                command
            }
            Toolchain::Debian(_) => {
                let mut command = sh::cargo(["build", "--target", target.triple]);
                command.args(profile);
                command
            }
        };
        sh::executable(&sh::built(command)?, "gpuforge")
    }

    /// Builds the wheel of a target, checks and installs it.
    fn wheel(&mut self, target: &DistTarget<'_>) -> Result<Vec<Row>> {
        let Some(platform) = target.wheel else { return Ok(Vec::new()) };
        let (no_test, no_install) = (self.args.no_test, self.args.no_install);
        let (out, host) = (self.out.clone(), self.host.clone());
        let tools = self.tools().map_err(anyhow::Error::msg)?;
        let made = wheel::build(target, platform, tools, &out)?;
        let mut seen = wheel::check(&made, target, tools)?;
        seen.extend(wheel_test::run(&made, target.triple, &host, no_test, no_install)?);
        wheel::check_size(&made, &seen)?;
        Ok(vec![Row::of(&made, seen.join("; "))?])
    }

    /// Writes what describes the files of the output directory.
    fn collect(&self, manifests: bool) -> Result<()> {
        let metadata = metadata::load(None).or_else(|_| metadata::load(Some(&self.host)))?;
        let package = metadata.member("gpuforge-cli")?;
        if manifests {
            let homepage = package.repository.as_deref().unwrap_or(NOWHERE);
            let base = format!("{homepage}/releases/download/v{}", package.version);
            let base = self.args.base_url.as_deref().unwrap_or(&base);
            if base.starts_with(NOWHERE) {
                println!("manifests name {NOWHERE}: give --base-url, or set `repository` in Cargo.toml");
            }
            manifests::Release::of(&self.out, &package.version, homepage, base)?.write(&self.out)?;
            sbom::write(&self.out, &metadata)?;
        }
        let sums = self.out.join("SHA256SUMS");
        fs::write(&sums, checksums(&self.out)?)?;
        println!("{}", sums.display());
        Ok(())
    }
}

/// One line per file of the directory, as `sha256sum -c` reads it.
fn checksums(directory: &Path) -> Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if entry.is_file() && name != "SHA256SUMS" {
            lines.push((name.to_string_lossy().into_owned(), archive::sha256(&entry)?));
        }
    }
    lines.sort();
    Ok(lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect())
}

/// PATH with the programs of a virtual environment first: cargo-zigbuild and maturin look for Zig there.
fn path_with(tools: &python::Venv) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(std::iter::once(tools.programs()).chain(env::split_paths(&path)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_files() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("b.whl"), "abc").unwrap();
        fs::write(home.path().join("a.tar.gz"), "").unwrap();
        fs::write(home.path().join("SHA256SUMS"), "old").unwrap();
        fs::create_dir(home.path().join("directory")).unwrap();
        assert_eq!(
            checksums(home.path()).unwrap(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a.tar.gz\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b.whl\n"
        );
    }

    #[test]
    fn every_target_is_there_once_and_debs_have_a_glibc() {
        let mut triples: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
        triples.sort_unstable();
        triples.dedup();
        assert_eq!(triples.len(), TARGETS.len());
        for target in TARGETS.iter().filter(|target| target.deb.is_some()) {
            assert!(matches!(target.toolchain, Toolchain::Zig { glibc: Some(_) }), "{}", target.triple);
        }
    }
}
