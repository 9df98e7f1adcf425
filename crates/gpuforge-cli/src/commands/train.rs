//! `gpuforge train`, `evaluate` and `predict`: run by `gpuforge-train`.

use anyhow::Result;

use super::sibling::{Sibling, hand_over};
use crate::{args::Passed, context::Context};

const TRAIN: Sibling = Sibling { name: "gpuforge-train", package: "gpuforge-train" };

/// Hands over, and ends as that program ends.
pub(crate) fn run(command: &str, args: &Passed, context: &Context) -> Result<()> {
    let mut child = TRAIN.command(command)?;
    child.arg(command).args(&args.args);
    if context.out.json {
        child.arg("--json");
    } else if context.out.quiet {
        child.arg("--quiet");
    }
    hand_over(child)
}
