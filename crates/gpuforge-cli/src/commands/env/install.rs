//! `gpuforge env create --install`: runs uv, pip, conda or pixi, and explains a failure by its output.

use std::{
    ffi::OsString,
    io::{Read, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use gpuforge::env::{
    explain::{self, HostEvidence, PatternDb},
    profiles::EnvPlan,
    render::{CHECK_FILE, EnvFormat},
};
use gpuforge::os::files::is_executable;
use serde::Serialize;

use super::target;
use crate::{context::Context, error::Hinted};

/// Deadline of an installation; one that hangs is killed.
const DEADLINE: Duration = Duration::from_secs(3 * 60 * 60);
/// Last bytes of the output that are kept for the explanation.
const TAIL: usize = 256 << 10;

/// A program that installs one of the formats.
#[derive(Debug)]
pub(crate) struct Installer {
    /// Name on PATH.
    program: &'static str,
    /// The format it reads.
    pub(crate) format: &'static str,
    /// Command lines, in order; the last one checks whether the framework sees the GPU.
    steps: fn(&Path, &EnvPlan) -> Result<Vec<Vec<OsString>>>,
}

/// In order of preference.
const INSTALLERS: [Installer; 7] = [
    Installer { program: "uv", format: "pip", steps: uv_pip },
    Installer { program: "uv", format: "uv", steps: uv_sync },
    Installer { program: "python3", format: "pip", steps: pip },
    Installer {
        program: "micromamba",
        format: "conda",
        steps: |dir, plan| Ok(conda("micromamba", dir, plan)),
    },
    Installer { program: "mamba", format: "conda", steps: |dir, plan| Ok(conda("mamba", dir, plan)) },
    Installer { program: "conda", format: "conda", steps: |dir, plan| Ok(conda("conda", dir, plan)) },
    Installer { program: "pixi", format: "pixi", steps: pixi },
];

/// The first installer on PATH that reads one of these formats; any format if none is named.
pub(crate) fn tool(formats: &[&EnvFormat]) -> Result<&'static Installer> {
    let wanted = |tool: &&Installer| formats.is_empty() || formats.iter().any(|f| f.name == tool.format);
    let fitting: Vec<&'static Installer> = INSTALLERS.iter().filter(wanted).collect();
    if fitting.is_empty() {
        let names: Vec<&str> = formats.iter().map(|f| f.name).collect();
        let what = format!("--install cannot install {}", names.join(", "));
        return Err(Hinted::usage(what, "build images yourself: the first lines of the file say how").into());
    }
    fitting.iter().find(|tool| find(tool.program).is_some()).copied().ok_or_else(|| {
        let names: Vec<&str> = fitting.iter().map(|tool| tool.program).collect();
        Hinted::new(
            format!("none of {} is installed", names.join(", ")),
            "install uv, or leave --install out",
        )
        .into()
    })
}

/// Finds a program on PATH.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&path).map(|dir| dir.join(&file)).find(|path| is_executable(path))
}

fn line(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// The Python of the virtual environment.
fn venv_python() -> &'static str {
    if cfg!(windows) { ".venv\\Scripts\\python.exe" } else { ".venv/bin/python" }
}

fn uv_pip(dir: &Path, plan: &EnvPlan) -> Result<Vec<Vec<OsString>>> {
    let mut steps = Vec::new();
    if !dir.join(".venv").exists() {
        steps.push(line(&["uv", "venv", "--python", &plan.candidate.python.to_string(), ".venv"]));
    }
    let mut install = line(&["uv", "pip", "install", "--python", venv_python(), "-r", "requirements.txt"]);
    if plan.candidate.index.is_some() {
        install.extend(line(&["--index-strategy", "unsafe-best-match"]));
    }
    steps.push(install);
    steps.push(line(&[venv_python(), CHECK_FILE]));
    Ok(steps)
}

fn uv_sync(_: &Path, _: &EnvPlan) -> Result<Vec<Vec<OsString>>> {
    Ok(vec![line(&["uv", "sync"]), line(&["uv", "run", CHECK_FILE])])
}

/// A Python of the planned version must be installed: pip cannot fetch one.
fn pip(dir: &Path, plan: &EnvPlan) -> Result<Vec<Vec<OsString>>> {
    let wanted = plan.candidate.python.to_string();
    let exact = format!("python{wanted}");
    let program = if find(&exact).is_some() { exact.as_str() } else { "python3" };
    let script = "import sys; print('%d.%d' % sys.version_info[:2])";
    let asked = Command::new(program).args(["-c", script]).stdin(Stdio::null()).output();
    let found = asked.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default();
    if found != wanted {
        let what = format!("{program} is Python {found}; the environment was planned for {wanted}");
        return Err(
            Hinted::new(what, format!("--python {found} plans for it; uv would fetch {wanted}")).into()
        );
    }
    let mut steps = Vec::new();
    if !dir.join(".venv").exists() {
        steps.push(line(&[program, "-m", "venv", ".venv"]));
    }
    steps.push(line(&[venv_python(), "-m", "pip", "install", "-r", "requirements.txt"]));
    steps.push(line(&[venv_python(), CHECK_FILE]));
    Ok(steps)
}

fn conda(program: &str, _: &Path, plan: &EnvPlan) -> Vec<Vec<OsString>> {
    let name = format!("gpuforge-{}", plan.profile.to_ascii_lowercase().replace('_', "-"));
    let create: &[&str] = if program == "micromamba" { &["create", "--yes"] } else { &["env", "create"] };
    let mut first = line(&[program]);
    first.extend(line(create));
    first.extend(line(&["-f", "environment.yml"]));
    vec![first, line(&[program, "run", "-n", &name, "python", CHECK_FILE])]
}

fn pixi(_: &Path, _: &EnvPlan) -> Result<Vec<Vec<OsString>>> {
    Ok(vec![line(&["pixi", "install"]), line(&["pixi", "run", "check"])])
}

/// Report of an installation.
#[derive(Debug, Serialize)]
pub(crate) struct InstallReport {
    /// Command lines that were run.
    commands: Vec<String>,
    /// Did every command succeed?
    ok: bool,
    /// The command that failed, and how.
    failed: Option<String>,
    /// Root cause, from its output.
    explained: Option<FailureCause>,
}

/// Root cause of a failed installation.
#[derive(Debug, Serialize)]
struct FailureCause {
    id: String,
    title: String,
    steps: Vec<String>,
}

impl InstallReport {
    /// The error of the run.
    pub(crate) fn failure(&self) -> Option<Hinted> {
        let failed = self.failed.as_ref()?;
        Some(match &self.explained {
            Some(root) => Hinted::new(format!("{failed}: {}", root.title), root.steps.join("; ")),
            None => Hinted::new(
                failed.clone(),
                "what it printed says why; `gpuforge explain FILE` reads a saved log",
            ),
        })
    }
}

/// Runs the steps in `dir`; their output is streamed to stderr.
pub(crate) fn run(tool: &Installer, dir: &Path, plan: &EnvPlan, context: &Context) -> Result<InstallReport> {
    let mut done = InstallReport { commands: Vec::new(), ok: true, failed: None, explained: None };
    for step in (tool.steps)(dir, plan)? {
        let shown = step.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        if !context.out.quiet {
            let _ = writeln!(std::io::stderr(), "$ {shown}");
        }
        let (status, tail) =
            follow(&step, dir, !context.out.quiet).with_context(|| format!("cannot run `{shown}`"))?;
        done.commands.push(shown.clone());
        if let Some(how) = status {
            done.ok = false;
            done.failed = Some(format!("`{shown}` failed ({how})"));
            done.explained = cause(&tail, context);
            break;
        }
    }
    Ok(done)
}

/// Runs one program; returns `None` on success, else its exit status; and the tail of its output.
fn follow(step: &[OsString], dir: &Path, show: bool) -> Result<(Option<String>, Vec<u8>)> {
    let (program, args) = step.split_first().context("no program")?;
    // A relative path is relative to the environment's directory, not to the current one.
    let beside = dir.join(program);
    let program = if Path::new(program).components().count() > 1 {
        std::path::absolute(beside)?.into()
    } else {
        program.clone()
    };
    let mut child = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let tail = Arc::new(Mutex::new(Vec::new()));
    let pipes = [child.stdout.take().map(boxed), child.stderr.take().map(boxed)];
    let threads: Vec<_> = pipes
        .into_iter()
        .flatten()
        .map(|pipe| {
            let tail = tail.clone();
            std::thread::spawn(move || stream(pipe, &tail, show))
        })
        .collect();
    let began = Instant::now();
    let how = loop {
        match child.try_wait()? {
            Some(status) if status.success() => break None,
            Some(status) => break Some(status.to_string()),
            None if began.elapsed() > DEADLINE => {
                child.kill()?;
                child.wait()?;
                break Some("it took longer than three hours and was killed".to_owned());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    for thread in threads {
        let _ = thread.join();
    }
    let tail = std::mem::take(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((how, tail))
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// Copies a pipe to stderr and keeps its tail.
fn stream(mut pipe: Box<dyn Read + Send>, tail: &Mutex<Vec<u8>>, show: bool) {
    let mut buffer = [0; 8192];
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        let piece = buffer.get(..n).unwrap_or_default();
        if show {
            let _ = std::io::stderr().write_all(piece);
        }
        let mut kept = tail.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(piece);
        let over = kept.len().saturating_sub(TAIL);
        kept.drain(..over);
    }
}

/// The root cause that the output shows, if any.
fn cause(tail: &[u8], context: &Context) -> Option<FailureCause> {
    let dir = context.places().ok()?.data_dir;
    let known = PatternDb::load(Some(&dir));
    let facts = HostEvidence::of(&target::live(context).ok()?);
    let root = explain::explain(tail, &known, &facts).ok()?.root?;
    Some(FailureCause { id: root.id, title: root.title, steps: root.steps })
}
