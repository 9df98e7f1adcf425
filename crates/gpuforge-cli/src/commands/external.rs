//! External programs (`gpuforge-train`, `gpuforge-cluster`): found beside this program or on PATH, then `exec`ed. They are
//! installed separately because their dependencies are larger than all of gpuforge.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{error::Hinted, invocation};

/// A program of this workspace with its own executable.
pub(super) struct ExternalProgram {
    pub(super) name: &'static str,
    /// Its package.
    pub(super) package: &'static str,
}

impl ExternalProgram {
    /// The program, without arguments yet; `asked` is the command that needs it.
    pub(super) fn command(&self, asked: &str) -> Result<Command> {
        let own = invocation::program().map(|own| own.program.as_path());
        let found = find(self.name, own, env::var_os("PATH").as_deref());
        let ExternalProgram { name, package } = self;
        let missing = || {
            Hinted::new(
                format!("`gpuforge {asked}` needs {name}, which is neither beside gpuforge nor on PATH"),
                format!("cargo install --path crates/{package}, or put {name} beside gpuforge"),
            )
        };
        Ok(Command::new(found.ok_or_else(missing)?))
    }
}

/// Runs the program in place of this one; exits with its code.
pub(super) fn exec(child: Command) -> Result<()> {
    let program = child.get_program().to_owned();
    replace_process(child).with_context(|| format!("cannot run {}", program.display()))
}

/// Signals then reach only that program, and it can clean up. Where it had to run as a child, its exit code becomes ours.
fn replace_process(child: Command) -> Result<()> {
    match gpuforge::os::process::replace(child)? {
        0 => Ok(()),
        // It has printed its error.
        code => std::process::exit(code),
    }
}

/// Beside this executable first, then along PATH.
fn find(name: &str, own: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let along = path.map(|p| env::split_paths(p).collect::<Vec<_>>()).unwrap_or_default();
    beside.into_iter().chain(along).map(|directory| directory.join(&name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn a_program_beside_the_executable_precedes_path() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = format!("gpuforge-other{}", env::consts::EXE_SUFFIX);
        let own = here.path().join("gpuforge");
        let path = env::join_paths([Path::new("/nowhere"), there.path()]).unwrap();
        let find = |own, path| find("gpuforge-other", own, path);
        assert_eq!(find(Some(&own), Some(&path)), None);
        std::fs::write(there.path().join(&name), "").unwrap();
        assert_eq!(find(Some(&own), Some(&path)), Some(there.path().join(&name)));
        std::fs::write(here.path().join(&name), "").unwrap();
        assert_eq!(find(Some(&own), Some(&path)), Some(here.path().join(&name)));
        assert_eq!(find(None, None), None);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let none = ExternalProgram { name: "gpuforge-nowhere", package: "gpuforge-nowhere" };
        let error = format!("{:#}", none.command("fly").unwrap_err());
        assert!(error.contains("`gpuforge fly` needs gpuforge-nowhere"), "{error}");
    }
}
