//! The binary `gpuforge`: `gpuforge_cli::run` with the arguments of this process.

use std::process::ExitCode;

use gpuforge_cli::Invocation;

fn main() -> ExitCode {
    silence_device_select();
    ExitCode::from(gpuforge_cli::run(Invocation::of_executable(std::env::args_os().skip(1))))
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
