//! `gpuforge cluster …`: run by `gpuforge-cluster`.

use anyhow::Result;

use super::external::{ExternalProgram, exec};
use crate::{args::PassThrough, context::Context};

const CLUSTER: ExternalProgram = ExternalProgram { name: "gpuforge-cluster", package: "gpuforge-cluster" };

/// Runs that program with these arguments and ends with its exit code.
pub(crate) fn run(args: &PassThrough, context: &Context) -> Result<()> {
    let mut child = CLUSTER.command("cluster")?;
    child.args(&args.args);
    if context.out.json {
        child.arg("--json");
    }
    if let Some(limit) = context.memory_limit() {
        child.args(["--memory-limit", limit]);
    }
    exec(child)
}
