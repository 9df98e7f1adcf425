//! Wheels installed: into fresh virtual environments of the oldest and the newest Python here, or imported by Debian's arm64 Python
//! under QEMU. Tests run from a copy outside the repository, so that nothing of the sources is imported.

use crate::{
    debian, python,
    python::{TEST, Venv},
    sh,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Deadline for downloading packages.
const LIMIT: Duration = Duration::from_secs(600);

/// Names a CPython that is linked with musl and has NumPy, for the wheel of musl.
const MUSL_PYTHON: &str = "GPUFORGE_MUSL_PYTHON";

/// Imports the package, computes, and calls the command line; prints one line.
const SMOKE: &str = "\
import platform, sys
import numpy as np
import gpuforge, gpuforge.talib as talib
close = np.linspace(90.0, 110.0, 400) + np.sin(np.arange(400.0))
bars = dict(open=close, high=close + 1, low=close - 1, close=close, volume=close)
rsi = np.asarray(gpuforge.indicators(bars, 'rsi(14), macd(12,26,9)')['rsi_14'])
assert np.isnan(rsi[:14]).all() and (rsi[14:] > 50).any(), rsi[:20]
assert np.allclose(talib.RSI(close, 14, precision='exact')[14:], rsi[14:], rtol=0, atol=1e-9)
from gpuforge._gpuforge import cli_main
assert cli_main([sys.executable, '-m', 'gpuforge'], ['--version']) == 0
print(platform.python_version(), platform.machine())
";

/// Installs or imports a wheel as far as this machine can, and says what was seen.
pub(super) fn run(
    wheel: &Path,
    triple: &str,
    host: &str,
    no_test: bool,
    no_install: bool,
) -> Result<Vec<String>> {
    let system = |triple: &str| triple.rsplit_once('-').map(|(system, _)| system.to_owned());
    let runs_here = match triple {
        musl if musl.ends_with("musl") => musl == host,
        _ => system(triple) == system(host),
    };
    if runs_here {
        return pythons().iter().map(|python| installed(wheel, python, no_test)).collect();
    }
    if triple == "aarch64-unknown-linux-gnu" && host.contains("linux") {
        return Ok(vec![match arm64_root(no_install) {
            Ok(root) => imported_under_qemu(wheel, &root)?,
            Err(why) => format!("not imported: {why}"),
        }]);
    }
    if triple.ends_with("musl")
        && let Some(python) = env::var_os(MUSL_PYTHON)
    {
        return Ok(vec![imported_by(&mut Command::new(python), wheel)?]);
    }
    Ok(vec![format!("not imported: no Python of {triple} here")])
}

/// CPython 3.10 and the newest one, where they differ; from PATH and pyenv.
fn pythons() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    if let Some(versions) = pyenv.and_then(|root| fs::read_dir(root.join("versions")).ok()) {
        directories.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let works = |python: &PathBuf| sh::works(Command::new(python).args(["-c", "import venv, ssl"]));
    let find = |minor: u32| {
        let name = format!("python3.{minor}{}", env::consts::EXE_SUFFIX);
        directories.iter().map(|directory| directory.join(&name)).find(works)
    };
    let newest = (11..20).rev().find_map(find);
    let found: Vec<PathBuf> = find(10).into_iter().chain(newest).collect();
    match found.is_empty() {
        true => python::interpreter().map(PathBuf::from).into_iter().collect(),
        false => found,
    }
}

/// Installs into a fresh environment, calls the script, runs the tests.
fn installed(wheel: &Path, python: &Path, no_test: bool) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let venv = Venv::new(python, directory.path())?;
    venv.install(&[wheel.to_string_lossy().as_ref()])?;
    let outside = directory.path().join("outside");
    fs::create_dir(&outside)?;
    let command = |name: &str| {
        let mut command = venv.command(name);
        command.current_dir(&outside).env("GPUFORGE_CACHE_DIR", directory.path().join("cache"));
        command
            .env("GPUFORGE_DATA_DIR", directory.path().join("data"))
            .env("GPUFORGE_CONFIG", directory.path().join("config.toml"));
        command
    };
    let smoke = sh::capture(command("python").args(["-c", SMOKE]))?;
    let version = smoke.lines().last().unwrap_or_default().to_owned();
    let found = sh::capture(command("gpuforge").args(["detect", "--json", "--no-cache"]))?;
    let found: serde_json::Value = serde_json::from_str(&found).context("`gpuforge detect --json`")?;
    ensure!(found.get("cpu").is_some_and(|cpu| !cpu.is_null()), "`gpuforge detect` found no CPU: {found}");
    if no_test {
        return Ok(format!("installed in {version}"));
    }
    if venv.install(&TEST).is_err() {
        return Ok(format!("installed in {version}, tests skipped: no {}", TEST.join(", ")));
    }
    let tests = copy_tests(&outside)?;
    let output = sh::tee(command("python").args(["-m", "pytest", "-p", "no:cacheprovider"]).arg(&tests))?;
    let counts = output.text.lines().rev().find(|line| line.contains(" passed") || line.contains(" failed"));
    let counts = counts.unwrap_or("no test ran").trim_matches(['=', ' ']).to_owned();
    ensure!(output.ok, "{version}: {counts}");
    Ok(format!("installed in {version}: {counts}"))
}

/// Copies the tests and the data they read, in the layout they expect, and returns their directory.
fn copy_tests(to: &Path) -> Result<PathBuf> {
    const COPIED: [&str; 4] = [
        "crates/gpuforge-python/tests",
        "crates/gpuforge-python/tools",
        "crates/gpuforge-python/pyproject.toml",
        "crates/gpuforge-indicators/tests/talib_defaults.txt",
    ];
    for path in COPIED {
        copy(&sh::root().join(path), &to.join(path)).with_context(|| format!("cannot copy {path}"))?;
    }
    Ok(to.join("crates/gpuforge-python/tests/python"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to)?;
    Ok(())
}

/// Debian's arm64 Python with NumPy, unpacked below the target directory and kept; nothing of the system is changed.
fn arm64_root(no_install: bool) -> Result<PathBuf, String> {
    let qemu = debian::Needed { program: "qemu-aarch64-static", packages: &["qemu-user-static"] };
    debian::ensure(&[qemu, super::DPKG], no_install)?;
    let root = sh::target().join("dist-arm64");
    if root.join("complete").is_file() {
        return Ok(root);
    }
    if let Some(what) = debian::forbidden(no_install) {
        return Err(format!("no arm64 Python, and {what} forbids downloading it"));
    }
    unpack_arm64(&root).map_err(|error| format!("no arm64 Python: {error:#}"))?;
    Ok(root)
}

fn unpack_arm64(root: &Path) -> Result<()> {
    let apt = root.join("apt");
    for directory in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(directory))?;
    }
    // An empty status: every dependency is downloaded, down to the C library.
    fs::write(apt.join("status"), "")?;
    let get = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        for (option, value) in [
            ("APT::Architecture", "arm64".to_owned()),
            ("APT::Architectures", "arm64".to_owned()),
            ("APT::Sandbox::User", "root".to_owned()),
            ("Dir::State", apt.join("state").display().to_string()),
            ("Dir::State::status", apt.join("status").display().to_string()),
            ("Dir::Cache", apt.join("cache").display().to_string()),
        ] {
            command.args(["-o", &format!("{option}={value}")]);
        }
        sh::run_within(command.arg("-qq").args(args), LIMIT)
    };
    get(&["update"])?;
    get(&["install", "-y", "--no-install-recommends", "--download-only", "python3", "python3-numpy"])?;
    for package in fs::read_dir(apt.join("cache/archives"))? {
        let package = package?.path();
        if package.extension().is_some_and(|end| end == "deb") {
            sh::capture(Command::new("dpkg-deb").arg("-x").arg(&package).arg(root))?;
        }
    }
    fs::remove_dir_all(&apt)?;
    Ok(fs::write(root.join("complete"), "")?)
}

fn imported_under_qemu(wheel: &Path, root: &Path) -> Result<String> {
    let unpacked = tempfile::tempdir()?;
    sh::capture(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(unpacked.path()))?;
    let libraries = root.join("usr/lib/aarch64-linux-gnu");
    let path = env::join_paths([unpacked.path(), &root.join("usr/lib/python3/dist-packages")])?;
    // Set by alternatives when Debian's packages are configured, which unpacking alone does not do.
    let blas = env::join_paths([libraries.join("blas"), libraries.join("lapack")])?;
    let mut command = Command::new("qemu-aarch64-static");
    command.arg("-L").arg(root).arg("-E").arg(format!("LD_LIBRARY_PATH={}", blas.display()));
    command.arg(root.join("usr/bin/python3")).args(["-c", SMOKE]);
    command.current_dir(unpacked.path()).env("PYTHONHOME", root.join("usr")).env("PYTHONPATH", path);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("GPUFORGE_CONFIG", unpacked.path().join("config.toml"));
    let text = sh::capture(&mut command)?;
    Ok(format!("imported and computed in {} under QEMU", text.lines().last().unwrap_or_default()))
}

/// Imports the unpacked wheel.
fn imported_by(python: &mut Command, wheel: &Path) -> Result<String> {
    let unpacked = tempfile::tempdir()?;
    sh::capture(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(unpacked.path()))?;
    python.args(["-c", SMOKE]).current_dir(unpacked.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    // In front of what the caller set.
    let path = env::var_os("PYTHONPATH").unwrap_or_default();
    let path = env::join_paths(std::iter::once(unpacked.path().to_owned()).chain(env::split_paths(&path)))?;
    let text = sh::capture(python.env("PYTHONPATH", path))?;
    Ok(format!("imported and computed in {}", text.lines().last().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_copied_with_what_they_read() {
        let home = tempfile::tempdir().unwrap();
        let tests = copy_tests(home.path()).unwrap();
        assert!(tests.join("conftest.py").is_file() && tests.starts_with(home.path()));
        assert!(home.path().join("crates/gpuforge-python/tools/talib_functions.py").is_file());
        assert!(
            !home.path().join("crates/gpuforge-python/python").exists(),
            "the sources must not be importable"
        );
    }

    #[test]
    fn a_wheel_of_another_system_is_not_installed() {
        let seen =
            run(Path::new("none.whl"), "x86_64-pc-windows-gnu", "x86_64-unknown-linux-gnu", true, true);
        assert_eq!(seen.unwrap(), ["not imported: no Python of x86_64-pc-windows-gnu here"]);
    }
}
