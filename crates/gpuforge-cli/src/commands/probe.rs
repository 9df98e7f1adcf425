//! Probe isolation: `gpuforge __probe NAME` runs one driver probe in a child process and prints its result as JSON.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    process::ExitCode,
};

use gpuforge::hardware::probe::isolate::{CHILD_COMMAND, Isolation, run_in_child};

use crate::context::env;

/// Runs the probe if this process is a probe child.
pub(crate) fn run_as_child() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(CHILD_COMMAND)) {
        return None;
    }
    let name = args.next().unwrap_or_default();
    let Some(answer) = name.to_str().and_then(|name| run_in_child(name, &env)) else {
        return Some(ExitCode::from(2));
    };
    let mut out = io::stdout().lock();
    let written = out.write_all(answer.as_bytes()).and_then(|()| out.flush());
    Some(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Child processes where the path of this executable is known, else threads.
pub(crate) fn isolation() -> Isolation {
    std::env::current_exe().map_or(Isolation::Thread, Isolation::Child)
}
