//! Renders `check_gpu.py`: a script that tests whether the framework sees the GPU.

use crate::{compat::Accelerator, profiles::EnvPlan};

/// The file it is written to.
pub const CHECK_FILE: &str = "check_gpu.py";

/// Script per framework; one of a newer table gets the plain import.
const SCRIPTS: [(&str, &str); 3] = [
    ("pytorch", include_str!("check_pytorch.py")),
    ("tensorflow", include_str!("check_tensorflow.py")),
    ("jax", include_str!("check_jax.py")),
];
const OTHER: &str = include_str!("check_other.py");

/// A script that prints whether the framework sees the expected device; exit code 0 only then.
pub fn check_script(plan: &EnvPlan) -> String {
    let script =
        SCRIPTS.iter().find(|(name, _)| *name == plan.candidate.framework).map_or(OTHER, |(_, text)| text);
    // ROCm builds use the CUDA API names.
    let expected = match plan.candidate.accelerator {
        Accelerator::Cuda | Accelerator::Rocm => "cuda",
        Accelerator::Xpu => "xpu",
        Accelerator::Mps => "mps",
        Accelerator::Cpu => "cpu",
    };
    script.replace("@EXPECTED@", expected).replace("@MODULE@", &plan.import)
}
