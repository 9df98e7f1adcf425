//! Probe isolation: `gpuforge __probe NAME` runs one driver probe in a child process and prints its result as JSON.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
};

use gpuforge::hardware::probe::isolate::{CHILD_COMMAND, Isolation, run_in_child};

use crate::{context::env, invocation};

/// Runs the probe if this process is a probe child.
pub(crate) fn run_as_child(arguments: &[OsString]) -> Option<u8> {
    let (first, rest) = arguments.split_first()?;
    if first != OsStr::new(CHILD_COMMAND) {
        return None;
    }
    let name = rest.first().and_then(|name| name.to_str());
    let Some(answer) = name.and_then(|name| run_in_child(name, &env)) else {
        return Some(2);
    };
    let mut out = io::stdout().lock();
    let written = out.write_all(answer.as_bytes()).and_then(|()| out.flush());
    Some(u8::from(written.is_err()))
}

/// Child processes where it is known how this program is started, else threads.
pub(crate) fn isolation() -> Isolation {
    invocation::program().map_or(Isolation::Thread, |program| Isolation::Child(program.clone()))
}
