//! Cross toolchains: linker, C compiler and archiver of a target, as variables that cargo and the `cc` crate read.

use crate::{debian::Needed, sh};
use anyhow::{Context as _, Result};
use std::{fs, path::Path, process::Command, time::Duration};

/// Compiler and C library of AArch64 Linux, as Debian has them.
pub(crate) const CROSS_GCC: Needed = Needed {
    program: "aarch64-linux-gnu-gcc",
    packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
};

/// MinGW: compiler, linker and import libraries of Windows.
pub(super) const MINGW_GCC: Needed =
    Needed { program: "x86_64-w64-mingw32-gcc", packages: &["gcc-mingw-w64-x86-64"] };

/// C compiler over musl's headers; Rust brings musl itself and links it statically.
const MUSL_GCC: Needed = Needed { program: "musl-gcc", packages: &["musl-tools"] };

/// Where Debian puts the C library of AArch64.
pub(crate) const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// Deadline of an installation from PyPI.
const LIMIT: Duration = Duration::from_secs(300);

/// Who compiles C and who links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// What cargo finds without being told; for targets without C code too.
    Host,
    /// A GCC that cross-compiles, which cc finds by the target's name.
    Gcc(Needed),
    /// musl's wrapper of the host's GCC for C code.
    Musl,
    /// Clang with the C library of zig's target of this name, for C code only: nothing is linked.
    Zig(&'static str),
}

impl Toolchain {
    pub(super) fn needs(self) -> Option<Needed> {
        match self {
            Toolchain::Gcc(gcc) => Some(gcc),
            Toolchain::Musl => Some(MUSL_GCC),
            Toolchain::Host | Toolchain::Zig(_) => None,
        }
    }

    /// Variables of cargo and cc for the target; why not, if the tools cannot be made available.
    pub(super) fn variables(self, triple: &str, no_install: bool) -> Result<Vec<(String, String)>, String> {
        let under = triple.replace('-', "_");
        Ok(match self {
            Toolchain::Host => Vec::new(),
            Toolchain::Gcc(gcc) => {
                vec![(format!("CARGO_TARGET_{}_LINKER", under.to_uppercase()), gcc.program.to_owned())]
            }
            Toolchain::Musl => vec![(format!("CC_{under}"), MUSL_GCC.program.to_owned())],
            Toolchain::Zig(target) => {
                let tools = zig(target, no_install)?;
                vec![
                    (format!("CC_{under}"), tools.join("cc").display().to_string()),
                    (format!("CXX_{under}"), tools.join("c++").display().to_string()),
                    (format!("AR_{under}"), tools.join("ar").display().to_string()),
                    // cc asks xcrun for the SDK of macOS unless it is told a directory; zig brings the headers.
                    ("SDKROOT".to_owned(), tools.display().to_string()),
                ]
            }
        })
    }
}

/// Wrapper scripts around zig for a target, in the target directory; zig itself comes from PyPI into a virtual environment.
fn zig(target: &str, no_install: bool) -> Result<std::path::PathBuf, String> {
    let home = sh::target().join("cross/zig");
    let python = home.join("venv/bin/python");
    if !sh::works(Command::new(&python).args(["-m", "ziglang", "version"])) {
        if let Some(what) = crate::debian::forbidden(no_install) {
            return Err(format!("no zig, and {what} forbids installing it"));
        }
        install(&home, &python).map_err(|error| format!("no zig: {error:#}"))?;
    }
    let tools = home.join(target);
    let made = fs::create_dir_all(&tools)
        .and_then(|()| script(&tools.join("cc"), &compiler(&python, "cc", target)))
        .and_then(|()| script(&tools.join("c++"), &compiler(&python, "c++", target)))
        .and_then(|()| {
            script(&tools.join("ar"), &format!("exec '{}' -m ziglang ar \"$@\"\n", python.display()))
        });
    made.map_err(|error| format!("no wrapper of zig in {}: {error}", tools.display()))?;
    Ok(tools)
}

fn install(home: &Path, python: &Path) -> Result<()> {
    let venv = home.join("venv");
    fs::create_dir_all(home)?;
    sh::run_within(Command::new("python3").args(["-m", "venv"]).arg(&venv), LIMIT)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "ziglang"];
    sh::run_within(Command::new(python).args(pip), LIMIT).context("pip cannot install ziglang")
}

/// cc passes Clang's and Apple's own words for the target, which zig has in one argument of its own.
fn compiler(python: &Path, language: &str, target: &str) -> String {
    format!(
        r#"skip=
for arg in "$@"; do
    shift
    case "$skip$arg" in
        -arch | -isysroot | -target) skip=1 ;;
        1*) skip= ;;
        --target=* | -mmacosx-version-min=*) ;;
        *) set -- "$@" "$arg" ;;
    esac
done
exec '{}' -m ziglang {language} -target {target} "$@"
"#,
        python.display()
    )
}

fn script(path: &Path, body: &str) -> std::io::Result<()> {
    fs::write(path, format!("#!/bin/sh\n{body}"))?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_and_cc_read_the_tools_of_a_target_from_these_variables() {
        let names = |toolchain: Toolchain, triple| {
            let variables = toolchain.variables(triple, true).unwrap();
            variables.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let gcc = names(Toolchain::Gcc(CROSS_GCC), "aarch64-unknown-linux-gnu");
        assert_eq!(gcc, ["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"]);
        assert_eq!(names(Toolchain::Musl, "x86_64-unknown-linux-musl"), ["CC_x86_64_unknown_linux_musl"]);
        assert!(names(Toolchain::Host, "aarch64-unknown-linux-gnu").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn the_wrapper_of_zig_drops_what_names_the_target_again() {
        let home = tempfile::tempdir().unwrap();
        // `echo` in place of the interpreter shows the arguments.
        let path = home.path().join("cc");
        script(&path, &compiler(Path::new("/bin/echo"), "cc", "aarch64-macos")).unwrap();
        let args =
            ["-O2", "--target=arm64-apple-macosx", "-arch", "arm64", "-isysroot", "/sdk", "-c", "a b.c"];
        let text = sh::capture(Command::new(&path).args(args)).unwrap();
        assert_eq!(text.trim(), "-m ziglang cc -target aarch64-macos -O2 -c a b.c");
    }
}
