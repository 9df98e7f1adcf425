//! The binary `gpuforge`: parses the command line, runs one command, exits with its code.
//!
//! ```text
//! argv ── args ──▶ commands::run ──▶ crate gpuforge ──▶ output (stdout: text or JSON)
//!           │            │                                 │
//!           ▼            ▼                                 ▼
//!       reference    context (settings, paths)     error (stderr, hint, exit code)
//! ```
//! | file | what is in it |
//! |---|---|
//! | `args.rs`, `args/` | clap command table: commands, options, help, examples |
//! | `commands/` | one file per command |
//! | `context.rs` | output mode, settings and paths of a run |
//! | `output.rs`, `format.rs`, `progress.rs` | printing, text formatting, progress line |
//! | `error.rs`, `interrupt.rs` | errors with hints and exit codes; signals |
//! | `bars.rs` | input files and selections, shared by commands |
//! | `atomic_file.rs` | writing a file by rename |
//! | `reference.rs` | docs/cli.md from the command table |

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod atomic_file;
mod bars;
mod commands;
mod context;
mod error;
mod format;
mod interrupt;
mod output;
mod progress;
mod reference;

fn main() -> ExitCode {
    // A probe child starts a driver as soon as it can; parsing arguments and settings would only delay it.
    if let Some(code) = commands::probe::run_as_child() {
        return code;
    }
    silence_device_select();
    interrupt::install();
    let args = args::Args::parse();
    let context = context::Context::new(&args);
    let trace = gpuforge::profile::trace_from_env(|name| std::env::var_os(name));
    let code = error::report(commands::run(args.command, &context), &context);
    match trace.map(gpuforge::profile::TraceGuard::finish) {
        Some(Err(failed)) => error::report(Err(failed.into()), &context),
        _ => code,
    }
}

/// Mesa's device-select layer prints to stderr for every Vulkan instance when no display server runs.
fn silence_device_select() {
    if std::env::var_os("NODEVICE_SELECT").is_none() {
        #[expect(unsafe_code, reason = "the layer reads its switch from the environment only")]
        // SAFETY: first thing in `main`: no other thread exists that could read the environment meanwhile.
        unsafe {
            std::env::set_var("NODEVICE_SELECT", "1");
        }
    }
}
