//! Shell completions, man pages and the Markdown reference: generated from the clap command table.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use serde_json::json;

use crate::{args::Args, context::Context, reference};

pub(crate) fn completions(shell: clap_complete::Shell, context: &Context) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "gpuforge", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if context.out.json {
        return context.out.json(&json!({ "shell": shell.to_string(), "script": script }));
    }
    context.out.text(&script)
}

pub(crate) fn man(dir: &Path, context: &Context) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    clap_mangen::generate_to(Args::command(), dir)
        .with_context(|| format!("cannot write man pages to {}", dir.display()))?;
    context.out.text(&format!("man pages written to {}\n", dir.display()))
}

/// The text of docs/cli.md.
pub(crate) fn reference(context: &Context) -> Result<()> {
    context.out.text(&reference::markdown(Args::command()))
}
