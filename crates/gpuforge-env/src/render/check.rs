//! Does the framework see the GPU? A script to run inside the environment.

use crate::{compat::Accelerator, profiles::Plan};

/// The file it is written to.
pub const CHECK_FILE: &str = "check_gpu.py";

/// A script per framework; a framework of a newer table gets the plain import.
const SCRIPTS: [(&str, &str); 3] = [
    ("pytorch", include_str!("check_pytorch.py")),
    ("tensorflow", include_str!("check_tensorflow.py")),
    ("jax", include_str!("check_jax.py")),
];
const OTHER: &str = include_str!("check_other.py");

/// A script that prints whether the framework sees what it was installed for, and ends with 0 only then.
pub fn check_script(plan: &Plan) -> String {
    let script =
        SCRIPTS.iter().find(|(name, _)| *name == plan.candidate.framework).map_or(OTHER, |(_, text)| text);
    // ROCm builds of the frameworks answer under the names of CUDA.
    let expected = match plan.candidate.accelerator {
        Accelerator::Cuda | Accelerator::Rocm => "cuda",
        Accelerator::Xpu => "xpu",
        Accelerator::Mps => "mps",
        Accelerator::Cpu => "cpu",
    };
    script.replace("@EXPECTED@", expected).replace("@MODULE@", &plan.import)
}
