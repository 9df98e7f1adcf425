//! Executables: ELF and PE headers, oldest glibc, and running one, emulated if it is of another machine.

use super::{DistTarget, Toolchain};
use crate::{cross::SYSROOT, sh};
use anyhow::{Context as _, Result, ensure};
use std::{fs, path::Path, process::Command};

/// What a file's headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Architecture by its name in target triples.
    pub(super) architecture: &'static str,
    /// Dynamic linker that an ELF file asks for.
    pub(super) interpreter: Option<String>,
    /// Newest version of glibc's symbols that are named.
    pub(super) glibc: Option<(u32, u32)>,
}

/// Checks an executable against its target and says what was seen.
pub(super) fn check(target: &DistTarget<'_>, executable: &Path) -> Result<String> {
    let bytes = fs::read(executable)?;
    let mut seen = Vec::new();
    if target.triple.contains("linux") {
        let header = elf(&bytes).with_context(|| format!("{} is no ELF file", executable.display()))?;
        let wanted = target.triple.split('-').next().unwrap_or_default();
        ensure!(header.architecture == wanted, "{} instead of {wanted}", header.architecture);
        if target.triple.ends_with("musl") {
            ensure!(header.interpreter.is_none(), "not static: asks for {:?}", header.interpreter);
            seen.push(format!("static{}", alone(executable)?));
        }
        if let (Toolchain::Zig { glibc: Some(oldest) }, Some((major, minor))) =
            (target.toolchain, header.glibc)
        {
            let allowed = version(oldest).context("a glibc version of the table is malformed")?;
            ensure!((major, minor) <= allowed, "needs glibc {major}.{minor}, {oldest} at most");
            seen.push(format!("glibc {major}.{minor}"));
        }
    }
    seen.push(start(target.triple, executable)?);
    Ok(seen.join(", "))
}

/// Runs a static executable in an empty root directory, as in an image `FROM scratch`; only root may.
fn alone(executable: &Path) -> Result<&'static str> {
    let root = tempfile::tempdir()?;
    fs::copy(executable, root.path().join("gpuforge"))?;
    let run =
        |args: &[&str]| sh::capture(Command::new("chroot").arg(root.path()).arg("/gpuforge").args(args));
    if run(&["--version"]).is_err() {
        return Ok(", not started in an empty root");
    }
    let found = run(&["detect", "--json", "--no-cache"])?;
    ensure!(found.contains("\"cpu\""), "`detect` in an empty root found no CPU: {found}");
    Ok(", `detect` in an empty root")
}

/// Runs `--version` natively or under an emulator.
fn start(triple: &str, executable: &Path) -> Result<String> {
    let native = sh::capture(Command::new(executable).arg("--version"));
    if let Ok(text) = native {
        return Ok(format!("`{}`", text.trim()));
    }
    let emulators: [(&str, &str, &[&str]); 3] = [
        ("aarch64-unknown-linux", "qemu-aarch64-static", &["-L", SYSROOT]),
        ("windows", "wine64", &[]),
        ("windows", "wine", &[]),
    ];
    for (part, emulator, args) in emulators {
        if triple.contains(part) && sh::works(Command::new(emulator).arg("--version")) {
            let text = sh::capture(Command::new(emulator).args(args).arg(executable).arg("--version"))?;
            return Ok(format!("`{}` under {emulator}", text.trim()));
        }
    }
    Ok("not started: no emulator".to_owned())
}

/// Parses a 64-bit little-endian ELF file.
pub(super) fn elf(bytes: &[u8]) -> Option<Header> {
    let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| usize::try_from(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)).ok();
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let architecture = match half(18)? {
        0x3e => "x86_64",
        0xb7 => "aarch64",
        _ => "another architecture",
    };
    let (table, size, count) = (long(32)?, usize::from(half(54)?), usize::from(half(56)?));
    // PT_INTERP.
    let header =
        (0..count).map(|n| table + n * size).find(|at| bytes.get(*at..*at + 4) == Some(&[3, 0, 0, 0]));
    let interpreter = header.and_then(|at| {
        let (start, length) = (long(at + 8)?, long(at + 32)?);
        let name = bytes.get(start..start + length)?;
        Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
    });
    Some(Header { architecture, interpreter, glibc: newest_glibc(bytes) })
}

/// The newest `GLIBC_2.n` among the names of symbol versions.
fn newest_glibc(bytes: &[u8]) -> Option<(u32, u32)> {
    let mark = b"\0GLIBC_";
    let named = bytes.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    let text = named.filter_map(|(at, _)| {
        let rest = bytes.get(at + mark.len()..)?;
        let length = rest.iter().take(12).position(|byte| *byte == 0)?;
        version(std::str::from_utf8(rest.get(..length)?).ok()?)
    });
    text.max()
}

/// `2.17` or `2.2.5`, by its first two numbers.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbol_versions_are_compared_as_numbers() {
        let names = b"x\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_";
        assert_eq!(newest_glibc(names), Some((2, 17)));
        assert_eq!(newest_glibc(b""), None);
        assert!(elf(b"\x7fELF\x02\x01").is_none() && elf(b"MZ").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_program_is_described() {
        let own = std::env::current_exe().unwrap();
        let header = elf(&fs::read(own).unwrap()).unwrap();
        assert_eq!(header.architecture, std::env::consts::ARCH);
        assert!(header.interpreter.is_none_or(|name| name.contains("ld-")), "a path of the dynamic linker");
    }
}
