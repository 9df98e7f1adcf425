//! `gpuforge demo`: detect the machine, and say what gpuforge would use and why.

use std::fmt::Write as _;

use anyhow::Result;
use gpuforge::choice::choose;
use serde_json::json;

use super::{detect, overview};
use crate::{
    context::Context,
    format::{size, width, wrap},
    output::{GOOD, HEAD},
};

pub(crate) fn run(context: &Context) -> Result<()> {
    let inventory = overview::inventory(context)?;
    let choice = choose(&inventory);
    if context.out.json {
        return context.out.json(&json!({ "choice": choice, "inventory": inventory }));
    }
    detect::print(&inventory, context)?;
    let width = width();
    let mut out = format!("\n{HEAD}gpuforge would use{HEAD:#}\n");
    let _ = writeln!(out, "  {GOOD}{}{GOOD:#} ({})", choice.name, choice.device);
    out.push_str(&wrap(&format!("because: {}", choice.reason), 2, width));
    out.push_str(&wrap(&format!("threads: {}", choice.threads_reason), 2, width));
    if let Some(simd) = &choice.simd {
        let _ = writeln!(out, "  vector code: {simd}");
    }
    match choice.memory_bytes {
        Some(bytes) => drop(writeln!(out, "  memory: {}", size(bytes))),
        None => out.push_str("  memory: not known\n"),
    }
    context.out.text(&out)
}
