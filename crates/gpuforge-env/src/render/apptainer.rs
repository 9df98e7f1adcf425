//! Renders `gpuforge.def`: an Apptainer image definition.

use super::{CHECK_FILE, comments, headline, pip_lines, remarks};
use crate::{compat::Accelerator, profiles::EnvPlan};

pub(super) fn render(plan: &EnvPlan) -> String {
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
    // After the last section, a comment would be part of it.
    out.push_str(&comments(&remarks(plan, "pip")));
    out.push_str(&format!("\n%files\n    {CHECK_FILE} /opt/{CHECK_FILE}\n"));
    out.push_str(&format!(
        "\n%post\n    pip install --no-cache-dir \\\n        {}\n",
        pip_lines(plan).join(" \\\n        ")
    ));
    // Apptainer mounts the home directory: the caller's user site-packages must not be visible. LD_LIBRARY_PATH is how --nv
    // passes the driver, so it stays.
    out.push_str("\n%environment\n    export PYTHONNOUSERSITE=1\n    unset PYTHONPATH\n");
    out.push_str(&format!(
        "\n%runscript\n    if [ \"$#\" -gt 0 ]; then\n        exec python \"$@\"\n    fi\n    exec python /opt/{CHECK_FILE}\n"
    ));
    out
}
