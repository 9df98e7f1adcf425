//! Debian packages that a task needs: found by the program they bring, or installed by apt-get where allowed.

use crate::sh;
use anyhow::Result;
use std::{env, process::Command, time::Duration};

/// Deadline of an installation; a mirror that does not answer must not block the task.
const LIMIT: Duration = Duration::from_secs(300);

/// A program, and the packages that bring it and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) program: &'static str,
    pub(crate) packages: &'static [&'static str],
}

/// Inputs of the decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InstallFacts {
    /// `--no-install` or `GPUFORGE_NO_INSTALL=1`: the name of what forbids it.
    pub(crate) forbidden: Option<&'static str>,
    /// Is there an apt-get?
    pub(crate) apt: bool,
    /// Are we root?
    pub(crate) root: bool,
    /// Can we become root without being asked for a password?
    pub(crate) sudo: bool,
}

/// May packages be installed, and through `sudo -n`? Else why not.
pub(crate) fn decide(facts: InstallFacts) -> Result<bool, String> {
    if let Some(what) = facts.forbidden {
        return Err(format!("{what} forbids installing it"));
    }
    if !facts.apt {
        return Err("there is no apt-get to install it with".to_owned());
    }
    match (facts.root, facts.sudo) {
        (true, _) => Ok(false),
        (false, true) => Ok(true),
        (false, false) => Err("installing it needs root".to_owned()),
    }
}

/// `--no-install` as a fact.
pub(crate) fn forbidden(no_install: bool) -> Option<&'static str> {
    let by_variable = env::var("GPUFORGE_NO_INSTALL").is_ok_and(|value| value == "1");
    no_install.then_some("--no-install").or(by_variable.then_some("GPUFORGE_NO_INSTALL=1"))
}

fn facts(no_install: bool) -> InstallFacts {
    InstallFacts {
        forbidden: forbidden(no_install),
        apt: sh::works(Command::new("apt-get").arg("--version")),
        root: sh::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0"),
        sudo: sh::works(Command::new("sudo").args(["-n", "true"])),
    }
}

/// Makes the programs available; why not, if they cannot be.
pub(crate) fn ensure(needed: &[Needed], no_install: bool) -> Result<(), String> {
    for Needed { program, packages } in needed {
        if sh::works(Command::new(program).arg("--version")) {
            continue;
        }
        let sudo = decide(facts(no_install)).map_err(|why| format!("no {program}, and {why}"))?;
        install(packages, sudo).map_err(|error| format!("no {program}: {error:#}"))?;
    }
    Ok(())
}

/// Installs packages, perhaps through `sudo -n`.
pub(crate) fn install(packages: &[&str], sudo: bool) -> Result<()> {
    let apt = |args: &[&str]| {
        let mut command = if sudo { Command::new("sudo") } else { Command::new("apt-get") };
        if sudo {
            command.args(["-n", "apt-get"]);
        }
        command
            .args(["-qq", "-o", "DPkg::Lock::Timeout=60"])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive");
        sh::run_within(&mut command, LIMIT)
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installs_only_where_it_may() {
        let bare = InstallFacts { apt: true, root: true, ..InstallFacts::default() };
        assert_eq!(decide(bare), Ok(false));
        assert_eq!(decide(InstallFacts { root: false, sudo: true, ..bare }), Ok(true));
        let refused = |facts, word: &str| {
            let why = decide(facts).unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        refused(InstallFacts { root: false, ..bare }, "root");
        refused(InstallFacts { apt: false, ..bare }, "apt-get");
        refused(InstallFacts { forbidden: Some("--no-install"), ..bare }, "--no-install");
    }

    #[test]
    fn what_is_there_is_not_installed() {
        let cargo = Needed { program: "cargo", packages: &[] };
        assert_eq!(ensure(&[cargo], true), Ok(()));
        let missing = Needed { program: "gpuforge-no-such-program", packages: &[] };
        let why = ensure(&[missing], true).unwrap_err();
        assert!(why.contains("gpuforge-no-such-program") && why.contains("--no-install"), "{why}");
    }
}
