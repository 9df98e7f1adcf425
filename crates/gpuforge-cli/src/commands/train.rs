//! `gpuforge train`, `evaluate` and `predict`: run by `gpuforge-train`.

use anyhow::Result;

use super::external::{ExternalProgram, exec};
use crate::{args::PassThrough, context::Context};

const TRAIN: ExternalProgram = ExternalProgram { name: "gpuforge-train", package: "gpuforge-train" };

/// Runs that program with these arguments and ends with its exit code.
pub(crate) fn run(command: &str, args: &PassThrough, context: &Context) -> Result<()> {
    let mut child = TRAIN.command(command)?;
    child.arg(command).args(&args.args);
    if context.out.json {
        child.arg("--json");
    } else if context.out.quiet {
        child.arg("--quiet");
    }
    exec(child)
}
