//! The binary `gpuforge`: reads the command line, runs one command, ends with its exit code.

use std::process::ExitCode;

use clap::Parser as _;

mod args;
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

/// Mesa's device-select layer complains on stderr for every instance where no display server runs.
fn silence_device_select() {
    if std::env::var_os("NODEVICE_SELECT").is_none() {
        #[expect(unsafe_code, reason = "the layer reads its switch from the environment only")]
        // SAFETY: first thing in `main`: no other thread exists that could read the environment meanwhile.
        unsafe {
            std::env::set_var("NODEVICE_SELECT", "1");
        }
    }
}
