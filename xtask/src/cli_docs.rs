//! docs/cli.md: the CLI reference, printed by `gpuforge __reference` from the clap command table; `--check` fails when stale.

use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::{fs, process::Command};

/// Path of the generated file, from the root directory.
pub(crate) const PATH: &str = "docs/cli.md";

/// Arguments of `cargo xtask docs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if docs/cli.md is not what would be written
    #[arg(long)]
    check: bool,
}

/// Writes docs/cli.md, or compares it.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        return match stale()? {
            Some(difference) => bail!("{difference}; run `cargo xtask docs`"),
            None => Ok(()),
        };
    }
    let path = sh::root().join(PATH);
    fs::write(&path, generate()?).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// `None` if docs/cli.md is up to date, else where it first differs. Builds the binary `gpuforge`, as `cargo xtask man` does:
/// linking the CLI into xtask would make every xtask command wait for the whole workspace.
pub(crate) fn stale() -> Result<Option<String>> {
    let kept = fs::read_to_string(sh::root().join(PATH)).unwrap_or_default();
    Ok(difference(&kept, &generate()?))
}

fn generate() -> Result<String> {
    let binary = sh::executable(&sh::build(&["gpuforge-cli"], &[], false)?, "gpuforge")?;
    sh::capture(Command::new(binary).arg("__reference"))
}

/// The first line that differs, as `docs/cli.md:LINE: ...`.
fn difference(kept: &str, generated: &str) -> Option<String> {
    if kept == generated {
        return None;
    }
    let equal = kept.lines().zip(generated.lines()).take_while(|(a, b)| a == b).count();
    let line = generated.lines().nth(equal).unwrap_or("nothing");
    Some(format!("{PATH}:{}: is stale; the command table now has: {line}", equal + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_reference_names_the_first_line_that_differs() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let at = |kept, generated| difference(kept, generated).unwrap();
        assert!(
            at("a\nb\n", "a\nc\n").starts_with("docs/cli.md:2: ") && at("a\nb\n", "a\nc\n").ends_with(": c")
        );
        assert!(at("", "a\n").starts_with("docs/cli.md:1: "));
        assert!(at("a\nb\n", "a\n").ends_with("nothing"));
    }
}
