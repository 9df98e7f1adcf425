//! Python package: `cargo xtask python test|bench|wheel|run`; built as a wheel and installed into a fresh virtual environment.

use crate::sh;
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// What to do with the package.
#[derive(clap::Subcommand)]
pub(crate) enum Args {
    /// Build the wheel, install it into a fresh environment, run pytest with doctests and mypy
    Test(WheelArgs),
    /// Benchmark beside TA-Lib, polars_talib and pandas-ta-classic in one run
    Bench(WheelArgs),
    /// Build the wheel only, and print its size
    Wheel(WheelArgs),
    /// Run a script with the package: `cargo xtask python run -- SCRIPT ARGUMENTS`
    Run(WheelArgs),
}

/// Build options of the wheel.
#[derive(clap::Args)]
pub(crate) struct WheelArgs {
    /// Profile of what users download: benchmarks need it, tests do not
    #[arg(long)]
    release: bool,
    /// Arguments for pytest or the benchmark
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Build requirements.
const BUILD: [&str; 1] = ["maturin>=1.9,<2"];
/// Test requirements.
pub(crate) const TEST: [&str; 9] =
    ["numpy", "pytest", "mypy", "pyright", "pandas", "polars", "pyarrow", "duckdb", "TA-Lib"];
/// Peers of the benchmark.
const PEERS: [&str; 4] = ["tqdm", "TA-Lib", "polars_talib", "pandas-ta-classic"];
/// Deadline for installing packages.
const LIMIT: Duration = Duration::from_secs(900);
/// Network timeout of pip and uv in seconds: without a network, they fail at the first try.
const NETWORK_TIMEOUT: &str = "20";
/// Largest wheel in bytes; one that is released has a smaller limit (`dist/wheel.rs`).
const MAX_WHEEL_BYTES: u64 = 25 << 20;

/// Runs; a missing Python or package index is reported, not an error.
pub(crate) fn run(args: &Args) -> Result<()> {
    match test(args, Vec::new())? {
        Some(why) => println!("python: skipped, {why}"),
        None => println!("python: ok"),
    }
    Ok(())
}

/// Step of `cargo xtask test`, with its variables; `Some(reason)` if it was skipped.
pub(crate) fn step(variables: Vec<(&'static str, OsString)>) -> Result<Option<String>> {
    test(&Args::Test(WheelArgs { release: false, rest: Vec::new() }), variables)
}

/// Runs a script with the installed package; `Some(reason)` if it was skipped.
pub(crate) fn script(rest: Vec<String>) -> Result<Option<String>> {
    test(&Args::Run(WheelArgs { release: false, rest }), Vec::new())
}

fn test(args: &Args, variables: Vec<(&'static str, OsString)>) -> Result<Option<String>> {
    let Some(python) = interpreter() else {
        return Ok(Some("no Python from 3.10 on is installed".to_owned()));
    };
    let directory = tempfile::tempdir()?;
    // Fresh, but always at the same path: PyO3 recompiles when the path of Python changes.
    let venv = Venv::new(Path::new(python), &sh::target().join("python"))?;
    let mut wanted = BUILD.to_vec();
    match args {
        Args::Test(_) | Args::Run(_) => wanted.extend(TEST),
        Args::Bench(_) => wanted.extend(TEST.iter().chain(&PEERS)),
        Args::Wheel(_) => {}
    }
    if venv.install(&wanted).is_err() {
        let names = wanted.join(", ");
        return Ok(Some(format!("the package index cannot be reached, or lacks one of {names}")));
    }
    let (Args::Test(how) | Args::Bench(how) | Args::Wheel(how) | Args::Run(how)) = args;
    // Benchmarks measure what users download.
    let release = how.release || matches!(args, Args::Bench(_) | Args::Wheel(_));
    let path = env::var_os("PATH").unwrap_or_default();
    let wheel = venv.wheel(if release { "dist" } else { "dev" }, directory.path(), &[], &path)?;
    let size = fs::metadata(&wheel)?.len();
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    println!("{name}: {:.1} MiB", size as f64 / f64::from(1 << 20));
    // A debug build is larger than what anybody downloads.
    ensure!(
        !release || size <= MAX_WHEEL_BYTES,
        "the wheel has {size} bytes, at most {MAX_WHEEL_BYTES} are allowed"
    );
    if matches!(args, Args::Wheel(_)) {
        let kept = sh::target().join("wheels").join(&name);
        fs::create_dir_all(sh::target().join("wheels"))?;
        fs::copy(&wheel, &kept)?;
        println!("{}", kept.display());
        return Ok(None);
    }
    venv.install(&[wheel.to_string_lossy().as_ref()])?;
    let mut command = venv.command("python");
    // In the crate's directory Python would import the sources instead of the installed package.
    command.current_dir(directory.path()).env("PYTHONPYCACHEPREFIX", directory.path().join("pycache"));
    // Bytecode is written, as for users, but not beside the sources.
    command.env_remove("PYTHONDONTWRITEBYTECODE");
    command
        .env("GPUFORGE_CACHE_DIR", directory.path().join("cache"))
        .env("GPUFORGE_DATA_DIR", directory.path().join("data"))
        .env("GPUFORGE_CONFIG", directory.path().join("config.toml"))
        .envs(variables);
    match args {
        Args::Bench(_) => command.arg(package().join("bench/peers.py")),
        Args::Run(_) => &mut command,
        _ => command.args(["-m", "pytest", "-p", "no:cacheprovider"]).arg(package().join("tests/python")),
    };
    sh::run(command.args(&how.rest))?;
    Ok(None)
}

pub(crate) fn package() -> PathBuf {
    sh::root().join("crates/gpuforge-python")
}

/// Caches of pip, uv and pyright go to the target directory.
fn with_caches(command: &mut Command) {
    let kept = sh::target().join("python");
    command.env("PIP_CACHE_DIR", kept.join("pip")).env("UV_CACHE_DIR", kept.join("uv"));
    command.env("UV_HTTP_TIMEOUT", NETWORK_TIMEOUT).env("PYRIGHT_PYTHON_CACHE_DIR", kept.join("pyright"));
}

/// A Python that is new enough.
pub(crate) fn interpreter() -> Option<&'static str> {
    let new = "import sys, venv; sys.exit(sys.version_info < (3, 10))";
    ["python3", "python"].into_iter().find(|python| sh::works(Command::new(python).args(["-c", new])))
}

/// A virtual environment.
pub(crate) struct Venv {
    directory: PathBuf,
    uv: bool,
}

impl Venv {
    /// A fresh one in `parent`.
    pub(crate) fn new(python: &Path, parent: &Path) -> Result<Venv> {
        let directory = parent.join("venv");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(parent)?;
        let uv = sh::works(Command::new("uv").arg("--version"));
        let mut command = if uv { Command::new("uv") } else { Command::new(python) };
        match uv {
            true => command.args(["venv", "--python"]).arg(python).arg(&directory),
            false => command.args(["-m", "venv"]).arg(&directory),
        };
        sh::run_within(&mut command, LIMIT)?;
        Ok(Venv { directory, uv })
    }

    /// A fresh one with these packages, to be [`kept`](Venv::kept).
    pub(crate) fn filled(python: &Path, parent: &Path, packages: &[&str]) -> Result<Venv> {
        let venv = Venv::new(python, parent)?;
        venv.install(packages).with_context(|| {
            format!("the package index cannot be reached, or lacks one of {}", packages.join(", "))
        })?;
        fs::write(parent.join("packages"), packages.join("\n"))?;
        Ok(venv)
    }

    /// The one of an earlier run with the same packages, if it still works.
    pub(crate) fn kept(parent: &Path, packages: &[&str]) -> Option<Venv> {
        let same = fs::read_to_string(parent.join("packages")).is_ok_and(|text| text == packages.join("\n"));
        let venv = Venv {
            directory: parent.join("venv"),
            uv: same && sh::works(Command::new("uv").arg("--version")),
        };
        (same && sh::works(venv.command("python").arg("--version"))).then_some(venv)
    }

    /// Directory of its programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.directory.join(if cfg!(windows) { "Scripts" } else { "bin" })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.programs().join(format!("{name}{}", env::consts::EXE_SUFFIX))
    }

    /// A program of the environment.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        command.env("VIRTUAL_ENV", &self.directory).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        with_caches(&mut command);
        command
    }

    /// Installs packages or wheels.
    pub(crate) fn install(&self, packages: &[&str]) -> Result<()> {
        let mut command = if self.uv { Command::new("uv") } else { self.command("python") };
        with_caches(&mut command);
        match self.uv {
            true => command.args(["pip", "install", "--quiet", "--python"]).arg(self.program("python")),
            false => command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args([
                "--retries",
                "1",
                "--timeout",
                NETWORK_TIMEOUT,
            ]),
        };
        // Without a network pip prints many lines; the caller prints one.
        sh::run_within(command.args(packages).stderr(Stdio::null()), LIMIT)
    }

    /// Builds the wheel with more arguments of maturin and returns its path.
    pub(crate) fn wheel(
        &self,
        profile: &str,
        directory: &Path,
        args: &[&str],
        path: &OsStr,
    ) -> Result<PathBuf> {
        let out = directory.join("wheels");
        let mut command = self.command("maturin");
        command.current_dir(package()).args(["build", "--profile", profile, "--out"]).arg(&out);
        sh::run(command.args(args).env("PATH", path))?;
        let wheels: Vec<PathBuf> = fs::read_dir(&out)?.flatten().map(|e| e.path()).collect();
        match wheels.as_slice() {
            [one] => Ok(one.clone()),
            several => bail!("maturin left {} wheels in {}", several.len(), out.display()),
        }
    }
}
