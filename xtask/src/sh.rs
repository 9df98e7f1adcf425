//! Running programs: echoed, output inherited, captured or both (tee), with a timeout; cargo builds.

use anyhow::{Context as _, Result, bail};
use std::{
    collections::BTreeMap,
    env,
    io::{IsTerminal as _, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The repository's root directory.
pub(crate) fn root() -> PathBuf {
    // At run time first: a binary in a shared target directory may have been built from another clone.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that started us, in the root directory.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The command line as typed in a shell.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

/// Echoes and runs a command with inherited output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a command quietly and returns its stdout; on failure the error carries its stderr.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}): {}", line(command), output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Does the command exist and succeed? Prints nothing.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Output of a command that was also shown.
pub(crate) struct TeeOutput {
    /// Did it succeed?
    pub(crate) ok: bool,
    /// stdout and stderr, one after the other.
    pub(crate) text: String,
}

/// Echoes and runs a command; its output is shown and returned.
pub(crate) fn tee(command: &mut Command) -> Result<TeeOutput> {
    eprintln!("$ {}", line(command));
    if std::io::stderr().is_terminal() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", line(command)))?;
    let out = child.stdout.take().map(|pipe| thread::spawn(move || copy(pipe, std::io::stdout())));
    let err = child.stderr.take().map(|pipe| thread::spawn(move || copy(pipe, std::io::stderr())));
    let ok = child.wait()?.success();
    let texts = [out, err].into_iter().flatten().map(|thread| thread.join().unwrap_or_default());
    Ok(TeeOutput { ok, text: texts.collect::<Vec<_>>().join("\n") })
}

/// Copies a pipe to its end and returns the bytes, even when our own output is closed.
fn copy(mut from: impl Read, mut to: impl Write) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let piece = buffer.get(..n).unwrap_or_default();
        all.extend_from_slice(piece);
        // A closed pipe must not stop the test run: the exit code still counts.
        let _ = to.write_all(piece).and_then(|()| to.flush());
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Echoes and runs a command that may hang (network, package locks); kills it after `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    eprintln!("$ {}", line(command));
    let mut child =
        command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start `{}`", line(command)))?;
    let start = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("`{}` failed ({status})", line(command)),
            None if start.elapsed() > limit => {
                child.kill()?;
                child.wait()?;
                bail!("`{}` was killed after {} s", line(command), limit.as_secs());
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Builds packages and returns their executables by name, as cargo reports them.
pub(crate) fn build(
    packages: &[&str],
    features: &[&str],
    release: bool,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = cargo(["build"]);
    if release {
        command.arg("--release");
    }
    for package in packages {
        command.args(["--package", package]);
    }
    for feature in features {
        command.args(["--features", feature]);
    }
    built(command)
}

/// Runs a build command of cargo and returns the executables it reports, by name.
pub(crate) fn built(mut command: Command) -> Result<BTreeMap<String, PathBuf>> {
    command.arg("--message-format=json-render-diagnostics");
    eprintln!("$ {}", line(&command));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`{}` failed ({})", line(&command), output.status);
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// Executables by name in cargo's JSON messages.
pub(crate) fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| {
            let path = message.get("executable")?.as_str()?;
            let name = message.get("target")?.get("name")?.as_str()?;
            Some((name.to_owned(), PathBuf::from(path)))
        })
        .collect()
}

/// One executable of [`build`].
pub(crate) fn executable(built: &BTreeMap<String, PathBuf>, name: &str) -> Result<PathBuf> {
    built.get(name).cloned().with_context(|| format!("cargo built no executable named `{name}`"))
}

/// The target triple of this machine's compiler.
pub(crate) fn host() -> Result<String> {
    let version = capture(Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_parsed_from_cargo_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"gpuforge"},"executable":"/t/debug/gpuforge"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let built = executables(messages);
        assert_eq!(built.len(), 1);
        assert_eq!(executable(&built, "gpuforge").unwrap(), PathBuf::from("/t/debug/gpuforge"));
        assert!(executable(&built, "other").unwrap_err().to_string().contains("`other`"));
    }

    #[cfg(unix)]
    #[test]
    fn a_hanging_command_is_killed() {
        let start = Instant::now();
        let error = run_within(Command::new("sleep").arg("30"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("was killed"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(run_within(&mut Command::new("false"), Duration::from_secs(20)).is_err());
        assert!(run_within(&mut Command::new("true"), Duration::from_secs(20)).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn tee_returns_both_streams_and_the_status() {
        let output = tee(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        assert!(!output.ok);
        assert!(output.text.contains("out") && output.text.contains("err"));
        assert!(!works(&mut Command::new("there-is-no-such-program")));
    }
}
