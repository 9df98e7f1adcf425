//! The command line `gpuforge` inside the extension module: what `python -m gpuforge` and the installed script call.

use std::ffi::OsString;

use gpuforge_cli::Invocation;
use pyo3::prelude::*;

/// Runs the command line and returns its exit code. `launcher` is what starts this program again, for probe children.
///
/// The GIL is released: a signal ends the process in the signal thread of gpuforge_cli, whatever Python waits for.
#[pyfunction]
pub(crate) fn cli_main(py: Python<'_>, launcher: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| gpuforge_cli::run(Invocation::of_interpreter(launcher, arguments)))
}
