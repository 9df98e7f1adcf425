//! `gpuforge train`, `evaluate` and `predict`: run by `gpuforge-train`, which is installed apart because its dependencies are
//! larger than all of gpuforge.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{args::Passed, context::Context, error::Hinted};

const PROGRAM: &str = "gpuforge-train";

/// Hands over, and ends as that program ended.
pub(crate) fn run(command: &str, args: &Passed, context: &Context) -> Result<()> {
    let own = env::current_exe().ok();
    let program = find(own.as_deref(), env::var_os("PATH").as_deref()).ok_or_else(|| {
        Hinted::new(
            format!("`gpuforge {command}` needs {PROGRAM}, which is neither beside gpuforge nor on PATH"),
            format!("cargo install --path crates/forge-train, or put {PROGRAM} beside gpuforge"),
        )
    })?;
    let mut child = Command::new(&program);
    child.arg(command).args(&args.args);
    if context.out.json {
        child.arg("--json");
    } else if context.out.quiet {
        child.arg("--quiet");
    }
    let status = child.status().with_context(|| format!("cannot run {}", program.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said what was wrong.
        Some(code) => std::process::exit(code),
        None => Err(Hinted::new(
            format!("{PROGRAM} was ended by a signal ({status})"),
            "`--resume` goes on from its last checkpoint",
        )
        .into()),
    }
}

/// Beside this program first, then along PATH.
fn find(own: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let name = format!("{PROGRAM}{}", env::consts::EXE_SUFFIX);
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let along = path.map(|p| env::split_paths(p).collect::<Vec<_>>()).unwrap_or_default();
    beside.into_iter().chain(along).map(|folder| folder.join(&name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn the_one_beside_comes_before_those_on_the_path() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = format!("{PROGRAM}{}", env::consts::EXE_SUFFIX);
        let own = here.path().join("gpuforge");
        let path = env::join_paths([Path::new("/nowhere"), there.path()]).unwrap();
        assert_eq!(find(Some(&own), Some(&path)), None);
        std::fs::write(there.path().join(&name), "").unwrap();
        assert_eq!(find(Some(&own), Some(&path)), Some(there.path().join(&name)));
        assert_eq!(find(None, None), None);
        std::fs::write(here.path().join(&name), "").unwrap();
        assert_eq!(find(Some(&own), Some(&path)), Some(here.path().join(&name)));
    }
}
