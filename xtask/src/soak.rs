//! Soak test: `gpuforge-bench soak` in release runs mixed work with injected faults for minutes and checks for leaks.

use crate::sh;
use anyhow::{Result, bail};
use std::process::Command;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
}

/// Runs; an error if memory, threads or handles grew, or a result was wrong.
pub(crate) fn run(args: &Args) -> Result<()> {
    let minutes = minutes(args.minutes)?;
    let built = sh::build(&["gpuforge-bench"], &[], true)?;
    sh::run(
        Command::new(sh::executable(&built, "gpuforge-bench")?)
            .args(["soak", &minutes])
            .current_dir(sh::root()),
    )
}

/// Bounded, so that an unattended run ends.
fn minutes(asked: f64) -> Result<String> {
    if asked > 0.0 && asked <= 24.0 * 60.0 {
        Ok(asked.to_string())
    } else {
        bail!("--minutes {asked}: more than 0 and at most 1440")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_bounded() {
        assert_eq!(minutes(10.0).unwrap(), "10");
        assert_eq!(minutes(0.1).unwrap(), "0.1");
        for wrong in [0.0, -1.0, 1441.0, f64::NAN, f64::INFINITY] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
