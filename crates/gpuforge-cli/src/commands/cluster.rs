//! `gpuforge cluster …`: run by `gpuforge-cluster`.

use anyhow::Result;

use super::sibling::{Sibling, hand_over};
use crate::{args::Passed, context::Context};

const CLUSTER: Sibling = Sibling { name: "gpuforge-cluster", package: "gpuforge-cluster" };

/// Hands over, and ends as that program ends.
pub(crate) fn run(args: &Passed, context: &Context) -> Result<()> {
    let mut child = CLUSTER.command("cluster")?;
    child.args(&args.args);
    if context.out.json {
        child.arg("--json");
    }
    if let Some(limit) = context.memory_limit() {
        child.args(["--memory-limit", limit]);
    }
    hand_over(child)
}
