//! `gpuforge.def`: an image for machines where only Apptainer may run.

use super::{CHECK_FILE, comments, headline, pip_lines, remarks};
use crate::{compat::Accelerator, profiles::Plan};

pub(super) fn render(plan: &Plan) -> String {
    let flag = match plan.candidate.accelerator {
        Accelerator::Cuda => "--nv ",
        Accelerator::Rocm => "--rocm ",
        Accelerator::Xpu => "--bind /dev/dri ",
        Accelerator::Mps | Accelerator::Cpu => "",
    };
    let mut out = String::new();
    out.push_str(&format!("Bootstrap: docker\nFrom: python:{}-slim\n\n", plan.candidate.python));
    out.push_str(&comments(&[
        headline(plan),
        format!("apptainer build gpuforge.sif gpuforge.def && apptainer run {flag}gpuforge.sif"),
    ]));
    // Behind the last section a comment would be part of it.
    out.push_str(&comments(&remarks(plan, "pip")));
    out.push_str(&format!("\n%files\n    {CHECK_FILE} /opt/{CHECK_FILE}\n"));
    out.push_str(&format!(
        "\n%post\n    pip install --no-cache-dir \\\n        {}\n",
        pip_lines(plan).join(" \\\n        ")
    ));
    // The caller's own packages must not shine through: apptainer mounts the home directory. LD_LIBRARY_PATH is how --nv
    // hands in the driver, and stays.
    out.push_str("\n%environment\n    export PYTHONNOUSERSITE=1\n    unset PYTHONPATH\n");
    out.push_str(&format!(
        "\n%runscript\n    if [ \"$#\" -gt 0 ]; then\n        exec python \"$@\"\n    fi\n    exec python /opt/{CHECK_FILE}\n"
    ));
    out
}
