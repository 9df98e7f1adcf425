//! Probe isolation: driver libraries are loaded in a child process (sandbox) with a deadline and an output limit.
//!
//! The binary re-executes itself (`gpuforge __probe NAME`). A program that uses this library without such an entry point
//! runs probes in threads instead: a hang then leaks a thread, and a crash of the driver takes the process down.

use std::{
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use gpuforge_os::process::{self, ProcessGroup};

use super::{Probe, ProbeSource};
use crate::overrides::Env;

/// Where driver libraries are loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// In a thread of this process: cheap, but a crashing driver takes the process down.
    #[default]
    Thread,
    /// In a child process: this program, called with [`CHILD_COMMAND`] and the probe's name.
    Child(ChildProgram),
}

/// How this program is started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildProgram {
    /// The executable: this program, or the interpreter that runs it.
    pub program: PathBuf,
    /// Arguments before those of the child: none, or what makes the interpreter run this program.
    pub args: Vec<OsString>,
}

impl From<PathBuf> for ChildProgram {
    fn from(program: PathBuf) -> ChildProgram {
        ChildProgram { program, args: Vec::new() }
    }
}

/// First argument of the re-executed child.
pub const CHILD_COMMAND: &str = "__probe";

/// Fault injection for tests: `adapters=hang`, `nvml=crash`, `adapters=garbage`, `adapters=flood`.
pub const FAULT_VARIABLE: &str = "GPUFORGE_PROBE_FAULT";

/// Output limit of a child: no valid answer is longer.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// Why a probe has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// Library or tool is not installed.
    #[error("not installed: {0}")]
    Absent(String),
    /// The deadline passed.
    #[error("no answer within {} ms, gave up", .0.as_millis())]
    TimedOut(Duration),
    /// It crashed, failed or printed something unexpected.
    #[error("{0}")]
    Failed(String),
}

/// How a probe task ended.
pub enum TaskOutcome {
    /// Everything it printed.
    Output(String),
    /// It crashed or could not be read.
    Failed(String),
    /// The deadline passed; a child was killed, a thread was abandoned.
    TimedOut,
}

/// A running probe.
pub struct ProbeTask {
    output: mpsc::Receiver<Result<Vec<u8>, String>>,
    child: Option<Child>,
    /// Where children do not notice the end of their parent, this ends them: dropped with it, also when it is killed.
    _group: Option<ProcessGroup>,
}

/// Starts a probe.
pub fn start(probe: &'static Probe, isolation: &Isolation, env: Env<'_>) -> Result<ProbeTask, ProbeFailure> {
    match (probe.source, isolation) {
        (ProbeSource::Library(_), Isolation::Child(ChildProgram { program, args })) => {
            let mut command = Command::new(program);
            command.args(args).args([CHILD_COMMAND, probe.name]);
            spawn(command)
        }
        (ProbeSource::Library(read), Isolation::Thread) => {
            let (send, output) = mpsc::channel();
            let fault = injected_fault(probe.name, env);
            let work = move || {
                // The receiver is dropped after the deadline.
                let _ = send.send(Ok(probe_to_json(read, fault.as_deref()).into_bytes()));
            };
            let thread = std::thread::Builder::new().name(format!("probe-{}", probe.name));
            thread.spawn(work).map_err(|e| ProbeFailure::Failed(format!("cannot start a thread: {e}")))?;
            Ok(ProbeTask { output, child: None, _group: None })
        }
        (ProbeSource::Tool { program, default_dir, args, .. }, _) => {
            let path = find_program(program, default_dir, env)
                .ok_or_else(|| ProbeFailure::Absent(program.to_owned()))?;
            let mut command = Command::new(path);
            command.args(args);
            spawn(command)
        }
    }
}

/// Child side: runs the probe and returns its result as JSON. For the binary's [`CHILD_COMMAND`] entry point.
pub fn run_in_child(name: &str, env: Env<'_>) -> Option<String> {
    let probe = super::find(name)?;
    let ProbeSource::Library(read) = probe.source else { return None };
    // It must not outlive a killed parent while blocked in a driver.
    process::die_with_parent();
    Some(probe_to_json(read, injected_fault(name, env).as_deref()))
}

fn probe_to_json(
    read: fn() -> Result<crate::model::ProbeReport, super::ProbeError>,
    fault: Option<&str>,
) -> String {
    match fault {
        Some("hang") => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        Some("crash") => std::process::abort(),
        Some("garbage") => return "\u{1f4a5} not json".to_owned(),
        Some("flood") => return "x".repeat(usize::try_from(OUTPUT_LIMIT).unwrap_or(0) * 2),
        _ => {}
    }
    serde_json::to_string(&read()).unwrap_or_default()
}

fn injected_fault(name: &str, env: Env<'_>) -> Option<String> {
    let value = env(FAULT_VARIABLE)?;
    value.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

fn spawn(mut command: Command) -> Result<ProbeTask, ProbeFailure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Mesa's device-select layer prompts on stderr and costs a round trip to a display server.
    command.env("NODEVICE_SELECT", "1");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(ProbeFailure::Absent(command.get_program().to_string_lossy().into_owned()));
        }
        Err(e) => {
            return Err(ProbeFailure::Failed(format!(
                "cannot start {}: {e}",
                command.get_program().display()
            )));
        }
    };
    let (send, output) = mpsc::channel();
    let Some(pipe) = child.stdout.take() else {
        return Err(ProbeFailure::Failed("no pipe to the child".to_owned()));
    };
    let read = move || {
        let mut bytes = Vec::new();
        let read = pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes);
        let _ = send.send(read.map(|_| bytes).map_err(|e| e.to_string()));
    };
    std::thread::spawn(read);
    let group = ProcessGroup::of(&child);
    Ok(ProbeTask { output, child: Some(child), _group: Some(group) })
}

impl ProbeTask {
    /// Waits for the output or the deadline; a child that exceeds it is killed.
    pub fn wait(mut self, at_most: Duration) -> TaskOutcome {
        let until = Instant::now() + at_most;
        let said = match self.output.recv_timeout(at_most) {
            Ok(Ok(bytes)) if bytes.len() as u64 >= OUTPUT_LIMIT => {
                self.kill();
                return TaskOutcome::Failed(format!("printed more than {} MiB", OUTPUT_LIMIT >> 20));
            }
            Ok(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(Err(why)) => {
                self.kill();
                return TaskOutcome::Failed(why);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.kill();
                return TaskOutcome::TimedOut;
            }
            // The sender was dropped without a result: the thread panicked.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return TaskOutcome::Failed("the probe panicked".to_owned());
            }
        };
        let Some(child) = self.child.as_mut() else { return TaskOutcome::Output(said) };
        // A complete JSON document counts, however the child exits: drivers also crash and hang in their exit handlers.
        if serde_json::from_str::<serde::de::IgnoredAny>(&said).is_ok() {
            self.kill();
            return TaskOutcome::Output(said);
        }
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return TaskOutcome::Output(said),
                Ok(Some(status)) => return TaskOutcome::Failed(format!("the probe ended with {status}")),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => {
                    self.kill();
                    return TaskOutcome::TimedOut;
                }
            }
        }
    }

    /// Kills and reaps the child; one in uninterruptible sleep is left to a reaper thread.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            if !matches!(child.try_wait(), Ok(Some(_))) {
                std::thread::spawn(move || child.wait());
            }
        }
    }
}

/// A program on `PATH`, else in `directory`.
fn find_program(program: &str, default_dir: &str, env: Env<'_>) -> Option<PathBuf> {
    let path = env("PATH").unwrap_or_default();
    let named = std::env::split_paths(&path).chain([PathBuf::from(default_dir)]).map(|dir| dir.join(program));
    named.into_iter().find(|p: &PathBuf| is_file(p))
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file())
}
