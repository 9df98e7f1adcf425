//! Runners: how a program of another target is started on this machine.

use crate::{debian::Needed, sh};
use anyhow::{Context as _, Result};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::toolchain::{MINGW_GCC, SYSROOT};

const QEMU: Needed = Needed { program: "qemu-aarch64-static", packages: &["qemu-user-static"] };
/// Debian's package for 64-bit programs alone; the launcher on the PATH is in another, which wants 32-bit Wine too.
const WINE: Needed = Needed { program: "/usr/lib/wine/wine64", packages: &["wine64"] };
const WINESERVER: &str = "/usr/lib/wine/wineserver64";

/// Deadline of creating an empty Windows directory.
const WINE_BOOT: Duration = Duration::from_secs(300);

/// How programs of a target run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// As they are.
    Host,
    /// User-mode emulation of AArch64.
    Qemu,
    /// Windows programs on Linux, in a prefix of their own, without a display.
    Wine,
    /// As they are, with a directory that holds the program and its input, and nothing else, as the root.
    EmptyRoot,
    /// Not at all.
    None,
}

impl Runner {
    pub(super) fn needs(self) -> Option<Needed> {
        match self {
            Runner::Qemu => Some(QEMU),
            Runner::Wine => Some(WINE),
            Runner::Host | Runner::EmptyRoot | Runner::None => None,
        }
    }

    /// For the summary: ` under Wine 8.0`.
    pub(super) fn under(self) -> String {
        let version = |program: &str| {
            let text = sh::capture(Command::new(program).arg("--version")).unwrap_or_default();
            text.lines().next().unwrap_or_default().split(" (").next().unwrap_or_default().to_owned()
        };
        match self {
            Runner::Host | Runner::None => String::new(),
            Runner::Qemu => format!(" under {}", version(QEMU.program)),
            Runner::Wine => format!(" under {}", version(WINE.program)),
            Runner::EmptyRoot => " in an empty root directory".to_owned(),
        }
    }

    /// Prepares the runner: a Wine prefix and its server, a temporary directory for everybody.
    pub(super) fn start(self) -> Result<Running> {
        let home = tempfile::Builder::new().prefix("gpuforge-cross-").tempdir()?;
        let running = Running { runner: self, home };
        if self == Runner::Wine {
            running.start_wine()?;
        }
        Ok(running)
    }
}

/// A runner that is ready; dropping it ends what it started.
pub(super) struct Running {
    runner: Runner,
    home: tempfile::TempDir,
}

impl Running {
    /// A directory that lives as long as the runner.
    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Words before the program's path.
    fn prefix(&self) -> Vec<OsString> {
        match self.runner {
            Runner::Qemu => [QEMU.program, "-L", SYSROOT].map(OsString::from).to_vec(),
            Runner::Wine => vec![WINE.program.into()],
            Runner::Host | Runner::EmptyRoot | Runner::None => Vec::new(),
        }
    }

    /// The environment that the runner itself reads.
    fn variables(&self) -> Vec<(&'static str, OsString)> {
        match self.runner {
            Runner::Wine => vec![
                ("WINEPREFIX", self.home().join("wine").into()),
                ("WINESERVER", WINESERVER.into()),
                ("WINEDEBUG", "-all".into()),
                // Neither a browser engine nor .NET is asked for, nor menu entries of the user.
                ("WINEDLLOVERRIDES", "mscoree=;mshtml=;winemenubuilder.exe=".into()),
                ("DISPLAY", OsString::new()),
            ],
            _ => Vec::new(),
        }
    }

    /// Variables with which cargo starts test programs of the target.
    pub(super) fn cargo_variables(&self, triple: &str) -> Vec<(String, OsString)> {
        let prefix = self.prefix().join(&OsString::from(" "));
        let name = format!("CARGO_TARGET_{}_RUNNER", triple.to_uppercase().replace('-', "_"));
        let runner = (!prefix.is_empty()).then_some((name, prefix));
        runner.into_iter().chain(self.variables().into_iter().map(|(k, v)| (k.to_owned(), v))).collect()
    }

    /// The program in `directory`: arguments name files there, relative to it. Settings and cache are in it too.
    pub(super) fn command(&self, program: &Path, directory: &Path) -> Result<Command> {
        let mut command = match self.runner {
            Runner::EmptyRoot => in_empty_root(program, directory)?,
            _ => {
                let words: Vec<OsString> = self.prefix().into_iter().chain([program.into()]).collect();
                let (first, rest) = words.split_first().context("no program")?;
                let mut command = Command::new(first);
                command.args(rest);
                command
            }
        };
        command.current_dir(directory).envs(self.variables());
        command.env("GPUFORGE_CACHE_DIR", "cache").env("GPUFORGE_CONFIG", "config.toml");
        Ok(command)
    }

    /// The server stays while the tests run: it would otherwise stop and start again between two programs. It and the
    /// services of Windows keep the streams with which they were started open: a pipe of ours would never end.
    fn start_wine(&self) -> Result<()> {
        fs::create_dir(self.home().join("wine"))?;
        let quiet = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).envs(self.variables()).stdout(Stdio::null()).stderr(Stdio::null());
            sh::run_within(&mut command, WINE_BOOT)
        };
        quiet(WINESERVER, &["--persistent"])?;
        quiet(WINE.program, &["wineboot", "--init"])?;
        let system = self.home().join("wine/drive_c/windows/system32");
        if system.join("bcryptprimitives.dll").exists() {
            return Ok(());
        }
        let source = self.home().join("process_prng.c");
        fs::write(&source, include_str!("process_prng.c"))?;
        let mut gcc = Command::new(MINGW_GCC.program);
        gcc.args(["-shared", "-O2", "-o"]).arg(system.join("bcryptprimitives.dll")).arg(source);
        sh::run(gcc.arg("-ladvapi32"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.runner == Runner::Wine && self.home().join("wine").exists() {
            // Of this prefix only. A server that is gone already needs no ending.
            let _ = Command::new(WINESERVER).arg("--kill").envs(self.variables()).status();
        }
    }
}

/// `chroot` where we are root, a user namespace where we are not.
fn in_empty_root(program: &Path, directory: &Path) -> Result<Command> {
    let name = PathBuf::from(program.file_name().context("the program has no name")?);
    if !directory.join(&name).exists() {
        fs::copy(program, directory.join(&name))
            .with_context(|| format!("cannot copy {}", program.display()))?;
    }
    let root = sh::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut command = if root { Command::new("chroot") } else { Command::new("unshare") };
    if !root {
        command.args(["--user", "--map-root-user", "--root"]);
    }
    command.arg(directory).arg(Path::new("/").join(name)).env_clear();
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_the_runner_and_its_environment() {
        let of = |runner| {
            let running = Running { runner, home: tempfile::tempdir().unwrap() };
            running.cargo_variables("aarch64-unknown-linux-gnu")
        };
        let qemu = of(Runner::Qemu);
        let name = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER".to_owned();
        assert_eq!(qemu, [(name, OsString::from(format!("{} -L {SYSROOT}", QEMU.program)))]);
        assert!(of(Runner::Host).is_empty(), "on AArch64 itself nothing is emulated");
        let wine = of(Runner::Wine);
        assert!(wine.iter().any(|(name, _)| name == "WINEPREFIX"), "{wine:?}");
    }
}
