//! Tool runner: a child in its own process group, with a deadline and an output limit; killed as a group.

use std::{
    collections::BTreeMap,
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use gpuforge_os::process::ProcessGroup;

/// Output limit per stream.
const OUTPUT_LIMIT: u64 = 256 << 10;

/// Result of running a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutput {
    /// It exited.
    Exited {
        /// Exit status was success.
        ok: bool,
        /// stdout, then stderr.
        text: String,
    },
    /// It exceeded the deadline and was killed.
    TimedOut(Duration),
    /// It could not be started.
    SpawnFailed(String),
    /// Running programs is disabled for this view.
    Disabled,
}

/// Runs `program` with exactly these environment variables; after `limit` its process group is killed.
pub(super) fn run(
    program: &Path,
    args: &[&str],
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> ToolOutput {
    let until = Instant::now() + limit;
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ProcessGroup::prepare(&mut command);
    let mut child = match start(&mut command) {
        Ok(child) => child,
        Err(error) => return ToolOutput::SpawnFailed(format!("cannot be started: {}", error.kind())),
    };
    let group = ProcessGroup::of(&child);
    let (send, receive) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        drain(0, pipe, send.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        drain(1, pipe, send.clone());
    }
    drop(send);
    let mut parts = [String::new(), String::new()];
    loop {
        match receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((which, text)) => parts.iter_mut().skip(which).take(1).for_each(|part| part.clone_from(&text)),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                kill(child, &group);
                return ToolOutput::TimedOut(limit);
            }
        }
    }
    let [out, err] = parts;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return ToolOutput::Exited { ok: status.success(), text: format!("{out}{err}") };
            }
            // It closed its output and keeps running: drivers also hang in exit handlers.
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => {
                kill(child, &group);
                return ToolOutput::TimedOut(limit);
            }
        }
    }
}

/// Spawns, retrying on ETXTBSY: a script that another thread still has open for writing cannot be executed yet.
fn start(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..20 {
        match command.spawn() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
    command.spawn()
}

fn drain(which: usize, pipe: impl Read + Send + 'static, send: mpsc::Sender<(usize, String)>) {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Partial output is better than none; the rest is not needed.
        let _ = pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes);
        let _ = send.send((which, String::from_utf8_lossy(&bytes).into_owned()));
    });
}

/// Kills the process group; a process in uninterruptible sleep is left to a reaper thread.
fn kill(mut child: Child, group: &ProcessGroup) {
    group.kill();
    let _ = child.kill();
    std::thread::spawn(move || child.wait());
}
