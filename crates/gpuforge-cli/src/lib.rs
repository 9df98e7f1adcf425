//! The command line `gpuforge` as a function: parses arguments, runs one command, returns its exit code.
//!
//! The binary calls [`run`], and so does the Python package: its wheel carries the commands inside the extension module
//! instead of a second executable.
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
//! | `invocation.rs` | the arguments, and how this program is started again |
//! | `output.rs`, `format.rs`, `progress.rs` | printing, text formatting, progress line |
//! | `error.rs`, `interrupt.rs` | errors with hints and exit codes; signals |
//! | `bars.rs` | input files and selections, shared by commands |
//! | `atomic_file.rs` | writing a file by rename |
//! | `reference.rs` | docs/cli.md from the command table |

use std::{ffi::OsString, io::Write as _};

use clap::Parser as _;

mod args;
mod atomic_file;
mod bars;
mod commands;
mod context;
mod error;
mod format;
mod interrupt;
mod invocation;
mod output;
mod progress;
mod reference;

pub use invocation::Invocation;

/// Runs the command line of this process and returns the exit code.
///
/// Once per process: signal handlers are installed that end it, and a second [`Invocation`] would be ignored.
pub fn run(invocation: Invocation) -> u8 {
    let invocation = invocation::set(invocation);
    // A probe child starts a driver as soon as it can; parsing arguments and settings would only delay it.
    if let Some(code) = commands::probe::run_as_child(&invocation.arguments) {
        return code;
    }
    interrupt::install();
    let argv = std::iter::once(OsString::from("gpuforge")).chain(invocation.arguments.iter().cloned());
    let code = match args::Args::try_parse_from(argv) {
        Ok(args) => execute(args),
        Err(usage) => {
            // Help and version too. Nothing can be done when the stream is closed.
            let _ = usage.print();
            u8::try_from(usage.exit_code()).unwrap_or(1)
        }
    };
    // Rust's runtime flushes stdout only where it started the process: not inside Python.
    let _ = std::io::stdout().flush();
    code
}

fn execute(args: args::Args) -> u8 {
    let context = context::Context::new(&args);
    let trace = gpuforge::profile::trace_from_env(|name| std::env::var_os(name));
    let code = error::report(commands::run(args.command, &context), &context);
    match trace.map(gpuforge::profile::TraceGuard::finish) {
        Some(Err(failed)) => error::report(Err(failed.into()), &context),
        _ => code,
    }
}
