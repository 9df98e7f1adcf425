//! Does the Python package work? `cargo xtask python test|bench|wheel`: built as a wheel, installed into an environment of its
//! own, used as a user would.

use crate::sh;
use anyhow::{Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// What to do with the package.
#[derive(clap::Subcommand)]
pub(crate) enum Args {
    /// Build the wheel, install it into a fresh environment, run pytest with doctests and mypy
    Test(Wheel),
    /// Measure it beside TA-Lib, polars_talib and pandas-ta-classic in one run
    Bench(Wheel),
    /// Build the wheel only, and say how large it is
    Wheel(Wheel),
    /// Run a script with the package: `cargo xtask python run -- SCRIPT ARGUMENTS`
    Run(Wheel),
}

/// How the wheel is made.
#[derive(clap::Args)]
pub(crate) struct Wheel {
    /// Optimised as a release is: figures need it, tests do not
    #[arg(long)]
    release: bool,
    /// Arguments for pytest or the benchmark
    #[arg(last = true)]
    rest: Vec<String>,
}

/// What builds it.
const BUILD: [&str; 1] = ["maturin>=1.9,<2"];
/// What tests compare with and speak to.
const TEST: [&str; 9] =
    ["numpy", "pytest", "mypy", "pyright", "pandas", "polars", "pyarrow", "duckdb", "TA-Lib"];
/// Who is measured beside us.
const PEERS: [&str; 4] = ["tqdm", "TA-Lib", "polars_talib", "pandas-ta-classic"];
/// How long packages may take to come; without a network it is known after the first try.
const LIMIT: Duration = Duration::from_secs(900);
const PATIENCE: &str = "20";
/// The most bytes of a wheel.
const MOST: u64 = 25 << 20;

/// Runs; what is missing on this machine is said, and no reason to fail.
pub(crate) fn run(args: &Args) -> Result<()> {
    match test(args)? {
        Some(why) => println!("python: skipped, {why}"),
        None => println!("python: ok"),
    }
    Ok(())
}

/// For the step of `cargo xtask test`: why it was skipped, if it was.
pub(crate) fn step() -> Result<Option<String>> {
    test(&Args::Test(Wheel { release: false, rest: Vec::new() }))
}

/// Runs a script of ours with the package as a user has it; why not, if it could not be.
pub(crate) fn script(rest: Vec<String>) -> Result<Option<String>> {
    test(&Args::Run(Wheel { release: false, rest }))
}

fn test(args: &Args) -> Result<Option<String>> {
    let Some(python) = interpreter() else {
        return Ok(Some("no Python from 3.10 on is installed".to_owned()));
    };
    let folder = tempfile::tempdir()?;
    // Fresh, but always in the same place: what is compiled for a Python that has moved is compiled anew.
    let venv = Venv::new(python, &sh::target().join("python"))?;
    let mut wanted = BUILD.to_vec();
    match args {
        Args::Test(_) | Args::Run(_) => wanted.extend(TEST),
        Args::Bench(_) => wanted.extend(TEST.iter().chain(&PEERS)),
        Args::Wheel(_) => {}
    }
    if venv.install(&wanted).is_err() {
        let names = wanted.join(", ");
        return Ok(Some(format!("the index of packages cannot be reached, or lacks one of {names}")));
    }
    let (Args::Test(how) | Args::Bench(how) | Args::Wheel(how) | Args::Run(how)) = args;
    let release = how.release || matches!(args, Args::Bench(_) | Args::Wheel(_));
    let wheel = venv.wheel(release, folder.path())?;
    let size = fs::metadata(&wheel)?.len();
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    println!("{name}: {:.1} MiB", size as f64 / f64::from(1 << 20));
    // Without optimisation it is larger than what anybody downloads.
    ensure!(!release || size <= MOST, "the wheel has {size} bytes, at most {MOST} are allowed");
    if matches!(args, Args::Wheel(_)) {
        let kept = sh::target().join("wheels").join(&name);
        fs::create_dir_all(sh::target().join("wheels"))?;
        fs::copy(&wheel, &kept)?;
        println!("{}", kept.display());
        return Ok(None);
    }
    venv.install(&[wheel.to_string_lossy().as_ref()])?;
    let mut command = venv.command("python");
    // From the crate's folder the sources would be found before what was installed. Nothing is written beside them.
    command.current_dir(folder.path()).env("PYTHONPYCACHEPREFIX", folder.path().join("pycache"));
    // Compiled once, as with every user: some machines forbid it for what is written beside the sources.
    command.env_remove("PYTHONDONTWRITEBYTECODE");
    command
        .env("GPUFORGE_CACHE_DIR", folder.path().join("cache"))
        .env("GPUFORGE_DATA_DIR", folder.path().join("data"))
        .env("GPUFORGE_CONFIG", folder.path().join("config.toml"));
    match args {
        Args::Bench(_) => command.arg(package().join("bench/beside.py")),
        Args::Run(_) => &mut command,
        _ => command.args(["-m", "pytest", "-p", "no:cacheprovider"]).arg(package().join("tests/python")),
    };
    sh::run(command.args(&how.rest))?;
    Ok(None)
}

fn package() -> PathBuf {
    sh::root().join("crates/gpuforge-python")
}

/// What tools keep between runs goes to the target folder.
fn kept_inside(command: &mut Command) {
    let kept = sh::target().join("python");
    command.env("PIP_CACHE_DIR", kept.join("pip")).env("UV_CACHE_DIR", kept.join("uv"));
    command.env("UV_HTTP_TIMEOUT", PATIENCE).env("PYRIGHT_PYTHON_CACHE_DIR", kept.join("pyright"));
}

/// A Python that is new enough.
fn interpreter() -> Option<&'static str> {
    let new = "import sys, venv; sys.exit(sys.version_info < (3, 10))";
    ["python3", "python"].into_iter().find(|python| sh::works(Command::new(python).args(["-c", new])))
}

/// An environment of its own.
struct Venv {
    folder: PathBuf,
    uv: bool,
}

impl Venv {
    fn new(python: &str, parent: &Path) -> Result<Venv> {
        let folder = parent.join("venv");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(parent)?;
        let uv = sh::works(Command::new("uv").arg("--version"));
        let mut command = if uv { Command::new("uv") } else { Command::new(python) };
        match uv {
            true => command.args(["venv", "--python", python]).arg(&folder),
            false => command.args(["-m", "venv"]).arg(&folder),
        };
        sh::run_within(&mut command, LIMIT)?;
        Ok(Venv { folder, uv })
    }

    fn program(&self, name: &str) -> PathBuf {
        if cfg!(windows) {
            self.folder.join("Scripts").join(format!("{name}.exe"))
        } else {
            self.folder.join("bin").join(name)
        }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        command.env("VIRTUAL_ENV", &self.folder).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        kept_inside(&mut command);
        command
    }

    fn install(&self, packages: &[&str]) -> Result<()> {
        let mut command = if self.uv { Command::new("uv") } else { self.command("python") };
        kept_inside(&mut command);
        match self.uv {
            true => command.args(["pip", "install", "--quiet", "--python"]).arg(self.program("python")),
            false => command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args([
                "--retries",
                "1",
                "--timeout",
                PATIENCE,
            ]),
        };
        // What it says about a network that is not there is many lines; the caller says it in one.
        sh::run_within(command.args(packages).stderr(Stdio::null()), LIMIT)
    }

    /// Builds the wheel; the one file that comes of it.
    fn wheel(&self, release: bool, folder: &Path) -> Result<PathBuf> {
        let out = folder.join("wheels");
        let mut command = self.command("maturin");
        // The folder of the environment is not the one of the sources, where another could lie.
        command.current_dir(package()).args(["build", "--out"]).arg(&out);
        command.args(["--profile", if release { "release" } else { "dev" }]);
        sh::run(&mut command)?;
        let wheels: Vec<PathBuf> = fs::read_dir(&out)?.flatten().map(|e| e.path()).collect();
        match wheels.as_slice() {
            [one] => Ok(one.clone()),
            several => bail!("maturin left {} wheels in {}", several.len(), out.display()),
        }
    }
}
