//! Reproducibility across targets: every indicator of the same bars, computed by the host's binary and by the target's; the
//! files must have the same SHA-256.

use crate::{dist::archive::sha256, sh};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::runner::Running;

/// Formats that are compared. Parquet and Arrow hold schema and metadata besides the numbers, CSV the numbers as text.
const FORMATS: [&str; 3] = ["csv", "arrow", "parquet"];

/// On the CPU: a GPU computes in single precision, and only one side may have one.
const SELECT: [&str; 4] = ["--select", "all", "--device", "cpu"];

/// Compares; what was equal, or an error that names the file that was not.
pub(super) fn compare(host: &Path, target: &Path, running: &Running) -> Result<String> {
    let [here, there] = ["here", "there"].map(|name| running.home().join(name));
    for directory in [&here, &there] {
        fs::create_dir_all(directory)?;
    }
    let on_host = || {
        let mut command = Command::new(host);
        command.current_dir(&here).env("GPUFORGE_CACHE_DIR", "cache").env("GPUFORGE_CONFIG", "config.toml");
        command
    };
    let mut same = Vec::new();
    let mut sum = String::new();
    // All columns of the default sample would be gigabytes of text.
    let sample = ["sample", "-o", "bars.parquet", "--symbols", "3", "--bars", "2000"];
    run(on_host().args(sample))?;
    run(running.command(target, &there)?.args(sample))?;
    equal("bars.parquet", &here, &there)?;
    for format in FORMATS {
        let out = format!("all.{format}");
        let args = ["indicators", "bars.parquet", "-o", &out];
        run(on_host().args(args).args(SELECT))?;
        run(running.command(target, &there)?.args(args).args(SELECT))?;
        sum = equal(&out, &here, &there)?;
        same.push(format);
    }
    let short = sum.get(..12).unwrap_or(&sum);
    Ok(format!(
        "`indicators --select all` of sample bars: same bytes as {} in {} (Parquet's SHA-256 begins {short})",
        sh::host()?,
        same.join(", ")
    ))
}

fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", sh::line(command));
    let output = command.stdin(Stdio::null()).output().with_context(|| sh::line(command))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed ({}): {}", sh::line(command), output.status, stderr.trim());
    Ok(())
}

/// The SHA-256 of a file that is the same in both directories.
fn equal(name: &str, here: &Path, there: &Path) -> Result<String> {
    let (ours, theirs) = (sha256(&here.join(name))?, sha256(&there.join(name))?);
    if ours == theirs {
        return Ok(ours);
    }
    let differs = first_difference(&fs::read(here.join(name))?, &fs::read(there.join(name))?);
    anyhow::bail!("{name} differs: {differs}; SHA-256 here {ours}, there {theirs}")
}

/// `byte 12 of 90 and 91`, and for text the line.
fn first_difference(a: &[u8], b: &[u8]) -> String {
    let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let line = a.iter().take(at).filter(|&&byte| byte == b'\n').count() + 1;
    format!("at byte {at} (line {line} of text), of {} and {}", a.len(), b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_have_a_sum_and_others_a_first_difference() {
        let home = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| home.path().join(name));
        for (directory, text) in [(&here, "a\nb\n"), (&there, "a\nc\n")] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("same.csv"), "1\n").unwrap();
            fs::write(directory.join("other.csv"), text).unwrap();
        }
        assert_eq!(equal("same.csv", &here, &there).unwrap().len(), 64);
        let error = equal("other.csv", &here, &there).unwrap_err().to_string();
        assert!(error.contains("at byte 2 (line 2 of text), of 4 and 4"), "{error}");
    }
}
