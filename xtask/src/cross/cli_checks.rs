//! Checks of the binary alone: commands that must work in a directory that holds nothing but the binary.

use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use super::runner::Running;

/// A command line, what it is fed, and what stdout must contain.
struct CliCheck {
    name: &'static str,
    args: &'static [&'static str],
    stdin: &'static str,
    stdout: &'static str,
    /// A file that it leaves behind.
    file: Option<&'static str>,
}

const CHECKS: [CliCheck; 5] = [
    CliCheck { name: "detect", args: &["detect", "--json"], stdin: "", stdout: "\"cpu\"", file: None },
    CliCheck {
        name: "sample",
        args: &["sample", "-o", "bars.csv"],
        stdin: "",
        stdout: "",
        file: Some("bars.csv"),
    },
    CliCheck {
        name: "indicators",
        args: &["indicators", "bars.csv", "-o", "out.parquet", "--select", "set:classic111"],
        stdin: "",
        stdout: "",
        file: Some("out.parquet"),
    },
    CliCheck {
        name: "explain",
        args: &["explain", "--json"],
        stdin: "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n",
        stdout: "memory",
        file: None,
    },
    CliCheck { name: "demo", args: &["demo"], stdin: "", stdout: "", file: None },
];

/// Runs all; `N commands (names)`.
pub(super) fn run(binary: &Path, running: &Running) -> Result<String> {
    let directory = running.home().join("cli");
    fs::create_dir_all(&directory)?;
    for check in &CHECKS {
        let command = running.command(binary, &directory)?;
        let stdout = output(command, check).with_context(|| format!("gpuforge {}", check.args.join(" ")))?;
        ensure!(stdout.contains(check.stdout), "{}: no {:?} in {stdout}", check.name, check.stdout);
        if let Some(file) = check.file {
            let size = fs::metadata(directory.join(file)).map_or(0, |m| m.len());
            ensure!(size > 0, "{} left no {file}", check.name);
        }
    }
    let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    Ok(format!("{} commands ({})", CHECKS.len(), names.join(", ")))
}

fn output(mut command: Command, check: &CliCheck) -> Result<String> {
    eprintln!("$ gpuforge {}", check.args.join(" "));
    command.args(check.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // A command that does not read its input may have closed it.
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(check.stdin.as_bytes()));
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, stderr.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
