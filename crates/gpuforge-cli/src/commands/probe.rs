//! How is a driver asked in a process of its own? `gpuforge __probe NAME` prints one probe's answer as JSON.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    process::ExitCode,
};

use gpuforge::hardware::probe::isolate::{CHILD_COMMAND, Isolation, run_in_child};

use crate::context::env;

/// Runs a probe if this process was started as its child.
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
    let said = out.write_all(answer.as_bytes()).and_then(|()| out.flush());
    Some(if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Children where this program can find itself, threads where it cannot.
pub(crate) fn isolation() -> Isolation {
    std::env::current_exe().map_or(Isolation::Thread, Isolation::Child)
}
